//! Unix sockets of servers: made so that nobody connects who may not, in the place of one that a
//! dead server left, never in that of a live one.

use std::{
    fs, io,
    os::unix::{
        fs::{DirBuilderExt, FileTypeExt, PermissionsExt, chown},
        net::UnixListener as StdListener,
    },
    path::Path,
};

use rustix::{
    io::Errno,
    net::{self, AddressFamily, SocketAddrUnix, SocketFlags, SocketType},
};
use tokio::net::UnixListener;

/// Longest path of a socket, bytes: `sun_path` with its closing zero (unix(7)).
const PATH_BYTES_MAX: usize = 107;
/// Connections that wait to be accepted.
const BACKLOG: i32 = 128;
/// Who connects writes (unix(7)): the owner, and root.
const OWNER_MODE: u32 = 0o600;
/// And the group.
const GROUP_MODE: u32 = 0o660;
/// And everybody.
const EVERYBODY_MODE: u32 = 0o666;
/// A directory made for it: what is in it guards itself.
const DIR_MODE: u32 = 0o755;

/// Who may connect, beside the user of the server and root.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Guests {
    /// Nobody.
    Nobody,
    /// The members of a group.
    Group(u32),
    /// All users.
    Everybody,
}

/// Why a socket cannot be listened on.
#[derive(Debug, thiserror::Error)]
pub enum SocketError {
    /// The path is too long.
    #[error(
        "the path has {0} bytes, that of a socket at most {PATH_BYTES_MAX}: choose a shorter one"
    )]
    Long(usize),
    /// Somebody answers there.
    #[error("another server is listening on it: each has a socket of its own, or stop that one")]
    Live,
    /// There is something else.
    #[error("it is there and is no socket: remove it, or choose another path")]
    NoSocket,
    /// The group cannot be given it.
    #[error("it cannot be given to the admin_group: {0} (the server's user must be a member)")]
    Group(io::Error),
    /// Its directory cannot be made.
    #[error("its directory cannot be made: {0} (make it, or choose another path)")]
    Directory(io::Error),
    /// What the system says.
    #[error(transparent)]
    System(#[from] io::Error),
}

impl From<Errno> for SocketError {
    fn from(e: Errno) -> Self {
        SocketError::System(e.into())
    }
}

/// Listens on a path for this user, root, and guests.
///
/// # Errors
/// [`SocketError`].
pub(crate) fn listen(path: &Path, guests: Guests) -> Result<UnixListener, SocketError> {
    let length = path.as_os_str().len();
    if length > PATH_BYTES_MAX {
        return Err(SocketError::Long(length));
    }
    if let Some(dir) = path.parent().filter(|dir| !dir.as_os_str().is_empty() && !dir.exists()) {
        let made = fs::DirBuilder::new().mode(DIR_MODE).create(dir);
        // Whatever the umask of a server leaves.
        let opened =
            made.and_then(|()| fs::set_permissions(dir, fs::Permissions::from_mode(DIR_MODE)));
        opened.map_err(SocketError::Directory)?;
    }
    let address = SocketAddrUnix::new(path)?;
    remove_stale(path, &address)?;
    let socket = new_socket()?;
    net::bind(&socket, &address)?;
    // Nobody can connect before it listens, so the mode is never wider than it should be.
    if let Err(e) = give(path, guests) {
        let _ = fs::remove_file(path);
        return Err(e);
    }
    net::listen(&socket, BACKLOG)?;
    Ok(UnixListener::from_std(StdListener::from(socket))?)
}

fn new_socket() -> Result<rustix::fd::OwnedFd, Errno> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)
}

/// Removes what a server that was killed has left.
fn remove_stale(path: &Path, address: &SocketAddrUnix) -> Result<(), SocketError> {
    match fs::symlink_metadata(path) {
        Ok(found) if found.file_type().is_socket() => {}
        Ok(_) => return Err(SocketError::NoSocket),
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(e) => return Err(e.into()),
    }
    match net::connect(new_socket()?, address) {
        Err(Errno::CONNREFUSED) => Ok(fs::remove_file(path)?),
        // AGAIN: so many wait for it already.
        Ok(()) | Err(Errno::AGAIN) => Err(SocketError::Live),
        Err(e) => Err(e.into()),
    }
}

fn give(path: &Path, guests: Guests) -> Result<(), SocketError> {
    let mode = match guests {
        Guests::Group(gid) => {
            chown(path, None, Some(gid)).map_err(SocketError::Group)?;
            GROUP_MODE
        }
        Guests::Nobody => OWNER_MODE,
        Guests::Everybody => EVERYBODY_MODE,
    };
    Ok(fs::set_permissions(path, fs::Permissions::from_mode(mode))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A socket is for its owner, for a group, or for everybody; one of a dead server is
    /// replaced, one of a live server is not, nor is anything else of that name.
    #[tokio::test]
    async fn sockets_and_what_is_in_their_way() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("run/admin.sock");
        let mode = || fs::symlink_metadata(&path).unwrap().permissions().mode() & 0o777;
        let dead = listen(&path, Guests::Nobody).unwrap();
        assert_eq!(mode(), OWNER_MODE);
        let why = listen(&path, Guests::Nobody).unwrap_err().to_string();
        assert!(why.starts_with("another server is listening on it"), "{why}");
        // Nobody has accepted: the queue is full, and the server is no less alive.
        let callers: Vec<_> = (0..=BACKLOG + 1)
            .map(|_| net::connect(new_socket().unwrap(), &SocketAddrUnix::new(&path).unwrap()))
            .collect();
        assert_eq!(callers.last(), Some(&Err(Errno::AGAIN)));
        assert!(matches!(listen(&path, Guests::Nobody), Err(SocketError::Live)));
        drop(dead);
        let group = rustix::process::getegid().as_raw();
        drop(listen(&path, Guests::Group(group)).unwrap());
        assert_eq!(mode(), GROUP_MODE);
        drop(listen(&path, Guests::Everybody).unwrap());
        assert_eq!(mode(), EVERYBODY_MODE);
        fs::remove_file(&path).unwrap();
        fs::write(&path, "something else").unwrap();
        assert!(matches!(listen(&path, Guests::Nobody), Err(SocketError::NoSocket)));
        assert_eq!(fs::read(&path).unwrap(), b"something else");
    }

    /// Paths up to the limit are listened on; longer ones say how long.
    #[tokio::test]
    async fn paths_that_are_too_long() {
        let dir = tempfile::tempdir().unwrap();
        let room = PATH_BYTES_MAX - dir.path().as_os_str().len() - 1;
        listen(&dir.path().join("x".repeat(room)), Guests::Nobody).unwrap();
        let why =
            listen(&dir.path().join("x".repeat(room + 1)), Guests::Nobody).unwrap_err().to_string();
        assert!(why.starts_with("the path has 108 bytes, that of a socket at most 107"), "{why}");
        let why = listen(&dir.path().join("no/such/sock"), Guests::Nobody).unwrap_err().to_string();
        assert!(why.starts_with("its directory cannot be made: No such file"), "{why}");
    }
}
