//! NFSv4 as an RPC program.

use std::sync::Arc;

use weft_nfs::{NFS_PROGRAM, NFS_V4, PROC_COMPOUND};
use weft_xdr::Reader;

use super::{Role, dispatch, payload};
use crate::rpc::{Answer, AnswerFuture, Call, Conn, Program};

/// What the state of a call may take, bytes: it is made and moved for each. Rare steps that need
/// much go into boxes of their own.
const CALL_BYTES_MAX: usize = 8 << 10;

/// NFSv4 as an RPC program, for one role.
#[derive(Debug)]
pub struct Nfs<R>(Arc<R>);

impl<R: Role> Nfs<R> {
    /// The program served by this role.
    pub fn new(role: Arc<R>) -> Self {
        Nfs(role)
    }
}

impl<R: Role> Program for Nfs<R> {
    fn program(&self) -> u32 {
        NFS_PROGRAM
    }

    fn version(&self) -> u32 {
        NFS_V4
    }

    fn skip_to_payload(&self, head: &mut Reader) -> bool {
        payload::skip_to(head)
    }

    fn call(&self, call: Call) -> AnswerFuture<'_> {
        let answer = async move {
            if call.header.procedure != PROC_COMPOUND {
                return Answer::ProcUnavail;
            }
            let _under_way = self.0.core().counters.begin();
            dispatch::compound(&*self.0, call).await
        };
        debug_assert!(size_of_val(&answer) <= CALL_BYTES_MAX, "{} bytes", size_of_val(&answer));
        Box::pin(answer)
    }

    fn holds(&self, conn: &Conn) -> bool {
        self.0.core().sessions().is_conn_bound(conn.id)
    }

    fn closed(&self, conn: &Conn) {
        self.0.core().sessions().conn_closed(conn.id);
    }
}
