//! The transition tables of what is remembered of a file.

use weft_dev::{Machine, Outcome, assert_snapshot};
use weft_nfs::ClientId;
use weft_store::types::Timestamp;

use weft_store::types::fence_epoch::ROW;

use super::{tests::file, *};

const CLIENT: ClientId = ClientId(1);

/// One file, and how often its epoch was raised in the volume.
struct OneFile {
    files: Records,
    inode: Inode,
    /// Indirect writes under way.
    writing: usize,
}

impl OneFile {
    fn new() -> OneFile {
        OneFile { files: Records::default(), inode: file(7, false), writing: 0 }
    }

    fn writers(&self) -> String {
        let table = self.files.lock();
        let writers = if table.has_writers(self.inode.no) { "being written" } else { "no writer" };
        let truncations = table.records.get(&self.inode.no).map_or(0, |r| r.truncations);
        let truncations = ["", ", being truncated", ", being truncated twice"][truncations];
        format!("{writers}{truncations}")
    }

    /// Writes are begun and ended one at a time, so that the guards need not be kept.
    fn write(&mut self) -> Outcome {
        let begun = match self.files.begin_write(&self.inode) {
            Some(writing) => {
                std::mem::forget(writing);
                self.writing += 1;
                Outcome::OK
            }
            None => Outcome::Refused("DELAY".into()),
        };
        if self.writing > 1 { self.end_write() } else { begun }
    }

    fn end_write(&mut self) -> Outcome {
        if self.writing == 0 {
            return Outcome::Never;
        }
        self.writing -= 1;
        drop(Writing { records: &self.files, ino: self.inode.no });
        Outcome::OK
    }

    fn truncations(&self) -> usize {
        self.files.lock().records.get(&self.inode.no).map_or(0, |r| r.truncations)
    }

    fn fence(&self) -> String {
        let table = self.files.lock();
        let record = table.records.get(&self.inode.no);
        let given = match record.and_then(|r| r.given.get(&CLIENT)) {
            None => "no handles out",
            Some(epoch) if *epoch == self.inode.fence_epoch => "handles out",
            Some(_) => "older handles out",
        };
        let stale = match record.and_then(|r| r.stale) {
            None => "",
            Some(Stale { raised: false, blocks_grants: false, .. }) => ", late writes: to raise",
            Some(Stale { raised: true, blocks_grants: false, .. }) => ", late writes: to tell",
            Some(Stale { raised: false, blocks_grants: true, .. }) => ", revoked: to raise",
            Some(Stale { raised: true, blocks_grants: true, .. }) => ", revoked: to tell",
        };
        let remembered = table.all_stale().contains(&self.inode.no);
        assert_eq!(remembered, !stale.is_empty(), "what is stale is found");
        format!("{given}{stale}")
    }
}

/// Indirect writes, truncations and grants keep each other away.
#[test]
fn writers_and_truncations() {
    let about = "Writers and truncations of one file, as a grant of a write layout sees them: RFC \
                 8881 §12.5.4, §13.10, §18.30.";
    let machine = Machine::new(about, OneFile::new, OneFile::writers)
        .on("indirect write begins", OneFile::write)
        .on("indirect write ends", OneFile::end_write)
        .on("truncation begins", |f| {
            let begun = f.files.lock().try_begin_truncation(&f.inode);
            if begun { Outcome::OK } else { Outcome::Refused("DELAY".into()) }
        })
        .on("truncation of before a crash is found", |f| {
            if f.truncations() > 1 {
                return Outcome::Never;
            }
            f.files.lock().begin_left_over(f.inode.no, Some(&f.inode));
            Outcome::OK
        })
        .on("truncation ends", |f| {
            if f.truncations() == 0 {
                return Outcome::Never;
            }
            f.files.lock().end_truncation(f.inode.no);
            Outcome::OK
        })
        .on("LAYOUTGET of RW", |f| match f.files.lock().refuses_grants(&f.inode) {
            true => Outcome::Refused("LAYOUTTRYLATER".into()),
            false => Outcome::OK,
        });
    assert_snapshot(env!("CARGO_MANIFEST_DIR"), "file_writers", &machine.table());
}

/// Handles given out, suspected, outranked and refused.
#[test]
fn fences() {
    let about = "The fence of one file and the handles that one client was given to write with: \
                 RFC 8881 §12.5.5, §13.6, §13.12.";
    let suspect = |why: FenceCause| {
        move |f: &mut OneFile| {
            f.files.lock().suspect_handles_of(CLIENT, &f.inode, why);
            Outcome::OK
        }
    };
    let machine = Machine::new(about, OneFile::new, OneFile::fence)
        .on("LAYOUTGET of RW", |f| {
            let mut table = f.files.lock();
            if table.refuses_grants(&f.inode) {
                return Outcome::Refused("LAYOUTTRYLATER".into());
            }
            table.grant(CLIENT, &f.inode, None);
            Outcome::OK
        })
        .on("the client writes indirectly", |f| {
            let late = f.files.lock().may_write_late(CLIENT, &f.inode);
            Outcome::said(if late { "its earlier writes may be late" } else { "" })
        })
        .on("its earlier writes may be late", suspect(FenceCause::LateWrite))
        .on("its layout is revoked", suspect(FenceCause::Revoked))
        .on("some write may be late", |f| {
            f.files.lock().suspect_late_writes(&f.inode);
            Outcome::OK
        })
        .on("a holder is gone", |f| {
            f.files.lock().suspect_revoked(f.inode.no);
            Outcome::OK
        })
        .on("the volume raises the epoch", |f| {
            let mut table = f.files.lock();
            match table.stale(f.inode.no) {
                Some(stale) if !stale.raised => {
                    f.inode.fence_epoch += ROW;
                    table.raised(f.inode.no);
                    Outcome::OK
                }
                _ => Outcome::Never,
            }
        })
        .on("all data servers know the epoch", |f| {
            let mut table = f.files.lock();
            match table.stale(f.inode.no) {
                Some(stale) if stale.raised => {
                    table.told(f.inode.no, stale, f.inode.fence_epoch);
                    Outcome::OK
                }
                _ => Outcome::Never,
            }
        })
        .on("the file is removed", |f| {
            f.files.lock().forget(f.inode.no);
            Outcome::OK
        })
        .on("the client is gone, nothing out", |f| {
            f.files.lock().forget_client(CLIENT);
            Outcome::OK
        });
    assert_snapshot(env!("CARGO_MANIFEST_DIR"), "file_fence", &machine.table());
}

/// One file, what its data servers have, and when it is.
struct OneSize {
    files: Records,
    inode: Inode,
    truth: DataServerAttrs,
    clock: i64,
}

impl OneSize {
    fn new() -> OneSize {
        let (files, truth) = (Records::default(), DataServerAttrs::default());
        OneSize { files, inode: file(7, false), truth, clock: 0 }
    }

    fn describe(&self) -> String {
        let mut table = self.files.lock();
        let who = match table.size_authority(&self.inode) {
            SizeAuthority::Volume => "recorded",
            SizeAuthority::VolumeExtending => "announced",
            SizeAuthority::DataServers => "asked",
        };
        let said = match table.records.get(&self.inode.no).and_then(|r| r.size.said) {
            Some(said) if said == self.truth => ", told",
            Some(_) => ", told before",
            None => "",
        };
        let newer = self.truth.mtime.is_some_and(|(at, _)| at > self.inode.ctime.seconds);
        let data = match (self.truth.mtime, newer) {
            (None, _) => ", no data",
            (Some(_), true) => ", newer data",
            (Some(_), false) => "",
        };
        format!("{who}{said}{data}")
    }

    /// Data reaches the data servers.
    fn land(&mut self) {
        self.clock += 1;
        self.truth.mtime = Some((self.clock, 0));
        self.truth.writes += 1;
    }

    fn size_authority(&self) -> SizeAuthority {
        self.files.lock().size_authority(&self.inode)
    }

    /// An indirect write begins.
    fn begin(&mut self, reaches_behind: bool) {
        if reaches_behind && !self.inode.unsettled {
            self.inode.unsettled = true;
            self.files.lock().mark_extending(&self.inode);
        }
        self.land();
    }

    fn write(&mut self, reaches_behind: bool) -> Outcome {
        self.begin(reaches_behind);
        self.clock += 1;
        self.inode.ctime = Timestamp { seconds: self.clock, nanos: 0 };
        self.files.lock().changed(&self.inode);
        Outcome::OK
    }

    fn ask(&mut self, quiet: bool) -> Outcome {
        if self.size_authority() != SizeAuthority::DataServers {
            return Outcome::Never;
        }
        self.clock += 1;
        let now = Timestamp { seconds: self.clock, nanos: 0 };
        let mut table = self.files.lock();
        let marks = table.marks(&self.inode);
        let learned = table.answered(&self.inode, (marks, quiet), self.truth, now);
        let Some(learned) = learned else { return Outcome::said("nothing new") };
        self.inode.unsettled &= !learned.settled;
        if learned.touched {
            self.inode.ctime = now;
        }
        Outcome::said(match (learned.mtime, learned.touched) {
            (Some(_), _) => "news",
            (None, true) => "perhaps news",
            (None, false) => "nothing new",
        })
    }
}

/// Who knows the size and the times.
#[test]
fn sizes() {
    let about = "Who knows the size and the times of one file, what its data servers said last, \
                 and what they have: RFC 8881 §12.5.4, §18.42, docs/adr/0003.";
    let machine = Machine::new(about, OneSize::new, OneSize::describe)
        .on("LAYOUTGET of RW", |f| {
            f.inode.unsettled = true;
            f.files.lock().grant(CLIENT, &f.inode, None);
            Outcome::OK
        })
        .on("a client writes to data servers", |f| {
            if f.size_authority() != SizeAuthority::DataServers {
                return Outcome::Never;
            }
            f.land();
            Outcome::OK
        })
        .on("indirect write within the file", |f| f.write(false))
        .on("indirect write behind its end", |f| f.write(true))
        .on("indirect write behind its end fails", |f| {
            f.begin(true);
            f.files.lock().change_failed(f.inode.no);
            Outcome::OK
        })
        .on("asked, all is quiet", |f| f.ask(true))
        .on("asked, others may write", |f| f.ask(false))
        .on("asked after a change of our own", |f| {
            f.files.lock().fetched_own(&f.inode, f.truth);
            Outcome::OK
        })
        .on("last CLOSE", |f| {
            if f.files.lock().closed(f.inode.no) {
                f.inode.unsettled = false;
            }
            Outcome::OK
        })
        .on("restart", |f| {
            f.files = Records::default();
            Outcome::OK
        });
    assert_snapshot(env!("CARGO_MANIFEST_DIR"), "file_size", &machine.table());
}
