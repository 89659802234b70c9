//! Empty files that hold an inode each.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use crate::make_dir::{BY_UMASK, make_dir};

/// What their names begin with.
const PREFIX: &str = "inode-";

#[derive(Debug)]
pub(super) struct SpareInodes {
    own: PathBuf,
    /// Their names end in the numbers below this.
    count: u32,
}

impl SpareInodes {
    /// Those that are there, in the reserve's directory, which need not exist.
    pub(super) fn find(own: &Path) -> io::Result<Self> {
        let mut found = SpareInodes { own: own.to_owned(), count: 0 };
        while found.path(found.count).try_exists()? {
            found.count += 1;
        }
        Ok(found)
    }

    pub(super) fn count(&self) -> u32 {
        self.count
    }

    /// Makes `count` more.
    pub(super) fn take(&mut self, count: u32) -> io::Result<()> {
        if count > 0 {
            make_dir(&self.own, BY_UMASK)?;
        }
        for _ in 0..count {
            fs::File::create(self.path(self.count))?;
            self.count += 1;
        }
        Ok(())
    }

    /// Removes up to `count`; whether there were any.
    pub(super) fn release(&mut self, count: u32) -> bool {
        let before = self.count;
        for _ in 0..count.min(before) {
            let path = self.path(self.count - 1);
            if let Err(error) = fs::remove_file(&path)
                && error.kind() != io::ErrorKind::NotFound
            {
                tracing::error!(path = %path.display(), %error, "cannot give back an inode");
                break;
            }
            self.count -= 1;
        }
        self.count < before
    }

    fn path(&self, number: u32) -> PathBuf {
        self.own.join(format!("{PREFIX}{number}"))
    }
}
