//! A data server as the configuration has it.

use weft_store::types::DataServerId;

use super::addresses::AnnouncedAddress;
use crate::control_address::ControlAddress;

/// Where a data server is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DataServerSpec {
    /// Its number.
    pub id: DataServerId,
    /// Where the metadata server reaches it: its NFS port.
    pub control: ControlAddress,
    /// Where clients reach it; what `control` means if empty.
    pub addresses: Vec<AnnouncedAddress>,
    /// The directory that it is to come with, instead of the one it was first met with.
    pub uuid: Option<[u8; 16]>,
}
