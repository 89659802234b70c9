//! How large a reserve is, and when room is short: arithmetic alone.

use std::{io, path::Path};

/// On a small disk the reserve is this part of it.
const DISK_SHARE: u64 = 8;
/// Beside the reserve this part of its size stays free for whoever need not ask.
const FLOOR_SHARE: u64 = 4;
/// With less than this there is no use in trying again.
const TRY_BYTES: u64 = 1 << 20;
/// Most that an engine keeps allocated in its own files.
const AHEAD_BYTES_MAX: u64 = 32 << 20;
/// Inodes held: the engine makes a few files for each table that it writes.
const INODES_MAX: u32 = 64;

/// What a disk says of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Disk {
    /// Bytes of all of it.
    pub total: u64,
    /// Bytes not in use.
    pub free: u64,
    /// Bytes not in use and not kept for the superuser.
    pub available: u64,
    /// Inodes of all of it; 0 where they are not counted.
    pub inodes: u64,
    /// Inodes not in use.
    pub inodes_available: u64,
}

impl Disk {
    /// The disk below a path.
    ///
    /// # Errors
    /// What the system says.
    pub fn of(path: &Path) -> io::Result<Self> {
        let s = rustix::fs::statvfs(path)?;
        let bytes = |blocks: u64| blocks.saturating_mul(s.f_frsize);
        Ok(Disk {
            total: bytes(s.f_blocks),
            free: bytes(s.f_bfree),
            available: bytes(s.f_bavail),
            inodes: s.f_files,
            inodes_available: s.f_favail,
        })
    }
}

impl Disk {
    /// Whether it may be of use to write again after the disk has refused.
    pub fn may_have_room(&self) -> bool {
        self.available >= TRY_BYTES && (self.inodes == 0 || self.inodes_available > 0)
    }
}

/// What is to be held on a disk, and what is to stay free beside it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Plan {
    /// Bytes to hold.
    pub bytes: u64,
    /// Bytes to leave free.
    pub floor_bytes: u64,
    /// Inodes to hold.
    pub inodes: u32,
    /// Inodes to leave free.
    pub floor_inodes: u64,
}

impl Plan {
    /// For a reserve of at most `bytes_max` on this disk; none at all if that is 0.
    pub fn of(bytes_max: u64, disk: &Disk) -> Self {
        let bytes = bytes_max.min(disk.total / DISK_SHARE);
        let share = u32::try_from(disk.inodes / DISK_SHARE).unwrap_or(u32::MAX);
        let inodes = if bytes == 0 { 0 } else { INODES_MAX.min(share) };
        let floor_inodes = u64::from(inodes) / FLOOR_SHARE;
        Plan { bytes, floor_bytes: bytes / FLOOR_SHARE, inodes, floor_inodes }
    }

    /// What an engine keeps allocated in its own files beside the reserve.
    pub fn ahead_bytes(&self) -> u64 {
        (self.bytes / FLOOR_SHARE).min(AHEAD_BYTES_MAX)
    }

    /// Whether less than the floor is free.
    pub fn is_short(&self, disk: &Disk) -> bool {
        disk.available < self.floor_bytes || self.inodes_short(disk) > 0
    }

    /// Inodes that are missing to the floor.
    pub fn inodes_short(&self, disk: &Disk) -> u32 {
        let short = self.floor_inodes.saturating_sub(disk.inodes_available);
        u32::try_from(short).unwrap_or(u32::MAX)
    }

    /// Inodes that are free above the floor.
    pub fn inodes_spare(&self, disk: &Disk) -> u32 {
        let spare = disk.inodes_available.saturating_sub(self.floor_inodes);
        u32::try_from(spare).unwrap_or(u32::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn disk(total: u64, available: u64, inodes: u64, inodes_available: u64) -> Disk {
        Disk { total, free: available, available, inodes, inodes_available }
    }

    /// A large disk gives no more than is asked for, a small one no more than its share; where
    /// inodes are not counted none are held.
    #[test]
    fn a_small_disk_gives_a_share() {
        let large = Plan::of(256 * MIB, &disk(1 << 40, 0, 1 << 20, 0));
        let held = (large.bytes, large.floor_bytes, large.inodes, large.floor_inodes);
        assert_eq!(held, (256 * MIB, 64 * MIB, 64, 16));
        assert_eq!(large.ahead_bytes(), 32 * MIB);
        let small = Plan::of(256 * MIB, &disk(256 * MIB, 0, 80, 0));
        let held = (small.bytes, small.floor_bytes, small.inodes, small.floor_inodes);
        assert_eq!(held, (32 * MIB, 8 * MIB, 10, 2));
        assert_eq!(small.ahead_bytes(), 8 * MIB);
        assert_eq!(Plan::of(256 * MIB, &disk(1 << 40, 0, 0, 0)).inodes, 0);
        let none = Plan { bytes: 0, floor_bytes: 0, inodes: 0, floor_inodes: 0 };
        assert_eq!(Plan::of(0, &disk(1 << 40, 0, 1 << 20, 0)), none);
    }

    /// A try again is worth its while with some bytes and an inode.
    #[test]
    fn a_full_disk_is_not_tried() {
        assert!(disk(1 << 40, MIB, 10, 1).may_have_room());
        assert!(disk(1 << 40, MIB, 0, 0).may_have_room());
        assert!(!disk(1 << 40, MIB - 1, 10, 1).may_have_room());
        assert!(!disk(1 << 40, MIB, 10, 0).may_have_room());
    }

    /// Both sides of each floor.
    #[test]
    fn short_is_below_a_floor() {
        let of = |available, inodes| disk(1 << 40, available, 1 << 20, inodes);
        let plan = Plan::of(256 * MIB, &of(0, 0));
        assert!(!plan.is_short(&of(64 * MIB, 16)));
        assert!(plan.is_short(&of(64 * MIB - 1, 16)));
        assert!(plan.is_short(&of(64 * MIB, 15)));
        assert_eq!((plan.inodes_short(&of(0, 15)), plan.inodes_spare(&of(0, 15))), (1, 0));
        assert_eq!((plan.inodes_short(&of(0, 17)), plan.inodes_spare(&of(0, 17))), (0, 1));
        let none = Plan::of(0, &of(0, 0));
        assert!(!none.is_short(&of(0, 0)), "nothing kept, nothing missed");
    }
}
