//! READ, WRITE and COMMIT of a data server: RFC 8881 §18.22, §18.32, §18.3, and §13.

use bytes::Bytes;
use weft_layout::Access;
use weft_nfs::{
    Failure, IO_BYTES_MAX, NfsStat, OpOk, StableHow, Verifier,
    ops::{CommitArgs, CommitOk, ReadArgs, ReadOk, WriteArgs, WriteOk},
};
use weft_server::compound::{Compound, OpResult};
use weft_store::objects::ObjectStore;
use weft_xdr::{FileRange, Payload};

use crate::{grant::ObjectGrant, server::DataServer, status::object_status};

/// Room in a reply for everything that is not READ's data: the COMPOUND's head, SEQUENCE, PUTFH.
const READ_ENVELOPE_BYTES: usize = 256;

impl DataServer {
    /// READ (25). Data that is here goes from the page cache to the socket. A data server knows
    /// nothing of the file's end, unless the handle says that it is the object's (ADR 31): `eof` is
    /// never said; where it has nothing, the metadata server knows whether that is a hole or the
    /// end (RFC 8881 §13.4.3, PNFS_IO_HOLE).
    pub(super) async fn read(&self, c: &mut Compound<Self>, a: &ReadArgs) -> OpResult {
        let grant = self.admit(c, Access::Read, a.offset, a.count.into()).await?;
        let count = reply_limit(c).min(a.count as usize);
        let ends = c.handle()?.ends;
        let data = if count == 0 {
            Payload::Bytes(Bytes::new())
        } else {
            match self.read_object(c, grant, a.offset, count).await {
                Err(f) if ends && f.status == NfsStat::PNFS_IO_HOLE => self.at_end(grant).await?,
                read => read?,
            }
        };
        self.core.counters.read(data.len());
        Ok(OpOk::Read(ReadOk { eof: ends && data.len() < count, data }))
    }

    /// What is behind an object that ends its file: nothing. Of one that is not there the metadata
    /// server knows whether it is a hole, and clients of flexfiles layouts go there for this status
    /// alone (Linux: `ff_layout_async_handle_error_v4` sends others here again).
    async fn at_end(&self, grant: ObjectGrant) -> Result<Payload, Failure> {
        if self.disk.call(0, move |s| s.is_there(grant.id)).await? {
            Ok(Payload::Bytes(Bytes::new()))
        } else {
            Err(NfsStat::PNFS_NO_LAYOUT.into())
        }
    }

    /// The part of the object that is here: in the page cache, or read past it.
    async fn read_object(
        &self,
        c: &mut Compound<Self>,
        grant: ObjectGrant,
        offset: u64,
        count: usize,
    ) -> Result<Payload, Failure> {
        let mut reserved = false;
        // Again if a truncation came between planning and looking: it cannot go on for ever,
        // since only the metadata server truncates.
        for _ in 0..PLAN_TRIES {
            let plan = match self.store().read_open(grant.id, offset, count) {
                Some(plan) => plan.map_err(|e| object_status(&e))?,
                None => self.disk.call(0, move |s| s.read(grant.id, offset, count)).await?,
            };
            let range = plan.range.ok_or(NfsStat::PNFS_IO_HOLE)?;
            if plan.past_cache {
                if !reserved {
                    c.reserve_reply(count as u64).await?;
                    reserved = true;
                }
                if let Some(data) = self.read_past_cache(grant, &range).await? {
                    return Ok(Payload::Bytes(data));
                }
            }
            match weft_io::ensure_resident(&range).await {
                Ok(()) => return Ok(Payload::File(range)),
                Err(e) if e.kind() == std::io::ErrorKind::UnexpectedEof => {}
                Err(error) => {
                    tracing::error!(%error, object = ?grant.id, "cannot read an object");
                    return Err(NfsStat::IO.into());
                }
            }
        }
        Err(NfsStat::PNFS_IO_HOLE.into())
    }

    /// The range, if it can be read past the page cache.
    async fn read_past_cache(
        &self,
        grant: ObjectGrant,
        range: &FileRange,
    ) -> Result<Option<Bytes>, Failure> {
        let (offset, len) = (range.offset, range.len);
        let memory = weft_io::whole_pages(len.next_multiple_of(weft_io::PAGE_BYTES));
        let read = move |s: &ObjectStore| s.read_past_cache(grant.id, offset, memory);
        // It is shorter if the object was cut meanwhile.
        let whole = self.disk.call(len, read).await?.filter(|data| data.len() >= len);
        Ok(whole.map(|data| {
            let data = data.freeze();
            weft_io::lend(&data);
            data.slice(..len)
        }))
    }

    /// WRITE (38). Also an unstable one may wait for the disk: to make the object, to sync another
    /// that leaves the cache, or because too many pages are dirty.
    pub(super) async fn write(&self, c: &Compound<Self>, a: WriteArgs) -> OpResult {
        let Payload::Bytes(data) = a.data else { return Err(NfsStat::SERVERFAULT.into()) };
        let (offset, len) = (a.offset, data.len());
        let (handle, grant) =
            (c.handle()?, self.admit(c, Access::Write, offset, len as u64).await?);
        if len > 0 {
            self.may_make(&handle, grant, len as u64).await?;
        }
        let ObjectGrant { id, epoch } = grant;
        let ahead = handle.others_before(offset, len as u64);
        let (verifier, committed) = match a.stable {
            StableHow::UNSTABLE => {
                (self.disk.write(id, epoch, (offset, data), ahead).await?, StableHow::UNSTABLE)
            }
            StableHow::DATA_SYNC | StableHow::FILE_SYNC => {
                let stable = self.disk.write_stable(id, epoch, (offset, data), ahead);
                (stable.await?, StableHow::FILE_SYNC)
            }
            _ => return Err(NfsStat::INVAL.into()),
        };
        self.core.counters.wrote(len);
        Ok(OpOk::Write(WriteOk {
            count: u32::try_from(len).map_err(|_| NfsStat::SERVERFAULT)?,
            committed,
            writeverf: Verifier(handle.shown_verifier(verifier)),
        }))
    }

    /// COMMIT (5). The whole object becomes durable, whatever the range. Clients of files layouts
    /// ask the metadata server instead (ADR 43).
    ///
    /// A fenced client gets PNFS_NO_LAYOUT: what it had written was accepted, but it must learn
    /// that it lost its layout, and sends the data again through the metadata server.
    pub(super) async fn commit(&self, c: &Compound<Self>, a: &CommitArgs) -> OpResult {
        let handle = c.handle()?;
        // §18.3.3: the range must not pass the largest offset.
        a.offset.checked_add(a.count.into()).ok_or(NfsStat::INVAL)?;
        let ObjectGrant { id, .. } = self.admit(c, Access::Write, 0, 0).await?;
        let verifier = self.disk.commit(id).await?;
        Ok(OpOk::Commit(CommitOk { verifier: Verifier(handle.shown_verifier(verifier)) }))
    }
}

/// Looks at an object that shrinks while it is read: see [`DataServer::read_object`].
const PLAN_TRIES: usize = 3;

/// Bytes of data that one READ may return on this session.
fn reply_limit(c: &Compound<DataServer>) -> usize {
    let reply = c.session.as_ref().map_or(IO_BYTES_MAX, |s| s.response_bytes_max);
    reply.saturating_sub(READ_ENVELOPE_BYTES).min(IO_BYTES_MAX)
}
