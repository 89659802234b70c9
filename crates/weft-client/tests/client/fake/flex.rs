//! The fake's flexfiles layouts: a mirror on each data server.

use bytes::Bytes;
use weft_layout::{FlexDataServer, FlexDeviceAddr, FlexLayout, FlexMirror, FlexVersion, NetAddr};
use weft_nfs::{DeviceId, FileHandle, Opaque, Seqid, Stateid};

use super::{Fake, Mirrors, exec::object};

/// The minor version that data servers with mirrors are spoken to with.
pub const MINOR_VERSION: u32 = 1;

/// The device of a data server.
pub fn device_id(index: usize) -> DeviceId {
    DeviceId([index as u8; 16])
}

/// What I/O carries at a data server.
pub fn stateid(index: usize) -> Stateid {
    Stateid { seqid: Seqid(0), other: [100 + index as u8; 12] }
}

/// The body of the layout of a file.
pub fn layout(ino: u64, data_servers: usize, mirrors: Mirrors) -> Bytes {
    let mirror = |index| FlexMirror {
        data_servers: vec![FlexDataServer {
            device: device_id(index),
            efficiency: index as u32,
            stateid: stateid(index),
            filehandles: vec![FileHandle(object(ino, index))],
            user: Opaque(Bytes::from_static(b"0")),
            group: Opaque(Bytes::from_static(b"0")),
        }],
    };
    let body = weft_xdr::to_bytes(&FlexLayout {
        stripe_unit_bytes: 0,
        mirrors: (0..data_servers).map(mirror).collect(),
        flags: mirrors.flags,
        stats_collect_hint_s: 0,
    });
    body.slice(..body.len() - mirrors.cut)
}

/// The body of a device.
pub fn device(data_servers: &[Fake], id: DeviceId, mirrors: Mirrors) -> Bytes {
    let version = FlexVersion {
        version: 4,
        minorversion: MINOR_VERSION,
        rsize: 1 << 20,
        wsize: 1 << 19,
        tightly_coupled: !mirrors.loosely_coupled,
    };
    let addresses = vec![NetAddr::from(data_servers[usize::from(id.0[0])].addr)];
    weft_xdr::to_bytes(&FlexDeviceAddr { addresses, versions: vec![version] })
}
