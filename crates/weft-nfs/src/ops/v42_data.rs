//! Operations on data that NFSv4.2 adds: RFC 7862 §15, and what they share with CB_OFFLOAD (§16.1).

use weft_xdr::{
    Decode, DecodeError, DecodeErrorKind, Encode, Reader, Writer, xdr_named, xdr_struct,
};

use super::layout::Body;
use crate::attr::Bitmap;
use crate::basic::{DeviceId, LayoutType, NetAddr, Opaque, StableHow, Stateid, Verifier};
use crate::op_num::OpNum;
use crate::status::NfsStat;

xdr_struct! {
    /// ALLOCATE (59), §15.1.
    pub struct AllocateArgs {
        /// `aa_stateid`: one that may write.
        pub stateid: Stateid,
        /// `aa_offset`: first byte.
        pub offset: u64,
        /// `aa_length`: bytes.
        pub length: u64,
    }
}
xdr_struct! {
    /// DEALLOCATE (62), §15.4.
    pub struct DeallocateArgs {
        /// `da_stateid`: one that may write.
        pub stateid: Stateid,
        /// `da_offset`: first byte.
        pub offset: u64,
        /// `da_length`: bytes.
        pub length: u64,
    }
}

xdr_named! {
    /// `data_content4`, §15.10.2.
    pub struct DataContent {
        DATA = 0,
        HOLE = 1,
    }
}
xdr_struct! {
    /// SEEK (69), §15.11.
    pub struct SeekArgs {
        /// `sa_stateid`: one that may read.
        pub stateid: Stateid,
        /// `sa_offset`: where to begin.
        pub offset: u64,
        /// `sa_what`: what to find.
        pub what: DataContent,
    }
}
xdr_struct! {
    /// What SEEK returns when it succeeds.
    pub struct SeekOk {
        /// `sr_eof`: there is none before the end.
        pub eof: bool,
        /// `sr_offset`: where it begins.
        pub offset: u64,
    }
}

xdr_struct! {
    /// IO_ADVISE (63), §15.5.
    pub struct IoAdviseArgs {
        /// `iaa_stateid`: whose access.
        pub stateid: Stateid,
        /// `iaa_offset`: first byte.
        pub offset: u64,
        /// `iaa_count`: bytes; 0 means to the end.
        pub count: u64,
        /// `iaa_hints`: bits of [`advice`].
        pub hints: Bitmap,
    }
}
xdr_struct! {
    /// What IO_ADVISE returns when it succeeds.
    pub struct IoAdviseOk {
        /// `ior_hints`: those that will be acted on.
        pub hints: Bitmap,
    }
}
/// `IO_ADVISE_type4`: bit numbers in a bitmap of hints.
pub mod advice {
    /// IO_ADVISE4_NORMAL: nothing special.
    pub const NORMAL: u32 = 0;
}

xdr_struct! {
    /// `device_error4`: an error of one device.
    pub struct DeviceError {
        /// `de_deviceid`: the device.
        pub device_id: DeviceId,
        /// `de_status`: what it answered; NXIO if it could not be reached.
        pub status: NfsStat,
        /// `de_opnum`: to what.
        pub op: OpNum,
    }
}
/// Most errors in one LAYOUTERROR; Linux sends at most 5.
const DEVICE_ERRORS_MAX: usize = 64;
/// `lea_errors`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceErrors(pub Vec<DeviceError>);
impl Decode for DeviceErrors {
    fn decode(r: &mut Reader) -> Result<Self, DecodeError> {
        Ok(DeviceErrors(r.array(DEVICE_ERRORS_MAX)?))
    }
}
impl Encode for DeviceErrors {
    fn encode(&self, w: &mut Writer) {
        w.array(&self.0);
    }
}
xdr_struct! {
    /// LAYOUTERROR (64), §15.6.
    pub struct LayouterrorArgs {
        /// `lea_offset`: first byte.
        pub offset: u64,
        /// `lea_length`: bytes.
        pub length: u64,
        /// `lea_stateid`: the layout.
        pub stateid: Stateid,
        /// `lea_errors`.
        pub errors: DeviceErrors,
    }
}

xdr_struct! {
    /// `io_info4`.
    #[derive(Copy)]
    pub struct IoInfo {
        /// `ii_count`: operations.
        pub count: u64,
        /// `ii_bytes`.
        pub bytes: u64,
    }
}
xdr_struct! {
    /// LAYOUTSTATS (65), §15.7.
    pub struct LayoutstatsArgs {
        /// `lsa_offset`: first byte.
        pub offset: u64,
        /// `lsa_length`: bytes.
        pub length: u64,
        /// `lsa_stateid`: the layout.
        pub stateid: Stateid,
        /// `lsa_read`.
        pub read: IoInfo,
        /// `lsa_write`.
        pub write: IoInfo,
        /// `lsa_deviceid`: of which device.
        pub device_id: DeviceId,
        /// `lou_type` of `lsa_layoutupdate`.
        pub layout_type: LayoutType,
        /// `lou_body` of `lsa_layoutupdate`; empty for files layouts.
        pub update_body: Body,
    }
}

/// `netloc4`, §4.7: where another server is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Netloc {
    /// NL4_NAME.
    Name(Opaque),
    /// NL4_URL.
    Url(Opaque),
    /// NL4_NETADDR.
    Addr(NetAddr),
}
impl Decode for Netloc {
    fn decode(r: &mut Reader) -> Result<Self, DecodeError> {
        r.label("netloc4");
        Ok(match r.u32()? {
            1 => Netloc::Name(Opaque::decode(r)?),
            2 => Netloc::Url(Opaque::decode(r)?),
            3 => Netloc::Addr(NetAddr::decode(r)?),
            _ => return Err(r.error(DecodeErrorKind::Value)),
        })
    }
}
impl Encode for Netloc {
    fn encode(&self, w: &mut Writer) {
        match self {
            Netloc::Name(name) => {
                w.u32(1);
                name.encode(w);
            }
            Netloc::Url(url) => {
                w.u32(2);
                url.encode(w);
            }
            Netloc::Addr(addr) => {
                w.u32(3);
                addr.encode(w);
            }
        }
    }
}
/// Most places of a source server.
const NETLOCS_MAX: usize = 16;
/// `ca_source_server`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Netlocs(pub Vec<Netloc>);
impl Decode for Netlocs {
    fn decode(r: &mut Reader) -> Result<Self, DecodeError> {
        Ok(Netlocs(r.array(NETLOCS_MAX)?))
    }
}
impl Encode for Netlocs {
    fn encode(&self, w: &mut Writer) {
        w.array(&self.0);
    }
}

xdr_struct! {
    /// COPY (60), §15.2: from the saved to the current filehandle.
    pub struct CopyArgs {
        /// `ca_src_stateid`: one that may read the source.
        pub src_stateid: Stateid,
        /// `ca_dst_stateid`: one that may write the destination.
        pub dst_stateid: Stateid,
        /// `ca_src_offset`.
        pub src_offset: u64,
        /// `ca_dst_offset`.
        pub dst_offset: u64,
        /// `ca_count`: bytes; 0 means to the end of the source.
        pub count: u64,
        /// `ca_consecutive`: bytes must be copied in order.
        pub consecutive: bool,
        /// `ca_synchronous`: the reply must wait for the end.
        pub synchronous: bool,
        /// `ca_source_server`: empty if both files are here.
        pub source_server: Netlocs,
    }
}
xdr_struct! {
    /// `write_response4`.
    pub struct WriteResponse {
        /// `wr_callback_id`: of what goes on after the reply.
        pub callback_id: Option<Stateid>,
        /// `wr_count`: bytes done.
        pub count: u64,
        /// `wr_committed`: how durable they are.
        pub committed: StableHow,
        /// `wr_writeverf`: compared with COMMIT's.
        pub writeverf: Verifier,
    }
}
xdr_struct! {
    /// `copy_requirements4`: what was asked for and can be had.
    #[derive(Copy)]
    pub struct CopyRequirements {
        /// `cr_consecutive`.
        pub consecutive: bool,
        /// `cr_synchronous`.
        pub synchronous: bool,
    }
}
xdr_struct! {
    /// What COPY returns when it succeeds.
    pub struct CopyOk {
        /// `cr_response`.
        pub response: WriteResponse,
        /// `cr_requirements`.
        pub requirements: CopyRequirements,
    }
}

xdr_struct! {
    /// CLONE (71), §15.13: from the saved to the current filehandle.
    pub struct CloneArgs {
        /// `cl_src_stateid`: one that may read the source.
        pub src_stateid: Stateid,
        /// `cl_dst_stateid`: one that may write the destination.
        pub dst_stateid: Stateid,
        /// `cl_src_offset`.
        pub src_offset: u64,
        /// `cl_dst_offset`.
        pub dst_offset: u64,
        /// `cl_count`: bytes; 0 means to the end of the source.
        pub count: u64,
    }
}

xdr_struct! {
    /// OFFLOAD_CANCEL (66), §15.8.
    pub struct OffloadCancelArgs {
        /// `oca_stateid`: what to stop.
        pub stateid: Stateid,
    }
}
xdr_struct! {
    /// OFFLOAD_STATUS (67), §15.9.
    pub struct OffloadStatusArgs {
        /// `osa_stateid`: of what.
        pub stateid: Stateid,
    }
}
xdr_struct! {
    /// What OFFLOAD_STATUS returns when it succeeds.
    pub struct OffloadStatusOk {
        /// `osr_count`: bytes done so far.
        pub count: u64,
        /// `osr_complete`: how it ended, if it has.
        pub complete: Option<NfsStat>,
    }
}
