//! Data of one open file: striped over data servers while a layout is held, through the
//! metadata server otherwise (the indirect path).
//!
//! - Writes go out UNSTABLE; what a server has not made durable is remembered until a COMMIT
//!   confirms it with an unchanged verifier, and written again otherwise.
//! - An error of a data server sends the range concerned through the metadata server; then the
//!   layout is settled and returned.
//! - All data servers work in parallel, each with a bounded window of requests.

mod commit;
mod lanes;
mod layout;
mod read;
mod source;
mod write;

use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError, Weak,
    atomic::{AtomicU64, Ordering},
};

use tokio::sync::{Mutex as AsyncMutex, RwLock};
use weft_nfs::{Attrs, FileHandle, OpArgs, OpOk, Seqid, StateOwner, Stateid, ops::*, share};

use crate::{
    error::ClientError,
    layout::{DataServers, DeviceCache, LayoutDriver},
    session::Session,
};
pub use layout::LayoutInfo;
use layout::LayoutState;
pub use read::ReadSink;
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

/// Data path of one open file. Shared by everyone who uses that open.
pub struct FileIo {
    cluster: Arc<Cluster>,
    opened: Opened,
    stateid: Mutex<Stateid>,
    /// End of the file as far as we know: grows with our writes, refreshed before reads at it.
    size: AtomicU64,
    /// I/O holds it for reading, whatever changes the layout for writing: so a layout goes back
    /// only when no request relies on it any more.
    gate: RwLock<LayoutState>,
    dirty: Mutex<commit::Dirty>,
    /// Held by whoever settles: see [`commit::Round`].
    rounds: AsyncMutex<()>,
    reopens: Mutex<u32>,
}

impl FileIo {
    /// The data path of an open.
    pub fn new(cluster: Arc<Cluster>, opened: Opened) -> FileIo {
        FileIo {
            stateid: Mutex::new(opened.stateid),
            size: AtomicU64::new(opened.size),
            gate: RwLock::new(LayoutState::None),
            dirty: Mutex::new(commit::Dirty::default()),
            rounds: AsyncMutex::new(()),
            reopens: Mutex::new(0),
            cluster,
            opened,
        }
    }

    /// The file.
    pub fn fh(&self) -> &FileHandle {
        &self.opened.fh
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
        Stateid { seqid: Seqid(0), ..*self.lock_stateid() }
    }

    fn writable(&self) -> bool {
        self.opened.access & share::ACCESS_WRITE != 0
    }

    /// Makes everything written durable, returns the layout and closes the open.
    ///
    /// # Errors
    /// When written data could not be made durable; the open is closed all the same.
    pub async fn close(&self) -> Result<(), ClientError> {
        let committed = self.commit().await;
        let returned = self.return_layout().await;
        let closed = self.send_close().await;
        committed.and(returned).and(closed)
    }

    /// Sets the size; what was written before is made durable first.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn truncate(&self, size: u64) -> Result<(), ClientError> {
        self.commit().await?;
        let attrs = Attrs { size: Some(size), ..Attrs::default() };
        let set = OpArgs::Setattr(SetattrArgs { stateid: self.io_stateid(), attrs });
        self.cluster.mds.on_file(self.fh(), set).await?;
        self.set_size(size);
        Ok(())
    }

    async fn send_close(&self) -> Result<(), ClientError> {
        let open_stateid = *self.lock_stateid();
        let close = OpArgs::Close(CloseArgs { seqid: Seqid(0), open_stateid });
        match self.cluster.mds.on_file(self.fh(), close).await {
            Ok(_) => Ok(()),
            // Gone already, as far as the server is concerned.
            Err(e) if e.is_lost_state() => Ok(()),
            Err(ClientError::OutcomeUnknown { .. }) => Ok(()),
            Err(e) => Err(e),
        }
    }

    /// Opens the file again by its handle, after the server has lost our state (§8.4.2). The
    /// layout went with it.
    async fn reopen(&self) -> Result<(), ClientError> {
        {
            let mut reopens = self.reopens.lock().unwrap_or_else(PoisonError::into_inner);
            if *reopens >= crate::limits::REOPENS_MAX {
                return Err(ClientError::Invalid("the server keeps dropping our open"));
            }
            *reopens += 1;
        }
        let mut state = self.gate.write().await;
        let open = OpArgs::Open(OpenArgs {
            seqid: Seqid(0),
            share_access: self.opened.access,
            share_deny: share::DENY_NONE,
            owner: self.opened.owner.clone(),
            openhow: None,
            claim: OpenClaim::Fh,
        });
        match self.cluster.mds.on_file(self.fh(), open).await? {
            OpOk::Open(ok) => *self.lock_stateid() = ok.stateid,
            _ => return Err(ClientError::Protocol("OPEN answered with something else")),
        }
        *state = LayoutState::None;
        Ok(())
    }

    fn lock_stateid(&self) -> MutexGuard<'_, Stateid> {
        self.stateid.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_dirty(&self) -> MutexGuard<'_, commit::Dirty> {
        self.dirty.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Open files by filehandle, for recalls.
#[derive(Default)]
pub struct OpenFiles(Mutex<Vec<(FileHandle, Weak<FileIo>)>>);

impl OpenFiles {
    /// Adds an open file; those closed since are forgotten.
    pub fn insert(&self, file: &Arc<FileIo>) {
        let mut files = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        files.retain(|(_, f)| f.strong_count() > 0);
        files.push((file.fh().clone(), Arc::downgrade(file)));
    }

    /// The open files with this handle, or all.
    pub fn matching(&self, fh: Option<&FileHandle>) -> Vec<Arc<FileIo>> {
        let files = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        files
            .iter()
            .filter(|(f, _)| fh.is_none_or(|fh| fh == f))
            .filter_map(|(_, f)| f.upgrade())
            .collect()
    }
}
