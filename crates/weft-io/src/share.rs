//! Sharing blocks between files, where the file system can (XFS, btrfs).

use std::{fs::File, io, os::fd::AsRawFd};

use rustix::ioctl::{Opcode, Setter, ioctl, opcode};

/// `struct file_clone_range` of `linux/fs.h`.
#[repr(C)]
struct FileCloneRange {
    src_fd: i64,
    src_offset: u64,
    src_length: u64,
    dest_offset: u64,
}

/// FICLONERANGE of `linux/fs.h`.
const FICLONERANGE: Opcode = opcode::write::<FileCloneRange>(0x94, 13);

/// Makes a range of one file the same blocks as a range of another, or of its own. 0 bytes mean to
/// the end of the source.
///
/// # Errors
/// `EOPNOTSUPP` or `ENOTTY` from a file system that cannot, `EINVAL` for ranges that are not made
/// of whole blocks and do not end with both files, and what else the disk says.
pub fn share_range(from: &File, offset: u64, len: u64, to: &File, at: u64) -> io::Result<()> {
    let range = FileCloneRange {
        src_fd: i64::from(from.as_raw_fd()),
        src_offset: offset,
        src_length: len,
        dest_offset: at,
    };
    #[allow(unsafe_code, reason = "rustix knows no ioctl by its arguments")]
    // SAFETY: FICLONERANGE reads one `struct file_clone_range`, which `range` is in layout and
    // size, and writes nothing; the descriptor in it is open as long as `from` is borrowed.
    unsafe {
        ioctl(to, Setter::<FICLONERANGE, FileCloneRange>::new(range))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::FileExt};

    use rustix::io::Errno;

    use super::*;

    /// The kernel understands the request: it shares, or says that it cannot; half a block is
    /// refused by those that can.
    #[test]
    fn ranges_are_shared_or_refused() {
        let dir = tempfile::tempdir().unwrap();
        let make = |name| {
            let path = dir.path().join(name);
            fs::OpenOptions::new().create_new(true).read(true).write(true).open(path).unwrap()
        };
        let (from, to) = (make("from"), make("to"));
        from.write_all_at(&[7; 3 << 16], 0).unwrap();
        match share_range(&from, 1 << 16, 1 << 16, &to, 0) {
            Ok(()) => {
                let mut data = [0; 1 << 16];
                to.read_exact_at(&mut data, 0).unwrap();
                assert!(data.iter().all(|b| *b == 7));
                let odd = share_range(&from, 1, 5, &to, 0).unwrap_err();
                assert_eq!(odd.raw_os_error(), Some(Errno::INVAL.raw_os_error()));
            }
            Err(e) => {
                let cannot = [Errno::OPNOTSUPP, Errno::NOTTY].map(|e| Some(e.raw_os_error()));
                assert!(cannot.contains(&e.raw_os_error()), "{e}");
            }
        }
    }
}
