//! Moving RPC records between sockets, memory and files; and files that survive a power cut
//! ([`durable`]).
//!
//! Sending executes a plan: a list of [`Segment`]s whose bytes go out by vectored writes and whose
//! file ranges go from page cache to socket by `sendfile`, never through our memory. Receiving
//! reads large records straight into the buffer they are decoded from, in which a payload may lie
//! as a disk wants it that is written past the page cache; or, where a payload is wanted in a
//! file, moves it there inside the kernel, and where it is wanted in memory of the caller's, reads
//! it there. Processes of one host hand each other open files ([`send_descriptor`]), which are read
//! without waiting for a disk on the runtime's threads ([`LocalFile`]). Entries of directories that
//! other users own are reached through an open [`LocalDir`].
//!
//! **Invariants of absence.** Nothing here knows RPC beyond record marking, or NFS, or what a file
//! is for. A record is sent whole or the connection is shut down: nothing is sent short.
//!
//! Entry points: [`RecordReader`], [`RecordSender`], [`ensure_resident`], [`Destination`],
//! [`MemoryRegion`], [`share_range`].

mod cipher;
mod descriptor;
pub mod durable;
mod local_dir;
mod local_read;
mod memory;
mod pipe;
mod place;
mod receive;
mod resident;
mod send;
mod share;
mod spare;

pub use cipher::{Ciphers, OpenRecords, SealRecords};
pub use descriptor::{is_read_only_file, keep_few_on_the_way, receive_descriptor, send_descriptor};
pub use local_dir::{FileId, LocalDir};
pub use local_read::LocalFile;
pub use memory::MemoryRegion;
pub use place::{CancelGuard, Destination, Received, Target};
pub use receive::{Begun, RecordIoError, RecordReader};
pub use resident::{ensure_resident, in_memory};
pub use send::{RecordSender, send_record};
pub use share::share_range;
pub use spare::{PAGE_BYTES, lend, whole_pages};
pub use weft_xdr::{FileRange, Segment};
