//! Names in directories: LOOKUP, CREATE, LINK, REMOVE, RENAME, READLINK.

use bytes::Bytes;
use weft_nfs::{
    Attrs, Bitmap, ChangeInfo, Component, FileHandle, OpArgs, OpNum, OpOk,
    ops::{CreateArgs, CreateType, LinkArgs, LookupArgs, RemoveArgs, RenameArgs},
};

use super::{NODE_ATTRS, Node, Nodes, attrs_in, getattr, putfh};
use crate::error::ClientError;

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

    /// Makes a directory, link, device, socket or fifo (RFC 8881 §18.4). Files are made by
    /// [`Nodes::open`].
    ///
    /// # Errors
    /// EXIST if the name is taken; [`ClientError`].
    pub async fn create(
        &self,
        dir: &FileHandle,
        name: Component,
        objtype: CreateType,
        attrs: Attrs,
    ) -> Result<Node, ClientError> {
        let create = CreateArgs { objtype, name, attrs: Box::new(attrs) };
        self.node_after(vec![putfh(dir), OpArgs::Create(create)]).await
    }

    /// Gives a file one more name (RFC 8881 §18.9); its attributes after that.
    ///
    /// # Errors
    /// EXIST if the name is taken; [`ClientError`].
    pub async fn link(
        &self,
        file: &FileHandle,
        dir: &FileHandle,
        newname: Component,
    ) -> Result<Attrs, ClientError> {
        let ops = vec![
            putfh(file),
            OpArgs::Savefh,
            putfh(dir),
            OpArgs::Link(LinkArgs { newname }),
            OpArgs::Restorefh,
            getattr(NODE_ATTRS),
        ];
        attrs_in(self.mds.compound(ops).await?.pop())
    }

    /// Takes a name away (RFC 8881 §18.25): of a file, a link, or an empty directory.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn remove(
        &self,
        dir: &FileHandle,
        target: Component,
    ) -> Result<ChangeInfo, ClientError> {
        let remove = OpArgs::Remove(RemoveArgs { target });
        match self.mds.on_file(dir, remove).await? {
            OpOk::Remove(ok) => Ok(ok.change),
            _ => Err(ClientError::unexpected(OpNum::REMOVE)),
        }
    }

    /// Gives a name of one directory another one, perhaps in another directory (RFC 8881 §18.26).
    /// What has the new name is replaced, if it may be.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn rename(
        &self,
        (source, oldname): (&FileHandle, Component),
        (target, newname): (&FileHandle, Component),
    ) -> Result<(), ClientError> {
        let rename = OpArgs::Rename(RenameArgs { oldname, newname });
        let ops = vec![putfh(source), OpArgs::Savefh, putfh(target), rename];
        self.mds.compound(ops).await.map(drop)
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
