//! A data server's disk that is (nearly) full: data stops above the reserve, and what makes room or
//! keeps promises goes on with nothing left at all. These tests mount disks: they need root.

mod support;

use support::disk::{Disk, Kind};
use weft_store::objects::{
    BindRequest, ObjectError, ObjectId, ObjectStore, ObjectStoreOptions, REMOVED, Restoration,
};
use weft_store::types::Run;

const DISK_MIB: u64 = 128;
/// The disk gives a sixteenth of itself.
const FLOOR_SHARE: u64 = 16;
const MIB: usize = 1 << 20;

fn open(disk: &Disk) -> ObjectStore {
    let options = ObjectStoreOptions { reserve_bytes: 1 << 30, ..ObjectStoreOptions::default() };
    let store = ObjectStore::open(&disk.at().join("ds"), &options).unwrap();
    let run = Run { number: 1, id: [1; 16] };
    let request = BindRequest {
        number: 1,
        uuid: [1; 16],
        run,
        common: None,
        lsn: 1,
        restored: Restoration::default(),
    };
    store.bind(&request, false).unwrap().unwrap();
    store
}

fn statvfs(disk: &Disk) -> rustix::fs::StatVfs {
    rustix::fs::statvfs(disk.at()).unwrap()
}

fn id(object: u64) -> ObjectId {
    ObjectId { volume: 1, object }
}

fn both(case: impl Fn(Disk)) {
    case(Disk::new(Kind::Tmpfs, DISK_MIB));
    case(Disk::new(Kind::Ext4, DISK_MIB));
}

/// Writes stop above the floor, not at the end of the disk, and `available` says exactly when;
/// what has its place already can still be written over.
#[test]
fn data_stops_above_the_reserve() {
    both(|disk| {
        let store = open(&disk);
        let data = vec![1; MIB];
        let told = store.space().unwrap().available;
        let written = (0..1000).take_while(|n| store.write(id(1), 0, n << 20, &data).is_ok());
        let written = written.count() as u64;
        let told_by_disk = statvfs(&disk);
        let left = told_by_disk.f_bavail * told_by_disk.f_frsize;
        let floor = told_by_disk.f_blocks * told_by_disk.f_frsize / FLOOR_SHARE;
        // But for what the file system needs to remember where the data is.
        assert!(left >= floor - (1 << 18), "{left} bytes left");
        assert!(store.space().unwrap().available < 2 << 20);
        let (least, most) = ((told >> 20).saturating_sub(2), told >> 20);
        assert!((least..=most).contains(&written), "{written} MiB of {told} bytes");
        assert_eq!(store.write(id(2), 0, 0, &data), Err(ObjectError::NoSpace));
        assert_eq!(store.write(id(1), 0, written << 20, &data), Err(ObjectError::NoSpace));
        store.write(id(1), 0, 0, &vec![2; MIB]).unwrap();
        store.remove(id(1)).unwrap();
        // What is freed is there at once, or after the file system's next commit.
        rustix::fs::sync();
        assert!(store.space().unwrap().available >= told - (1 << 20));
        store.write(id(2), 0, 0, &data).unwrap();
    });
}

/// With nothing left on the disk objects are truncated, fenced and removed, durably.
#[test]
fn what_makes_room_goes_on_without_any() {
    both(|disk| {
        let store = open(&disk);
        for n in 0..64 {
            store.write_stable(id(n), 0, 0, &vec![1; 64 << 10]).unwrap();
        }
        disk.fill();
        assert!(store.write(id(100), 0, 0, b"more").is_err());
        let made = store.create_many(&[(id(101), 0)]);
        assert_eq!(made, [Err(ObjectError::NoSpace)]);
        for n in 0..16 {
            store.truncate(id(n), 100).unwrap();
            store.truncate(id(n), 1 << 30).unwrap();
            store.fence(id(n), 7).unwrap();
        }
        // An object that was never written, of a file that was made longer, takes no room.
        store.truncate(id(200), 4096).unwrap();
        // More than the log of fences has allocated.
        let fences: Vec<_> = (1000..60_000).map(|n| (id(n), 3)).collect();
        fences.chunks(1000).for_each(|some| store.fence_many(some).unwrap());
        let all: Vec<_> = (16..64).map(id).collect();
        store.remove_many(&all).unwrap();
        drop(store);
        let store = open(&disk);
        assert_eq!(store.stat(id(3)).unwrap().size, 1 << 30);
        assert_eq!((store.epoch(id(3)), store.epoch(id(20))), (7, REMOVED));
        assert_eq!(store.epoch(id(59_999)), 3);
        assert!(!store.is_there(id(200)).unwrap());
    });
}

/// Inodes are kept as well: files stop being made before the last one is gone.
#[test]
fn objects_stop_above_the_last_inode() {
    let disk = Disk::new(Kind::Ext4FewInodes, DISK_MIB);
    let store = open(&disk);
    let made = (0..2000).take_while(|n| store.write(id(*n), 0, 0, b"x").is_ok()).count();
    assert!((500..1000).contains(&made), "{made}");
    let left = statvfs(&disk).f_favail;
    assert!((60..=64).contains(&left), "{left} inodes left");
    store.write(id(0), 0, 1, b"y").unwrap();
    store.remove(id(1)).unwrap();
}

/// XFS takes blocks ahead of a file that grows by small writes, which stay when the end moves on:
/// without giving them back a stripe of small writes takes twice what it is.
#[test]
fn a_stripe_of_small_writes_takes_what_it_is() {
    const UNITS: u64 = 64;
    const STRIPES: u64 = 4;
    const PIECE: u64 = 64 << 10;
    let disk = Disk::new(Kind::Xfs, 1024);
    let store = open(&disk);
    let occupied = |object: u64, gives_back: bool| {
        for unit in 0..UNITS {
            let begin = (unit * STRIPES + 1) * MIB as u64;
            for offset in (begin..begin + MIB as u64).step_by(PIECE as usize) {
                store.write(id(object), 0, offset, &[1; PIECE as usize]).unwrap();
                if gives_back && offset == begin {
                    let others = begin.saturating_sub((STRIPES - 1) * MIB as u64);
                    store.give_back_ahead(id(object), (others, begin));
                }
            }
        }
        store.stat(id(object)).unwrap().blocks_bytes >> 20
    };
    assert!(occupied(1, false) > UNITS * 3 / 2, "XFS does not do that any more");
    // But for what is behind the end, which goes when the file is closed.
    assert!((UNITS..=UNITS + 2).contains(&occupied(2, true)));
}
