//! This machine's side of a copy.
//!
//! Paths that the user named are followed. Everything else is reached through the open directory
//! that has it, since its owner may exchange it for a link meanwhile.

use std::{
    ffi::OsString,
    fs, io,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    sync::Arc,
};

use rustix::{
    fs::{FileType, OFlags, Timespec, Timestamps},
    io::Errno,
};
use weft_io::LocalDir;
use weft_nfs::NfsTime;

use super::{facts::Facts, folder::Folder, how::Keeps, spot::Spot};

/// Bits of a mode that are for any owner.
const WITHOUT_SET_ID: u32 = 0o1777;

/// The entries of a directory, as they come.
pub(super) type Entries = Box<dyn Iterator<Item = io::Result<(OsString, Facts)>> + Send>;

/// The place of a path that the user named and that is not to be followed.
pub(super) fn unfollowed(path: &Path) -> Spot {
    let above = LocalDir::of_entry(path);
    match above.and_then(|(dir, name)| Ok((Folder::top(dir)?, name))) {
        Ok((folder, name)) => Spot::in_folder(path, (&folder, name)),
        // The same failure comes again, and is reported, when the path is used.
        Err(_) => Spot::given(path),
    }
}

/// Tells what is at a place, or of a path that was given and is to be followed, what it leads to;
/// none if nothing is there.
///
/// # Errors
/// The system's errors.
pub(super) fn look(spot: &Spot, follow: bool) -> io::Result<Option<Facts>> {
    let found = match spot.entry()? {
        Some((dir, name)) => dir.look(name)?,
        None => {
            let found = match follow {
                true => rustix::fs::stat(&spot.path),
                false => rustix::fs::lstat(&spot.path),
            };
            match found {
                Err(Errno::NOENT) => None,
                found => Some(found?),
            }
        }
    };
    Ok(found.as_ref().map(Facts::of_local))
}

/// Opens a directory, and tells what is known of it by then.
///
/// # Errors
/// The system's errors.
pub(super) fn open_dir(spot: &Spot) -> io::Result<(Arc<Folder>, Facts)> {
    let (folder, found) = match (spot.entry()?, spot.folder()) {
        (Some((dir, name)), Some(above)) => {
            let opened = dir.open_dir(name)?;
            let found = opened.stat()?;
            (above.below(name.to_owned(), opened)?, found)
        }
        _ => {
            let opened = LocalDir::open(&spot.path)?;
            let found = opened.stat()?;
            (Folder::top(opened)?, found)
        }
    };
    Ok((folder, Facts::of_local(&found)))
}

/// Lists a directory. One that does not stay open is read at once.
///
/// # Errors
/// The system's errors.
pub(super) fn list(folder: &Folder) -> io::Result<Entries> {
    let dir = folder.dir()?;
    let entries = dir.names()?.filter_map(move |name| {
        let facts = name.and_then(|name| Ok((dir.look(&name)?, name)));
        match facts {
            Ok((Some(found), name)) => Some(Ok((name, Facts::of_local(&found)))),
            // Gone meanwhile.
            Ok((None, _)) => None,
            Err(e) => Some(Err(e)),
        }
    });
    match folder.is_open() {
        true => Ok(Box::new(entries)),
        false => Ok(Box::new(entries.collect::<Vec<_>>().into_iter())),
    }
}

/// Makes a directory with this mode, or opens the one that is there; whether it is new. Nothing is
/// followed but an existing path that was given.
///
/// # Errors
/// The system's errors; something else is there.
pub(super) fn make_dir(spot: &Spot, mode: u32) -> io::Result<(Arc<Folder>, bool)> {
    if let (Some((dir, name)), Some(above)) = (spot.entry()?, spot.folder()) {
        let is_new = is_made(dir.make_dir(name, mode))?;
        let opened = dir.open_dir(name).map_err(in_the_way)?;
        if is_new {
            widen(&opened, mode)?;
        }
        return Ok((above.below(name.to_owned(), opened)?, is_new));
    }
    // Slashes and points at the end say nothing about what is to be made.
    let plain: PathBuf = spot.path.components().collect();
    let existing = || LocalDir::open(&spot.path).map_err(in_the_way).and_then(Folder::top);
    if plain.file_name().is_none() {
        return Ok((existing()?, false));
    }
    let (above, name) = LocalDir::of_entry(&plain)?;
    if !is_made(above.make_dir(name, mode))? {
        return Ok((existing()?, false));
    }
    // Another user may have exchanged the new directory for a link already.
    let opened = above.open_dir(name).map_err(in_the_way)?;
    widen(&opened, mode)?;
    Ok((Folder::top(opened)?, true))
}

/// Says what to do about a file or a link that has the name of a directory.
fn in_the_way(e: io::Error) -> io::Error {
    let why = "is there, and no directory: remove it (a link is followed only if it is named as \
               the destination)";
    match e.kind() {
        io::ErrorKind::NotADirectory => io::Error::new(e.kind(), why),
        _ => e,
    }
}

fn is_made(made: io::Result<()>) -> io::Result<bool> {
    match made {
        Ok(()) => Ok(true),
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        Err(e) => Err(e),
    }
}

/// Gives a new directory what the umask has taken away.
fn widen(dir: &LocalDir, mode: u32) -> io::Result<()> {
    match dir.stat()?.st_mode & 0o777 == mode {
        true => Ok(()),
        false => dir.set_mode(mode),
    }
}

/// Opens a regular file for reading, and tells what is known of it by then; none of a path that was
/// given.
///
/// # Errors
/// The system's errors; it is no regular file.
pub(super) fn open_listed(spot: &Spot) -> io::Result<Option<(fs::File, Facts)>> {
    let Some((dir, name)) = spot.entry()? else { return Ok(None) };
    let file = dir.open_file(name)?;
    let facts = Facts::of_local(&rustix::fs::fstat(&file)?);
    Ok(Some((file, facts)))
}

/// Reads what a link says.
///
/// # Errors
/// The system's errors.
pub(super) fn read_link(spot: &Spot) -> io::Result<PathBuf> {
    match spot.entry()? {
        Some((dir, name)) => dir.read_link(name),
        None => fs::read_link(&spot.path),
    }
}

/// Makes a link. One that is there is replaced, and nothing else: it may be what is copied.
///
/// # Errors
/// The system's errors.
pub(super) fn make_link(says: &Path, spot: &Spot) -> io::Result<()> {
    let (above, name);
    let (dir, name) = match spot.entry()? {
        Some((dir, name)) => (dir, name),
        None => {
            (above, name) = LocalDir::of_entry(&spot.path)?;
            (Arc::new(above), name)
        }
    };
    let found = dir.look(name)?;
    if found.is_some_and(|f| FileType::from_raw_mode(f.st_mode) == FileType::Symlink) {
        dir.remove(name)?;
    }
    dir.make_link(name, says)
}

/// Something open whose attributes are set.
pub(super) trait Node {
    /// Sets owner and group, as far as they are given.
    ///
    /// # Errors
    /// The system's errors.
    fn own(&self, ids: (Option<u32>, Option<u32>)) -> io::Result<()>;
    /// Sets the mode.
    ///
    /// # Errors
    /// The system's errors.
    fn set_mode(&self, mode: u32) -> io::Result<()>;
    /// Sets both times.
    ///
    /// # Errors
    /// The system's errors.
    fn set_times(&self, times: &Timestamps) -> io::Result<()>;
}

impl Node for fs::File {
    fn own(&self, (owner, group): (Option<u32>, Option<u32>)) -> io::Result<()> {
        std::os::unix::fs::fchown(self, owner, group)
    }

    fn set_mode(&self, mode: u32) -> io::Result<()> {
        self.set_permissions(fs::Permissions::from_mode(mode))
    }

    fn set_times(&self, times: &Timestamps) -> io::Result<()> {
        Ok(rustix::fs::futimens(self, times)?)
    }
}

impl Node for LocalDir {
    fn own(&self, ids: (Option<u32>, Option<u32>)) -> io::Result<()> {
        self.set_owner(ids)
    }

    fn set_mode(&self, mode: u32) -> io::Result<()> {
        LocalDir::set_mode(self, mode)
    }

    fn set_times(&self, times: &Timestamps) -> io::Result<()> {
        LocalDir::set_times(self, times)
    }
}

/// Gives a copy what it keeps. An owner that it does not get takes the set-id bits along.
///
/// # Errors
/// The first of the system's errors; the rest is set all the same.
pub(super) fn set(copy: &impl Node, facts: &Facts, keeps: Keeps) -> io::Result<()> {
    let mut mode = facts.mode(keeps == Keeps::All);
    let mut first = Ok(());
    if keeps == Keeps::All {
        let is_root = rustix::process::geteuid().is_root();
        let ids = if is_root { facts.ids() } else { (None, facts.group_to_give()) };
        let owned = if ids == (None, None) { Ok(()) } else { copy.own(ids) };
        if owned.is_err() {
            mode &= WITHOUT_SET_ID;
        }
        if is_root {
            first = owned;
        }
    }
    if keeps != Keeps::Mode {
        first = first.and(copy.set_times(&times(facts)));
    }
    if keeps != Keeps::Times {
        // Behind the owner, whose change takes set-id bits away.
        first = first.and(copy.set_mode(mode));
    }
    first
}

fn times(facts: &Facts) -> Timestamps {
    let time = |t: NfsTime| Timespec { tv_sec: t.seconds, tv_nsec: t.nseconds.into() };
    Timestamps { last_access: time(facts.accessed), last_modification: time(facts.modified) }
}

/// Makes durable what was copied to a path that was given: its file system is synced, and where it
/// is a link, that of what it leads to.
///
/// # Errors
/// The disk says that it could not be.
pub(super) fn sync(path: &Path) -> io::Result<()> {
    let above = path.parent().filter(|dir| !dir.as_os_str().is_empty());
    let open = |path: &Path| {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        rustix::fs::open(path, flags, rustix::fs::Mode::empty())
    };
    // A device is not opened for this, and a file may be one that nobody may read.
    let opened = match fs::metadata(path).is_ok_and(|m| m.is_file() || m.is_dir()) {
        true => open(path).ok(),
        false => None,
    };
    let on_disk = match opened {
        Some(file) => file,
        None => open(above.unwrap_or(Path::new(".")))?,
    };
    Ok(rustix::fs::syncfs(&on_disk)?)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt, symlink};

    use super::*;
    use crate::client_cmds::cp::facts::Kind;

    fn facts(path: &Path) -> Facts {
        Facts::of_local(&rustix::fs::lstat(path).unwrap())
    }

    /// A file and a directory get mode and times of a source, and from root the owner, with the
    /// set-id bits that the change of the owner takes away.
    #[test]
    fn attributes_are_kept() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::write(at("source"), "").unwrap();
        let is_root = rustix::process::geteuid().is_root();
        if is_root {
            std::os::unix::fs::chown(at("source"), Some(1234), Some(4321)).unwrap();
        }
        let source = fs::File::open(at("source")).unwrap();
        source.set_permissions(fs::Permissions::from_mode(0o6751)).unwrap();
        source.set_modified(std::time::UNIX_EPOCH).unwrap();
        let facts = facts(&at("source"));
        let copy = fs::File::create(at("copy")).unwrap();
        fs::create_dir(at("dir")).unwrap();
        set(&copy, &facts, Keeps::All).unwrap();
        set(&LocalDir::open(&at("dir")).unwrap(), &facts, Keeps::All).unwrap();
        let wanted = fs::metadata(at("source")).unwrap();
        for name in ["copy", "dir"] {
            let found = fs::metadata(at(name)).unwrap();
            assert_eq!((found.uid(), found.gid()), (wanted.uid(), wanted.gid()), "{name}");
            assert_eq!(found.mode() & 0o7777, wanted.mode() & 0o7777, "{name}");
            assert_eq!(found.mtime(), 0, "{name}");
        }
        set(&copy, &facts, Keeps::Mode).unwrap();
        assert_eq!(copy.metadata().unwrap().mode() & 0o7000, 0);
    }

    /// A directory is made or found; a link is refused below a path that was given, and followed
    /// where it was given itself. Links replace links, and nothing else.
    #[test]
    fn links_in_the_way() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::create_dir(at("there")).unwrap();
        symlink("there", at("link")).unwrap();
        fs::write(at("file"), "").unwrap();
        let top = Folder::top(LocalDir::open(dir.path()).unwrap()).unwrap();
        let below = |name: &str| Spot::below(dir.path(), Some(&top), name.as_ref());
        let is_new = |spot: &Spot| make_dir(spot, 0o700).map(|(_, is_new)| is_new);
        assert!(is_new(&below("new")).unwrap() && !is_new(&below("new")).unwrap());
        assert!(is_new(&Spot::given(at("given/"))).unwrap());
        assert!(!is_new(&Spot::given(at("given/."))).unwrap());
        assert!(!is_new(&Spot::given(at("link"))).unwrap());
        for name in ["link", "file"] {
            let said = is_new(&below(name)).unwrap_err().to_string();
            assert!(said.starts_with("is there, and no directory: remove it"), "{name}: {said}");
        }
        make_link(Path::new("nowhere"), &below("link")).unwrap();
        assert_eq!(read_link(&below("link")).unwrap(), Path::new("nowhere"));
        assert!(make_link(Path::new("nowhere"), &below("file")).is_err());
        assert!(look(&below("gone"), false).unwrap().is_none());
        let unfollowed = unfollowed(&at("link"));
        assert!(look(&unfollowed, false).unwrap().is_some_and(|f| f.kind == Kind::Link));
        assert!(open_dir(&unfollowed).is_err());
    }
}
