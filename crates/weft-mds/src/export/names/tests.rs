//! Strings to numbers and back, against a host that counts how often it is asked.

use std::{
    io,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
};

use super::*;

/// A host that knows alice (1000), staff (50), and that alice is in 40 groups.
#[derive(Debug, Default)]
struct Village {
    asked: AtomicUsize,
    down: AtomicBool,
}

impl Host for Village {
    fn ask(&self, question: &Question) -> io::Result<Answer> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        if self.down.load(Ordering::Relaxed) {
            return Err(io::ErrorKind::TimedOut.into());
        }
        Ok(match question {
            Question::UserId(name) if name == "alice" => Answer::Id(1000),
            Question::GroupId(name) if name == "staff" => Answer::Id(50),
            Question::UserName(1000) => Answer::Name("alice".into()),
            Question::GroupName(50) => Answer::Name("staff".into()),
            Question::GroupsOf(1000) => Answer::Groups((100..140).collect()),
            _ => Answer::Unknown,
        })
    }
}

fn naming() -> Naming {
    Naming {
        domain: Some("example.org".into()),
        users: vec![("backup".into(), 34)],
        groups: vec![("backup".into(), 35)],
        host: true,
        answer: true,
    }
}

fn names(naming: Naming) -> (Names, Arc<Village>) {
    let host = Arc::new(Village::default());
    (Names::new(naming, host.clone()), host)
}

async fn user(names: &Names, owner: &'static [u8]) -> Result<u32, NfsStat> {
    let attrs = Attrs { owner: Some(Opaque(Bytes::from_static(owner))), ..Attrs::default() };
    names.owners(&attrs).await.map(|o| o.uid.unwrap()).map_err(|f| f.status)
}

async fn group(names: &Names, owner: &'static str) -> Result<u32, NfsStat> {
    let attrs = Attrs { owner_group: Some(Opaque(owner.into())), ..Attrs::default() };
    names.owners(&attrs).await.map(|o| o.gid.unwrap()).map_err(|f| f.status)
}

/// Numbers are understood whatever is configured; names in the domain, from the table first, then
/// from the host, in whose two databases they differ; everything else is nobody's.
#[tokio::test]
async fn who_is_meant() {
    let (names, _) = names(naming());
    let rows: [(&[u8], Result<u32, NfsStat>); 15] = [
        (b"0", Ok(0)),
        (b"4294967295", Ok(u32::MAX)),
        (b"4294967296", Err(NfsStat::BADOWNER)),
        (b"+5", Err(NfsStat::BADOWNER)),
        (b"05", Err(NfsStat::BADOWNER)),
        (b"", Err(NfsStat::BADOWNER)),
        (b"backup@example.org", Ok(34)),
        (b"alice@example.org", Ok(1000)),
        (b"alice@Example.ORG", Ok(1000)),
        (b"alice", Err(NfsStat::BADOWNER)),
        (b"alice@example.com", Err(NfsStat::BADOWNER)),
        (b"staff@example.org", Err(NfsStat::BADOWNER)),
        (b"@example.org", Err(NfsStat::BADOWNER)),
        (b"a\0b@example.org", Err(NfsStat::BADOWNER)),
        (b"\xff@example.org", Err(NfsStat::INVAL)),
    ];
    for (owner, id) in rows {
        assert_eq!(user(&names, owner).await, id, "{}", String::from_utf8_lossy(owner));
    }
    assert_eq!(group(&names, "backup@example.org").await, Ok(35));
    assert_eq!(group(&names, "staff@example.org").await, Ok(50));
    assert_eq!(group(&names, "alice@example.org").await, Err(NfsStat::BADOWNER));
}

/// Without a domain there are only numbers; without the host only the table, and nobody asks.
#[tokio::test]
async fn what_is_not_configured_is_not_asked() {
    let (plain, host) = names(Naming::default());
    assert_eq!(user(&plain, b"alice@example.org").await, Err(NfsStat::BADOWNER));
    assert_eq!(user(&plain, b"7").await, Ok(7));
    assert_eq!(plain.user(1000), numeric_owner(1000));
    assert_eq!(host.asked.load(Ordering::Relaxed), 0);
    let (table, host) = names(Naming { host: false, ..naming() });
    assert_eq!(user(&table, b"alice@example.org").await, Err(NfsStat::BADOWNER));
    assert_eq!(user(&table, b"backup@example.org").await, Ok(34));
    assert_eq!(host.asked.load(Ordering::Relaxed), 0);
}

/// The host is asked once for each, whom it does not know included; while it cannot answer the
/// client is asked to come again, and nothing wrong is remembered.
#[tokio::test]
async fn answers_are_kept_and_failures_are_not() {
    let (names, host) = names(naming());
    host.down.store(true, Ordering::Relaxed);
    assert_eq!(user(&names, b"alice@example.org").await, Err(NfsStat::DELAY));
    assert_eq!(names.groups_of(1000).await, None);
    host.down.store(false, Ordering::Relaxed);
    host.asked.store(0, Ordering::Relaxed);
    for _ in 0..3 {
        assert_eq!(user(&names, b"alice@example.org").await, Ok(1000));
        assert_eq!(user(&names, b"bob@example.org").await, Err(NfsStat::BADOWNER));
        assert_eq!(names.groups_of(1000).await.unwrap().len(), 40);
        assert_eq!(names.groups_of(7).await, None);
    }
    assert_eq!(host.asked.load(Ordering::Relaxed), 4);
}

/// However many names are asked for, no more than the limit are remembered.
#[tokio::test]
async fn the_memory_is_bounded() {
    let (names, _) = names(naming());
    for id in 0..u32::try_from(KEPT_MAX).unwrap() + 10 {
        names.groups_of(id).await;
    }
    assert!(names.kept.lock().unwrap().len() <= KEPT_MAX);
}

/// Clients are told names only if that is wanted, and numbers of whom nobody knows or was asked
/// about.
#[tokio::test]
async fn what_clients_are_told() {
    let (names, _) = names(naming());
    let text = |o: Opaque| String::from_utf8(o.0.to_vec()).unwrap();
    assert_eq!(text(names.user(1000)), "1000");
    let volume = weft_store::volume::Volume::in_memory(&Default::default()).unwrap();
    let root = volume.inode(weft_store::types::InodeNo::ROOT).unconfirmed().unwrap();
    let alices = Inode { uid: 1000, gid: 50, ..root };
    names.learn([&alices].into_iter(), false).await;
    assert_eq!(text(names.user(1000)), "alice@example.org");
    assert_eq!(text(names.group(50)), "staff@example.org");
    assert_eq!(text(names.user(34)), "backup@example.org");
    assert_eq!(text(names.user(35)), "35");
    let silent = Names::new(Naming { answer: false, ..naming() }, names.host.clone());
    silent.learn([&alices].into_iter(), false).await;
    assert_eq!(text(silent.user(1000)), "1000");
    assert_eq!(text(silent.user(34)), "34");
}

/// Of a program of this machine only what this machine knows of its user counts: the group it
/// says if it is one of his, and none of those it says beside.
#[tokio::test]
async fn groups_that_this_machine_knows() {
    let (names, _) = names(naming());
    let known = names.groups_of(1000).await.unwrap().to_vec();
    for (uid, gid, as_gid, gids) in [
        (1000, known[3], known[3], &known[..]),
        (1000, 0, known[0], &known[..]),
        (7, 0, NOBODY, &[]),
    ] {
        let caller = Caller { uid, gid, gids: vec![0, 7], known: true };
        let seen = names.with_groups_only(caller).await;
        assert_eq!((seen.uid, seen.gid, &seen.gids[..]), (uid, as_gid, gids));
    }
}
