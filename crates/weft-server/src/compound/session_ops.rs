//! Operations on clients and sessions, the same for every role: RFC 8881 §18.33-§18.37,
//! §18.50, §18.51.

use weft_nfs::{
    NfsStat, OpArgs, OpOk, exchgid,
    ops::{CreateSessionArgs, DestroyClientidArgs, ExchangeIdArgs, ReclaimCompleteArgs},
};
use weft_state::{Origin, Principal};

use super::{Compound, OpResult, Role};
use crate::{
    clock::random,
    op_table::{ExportUse, Row},
    refusal::refused,
};

/// Runs a session operation, or hands the operation to the role.
pub(super) async fn execute<R: Role>(
    role: &R,
    c: &mut Compound<R>,
    row: &'static Row,
    args: OpArgs,
) -> OpResult {
    if row.export == ExportUse::ComesOrGoes {
        role.serves(c.view)?;
    }
    match args {
        OpArgs::ExchangeId(a) => exchange_id(role, c, &a).await,
        OpArgs::CreateSession(a) => create_session(role, c, &a).await,
        OpArgs::DestroySession(a) => {
            let mut sessions = role.core().sessions();
            sessions.destroy_session(a.sessionid, c.conn.id).map_err(refused)?;
            Ok(OpOk::DestroySession)
        }
        OpArgs::DestroyClientid(a) => destroy_clientid(role, &a).await,
        OpArgs::BindConnToSession(a) => {
            let bound = role.core().sessions().bind_conn_to_session(c.now, &a, c.conn.id);
            Ok(OpOk::BindConnToSession(bound.map_err(refused)?))
        }
        OpArgs::BackchannelCtl(a) => {
            let session = c.session.as_ref().ok_or(NfsStat::OP_NOT_IN_SESSION)?.sessionid;
            role.core().sessions().backchannel_ctl(session, &a).map_err(refused)?;
            Ok(OpOk::BackchannelCtl)
        }
        OpArgs::ReclaimComplete(a) => reclaim_complete(role, c, &a).await,
        OpArgs::Savefh => c.savefh(),
        OpArgs::Restorefh => c.restorefh(),
        args => role.execute(c, row, args).await,
    }
}

fn principal<R: Role>(c: &Compound<R>) -> Principal {
    if c.caller.known { Principal::Sys { uid: c.caller.uid } } else { Principal::None }
}

async fn exchange_id<R: Role>(role: &R, c: &Compound<R>, a: &ExchangeIdArgs) -> OpResult {
    // RFC 7862 §14.1: this flag came with 4.2.
    if c.minorversion < 2 && a.flags & exchgid::SUPP_FENCE_OPS != 0 {
        return Err(NfsStat::INVAL.into());
    }
    let entropy = u32::from_be_bytes(random());
    let holds_state = |client| role.client_has_state(client);
    let known = {
        let from = Origin { principal: principal(c), address: c.conn.peer.ip().to_canonical() };
        let mut sessions = role.core().sessions();
        sessions.exchange_id(c.now, a, &from, entropy, holds_state).map_err(refused)?
    };
    if let Some(gone) = known.purged {
        role.clients_gone(vec![gone]).await;
    }
    Ok(OpOk::ExchangeId(known.ok))
}

async fn create_session<R: Role>(role: &R, c: &Compound<R>, a: &CreateSessionArgs) -> OpResult {
    let (who, holds_state) = (principal(c), |client| role.client_has_state(client));
    let made = {
        let mut sessions = role.core().sessions();
        let made = sessions.create_session(c.now, a, (&who, c.conn.id), random(), holds_state);
        let made = made.map_err(refused)?;
        sessions.note_minorversion(made.ok.sessionid, c.minorversion);
        made
    };
    if !made.purged.is_empty() {
        role.clients_gone(made.purged).await;
    }
    if let Some(client) = &made.confirmed {
        role.client_confirmed(client).await;
    }
    Ok(OpOk::CreateSession(made.ok))
}

async fn destroy_clientid<R: Role>(role: &R, a: &DestroyClientidArgs) -> OpResult {
    let has_state = role.client_has_state(a.clientid);
    role.core().sessions().destroy_clientid(a.clientid, has_state).map_err(refused)?;
    role.clients_gone(vec![a.clientid]).await;
    Ok(OpOk::DestroyClientid)
}

async fn reclaim_complete<R: Role>(
    role: &R,
    c: &mut Compound<R>,
    a: &ReclaimCompleteArgs,
) -> OpResult {
    let client = c.client()?;
    if a.one_fs {
        // §18.51.3: for one file system only; nothing migrates here, so it changes nothing.
        c.handle()?;
        return Ok(OpOk::ReclaimComplete);
    }
    role.core().sessions().reclaim_complete(client).map_err(refused)?;
    role.reclaim_complete(c, client).await?;
    Ok(OpOk::ReclaimComplete)
}
