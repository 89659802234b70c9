//! Copying between two files whose bytes lie on the same data servers, all of them or some: each
//! copies its own, or makes them the same blocks.

use std::{collections::BTreeMap, sync::Arc};

use weft_control::codec::{CopyArgs, CopyOk, Procedure};
use weft_nfs::{StableHow, Verifier};
use weft_stripe::Piece;

use super::{
    cluster::DataServers, each, error::DataServerError, gather::Written, objects::name,
    server::Server,
};
use crate::striped::Striped;

/// Bytes of one object that one request copies at most: a fraction of a second, in which the
/// object cannot be fenced.
const COPY_BYTES_MAX: u64 = 64 << 20;
/// Bytes of one object that one request shares at most: no byte is copied for it, but the source's
/// that are not on the disk yet are written first, and each of its pieces there costs a little.
const SHARE_BYTES_MAX: u64 = 256 << 20;
/// Bytes of a file that are looked at at once for pieces on one data server.
const PIECES_BYTES_MAX: u64 = 64 << 20;

/// A range of one file and its place in another, or in the same one.
#[derive(Debug, Clone, Copy)]
pub struct Between<'a> {
    /// From where.
    pub source: &'a Striped,
    /// First byte there.
    pub from: u64,
    /// To where.
    pub destination: &'a Striped,
    /// First byte there.
    pub to: u64,
    /// Bytes.
    pub len: u64,
}

/// What data servers made of a range piece by piece.
#[derive(Debug)]
pub struct Shared {
    /// To be compared with that of [`DataServers::commit`] of the destination.
    pub verifier: Verifier,
    /// What is still to be copied, since its bytes lie on two data servers, or on one that cannot
    /// share them: offsets from the beginning of the range, and lengths, in order.
    pub apart: Vec<(u64, u64)>,
}

/// Pieces that lie on one data server on both sides, by its index in the destination.
type ByIndex = BTreeMap<usize, Vec<Piece>>;

/// What one data server made of its pieces, with its index, and those that it cannot share.
type Told = Result<((usize, Written), Vec<Piece>), DataServerError>;

impl<'a> Between<'a> {
    /// Whether each data server has all of its bytes on both sides ([`Striped::lines_up`]).
    pub fn lines_up(&self) -> bool {
        self.source.lines_up(self.from, self.destination, self.to)
    }

    /// As much of it as one [`DataServers::copy`] may be asked for.
    pub fn to_copy(self) -> Between<'a> {
        self.at_most(COPY_BYTES_MAX.saturating_mul(self.destination.data_servers.len() as u64))
    }

    /// As much of it as one [`DataServers::share`] may be asked for.
    pub fn to_share(self) -> Between<'a> {
        self.at_most(SHARE_BYTES_MAX.saturating_mul(self.destination.data_servers.len() as u64))
    }

    /// As much of it as one [`DataServers::share_pieces`] may be asked for.
    pub fn to_cut(self) -> Between<'a> {
        self.at_most(PIECES_BYTES_MAX)
    }

    fn at_most(self, max: u64) -> Between<'a> {
        Between { len: self.len.min(max), ..self }
    }

    fn args(&self, at: u64, len: u64) -> CopyArgs {
        CopyArgs {
            source: name(self.source),
            destination: name(self.destination),
            epoch: self.destination.fence_epoch,
            from: self.from + at,
            to: self.to + at,
            len,
        }
    }
}

impl DataServers {
    /// Whether blocks can be shared on any of the data servers; `None` if none says yes, and one
    /// that is away never told.
    pub async fn share_blocks(&self) -> Option<bool> {
        let all = self.all();
        if all.values().any(|server| server.known_to_share() == Some(true)) {
            return Some(true);
        }
        let asked = all.values().cloned().map(|s| async move { s.shares_blocks().await });
        let told = each::all(asked).await;
        let is_known = told.iter().all(Option::is_some);
        match told.contains(&Some(true)) {
            false if !is_known => None,
            some => Some(some),
        }
    }

    /// Copies a range to a file that lines up, and reaches so far, holes as holes. The verifier is
    /// to be compared with that of [`Self::commit`] of the destination.
    ///
    /// **Cost**: one message to each data server, no data.
    ///
    /// # Errors
    /// [`DataServerError`]; some of it may be copied. One that was given up may still be carried
    /// out, until the destination is fenced.
    pub async fn copy(&self, range: Between<'_>) -> Result<Verifier, DataServerError> {
        self.on_pairs(Procedure::COPY, range).await
    }

    /// Makes a range of a file that lines up the same blocks, on every data server. The rest is as
    /// with [`Self::copy`].
    ///
    /// # Errors
    /// [`DataServerError`]: `Unsupported` or `Unaligned` where blocks cannot be shared. Some data
    /// servers may have done it.
    pub async fn share(&self, range: Between<'_>) -> Result<Verifier, DataServerError> {
        self.on_pairs(Procedure::CLONE, range).await
    }

    /// Makes those pieces of a range the same blocks that lie on one data server on both sides,
    /// and can be shared there; the others are not touched.
    ///
    /// **Cost**: one message for each piece, and to all data servers at once.
    ///
    /// # Errors
    /// [`DataServerError`]; some of them may be shared. One that was given up may still be carried
    /// out, until the destination is fenced.
    pub async fn share_pieces(&self, range: Between<'_>) -> Result<Shared, DataServerError> {
        let (mut together, mut apart) = self.cut(range)?;
        let mut jobs = Vec::with_capacity(together.len());
        while let Some((index, pieces)) = together.pop_first() {
            let id = range.destination.data_servers.get(index);
            let server = self.server(*id.ok_or_else(|| self.damaged(range.destination))?)?;
            let asked = pieces.into_iter().map(|p| (p, range.args(p.at, p.len)));
            jobs.push(share_on(server, index, asked.collect()));
        }
        let told: Vec<_> = each::all_done(each::all(jobs).await)?;
        let mut done = Vec::with_capacity(told.len());
        for (written, refused) in told {
            done.push(written);
            apart.extend(refused);
        }
        let verifier = self.verifier_of(range.destination, &done).await?;
        Ok(Shared { verifier, apart: runs(apart) })
    }

    /// The pieces of a range: those on one data server, and the others. What is copied on one side
    /// is never on one only.
    fn cut(&self, range: Between<'_>) -> Result<(ByIndex, Vec<Piece>), DataServerError> {
        let Between { source, from, destination, to, len } = range;
        let rule = source.distribution().map_err(|_| self.damaged(source))?;
        let other = destination.distribution().map_err(|_| self.damaged(destination))?;
        let (mut together, mut apart) = (ByIndex::new(), Vec::new());
        for piece in rule.pieces(from, (&other, to), len) {
            let index = piece.there.stripe_index as usize;
            let here = source.data_servers.get(piece.here.stripe_index as usize);
            let is_one = !source.is_copied() && !destination.is_copied();
            match is_one && here == destination.data_servers.get(index) {
                true => together.entry(index).or_default().push(piece),
                false => apart.push(piece),
            }
        }
        Ok((together, apart))
    }

    /// Asks every data server about the range of its own pair of objects.
    async fn on_pairs(
        &self,
        procedure: Procedure,
        range: Between<'_>,
    ) -> Result<Verifier, DataServerError> {
        let args = range.args(0, range.len);
        // A source without an object is a hole, also to those that have one of the destination.
        let answers = self.on_all(range.destination, |server, _, _| async move {
            asked(&server, procedure, &args).await
        });
        self.with_those_without(range.destination, answers.await?).await
    }
}

/// The write verifier of a copy on one data server.
async fn asked(
    server: &Server,
    procedure: Procedure,
    args: &CopyArgs,
) -> Result<[u8; 8], DataServerError> {
    let CopyOk { verifier } = server.ask(procedure, args).await?;
    server.told_verifier(verifier);
    Ok(verifier)
}

/// Has pieces shared on one data server, one after another.
async fn share_on(server: Arc<Server>, index: usize, pieces: Vec<(Piece, CopyArgs)>) -> Told {
    let (mut verifiers, mut refused) = (Vec::new(), Vec::new());
    for (piece, args) in pieces {
        match asked(&server, Procedure::CLONE, &args).await {
            Ok(verifier) => verifiers.push(verifier),
            Err(DataServerError::Unsupported { .. } | DataServerError::Unaligned { .. }) => {
                refused.push(piece);
            }
            Err(e) => return Err(e),
        }
    }
    Ok(((index, Written { verifiers, committed: StableHow::UNSTABLE }), refused))
}

/// Pieces in order, those that touch as one.
fn runs(mut pieces: Vec<Piece>) -> Vec<(u64, u64)> {
    pieces.sort_by_key(|p| p.at);
    let mut runs: Vec<(u64, u64)> = Vec::new();
    for Piece { at, len, .. } in pieces {
        match runs.last_mut() {
            Some((from, so_far)) if *from + *so_far == at => *so_far += len,
            _ => runs.push((at, len)),
        }
    }
    runs
}
