//! Calling clients back: one operation behind its CB_SEQUENCE (RFC 8881 §2.10.3.1, §20.9).

use std::{sync::Arc, time::Duration};

use weft_nfs::{
    ClientId, NfsStat,
    callback::{CB_PROC_COMPOUND, CB_VERSION, CbBody, CbCompoundHeader, CbOp, CbReply},
};
use weft_server::{core::Core, rpc::CallbackError};
use weft_state::Callback;
use weft_xdr::{
    Decode, Encode, Writer,
    rpc::{AuthFlavor, CallHeader, OpaqueAuth},
};

/// How long one callback may take before it is sent again or given up; less with a short lease: a
/// client that does not answer is told so (SEQ4_STATUS_CB_PATH_DOWN) before it loses anything.
const CALLBACK_TIMEOUT: Duration = Duration::from_secs(5);

/// The way to clients.
#[derive(Debug)]
pub(crate) struct Callbacks {
    core: Arc<Core>,
}

impl Callbacks {
    /// To the clients of this server.
    pub(crate) fn new(core: Arc<Core>) -> Self {
        Callbacks { core }
    }

    /// One callback operation behind its CB_SEQUENCE; the operation's status. Runs to its end
    /// even if nobody waits for it any more, since it holds a slot of the back channel.
    pub(crate) async fn call(&self, client: ClientId, op: &CbOp) -> Result<NfsStat, CallbackError> {
        self.ask(client, op).await.map(|(status, _)| status)
    }

    /// The same, with what the operation returned.
    pub(crate) async fn ask(
        &self,
        client: ClientId,
        op: &CbOp,
    ) -> Result<(NfsStat, CbBody), CallbackError> {
        let begun = self.core.sessions().callback_begin(client);
        let callback = begun.ok_or(CallbackError::Closed)?;
        let reply = self.send_callback(&callback, op).await;
        let mut sessions = self.core.sessions();
        let Ok(reply) = reply else {
            sessions.callback_end(&callback, false);
            return reply.map(|r| (r.status, CbBody::Empty));
        };
        let mut results = reply.results.into_iter();
        match results.next().map(|(_, status, _)| status) {
            Some(NfsStat::OK | NfsStat::RETRY_UNCACHED_REP) => {
                sessions.callback_end(&callback, true);
            }
            // CB_SEQUENCE itself was refused: its sequence id was not used up.
            Some(status) => {
                sessions.callback_refused(&callback);
                return Ok((status, CbBody::Empty));
            }
            None => {
                sessions.callback_end(&callback, false);
                return Ok((reply.status, CbBody::Empty));
            }
        }
        let nothing = (NfsStat::SERVERFAULT, CbBody::Empty);
        Ok(results.next().map_or(nothing, |(_, status, body)| (status, body)))
    }

    async fn send_callback(&self, cb: &Callback, op: &CbOp) -> Result<CbReply, CallbackError> {
        let conn = self.core.connections.find(cb.conn).ok_or(CallbackError::Closed)?;
        let credential = match &cb.sec {
            weft_nfs::ops::CallbackSec::Sys(sys) => {
                OpaqueAuth { flavor: AuthFlavor::SYS, body: weft_xdr::to_bytes(sys) }
            }
            weft_nfs::ops::CallbackSec::None | weft_nfs::ops::CallbackSec::Gss => OpaqueAuth::NONE,
        };
        let header = CallHeader {
            program: cb.cb_program,
            version: CB_VERSION,
            procedure: CB_PROC_COMPOUND,
            credential,
            verifier: OpaqueAuth::NONE,
        };
        let mut w = Writer::new();
        let head = CbCompoundHeader {
            tag: weft_nfs::Opaque::default(),
            minorversion: cb.minorversion,
            callback_ident: 0,
            count: 2,
        };
        head.encode(&mut w);
        CbOp::Sequence(cb.sequence).encode(&mut w);
        op.encode(&mut w);
        let lease = Duration::from_secs(self.core.lease_s.into());
        let limit = CALLBACK_TIMEOUT.min(lease / 4);
        let mut results = conn.call_back(&header, w.into_segments(), limit).await?;
        CbReply::decode(&mut results)
            .map_err(|_| CallbackError::Refused(weft_xdr::rpc::Reply::GarbageArgs))
    }
}
