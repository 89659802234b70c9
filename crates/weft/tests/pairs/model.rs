//! What a file is after each act, by the rules of a local disk: pure.

use std::fmt::Display;

use super::ops::Op;
use super::pattern::{crcs, pattern};

/// One name and what it stands for.
#[derive(Clone, Debug, Default)]
pub struct Model {
    pub file: Option<State>,
}

/// A file.
#[derive(Clone, Debug, Default)]
pub struct State {
    pub bytes: Vec<u8>,
    /// Unless whoever made it chose it himself.
    pub mode: Option<u32>,
    /// Seconds, if they were set and nothing was written since.
    pub mtime: Option<u64>,
}

/// What a reader was told of a file.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Seen {
    pub size: u64,
    /// Where the hand can tell.
    pub mode: Option<u32>,
    pub mtime: Option<u64>,
    pub crcs: Vec<u32>,
    /// Bytes that came until the end of file.
    pub came: u64,
}

impl Seen {
    /// From the words of a hand: SIZE MODE MTIME CRC,… = CAME.
    pub fn parse(text: &str) -> Option<Seen> {
        let mut words = text.split_whitespace();
        let size = words.next()?.parse().ok()?;
        let mode = u32::from_str_radix(words.next()?, 8).ok();
        let mtime = words.next()?.parse().ok();
        let mut next = words.next()?;
        let mut crcs = Vec::new();
        if next != "=" {
            for one in next.split_terminator(',') {
                crcs.push(u32::from_str_radix(one, 16).ok()?);
            }
            next = words.next()?;
        }
        let came = if next == "=" { words.next()?.parse().ok()? } else { return None };
        Some(Seen { size, mode, mtime, crcs, came })
    }
}

impl Model {
    /// What these acts of one hand make of the file `name`; acts on other names count only once
    /// they are given this one.
    pub fn apply(&mut self, name: &str, ops: &[Op]) {
        let mut open: Option<(bool, State)> = None; // whether it is the file of the name
        let mut beside = State::default();
        for op in ops {
            match op {
                Op::Open { flags, mode, name: opened } => {
                    let is_it = opened == name;
                    let was = if is_it { self.file.clone() } else { None };
                    let mut state = was.unwrap_or(State { mode: Some(*mode), ..State::default() });
                    if flags.contains('t') {
                        state.write(|bytes| bytes.clear());
                    }
                    open = Some((is_it, state));
                }
                Op::Put { len, seed, name: put } => {
                    let old = if put == name { self.file.take() } else { None };
                    let mode = old.and_then(|old| old.mode);
                    let state = State { bytes: pattern(*seed, *len), mode, mtime: None };
                    if put == name { self.file = Some(state) } else { beside = state }
                }
                Op::Cp { .. } | Op::CopyFrom { .. } => match &mut open {
                    Some((_, state)) => state.write(|bytes| bytes.clone_from(&beside.bytes)),
                    None => {
                        let bytes = beside.bytes.clone();
                        self.file = Some(State { bytes, ..State::default() });
                    }
                },
                Op::Close => match open.take() {
                    Some((true, state)) => self.file = Some(state),
                    Some((false, state)) => beside = state,
                    None => {}
                },
                Op::Rename { to, .. } if to == name => {
                    self.file = Some(std::mem::take(&mut beside))
                }
                Op::Unlink { name: gone } if gone == name => self.file = None,
                Op::Chmod { mode, .. } => self.file.iter_mut().for_each(|f| f.mode = Some(*mode)),
                Op::Utimes { seconds, .. } => {
                    self.file.iter_mut().for_each(|f| f.mtime = Some(*seconds));
                }
                op => match (&mut open, &mut self.file) {
                    (Some((_, state)), _) | (None, Some(state)) => state.act(op),
                    (None, None) => {}
                },
            }
        }
        if let Some((true, state)) = open {
            self.file = Some(state); // still open: what others see once it is closed or unlocked
        }
    }

    /// What is wrong with what a reader saw, if anything; `None` as what was seen: no such name.
    /// Wrong bytes are looked for in what the file was before.
    pub fn differs(&self, seen: Option<&Seen>, before: &Model) -> Option<String> {
        let (state, seen) = match (&self.file, seen) {
            (None, None) => return None,
            (Some(_), None) => return Some("is not there".to_owned()),
            (None, Some(_)) => return Some("is there still".to_owned()),
            (Some(state), Some(seen)) => (state, seen),
        };
        let size = state.bytes.len() as u64;
        if seen.size != size || seen.came != size {
            let (told, came) = (seen.size, seen.came);
            return Some(format!("has {size} bytes, told {told}, came {came}"));
        }
        let wanted = crcs(&state.bytes);
        let wrong: Vec<usize> = (0..wanted.len()).filter(|i| wanted[*i] != seen.crcs[*i]).collect();
        if !wrong.is_empty() {
            let zero =
                |i: &usize| seen.crcs[*i] == super::pattern::crc(&vec![0; block_of(size, *i)]);
            let zeros = wrong.iter().filter(|i| zero(i)).count();
            let old = before.file.as_ref().map_or(Vec::new(), |state| crcs(&state.bytes));
            let olds = wrong.iter().filter(|i| old.get(**i) == seen.crcs.get(**i)).count();
            return Some(format!(
                "blocks {wrong:?} of {} are other bytes, {zeros} of them zeros, {olds} as before",
                wanted.len()
            ));
        }
        differ(
            "mode",
            state.mode.map(|mode| format!("{mode:o}")),
            seen.mode.map(|mode| format!("{mode:o}")),
        )
        .or_else(|| differ("time", state.mtime, seen.mtime))
    }
}

/// What is wrong with one attribute, where both know it.
fn differ<T: PartialEq + Display>(
    what: &str,
    wanted: Option<T>,
    seen: Option<T>,
) -> Option<String> {
    let (wanted, seen) = (wanted?, seen?);
    (wanted != seen).then(|| format!("has {what} {seen}, not {wanted}"))
}

/// Bytes of this block of a file.
fn block_of(size: u64, index: usize) -> usize {
    (size as usize - index * super::pattern::BLOCK).min(super::pattern::BLOCK)
}

impl State {
    fn write(&mut self, change: impl FnOnce(&mut Vec<u8>)) {
        change(&mut self.bytes);
        self.mtime = None;
    }

    fn act(&mut self, op: &Op) {
        let end = self.bytes.len() as u64;
        let mut put = |at: u64, len: u64, seed: u64| {
            self.write(|bytes| {
                let (at, data) = (at as usize, pattern(seed, len));
                bytes.resize(bytes.len().max(at + data.len()), 0);
                bytes[at..at + data.len()].copy_from_slice(&data);
            });
        };
        match *op {
            Op::Write { at, len, seed } | Op::Map { at, len, seed } => put(at, len, seed),
            Op::Append { len, seed } | Op::AppendBySize { len, seed } => put(end, len, seed),
            Op::Truncate { len } => self.write(|bytes| bytes.resize(len as usize, 0)),
            Op::Punch { at, len } => self.write(|bytes| {
                let (at, to) = (at.min(end) as usize, (at + len).min(end) as usize);
                bytes[at..to].fill(0);
            }),
            _ => {}
        }
    }
}
