//! Waiting until nobody writes to a file: not through here, and not with a layout.

use std::time::Instant;

use weft_nfs::{ClientId, Failure, NfsStat};
use weft_store::types::Inode;

use super::{layout_recall::LOOK, service::Clients};
use crate::files::{Admitted, Quiesced};

impl Clients {
    /// Blocks the writes of a file, and waits until no client but the one that asks holds a write
    /// layout (they are recalled), no indirect write is under way, and handles that were taken
    /// away or given up are worthless.
    ///
    /// # Errors
    /// DELAY when that takes too long, or somebody else is alone with the file: the client asks
    /// again.
    pub(crate) async fn quiesce(
        &self,
        admitted: &Admitted,
        client: ClientId,
        inode: &Inode,
    ) -> Result<Quiesced<'_>, Failure> {
        let blocked = self.files.block_writes(admitted, inode)?;
        let file = self.files.key(inode.no);
        let deadline = self.layouts.deadline();
        while self.layouts.recall_writers(file, Some(client)) || self.files.has_writers(inode.no) {
            if Instant::now() > deadline {
                return Err(NfsStat::DELAY.into());
            }
            tokio::time::sleep(LOOK).await;
        }
        Ok(self.files.quiesced(blocked).await?)
    }
}

#[cfg(test)]
mod tests {
    use weft_store::{
        types::{Credential, InodeNo, Timestamp},
        volume::New,
    };

    use super::*;
    use crate::testing::lone_mds;

    /// Whoever waits for a writer and is given up, and whoever panics when it is alone with the
    /// file, leaves the file open: to writers, and to whoever wants to be alone with it next.
    #[tokio::test]
    async fn the_block_ends_with_its_request() {
        let mds = lone_mds().await;
        let (root, now) = (Credential::superuser(), Timestamp::default());
        let made = mds.files.volume().create(InodeNo::ROOT, b"f", &New::file(0o644), &root, now);
        let inode = made.value.unwrap().inode;
        let records = &mds.files.shared().records;
        let quiesce = || {
            let (mds, inode) = (mds.clone(), inode.clone());
            async move {
                let admitted = mds.files.admit().await;
                mds.clients.quiesce(&admitted, ClientId(1), &inode).await.map(drop)
            }
        };
        let writing = records.begin_write(&inode).unwrap();
        let waiting = tokio::spawn(quiesce());
        while records.begin_write(&inode).is_some() {
            tokio::task::yield_now().await;
        }
        waiting.abort();
        assert!(waiting.await.unwrap_err().is_cancelled());
        assert!(records.begin_write(&inode).is_some());
        drop(writing);
        let (holder, held) = (mds.clone(), inode.clone());
        let panicking = tokio::spawn(async move {
            let admitted = holder.files.admit().await;
            let _alone = holder.clients.quiesce(&admitted, ClientId(1), &held).await.unwrap();
            panic!("alone with the file");
        });
        assert!(panicking.await.unwrap_err().is_panic());
        assert!(records.begin_write(&inode).is_some());
        assert!(quiesce().await.is_ok());
    }
}
