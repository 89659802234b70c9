//! Whether a file range is in memory, and bringing it there without stalling the runtime.
//!
//! `sendfile` from a cold file waits for the disk inside the system call, and with it every
//! connection of the runtime's thread. So a few bytes are read with `RWF_NOWAIT`, which refuses
//! to wait, and if any is missing the range is read once on the blocking pool.

use std::{
    fs::File,
    io::{self, ErrorKind, IoSliceMut},
    os::unix::fs::FileExt,
};

use rustix::{
    fs::{Advice, fadvise, fstatfs},
    io::{Errno, ReadWriteFlags, preadv2},
};
use weft_xdr::FileRange;

/// Distance of probes: the kernel reads ahead, and drops, in about this much. A range can look
/// resident and have lost a page between; then one `sendfile` waits, which costs time only.
const PROBE_STEP_BYTES: u64 = 128 << 10;

/// Read at once while warming; the bytes are thrown away.
const WARM_BYTES: usize = 128 << 10;

/// Returns when the range is in the page cache, as far as a few cheap looks can tell.
///
/// A READ calls this before it encodes its reply: a disk error found here can still become a
/// status, one found while sending can only break the connection. Sending looks again.
///
/// **Cost.** Resident: one system call for each 128 KiB. Cold: one trip to the blocking pool.
///
/// # Errors
/// What the disk says; `UnexpectedEof` if the file ends inside the range.
pub async fn ensure_resident(range: &FileRange) -> io::Result<()> {
    if is_resident(range)? {
        return Ok(());
    }
    let range = range.clone();
    match tokio::task::spawn_blocking(move || warm(&range)).await {
        Ok(warmed) => warmed,
        Err(e) => Err(io::Error::other(e)),
    }
}

/// What `statfs` says of file systems that are memory and have no disk to wait for (statfs(2)).
const MEMORY_FILE_SYSTEMS: [i64; 2] = [0x0102_1994, 0x8584_58f6];

/// What a look at one byte found.
enum Look {
    Resident,
    Cold,
    /// The file system has no reads that refuse to wait.
    CannotTell,
}

/// Looks at the first byte of every step, and at the last byte.
fn is_resident(range: &FileRange) -> io::Result<bool> {
    let Some(last) = (range.len as u64).checked_sub(1) else {
        return Ok(true);
    };
    let last = range.offset.checked_add(last).ok_or(ErrorKind::InvalidInput)?;
    let mut at = range.offset;
    loop {
        match look(range, at)? {
            Look::Resident => {}
            Look::Cold => return Ok(false),
            Look::CannotTell => return is_in_memory(range, last),
        }
        if at == last {
            return Ok(true);
        }
        at = at.saturating_add(PROBE_STEP_BYTES).min(last);
    }
}

/// Whether the file has the last byte and its file system is memory. Swapped-out parts of it
/// look resident: waiting for swap is what everything else on such a machine does too.
fn is_in_memory(range: &FileRange, last: u64) -> io::Result<bool> {
    if range.file.metadata()?.len() <= last {
        return Err(ErrorKind::UnexpectedEof.into());
    }
    in_memory(&range.file)
}

/// Whether the file, or directory, has no disk to wait for.
///
/// # Errors
/// It cannot be asked.
pub fn in_memory(file: &File) -> io::Result<bool> {
    Ok(MEMORY_FILE_SYSTEMS.contains(&fstatfs(file)?.f_type))
}

fn look(range: &FileRange, at: u64) -> io::Result<Look> {
    let mut byte = [0];
    loop {
        let bufs = &mut [IoSliceMut::new(&mut byte)];
        return match preadv2(&*range.file, bufs, at, ReadWriteFlags::NOWAIT) {
            Ok(0) => Err(ErrorKind::UnexpectedEof.into()),
            Ok(_) => Ok(Look::Resident),
            Err(Errno::INTR) => continue,
            Err(Errno::AGAIN) => Ok(Look::Cold),
            // Where it cannot tell, only reading is safe, unless there is no disk.
            Err(Errno::OPNOTSUPP) => Ok(Look::CannotTell),
            Err(e) => Err(e.into()),
        };
    }
}

/// Reads the whole range. Blocks.
fn warm(range: &FileRange) -> io::Result<()> {
    let len = std::num::NonZeroU64::new(range.len as u64);
    // Only advice: if it is not taken, the reads below still fetch everything.
    let _ = fadvise(&*range.file, range.offset, len, Advice::WillNeed);
    let mut scratch = vec![0; WARM_BYTES.min(range.len)];
    let (mut at, mut left) = (range.offset, range.len);
    while left > 0 {
        let part = left.min(scratch.len());
        match range.file.read_at(&mut scratch[..part], at) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(n) => {
                at += n as u64;
                left -= n;
            }
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::{io::Write, sync::Arc};

    use super::*;

    fn file_of(len: usize) -> Arc<File> {
        let mut file = tempfile::tempfile_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        file.write_all(&vec![5; len]).unwrap();
        file.sync_all().unwrap();
        Arc::new(file)
    }

    /// A range dropped from the page cache is seen as cold, and is resident after the call.
    #[tokio::test]
    async fn a_cold_range_is_warmed() {
        let range = FileRange { file: file_of(1 << 20), offset: 4096, len: (1 << 20) - 4096 };
        assert!(is_resident(&range).unwrap());
        fadvise(&*range.file, 0, None, Advice::DontNeed).unwrap();
        assert!(!is_resident(&range).unwrap(), "the kernel kept the pages");
        ensure_resident(&range).await.unwrap();
        assert!(is_resident(&range).unwrap());
    }

    /// A file in memory needs no warming, whether its file system can tell or not, and must hold
    /// the range as any other.
    #[tokio::test]
    async fn memory_is_always_resident() {
        let Ok(mut file) = tempfile::tempfile_in("/dev/shm") else { return };
        file.write_all(&[5; 5000]).unwrap();
        let file = Arc::new(file);
        let range = |offset, len| FileRange { file: file.clone(), offset, len };
        assert!(is_resident(&range(1, 4999)).unwrap());
        for short in [range(0, 5001), range(5000, 1)] {
            let error = ensure_resident(&short).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::UnexpectedEof);
        }
    }

    /// A range beyond the file's end is an error, not a silent success; an empty one is fine.
    #[tokio::test]
    async fn the_file_must_hold_the_range() {
        let file = file_of(1000);
        let range = |offset, len| FileRange { file: file.clone(), offset, len };
        ensure_resident(&range(0, 1000)).await.unwrap();
        ensure_resident(&range(5000, 0)).await.unwrap();
        for short in [range(0, 1001), range(1000, 1), range(u64::MAX, 2)] {
            ensure_resident(&short).await.unwrap_err();
        }
        fadvise(&*file, 0, None, Advice::DontNeed).unwrap();
        assert_eq!(warm(&range(0, 1001)).unwrap_err().kind(), ErrorKind::UnexpectedEof);
    }
}
