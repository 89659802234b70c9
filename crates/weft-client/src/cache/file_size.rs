//! How long a file is, as far as one client can tell.
//!
//! Two things make the answer of a server less than the truth: it may be of before what this
//! client did since it asked, and the server may not know yet what was written here (dirty, on its
//! way, not durable, or not told by LAYOUTCOMMIT). So every answer comes with the moment at which
//! it was asked for, and the end of what was written here counts until an answer counts it.

/// When something happened, in the order of what a client does and what it asks for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Moment(pub(crate) u64);

/// What a server said of a file's size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SizeTold {
    pub(crate) end: u64,
    /// Before the request was made.
    pub(crate) asked_at: Moment,
    /// Whether something that was written here is not known to servers, now that they answered.
    pub(crate) unsettled: bool,
}

/// The size of a file that is open here, or of which something is kept.
#[derive(Debug, Clone, Default)]
pub(crate) struct FileSize {
    end: u64,
    /// Whether a server has told it, since it was last forgotten.
    is_known: bool,
    /// The end of what was written here and may not be counted in what servers say.
    own_end: u64,
    /// The end of what was written here since servers last knew of everything.
    untold_end: u64,
    /// When something was last written here, or became known to servers.
    wrote_at: Moment,
    /// When it was last cut here, or found to be unknown: what was asked for before does not count.
    cut_at: Moment,
}

impl FileSize {
    /// The end of the file, or of what was written here if the rest is not known.
    pub(crate) fn end(&self) -> u64 {
        self.end
    }

    /// The end of the file, if a server has told it.
    pub(crate) fn known_end(&self) -> Option<u64> {
        self.is_known.then_some(self.end)
    }

    /// The end of what was written here since servers last knew of everything: as long as they do
    /// not, the file is so long at least. What was written before, others may have cut since.
    pub(crate) fn untold_end(&self) -> u64 {
        self.untold_end
    }

    /// Servers know of everything that was written here.
    pub(crate) fn all_told(&mut self) {
        self.untold_end = 0;
    }

    /// Something was written up to there.
    pub(crate) fn wrote(&mut self, end: u64, now: Moment) {
        self.own_end = self.own_end.max(end);
        self.untold_end = self.untold_end.max(end);
        self.end = self.end.max(end);
        self.wrote_at = self.wrote_at.max(now);
    }

    /// Something that was written is known to servers now: answers of before do not count it.
    pub(crate) fn settled(&mut self, now: Moment) {
        self.wrote_at = self.wrote_at.max(now);
    }

    /// What was sent when this client had last done something to the file then is known to servers
    /// now; whether it did nothing else meanwhile: then what came with the answer is of all that it
    /// has done until now.
    pub(crate) fn arrived(&mut self, since: Moment, now: Moment) -> bool {
        let was_alone = self.last_change() == since;
        self.settled(now);
        was_alone
    }

    /// This client has set the size, with nothing of what it wrote unsettled.
    pub(crate) fn cut(&mut self, end: u64, now: Moment) {
        (self.end, self.own_end, self.untold_end, self.is_known) = (end, 0, 0, true);
        self.wrote_at = self.wrote_at.max(now);
        self.cut_at = self.cut_at.max(now);
    }

    /// The size is not known any more, but for what was written here: who reads has to ask.
    pub(crate) fn forget(&mut self, now: Moment) {
        (self.end, self.is_known) = (self.own_end, false);
        self.cut_at = self.cut_at.max(now);
    }

    /// A server has answered.
    pub(crate) fn told(&mut self, told: SizeTold) {
        if told.asked_at < self.cut_at {
            return;
        }
        if !told.unsettled && told.asked_at >= self.wrote_at {
            self.own_end = 0;
        }
        (self.end, self.is_known) = (told.end.max(self.own_end), true);
    }

    /// Whether this client did something to the file after that.
    pub(crate) fn changed_after(&self, moment: Moment) -> bool {
        self.last_change() > moment
    }

    /// When this client last did something to it.
    pub(crate) fn last_change(&self) -> Moment {
        self.wrote_at.max(self.cut_at)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// What is told of what was written since everything was known forgets no more than that: a
    /// late answer counts what was written before.
    #[test]
    fn what_is_untold_begins_anew() {
        let mut size = FileSize::default();
        size.wrote(100, Moment(2));
        size.settled(Moment(3));
        size.all_told();
        size.wrote(10, Moment(4));
        assert_eq!(size.untold_end(), 10);
        size.told(SizeTold { end: 0, asked_at: Moment(1), unsettled: true });
        assert_eq!((size.end(), size.untold_end()), (100, 10));
    }

    const T: fn(u64) -> Moment = Moment;

    fn told(end: u64, asked_at: u64, unsettled: bool) -> SizeTold {
        SizeTold { end, asked_at: T(asked_at), unsettled }
    }

    #[test]
    fn another_clients_cut_is_seen_when_nothing_here_is_unsettled() {
        let mut size = FileSize::default();
        size.told(told(100, 0, false));
        size.wrote(120, T(1));
        // Cut to 10 by somebody else; what was written here is still to come.
        size.told(told(10, 1, true));
        assert_eq!(size.end(), 120);
        size.settled(T(2));
        // Asked before it was settled: it may not be counted.
        size.told(told(10, 1, false));
        assert_eq!(size.end(), 120);
        size.told(told(10, 2, false));
        assert_eq!((size.end(), size.own_end), (10, 0));
    }

    /// An answer to a write is of all that was done here, unless something else was done since that
    /// was sent: a write, a cut, or the end of another write.
    #[test]
    fn answers_to_writes_are_of_all_that_was_done() {
        let others: [fn(&mut FileSize); 4] = [
            |size| size.wrote(10, T(2)),
            |size| size.cut(0, T(2)),
            |size| size.forget(T(2)),
            |size| assert!(size.arrived(T(1), T(2))),
        ];
        let mut alone = FileSize::default();
        alone.wrote(100, T(1));
        let since = alone.last_change();
        assert!(alone.arrived(since, T(3)) && !alone.changed_after(T(3)));
        for other in others {
            let mut size = FileSize::default();
            size.wrote(100, T(1));
            let since = size.last_change();
            other(&mut size);
            assert!(!size.arrived(since, T(3)));
        }
    }

    #[test]
    fn answers_of_before_a_cut_do_not_count() {
        let mut size = FileSize::default();
        size.wrote(100, T(1));
        size.cut(5, T(2));
        size.told(told(100, 1, false));
        assert_eq!(size.end(), 5);
        size.told(told(7, 2, false));
        assert_eq!(size.end(), 7);
    }

    #[test]
    fn what_is_unknown_is_at_least_what_was_written_here() {
        let mut size = FileSize::default();
        size.told(told(100, 0, false));
        size.wrote(20, T(1));
        size.forget(T(2));
        assert_eq!((size.end(), size.known_end()), (20, None));
        assert!(size.changed_after(T(1)) && !size.changed_after(T(2)));
    }

    /// What may happen. Only one request that asks for the size is under way at a time.
    #[derive(Debug, Clone, Copy)]
    enum Step {
        Write(u64),
        /// What was written reaches the server.
        Settle,
        /// Settles, and cuts.
        Cut(u64),
        OthersCut(u64),
        Ask,
        /// The server looks at the size.
        Look,
        Answer,
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            (1..50_u64).prop_map(Step::Write),
            Just(Step::Settle),
            (0..50_u64).prop_map(Step::Cut),
            (0..50_u64).prop_map(Step::OthersCut),
            Just(Step::Ask),
            Just(Step::Look),
            Just(Step::Answer),
        ];
        proptest::collection::vec(step, 0..40)
    }

    proptest! {
        /// Whatever answers are late: the size is never less than what was written here last, and
        /// once somebody asks while nothing is unsettled it is the server's.
        #[test]
        fn it_is_the_servers_in_the_end(steps in steps()) {
            let (mut size, mut now) = (FileSize::default(), 0);
            let (mut server, mut unsettled) = (0_u64, None::<u64>);
            let mut asked = None::<(u64, Option<u64>)>;
            for step in steps {
                match step {
                    Step::Write(end) => {
                        now += 1;
                        size.wrote(end, T(now));
                        unsettled = Some(unsettled.map_or(end, |before| before.max(end)));
                    }
                    Step::Settle | Step::Cut(_) => {
                        server = server.max(unsettled.take().unwrap_or(0));
                        now += 1;
                        size.settled(T(now));
                        if let Step::Cut(end) = step {
                            (server, now) = (end, now + 1);
                            size.cut(end, T(now));
                        }
                    }
                    Step::OthersCut(end) => server = end,
                    Step::Ask => asked = Some((now, None)),
                    Step::Look => {
                        if let Some((_, seen)) = &mut asked {
                            *seen = seen.or(Some(server));
                        }
                    }
                    Step::Answer => {
                        if let Some((asked_at, Some(seen))) = asked.take() {
                            size.told(told(seen, asked_at, unsettled.is_some()));
                        }
                    }
                }
                prop_assert!(size.end() >= unsettled.unwrap_or(0), "{step:?}");
            }
            server = server.max(unsettled.take().unwrap_or(0));
            size.settled(T(now + 1));
            size.told(told(server, now + 1, false));
            prop_assert_eq!(size.end(), server);
        }
    }
}
