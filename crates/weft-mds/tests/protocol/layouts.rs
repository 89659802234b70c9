//! pNFS: LAYOUTGET, GETDEVICEINFO, LAYOUTCOMMIT, LAYOUTRETURN, and the recall of layouts.
//! RFC 8881 §12.5, §13, §18.40-§18.44, §20.3.

use std::time::Instant;

use weft_layout::FilesDeviceAddr;
use weft_nfs::{
    AttrNo, Bitmap, DeviceId, FailureBody, FileHandle, IoMode, LayoutType, NfsStat, OpArgs, OpOk,
    Seqid, Stateid, ops::*, seq4_status, share,
};
use weft_server::report::Health;

use crate::support::*;

async fn get(c: &mut Client, fh: &FileHandle, args: LayoutgetArgs) -> Reply {
    c.compound().putfh(fh).op(OpArgs::Layoutget(args)).send().await
}

async fn give_back(c: &mut Client, fh: &FileHandle, args: LayoutreturnArgs) -> Reply {
    c.compound().putfh(fh).op(OpArgs::Layoutreturn(args)).send().await
}

async fn commit(c: &mut Client, fh: &FileHandle, args: LayoutcommitArgs) -> Reply {
    c.compound().putfh(fh).op(OpArgs::Layoutcommit(args)).send().await
}

/// The layout granted: the whole file in one segment, a filehandle for every data server.
#[tokio::test]
async fn whole_file_layouts() {
    let cluster = Cluster::striped(2).await;
    let mut c = Client::mount(&cluster, "a").await;
    let (fh, stateid) = c.file("f").await;
    let reply = get(&mut c, &fh, layoutget(stateid, IoMode::RW)).await.ok();
    let (layout, files) = (reply.layout(), files_layout(&reply));
    assert!(layout.return_on_close);
    assert_eq!(layout.stateid.seqid, Seqid(1));
    let segment = &layout.layout[0];
    assert_eq!((segment.offset, segment.length, segment.iomode), (0, u64::MAX, IoMode::RW));
    assert_eq!(files.filehandles.len(), 2);
    assert_eq!((files.util.stripe_unit_bytes, files.util.dense), (1 << 20, false));
    // A second one under the layout's own stateid: same state, next seqid.
    let more = get(&mut c, &fh, layoutget(layout.stateid, IoMode::READ)).await.ok().layout();
    assert_eq!((more.stateid.seqid, more.stateid.other), (Seqid(2), layout.stateid.other));
}

/// Every argument of LAYOUTGET that is refused.
#[tokio::test]
async fn layoutget_refusals() {
    let cluster = Cluster::striped(2).await;
    let mut c = Client::mount(&cluster, "a").await;
    let mut other = Client::mount(&cluster, "b").await;
    let (fh, stateid) = c.file("f").await;
    let (_, foreign) = other.file("f").await;
    let read_only = OpenArgs { share_access: share::ACCESS_READ, ..open("ro", OpenClaim::Fh) };
    let read_only = c.compound().putfh(&fh).open(read_only).send().await.ok().stateid();
    let good = || layoutget(stateid, IoMode::RW);
    let cases = [
        (
            LayoutgetArgs { layout_type: LayoutType::FLEX_FILES, ..good() },
            NfsStat::UNKNOWN_LAYOUTTYPE,
        ),
        (LayoutgetArgs { layout_type: LayoutType(77), ..good() }, NfsStat::UNKNOWN_LAYOUTTYPE),
        (LayoutgetArgs { iomode: IoMode::ANY, ..good() }, NfsStat::BADIOMODE),
        (LayoutgetArgs { iomode: IoMode(9), ..good() }, NfsStat::BADIOMODE),
        (LayoutgetArgs { length: 0, ..good() }, NfsStat::INVAL),
        (LayoutgetArgs { length: 10, minlength: 11, ..good() }, NfsStat::INVAL),
        (LayoutgetArgs { offset: 2, length: u64::MAX - 1, minlength: 0, ..good() }, NfsStat::INVAL),
        (LayoutgetArgs { offset: u64::MAX, minlength: 2, ..good() }, NfsStat::INVAL),
        (LayoutgetArgs { maxcount: 0, ..good() }, NfsStat::TOOSMALL),
        (LayoutgetArgs { maxcount: 60, ..good() }, NfsStat::TOOSMALL),
        (layoutget(read_only, IoMode::RW), NfsStat::OPENMODE),
        (layoutget(foreign, IoMode::RW), NfsStat::BAD_STATEID),
        (layoutget(Stateid::ANONYMOUS, IoMode::RW), NfsStat::BAD_STATEID),
        (layoutget(Stateid { seqid: Seqid(9), ..stateid }, IoMode::RW), NfsStat::BAD_STATEID),
    ];
    for (args, status) in cases {
        let what = format!("{args:?}");
        let reply = get(&mut c, &fh, args).await;
        assert_eq!(reply.status(), status, "{what}");
    }
    get(&mut c, &fh, layoutget(read_only, IoMode::READ)).await.ok();
    let dir = c.public_dir("d").await;
    let of_dir = get(&mut c, &dir, good()).await.status();
    assert_eq!(of_dir, NfsStat::WRONG_TYPE);
}

/// A layout that just fits `loga_maxcount`, and one byte less.
#[tokio::test]
async fn layoutget_maxcount_is_exact() {
    let cluster = Cluster::striped(2).await;
    let mut c = Client::mount(&cluster, "a").await;
    let (fh, stateid) = c.file("f").await;
    let reply = get(&mut c, &fh, layoutget(stateid, IoMode::READ)).await.ok();
    let head = 12 + 44 + 8 + 8;
    let exact = u32::try_from(reply.raw.len() - head).unwrap();
    let args = |maxcount| LayoutgetArgs { maxcount, ..layoutget(stateid, IoMode::READ) };
    get(&mut c, &fh, args(exact)).await.ok();
    get(&mut c, &fh, args(exact - 1)).await.is(NfsStat::TOOSMALL);
}

/// Without data servers there are no layouts, and no devices to write to, which is not a full disk:
/// LAYOUTUNAVAILABLE is for LAYOUTGET alone (RFC 8881 §15.2).
#[tokio::test]
async fn no_data_servers() {
    let cluster = Cluster::striped(0).await;
    let mut c = Client::mount(&cluster, "a").await;
    let (fh, stateid) = c.file("f").await;
    get(&mut c, &fh, layoutget(stateid, IoMode::RW)).await.is(NfsStat::LAYOUTUNAVAILABLE);
    let allocate = OpArgs::Allocate(AllocateArgs { stateid, offset: 0, length: 1 });
    for op in [write(stateid, 0, b"x"), allocate] {
        c.compound().putfh(&fh).op(op).expect(NfsStat::NXIO).await;
    }
}

/// GETDEVICEINFO: the device of a layout, size limits, and devices that are none.
#[tokio::test]
async fn getdeviceinfo() {
    let cluster = Cluster::striped(2).await;
    let mut c = Client::mount(&cluster, "a").await;
    let (fh, stateid) = c.file("f").await;
    let device =
        files_layout(&get(&mut c, &fh, layoutget(stateid, IoMode::READ)).await.ok()).device;
    let ask = |device_id, layout_type, maxcount| {
        let notify_types = Bitmap::from_words(&[0b110]);
        let args = GetdeviceinfoArgs { device_id, layout_type, maxcount, notify_types };
        OpArgs::Getdeviceinfo(args)
    };
    let files = LayoutType::NFSV4_1_FILES;
    let reply = c.compound().op(ask(device, files, 4096)).send().await.ok();
    let Ok(OpOk::Getdeviceinfo(ok)) = &reply.last().result else { panic!("{reply:?}") };
    assert_eq!(ok.notification, Bitmap::from_words(&[0b110]));
    let address: FilesDeviceAddr = weft_xdr::from_bytes(ok.addr_body.0.clone()).unwrap();
    assert_eq!(address.data_servers.len(), 2);
    assert_eq!(address.stripe_indices, [0, 1]);
    let head = 12 + 44 + 8;
    let exact = u32::try_from(reply.raw.len() - head).unwrap();
    c.compound().op(ask(device, files, exact)).expect(NfsStat::OK).await;
    let small = c.compound().op(ask(device, files, exact - 1)).expect(NfsStat::TOOSMALL).await;
    assert_eq!(*small.failure(), FailureBody::Mincount(exact));
    // §18.40.3: no room at all asks for the notifications only.
    let none = c.compound().op(ask(device, files, 0)).send().await.ok();
    let Ok(OpOk::Getdeviceinfo(ok)) = &none.last().result else { panic!("{none:?}") };
    assert!(ok.addr_body.0.is_empty());
    c.compound().op(ask(DeviceId([1; 16]), files, 4096)).expect(NfsStat::NOENT).await;
    let flex = c.compound().op(ask(device, LayoutType::FLEX_FILES, 4096));
    flex.expect(NfsStat::UNKNOWN_LAYOUTTYPE).await;
}

/// A read layout reads on the data servers and does not write.
#[tokio::test]
async fn rights_of_layouts() {
    let cluster = Cluster::striped(2).await;
    let mut c = Client::mount(&cluster, "a").await;
    let (fh, stateid) = c.file("f").await;
    let rw = files_layout(&get(&mut c, &fh, layoutget(stateid, IoMode::RW)).await.ok());
    let ro = files_layout(&get(&mut c, &fh, layoutget(stateid, IoMode::READ)).await.ok());
    let first = usize::try_from(rw.first_stripe_index).unwrap();
    let mut ds = on_data_server(&cluster, first, "a").await;
    let (rw, ro) = (layout_handle(&rw, first), layout_handle(&ro, first));
    ds.compound().putfh(&rw).op(write(stateid, 0, b"data")).expect(NfsStat::OK).await;
    let refused = ds.compound().putfh(&ro).op(write(stateid, 0, b"evil")).send().await;
    assert_ne!(refused.status(), NfsStat::OK);
    let data = ds.compound().putfh(&ro).op(read(stateid, 0, 4)).send().await.ok().data();
    assert_eq!(data.0, "data");
    // The handles of the metadata server mean nothing here, nor forged ones.
    ds.compound().putfh(&fh).expect(NfsStat::BADHANDLE).await;
    let mut forged = rw.0.to_vec();
    forged[15] ^= 1;
    ds.compound().putfh(&FileHandle(forged.into())).expect(NfsStat::BADHANDLE).await;
    c.compound().putfh(&rw).expect(NfsStat::BADHANDLE).await;
}

/// What was written to data servers shows in size and change without any LAYOUTCOMMIT (design
/// D8): while the layout is out, and after it came back.
#[tokio::test]
async fn truth_without_layoutcommit() {
    let cluster = Cluster::striped(2).await;
    let mut c = Client::mount(&cluster, "a").await;
    let mut other = Client::mount(&cluster, "b").await;
    let (fh, stateid) = c.file("f").await;
    let reply = get(&mut c, &fh, layoutget(stateid, IoMode::RW)).await.ok();
    let files = files_layout(&reply);
    let first = usize::try_from(files.first_stripe_index).unwrap();
    let wanted = [AttrNo::SIZE, AttrNo::CHANGE];
    let before = other.compound().putfh(&fh).getattr(&wanted).send().await.ok().attrs();
    let mut ds = on_data_server(&cluster, first, "a").await;
    let target = layout_handle(&files, first);
    ds.compound().putfh(&target).op(write(stateid, 0, &[7; 1234])).send().await.ok();
    let during = other.compound().putfh(&fh).getattr(&wanted).send().await.ok().attrs();
    assert_eq!(during.size, Some(1234));
    assert!(during.change > before.change);
    let data = other.compound().putfh(&fh).op(read(Stateid::ANONYMOUS, 0, 9000)).send().await;
    assert_eq!(data.ok().data().0, vec![7; 1234]);
    ds.compound().putfh(&target).op(write(stateid, 0, &[8; 2000])).send().await.ok();
    let back = layoutreturn(reply.stateid(), IoMode::ANY);
    give_back(&mut c, &fh, back).await.ok();
    let after = other.compound().putfh(&fh).getattr(&wanted).send().await.ok().attrs();
    assert_eq!(after.size, Some(2000));
    assert!(after.change > during.change);
    let still = other.compound().putfh(&fh).getattr(&wanted).send().await.ok().attrs();
    assert_eq!(still.change, after.change);
}

/// All who ask at once are told the new size, not only the one who hears it first.
#[tokio::test(flavor = "multi_thread")]
async fn truth_for_all_who_ask_at_once() {
    let cluster = Cluster::striped(1).await;
    let mut c = Client::mount(&cluster, "a").await;
    let mut askers = [
        Client::mount(&cluster, "b").await,
        Client::mount(&cluster, "c").await,
        Client::mount(&cluster, "d").await,
    ];
    let (fh, stateid) = c.file("f").await;
    let reply = get(&mut c, &fh, layoutget(stateid, IoMode::RW)).await.ok();
    let target = layout_handle(&files_layout(&reply), 0);
    let mut ds = on_data_server(&cluster, 0, "a").await;
    let wanted = [AttrNo::SIZE];
    for size in 1..200_u64 {
        ds.compound().putfh(&target).op(write(stateid, size - 1, &[7])).send().await.ok();
        let [b, c, d] = &mut askers;
        let (b, c, d) = tokio::join!(
            b.compound().putfh(&fh).getattr(&wanted).send(),
            c.compound().putfh(&fh).getattr(&wanted).send(),
            d.compound().putfh(&fh).getattr(&wanted).send(),
        );
        for told in [b, c, d] {
            assert_eq!(told.ok().attrs().size, Some(size));
        }
    }
}

/// LAYOUTCOMMIT makes what is on the data servers visible, never shrinks the file, and refuses the
/// rest. How far the client says it wrote is not believed: the data servers know.
#[tokio::test]
async fn layoutcommit_outcomes() {
    let cluster = Cluster::striped(2).await;
    let mut c = Client::mount(&cluster, "a").await;
    let mut other = Client::mount(&cluster, "b").await;
    let (fh, stateid) = c.file("f").await;
    let (g, _) = c.file("g").await;
    let read_only = get(&mut c, &fh, layoutget(stateid, IoMode::READ)).await.ok().stateid();
    commit(&mut c, &fh, layoutcommit(read_only, Some(9))).await.is(NfsStat::BADIOMODE);
    let reply = get(&mut c, &fh, layoutget(stateid, IoMode::RW)).await.ok();
    let (layout, files) = (reply.stateid(), files_layout(&reply));
    let first = usize::try_from(files.first_stripe_index).unwrap();
    let mut ds = on_data_server(&cluster, first, "a").await;
    let target = layout_handle(&files, first);
    ds.compound().putfh(&target).op(write(stateid, 0, &[7; 10])).send().await.ok();
    let grown = commit(&mut c, &fh, layoutcommit(layout, Some(5_000_000))).await.ok();
    let Ok(OpOk::Layoutcommit(ok)) = &grown.last().result else { panic!("{grown:?}") };
    assert_eq!(ok.newsize, Some(10));
    let same = commit(&mut c, &fh, layoutcommit(layout, Some(3))).await.ok();
    let Ok(OpOk::Layoutcommit(ok)) = &same.last().result else { panic!("{same:?}") };
    assert_eq!(ok.newsize, None);
    let good = || layoutcommit(layout, Some(99));
    let flex = LayoutType::FLEX_FILES;
    let cases = [
        (LayoutcommitArgs { layout_type: flex, ..good() }, NfsStat::UNKNOWN_LAYOUTTYPE),
        (LayoutcommitArgs { offset: 2, length: u64::MAX - 1, ..good() }, NfsStat::INVAL),
        (layoutcommit(layout, Some(u64::MAX)), NfsStat::INVAL),
        (LayoutcommitArgs { reclaim: true, ..good() }, NfsStat::NO_GRACE),
        (layoutcommit(stateid, Some(99)), NfsStat::BADLAYOUT),
        (layoutcommit(Stateid::ANONYMOUS, Some(99)), NfsStat::BADLAYOUT),
    ];
    for (args, status) in cases {
        let what = format!("{args:?}");
        assert_eq!(commit(&mut c, &fh, args).await.status(), status, "{what}");
    }
    commit(&mut c, &g, good()).await.is(NfsStat::BADLAYOUT);
    commit(&mut other, &fh, good()).await.is(NfsStat::BADLAYOUT);
    let attrs = c.compound().putfh(&fh).getattr(&[AttrNo::SIZE]).send().await.ok().attrs();
    assert_eq!(attrs.size, Some(10));
}

/// LAYOUTRETURN: of a part, of everything, of nothing, and what is refused.
#[tokio::test]
async fn layoutreturn_outcomes() {
    let cluster = Cluster::striped(2).await;
    let mut c = Client::mount(&cluster, "a").await;
    let (fh, stateid) = c.file("f").await;
    let old = get(&mut c, &fh, layoutget(stateid, IoMode::READ)).await.ok().stateid();
    let now = get(&mut c, &fh, layoutget(old, IoMode::RW)).await.ok().stateid();
    let flex = LayoutType::FLEX_FILES;
    let good = || layoutreturn(now, IoMode::ANY);
    let cases = [
        (LayoutreturnArgs { layout_type: flex, ..good() }, NfsStat::UNKNOWN_LAYOUTTYPE),
        (LayoutreturnArgs { reclaim: true, ..good() }, NfsStat::NO_GRACE),
        (layoutreturn(now, IoMode(9)), NfsStat::INVAL),
        (layoutreturn(stateid, IoMode::ANY), NfsStat::BAD_STATEID),
        (layoutreturn(old, IoMode::ANY), NfsStat::OLD_STATEID),
        (layoutreturn(Stateid { seqid: Seqid(0), ..now }, IoMode::ANY), NfsStat::BAD_STATEID),
        (layoutreturn(Stateid { seqid: Seqid(77), ..now }, IoMode::ANY), NfsStat::BAD_STATEID),
    ];
    for (args, status) in cases {
        let what = format!("{args:?}");
        assert_eq!(give_back(&mut c, &fh, args).await.status(), status, "{what}");
    }
    let left = give_back(&mut c, &fh, layoutreturn(now, IoMode::RW)).await.ok().stateid();
    assert_eq!((left.seqid, left.other), (Seqid(3), now.other));
    let last = give_back(&mut c, &fh, layoutreturn(left, IoMode::READ)).await.ok();
    let Ok(OpOk::Layoutreturn(ok)) = &last.last().result else { panic!("{last:?}") };
    assert_eq!(ok.stateid, None);
    for everything in [LayoutReturn::Fsid, LayoutReturn::All] {
        let held = get(&mut c, &fh, layoutget(stateid, IoMode::RW)).await.ok().stateid();
        let args = LayoutreturnArgs { layoutreturn: everything, ..good() };
        give_back(&mut c, &fh, args).await.ok();
        get(&mut c, &fh, layoutget(held, IoMode::RW)).await.is(NfsStat::BAD_STATEID);
    }
}

/// Another client's truncation recalls a write layout; it waits until the layout is back.
#[tokio::test]
async fn recall_answered_and_returned() {
    let cluster = Cluster::striped(2).await;
    let (mut a, mut b, fh, of_a, of_b) = two(&cluster).await;
    let held = get(&mut a, &fh, layoutget(of_a, IoMode::RW)).await.ok().stateid();
    let cut = || setattr(of_b, size(0));
    b.compound().putfh(&fh).op(cut()).expect(NfsStat::DELAY).await;
    let callback = a.wire.callback().await;
    let recalled = callback.recalled();
    assert_eq!((recalled.seqid, recalled.other), (held.seqid.next(), held.other));
    assert_eq!(callback.head.minorversion, 2);
    // Nothing new is granted meanwhile, and nothing is cut.
    get(&mut a, &fh, layoutget(held, IoMode::RW)).await.is(NfsStat::RECALLCONFLICT);
    b.compound().putfh(&fh).op(cut()).expect(NfsStat::DELAY).await;
    a.wire.answer(&callback, NfsStat::OK).await;
    give_back(&mut a, &fh, layoutreturn(recalled, IoMode::ANY)).await.ok();
    b.compound().putfh(&fh).op(cut()).expect(NfsStat::OK).await;
    get(&mut a, &fh, layoutget(of_a, IoMode::RW)).await.ok();
}

/// A recall is repeated, with the same stateid, until the layout is back: Linux returns it only
/// when asked with nothing left to commit.
#[tokio::test]
async fn recall_is_repeated_until_returned() {
    let cluster = Cluster::striped(2).await;
    let (mut a, mut b, fh, of_a, of_b) = two(&cluster).await;
    get(&mut a, &fh, layoutget(of_a, IoMode::RW)).await.ok();
    let cut = setattr(of_b, size(0));
    b.compound().putfh(&fh).op(cut.clone()).expect(NfsStat::DELAY).await;
    let first = a.wire.callback().await;
    a.wire.answer(&first, NfsStat::OK).await;
    let second = a.wire.callback().await;
    assert_eq!(second.recalled(), first.recalled());
    give_back(&mut a, &fh, layoutreturn(first.recalled(), IoMode::ANY)).await.ok();
    // Late, and about a layout that is back: the next one does not suffer.
    let next = get(&mut a, &fh, layoutget(of_a, IoMode::RW)).await.ok().stateid();
    a.wire.answer(&second, NfsStat::NOMATCHING_LAYOUT).await;
    b.compound().putfh(&fh).op(cut.clone()).expect(NfsStat::DELAY).await;
    let third = a.wire.callback().await;
    assert_eq!(third.recalled().other, next.other);
    a.wire.answer(&third, NfsStat::OK).await;
    give_back(&mut a, &fh, layoutreturn(third.recalled(), IoMode::ANY)).await.ok();
    until_done(&mut a, &mut b, &fh, cut).await;
}

/// A recall goes on, with the stateid of now, when only a part of the layout is returned.
#[tokio::test]
async fn recall_goes_on_after_a_partial_return() {
    let cluster = Cluster::striped(2).await;
    let (mut a, mut b, fh, of_a, of_b) = two(&cluster).await;
    let held = get(&mut a, &fh, layoutget(of_a, IoMode::READ)).await.ok().stateid();
    get(&mut a, &fh, layoutget(held, IoMode::RW)).await.ok();
    let cut = setattr(of_b, size(0));
    b.compound().putfh(&fh).op(cut.clone()).expect(NfsStat::DELAY).await;
    let first = a.wire.callback().await;
    a.wire.answer(&first, NfsStat::OK).await;
    let rest = give_back(&mut a, &fh, layoutreturn(first.recalled(), IoMode::READ)).await.ok();
    let rest = rest.stateid();
    let mut again = a.wire.callback().await;
    while again.recalled() == first.recalled() {
        a.wire.answer(&again, NfsStat::OK).await;
        again = a.wire.callback().await;
    }
    assert_eq!(again.recalled(), rest);
    a.wire.answer(&again, NfsStat::OK).await;
    give_back(&mut a, &fh, layoutreturn(rest, IoMode::RW)).await.ok();
    until_done(&mut a, &mut b, &fh, cut).await;
}

/// Which program callbacks are for is the client's choice, odd as it may be (§18.33.3).
#[tokio::test]
async fn callbacks_go_to_any_program() {
    let cluster = Cluster::striped(2).await;
    let (mut a, mut b, fh, of_a, of_b) = two(&cluster).await;
    let sec_parms = CallbackSecs(vec![CallbackSec::None]);
    let odd = BackchannelCtlArgs { cb_program: weft_nfs::NFS_PROGRAM, sec_parms };
    a.compound().op(OpArgs::BackchannelCtl(odd)).expect(NfsStat::OK).await;
    get(&mut a, &fh, layoutget(of_a, IoMode::RW)).await.ok();
    let cut = setattr(of_b, size(0));
    b.compound().putfh(&fh).op(cut.clone()).expect(NfsStat::DELAY).await;
    let recall = tokio::time::timeout(PATIENCE, a.wire.callback()).await.unwrap();
    a.wire.answer(&recall, NfsStat::OK).await;
    give_back(&mut a, &fh, layoutreturn(recall.recalled(), IoMode::ANY)).await.ok();
    until_done(&mut a, &mut b, &fh, cut).await;
}

/// Repeats an operation of `b` until it is not told to come back; meanwhile `a` stays alive.
async fn until_done(a: &mut Client, b: &mut Client, fh: &FileHandle, op: OpArgs) -> u32 {
    let (deadline, mut flags) = (Instant::now() + PATIENCE, 0);
    loop {
        flags |= a.renew().await.sequence().status_flags;
        match b.compound().putfh(fh).op(op.clone()).send().await.status() {
            NfsStat::OK => return flags | a.renew().await.sequence().status_flags,
            status => assert_eq!(status, NfsStat::DELAY),
        }
        assert!(Instant::now() < deadline, "the recall never ends");
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
}

/// NOMATCHING_LAYOUT ends a recall at once: no LAYOUTRETURN follows.
#[tokio::test]
async fn recall_of_what_is_gone() {
    let cluster = Cluster::striped(2).await;
    let (mut a, mut b, fh, of_a, of_b) = two(&cluster).await;
    get(&mut a, &fh, layoutget(of_a, IoMode::RW)).await.ok();
    let cut = setattr(of_b, size(0));
    b.compound().putfh(&fh).op(cut.clone()).expect(NfsStat::DELAY).await;
    let callback = a.wire.callback().await;
    a.wire.answer(&callback, NfsStat::NOMATCHING_LAYOUT).await;
    let flags = until_done(&mut a, &mut b, &fh, cut).await;
    assert_eq!(flags, 0);
}

/// A client that never answers: after the lease its layout is revoked, it is told so once, and
/// its handles are worthless on the data servers.
#[tokio::test]
async fn silence_is_revoked_and_fenced() {
    let cluster =
        Cluster::with(Options { data_servers: 2, lease_s: 1, ..Options::default() }).await;
    let (mut a, mut b, fh, of_a, of_b) = two(&cluster).await;
    let reply = get(&mut a, &fh, layoutget(of_a, IoMode::RW)).await.ok();
    let files = files_layout(&reply);
    let first = usize::try_from(files.first_stripe_index).unwrap();
    let mut ds = on_data_server(&cluster, first, "a").await;
    let target = layout_handle(&files, first);
    ds.compound().putfh(&target).op(write(of_a, 0, &[1; 100])).send().await.ok();
    let flags = until_done(&mut a, &mut b, &fh, setattr(of_b, size(0))).await;
    assert_ne!(flags & seq4_status::RECALLABLE_STATE_REVOKED, 0);
    assert_eq!(flags & seq4_status::EXPIRED_ALL_STATE_REVOKED, 0);
    let told_once = a.renew().await.sequence().status_flags;
    assert_eq!(told_once & seq4_status::RECALLABLE_STATE_REVOKED, 0);
    let late = ds.compound().putfh(&target).op(write(of_a, 0, &[2; 100])).send().await;
    assert_ne!(late.status(), NfsStat::OK);
    let gone = give_back(&mut a, &fh, layoutreturn(reply.stateid(), IoMode::ANY)).await;
    gone.is(NfsStat::BAD_STATEID);
    commit(&mut a, &fh, layoutcommit(reply.stateid(), Some(99))).await.is(NfsStat::BADLAYOUT);
    let attrs = b.compound().putfh(&fh).getattr(&[AttrNo::SIZE]).send().await.ok().attrs();
    assert_eq!(attrs.size, Some(0));
    // The open was not touched, and a new layout works.
    let fresh = files_layout(&get(&mut a, &fh, layoutget(of_a, IoMode::RW)).await.ok());
    let works = ds.compound().putfh(&layout_handle(&fresh, first)).op(write(of_a, 0, b"x"));
    works.expect(NfsStat::OK).await;
}

/// A write through the metadata server fences the layout its client gave up ("ghost writes").
#[tokio::test]
async fn indirect_write_fences_its_own_layout() {
    let cluster = Cluster::striped(1).await;
    let mut a = Client::mount(&cluster, "a").await;
    let (fh, stateid) = a.file("f").await;
    let files = files_layout(&get(&mut a, &fh, layoutget(stateid, IoMode::RW)).await.ok());
    let mut ds = on_data_server(&cluster, 0, "a").await;
    a.compound().putfh(&fh).op(write(stateid, 0, b"through")).send().await.ok();
    let ghost = ds.compound().putfh(&layout_handle(&files, 0)).op(write(stateid, 0, b"ghost!!"));
    assert_ne!(ghost.send().await.status(), NfsStat::OK);
    let data = a.compound().putfh(&fh).op(read(stateid, 0, 100)).send().await.ok().data();
    assert_eq!(data.0, "through");
}

/// Who opens to write need not write: no layout to write with comes with the OPEN. One to read with
/// does.
#[tokio::test]
async fn an_open_brings_no_layout_to_write_with() {
    let cluster = Cluster::striped(2).await;
    let mut c = Client::mount(&cluster, "a").await;
    let (fh, id) = c.file("f").await;
    c.compound().putfh(&fh).op(write(id, 0, b"on data servers")).send().await.ok();
    let within_open = |iomode| {
        let get = OpArgs::Layoutget(layoutget(Stateid::CURRENT, iomode));
        [OpArgs::Open(open("o", OpenClaim::Fh)), get]
    };
    let [open, to_write] = within_open(IoMode::RW);
    let asked = c.compound().putfh(&fh).op(open).op(to_write).send().await;
    asked.is(NfsStat::LAYOUTUNAVAILABLE);
    let [open, to_read] = within_open(IoMode::READ);
    c.compound().putfh(&fh).op(open).op(to_read).send().await.ok();
    get(&mut c, &fh, layoutget(id, IoMode::RW)).await.ok();
}

/// As long as a write must take set-id bits away, it goes through the metadata server: data servers
/// do not know who writes.
#[tokio::test]
async fn privileged_files_are_written_indirectly() {
    let cluster = Cluster::striped(1).await;
    let mut root = Client::mount(&cluster, "a").await;
    let (fh, of_root) = root.file("f").await;
    root.compound().putfh(&fh).op(setattr(of_root, mode(0o6777))).send().await.ok();
    get(&mut root, &fh, layoutget(of_root, IoMode::RW)).await.ok();
    let mut user = Client::mount_as(&cluster, "b", 1000).await;
    let opened = user.compound().putfh(&fh).open(open("o", OpenClaim::Fh)).send().await.ok();
    let stateid = opened.stateid();
    get(&mut user, &fh, layoutget(stateid, IoMode::READ)).await.ok();
    let refused = get(&mut user, &fh, layoutget(stateid, IoMode::RW)).await;
    refused.is(NfsStat::LAYOUTUNAVAILABLE);
    user.compound().putfh(&fh).op(write(stateid, 0, b"x")).send().await.ok();
    let attrs = user.compound().putfh(&fh).getattr(&[AttrNo::MODE]).send().await.ok().attrs();
    assert_eq!(attrs.mode, Some(0o777));
    get(&mut user, &fh, layoutget(stateid, IoMode::RW)).await.ok();
}

/// LAYOUTCOMMIT takes away what a write does, and no more: a set-group-id bit without group-execute
/// stays if a member of the group writes, and a commit that brings no news does not move the change
/// attribute.
#[tokio::test]
async fn a_commit_leaves_what_is_no_privilege() {
    let cluster = Cluster::striped(1).await;
    let mut root = Client::mount(&cluster, "a").await;
    let (fh, of_root) = root.file("f").await;
    let group = Some(weft_nfs::attr::numeric_owner(1000));
    let his = weft_nfs::attr::Attrs { owner_group: group, ..mode(0o666) };
    root.compound().putfh(&fh).op(setattr(of_root, his)).send().await.ok();
    let mut user = Client::mount_as(&cluster, "b", 1000).await;
    let opened = user.compound().putfh(&fh).open(open("o", OpenClaim::Fh)).send().await.ok();
    let layout = get(&mut user, &fh, layoutget(opened.stateid(), IoMode::RW)).await.ok().stateid();
    root.compound().putfh(&fh).op(setattr(of_root, mode(0o2666))).send().await.ok();
    let asked = [AttrNo::MODE, AttrNo::CHANGE];
    let before = user.compound().putfh(&fh).getattr(&asked).send().await.ok().attrs();
    commit(&mut user, &fh, layoutcommit(layout, None)).await.ok();
    let after = user.compound().putfh(&fh).getattr(&asked).send().await.ok().attrs();
    assert_eq!((after.mode, after.change), (Some(0o2666), before.change));
    // Privileges that came with the layout already out go with the next commit.
    root.compound().putfh(&fh).op(setattr(of_root, mode(0o6676))).send().await.ok();
    commit(&mut user, &fh, layoutcommit(layout, None)).await.ok();
    let attrs = user.compound().putfh(&fh).getattr(&asked).send().await.ok().attrs();
    assert_eq!(attrs.mode, Some(0o676));
}

/// Ends the client: BUSY if anything is left of it.
async fn end(mut c: Client) -> NfsStat {
    let session = OpArgs::DestroySession(DestroySessionArgs { sessionid: c.sessionid });
    c.bare(&[session]).await.ok();
    let destroy = OpArgs::DestroyClientid(DestroyClientidArgs { clientid: c.clientid });
    c.bare(&[destroy]).await.status()
}

/// Linux may return only the read-write layout with its last CLOSE, though it got one to read too:
/// nothing is left of that after the CLOSE, whether the LAYOUTRETURN comes before or behind it in
/// the COMPOUND.
#[tokio::test]
async fn a_read_layout_left_behind_goes_with_the_last_close() {
    let cluster = Cluster::striped(2).await;
    for returned_first in [true, false] {
        let (mut a, mut b, fh, of_a, of_b) = two(&cluster).await;
        let read = get(&mut a, &fh, layoutget(of_a, IoMode::READ)).await.ok().stateid();
        let both = get(&mut a, &fh, layoutget(read, IoMode::RW)).await.ok().stateid();
        let back = OpArgs::Layoutreturn(layoutreturn(both, IoMode::RW));
        let ops = if returned_first { [back, close(of_a)] } else { [close(of_a), back] };
        let last = ops.into_iter().fold(a.compound().putfh(&fh), |c, op| c.op(op));
        last.send().await.ok();
        get(&mut a, &fh, layoutget(both, IoMode::READ)).await.is(NfsStat::BAD_STATEID);
        // Late and needless, and taken for what it is.
        give_back(&mut a, &fh, layoutreturn(both, IoMode::ANY)).await.ok();
        b.compound().putfh(&fh).op(setattr(of_b, size(0))).expect(NfsStat::OK).await;
        assert_eq!(end(a).await, NfsStat::OK, "nothing is left of it");
        b.compound().putfh(&fh).op(close(of_b)).expect(NfsStat::OK).await;
        assert_eq!(end(b).await, NfsStat::OK);
    }
}

/// A read-write layout that is not returned outlives the last CLOSE, its read part with it, and is
/// recalled as before.
#[tokio::test]
async fn a_write_layout_outlives_the_last_close() {
    let cluster = Cluster::striped(2).await;
    let (mut a, mut b, fh, of_a, of_b) = two(&cluster).await;
    let held = get(&mut a, &fh, layoutget(of_a, IoMode::READ)).await.ok().stateid();
    get(&mut a, &fh, layoutget(held, IoMode::RW)).await.ok();
    a.compound().putfh(&fh).op(close(of_a)).expect(NfsStat::OK).await;
    let cut = setattr(of_b, size(0));
    b.compound().putfh(&fh).op(cut.clone()).expect(NfsStat::DELAY).await;
    let callback = a.wire.callback().await;
    assert_eq!(callback.recalled().other, held.other);
    a.wire.answer(&callback, NfsStat::OK).await;
    give_back(&mut a, &fh, layoutreturn(callback.recalled(), IoMode::RW)).await.ok();
    until_done(&mut a, &mut b, &fh, cut).await;
    assert_eq!(end(a).await, NfsStat::OK);
}

/// Nobody can return layouts of a file that is gone: they are forgotten with it, whether a REMOVE,
/// a RENAME over it or the last CLOSE after either lets it go.
#[tokio::test]
async fn layouts_of_a_removed_file_are_forgotten() {
    let cluster = Cluster::striped(2).await;
    for (gone_by, open_still) in [
        (remove("f"), false),
        (remove("f"), true),
        (rename("g", "f"), false),
        (rename("g", "f"), true),
    ] {
        let what = format!("{gone_by:?}, open still: {open_still}");
        let (mut a, mut b, fh, of_a, of_b) = two(&cluster).await;
        let (g, of_g) = b.file("g").await;
        get(&mut a, &fh, layoutget(of_a, IoMode::RW)).await.ok();
        a.compound().putfh(&fh).op(close(of_a)).expect(NfsStat::OK).await;
        b.compound().putfh(&g).op(close(of_g)).expect(NfsStat::OK).await;
        if !open_still {
            b.compound().putfh(&fh).op(close(of_b)).expect(NfsStat::OK).await;
        }
        b.compound().putrootfh().op(OpArgs::Savefh).op(gone_by).expect(NfsStat::OK).await;
        if open_still {
            b.compound().putfh(&fh).op(close(of_b)).expect(NfsStat::OK).await;
        }
        a.compound().putfh(&fh).expect(NfsStat::STALE).await;
        assert_eq!(end(a).await, NfsStat::OK, "{what}");
        assert_eq!(end(b).await, NfsStat::OK, "{what}");
    }
}

/// Without data servers only small files can be written: an administrator is told.
#[tokio::test]
async fn a_cluster_without_data_servers_says_so() {
    let cluster = Cluster::start().await;
    let health = cluster.mds().admin().health().await;
    assert!(health.healthy, "{health:?}");
    let [told] = warnings(&health)[..] else { panic!("{health:?}") };
    assert!(told.starts_with("no data server is configured"), "{told}");
}

/// A client whose I/O comes through the metadata server although data servers have the file is
/// named, with the likely reason: it asks for no layouts, or it has them and does not use them.
#[tokio::test]
async fn clients_that_fall_back_are_named() {
    let cluster = Cluster::striped(1).await;
    let mut c = Client::mount(&cluster, "Linux NFSv4.2 kc12").await;
    let (fh, stateid) = c.file("f").await;
    let admin = cluster.mds().admin();
    // The first one brings the file to its data servers.
    for n in 0..5 {
        assert_eq!(warnings(&admin.health().await), [""; 0], "after {n}");
        c.compound().putfh(&fh).op(write(stateid, 0, b"data")).expect(NfsStat::OK).await;
    }
    let health = admin.health().await;
    assert!(health.healthy);
    let [told] = warnings(&health)[..] else { panic!("{health:?}") };
    assert!(told.starts_with("kc12 (127.0.0.1) sends 4 requests through"), "{told}");
    assert!(told.contains("asks for no layouts"), "{told}");
    let get = OpArgs::Layoutget(layoutget(stateid, IoMode::RW));
    c.compound().putfh(&fh).op(get).expect(NfsStat::OK).await;
    let told = &admin.status().await.fallbacks[0].why;
    assert!(told.contains("does not reach data server 1:"), "{told}");
}

/// Those that are not of the room on this machine's own disk.
fn warnings(health: &Health) -> Vec<&str> {
    let all = health.warnings.iter().map(String::as_str);
    all.filter(|warning| !warning.contains("has little room left")).collect()
}

/// Who has just said how far it wrote is not told in the same breath how long the file is: it may
/// have written on since, and take the answer for newer than that. Who says it again is told.
#[tokio::test]
async fn sizes_do_not_come_with_news() {
    let cluster = Cluster::striped(2).await;
    let mut c = Client::mount(&cluster, "a").await;
    let (fh, open) = c.file("f").await;
    let get = OpArgs::Layoutget(layoutget(open, IoMode::RW));
    let reply = c.compound().putfh(&fh).op(get).send().await.ok();
    let (files, stateid) = (files_layout(&reply), reply.layout().stateid);
    let first = files.first_stripe_index as usize;
    let mut ds = on_data_server(&cluster, first, "a").await;
    let data = write(Stateid::ANONYMOUS, 0, &[7; 1000]);
    ds.compound().putfh(&layout_handle(&files, first)).op(data).expect(NfsStat::OK).await;
    let commit = |last| OpArgs::Layoutcommit(layoutcommit(stateid, last));
    let size = [AttrNo::SIZE];
    for last in [999, 1999] {
        let told = c.compound().putfh(&fh).op(commit(Some(last))).getattr(&size);
        told.expect(NfsStat::DELAY).await;
        let again = c.compound().putfh(&fh).op(commit(Some(last))).getattr(&size).send().await;
        assert_eq!(again.ok().attrs().size, Some(1000));
    }
    let mode = c.compound().putfh(&fh).op(commit(Some(7))).getattr(&[AttrNo::MODE]);
    mode.expect(NfsStat::OK).await;
    let none = c.compound().putfh(&fh).op(commit(None)).getattr(&size);
    none.expect(NfsStat::OK).await;
    let later = c.compound().putfh(&fh).getattr(&size).send().await.ok();
    assert_eq!(later.attrs().size, Some(1000));
}
