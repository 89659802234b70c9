//! Files and directories that are still there after a power cut.
//!
//! A name that was made, replaced or removed lasts once its directory was synced, bytes once their
//! file was, and neither includes the other. The functions here do both in the order that leaves
//! nothing half done: whoever looks, now or after a cut, finds the old state or the new one.
//!
//! All of them block: they belong where a server starts, or on the blocking pool.

use std::{
    ffi::OsString,
    fs::{self, File, OpenOptions},
    io::{self, ErrorKind, Write},
    os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
};

/// Makes a directory and those above it that are missing, each durable in the one above it before
/// anything is made in it. The deepest one that is there already is made durable too: the process
/// that made it may have died before it could.
///
/// # Errors
/// What the system says.
pub fn create_dir_all(path: &Path) -> io::Result<()> {
    if path.as_os_str().is_empty() {
        return Ok(());
    }
    match fs::metadata(path) {
        Ok(found) if found.is_dir() => return sync_name(path),
        Ok(_) => return Err(ErrorKind::NotADirectory.into()),
        Err(e) if e.kind() == ErrorKind::NotFound => {}
        Err(e) => return Err(e),
    }
    create_dir_all(parent(path))?;
    match fs::create_dir(path) {
        // Another process was faster.
        Err(e) if e.kind() == ErrorKind::AlreadyExists => {}
        made => made?,
    }
    sync_name(path)
}

/// Permission bits of everybody but the owner.
const OTHERS: u32 = 0o077;

/// Makes a directory as [`create_dir_all`] does and takes the permissions of group and others off
/// it, also if it was there before: nobody but its owner and root reaches anything below it,
/// whatever modes the files there have.
///
/// # Errors
/// The system's errors. If the directory is another user's, who alone can narrow it, the error
/// names the command.
pub fn create_private_dir(path: &Path) -> io::Result<()> {
    create_dir_all(path)?;
    let mode = fs::metadata(path)?.permissions().mode();
    if mode & OTHERS == 0 {
        return Ok(());
    }
    fs::set_permissions(path, fs::Permissions::from_mode(mode & !OTHERS)).map_err(|e| {
        let shown = path.display();
        let what = "other users may enter it, which its owner must end";
        io::Error::new(e.kind(), format!("{what} (chmod go= {shown}): {e}"))
    })
}

/// Replaces a small file, or makes it, with these permission bits: whoever looks sees the old one
/// or the new one, and the new one for good once this returns. Returns the new file, open for
/// reading and writing. One process at a time may replace a file.
///
/// # Errors
/// What the system says, or `fill`; the old file is then still there, unless only the last sync
/// failed.
pub fn replace_file(
    path: &Path,
    mode: u32,
    fill: impl FnOnce(&mut File) -> io::Result<()>,
) -> io::Result<File> {
    let draft = draft_of(path, "new");
    match fs::remove_file(&draft) {
        Err(e) if e.kind() != ErrorKind::NotFound => return Err(e),
        _ => {}
    }
    let file = write_draft(&draft, mode, fill)?;
    rename(&draft, path)?;
    Ok(file)
}

/// Gives a file or directory another name in the same directory, durably. What is in it the caller
/// has synced.
///
/// # Errors
/// What the system says.
pub fn rename(from: &Path, to: &Path) -> io::Result<()> {
    fs::rename(from, to)?;
    sync_name(to)
}

/// Makes a small file with these permission bits and contents unless there is one, whatever is in
/// that; durable in either case. Several processes may try at once: all find the same file.
///
/// # Errors
/// What the system says.
pub fn create_file(path: &Path, mode: u32, contents: &[u8]) -> io::Result<()> {
    if !path.try_exists()? {
        let unique = getrandom::u64().map_err(|e| io::Error::other(e.to_string()))?;
        let draft = draft_of(path, &format!("new-{unique:016x}"));
        let made = write_draft(&draft, mode, |file| file.write_all(contents)).and_then(|_| {
            match fs::hard_link(&draft, path) {
                // Somebody else was faster: theirs it is.
                Err(e) if e.kind() == ErrorKind::AlreadyExists => Ok(()),
                linked => linked,
            }
        });
        // The draft has done its duty, or was never made.
        let _ = fs::remove_file(&draft);
        made?;
    }
    sync_name(path)
}

/// Makes the names in a directory durable.
///
/// # Errors
/// What the system says.
pub fn sync_dir(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

/// Makes the name of something that is there durable.
fn sync_name(path: &Path) -> io::Result<()> {
    let above = parent(path);
    match sync_dir(above) {
        // A directory that we may not read, though what is in it is ours, or one of another file
        // system that has no sync for directories.
        Err(e) if matches!(e.kind(), ErrorKind::PermissionDenied | ErrorKind::InvalidInput) => {
            let file = File::open(path)?;
            if is_root_of_mount(&file, above)? {
                return Ok(());
            }
            rustix::fs::syncfs(&file)?;
            Ok(())
        }
        synced => synced,
    }
}

/// Whether the file's name is that of a mount, which nothing has to make durable.
fn is_root_of_mount(file: &File, above: &Path) -> io::Result<bool> {
    Ok(file.metadata()?.dev() != fs::metadata(above)?.dev())
}

/// The directory that the path's last name is in.
fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(above) if above.as_os_str().is_empty() => Path::new("."),
        Some(above) => above,
        None => path,
    }
}

fn draft_of(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(".");
    name.push(suffix);
    name.into()
}

fn write_draft(
    draft: &Path,
    mode: u32,
    fill: impl FnOnce(&mut File) -> io::Result<()>,
) -> io::Result<File> {
    let mut options = OpenOptions::new();
    let mut file = options.read(true).write(true).create_new(true).mode(mode).open(draft)?;
    // Whatever the umask has left of them.
    file.set_permissions(fs::Permissions::from_mode(mode))?;
    fill(&mut file)?;
    file.sync_all()?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Directories are made as deep as asked, relative paths included, and again without harm;
    /// a file in the way is an error.
    #[test]
    fn directories_are_made() {
        let dir = tempfile::tempdir().unwrap();
        let deep = dir.path().join("a/b/c");
        create_dir_all(&deep).unwrap();
        create_dir_all(&deep).unwrap();
        assert!(deep.is_dir());
        create_dir_all(Path::new("")).unwrap();
        create_dir_all(Path::new("src")).unwrap();
        fs::write(deep.join("file"), b"").unwrap();
        let refused = create_dir_all(&deep.join("file/d")).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::NotADirectory);
        assert!(create_dir_all(&deep.join("file")).is_err());
    }

    /// A file is replaced as a whole, with the mode asked for, over a draft that was left behind;
    /// if it cannot be filled the old one stays.
    #[test]
    fn a_file_is_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("endpoints.json");
        fs::write(dir.path().join("endpoints.json.new"), b"half a").unwrap();
        replace_file(&path, 0o600, |f| f.write_all(b"one")).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"one");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let failed = replace_file(&path, 0o600, |f| {
            f.write_all(b"tw")?;
            Err(ErrorKind::StorageFull.into())
        });
        assert_eq!(failed.unwrap_err().kind(), ErrorKind::StorageFull);
        assert_eq!(fs::read(&path).unwrap(), b"one");
        replace_file(&path, 0o600, |f| f.write_all(b"two")).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"two");
        assert_eq!(dir.path().read_dir().unwrap().count(), 1);
    }

    /// Of many that make a file at once one wins, nothing is left behind, and one that is there
    /// stays as it is.
    #[test]
    fn a_file_is_made_once() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("server-id");
        std::thread::scope(|s| {
            for n in 0..8 {
                let path = &path;
                s.spawn(move || create_file(path, 0o600, format!("{n}").as_bytes()).unwrap());
            }
        });
        let made = fs::read(&path).unwrap();
        assert_eq!(made.len(), 1);
        create_file(&path, 0o600, b"another").unwrap();
        assert_eq!(fs::read(&path).unwrap(), made);
        assert_eq!(dir.path().read_dir().unwrap().count(), 1);
    }
}
