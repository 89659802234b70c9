//! Reading local files without waiting for their disk on a thread of the runtime.

use std::{
    fs::File,
    io::{self, IoSliceMut},
    os::unix::fs::{FileExt, MetadataExt},
    sync::Arc,
};

use bytes::Bytes;
use rustix::io::{Errno, ReadWriteFlags, preadv2};

use crate::{
    memory::MemoryRegion,
    resident,
    spare::{PAGE_BYTES, lend, whole_pages},
};

/// A file of this host that is read.
#[derive(Debug, Clone)]
pub struct LocalFile {
    file: Arc<File>,
    /// It has no disk to wait for.
    in_memory: bool,
}

impl LocalFile {
    /// One that is open for reading.
    pub fn new(file: File) -> LocalFile {
        // A file that cannot tell is treated like one on a disk.
        let in_memory = resident::in_memory(&file).unwrap_or(false);
        LocalFile { file: Arc::new(file), in_memory }
    }

    /// Some of what it has of a range, from its start on: none of it only where the file ends. What
    /// is in the page cache is read at once, the rest on the blocking pool.
    ///
    /// # Errors
    /// What the disk says.
    pub async fn read(&self, offset: u64, len: usize) -> io::Result<Bytes> {
        let mut memory = whole_pages(len.next_multiple_of(PAGE_BYTES));
        memory.truncate(len);
        let got = match self.read_now(offset, &mut memory)? {
            Some(got) => got,
            None => {
                let file = self.file.clone();
                let reading = move || {
                    let got = file.read_at(&mut memory, offset)?;
                    Ok((memory, got))
                };
                let got;
                (memory, got) = blocking(reading).await?;
                got
            }
        };
        memory.truncate(got);
        let data = memory.freeze();
        lend(&data);
        Ok(data)
    }

    /// The same to a range `at` in memory; the bytes there.
    ///
    /// # Errors
    /// As [`LocalFile::read`], and those of the memory.
    pub(crate) async fn read_to_memory(
        &self,
        (offset, len): (u64, usize),
        region: &Arc<MemoryRegion>,
        at: usize,
    ) -> io::Result<usize> {
        if let Some(got) = region.fill(at, len, |memory| self.read_now(offset, memory))?? {
            return Ok(got);
        }
        let (file, region) = (self.file.clone(), region.clone());
        let read = move |memory: &mut [u8]| file.read_at(memory, offset);
        blocking(move || region.fill(at, len, read)?).await
    }

    /// Whether the file has a name: one that was removed is no part of its directory any more,
    /// though whoever has it open reads it.
    ///
    /// # Errors
    /// It cannot be asked.
    pub fn has_name(&self) -> io::Result<bool> {
        Ok(self.file.metadata()?.nlink() > 0)
    }

    /// What is there without waiting; none if the disk has to be asked.
    fn read_now(&self, offset: u64, memory: &mut [u8]) -> io::Result<Option<usize>> {
        if memory.is_empty() {
            return Ok(Some(0));
        }
        loop {
            if self.in_memory {
                // Such a file system does not say that there is nothing to wait for.
                match self.file.read_at(memory, offset) {
                    Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                    read => return read.map(Some),
                }
            }
            let parts = &mut [IoSliceMut::new(memory)];
            return match preadv2(&*self.file, parts, offset, ReadWriteFlags::NOWAIT) {
                Ok(got) => Ok(Some(got)),
                Err(Errno::INTR) => continue,
                Err(Errno::AGAIN | Errno::OPNOTSUPP) => Ok(None),
                Err(e) => Err(e.into()),
            };
        }
    }
}

async fn blocking<T: Send + 'static>(
    read: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    match tokio::task::spawn_blocking(read).await {
        Ok(read) => read,
        Err(e) => Err(io::Error::other(e)),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use rustix::fs::{Advice, fadvise};

    use super::*;
    use crate::Destination;

    fn pattern(len: usize) -> Vec<u8> {
        (0..len).map(|i| (i * 13 + i / 257) as u8).collect()
    }

    async fn whole(file: &LocalFile, offset: u64, len: usize) -> Vec<u8> {
        let mut all = Vec::new();
        while all.len() < len {
            let done = all.len();
            let got = file.read(offset + done as u64, len - done).await.unwrap();
            if got.is_empty() {
                break;
            }
            all.extend_from_slice(&got);
        }
        all
    }

    /// What is read is what the file has, from the page cache and from the disk, in memory and on a
    /// disk, up to the file's end and not beyond it.
    #[tokio::test]
    async fn files_are_read() {
        let content = pattern(1_000_000);
        for dir in [env!("CARGO_MANIFEST_DIR"), "/dev/shm"] {
            let Ok(mut file) = tempfile::tempfile_in(dir) else { continue };
            file.write_all(&content).unwrap();
            file.sync_all().unwrap();
            let file = LocalFile::new(file);
            for cold in [false, true] {
                if cold {
                    fadvise(&*file.file, 0, None, Advice::DontNeed).unwrap();
                }
                assert!(whole(&file, 7, 600_000).await == content[7..600_007]);
                assert!(whole(&file, 999_000, 5000).await == content[999_000..]);
                assert!(whole(&file, 2_000_000, 10).await.is_empty());
                assert!(file.read(0, 0).await.unwrap().is_empty());
                let region = MemoryRegion::owned(vec![9; 400_010].into());
                let to = Destination::memory(region.clone(), 100);
                let mut done = 0;
                while done < 400_000 {
                    let part = (300_000 + done, 400_000 - done as usize);
                    done += to.take_from(&file, part, 105 + done).await.unwrap() as u64;
                }
                assert_eq!(to.take_from(&file, (1_000_000, 5), 100).await.unwrap(), 0);
                let taken = region.take().unwrap();
                assert!(taken[..5] == [9; 5] && taken[400_005..] == [9; 5]);
                assert!(taken[5..400_005] == content[300_000..700_000]);
                assert!(to.take_from(&file, (0, 5), 100).await.is_err(), "it was taken back");
            }
        }
    }

    /// A file that was removed is known by it.
    #[test]
    fn a_removed_file_has_no_name() {
        let named = tempfile::NamedTempFile::new().unwrap();
        let file = LocalFile::new(File::open(named.path()).unwrap());
        assert!(file.has_name().unwrap());
        drop(named);
        assert!(!file.has_name().unwrap());
    }
}
