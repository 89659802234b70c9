//! Telling clients that a lock they wait for can be had: CB_NOTIFY_LOCK, RFC 8881 §20.11.

use std::sync::Arc;

use weft_nfs::callback::{CbNotifyLockArgs, CbOp};
use weft_state::LockNotice;

use super::callback::Callbacks;
use crate::{handle::Handle, protocol_state::ProtocolState};

/// Tells those who wait for locks that have been given up since the last time. A hint: it is sent
/// once, and clients that do not get it ask again by themselves.
pub(super) fn send(protocol: &ProtocolState, callbacks: &Arc<Callbacks>) {
    let notices = protocol.state().lock_notices();
    for LockNotice { file, owner } in notices {
        let (callbacks, client) = (callbacks.clone(), owner.clientid);
        let fh = Handle::of(file).to_wire();
        let op = CbOp::NotifyLock(CbNotifyLockArgs { fh, lock_owner: owner });
        tokio::spawn(async move {
            if let Err(e) = callbacks.call(client, &op).await {
                tracing::debug!(client = client.0, error = %e, "lock notice");
            }
        });
    }
}
