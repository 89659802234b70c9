//! Directories that a store makes for itself.

use std::{
    fs::DirBuilder,
    io::{self, ErrorKind},
    os::unix::fs::DirBuilderExt,
    path::Path,
};

/// Permission bits of a directory that is nobody else's business.
pub(crate) const PRIVATE: u32 = 0o700;
/// Permission bits of a directory whose owner's umask says who may look.
pub(crate) const BY_UMASK: u32 = 0o777;

/// Makes a directory with these permission bits unless it is there.
pub(crate) fn make_dir(path: &Path, mode: u32) -> io::Result<()> {
    match DirBuilder::new().mode(mode).create(path) {
        Err(e) if e.kind() != ErrorKind::AlreadyExists => Err(e),
        _ => Ok(()),
    }
}
