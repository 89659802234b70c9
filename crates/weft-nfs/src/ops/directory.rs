//! Directory delegations: RFC 8881 §10.9, §18.39.

use weft_xdr::{Decode, DecodeError, DecodeErrorKind, Encode, Reader, Writer, xdr_struct};

use crate::attr::Bitmap;
use crate::basic::{NfsTime, Stateid, Verifier};

xdr_struct! {
    /// GET_DIR_DELEGATION (46), §18.39: of the current filehandle's directory.
    pub struct GetDirDelegationArgs {
        /// Whether the client wants to be called when one becomes available.
        pub signal_deleg_avail: bool,
        /// `notify_type4`: of which changes the client wants to hear instead of a recall.
        pub notification_types: Bitmap,
        /// How late it may hear of a change of an entry's attributes.
        pub child_attr_delay: NfsTime,
        /// How late it may hear of a change of the directory's attributes.
        pub dir_attr_delay: NfsTime,
        /// Attributes of entries that it wants to hear of.
        pub child_attributes: Bitmap,
        /// Attributes of the directory that it wants to hear of.
        pub dir_attributes: Bitmap,
    }
}
xdr_struct! {
    /// `GET_DIR_DELEGATION4resok`: a delegation.
    pub struct DirDelegation {
        /// Of the cookies of the directory's listing.
        pub cookieverf: Verifier,
        /// Stateid of the delegation.
        pub stateid: Stateid,
        /// Of which changes the client will hear; any other is a recall.
        pub notification: Bitmap,
        /// Attributes of entries that it will hear of.
        pub child_attributes: Bitmap,
        /// Attributes of the directory that it will hear of.
        pub dir_attributes: Bitmap,
    }
}

/// `GET_DIR_DELEGATION4res_non_fatal`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GetDirDelegationOk {
    /// `GDD4_OK`.
    Granted(DirDelegation),
    /// `GDD4_UNAVAIL`: none now.
    Unavailable {
        /// Whether the client will be called when there is one.
        will_signal: bool,
    },
}
impl Decode for GetDirDelegationOk {
    fn decode(r: &mut Reader) -> Result<Self, DecodeError> {
        r.label("GET_DIR_DELEGATION4res_non_fatal");
        match r.u32()? {
            0 => Ok(GetDirDelegationOk::Granted(Decode::decode(r)?)),
            1 => Ok(GetDirDelegationOk::Unavailable { will_signal: r.bool()? }),
            _ => Err(r.error(DecodeErrorKind::Value)),
        }
    }
}
impl Encode for GetDirDelegationOk {
    fn encode(&self, w: &mut Writer) {
        match self {
            GetDirDelegationOk::Granted(delegation) => {
                w.u32(0);
                delegation.encode(w);
            }
            GetDirDelegationOk::Unavailable { will_signal } => {
                w.u32(1);
                w.bool(*will_signal);
            }
        }
    }
}
