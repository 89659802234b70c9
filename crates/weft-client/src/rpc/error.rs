//! What can go wrong with a call.

use std::{net::SocketAddr, sync::Arc};

use weft_xdr::{DecodeError, rpc::Reply};

/// Why a call has no result.
#[derive(Debug, Clone, thiserror::Error)]
pub enum RpcError {
    /// No connection could be made.
    #[error("cannot connect to {addr}: {why}")]
    Connect {
        /// The server.
        addr: SocketAddr,
        /// What the system said.
        why: Arc<str>,
    },
    /// The connection ended before the reply came: the call may or may not have been executed.
    #[error("connection lost: {0}")]
    Lost(Arc<str>),
    /// A file range of our own call could not be sent: the call was not executed.
    #[error("cannot send from the local file: {0}")]
    Source(Arc<str>),
    /// The peer's RPC layer refused the call; it was not executed.
    #[error("refused by the RPC layer: {0:?}")]
    Refused(Reply),
    /// The reply is not an RPC message.
    #[error(transparent)]
    Decode(#[from] DecodeError),
}

impl RpcError {
    pub(crate) fn lost(why: impl std::fmt::Display) -> RpcError {
        RpcError::Lost(why.to_string().into())
    }
}
