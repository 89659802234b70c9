//! Small files in the volume, and how they leave it (design D7, D17; ADR 6): RFC 8881 §5.12.4,
//! §18.22, §18.32, §18.43; RFC 7862 §15.

use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use proptest::prelude::*;
use weft_mds::SmallFiles;
use weft_nfs::{
    AttrNo, Bitmap, FileHandle, IoMode, LayoutType, NfsStat, OpArgs, OpOk, StableHow, Stateid,
    attr::{MdsThreshold, ThresholdItem},
    ops::*,
};
use weft_server::report::AdminError;
use weft_store::types::{DeviceId, InodeNo, Placement, Spread};

use crate::support::*;

const KIB: u64 = 1 << 10;
/// The default limit.
const LIMIT: u64 = 64 * KIB;

type File = (FileHandle, Stateid);

async fn cluster() -> Cluster {
    Cluster::with(Options { data_servers: 2, on_disk: true, ..Options::default() }).await
}

/// Bytes that tell their place.
fn pattern(len: u64) -> Vec<u8> {
    (0..len).map(|i| (i / 7 + i % 251) as u8).collect()
}

async fn put(c: &mut Client, file: &File, offset: u64, data: &[u8]) -> WriteOk {
    let reply = c.compound().putfh(&file.0).op(write(file.1, offset, data)).send().await.ok();
    let Ok(OpOk::Write(ok)) = &reply.last().result else { panic!("{reply:?}") };
    ok.clone()
}

async fn get(c: &mut Client, file: &File, offset: u64, len: u32) -> (Bytes, bool) {
    c.compound().putfh(&file.0).op(read(file.1, offset, len)).send().await.ok().data()
}

async fn resize(c: &mut Client, file: &File, to: u64) {
    c.compound().putfh(&file.0).op(setattr(file.1, size(to))).send().await.ok();
}

/// The whole of one file into another.
async fn copy(c: &mut Client, from: &File, into: &File, at: u64) {
    let copy = CopyArgs {
        src_stateid: from.1,
        dst_stateid: into.1,
        src_offset: 0,
        dst_offset: at,
        count: 0,
        consecutive: true,
        synchronous: true,
        source_server: Netlocs::default(),
    };
    let files = c.compound().putfh(&from.0).savefh().putfh(&into.0);
    files.op(OpArgs::Copy(copy)).send().await.ok();
}

/// A layout to write with, which is not used.
async fn layout_and_back(c: &mut Client, file: &File) {
    let get = OpArgs::Layoutget(layoutget(file.1, IoMode::RW));
    let held = c.compound().putfh(&file.0).op(get).send().await.ok().stateid();
    let back = OpArgs::Layoutreturn(layoutreturn(held, IoMode::RW));
    c.compound().putfh(&file.0).op(back).send().await.ok();
}

fn number(fh: &FileHandle) -> InodeNo {
    let raw: [u8; 8] = fh.0[fh.0.len() - 8..].try_into().unwrap();
    InodeNo(u64::from_be_bytes(raw))
}

/// As a crash leaves a move that has just begun: the file has its place, and still its bytes.
async fn begin_move(cluster: &Cluster, file: &File) {
    let volume = cluster.volume();
    let device = DeviceId(volume.devices().value.unwrap()[0].id.0);
    let place = Placement {
        device,
        stripe_unit_bytes: 1 << 20,
        stripe_count: 2,
        first_stripe_index: 1,
        reach: 1,
        spread: Spread::InTurn,
    };
    let placed = volume.confirm(volume.place(number(&file.0), place)).await.unwrap();
    assert!(placed.is_moving());
}

/// A file written, read, cut, grown and removed below the limit concerns no data server; what a
/// WRITE answers is durable, and there over a restart.
#[tokio::test]
async fn small_files_stay_with_the_metadata_server() {
    let mut cluster = cluster().await;
    let mut c = Client::mount(&cluster, "a").await;
    let file = c.file("f").await;
    let mut wanted = pattern(20_000);
    let done = put(&mut c, &file, 0, &wanted).await;
    assert_eq!((done.count, done.committed), (20_000, StableHow::FILE_SYNC));
    put(&mut c, &file, 30_000, b"behind a hole").await;
    wanted.resize(30_000, 0);
    wanted.extend_from_slice(b"behind a hole");
    assert_eq!(get(&mut c, &file, 0, 1 << 20).await, (Bytes::from(wanted.clone()), true));
    assert_eq!(
        get(&mut c, &file, 100, 8192).await,
        (Bytes::from(wanted[100..8292].to_vec()), false)
    );
    assert_eq!(get(&mut c, &file, 30_013, 1).await, (Bytes::new(), true));
    resize(&mut c, &file, 9_000).await;
    resize(&mut c, &file, 12_000).await;
    wanted.truncate(9_000);
    wanted.resize(12_000, 0);
    cluster.restart().await;
    let mut c = Client::mount(&cluster, "a").await;
    let open = OpenArgs { openhow: None, ..open_name("b", "f") };
    let reply = c.compound().putrootfh().op(OpArgs::Open(open)).getfh().send().await.ok();
    let file = (reply.fh(), reply.stateid());
    assert_eq!(get(&mut c, &file, 0, 1 << 20).await, (Bytes::from(wanted), true));
    c.compound().putrootfh().op(remove("f")).send().await.ok();
    c.compound().putfh(&file.0).op(close(file.1)).send().await.ok();
    assert_eq!(cluster.objects(), 0);
    assert_eq!(cluster.volume().fsck().unwrap().blocks, 0);
}

/// A write that ends at the limit stays, one that ends a byte beyond it takes the whole file to
/// the data servers; what was there is still there, and the change attribute advances.
#[tokio::test]
async fn a_file_leaves_when_it_grows() {
    let cluster = cluster().await;
    let mut c = Client::mount(&cluster, "a").await;
    let file = c.file("f").await;
    let mut wanted = pattern(LIMIT);
    put(&mut c, &file, 0, &wanted).await;
    assert_eq!(cluster.objects(), 0);
    let change = |reply: Reply| reply.attrs().change.unwrap();
    let before = change(c.compound().putfh(&file.0).getattr(&[AttrNo::CHANGE]).send().await.ok());
    put(&mut c, &file, LIMIT - 1, b"!!").await;
    wanted.truncate(wanted.len() - 1);
    wanted.extend_from_slice(b"!!");
    assert_eq!(get(&mut c, &file, 0, 1 << 20).await, (Bytes::from(wanted), true));
    let after = change(c.compound().putfh(&file.0).getattr(&[AttrNo::CHANGE]).send().await.ok());
    assert!(after > before);
    assert_eq!(cluster.objects(), 1);
    // It does not come back.
    resize(&mut c, &file, 10).await;
    put(&mut c, &file, 5, b"small again").await;
    assert_eq!(cluster.objects(), 1);
    assert_eq!(cluster.volume().fsck().unwrap().blocks, 0);
}

/// Layouts of a small file: none within OPEN, none to read with; one to write with takes the
/// file to the data servers, where its bytes are found.
#[tokio::test]
async fn a_layout_to_write_with_moves_the_file() {
    let cluster = cluster().await;
    let mut c = Client::mount(&cluster, "a").await;
    let file = c.file("f").await;
    put(&mut c, &file, 0, b"from the volume").await;
    let within_open = |iomode| {
        let open = OpArgs::Open(open_create("another", "f"));
        (open, OpArgs::Layoutget(layoutget(Stateid::CURRENT, iomode)))
    };
    for iomode in [IoMode::READ, IoMode::RW] {
        let (open, get) = within_open(iomode);
        let refused = c.compound().putrootfh().op(open).op(get);
        refused.expect(NfsStat::LAYOUTUNAVAILABLE).await;
    }
    let get = |iomode| OpArgs::Layoutget(layoutget(file.1, iomode));
    let refused = c.compound().putfh(&file.0).op(get(IoMode::READ));
    refused.expect(NfsStat::LAYOUTUNAVAILABLE).await;
    assert_eq!(cluster.objects(), 0);
    let granted = c.compound().putfh(&file.0).op(get(IoMode::RW)).send().await.ok();
    let layout = files_layout(&granted);
    let first = layout.first_stripe_index as usize;
    let mut on_ds = on_data_server(&cluster, first, "d").await;
    let object = layout_handle(&layout, first);
    let read = read(Stateid::ANONYMOUS, 0, 15);
    let found = on_ds.compound().putfh(&object).op(read).send().await.ok().data();
    assert_eq!(found.0, "from the volume");
    // From here on one to read with comes with OPEN.
    let (open, get) = within_open(IoMode::READ);
    c.compound().putrootfh().op(open).op(get).send().await.ok();
}

/// `mdsthreshold` (§5.12.4) is told for files, when asked for, as exactly one item; not for what is
/// no file, and not when it is switched off.
#[tokio::test]
async fn the_threshold_is_told() {
    let item = ThresholdItem {
        layout_type: LayoutType::NFSV4_1_FILES.0,
        read_size: Some(LIMIT),
        write_size: Some(LIMIT),
    };
    for (small_files, wanted) in
        [(SmallFiles::default(), Some(MdsThreshold(vec![item]))), (SmallFiles::OFF, None)]
    {
        let cluster = Cluster::with(Options { small_files, ..Options::default() }).await;
        let mut c = Client::mount(&cluster, "a").await;
        let (file, _) = c.file("f").await;
        let asked = c.compound().putfh(&file).getattr(&[AttrNo::MDSTHRESHOLD]);
        assert_eq!(asked.send().await.ok().attrs().mdsthreshold, wanted);
        let plain = c.compound().putfh(&file).getattr(&[AttrNo::SIZE]).send().await.ok().attrs();
        assert_eq!(plain.mdsthreshold, None);
        let root = c.compound().putrootfh().getattr(&[AttrNo::MDSTHRESHOLD]).send().await.ok();
        assert_eq!(root.attrs().mdsthreshold, None);
    }
}

/// A crash in the middle of a move leaves a file that has a place and still its bytes: it is read
/// as before, and the first change finishes the move; removed, it leaves nothing behind.
#[tokio::test]
async fn a_move_that_was_cut_short_is_finished() {
    let mut cluster = cluster().await;
    let mut c = Client::mount(&cluster, "a").await;
    let wanted = pattern(10_000);
    for name in ["written", "cut", "removed", "layout"] {
        let file = c.file(name).await;
        put(&mut c, &file, 0, &wanted).await;
        begin_move(&cluster, &file).await;
    }
    cluster.restart().await;
    let mut c = Client::mount(&cluster, "a").await;
    let mut files = Vec::new();
    for name in ["written", "cut", "removed", "layout"] {
        let open = OpArgs::Open(open_name("b", name));
        let reply = c.compound().putrootfh().op(open).getfh().send().await.ok();
        let file = (reply.fh(), reply.stateid());
        assert_eq!(get(&mut c, &file, 0, 1 << 20).await, (Bytes::from(wanted.clone()), true));
        files.push(file);
    }
    assert_eq!(cluster.objects(), 0);
    put(&mut c, &files[0], 1, b"x").await;
    resize(&mut c, &files[1], 9_999).await;
    c.compound().putrootfh().op(remove("removed")).send().await.ok();
    c.compound().putfh(&files[2].0).op(close(files[2].1)).send().await.ok();
    let layout = OpArgs::Layoutget(layoutget(files[3].1, IoMode::RW));
    c.compound().putfh(&files[3].0).op(layout).send().await.ok();
    let mut changed = wanted.clone();
    changed[1] = b'x';
    for (file, wanted) in [(0, &changed[..]), (1, &wanted[..9_999]), (3, &wanted[..])] {
        let found = get(&mut c, &files[file], 0, 1 << 20).await;
        assert_eq!(found, (Bytes::copy_from_slice(wanted), true));
    }
    eventually("removal", || cluster.objects() == 3).await;
    assert_eq!(cluster.volume().fsck().unwrap().findings, Vec::<String>::new());
    assert_eq!(cluster.volume().fsck().unwrap().blocks, 0);
}

/// The operations on data of NFSv4.2: a small file is copied within the volume; a copy that would
/// be too big, reserved space and a punched hole take it to the data servers.
#[tokio::test]
async fn operations_on_data() {
    let cluster = cluster().await;
    let mut c = Client::mount(&cluster, "a").await;
    let (source, target) = (c.file("source").await, c.file("target").await);
    put(&mut c, &source, 0, &pattern(5_000)).await;
    put(&mut c, &source, 40_000, b"end").await;
    let mut wanted = pattern(5_000);
    wanted.resize(40_000, 0);
    wanted.extend_from_slice(b"end");
    for (to, objects) in [(0, 0), (LIMIT, 1)] {
        copy(&mut c, &source, &target, to).await;
        assert_eq!(get(&mut c, &target, to, 1 << 20).await, (Bytes::from(wanted.clone()), true));
        assert_eq!(cluster.objects(), objects, "{to}");
    }
    let seek = |what, offset| OpArgs::Seek(SeekArgs { stateid: source.1, offset, what });
    for (what, offset, found) in [
        (DataContent::HOLE, 0, (5_000, false)),
        (DataContent::DATA, 5_000, (32_768, false)),
        (DataContent::HOLE, 40_000, (40_003, true)),
    ] {
        let reply = c.compound().putfh(&source.0).op(seek(what, offset)).send().await.ok();
        let Ok(OpOk::Seek(ok)) = &reply.last().result else { panic!("{reply:?}") };
        assert_eq!((ok.offset, ok.eof), found);
    }
    let punch = DeallocateArgs { stateid: source.1, offset: 0, length: 1000 };
    c.compound().putfh(&source.0).op(OpArgs::Deallocate(punch)).send().await.ok();
    wanted[..1000].fill(0);
    assert_eq!(get(&mut c, &source, 0, 1 << 20).await, (Bytes::from(wanted), true));
    let reserve = AllocateArgs { stateid: source.1, offset: 0, length: 50_000 };
    c.compound().putfh(&source.0).op(OpArgs::Allocate(reserve)).send().await.ok();
    assert_eq!(get(&mut c, &source, 40_000, 1 << 20).await.0.len(), 10_000);
    assert_eq!(cluster.objects(), 2);
}

/// A sparse file of a terabyte whose few bytes are in the volume is copied as such: its holes cost
/// neither memory nor disk.
#[tokio::test]
async fn holes_of_a_sparse_small_file_stay_holes() {
    let cluster = cluster().await;
    let mut c = Client::mount(&cluster, "a").await;
    let (source, target) = (c.file("source").await, c.file("target").await);
    put(&mut c, &source, 100_000 - LIMIT, b"few bytes").await;
    resize(&mut c, &source, 1 << 40).await;
    copy(&mut c, &source, &target, 0).await;
    assert_eq!(get(&mut c, &target, 100_000 - LIMIT, 9).await.0, "few bytes");
    assert!(cluster.object_bytes() <= 64 << 10, "{}", cluster.object_bytes());
    assert_eq!(get(&mut c, &source, (1 << 40) - 5, 1 << 20).await, (Bytes::from(vec![0; 5]), true));
}

/// A copy into a file whose move was cut short finishes that first: what the volume had must not
/// arrive on top of the copy.
#[tokio::test]
async fn a_copy_into_a_moving_file() {
    let cluster = cluster().await;
    let mut c = Client::mount(&cluster, "a").await;
    let (source, target) = (c.file("source").await, c.file("target").await);
    put(&mut c, &source, 0, b"new").await;
    put(&mut c, &target, 0, &pattern(10_000)).await;
    begin_move(&cluster, &target).await;
    copy(&mut c, &source, &target, 0).await;
    let mut wanted = pattern(10_000);
    wanted[..3].copy_from_slice(b"new");
    assert_eq!(get(&mut c, &target, 0, 1 << 20).await, (Bytes::from(wanted), true));
}

/// A file that is being moved is emptied, by SETATTR and by OPEN, without anything of it going to
/// data servers first (they may be full), and is one on data servers then.
#[tokio::test]
async fn a_moving_file_is_emptied() {
    let cluster = cluster().await;
    let mut c = Client::mount(&cluster, "a").await;
    for name in ["by SETATTR", "by OPEN"] {
        let file = c.file(name).await;
        put(&mut c, &file, 0, &pattern(10_000)).await;
        begin_move(&cluster, &file).await;
        if name == "by OPEN" {
            let how = CreateHow::Unchecked(Box::new(size(0)));
            let open = OpenArgs { openhow: Some(how), ..open_name("another", name) };
            c.compound().putrootfh().op(OpArgs::Open(open)).send().await.ok();
        } else {
            resize(&mut c, &file, 0).await;
        }
        assert_eq!(get(&mut c, &file, 0, 1 << 20).await, (Bytes::new(), true));
        assert_eq!(cluster.volume().fsck().unwrap().blocks, 0, "{name}");
        put(&mut c, &file, 3, b"anew").await;
        assert_eq!(get(&mut c, &file, 0, 1 << 20).await.0, &b"\0\0\0anew"[..]);
    }
    assert_eq!(cluster.volume().fsck().unwrap().findings, Vec::<String>::new());
}

/// Without data servers files up to the limit are as good as any, and what needs data servers is
/// NOSPC and changes nothing.
#[tokio::test]
async fn without_data_servers_files_are_small() {
    let cluster = Cluster::start().await;
    let mut c = Client::mount(&cluster, "a").await;
    let file = c.file("f").await;
    put(&mut c, &file, LIMIT - 4, b"last").await;
    let beyond = c.compound().putfh(&file.0).op(write(file.1, LIMIT, b"!"));
    beyond.expect(NfsStat::NXIO).await;
    let reserve = OpArgs::Allocate(AllocateArgs { stateid: file.1, offset: 0, length: 1 });
    c.compound().putfh(&file.0).op(reserve).expect(NfsStat::NXIO).await;
    for iomode in [IoMode::READ, IoMode::RW] {
        let get = OpArgs::Layoutget(layoutget(file.1, iomode));
        c.compound().putfh(&file.0).op(get).expect(NfsStat::LAYOUTUNAVAILABLE).await;
    }
    put(&mut c, &file, 0, b"first").await;
    let (found, eof) = get(&mut c, &file, 0, 1 << 20).await;
    assert!(eof && found.len() as u64 == LIMIT && found.starts_with(b"first\0"));
    assert!(found.ends_with(b"\0last"));
    resize(&mut c, &file, 2).await;
    assert_eq!(get(&mut c, &file, 0, 1 << 20).await, (Bytes::from_static(b"fi"), true));
}

/// An empty WRITE changes nothing, wherever it is.
#[tokio::test]
async fn an_empty_write_moves_nothing() {
    let cluster = cluster().await;
    let mut c = Client::mount(&cluster, "a").await;
    let file = c.file("f").await;
    put(&mut c, &file, 0, b"bytes").await;
    put(&mut c, &file, LIMIT + 1, b"").await;
    assert_eq!(get(&mut c, &file, 0, 100).await, (Bytes::from_static(b"bytes"), true));
    begin_move(&cluster, &file).await;
    put(&mut c, &file, 0, b"B").await;
    assert_eq!(cluster.objects(), 1, "it had not left before");
}

/// That its bytes moved is no news to anybody: neither the modification time nor the change
/// attribute of a file tell it, also when the write that made it move is followed by a layout.
#[tokio::test]
async fn a_move_shows_in_no_attribute() {
    let cluster = cluster().await;
    let mut c = Client::mount(&cluster, "a").await;
    let wanted = [AttrNo::CHANGE, AttrNo::TIME_MODIFY, AttrNo::TIME_METADATA, AttrNo::SIZE];
    for beyond in [false, true] {
        let file = c.file(if beyond { "beyond" } else { "below" }).await;
        put(&mut c, &file, 0, b"bytes").await;
        if beyond {
            put(&mut c, &file, LIMIT, b"more").await;
        }
        let look = || OpArgs::Getattr(GetattrArgs { request: Bitmap::of(&wanted) });
        let before = c.compound().putfh(&file.0).op(look()).send().await.ok().attrs();
        let layout = OpArgs::Layoutget(layoutget(file.1, IoMode::RW));
        let held = c.compound().putfh(&file.0).op(layout).send().await.ok().stateid();
        let after = c.compound().putfh(&file.0).op(look()).send().await.ok().attrs();
        assert_eq!((after.size, after.time_modify), (before.size, before.time_modify));
        if !beyond {
            // An indirect write may have been somebody's direct one: caches are told to look.
            assert_eq!(after, before);
        }
        let back = OpArgs::Layoutreturn(layoutreturn(held, IoMode::RW));
        c.compound().putfh(&file.0).op(back).send().await.ok();
    }
}

/// A small file that is removed while it is open keeps its bytes until it is closed.
#[tokio::test]
async fn an_orphan_keeps_its_bytes() {
    let cluster = cluster().await;
    let mut c = Client::mount(&cluster, "a").await;
    let file = c.file("f").await;
    put(&mut c, &file, 0, b"bytes").await;
    c.compound().putrootfh().op(remove("f")).send().await.ok();
    put(&mut c, &file, 5, b" and more").await;
    assert_eq!(get(&mut c, &file, 0, 100).await.0, "bytes and more");
    assert_eq!(cluster.volume().fsck().unwrap().findings, Vec::<String>::new());
    c.compound().putfh(&file.0).op(close(file.1)).send().await.ok();
    let checked = cluster.volume().fsck().unwrap();
    assert_eq!((checked.blocks, checked.findings), (0, Vec::new()));
}

/// Several clients write and read parts of one file of their own while it grows beyond the limit
/// and one of them asks for layouts: everybody reads what he wrote, at any time.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn everybody_finds_what_he_wrote_while_it_moves() {
    const PARTS: u64 = 40;
    const PART_BYTES: u64 = 700;
    const WRITERS: u64 = 4;
    let cluster = cluster().await;
    for round in 0..6 {
        let name = format!("f{round}");
        Client::mount(&cluster, &format!("{round} first")).await.file(&name).await;
        let mut clients = tokio::task::JoinSet::new();
        for who in 0..WRITERS {
            let mut c = Client::mount(&cluster, &format!("{round} {who}")).await;
            let file = c.file(&name).await;
            clients.spawn(async move {
                for part in 0..PARTS {
                    let at = (part * WRITERS + who) * PART_BYTES;
                    let mine = vec![1 + (part * WRITERS + who) as u8; PART_BYTES as usize];
                    put(&mut c, &file, at, &mine).await;
                    if who == 0 && part == 5 * round {
                        layout_and_back(&mut c, &file).await;
                    }
                    let found = get(&mut c, &file, at, PART_BYTES as u32).await.0;
                    assert!(found == mine, "{round} {at}");
                }
            });
        }
        clients.join_all().await;
        let mut c = Client::mount(&cluster, &format!("{round} last")).await;
        let file = c.file(&name).await;
        let (found, eof) = get(&mut c, &file, 0, 1 << 20).await;
        assert!(eof && found.len() as u64 == PARTS * WRITERS * PART_BYTES);
        let parts = found.chunks(PART_BYTES as usize).zip(1..);
        parts.for_each(|(part, byte)| assert!(part.iter().all(|b| *b == byte), "{round} {byte}"));
    }
    assert_eq!(cluster.volume().fsck().unwrap().blocks, 0);
}

/// One request of [`a_file_is_an_array_of_bytes`].
#[derive(Debug, Clone)]
enum Step {
    Write(u64, usize, u8),
    Resize(u64),
    Layout,
    Copy(u64),
    Read(u64, u32),
}

fn steps() -> impl Strategy<Value = Step> {
    let offset = || prop_oneof![0u64..20_000, LIMIT - 9_000..LIMIT + 20];
    prop_oneof![
        6 => (offset(), 1usize..12_000, 1u8..9)
            .prop_map(|(at, len, byte)| Step::Write(at, len, byte)),
        2 => offset().prop_map(Step::Resize),
        1 => Just(Step::Layout),
        1 => offset().prop_map(Step::Copy),
        3 => (offset(), 1u32..90_000).prop_map(|(at, len)| Step::Read(at, len)),
    ]
}

/// Whatever the limit, a file answers as an array of bytes does: written, cut, grown, copied over
/// itself by way of another, moved by a layout, in any order.
#[test]
fn a_file_is_an_array_of_bytes() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let limits = [0, 1, 8 * KIB, LIMIT];
    let clusters = limits.map(|stuffing_limit_bytes| {
        let small_files = SmallFiles { stuffing_limit_bytes, ..SmallFiles::default() };
        let options = Options { data_servers: 2, small_files, ..Options::default() };
        runtime.block_on(Cluster::with(options))
    });
    let number = AtomicUsize::new(0);
    let config = ProptestConfig { cases: 24, failure_persistence: None, ..Default::default() };
    proptest!(config, |(history in prop::collection::vec(steps(), 1..16))| {
        let number = number.fetch_add(1, Ordering::Relaxed);
        for cluster in &clusters {
            runtime.block_on(array_of_bytes(cluster, number, &history));
        }
    });
    for cluster in &clusters {
        assert_eq!(cluster.volume().fsck().unwrap().findings, Vec::<String>::new());
    }
}

async fn array_of_bytes(cluster: &Cluster, number: usize, history: &[Step]) {
    let mut c = Client::mount(cluster, &format!("client {number}")).await;
    let file = c.file(&format!("file {number}")).await;
    let other = c.file(&format!("other {number}")).await;
    let mut model: Vec<u8> = Vec::new();
    for step in history {
        match *step {
            Step::Write(at, len, byte) => {
                put(&mut c, &file, at, &vec![byte; len]).await;
                let at = at as usize;
                model.resize(model.len().max(at + len), 0);
                model[at..at + len].fill(byte);
            }
            Step::Resize(to) => {
                resize(&mut c, &file, to).await;
                model.resize(to as usize, 0);
            }
            Step::Layout => layout_and_back(&mut c, &file).await,
            Step::Copy(_) if model.is_empty() => {}
            Step::Copy(to) => {
                resize(&mut c, &other, 0).await;
                copy(&mut c, &file, &other, 0).await;
                copy(&mut c, &other, &file, to).await;
                let (data, to) = (model.clone(), to as usize);
                model.resize(model.len().max(to + data.len()), 0);
                model[to..to + data.len()].copy_from_slice(&data);
            }
            Step::Read(at, len) => {
                let (found, _) = get(&mut c, &file, at, len).await;
                let from = model.len().min(at as usize);
                let until = model.len().min(at as usize + len as usize);
                assert!(found == model[from..until], "{at} {len}");
            }
        }
    }
    let (all, eof) = get(&mut c, &file, 0, 1 << 20).await;
    assert!(eof && all == model, "{} bytes instead of {}", all.len(), model.len());
}

/// What a client is told of a file's threshold; 0 if nothing.
async fn told(c: &mut Client, fh: &FileHandle) -> u64 {
    let asked = c.compound().putfh(fh).getattr(&[AttrNo::MDSTHRESHOLD]).send().await.ok();
    let items = asked.attrs().mdsthreshold.map(|t| t.0).unwrap_or_default();
    items.first().and_then(|item| item.write_size).unwrap_or(0)
}

/// A threshold that is set while the server runs is told from then on; the next start has the
/// configured one again. One that is out of range changes nothing.
#[tokio::test]
async fn the_threshold_can_be_set() {
    let mut cluster = Cluster::with(Options { on_disk: true, ..Options::default() }).await;
    let mut c = Client::mount(&cluster, "a").await;
    let (fh, _) = c.file("f").await;
    assert_eq!(told(&mut c, &fh).await, LIMIT);
    for bytes in [12_345, 1 << 20, 0] {
        let now = cluster.mds().admin().set_threshold(bytes).unwrap();
        assert_eq!((now.configured, now.set, now.now), (LIMIT, bytes, bytes));
        assert_eq!(told(&mut c, &fh).await, bytes);
    }
    let refused = cluster.mds().admin().set_threshold((1 << 20) + 1);
    assert!(matches!(refused, Err(AdminError::BadRequest(_))), "{refused:?}");
    assert_eq!(told(&mut c, &fh).await, 0);
    cluster.restart().await;
    let mut c = Client::mount(&cluster, "b").await;
    assert_eq!(told(&mut c, &fh).await, LIMIT);
}

/// While many requests wait here, clients are told to go to data servers for smaller files that
/// are there; for small ones, whose bytes are here, nothing changes. Afterwards all is as before.
#[tokio::test]
async fn load_lowers_the_threshold() {
    let cluster =
        Cluster::with(Options { data_servers: 1, valves: true, ..Options::default() }).await;
    let mut c = Client::mount(&cluster, "a").await;
    let small = c.file("small").await;
    let big = c.file("big").await;
    layout_and_back(&mut c, &big).await;
    put(&mut c, &big, 0, b"here").await;
    assert_eq!(told(&mut c, &big.0).await, LIMIT);
    let mut others = Vec::new();
    for n in 0..8 {
        let mut other = Client::mount(&cluster, &format!("other {n}")).await;
        let (_, open) = other.file("big").await;
        others.push((other, open, Vec::new()));
    }
    cluster.valves[0].shut();
    for (other, open, under_way) in &mut others {
        for slot in 0..u32::try_from(other.sequence.len()).unwrap() {
            let write = write(*open, u64::from(slot), b"x");
            under_way.push(other.compound().slot(slot).putfh(&big.0).op(write).begin().await);
        }
    }
    let busy = || cluster.mds().threshold_status().now < LIMIT;
    eventually("lower threshold", busy).await;
    assert!(told(&mut c, &big.0).await < LIMIT);
    assert_eq!(told(&mut c, &small.0).await, LIMIT);
    cluster.valves[0].open();
    for (other, _, under_way) in &mut others {
        for xid in under_way.drain(..) {
            other.wire.nfs_reply(xid).await;
        }
    }
    let calm = || cluster.mds().threshold_status().now == LIMIT;
    eventually("the threshold of before", calm).await;
    assert_eq!(told(&mut c, &big.0).await, LIMIT);
}
