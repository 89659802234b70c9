//! A slot of the fore channel: exactly-once execution. RFC 8881 §2.10.6.1, §2.10.6.2.

use bytes::Bytes;
use weft_nfs::SequenceId;
use weft_nfs::ops::ChannelAttrs;

use crate::memory::name_bytes;
use crate::refusal::Reason;

/// A slot: the last request it saw, and what became of it.
#[derive(Debug)]
pub(crate) struct Slot {
    sequenceid: SequenceId,
    phase: Phase,
    /// The `sr_target_highest_slotid` of its last reply.
    pub(crate) told_target: usize,
}

/// Bytes that a slot takes with the largest reply that it may keep.
pub(crate) fn slot_bytes(fore: &ChannelAttrs) -> usize {
    size_of::<Slot>() + name_bytes(fore.maxresponsesize_cached as usize)
}

impl Default for Slot {
    fn default() -> Self {
        Slot { sequenceid: SequenceId(0), phase: Phase::Fresh, told_target: usize::MAX }
    }
}

#[derive(Debug, Default)]
enum Phase {
    /// Never used: there is nothing to retry.
    #[default]
    Fresh,
    /// The last request is being executed.
    Busy { digest: u64 },
    /// The last request was answered; the reply may have been kept.
    Done { digest: u64, reply: Option<Bytes> },
}

/// What a SEQUENCE is to its slot, if not refused.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    /// A new request: execute it. Nothing has changed yet; see [`Slot::begin`].
    New,
    /// A retry: send this again.
    Replay(Bytes),
}

impl Slot {
    /// Judges a request: new, replay, or refused as uncached retry, false retry, misordered or
    /// in progress (§2.10.6.1.3). A retry of a running request is answered DELAY,
    /// whatever it contains. `digest` 0 means unknown and matches anything.
    pub(crate) fn judge(&self, sequenceid: SequenceId, digest: u64) -> Result<Admission, Reason> {
        let next = sequenceid == self.sequenceid.next();
        let same = sequenceid == self.sequenceid;
        match &self.phase {
            Phase::Fresh | Phase::Done { .. } if next => Ok(Admission::New),
            Phase::Busy { .. } if same => Err(Reason::InProgress),
            Phase::Done { digest: first, reply } if same => {
                if digest != *first && digest != 0 && *first != 0 {
                    return Err(Reason::FalseRetry);
                }
                reply.clone().map(Admission::Replay).ok_or(Reason::RetryUncached)
            }
            Phase::Fresh | Phase::Busy { .. } | Phase::Done { .. } => Err(Reason::SlotMisordered),
        }
    }

    /// Whether a request is being executed on it.
    pub(crate) fn is_busy(&self) -> bool {
        matches!(self.phase, Phase::Busy { .. })
    }

    /// The request that is being executed on it.
    pub(crate) fn executed(&self) -> Option<SequenceId> {
        self.is_busy().then_some(self.sequenceid)
    }

    /// Takes the slot for a request that [`Slot::judge`] found new; drops the last reply.
    pub(crate) fn begin(&mut self, sequenceid: SequenceId, digest: u64) {
        self.sequenceid = sequenceid;
        self.phase = Phase::Busy { digest };
    }

    /// Ends the request and keeps its reply, if given. Of no effect for any other request.
    pub(crate) fn complete(&mut self, sequenceid: SequenceId, reply: Option<Bytes>) {
        if let Phase::Busy { digest } = self.phase
            && self.sequenceid == sequenceid
        {
            self.phase = Phase::Done { digest, reply };
        }
    }
}

#[cfg(test)]
mod transitions;

#[cfg(test)]
mod tests {
    use super::*;

    fn slot(phase: Phase) -> Slot {
        Slot { sequenceid: SequenceId(7), phase, ..Slot::default() }
    }

    /// The whole table (phase x sequence id), so that a change of any outcome is seen.
    #[test]
    fn outcomes_by_phase_and_sequence_id() {
        let reply = || Some(Bytes::from_static(b"r"));
        let phases = [
            ("fresh", slot(Phase::Fresh)),
            ("busy", slot(Phase::Busy { digest: 1 })),
            ("done", slot(Phase::Done { digest: 1, reply: reply() })),
        ];
        let mut table = String::new();
        for (name, slot) in phases {
            for seq in [6, 7, 8, 9] {
                let outcome = slot.judge(SequenceId(seq), 1);
                table += &format!("{name} {seq}: {outcome:?}\n");
            }
        }
        let expected = "\
fresh 6: Err(SlotMisordered)
fresh 7: Err(SlotMisordered)
fresh 8: Ok(New)
fresh 9: Err(SlotMisordered)
busy 6: Err(SlotMisordered)
busy 7: Err(InProgress)
busy 8: Err(SlotMisordered)
busy 9: Err(SlotMisordered)
done 6: Err(SlotMisordered)
done 7: Ok(Replay(b\"r\"))
done 8: Ok(New)
done 9: Err(SlotMisordered)
";
        assert_eq!(table, expected);
    }

    /// Proves that a retry is recognised by its digest, and that 0 on either side matches.
    #[test]
    fn retries_are_compared_by_digest() {
        let done = |digest, reply| slot(Phase::Done { digest, reply });
        let kept = Some(Bytes::from_static(b"r"));
        assert_eq!(done(1, kept.clone()).judge(SequenceId(7), 2), Err(Reason::FalseRetry));
        assert_eq!(done(1, None).judge(SequenceId(7), 2), Err(Reason::FalseRetry));
        assert_eq!(done(1, None).judge(SequenceId(7), 1), Err(Reason::RetryUncached));
        assert!(done(0, kept.clone()).judge(SequenceId(7), 2).is_ok());
        assert!(done(1, kept).judge(SequenceId(7), 0).is_ok());
    }

    /// Proves that the sequence id wraps to zero (§2.10.6.1).
    #[test]
    fn sequence_id_wraps_to_zero() {
        let mut s = Slot { sequenceid: SequenceId(u32::MAX), ..Slot::default() };
        assert_eq!(s.judge(SequenceId(0), 0), Ok(Admission::New));
        s.begin(SequenceId(0), 0);
        s.complete(SequenceId(0), None);
        assert_eq!(s.judge(SequenceId(1), 0), Ok(Admission::New));
    }

    /// Proves that a late completion of an older request does not end the running one.
    #[test]
    fn completion_of_another_request_is_ignored() {
        let mut s = Slot::default();
        s.begin(SequenceId(1), 0);
        s.complete(SequenceId(0), Some(Bytes::from_static(b"old")));
        assert_eq!(s.judge(SequenceId(1), 0), Err(Reason::InProgress));
    }
}
