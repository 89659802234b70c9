//! A file that one process holds at a time: the lock of a directory.

use std::{
    fs::{File, OpenOptions, Permissions, TryLockError},
    io,
    os::unix::fs::{OpenOptionsExt, PermissionsExt},
    path::Path,
};

/// Permission bits: whoever could open the file could hold it.
const FILE_MODE: u32 = 0o600;

/// A file held (`flock(2)`) until this is dropped. Nothing else holds it meanwhile, in this process
/// or another.
#[derive(Debug)]
pub struct HeldFile(File);

impl HeldFile {
    /// Makes the file if it is missing, keeps others from opening it, and holds it; nothing while
    /// somebody else does.
    ///
    /// # Errors
    /// The system's errors.
    pub fn acquire(path: &Path) -> io::Result<Option<Self>> {
        let mut how = OpenOptions::new();
        let file = how.write(true).create(true).truncate(false).mode(FILE_MODE).open(path)?;
        match file.try_lock() {
            Ok(()) => {
                file.set_permissions(Permissions::from_mode(FILE_MODE))?;
                Ok(Some(Self(file)))
            }
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(e)) => Err(e),
        }
    }
}

impl Drop for HeldFile {
    fn drop(&mut self) {
        // To close it is not enough: a process that another thread is just starting has inherited
        // it, and keeps it until it becomes another program.
        if let Err(error) = self.0.unlock() {
            tracing::warn!(%error, "the lock of a directory is not let go of");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One holder at a time; who lets go does so whatever processes were started meanwhile.
    #[test]
    fn one_holder_at_a_time() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        let held = HeldFile::acquire(&path).unwrap().unwrap();
        assert!(HeldFile::acquire(&path).unwrap().is_none());
        let inherited = held.0.try_clone().unwrap();
        drop(held);
        assert!(HeldFile::acquire(&path).unwrap().is_some());
        drop(inherited);
    }
}
