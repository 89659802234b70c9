//! The engine contract (design D15): an ordered map of bytes with atomic, durable, fenced batches.
//!
//! An engine is asked for very little, so that many can keep the promise: [`Engine::commit`]
//! returns after the batch is on stable storage, as a whole or not at all. Grouping many mutations
//! into one batch is the volume's work, not the engine's.

mod contract;
mod directory;
mod fjall;
mod journal_room;
mod kind;
mod memory;
mod patient_file;
mod redb;

pub use self::contract::{Batch, Engine, EngineError, KeyRange, Snapshot, Visit};
pub use self::directory::{AckedFile, DirectoryLock};
pub use self::fjall::FjallEngine;
pub use self::kind::{EngineKind, kind_of, open};
pub use self::memory::MemoryEngine;
pub use self::redb::RedbEngine;
