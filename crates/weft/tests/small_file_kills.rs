//! Small files through kill -9 of everything, at whatever stage: made, written, grown beyond the
//! metadata server (ADR 6), cut, replaced, renamed over, removed. After each kill `weft fsck` finds
//! nothing, every file is what was acknowledged or what was under way, and in the end no object is
//! left.

mod support;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use support::cluster::{Cluster, Options};
use weft_client::fs::{Client, ClientOptions, FsError, OpenOptions};
use weft_dev::SeededRng;
use weft_nfs::NfsStat;

/// Kills of a test, unless WEFT_KILLS says otherwise.
const KILLS: u64 = 12;
/// Clients, each with files of its own.
const CLIENTS: u64 = 3;
/// Files of a client: few, so that each goes through everything.
const FILES: u64 = 4;
/// Largest file: three times what stays with the metadata server.
const LARGEST: u64 = 192 << 10;
/// Time until the servers have removed what nobody needs.
const PATIENCE: Duration = Duration::from_secs(60);

/// What a file holds; `None`: it is not there.
type Content = Option<Vec<u8>>;

/// A change that was begun and not yet acknowledged.
#[derive(Clone, Debug)]
struct Pending {
    name: String,
    after: Content,
    /// A write that is interrupted may be done in part; anything else is done or not.
    parts: bool,
    /// A rename takes this one away.
    from: Option<String>,
}

/// What one client knows of its files.
#[derive(Debug, Default)]
struct Known {
    files: BTreeMap<String, Vec<u8>>,
    pending: Option<Pending>,
    acknowledged: u64,
}

#[test]
fn small_files_survive_kill_9_at_every_stage() {
    let mut cluster = survive("all on", "");
    // Nothing is left: no data server has an object.
    let objects = || support::cluster::files_below(&cluster.data_dir(), "objects");
    support::until("end of the objects", PATIENCE, || (objects() == 0).then_some(()));
    cluster.stop();
    cluster.is_clean();
}

/// Objects that are made with their files, and ahead of them: nothing is owned twice or by nobody.
#[test]
fn objects_made_early_survive_kill_9() {
    for creation in ["eager", "precreate"] {
        let off = "[small_files]\nstuffing_limit = \"0KiB\"\ngather = false\n";
        let pool = "[precreate]\nlow = 4\nbatch = 8\n";
        let config = format!("object_creation = \"{creation}\"\n{off}{pool}");
        let mut cluster = survive(creation, &config);
        cluster.stop();
        cluster.is_clean();
    }
}

fn survive(what: &str, config: &str) -> Cluster {
    let options = Options { lease_seconds: 2, grace_seconds: 1, ..Options::default() };
    let mut cluster = Cluster::configured(options, config);
    let known: Vec<_> = (0..CLIENTS).map(|_| Arc::new(Mutex::new(Known::default()))).collect();
    let kills = std::env::var("WEFT_KILLS").map_or(KILLS, |k| k.parse().expect("a number"));
    for round in 0..kills {
        let address = SocketAddr::from(([127, 0, 0, 1], cluster.port()));
        in_runtime(async {
            verify(address, &known).await;
            let workers = (0..).zip(&known).map(|(client, known)| {
                let random = SeededRng::new(round * CLIENTS + client);
                tokio::spawn(change(address, client, known.clone(), random))
            });
            let workers: Vec<_> = workers.collect();
            tokio::time::sleep(Duration::from_millis(150 + round * 7919 % 400)).await;
            cluster.kill9();
            for worker in workers {
                worker.abort();
                let ended = worker.await;
                assert!(!ended.is_err_and(|e| e.is_panic()), "{}", cluster.log());
            }
        });
        cluster.is_clean();
        cluster.start_again();
    }
    let done: u64 = known.iter().map(|k| k.lock().expect("no panic").acknowledged).sum();
    eprintln!("{what}: {kills} kills, {done} acknowledged changes");
    assert!(done > kills * CLIENTS, "hardly anything was done: {done}");
    remove_all(&cluster, &known);
    cluster
}

/// Runs it to its end; tasks it leaves behind are dropped.
fn in_runtime(work: impl Future<Output = ()>) {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.expect("a runtime");
    runtime.block_on(work);
    runtime.shutdown_timeout(Duration::from_secs(1));
}

async fn connect(address: SocketAddr) -> Client {
    Client::connect(address, ClientOptions::default()).await.expect("connect")
}

fn name(client: u64, file: u64) -> String {
    format!("/{client}/{file}")
}

/// Changes files until the server is gone.
async fn change(address: SocketAddr, client: u64, known: Arc<Mutex<Known>>, mut random: SeededRng) {
    let session = connect(address).await;
    // It is there from the second round on.
    let _ = session.mkdir(format!("/{client}"), 0o755).await;
    loop {
        if step(&session, client, &known, &mut random).await.is_break() {
            return;
        }
    }
}

async fn step(
    session: &Client,
    client: u64,
    known: &Mutex<Known>,
    random: &mut SeededRng,
) -> ControlFlow<()> {
    let name = name(client, random.below(FILES));
    let before = known.lock().expect("no panic").files.get(&name).cloned();
    let done = match (random.below(8), before) {
        (0 | 1, _) | (_, None) => replace(session, known, &name, random).await,
        (2..=4, Some(before)) => write(session, known, &name, before, random).await,
        (5, Some(before)) => cut(session, known, &name, before, random).await,
        (6, Some(_)) => remove(session, known, &name).await,
        (_, Some(before)) => {
            let to = self::name(client, random.below(FILES));
            rename(session, known, &name, to, before).await
        }
    };
    match done {
        Ok(()) => {
            acknowledge(&mut known.lock().expect("no panic"));
            ControlFlow::Continue(())
        }
        Err(e) if e.error.status().is_some() => panic!("{e}, {:?}", known.lock()),
        Err(_) => ControlFlow::Break(()),
    }
}

/// What was under way is the truth now.
fn acknowledge(known: &mut Known) {
    let Some(Pending { name, after, from, .. }) = known.pending.take() else { return };
    from.and_then(|from| known.files.remove(&from));
    match after {
        Some(content) => known.files.insert(name, content),
        None => known.files.remove(&name),
    };
    known.acknowledged += 1;
}

fn begin(known: &Mutex<Known>, name: &str, after: Content, parts: bool) {
    let pending = Pending { name: name.to_owned(), after, parts, from: None };
    known.lock().expect("no panic").pending = Some(pending);
}

/// Most files are small, some are not.
fn length(random: &mut SeededRng) -> u64 {
    match random.below(4) {
        0 => random.below(LARGEST),
        _ => random.below(64 << 10),
    }
}

async fn replace(
    session: &Client,
    known: &Mutex<Known>,
    name: &str,
    random: &mut SeededRng,
) -> Result<(), FsError> {
    let data = support::pattern(random.draw(), length(random) as usize);
    begin(known, name, Some(data.clone()), true);
    put(session, name, OpenOptions::replace(0o644), (0, data)).await
}

async fn write(
    session: &Client,
    known: &Mutex<Known>,
    name: &str,
    mut content: Vec<u8>,
    random: &mut SeededRng,
) -> Result<(), FsError> {
    let at = random.below(content.len() as u64 + 10_000).min(LARGEST - 1) as usize;
    let data = support::pattern(random.draw(), 1 + random.below(40 << 10) as usize);
    content.resize(content.len().max(at + data.len()), 0);
    content[at..at + data.len()].copy_from_slice(&data);
    begin(known, name, Some(content), true);
    let options = OpenOptions { write: true, ..OpenOptions::default() };
    put(session, name, options, (at as u64, data)).await
}

/// Writes these bytes there, durably.
async fn put(
    session: &Client,
    name: &str,
    options: OpenOptions,
    (at, data): (u64, Vec<u8>),
) -> Result<(), FsError> {
    let file = session.open(name, options).await?;
    file.write_at(at, Bytes::from(data)).await?;
    file.close().await
}

async fn cut(
    session: &Client,
    known: &Mutex<Known>,
    name: &str,
    mut content: Vec<u8>,
    random: &mut SeededRng,
) -> Result<(), FsError> {
    let size = length(random);
    content.resize(size as usize, 0);
    begin(known, name, Some(content), false);
    session.truncate(name, size).await
}

async fn remove(session: &Client, known: &Mutex<Known>, name: &str) -> Result<(), FsError> {
    begin(known, name, None, false);
    session.remove(name).await
}

async fn rename(
    session: &Client,
    known: &Mutex<Known>,
    from: &str,
    to: String,
    content: Vec<u8>,
) -> Result<(), FsError> {
    if to == from {
        return Ok(());
    }
    let pending = Pending {
        name: to.clone(),
        after: Some(content),
        parts: false,
        from: Some(from.to_owned()),
    };
    known.lock().expect("no panic").pending = Some(pending);
    session.rename(from, to).await
}

/// Holds every file against what is known; what was under way is known afterwards.
async fn verify(address: SocketAddr, all: &[Arc<Mutex<Known>>]) {
    let session = connect(address).await;
    for (client, known) in (0..).zip(all) {
        let mut seen = BTreeMap::new();
        for name in (0..FILES).map(|file| name(client, file)) {
            if let Some(content) = read(&session, &name).await {
                seen.insert(name, content);
            }
        }
        let mut known = known.lock().expect("no panic");
        if known.files != seen {
            let pending = known.pending.clone().unwrap_or_else(|| differs(&known.files, &seen));
            explains(&known.files, &pending, &seen);
        }
        known.pending = None;
        known.files = seen;
    }
    session.close().await;
}

async fn read(session: &Client, name: &str) -> Content {
    let file = match session.open(name, OpenOptions::read()).await {
        Err(e) if e.error.status() == Some(NfsStat::NOENT) => return None,
        other => other.unwrap_or_else(|e| panic!("{name}: {e}")),
    };
    let size = usize::try_from(file.size()).expect("small");
    let content = file.read_at(0, size).await.unwrap_or_else(|e| panic!("{name}: {e}"));
    file.close().await.expect("close");
    assert_eq!(content.len(), size, "{name}");
    Some(content.into())
}

fn differs(known: &BTreeMap<String, Vec<u8>>, seen: &BTreeMap<String, Vec<u8>>) -> ! {
    let sizes = |files: &BTreeMap<String, Vec<u8>>| {
        files.iter().map(|(name, content)| (name.clone(), content.len())).collect::<Vec<_>>()
    };
    panic!("nothing was under way, and yet {:?} became {:?}", sizes(known), sizes(seen));
}

/// Panics unless the change that was under way, done, half done or not done, made this of what
/// was known.
fn explains(
    known: &BTreeMap<String, Vec<u8>>,
    pending: &Pending,
    seen: &BTreeMap<String, Vec<u8>>,
) {
    let mut done = known.clone();
    pending.from.as_ref().and_then(|from| done.remove(from));
    match &pending.after {
        Some(content) => done.insert(pending.name.clone(), content.clone()),
        None => done.remove(&pending.name),
    };
    if done == *seen {
        return;
    }
    let Pending { name, after, parts, .. } = pending;
    assert!(*parts, "{name}: neither done nor not done");
    let others = |files: &BTreeMap<String, Vec<u8>>| {
        let mut others = files.clone();
        others.remove(name);
        others
    };
    assert!(others(known) == others(seen), "a change of {name} changed others");
    let (before, now) = (known.get(name), seen.get(name).unwrap_or_else(|| panic!("no {name}")));
    let (before, after) = (before.map_or(&[][..], |b| b), after.as_ref().expect("a write"));
    assert!(now.len() <= before.len().max(after.len()), "{name} is too long");
    let strange = now.iter().enumerate().position(|(at, byte)| {
        let was = before.get(at).copied().unwrap_or(0);
        *byte != was && *byte != 0 && Some(byte) != after.get(at)
    });
    assert_eq!(strange, None, "{name} has a byte that nobody wrote there");
}

/// Removes every file.
fn remove_all(cluster: &Cluster, known: &[Arc<Mutex<Known>>]) {
    let address = SocketAddr::from(([127, 0, 0, 1], cluster.port()));
    in_runtime(async {
        verify(address, known).await;
        let session = connect(address).await;
        for known in known {
            let files = std::mem::take(&mut known.lock().expect("no panic").files);
            for name in files.keys() {
                session.remove(name).await.expect("remove");
            }
        }
        session.close().await;
    });
}
