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
    /// How many data servers may have an object of the file, from that of the first stripe unit on:
    /// at least one. The others have none, and make none without being allowed to (ADR 21).
    pub reach: u16,
}

impl Placement {
    /// Whether it says where bytes are: there is a unit, and data servers, one of which at least
    /// may have some.
    pub(crate) fn is_sound(&self) -> bool {
        self.stripe_unit_bytes > 0 && (1..=self.stripe_count).contains(&self.reach)
    }

    /// The reach with which bytes up to an offset have their place. It grows in powers of two, so
    /// that a file which is written from its beginning seldom needs another.
    pub fn reach_to(&self, end: u64) -> u16 {
        let units = end.div_ceil(u64::from(self.stripe_unit_bytes).max(1)).max(1);
        let rounded = units.checked_next_power_of_two().and_then(|n| u16::try_from(n).ok());
        rounded.unwrap_or(u16::MAX).min(self.stripe_count)
    }

    /// The rule that spreads a file of this place: round robin, sparse. `None` if the place makes
    /// no sense.
    pub fn distribution(&self) -> Option<Distribution> {
        let (unit, count) = (self.stripe_unit_bytes.into(), self.stripe_count.into());
        Distribution::round_robin(unit, count, self.first_stripe_index.into(), Form::Sparse).ok()
    }
}
