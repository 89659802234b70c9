//! What WRITE and the operations on data of NFSv4.2 check and do alike: RFC 7862 §15, which sends
//! to READ's and WRITE's rules for stateids (RFC 8881 §8.2.5, §18.22.3, §18.32.3).

use weft_nfs::{Failure, NfsStat, Stateid};
use weft_server::compound::Compound;
use weft_state::IoAccess;
use weft_store::types::{Inode, Kind, Rwx};

use super::attrs::MAX_FILE_BYTES;
use crate::{clients::Undelegated, files::Writer, handle::Handle, server::Mds};

/// The inode of a filehandle that must be of a regular file, else WRONG_TYPE whatever it is.
pub(super) fn regular_file(
    mds: &Mds,
    c: &mut Compound<Mds>,
    handle: &Handle,
) -> Result<Inode, Failure> {
    let inode = c.deps.see(mds.files.volume().inode(handle.ino))?;
    if inode.kind == Kind::File { Ok(inode) } else { Err(NfsStat::WRONG_TYPE.into()) }
}

/// Whether the stateid, or without one the caller, may read or write the file; reading by an open
/// for writing only, both. `stateid` is a real one by now: the current one has been looked up.
pub(super) fn may_access(
    mds: &Mds,
    c: &mut Compound<Mds>,
    inode: &Inode,
    stateid: &Stateid,
    access: IoAccess,
) -> Result<(), Failure> {
    if stateid.is_special() {
        mds.protocol.refuse_in_grace()?;
        let mode = if access == IoAccess::Write { Rwx::WRITE } else { Rwx::READ };
        require(mds, c, inode, mode)?;
    }
    // Last: it may end the courtesy that others are kept by.
    let holder = (c.client()?, stateid);
    let allowed = mds.clients.check_io(&mut c.deps, holder, mds.files.key(inode.no), access)?;
    if allowed.open || stateid.is_special() || may_read_opened(mds, c, inode) {
        return Ok(());
    }
    Err(NfsStat::ACCESS.into())
}

/// [`may_access`] for reading. An open has seen to the write delegation of another; without one
/// that is taken back (RFC 8881 §10.4.4). The file as it is then.
pub(super) async fn may_read(
    mds: &Mds,
    c: &mut Compound<Mds>,
    inode: Inode,
    stateid: &Stateid,
) -> Result<Inode, Failure> {
    may_access(mds, c, &inode, stateid, IoAccess::Read)?;
    if !stateid.is_special() {
        return Ok(inode);
    }
    let (client, file) = (c.client()?, mds.files.key(inode.no));
    mds.clients.delegations.take_back_to_read(client, file).await?;
    c.deps.see(mds.files.volume().inode(inode.no))
}

/// [`may_access`] for writing. An open for writing has seen to the delegations of others; without
/// one they are taken back, for as long as the result lives (RFC 8881 §10.4.4).
pub(super) async fn may_write<'a>(
    mds: &'a Mds,
    c: &mut Compound<Mds>,
    inode: &Inode,
    stateid: &Stateid,
) -> Result<Option<Undelegated<'a>>, Failure> {
    may_access(mds, c, inode, stateid, IoAccess::Write)?;
    match stateid.is_special() {
        true => Ok(Some(
            mds.clients.delegations.take_back(c.client()?, mds.files.key(inode.no), false).await?,
        )),
        false => Ok(None),
    }
}

/// Who changes the current file.
///
/// # Errors
/// OP_NOT_IN_SESSION.
pub(super) fn writer(mds: &Mds, c: &Compound<Mds>, inode: &Inode) -> Result<Writer, Failure> {
    Ok(Writer { client: c.client()?, set_id_loss: inode.set_id_loss(&mds.credential(c)) })
}

/// Refuses what the mode does not allow the caller.
///
/// # Errors
/// ACCESS.
pub(super) fn require(
    mds: &Mds,
    c: &Compound<Mds>,
    inode: &Inode,
    wanted: Rwx,
) -> Result<(), Failure> {
    let allowed = inode.allowed(&mds.credential(c));
    if allowed.contains(wanted) { Ok(()) } else { Err(NfsStat::ACCESS.into()) }
}

/// Whether the caller may read a file that he has open for writing only: by the mode, or as its
/// owner, whose open may be older than the mode (as Linux's server does).
pub(super) fn may_read_opened(mds: &Mds, c: &Compound<Mds>, inode: &Inode) -> bool {
    mds.credential(c).uid == inode.uid || require_to_read(mds, c, inode).is_ok()
}

/// Refuses to open a file for reading (RFC 8881 §18.16.3).
///
/// # Errors
/// ACCESS.
pub(super) fn require_to_read(mds: &Mds, c: &Compound<Mds>, inode: &Inode) -> Result<(), Failure> {
    let may = inode.rights(&mds.credential(c)).may_read_bytes();
    if may { Ok(()) } else { Err(NfsStat::ACCESS.into()) }
}

/// The end of a range that is to be in a file.
///
/// # Errors
/// INVAL if it is empty, FBIG if it ends beyond the largest file.
pub(super) fn end_of(offset: u64, length: u64) -> Result<u64, Failure> {
    if length == 0 {
        return Err(NfsStat::INVAL.into());
    }
    let end = offset.checked_add(length).filter(|end| *end <= MAX_FILE_BYTES);
    end.ok_or(NfsStat::FBIG.into())
}
