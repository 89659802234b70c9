//! Network addresses as the wire spells them: RFC 5665 universal addresses.

use std::net::{IpAddr, SocketAddr};

use weft_xdr::{Decode, DecodeError, DecodeErrorKind, Encode, Reader, Writer};

use crate::lists::{Item, non_empty_list};

/// Addresses of one data server: Linux uses no more (`NFS_MAX_TRANSPORTS`).
pub const MULTIPATH_MAX: usize = 16;

/// Longest network identifier accepted ("tcp6" and relatives).
const NETID_BYTES_MAX: usize = 16;

/// Longest universal address accepted: an IPv6 address with a scope, and the port's two numbers.
const UADDR_BYTES_MAX: usize = 96;

/// `netaddr4`: RFC 8881 §3.3.9.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct NetAddr {
    /// `na_r_netid`: "tcp" or "tcp6" are ours; others survive decoding.
    pub netid: String,
    /// `na_r_addr`: the address, then the port as two decimal numbers (RFC 5665 §5.2.3).
    pub uaddr: String,
}

/// An address that is none we can connect to.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NetAddrError {
    /// Another transport than TCP.
    #[error("network identifier {0:?} is not ours")]
    Netid(String),
    /// Not an address of that transport, with a port.
    #[error("{0:?} is no universal address")]
    Uaddr(String),
}

impl From<SocketAddr> for NetAddr {
    /// An IPv4 address mapped into IPv6 is spelt as the IPv4 address it is; scopes and flow
    /// labels mean nothing to another host and are left out.
    fn from(addr: SocketAddr) -> Self {
        let [high, low] = addr.port().to_be_bytes();
        let ip = addr.ip().to_canonical();
        let netid = if ip.is_ipv4() { "tcp" } else { "tcp6" };
        NetAddr { netid: netid.into(), uaddr: format!("{ip}.{high}.{low}") }
    }
}

impl TryFrom<&NetAddr> for SocketAddr {
    type Error = NetAddrError;

    fn try_from(addr: &NetAddr) -> Result<Self, NetAddrError> {
        let v6 = match addr.netid.as_str() {
            "tcp" => false,
            "tcp6" => true,
            _ => return Err(NetAddrError::Netid(addr.netid.clone())),
        };
        parse_uaddr(&addr.uaddr)
            .filter(|a| a.is_ipv6() == v6)
            .ok_or_else(|| NetAddrError::Uaddr(addr.uaddr.clone()))
    }
}

fn parse_uaddr(uaddr: &str) -> Option<SocketAddr> {
    let (rest, low) = uaddr.rsplit_once('.')?;
    let (ip, high) = rest.rsplit_once('.')?;
    let ip: IpAddr = ip.parse().ok()?;
    Some(SocketAddr::new(ip, u16::from_be_bytes([octet(high)?, octet(low)?])))
}

/// A decimal number below 256, digits only (`parse` alone would take a sign).
fn octet(text: &str) -> Option<u8> {
    text.bytes().all(|b| b.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

impl Encode for NetAddr {
    fn encode(&self, w: &mut Writer) {
        w.opaque(self.netid.as_bytes());
        w.opaque(self.uaddr.as_bytes());
    }
}

impl Decode for NetAddr {
    fn decode(r: &mut Reader) -> Result<Self, DecodeError> {
        r.label("netaddr4");
        Ok(NetAddr { netid: r.string(NETID_BYTES_MAX)?, uaddr: r.string(UADDR_BYTES_MAX)? })
    }
}

/// The addresses of one data server (`multipath_list4`): at least one, none of them nameless.
pub(crate) fn multipath(r: &mut Reader) -> Item<Vec<NetAddr>> {
    r.label("multipath_list4");
    non_empty_list(r, MULTIPATH_MAX, |r| {
        let addr = NetAddr::decode(r)?;
        let named = !addr.netid.is_empty() && !addr.uaddr.is_empty();
        if named { Ok(addr) } else { Err(r.error(DecodeErrorKind::Value)) }
    })
}
