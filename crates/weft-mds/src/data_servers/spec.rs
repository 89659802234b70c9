//! A data server as the configuration has it.

use std::net::SocketAddr;

use weft_store::types::DataServerId;

use super::addresses::AnnouncedAddress;

/// Where a data server is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DataServerSpec {
    /// Its number.
    pub id: DataServerId,
    /// Where the metadata server reaches it: its NFS port.
    pub control: SocketAddr,
    /// Where clients reach it; `control` if empty.
    pub addresses: Vec<AnnouncedAddress>,
}
