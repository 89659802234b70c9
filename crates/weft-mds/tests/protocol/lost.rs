//! Objects that lost bytes after their file settled: errors, never zeros (ADR 10).

use std::{fs::OpenOptions, path::Path};

use weft_nfs::{AttrNo, FileHandle, IoMode, NfsStat, OpArgs, OpOk, Stateid, ops::*};

use weft_store::types::InodeNo;

use crate::support::*;

const MIB: u64 = 1 << 20;

/// Bytes that are not zeros.
fn pattern(len: u64) -> Vec<u8> {
    (0..len).map(|i| (i % 250) as u8 + 1).collect()
}

async fn closed(c: &mut Client, (fh, id): (FileHandle, Stateid)) {
    c.compound().putfh(&fh).op(close(id)).send().await.ok();
}

/// The file that a `Client::file` opened first, opened again.
async fn again(c: &mut Client, name: &str) -> (FileHandle, Stateid) {
    c.file(name).await
}

/// Cuts all objects of a data server that are longer, by index, to so many bytes.
fn damage(cluster: &Cluster, index: usize, len: u64) {
    fn walk(dir: &Path, len: u64) {
        for entry in std::fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                walk(&path, len);
            } else if path.metadata().unwrap().len() > len {
                OpenOptions::new().write(true).open(&path).unwrap().set_len(len).unwrap();
            }
        }
    }
    walk(&cluster.object_dir(index), len);
}

fn seek(stateid: Stateid, offset: u64) -> OpArgs {
    OpArgs::Seek(SeekArgs { stateid, offset, what: DataContent::DATA })
}

fn get_layout(id: Stateid, iomode: IoMode) -> OpArgs {
    OpArgs::Layoutget(layoutget(id, iomode))
}

async fn bytes(c: &mut Client, (fh, id): &(FileHandle, Stateid), at: u64, len: u32) -> Vec<u8> {
    c.compound().putfh(fh).op(read(*id, at, len)).send().await.ok().data().0.to_vec()
}

/// Of a file one of whose objects ends in the middle, every byte is right or an error, by every
/// operation that looks at bytes; none that changes some hides what is lost. Cut to nothing it is
/// as good as new.
#[tokio::test]
async fn lost_bytes_are_errors() {
    let cluster = Cluster::striped(2).await;
    let mut c = Client::mount(&cluster, "a").await;
    let data = pattern(4 * MIB);
    let file = c.file("f").await;
    fill(&mut c, &file, 0, &data).await;
    closed(&mut c, file).await;
    let file = again(&mut c, "f").await;
    assert_eq!(bytes(&mut c, &file, MIB, 9).await, data[MIB as usize..][..9]);
    // Units 1 and 3, or 0 and 2: which of them this data server has is told by what is missing.
    damage(&cluster, 1, MIB + MIB / 2);
    let (fh, id) = file.clone();
    let mut lost = Vec::new();
    for at in (0..4 * MIB).step_by(MIB as usize / 2) {
        let reply = c.compound().putfh(&fh).op(read(id, at, 1 << 19)).send().await;
        match reply.status() {
            NfsStat::OK => {
                let (told, _) = reply.data();
                assert!(told[..] == data[at as usize..][..1 << 19], "at {at}");
            }
            status => {
                assert_eq!(status, NfsStat::IO, "at {at}");
                lost.push(at);
            }
        }
    }
    assert!(lost.len() == 2 || lost.len() == 3, "{lost:?}");
    let target = c.file("target").await;
    let allocate = AllocateArgs { stateid: id, offset: 0, length: MIB };
    let deallocate = DeallocateArgs { stateid: id, offset: 0, length: MIB };
    for op in [
        seek(id, 0),
        write(id, 5 * MIB, b"behind the end"),
        write(id, 0, b"x"),
        OpArgs::Allocate(allocate),
        OpArgs::Deallocate(deallocate),
        setattr(id, size(5 * MIB)),
        setattr(id, size(MIB)),
    ] {
        let what = format!("{op:?}");
        let reply = c.compound().putfh(&fh).op(op).send().await;
        assert_eq!(reply.status(), NfsStat::IO, "{what}");
    }
    let unavailable = c.compound().putfh(&fh).op(get_layout(id, IoMode::RW)).send().await;
    assert_eq!(unavailable.status(), NfsStat::LAYOUTUNAVAILABLE);
    let copy = CopyArgs {
        src_stateid: id,
        dst_stateid: target.1,
        src_offset: 0,
        dst_offset: 0,
        count: 0,
        consecutive: true,
        synchronous: true,
        source_server: Netlocs::default(),
    };
    let files = c.compound().putfh(&fh).savefh().putfh(&target.0);
    assert_eq!(files.op(OpArgs::Copy(copy)).send().await.status(), NfsStat::IO);
    let sizes = c.compound().putfh(&fh).getattr(&[AttrNo::SIZE]).send().await.ok().attrs();
    assert_eq!(sizes.size, Some(4 * MIB));
    c.compound().putfh(&fh).op(setattr(id, size(0))).send().await.ok();
    fill(&mut c, &file, 0, b"new").await;
    assert_eq!(bytes(&mut c, &file, 0, 9).await, b"new");
    c.compound().putfh(&fh).op(get_layout(id, IoMode::RW)).send().await.ok();
}

/// Holes are zeros however they came about, and files with holes take writes.
#[tokio::test]
async fn holes_are_no_damage() {
    let cluster = Cluster::striped(3).await;
    let mut c = Client::mount(&cluster, "a").await;
    let file = c.file("f").await;
    c.compound().putfh(&file.0).op(setattr(file.1, size(9 * MIB))).send().await.ok();
    fill(&mut c, &file, 4 * MIB, &pattern(MIB + 5)).await;
    let punch = DeallocateArgs { stateid: file.1, offset: 4 * MIB, length: MIB };
    c.compound().putfh(&file.0).op(OpArgs::Deallocate(punch)).send().await.ok();
    closed(&mut c, file).await;
    for (n, cut) in [9 * MIB, 5 * MIB + 3, 4 * MIB + 1, 7 * MIB].into_iter().enumerate() {
        let file = again(&mut c, "f").await;
        c.compound().putfh(&file.0).op(setattr(file.1, size(cut))).send().await.ok();
        let zeros = bytes(&mut c, &file, 0, 1 << 19).await;
        assert!(zeros.iter().all(|b| *b == 0), "{n}");
        let sought = c.compound().putfh(&file.0).op(seek(file.1, 0)).send().await;
        assert!(matches!(sought.last().result, Ok(OpOk::Seek(_))), "{n}: {sought:?}");
        c.compound().putfh(&file.0).op(get_layout(file.1, IoMode::RW)).send().await.ok();
        fill(&mut c, &file, cut, b"more").await;
        assert_eq!(bytes(&mut c, &file, cut, 9).await, b"more");
        closed(&mut c, file).await;
    }
}

/// A small file has its least lengths from the moment it leaves the volume.
#[tokio::test]
async fn small_files_are_known_when_they_leave() {
    let options = Options { data_servers: 2, ..Options::default() };
    let cluster = Cluster::with(options).await;
    let mut c = Client::mount(&cluster, "a").await;
    let file = c.file("f").await;
    let data = pattern(20_000);
    fill(&mut c, &file, 0, &data).await;
    let grown = OpArgs::Allocate(AllocateArgs { stateid: file.1, offset: 0, length: 20_000 });
    c.compound().putfh(&file.0).op(grown).send().await.ok();
    assert_eq!(bytes(&mut c, &file, 0, 20_000).await, data);
    damage(&cluster, 0, 100);
    damage(&cluster, 1, 100);
    let reply = c.compound().putfh(&file.0).op(read(file.1, 0, 20_000)).send().await;
    assert_eq!(reply.status(), NfsStat::IO);
    assert_eq!(bytes(&mut c, &file, 0, 100).await, data[..100]);
}

/// What a copy made is known as well as what was written: both ways of copying.
#[tokio::test]
async fn copies_are_known() {
    let cluster = Cluster::striped(2).await;
    let mut c = Client::mount(&cluster, "a").await;
    let source = c.file("source").await;
    fill(&mut c, &source, 0, &pattern(4 * MIB)).await;
    for (name, from) in [("lined up", 0), ("shifted", 3)] {
        let target = c.file(name).await;
        let copy = CopyArgs {
            src_stateid: source.1,
            dst_stateid: target.1,
            src_offset: from,
            dst_offset: 0,
            count: 3 * MIB,
            consecutive: true,
            synchronous: true,
            source_server: Netlocs::default(),
        };
        let files = c.compound().putfh(&source.0).savefh().putfh(&target.0);
        files.op(OpArgs::Copy(copy)).send().await.ok();
        closed(&mut c, target).await;
    }
    damage(&cluster, 0, 10);
    for name in ["lined up", "shifted"] {
        let (fh, id) = again(&mut c, name).await;
        let mut told = Vec::new();
        for at in [MIB, 2 * MIB] {
            let reply = c.compound().putfh(&fh).op(read(id, at, 1 << 19)).send().await;
            told.push(reply.status());
        }
        told.sort_unstable();
        assert_eq!(told, [NfsStat::OK, NfsStat::IO], "{name}");
    }
}

/// What was known before a restart of the metadata server is known after it, and a file that was
/// not settled then is, once somebody has looked.
#[tokio::test]
async fn a_restart_forgets_no_length() {
    let options = Options { data_servers: 2, on_disk: true, lease_s: 1, ..Options::default() };
    let options = Options { small_files: weft_mds::SmallFiles::OFF, ..options };
    let mut cluster = Cluster::with(options).await;
    let mut c = Client::mount(&cluster, "a").await;
    for name in ["closed", "open"] {
        let file = c.file(name).await;
        fill(&mut c, &file, 0, &pattern(2 * MIB)).await;
        if name == "closed" {
            closed(&mut c, file).await;
        }
    }
    cluster.restart().await;
    let mut c = Client::mount(&cluster, "b").await;
    let deadline = std::time::Instant::now() + 2 * PATIENCE;
    let probe = || OpArgs::Open(open_create("opener", "closed"));
    while c.compound().putrootfh().op(probe()).send().await.status() == NfsStat::GRACE {
        assert!(std::time::Instant::now() < deadline, "grace does not end");
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    let mut lost = Vec::new();
    for name in ["closed", "open"] {
        let (fh, _) = again(&mut c, name).await;
        let root = weft_store::types::Credential::superuser();
        let is_unsettled = || {
            let found = cluster.volume().lookup(InodeNo::ROOT, name.as_bytes(), &root);
            found.unconfirmed().unwrap().unsettled
        };
        while is_unsettled() {
            assert!(std::time::Instant::now() < deadline, "{name} does not settle");
            c.compound().putfh(&fh).getattr(&[AttrNo::SIZE]).send().await.ok();
        }
        lost.push(fh);
    }
    damage(&cluster, 0, 10);
    damage(&cluster, 1, 10);
    for (name, fh) in ["closed", "open"].into_iter().zip(lost) {
        let reply = c.compound().putfh(&fh).op(read(Stateid::ANONYMOUS, 0, 1 << 19)).send().await;
        assert_eq!(reply.status(), NfsStat::IO, "{name}");
    }
}
