//! Whose objects a data server has: the volumes it serves, and the judgement of a metadata server
//! that comes with one. Pure; what it decides is made durable by [`super::volumes`] (ADR 9).

use crate::types::Run;

/// Most volumes of one data server.
pub const VOLUMES_MAX: usize = 8;
/// Runs remembered of each volume, the latest ones.
pub const RUNS_MAX: usize = 16;
/// Ranges of numbers closed in a volume.
const CLOSED_MAX: usize = 8;

/// A volume that a data server serves, as it last heard of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServedVolume {
    /// Its number in the names of objects.
    pub number: u32,
    /// Its unique name.
    pub uuid: [u8; 16],
    /// The runs that bound this data server, ascending, the latest last; never empty.
    pub runs: Vec<Run>,
    /// Its age: the highest durable LSN that was told.
    pub age: u64,
    /// The number of every object that was ever made here is below.
    pub mark: u64,
    /// Numbers, from and until, whose objects belong to a state of the volume that was given up.
    pub closed: Vec<(u64, u64)>,
    /// The restoration from a backup that it comes from; zeros: from none.
    pub restored: [u8; 16],
}

impl ServedVolume {
    /// Whether objects of this number are the volume's as it is now.
    pub fn is_open(&self, object: u64) -> bool {
        !self.closed.iter().any(|(from, until)| (*from..*until).contains(&object))
    }

    fn last(&self) -> Option<Run> {
        self.runs.last().copied()
    }
}

/// The newest run that the data server and the volume both know, and how the volume left it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommonRun {
    /// Which.
    pub run: Run,
    /// The last mutation before the next run.
    pub end_lsn: u64,
    /// The next inode number by then.
    pub end_next: u64,
}

/// A metadata server wants the data server for a run of its volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BindRequest {
    /// Number of the volume.
    pub number: u32,
    /// Its unique name.
    pub uuid: [u8; 16],
    /// The run.
    pub run: Run,
    /// What it has in common with the runs that bound the data server before; none if nothing.
    pub common: Option<CommonRun>,
    /// Highest durable LSN of the volume now.
    pub lsn: u64,
    /// The restoration that it comes from.
    pub restored: Restoration,
}

/// A restoration of a volume from a backup; zeros: none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Restoration {
    /// Its random name.
    pub id: [u8; 16],
    /// The one that the volume in the backup came from.
    pub previous: [u8; 16],
}

/// What else a judgement depends on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Circumstances {
    /// The volume of which anything is accepted, once.
    pub adopt: Option<[u8; 16]>,
    /// Another run of the same volume has a connection that lives.
    pub in_use: bool,
}

/// Why a metadata server is accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accepted {
    /// Its volume is the first here, or one more that was to be accepted.
    New,
    /// It is bound already, and comes again.
    Again,
    /// The volume was started again.
    Successor,
    /// It is an older state of the volume, or another branch of it, that was to be accepted.
    Adopted,
}

/// Why it is not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BindRefusal {
    /// The data server has other volumes, and was not told to accept this one.
    #[error("the volume is unknown, and others are served")]
    Unknown,
    /// Another volume has the same number.
    #[error("another volume has that number")]
    NumberTaken,
    /// The volume is in a state before the last one that was served.
    #[error("it is an older state of the volume")]
    Older,
    /// The volume is a copy that was started beside the one that was served.
    #[error("it is another branch of the volume")]
    Fork,
    /// A later run of the volume has taken over.
    #[error("a later run of the volume has taken over")]
    Deposed,
    /// Another metadata server is using the volume now.
    #[error("another metadata server is using the volume")]
    InUse,
    /// There are too many volumes, or states that were given up.
    #[error("too many volumes")]
    TooMany,
}

/// Judges a metadata server that comes to a data server with these volumes.
///
/// # Errors
/// [`BindRefusal`].
pub fn judge(
    served: &[ServedVolume],
    request: &BindRequest,
    seen: Circumstances,
) -> Result<Accepted, BindRefusal> {
    let same = |v: &ServedVolume| (v.number == request.number, v.uuid == request.uuid);
    if served.iter().any(|v| same(v).0 != same(v).1) {
        return Err(BindRefusal::NumberTaken);
    }
    let adopts = seen.adopt == Some(request.uuid);
    let Some(known) = served.iter().find(|v| v.uuid == request.uuid) else {
        return match (served.len(), adopts) {
            (VOLUMES_MAX.., _) => Err(BindRefusal::TooMany),
            (0, _) | (_, true) => Ok(Accepted::New),
            _ => Err(BindRefusal::Unknown),
        };
    };
    match lineage(known, request) {
        Ok(_) if seen.in_use => Err(BindRefusal::InUse),
        Err(BindRefusal::Older | BindRefusal::Fork) if seen.in_use => Err(BindRefusal::InUse),
        Err(BindRefusal::Older | BindRefusal::Fork) if adopts || is_restored(known, request) => {
            let closed = close(known, request.common);
            if closed.len() > CLOSED_MAX {
                Err(BindRefusal::TooMany)
            } else {
                Ok(Accepted::Adopted)
            }
        }
        judged => judged,
    }
}

/// Whether the volume that comes was restored from a backup of the one that was served, and that
/// one was not restored since: of two restorations the first one that comes is followed.
fn is_restored(known: &ServedVolume, request: &BindRequest) -> bool {
    let Restoration { id, previous } = request.restored;
    id != [0; 16] && id != known.restored && previous == known.restored
}

/// Whether the volume that comes is what the one that was served became.
fn lineage(known: &ServedVolume, request: &BindRequest) -> Result<Accepted, BindRefusal> {
    let Some(last) = known.last() else { return Ok(Accepted::Successor) };
    if request.run == last {
        // The same process; what it says of itself goes back only if the machine did.
        return if request.lsn >= known.age {
            Ok(Accepted::Again)
        } else {
            Err(BindRefusal::Older)
        };
    }
    if known.runs.contains(&request.run) {
        return Err(BindRefusal::Deposed);
    }
    match request.common {
        Some(common) if common.run == last && common.end_lsn >= known.age => {
            if request.run.number > last.number {
                Ok(Accepted::Successor)
            } else {
                Err(BindRefusal::Fork)
            }
        }
        // A copy from the middle of that run, or from before it.
        Some(common) if common.run == last => Err(BindRefusal::Older),
        _ if request.run.number < last.number => Err(BindRefusal::Older),
        _ => Err(BindRefusal::Fork),
    }
}

/// The closed ranges after a state of the volume was given up for one that left it at `common`.
fn close(known: &ServedVolume, common: Option<CommonRun>) -> Vec<(u64, u64)> {
    let from = common.map_or(0, |c| c.end_next);
    // What was closed above belongs to the state that is given up now.
    let mut closed: Vec<_> = known.closed.iter().copied().filter(|(f, _)| *f < from).collect();
    if from < known.mark {
        closed.push((from, known.mark));
    }
    closed
}

/// The volume that was accepted, as it is from now on.
pub(super) fn bound(
    known: Option<&ServedVolume>,
    request: &BindRequest,
    accepted: Accepted,
) -> ServedVolume {
    let BindRequest { number, uuid, run, common, lsn, restored } = *request;
    let new = || ServedVolume {
        number,
        uuid,
        runs: Vec::new(),
        age: 0,
        mark: 0,
        closed: Vec::new(),
        restored: [0; 16],
    };
    let mut volume = known.cloned().unwrap_or_else(new);
    match accepted {
        Accepted::New | Accepted::Successor => volume.runs.push(run),
        Accepted::Again => {}
        Accepted::Adopted => {
            volume.closed = close(&volume, common);
            volume.runs.retain(|r| common.is_some_and(|c| r.number <= c.run.number));
            volume.runs.push(run);
        }
    }
    let surplus = volume.runs.len().saturating_sub(RUNS_MAX);
    volume.runs.drain(..surplus);
    volume.age = lsn;
    volume.restored = restored.id;
    volume
}

#[cfg(test)]
mod tests;
