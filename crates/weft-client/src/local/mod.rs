//! Objects of data servers on this host, read by descriptor (ADR 32): where a data server has a
//! Unix socket here, it hands out its objects' files, read-only, for filehandles that it would
//! take for READ.
//!
//! What was handed out cannot be taken back, so it is asked for again: a descriptor is used for
//! [`limits::DESCRIPTOR_AGE`], not after the file was opened again, and only while its file has a
//! name. Whatever is not had here goes the way of every other READ.
//!
//! Entry points: [`LocalObjects`], and a [`Door`] for each data server.

mod descriptors;
mod door;

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Instant,
};

use bytes::Bytes;

use crate::sync::Mutex;
use descriptors::Descriptors;
pub use descriptors::LocalObject;
pub use door::Door;

#[cfg(doc)]
use crate::limits;

/// The directory where data servers of this host have their sockets, unless told otherwise.
pub const LOCAL_SOCKETS: &str = "/run/weft-local";

/// What a client has of objects on its host.
#[derive(Debug)]
pub struct LocalObjects {
    /// The directory of sockets.
    dir: PathBuf,
    descriptors: Mutex<Descriptors>,
    /// Bytes read by descriptor.
    bytes: AtomicU64,
}

impl LocalObjects {
    /// With the sockets of this directory.
    pub fn new(dir: &Path) -> Arc<LocalObjects> {
        let dir = dir.to_owned();
        Arc::new(LocalObjects { dir, descriptors: Mutex::default(), bytes: AtomicU64::new(0) })
    }

    /// Bytes read by descriptor so far.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// So many bytes were read by descriptor.
    pub fn count(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Descriptors that are open.
    pub fn open(&self) -> usize {
        self.descriptors.lock().len()
    }

    /// The object of a filehandle, if it is known well enough: asked for after `since`, and not
    /// too long ago.
    pub fn known(&self, fh: &Bytes, since: Instant) -> Option<LocalObject> {
        self.descriptors.lock().find(fh, since)
    }

    /// The same, asked for at the door of its data server if need be, whose server owner is
    /// `owner`.
    pub async fn ask(
        &self,
        door: &Door,
        owner: &[u8],
        (fh, since): (&Bytes, Instant),
    ) -> Option<LocalObject> {
        // A second time if the data server was started again, or has ended an idle connection.
        for is_last in [false, true] {
            let mut turn = door.turn(&self.dir, owner).await?;
            // Who waited for his turn may find it asked for.
            if let Some(known) = self.known(fh, since) {
                return Some(known);
            }
            let asked = Instant::now();
            match turn.ask(fh).await {
                Ok(Ok(file)) => {
                    let object = LocalObject::new(file, asked);
                    self.descriptors.lock().keep(fh, &object);
                    return Some(object);
                }
                Ok(Err(status)) => {
                    tracing::debug!(?status, "no descriptor of an object");
                    break;
                }
                Err(error) if is_last => {
                    tracing::warn!(%error, "a local socket fails: its objects are read over TCP");
                    turn.shut();
                }
                Err(error) => tracing::debug!(%error, "a local socket is opened anew"),
            }
        }
        self.forget(fh);
        None
    }

    /// The object of this filehandle is not wanted any more.
    pub fn forget(&self, fh: &Bytes) {
        let forgotten = self.descriptors.lock().remove(fh);
        drop(forgotten); // closed without the lock
    }
}

/// While it lives, descriptors of these filehandles may be kept; with it they are closed.
#[derive(Debug)]
pub struct LocalHold {
    objects: Arc<LocalObjects>,
    fhs: Vec<Bytes>,
}

impl LocalHold {
    /// Of these filehandles.
    pub fn new(objects: Arc<LocalObjects>, fhs: Vec<Bytes>) -> LocalHold {
        LocalHold { objects, fhs }
    }
}

impl Drop for LocalHold {
    fn drop(&mut self) {
        self.fhs.iter().for_each(|fh| self.objects.forget(fh));
    }
}
