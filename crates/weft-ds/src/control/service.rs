//! The data server's side of the control program.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::{OwnedRwLockReadGuard, RwLock};
use weft_store::{
    objects::{CopyRange, ObjectError, ObjectId, ObjectStat, ObjectStore, Sought, Stripe},
    types::{Content, DataServerId},
};
use weft_stripe::{Distribution, Form};
use weft_xdr::{Decode, Encode, Reader, Writer};

use crate::DataServer;
use weft_control::{
    codec::*,
    proof::{Side, Transcript},
};
use weft_server::{
    clock::random,
    compound::Role,
    identity::ControlKey,
    report,
    rpc::{Answer, AnswerFuture, Call, Conn, Program},
};

/// Connections in the middle of authentication. Beyond this the oldest has to begin again, so
/// that strangers cannot fill the table.
const CHALLENGES_MAX: usize = 256;
/// Connections that have proven who they are: one for each metadata server, and a few being
/// replaced. Beyond this the oldest has to begin again.
const PROVEN_MAX: usize = 256;

/// The control program of one data server.
#[derive(Debug)]
pub struct Service {
    data_server: Arc<DataServer>,
    id: DataServerId,
    key: ControlKey,
    peers: Mutex<Peers>,
    /// One PROVE at a time. Held across awaits: see [`Service::prove`].
    proving: tokio::sync::Mutex<()>,
}

/// Connections, by number.
#[derive(Debug, Default)]
struct Peers {
    challenged: BTreeMap<u64, Transcript>,
    proven: BTreeMap<u64, Proven>,
}

/// A connection that has proven that it knows the secret.
#[derive(Debug, Clone)]
struct Proven {
    caller: [u8; 16],
    /// Whether its changes are still accepted; held shared while one is carried out.
    accepts: Arc<RwLock<bool>>,
}

impl Service {
    /// The control program of `data_server`, which is number `id` of its cluster.
    pub fn new(data_server: Arc<DataServer>, id: DataServerId, key: ControlKey) -> Arc<Self> {
        Arc::new(Service {
            data_server,
            id,
            key,
            peers: Mutex::default(),
            proving: tokio::sync::Mutex::default(),
        })
    }

    fn peers(&self) -> MutexGuard<'_, Peers> {
        self.peers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn proven(&self, conn: &Conn) -> Option<Proven> {
        self.peers().proven.get(&conn.id.0).cloned()
    }

    /// HELLO: both nonces are known from here on, and we prove ourselves first. Our proof says
    /// nothing that a caller could use as its own.
    fn hello(&self, conn: &Conn, a: &HelloArgs) -> HelloOk {
        let said = Transcript { caller: a.caller, caller_nonce: a.nonce, server_nonce: random() };
        let mut peers = self.peers();
        peers.challenged.insert(conn.id.0, said);
        if peers.challenged.len() > CHALLENGES_MAX {
            peers.challenged.pop_first();
        }
        HelloOk { nonce: said.server_nonce, proof: said.proof(&self.key, Side::Server) }
    }

    /// PROVE: one try for each HELLO.
    ///
    /// Earlier connections of the same caller end here, after what they are still doing: else a
    /// truncation that was given up and sent again could be carried out a second time later,
    /// and cut what was written since.
    async fn prove(&self, conn: &Conn, a: &ProveArgs) -> Result<Nothing, ControlStatus> {
        let said = self.peers().challenged.remove(&conn.id.0).ok_or(ControlStatus::UNPROVEN)?;
        if !said.is_proof(&self.key, Side::Caller, a.proof) {
            tracing::warn!(peer = %conn.peer, "control connection with a wrong proof");
            return Err(ControlStatus::BAD_PROOF);
        }
        let _one_at_a_time = self.proving.lock().await;
        let mut older = Vec::new();
        self.peers().proven.retain(|_, p| {
            let replaced = p.caller == said.caller;
            replaced.then(|| older.push(p.accepts.clone()));
            !replaced
        });
        for accepts in older {
            *accepts.write().await = false;
        }
        let new = Proven { caller: said.caller, accepts: Arc::new(RwLock::new(true)) };
        let mut peers = self.peers();
        peers.proven.insert(conn.id.0, new);
        if peers.proven.len() > PROVEN_MAX {
            peers.proven.pop_first();
        }
        Ok(Nothing)
    }

    /// Holds up changes of a caller, as one that is being carried out does.
    #[cfg(test)]
    pub(super) async fn hold_changes_of(&self, caller: [u8; 16]) -> OwnedRwLockReadGuard<bool> {
        let of = |p: &&Proven| p.caller == caller;
        let accepts = self.peers().proven.values().find(of).expect("proven").accepts.clone();
        accepts.read_owned().await
    }

    /// Connections in the middle of authentication.
    #[cfg(test)]
    pub(super) fn challenges(&self) -> usize {
        self.peers().challenged.len()
    }

    fn who(&self) -> WhoOk {
        WhoOk { id: self.id.0, uuid: self.data_server.store().identity() }
    }

    async fn stat(&self, a: Objects) -> Result<StatOk, ControlStatus> {
        let store = self.data_server.store().clone();
        // Read before the objects: it may be too old for them, never too new.
        let verifier = store.write_verifier();
        let stat = move || a.0.iter().map(|o| attrs(&store, *o)).collect();
        Ok(StatOk { verifier, objects: ObjectAttrsList(blocking(stat).await?) })
    }

    async fn seek(&self, a: SeekArgs) -> Result<SeekOk, ControlStatus> {
        let store = self.data_server.store().clone();
        blocking(move || seek(&store, a)).await?
    }

    /// Carries out changes, if the connection may still make any.
    async fn change<A: Send + 'static, T: Send + 'static>(
        &self,
        peer: &Proven,
        args: A,
        apply: impl FnOnce(&ObjectStore, A) -> T + Send + 'static,
    ) -> Result<T, ControlStatus> {
        let accepts = peer.accepts.clone().read_owned().await;
        if !*accepts {
            return Err(ControlStatus::UNPROVEN);
        }
        let store = self.data_server.store().clone();
        blocking(move || {
            let done = apply(&store, args);
            drop::<OwnedRwLockReadGuard<bool>>(accepts);
            done
        })
        .await
    }

    async fn space(&self) -> Result<SpaceOk, ControlStatus> {
        let store = self.data_server.store().clone();
        let space = blocking(move || store.space()).await?.map_err(|e| status(&e))?;
        Ok(SpaceOk { total: space.total, free: space.free, available: space.available })
    }

    async fn status(&self) -> Result<StatusOk, ControlStatus> {
        let core = self.data_server.core();
        let counted = core.counters.operations().into_iter();
        let operations = counted.map(|(name, count)| OperationCount { name, count }).collect();
        let load = std::sync::atomic::Ordering::Relaxed;
        let clients = core.sessions().clients().count() as u64;
        Ok(StatusOk {
            operations: OperationCounts(operations),
            bytes_in: core.counters.bytes_in.load(load),
            bytes_out: core.counters.bytes_out.load(load),
            rss_bytes: blocking(report::rss_bytes).await?,
            uptime_s: core.clock.now().0 / 1000,
            clients,
            connections: core.connections.count() as u64,
        })
    }

    async fn execute(&self, call: Call) -> Answer {
        let procedure = Procedure(call.header.procedure);
        let (conn, args) = (&*call.conn, call.args);
        match procedure {
            Procedure::HELLO => return with(args, async |a| Ok(self.hello(conn, &a))).await,
            Procedure::PROVE => return with(args, async |a| self.prove(conn, &a).await).await,
            _ => {}
        }
        let Some(peer) = self.proven(conn) else {
            return results(&ControlResult::<Nothing>(Err(ControlStatus::UNPROVEN)));
        };
        match procedure {
            Procedure::WHO => with(args, async |Nothing| Ok(self.who())).await,
            Procedure::STAT => with(args, async |a| self.stat(a).await).await,
            Procedure::TRUNCATE => {
                with(args, async |a| self.change(&peer, a, truncate).await).await
            }
            Procedure::REMOVE => with(args, async |a| self.change(&peer, a, remove).await).await,
            Procedure::FENCE => with(args, async |a| self.change(&peer, a, fence).await).await,
            Procedure::CREATE => with(args, async |a| self.change(&peer, a, create).await).await,
            Procedure::SEEK => with(args, async |a| self.seek(a).await).await,
            Procedure::PUNCH => with(args, async |a| self.change(&peer, a, punch).await?).await,
            Procedure::ALLOCATE => {
                with(args, async |a| self.change(&peer, a, allocate).await?).await
            }
            Procedure::COPY => with(args, async |a| self.change(&peer, a, copy).await?).await,
            Procedure::CLONE => with(args, async |a| self.change(&peer, a, clone).await?).await,
            Procedure::SPACE => with(args, async |Nothing| self.space().await).await,
            Procedure::STATUS => with(args, async |Nothing| self.status().await).await,
            _ => Answer::ProcUnavail,
        }
    }
}

impl Program for Service {
    fn program(&self) -> u32 {
        CONTROL_PROGRAM
    }

    fn version(&self) -> u32 {
        CONTROL_VERSION
    }

    fn call(&self, call: Call) -> AnswerFuture<'_> {
        Box::pin(self.execute(call))
    }

    fn holds(&self, conn: &Conn) -> bool {
        self.proven(conn).is_some()
    }

    fn closed(&self, conn: &Conn) {
        let mut peers = self.peers();
        peers.challenged.remove(&conn.id.0);
        // A proven connection stays until its successor has waited for what it is still doing.
        if let Some(p) = peers.proven.get(&conn.id.0)
            && Arc::strong_count(&p.accepts) == 1
        {
            peers.proven.remove(&conn.id.0);
        }
    }
}

/// Decodes the whole arguments, runs the procedure, encodes its result.
async fn with<A: Decode, T: Encode>(
    mut args: Reader,
    run: impl AsyncFnOnce(A) -> Result<T, ControlStatus>,
) -> Answer {
    let decoded = A::decode(&mut args).and_then(|a| args.finish().map(|()| a));
    match decoded {
        Ok(a) => results(&ControlResult(run(a).await)),
        Err(error) => {
            tracing::debug!(%error, "control call with garbage arguments");
            Answer::GarbageArgs
        }
    }
}

fn results<T: Encode>(result: &ControlResult<T>) -> Answer {
    let mut w = Writer::new();
    result.encode(&mut w);
    Answer::Results(w.into_segments(), Vec::new())
}

async fn blocking<T: Send + 'static>(
    run: impl FnOnce() -> T + Send + 'static,
) -> Result<T, ControlStatus> {
    tokio::task::spawn_blocking(run).await.map_err(|error| {
        tracing::error!(%error, "a control call panicked");
        ControlStatus::FAULT
    })
}

pub(super) fn id(object: ObjectName) -> ObjectId {
    ObjectId { volume: object.volume, object: object.object }
}

fn attrs(store: &ObjectStore, object: ObjectName) -> ObjectAttrs {
    let (status, stat) = match store.stat(id(object)) {
        Ok(stat) => (ControlStatus::OK, stat),
        Err(e) => (status(&e), ObjectStat::default()),
    };
    ObjectAttrs {
        status,
        exists: stat != ObjectStat::default(),
        size: stat.size,
        mtime_s: stat.mtime_s,
        mtime_ns: stat.mtime_ns,
        blocks_bytes: stat.blocks_bytes,
        writes: stat.writes,
        unsynced: stat.unsynced,
    }
}

fn truncate(store: &ObjectStore, a: TruncateArgs) -> Statuses {
    Statuses(a.0.iter().map(|i| done(store.truncate(id(i.object), i.size))).collect())
}

fn create(store: &ObjectStore, a: CreateArgs) -> Statuses {
    let wanted: Vec<_> = a.0.iter().map(|i| (id(i.object), i.epoch)).collect();
    Statuses(store.create_many(&wanted).into_iter().map(done).collect())
}

/// All share one outcome: the store makes them durable together.
fn remove(store: &ObjectStore, a: Objects) -> Statuses {
    let ids: Vec<_> = a.0.iter().map(|o| id(*o)).collect();
    Statuses(vec![done(store.remove_many(&ids)); ids.len()])
}

/// As [`remove`].
fn fence(store: &ObjectStore, a: FenceArgs) -> Statuses {
    let fences: Vec<_> = a.0.iter().map(|i| (id(i.object), i.epoch)).collect();
    Statuses(vec![done(store.fence_many(&fences)); fences.len()])
}

/// A stripe that makes no sense is a mistake of the metadata server's.
fn stripe(name: StripeName) -> Result<Stripe, ControlStatus> {
    let rule = Distribution::round_robin(name.unit_bytes, name.count, 0, Form::Sparse);
    let rule = rule.map_err(|_| ControlStatus::FAULT)?;
    Ok(Stripe { rule, index: name.slot })
}

fn seek(store: &ObjectStore, a: SeekArgs) -> Result<SeekOk, ControlStatus> {
    let what = if a.hole { Content::Hole } else { Content::Data };
    let sought = store.seek(id(a.object), stripe(a.stripe)?, what, a.from, a.end);
    let (found, at) = match sought.map_err(|e| status(&e))? {
        Sought::At(at) => (true, at),
        Sought::NotBefore(at) => (false, at),
    };
    let size = store.stat(id(a.object)).map_err(|e| status(&e))?.size;
    Ok(SeekOk { found, at, size })
}

fn punch(store: &ObjectStore, a: PunchArgs) -> Result<Nothing, ControlStatus> {
    let punched = store.punch(id(a.object), a.epoch, a.offset, a.len);
    punched.map(|()| Nothing).map_err(|e| status(&e))
}

fn allocate(store: &ObjectStore, a: AllocateArgs) -> Result<Nothing, ControlStatus> {
    let stripe = stripe(a.stripe)?;
    let reserved = store.allocate(id(a.object), a.epoch, stripe, a.offset, a.end);
    reserved.map(|()| Nothing).map_err(|e| status(&e))
}

fn copy(store: &ObjectStore, a: CopyArgs) -> Result<CopyOk, ControlStatus> {
    let range = CopyRange { from: a.from, to: a.to, len: a.len };
    let copied = store.copy(id(a.source), id(a.destination), a.epoch, range);
    copied.map(|verifier| CopyOk { verifier }).map_err(|e| status(&e))
}

fn clone(store: &ObjectStore, a: CopyArgs) -> Result<Nothing, ControlStatus> {
    let range = CopyRange { from: a.from, to: a.to, len: a.len };
    let cloned = store.clone_range(id(a.source), id(a.destination), a.epoch, range);
    cloned.map(|()| Nothing).map_err(|e| status(&e))
}

fn done(result: Result<(), ObjectError>) -> ControlStatus {
    result.map_or_else(|e| status(&e), |()| ControlStatus::OK)
}

/// The status of an object store's error. Exhaustive on purpose.
fn status(error: &ObjectError) -> ControlStatus {
    let status = match error {
        ObjectError::Stale { .. } => return ControlStatus::STALE,
        ObjectError::NoSpace => return ControlStatus::NO_SPACE,
        ObjectError::TooBig => return ControlStatus::TOO_BIG,
        ObjectError::Unsupported { .. } => return ControlStatus::UNSUPPORTED,
        ObjectError::Unaligned => return ControlStatus::UNALIGNED,
        ObjectError::Io { .. } | ObjectError::SyncLost => ControlStatus::IO,
        ObjectError::Poisoned | ObjectError::Corrupt(_) => ControlStatus::IO,
        ObjectError::InUse | ObjectError::NotOurs | ObjectError::NoRandom => ControlStatus::FAULT,
    };
    tracing::error!(%error, "object store");
    status
}
