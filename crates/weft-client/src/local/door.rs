//! The Unix socket of one data server.

use std::{
    fs::File,
    io::{self, ErrorKind},
    path::Path,
    time::Instant,
};

use bytes::Bytes;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::UnixStream,
    sync::{Mutex, MutexGuard},
    time::timeout,
};
use weft_layout::local::{GREETING, OWNER_BYTES_MAX, socket_name};
use weft_nfs::NfsStat;

use crate::limits;

/// Where one data server is asked for descriptors, by one at a time. The lock is held across
/// awaits: that is its purpose.
#[derive(Debug, Default)]
pub struct Door(Mutex<State>);

#[derive(Debug, Default)]
enum State {
    /// Nobody has knocked.
    #[default]
    Untried,
    Open(UnixStream),
    /// Not to be tried before then.
    Shut(Instant),
}

/// A turn at an open door.
pub(super) struct Turn<'a>(MutexGuard<'a, State>);

impl Door {
    /// The next turn, when the door is open or can be opened: the data server of this owner has its
    /// socket in `dir`.
    pub(super) async fn turn(&self, dir: &Path, owner: &[u8]) -> Option<Turn<'_>> {
        let mut state = self.0.lock().await;
        match &*state {
            State::Open(_) => return Some(Turn(state)),
            State::Shut(until) if Instant::now() < *until => return None,
            State::Untried | State::Shut(_) => {}
        }
        let Some(path) = socket_name(owner).map(|name| dir.join(name)) else {
            *state = shut();
            return None;
        };
        let opened = timeout(limits::LOCAL_ANSWER_LIMIT, open(&path, owner)).await;
        match opened.unwrap_or_else(|_| Err(ErrorKind::TimedOut.into())) {
            Ok(socket) => {
                tracing::info!(socket = %path.display(), "its objects are read by descriptor");
                *state = State::Open(socket);
                Some(Turn(state))
            }
            Err(error) => {
                let socket = path.display();
                match error.kind() {
                    // Most data servers are elsewhere, or have none.
                    ErrorKind::NotFound => tracing::debug!(%socket, "there is no local socket"),
                    _ => tracing::warn!(%socket, %error, "its objects are read over TCP instead"),
                }
                *state = shut();
                None
            }
        }
    }
}

impl Turn<'_> {
    /// The file of a filehandle's object, or the status why the data server gives none. An error:
    /// it does not answer any more, and the door is to be opened anew.
    pub(super) async fn ask(&mut self, fh: &Bytes) -> io::Result<Result<File, NfsStat>> {
        // If this is dropped before the answer is here, so is the connection.
        let State::Open(mut socket) = std::mem::take(&mut *self.0) else {
            return Err(ErrorKind::NotConnected.into());
        };
        let asked = timeout(limits::LOCAL_ANSWER_LIMIT, ask(&mut socket, fh)).await;
        let answer = asked.unwrap_or_else(|_| Err(ErrorKind::TimedOut.into()))?;
        *self.0 = State::Open(socket);
        Ok(answer)
    }

    /// Nobody is to try for a while.
    pub(super) fn shut(mut self) {
        *self.0 = shut();
    }
}

fn shut() -> State {
    State::Shut(Instant::now() + limits::LOCAL_RETRY)
}

/// Connects, and makes sure whose socket it is.
async fn open(path: &Path, owner: &[u8]) -> io::Result<UnixStream> {
    let mut socket = UnixStream::connect(path).await?;
    socket.write_all(&GREETING).await?;
    let mut greeting = [0; GREETING.len()];
    socket.read_exact(&mut greeting).await?;
    let len = usize::try_from(socket.read_u32().await?).unwrap_or(usize::MAX);
    if greeting != GREETING || len > OWNER_BYTES_MAX {
        return Err(io::Error::new(ErrorKind::InvalidData, "no data server answers there"));
    }
    let mut theirs = vec![0; len];
    socket.read_exact(&mut theirs).await?;
    match theirs == owner {
        true => Ok(socket),
        false => Err(io::Error::new(ErrorKind::InvalidData, "another server answers there")),
    }
}

/// One request.
async fn ask(socket: &mut UnixStream, fh: &Bytes) -> io::Result<Result<File, NfsStat>> {
    let len = u32::try_from(fh.len()).map_err(io::Error::other)?;
    socket.write_all(&[&len.to_be_bytes(), &fh[..]].concat()).await?;
    let (mut status, mut file, mut got) = ([0; 4], None, 0);
    while let Some(rest) = status.get_mut(got..).filter(|rest| !rest.is_empty()) {
        let (bytes, came) = weft_io::receive_descriptor(socket, rest).await?;
        if bytes == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        got += bytes;
        file = file.or(came);
    }
    match (NfsStat(u32::from_be_bytes(status)), file) {
        (NfsStat::OK, Some(file)) if weft_io::is_read_only_file(&file)? => Ok(Ok(file)),
        (NfsStat::OK, _) => Err(io::Error::new(ErrorKind::InvalidData, "no file to read came")),
        (refusal, _) => Ok(Err(refusal)),
    }
}
