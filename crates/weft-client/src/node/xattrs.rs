//! Extended attributes of nodes: RFC 8276. Names are without Linux' `user.`, which is the only
//! namespace that the protocol has.

use bytes::Bytes;
use weft_nfs::{
    Component, FileHandle, OpArgs, OpNum, OpOk,
    ops::{
        GetxattrArgs, ListxattrsArgs, RemovexattrArgs, SetxattrArgs, SetxattrOption, XattrValue,
    },
};

use super::Nodes;
use crate::{
    error::{ClientError, ProtocolError},
    limits,
};

/// What SETXATTR is to do with a value that is there, or is not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum XattrMode {
    /// Make or replace it.
    Either,
    /// It must not be there.
    Create,
    /// It must be there.
    Replace,
}

impl Nodes {
    /// A value (RFC 8276 §8.4.1).
    ///
    /// # Errors
    /// NOXATTR if there is none of that name; [`ClientError`].
    pub async fn getxattr(&self, fh: &FileHandle, name: Component) -> Result<Bytes, ClientError> {
        match self.on_node(fh, [OpArgs::Getxattr(GetxattrArgs { name })]).await?.pop() {
            Some(OpOk::Getxattr(ok)) => Ok(ok.value.0),
            _ => Err(ClientError::unexpected(OpNum::GETXATTR)),
        }
    }

    /// Sets a value (RFC 8276 §8.4.2).
    ///
    /// # Errors
    /// EXIST or NOXATTR as the mode says; [`ClientError`].
    pub async fn setxattr(
        &self,
        fh: &FileHandle,
        key: Component,
        value: Bytes,
        mode: XattrMode,
    ) -> Result<(), ClientError> {
        let option = match mode {
            XattrMode::Either => SetxattrOption::EITHER,
            XattrMode::Create => SetxattrOption::CREATE,
            XattrMode::Replace => SetxattrOption::REPLACE,
        };
        let set = SetxattrArgs { option, key, value: XattrValue(value) };
        self.on_node(fh, [OpArgs::Setxattr(set)]).await.map(drop)
    }

    /// Takes a value away (RFC 8276 §8.4.4).
    ///
    /// # Errors
    /// NOXATTR if there is none of that name; [`ClientError`].
    pub async fn removexattr(&self, fh: &FileHandle, name: Component) -> Result<(), ClientError> {
        self.on_node(fh, [OpArgs::Removexattr(RemovexattrArgs { name })]).await.map(drop)
    }

    /// The names of all values (RFC 8276 §8.4.3), as far as they take no more than
    /// [`limits::XATTR_LIST_BYTES_MAX`], which is all that Linux could pass on.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn listxattrs(&self, fh: &FileHandle) -> Result<Vec<Component>, ClientError> {
        let (mut names, mut cookie, mut bytes) = (Vec::new(), 0, 0);
        loop {
            let args = ListxattrsArgs { cookie, maxcount: limits::READDIR_BYTES / 4 };
            let page = match self.on_node(fh, [OpArgs::Listxattrs(args)]).await?.pop() {
                Some(OpOk::Listxattrs(page)) => page,
                _ => return Err(ClientError::unexpected(OpNum::LISTXATTRS)),
            };
            bytes += page.names.iter().map(|name| name.0.len() + 1).sum::<usize>();
            let is_stuck = page.names.is_empty() && !page.eof;
            names.extend(page.names);
            if page.eof || bytes > limits::XATTR_LIST_BYTES_MAX {
                return Ok(names);
            }
            if is_stuck {
                return Err(ProtocolError::ReaddirStuck.into());
            }
            cookie = page.cookie;
        }
    }
}
