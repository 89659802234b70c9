//! Which of a data server's addresses a client is told (design part 2; Linux: one list of
//! alternatives for each data server, `nfs4_pnfs_ds_connect`).

use std::{
    fmt, io,
    net::{IpAddr, SocketAddr},
    time::{Duration, Instant},
};

use tokio::time::timeout;

use super::each;
use crate::{control_address::ControlAddress, network::Network};

/// How long names may take to be looked up: a client waits.
const LOOKUP_LIMIT: Duration = Duration::from_secs(1);
/// How soon a name that nobody knew is looked up again.
const RETRY_AFTER: Duration = Duration::from_secs(5);

/// Where clients reach a data server and, if it has a prefix length, the network whose clients use
/// it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AnnouncedAddress {
    /// A name is looked up whenever the metadata server connects to the data server.
    pub at: ControlAddress,
    /// At most 32, or 128 for an IPv6 address.
    pub prefix_bits: Option<u8>,
}

impl From<SocketAddr> for AnnouncedAddress {
    fn from(addr: SocketAddr) -> Self {
        AnnouncedAddress { at: addr.into(), prefix_bits: None }
    }
}

impl fmt::Display for AnnouncedAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.prefix_bits {
            Some(bits) => write!(f, "{}/{bits}", self.at),
            None => write!(f, "{}", self.at),
        }
    }
}

/// A number that an announced address means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Reached {
    addr: SocketAddr,
    prefix_bits: Option<u8>,
}

impl From<SocketAddr> for Reached {
    fn from(addr: SocketAddr) -> Self {
        Reached { addr, prefix_bits: None }
    }
}

impl Reached {
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

/// What the announced addresses of a data server meant when they were last looked up.
#[derive(Debug)]
pub(super) struct LookedUp {
    /// How many connections to the data server there had been.
    connections: u64,
    when: Instant,
    /// Every name was known.
    complete: bool,
    known: Vec<Reached>,
}

impl LookedUp {
    /// Looks up what `all` means, unless that was done since the data server was connected to;
    /// what nobody knows now is what it was before.
    pub(super) async fn now(
        all: &[AnnouncedAddress],
        connections: u64,
        last: Option<LookedUp>,
    ) -> LookedUp {
        let (when, before) = match last {
            Some(last) if last.is_good(connections) => return last,
            Some(last) => (Instant::now(), last.known),
            None => (Instant::now(), Vec::new()),
        };
        let found = each::all(all.iter().cloned().map(meaning)).await;
        let complete = found.iter().all(Option::is_some);
        let known: Vec<_> = found.into_iter().flatten().flatten().collect();
        let known = if complete || before.is_empty() { known } else { before };
        LookedUp { connections, when, complete, known }
    }

    fn is_good(&self, connections: u64) -> bool {
        let fresh = self.complete || self.when.elapsed() < RETRY_AFTER;
        self.connections == connections && fresh
    }

    /// The numbers, in configured order.
    pub(super) fn known(&self) -> &[Reached] {
        &self.known
    }
}

/// `None`, and words in the log, if nobody knows the name.
async fn meaning(announced: AnnouncedAddress) -> Option<Vec<Reached>> {
    let AnnouncedAddress { at, prefix_bits } = announced;
    let found = timeout(LOOKUP_LIMIT, at.resolve()).await;
    match found.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())) {
        Ok(found) => Some(found.into_iter().map(|addr| Reached { addr, prefix_bits }).collect()),
        Err(error) => {
            tracing::warn!(%at, %error, "clients are not told an address of a data server");
            None
        }
    }
}

/// The addresses a client is told, in configured order: those in whose network it is, or all if
/// it is in none.
pub(super) fn select(all: &[Reached], peer: SocketAddr, local: SocketAddr) -> Vec<SocketAddr> {
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

    fn addresses(text: &str) -> Vec<Reached> {
        let one = |text: &str| {
            let (addr, bits) = text.split_once('/').map_or((text, None), |(a, b)| (a, Some(b)));
            let prefix_bits = bits.map(|b| b.parse().unwrap());
            Reached { addr: addr.parse().unwrap(), prefix_bits }
        };
        text.split_whitespace().map(one).collect()
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

    /// A name is looked up once a connection; one that nobody knows leaves what was known before,
    /// and is tried again.
    #[tokio::test]
    async fn names_are_looked_up_once_a_connection() {
        let named = |name: &str| AnnouncedAddress {
            at: ControlAddress::Name(name.into(), 2050),
            prefix_bits: Some(8),
        };
        let number: SocketAddr = "10.0.0.5:7".parse().unwrap();
        let both = [named("localhost"), number.into()];
        let first = LookedUp::now(&both, 1, None).await;
        assert!(first.complete);
        let ends = [first.known.first(), first.known.last()].map(|r| *r.unwrap());
        assert!(ends[0].addr.ip().is_loopback() && ends[0].prefix_bits == Some(8), "{ends:?}");
        assert_eq!(ends[1], number.into());
        let (when, known) = (first.when, first.known.clone());
        let nobody = [named("no-such-host.invalid")];
        let same = LookedUp::now(&nobody, 1, Some(first)).await;
        assert_eq!((same.when, &same.known), (when, &known), "it was not looked up again");
        let next = LookedUp::now(&nobody, 2, Some(same)).await;
        assert_eq!((next.complete, &next.known), (false, &known));
        let alone = LookedUp::now(&nobody, 1, None).await;
        assert!(!alone.complete && alone.known.is_empty());
    }
}
