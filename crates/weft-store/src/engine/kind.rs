//! The engines that a volume directory can be made with, told apart by name.

use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

use weft_io::durable;

use super::contract::{Engine, EngineError};
use super::directory::io;
use super::fjall::FjallEngine;
use super::redb::RedbEngine;
use crate::reserve::Reserve;

/// Cache of an engine that is only made: it has nothing to keep.
const DRAFT_CACHE_BYTES: u64 = 1 << 20;

/// The embedded engines a volume directory can be made with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EngineKind {
    /// Log-structured; the default.
    #[default]
    Fjall,
    /// Copy-on-write B+tree.
    Redb,
}

impl EngineKind {
    /// Every kind, for suites that must hold for all.
    pub const ALL: [EngineKind; 2] = [EngineKind::Fjall, EngineKind::Redb];

    /// The name in configuration, and of the engine's entry in a volume directory.
    pub const fn name(self) -> &'static str {
        match self {
            EngineKind::Fjall => "fjall",
            EngineKind::Redb => "redb",
        }
    }
}

impl std::str::FromStr for EngineKind {
    type Err = EngineError;

    fn from_str(name: &str) -> Result<Self, EngineError> {
        let found = Self::ALL.into_iter().find(|kind| kind.name() == name);
        found.ok_or_else(|| EngineError::Io(format!("no engine is called {name:?}")))
    }
}

/// The engine that a directory was made with; `None` if there is none.
pub fn kind_of(directory: &Path) -> Option<EngineKind> {
    EngineKind::ALL.into_iter().find(|kind| directory.join(kind.name()).exists())
}

/// Opens (or makes) the engine of `kind` inside the directory of `reserve`, which the caller holds
/// locked.
///
/// **Errors.** [`EngineError::Full`]; [`EngineError::Io`] if the directory was made with another
/// engine: data written by one is never mistaken for an empty volume by the other.
pub fn open(
    kind: EngineKind,
    reserve: &Arc<Reserve>,
    cache_bytes: u64,
) -> Result<Arc<dyn Engine>, EngineError> {
    let directory = reserve.dir();
    for other in EngineKind::ALL.into_iter().filter(|other| *other != kind) {
        if directory.join(other.name()).exists() {
            let (at, made, asked) = (directory.display(), other.name(), kind.name());
            return Err(EngineError::Io(format!("{at} was made with {made}, not {asked}")));
        }
    }
    let path = directory.join(kind.name());
    if !path.try_exists().map_err(|e| io("look for", &path, &e))? {
        make(kind, reserve, &path)?;
    }
    open_at(kind, &path, reserve, cache_bytes)
}

fn open_at(
    kind: EngineKind,
    path: &Path,
    reserve: &Arc<Reserve>,
    cache_bytes: u64,
) -> Result<Arc<dyn Engine>, EngineError> {
    Ok(match kind {
        EngineKind::Fjall => Arc::new(FjallEngine::open(path, cache_bytes, reserve)?),
        EngineKind::Redb => Arc::new(RedbEngine::open(path, cache_bytes, reserve)?),
    })
}

/// Makes a new engine under another name and renames it once it is whole: neither engine opens what
/// a power cut or a kill left half made. What such a one did leave is removed.
fn make(kind: EngineKind, reserve: &Arc<Reserve>, path: &Path) -> Result<(), EngineError> {
    let directory = reserve.dir();
    let draft_of = |kind: EngineKind| directory.join(format!("{}.new", kind.name()));
    for draft in EngineKind::ALL.map(draft_of) {
        remove(&draft).map_err(|e| io("remove", &draft, &e))?;
    }
    let draft = draft_of(kind);
    drop(open_at(kind, &draft, reserve, DRAFT_CACHE_BYTES)?);
    durable::rename(&draft, path).map_err(|e| io("rename", &draft, &e))
}

/// Removes a file or a directory with all that is in it, if there is one.
fn remove(path: &Path) -> std::io::Result<()> {
    match std::fs::symlink_metadata(path) {
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(()),
        Err(e) => Err(e),
        Ok(found) if found.is_dir() => std::fs::remove_dir_all(path),
        Ok(_) => std::fs::remove_file(path),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What an engine had written when it was cut off while it was made is in nobody's way, of
    /// whichever engine it is.
    #[test]
    fn half_made_engines_are_made_anew() {
        for kind in EngineKind::ALL {
            let dir = tempfile::tempdir().unwrap();
            std::fs::create_dir(dir.path().join("fjall.new")).unwrap();
            std::fs::write(dir.path().join("fjall.new/0.jnl"), b"").unwrap();
            std::fs::write(dir.path().join("redb.new"), [0; 4096]).unwrap();
            let reserve = Arc::new(Reserve::open(dir.path(), 0).unwrap());
            drop(open(kind, &reserve, DRAFT_CACHE_BYTES).unwrap());
            assert_eq!(kind_of(dir.path()), Some(kind));
            let left = dir.path().read_dir().unwrap().map(|e| e.unwrap().file_name());
            assert!(left.filter(|name| name != "reserve").eq([kind.name()]));
            let engine = open(kind, &reserve, DRAFT_CACHE_BYTES).unwrap();
            assert_eq!(engine.acquire().unwrap(), 1);
        }
    }
}
