//! Files by path, without a mount.
//!
//! Paths are absolute in the server's exported tree. `..` is taken away by the text of the path,
//! symbolic links are followed by us (the server never does).

mod builder;
mod bulk;
mod client;
mod declined;
mod dir;
mod download;
mod eager;
pub(crate) mod error;
mod extents;
mod file;
mod giving;
mod landing;
mod namespace;
mod naming;
mod path;
mod pieces;
mod put;
mod recall;
mod replacing;
mod scratch;
mod server_copy;
mod transfer;
mod unfinished;
mod walk;
mod xattrs;

pub use builder::ClientBuilder;
pub use bulk::{Reading, Writing};
pub use client::{Client, ClientOptions, STAT_ATTRS};
pub use declined::is_copy_declined;
pub use dir::ReadDir;
pub use download::Download;
pub use error::FsError;
pub use file::File;
pub use naming::Naming;
pub use pieces::{PIECE_BYTES, PieceSender};
pub use put::Upload;
pub use transfer::Progress;
pub use walk::{Step, Walk};
// What users of files name of the protocol.
pub use weft_nfs::{Attrs, FileType, NfsTime, attr::SetTime, ops::DirEntry};

pub use crate::node::OpenOptions;
