//! The files of a metadata server: where they are, how their bytes are read and changed, and what
//! is known of them beside the volume.
//!
//! It knows the volume, the data servers, and who may write at the moment. It never knows a
//! COMPOUND, the arguments of an operation, sessions or callbacks: what has to wait for clients is
//! done by whoever stands above, between two calls.
//!
//! From below: [`records`] (pure state machines), [`shared`], then one part a file, then
//! [`service`], and the verbs on it: [`read`], [`write`], [`alone`], [`cloning`], [`copying`],
//! [`layouts`].

mod alone;
mod births;
mod change;
mod choice;
mod cloning;
mod copies;
mod copying;
mod creation;
mod differing;
mod doubts;
mod fence;
mod layout_kind;
mod layouts;
mod migration;
mod placement;
mod plan;
mod pool;
mod read;
mod reaper;
mod records;
mod remains;
mod server_attrs;
mod service;
mod shared;
mod unconfirmed;
mod whole;
mod write;

pub(crate) use change::Admitted;
pub(crate) use cloning::{CLONE_BLOCK_BYTES, CloneRange};
pub(crate) use copying::Copy;
pub(crate) use layouts::{LayoutWanted, Ownership};
pub(crate) use plan::{Quiesced, Writer};
pub(crate) use server_attrs::{Looker, WriterTold};
pub(crate) use service::{FileParts, FileService};

pub use creation::ObjectCreation;
pub use layout_kind::LayoutKind;
pub use migration::SmallFiles;
pub use placement::Striping;
pub use pool::Precreate;
