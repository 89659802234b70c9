//! Whether a file range is in memory, and bringing it there without stalling the runtime.
//!
//! `sendfile` from a cold file waits for the disk inside the system call, and with it every
//! connection of the runtime's thread. So a few bytes are read with `RWF_NOWAIT`, which refuses
//! to wait, and if any is missing the range is read once on the blocking pool.

use std::{
    io::{self, ErrorKind, IoSliceMut},
    os::unix::fs::FileExt,
};

use rustix::{
    fs::{Advice, fadvise},
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

/// Looks at the first byte of every step, and at the last byte.
fn is_resident(range: &FileRange) -> io::Result<bool> {
    let Some(last) = (range.len as u64).checked_sub(1) else {
        return Ok(true);
    };
    let last = range.offset.checked_add(last).ok_or(ErrorKind::InvalidInput)?;
    let mut at = range.offset;
    loop {
        if !is_byte_resident(range, at)? {
            return Ok(false);
        }
        if at == last {
            return Ok(true);
        }
        at = at.saturating_add(PROBE_STEP_BYTES).min(last);
    }
}

fn is_byte_resident(range: &FileRange, at: u64) -> io::Result<bool> {
    let mut byte = [0];
    loop {
        let bufs = &mut [IoSliceMut::new(&mut byte)];
        return match preadv2(&*range.file, bufs, at, ReadWriteFlags::NOWAIT) {
            Ok(0) => Err(ErrorKind::UnexpectedEof.into()),
            Ok(_) => Ok(true),
            Err(Errno::INTR) => continue,
            // Not there; or a file system that cannot tell, where only reading is safe.
            Err(Errno::AGAIN | Errno::OPNOTSUPP) => Ok(false),
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
    use std::{fs::File, io::Write, sync::Arc};

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
