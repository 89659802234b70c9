//! Whether a data server is in the state that it was last seen in, what its past and our volume's
//! have in common, and what to tell an administrator if they do not fit. Pure (ADR 9).

use weft_control::codec::*;
use weft_server::identity::hex;
use weft_store::{objects::CommonRun, types::Run, volume::VolumeRun};

use super::record::Record;

/// Why a data server is not used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StoreRefusal {
    /// Its directory is an older copy.
    Older,
    /// It and our volume were started beside each other, with copies of one another.
    Fork,
}

impl StoreRefusal {
    /// In words.
    pub(super) fn words(self, volume: &[u8; 16]) -> String {
        let adopt = format!("start the data server once with --adopt {}", hex(volume));
        match self {
            StoreRefusal::Older => format!(
                "its directory is an older copy of the one that was used last: put the newest one \
                 back, or, if that is lost, {adopt}: what was written since is then lost"
            ),
            StoreRefusal::Fork => format!(
                "its directory was used by a copy of our volume, or ours by a copy of it: put the \
                 directories together that were in use together last, the metadata server's \
                 included, or, if those are lost, {adopt}: what either does not know is then lost"
            ),
        }
    }
}

/// Judges the directory of a data server by what the volume has of it, if it has anything.
pub(super) fn judge_store(record: Option<&Record>, known: &VolumeOk) -> Result<(), StoreRefusal> {
    let Some(record) = record.filter(|_| !known.adopts) else { return Ok(()) };
    let met = Run { number: known.met.number, id: known.met.id };
    if known.age < record.held {
        return Err(StoreRefusal::Older);
    }
    if known.forgotten || met == record.run { Ok(()) } else { Err(StoreRefusal::Fork) }
}

/// The newest run of the volume that a data server knows too. `runs`: all of the volume, the
/// present one last.
pub(super) fn newest_common(runs: &[VolumeRun], theirs: &RunNames) -> Option<CommonRun> {
    let theirs = theirs.0.iter().rev().map(|r| Run { number: r.number, id: r.id });
    theirs.into_iter().find_map(|run| {
        let at = runs.iter().position(|ours| ours.run == run)?;
        // The present run has not ended: whoever asks about it knows better.
        let end = runs.get(at + 1).map_or((0, 0), |next| (next.found_lsn.0, next.found_next));
        Some(CommonRun { run, end_lsn: end.0, end_next: end.1 })
    })
}

/// What a data server's refusal means, and what to do.
pub(super) fn refusal(status: ControlStatus, volume: &[u8; 16]) -> String {
    let volume = hex(volume);
    let adopt = format!("start the data server once with --adopt {volume}");
    match status {
        ControlStatus::UNKNOWN_VOLUME => format!(
            "it serves other volumes and does not know ours, {volume}: check its address and its \
             directory, and ours; if it shall serve this volume too, {adopt}"
        ),
        ControlStatus::NUMBER_TAKEN => format!(
            "it serves another volume that has the same number as ours, {volume}: they cannot \
             share a data server"
        ),
        ControlStatus::OLDER => format!(
            "our volume, {volume}, is an older copy of the one that it served last: put the \
             newest directory of the metadata server back, or, if that is lost, {adopt}: what was \
             made since is then lost"
        ),
        ControlStatus::FORK => format!(
            "our volume, {volume}, is a copy that was started beside the one that it served last: \
             use the directory of the metadata server that was in use last, or, if that is lost, \
             {adopt}: what was made there since is then lost"
        ),
        ControlStatus::IN_USE => format!(
            "another metadata server is using our volume, {volume}, or a copy of it: stop one of \
             them"
        ),
        ControlStatus::DEPOSED => format!(
            "a later start of our volume, {volume}, has taken over: stop this metadata server"
        ),
        ControlStatus::TOO_MANY => format!("it has no room for our volume, {volume}"),
        other => format!("it refuses our volume, {volume}: {other}"),
    }
}

#[cfg(test)]
#[path = "admission_tests.rs"]
mod tests;
