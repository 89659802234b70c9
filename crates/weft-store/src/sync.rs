//! Locks, and what follows if a thread panicked while it held one.
//!
//! The rule: where a critical section cannot panic, or leaves nothing half done if it does, the
//! next holder goes on; such locks are taken by the functions here. Elsewhere the next holder gets
//! an error: the volume's executor and the engines on disk look at the poison themselves and stop.

use std::sync::{
    Condvar, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard,
};

/// Takes a mutex, whether or not a holder before panicked.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Takes a lock shared with other readers, whether or not a holder before panicked.
pub(crate) fn read<T>(lock: &RwLock<T>) -> RwLockReadGuard<'_, T> {
    lock.read().unwrap_or_else(PoisonError::into_inner)
}

/// Takes a lock alone, whether or not a holder before panicked.
pub(crate) fn write<T>(lock: &RwLock<T>) -> RwLockWriteGuard<'_, T> {
    lock.write().unwrap_or_else(PoisonError::into_inner)
}

/// Gives a mutex up until it is notified, and takes it again.
pub(crate) fn wait<'a, T>(changed: &Condvar, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
    changed.wait(guard).unwrap_or_else(PoisonError::into_inner)
}
