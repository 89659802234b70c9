//! Clients whose lease has passed: RFC 8881 §8.3, §8.4.3. Their layouts are taken away at once,
//! since what they send to data servers is bound to a valid lease (§12.7.2). Their opens and
//! locks stay by courtesy until somebody wants what they exclude, room runs short, or too much
//! time has passed; then the client is forgotten as a whole, its durable record with it.

use std::{collections::HashSet, time::Duration};

use weft_nfs::{ClientId, Failure, FailureBody, Stateid, share};
use weft_server::refusal::refused;
use weft_state::{FileKey, IoAccess, IoHolder, Millis, Overdue, Reason, Refusal};

use super::service::Clients;
use crate::deps::Deps;

/// How long a client is kept by courtesy: over a night's sleep of a laptop.
const COURTESY: Duration = Duration::from_secs(24 * 60 * 60);

impl Clients {
    /// Layouts of clients whose lease has passed: to be revoked.
    pub(crate) fn layouts_of_expired(&self, now: Millis) -> Vec<Overdue> {
        let expired = self.core.sessions().expired(now);
        let mut state = self.protocol.state();
        expired.into_iter().flat_map(|client| state.layouts_expire(now, client)).collect()
    }

    /// Forgets clients that courtesy does not keep any longer.
    pub(crate) fn end_courtesies(&self, now: Millis) {
        let courtesy_ms = u64::try_from(COURTESY.as_millis()).unwrap_or(u64::MAX);
        let crowds = |client| self.protocol.state().is_crowded_for(client);
        let outstayed = self.core.sessions().outstayed(now, courtesy_ms, crowds);
        for client in outstayed {
            self.forget_expired(client);
        }
    }

    /// Forgets clients whose lease has passed since the last time, if others wait for locks of
    /// theirs: those have asked, and are told when to ask again. `known` are those whose lease had
    /// passed then; a request that comes later clears its way by itself.
    pub(crate) fn clear_way_of_waiters(&self, now: Millis, known: &mut HashSet<ClientId>) {
        let expired = HashSet::from_iter(self.core.sessions().expired(now));
        for client in expired.difference(known) {
            let is_waited_for = self.protocol.state().is_waited_for(*client);
            if is_waited_for {
                self.forget_expired(*client);
            }
        }
        *known = expired;
    }

    /// Forgets those of the clients whose lease has passed; whether there were any, so that it is
    /// worth trying again what they stood in the way of.
    pub(crate) fn clear_way(&self, deps: &mut Deps, holders: &[ClientId]) -> bool {
        let gone = holders.iter().filter(|holder| self.forget_expired(**holder)).count();
        self.records.depend_on_forgotten(deps);
        gone > 0
    }

    /// As [`Clients::clear_way`], for the holder of the lock that a refusal names.
    pub(crate) fn clear_way_of_lock(&self, deps: &mut Deps, refusal: &Refusal) -> bool {
        match &refusal.body {
            FailureBody::Denied(held) => self.clear_way(deps, &[held.owner.clientid]),
            _ => false,
        }
    }

    /// Checks the stateid of I/O. With a special one the share reservations of others count (RFC
    /// 8881 §8.2.3), but not those that are kept by courtesy.
    ///
    /// # Errors
    /// As [`weft_state::State::check_io`].
    pub(crate) fn check_io(
        &self,
        deps: &mut Deps,
        (client, stateid): (ClientId, &Stateid),
        file: FileKey,
        access: IoAccess,
    ) -> Result<IoHolder, Failure> {
        let check = || self.protocol.state().check_io(client, stateid, file, access);
        let denied = match check() {
            Ok(holder) => return Ok(holder),
            Err(denied) => denied,
        };
        let wanted = match access {
            IoAccess::Read => share::ACCESS_READ,
            IoAccess::Write => share::ACCESS_WRITE,
        };
        let holders = self.protocol.state().share_holders(client, file, wanted, share::DENY_NONE);
        if denied.because != Reason::IoDenied || !self.clear_way(deps, &holders) {
            return Err(refused(denied));
        }
        check().map_err(refused)
    }

    /// Forgets a client and all it holds unless its lease is valid.
    fn forget_expired(&self, client: ClientId) -> bool {
        if !self.core.sessions().drop_expired_client(client, self.core.clock.now()) {
            return false;
        }
        tracing::info!(clientid = client.0, "lease expired: client dropped");
        self.drop_client(client);
        true
    }

    /// Ends a client, whatever it holds and however lively it is, as an administrator wants.
    pub(crate) fn evict(&self, client: ClientId) {
        self.core.sessions().drop_client(client);
        self.files.end_layouts_of(client);
        self.drop_client(client);
        self.notify_lock_waiters();
    }

    /// Ends everything a client held: opens, locks, layouts, copies, its record.
    pub(crate) fn drop_client(&self, client: ClientId) {
        // First: whoever is granted what this client held depends on its record being gone.
        self.records.forget(client);
        self.protocol.offloads().drop_client(client);
        self.files.drop_client(client);
    }

    /// A request that was under way while its client was dropped may have left state behind.
    pub(crate) fn drop_strays(&self) {
        let holders: Vec<_> = self.protocol.state().clients().collect();
        for client in holders {
            if self.core.sessions().client(client).is_none() {
                self.drop_client(client);
            }
        }
    }
}
