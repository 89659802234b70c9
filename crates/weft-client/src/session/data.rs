//! READ, WRITE and COMMIT on a filehandle given: data servers, and the indirect path.

use bytes::Bytes;
use weft_nfs::{FileHandle, OpArgs, OpNum, OpOk, StableHow, Stateid, Verifier, ops::*};
use weft_xdr::Payload;

use super::Session;
use crate::error::ClientError;

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
            _ => Err(ClientError::Protocol("READ answered with something else")),
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
        let len = data.len();
        let write = OpArgs::Write(WriteArgs { stateid, offset, stable, data });
        match self.on_file(fh, write).await? {
            OpOk::Write(ok)
                if ok.count as usize <= len
                    && (ok.count > 0 || len == 0)
                    && ok.committed >= stable =>
            {
                Ok(DataWritten { count: ok.count, committed: ok.committed, verifier: ok.writeverf })
            }
            _ => Err(ClientError::Protocol("WRITE answered with something else")),
        }
    }

    /// COMMIT of the whole file: its verifier must equal that of the WRITEs before.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn commit(&self, fh: &FileHandle) -> Result<Verifier, ClientError> {
        match self.on_file(fh, OpArgs::Commit(CommitArgs { offset: 0, count: 0 })).await? {
            OpOk::Commit(ok) => Ok(ok.verifier),
            _ => Err(ClientError::Protocol("COMMIT answered with something else")),
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
        let mut done = self.compound(ops).await?;
        debug_assert!(done.len() <= 2, "SEQUENCE's result is not among these");
        match (done.pop(), done.len()) {
            (Some(ok), 1) => Ok(ok),
            _ => Err(ClientError::Nfs { op: OpNum::PUTFH, status: weft_nfs::NfsStat::SERVERFAULT }),
        }
    }
}
