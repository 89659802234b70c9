//! The data of one open file, as its users see it.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU64, Ordering},
};

use bytes::Bytes;
use tokio::sync::OwnedRwLockWriteGuard;
use weft_io::MemoryRegion;
use weft_nfs::{FileHandle, NfsStat, OpArgs, OpNum, Stateid, ops::OpenClaim};

use super::{
    cluster::Cluster,
    data_path::DataPath,
    held::LayoutState,
    layout::LayoutInfo,
    open::{Opened, Thresholds, Writer},
    policy::IoPolicy,
    sink::{MemorySink, ReadSink, RegionSink},
    source::{PieceReport, Source},
};
use crate::{
    boxed::Spawned,
    cache::{ReadAhead, TooFar},
    error::ClientError,
    layout::ExportedLayout,
    limits,
    sync::Mutex,
};

/// `open_delegation_type4`: the client had no delegation.
const OPEN_DELEGATE_NONE: u32 = 0;

/// Data path of one open of a file. Shared by everyone who uses that open.
pub struct FileIo {
    path: Arc<DataPath>,
    policy: IoPolicy,
    /// What comes next, by what was read.
    ahead: Mutex<ReadAhead>,
    /// Failures of the file this open has heard of, or that were before it.
    failures_seen: AtomicU64,
    has_left: AtomicBool,
    was_flushed: AtomicBool,
}

impl FileIo {
    /// The data path of an open.
    pub fn new(cluster: Arc<Cluster>, opened: Opened) -> FileIo {
        let policy = opened.policy;
        let path = Arc::new(DataPath::new(cluster, opened));
        let failures_seen = AtomicU64::new(path.file.failure_after(0).0);
        let ahead = ReadAhead::new(policy.read_ahead_bytes.into(), limits::CACHE_BLOCK_BYTES);
        let ahead = Mutex::new(ahead);
        let (has_left, was_flushed) = (AtomicBool::new(false), AtomicBool::new(false));
        FileIo { path, policy, ahead, failures_seen, has_left, was_flushed }
    }

    /// Below which sizes I/O goes through the metadata server, as it said when the file was opened.
    pub fn thresholds(&self) -> Thresholds {
        self.path.open.opened.thresholds
    }

    /// The file.
    pub fn fh(&self) -> &FileHandle {
        self.path.fh()
    }

    /// The end of the file as far as this client knows.
    pub fn size(&self) -> u64 {
        self.path.file.size()
    }

    /// The same, if the server has told it and nothing has happened that makes it doubtful.
    pub fn known_size(&self) -> Option<u64> {
        self.path.file.known_size()
    }

    /// The end of what this client has written and that the server may not know of.
    pub fn reaches(&self) -> u64 {
        self.path.file.reaches()
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
        self.path.tell_if_alone(OpenClaim::Fh).await?;
        self.path.reopening(&self.path.open, || request(self.io_stateid())).await
    }

    /// From now on this open, whose stateid is a delegation's, relies on that; not if it is wanted
    /// back.
    pub(crate) async fn rely_on_delegation(&self) -> bool {
        self.path.rely_on_delegation().await
    }

    /// Before a delegation goes back that this open may rely on (RFC 8881 §10.4.4).
    pub(crate) async fn outlive(&self, delegation: Stateid) -> Result<(), ClientError> {
        self.path.tell_if_alone(OpenClaim::DelegCurFh(delegation)).await
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
    pub(crate) fn reclaimed(&self, stateid: Stateid, rflags: u32) {
        self.path.open.opened_again((stateid, rflags), self.path.mds.losses());
    }

    /// Whether to open it again since the server does not call when a lock may be free that was
    /// denied under this open: once.
    pub(crate) fn lacks_notices(&self) -> bool {
        self.path.open.lacks_notices()
    }

    /// The file's size, asked of the metadata server.
    ///
    /// # Errors
    /// Those of GETATTR.
    pub async fn fetch_size(&self) -> Result<u64, ClientError> {
        self.path.getattr_size().await
    }

    /// The end of the file now, what was written here and has not left included: asked of the
    /// metadata server unless nobody else can have changed it.
    ///
    /// # Errors
    /// Those of GETATTR.
    pub async fn end(&self) -> Result<u64, ClientError> {
        self.path.end_for(u64::MAX).await
    }

    /// What the layout says; fetched if there is none.
    ///
    /// # Errors
    /// [`crate::layout::LayoutError`] when the server gives none.
    pub async fn layout_info(&self) -> Result<LayoutInfo, ClientError> {
        self.path.layout_info().await
    }

    /// The layout to read the file by, for other clients (P4.7); fetched if there is none. What it
    /// allows, and for how long: [`crate::fs::File::export_layout`].
    ///
    /// # Errors
    /// [`crate::layout::LayoutError`] when the server gives none, or this client has one for
    /// writing; [`ClientError::Invalid`] unless the file is open for reading alone.
    pub async fn export_layout(&self) -> Result<ExportedLayout, ClientError> {
        self.path.export_layout().await
    }

    /// From now on reads by a layout that another client has exported, unless this one has a layout
    /// of the file. When the data servers no longer take it, this client asks for its own.
    ///
    /// # Errors
    /// [`crate::layout::LayoutError`] if it is of another file or cluster, or there is no driver
    /// for it.
    pub async fn import_layout(&self, exported: &ExportedLayout) -> Result<(), ClientError> {
        self.path.import_layout(exported).await
    }

    /// Whether a layout is held; unknown while one comes or goes (a recall that meets this
    /// moment has to come again).
    pub fn holds_layout(&self) -> Option<bool> {
        self.path.holds_layout()
    }

    /// From now on tells of each piece of what this open wrote that arrives.
    pub fn report_to(&self, report: PieceReport) {
        self.path.open.report_to(report);
    }

    /// Writes a range. On return the data are at the servers, or in the cache if the policy says so
    /// ([`IoPolicy`]), not necessarily durable: [`FileIo::commit`] makes them so.
    ///
    /// # Errors
    /// [`ClientError`]; part of the range may have been written. With a policy that gathers, that
    /// of an earlier write that only now left; then nothing of this one was taken.
    pub async fn write(&self, offset: u64, len: u64, source: &Source) -> Result<(), ClientError> {
        let is_small = len < u64::from(self.policy.gather_below);
        if is_small && matches!(source, Source::Bytes(_)) {
            self.enter(offset, len, source).await?;
            self.path.write_back_if_due();
            return Ok(());
        }
        self.write_now((offset, len), source, false).await
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
        (offset, len): (u64, u64),
        source: &Source,
        then_durable: bool,
    ) -> Result<(), ClientError> {
        self.enter(offset, len, source).await?;
        self.path.drain(offset, len, then_durable).await?;
        match self.path.pressure().commit {
            true => self.settle().await,
            false => Ok(()),
        }
    }

    /// Takes written data into the cache, when there is room.
    async fn enter(&self, offset: u64, len: u64, source: &Source) -> Result<(), ClientError> {
        let path = &self.path;
        if !path.is_writable() {
            return Err(ClientError::Nfs { op: OpNum::WRITE, status: NfsStat::OPENMODE });
        }
        let too_far = ClientError::Invalid("beyond the largest file");
        let end = offset.checked_add(len).ok_or(too_far.clone())?;
        let payload = source.payload(len).ok_or(ClientError::Invalid("fewer bytes than said"))?;
        if len == 0 {
            return Ok(());
        }
        path.make_room().await?;
        let _entering = path.file.guards.enter().await;
        let untold = path.file.has_untold();
        path.file
            .cache(|cache| {
                if !untold && !cache.ranges.is_unsettled() {
                    cache.size.all_told();
                }
                cache.ranges.put(&Writer(path.open.clone()), offset, &payload)?;
                cache.wrote(end, path.file.now());
                Ok(())
            })
            .map_err(|TooFar| too_far)
    }

    /// Sends what was gathered. The first time little of it is durable then: who looks at what he
    /// has written usually closes it next, and that would be one more request.
    ///
    /// # Errors
    /// [`ClientError`]; what could not be sent stays gathered.
    pub async fn flush(&self) -> Result<(), ClientError> {
        let is_due = self.path.file.look(|cache| cache.ranges.is_unsent(0, u64::MAX));
        let is_first = is_due && !self.was_flushed.swap(true, Ordering::AcqRel);
        self.send_dirty(is_first).await
    }

    /// Reads at most `len` bytes; fewer only at the end of the file. One piece is returned as
    /// it was received, several are joined in one copy.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn read(&self, offset: u64, len: usize) -> Result<Bytes, ClientError> {
        let sink = Arc::new(MemorySink::default());
        let read = self.read_kept(offset, len as u64, sink.clone()).await?;
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
        self.read_kept(offset, len, Arc::new(RegionSink::new(memory, offset))).await
    }

    /// Reads what is kept afterwards, if the policy says so, and is no stream.
    async fn read_kept(
        &self,
        offset: u64,
        len: u64,
        sink: Arc<dyn ReadSink>,
    ) -> Result<u64, ClientError> {
        let keeps = self.policy.keeps && len < limits::KEEP_READS_BELOW;
        self.read_with(offset, len, &sink, keeps.then_some(&self.ahead)).await
    }

    /// Reads into a sink; returns the number of bytes up to the end of the range or the file. What
    /// comes from servers is not kept.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn read_into(
        &self,
        offset: u64,
        len: u64,
        sink: Arc<dyn ReadSink>,
    ) -> Result<u64, ClientError> {
        self.read_with(offset, len, &sink, None).await
    }

    async fn read_with(
        &self,
        offset: u64,
        len: u64,
        sink: &Arc<dyn ReadSink>,
        ahead: Option<&Mutex<ReadAhead>>,
    ) -> Result<u64, ClientError> {
        let path = &self.path;
        let wanted_end = offset.saturating_add(len);
        let len = wanted_end.min(path.end_for(wanted_end).await?).saturating_sub(offset);
        if len > 0 {
            path.read_cached((offset, len), sink, ahead).await?;
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
        self.send_dirty(true).await?;
        self.settle().await
    }

    /// [`FileIo::commit`] for somebody else: a failure that came about earlier is still told to
    /// whoever uses this open.
    ///
    /// # Errors
    /// As there, but for those.
    pub async fn commit_for_others(&self) -> Result<(), ClientError> {
        self.send_dirty(true).await?;
        self.path.settle().await
    }

    /// The same of what has left for the servers.
    async fn settle(&self) -> Result<(), ClientError> {
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
        let path = self.path.clone();
        let set = async move { path.reopening(&path.open, || path.setattr_size(size)).await };
        self.truncate_by(size, set).await
    }

    /// The same by another request that sets the size, made when all is durable and nothing on its
    /// way. Once it has begun it goes on to its end, and writers wait for that, whoever does: it
    /// must not cut what they were told is durable.
    ///
    /// What is beyond the new end and has no room at the servers need not get there: a file that
    /// fills them is cut.
    pub(crate) async fn truncate_by<T: Send + 'static>(
        &self,
        size: u64,
        set: impl Future<Output = Result<T, ClientError>> + Send + 'static,
    ) -> Result<T, ClientError> {
        let still = self.path.file.guards.hold_writers().await;
        let path = self.path.clone();
        Spawned::new(async move {
            let given_up = path.settle_below(size).await?;
            let done = set.await;
            match &done {
                Ok(_) => path.file.truncated(size),
                // It may be, or may not be, so long now.
                Err(e) => {
                    path.file.outdated();
                    // With an open that was lost it is set again.
                    if let Some(why) = given_up.filter(|_| !e.is_lost_state()) {
                        path.file.failed(why);
                    }
                }
            }
            drop(still);
            done
        })
        .await
    }

    /// Makes everything written durable, and keeps writers out of the cache while it is held.
    async fn hold_settled(&self) -> Result<OwnedRwLockWriteGuard<()>, ClientError> {
        let still = self.path.file.guards.hold_writers().await;
        self.path.settle_all().await?;
        Ok(still)
    }

    /// What is known of the file may be out of date, as after a wait for a lock: what was read is
    /// asked for again, and where it ends; what was written here stays.
    pub fn forget_kept(&self) {
        self.path.file.outdated();
    }

    /// Has servers change the file's bytes themselves, up to where what they answer says. What was
    /// written is settled before, and the layout given back, so that nobody need ask for it; what
    /// is kept is out of date afterwards. Writers wait for the end of it, whoever does.
    pub(crate) async fn changed_by<T: Send + 'static>(
        &self,
        reaches: impl FnOnce(&T) -> u64 + Send + 'static,
        change: impl Future<Output = Result<T, ClientError>> + Send + 'static,
    ) -> Result<T, ClientError> {
        let still = self.hold_settled().await?;
        self.return_layout().await?;
        let file = self.path.file.clone();
        let change = async move {
            let done = change.await;
            let end = done.as_ref().map_or(0, reaches);
            file.cache(|cache| {
                cache.wrote(end, file.now());
                cache.ranges.invalidate();
            });
            drop(still);
            done
        };
        Spawned::new(change).await
    }

    /// Settles and returns the layout, if one is held; the next I/O may fetch a new one.
    ///
    /// # Errors
    /// When what was written through it could not be made durable.
    pub async fn return_layout(&self) -> Result<(), ClientError> {
        for _ in 0..=limits::REWRITES_MAX {
            if !self.path.return_layout(LayoutState::None).await? {
                return Ok(());
            }
            self.path.drain(0, u64::MAX, false).await?;
            self.path.settle().await?;
        }
        Err(ClientError::NotCommitted)
    }

    /// Makes everything written durable and closes the open; the last one returns the layout.
    ///
    /// # Errors
    /// When written data could not be made durable or visible; the open is closed all the same.
    pub async fn close(&self) -> Result<(), ClientError> {
        self.path.stop_reading_ahead();
        let is_unknown = self.path.end_alone().await;
        let committed = match self.send_dirty(true).await {
            Ok(()) if self.is_alone() && !is_unknown => {
                match self.path.end(self.path.open.close()).await {
                    Ok(true) => {
                        self.path.open.set_closed();
                        self.leave();
                        return self.hear_of_failures();
                    }
                    Ok(false) => self.commit().await,
                    Err(e) => Err(e),
                }
            }
            Ok(()) => self.settle().await,
            Err(e) => Err(e),
        };
        let returned = if self.leave() { self.return_layout().await } else { Ok(()) };
        // What is not safe now never will be, and the caller knows: no stateid is left for it.
        self.forget();
        self.path.cluster.files.forget_idle(&self.path.file);
        let closed = if is_unknown { Ok(()) } else { self.send_close().await };
        committed.and(returned).and(closed)
    }

    /// Closes an open for somebody who does not wait for the server to know: it hears of that a
    /// moment later, with other CLOSEs, unless something of the file is to be settled first.
    ///
    /// # Errors
    /// As [`FileIo::close`], but for those of the CLOSE.
    pub async fn close_soon(&self) -> Result<(), ClientError> {
        let has_work = || self.path.file.has_untold() || self.holds_layout() != Some(false);
        if has_work() {
            return self.close().await;
        }
        self.path.stop_reading_ahead();
        let is_unknown = self.path.end_alone().await;
        let returned = match self.leave() && has_work() {
            true => self.return_layout().await,
            false => Ok(()),
        };
        self.forget();
        self.path.cluster.files.forget_idle(&self.path.file);
        if !is_unknown && !self.send_close_later() {
            self.send_close().await?;
        }
        returned.and(self.hear_of_failures())
    }

    /// Sends what is dirty; durably, if that is wanted, it is little and nothing else waits for a
    /// COMMIT.
    async fn send_dirty(&self, durably: bool) -> Result<(), ClientError> {
        let file = &self.path.file;
        let (unsent, none_sent) = file.look(|cache| {
            (cache.ranges.is_unsent(0, u64::MAX), cache.ranges.sent().next().is_none())
        });
        if !unsent {
            return Ok(());
        }
        let _still = file.guards.hold_writers().await;
        self.path.drain(0, u64::MAX, durably && none_sent).await
    }

    /// Gives up what was written under this open and is not durable.
    fn forget(&self) {
        let writer = Writer(self.path.open.clone());
        self.path.file.cache(|cache| cache.ranges.forget(&writer));
        self.path.file.has_ended();
    }

    /// Whether no other open uses the file now.
    fn is_alone(&self) -> bool {
        !self.has_left.load(Ordering::Acquire) && self.path.file.has_one_user()
    }

    /// Says, once, whether no other open uses the file.
    fn leave(&self) -> bool {
        !self.has_left.swap(true, Ordering::AcqRel)
            && self.path.cluster.files.leave(&self.path.file)
    }

    /// The server hears of the end with that of others, unless too many wait already.
    fn send_close_later(&self) -> bool {
        let is_sent = self.path.cluster.closes.send_later(self.path.open.late_close());
        if is_sent {
            self.path.open.set_closed();
        }
        is_sent
    }

    async fn send_close(&self) -> Result<(), ClientError> {
        let close = self.path.open.close();
        // It is sent to its end; if the file is opened again meanwhile, that open is another.
        self.path.open.set_closed();
        match self.path.mds.on_file(self.fh(), close).await {
            Ok(_) => Ok(()),
            // Gone already, as far as the server is concerned.
            Err(e) if e.is_lost_state() => Ok(()),
            Err(ClientError::OutcomeUnknown { .. }) => Ok(()),
            Err(e) => Err(e),
        }
    }
}

impl Drop for FileIo {
    /// Who does not close it, or does not wait for that, gives up what was not durable. The server
    /// hears of the end when what is under way has ended.
    fn drop(&mut self) {
        self.path.stop_reading_ahead();
        self.path.leave_delegation(&self.path.open);
        self.leave();
        if !self.path.open.is_closed() {
            self.forget();
            self.path.cluster.files.forget_idle(&self.path.file);
        }
    }
}
