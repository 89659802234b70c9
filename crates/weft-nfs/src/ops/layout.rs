//! pNFS: RFC 8881 §18.40-§18.44.

use bytes::Bytes;
use weft_xdr::{Decode, DecodeError, DecodeErrorKind, Encode, Reader, Writer, xdr_struct};

use crate::attr::Bitmap;
use crate::basic::{DeviceId, IoMode, LayoutType, NfsTime, Stateid, Verifier};

/// Longest layout or device address body accepted from the wire.
pub const LAYOUT_BODY_BYTES_MAX: usize = 1 << 20;

/// A layout-type-specific body.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Body(pub Bytes);
impl Decode for Body {
    fn decode(r: &mut Reader) -> Result<Self, DecodeError> {
        Ok(Body(r.opaque(LAYOUT_BODY_BYTES_MAX)?))
    }
}
impl Encode for Body {
    fn encode(&self, w: &mut Writer) {
        w.opaque(&self.0);
    }
}

xdr_struct! {
    /// GETDEVICEINFO (47), §18.40.
    pub struct GetdeviceinfoArgs {
        /// Device whose address is wanted.
        pub device_id: DeviceId,
        /// Its layout type.
        pub layout_type: LayoutType,
        /// Most bytes of the result, as XDR.
        pub maxcount: u32,
        /// Numbers of the device notifications that are wanted.
        pub notify_types: Bitmap,
    }
}
xdr_struct! {
    /// What GETDEVICEINFO returns when it succeeds.
    pub struct GetdeviceinfoOk {
        /// Type of the layout; files layouts are the one served.
        pub layout_type: LayoutType,
        /// Address of the device, in the form of its layout type.
        pub addr_body: Body,
        /// Notifications the server will send.
        pub notification: Bitmap,
    }
}
xdr_struct! {
    /// GETDEVICELIST (48), §18.41.
    pub struct GetdevicelistArgs {
        /// Type of the layout; files layouts are the one served.
        pub layout_type: LayoutType,
        /// Most device ids to return.
        pub maxdevices: u32,
        /// Where to go on.
        pub cookie: u64,
        /// Verifier of that cookie.
        pub cookieverf: Verifier,
    }
}

xdr_struct! {
    /// LAYOUTCOMMIT (49), §18.42.
    pub struct LayoutcommitArgs {
        /// First byte written.
        pub offset: u64,
        /// Length of the range in bytes; `u64::MAX`: to the end of the file.
        pub length: u64,
        /// After a server restart.
        pub reclaim: bool,
        /// Stateid of the layout.
        pub stateid: Stateid,
        /// Last byte written, if the file may have grown.
        pub last_write_offset: Option<u64>,
        /// Modification time, if the client knows one.
        pub time_modify: Option<NfsTime>,
        /// Type of the layout; files layouts are the one served.
        pub layout_type: LayoutType,
        /// Body; empty for files layouts.
        pub update_body: Body,
    }
}
xdr_struct! {
    /// What LAYOUTCOMMIT returns when it succeeds.
    pub struct LayoutcommitOk {
        /// New size, if it changed.
        pub newsize: Option<u64>,
    }
}
xdr_struct! {
    /// LAYOUTGET (50), §18.43.
    pub struct LayoutgetArgs {
        /// Whether the client wants to be called when one becomes available.
        pub signal_layout_avail: bool,
        /// Type of the layout; files layouts are the one served.
        pub layout_type: LayoutType,
        /// Read or read and write.
        pub iomode: IoMode,
        /// Where the range begins: an offset in the file, in bytes.
        pub offset: u64,
        /// Bytes wanted from the offset on; `u64::MAX`: to the end of the file.
        pub length: u64,
        /// Bytes without which the layout is of no use.
        pub minlength: u64,
        /// Open, lock, delegation or layout stateid.
        pub stateid: Stateid,
        /// Most bytes of the result, as XDR.
        pub maxcount: u32,
    }
}
xdr_struct! {
    /// `layout4`: one segment.
    pub struct LayoutSegment {
        /// Where the range begins: an offset in the file, in bytes.
        pub offset: u64,
        /// Bytes; all ones means to the end.
        pub length: u64,
        /// Whether it may be written with, or only read.
        pub iomode: IoMode,
        /// Type of the layout; files layouts are the one served.
        pub layout_type: LayoutType,
        /// Layout body, in the form of its type; opaque here.
        pub body: Body,
    }
}

/// What LAYOUTGET returns when it succeeds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LayoutgetOk {
    /// Return it before CLOSE.
    pub return_on_close: bool,
    /// Stateid of the layout.
    pub stateid: Stateid,
    /// Segments of the layout, in order of their offsets.
    pub layout: Vec<LayoutSegment>,
}
/// Most segments accepted from the wire.
const SEGMENTS_MAX: usize = 64;
impl Decode for LayoutgetOk {
    fn decode(r: &mut Reader) -> Result<Self, DecodeError> {
        r.label("LAYOUTGET4resok");
        Ok(LayoutgetOk {
            return_on_close: r.bool()?,
            stateid: Stateid::decode(r)?,
            layout: r.array(SEGMENTS_MAX)?,
        })
    }
}
impl Encode for LayoutgetOk {
    fn encode(&self, w: &mut Writer) {
        w.bool(self.return_on_close);
        self.stateid.encode(w);
        w.array(&self.layout);
    }
}

/// `layoutreturn4`: what is returned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LayoutReturn {
    /// Ranges of the current file.
    File {
        /// Where the range begins: an offset in the file, in bytes.
        offset: u64,
        /// Length of the range in bytes; `u64::MAX`: to the end of the file.
        length: u64,
        /// Stateid of the layout.
        stateid: Stateid,
        /// Layout body, in the form of its type; opaque here.
        body: Body,
    },
    /// Everything in the current file system.
    Fsid,
    /// Every layout of the client.
    All,
}
impl Decode for LayoutReturn {
    fn decode(r: &mut Reader) -> Result<Self, DecodeError> {
        r.label("layoutreturn4");
        match r.u32()? {
            1 => Ok(LayoutReturn::File {
                offset: r.u64()?,
                length: r.u64()?,
                stateid: Stateid::decode(r)?,
                body: Body::decode(r)?,
            }),
            2 => Ok(LayoutReturn::Fsid),
            3 => Ok(LayoutReturn::All),
            _ => Err(r.error(DecodeErrorKind::Value)),
        }
    }
}
impl Encode for LayoutReturn {
    fn encode(&self, w: &mut Writer) {
        match self {
            LayoutReturn::File { offset, length, stateid, body } => {
                w.u32(1);
                w.u64(*offset);
                w.u64(*length);
                stateid.encode(w);
                body.encode(w);
            }
            LayoutReturn::Fsid => w.u32(2),
            LayoutReturn::All => w.u32(3),
        }
    }
}

xdr_struct! {
    /// LAYOUTRETURN (51), §18.44.
    pub struct LayoutreturnArgs {
        /// After a server restart.
        pub reclaim: bool,
        /// Type of the layout; files layouts are the one served.
        pub layout_type: LayoutType,
        /// Layouts of which mode are returned.
        pub iomode: IoMode,
        /// One file, one file system, or everything.
        pub layoutreturn: LayoutReturn,
    }
}
xdr_struct! {
    /// LAYOUTRETURN result: the stateid, if any of the layout remains.
    pub struct LayoutreturnOk {
        /// Stateid of what the client still holds; none if nothing.
        pub stateid: Option<Stateid>,
    }
}
