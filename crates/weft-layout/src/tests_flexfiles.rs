//! Flexfiles bodies against the RFC's shape, every truncation, and both sides of every bound.

use std::net::SocketAddr;

use bytes::Bytes;
use weft_nfs::{
    DeviceId, FileHandle, NfsStat, NfsTime, OpNum, Opaque, Stateid,
    ops::{DeviceError, DeviceErrors, IoInfo},
};
use weft_xdr::{Decode, DecodeErrorKind, Encode, from_bytes, to_bytes};

use crate::{tests::check_wire, *};

fn addr(text: &str) -> NetAddr {
    text.parse::<SocketAddr>().unwrap().into()
}

fn owner(text: &'static str) -> Opaque {
    Opaque(Bytes::from_static(text.as_bytes()))
}

fn data_server(device: u8) -> FlexDataServer {
    FlexDataServer {
        device: DeviceId([device; 16]),
        efficiency: 7,
        stateid: Stateid::ANONYMOUS,
        filehandles: vec![FileHandle(Bytes::from_static(b"abcde"))],
        user: owner("0"),
        group: owner("00"),
    }
}

fn layout(mirrors: usize, data_servers: usize) -> FlexLayout {
    let mirror = FlexMirror { data_servers: vec![data_server(9); data_servers] };
    FlexLayout {
        stripe_unit_bytes: 1 << 20,
        mirrors: vec![mirror; mirrors],
        flags: FlexFlags::NO_LAYOUTCOMMIT | FlexFlags::WRITE_ONE_MIRROR,
        stats_collect_hint_s: 60,
    }
}

fn device() -> FlexDeviceAddr {
    FlexDeviceAddr {
        addresses: vec![addr("192.0.2.7:2049")],
        versions: vec![FlexVersion {
            version: 4,
            minorversion: 2,
            rsize: 1 << 20,
            wsize: 1 << 19,
            tightly_coupled: true,
        }],
    }
}

fn io_errors() -> FlexIoErrors {
    let error =
        DeviceError { device_id: DeviceId([9; 16]), status: NfsStat::NXIO, op: OpNum::WRITE };
    FlexIoErrors {
        offset: 1,
        length: 2,
        stateid: Stateid::ANONYMOUS,
        errors: DeviceErrors(vec![error]),
    }
}

fn io_stats() -> FlexIoStats {
    let time = NfsTime { seconds: 10, nseconds: 11 };
    let latency = |n| IoLatency {
        ops_requested: n,
        bytes_requested: n + 1,
        ops_completed: n + 2,
        bytes_completed: n + 3,
        bytes_not_delivered: n + 4,
        total_busy_time: time,
        aggregate_completion_time: time,
    };
    FlexIoStats {
        offset: 1,
        length: 2,
        stateid: Stateid::ANONYMOUS,
        read: IoInfo { count: 3, bytes: 4 },
        write: IoInfo { count: 5, bytes: 6 },
        device: DeviceId([9; 16]),
        update: FlexUpdate {
            addr: addr("192.0.2.7:2049"),
            fh: FileHandle(Bytes::from_static(b"abcde")),
            read: latency(20),
            write: latency(30),
            duration: time,
            local: true,
        },
    }
}

/// All bodies round-trip, and are refused when they are cut anywhere or followed by anything.
#[test]
fn bodies_round_trip() {
    for (mirrors, data_servers) in [(1, 1), (3, 1), (2, 4)] {
        check_wire(&layout(mirrors, data_servers));
    }
    check_wire(&device());
    check_wire(&FlexReturn::default());
    check_wire(&FlexReturn { io_errors: vec![io_errors(); 2], io_stats: vec![io_stats(); 2] });
}

/// The bytes of a small layout and device are those of RFC 8435 §4.1 and §5.1, written by hand.
#[test]
fn layouts_have_the_rfc_shape() {
    let want = [
        &[0, 0, 0, 0, 0, 0x10, 0, 0][..],
        &[0, 0, 0, 1, 0, 0, 0, 1],
        &[9; 16],
        &[0, 0, 0, 7],
        &[0; 16],
        &[0, 0, 0, 1, 0, 0, 0, 5],
        b"abcde\0\0\0",
        b"\0\0\0\x010\0\0\0",
        b"\0\0\0\x0200\0\0",
        &[0, 0, 0, 9],
        &[0, 0, 0, 60],
    ];
    assert_eq!(to_bytes(&layout(1, 1)), want.concat());
    let want = [
        &[0, 0, 0, 1][..],
        b"\0\0\0\x03tcp\0",
        b"\0\0\0\x0d192.0.2.7.8.1\0\0\0",
        &[0, 0, 0, 1, 0, 0, 0, 4, 0, 0, 0, 2],
        &[0, 0x10, 0, 0, 0, 8, 0, 0, 0, 0, 0, 1],
    ];
    assert_eq!(to_bytes(&device()), want.concat());
}

/// The bytes of what a LAYOUTRETURN tells are those of RFC 8435 §9, written by hand.
#[test]
fn returns_have_the_rfc_shape() {
    let word = |n: u64| n.to_be_bytes();
    let range = [word(1), word(2)].concat();
    let errors = [&[0, 0, 0, 1][..], &[9; 16], &[0, 0, 0, 6, 0, 0, 0, 38]].concat();
    let time = [&word(10)[..], &[0, 0, 0, 11]].concat();
    let latency = |n: u64| {
        let counts = (n..n + 5).flat_map(word).collect::<Vec<u8>>();
        [&counts[..], &time, &time].concat()
    };
    let want = [
        &[0, 0, 0, 1][..],
        &range,
        &[0; 16],
        &errors,
        &[0, 0, 0, 1],
        &range,
        &[0; 16],
        &(3..7).flat_map(word).collect::<Vec<u8>>(),
        &[9; 16],
        b"\0\0\0\x03tcp\0\0\0\0\x0d192.0.2.7.8.1\0\0\0",
        b"\0\0\0\x05abcde\0\0\0",
        &latency(20),
        &latency(30),
        &time,
        &[0, 0, 0, 1],
    ];
    let told = FlexReturn { io_errors: vec![io_errors()], io_stats: vec![io_stats()] };
    assert_eq!(to_bytes(&told), want.concat());
}

fn kind<T: Encode + Decode>(mut value: T, change: impl Fn(&mut T)) -> Result<(), DecodeErrorKind> {
    change(&mut value);
    from_bytes::<T>(to_bytes(&value)).map(drop).map_err(|e| e.kind)
}

const VALUE: Result<(), DecodeErrorKind> = Err(DecodeErrorKind::Value);
const LIMIT: Result<(), DecodeErrorKind> = Err(DecodeErrorKind::Limit);

/// Each malformed count or value of a layout is refused; its neighbour is accepted.
#[test]
fn malformed_layouts_are_refused() {
    let with = |change: fn(&mut FlexLayout)| kind(layout(1, 1), change);
    assert_eq!(with(|l| l.mirrors.clear()), VALUE);
    assert_eq!(with(|l| l.mirrors = vec![l.mirrors[0].clone(); 16]), Ok(()));
    assert_eq!(with(|l| l.mirrors = vec![l.mirrors[0].clone(); 17]), LIMIT);
    let with = |change: fn(&mut FlexMirror)| kind(layout(1, 1).mirrors.remove(0), change);
    assert_eq!(with(|m| m.data_servers.clear()), VALUE);
    assert_eq!(with(|m| m.data_servers = vec![data_server(1); 256]), Ok(()));
    assert_eq!(with(|m| m.data_servers = vec![data_server(1); 257]), LIMIT);
    let with = |change: fn(&mut FlexDataServer)| kind(data_server(1), change);
    assert_eq!(with(|d| d.filehandles.clear()), VALUE);
    assert_eq!(with(|d| d.filehandles = vec![d.filehandles[0].clone(); 8]), Ok(()));
    assert_eq!(with(|d| d.filehandles = vec![d.filehandles[0].clone(); 9]), LIMIT);
    assert_eq!(with(|d| d.filehandles[0] = FileHandle(Bytes::new())), VALUE);
    assert_eq!(with(|d| d.filehandles[0] = FileHandle(vec![1; 128].into())), Ok(()));
    assert_eq!(with(|d| d.filehandles[0] = FileHandle(vec![1; 129].into())), LIMIT);
    assert_eq!(with(|d| d.user = Opaque(vec![1; 1024].into())), Ok(()));
    assert_eq!(with(|d| d.user = Opaque(vec![1; 1025].into())), LIMIT);
    assert_eq!(with(|d| d.group = Opaque(vec![1; 1025].into())), LIMIT);
}

/// The same of a device, and of what a LAYOUTRETURN tells.
#[test]
fn malformed_devices_and_returns_are_refused() {
    let with = |change: fn(&mut FlexDeviceAddr)| kind(device(), change);
    assert_eq!(with(|d| d.addresses.clear()), VALUE);
    assert_eq!(with(|d| d.addresses = vec![addr("192.0.2.1:1"); 16]), Ok(()));
    assert_eq!(with(|d| d.addresses = vec![addr("192.0.2.1:1"); 17]), LIMIT);
    assert_eq!(with(|d| d.addresses[0].uaddr.clear()), VALUE);
    assert_eq!(with(|d| d.versions.clear()), VALUE);
    assert_eq!(with(|d| d.versions = vec![d.versions[0]; 8]), Ok(()));
    assert_eq!(with(|d| d.versions = vec![d.versions[0]; 9]), LIMIT);
    let with = |change: fn(&mut FlexReturn)| kind(FlexReturn::default(), change);
    assert_eq!(with(|t| t.io_errors = vec![io_errors(); 64]), Ok(()));
    assert_eq!(with(|t| t.io_errors = vec![io_errors(); 65]), LIMIT);
    assert_eq!(with(|t| t.io_stats = vec![io_stats(); 64]), Ok(()));
    assert_eq!(with(|t| t.io_stats = vec![io_stats(); 65]), LIMIT);
    let with = |count| kind(io_errors(), |e| e.errors.0 = vec![e.errors.0[0].clone(); count]);
    assert_eq!([with(64), with(65)], [Ok(()), LIMIT]);
}

/// Mirrors are striped in one way, sparsely (RFC 8435 §6); without stripes no unit is needed.
#[test]
fn mirrors_give_a_distribution() {
    let striped = layout(2, 3).distribution().unwrap();
    assert_eq!(striped.stripe_count(), 3);
    let place = striped.locate(4 << 20);
    assert_eq!((place.stripe_index, place.object_offset), (1, 4 << 20));
    let whole = FlexLayout { stripe_unit_bytes: 0, ..layout(2, 1) };
    let place = whole.distribution().unwrap().locate(u64::MAX);
    assert_eq!((place.stripe_index, place.object_offset), (0, u64::MAX));

    let no_unit = FlexLayout { stripe_unit_bytes: 0, ..layout(1, 2) };
    assert_eq!(no_unit.distribution().map(drop), Err(LayoutError::StripeUnit));
    let mut uneven = layout(2, 3);
    uneven.mirrors[1].data_servers.pop();
    assert_eq!(uneven.distribution().map(drop), Err(LayoutError::Mirrors));
    let none = layout(0, 1).distribution().map(drop);
    assert_eq!(none, Err(LayoutError::Mirrors));
    assert_eq!(layout(1, 0).distribution().map(drop), Err(LayoutError::DataServers));
}

/// There is a filehandle for each version of the device, or none is to be used.
#[test]
fn filehandles_are_by_version() {
    let (mut server, mut device) = (data_server(1), device());
    assert_eq!(server.filehandle(&device, 0), Some(&server.filehandles[0]));
    device.versions.push(device.versions[0]);
    assert_eq!(server.filehandle(&device, 0), None);
    server.filehandles.push(FileHandle(Bytes::from_static(b"two")));
    assert_eq!(server.filehandle(&device, 1), Some(&server.filehandles[1]));
    assert_eq!(server.filehandle(&device, 2), None);
}
