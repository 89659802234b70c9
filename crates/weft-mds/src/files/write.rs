//! Writing to a file: to the volume while it is small (design D17), else to its data servers
//! (design D6); and reserving space for it.

use bytes::Bytes;
use weft_nfs::{Failure, StableHow, Verifier};
use weft_store::{types::Inode, volume::StuffedWrite};

use super::{
    change::Done,
    plan::{Plan, Writer},
    service::FileService,
};
use crate::deps::Deps;

impl FileService {
    /// Writes at an offset; the end was checked. How durable it is, and the verifier to compare
    /// with that of [`FileService::commit`].
    ///
    /// # Errors
    /// DELAY while the file is being truncated; NOSPC; those of data servers, when some of it may
    /// be written.
    pub(crate) async fn write(
        &self,
        deps: &mut Deps,
        inode: Inode,
        by: Writer,
        (offset, data, stable): (u64, &Bytes, StableHow),
    ) -> Result<(StableHow, Verifier), Failure> {
        let admitted = self.changes.admit().await;
        // One that finds no room in the volume goes on with the file on its data servers.
        if inode.stuffed
            && self.migration.may_stuff()
            && self.write_stuffed(deps, &inode, by, (offset, data))?
        {
            return Ok((StableHow::FILE_SYNC, Verifier::default()));
        }
        let writing = self.changes.begin_write(&admitted, &inode)?;
        self.migration.on_data_servers(deps, inode).await?;
        let servers = &self.shared.data_servers;
        let end = offset + data.len() as u64;
        let change = self.changes.begin(Plan::write(writing, by, end));
        let written = change.run(deps, |file| {
            let data = data.clone();
            async move {
                let reaches = (!data.is_empty()).then_some(end);
                let len = data.len();
                let value = servers.write(&file, offset, data, stable).await?;
                self.shared.note_written(&file, (offset, len), value);
                Ok(Done { value, reaches })
            }
        });
        Ok(written.await?.0)
    }

    /// Writes to a small file, durably once the reply is sent: its bytes and its inode are one
    /// commit, which the reply waits for anyway. Whether it could stay small.
    fn write_stuffed(
        &self,
        deps: &mut Deps,
        inode: &Inode,
        by: Writer,
        (offset, data): (u64, &Bytes),
    ) -> Result<bool, Failure> {
        let write = StuffedWrite {
            offset,
            data,
            limit: self.migration.stuffing_limit_bytes(),
            set_id_loss: by.set_id_loss,
        };
        let written = self.shared.volume.write_stuffed(inode.no, &write, self.shared.wall());
        Ok(deps.see(written)?.is_some())
    }

    /// Reserves space for a range, on each data server for its own stripe units; the file grows to
    /// the end of the range once all of it is.
    ///
    /// # Errors
    /// DELAY while the file is being truncated; NOSPC; those of data servers.
    pub(crate) async fn allocate(
        &self,
        deps: &mut Deps,
        inode: Inode,
        by: Writer,
        (offset, end): (u64, u64),
    ) -> Result<(), Failure> {
        let admitted = self.changes.admit().await;
        let writing = self.changes.begin_write(&admitted, &inode)?;
        self.migration.on_data_servers(deps, inode).await?;
        let servers = &self.shared.data_servers;
        let change = self.changes.begin(Plan::allocate(writing, by, end));
        let reserved = change.run(deps, |file| async move {
            servers.allocate(&file, offset, end).await?;
            Ok(Done { value: (), reaches: Some(end) })
        });
        reserved.await.map(drop)
    }
}
