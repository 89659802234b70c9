//! Operations on clients and sessions, the same for every role: RFC 8881 §18.33-§18.37,
//! §18.50, §18.51.

use tokio::time::Instant;
use weft_nfs::{
    NfsStat, OpArgs, OpOk, SessionId, exchgid,
    ops::{CreateSessionArgs, DestroyClientidArgs, ExchangeIdArgs, ReclaimCompleteArgs},
};
use weft_state::{Origin, Principal, Underway};

use super::{Compound, OpResult, Role};
use crate::{
    clock::random,
    core::FENCE_WAIT_MAX,
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
        OpArgs::DestroySession(a) => destroy_session(role, c, a.sessionid).await,
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
    let (mut known, underway) = {
        let from = Origin { principal: principal(c), address: c.conn.peer.ip().to_canonical() };
        let mut sessions = role.core().sessions();
        let underway = sessions.underway_before(&a.clientowner, c.session.as_ref());
        let known = sessions.exchange_id(c.now, a, &from, entropy, holds_state);
        (known.map_err(refused)?, underway)
    };
    if let Some(gone) = known.purged {
        role.clients_gone(vec![gone]).await;
    }
    wait_for(role, &underway, Instant::now() + FENCE_WAIT_MAX).await?;
    if c.minorversion < 2 {
        known.ok.flags &= !exchgid::SUPP_FENCE_OPS;
    }
    Ok(OpOk::ExchangeId(known.ok))
}

/// RFC 7862 §14.1.4: the answer means that the requests before it were done, or never will be.
///
/// # Errors
/// DELAY: some are still being executed, or too many wait. One that can wait for this very answer
/// may be among them, as when two requests destroy each other's session.
async fn wait_for<R: Role>(role: &R, requests: &Underway, until: Instant) -> Result<(), NfsStat> {
    let ended = requests.is_empty() || role.core().have_ended(requests, until).await;
    if ended { Ok(()) } else { Err(NfsStat::DELAY) }
}

/// RFC 8881 §18.37.3; what is under way on the session ends first.
async fn destroy_session<R: Role>(role: &R, c: &Compound<R>, id: SessionId) -> OpResult {
    let until = Instant::now() + FENCE_WAIT_MAX;
    loop {
        let underway = {
            let mut sessions = role.core().sessions();
            let underway = sessions.underway_on(id, c.conn.id, c.session.as_ref());
            let underway = underway.map_err(refused)?;
            if underway.is_empty() {
                sessions.destroy_session(id, c.conn.id).map_err(refused)?;
                return Ok(OpOk::DestroySession);
            }
            underway
        };
        wait_for(role, &underway, until).await?;
    }
}

async fn create_session<R: Role>(role: &R, c: &Compound<R>, a: &CreateSessionArgs) -> OpResult {
    let (who, holds_state) = (principal(c), |client| role.client_has_state(client));
    let made = {
        let mut sessions = role.core().sessions();
        // What the incarnation before asks ends before it does (RFC 7862 §14.1.4).
        if !sessions.underway_replaced(a.clientid, c.session.as_ref()).is_empty() {
            return Err(NfsStat::DELAY.into());
        }
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
