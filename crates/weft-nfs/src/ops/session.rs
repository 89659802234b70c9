//! Clients and sessions: RFC 8881 §18.33-§18.37, §18.46-§18.51.

use weft_xdr::{Decode, DecodeError, DecodeErrorKind, Encode, Reader, Writer, xdr_struct};

use crate::attr::Bitmap;
use crate::basic::{ClientId, NfsTime, Opaque, SequenceId, SessionId, SlotId, Stateid, Verifier};
use crate::status::NfsStat;

xdr_struct! {
    /// `client_owner4`.
    #[derive(Hash)]
    pub struct ClientOwner {
        /// Changes when the client restarts.
        pub verifier: Verifier,
        /// Same over restarts.
        pub ownerid: Opaque,
    }
}

xdr_struct! {
    /// `nfs_impl_id4`.
    pub struct ImplId {
        /// DNS domain of the implementer.
        pub domain: Opaque,
        /// Name and version of the product.
        pub name: Opaque,
        /// When it was built.
        pub date: NfsTime,
    }
}

xdr_struct! {
    /// Operations under state protection.
    pub struct StateProtectOps {
        /// Must use the machine credential.
        pub must_enforce: Bitmap,
        /// May use it.
        pub must_allow: Bitmap,
    }
}

/// `state_protect4_a`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StateProtectArgs {
    /// SP4_NONE.
    None,
    /// SP4_MACH_CRED.
    MachCred(StateProtectOps),
    /// SP4_SSV; its parameters are skipped, since it is never granted.
    Ssv,
}
impl Decode for StateProtectArgs {
    fn decode(r: &mut Reader) -> Result<Self, DecodeError> {
        r.label("state_protect4_a");
        match r.u32()? {
            0 => Ok(StateProtectArgs::None),
            1 => Ok(StateProtectArgs::MachCred(StateProtectOps::decode(r)?)),
            2 => {
                StateProtectOps::decode(r)?;
                let _hash_algs: Vec<Opaque> = r.array(64)?;
                let _encr_algs: Vec<Opaque> = r.array(64)?;
                let _window_and_handles = (r.u32()?, r.u32()?);
                Ok(StateProtectArgs::Ssv)
            }
            _ => Err(r.error(DecodeErrorKind::Value)),
        }
    }
}
impl Encode for StateProtectArgs {
    fn encode(&self, w: &mut Writer) {
        match self {
            StateProtectArgs::None => w.u32(0),
            StateProtectArgs::MachCred(ops) => {
                w.u32(1);
                ops.encode(w);
            }
            StateProtectArgs::Ssv => {
                w.u32(2);
                for _ in 0..6 {
                    w.u32(0); // two bitmaps, two algorithm lists, window, handles
                }
            }
        }
    }
}

/// `state_protect4_r`: SSV is never granted here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StateProtectOk {
    /// SP4_NONE.
    None,
    /// SP4_MACH_CRED.
    MachCred(StateProtectOps),
}
impl Decode for StateProtectOk {
    fn decode(r: &mut Reader) -> Result<Self, DecodeError> {
        r.label("state_protect4_r");
        match r.u32()? {
            0 => Ok(StateProtectOk::None),
            1 => Ok(StateProtectOk::MachCred(StateProtectOps::decode(r)?)),
            _ => Err(r.error(DecodeErrorKind::Value)),
        }
    }
}
impl Encode for StateProtectOk {
    fn encode(&self, w: &mut Writer) {
        match self {
            StateProtectOk::None => w.u32(0),
            StateProtectOk::MachCred(ops) => {
                w.u32(1);
                ops.encode(w);
            }
        }
    }
}

/// An implementation id, or none: an array of at most one on the wire.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImplIds(pub Option<ImplId>);
impl Decode for ImplIds {
    fn decode(r: &mut Reader) -> Result<Self, DecodeError> {
        Ok(ImplIds(r.array(1)?.pop()))
    }
}
impl Encode for ImplIds {
    fn encode(&self, w: &mut Writer) {
        w.option(self.0.as_ref()); // an array of at most one has the form of an optional
    }
}

xdr_struct! {
    /// EXCHANGE_ID (42), §18.35.
    pub struct ExchangeIdArgs {
        /// Name that the client gives itself, and the verifier of its start.
        pub clientowner: ClientOwner,
        /// See [`crate::exchgid`].
        pub flags: u32,
        /// Protection asked for.
        pub state_protect: StateProtectArgs,
        /// What the client is.
        pub client_impl_id: ImplIds,
    }
}
xdr_struct! {
    /// `server_owner4`.
    pub struct ServerOwner {
        /// Trunking of sessions needs this equal too.
        pub minor_id: u64,
        /// Distinct for every process with its own client table (design D4).
        pub major_id: Opaque,
    }
}
xdr_struct! {
    /// What EXCHANGE_ID returns when it succeeds.
    pub struct ExchangeIdOk {
        /// Shorthand for the client.
        pub clientid: ClientId,
        /// First sequence id of CREATE_SESSION.
        pub sequenceid: SequenceId,
        /// See [`crate::exchgid`].
        pub flags: u32,
        /// State protection that is granted: none, or the machine credential.
        pub state_protect: StateProtectOk,
        /// Which server this is.
        pub server_owner: ServerOwner,
        /// Within which scope its ids hold.
        pub server_scope: Opaque,
        /// What the server is.
        pub server_impl_id: ImplIds,
    }
}

/// `ca_rdma_ird`: an array of at most one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RdmaIrd(pub Option<u32>);
impl Decode for RdmaIrd {
    fn decode(r: &mut Reader) -> Result<Self, DecodeError> {
        Ok(RdmaIrd(r.array(1)?.pop()))
    }
}
impl Encode for RdmaIrd {
    fn encode(&self, w: &mut Writer) {
        w.option(self.0.as_ref());
    }
}

xdr_struct! {
    /// `channel_attrs4`.
    #[derive(Copy)]
    pub struct ChannelAttrs {
        /// Padding before data; 0 here.
        pub headerpadsize: u32,
        /// Most bytes of a request.
        pub maxrequestsize: u32,
        /// Most bytes of a reply.
        pub maxresponsesize: u32,
        /// Largest reply that is kept for replay.
        pub maxresponsesize_cached: u32,
        /// Most operations in a COMPOUND.
        pub maxoperations: u32,
        /// Number of slots: requests that may be under way at once.
        pub maxrequests: u32,
        /// RDMA only.
        pub rdma_ird: RdmaIrd,
    }
}

/// `callback_sec_parms4`: how the server may authenticate its callbacks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallbackSec {
    /// AUTH_NONE.
    None,
    /// AUTH_SYS with these parameters.
    Sys(weft_xdr::rpc::AuthSys),
    /// RPCSEC_GSS (service, handles); not used.
    Gss,
}
impl Decode for CallbackSec {
    fn decode(r: &mut Reader) -> Result<Self, DecodeError> {
        r.label("callback_sec_parms4");
        match r.u32()? {
            0 => Ok(CallbackSec::None),
            1 => Ok(CallbackSec::Sys(Decode::decode(r)?)),
            6 => {
                let _service = r.u32()?;
                let _handles = (r.opaque(1024)?, r.opaque(1024)?);
                Ok(CallbackSec::Gss)
            }
            _ => Err(r.error(DecodeErrorKind::Value)),
        }
    }
}
impl Encode for CallbackSec {
    fn encode(&self, w: &mut Writer) {
        match self {
            CallbackSec::None => w.u32(0),
            CallbackSec::Sys(sys) => {
                w.u32(1);
                sys.encode(w);
            }
            CallbackSec::Gss => {
                w.u32(6);
                (0..3).for_each(|_| w.u32(0));
            }
        }
    }
}

/// The flavors a client offers for callbacks.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CallbackSecs(pub Vec<CallbackSec>);
impl Decode for CallbackSecs {
    fn decode(r: &mut Reader) -> Result<Self, DecodeError> {
        Ok(CallbackSecs(r.array(16)?))
    }
}
impl Encode for CallbackSecs {
    fn encode(&self, w: &mut Writer) {
        w.array(&self.0);
    }
}

xdr_struct! {
    /// CREATE_SESSION (43), §18.36.
    pub struct CreateSessionArgs {
        /// Client that the session belongs to.
        pub clientid: ClientId,
        /// Replay protection of this very operation.
        pub sequence: SequenceId,
        /// See [`crate::create_session_flags`].
        pub flags: u32,
        /// Wishes for the fore channel.
        pub fore_chan_attrs: ChannelAttrs,
        /// Wishes for the back channel.
        pub back_chan_attrs: ChannelAttrs,
        /// Program number of the callbacks.
        pub cb_program: u32,
        /// Authentication of the callbacks.
        pub sec_parms: CallbackSecs,
    }
}
xdr_struct! {
    /// What CREATE_SESSION returns when it succeeds.
    pub struct CreateSessionOk {
        /// Identifier of the session.
        pub sessionid: SessionId,
        /// Sequence id of the request, echoed.
        pub sequence: SequenceId,
        /// Those of the flags that are granted: see [`crate::create_session_flags`].
        pub flags: u32,
        /// Granted fore channel.
        pub fore_chan_attrs: ChannelAttrs,
        /// Granted back channel.
        pub back_chan_attrs: ChannelAttrs,
    }
}
xdr_struct! {
    /// DESTROY_SESSION (44), §18.37.
    pub struct DestroySessionArgs {
        /// Identifier of the session.
        pub sessionid: SessionId,
    }
}
xdr_struct! {
    /// SEQUENCE (53), §18.46.
    pub struct SequenceArgs {
        /// Identifier of the session.
        pub sessionid: SessionId,
        /// Request number on the slot.
        pub sequenceid: SequenceId,
        /// Slot of the session that the request uses.
        pub slotid: SlotId,
        /// Highest slot in use.
        pub highest_slotid: SlotId,
        /// Whether the reply must be kept.
        pub cachethis: bool,
    }
}
xdr_struct! {
    /// What SEQUENCE returns when it succeeds.
    pub struct SequenceOk {
        /// Identifier of the session.
        pub sessionid: SessionId,
        /// Sequence id of the request, echoed.
        pub sequenceid: SequenceId,
        /// Slot of the request, echoed.
        pub slotid: SlotId,
        /// Highest slot the server accepts.
        pub highest_slotid: SlotId,
        /// Highest slot the server would like used.
        pub target_highest_slotid: SlotId,
        /// See [`crate::seq4_status`].
        pub status_flags: u32,
    }
}
xdr_struct! {
    /// BIND_CONN_TO_SESSION (41), §18.34.
    pub struct BindConnToSessionArgs {
        /// Identifier of the session.
        pub sessionid: SessionId,
        /// FORE 1, BACK 2, FORE_OR_BOTH 3, BACK_OR_BOTH 7.
        pub dir: u32,
        /// Whether the connection changes to RDMA: never.
        pub use_conn_in_rdma_mode: bool,
    }
}
xdr_struct! {
    /// What BIND_CONN_TO_SESSION returns when it succeeds.
    pub struct BindConnToSessionOk {
        /// Identifier of the session.
        pub sessionid: SessionId,
        /// FORE 1, BACK 2, BOTH 3.
        pub dir: u32,
        /// Whether the connection changes to RDMA: never.
        pub use_conn_in_rdma_mode: bool,
    }
}
xdr_struct! {
    /// BACKCHANNEL_CTL (40), §18.33.
    pub struct BackchannelCtlArgs {
        /// New program number.
        pub cb_program: u32,
        /// Credentials for callbacks from now on.
        pub sec_parms: CallbackSecs,
    }
}
xdr_struct! {
    /// DESTROY_CLIENTID (57), §18.50.
    pub struct DestroyClientidArgs {
        /// Identifier of the client.
        pub clientid: ClientId,
    }
}
xdr_struct! {
    /// RECLAIM_COMPLETE (58), §18.51.
    pub struct ReclaimCompleteArgs {
        /// Only for the current file system.
        pub one_fs: bool,
    }
}
xdr_struct! {
    /// FREE_STATEID (45), §18.38.
    pub struct FreeStateidArgs {
        /// Stateid to be freed.
        pub stateid: Stateid,
    }
}

/// TEST_STATEID (55), §18.48.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TestStateidArgs {
    /// Stateids to be tested, in order.
    pub stateids: Vec<Stateid>,
}
/// Most stateids tested at once.
const TEST_STATEIDS_MAX: usize = 1024;
impl Decode for TestStateidArgs {
    fn decode(r: &mut Reader) -> Result<Self, DecodeError> {
        r.label("TEST_STATEID4args");
        Ok(TestStateidArgs { stateids: r.array(TEST_STATEIDS_MAX)? })
    }
}
impl Encode for TestStateidArgs {
    fn encode(&self, w: &mut Writer) {
        w.array(&self.stateids);
    }
}
/// TEST_STATEID result: one status each.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TestStateidOk {
    /// Statuses in the order asked.
    pub status_codes: Vec<NfsStat>,
}
impl Decode for TestStateidOk {
    fn decode(r: &mut Reader) -> Result<Self, DecodeError> {
        Ok(TestStateidOk { status_codes: r.array(TEST_STATEIDS_MAX)? })
    }
}
impl Encode for TestStateidOk {
    fn encode(&self, w: &mut Writer) {
        w.array(&self.status_codes);
    }
}

xdr_struct! {
    /// SECINFO_NO_NAME (52), §18.45: 0 current filehandle, 1 parent.
    pub struct SecinfoNoNameArgs {
        /// Whether the current filehandle is meant, or its parent.
        pub style: u32,
    }
}
