//! Whose program is at the other end of a connection that does not leave this machine: the kernel
//! knows the owner of both sockets, and tells (`sock_diag(7)`).

use std::net::{IpAddr, SocketAddr};

use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink, recv, send, socket_with,
};
use tokio::net::TcpStream;

/// The user whose program is the peer of this connection; `None` if it is on another machine (or
/// in another network namespace), or the kernel does not tell.
pub(super) fn of_peer(stream: &TcpStream) -> Option<u32> {
    let ends = || Some((stream.peer_addr().ok()?, stream.local_addr().ok()?));
    // No address is looked at: this machine may have many. Who is elsewhere has no socket here.
    let (peer, local) = ends()?;
    // A socket that is being closed has no owner any more, which looks like root. So it is asked
    // for twice: whatever was connected the second time had its owner the first time.
    let (first, second) = (socket(peer, local)?, socket(peer, local)?);
    // And while our end lives, no other socket has these addresses.
    (first == second && ends().is_some()).then_some(first.uid)
}

/// A connected socket as the kernel describes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Socket {
    uid: u32,
    /// No other socket ever has the same.
    cookie: [u8; 8],
}

/// Asks for the socket that is connected from `from` to `to`.
fn socket(from: SocketAddr, to: SocketAddr) -> Option<Socket> {
    let kernel = socket_with(
        AddressFamily::NETLINK,
        SocketType::DGRAM,
        SocketFlags::CLOEXEC,
        Some(netlink::SOCK_DIAG),
    )
    .ok()?;
    send(&kernel, &question(from, to), SendFlags::empty()).ok()?;
    let mut answer = [0; 512];
    // The kernel has answered before `send` returns.
    let (bytes, _) = recv(&kernel, &mut answer[..], RecvFlags::DONTWAIT).ok()?;
    read(answer.get(..bytes)?)
}

/// `nlmsghdr` and `inet_diag_req_v2` (linux/netlink.h, linux/inet_diag.h).
const HEADER_BYTES: usize = 16;
const QUESTION_BYTES: usize = HEADER_BYTES + 56;
const SOCK_DIAG_BY_FAMILY: u16 = 20;
const NLM_F_REQUEST: u16 = 1;
const AF_INET: u8 = 2;
const AF_INET6: u8 = 10;
const IPPROTO_TCP: u8 = 6;
/// State of a socket that both ends use.
const TCP_ESTABLISHED: u8 = 1;

fn question(from: SocketAddr, to: SocketAddr) -> [u8; QUESTION_BYTES] {
    let (source, destination) = (from.ip().to_canonical(), to.ip().to_canonical());
    let family = if source.is_ipv4() { AF_INET } else { AF_INET6 };
    let mut q = [0; QUESTION_BYTES];
    let mut put = |at: usize, bytes: &[u8]| q[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, &(QUESTION_BYTES as u32).to_ne_bytes());
    put(4, &SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    put(6, &NLM_F_REQUEST.to_ne_bytes());
    put(HEADER_BYTES, &[family, IPPROTO_TCP]);
    put(20, &u32::MAX.to_ne_bytes()); // states: any
    put(24, &from.port().to_be_bytes());
    put(26, &to.port().to_be_bytes());
    for (at, address) in [(28, source), (44, destination)] {
        match address {
            IpAddr::V4(v4) => put(at, &v4.octets()),
            IpAddr::V6(v6) => put(at, &v6.octets()),
        }
    }
    put(64, &[0xff; 8]); // no cookie
    q
}

/// `inet_diag_msg` after its header; anything else is an error, or a socket that only listens, or
/// one that is not connected any more.
fn read(answer: &[u8]) -> Option<Socket> {
    let u16_at = |at: usize| Some(u16::from_ne_bytes(answer.get(at..at + 2)?.try_into().ok()?));
    let is_socket = u16_at(4)? == SOCK_DIAG_BY_FAMILY;
    let is_connected = *answer.get(HEADER_BYTES + 1)? == TCP_ESTABLISHED;
    let cookie = answer.get(60..68)?.try_into().ok()?;
    let uid = u32::from_ne_bytes(answer.get(80..84)?.try_into().ok()?);
    (is_socket && is_connected).then_some(Socket { uid, cookie })
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    async fn pair(address: &str) -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind(address).await.unwrap();
        let (ours, accepted) =
            tokio::join!(TcpStream::connect(listener.local_addr().unwrap()), listener.accept());
        (ours.unwrap(), accepted.unwrap().0)
    }

    /// The owner of a peer here is who runs this test, by IPv4, by IPv6, and by IPv4 to a socket
    /// of both.
    #[tokio::test]
    async fn a_peer_here_is_known() {
        let me = rustix::process::geteuid().as_raw();
        for address in ["127.0.0.1:0", "127.0.0.2:0", "[::1]:0"] {
            let (ours, accepted) = pair(address).await;
            assert_eq!(of_peer(&accepted), Some(me), "{address}");
            assert_eq!(of_peer(&ours), Some(me), "{address}");
        }
        let listener = TcpListener::bind("[::]:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let connecting = TcpStream::connect(("127.0.0.1", port));
        let (_ours, accepted) = tokio::join!(connecting, listener.accept());
        assert_eq!(of_peer(&accepted.unwrap().0), Some(me));
    }

    /// Of a peer that has closed nothing is said, whatever it was: the kernel calls it root's.
    #[tokio::test]
    async fn a_peer_that_is_gone_is_unknown() {
        let (ours, accepted) = pair("127.0.0.1:0").await;
        drop(ours);
        assert_eq!(of_peer(&accepted), None);
    }

    /// A socket that listens is no peer, an error no socket, and an answer that is cut is none.
    #[test]
    fn other_answers_say_nothing() {
        let mut answer = [0; 88];
        answer[4..6].copy_from_slice(&SOCK_DIAG_BY_FAMILY.to_ne_bytes());
        answer[80] = 7;
        for (state, known) in [(TCP_ESTABLISHED, true), (10, false), (5, false), (0, false)] {
            answer[17] = state;
            assert_eq!(read(&answer).map(|s| s.uid == 7), known.then_some(true), "{state}");
        }
        answer[17] = TCP_ESTABLISHED;
        assert!((0..84).all(|bytes| read(&answer[..bytes]).is_none()));
        answer[4] = 2;
        assert_eq!(read(&answer), None);
    }
}
