//! On what kind of file system a data directory is: some keep nothing.

use std::path::Path;

use rustix::fs::StatVfsMountFlags;

/// What is said of a file system by the number in `f_type` (statfs(2)), if it is none to keep
/// data on.
fn unfit(kind: u64) -> Option<&'static str> {
    match kind {
        0x0102_1994 => Some("it is a tmpfs: everything in it is gone when the machine stops"),
        0x8584_58f6 => Some("it is a ramfs: everything in it is gone when the machine stops"),
        0x6969 => Some("it is on NFS: what is synced there may not be, use a local disk"),
        0xff53_4d42 | 0xfe53_4d42 | 0x517b => {
            Some("it is on SMB: what is synced there may not be, use a local disk")
        }
        _ => None,
    }
}

/// Warns if a data directory, which is there, is where data cannot be kept.
pub(crate) fn warn_if_unfit(dir: &Path) {
    let Ok(found) = rustix::fs::statfs(dir) else { return };
    let kind = u64::try_from(found.f_type).unwrap_or(0);
    if let Some(why) = unfit(kind) {
        tracing::warn!(dir = %dir.display(), "data directory: {why}");
    }
}

/// What to say of a directory that cannot be used because its disk is mounted read-only.
pub(crate) fn read_only_hint(dir: &Path) -> &'static str {
    // The directory itself may be missing.
    let found = dir.ancestors().find_map(|dir| rustix::fs::statvfs(dir).ok());
    match found {
        Some(disk) if disk.f_flag.contains(StatVfsMountFlags::RDONLY) => {
            " (its disk is mounted read-only: look for the disk's errors (dmesg), mount it for \
             writing)"
        }
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Kinds are told apart: this machine's own tmpfs, and numbers of disks.
    #[test]
    fn kinds() {
        let of = |dir: &str| rustix::fs::statfs(dir).unwrap().f_type;
        assert!(unfit(u64::try_from(of("/dev/shm")).unwrap()).unwrap().contains("tmpfs"));
        for (kind, fit) in [(0xef53, true), (0x5846_5342, true), (0x6969, false)] {
            assert_eq!(unfit(kind).is_none(), fit, "{kind:x}");
        }
    }
}
