//! Who may reclaim, who may take new state, and when grace ends: RFC 8881 §8.4.2, §18.51.

use weft_nfs::{ClientId, Failure, NfsStat};
use weft_state::{Ended, GraceLeft, Millis};

use super::{record::ClientRecord, records::Holds, service::Clients};
use crate::deps::Deps;

impl Clients {
    /// Who may take new state, and who may reclaim (RFC 8881 §8.4.2, §18.51.3): in grace only
    /// reclaims of clients known from before; afterwards, and once the client said
    /// RECLAIM_COMPLETE, only new state; before it said so, none.
    ///
    /// # Errors
    /// GRACE, NO_GRACE; DEADSESSION if the client was destroyed while its request was on its way
    /// (STALE_CLIENTID is no status of OPEN or LOCK, §15.2).
    pub(crate) fn reclaim_rule(
        &self,
        deps: &mut Deps,
        client: ClientId,
        reclaim: bool,
        now: Millis,
    ) -> Result<(), Failure> {
        let (owner, complete) = {
            let sessions = self.core.sessions();
            let known = sessions.client(client).ok_or(NfsStat::DEADSESSION)?;
            (known.owner().ownerid.0.clone(), sessions.reclaim_is_complete(client))
        };
        self.records.depend_on_forgotten(deps);
        let mut grace = self.protocol.grace();
        if reclaim {
            let allowed = grace.is_on() && !complete && grace.may_reclaim(&owner);
            if !allowed {
                return Err(NfsStat::NO_GRACE.into());
            }
            grace.reclaimed(now);
            return Ok(());
        }
        if grace.is_on() || !complete { Err(NfsStat::GRACE.into()) } else { Ok(()) }
    }

    /// What a client was just given can be reclaimed: it is marked, durably, before it is told.
    ///
    /// # Errors
    /// Those of the store: what it was given is to be taken back.
    pub(crate) fn note_holder(&self, deps: &mut Deps, client: ClientId) -> Result<(), Failure> {
        self.records.hold(deps, client, || {
            let sessions = self.core.sessions();
            let known = sessions.client(client)?;
            let ownerid = known.owner().ownerid.0.clone();
            let (address, lost_some) = (known.address(), false);
            Some(ClientRecord { ownerid, address, awaited: true, lost_some, waited: 0 })
        })
    }

    /// RECLAIM_COMPLETE (§18.51): what the client had before the restart and has not reclaimed is
    /// no longer its own.
    ///
    /// # Errors
    /// DEADSESSION if it is gone.
    pub(crate) fn reclaim_complete(&self, client: ClientId) -> Result<(), Failure> {
        let owner = {
            let sessions = self.core.sessions();
            let known = sessions.client(client).ok_or(NfsStat::DEADSESSION)?;
            known.owner().ownerid.0.clone()
        };
        self.never_reclaims(&owner);
        self.records.note_reclaimed(client);
        Ok(())
    }

    /// Nobody waits for this owner of before the restart any more.
    pub(crate) fn never_reclaims(&self, ownerid: &[u8]) {
        let mut grace = self.protocol.grace();
        self.records.forget_former(ownerid);
        self.note_end(grace.client_done(ownerid));
    }

    /// Ends grace when it is time. The records of clients that did not complete their reclaim go
    /// before anybody is given anything that they had.
    pub(crate) fn end_grace(&self, now: Millis) {
        let mut grace = self.protocol.grace();
        if let Some(parts) = grace.parts_passed(now) {
            self.records.note_waited(parts);
        }
        self.note_end(grace.tick(now));
    }

    /// To be called before the lock of grace is let go.
    fn note_end(&self, ended: Option<Ended>) {
        let Some(Ended { incomplete }) = ended else { return };
        tracing::info!(gone = incomplete.len(), "grace has ended");
        self.records.end_reclaim(&incomplete);
    }

    /// Who is awaited, and for how long; absent when grace is over.
    pub(crate) fn grace_left(&self, now: Millis) -> Option<GraceLeft> {
        self.protocol.grace().left(now)
    }

    /// Brings the durable marks of clients up to date. A client that did not complete its reclaim
    /// in the grace period keeps what it reclaimed, and no later start waits for it (§8.4.2.1).
    pub(crate) fn sweep_records(&self, now: Millis) {
        let in_grace = self.protocol.grace().is_on();
        self.records.sweep(now, |client| {
            let sessions = self.core.sessions();
            let has_reclaimed = in_grace || sessions.reclaim_is_complete(client);
            let is_live = has_reclaimed && sessions.is_live(client, now);
            drop(sessions);
            match self.protocol.state().client_could_reclaim(client) {
                false => Holds::Nothing,
                true if is_live => Holds::Live,
                true => Holds::ByCourtesy,
            }
        });
    }
}
