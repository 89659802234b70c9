//! Clients that change files of their own by chance until their servers are gone, what they know of
//! them, and the comparison with what is there afterwards: every file is what was acknowledged, or
//! what the change that was under way made of it.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use tokio::task::JoinHandle;
use weft_client::{
    fs::{Client, ClientOptions, FsError, OpenOptions},
    io::IoPolicy,
};
use weft_dev::SeededRng;
use weft_nfs::NfsStat;

/// Clients, each with files of its own.
pub const CLIENTS: u64 = 3;
/// Files of a client: few, so that each goes through everything.
const FILES: u64 = 4;

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
pub struct Known {
    files: BTreeMap<String, Vec<u8>>,
    pending: Option<Pending>,
    pub acknowledged: u64,
    /// Largest file in bytes.
    largest: u64,
    /// Whether the servers' disks are being taken away: see [`disks_go`].
    disks_go: bool,
}

/// What each client knows: nothing yet. No file gets longer than `largest` bytes.
pub fn known(largest: u64) -> Vec<Arc<Mutex<Known>>> {
    (0..CLIENTS).map(|_| Arc::new(Mutex::new(Known { largest, ..Known::default() }))).collect()
}

fn largest(known: &Mutex<Known>) -> u64 {
    known.lock().expect("no panic").largest
}

/// All acknowledged changes so far.
pub fn acknowledged(known: &[Arc<Mutex<Known>>]) -> u64 {
    known.iter().map(|k| k.lock().expect("no panic").acknowledged).sum()
}

/// Clients that change their files until they are [ended](end).
pub fn begin_all(
    address: SocketAddr,
    known: &[Arc<Mutex<Known>>],
    seed: u64,
) -> Vec<JoinHandle<()>> {
    let one = |(client, known): (u64, &Arc<Mutex<Known>>)| {
        let random = SeededRng::new(seed * CLIENTS + client);
        tokio::spawn(change(address, client, known.clone(), random))
    };
    (0..).zip(known).map(one).collect()
}

/// From now on, and until all is [verified](verify) again, errors of the servers end what clients
/// do and are no failures. Nor is a success a promise: a file system that is being shut down may
/// have a sync succeed whose journal was thrown away (ext4 looks for that before it waits for the
/// data, not after).
pub fn disks_go(known: &[Arc<Mutex<Known>>]) {
    known.iter().for_each(|known| known.lock().expect("no panic").disks_go = true);
}

/// Ends them; a failure is that of the servers, which the caller names.
pub async fn end(workers: Vec<JoinHandle<()>>, log: impl Fn() -> String) {
    for worker in workers {
        worker.abort();
        let ended = worker.await;
        assert!(!ended.is_err_and(|e| e.is_panic()), "{}", log());
    }
}

/// Runs it to its end; tasks it leaves behind are dropped.
pub fn in_runtime<T>(work: impl Future<Output = T>) -> T {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.expect("a runtime");
    let done = runtime.block_on(work);
    runtime.shutdown_timeout(Duration::from_secs(1));
    done
}

pub async fn connect(address: SocketAddr) -> Client {
    let options = ClientOptions { policy: IoPolicy::direct(), ..ClientOptions::default() };
    Client::connect(address, options).await.expect("connect")
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
            let mut known = known.lock().expect("no panic");
            if known.disks_go {
                return ControlFlow::Break(());
            }
            acknowledge(&mut known);
            ControlFlow::Continue(())
        }
        Err(_) if known.lock().expect("no panic").disks_go => ControlFlow::Break(()),
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
fn length(random: &mut SeededRng, known: &Mutex<Known>) -> u64 {
    match random.below(4) {
        0 => random.below(largest(known)),
        _ => random.below(64 << 10),
    }
}

async fn replace(
    session: &Client,
    known: &Mutex<Known>,
    name: &str,
    random: &mut SeededRng,
) -> Result<(), FsError> {
    let data = super::pattern(random.draw(), length(random, known) as usize);
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
    let at = random.below(content.len() as u64 + 10_000).min(largest(known) - 1) as usize;
    let data = super::pattern(random.draw(), 1 + random.below(40 << 10) as usize);
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
    let size = length(random, known);
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
pub async fn verify(address: SocketAddr, all: &[Arc<Mutex<Known>>]) {
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
        known.disks_go = false;
    }
    session.close().await;
}

/// From now on new files are replicated: each has two copies.
pub async fn replicate(address: SocketAddr) {
    let session = connect(address).await;
    let words = "distribution=replicated copies=2";
    session.set_xattr("/", "weft.layout", words).await.expect("a layout for the root");
    session.close().await;
}

/// Waits until the copies of all files are alike, as an administrator is told by `ask`: each of
/// them is read from then on. How many of the files have copies.
pub fn are_alike(known: &[Arc<Mutex<Known>>], ask: impl Fn(&str) -> String) -> usize {
    let names = known.iter().flat_map(|known| {
        let known = known.lock().expect("no panic");
        known.files.keys().cloned().collect::<Vec<_>>()
    });
    let copied = names.filter(|name| {
        super::until("copies that are alike", Duration::from_secs(60), || {
            let told = ask(&format!("/file?path={name}"));
            let (_, report) = told.split_once("\r\n\r\n").expect("an answer");
            let told: serde_json::Value = serde_json::from_str(report).expect("a report");
            match &told["layout"]["copies_alike"] {
                serde_json::Value::Bool(false) => None,
                other => Some(!other.is_null()),
            }
        })
    });
    copied.count()
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

/// How two contents of a file differ, in words.
fn difference(name: &str, was: Option<&Vec<u8>>, is: Option<&Vec<u8>>) -> String {
    let (Some(was), Some(is)) = (was, is) else {
        return format!("{name} was there: {}, is there: {}", was.is_some(), is.is_some());
    };
    let other = |(_, (a, b)): &(usize, (&u8, &u8))| a != b;
    let differ: Vec<_> = was.iter().zip(is).enumerate().filter(other).collect();
    let places = differ.first().zip(differ.last()).map(|(first, last)| first.0..=last.0);
    let zeros = differ.iter().filter(|(_, (_, b))| **b == 0).count();
    format!(
        "{name} had {} bytes and has {}; {} differ, at {places:?}, {zeros} of them zero now",
        was.len(),
        is.len(),
        differ.len()
    )
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
    let names: BTreeSet<&String> = known.keys().chain(seen.keys()).collect();
    for other in names.into_iter().filter(|other| *other != name) {
        let (was, is) = (known.get(other), seen.get(other));
        assert!(was == is, "a change of {name} changed another: {}", difference(other, was, is));
    }
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
pub fn remove_all(address: SocketAddr, known: &[Arc<Mutex<Known>>]) {
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
