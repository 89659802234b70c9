//! Files that the store is done with while a reader still sends from them.
//!
//! Whoever lets go of a file last closes it, and that may wait for the disk: the blocks of a
//! removed file are freed then. Readers send from threads that must not wait, so the store keeps
//! the file until nobody else has it.

use std::{
    fs::File,
    sync::{Arc, Mutex},
};

use crate::sync::lock;

/// The files; as many as readers are still sending from, and those that ended since the last call.
#[derive(Debug, Default)]
pub(super) struct Leaving(Mutex<Vec<Arc<File>>>);

impl Leaving {
    /// Closes a file when nobody uses it any more: now, or by a later call of any of these.
    pub(super) fn close(&self, file: Arc<File>) {
        lock(&self.0).push(file);
        self.close_unused();
    }

    /// Closes the files that nobody uses any more. May wait for the disk.
    pub(super) fn close_unused(&self) {
        let mut files = lock(&self.0);
        let unused: Vec<_> = files.extract_if(.., |f| Arc::strong_count(f) == 1).collect();
        drop(files);
        drop(unused);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file stays open as long as a reader has it, and no longer than to the next call.
    #[test]
    fn the_last_to_let_go_is_the_store() {
        let leaving = Leaving::default();
        let file = Arc::new(tempfile::tempfile().unwrap());
        let (reader, seen) = (file.clone(), Arc::downgrade(&file));
        leaving.close(file);
        drop(reader);
        assert_eq!(seen.strong_count(), 1, "the reader has closed it");
        leaving.close_unused();
        assert_eq!(seen.strong_count(), 0);
    }
}
