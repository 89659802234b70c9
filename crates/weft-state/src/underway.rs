//! Requests that must have ended before a session or an incarnation of a client may be told to
//! have, if the client was told that it is so: RFC 7862 §14.1.3, §14.1.4.

use weft_nfs::ops::ClientOwner;
use weft_nfs::{ClientId, SequenceId, SessionId, SlotId};

use crate::client::Client;
use crate::ids::ConnId;
use crate::refusal::Refusal;
use crate::sequence::InSession;
use crate::session::Session;
use crate::sessions::Sessions;
use crate::slot::Slot;

/// The requests that were being executed at a moment, but for the one that asks. At most as many
/// as the sessions of one client have slots.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Underway(Vec<(SessionId, SlotId, SequenceId)>);

impl Underway {
    /// Whether there were none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Sessions {
    /// What is under way on a session that is to be destroyed over this connection. `asking` is
    /// the request that says so, if it is in a session.
    ///
    /// # Errors
    /// BADSESSION, CONN_NOT_BOUND_TO_SESSION, as [`Sessions::destroy_session`].
    pub fn underway_on(
        &self,
        sessionid: SessionId,
        conn: ConnId,
        asking: Option<&InSession>,
    ) -> Result<Underway, Refusal> {
        let session = self.bound_session(sessionid, conn)?;
        let client = self.clients.get(&session.clientid).filter(|c| c.fences_ops);
        Ok(Underway(client.map(|_| busy(sessionid, session, asking).collect()).unwrap_or_default()))
    }

    /// What is under way for the incarnation that a CREATE_SESSION of this client would end.
    pub fn underway_replaced(&self, client: ClientId, asking: Option<&InSession>) -> Underway {
        let replaces = self.clients.get(&client).filter(|c| !c.confirmed);
        replaces.map(|c| self.underway_before(&c.owner, asking)).unwrap_or_default()
    }

    /// What is under way for the incarnation of a client that another verifier ends.
    pub fn underway_before(&self, owner: &ClientOwner, asking: Option<&InSession>) -> Underway {
        let is_before = |c: &&Client| c.fences_ops && c.owner.verifier != owner.verifier;
        let before = self.confirmed(&owner.ownerid).filter(is_before);
        let ids = before.map(|c| c.sessions()).unwrap_or_default();
        let sessions = ids.iter().filter_map(|id| Some((*id, self.sessions.get(id)?)));
        Underway(sessions.flat_map(|(id, session)| busy(id, session, asking)).collect())
    }

    /// Whether all of these have ended, or their sessions have.
    pub fn have_ended(&self, requests: &Underway) -> bool {
        requests.0.iter().all(|(session, slot, sequenceid)| {
            let slot = self.sessions.get(session).and_then(|s| s.slot(*slot));
            slot.and_then(Slot::executed) != Some(*sequenceid)
        })
    }
}

/// What is being executed on a session, but for the request that asks.
fn busy<'a>(
    id: SessionId,
    session: &'a Session,
    asking: Option<&'a InSession>,
) -> impl Iterator<Item = (SessionId, SlotId, SequenceId)> + 'a {
    let asks = move |slot| asking.is_some_and(|own| own.sessionid == id && own.slotid == slot);
    let requests = session.executed().filter(move |(slot, _)| !asks(*slot));
    requests.map(move |(slot, sequenceid)| (id, slot, sequenceid))
}

#[cfg(test)]
mod tests {
    use weft_nfs::Verifier;

    use super::*;
    use crate::testing::*;

    /// Proves that a session waits for what is executed on it, but not for the request that asks
    /// to end it, for other sessions, or for what came later.
    #[test]
    fn a_session_waits_for_its_requests() {
        let mut s = sessions();
        let (clientid, id) = client_with_session(&mut s, "linux");
        let (_, other) = client_with_session(&mut s, "other");
        s.clients.get_mut(&clientid).unwrap().fences_ops = true;
        let underway = |s: &Sessions, own: Option<&InSession>| s.underway_on(id, CONN, own);
        assert_eq!(underway(&s, None), Ok(Underway::default()));
        let first = new_request(sequence(&mut s, &sequence_args(id, 0, 1)));
        let _elsewhere = new_request(sequence(&mut s, &sequence_args(other, 0, 1)));
        assert_eq!(underway(&s, Some(&first)), Ok(Underway::default()));
        let asking = new_request(sequence(&mut s, &sequence_args(id, 1, 1)));
        let waited_for = underway(&s, Some(&asking)).unwrap();
        assert_eq!(waited_for, Underway(vec![(id, SlotId(0), SequenceId(1))]));
        assert!(!s.have_ended(&waited_for));
        s.complete(&first, None);
        assert!(s.have_ended(&waited_for));
        let _later = new_request(sequence(&mut s, &sequence_args(id, 0, 2)));
        let of_other = s.underway_on(other, CONN, None);
        assert_eq!(of_other, Ok(Underway::default()), "it was promised nothing");
        assert!(s.have_ended(&waited_for), "what came later is another request");
        assert_eq!(why(s.underway_on(id, ConnId(99), None)), crate::Reason::NotBound);
        let unknown = SessionId([9; 16]);
        assert_eq!(why(s.underway_on(unknown, CONN, None)), crate::Reason::SessionUnknown);
    }

    /// Proves that another verifier of the same owner waits for the requests of all sessions of the
    /// one before, and the same verifier for none; and that nobody waits for a session that is
    /// gone.
    #[test]
    fn an_incarnation_waits_for_the_one_before() {
        let mut s = sessions();
        let (clientid, id) = client_with_session(&mut s, "linux");
        s.clients.get_mut(&clientid).unwrap().fences_ops = true;
        let _running = new_request(sequence(&mut s, &sequence_args(id, 2, 1)));
        let same = s.client(clientid).unwrap().owner.clone();
        let restarted = ClientOwner { verifier: Verifier([9; 8]), ..same.clone() };
        assert!(s.underway_before(&same, None).is_empty());
        let waited_for = s.underway_before(&restarted, None);
        assert_eq!(waited_for, Underway(vec![(id, SlotId(2), SequenceId(1))]));
        assert!(!s.have_ended(&waited_for));
        s.drop_client(clientid);
        assert!(s.have_ended(&waited_for));
    }
}
