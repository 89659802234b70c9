//! One open file that may have holes, as the file system below knows it (`lseek`, `fallocate`).

use std::fs::File;

use rustix::{
    fs::{FallocateFlags, SeekFrom, fallocate, seek},
    io::Errno,
};

use super::error::{ObjectError, io};

/// The last byte a local file can have (`off_t`).
pub(super) const OBJECT_BYTES_MAX: u64 = i64::MAX as u64;

/// Makes a hole of a range, as far as the file reaches or the file system's files can.
pub(super) fn punch_hole(file: &File, offset: u64, len: u64) -> Result<(), ObjectError> {
    let mode = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    let failed = || io("make a hole in an object");
    let len = len.min(OBJECT_BYTES_MAX.saturating_sub(offset));
    let punched = if len == 0 { Ok(()) } else { fallocate(file, mode, offset, len) };
    if punched != Err(Errno::FBIG) {
        return punched.map_err(failed());
    }
    // The file system's files end before the range does: up to the file's own end, then.
    let size = file.metadata().map_err(io("stat an object"))?.len();
    match size.saturating_sub(offset).min(len) {
        0 => Ok(()),
        len => fallocate(file, mode, offset, len).map_err(failed()),
    }
}

/// Sets a file's length. One that the file system's files cannot have is no length to fail for:
/// whatever would lie between is a hole.
pub(super) fn set_len(file: &File, size: u64) -> Result<(), ObjectError> {
    match file.set_len(size).map_err(io("truncate an object")) {
        // What was in use lies before the end that such a file has.
        Err(ObjectError::TooBig) => Ok(()),
        done => done,
    }
}

/// The first byte of data at or after an offset; `None` if there is none.
pub(super) fn next_data(file: &File, offset: u64) -> Result<Option<u64>, ObjectError> {
    match seek(file, SeekFrom::Data(offset)) {
        Ok(at) => Ok(Some(at)),
        Err(Errno::NXIO) => Ok(None),
        Err(e) => Err(io("look for data in an object")(e)),
    }
}

/// The first byte of a hole at or after an offset; behind the end there is nothing else.
pub(super) fn next_hole(file: &File, offset: u64) -> Result<u64, ObjectError> {
    match seek(file, SeekFrom::Hole(offset)) {
        Ok(at) => Ok(at),
        Err(Errno::NXIO) => Ok(offset),
        Err(e) => Err(io("look for a hole in an object")(e)),
    }
}
