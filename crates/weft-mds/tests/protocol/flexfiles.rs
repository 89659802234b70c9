//! Volumes that give flexfiles layouts: RFC 8435, RFC 8881 §18.40-§18.44, and ADR 31.

use bytes::Bytes;
use weft_layout::{
    FlexDeviceAddr, FlexFlags, FlexIoErrors, FlexLayout, FlexReturn, FlexVersion, NetAddr,
};
use weft_mds::{LayoutKind, SmallFiles};
use weft_nfs::{
    AttrNo, Bitmap, DeviceId, FileHandle, IoMode, LayoutType, NfsStat, OpArgs, OpNum, OpOk,
    StableHow, Stateid, ops::*,
};
use weft_xdr::Payload;

use crate::support::*;

const FLEX: LayoutType = LayoutType::FLEX_FILES;

async fn cluster(data_servers: u32) -> Cluster {
    let small_files = SmallFiles::OFF;
    let layout = LayoutKind::FlexFiles;
    Cluster::with(Options { data_servers, small_files, layout, ..Options::default() }).await
}

fn wanted(stateid: Stateid, iomode: IoMode) -> OpArgs {
    OpArgs::Layoutget(LayoutgetArgs { layout_type: FLEX, ..layoutget(stateid, iomode) })
}

async fn granted(c: &mut Client, fh: &FileHandle, stateid: Stateid) -> (Stateid, FlexLayout) {
    let reply = c.compound().putfh(fh).op(wanted(stateid, IoMode::RW)).send().await.ok();
    let layout = reply.layout();
    let [segment] = &layout.layout[..] else { panic!("{layout:?}") };
    assert_eq!((segment.layout_type, segment.offset, segment.length), (FLEX, 0, u64::MAX));
    (layout.stateid, weft_xdr::from_bytes(segment.body.0.clone()).unwrap())
}

fn returned(stateid: Stateid, body: Bytes) -> OpArgs {
    OpArgs::Layoutreturn(LayoutreturnArgs {
        layout_type: FLEX,
        layoutreturn: LayoutReturn::File { offset: 0, length: u64::MAX, stateid, body: Body(body) },
        ..layoutreturn(stateid, IoMode::ANY)
    })
}

/// What LAYOUTRETURN says of these devices.
fn told(devices: &[DeviceId], status: NfsStat) -> Bytes {
    let error =
        |device_id: &DeviceId| DeviceError { device_id: *device_id, status, op: OpNum::WRITE };
    let errors = DeviceErrors(devices.iter().map(error).collect());
    let error = FlexIoErrors { offset: 0, length: 4096, stateid: Stateid::ANONYMOUS, errors };
    weft_xdr::to_bytes(&FlexReturn { io_errors: vec![error], io_stats: Vec::new() })
}

/// One mirror on one data server, which is told as tightly coupled; the files type is none of this
/// volume.
#[tokio::test]
async fn each_file_is_whole_on_one_data_server() {
    let cluster = cluster(3).await;
    let mut c = Client::mount(&cluster, "a").await;
    let (fh, stateid) = c.file("f").await;
    let types = c.compound().putfh(&fh).getattr(&[AttrNo::FS_LAYOUT_TYPES]).send().await.ok();
    assert_eq!(types.attrs().fs_layout_types.unwrap().0, [FLEX.0]);
    let files = c.compound().putfh(&fh).op(OpArgs::Layoutget(layoutget(stateid, IoMode::RW)));
    files.expect(NfsStat::UNKNOWN_LAYOUTTYPE).await;
    let (_, layout) = granted(&mut c, &fh, stateid).await;
    assert_eq!(layout.flags, FlexFlags::default());
    let [mirror] = &layout.mirrors[..] else { panic!("{layout:?}") };
    let [server] = &mirror.data_servers[..] else { panic!("{mirror:?}") };
    assert_eq!(server.filehandles.len(), 1);
    let ask = |layout_type| {
        let notify_types = Bitmap::from_words(&[0b110]);
        let device_id = server.device;
        let args = GetdeviceinfoArgs { device_id, layout_type, maxcount: 4096, notify_types };
        OpArgs::Getdeviceinfo(args)
    };
    let files = c.compound().op(ask(LayoutType::NFSV4_1_FILES));
    files.expect(NfsStat::UNKNOWN_LAYOUTTYPE).await;
    let reply = c.compound().op(ask(FLEX)).send().await.ok();
    let Ok(OpOk::Getdeviceinfo(ok)) = &reply.last().result else { panic!("{reply:?}") };
    let device: FlexDeviceAddr = weft_xdr::from_bytes(ok.addr_body.0.clone()).unwrap();
    let all: Vec<NetAddr> = (0..3).map(|i| cluster.data_server(i).into()).collect();
    assert!(device.addresses.iter().all(|address| all.contains(address)), "{device:?}");
    let [FlexVersion { version: 4, minorversion: 1, tightly_coupled: true, rsize, wsize }] =
        device.versions[..]
    else {
        panic!("{device:?}")
    };
    assert_eq!((rsize, wsize), (4 << 20, 4 << 20));
}

/// The data server says where the file ends; a file that was fenced is refused, as ever.
#[tokio::test]
async fn data_servers_know_the_end() {
    let cluster = cluster(1).await;
    let mut c = Client::mount(&cluster, "a").await;
    let (fh, open) = c.file("f").await;
    let (stateid, layout) = granted(&mut c, &fh, open).await;
    let server = &layout.mirrors[0].data_servers[0];
    let mut ds = on_data_server(&cluster, 0, "a").await;
    let object = server.filehandles[0].clone();
    let read = |offset| OpArgs::Read(ReadArgs { stateid: server.stateid, offset, count: 4096 });
    // Nothing is there yet: the metadata server knows whether that is a hole.
    let nothing = ds.compound().putfh(&object).op(read(0));
    nothing.expect(NfsStat::PNFS_NO_LAYOUT).await;
    let data = Payload::Bytes(Bytes::from_static(b"twelve bytes"));
    let write =
        WriteArgs { stateid: server.stateid, offset: 0, stable: StableHow::FILE_SYNC, data };
    ds.compound().putfh(&object).op(OpArgs::Write(write)).expect(NfsStat::OK).await;
    for (offset, len) in [(0, 12), (5, 7), (12, 0), (4096, 0)] {
        let reply = ds.compound().putfh(&object).op(read(offset)).send().await.ok();
        let Ok(OpOk::Read(ok)) = &reply.last().result else { panic!("{reply:?}") };
        assert_eq!((ok.eof, ok.data.len()), (true, len), "at {offset}");
    }
    c.compound().putfh(&fh).op(returned(stateid, Bytes::new())).expect(NfsStat::OK).await;
}

/// Errors are taken note of, whatever device they name; what is no body of the type is BADXDR, and
/// the layout stays.
#[tokio::test]
async fn returns_tell_errors() {
    let cluster = cluster(1).await;
    let mut c = Client::mount(&cluster, "a").await;
    let (fh, open) = c.file("f").await;
    let (stateid, layout) = granted(&mut c, &fh, open).await;
    let device = layout.mirrors[0].data_servers[0].device;
    let body = told(&[device, DeviceId([9; 16])], NfsStat::IO);
    for bad in [body.slice(..body.len() - 4), Bytes::from_static(&[0xff; 8])] {
        c.compound().putfh(&fh).op(returned(stateid, bad)).expect(NfsStat::BADXDR).await;
    }
    let mut long = body.to_vec();
    long.extend([0; 4]);
    c.compound().putfh(&fh).op(returned(stateid, long.into())).expect(NfsStat::BADXDR).await;
    // Its stateid is good for another one: it is there still.
    let (stateid, _) = granted(&mut c, &fh, stateid).await;
    c.compound().putfh(&fh).op(returned(stateid, body)).expect(NfsStat::OK).await;
    c.compound().putfh(&fh).op(wanted(stateid, IoMode::RW)).expect(NfsStat::BAD_STATEID).await;
}

/// Layouts of a file for reading and for writing, as they are given or refused to a client now.
async fn asked(c: &mut Client, fh: &FileHandle, stateid: Stateid) -> [NfsStat; 2] {
    let mut told = [NfsStat::OK; 2];
    for (told, iomode) in told.iter_mut().zip([IoMode::READ, IoMode::RW]) {
        *told = c.compound().putfh(fh).op(wanted(stateid, iomode)).send().await.status();
    }
    told
}

const BOTH: [NfsStat; 2] = [NfsStat::OK; 2];
const NEITHER: [NfsStat; 2] = [NfsStat::LAYOUTUNAVAILABLE; 2];
/// Of a data server that has no room.
const TO_READ: [NfsStat; 2] = [NfsStat::OK, NfsStat::LAYOUTUNAVAILABLE];

/// No layout leads to a data server that is away: I/O goes through the metadata server, where it
/// waits. When the data server is back all goes on, and what was acknowledged is there.
#[tokio::test]
async fn one_that_is_away_is_waited_for_here() {
    let mut cluster = cluster(1).await;
    let mut c = Client::mount(&cluster, "a").await;
    let (fh, open) = c.file("f").await;
    let (stateid, layout) = granted(&mut c, &fh, open).await;
    let server = &layout.mirrors[0].data_servers[0];
    let mut ds = on_data_server(&cluster, 0, "a").await;
    let acknowledged = write(server.stateid, 0, b"before");
    ds.compound().putfh(&server.filehandles[0]).op(acknowledged).expect(NfsStat::OK).await;
    cluster.stop_data_server(0).await;
    let (fh, told) = (&fh, told(&[server.device], NfsStat::NXIO));
    c.compound().putfh(fh).op(returned(stateid, told)).expect(NfsStat::OK).await;
    assert_eq!(asked(&mut c, fh, open).await, NEITHER);
    c.compound().putfh(fh).op(write(open, 6, b", after")).expect(NfsStat::DELAY).await;
    c.compound().putfh(fh).op(read(open, 0, 100)).expect(NfsStat::DELAY).await;
    cluster.restart_data_server(0).await;
    assert_eq!(asked(&mut c, fh, open).await, BOTH);
    c.compound().putfh(fh).op(write(open, 6, b", after")).expect(NfsStat::OK).await;
    let (data, eof) = c.compound().putfh(fh).op(read(open, 0, 100)).send().await.ok().data();
    assert_eq!((&data[..], eof), (&b"before, after"[..], true));
}

/// Whoever could not use a data server is given no layout there that fails the same way, by
/// LAYOUTRETURN (4.1) and LAYOUTERROR (4.2), for this file and others; other clients are. A handle
/// that has ended is no such reason: a new layout has a new one.
#[tokio::test]
async fn who_met_an_error_goes_through_here() {
    let statuses = [
        (NfsStat::NOSPC, TO_READ),
        (NfsStat::IO, NEITHER),
        (NfsStat::NXIO, NEITHER),
        (NfsStat::SERVERFAULT, NEITHER),
        (NfsStat::PNFS_NO_LAYOUT, BOTH),
    ];
    let cluster = cluster(1).await;
    for (n, (status, then)) in statuses.into_iter().enumerate() {
        for by_return in [true, false] {
            let what = format!("{status} {by_return}");
            let mut c = Client::mount(&cluster, &format!("a{n}{by_return}")).await;
            let mut other = Client::mount(&cluster, &format!("b{n}{by_return}")).await;
            let (fh, open) = c.file(&format!("f{n}{by_return}")).await;
            let (second, second_open) = c.file(&format!("g{n}{by_return}")).await;
            let (third, third_open) = other.file(&format!("h{n}{by_return}")).await;
            let (stateid, layout) = granted(&mut c, &fh, open).await;
            let device_id = layout.mirrors[0].data_servers[0].device;
            if !by_return {
                let error = DeviceError { device_id, status, op: OpNum::WRITE };
                let errors = DeviceErrors(vec![error]);
                let args = LayouterrorArgs { offset: 0, length: 4096, stateid, errors };
                let error = c.compound().putfh(&fh).op(OpArgs::Layouterror(args));
                error.expect(NfsStat::OK).await;
            }
            let body = if by_return { told(&[device_id], status) } else { Bytes::new() };
            c.compound().putfh(&fh).op(returned(stateid, body)).expect(NfsStat::OK).await;
            assert_eq!(asked(&mut c, &fh, open).await, then, "{what}");
            assert_eq!(asked(&mut c, &second, second_open).await, then, "{what}: another file");
            assert_eq!(asked(&mut other, &third, third_open).await, BOTH, "{what}: another client");
            // Nothing is wrong here: it is written.
            c.compound().putfh(&fh).op(write(open, 0, b"x")).expect(NfsStat::OK).await;
        }
    }
}
