//! Sequences of acts by users on hosts that the export treats in different ways, against rules
//! written down a second time ([`world`]): no bytes and no names come to whom they must not come,
//! nobody changes what he must not, nobody ends or uses what another's client holds, and what is
//! allowed works.
//!
//! Seeded: each act of a sequence draws from its own seed, so that a failing sequence is made
//! shorter by leaving acts out. `WEFT_ORACLE_SEED` chooses the first seed, `WEFT_ORACLE_RUNS` how
//! many, `WEFT_ORACLE_MINUTES` for how long instead.

#[allow(unused_imports, reason = "a test binary uses what it needs of this")]
#[path = "../support/mod.rs"]
mod support;

mod clients;
mod compare;
mod data;
mod held;
mod lists;
mod logs;
mod names;
mod protect;
mod run;
mod storage;
mod world;

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant, SystemTime},
};

use weft_dev::{SeededRng, env};
use weft_nfs::{OpArgs, share};

use self::{
    data::By,
    protect::Protection,
    run::{AUDITOR, Actor, Fault, Figures, Run, USERS},
    world::{Body, Node, World},
};

/// Whether handles of data servers end when a change of mode or owner takes the right away that
/// they were given for, and those to write when the last layout to write is back.
const HANDLES_END: bool = true;

/// Acts of a sequence.
const ACTS: usize = 600;
/// Acts between two looks at everything.
const COMPARE_EVERY: usize = 50;
/// Seeds of the usual test, beside one that is new every time.
const SEEDS: u64 = 6;
/// How long a sequence that fails is made shorter.
const SHORTEN: Duration = Duration::from_secs(30);

impl Run {
    /// A tree to begin with: directories and files of all users.
    async fn begin(&mut self) -> Result<(), Fault> {
        let Some(reply) = self.ask(AUDITOR, &[OpArgs::Putrootfh, OpArgs::Getfh]).await? else {
            return run::fault("root is not served");
        };
        self.world.add(Node {
            handle: reply.fh(),
            body: Body::Directory(BTreeMap::new()),
            mode: 0o755,
            list: None,
            is_rewritten: false,
            uid: 0,
            gid: 0,
            xattrs: BTreeMap::new(),
            links: 1,
            verifier: None,
            seen: None,
        });
        self.set_mode(AUDITOR, World::ROOT, 0o755).await?;
        for (bits, uid) in [(0o777, 0), (0o1777, 0), (0o755, 1000), (0o770, 1001), (0o711, 1000)] {
            let Some(dir) =
                self.make_directory(AUDITOR, World::ROOT, Protection::Mode(bits)).await?
            else {
                continue;
            };
            let gid = Some(100);
            self.set_ids(AUDITOR, dir, (Some(uid), gid)).await?;
            if self.one_in(3) {
                self.set_some_list(AUDITOR, dir).await?;
            }
            for uid in [0, 1001] {
                let bits = Protection::Mode(self.file_mode());
                let both = (share::ACCESS_BOTH, By::Guarded);
                if let Some(file) = self.make_file(AUDITOR, dir, bits, both).await? {
                    self.set_ids(AUDITOR, file, (Some(uid), gid)).await?;
                    if self.one_in(3) {
                        self.set_some_list(AUDITOR, file).await?;
                    }
                }
            }
        }
        Ok(())
    }

    async fn one(&mut self, a: Actor) -> Result<(), Fault> {
        match self.random.index(100) {
            0..=4 => self.look(a).await,
            5 => self.ask_security(a).await,
            6..=9 => self.list(a).await,
            10..=13 => self.make_something(a).await,
            14..=17 => self.remove(a).await,
            18..=20 => self.move_name(a).await,
            21..=22 => self.link_name(a).await,
            23 => self.read_link(a).await,
            24..=26 => self.ask_access(a).await,
            27..=36 => self.set_attributes(a).await,
            37..=39 => self.extended(a).await,
            40..=41 => self.set_size(a).await,
            42..=52 => self.open_something(a).await,
            53..=60 => self.read(a).await,
            61..=66 => self.write(a).await,
            67 => self.seek(a).await,
            68 => self.punch(a).await,
            69..=71 => self.copy(a).await,
            72..=75 => self.close(a).await,
            76..=78 => self.lock(a).await,
            79 => self.unlock(a).await,
            80 => self.give_back(a).await,
            81..=86 => self.get_layout(a).await,
            87..=88 => self.return_layout(a).await,
            89..=94 => self.use_storage(a).await,
            95 => self.pose(a).await,
            96 => self.lie_in_wait(a).await,
            97 => self.destroy(a).await,
            98 => self.start_anew(a.host).await,
            _ => {
                self.change_export();
                Ok(())
            }
        }
    }
}

/// Names the seed of a sequence that ends in a panic.
struct Named(u64);

impl Drop for Named {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("WEFT_ORACLE_SEED={}", self.0);
        }
    }
}

/// One sequence without some of its acts: what it did, and its fault with all that led to it.
async fn sequence(seed: u64, left_out: &BTreeSet<usize>) -> (Figures, Option<(usize, String)>) {
    let _named = Named(seed);
    logs::begin();
    let mut run = Run::new(seed).await;
    let mut at = 0;
    let outcome = acts(&mut run, seed, left_out, &mut at).await;
    let fault = outcome.err().map(|Fault(fault)| {
        let log = run.log.join("\n");
        (at, format!("{log}\nFAULT: {fault}"))
    });
    (run.figures, fault)
}

async fn acts(
    run: &mut Run,
    seed: u64,
    left_out: &BTreeSet<usize>,
    at: &mut usize,
) -> Result<(), Fault> {
    run.begin().await?;
    while *at < ACTS {
        run.random = SeededRng::new(seed << 16 | *at as u64);
        if !left_out.contains(at) {
            let host = run.random.index(run.hosts.len());
            let a = Actor { host, user: run.random.index(USERS.len()) };
            if run::restarts(seed) && run.one_in(150) {
                run.restart().await?;
            } else {
                run.one(a).await?;
            }
            run.figures.acts += 1;
        }
        *at += 1;
        if at.is_multiple_of(COMPARE_EVERY) {
            run.compare().await?;
        }
    }
    Ok(())
}

/// Leaves out whatever the fault does not need, for as long as there is time.
async fn shortened(seed: u64, (mut at, mut text): (usize, String)) -> String {
    let until = Instant::now() + SHORTEN;
    let mut left_out: BTreeSet<usize> = (at + 1..ACTS).collect();
    let mut step = (at / 2).max(1);
    while step > 0 {
        let mut from = 0;
        while from <= at && Instant::now() < until {
            let more: BTreeSet<_> = left_out.iter().copied().chain(from..from + step).collect();
            if more.len() > left_out.len()
                && let (_, Some((earlier, shorter))) = sequence(seed, &more).await
            {
                (at, text, left_out) = (earlier, shorter, more);
            }
            from += step;
        }
        step /= 2;
    }
    text
}

/// Runs sequences until `enough` says so, or one fails.
async fn sequences(mut seed: u64, enough: impl Fn(u64) -> bool) -> Figures {
    let (mut figures, begun) = (Figures::default(), Instant::now());
    let mut said = Instant::now();
    while !enough(seed) {
        let (one, fault) = sequence(seed, &BTreeSet::new()).await;
        figures.add(&one);
        if let Some(fault) = fault {
            let (after, logged) = ((begun.elapsed(), figures.sequences), logs::told());
            let first = fault.1.clone();
            let text = shortened(seed, fault).await;
            let seed = format!("WEFT_ORACLE_SEED={seed}, after {after:?}");
            panic!("{seed}:\n{first}\nservers:\n{logged}\nmade shorter:\n{text}");
        }
        seed += 1;
        if said.elapsed() > Duration::from_secs(60) {
            println!("{:?}: {figures:?}", begun.elapsed());
            said = Instant::now();
        }
    }
    println!("{:?}: {figures:?}", begun.elapsed());
    figures
}

/// See the module.
#[tokio::test]
async fn nobody_gets_what_is_not_his() {
    if let Some(first) = env("WEFT_ORACLE_SEED") {
        let last = first + env("WEFT_ORACLE_RUNS").unwrap_or(1);
        sequences(first, |seed| seed == last).await;
        return;
    }
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    let random = 1000 + now.as_nanos() as u64 % (1 << 40);
    if let Some(minutes) = env("WEFT_ORACLE_MINUTES") {
        let until = Instant::now() + Duration::from_secs(60 * minutes);
        sequences(random, |_| Instant::now() > until).await;
        return;
    }
    let figures = sequences(1, |seed| seed > SEEDS).await;
    println!("WEFT_ORACLE_SEED={random}");
    sequences(random, |seed| seed > random).await;
    // Neither everything nor nothing is refused.
    assert!(figures.done > figures.acts / 6 && figures.refused > figures.acts / 10, "{figures:?}");
    assert!(figures.markers > figures.acts / 4, "{figures:?}");
    assert!(figures.lists > figures.acts / 50, "{figures:?}");
}
