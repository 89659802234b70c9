//! Open files that one process hands to another over a Unix socket (unix(7), SCM_RIGHTS).

use std::{
    fs::File,
    io::{self, ErrorKind, IoSlice, IoSliceMut},
    mem::MaybeUninit,
    os::fd::AsFd,
};

use rustix::{
    fs::{OFlags, fcntl_getfl},
    io::Errno,
    net::{
        RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
        SendAncillaryMessage, SendFlags, recvmsg, sendmsg, sockopt::set_socket_send_buffer_size,
    },
};
use tokio::{io::Interest, net::UnixStream};

/// Room for one descriptor beside a message.
const ROOM: usize = rustix::cmsg_space!(ScmRights(1));

/// Sends a short message, and a file with it if there is one. The receiver has a descriptor of its
/// own then, of the same open file.
///
/// # Errors
/// What the system says; the message may be sent in part then, and the connection must end.
pub async fn send_descriptor(
    socket: &UnixStream,
    message: &[u8],
    file: Option<&File>,
) -> io::Result<()> {
    let send = || {
        let fds = file.map(|file| [file.as_fd()]);
        let mut room = [MaybeUninit::uninit(); ROOM];
        let mut beside = SendAncillaryBuffer::new(&mut room);
        if let Some(fds) = &fds
            && !beside.push(SendAncillaryMessage::ScmRights(fds))
        {
            return Err(ErrorKind::InvalidInput.into());
        }
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        loop {
            match sendmsg(socket, &[IoSlice::new(message)], &mut beside, flags) {
                Err(Errno::INTR) => {}
                sent => return sent.map_err(io::Error::from),
            }
        }
    };
    match socket.async_io(Interest::WRITABLE, send).await? {
        sent if sent == message.len() => Ok(()),
        _ => Err(ErrorKind::WriteZero.into()),
    }
}

/// Receives some bytes of a message, and the file that came with them if one did. No bytes: the
/// connection has ended. Of several files all but the first are closed.
///
/// # Errors
/// What the system says.
pub async fn receive_descriptor(
    socket: &UnixStream,
    message: &mut [u8],
) -> io::Result<(usize, Option<File>)> {
    let receive = || {
        let mut room = [MaybeUninit::uninit(); ROOM];
        let mut beside = RecvAncillaryBuffer::new(&mut room);
        let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
        let received = loop {
            let parts = &mut [IoSliceMut::new(message)];
            match recvmsg(socket, parts, &mut beside, flags) {
                Err(Errno::INTR) => {}
                received => break received?,
            }
        };
        let first = |message| match message {
            RecvAncillaryMessage::ScmRights(mut fds) => fds.next(),
            _ => None,
        };
        let file = beside.drain().find_map(first);
        Ok((received.bytes, file.map(File::from)))
    };
    socket.async_io(Interest::READABLE, receive).await
}

/// Has a socket hold no more than a few messages that are not received yet: the descriptors with
/// them are open, and count for who has sent them.
///
/// # Errors
/// What the system says.
pub fn keep_few_on_the_way(socket: &UnixStream) -> io::Result<()> {
    // The kernel makes it its least, 4608 bytes, of which a message takes some hundred.
    Ok(set_socket_send_buffer_size(socket, 1)?)
}

/// Whether a file that somebody has handed over is a plain one, open to be read and for nothing
/// else.
///
/// # Errors
/// It cannot be asked.
pub fn is_read_only_file(file: &File) -> io::Result<bool> {
    let mode = fcntl_getfl(file)? & OFlags::ACCMODE;
    Ok(mode == OFlags::RDONLY && file.metadata()?.is_file())
}

#[cfg(test)]
mod tests {
    use std::{
        io::{Read, Write},
        os::unix::fs::FileExt,
        time::Duration,
    };

    use tokio::time::timeout;

    use super::*;

    fn read_only(content: &[u8]) -> File {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(content).unwrap();
        File::open(file.path()).unwrap()
    }

    /// A file arrives with its message and is the same one; messages without one come too.
    #[tokio::test]
    async fn a_file_arrives_with_its_message() {
        let (near, far) = UnixStream::pair().unwrap();
        let file = read_only(b"content");
        send_descriptor(&near, b"none", None).await.unwrap();
        let mut message = [0; 4];
        let (bytes, none) = receive_descriptor(&far, &mut message).await.unwrap();
        assert_eq!((bytes, &message, none.is_none()), (4, b"none", true));
        send_descriptor(&near, b"file", Some(&file)).await.unwrap();
        drop(file);
        let (bytes, got) = receive_descriptor(&far, &mut message).await.unwrap();
        assert_eq!((bytes, &message), (4, b"file"));
        let mut got = got.unwrap();
        assert!(is_read_only_file(&got).unwrap());
        assert!(got.write_at(b"x", 0).is_err());
        let mut content = String::new();
        got.read_to_string(&mut content).unwrap();
        assert_eq!(content, "content");
        drop(near);
        assert_eq!(receive_descriptor(&far, &mut message).await.unwrap().0, 0);
    }

    /// Who does not receive has only a few descriptors waiting for him.
    #[tokio::test]
    async fn few_descriptors_are_on_their_way() {
        let (near, far) = UnixStream::pair().unwrap();
        keep_few_on_the_way(&near).unwrap();
        let file = read_only(b"");
        let mut sent = 0;
        let mut send =
            async || send_descriptor(&near, b"file", Some(&file)).await.map(|()| sent += 1);
        let limit = Duration::from_millis(100);
        while timeout(limit, send()).await.is_ok_and(|sent| sent.is_ok()) {}
        assert!((1..=16).contains(&sent), "{sent}");
        let mut message = [0; 4];
        receive_descriptor(&far, &mut message).await.unwrap().1.unwrap();
    }

    /// What is no plain file, or may be written, is told apart.
    #[test]
    fn other_files_are_told_apart() {
        assert!(!is_read_only_file(&tempfile::tempfile().unwrap()).unwrap());
        assert!(!is_read_only_file(&File::open("/dev/null").unwrap()).unwrap());
        assert!(!is_read_only_file(&File::open("/").unwrap()).unwrap());
    }
}
