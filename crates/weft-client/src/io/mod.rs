//! Data of one open file: striped over data servers while a layout is held, through the
//! metadata server otherwise (the indirect path).
//!
//! - Writes go out UNSTABLE; what a server has not made durable is remembered until a COMMIT
//!   confirms it with an unchanged verifier, and written again otherwise.
//! - An error of a data server sends the range concerned through the metadata server; then the
//!   layout is settled and returned.
//! - All data servers work in parallel, each with a bounded window of requests.
//! - All opens of a file by one client share its layout and settle together.
//! - A write that begins after another one has ended wins over it where they overlap, whatever
//!   servers lose meanwhile. Writes that overlap and are under way at the same time land in any
//!   order; the one that ended last is the one written again.
//! - Small writes may be gathered before they leave: [`IoPolicy`].
//!
//! [`FileIo`] is what users call. Below it: `recover` (what is done when servers fail or forget),
//! `reopen`, the verbs that make one try each (`write`, `read`, `commit`, `layout`, `size`), and at
//! the bottom what a file knows (`data_path`, `shared_file`, `held`, `dirty`, `guards`). A file
//! uses only those below it.

mod cluster;
mod commit;
mod data_path;
mod dirty;
mod file_io;
mod gather;
mod guards;
mod held;
mod layout;
mod open;
mod open_files;
mod policy;
mod read;
mod recover;
mod reopen;
mod server_queues;
mod shared_file;
mod sink;
mod size;
mod source;
mod write;

pub use cluster::Cluster;
pub use file_io::FileIo;
pub use layout::LayoutInfo;
pub use open::{Opened, Thresholds};
pub use open_files::OpenFiles;
pub use policy::IoPolicy;
pub use shared_file::FileTable;
pub use sink::ReadSink;
pub use source::{PieceReport, Source};
pub use weft_io::MemoryRegion;
