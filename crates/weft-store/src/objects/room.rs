//! Room on the data server's disk: data stops above a floor, so that removals, truncations and
//! fences, and a metadata server on the same disk, still find some; and a little is allocated, for
//! when others have taken the rest.

use std::{
    io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    time::Instant,
};

use rustix::io::Errno;

use super::error::{self, ObjectError};
use crate::reserve::{Disk, Reserve};

/// On a small disk the floor is this part of it: half of what a volume keeps there.
const DISK_SHARE: u64 = 16;
/// Part of the floor that is allocated.
const ALLOCATED_SHARE: u64 = 8;
/// Whatever is written takes at least this.
const BLOCK_BYTES: u64 = 4096;
/// Inodes that stay free: more than a volume on the same disk leaves.
const FLOOR_INODES: u64 = 64;
/// Bytes written at most between two looks at the disk ...
const BUDGET_BYTES_MAX: u64 = 16 << 20;
/// ... this part of what is left, since there are others on the disk ...
const BUDGET_SHARE: u64 = 8;
/// ... and the time between them at most.
const LOOK_MS: u64 = 100;
/// The log is told at most so often that writes are refused.
const TELL_EVERY_MS: u64 = 10_000;
/// It was never told.
const NEVER_MS: u64 = u64::MAX;

#[derive(Debug)]
pub(super) struct Room {
    root: PathBuf,
    /// The device that the file system is on, by which the disks of this machine are told apart.
    pub(super) device: u64,
    floor_max: u64,
    reserve: Reserve,
    started: Instant,
    /// When the disk was looked at, milliseconds after `started`.
    looked_ms: AtomicU64,
    /// What may be written before it is looked at again.
    budget: AtomicU64,
    /// When the log was last told of a refusal, milliseconds after `started`.
    told_ms: AtomicU64,
    /// The file system has refused a write because it is read-only, as one becomes after an error
    /// of its disk: not all of them say so of themselves.
    is_read_only: AtomicBool,
}

impl Room {
    /// For the store in `root`; `floor_max` 0 keeps nothing.
    pub(super) fn open(root: &Path, floor_max: u64) -> io::Result<Self> {
        let floor = floor(floor_max, &Disk::of(root)?);
        let reserve = Reserve::open(root, floor / ALLOCATED_SHARE)?;
        reserve.look()?;
        Ok(Room {
            root: root.to_owned(),
            device: root.metadata()?.dev(),
            floor_max,
            reserve,
            started: Instant::now(),
            looked_ms: AtomicU64::new(0),
            budget: AtomicU64::new(0),
            told_ms: AtomicU64::new(NEVER_MS),
            is_read_only: AtomicBool::new(false),
        })
    }

    /// Whether so many bytes may be taken of the disk.
    ///
    /// # Errors
    /// [`ObjectError::NoSpace`].
    pub(super) fn admit(&self, bytes: u64) -> Result<(), ObjectError> {
        if self.admits_now(bytes) {
            return Ok(());
        }
        let (spare, now_ms) = (self.look()?, self.now_ms());
        let left = spare.checked_sub(bytes.max(BLOCK_BYTES));
        let budget = (left.unwrap_or(0) / BUDGET_SHARE).min(BUDGET_BYTES_MAX);
        self.budget.store(budget, Ordering::Relaxed);
        self.looked_ms.store(now_ms, Ordering::Relaxed);
        if left.is_none() {
            self.tell_refusal();
        }
        left.map(|_| ()).ok_or(ObjectError::NoSpace)
    }

    /// Whether so many bytes may be taken of the disk by what it said when it was last looked at.
    pub(super) fn admits_now(&self, bytes: u64) -> bool {
        let looked_ms = self.looked_ms.load(Ordering::Relaxed);
        let is_fresh = self.now_ms().saturating_sub(looked_ms) < LOOK_MS;
        let take = |left: u64| left.checked_sub(bytes.max(BLOCK_BYTES));
        let (set, get) = (Ordering::Relaxed, Ordering::Relaxed);
        self.floor_max == 0 || is_fresh && self.budget.fetch_update(set, get, take).is_ok()
    }

    /// The disk has refused: it is looked at before anything more is written.
    pub(super) fn was_refused(&self) {
        self.budget.store(0, Ordering::Relaxed);
        self.tell_refusal();
    }

    /// Logs that something is refused for want of room, now and then.
    fn tell_refusal(&self) {
        let (now, told) = (self.now_ms(), self.told_ms.load(Ordering::Relaxed));
        if told != NEVER_MS && now.saturating_sub(told) < TELL_EVERY_MS {
            return;
        }
        self.told_ms.store(now, Ordering::Relaxed);
        let dir = self.root.display();
        tracing::warn!(%dir, "no room on the disk: what makes files larger is refused");
    }

    /// The disk has failed in this way.
    pub(super) fn failed(&self, error: &ObjectError) {
        let is_read_only = matches!(
            error, ObjectError::Io { errno, .. } if *errno == Errno::ROFS.raw_os_error()
        );
        if is_read_only && !self.is_read_only.swap(true, Ordering::Relaxed) {
            let dir = self.root.display();
            tracing::error!(%dir, "the disk has become read-only: new files go elsewhere. Look for \
                its errors (dmesg), mount it for writing, start again");
        }
    }

    /// Whether another file may be made, of so many bytes.
    ///
    /// # Errors
    /// [`ObjectError::NoSpace`].
    pub(super) fn admit_new(&self, bytes: u64) -> Result<(), ObjectError> {
        self.admit(bytes)?;
        let disk = Disk::of(&self.root).map_err(error::io("ask for space"))?;
        let floor = FLOOR_INODES.min(disk.inodes / DISK_SHARE);
        if self.floor_max > 0 && disk.inodes_available < floor {
            return Err(ObjectError::NoSpace);
        }
        Ok(())
    }

    /// Runs what must go on when the disk is full: on what is allocated, if there is no other room.
    pub(super) fn must<T>(
        &self,
        run: impl Fn() -> Result<T, ObjectError>,
    ) -> Result<T, ObjectError> {
        match run() {
            Err(ObjectError::NoSpace) if self.reserve.release_all() => run(),
            done => done,
        }
    }

    /// The disk, and how many bytes of it lie above the floor: none of one that is read-only.
    pub(super) fn disk(&self) -> io::Result<(Disk, u64)> {
        let disk = Disk::of(&self.root)?;
        if self.is_read_only.load(Ordering::Relaxed) {
            return Ok((disk, 0));
        }
        Ok((disk, disk.available.saturating_sub(floor(self.floor_max, &disk))))
    }

    /// Looks at the disk: bytes above the floor.
    fn look(&self) -> Result<u64, ObjectError> {
        if self.reserve.is_scarce()
            && let Err(error) = self.reserve.look()
        {
            tracing::warn!(dir = %self.root.display(), %error, "cannot take the reserve");
        }
        self.disk().map(|(_, spare)| spare).map_err(error::io("ask for space"))
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}

fn floor(floor_max: u64, disk: &Disk) -> u64 {
    floor_max.min(disk.total / DISK_SHARE)
}
