//! Room that is really taken: blocks and inodes that a directory keeps allocated while the disk has
//! plenty, and gives back when the disk is full, for what must go on then.
//!
//! A directory `reserve` holds them: the file `blocks`, allocated to its end, and empty files, one
//! for each inode. Whoever learns from the disk that there is no room waits
//! ([`Reserve::wait_for_room`]), which gives back part of the reserve. Not before, and not much at
//! once: what is given back to a disk that somebody else is filling is gone. [`Reserve::look`],
//! called now and then, takes it again when others have made room.

mod plan;
mod spare_inodes;

use std::{
    fs::{File, OpenOptions},
    io,
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
    sync::{
        Condvar, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use rustix::{
    fs::{FallocateFlags, fallocate},
    io::Errno,
};

pub use self::plan::{Disk, Plan};
use self::spare_inodes::SpareInodes;
use crate::{
    make_dir::{BY_UMASK, make_dir},
    sync::lock,
};

/// The directory of the reserve, below the one that it is for.
const DIR: &str = "reserve";
/// The file that holds the blocks.
const BLOCKS_FILE: &str = "blocks";
/// Nobody else has any use for it.
const FILE_MODE: u32 = 0o600;
/// What is given back stays free for so long: whoever needed it is given time to use it.
const HOLD_OFF: Duration = Duration::from_secs(10);
/// How often the disk is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// How often one that waits for room asks again.
const ASK_EVERY: Duration = Duration::from_millis(100);
/// Part of the reserve that is given back at a time.
const STEPS: u64 = 8;

/// How much room a directory's disk has, and how much of it is kept for its owner.
#[derive(Debug)]
pub struct Reserve {
    /// The directory it is for.
    dir: PathBuf,
    bytes_max: u64,
    held: Mutex<Held>,
    scarce: AtomicBool,
    /// Whether to wait for room that only others can make.
    patient: AtomicBool,
    closing: Mutex<bool>,
    closed: Condvar,
}

/// What is allocated.
#[derive(Debug)]
struct Held {
    /// Absent until there is something to hold.
    blocks: Option<File>,
    bytes: u64,
    inodes: SpareInodes,
    released: Option<Instant>,
    /// The file system below cannot allocate: room is only watched.
    unsupported: bool,
}

impl Reserve {
    /// The reserve of a directory, of at most `bytes_max` bytes; what an earlier process left of
    /// it is found again. Nothing is allocated before the first [`Self::look`].
    ///
    /// # Errors
    /// The reserve's files cannot be read.
    pub fn open(dir: &Path, bytes_max: u64) -> io::Result<Self> {
        let own = dir.join(DIR);
        let (blocks, bytes) = match open_blocks(&own, false) {
            Ok(file) => {
                let bytes = allocated(&file)?;
                (Some(file), bytes)
            }
            Err(e) if e.kind() == io::ErrorKind::NotFound => (None, 0),
            Err(e) => return Err(e),
        };
        let inodes = SpareInodes::find(&own)?;
        let held = Held { blocks, bytes, inodes, released: None, unsupported: false };
        Ok(Reserve {
            dir: dir.to_owned(),
            bytes_max,
            held: Mutex::new(held),
            scarce: AtomicBool::new(false),
            patient: AtomicBool::new(false),
            closing: Mutex::new(false),
            closed: Condvar::new(),
        })
    }

    /// The directory it is for.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Whether what need not be written should not be: the reserve is not whole, or little is left
    /// beside it.
    pub fn is_scarce(&self) -> bool {
        self.scarce.load(Ordering::Acquire)
    }

    /// The disk, where only what lies above the floor is available: what may be used for growth.
    ///
    /// # Errors
    /// The disk does not tell.
    pub fn space(&self) -> io::Result<Disk> {
        let disk = Disk::of(&self.dir)?;
        let floor = Plan::of(self.bytes_max, &disk).floor_bytes;
        Ok(Disk { available: disk.available.saturating_sub(floor), ..disk })
    }

    /// How much an engine is to keep allocated in its own files, where nobody else can take it: a
    /// quarter of the reserve, within reason.
    pub fn ahead_bytes(&self) -> u64 {
        let disk = Disk::of(&self.dir);
        disk.map_or(0, |disk| Plan::of(self.bytes_max, &disk).ahead_bytes())
    }

    /// From now on [`Self::wait_for_room`] waits for room that others make.
    pub fn be_patient(&self) {
        self.patient.store(true, Ordering::Release);
    }

    /// Ends all waiting, now and later.
    pub fn close(&self) {
        *lock(&self.closing) = true;
        self.closed.notify_all();
    }

    /// Looks at the disk every now and then until [`Self::close`].
    pub fn watch(&self) {
        loop {
            if let Err(error) = self.look() {
                tracing::warn!(dir = %self.dir.display(), %error, "cannot ask for space");
            }
            if self.closes_within(LOOK_EVERY) {
                break;
            }
        }
    }

    /// Looks at the disk: takes what is missing of the reserve if there is room for it, and finds
    /// out whether room is scarce.
    ///
    /// # Errors
    /// The disk does not tell.
    pub fn look(&self) -> io::Result<Disk> {
        let mut held = lock(&self.held);
        let disk = Disk::of(&self.dir)?;
        let plan = Plan::of(self.bytes_max, &disk);
        let held_off = held.released.is_some_and(|at| at.elapsed() < HOLD_OFF);
        let taken = !held_off && self.take_missing(&mut held, &plan, &disk);
        let disk = if taken { Disk::of(&self.dir)? } else { disk };
        let whole = held.unsupported || held.bytes >= plan.bytes;
        let scarce = !whole || held.inodes.count() < plan.inodes || plan.is_short(&disk);
        drop(held);
        self.note(scarce, &disk);
        Ok(disk)
    }

    /// The disk has refused for want of room: gives back part of the reserve, or waits a moment if
    /// nothing is left of it. Whether to try again.
    pub fn wait_for_room(&self) -> bool {
        let step = (lock(&self.held).bytes / STEPS).max(1 << 20);
        if self.release(step, u32::MAX) {
            return true;
        }
        if !self.patient.load(Ordering::Acquire) {
            return false;
        }
        while !self.closes_within(ASK_EVERY) {
            // A disk that does not tell is tried again.
            if Disk::of(&self.dir).map_or(true, |disk| disk.may_have_room()) {
                return true;
            }
            self.scarce.store(true, Ordering::Release);
        }
        false
    }

    /// Waits a moment; whether there is a use in waiting on.
    pub fn pause(&self) -> bool {
        !self.closes_within(ASK_EVERY)
    }

    /// Gives back all of it; whether there was anything.
    pub fn release_all(&self) -> bool {
        self.release(u64::MAX, u32::MAX)
    }

    /// Gives back so many bytes and inodes; whether there was anything.
    fn release(&self, bytes: u64, inodes: u32) -> bool {
        let mut held = lock(&self.held);
        let left = held.bytes.saturating_sub(bytes);
        let mut released = left < held.bytes;
        if released && let Some(file) = &held.blocks {
            // The sync returns when the blocks are free for others, not only marked so.
            let cut = file.set_len(left).and_then(|()| file.sync_all());
            if let Err(error) = cut {
                tracing::error!(dir = %self.dir.display(), %error, "cannot shrink the reserve");
            }
        }
        held.bytes = left;
        released |= held.inodes.release(inodes);
        if released {
            held.released = Some(Instant::now());
            self.scarce.store(true, Ordering::Release);
            tracing::warn!(dir = %self.dir.display(), left, "the disk is full: using the reserve");
        }
        released
    }

    /// Takes what is missing, as far as the floor stays free; whether it took anything.
    fn take_missing(&self, held: &mut Held, plan: &Plan, disk: &Disk) -> bool {
        let spare = disk.available.saturating_sub(plan.floor_bytes);
        let bytes = plan.bytes.saturating_sub(held.bytes).min(spare);
        let inodes = plan.inodes.saturating_sub(held.inodes.count());
        let inodes = inodes.min(plan.inodes_spare(disk));
        if (bytes == 0 || held.unsupported) && inodes == 0 {
            return false;
        }
        let taken = self.allocate(held, bytes).and_then(|()| held.inodes.take(inodes));
        match taken {
            Err(e) if is_full(&e) => {}
            Err(error) if is_unsupported(&error) => {
                held.unsupported = true;
                let dir = self.dir.display();
                tracing::warn!(%dir, "the file system cannot allocate space: no reserve is kept");
            }
            Err(error) => {
                tracing::warn!(dir = %self.dir.display(), %error, "cannot take the reserve");
            }
            Ok(()) => {}
        }
        true
    }

    fn allocate(&self, held: &mut Held, bytes: u64) -> io::Result<()> {
        if bytes == 0 || held.unsupported {
            return Ok(());
        }
        let file = match &held.blocks {
            Some(file) => file,
            None => held.blocks.insert(make_blocks(&self.dir)?),
        };
        let to = held.bytes.saturating_add(bytes);
        let done = fallocate(file, FallocateFlags::empty(), 0, to);
        let synced = file.sync_all();
        held.bytes = allocated(file)?;
        done?;
        synced
    }

    /// Takes note of what a look found; says so when things have changed.
    fn note(&self, scarce: bool, disk: &Disk) {
        let (dir, available) = (self.dir.display(), disk.available);
        match (self.scarce.swap(scarce, Ordering::AcqRel), scarce) {
            (false, true) => {
                tracing::error!(%dir, available, "the disk is (nearly) full: nothing may grow");
            }
            (true, false) => tracing::warn!(%dir, available, "the disk has room again"),
            _ => {}
        }
    }

    /// Whether [`Self::close`] was called, now or within this time.
    fn closes_within(&self, time: Duration) -> bool {
        let closing = lock(&self.closing);
        let waited = self.closed.wait_timeout_while(closing, time, |closing| !*closing);
        match waited {
            Ok((closing, _)) => *closing,
            Err(broken) => *broken.into_inner().0,
        }
    }
}

/// Whether an error says that there is no room: on the disk, or within a quota.
pub fn is_full(error: &io::Error) -> bool {
    let errno = error.raw_os_error().map(Errno::from_raw_os_error);
    matches!(errno, Some(Errno::NOSPC | Errno::DQUOT))
}

fn is_unsupported(error: &io::Error) -> bool {
    let errno = error.raw_os_error().map(Errno::from_raw_os_error);
    matches!(errno, Some(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL))
}

/// Bytes that a file has of the disk, as far as its own length.
fn allocated(file: &File) -> io::Result<u64> {
    let m = file.metadata()?;
    Ok(m.blocks().saturating_mul(512).min(m.len()))
}

fn open_blocks(own: &Path, create: bool) -> io::Result<File> {
    let path = own.join(BLOCKS_FILE);
    OpenOptions::new().write(true).create(create).mode(FILE_MODE).open(path)
}

/// Makes the file of the blocks, and its directory.
fn make_blocks(dir: &Path) -> io::Result<File> {
    let own = dir.join(DIR);
    make_dir(&own, BY_UMASK)?;
    open_blocks(&own, true)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is taken is really allocated, is found again after a restart, and is given back as it
    /// is asked for.
    #[test]
    fn blocks_and_inodes_are_taken_and_given_back() {
        let dir = tempfile::tempdir().unwrap();
        let bytes = 4 << 20;
        let reserve = Reserve::open(dir.path(), bytes).unwrap();
        assert!(!reserve.release_all(), "nothing is held yet");
        reserve.look().unwrap();
        assert!(!reserve.is_scarce());
        let file = dir.path().join(DIR).join(BLOCKS_FILE);
        let blocks = || file.metadata().unwrap().blocks() * 512;
        assert!(blocks() >= bytes, "{} allocated", blocks());
        let again = Reserve::open(dir.path(), bytes).unwrap();
        assert!(lock(&again.held).bytes >= bytes);
        assert!(again.release(1 << 20, 0));
        assert!(blocks() <= 3 << 20);
        again.look().unwrap();
        assert!(again.is_scarce(), "not whole, and not taken again at once");
        assert!(blocks() <= 3 << 20);
        assert!(again.release_all());
        assert_eq!(blocks(), 0);
        assert_eq!(lock(&again.held).inodes.count(), 0);
        assert!(!again.release_all(), "there is nothing more");
    }

    /// Who may wait does until the end; who may not is told at once.
    #[test]
    fn waiting_ends_when_it_is_closed() {
        let dir = tempfile::tempdir().unwrap();
        let reserve = Reserve::open(dir.path(), 0).unwrap();
        assert!(!reserve.wait_for_room(), "nobody waits while a volume is being opened");
        reserve.be_patient();
        assert!(reserve.wait_for_room(), "try again");
        reserve.close();
        assert!(!reserve.wait_for_room());
    }
}
