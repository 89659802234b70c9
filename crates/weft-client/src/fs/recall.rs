//! What the server calls for: layouts back (RFC 8881 §20.3), delegations (§20.2), and locks to be
//! asked for again (§20.11).

use std::{collections::HashSet, sync::Arc};

use tokio::sync::Notify;
use weft_nfs::{
    Attrs, NfsStat,
    callback::{
        CbGetattrArgs, CbLayoutrecallArgs, CbNotifyLockArgs, CbRecallAnyArgs, CbRecallArgs,
        LayoutRecall,
    },
};

use crate::{
    io::{FileIo, OpenFiles, Returns},
    session::CallbackHandler,
};

/// Answers recalls for the files of a client.
pub(super) struct Recalls {
    pub(super) files: Arc<OpenFiles>,
    pub(super) returns: Arc<Returns>,
    pub(super) lock_notices: Arc<Notify>,
}

impl CallbackHandler for Recalls {
    /// OK promises the LAYOUTRETURN, which a task settles and sends.
    fn cb_layoutrecall(&self, args: &CbLayoutrecallArgs) -> NfsStat {
        let files = match &args.recall {
            LayoutRecall::File { fh, .. } => self.files.matching(Some(fh)),
            LayoutRecall::Fsid(_) | LayoutRecall::All => self.files.matching(None),
        };
        let mut holding = Vec::new();
        let mut seen = HashSet::new();
        // All opens of a file share its layout: one of them returns it.
        for file in files.into_iter().filter(|f| seen.insert(f.fh().clone())) {
            match file.holds_layout() {
                Some(true) => holding.push(file),
                Some(false) => {}
                None => return NfsStat::DELAY,
            }
        }
        if holding.is_empty() {
            return NfsStat::NOMATCHING_LAYOUT;
        }
        holding.into_iter().for_each(|file| drop(tokio::spawn(return_layout(file))));
        NfsStat::OK
    }

    fn cb_recall(&self, args: &CbRecallArgs) -> NfsStat {
        self.returns.recall(args)
    }

    fn cb_recall_any(&self, args: &CbRecallAnyArgs) -> NfsStat {
        self.returns.recall_any(args)
    }

    fn cb_getattr(&self, args: &CbGetattrArgs) -> Result<Attrs, NfsStat> {
        self.returns.getattr(args)
    }

    /// Whoever waits for a lock asks again: there are few, and most wait for the same one.
    fn cb_notify_lock(&self, _args: &CbNotifyLockArgs) -> NfsStat {
        self.lock_notices.notify_waiters();
        NfsStat::OK
    }

    fn state_revoked(&self) {
        self.returns.revoked();
    }
}

async fn return_layout(file: Arc<FileIo>) {
    if let Err(e) = file.return_layout().await {
        tracing::warn!(fh = ?file.fh(), "recalled layout could not be settled: {e}");
    }
}
