//! What is remembered of files, one thing at a time.

use weft_nfs::ClientId;
use weft_store::types::{DeviceId, HandlesOut, Inode, InodeNo, Kind, Placement, Timestamp};

use super::*;

const CLIENT: ClientId = ClientId(1);

/// A file as the volume might have it.
pub(super) fn file(no: u64, unsettled: bool) -> Inode {
    Inode {
        no: InodeNo(no),
        kind: Kind::File,
        mode: 0o644,
        acl: None,
        uid: 0,
        gid: 0,
        nlink: 1,
        size: 0,
        change: 1,
        atime: Timestamp::default(),
        mtime: Timestamp::default(),
        ctime: Timestamp::default(),
        btime: Timestamp::default(),
        rdev: (0, 0),
        parent: InodeNo(0),
        placement: None,
        fence_epoch: 0,
        handles: HandlesOut::NONE,
        create_verifier: None,
        target: Default::default(),
        bounds: Default::default(),
        entries: 0,
        next_cookie: 0,
        unsettled,
        occupied: None,
        has_xattrs: false,
        stuffed: false,
        layout: None,
    }
}

fn table() -> Table {
    Table::new(4)
}

/// Writers and truncations exclude each other, and a second truncation waits.
#[test]
fn writers_and_truncations_exclude_each_other() {
    let files = Records::default();
    let inode = file(7, false);
    let writing = files.begin_write(&inode).expect("nothing in the way");
    assert!(files.lock().try_begin_truncation(&inode), "it closes the file, then waits");
    assert!(files.lock().has_writers(inode.no));
    assert!(files.begin_write(&inode).is_none());
    assert!(!files.lock().try_begin_truncation(&inode));
    assert!(files.lock().refuses_grants(&inode));
    drop(writing);
    assert!(!files.lock().has_writers(inode.no));
    files.lock().end_truncation(inode.no);
    assert!(files.begin_write(&inode).is_some());
    assert!(!files.lock().refuses_grants(&inode));
}

/// A file that is found on its way to its data servers was on it before the start: what was
/// sent then must be outranked, but blocks no layout. One whose move begins now is met before.
#[test]
fn a_move_of_before_the_start_left_late_writes() {
    let moving = Inode { stuffed: true, placement: Some(placement()), ..file(7, false) };
    let mut t = table();
    t.begin_move(&moving);
    assert!(t.stale(moving.no).is_some_and(|stale| !stale.raised));
    assert!(!t.refuses_grants(&moving));
    let mut t = table();
    t.begin_move(&Inode { placement: None, ..moving.clone() });
    t.begin_move(&moving);
    assert_eq!(t.stale(moving.no), None);
}

fn placement() -> Placement {
    let device = DeviceId([1; 16]);
    Placement {
        device,
        stripe_unit_bytes: 1 << 20,
        stripe_count: 1,
        first_stripe_index: 0,
        reach: 1,
        spread: Default::default(),
    }
}

/// What happened since is seen in the marks; what happened to other files is not.
#[test]
fn marks_tell_what_happened_since() {
    let mut t = table();
    let (inode, other) = (file(7, false), file(8, false));
    let mut before = t.marks(&inode);
    t.grant(CLIENT, &other, None);
    assert_eq!(t.marks(&inode), before);
    let steps: [fn(&mut Table, &Inode); 4] = [
        |t, i| assert!(t.try_begin_truncation(i)),
        |t, i| t.end_truncation(i.no),
        |t, i| t.grant(CLIENT, i, None),
        |t, i| t.suspect_late_writes(i),
    ];
    for step in steps {
        step(&mut t, &inode);
        let after = t.marks(&inode);
        assert_ne!(after, before);
        before = after;
    }
}

/// Idle files are forgotten when there are many, others never; who asked before sees a change,
/// never a false rest.
#[test]
fn forgetting_looks_like_a_change() {
    let mut t = table();
    let asked: Vec<_> = (0..8).map(|n| (file(n, false), t.marks(&file(n, false)))).collect();
    t.grant(CLIENT, &asked[1].0, None);
    t.suspect_late_writes(&asked[2].0);
    assert!(t.try_begin_truncation(&asked[3].0));
    let kept = [1, 2, 3];
    t.purge(|ino| ino == InodeNo(1));
    assert_eq!(t.records.len(), kept.len());
    for (inode, before) in asked {
        assert_ne!(t.marks(&inode), before, "{inode:?}");
    }
    assert!(t.may_write_late(CLIENT, &file(1, true)));
    assert_eq!(t.all_stale(), [InodeNo(2)]);
    assert!(!t.try_begin_truncation(&file(3, false)));
}

/// A file given out for writing before the start is suspect when it is met, settled ones are not.
#[test]
fn unsettled_files_of_before_are_suspect() {
    let mut t = table();
    assert!(t.refuses_grants(&file(7, true)));
    assert!(!t.refuses_grants(&file(8, false)));
    let stale = t.stale(InodeNo(7)).expect("suspect");
    assert!(!stale.raised);
    t.raised(InodeNo(7));
    t.told(InodeNo(7), stale, 1);
    assert!(!t.refuses_grants(&file(7, true)), "met, and fenced since");
    t.grant(CLIENT, &file(8, false), None);
    assert!(!t.refuses_grants(&file(8, true)), "unsettled by a grant of ours");
}

/// A suspicion that arises while the data servers are told of an earlier one stands.
#[test]
fn a_later_suspicion_stands() {
    let mut t = table();
    let inode = file(7, false);
    t.suspect_late_writes(&inode);
    t.raised(inode.no);
    let first = t.stale(inode.no).expect("suspect");
    t.suspect_revoked(inode.no);
    t.told(inode.no, first, 1);
    let second = t.stale(inode.no).expect("the second one");
    assert!(!second.raised && t.refuses_grants(&inode));
    t.raised(inode.no);
    t.told(inode.no, second, 2);
    assert_eq!(t.stale(inode.no), None);
    assert!(t.all_stale().is_empty());
}
