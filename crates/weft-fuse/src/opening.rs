//! Flags of `open(2)`, and files that are opened before the kernel asks for them.

use std::{sync::Arc, time::Instant};

use bytes::Bytes;
use fuser::{OpenAccMode, OpenFlags};
use weft_client::{
    io::{FileIo, IoPolicy},
    node::OpenOptions,
};
use weft_nfs::Attrs;

/// Flags of `open(2)` that matter here: `include/uapi/asm-generic/fcntl.h`.
pub const O_RDONLY: i32 = 0;
const O_ACCMODE: i32 = 0o3;
pub const O_EXCL: i32 = 0o200;
pub const O_TRUNC: i32 = 0o1000;
pub const O_APPEND: i32 = 0o2000;
pub const O_DIRECT: i32 = 0o40000;

/// Options that open an existing file as a program's flags ask. O_TRUNC is left out: the kernel
/// truncates by a request of its own once nothing is in the way, for example a running program.
pub fn options_of(flags: i32) -> OpenOptions {
    let (read, write) = match OpenFlags(flags).acc_mode() {
        OpenAccMode::O_RDONLY => (true, false),
        OpenAccMode::O_WRONLY => (false, true),
        OpenAccMode::O_RDWR => (true, true),
    };
    // O_DIRECT bypasses the client's cache as well as the kernel's.
    let policy = (flags & O_DIRECT != 0).then(IoPolicy::direct);
    OpenOptions { read, write, policy, ..OpenOptions::default() }
}

/// A file that was opened before the kernel asked for that.
#[derive(Clone)]
pub struct Held {
    pub io: Arc<FileIo>,
    /// As it was opened, as `open(2)` has it.
    pub flags: i32,
    /// As they were told with that, and when it was asked.
    pub attrs: Attrs,
    pub asked_at: Instant,
}

impl Held {
    /// True if an open with these flags may use it.
    pub fn serves(&self, flags: i32) -> bool {
        let how = |flags| flags & (O_ACCMODE | O_DIRECT);
        how(self.flags) == how(flags)
    }
}

/// Result of a thread's second lookup, in a form that outlives the name.
#[derive(Clone)]
pub enum Found {
    /// Open, as long as this is kept.
    File(Box<Held>),
    /// Target of a symbolic link.
    Link(Bytes),
    /// Something else, or nothing that the caller may open.
    Other,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The kernel's flags as options.
    #[test]
    fn flags_of_open() {
        let (read_only, write_only, both) = (0, 1, 2);
        assert!(options_of(read_only).read && !options_of(read_only).write);
        assert!(!options_of(write_only).read && options_of(write_only).write);
        assert!(options_of(both).read && options_of(both).write);
        assert!(!options_of(both | O_TRUNC).truncate);
    }
}
