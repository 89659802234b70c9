//! An open file whose calls wait.

use std::{
    io::{self, Read, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
    sync::Arc,
};

use bytes::Bytes;
use weft_nfs::Attrs;

use super::runtime::Ours;
use crate::{
    error::ClientError,
    fs::{self, FsError, error::At},
    io::MemoryRegion,
};

/// [`fs::File`] for programs without a runtime. Positioned calls may come from several threads;
/// [`Read`], [`Write`] and [`Seek`] share a position.
pub struct File {
    file: Ours<fs::File>,
    path: PathBuf,
    is_writable: bool,
    position: u64,
}

impl File {
    pub(super) fn new(file: Ours<fs::File>, path: PathBuf, is_writable: bool) -> File {
        File { file, path, is_writable, position: 0 }
    }

    fn wait<'a, T, F>(&'a self, work: impl FnOnce(&'a fs::File) -> F) -> Result<T, FsError>
    where
        F: Future<Output = Result<T, FsError>>,
    {
        self.file.wait(work).at(&self.path)?
    }

    /// The path it was opened by.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// [`fs::File::attrs`].
    ///
    /// # Errors
    /// [`ClientError::Forked`], [`ClientError::WouldStopRuntime`].
    pub fn attrs(&self) -> Result<&Attrs, FsError> {
        self.file.get().at(&self.path).map(fs::File::attrs)
    }

    /// [`fs::File::export_layout`].
    ///
    /// # Errors
    /// [`FsError`].
    pub fn export_layout(&self) -> Result<Bytes, FsError> {
        self.wait(fs::File::export_layout)
    }

    /// The size, asked of the server; what was written by this client counts.
    ///
    /// # Errors
    /// [`FsError`].
    pub fn size(&self) -> Result<u64, FsError> {
        let told = self.file.wait(|f| f.io().fetch_size()).at(&self.path)?.at(&self.path)?;
        // What we have written the metadata server may not have heard of yet.
        let ours = if self.is_writable { self.file.get().at(&self.path)?.size() } else { 0 };
        Ok(told.max(ours))
    }

    /// Reads into `to` from an offset on; fewer bytes than it has only at the end of the file.
    /// Large replies are read from the socket straight into it.
    ///
    /// # Errors
    /// [`FsError`]; part of `to` may have been written.
    pub fn read_at(&self, offset: u64, to: &mut [u8]) -> Result<usize, FsError> {
        MemoryRegion::lend(vec![to], |lent| match lent {
            [memory] => self.wait(|f| f.read_memory(offset, memory.clone())),
            _ => Ok(0),
        })
    }

    /// [`fs::File::read_many`].
    ///
    /// # Errors
    /// [`ClientError::Forked`], [`ClientError::WouldStopRuntime`]; each read has its own result.
    pub fn read_many(
        &self,
        readings: Vec<(u64, Arc<MemoryRegion>)>,
    ) -> Result<Vec<Result<usize, FsError>>, ClientError> {
        self.file.wait(|f| f.read_many(readings))
    }

    /// [`fs::File::write_at`].
    ///
    /// # Errors
    /// [`FsError`]; part of it may have been written.
    pub fn write_at(&self, offset: u64, data: Bytes) -> Result<(), FsError> {
        self.wait(|f| f.write_at(offset, data))
    }

    /// [`fs::File::commit`].
    ///
    /// # Errors
    /// [`FsError`].
    pub fn commit(&self) -> Result<(), FsError> {
        self.wait(fs::File::commit)
    }

    /// [`fs::File::truncate`].
    ///
    /// # Errors
    /// [`FsError`].
    pub fn truncate(&self, size: u64) -> Result<(), FsError> {
        self.wait(|f| f.truncate(size))
    }

    /// [`fs::File::close`].
    ///
    /// # Errors
    /// [`FsError`].
    pub fn close(self) -> Result<(), FsError> {
        self.file.end(fs::File::close).at(&self.path)?
    }

    fn moved_by(&mut self, bytes: usize) {
        self.position = self.position.saturating_add(bytes as u64);
    }
}

impl Read for File {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let read = self.read_at(self.position, to)?;
        self.moved_by(read);
        Ok(read)
    }
}

impl Write for File {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        self.write_at(self.position, Bytes::copy_from_slice(data))?;
        self.moved_by(data.len());
        Ok(data.len())
    }

    /// [`File::commit`]: what is flushed is durable.
    fn flush(&mut self) -> io::Result<()> {
        Ok(self.commit()?)
    }
}

impl Seek for File {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let (from, by) = match to {
            SeekFrom::Start(at) => (at, 0),
            SeekFrom::Current(by) => (self.position, by),
            SeekFrom::End(by) => (self.size()?, by),
        };
        let before_the_start = ClientError::Invalid("a position before the start of the file");
        let at = from.checked_add_signed(by).ok_or(before_the_start).at(&self.path)?;
        self.position = at;
        Ok(at)
    }
}
