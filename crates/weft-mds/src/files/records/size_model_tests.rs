//! Who knows a size, against a model of what the data servers really have.

use proptest::prelude::*;
use weft_nfs::ClientId;
use weft_store::{
    types::{Inode, SetIdLoss, Timestamp},
    volume::SettleSize,
};

use weft_store::types::fence_epoch::ROW;

use super::{tests::file, *};

const CLIENT: ClientId = ClientId(1);

/// What can happen. Numbers are sizes.
#[derive(Debug, Clone, Copy)]
enum Event {
    Grant,
    /// A client writes to a data server under its layout, or one of before a restart.
    LayoutWrite(u64),
    Return,
    Fence,
    WriteBegins(u64),
    /// Part of it reaches its data server.
    WriteLands(u64),
    WriteEnds(bool),
    Truncate(u64),
    Close,
    Ask,
    Answer,
    Look,
    Restart,
}

fn event() -> impl Strategy<Value = Event> {
    use Event::*;
    let size = || 0..100_u64;
    prop_oneof![
        2 => Just(Grant),
        4 => size().prop_map(LayoutWrite),
        3 => Just(Return),
        2 => Just(Fence),
        4 => size().prop_map(WriteBegins),
        2 => size().prop_map(WriteLands),
        4 => prop::bool::weighted(0.8).prop_map(WriteEnds),
        1 => size().prop_map(Truncate),
        3 => Just(Close),
        3 => Just(Ask),
        3 => Just(Answer),
        3 => Just(Look),
        1 => Just(Restart),
    ]
}

/// A question under way: what was known, and what the data servers said.
#[derive(Debug, Clone, Copy)]
struct Question {
    marks: Marks,
    quiet: bool,
    truth: DataServerAttrs,
}

struct World {
    files: Records,
    /// As the volume has it.
    inode: Inode,
    /// As the data servers have it.
    truth: DataServerAttrs,
    clock: i64,
    /// A write layout is out.
    granted: bool,
    /// One of before a restart may still be written under.
    late: bool,
    /// An indirect write, up to this end.
    writing: Option<u64>,
    questions: Vec<Question>,
    /// How often data changed, and the change attribute at that time.
    changes: u64,
    looked: (u64, u64),
}

impl World {
    fn new() -> Self {
        World {
            files: Records::default(),
            inode: file(7, false),
            truth: DataServerAttrs::default(),
            clock: 1,
            granted: false,
            late: false,
            writing: None,
            questions: Vec::new(),
            changes: 0,
            looked: (0, 0),
        }
    }

    fn now(&mut self) -> Timestamp {
        self.clock += 1;
        Timestamp { seconds: self.clock, nanos: 0 }
    }

    fn size_authority(&self) -> SizeAuthority {
        self.files.lock().size_authority(&self.inode)
    }

    fn step(&mut self, event: Event) {
        match event {
            Event::Grant if !self.files.lock().refuses_grants(&self.inode) => {
                self.inode.unsettled = true;
                self.files.lock().grant(CLIENT, &self.inode, None);
                self.granted = true;
            }
            Event::LayoutWrite(end) if self.granted || self.late => {
                self.land(end);
                self.changes += 1;
            }
            Event::Return => self.granted = false,
            Event::Fence => self.fence(),
            Event::WriteBegins(end) if self.writing.is_none() => self.write_begins(end),
            Event::WriteLands(part) => {
                if let Some(end) = self.writing {
                    self.land(part.min(end));
                }
            }
            Event::WriteEnds(well) => self.write_ends(well),
            Event::Truncate(size) => self.truncate(size),
            Event::Close => {
                if self.files.lock().closed(self.inode.no) {
                    self.inode.unsettled = false;
                }
            }
            Event::Ask if self.size_authority() == SizeAuthority::DataServers => {
                let question = self.question();
                self.questions.push(question);
            }
            Event::Answer => {
                if let Some(question) = self.questions.pop() {
                    self.answer(question);
                }
            }
            Event::Look => self.look(),
            Event::Restart => self.restart(),
            Event::Grant | Event::LayoutWrite(_) | Event::WriteBegins(_) | Event::Ask => {}
        }
    }

    /// Bytes reach a data server.
    fn land(&mut self, end: u64) {
        let seconds = self.now().seconds;
        self.truth.size_at_least = self.truth.size_at_least.max(end);
        self.truth.mtime = Some((seconds, 0));
        self.truth.writes += 1;
    }

    fn settle(&mut self, learned: &Settle, now: Timestamp) {
        let SettleSize::AtLeast(size) = learned.size else { panic!("{learned:?}") };
        self.inode.size = self.inode.size.max(size);
        self.inode.mtime = learned.mtime.unwrap_or(self.inode.mtime);
        if learned.touched {
            self.inode.change += 1;
            self.inode.ctime = now;
        }
        self.inode.unsettled &= !learned.settled;
    }

    fn write_begins(&mut self, end: u64) {
        let Some(writing) = self.files.begin_write(&self.inode) else { return };
        std::mem::forget(writing);
        self.writing = Some(end);
        if end > self.inode.size && !self.inode.unsettled {
            self.inode.unsettled = true;
            self.files.lock().mark_extending(&self.inode);
        }
    }

    fn write_ends(&mut self, well: bool) {
        let Some(end) = self.writing.take() else { return };
        if well {
            self.land(end);
            let now = self.now();
            self.settle(&Settle::written(end, now, SetIdLoss::Nothing), now);
            self.files.lock().changed(&self.inode);
            self.changes += 1;
        } else {
            self.files.lock().change_failed(self.inode.no);
        }
        drop(Writing { records: &self.files, ino: self.inode.no });
    }

    /// Others' layouts were recalled, and handles of before the restart are refused.
    fn truncate(&mut self, size: u64) {
        let busy = self.granted || self.late || self.writing.is_some();
        if busy || !self.files.lock().try_begin_truncation(&self.inode) {
            return;
        }
        let now = self.now();
        self.inode.size = size;
        self.inode.change += 1;
        (self.inode.mtime, self.inode.ctime) = (now, now);
        self.truth.size_at_least = self.truth.size_at_least.min(size);
        self.truth.mtime = Some((now.seconds, 0));
        self.truth.writes += 1;
        let mut files = self.files.lock();
        if self.inode.unsettled {
            files.fetched_own(&self.inode, self.truth);
        }
        files.end_truncation(self.inode.no);
        self.changes += 1;
    }

    fn question(&self) -> Question {
        let mut files = self.files.lock();
        let marks = files.marks(&self.inode);
        let quiet = !self.granted
            && !files.has_writers(self.inode.no)
            && files.stale(self.inode.no).is_none();
        Question { marks, quiet, truth: self.truth }
    }

    fn answer(&mut self, asked: Question) {
        let Question { marks, quiet, truth } = asked;
        let now = self.now();
        let quiet = quiet && !self.granted;
        let size_authority = self.size_authority();
        let learned = self.files.lock().answered(&self.inode, (marks, quiet), truth, now);
        if let Some(learned) = learned {
            assert_eq!(
                size_authority,
                SizeAuthority::DataServers,
                "nobody else has anything to learn"
            );
            self.settle(&learned, now);
        }
    }

    /// A client looks at the attributes: the size is right, and a change of the data shows.
    fn look(&mut self) {
        if self.size_authority() == SizeAuthority::DataServers {
            let question = self.question();
            self.answer(question);
        }
        if self.writing.is_some() {
            // It shows when it has ended.
            return;
        }
        assert!(self.inode.size >= self.truth.size_at_least, "a size too small is told");
        let (changes, change) = self.looked;
        let advanced = self.inode.change > change || self.changes == changes;
        assert!(advanced, "a change does not show: {:?}, {:?}", self.inode, self.looked);
        self.looked = (self.changes, self.inode.change);
        if self.size_authority() == SizeAuthority::DataServers {
            let question = self.question();
            self.answer(question);
        }
        assert_eq!(self.inode.change, self.looked.1, "looking twice is no change");
    }

    fn restart(&mut self) {
        if self.writing.take().is_some() {
            drop(Writing { records: &self.files, ino: self.inode.no });
        }
        self.late |= self.granted;
        self.granted = false;
        self.files = Records::default();
        self.questions.clear();
    }

    /// The data servers refuse what is of before the restart.
    fn fence(&mut self) {
        let mut files = self.files.lock();
        files.marks(&self.inode);
        if let Some(stale) = files.stale(self.inode.no) {
            self.inode.fence_epoch += ROW;
            files.raised(self.inode.no);
            files.told(self.inode.no, stale, self.inode.fence_epoch);
            self.late = false;
        }
    }

    /// Who is said to know it does.
    fn check(&self) {
        let knows = match self.size_authority() {
            SizeAuthority::Volume => true,
            SizeAuthority::VolumeExtending => self.writing.is_none(),
            SizeAuthority::DataServers => false,
        };
        if knows {
            let (has, is) = (self.inode.size, self.truth.size_at_least);
            assert!(has >= is, "the volume is said to know, and has {has} of {is} bytes");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    /// In any order of events the volume is relied upon only if it knows, whoever looks is told all
    /// bytes there are, and sees the change attribute move when they changed.
    #[test]
    fn the_size_is_known_to_who_is_said_to_know_it(
        events in proptest::collection::vec(event(), 0..80)
    ) {
        let mut world = World::new();
        for event in events {
            world.step(event);
            world.check();
        }
        world.look();
    }
}
