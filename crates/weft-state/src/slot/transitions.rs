//! The transition table of a slot, as SEQUENCE sees it.

use weft_dev::{Machine, Outcome, assert_snapshot};
use weft_nfs::SessionId;

use super::*;
use crate::testing::*;
use crate::{Envelope, InSession, SequenceOutcome, Sessions};

/// A session, and the last request that was admitted on its first slot.
struct OneSlot {
    sessions: Sessions,
    sessionid: SessionId,
    last: Option<InSession>,
}

impl OneSlot {
    fn new() -> OneSlot {
        let mut sessions = sessions();
        let (_, sessionid) = client_with_session(&mut sessions, "linux");
        OneSlot { sessions, sessionid, last: None }
    }

    fn describe(&self) -> String {
        let session = &self.sessions.sessions[&self.sessionid];
        let state = match session.slot(weft_nfs::SlotId(0)).map(|s| &s.phase) {
            Some(Phase::Fresh) => "never used",
            Some(Phase::Busy { .. }) => "request being executed",
            Some(Phase::Done { reply: Some(_), .. }) => "answered, reply kept",
            Some(Phase::Done { reply: None, .. }) => "answered, reply not kept",
            None => "no slot",
        };
        state.into()
    }

    /// A request whose number is that of the last one plus `ahead`.
    fn sequence(&mut self, ahead: u32, digest: u64) -> Outcome {
        let last = self.last.as_ref().map_or(0, |l| l.sequenceid.0);
        let args = sequence_args(self.sessionid, 0, last.wrapping_add(ahead));
        let envelope = Envelope { digest, ..ENVELOPE };
        match self.sessions.sequence(NOW, &args, CONN, &envelope) {
            SequenceOutcome::New(request) => {
                self.last = Some(request);
                Outcome::said("new: executed")
            }
            SequenceOutcome::Replay(_) => Outcome::said("replay: the reply again"),
            SequenceOutcome::Refused(refusal) => Outcome::Refused(refusal.to_string()),
        }
    }

    fn complete(&mut self, reply: Option<Bytes>) -> Outcome {
        let Some(last) = &self.last else { return Outcome::Never };
        self.sessions.complete(last, reply);
        Outcome::OK
    }
}

/// Every event in every state.
#[test]
fn transitions() {
    let about = "A slot of the fore channel: RFC 8881 §2.10.6.1, §2.10.6.2, §18.46.";
    let machine = Machine::new(about, OneSlot::new, OneSlot::describe)
        .on("SEQUENCE, next number", |s| s.sequence(1, 7))
        .on("SEQUENCE, same number, same request", |s| s.sequence(0, 7))
        .on("SEQUENCE, same number, other request", |s| s.sequence(0, 8))
        .on("SEQUENCE, number before", |s| s.sequence(u32::MAX, 7))
        .on("SEQUENCE, number skipped", |s| s.sequence(2, 7))
        .on("answered, reply to be kept", |s| s.complete(Some(Bytes::from_static(b"reply"))))
        .on("answered, reply not to be kept", |s| s.complete(None));
    assert_snapshot(env!("CARGO_MANIFEST_DIR"), "slot", &machine.table());
}
