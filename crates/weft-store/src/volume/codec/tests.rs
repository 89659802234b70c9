//! Round trips, truncations and hostile bytes of every record.

use proptest::prelude::*;

use super::*;

fn timestamps() -> impl Strategy<Value = Timestamp> {
    (any::<i64>(), 0u32..1_000_000_000).prop_map(|(seconds, nanos)| Timestamp { seconds, nanos })
}

fn placements() -> impl Strategy<Value = Placement> {
    let place = (any::<[u8; 16]>(), any::<u32>(), any::<[u16; 3]>(), spreads());
    place.prop_map(|(d, u, [c, f, r], spread)| Placement {
        device: DeviceId(d),
        stripe_unit_bytes: u,
        stripe_count: c % (1 << 15),
        first_stripe_index: f,
        reach: r,
        spread,
    })
}

fn spreads() -> impl Strategy<Value = Spread> {
    let lists = prop::collection::vec(0..3u8, 1..=16);
    prop_oneof![
        Just(Spread::InTurn),
        lists.prop_filter_map("left out", |l| CyclicList::new(&l).ok().map(Spread::List)),
        any::<(u16, u32)>()
            .prop_map(|(rounds, later_unit_bytes)| Spread::Growing { rounds, later_unit_bytes }),
        any::<bool>().prop_map(|alike| Spread::Copies { alike }),
    ]
}

fn layouts() -> impl Strategy<Value = LayoutChoice> {
    let mib = || (1..=64u32).prop_map(|n| n << 20);
    let servers = prop::collection::vec(any::<u32>().prop_map(DataServerId), 1..=16);
    let deals = prop_oneof![
        Just(Deal::RoundRobin),
        servers.prop_map(Deal::Cyclic),
        (1..=1024u16, mib())
            .prop_map(|(rounds, later_unit_bytes)| Deal::Variable { rounds, later_unit_bytes }),
        (2..=8u16).prop_map(Deal::Replicated),
    ];
    let count = prop::option::of(1..=100u16);
    (prop::option::of(mib()), count, deals).prop_map(|(stripe_unit_bytes, count, deal)| {
        let says_how_many = matches!(deal, Deal::Cyclic(_) | Deal::Replicated(_));
        let stripe_count = count.filter(|_| !says_how_many);
        LayoutChoice { stripe_unit_bytes, stripe_count, deal }
    })
}

fn kinds() -> impl Strategy<Value = Kind> {
    prop::sample::select(vec![
        Kind::File,
        Kind::Directory,
        Kind::Symlink,
        Kind::Fifo,
        Kind::Socket,
        Kind::CharDevice,
        Kind::BlockDevice,
    ])
}

/// Of every form; a dense one of no bytes stands for that of the file's size.
fn bounds() -> impl Strategy<Value = LengthBounds> {
    let each = prop::collection::vec(1..u64::MAX, 1..6);
    prop_oneof![
        Just(LengthBounds::NONE),
        Just(LengthBounds(Bounds::Dense(0))),
        (1..u64::MAX).prop_map(|size| LengthBounds(Bounds::Dense(size))),
        each.prop_map(|lengths| LengthBounds(Bounds::Each(lengths.into()))),
    ]
}

fn acls() -> impl Strategy<Value = Acl> {
    let who = prop_oneof![
        Just(Who::Owner),
        Just(Who::Group),
        Just(Who::Everyone),
        any::<u32>().prop_map(Who::User),
        any::<u32>().prop_map(Who::Members),
    ];
    let entry = (any::<bool>(), any::<u8>(), any::<u32>(), who).prop_map(|(allows, f, m, who)| {
        AclEntry { allows, flags: f & entry_flag::ALL, mask: m & right::ALL, who }
    });
    prop::collection::vec(entry, 0..9).prop_map(Acl::kept)
}

fn inodes() -> impl Strategy<Value = Inode> {
    let numbers = (any::<[u32; 4]>(), any::<[u64; 6]>(), any::<u16>());
    let times = [timestamps(), timestamps(), timestamps(), timestamps()];
    let options = (
        prop::option::of(placements()),
        prop::option::of(any::<[u8; 8]>()),
        any::<((bool, bool, bool), (bool, bool, bool))>(),
        prop::collection::vec(any::<u8>(), 0..300),
        (bounds(), prop::option::of(acls()), prop::option::of(layouts())),
    );
    (kinds(), numbers, times, options).prop_map(|(kind, (small, wide, mode), times, options)| {
        let directory = kind == Kind::Directory;
        let device = matches!(kind, Kind::CharDevice | Kind::BlockDevice);
        let (placement, create_verifier, flags, target, (bounds, acl, layout)) = options;
        let ((unsettled, has_xattrs, stuffed), (read, write, earlier)) = flags;
        let placement: Option<Placement> = placement;
        let has_objects = kind == Kind::File && placement.is_some();
        let (placement, bounds) = match bounds {
            _ if !has_objects => (placement, LengthBounds::NONE),
            LengthBounds(Bounds::Dense(0)) => (placement, LengthBounds(Bounds::Dense(wide[1] | 1))),
            LengthBounds(Bounds::Each(each)) => {
                let stripe_count = u16::try_from(each.len()).unwrap();
                let placement = placement.map(|p| Placement { stripe_count, ..p });
                (placement, LengthBounds(Bounds::Each(each)))
            }
            other => (placement, other),
        };
        Inode {
            no: InodeNo(wide[0]),
            kind,
            mode,
            acl,
            uid: small[0],
            gid: small[1],
            nlink: small[2],
            size: wide[1] | 1,
            change: wide[2],
            atime: times[0],
            mtime: times[1],
            ctime: times[2],
            btime: times[3],
            rdev: if device { (small[0], small[1]) } else { (0, 0) },
            parent: InodeNo(if directory { wide[3] } else { 0 }),
            placement,
            fence_epoch: small[3],
            handles: HandlesOut { read, write, earlier, owed: earlier && read },
            create_verifier,
            target: if kind == Kind::Symlink { target.into() } else { Bytes::new() },
            entries: if directory { wide[4] } else { 0 },
            next_cookie: if directory { wide[5] } else { 0 },
            unsettled,
            occupied: has_objects.then_some(wide[3]),
            has_xattrs,
            bounds,
            stuffed: stuffed && kind == Kind::File,
            layout: layout.map(Arc::new),
        }
    })
}

/// Truncations of a record without a variable tail must fail, and so must an extra byte.
fn exact<T: std::fmt::Debug>(raw: &[u8], decode: impl Fn(&[u8]) -> Result<T, StoreError>) {
    for len in 0..raw.len() {
        assert!(decode(&raw[..len]).is_err(), "{len} of {} bytes", raw.len());
    }
    assert!(decode(&[raw, &[0]].concat()).is_err());
}

proptest! {
    #[test]
    fn inodes_survive_the_disk(inode in inodes()) {
        // Every inode decodes to itself; every truncation and every extra byte is corruption,
        // except inside a symlink's target, which has no other end than the record's.
        let raw = encode_inode(&inode);
        prop_assert_eq!(decode_inode(inode.no, &raw).unwrap(), inode.clone());
        if inode.kind != Kind::Symlink {
            exact(&raw, |b| decode_inode(inode.no, &Bytes::copy_from_slice(b)));
        }
    }

    #[test]
    fn no_bytes_panic_a_decoder(raw in prop::collection::vec(any::<u8>(), 0..200), v in 0u8..3) {
        // Decoding is total: whatever is on disk is a value or an error.
        let raw = Bytes::from([&[v][..], &raw].concat());
        let _ = decode_inode(InodeNo(1), &raw);
        let _ = decode_dirent(&raw);
        let _ = decode_order(&raw);
        let _ = decode_intent(IntentId(1), &raw);
        let _ = decode_reserved(&raw);
        let _ = decode_device(DeviceId([0; 16]), &raw);
        let _ = decode_identity(&raw);
        let _ = decode_progress(&raw);
        let _ = decode_xattr_names(&raw);
    }

    #[test]
    fn intents_survive_the_disk(placement in placements(), ino: u64, size: u64, cut: bool) {
        // Both kinds, and reserved places, decode to themselves, exactly.
        let kind = if cut { IntentKind::Truncate { size } } else { IntentKind::Delete };
        let id = IntentId(4);
        let intent = Intent { id, kind, ino: InodeNo(ino), placement, fence_epoch: 3 };
        let raw = encode_intent(&intent);
        prop_assert_eq!(decode_intent(id, &raw).unwrap(), intent);
        exact(&raw, |b| decode_intent(id, b));
        let raw = encode_reserved(&placement);
        prop_assert_eq!(decode_reserved(&raw), Ok(placement));
        exact(&raw, decode_reserved);
    }
}

proptest! {
    #[test]
    fn xattr_names_survive_the_disk(
        names in prop::collection::vec((any::<u64>(), any::<u32>(), "[a-z]{0,255}"), 1..6),
    ) {
        // The list decodes to itself; cut inside a name it is corruption, cut between two it is a
        // shorter list (the record has no other end).
        let names: Vec<_> = names.into_iter().map(|(cookie, value_bytes, name)| {
            XattrName { cookie, value_bytes, name: name.into() }
        }).collect();
        let raw = encode_xattr_names(&names);
        prop_assert_eq!(decode_xattr_names(&raw).unwrap(), names.clone());
        let mut ends = vec![1];
        for name in &names {
            ends.push(ends[ends.len() - 1] + 13 + name.name.len());
        }
        for len in 0..raw.len() {
            let cut = decode_xattr_names(&raw.slice(..len));
            let wanted = ends.iter().position(|end| *end == len).map(|n| names[..n].to_vec());
            prop_assert_eq!(cut.ok(), wanted);
        }
    }
}

#[test]
fn small_records_survive_the_disk() {
    // Round trip and exact length of the fixed records; round trip of the others.
    let entry = Dirent { ino: InodeNo(7), cookie: 3, kind: Kind::Fifo };
    assert_eq!(decode_dirent(&encode_dirent(&entry)), Ok(entry));
    exact(&encode_dirent(&entry), decode_dirent);
    let identity = Identity { format: 2, number: 3, uuid: [9; 16], fsid: (1, 2) };
    assert_eq!(decode_identity(&encode_identity(&identity)), Ok(identity));
    exact(&encode_identity(&identity), decode_identity);
    let run = Run { number: 5, id: [4; 16] };
    let run = VolumeRun { run, found_lsn: Lsn(6), found_next: 7 };
    assert_eq!(decode_run(5, &encode_run(&run)), Ok(run));
    exact(&encode_run(&run), |raw| decode_run(5, raw));
    let progress = Progress { lsn: Lsn(3), next_ino: 2, inodes: 1 };
    assert_eq!(decode_progress(&encode_progress(&progress)), Ok(progress));
    exact(&encode_progress(&progress), decode_progress);
    let ordered = decode_order(&encode_order(InodeNo(8), Kind::Socket, b"name")).unwrap();
    assert_eq!((ordered.ino, &ordered.name[..]), (InodeNo(8), &b"name"[..]));
    for stripes in [&[5, 6][..], &[6, 5, 6, 6]] {
        let stripes: Vec<_> = stripes.iter().copied().map(DataServerId).collect();
        let device = Device::of_stripes(DeviceId([1; 16]), &stripes).unwrap();
        assert_eq!(decode_device(device.id, &encode_device(&device)), Ok(device));
    }
    let too_long = [&[VERSION][..], &[0; 4 * 17]].concat();
    assert!(decode_device(DeviceId([1; 16]), &too_long).is_err());
    assert_eq!(decode_opaque("client", &encode_opaque(b"xy")).unwrap()[..], b"xy"[..]);
}
