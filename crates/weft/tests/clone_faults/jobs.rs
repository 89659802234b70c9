//! Clones and copies by chance between a few files, one after another until one is interrupted,
//! and what is known of the files.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use weft_client::ClientError;
use weft_client::fs::{Client, FsError, OpenOptions};
use weft_client::session::Session;
use weft_dev::SeededRng;
use weft_nfs::ops::{CloneArgs, CopyArgs, LookupArgs, Netlocs, OffloadStatusArgs, SetattrArgs};
use weft_nfs::{Attrs, Component, NfsStat, OpArgs, OpOk, Stateid};

use super::marks::{self, WORD, Words};

/// What offsets of clones are multiples of.
const BLOCK: u64 = 4096;
const MIB: u64 = 1 << 20;
/// Most that is copied before the reply.
const COPY_BYTES_MAX: u64 = 32 * MIB;
/// How often a copy in the background is asked for its end.
const LOOK: Duration = Duration::from_millis(3);

/// What those who clone are told.
#[derive(Debug, Default)]
pub struct Signal {
    /// A fault may happen from now on: before that nothing is refused.
    pub near: AtomicBool,
    /// It has happened: begin nothing more.
    pub stop: AtomicBool,
    /// Somebody was interrupted.
    pub met: AtomicBool,
}

impl Signal {
    fn is_stop(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }

    fn expects(&self, end: End, of: &str) {
        self.met.store(true, Ordering::Release);
        assert!(self.near.load(Ordering::Acquire), "{of}: {end:?} before any fault");
    }
}

/// A file and what it holds.
#[derive(Clone, Debug)]
pub struct File {
    pub name: String,
    pub words: Words,
}

impl File {
    pub fn bytes(&self) -> u64 {
        self.words.len() as u64 * WORD
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Act {
    Clone,
    Copy { synchronous: bool },
    Cut,
}

/// A change of one file of a job; bytes. A cut is one to the length `to`.
#[derive(Clone, Copy, Debug)]
pub struct Change {
    act: Act,
    source: usize,
    pub target: usize,
    from: u64,
    to: u64,
    len: u64,
}

/// How a change ended.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum End {
    Done,
    /// So many bytes were copied, and the rest may have been.
    Part(u64),
    Refused(NfsStat),
    /// There is no answer.
    Unknown,
    /// It went on in the background and has ended: how was told to who answers callbacks.
    Ended,
}

impl Change {
    /// The words of the target that the first bytes of it become.
    pub fn words(&self, bytes: u64) -> std::ops::Range<usize> {
        (self.to / WORD) as usize..((self.to + bytes) / WORD) as usize
    }

    /// A clone over itself, which is refused.
    fn overlaps(&self) -> bool {
        let apart = self.from.abs_diff(self.to) >= self.len;
        self.act == Act::Clone && self.source == self.target && !apart
    }
}

/// Files among which one client clones and copies.
#[derive(Clone, Debug)]
pub struct Job {
    pub files: Vec<File>,
    /// Bytes of the largest.
    pub largest: u64,
    pub random: SeededRng,
    /// What was begun last and has not been done; it may have been in part.
    pub pending: Option<(Change, End)>,
    pub done: u64,
}

impl Job {
    /// Changes files until told to stop, or until a change is not done.
    pub async fn run(mut self, client: Client, signal: Arc<Signal>) -> Job {
        while !signal.is_stop() {
            let Some(change) = self.choose() else { continue };
            let end = self.carry_out(&client, &change).await;
            if end != End::Done {
                signal.expects(end, &format!("{change:?}"));
                self.pending = Some((change, end));
                break;
            }
            self.acknowledge(&change);
        }
        self
    }

    /// It is done.
    pub fn acknowledge(&mut self, change: &Change) {
        self.files[change.target].words = self.after(change);
        self.done += 1;
    }

    /// What the target holds when all is done.
    pub fn after(&self, change: &Change) -> Words {
        let mut words = self.files[change.target].words.clone();
        if change.overlaps() {
            return words;
        }
        let [from, to, len] = [change.from, change.to, change.len].map(|b| (b / WORD) as usize);
        if change.act == Act::Cut {
            words.resize(to, 0);
            return words;
        }
        words.resize(words.len().max(to + len), 0);
        words[to..to + len].copy_from_slice(&self.files[change.source].words[from..from + len]);
        words
    }

    /// The file that was changed last becomes as long as any.
    pub fn growth(&self, change: &Change) -> Change {
        Change { act: Act::Cut, to: self.largest, ..*change }
    }

    fn choose(&mut self) -> Option<Change> {
        let (source, target) =
            (self.random.index(self.files.len()), self.random.index(self.files.len()));
        let act = match self.random.below(12) {
            0..=6 => Act::Clone,
            7 | 8 => Act::Copy { synchronous: true },
            9 | 10 => Act::Copy { synchronous: false },
            _ => Act::Cut,
        };
        let (has, reaches) = (self.files[source].bytes(), self.files[target].bytes());
        let unit = if act == Act::Clone { BLOCK } else { WORD };
        let from = self.place(has, unit);
        let to = match self.random.below(4) {
            0 => from,
            1 => from % MIB + self.random.below(self.largest / MIB + 1) * MIB,
            2 => reaches.next_multiple_of(unit),
            _ => self.place(self.largest, unit),
        };
        let left = has.saturating_sub(from);
        let len = match self.random.below(3) {
            0 => left,
            _ => self.place(left + 1, unit),
        };
        // Part of a block only where both files end; where a clone moves its source's end, that is
        // no more so when it is asked for again.
        let ends = len == left && to + len >= reaches && source != target;
        let len = if ends { len } else { len - len % unit };
        let at_once = act == Act::Copy { synchronous: true };
        let len = if at_once { len.min(COPY_BYTES_MAX) } else { len };
        let change = Change { act, source, target, from, to, len };
        let copies_itself = matches!(act, Act::Copy { .. }) && source == target;
        let too_long = to + len > self.largest;
        match act {
            Act::Cut => Some(Change { to: to.min(self.largest), ..change }),
            _ if copies_itself || too_long || len == 0 => None,
            _ => Some(change),
        }
    }

    fn place(&mut self, below: u64, unit: u64) -> u64 {
        let at = self.random.below(below.max(1));
        at - at % unit
    }

    /// Asks for a change and finds out how it ended.
    pub async fn carry_out(&self, client: &Client, change: &Change) -> End {
        let end = self.send(client.session(), change).await;
        if change.overlaps() {
            assert_ne!(end, End::Done, "{change:?}");
            return if end == End::Refused(NfsStat::INVAL) { End::Done } else { end };
        }
        if end != End::Ended {
            return end;
        }
        let done = read(client, &self.files[change.target].name).await;
        if done.is_ok_and(|words| words == self.after(change)) { End::Done } else { end }
    }

    async fn send(&self, session: &Session, change: &Change) -> End {
        let (source, target) = (&self.files[change.source], &self.files[change.target]);
        let Change { from, to, len, .. } = *change;
        let op = match change.act {
            Act::Clone => clone(from, to, len),
            Act::Copy { synchronous } => copy((from, to, len), synchronous),
            Act::Cut => cut(to),
        };
        let answer = match change.act {
            Act::Cut => ask(session, path(&target.name), op).await,
            _ => ask(session, both(&source.name, &target.name), op).await,
        };
        match answer {
            Ok(OpOk::Copy(ok)) => match ok.response.callback_id {
                None if ok.response.count == len => End::Done,
                None => End::Part(ok.response.count),
                Some(id) => end_of(session, &target.name, id).await,
            },
            Ok(_) => End::Done,
            Err(end) => end,
        }
    }
}

/// Waits for the end of a copy in the background.
async fn end_of(session: &Session, name: &str, stateid: Stateid) -> End {
    loop {
        let op = OpArgs::OffloadStatus(OffloadStatusArgs { stateid });
        match ask(session, path(name), op).await {
            Ok(OpOk::OffloadStatus(status)) => match status.complete {
                None => tokio::time::sleep(LOOK).await,
                Some(NfsStat::OK) => return End::Done,
                Some(refused) => return End::Refused(refused),
            },
            Ok(_) | Err(End::Refused(NfsStat::BAD_STATEID)) => return End::Ended,
            Err(end) => return end,
        }
    }
}

/// All of a file.
pub async fn read(client: &Client, name: &str) -> Result<Words, FsError> {
    let file = client.open(name, OpenOptions::read()).await?;
    let size = usize::try_from(file.size()).expect("a small file");
    let bytes = file.read_at(0, size).await?;
    file.close().await?;
    assert_eq!(bytes.len(), size, "{name}");
    Ok(marks::from_bytes(name, &bytes))
}

/// What the last operation of a request was answered.
async fn ask(session: &Session, mut ops: Vec<OpArgs>, op: OpArgs) -> Result<OpOk, End> {
    ops.push(op);
    match session.compound(ops).await {
        Ok(mut done) => Ok(done.pop().expect("a result")),
        Err(ClientError::Nfs { status, .. }) => Err(End::Refused(status)),
        Err(_) => Err(End::Unknown),
    }
}

fn clone(from: u64, to: u64, count: u64) -> OpArgs {
    let (src_stateid, dst_stateid) = (Stateid::ANONYMOUS, Stateid::ANONYMOUS);
    OpArgs::Clone(CloneArgs { src_stateid, dst_stateid, src_offset: from, dst_offset: to, count })
}

fn copy((from, to, count): (u64, u64, u64), synchronous: bool) -> OpArgs {
    OpArgs::Copy(CopyArgs {
        src_stateid: Stateid::ANONYMOUS,
        dst_stateid: Stateid::ANONYMOUS,
        src_offset: from,
        dst_offset: to,
        count,
        consecutive: true,
        synchronous,
        source_server: Netlocs::default(),
    })
}

fn cut(size: u64) -> OpArgs {
    let attrs = Attrs { size: Some(size), ..Attrs::default() };
    OpArgs::Setattr(SetattrArgs { stateid: Stateid::ANONYMOUS, attrs: Box::new(attrs) })
}

/// To a path.
fn path(path: &str) -> Vec<OpArgs> {
    let names = path.split('/').filter(|name| !name.is_empty());
    let component = |name: &str| Component(name.as_bytes().to_vec().into());
    let lookups = names.map(|name| OpArgs::Lookup(LookupArgs { name: component(name) }));
    [OpArgs::Putrootfh].into_iter().chain(lookups).collect()
}

fn both(source: &str, target: &str) -> Vec<OpArgs> {
    let mut ops = path(source);
    ops.push(OpArgs::Savefh);
    ops.extend(path(target));
    ops
}

/// Two files of one length, each cloned over the other at once: every word is that of the one or
/// the other at its place.
#[derive(Clone, Debug)]
pub struct Pair {
    pub files: [File; 2],
    pub random: SeededRng,
    /// Why it ended, if not because it was told to.
    pub ended: Option<End>,
    pub done: u64,
}

impl Pair {
    /// Clones until told to stop, or until one is not done.
    pub async fn run(mut self, client: Client, signal: Arc<Signal>) -> Pair {
        let [one, other] = &self.files;
        let (there, back) = (both(&one.name, &other.name), both(&other.name, &one.name));
        while !signal.is_stop() && self.ended.is_none() {
            let size = one.bytes();
            let at = self.random.below(size / BLOCK) * BLOCK;
            let len = (1 + self.random.below((size - at) / BLOCK)) * BLOCK;
            let ask = |way: &Vec<OpArgs>| ask(client.session(), way.clone(), clone(at, at, len));
            let ends = tokio::join!(ask(&there), ask(&back));
            self.ended = ends.0.err().or(ends.1.err());
            self.ended.into_iter().for_each(|end| signal.expects(end, "one over the other"));
            self.done += 1;
        }
        self
    }
}
