//! READ of file ranges: one try of each piece, at the data servers or at the metadata server.

use std::{io, sync::Arc, time::Instant};

use weft_nfs::{IoMode, NfsStat, OpNum};

use super::{
    cluster::Cluster,
    data_path::DataPath,
    held::{Failures, Imported, LayoutState},
    open::Open,
    server_queues::{self, Piece, ServerQueue, Target, Targets},
    sink::ReadSink,
};
use crate::{
    error::{ClientError, ProtocolError},
    layout::plan::Purpose,
    limits,
    local::LocalObject,
    session::{DataRead, Session},
    sync::Mutex,
};

/// File ranges that data servers did not give: offset and length.
type Failed = Vec<(u64, u64)>;

impl DataPath {
    /// Reads ranges through the layout. What data servers could not give is returned; nothing if
    /// there is no layout to read through. What they do not give by the layout of another client
    /// they are asked for by one of our own: that one has ended, or was never any good.
    pub(super) async fn read_striped(
        &self,
        ranges: &[(u64, u64)],
        sink: &Arc<dyn ReadSink>,
    ) -> Result<Option<Unread>, ClientError> {
        let Some((imported, unread)) = self.read_imported(ranges, sink).await? else {
            return self.read_held(ranges, sink).await;
        };
        if !unread.has_failed {
            return Ok(Some(unread));
        }
        tracing::debug!(fh = ?self.fh(), "an imported layout does not serve: one of our own");
        self.give_up(&imported).await;
        Ok(Some(self.read_held(&unread.ranges, sink).await?.unwrap_or(unread)))
    }

    /// Reads ranges through the layout of another client, if this is such a file.
    async fn read_imported(
        &self,
        ranges: &[(u64, u64)],
        sink: &Arc<dyn ReadSink>,
    ) -> Result<Option<(Arc<Imported>, Unread)>, ClientError> {
        let state = self.file.layout.read().await;
        let LayoutState::Imported(imported) = &*state else { return Ok(None) };
        let io_bytes = self.mds.io_bytes_max().0;
        let queues = server_queues::striped_queues(&imported.plan, Purpose::Read, ranges, io_bytes);
        let unread = self.read_queues(queues, sink.clone(), (&Failures::default(), false)).await?;
        Ok(Some((imported.clone(), unread)))
    }

    /// Reads ranges through a layout of our own.
    async fn read_held(
        &self,
        ranges: &[(u64, u64)],
        sink: &Arc<dyn ReadSink>,
    ) -> Result<Option<Unread>, ClientError> {
        let worth_it = self.file.size() >= self.open.opened.thresholds.read_size;
        let iomode = if self.is_writable() { IoMode::RW } else { IoMode::READ };
        let state = self.access(&self.open, iomode, worth_it).await;
        let LayoutState::Held(held) = &*state else { return Ok(None) };
        if held.plan.rules.is_only_for_writing && held.iomode() == IoMode::RW {
            return Ok(None);
        }
        let io_bytes = self.mds.io_bytes_max().0;
        let queues = server_queues::striped_queues(&held.plan, Purpose::Read, ranges, io_bytes);
        let is_often_read = held.count_read();
        let read = self.read_queues(queues, sink.clone(), (held.failures(), is_often_read));
        read.await.map(Some)
    }

    /// Reads ranges through the metadata server.
    pub(super) async fn read_at_mds(
        &self,
        ranges: &[(u64, u64)],
        sink: &Arc<dyn ReadSink>,
    ) -> Result<(), ClientError> {
        let io_bytes = self.mds.io_bytes_max().0;
        let queues = server_queues::mds_queue(self.fh(), ranges, io_bytes);
        self.read_queues(queues, sink.clone(), (&Failures::default(), false)).await.map(drop)
    }

    /// Reads all pieces; what data servers did not give is returned.
    async fn read_queues(
        &self,
        queues: Vec<ServerQueue>,
        sink: Arc<dyn ReadSink>,
        (failures, is_often_read): (&Failures, bool),
    ) -> Result<Unread, ClientError> {
        let shared = Arc::new(Shared {
            cluster: self.cluster.clone(),
            open: self.open.clone(),
            opened_at: self.file.opened_at(),
            is_often_read,
            sink,
            unread: Mutex::default(),
            failures: Failures::default(),
        });
        let work = {
            let shared = shared.clone();
            move |targets, piece| shared.clone().read_piece(targets, piece)
        };
        let ran = server_queues::run(queues, work).await;
        failures.extend(&shared.failures);
        ran?;
        Ok(std::mem::take(&mut *shared.unread.lock()))
    }
}

/// What the workers of one read share.
struct Shared {
    cluster: Arc<Cluster>,
    open: Arc<Open>,
    /// When the file was opened last.
    opened_at: Instant,
    /// Whether the file is read again and again through its layout.
    is_often_read: bool,
    sink: Arc<dyn ReadSink>,
    unread: Mutex<Unread>,
    failures: Failures,
}

/// What data servers did not give of some ranges.
#[derive(Debug, Default)]
pub(super) struct Unread {
    /// Offsets and lengths.
    pub(super) ranges: Failed,
    /// One of them has failed. If not they have nothing there, and only the metadata server knows
    /// whether that is a hole (RFC 8881 §13.4.3, PNFS_IO_HOLE).
    pub(super) has_failed: bool,
}

impl Shared {
    /// Reads a piece at the first of its targets that can give it.
    async fn read_piece(
        self: Arc<Self>,
        targets: Targets,
        piece: Piece,
    ) -> Result<(), ClientError> {
        let mut has_failed = false;
        for target in targets.iter() {
            let read = match self.cluster.session(target, &self.open.opened.caller).await {
                Ok(session) => self.read_in_time(&session, target, &piece).await,
                Err(e) => Err(e),
            };
            match read {
                Err(e) if e.status() == Some(NfsStat::PNFS_IO_HOLE) => break,
                Err(e) if self.cluster.can_go_around(target, &e) => {
                    has_failed = true;
                    tracing::debug!(?target, "READ failed on a data server: {e}");
                    self.failures.note(target, OpNum::READ, piece.range(), &e);
                }
                read => return read,
            }
        }
        let mut unread = self.unread.lock();
        unread.ranges.push((piece.file_offset, piece.len.into()));
        unread.has_failed |= has_failed;
        Ok(())
    }

    /// Reads a whole piece, of a data server as long as that answers: the bytes may be had another
    /// way, at once.
    async fn read_in_time(
        &self,
        session: &Session,
        target: &Target,
        piece: &Piece,
    ) -> Result<(), ClientError> {
        let read = self.read_all(session, target, piece);
        match target {
            Target::Mds(_) => read.await,
            Target::Ds(_) => tokio::select! {
                read = read => read,
                () = session.silent() => {
                    let why = "it hangs".into();
                    Err(ClientError::Unreachable { addr: session.addr(), why })
                }
            },
        }
    }

    /// Reads a whole piece, however short the server's reads are. Where the server's part ends
    /// inside the file, the rest is a hole (§13.4.4): zeros.
    async fn read_all(
        &self,
        session: &Session,
        target: &Target,
        piece: &Piece,
    ) -> Result<(), ClientError> {
        let mut done = 0;
        while done < piece.len {
            let rest = Piece {
                file_offset: piece.file_offset + u64::from(done),
                object_offset: piece.object_offset + u64::from(done),
                len: piece.len - done,
            };
            let (count, eof) = self.read_once(session, target, &rest).await?;
            done = done.saturating_add(count);
            if eof {
                let rest = piece.len.saturating_sub(done);
                if rest > 0 {
                    self.sink.absent(piece.file_offset + u64::from(done), rest.into())?;
                }
                return Ok(());
            }
            if count == 0 {
                return Err(ProtocolError::EmptyRead.into());
            }
        }
        Ok(())
    }

    /// Reads by a descriptor of the object, if there is one; the bytes read. None: a READ tells,
    /// also what is where the object ends.
    async fn read_here(&self, session: &Session, target: &Target, piece: &Piece) -> Option<u32> {
        let (Target::Ds(ds), servers) = (target, &self.cluster.servers) else { return None };
        let object = match servers.known_object(ds, self.opened_at) {
            Some(known) => known,
            // Asking costs about what a small READ does.
            None if piece.len < limits::DESCRIPTOR_READ_BYTES && !self.is_often_read => {
                return None;
            }
            None => servers.local_object(ds, session, self.opened_at).await?,
        };
        match self.read_object(&object, piece).await {
            Ok(0) => None,
            Ok(count) => Some(count),
            Err(error) => {
                tracing::debug!(%error, "not read by descriptor");
                servers.local()?.forget(&ds.fh.0);
                None
            }
        }
    }

    async fn read_object(&self, object: &LocalObject, piece: &Piece) -> io::Result<u32> {
        let Piece { file_offset, object_offset, len } = *piece;
        let len = usize::try_from(len).map_err(io::Error::other)?;
        let (file, range) = (&object.file, (object_offset, len));
        let destination = self.sink.destination();
        let (count, data) = match &destination {
            Some(to) => (to.take_from(file, range, file_offset).await?, None),
            None => {
                let data = file.read(range.0, range.1).await?;
                (data.len(), Some(data))
            }
        };
        // Looked at when the bytes are here: if it is the object's file now, it was then.
        if !object.is_current()? {
            return Err(io::Error::new(io::ErrorKind::NotFound, "the object was removed"));
        }
        match data {
            Some(data) if count > 0 => self.sink.take(file_offset, data).await?,
            Some(_) => {}
            None => self.sink.placed(count as u64),
        }
        if let Some(local) = self.cluster.servers.local() {
            local.count(count as u64);
        }
        u32::try_from(count).map_err(io::Error::other)
    }

    /// One READ: bytes read, and whether they reach the end.
    async fn read_once(
        &self,
        session: &Session,
        target: &Target,
        piece: &Piece,
    ) -> Result<(u32, bool), ClientError> {
        if let Some(count) = self.read_here(session, target, piece).await {
            return Ok((count, false));
        }
        let Piece { file_offset, object_offset, len } = *piece;
        let (fh, stateid) = (target.fh(), target.stateid(self.open.io_stateid()));
        let (read, eof) = match self.sink.destination() {
            Some(file) => {
                let to = (file, file_offset);
                session.read_to(fh, stateid, object_offset, len, to).await?
            }
            None => {
                let (data, eof) = session.read(fh, stateid, object_offset, len).await?;
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
