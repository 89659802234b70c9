//! Holes, reserved space and copies of an open file: SEEK, ALLOCATE, DEALLOCATE, COPY of RFC 7862.
//!
//! The server does these itself. So what was written here is settled before, and the layout given
//! back, so that the server need not ask for it.

use weft_nfs::{
    NfsStat, OpArgs, OpNum, OpOk, StableHow,
    ops::{AllocateArgs, CopyArgs, DataContent, DeallocateArgs, Netlocs, SeekArgs},
};

use super::{Nodes, putfh};
use crate::{error::ClientError, io::FileIo};

impl Nodes {
    /// Where data, or a hole, begin from an offset on (RFC 7862 §15.11); the end of the file is a
    /// hole.
    ///
    /// # Errors
    /// NXIO from the end on, and where no data follow; [`ClientError`].
    pub async fn seek(
        &self,
        io: &FileIo,
        offset: u64,
        what: DataContent,
    ) -> Result<u64, ClientError> {
        io.commit().await?;
        let sought = io
            .under_open(|stateid| {
                self.mds.on_file(io.fh(), OpArgs::Seek(SeekArgs { stateid, offset, what }))
            })
            .await?;
        match sought {
            OpOk::Seek(found) if found.eof && what == DataContent::DATA => {
                Err(ClientError::Nfs { op: OpNum::SEEK, status: NfsStat::NXIO })
            }
            OpOk::Seek(found) => Ok(found.offset),
            _ => Err(ClientError::unexpected(OpNum::SEEK)),
        }
    }

    /// Reserves space for a range (RFC 7862 §15.1); the file reaches to its end at least.
    ///
    /// # Errors
    /// NOSPC; [`ClientError`].
    pub async fn allocate(&self, io: &FileIo, offset: u64, length: u64) -> Result<(), ClientError> {
        let end = offset.checked_add(length);
        let allocate = |stateid| OpArgs::Allocate(AllocateArgs { stateid, offset, length });
        let ask = || io.under_open(|stateid| self.mds.on_file(io.fh(), allocate(stateid)));
        io.changed_by(end, ask).await.map(drop)
    }

    /// Makes a hole of a range (RFC 7862 §15.4); the size stays.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn deallocate(
        &self,
        io: &FileIo,
        offset: u64,
        length: u64,
    ) -> Result<(), ClientError> {
        let deallocate = |stateid| OpArgs::Deallocate(DeallocateArgs { stateid, offset, length });
        let ask = || io.under_open(|stateid| self.mds.on_file(io.fh(), deallocate(stateid)));
        io.changed_by(None, ask).await.map(drop)
    }

    /// Copies a range from one file to another, which the servers do among themselves (RFC 7862
    /// §15.2): bytes copied, perhaps fewer than asked for. They are durable.
    ///
    /// # Errors
    /// INVAL beyond the end of the source, or within one file; [`ClientError`].
    pub async fn copy(
        &self,
        (from, src_offset): (&FileIo, u64),
        (to, dst_offset): (&FileIo, u64),
        count: u64,
    ) -> Result<u64, ClientError> {
        from.commit().await?;
        let copied =
            to.changed_by(None, || self.copy_settled((from, src_offset), (to, dst_offset), count));
        let copied = copied.await?;
        to.changed_to(dst_offset.saturating_add(copied));
        Ok(copied)
    }

    async fn copy_settled(
        &self,
        (from, src_offset): (&FileIo, u64),
        (to, dst_offset): (&FileIo, u64),
        count: u64,
    ) -> Result<u64, ClientError> {
        let copied = loop {
            let copy = CopyArgs {
                src_stateid: from.io_stateid(),
                dst_stateid: to.io_stateid(),
                src_offset,
                dst_offset,
                count,
                consecutive: true,
                synchronous: true,
                source_server: Netlocs::default(),
            };
            let ops = vec![putfh(from.fh()), OpArgs::Savefh, putfh(to.fh()), OpArgs::Copy(copy)];
            match self.mds.compound(ops).await {
                // Which of the two it was is not said.
                Err(e) if e.is_lost_state() => {
                    from.open_again().await?;
                    to.open_again().await?;
                }
                copied => break copied?,
            }
        };
        match copied.into_iter().next_back() {
            Some(OpOk::Copy(ok)) => {
                let done = ok.response;
                if done.committed != StableHow::FILE_SYNC {
                    self.mds.commit(to.fh()).await?;
                }
                Ok(done.count)
            }
            _ => Err(ClientError::unexpected(OpNum::COPY)),
        }
    }
}
