//! The files layout type, LAYOUT4_NFSV4_1_FILES: RFC 8881 §13.

use bytes::Bytes;
use weft_nfs::DeviceId;
use weft_stripe::{Distribution, Form};
use weft_xdr::{Decode, DecodeError, DecodeErrorKind, Encode, Reader, Writer};

use crate::{
    lists::{list, non_empty, non_empty_list},
    net_addr::{MULTIPATH_MAX, NetAddr, multipath},
};

/// Stripe indices of a device: what Linux accepts (`NFS4_PNFS_MAX_STRIPE_CNT`).
pub const STRIPE_COUNT_MAX: usize = 4096;

/// Data servers of a device: what Linux accepts (`NFS4_PNFS_MAX_MULTI_CNT`), which keeps stripe
/// indices in a byte.
pub const DATA_SERVERS_MAX: usize = 256;

/// Stripe units of ours are multiples of this, so that a unit never cuts a client's largest I/O.
pub const STRIPE_UNIT_STEP_BYTES: u32 = 1 << 20;

/// Longest filehandle: RFC 8881 §3.1 (NFS4_FHSIZE).
const FILEHANDLE_BYTES_MAX: usize = 128;

/// `nfl_util` bit: dense striping.
const UTIL_DENSE: u32 = 1;
/// `nfl_util` bit: COMMIT goes to the metadata server.
const UTIL_COMMIT_THRU_MDS: u32 = 2;
/// `nfl_util` bits of the stripe unit.
const UTIL_STRIPE_UNIT_MASK: u32 = !0x3f;

/// Why a layout cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum LayoutError {
    /// A stripe unit of 0, or of ours one that is no multiple of [`STRIPE_UNIT_STEP_BYTES`].
    #[error("bad stripe unit")]
    StripeUnit,
    /// The first stripe index is not below the stripe count.
    #[error("first stripe index beyond the stripe count")]
    FirstStripeIndex,
    /// The number of filehandles fits neither the form nor the device (RFC 8881 §13.4.4).
    #[error("wrong number of filehandles")]
    FilehandleCount,
    /// No data servers, too many, or one without a usable address or with too many.
    #[error("bad list of data servers")]
    DataServers,
    /// A filehandle is empty or too long.
    #[error("bad filehandle length")]
    FilehandleLength,
    /// Mirrors of different numbers of data servers.
    #[error("mirrors that are striped in different ways")]
    Mirrors,
    /// Legal, but not something we make or use: a pattern that begins inside the file.
    #[error("pattern offset is not zero")]
    PatternOffset,
}

/// `nfl_util4`: stripe unit and flags in one number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct NflUtil {
    /// Dense rather than sparse.
    pub dense: bool,
    /// COMMIT goes to the metadata server.
    pub commit_thru_mds: bool,
    /// Bytes in a stripe unit, a multiple of 64; the low bits are not sent.
    pub stripe_unit_bytes: u32,
}

impl Encode for NflUtil {
    fn encode(&self, w: &mut Writer) {
        let flag = |set, bit| if set { bit } else { 0 };
        w.u32(
            (self.stripe_unit_bytes & UTIL_STRIPE_UNIT_MASK)
                | flag(self.dense, UTIL_DENSE)
                | flag(self.commit_thru_mds, UTIL_COMMIT_THRU_MDS),
        );
    }
}

impl Decode for NflUtil {
    fn decode(r: &mut Reader) -> Result<Self, DecodeError> {
        let util = r.u32()?;
        Ok(NflUtil {
            dense: util & UTIL_DENSE != 0,
            commit_thru_mds: util & UTIL_COMMIT_THRU_MDS != 0,
            stripe_unit_bytes: util & UTIL_STRIPE_UNIT_MASK,
        })
    }
}

/// `nfsv4_1_file_layout4`, the body of a files layout: RFC 8881 §13.3.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilesLayout {
    /// `nfl_deviceid`.
    pub device: DeviceId,
    /// `nfl_util`.
    pub util: NflUtil,
    /// `nfl_first_stripe_index`: of the unit at the pattern offset.
    pub first_stripe_index: u32,
    /// `nfl_pattern_offset`: 0 in ours.
    pub pattern_offset: u64,
    /// `nfl_fh_list`: by data server if sparse (or one, or none), by stripe index if dense.
    pub filehandles: Vec<Bytes>,
}

impl FilesLayout {
    /// The only kind we grant (design D3): sparse, the whole file, one filehandle for each data
    /// server of the device in its order, which Linux needs to split I/O at unit boundaries at all.
    ///
    /// # Errors
    /// [`LayoutError`] for a stripe unit that is no multiple of 1 MiB, no filehandles or more
    /// than [`DATA_SERVERS_MAX`], one of bad length, or a first index beyond them.
    pub fn sparse(
        device: DeviceId,
        stripe_unit_bytes: u32,
        first_stripe_index: u32,
        filehandles: Vec<Bytes>,
    ) -> Result<Self, LayoutError> {
        if stripe_unit_bytes == 0 || !stripe_unit_bytes.is_multiple_of(STRIPE_UNIT_STEP_BYTES) {
            return Err(LayoutError::StripeUnit);
        }
        if filehandles.is_empty() || filehandles.len() > DATA_SERVERS_MAX {
            return Err(LayoutError::FilehandleCount);
        }
        if filehandles.iter().any(|fh| fh.is_empty() || fh.len() > FILEHANDLE_BYTES_MAX) {
            return Err(LayoutError::FilehandleLength);
        }
        if first_stripe_index as usize >= filehandles.len() {
            return Err(LayoutError::FirstStripeIndex);
        }
        let util = NflUtil { dense: false, commit_thru_mds: false, stripe_unit_bytes };
        Ok(FilesLayout { device, util, first_stripe_index, pattern_offset: 0, filehandles })
    }

    /// Where the file's bytes are, as stripe indices of the device; all rules that layout and
    /// device must obey together are checked here.
    ///
    /// # Errors
    /// [`LayoutError`]: the layout is not to be used, I/O goes through the metadata server.
    pub fn distribution(&self, device: &FilesDeviceAddr) -> Result<Distribution, LayoutError> {
        let stripe_count = device.stripe_indices.len();
        if self.pattern_offset != 0 {
            return Err(LayoutError::PatternOffset);
        }
        let handles = self.filehandles.len();
        let fits = if self.util.dense {
            handles == stripe_count
        } else {
            handles <= 1 || handles == device.data_servers.len()
        };
        if !fits {
            return Err(LayoutError::FilehandleCount);
        }
        if self.first_stripe_index as usize >= stripe_count {
            return Err(LayoutError::FirstStripeIndex);
        }
        let form = if self.util.dense { Form::Dense } else { Form::Sparse };
        let unit = self.util.stripe_unit_bytes.into();
        // The first index is checked, so the count is not zero; it fits, being a list's.
        let count = u32::try_from(stripe_count).map_err(|_| LayoutError::FilehandleCount)?;
        Distribution::round_robin(unit, count, self.first_stripe_index, form)
            .map_err(|_| LayoutError::StripeUnit)
    }

    /// The filehandle to use at a stripe index; `None` says that the metadata server's own is
    /// (sparse with no filehandles, RFC 8881 §13.4.4), or that there is no such stripe index.
    pub fn filehandle(&self, device: &FilesDeviceAddr, stripe_index: u32) -> Option<&Bytes> {
        let server = device.data_server_index(stripe_index)?;
        match self.filehandles.as_slice() {
            [one] if !self.util.dense => Some(one),
            by_stripe if self.util.dense => by_stripe.get(stripe_index as usize),
            by_server => by_server.get(server),
        }
    }
}

impl Encode for FilesLayout {
    fn encode(&self, w: &mut Writer) {
        self.device.encode(w);
        self.util.encode(w);
        w.u32(self.first_stripe_index);
        w.u64(self.pattern_offset);
        w.count(self.filehandles.len());
        for fh in &self.filehandles {
            w.opaque(fh);
        }
    }
}

impl Decode for FilesLayout {
    fn decode(r: &mut Reader) -> Result<Self, DecodeError> {
        r.label("nfsv4_1_file_layout4");
        let device = DeviceId::decode(r)?;
        let util = NflUtil::decode(r)?;
        if util.stripe_unit_bytes == 0 {
            return Err(r.error(DecodeErrorKind::Value));
        }
        let first_stripe_index = r.u32()?;
        if first_stripe_index as usize >= STRIPE_COUNT_MAX {
            return Err(r.error(DecodeErrorKind::Limit));
        }
        let pattern_offset = r.u64()?;
        let filehandles =
            list(r, STRIPE_COUNT_MAX, |r| non_empty(r, |r| r.opaque(FILEHANDLE_BYTES_MAX)))?;
        Ok(FilesLayout { device, util, first_stripe_index, pattern_offset, filehandles })
    }
}

/// `nfsv4_1_file_layout_ds_addr4`, the body of a device address: RFC 8881 §13.3.
///
/// A decoded one has at least one stripe index, all of them below the number of data servers,
/// and at least one address for each data server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilesDeviceAddr {
    /// `nflda_stripe_indices`: the data server of each stripe index.
    pub stripe_indices: Vec<u32>,
    /// `nflda_multipath_ds_list`: the addresses of each data server.
    pub data_servers: Vec<Vec<NetAddr>>,
}

impl FilesDeviceAddr {
    /// A device of ours: stripe index i is data server i.
    ///
    /// # Errors
    /// [`LayoutError::DataServers`] for none or more than [`DATA_SERVERS_MAX`], or one with no
    /// addresses or more than [`MULTIPATH_MAX`], or an empty one, which crashes kernels.
    pub fn one_stripe_each(data_servers: Vec<Vec<NetAddr>>) -> Result<Self, LayoutError> {
        let good = |paths: &Vec<NetAddr>| {
            (1..=MULTIPATH_MAX).contains(&paths.len())
                && paths.iter().all(|a| !a.netid.is_empty() && !a.uaddr.is_empty())
        };
        let count = u32::try_from(data_servers.len()).unwrap_or(u32::MAX);
        let count_fits = (1..=DATA_SERVERS_MAX).contains(&data_servers.len());
        if !count_fits || !data_servers.iter().all(good) {
            return Err(LayoutError::DataServers);
        }
        Ok(FilesDeviceAddr { stripe_indices: (0..count).collect(), data_servers })
    }

    /// The addresses of the data server at a stripe index, the preferred one first.
    pub fn addresses(&self, stripe_index: u32) -> Option<&[NetAddr]> {
        self.data_servers.get(self.data_server_index(stripe_index)?).map(Vec::as_slice)
    }

    /// The data server at a stripe index.
    pub fn data_server_index(&self, stripe_index: u32) -> Option<usize> {
        self.stripe_indices.get(stripe_index as usize).map(|i| *i as usize)
    }
}

impl Encode for FilesDeviceAddr {
    fn encode(&self, w: &mut Writer) {
        w.array(&self.stripe_indices);
        w.count(self.data_servers.len());
        for paths in &self.data_servers {
            w.array(paths);
        }
    }
}

impl Decode for FilesDeviceAddr {
    fn decode(r: &mut Reader) -> Result<Self, DecodeError> {
        r.label("nfsv4_1_file_layout_ds_addr4");
        let stripe_indices: Vec<u32> = non_empty_list(r, STRIPE_COUNT_MAX, u32::decode)?;
        let data_servers = non_empty_list(r, DATA_SERVERS_MAX, multipath)?;
        if stripe_indices.iter().any(|i| *i as usize >= data_servers.len()) {
            return Err(r.error(DecodeErrorKind::Value));
        }
        Ok(FilesDeviceAddr { stripe_indices, data_servers })
    }
}
