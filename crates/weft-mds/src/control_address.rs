//! Where the metadata server reaches a data server: an address, or a name.

use std::{fmt, io, net::SocketAddr};

use tokio::net::lookup_host;

/// Port of a data server unless told otherwise.
pub const DATA_SERVER_PORT: u16 = 2050;

/// Where the metadata server reaches a data server: an address, or a name that is looked up
/// whenever it connects.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum ControlAddress {
    /// An address.
    Number(SocketAddr),
    /// A host name, and the port there.
    Name(String, u16),
}

impl From<SocketAddr> for ControlAddress {
    fn from(address: SocketAddr) -> Self {
        ControlAddress::Number(address)
    }
}

impl fmt::Display for ControlAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ControlAddress::Number(address) => address.fmt(f),
            ControlAddress::Name(name, port) => write!(f, "{name}:{port}"),
        }
    }
}

impl ControlAddress {
    /// The addresses that this means now; at least one.
    ///
    /// # Errors
    /// Nobody knows the name.
    pub(crate) async fn resolve(&self) -> io::Result<Vec<SocketAddr>> {
        let (name, port) = match self {
            ControlAddress::Number(address) => return Ok(vec![*address]),
            ControlAddress::Name(name, port) => (name.as_str(), *port),
        };
        let found: Vec<_> = lookup_host((name, port)).await?.collect();
        if found.is_empty() {
            return Err(io::Error::new(io::ErrorKind::NotFound, "it has no address"));
        }
        Ok(found)
    }
}
