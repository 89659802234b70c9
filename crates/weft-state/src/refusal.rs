//! Why a request is refused: the peer sees the status, the log and the tests see the reason.

use weft_nfs::{Failure, FailureBody, NfsStat};

macro_rules! reasons {
    ($($(#[$m:meta])* $name:ident = $status:ident, $text:literal;)*) => {
        /// The cause of a refusal; each has one status.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Reason {
            $($(#[$m])* #[doc = concat!(stringify!($status), ": ", $text, ".")] $name,)*
        }

        impl Reason {
            /// Every reason.
            pub const ALL: &'static [Reason] = &[$(Reason::$name),*];

            /// The status the peer is given.
            pub fn status(self) -> NfsStat {
                match self { $(Reason::$name => NfsStat::$status,)* }
            }
        }

        impl std::fmt::Display for Reason {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(match self { $(Reason::$name => $text,)* })
            }
        }
    };
}

reasons! {
    // Clients: RFC 8881 §18.35, §18.36, §18.50, §18.51.
    FlagsUnknown = INVAL, "flags a client may not set";
    SsvUnsupported = ENCR_ALG_UNSUPP, "state protection by SSV is not offered";
    ClientInUse = CLID_INUSE, "the owner belongs to another principal that holds state";
    ClientElsewhere = CLID_INUSE, "the owner belongs to a client of another host that is in use";
    UpdateUnknown = NOENT, "update of a client that has no confirmed record";
    UpdateVerifier = NOT_SAME, "update by another incarnation of the client";
    UpdatePrincipal = PERM, "update by another principal";
    TooManyClients = DELAY, "no room for another client";
    ClientUnknown = STALE_CLIENTID, "no such client";
    ConfirmPrincipal = CLID_INUSE, "confirmation by another principal than the one that asked";
    ClientHasSessions = CLIENTID_BUSY, "the client still has sessions";
    ClientHasState = CLIENTID_BUSY, "the client still holds state";
    ReclaimDoneBefore = COMPLETE_ALREADY, "reclaim was completed before";
    // Sessions: §18.33, §18.34, §18.36, §18.37.
    CreateMisordered = SEQ_MISORDERED, "csa_sequence is neither the next nor the last";
    TooManySessions = NOSPC, "the client has too many sessions, or they take too much memory";
    NoMemoryForSession = DELAY, "no memory is left for a session";
    ChannelTooSmall = TOOSMALL, "the channel is too small for the smallest message";
    ChannelEmpty = INVAL, "a channel without requests or operations";
    SessionUnknown = BADSESSION, "no such session";
    NotBound = CONN_NOT_BOUND_TO_SESSION, "the connection is not bound to the session";
    DirectionUnknown = INVAL, "no such channel direction";
    NoBackChannel = INVAL, "the session has no usable back channel";
    CallbackSecUnsupported = NOENT, "no callback security that is offered can be used";
    // Slots: §2.10.6, §18.46.
    NoMemoryForSlot = DELAY, "no memory is left for another slot";
    SlotUnknown = BADSLOT, "slot beyond the session's slots";
    HighSlotUnknown = BAD_HIGH_SLOT, "highest slot beyond the session's slots";
    TooManyOps = TOO_MANY_OPS, "more operations than negotiated";
    RequestTooBig = REQ_TOO_BIG, "request bigger than negotiated";
    ReplyTooBig = REP_TOO_BIG, "even the shortest reply is bigger than negotiated";
    ReplyTooBigToCache = REP_TOO_BIG_TO_CACHE, "even the shortest reply is too big to keep";
    SlotMisordered = SEQ_MISORDERED, "sequence id is neither the next nor the last of the slot";
    RetryUncached = RETRY_UNCACHED_REP, "retry of a request whose reply was not kept";
    FalseRetry = SEQ_FALSE_RETRY, "retry differs from the request it repeats";
    InProgress = DELAY, "the request is still being executed";
    // Stateids: §8.2.
    StateidUnknown = BAD_STATEID, "no such state";
    StateidForeign = BAD_STATEID, "state of another client";
    StateidOfOtherFile = BAD_STATEID, "state of another file";
    StateidKind = BAD_STATEID, "state of a kind this operation does not take";
    StateidSpecial = BAD_STATEID, "special stateid this operation does not take";
    StateidOld = OLD_STATEID, "stateid was replaced by a newer one";
    StateidFuture = BAD_STATEID, "seqid that was never given out";
    StateidZeroSeqid = BAD_STATEID, "layout stateids need their seqid";
    StillInUse = LOCKS_HELD, "state that is in use is not freed";
    // Copies: RFC 7862 §15.8, §15.9.
    OffloadEnded = COMPLETE_ALREADY, "the operation has ended";
    // Opens: §9.7-§9.9, §18.16, §18.18.
    ShareInvalid = INVAL, "share access or deny out of range";
    ShareDenied = SHARE_DENIED, "conflicts with the share reservation of another open";
    TooManyOpens = DELAY, "no memory for another open";
    DowngradeInvalid = INVAL, "not a union of shares that were opened";
    OpenMode = OPENMODE, "the open does not allow this access";
    Delegated = DELAY, "others hold delegations, to be recalled first";
    DelegationRevoked = DELEG_REVOKED, "the delegation was taken away";
    IoDenied = LOCKED, "an open denies this access to others";
    // Locks: §18.10-§18.12.
    RangeInvalid = INVAL, "empty range, or one that passes the end of 64 bits";
    LockDenied = DENIED, "another owner holds a conflicting lock";
    TooManyLocks = DELAY, "no memory for another lock, or too many ranges of a file";
    // Layouts: §12.5, §18.42-§18.44.
    IoModeInvalid = BADIOMODE, "iomode that cannot be granted or was not";
    RecallOut = RECALLCONFLICT, "the layout is being recalled";
    TooManyLayouts = LAYOUTUNAVAILABLE, "memory runs short for layouts";
}

/// A refused request. Nothing was changed by it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// For the peer.
    pub status: NfsStat,
    /// For log, counters and tests.
    pub because: Reason,
    /// What the status carries on the wire: the lock in the way of a DENIED one, or nothing.
    pub body: FailureBody,
}

impl From<Reason> for Refusal {
    fn from(because: Reason) -> Self {
        Refusal { status: because.status(), because, body: FailureBody::None }
    }
}

impl From<Refusal> for Failure {
    fn from(r: Refusal) -> Self {
        Failure { status: r.status, body: r.body }
    }
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.status, self.because)
    }
}

impl std::error::Error for Refusal {}

#[cfg(test)]
mod tests {
    use super::*;

    /// Proves that no reason is mistaken for success, and that reasons tell themselves apart.
    #[test]
    fn every_reason_has_a_failing_status_and_its_own_text() {
        let mut texts: Vec<String> = Reason::ALL.iter().map(ToString::to_string).collect();
        assert!(Reason::ALL.iter().all(|r| r.status() != NfsStat::OK));
        texts.sort();
        texts.dedup();
        assert_eq!(texts.len(), Reason::ALL.len());
    }
}
