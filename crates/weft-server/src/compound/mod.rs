//! COMPOUND: RFC 8881 §16.2, and the rules around it that are the same for every role.

mod decode;
mod dispatch;
mod fingerprint;
mod gate;
mod payload;
mod program;
mod reply;
mod session_ops;

use std::{future::Future, sync::Arc};

use weft_nfs::{ClientId, Failure, NfsStat, OpArgs, OpOk, Stateid};
use weft_state::{ConfirmedClient, InSession, Millis};

use crate::{
    core::Core,
    op_table::{Row, Server},
    rpc::{Caller, Conn, ReplyBudget},
};

pub use program::Nfs;

/// The result of one operation.
pub type OpResult = Result<OpOk, Failure>;

/// What a role (metadata server, data server) adds to the common machinery.
pub trait Role: Send + Sync + Sized + 'static {
    /// A decoded filehandle.
    type Handle: Clone + Send + Sync + 'static;

    /// What a reply waits for (log sequence numbers that must be durable), as operations collect
    /// it.
    type Deps: Default + std::fmt::Debug + Send + Sync + 'static;

    /// What the role grants to a caller behind one connection.
    type View: std::fmt::Debug + Copy + Send + Sync + 'static;

    /// Which column of the operation table is this server's.
    const SERVER: Server;

    /// Sessions, clock and counters.
    fn core(&self) -> &Core;

    /// What it grants to this caller behind this connection; asked once a COMPOUND.
    fn view(&self, conn: &Conn, caller: &Caller) -> Self::View;

    /// Whether those whom it grants this may come as clients, and go.
    ///
    /// # Errors
    /// ACCESS.
    fn serves(&self, _: Self::View) -> Result<(), NfsStat> {
        Ok(())
    }

    /// The caller with what this role knows better than the caller's credential.
    fn caller(&self, _: Self::View, caller: Caller) -> impl Future<Output = Caller> + Send {
        std::future::ready(caller)
    }

    /// Executes an operation other than those of clients and sessions.
    fn execute<'a>(
        &'a self,
        c: &'a mut Compound<Self>,
        row: &'static Row,
        args: OpArgs,
    ) -> impl Future<Output = OpResult> + Send + 'a;

    /// Waits until everything the reply depends on is durable.
    ///
    /// # Errors
    /// It never will be: no reply may be sent.
    fn durable<'a>(
        &'a self,
        c: &'a Compound<Self>,
    ) -> impl Future<Output = Result<(), NfsStat>> + Send + 'a;

    /// A client's record was confirmed by its first CREATE_SESSION.
    fn client_confirmed(&self, client: &ConfirmedClient) -> impl Future<Output = ()> + Send;

    /// Clients are gone (old incarnations, destroyed ones): their state goes too.
    fn clients_gone(&self, clients: Vec<ClientId>) -> impl Future<Output = ()> + Send;

    /// Whether the client holds anything that DESTROY_CLIENTID must not destroy.
    fn client_has_state(&self, client: ClientId) -> bool;

    /// RECLAIM_COMPLETE of a client, after the session machinery accepted it.
    fn reclaim_complete<'a>(
        &'a self,
        c: &'a mut Compound<Self>,
        client: ClientId,
    ) -> impl Future<Output = Result<(), Failure>> + Send + 'a;
}

/// One COMPOUND in execution: what its operations share.
#[derive(Debug)]
pub struct Compound<R: Role> {
    /// The connection it came on.
    pub conn: Arc<Conn>,
    /// Who calls, before any squashing.
    pub caller: Caller,
    /// What the role grants to this caller.
    pub view: R::View,
    /// 1 or 2.
    pub minorversion: u32,
    /// Monotonic time of arrival.
    pub now: Millis,
    /// Slot and session, once SEQUENCE was executed.
    pub session: Option<InSession>,
    /// Current filehandle.
    pub current: Option<R::Handle>,
    /// Saved filehandle.
    pub saved: Option<R::Handle>,
    /// Current stateid (§16.2.3.1.2).
    pub current_stateid: Option<Stateid>,
    /// Saved stateid.
    pub saved_stateid: Option<Stateid>,
    /// An OPEN succeeded in this COMPOUND.
    pub opened: bool,
    /// A LAYOUTCOMMIT in this COMPOUND told of writes that were not told of before.
    pub committed_writes: bool,
    /// The operation after the one that is executed; ILLEGAL's row if its number means nothing.
    pub next: Option<&'static Row>,
    /// What the reply waits for.
    pub deps: R::Deps,
    /// Memory that the reply takes until it is sent.
    pub reply_budget: Vec<ReplyBudget>,
}

impl<R: Role> Compound<R> {
    /// The session's client.
    ///
    /// # Errors
    /// OP_NOT_IN_SESSION.
    pub fn client(&self) -> Result<ClientId, Failure> {
        self.session.as_ref().map(|s| s.clientid).ok_or(NfsStat::OP_NOT_IN_SESSION.into())
    }

    /// The current filehandle.
    ///
    /// # Errors
    /// NOFILEHANDLE.
    pub fn handle(&self) -> Result<R::Handle, Failure> {
        self.current.clone().ok_or(NfsStat::NOFILEHANDLE.into())
    }

    /// The saved filehandle.
    ///
    /// # Errors
    /// NOFILEHANDLE.
    pub fn saved_handle(&self) -> Result<R::Handle, Failure> {
        self.saved.clone().ok_or(NfsStat::NOFILEHANDLE.into())
    }

    /// Replaces the current filehandle; the current stateid goes with the old one
    /// (RFC 8881 §16.2.3.1.2).
    pub fn set_current(&mut self, handle: R::Handle) {
        self.current = Some(handle);
        self.current_stateid = None;
    }

    /// The stateid meant: the special "current" one is looked up.
    ///
    /// # Errors
    /// BAD_STATEID when there is no current stateid.
    pub fn stateid(&self, given: Stateid) -> Result<Stateid, Failure> {
        if given == Stateid::CURRENT {
            self.current_stateid.ok_or(NfsStat::BAD_STATEID.into())
        } else {
            Ok(given)
        }
    }

    /// Waits until a result of this many bytes may be made: this connection's earlier ones must be
    /// read first.
    ///
    /// # Errors
    /// DELAY for a further large result of one COMPOUND when there is no room: waiting while
    /// holding some could wait for ever.
    pub async fn reserve_reply(&mut self, bytes: u64) -> Result<(), Failure> {
        if self.reply_budget.is_empty() {
            self.reply_budget.extend(self.conn.reserve_reply(bytes).await);
            return Ok(());
        }
        let more = self.conn.try_reserve_reply(bytes).ok_or(NfsStat::DELAY)?;
        self.reply_budget.push(more);
        Ok(())
    }

    /// SAVEFH (32): RFC 8881 §18.28.
    pub fn savefh(&mut self) -> OpResult {
        self.saved = Some(self.handle()?);
        self.saved_stateid = self.current_stateid;
        Ok(OpOk::Savefh)
    }

    /// RESTOREFH (31): RFC 8881 §18.27.
    pub fn restorefh(&mut self) -> OpResult {
        // §18.27.3: without a saved filehandle the status is NOFILEHANDLE since 4.1.
        self.current = Some(self.saved_handle()?);
        self.current_stateid = self.saved_stateid;
        Ok(OpOk::Restorefh)
    }
}
