//! Addresses as people write them: `HOST`, `HOST:PORT`, with brackets around an IPv6 address, or
//! what `mount` takes (`HOST:/PATH`), or a URL (`nfs://HOST/PATH`). Reading them asks nobody; only
//! [`HostPort::resolve`] does.

use std::{
    fmt, io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs},
    str::FromStr,
};

/// Port of NFS, which servers listen on unless told otherwise.
pub const NFS_PORT: u16 = 2049;
/// A smaller number at the end of an IPv6 address is hardly a port that was meant.
const PORT_LIKELY_MIN: u16 = 1000;
/// Longest host name (RFC 1035 §3.1).
const NAME_BYTES_MAX: usize = 253;
/// What URLs of ours begin with.
const SCHEMES: [&str; 2] = ["nfs://", "weft://"];

/// Why a text is no address, or leads nowhere.
#[derive(Debug, thiserror::Error)]
pub enum AddressError {
    /// It is written wrong.
    #[error(
        "\"{0}\" is not an address: write HOST or HOST:PORT, such as localhost, \
         fs.example.org:2049, 192.0.2.7:2049 or [2001:db8::7]:2049"
    )]
    Malformed(String),
    /// The part behind the last colon is no port.
    #[error("\"{0}\": the port must be a number from 0 to 65535")]
    Port(String),
    /// Nobody knows the name.
    #[error("no such host {name}: {why}")]
    NoSuchHost {
        /// The name.
        name: String,
        /// What the system's resolver said.
        why: String,
    },
}

/// Which machine, or which of this machine's addresses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Host {
    /// None was given (`:2049`): every address of this machine, for who listens.
    Any,
    /// An address.
    Ip(IpAddr),
    /// A name, or an IPv6 address with a zone: whoever resolves names knows it.
    Name(String),
}

/// A host, and a port if one was given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostPort {
    /// The host.
    pub host: Host,
    /// The port.
    pub port: Option<u16>,
}

/// A server and a path of its export: what `mount` calls the source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// The server.
    pub server: HostPort,
    /// The path, which begins with a slash; `/` if none was given.
    pub path: String,
}

impl FromStr for HostPort {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<HostPort, AddressError> {
        let malformed = || AddressError::Malformed(text.to_owned());
        let port = |digits: &str| match digits.bytes().all(|b| b.is_ascii_digit()) {
            true => digits.parse().map_err(|_| AddressError::Port(text.to_owned())),
            false => Err(AddressError::Port(text.to_owned())),
        };
        if let Some(rest) = text.strip_prefix('[') {
            let (inside, after) = rest.split_once(']').ok_or_else(malformed)?;
            let host = ipv6(inside).ok_or_else(malformed)?;
            let port = match after.strip_prefix(':') {
                Some(digits) => Some(port(digits)?),
                None if after.is_empty() => None,
                None => return Err(malformed()),
            };
            return Ok(HostPort { host, port });
        }
        match text.split_once(':') {
            // More than one colon without brackets: only an IPv6 address is written so.
            Some((_, rest)) if rest.contains(':') => {
                Ok(HostPort { host: ipv6(text).ok_or_else(malformed)?, port: None })
            }
            Some(("", digits)) => Ok(HostPort { host: Host::Any, port: Some(port(digits)?) }),
            Some((host, digits)) => {
                Ok(HostPort { host: name(host).ok_or_else(malformed)?, port: Some(port(digits)?) })
            }
            None => Ok(HostPort { host: name(text).ok_or_else(malformed)?, port: None }),
        }
    }
}

/// An IPv6 address, perhaps with the zone that a link-local one needs.
fn ipv6(text: &str) -> Option<Host> {
    if let Ok(ip) = text.parse::<Ipv6Addr>() {
        return Some(Host::Ip(ip.into()));
    }
    let (address, zone) = text.split_once('%')?;
    let is_zone = !zone.is_empty() && zone.bytes().all(is_of_name);
    (is_zone && address.parse::<Ipv6Addr>().is_ok()).then(|| Host::Name(text.to_owned()))
}

/// An IPv4 address or a host name.
fn name(text: &str) -> Option<Host> {
    if let Ok(ip) = text.parse::<Ipv4Addr>() {
        return Some(Host::Ip(ip.into()));
    }
    let long_enough = (1..=NAME_BYTES_MAX).contains(&text.len());
    // What is all digits and dots is an address with a mistake in it, such as 10.0.0.256.
    let numeric = text.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    let labels = text.strip_suffix('.').unwrap_or(text).split('.');
    let well_formed = labels.clone().all(|l| !l.is_empty() && !l.starts_with('-'));
    let is_name = long_enough && !numeric && well_formed && text.bytes().all(is_of_name);
    is_name.then(|| Host::Name(text.to_owned()))
}

fn is_of_name(b: u8) -> bool {
    b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_')
}

impl FromStr for Source {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Source, AddressError> {
        let url = SCHEMES.iter().find_map(|scheme| text.strip_prefix(scheme));
        let (server, path) = match url {
            Some(rest) => rest.find('/').map_or((rest, "/"), |at| rest.split_at(at)),
            None if text.contains("://") => return Err(AddressError::Malformed(text.to_owned())),
            None => match text.find(":/") {
                Some(at) => (&text[..at], &text[at + 1..]),
                None => (text, "/"),
            },
        };
        let server: HostPort = server.parse()?;
        if server.host == Host::Any {
            return Err(AddressError::Malformed(text.to_owned()));
        }
        Ok(Source { server, path: path.to_owned() })
    }
}

impl HostPort {
    /// What was meant, perhaps, if this is an IPv6 address without a port: the end of one that was
    /// written without brackets is read as a part of the address.
    pub fn with_brackets(&self) -> Option<HostPort> {
        let (Host::Ip(IpAddr::V6(ip)), None) = (&self.host, self.port) else { return None };
        let text = ip.to_string();
        let (address, port) = text.rsplit_once(':')?;
        let port = port.parse().ok().filter(|port| *port >= PORT_LIKELY_MIN)?;
        let address = if address.ends_with(':') { format!("{address}:") } else { address.into() };
        Some(HostPort {
            host: Host::Ip(address.parse::<Ipv6Addr>().ok()?.into()),
            port: Some(port),
        })
    }

    /// The addresses this leads to, in the resolver's order; at least one.
    ///
    /// # Errors
    /// [`AddressError::NoSuchHost`].
    pub fn resolve(&self, default_port: u16) -> Result<Vec<SocketAddr>, AddressError> {
        let port = self.port.unwrap_or(default_port);
        let name = match &self.host {
            Host::Any => return Ok(vec![(Ipv4Addr::UNSPECIFIED, port).into()]),
            Host::Ip(ip) => return Ok(vec![(*ip, port).into()]),
            Host::Name(name) => name,
        };
        let failed = |why: String| AddressError::NoSuchHost { name: name.clone(), why };
        let found = (name.as_str(), port).to_socket_addrs().map_err(|e| failed(reason(&e)))?;
        let mut addresses: Vec<SocketAddr> = Vec::new();
        for address in found {
            if !addresses.contains(&address) {
                addresses.push(address);
            }
        }
        if addresses.is_empty() {
            return Err(failed("it has no address".into()));
        }
        Ok(addresses)
    }
}

/// What the resolver said, without the words that the standard library puts before it.
fn reason(e: &io::Error) -> String {
    let text = e.to_string();
    text.rsplit_once("information: ").map_or(text.clone(), |(_, why)| why.to_owned())
}

impl fmt::Display for HostPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.host {
            Host::Any => {}
            Host::Ip(IpAddr::V6(ip)) => write!(f, "[{ip}]")?,
            Host::Ip(IpAddr::V4(ip)) => write!(f, "{ip}")?,
            Host::Name(name) if name.contains(':') => write!(f, "[{name}]")?,
            Host::Name(name) => f.write_str(name)?,
        }
        self.port.map_or(Ok(()), |port| write!(f, ":{port}"))
    }
}

/// An address by which this machine reaches one of its own listeners: the loopback address in place
/// of the unspecified one.
pub fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::V6(Ipv6Addr::LOCALHOST),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}

/// How a mount names an address: in brackets if it is one of IPv6.
pub fn bracketed(ip: IpAddr) -> String {
    match ip {
        IpAddr::V4(ip) => ip.to_string(),
        IpAddr::V6(ip) => format!("[{ip}]"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> HostPort {
        text.parse().unwrap_or_else(|e| panic!("{text}: {e}"))
    }

    fn host_port(host: Host, port: Option<u16>) -> HostPort {
        HostPort { host, port }
    }

    /// Every way of writing an address, and that it is shown as it can be read again.
    #[test]
    fn addresses_as_people_write_them() {
        let ip = |text: &str| Host::Ip(text.parse().unwrap());
        let name = |text: &str| Host::Name(text.into());
        for (text, host, port) in [
            ("localhost", name("localhost"), None),
            ("localhost:2049", name("localhost"), Some(2049)),
            ("fs-1.example.org.:1", name("fs-1.example.org."), Some(1)),
            ("node_7", name("node_7"), None),
            ("127.0.0.1", ip("127.0.0.1"), None),
            ("192.0.2.7:65535", ip("192.0.2.7"), Some(65_535)),
            (":2049", Host::Any, Some(2049)),
            ("[::1]", ip("::1"), None),
            ("[::1]:2049", ip("::1"), Some(2049)),
            ("::1", ip("::1"), None),
            ("2001:db8::7", ip("2001:db8::7"), None),
            ("[fe80::1%eth0]:0", name("fe80::1%eth0"), Some(0)),
            ("fe80::1%eth0", name("fe80::1%eth0"), None),
        ] {
            assert_eq!(read(text), host_port(host, port), "{text}");
            assert_eq!(read(&read(text).to_string()), read(text), "{text}");
        }
    }

    /// A port behind an address without brackets is guessed, where the rest is an address.
    #[test]
    fn forgotten_brackets() {
        for (text, meant) in [
            ("::1:2049", Some("[::1]:2049")),
            ("2001:db8::7:2049", Some("[2001:db8::7]:2049")),
            ("fe80::2049", Some("[fe80::]:2049")),
            ("1:2:3:4:5:6:7:2049", None),
            ("::1:beef", None),
            ("2001:db8::7", None),
            ("[::1]:2049", None),
            ("127.0.0.1", None),
        ] {
            assert_eq!(
                read(text).with_brackets().map(|m| m.to_string()).as_deref(),
                meant,
                "{text}"
            );
        }
    }

    /// What is no address says so and shows how one looks; a wrong port says that it is the port.
    #[test]
    fn what_is_no_address() {
        for text in [
            "",
            ":",
            "[::1",
            "::1]",
            "[::1]2049",
            "[127.0.0.1]",
            "[]:1",
            "a b",
            "-a",
            "a..b",
            "10.0.0.256",
            "1.2.3",
            "ho/st",
            "a%b",
            "1:2:3",
            "[fe80::1%]",
            "ü",
        ] {
            let e = text.parse::<HostPort>().expect_err(text);
            let is_port = matches!(e, AddressError::Port(_)) && text == ":";
            assert!(matches!(e, AddressError::Malformed(_)) || is_port, "{text}: {e}");
        }
        for text in ["a:", "a:x", "a:65536", "a:-1", "a:+1", ":99999", "[::1]:", "[::1]:x"] {
            let e = text.parse::<HostPort>().expect_err(text);
            assert!(matches!(e, AddressError::Port(_)), "{text}: {e}");
        }
        let e = "a b:1".parse::<HostPort>().expect_err("a space").to_string();
        assert!(e.contains("\"a b:1\"") && e.contains("[2001:db8::7]:2049"), "{e}");
        let long = "a".repeat(NAME_BYTES_MAX + 1);
        assert!(long.parse::<HostPort>().is_err());
        assert!(long[1..].parse::<HostPort>().is_ok());
    }

    /// A server may be given as `mount` takes it, or as a URL.
    #[test]
    fn sources() {
        for (text, server, path) in [
            ("localhost", "localhost", "/"),
            ("localhost:2049", "localhost:2049", "/"),
            ("localhost:/", "localhost", "/"),
            ("fs:/a/b", "fs", "/a/b"),
            ("fs:2050:/a", "fs:2050", "/a"),
            ("[::1]:/", "[::1]", "/"),
            ("[::1]:2050:/x", "[::1]:2050", "/x"),
            ("::1", "[::1]", "/"),
            ("nfs://fs", "fs", "/"),
            ("nfs://fs/", "fs", "/"),
            ("nfs://[::1]:2050/a b/c:/d", "[::1]:2050", "/a b/c:/d"),
            ("weft://127.0.0.1:2049/x", "127.0.0.1:2049", "/x"),
        ] {
            let source: Source = text.parse().unwrap_or_else(|e| panic!("{text}: {e}"));
            assert_eq!(source, Source { server: read(server), path: path.into() }, "{text}");
        }
        for text in ["", ":/", ":2049", "nfs://", "nfs:///x", "http://fs/x", "a b:/"] {
            assert!(text.parse::<Source>().is_err(), "{text}");
        }
    }

    /// Addresses need no resolver; a name that nobody has is named in the error.
    #[test]
    fn resolving() {
        let one = |text: &str| read(text).resolve(7).unwrap();
        assert_eq!(one("192.0.2.7"), ["192.0.2.7:7".parse().unwrap()]);
        assert_eq!(one("[::1]:8"), ["[::1]:8".parse().unwrap()]);
        assert_eq!(one(":8"), ["0.0.0.0:8".parse().unwrap()]);
        let e = read("no-such-host.invalid").resolve(7).expect_err("nobody has it").to_string();
        assert!(e.starts_with("no such host no-such-host.invalid: "), "{e}");
        assert!(!e.contains("address information"), "{e}");
    }

    /// A listener on every address is reached by the loopback address of its family.
    #[test]
    fn loopback_in_place_of_unspecified() {
        for (from, to) in
            [("0.0.0.0:1", "127.0.0.1:1"), ("[::]:1", "[::1]:1"), ("192.0.2.7:1", "192.0.2.7:1")]
        {
            assert_eq!(reachable(from.parse().unwrap()), to.parse().unwrap());
        }
        assert_eq!(bracketed("::1".parse().unwrap()), "[::1]");
        assert_eq!(bracketed("10.0.0.1".parse().unwrap()), "10.0.0.1");
    }
}
