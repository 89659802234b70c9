//! What a hand is asked to do, as the line that `tests/guest/hand.c` reads.

use std::fmt::{self, Display};

/// One act. Names are relative to the mounted root, without blanks.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Op {
    /// Flags as letters: r w b(oth) c(reate) x(clusive) t(runcate) a(ppend) d(irect).
    Open {
        flags: &'static str,
        mode: u32,
        name: String,
    },
    /// `pwrite(2)` of a pattern.
    Write {
        at: u64,
        len: u64,
        seed: u64,
    },
    /// `write(2)`: with O_APPEND.
    Append {
        len: u64,
        seed: u64,
    },
    /// `pwrite(2)` at the size that `fstat(2)` tells.
    AppendBySize {
        len: u64,
        seed: u64,
    },
    /// A write by a shared mapping, and `msync(2)`.
    Map {
        at: u64,
        len: u64,
        seed: u64,
    },
    Truncate {
        len: u64,
    },
    Punch {
        at: u64,
        len: u64,
    },
    Fsync,
    Close,
    /// The whole file: f(cntl), o(fd) or l (flock), and w, r or u.
    Lock {
        kind: char,
        hold: char,
    },
    /// All of what is open: n(ormal), m(apped), d(irect).
    Read {
        how: char,
    },
    /// One place, so many times: which checksums were seen.
    Again {
        at: u64,
        len: u64,
        times: u32,
    },
    CopyFrom {
        name: String,
    },
    Rename {
        from: String,
        to: String,
    },
    Unlink {
        name: String,
    },
    Stat {
        name: String,
    },
    List {
        dir: String,
    },
    Chmod {
        mode: u32,
        name: String,
    },
    Utimes {
        seconds: u64,
        name: String,
    },
    /// `weft put`: for the commands alone.
    Put {
        len: u64,
        seed: u64,
        name: String,
    },
    /// `weft cp` within the cluster: for the commands alone.
    Cp {
        from: String,
        to: String,
    },
    /// `weft cat` and `weft stat`: for the commands alone.
    Get {
        name: String,
    },
}

impl Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Op::Open { flags, mode, name } => write!(f, "o{flags} {mode:o} {name}"),
            Op::Write { at, len, seed } => write!(f, "w{at} {len} {seed}"),
            Op::Append { len, seed } => write!(f, "a{len} {seed}"),
            Op::AppendBySize { len, seed } => write!(f, "e{len} {seed}"),
            Op::Map { at, len, seed } => write!(f, "m{at} {len} {seed}"),
            Op::Truncate { len } => write!(f, "t{len}"),
            Op::Punch { at, len } => write!(f, "p{at} {len}"),
            Op::Fsync => write!(f, "s"),
            Op::Close => write!(f, "c"),
            Op::Lock { kind, hold } => write!(f, "l{kind} {hold}"),
            Op::Read { how } => write!(f, "r{how}"),
            Op::Again { at, len, times } => write!(f, "R{at} {len} {times}"),
            Op::CopyFrom { name } => write!(f, "C{name}"),
            Op::Rename { from, to } => write!(f, "N{from} {to}"),
            Op::Unlink { name } => write!(f, "U{name}"),
            Op::Stat { name } => write!(f, "S{name}"),
            Op::List { dir } => write!(f, "L{dir}"),
            Op::Chmod { mode, name } => write!(f, "M{mode:o} {name}"),
            Op::Utimes { seconds, name } => write!(f, "T{seconds} {name}"),
            Op::Put { len, seed, name } => write!(f, "put {len} {seed} {name}"),
            Op::Cp { from, to } => write!(f, "cp {from} {to}"),
            Op::Get { name } => write!(f, "get {name}"),
        }
    }
}

/// The line for some acts.
pub fn line(ops: &[Op]) -> String {
    ops.iter().map(|op| format!("{op};")).collect::<String>() + "\n"
}
