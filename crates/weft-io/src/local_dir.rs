//! An open directory of this machine whose entries are reached through its descriptor.
//!
//! The owner of a directory may exchange its entries at any time. A program of root that reaches
//! them by path can then be led elsewhere: it would write, give away or remove files that the owner
//! of the directory may not touch. [`LocalDir`] never follows a symbolic link at an entry and opens
//! no fifo or device.

use std::{
    ffi::{OsStr, OsString},
    fs::File,
    io::{self, ErrorKind},
    os::unix::ffi::{OsStrExt, OsStringExt},
    path::{Path, PathBuf},
};

use rustix::{
    fd::OwnedFd,
    fs::{AtFlags, CWD, Dir, FileType, Gid, Mode, OFlags, Stat, Timestamps, Uid},
    io::Errno,
};

/// Flags of every call that opens something.
const ALWAYS: OFlags = OFlags::CLOEXEC.union(OFlags::NOCTTY);
/// Flags that open an entry of another user's directory: neither through a link, nor waiting for
/// the other end of a fifo.
const WARY: OFlags = ALWAYS.union(OFlags::NOFOLLOW).union(OFlags::NONBLOCK);

/// An open directory. Names are those of its entries: one component, neither `.` nor `..`.
#[derive(Debug)]
pub struct LocalDir {
    fd: OwnedFd,
}

/// The device and the number of a file or directory, which tell it from all others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileId {
    device: u64,
    inode: u64,
}

impl FileId {
    /// The identity of the file that was looked at.
    pub fn of(stat: &Stat) -> FileId {
        FileId { device: stat.st_dev, inode: stat.st_ino }
    }
}

impl LocalDir {
    /// Opens a directory that the user named. Links on the way and at the end are followed.
    ///
    /// # Errors
    /// The system's errors; `NotADirectory` if the path leads to something else.
    pub fn open(path: &Path) -> io::Result<LocalDir> {
        let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        open_dir(|flags| rustix::fs::openat(CWD, path, flags | ALWAYS, Mode::empty()))
    }

    /// Opens the directory that has a path as an entry, and splits off the entry's name.
    ///
    /// # Errors
    /// As [`LocalDir::open`]; `InvalidInput` if the path ends with `/`, `.` or `..`.
    pub fn of_entry(path: &Path) -> io::Result<(LocalDir, &OsStr)> {
        let name = path.file_name().filter(|name| {
            // `file_name` looks past a slash or a point at the end.
            path.as_os_str().as_bytes().ends_with(name.as_bytes())
        });
        let name = name.ok_or_else(|| invalid("not the name of a file"))?;
        Ok((LocalDir::open(path.parent().unwrap_or(Path::new("")))?, name))
    }

    /// Opens a directory in this one.
    ///
    /// # Errors
    /// The system's errors; `NotADirectory` if the name is a link or a file.
    pub fn open_dir(&self, name: &OsStr) -> io::Result<LocalDir> {
        let name = entry(name)?;
        open_dir(|flags| rustix::fs::openat(&self.fd, name, flags | WARY, Mode::empty()))
    }

    /// Opens a regular file for reading.
    ///
    /// # Errors
    /// The system's errors; `InvalidInput` if the name is not that of a regular file.
    pub fn open_file(&self, name: &OsStr) -> io::Result<File> {
        self.open_regular(name, OFlags::RDONLY, Mode::empty())
    }

    /// Opens a regular file for writing. Its content stays.
    ///
    /// # Errors
    /// As [`LocalDir::open_file`].
    pub fn open_to_write(&self, name: &OsStr) -> io::Result<File> {
        self.open_regular(name, OFlags::WRONLY, Mode::empty())
    }

    /// Opens a regular file for appending, or makes it with this mode less the umask.
    ///
    /// # Errors
    /// As [`LocalDir::open_file`].
    pub fn open_to_append(&self, name: &OsStr, mode: u32) -> io::Result<File> {
        let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE;
        self.open_regular(name, flags, Mode::from_raw_mode(mode))
    }

    fn open_regular(&self, name: &OsStr, flags: OFlags, mode: Mode) -> io::Result<File> {
        // Opening a device may already do something.
        if let Some(found) = self.look(name)? {
            require_regular(&found)?;
        }
        let opened = rustix::fs::openat(&self.fd, entry(name)?, flags | WARY, mode);
        let opened = opened.map_err(|e| match e {
            Errno::LOOP => invalid(IS_LINK),
            // A fifo that nobody reads.
            Errno::NXIO => invalid(NOT_REGULAR),
            e => e.into(),
        })?;
        require_regular(&rustix::fs::fstat(&opened)?)?;
        Ok(opened.into())
    }

    /// Makes a file with this mode less the umask and opens it for writing.
    ///
    /// # Errors
    /// The system's errors; `AlreadyExists` if the name is taken, by a link too.
    pub fn create_file(&self, name: &OsStr, mode: u32) -> io::Result<File> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | WARY;
        let mode = Mode::from_raw_mode(mode);
        let made = rustix::fs::openat(&self.fd, entry(name)?, flags - OFlags::NONBLOCK, mode)?;
        Ok(made.into())
    }

    /// Makes a directory with this mode less the umask.
    ///
    /// # Errors
    /// The system's errors; `AlreadyExists` if the name is taken, by a link too.
    pub fn make_dir(&self, name: &OsStr, mode: u32) -> io::Result<()> {
        Ok(rustix::fs::mkdirat(&self.fd, entry(name)?, Mode::from_raw_mode(mode))?)
    }

    /// Makes a symbolic link.
    ///
    /// # Errors
    /// The system's errors; `AlreadyExists` if the name is taken.
    pub fn make_link(&self, name: &OsStr, target: &Path) -> io::Result<()> {
        Ok(rustix::fs::symlinkat(target, &self.fd, entry(name)?)?)
    }

    /// Reads the target of a symbolic link.
    ///
    /// # Errors
    /// The system's errors.
    pub fn read_link(&self, name: &OsStr) -> io::Result<PathBuf> {
        let target = rustix::fs::readlinkat(&self.fd, entry(name)?, Vec::new())?;
        Ok(OsString::from_vec(target.into_bytes()).into())
    }

    /// Tells the attributes of an entry, of a link its own; none if nothing has the name.
    ///
    /// # Errors
    /// The system's errors.
    pub fn look(&self, name: &OsStr) -> io::Result<Option<Stat>> {
        match rustix::fs::statat(&self.fd, entry(name)?, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(found) => Ok(Some(found)),
            Err(Errno::NOENT) => Ok(None),
            Err(e) => Err(e.into()),
        }
    }

    /// Renames an entry. An existing file or link with the new name is replaced.
    ///
    /// # Errors
    /// The system's errors.
    pub fn rename(&self, from: &OsStr, to: &OsStr) -> io::Result<()> {
        Ok(rustix::fs::renameat(&self.fd, entry(from)?, &self.fd, entry(to)?)?)
    }

    /// Removes a file or a link.
    ///
    /// # Errors
    /// The system's errors.
    pub fn remove(&self, name: &OsStr) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(&self.fd, entry(name)?, AtFlags::empty())?)
    }

    /// Iterates over the names of the entries. The iterator has a descriptor of its own.
    ///
    /// # Errors
    /// The system's errors.
    pub fn names(&self) -> io::Result<impl Iterator<Item = io::Result<OsString>> + use<>> {
        let names = Dir::read_from(&self.fd)?.filter_map(|found| match found {
            Ok(found) => {
                let name = found.file_name().to_bytes();
                let is_self = matches!(name, b"." | b"..");
                (!is_self).then(|| Ok(OsStr::from_bytes(name).to_owned()))
            }
            Err(e) => Some(Err(e.into())),
        });
        Ok(names)
    }

    /// Tells the attributes of the directory itself.
    ///
    /// # Errors
    /// The system's errors.
    pub fn stat(&self) -> io::Result<Stat> {
        Ok(rustix::fs::fstat(&self.fd)?)
    }

    /// Sets owner and group of the directory itself, as far as they are given.
    ///
    /// # Errors
    /// The system's errors.
    pub fn set_owner(&self, (owner, group): (Option<u32>, Option<u32>)) -> io::Result<()> {
        let (owner, group) = (owner.map(Uid::from_raw), group.map(Gid::from_raw));
        Ok(rustix::fs::chownat(&self.fd, SELF, owner, group, AtFlags::SYMLINK_NOFOLLOW)?)
    }

    /// Sets the mode of the directory itself.
    ///
    /// # Errors
    /// The system's errors.
    pub fn set_mode(&self, mode: u32) -> io::Result<()> {
        let mode = Mode::from_raw_mode(mode);
        Ok(rustix::fs::chmodat(&self.fd, SELF, mode, AtFlags::empty())?)
    }

    /// Sets the times of the directory itself.
    ///
    /// # Errors
    /// The system's errors.
    pub fn set_times(&self, times: &Timestamps) -> io::Result<()> {
        Ok(rustix::fs::utimensat(&self.fd, SELF, times, AtFlags::SYMLINK_NOFOLLOW)?)
    }
}

/// The directory itself, also where its descriptor cannot be read or changed (`O_PATH`).
const SELF: &str = ".";
/// Why a link is not opened.
const IS_LINK: &str = "is a symbolic link, which is not followed here: remove it, or name its \
     target";
/// Why anything else is not opened.
const NOT_REGULAR: &str = "is not a regular file";

fn invalid(why: &'static str) -> io::Error {
    io::Error::new(ErrorKind::InvalidInput, why)
}

/// A name that leads to an entry and nowhere else.
fn entry(name: &OsStr) -> io::Result<&OsStr> {
    match name.as_bytes() {
        b"" | b"." | b".." => Err(invalid("not the name of an entry")),
        bytes if bytes.contains(&b'/') => Err(invalid("a name of an entry has no slash")),
        _ => Ok(name),
    }
}

/// Opens a directory for reading, or, if it may not be read, only for reaching what is in it.
fn open_dir(open: impl Fn(OFlags) -> rustix::io::Result<OwnedFd>) -> io::Result<LocalDir> {
    let fd = match open(OFlags::RDONLY | OFlags::DIRECTORY) {
        Err(Errno::ACCESS) => open(OFlags::PATH | OFlags::DIRECTORY)?,
        opened => opened?,
    };
    Ok(LocalDir { fd })
}

fn require_regular(found: &Stat) -> io::Result<()> {
    match FileType::from_raw_mode(found.st_mode) {
        FileType::RegularFile => Ok(()),
        FileType::Symlink => Err(invalid(IS_LINK)),
        FileType::Directory => Err(ErrorKind::IsADirectory.into()),
        _ => Err(invalid(NOT_REGULAR)),
    }
}

#[cfg(test)]
mod tests {
    use std::{
        fs,
        os::unix::fs::{PermissionsExt, symlink},
    };

    use super::*;

    fn name(name: &str) -> &OsStr {
        OsStr::new(name)
    }

    /// Links, fifos and directories are opened as files neither for reading nor for writing, and
    /// links not as directories; nothing waits.
    #[test]
    fn only_regular_files_are_opened() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::write(at("file"), "words").unwrap();
        fs::create_dir(at("dir")).unwrap();
        symlink("file", at("link")).unwrap();
        symlink("dir", at("dirlink")).unwrap();
        symlink("nowhere", at("dangling")).unwrap();
        let mode = Mode::from_raw_mode(0o600);
        rustix::fs::mknodat(CWD, at("fifo"), FileType::Fifo, mode, 0).unwrap();
        let open = LocalDir::open(dir.path()).unwrap();
        for (found, why) in [
            ("link", "is a symbolic link"),
            ("dirlink", "is a symbolic link"),
            ("dangling", "is a symbolic link"),
            ("fifo", "is not a regular file"),
            ("dir", "is a directory"),
        ] {
            let opened = [
                open.open_file(name(found)),
                open.open_to_write(name(found)),
                open.open_to_append(name(found), 0o600),
            ];
            for opened in opened {
                let said = opened.unwrap_err().to_string();
                assert!(said.starts_with(why), "{found}: {said}");
            }
            let kind = open.create_file(name(found), 0o600).unwrap_err().kind();
            assert_eq!(kind, ErrorKind::AlreadyExists, "{found}");
        }
        assert!(!at("nowhere").exists());
        for found in ["link", "dirlink", "file", "fifo"] {
            assert!(open.open_dir(name(found)).is_err(), "{found}");
        }
        open.open_to_write(name("file")).unwrap();
        assert_eq!(fs::read(at("file")).unwrap(), b"words");
        let below = open.open_dir(name("dir")).unwrap();
        for outside in ["", ".", "..", "../file", "a/b", "/"] {
            assert!(below.look(name(outside)).is_err(), "{outside:?}");
            assert!(below.create_file(name(outside), 0o600).is_err(), "{outside:?}");
        }
    }

    /// Calls on an open directory act on that directory, also after its name went to a link.
    #[test]
    fn an_open_directory_stays_the_same() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::create_dir(at("outside")).unwrap();
        fs::create_dir(at("dir")).unwrap();
        let open = LocalDir::open(dir.path()).unwrap().open_dir(name("dir")).unwrap();
        fs::rename(at("dir"), at("moved")).unwrap();
        symlink("outside", at("dir")).unwrap();
        open.create_file(name("a"), 0o600).unwrap();
        open.rename(name("a"), name("b")).unwrap();
        open.make_dir(name("d"), 0o700).unwrap();
        open.make_link(name("l"), Path::new("b")).unwrap();
        open.set_mode(0o750).unwrap();
        assert_eq!(open.read_link(name("l")).unwrap(), Path::new("b"));
        let mut names: Vec<_> = open.names().unwrap().map(Result::unwrap).collect();
        names.sort();
        assert_eq!(names, ["b", "d", "l"]);
        open.remove(name("l")).unwrap();
        assert!(open.look(name("l")).unwrap().is_none());
        assert_eq!(fs::read_dir(at("outside")).unwrap().count(), 0);
        assert_eq!(fs::metadata(at("moved")).unwrap().permissions().mode() & 0o7777, 0o750);
        assert_eq!(fs::read_dir(at("moved")).unwrap().count(), 2);
    }

    /// A path is split at its last name; one that ends otherwise names no entry.
    #[test]
    fn paths_are_split() {
        let dir = tempfile::tempdir().unwrap();
        for end in ["/", "/.", "/.."] {
            let path = format!("{}{end}", dir.path().display());
            assert!(LocalDir::of_entry(Path::new(&path)).is_err(), "{end}");
        }
        let path = dir.path().join("name");
        let (open, last) = LocalDir::of_entry(&path).unwrap();
        assert_eq!(last, "name");
        assert_eq!(FileId::of(&open.stat().unwrap()), {
            FileId::of(&rustix::fs::stat(dir.path()).unwrap())
        });
        assert_eq!(LocalDir::of_entry(Path::new("name")).unwrap().1, "name");
    }
}
