//! Data operations of NFSv4.2 through the metadata server: RFC 7862 §15.

use weft_nfs::{
    AttrNo, Bitmap, DeviceId, FileHandle, IoMode, LayoutType, NfsStat, OpArgs, OpNum, OpOk,
    Stateid, ops::*, share,
};

use crate::support::*;

const MIB: u64 = 1 << 20;

fn seek(stateid: Stateid, offset: u64, what: DataContent) -> OpArgs {
    OpArgs::Seek(SeekArgs { stateid, offset, what })
}

fn allocate(stateid: Stateid, offset: u64, length: u64) -> OpArgs {
    OpArgs::Allocate(AllocateArgs { stateid, offset, length })
}

fn deallocate(stateid: Stateid, offset: u64, length: u64) -> OpArgs {
    OpArgs::Deallocate(DeallocateArgs { stateid, offset, length })
}

async fn sought(
    c: &mut Client,
    fh: &FileHandle,
    stateid: Stateid,
    offset: u64,
    what: DataContent,
) -> (bool, u64) {
    let reply = c.compound().putfh(fh).op(seek(stateid, offset, what)).send().await.ok();
    let Ok(OpOk::Seek(ok)) = &reply.last().result else { panic!("{reply:?}") };
    (ok.eof, ok.offset)
}

/// Writes as much as there is.
async fn fill(c: &mut Client, fh: &FileHandle, id: Stateid, offset: u64, data: &[u8]) {
    for (n, part) in (0..).zip(data.chunks(1 << 19)) {
        let at = offset + n * (1 << 19);
        c.compound().putfh(fh).op(write(id, at, part)).send().await.ok();
    }
}

async fn size_of(c: &mut Client, fh: &FileHandle) -> u64 {
    let attrs = c.compound().putfh(fh).getattr(&[AttrNo::SIZE]).send().await.ok().attrs();
    attrs.size.unwrap()
}

async fn occupied(c: &mut Client, fh: &FileHandle) -> u64 {
    let attrs = c.compound().putfh(fh).getattr(&[AttrNo::SPACE_USED]).send().await.ok().attrs();
    attrs.space_used.unwrap()
}

/// Data and holes over the borders of stripe units; the virtual hole at the end; nothing beyond
/// it (§15.11.3).
#[tokio::test]
async fn seek_finds_data_and_holes() {
    let cluster = Cluster::striped(2).await;
    let mut c = Client::mount(&cluster, "a").await;
    let (fh, id) = c.file("f").await;
    // An empty file has no byte to begin at; one that only has a size is one hole.
    c.compound().putfh(&fh).op(seek(id, 0, DataContent::HOLE)).expect(NfsStat::NXIO).await;
    c.compound().putfh(&fh).op(setattr(id, size(6 * MIB))).send().await.ok();
    assert_eq!(sought(&mut c, &fh, id, 5, DataContent::HOLE).await, (false, 5));
    assert_eq!(sought(&mut c, &fh, id, 5, DataContent::DATA).await, (true, 6 * MIB));
    // Data from the middle of unit 1 to the middle of unit 3.
    let (from, to) = (MIB + MIB / 2, 3 * MIB + MIB / 2);
    fill(&mut c, &fh, id, from, &vec![1; 2 << 20]).await;
    let cases = [
        (0, DataContent::DATA, (false, from)),
        (0, DataContent::HOLE, (false, 0)),
        (from, DataContent::DATA, (false, from)),
        (from, DataContent::HOLE, (false, to)),
        (2 * MIB, DataContent::HOLE, (false, to)),
        (to - 1, DataContent::DATA, (false, to - 1)),
        (to, DataContent::DATA, (true, 6 * MIB)),
        (to, DataContent::HOLE, (false, to)),
        (6 * MIB - 1, DataContent::HOLE, (false, 6 * MIB - 1)),
    ];
    for (offset, what, found) in cases {
        assert_eq!(sought(&mut c, &fh, id, offset, what).await, found, "{offset} {what}");
    }
    // A file without holes: only the one behind its end.
    c.compound().putfh(&fh).op(setattr(id, size(to))).send().await.ok();
    assert_eq!(sought(&mut c, &fh, id, from, DataContent::HOLE).await, (true, to));
    for beyond in [to, to + 1, u64::MAX] {
        c.compound().putfh(&fh).op(seek(id, beyond, DataContent::DATA)).expect(NfsStat::NXIO).await;
    }
}

/// A hole is made, and space reserved, on those data servers alone on which the range is.
#[tokio::test]
async fn a_range_concerns_those_that_have_it() {
    let cluster = Cluster::striped(3).await;
    let mut c = Client::mount(&cluster, "a").await;
    let (fh, id) = c.file("f").await;
    fill(&mut c, &fh, id, 0, &vec![1; 6 << 20]).await;
    let cases = [
        (0, 1, 1),
        (MIB, MIB, 1),
        (2 * MIB - 1, 2, 2),
        (3 * MIB + 5, 2 * MIB, 3),
        (0, 2 * MIB + 1, 3),
        (MIB, 100 * MIB, 3),
    ];
    for (offset, length, concerned) in cases {
        for (what, op) in
            [("PUNCH", deallocate(id, offset, length)), ("ALLOCATE", allocate(id, offset, length))]
        {
            let before = cluster.control_messages(what);
            c.compound().putfh(&fh).op(op).send().await.ok();
            let sent = cluster.control_messages(what) - before;
            assert_eq!(sent, concerned, "{what} {offset}+{length}");
        }
    }
}

/// What is refused, each for its reason: operations on data, on any file and stateid.
#[tokio::test]
async fn refusals() {
    let cluster = Cluster::striped(1).await;
    let mut c = Client::mount(&cluster, "a").await;
    let mut other = Client::mount(&cluster, "b").await;
    let (fh, id) = c.file("f").await;
    let (_, foreign) = other.file("g").await;
    let only = |share_access| OpenArgs { share_access, ..open("only", OpenClaim::Fh) };
    let open = c.compound().putfh(&fh).open(only(share::ACCESS_READ)).send().await.ok();
    let read_only = open.stateid();
    c.compound().putfh(&fh).op(write(id, 0, &[1; 100])).send().await.ok();
    let cases = [
        (seek(id, 0, DataContent(2)), NfsStat::UNION_NOTSUPP),
        (seek(foreign, 0, DataContent::DATA), NfsStat::BAD_STATEID),
        (allocate(read_only, 0, 1), NfsStat::OPENMODE),
        (allocate(foreign, 0, 1), NfsStat::BAD_STATEID),
        (allocate(id, 0, 0), NfsStat::INVAL),
        (allocate(id, i64::MAX as u64, 1), NfsStat::FBIG),
        (allocate(id, u64::MAX, 2), NfsStat::FBIG),
        (allocate(id, 0, 1 << 60), NfsStat::NOSPC),
        (deallocate(read_only, 0, 1), NfsStat::OPENMODE),
        (deallocate(foreign, 0, 1), NfsStat::BAD_STATEID),
        (deallocate(id, 0, 0), NfsStat::INVAL),
        (deallocate(id, u64::MAX, 2), NfsStat::FBIG),
    ];
    for (op, status) in cases {
        let what = format!("{op:?}");
        let reply = c.compound().putfh(&fh).op(op).send().await;
        assert_eq!(reply.status(), status, "{what}");
    }
    assert_eq!(size_of(&mut c, &fh).await, 100);
    let data = c.compound().putfh(&fh).op(read(id, 0, 200)).send().await.ok().data();
    assert_eq!(data.0[..], [1; 100]);
    c.compound().putfh(&fh).op(setattr(Stateid::ANONYMOUS, mode(0))).send().await.ok();
    let dir = c.public_dir("d").await;
    let any = Stateid::ANONYMOUS;
    for op in [seek(any, 0, DataContent::DATA), allocate(any, 0, 1), deallocate(any, 0, 1)] {
        c.by_user(1000).putfh(&fh).op(op.clone()).expect(NfsStat::ACCESS).await;
        c.compound().putfh(&dir).op(op.clone()).expect(NfsStat::WRONG_TYPE).await;
        c.compound().op(op).expect(NfsStat::NOFILEHANDLE).await;
    }
    // They are of 4.2.
    let mut old =
        Client::with(cluster.address(), ClientOptions { minor: 1, ..ClientOptions::new("c") })
            .await;
    let illegal = old.compound().putfh(&fh).op(seek(id, 0, DataContent::DATA)).send().await;
    assert_eq!(illegal.status(), NfsStat::OP_ILLEGAL);
}

/// Beyond the largest file of the data servers' file systems (16 TiB on ext4): told as that, not as
/// a failure of a disk.
#[tokio::test]
async fn allocating_beyond_what_data_servers_can_hold() {
    let cluster = Cluster::striped(2).await;
    let mut c = Client::mount(&cluster, "a").await;
    let (file, id) = c.file("f").await;
    let reply = c.compound().putfh(&file).op(allocate(id, 1 << 50, 4096)).send().await;
    // There are file systems that can.
    assert!(matches!(reply.status(), NfsStat::FBIG | NfsStat::OK), "{:?}", reply.status());
}

/// DEALLOCATE reads as zeros to the byte, and what lies around it stays (§15.4.3).
#[tokio::test]
async fn deallocate_makes_holes() {
    let cluster = Cluster::striped(2).await;
    let mut c = Client::mount(&cluster, "a").await;
    let (fh, id) = c.file("f").await;
    fill(&mut c, &fh, id, 0, &vec![1; 3 << 20]).await;
    let wanted = [AttrNo::CHANGE, AttrNo::SIZE, AttrNo::MODE];
    c.compound().putfh(&fh).op(setattr(id, mode(0o4755))).send().await.ok();
    let before = c.compound().putfh(&fh).getattr(&wanted).send().await.ok().attrs();
    let (from, len) = (MIB - 5000, MIB + 10_000);
    c.by_user(0).putfh(&fh).op(deallocate(id, from, len)).send().await.ok();
    let after = c.compound().putfh(&fh).getattr(&wanted).send().await.ok().attrs();
    assert!(after.change > before.change);
    assert_eq!((after.size, after.mode), (Some(3 * MIB), Some(0o4755)));
    for (at, byte) in [(from - 1, 1), (from, 0), (from + len - 1, 0), (from + len, 1)] {
        let data = c.compound().putfh(&fh).op(read(id, at, 1)).send().await.ok().data();
        assert_eq!(data.0[..], [byte], "{at}");
    }
    assert_eq!(sought(&mut c, &fh, id, MIB, DataContent::HOLE).await, (false, MIB));
    // Set-id bits do not survive another user's change, nor does anything happen beyond the end.
    c.by_user(1000).putfh(&fh).op(deallocate(id, 5 * MIB, MIB)).send().await.ok();
    let after = c.compound().putfh(&fh).getattr(&wanted).send().await.ok().attrs();
    assert_eq!((after.size, after.mode), (Some(3 * MIB), Some(0o755)));
}

/// The size is known before a hole is made: who is told of the hole is told the size behind it.
#[tokio::test]
async fn deallocate_waits_for_the_size() {
    let mut cluster = Cluster::striped(2).await;
    let mut c = Client::mount(&cluster, "a").await;
    let (fh, id) = c.file("f").await;
    fill(&mut c, &fh, id, 0, &vec![1; 2 << 20]).await;
    let get = OpArgs::Layoutget(layoutget(id, IoMode::RW));
    let layout = files_layout(&c.compound().putfh(&fh).op(get).send().await.ok());
    let other = 1 - layout.first_stripe_index as usize;
    cluster.stop_data_server(other).await;
    let hole = || deallocate(id, 0, 50);
    let reply = c.compound().putfh(&fh).op(hole()).getattr(&[AttrNo::SIZE]).send().await;
    assert_eq!((reply.status(), reply.last().op), (NfsStat::DELAY, OpNum::DEALLOCATE));
    cluster.restart_data_server(other).await;
    let data = c.compound().putfh(&fh).op(read(id, 0, 100)).send().await.ok().data();
    assert_eq!(data.0[..], [1; 100]);
    let reply = c.compound().putfh(&fh).op(hole()).getattr(&[AttrNo::SIZE]).send().await.ok();
    assert_eq!(reply.attrs().size, Some(2 * MIB));
}

/// The write layouts of others are recalled before a hole is made.
#[tokio::test]
async fn deallocate_recalls_layouts() {
    let cluster = Cluster::striped(2).await;
    let (mut a, mut b, fh, of_a, of_b) = two(&cluster).await;
    b.compound().putfh(&fh).op(write(of_b, 0, &[1; 100])).send().await.ok();
    let get = OpArgs::Layoutget(layoutget(of_a, IoMode::RW));
    a.compound().putfh(&fh).op(get.clone()).send().await.ok();
    b.compound().putfh(&fh).op(deallocate(of_b, 0, 50)).expect(NfsStat::DELAY).await;
    let data = b.compound().putfh(&fh).op(read(of_b, 0, 100)).send().await.ok().data();
    assert_eq!(data.0[..], [1; 100]);
    let callback = a.wire.callback().await;
    a.wire.answer(&callback, NfsStat::OK).await;
    let back = OpArgs::Layoutreturn(layoutreturn(callback.recalled(), IoMode::ANY));
    a.compound().putfh(&fh).op(back).send().await.ok();
    b.compound().putfh(&fh).op(deallocate(of_b, 0, 50)).expect(NfsStat::OK).await;
    let data = b.compound().putfh(&fh).op(read(of_b, 0, 100)).send().await.ok().data();
    assert_eq!((&data.0[..50], &data.0[50..]), (&[0; 50][..], &[1; 50][..]));
    // The file is open to writers again.
    a.compound().putfh(&fh).op(get).send().await.ok();
}

/// ALLOCATE grows the file to the end of the range, never shrinks it, and takes the space
/// (§15.1.3); what it covers reads as zeros.
#[tokio::test]
async fn allocate_reserves_space() {
    let cluster = Cluster::striped(2).await;
    let mut c = Client::mount(&cluster, "a").await;
    let (fh, id) = c.file("f").await;
    c.compound().putfh(&fh).op(allocate(id, MIB / 2, 2 * MIB)).send().await.ok();
    assert_eq!(size_of(&mut c, &fh).await, 2 * MIB + MIB / 2);
    let data = c.compound().putfh(&fh).op(read(id, 2 * MIB, 1 << 20)).send().await.ok().data();
    assert_eq!((data.0.len(), data.1, data.0.iter().max()), (1 << 19, true, Some(&0)));
    c.compound().putfh(&fh).op(write(id, MIB, b"kept")).send().await.ok();
    c.compound().putfh(&fh).op(allocate(id, 0, 2 * MIB)).send().await.ok();
    assert_eq!(size_of(&mut c, &fh).await, 2 * MIB + MIB / 2);
    let data = c.compound().putfh(&fh).op(read(id, MIB, 4)).send().await.ok().data();
    assert_eq!(data.0, "kept");
}

/// What a quiet file occupies is what its objects do: holes are none of it, reserved bytes are
/// (§5.8.2.35 of RFC 8881). Its data servers are asked once.
#[tokio::test]
async fn space_used_is_what_objects_occupy() {
    let small_files = weft_mds::SmallFiles::OFF;
    let options = Options { data_servers: 2, on_disk: true, small_files, ..Options::default() };
    let mut cluster = Cluster::with(options).await;
    let mut c = Client::mount(&cluster, "a").await;
    let (fh, id) = c.file("f").await;
    fill(&mut c, &fh, id, 6 * MIB, &vec![1; 2 << 20]).await;
    c.compound().putfh(&fh).op(close(id)).send().await.ok();
    let used = occupied(&mut c, &fh).await;
    assert!((2 * MIB..3 * MIB).contains(&used), "{used}");

    let id = c.compound().putfh(&fh).open(open("o", OpenClaim::Fh)).send().await.ok().stateid();
    c.compound().putfh(&fh).op(deallocate(id, 6 * MIB, MIB)).send().await.ok();
    let used = occupied(&mut c, &fh).await;
    assert!((MIB..2 * MIB).contains(&used), "{used}");
    c.compound().putfh(&fh).op(allocate(id, 0, 8 * MIB)).send().await.ok();
    assert!(occupied(&mut c, &fh).await >= 8 * MIB);
    c.compound().putfh(&fh).op(deallocate(id, 0, 8 * MIB)).send().await.ok();
    let used = occupied(&mut c, &fh).await;
    assert!(used < MIB, "{used}");

    // Past the metadata server: while the layout is out, and when it has come back.
    let get = OpArgs::Layoutget(layoutget(id, IoMode::RW));
    let reply = c.compound().putfh(&fh).op(get).send().await.ok();
    let (layout, lent) = (files_layout(&reply), reply.stateid());
    let first = layout.first_stripe_index as usize;
    let mut on_ds = on_data_server(&cluster, first, "d").await;
    let object = layout_handle(&layout, first);
    let data = write(Stateid::ANONYMOUS, 0, &[1; 1 << 19]);
    on_ds.compound().putfh(&object).op(data).send().await.ok();
    assert!(occupied(&mut c, &fh).await >= MIB / 2);
    let back = OpArgs::Layoutreturn(layoutreturn(lent, IoMode::ANY));
    c.compound().putfh(&fh).op(back).op(close(id)).send().await.ok();
    let used = occupied(&mut c, &fh).await;
    assert!((MIB / 2..MIB).contains(&used), "{used}");

    // It is known from here on: to everybody who lists it, and whoever is away.
    let asked = cluster.control_messages("STAT");
    let list = OpArgs::Readdir(readdir(0, 4096, &[AttrNo::SPACE_USED]));
    let listed = c.compound().putrootfh().op(list).send().await.ok().readdir();
    assert_eq!(listed.entries[0].attrs.space_used, Some(used));
    cluster.stop_data_server(0).await;
    cluster.restart().await;
    let mut c = Client::mount(&cluster, "b").await;
    assert_eq!(occupied(&mut c, &fh).await, used);
    assert!(asked > 0 && cluster.control_messages("STAT") == 0, "{asked}");
}

/// What a data server's file system reserves behind the end by itself (XFS does, for a while) does
/// not make more of a file than it has bytes.
#[tokio::test]
async fn space_used_ends_with_the_file() {
    let cluster = Cluster::striped(2).await;
    let mut c = Client::mount(&cluster, "a").await;
    let (fh, id) = c.file("f").await;
    fill(&mut c, &fh, id, 0, &vec![1; 2 << 20]).await;
    for object in cluster.object_files() {
        let mut reserve = std::process::Command::new("fallocate");
        reserve.args(["--keep-size", "--offset", "8M", "--length", "8M"]).arg(object);
        assert!(reserve.status().unwrap().success());
    }
    c.compound().putfh(&fh).op(write(id, 0, b"x")).op(close(id)).send().await.ok();
    assert_eq!(occupied(&mut c, &fh).await, 2 * MIB);
}

/// Errors and statistics of layouts: the layout is checked, what is reported is not (§15.6.3,
/// §15.7.3).
#[tokio::test]
async fn layout_reports() {
    let cluster = Cluster::striped(2).await;
    let mut c = Client::mount(&cluster, "a").await;
    let (fh, id) = c.file("f").await;
    let get = OpArgs::Layoutget(layoutget(id, IoMode::READ));
    let held = c.compound().putfh(&fh).op(get).send().await.ok().stateid();
    let error =
        |n| DeviceError { device_id: DeviceId([n; 16]), status: NfsStat::NXIO, op: OpNum::READ };
    let errors = |stateid, offset, length| {
        let errors = DeviceErrors(vec![error(1), error(2)]);
        OpArgs::Layouterror(LayouterrorArgs { offset, length, stateid, errors })
    };
    let stats = |stateid, offset, length| {
        OpArgs::Layoutstats(LayoutstatsArgs {
            offset,
            length,
            stateid,
            read: IoInfo { count: 1, bytes: 2 },
            write: IoInfo { count: 3, bytes: 4 },
            device_id: DeviceId([3; 16]),
            layout_type: LayoutType::NFSV4_1_FILES,
            update_body: Body::default(),
        })
    };
    let dir = c.public_dir("d").await;
    for op in [errors(held, 0, u64::MAX), stats(held, 0, u64::MAX)] {
        c.compound().putfh(&fh).op(op.clone()).expect(NfsStat::OK).await;
        c.compound().putfh(&dir).op(op).expect(NfsStat::WRONG_TYPE).await;
    }
    for op in [errors(id, 0, 1), stats(id, 0, 1), errors(Stateid::ANONYMOUS, 0, 1)] {
        c.compound().putfh(&fh).op(op).expect(NfsStat::BAD_STATEID).await;
    }
    for op in [errors(held, 2, u64::MAX - 1), stats(held, u64::MAX, 2)] {
        c.compound().putfh(&fh).op(op).expect(NfsStat::INVAL).await;
    }
}

/// Advice is taken from whoever may read or write, and answered with what is done: nothing special
/// (§15.5.3).
#[tokio::test]
async fn advice_is_normal() {
    let cluster = Cluster::striped(1).await;
    let mut c = Client::mount(&cluster, "a").await;
    let (fh, _) = c.file("f").await;
    let writes = OpenArgs { share_access: share::ACCESS_WRITE, ..open("w", OpenClaim::Fh) };
    let id = c.compound().putfh(&fh).open(writes).send().await.ok().stateid();
    let advise = |stateid, offset, count| {
        let hints = Bitmap::from_words(&[0b1010]);
        OpArgs::IoAdvise(IoAdviseArgs { stateid, offset, count, hints })
    };
    let reply = c.compound().putfh(&fh).op(advise(id, 5, 0)).send().await.ok();
    let Ok(OpOk::IoAdvise(ok)) = &reply.last().result else { panic!("{reply:?}") };
    assert_eq!(ok.hints, Bitmap::from_words(&[1]));
    c.compound().putfh(&fh).op(advise(id, u64::MAX, 2)).expect(NfsStat::INVAL).await;
    c.compound().putfh(&fh).op(advise(Stateid::INVALID, 0, 1)).expect(NfsStat::BAD_STATEID).await;
    let dir = c.public_dir("d").await;
    c.compound().putfh(&dir).op(advise(id, 0, 1)).expect(NfsStat::WRONG_TYPE).await;
}
