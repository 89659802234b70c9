//! Copying between two objects of the store without the bytes leaving the kernel
//! (`copy_file_range`): holes stay holes, and a file system that can share blocks shares them.

use std::fs::File;

use rustix::fs::copy_file_range;

use super::{
    OBJECT_BYTES_MAX, ObjectError, ObjectId, ObjectStore, REMOVED, WriteVerifier,
    error::io,
    holes::{next_data, next_hole, punch_hole},
};

/// A range of one object and its place in another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CopyRange {
    /// First byte in the source.
    pub from: u64,
    /// First byte in the destination.
    pub to: u64,
    /// Bytes.
    pub len: u64,
}

impl ObjectStore {
    /// Copies a range of one object to another, unstable until [`Self::commit`], and returns the
    /// verifier that was valid when it began. Where the source has a hole, or ends, the
    /// destination gets one.
    ///
    /// **Cost**: holds the destination's gate all the while: a fence waits for it.
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
        let ends = [range.from, range.to].map(|at| at.checked_add(range.len));
        if ends.iter().any(|end| end.is_none_or(|end| end > OBJECT_BYTES_MAX)) {
            return Err(ObjectError::TooBig);
        }
        if self.epoch(source) == REMOVED {
            return Err(ObjectError::Stale { current: REMOVED });
        }
        let from = self.object(source).file(&self.home)?;
        let object = self.object(destination);
        let gate = object.gate_shared();
        gate.admit(epoch)?;
        let verifier = self.write_verifier();
        let has_data = match &from {
            Some(from) => next_data(from, range.from)?.is_some_and(|d| d < range.from + range.len),
            None => false,
        };
        let to = match has_data {
            true => Some(object.file_or_create(&self.home)?),
            false => object.file(&self.home)?,
        };
        let Some(to) = to else { return Ok(verifier) };
        let copied = Copying { from: from.as_deref(), to: &to }.run(range);
        object.wrote();
        drop(gate);
        if let Err(e @ ObjectError::Io { .. }) = &copied {
            self.doubt(destination, e);
        }
        copied.map(|()| verifier)
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
