//! What a stock Linux client may do by rules of its own, seen on the kernel's own server too: each
//! names the function that decides it. Nothing else is excused.

use super::kinds::Kind;
use super::plan::Act;

/// A reason why a reader did not see what the model has.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Excuse {
    /// A name that the client knew not to be there is believed not to be there for up to
    /// `acdirmin` (30 s), also by an open without O_CREAT: `nfs_neg_need_reval`, fs/nfs/dir.c.
    AbsentName,
}

/// What the reader had done to the name before.
#[derive(Clone, Copy, Debug, Default)]
pub struct Past {
    /// It was told that there is no such name, or removed it.
    pub saw_absent: bool,
}

/// What excuses a reader that did not see the file after this act.
pub fn excuse(reader: Kind, past: Past, act: &Act, is_there: bool) -> Option<Excuse> {
    let Kind::Kernel(_) = reader else { return None };
    let makes = matches!(act, Act::Replace { .. });
    (past.saw_absent && makes && !is_there).then_some(Excuse::AbsentName)
}
