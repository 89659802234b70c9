//! What is mounted.

use std::{
    ffi::OsStr,
    os::unix::ffi::OsStrExt,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use bytes::Bytes;
use fuser::{Errno, FileAttr, FileType, INodeNo, Notifier};
use tokio::sync::RwLock as AsyncRwLock;
use weft_client::{
    ClientError,
    node::{DirChange, Node},
    session::{Reclaim, Reclaims},
};
use weft_nfs::{Attrs, Component, Opaque, attr::ModeUmask};

use crate::{
    attr::file_attr,
    errno::OrErrno,
    inodes::Inodes,
    locks::Locks,
    notices::{ALL_BYTES, NO_BYTES, Telling},
    opening::Found,
    recent::RecentAttrs,
    retries::Retries,
    slots::{OpenDir, OpenFile, Slots},
    unlocking::Unlocking,
};

/// What is mounted, and what the kernel has open of it.
pub struct Tree {
    pub inodes: Inodes,
    pub files: Slots<OpenFile>,
    pub dirs: Slots<OpenDir>,
    pub locks: Arc<Locks>,
    /// Files whose locks are being released after a close.
    pub unlocking: Arc<Unlocking>,
    pub recent: RecentAttrs,
    pub retries: Retries<Found>,
    /// How long what the server told is believed.
    pub valid: Duration,
    /// What tells the kernel of changes, once it is mounted.
    pub notifier: OnceLock<Notifier>,
    /// What it is to be told of changes by others.
    pub telling: Telling,
    /// Whether the kernel can map files that it does not cache otherwise.
    pub maps_direct: AtomicBool,
    /// Held for reading while an open is closed of which the kernel has let go.
    pub releasing: AsyncRwLock<()>,
}

/// Mode and umask of what a program makes.
#[derive(Debug, Clone, Copy)]
pub struct Creation {
    pub mode: u32,
    pub umask: u32,
}

impl Creation {
    /// As attributes: the server applies the umask, unless a list of the directory says otherwise
    /// (RFC 8275).
    pub fn attrs(self) -> Attrs {
        let Creation { mode, umask } = self;
        let mode_umask = Some(ModeUmask { mode: mode & 0o7777, umask });
        Attrs { mode_umask, ..Attrs::default() }
    }
}

/// A name as the kernel gives it.
pub fn component(name: &OsStr) -> Component {
    Component(Bytes::copy_from_slice(name.as_bytes()))
}

impl Tree {
    /// Of a file system with this root, whose attributes are believed for so long; nothing is open.
    pub fn new(root: &Node, valid: Duration) -> Tree {
        Tree {
            inodes: Inodes::new(root),
            files: Slots::default(),
            dirs: Slots::default(),
            locks: Arc::default(),
            unlocking: Arc::default(),
            recent: RecentAttrs::new(valid),
            valid,
            notifier: OnceLock::new(),
            telling: Telling::default(),
            maps_direct: AtomicBool::new(false),
            retries: Retries::default(),
            releasing: AsyncRwLock::default(),
        }
    }

    /// Whether large files are read and written past the kernel's page cache: only if it keeps
    /// what it has cached for others in step with that, which those kernels do that also map such
    /// files.
    pub fn goes_direct(&self) -> bool {
        self.maps_direct.load(Ordering::Relaxed)
    }

    /// Time for which the kernel may follow a name without asking. No notice tells the mount of
    /// names that others give and take, so the kernel asks for a file's name each time that a
    /// program uses it, and opens the file that has the name now. Names of directories hold as long
    /// as attributes.
    pub fn name_holds(&self, kind: FileType) -> Duration {
        if kind == FileType::Directory { self.valid } else { Duration::ZERO }
    }

    /// Has the kernel drop a file's attributes, and ask for them when it next needs them. It waits
    /// for no page for that.
    pub async fn forget_attributes(&self, ino: u64) {
        self.invalidate(ino, NO_BYTES).await;
    }

    /// The kernel forgets what it has of a file's attributes and bytes, as our client does, and
    /// asks anew.
    pub async fn forget_pages(&self, ino: u64) {
        self.inodes.opens(ino).iter().for_each(|io| io.forget_kept());
        self.invalidate(ino, ALL_BYTES).await;
    }

    /// Has the kernel drop a file's attributes, and its bytes from an offset on.
    async fn invalidate(&self, ino: u64, from: i64) {
        let Some(notifier) = self.notifier.get().cloned() else { return };
        // For bytes the kernel waits for reads that are under way, which others answer.
        let told = tokio::task::spawn_blocking(move || notifier.inval_inode(INodeNo(ino), from, 0));
        if let Ok(Err(e)) = told.await {
            tracing::warn!(ino, "the kernel may have outdated attributes or bytes: {e}");
        }
    }

    /// How a change of a directory ended. After a failure it is not known what there is.
    pub fn in_dir<T>(&self, ino: u64, changed: Result<T, ClientError>) -> Result<T, Errno> {
        if changed.is_err() {
            self.recent.forget(ino);
        }
        changed.or_errno()
    }

    /// What the server told of a directory with a change of it.
    pub fn dir_told(&self, ino: u64, change: DirChange) {
        match &change.attrs {
            Some(attrs) => self.recently_told(ino, attrs),
            None => self.recent.forget(ino),
        }
    }

    /// What the server told of an inode with something else.
    pub fn recently_told(&self, ino: u64, attrs: &Attrs) {
        if let Some(change) = attrs.change {
            self.recent.note(file_attr(ino, attrs), change, Instant::now());
        }
    }

    /// Drops what was told of a file if it was written through this mount since.
    pub fn forget_if_written(&self, ino: u64, since: Instant) {
        if !self.inodes.is_unwritten_since(ino, since) {
            self.recent.forget(ino);
        }
    }

    /// The kernel has forgotten a number so many times.
    pub fn forget(&self, ino: u64, times: u64) {
        if self.inodes.forget(ino, times) {
            self.recent.forget(ino);
        }
    }

    /// The kernel is told of a node by this name.
    pub fn told(&self, node: &Node, place: (u64, &Component)) -> Result<FileAttr, Errno> {
        let number = self.inodes.remember(node)?;
        self.inodes.named(number, place);
        Ok(self.with_mode_noted(file_attr(number, &node.attrs)))
    }

    /// Notes of attributes on their way to the kernel what it is going to believe.
    pub fn with_mode_noted(&self, attr: FileAttr) -> FileAttr {
        self.inodes.note_mode(attr.ino.0, attr.perm);
        attr
    }

    /// A file was changed by a caller whose changes take set-id bits away. The kernel leaves that
    /// to the server (FUSE_HANDLE_KILLPRIV_V2), but goes on to believe what it was told of the
    /// mode: it is to ask before the caller hears that the change is done.
    pub async fn set_id_may_be_gone(&self, ino: u64) {
        if self.inodes.take_set_id(ino) {
            self.forget_attributes(ino).await;
        }
    }
}

/// Reclaims the open files that were removed through this mount: no name is left to open them by.
impl Reclaims for Tree {
    fn requests(&self) -> Vec<Reclaim> {
        let opens = self.files.all();
        let removed = opens.iter().filter(|open| self.inodes.is_removed(open.io.fh()));
        let reclaim =
            |open: &Arc<OpenFile>| open.nodes.reclaiming(&open.io, &Opaque::default(), &[], drop);
        removed.map(reclaim).collect()
    }
}
