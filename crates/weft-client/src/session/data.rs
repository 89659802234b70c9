//! READ, WRITE and COMMIT on a filehandle given: data servers, and the indirect path.

use std::sync::Arc;

use bytes::Bytes;
use weft_io::Destination;
use weft_nfs::{
    Attrs, Bitmap, FileHandle, IO_BYTES_MAX, NfsStat, OpArgs, OpNum, OpOk, OpReply, Opaque,
    StableHow, Stateid, Verifier, ops::*,
};
use weft_xdr::{Decode, Payload, Reader};

use super::{compound::Work, shell::Session};
use crate::{error::ClientError, rpc::DirectPlacement};

/// Where the data of a READ are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DataRead {
    /// A slice of the receive buffer.
    Here(Bytes),
    /// The number of bytes that went straight to the file they were meant for.
    Placed(usize),
}

/// What a WRITE did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DataWritten {
    /// Bytes written; may be fewer than sent.
    pub count: u32,
    /// How durable they are.
    pub committed: StableHow,
    /// To be compared with COMMIT's.
    pub verifier: Verifier,
}

impl Session {
    /// READ: the data and whether they reach the end of the (local) file. The data are a slice
    /// of the receive buffer.
    ///
    /// # Errors
    /// [`ClientError`]; a reply longer than asked for is a protocol error.
    pub async fn read(
        &self,
        fh: &FileHandle,
        stateid: Stateid,
        offset: u64,
        count: u32,
    ) -> Result<(Bytes, bool), ClientError> {
        let read = OpArgs::Read(ReadArgs { stateid, offset, count });
        match self.on_file(fh, read).await? {
            OpOk::Read(ReadOk { eof, data: Payload::Bytes(data) })
                if data.len() <= count as usize =>
            {
                Ok((data, eof))
            }
            _ => Err(ClientError::unexpected(OpNum::READ)),
        }
    }

    /// READ into a file, at `to`: large data go there inside the kernel. Once this returns, or
    /// its future is dropped, nothing is written there any more. What a connection that broke had
    /// put there stays, under what the next one puts there.
    ///
    /// # Errors
    /// As [`Session::read`]; [`ClientError::Local`] when the file cannot take the data.
    pub async fn read_to(
        &self,
        fh: &FileHandle,
        stateid: Stateid,
        offset: u64,
        count: u32,
        (destination, to): (Arc<Destination>, u64),
    ) -> Result<(DataRead, bool), ClientError> {
        let read = OpArgs::Read(ReadArgs { stateid, offset, count });
        let ops = vec![OpArgs::Putfh(PutfhArgs { object: fh.clone() }), read];
        let len_max = count as usize;
        let placement = DirectPlacement { destination, offset: to, len_max, find: find_data };
        let outcome =
            self.run(Work { ops, placement: Some(placement), needed: usize::MAX }).await?;
        let placed = outcome.placed.clone();
        match (last(outcome.into_result()?)?, placed) {
            (OpOk::Read(ReadOk { eof, data }), Some(placed)) if data.is_empty() => {
                Ok((DataRead::Placed(placed.map_err(ClientError::Local)?), eof))
            }
            (OpOk::Read(ReadOk { eof, data: Payload::Bytes(data) }), None)
                if data.len() <= len_max =>
            {
                Ok((DataRead::Here(data), eof))
            }
            _ => Err(ClientError::unexpected(OpNum::READ)),
        }
    }

    /// WRITE. A payload that is a range of a file goes from the page cache to the socket.
    ///
    /// # Errors
    /// [`ClientError`]; a count above what was sent, or of nothing, is a protocol error.
    pub async fn write(
        &self,
        fh: &FileHandle,
        stateid: Stateid,
        offset: u64,
        data: Payload,
        stable: StableHow,
    ) -> Result<DataWritten, ClientError> {
        let write = WriteArgs { stateid, offset, stable, data };
        Ok(self.write_asking(fh, write, None).await?.0)
    }

    /// The same, and what attributes are after that, if they are asked for and the server tells.
    ///
    /// # Errors
    /// As [`Session::write`].
    pub(crate) async fn write_asking(
        &self,
        fh: &FileHandle,
        write: WriteArgs,
        request: Option<Bitmap>,
    ) -> Result<(DataWritten, Option<Attrs>), ClientError> {
        let (len, stable) = (write.data.len(), write.stable);
        let mut ops = vec![OpArgs::Putfh(PutfhArgs { object: fh.clone() }), OpArgs::Write(write)];
        ops.extend(request.map(|request| OpArgs::Getattr(GetattrArgs { request })));
        let mut done = self.compound_needing(2, ops).await?.into_iter().skip(1);
        let written = match done.next() {
            Some(OpOk::Write(ok))
                if ok.count as usize <= len
                    && (ok.count > 0 || len == 0)
                    && ok.committed >= stable =>
            {
                DataWritten { count: ok.count, committed: ok.committed, verifier: ok.writeverf }
            }
            _ => return Err(ClientError::unexpected(OpNum::WRITE)),
        };
        let attrs = match done.next() {
            Some(OpOk::Getattr(ok)) => Some(*ok.attrs),
            _ => None,
        };
        Ok((written, attrs))
    }

    /// COMMIT of the whole file: its verifier must equal that of the WRITEs before.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn commit(&self, fh: &FileHandle) -> Result<Verifier, ClientError> {
        match self.on_file(fh, OpArgs::Commit(CommitArgs { offset: 0, count: 0 })).await? {
            OpOk::Commit(ok) => Ok(ok.verifier),
            _ => Err(ClientError::unexpected(OpNum::COMMIT)),
        }
    }

    /// [`Session::read`] of a data server's object: no state, its handle says it all.
    ///
    /// # Errors
    /// As [`Session::read`].
    pub async fn ds_read(
        &self,
        fh: Bytes,
        offset: u64,
        count: u32,
    ) -> Result<(Bytes, bool), ClientError> {
        self.read(&FileHandle(fh), Stateid::ANONYMOUS, offset, count).await
    }

    /// [`Session::write`] to a data server's object.
    ///
    /// # Errors
    /// As [`Session::write`].
    pub async fn ds_write(
        &self,
        fh: Bytes,
        offset: u64,
        data: Payload,
        stable: StableHow,
    ) -> Result<DataWritten, ClientError> {
        self.write(&FileHandle(fh), Stateid::ANONYMOUS, offset, data, stable).await
    }

    /// [`Session::commit`] of a data server's object.
    ///
    /// # Errors
    /// As [`Session::commit`].
    pub async fn ds_commit(&self, fh: Bytes) -> Result<Verifier, ClientError> {
        self.commit(&FileHandle(fh)).await
    }

    /// PUTFH and one operation; the result of the latter.
    pub(crate) async fn on_file(&self, fh: &FileHandle, op: OpArgs) -> Result<OpOk, ClientError> {
        let ops = vec![OpArgs::Putfh(PutfhArgs { object: fh.clone() }), op];
        last(self.compound(ops).await?)
    }
}

/// The second of two results.
fn last(mut done: Vec<OpOk>) -> Result<OpOk, ClientError> {
    debug_assert!(done.len() <= 2, "SEQUENCE's result is not among these");
    match (done.pop(), done.len()) {
        (Some(ok), 1) => Ok(ok),
        _ => Err(ClientError::Nfs { op: OpNum::PUTFH, status: NfsStat::SERVERFAULT }),
    }
}

/// Reads the results of SEQUENCE, PUTFH and READ up to READ's data, if all are good; the length
/// of the data.
fn find_data(r: &mut Reader) -> Option<usize> {
    let status = NfsStat::decode(r).ok()?;
    let _tag = Opaque::decode(r).ok()?;
    if (status, r.u32().ok()?) != (NfsStat::OK, 3) {
        return None;
    }
    for op in [OpNum::SEQUENCE, OpNum::PUTFH] {
        OpReply::decode(r).ok().filter(|reply| reply.op == op && reply.result.is_ok())?;
    }
    if (OpNum::decode(r).ok()?, NfsStat::decode(r).ok()?) != (OpNum::READ, NfsStat::OK) {
        return None;
    }
    let _eof = r.bool().ok()?;
    r.length(IO_BYTES_MAX).ok()
}
