//! How a session is opened, and what answers the server's callbacks.

use std::{sync::Arc, time::Duration};

use weft_nfs::{
    Attrs, NfsStat, OpArgs, OpOk,
    callback::{
        CbGetattrArgs, CbLayoutrecallArgs, CbNotifyLockArgs, CbRecallAnyArgs, CbRecallArgs,
    },
};

use crate::{core::Role, identity::Identity, rpc::Credential, waiting::OnWait};

/// How a session is opened.
#[derive(Clone)]
pub struct SessionOptions {
    /// 1 or 2.
    pub minorversion: u32,
    /// Who this client is to the server; unique among its clients.
    pub identity: Identity,
    /// Metadata or data.
    pub role: Role,
    /// Slots asked for: requests under way at a time.
    pub slots: u32,
    /// Whose requests these are, unless [`super::Session::acting_for`] says otherwise.
    pub credential: Credential,
    /// How long a request waits for a server that cannot be reached or asks for delay. It waits for
    /// two leases at least where the wait ends by itself by then: in grace, and for a file that
    /// another client holds.
    pub patience: Duration,
    /// What answers recalls; without it no back channel is made.
    pub callbacks: Option<Arc<dyn CallbackHandler>>,
    /// Told of what requests wait for.
    pub on_wait: Option<OnWait>,
}

impl SessionOptions {
    /// Options for a server role: 4.2, 32 slots, no back channel, a minute and a half of
    /// patience with a metadata server and a quarter of one with a data server.
    pub fn new(
        role: Role,
        identity: impl Into<Identity>,
        credential: Credential,
    ) -> SessionOptions {
        let patience = match role {
            Role::Mds => Duration::from_secs(90),
            Role::Ds => Duration::from_secs(15),
        };
        SessionOptions {
            minorversion: 2,
            identity: identity.into(),
            role,
            slots: 32,
            credential,
            patience,
            callbacks: None,
            on_wait: None,
        }
    }
}

impl std::fmt::Debug for SessionOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SessionOptions")
            .field("minorversion", &self.minorversion)
            .field("identity", &self.identity)
            .field("role", &self.role)
            .field("slots", &self.slots)
            .finish_non_exhaustive()
    }
}

/// Answers recalls. The methods decide and return; whatever takes time runs in another task.
///
/// **Never known behind it**: slots, sequence ids and connections of the back channel (what is sent
/// again was answered before it gets here). Before it, what is open, delegated or laid out is not
/// known.
pub trait CallbackHandler: Send + Sync + 'static {
    /// CB_LAYOUTRECALL (§20.3): OK if it will be returned, NOMATCHING_LAYOUT, or DELAY.
    fn cb_layoutrecall(&self, args: &CbLayoutrecallArgs) -> NfsStat;
    /// CB_RECALL (§20.2): OK if the delegation will be returned.
    fn cb_recall(&self, args: &CbRecallArgs) -> NfsStat;
    /// CB_RECALL_ANY (§20.6): OK if what is too much will be returned.
    fn cb_recall_any(&self, args: &CbRecallAnyArgs) -> NfsStat;
    /// CB_GETATTR (§20.1): what the holder of a write delegation knows of the file.
    ///
    /// # Errors
    /// BADHANDLE if there is no such delegation.
    fn cb_getattr(&self, args: &CbGetattrArgs) -> Result<Attrs, NfsStat>;
    /// CB_NOTIFY_LOCK (§20.11): a lock that was denied may be free.
    fn cb_notify_lock(&self, args: &CbNotifyLockArgs) -> NfsStat;
    /// The server has said that it took some state away (`SEQ4_STATUS_*_REVOKED`, §18.46.3). Which,
    /// is to be found out, and freed.
    fn state_revoked(&self);
}

/// What a client has a right to have again from a server that has started anew and still knows of
/// it (RFC 8881 §8.4.2): asked while the session is made anew, before the server is told that
/// nothing more is reclaimed.
///
/// **Never known behind it**: sessions, slots, and what others reclaim. All requests of the client
/// wait meanwhile, so it neither waits nor makes one by itself.
pub trait Reclaims: Send + Sync + 'static {
    /// The requests, which are made one after another; what the server puts off is made again after
    /// the others, as long as the client has patience.
    fn requests(&self) -> Vec<Reclaim>;
}

/// One request to reclaim something.
pub struct Reclaim {
    /// Whose request it is.
    pub caller: Credential,
    /// The operations after SEQUENCE.
    pub ops: Vec<OpArgs>,
    /// Hears of the results, up to the first operation that failed.
    pub done: Box<dyn FnOnce(Vec<OpOk>) + Send>,
}
