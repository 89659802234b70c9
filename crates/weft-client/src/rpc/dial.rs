//! Making the TCP connection. Programs of root come from a privileged port where they are asked to:
//! by that a server knows that its client's machine vouches for them.

use std::{
    io,
    net::{Ipv4Addr, Ipv6Addr, SocketAddr},
    sync::atomic::{AtomicU32, Ordering},
};

use tokio::net::{TcpSocket, TcpStream};

use crate::limits::PRIVILEGED_PORTS;

/// Connections of this process from privileged ports so far.
static NEXT: AtomicU32 = AtomicU32::new(0);

/// Connects; from a privileged port if that is wanted, allowed, and one is free.
pub(super) async fn dial(addr: SocketAddr, privileged: bool) -> io::Result<TcpStream> {
    if privileged {
        // Whoever comes at the same time begins elsewhere.
        let turn = std::process::id().wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed));
        let start = turn as usize % PRIVILEGED_PORTS.len();
        for port in PRIVILEGED_PORTS.skip(start).chain(PRIVILEGED_PORTS.take(start)) {
            match from_port(addr, port).await {
                Err(e) if is_taken(&e) => {}
                Err(e) if e.kind() == io::ErrorKind::PermissionDenied => break,
                connected => return connected,
            }
        }
    }
    TcpStream::connect(addr).await
}

/// Whether another connection has the port: to the same server, or for itself alone.
fn is_taken(e: &io::Error) -> bool {
    matches!(e.kind(), io::ErrorKind::AddrInUse | io::ErrorKind::AddrNotAvailable)
}

async fn from_port(addr: SocketAddr, port: u16) -> io::Result<TcpStream> {
    let (socket, any): (_, SocketAddr) = match addr {
        SocketAddr::V4(_) => (TcpSocket::new_v4()?, (Ipv4Addr::UNSPECIFIED, port).into()),
        SocketAddr::V6(_) => (TcpSocket::new_v6()?, (Ipv6Addr::UNSPECIFIED, port).into()),
    };
    // One port serves for connections to several servers, and again when one has ended.
    socket.set_reuseaddr(true)?;
    socket.bind(any)?;
    socket.connect(addr).await
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    /// Root comes from a privileged port, from another each time; who is not root, or does not ask
    /// for one, from an ordinary one.
    #[tokio::test]
    async fn ports_of_root() {
        let is_root = rustix::process::geteuid().is_root();
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let listener = TcpListener::bind(address).await.unwrap();
            let address = listener.local_addr().unwrap();
            let mut connections = Vec::new();
            for privileged in [true, true, false] {
                let stream = dial(address, privileged).await.unwrap();
                let port = stream.local_addr().unwrap().port();
                assert_eq!(PRIVILEGED_PORTS.contains(&port), privileged && is_root, "{port}");
                connections.push(stream);
            }
            let refused = dial(([127, 0, 0, 1], 1).into(), true).await.unwrap_err();
            assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
        }
    }
}
