//! DiskReserve on the volume's own disk. A commit that meets a full disk stops the volume, so names are
//! refused before: what makes room (REMOVE), and what clients need to finish their work, still
//! finds some.

use std::{
    path::PathBuf,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use weft_nfs::{NfsStat, OpArgs, ops::OpenClaim};

use crate::mds::Mds;

/// How often the disk is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// Bytes kept free: the engine's journals, and tables being rewritten.
const RESERVE_BYTES: u64 = 256 << 20;
/// On a small disk, this part of it.
const RESERVE_SHARE: u64 = 8;

/// Whether there is room for more.
#[derive(Debug, Default)]
pub(in crate::mds) struct DiskReserve {
    scarce: AtomicBool,
}

impl DiskReserve {
    /// Refuses an operation that makes names, of files or of attributes, while room is scarce.
    ///
    /// # Errors
    /// NOSPC.
    pub(in crate::mds) fn admit(&self, args: &OpArgs) -> Result<(), NfsStat> {
        let grows = match args {
            OpArgs::Create(_) | OpArgs::Link(_) | OpArgs::Setxattr(_) => true,
            OpArgs::Open(a) => a.openhow.is_some() && matches!(a.claim, OpenClaim::Null(_)),
            _ => false,
        };
        if grows && self.is_scarce() { Err(NfsStat::NOSPC) } else { Ok(()) }
    }

    /// Whether what need not be in the volume should not be.
    pub(in crate::mds) fn is_scarce(&self) -> bool {
        self.scarce.load(Ordering::Relaxed)
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

impl Mds {
    /// Watches the room on the disk of this directory, for ever.
    pub async fn watch_disk(self: std::sync::Arc<Self>, dir: PathBuf) {
        loop {
            match rustix::fs::statvfs(&dir) {
                Ok(s) => {
                    let bytes = |blocks: u64| blocks.saturating_mul(s.f_frsize);
                    self.reserve.look(bytes(s.f_bavail), bytes(s.f_blocks));
                }
                Err(e) => tracing::warn!(dir = %dir.display(), error = %e, "cannot ask for space"),
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use weft_nfs::ops::RemoveArgs;

    use super::*;

    /// Below the reserve nothing is created, but removed; a large disk keeps no more than it
    /// needs, a small one no more than its share.
    #[test]
    fn the_reserve_is_kept() {
        let create = OpArgs::Link(weft_nfs::ops::LinkArgs { newname: "x".into() });
        let remove = OpArgs::Remove(RemoveArgs { target: "x".into() });
        for (total, least) in [(1 << 40, RESERVE_BYTES), (256 << 20, 32 << 20)] {
            let room = DiskReserve::default();
            room.look(least, total);
            assert_eq!(room.admit(&create), Ok(()));
            room.look(least - 1, total);
            assert_eq!(room.admit(&create), Err(NfsStat::NOSPC));
            assert_eq!(room.admit(&remove), Ok(()));
            assert!(room.is_scarce(), "bytes of small files go elsewhere");
            room.look(least, total);
            assert_eq!(room.admit(&create), Ok(()));
        }
    }
}
