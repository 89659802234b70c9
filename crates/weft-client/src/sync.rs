//! Locks that outlive a panic of whoever held them.
//!
//! The rule: no lock of this crate is held over anything that may leave its value half changed, so
//! a panic elsewhere in the task that held it is no reason for others to panic too.

pub(crate) use std::sync::MutexGuard;
use std::sync::{PoisonError, TryLockError};

/// A mutex without poison.
#[derive(Debug, Default)]
pub(crate) struct Mutex<T>(std::sync::Mutex<T>);

impl<T> Mutex<T> {
    pub(crate) const fn new(value: T) -> Mutex<T> {
        Mutex(std::sync::Mutex::new(value))
    }

    /// None if somebody holds it.
    pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        match self.0.try_lock() {
            Ok(held) => Some(held),
            Err(TryLockError::Poisoned(held)) => Some(held.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A panic under the lock leaves the lock, and the value, to others.
    #[test]
    fn a_panic_poisons_nothing() {
        let mutex = Mutex::new(1);
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let mut held = mutex.lock();
            *held = 2;
            panic!("while it is held");
        }));
        assert!(panicked.is_err());
        assert_eq!(*mutex.lock(), 2);
    }
}
