//! The file's size at the metadata server: GETATTR and SETATTR.

use weft_nfs::{AttrNo, Attrs, Bitmap, OpArgs, OpNum, OpOk, ops::*};

use super::data_path::DataPath;
use crate::error::{ClientError, ProtocolError};

impl DataPath {
    /// The file's size, asked of the metadata server.
    pub(super) async fn getattr_size(&self) -> Result<u64, ClientError> {
        let request = Bitmap::of(&[AttrNo::SIZE]);
        match self.cluster.mds.on_file(self.fh(), OpArgs::Getattr(GetattrArgs { request })).await? {
            OpOk::Getattr(ok) => Ok(ok.attrs.size.ok_or(ProtocolError::NoSize)?),
            _ => Err(ClientError::unexpected(OpNum::GETATTR)),
        }
    }

    /// Sets the size, under the open.
    pub(super) async fn setattr_size(&self, size: u64) -> Result<(), ClientError> {
        let attrs = Attrs { size: Some(size), ..Attrs::default() };
        let set = SetattrArgs { stateid: self.io_stateid(), attrs: attrs.into() };
        self.cluster.mds.on_file(self.fh(), OpArgs::Setattr(set)).await.map(drop)
    }
}
