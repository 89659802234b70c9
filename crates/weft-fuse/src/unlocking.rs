//! Locks that end with their open, which the kernel lets go of without waiting for us: `close(2)`
//! is over before we have heard of it. Who asks for a lock next must not meet them.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::Notify;

/// Files whose locks are being given up so.
#[derive(Default)]
pub struct Unlocking {
    /// How many opens of each file, by its number.
    files: Mutex<HashMap<u64, u32>>,
    ended: Notify,
}

/// An open whose locks are being given up, until this is dropped.
pub struct Ending {
    of: Arc<Unlocking>,
    ino: u64,
}

impl Unlocking {
    /// Locks of a file are about to be given up.
    pub fn begin(self: &Arc<Self>, ino: u64) -> Ending {
        *self.lock().entry(ino).or_default() += 1;
        Ending { of: self.clone(), ino }
    }

    /// Waits until none of a file are.
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

impl Drop for Ending {
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

    /// Who asks waits for all opens of the file, and for no other file's.
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
