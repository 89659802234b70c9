//! A volume: one namespace, one executor, one log of mutations (design D13, D14).
//!
//! Every call is answered from memory and the engine below it, together with the greatest LSN that
//! the answer depends on ([`Seen`]). What is not in memory is read without the volume's lock: only
//! the call that needs it, and its thread, wait for the disk.
//!
//! Nothing may be told to a client before [`Volume::durable`] returned for it, errors and negative
//! answers included: a name that looks absent may only *look* so because of a removal that a crash
//! would undo.
//!
//! ```
//! # use weft_store::types::{Credential, InodeNo, Timestamp};
//! # use weft_store::volume::{New, Volume, VolumeConfig};
//! # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
//! # let volume = Volume::in_memory(&VolumeConfig::default()).unwrap();
//! let root = Credential::superuser();
//! let now = Timestamp::default();
//! let seen = volume.create(InodeNo::ROOT, b"a", &New::file(0o644), &root, now);
//! let made = volume.confirm(seen).await.unwrap(); // on disk from here on
//! assert_eq!(made.inode.mode, 0o644);
//! # });
//! ```

mod backup;
mod check;
mod codec;
mod commit;
mod compare;
mod config;
mod fetched;
mod fsck;
mod handle;
mod keys;
mod open;
mod ops;
mod readers;
mod run;
mod seen;
mod tx;
mod walk;

pub use self::backup::{
    Backup, BackupError, BackupHeader, BackupReader, BackupSummary, Record, Restore, RestoreReport,
    Restored, restore,
};
pub use self::check::{DEPTH_MAX, FILE_BYTES_MAX, LINKS_MAX, NAME_BYTES_MAX, TARGET_BYTES_MAX};
pub use self::codec::Identity;
pub use self::commit::CommitPolicy;
pub use self::compare::{FoundObject, ObjectFault, compare, is_readable};
pub use self::config::{Format, VolumeConfig};
pub use self::fsck::Checked;
pub use self::handle::{Stats, Volume};
pub use self::ops::accounts::Account;
pub use self::ops::create::{Created, Exclusivity, New, NewFileData};
pub use self::ops::link::Linked;
pub use self::ops::placement::{Settle, SettleSize};
pub use self::ops::readdir::DirEntry;
pub use self::ops::remove::{Expect, Remove, Removed};
pub use self::ops::rename::{Rename, Renamed};
pub use self::ops::setattr::{AttrSet, Authority, SetAttr, SetMode, SetTime};
pub use self::ops::stuffed::{STUFFED_BYTES_MAX, StuffedExtent, StuffedSeek, StuffedWrite};
pub use self::ops::xattr::{
    XATTR_NAME_BYTES_MAX, XATTR_NAMES_BYTES_MAX, XATTR_VALUE_BYTES_MAX, XATTR_VALUES_BYTES_MAX,
    XattrEntry, XattrHow,
};
pub use self::run::VolumeRun;
pub use self::seen::Seen;
pub use self::walk::PlacedFiles;
