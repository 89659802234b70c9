//! Extended attributes: RFC 8276 §8.4.

use bytes::Bytes;
use weft_xdr::{Decode, DecodeError, Encode, Reader, Writer, xdr_named, xdr_struct};

use crate::basic::{ChangeInfo, Component};

/// Longest value accepted from the wire, bytes; a server's own limit is lower, so that it can
/// answer XATTR2BIG.
pub const XATTR_BYTES_MAX: usize = 1 << 20;
/// Most names accepted in one LISTXATTRS result (a client's limit).
pub const XATTR_NAMES_MAX: usize = 1 << 14;

/// `xattrvalue4`: bytes with a meaning to applications only.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct XattrValue(pub Bytes);
impl Decode for XattrValue {
    fn decode(r: &mut Reader) -> Result<Self, DecodeError> {
        r.label("xattrvalue4");
        Ok(XattrValue(r.opaque(XATTR_BYTES_MAX)?))
    }
}
impl Encode for XattrValue {
    fn encode(&self, w: &mut Writer) {
        w.opaque(&self.0);
    }
}

xdr_struct! {
    /// GETXATTR (72), §8.4.1.
    pub struct GetxattrArgs {
        /// `gxa_name`.
        pub name: Component,
    }
}
xdr_struct! {
    /// What GETXATTR returns when it succeeds.
    pub struct GetxattrOk {
        /// `gxr_value`.
        pub value: XattrValue,
    }
}

xdr_named! {
    /// `setxattr_option4`.
    pub struct SetxattrOption {
        EITHER = 0,
        CREATE = 1,
        REPLACE = 2,
    }
}
xdr_struct! {
    /// SETXATTR (73), §8.4.2.
    pub struct SetxattrArgs {
        /// `sxa_option`: whether it must not, or must, exist before.
        pub option: SetxattrOption,
        /// `sxa_key`.
        pub key: Component,
        /// `sxa_value`.
        pub value: XattrValue,
    }
}
xdr_struct! {
    /// SETXATTR and REMOVEXATTR result, §8.4.2, §8.4.4.
    pub struct XattrChanged {
        /// `sxr_info`, `rxr_info`: the object's change attribute around it.
        pub info: ChangeInfo,
    }
}
xdr_struct! {
    /// LISTXATTRS (74), §8.4.3.
    pub struct ListxattrsArgs {
        /// `lxa_cookie`: 0, or where the last list ended.
        pub cookie: u64,
        /// `lxa_maxcount`: most bytes of the result's XDR.
        pub maxcount: u32,
    }
}

/// LISTXATTRS result, §8.4.3.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListxattrsOk {
    /// `lxr_cookie`: where to go on.
    pub cookie: u64,
    /// `lxr_names`.
    pub names: Vec<Component>,
    /// `lxr_eof`: there are no more.
    pub eof: bool,
}
impl Decode for ListxattrsOk {
    fn decode(r: &mut Reader) -> Result<Self, DecodeError> {
        r.label("LISTXATTRS4resok");
        let cookie = r.u64()?;
        let names = r.array(XATTR_NAMES_MAX)?;
        Ok(ListxattrsOk { cookie, names, eof: r.bool()? })
    }
}
impl Encode for ListxattrsOk {
    fn encode(&self, w: &mut Writer) {
        w.u64(self.cookie);
        w.array(&self.names);
        w.bool(self.eof);
    }
}

xdr_struct! {
    /// REMOVEXATTR (75), §8.4.4.
    pub struct RemovexattrArgs {
        /// `rxa_name`.
        pub name: Component,
    }
}
