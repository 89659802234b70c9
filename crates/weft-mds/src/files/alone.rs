//! Changes that are alone with their file: DEALLOCATE, and a new size. CLONE is in
//! [`super::cloning`].

use weft_nfs::{Failure, NfsStat};
use weft_store::{
    types::{Credential, Inode, InodeNo},
    volume::{AttrSet, Authority, SetAttr},
};

use super::{
    change::{Admitted, Done},
    plan::{Plan, Quiesced, Writer},
    records::WritesBlocked,
    service::FileService,
};
use crate::deps::Deps;

impl FileService {
    /// Waits while too much is not durable yet: the first step of a change.
    pub(crate) async fn admit(&self) -> Admitted {
        self.changes.admit().await
    }

    /// From here on nobody begins to write to the file.
    ///
    /// # Errors
    /// DELAY while somebody else is alone with it.
    pub(crate) fn block_writes(
        &self,
        admitted: &Admitted,
        inode: &Inode,
    ) -> Result<WritesBlocked<'_>, NfsStat> {
        self.changes.block_writes(admitted, inode)
    }

    /// Whether writes through here are under way.
    pub(crate) fn has_writers(&self, ino: InodeNo) -> bool {
        self.shared.records.lock().has_writers(ino)
    }

    /// Nobody is left who could write: what was given up or taken away is fenced.
    ///
    /// # Errors
    /// DELAY while somebody writes, or a data server cannot be told.
    pub(crate) async fn quiesced<'a>(
        &self,
        blocked: WritesBlocked<'a>,
    ) -> Result<Quiesced<'a>, NfsStat> {
        self.changes.quiesced(blocked).await
    }

    /// Makes a hole.
    ///
    /// # Errors
    /// Those of data servers: some of the data may be gone.
    pub(crate) async fn punch<'a>(
        &'a self,
        deps: &mut Deps,
        quiesced: Quiesced<'a>,
        by: Writer,
        (offset, length): (u64, u64),
    ) -> Result<(), Failure> {
        // What was never written is a hole.
        if deps.see(self.shared.volume.inode(quiesced.ino()))?.placement.is_none() {
            return Ok(());
        }
        let servers = &self.shared.data_servers;
        let change = self.changes.begin(Plan::punch(quiesced, by));
        let punched = change.run(deps, |file| async move {
            servers.punch(&file, offset, length).await?;
            Ok(Done { value: (), reaches: Some(0) })
        });
        punched.await.map(drop)
    }

    /// Sets attributes, a size among them. The volume cuts what it has by itself; what data servers
    /// have is cut before this returns, and before anybody writes again.
    ///
    /// # Errors
    /// Those of the store; IO for a file that has lost bytes, unless all go; DELAY while a data
    /// server cannot be reached: the size is set then, and the file takes no writes until it is
    /// cut.
    pub(crate) async fn set_size<'a>(
        &'a self,
        deps: &mut Deps,
        quiesced: Quiesced<'a>,
        (set, authority): (&SetAttr, Authority),
        cred: &Credential,
    ) -> Result<Inode, Failure> {
        let (volume, ino, size) = (&self.shared.volume, quiesced.ino(), set.size.unwrap_or(0));
        if size > 0 {
            // Cutting makes objects as long as the size demands: what is lost would be zeros.
            self.shared.require_whole(ino).await?;
        }
        self.attrs.take_in_written(ino);
        let seen = volume.setattr(ino, set, authority, cred, self.shared.wall());
        let lsn = seen.lsn;
        let (inode, intent) = match deps.see(seen)? {
            AttrSet { inode, truncate: None, .. } => return Ok(inode),
            AttrSet { inode, truncate: Some(intent), .. } => (inode, intent),
        };
        // From here on the truncation is finished, by this or by the reaper.
        let servers = &self.shared.data_servers;
        let change = self.changes.begin(Plan::truncate(quiesced, intent));
        // The intent comes first: a crash in the middle finds it and goes on.
        volume.durable(lsn).await.map_err(|_| NfsStat::IO)?;
        let cut = change.run(deps, |file| async move {
            servers.truncate(&file, size).await?;
            Ok(Done { value: (), reaches: None })
        });
        cut.await?;
        Ok(inode)
    }

    /// Finishes a migration that has begun, unless the new size is 0 and nothing would be left to
    /// move; what data servers have and the volume does not know must not show in a longer file.
    ///
    /// # Errors
    /// Those of bringing it there.
    pub(crate) async fn before_set_size(
        &self,
        deps: &mut Deps,
        inode: Inode,
        size: u64,
    ) -> Result<Inode, Failure> {
        if inode.is_moving() && size != 0 {
            return self.on_data_servers(deps, inode).await;
        }
        self.migration.cut_remains(&inode).await?;
        Ok(inode)
    }

    /// A file whose bytes are in the volume is not moved either, as long as the result lives.
    ///
    /// # Errors
    /// DELAY while somebody moves it, or a data server cannot be told.
    pub(crate) async fn hold_still<'a>(
        &self,
        quiesced: Quiesced<'a>,
        inode: &Inode,
    ) -> Result<Quiesced<'a>, NfsStat> {
        if !inode.stuffed {
            return Ok(quiesced);
        }
        let lock = self.migration.lock(inode.no).await?;
        // A move may have been given up since.
        self.fences.fence(inode.no).await?;
        Ok(quiesced.with_migration_locked(lock))
    }
}
