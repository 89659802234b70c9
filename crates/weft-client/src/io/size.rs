//! The file's size at the metadata server: GETATTR and SETATTR.

use weft_nfs::{AttrNo, Attrs, Bitmap, OpArgs, OpNum, OpOk, ops::*};

use super::data_path::DataPath;
use crate::error::{ClientError, ProtocolError};

impl DataPath {
    /// The file's size, asked of the metadata server. A server that does not know that we have the
    /// file open may tell less than the file has, while one of its data servers is away: then it is
    /// asked in a way that it has to wait for the truth.
    pub(super) async fn getattr_size(&self) -> Result<u64, ClientError> {
        let request = Bitmap::of(&[AttrNo::SIZE]);
        let getattr = || OpArgs::Getattr(GetattrArgs { request });
        let told = self.mds.on_file(self.fh(), getattr()).await?;
        if self.mds.losses() == self.open.losses() {
            return size_of(told);
        }
        // RFC 8881 §18.15: what is compared is the file's own size, and no file has this one.
        let none = Attrs { size: Some(u64::MAX), ..Attrs::default() };
        let putfh = OpArgs::Putfh(PutfhArgs { object: self.fh().clone() });
        let ops = vec![putfh, OpArgs::Nverify(VerifyArgs { attrs: none.into() }), getattr()];
        let last = self.mds.compound(ops).await?.pop();
        size_of(last.ok_or(ClientError::unexpected(OpNum::GETATTR))?)
    }

    /// Learns whether others have made the file longer, or shorter. What we wrote ourselves counts,
    /// told to the server or not.
    pub(super) async fn refresh_size(&self) -> Result<(), ClientError> {
        let asked_at = self.cluster.files.moment();
        let size = self.getattr_size().await?;
        // What was asked before a delegation was granted may be of before it.
        if self.held_delegation().is_none_or(|held| held.since <= asked_at) {
            self.file.told_size(size, asked_at);
        }
        Ok(())
    }

    /// Sets the size, under the open.
    pub(super) async fn setattr_size(&self, size: u64) -> Result<(), ClientError> {
        let attrs = Attrs { size: Some(size), ..Attrs::default() };
        let set = SetattrArgs { stateid: self.io_stateid(), attrs: attrs.into() };
        self.mds.on_file(self.fh(), OpArgs::Setattr(set)).await.map(drop)
    }
}

fn size_of(told: OpOk) -> Result<u64, ClientError> {
    match told {
        OpOk::Getattr(ok) => Ok(ok.attrs.size.ok_or(ProtocolError::NoSize)?),
        _ => Err(ClientError::unexpected(OpNum::GETATTR)),
    }
}
