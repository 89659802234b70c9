//! The engines that a volume directory can be made with, told apart by name.

use std::path::Path;
use std::sync::Arc;

use super::contract::{Engine, EngineError};
use super::fjall::FjallEngine;
use super::redb::RedbEngine;
use crate::reserve::Reserve;

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
    Ok(match kind {
        EngineKind::Fjall => Arc::new(FjallEngine::open(&path, cache_bytes, reserve)?),
        EngineKind::Redb => Arc::new(RedbEngine::open(&path, cache_bytes, reserve)?),
    })
}
