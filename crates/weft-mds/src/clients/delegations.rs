//! Read delegations and directory delegations: to whom they are granted, and how they are taken
//! back before a file, or a name in a directory, changes. RFC 8881 §10.2, §10.4, §10.9; design D9.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use weft_nfs::{
    Ace, AceType, ClientId, Failure, NfsStat, Opaque, Stateid,
    callback::{CbOp, CbRecallArgs},
    delegate,
    ops::{OpenArgs, OpenClaim, OpenDelegation},
    seq4_status, share, why_no_delegation,
};
use weft_server::core::Core;
use weft_state::{FileKey, Millis, NoDelegation, Wanted};
use weft_store::types::{Inode, InodeNo};

use super::callback::Callbacks;
use crate::{files::FileService, handle::Handle, protocol_state::ProtocolState};

/// How long a request waits for delegations that it needs back before its client is told to come
/// again; less with a short lease, since the client that waits does not renew.
const RECALL_PATIENCE: Duration = Duration::from_secs(1);
/// How often it looks.
const RECALL_LOOK: Duration = Duration::from_millis(5);
/// Pause before a recall is repeated that the client could not take.
const RECALL_PAUSE: Duration = Duration::from_millis(200);

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

/// Grants delegations and takes them back.
pub(crate) struct Delegations {
    core: Arc<Core>,
    protocol: Arc<ProtocolState>,
    files: Arc<FileService>,
    callbacks: Arc<Callbacks>,
}

impl Delegations {
    /// To and from the clients of this server.
    pub(crate) fn new(
        core: &Arc<Core>,
        protocol: &Arc<ProtocolState>,
        files: &Arc<FileService>,
        callbacks: &Arc<Callbacks>,
    ) -> Self {
        Delegations {
            core: core.clone(),
            protocol: protocol.clone(),
            files: files.clone(),
            callbacks: callbacks.clone(),
        }
    }

    /// The delegation that goes with a successful OPEN (§18.16.3): a reason for granting none is
    /// told only to clients that speak of delegations.
    pub(crate) fn grant(
        self: &Arc<Self>,
        client: ClientId,
        inode: &Inode,
        a: &OpenArgs,
    ) -> OpenDelegation {
        let wanted = match &a.claim {
            OpenClaim::Previous(delegate::READ) => Wanted::Reclaim,
            OpenClaim::Previous(_) => return OpenDelegation::None,
            _ => Wanted::of(a.share_access),
        };
        // Who also writes would only have to give it back.
        let only_reads = a.share_access & share::ACCESS_MASK == share::ACCESS_READ;
        if wanted == Wanted::NoPreference && !only_reads {
            return OpenDelegation::None;
        }
        // What data servers were written to without the metadata server's knowledge is unknown
        // to a reader too.
        let possible =
            !self.files.must_fetch(inode) && self.core.sessions().has_back_channel(client);
        let file = self.files.key(inode.no);
        let now = self.core.clock.now();
        let granted = self.protocol.state().delegate(now, client, file, wanted, possible);
        match granted {
            Ok(stateid) => {
                // It may have been revoked before the restart, and the file changed: what the
                // client cached is not to be trusted for long (§10.2.1).
                let recall = wanted == Wanted::Reclaim;
                if recall {
                    self.recall(client, file, false);
                }
                OpenDelegation::Read { stateid, recall, permissions: ask_for_access() }
            }
            Err(why) => reason(why),
        }
    }

    /// The delegation that GET_DIR_DELEGATION asks for; none on a directory of which one was wanted
    /// back lately.
    pub(crate) fn grant_directory(&self, client: ClientId, dir: InodeNo) -> Option<Stateid> {
        let possible = self.core.sessions().has_back_channel(client);
        let (now, dir) = (self.core.clock.now(), self.files.key(dir));
        self.protocol.state().delegate(now, client, dir, Wanted::Directory, possible).ok()
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
            self.given_back(client, &[dir], false).await?;
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
        self.given_back(client, &[file], truncate).await?;
        Ok(changing)
    }

    /// The same of all that one change concerns, at once: files, and directories.
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
        self.given_back(client, &keys, false).await?;
        Ok(changing)
    }

    /// From here on nobody gets a delegation.
    pub(crate) fn changing(&self, file: FileKey) -> Undelegated<'_> {
        self.protocol.state().begin_change(file);
        Undelegated { protocol: &self.protocol, file }
    }

    /// Recalls what others hold, and waits for all of it.
    async fn given_back(
        self: &Arc<Self>,
        client: ClientId,
        files: &[FileKey],
        truncate: bool,
    ) -> Result<(), Failure> {
        let lease = Duration::from_secs(self.core.lease_s.into());
        let deadline = Instant::now() + RECALL_PATIENCE.min(lease / 4);
        loop {
            let mut waits = false;
            for file in files {
                let holders = self.protocol.state().delegation_holders(*file, client);
                waits |= !holders.is_empty();
                if !self.revoke_of_expired(&holders, *file) {
                    holders.into_iter().for_each(|holder| self.recall(holder, *file, truncate));
                }
            }
            if !waits {
                return Ok(());
            }
            if Instant::now() > deadline {
                return Err(NfsStat::DELAY.into());
            }
            tokio::time::sleep(RECALL_LOOK).await;
        }
    }

    /// Asks a client for its delegation, unless it has been asked.
    fn recall(self: &Arc<Self>, client: ClientId, file: FileKey, truncate: bool) {
        let begun = self.protocol.state().delegation_recall(self.core.clock.now(), client, file);
        let Some(stateid) = begun else { return };
        let me = self.clone();
        let fh = Handle::of(file).to_wire();
        let op = CbOp::Recall(CbRecallArgs { stateid, truncate, fh });
        tokio::spawn(async move { me.send_recall(client, stateid, op).await });
    }

    /// Sends CB_RECALL until the client takes it (§20.2), returns the delegation, or is late:
    /// then it is revoked.
    async fn send_recall(&self, client: ClientId, stateid: Stateid, op: CbOp) {
        while self.protocol.state().is_delegated(client, &stateid) {
            match self.callbacks.call(client, &op).await {
                Ok(NfsStat::OK) => {
                    return self.protocol.state().delegation_answered(client, &stateid, true);
                }
                Ok(NfsStat::BADHANDLE | NfsStat::BAD_STATEID) => {
                    self.protocol.state().delegation_answered(client, &stateid, false);
                }
                Ok(status) => tracing::debug!(client = client.0, %status, "delegation recall"),
                Err(e) => tracing::debug!(client = client.0, error = %e, "delegation recall"),
            }
            tokio::time::sleep(RECALL_PAUSE).await;
        }
    }

    /// Revokes delegations that were not returned within a lease (§10.4.5).
    pub(crate) fn revoke_overdue(&self, now: Millis) {
        let limit_ms = u64::from(self.core.lease_s) * 1000;
        let overdue = self.protocol.state().delegations_overdue(now, limit_ms);
        for (client, file) in overdue {
            self.revoke(client, file);
        }
    }

    /// Nobody waits for a client whose lease has passed; whether there was one.
    fn revoke_of_expired(&self, holders: &[ClientId], file: FileKey) -> bool {
        let now = self.core.clock.now();
        let is_live = |client| self.core.sessions().is_live(client, now);
        let mut expired = holders.to_vec();
        expired.retain(|holder| !is_live(*holder));
        expired.iter().for_each(|holder| self.revoke(*holder, file));
        !expired.is_empty()
    }

    fn revoke(&self, client: ClientId, file: FileKey) {
        tracing::warn!(client = client.0, ino = file.object, "delegation revoked");
        self.protocol.state().delegation_revoke(self.core.clock.now(), client, file);
        self.note_revoked(client);
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
