//! A file and its data servers: where its bytes are, whose handles still count, and what is known
//! of its size.

use super::bounds::raise_bounds;
use super::inode_changes::touch;
use super::stuffed;
use crate::types::fence_epoch;
use crate::types::{Inode, InodeNo, Kind, Placement, SetIdLoss, Spread, StoreError, Timestamp};
use crate::volume::check;
use crate::volume::handle::Volume;
use crate::volume::seen::Seen;
use crate::volume::tx::Tx;

/// What the data servers (or a client's LAYOUTCOMMIT) said about a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settle {
    /// What is known of the size.
    pub size: SettleSize,
    /// Modification time, if known.
    pub mtime: Option<Timestamp>,
    /// That was the whole truth and no write layout is out: the file is no longer unsettled.
    pub settled: bool,
    /// Data changed even if size and time did not show it.
    pub touched: bool,
    /// Bytes that the objects occupy, if the file is settled by that.
    pub occupied: Option<u64>,
    /// Set-id bits that go, by who wrote.
    pub set_id_loss: SetIdLoss,
}

impl Settle {
    /// What is known already is the whole truth.
    pub const NOTHING_NEW: Settle = Settle {
        size: SettleSize::AtLeast(0),
        mtime: None,
        settled: true,
        touched: false,
        occupied: None,
        set_id_loss: SetIdLoss::Nothing,
    };

    /// Data was written, up to `end` at least; and which set-id bits go by that.
    pub fn written(end: u64, now: Timestamp, set_id_loss: SetIdLoss) -> Settle {
        Settle {
            size: SettleSize::AtLeast(end),
            mtime: Some(now),
            settled: false,
            touched: true,
            occupied: None,
            set_id_loss,
        }
    }
}

/// What is known of a size, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SettleSize {
    /// The file reaches at least so far; never shrinks it.
    AtLeast(u64),
    /// The size is this many bytes.
    Exactly(u64),
}

impl Volume {
    /// Gives a file its placement; one that has one keeps it, and is returned as it is. Bytes that
    /// are in the volume have to be brought there now ([`Volume::unstuff`]), if there are any.
    ///
    /// **Errors.** Stale; Invalid if it is not a regular file, or the placement is empty.
    pub fn place(&self, ino: InodeNo, placement: Placement) -> Seen<Result<Inode, StoreError>> {
        self.run(|tx| {
            let mut inode = file(tx, ino)?;
            if !placement.is_sound() {
                return Err(StoreError::Invalid);
            }
            if inode.placement.is_none() {
                inode.placement = Some(placement);
                inode.layout = None;
                inode.stuffed = inode.stuffed && !stuffed::is_all_hole(tx, &inode)?;
                tx.put_inode(&inode);
            }
            Ok(inode)
        })
    }

    /// Lets the data servers of so many turns of a placed file have objects, at most all; never
    /// fewer than before. That is no change of the file.
    ///
    /// **Errors.** Stale; Invalid if it has no place.
    pub fn reach(&self, ino: InodeNo, reach: u16) -> Seen<Result<Inode, StoreError>> {
        self.run(|tx| {
            let mut inode = file(tx, ino)?;
            let placement = inode.placement.as_mut().ok_or(StoreError::Invalid)?;
            let reach = reach.min(placement.turns());
            if placement.reach < reach {
                placement.reach = reach;
                tx.put_inode(&inode);
            }
            Ok(inode)
        })
    }

    /// Notes that the copies of a replicated file may differ from now on; whether they were alike
    /// before. That is no change of the file.
    ///
    /// **Errors.** Stale; Invalid if it is not replicated.
    pub fn copies_may_differ(&self, ino: InodeNo) -> Seen<Result<(Inode, bool), StoreError>> {
        self.run(|tx| are_alike(tx, ino, false))
    }

    /// Notes that they have the same bytes, durably, and are so long, by stripe index. That is no
    /// change of the file.
    ///
    /// **Errors.** Those of [`Volume::copies_may_differ`].
    pub fn copies_are_alike(
        &self,
        ino: InodeNo,
        lengths: &[u64],
    ) -> Seen<Result<Inode, StoreError>> {
        self.run(|tx| {
            let (mut inode, _) = are_alike(tx, ino, true)?;
            raise_bounds(tx, &mut inode, lengths);
            Ok(inode)
        })
    }

    /// Notes that from now on the truth about size and mtime is on the data servers.
    ///
    /// **Errors.** Stale; Invalid if it is not a regular file.
    pub fn mark_unsettled(&self, ino: InodeNo) -> Seen<Result<Inode, StoreError>> {
        self.run(|tx| {
            let mut inode = file(tx, ino)?;
            if !inode.unsettled {
                inode.unsettled = true;
                inode.occupied = None;
                tx.put_inode(&inode);
            }
            Ok(inode)
        })
    }

    /// Notes that handles of the file for its data servers are given out, to write with or only to
    /// read. With the first to write from now on the truth about size and mtime is there. If
    /// `renewed`, nobody who was given such handles before may write any more: the new ones are of
    /// a later epoch, as by [`Volume::renew_epoch`].
    ///
    /// **Errors.** Those of [`Volume::mark_unsettled`] and [`Volume::renew_epoch`].
    pub fn give_handles(
        &self,
        ino: InodeNo,
        write: bool,
        renewed: bool,
    ) -> Seen<Result<Inode, StoreError>> {
        self.run(|tx| {
            let before = file(tx, ino)?;
            let mut inode = before.clone();
            if renewed && write && inode.handles.write {
                advance(&mut inode, fence_epoch::next)?;
            }
            inode.handles.read = true;
            inode.handles.write |= write;
            inode.unsettled |= write;
            inode.occupied = inode.occupied.filter(|_| !write);
            if inode != before {
                tx.put_inode(&inode);
            }
            Ok(inode)
        })
    }

    /// All handles of the file that were given out are to end. The file as it is then, and the
    /// same as before if there are none, or if that was said.
    ///
    /// **Errors.** Stale; Invalid (not a regular file); TooBig as [`Volume::bump_epoch`].
    pub fn end_handles(&self, ino: InodeNo) -> Seen<Result<Inode, StoreError>> {
        self.run(|tx| {
            let before = file(tx, ino)?;
            let mut inode = before.clone();
            owe_end(&mut inode)?;
            if inode != before {
                tx.put_inode(&inode);
            }
            Ok(inode)
        })
    }

    /// All data servers of a file refuse handles from before the fence of this epoch, if there was
    /// no other since.
    ///
    /// **Errors.** Stale; Invalid (not a regular file).
    pub fn handles_ended(&self, ino: InodeNo, before: u32) -> Seen<Result<(), StoreError>> {
        self.run(|tx| {
            let mut inode = file(tx, ino)?;
            if inode.handles.earlier && fence_epoch::fence_of(inode.fence_epoch) <= before {
                (inode.handles.earlier, inode.handles.owed) = (false, false);
                tx.put_inode(&inode);
            }
            Ok(())
        })
    }

    /// Takes in what was learned of size and mtime. The change attribute advances if anything a
    /// client can see changed, or the data did.
    ///
    /// **Errors.** Stale; Invalid (not a regular file, a time with too many nanoseconds); TooBig.
    pub fn settle(
        &self,
        ino: InodeNo,
        learned: &Settle,
        now: Timestamp,
    ) -> Seen<Result<Inode, StoreError>> {
        self.run(|tx| settle(tx, ino, learned, now))
    }

    /// Notes what the objects of a file occupy, bytes, unless it was changed since its change
    /// attribute had this value. That is no change of the file.
    ///
    /// **Errors.** Stale; Invalid if it is not a regular file.
    pub fn occupies(
        &self,
        ino: InodeNo,
        change: u64,
        bytes: u64,
    ) -> Seen<Result<Inode, StoreError>> {
        self.run(|tx| {
            let mut inode = file(tx, ino)?;
            if inode.occupies_unknown() && inode.change == change {
                inode.occupied = Some(bytes);
                tx.put_inode(&inode);
            }
            Ok(inode)
        })
    }

    /// [`Volume::settle`], and the objects of the file were found to be so long, durably, by stripe
    /// index: from now on one that is shorter has lost something.
    ///
    /// **Errors.** Those of [`Volume::settle`].
    pub fn settle_lengths(
        &self,
        ino: InodeNo,
        learned: &Settle,
        lengths: &[u64],
        now: Timestamp,
    ) -> Seen<Result<Inode, StoreError>> {
        self.run(|tx| {
            let mut inode = settle(tx, ino, learned, now)?;
            raise_bounds(tx, &mut inode, lengths);
            Ok(inode)
        })
    }

    /// Advances the epoch of a file beyond a fence, so that handles given out before can be
    /// refused.
    ///
    /// **Errors.** Stale; Invalid (not a regular file); TooBig when the epochs are used up, the
    /// last one being reserved for objects that are gone.
    pub fn bump_epoch(&self, ino: InodeNo) -> Seen<Result<u32, StoreError>> {
        self.advance_epoch(ino, fence_epoch::next_fence)
    }

    /// Advances the epoch of a file so that with handles given out before can be read, and not
    /// written.
    ///
    /// **Errors.** As [`Volume::bump_epoch`].
    pub fn renew_epoch(&self, ino: InodeNo) -> Seen<Result<u32, StoreError>> {
        self.advance_epoch(ino, fence_epoch::next)
    }

    fn advance_epoch(
        &self,
        ino: InodeNo,
        next: fn(u32) -> Option<u32>,
    ) -> Seen<Result<u32, StoreError>> {
        self.run(|tx| {
            let mut inode = file(tx, ino)?;
            advance(&mut inode, next)?;
            tx.put_inode(&inode);
            Ok(inode.fence_epoch)
        })
    }
}

/// All handles that were given out are to end: from here on they are of an earlier epoch, and a
/// start finds the file, if data servers could not be told before. Nothing without any.
pub(super) fn owe_end(inode: &mut Inode) -> Result<(), StoreError> {
    if inode.handles.are_new() {
        advance(inode, fence_epoch::next_fence)?;
    }
    inode.handles.owed = inode.handles.earlier;
    Ok(())
}

/// On to the `next` epoch, or the next of a fence.
fn advance(inode: &mut Inode, next: fn(u32) -> Option<u32>) -> Result<(), StoreError> {
    inode.raise_epoch(next(inode.fence_epoch).ok_or(StoreError::TooBig)?);
    Ok(())
}

/// The copies of a replicated file are alike or not; whether they were before.
fn are_alike(tx: &mut Tx<'_>, ino: InodeNo, are: bool) -> Result<(Inode, bool), StoreError> {
    let mut inode = file(tx, ino)?;
    let placement = inode.placement.as_mut().ok_or(StoreError::Invalid)?;
    let Spread::Copies { alike } = &mut placement.spread else { return Err(StoreError::Invalid) };
    let were = std::mem::replace(alike, are);
    if were != are {
        tx.put_inode(&inode);
    }
    Ok((inode, were))
}

fn settle(
    tx: &mut Tx<'_>,
    ino: InodeNo,
    learned: &Settle,
    now: Timestamp,
) -> Result<Inode, StoreError> {
    let before = file(tx, ino)?;
    let mut inode = before.clone();
    inode.size = match learned.size {
        SettleSize::AtLeast(size) => inode.size.max(size),
        SettleSize::Exactly(size) => size,
    };
    check::size(inode.size)?;
    if let Some(mtime) = learned.mtime {
        check::time(mtime)?;
        inode.mtime = mtime;
    }
    inode.mode = learned.set_id_loss.of(inode.mode);
    if learned.touched || inode != before {
        touch(&mut inode, now);
        inode.occupied = None;
    }
    inode.unsettled &= !learned.settled;
    if learned.settled && inode.is_settled_in_objects() {
        inode.occupied = learned.occupied.or(inode.occupied);
    }
    if inode != before {
        tx.put_inode(&inode);
    }
    Ok(inode)
}

fn file(tx: &mut Tx<'_>, ino: InodeNo) -> Result<Inode, StoreError> {
    let inode = tx.inode(ino)?;
    if inode.kind == Kind::File { Ok(inode) } else { Err(StoreError::Invalid) }
}
