//! A slot in use, which always goes back.

use std::{ops::Deref, sync::Arc};

use super::inner::Inner;
use crate::{core::Slot, rpc::RpcError};

/// A slot of the session. Dropped, it goes back: with its sequence id used up or not, or, if
/// nobody knows, with the whole session.
pub(super) struct SlotGuard {
    session: Arc<Inner>,
    slot: Slot,
    used: bool,
    in_doubt: bool,
}

impl SlotGuard {
    /// A free slot, if there is one.
    pub(super) fn acquire(session: &Arc<Inner>) -> Option<SlotGuard> {
        let slot = session.core().acquire()?;
        Some(SlotGuard { session: session.clone(), slot, used: false, in_doubt: false })
    }

    /// Waits for the reply to a request on the slot. Without one it is in doubt whether the
    /// request was executed, also if this is dropped; a reply says nothing of sendings before.
    pub(super) async fn reply<T>(
        &mut self,
        reply: impl Future<Output = Result<T, RpcError>>,
    ) -> Result<T, RpcError> {
        let before = std::mem::replace(&mut self.in_doubt, true);
        let reply = reply.await;
        if matches!(reply, Ok(_) | Err(RpcError::Source(_))) {
            self.in_doubt = before;
        }
        reply
    }

    /// Whether a request on it may have been executed without us hearing of it.
    pub(super) fn is_in_doubt(&self) -> bool {
        self.in_doubt
    }

    /// The server has executed a request, and used up the sequence id.
    pub(super) fn put_used(mut self) {
        self.used = true;
        self.in_doubt = false;
    }
}

impl Deref for SlotGuard {
    type Target = Slot;

    fn deref(&self) -> &Slot {
        &self.slot
    }
}

impl Drop for SlotGuard {
    fn drop(&mut self) {
        if self.in_doubt {
            self.session.core().poison(&self.slot);
        } else {
            self.session.core().release(&self.slot, self.used);
        }
        self.session.slot_freed.notify_one();
    }
}
