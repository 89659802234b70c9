//! A file on its way from the server to this machine.

use std::{
    ffi::{OsStr, OsString},
    fs, io,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    sync::Arc,
};

use weft_io::LocalDir;

use super::{
    client::Client,
    error::{At, FsError},
    landing::{Landing, Partial, Wanted, open_special},
    naming::Naming,
    path::names_of,
    transfer::{LocalSink, Progress},
};
use crate::{error::ClientError, node::OpenOptions};

/// Called with the whole file before it gets its name.
pub(super) type Finally = Box<dyn FnOnce(&fs::File) + Send>;

/// A file on its way from the server to this machine.
pub struct Download {
    place: Place,
    pub(super) finally: Option<Finally>,
    pub(super) progress: Progress,
}

enum Place {
    Path(PathBuf),
    Entry { dir: Arc<LocalDir>, name: OsString, naming: Naming, shown: PathBuf },
}

impl Download {
    /// To a path that the user named; a link at its end is followed.
    pub fn to(path: impl AsRef<Path>) -> Download {
        Download::at(Place::Path(path.as_ref().to_path_buf()))
    }

    /// To an entry of an open directory, which errors show as this path. A link that has the name
    /// is replaced, whatever the naming.
    pub fn to_entry(
        dir: Arc<LocalDir>,
        name: &OsStr,
        (naming, shown): (Naming, &Path),
    ) -> Download {
        let (name, shown) = (name.to_owned(), shown.to_path_buf());
        Download::at(Place::Entry { dir, name, naming, shown })
    }

    fn at(place: Place) -> Download {
        Download { place, finally: None, progress: Arc::new(|_| {}) }
    }

    /// Calls this with the whole file before it gets its name, to set its attributes; not if the
    /// bytes go into a device or fifo.
    pub fn finally(self, finally: impl FnOnce(&fs::File) + Send + 'static) -> Download {
        Download { finally: Some(Box::new(finally)), ..self }
    }

    /// Tells how many bytes have arrived.
    pub fn with_progress(self, progress: Progress) -> Download {
        Download { progress, ..self }
    }

    /// The path that errors show.
    pub(super) fn shown(&self) -> PathBuf {
        match &self.place {
            Place::Path(path) => path.clone(),
            Place::Entry { shown, .. } => shown.clone(),
        }
    }

    /// Looks at the place where the file goes.
    pub(super) fn landing(&self) -> Result<Landing, FsError> {
        match &self.place {
            Place::Path(path) => Landing::of(path).at(path),
            Place::Entry { dir, name, naming, shown } => {
                let wanted = Wanted::entry(dir.clone(), name, *naming);
                wanted.map(Landing::File).at(shown)
            }
        }
    }
}

impl Client {
    /// Copies a file from the server; returns its size. The local name appears only when the
    /// file is complete, and a regular file that has it is replaced then. What is no regular file
    /// is written into; a link at the end of the local path is followed.
    ///
    /// # Errors
    /// [`FsError`]; nothing is left under the local name that was not there before.
    pub async fn get_file(
        &self,
        remote: impl AsRef<Path>,
        local: impl AsRef<Path>,
        progress: Progress,
    ) -> Result<u64, FsError> {
        self.get(remote, Download::to(local).with_progress(progress)).await
    }

    /// Copies a file from the server to the place of a download; returns its size.
    ///
    /// # Errors
    /// As [`Client::get_file`].
    pub async fn get(&self, remote: impl AsRef<Path>, download: Download) -> Result<u64, FsError> {
        let (remote, local) = (remote.as_ref(), download.shown());
        match download.landing()? {
            Landing::File(wanted) => self.get_whole(remote, &local, (wanted, download)).await,
            Landing::Special(id) => {
                let path = local.clone();
                let open = move || open_special(&path, id);
                let opened = tokio::task::spawn_blocking(open).await;
                let file = opened.map_err(io::Error::other).at(&local)?.at(&local)?;
                self.get_stream(remote, file, download.progress).await
            }
        }
    }

    async fn get_whole(
        &self,
        remote: &Path,
        local: &Path,
        (wanted, download): (Wanted, Download),
    ) -> Result<u64, FsError> {
        let Download { finally, progress, .. } = download;
        let names = names_of(remote);
        if let Some((attrs, data)) = self.get_eagerly(&names).await {
            let mode = attrs.mode.unwrap_or(0o644) & 0o777;
            let partial = Partial::create(&wanted, mode).at(local)?;
            partial.file.write_all_at(&data, 0).at(local)?;
            let size = data.len() as u64;
            partial.finish(size, finally).at(local)?;
            progress(size);
            return Ok(size);
        }
        let file = self.open_at(remote, names, OpenOptions::read(), false).await?;
        let mode = file.attrs().mode.unwrap_or(0o644) & 0o777;
        let partial = Partial::create(&wanted, mode).at(local)?;
        let sink = LocalSink::new(partial.file.clone(), progress);
        let read = self.read_data(&file, sink).await;
        let closed = file.close().await;
        let whose = if matches!(read, Err(ClientError::Local(_))) { local } else { remote };
        let size = read.at(whose)?;
        closed?;
        partial.finish(size, finally).at(local)?;
        Ok(size)
    }
}
