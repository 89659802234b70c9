//! Where a file from the server goes on this machine.

use std::{
    ffi::{OsStr, OsString},
    fs::{self, Permissions},
    io,
    os::unix::{
        ffi::OsStrExt,
        fs::{MetadataExt, OpenOptionsExt, PermissionsExt, fchown},
    },
    path::{Path, PathBuf},
    sync::Arc,
};

use super::{
    naming::Naming,
    replacing::{are_digits, digits, kept, require_writable},
};
use crate::{error::ClientError, random::random};

/// Between the name of the file and the number of who writes it.
const MARK: &str = ".weft-";

/// What a file from the server becomes.
pub(super) enum Landing {
    /// A regular file that appears when it is complete.
    File(Wanted),
    /// What is there is no regular file: bytes are written into it.
    Special,
}

/// A regular file to be.
pub(super) struct Wanted {
    /// Its name, behind all links.
    path: PathBuf,
    /// Of the file that is there.
    old: Option<Box<fs::Metadata>>,
    /// Nothing can have been left beside it.
    is_new: bool,
}

impl Landing {
    /// Where a file goes whose name came about so: below a name that was given, nothing is
    /// followed.
    ///
    /// # Errors
    /// As [`Landing::of`].
    pub(super) fn named(local: &Path, naming: Naming) -> Result<Landing, ClientError> {
        let is_link = || fs::symlink_metadata(local).is_ok_and(|m| m.is_symlink());
        match naming {
            Naming::Given => Landing::of(local),
            Naming::Listed if !is_link() => match Landing::of(local)? {
                // A link that has come meanwhile is replaced.
                Landing::File(wanted) => {
                    Ok(Landing::File(Wanted { path: local.to_path_buf(), ..wanted }))
                }
                Landing::Special => Err(ClientError::Invalid("is not a regular file")),
            },
            Naming::Listed | Naming::New => {
                let is_new = naming == Naming::New;
                Ok(Landing::File(Wanted { path: local.to_path_buf(), old: None, is_new }))
            }
        }
    }

    /// Looks at what is there, through links.
    ///
    /// # Errors
    /// It may not be written, or is a directory, or a link that leads nowhere.
    pub(super) fn of(local: &Path) -> Result<Landing, ClientError> {
        let metadata = match fs::metadata(local) {
            Ok(metadata) => metadata,
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                if fs::symlink_metadata(local).is_ok() {
                    return Err(ClientError::Invalid("is a symbolic link that leads nowhere"));
                }
                return Ok(Landing::File(Wanted::at(local.to_path_buf(), None)));
            }
            Err(e) => return Err(e.into()),
        };
        if metadata.is_dir() {
            return Err(ClientError::Invalid("is a directory"));
        }
        if !metadata.is_file() {
            return Ok(Landing::Special);
        }
        require_writable(metadata.mode())?;
        // Whether we may write to it, as `cp` would.
        fs::OpenOptions::new().write(true).open(local)?;
        let path = fs::canonicalize(local)?;
        Ok(Landing::File(Wanted::at(path, Some(Box::new(metadata)))))
    }
}

impl Wanted {
    fn at(path: PathBuf, old: Option<Box<fs::Metadata>>) -> Wanted {
        Wanted { path, old, is_new: false }
    }
}

/// A local file under a temporary name, removed unless finished. It is locked for as long as
/// somebody writes it: what is not was left by a process that was killed.
pub(super) struct Partial {
    pub(super) file: Arc<fs::File>,
    temporary: PathBuf,
    wanted: PathBuf,
    finished: bool,
}

impl Partial {
    /// Makes it, and removes what others have left of the same file. The mode is that of the
    /// server's file less the umask; one that is there keeps its own, and its owner if we are the
    /// superuser.
    pub(super) fn create(wanted: &Wanted, mode: u32) -> Result<Partial, ClientError> {
        let path = &wanted.path;
        let name = path.file_name().ok_or(ClientError::Invalid("not a file name"))?;
        if !wanted.is_new {
            remove_left(path, name);
        }
        // The kernel takes the umask away.
        let at_first = if wanted.old.is_some() { 0o600 } else { mode & 0o777 | 0o600 };
        let (file, temporary, made) = loop {
            let temporary = path.with_file_name(temporary(name, u64::from_be_bytes(random()?)));
            let mut options = fs::OpenOptions::new();
            let file = options.write(true).create_new(true).mode(at_first).open(&temporary)?;
            file.try_lock().map_err(io::Error::from)?;
            // Somebody may have taken it for left before it was locked.
            let made = file.metadata()?;
            if made.nlink() > 0 {
                break (file, temporary, made);
            }
        };
        let partial =
            Partial { file: Arc::new(file), temporary, wanted: path.clone(), finished: false };
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

    /// Gives it its own name.
    pub(super) fn finish(mut self, size: u64) -> io::Result<()> {
        // Holes at the end were never written.
        self.file.set_len(size)?;
        fs::rename(&self.temporary, &self.wanted)?;
        self.finished = true;
        Ok(())
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        if !self.finished {
            let _ = fs::remove_file(&self.temporary);
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

/// Removes the temporary files of this one that nobody writes any more. What cannot be seen or
/// removed stays.
fn remove_left(path: &Path, name: &OsStr) {
    let dir = path.parent().filter(|d| !d.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let Ok(entries) = fs::read_dir(dir) else { return };
    for entry in entries.flatten().filter(|e| is_temporary(&e.file_name(), name)) {
        let is_file = entry.file_type().is_ok_and(|kind| kind.is_file());
        let Ok(file) = fs::OpenOptions::new().write(true).open(entry.path()) else { continue };
        if is_file && file.try_lock().is_ok() {
            let _ = fs::remove_file(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(path: &Path) -> Wanted {
        match Landing::of(path).unwrap() {
            Landing::File(wanted) => wanted,
            Landing::Special => panic!("{} is special", path.display()),
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
            let temporary = left.temporary.clone();
            left.file.unlock().unwrap();
            std::mem::forget(left);
            Partial::create(&wanted(&path), 0o644).unwrap().finish(0).unwrap();
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
        assert!(live.temporary.exists() && next.temporary.exists());
        next.finish(3).unwrap();
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
        Partial::create(&wanted(&at("link")), 0o644).unwrap().finish(0).unwrap();
        assert!(fs::symlink_metadata(at("link")).unwrap().is_symlink());
        assert_eq!(fs::read(at("f")).unwrap(), b"");
        assert_eq!(fs::metadata(at("f")).unwrap().mode() & 0o7777, 0o600);
        fs::set_permissions(at("f"), Permissions::from_mode(0o444)).unwrap();
        std::os::unix::fs::symlink("nowhere", at("dangling")).unwrap();
        for name in ["f", "link", "dangling", "."] {
            assert!(Landing::of(&at(name)).is_err(), "{name}");
        }
        assert!(matches!(Landing::of(Path::new("/dev/null")), Ok(Landing::Special)));
    }
}
