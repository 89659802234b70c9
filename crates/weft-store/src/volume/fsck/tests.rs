//! Volumes with faults, and what the check says of them.

use std::sync::Arc;

use super::*;
use crate::{
    engine::{Batch, Engine, MemoryEngine},
    types::{
        Credential, DataServerId, Device, LAYOUT_XATTR, LayoutChoice, SetIdLoss, Spread, Timestamp,
    },
    volume::{
        Account, Exclusivity, New, NewFileData, Remove, STUFFED_BYTES_MAX, StuffedWrite,
        VolumeConfig, XattrHow, ops::stuffed::BLOCK_BYTES,
    },
};

const NOW: Timestamp = Timestamp { seconds: 9, nanos: 0 };

fn device() -> Device {
    Device { id: DeviceId([7; 16]), data_servers: vec![DataServerId(1)], list: None }
}

fn somewhere() -> Placement {
    Placement {
        device: device().id,
        stripe_unit_bytes: 1 << 20,
        stripe_count: 1,
        first_stripe_index: 0,
        reach: 1,
        spread: Spread::InTurn,
    }
}

/// A volume with a bit of everything: `d/e`, `d/f` with a second name `g`, a symlink, an orphan, a
/// removal that is owed, two extended attributes and two blocks of `f`, and of three reserved
/// numbers one that is left, one that is a file and one that was given up.
fn populated(engine: &Arc<dyn Engine>) {
    let volume = Volume::with_engine(engine.clone(), &VolumeConfig::default()).unwrap();
    let root = Credential::superuser();
    let make = |dir, name: &[u8], new: &New| {
        volume.create(dir, name, new, &root, NOW).value.unwrap().inode
    };
    let d = make(InodeNo::ROOT, b"d", &New::directory(0o755));
    make(d.no, b"e", &New::directory(0o755));
    let f = make(d.no, b"f", &New { data: NewFileData::Stuffed, ..New::file(0o644) });
    let offset = BLOCK_BYTES - 2;
    let four = StuffedWrite {
        offset,
        data: b"four",
        limit: STUFFED_BYTES_MAX,
        set_id_loss: SetIdLoss::Nothing,
    };
    volume.write_stuffed(f.no, &four, NOW).value.unwrap().unwrap();
    volume.link(f.no, InodeNo::ROOT, b"g", &root, NOW).value.unwrap();
    for name in [&b"one"[..], b"two"] {
        let set = volume.xattr_set(f.no, (name, b"value"), XattrHow::Create, &root, NOW);
        set.value.unwrap();
    }
    make(InodeNo::ROOT, b"l", &New::symlink(&b"d/f"[..]));
    volume.device_put(&device()).value.unwrap();
    for (name, keep) in [(&b"orphan"[..], true), (b"owed", false)] {
        let new = New::of(Kind::File, 0o600, Exclusivity::Unchecked);
        let file = make(InodeNo::ROOT, name, &new);
        volume.place(file.no, somewhere()).value.unwrap();
        let remove = Remove { dir: InodeNo::ROOT, name, expect: None, keep_orphan: keep };
        volume.remove(&remove, &root, NOW).value.unwrap();
    }
    let reserved = volume.reserve(&[somewhere(); 3]).value.unwrap();
    make(d.no, b"h", &New { data: NewFileData::Reserved(reserved[1]), ..New::file(0o600) });
    volume.give_up_reserved(reserved[2].ino).value.unwrap().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let last = volume.stats().value.unwrap().lsn;
    runtime.block_on(volume.durable(last)).unwrap();
}

fn checked(engine: &Arc<dyn Engine>) -> Checked {
    Volume::with_engine(engine.clone(), &VolumeConfig::default()).unwrap().fsck().unwrap()
}

/// A sound volume has no findings, and everything is counted.
#[test]
fn a_sound_volume() {
    let engine: Arc<dyn Engine> = Arc::new(MemoryEngine::default());
    populated(&engine);
    let found = checked(&engine);
    assert_eq!(found.findings, Vec::<String>::new());
    assert_eq!(
        (found.inodes, found.entries, found.orphans, found.intents, found.xattrs, found.blocks),
        (7, 6, 1, 2, 2, 2)
    );
    assert_eq!(found.reserved, 1);
}

/// Each kind of record lost or changed is found, and said.
#[test]
fn damage_is_found() {
    let ino = |n| keys::inode(InodeNo(n));
    let removed: [(Bytes, &str); 9] = [
        (keys::dirent(InodeNo(2), b"f"), "links"),
        (keys::dirent(InodeNo(2), b"e"), "nothing leads to it"),
        (keys::order(InodeNo::ROOT, 3), "not in the directory's order"),
        (ino(4), "which is not there"),
        (ino(2), "no such directory"),
        (keys::orphan(InodeNo(6)), "links"),
        (keys::device(device().id), "its device is unknown"),
        (keys::xattr_names(InodeNo(4)), "are not listed"),
        (keys::xattr_value(InodeNo(4), b"one"), "no such value of \"one\""),
    ];
    for (key, says) in removed {
        let engine: Arc<dyn Engine> = Arc::new(MemoryEngine::default());
        populated(&engine);
        assert!(engine.get(&key).unwrap().is_some(), "{says}: there is something to lose");
        let mut batch = Batch::new();
        batch.delete(key);
        engine.commit(&batch, engine.acquire().unwrap()).unwrap();
        let found = checked(&engine);
        assert!(found.findings.iter().any(|f| f.contains(says)), "{says}: {found:?}");
    }
    let engine: Arc<dyn Engine> = Arc::new(MemoryEngine::default());
    populated(&engine);
    let mut batch = Batch::new();
    batch.put(ino(4), &b"rubbish"[..]);
    engine.commit(&batch, engine.acquire().unwrap()).unwrap();
    let found = checked(&engine);
    assert!(found.findings.iter().any(|f| f.starts_with("inode 01")), "{found:?}");
    // And what is too much.
    let names = codec::encode_xattr_names(&[]);
    let place = codec::encode_reserved(&somewhere());
    let elsewhere = Placement { device: DeviceId([8; 16]), ..somewhere() };
    let elsewhere = codec::encode_reserved(&elsewhere);
    let added = [
        (keys::xattr_names(InodeNo(3)), names, "knows of no extended attributes"),
        (keys::xattr_value(InodeNo(4), b"x"), codec::encode_opaque(b""), "3 values of extended"),
        (keys::xattr_value(InodeNo(4), b"one"), codec::encode_opaque(b""), "no such value of"),
        (keys::data(InodeNo(4), 1), codec::encode_opaque(b"abc"), "file 4: bytes beyond its end"),
        (keys::data(InodeNo(4), 2), codec::encode_opaque(b"x"), "block 2 beyond its end"),
        (keys::data(InodeNo(4), 0), codec::encode_opaque(b""), "block 0 of 0"),
        (
            keys::data(InodeNo(4), 0),
            codec::encode_opaque(&[1; BLOCK_BYTES as usize + 1]),
            "of 8193",
        ),
        (keys::data(InodeNo(6), 0), codec::encode_opaque(b"x"), "its bytes are not here"),
        (keys::reserved(InodeNo(4)), place.clone(), "file 4 exists, and its number is reserved"),
        (keys::reserved(InodeNo(11)), place.clone(), "number 11 is of the future"),
        (keys::reserved(InodeNo(7)), place, "number 7 is to be removed"),
        (keys::reserved(InodeNo(8)), elsewhere, "file 8: its device is unknown"),
        (keys::reserved(InodeNo(8)), codec::encode_opaque(b""), "reserved number 8"),
    ];
    for (key, value, says) in added {
        let engine: Arc<dyn Engine> = Arc::new(MemoryEngine::default());
        populated(&engine);
        let mut batch = Batch::new();
        batch.put(key, value);
        engine.commit(&batch, engine.acquire().unwrap()).unwrap();
        let found = checked(&engine);
        assert!(found.findings.iter().any(|f| f.contains(says)), "{says}: {found:?}");
    }
}

/// Objects of placed files, of reserved numbers and of owed removals belong where those are; others
/// do not belong anywhere.
#[test]
fn objects_are_accounted_for() {
    let engine: Arc<dyn Engine> = Arc::new(MemoryEngine::default());
    populated(&engine);
    let volume = Volume::with_engine(engine, &VolumeConfig::default()).unwrap();
    for (id, account) in [(1, Account::Known), (2, Account::Elsewhere)] {
        let objects = [4, 6, 7, 8, 9, 10, 11].map(InodeNo);
        let known = volume.accounts_for(crate::types::DataServerId(id), &objects).unwrap();
        let nobodys = Account::Nobody;
        assert_eq!(known, [nobodys, account, account, account, account, account, nobodys]);
    }
}

/// A list goes with the mode that it says, and with no other.
#[test]
fn lists_and_modes_are_compared() {
    use crate::types::{Acl, acl_of_mode};
    for (mode, sound) in [(0o644, true), (0o640, false)] {
        let engine: Arc<dyn Engine> = Arc::new(MemoryEngine::default());
        populated(&engine);
        let volume = Volume::with_engine(engine.clone(), &VolumeConfig::default()).unwrap();
        let mut inode = volume.inode(InodeNo(4)).value.unwrap();
        drop(volume);
        inode.mode = mode;
        inode.acl = Some(Acl::new(acl_of_mode(0o644, false)).unwrap());
        let mut batch = Batch::new();
        batch.put(keys::inode(inode.no), codec::encode_inode(&inode));
        engine.commit(&batch, engine.acquire().unwrap()).unwrap();
        let found = checked(&engine).findings;
        let says = "inode 4: its list does not say its mode, 640";
        assert_eq!(found.is_empty(), sound, "{found:?}");
        assert_eq!(found.iter().any(|f| f == says), !sound, "{found:?}");
    }
}

/// A volume in which a directory and its file chose, and whose files are spread by each rule: the
/// numbers of the directory, and of the files by a list, by units that grow, and as copies.
fn spread(engine: &Arc<dyn Engine>) -> [InodeNo; 4] {
    let volume = Volume::with_engine(engine.clone(), &VolumeConfig::default()).unwrap();
    let root = Credential::superuser();
    let make = |dir, name: &[u8], new: New| {
        volume.create(dir, name, &new, &root, NOW).value.unwrap().inode.no
    };
    let dir = make(InodeNo::ROOT, b"d", New::directory(0o755));
    let words = (LAYOUT_XATTR, &b"distribution=cyclic servers=1,2,1"[..]);
    volume.xattr_set(dir, words, XattrHow::Create, &root, NOW).value.unwrap();
    make(dir, b"sub", New::directory(0o755));
    make(dir, b"to be placed", New::file(0o644));
    let stripes = [1, 2, 1].map(DataServerId);
    let listed = Device::of_stripes(DeviceId([8; 16]), &stripes).unwrap();
    let plain = Device::of_stripes(DeviceId([9; 16]), &stripes[..2]).unwrap();
    let by_list = Placement {
        device: listed.id,
        stripe_count: 2,
        first_stripe_index: 2,
        reach: 3,
        spread: Spread::List(listed.list.unwrap()),
        ..somewhere()
    };
    let spread = Spread::Growing { rounds: 1, later_unit_bytes: 2 << 20 };
    let growing =
        Placement { device: plain.id, first_stripe_index: 1, reach: 2, spread, ..by_list };
    [listed, plain].iter().for_each(|device| volume.device_put(device).value.unwrap());
    let copied = Placement { spread: Spread::Copies { alike: true }, reach: 1, ..growing };
    let places = [(&b"listed"[..], by_list), (b"growing", growing), (b"copied", copied)];
    let files = places.map(|(name, place)| {
        let file = make(dir, name, New::file(0o644));
        volume.place(file, place).value.unwrap();
        file
    });
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let last = volume.stats().value.unwrap().lsn;
    runtime.block_on(volume.durable(last)).unwrap();
    [dir, files[0], files[1], files[2]]
}

/// What is changed in a place.
type Change = fn(&mut Placement);

/// A place by another list than the device's, which clients are told, one that contradicts itself,
/// and a choice where there is nothing to choose are found; a sound volume has none of these.
#[test]
fn places_and_choices_are_compared() {
    let changed = |which: usize, change: &dyn Fn(&mut Inode)| {
        let engine: Arc<dyn Engine> = Arc::new(MemoryEngine::default());
        let no = spread(&engine)[which];
        let volume = Volume::with_engine(engine.clone(), &VolumeConfig::default()).unwrap();
        let mut inode = volume.inode(no).value.unwrap();
        drop(volume);
        change(&mut inode);
        let mut batch = Batch::new();
        batch.put(keys::inode(inode.no), codec::encode_inode(&inode));
        engine.commit(&batch, engine.acquire().unwrap()).unwrap();
        checked(&engine).findings
    };
    assert_eq!(changed(0, &|_| {}), Vec::<String>::new());
    let not_that = "its list is not that of its device";
    let rows: [(usize, Change, &str); 7] = [
        (1, |place| place.spread = Spread::InTurn, not_that),
        (1, |place| place.device = DeviceId([9; 16]), not_that),
        (2, |place| place.device = DeviceId([8; 16]), not_that),
        (1, |place| place.first_stripe_index = 3, "no place"),
        (3, |place| place.device = DeviceId([8; 16]), not_that),
        (3, |place| place.first_stripe_index = 2, "no place"),
        (2, |place| place.spread = Spread::Growing { rounds: 0, later_unit_bytes: 1 }, "no place"),
    ];
    for (which, change, says) in rows {
        let found = changed(which, &|inode| change(inode.placement.as_mut().unwrap()));
        assert!(found.iter().any(|f| f.contains(says)), "{says}: {found:?}");
    }
    let choice: Arc<LayoutChoice> = Arc::new("stripe_count=1".parse().unwrap());
    let found = changed(1, &|inode| inode.layout = Some(choice.clone()));
    assert!(found.iter().any(|f| f.contains("nothing is to be spread")), "{found:?}");
}
