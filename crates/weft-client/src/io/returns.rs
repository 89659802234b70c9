//! Delegations on their way back (RFC 8881 §10.4.4, §18.6): what relies on one is told to the
//! server before it goes.

use std::sync::{Arc, OnceLock, Weak};

use tokio::runtime::Handle;
use weft_nfs::{
    Attrs, FileHandle, NfsStat, OpArgs,
    callback::{CbGetattrArgs, CbRecallAnyArgs, CbRecallArgs},
    ops::{DelegreturnArgs, FreeStateidArgs, PutfhArgs},
};

use super::{
    cluster::Cluster,
    delegated::Delegated,
    open_files::OpenFiles,
    watcher::{Change, Watcher, What},
};
use crate::{
    boxed::Spawned,
    delegation::{Recalled, Return},
    limits,
    session::{Kept, is_later},
    sync::Mutex,
};

/// Gives delegations back, each in a task that holds no lock: whoever is called by a server only
/// says that it will be.
pub struct Returns {
    /// Once there is one.
    cluster: OnceLock<Weak<Cluster>>,
    files: Arc<OpenFiles>,
    delegated: Arc<Delegated>,
    /// Who is told before one goes.
    watcher: Mutex<Option<Weak<dyn Watcher>>>,
    /// Nothing relies on these any more.
    ready: Mutex<Vec<Return>>,
    /// Held by the one task that sends them; those that come meanwhile go together.
    sending: tokio::sync::Mutex<()>,
}

/// A delegation that goes with another request; in a way of its own, if that did not return it.
pub(crate) struct Leaving {
    returns: Arc<Returns>,
    returned: Option<Return>,
}

impl Leaving {
    /// PUTFH and DELEGRETURN.
    pub(crate) fn ops(&self) -> Vec<OpArgs> {
        let Some(returned) = &self.returned else { return Vec::new() };
        let fh = OpArgs::Putfh(PutfhArgs { object: returned.fh.clone() });
        vec![fh, delegreturn(returned)]
    }

    /// The server has taken it; with the file, or that is still there, and whoever keeps something
    /// of it hears that it is not vouched for any more.
    pub(crate) fn done(mut self, is_gone: bool) {
        let Some(returned) = self.returned.take() else { return };
        self.returns.delegated.returned(&returned);
        if !is_gone {
            let returns = self.returns.clone();
            apart(async move { returns.tell_watcher(&[returned], What::Unguarded).await });
        }
    }
}

impl Drop for Leaving {
    fn drop(&mut self) {
        if let Some(returned) = self.returned.take() {
            self.returns.give_back(vec![returned], What::Unguarded);
        }
    }
}

impl Returns {
    /// Of these, which those open files rely on.
    pub fn new(files: Arc<OpenFiles>, delegated: Arc<Delegated>) -> Returns {
        let (watcher, ready) = (Mutex::default(), Mutex::default());
        let (cluster, sending) = (OnceLock::new(), tokio::sync::Mutex::default());
        Returns { cluster, files, delegated, watcher, ready, sending }
    }

    /// Tells this one, and nobody else, of what is not vouched for any more, while it lives.
    pub fn watch_with(&self, watcher: Weak<dyn Watcher>) {
        *self.watcher.lock() = Some(watcher);
    }

    /// To the metadata server of this cluster.
    pub fn to(&self, cluster: &Arc<Cluster>) {
        let _ = self.cluster.set(Arc::downgrade(cluster));
    }

    /// CB_RECALL (§20.2). From here on nobody relies on that delegation any more; what is not known
    /// is returned all the same. OK, unless there is no cluster yet: then it is to be asked again.
    pub fn recall(self: &Arc<Self>, args: &CbRecallArgs) -> NfsStat {
        if self.cluster.get().is_none() {
            return NfsStat::DELAY;
        }
        match self.delegated.recalled(args) {
            Recalled::Returns(returns) => self.give_back(vec![returns], What::Changing),
            Recalled::Returning => {}
        }
        NfsStat::OK
    }

    /// CB_GETATTR (§20.1, §10.4.3): what this client knows of a file that it may write alone.
    /// The change attribute is that of the grant as long as servers know all that was written, and
    /// else another one.
    ///
    /// # Errors
    /// BADHANDLE if it is not delegated to write.
    pub fn getattr(&self, args: &CbGetattrArgs) -> Result<Attrs, NfsStat> {
        let change = self.delegated.writers_change(&args.fh).ok_or(NfsStat::BADHANDLE)?;
        let cluster = self.cluster.get().and_then(Weak::upgrade).ok_or(NfsStat::DELAY)?;
        let file = cluster.files.find(&args.fh).filter(|file| file.has_untold());
        // Without changes of our own the server knows better, and does not look at the size. If we
        // have some and do not know where the file ends it has to ask for the file itself.
        let (change, size) = match &file {
            None => (change, 0),
            Some(file) => (change.wrapping_add(1), file.known_size().ok_or(NfsStat::DELAY)?),
        };
        Ok(Attrs { change: Some(change), size: Some(size), ..Attrs::default() })
    }

    /// CB_RECALL_ANY (§20.6): what is unused for longest goes back.
    pub fn recall_any(self: &Arc<Self>, args: &CbRecallAnyArgs) -> NfsStat {
        if args.wants_delegations() {
            let kept = usize::try_from(args.objects_to_keep).unwrap_or(usize::MAX);
            self.give_back(self.delegated.all_but(kept), What::Unguarded);
        }
        NfsStat::OK
    }

    /// The server has taken some away: which, it says when they are returned.
    pub fn revoked(self: &Arc<Self>) {
        let Some(cluster) = self.cluster.get().and_then(Weak::upgrade) else { return };
        let all = self.delegated.revoked(cluster.mds.revocations());
        self.give_back(all, What::Changing);
    }

    /// Sees to it that there are not too many.
    pub(crate) fn give_back_surplus(self: &Arc<Self>) {
        self.give_back(self.delegated.surplus(), What::Unguarded);
    }

    /// Returns them; that is what others are told of their files.
    pub(crate) fn give_back(self: &Arc<Self>, all: Vec<Return>, what: What) {
        if !all.is_empty() {
            let me = self.clone();
            apart(async move { me.see_off(all, what).await });
        }
    }

    /// Takes that of a file out of use, if nothing here relies on it and the file has one name: for
    /// who takes that away, and returns it in the same request.
    pub(crate) fn with_last_name(self: &Arc<Self>, fh: &FileHandle) -> Option<Leaving> {
        let cluster = self.cluster.get().and_then(Weak::upgrade)?;
        if cluster.files.is_open(fh) {
            return None;
        }
        let returned = self.delegated.of_last_name(fh)?;
        Some(Leaving { returns: self.clone(), returned: Some(returned) })
    }

    /// Returns that of a file, if one is held, before it ends.
    pub(crate) async fn give_back_file(self: &Arc<Self>, fh: &FileHandle) {
        let Some(returned) = self.delegated.of_file(fh) else { return };
        // Goes on whoever waits for it: others are seen off with this one.
        let me = self.clone();
        let seen_off = Spawned::new(async move {
            me.see_off(vec![returned], What::Unguarded).await;
            Ok(())
        });
        if let Err(e) = seen_off.await {
            tracing::debug!("a delegation is given back by nobody: {e}");
        }
    }

    async fn see_off(&self, all: Vec<Return>, what: What) {
        let Some(cluster) = self.cluster.get().and_then(Weak::upgrade) else { return };
        // First: what others have written to their copies comes here by that.
        self.tell_watcher(&all, what).await;
        for returned in &all {
            outlive(&self.files, returned).await;
        }
        self.ready.lock().extend(all);
        let _only_one = self.sending.lock().await;
        loop {
            let some = std::mem::take(&mut *self.ready.lock());
            if some.is_empty() {
                return;
            }
            send(&cluster, &some).await;
            some.iter().for_each(|returned| self.delegated.returned(returned));
        }
    }

    /// Has whoever keeps something of these files let go of it.
    async fn tell_watcher(&self, all: &[Return], what: What) {
        let watcher = self.watcher.lock().as_ref().and_then(Weak::upgrade);
        let Some(watcher) = watcher else { return };
        let change = |returned: &Return| Change { file: returned.fh.clone(), what };
        let changes: Vec<Change> = all.iter().map(change).collect();
        let let_go = watcher.changing(&changes);
        drop(watcher);
        if tokio::time::timeout(limits::WATCHER_PATIENCE, let_go).await.is_err() {
            tracing::warn!(count = all.len(), "delegations go before all that relied on them");
        }
    }
}

/// In a task of its own; not at all once the runtime has ended, as the server hears by itself then.
fn apart(work: impl Future<Output = ()> + Send + 'static) {
    if let Ok(runtime) = Handle::try_current() {
        runtime.spawn(work);
    }
}

/// What relies on a delegation is told to the server: opens, and what was written and is not with
/// the servers yet. If that does not get there in time the delegation goes all the same: what is
/// written to an open file is promised to nobody.
async fn outlive(files: &OpenFiles, returned: &Return) {
    let open = files.matching(Some(&returned.fh));
    if let Some(file) = open.first().filter(|_| returned.is_to_write) {
        let written = file.commit_for_others();
        match tokio::time::timeout(limits::RETURN_WRITES_FOR, written).await {
            Ok(Ok(())) => {}
            why => tracing::warn!(fh = ?file.fh(), ?why, "not written before it is given back"),
        }
    }
    for file in open {
        if let Err(e) = file.outlive(returned.stateid).await {
            tracing::warn!(fh = ?file.fh(), "an open is lost with its delegation: {e}");
        }
    }
}

/// DELEGRETURN of each. One that the server has taken away is freed (§18.38), so that it need not
/// remember that.
async fn send(cluster: &Cluster, all: &[Return]) {
    let each: Vec<_> =
        all.iter().map(|returned| (returned.fh.clone(), delegreturn(returned))).collect();
    let mut kept = Kept::default();
    for (returned, result) in all.iter().zip(cluster.mds.on_each_file(&each).await) {
        let Err(e) = result else { continue };
        let fh = &returned.fh;
        match e.status() {
            Some(NfsStat::DELEG_REVOKED) => {
                let free = OpArgs::FreeStateid(FreeStateidArgs { stateid: returned.stateid });
                if let Err(e) = cluster.mds.compound(vec![free]).await {
                    tracing::warn!(?fh, "a revoked delegation is not freed: {e}");
                }
            }
            Some(NfsStat::OLD_STATEID) => {
                if let Some(newer) = cluster.delegated.newer(returned) {
                    Box::pin(send(cluster, &[newer])).await;
                }
            }
            Some(status) if !is_later(status) => {
                tracing::debug!(?fh, ?status, "not a delegation any more");
            }
            // The server takes it away when it has waited for long enough.
            _ => kept.note(e),
        }
    }
    kept.warn("delegations not returned");
}

/// DELEGRETURN (§18.6).
fn delegreturn(returned: &Return) -> OpArgs {
    OpArgs::Delegreturn(DelegreturnArgs { deleg_stateid: returned.stateid })
}
