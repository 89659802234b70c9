//! Where a file has data, and where holes: SEEK (RFC 7862 §15.11) there, `lseek` here.

use std::{fs, io};

use rustix::{fs::SeekFrom, io::Errno};
use weft_nfs::{
    NfsStat, OpArgs, OpNum, OpOk,
    ops::{DataContent, SeekArgs},
};

use super::{
    client::Client,
    error::{At, FsError},
    file::File,
};
use crate::error::ClientError;

/// Bytes that one block of [`std::os::unix::fs::MetadataExt::blocks`] counts.
const BLOCK_BYTES: u64 = 512;

impl Client {
    /// The next bytes of an open file at or behind an offset that are no hole, from the first to
    /// behind the last one; none if only a hole follows. A server that knows nothing of holes has
    /// one run of data.
    ///
    /// # Errors
    /// [`FsError`].
    pub async fn next_data(&self, file: &File, from: u64) -> Result<Option<(u64, u64)>, FsError> {
        let size = file.size();
        if from >= size {
            return Ok(None);
        }
        let found = match self.seek(file, from, DataContent::DATA).await {
            Ok(Some(start)) if start >= size => Ok(None),
            Ok(Some(start)) => match self.seek(file, start, DataContent::HOLE).await {
                // No hole begins where data do.
                Ok(Some(end)) if end == start => Err(ClientError::unexpected(OpNum::SEEK)),
                Ok(end) => Ok(Some((start, end.unwrap_or(size).min(size)))),
                Err(e) => Err(e),
            },
            Ok(None) => Ok(None),
            Err(e) => match e.status() {
                Some(NfsStat::NOTSUPP | NfsStat::OP_ILLEGAL | NfsStat::UNION_NOTSUPP) => {
                    Ok(Some((from, size)))
                }
                Some(NfsStat::NXIO) => Ok(None),
                _ => Err(e),
            },
        };
        found.at(file.path())
    }

    async fn seek(
        &self,
        file: &File,
        offset: u64,
        what: DataContent,
    ) -> Result<Option<u64>, ClientError> {
        let args = SeekArgs { stateid: file.io().io_stateid(), offset, what };
        let seek = OpArgs::Seek(args);
        // One that lies before where it was looked for is none: nobody is led in a circle.
        match self.session().on_file(file.io().fh(), seek).await? {
            OpOk::Seek(ok) => Ok(Some(ok.offset).filter(|at| !ok.eof && *at >= offset)),
            _ => Err(ClientError::unexpected(OpNum::SEEK)),
        }
    }
}

impl File {
    /// Whether the servers hold fewer bytes for it than it has: then there are holes, perhaps.
    pub fn may_have_holes(&self) -> bool {
        self.attrs().space_used.is_some_and(|used| used < self.size())
    }
}

/// The next bytes of a local file at or behind an offset that are no hole, as
/// [`Client::next_data`]. The offset of the file itself moves.
pub(super) fn next_local_data(file: &fs::File, from: u64) -> io::Result<Option<(u64, u64)>> {
    let start = match rustix::fs::seek(file, SeekFrom::Data(from)) {
        Ok(start) => start,
        Err(Errno::NXIO) => return Ok(None),
        Err(e) => return Err(e.into()),
    };
    let end = rustix::fs::seek(file, SeekFrom::Hole(start))?;
    Ok((end > start).then_some((start, end)))
}

/// Whether a local file has fewer blocks than its size needs.
pub(super) fn is_sparse(metadata: &fs::Metadata) -> bool {
    use std::os::unix::fs::MetadataExt;
    metadata.blocks().saturating_mul(BLOCK_BYTES) < metadata.len()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

    use super::*;

    /// Data behind a hole, and a hole behind data, are seen; a full file is one run.
    #[test]
    fn local_holes() {
        const MIB: u64 = 1 << 20;
        let file = tempfile::tempfile().unwrap();
        file.write_all_at(&[1; 4096], 8 * MIB).unwrap();
        file.set_len(16 * MIB).unwrap();
        assert!(is_sparse(&file.metadata().unwrap()));
        let (start, end) = next_local_data(&file, 0).unwrap().unwrap();
        assert!(start <= 8 * MIB && start > 0 && (8 * MIB + 4096..16 * MIB).contains(&end));
        assert_eq!(next_local_data(&file, end).unwrap(), None);
        let full = tempfile::tempfile().unwrap();
        full.write_all_at(&[1; 9000], 0).unwrap();
        assert_eq!(next_local_data(&full, 0).unwrap(), Some((0, 9000)));
        assert_eq!(next_local_data(&full, 9000).unwrap(), None);
    }
}
