//! What every state machine is about: moments, connections, files.

/// Monotonic time in milliseconds, from any origin that does not move while the process runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Millis(pub u64);

impl Millis {
    /// Milliseconds from `earlier` to here; 0 if it is later.
    pub fn since(self, earlier: Millis) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

/// A transport connection, named by the shell that owns it; never reused within a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnId(pub u64);

/// A file: its volume and its number there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct FileKey {
    /// Number of the volume.
    pub volume: u32,
    /// The object in the volume; never reused.
    pub object: u64,
}

/// A copy of bytes a peer sent, so that a few of them kept for long do not keep alive the whole
/// receive buffer they were sliced from.
pub(crate) fn detached(bytes: &bytes::Bytes) -> bytes::Bytes {
    bytes::Bytes::copy_from_slice(bytes)
}
