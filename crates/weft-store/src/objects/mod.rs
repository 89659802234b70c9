//! The data server's object store: objects are plain files in a fan-out directory tree.
//!
//! An object is a stripe index's part of one striped file, named by volume and inode number. It
//! comes into being at its first write (design D10), or empty before it if the metadata server
//! wants that, so a missing object is an empty one. Beside the files lies the fence log: the
//! smallest epoch each fenced object still accepts (design D5), and the tombstones of removed
//! objects, whose numbers are never used again.
//!
//! Data stops above a floor of free space, which is kept for removals, truncations and fences.
//!
//! All calls are synchronous and thread safe. Reads of cached objects cost a lock and an `fstat`;
//! everything that waits for a disk (`commit`, `truncate`, `remove`, `fence`, and a `write` that
//! meets a full cache of unsynced objects) belongs on the blocking pool.
//!
//! | lock | guards | held across I/O |
//! | --- | --- | --- |
//! | cache | the map of open objects | no |
//! | epoch (per object) | what it accepts; writes shared, fence/truncate/remove exclusive | yes |
//! | file (per object) | the open file; opening, creating, unlinking | yes |
//! | volumes | the file of the volumes; what it says, in memory | the file |
//! | fences | the log's tail and the epochs; a sync happens outside | appends only |
//!
//! Order: epoch before file, either before fences or volumes; cache before fences; nothing else.
//!
//! The files' form is in `docs/formats.md`, "Data server directory".

mod binding;
mod cache;
mod copy;
mod epoch;
mod error;
mod fences;
mod files;
mod group_sync;
mod holes;
mod object;
mod object_id;
mod options;
mod room;
mod sparse_file;
mod store;
mod store_dir;
#[cfg(test)]
mod tests;
mod volumes;
mod whose;

pub use binding::{
    Accepted, BindRefusal, BindRequest, Circumstances, CommonRun, Restoration, ServedVolume,
    VOLUMES_MAX, judge,
};
pub use copy::CopyRange;
pub use epoch::REMOVED;
pub use error::ObjectError;
pub use holes::{Sought, Stripe};
pub use object_id::ObjectId;
pub use options::ObjectStoreOptions;
pub use store::{ObjectStat, ObjectStore, ReadPlan, Space, WriteVerifier};
pub use store_dir::{Misplaced, is_store};
pub use volumes::Remembered;
