//! What this process's new files lose of their mode.

use std::sync::OnceLock;

use super::own_status;

/// Mode of a new file before the umask.
const FILE_MODE: u32 = 0o666;
/// Mode of a new directory before the umask.
const DIRECTORY_MODE: u32 = 0o777;

/// The bits that are taken away, as they were when this was asked first.
pub(super) fn umask() -> u32 {
    static UMASK: OnceLock<u32> = OnceLock::new();
    // There is no system call that only tells it.
    let told = || own_status::field("Umask", 8).and_then(|umask| u32::try_from(umask).ok());
    *UMASK.get_or_init(|| told().unwrap_or(0o022))
}

/// The mode of a file that comes from nowhere in particular.
pub(super) fn file_mode() -> u32 {
    FILE_MODE & !umask()
}

/// The mode of such a directory.
pub(super) fn directory_mode() -> u32 {
    DIRECTORY_MODE & !umask()
}
