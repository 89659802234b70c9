//! The files layout type: RFC 8881 §13.

use bytes::Bytes;
use weft_layout::{FilesDeviceAddr, FilesLayout};
use weft_nfs::{DeviceId, FileHandle, LayoutType, ops::LayoutSegment};

use super::plan::{IoRules, LayoutDriver, LayoutError, Plan, Replicas, StripeTarget, tcp_addrs};

/// The driver of files layouts.
#[derive(Debug, Clone, Copy, Default)]
pub struct FilesDriver;

impl LayoutDriver for FilesDriver {
    fn layout_type(&self) -> LayoutType {
        LayoutType::NFSV4_1_FILES
    }

    fn devices(&self, segment: &LayoutSegment) -> Result<Vec<DeviceId>, LayoutError> {
        Ok(vec![decode_layout(segment)?.device])
    }

    fn plan(
        &self,
        segment: &LayoutSegment,
        devices: &[(DeviceId, Bytes)],
        mds_fh: &FileHandle,
    ) -> Result<Plan, LayoutError> {
        let layout = decode_layout(segment)?;
        let body =
            devices.iter().find(|(id, _)| *id == layout.device).map(|(_, body)| body.clone());
        let body = body.ok_or_else(|| LayoutError::new("its device is missing"))?;
        let device: FilesDeviceAddr = weft_xdr::from_bytes(body).map_err(LayoutError::new)?;
        let distribution = layout.distribution(&device).map_err(LayoutError::new)?;
        let target = |stripe_index| {
            let addrs = device.addresses(stripe_index).unwrap_or_default();
            let own = layout.filehandle(&device, stripe_index).cloned().map(FileHandle);
            Ok(Replicas::one(StripeTarget {
                device: layout.device,
                server: tcp_addrs(addrs)?,
                minorversion: None,
                fh: own.unwrap_or_else(|| mds_fh.clone()),
                stateid: None,
            }))
        };
        Ok(Plan {
            distribution,
            stripe_unit_bytes: layout.util.stripe_unit_bytes.into(),
            stripes: (0..distribution.stripe_count()).map(target).collect::<Result<_, _>>()?,
            rules: IoRules { commits_at_mds: layout.util.commit_thru_mds, ..IoRules::default() },
        })
    }
}

fn decode_layout(segment: &LayoutSegment) -> Result<FilesLayout, LayoutError> {
    weft_xdr::from_bytes(segment.body.0.clone()).map_err(LayoutError::new)
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use weft_layout::{NetAddr, NflUtil};
    use weft_nfs::{IoMode, ops::Body};

    use super::*;

    fn segment(layout: &FilesLayout) -> LayoutSegment {
        LayoutSegment {
            offset: 0,
            length: u64::MAX,
            iomode: IoMode::RW,
            layout_type: LayoutType::NFSV4_1_FILES,
            body: Body(weft_xdr::to_bytes(layout)),
        }
    }

    const ID: DeviceId = DeviceId([3; 16]);

    fn device(ports: &[u16]) -> [(DeviceId, Bytes); 1] {
        let addr = |p: &u16| vec![NetAddr::from(SocketAddr::from(([127, 0, 0, 1], *p)))];
        let device = FilesDeviceAddr::one_stripe_each(ports.iter().map(addr).collect()).unwrap();
        [(ID, weft_xdr::to_bytes(&device))]
    }

    fn fh(n: u8) -> Bytes {
        Bytes::from(vec![n; 32])
    }

    /// Addresses and handles meet by stripe index; without handles the file's own is used.
    #[test]
    fn targets_by_stripe_index() {
        let layout = FilesLayout::sparse(ID, 1 << 20, 1, vec![fh(1), fh(2)]).unwrap();
        let own = FileHandle(fh(9));
        let plan = FilesDriver.plan(&segment(&layout), &device(&[2001, 2002]), &own).unwrap();
        assert_eq!(plan.stripes[1].best().server[0].port(), 2002);
        assert_eq!(plan.stripes[1].best().fh, FileHandle(fh(2)));
        assert_eq!(plan.distribution.locate(0).stripe_index, 1);
        assert_eq!(FilesDriver.devices(&segment(&layout)).unwrap(), [ID]);

        let bare = FilesLayout { filehandles: Vec::new(), ..layout };
        let plan = FilesDriver.plan(&segment(&bare), &device(&[2001, 2002]), &own).unwrap();
        assert!(plan.stripes.iter().all(|s| s.best().fh == own));
    }

    /// Layout and device that do not fit each other, and bodies cut anywhere, are refused.
    #[test]
    fn misfits_are_refused() {
        let layout = FilesLayout::sparse(ID, 1 << 20, 0, vec![fh(1), fh(2)]).unwrap();
        let own = FileHandle(fh(9));
        FilesDriver.plan(&segment(&layout), &device(&[1, 2, 3]), &own).unwrap_err();
        FilesDriver.plan(&segment(&layout), &[], &own).unwrap_err();
        let util = NflUtil { stripe_unit_bytes: 0, ..layout.util };
        let zero = FilesLayout { util, ..layout.clone() };
        FilesDriver.plan(&segment(&zero), &device(&[1, 2]), &own).unwrap_err();
        let whole = segment(&layout);
        for cut in 0..whole.body.0.len() {
            let body = Body(whole.body.0.slice(..cut));
            let cut = LayoutSegment { body, ..whole.clone() };
            FilesDriver.plan(&cut, &device(&[1, 2]), &own).unwrap_err();
        }
    }
}
