//! Changes of names of which nobody knows whether they were carried out: the server has lost our
//! session, and with it the reply. What is there now tells, if it is known which file was meant.

use weft_nfs::{Attrs, ChangeInfo, Component, FileHandle, NfsStat};

use super::{DirChange, Node, Nodes};
use crate::{error::ClientError, limits};

impl DirChange {
    /// One that was seen by what it led to.
    fn unseen() -> DirChange {
        DirChange { info: ChangeInfo { atomic: false, before: 0, after: 0 }, attrs: None }
    }
}

/// Whether it is unknown if a request was carried out.
fn in_doubt<T>(done: &Result<T, ClientError>) -> bool {
    matches!(done, Err(ClientError::OutcomeUnknown { .. }))
}

impl Nodes {
    /// What has a name, if anything does.
    async fn has_name(
        &self,
        dir: &FileHandle,
        name: &Component,
    ) -> Result<Option<Node>, ClientError> {
        match self.lookup(dir, name.clone()).await {
            Ok(node) => Ok(Some(node)),
            Err(e) if e.status() == Some(NfsStat::NOENT) => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// [`Nodes::remove_once`] until it is known that this file does not have the name any more.
    pub(super) async fn remove_surely(
        &self,
        dir: &FileHandle,
        target: &Component,
        file: &FileHandle,
    ) -> Result<DirChange, ClientError> {
        for _ in 0..limits::DOUBTS_MAX {
            let removed = self.remove_once(dir, target.clone()).await;
            if !in_doubt(&removed) {
                return removed;
            }
            if let Some(change) = self.is_removed(dir, target, file).await? {
                return Ok(change);
            }
        }
        self.remove_once(dir, target.clone()).await
    }

    /// Whether this file does not have the name any more. What has it then is somebody's new file,
    /// and is left alone.
    pub(super) async fn is_removed(
        &self,
        dir: &FileHandle,
        target: &Component,
        file: &FileHandle,
    ) -> Result<Option<DirChange>, ClientError> {
        let has_it = self.has_name(dir, target).await?.is_some_and(|node| node.fh == *file);
        Ok((!has_it).then(DirChange::unseen))
    }

    /// [`Nodes::rename_once`] until it is known that this file has the new name.
    pub(super) async fn rename_surely(
        &self,
        (source, oldname): (&FileHandle, &Component),
        (target, newname): (&FileHandle, &Component),
        file: &FileHandle,
    ) -> Result<(DirChange, DirChange), ClientError> {
        let once = || self.rename_once((source, oldname.clone()), (target, newname.clone()));
        for _ in 0..limits::DOUBTS_MAX {
            let renamed = once().await;
            if !in_doubt(&renamed) {
                return renamed;
            }
            if self.has_name(target, newname).await?.is_some_and(|node| node.fh == *file) {
                return Ok((DirChange::unseen(), DirChange::unseen()));
            }
        }
        once().await
    }

    /// [`Nodes::link_once`] until it is known that this file has the new name.
    pub(super) async fn link_surely(
        &self,
        file: &FileHandle,
        dir: &FileHandle,
        newname: &Component,
    ) -> Result<(Attrs, DirChange), ClientError> {
        for _ in 0..limits::DOUBTS_MAX {
            let linked = self.link_once(file, dir, newname.clone()).await;
            if !in_doubt(&linked) {
                return linked;
            }
            match self.has_name(dir, newname).await? {
                Some(node) if node.fh == *file => return Ok((node.attrs, DirChange::unseen())),
                _ => {}
            }
        }
        self.link_once(file, dir, newname.clone()).await
    }
}
