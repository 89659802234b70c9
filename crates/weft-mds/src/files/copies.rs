//! Replicated files (P1.3, ADR 39): their copies are made alike once nothing is done to them, and
//! the volume says so. From then on each may be read.

use std::{sync::Arc, time::Duration};

use weft_nfs::{Failure, NfsStat};
use weft_store::types::{Inode, InodeNo, Spread};

use super::{
    change::{Changes, Done},
    plan::Plan,
    shared::Shared,
};
use crate::{data_servers::DataServerError, deps::Deps};

/// Pause while more files wait than are remembered.
const PAUSE: Duration = Duration::from_millis(500);

/// Makes copies alike.
pub(crate) struct Copies {
    shared: Arc<Shared>,
    changes: Arc<Changes>,
}

impl Copies {
    /// Of these files.
    pub(crate) fn new(shared: &Arc<Shared>, changes: &Arc<Changes>) -> Self {
        Copies { shared: shared.clone(), changes: changes.clone() }
    }

    /// Makes alike what is due, for ever.
    pub(crate) async fn run(&self) {
        loop {
            for ino in self.shared.differing.due().await {
                match self.make_alike(&mut Deps::default(), ino).await {
                    Ok(_) => {}
                    Err(Failure { status: NfsStat::STALE, .. }) => {
                        self.shared.differing.forget(ino);
                    }
                    Err(why) => {
                        let status = why.status;
                        tracing::debug!(ino = ino.0, %status, "copies may go on to differ");
                        self.shared.differing.later(ino);
                    }
                }
            }
        }
    }

    /// Files that a start comes across: those whose copies may differ, by what was going on before,
    /// are made alike. It waits while there are too many.
    pub(crate) async fn meet(&self, files: &[Inode]) {
        for file in files.iter().filter(|file| may_differ(file)) {
            while !self.shared.differing.meet(file.no) {
                tokio::time::sleep(PAUSE).await;
            }
        }
    }

    /// Makes the copies of a file alike, durably, if they may differ: by a COMMIT if all that was
    /// done to them went well, else each gets the bytes of the first. Nobody else writes meanwhile.
    /// The file as it is then.
    ///
    /// # Errors
    /// DELAY while somebody writes, or the file is on its way from the volume; those of data
    /// servers.
    pub(crate) async fn make_alike(&self, deps: &mut Deps, ino: InodeNo) -> Result<Inode, Failure> {
        let (shared, differing) = (&self.shared, &self.shared.differing);
        let admitted = self.changes.admit().await;
        let inode = deps.see(shared.volume.inode(ino))?;
        if !may_differ(&inode) {
            differing.forget(ino);
            return Ok(inode);
        }
        if inode.stuffed {
            return Err(NfsStat::DELAY.into());
        }
        let blocked = self.changes.block_writes(&admitted, &inode)?;
        let quiesced = self.changes.quiesced(blocked).await?;
        let change = self.changes.begin(Plan::make_alike(quiesced));
        let made = change.run(deps, |file| async move {
            let were_kept = differing.are_kept(ino);
            if !were_kept {
                shared.data_servers.make_alike(&file).await?;
            }
            let committed = shared.commit_objects(&file).await?;
            if were_kept && !differing.are_alike(ino, committed) {
                return Err(DataServerError::to_come_again(
                    &file,
                    "it may have lost what was written to a copy",
                ));
            }
            Ok(Done { value: (), reaches: None })
        });
        Ok(made.await?.1)
    }
}

/// Whether it has copies that may differ.
pub(super) fn may_differ(inode: &Inode) -> bool {
    let spread = inode.placement.map(|place| place.spread);
    spread == Some(Spread::Copies { alike: false })
}
