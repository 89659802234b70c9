//! The asynchronous shell of the session core: sends what the core asks for, reconnects by
//! itself, and runs every COMPOUND exactly once over any number of lost connections.
//!
//! A COMPOUND runs in a task of its own, so a caller that stops waiting leaves no slot behind
//! in an unknown state.

mod callback;
mod compound;
mod data;
mod each;
mod establish;
mod goodbye;
mod inner;
mod options;
mod shell;
mod slot;

pub(crate) use compound::is_later;
pub use compound::{CompoundOutcome, FailedOp};
pub use data::{DataRead, DataWritten};
pub(crate) use each::Kept;
pub use options::{CallbackHandler, Reclaim, Reclaims, SessionOptions};
pub use shell::Session;
