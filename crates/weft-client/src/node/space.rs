//! Holes, reserved space and copies of an open file: SEEK, ALLOCATE, DEALLOCATE, COPY,
//! CLONE of RFC 7862.
//!
//! The server does these itself. So what was written here is settled before, and the layout given
//! back, so that the server need not ask for it.

use std::sync::Arc;

use weft_nfs::{
    NfsStat, OpArgs, OpNum, OpOk, StableHow, Stateid,
    ops::{AllocateArgs, CloneArgs, CopyArgs, DataContent, DeallocateArgs, Netlocs, SeekArgs},
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
        io.commit_for_others().await?;
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
    pub async fn allocate(
        &self,
        io: &Arc<FileIo>,
        offset: u64,
        length: u64,
    ) -> Result<(), ClientError> {
        let end = offset.saturating_add(length);
        let allocate = move |stateid| OpArgs::Allocate(AllocateArgs { stateid, offset, length });
        io.changed_by(move |_| end, self.asking(io, allocate)).await.map(drop)
    }

    /// Makes a hole of a range (RFC 7862 §15.4); the size stays.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn deallocate(
        &self,
        io: &Arc<FileIo>,
        offset: u64,
        length: u64,
    ) -> Result<(), ClientError> {
        let deallocate =
            move |stateid| OpArgs::Deallocate(DeallocateArgs { stateid, offset, length });
        io.changed_by(|_| 0, self.asking(io, deallocate)).await.map(drop)
    }

    /// An operation on an open file, given its stateid.
    fn asking(
        &self,
        io: &Arc<FileIo>,
        op: impl Fn(Stateid) -> OpArgs + Send + Sync + 'static,
    ) -> impl Future<Output = Result<OpOk, ClientError>> + Send + 'static {
        let (mds, io) = (self.mds.clone(), io.clone());
        async move { io.under_open(|stateid| mds.on_file(io.fh(), op(stateid))).await }
    }

    /// Copies a range from one file to another, which the servers do among themselves (RFC 7862
    /// §15.2): bytes copied, perhaps fewer than asked for. They are durable.
    ///
    /// # Errors
    /// INVAL beyond the end of the source, or within one file; [`ClientError`].
    pub async fn copy(
        &self,
        (from, src_offset): (&Arc<FileIo>, u64),
        (to, dst_offset): (&Arc<FileIo>, u64),
        count: u64,
    ) -> Result<u64, ClientError> {
        from.commit_for_others().await?;
        let reaches = move |copied: &u64| dst_offset.saturating_add(*copied);
        let (me, source, target) = (self.clone(), from.clone(), to.clone());
        let copy = async move {
            me.copy_settled((&source, src_offset), (&target, dst_offset), count).await
        };
        to.changed_by(reaches, copy).await
    }

    /// Has a new file share the blocks of another one of this size (RFC 7862 §15.13), as far as the
    /// servers can: they are durable.
    ///
    /// # Errors
    /// NOTSUPP and XDEV if they cannot; INVAL if the source is no longer so long, or within one
    /// file; [`ClientError`].
    pub async fn clone_whole(
        &self,
        from: &Arc<FileIo>,
        to: &Arc<FileIo>,
        size: u64,
    ) -> Result<(), ClientError> {
        from.commit_for_others().await?;
        let clone = move |src_stateid, dst_stateid| {
            let (src_offset, dst_offset, count) = (0, 0, size);
            let args = CloneArgs { src_stateid, dst_stateid, src_offset, dst_offset, count };
            OpArgs::Clone(args)
        };
        let (me, source, target) = (self.clone(), from.clone(), to.clone());
        let change = async move { me.between(&source, &target, clone).await };
        to.changed_by(move |_| size, change).await.map(drop)
    }

    async fn copy_settled(
        &self,
        (from, src_offset): (&FileIo, u64),
        (to, dst_offset): (&FileIo, u64),
        count: u64,
    ) -> Result<u64, ClientError> {
        let copy = |src_stateid, dst_stateid| {
            OpArgs::Copy(CopyArgs {
                src_stateid,
                dst_stateid,
                src_offset,
                dst_offset,
                count,
                consecutive: true,
                synchronous: true,
                source_server: Netlocs::default(),
            })
        };
        match self.between(from, to, copy).await? {
            OpOk::Copy(ok) => {
                let done = ok.response;
                if done.committed != StableHow::FILE_SYNC {
                    self.mds.commit(to.fh()).await?;
                }
                Ok(done.count)
            }
            _ => Err(ClientError::unexpected(OpNum::COPY)),
        }
    }

    /// An operation from one open file to another, given their stateids.
    async fn between(
        &self,
        from: &FileIo,
        to: &FileIo,
        op: impl Fn(Stateid, Stateid) -> OpArgs,
    ) -> Result<OpOk, ClientError> {
        loop {
            let op = op(from.io_stateid(), to.io_stateid());
            let ops = vec![putfh(from.fh()), OpArgs::Savefh, putfh(to.fh()), op];
            match self.mds.compound(ops).await {
                // Which of the two it was is not said.
                Err(e) if e.is_lost_state() => {
                    from.open_again().await?;
                    to.open_again().await?;
                }
                done => return done?.pop().ok_or(ClientError::unexpected(OpNum::COPY)),
            }
        }
    }
}
