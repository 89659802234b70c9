//! The reserve's directory.

use std::{fs, io, path::Path};

/// Makes it unless it is there.
pub(super) fn make_dir(own: &Path) -> io::Result<()> {
    match fs::create_dir(own) {
        Err(e) if e.kind() != io::ErrorKind::AlreadyExists => Err(e),
        _ => Ok(()),
    }
}
