//! Data and holes of sparse objects: finding them, making holes, reserving space. RFC 7862 §15.1,
//! §15.4, §15.11; the file system below does the work (`lseek`, `fallocate`).

use std::fs::File;

use rustix::fs::{FallocateFlags, fallocate};
use weft_stripe::Distribution;

use super::{
    error::{ObjectError, io},
    object_id::ObjectId,
    sparse_file::{OBJECT_BYTES_MAX, next_data, next_hole, punch_hole},
    store::ObjectStore,
};
use crate::types::Content;

/// Runs of an object's own bytes that one search for a hole looks at.
const SEEK_RUNS_MAX: usize = 1024;

/// Which bytes of a sparse object are the file's: the units of one stripe index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stripe {
    /// How the file is spread.
    pub rule: Distribution,
    /// Which part of it the object is.
    pub index: u32,
}

impl Stripe {
    /// The runs of own bytes in a range: start and end of each.
    pub(super) fn runs(self, from: u64, end: u64) -> impl Iterator<Item = (u64, u64)> {
        let mut at = from;
        std::iter::from_fn(move || {
            let (start, run_end) = self.rule.next_own_run(self.index, at)?;
            at = run_end;
            (start < end).then(|| (start, run_end.min(end)))
        })
    }
}

/// How far a search came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sought {
    /// It is there.
    At(u64),
    /// There is none among the own bytes below.
    NotBefore(u64),
}

impl ObjectStore {
    /// Looks for data or a hole among an object's own bytes from `from` to `end`. A missing
    /// object, and everything behind the local end, is a hole. One call looks at so much and no
    /// more; where it stopped it says.
    ///
    /// # Errors
    /// What the disk says.
    pub fn seek(
        &self,
        id: ObjectId,
        stripe: Stripe,
        what: Content,
        from: u64,
        end: u64,
    ) -> Result<Sought, ObjectError> {
        let file = self.object(id).file(&self.dir)?;
        match (what, &file) {
            (Content::Data, None) => Ok(Sought::NotBefore(end)),
            (Content::Data, Some(file)) => own_data(file, stripe, from, end),
            (Content::Hole, file) => own_hole(file.as_deref(), stripe, from, end),
        }
    }

    /// Makes a hole: the bytes read as zeros from now on, durably. The object's local size stays.
    /// A missing object has nothing to lose.
    ///
    /// # Errors
    /// [`ObjectError::Stale`] for an old epoch, [`ObjectError::Unsupported`] if the file system
    /// below cannot, otherwise what the disk says.
    pub fn punch(
        &self,
        id: ObjectId,
        epoch: u32,
        offset: u64,
        len: u64,
    ) -> Result<(), ObjectError> {
        self.begin(id, epoch)?;
        let object = self.object(id);
        let epoch_lock = object.epoch_shared();
        epoch_lock.admit(epoch)?;
        let Some(file) = object.file(&self.dir)? else { return Ok(()) };
        let punched = punch_hole(&file, offset, len);
        object.wrote();
        drop(epoch_lock);
        punched?;
        self.sync(&object)
    }

    /// Reserves space for the object's own bytes in a range, durably; the local size stays.
    ///
    /// # Errors
    /// As [`Self::punch`]; and [`ObjectError::NoSpace`], when some may be reserved.
    pub fn allocate(
        &self,
        id: ObjectId,
        epoch: u32,
        stripe: Stripe,
        offset: u64,
        end: u64,
    ) -> Result<(), ObjectError> {
        if end > OBJECT_BYTES_MAX {
            return Err(ObjectError::TooBig);
        }
        self.begin(id, epoch)?;
        let object = self.object(id);
        let epoch_lock = object.epoch_shared();
        epoch_lock.admit(epoch)?;
        if stripe.runs(offset, end).next().is_none() {
            return Ok(());
        }
        self.room.admit_new(stripe.runs(offset, end).map(|(start, end)| end - start).sum())?;
        let file = object.file_or_create(&self.dir)?;
        let reserved = stripe.runs(offset, end).try_for_each(|(start, end)| {
            let reserved = fallocate(&*file, FallocateFlags::KEEP_SIZE, start, end - start);
            reserved.map_err(io("reserve space"))
        });
        object.wrote();
        drop(epoch_lock);
        reserved?;
        self.sync(&object)
    }
}

fn own_data(file: &File, stripe: Stripe, from: u64, end: u64) -> Result<Sought, ObjectError> {
    let mut at = from;
    for _ in 0..SEEK_RUNS_MAX {
        let data = next_data(file, at)?.filter(|data| *data < end);
        let own = data.and_then(|data| stripe.runs(data, end).next());
        match (data, own) {
            (Some(data), Some((start, _))) if start == data => return Ok(Sought::At(data)),
            // Something in another's unit: nobody can have written it through us.
            (Some(_), Some((start, _))) => at = start,
            _ => return Ok(Sought::NotBefore(end)),
        }
    }
    Ok(Sought::NotBefore(at))
}

fn own_hole(
    file: Option<&File>,
    stripe: Stripe,
    from: u64,
    end: u64,
) -> Result<Sought, ObjectError> {
    let mut at = from;
    for (start, run_end) in stripe.runs(from, end).take(SEEK_RUNS_MAX) {
        let hole = file.map_or(Ok(start), |file| next_hole(file, start))?;
        if hole < run_end {
            return Ok(Sought::At(hole));
        }
        at = run_end;
    }
    let more = stripe.runs(at, end).next().is_some();
    Ok(Sought::NotBefore(if more { at } else { end }))
}
