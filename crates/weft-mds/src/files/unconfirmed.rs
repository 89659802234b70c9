//! Files whose writers were told by COMMIT to write again (RFC 8881 §18.3.3): a data server may
//! have lost bytes of theirs.
//!
//! Linux does so after `close` has returned: its pages are dirty again, and it has the file open
//! until the flusher has written them, within 30 s (`dirty_expire_centisecs`) and 5 s
//! (`dirty_writeback_centisecs`). A client that opens, cuts or locks the file meanwhile would not
//! see the bytes that were closed, and its own would be written over (ADR 43). So others wait until
//! nobody else has the file open to write. They do not wait longer than that takes: the program may
//! just go on writing.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use weft_state::Millis;
use weft_store::types::InodeNo;

/// Time that Linux takes to write pages again, with some to spare, milliseconds.
const RESEND_MS: u64 = 45_000;
/// Files remembered. A data server that loses more than these had under way brings back the fault
/// that this is against, for those beyond.
const FILES_MAX: usize = 65_536;

/// Times at which writers of files were told so.
#[derive(Debug, Default)]
pub(crate) struct Unconfirmed(Mutex<HashMap<InodeNo, Millis>>);

impl Unconfirmed {
    /// Somebody was told so just now.
    pub(crate) fn told(&self, ino: InodeNo, now: Millis) {
        let mut files = self.lock();
        if files.len() >= FILES_MAX {
            files.retain(|_, told| is_recent(*told, now));
        }
        if files.len() < FILES_MAX || files.contains_key(&ino) {
            // A client that is told again and again keeps nobody waiting for longer.
            let told = files.entry(ino).or_insert(now);
            if !is_recent(*told, now) {
                *told = now;
            }
        } else {
            tracing::warn!(ino = ino.0, "nobody waits for what is written again: too many files");
        }
    }

    /// True if somebody may be writing again.
    pub(crate) fn is_awaited(&self, ino: InodeNo, now: Millis) -> bool {
        self.lock().get(&ino).is_some_and(|told| is_recent(*told, now))
    }

    /// Nobody has the file open to write.
    pub(crate) fn forget(&self, ino: InodeNo) {
        self.lock().remove(&ino);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<InodeNo, Millis>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn is_recent(told: Millis, now: Millis) -> bool {
    now.0.saturating_sub(told.0) < RESEND_MS
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file is awaited for as long as Linux may take, or until it is forgotten; others never.
    #[test]
    fn files_are_awaited_for_a_while() {
        let (files, now) = (Unconfirmed::default(), Millis(5));
        files.told(InodeNo(7), now);
        assert!(files.is_awaited(InodeNo(7), Millis(4 + RESEND_MS)));
        assert!(!files.is_awaited(InodeNo(7), Millis(5 + RESEND_MS)));
        assert!(!files.is_awaited(InodeNo(8), now));
        files.told(InodeNo(7), Millis(4 + RESEND_MS));
        assert!(!files.is_awaited(InodeNo(7), Millis(5 + RESEND_MS)), "told twice");
        files.forget(InodeNo(7));
        assert!(!files.is_awaited(InodeNo(7), now));
    }

    /// However many there are, only so many are remembered, and those that are over make room.
    #[test]
    fn no_more_than_there_is_room_for() {
        let (files, now) = (Unconfirmed::default(), Millis(5));
        (0..=FILES_MAX as u64).for_each(|ino| files.told(InodeNo(ino), now));
        assert_eq!(files.lock().len(), FILES_MAX);
        assert!(!files.is_awaited(InodeNo(FILES_MAX as u64), now));
        files.told(InodeNo(1 << 40), Millis(5 + RESEND_MS));
        assert_eq!(files.lock().len(), 1);
    }
}
