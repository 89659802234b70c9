//! What a filehandle grants to an operation on its object: RFC 8881 §13.6, and ADR 5.

use weft_control::codec::Birth;
use weft_layout::{Access, DataServerHandle, NotAdmitted};
use weft_nfs::{Failure, NfsStat};
use weft_server::compound::Compound;
use weft_store::objects::ObjectId;

use crate::{server::DataServer, status::object_status};

/// An object that an operation may use now. The store looks at the epoch once more when it writes,
/// since the object may be fenced between.
#[derive(Debug, Clone, Copy)]
pub(super) struct ObjectGrant {
    /// The object.
    pub(super) id: ObjectId,
    /// The epoch of the filehandle, which the object accepted.
    pub(super) epoch: u32,
}

impl DataServer {
    /// Checks the current filehandle once for the whole operation: its rights, its range, and its
    /// epoch. One that is newer than the object knows proves that the metadata server fenced the
    /// file, or let others write, while this server could not be told (design D5): older handles
    /// end here and now, so that none of them writes after the newer one was used.
    ///
    /// # Errors
    /// NOFILEHANDLE; ACCESS or INVAL for what the handle does not allow; PNFS_NO_LAYOUT for one
    /// that is older than the object's epoch.
    pub(super) async fn admit(
        &self,
        c: &Compound<Self>,
        access: Access,
        offset: u64,
        len: u64,
    ) -> Result<ObjectGrant, Failure> {
        self.admit_handle(&c.handle()?, access, offset, len).await
    }

    /// [`Self::admit`] of a handle that is no COMPOUND's.
    ///
    /// # Errors
    /// The same.
    pub(super) async fn admit_handle(
        &self,
        handle: &DataServerHandle,
        access: Access,
        offset: u64,
        len: u64,
    ) -> Result<ObjectGrant, Failure> {
        allowed(handle, offset, len, access)?;
        let id = ObjectId { volume: handle.volume, object: handle.object };
        let grant = ObjectGrant { id, epoch: handle.epoch };
        let is_known = self.store().knows_epoch(id, grant.epoch);
        if !is_known.map_err(|e| object_status(&e))? {
            self.disk.call(0, move |s| s.learn_epoch(id, grant.epoch)).await?;
        }
        Ok(grant)
    }

    /// Before a write of so many bytes: an object that is not there yet is made by whoever may, or
    /// when the metadata server lets it be (ADR 21).
    ///
    /// # Errors
    /// PNFS_NO_LAYOUT; what the disk says.
    pub(super) async fn may_make(
        &self,
        handle: &DataServerHandle,
        grant: ObjectGrant,
        bytes: u64,
    ) -> Result<(), Failure> {
        if handle.makes || self.store().is_open(grant.id) {
            return Ok(());
        }
        if self.disk.call(0, move |s| s.is_there(grant.id)).await? {
            return Ok(());
        }
        let ObjectGrant { id, epoch } = grant;
        let birth = Birth { object: id.object, epoch, slot: handle.slots.first().into() };
        Ok(self.births.ask(id.volume, birth, bytes).await?)
    }
}

/// Whether the handle allows this access to this range.
///
/// A range that is not of the handle's stripe is refused, never stored: some Linux kernels send
/// data to the wrong data server (`filelayout_pg_test`, 6.2 to 2026).
fn allowed(
    handle: &DataServerHandle,
    offset: u64,
    len: u64,
    access: Access,
) -> Result<(), NfsStat> {
    handle.admits(offset, len, access).map_err(|refusal| match refusal {
        NotAdmitted::Rights => NfsStat::ACCESS,
        // Ranges that end beyond the largest offset are nobody's.
        NotAdmitted::NotOurs => NfsStat::INVAL,
    })
}
