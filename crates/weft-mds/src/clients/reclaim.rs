//! Who may reclaim, who may take new state, and when grace ends: RFC 8881 §8.4.2, §18.51.

use weft_nfs::{ClientId, Failure, NfsStat};
use weft_state::Millis;

use super::service::Clients;
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

    /// RECLAIM_COMPLETE (§18.51): from here on the client's record on disk is of this incarnation,
    /// so that it may reclaim after the next restart.
    ///
    /// # Errors
    /// DEADSESSION if it is gone; those of the store.
    pub(crate) fn reclaim_complete(
        &self,
        deps: &mut Deps,
        client: ClientId,
    ) -> Result<(), Failure> {
        let owner = {
            let sessions = self.core.sessions();
            let known = sessions.client(client).ok_or(NfsStat::DEADSESSION)?;
            known.owner().ownerid.0.clone()
        };
        self.records.put(deps, client, &owner)?;
        self.still_known(client)?;
        self.protocol.grace().client_done(&owner);
        Ok(())
    }

    /// Asked after a client's record was written. One that was dropped before may have been so
    /// before its record was there, and nobody else takes that away; one that is dropped later
    /// takes it along.
    ///
    /// # Errors
    /// DEADSESSION, and its record is gone.
    fn still_known(&self, client: ClientId) -> Result<(), Failure> {
        if self.core.sessions().client(client).is_some() {
            return Ok(());
        }
        self.records.forget(client);
        Err(NfsStat::DEADSESSION.into())
    }

    /// Ends grace when it is time. The records of clients that did not complete their reclaim go
    /// before anybody is given anything that they had.
    pub(crate) fn end_grace(&self, now: Millis) {
        let mut grace = self.protocol.grace();
        if let Some(ended) = grace.tick(now) {
            tracing::info!(gone = ended.incomplete.len(), "grace has ended");
            ended.incomplete.into_iter().for_each(|id| self.records.remove(id));
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::testing::lone_mds;

    /// A client that is dropped while its record is being written leaves none: the next start
    /// would wait for it a whole grace.
    #[tokio::test]
    async fn the_record_of_a_vanished_client_goes() {
        let mds = lone_mds().await;
        let owner = Bytes::from_static(b"gone");
        mds.clients.records.put(&mut Deps::default(), ClientId(7), &owner).unwrap();
        assert_eq!(mds.files.volume().clients().unconfirmed().unwrap().len(), 1);
        assert_eq!(mds.clients.still_known(ClientId(7)).unwrap_err().status, NfsStat::DEADSESSION);
        assert_eq!(mds.files.volume().clients().unconfirmed(), Ok(Vec::new()));
        assert!(!mds.clients.records.has(&owner));
    }
}
