//! How the data of an open file travel (P4.3: policies of the layout driver's user).

#[cfg(doc)]
use crate::limits;

/// Which writes are gathered (P0.4, write-back gathering). None by default.
///
/// A write below [`gather_below`](IoPolicy::gather_below) is copied into a buffer of the file and
/// acknowledged; it leaves with others, adjacent ones as one. If one of these has grown to that
/// size, or they are many ([`limits::MDS_RUNS_MAX`]), they go to the data servers, side by side;
/// else through the metadata server, unless a layout is held already: using both ways at once
/// would have the metadata server fence the layout's handles.
///
/// The buffer leaves when it is full, and before anything that would show that it has not: a read
/// of the file, a larger write that overlaps it, a truncation, a commit, the close. All opens of
/// the file by this client share it. Others see the bytes, and the size, when they have left.
///
/// **Errors.** What could not leave stays, and the call that wanted it to reports why; so does
/// every later one until it could. A close reports it too, and gives it up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IoPolicy {
    /// Writes of fewer bytes are gathered; 0: none are.
    pub gather_below: u32,
    /// Bytes of memory for them, for each file.
    pub gather_bytes: u32,
}

impl IoPolicy {
    /// Gathers writes of fewer bytes, a MiB at a time.
    pub fn gathering(below: u32) -> IoPolicy {
        IoPolicy { gather_below: below, ..IoPolicy::default() }
    }
}

impl Default for IoPolicy {
    fn default() -> Self {
        IoPolicy { gather_below: 0, gather_bytes: 1 << 20 }
    }
}
