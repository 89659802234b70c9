//! CLONE (RFC 7862 §15.13) where the disks of data servers share blocks: these tests mount disks of
//! their own, for which they need root. What is refused elsewhere, and why, is in `protocol`.

#[allow(unused_imports, reason = "a test binary uses what it needs of this")]
#[path = "../support/mod.rs"]
mod support;

mod disk;

use weft_mds::SmallFiles;
use weft_nfs::{AttrNo, IoMode, NfsStat, OpArgs, ops::*};

use self::{disk::Disk, support::*};

const MIB: u64 = 1 << 20;
const BLOCK: u64 = 4096;
/// The last byte that a file can have is the one before this.
const LARGEST: u64 = i64::MAX as u64;

async fn striped(disks: &[&Disk], data_servers: u32) -> Cluster {
    let disks = disks.iter().map(|disk| disk.at()).collect();
    let small_files = SmallFiles::OFF;
    Cluster::with(Options { data_servers, small_files, disks, ..Options::default() }).await
}

fn clone_args(source: &File, from: u64, target: &File, to: u64, count: u64) -> OpArgs {
    let (src_stateid, dst_stateid) = (source.1, target.1);
    OpArgs::Clone(CloneArgs { src_stateid, dst_stateid, src_offset: from, dst_offset: to, count })
}

/// How a CLONE of `count` bytes ends.
async fn clone(
    c: &mut Client,
    (source, from): (&File, u64),
    (target, to): (&File, u64),
    count: u64,
) -> NfsStat {
    let op = clone_args(source, from, target, to, count);
    let files = c.compound().putfh(&source.0).savefh().putfh(&target.0);
    files.op(op).send().await.status()
}

async fn file_size(c: &mut Client, file: &File) -> Option<u64> {
    c.compound().putfh(&file.0).getattr(&[AttrNo::SIZE]).send().await.ok().attrs().size
}

/// A clone is what a copy of a plain array is, wherever the two lie: on data servers of which all,
/// some or none are the same, from and to any block, over data and holes, within and beyond the
/// end; and both sides go their own way from there.
#[tokio::test]
async fn clones_are_exact() {
    let Some(disk) = Disk::new() else { return };
    let mut cluster = striped(&[&disk], 4).await;
    let mut c = Client::mount(&cluster, "a").await;
    // A hole of two units and a half, and one at the end.
    let mut source = pattern(6 * MIB);
    let hole = (MIB + MIB / 2) as usize..4 * MIB as usize;
    source[hole.clone()].fill(0);
    source.resize(7 * MIB as usize + 100, 0);
    let ranges = [
        (0, 0, 0),
        (0, 0, 16 * BLOCK),
        (0, 3 * MIB, 0),
        (16 * BLOCK, 0, 0),
        (BLOCK, 2 * MIB, 5 * MIB),
        (5 * MIB, MIB - BLOCK, 2 * MIB + 100),
        (2 * MIB, 0, MIB),
    ];
    let widths = [(4, 4), (4, 2), (1, 4), (2, 2), (1, 1)];
    for (n, ((from, to, count), (of_source, of_target))) in
        ranges.into_iter().flat_map(|r| widths.map(|w| (r, w))).enumerate()
    {
        cluster.stripe_over(of_source);
        let s = c.file(&format!("s{n}")).await;
        fill(&mut c, &s, 0, &source[..hole.start]).await;
        fill(&mut c, &s, hole.end as u64, &source[hole.end..6 * MIB as usize]).await;
        let grow = setattr(s.1, size(source.len() as u64));
        c.compound().putfh(&s.0).op(grow).send().await.ok();
        cluster.stripe_over(of_target);
        let t = c.file(&format!("t{n}")).await;
        // Two in three have a place, and data, already.
        let mut model = vec![9; [0, 5000, 2 << 20][n % 3]];
        fill(&mut c, &t, 0, &model).await;
        let got = clone(&mut c, (&s, from), (&t, to), count).await;
        assert_eq!(got, NfsStat::OK, "from {from} to {to}, {count} bytes, {of_source}");
        let len = if count == 0 { source.len() as u64 - from } else { count };
        let (from, to, len) = (from as usize, to as usize, len as usize);
        model.resize(model.len().max(to + len), 0);
        model[to..to + len].copy_from_slice(&source[from..from + len]);
        assert!(contents(&mut c, &t).await == model, "from {from} to {to}, {len} bytes");
        fill(&mut c, &t, to as u64, b"own").await;
        assert!(contents(&mut c, &s).await == source, "from {from} to {to}, {len} bytes");
        for file in [format!("s{n}"), format!("t{n}")] {
            c.compound().putrootfh().op(remove(&file)).send().await.ok();
        }
    }
}

/// What is on one data server on both sides takes no more space: all of a new file, since it is
/// placed so, also where units begin at other places nearly all; and what lies so by chance of
/// files that were there before.
#[tokio::test]
async fn what_can_be_shared_is() {
    let Some(disk) = Disk::new() else { return };
    let mut cluster = striped(&[&disk], 4).await;
    let mut c = Client::mount(&cluster, "a").await;
    let data = pattern(32 * MIB);
    let source = c.file("source").await;
    fill(&mut c, &source, 0, &data).await;
    let more = |before: u64| disk.used().saturating_sub(before) / 1024;
    for (from, to, most_kib) in [(0, 0, 512), (MIB, 0, 512), (0, 16 * BLOCK, 4096)] {
        let target = c.file(&format!("new {from} {to}")).await;
        let before = disk.used();
        assert_eq!(clone(&mut c, (&source, from), (&target, to), 0).await, NfsStat::OK);
        let took = more(before);
        assert!(took <= most_kib, "from {from} to {to}: {took} KiB of 32 MiB");
        assert!(contents(&mut c, &target).await[to as usize..] == data[from as usize..]);
    }
    // A file on one of the four data servers.
    cluster.stripe_over(1);
    let narrow = c.file("narrow").await;
    fill(&mut c, &narrow, 0, &vec![1; 32 << 20]).await;
    let before = (disk.used(), cluster.control_messages("CLONE"));
    assert_eq!(clone(&mut c, (&source, 0), (&narrow, 0), 0).await, NfsStat::OK);
    assert_eq!(cluster.control_messages("CLONE") - before.1, 8, "a unit in four");
    // They took as much before: what is shared is free now.
    let freed = before.0.saturating_sub(disk.used()) / 1024;
    assert!((7 * 1024..=9 * 1024).contains(&freed), "{freed} KiB");
    assert!(contents(&mut c, &narrow).await == data);
}

/// A file of the largest size, all of it, costs no more than what it has: `cp --reflink` of files
/// with a byte at their end, and with none at all; and no byte behind that.
#[tokio::test]
async fn the_largest_files_are_cloned() {
    let Some(disk) = Disk::new() else { return };
    let cluster = striped(&[&disk], 3).await;
    let mut c = Client::mount(&cluster, "a").await;
    let (last, hollow) = (c.file("last").await, c.file("hollow").await);
    fill(&mut c, &last, LARGEST - 1, b"z").await;
    let grow = setattr(hollow.1, size(LARGEST));
    c.compound().putfh(&hollow.0).op(grow).send().await.ok();
    for (n, (source, byte)) in [(&last, b'z'), (&hollow, 0)].into_iter().enumerate() {
        let target = c.file(&format!("t{n}")).await;
        assert_eq!(clone(&mut c, (source, 0), (&target, 0), 0).await, NfsStat::OK);
        assert_eq!(file_size(&mut c, &target).await, Some(LARGEST));
        let end = c.compound().putfh(&target.0).op(read(target.1, LARGEST - 1, 1));
        assert_eq!(end.send().await.ok().data(), (vec![byte].into(), true));
        // To another place, also where that does not line up.
        let from = LARGEST - LARGEST % (16 * BLOCK);
        let low = c.file(&format!("low{n}")).await;
        assert_eq!(clone(&mut c, (source, from), (&low, MIB), 65_535).await, NfsStat::OK);
        assert_eq!(contents(&mut c, &low).await.last(), Some(&byte));
        let beyond = clone(&mut c, (source, 0), (&low, BLOCK), 0).await;
        assert_eq!(beyond, NfsStat::FBIG);
    }
}

/// Within a file ranges that do not overlap are cloned, wherever they lie; those that do, if only
/// by a block, are refused and nothing changes.
#[tokio::test]
async fn within_one_file() {
    let Some(disk) = Disk::new() else { return };
    let cluster = striped(&[&disk], 3).await;
    let mut c = Client::mount(&cluster, "a").await;
    let file = c.file("file").await;
    let mut model = pattern(8 * MIB);
    fill(&mut c, &file, 0, &model).await;
    for (from, to, len) in
        [(0, 3 * MIB, 2 * MIB), (5 * MIB, 0, MIB), (BLOCK, 6 * MIB, MIB), (0, BLOCK, BLOCK)]
    {
        assert_eq!(clone(&mut c, (&file, from), (&file, to), len).await, NfsStat::OK);
        model.copy_within(from as usize..(from + len) as usize, to as usize);
        assert!(contents(&mut c, &file).await == model, "from {from} to {to}");
    }
    for (from, to, len) in
        [(0, 0, 0), (0, 0, BLOCK), (0, BLOCK, 2 * BLOCK), (2 * MIB, MIB, MIB + BLOCK)]
    {
        assert_eq!(clone(&mut c, (&file, from), (&file, to), len).await, NfsStat::INVAL);
    }
    assert!(contents(&mut c, &file).await == model);
}

/// Small files: from one to another within the volume, into a large one, and one that grows large
/// by it.
#[tokio::test]
async fn small_files_are_cloned() {
    let Some(disk) = Disk::new() else { return };
    let (disks, small_files) = (vec![disk.at()], SmallFiles::default());
    let options = Options { data_servers: 3, small_files, disks, ..Options::default() };
    let cluster = Cluster::with(options).await;
    let mut c = Client::mount(&cluster, "a").await;
    let (small, large) = (pattern(20_000), pattern(3 * MIB));
    let (s, l) = (c.file("s").await, c.file("l").await);
    fill(&mut c, &s, 0, &small).await;
    fill(&mut c, &l, 0, &large).await;
    let objects = cluster.objects();
    let new = c.file("new").await;
    assert_eq!(clone(&mut c, (&s, 0), (&new, 0), 0).await, NfsStat::OK);
    assert!(contents(&mut c, &new).await == small);
    assert_eq!(cluster.objects(), objects, "it is in the volume");
    // Into a large one: blocks only, unless both end.
    assert_eq!(clone(&mut c, (&s, 0), (&l, MIB), 0).await, NfsStat::INVAL);
    assert_eq!(clone(&mut c, (&s, 4096), (&l, MIB - 4096), 8192).await, NfsStat::OK);
    let mut model = large.clone();
    model[MIB as usize - 4096..][..8192].copy_from_slice(&small[4096..][..8192]);
    assert!(contents(&mut c, &l).await == model);
    // A small one with bytes of its own, over the end of which a large one goes.
    assert_eq!(clone(&mut c, (&l, 0), (&new, 8192), 2 * MIB).await, NfsStat::OK);
    let mut grown = small[..8192].to_vec();
    grown.extend_from_slice(&model[..2 << 20]);
    assert!(contents(&mut c, &new).await == grown);
    // Far behind a small one's end.
    assert_eq!(clone(&mut c, (&s, 0), (&s, 4 * MIB), 0).await, NfsStat::OK);
    let mut far = small.clone();
    far.resize(4 << 20, 0);
    far.extend_from_slice(&small);
    assert!(contents(&mut c, &s).await == far);
}

/// On a cluster of which some data servers cannot share, what is there is copied; where none can,
/// nothing is done, and nothing is placed.
#[tokio::test]
async fn a_disk_that_cannot_share_copies() {
    let Some(disk) = Disk::new() else { return };
    let other = tempfile::tempdir().unwrap();
    let disks = vec![disk.at(), other.path().into()];
    let small_files = SmallFiles::OFF;
    let options = Options { data_servers: 2, small_files, disks, ..Options::default() };
    let cluster = Cluster::with(options).await;
    let mut c = Client::mount(&cluster, "a").await;
    let data = pattern(5 * MIB + 77);
    let source = c.file("source").await;
    fill(&mut c, &source, 0, &data).await;
    for (n, (from, to)) in [(0, 0), (0, 16 * BLOCK), (MIB, 3 * MIB)].into_iter().enumerate() {
        let target = c.file(&format!("t{n}")).await;
        assert_eq!(clone(&mut c, (&source, from), (&target, to), 0).await, NfsStat::OK);
        let cloned = contents(&mut c, &target).await;
        assert!(cloned[to as usize..] == data[from as usize..], "from {from} to {to}");
    }
}

/// A clone is a write: the change attribute moves, and set-id bits go unless root clones; others'
/// write layouts are back before.
#[tokio::test]
async fn a_clone_is_a_write() {
    let Some(disk) = Disk::new() else { return };
    let cluster = striped(&[&disk], 2).await;
    let mut c = Client::mount(&cluster, "a").await;
    let mut other = Client::mount(&cluster, "b").await;
    let (source, target) = (c.file("source").await, c.file("target").await);
    fill(&mut c, &source, 0, &[7; 8192]).await;
    let set = setattr(target.1, mode(0o6755));
    c.compound().putfh(&target.0).op(set).send().await.ok();
    let wanted = [AttrNo::CHANGE, AttrNo::MODE];
    let before = c.compound().putfh(&target.0).getattr(&wanted).send().await.ok().attrs();
    let files = c.by_user(1000).putfh(&source.0).savefh().putfh(&target.0);
    files.op(clone_args(&source, 0, &target, 0, 0)).send().await.ok();
    let after = c.compound().putfh(&target.0).getattr(&wanted).send().await.ok().attrs();
    assert!(after.change > before.change);
    assert_eq!(after.mode, Some(0o755));
    let (fh, held) = other.file("target").await;
    let get = OpArgs::Layoutget(layoutget(held, IoMode::RW));
    other.compound().putfh(&fh).op(get).send().await.ok();
    let op = clone_args(&source, 0, &target, 0, 0);
    let ops = c.compound().putfh(&source.0).savefh().putfh(&target.0).op(op).into_ops();
    let credential = c.credential.clone();
    let under_way = c.wire.send_compound(&credential, &compound_args("", 2, &ops)).await;
    let recall = other.wire.callback().await;
    other.wire.answer(&recall, NfsStat::NOMATCHING_LAYOUT).await;
    c.wire.nfs_reply(under_way).await;
    assert!(contents(&mut c, &target).await == [7; 8192]);
}

/// Holes stay holes, also between what is on two data servers and is copied, and what the
/// destination had there is gone.
#[tokio::test]
async fn holes_are_not_copied() {
    let Some(disk) = Disk::new() else { return };
    let cluster = striped(&[&disk], 3).await;
    let mut c = Client::mount(&cluster, "a").await;
    let source = c.file("s").await;
    for at in [0, 32, 64, 96] {
        fill(&mut c, &source, at * MIB, &[7; 4096]).await;
    }
    // Of two shifts one at most is by what lines up.
    let target = c.file("t").await;
    fill(&mut c, &target, 0, &[1; 4096]).await;
    for shift in [1, 2] {
        let before = disk.used();
        let from = (&source, shift * MIB);
        assert_eq!(clone(&mut c, from, (&target, 0), 94 * MIB).await, NfsStat::OK);
        let taken = disk.used().saturating_sub(before);
        // What is copied goes a MiB at a time, and XFS takes some ahead.
        assert!(taken < 24 * MIB, "{taken} bytes for two blocks");
        let found = contents(&mut c, &target).await;
        let mut wanted = vec![0; 94 << 20];
        for at in [32, 64].map(|at| (at - shift as usize) << 20) {
            wanted[at..][..4096].fill(7);
        }
        assert!(found == wanted, "shifted by {shift} MiB");
    }
}

/// A clone that one of the data servers does not hear of leaves each byte old or new; it is
/// finished when it is asked again.
#[tokio::test]
async fn a_clone_that_breaks_off_leaves_bytes_old_or_new() {
    let Some(disk) = Disk::new() else { return };
    let mut cluster = striped(&[&disk], 3).await;
    let mut c = Client::mount(&cluster, "a").await;
    let (old, new) = (vec![1; 12 << 20], vec![2; 12 << 20]);
    for (round, (from, to)) in [(0, 0), (0, 16 * BLOCK), (MIB, 0)].into_iter().enumerate() {
        let (s, t) = (format!("s{round}"), format!("t{round}"));
        let (source, target) = (c.file(&s).await, c.file(&t).await);
        fill(&mut c, &source, 0, &new).await;
        fill(&mut c, &target, 0, &old).await;
        cluster.stop_data_server(round % 3).await;
        let got = clone(&mut c, (&source, from), (&target, to), 8 * MIB).await;
        assert_ne!(got, NfsStat::OK);
        cluster.restart_data_server(round % 3).await;
        let half = contents(&mut c, &target).await;
        assert_eq!(half.len(), old.len());
        let within = to as usize..(to + 8 * MIB) as usize;
        assert!(half[within.clone()].iter().all(|b| [1, 2].contains(b)));
        assert!(half[..within.start].iter().chain(&half[within.end..]).all(|b| *b == 1));
        assert_eq!(again(&mut c, (&source, from), (&target, to), 8 * MIB).await, NfsStat::OK);
        assert!(contents(&mut c, &target).await[within].iter().all(|b| *b == 2));
    }
}

/// Asks until the answer is another than DELAY.
async fn again(c: &mut Client, from: (&File, u64), to: (&File, u64), count: u64) -> NfsStat {
    let deadline = std::time::Instant::now() + PATIENCE;
    loop {
        match clone(c, from, to, count).await {
            NfsStat::DELAY if std::time::Instant::now() < deadline => {}
            other => return other,
        }
    }
}
