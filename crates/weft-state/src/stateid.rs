//! Stateids: what our `other` field says, and the seqid rules. RFC 8881 §8.2, §12.5.3.
//!
//! `other` is the instance (4 bytes, big-endian), the kind (1 byte) and a number (7 bytes) that
//! no other state of this instance ever has. The kind is never 0 nor 0xff, so that no stateid of
//! ours looks special.

use weft_nfs::{Seqid, Stateid};

use crate::refusal::Reason;

/// What a stateid stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Open,
    Lock,
    Layout,
    Delegation,
}

impl Kind {
    fn byte(self) -> u8 {
        match self {
            Kind::Open => 1,
            Kind::Lock => 2,
            Kind::Layout => 3,
            Kind::Delegation => 4,
        }
    }
}

/// The number of a state within its instance: unique over all kinds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct StateNo(pub(crate) u64);

/// Makes the stateid of a state.
pub(crate) fn stateid(instance: u32, kind: Kind, no: StateNo, seqid: Seqid) -> Stateid {
    with_kind(instance, kind.byte(), no, seqid)
}

fn with_kind(instance: u32, kind: u8, no: StateNo, seqid: Seqid) -> Stateid {
    let [a, b, c, d] = instance.to_be_bytes();
    let [_, n1, n2, n3, n4, n5, n6, n7] = no.0.to_be_bytes();
    Stateid { seqid, other: [a, b, c, d, kind, n1, n2, n3, n4, n5, n6, n7] }
}

/// Reads a stateid a peer sent. One of another instance is unknown, not stale: Linux hangs on
/// STALE_STATEID in TEST_STATEID.
pub(crate) fn parse(instance: u32, stateid: &Stateid) -> Result<(Kind, StateNo), Reason> {
    if stateid.is_special() {
        return Err(Reason::StateidSpecial);
    }
    let [a, b, c, d, kind, n1, n2, n3, n4, n5, n6, n7] = stateid.other;
    if [a, b, c, d] != instance.to_be_bytes() {
        return Err(Reason::StateidUnknown);
    }
    let kinds = [Kind::Open, Kind::Lock, Kind::Layout, Kind::Delegation];
    let kind = kinds.into_iter().find(|k| k.byte() == kind);
    let no = StateNo(u64::from_be_bytes([0, n1, n2, n3, n4, n5, n6, n7]));
    kind.map(|k| (k, no)).ok_or(Reason::StateidUnknown)
}

/// The kind of a stateid of [`crate::Offloads`], which is none of [`crate::State`]'s.
const OFFLOAD_BYTE: u8 = 5;

/// The stateid of an offloaded operation. It never changes, so its seqid is 1: never 0, which
/// would mean the latest (RFC 7862 §4.8).
pub(crate) fn offload_stateid(instance: u32, no: StateNo) -> Stateid {
    with_kind(instance, OFFLOAD_BYTE, no, Seqid(1))
}

/// Reads a stateid that should be of an offloaded operation.
pub(crate) fn parse_offload(instance: u32, stateid: &Stateid) -> Result<StateNo, Reason> {
    if stateid.is_special() {
        return Err(Reason::StateidSpecial);
    }
    let [.., n1, n2, n3, n4, n5, n6, n7] = stateid.other;
    let no = StateNo(u64::from_be_bytes([0, n1, n2, n3, n4, n5, n6, n7]));
    if *stateid == offload_stateid(instance, no) { Ok(no) } else { Err(Reason::StateidUnknown) }
}

/// Whether `a` was given out after `b`, wrap-around included (RFC 8881 §8.2.2).
pub(crate) fn is_after(a: Seqid, b: Seqid) -> bool {
    a != b && a.0.wrapping_sub(b.0) < 1 << 31
}

/// Checks the seqid of an open or lock stateid: 0 means the latest (§8.2.2).
pub(crate) fn check_seqid(sent: Seqid, current: Seqid) -> Result<(), Reason> {
    if sent == Seqid(0) || sent == current {
        Ok(())
    } else if is_after(sent, current) {
        Err(Reason::StateidFuture)
    } else {
        Err(Reason::StateidOld)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Proves that stateids are read back as made, and never look special.
    #[test]
    fn stateids_round_trip() {
        for kind in [Kind::Open, Kind::Lock, Kind::Layout, Kind::Delegation] {
            for no in [StateNo(0), StateNo(1), StateNo((1 << 56) - 1)] {
                for instance in [0, u32::MAX] {
                    let s = stateid(instance, kind, no, Seqid(1));
                    assert!(!s.is_special());
                    assert_eq!(parse(instance, &s), Ok((kind, no)));
                    assert_eq!(parse(instance ^ 1, &s), Err(Reason::StateidUnknown));
                }
            }
        }
    }

    /// Proves that no copy has the stateid of a state, whose numbers are counted apart (§8.2.2).
    #[test]
    fn offloads_are_no_states() {
        let offload = offload_stateid(1, StateNo(1));
        assert!(!offload.is_special());
        assert_eq!(parse(1, &offload), Err(Reason::StateidUnknown));
        for kind in [Kind::Open, Kind::Lock, Kind::Layout, Kind::Delegation] {
            assert_ne!(stateid(1, kind, StateNo(1), Seqid(1)), offload, "{kind:?}");
        }
    }

    /// Proves that unknown kinds and special stateids are refused.
    #[test]
    fn foreign_forms_are_refused() {
        let mut s = stateid(0, Kind::Open, StateNo(1), Seqid(1));
        s.other[4] = 9;
        assert_eq!(parse(0, &s), Err(Reason::StateidUnknown));
        for special in [Stateid::ANONYMOUS, Stateid::READ_BYPASS, Stateid::INVALID] {
            assert_eq!(parse(0, &special), Err(Reason::StateidSpecial));
        }
    }

    /// RFC 8881 §8.2.2: zero is the latest; older, newer and wrapped seqids.
    #[test]
    fn seqids_older_equal_newer_and_wrapped() {
        let check = |sent, current| check_seqid(Seqid(sent), Seqid(current));
        assert_eq!(check(0, 5), Ok(()));
        assert_eq!(check(5, 5), Ok(()));
        assert_eq!(check(4, 5), Err(Reason::StateidOld));
        assert_eq!(check(6, 5), Err(Reason::StateidFuture));
        assert_eq!(check(u32::MAX, 1), Err(Reason::StateidOld));
        assert_eq!(check(1, u32::MAX), Err(Reason::StateidFuture));
    }
}
