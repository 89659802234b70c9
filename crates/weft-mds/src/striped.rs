//! A file placed on data servers: what its objects are, and how clients are told.

use std::net::SocketAddr;

use bytes::Bytes;
use weft_control::codec::StripeName;
use weft_layout::{
    DataServerHandle, FilesDeviceAddr, FilesLayout, FlexDataServer, FlexDeviceAddr, FlexFlags,
    FlexLayout, FlexMirror, FlexVersion, HANDLE_BYTES, NetAddr, NflUtil, Rights, Slots,
    VerifierMask,
};
use weft_nfs::{DeviceId, FileHandle, IO_BYTES_MAX, Opaque, Stateid};
use weft_server::identity::HandleKey;
use weft_store::{
    objects::ObjectId,
    types::{DataServerId, Deal, Device, Spread},
};
use weft_stripe::{Distribution, DistributionError};

/// Bytes that stripe units are a multiple of: handles carry the unit in MiB.
const MIB: u32 = 1 << 20;

/// A placed file: one object on each of its data servers, sparse, all under the same number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Striped {
    /// The volume.
    pub volume: u32,
    /// The file's inode number.
    pub object: u64,
    /// Handles with a lower epoch write no more, and those of before its fence do nothing.
    pub fence_epoch: u32,
    /// Data servers in stripe order; at least one.
    pub data_servers: Vec<DataServerId>,
    /// Bytes of a stripe unit: a multiple of 1 MiB; of the first ones if they grow.
    pub stripe_unit_bytes: u32,
    /// Index in the list of the data server that holds the first unit; in a cyclic list of its own,
    /// if it has one.
    pub first_stripe_index: u16,
    /// How many turns may have been taken, from that of the first unit on: the data servers of the
    /// others have no object.
    pub reach: u16,
    /// How units are dealt out.
    pub spread: Spread,
    /// How long its objects are at least, in the same order; empty if nothing is known to be there.
    pub lengths_min: Vec<u64>,
}

impl Striped {
    /// The rule that spreads the file, sparse; a stripe index is an index into
    /// [`Self::data_servers`].
    ///
    /// # Errors
    /// [`DistributionError`]: the fields contradict each other (a damaged placement).
    pub fn distribution(&self) -> Result<Distribution, DistributionError> {
        let (unit, count) = (self.stripe_unit_bytes, self.stripe_count());
        self.spread.distribution(unit, count, self.first_stripe_index)
    }

    /// The data server that a client with a layout asks for the byte at an offset: with copies it
    /// asks them in turn, a stripe unit each ([`can_be_told`]). `None` for a damaged placement.
    pub fn asked_at(&self, offset: u64) -> Option<DataServerId> {
        let index = match self.is_copied() {
            true => self.copy_asked_at(offset)?.into(),
            false => self.distribution().ok()?.locate(offset).stripe_index,
        };
        self.data_servers.get(usize::try_from(index).ok()?).copied()
    }

    /// The copy that is asked first for the byte at an offset: for each stripe unit another one.
    /// `None` for a damaged placement.
    pub fn copy_asked_at(&self, offset: u64) -> Option<u16> {
        let count = u64::from(self.stripe_count());
        let unit = offset.checked_div(self.stripe_unit_bytes.into())?;
        let index = (unit.checked_rem(count)? + u64::from(self.first_stripe_index)) % count;
        u16::try_from(index).ok()
    }

    /// Whether each of its data servers is to have all of it.
    pub fn is_copied(&self) -> bool {
        self.copies_alike().is_some()
    }

    /// Whether its copies have the same bytes; `None` if it has no copies.
    pub fn copies_alike(&self) -> Option<bool> {
        self.spread.copies_alike()
    }

    /// Whether its stripe units are all of one size.
    fn is_even(&self) -> bool {
        !matches!(self.spread, Spread::Growing { .. })
    }

    /// How long the object at an index is at least, bytes: a shorter one has lost something.
    pub fn length_min(&self, index: usize) -> u64 {
        self.lengths_min.get(index).copied().unwrap_or(0)
    }

    /// Whether the data server at an index may have an object: only those are asked.
    pub fn holds(&self, index: usize) -> bool {
        u16::try_from(index).is_ok_and(|index| self.slots(index).first() < self.reach)
    }

    /// Those data servers, with their indices.
    pub fn holders(&self) -> impl Iterator<Item = (usize, DataServerId)> {
        self.data_servers.iter().copied().enumerate().filter(|(index, _)| self.holds(*index))
    }

    /// The same without their indices.
    pub fn holder_ids(&self) -> Vec<DataServerId> {
        self.holders().map(|(_, id)| id).collect()
    }

    /// Whether the byte at `to + n` of another file is, for every n, in the object on the same
    /// data server as the one at `from + n` of this: then each data server can copy its own part.
    /// Copies never do: copied each by itself, they would differ where their sources do.
    pub fn lines_up(&self, from: u64, other: &Striped, to: u64) -> bool {
        let unit = u64::from(self.stripe_unit_bytes);
        !self.is_copied()
            && self.data_servers == other.data_servers
            && self.stripe_unit_bytes == other.stripe_unit_bytes
            && self.spread == other.spread
            && (from == to || self.is_even())
            && from.checked_rem(unit) == to.checked_rem(unit)
            && self.first_index_beside(from, to) == Some(other.first_stripe_index)
    }

    /// The first stripe index that puts most of another file on the data servers of the same bytes
    /// here: with it the files line up (see [`Self::lines_up`]), unless their units begin at other
    /// places. `None` for a damaged placement.
    pub fn first_index_beside(&self, from: u64, to: u64) -> Option<u16> {
        let (unit, count) = (u64::from(self.stripe_unit_bytes), u64::from(self.turns()));
        if unit == 0 || count == 0 {
            return None;
        }
        if !self.is_even() {
            // Its units are of two sizes: only what is at the same place can be together.
            return Some(self.first_stripe_index);
        }
        // The unit here that begins nearest to the byte that begins a unit there; a turn more than
        // it is, so that nothing goes below zero.
        let turn = unit * count;
        let nearest = (from % turn + turn + unit / 2 - to % unit) / unit;
        let here = nearest + u64::from(self.first_stripe_index) % count;
        u16::try_from((here + count - to / unit % count) % count).ok()
    }

    /// The name of its objects.
    pub fn object_id(&self) -> ObjectId {
        ObjectId { volume: self.volume, object: self.object }
    }

    /// The filehandle of the object at an index of the list of data servers, sealed with that
    /// data server's key: the metadata server's own, by which the data server tells its own
    /// verifier.
    pub fn handle(&self, index: u16, rights: Rights, key: &HandleKey) -> [u8; HANDLE_BYTES] {
        self.unsealed(index, rights).seal(key)
    }

    /// The same with a mask, for a client that writes and asks the metadata server to COMMIT
    /// (ADR 43).
    pub fn masked_handle(
        &self,
        index: u16,
        rights: Rights,
        mask: Option<VerifierMask>,
        key: &HandleKey,
    ) -> [u8; HANDLE_BYTES] {
        DataServerHandle { verifier_mask: mask, ..self.unsealed(index, rights) }.seal(key)
    }

    /// The same of the one object of a file that ends where it does, for a flexfiles layout.
    pub fn whole_handle(&self, rights: Rights, key: &HandleKey) -> [u8; HANDLE_BYTES] {
        DataServerHandle { ends: true, ..self.unsealed(0, rights) }.seal(key)
    }

    /// A handle cannot say where units that grow are: one of such a file is for the whole object.
    /// No client gets it, it is the metadata server's own. Of copies each handle is for all bytes.
    fn unsealed(&self, index: u16, rights: Rights) -> DataServerHandle {
        let (slots, stripe_count) = match self.spread {
            Spread::InTurn | Spread::List(_) => (self.slots(index), self.turns()),
            Spread::Growing { .. } | Spread::Copies { .. } => (Slots::One(0), 1),
        };
        DataServerHandle {
            rights,
            makes: rights.write && self.holds(index.into()),
            ends: false,
            slots,
            volume: self.volume,
            object: self.object,
            epoch: self.fence_epoch,
            stripe_count,
            stripe_unit_mib: u16::try_from(self.stripe_unit_bytes / MIB).unwrap_or(u16::MAX),
            verifier_mask: None,
        }
    }

    /// The body of a files layout for the whole file (design D3), with the filehandles of its
    /// data servers in stripe order. COMMIT is asked of the metadata server, which knows when a
    /// data server comes back: Linux that cannot ask a data server writes its pages again after
    /// `close` (ADR 43).
    pub fn layout_body(&self, device: DeviceId, filehandles: Vec<Bytes>) -> Bytes {
        let layout = FilesLayout {
            device,
            util: NflUtil {
                dense: false,
                commit_thru_mds: true,
                stripe_unit_bytes: self.stripe_unit_bytes,
            },
            first_stripe_index: self.first_stripe_index.into(),
            pattern_offset: 0,
            filehandles,
        };
        weft_xdr::to_bytes(&layout)
    }

    /// The body of a flexfiles layout for a file that is whole on one data server (RFC 8435 §5.1).
    /// Data servers look at no stateid, and I/O is done as the caller: user and group are numbers
    /// because Linux wants some (`decode_name`).
    pub fn flex_layout_body(&self, device: DeviceId, handle: Bytes, rights: Rights) -> Bytes {
        let nobody = || Opaque(Bytes::from_static(b"65534"));
        let data_server = FlexDataServer {
            device,
            efficiency: 0,
            stateid: Stateid::ANONYMOUS,
            filehandles: vec![FileHandle(handle)],
            user: nobody(),
            group: nobody(),
        };
        let layout = FlexLayout {
            stripe_unit_bytes: self.stripe_unit_bytes.into(),
            mirrors: vec![FlexMirror { data_servers: vec![data_server] }],
            flags: if rights.read { FlexFlags::default() } else { FlexFlags::NO_READ_IO },
            stats_collect_hint_s: 0,
        };
        weft_xdr::to_bytes(&layout)
    }

    /// Number of data servers. More than a layout can name are never placed.
    pub fn stripe_count(&self) -> u16 {
        u16::try_from(self.data_servers.len()).unwrap_or(u16::MAX)
    }

    /// Units of one stripe.
    fn turns(&self) -> u16 {
        match self.spread {
            Spread::InTurn | Spread::Growing { .. } => self.stripe_count(),
            Spread::List(list) => list.turns(),
            Spread::Copies { .. } => 1,
        }
    }

    /// The units an object holds: those whose number modulo the turns is one of its slots.
    fn slots(&self, index: u16) -> Slots {
        if let Spread::List(_) = self.spread {
            let turns = match self.distribution() {
                Ok(Distribution::Cyclic(list)) => list.turns_of(index.into()),
                _ => 0,
            };
            return match turns.count_ones() {
                1 => Slots::One(Slots::Several(turns).first()),
                _ => Slots::Several(turns),
            };
        }
        if self.is_copied() {
            return Slots::One(0);
        }
        let count = u32::from(self.stripe_count()).max(1);
        let first = u32::from(self.first_stripe_index) % count;
        let slot = (u32::from(index) + count - first) % count;
        Slots::One(u16::try_from(slot).expect("below the stripe count"))
    }

    /// The bytes of the object at an index, as a data server is told.
    pub(crate) fn stripe_name(&self, index: u16) -> StripeName {
        let slots = self.slots(index);
        let (rounds, later_unit_bytes) = match self.spread {
            Spread::InTurn | Spread::List(_) | Spread::Copies { .. } => (0, 0),
            Spread::Growing { rounds, later_unit_bytes } => (rounds, later_unit_bytes),
        };
        StripeName {
            unit_bytes: self.stripe_unit_bytes.into(),
            count: self.turns().into(),
            slot: slots.first().into(),
            slots: match slots {
                Slots::One(_) => 0,
                Slots::Several(slots) => slots.into(),
            },
            rounds: rounds.into(),
            later_unit_bytes: later_unit_bytes.into(),
        }
    }
}

/// Whether a layout can say where the bytes of such a file are, to read, or to write as well. What
/// clients cannot be told goes through the metadata server: no layout type knows units that grow,
/// and with a files layout nobody writes each byte to several data servers. Who reads copies is
/// sent to all of them in turn, as if the file were striped; not while they may differ.
pub fn can_be_told(spread: &Spread, writes: bool) -> bool {
    match *spread {
        Spread::InTurn | Spread::List(_) => true,
        Spread::Growing { .. } => false,
        Spread::Copies { alike } => alike && !writes,
    }
}

/// The same of a file without a place that is to be dealt out so.
pub fn will_be_told(deal: &Deal) -> bool {
    match deal {
        Deal::RoundRobin | Deal::Cyclic(_) => true,
        Deal::Variable { .. } | Deal::Replicated(_) => false,
    }
}

/// The body of a device address: the data servers of a device, each with its addresses, and which
/// of them each stripe index is.
pub fn device_body(device: &Device, addresses: &[Vec<SocketAddr>]) -> Bytes {
    let stripe_indices = match &device.list {
        None => (0..addresses.len()).map(|i| u32::try_from(i).expect("few data servers")).collect(),
        Some(list) => list.entries().iter().copied().map(u32::from).collect(),
    };
    let device = FilesDeviceAddr {
        stripe_indices,
        data_servers: addresses
            .iter()
            .map(|a| a.iter().copied().map(NetAddr::from).collect())
            .collect(),
    };
    weft_xdr::to_bytes(&device)
}

/// The same for flexfiles (RFC 8435 §4.1): the addresses of one data server, which speaks NFSv4.1
/// and knows what we know of a file by the file's handles.
pub fn flex_device_body(addresses: &[SocketAddr]) -> Bytes {
    let io_bytes_max = u32::try_from(IO_BYTES_MAX).unwrap_or(u32::MAX);
    let device = FlexDeviceAddr {
        addresses: addresses.iter().copied().map(NetAddr::from).collect(),
        versions: vec![FlexVersion {
            version: 4,
            minorversion: 1,
            rsize: io_bytes_max,
            wsize: io_bytes_max,
            tightly_coupled: true,
        }],
    };
    weft_xdr::to_bytes(&device)
}

#[cfg(test)]
mod tests {
    use weft_ds::testing::secret;
    use weft_layout::Access;
    use weft_stripe::CyclicList;
    use weft_xdr::from_bytes;

    use super::*;

    /// Clients ask as their layouts say: stripe by stripe from the first index on, of copies too.
    #[test]
    fn clients_ask_in_turn() {
        let striped = file(3, 1);
        let copied = Striped { spread: Spread::Copies { alike: true }, ..file(3, 1) };
        for file in [striped, copied] {
            let asked = |unit: u64| file.asked_at(unit * (2 << 20) + 5).map(|id| id.0);
            let all: Vec<_> = (0..4).map(asked).collect();
            assert_eq!(all, [Some(2), Some(3), Some(1), Some(2)], "{file:?}");
        }
        assert_eq!(Striped { stripe_unit_bytes: 0, ..file(3, 1) }.asked_at(0), None);
    }

    fn file(count: u32, first_stripe_index: u16) -> Striped {
        Striped {
            volume: 1,
            object: 42,
            fence_epoch: 3,
            data_servers: (1..=count).map(DataServerId).collect(),
            stripe_unit_bytes: 2 << 20,
            first_stripe_index,
            reach: u16::MAX,
            spread: Spread::InTurn,
            lengths_min: Vec::new(),
        }
    }

    /// Files of every spread that a client can be told.
    fn told() -> impl Iterator<Item = Striped> {
        let in_turn = (1..=5u16).flat_map(|n| (0..n).map(move |f| file(n.into(), f)));
        let lists = [&[0, 0, 1][..], &[2, 0, 1, 0], &[1, 0], &[0, 1, 1, 2, 2, 2]];
        let lists = lists.map(|list| CyclicList::new(list).unwrap()).into_iter();
        in_turn.chain(lists.flat_map(|list| {
            (0..list.turns()).map(move |first| Striped {
                spread: Spread::List(list),
                ..file(list.objects().into(), first)
            })
        }))
    }

    fn device_of(file: &Striped) -> Device {
        let list = match file.spread {
            Spread::List(list) => Some(list),
            _ => None,
        };
        let id = weft_store::types::DeviceId([7; 16]);
        Device { id, data_servers: file.data_servers.clone(), list }
    }

    /// For every width, list and first index: a client that decodes layout and device, our own
    /// arithmetic, and the data servers that open the handles, or are told of their stripes, agree
    /// on the home of every unit.
    #[test]
    fn all_sides_agree_on_the_stripes() {
        let keys = secret().handle_keys();
        let key = |index: u16| keys.of(u32::from(index) + 1, [7; 16]);
        for file in told() {
            let count = file.stripe_count();
            let rule = file.distribution().unwrap();
            let at: Vec<_> =
                (0..count).map(|i| vec![SocketAddr::from(([10, 0, 0, 1], 2050 + i))]).collect();
            let device: FilesDeviceAddr = from_bytes(device_body(&device_of(&file), &at)).unwrap();
            let sealed = |i| Bytes::copy_from_slice(&file.handle(i, Rights::READ_WRITE, &key(i)));
            let body = file.layout_body(DeviceId([7; 16]), (0..count).map(sealed).collect());
            assert!(body.len() < 4096);
            let layout: FilesLayout = from_bytes(body).unwrap();
            let theirs = layout.distribution(&device).unwrap();
            for unit in 0..3 * u64::from(file.turns()) {
                let offset = unit * u64::from(file.stripe_unit_bytes);
                let home = rule.locate(offset);
                let stripe = theirs.locate(offset).stripe_index;
                assert_eq!(device.data_server_index(stripe), Some(home.stripe_index as usize));
                for index in 0..count {
                    let is_home = u32::from(index) == home.stripe_index;
                    let handle = file.handle(index, Rights::READ_WRITE, &key(index));
                    if is_home {
                        assert_eq!(layout.filehandle(&device, stripe).unwrap(), &handle[..]);
                    }
                    let handle = DataServerHandle::open(&key(index), &handle).unwrap();
                    let admitted = handle.admits(offset, 1, Access::Write).is_ok();
                    assert_eq!(admitted, is_home);
                    assert_eq!((handle.object, handle.epoch), (42, 3));
                    let StripeName { unit_bytes, count, slot, slots, .. } = file.stripe_name(index);
                    let turn = u32::try_from(offset / unit_bytes % u64::from(count)).unwrap();
                    let has = if slots == 0 { slot == turn } else { slots >> turn & 1 == 1 };
                    assert_eq!(has, is_home);
                }
            }
        }
    }

    /// A file whose units grow says so to data servers, and to no client.
    #[test]
    fn growing_units_are_not_told() {
        let spread = Spread::Growing { rounds: 2, later_unit_bytes: 8 << 20 };
        let file = Striped { spread, ..file(3, 1) };
        assert!(!can_be_told(&file.spread, false));
        assert!(told().all(|file| can_be_told(&file.spread, true)));
        let name = file.stripe_name(0);
        assert_eq!((name.slot, name.rounds, name.later_unit_bytes), (2, 2, 8 << 20));
        let key = secret().handle_keys().of(1, [7; 16]);
        let own = file.handle(0, Rights::READ_WRITE, &key);
        let own = DataServerHandle::open(&key, &own).unwrap();
        assert_eq!(own.admits(0, u64::MAX, Access::Write), Ok(()));
        assert!(file.lines_up(5, &file, 5) && !file.lines_up(0, &file, 12 << 20));
    }

    /// Copies are told to who reads while they are alike: data servers are asked in turn, and each
    /// has what it is asked for.
    #[test]
    fn copies_are_read_in_turn() {
        let keys = secret().handle_keys();
        let key = |index: u16| keys.of(u32::from(index) + 1, [7; 16]);
        let copies = |alike, first| Striped { spread: Spread::Copies { alike }, ..file(3, first) };
        for first in 0..3 {
            let file = copies(true, first);
            assert!(can_be_told(&file.spread, false) && !can_be_told(&file.spread, true));
            assert!(!can_be_told(&copies(false, first).spread, false));
            assert!(Striped { reach: 1, ..file.clone() }.holders().count() == 3);
            assert!(!file.lines_up(0, &file, 0));
            let at: Vec<_> =
                (0..3).map(|i| vec![SocketAddr::from(([10, 0, 0, 1], 2050 + i))]).collect();
            let device: FilesDeviceAddr = from_bytes(device_body(&device_of(&file), &at)).unwrap();
            let sealed = |i| Bytes::copy_from_slice(&file.handle(i, Rights::READ, &key(i)));
            let body = file.layout_body(DeviceId([7; 16]), (0..3).map(sealed).collect());
            let layout: FilesLayout = from_bytes(body).unwrap();
            let theirs = layout.distribution(&device).unwrap();
            let unit = u64::from(file.stripe_unit_bytes);
            let asked = (0..3).map(|n| theirs.locate(n * unit).stripe_index).collect::<Vec<_>>();
            assert_eq!(asked, (0..3).map(|n| (u32::from(first) + n) % 3).collect::<Vec<_>>());
            for (index, n) in (0..3).flat_map(|index| (0..4).map(move |n| (index, n))) {
                let handle = file.handle(index, Rights::READ, &key(index));
                let handle = DataServerHandle::open(&key(index), &handle).unwrap();
                assert_eq!(handle.admits(n * unit, unit, Access::Read), Ok(()));
            }
            let name = file.stripe_name(2);
            assert_eq!((name.count, name.slot, name.rounds), (1, 0, 0));
        }
    }

    /// Files of one list that line up have every pair of bytes on one data server.
    #[test]
    fn lists_line_up() {
        let unit = 2 << 20;
        for (a, b) in told().flat_map(|a| told().map(move |b| (a.clone(), b))) {
            for (from, to) in [(0, 0), (unit, 0), (0, 3 * unit), (5, 5 + unit), (1, 0)] {
                if a.lines_up(from, &b, to) {
                    let (a, b) = (a.distribution().unwrap(), b.distribution().unwrap());
                    let mut at = (0..16 * unit).step_by(1 << 20);
                    assert!(at.all(|n| {
                        a.locate(from + n).stripe_index == b.locate(to + n).stripe_index
                    }));
                }
            }
            let first_stripe_index = a.first_index_beside(unit, 0).unwrap();
            assert!(a.lines_up(unit, &Striped { first_stripe_index, ..a.clone() }, 0));
        }
    }

    /// Files that line up have every pair of bytes on one data server; those that do not have some
    /// pair apart; and beside any file, unit by unit, another can be put.
    #[test]
    fn lined_up_bytes_share_data_servers() {
        let unit = 2 << 20;
        for (count, first, other_first) in
            (1..=4u16).flat_map(|n| (0..n).flat_map(move |f| (0..n).map(move |o| (n, f, o))))
        {
            let (a, b) = (file(count.into(), first), file(count.into(), other_first));
            let (rule_a, rule_b) = (a.distribution().unwrap(), b.distribution().unwrap());
            for (from, to) in [(0, 0), (unit, 0), (0, 3 * unit), (5, 5 + unit), (1, 0), (7, unit)] {
                let together = (0..8 * unit).step_by(1 << 20).all(|n| {
                    let (a, b) = (rule_a.locate(from + n), rule_b.locate(to + n));
                    a.stripe_index == b.stripe_index
                        && rule_a.bytes_to_unit_end(from + n) == rule_b.bytes_to_unit_end(to + n)
                });
                // One data server holds everything, but units are still compared.
                assert_eq!(a.lines_up(from, &b, to), together, "{count} {first} {from} {to}");
                let beside = file(count.into(), a.first_index_beside(from, to).unwrap());
                assert_eq!(a.lines_up(from, &beside, to), from % unit == to % unit);
            }
        }
        let wider = Striped { stripe_unit_bytes: 1 << 20, ..file(2, 0) };
        assert!(!file(2, 0).lines_up(0, &wider, 0) && !file(2, 0).lines_up(0, &file(3, 0), 0));
    }

    /// Where units begin at other places, no first index puts more of the bytes together than the
    /// one that is chosen.
    #[test]
    fn most_bytes_are_put_together() {
        let (unit, step) = (2 << 20, 1 << 18);
        let places = (0..24).flat_map(|from| (0..24).map(move |to| (from * step, to * step)));
        for ((count, first), (from, to)) in
            [(2, 1), (3, 0), (4, 3)].into_iter().flat_map(|f| places.clone().map(move |p| (f, p)))
        {
            let source = file(count, first);
            let rule = source.distribution().unwrap();
            let together = |index: u16| {
                let other = file(count, index).distribution().unwrap();
                let pieces = rule.pieces(from, (&other, to), u64::from(count) * unit);
                let same = pieces.filter(|p| p.here.stripe_index == p.there.stripe_index);
                same.map(|p| p.len).sum::<u64>()
            };
            let chosen = source.first_index_beside(from, to).unwrap();
            let best = (0..count as u16).map(together).max().unwrap();
            assert_eq!(together(chosen), best, "{count} {first} {from} {to}");
        }
    }

    /// The widest file that configuration allows fits a layout body of less than a page, which
    /// is what Linux has room for.
    #[test]
    fn the_widest_layout_fits() {
        let key = secret().handle_keys().of(1, [7; 16]);
        let file = file(100, 99);
        let sealed = |i| Bytes::copy_from_slice(&file.handle(i, Rights::READ, &key));
        let body = file.layout_body(DeviceId([7; 16]), (0..100).map(sealed).collect());
        assert!(body.len() + 28 <= 4096, "{}", body.len());
    }
}
