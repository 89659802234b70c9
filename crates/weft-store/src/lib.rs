//! What Weft keeps on disk: the volume store of a metadata server and the object store of a data
//! server.
//!
//! The volume store is an ordered map of bytes ([`engine`]) under one namespace executor with
//! group commit ([`volume`]). It speaks inodes, directory entries and placements ([`types`]). Both
//! stores keep room on their disks ([`reserve`]).
//!
//! **What this crate never knows:** NFS, XDR, sessions, or who is asking beyond a
//! [`types::Credential`]. The executor sees no clock and no random numbers: time and fresh
//! identifiers are arguments. A disk format never reaches the wire, nor a wire type the disk
//! (`docs/formats.md`).

pub mod engine;
mod held_file;
mod make_dir;
pub mod objects;
pub mod reserve;
mod sync;
pub mod types;
pub mod volume;

pub use held_file::HeldFile;
