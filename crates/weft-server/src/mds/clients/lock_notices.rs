//! Telling clients that a lock they wait for can be had: CB_NOTIFY_LOCK, RFC 8881 §20.11.

use weft_nfs::callback::{CbNotifyLockArgs, CbOp};
use weft_state::LockNotice;

use crate::mds::{Handle, Mds};

impl Mds {
    /// Tells those who wait for locks that have been given up since the last time. A hint: it is
    /// sent once, and clients that do not get it ask again by themselves.
    pub(in crate::mds) fn notify_lock_waiters(&self) {
        let notices = self.state().lock_notices();
        for LockNotice { file, owner } in notices {
            let Some(me) = self.me.upgrade() else { return };
            let client = owner.clientid;
            let fh = Handle::of(file).to_wire();
            let op = CbOp::NotifyLock(CbNotifyLockArgs { fh, lock_owner: owner });
            tokio::spawn(async move {
                if let Err(e) = me.call_back(client, &op).await {
                    tracing::debug!(client = client.0, error = %e, "lock notice");
                }
            });
        }
    }
}
