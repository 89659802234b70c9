//! The files of a metadata server.

pub(in crate::mds) mod copying;
pub(in crate::mds) mod creation;
pub(in crate::mds) mod disk_reserve;
mod fence;
pub(in crate::mds) mod migration;
pub(in crate::mds) mod placement;
pub(in crate::mds) mod pool;
pub(in crate::mds) mod reaper;
mod records;
mod server_attrs;

pub use creation::{ObjectCreation, Precreate};
pub use migration::SmallFiles;
pub use placement::Striping;
pub(in crate::mds) use records::{FenceCause, Files, Marks, SizeAuthority, Stale};
