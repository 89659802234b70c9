//! Blocks behind the end of fjall's journal, which makes its files long but not allocated.

use std::{
    fs::{self, File, OpenOptions},
    io,
    path::{Path, PathBuf},
};

use rustix::{
    fs::{FallocateFlags, SeekFrom, fallocate, seek},
    io::Errno,
};

/// How the names of journals end, behind a number.
const SUFFIX: &str = ".jnl";

/// Allocates so many bytes behind what is written of the newest journal in a directory of fjall's.
/// Neither its bytes nor its length change.
///
/// # Errors
/// What the disk says; some may be allocated.
pub(super) fn allocate(directory: &Path, ahead: u64) -> io::Result<()> {
    let Some(path) = newest(directory)? else { return Ok(()) };
    let file = OpenOptions::new().write(true).open(path)?;
    let end = written(&file)?;
    Ok(fallocate(&file, FallocateFlags::KEEP_SIZE, end, ahead)?)
}

/// Where what is written ends: what is allocated only, or not at all, is a hole.
fn written(file: &File) -> io::Result<u64> {
    match seek(file, SeekFrom::Hole(0)) {
        Ok(at) => Ok(at),
        Err(Errno::NXIO) => Ok(0),
        Err(e) => Err(e.into()),
    }
}

fn newest(directory: &Path) -> io::Result<Option<PathBuf>> {
    let mut newest = None;
    for entry in fs::read_dir(directory)? {
        let name = entry?.file_name();
        let number = name.to_str().and_then(|n| n.strip_suffix(SUFFIX)?.parse::<u64>().ok());
        newest = newest.max(number);
    }
    Ok(newest.map(|number| directory.join(format!("{number}{SUFFIX}"))))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    /// The newest journal, by its number, gets room behind its last byte; it reads as before.
    #[test]
    fn the_newest_journal_gets_room() {
        let dir = tempfile::tempdir().unwrap();
        allocate(dir.path(), 1 << 20).unwrap();
        for (name, len) in [("9.jnl", 100_000), ("10.jnl", 300_000), ("notes", 1)] {
            fs::write(dir.path().join(name), vec![7; len]).unwrap();
        }
        let newest = OpenOptions::new().write(true).open(dir.path().join("10.jnl")).unwrap();
        newest.set_len(64 << 20).unwrap();
        allocate(dir.path(), 1 << 20).unwrap();
        let blocks = |name| fs::metadata(dir.path().join(name)).unwrap().blocks() * 512;
        assert!(blocks("10.jnl") >= 300_000 + (1 << 20), "{}", blocks("10.jnl"));
        assert!(blocks("9.jnl") < 1 << 20);
        assert_eq!(newest.metadata().unwrap().len(), 64 << 20);
        let bytes = fs::read(dir.path().join("10.jnl")).unwrap();
        assert!(bytes[..300_000].iter().all(|b| *b == 7));
        assert!(bytes[300_000..].iter().all(|b| *b == 0));
    }
}
