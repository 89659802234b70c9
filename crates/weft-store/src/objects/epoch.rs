//! Which epochs an object accepts (design D5).

use super::error::ObjectError;

/// The epoch of a removed object: no write carries it, so none is accepted.
pub const REMOVED: u32 = u32::MAX;

/// The smallest epoch that an object accepts. Its lock orders writes (shared) against fences,
/// truncations and removal (exclusive).
#[derive(Debug)]
pub(super) struct AcceptedEpoch {
    epoch: u32,
}

impl AcceptedEpoch {
    /// The epoch that the fence log has.
    pub(super) fn new(epoch: u32) -> Self {
        AcceptedEpoch { epoch }
    }

    /// Whether a write with a handle of this epoch may go on.
    pub(super) fn admit(&self, epoch: u32) -> Result<(), ObjectError> {
        admit(self.epoch, epoch)
    }

    pub(super) fn is_removed(&self) -> bool {
        self.epoch == REMOVED
    }

    /// Refuses everything below `epoch` from now on.
    pub(super) fn raise(&mut self, epoch: u32) {
        self.epoch = self.epoch.max(epoch);
    }
}

/// Whether an object fenced at `current` accepts a handle of `epoch`.
pub(super) fn admit(current: u32, epoch: u32) -> Result<(), ObjectError> {
    if epoch < current || current == REMOVED {
        return Err(ObjectError::Stale { current });
    }
    Ok(())
}
