//! Networks of clients: an address and a prefix length.

use std::{fmt, net::IpAddr, str::FromStr};

/// All addresses that begin like this one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    prefix_bits: u8,
}

/// A text that is no network.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not ADDRESS or ADDRESS/PREFIX: \"10.0.0.0/8\", \"2001:db8::7\"")]
pub struct NotANetwork(String);

impl Network {
    /// The network of an address; `None` if the prefix is longer than the address.
    pub fn new(address: IpAddr, prefix_bits: u8) -> Option<Network> {
        (prefix_bits <= Self::longest(address)).then_some(Network { address, prefix_bits })
    }

    fn longest(address: IpAddr) -> u8 {
        if address.is_ipv4() { 32 } else { 128 }
    }

    /// Its first address, and the first one behind it, if there is one: where what holds of
    /// addresses may begin to be another.
    pub(crate) fn edges(&self) -> impl Iterator<Item = IpAddr> {
        let host_bits = u32::from(Self::longest(self.address) - self.prefix_bits);
        let (first, behind) = match self.address {
            IpAddr::V4(a) => {
                let hosts = u32::MAX.checked_shr(32 - host_bits).unwrap_or(0);
                let first = a.to_bits() & !hosts;
                let behind = (first | hosts).checked_add(1);
                (first.to_be_bytes().into(), behind.map(|b| b.to_be_bytes().into()))
            }
            IpAddr::V6(a) => {
                let hosts = u128::MAX.checked_shr(128 - host_bits).unwrap_or(0);
                let first = a.to_bits() & !hosts;
                let behind = (first | hosts).checked_add(1);
                (first.to_be_bytes().into(), behind.map(|b| b.to_be_bytes().into()))
            }
        };
        [Some(first), behind].into_iter().flatten()
    }

    /// Whether an address is in it. IPv4 addresses in IPv6 form must be made plain before.
    pub fn contains(&self, other: IpAddr) -> bool {
        let bits = u32::from(self.prefix_bits);
        match (self.address, other) {
            (IpAddr::V4(a), IpAddr::V4(b)) => {
                (a.to_bits() ^ b.to_bits()).checked_shr(32 - bits).unwrap_or(0) == 0
            }
            (IpAddr::V6(a), IpAddr::V6(b)) => {
                (a.to_bits() ^ b.to_bits()).checked_shr(128 - bits).unwrap_or(0) == 0
            }
            _ => false,
        }
    }
}

impl FromStr for Network {
    type Err = NotANetwork;

    fn from_str(text: &str) -> Result<Self, NotANetwork> {
        let wrong = || NotANetwork(text.to_owned());
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| wrong())?;
        // Clients are known by their plain addresses: it would be a network of nobody.
        if address != address.to_canonical() {
            return Err(wrong());
        }
        let prefix_bits = match prefix {
            Some(prefix) => prefix.parse().map_err(|_| wrong())?,
            None => Self::longest(address),
        };
        Network::new(address, prefix_bits).ok_or_else(wrong)
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.prefix_bits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Addresses on both sides of each edge, and those of the other family.
    #[test]
    fn edges_of_networks() {
        let rows = [
            ("10.0.0.0/8", "10.255.255.255", true),
            ("10.0.0.0/8", "11.0.0.0", false),
            ("10.0.0.5", "10.0.0.5", true),
            ("10.0.0.5", "10.0.0.4", false),
            ("0.0.0.0/0", "203.0.113.9", true),
            ("0.0.0.0/0", "::1", false),
            ("::/0", "10.0.0.1", false),
            ("::/0", "2001:db8::1", true),
            ("2001:db8::/33", "2001:db8:7fff::1", true),
            ("2001:db8::/33", "2001:db8:8000::1", false),
        ];
        for (network, address, inside) in rows {
            let network: Network = network.parse().unwrap();
            assert_eq!(network.contains(address.parse().unwrap()), inside, "{network} {address}");
        }
    }

    /// What holds of a network begins with its first address, and ends before the one behind it.
    #[test]
    fn networks_have_edges() {
        let rows = [
            ("10.1.2.3/8", "10.0.0.0 11.0.0.0"),
            ("10.1.2.3", "10.1.2.3 10.1.2.4"),
            ("192.0.0.0/2", "192.0.0.0"),
            ("0.0.0.0/0", "0.0.0.0"),
            ("::/0", "::"),
            ("2001:db8::7/127", "2001:db8::6 2001:db8::8"),
        ];
        for (network, edges) in rows {
            let network: Network = network.parse().unwrap();
            let found: Vec<_> = network.edges().map(|e| e.to_string()).collect();
            assert_eq!(found.join(" "), edges, "{network}");
        }
    }

    /// What is no network is refused, and what is one prints in full.
    #[test]
    fn texts_are_checked() {
        assert_eq!("10.0.0.5".parse::<Network>().unwrap().to_string(), "10.0.0.5/32");
        for text in ["", "host", "10.0.0.0/33", "10.0.0.0/", "10.0.0.0/-1", "::/129", "10.0.0/8"] {
            let e = text.parse::<Network>().unwrap_err();
            assert!(e.to_string().contains("10.0.0.0/8"), "{e}");
        }
    }
}
