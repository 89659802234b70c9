//! What guards a volume directory beside its engine: the lock that admits one process, and the
//! `acked` side file that remembers the last acknowledged mutation.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use weft_io::durable;

use super::contract::EngineError;
use crate::held_file::HeldFile;

/// Exclusive use of a directory by this process, until dropped.
#[derive(Debug)]
pub struct DirectoryLock {
    _held: HeldFile,
}

impl DirectoryLock {
    /// Makes the directory if it is missing, keeps other users out of it, and takes its lock
    /// (`flock` on the file `lock`).
    ///
    /// **Errors.** [`EngineError::InUse`] while another holder lives.
    pub fn acquire(directory: &Path) -> Result<Self, EngineError> {
        durable::create_private_dir(directory).map_err(|e| io("create", directory, &e))?;
        let path = directory.join("lock");
        let held = HeldFile::acquire(&path).map_err(|e| io("lock", &path, &e))?;
        let held = held.ok_or_else(|| EngineError::InUse(directory.to_owned()))?;
        Ok(Self { _held: held })
    }
}

/// Marks an `acked` file: the letters `WFTA`.
const ACKED_MAGIC: [u8; 4] = *b"WFTA";
/// Bytes of an `acked` file: magic, LSN, CRC-32C of both.
const ACKED_BYTES: usize = 16;
/// Permission bits of an `acked` file.
const ACKED_MODE: u32 = 0o600;

/// The side file that holds the LSN of the last acknowledged mutation.
///
/// It is overwritten in place after every commit and never synced: it lags behind the engine or
/// equals it, so an engine that comes back with *less* has lost acknowledged data (a damaged
/// journal read as a torn tail, for instance) and must not be served.
#[derive(Debug)]
pub struct AckedFile {
    file: File,
    path: PathBuf,
}

impl AckedFile {
    /// Opens `acked` in `directory` and compares it with what the engine recovered.
    ///
    /// A missing file is made: deleting it is how an operator accepts a known loss.
    ///
    /// **Errors.** [`EngineError::Corrupt`] if more was acknowledged than recovered, or the file
    /// is damaged.
    pub fn open(directory: &Path, recovered_lsn: u64) -> Result<Self, EngineError> {
        let path = directory.join("acked");
        match Self::check(directory, recovered_lsn)? {
            Some(file) => Ok(Self { file, path }),
            None => Self::make(path, recovered_lsn),
        }
    }

    /// The same comparison, which makes nothing; the file, if there is one.
    ///
    /// **Errors.** As those of [`Self::open`].
    pub fn check(directory: &Path, recovered_lsn: u64) -> Result<Option<File>, EngineError> {
        let path = directory.join("acked");
        if !path.exists() {
            return Ok(None);
        }
        let file = OpenOptions::new().read(true).write(true).open(&path);
        let file = file.map_err(|e| io("open", &path, &e))?;
        let mut image = [0u8; ACKED_BYTES];
        // What is missing of it stays zero, which is no file of ours.
        file.read_at(&mut image, 0).map_err(|e| io("read", &path, &e))?;
        let acked = decode_acked(&image).ok_or_else(|| {
            let at = path.display();
            EngineError::Corrupt(format!("{at} is damaged; delete it to do without its check"))
        })?;
        if recovered_lsn < acked {
            return Err(EngineError::Corrupt(format!(
                "the engine recovered up to mutation {recovered_lsn}, but {acked} was \
                 acknowledged: acknowledged data is missing. Restore {}, or delete the file \
                 `acked` to accept the loss",
                directory.display()
            )));
        }
        Ok(Some(file))
    }

    /// Remembers that everything up to `lsn` is about to be acknowledged (one `pwrite`, no sync).
    pub fn record(&self, lsn: u64) -> Result<(), EngineError> {
        self.file.write_all_at(&encode_acked(lsn), 0).map_err(|e| io("write", &self.path, &e))
    }

    fn make(path: PathBuf, lsn: u64) -> Result<Self, EngineError> {
        tracing::info!(path = %path.display(), "making the record of acknowledged mutations");
        // At once with its contents: an empty one would be taken for damage.
        let file = durable::replace_file(&path, ACKED_MODE, |f| f.write_all(&encode_acked(lsn)));
        Ok(Self { file: file.map_err(|e| io("make", &path, &e))?, path })
    }
}

fn encode_acked(lsn: u64) -> [u8; ACKED_BYTES] {
    let mut image = [0u8; ACKED_BYTES];
    image[..4].copy_from_slice(&ACKED_MAGIC);
    image[4..12].copy_from_slice(&lsn.to_be_bytes());
    let crc = crc32c(&image[..12]);
    image[12..].copy_from_slice(&crc.to_be_bytes());
    image
}

fn decode_acked(image: &[u8; ACKED_BYTES]) -> Option<u64> {
    let lsn = u64::from_be_bytes(image[4..12].try_into().ok()?);
    (*image == encode_acked(lsn)).then_some(lsn)
}

/// CRC-32C fits 32 bits; the library returns every width in a `u64`.
fn crc32c(bytes: &[u8]) -> u32 {
    let wide = crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, bytes);
    (wide & u64::from(u32::MAX)) as u32
}

pub(super) fn io(what: &str, path: &Path, error: &std::io::Error) -> EngineError {
    EngineError::Io(format!("cannot {what} {}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_holder_at_a_time() {
        // A second lock of the same directory is refused until the first is dropped.
        let dir = tempfile::tempdir().unwrap();
        let held = DirectoryLock::acquire(dir.path()).unwrap();
        let second = DirectoryLock::acquire(dir.path());
        assert!(matches!(second, Err(EngineError::InUse(_))), "{second:?}");
        drop(held);
        DirectoryLock::acquire(dir.path()).unwrap();
    }

    #[test]
    fn an_engine_that_lost_acknowledged_data_is_refused() {
        // Recovering exactly the acknowledged LSN or more is fine, one less is not.
        let dir = tempfile::tempdir().unwrap();
        AckedFile::open(dir.path(), 0).unwrap().record(41).unwrap();
        AckedFile::open(dir.path(), 42).unwrap();
        AckedFile::open(dir.path(), 41).unwrap();
        let refused = AckedFile::open(dir.path(), 40).unwrap_err();
        assert!(matches!(&refused, EngineError::Corrupt(why) if why.contains("41")), "{refused}");
    }

    #[test]
    fn a_damaged_acked_file_is_refused() {
        // Every single flipped bit is noticed, and so is a short file.
        let dir = tempfile::tempdir().unwrap();
        AckedFile::open(dir.path(), 7).unwrap();
        let path = dir.path().join("acked");
        let good = std::fs::read(&path).unwrap();
        for bit in 0..good.len() * 8 {
            let mut bad = good.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            std::fs::write(&path, &bad).unwrap();
            assert!(AckedFile::open(dir.path(), u64::MAX).is_err(), "bit {bit}");
        }
        for short in 0..good.len() {
            std::fs::write(&path, &good[..short]).unwrap();
            let refused = AckedFile::open(dir.path(), u64::MAX).unwrap_err();
            let says_what_to_do = matches!(&refused, EngineError::Corrupt(why)
                if why.contains("is damaged; delete it to do without its check"));
            assert!(says_what_to_do, "{short}: {refused}");
        }
    }
}
