//! Where files are copied from and to: this machine, or a cluster.

use std::{
    ffi::{OsStr, OsString},
    fs,
    os::unix::{
        ffi::OsStrExt,
        fs::{DirBuilderExt, PermissionsExt, chown},
    },
    path::{Path, PathBuf},
    sync::Arc,
};

use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, utimensat};
use weft_client::fs::{FsError, Naming, ReadDir};
use weft_nfs::NfsStat;

use super::facts::{Facts, Kind};
use crate::{client_cmds::connect::Remote, outcome::Outcome};

/// Said to root of a copy whose owner is another one. Nobody else may give files away, and nobody
/// else is told.
pub(super) const OWNER_LOST: &str = ": is copied, but the server does not let it have its owner \
     (root_squash, perhaps)";

/// This machine, or a cluster.
#[derive(Clone)]
pub(super) enum Place {
    Local,
    Cluster(Arc<Remote>),
}

/// The entries of a directory, as they come.
pub(super) enum Listing {
    Local(fs::ReadDir, PathBuf),
    Cluster(Box<ReadDir>, Arc<Remote>),
}

impl Place {
    /// A path as the user can find it.
    pub(super) fn show(&self, path: &Path) -> String {
        match self {
            Place::Local => path.display().to_string(),
            Place::Cluster(remote) => remote.show(path),
        }
    }

    fn failed(&self, path: &Path, e: &dyn std::fmt::Display) -> String {
        format!("{}: {e}", self.show(path))
    }

    /// What a path leads to, or the link at its end; none if nothing is there.
    ///
    /// # Errors
    /// It cannot be told.
    pub(super) async fn look(&self, path: &Path, follow: bool) -> Result<Option<Facts>, String> {
        match self {
            Place::Local => {
                let found = if follow { fs::metadata(path) } else { fs::symlink_metadata(path) };
                match found {
                    Ok(metadata) => Ok(Some(Facts::of_local(&metadata))),
                    Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(None),
                    Err(e) => Err(self.failed(path, &e)),
                }
            }
            Place::Cluster(remote) => {
                let found = match follow {
                    true => remote.client.stat_followed(path).await,
                    false => remote.client.stat(path).await,
                };
                match found {
                    Ok(attrs) => Ok(Some(Facts::of_remote(attrs))),
                    Err(e) if e.error.status() == Some(NfsStat::NOENT) => Ok(None),
                    Err(e) => Err(remote.failed(&e)),
                }
            }
        }
    }

    /// The entries of a directory.
    pub(super) async fn list(&self, path: &Path) -> Result<Listing, String> {
        match self {
            Place::Local => {
                let entries = fs::read_dir(path).map_err(|e| self.failed(path, &e))?;
                Ok(Listing::Local(entries, path.to_path_buf()))
            }
            Place::Cluster(remote) => {
                let entries = remote.client.read_dir(path).await;
                let entries = entries.map_err(|e| remote.failed(&e))?;
                Ok(Listing::Cluster(Box::new(entries), remote.clone()))
            }
        }
    }

    /// Makes a directory of a copy, which we can write to until it is whole; whether it is new.
    pub(super) async fn make_dir(
        &self,
        path: &Path,
        (mode, naming): (u32, Naming),
    ) -> Result<bool, String> {
        let mode = mode & 0o777 | 0o700;
        let made = match self {
            // A root is there.
            _ if path.file_name().is_none() => false,
            Place::Local => match fs::DirBuilder::new().mode(mode).create(path) {
                Ok(()) => {
                    let set = fs::set_permissions(path, fs::Permissions::from_mode(mode));
                    set.map_err(|e| self.failed(path, &e))?;
                    true
                }
                Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => false,
                Err(e) => return Err(self.failed(path, &e)),
            },
            Place::Cluster(remote) => match remote.client.mkdir(path, mode).await {
                Ok(()) => true,
                Err(e) if e.error.status() == Some(NfsStat::EXIST) => false,
                Err(e) => return Err(remote.failed(&e)),
            },
        };
        if made {
            return Ok(true);
        }
        // Through a link that was listed, a copy would leave its place.
        let there = self.look(path, naming == Naming::Given).await?;
        match there.is_some_and(|f| f.kind == Kind::Dir) {
            true => Ok(false),
            false => Err(format!("{}: is there, and no directory", self.show(path))),
        }
    }

    /// What a link says.
    pub(super) async fn read_link(&self, path: &Path) -> Result<PathBuf, String> {
        match self {
            Place::Local => fs::read_link(path).map_err(|e| self.failed(path, &e)),
            Place::Cluster(remote) => {
                remote.client.readlink(path).await.map_err(|e| remote.failed(&e))
            }
        }
    }

    /// Makes a link. One that is there is replaced, and nothing else: it may be what is copied.
    pub(super) async fn make_link(&self, says: &Path, path: &Path) -> Result<(), String> {
        match self {
            Place::Local => {
                let is_link = fs::symlink_metadata(path).is_ok_and(|m| m.is_symlink());
                if is_link {
                    fs::remove_file(path).map_err(|e| self.failed(path, &e))?;
                }
                std::os::unix::fs::symlink(says, path).map_err(|e| self.failed(path, &e))
            }
            Place::Cluster(remote) => {
                let client = &remote.client;
                let failed = |e: FsError| remote.failed(&e);
                match client.symlink(says, path).await {
                    Err(e) if e.error.status() == Some(NfsStat::EXIST) => {
                        let there = self.look(path, false).await?;
                        if there.is_some_and(|f| f.kind != Kind::Link) {
                            let shown = self.show(path);
                            return Err(format!("{shown}: is there, and no link: not replaced"));
                        }
                        client.remove(path).await.map_err(failed)?;
                        client.symlink(says, path).await.map_err(failed)
                    }
                    made => made.map_err(failed),
                }
            }
        }
    }

    /// Gives a copy what it gets when it is whole. An owner that we may not give it stays ours.
    pub(super) async fn finish(
        &self,
        path: &Path,
        facts: &Facts,
        (preserve, times): (bool, bool),
    ) -> Result<(), String> {
        match self {
            Place::Local => {
                set_local(path, facts, (preserve, times)).map_err(|e| self.failed(path, &e))
            }
            Place::Cluster(remote) => {
                let mut attrs = facts.to_set(preserve, times).unwrap_or_default();
                attrs.mode = Some(facts.mode(preserve));
                let set = |attrs| remote.client.set_attrs(path, attrs);
                let done = match set(attrs.clone()).await {
                    Err(e) if e.error.status() == Some(NfsStat::PERM) => {
                        attrs.owner = None;
                        attrs.owner_group = None;
                        // Set-id bits are for the owner that it did not get.
                        attrs.mode = attrs.mode.map(|mode| mode & 0o1777);
                        let done = set(attrs).await;
                        // Others are used to that.
                        if done.is_ok() && rustix::process::geteuid().is_root() {
                            return Err(format!("{}{OWNER_LOST}", self.show(path)));
                        }
                        done
                    }
                    done => done,
                };
                done.map_err(|e| remote.failed(&e))
            }
        }
    }
}

fn set_local(path: &Path, facts: &Facts, (preserve, times): (bool, bool)) -> std::io::Result<()> {
    let mut mode = facts.mode(preserve);
    if preserve && rustix::process::geteuid().is_root() {
        let (uid, gid) = facts.ids();
        chown(path, uid, gid)?;
    } else if preserve
        && let Some(group) = facts.group_to_give()
        && chown(path, None, Some(group)).is_err()
    {
        // Set-id bits are for the group that it did not get.
        mode &= 0o1777;
    }
    fs::set_permissions(path, fs::Permissions::from_mode(mode))?;
    if times {
        set_local_times(path, facts)?;
    }
    Ok(())
}

/// Sets both times of a local file, and of no other that a link leads to.
pub(super) fn set_local_times(path: &Path, facts: &Facts) -> std::io::Result<()> {
    let time = |t: weft_nfs::NfsTime| Timespec { tv_sec: t.seconds, tv_nsec: t.nseconds.into() };
    let times =
        Timestamps { last_access: time(facts.accessed), last_modification: time(facts.modified) };
    Ok(utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW)?)
}

impl Listing {
    /// The next entry.
    ///
    /// # Errors
    /// The directory cannot be read on.
    pub(super) async fn next(&mut self) -> Result<Option<(OsString, Facts)>, String> {
        match self {
            Listing::Local(entries, dir) => {
                let failed = |path: &Path, e| Place::Local.failed(path, &e);
                for entry in entries {
                    let entry = entry.map_err(|e| failed(dir, e))?;
                    match entry.metadata() {
                        Ok(metadata) => {
                            return Ok(Some((entry.file_name(), Facts::of_local(&metadata))));
                        }
                        // Gone meanwhile.
                        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {}
                        Err(e) => return Err(failed(&entry.path(), e)),
                    }
                }
                Ok(None)
            }
            Listing::Cluster(entries, remote) => {
                let entry = entries.next().await.map_err(|e| remote.failed(&e))?;
                let Some(entry) = entry else { return Ok(None) };
                let name = local_name(&entry.name.0)?;
                Ok(Some((name, Facts::of_remote(entry.attrs))))
            }
        }
    }
}

/// A name of the server's that leads out of its directory is not used.
fn local_name(name: &[u8]) -> Result<OsString, String> {
    let name = OsStr::from_bytes(name);
    if Path::new(name).file_name() != Some(name) || name.as_bytes().contains(&0) {
        return Err(format!("the server has a file named {name:?}: not copied"));
    }
    Ok(name.to_owned())
}

/// Makes durable what was copied to a path of this machine: its file system is synced, and where it
/// is a link, that of what it leads to.
///
/// # Errors
/// The disk says that it could not be.
pub(super) fn sync_local(path: &Path) -> Outcome {
    let above = path.parent().filter(|dir| !dir.as_os_str().is_empty());
    // To open a fifo waits, and a file may be one that nobody may read.
    let opened = match fs::metadata(path).is_ok_and(|m| m.is_file() || m.is_dir()) {
        true => fs::File::open(path).ok(),
        false => None,
    };
    let failed = |e: std::io::Error| format!("{}: {e}", path.display());
    let on_disk = match opened {
        Some(file) => file,
        None => fs::File::open(above.unwrap_or(Path::new("."))).map_err(failed)?,
    };
    Ok(rustix::fs::syncfs(&on_disk).map_err(|e| failed(e.into()))?)
}
