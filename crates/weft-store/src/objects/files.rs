//! How the files and directories of a store are made, opened and replaced.

use std::{
    fs::{File, OpenOptions},
    os::unix::fs::OpenOptionsExt,
    path::Path,
};

use rustix::fs::OFlags;
use weft_io::durable;

use super::error::{ObjectError, io};
use crate::make_dir;

/// Other users of the machine have no business with objects, nor with the directories of them.
const FILE_MODE: u32 = 0o600;

/// What `statfs` says of ext2, ext3 and ext4 (statfs(2)).
pub(super) const EXT4_SUPER_MAGIC: u64 = 0xef53;
/// What it says of XFS.
pub(super) const XFS_SUPER_MAGIC: u64 = 0x5846_5342;

/// The kind of file system of a directory, as `statfs` says it.
pub(super) fn file_system(dir: &Path) -> std::io::Result<u64> {
    Ok(u64::try_from(rustix::fs::statfs(dir)?.f_type).unwrap_or(0))
}

/// Replaces a small file of the store at once and durably: whoever looks sees old or new.
pub(super) fn replace_file(
    root: &Path,
    name: &str,
    fill: impl FnOnce(&mut File) -> std::io::Result<()>,
) -> Result<File, ObjectError> {
    durable::replace_file(&root.join(name), FILE_MODE, fill)
        .map_err(io("replace a file of the store"))
}

/// Opens a file to read and write it.
pub(super) fn open_rw(path: &Path, create: bool) -> std::io::Result<File> {
    OpenOptions::new().read(true).write(true).create(create).mode(FILE_MODE).open(path)
}

/// Opens a file that is there to read and write it past the page cache.
pub(super) fn open_past_cache(path: &Path) -> std::io::Result<File> {
    let direct = i32::try_from(OFlags::DIRECT.bits()).map_err(std::io::Error::other)?;
    OpenOptions::new().read(true).write(true).custom_flags(direct).open(path)
}

/// Opens a file that is there to read it, and for nothing else.
pub(super) fn open_read_only(path: &Path) -> std::io::Result<File> {
    let no_link = i32::try_from(OFlags::NOFOLLOW.bits()).map_err(std::io::Error::other)?;
    OpenOptions::new().read(true).custom_flags(no_link).open(path)
}

/// Makes the names in a directory durable.
pub(super) fn sync_dir(path: &Path) -> Result<(), ObjectError> {
    durable::sync_dir(path).map_err(io("sync a directory"))
}

/// Makes a directory unless it is there.
pub(super) fn make_dir(path: &Path) -> Result<(), ObjectError> {
    make_dir::make_dir(path, make_dir::PRIVATE).map_err(io("make a directory"))
}
