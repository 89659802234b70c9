//! Copying between two objects of the store without the bytes leaving the kernel
//! (`copy_file_range`), and sharing blocks where the file system can. Holes stay holes.

use std::{
    fs::File,
    os::unix::fs::MetadataExt,
    path::Path,
    sync::{Arc, RwLockReadGuard},
};

use rustix::{
    fs::{Mode, OFlags, copy_file_range, open},
    io::Errno,
};

use super::{
    epoch::{AcceptedEpoch, REMOVED},
    error::{ObjectError, errno, io},
    object::Object,
    object_id::ObjectId,
    sparse_file::{OBJECT_BYTES_MAX, next_data, next_hole, punch_hole},
    store::{ObjectStore, WriteVerifier},
};

/// A range of one object and its place in another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CopyRange {
    /// First byte in the source.
    pub from: u64,
    /// First byte in the destination.
    pub to: u64,
    /// Length of the range in bytes.
    pub len: u64,
}

impl ObjectStore {
    /// Copies a range of one object to another, unstable until [`Self::commit`], and returns the
    /// verifier that was valid when it began. Where the source has a hole, or ends, the
    /// destination gets one.
    ///
    /// **Cost**: holds the destination's epoch lock all the while: a fence waits for it.
    ///
    /// # Errors
    /// [`ObjectError::Stale`] if the destination is fenced or the source is gone,
    /// [`ObjectError::Unsupported`], and as [`Self::write`]; part of it may have been copied.
    pub fn copy(
        &self,
        source: ObjectId,
        destination: ObjectId,
        epoch: u32,
        range: CopyRange,
    ) -> Result<WriteVerifier, ObjectError> {
        let from = self.copied_from(source, range)?;
        self.begin(destination, epoch)?;
        let object = self.object(destination);
        let epoch_lock = object.epoch_shared();
        epoch_lock.admit(epoch)?;
        let verifier = self.write_verifier();
        let has_data = match &from {
            Some(from) => next_data(from, range.from)?.is_some_and(|d| d < range.from + range.len),
            None => false,
        };
        let to = match has_data {
            true => {
                let blocks_bytes = match &from {
                    Some(from) => from.metadata().map_err(io("stat an object"))?.blocks() * 512,
                    None => 0,
                };
                self.room.admit_new(blocks_bytes.min(range.len))?;
                Some(object.file_or_create(&self.dir)?)
            }
            false => object.file(&self.dir)?,
        };
        let Some(to) = to else { return Ok(verifier) };
        let copied = Copying { from: from.as_deref(), to: &to }.run(range);
        self.copied(destination, &object, epoch_lock, copied)?;
        Ok(verifier)
    }

    /// Makes a range of one object the same blocks as a range of another, or of its own, unstable
    /// until [`Self::commit`]; the verifier as with [`Self::copy`]. What is left of a block where
    /// the source ends before the destination does is copied.
    ///
    /// **Cost**: holds the destination's epoch lock all the while: a fence waits for it.
    ///
    /// # Errors
    /// [`ObjectError::Unsupported`] if the file system cannot, [`ObjectError::Unaligned`] for
    /// places that are not at whole blocks, else as [`Self::copy`]; part of it may be shared.
    pub fn clone_range(
        &self,
        source: ObjectId,
        destination: ObjectId,
        epoch: u32,
        range: CopyRange,
    ) -> Result<WriteVerifier, ObjectError> {
        let from = self.copied_from(source, range)?;
        self.begin(destination, epoch)?;
        let object = self.object(destination);
        let epoch_lock = object.epoch_shared();
        epoch_lock.admit(epoch)?;
        let verifier = self.write_verifier();
        let size = match &from {
            Some(from) => from.metadata().map_err(io("stat an object"))?.len(),
            None => 0,
        };
        let data = size.saturating_sub(range.from).min(range.len);
        let to = match data {
            0 => object.file(&self.dir)?,
            _ => {
                self.room.admit_new(0)?;
                Some(object.file_or_create(&self.dir)?)
            }
        };
        let Some(to) = to else { return Ok(verifier) };
        let shared = Copying { from: from.as_deref(), to: &to }.share(range, data);
        self.copied(destination, &object, epoch_lock, shared)?;
        Ok(verifier)
    }

    /// Whether the file system below can share blocks between files, as far as it says so without
    /// being given any. Asked once; a disk that cannot make a file is asked again.
    pub fn shares_blocks(&self) -> bool {
        if let Some(known) = self.shares_blocks.get() {
            return *known;
        }
        match can_share(self.dir.root()) {
            Ok(can) => *self.shares_blocks.get_or_init(|| can),
            Err(error) => {
                tracing::debug!(%error, "whether blocks can be shared is not known");
                false
            }
        }
    }

    /// What is to be done after a copy, whether it failed or not.
    fn copied(
        &self,
        destination: ObjectId,
        object: &Object,
        epoch_lock: RwLockReadGuard<'_, AcceptedEpoch>,
        copied: Result<(), ObjectError>,
    ) -> Result<(), ObjectError> {
        object.wrote();
        drop(epoch_lock);
        if let Err(e @ ObjectError::Io { .. }) = &copied {
            self.doubt(destination, e);
        }
        copied
    }

    /// The source of a copy, if it exists.
    fn copied_from(
        &self,
        source: ObjectId,
        range: CopyRange,
    ) -> Result<Option<Arc<File>>, ObjectError> {
        let ends = [range.from, range.to].map(|at| at.checked_add(range.len));
        if ends.iter().any(|end| end.is_none_or(|end| end > OBJECT_BYTES_MAX)) {
            return Err(ObjectError::TooBig);
        }
        if self.epoch(source) == REMOVED {
            return Err(ObjectError::Stale { current: REMOVED });
        }
        self.object(source).file(&self.dir)
    }
}

/// Whether the file system of a directory can share blocks: a file without a name and without bytes
/// is to share them with itself.
fn can_share(dir: &Path) -> Result<bool, ObjectError> {
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    let file = match open(dir, flags, Mode::RUSR | Mode::WUSR) {
        Ok(file) => File::from(file),
        // Those that share have such files.
        Err(Errno::OPNOTSUPP | Errno::ISDIR) => return Ok(false),
        Err(e) => return Err(io("look whether blocks can be shared")(e)),
    };
    match weft_io::share_range(&file, 0, 0, &file, 0).map_err(not_shared) {
        Err(ObjectError::Unsupported { .. }) => Ok(false),
        Ok(()) | Err(ObjectError::Unaligned) => Ok(true),
        Err(e) => Err(e),
    }
}

/// Why blocks were not shared.
fn not_shared(error: std::io::Error) -> ObjectError {
    match errno(&error) {
        // An ioctl that the file system does not know.
        Errno::NOTTY | Errno::XDEV => ObjectError::Unsupported { doing: "share blocks" },
        Errno::INVAL => ObjectError::Unaligned,
        _ => io("share blocks")(error),
    }
}

struct Copying<'a> {
    from: Option<&'a File>,
    to: &'a File,
}

impl Copying<'_> {
    /// Hole by hole and data by data.
    fn run(&self, range: CopyRange) -> Result<(), ObjectError> {
        let end = range.from + range.len;
        let place = |at: u64| at - range.from + range.to;
        let mut at = range.from;
        while at < end {
            let data = match self.from {
                Some(from) => next_data(from, at)?.map_or(end, |data| data.min(end)),
                None => end,
            };
            self.hole(place(at), data - at)?;
            at = data;
            if let Some(from) = self.from.filter(|_| at < end) {
                // At least a byte, also if a hole was made there since.
                let until = next_hole(from, at)?.clamp(at + 1, end);
                self.data(from, at, place(at), until - at)?;
                at = until;
            }
        }
        Ok(())
    }

    /// Shares the blocks of the first `data` bytes, behind which the source ends, if there are any.
    fn share(&self, range: CopyRange, data: u64) -> Result<(), ObjectError> {
        let to = self.to.metadata().map_err(io("stat an object"))?;
        // Part of a block is shared only where both files end.
        let blocks = match range.to + data < to.size() {
            true => data - data % to.blksize().max(1),
            false => data,
        };
        // No bytes would mean all to the end.
        if let Some(from) = self.from.filter(|_| blocks > 0) {
            weft_io::share_range(from, range.from, blocks, self.to, range.to)
                .map_err(not_shared)?;
        }
        let CopyRange { from, to, len } = range;
        self.run(CopyRange { from: from + blocks, to: to + blocks, len: len - blocks })
    }

    /// Nothing has to be removed behind the destination's end.
    fn hole(&self, at: u64, len: u64) -> Result<(), ObjectError> {
        let size = self.to.metadata().map_err(io("stat an object"))?.len();
        punch_hole(self.to, at, len.min(size.saturating_sub(at)))
    }

    fn data(&self, from: &File, at: u64, to: u64, len: u64) -> Result<(), ObjectError> {
        let (mut at, mut to, mut left) = (at, to, len);
        while left > 0 {
            let want = usize::try_from(left).unwrap_or(usize::MAX);
            let done = copy_file_range(from, Some(&mut at), self.to, Some(&mut to), want);
            match done.map_err(io("copy an object"))? as u64 {
                // The source was cut meanwhile: the rest is a hole.
                0 => return self.hole(to, left),
                n => left = left.saturating_sub(n),
            }
        }
        Ok(())
    }
}
