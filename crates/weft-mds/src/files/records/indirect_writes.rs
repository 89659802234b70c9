//! How far the objects of a file were written through here, and how much of that is durable: what
//! the volume may take for their least lengths without asking anybody (ADR 10). Pure.

use weft_nfs::Verifier;

/// Writes of one file since they were last taken in.
#[derive(Debug, Default)]
pub(crate) struct IndirectWrites {
    /// How long each object is at least by them, by stripe index.
    ends: Vec<u64>,
    /// The same by those that are durable.
    durable: Vec<u64>,
    /// What the writes told that are not.
    verifier: Option<Verifier>,
    /// They told different ones: some may be lost.
    doubtful: bool,
    /// They did so since the last COMMIT, which has yet to tell the writers.
    untold: bool,
}

/// What a COMMIT makes durable that begins now.
#[derive(Debug)]
pub(crate) struct Committing {
    ends: Vec<u64>,
    verifier: Option<Verifier>,
    untold: bool,
}

impl Committing {
    /// True if a COMMIT that told this tells writers that some of their bytes may be lost.
    pub(crate) fn is_denied_by(&self, told: Verifier) -> bool {
        self.untold || self.verifier.is_some_and(|before| before != told)
    }
}

impl IndirectWrites {
    /// A write has made the objects so long; with a verifier unless it is durable already.
    pub(crate) fn wrote(&mut self, ends: &[u64], unstable: Option<Verifier>) {
        raise(&mut self.ends, ends);
        match unstable {
            None => raise(&mut self.durable, ends),
            Some(told) => {
                let before = self.verifier.replace(told);
                self.untold |= before.is_some_and(|before| before != told);
                self.doubtful |= self.untold;
            }
        }
    }

    /// A COMMIT of all objects begins.
    pub(crate) fn committing(&self) -> Committing {
        Committing { ends: self.ends.clone(), verifier: self.verifier, untold: self.untold }
    }

    /// It succeeded, and told this.
    pub(crate) fn committed(&mut self, began: &Committing, told: Verifier) {
        self.untold = false;
        if !self.doubtful && began.verifier.is_none_or(|before| before == told) {
            raise(&mut self.durable, &began.ends);
        }
    }

    /// How long the objects are at least, durably; and whether that is all that was written.
    pub(crate) fn into_durable(self) -> (Vec<u64>, bool) {
        let is_all = self.durable == self.ends;
        (self.durable, is_all)
    }
}

fn raise(lengths: &mut Vec<u64>, to: &[u64]) {
    lengths.resize(lengths.len().max(to.len()), 0);
    for (length, to) in lengths.iter_mut().zip(to) {
        *length = (*length).max(*to);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Verifier = Verifier([1; 8]);
    const B: Verifier = Verifier([2; 8]);

    /// Only what a COMMIT covers that began later and told the same is durable.
    #[test]
    fn a_commit_covers_what_was_written_before_it() {
        let mut writes = IndirectWrites::default();
        writes.wrote(&[5, 0], Some(A));
        let began = writes.committing();
        writes.wrote(&[5, 9], Some(A));
        writes.committed(&began, A);
        assert_eq!(writes.into_durable(), (vec![5, 0], false));
        let mut writes = IndirectWrites::default();
        writes.wrote(&[5], Some(A));
        let began = writes.committing();
        writes.committed(&began, B);
        assert_eq!(writes.into_durable(), (vec![], false));
    }

    /// A data server that restarted between two writes may have lost the first.
    #[test]
    fn different_verifiers_are_doubt() {
        let mut writes = IndirectWrites::default();
        writes.wrote(&[5], Some(A));
        writes.wrote(&[7], Some(B));
        let began = writes.committing();
        writes.committed(&began, B);
        assert_eq!(writes.into_durable(), (vec![], false));
    }

    /// The COMMIT after them denies the first, whose client compares with what that told, but none
    /// that comes later.
    #[test]
    fn different_verifiers_are_denied_once() {
        let mut writes = IndirectWrites::default();
        writes.wrote(&[5], Some(A));
        writes.wrote(&[7], Some(B));
        let began = writes.committing();
        assert!(began.is_denied_by(B));
        writes.committed(&began, B);
        writes.wrote(&[9], Some(B));
        assert!(!writes.committing().is_denied_by(B));
    }

    /// Stable writes need no COMMIT.
    #[test]
    fn stable_writes_are_durable_at_once() {
        let mut writes = IndirectWrites::default();
        writes.wrote(&[3, 4], None);
        assert_eq!(writes.into_durable(), (vec![3, 4], true));
    }
}
