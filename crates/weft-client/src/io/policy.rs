//! How the data of open files travel (P4.3: policies of the layout driver's user).

use crate::limits::READ_AHEAD_BYTES;

/// What of a file's bytes is kept in memory, for how long, and what is asked for before it is
/// wanted. By default everything is kept within one budget of the whole client
/// ([`cache_bytes`](IoPolicy::cache_bytes)).
///
/// **Writing.** A write below [`gather_below`](IoPolicy::gather_below) is taken into the cache and
/// acknowledged; it leaves with others, adjacent ones as one, when a part of the budget is to be
/// written back, and at a commit or close. A larger one is at the servers when it returns. All
/// opens of a file by this client see it at once, other clients when it has left, and after a
/// close in any case (close-to-open, RFC 8881 §10.3.1). A few small runs leave through the metadata
/// server, unless a layout is held: more, or larger ones, go to the data servers side by side.
///
/// **Reading.** What this client has written and is not durable is read from its own copy. What was
/// read stays ([`keeps`](IoPolicy::keeps)), until the file is opened again and has changed.
///
/// **Errors.** What could not leave stays, and the call that wants it to reports why; so does every
/// later one until it could. A close reports it too, and gives it up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IoPolicy {
    /// Writes of fewer bytes are gathered (P0.4); 0: none are.
    pub gather_below: u32,
    /// Whether what was read, and what was written and is durable, is kept to be read again.
    pub keeps: bool,
    /// Bytes asked for ahead of who reads a file from front to back; 0: none. Only if it keeps.
    pub read_ahead_bytes: u32,
    /// Memory of all files together, in bytes. Dirty data are written back long before it is full.
    /// Each open file counts with [`crate::limits::CACHED_FILE_OVERHEAD_BYTES`]: with as many as
    /// take all of it nothing is kept that servers have, too.
    pub cache_bytes: u64,
}

impl IoPolicy {
    /// Each write is at the servers when it returns, each read asks them, as `O_DIRECT` does. What
    /// is not durable yet is kept all the same, to be written again if a server loses it.
    pub fn direct() -> IoPolicy {
        IoPolicy { gather_below: 0, keeps: false, read_ahead_bytes: 0, ..IoPolicy::default() }
    }

    /// Gathers writes of fewer bytes, and keeps nothing that was read.
    pub fn gathering(below: u32) -> IoPolicy {
        IoPolicy { gather_below: below, ..IoPolicy::direct() }
    }
}

impl Default for IoPolicy {
    fn default() -> Self {
        IoPolicy {
            gather_below: u32::MAX,
            keeps: true,
            read_ahead_bytes: READ_AHEAD_BYTES,
            cache_bytes: 256 << 20,
        }
    }
}
