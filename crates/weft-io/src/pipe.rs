//! A pipe between a socket and a file: the kernel moves pages into it and copies them out of it.

use std::{
    fs::File,
    io::{self, ErrorKind, Read},
    os::{fd::OwnedFd, unix::fs::FileExt},
};

use rustix::{
    io::Errno,
    pipe::{PipeFlags, SpliceFlags, fcntl_setpipe_size, pipe_with, splice},
};
use tokio::net::TcpStream;

/// Capacity asked for: what an unprivileged process may have (pipe(7)).
const PIPE_BYTES: usize = 1 << 20;
/// Bytes copied at once where the file cannot take them from a pipe.
const COPY_BYTES: usize = 64 << 10;

/// Carries pages from a socket to a file.
#[derive(Debug)]
pub(crate) struct Pipe {
    out: OwnedFd,
    into: OwnedFd,
}

impl Pipe {
    pub(crate) fn new() -> io::Result<Pipe> {
        let (out, into) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        // Beyond the user's share of such memory it stays as small as it is, and works.
        let _ = fcntl_setpipe_size(&into, PIPE_BYTES);
        Ok(Pipe { out, into })
    }

    /// Takes what the socket has, within the pipe's room.
    pub(crate) fn fill(&self, socket: &TcpStream, most: usize) -> io::Result<usize> {
        let flags = SpliceFlags::NONBLOCK | SpliceFlags::MOVE;
        loop {
            match splice(socket, None, &self.into, None, most, flags) {
                Err(Errno::INTR) => {}
                other => return other.map_err(io::Error::from),
            }
        }
    }

    /// Writes `left` bytes, all there are in the pipe, to the file.
    pub(crate) fn empty(&self, file: &File, mut offset: u64, mut left: usize) -> io::Result<()> {
        while left > 0 {
            let flags = SpliceFlags::MOVE;
            match splice(&self.out, None, file, Some(&mut offset), left, flags) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(moved) => left = left.saturating_sub(moved),
                Err(Errno::INTR) => {}
                // The file system has no such operation.
                Err(Errno::INVAL) => return self.copy(file, offset, left),
                Err(e) => return Err(e.into()),
            }
        }
        Ok(())
    }

    /// The same by reading and writing.
    pub(crate) fn copy(&self, file: &File, mut offset: u64, mut left: usize) -> io::Result<()> {
        let mut out = File::from(self.out.try_clone()?);
        let mut part = vec![0; COPY_BYTES];
        while left > 0 {
            let most = left.min(part.len());
            let got = out.read(&mut part[..most])?;
            file.write_all_at(&part[..got], offset)?;
            offset += got as u64;
            left -= got;
        }
        Ok(())
    }
}
