//! Data servers, and where on them the bytes of a file live.

use weft_stripe::{Distribution, Form};

/// Number of a data server, given once and never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DataServerId(pub u32);

/// Identifier of a [`Device`]; never reused with other contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeviceId(pub [u8; 16]);

/// An ordered set of data servers that files are striped over; immutable once made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    /// Identifier of the device.
    pub id: DeviceId,
    /// Data servers in stripe order; at most [`Device::DATA_SERVERS_MAX`].
    pub data_servers: Vec<DataServerId>,
}

impl Device {
    /// Most data servers one device may name (a layout body must stay below one page).
    pub const DATA_SERVERS_MAX: usize = 4096;
}

/// Where the bytes of a file live.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placement {
    /// The device whose data servers hold the stripes.
    pub device: DeviceId,
    /// Bytes of a stripe unit.
    pub stripe_unit_bytes: u32,
    /// Stripe units of one stripe.
    pub stripe_count: u16,
    /// Index in the device of the data server that holds the first stripe unit.
    pub first_stripe_index: u16,
}

impl Placement {
    /// It says nothing: no bytes, or no data servers.
    pub(crate) fn is_empty(&self) -> bool {
        self.stripe_unit_bytes == 0 || self.stripe_count == 0
    }

    /// The rule that spreads a file of this place: round robin, sparse. `None` if the place makes
    /// no sense.
    pub fn distribution(&self) -> Option<Distribution> {
        let (unit, count) = (self.stripe_unit_bytes.into(), self.stripe_count.into());
        Distribution::round_robin(unit, count, self.first_stripe_index.into(), Form::Sparse).ok()
    }
}
