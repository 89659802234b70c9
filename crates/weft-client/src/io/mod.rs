//! Data of one open file: striped over data servers while a layout is held, through the
//! metadata server otherwise (the indirect path).
//!
//! - What is written, and what was read, is in the file's cache (`cache`): a write is
//!   done when it is there, or at the servers, as the policy says ([`IoPolicy`]). Whoever reads
//!   sees it in any case.
//! - Writes go out UNSTABLE; what a server has not made durable stays in the cache until a COMMIT
//!   confirms it with an unchanged verifier, and is dirty again otherwise.
//! - An error of a data server sends the range concerned through the metadata server; then the
//!   layout is settled and returned.
//! - All data servers work in parallel, each with a bounded window of requests.
//! - All opens of a file by one client share its cache and its layout, and settle together.
//! - A write that begins after another one has ended wins over it where they overlap, whatever
//!   servers lose meanwhile, because no byte is sent twice at once. Of writes that overlap and are
//!   under way at the same time one wins, byte by byte.
//!
//! [`FileIo`] is what users call. Below it: `cached` and `write_back` (between cache and servers),
//! `recover` (what is done when servers fail or forget), `reopen`, the verbs that make one try each
//! (`write`, `read`, `commit`, `layout`, `size`), and at the bottom what a file knows (`data_path`,
//! `shared_file`, `held`, `guards`), where files are (`file_table`, `memory`), what was delegated
//! (`delegated`), and what is closed (`closes`). A file uses only those below it; above all stands
//! `returns`, which gives delegations back.

mod attrs;
mod cached;
mod closes;
mod cluster;
mod commit;
mod data_path;
mod delegated;
mod fetching;
mod file_io;
mod file_table;
mod guards;
mod held;
mod layout;
mod mark;
mod memory;
mod open;
mod open_files;
mod policy;
mod read;
mod recover;
mod reopen;
mod returns;
mod server_queues;
mod shared_file;
mod sink;
mod size;
mod source;
mod watcher;
mod write;
mod write_back;

pub use attrs::NODE_ATTRS;
pub(crate) use attrs::attrs_wanted;
pub use closes::Closes;
pub use cluster::Cluster;
pub use delegated::Delegated;
pub(crate) use delegated::{Asking, Told};
pub use file_io::FileIo;
pub use file_table::FileTable;
pub use layout::LayoutInfo;
pub(crate) use open::close;
pub use open::{Asked, Opened, Since, Thresholds, Under};
pub use open_files::OpenFiles;
pub use policy::IoPolicy;
pub use returns::Returns;
pub use sink::ReadSink;
pub use source::{PieceReport, Source};
pub use watcher::{Change, Watcher, What};
pub use weft_io::MemoryRegion;
