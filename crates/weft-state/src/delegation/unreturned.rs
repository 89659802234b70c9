//! Holders that answer no callback, or do not return what was recalled: RFC 8881 §10.2.1, §10.4.5.

use weft_nfs::{ClientId, Stateid};

use super::{DelegationKind, Delegations, NoDelegation};
use crate::ids::{FileKey, Millis};
use crate::state::State;
use crate::stateid::{Kind, StateNo};

impl State {
    /// Why the client gets no delegation of this kind on the file for what happened lately. A
    /// delegation of the file was recalled (for readers: one to write only); the client expects to
    /// be notified of locks on the file; it leaves a callback unanswered, or did not return a
    /// delegation, or clients of its host did not, twice.
    pub(super) fn refuse_lately(
        &mut self,
        now: Millis,
        kind: DelegationKind,
        (client, file): (ClientId, FileKey),
    ) -> Option<NoDelegation> {
        let writes = kind == DelegationKind::Write;
        let lately = &mut self.delegations;
        let is_contended =
            lately.contended.contains(now, file) || writes && lately.shared.contains(now, file);
        if is_contended || writes && self.expects_notices(client, file) {
            return Some(NoDelegation::Contention);
        }
        let host_is_late = self
            .budget
            .host_of(client)
            .is_some_and(|host| self.delegations.late_hosts.contains(now, host));
        let is_late = host_is_late || self.has_revoked(client) || self.is_silent(client);
        is_late.then_some(NoDelegation::Resource)
    }

    /// Notes the host of a client that is about to lose a delegation, if others waited for it. All
    /// that a client loses before it frees any counts once.
    pub(super) fn note_late_host(&mut self, now: Millis, client: ClientId, no: StateNo) {
        if !self.delegations.is_recalled(no) || self.held(client).late {
            return;
        }
        self.held(client).late = true;
        let Some(host) = self.budget.host_of(client) else { return };
        let Delegations { late_once, late_hosts, .. } = &mut self.delegations;
        let is_first = !late_once.contains(now, host);
        if is_first { late_once.note(now, host) } else { late_hosts.note(now, host) }
    }

    /// The client left a callback about one of its delegations unanswered. It is silent if one of
    /// them is still being recalled: only the answer to that can show that the client is back.
    pub fn callback_unanswered(&mut self, client: ClientId) {
        if let Some(held) = self.held_by_client.get_mut(&client) {
            held.silent = held.delegations.iter().any(|no| self.delegations.is_recalled(*no));
        }
    }

    /// The client has answered a callback, or returned what was recalled.
    pub fn callback_answered(&mut self, client: ClientId) {
        if let Some(held) = self.held_by_client.get_mut(&client) {
            held.silent = false;
        }
    }

    /// The client has answered a recall, whatever it said.
    pub fn recall_answered(&mut self, client: ClientId, stateid: &Stateid) {
        if let Ok((Kind::Delegation, no)) = self.find(client, stateid)
            && let Some(recalled) = self.delegations.recalls.get_mut(&no)
        {
            recalled.answered = true;
        }
        self.callback_answered(client);
    }

    /// Whether the client holds delegations and answers no callback about them.
    pub fn is_silent(&self, client: ClientId) -> bool {
        self.held_by_client.get(&client).is_some_and(|held| held.silent)
    }

    /// Whether the delegation of this client on the file is being recalled, and the client has not
    /// answered.
    pub fn recall_is_unanswered(&self, client: ClientId, file: FileKey) -> bool {
        let no = self.delegations.no_of(client, file);
        let recalled = no.and_then(|no| self.delegations.recalls.get(&no));
        recalled.is_some_and(|recalled| !recalled.answered)
    }

    /// Files and directories that are delegated to the client.
    pub fn delegations_of(&self, client: ClientId) -> Vec<FileKey> {
        let held = self.held_by_client.get(&client).into_iter();
        let numbers = held.flat_map(|held| &held.delegations);
        numbers.filter_map(|no| self.delegations.get(*no)).map(|held| held.file).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::delegation::{RecallFor, Wanted, recent::Recent};
    use crate::host::Host;
    use crate::limits::{CONTENDED_MS, LATE_HOST_MS};
    use crate::testing::*;

    fn want(state: &mut State, now: u64, client: ClientId, file: FileKey) -> Option<NoDelegation> {
        state.delegate(Millis(now), &reading(client, file, Wanted::Read)).err()
    }

    /// Proves both ends of the time in which a file that was recalled is delegated to nobody who
    /// asks for it by name.
    #[test]
    fn asking_does_not_help_with_a_contended_file() {
        let mut state = new_state();
        assert_eq!(want(&mut state, 0, A, FILE), None);
        let stateid = state.delegation_recall(Millis(0), A, FILE, RecallFor::Change).unwrap();
        state.delegation_return(A, &stateid, FILE).unwrap();
        for client in [A, B] {
            let refused = want(&mut state, CONTENDED_MS - 1, client, FILE);
            assert_eq!(refused, Some(NoDelegation::Contention));
        }
        assert_eq!(want(&mut state, 2 * CONTENDED_MS, A, FILE), None);
    }

    /// Proves that the host of clients that twice did not return what was recalled gets nothing for
    /// a while. Other hosts do, and a host whose client did so once, or merely expired.
    #[test]
    fn late_hosts_get_none() {
        let host = |last| Host::from(std::net::IpAddr::from([192, 0, 2, last]));
        let mut state = new_state();
        state.admit(A, host(1));
        state.admit(B, host(1));
        let elsewhere = ClientId(77);
        state.admit(elsewhere, host(2));
        let third = FileKey { volume: 1, object: 3 };
        let late = Some(NoDelegation::Resource);
        for (recalled, refused) in [(false, None), (true, None), (true, late)] {
            assert_eq!(want(&mut state, 0, A, FILE), None);
            assert_eq!(want(&mut state, 0, A, OTHER_FILE), None);
            for file in [FILE, OTHER_FILE] {
                if recalled {
                    state.delegation_recall(Millis(0), A, file, RecallFor::Change).unwrap();
                }
            }
            state.delegation_revoke(Millis(0), A, FILE);
            state.delegation_revoke(Millis(0), A, OTHER_FILE);
            assert_eq!(want(&mut state, 0, A, third), Some(NoDelegation::Resource));
            assert_eq!(want(&mut state, 0, B, third), refused);
            state.drop_client(B);
            state.admit(B, host(1));
            state.drop_client(A);
            state.admit(A, host(1));
            state.delegations.contended = Recent::default();
        }
        assert_eq!(want(&mut state, 0, elsewhere, third), None);
        let last = LATE_HOST_MS - 1;
        assert_eq!(want(&mut state, last, B, OTHER_FILE), Some(NoDelegation::Resource));
        assert_eq!(want(&mut state, 2 * LATE_HOST_MS, B, OTHER_FILE), None);
    }

    /// Proves that a client which says that it does not know its delegations, and so has none to
    /// free, counts each time.
    #[test]
    fn denials_count_each_time() {
        let mut state = new_state();
        state.admit(A, Host::from(std::net::IpAddr::from([192, 0, 2, 1])));
        for file in [FILE, OTHER_FILE] {
            assert_eq!(want(&mut state, 0, A, file), None);
            let recalled = state.delegation_recall(Millis(0), A, file, RecallFor::Change).unwrap();
            state.delegation_answered(A, &recalled, false);
            state.delegation_revoke(Millis(0), A, file);
            assert!(!state.has_revoked(A));
        }
        let third = FileKey { volume: 1, object: 3 };
        assert_eq!(want(&mut state, 0, A, third), Some(NoDelegation::Resource));
    }

    /// Proves what makes a client silent, and all that ends it.
    #[test]
    fn silence() {
        let mut state = new_state();
        state.callback_unanswered(A);
        assert!(!state.is_silent(A), "it holds nothing");
        want(&mut state, 0, A, FILE);
        state.callback_unanswered(A);
        assert!(!state.is_silent(A), "no answer is waited for that would end it");
        let mut state = new_state();
        let mut silent = || {
            want(&mut state, 0, A, FILE);
            want(&mut state, 0, A, OTHER_FILE);
            let stateid = state.delegation_recall(Millis(0), A, FILE, RecallFor::Change).unwrap();
            assert!(state.recall_is_unanswered(A, FILE));
            state.callback_unanswered(A);
            assert!(state.is_silent(A));
            let third = FileKey { volume: 1, object: 3 };
            assert_eq!(want(&mut state, 0, A, third), Some(NoDelegation::Resource));
            assert_eq!(state.delegations_of(A), [FILE, OTHER_FILE]);
            (std::mem::replace(&mut state, new_state()), stateid)
        };
        let (mut state, stateid) = silent();
        state.delegation_answered(A, &stateid, true);
        assert!(!state.is_silent(A) && !state.recall_is_unanswered(A, FILE));
        let (mut state, stateid) = silent();
        state.delegation_answered(A, &stateid, false);
        state.recall_answered(A, &stateid);
        assert!(!state.is_silent(A) && !state.recall_is_unanswered(A, FILE));
        state.delegation_revoke(Millis(0), A, FILE);
        assert!(!state.has_revoked(A), "it does not know the delegation");
        let (mut state, stateid) = silent();
        state.delegation_return(A, &stateid, FILE).unwrap();
        assert!(!state.is_silent(A));
        let (mut state, _) = silent();
        state.delegation_revoke(Millis(0), A, FILE);
        assert!(state.is_silent(A), "it holds another");
        state.delegation_revoke(Millis(0), A, OTHER_FILE);
        assert!(!state.is_silent(A));
        let (mut state, _) = silent();
        state.drop_client(A);
        assert!(!state.is_silent(A));
    }
}
