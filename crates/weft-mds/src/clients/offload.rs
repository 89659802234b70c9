//! Copies that go on after their reply, and telling clients how they ended: CB_OFFLOAD, RFC 7862
//! §16.1.

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use tokio::time::Instant;
use weft_nfs::{
    ClientId, NfsStat, StableHow, Stateid, Verifier,
    callback::{CbOffloadArgs, CbOp, OffloadInfo},
    ops::WriteResponse,
};

use super::service::Clients;
use crate::{deps::Deps, files::Copy};

/// How long a copy that goes on after its reply waits for a data server or a truncation.
const PATIENCE: Duration = Duration::from_secs(60);
/// Pause before a step, or the callback about the end, is tried again.
const PAUSE: Duration = Duration::from_millis(200);

impl Clients {
    /// Begins a copy that goes on after the reply; none if the client cannot be told of its end,
    /// or too many are under way.
    pub(crate) fn offload(self: &Arc<Self>, client: ClientId, copy: Copy) -> Option<Stateid> {
        if !self.core.sessions().has_back_channel(client) {
            return None;
        }
        let destination = self.files.key(copy.destination);
        let begun = self.protocol.offloads().begin(client, destination);
        if let Some(id) = begun {
            // Nobody gets a delegation meanwhile, even if the client closes the file (RFC 8881
            // §10.4).
            self.protocol.state().begin_change(destination);
            tokio::spawn(carry_out(Arc::downgrade(self), client, id, copy));
        }
        begun
    }
}

/// Carries out a copy after its reply, and tells the client how it ended until it has heard. The
/// destination is being changed ([`weft_state::State::begin_change`]) until the copy ends.
async fn carry_out(clients: Weak<Clients>, client: ClientId, id: Stateid, copy: Copy) {
    let mut patient_until = Instant::now() + PATIENCE;
    let mut done = 0;
    let mut deps = Deps::default();
    let ended = loop {
        let Some(clients) = clients.upgrade() else { return };
        let rest = copy.rest(done);
        let mut stopped = false;
        let went = clients.files.copy(&mut deps, &rest, |n| {
            let go_on = clients.protocol.offloads().progress(&id, done + n);
            stopped |= !go_on;
            go_on
        });
        match went.await {
            _ if stopped => break Err(NfsStat::DELAY),
            Ok((copied, verifier)) if done + copied == copy.len => break Ok(verifier),
            Ok((copied, _)) => {
                done += copied;
                patient_until = Instant::now() + PATIENCE;
            }
            Err(NfsStat::DELAY) if Instant::now() < patient_until => {}
            Err(status) => break Err(status),
        }
        drop(clients);
        tokio::time::sleep(PAUSE).await;
    };
    let copied = if ended.is_ok() { copy.len } else { done };
    let op = {
        let Some(clients) = clients.upgrade() else { return };
        clients.protocol.state().end_change(clients.files.key(copy.destination));
        let status = ended.err().unwrap_or(NfsStat::OK);
        let wanted = clients.protocol.offloads().end(&id, copied, status);
        wanted.then(|| outcome(&clients, &copy, id, copied, ended))
    };
    if let Some(op) = op {
        tell(&clients, client, &id, &op).await;
    }
    if let Some(clients) = clients.upgrade() {
        clients.protocol.offloads().forget(&id);
    }
}

/// CB_OFFLOAD: RFC 7862 §16.1.
fn outcome(
    clients: &Clients,
    copy: &Copy,
    stateid: Stateid,
    copied: u64,
    ended: Result<Verifier, NfsStat>,
) -> CbOp {
    let info = match ended {
        Ok(writeverf) => OffloadInfo::Done(WriteResponse {
            callback_id: None,
            count: copied,
            committed: StableHow::FILE_SYNC,
            writeverf,
        }),
        Err(status) => OffloadInfo::Failed { status, bytes_copied: copied },
    };
    let fh = clients.files.handle(copy.destination).to_wire();
    CbOp::Offload(CbOffloadArgs { fh, stateid, info })
}

/// Calls the client back until it answers, or is gone. A client that hears nothing waits for
/// ever, unless it asks (Linux before 6.14 does not).
async fn tell(clients: &Weak<Clients>, client: ClientId, id: &Stateid, op: &CbOp) {
    while let Some(clients) = clients.upgrade() {
        if !clients.protocol.offloads().is_known(id) {
            return;
        }
        match clients.callbacks.call(client, op).await {
            Ok(NfsStat::DELAY) => {}
            Ok(status) => {
                if status != NfsStat::OK {
                    tracing::debug!(client = client.0, %status, "the end of a copy");
                }
                return;
            }
            Err(e) => tracing::debug!(client = client.0, error = %e, "the end of a copy"),
        }
        drop(clients);
        tokio::time::sleep(PAUSE).await;
    }
}
