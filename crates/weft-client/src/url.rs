//! URLs of what lies on a cluster: `weft://HOST[:PORT]/PATH?OPTION=VALUE&...`.
//!
//! Reading one asks nobody: the host is looked up when a client connects. An IPv6 address has
//! brackets around it, as everywhere; bytes of the path that URLs do not take as they are come as
//! `%XX`. There are no fragments: a `#` is part of a name.

use std::{
    ffi::OsString,
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    os::unix::ffi::{OsStrExt, OsStringExt},
    path::{Path, PathBuf},
    str::FromStr,
};

use crate::limits::URL_BYTES_MAX;

mod error;
mod options;

use error::SCHEME;
pub use error::UrlError;
pub use options::{LocalSockets, UrlOptions};

/// Port of NFS, which servers listen on unless told otherwise.
pub const DEFAULT_PORT: u16 = 2049;
/// Longest host name (RFC 1035 §3.1).
const NAME_BYTES_MAX: usize = 253;

/// Which server, as it was written.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Host {
    /// An address.
    Ip(IpAddr),
    /// A name, which may have several addresses.
    Name(String),
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Host::Ip(IpAddr::V6(ip)) => write!(f, "[{ip}]"),
            Host::Ip(IpAddr::V4(ip)) => write!(f, "{ip}"),
            Host::Name(name) => f.write_str(name),
        }
    }
}

/// A path on a cluster, and how to get there. Written out and read again it is the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Url {
    /// The metadata server.
    pub host: Host,
    /// Its port.
    pub port: u16,
    /// Begins with a slash; its bytes are those of the names.
    pub path: PathBuf,
    /// What is not as usual.
    pub options: UrlOptions,
}

impl Url {
    /// The export of a server, from its root.
    pub fn root(host: Host, port: u16) -> Url {
        Url { host, port, path: PathBuf::from("/"), options: UrlOptions::default() }
    }
}

impl FromStr for Url {
    type Err = UrlError;

    fn from_str(text: &str) -> Result<Url, UrlError> {
        if text.len() > URL_BYTES_MAX {
            return Err(UrlError::TooLong(text.len()));
        }
        let rest = text.strip_prefix(SCHEME).ok_or_else(|| UrlError::Scheme(text.into()))?;
        let (place, options) = rest.split_once('?').unwrap_or((rest, ""));
        let (server, path) = place.split_at(place.find('/').unwrap_or(place.len()));
        if server.is_empty() || server.starts_with(':') {
            return Err(UrlError::NoHost(text.into()));
        }
        let (host, port) = server_of(server)?;
        let path = if path.is_empty() { "/" } else { path };
        Ok(Url { host, port, path: path_of(path)?, options: options.parse()? })
    }
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{SCHEME}{}", self.host)?;
        if self.port != DEFAULT_PORT {
            write!(f, ":{}", self.port)?;
        }
        write_path(f, &self.path)?;
        let options = self.options.to_string();
        if options.is_empty() { Ok(()) } else { write!(f, "?{options}") }
    }
}

/// HOST or HOST:PORT.
fn server_of(server: &str) -> Result<(Host, u16), UrlError> {
    let wrong = || UrlError::Host(server.into());
    let (host, after) = match server.strip_prefix('[') {
        Some(inside) => {
            let (ip, after) = inside.split_once(']').ok_or_else(wrong)?;
            (Host::Ip(ip.parse::<Ipv6Addr>().map_err(|_| wrong())?.into()), after)
        }
        None => {
            let (name, after) = server.split_at(server.find(':').unwrap_or(server.len()));
            (name_of(name).ok_or_else(wrong)?, after)
        }
    };
    match after.strip_prefix(':') {
        Some(digits) => Ok((host, port_of(digits)?)),
        None if after.is_empty() => Ok((host, DEFAULT_PORT)),
        None => Err(wrong()),
    }
}

fn port_of(digits: &str) -> Result<u16, UrlError> {
    let number = digits.bytes().all(|b| b.is_ascii_digit()).then(|| digits.parse().ok()).flatten();
    number.filter(|port| *port != 0).ok_or_else(|| UrlError::Port(digits.into()))
}

/// An IPv4 address or a name.
fn name_of(text: &str) -> Option<Host> {
    if let Ok(ip) = text.parse::<Ipv4Addr>() {
        return Some(Host::Ip(ip.into()));
    }
    let is_of_name = |b: u8| b.is_ascii_alphanumeric() || b"-._".contains(&b);
    // What is all digits and dots is an address with a mistake in it, such as 10.0.0.256.
    let is_name = text.bytes().all(is_of_name) && text.bytes().any(|b| b.is_ascii_alphabetic());
    (is_name && text.len() <= NAME_BYTES_MAX).then(|| Host::Name(text.to_owned()))
}

/// The bytes that an escaped path means.
fn path_of(text: &str) -> Result<PathBuf, UrlError> {
    let wrong = || UrlError::Path(text.into());
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        let (byte, after) = if byte == b'%' {
            let (digits, after) = after.split_first_chunk::<2>().ok_or_else(wrong)?;
            let [high, low] = digits.map(|d| char::from(d).to_digit(16));
            let (high, low) = high.zip(low).ok_or_else(wrong)?;
            (u8::try_from(high * 16 + low).map_err(|_| wrong())?, after)
        } else {
            (byte, after)
        };
        if byte == 0 {
            return Err(wrong());
        }
        bytes.push(byte);
        rest = after;
    }
    Ok(PathBuf::from(OsString::from_vec(bytes)))
}

fn write_path(f: &mut fmt::Formatter<'_>, path: &Path) -> fmt::Result {
    for byte in path.as_os_str().as_bytes() {
        // RFC 3986 §2.3: what needs no escape, and the slash.
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => {
                write!(f, "{}", char::from(*byte))?;
            }
            _ => write!(f, "%{byte:02X}")?,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
