//! Changes of names whose outcome is unknown: the server lost the session, and with it the reply. A
//! lookup shows if the change was made, provided that the client knows the file.

use std::future::Future;

use weft_nfs::{Attrs, ChangeInfo, Component, FileHandle, NfsStat};

use super::{DirChange, Node, Nodes};
use crate::{error::ClientError, limits};

impl DirChange {
    /// A change that was found by its result: the reply is lost.
    fn unseen() -> DirChange {
        DirChange { info: ChangeInfo { atomic: false, before: 0, after: 0 }, attrs: None }
    }
}

/// Retries a request while its outcome is unknown. `see` looks for the result of an earlier
/// attempt.
async fn surely<T, Sent, Seen>(
    send: impl Fn() -> Sent,
    see: impl Fn() -> Seen,
) -> Result<T, ClientError>
where
    Sent: Future<Output = Result<T, ClientError>>,
    Seen: Future<Output = Result<Option<T>, ClientError>>,
{
    for _ in 0..limits::DOUBTS_MAX {
        match send().await {
            Err(ClientError::OutcomeUnknown { .. }) => {}
            done => return done,
        }
        if let Some(seen) = see().await? {
            return Ok(seen);
        }
    }
    send().await
}

impl Nodes {
    /// Looks up a name, and returns its file if it is this one.
    async fn if_named(
        &self,
        dir: &FileHandle,
        name: &Component,
        file: &FileHandle,
    ) -> Result<Option<Node>, ClientError> {
        match self.lookup(dir, name.clone()).await {
            Ok(node) => Ok(Some(node).filter(|node| node.fh == *file)),
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
        let send = || self.remove_once(dir, target.clone());
        surely(send, || self.is_removed(dir, target, file)).await
    }

    /// The change that took the name from this file, if it does not have it any more. A file that
    /// has the name then is somebody's new one, and is left alone.
    pub(super) async fn is_removed(
        &self,
        dir: &FileHandle,
        target: &Component,
        file: &FileHandle,
    ) -> Result<Option<DirChange>, ClientError> {
        let named = self.if_named(dir, target, file).await?;
        Ok(named.is_none().then(DirChange::unseen))
    }

    /// [`Nodes::rename_once`] until it is known that this file has the new name.
    pub(super) async fn rename_surely(
        &self,
        (source, oldname): (&FileHandle, &Component),
        (target, newname): (&FileHandle, &Component),
        file: &FileHandle,
    ) -> Result<(DirChange, DirChange), ClientError> {
        let send = || self.rename_once((source, oldname.clone()), (target, newname.clone()));
        let see = || async move {
            let named = self.if_named(target, newname, file).await?;
            Ok(named.map(|_| (DirChange::unseen(), DirChange::unseen())))
        };
        surely(send, see).await
    }

    /// [`Nodes::link_once`] until it is known that this file has the new name.
    pub(super) async fn link_surely(
        &self,
        file: &FileHandle,
        dir: &FileHandle,
        newname: &Component,
    ) -> Result<(Attrs, DirChange), ClientError> {
        let send = || self.link_once(file, dir, newname.clone());
        let see = || async move {
            let named = self.if_named(dir, newname, file).await?;
            Ok(named.map(|node| (node.attrs, DirChange::unseen())))
        };
        surely(send, see).await
    }
}
