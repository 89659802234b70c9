//! The RPC service: connections, records, calls and replies (RFC 5531).
//!
//! A connection is read by one task and written by another. Calls run concurrently, within a
//! bound of requests and bytes; replies leave in the order they are finished. A record that
//! cannot be parsed ends its connection and nothing else.

mod callback;
mod conn;
mod hosts;
mod owner;
mod serve;

use std::{future::Future, pin::Pin};

use weft_xdr::{Reader, Segment, rpc::CallHeader};

pub use callback::CallbackError;
pub use conn::{Conn, Connections, ReplyBudget};
pub use hosts::ServerLimits;
pub use serve::{Server, Workers};

/// Caller of an RPC, as AUTH_SYS tells it (RFC 5531 §14). AUTH_NONE is nobody.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    /// Effective user.
    pub uid: u32,
    /// Effective group.
    pub gid: u32,
    /// Supplementary groups.
    pub gids: Vec<u32>,
    /// Whether there was a credential at all.
    pub known: bool,
}

/// User and group of callers without a credential, and of squashed ones.
pub const NOBODY: u32 = 65_534;

impl Caller {
    /// A caller without a credential.
    pub fn nobody() -> Self {
        Caller { uid: NOBODY, gid: NOBODY, gids: Vec::new(), known: false }
    }
}

/// One call.
#[derive(Debug)]
pub struct Call {
    /// The connection it came on.
    pub conn: std::sync::Arc<Conn>,
    /// Program, version, procedure, credential.
    pub header: CallHeader,
    /// Who calls.
    pub caller: Caller,
    /// Bytes of the whole request.
    pub request_bytes: usize,
    /// The arguments.
    pub args: Reader,
}

/// What a program answers.
#[derive(Debug)]
pub enum Answer {
    /// Results of an executed procedure, and the room they take until they are sent.
    Results(Vec<Segment>, Vec<ReplyBudget>),
    /// The procedure does not exist.
    ProcUnavail,
    /// The arguments could not be decoded.
    GarbageArgs,
    /// No answer can be given: the connection is closed, so that the caller tries again.
    Close,
}

/// A boxed future of an [`Answer`].
pub type AnswerFuture<'a> = Pin<Box<dyn Future<Output = Answer> + Send + 'a>>;

/// An RPC program served on a port. Procedure 0 is answered before it gets here.
pub trait Program: Send + Sync + 'static {
    /// Program number.
    fn program(&self) -> u32;
    /// The one version served.
    fn version(&self) -> u32;
    /// Executes a call.
    fn call(&self, call: Call) -> AnswerFuture<'_>;
    /// Whether a connection belongs to somebody known (a session is bound to it, say): others end
    /// after the server's idle limit.
    fn holds(&self, conn: &Conn) -> bool;
    /// A connection is gone.
    fn closed(&self, conn: &Conn);
}
