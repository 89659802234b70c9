//! Dirty data on their way to the servers: when somebody waits for it, and when memory wants it.

use std::sync::{Arc, atomic::Ordering};

use weft_xdr::Payload;

use super::{
    data_path::DataPath, delegated::Told, open::Writer, shared_file::SharedFile, source::Pieces,
    write::Outgoing,
};
use crate::{
    boxed::Spawned,
    cache::{Moment, Sending, SendingNo, Take},
    error::ClientError,
    limits,
    sync::Mutex,
};

/// What was taken from the cache to be sent, and when this client had done something to the file
/// last then.
type Leaving = (Sending<Writer, Payload>, Moment);

/// A sending that has left the cache: whatever becomes of it, the cache hears of its end.
struct UnderWay {
    file: Arc<SharedFile>,
    no: SendingNo,
    since: Moment,
    has_ended: bool,
}

impl UnderWay {
    /// It has ended. When, if this client did nothing else to the file meanwhile: what a server has
    /// told with it is of all that was done until then.
    fn end(&mut self) -> Option<Moment> {
        if std::mem::replace(&mut self.has_ended, true) {
            return None;
        }
        let as_of = self.file.cache(|cache| {
            let now = self.file.now();
            let was_alone = cache.size.arrived(self.since, now);
            cache.ranges.ended(self.no);
            was_alone.then_some(now)
        });
        self.file.has_ended();
        as_of
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.end();
    }
}

/// What came of sending or committing other files' data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Relief {
    /// There is less of it.
    Some,
    /// A server did not take something.
    Refused,
    /// There was nothing that nobody else was sending.
    None,
}

/// One task less that writes back.
struct WritingBack(Arc<SharedFile>);

impl Drop for WritingBack {
    fn drop(&mut self) {
        self.0.write_backs.fetch_sub(1, Ordering::AcqRel);
        self.0.has_ended();
    }
}

impl DataPath {
    /// Sends what is dirty of a range, and waits for what of it is on its way already.
    ///
    /// # Errors
    /// Of what was sent here; it is dirty still.
    pub(super) async fn drain(
        self: &Arc<Self>,
        offset: u64,
        len: u64,
        then_durable: bool,
    ) -> Result<(), ClientError> {
        loop {
            let ended = self.file.ended.notified();
            tokio::pin!(ended);
            ended.as_mut().enable();
            let is_done = !self.file.look(|cache| cache.ranges.is_unsent(offset, len));
            if is_done {
                return Ok(());
            }
            let all = Take::all(u64::MAX, usize::MAX);
            match self.take(&all) {
                Some(sending) => self.send_apart(sending, then_durable).await?,
                None => ended.await,
            }
        }
    }

    /// Makes everything that is at the servers durable and visible. What they lost is sent again.
    ///
    /// # Errors
    /// [`ClientError::NotCommitted`] after [`limits::REWRITES_MAX`] times.
    pub(super) async fn settle(self: &Arc<Self>) -> Result<(), ClientError> {
        for _ in 0..=limits::REWRITES_MAX {
            if !self.settle_once().await? {
                return Ok(());
            }
            self.drain(0, u64::MAX, false).await?;
        }
        Err(ClientError::NotCommitted)
    }

    /// Makes everything written durable, for who keeps writers out.
    pub(super) async fn settle_all(self: &Arc<Self>) -> Result<(), ClientError> {
        self.drain(0, u64::MAX, false).await?;
        self.settle().await
    }

    /// The same of a file that is about to be cut there. What is beyond and has no room at the
    /// servers is given up: then why it had none, which is to be told unless it is cut.
    pub(super) async fn settle_below(
        self: &Arc<Self>,
        size: u64,
    ) -> Result<Option<ClientError>, ClientError> {
        let Err(why) = self.settle_all().await else { return Ok(None) };
        let beyond = u64::MAX - size;
        let is_beyond = self.file.look(|cache| cache.ranges.is_unsent(size, beyond));
        if !why.is_no_room() || !is_beyond {
            return Err(why);
        }
        self.file.cache(|cache| cache.ranges.truncate(size));
        let settled = self.settle_all().await;
        if settled.is_err() {
            self.file.failed(why.clone());
        }
        settled?;
        Ok(Some(why))
    }

    /// Begins to write back, if there is reason to.
    pub(super) fn write_back_if_due(self: &Arc<Self>) {
        let pressure = self.pressure();
        if !pressure.write_back && !pressure.commit {
            return;
        }
        let running = &self.file.write_backs;
        if running.fetch_add(1, Ordering::AcqRel) >= limits::WRITE_BACKS_MAX {
            running.fetch_sub(1, Ordering::AcqRel);
            return;
        }
        let (path, running) = (self.clone(), WritingBack(self.file.clone()));
        tokio::spawn(async move {
            // What fails stays dirty, and whoever waits for it hears why.
            if let Err(e) = path.write_back().await {
                tracing::debug!(fh = ?path.fh(), "not written back: {e}");
            }
            drop(running);
        });
    }

    /// Writes back as long as there is reason to: full stripe units before anything else.
    async fn write_back(self: &Arc<Self>) -> Result<(), ClientError> {
        loop {
            let pressure = self.pressure();
            if pressure.commit {
                self.settle().await?;
            }
            let sending = match pressure.write_back {
                true => self.take_units(),
                false => None,
            };
            match sending {
                Some(sending) => self.send_apart(sending, false).await?,
                None => return Ok(()),
            }
        }
    }

    fn take_units(&self) -> Option<Leaving> {
        self.take(&Take {
            bytes: limits::WRITE_BACK_BYTES,
            runs: limits::WRITE_BACK_RUNS,
            unit_bytes: limits::CACHE_BLOCK_BYTES,
            partial: true,
        })
    }

    fn take(&self, take: &Take) -> Option<Leaving> {
        self.file.cache(|cache| {
            let sending = cache.ranges.take_dirty(take)?;
            Some((sending, cache.size.last_change()))
        })
    }

    /// Waits until the memory of all files lets somebody write. Whoever waits does what has to be
    /// done for that, be it to another file.
    ///
    /// # Errors
    /// What is dirty of this file cannot leave.
    pub(super) async fn make_room(self: &Arc<Self>) -> Result<(), ClientError> {
        let mut pauses = 0;
        loop {
            let ended = self.cluster.files.memory.ended.notified();
            tokio::pin!(ended);
            ended.as_mut().enable();
            let pressure = self.pressure();
            if !pressure.wait {
                return Ok(());
            }
            if let Some(sending) = self.take_units() {
                self.send_apart(sending, false).await?;
                continue;
            }
            if pressure.commit {
                self.settle().await?;
                continue;
            }
            match self.relieve_others().await {
                Relief::Some => continue,
                // Nobody tells when another file's data can leave that cannot now.
                Relief::Refused => {
                    tokio::time::sleep(limits::ROOM_RETRY).await;
                    pauses += 1;
                }
                // Something is under way, whose end is told.
                Relief::None => {
                    let told = tokio::time::timeout(limits::ROOM_RETRY, ended).await;
                    pauses += u32::from(told.is_err());
                }
            }
            // This one does not wait for that for ever; nor do others after it, for a while.
            let memory = &self.cluster.files.memory;
            if pauses >= limits::ROOM_RETRIES_MAX || memory.is_stuck() {
                self.settle().await?;
                if !self.file.is_unsettled() {
                    if pauses > 0 {
                        memory.note_stuck();
                    }
                    return Ok(());
                }
            }
        }
    }

    /// Sends or commits something of the files that have most of it.
    async fn relieve_others(&self) -> Relief {
        let [dirtiest, most_sent] = self.cluster.files.most_unsettled();
        let mut relief = Relief::None;
        if let Some(path) = dirtiest.and_then(|file| self.to_other(file))
            && let Some(sending) = path.take_units()
        {
            if path.send_apart(sending, false).await.is_ok() {
                return Relief::Some;
            }
            relief = Relief::Refused;
        }
        if let Some(path) = most_sent.and_then(|file| self.to_other(file)) {
            match path.settle().await {
                Ok(()) if relief == Relief::None => relief = Relief::Some,
                _ => relief = Relief::Refused,
            }
        }
        relief
    }

    /// The way of whoever wrote something to another file that is not durable.
    fn to_other(&self, file: Arc<SharedFile>) -> Option<Arc<DataPath>> {
        let by = file.look(|cache| cache.ranges.a_writer().cloned())?;
        Some(Arc::new(DataPath::of(self.cluster.clone(), by.0, file)))
    }

    /// Sends something on its own: whoever waits for it may give up, but what has left arrives, or
    /// is known not to have.
    fn send_apart(self: &Arc<Self>, leaving: Leaving, then_durable: bool) -> Spawned<()> {
        let (sending, since) = leaving;
        let (file, no) = (self.file.clone(), sending.no);
        let mut under_way = UnderWay { file, no, since, has_ended: false };
        let outgoing = self.outgoing(sending, then_durable);
        // In the name of who wrote it.
        let path = match Arc::ptr_eq(&outgoing.by, &self.open) {
            true => self.clone(),
            false => {
                let (cluster, by) = (self.cluster.clone(), outgoing.by.clone());
                Arc::new(DataPath::of(cluster, by, self.file.clone()))
            }
        };
        Spawned::new(async move {
            let sent = path.send(&outgoing).await;
            let as_of = under_way.end();
            if let (Some(as_of), Some((asked, attrs))) = (as_of, outgoing.told.lock().take()) {
                let told = Told { as_of, ..Told::answered(attrs, asked) };
                path.cluster.delegated.opened(path.fh(), asked.moment, (None, told));
            }
            sent
        })
    }

    /// A few small pieces that were gathered are not worth a layout.
    fn outgoing(&self, sending: Sending<Writer, Payload>, then_durable: bool) -> Outgoing {
        let Sending { no, by, pieces } = sending;
        let by = by.0;
        let pieces = Pieces::new(pieces);
        let ranges = pieces.ranges();
        let bytes: u64 = ranges.iter().map(|(_, len)| len).sum();
        let end = ranges.last().map_or(0, |(at, len)| at.saturating_add(*len));
        let is_much = by.opened.policy.gather_below == 0
            || ranges.len() > limits::MDS_RUNS_MAX
            || bytes >= limits::MDS_BYTES_MAX;
        let worth_layout = is_much && self.is_worth_layout(&by, end);
        let told = Mutex::default();
        Outgoing { no, by, pieces, ranges, worth_layout, then_durable, told }
    }
}
