//! Data, holes and space of files: what RFC 7862 §15.1, §15.4 and §15.11 ask of the data servers.

use std::{future::Future, sync::Arc};

use weft_control::codec::{
    AllocateArgs, Nothing, ObjectName, Procedure, PunchArgs, SeekArgs, SeekOk, SpaceOk, StripeName,
};
use weft_store::{objects::Sought, types::Content};

use super::{
    cluster::DataServers,
    each,
    error::DataServerError,
    objects::{name, not_short},
    search::{Merged, merge},
    server::Server,
    space::{self, Wanted},
};
use crate::striped::Striped;

/// Stripe units of one object that one request reserves.
const ALLOCATE_UNITS_MAX: u64 = 1024;

impl DataServers {
    /// Looks for data or a hole in a file, from `from` to `end`; `None` if there is none. Of copies
    /// one is asked, as with [`DataServers::read`].
    ///
    /// **Cost**: one message to each data server of the file, and another for every thousand
    /// stripe units without a hole.
    ///
    /// # Errors
    /// [`DataServerError`]; Lost if one of the objects is shorter than it must be.
    pub async fn seek(
        &self,
        file: &Striped,
        what: Content,
        from: u64,
        end: u64,
    ) -> Result<Option<u64>, DataServerError> {
        if !file.is_copied() {
            return self.seek_in(file, what, (from, end), |_| true).await;
        }
        let in_copy = |copy: u16| {
            self.seek_in(file, what, (from, end), move |index| index == usize::from(copy))
        };
        self.of_one_copy(file, from, in_copy).await
    }

    /// The same in some of the objects: of copies what the nearest of those tells.
    pub(super) async fn seek_in(
        &self,
        file: &Striped,
        what: Content,
        (from, end): (u64, u64),
        asked: impl Fn(usize) -> bool,
    ) -> Result<Option<u64>, DataServerError> {
        let mut from = from;
        loop {
            let hole = what == Content::Hole;
            let told = self.on_those(file, &asked, |server, object, stripe| async move {
                let args = SeekArgs { object, stripe, hole, from, end };
                server.ask::<SeekOk>(Procedure::SEEK, &args).await
            });
            let told = told.await?;
            let places = file.holders().filter(|(index, _)| asked(*index));
            for (place, told) in places.zip(&told) {
                not_short(file, place, told.size)?;
            }
            let elsewhere = if hole { self.first_without_object(file, from)? } else { None };
            let sought = told.iter().map(|told| match told.found {
                true => Sought::At(told.at),
                false => Sought::NotBefore(told.at),
            });
            let sought = sought.chain(elsewhere.filter(|at| *at < end).map(Sought::At));
            match merge(sought, end) {
                Merged::Found(at) => return Ok(Some(at)),
                Merged::Nothing => return Ok(None),
                Merged::GoOn(at) if at > from => from = at,
                Merged::GoOn(_) => return Err(self.damaged(file)),
            }
        }
    }

    /// The first byte from an offset on whose data server has no object.
    fn first_without_object(
        &self,
        file: &Striped,
        from: u64,
    ) -> Result<Option<u64>, DataServerError> {
        let rule = file.distribution().map_err(|_| self.damaged(file))?;
        let others = (0..rule.stripe_count()).filter(|index| !file.holds(*index as usize));
        Ok(others.filter_map(|index| rule.next_own_run(index, from)).map(|run| run.0).min())
    }

    /// Makes a hole in a file, durably.
    ///
    /// **Cost**: one message to each data server that has bytes of the range.
    ///
    /// # Errors
    /// [`DataServerError`]; some of the data may be gone. One that was given up may still be
    /// carried out, until the file is fenced.
    pub async fn punch(
        &self,
        file: &Striped,
        offset: u64,
        len: u64,
    ) -> Result<(), DataServerError> {
        let epoch = file.fence_epoch;
        let _turn = self.turns.hold_copies(file, offset, len).await;
        // The units of others are holes in an object already: one request for the whole range.
        let shares = self.shares(file, (offset, offset.saturating_add(len)))?;
        let punched = self.on_those(file, has_some(&shares), |server, object, _| async move {
            let args = PunchArgs { object, epoch, offset, len };
            server.ask::<Nothing>(Procedure::PUNCH, &args).await
        });
        punched.await.map(drop)
    }

    /// Reserves space for a range of a file that reaches so far, durably. Sizes stay.
    ///
    /// # Errors
    /// [`DataServerError`]; some of it may be reserved. What plainly does not fit is refused
    /// before anything is.
    pub async fn allocate(
        &self,
        file: &Striped,
        offset: u64,
        end: u64,
    ) -> Result<(), DataServerError> {
        let shares = self.shares(file, (offset, end))?;
        let bytes = end.saturating_sub(offset);
        // Of a part of a unit one data server can tell by itself.
        let has_one = shares.iter().filter(|share| **share > 0).count() == 1;
        let is_alone = has_one && bytes <= u64::from(file.stripe_unit_bytes);
        if !is_alone {
            self.has_room(file, &shares).await?;
        }
        let epoch = file.fence_epoch;
        // Of copies each has all units.
        let objects = if file.is_copied() { 1 } else { file.data_servers.len() as u64 };
        let step = u64::from(file.stripe_unit_bytes)
            .saturating_mul(objects)
            .saturating_mul(ALLOCATE_UNITS_MAX);
        let mut from = offset;
        while from < end {
            let until = from.saturating_add(step).min(end);
            let shares = self.shares(file, (from, until))?;
            let reserved =
                self.on_those(file, has_some(&shares), |server, object, stripe| async move {
                    let args = AllocateArgs { object, epoch, stripe, offset: from, end: until };
                    server.ask::<Nothing>(Procedure::ALLOCATE, &args).await
                });
            reserved.await?;
            from = until;
        }
        Ok(())
    }

    /// Whether each data server has, or has in use for the file already, its share of a range.
    async fn has_room(&self, file: &Striped, shares: &[u64]) -> Result<(), DataServerError> {
        let told = self.on_those(file, has_some(shares), |server, object, _| async move {
            let space: SpaceOk = server.ask(Procedure::SPACE, &Nothing).await?;
            let used = server.stat(&[object]).await?;
            Ok((server.id, space, used.iter().map(|o| o.blocks_bytes).sum::<u64>()))
        });
        let told = told.await?;
        let shares = shares.iter().filter(|share| **share > 0);
        let wanted = shares.zip(told).map(|(share, (id, space, used))| {
            let more = share.saturating_sub(used);
            Wanted { id, space, more }
        });
        let wanted: Vec<_> = wanted.collect();
        space::have_room(&wanted).map_err(|id| DataServerError::NoSpace { id })
    }

    /// How many bytes of a range are on each data server, in stripe order.
    fn shares(&self, file: &Striped, (from, end): (u64, u64)) -> Result<Vec<u64>, DataServerError> {
        let rule = file.distribution().map_err(|_| self.damaged(file))?;
        Ok((0..rule.stripe_count()).map(|index| rule.bytes_between(index, from, end)).collect())
    }

    /// Asks all data servers at once that may have an object of a file; what they said, in stripe
    /// order.
    pub(super) async fn on_all<T, F>(
        &self,
        file: &Striped,
        ask: impl Fn(Arc<Server>, ObjectName, StripeName) -> F,
    ) -> Result<Vec<T>, DataServerError>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, DataServerError>> + Send + 'static,
    {
        self.on_those(file, |_| true, ask).await
    }

    /// The same of some of these, by their stripe indices.
    async fn on_those<T, F>(
        &self,
        file: &Striped,
        concerned: impl Fn(usize) -> bool,
        ask: impl Fn(Arc<Server>, ObjectName, StripeName) -> F,
    ) -> Result<Vec<T>, DataServerError>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, DataServerError>> + Send + 'static,
    {
        let mut jobs = Vec::new();
        for (index, id) in file.holders().filter(|(index, _)| concerned(*index)) {
            let index = u16::try_from(index).map_err(|_| self.damaged(file))?;
            jobs.push(ask(self.server(id)?, name(file), file.stripe_name(index)));
        }
        each::all_done(each::all(jobs).await)
    }
}

/// Whether a data server has a share of a range, by its stripe index.
fn has_some(shares: &[u64]) -> impl Fn(usize) -> bool {
    |index| shares.get(index).is_some_and(|share| *share > 0)
}
