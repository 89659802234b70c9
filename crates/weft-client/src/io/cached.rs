//! Reading through the cache of a file: what is there, what is on its way, and what has to be asked
//! for.

use std::sync::Arc;

use bytes::Bytes;
use tokio::task::AbortHandle;

use super::{
    data_path::DataPath,
    fetching::Fetching,
    held::LayoutState,
    shared_file::Ranges,
    sink::{Keeping, Nowhere, ReadSink},
};
use crate::{
    boxed::Boxed,
    cache::{Fetch, Part, ReadAhead},
    error::ClientError,
    limits::FETCH_WAITS_MAX,
    sync::Mutex,
};

/// What is known of some ranges, and what is to be done for the rest.
#[derive(Default)]
struct Known {
    /// Bytes by file offset.
    here: Vec<(u64, Bytes)>,
    /// Zeros: offsets and lengths.
    zeros: Vec<(u64, u64)>,
    /// To be asked of servers.
    ask: Vec<(u64, u64)>,
    /// Those of them that are kept: with each its first byte, and the one behind its last.
    fetches: Vec<(u64, u64, Fetch)>,
    /// To be looked at again when something has come, or has got to the servers.
    later: Vec<(u64, u64)>,
    /// In a local file, and not at the servers yet.
    unsent: Vec<(u64, u64)>,
}

/// A read of a range of a file.
struct Reading {
    /// The first byte, and the one behind the last.
    wanted: (u64, u64),
    /// Whether what comes is kept.
    keeps: bool,
    /// What is worth fetching beside it: offset and length.
    beside: Option<(u64, u64)>,
    /// Reads of others that were waited for, and which was the last.
    waits: u32,
    waits_for: Option<Fetch>,
}

impl Reading {
    /// Looks at ranges within what is wanted, and begins to fetch what has to be.
    fn look(&mut self, ranges: &mut Ranges, todo: &[(u64, u64)]) -> Known {
        let mut known = Known::default();
        let (mut missing, mut elsewhere) = (Vec::new(), Vec::new());
        for part in todo.iter().flat_map(|(offset, len)| ranges.read(*offset, *len)) {
            match part {
                Part::Here { offset, bytes } => known.here.push((offset, bytes)),
                Part::Zeros { offset, len } => known.zeros.push((offset, len)),
                Part::Missing { offset, len } => missing.push((offset, len)),
                Part::Elsewhere { offset, payload, at_servers } => {
                    let range = (offset, payload.len() as u64);
                    if at_servers { &mut elsewhere } else { &mut known.unsent }.push(range);
                }
            }
        }
        if self.keeps && self.waits <= FETCH_WAITS_MAX {
            let comes = |range: &(u64, u64)| ranges.fetch_of(range.0).is_some();
            known.later = missing.iter().copied().filter(comes).collect();
            missing.retain(|range| !comes(range));
        }
        let next = known.later.first().and_then(|(at, _)| ranges.fetch_of(*at));
        if next.is_some() && next != self.waits_for {
            (self.waits, self.waits_for) = (self.waits + 1, next);
        }
        // Of a small file all is asked for at once.
        if !missing.is_empty()
            && let Some((from, len)) = self.beside.take_if(|(from, _)| *from <= self.wanted.0)
        {
            let mut all = ranges.missing(from, len);
            all.retain(|range| ranges.fetch_of(range.0).is_none());
            // Some of it may be on its way to another reader: what is wanted here is asked for.
            if missing.iter().all(|wanted| all.iter().any(|range| covers(*range, *wanted))) {
                missing = all;
            }
        }
        known.ask = [missing, elsewhere].concat();
        known.ask.sort_unstable();
        if self.keeps {
            known.fetches = begin(ranges, &known.ask);
        }
        known
    }
}

/// Whether a range, as offset and length, has all of another one.
fn covers((at, len): (u64, u64), (wanted_at, wanted_len): (u64, u64)) -> bool {
    at <= wanted_at && wanted_at.saturating_add(wanted_len) <= at.saturating_add(len)
}

/// Begins to fetch ranges; with each its first byte, and the one behind its last.
fn begin(ranges: &mut Ranges, ask: &[(u64, u64)]) -> Vec<(u64, u64, Fetch)> {
    ask.iter().map(|&(at, len)| (at, at + len, ranges.begin_fetch(at, len))).collect()
}

impl DataPath {
    /// Reads a range that is within the file; what it does not have is kept, if it may be. With
    /// what comes next, as far as `ahead` advises it.
    pub(super) async fn read_cached(
        self: &Arc<Self>,
        (offset, len): (u64, u64),
        sink: &Arc<dyn ReadSink>,
        ahead: Option<&Mutex<ReadAhead>>,
    ) -> Result<(), ClientError> {
        let mut reading = Reading {
            wanted: (offset, offset.saturating_add(len)),
            keeps: ahead.is_some(),
            beside: ahead.and_then(|a| a.lock().advise(offset, len, self.file.size())),
            waits: 0,
            waits_for: None,
        };
        let mut todo = vec![(offset, len)];
        while !todo.is_empty() {
            let ended = self.file.ended.notified();
            tokio::pin!(ended);
            ended.as_mut().enable();
            let known = self.file.cache(|cache| reading.look(&mut cache.ranges, &todo));
            // Whatever happens from here on, they end.
            let fetching = Fetching::new(&self.file, known.fetches);
            for (at, bytes) in known.here {
                sink.take(at, bytes).await?;
            }
            for (at, len) in known.zeros {
                sink.absent(at, len)?;
            }
            if let Some(beside) = reading.beside.take() {
                self.fetch_ahead(beside);
            }
            if !known.ask.is_empty() && reading.keeps {
                let keeping = Keeping { sink: sink.clone(), wanted: reading.wanted, fetching };
                self.ask_for(&known.ask, Arc::new(keeping)).await?;
            } else if !known.ask.is_empty() {
                self.ask_for(&known.ask, sink.clone()).await?;
            } else if !known.later.is_empty() {
                ended.await;
            }
            for (at, len) in &known.unsent {
                self.drain(*at, *len, false).await?;
            }
            todo = [known.later, known.unsent].concat();
        }
        Ok(())
    }

    /// Fetches what is missing of a range, in the background: whoever reads it meets that, or asks
    /// again if it failed.
    fn fetch_ahead(self: &Arc<Self>, (offset, len): (u64, u64)) {
        let fetches = self.file.cache(|cache| {
            let mut missing = cache.ranges.missing(offset, len);
            missing.retain(|(at, _)| cache.ranges.fetch_of(*at).is_none());
            begin(&mut cache.ranges, &missing)
        });
        if fetches.is_empty() {
            return;
        }
        let path = self.clone();
        let fetching = Fetching::new(&self.file, fetches);
        let reading = tokio::spawn(async move {
            let ranges = fetching.ranges();
            let keeping = Keeping { sink: Arc::new(Nowhere), wanted: (0, 0), fetching };
            if let Err(e) = path.ask_for(&ranges, Arc::new(keeping)).await {
                tracing::debug!(fh = ?path.fh(), "not read ahead: {e}");
            }
        });
        let mut ahead = self.ahead.lock();
        ahead.retain(|reading| !reading.is_finished());
        ahead.push(reading.abort_handle());
    }

    /// Nobody reads what is being read ahead: it would outlive the open that it is read under.
    pub(super) fn stop_reading_ahead(&self) {
        std::mem::take(&mut *self.ahead.lock()).iter().for_each(AbortHandle::abort);
    }

    /// Asks servers for ranges: data servers as far as there is a layout and they give it, the
    /// metadata server for the rest.
    fn ask_for<'a>(
        &'a self,
        ranges: &'a [(u64, u64)],
        sink: Arc<dyn ReadSink>,
    ) -> Boxed<'a, Result<(), ClientError>> {
        Box::pin(async move {
            let through_mds = match self.read_striped(ranges, &sink).await? {
                None => ranges.to_vec(),
                Some(unread) => {
                    if unread.has_failed {
                        tracing::warn!(
                            ranges = unread.ranges.len(),
                            "data server failed: through the MDS"
                        );
                        self.report_unreached().await;
                        self.return_layout(LayoutState::avoid()).await?;
                    }
                    unread.ranges
                }
            };
            if through_mds.is_empty() {
                return Ok(());
            }
            self.reopening(&self.open, || self.read_at_mds(&through_mds, &sink)).await
        })
    }
}
