//! A layout as bytes, for other clients (P4.7): one process asks for it, many read by it.
//!
//! The bytes are XDR:
//!
//! ```text
//! opaque  magic[8];              "weft lay"
//! uint32  version;               1
//! opaque  server_scope<1024>;    in which the filehandle means this file (RFC 8881 §2.10.4)
//! nfs_fh4 file;                  the file at the metadata server
//! layout4 segment;               the whole file, LAYOUTIOMODE4_READ
//! struct { deviceid4 id; opaque body<>; } devices<256>;
//! ```
//!
//! **What they allow.** Data servers of Weft look at the handles that are in the layout and at
//! nothing else: whoever has the bytes reads the file, whatever its mode says, until the handles
//! end (a right is taken away, the file is removed). And whoever makes them
//! chooses the servers that an importer connects to and believes. They are for processes that trust
//! each other with the file, as those of one job do.

use std::{collections::HashSet, sync::Arc};

use bytes::Bytes;
use weft_nfs::{
    DeviceId, FileHandle, IoMode,
    ops::{Body, LayoutSegment},
};
use weft_xdr::{Decode, DecodeError, Encode, Reader, Writer};

use super::plan::{LayoutDriver, LayoutError, Plan};
use crate::limits;

const MAGIC: [u8; 8] = *b"weft lay";
const VERSION: u32 = 1;
const WHOLE_FILE: u64 = u64::MAX;
/// Longest server scope: RFC 8881 §3.1 (NFS4_OPAQUE_LIMIT).
const SCOPE_BYTES_MAX: usize = 1024;

/// A layout to read a file by, and its devices: all that I/O needs, without the stateid, which is
/// of one client. Nothing is returned or committed under it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExportedLayout {
    /// Where the filehandle means this file.
    pub(crate) server_scope: Bytes,
    /// The file at the metadata server.
    pub(crate) fh: FileHandle,
    /// The layout.
    pub(crate) source: LayoutSource,
}

/// What a plan is made of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LayoutSource {
    /// The layout, of the whole file.
    pub(crate) segment: LayoutSegment,
    /// Its devices.
    pub(crate) devices: Arc<[(DeviceId, Bytes)]>,
}

impl LayoutSource {
    /// The plan of a driver, with a place for every stripe.
    ///
    /// # Errors
    /// [`LayoutError`].
    pub(crate) fn plan(
        &self,
        driver: &dyn LayoutDriver,
        mds_fh: &FileHandle,
    ) -> Result<Plan, LayoutError> {
        let plan = driver.plan(&self.segment, &self.devices, mds_fh)?;
        match plan.is_whole() {
            true => Ok(plan),
            false => Err(LayoutError::new("its driver has not planned every stripe")),
        }
    }
}

impl ExportedLayout {
    /// The file that it is of, for opening it by its handle.
    pub fn fh(&self) -> &FileHandle {
        &self.fh
    }

    /// As bytes.
    ///
    /// # Errors
    /// [`LayoutError`] if they would be more than [`limits::EXPORTED_LAYOUT_BYTES_MAX`].
    pub fn to_bytes(&self) -> Result<Bytes, LayoutError> {
        let bytes = weft_xdr::to_bytes(self);
        match bytes.len() > limits::EXPORTED_LAYOUT_BYTES_MAX {
            true => Err(LayoutError::new("too large to be exported")),
            false => Ok(bytes),
        }
    }

    /// Out of bytes, of which nothing is believed but that whoever gave them is one of us.
    ///
    /// # Errors
    /// [`LayoutError`] for bytes that are not an exported layout, of another version, or not of a
    /// whole file and for reading.
    pub fn from_bytes(bytes: &Bytes) -> Result<ExportedLayout, LayoutError> {
        if bytes.len() > limits::EXPORTED_LAYOUT_BYTES_MAX {
            return Err(LayoutError::new("too large for an exported layout"));
        }
        let Some(after) = bytes.strip_prefix(&MAGIC) else {
            return Err(LayoutError::new("these bytes are not an exported layout"));
        };
        let version = after.first_chunk().map(|v| u32::from_be_bytes(*v));
        if let Some(other) = version.filter(|v| *v != VERSION) {
            let why = format!("exported in version {other} of its form, read in {VERSION}");
            return Err(LayoutError::new(why));
        }
        let damaged = |e: DecodeError| LayoutError::new(format!("damaged in its export: {e}"));
        let exported: ExportedLayout = weft_xdr::from_bytes(bytes.clone()).map_err(damaged)?;
        let LayoutSource { segment, devices } = &exported.source;
        if segment.iomode != IoMode::READ {
            return Err(LayoutError::new("exported to write with"));
        }
        if (segment.offset, segment.length) != (0, WHOLE_FILE) {
            return Err(LayoutError::new("exported of a part of its file"));
        }
        let mut ids = HashSet::new();
        if !devices.iter().all(|(id, _)| ids.insert(id.0)) {
            return Err(LayoutError::new("exported with a device twice"));
        }
        Ok(exported)
    }

    /// The plan of the driver of its type, if its devices are those that the driver names.
    ///
    /// # Errors
    /// [`LayoutError`].
    pub(crate) fn plan(&self, driver: &dyn LayoutDriver) -> Result<Plan, LayoutError> {
        let named: HashSet<[u8; 16]> =
            driver.devices(&self.source.segment)?.into_iter().map(|id| id.0).collect();
        let has: HashSet<[u8; 16]> = self.source.devices.iter().map(|(id, _)| id.0).collect();
        if named != has {
            return Err(LayoutError::new("exported with other devices than it names"));
        }
        self.source.plan(driver, &self.fh)
    }
}

impl Encode for ExportedLayout {
    fn encode(&self, w: &mut Writer) {
        w.fixed(&MAGIC);
        w.u32(VERSION);
        w.opaque(&self.server_scope);
        self.fh.encode(w);
        self.source.segment.encode(w);
        w.count(self.source.devices.len());
        for (id, body) in &*self.source.devices {
            id.encode(w);
            Body(body.clone()).encode(w);
        }
    }
}

impl Decode for ExportedLayout {
    fn decode(r: &mut Reader) -> Result<Self, DecodeError> {
        r.label("exported layout");
        r.fixed::<8>()?;
        r.u32()?;
        let server_scope = r.opaque(SCOPE_BYTES_MAX)?;
        let fh = FileHandle::decode(r)?;
        let segment = LayoutSegment::decode(r)?;
        let mut devices = Vec::new();
        for _ in 0..r.length(limits::LAYOUT_DEVICES_MAX)? {
            devices.push((DeviceId::decode(r)?, Body::decode(r)?.0));
        }
        let source = LayoutSource { segment, devices: devices.into() };
        Ok(ExportedLayout { server_scope, fh, source })
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use proptest::prelude::*;
    use weft_layout::{FilesDeviceAddr, FilesLayout, NetAddr};
    use weft_nfs::LayoutType;

    use super::*;
    use crate::layout::FilesDriver;

    const ID: DeviceId = DeviceId([3; 16]);

    fn exported() -> ExportedLayout {
        let addr = |p: u16| vec![NetAddr::from(SocketAddr::from(([127, 0, 0, 1], p)))];
        let device = FilesDeviceAddr::one_stripe_each(vec![addr(2001), addr(2002)]).unwrap();
        let handles = vec![Bytes::from(vec![1; 32]), Bytes::from(vec![2; 32])];
        let layout = FilesLayout::sparse(ID, 1 << 20, 0, handles).unwrap();
        let segment = LayoutSegment {
            offset: 0,
            length: WHOLE_FILE,
            iomode: IoMode::READ,
            layout_type: LayoutType::NFSV4_1_FILES,
            body: Body(weft_xdr::to_bytes(&layout)),
        };
        let devices = [(ID, weft_xdr::to_bytes(&device))].into();
        let source = LayoutSource { segment, devices };
        let (server_scope, fh) = (Bytes::from_static(b"weft:a"), FileHandle(vec![7; 16].into()));
        ExportedLayout { server_scope, fh, source }
    }

    /// What was exported comes back, and makes the plan that the exporter had.
    #[test]
    fn it_comes_back() {
        let exported = exported();
        let bytes = exported.to_bytes().unwrap();
        let imported = ExportedLayout::from_bytes(&bytes).unwrap();
        assert_eq!(imported, exported);
        let plan = exported.source.plan(&FilesDriver, &exported.fh).unwrap();
        assert_eq!(imported.plan(&FilesDriver).unwrap(), plan);
        assert_eq!(plan.stripes[1].best().server[0].port(), 2002);
    }

    /// Each thing that makes bytes no layout to read by is named.
    #[test]
    fn what_is_wrong_is_named() {
        let why = |bytes: Bytes| ExportedLayout::from_bytes(&bytes).unwrap_err().to_string();
        let changed = |change: fn(&mut ExportedLayout)| {
            let mut exported = exported();
            change(&mut exported);
            exported.to_bytes().unwrap()
        };
        let good = exported().to_bytes().unwrap();
        let newer = [&good[..11], &[9], &good[12..]].concat();
        let longer = [&good[..], &[0; 4]].concat();
        for (bytes, said) in [
            (Bytes::new(), "not an exported layout"),
            (Bytes::from_static(b"weft la"), "not an exported layout"),
            (Bytes::from_static(b"something else"), "not an exported layout"),
            (Bytes::from_static(b"weft lay\0\0"), "damaged"),
            (newer.into(), "version 9 of its form, read in 1"),
            (longer.into(), "damaged"),
            (good.slice(..good.len() - 4), "damaged"),
            (Bytes::from(vec![0; limits::EXPORTED_LAYOUT_BYTES_MAX + 1]), "too large"),
            (changed(|e| e.source.segment.iomode = IoMode::RW), "to write with"),
            (changed(|e| e.source.segment.offset = 1), "a part of its file"),
            (changed(|e| e.source.segment.length = 1 << 30), "a part of its file"),
            (
                changed(|e| e.source.devices = [(ID, Bytes::new()), (ID, Bytes::new())].into()),
                "a device twice",
            ),
            (changed(|e| e.server_scope = vec![1; SCOPE_BYTES_MAX + 1].into()), "damaged"),
        ] {
            let words = why(bytes);
            assert!(words.contains(said), "{words} instead of {said}");
        }
    }

    /// Devices that are missing, or that nobody names, are refused.
    #[test]
    fn its_devices_are_those_it_names() {
        for devices in [vec![], vec![(DeviceId([4; 16]), Bytes::new())]] {
            let mut other = exported();
            let all = [devices.as_slice(), &other.source.devices[..devices.len().min(1)]].concat();
            other.source.devices = all.into();
            let e = other.plan(&FilesDriver).unwrap_err();
            assert!(e.to_string().contains("other devices"), "{e}");
        }
        let mut cut = exported();
        cut.source.devices = [(ID, cut.source.devices[0].1.slice(..8))].into();
        cut.plan(&FilesDriver).unwrap_err();
    }

    /// One change of valid bytes.
    #[derive(Debug, Clone)]
    enum Damage {
        Flip(prop::sample::Index, u8),
        Cut(prop::sample::Index),
        Insert(prop::sample::Index, Vec<u8>),
        Word(prop::sample::Index, u32),
    }

    fn damage() -> impl Strategy<Value = Damage> {
        let at = any::<prop::sample::Index>;
        prop_oneof![
            (at(), 1_u8..).prop_map(|(at, bits)| Damage::Flip(at, bits)),
            at().prop_map(Damage::Cut),
            (at(), prop::collection::vec(any::<u8>(), 1..64))
                .prop_map(|(at, more)| Damage::Insert(at, more)),
            (at(), prop_oneof![Just(u32::MAX), Just(1 << 20), any::<u32>()])
                .prop_map(|(at, word)| Damage::Word(at, word)),
        ]
    }

    /// Exported again it is the same, but for bytes that fill up words (RFC 4506 §3), which nobody
    /// looks at.
    fn says_the_same(read: &ExportedLayout) {
        let again = read.to_bytes().unwrap();
        let read_again = ExportedLayout::from_bytes(&again).unwrap();
        assert_eq!(read_again.to_bytes().unwrap(), again);
    }

    proptest! {
        /// Damaged bytes are refused with words, or are another layout that says the same when it
        /// is exported again; whatever they say, its plan is whole or refused.
        #[test]
        fn damaged_bytes_do_no_harm(all in prop::collection::vec(damage(), 1..4)) {
            let mut bytes = exported().to_bytes().unwrap().to_vec();
            for one in all {
                if bytes.is_empty() {
                    break;
                }
                match one {
                    Damage::Flip(at, bits) => {
                        let at = at.index(bytes.len());
                        bytes[at] ^= bits;
                    }
                    Damage::Cut(at) => bytes.truncate(at.index(bytes.len())),
                    Damage::Insert(at, more) => {
                        let at = at.index(bytes.len());
                        bytes.splice(at..at, more);
                    }
                    Damage::Word(at, word) => {
                        let at = at.index(bytes.len()) & !3;
                        let end = bytes.len().min(at + 4);
                        bytes[at..end].copy_from_slice(&word.to_be_bytes()[..end - at]);
                    }
                }
            }
            let bytes = Bytes::from(bytes);
            match ExportedLayout::from_bytes(&bytes) {
                Err(e) => prop_assert!(!e.why.is_empty()),
                Ok(read) => {
                    says_the_same(&read);
                    if let Ok(plan) = read.plan(&FilesDriver) {
                        prop_assert!(plan.is_whole() && !plan.stripes.is_empty());
                    }
                }
            }
        }

        /// So are any bytes behind a good beginning.
        #[test]
        fn any_bytes_do_no_harm(rest in prop::collection::vec(any::<u8>(), 0..2000)) {
            let bytes = Bytes::from([&MAGIC[..], &VERSION.to_be_bytes(), &rest].concat());
            if let Ok(read) = ExportedLayout::from_bytes(&bytes) {
                says_the_same(&read);
            }
        }
    }
}
