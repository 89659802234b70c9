//! Whole files from the server, and how far a transfer is.

use std::{
    fs,
    io::{self, Write},
    os::unix::fs::FileExt,
    path::Path,
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
    file::{CUT, File},
    landing::{Landing, Partial},
    naming::Naming,
    path::names_of,
};
use crate::{
    boxed::Boxed,
    error::ClientError,
    io::{PieceReport, ReadSink},
    node::OpenOptions,
};

/// Told how many bytes have arrived so far.
pub type Progress = Arc<dyn Fn(u64) + Send + Sync>;

/// Bytes written to a stream at a time.
const STREAM_BYTES: usize = 4 << 20;

/// Adds up what the pieces report.
pub(super) fn adding_up(progress: Progress) -> PieceReport {
    let so_far = AtomicU64::new(0);
    Arc::new(move |bytes| progress(so_far.fetch_add(bytes, Ordering::Relaxed) + bytes))
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
        self.get_named(remote, local, (Naming::Given, progress)).await
    }

    /// The same; a name that came about otherwise is not followed.
    ///
    /// # Errors
    /// As [`Client::get_file`].
    pub async fn get_named(
        &self,
        remote: impl AsRef<Path>,
        local: impl AsRef<Path>,
        (naming, progress): (Naming, Progress),
    ) -> Result<u64, FsError> {
        let (remote, local) = (remote.as_ref(), local.as_ref());
        match Landing::named(local, naming).at(local)? {
            Landing::File(landing) => {
                let partial = |mode| Partial::create(&landing, mode);
                self.get_whole(remote, local, (partial, progress)).await
            }
            Landing::Special => {
                let path = local.to_path_buf();
                // To open a fifo waits for whoever reads from it.
                let open = move || fs::OpenOptions::new().write(true).open(path);
                let opened = tokio::task::spawn_blocking(open).await;
                let file = opened.map_err(io::Error::other).at(local)?.at(local)?;
                self.get_stream(remote, file, progress).await
            }
        }
    }

    async fn get_whole(
        &self,
        remote: &Path,
        local: &Path,
        (create, progress): (impl Fn(u32) -> Result<Partial, ClientError>, Progress),
    ) -> Result<u64, FsError> {
        let names = names_of(remote);
        if let Some((attrs, data)) = self.get_eagerly(&names).await {
            let partial = create(attrs.mode.unwrap_or(0o644) & 0o777).at(local)?;
            partial.file.write_all_at(&data, 0).at(local)?;
            let size = data.len() as u64;
            partial.finish(size).at(local)?;
            progress(size);
            return Ok(size);
        }
        let file = self.open_at(remote, names, OpenOptions::read(), false).await?;
        let mode = file.attrs().mode.unwrap_or(0o644) & 0o777;
        let partial = create(mode).at(local)?;
        let destination = Arc::new(Destination::new(partial.file.clone()));
        let sink = LocalSink { destination, report: adding_up(progress) };
        let read = self.read_data(&file, sink).await;
        let closed = file.close().await;
        let whose = if matches!(read, Err(ClientError::Local(_))) { local } else { remote };
        let size = read.at(whose)?;
        closed?;
        partial.finish(size).at(local)?;
        Ok(size)
    }

    /// Reads what is no hole of a file into a sink that is zeros; the file's size.
    async fn read_data(&self, file: &File, sink: LocalSink) -> Result<u64, ClientError> {
        let sink = Arc::new(sink);
        let mut at = 0;
        while let Some((start, end)) = self.next_data_of(file, at).await? {
            file.io().read_into(start, end.saturating_sub(start), sink.clone()).await?;
            at = end;
        }
        file.require_uncut().await?;
        Ok(file.size())
    }

    /// Writes a file's bytes to a stream, from the first to the last; returns their number.
    ///
    /// # Errors
    /// [`FsError`], also if the file became shorter meanwhile; part of the file may have been
    /// written. [`ClientError::Local`] is the stream's.
    pub async fn get_stream(
        &self,
        remote: impl AsRef<Path>,
        mut to: impl Write + Send + 'static,
        progress: Progress,
    ) -> Result<u64, FsError> {
        let remote = remote.as_ref();
        let file = self.open_at(remote, names_of(remote), OpenOptions::read(), false).await?;
        let mut offset = 0;
        let written = loop {
            let data = match file.read_at(offset, STREAM_BYTES).await {
                // Its size was asked for, to know that this is the end.
                Ok(data) if data.is_empty() && file.size() < offset => break Err(CUT).at(remote),
                Ok(data) if data.is_empty() => break Ok(offset),
                Ok(data) => data,
                Err(e) => break Err(e),
            };
            offset += data.len() as u64;
            // The stream may stand still for as long as its reader likes.
            let write = move || to.write_all(&data).and_then(|()| to.flush()).map(|()| to);
            let wrote = tokio::task::spawn_blocking(write).await;
            to = match wrote.unwrap_or_else(|e| Err(io::Error::other(e))).at(remote) {
                Ok(to) => to,
                Err(e) => break Err(e),
            };
            progress(offset);
        };
        let closed = file.close().await;
        written.and_then(|size| closed.map(|()| size))
    }
}

/// Puts what is read to its place in a local file.
struct LocalSink {
    destination: Arc<Destination>,
    report: PieceReport,
}

impl ReadSink for LocalSink {
    fn take(&self, offset: u64, data: Bytes) -> Boxed<'_, io::Result<()>> {
        Box::pin(async move {
            let bytes = data.len() as u64;
            self.destination.write(data, offset).await?;
            self.placed(bytes);
            Ok(())
        })
    }

    fn destination(&self) -> Option<Arc<Destination>> {
        Some(self.destination.clone())
    }

    fn placed(&self, bytes: u64) {
        (self.report)(bytes);
    }
}
