//! Whether what is cached of a file is still true when it is opened again (close-to-open:
//! RFC 8881 §10.3.1).
//!
//! What opens promise each other: who opens a file after another client has closed it sees what
//! that one wrote. So at each open the change attribute is asked for, and what was cached under
//! another one is dropped. Data may have been fetched later than the attribute: then they are
//! newer, and if that mattered, the attribute differs at the next open.
//!
//! The case to be careful with is our own write: the attribute has grown afterwards, by our write
//! alone or by another client's before or after it, and nothing tells which. To read the attribute
//! after our writes and to take that for the known one would hide another's write. So what is clean
//! goes with the next open, unless a delegation that was held all the time since the last one
//! vouches for it (§10.4): nobody else can have changed the file, whatever the attribute is now.

/// What an open was told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Opening {
    /// The change attribute, read with the open.
    pub(crate) change: u64,
    /// Whether something written here can still alter the attribute: dirty, on its way, not
    /// durable, or not told to the metadata server (LAYOUTCOMMIT).
    pub(crate) unsettled: bool,
    /// No other client has changed the file since the last open.
    pub(crate) vouched: bool,
}

/// What becomes of clean data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Keep,
    /// [`super::FileCache::invalidate`].
    Drop,
}

/// What is known of the state of a file that its cached data are of.
#[derive(Debug, Clone, Default)]
pub(crate) struct Validity {
    known: Option<Known>,
}

#[derive(Debug, Clone, Copy)]
struct Known {
    change: u64,
    /// We have written, or may have, what this attribute does not count.
    wrote: bool,
}

impl Validity {
    /// The file was opened, again or for the first time. What becomes of the data that are cached.
    pub(crate) fn opened(&mut self, opening: &Opening) -> Verdict {
        let same = |known: Known| opening.vouched || !known.wrote && known.change == opening.change;
        let keep = self.known.is_some_and(same);
        self.known = Some(Known { change: opening.change, wrote: opening.unsettled });
        if keep { Verdict::Keep } else { Verdict::Drop }
    }

    /// Something is written: call it before it leaves.
    pub(crate) fn wrote(&mut self) {
        if let Some(known) = &mut self.known {
            known.wrote = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn opening(change: u64, unsettled: bool) -> Opening {
        Opening { change, unsettled, vouched: false }
    }

    fn vouched(change: u64, unsettled: bool) -> Opening {
        Opening { vouched: true, ..opening(change, unsettled) }
    }

    /// After an open with change attribute 10, and a write or none: what the next open keeps.
    #[test]
    fn what_the_next_open_keeps() {
        let (keep, gone) = (Verdict::Keep, Verdict::Drop);
        let table = [
            ("only read, nobody wrote", false, 10, keep),
            ("only read, another wrote", false, 11, gone),
            ("the attribute went back: restored from a backup", false, 9, gone),
            ("written", true, 11, gone),
            ("written, the attribute does not show it yet", true, 10, gone),
        ];
        for (what, wrote, change, expected) in table {
            let mut validity = Validity::default();
            assert_eq!(validity.opened(&opening(10, false)), Verdict::Drop);
            if wrote {
                validity.wrote();
            }
            assert_eq!(validity.opened(&opening(change, false)), expected, "{what}");
        }
    }

    /// Under a delegation what was written here stays, and once nothing of it is to leave any more,
    /// the attribute of an open stands for it when the delegation is gone. Before the first open
    /// nothing is known that could be kept.
    #[test]
    fn a_delegation_vouches_for_what_was_written() {
        let mut validity = Validity::default();
        assert_eq!(validity.opened(&vouched(10, false)), Verdict::Drop);
        validity.wrote();
        assert_eq!(validity.opened(&vouched(11, true)), Verdict::Keep);
        assert_eq!(validity.clone().opened(&opening(11, false)), Verdict::Drop);
        assert_eq!(validity.opened(&vouched(12, false)), Verdict::Keep);
        assert_eq!(validity.clone().opened(&opening(12, false)), Verdict::Keep);
        assert_eq!(validity.opened(&opening(13, false)), Verdict::Drop);
    }

    /// What is still to leave at an open alters the attribute after it: the open after that one
    /// cannot tell by whom, even if the attribute is the same by chance.
    #[test]
    fn what_was_unsettled_at_an_open_counts_as_written_after_it() {
        let mut validity = Validity::default();
        validity.opened(&opening(10, false));
        validity.wrote();
        assert_eq!(validity.opened(&opening(10, true)), Verdict::Drop);
        assert_eq!(validity.opened(&opening(11, false)), Verdict::Drop);
        assert_eq!(validity.opened(&opening(11, false)), Verdict::Keep);
    }
}
