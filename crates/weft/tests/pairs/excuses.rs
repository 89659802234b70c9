//! What a stock Linux client may do by rules of its own, seen on the kernel's own server too: each
//! names the function that decides it. Nothing else is excused.

use super::hands::Failure;
use super::kinds::Kind;
use super::ops::Op;
use super::plan::Act;

/// A reason why a reader did not see what the model has.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Excuse {
    /// A name that the client knew not to be there is believed not to be there for up to
    /// `acdirmin` (30 s), also by an open without O_CREAT: `nfs_neg_need_reval`, fs/nfs/dir.c.
    AbsentName,
    /// A name that the client knew, by a listing say, is believed for up to `acdirmin` (30 s) to be
    /// of the file that it was of: an open that may create opens that file by its handle, and
    /// empties it, if it was moved meanwhile (`nfs4_do_lookup_revalidate`, `nfs4_file_open`). The
    /// name itself is not there then.
    MovedName,
    /// The server was started again between a REMOVE or RENAME and its answer: sent again it finds
    /// nothing left to do (`nfs4_proc_remove`, `nfs4_proc_rename`, fs/nfs/nfs4proc.c). Ours say
    /// that they do not know.
    ReplyLost,
}

/// What the reader had done to the name before.
#[derive(Clone, Copy, Debug, Default)]
pub struct Past {
    /// It was told that there is no such name, or removed it.
    pub saw_absent: bool,
    /// It made a file beside it, and moved or removed that.
    pub made_beside: bool,
}

/// What excuses a reader that did not see the file after this act.
pub fn excuse(reader: Kind, past: Past, act: &Act, is_there: bool) -> Option<Excuse> {
    let Kind::Kernel(_) = reader else { return None };
    let makes = matches!(act, Act::Replace { .. });
    (past.saw_absent && makes && !is_there).then_some(Excuse::AbsentName)
}

/// An excuse for an act that failed while these faults happened, after what the other one of the
/// pair had done.
pub fn excuse_failure(
    (writer, other): (Kind, Past),
    op: Option<&Op>,
    failure: &Failure,
    faults: &[String],
) -> Option<Excuse> {
    let beside = match op {
        Some(Op::Rename { from: name, .. } | Op::Unlink { name }) => name.ends_with(".new"),
        _ => false,
    };
    if beside && failure.is_absent() && other.made_beside && matches!(writer, Kind::Kernel(_)) {
        return Some(Excuse::MovedName);
    }
    let restarts = ["kill-mds", "kill-all", "stop-mds", "stop-all"];
    let restarted = faults.iter().any(|fault| restarts.contains(&fault.as_str()));
    let once = matches!(op, Some(Op::Rename { .. } | Op::Unlink { .. }));
    let unknown = failure.is_absent() || failure.words.contains("may or may not");
    (restarted && once && unknown).then_some(Excuse::ReplyLost)
}
