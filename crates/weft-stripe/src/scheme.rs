//! What every scheme of distribution can compute. [`crate::Distribution`] documents each answer.

/// Where one byte of a file is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Location {
    /// Index into the list of stripes, below [`crate::Distribution::stripe_count`].
    pub stripe_index: u32,
    /// Offset in that stripe's object, in bytes.
    pub object_offset: u64,
}

/// The arithmetic of one scheme. All else of a distribution follows from these.
///
/// **Never known behind it**: servers, files, time: the same question has the same answer for ever,
/// since bytes lie on disks by it.
pub(crate) trait Scheme {
    /// Number of stripe indices.
    fn stripe_count(&self) -> u32;
    /// Whether each object has all bytes of the file, so that [`Scheme::locate`] tells one of
    /// several places.
    fn is_whole_in_each(&self) -> bool {
        self.stripe_count() == 1
    }
    /// The location of one byte of the file.
    fn locate(&self, offset: u64) -> Location;
    /// Bytes from `offset` to the end of its stripe unit, at least 1.
    fn bytes_to_unit_end(&self, offset: u64) -> u64;
    /// Which byte of the file is stored there; `None` where none is.
    fn file_offset(&self, stripe_index: u32, object_offset: u64) -> Option<u64>;
    /// The size of a stripe index's object in a file of `file_size` bytes.
    fn object_size_for(&self, file_size: u64, stripe_index: u32) -> u64;
    /// Bytes of a stripe index in a file of `file_size` bytes.
    fn own_bytes(&self, file_size: u64, stripe_index: u32) -> u64;
    /// One past the last byte of the file in an object of this size.
    fn file_end_of_object(&self, stripe_index: u32, object_size: u64) -> Option<u64>;
    /// The first run of the file's bytes in an object at or after an object offset: its start and
    /// its end (one past it).
    fn next_own_run(&self, stripe_index: u32, object_offset: u64) -> Option<(u64, u64)>;
}
