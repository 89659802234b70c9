//! What a client tells when it returns a flexfiles layout: RFC 8435 §9.

use weft_nfs::{
    DeviceId, FileHandle, NfsTime, Stateid,
    ops::{DeviceErrors, IoInfo},
};
use weft_xdr::{Decode, DecodeError, Encode, Reader, Writer, xdr_struct};

use crate::{lists::list, net_addr::NetAddr};

/// Reports of either kind in one LAYOUTRETURN: more than a layout that we accept has data servers
/// in one stripe, few enough that a client cannot make a log of it that nobody reads.
pub const REPORTS_MAX: usize = 64;

xdr_struct! {
    /// `ff_ioerr4`: errors that the I/O of a range has met. At most 64 of them.
    pub struct FlexIoErrors {
        /// `ffie_offset`: first byte.
        pub offset: u64,
        /// `ffie_length`: bytes.
        pub length: u64,
        /// `ffie_stateid`: the layout.
        pub stateid: Stateid,
        /// `ffie_errors`.
        pub errors: DeviceErrors,
    }
}

xdr_struct! {
    /// `ff_io_latency4`: requests of one kind to one data server, and how long they took.
    #[derive(Copy)]
    pub struct IoLatency {
        /// `ffil_ops_requested`.
        pub ops_requested: u64,
        /// `ffil_bytes_requested`.
        pub bytes_requested: u64,
        /// `ffil_ops_completed`.
        pub ops_completed: u64,
        /// `ffil_bytes_completed`.
        pub bytes_completed: u64,
        /// `ffil_bytes_not_delivered`.
        pub bytes_not_delivered: u64,
        /// `ffil_total_busy_time`: in which at least one was under way.
        pub total_busy_time: NfsTime,
        /// `ffil_aggregate_completion_time`: the sum of all of them.
        pub aggregate_completion_time: NfsTime,
    }
}

xdr_struct! {
    /// `ff_layoutupdate4`: what a data server did for a file, the body of LAYOUTSTATS too.
    pub struct FlexUpdate {
        /// `ffl_addr`: the address in use.
        pub addr: NetAddr,
        /// `ffl_fhandle`: the object.
        pub fh: FileHandle,
        /// `ffl_read`.
        pub read: IoLatency,
        /// `ffl_write`.
        pub write: IoLatency,
        /// `ffl_duration`: how long this was counted.
        pub duration: NfsTime,
        /// `ffl_local`: client and data server are one machine.
        pub local: bool,
    }
}

xdr_struct! {
    /// `ff_iostats4`: what was read and written of a range at one data server.
    pub struct FlexIoStats {
        /// `ffis_offset`: first byte.
        pub offset: u64,
        /// `ffis_length`: bytes.
        pub length: u64,
        /// `ffis_stateid`: the layout.
        pub stateid: Stateid,
        /// `ffis_read`.
        pub read: IoInfo,
        /// `ffis_write`.
        pub write: IoInfo,
        /// `ffis_deviceid`.
        pub device: DeviceId,
        /// `ffis_layoutupdate`.
        pub update: FlexUpdate,
    }
}

/// `ff_layoutreturn4`, the body of LAYOUTRETURN: RFC 8435 §9.3. Each list has at most
/// [`REPORTS_MAX`] reports.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FlexReturn {
    /// `fflr_ioerr_report`.
    pub io_errors: Vec<FlexIoErrors>,
    /// `fflr_iostats_report`.
    pub io_stats: Vec<FlexIoStats>,
}

impl Encode for FlexReturn {
    fn encode(&self, w: &mut Writer) {
        w.array(&self.io_errors);
        w.array(&self.io_stats);
    }
}

impl Decode for FlexReturn {
    fn decode(r: &mut Reader) -> Result<Self, DecodeError> {
        r.label("ff_layoutreturn4");
        Ok(FlexReturn {
            io_errors: list(r, REPORTS_MAX, FlexIoErrors::decode)?,
            io_stats: list(r, REPORTS_MAX, FlexIoStats::decode)?,
        })
    }
}
