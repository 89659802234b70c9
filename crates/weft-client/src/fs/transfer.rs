//! Whole files between here and there.

use std::{
    fs::{self, Permissions},
    io,
    os::unix::fs::{FileExt, OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use bytes::Bytes;
use weft_io::Destination;

use super::{
    client::Client,
    error::{At, FsError},
    file::OpenOptions,
    path::names_of,
};
use crate::{
    error::ClientError,
    io::{PieceReport, ReadSink, Source},
    limits,
    random::random,
};

/// Told how many bytes have arrived so far.
pub type Progress = Arc<dyn Fn(u64) + Send + Sync>;

/// Adds up what the pieces report.
fn adding_up(progress: Progress) -> PieceReport {
    let so_far = AtomicU64::new(0);
    Arc::new(move |bytes| progress(so_far.fetch_add(bytes, Ordering::Relaxed) + bytes))
}

impl Client {
    /// Copies a local file to the server; returns its size. On return the data are durable on
    /// every data server and visible to others. The local file must not change meanwhile.
    ///
    /// # Errors
    /// [`FsError`]; the remote file may then hold part of the data.
    pub async fn put_file(
        &self,
        local: impl AsRef<Path>,
        remote: impl AsRef<Path>,
        progress: Progress,
    ) -> Result<u64, FsError> {
        let (local, remote) = (local.as_ref(), remote.as_ref());
        let source = fs::File::open(local).at(local)?;
        let metadata = source.metadata().at(local)?;
        if !metadata.is_file() {
            return Err(ClientError::Invalid("not a regular file")).at(local);
        }
        let mode = metadata.permissions().mode() & 0o777;
        let size = metadata.len();
        let names = names_of(remote);
        if let Some(data) = whole(&source, size).at(local)?
            && self.put_eagerly(&names, mode, data).await
        {
            progress(size);
            return Ok(size);
        }
        let file = self.open_at(remote, names, OpenOptions::replace(mode)).await?;
        let source = Source::file(Arc::new(source)).with_report(adding_up(progress));
        let written = file.io().write(0, size, &source).await.at(remote);
        let closed = file.close().await;
        written.and(closed).map(|()| size)
    }

    /// Copies a file from the server; returns its size. The local name appears only when the
    /// file is complete.
    ///
    /// # Errors
    /// [`FsError`]; nothing is left under the local name that was not there before.
    pub async fn get_file(
        &self,
        remote: impl AsRef<Path>,
        local: impl AsRef<Path>,
        progress: Progress,
    ) -> Result<u64, FsError> {
        let (remote, local) = (remote.as_ref(), local.as_ref());
        let names = names_of(remote);
        if let Some((attrs, data)) = self.get_eagerly(&names).await {
            let partial = Partial::create(local, attrs.mode.unwrap_or(0o644) & 0o777).at(local)?;
            partial.file.write_all_at(&data, 0).at(local)?;
            let size = data.len() as u64;
            partial.finish(size).at(local)?;
            progress(size);
            return Ok(size);
        }
        let file = self.open_at(remote, names, OpenOptions::read()).await?;
        let mode = file.attrs().mode.unwrap_or(0o644) & 0o777;
        let partial = Partial::create(local, mode).at(local)?;
        let destination = Arc::new(Destination::new(partial.file.clone()));
        let sink = LocalSink { destination, report: adding_up(progress) };
        let read = file.io().read_into(0, file.size(), Arc::new(sink)).await;
        let closed = file.close().await;
        let whose = if matches!(read, Err(ClientError::Local(_))) { local } else { remote };
        let size = read.at(whose)?;
        closed?;
        partial.finish(size).at(local)?;
        Ok(size)
    }
}

/// The bytes of a local file that is small enough to travel whole.
fn whole(source: &fs::File, size: u64) -> io::Result<Option<Bytes>> {
    let small = usize::try_from(size).ok().filter(|size| *size <= limits::EAGER_BYTES);
    let Some(size) = small else { return Ok(None) };
    let mut data = vec![0; size];
    source.read_exact_at(&mut data, 0)?;
    Ok(Some(data.into()))
}

/// A local file under a temporary name, removed unless finished.
struct Partial {
    file: Arc<fs::File>,
    temporary: PathBuf,
    wanted: PathBuf,
    finished: bool,
}

impl Partial {
    fn create(wanted: &Path, mode: u32) -> Result<Partial, ClientError> {
        let name = wanted.file_name().ok_or(ClientError::Invalid("not a file name"))?;
        let mut hidden = std::ffi::OsString::from(".");
        hidden.push(name);
        hidden.push(format!(".weft-{:016x}", u64::from_be_bytes(random()?)));
        let temporary = wanted.with_file_name(hidden);
        let mut options = fs::OpenOptions::new();
        let file = options.write(true).create_new(true).mode(0o600).open(&temporary)?;
        let partial = Partial {
            file: Arc::new(file),
            temporary,
            wanted: wanted.to_path_buf(),
            finished: false,
        };
        partial.file.set_permissions(Permissions::from_mode(mode))?;
        Ok(partial)
    }

    fn finish(mut self, size: u64) -> io::Result<()> {
        // Holes at the end were never written.
        self.file.set_len(size)?;
        fs::rename(&self.temporary, &self.wanted)?;
        self.finished = true;
        Ok(())
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        if !self.finished {
            let _ = fs::remove_file(&self.temporary);
        }
    }
}

/// Puts what is read to its place in a local file.
struct LocalSink {
    destination: Arc<Destination>,
    report: PieceReport,
}

impl ReadSink for LocalSink {
    async fn take(&self, offset: u64, data: Bytes) -> io::Result<()> {
        let bytes = data.len() as u64;
        self.destination.write(data, offset).await?;
        self.placed(bytes);
        Ok(())
    }

    fn destination(&self) -> Option<Arc<Destination>> {
        Some(self.destination.clone())
    }

    fn placed(&self, bytes: u64) {
        (self.report)(bytes);
    }
}
