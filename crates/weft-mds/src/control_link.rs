//! The metadata server's side of the control program: one connection to one data server, made
//! and made again in the background, so that nobody waits long for one that is down.

use std::{
    net::SocketAddr,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use tokio::{
    sync::{Notify, watch},
    task::AbortHandle,
    time::{sleep, timeout},
};
use weft_client::rpc::{Connection, Credential, RpcError};
use weft_store::types::DataServerId;
use weft_xdr::{Decode, Encode, Writer};

use weft_control::{
    channel::{Caller, ChannelError, Greeting},
    codec::*,
};
use weft_server::identity::{ControlKey, ServerUuid};

use crate::control_address::ControlAddress;

/// How long a request waits for a data server that has just gone: long enough for one that is
/// restarted, short enough for whoever waits behind the request.
const CONNECT_WAIT: Duration = Duration::from_secs(2);
/// How long connecting and proving may take.
const ESTABLISH_LIMIT: Duration = Duration::from_secs(2);
/// How long an answer that costs no disk sync may take.
const ANSWER_LIMIT: Duration = Duration::from_secs(2);
/// How long a data server may have nothing to ask.
const QUIET_LIMIT: Duration = Duration::from_secs(10);
/// How long a batch of durable changes may take on a slow disk.
const CHANGE_LIMIT: Duration = Duration::from_secs(30);
/// How long a data server may take to bind: it may wait for what our last connection is doing.
const BIND_LIMIT: Duration = Duration::from_secs(10);
/// How often a data server is told the age of our volume, if that changes: it costs it a sync.
const AGE_EVERY: Duration = Duration::from_secs(5);
/// How often an idle connection is tried.
const PING_EVERY: Duration = Duration::from_millis(500);
/// A data server that has not answered for this long is silent: nothing new is begun with it. It is
/// lost only after [`ANSWER_LIMIT`], since all that is in flight ends with the connection.
const SILENT_AFTER: Duration = Duration::from_secs(1);
/// Time after a reconnection during which writes through the metadata server are made durable at
/// once. Linux flushes dirty pages after 30 s at the latest.
const STEADY_AFTER: Duration = Duration::from_secs(60);
/// First pause after a failed attempt to connect, doubled up to [`BACKOFF_MAX`].
const BACKOFF_MIN: Duration = Duration::from_millis(20);
/// Longest pause between attempts.
const BACKOFF_MAX: Duration = Duration::from_secs(1);

/// Why the control program has no answer.
#[derive(Debug, Clone, thiserror::Error)]
pub(crate) enum ControlError {
    /// It cannot be reached, or did not answer in time; a change may or may not be carried out.
    #[error("{0}")]
    Unreachable(Arc<str>),
    /// It refused.
    #[error("refused: {0}")]
    Refused(ControlStatus),
    /// It is not who it should be, or does not speak the program.
    #[error("{0}")]
    Wrong(Arc<str>),
}

/// Whom to talk to.
#[derive(Debug, Clone)]
pub(crate) struct Expected {
    /// Its number.
    pub(crate) id: DataServerId,
    /// Its address, or its name.
    pub(crate) addr: ControlAddress,
    /// Who we are.
    pub(crate) caller: ServerUuid,
    /// Whether its directory is the right one.
    pub(crate) admission: Arc<dyn Admission>,
}

/// What is done later.
pub(crate) type Later<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Judges the directories of data servers, and what they know of our volume (ADR 9). Called every
/// time a data server connects and has proven itself, in the order of these functions; what fails
/// says why, and the data server is not used.
pub(crate) trait Admission: std::fmt::Debug + Send + Sync {
    /// The uuid of our volume, and what its data servers know that nobody else does.
    fn credentials(&self) -> ([u8; 16], ControlKey);

    /// Returns when the credentials have changed since this was called.
    fn credentials_changed(&self) -> Later<'_, ()>;

    /// Whether this directory may be the data server's; what to ask it then.
    fn meet(&self, id: DataServerId, uuid: [u8; 16]) -> Result<VolumeArgs, String>;

    /// Whether the directory is in no older state than it was; how to bind it then.
    fn judge(
        &self,
        id: DataServerId,
        uuid: [u8; 16],
        known: &VolumeOk,
    ) -> Later<'_, Result<BindArgs, String>>;

    /// Why the data server did not want our volume, and what to do.
    fn refused(&self, id: DataServerId, status: ControlStatus) -> String;

    /// It is bound: from here on it may be used.
    fn bound<'a>(
        &'a self,
        id: DataServerId,
        known: &'a Met,
        bound: BindOk,
    ) -> Later<'a, Result<(), String>>;

    /// It is not to be used any more, whatever was known.
    fn expelled(&self, id: DataServerId);

    /// The connection to it was lost.
    fn lost(&self, id: DataServerId) -> Later<'_, ()>;

    /// The highest durable LSN of our volume.
    fn lsn(&self) -> u64;

    /// It holds this age of our volume durably.
    fn holds(&self, id: DataServerId, lsn: u64);
}

/// A data server that was met.
#[derive(Debug, Clone)]
pub(crate) struct Met {
    /// Uuid of its directory.
    pub(crate) uuid: [u8; 16],
    /// What it said of our volume.
    pub(crate) known: VolumeOk,
}

/// An established connection.
#[derive(Debug)]
struct Live {
    connection: Connection,
    /// Asks the background task to replace it.
    give_up: Notify,
    /// When it was made, if an earlier one was lost.
    back_since: Option<Instant>,
    /// The key that it was made with.
    key: ControlKey,
    /// True while a ping is overdue.
    silent: watch::Sender<bool>,
}

impl Live {
    fn new(connection: Connection, back_since: Option<Instant>, key: ControlKey) -> Arc<Live> {
        let (give_up, silent) = (Notify::new(), watch::Sender::new(false));
        Arc::new(Live { connection, give_up, back_since, key, silent })
    }
}

#[derive(Debug, Clone)]
enum Link {
    /// `met`: there was a connection before.
    Down {
        since: Instant,
        why: ControlError,
        met: bool,
    },
    Up(Arc<Live>),
}

/// The connection to one data server; dropping it ends it.
#[derive(Debug)]
pub(crate) struct ControlLink {
    link: watch::Receiver<Link>,
    connections: Arc<AtomicU64>,
    /// What its address or name meant last.
    found: watch::Receiver<Option<SocketAddr>>,
    task: AbortHandle,
}

impl Drop for ControlLink {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl ControlLink {
    /// Begins to connect, on the current runtime.
    pub(crate) fn start(expected: Expected) -> ControlLink {
        let why = ControlError::Unreachable("not connected yet".into());
        let (link, seen) = watch::channel(Link::Down { since: Instant::now(), why, met: false });
        let number = match &expected.addr {
            ControlAddress::Number(address) => Some(*address),
            ControlAddress::Name(..) => None,
        };
        let (found, seen_at) = watch::channel(number);
        let connections = Arc::new(AtomicU64::new(0));
        let tell = Tell { link, found, connections: connections.clone() };
        let task = tokio::spawn(keep_connected(expected, tell));
        ControlLink { link: seen, connections, found: seen_at, task: task.abort_handle() }
    }

    /// How many connections there were so far, the present one included.
    pub(crate) fn connections(&self) -> u64 {
        self.connections.load(Ordering::Acquire)
    }

    /// Where it is, as far as its name was ever looked up.
    pub(crate) fn address(&self) -> Option<SocketAddr> {
        *self.found.borrow()
    }

    /// True if there is a connection.
    pub(crate) fn is_up(&self) -> bool {
        matches!(&*self.link.borrow(), Link::Up(_))
    }

    /// True if there is a connection and the data server answers on it at the moment.
    pub(crate) fn answers(&self) -> bool {
        matches!(&*self.link.borrow(), Link::Up(live) if !*live.silent.borrow())
    }

    /// Returns when there is no connection, or the data server does not answer.
    pub(crate) async fn silent(&self) {
        let mut link = self.link.clone();
        loop {
            let Link::Up(live) = link.borrow_and_update().clone() else { return };
            let mut silent = live.silent.subscribe();
            tokio::select! {
                // The sender is kept by `live`.
                _ = silent.wait_for(|is| *is) => return,
                changed = link.changed() => if changed.is_err() { return },
            }
        }
    }

    /// Whether there is a connection, and none was lost in the last [`STEADY_AFTER`].
    pub(crate) fn is_steady(&self) -> bool {
        let Link::Up(live) = &*self.link.borrow() else { return false };
        live.back_since.is_none_or(|since| since.elapsed() >= STEADY_AFTER)
    }

    /// Returns when there is a connection.
    ///
    /// # Errors
    /// There is none, and was none for [`CONNECT_WAIT`].
    pub(crate) async fn ready(&self) -> Result<(), ControlError> {
        self.live().await.map(|_| ())
    }

    /// Returns when there is or was a connection, and at the latest [`CONNECT_WAIT`] after the
    /// start.
    pub(crate) async fn begun(&self) {
        if matches!(&*self.link.borrow(), Link::Down { met: false, .. }) {
            // Whether it came or not is looked at by whoever waited.
            let _ = self.live().await;
        }
    }

    /// Calls a procedure.
    ///
    /// # Errors
    /// [`ControlError`].
    pub(crate) async fn call<T: Decode>(
        &self,
        procedure: Procedure,
        args: &impl Encode,
    ) -> Result<T, ControlError> {
        let live = self.live().await?;
        let changes = procedure.changes();
        let limit = match procedure {
            Procedure::BIRTHS => QUIET_LIMIT,
            _ if changes => CHANGE_LIMIT,
            _ => ANSWER_LIMIT,
        };
        let answer = tokio::select! {
            answer = timeout(limit, call(&live.connection, procedure, args)) => answer,
            gone = self.replaced(&live) => return Err(gone),
        };
        let answer = answer.unwrap_or_else(|_| {
            let why = format!("no answer to {procedure} in {} s", limit.as_secs());
            Err(ControlError::Unreachable(why.into()))
        });
        // Whatever is still going on over there must end before we try again: the next
        // connection's BIND waits for it. A slow answer alone is no reason.
        let lost = match &answer {
            Err(ControlError::Unreachable(_)) => changes || live.connection.is_closed(),
            Err(ControlError::Refused(status)) => {
                matches!(*status, ControlStatus::REPLACED | ControlStatus::UNBOUND)
            }
            Err(ControlError::Wrong(_)) | Ok(_) => false,
        };
        if lost {
            live.give_up.notify_one();
        }
        answer
    }

    async fn live(&self) -> Result<Arc<Live>, ControlError> {
        let mut link = self.link.clone();
        let patience = match &*link.borrow() {
            Link::Up(live) => return Ok(live.clone()),
            Link::Down { since, .. } => CONNECT_WAIT.saturating_sub(since.elapsed()),
        };
        // Either outcome of waiting is looked at below.
        let _ = timeout(patience, link.wait_for(|l| matches!(l, Link::Up(_)))).await;
        match &*link.borrow() {
            Link::Up(live) => Ok(live.clone()),
            // Even one that is not who it should be: once that is put right, it answers.
            Link::Down { why, .. } => Err(ControlError::Unreachable(why.to_string().into())),
        }
    }

    /// Resolves when `live` is the connection no more.
    async fn replaced(&self, live: &Arc<Live>) -> ControlError {
        let mut link = self.link.clone();
        let other = |l: &Link| !matches!(l, Link::Up(now) if Arc::ptr_eq(now, live));
        match link.wait_for(other).await.as_deref() {
            Ok(Link::Down { why, .. }) => why.clone(),
            _ => ControlError::Unreachable("the connection was replaced".into()),
        }
    }
}

/// What the background task tells.
struct Tell {
    link: watch::Sender<Link>,
    found: watch::Sender<Option<SocketAddr>>,
    connections: Arc<AtomicU64>,
}

/// The background task: connects, watches, and connects again.
async fn keep_connected(expected: Expected, tell: Tell) {
    let Tell { link, found, connections } = tell;
    let mut backoff = BACKOFF_MIN;
    let mut told = String::new();
    let mut was_lost = false;
    loop {
        let (_, key) = expected.admission.credentials();
        let why = match establish(&expected, &found).await {
            Ok(connection) => {
                note_connected(&expected, was_lost || !told.is_empty());
                let back_since = was_lost.then(Instant::now);
                was_lost = true;
                backoff = BACKOFF_MIN;
                told.clear();
                connections.fetch_add(1, Ordering::AcqRel);
                let live = Live::new(connection, back_since, key);
                link.send_replace(Link::Up(live.clone()));
                let at = *found.borrow();
                let why = tokio::select! {
                    why = until_lost(&live, &expected) => why,
                    why = until_stranger(&live, &expected, at) => why,
                };
                tracing::warn!(id = expected.id.0, error = %why, "data server lost");
                expected.admission.lost(expected.id).await;
                why
            }
            Err(why) => {
                // Said once, not at every attempt.
                let words = why.to_string();
                if told != words {
                    tracing::warn!(id = expected.id.0, error = words, "data server not connected");
                    told = words;
                }
                if matches!(why, ControlError::Wrong(_)) {
                    expected.admission.expelled(expected.id);
                }
                why
            }
        };
        link.send_modify(|l| {
            let (since, met) = match l {
                Link::Down { since, met, .. } => (*since, *met),
                Link::Up(_) => (Instant::now(), true),
            };
            *l = Link::Down { since, why, met };
        });
        sleep(backoff).await;
        backoff = (backoff * 2).min(BACKOFF_MAX);
    }
}

/// Whoever was told that it is away is told that it is back.
fn note_connected(expected: &Expected, was_away: bool) {
    let (id, addr) = (expected.id.0, &expected.addr);
    if was_away {
        tracing::warn!(id, %addr, "data server is back");
    } else {
        tracing::info!(id, %addr, "data server connected");
    }
}

/// Connects to the first that answers of the addresses that it has now. Also the uuid of the data
/// server's directory.
async fn connect(
    expected: &Expected,
    found: &watch::Sender<Option<SocketAddr>>,
) -> Result<(Connection, [u8; 16]), ControlError> {
    let unknown =
        |e| ControlError::Unreachable(format!("no such host {}: {e}", expected.addr).into());
    let addresses = expected.addr.resolve().await.map_err(unknown)?;
    let known = *found.borrow();
    if !known.is_some_and(|at| addresses.contains(&at)) {
        found.send_replace(addresses.first().copied());
    }
    let mut last = ControlError::Unreachable("it has no address".into());
    for address in addresses {
        match greet(expected, address).await {
            Ok(met) => {
                found.send_replace(Some(address));
                return Ok(met);
            }
            Err(e) => last = e,
        }
    }
    Err(last)
}

/// Makes a secure channel to who listens at an address, if that is the data server.
async fn greet(
    expected: &Expected,
    address: SocketAddr,
) -> Result<(Connection, [u8; 16]), ControlError> {
    let (volume, key) = expected.admission.credentials();
    let caller = Caller { server: expected.caller.0, volume };
    let wrong = |why: ChannelError| {
        let (addr, id) = (&expected.addr, expected.id.0);
        ControlError::Wrong(match why {
            ChannelError::OtherNumber(_) => format!("{addr}: {why}, not {id}").into(),
            _ => format!("{addr}: {why}").into(),
        })
    };
    let (greeting, record) = Greeting::new(&key, expected.id.0, caller).map_err(wrong)?;
    let answered = |answer: &[u8]| greeting.answered(answer);
    let met = Connection::connect_secure(address, record, answered).await;
    met.map_err(failed)?.map_err(wrong)
}

async fn establish(
    expected: &Expected,
    found: &watch::Sender<Option<SocketAddr>>,
) -> Result<Connection, ControlError> {
    let connected = timeout(ESTABLISH_LIMIT, connect(expected, found));
    let (connection, uuid) = connected.await.unwrap_or_else(|_| {
        Err(ControlError::Unreachable(format!("{}: no answer", expected.addr).into()))
    })?;
    bind(&connection, expected, uuid).await?;
    Ok(connection)
}

/// Both sides find out whether they belong together, and remember it.
async fn bind(
    connection: &Connection,
    expected: &Expected,
    uuid: [u8; 16],
) -> Result<(), ControlError> {
    let (id, admission) = (expected.id, &expected.admission);
    let wrong = |why: String| ControlError::Wrong(format!("{}: {why}", expected.addr).into());
    let asked = admission.meet(id, uuid).map_err(wrong)?;
    let ask = || within(ANSWER_LIMIT, call(connection, Procedure::VOLUME, &asked));
    let mut known: VolumeOk = ask().await?;
    loop {
        let args = admission.judge(id, uuid, &known).await.map_err(wrong)?;
        let bound = match within(BIND_LIMIT, call(connection, Procedure::BIND, &args)).await {
            Err(ControlError::Refused(status)) => {
                // What a run before this one sent before it was killed may have bound it since.
                let now: VolumeOk = ask().await?;
                if now.runs == known.runs {
                    return Err(wrong(admission.refused(id, status)));
                }
                known = now;
                continue;
            }
            other => other?,
        };
        return admission.bound(id, &Met { uuid, known }, bound).await.map_err(wrong);
    }
}

async fn within<T>(
    limit: Duration,
    answer: impl Future<Output = Result<T, ControlError>>,
) -> Result<T, ControlError> {
    let late = || ControlError::Unreachable("it does not answer".into());
    timeout(limit, answer).await.unwrap_or_else(|_| Err(late()))
}

/// Watches a connection until it must be replaced; why. Tells it the age of our volume.
async fn until_lost(live: &Live, expected: &Expected) -> ControlError {
    let (id, admission) = (expected.id, &expected.admission);
    let (mut told, mut told_at) = (admission.lsn(), Instant::now());
    loop {
        tokio::select! {
            () = live.give_up.notified() => {
                return ControlError::Unreachable("the connection was given up".into());
            }
            // Known at once: new files are placed elsewhere from now on.
            () = live.connection.ended() => {
                return ControlError::Unreachable("the connection has ended".into());
            }
            () = sleep(PING_EVERY) => {}
        }
        let lsn = admission.lsn();
        if lsn == told || told_at.elapsed() < AGE_EVERY {
            if let Err(why) = ping(live).await {
                return why;
            }
            continue;
        }
        let now = Age { lsn };
        let age = call::<Age>(&live.connection, Procedure::AGE, &now);
        let told_now = tokio::select! {
            told = within(CHANGE_LIMIT, age) => told,
            // Its disk may be slow; it itself may not.
            why = until_silent(live) => Err(why),
        };
        match told_now {
            Ok(held) => admission.holds(id, held.lsn),
            Err(why) => return why,
        }
        (told, told_at) = (lsn, Instant::now());
    }
}

/// Returns when the data server turns out not to know the secret that the cluster has now. The
/// connection of before goes on, but the handles that clients are given are sealed with the new
/// secret: the data server refuses them all. The proof is a connection of its own, so that a data
/// server that knows the secret is not lost for a moment.
async fn until_stranger(
    live: &Live,
    expected: &Expected,
    address: Option<SocketAddr>,
) -> ControlError {
    let mut proven = live.key.clone();
    loop {
        let changed = expected.admission.credentials_changed();
        let (_, now) = expected.admission.credentials();
        if now == proven {
            changed.await;
            continue;
        }
        let Some(address) = address else { return std::future::pending().await };
        match timeout(ESTABLISH_LIMIT, greet(expected, address)).await {
            Ok(Ok(_)) => proven = now,
            Ok(Err(why @ ControlError::Wrong(_))) => return why,
            // Another task watches if the data server is there.
            Ok(Err(_)) | Err(_) => sleep(PING_EVERY).await,
        }
    }
}

/// Asks what costs no disk sync. While the answer is overdue the data server is silent.
async fn ping(live: &Live) -> Result<Nothing, ControlError> {
    let asked = within(ANSWER_LIMIT, call(&live.connection, Procedure::PING, &Nothing));
    let mut asked = std::pin::pin!(asked);
    if let Ok(answer) = timeout(SILENT_AFTER, &mut asked).await {
        return answer;
    }
    live.silent.send_replace(true);
    let answer = asked.await?;
    live.silent.send_replace(false);
    Ok(answer)
}

/// Pings at once and again, until there is no answer; why.
async fn until_silent(live: &Live) -> ControlError {
    loop {
        if let Err(why) = ping(live).await {
            return why;
        }
        sleep(PING_EVERY).await;
    }
}

async fn call<T: Decode>(
    connection: &Connection,
    procedure: Procedure,
    args: &impl Encode,
) -> Result<T, ControlError> {
    let mut w = Writer::new();
    args.encode(&mut w);
    let args = w.into_segments();
    let (program, version) = (CONTROL_PROGRAM, CONTROL_VERSION);
    let called = connection.call(program, version, procedure.0, &Credential::NONE, args).await;
    let mut results = called.map_err(failed)?;
    let decoded = ControlResult::<T>::decode(&mut results);
    match decoded.and_then(|d| results.finish().map(|()| d)) {
        Ok(ControlResult(result)) => result.map_err(ControlError::Refused),
        Err(e) => Err(ControlError::Wrong(format!("its answer to {procedure}: {e}").into())),
    }
}

fn failed(error: RpcError) -> ControlError {
    match error {
        RpcError::Connect { .. } | RpcError::Lost(_) | RpcError::Source(_) => {
            ControlError::Unreachable(error.to_string().into())
        }
        RpcError::Refused(_) | RpcError::Decode(_) => ControlError::Wrong(error.to_string().into()),
    }
}

#[cfg(test)]
#[path = "control_link_tests.rs"]
mod tests;
