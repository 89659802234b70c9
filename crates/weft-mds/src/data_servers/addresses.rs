//! Which of a data server's addresses a client is told (design part 2; Linux: one list of
//! alternatives for each data server, `nfs4_pnfs_ds_connect`).

use std::{
    fmt,
    net::{IpAddr, SocketAddr},
    str::FromStr,
};

use crate::{control_address::DATA_SERVER_PORT, network::Network};

/// An address of a data server and, if it has a prefix length, the network whose clients use it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AnnouncedAddress {
    addr: SocketAddr,
    prefix_bits: Option<u8>,
}

/// A text that is no announced address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is not an address that clients can be told: numbers, with a port unless it is 2050, and \
     the prefix length of a network if only clients of that network use it: \"10.0.0.5:2050/24\", \
     \"10.0.0.5\", \"[2001:db8::5]:2050\""
)]
pub struct NotAnAddress(String);

impl FromStr for AnnouncedAddress {
    type Err = NotAnAddress;

    fn from_str(text: &str) -> Result<Self, NotAnAddress> {
        let wrong = || NotAnAddress(text.to_owned());
        let (addr, prefix) = match text.split_once('/') {
            Some((addr, prefix)) => (addr, Some(prefix)),
            None => (text, None),
        };
        let bare = addr.strip_prefix('[').and_then(|a| a.strip_suffix(']')).unwrap_or(addr);
        let default_port = |ip: IpAddr| SocketAddr::new(ip, DATA_SERVER_PORT);
        let addr: Result<SocketAddr, _> = addr.parse().or_else(|_| bare.parse().map(default_port));
        let addr = addr.map_err(|_| wrong())?;
        let longest = if addr.is_ipv4() { 32 } else { 128 };
        let prefix_bits = match prefix {
            Some(p) => Some(p.parse().ok().filter(|p| *p <= longest).ok_or_else(wrong)?),
            None => None,
        };
        // Port 0 cannot be connected to.
        if addr.port() == 0 { Err(wrong()) } else { Ok(AnnouncedAddress { addr, prefix_bits }) }
    }
}

impl fmt::Display for AnnouncedAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.prefix_bits {
            Some(bits) => write!(f, "{}/{bits}", self.addr),
            None => write!(f, "{}", self.addr),
        }
    }
}

impl From<SocketAddr> for AnnouncedAddress {
    fn from(addr: SocketAddr) -> Self {
        AnnouncedAddress { addr, prefix_bits: None }
    }
}

impl AnnouncedAddress {
    /// Whether this client is in the address's own network.
    fn is_near(&self, client: IpAddr) -> bool {
        let own = self.prefix_bits.and_then(|bits| Network::new(self.addr.ip(), bits));
        own.is_some_and(|network| network.contains(client))
    }

    /// What a client that reached the metadata server at `here` connects to. Every address, or a
    /// loopback one, means a data server on the metadata server's own machine.
    fn as_seen_at(&self, here: IpAddr) -> SocketAddr {
        let ip = self.addr.ip();
        if ip.is_unspecified() || ip.is_loopback() {
            SocketAddr::new(here, self.addr.port())
        } else {
            self.addr
        }
    }
}

/// The addresses a client is told, in configured order: those in whose network it is, or all if
/// it is in none.
pub(super) fn select(
    all: &[AnnouncedAddress],
    peer: SocketAddr,
    local: SocketAddr,
) -> Vec<SocketAddr> {
    // An IPv4 client of a dual-stack listener appears as ::ffff:a.b.c.d.
    let (peer, here) = (peer.ip().to_canonical(), local.ip().to_canonical());
    let any_near = all.iter().any(|a| a.is_near(peer));
    let mut told = Vec::with_capacity(all.len());
    for address in all.iter().filter(|a| !any_near || a.is_near(peer)) {
        let seen = address.as_seen_at(here);
        if !told.contains(&seen) {
            told.push(seen);
        }
    }
    told
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses(text: &str) -> Vec<AnnouncedAddress> {
        text.split_whitespace().map(|a| a.parse().unwrap()).collect()
    }

    /// The selection table: configured addresses, client, where it reached us, what it is told.
    #[test]
    fn clients_are_told_the_addresses_they_can_use() {
        let rows = [
            // One address without a network is everybody's.
            ("10.0.0.5:2050", "192.0.2.1", "10.0.0.1", "10.0.0.5:2050"),
            // The client's own network wins; elsewhere all, in order.
            ("10.0.0.5:2050/24 10.1.0.5:2050/24", "10.1.0.9", "10.1.0.1", "10.1.0.5:2050"),
            ("10.0.0.5:2050/24 10.1.0.5:2050/24", "10.0.0.9", "10.0.0.1", "10.0.0.5:2050"),
            (
                "10.1.0.5:2050/24 10.0.0.5:2050/24",
                "10.2.0.9",
                "10.0.0.1",
                "10.1.0.5:2050 10.0.0.5:2050",
            ),
            ("10.0.0.5:1/24 10.9.9.9:2", "10.0.0.9", "10.0.0.1", "10.0.0.5:1"),
            ("10.0.0.5:1/24 10.9.9.9:2", "11.0.0.9", "10.0.0.1", "10.0.0.5:1 10.9.9.9:2"),
            // Edges of prefixes.
            ("10.0.0.5:1/32 10.0.0.6:1/31", "10.0.0.5", "10.0.0.1", "10.0.0.5:1"),
            ("10.0.0.5:1/32 10.0.0.6:1/31", "10.0.0.7", "10.0.0.1", "10.0.0.6:1"),
            ("10.0.0.5:1/0 10.0.0.6:1", "203.0.113.1", "10.0.0.1", "10.0.0.5:1"),
            ("[2001:db8::5]:1/64 10.0.0.5:1/8", "2001:db8::9", "2001:db8::1", "[2001:db8::5]:1"),
            ("[2001:db8::5]:1/64 10.0.0.5:1/8", "10.3.3.3", "10.0.0.1", "10.0.0.5:1"),
            ("[2001:db8::5]:1/128", "2001:db8::6", "2001:db8::1", "[2001:db8::5]:1"),
            ("[::]:7/0 10.0.0.5:1", "2001:db8::9", "2001:db8::1", "[2001:db8::1]:7"),
            // IPv4 clients of a dual-stack listener.
            ("10.0.0.5:1/24 10.1.0.5:1/24", "::ffff:10.1.0.9", "::ffff:10.1.0.1", "10.1.0.5:1"),
            ("0.0.0.0:2050", "::ffff:10.1.0.9", "::ffff:10.1.0.1", "10.1.0.1:2050"),
            // A data server on our own machine is where the client found us.
            ("0.0.0.0:2050", "10.1.0.9", "10.1.0.1", "10.1.0.1:2050"),
            ("[::]:2050", "10.1.0.9", "10.1.0.1", "10.1.0.1:2050"),
            ("127.0.0.1:2050", "10.1.0.9", "10.1.0.1", "10.1.0.1:2050"),
            ("127.0.0.1:2050", "127.0.0.1", "127.0.0.1", "127.0.0.1:2050"),
            ("[::1]:2050", "10.1.0.9", "10.1.0.1", "10.1.0.1:2050"),
            ("0.0.0.0:1 127.0.0.1:1 [::]:2", "10.1.0.9", "10.1.0.1", "10.1.0.1:1 10.1.0.1:2"),
        ];
        for (all, peer, local, told) in rows {
            let at = |ip: &str, port| SocketAddr::new(ip.parse().unwrap(), port);
            let got = select(&addresses(all), at(peer, 999), at(local, 2049));
            let told: Vec<SocketAddr> = told.split(' ').map(|a| a.parse().unwrap()).collect();
            assert_eq!(got, told, "{all} for {peer} at {local}");
        }
    }

    /// What is no address is refused, and what is one prints as it was written.
    #[test]
    fn texts_are_checked() {
        for text in ["10.0.0.5:2050", "10.0.0.5:2050/24", "[2001:db8::5]:1/128", "0.0.0.0:1/0"] {
            assert_eq!(text.parse::<AnnouncedAddress>().unwrap().to_string(), text);
        }
        for (text, full) in [
            ("10.0.0.5", "10.0.0.5:2050"),
            ("10.0.0.5/24", "10.0.0.5:2050/24"),
            ("[2001:db8::5]", "[2001:db8::5]:2050"),
            ("2001:db8::5/64", "[2001:db8::5]:2050/64"),
        ] {
            assert_eq!(text.parse::<AnnouncedAddress>().unwrap().to_string(), full);
        }
        for text in [
            "",
            "10.0.0.5:0",
            "10.0.0.5:70000",
            "10.0.0.5:1/33",
            "10.0.0.5:1/",
            "10.0.0.5:1/-1",
            "10.0.0.5:1/8/8",
            "[::1]:1/129",
            "host:2050",
        ] {
            let e = text.parse::<AnnouncedAddress>().unwrap_err();
            assert!(e.to_string().contains("10.0.0.5:2050/24"), "{e}");
        }
    }
}
