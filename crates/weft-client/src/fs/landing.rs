//! Local side of a download: the file under its temporary name, and the name it gets.

use std::{
    ffi::{OsStr, OsString},
    fs::{self, Permissions},
    io,
    os::unix::{
        ffi::OsStrExt,
        fs::{MetadataExt, PermissionsExt, fchown},
    },
    path::Path,
    sync::Arc,
};

use rustix::fs::{FileType, Mode, OFlags, Stat};
use weft_io::{FileId, LocalDir};

use super::{
    naming::Naming,
    replacing::{are_digits, digits, kept, require_writable},
};
use crate::{error::ClientError, random::random};

/// Between the name of the file and the number of who writes it.
const MARK: &str = ".weft-";
/// Why a download ends that another user's process races with.
const EXCHANGED: ClientError =
    ClientError::Invalid("was exchanged for something else while it was opened: try again");
const IS_DIRECTORY: ClientError = ClientError::Invalid("is a directory");

/// Result of a look at the place of a file from the server.
pub(super) enum Landing {
    /// A regular file that appears when it is complete.
    File(Wanted),
    /// A device or fifo that was named: bytes are written into it.
    Special(FileId),
}

/// A regular file to be.
pub(super) struct Wanted {
    dir: Arc<LocalDir>,
    /// Its name there, behind all links.
    name: OsString,
    /// Of the file that is there.
    old: Option<Box<fs::Metadata>>,
    /// Nothing can have been left beside it.
    is_new: bool,
}

impl Landing {
    /// Looks at a path that the user named, through links.
    ///
    /// # Errors
    /// The file may not be written, or the path is a directory's, or a link leads nowhere.
    pub(super) fn of(path: &Path) -> Result<Landing, ClientError> {
        // A descriptor of this kind has no effect on devices and waits for nobody.
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let found = match rustix::fs::open(path, flags, Mode::empty()) {
            Ok(found) => rustix::fs::fstat(&found).map_err(io::Error::from)?,
            Err(rustix::io::Errno::NOENT) => {
                if fs::symlink_metadata(path).is_ok() {
                    return Err(ClientError::Invalid("is a symbolic link that leads nowhere"));
                }
                let (dir, name) = LocalDir::of_entry(path)?;
                return Ok(Landing::File(Wanted::at((Arc::new(dir), name), None)));
            }
            Err(e) => return Err(io::Error::from(e).into()),
        };
        match FileType::from_raw_mode(found.st_mode) {
            FileType::RegularFile => {}
            FileType::Directory => return Err(IS_DIRECTORY),
            _ => return Ok(Landing::Special(FileId::of(&found))),
        }
        let path = fs::canonicalize(path)?;
        let (dir, name) = LocalDir::of_entry(&path)?;
        let old = old_file(&dir, name, &found)?;
        Ok(Landing::File(Wanted::at((Arc::new(dir), name), Some(old))))
    }
}

impl Wanted {
    fn at((dir, name): (Arc<LocalDir>, &OsStr), old: Option<Box<fs::Metadata>>) -> Wanted {
        Wanted { dir, name: name.to_owned(), old, is_new: false }
    }

    /// Looks at an entry of a directory that nobody named. A link is replaced.
    ///
    /// # Errors
    /// The file may not be written, or the entry is no file.
    pub(super) fn entry(
        dir: Arc<LocalDir>,
        name: &OsStr,
        naming: Naming,
    ) -> Result<Wanted, ClientError> {
        if naming == Naming::New {
            return Ok(Wanted { is_new: true, ..Wanted::at((dir, name), None) });
        }
        let Some(found) = dir.look(name)? else { return Ok(Wanted::at((dir, name), None)) };
        let old = match FileType::from_raw_mode(found.st_mode) {
            FileType::RegularFile => Some(old_file(&dir, name, &found)?),
            FileType::Symlink => None,
            FileType::Directory => return Err(IS_DIRECTORY),
            _ => return Err(ClientError::Invalid("is not a regular file")),
        };
        Ok(Wanted::at((dir, name), old))
    }
}

/// Opens the file that is to be replaced, to learn whether we may write to it, as `cp` would.
fn old_file(dir: &LocalDir, name: &OsStr, seen: &Stat) -> Result<Box<fs::Metadata>, ClientError> {
    require_writable(seen.st_mode)?;
    let old = dir.open_to_write(name)?;
    let is_it = FileId::of(&rustix::fs::fstat(&old).map_err(io::Error::from)?) == FileId::of(seen);
    if is_it { Ok(Box::new(old.metadata()?)) } else { Err(EXCHANGED) }
}

/// Opens a device or fifo that was named, and nothing that has its name meanwhile. Opening a fifo
/// waits for its reader: this belongs on the blocking pool.
pub(super) fn open_special(path: &Path, seen: FileId) -> Result<fs::File, ClientError> {
    let file = fs::OpenOptions::new().write(true).open(path)?;
    let opened = rustix::fs::fstat(&file).map_err(io::Error::from)?;
    if FileId::of(&opened) == seen { Ok(file) } else { Err(EXCHANGED) }
}

/// A local file under a temporary name, removed unless finished. It is locked for as long as
/// somebody writes it: one without a lock was left by a process that was killed.
pub(super) struct Partial {
    pub(super) file: Arc<fs::File>,
    dir: Arc<LocalDir>,
    temporary: OsString,
    wanted: OsString,
    finished: bool,
}

impl Partial {
    /// Makes the file, and removes leftovers of earlier downloads of the same file. The mode is
    /// that of the server's file less the umask; a file that is there keeps its own, and its owner
    /// if we are the superuser.
    pub(super) fn create(wanted: &Wanted, mode: u32) -> Result<Partial, ClientError> {
        let Wanted { dir, name, .. } = wanted;
        if !wanted.is_new {
            remove_left(dir, name);
        }
        // The kernel takes the umask away.
        let at_first = if wanted.old.is_some() { 0o600 } else { mode & 0o777 | 0o600 };
        let (file, temporary, made) = loop {
            let temporary = temporary(name, u64::from_be_bytes(random()?));
            let file = dir.create_file(&temporary, at_first)?;
            file.try_lock().map_err(io::Error::from)?;
            // Somebody may have taken it for left before it was locked.
            let made = file.metadata()?;
            if made.nlink() > 0 {
                break (file, temporary, made);
            }
        };
        let (dir, name) = (dir.clone(), name.clone());
        let file = Arc::new(file);
        let partial = Partial { file, dir, temporary, wanted: name, finished: false };
        let mut mode = mode & made.mode();
        if let Some(old) = &wanted.old {
            mode = old.mode() & 0o1777;
            if rustix::process::geteuid().is_root() {
                fchown(&*partial.file, Some(old.uid()), Some(old.gid()))?;
            }
        }
        partial.file.set_permissions(Permissions::from_mode(mode))?;
        Ok(partial)
    }

    /// Gives the file its own name, after `finally` had the whole of it.
    pub(super) fn finish(
        mut self,
        size: u64,
        finally: Option<impl FnOnce(&fs::File)>,
    ) -> io::Result<()> {
        // Holes at the end were never written.
        self.file.set_len(size)?;
        if let Some(finally) = finally {
            finally(&self.file);
        }
        self.dir.rename(&self.temporary, &self.wanted)?;
        self.finished = true;
        Ok(())
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        if !self.finished {
            let _ = self.dir.remove(&self.temporary);
        }
    }
}

fn temporary(name: &OsStr, number: u64) -> OsString {
    let mut hidden = OsString::from(".");
    hidden.push(OsStr::from_bytes(kept(name.as_bytes(), MARK)));
    hidden.push(MARK);
    hidden.push(digits(number));
    hidden
}

fn is_temporary(found: &OsStr, name: &OsStr) -> bool {
    let number = found
        .as_bytes()
        .strip_prefix(b".")
        .and_then(|rest| rest.strip_prefix(kept(name.as_bytes(), MARK)))
        .and_then(|rest| rest.strip_prefix(MARK.as_bytes()));
    number.is_some_and(are_digits)
}

/// Removes the temporary files of this one that no process writes. An entry that cannot be opened
/// or removed, or is no regular file, stays.
fn remove_left(dir: &LocalDir, name: &OsStr) {
    let Ok(entries) = dir.names() else { return };
    for entry in entries.flatten().filter(|entry| is_temporary(entry, name)) {
        let Ok(file) = dir.open_to_write(&entry) else { continue };
        if file.try_lock().is_ok() {
            let _ = dir.remove(&entry);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOTHING: Option<fn(&fs::File)> = None;

    fn wanted(path: &Path) -> Wanted {
        match Landing::of(path).unwrap() {
            Landing::File(wanted) => wanted,
            Landing::Special(_) => panic!("{} is special", path.display()),
        }
    }

    /// The longest name that a file system has is no longer under its temporary name, and what was
    /// left of it is found again.
    #[test]
    fn long_names() {
        let dir = tempfile::tempdir().unwrap();
        for length in [230, 233, 234, 255] {
            let path = dir.path().join("n".repeat(length));
            let left = Partial::create(&wanted(&path), 0o644).unwrap();
            let temporary = dir.path().join(&left.temporary);
            left.file.unlock().unwrap();
            std::mem::forget(left);
            Partial::create(&wanted(&path), 0o644).unwrap().finish(0, NOTHING).unwrap();
            assert!(path.exists() && !temporary.exists(), "{length}");
        }
    }

    /// What a dead process has left goes with the next transfer of the same file; what a live one
    /// writes, and what only looks alike, stays.
    #[test]
    fn what_the_dead_have_left_is_removed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        let live = Partial::create(&wanted(&path), 0o640).unwrap();
        for name in [".f.weft-0123456789abcdef", ".g.weft-0123456789abcdef", ".f.weft-0123"] {
            fs::write(dir.path().join(name), b"left").unwrap();
        }
        let next = Partial::create(&wanted(&path), 0o640).unwrap();
        assert!(!dir.path().join(".f.weft-0123456789abcdef").exists());
        assert!(dir.path().join(".g.weft-0123456789abcdef").exists());
        assert!(dir.path().join(".f.weft-0123").exists());
        for partial in [&live, &next] {
            assert!(dir.path().join(&partial.temporary).exists());
        }
        next.finish(3, NOTHING).unwrap();
        drop(live);
        let mut left: Vec<_> =
            fs::read_dir(dir.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, [".f.weft-0123", ".g.weft-0123456789abcdef", "f"]);
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, 0o640);
    }

    /// A file that is replaced keeps its mode and stays behind its links; one that nobody may
    /// write, a directory and a link to nothing are refused; what is no regular file is special.
    #[test]
    fn what_is_there_decides() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::write(at("f"), b"old").unwrap();
        fs::set_permissions(at("f"), Permissions::from_mode(0o600)).unwrap();
        std::os::unix::fs::symlink("f", at("link")).unwrap();
        Partial::create(&wanted(&at("link")), 0o644).unwrap().finish(0, NOTHING).unwrap();
        assert!(fs::symlink_metadata(at("link")).unwrap().is_symlink());
        assert_eq!(fs::read(at("f")).unwrap(), b"");
        assert_eq!(fs::metadata(at("f")).unwrap().mode() & 0o7777, 0o600);
        fs::set_permissions(at("f"), Permissions::from_mode(0o444)).unwrap();
        std::os::unix::fs::symlink("nowhere", at("dangling")).unwrap();
        for name in ["f", "link", "dangling", "."] {
            assert!(Landing::of(&at(name)).is_err(), "{name}");
        }
        assert!(matches!(Landing::of(Path::new("/dev/null")), Ok(Landing::Special(_))));
    }
    /// Fifos and links under temporary names neither stop a download nor are removed.
    #[test]
    fn planted_leftovers_stay() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        let (fifo, link) = (at(".f.weft-0123456789abcdef"), at(".f.weft-0123456789abcdee"));
        let mode = Mode::from_raw_mode(0o600);
        rustix::fs::mknodat(rustix::fs::CWD, &fifo, FileType::Fifo, mode, 0).unwrap();
        fs::write(at("outside"), b"mine").unwrap();
        std::os::unix::fs::symlink("outside", &link).unwrap();
        Partial::create(&wanted(&at("f")), 0o644).unwrap().finish(0, NOTHING).unwrap();
        assert!(fs::symlink_metadata(fifo).is_ok() && fs::symlink_metadata(link).is_ok());
        assert_eq!(fs::read(at("outside")).unwrap(), b"mine");
    }

    /// An entry that nobody named is not followed: a link is replaced, a fifo refused.
    #[test]
    fn entries_are_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        let open = Arc::new(LocalDir::open(dir.path()).unwrap());
        let mode = Mode::from_raw_mode(0o600);
        rustix::fs::mknodat(rustix::fs::CWD, at("fifo"), FileType::Fifo, mode, 0).unwrap();
        fs::create_dir(at("dir")).unwrap();
        fs::write(at("outside"), b"mine").unwrap();
        std::os::unix::fs::symlink("outside", at("link")).unwrap();
        for name in ["fifo", "dir"] {
            assert!(Wanted::entry(open.clone(), name.as_ref(), Naming::Listed).is_err(), "{name}");
        }
        let wanted = Wanted::entry(open, "link".as_ref(), Naming::Listed).unwrap();
        Partial::create(&wanted, 0o644).unwrap().finish(0, NOTHING).unwrap();
        assert!(fs::symlink_metadata(at("link")).unwrap().is_file());
        assert_eq!(fs::read(at("outside")).unwrap(), b"mine");
    }

    /// A device or fifo is written to only if it is still the one that was looked at.
    #[test]
    fn special_files_are_not_exchanged() {
        let id = |path: &str| FileId::of(&rustix::fs::stat(path).unwrap());
        let null = Path::new("/dev/null");
        assert!(open_special(null, id("/dev/null")).is_ok());
        assert!(open_special(null, id("/dev/zero")).is_err());
    }
}
