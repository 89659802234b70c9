//! What a layout driver makes of a layout.

use std::{net::SocketAddr, sync::Arc};

use bytes::Bytes;
use weft_nfs::{DeviceId, FileHandle, LayoutType, ops::LayoutSegment};
use weft_stripe::Distribution;

/// A data server's addresses, in the device's order: several ways to one server.
pub type DataServerAddrs = Arc<[SocketAddr]>;

/// A layout or device that cannot be used. Its file goes through the metadata server instead.
#[derive(Debug, Clone, thiserror::Error)]
#[error("unusable layout: {why}")]
pub struct LayoutError {
    /// What is wrong with it.
    pub why: Arc<str>,
}

impl LayoutError {
    /// With this reason.
    pub fn new(why: impl std::fmt::Display) -> LayoutError {
        LayoutError { why: why.to_string().into() }
    }
}

/// Where the bytes of one stripe index go.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct StripeTarget {
    /// The data server, by its addresses (several paths to one server).
    pub server: DataServerAddrs,
    /// The object on it.
    pub fh: FileHandle,
}

/// What a driver makes of a layout: everything needed to move bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// The device it came from.
    pub device: DeviceId,
    /// How file offsets map to stripe indexes and object offsets.
    pub distribution: Distribution,
    /// Bytes in a stripe unit.
    pub stripe_unit_bytes: u64,
    /// Targets by stripe index.
    pub stripes: Vec<StripeTarget>,
}

/// One layout type's knowledge (P4.1).
pub trait LayoutDriver: Send + Sync + 'static {
    /// The type it understands.
    fn layout_type(&self) -> LayoutType;

    /// Which device a layout refers to.
    ///
    /// # Errors
    /// [`LayoutError`] for a body that cannot be read.
    fn device(&self, segment: &LayoutSegment) -> Result<DeviceId, LayoutError>;

    /// Layout and device together.
    ///
    /// # Errors
    /// [`LayoutError`] for bodies that cannot be read or do not fit each other. `mds_fh` is used
    /// where a layout carries no filehandles of its own.
    fn plan(
        &self,
        segment: &LayoutSegment,
        device: &Bytes,
        mds_fh: &FileHandle,
    ) -> Result<Plan, LayoutError>;
}
