//! Directories of this machine in a tree that is copied. Each is reached from the one above it,
//! never by path, so that a link that takes its place leads nowhere.

use std::{ffi::OsString, io, sync::Arc};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use weft_io::{FileId, LocalDir};

/// Descriptors of directories that a copy keeps open. Directories beyond are opened again for each
/// use, from the deepest one above that is open.
const OPEN_MAX: usize = 256;

/// A directory of this machine in a tree that is copied.
pub(super) struct Folder {
    reach: Reach,
    id: FileId,
    /// Free descriptors of the whole tree.
    room: Arc<Semaphore>,
}

/// How a directory is reached.
enum Reach {
    Open { dir: Arc<LocalDir>, _room: Option<OwnedSemaphorePermit> },
    Below(Arc<Folder>, OsString),
}

impl Folder {
    /// The top of a tree.
    ///
    /// # Errors
    /// The system's errors.
    pub(super) fn top(dir: LocalDir) -> io::Result<Arc<Folder>> {
        Folder::top_with(dir, OPEN_MAX)
    }

    fn top_with(dir: LocalDir, open_max: usize) -> io::Result<Arc<Folder>> {
        let id = FileId::of(&dir.stat()?);
        let room = Arc::new(Semaphore::new(open_max));
        Ok(Arc::new(Folder { reach: Reach::Open { dir: Arc::new(dir), _room: None }, id, room }))
    }

    /// A directory in this one, which the caller has opened by this name.
    ///
    /// # Errors
    /// The system's errors.
    pub(super) fn below(self: &Arc<Self>, name: OsString, dir: LocalDir) -> io::Result<Arc<Self>> {
        let id = FileId::of(&dir.stat()?);
        let room = self.room.clone();
        let reach = match room.clone().try_acquire_owned() {
            Ok(permit) => Reach::Open { dir: Arc::new(dir), _room: Some(permit) },
            Err(_) => Reach::Below(self.clone(), name),
        };
        Ok(Arc::new(Folder { reach, id, room }))
    }

    /// Whether the directory stays open.
    pub(super) fn is_open(&self) -> bool {
        matches!(self.reach, Reach::Open { .. })
    }

    /// The open directory.
    ///
    /// # Errors
    /// The system's errors; another directory has the name by now.
    pub(super) fn dir(&self) -> io::Result<Arc<LocalDir>> {
        let (mut at, mut way) = (self, Vec::new());
        let mut dir = loop {
            match &at.reach {
                Reach::Open { dir, .. } => break dir.clone(),
                Reach::Below(above, name) => {
                    way.push((name, at.id));
                    at = above;
                }
            }
        };
        while let Some((name, id)) = way.pop() {
            let found = dir.open_dir(name)?;
            if FileId::of(&found.stat()?) != id {
                let why = format!("the directory {} was exchanged meanwhile", name.display());
                return Err(io::Error::other(why));
            }
            dir = Arc::new(found);
        }
        Ok(dir)
    }
}

#[cfg(test)]
mod tests {
    use std::{ffi::OsStr, fs, os::unix::fs::symlink};

    use super::*;

    /// Directories beyond the limit are found again by their names, and what was exchanged for one
    /// is refused: a link, or another directory. Descriptors are free again with their directories.
    #[test]
    fn directories_beyond_the_limit() {
        const OPEN: usize = 2;
        let dir = tempfile::tempdir().unwrap();
        let name = OsStr::new("d");
        let mut path = dir.path().to_path_buf();
        let top = Folder::top_with(LocalDir::open(&path).unwrap(), OPEN).unwrap();
        let mut all = vec![top];
        for _ in 0..5 {
            let above = all.last().unwrap();
            let open = above.dir().unwrap();
            open.make_dir(name, 0o700).unwrap();
            all.push(above.below(name.to_owned(), open.open_dir(name).unwrap()).unwrap());
            path.push(name);
        }
        let kept = all.iter().filter(|folder| folder.is_open()).count();
        assert_eq!(kept, 1 + OPEN);
        for (depth, folder) in all.iter().enumerate() {
            folder.dir().unwrap().create_file(OsStr::new("f"), 0o600).unwrap();
            let here = std::iter::repeat_n(name, depth)
                .fold(dir.path().to_path_buf(), |path, n| path.join(n));
            assert!(here.join("f").exists(), "{depth}");
        }
        let deepest = all.last().unwrap();
        fs::rename(&path, path.with_file_name("aside")).unwrap();
        symlink("aside", &path).unwrap();
        assert!(deepest.dir().is_err(), "a link");
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        let why = deepest.dir().unwrap_err().to_string();
        assert!(why.contains("exchanged"), "{why}");
        let top = all.swap_remove(0);
        drop(all);
        assert_eq!(top.room.available_permits(), OPEN);
    }
}
