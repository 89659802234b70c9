//! Has pairs of clients act on files in turn, and holds what each sees against the model.

use std::collections::{BTreeMap, VecDeque};
use std::fmt::{self, Display};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use weft_dev::SeededRng;

use super::excuses::{Excuse, Past, excuse, excuse_failure};
use super::hands::{Failure, Hand, Pool};
use super::kinds::{Can, Kind};
use super::ledger::Ledger;
use super::model::{Model, Seen};
use super::ops::Op;
use super::plan::{Act, CLASSES, Glance, Plan, Step, plan};

/// Old bytes have come 40 s after the last close: each file is looked at once more after this.
pub const LATER: Duration = Duration::from_secs(45);
/// Folders that files are spread over.
pub const DIRS: u64 = 4;
/// Bytes that a watcher reads, again and again.
const WATCHED: u64 = 16 << 10;
const WATCHES: u32 = 100;
/// So many bytes take a while: a fault can be in the middle.
const MUCH: u64 = 1 << 20;

/// One client.
#[derive(Clone, Debug)]
pub struct Instance {
    pub name: String,
    pub kind: Kind,
    pub can: Can,
    /// How it is mounted, for reports.
    pub options: String,
}

/// Something that was not as the model has it.
#[derive(Clone, Debug)]
pub struct Finding {
    pub what: String,
    pub after: Duration,
    pub faults: Vec<String>,
    pub pair: [usize; 2],
    pub plan: Plan,
    /// Index of the step, or none: it was seen later.
    pub step: Option<usize>,
}

impl Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Plan { seed, class, .. } = self.plan;
        let after = self.after.as_secs_f64();
        write!(f, "after {after:.1} s, {:?}, plan {seed} class {class}: {}", self.faults, self.what)
    }
}

/// A file that will be looked at again.
struct Later {
    name: String,
    model: Model,
    pair: [usize; 2],
    plan: Plan,
    due: Instant,
}

/// What a fault was, from when to when.
struct Trouble {
    name: String,
    ended: Option<Instant>,
}

pub struct Judge {
    pub pool: Arc<Pool>,
    pub roster: Vec<Instance>,
    pub ledger: Mutex<Ledger>,
    pub findings: Mutex<Vec<Finding>>,
    pub excuses: Mutex<BTreeMap<Excuse, u64>>,
    pub stopped: AtomicBool,
    pub tries: AtomicU64,
    pub looked_later: AtomicU64,
    /// Seed and class of the only plan that there is.
    pub only: Option<(u64, usize)>,
    later: Mutex<VecDeque<Later>>,
    /// Whether a fault waits for somebody who writes much.
    wants_writer: (Mutex<bool>, Condvar),
    troubles: Mutex<Vec<Trouble>>,
    files: AtomicU64,
    began: Instant,
}

/// Why a life ended early.
struct Wrong {
    what: String,
    faults: Vec<String>,
}

impl Judge {
    /// A judge of these clients, whose hands are in the pool.
    pub fn new(pool: Arc<Pool>, roster: Vec<Instance>, ledger: Ledger) -> Judge {
        Judge {
            pool,
            roster,
            ledger: Mutex::new(ledger),
            findings: Mutex::default(),
            excuses: Mutex::default(),
            stopped: AtomicBool::new(false),
            tries: AtomicU64::new(0),
            looked_later: AtomicU64::new(0),
            only: None,
            later: Mutex::default(),
            wants_writer: Default::default(),
            troubles: Mutex::default(),
            files: AtomicU64::new(0),
            began: Instant::now(),
        }
    }

    /// Files one after another, until the judge is stopped.
    pub fn work(&self, seed: u64) {
        let mut rng = SeededRng::new(seed);
        while !self.stopped.load(Relaxed) {
            let (pair, class) = self.next(&mut rng);
            let (seed, class) = self.only.unwrap_or((rng.draw(), class));
            let plan = plan(seed, class, pair.map(|at| self.roster[at].can));
            let found = self.life(&plan, pair);
            self.findings.lock().expect("no panic in here").extend(found);
        }
    }

    /// The ordered pair of clients, of which the kinds were tried least, and a size class.
    fn next(&self, rng: &mut SeededRng) -> ([usize; 2], usize) {
        let mut all: Vec<[usize; 2]> = Vec::new();
        for a in 0..self.roster.len() {
            all.extend((0..self.roster.len()).filter(|b| *b != a).map(|b| [a, b]));
        }
        rng.shuffle(&mut all);
        let kinds = |pair: &[usize; 2]| {
            let [a, b] = pair.map(|at| self.roster[at].kind.to_string());
            (a, b)
        };
        let pairs: Vec<_> = all.iter().map(kinds).collect();
        let ledger = self.ledger.lock().expect("no panic in here");
        // By chance now and then: workers that all look at once must not all choose the same.
        let at = if rng.one_in(2) { rng.index(all.len()) } else { ledger.least(&pairs) };
        let class = match rng.one_in(2) {
            true => rng.index(CLASSES.len()),
            false => ledger.least_class(&pairs[at], CLASSES.len()),
        };
        (all[at], class)
    }

    /// Lets a plan happen to a new file; what was found.
    pub fn life(&self, plan: &Plan, pair: [usize; 2]) -> Option<Finding> {
        let number = self.files.fetch_add(1, Relaxed);
        // Another server may have files of earlier runs.
        let name = format!("d{}/f{}-{number}", number % DIRS, std::process::id());
        let mut model = Model::default();
        let [Some(mut first), Some(mut second)] =
            pair.map(|at| self.pool.take(&self.roster[at].name))
        else {
            return self.found(plan, pair, None, self.wrong(Instant::now(), "no hand is free"));
        };
        let mut found = None;
        let mut excused = false;
        let mut pasts = [Past::default(); 2];
        for (index, step) in plan.steps.iter().enumerate() {
            let (writer, reader) =
                if step.swapped { (pair[1], pair[0]) } else { (pair[0], pair[1]) };
            let cans = [self.roster[writer].can, self.roster[reader].can];
            if !step.act.fits(cans[0], cans, &model, u64::MAX) {
                continue; // a plan that was made shorter
            }
            let hands = if step.swapped {
                (&mut *second, &mut *first)
            } else {
                (&mut *first, &mut *second)
            };
            let kinds = [self.roster[writer].kind, self.roster[reader].kind];
            let [first_past, second_past] = &mut pasts;
            let pasts = match step.swapped {
                true => [second_past, first_past],
                false => [first_past, second_past],
            };
            let mut round = Round {
                judge: self,
                step,
                name: &name,
                model: &mut model,
                hands,
                cans,
                kinds,
                pasts,
            };
            let began = Instant::now();
            let done = round.play();
            self.tries.fetch_add(1, Relaxed);
            let faults = self.faults_since(began);
            let [w, r] = [writer, reader].map(|at| self.roster[at].kind.to_string());
            self.ledger.lock().expect("no panic in here").count(&w, &r, plan.class, &faults);
            if let Ok(Some(excuse)) = done {
                let mut excuses = self.excuses.lock().expect("no panic in here");
                *excuses.entry(excuse).or_default() += 1;
                excused = true;
                break;
            }
            if let Err(what) = done {
                let (w, r) = (&self.roster[writer].name, &self.roster[reader].name);
                let what = format!("{w} -> {r}: {name} {what}");
                found = self.found(plan, pair, Some(index), Wrong { what, faults });
                break;
            }
        }
        self.pool.put(&self.roster[pair[0]].name, first);
        self.pool.put(&self.roster[pair[1]].name, second);
        if found.is_none() && !excused {
            let due = Instant::now() + LATER;
            let later = Later { name, model, pair, plan: plan.clone(), due };
            self.later.lock().expect("no panic in here").push_back(later);
        }
        found
    }

    /// Looks at each file once more, by every client; ends when the judge is stopped and all that
    /// is `due` by then was looked at.
    pub fn look_later(&self) {
        loop {
            let next = self.later.lock().expect("no panic in here").pop_front();
            let Some(later) = next else {
                if self.stopped.load(Relaxed) {
                    return;
                }
                std::thread::sleep(Duration::from_millis(200));
                continue;
            };
            std::thread::sleep(later.due.saturating_duration_since(Instant::now()));
            for instance in &self.roster {
                let began = Instant::now();
                let Some(mut hand) = self.pool.take(&instance.name) else { continue };
                let seen = hand.look(&later.name, 'n', instance.can.is_command);
                self.pool.put(&instance.name, hand);
                let what = match seen {
                    Ok(seen) => later.model.differs(seen.as_ref(), &Model::default()),
                    Err(failure) => Some(failed("looking", &failure, &[])),
                };
                if let Some(what) = what {
                    let what = format!("later, {}: {} {what}", instance.name, later.name);
                    let found = self.found(&later.plan, later.pair, None, self.wrong(began, &what));
                    self.findings.lock().expect("no panic in here").extend(found);
                    break;
                }
            }
            self.looked_later.fetch_add(1, Relaxed);
            if later.model.file.is_some()
                && let Some(mut hand) = self.pool.take(&self.roster[0].name)
            {
                // What cannot be removed stays: this is only for room.
                let _ = hand.act(&[Op::Unlink { name: later.name }]);
                self.pool.put(&self.roster[0].name, hand);
            }
        }
    }

    /// Returns when somebody begins to write much, or after this time.
    pub fn until_somebody_writes(&self, time: Duration) {
        let (wants, came) = &self.wants_writer;
        let mut wants = wants.lock().expect("no panic in here");
        *wants = true;
        drop(came.wait_timeout_while(wants, time, |wants| *wants).expect("no panic in here"));
    }

    /// Somebody begins to write this much.
    fn writes(&self, len: u64) {
        let (wants, came) = &self.wants_writer;
        let mut wants = wants.lock().expect("no panic in here");
        *wants &= len < MUCH;
        came.notify_all();
    }

    /// A fault begins, or is over.
    pub fn fault(&self, name: &str, begins: bool) {
        let mut troubles = self.troubles.lock().expect("no panic in here");
        if begins {
            troubles.push(Trouble { name: name.to_owned(), ended: None });
            let mut ledger = self.ledger.lock().expect("no panic in here");
            *ledger.faults.entry(name.to_owned()).or_default() += 1;
        } else if let Some(last) = troubles.last_mut() {
            last.ended = Some(Instant::now());
        }
    }

    fn faults_since(&self, began: Instant) -> Vec<String> {
        let troubles = self.troubles.lock().expect("no panic in here");
        let met = |t: &&Trouble| t.ended.is_none_or(|ended| ended >= began);
        troubles.iter().filter(met).map(|t| t.name.clone()).collect()
    }

    fn wrong(&self, began: Instant, what: &str) -> Wrong {
        Wrong { what: what.to_owned(), faults: self.faults_since(began) }
    }

    fn found(
        &self,
        plan: &Plan,
        pair: [usize; 2],
        step: Option<usize>,
        wrong: Wrong,
    ) -> Option<Finding> {
        let Wrong { what, faults } = wrong;
        let after = self.began.elapsed();
        let finding = Finding { what, after, faults, pair, plan: plan.clone(), step };
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_secs());
        let (hour, minute, second) = (now / 3600 % 24, now / 60 % 60, now % 60);
        eprintln!("FOUND at {hour:02}:{minute:02}:{second:02}Z {finding}");
        Some(finding)
    }
}

/// One step of a file's life.
struct Round<'a> {
    judge: &'a Judge,
    step: &'a Step,
    name: &'a str,
    model: &'a mut Model,
    /// Writer and reader.
    hands: (&'a mut (dyn Hand + 'static), &'a mut (dyn Hand + 'static)),
    cans: [Can; 2],
    kinds: [Kind; 2],
    pasts: [&'a mut Past; 2],
}

impl Round<'_> {
    fn play(&mut self) -> Result<Option<Excuse>, String> {
        self.glance()?;
        let requests = self.step.requests(self.name, self.cans[0]);
        if matches!(self.step.act, Act::Locked { .. }) {
            return self.locked(&requests).map(|()| None);
        }
        if let Some(excuse) = self.change(&requests[0])? {
            return Ok(Some(excuse));
        }
        let before = self.model.clone();
        self.model.apply(self.name, &requests[0]);
        let looked = self.hands.1.look(self.name, self.step.read, self.cans[1].is_command);
        let is_there = !matches!(looked, Ok(None));
        let compared = self.compare(looked, &before);
        let [wrote, read] = &mut self.pasts;
        wrote.made_beside |= matches!(self.step.act, Act::Rename { .. } | Act::Copy { .. });
        wrote.saw_absent = self.model.file.is_none();
        match compared {
            Ok(()) => read.saw_absent = !is_there,
            Err(what) => {
                let excuse = excuse(self.kinds[1], **read, &self.step.act, is_there);
                return excuse.map(Some).ok_or(what);
            }
        }
        Ok(None)
    }

    fn glance(&mut self) -> Result<(), String> {
        // A kernel would believe for a while that it is not there: see the excuses.
        if self.model.file.is_none() && matches!(self.kinds[1], Kind::Kernel(_)) {
            return Ok(());
        }
        let name = self.name.to_owned();
        let looked = match self.step.glance {
            Glance::Nothing => return Ok(()),
            Glance::Stat => self.hands.1.act(&[Op::Stat { name }]).map(drop),
            Glance::List => {
                let dir = self.name.split('/').next().unwrap_or_default().to_owned();
                self.hands.1.act(&[Op::List { dir }]).map(drop)
            }
            Glance::Read => self.hands.1.look(&name, 'n', self.cans[1].is_command).map(drop),
        };
        match looked {
            Err(failure) if !failure.is_absent() => Err(failed("glancing", &failure, &[])),
            _ => Ok(()),
        }
    }

    /// The writer acts; the reader may read meanwhile what that leaves alone.
    fn change(&mut self, ops: &[Op]) -> Result<Option<Excuse>, String> {
        let began = Instant::now();
        let size = self.model.file.as_ref().map_or(0, |file| file.bytes.len() as u64);
        let end = self.step.act.leaves_before(size);
        let at = end.saturating_sub(WATCHED);
        let (writer, reader) = (&mut *self.hands.0, &mut *self.hands.1);
        let watches = self.step.watch && end > 0 && !self.cans[1].is_command;
        let open = Op::Open { flags: "r", mode: 0, name: self.name.to_owned() };
        self.judge.writes(self.step.act.writes());
        let watch = [open, Op::Again { at, len: end - at, times: WATCHES }, Op::Close];
        let (changed, watched) = std::thread::scope(|scope| {
            let watched = watches.then(|| scope.spawn(|| reader.act(&watch)));
            (writer.act(ops), watched.map(|watched| watched.join().expect("no panic in here")))
        });
        if let Err(failure) = changed {
            let faults = self.judge.faults_since(began);
            let who = (self.kinds[0], *self.pasts[1]);
            let excuse = excuse_failure(who, ops.get(failure.index), &failure, &faults);
            return excuse.map(Some).ok_or_else(|| failed("changing", &failure, ops));
        }
        let Some(watched) = watched else { return Ok(None) };
        let watched = watched.map_err(|f| failed("watching", &f, &watch))?;
        let bytes = self.model.file.as_ref().map(|file| &file.bytes[at as usize..end as usize]);
        let wanted = format!("{:08x},", super::pattern::crc(bytes.unwrap_or_default()));
        if watched.trim() == wanted {
            return Ok(None);
        }
        Err(format!("read beside {:?}: {at}..{end} were {watched}, not {wanted}", self.step.act))
    }

    fn locked(&mut self, requests: &[Vec<Op>]) -> Result<(), String> {
        let Act::Locked { kind, .. } = self.step.act else { return Ok(()) };
        let open = Op::Open { flags: "b", mode: 0, name: self.name.to_owned() };
        self.hands.1.act(&[open]).map_err(|f| failed("opening to lock", &f, &[]))?;
        for ops in requests {
            self.hands.0.act(ops).map_err(|f| failed("changing under a lock", &f, ops))?;
            let before = self.model.clone();
            self.model.apply(self.name, ops);
            let lock = |hold| Op::Lock { kind, hold };
            let looked = self.hands.1.act(&[lock('r'), Op::Read { how: 'n' }, lock('u')]);
            let parse = |told: String| Seen::parse(&told);
            self.compare(looked.map(parse), &before)?;
        }
        let closed = [self.hands.0.act(&[Op::Close]), self.hands.1.act(&[Op::Close])];
        closed.into_iter().try_for_each(|c| c.map(drop).map_err(|f| failed("closing", &f, &[])))
    }

    fn compare(
        &mut self,
        looked: Result<Option<Seen>, Failure>,
        before: &Model,
    ) -> Result<(), String> {
        let seen = looked.map_err(|f| failed("looking", &f, &[]))?;
        match self.model.differs(seen.as_ref(), before) {
            None => Ok(()),
            Some(what) => Err(format!(
                "{what}; {}; after {:?}, glanced {:?}, read {}{}{}",
                self.again(before),
                self.step.act,
                self.step.glance,
                self.step.read,
                if self.judge.troubles.lock().expect("no panic").is_empty() {
                    ", no fault so far"
                } else {
                    ""
                },
                if self.step.watch { ", watched" } else { "" },
            )),
        }
    }

    /// Looks again, and past the reader's cache, to tell a fault of the client from one of servers.
    fn again(&mut self, before: &Model) -> String {
        let mut look = |how| {
            let looked = self.hands.1.look(self.name, how, self.cans[1].is_command);
            told(&looked, self.model, before)
        };
        let again = look(self.step.read);
        let direct = if self.cans[1].direct { look('d') } else { "not asked" };
        format!("again {again}, past the cache {direct}")
    }
}

/// The outcome of a second look, for reports.
fn told(looked: &Result<Option<Seen>, Failure>, model: &Model, before: &Model) -> &'static str {
    match looked {
        Err(_) => "failed",
        Ok(seen) if model.differs(seen.as_ref(), before).is_some() => "wrong",
        Ok(_) => "right",
    }
}

fn failed(doing: &str, failure: &Failure, ops: &[Op]) -> String {
    let Failure { index, errno, words } = failure;
    let op = ops.get(*index).map(Op::to_string).unwrap_or_default();
    format!("failed {doing}, {op}: {words} ({errno})")
}
