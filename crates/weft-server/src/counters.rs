//! What a server has done, for `weft status` and metrics. Counting never blocks.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

use weft_nfs::OpNum;

/// Operations with numbers below this are counted one by one.
const OPS: usize = 80;

/// Counters of one server.
#[derive(Debug)]
pub struct Counters {
    operations: [AtomicU64; OPS],
    /// Payload bytes of WRITE received.
    pub bytes_in: AtomicU64,
    /// Payload bytes of READ sent.
    pub bytes_out: AtomicU64,
    under_way: AtomicUsize,
}

/// A request under way, until it is dropped.
#[derive(Debug)]
pub struct UnderWay<'a>(&'a AtomicUsize);

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

impl Default for Counters {
    fn default() -> Self {
        Counters {
            operations: [const { AtomicU64::new(0) }; OPS],
            bytes_in: AtomicU64::new(0),
            bytes_out: AtomicU64::new(0),
            under_way: AtomicUsize::new(0),
        }
    }
}

impl Counters {
    /// Counts a request from now until the result is dropped.
    pub fn begin(&self) -> UnderWay<'_> {
        self.under_way.fetch_add(1, Relaxed);
        UnderWay(&self.under_way)
    }

    /// Requests under way.
    pub fn under_way(&self) -> usize {
        self.under_way.load(Relaxed)
    }

    /// Counts one executed operation.
    pub fn operation(&self, op: OpNum) {
        if let Some(c) = self.operations.get(op.0 as usize) {
            c.fetch_add(1, Relaxed);
        }
    }

    /// Counts WRITE payload.
    pub fn wrote(&self, bytes: usize) {
        self.bytes_in.fetch_add(bytes as u64, Relaxed);
    }

    /// Counts READ payload.
    pub fn read(&self, bytes: usize) {
        self.bytes_out.fetch_add(bytes as u64, Relaxed);
    }

    /// Operations executed so far, by name.
    pub fn operations(&self) -> BTreeMap<String, u64> {
        let counted = self.operations.iter().enumerate().filter_map(|(i, c)| {
            let n = c.load(Relaxed);
            let op = OpNum(u32::try_from(i).ok()?);
            (n > 0).then(|| (op.to_string(), n))
        });
        counted.collect()
    }
}
