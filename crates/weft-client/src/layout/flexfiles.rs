//! The flexfiles layout type: RFC 8435. Data servers that know the metadata server's state
//! ("tightly coupled") and speak NFSv4.1 or 4.2; files that lie on others go through the metadata
//! server.

use std::{cmp::Reverse, collections::HashMap};

use bytes::Bytes;
use weft_layout::{
    FlexDataServer, FlexDeviceAddr, FlexFlags, FlexIoErrors, FlexLayout, FlexReturn, FlexVersion,
    REPORTS_MAX,
};
use weft_nfs::{
    DeviceId, FileHandle, LayoutType, Stateid,
    ops::{DeviceError, DeviceErrors, LayoutSegment},
};

use super::plan::{
    DataServerAddrs, IoFailure, IoRules, LayoutDriver, LayoutError, Plan, Replicas, StripeTarget,
    tcp_addrs,
};

/// The driver of flexfiles layouts.
///
/// Two flags are hints that it leaves alone: LAYOUTCOMMITs are sent though they need not be, and
/// what no data server takes goes through the metadata server: bytes that are safe come first.
#[derive(Debug, Clone, Copy, Default)]
pub struct FlexFilesDriver;

impl LayoutDriver for FlexFilesDriver {
    fn layout_type(&self) -> LayoutType {
        LayoutType::FLEX_FILES
    }

    fn devices(&self, segment: &LayoutSegment) -> Result<Vec<DeviceId>, LayoutError> {
        let layout = decode_layout(segment)?;
        let servers = layout.mirrors.iter().flat_map(|m| &m.data_servers);
        let mut devices: Vec<DeviceId> = servers.map(|s| s.device).collect();
        devices.sort_unstable_by_key(|d| d.0);
        devices.dedup();
        Ok(devices)
    }

    fn plan(
        &self,
        segment: &LayoutSegment,
        devices: &[(DeviceId, Bytes)],
        _mds_fh: &FileHandle,
    ) -> Result<Plan, LayoutError> {
        let layout = decode_layout(segment)?;
        let distribution = layout.distribution().map_err(LayoutError::new)?;
        let mut device_by_id = HashMap::new();
        for (id, body) in devices {
            device_by_id.insert(*id, Device::new(body)?);
        }
        let mut rules = IoRules {
            writes_one: layout.flags.contains(FlexFlags::WRITE_ONE_MIRROR),
            is_only_for_writing: layout.flags.contains(FlexFlags::NO_READ_IO),
            ..IoRules::default()
        };
        for device in device_by_id.values() {
            rules.read_bytes_max = rules.read_bytes_max.min(device.version.rsize);
            rules.write_bytes_max = rules.write_bytes_max.min(device.version.wsize);
        }
        let stripes = (0..distribution.stripe_count()).map(|i| replicas(&layout, i, &device_by_id));
        Ok(Plan {
            distribution,
            stripe_unit_bytes: distribution.bytes_to_unit_end(0),
            stripes: stripes.collect::<Result<_, _>>()?,
            rules,
        })
    }

    fn returns_failures(&self) -> bool {
        true
    }

    /// `ff_layoutreturn4`: the errors. Nothing is counted for statistics.
    fn return_body(&self, stateid: Stateid, failures: &[IoFailure]) -> Bytes {
        let report = |f: &IoFailure| FlexIoErrors {
            offset: f.from,
            length: f.end - f.from,
            stateid,
            errors: DeviceErrors(vec![DeviceError {
                device_id: f.device,
                status: f.status,
                op: f.op,
            }]),
        };
        let io_errors = failures.iter().take(REPORTS_MAX).map(report).collect();
        weft_xdr::to_bytes(&FlexReturn { io_errors, io_stats: Vec::new() })
    }
}

fn decode_layout(segment: &LayoutSegment) -> Result<FlexLayout, LayoutError> {
    weft_xdr::from_bytes(segment.body.0.clone()).map_err(LayoutError::new)
}

/// The data servers of a stripe index in all mirrors, the most efficient one first, and of those
/// that are equal, the first of the layout.
fn replicas(
    layout: &FlexLayout,
    stripe_index: u32,
    device_by_id: &HashMap<DeviceId, Device>,
) -> Result<Replicas, LayoutError> {
    let at_index = |servers: &[FlexDataServer]| servers.get(stripe_index as usize).cloned();
    let mut servers: Vec<FlexDataServer> =
        layout.mirrors.iter().filter_map(|m| at_index(&m.data_servers)).collect();
    servers.sort_by_key(|s| Reverse(s.efficiency));
    let target = |server: &FlexDataServer| {
        let device = device_by_id.get(&server.device);
        device.ok_or_else(|| LayoutError::new("a device is missing"))?.target(server)
    };
    let targets = servers.iter().map(target).collect::<Result<Vec<_>, _>>()?;
    Replicas::best_first(targets).ok_or_else(|| LayoutError::new("a stripe without data servers"))
}

/// A data server that can be used.
struct Device {
    body: FlexDeviceAddr,
    /// Of the version that is spoken.
    version_index: usize,
    version: FlexVersion,
    addrs: DataServerAddrs,
}

impl Device {
    fn new(body: &Bytes) -> Result<Device, LayoutError> {
        let body: FlexDeviceAddr = weft_xdr::from_bytes(body.clone()).map_err(LayoutError::new)?;
        let addrs = tcp_addrs(&body.addresses)?;
        let mut versions = body.versions.iter().copied().enumerate();
        let Some((version_index, version)) = versions.find(|(_, v)| is_ours(v)) else {
            return Err(LayoutError::new(
                "a data server that does not speak NFSv4.1 or 4.2, tightly coupled",
            ));
        };
        if version.rsize == 0 || version.wsize == 0 {
            return Err(LayoutError::new("a data server that takes no bytes"));
        }
        Ok(Device { body, version_index, version, addrs })
    }

    fn target(&self, server: &FlexDataServer) -> Result<StripeTarget, LayoutError> {
        let fh = server.filehandle(&self.body, self.version_index).cloned();
        Ok(StripeTarget {
            device: server.device,
            server: self.addrs.clone(),
            minorversion: Some(self.version.minorversion),
            fh: fh.ok_or_else(|| LayoutError::new("filehandles that do not fit the versions"))?,
            stateid: Some(server.stateid),
        })
    }
}

fn is_ours(version: &FlexVersion) -> bool {
    version.version == 4 && (1..=2).contains(&version.minorversion) && version.tightly_coupled
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use weft_layout::{FlexMirror, NetAddr};
    use weft_nfs::{IoMode, NfsStat, OpNum, Opaque, Seqid, ops::Body};

    use super::*;
    use crate::layout::Purpose;

    const NOBODY: Opaque = Opaque(Bytes::from_static(b"0"));

    fn data_server(device: u8, efficiency: u32) -> FlexDataServer {
        FlexDataServer {
            device: DeviceId([device; 16]),
            efficiency,
            stateid: Stateid { seqid: Seqid(0), other: [device; 12] },
            filehandles: vec![FileHandle(Bytes::from(vec![device; 32]))],
            user: NOBODY,
            group: NOBODY,
        }
    }

    /// Two mirrors of two stripes each: devices 1 and 2, and, to be read first, 3 and 4.
    fn layout() -> FlexLayout {
        let mirror = |a, b, efficiency| FlexMirror {
            data_servers: vec![data_server(a, efficiency), data_server(b, efficiency)],
        };
        FlexLayout {
            stripe_unit_bytes: 1 << 20,
            mirrors: vec![mirror(1, 2, 5), mirror(3, 4, 6)],
            flags: FlexFlags::default(),
            stats_collect_hint_s: 0,
        }
    }

    fn segment(layout: &FlexLayout) -> LayoutSegment {
        LayoutSegment {
            offset: 0,
            length: u64::MAX,
            iomode: IoMode::RW,
            layout_type: LayoutType::FLEX_FILES,
            body: Body(weft_xdr::to_bytes(layout)),
        }
    }

    fn version(minorversion: u32) -> FlexVersion {
        let (rsize, wsize) = (1 << 20, 1 << 19);
        FlexVersion { version: 4, minorversion, rsize, wsize, tightly_coupled: true }
    }

    fn device(port: u8) -> FlexDeviceAddr {
        let addr = SocketAddr::from(([127, 0, 0, 1], u16::from(port)));
        FlexDeviceAddr { addresses: vec![NetAddr::from(addr)], versions: vec![version(1)] }
    }

    /// Device n listens at port n; the first one is changed.
    fn devices(change: impl Fn(&mut FlexDeviceAddr)) -> Vec<(DeviceId, Bytes)> {
        let body = |n: u8| {
            let mut device = device(n);
            if n == 1 {
                change(&mut device);
            }
            (DeviceId([n; 16]), weft_xdr::to_bytes(&device))
        };
        (1..=4).map(body).collect()
    }

    fn plan(
        layout: &FlexLayout,
        change: impl Fn(&mut FlexDeviceAddr),
    ) -> Result<Plan, LayoutError> {
        let own = FileHandle(Bytes::from_static(b"own"));
        FlexFilesDriver.plan(&segment(layout), &devices(change), &own)
    }

    /// Each stripe has a replica in each mirror, the most efficient one first, with a handle, a
    /// stateid and a version of its own, and requests are as small as any device wants them.
    #[test]
    fn a_stripe_has_a_replica_in_each_mirror() {
        let listed = FlexFilesDriver.devices(&segment(&layout())).unwrap();
        assert_eq!(listed, [1, 2, 3, 4].map(|n| DeviceId([n; 16])));
        let plan = plan(&layout(), |d| d.versions[0] = version(2)).unwrap();
        let ports = |r: &Replicas| r.all().map(|t| t.server[0].port()).collect::<Vec<_>>();
        assert_eq!(plan.stripes.iter().map(ports).collect::<Vec<_>>(), [[3, 1], [4, 2]]);
        let second = plan.stripes[0].all().nth(1).unwrap();
        assert_eq!(second.minorversion, Some(2));
        assert_eq!(second.fh, FileHandle(Bytes::from(vec![1; 32])));
        assert_eq!(second.stateid.unwrap().other, [1; 12]);
        assert_eq!(plan.distribution.locate(3 << 20).object_offset, 3 << 20);
        assert_eq!(plan.stripe_unit_bytes, 1 << 20);
        let bounds = (plan.rules.read_bytes_max, plan.rules.write_bytes_max);
        assert_eq!(bounds, (1 << 20, 1 << 19));
    }

    /// What the flags say is in the rules, and decides where a WRITE goes.
    #[test]
    fn flags_are_rules() {
        let flags = FlexFlags::WRITE_ONE_MIRROR | FlexFlags::NO_READ_IO;
        let plan = plan(&FlexLayout { flags, ..layout() }, |_| {}).unwrap();
        assert!(plan.rules.writes_one && plan.rules.is_only_for_writing);
        let count = |purpose| plan.targets(0, purpose).len();
        assert_eq!([Purpose::Write, Purpose::Read].map(count), [1, 2]);
    }

    /// Of several versions the first one that can be used is, with the handle for it.
    #[test]
    fn the_first_usable_version_is_spoken() {
        let old = FlexVersion { version: 3, minorversion: 0, ..version(1) };
        let loose = FlexVersion { tightly_coupled: false, ..version(2) };
        let mut layout = layout();
        let handles = (10..13).map(|n| FileHandle(Bytes::from(vec![n; 32])));
        layout.mirrors[0].data_servers[0].filehandles = handles.collect();
        let plan = plan(&layout, |d| d.versions = vec![old, loose, version(1)]).unwrap();
        let target = plan.stripes[0].all().nth(1).unwrap();
        assert_eq!((target.fh.0[0], target.minorversion), (12, Some(1)));
    }

    /// Data servers that cannot be used, bodies that do not fit each other, and bodies cut anywhere
    /// are refused.
    #[test]
    fn what_cannot_be_used_is_refused() {
        let with = |change: fn(&mut FlexDeviceAddr)| plan(&layout(), change).map(drop);
        with(|_| {}).unwrap();
        with(|d| d.versions[0].version = 3).unwrap_err();
        with(|d| d.versions[0].minorversion = 0).unwrap_err();
        with(|d| d.versions[0].minorversion = 3).unwrap_err();
        with(|d| d.versions[0].tightly_coupled = false).unwrap_err();
        with(|d| d.versions[0].rsize = 0).unwrap_err();
        with(|d| d.versions[0].wsize = 0).unwrap_err();
        with(|d| d.versions.push(version(2))).unwrap_err();
        with(|d| d.addresses[0].netid = "rdma".into()).unwrap_err();
        plan(&FlexLayout { stripe_unit_bytes: 0, ..layout() }, |_| {}).unwrap_err();
        let own = FileHandle(Bytes::new());
        let whole = segment(&layout());
        let three = &devices(|_| {})[..3];
        FlexFilesDriver.plan(&whole, three, &own).unwrap_err();
        for cut in 0..whole.body.0.len() {
            let body = Body(whole.body.0.slice(..cut));
            let cut = LayoutSegment { body, ..whole.clone() };
            FlexFilesDriver.devices(&cut).unwrap_err();
            FlexFilesDriver.plan(&cut, &devices(|_| {}), &own).unwrap_err();
        }
    }

    /// A LAYOUTRETURN names the data servers that failed, at which operation, and in which range,
    /// at most as many as a body may hold.
    #[test]
    fn failures_are_reported() {
        let failure = IoFailure {
            device: DeviceId([3; 16]),
            op: OpNum::WRITE,
            status: NfsStat::NXIO,
            from: 5,
            end: 9,
        };
        let stateid = Stateid { seqid: Seqid(2), other: [7; 12] };
        let told = |failures: &[IoFailure]| {
            let body = FlexFilesDriver.return_body(stateid, failures);
            weft_xdr::from_bytes::<FlexReturn>(body).unwrap()
        };
        assert_eq!(told(&[]), FlexReturn::default());
        let FlexIoErrors { offset, length, stateid: of, errors } =
            told(&[failure]).io_errors.remove(0);
        assert_eq!((offset, length, of), (5, 4, stateid));
        assert_eq!((errors.0[0].device_id, errors.0[0].op), (failure.device, OpNum::WRITE));
        assert_eq!(errors.0[0].status, NfsStat::NXIO);
        assert_eq!(told(&[failure; REPORTS_MAX + 1]).io_errors.len(), REPORTS_MAX);
    }
}
