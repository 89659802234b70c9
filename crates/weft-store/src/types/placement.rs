//! Data servers, and where on them the bytes of a file live.

use weft_stripe::{CyclicList, Distribution, DistributionError, Form};

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
    /// Data servers in stripe order, each once; at most [`Device::DATA_SERVERS_MAX`].
    pub data_servers: Vec<DataServerId>,
    /// The order in which they get units, if that is not theirs: indices of `data_servers`.
    pub list: Option<CyclicList>,
}

impl Device {
    /// Most data servers one device may name (a layout body must stay below one page).
    pub const DATA_SERVERS_MAX: usize = 4096;

    /// A device of data servers in this order, in which one may come more than once. `None` for a
    /// list with such a one that is longer than [`CyclicList::LEN_MAX`].
    pub fn of_stripes(id: DeviceId, stripes: &[DataServerId]) -> Option<Device> {
        let mut data_servers: Vec<DataServerId> = Vec::new();
        let mut indices = Vec::new();
        for stripe in stripes {
            let known = data_servers.iter().position(|server| server == stripe);
            indices.push(known.unwrap_or(data_servers.len()));
            if known.is_none() {
                data_servers.push(*stripe);
            }
        }
        let list = match data_servers.len() == stripes.len() {
            true => None,
            false => {
                let indices: Result<Vec<_>, _> = indices.into_iter().map(u8::try_from).collect();
                Some(CyclicList::new(&indices.ok()?).ok()?)
            }
        };
        Some(Device { id, data_servers, list })
    }

    /// The data server of each stripe index, as clients count them (RFC 8881 §13.3).
    pub fn stripes(&self) -> Vec<DataServerId> {
        match &self.list {
            None => self.data_servers.clone(),
            Some(list) => {
                let server = |index: &u8| self.data_servers.get(usize::from(*index)).copied();
                list.entries().iter().filter_map(server).collect()
            }
        }
    }
}

/// How the stripe units of a file are dealt out to the data servers of its device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Spread {
    /// In turn, all of one size.
    #[default]
    InTurn,
    /// By the list of the device, all of one size.
    List(CyclicList),
    /// In turn; so many rounds of stripe units, then larger or smaller ones.
    Growing {
        /// At least 1.
        rounds: u16,
        /// Bytes of the later units.
        later_unit_bytes: u32,
    },
    /// All bytes on each of them. The stripe unit is that by which readers are sent to all of them
    /// in turn.
    Copies {
        /// They have the same bytes, durably. Else what the data server of the first stripe index
        /// has is what counts.
        alike: bool,
    },
}

/// Where the bytes of a file live.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placement {
    /// The device whose data servers hold the stripes.
    pub device: DeviceId,
    /// Bytes of a stripe unit; of the first ones if they grow.
    pub stripe_unit_bytes: u32,
    /// Data servers of the device.
    pub stripe_count: u16,
    /// Index in the device of the data server that holds the first stripe unit; with a list, of the
    /// entry.
    pub first_stripe_index: u16,
    /// How many turns, from that of the first stripe unit on, may have been taken: at least one.
    /// Data servers whose first turn comes later have no object of the file, and make none without
    /// being allowed to (ADR 21).
    pub reach: u16,
    /// How units are dealt out.
    pub spread: Spread,
}

impl Placement {
    /// Whether it says where bytes are: there is a unit, and data servers, one of which at least
    /// may have some.
    pub(crate) fn is_sound(&self) -> bool {
        let turns = self.turns();
        let fits = match self.spread {
            Spread::InTurn => true,
            Spread::Copies { .. } => self.distribution().is_some(),
            // The list has the data servers that the place has.
            Spread::List(list) => {
                list.objects() == self.stripe_count && self.first_stripe_index < turns
            }
            Spread::Growing { .. } => self.distribution().is_some(),
        };
        self.stripe_unit_bytes > 0 && (1..=turns).contains(&self.reach) && fits
    }

    /// Stripe units of one stripe: after so many the order begins anew. Copies are all made with
    /// the first.
    pub fn turns(&self) -> u16 {
        match self.spread {
            Spread::Copies { .. } => 1,
            Spread::InTurn | Spread::Growing { .. } => self.stripe_count,
            Spread::List(list) => list.turns(),
        }
    }

    /// The reach with which bytes up to an offset have their place. It grows in powers of two, so
    /// that a file which is written from its beginning seldom needs another.
    pub fn reach_to(&self, end: u64) -> u16 {
        let units = end.div_ceil(u64::from(self.stripe_unit_bytes).max(1)).max(1);
        let rounded = units.checked_next_power_of_two().and_then(|n| u16::try_from(n).ok());
        rounded.unwrap_or(u16::MAX).min(self.turns())
    }

    /// Whether the data server at an index of the device may have an object: its first byte is in
    /// one of the first stripe units.
    pub fn reaches(&self, index: usize) -> bool {
        let index = u32::try_from(index).unwrap_or(u32::MAX);
        let run = self.distribution().and_then(|rule| rule.next_own_run(index, 0));
        let end = u64::from(self.reach) * u64::from(self.stripe_unit_bytes);
        run.is_some_and(|(first, _)| first < end)
    }

    /// Whether each of its data servers is to have all of it.
    pub fn is_copied(&self) -> bool {
        self.spread.copies_alike().is_some()
    }

    /// How often it has each byte.
    pub fn copies(&self) -> u16 {
        if self.is_copied() { self.stripe_count } else { 1 }
    }

    /// The rule that spreads a file of this place over the data servers of its device; sparse.
    /// `None` if the place makes no sense.
    pub fn distribution(&self) -> Option<Distribution> {
        let Placement { stripe_unit_bytes, stripe_count, first_stripe_index, .. } = *self;
        self.spread.distribution(stripe_unit_bytes, stripe_count, first_stripe_index).ok()
    }
}

impl Spread {
    /// Whether the copies of a file have the same bytes; `None` if it has no copies.
    pub fn copies_alike(self) -> Option<bool> {
        match self {
            Spread::Copies { alike } => Some(alike),
            Spread::InTurn | Spread::List(_) | Spread::Growing { .. } => None,
        }
    }

    /// The rule with this unit, over so many data servers, from this turn on.
    ///
    /// # Errors
    /// [`DistributionError`]: they contradict each other.
    pub fn distribution(
        self,
        unit_bytes: u32,
        count: u16,
        first: u16,
    ) -> Result<Distribution, DistributionError> {
        let unit = u64::from(unit_bytes);
        match self {
            Spread::InTurn => {
                Distribution::round_robin(unit, count.into(), first.into(), Form::Sparse)
            }
            Spread::List(list) => Distribution::cyclic(unit, list, first),
            Spread::Copies { .. } => Distribution::copies(count.into(), first.into()),
            Spread::Growing { rounds, later_unit_bytes } => {
                let small = (unit, rounds.into());
                Distribution::variable(small, later_unit_bytes.into(), count.into(), first.into())
            }
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in crate::types) fn place(
        stripe_count: u16,
        first_stripe_index: u16,
        spread: Spread,
    ) -> Placement {
        let device = DeviceId([1; 16]);
        Placement {
            device,
            stripe_unit_bytes: 4,
            stripe_count,
            first_stripe_index,
            reach: 1,
            spread,
        }
    }

    /// Places of every spread, from every turn on.
    fn places() -> impl Iterator<Item = Placement> {
        let in_turn = (1..9).flat_map(|n| (0..n).map(move |f| place(n, f, Spread::InTurn)));
        let lists = [&[0][..], &[0, 0, 1], &[1, 0, 1, 2], &[2, 1, 0], &[0, 1, 1, 1, 1, 2]];
        let listed = lists.map(|l| CyclicList::new(l).unwrap()).into_iter().flat_map(|list| {
            (0..list.turns()).map(move |f| place(list.objects(), f, Spread::List(list)))
        });
        let grows = |rounds| Spread::Growing { rounds, later_unit_bytes: 12 };
        let growing = (1..5).flat_map(move |n| {
            (0..n).flat_map(move |f| [1, 2].map(|rounds| place(n, f, grows(rounds))))
        });
        let copies = (1..5).flat_map(|n| {
            (0..n)
                .flat_map(move |f| [true, false].map(|alike| place(n, f, Spread::Copies { alike })))
        });
        in_turn.chain(listed).chain(growing).chain(copies)
    }

    /// Bytes up to any end lie on data servers that the reach for them includes; it is never more
    /// than twice what they need, and at most all.
    #[test]
    fn what_is_written_is_within_reach() {
        for place in places() {
            let rule = place.distribution().unwrap();
            for end in 0..80 {
                let reach = place.reach_to(end);
                let place = Placement { reach, ..place };
                assert!(place.is_sound());
                let units = end.div_ceil(4).max(1);
                assert!(u64::from(reach) < 2 * units && reach <= place.turns());
                let held = |index: u32| place.reaches(index as usize);
                assert!((0..end).all(|at| held(rule.locate(at).stripe_index)));
                let count = u32::from(place.stripe_count);
                let holders = (0..count).filter(|index| held(*index)).count();
                match place.spread {
                    Spread::List(_) => assert!((1..=usize::from(reach)).contains(&holders)),
                    Spread::Copies { .. } => assert_eq!(holders, count as usize),
                    _ => assert_eq!(holders, usize::from(reach)),
                }
                assert!(!held(count));
            }
        }
        let wide = Placement { stripe_unit_bytes: 1, ..place(u16::MAX, 0, Spread::InTurn) };
        assert_eq!(wide.reach_to(u64::MAX), u16::MAX);
    }

    /// A place whose parts contradict each other is none.
    #[test]
    fn contradictions_are_no_place() {
        let list = Spread::List(CyclicList::new(&[0, 0, 1]).unwrap());
        let grows = |rounds, later_unit_bytes| Spread::Growing { rounds, later_unit_bytes };
        assert!(place(2, 2, list).is_sound() && place(2, 1, grows(1, 1)).is_sound());
        let bad = [
            place(3, 0, list),
            place(2, 3, list),
            Placement { reach: 4, ..place(2, 0, list) },
            place(2, 2, grows(1, 1)),
            place(2, 0, grows(0, 1)),
            place(2, 0, grows(1, 0)),
            place(2, 2, Spread::Copies { alike: true }),
            Placement { reach: 2, ..place(2, 0, Spread::Copies { alike: true }) },
        ];
        assert!(bad.iter().all(|place| !place.is_sound()), "{bad:?}");
    }

    /// A device is made from its stripes and tells them again.
    #[test]
    fn devices_keep_their_stripes() {
        let id = DeviceId([1; 16]);
        let ids = |numbers: &[u32]| numbers.iter().copied().map(DataServerId).collect::<Vec<_>>();
        let plain = Device::of_stripes(id, &ids(&[3, 1, 2])).unwrap();
        assert_eq!((plain.data_servers, plain.list), (ids(&[3, 1, 2]), None));
        let listed = Device::of_stripes(id, &ids(&[3, 3, 1, 3])).unwrap();
        assert_eq!(listed.data_servers, ids(&[3, 1]));
        assert_eq!(listed.list.unwrap().entries(), [0, 0, 1, 0]);
        assert_eq!(listed.stripes(), ids(&[3, 3, 1, 3]));
        assert_eq!(Device::of_stripes(id, &ids(&[1; 17])), None);
    }
}
