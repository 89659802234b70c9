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

impl Nodes {
    /// A value (RFC 8276 §8.4.1).
    ///
    /// # Errors
    /// NOXATTR if there is none of that name; [`ClientError`].
    pub async fn getxattr(&self, fh: &FileHandle, name: Component) -> Result<Bytes, ClientError> {
        match self.mds.on_file(fh, OpArgs::Getxattr(GetxattrArgs { name })).await? {
            OpOk::Getxattr(ok) => Ok(ok.value.0),
            _ => Err(ClientError::unexpected(OpNum::GETXATTR)),
        }
    }

    /// Sets a value (RFC 8276 §8.4.2).
    ///
    /// # Errors
    /// EXIST or NOXATTR as the option says; [`ClientError`].
    pub async fn setxattr(
        &self,
        fh: &FileHandle,
        key: Component,
        value: Bytes,
        option: SetxattrOption,
    ) -> Result<(), ClientError> {
        let set = SetxattrArgs { option, key, value: XattrValue(value) };
        self.change_attrs(fh, OpArgs::Setxattr(set)).await.map(drop)
    }

    /// Takes a value away (RFC 8276 §8.4.4).
    ///
    /// # Errors
    /// NOXATTR if there is none of that name; [`ClientError`].
    pub async fn removexattr(&self, fh: &FileHandle, name: Component) -> Result<(), ClientError> {
        let remove = OpArgs::Removexattr(RemovexattrArgs { name });
        self.change_attrs(fh, remove).await.map(drop)
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
            let page = match self.mds.on_file(fh, OpArgs::Listxattrs(args)).await? {
                OpOk::Listxattrs(page) => page,
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
