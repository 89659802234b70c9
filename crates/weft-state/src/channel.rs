//! What a session is granted: RFC 8881 §18.36.3 within what Linux accepts (it refuses a fore
//! channel of fewer than 8 operations, and any back channel attribute above what it asked).

use weft_nfs::create_session_flags as flags;
use weft_nfs::ops::{ChannelAttrs, CreateSessionArgs, RdmaIrd};

use crate::backchannel::{is_usable, usable_sec};
use crate::limits::{BACK_SLOTS_MAX, FORE_BYTES_MIN, SessionLimits};
use crate::refusal::Reason;
use crate::session::slots_at_first;
use crate::slot::slot_bytes;

/// Flags a client may set in CREATE_SESSION.
const FLAGS_KNOWN: u32 = flags::PERSIST | flags::CONN_BACK_CHAN | flags::CONN_RDMA;

/// The attributes and flags of a new session.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Grant {
    pub(crate) fore: ChannelAttrs,
    pub(crate) back: ChannelAttrs,
    pub(crate) flags: u32,
}

/// Decides what a session gets; `bytes_left` is the memory that its first slots may take. It is
/// never granted fewer slots because memory runs short just now: what is granted is for ever.
pub(crate) fn negotiate(
    args: &CreateSessionArgs,
    limits: &SessionLimits,
    bytes_left: usize,
) -> Result<Grant, Reason> {
    if args.flags & !FLAGS_KNOWN != 0 {
        return Err(Reason::FlagsUnknown);
    }
    let fore = fore_channel(&args.fore_chan_attrs, limits, bytes_left)?;
    let wants_back = args.flags & flags::CONN_BACK_CHAN != 0;
    let back = back_channel(&args.back_chan_attrs);
    // A client that gives its back channel no slots wants none, now and later.
    if (wants_back || back.maxrequests > 0) && !is_usable(&back) {
        return Err(Reason::ChannelTooSmall);
    }
    // The reply cache does not survive a restart and there is no RDMA: neither is ever granted.
    let granted = wants_back && usable_sec(&args.sec_parms).is_some();
    Ok(Grant { fore, back, flags: if granted { flags::CONN_BACK_CHAN } else { 0 } })
}

fn fore_channel(
    asked: &ChannelAttrs,
    limits: &SessionLimits,
    bytes_left: usize,
) -> Result<ChannelAttrs, Reason> {
    if asked.maxrequests == 0 || asked.maxoperations == 0 {
        return Err(Reason::ChannelEmpty);
    }
    if asked.maxrequestsize < FORE_BYTES_MIN || asked.maxresponsesize < FORE_BYTES_MIN {
        return Err(Reason::ChannelTooSmall);
    }
    let fore = ChannelAttrs {
        headerpadsize: 0,
        maxrequestsize: asked.maxrequestsize.min(limits.request_bytes_max),
        maxresponsesize: asked.maxresponsesize.min(limits.response_bytes_max),
        maxresponsesize_cached: asked.maxresponsesize_cached.min(limits.cached_bytes_max),
        maxoperations: asked.maxoperations.min(limits.ops_max),
        maxrequests: asked.maxrequests.min(limits.slots_max),
        rdma_ird: RdmaIrd(None),
    };
    if bytes_left < slots_at_first(&fore) * slot_bytes(&fore) {
        return Err(Reason::NoMemoryForSession);
    }
    Ok(fore)
}

fn back_channel(asked: &ChannelAttrs) -> ChannelAttrs {
    ChannelAttrs {
        headerpadsize: 0,
        maxrequests: asked.maxrequests.min(BACK_SLOTS_MAX),
        rdma_ird: RdmaIrd(None),
        ..*asked
    }
}
