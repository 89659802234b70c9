//! What a volume remembers of handles for data servers: whether any are out, and which changes of
//! ownership and mode end them (ADR 5).

use std::sync::Arc;

use weft_store::engine::{Engine, MemoryEngine};
use weft_store::types::fence_epoch::ROW;
use weft_store::types::{Credential, HandlesOut, Inode, InodeNo, Rwx, Timestamp};
use weft_store::volume::{Authority, New, SetAttr, SetMode, Volume, VolumeConfig};

fn open(engine: &Arc<MemoryEngine>) -> Volume {
    let engine = Arc::clone(engine) as Arc<dyn Engine>;
    Volume::with_engine(engine, &VolumeConfig::default()).unwrap()
}

fn file(volume: &Volume) -> Inode {
    let (root, new) = (Credential::superuser(), New::file(0o644));
    let made = volume.create(InodeNo::ROOT, b"f", &new, &root, Timestamp::default());
    made.value.unwrap().inode
}

fn chmod(volume: &Volume, ino: InodeNo, mode: u16) -> (Inode, bool) {
    let set = SetAttr { mode: Some(SetMode::all(mode)), ..SetAttr::default() };
    let (root, now) = (Credential::superuser(), Timestamp::default());
    let set = volume.setattr(ino, &set, Authority::ByPermission, &root, now).value.unwrap();
    (set.inode, set.ends_handles)
}

const READ: HandlesOut = HandlesOut { read: true, ..HandlesOut::NONE };
const WRITE: HandlesOut = HandlesOut { write: true, ..READ };
const EARLIER: HandlesOut = HandlesOut { earlier: true, ..HandlesOut::NONE };
const OWED: HandlesOut = HandlesOut { owed: true, ..EARLIER };

/// Handles are noted once; new writers get a later epoch if they are renewed; a mode that takes
/// away makes them handles of before until all data servers know, also across a restart.
#[tokio::test]
async fn handles_are_remembered() {
    let engine = Arc::new(MemoryEngine::new());
    let volume = open(&engine);
    let ino = file(&volume).no;
    assert!(!chmod(&volume, ino, 0o600).1, "nobody was given any");
    let give = |write, renewed| volume.give_handles(ino, write, renewed).value.unwrap();
    let out = |inode: &Inode| (inode.fence_epoch, inode.handles, inode.unsettled);
    assert_eq!(out(&give(false, true)), (0, READ, false));
    assert_eq!(out(&give(true, true)), (0, WRITE, true));
    assert_eq!(out(&give(true, false)), (0, WRITE, true));
    assert_eq!(out(&give(false, true)), (0, WRITE, true));
    assert_eq!(out(&give(true, true)), (1, WRITE, true), "who reads goes on");
    assert_eq!(volume.renew_epoch(ino).value, Ok(2));
    let now = || out(&volume.inode(ino).value.unwrap());
    assert_eq!(now(), (2, READ, true), "who wrote before does not");
    assert_eq!(out(&give(true, true)), (2, WRITE, true));
    assert_eq!(volume.bump_epoch(ino).value, Ok(ROW));
    assert_eq!(now(), (ROW, EARLIER, true));
    assert_eq!(out(&give(true, true)), (ROW, HandlesOut { earlier: true, ..WRITE }, true));
    volume.handles_ended(ino, 2).value.unwrap();
    assert!(now().1.earlier, "it was not told of the fence");
    assert_eq!(volume.renew_epoch(ino).value, Ok(ROW + 1));
    volume.handles_ended(ino, ROW).value.unwrap();
    assert_eq!(now(), (ROW + 1, READ, true), "what was renewed meanwhile is after the fence");
    assert_eq!(out(&give(true, true)), (ROW + 1, WRITE, true));
    let (inode, ends) = chmod(&volume, ino, 0o640);
    assert_eq!((out(&inode), ends), ((ROW + 1, WRITE, true), false), "nothing is taken away");
    let (inode, ends) = chmod(&volume, ino, 0o600);
    assert_eq!((out(&inode), ends), ((2 * ROW, OWED, true), true));
    let lsn = volume.inode(ino).lsn;
    volume.durable(lsn).await.unwrap();
    drop(volume);
    let volume = open(&engine);
    let (inode, ends) = chmod(&volume, ino, 0o600);
    assert_eq!((out(&inode), ends), ((2 * ROW, OWED, true), true), "it may not have been told");
    volume.handles_ended(ino, 2 * ROW).value.unwrap();
    assert!(!chmod(&volume, ino, 0).1);
}

/// A change restricts if anybody reads or writes less after it: judged for every user of a few.
#[test]
fn a_change_restricts_if_anybody_loses() {
    let plain = file(&open(&Arc::new(MemoryEngine::new())));
    let modes = [0o000, 0o400, 0o040, 0o004, 0o600, 0o060, 0o006, 0o100, 0o640, 0o604, 0o666];
    let owners = [(0, 0), (5, 0), (5, 6), (1, 2), (6, 5)];
    let all: Vec<_> = owners
        .iter()
        .flat_map(|(uid, gid)| {
            let of = |mode: &u16| Inode { mode: *mode, uid: *uid, gid: *gid, ..plain.clone() };
            modes.iter().map(of).collect::<Vec<_>>()
        })
        .collect();
    let users: Vec<_> = (0..9)
        .flat_map(|uid| (0..9).map(move |gid| (uid, gid)))
        .flat_map(|(uid, gid)| [(uid, gid, vec![]), (uid, gid, vec![5, 2]), (uid, gid, vec![6, 0])])
        .map(|(uid, gid, gids)| Credential { uid, gid, gids })
        .collect();
    let may = |inode: &Inode, user: &Credential| {
        let allowed = inode.allowed(user);
        let reads = allowed.contains(Rwx::READ) || allowed.contains(Rwx::EXECUTE);
        (reads, allowed.contains(Rwx::WRITE))
    };
    for before in &all {
        for after in &all {
            let loses = users.iter().any(|user| {
                let (had, has) = (may(before, user), may(after, user));
                had.0 && !has.0 || had.1 && !has.1
            });
            assert_eq!(after.restricts(before), loses, "{before:?} {after:?}");
        }
    }
    let set_id = Inode { mode: 0o4777, ..plain.clone() };
    assert!(set_id.restricts(&Inode { mode: 0o777, ..plain }));
}
