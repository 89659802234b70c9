//! Bytes of whole files from the server, and the progress of a transfer.

use std::{
    fs,
    io::{self, Write},
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
    /// Reads what is no hole of a file into a sink that is zeros; the file's size.
    pub(super) async fn read_data(&self, file: &File, sink: LocalSink) -> Result<u64, ClientError> {
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
pub(super) struct LocalSink {
    destination: Arc<Destination>,
    report: PieceReport,
}

impl LocalSink {
    /// A sink into a file that is zeros.
    pub(super) fn new(file: Arc<fs::File>, progress: Progress) -> LocalSink {
        LocalSink { destination: Arc::new(Destination::new(file)), report: adding_up(progress) }
    }
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
