//! Extended attributes. The protocol has Linux' `user.` ones only (RFC 8276 §3): the others are
//! said not to be there, or not supported, without asking the server.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use bytes::Bytes;
use fuser::Errno;
use weft_client::node::Nodes;
use weft_nfs::{Component, ops::SetxattrOption};

use crate::{errno::OrErrno, tree::Tree};

const USER: &[u8] = b"user.";
/// `XATTR_CREATE` and `XATTR_REPLACE` of `include/uapi/linux/xattr.h`.
const CREATE: i32 = 1;
const REPLACE: i32 = 2;

/// The protocol's name of an attribute.
pub fn key_of(name: &OsStr) -> Result<Component, Errno> {
    let key = name.as_bytes().strip_prefix(USER).filter(|key| !key.is_empty());
    key.map(|key| Component(Bytes::copy_from_slice(key))).ok_or(Errno::EOPNOTSUPP)
}

impl Tree {
    pub async fn getxattr(&self, nodes: &Nodes, ino: u64, key: Component) -> Result<Bytes, Errno> {
        let fh = self.inodes.handle(ino)?;
        nodes.getxattr(&fh, key).await.or_errno()
    }

    pub async fn setxattr(
        &self,
        nodes: &Nodes,
        ino: u64,
        (key, value): (Component, Bytes),
        flags: i32,
    ) -> Result<(), Errno> {
        let fh = self.inodes.handle(ino)?;
        let option = match flags {
            0 => SetxattrOption::EITHER,
            CREATE => SetxattrOption::CREATE,
            REPLACE => SetxattrOption::REPLACE,
            _ => return Err(Errno::EINVAL),
        };
        let set = nodes.setxattr(&fh, key, value, option).await;
        self.recent.forget(ino);
        set.or_errno()
    }

    pub async fn removexattr(&self, nodes: &Nodes, ino: u64, key: Component) -> Result<(), Errno> {
        let fh = self.inodes.handle(ino)?;
        let removed = nodes.removexattr(&fh, key).await;
        self.recent.forget(ino);
        removed.or_errno()
    }

    /// All names as `listxattr(2)` has them, each with a zero byte behind it.
    pub async fn listxattr(&self, nodes: &Nodes, ino: u64) -> Result<Vec<u8>, Errno> {
        let fh = self.inodes.handle(ino)?;
        let names = nodes.listxattrs(&fh).await.or_errno()?;
        Ok(names.iter().flat_map(|name| [USER, &name.0[..], b"\0"].concat()).collect())
    }
}
