//! The data of one open file, as its users see it.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU64, Ordering},
};

use bytes::Bytes;
use weft_io::MemoryRegion;
use weft_nfs::{
    FileHandle, OpArgs, Seqid, Stateid,
    ops::{CloseArgs, OpenClaim},
};

use super::{
    cluster::Cluster,
    data_path::DataPath,
    layout::LayoutInfo,
    open::Opened,
    sink::{MemorySink, ReadSink, RegionSink},
    source::Source,
    write::Outgoing,
};
use crate::error::ClientError;
#[cfg(doc)]
use crate::limits;

/// `open_delegation_type4`: the client had no delegation.
const OPEN_DELEGATE_NONE: u32 = 0;

/// Data path of one open of a file. Shared by everyone who uses that open.
pub struct FileIo {
    path: DataPath,
    /// Failures of the file this open has heard of, or that were before it.
    failures_seen: AtomicU64,
    has_left: AtomicBool,
}

impl FileIo {
    /// The data path of an open.
    pub fn new(cluster: Arc<Cluster>, opened: Opened) -> FileIo {
        let path = DataPath::new(cluster, opened);
        let failures_seen = AtomicU64::new(path.file.failure_after(0).0);
        FileIo { path, failures_seen, has_left: AtomicBool::new(false) }
    }

    /// The file.
    pub fn fh(&self) -> &FileHandle {
        self.path.fh()
    }

    /// The end of the file as far as this client knows.
    pub fn size(&self) -> u64 {
        self.path.size()
    }

    /// Notes a size set or learnt elsewhere.
    pub fn set_size(&self, size: u64) {
        self.path.set_size(size);
    }

    /// The open's stateid as I/O sends it: seqid 0 means the current one (RFC 8881 §8.2.2).
    pub fn io_stateid(&self) -> Stateid {
        self.path.io_stateid()
    }

    /// Makes a request that relies on this open, given its stateid: again whenever the server had
    /// forgotten the open, after the file was opened again.
    pub(crate) async fn under_open<T, F>(
        &self,
        request: impl Fn(Stateid) -> F,
    ) -> Result<T, ClientError>
    where
        F: Future<Output = Result<T, ClientError>>,
    {
        self.path.reopening(&self.path.open, || request(self.io_stateid())).await
    }

    /// Opens the file again: the server had forgotten the open.
    pub(crate) async fn open_again(&self) -> Result<(), ClientError> {
        self.path.reopen(&self.path.open).await
    }

    /// OPEN of the file by a client that had it open when the server stopped; the current
    /// filehandle is the file's.
    pub(crate) fn reclaiming(&self) -> OpArgs {
        self.path.open.opening(OpenClaim::Previous(OPEN_DELEGATE_NONE))
    }

    /// The server has given the open back.
    pub(crate) fn reclaimed(&self, stateid: Stateid) {
        self.path.open.opened_again(stateid, self.path.mds.losses());
    }

    /// The file's size, asked of the metadata server.
    ///
    /// # Errors
    /// Those of GETATTR.
    pub async fn fetch_size(&self) -> Result<u64, ClientError> {
        self.path.getattr_size().await
    }

    /// What the layout says; fetched if there is none.
    ///
    /// # Errors
    /// [`crate::layout::LayoutError`] when the server gives none.
    pub async fn layout_info(&self) -> Result<LayoutInfo, ClientError> {
        self.path.layout_info().await
    }

    /// Whether a layout is held; unknown while one comes or goes (a recall that meets this
    /// moment has to come again).
    pub fn holds_layout(&self) -> Option<bool> {
        self.path.holds_layout()
    }

    /// Writes a range. On return the data are at the servers, or gathered if the policy says so
    /// ([`super::IoPolicy`]), not necessarily durable: [`FileIo::commit`] makes them so.
    ///
    /// # Errors
    /// [`ClientError`]; part of the range may have been written. With a policy that gathers, that
    /// of an earlier write that only now left; then nothing of this one was taken.
    pub async fn write(&self, offset: u64, len: u64, source: &Source) -> Result<(), ClientError> {
        let end = offset.checked_add(len).ok_or(ClientError::Invalid("beyond the largest file"))?;
        match self.path.gathers(len, source) {
            Some(data) if len > 0 => self.path.gather(offset, &data).await,
            _ => self.write_now((offset, end), source, false).await,
        }
    }

    /// The same of all bytes of a file that is closed next, which are not gathered.
    ///
    /// # Errors
    /// As [`FileIo::write`].
    pub async fn write_whole(&self, len: u64, source: &Source) -> Result<(), ClientError> {
        self.write_now((0, len), source, true).await
    }

    async fn write_now(
        &self,
        (offset, end): (u64, u64),
        source: &Source,
        then_durable: bool,
    ) -> Result<(), ClientError> {
        if offset == end {
            return Ok(());
        }
        let path = &self.path;
        path.flush_overlapping(offset, end).await?;
        path.send(&Outgoing {
            by: &path.open,
            start: offset,
            ranges: &[(offset, end - offset)],
            source,
            worth_layout: path.is_worth_layout(&path.open, end),
            then_durable,
        })
        .await?;
        let is_full = path.file.lock_dirty().is_full();
        if is_full {
            self.commit_sent().await?;
        }
        Ok(())
    }

    /// Sends what was gathered.
    ///
    /// # Errors
    /// [`ClientError`]; what could not be sent stays gathered.
    pub async fn flush(&self) -> Result<(), ClientError> {
        self.path.flush().await
    }

    /// Reads at most `len` bytes; fewer only at the end of the file. One piece is returned as
    /// it was received, several are joined in one copy.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn read(&self, offset: u64, len: usize) -> Result<Bytes, ClientError> {
        let sink = Arc::new(MemorySink::default());
        let read = self.read_into(offset, len as u64, sink.clone()).await?;
        let read = usize::try_from(read).map_err(|_| ClientError::Invalid("too long"))?;
        Ok(sink.join(offset, read))
    }

    /// Reads from `offset` on into memory, as much as that has room for; returns the number of
    /// bytes up to its end or the end of the file. Large replies are read from the socket to their
    /// place; what servers have nothing for is made zeros, what is beyond the end stays as it is.
    ///
    /// # Errors
    /// [`ClientError`]; [`ClientError::Local`] if the memory was taken back meanwhile.
    pub async fn read_memory(
        &self,
        offset: u64,
        memory: Arc<MemoryRegion>,
    ) -> Result<u64, ClientError> {
        let len = memory.len() as u64;
        self.read_into(offset, len, Arc::new(RegionSink::new(memory, offset))).await
    }

    /// Reads into a sink; returns the number of bytes up to the end of the range or the file.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn read_into<S: ReadSink>(
        &self,
        offset: u64,
        len: u64,
        sink: Arc<S>,
    ) -> Result<u64, ClientError> {
        let path = &self.path;
        path.flush().await?;
        let wanted_end = offset.saturating_add(len);
        if wanted_end > path.size() {
            // Another client may have written more since (or less, if it truncated).
            let size = path.getattr_size().await?;
            if path.is_writable() {
                // What we wrote ourselves counts, told to the server or not.
                path.grow_to(size);
            } else {
                path.set_size(size);
            }
        }
        let len = wanted_end.min(path.size()).saturating_sub(offset);
        if len == 0 {
            return Ok(0);
        }
        let through_mds = match path.read_striped((offset, len), &sink).await? {
            None => vec![(offset, len)],
            Some(failed) => {
                if !failed.is_empty() {
                    tracing::warn!(ranges = failed.len(), "data server failed: through the MDS");
                    path.give_up_layout().await?;
                }
                failed
            }
        };
        for range in through_mds {
            path.reopening(&path.open, || path.read_at_mds(range, &sink)).await?;
        }
        Ok(len)
    }

    /// Makes everything written to the file durable and visible: COMMIT on every server written
    /// to, then LAYOUTCOMMIT. Calls at the same time settle one after another; one that is dropped
    /// before it ends leaves what it has not heard of to the next.
    ///
    /// # Errors
    /// A server's refusal; [`ClientError::NotCommitted`] when data servers lost what was
    /// written [`limits::REWRITES_MAX`] times in a row; what is not durable stays remembered.
    /// Once for each open for writing, the failure of a LAYOUTCOMMIT whose layout is gone.
    pub async fn commit(&self) -> Result<(), ClientError> {
        self.path.flush().await?;
        self.commit_sent().await
    }

    /// The same of what has left for the servers.
    async fn commit_sent(&self) -> Result<(), ClientError> {
        self.path.settle().await?;
        self.hear_of_failures()
    }

    /// A failure to tell the metadata server what was written that this open has not heard of.
    fn hear_of_failures(&self) -> Result<(), ClientError> {
        if !self.path.is_writable() {
            return Ok(());
        }
        let seen = self.failures_seen.load(Ordering::Acquire);
        let (count, failure) = self.path.file.failure_after(seen);
        self.failures_seen.fetch_max(count, Ordering::AcqRel);
        failure.map_or(Ok(()), Err)
    }

    /// Sets the size; what was written before is made durable first.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn truncate(&self, size: u64) -> Result<(), ClientError> {
        self.commit().await?;
        let path = &self.path;
        path.reopening(&path.open, || path.setattr_size(size)).await?;
        path.set_size(size);
        Ok(())
    }

    /// Settles and returns the layout, if one is held; the next I/O may fetch a new one.
    ///
    /// # Errors
    /// When what was written through it could not be made durable.
    pub async fn return_layout(&self) -> Result<(), ClientError> {
        self.path.return_layout().await
    }

    /// Makes everything written durable and closes the open; the last one returns the layout.
    ///
    /// # Errors
    /// When written data could not be made durable or visible; the open is closed all the same.
    pub async fn close(&self) -> Result<(), ClientError> {
        let committed = match self.path.flush().await {
            Ok(()) if self.is_alone() => match self.path.end(self.close_op()).await {
                Ok(true) => {
                    self.leave();
                    return self.hear_of_failures();
                }
                Ok(false) => self.hear_of_failures(),
                Err(e) => Err(e),
            },
            Ok(()) => self.commit_sent().await,
            Err(e) => Err(e),
        };
        let returned = if self.leave() { self.return_layout().await } else { Ok(()) };
        // What is not safe now never will be, and the caller knows: no stateid is left for it.
        let path = &self.path;
        path.file.gathered.forget(&path.open).await;
        path.file.lock_dirty().forget(&path.open);
        let closed = self.send_close().await;
        committed.and(returned).and(closed)
    }

    /// Whether no other open uses the file now.
    fn is_alone(&self) -> bool {
        !self.has_left.load(Ordering::Acquire) && self.path.file.has_one_user()
    }

    /// Says, once, whether no other open uses the file.
    fn leave(&self) -> bool {
        !self.has_left.swap(true, Ordering::AcqRel) && self.path.file.leave()
    }

    fn close_op(&self) -> OpArgs {
        let open_stateid = *self.path.open.lock_stateid();
        OpArgs::Close(CloseArgs { seqid: Seqid(0), open_stateid })
    }

    async fn send_close(&self) -> Result<(), ClientError> {
        match self.path.mds.on_file(self.fh(), self.close_op()).await {
            Ok(_) => Ok(()),
            // Gone already, as far as the server is concerned.
            Err(e) if e.is_lost_state() => Ok(()),
            Err(ClientError::OutcomeUnknown { .. }) => Ok(()),
            Err(e) => Err(e),
        }
    }
}

impl Drop for FileIo {
    fn drop(&mut self) {
        self.leave();
    }
}
