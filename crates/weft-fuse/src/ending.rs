//! The end of a mount that programs may still use.

use std::{
    io,
    path::{Path, PathBuf},
    process::Command,
    sync::Arc,
    time::Duration,
};

use rustix::{
    io::Errno,
    mount::{UnmountFlags, unmount},
};
use tokio::{
    task::JoinSet,
    time::{Instant, timeout_at},
};

use crate::tree::Tree;

/// The program that unmounts for users other than root (package fuse3).
const HELPER: &str = "fusermount3";

/// Files with bytes that programs have written and that did not become durable.
#[derive(Debug, thiserror::Error)]
#[error("{files} file{} not saved: {why}", if *files == 1 { "" } else { "s" })]
pub struct Unsaved {
    files: usize,
    why: String,
}

/// Ends a mount, from another thread or task than the one that serves it.
#[derive(Clone)]
pub struct Ending {
    dir: PathBuf,
    tree: Arc<Tree>,
}

impl Ending {
    /// The end of the mount on this directory.
    pub(crate) fn new(dir: PathBuf, tree: Arc<Tree>) -> Ending {
        Ending { dir, tree }
    }

    /// The directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Unmounts the directory if no program uses it. [`crate::Mount::serve`] then returns.
    ///
    /// # Errors
    /// [`io::ErrorKind::ResourceBusy`] if a program uses it; the system's other errors.
    pub async fn unmount(&self) -> io::Result<()> {
        self.unmount_with(UnmountFlags::empty(), &["-u"]).await
    }

    /// Takes the directory away. Programs keep what they have open, as long as this process lives.
    ///
    /// # Errors
    /// The system's errors.
    pub async fn detach(&self) -> io::Result<()> {
        self.unmount_with(UnmountFlags::DETACH, &["-u", "-z"]).await
    }

    async fn unmount_with(&self, flags: UnmountFlags, words: &'static [&str]) -> io::Result<()> {
        let dir = self.dir.clone();
        // The kernel asks the mount for what it still needs, which other threads answer.
        let unmounting = tokio::task::spawn_blocking(move || match unmount(&dir, flags) {
            // Only root may: for others a helper does it.
            Err(Errno::PERM) => by_helper(words, &dir),
            done => Ok(done?),
        });
        unmounting.await.unwrap_or_else(|e| Err(io::Error::other(e)))
    }

    /// The number of files that programs have open.
    pub fn open_files(&self) -> usize {
        self.tree.files.all().len()
    }

    /// Makes durable what programs have written, within this time.
    ///
    /// # Errors
    /// [`Unsaved`]; programs that have the files open hear of their failures as well.
    pub async fn save(&self, limit: Duration) -> Result<(), Unsaved> {
        let deadline = Instant::now() + limit;
        // The kernel may have pages that were written through mappings. Where it cannot send them
        // in time, the same servers do not take what follows either.
        let _ = timeout_at(deadline, self.send_mapped()).await;
        let mut saving = JoinSet::new();
        for open in self.tree.files.all().into_iter().filter(|open| open.is_writable) {
            saving
                .spawn(async move { open.io.commit_for_others().await.map_err(|e| e.to_string()) });
        }
        let (mut files, mut first) = (0, None);
        loop {
            let failure = match timeout_at(deadline, saving.join_next()).await {
                Ok(None) => break,
                Ok(Some(Ok(Ok(())))) => continue,
                Ok(Some(Ok(Err(why)))) => why,
                Ok(Some(Err(e))) => e.to_string(),
                Err(_) => {
                    files += saving.len();
                    let _ = first.get_or_insert(format!("no answer within {} s", limit.as_secs()));
                    break;
                }
            };
            files += 1;
            let _ = first.get_or_insert(failure);
        }
        first.map_or(Ok(()), |why| Err(Unsaved { files, why }))
    }

    /// Has the kernel send what was written through mappings.
    async fn send_mapped(&self) {
        for ino in self.tree.inodes.numbers() {
            if self.tree.inodes.may_have_mapped_writes(ino) {
                self.tree.forget_pages(ino).await;
            }
        }
    }

    /// Closes what programs have open.
    pub async fn close_all(&self) {
        self.tree.close_all().await;
    }
}

fn by_helper(words: &[&str], dir: &Path) -> io::Result<()> {
    let said = Command::new(HELPER).args(words).arg("--").arg(dir).output()?;
    let why = String::from_utf8_lossy(&said.stderr);
    match said.status.success() {
        true => Ok(()),
        // It tells in words alone.
        false if why.contains("busy") => Err(io::ErrorKind::ResourceBusy.into()),
        false => Err(io::Error::other(why.trim_end().to_owned())),
    }
}
