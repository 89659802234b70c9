//! The table of opens, byte-range locks, delegations and layouts of a metadata server, and what
//! concerns all of them: RFC 8881 §8.2, §18.38, §18.48.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use bytes::Bytes;
use weft_nfs::{ClientId, NfsStat, Seqid, Stateid};

use crate::delegation::Delegations;
use crate::host::Host;
use crate::ids::FileKey;
use crate::layout::Layouts;
use crate::limits::{CONTENDED_PART, RETURNED_LAYOUTS_MAX, StateLimits};
use crate::lock::Locks;
use crate::lock_ranges::LockRanges;
use crate::lock_waiters::LockWaiters;
use crate::memory::{Budget, MemoryUse, allocated, map_entry};
use crate::open::{Opens, Shares};
use crate::refusal::{Reason, Refusal};
use crate::stateid::{Kind, StateNo, check_seqid, parse, stateid};

/// A file and the owner that opened or locked it.
pub(crate) type OwnerKey = (FileKey, ClientId, Bytes);

/// All opens, locks, delegations and layouts of one metadata server.
///
/// **Invariants.** Every state belongs to a client that [`crate::Sessions`] knows: when one is
/// purged, destroyed or dropped there, [`State::drop_client`] follows.
#[derive(Debug)]
pub struct State {
    instance: u32,
    pub(crate) limits: StateLimits,
    last_no: u64,
    pub(crate) opens: Opens,
    pub(crate) locks: Locks,
    pub(crate) layouts: Layouts,
    pub(crate) delegations: Delegations,
    pub(crate) lock_waiters: LockWaiters,
    pub(crate) files: BTreeMap<FileKey, FileState>,
    pub(crate) held_by_client: BTreeMap<ClientId, Held>,
    /// The memory that all of this takes.
    pub(crate) budget: Budget,
}

/// What is kept of each client beside what it holds: the returned layouts that are remembered, and
/// its account. Part of what its record in [`crate::Sessions`] costs.
pub(crate) const HELD_BYTES: usize = map_entry::<ClientId, Held>()
    + allocated(RETURNED_LAYOUTS_MAX * size_of::<(StateNo, FileKey)>())
    + Budget::ACCOUNT_BYTES;

/// Opens and locks of one file, added up. It is there while the file is open.
#[derive(Debug, Default)]
pub(crate) struct FileState {
    pub(crate) shares: Shares,
    pub(crate) ranges: LockRanges,
}

/// What one client holds.
#[derive(Debug, Default)]
pub(crate) struct Held {
    pub(crate) opens: BTreeSet<StateNo>,
    pub(crate) locks: BTreeSet<StateNo>,
    pub(crate) layouts: BTreeSet<StateNo>,
    pub(crate) delegations: BTreeSet<StateNo>,
    /// Delegations that were revoked and are not freed yet; at most
    /// [`crate::limits::REVOKED_MAX`].
    pub(crate) revoked: BTreeSet<StateNo>,
    /// True while the client holds delegations and leaves a callback about them unanswered.
    pub(crate) silent: bool,
    /// True from when the client did not return a delegation that was recalled until it has freed
    /// all that were revoked.
    pub(crate) late: bool,
    /// Locked ranges in all files.
    pub(crate) ranges: usize,
    /// Its lock owners that wait for locks.
    pub(crate) waiters: usize,
    /// Read-write layouts returned last, oldest first; at most
    /// [`crate::limits::RETURNED_LAYOUTS_MAX`].
    pub(crate) returned: VecDeque<(StateNo, FileKey)>,
}

impl Held {
    fn is_empty(&self) -> bool {
        [&self.opens, &self.locks, &self.layouts, &self.delegations].iter().all(|s| s.is_empty())
    }
}

/// How much a client holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HeldCounts {
    /// Open files, each owner's of its own.
    pub opens: usize,
    /// Locked byte ranges.
    pub locks: usize,
    /// Delegations.
    pub delegations: usize,
    /// Files with layouts.
    pub layouts: usize,
    /// Owners that wait for locks.
    pub waiting_for_locks: usize,
}

/// What was lost with a client.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Dropped {
    /// Files it had open that nobody has open now.
    pub closed: Vec<FileKey>,
    /// Files it held read-write layouts on: it must be fenced there before anybody else writes.
    pub rw_layouts: Vec<FileKey>,
}

impl State {
    /// An empty table. `instance` differs for every process start (it is in every stateid), so
    /// that stateids of an earlier instance are recognised and refused.
    pub fn new(instance: u32, limits: StateLimits) -> Self {
        let contended_bytes = limits.memory_bytes / CONTENDED_PART;
        State {
            instance,
            budget: Budget::new(limits.memory_bytes - contended_bytes),
            limits,
            last_no: 0,
            opens: Opens::default(),
            locks: Locks::default(),
            layouts: Layouts::default(),
            delegations: Delegations::with_memory(contended_bytes),
            lock_waiters: LockWaiters::default(),
            files: BTreeMap::new(),
            held_by_client: BTreeMap::new(),
        }
    }

    /// A client of this host has come: what it will hold counts for that host too.
    pub fn admit(&mut self, client: ClientId, host: Host) {
        self.budget.admit(client, host);
    }

    /// The memory that all of this takes, and may take.
    pub fn memory(&self) -> MemoryUse {
        self.budget.memory()
    }

    /// TEST_STATEID of one stateid: OK, OLD_STATEID, DELEG_REVOKED or BAD_STATEID; never
    /// STALE_STATEID, on which Linux hangs.
    ///
    /// Source: RFC 8881 §18.48.3.
    pub fn test_stateid(&self, client: ClientId, stateid: &Stateid) -> NfsStat {
        match self.find(client, stateid) {
            Ok(_) => NfsStat::OK,
            Err(reason) => reason.status(),
        }
    }

    /// FREE_STATEID: a lock stateid without locked ranges is freed, and a revoked delegation.
    ///
    /// # Errors
    /// LOCKS_HELD for a state that is in use; BAD_STATEID, OLD_STATEID.
    ///
    /// Source: RFC 8881 §18.38.3.
    pub fn free_stateid(&mut self, client: ClientId, stateid: &Stateid) -> Result<(), Refusal> {
        let found = self.find(client, stateid);
        if found == Err(Reason::DelegationRevoked) {
            let (_, no) = self.parse(stateid)?;
            self.forget_revoked(client, no);
            return Ok(());
        }
        let (kind, no) = found?;
        match kind {
            Kind::Open | Kind::Layout | Kind::Delegation => Err(Reason::StillInUse.into()),
            Kind::Lock if self.ranges_of(no) > 0 => Err(Reason::StillInUse.into()),
            Kind::Lock => {
                self.remove_lock(no);
                Ok(())
            }
        }
    }

    /// Finds a state of any kind by its stateid.
    pub(crate) fn find(
        &self,
        client: ClientId,
        stateid: &Stateid,
    ) -> Result<(Kind, StateNo), Reason> {
        let (kind, no) = parse(self.instance, stateid)?;
        let revoked = self.held_by_client.get(&client).is_some_and(|h| h.revoked.contains(&no));
        if kind == Kind::Delegation && revoked {
            return Err(Reason::DelegationRevoked);
        }
        let (holder, _, current) = self.of(kind, no).ok_or(Reason::StateidUnknown)?;
        if holder != client {
            return Err(Reason::StateidForeign);
        }
        check_seqid(stateid.seqid, current)?;
        Ok((kind, no))
    }

    /// Whose a state is, on which file, and its seqid.
    fn of(&self, kind: Kind, no: StateNo) -> Option<(ClientId, FileKey, Seqid)> {
        match kind {
            Kind::Open => self.opens.get(no).map(|o| (o.client, o.file, o.seqid)),
            Kind::Lock => self.locks.get(no).map(|l| (l.client, l.file, l.seqid)),
            Kind::Layout => self.layouts.get(no).map(|l| (l.client, l.file, l.seqid)),
            Kind::Delegation => self.delegations.get(no).map(|d| (d.client, d.file, d.seqid)),
        }
    }

    /// Finds a state and checks that it is one on this file.
    pub(crate) fn find_on(
        &self,
        client: ClientId,
        stateid: &Stateid,
        file: FileKey,
    ) -> Result<(Kind, StateNo), Reason> {
        let (kind, no) = self.find(client, stateid)?;
        let on = self.of(kind, no).map(|(_, on, _)| on);
        if on == Some(file) { Ok((kind, no)) } else { Err(Reason::StateidOfOtherFile) }
    }

    /// The same for a state of one kind.
    pub(crate) fn find_kind(
        &self,
        kind: Kind,
        client: ClientId,
        stateid: &Stateid,
        file: FileKey,
    ) -> Result<StateNo, Reason> {
        let (found, no) = self.find_on(client, stateid, file)?;
        if found == kind { Ok(no) } else { Err(Reason::StateidKind) }
    }

    pub(crate) fn parse(&self, stateid: &Stateid) -> Result<(Kind, StateNo), Reason> {
        parse(self.instance, stateid)
    }

    pub(crate) fn stateid(&self, kind: Kind, no: StateNo, seqid: Seqid) -> Stateid {
        stateid(self.instance, kind, no, seqid)
    }

    pub(crate) fn next_no(&mut self) -> StateNo {
        self.last_no += 1;
        StateNo(self.last_no)
    }

    pub(crate) fn held(&mut self, client: ClientId) -> &mut Held {
        self.held_by_client.entry(client).or_default()
    }

    /// Whether the client holds any open, lock, delegation or layout.
    pub fn client_has_state(&self, client: ClientId) -> bool {
        self.held_by_client.get(&client).is_some_and(|h| !h.is_empty())
    }

    /// Whether the client holds what can be reclaimed after a restart: opens (their locks with
    /// them) and delegations of files.
    pub fn client_could_reclaim(&self, client: ClientId) -> bool {
        let held = self.held_by_client.get(&client);
        held.is_some_and(|h| !h.opens.is_empty()) || self.could_reclaim(client)
    }

    /// What the client holds, counted.
    pub fn count_held(&self, client: ClientId) -> HeldCounts {
        let Some(held) = self.held_by_client.get(&client) else { return HeldCounts::default() };
        HeldCounts {
            opens: held.opens.len(),
            locks: held.ranges,
            delegations: held.delegations.len(),
            layouts: held.layouts.len(),
            waiting_for_locks: held.waiters,
        }
    }

    /// Every client that was admitted, or holds or held something, and was not dropped since, by
    /// id. One that [`crate::Sessions`] does not know any more left this behind: a request of it
    /// was still being executed when it was dropped. Drop it again.
    pub fn clients(&self) -> impl Iterator<Item = ClientId> {
        self.budget.clients()
    }

    /// Whether memory runs short, for all or for clients of this one's host: what it holds by
    /// courtesy has to go.
    pub fn is_crowded_for(&self, client: ClientId) -> bool {
        self.budget.is_crowded_for(client)
    }

    /// Forgets everything of a client. Cost: proportional to what it holds.
    pub fn drop_client(&mut self, client: ClientId) -> Dropped {
        let mut dropped = Dropped::default();
        let Some(held) = self.held_by_client.get(&client) else {
            self.budget.forget(client);
            return dropped;
        };
        let (layouts, opens) = (held.layouts.clone(), held.opens.clone());
        for no in layouts {
            if let Some(layout) = self.remove_layout(no)
                && layout.rw
            {
                dropped.rw_layouts.push(layout.file);
            }
        }
        self.stop_all_waiting(client);
        for no in self.held(client).delegations.clone() {
            if let Some((delegation, true)) = self.remove_delegation(no) {
                dropped.closed.push(delegation.file);
            }
        }
        for no in opens {
            if let Some((file, true)) = self.remove_open(no) {
                dropped.closed.push(file);
            }
        }
        self.forget_all_revoked(client);
        let left = self.held_by_client.remove(&client);
        assert!(
            left.is_some_and(|h| h.is_empty() && h.ranges == 0 && h.waiters == 0),
            "dropped clients hold nothing"
        );
        assert_eq!(self.budget.of_client(client), 0, "dropped clients take no memory");
        self.budget.forget(client);
        dropped
    }
}
