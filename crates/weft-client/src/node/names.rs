//! Names in directories: LOOKUP, CREATE, LINK, REMOVE, RENAME, READLINK.

use bytes::Bytes;
use weft_nfs::{
    AttrNo, Attrs, Bitmap, Component, FileHandle, NfsStat, OpArgs, OpNum, OpOk,
    ops::{CreateArgs, CreateType, LinkArgs, LookupArgs, RemoveArgs, RenameArgs},
};

use super::{DirChange, NODE_ATTRS, Node, Nodes, attrs_in, attrs_told, getattr, putfh};
use crate::error::ClientError;

/// REMOVE, and what is asked of the directory after it.
fn removing(dir: &FileHandle, target: Component) -> [OpArgs; 3] {
    [putfh(dir), OpArgs::Remove(RemoveArgs { target }), getattr(NODE_ATTRS)]
}

/// What the results of [`removing`] say.
fn removed_by(done: Vec<OpOk>) -> Result<DirChange, ClientError> {
    let mut done = done.into_iter().skip(1);
    match done.next() {
        Some(OpOk::Remove(ok)) => Ok(DirChange { info: ok.change, attrs: attrs_told(done.next()) }),
        _ => Err(ClientError::unexpected(OpNum::REMOVE)),
    }
}

impl Nodes {
    /// What has a name in a directory (RFC 8881 §18.13).
    ///
    /// # Errors
    /// NOENT if nothing has it; [`ClientError`].
    pub async fn lookup(&self, dir: &FileHandle, name: Component) -> Result<Node, ClientError> {
        self.lookup_asking(dir, name, NODE_ATTRS).await
    }

    /// [`Nodes::lookup`], with the attributes that are asked for.
    ///
    /// # Errors
    /// As there.
    pub async fn lookup_asking(
        &self,
        dir: &FileHandle,
        name: Component,
        request: Bitmap,
    ) -> Result<Node, ClientError> {
        let ops = vec![putfh(dir), OpArgs::Lookup(LookupArgs { name })];
        self.node_asking(ops, request).await
    }

    /// Makes a directory, link, device, socket or fifo (RFC 8881 §18.4); what that did to the
    /// directory that it is in. Files are made by [`Nodes::open`].
    ///
    /// # Errors
    /// EXIST if the name is taken; [`ClientError`].
    pub async fn create(
        &self,
        dir: &FileHandle,
        name: Component,
        objtype: CreateType,
        attrs: Attrs,
    ) -> Result<(Node, DirChange), ClientError> {
        let create = OpArgs::Create(CreateArgs { objtype, name, attrs: Box::new(attrs) });
        let mut ops = vec![putfh(dir), create, OpArgs::Getfh, getattr(NODE_ATTRS)];
        let needed = ops.len();
        ops.extend([putfh(dir), getattr(NODE_ATTRS)]);
        let mut done = self.mds.compound_needing(needed, ops).await?.into_iter().skip(1);
        match (done.next(), done.next(), done.next()) {
            (Some(OpOk::Create(made)), Some(OpOk::Getfh(fh)), Some(OpOk::Getattr(attrs))) => {
                let change = DirChange { info: made.change, attrs: attrs_told(done.nth(1)) };
                Ok((Node { fh: fh.object, attrs: *attrs.attrs }, change))
            }
            _ => Err(ClientError::unexpected(OpNum::CREATE)),
        }
    }

    /// Gives a file one more name (RFC 8881 §18.9); its attributes after that, and what it did to
    /// the directory.
    ///
    /// # Errors
    /// EXIST if the name is taken; [`ClientError`].
    pub async fn link(
        &self,
        file: &FileHandle,
        dir: &FileHandle,
        newname: Component,
    ) -> Result<(Attrs, DirChange), ClientError> {
        self.link_surely(file, dir, &newname).await
    }

    pub(super) async fn link_once(
        &self,
        file: &FileHandle,
        dir: &FileHandle,
        newname: Component,
    ) -> Result<(Attrs, DirChange), ClientError> {
        let link = OpArgs::Link(LinkArgs { newname });
        let mut ops = vec![putfh(file), OpArgs::Savefh, putfh(dir), link];
        ops.extend([OpArgs::Restorefh, getattr(NODE_ATTRS)]);
        let needed = ops.len();
        ops.extend([putfh(dir), getattr(NODE_ATTRS)]);
        let linked = self.mds.compound_needing(needed, ops).await;
        self.cluster.names_changed();
        let mut done = linked?.into_iter().skip(3);
        let Some(OpOk::Link(linked)) = done.next() else {
            return Err(ClientError::unexpected(OpNum::LINK));
        };
        let attrs = attrs_in(done.nth(1))?;
        Ok((attrs, DirChange { info: linked.change, attrs: attrs_told(done.nth(1)) }))
    }

    /// Takes a name away (RFC 8881 §18.25): of this file, link or empty directory, as far as is
    /// known.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn remove(
        &self,
        dir: &FileHandle,
        target: Component,
        file: Option<&FileHandle>,
    ) -> Result<DirChange, ClientError> {
        let Some(file) = file else { return self.remove_once(dir, target).await };
        match self.remove_delegated(dir, &target, file).await? {
            Some(change) => Ok(change),
            None => self.remove_surely(dir, &target, file).await,
        }
    }

    pub(super) async fn remove_once(
        &self,
        dir: &FileHandle,
        target: Component,
    ) -> Result<DirChange, ClientError> {
        let removed = self.mds.compound_needing(2, removing(dir, target).into()).await;
        self.cluster.names_changed();
        removed_by(removed?)
    }

    /// [`Nodes::remove`] of what is this file's only name, as far as is known: then its delegation,
    /// if one is held, goes back in the same request, before the server asks for it. None if that
    /// is not how it was removed.
    async fn remove_delegated(
        &self,
        dir: &FileHandle,
        target: &Component,
        file: &FileHandle,
    ) -> Result<Option<DirChange>, ClientError> {
        let Some(leaving) = self.returns.with_last_name(file) else { return Ok(None) };
        let mut ops = leaving.ops();
        let before = ops.len();
        ops.extend(removing(dir, target.clone()));
        // Last, since it fails where all is as it should be: the file is gone.
        ops.extend([putfh(file), getattr(Bitmap::of(&[AttrNo::NUMLINKS]))]);
        let outcome = self.mds.compound_outcome(ops).await;
        self.cluster.names_changed();
        let mut outcome = match outcome {
            Err(ClientError::OutcomeUnknown { .. }) => {
                return self.is_removed(dir, target, file).await;
            }
            outcome => outcome?,
        };
        if outcome.done.len() < before {
            // The server has another idea of the delegation, which is not what this is about.
            drop(leaving);
            return Ok(None);
        }
        let mut done = outcome.done.split_off(before);
        let looked = attrs_told(done.drain(done.len().min(3)..).nth(1));
        let status = outcome.failed.as_ref().map(|failed| failed.failure.status);
        let is_removed = done.len() >= 2;
        let is_gone =
            status == Some(NfsStat::STALE) || looked.is_some_and(|attrs| attrs.numlinks == Some(0));
        leaving.done(is_removed && is_gone);
        if is_removed {
            return removed_by(done).map(Some);
        }
        match status {
            // By itself it is asked for again until the server has time for it.
            Some(NfsStat::DELAY | NfsStat::GRACE) => Ok(None),
            _ => outcome.into_result().and_then(removed_by).map(Some),
        }
    }

    /// Gives a name of one directory another one, perhaps in another directory (RFC 8881 §18.26).
    /// What has the new name is replaced, if it may be. What that did to the one directory and the
    /// other. It is the name of this file, as far as is known.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn rename(
        &self,
        (source, oldname): (&FileHandle, Component),
        (target, newname): (&FileHandle, Component),
        file: Option<&FileHandle>,
    ) -> Result<(DirChange, DirChange), ClientError> {
        match file {
            Some(file) => self.rename_surely((source, &oldname), (target, &newname), file).await,
            None => self.rename_once((source, oldname), (target, newname)).await,
        }
    }

    pub(super) async fn rename_once(
        &self,
        (source, oldname): (&FileHandle, Component),
        (target, newname): (&FileHandle, Component),
    ) -> Result<(DirChange, DirChange), ClientError> {
        let rename = OpArgs::Rename(RenameArgs { oldname, newname });
        let mut ops = vec![putfh(source), OpArgs::Savefh, putfh(target), rename];
        let needed = ops.len();
        ops.extend([getattr(NODE_ATTRS), OpArgs::Restorefh, getattr(NODE_ATTRS)]);
        let renamed = self.mds.compound_needing(needed, ops).await;
        self.cluster.names_changed();
        let mut done = renamed?.into_iter().skip(3);
        let Some(OpOk::Rename(renamed)) = done.next() else {
            return Err(ClientError::unexpected(OpNum::RENAME));
        };
        let target = DirChange { info: renamed.target, attrs: attrs_told(done.next()) };
        let source = DirChange { info: renamed.source, attrs: attrs_told(done.nth(1)) };
        Ok((source, target))
    }

    /// What a symbolic link says (RFC 8881 §18.24).
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn readlink(&self, link: &FileHandle) -> Result<Bytes, ClientError> {
        match self.mds.on_file(link, OpArgs::Readlink).await? {
            OpOk::Readlink(ok) => Ok(ok.link),
            _ => Err(ClientError::unexpected(OpNum::READLINK)),
        }
    }
}
