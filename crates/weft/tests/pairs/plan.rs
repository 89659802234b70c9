//! What happens to a file, by chance from a seed: pure.

use weft_dev::SeededRng;

use super::kinds::Can;
use super::model::Model;
use super::ops::Op;

/// Upper ends of the size classes, in bytes: empty, within a page, within the stuffing limit,
/// within a stripe unit, across several, and beyond all that clients keep unwritten.
pub const CLASSES: [u64; 6] = [0, 4096, 64 << 10, 1 << 20, 4 << 20, 16 << 20];

/// A file's life: made, changed, looked at.
#[derive(Clone, Debug)]
pub struct Plan {
    pub seed: u64,
    pub class: usize,
    pub steps: Vec<Step>,
}

/// One change and what the other does meanwhile.
#[derive(Clone, Debug)]
pub struct Step {
    /// Whether the second of the pair changes and the first looks.
    pub swapped: bool,
    pub glance: Glance,
    pub act: Act,
    pub fsync: bool,
    /// Whether the reader reads during the change what the change leaves alone.
    pub watch: bool,
    pub read: char,
    pub seed: u64,
}

/// What the reader does before the change, so that it remembers something.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Glance {
    Nothing,
    Stat,
    Read,
    List,
}

/// One change of a file.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Act {
    /// Opened with O_CREAT and O_TRUNC.
    Replace {
        len: u64,
    },
    Write {
        at: u64,
        len: u64,
    },
    Append {
        len: u64,
        by_size: bool,
    },
    Truncate {
        len: u64,
    },
    Map {
        at: u64,
        len: u64,
    },
    Direct {
        at: u64,
        len: u64,
    },
    Punch {
        at: u64,
        len: u64,
    },
    /// A new file renamed over it.
    Rename {
        len: u64,
    },
    Unlink,
    /// Another file is copied over it.
    Copy {
        len: u64,
    },
    Chmod {
        mode: u32,
    },
    Utimes {
        seconds: u64,
    },
    /// Writer and reader hold it open and lock in turn.
    Locked {
        kind: char,
        turns: u32,
        len: u64,
    },
}

/// Of what is written past the cache, and of holes.
const ALIGN: u64 = 4096;

/// A plan for a pair that can do this.
pub fn plan(seed: u64, class: usize, pair: [Can; 2]) -> Plan {
    let mut rng = SeededRng::new(seed);
    let most = CLASSES[class];
    let least = if class == 0 { 0 } else { CLASSES[class - 1] + 1 };
    let mut model = Model::default();
    let count = 4 + rng.index(5);
    let mut steps = Vec::new();
    for n in 0..count {
        let swapped = n > 0 && rng.one_in(2);
        let can = pair[usize::from(swapped)];
        let within = |rng: &mut SeededRng| least + rng.below(most - least + 1);
        let act = if n == 0 || model.file.is_none() {
            Act::Replace { len: within(&mut rng) }
        } else {
            let size = model.file.as_ref().map_or(0, |f| f.bytes.len() as u64);
            let tries = 50;
            let mut drawn = || draw(&mut rng, size, least, most);
            let found = (0..tries).map(|_| drawn()).find(|act| act.fits(can, pair, &model, most));
            found.unwrap_or(Act::Replace { len: within(&mut rng) })
        };
        let glances = [Glance::Nothing, Glance::Stat, Glance::Read, Glance::Read, Glance::List];
        let reads = pair[usize::from(!swapped)].reads;
        let read = reads.chars().nth(rng.index(reads.len())).unwrap_or('n');
        let step = Step {
            swapped,
            glance: glances[rng.index(glances.len())],
            act,
            fsync: rng.one_in(4),
            watch: rng.one_in(3),
            read,
            seed: rng.below(1 << 40),
        };
        for ops in step.requests("f", can) {
            model.apply("f", &ops);
        }
        steps.push(step);
    }
    Plan { seed, class, steps }
}

fn draw(rng: &mut SeededRng, size: u64, least: u64, most: u64) -> Act {
    let within = least + rng.below(most - least + 1);
    let place = |rng: &mut SeededRng, align: u64| {
        let at = rng.below(most.max(1)) / align * align;
        let len = (1 + rng.below((most - at).max(1))).div_ceil(align) * align;
        // Many small changes beside a few that are large.
        (at, if rng.one_in(2) { len.min(align.max(8192)) } else { len })
    };
    match rng.below(19) {
        0 | 1 => Act::Replace { len: within },
        2 | 3 => {
            let (at, len) = place(rng, 1);
            Act::Write { at, len }
        }
        4..=6 => {
            let room = most.saturating_sub(size).max(1);
            let len = 1 + rng.below(room);
            let len = if rng.one_in(2) { len.min(100) } else { len };
            Act::Append { len, by_size: rng.one_in(2) }
        }
        7 => Act::Truncate { len: rng.below(most + 1) },
        8 => {
            let at = rng.below(size.max(1));
            Act::Map { at, len: 1 + rng.below((size - at.min(size)).max(1)) }
        }
        9 => {
            let (at, len) = place(rng, ALIGN);
            Act::Direct { at, len }
        }
        10 => {
            let (at, len) = place(rng, 1);
            Act::Punch { at, len }
        }
        11 | 12 => Act::Rename { len: within },
        13 => Act::Unlink,
        14 => Act::Copy { len: within },
        15 => Act::Chmod { mode: 0o600 | rng.below(0o100) as u32 },
        16 => Act::Utimes { seconds: 1_000_000_000 + rng.below(500_000_000) },
        _ => {
            let kind = ['f', 'o', 'l'][rng.index(3)];
            let turns = 2 + rng.below(3) as u32;
            let room = most.saturating_sub(size) / u64::from(turns);
            Act::Locked { kind, turns, len: 1 + rng.below(room.max(1)) }
        }
    }
}

impl Act {
    /// Whether it can be done to the file as it is, by who can do that.
    pub fn fits(&self, can: Can, pair: [Can; 2], model: &Model, most: u64) -> bool {
        let Some(file) = &model.file else { return matches!(self, Act::Replace { .. }) };
        let size = file.bytes.len() as u64;
        match *self {
            Act::Replace { .. } | Act::Unlink | Act::Rename { .. } | Act::Chmod { .. } => true,
            Act::Write { at, len } => can.writes && at + len <= most,
            Act::Append { len, by_size } => {
                can.writes && (by_size || can.appends) && size + len <= most
            }
            Act::Truncate { .. } => can.writes,
            Act::Map { at, len } => can.maps && at + len <= size,
            Act::Direct { at, len } => can.direct && at + len <= most,
            Act::Punch { at, .. } => can.punches && at < size,
            Act::Copy { .. } => can.copies,
            Act::Utimes { .. } => can.sets_times,
            Act::Locked { turns, len, .. } => {
                pair.iter().all(|can| can.locks) && size + u64::from(turns) * len <= most
            }
        }
    }

    /// Bytes that it writes.
    pub fn writes(&self) -> u64 {
        match *self {
            Act::Replace { len }
            | Act::Write { len, .. }
            | Act::Append { len, .. }
            | Act::Map { len, .. }
            | Act::Direct { len, .. }
            | Act::Rename { len }
            | Act::Copy { len } => len,
            _ => 0,
        }
    }

    /// First byte that it may change, of a file of this size.
    pub fn leaves_before(&self, size: u64) -> u64 {
        match *self {
            Act::Write { at, .. }
            | Act::Map { at, .. }
            | Act::Direct { at, .. }
            | Act::Punch { at, .. } => at.min(size),
            Act::Truncate { len } => len.min(size),
            Act::Append { .. } | Act::Chmod { .. } | Act::Utimes { .. } => size,
            _ => 0,
        }
    }
}

impl Step {
    /// What the writer is asked for, one request after another; those of [`Act::Locked`] are the
    /// turns, between which the reader looks.
    pub fn requests(&self, name: &str, can: Can) -> Vec<Vec<Op>> {
        let seed = self.seed;
        let beside = format!("{name}.new");
        let open = |flags, name: &str| Op::Open { flags, mode: 0o644, name: name.to_owned() };
        let mut end = vec![];
        if self.fsync {
            end.push(Op::Fsync);
        }
        end.push(Op::Close);
        let around = |first: Op, middle: Vec<Op>| [vec![first], middle, end.clone()].concat();
        let name_owned = name.to_owned();
        let one = match self.act {
            Act::Replace { len } if can.is_command => vec![Op::Put { len, seed, name: name_owned }],
            Act::Replace { len } => around(open("wct", name), vec![Op::Write { at: 0, len, seed }]),
            Act::Write { at, len } => around(open("b", name), vec![Op::Write { at, len, seed }]),
            Act::Append { len, by_size: true } => {
                around(open("b", name), vec![Op::AppendBySize { len, seed }])
            }
            Act::Append { len, .. } => around(open("wa", name), vec![Op::Append { len, seed }]),
            Act::Truncate { len } => around(open("b", name), vec![Op::Truncate { len }]),
            Act::Map { at, len } => around(open("b", name), vec![Op::Map { at, len, seed }]),
            Act::Direct { at, len } => around(open("bd", name), vec![Op::Write { at, len, seed }]),
            Act::Punch { at, len } => around(open("b", name), vec![Op::Punch { at, len }]),
            Act::Rename { len } => {
                let made = match can.is_command {
                    true => vec![Op::Put { len, seed, name: beside.clone() }],
                    false => around(open("wct", &beside), vec![Op::Write { at: 0, len, seed }]),
                };
                [made, vec![Op::Rename { from: beside, to: name_owned }]].concat()
            }
            Act::Unlink => vec![Op::Unlink { name: name_owned }],
            Act::Copy { len } if can.is_command => vec![
                Op::Put { len, seed, name: beside.clone() },
                Op::Cp { from: beside.clone(), to: name_owned },
                Op::Unlink { name: beside },
            ],
            Act::Copy { len } => [
                around(open("wct", &beside), vec![Op::Write { at: 0, len, seed }]),
                around(open("wct", name), vec![Op::CopyFrom { name: beside.clone() }]),
                vec![Op::Unlink { name: beside }],
            ]
            .concat(),
            Act::Chmod { mode } => vec![Op::Chmod { mode, name: name_owned }],
            Act::Utimes { seconds } => vec![Op::Utimes { seconds, name: name_owned }],
            Act::Locked { kind, turns, len } => {
                return (0..u64::from(turns))
                    .map(|turn| {
                        let write = Op::AppendBySize { len, seed: seed + turn };
                        let lock = |hold| Op::Lock { kind, hold };
                        let held = [lock('w'), write, lock('u')];
                        let first = if turn == 0 { vec![open("b", name)] } else { vec![] };
                        [first, held.to_vec()].concat()
                    })
                    .collect();
            }
        };
        vec![one]
    }
}
