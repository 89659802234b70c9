//! What operations read from the engine: always without the volume's lock, since the engine may
//! have to wait for the disk, and an operation that finds all it needs in memory shall not wait
//! with them.

use std::collections::HashMap;
use std::ops::ControlFlow;

use bytes::Bytes;

use super::{codec, keys};
use crate::engine::{Engine, EngineError, KeyRange, Visit};
use crate::types::InodeNo;

/// Pairs of a range that are read at first: the entries of one part of a listing.
const PAIRS_FIRST: usize = 64;
/// Directories above a directory that are read at once.
const ANCESTORS_MAX: usize = 1024;

/// What an operation needs and is not in memory.
#[derive(Debug)]
pub(super) enum Missing {
    /// The records of these keys.
    Records(Vec<Bytes>),
    /// An inode, and those above it.
    Ancestors(InodeNo),
    /// The first, or the next, pairs of a range.
    Pairs {
        /// First key of the range.
        from: Bytes,
        /// First key behind the range.
        until: Option<Bytes>,
    },
}

/// What one operation has read so far. It may be older than what the volume says by now: see
/// [`super::readers::Readers`].
#[derive(Debug, Default)]
pub(super) struct Fetched {
    records: HashMap<Bytes, Option<Bytes>>,
    ranges: Vec<Pairs>,
}

/// The first pairs of a range.
#[derive(Debug)]
pub(super) struct Pairs {
    from: Bytes,
    until: Option<Bytes>,
    pairs: Vec<(Bytes, Bytes)>,
    /// There are no others.
    complete: bool,
}

impl Fetched {
    /// The record of a key, if it was read.
    pub(super) fn record(&self, key: &[u8]) -> Option<&Option<Bytes>> {
        self.records.get(key)
    }

    /// What was read of a range.
    pub(super) fn pairs(&self, range: KeyRange<'_>) -> Option<&Pairs> {
        self.ranges.iter().find(|r| r.from == range.from && r.until.as_deref() == range.until)
    }

    /// Reads what is missing.
    pub(super) fn read(
        &mut self,
        engine: &dyn Engine,
        missing: Missing,
    ) -> Result<(), EngineError> {
        match missing {
            Missing::Records(keys) => keys.into_iter().try_for_each(|key| {
                let value = engine.get(&key)?;
                self.records.insert(key, value);
                Ok(())
            }),
            Missing::Ancestors(ino) => self.read_ancestors(engine, ino),
            Missing::Pairs { from, until } => self.read_pairs(engine, from, until),
        }
    }

    fn read_ancestors(&mut self, engine: &dyn Engine, ino: InodeNo) -> Result<(), EngineError> {
        let mut next = Some(ino);
        for _ in 0..ANCESTORS_MAX {
            let Some(ino) = next else { break };
            let key = keys::inode(ino);
            if self.records.contains_key(&key) {
                break;
            }
            let value = engine.get(&key)?;
            // A record that cannot be decoded is for the operation to refuse.
            let inode = value.as_ref().and_then(|raw| codec::decode_inode(ino, raw).ok());
            next = inode.map(|inode| inode.parent);
            self.records.insert(key, value);
        }
        Ok(())
    }

    fn read_pairs(
        &mut self,
        engine: &dyn Engine,
        from: Bytes,
        until: Option<Bytes>,
    ) -> Result<(), EngineError> {
        let known = self.ranges.iter().position(|r| r.from == from && r.until == until);
        let at = known.unwrap_or_else(|| {
            let pairs = Vec::new();
            self.ranges.push(Pairs { from, until, pairs, complete: false });
            self.ranges.len() - 1
        });
        self.ranges.get_mut(at).map_or(Ok(()), |range| range.read_on(engine))
    }
}

impl Pairs {
    fn read_on(&mut self, engine: &dyn Engine) -> Result<(), EngineError> {
        let wanted = match self.pairs.len() {
            0 => PAIRS_FIRST,
            // Four times as many each time: all is visited again each time.
            known => known * 3,
        };
        let last = self.pairs.last().map(|(key, _)| key.clone());
        let (mut read, mut more) = (0, false);
        let from = last.as_ref().unwrap_or(&self.from).clone();
        engine.scan(
            KeyRange { from: &from, until: self.until.as_deref() },
            &mut |key, value| {
                if last.as_deref() == Some(key) {
                    return ControlFlow::Continue(());
                }
                if read == wanted {
                    more = true;
                    return ControlFlow::Break(());
                }
                read += 1;
                self.pairs.push((Bytes::copy_from_slice(key), Bytes::copy_from_slice(value)));
                ControlFlow::Continue(())
            },
        )?;
        self.complete = !more;
        Ok(())
    }

    /// First key behind what is known; `None` if all is known that is in the range.
    pub(super) fn known_until(&self) -> Option<Bytes> {
        let last = self.pairs.last().filter(|_| !self.complete)?;
        Some(keys::successor(&last.0))
    }

    /// Visits what is known, in order.
    pub(super) fn scan(&self, visit: &mut Visit<'_>) {
        for (key, value) in &self.pairs {
            if visit(key, value).is_break() {
                break;
            }
        }
    }
}
