//! Attributes as Python has them.

use pyo3::IntoPyObject;
use weft_client::fs::{Attrs, FileType, NfsTime};

/// Bits of `st_mode` that say what a file is (stat(2)).
const KINDS: [(FileType, u32); 7] = [
    (FileType::REG, 0o100_000),
    (FileType::DIR, 0o040_000),
    (FileType::LNK, 0o120_000),
    (FileType::BLK, 0o060_000),
    (FileType::CHR, 0o020_000),
    (FileType::SOCK, 0o140_000),
    (FileType::FIFO, 0o010_000),
];

/// Attributes of a file, of which `weft.Stat` is made: a dictionary of these names.
#[derive(IntoPyObject)]
pub(crate) struct Stat {
    mode: u32,
    ino: u64,
    nlink: u32,
    size: u64,
    atime_ns: i128,
    mtime_ns: i128,
    ctime_ns: i128,
    space: u64,
    change: u64,
    owner: String,
    group: String,
}

impl Stat {
    pub(crate) fn of(attrs: &Attrs) -> Stat {
        let kind = KINDS.iter().find(|(kind, _)| Some(*kind) == attrs.file_type);
        let name = |owner: Option<&[u8]>| String::from_utf8_lossy(owner.unwrap_or(b"")).into();
        Stat {
            mode: kind.map_or(0, |(_, bits)| *bits) | attrs.mode.unwrap_or(0),
            ino: attrs.fileid.unwrap_or(0),
            nlink: attrs.numlinks.unwrap_or(0),
            size: attrs.size.unwrap_or(0),
            atime_ns: nanoseconds(attrs.time_access),
            mtime_ns: nanoseconds(attrs.time_modify),
            ctime_ns: nanoseconds(attrs.time_metadata),
            space: attrs.space_used.unwrap_or(0),
            change: attrs.change.unwrap_or(0),
            owner: name(attrs.owner.as_ref().map(|o| &o.0[..])),
            group: name(attrs.owner_group.as_ref().map(|o| &o.0[..])),
        }
    }
}

fn nanoseconds(time: Option<NfsTime>) -> i128 {
    time.map_or(0, |t| i128::from(t.seconds) * 1_000_000_000 + i128::from(t.nseconds))
}

/// A time of so many nanoseconds since 1970.
pub(crate) fn time(nanoseconds: i64) -> NfsTime {
    let nseconds = u32::try_from(nanoseconds.rem_euclid(1_000_000_000)).unwrap_or(0);
    NfsTime { seconds: nanoseconds.div_euclid(1_000_000_000), nseconds }
}
