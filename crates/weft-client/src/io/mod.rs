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

mod commit;
mod dirty;
mod gather;
mod layout;
mod open;
mod policy;
mod read;
mod server_queues;
mod shared_file;
mod source;
mod write;

use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError, Weak,
    atomic::{AtomicBool, AtomicU64, Ordering},
};

use weft_nfs::{Attrs, FileHandle, OpArgs, Seqid, StateOwner, Stateid, ops::*};

use crate::{
    error::ClientError,
    layout::{DataServers, DeviceCache, LayoutDriver},
    session::Session,
};
pub use layout::LayoutInfo;
use open::Open;
pub use policy::IoPolicy;
pub use read::ReadSink;
pub use shared_file::FileTable;
pub use source::{PieceReport, Source};

/// What all open files of a client share.
pub struct Cluster {
    /// The metadata server.
    pub mds: Session,
    /// The data servers.
    pub servers: DataServers,
    /// Devices seen.
    pub devices: DeviceCache,
    /// Layout types understood, preferred first.
    pub drivers: Vec<Arc<dyn LayoutDriver>>,
    /// Files in use.
    pub files: Arc<FileTable>,
    /// How data travel.
    pub policy: IoPolicy,
}

/// Below these sizes I/O goes through the metadata server (attribute 68, D7).
#[derive(Debug, Clone, Copy, Default)]
pub struct Thresholds {
    /// For reading.
    pub read_size: u64,
    /// For writing.
    pub write_size: u64,
}

/// What an open gave.
#[derive(Debug, Clone)]
pub struct Opened {
    /// The file.
    pub fh: FileHandle,
    /// The open.
    pub stateid: Stateid,
    /// By whom.
    pub owner: StateOwner,
    /// [`share`] bits.
    pub access: u32,
    /// Size at open.
    pub size: u64,
    /// Hints of the server.
    pub thresholds: Thresholds,
}

/// Data path of one open of a file. Shared by everyone who uses that open.
pub struct FileIo {
    cluster: Arc<Cluster>,
    open: Arc<Open>,
    file: Arc<shared_file::SharedFile>,
    /// End of the file as far as we know: grows with our writes, refreshed before reads at it.
    size: AtomicU64,
    /// Failures of the file this open has heard of, or that were before it.
    failures_seen: AtomicU64,
    has_left: AtomicBool,
}

impl FileIo {
    /// The data path of an open.
    pub fn new(cluster: Arc<Cluster>, opened: Opened) -> FileIo {
        let file = cluster.files.join(&opened.fh);
        FileIo {
            size: AtomicU64::new(opened.size),
            failures_seen: AtomicU64::new(file.failure_after(0).0),
            has_left: AtomicBool::new(false),
            open: Arc::new(Open::new(opened)),
            file,
            cluster,
        }
    }

    /// The file.
    pub fn fh(&self) -> &FileHandle {
        &self.open.opened.fh
    }

    /// The end of the file as far as this client knows.
    pub fn size(&self) -> u64 {
        self.size.load(Ordering::Acquire)
    }

    /// Notes a size set or learnt elsewhere.
    pub fn set_size(&self, size: u64) {
        self.size.store(size, Ordering::Release);
    }

    /// The open's stateid as I/O sends it: seqid 0 means the current one (RFC 8881 §8.2.2).
    pub fn io_stateid(&self) -> Stateid {
        self.open.io_stateid()
    }

    fn writable(&self) -> bool {
        self.open.is_writable()
    }

    /// Makes everything written durable and closes the open; the last one returns the layout.
    ///
    /// # Errors
    /// When written data could not be made durable or visible; the open is closed all the same.
    pub async fn close(&self) -> Result<(), ClientError> {
        let committed = self.commit().await;
        let returned = if self.leave() { self.return_layout().await } else { Ok(()) };
        // What is not safe now never will be, and the caller knows: no stateid is left for it.
        self.file.gathered.forget(&self.open).await;
        self.file.lock_dirty().forget(&self.open);
        let closed = self.send_close().await;
        committed.and(returned).and(closed)
    }

    /// Says, once, whether no other open uses the file.
    fn leave(&self) -> bool {
        !self.has_left.swap(true, Ordering::AcqRel) && self.file.leave()
    }

    /// Sets the size; what was written before is made durable first.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn truncate(&self, size: u64) -> Result<(), ClientError> {
        self.commit().await?;
        loop {
            let attrs = Attrs { size: Some(size), ..Attrs::default() };
            let set =
                OpArgs::Setattr(SetattrArgs { stateid: self.io_stateid(), attrs: attrs.into() });
            match self.cluster.mds.on_file(self.fh(), set).await {
                Ok(_) => break,
                Err(e) if e.is_lost_state() => self.reopen(&self.open).await?,
                Err(e) => return Err(e),
            }
        }
        self.set_size(size);
        Ok(())
    }

    async fn send_close(&self) -> Result<(), ClientError> {
        let open_stateid = *self.open.lock_stateid();
        let close = OpArgs::Close(CloseArgs { seqid: Seqid(0), open_stateid });
        match self.cluster.mds.on_file(self.fh(), close).await {
            Ok(_) => Ok(()),
            // Gone already, as far as the server is concerned.
            Err(e) if e.is_lost_state() => Ok(()),
            Err(ClientError::OutcomeUnknown { .. }) => Ok(()),
            Err(e) => Err(e),
        }
    }
}

impl Drop for FileIo {
    fn drop(&mut self) {
        self.leave();
    }
}

/// Open files by filehandle, for recalls.
#[derive(Default)]
pub struct OpenFiles(Mutex<Opens>);

#[derive(Default)]
struct Opens {
    files: Vec<(FileHandle, Weak<FileIo>)>,
    /// Were open when the closed ones were last forgotten.
    were_open: usize,
}

impl OpenFiles {
    /// Adds an open file. Those closed since are forgotten whenever they may be half of all: so
    /// an open costs the same however many there are.
    pub fn insert(&self, file: &Arc<FileIo>) {
        let mut opens = self.lock();
        if opens.files.len() >= 2 * opens.were_open.max(8) {
            opens.files.retain(|(_, f)| f.strong_count() > 0);
            opens.were_open = opens.files.len();
        }
        opens.files.push((file.fh().clone(), Arc::downgrade(file)));
    }

    /// The open files with this handle, or all.
    pub fn matching(&self, fh: Option<&FileHandle>) -> Vec<Arc<FileIo>> {
        let opens = self.lock();
        let files = opens.files.iter();
        files
            .filter(|(f, _)| fh.is_none_or(|fh| fh == f))
            .filter_map(|(_, f)| f.upgrade())
            .collect()
    }

    fn lock(&self) -> MutexGuard<'_, Opens> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
