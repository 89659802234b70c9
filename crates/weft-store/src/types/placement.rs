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

    /// Whether the data server at an index of the device may have an object: its first byte is in
    /// one of the first stripe units.
    pub fn reaches(&self, index: usize) -> bool {
        let index = u32::try_from(index).unwrap_or(u32::MAX);
        let run = self.distribution().and_then(|rule| rule.next_own_run(index, 0));
        let end = u64::from(self.reach) * u64::from(self.stripe_unit_bytes);
        run.is_some_and(|(first, _)| first < end)
    }

    /// The rule that spreads a file of this place: round robin, sparse. `None` if the place makes
    /// no sense.
    pub fn distribution(&self) -> Option<Distribution> {
        let (unit, count) = (self.stripe_unit_bytes.into(), self.stripe_count.into());
        Distribution::round_robin(unit, count, self.first_stripe_index.into(), Form::Sparse).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes up to any end lie on data servers that the reach for them includes; it is never more
    /// than twice what they need, and at most all.
    #[test]
    fn what_is_written_is_within_reach() {
        for (stripe_count, first_stripe_index) in (1..9).flat_map(|n| (0..n).map(move |f| (n, f))) {
            let device = DeviceId([1; 16]);
            let place = Placement {
                device,
                stripe_unit_bytes: 4,
                stripe_count,
                first_stripe_index,
                reach: 1,
            };
            let rule = place.distribution().unwrap();
            for end in 0..80 {
                let reach = place.reach_to(end);
                let place = Placement { reach, ..place };
                assert!(place.is_sound());
                let units = end.div_ceil(4).max(1);
                assert!(u64::from(reach) < 2 * units && reach <= stripe_count);
                let held = |index: u32| place.reaches(index as usize);
                assert!((0..end).all(|at| held(rule.locate(at).stripe_index)));
                let holders = (0..u32::from(stripe_count)).filter(|index| held(*index));
                assert_eq!(holders.count(), usize::from(reach));
                assert!(!held(u32::from(stripe_count)));
            }
        }
        let device = DeviceId([1; 16]);
        let (stripe_unit_bytes, first_stripe_index) = (1, 0);
        let wide = |stripe_count| Placement {
            device,
            stripe_unit_bytes,
            stripe_count,
            first_stripe_index,
            reach: 1,
        };
        assert_eq!(wide(u16::MAX).reach_to(u64::MAX), u16::MAX);
    }
}
