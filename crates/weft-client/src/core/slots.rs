//! Slots of the fore channel: RFC 8881 §2.10.6.1.

use weft_nfs::{SequenceId, SlotId};

/// A slot in use: the right to have one request under way.
#[derive(Debug, PartialEq, Eq)]
pub struct Slot {
    epoch: u64,
    id: u32,
    sequence: SequenceId,
}

impl Slot {
    /// The slot's number.
    pub fn id(&self) -> SlotId {
        SlotId(self.id)
    }

    /// The request's number on the slot.
    pub fn sequence(&self) -> SequenceId {
        self.sequence
    }

    /// Of which session.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }
}

/// The slots of one session.
#[derive(Debug)]
pub struct SlotTable {
    epoch: u64,
    /// Highest slot that may be taken: the server's wish, within what was granted.
    highest: u32,
    slots: Vec<State>,
}

#[derive(Debug, Clone, Copy)]
struct State {
    next: SequenceId,
    busy: bool,
}

impl SlotTable {
    /// `count` free slots (at least one), whose first sequence id is 1 (§2.10.6.1).
    pub fn new(epoch: u64, count: u32) -> SlotTable {
        let count = count.max(1);
        let fresh = State { next: SequenceId(1), busy: false };
        SlotTable { epoch, highest: count - 1, slots: vec![fresh; count as usize] }
    }

    /// The lowest free slot: high slots stay idle, so that the server can take them back.
    pub fn acquire(&mut self) -> Option<Slot> {
        let epoch = self.epoch;
        let (id, state) = (0..=self.highest).zip(&mut self.slots).find(|(_, s)| !s.busy)?;
        state.busy = true;
        Some(Slot { epoch, id, sequence: state.next })
    }

    /// Frees a slot; `consumed` moves it to the next sequence id.
    pub fn release(&mut self, slot: &Slot, consumed: bool) {
        if let Some(state) = self.slots.get_mut(slot.id as usize) {
            state.busy = false;
            if consumed {
                state.next = slot.sequence.next();
            }
        }
    }

    /// Highest slot in use.
    pub fn highest_busy(&self) -> SlotId {
        let highest = self.slots.iter().rposition(|s| s.busy).unwrap_or(0);
        SlotId(u32::try_from(highest).unwrap_or(0))
    }

    /// The server would like no slot above this one used. Never more than was granted.
    pub fn retarget(&mut self, target: SlotId) {
        let granted = u32::try_from(self.slots.len()).unwrap_or(1).saturating_sub(1);
        self.highest = target.0.min(granted);
    }
}
