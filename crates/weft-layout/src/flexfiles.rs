//! The flexfiles layout type, LAYOUT4_FLEX_FILES: layouts and devices, RFC 8435 §4 and §5.

use weft_nfs::{DeviceId, FileHandle, Opaque, Stateid};
use weft_stripe::{Distribution, Form};
use weft_xdr::{Decode, DecodeError, DecodeErrorKind, Encode, Reader, Writer, xdr_struct};

use crate::{
    files::{DATA_SERVERS_MAX, LayoutError},
    lists::{Item, non_empty_list},
    net_addr::{NetAddr, multipath},
};

/// Mirrors of a layout: a client writes to all of them, and servers in use grant 1 to 4.
pub const MIRRORS_MAX: usize = 16;

/// Versions that a device speaks, and filehandles for them: there are NFSv3 and three of NFSv4,
/// each coupled loosely or tightly.
pub const VERSIONS_MAX: usize = 8;

/// Bytes in a stripe unit of a layout that says none, because nothing is striped: then any number
/// gives the same places.
const UNSTRIPED_UNIT_BYTES: u64 = 1 << 20;

/// `ff_flags4`: RFC 8435 §5.1. Bits without a name survive decoding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct FlexFlags(pub u32);

impl FlexFlags {
    /// FF_FLAGS_NO_LAYOUTCOMMIT: LAYOUTCOMMIT is not needed.
    pub const NO_LAYOUTCOMMIT: FlexFlags = FlexFlags(1);
    /// FF_FLAGS_NO_IO_THRU_MDS: the metadata server had better not be asked to move data.
    pub const NO_IO_THRU_MDS: FlexFlags = FlexFlags(2);
    /// FF_FLAGS_NO_READ_IO: a layout for writing is not to be read through.
    pub const NO_READ_IO: FlexFlags = FlexFlags(4);
    /// FF_FLAGS_WRITE_ONE_MIRROR: the servers carry what is written to one mirror to the others.
    pub const WRITE_ONE_MIRROR: FlexFlags = FlexFlags(8);

    /// Whether all of these are set.
    pub fn contains(self, flags: FlexFlags) -> bool {
        self.0 & flags.0 == flags.0
    }
}

impl std::ops::BitOr for FlexFlags {
    type Output = FlexFlags;

    fn bitor(self, other: FlexFlags) -> FlexFlags {
        FlexFlags(self.0 | other.0)
    }
}

impl Encode for FlexFlags {
    fn encode(&self, w: &mut Writer) {
        w.u32(self.0);
    }
}

impl Decode for FlexFlags {
    fn decode(r: &mut Reader) -> Result<Self, DecodeError> {
        Ok(FlexFlags(r.u32()?))
    }
}

/// `ff_data_server4`: a stripe of a mirror. A decoded one has 1 to [`VERSIONS_MAX`] filehandles,
/// none of them empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FlexDataServer {
    /// `ffds_deviceid`.
    pub device: DeviceId,
    /// `ffds_efficiency`: the higher, the better to read from.
    pub efficiency: u32,
    /// `ffds_stateid`: what I/O carries.
    pub stateid: Stateid,
    /// `ffds_fh_vers`: the object's filehandle, for each version that the device speaks.
    pub filehandles: Vec<FileHandle>,
    /// `ffds_user`: whom I/O is done as, if the device is coupled loosely.
    pub user: Opaque,
    /// `ffds_group`.
    pub group: Opaque,
}

impl FlexDataServer {
    /// The filehandle for a version of its device, by the index of that. There is one for each
    /// (RFC 8435 §5.1); none if there are more or fewer.
    pub fn filehandle(&self, device: &FlexDeviceAddr, version_index: usize) -> Option<&FileHandle> {
        let fits = self.filehandles.len() == device.versions.len();
        self.filehandles.get(version_index).filter(|_| fits)
    }
}

impl Encode for FlexDataServer {
    fn encode(&self, w: &mut Writer) {
        self.device.encode(w);
        w.u32(self.efficiency);
        self.stateid.encode(w);
        w.array(&self.filehandles);
        self.user.encode(w);
        self.group.encode(w);
    }
}

impl Decode for FlexDataServer {
    fn decode(r: &mut Reader) -> Result<Self, DecodeError> {
        r.label("ff_data_server4");
        Ok(FlexDataServer {
            device: DeviceId::decode(r)?,
            efficiency: r.u32()?,
            stateid: Stateid::decode(r)?,
            filehandles: non_empty_list(r, VERSIONS_MAX, filehandle)?,
            user: Opaque::decode(r)?,
            group: Opaque::decode(r)?,
        })
    }
}

fn filehandle(r: &mut Reader) -> Item<FileHandle> {
    let fh = FileHandle::decode(r)?;
    if fh.0.is_empty() { Err(r.error(DecodeErrorKind::Value)) } else { Ok(fh) }
}

/// `ff_mirror4`: a whole copy of the file. A decoded one has 1 to [`DATA_SERVERS_MAX`] stripes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FlexMirror {
    /// `ffm_data_servers`: by stripe index.
    pub data_servers: Vec<FlexDataServer>,
}

impl Encode for FlexMirror {
    fn encode(&self, w: &mut Writer) {
        w.array(&self.data_servers);
    }
}

impl Decode for FlexMirror {
    fn decode(r: &mut Reader) -> Result<Self, DecodeError> {
        r.label("ff_mirror4");
        let data_servers = non_empty_list(r, DATA_SERVERS_MAX, FlexDataServer::decode)?;
        Ok(FlexMirror { data_servers })
    }
}

/// `ff_layout4`, the body of a flexfiles layout: RFC 8435 §5.1. A decoded one has 1 to
/// [`MIRRORS_MAX`] mirrors.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FlexLayout {
    /// `ffl_stripe_unit`: bytes; without meaning where a mirror has one data server.
    pub stripe_unit_bytes: u64,
    /// `ffl_mirrors`.
    pub mirrors: Vec<FlexMirror>,
    /// `ffl_flags`.
    pub flags: FlexFlags,
    /// `ffl_stats_collect_hint`: seconds between two LAYOUTSTATS; 0 if they are not wanted.
    pub stats_collect_hint_s: u32,
}

impl FlexLayout {
    /// Where the file's bytes are, as stripe indices of each of the mirrors. They are sparse: an
    /// object's offsets are those of the file (RFC 8435 §6).
    ///
    /// # Errors
    /// [`LayoutError`]: the layout is not to be used, I/O goes through the metadata server.
    pub fn distribution(&self) -> Result<Distribution, LayoutError> {
        let mut counts = self.mirrors.iter().map(|m| m.data_servers.len());
        let count = counts.next().ok_or(LayoutError::Mirrors)?;
        if counts.any(|other| other != count) {
            return Err(LayoutError::Mirrors);
        }
        let unit = match (count, self.stripe_unit_bytes) {
            (1, 0) => UNSTRIPED_UNIT_BYTES,
            (_, unit) => unit,
        };
        let count = u32::try_from(count).map_err(|_| LayoutError::DataServers)?;
        if count == 0 {
            return Err(LayoutError::DataServers);
        }
        Distribution::round_robin(unit, count, 0, Form::Sparse).map_err(|_| LayoutError::StripeUnit)
    }
}

impl Encode for FlexLayout {
    fn encode(&self, w: &mut Writer) {
        w.u64(self.stripe_unit_bytes);
        w.array(&self.mirrors);
        self.flags.encode(w);
        w.u32(self.stats_collect_hint_s);
    }
}

impl Decode for FlexLayout {
    fn decode(r: &mut Reader) -> Result<Self, DecodeError> {
        r.label("ff_layout4");
        Ok(FlexLayout {
            stripe_unit_bytes: r.u64()?,
            mirrors: non_empty_list(r, MIRRORS_MAX, FlexMirror::decode)?,
            flags: FlexFlags::decode(r)?,
            stats_collect_hint_s: r.u32()?,
        })
    }
}

xdr_struct! {
    /// `ff_device_versions4`: a protocol that a device speaks.
    #[derive(Copy)]
    pub struct FlexVersion {
        /// `ffdv_version`: 3 or 4.
        pub version: u32,
        /// `ffdv_minorversion`.
        pub minorversion: u32,
        /// `ffdv_rsize`: bytes of the largest READ.
        pub rsize: u32,
        /// `ffdv_wsize`: bytes of the largest WRITE.
        pub wsize: u32,
        /// `ffdv_tightly_coupled`: it knows the metadata server's state (RFC 8435 §2).
        pub tightly_coupled: bool,
    }
}

/// `ff_device_addr4`, the body of a device address: RFC 8435 §4.1. A device is one data server. A
/// decoded one has at least one address and 1 to [`VERSIONS_MAX`] versions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FlexDeviceAddr {
    /// `ffda_netaddrs`: ways to it, the preferred one first.
    pub addresses: Vec<NetAddr>,
    /// `ffda_versions`: what it speaks, the preferred one first.
    pub versions: Vec<FlexVersion>,
}

impl Encode for FlexDeviceAddr {
    fn encode(&self, w: &mut Writer) {
        w.array(&self.addresses);
        w.array(&self.versions);
    }
}

impl Decode for FlexDeviceAddr {
    fn decode(r: &mut Reader) -> Result<Self, DecodeError> {
        r.label("ff_device_addr4");
        let addresses = multipath(r)?;
        let versions = non_empty_list(r, VERSIONS_MAX, FlexVersion::decode)?;
        Ok(FlexDeviceAddr { addresses, versions })
    }
}
