//! Lists against what RFC 8881 says of them, written down a second time: slowly, one right at a
//! time.

use proptest::prelude::*;

use super::*;
use crate::types::{
    Credential, HandlesOut, Inode, InodeNo, Kind, LengthBounds, Rwx, StoreError, Timestamp,
};

/// Owner and group of the object, as in every test here.
const OWNER: u32 = 10;
const GROUP: u32 = 20;

fn object(kind: Kind, mode: u16) -> Inode {
    let then = Timestamp::default();
    Inode {
        no: InodeNo(2),
        kind,
        mode,
        acl: None,
        uid: OWNER,
        gid: GROUP,
        nlink: 1,
        size: 0,
        change: 1,
        atime: then,
        mtime: then,
        ctime: then,
        btime: then,
        rdev: (0, 0),
        parent: InodeNo(0),
        placement: None,
        fence_epoch: 0,
        handles: HandlesOut::NONE,
        create_verifier: None,
        target: Default::default(),
        entries: 0,
        next_cookie: 0,
        unsettled: false,
        occupied: None,
        has_xattrs: false,
        bounds: LengthBounds::NONE,
        stuffed: false,
        layout: None,
    }
}

fn with_list(kind: Kind, acl: &Acl) -> Inode {
    let mut inode = object(kind, 0);
    inode.set_acl(acl.clone());
    inode
}

/// Users who are the owner or not, in the group or not, named or not.
fn users() -> Vec<Credential> {
    let gids = [vec![], vec![GROUP], vec![21], vec![GROUP, 21]];
    let of = |uid| gids.clone().map(|gids| Credential { uid, gid: 99, gids });
    [OWNER, 11, 12].into_iter().flat_map(of).collect()
}

fn matches(entry: &AclEntry, user: &Credential) -> bool {
    match entry.who {
        Who::Owner => user.uid == OWNER,
        Who::Group => user.gid == GROUP || user.gids.contains(&GROUP),
        Who::Everyone => true,
        Who::User(uid) => user.uid == uid,
        Who::Members(gid) => user.gid == gid || user.gids.contains(&gid),
    }
}

/// §6.2.1: entries in order, only those about the requester; each bit once allowed is looked at no
/// more; a denial of one that is not yet allowed ends it; so does the end of the list.
fn may(entries: &[AclEntry], user: &Credential, wanted: u32) -> bool {
    let mut missing = wanted;
    for entry in entries {
        // §6.2.1.4.1: it says nothing about the object itself.
        if entry.flags & 0x8 != 0 || !matches(entry, user) {
            continue;
        }
        if entry.allows {
            missing &= !entry.mask;
        } else if missing & entry.mask != 0 {
            return false;
        }
        if missing == 0 {
            return true;
        }
    }
    missing == 0
}

/// §6.3.2: only what is said to each special identifier and to everyone.
fn rfc_mode(entries: &[AclEntry]) -> u16 {
    let of = |class: Who| {
        let about = |e: &&AclEntry| e.who == class || e.who == Who::Everyone;
        let said: Vec<_> = entries.iter().filter(about).map(|e| everyones(*e)).collect();
        let may = |right| may(&said, &Credential::default(), right);
        u16::from(may(0x1)) << 2 | u16::from(may(0x2) && may(0x4)) << 1 | u16::from(may(0x20))
    };
    of(Who::Owner) << 6 | of(Who::Group) << 3 | of(Who::Everyone)
}

fn everyones(entry: AclEntry) -> AclEntry {
    AclEntry { who: Who::Everyone, ..entry }
}

fn bits() -> impl Iterator<Item = u32> {
    (0..32).map(|bit| 1 << bit).filter(|bit| right::ALL & bit != 0)
}

fn entries() -> impl Strategy<Value = Vec<AclEntry>> {
    let who = prop::sample::select(vec![
        Who::Owner,
        Who::Group,
        Who::Everyone,
        Who::User(OWNER),
        Who::User(11),
        Who::Members(GROUP),
        Who::Members(21),
    ]);
    // What may be denied at all, and flags of which many are none.
    let mask = prop_oneof![any::<u32>(), prop::sample::select(vec![0x1, 0x2, 0x6, 0x20, 0x27])];
    let flags = prop_oneof![2 => Just(0), 1 => 0u8..16];
    let entry = (any::<bool>(), flags, mask, who).prop_map(|(allows, flags, mask, who)| {
        let deniable = if allows { right::ALL } else { right::ALL & !right::ALWAYS };
        AclEntry { allows, flags, mask: mask & deniable, who }
    });
    prop::collection::vec(entry, 0..10)
}

proptest! {
    /// What is allowed is what the RFC's procedure allows, of every right and of rights together.
    #[test]
    fn the_evaluator_is_the_rfcs(entries in entries(), wanted in any::<u32>()) {
        let acl = Acl::new(entries.clone()).unwrap();
        let inode = with_list(Kind::Directory, &acl);
        prop_assert_eq!(acl.mode(), rfc_mode(&entries));
        for user in users() {
            let said = acl.judge(|who| matches(&AclEntry::of(true, who, 0), &user));
            for bit in bits() {
                prop_assert_eq!(said.allowed & bit != 0, may(&entries, &user, bit));
            }
            let wanted = wanted & right::ALL;
            prop_assert_eq!(said.allowed & wanted == wanted, may(&entries, &user, wanted));
            prop_assert_eq!(said.allowed & said.denied, 0);
            // And so is what operations ask.
            let (rights, entries) = (inode.rights(&user), inode.acl_entries());
            let rwx = rights.rwx();
            prop_assert_eq!(rwx.contains(Rwx::READ), may(&entries, &user, 0x1));
            prop_assert_eq!(rwx.contains(Rwx::WRITE), may(&entries, &user, 0x6));
            prop_assert_eq!(rwx.contains(Rwx::EXECUTE), may(&entries, &user, 0x20));
            prop_assert_eq!(rights.may_add(false), may(&entries, &user, 0x22));
            prop_assert_eq!(rights.may_add(true), may(&entries, &user, 0x24));
            let owner = user.uid == OWNER;
            prop_assert_eq!(rights.may_set_acl(), owner || may(&entries, &user, 0x4_0000));
            prop_assert_eq!(rights.may_take(), may(&entries, &user, 0x8_0000));
        }
    }

    /// A mode that is set is what the list says then, the same mode again changes nothing; whom the
    /// list names gets what the group gets at most, nobody but by the mode more than before; what
    /// is inherited stays, and the list in its bounds.
    #[test]
    fn a_list_follows_its_mode(entries in entries(), mode in 0u16..0o1000, dir in any::<bool>()) {
        let before = Acl::new(entries).unwrap();
        let after = before.with_mode(mode, dir);
        prop_assert_eq!(rfc_mode(after.entries()), mode);
        prop_assert_eq!(&after.with_mode(mode, dir), &after);
        let mut own = after.entries().iter().filter(|e| e.is_effective());
        prop_assert!(dir || own.all(|e| e.of_file() == *e), "{:?}", after);
        prop_assert!(after.entries().len() <= 2 * before.entries().len() + 6);
        for made in [false, true] {
            prop_assert_eq!(after.inherited(made), before.inherited(made));
        }
        let named = |e: &&AclEntry| e.is_named() && e.allows && e.flags & 8 == 0;
        for entry in after.entries().iter().filter(named) {
            prop_assert_eq!(entry.mask & 0x27 & !mask_of(mode >> 3, dir), 0);
        }
        // An owner who may write by the mode may remove.
        if dir && mode & 0o300 == 0o300 {
            let owner = Credential { uid: OWNER, gid: 99, gids: vec![GROUP] };
            let removes = with_list(Kind::Directory, &after).rights(&owner).may_remove();
            prop_assert!(removes, "{:?}", after);
        }
        for user in users() {
            let classes = match () {
                () if user.uid == OWNER => mode >> 6,
                () => mode >> 3 | mode,
            };
            // Whoever was denied to read reads only by the mode, and not because he may execute.
            let by_mode = classes & 4 != 0 || user.uid == OWNER;
            let said = before.judge(|who| matches(&AclEntry::of(true, who, 0), &user));
            let denied = !by_mode && said.denied & 1 != 0;
            let reads = with_list(Kind::Directory, &after).rights(&user).may_read_bytes();
            prop_assert!(!(denied && reads), "{:?} reads by {:?}", user, after);
            for bit in bits() {
                let (had, has) = (
                    may(before.entries(), &user, bit),
                    may(after.entries(), &user, bit),
                );
                match bit {
                    0x40 if dir && mask_of(classes, dir) & bit != 0 => {}
                    0x1 | 0x2 | 0x4 | 0x20 => {
                        prop_assert!(!has || mask_of(classes, dir) & bit != 0, "{:x}", bit);
                    }
                    // The owner and everybody have these always.
                    0x80 | 0x2_0000 | 0x10_0000 => {}
                    0x100 | 0x4_0000 if user.uid == OWNER => {}
                    _ if user.uid == OWNER => {}
                    _ => prop_assert!(!has || had, "{:x} {:?}", bit, user),
                }
            }
        }
    }

    /// What is made gets of its mode what the umask leaves, and what the list gives its class; and
    /// nothing that the list denies.
    #[test]
    fn what_is_made_keeps_to_its_list(
        entries in entries(), mode in 0u16..0o1000, umask in 0u16..0o1000, dir in any::<bool>(),
    ) {
        let list = Acl::new(entries).unwrap();
        let made = list.of_new(mode, umask, dir);
        let (says, gets) = (rfc_mode(list.entries()), rfc_mode(made.entries()));
        prop_assert_eq!(gets & !(mode & !umask | mode & says), 0);
        prop_assert_eq!(mode & says & !gets, 0);
        let open: Vec<_> = list.entries().iter().filter(|e| e.allows).copied().collect();
        if open.len() == list.entries().len() {
            prop_assert_eq!(gets, mode & !umask | mode & says);
        }
        // Names are not kept from by the umask, and inheritance goes on.
        prop_assert_eq!(made.inherited(true), list.inherited(true));
        let plainly = list.with_mode(mode, dir);
        let named = |acl: &Acl| -> Vec<_> {
            acl.entries().iter().filter(|e| e.is_named()).copied().collect()
        };
        prop_assert_eq!(named(&made), named(&plainly));
        // The owner gets what his class gets, whatever else he is.
        for groups in [vec![], vec![GROUP, 21]] {
            let owner = Credential { uid: OWNER, gid: 99, gids: groups };
            for (bit, right) in [(4, 0x1), (2, 0x6), (1, 0x20)] {
                let is_given = gets >> 6 & bit != 0;
                prop_assert_eq!(may(made.entries(), &owner, right), is_given, "{:?}", made);
            }
        }
    }

    /// What was denied by name stays denied.
    #[test]
    fn a_mode_lets_in_nobody_who_was_denied_by_name(entries in entries(), mode in 0u16..0o1000) {
        let denied = AclEntry { allows: false, flags: 0, mask: 0x27, who: Who::User(11) };
        let mut all = vec![denied];
        all.extend(entries);
        let after = Acl::new(all).unwrap().with_mode(mode, false);
        for gids in [vec![], vec![GROUP, 21]] {
            let user = Credential { uid: 11, gid: 99, gids };
            for bit in [0x1, 0x2, 0x4, 0x20] {
                prop_assert!(!may(after.entries(), &user, bit));
            }
        }
    }
}

/// Every mode has a list from which the RFC computes the mode again, that gives each of owner,
/// owner in the group, member of the group and stranger what the mode gives, and that is not kept
/// when it is set.
#[test]
fn every_mode_has_its_list() {
    for (mode, kind) in (0..0o1000).flat_map(|mode| [(mode, Kind::File), (mode, Kind::Directory)]) {
        let mut inode = object(kind, mode | 0o1000);
        let entries = inode.acl_entries();
        assert_eq!(rfc_mode(&entries), mode, "{mode:o}");
        for user in users() {
            let by_mode = inode.rights(&user);
            assert_eq!(with_kept(&inode, &entries).rights(&user).rwx(), by_mode.rwx());
            for bit in [0x1, 0x2, 0x4, 0x20] {
                let rwx = [(4, 0x1), (2, 0x2), (2, 0x4), (1, 0x20)];
                let wanted = rwx.iter().find(|(_, b)| *b == bit).unwrap().0;
                assert_eq!(may(&entries, &user, bit), by_mode.rwx().contains(Rwx(wanted)));
            }
            assert_eq!(may(&entries, &user, 0x40), kind == Kind::Directory && by_mode.may_remove());
        }
        inode.set_acl(Acl::new(entries.clone()).unwrap());
        assert_eq!((&inode.acl, inode.mode), (&None, mode | 0o1000));
        assert_eq!(Acl::new(entries.clone()).unwrap().with_mode(mode, kind == Kind::Directory), {
            Acl::new(entries).unwrap()
        });
    }
}

fn with_kept(inode: &Inode, entries: &[AclEntry]) -> Inode {
    Inode { acl: Some(Acl::new(entries.to_vec()).unwrap()), ..inode.clone() }
}

/// §6.4.3.1: which flags of an entry of the directory lead to which of one of what is made there.
#[test]
fn entries_are_inherited() {
    let (f, d, n, i) = (0x1, 0x2, 0x4, 0x8);
    let rows = [
        (0, None, None),
        (n, None, None),
        (i, None, None),
        (f, Some(0), Some(f | i)),
        (f | i, Some(0), Some(f | i)),
        (f | n, Some(0), None),
        (d, None, Some(d)),
        (d | i, None, Some(d)),
        (d | n, None, Some(0)),
        (d | n | i, None, Some(0)),
        (f | d, Some(0), Some(f | d)),
        (f | d | i, Some(0), Some(f | d)),
        (f | d | n, Some(0), Some(0)),
    ];
    for (flags, file, directory) in rows {
        let entry = AclEntry { flags, ..AclEntry::of(true, Who::User(11), 1) };
        let acl = Acl::new(vec![entry]).unwrap();
        let flags = |made| acl.inherited(made).map(|acl| acl.entries()[0].flags);
        assert_eq!((flags(false), flags(true)), (file, directory), "{entry:?}");
    }
}

/// §6.2.1.3.2: who may remove what, by what directory and victim say of it; and the sticky bit.
#[test]
fn removals() {
    let dir = |mask, denied: u32, mode| {
        let said =
            [AclEntry::of(false, Who::Everyone, denied), AclEntry::of(true, Who::User(11), mask)];
        let mut dir = with_list(Kind::Directory, &Acl::new(said.to_vec()).unwrap());
        dir.mode |= mode;
        dir
    };
    let file = |allows, mask| {
        let acl = Acl::new(vec![AclEntry::of(allows, Who::User(11), mask)]).unwrap();
        with_list(Kind::File, &acl)
    };
    let (search, add, child, delete) = (0x20, 0x2, 0x40, 0x1_0000);
    let (plain, denies, allows) = (object(Kind::File, 0), file(false, delete), file(true, delete));
    let access = Err(StoreError::Access);
    let rows = [
        (dir(search, 0, 0), &plain, access.clone()),
        (dir(search | add, 0, 0), &plain, Ok(())),
        (dir(search | add, child, 0), &plain, access.clone()),
        (dir(search | add, 0, 0), &denies, access.clone()),
        (dir(search | child, 0, 0), &plain, Ok(())),
        (dir(search | child, 0, 0), &denies, Ok(())),
        (dir(search, 0, 0), &allows, Ok(())),
        (dir(search, child, 0), &allows, Ok(())),
        (dir(add | child, 0, 0), &allows, access),
        (dir(search | add, 0, 0o1000), &plain, Err(StoreError::Permission)),
        (dir(search | child, 0, 0o1000), &plain, Err(StoreError::Permission)),
        (dir(search, 0, 0o1000), &allows, Ok(())),
    ];
    let user = Credential { uid: 11, gid: 99, gids: vec![] };
    for (dir, victim, wanted) in rows {
        assert_eq!(dir.rights(&user).remove(victim.rights(&user)), wanted, "{dir:?} {victim:?}");
    }
}

/// What a denial takes even from the owner, and from whom the mode lets write.
#[test]
fn finer_rights() {
    let all = AclEntry::of(true, Who::Everyone, 0x27);
    let denied = |mask| {
        let entries = vec![AclEntry::of(false, Who::Everyone, mask), all];
        with_list(Kind::File, &Acl::new(entries).unwrap())
    };
    let (owner, other) = (&users()[0], &users()[4]);
    for (user, plainly) in [(owner, true), (other, false)] {
        let free = denied(0).rights(user);
        assert_eq!((free.may_set_times(), free.may_set_group()), (plainly, plainly));
        assert!(free.may_read_xattrs() && free.change_xattrs().is_ok());
        assert!(!denied(0x100).rights(user).may_set_times());
        assert!(!denied(0x8_0000).rights(user).may_set_group());
        assert!(!denied(0x8).rights(user).may_read_xattrs());
        assert_eq!(denied(0x10).rights(user).change_xattrs(), Err(StoreError::Access));
        assert_eq!(denied(0x4_0000).rights(user).may_set_acl(), plainly);
    }
    // The superuser executes what somebody may execute, though no class of the mode may.
    let root = Credential::superuser();
    let named = Acl::new(vec![AclEntry::of(true, Who::User(11), 0x20)]).unwrap();
    assert_eq!(with_list(Kind::File, &named).mode, 0);
    assert!(with_list(Kind::File, &named).allowed(&root).contains(Rwx::EXECUTE));
}

/// A class that may not write has not what goes with that from everybody, who may.
#[test]
fn nobody_lets_himself_in_by_a_wider_class() {
    let acl = Acl::new(vec![AclEntry::of(true, Who::Everyone, right::ALL)]).unwrap();
    let acl = acl.with_mode(0o606, false);
    let [member, stranger] = [GROUP, 99].map(|gid| Credential { uid: 12, gid, gids: vec![] });
    let rights = |user| with_list(Kind::File, &acl).rights(user);
    assert!(!rights(&member).may_set_acl() && !rights(&member).may_take());
    assert!(rights(&stranger).may_set_acl() && rights(&stranger).may_take());
}

/// Half of the right to write, which a directory hands on to a file, is none there before the mode
/// counts: what everybody is denied behind it stays denied.
#[test]
fn half_a_right_shields_from_no_denial() {
    let entry = |allows, who, mask| AclEntry { flags: 0x1, ..AclEntry::of(allows, who, mask) };
    let half = entry(true, Who::Group, APPEND_DATA);
    let denial = entry(false, Who::Everyone, APPEND_DATA | EXECUTE);
    let of_directory = Acl::new(vec![half, denial]).unwrap();
    let made = of_directory.inherited(false).unwrap().of_new(0o622, 0, false);
    assert_eq!(made.mode(), 0o400, "{made:?}");
}

/// Both sides of the limit.
#[test]
fn lists_are_bounded() {
    let named = AclEntry::of(true, Who::User(11), 1);
    let inherits = AclEntry { flags: 0x3, ..named };
    let everyone = AclEntry::of(true, Who::Everyone, 1);
    let below = AclEntry { flags: 0xb, ..named };
    let once = AclEntry { flags: 0xe, ..named };
    let rows =
        [(named, 1000), (inherits, 500), (below, 500), (once, 1000), (everyone, ACL_ENTRIES_MAX)];
    for (entry, most) in rows {
        assert!(Acl::new(vec![entry; most + 1]) == Err(BadAcl::TooLong), "{entry:?}");
        let set = Acl::new(vec![entry; most]).unwrap();
        // Whatever modes make of it, and of what is made in it, can be set again.
        let mut lists = vec![set.with_mode(0o750, true).with_mode(0o457, true)];
        let mut at = set;
        while let Some(made) = at.inherited(true).filter(|_| lists.len() < 4) {
            at = made.of_new(0o705, 0o22, true).with_mode(0o457, true);
            lists.extend([made, at.clone()]);
        }
        for list in lists {
            assert!(Acl::new(list.entries().to_vec()) == Ok(list), "{entry:?}");
        }
    }
}
