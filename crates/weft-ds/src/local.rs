//! Descriptors of objects, to read them, for clients of the same host (ADR 32): over a Unix socket,
//! for whoever presents a filehandle that READ would take.

use std::{
    collections::HashMap,
    fs::File,
    io,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{UnixListener, UnixStream},
    sync::{OwnedSemaphorePermit, Semaphore},
    task::JoinSet,
    time::timeout,
};
use weft_layout::{
    Access,
    local::{FILEHANDLE_BYTES_MAX, GREETING},
};
use weft_nfs::{Failure, NfsStat};

pub use weft_layout::local::socket_name;

use crate::server::DataServer;

/// Connections at a time. Each has a socket of the process, and a descriptor while it is sent.
const CONNECTIONS_MAX: usize = 1024;
/// Connections of one user at a time.
const CONNECTIONS_EACH_MAX: usize = 64;
/// How long a client may take to greet.
const GREETING_LIMIT: Duration = Duration::from_secs(10);
/// How long one may be silent, and how long it may leave an answer unread.
const IDLE_LIMIT: Duration = Duration::from_secs(300);
/// How long accepting pauses after an error (out of file descriptors).
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Serves a socket until it is dropped, and its connections with it; `owner` is the major id of the
/// data server's owner.
pub async fn serve_locally(ds: Arc<DataServer>, listener: UnixListener, owner: Vec<u8>) {
    let room = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let (users, owner): (Users, Arc<[u8]>) = (Users::default(), owner.into());
    let mut connections = JoinSet::new();
    loop {
        while connections.try_join_next().is_some() {}
        let Ok(permit) = room.clone().acquire_owned().await else { return };
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!(%error, "cannot accept a local connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let Some(seat) = users.enter(&stream) else {
            tracing::debug!("a user has too many local connections: closing");
            continue;
        };
        let connection = Local { ds: ds.clone(), stream, _taken: (permit, seat) };
        let owner = owner.clone();
        connections.spawn(async move {
            if let Err(error) = connection.serve(&owner).await {
                tracing::debug!(%error, "a local connection ends");
            }
        });
    }
}

/// Connections by user.
#[derive(Debug, Clone, Default)]
struct Users(Arc<Mutex<HashMap<u32, usize>>>);

/// One connection of a user.
struct Seat {
    users: Users,
    user: u32,
}

impl Users {
    fn enter(&self, stream: &UnixStream) -> Option<Seat> {
        let user = stream.peer_cred().ok()?.uid();
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let count = all.entry(user).or_default();
        if *count >= CONNECTIONS_EACH_MAX {
            return None;
        }
        *count += 1;
        Some(Seat { users: self.clone(), user })
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut all = self.users.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = all.get_mut(&self.user) {
            *count -= 1;
            if *count == 0 {
                all.remove(&self.user);
            }
        }
    }
}

/// A connection: one request at a time.
struct Local {
    ds: Arc<DataServer>,
    stream: UnixStream,
    _taken: (OwnedSemaphorePermit, Seat),
}

impl Local {
    async fn serve(mut self, owner: &[u8]) -> io::Result<()> {
        weft_io::keep_few_on_the_way(&self.stream)?;
        within(GREETING_LIMIT, self.greet(owner)).await?;
        while let Some(filehandle) = within(IDLE_LIMIT, self.request()).await? {
            let (status, file) = match self.open(&filehandle).await {
                Ok(file) => (NfsStat::OK, Some(file)),
                Err(refusal) => (refusal.status, None),
            };
            let status = status.0.to_be_bytes();
            let answer = weft_io::send_descriptor(&self.stream, &status, file.as_ref());
            within(IDLE_LIMIT, answer).await?;
        }
        Ok(())
    }

    async fn greet(&mut self, owner: &[u8]) -> io::Result<()> {
        let mut greeting = [0; GREETING.len()];
        self.stream.read_exact(&mut greeting).await?;
        if greeting != GREETING {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "no greeting of a client"));
        }
        let len = u32::try_from(owner.len()).map_err(io::Error::other)?;
        let answer = [&GREETING[..], &len.to_be_bytes(), owner].concat();
        self.stream.write_all(&answer).await
    }

    /// The filehandle of the next request; none if the client has ended.
    async fn request(&mut self) -> io::Result<Option<Vec<u8>>> {
        let mut len = [0; 4];
        match self.stream.read_exact(&mut len).await {
            Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
            read => read?,
        };
        let len = usize::try_from(u32::from_be_bytes(len)).unwrap_or(usize::MAX);
        if len > FILEHANDLE_BYTES_MAX {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "too long a filehandle"));
        }
        let mut filehandle = vec![0; len];
        self.stream.read_exact(&mut filehandle).await?;
        Ok(Some(filehandle))
    }

    /// The object's file, for a handle that READ would take.
    async fn open(&self, filehandle: &[u8]) -> Result<File, Failure> {
        let ds = &self.ds;
        let handle = ds.present(filehandle)?;
        let grant = ds.admit_handle(&handle, Access::Read, 0, 0).await?;
        let opened = ds.disk.call(0, move |s| s.open_read_only(grant.id, grant.epoch)).await?;
        Ok(opened.ok_or(NfsStat::NOENT)?)
    }
}

/// What ends the connection if it takes too long.
async fn within<T>(limit: Duration, work: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    timeout(limit, work).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}
