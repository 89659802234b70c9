//! What this process's new files lose of their mode.

use std::sync::OnceLock;

/// Mode of a new file before the umask.
pub(super) const FILE_MODE: u32 = 0o666;
/// Mode of a new directory before the umask.
pub(super) const DIRECTORY_MODE: u32 = 0o777;

/// The bits that are taken away, as they were when this was asked first.
pub(super) fn umask() -> u32 {
    static UMASK: OnceLock<u32> = OnceLock::new();
    // There is no system call that only tells it.
    *UMASK.get_or_init(|| {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("Umask:"));
        line.and_then(|octal| u32::from_str_radix(octal.trim(), 8).ok()).unwrap_or(0o022)
    })
}

/// The mode of a file that comes from nowhere in particular.
pub(super) fn file_mode() -> u32 {
    FILE_MODE & !umask()
}

/// The mode of such a directory.
pub(super) fn directory_mode() -> u32 {
    DIRECTORY_MODE & !umask()
}
