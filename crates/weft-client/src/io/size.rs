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

    /// The end of the file, for whoever reads up to there: as the server tells it now, unless more
    /// is known to be there or nobody else can have changed it.
    ///
    /// It may be found to be in doubt at any time, by a lock or another client: a size that is not
    /// known is never a short file. So what was in doubt while it was asked for is asked for again.
    pub(super) async fn end_for(&self, wanted_end: u64) -> Result<u64, ClientError> {
        let mut was_asked = false;
        loop {
            // One look: whatever is asked besides may drop it.
            let known = self.file.known_size();
            let serves = |end: u64| was_asked || wanted_end <= end || self.knows_size();
            match known.filter(|end| serves(*end)) {
                Some(end) => return Ok(end),
                None => self.refresh_size().await?,
            }
            was_asked = true;
        }
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
