//! The write threshold (P0.2, P0.3; design D7): below which size clients send I/O on a file
//! here. It is set, can be set anew while the server runs, and gives way to load.
//!
//! The measure of load is how many requests are under way for each thread, wherever they wait:
//! what one more would have to wait for. Only files on data servers are sent away. The bytes of
//! small ones are here, and to bring them to data servers first would be the greater part of the
//! work.

use std::{
    sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed},
    time::Duration,
};

use weft_server::{
    counters::Counters,
    report::{AdminError, ThresholdStatus},
};
use weft_store::{types::Inode, volume::STUFFED_BYTES_MAX};

use crate::files::SmallFiles;

/// How often requests under way are counted.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// A count has this part in the smoothed one: what lasts half a second shows.
const SHARE: f64 = 1.0 / 8.0;
/// Requests under way a thread, up to which the threshold stays: twice what one client of 64 slots
/// can have, so that a lone one never lowers it.
const CALM: f64 = 128.0;
/// Each doubling of requests halves the threshold; after so many it is 0.
const STEPS: u32 = 5;
/// A step is taken back below this part of the load that it was taken at.
const BACK: f64 = 0.75;

/// Smoothed load, and the step it has led to.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Load {
    /// Requests under way a thread.
    requests: f64,
    step: u32,
}

impl Load {
    /// After one more count.
    fn counted(self, requests: f64) -> Load {
        let requests = self.requests + (requests - self.requests) * SHARE;
        let mut step = self.step;
        while step < STEPS && requests > taken_at(step + 1) {
            step += 1;
        }
        while step > 0 && requests < taken_at(step) * BACK {
            step -= 1;
        }
        Load { requests, step }
    }
}

/// The load above which a step (from 1) is taken.
fn taken_at(step: u32) -> f64 {
    CALM * f64::from(1 << (step - 1))
}

/// What is left of a threshold.
fn lowered(threshold: u64, step: u32) -> u64 {
    if step < STEPS { threshold >> step } else { 0 }
}

/// The threshold of the export.
#[derive(Debug)]
pub(crate) struct Threshold {
    /// Threads that serve.
    threads: u32,
    configured: AtomicU64,
    adaptive: bool,
    set: AtomicU64,
    step: AtomicU32,
    /// Smoothed, for people.
    requests: AtomicU64,
}

impl Threshold {
    /// The threshold of a server with so many threads.
    pub(crate) fn new(small_files: &SmallFiles, threads: u32) -> Threshold {
        Threshold {
            threads,
            configured: small_files.threshold_bytes.into(),
            adaptive: small_files.adaptive,
            set: small_files.threshold_bytes.into(),
            step: 0.into(),
            requests: 0.into(),
        }
    }

    fn now(&self) -> u64 {
        lowered(self.set.load(Relaxed), self.step.load(Relaxed))
    }

    /// Clients send what they read and write of the file to the metadata server while it is
    /// below so many bytes; `None` if they are not told to.
    pub(crate) fn told(&self, inode: &Inode) -> Option<u64> {
        let below = if inode.stuffed { self.set.load(Relaxed) } else { self.now() };
        Some(below).filter(|below| *below > 0)
    }

    /// The threshold, and what it depends on.
    pub(crate) fn status(&self) -> ThresholdStatus {
        ThresholdStatus {
            configured: self.configured.load(Relaxed),
            set: self.set.load(Relaxed),
            now: self.now(),
            requests_per_thread: self.requests.load(Relaxed),
        }
    }

    /// Sets the threshold until the next start; opens from now on are told.
    ///
    /// # Errors
    /// It is more than configuration allows.
    pub(crate) fn set(&self, bytes: u64) -> Result<(), AdminError> {
        if bytes > STUFFED_BYTES_MAX {
            return Err(AdminError::BadRequest(format!("more than {STUFFED_BYTES_MAX} bytes")));
        }
        let before = self.set.swap(bytes, Relaxed);
        tracing::info!(before, bytes, "the write threshold was set");
        Ok(())
    }

    /// Takes another configured threshold; one that was set since the start stays until it changes.
    ///
    /// # Errors
    /// As [`Threshold::set`].
    pub(crate) fn reconfigure(&self, bytes: u64) -> Result<(), AdminError> {
        if self.configured.load(Relaxed) != bytes {
            self.set(bytes)?;
            self.configured.store(bytes, Relaxed);
        }
        Ok(())
    }

    /// Watches the load, for ever.
    pub(crate) async fn watch(&self, counters: &Counters) {
        if !self.adaptive {
            return;
        }
        let mut load = Load::default();
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            let requests = u32::try_from(counters.under_way()).unwrap_or(u32::MAX);
            let before = load.step;
            load = load.counted(f64::from(requests) / f64::from(self.threads.max(1)));
            #[allow(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "an average of counts"
            )]
            self.requests.store(load.requests as u64, Relaxed);
            self.step.store(load.step, Relaxed);
            if load.step != before {
                tracing::debug!(load.requests, load.step, now = self.now(), "load");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The load after so many equal counts, and every step on the way.
    fn after(mut load: Load, requests: f64, counts: usize) -> (Load, Vec<u32>) {
        let mut steps = vec![load.step];
        for _ in 0..counts {
            load = load.counted(requests);
            if steps.last() != Some(&load.step) {
                steps.push(load.step);
            }
        }
        (load, steps)
    }

    /// Each doubling of the load above what two clients can make halves the threshold, up to
    /// nothing; it comes back the same way.
    #[test]
    fn load_lowers_the_threshold() {
        let under = |clients: f64| after(Load::default(), 64.0 * clients, 200).0.step;
        assert_eq!([1.0, 2.0, 3.0, 5.0, 10.0, 20.0, 40.0].map(under), [0, 0, 1, 2, 3, 4, 5]);
        let kib = |step| lowered(64 << 10, step) >> 10;
        assert_eq!([0, 1, 2, 3, 4, 5].map(kib), [64, 32, 16, 8, 4, 0]);
        let (busy, up) = after(Load::default(), 10_000.0, 200);
        assert_eq!(up.last(), Some(&STEPS));
        let (calm, down) = after(busy, 0.0, 200);
        assert_eq!((calm.step, down), (0, vec![5, 4, 3, 2, 1, 0]));
    }

    /// A burst of one count changes nothing, a load around the edge of a step changes it once.
    #[test]
    fn it_does_not_flap() {
        assert_eq!(Load::default().counted(1000.0).step, 0);
        let (mut load, mut steps) = (Load::default(), Vec::new());
        for n in 0..1000 {
            load = load.counted(if n % 2 == 0 { CALM * 1.2 } else { CALM * 0.9 });
            steps.push(load.step);
        }
        steps.dedup();
        assert_eq!(steps, [0, 1]);
    }
}
