//! Files that are being put, and what becomes of those that never end.

use weft_nfs::{Attrs, Component, NfsStat, OpArgs, ops::RemoveArgs};

use super::{
    client::Client,
    scratch::{beginning, is_old, is_temporary},
};
use crate::{error::ClientError, limits};

/// Entries of a directory looked through for old ones.
const LOOKED_AT_MAX: usize = 4096;

/// A temporary name in use. Dropped in the middle of a transfer, it stays with the client, which
/// removes the file when it is closed.
pub(super) struct Temporary<'a> {
    pub(super) dirs: &'a [Component],
    pub(super) name: Component,
}

impl Temporary<'_> {
    pub(super) fn path(&self) -> Vec<Component> {
        let mut path = self.dirs.to_vec();
        path.push(self.name.clone());
        path
    }
}

impl Client {
    /// A temporary name beside a file.
    pub(super) fn temporary<'a>(&self, dirs: &'a [Component], name: &Component) -> Temporary<'a> {
        Temporary { dirs, name: self.scratch.take(dirs, name) }
    }

    /// The file has its own name now.
    pub(super) fn keep(&self, temporary: &Temporary<'_>) {
        self.scratch.give_up(&temporary.path());
    }

    /// Removes the file, if that is soon done.
    pub(super) async fn discard(&self, path: Vec<Component>) {
        let removal = self.remove_scratch(path.clone());
        match tokio::time::timeout(limits::DISCARD_LIMIT, removal).await {
            Ok(Ok(())) => self.scratch.give_up(&path),
            left => tracing::debug!(?path, ?left, "a temporary file stays"),
        }
    }

    /// Removes the files of all transfers that did not end, if that is soon done.
    pub(super) async fn discard_all(&self) {
        let left: Vec<_> = self.scratch.all();
        let removals = async {
            for path in left {
                self.discard(path).await;
            }
        };
        let _ = tokio::time::timeout(limits::DISCARD_LIMIT, removals).await;
    }

    /// Removes the file, if there is one.
    pub(super) async fn remove_scratch(&self, mut path: Vec<Component>) -> Result<(), ClientError> {
        let Some(target) = path.pop() else { return Ok(()) };
        let remove = OpArgs::Remove(RemoveArgs { target });
        match self.in_directory(path, vec![remove]).await {
            Err(e) if e.status() == Some(NfsStat::NOENT) => Ok(()),
            done => done.map(drop),
        }
    }

    /// Removes what dead clients of the same user have left of this file, if it is old. What
    /// cannot be seen or removed stays.
    pub(super) async fn remove_old(&self, dirs: &[Component], name: &Component, new: &Attrs) {
        let beginning = beginning(&name.0);
        let Ok(mut entries) = self.read_dir_of(dirs.to_vec()).await else { return };
        let mut old = Vec::new();
        for _ in 0..LOOKED_AT_MAX {
            let Ok(Some(entry)) = entries.next().await else { break };
            if is_temporary(&entry.name.0, &beginning) && is_old(&entry.attrs, new) {
                old.push(entry.name);
            }
        }
        for name in old {
            let mut path = dirs.to_vec();
            path.push(name);
            if let Err(e) = self.remove_scratch(path).await {
                tracing::debug!("an old temporary file stays: {e}");
            }
        }
    }
}
