//! When the objects of files are made (ADR 7; P2.1, P2.2, P3.1): messages, objects on the data
//! servers, what happens without one, and what a restart leaves. RFC 8881 §18.16, §18.25, §18.26.

use weft_mds::{ObjectCreation, Precreate, SmallFiles};
use weft_nfs::{AttrNo, FileHandle, IoMode, NfsStat, OpArgs, Stateid, ops::*};

use crate::support::*;

const FEW: Precreate = Precreate { low: 4, batch: 8 };
const WAYS: [ObjectCreation; 3] =
    [ObjectCreation::Implicit, ObjectCreation::Eager, ObjectCreation::Precreate(FEW)];

fn options(data_servers: u32, creation: ObjectCreation) -> Options {
    let small_files = SmallFiles::OFF;
    Options { data_servers, creation, small_files, on_disk: true, ..Options::default() }
}

async fn unlink(c: &mut Client, name: &str) {
    c.compound().putrootfh().op(remove(name)).send().await.ok();
}

async fn shut(c: &mut Client, (fh, stateid): &(FileHandle, Stateid)) {
    c.compound().putfh(fh).op(close(*stateid)).send().await.ok();
}

async fn put(c: &mut Client, (fh, stateid): &(FileHandle, Stateid), offset: u64, data: &[u8]) {
    c.compound().putfh(fh).op(write(*stateid, offset, data)).send().await.ok();
}

/// Numbers that are reserved for files to come.
fn reserved(cluster: &Cluster) -> usize {
    cluster.volume().reserved(None, usize::MAX).value.unwrap().len()
}

/// Enough is reserved, all of it has its objects, and so have `files` files and nothing else.
async fn pool_is_full(cluster: &Cluster, data_servers: usize, files: usize) {
    let full = || {
        let ahead = reserved(cluster);
        let is_ready = ahead >= FEW.low && cluster.files_ahead() == Some(ahead);
        is_ready && cluster.objects() == data_servers * (ahead + files)
    };
    eventually("full pool", full).await;
}

/// Nothing is owed to data servers any more, and the volume is sound.
async fn is_settled(cluster: &Cluster) {
    let owed = || cluster.volume().intents(None, 1).value.unwrap().is_empty();
    eventually("end of what is owed", owed).await;
    assert_eq!(cluster.volume().fsck().unwrap().findings, Vec::<String>::new());
}

/// What a file costs: no message with implicit objects, one to each data server for the file and
/// one for its removal with eager ones, and none for the file when its objects are there ahead; a
/// refill makes those of many files with one message to each.
#[tokio::test]
async fn messages_are_counted() {
    for servers in [1usize, 4, 8] {
        let n = servers as u64;
        let count = u32::try_from(servers).unwrap();
        for way in WAYS {
            let cluster = Cluster::with(options(count, way)).await;
            let mut c = Client::mount(&cluster, "a").await;
            let ahead = match way {
                ObjectCreation::Precreate(_) => {
                    pool_is_full(&cluster, servers, 0).await;
                    FEW.batch
                }
                ObjectCreation::Implicit | ObjectCreation::Eager => 0,
            };
            let before = cluster.control_messages("CREATE");
            let names: Vec<_> = (0..4).map(|i| format!("f{i}")).collect();
            for name in &names {
                let file = c.file(name).await;
                shut(&mut c, &file).await;
            }
            let made = match way {
                ObjectCreation::Implicit => 0,
                ObjectCreation::Eager => 4 * servers,
                ObjectCreation::Precreate(_) => ahead * servers,
            };
            assert_eq!(cluster.objects(), made, "{way:?} on {servers}");
            let each = cluster.control_messages("CREATE") - before;
            assert_eq!(each, if way == ObjectCreation::Eager { 4 * n } else { 0 }, "{way:?}");
            for name in &names {
                unlink(&mut c, name).await;
            }
            let removed = cluster.control_messages("REMOVE");
            match way {
                ObjectCreation::Implicit => assert_eq!(removed, 0),
                ObjectCreation::Eager => assert_eq!((removed, cluster.objects()), (4 * n, 0)),
                ObjectCreation::Precreate(_) => {
                    // One more file than the mark leaves: a refill, and one message to each.
                    c.file("g").await;
                    pool_is_full(&cluster, servers, 1).await;
                    assert_eq!(cluster.control_messages("CREATE") - before, n);
                }
            }
            is_settled(&cluster).await;
        }
    }
}

/// With eager objects a rename over a file takes its objects along before the reply; a file that is
/// made again under the name has its own. Removal of an open file waits for its last CLOSE.
#[tokio::test]
async fn what_is_replaced_goes_at_once() {
    let cluster = Cluster::with(options(2, ObjectCreation::Eager)).await;
    let mut c = Client::mount(&cluster, "a").await;
    for name in ["a", "b"] {
        let file = c.file(name).await;
        put(&mut c, &file, 0, b"data").await;
        shut(&mut c, &file).await;
    }
    assert_eq!(cluster.objects(), 4);
    let over = c.compound().putrootfh().savefh().op(rename("a", "b"));
    over.send().await.ok();
    assert_eq!(cluster.objects(), 2);
    let open = c.file("b").await;
    unlink(&mut c, "b").await;
    assert_eq!(cluster.objects(), 2);
    shut(&mut c, &open).await;
    eventually("removal", || cluster.objects() == 0).await;
    is_settled(&cluster).await;
}

/// Objects that are there ahead of the first write are no news: with a write layout out, the times
/// of a file are those of its making.
#[tokio::test]
async fn empty_objects_tell_nothing() {
    for way in WAYS {
        let cluster = Cluster::with(options(2, way)).await;
        let mut c = Client::mount(&cluster, "a").await;
        if let ObjectCreation::Precreate(_) = way {
            pool_is_full(&cluster, 2, 0).await;
        }
        let (fh, stateid) = c.file("f").await;
        let wanted = [AttrNo::CHANGE, AttrNo::SIZE, AttrNo::TIME_MODIFY];
        let before = c.compound().putfh(&fh).getattr(&wanted).send().await.ok().attrs();
        let layout = OpArgs::Layoutget(layoutget(stateid, IoMode::RW));
        c.compound().putfh(&fh).op(layout).send().await.ok();
        let after = c.compound().putfh(&fh).getattr(&wanted).send().await.ok().attrs();
        assert_eq!(before, after, "{way:?}");
    }
}

/// A file that begins in the volume has no objects. When it leaves it gets all of them at once,
/// written or not; when it is removed before, there was never a message.
#[tokio::test]
async fn small_files_get_objects_when_they_leave() {
    let small_files = SmallFiles::default();
    for way in [ObjectCreation::Eager, ObjectCreation::Precreate(FEW)] {
        let cluster = Cluster::with(Options { small_files, ..options(4, way) }).await;
        let mut c = Client::mount(&cluster, "a").await;
        let (stays, leaves) = (c.file("stays").await, c.file("leaves").await);
        put(&mut c, &stays, 0, b"small").await;
        put(&mut c, &leaves, 0, b"small").await;
        assert_eq!((cluster.objects(), cluster.control_messages("CREATE")), (0, 0));
        assert_eq!(reserved(&cluster), 0);
        put(&mut c, &leaves, small_files.stuffing_limit_bytes, b"more").await;
        assert_eq!((cluster.objects(), cluster.control_messages("CREATE")), (4, 4));
        for (name, file) in [("stays", stays), ("leaves", leaves)] {
            shut(&mut c, &file).await;
            unlink(&mut c, name).await;
        }
        if way == ObjectCreation::Eager {
            assert_eq!(cluster.objects(), 0);
        }
        eventually("removal", || cluster.objects() == 0).await;
        is_settled(&cluster).await;
    }
}

/// While a data server is away an OPEN that creates makes the objects on the others; while all are
/// it says DELAY and makes nothing; one that finds its file, and one that nobody may make, are
/// answered as ever.
#[tokio::test]
async fn nothing_is_made_in_vain() {
    let mut cluster = Cluster::with(options(2, ObjectCreation::Eager)).await;
    let mut c = Client::mount(&cluster, "a").await;
    let there = c.file("there").await;
    shut(&mut c, &there).await;
    cluster.stop_data_server(1).await;
    c.file("narrow").await;
    assert_eq!(cluster.objects(), 3);
    cluster.stop_data_server(0).await;
    c.compound().putrootfh().open_create("f").expect(NfsStat::DELAY).await;
    c.compound().putrootfh().lookup("f").expect(NfsStat::NOENT).await;
    assert_eq!(cluster.objects(), 3);
    c.file("there").await;
    c.by_user(1000).putrootfh().open_create("f").expect(NfsStat::ACCESS).await;
    // What is removed is gone; the rest is owed.
    c.compound().putrootfh().op(remove("there")).send().await.ok();
    c.compound().putrootfh().lookup("there").expect(NfsStat::NOENT).await;
}

/// A data server that cannot make objects: the file is gone again when the error is told, so that
/// asking again is not met with EXIST, and so are the objects that were made.
#[tokio::test]
async fn a_file_without_its_objects_is_taken_back() {
    let cluster = Cluster::with(options(2, ObjectCreation::Eager)).await;
    let mut c = Client::mount(&cluster, "a").await;
    c.compound().putrootfh().op(mkdir("d")).send().await.ok();
    let guarded = || OpenArgs {
        openhow: Some(CreateHow::Guarded(Box::new(mode(0o644)))),
        ..open_create("o", "f")
    };
    // Where its objects would be is a file.
    let in_the_way = cluster.object_dir(1).join("00");
    std::fs::write(&in_the_way, b"").unwrap();
    for _ in 0..2 {
        c.compound().putrootfh().open(guarded()).expect(NfsStat::IO).await;
        c.compound().putrootfh().lookup("f").expect(NfsStat::NOENT).await;
    }
    std::fs::remove_file(&in_the_way).unwrap();
    is_settled(&cluster).await;
    assert_eq!(cluster.objects(), 0);
    c.compound().putrootfh().open(guarded()).send().await.ok();
    assert_eq!(cluster.objects(), 2);
}

/// Objects that were made ahead outlive restarts, are made anew where a crash came between, serve
/// one file each, and go when nobody wants them any more. Nothing is left over at any stage.
#[tokio::test]
async fn what_is_made_ahead_outlives_restarts() {
    let mut cluster = Cluster::with(options(2, ObjectCreation::Precreate(FEW))).await;
    pool_is_full(&cluster, 2, 0).await;
    let ahead = cluster.volume().reserved(None, usize::MAX).value.unwrap();
    // Reserved, and not made before the crash.
    let place = ahead[0].placement;
    let cut = cluster.volume().reserve(&[place; 3]);
    let cut = cluster.volume().confirm(cut).await.unwrap();
    cluster.restart().await;
    pool_is_full(&cluster, 2, 0).await;
    let all: Vec<_> = ahead.iter().chain(&cut).copied().collect();
    assert_eq!(cluster.volume().reserved(None, usize::MAX).value, Ok(all.clone()));
    // Taken: each number once, and its objects are empty and its own.
    let mut c = Client::mount(&cluster, "a").await;
    for n in 0..all.len() {
        let file = c.file(&format!("f{n}")).await;
        put(&mut c, &file, 0, format!("file {n}").as_bytes()).await;
        shut(&mut c, &file).await;
    }
    cluster.restart().await;
    pool_is_full(&cluster, 2, all.len()).await;
    let mut c = Client::mount(&cluster, "a").await;
    for n in 0..all.len() {
        let file = c.file(&format!("f{n}")).await;
        let got = c.compound().putfh(&file.0).op(read(file.1, 0, 100)).send().await.ok().data();
        assert_eq!(got.0, format!("file {n}"));
        shut(&mut c, &file).await;
    }
    // Not wanted any more: cut short, too.
    cluster.set_creation(ObjectCreation::Implicit);
    cluster.restart().await;
    assert_eq!(reserved(&cluster), 0);
    cluster.restart().await;
    eventually("end of the pool", || cluster.objects() == 2 * all.len()).await;
    is_settled(&cluster).await;
}

/// What is ready is not used while one of its data servers is away: more is made ahead on the
/// others. With the pool empty, since all are away, files are made as with eager objects.
#[tokio::test]
async fn an_empty_pool_is_like_eager_objects() {
    let mut cluster = Cluster::with(options(2, ObjectCreation::Precreate(FEW))).await;
    pool_is_full(&cluster, 2, 0).await;
    let mut c = Client::mount(&cluster, "a").await;
    cluster.stop_data_server(1).await;
    let before = objects_of(&cluster, 1);
    for n in 0..3 * (FEW.low + FEW.batch) {
        c.file(&format!("f{n}")).await;
    }
    assert_eq!(objects_of(&cluster, 1), before);
    cluster.stop_data_server(0).await;
    c.compound().putrootfh().open_create("more").expect(NfsStat::DELAY).await;
    c.compound().putrootfh().lookup("more").expect(NfsStat::NOENT).await;
    // More is reserved, but not without end.
    assert!(reserved(&cluster) <= 3 * (FEW.low + FEW.batch));
}

/// How many objects a data server has, by index.
fn objects_of(cluster: &Cluster, index: usize) -> usize {
    let dir = cluster.object_dir(index);
    cluster.object_files().iter().filter(|path| path.starts_with(&dir)).count()
}
