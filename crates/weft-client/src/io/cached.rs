//! Reading through the cache of a file: what is there, what is on its way, and what has to be asked
//! for.

use std::sync::Arc;

use bytes::Bytes;

use super::{
    data_path::DataPath,
    fetching::Fetching,
    held::LayoutState,
    shared_file::Ranges,
    sink::{Keeping, Nowhere, ReadSink},
};
use crate::{
    cache::{Fetch, Part, ReadAhead},
    error::ClientError,
    limits::FETCH_WAITS_MAX,
    sync::Mutex,
};

/// What is known of some ranges.
#[derive(Default)]
struct Known {
    /// Bytes by file offset.
    here: Vec<(u64, Bytes)>,
    /// Zeros: offsets and lengths.
    zeros: Vec<(u64, u64)>,
    /// Only servers know.
    missing: Vec<(u64, u64)>,
    /// In a local file, and at the servers.
    elsewhere: Vec<(u64, u64)>,
    /// In a local file, and not at the servers yet.
    unsent: Vec<(u64, u64)>,
}

impl Known {
    fn look(&mut self, ranges: &mut Ranges, (offset, len): (u64, u64)) {
        for part in ranges.read(offset, len) {
            match part {
                Part::Here { offset, bytes } => self.here.push((offset, bytes)),
                Part::Zeros { offset, len } => self.zeros.push((offset, len)),
                Part::Missing { offset, len } => self.missing.push((offset, len)),
                Part::Elsewhere { offset, payload, at_servers } => {
                    let range = (offset, payload.len() as u64);
                    match at_servers {
                        true => self.elsewhere.push(range),
                        false => self.unsent.push(range),
                    }
                }
            }
        }
    }
}

/// Begins to fetch ranges; with each its first byte, and the one behind its last.
fn begin(cache: &mut Ranges, ranges: &[(u64, u64)]) -> Vec<(u64, u64, Fetch)> {
    ranges.iter().map(|&(at, len)| (at, at + len, cache.begin_fetch(at, len))).collect()
}

impl DataPath {
    /// Reads a range that is within the file; what it does not have is kept, if it may be. With
    /// what comes next, as far as `ahead` advises it.
    pub(super) async fn read_cached<S: ReadSink>(
        self: &Arc<Self>,
        (offset, len): (u64, u64),
        sink: &Arc<S>,
        ahead: Option<&Mutex<ReadAhead>>,
    ) -> Result<(), ClientError> {
        let wanted = (offset, offset.saturating_add(len));
        let mut beside = ahead.and_then(|a| a.lock().advise(offset, len, self.file.size()));
        let keeps = ahead.is_some();
        let mut todo = vec![(offset, len)];
        let mut waits = 0;
        while !todo.is_empty() {
            let ended = self.file.ended.notified();
            tokio::pin!(ended);
            ended.as_mut().enable();
            let mut known = Known::default();
            let (ranges, fetches, later) = self.file.cache(|cache| {
                todo.iter().for_each(|range| known.look(&mut cache.ranges, *range));
                // Of a small file all is asked for at once.
                if !known.missing.is_empty()
                    && let Some((from, bytes)) = beside.take_if(|(from, _)| *from <= offset)
                {
                    known.missing = cache.ranges.missing(from, bytes);
                }
                let mut later = Vec::new();
                if keeps && waits < FETCH_WAITS_MAX {
                    let comes = |range: &(u64, u64)| cache.ranges.fetch_of(range.0).is_some();
                    later = known.missing.iter().copied().filter(comes).collect();
                    known.missing.retain(|range| !comes(range));
                }
                let mut ranges = std::mem::take(&mut known.missing);
                ranges.append(&mut known.elsewhere);
                ranges.sort_unstable();
                let fetches = if keeps { begin(&mut cache.ranges, &ranges) } else { Vec::new() };
                (ranges, fetches, later)
            });
            // Whatever happens from here on, they end.
            let fetching = Fetching::new(&self.file, fetches);
            for (at, bytes) in known.here {
                sink.take(at, bytes).await?;
            }
            for (at, len) in known.zeros {
                sink.absent(at, len)?;
            }
            if let Some(beside) = beside.take() {
                self.fetch_ahead(beside);
            }
            if !ranges.is_empty() && keeps {
                let keeping = Keeping { sink: sink.clone(), wanted, fetching };
                self.ask_for(&ranges, &Arc::new(keeping)).await?;
            } else if !ranges.is_empty() {
                self.ask_for(&ranges, sink).await?;
            } else if !later.is_empty() {
                waits += 1;
                ended.await;
            }
            for (at, len) in &known.unsent {
                self.drain(*at, *len, false).await?;
            }
            todo = later;
            todo.extend(known.unsent);
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
        tokio::spawn(async move {
            let ranges = fetching.ranges();
            let keeping = Keeping { sink: Arc::new(Nowhere), wanted: (0, 0), fetching };
            if let Err(e) = path.ask_for(&ranges, &Arc::new(keeping)).await {
                tracing::debug!(fh = ?path.fh(), "not read ahead: {e}");
            }
        });
    }

    /// Asks servers for ranges: data servers as far as there is a layout and they give it, the
    /// metadata server for the rest.
    async fn ask_for<S: ReadSink>(
        &self,
        ranges: &[(u64, u64)],
        sink: &Arc<S>,
    ) -> Result<(), ClientError> {
        let through_mds = match self.read_striped(ranges, sink).await? {
            None => ranges.to_vec(),
            Some(failed) => {
                if !failed.is_empty() {
                    tracing::warn!(ranges = failed.len(), "data server failed: through the MDS");
                    self.return_layout(LayoutState::avoid()).await?;
                }
                failed
            }
        };
        if through_mds.is_empty() {
            return Ok(());
        }
        self.reopening(&self.open, || self.read_at_mds(&through_mds, sink)).await
    }
}
