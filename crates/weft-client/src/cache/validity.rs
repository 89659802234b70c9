//! Whether what is cached of a file is still true when it is opened again (close-to-open:
//! RFC 8881 §10.3.1, §10.4).
//!
//! What opens promise each other: who opens a file after another client has closed it sees what
//! that one wrote. So at each open the change attribute is asked for, and what was cached under
//! another one is dropped. What may be kept:
//!
//! 1. **A delegation covered the file all the time.** Nobody else can have changed it (§10.4), so
//!    whatever the attribute says, the change was ours.
//! 2. **The attribute is the same.** Nobody has changed it, we neither. Data may have been fetched
//!    later than the attribute: then they are newer, and if that mattered, the attribute differs.
//! 3. **We wrote, and the server told both attributes of all our writes in one step.** If the one
//!    before is the one we knew, nobody else wrote in between, and the one after takes its place.
//!
//! Otherwise what is clean goes. The case to be careful with is our own write without a delegation:
//! the attribute has grown afterwards, by our write alone or by another client's before or after
//! it, and nothing tells which. Only 3 does, if the server's answer was atomic (as `change_info4`
//! says of directories, §3.3.3; of files no server of today does, ours included). To read the
//! attribute after our writes and to take that for the known one would hide another's write.

/// What an open was told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Opening {
    /// The change attribute, read with the open.
    pub(crate) change: u64,
    /// Whether a delegation came with it, or is held.
    pub(crate) delegated: bool,
    /// Whether something written here can still alter the attribute: dirty, on its way, not
    /// durable, or not told to the metadata server (LAYOUTCOMMIT).
    pub(crate) unsettled: bool,
}

/// What becomes of clean data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Keep,
    /// [`super::FileCache::invalidate`].
    Drop,
}

/// The writes that a request tells the server the last of: [`Validity::asks`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Asked(u64);

/// A server's word on what a request of ours did to the change attribute.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ChangeInfo {
    pub(crate) before: u64,
    pub(crate) after: u64,
    /// Whether nothing else came between the two.
    pub(crate) atomic: bool,
}

/// What is known of the state of a file that its cached data are of.
#[derive(Debug, Clone, Default)]
pub(crate) struct Validity {
    known: Option<Known>,
    writes: u64,
}

#[derive(Debug, Clone, Copy)]
struct Known {
    change: u64,
    /// A delegation is held, and was since this attribute was read.
    delegated: bool,
    /// We have written, or may have, what this attribute does not count.
    wrote: bool,
}

impl Validity {
    /// The file was opened, again or for the first time. What becomes of the data that are cached.
    pub(crate) fn opened(&mut self, opening: &Opening) -> Verdict {
        let covered = self.known.is_some_and(|known| known.delegated);
        let same = |known: Known| !known.wrote && known.change == opening.change;
        let keep = covered || self.known.is_some_and(same);
        self.known = Some(Known {
            change: opening.change,
            delegated: opening.delegated || covered,
            wrote: opening.unsettled,
        });
        if keep { Verdict::Keep } else { Verdict::Drop }
    }

    /// Something is written: call it before it leaves.
    pub(crate) fn wrote(&mut self) {
        self.writes += 1;
        if let Some(known) = &mut self.known {
            known.wrote = true;
        }
    }

    /// A request leaves whose answer tells of the change attribute, when everything that was
    /// written has got to the servers, or goes with it.
    pub(crate) fn asks(&self) -> Asked {
        Asked(self.writes)
    }

    /// Its answer.
    pub(crate) fn told(&mut self, asked: Asked, info: &ChangeInfo) {
        let Some(known) = &mut self.known else { return };
        // What was written since is not in it; what others wrote before is not known here.
        if info.atomic && info.before == known.change && asked.0 == self.writes {
            known.change = info.after;
            known.wrote = false;
        }
    }

    /// The delegation is given back, or lost. `last` is the change attribute if it was read while
    /// the delegation was still held, and after everything that was written had got to the servers.
    pub(crate) fn delegation_ended(&mut self, last: Option<u64>) {
        let Some(known) = &mut self.known else { return };
        if let Some(change) = last.filter(|_| known.delegated) {
            known.change = change;
            known.wrote = false;
        }
        known.delegated = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What happens between two opens.
    #[derive(Debug, Clone, Copy)]
    enum Event {
        Write,
        /// A write that begins after [`Validity::asks`] and before [`Validity::told`].
        Told {
            info: ChangeInfo,
            wrote_meanwhile: bool,
        },
        DelegationEnded(Option<u64>),
    }
    use Event::*;

    fn opening(change: u64, delegated: bool, unsettled: bool) -> Opening {
        Opening { change, delegated, unsettled }
    }

    fn verdict(delegated: bool, events: &[Event], change: u64) -> Verdict {
        let mut validity = Validity::default();
        assert_eq!(validity.opened(&opening(10, delegated, false)), Verdict::Drop);
        for event in events {
            match *event {
                Write => validity.wrote(),
                Told { info, wrote_meanwhile } => {
                    let asked = validity.asks();
                    if wrote_meanwhile {
                        validity.wrote();
                    }
                    validity.told(asked, &info);
                }
                DelegationEnded(last) => validity.delegation_ended(last),
            }
        }
        validity.opened(&opening(change, false, false))
    }

    fn told(before: u64, after: u64, atomic: bool) -> Event {
        Told { info: ChangeInfo { before, after, atomic }, wrote_meanwhile: false }
    }

    /// After an open with change attribute 10, and what came then: what the next open keeps.
    #[test]
    fn what_the_next_open_keeps() {
        let late = Told {
            info: ChangeInfo { before: 10, after: 11, atomic: true },
            wrote_meanwhile: true,
        };
        let (keep, gone) = (Verdict::Keep, Verdict::Drop);
        let table: &[(&str, bool, &[Event], u64, Verdict)] = &[
            ("only read, nobody wrote", false, &[], 10, keep),
            ("only read, another wrote", false, &[], 11, gone),
            ("the attribute went back: restored from a backup", false, &[], 9, gone),
            ("written without a delegation", false, &[Write], 11, gone),
            ("written, the attribute does not show it yet", false, &[Write], 10, gone),
            ("written and told in one step", false, &[Write, told(10, 11, true)], 11, keep),
            ("the same, then another wrote", false, &[Write, told(10, 11, true)], 12, gone),
            ("told, but not in one step", false, &[Write, told(10, 11, false)], 11, gone),
            ("told, but another wrote before", false, &[Write, told(11, 12, true)], 12, gone),
            ("told, but written again since", false, &[late], 11, gone),
            ("told, then written again", false, &[Write, told(10, 11, true), Write], 11, gone),
            ("a delegation is held, only read", true, &[], 10, keep),
            ("a delegation is held, written", true, &[Write], 17, keep),
            ("a delegation was held, only read", true, &[DelegationEnded(None)], 10, keep),
            ("the same, another wrote then", true, &[DelegationEnded(None)], 11, gone),
            ("held and written, not asked", true, &[Write, DelegationEnded(None)], 11, gone),
            ("the same, not shown yet", true, &[Write, DelegationEnded(None)], 10, gone),
            ("held, written, asked", true, &[Write, DelegationEnded(Some(13))], 13, keep),
            ("the same, another wrote then", true, &[Write, DelegationEnded(Some(13))], 14, gone),
            ("held, asked, then written", true, &[DelegationEnded(Some(13)), Write], 13, gone),
            ("ended though none was held", false, &[Write, DelegationEnded(Some(13))], 13, gone),
        ];
        for (what, delegated, events, change, expected) in table {
            assert_eq!(verdict(*delegated, events, *change), *expected, "{what}");
        }
    }

    /// What is still to leave at an open alters the attribute after it: the open after that one
    /// cannot tell by whom, even if the attribute is the same by chance.
    #[test]
    fn what_was_unsettled_at_an_open_counts_as_written_after_it() {
        let mut validity = Validity::default();
        validity.opened(&opening(10, false, false));
        validity.wrote();
        assert_eq!(validity.opened(&opening(10, false, true)), Verdict::Drop);
        assert_eq!(validity.opened(&opening(11, false, false)), Verdict::Drop);
        assert_eq!(validity.opened(&opening(11, false, false)), Verdict::Keep);
    }

    /// A delegation that is held goes on covering the file though a later open brings none, and
    /// one that comes later does not cover what was before it.
    #[test]
    fn a_delegation_covers_from_its_open_to_its_end() {
        let mut validity = Validity::default();
        validity.opened(&opening(10, true, false));
        assert_eq!(validity.opened(&opening(12, false, false)), Verdict::Keep);
        assert_eq!(validity.opened(&opening(13, false, false)), Verdict::Keep);
        validity.delegation_ended(None);
        assert_eq!(validity.opened(&opening(14, false, false)), Verdict::Drop);
        assert_eq!(validity.opened(&opening(15, true, false)), Verdict::Drop);
        assert_eq!(validity.opened(&opening(16, true, false)), Verdict::Keep);
    }
}
