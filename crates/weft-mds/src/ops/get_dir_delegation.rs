//! GET_DIR_DELEGATION (46): RFC 8881 §10.9, §18.39.

use weft_nfs::{
    Bitmap, NfsStat, OpOk, Verifier,
    ops::{DirDelegation, GetDirDelegationOk},
};
use weft_server::{
    compound::{Compound, OpResult},
    refusal::refused,
};
use weft_store::types::Rwx;

use super::{data_access::require, lookup::current_directory};
use crate::server::Mds;

/// RFC 8881 §18.39, if the export has them: they are off unless configured, since Linux trusts all
/// that it knew of the names before it was given one (ADR 19). No change is told of: each by
/// another client is a recall. What the client asks to be told, and how late, is therefore of no
/// concern; nor is it called when one becomes available. Who may not list the directory gets none.
pub(super) fn get_dir_delegation(mds: &Mds, c: &mut Compound<Mds>) -> OpResult {
    if !mds.export().delegated.directories {
        return Err(NfsStat::NOTSUPP.into());
    }
    let dir = current_directory(mds, c)?;
    let inode = c.deps.see(mds.files.volume().inode(dir))?;
    let client = c.client()?;
    let may = require(mds, c, &inode, Rwx::READ).is_ok() && mds.protocol.refuse_in_grace().is_ok();
    let granted = may.then(|| mds.clients.delegations.grant_directory(client, dir)).flatten();
    if let Some(stateid) = &granted
        && let Err(e) = c.deps.see(mds.files.volume().inode(dir))
    {
        let (mut state, dir) = (mds.protocol.state(), mds.files.key(dir));
        match e.status {
            // It was removed since the look.
            NfsStat::STALE => state.delegations_forget(dir),
            _ => drop(state.delegation_return(client, stateid, dir).map_err(refused)?),
        }
        return Err(e);
    }
    Ok(OpOk::GetDirDelegation(match granted {
        Some(stateid) => GetDirDelegationOk::Granted(DirDelegation {
            // Cookies are stable for ever: `readdir`.
            cookieverf: Verifier::default(),
            stateid,
            notification: Bitmap::EMPTY,
            child_attributes: Bitmap::EMPTY,
            dir_attributes: Bitmap::EMPTY,
        }),
        None => GetDirDelegationOk::Unavailable { will_signal: false },
    }))
}
