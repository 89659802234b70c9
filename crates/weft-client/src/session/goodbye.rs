//! The end of a session: the server is asked to forget it and the client, at once.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use weft_nfs::{ClientId, NfsStat, OpArgs, OpNum, OpOk, SessionId, Verifier, ops::*};

use super::inner::{Inner, Link};
use crate::{error::ClientError, limits, random::random};

/// Between two tries of an operation that the server puts off.
const PAUSE: Duration = Duration::from_millis(20);

impl Inner {
    /// Gives up the session and the client record, with all that is left of opens and layouts.
    /// A server that does not answer forgets us when the lease ends.
    pub(super) async fn close(self: &Arc<Self>) {
        if self.closed.swap(true, Ordering::AcqRel) {
            return;
        }
        let said = tokio::time::timeout(limits::GOODBYE_LIMIT, self.say_goodbye()).await;
        if !matches!(said, Ok(Ok(()))) {
            tracing::debug!(server = %self.addr, ?said, "left without being forgotten");
        }
        self.set_link(None);
    }

    async fn say_goodbye(self: &Arc<Self>) -> Result<(), ClientError> {
        let (session, client) = {
            let core = self.core();
            (core.session_id(), core.client_id())
        };
        let Some(clientid) = client else { return Ok(()) };
        let link = self.last_link().await?;
        if let Some(sessionid) = session {
            self.destroy_session(&link, sessionid).await?;
        }
        match self.destroy_clientid(&link, clientid).await? {
            // Something is open still, or a request is under way. What is left behind by a client
            // that starts anew is forgotten (RFC 8881 §18.35.4, case 5).
            Some(NfsStat::CLIENTID_BUSY) => self.start_anew_and_leave(&link).await,
            _ => Ok(()),
        }
    }

    /// The connection there is, or one more.
    async fn last_link(self: &Arc<Self>) -> Result<Link, ClientError> {
        if self.current_link().is_none_or(|l| l.connection.is_closed()) {
            self.connect().await?;
        }
        self.current_link().ok_or(ClientError::Closed)
    }

    async fn start_anew_and_leave(&self, link: &Link) -> Result<(), ClientError> {
        let (known, create) = {
            let core = self.core();
            (core.exchange_id_args_of(Verifier(random()?)), core.create_session_template())
        };
        let known = match self.until_done(link, OpArgs::ExchangeId(known)).await? {
            Ok(OpOk::ExchangeId(known)) => known,
            Ok(_) => return Err(ClientError::unexpected(OpNum::EXCHANGE_ID)),
            Err(status) => return Err(ClientError::Nfs { op: OpNum::EXCHANGE_ID, status }),
        };
        let create =
            CreateSessionArgs { clientid: known.clientid, sequence: known.sequenceid, ..create };
        let made = match self.until_done(link, OpArgs::CreateSession(create)).await? {
            Ok(OpOk::CreateSession(made)) => made,
            Ok(_) => return Err(ClientError::unexpected(OpNum::CREATE_SESSION)),
            Err(status) => return Err(ClientError::Nfs { op: OpNum::CREATE_SESSION, status }),
        };
        self.destroy_session(link, made.sessionid).await?;
        self.destroy_clientid(link, known.clientid).await.map(drop)
    }

    async fn destroy_session(&self, link: &Link, sessionid: SessionId) -> Result<(), ClientError> {
        let args = DestroySessionArgs { sessionid };
        self.until_done(link, OpArgs::DestroySession(args)).await.map(drop)
    }

    /// The status, if it is refused.
    async fn destroy_clientid(
        &self,
        link: &Link,
        clientid: ClientId,
    ) -> Result<Option<NfsStat>, ClientError> {
        let args = DestroyClientidArgs { clientid };
        Ok(self.until_done(link, OpArgs::DestroyClientid(args)).await?.err())
    }

    /// Sends an operation until it is not put off.
    async fn until_done(
        &self,
        link: &Link,
        op: OpArgs,
    ) -> Result<Result<OpOk, NfsStat>, ClientError> {
        loop {
            match self.bare(link, op.clone()).await? {
                Err(NfsStat::DELAY | NfsStat::BACK_CHAN_BUSY) => tokio::time::sleep(PAUSE).await,
                done => return Ok(done),
            }
        }
    }
}
