//! Reading.

use std::{
    collections::BTreeMap,
    io,
    sync::{Arc, Mutex, PoisonError, atomic::Ordering},
};

use bytes::{Bytes, BytesMut};
use weft_io::Destination;
use weft_nfs::{AttrNo, Bitmap, FileHandle, IoMode, OpArgs, OpOk, Stateid, ops::GetattrArgs};

use super::{
    Cluster, FileIo,
    layout::LayoutState,
    server_queues::{self, Piece, Target},
    write::is_curable,
};
use crate::{
    error::ClientError,
    session::{DataRead, Session},
};

/// Takes what was read, piece by piece, in any order. Places never given are zeros.
pub trait ReadSink: Send + Sync + 'static {
    /// Data at a file offset: a slice of the receive buffer.
    fn take(&self, offset: u64, data: Bytes) -> impl Future<Output = io::Result<()>> + Send;

    /// A file that data may be put into at their file offsets, past [`ReadSink::take`].
    fn destination(&self) -> Option<Arc<Destination>> {
        None
    }

    /// So many bytes were put there.
    fn placed(&self, _bytes: u64) {}
}

impl FileIo {
    /// The file's size, asked of the metadata server.
    ///
    /// # Errors
    /// Those of GETATTR.
    pub async fn fetch_size(&self) -> Result<u64, ClientError> {
        let request = Bitmap::of(&[AttrNo::SIZE]);
        match self.cluster.mds.on_file(self.fh(), OpArgs::Getattr(GetattrArgs { request })).await? {
            OpOk::Getattr(ok) => {
                ok.attrs.size.ok_or(ClientError::Protocol("GETATTR without the size"))
            }
            _ => Err(ClientError::Protocol("GETATTR answered with something else")),
        }
    }

    /// Reads at most `len` bytes; fewer only at the end of the file. One piece is returned as
    /// it was received, several are joined in one copy.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn read(&self, offset: u64, len: usize) -> Result<Bytes, ClientError> {
        let gathered = Arc::new(Gathered::default());
        let read = self.read_into(offset, len as u64, gathered.clone()).await?;
        let read = usize::try_from(read).map_err(|_| ClientError::Invalid("too long"))?;
        Ok(gathered.join(offset, read))
    }

    /// Reads into a sink; returns the number of bytes up to the end of the range or the file.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn read_into<S: ReadSink>(
        &self,
        offset: u64,
        len: u64,
        sink: Arc<S>,
    ) -> Result<u64, ClientError> {
        self.flush().await?;
        let wanted_end = offset.saturating_add(len);
        if wanted_end > self.size() {
            // Another client may have written more since (or less, if it truncated).
            let size = self.fetch_size().await?;
            if self.writable() {
                // What we wrote ourselves counts, told to the server or not.
                self.size.fetch_max(size, Ordering::AcqRel);
            } else {
                self.set_size(size);
            }
        }
        let len = wanted_end.min(self.size()).saturating_sub(offset);
        if len == 0 {
            return Ok(0);
        }
        let worth_it = self.size() >= self.open.opened.thresholds.read_size;
        let iomode = if self.writable() { IoMode::RW } else { IoMode::READ };
        let (mut failed, mut through_layout) = (vec![(offset, len)], false);
        if let LayoutState::Held(held) = &*self.access(&self.open, iomode, worth_it).await {
            let io_bytes = self.cluster.mds.io_bytes_max().0;
            let queues = server_queues::striped_queues(&held.plan, &[(offset, len)], io_bytes);
            failed = self.read_queues(queues, sink.clone()).await?;
            through_layout = true;
        }
        if through_layout && !failed.is_empty() {
            tracing::warn!(ranges = failed.len(), "data server failed: through the MDS instead");
            self.give_up_layout(&self.quiet().await).await?;
        }
        for range in failed {
            self.read_through_mds(range, sink.clone()).await?;
        }
        Ok(len)
    }

    async fn read_through_mds<S: ReadSink>(
        &self,
        range: (u64, u64),
        sink: Arc<S>,
    ) -> Result<(), ClientError> {
        loop {
            let io_bytes = self.cluster.mds.io_bytes_max().0;
            let queues = server_queues::mds_queue(self.fh(), &[range], io_bytes)?;
            match self.read_queues(queues, sink.clone()).await {
                Ok(_) => return Ok(()),
                Err(e) if e.is_lost_state() => self.reopen(&self.open).await?,
                Err(e) => return Err(e),
            }
        }
    }

    /// Reads all pieces; ranges a data server could not give are returned.
    async fn read_queues<S: ReadSink>(
        &self,
        queues: Vec<server_queues::ServerQueue>,
        sink: Arc<S>,
    ) -> Result<Vec<(u64, u64)>, ClientError> {
        let shared = Arc::new(Shared {
            cluster: self.cluster.clone(),
            stateid: self.io_stateid(),
            sink,
            failed: Mutex::new(Vec::new()),
        });
        let work = {
            let shared = shared.clone();
            move |target, piece| shared.clone().read_piece(target, piece)
        };
        server_queues::run(queues, work).await?;
        let mut failed = shared.failed.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(std::mem::take(&mut *failed))
    }
}

struct Shared<S> {
    cluster: Arc<Cluster>,
    stateid: Stateid,
    sink: Arc<S>,
    failed: Mutex<Vec<(u64, u64)>>,
}

impl<S: ReadSink> Shared<S> {
    async fn read_piece(self: Arc<Self>, target: Target, piece: Piece) -> Result<(), ClientError> {
        let read = match &target {
            Target::Mds(fh) => self.read_all(&self.cluster.mds, fh, &piece).await,
            Target::Ds(ds) => match self.cluster.servers.session(&ds.server).await {
                Ok(session) => self.read_all(&session, &ds.fh, &piece).await,
                Err(e) => Err(e),
            },
        };
        match (read, &target) {
            (Err(e), Target::Ds(ds)) if is_curable(&e) => {
                tracing::debug!(server = ?ds.server, "READ failed on a data server: {e}");
                if matches!(e, ClientError::Unreachable { .. }) {
                    self.cluster.servers.avoid(&ds.server);
                }
                let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
                failed.push((piece.file_offset, piece.len.into()));
                Ok(())
            }
            (read, _) => read,
        }
    }

    /// Reads a whole piece, however short the server's reads are. Where the server's part ends
    /// inside the file, the rest is a hole (§13.4.4): zeros, which the sink has already.
    async fn read_all(
        &self,
        session: &Session,
        fh: &FileHandle,
        piece: &Piece,
    ) -> Result<(), ClientError> {
        let mut done = 0;
        while done < piece.len {
            let rest = Piece {
                file_offset: piece.file_offset + u64::from(done),
                object_offset: piece.object_offset + u64::from(done),
                len: piece.len - done,
            };
            let (count, eof) = self.read_once(session, fh, &rest).await?;
            done = done.saturating_add(count);
            if eof {
                return Ok(());
            }
            if count == 0 {
                return Err(ClientError::Protocol("READ of nothing before the end"));
            }
        }
        Ok(())
    }
}

impl<S: ReadSink> Shared<S> {
    /// One READ: bytes read, and whether they reach the end.
    async fn read_once(
        &self,
        session: &Session,
        fh: &FileHandle,
        piece: &Piece,
    ) -> Result<(u32, bool), ClientError> {
        let Piece { file_offset, object_offset, len } = *piece;
        let (read, eof) = match self.sink.destination() {
            Some(file) => {
                let to = (file, file_offset);
                session.read_to(fh, self.stateid, object_offset, len, to).await?
            }
            None => {
                let (data, eof) = session.read(fh, self.stateid, object_offset, len).await?;
                (DataRead::Here(data), eof)
            }
        };
        let count = match read {
            DataRead::Here(data) => {
                let count = data.len();
                if count > 0 {
                    self.sink.take(file_offset, data).await?;
                }
                count
            }
            DataRead::Placed(count) => {
                self.sink.placed(count as u64);
                count
            }
        };
        Ok((u32::try_from(count).unwrap_or(u32::MAX), eof))
    }
}

/// Pieces in memory by file offset.
#[derive(Default)]
struct Gathered(Mutex<BTreeMap<u64, Bytes>>);

impl ReadSink for Gathered {
    async fn take(&self, offset: u64, data: Bytes) -> io::Result<()> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(offset, data);
        Ok(())
    }
}

impl Gathered {
    fn join(&self, start: u64, len: usize) -> Bytes {
        let pieces = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        if let (1, Some(only)) = (pieces.len(), pieces.get(&start))
            && only.len() == len
        {
            return only.clone();
        }
        let mut out = BytesMut::zeroed(len);
        for (offset, data) in pieces {
            let at = usize::try_from(offset - start).unwrap_or(usize::MAX);
            if let Some(to) = at.checked_add(data.len()).and_then(|end| out.get_mut(at..end)) {
                to.copy_from_slice(&data);
            }
        }
        out.freeze()
    }
}
