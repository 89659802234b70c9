//! Delegations: to whom they are granted, and how they are taken back before a file, or a name in a
//! directory, changes. RFC 8881 §10.2, §10.4, §10.9; RFC 9754 §4; design D9.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::time::{sleep, timeout};
use weft_nfs::{
    Ace, AceType, ClientId, Failure, NfsStat, Opaque, Stateid,
    callback::{CbOp, CbRecallArgs},
    delegate,
    ops::{OpenArgs, OpenClaim, OpenDelegation},
    seq4_status, share, why_no_delegation,
};
use weft_server::{core::Core, rpc::CallbackError};
use weft_state::{
    Asking, DelegationKind, FileKey, Granted, Millis, NoDelegation, Overdue, RecallFor, Wanted,
};
use weft_store::types::{Inode, InodeNo};

use super::{callback::Callbacks, layout_recall::LayoutRecalls, records::ClientRecords};
use crate::{files::FileService, handle::Handle, protocol_state::ProtocolState};

/// How long a request waits for delegations that it needs back before its client is told to come
/// again; less with a short lease, since the client that waits does not renew.
const RECALL_PATIENCE: Duration = Duration::from_secs(1);
/// How often it looks, unless it hears that one came back.
const RECALL_LOOK: Duration = Duration::from_millis(5);
/// How long a client's own change waits after the delegation that it had to give back: the answer
/// to the DELEGRETURN tells the attributes of before, and Linux, which hears of both on different
/// threads, keeps what it handles last. A guest that shares its processors takes more than 5 ms.
const OWN_SETTLES: Duration = Duration::from_millis(20);
/// Pause before a recall is repeated that the client could not take.
const RECALL_PAUSE: Duration = Duration::from_millis(200);
/// Bytes that the holder of a write delegation may leave unwritten at CLOSE (§10.4.1): none. Linux
/// compares its dirty requests with this limit in pages (`nfs4_delegation_flush_on_close`), and its
/// DELEGRETURN overtakes the writes: with any other limit the next reader misses what was closed.
const SIZE_LIMIT: u64 = 0;

/// For how many leases others wait for a file at most that its holder cannot give back since a data
/// server is away: a quarter of an hour.
const KEPT_LEASES_MAX: u64 = 10;

/// A file or directory that others hold no delegation on, and get none as long as this lives.
#[derive(Debug)]
pub(crate) struct Undelegated<'a> {
    protocol: &'a ProtocolState,
    file: FileKey,
}

impl Drop for Undelegated<'_> {
    fn drop(&mut self) {
        self.protocol.state().end_change(self.file);
    }
}

/// Which delegations of others are wanted back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Recall {
    /// All; `truncate` tells the holders that what they cached is of no use.
    All { truncate: bool },
    /// Those to write.
    Writers,
    /// The one to write of the client that asks.
    Own,
}

/// Grants delegations and takes them back.
pub(crate) struct Delegations {
    pub(super) core: Arc<Core>,
    pub(super) protocol: Arc<ProtocolState>,
    pub(super) files: Arc<FileService>,
    pub(super) callbacks: Arc<Callbacks>,
    layouts: Arc<LayoutRecalls>,
    records: Arc<ClientRecords>,
}

/// An OPEN that stands, as far as a delegation depends on it.
pub(crate) struct Opened<'a> {
    /// Whose.
    pub(crate) client: ClientId,
    /// Of which file.
    pub(crate) inode: &'a Inode,
    /// What was asked for.
    pub(crate) args: &'a OpenArgs,
    /// The request itself keeps delegations away from others.
    pub(crate) changes: bool,
    /// Delegations to write are granted here.
    pub(crate) to_write: bool,
}

impl Delegations {
    /// To and from the clients of this server.
    pub(crate) fn new(
        core: &Arc<Core>,
        protocol: &Arc<ProtocolState>,
        files: &Arc<FileService>,
        callbacks: &Arc<Callbacks>,
        (layouts, records): (&Arc<LayoutRecalls>, &Arc<ClientRecords>),
    ) -> Self {
        Delegations {
            core: core.clone(),
            protocol: protocol.clone(),
            files: files.clone(),
            callbacks: callbacks.clone(),
            layouts: layouts.clone(),
            records: records.clone(),
        }
    }

    /// The delegation that goes with a successful OPEN (§18.16.3): a reason for granting none is
    /// told only to clients that speak of delegations.
    pub(crate) fn grant(self: &Arc<Self>, opened: &Opened<'_>) -> OpenDelegation {
        let Opened { client, inode, args, .. } = *opened;
        let wanted = match &args.claim {
            OpenClaim::Previous(delegate::READ) => Wanted::Reclaim(DelegationKind::Read),
            OpenClaim::Previous(delegate::WRITE) => Wanted::Reclaim(DelegationKind::Write),
            OpenClaim::Previous(_) => return OpenDelegation::None,
            _ => Wanted::of(args.share_access),
        };
        let is_reclaim = matches!(wanted, Wanted::Reclaim(_));
        // What data servers were written to without the metadata server's knowledge is unknown
        // to whoever is delegated the file too.
        let possible =
            !self.files.must_fetch(inode) && self.core.sessions().has_back_channel(client);
        let file = self.files.key(inode.no);
        // With set-id bits the next write must be seen at once: the client shows the mode.
        let to_write = opened.to_write && !inode.is_privileged() || is_reclaim;
        let asking = Asking {
            client,
            file,
            wanted,
            access: args.share_access & share::ACCESS_MASK,
            change: inode.change,
            own_changes: usize::from(opened.changes),
            possible,
            to_write,
        };
        let granted = self.protocol.state().delegate(self.core.clock.now(), &asking);
        let Granted { stateid, kind } = match granted {
            Ok(granted) => granted,
            Err(why) => return reason(why),
        };
        // One to read may have been revoked before the restart, and the file changed: what the
        // client cached is not to be trusted for long (§10.2.1). Nor do we know for how long it
        // would be of use.
        let recall = is_reclaim;
        if recall {
            self.recall(client, file, Recall::All { truncate: false });
        }
        let permissions = ask_for_access();
        match kind {
            DelegationKind::Write => {
                OpenDelegation::Write { stateid, recall, size_limit: SIZE_LIMIT, permissions }
            }
            DelegationKind::Read | DelegationKind::Directory => {
                OpenDelegation::Read { stateid, recall, permissions }
            }
        }
    }

    /// Whether the client may not reclaim a write delegation: one was revoked before the restart,
    /// and others may have changed that file since (§10.2.1).
    pub(crate) fn lost_some(&self, client: ClientId) -> bool {
        let owner = self.core.sessions().client(client).map(|c| c.owner().ownerid.0.clone());
        owner.is_none_or(|ownerid| self.records.lost_some(client, &ownerid))
    }

    /// The delegation that GET_DIR_DELEGATION asks for; none on a directory of which one was wanted
    /// back lately.
    pub(crate) fn grant_directory(&self, client: ClientId, dir: InodeNo) -> Option<Stateid> {
        let asking = Asking {
            client,
            file: self.files.key(dir),
            wanted: Wanted::Directory,
            access: 0,
            change: 0,
            own_changes: 0,
            possible: self.core.sessions().has_back_channel(client),
            to_write: false,
        };
        let granted = self.protocol.state().delegate(self.core.clock.now(), &asking);
        granted.ok().map(|granted| granted.stateid)
    }

    /// [`Self::take_back`] before a name comes to be in a directory. Only if somebody has something
    /// to give back it is asked whether that is `allowed`: who may not make it makes nobody give
    /// anything back.
    ///
    /// # Errors
    /// Those of `allowed`; DELAY.
    pub(crate) async fn before_new_name(
        self: &Arc<Self>,
        client: ClientId,
        dir: InodeNo,
        allowed: impl FnOnce() -> Result<(), Failure>,
    ) -> Result<Undelegated<'_>, Failure> {
        let dir = self.files.key(dir);
        let changing = self.changing(dir);
        if !self.protocol.state().delegation_holders(dir, client).is_empty() {
            allowed()?;
            self.given_back(client, &[dir], Recall::All { truncate: false }).await?;
        }
        Ok(changing)
    }

    /// Takes back the delegations that others hold on a file that is about to change, and keeps
    /// new ones from being granted until the change is done. `truncate` tells the holders that
    /// what they cached is of no use.
    ///
    /// # Errors
    /// DELAY when that takes too long: the client asks again.
    pub(crate) async fn take_back(
        self: &Arc<Self>,
        client: ClientId,
        file: FileKey,
        truncate: bool,
    ) -> Result<Undelegated<'_>, Failure> {
        let changing = self.changing(file);
        self.given_back(client, &[file], Recall::All { truncate }).await?;
        Ok(changing)
    }

    /// Takes back the write delegation that another holds on a file which is about to be read.
    ///
    /// # Errors
    /// DELAY when that takes too long: the client asks again.
    pub(crate) async fn take_back_to_read(
        self: &Arc<Self>,
        client: ClientId,
        file: FileKey,
    ) -> Result<(), Failure> {
        self.given_back(client, &[file], Recall::Writers).await?;
        Ok(())
    }

    /// Takes back the write delegation that the client itself holds on a file of which it changes
    /// what Linux does not look at again while it holds that: the mode that follows from a list.
    ///
    /// # Errors
    /// DELAY when that takes too long: the client asks again.
    pub(crate) async fn take_back_own(
        self: &Arc<Self>,
        client: ClientId,
        file: FileKey,
    ) -> Result<(), Failure> {
        if self.given_back(client, &[file], Recall::Own).await? {
            sleep(OWN_SETTLES).await;
        }
        Ok(())
    }

    /// [`Self::take_back`] of all that one change concerns, at once: files, and directories.
    ///
    /// # Errors
    /// DELAY when that takes too long: the client asks again.
    pub(crate) async fn take_back_all(
        self: &Arc<Self>,
        client: ClientId,
        concerned: impl IntoIterator<Item = InodeNo>,
    ) -> Result<Vec<Undelegated<'_>>, Failure> {
        let keys: Vec<_> = concerned.into_iter().map(|ino| self.files.key(ino)).collect();
        let changing = keys.iter().map(|key| self.changing(*key)).collect();
        self.given_back(client, &keys, Recall::All { truncate: false }).await?;
        Ok(changing)
    }

    /// A file has no name any more. Who still has it delegated (who removed it did not have to give
    /// it back before) keeps its bytes where they are, and need not know that it was this file: he
    /// is asked for it, and nobody waits for that.
    pub(crate) fn nameless(self: &Arc<Self>, file: FileKey) {
        let holders = self.protocol.state().delegation_holders(file, ClientId(0));
        for holder in holders {
            self.recall(holder, file, Recall::All { truncate: false });
        }
    }

    /// From here on nobody gets a delegation.
    pub(crate) fn changing(&self, file: FileKey) -> Undelegated<'_> {
        self.protocol.state().begin_change(file);
        Undelegated { protocol: &self.protocol, file }
    }

    /// Recalls what others hold, and waits for all of it; whether there was anything. What had to
    /// be revoked nobody reclaims after a restart.
    pub(super) async fn given_back(
        self: &Arc<Self>,
        client: ClientId,
        files: &[FileKey],
        recall: Recall,
    ) -> Result<bool, Failure> {
        let deadline = Instant::now() + self.patience();
        let mut waited = false;
        loop {
            let mut held = None;
            for file in files {
                // Whatever comes back from here on is heard.
                let given_back = self.protocol.given_back(*file).notified();
                let holders = self.holders(*file, client, recall);
                if !holders.is_empty() {
                    held = held.or(Some(given_back));
                }
                if !self.revoke_of_expired(&holders, *file) {
                    holders.into_iter().for_each(|holder| self.recall(holder, *file, recall));
                }
            }
            let Some(given_back) = held else {
                let durable = self.records.losses_durable().await;
                // As every answer of a volume that has stopped.
                durable.map_err(|_| NfsStat::DELAY)?;
                return Ok(waited);
            };
            waited = true;
            if Instant::now() > deadline {
                return Err(NfsStat::DELAY.into());
            }
            // Also without hearing of it: a delegation may end in other ways.
            let _ = timeout(RECALL_LOOK, given_back).await;
        }
    }

    fn holders(&self, file: FileKey, except: ClientId, recall: Recall) -> Vec<ClientId> {
        let state = self.protocol.state();
        match recall {
            Recall::All { .. } => state.delegation_holders(file, except),
            Recall::Writers => state.delegated_writer(file, except).into_iter().collect(),
            Recall::Own => match state.is_delegated_to_write(except, file) {
                true => vec![except],
                false => Vec::new(),
            },
        }
    }

    /// How long a request waits for a client that is called back.
    pub(super) fn patience(&self) -> Duration {
        let lease = Duration::from_secs(self.core.lease_s.into());
        RECALL_PATIENCE.min(lease / 4)
    }

    /// Asks a client for its delegation, unless it has been asked.
    pub(super) fn recall(self: &Arc<Self>, client: ClientId, file: FileKey, recall: Recall) {
        if let Some((stateid, op)) = self.recall_begun(client, file, recall) {
            let me = self.clone();
            tokio::spawn(async move { me.send_recall(client, stateid, op).await });
        }
    }

    /// Notes that a delegation is being recalled, unless it is noted: its stateid, and CB_RECALL.
    fn recall_begun(
        &self,
        client: ClientId,
        file: FileKey,
        recall: Recall,
    ) -> Option<(Stateid, CbOp)> {
        let (truncate, wish) = match recall {
            // Who writes must not throw away what it has for a change that may be refused yet
            // (§20.2).
            Recall::All { truncate } => {
                let writes = self.protocol.state().is_delegated_to_write(client, file);
                (truncate && !writes, RecallFor::Change)
            }
            Recall::Writers | Recall::Own => (false, RecallFor::Reading),
        };
        let now = self.core.clock.now();
        let stateid = self.protocol.state().delegation_recall(now, client, file, wish)?;
        let fh = Handle::of(file).to_wire();
        Some((stateid, CbOp::Recall(CbRecallArgs { stateid, truncate, fh })))
    }

    /// Sends CB_RECALL until the client takes it (§20.2), returns the delegation, or is late:
    /// then it is revoked.
    async fn send_recall(&self, client: ClientId, stateid: Stateid, op: CbOp) {
        while self.protocol.state().is_delegated(client, &stateid) {
            let answer = self.callbacks.call(client, &op).await;
            tracing::debug!(client = client.0, ?answer, "delegation recall");
            match answer {
                Ok(NfsStat::BADHANDLE | NfsStat::BAD_STATEID) => {
                    self.protocol.state().delegation_answered(client, &stateid, false);
                }
                Ok(NfsStat::OK) => {
                    return self.protocol.state().delegation_answered(client, &stateid, true);
                }
                Ok(_) => self.protocol.state().recall_answered(client, &stateid),
                Err(CallbackError::TimedOut) => {
                    self.protocol.state().callback_unanswered(client);
                }
                Err(_) => {}
            }
            tokio::time::sleep(RECALL_PAUSE).await;
        }
    }

    /// Revokes delegations that were not returned within a lease (§10.4.5). Who has to write first
    /// what he has, and is kept from it by a data server that is away, has a lease from when that
    /// is back: what he closed would be lost otherwise. Not for ever, since others wait.
    ///
    /// A client that did not even answer loses all it holds, so that others wait for it once
    /// (§10.2.1). One that answered is asked for the rest at once.
    pub(crate) fn revoke_overdue(self: &Arc<Self>, now: Millis) {
        let wanted = self.protocol.state().delegations_wanted_back();
        for (client, file) in wanted {
            if self.is_kept_from_writing(client, file)
                && self.protocol.state().delegation_kept(now, client, file)
            {
                let (client, ino) = (client.0, file.object);
                tracing::warn!(client, ino, "delegation not back: a data server is away");
            }
        }
        let limit_ms = u64::from(self.core.lease_s) * 1000;
        let most_ms = limit_ms * KEPT_LEASES_MAX;
        let overdue = self.protocol.state().delegations_overdue(now, limit_ms, most_ms);
        let mut late = BTreeMap::new();
        for (client, file) in overdue {
            let unanswered = self.protocol.state().recall_is_unanswered(client, file);
            *late.entry(client).or_default() |= unanswered;
            self.revoke(client, file);
        }
        for (client, unanswered) in late {
            match unanswered {
                true => self.revoke_all(client),
                false => self.recall_all(client),
            }
        }
    }

    /// Revokes what else a client holds that has not answered for a lease.
    fn revoke_all(&self, client: ClientId) {
        let held = self.protocol.state().delegations_of(client);
        for file in held {
            if !self.is_kept_from_writing(client, file) {
                self.revoke(client, file);
            }
        }
    }

    /// Recalls what else a client holds, one after the other, however much that is. The time of a
    /// lease begins for all of it now.
    fn recall_all(self: &Arc<Self>, client: ClientId) {
        let held = self.protocol.state().delegations_of(client).into_iter();
        let all = Recall::All { truncate: false };
        let begun: Vec<_> = held.filter_map(|file| self.recall_begun(client, file, all)).collect();
        let me = self.clone();
        tokio::spawn(async move {
            for (stateid, op) in begun {
                me.send_recall(client, stateid, op).await;
            }
        });
    }

    fn is_kept_from_writing(&self, client: ClientId, file: FileKey) -> bool {
        self.is_live(client) && self.files.waits_for_data_server(InodeNo(file.object))
    }

    /// Nobody waits for a client whose lease has passed; whether there was one.
    fn revoke_of_expired(&self, holders: &[ClientId], file: FileKey) -> bool {
        let mut expired = holders.to_vec();
        expired.retain(|holder| !self.is_live(*holder));
        expired.iter().for_each(|holder| self.revoke(*holder, file));
        !expired.is_empty()
    }

    pub(super) fn is_live(&self, client: ClientId) -> bool {
        self.core.sessions().is_live(client, self.core.clock.now())
    }

    fn revoke(&self, client: ClientId, file: FileKey) {
        tracing::warn!(client = client.0, ino = file.object, "delegation revoked");
        if self.protocol.state().is_delegated_to_write(client, file) {
            // First: whoever is given the file depends on that.
            self.records.note_loss(client);
        }
        let (now, ino) = (self.core.clock.now(), InodeNo(file.object));
        let has_opens = self.protocol.state().has_opens(client, file);
        if !has_opens {
            // Before anybody else gets the file: nobody is given a layout until these are fenced.
            self.files.suspect_handles_of(client, ino);
        }
        let last = self.protocol.state().delegation_revoke(now, client, file);
        if !has_opens {
            self.end_layout_of(client, file);
        }
        if last {
            self.files.closed(ino);
        }
        self.note_revoked(client);
    }

    /// Who has lost a file writes it no more, by a layout either.
    fn end_layout_of(&self, client: ClientId, file: FileKey) {
        let state = self.protocol.state();
        let held = state.layouts_on(file).into_iter().filter(|layout| layout.client == client);
        for layout in held {
            let overdue = Overdue { client, file, stateid: layout.stateid, rw: layout.rw };
            let layouts = self.layouts.clone();
            // What fails is tried again when the client's lease passes, or it is recalled.
            tokio::spawn(async move { layouts.revoke(overdue).await });
        }
    }

    /// Tells a client for as long as it has to free delegations that were revoked (§18.46.3).
    pub(crate) fn note_revoked(&self, client: ClientId) {
        let revoked = self.protocol.state().has_revoked(client);
        let flag = seq4_status::RECALLABLE_STATE_REVOKED;
        self.core.sessions().status_flag(client, flag, revoked);
    }
}

/// Permissions that allow nobody anything: users other than the one that opened the file are
/// checked by ACCESS (§10.4).
fn ask_for_access() -> Ace {
    Ace { acetype: AceType::ALLOW, flag: 0, access_mask: 0, who: Opaque::default() }
}

fn reason(why: NoDelegation) -> OpenDelegation {
    let (why, will_tell) = match why {
        NoDelegation::NotAsked => return OpenDelegation::None,
        NoDelegation::NotWanted => (why_no_delegation::NOT_WANTED, None),
        NoDelegation::Contention => (why_no_delegation::CONTENTION, Some(false)),
        NoDelegation::Resource => (why_no_delegation::RESOURCE, Some(false)),
        NoDelegation::WriteUnsupported => (why_no_delegation::WRITE_DELEG_NOT_SUPP_FTYPE, None),
        NoDelegation::Cancelled => (why_no_delegation::CANCELLED, None),
    };
    OpenDelegation::NoneExt(why, will_tell)
}
