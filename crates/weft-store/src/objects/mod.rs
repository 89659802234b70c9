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
//! All calls are synchronous and thread safe. Whatever takes an object may wait for a disk, be it
//! to open a file, to sync another object that leaves the cache, for room among the dirty pages,
//! or for a lock that somebody holds who waits. A thread that serves connections calls none but
//! these: `read_open`, `stat_open`, `write_open`, `epoch`, `check`, `serves`, `is_given_up`,
//! `volumes`, `adopts`, `run`, `remembered`, `write_verifier`, `identity`, `allocates_ahead`. They
//! take locks that are never held across I/O, and only try others.
//!
//! | lock | guards | held across I/O |
//! | --- | --- | --- |
//! | cache | the map of open objects | no |
//! | epoch (per object) | what it accepts; writes shared, fence/truncate/remove exclusive | yes |
//! | file (per object) | the open file; opening, creating, unlinking | yes |
//! | volumes: file | the file of the volumes | yes |
//! | volumes: contents | what it says, in memory | no |
//! | fences: log | the log's tail, appending, replacing it; a sync happens outside | yes |
//! | fences: epochs | what it says, in memory; changed only by who has the log | shared |
//! | seals | the open files of the words | yes |
//! | leaving | files to be closed when their readers have ended | no |
//!
//! Order: epoch before file, either before fences, seals or volumes; the file of the volumes before
//! its contents, the log before its epochs; cache before the epochs; nothing else. Who replaces the
//! log keeps nobody from its epochs: they are shared, and only who has the log would want them
//! alone.
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
mod kept_verifier;
mod leaving;
mod object;
mod object_id;
mod options;
mod page_cache;
mod past_cache;
mod room;
mod seals;
mod sparse_file;
mod stat;
mod store;
mod store_dir;
#[cfg(test)]
mod tests;
mod unwaiting;
mod volumes;
mod whose;

pub use binding::{
    Accepted, BindRefusal, BindRequest, Circumstances, CommonRun, Restoration, ServedVolume,
    VOLUMES_MAX, judge,
};
pub use copy::CopyRange;
pub use epoch::REMOVED;
pub use error::ObjectError;
pub use group_sync::GroupSync;
pub use holes::{Sought, Stripe};
pub use object_id::ObjectId;
pub use options::ObjectStoreOptions;
pub use page_cache::CachePolicy;
pub use stat::ObjectStat;
pub use store::{ObjectStore, ReadPlan, Space, WriteVerifier};
pub use store_dir::{Misplaced, is_store};
pub use volumes::Remembered;
