//! Whom a share of something is for: the host at the other end.

use std::net::{IpAddr, Ipv6Addr};

/// The host a request or connection came from, by its address. Of IPv6 the network of 64 bits
/// counts: whoever has one address of it can have all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Host(IpAddr);

impl From<IpAddr> for Host {
    fn from(address: IpAddr) -> Self {
        Host(match address.to_canonical() {
            IpAddr::V6(v6) => {
                let [a, b, c, d, ..] = v6.segments();
                Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0).into()
            }
            v4 => v4,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Which addresses are one host.
    #[test]
    fn hosts() {
        let host = |text: &str| Host::from(text.parse::<IpAddr>().unwrap());
        assert_eq!(host("2001:db8:1:2::7"), host("2001:db8:1:2:ffff::8"));
        assert_ne!(host("2001:db8:1:2::7"), host("2001:db8:1:3::7"));
        assert_eq!(host("10.0.0.1"), host("::ffff:10.0.0.1"));
        assert_ne!(host("10.0.0.1"), host("10.0.0.2"));
    }
}
