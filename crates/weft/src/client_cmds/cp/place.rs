//! Where files are copied from and to: this machine, or a cluster.

use std::{
    ffi::{OsStr, OsString},
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    sync::Arc,
};

use weft_client::fs::{FsError, Naming, ReadDir};
use weft_nfs::NfsStat;

use super::{
    facts::{Facts, Kind},
    folder::Folder,
    how::Keeps,
    local,
    spot::Spot,
};
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
    Local(local::Entries, PathBuf),
    Cluster(Box<ReadDir>, Arc<Remote>),
}

/// A directory whose entries are copied.
pub(super) struct Opened {
    pub(super) entries: Listing,
    /// On this machine.
    pub(super) folder: Option<Arc<Folder>>,
    /// Attributes of the open directory, on this machine: the listed name may be another one's by
    /// then.
    pub(super) facts: Option<Facts>,
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
    pub(super) async fn look(&self, spot: &Spot, follow: bool) -> Result<Option<Facts>, String> {
        match self {
            Place::Local => local::look(spot, follow).map_err(|e| self.failed(&spot.path, &e)),
            Place::Cluster(remote) => {
                let found = match follow {
                    true => remote.client.stat_followed(&spot.path).await,
                    false => remote.client.stat(&spot.path).await,
                };
                match found {
                    Ok(attrs) => Ok(Some(Facts::of_remote(attrs))),
                    Err(e) if e.error.status() == Some(NfsStat::NOENT) => Ok(None),
                    Err(e) => Err(remote.failed(&e)),
                }
            }
        }
    }

    /// Opens a directory to list its entries.
    pub(super) async fn list(&self, spot: &Spot) -> Result<Opened, String> {
        match self {
            Place::Local => {
                let opened = local::open_dir(spot).and_then(|(folder, facts)| {
                    let entries = Listing::Local(local::list(&folder)?, spot.path.clone());
                    Ok(Opened { entries, folder: Some(folder), facts: Some(facts) })
                });
                opened.map_err(|e| self.failed(&spot.path, &e))
            }
            Place::Cluster(remote) => {
                let entries = remote.client.read_dir(&spot.path).await;
                let entries = Box::new(entries.map_err(|e| remote.failed(&e))?);
                let entries = Listing::Cluster(entries, remote.clone());
                Ok(Opened { entries, folder: None, facts: None })
            }
        }
    }

    /// Makes a directory of a copy, which we can write to until it is whole. Returns its folder,
    /// and whether it is new.
    pub(super) async fn make_dir(
        &self,
        spot: &Spot,
        (mode, naming): (u32, Naming),
    ) -> Result<(Option<Arc<Folder>>, bool), String> {
        let mode = mode & 0o777 | 0o700;
        let made = match self {
            Place::Local => {
                let made = local::make_dir(spot, mode).map_err(|e| self.failed(&spot.path, &e));
                return made.map(|(folder, is_new)| (Some(folder), is_new));
            }
            // A root is there.
            Place::Cluster(_) if spot.path.file_name().is_none() => false,
            Place::Cluster(remote) => match remote.client.mkdir(&spot.path, mode).await {
                Ok(()) => true,
                Err(e) if e.error.status() == Some(NfsStat::EXIST) => false,
                Err(e) => return Err(remote.failed(&e)),
            },
        };
        if made {
            return Ok((None, true));
        }
        // Through a link that was listed, a copy would leave its place.
        let there = self.look(spot, naming == Naming::Given).await?;
        match there.is_some_and(|f| f.kind == Kind::Dir) {
            true => Ok((None, false)),
            false => Err(format!("{}: is there, and no directory", self.show(&spot.path))),
        }
    }

    /// What a link says.
    pub(super) async fn read_link(&self, spot: &Spot) -> Result<PathBuf, String> {
        match self {
            Place::Local => local::read_link(spot).map_err(|e| self.failed(&spot.path, &e)),
            Place::Cluster(remote) => {
                remote.client.readlink(&spot.path).await.map_err(|e| remote.failed(&e))
            }
        }
    }

    /// Makes a link. One that is there is replaced, and nothing else: it may be what is copied.
    pub(super) async fn make_link(&self, says: &Path, spot: &Spot) -> Result<(), String> {
        let path = &spot.path;
        match self {
            Place::Local => local::make_link(says, spot).map_err(|e| self.failed(path, &e)),
            Place::Cluster(remote) => {
                let client = &remote.client;
                let failed = |e: FsError| remote.failed(&e);
                match client.symlink(says, path).await {
                    Err(e) if e.error.status() == Some(NfsStat::EXIST) => {
                        let there = self.look(spot, false).await?;
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

    /// Gives a complete directory its attributes. An owner that we may not give it stays ours.
    pub(super) async fn finish(
        &self,
        (path, folder): (&Path, Option<&Folder>),
        facts: &Facts,
        preserve: bool,
    ) -> Result<(), String> {
        match self {
            Place::Local => {
                let keeps = if preserve { Keeps::All } else { Keeps::Mode };
                let Some(folder) = folder else { return Ok(()) };
                let set = folder.dir().and_then(|dir| local::set(&*dir, facts, keeps));
                set.map_err(|e| self.failed(path, &e))
            }
            Place::Cluster(remote) => {
                let mut attrs = facts.to_set(preserve, preserve).unwrap_or_default();
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

impl Listing {
    /// The next entry.
    ///
    /// # Errors
    /// The directory cannot be read on.
    pub(super) async fn next(&mut self) -> Result<Option<(OsString, Facts)>, String> {
        match self {
            Listing::Local(entries, dir) => {
                entries.next().transpose().map_err(|e| Place::Local.failed(dir, &e))
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

/// Makes durable what was copied to a path of this machine that was given.
///
/// # Errors
/// The disk says that it could not be.
pub(super) fn sync_local(path: &Path) -> Outcome {
    Ok(local::sync(path).map_err(|e| Place::Local.failed(path, &e))?)
}
