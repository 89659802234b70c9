//! Room on the volume's own disk. A commit that meets a full disk stops the volume, so names are
//! refused before: what makes room (REMOVE), and what clients need to finish their work, still
//! finds some.

use std::{
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use weft_nfs::NfsStat;

/// How often the disk is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// Bytes kept free: the engine's journals, and tables being rewritten.
const RESERVE_BYTES: u64 = 256 << 20;
/// On a small disk, this part of it.
const RESERVE_SHARE: u64 = 8;

/// Whether there is room for more.
#[derive(Debug, Default)]
pub(crate) struct DiskReserve {
    scarce: AtomicBool,
}

impl DiskReserve {
    /// Refuses what makes names, of files or of attributes, while room is scarce.
    ///
    /// # Errors
    /// NOSPC.
    pub(crate) fn admit_growth(&self) -> Result<(), NfsStat> {
        if self.is_scarce() { Err(NfsStat::NOSPC) } else { Ok(()) }
    }

    /// Whether what need not be in the volume should not be.
    pub(crate) fn is_scarce(&self) -> bool {
        self.scarce.load(Ordering::Relaxed)
    }

    /// Watches the room on the disk of this directory, for ever.
    pub(crate) async fn watch(&self, dir: &Path) {
        loop {
            match rustix::fs::statvfs(dir) {
                Ok(s) => {
                    let bytes = |blocks: u64| blocks.saturating_mul(s.f_frsize);
                    self.look(bytes(s.f_bavail), bytes(s.f_blocks));
                }
                Err(e) => tracing::warn!(dir = %dir.display(), error = %e, "cannot ask for space"),
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// Takes note of a look at the disk; says so when things have changed.
    fn look(&self, available: u64, total: u64) {
        let reserve = RESERVE_BYTES.min(total / RESERVE_SHARE);
        let scarce = available < reserve;
        match (self.scarce.swap(scarce, Ordering::Relaxed), scarce) {
            (false, true) => {
                tracing::error!(
                    available,
                    reserve,
                    "the volume's disk is full: nothing is created"
                );
            }
            (true, false) => tracing::warn!(available, "the volume's disk has room again"),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Below the reserve nothing grows; a large disk keeps no more than it needs, a small one no
    /// more than its share.
    #[test]
    fn the_reserve_is_kept() {
        for (total, least) in [(1 << 40, RESERVE_BYTES), (256 << 20, 32 << 20)] {
            let reserve = DiskReserve::default();
            reserve.look(least, total);
            assert_eq!(reserve.admit_growth(), Ok(()));
            reserve.look(least - 1, total);
            assert_eq!(reserve.admit_growth(), Err(NfsStat::NOSPC));
            assert!(reserve.is_scarce(), "bytes of small files go elsewhere");
            reserve.look(least, total);
            assert_eq!(reserve.admit_growth(), Ok(()));
        }
    }
}
