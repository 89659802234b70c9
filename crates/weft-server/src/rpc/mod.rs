//! The RPC service: connections, records, calls and replies (RFC 5531).
//!
//! A connection is read by one task and written by another. Calls run concurrently, within a
//! bound of requests and bytes; replies leave in the order they are finished. A record that
//! cannot be parsed ends its connection and nothing else.
//!
//! A program may be served over secure connections only. Whoever wants one greets the program with
//! the first record; what comes after the answer is sealed.

mod callback;
mod conn;
mod hosts;
mod incoming;
mod owner;
mod serve;

use std::{future::Future, pin::Pin, sync::Arc};

use bytes::Bytes;
use weft_io::Ciphers;
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
    pub conn: Arc<Conn>,
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

/// What a program makes of a greeting.
#[derive(Debug)]
pub struct Greeted {
    /// The record to send back.
    pub answer: Bytes,
    /// What seals the connection from here on, and who the peer is; none if it was refused.
    pub secured: Option<(Ciphers, Bytes)>,
}

/// An RPC program served on a port. Procedure 0 is answered before it gets here.
pub trait Program: Send + Sync + 'static {
    /// Program number.
    fn program(&self) -> u32;
    /// The one version served.
    fn version(&self) -> u32;
    /// Whether it is served over secure connections, and only there.
    fn is_secure(&self) -> bool {
        false
    }
    /// Answers the first record of a connection, if it is a greeting. Nobody has proven anything
    /// by it that was not said before, perhaps by somebody else: nothing may change for it.
    fn greet(&self, _: &Conn, _: &Bytes) -> Option<Greeted> {
        None
    }
    /// The first sealed record of a connection that greeted this program was opened: its peer is
    /// who [`Conn::peer_name`] says.
    fn proven(&self, _: &Arc<Conn>) {}
    /// Whether a call carries a payload that a disk may take; `head`, the first bytes of its
    /// arguments, then stands where it begins. It says only how the rest is received: nothing is
    /// judged by it.
    fn skip_to_payload(&self, _head: &mut Reader) -> bool {
        false
    }
    /// Executes a call.
    fn call(&self, call: Call) -> AnswerFuture<'_>;
    /// Whether a connection belongs to somebody known (a session is bound to it, say): others end
    /// after the server's idle limit.
    fn holds(&self, conn: &Conn) -> bool;
    /// A connection is gone.
    fn closed(&self, conn: &Conn);
}
