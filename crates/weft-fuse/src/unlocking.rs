//! Files whose locks are being released because an open was closed.
//!
//! The kernel sends RELEASE without waiting for the reply, so `close(2)` returns before the locks
//! of that open have ended at the server. The next lock request of the file waits for them.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::Notify;

/// Files with such a release in progress.
#[derive(Default)]
pub struct Unlocking {
    /// Number of opens being released, by inode number.
    files: Mutex<HashMap<u64, u32>>,
    ended: Notify,
}

/// One release in progress; it ends when this is dropped.
pub struct UnlockGuard {
    of: Arc<Unlocking>,
    ino: u64,
}

impl Unlocking {
    /// Starts a release of locks of a file.
    pub fn begin(self: &Arc<Self>, ino: u64) -> UnlockGuard {
        *self.lock().entry(ino).or_default() += 1;
        UnlockGuard { of: self.clone(), ino }
    }

    /// Waits until no release of this file is in progress.
    pub async fn ended(&self, ino: u64) {
        loop {
            let ended = self.ended.notified();
            tokio::pin!(ended);
            ended.as_mut().enable();
            if !self.lock().contains_key(&ino) {
                return;
            }
            ended.await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u64, u32>> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for UnlockGuard {
    fn drop(&mut self) {
        let mut files = self.of.lock();
        if let Some(opens) = files.get_mut(&self.ino) {
            *opens -= 1;
            if *opens == 0 {
                files.remove(&self.ino);
            }
        }
        drop(files);
        self.of.ended.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// A lock request waits for all releases of its file, and for no others.
    #[tokio::test]
    async fn all_opens_are_waited_for() {
        let unlocking = Arc::new(Unlocking::default());
        let (first, second) = (unlocking.begin(7), unlocking.begin(7));
        unlocking.ended(8).await;
        let waiting = tokio::spawn({
            let unlocking = unlocking.clone();
            async move { unlocking.ended(7).await }
        });
        drop(first);
        tokio::time::sleep(Duration::from_millis(20)).await;
        assert!(!waiting.is_finished());
        drop(second);
        waiting.await.unwrap();
        assert!(unlocking.lock().is_empty());
    }
}
