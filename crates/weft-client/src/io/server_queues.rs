//! File ranges as queues: one for each stripe index, each with its pieces in file order and a
//! window of workers that take one piece after another.

use std::{
    collections::{BTreeMap, BTreeSet},
    iter::Flatten,
    sync::Arc,
    vec,
};

use tokio::task::JoinSet;
use weft_nfs::{FileHandle, Stateid};
use weft_stripe::{Distribution, Extent, Extents};

use crate::{
    error::ClientError,
    layout::plan::{Plan, Purpose, StripeTarget},
    limits,
    sync::Mutex,
};

/// Where a piece goes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Target {
    /// To the metadata server: the file itself.
    Mds(FileHandle),
    /// To a data server: an object.
    Ds(StripeTarget),
}

impl Target {
    /// The handle it has at its server.
    pub(super) fn fh(&self) -> &FileHandle {
        match self {
            Target::Mds(fh) => fh,
            Target::Ds(ds) => &ds.fh,
        }
    }

    /// The stateid that I/O under an open carries there.
    pub(super) fn stateid(&self, of_open: Stateid) -> Stateid {
        match self {
            Target::Mds(_) => of_open,
            Target::Ds(ds) => ds.stateid.unwrap_or(of_open),
        }
    }
}

/// A part of a file range that fits one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) file_offset: u64,
    /// Where it is in the target.
    pub(super) object_offset: u64,
    pub(super) len: u32,
}

impl Piece {
    /// File offsets: of its first byte, and behind its last one.
    pub(super) fn range(&self) -> (u64, u64) {
        (self.file_offset, self.file_offset.saturating_add(self.len.into()))
    }
}

/// The targets that each piece of a queue concerns: for reading they are tried in turn, for writing
/// a piece goes to all of them.
pub(super) type Targets = Arc<[Target]>;

/// The pieces of one stripe index, or of the whole file at the metadata server.
#[derive(Debug)]
pub(super) struct ServerQueue {
    targets: Targets,
    pieces: Turns,
}

/// What a queue has of one range after another.
type Turns = Flatten<vec::IntoIter<Pieces>>;

/// The pieces of one stripe index in a range, in file order.
#[derive(Debug, Clone)]
struct Pieces {
    stripe_index: u32,
    extents: Option<Extents>,
    current: Option<Extent>,
    io_bytes: u32,
}

impl Iterator for Pieces {
    type Item = Piece;

    fn next(&mut self) -> Option<Piece> {
        let mine = self.stripe_index;
        let mut extent = match self.current.take() {
            Some(rest) => rest,
            None => self.extents.as_mut()?.find(|e| e.stripe_index == mine)?,
        };
        let len = u32::try_from(extent.len).unwrap_or(u32::MAX).min(self.io_bytes.max(1));
        let piece =
            Piece { file_offset: extent.file_offset, object_offset: extent.object_offset, len };
        if u64::from(len) < extent.len {
            extent.file_offset += u64::from(len);
            extent.object_offset += u64::from(len);
            extent.len -= u64::from(len);
            self.current = Some(extent);
        }
        Some(piece)
    }
}

/// All of the ranges to the metadata server, where the file is one piece.
pub(super) fn mds_queue(fh: &FileHandle, ranges: &[(u64, u64)], io_bytes: u32) -> Vec<ServerQueue> {
    let whole = |&(offset, len): &(u64, u64)| {
        let extent = Extent { stripe_index: 0, object_offset: offset, file_offset: offset, len };
        let current = (len > 0).then_some(extent);
        Pieces { stripe_index: 0, extents: None, current, io_bytes }
    };
    let pieces: Vec<Pieces> = ranges.iter().map(whole).collect();
    let targets = [Target::Mds(fh.clone())].into();
    vec![ServerQueue { targets, pieces: pieces.into_iter().flatten() }]
}

/// The ranges over the stripes of a plan; stripes they do not touch have no queue.
pub(super) fn striped_queues(
    plan: &Plan,
    purpose: Purpose,
    ranges: &[(u64, u64)],
    io_bytes: u32,
) -> Vec<ServerQueue> {
    let io_bytes = io_bytes.min(plan.io_bytes_max(purpose));
    let mut by_stripe: BTreeMap<u32, Vec<Pieces>> = BTreeMap::new();
    for (offset, len) in ranges {
        let extents = plan.distribution.extents(*offset, *len);
        for stripe_index in touched(&plan.distribution, (*offset, *len), extents.clone()) {
            let pieces =
                Pieces { stripe_index, extents: Some(extents.clone()), current: None, io_bytes };
            by_stripe.entry(stripe_index).or_default().push(pieces);
        }
    }
    let queue = |(index, pieces): (u32, Vec<Pieces>)| {
        let targets = plan.targets(index, purpose).into_iter().cloned().map(Target::Ds).collect();
        ServerQueue { targets, pieces: pieces.into_iter().flatten() }
    };
    by_stripe.into_iter().map(queue).collect()
}

/// The stripes that a range of these extents touches.
fn touched(rule: &Distribution, (offset, len): (u64, u64), mut extents: Extents) -> BTreeSet<u32> {
    let stripes = rule.stripe_count();
    let turn = extents.by_ref().take(stripes as usize);
    let mut touched: BTreeSet<u32> = turn.map(|e| e.stripe_index).collect();
    if touched.len() < stripes as usize && extents.next().is_some() {
        // A turn may have one of them more often than others.
        let end = offset.saturating_add(len);
        touched.extend((0..stripes).filter(|s| rule.bytes_between(*s, offset, end) > 0));
    }
    touched
}

/// The piece, if there is only one.
pub(super) fn only_piece(queues: &[ServerQueue]) -> Option<(&Targets, Piece)> {
    let [queue] = queues else { return None };
    let mut pieces = queue.pieces.clone();
    let only = pieces.next()?;
    pieces.next().is_none().then_some((&queue.targets, only))
}

/// Runs `work` on every piece: queues side by side, at most a window of pieces of each queue at a
/// time. `work` reports an error only for what cannot be cured piece by piece; the first one
/// ends the run after the pieces under way.
pub(super) async fn run<W, F>(queues: Vec<ServerQueue>, work: W) -> Result<(), ClientError>
where
    W: Fn(Targets, Piece) -> F + Clone + Send + Sync + 'static,
    F: Future<Output = Result<(), ClientError>> + Send + 'static,
{
    if let Some((targets, only)) = only_piece(&queues) {
        // As most small requests are: no task is worth it.
        return work(targets.clone(), only).await;
    }
    let mut tasks = JoinSet::new();
    for queue in queues {
        let pieces = Arc::new(Mutex::new(Some(queue.pieces)));
        for _ in 0..limits::WINDOW_REQUESTS {
            let worker = take_pieces(queue.targets.clone(), pieces.clone(), work.clone());
            tasks.spawn(worker);
        }
    }
    let mut result = Ok(());
    while let Some(done) = tasks.join_next().await {
        let done = done.unwrap_or(Err(ClientError::Closed));
        if result.is_ok() {
            result = done;
        }
    }
    result
}

async fn take_pieces<W, F>(
    targets: Targets,
    pieces: Arc<Mutex<Option<Turns>>>,
    work: W,
) -> Result<(), ClientError>
where
    W: Fn(Targets, Piece) -> F,
    F: Future<Output = Result<(), ClientError>>,
{
    loop {
        let piece = pieces.lock().as_mut().and_then(Iterator::next);
        let Some(piece) = piece else { return Ok(()) };
        if let Err(e) = work(targets.clone(), piece).await {
            *pieces.lock() = None; // the queue's other workers stop too
            return Err(e);
        }
    }
}

#[cfg(test)]
mod tests {
    use weft_stripe::{CyclicList, Form};

    use super::*;

    /// A range has queues for all stripes that it touches and for no others, also where a turn has
    /// one of them twice.
    #[test]
    fn each_stripe_that_is_touched() {
        const UNIT: u64 = 1 << 20;
        let twice = Distribution::cyclic(UNIT, CyclicList::new(&[0, 0, 1]).unwrap(), 0).unwrap();
        let once = Distribution::round_robin(UNIT, 3, 0, Form::Sparse).unwrap();
        for (rule, offset, len, stripes) in [
            (&twice, 0, 2 * UNIT, &[0][..]),
            (&twice, 0, 2 * UNIT + 1, &[0, 1]),
            (&twice, UNIT, 3 * UNIT, &[0, 1]),
            (&twice, 2 * UNIT, UNIT, &[1]),
            (&twice, 3 * UNIT, 2 * UNIT, &[0]),
            (&once, UNIT, UNIT + 1, &[1, 2]),
            (&once, 5, 9 * UNIT, &[0, 1, 2]),
            (&once, 5, 0, &[]),
        ] {
            let found = touched(rule, (offset, len), rule.extents(offset, len));
            assert_eq!(found.into_iter().collect::<Vec<_>>(), stripes, "{offset} {len}");
        }
    }
}
