//! Whose objects a store has: the calls of the store about volumes.

use super::{
    binding::{Accepted, BindRefusal, BindRequest, ServedVolume},
    error::ObjectError,
    object_id::ObjectId,
    store::ObjectStore,
    volumes::Remembered,
};
use crate::types::Run;

impl ObjectStore {
    /// The volumes that are served, in the order they came.
    pub fn volumes(&self) -> Vec<ServedVolume> {
        self.dir.volumes().all()
    }

    /// Whether an object is of a volume that is served, and of its state now. No other object is
    /// ever made, and nothing is to be done with one.
    pub fn serves(&self, id: ObjectId) -> bool {
        self.dir.volumes().serves(id)
    }

    /// Whether an object belongs to a state of its volume that was given up when another one was
    /// accepted: the volume as it is now has none of this name.
    pub fn is_given_up(&self, id: ObjectId) -> bool {
        self.dir.volumes().is_given_up(id)
    }

    /// The highest epoch that was fenced or sealed of a volume's objects, removed ones aside. Looks
    /// at all of them, on the disk too.
    ///
    /// # Errors
    /// [`ObjectError::Io`].
    pub fn highest_epoch(&self, volume: u32) -> Result<u32, ObjectError> {
        Ok(self.fences.highest(volume).max(self.seals.highest(volume)?))
    }

    /// This run of the store: from its opening on.
    pub fn run(&self) -> Run {
        self.dir.volumes().run()
    }

    /// What is remembered of an earlier run.
    pub fn remembered(&self, number: u64) -> Remembered {
        self.dir.volumes().remembered(number)
    }

    /// The volume of which anything is accepted, see [`Self::adopt`].
    pub fn adopts(&self) -> Option<[u8; 16]> {
        self.dir.volumes().adopts()
    }

    /// Accepts this volume when it next comes, durably and once, though it is unknown, or in an
    /// older state than the one that was served.
    ///
    /// # Errors
    /// What the disk says.
    pub fn adopt(&self, uuid: [u8; 16]) -> Result<(), ObjectError> {
        self.dir.volumes().adopt(self.identity(), uuid)
    }

    /// Judges a metadata server that comes with a volume. What it is accepted with is durable when
    /// this returns. `in_use`: whether another run of the same volume has a connection that lives.
    ///
    /// # Errors
    /// What the disk says; the refusal is the result.
    pub fn bind(
        &self,
        request: &BindRequest,
        in_use: bool,
    ) -> Result<Result<(Accepted, ServedVolume), BindRefusal>, ObjectError> {
        self.dir.volumes().bind(self.identity(), request, in_use)
    }

    /// Learns the age of a volume; what is durable of it then.
    ///
    /// # Errors
    /// [`ObjectError::UnknownVolume`], [`ObjectError::Io`].
    pub fn grow(&self, number: u32, lsn: u64) -> Result<u64, ObjectError> {
        self.dir.volumes().grow(self.identity(), number, lsn)
    }
}
