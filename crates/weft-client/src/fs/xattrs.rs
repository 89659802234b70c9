//! Extended attributes of what paths lead to (RFC 8276). Names are without Linux' `user.`.

use std::path::Path;

use bytes::Bytes;
use weft_nfs::{Component, NfsStat, ops::SetxattrOption};

use super::{
    client::Client,
    error::{At, FsError},
};

impl Client {
    /// The value of an extended attribute; `None` if there is none of that name.
    ///
    /// # Errors
    /// [`FsError`].
    pub async fn xattr(
        &self,
        path: impl AsRef<Path>,
        name: &str,
    ) -> Result<Option<Bytes>, FsError> {
        let path = path.as_ref();
        let found = self.resolve(path, true).await?;
        match self.nodes.getxattr(&found.fh, component(name)).await {
            Ok(value) => Ok(Some(value)),
            Err(e) if e.status() == Some(NfsStat::NOXATTR) => Ok(None),
            Err(e) => Err(e).at(path),
        }
    }

    /// Sets an extended attribute, whether it was there or not.
    ///
    /// # Errors
    /// [`FsError`].
    pub async fn set_xattr(
        &self,
        path: impl AsRef<Path>,
        name: &str,
        value: impl Into<Bytes>,
    ) -> Result<(), FsError> {
        let path = path.as_ref();
        let found = self.resolve(path, true).await?;
        let (key, option) = (component(name), SetxattrOption::EITHER);
        self.nodes.setxattr(&found.fh, key, value.into(), option).await.at(path)
    }

    /// Takes an extended attribute away; whether there was one.
    ///
    /// # Errors
    /// [`FsError`].
    pub async fn remove_xattr(&self, path: impl AsRef<Path>, name: &str) -> Result<bool, FsError> {
        let path = path.as_ref();
        let found = self.resolve(path, true).await?;
        match self.nodes.removexattr(&found.fh, component(name)).await {
            Ok(()) => Ok(true),
            Err(e) if e.status() == Some(NfsStat::NOXATTR) => Ok(false),
            Err(e) => Err(e).at(path),
        }
    }
}

fn component(name: &str) -> Component {
    Component(Bytes::copy_from_slice(name.as_bytes()))
}
