//! Bodies against the RFC's shape and every truncation; handles against every bit flip.

use std::net::SocketAddr;

use bytes::Bytes;
use proptest::prelude::*;
use weft_nfs::DeviceId;
use weft_stripe::Distribution;
use weft_xdr::{Decode, DecodeErrorKind, Encode, from_bytes, to_bytes};

use crate::*;

fn addr(text: &str) -> NetAddr {
    text.parse::<SocketAddr>().unwrap().into()
}

fn device(data_servers: usize) -> FilesDeviceAddr {
    let list = (0..data_servers).map(|i| vec![addr(&format!("192.0.2.{i}:2049"))]);
    FilesDeviceAddr::one_stripe_each(list.collect()).unwrap()
}

fn layout(filehandles: usize) -> FilesLayout {
    let handles = (0..filehandles).map(|i| Bytes::from(vec![i as u8; 32])).collect();
    FilesLayout::sparse(DeviceId([9; 16]), 1 << 20, 0, handles).unwrap()
}

/// Round trip; every truncation fails; one byte more fails.
pub(crate) fn check_wire<T: Encode + Decode + PartialEq + std::fmt::Debug>(value: &T) {
    let wire = to_bytes(value);
    assert_eq!(from_bytes::<T>(wire.clone()).as_ref(), Ok(value));
    for len in 0..wire.len() {
        assert!(from_bytes::<T>(wire.slice(..len)).is_err(), "{len} of {}", wire.len());
    }
    let more = Bytes::from([&wire[..], &[0; 4]].concat());
    assert_eq!(from_bytes::<T>(more).unwrap_err().kind, DecodeErrorKind::Trailing);
}

/// Both bodies round-trip, at the smallest and at the largest size.
#[test]
fn bodies_round_trip() {
    for n in [1, 2, 256] {
        check_wire(&layout(n));
        check_wire(&device(n));
    }
    let many = (0..16).map(|i| addr(&format!("[2001:db8::{i}]:{}", 2049 + i))).collect();
    check_wire(&FilesDeviceAddr::one_stripe_each(vec![many]).unwrap());
}

/// The bytes of a small layout and device are those of RFC 8881 §13.3, written by hand.
#[test]
fn bodies_have_the_rfc_shape() {
    let mut l = layout(1);
    l.util = NflUtil { dense: true, commit_thru_mds: true, stripe_unit_bytes: 3 << 20 };
    l.filehandles = vec![Bytes::from_static(b"abcde")];
    let want = [
        &[9; 16][..],
        &[0, 0x30, 0, 3],
        &[0; 4],
        &[0; 8],
        &[0, 0, 0, 1],
        &[0, 0, 0, 5],
        b"abcde\0\0\0",
    ];
    assert_eq!(to_bytes(&l), want.concat());
    let d = FilesDeviceAddr::one_stripe_each(vec![vec![addr("192.0.2.7:2049")]]).unwrap();
    let want = [
        &[0, 0, 0, 1, 0, 0, 0, 0][..],
        &[0, 0, 0, 1],
        &[0, 0, 0, 1],
        b"\0\0\0\x03tcp\0",
        b"\0\0\0\x0d192.0.2.7.8.1\0\0\0",
    ];
    assert_eq!(to_bytes(&d), want.concat());
}

/// The size that the budget of wide striping rests on: 36 bytes of body and 36 for each handle.
#[test]
fn layouts_keep_their_size_budget() {
    assert_eq!(to_bytes(&layout(110)).len(), 36 + 110 * 36);
    assert!(28 + to_bytes(&layout(110)).len() < 4096);
}

/// Each malformed count or value of a device is refused; its neighbour is accepted.
#[test]
fn malformed_devices_are_refused() {
    let kind = |d: &FilesDeviceAddr| {
        from_bytes::<FilesDeviceAddr>(to_bytes(d)).map(drop).map_err(|e| e.kind)
    };
    let with = |change: fn(&mut FilesDeviceAddr)| {
        let mut d = device(2);
        change(&mut d);
        kind(&d)
    };
    let (value, limit) = (Err(DecodeErrorKind::Value), Err(DecodeErrorKind::Limit));
    assert_eq!(with(|d| d.stripe_indices.clear()), value);
    assert_eq!(with(|d| d.stripe_indices = vec![0, 2]), value);
    assert_eq!(with(|d| d.stripe_indices = vec![1, 1, 0]), Ok(()));
    assert_eq!(with(|d| d.stripe_indices = vec![0; 4096]), Ok(()));
    assert_eq!(with(|d| d.stripe_indices = vec![0; 4097]), limit);
    assert_eq!(with(|d| d.data_servers.clear()), value);
    assert_eq!(with(|d| d.data_servers[1].clear()), value);
    assert_eq!(with(|d| d.data_servers[1] = vec![addr("192.0.2.1:1"); 16]), Ok(()));
    assert_eq!(with(|d| d.data_servers[1] = vec![addr("192.0.2.1:1"); 17]), limit);
    assert_eq!(with(|d| d.data_servers = vec![d.data_servers[0].clone(); 257]), limit);
    assert_eq!(with(|d| d.data_servers[0][0].uaddr.clear()), value);
    assert_eq!(with(|d| d.data_servers[0][0].netid.clear()), value);
    assert_eq!(with(|d| d.data_servers[0][0].uaddr = "9".repeat(97)), limit);
}

/// Each malformed count or value of a layout is refused; its neighbour is accepted.
#[test]
fn malformed_layouts_are_refused() {
    let with = |change: fn(&mut FilesLayout)| {
        let mut l = layout(2);
        change(&mut l);
        from_bytes::<FilesLayout>(to_bytes(&l)).map(drop).map_err(|e| e.kind)
    };
    let (value, limit) = (Err(DecodeErrorKind::Value), Err(DecodeErrorKind::Limit));
    assert_eq!(with(|l| l.util.stripe_unit_bytes = 63), value);
    assert_eq!(with(|l| l.util.stripe_unit_bytes = 64), Ok(()));
    assert_eq!(with(|l| l.first_stripe_index = 4095), Ok(()));
    assert_eq!(with(|l| l.first_stripe_index = 4096), limit);
    assert_eq!(with(|l| l.filehandles.clear()), Ok(()));
    assert_eq!(with(|l| l.filehandles[0].clear()), value);
    assert_eq!(with(|l| l.filehandles[0] = vec![1; 128].into()), Ok(()));
    assert_eq!(with(|l| l.filehandles[0] = vec![1; 129].into()), limit);
    assert_eq!(with(|l| l.filehandles = vec![vec![1].into(); 4096]), Ok(()));
    assert_eq!(with(|l| l.filehandles = vec![vec![1].into(); 4097]), limit);
}

/// What we grant is checked when it is made.
#[test]
fn our_own_layouts_are_checked() {
    let make = |unit, first, handles| {
        FilesLayout::sparse(DeviceId::default(), unit, first, handles).map(drop)
    };
    let two = || vec![Bytes::from_static(b"a"); 2];
    assert_eq!(make(1 << 20, 1, two()), Ok(()));
    assert_eq!(make(4095 << 20, 1, two()), Ok(()));
    assert_eq!(make(0, 0, two()), Err(LayoutError::StripeUnit));
    assert_eq!(make(3 << 19, 0, two()), Err(LayoutError::StripeUnit));
    assert_eq!(make(1 << 20, 2, two()), Err(LayoutError::FirstStripeIndex));
    assert_eq!(make(1 << 20, 0, vec![]), Err(LayoutError::FilehandleCount));
    let many = vec![Bytes::from_static(b"a"); 257];
    assert_eq!(make(1 << 20, 0, many), Err(LayoutError::FilehandleCount));
    let bad = vec![Bytes::new()];
    assert_eq!(make(1 << 20, 0, bad), Err(LayoutError::FilehandleLength));
    let device = |list| FilesDeviceAddr::one_stripe_each(list).map(drop);
    let one = || addr("192.0.2.1:2049");
    assert_eq!(device(vec![vec![one(); 16]; 256]), Ok(()));
    let nameless = NetAddr { uaddr: String::new(), ..one() };
    for bad in
        [vec![], vec![vec![]], vec![vec![one(); 17]], vec![vec![one()]; 257], vec![vec![nameless]]]
    {
        assert_eq!(device(bad), Err(LayoutError::DataServers));
    }
}

/// The distribution of a decoded pair, and the handle and addresses of each stripe index: the
/// count rules of RFC 8881 §13.4.4 for sparse and dense.
#[test]
fn pairs_give_distributions() {
    let mut d = device(3);
    d.stripe_indices = vec![2, 0, 1, 0];
    let mut l = layout(3);
    l.first_stripe_index = 3;
    let dist = l.distribution(&d).unwrap();
    assert_eq!(dist.stripe_count(), 4);
    assert_eq!(dist.locate(0).stripe_index, 3);
    assert_eq!(l.filehandle(&d, 3), Some(&l.filehandles[0]));
    assert_eq!(l.filehandle(&d, 0), Some(&l.filehandles[2]));
    assert_eq!(d.addresses(0), Some(&[addr("192.0.2.2:2049")][..]));
    assert_eq!((l.filehandle(&d, 4), d.addresses(4)), (None, None));
    l.filehandles.truncate(2);
    assert_eq!(l.distribution(&d), Err(LayoutError::FilehandleCount));
    l.filehandles.truncate(1);
    assert!(l.distribution(&d).is_ok());
    assert_eq!(l.filehandle(&d, 2), Some(&l.filehandles[0]));
    l.filehandles.clear();
    assert!(l.distribution(&d).is_ok());
    assert_eq!(l.filehandle(&d, 2), None);
    let mut dense = layout(4);
    dense.util.dense = true;
    assert_eq!(dense.distribution(&d).unwrap().locate(4 << 20).object_offset, 1 << 20);
    assert_eq!(dense.filehandle(&d, 3), Some(&dense.filehandles[3]));
    dense.filehandles.truncate(3);
    assert_eq!(dense.distribution(&d), Err(LayoutError::FilehandleCount));
}

/// What cannot be used together with its device is refused, each for its reason.
#[test]
fn unusable_pairs_are_refused() {
    let d = device(2);
    let with = |change: fn(&mut FilesLayout)| {
        let mut l = layout(2);
        change(&mut l);
        l.distribution(&d).map(drop)
    };
    assert_eq!(with(|_| ()), Ok(()));
    assert_eq!(with(|l| l.pattern_offset = 1), Err(LayoutError::PatternOffset));
    assert_eq!(with(|l| l.first_stripe_index = 2), Err(LayoutError::FirstStripeIndex));
    assert_eq!(with(|l| l.util.stripe_unit_bytes = 0), Err(LayoutError::StripeUnit));
    let empty = FilesDeviceAddr { stripe_indices: vec![], data_servers: vec![] };
    let mut l = layout(1);
    l.filehandles.clear();
    assert_eq!(l.distribution(&empty), Err(LayoutError::FirstStripeIndex));
}

/// Addresses are spelt as RFC 5665 says and come back; mapped IPv4 is IPv4.
#[test]
fn addresses_round_trip() {
    for (text, netid, uaddr) in [
        ("192.0.2.7:2049", "tcp", "192.0.2.7.8.1"),
        ("[2001:db8::7]:65535", "tcp6", "2001:db8::7.255.255"),
        ("[::1]:0", "tcp6", "::1.0.0"),
    ] {
        let a = addr(text);
        assert_eq!((a.netid.as_str(), a.uaddr.as_str()), (netid, uaddr));
        assert_eq!(SocketAddr::try_from(&a).unwrap().to_string(), text);
    }
    assert_eq!(addr("[::ffff:192.0.2.7]:2049"), addr("192.0.2.7:2049"));
}

/// Text that is no address of its transport is refused.
#[test]
fn bad_addresses_are_refused() {
    let parse = |netid: &str, uaddr: &str| {
        SocketAddr::try_from(&NetAddr { netid: netid.into(), uaddr: uaddr.into() })
    };
    assert!(matches!(parse("udp", "192.0.2.7.8.1"), Err(NetAddrError::Netid(_))));
    for bad in [
        "",
        ".",
        "1.2",
        "192.0.2.7",
        "192.0.2.7.8.256",
        "192.0.2.7.8.+1",
        "192.0.2.7.8.",
        "192.0.2.7.8.1.1",
        "::1.8.1",
        "a.b.c.d.8.1",
        "192.0.2.7 .8.1",
    ] {
        assert!(matches!(parse("tcp", bad), Err(NetAddrError::Uaddr(_))), "{bad}");
    }
    assert!(parse("tcp6", "192.0.2.7.8.1").is_err());
}

fn handle() -> DataServerHandle {
    DataServerHandle {
        rights: Rights::READ_WRITE,
        makes: true,
        ends: false,
        slots: Slots::One(2),
        volume: 0x0102_0304,
        object: 0x1112_1314_1516_1718,
        epoch: 0x2122_2324,
        stripe_count: 5,
        stripe_unit_mib: 3,
        verifier_mask: Some(mask()),
    }
}

/// Of a data server whose verifier is 0x0102_0304_0506_0708.
fn mask() -> VerifierMask {
    VerifierMask::between(file_verifier(0x3132_3334), 0x0102_0304_0506_0708_u64.to_be_bytes())
}

/// A data server tells the verifier of the file until its own is another one, and without a mask
/// its own.
#[test]
fn a_mask_makes_the_verifier_of_the_file() {
    let own = 0x0102_0304_0506_0708_u64.to_be_bytes();
    let (masked, plain) = (handle(), DataServerHandle { verifier_mask: None, ..handle() });
    assert_eq!(masked.shown_verifier(own), file_verifier(0x3132_3334));
    assert_eq!(plain.shown_verifier(own), own);
    for bit in 0..64 {
        let other = (u64::from_be_bytes(own) ^ (1 << bit)).to_be_bytes();
        assert_ne!(masked.shown_verifier(other), file_verifier(0x3132_3334), "{bit}");
    }
}

fn key() -> HandleKey {
    HandleKeys::derive(b"a cluster secret").of(1, [7; 16])
}

/// The fields are where the table says, and the seal opens with the same key only: another
/// secret, another data server's number and another directory each make another.
#[test]
fn handles_have_the_documented_form() {
    let sealed = handle().seal(&key());
    let want = [
        &[3, 0x27, 0, 2, 1, 2, 3, 4][..],
        &[0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18],
        &[0x21, 0x22, 0x23, 0x24, 0, 5, 0, 3],
        // 0x0102_0304 ^ 0x0506_0708 ^ 0x3132_3334
        &[0x35, 0x36, 0x37, 0x38],
    ];
    assert_eq!(&sealed[..28], want.concat());
    assert_eq!(DataServerHandle::open(&key(), &sealed), Ok(handle()));
    let ours = HandleKeys::derive(b"a cluster secret");
    let theirs = HandleKeys::derive(b"another secret");
    for other in [theirs.of(1, [7; 16]), ours.of(2, [7; 16]), ours.of(1, [8; 16])] {
        assert_eq!(DataServerHandle::open(&other, &sealed), Err(HandleError::Forged));
    }
    assert_eq!(format!("{:?} {ours:?}", key()), "HandleKey(secret) HandleKeys(secret)");
}

/// Every truncation, every lengthening and every single flipped bit is refused.
#[test]
fn damaged_handles_are_refused() {
    let sealed = handle().seal(&key());
    for len in 0..36 {
        let cut = DataServerHandle::open(&key(), &sealed[..len]);
        assert_eq!(cut, Err(HandleError::Malformed));
    }
    let long = [&sealed[..], &[0]].concat();
    assert_eq!(DataServerHandle::open(&key(), &long), Err(HandleError::Malformed));
    for bit in 0..288 {
        let mut flipped = sealed;
        flipped[bit / 8] ^= 1 << (bit % 8);
        let want = if bit < 8 { HandleError::Malformed } else { HandleError::Forged };
        assert_eq!(DataServerHandle::open(&key(), &flipped), Err(want), "bit {bit}");
    }
}

/// Well sealed nonsense is malformed: slots beyond the count, several that are none or
/// one, or of too many, no unit, no stripes.
#[test]
fn senseless_handles_are_malformed() {
    let with = |change: fn(&mut DataServerHandle)| {
        let mut h = handle();
        change(&mut h);
        DataServerHandle::open(&key(), &h.seal(&key())).map(drop)
    };
    assert_eq!(with(|h| h.slots = Slots::One(4)), Ok(()));
    assert_eq!(with(|h| h.slots = Slots::One(5)), Err(HandleError::Malformed));
    assert_eq!(with(|h| h.slots = Slots::Several(0b1_0010)), Ok(()));
    for senseless in [0, 0b100, 0b10_0010] {
        let mut h = handle();
        h.slots = Slots::Several(senseless);
        let opened = DataServerHandle::open(&key(), &h.seal(&key()));
        assert_eq!(opened, Err(HandleError::Malformed), "{senseless:b}");
    }
    let long = |h: &mut DataServerHandle| (h.slots, h.stripe_count) = (Slots::Several(3), 17);
    assert_eq!(with(long), Err(HandleError::Malformed));
    assert_eq!(with(|h| h.stripe_unit_mib = 0), Err(HandleError::Malformed));
    assert_eq!(
        with(|h| (h.slots, h.stripe_count) = (Slots::One(0), 0)),
        Err(HandleError::Malformed)
    );
}

/// A handle admits what its rights and its slot allow, at both sides of each unit's borders.
#[test]
fn handles_admit_their_own() {
    const MIB: u64 = 1 << 20;
    let h = DataServerHandle { rights: Rights::READ, ..handle() };
    let (first, past) = (6 * MIB, 9 * MIB);
    assert_eq!(h.admits(first, 3 * MIB, Access::Read), Ok(()));
    assert_eq!(h.admits(past - 1, 1, Access::Read), Ok(()));
    assert_eq!(h.admits(first + 15 * MIB, 1, Access::Read), Ok(()));
    for (offset, len) in [(first - 1, 1), (first - 1, 2), (past, 1), (past - 1, 2), (u64::MAX, 1)] {
        assert_eq!(h.admits(offset, len, Access::Read), Err(NotAdmitted::NotOurs));
    }
    assert_eq!(h.admits(first, 1, Access::Write), Err(NotAdmitted::Rights));
    assert_eq!(handle().admits(first, 1, Access::Write), Ok(()));
    assert_eq!(handle().admits(0, 0, Access::Write), Ok(()));
    let none = Rights { read: false, write: false };
    let h = DataServerHandle { rights: none, ..handle() };
    assert_eq!(h.admits(first, 1, Access::Read), Err(NotAdmitted::Rights));
}

proptest! {
    /// No bytes make a decoder panic, and what decodes gives a distribution or a reason.
    #[test]
    fn decoders_survive_anything(a in prop::collection::vec(any::<u8>(), 0..300),
                                 b in prop::collection::vec(any::<u8>(), 0..300)) {
        let layout = from_bytes::<FilesLayout>(a.clone().into());
        let device = from_bytes::<FilesDeviceAddr>(b.into());
        if let (Ok(l), Ok(d)) = (layout, device) {
            let _ = l.distribution(&d).map(|x: Distribution| x.locate(u64::MAX));
        }
        prop_assert!(DataServerHandle::open(&key(), &a).is_err());
    }

    /// Mutated good bodies decode to something consistent or are refused, never a panic.
    #[test]
    fn mutated_bodies_are_consistent(at in 0..2000usize, value: u8, n in 1..5usize) {
        let mutate = |bytes: Bytes| {
            let mut bytes = bytes.to_vec();
            let at = at % bytes.len();
            bytes[at] = value;
            Bytes::from(bytes)
        };
        let l = from_bytes::<FilesLayout>(mutate(to_bytes(&layout(n))));
        let d = from_bytes::<FilesDeviceAddr>(mutate(to_bytes(&device(n))));
        if let (Ok(l), Ok(d)) = (l, d) && let Ok(dist) = l.distribution(&d) {
            for stripe_index in 0..dist.stripe_count() {
                prop_assert!(d.addresses(stripe_index).is_some_and(|a| !a.is_empty()));
            }
        }
    }

    /// Any sound handle comes back from its sealed form.
    #[test]
    fn handles_round_trip((read, write, makes, ends) in any::<(bool, bool, bool, bool)>(),
                          slot: u16,
                          volume: u32, object: u64,
                          epoch: u32, stripe_count in prop_oneof![1..=u16::MAX, Just(16)],
                          stripe_unit_mib in 1..=u16::MAX,
                          mask in any::<Option<u32>>()) {
        let verifier_mask =
            mask.map(|bits| VerifierMask::between(file_verifier(bits), Default::default()));
        let slots = match slot.count_ones() > 1 && stripe_count == 16 {
            true => Slots::Several(slot),
            false => Slots::One(slot % stripe_count),
        };
        let h = DataServerHandle { rights: Rights { read, write }, makes,
                                   ends: ends && stripe_count == 1, slots, volume, object,
                                   epoch, stripe_count, stripe_unit_mib, verifier_mask };
        prop_assert_eq!(DataServerHandle::open(&key(), &h.seal(&key())), Ok(h));
    }
}

/// A handle with several slots admits the units of each of them, and a range across two that touch.
#[test]
fn several_slots_are_admitted() {
    const MIB: u64 = 1 << 20;
    let slots = Slots::Several(0b0110);
    let h = DataServerHandle { slots, stripe_count: 4, stripe_unit_mib: 1, ..handle() };
    assert_eq!(h.slots.first(), 1);
    for unit in 0..12 {
        let admitted = h.admits(unit * MIB, MIB, Access::Write);
        assert_eq!(admitted.is_ok(), matches!(unit % 4, 1 | 2), "{unit}");
    }
    assert_eq!(h.admits(MIB, 2 * MIB, Access::Read), Ok(()));
    assert_eq!(h.admits(MIB, 2 * MIB + 1, Access::Read), Err(NotAdmitted::NotOurs));
}

/// What lies before a unit that a small write begins is of others, up to the unit before; other
/// writes say nothing, and neither does a file on one data server.
#[test]
fn others_have_what_lies_before_a_unit() {
    const MIB: u64 = 1 << 20;
    let handle = DataServerHandle {
        rights: Rights { read: true, write: true },
        makes: true,
        ends: false,
        slots: Slots::One(1),
        volume: 1,
        object: 1,
        epoch: 1,
        stripe_count: 4,
        stripe_unit_mib: 1,
        verifier_mask: None,
    };
    let rows = [
        (MIB, 4096, Some((0, MIB))),
        (5 * MIB, MIB - 1, Some((2 * MIB, 5 * MIB))),
        (5 * MIB, MIB, None),
        (5 * MIB + 4096, 4096, None),
        (0, 4096, None),
    ];
    for (offset, len, others) in rows {
        assert_eq!(handle.others_before(offset, len), others, "{offset} {len}");
        for at in others.into_iter().flat_map(|(start, end)| (start..end).step_by(4096)) {
            assert!(handle.admits(at, 4096, Access::Write).is_err(), "{at} is ours");
        }
    }
    assert_eq!(
        DataServerHandle { stripe_count: 1, slots: Slots::One(0), ..handle }.others_before(MIB, 1),
        None
    );
    let several = DataServerHandle { slots: Slots::Several(0b1001), ..handle };
    let rows = [(3, Some((1, 3))), (4, None), (7, Some((5, 7))), (8, None)];
    for (at, others) in rows {
        let others = others.map(|(start, end)| (start * MIB, end * MIB));
        assert_eq!(several.others_before(at * MIB, 4096), others, "{at}");
    }
    let one_of_two = DataServerHandle { slots: Slots::Several(0b1010), ..handle };
    assert_eq!(one_of_two.others_before(MIB, 1), Some((0, MIB)));
}
