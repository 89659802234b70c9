//! What the server calls for: layouts back (RFC 8881 §20.3), and locks to be asked for again
//! (§20.11).

use std::{collections::HashSet, sync::Arc};

use tokio::sync::Notify;
use weft_nfs::{
    NfsStat,
    callback::{CbLayoutrecallArgs, CbNotifyLockArgs, CbRecallArgs, LayoutRecall},
};

use crate::{
    io::{FileIo, OpenFiles},
    session::CallbackHandler,
};

/// Answers recalls for the open files of a client.
pub(super) struct Recalls {
    files: Arc<OpenFiles>,
    lock_notices: Arc<Notify>,
}

impl Recalls {
    pub(super) fn new(files: Arc<OpenFiles>, lock_notices: Arc<Notify>) -> Recalls {
        Recalls { files, lock_notices }
    }
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

    /// Delegations are never kept.
    fn cb_recall(&self, _args: &CbRecallArgs) -> NfsStat {
        NfsStat::BADHANDLE
    }

    /// Whoever waits for a lock asks again: there are few, and most wait for the same one.
    fn cb_notify_lock(&self, _args: &CbNotifyLockArgs) -> NfsStat {
        self.lock_notices.notify_waiters();
        NfsStat::OK
    }
}

async fn return_layout(file: Arc<FileIo>) {
    if let Err(e) = file.return_layout().await {
        tracing::warn!(fh = ?file.fh(), "recalled layout could not be settled: {e}");
    }
}
