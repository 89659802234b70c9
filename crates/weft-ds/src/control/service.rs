//! The data server's side of the control program.

use std::{
    io,
    sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock},
};

use bytes::Bytes;
use tokio::sync::OwnedRwLockReadGuard;
#[cfg(test)]
use weft_state::Millis;
use weft_store::{
    objects::{
        Accepted, BindRefusal, BindRequest, CommonRun, CopyRange, ObjectError, ObjectId,
        ObjectStat, ObjectStore, REMOVED, Remembered, Restoration, Sought, Space, Stripe,
    },
    types::{Content, Run},
};
use weft_stripe::{Distribution, Form};
use weft_xdr::{Decode, Encode, Reader, Writer};

use super::{
    machine::machine,
    names::NamesObjects,
    peers::{AcceptedKeys, Bound, Peer, PeerName, Peers, Standing},
};
use crate::{DataServer, disk::DiskThreads};
use weft_control::{
    channel::{self, Caller, ChannelError},
    codec::*,
};
use weft_server::{
    compound::Role,
    identity::{ClusterSecrets, hex},
    report,
    rpc::{Answer, AnswerFuture, Call, Conn, Greeted, Program},
};

/// Threads that wait for the disk for metadata servers: none of those that wait for clients, who
/// may be many. For two metadata servers with all the calls that a connection may have under way.
const THREADS_MAX: usize = 256;

/// Most objects of a STAT that is answered by the thread that serves the connection.
const STAT_IN_PLACE_MAX: usize = 16;

/// The control program of one data server.
#[derive(Debug)]
pub struct Service {
    data_server: Arc<DataServer>,
    /// See [`DiskId`].
    machine: [u8; 16],
    accepted: RwLock<AcceptedKeys>,
    threads: DiskThreads,
    peers: Mutex<Peers>,
    /// One BIND at a time. Held across awaits: see [`Service::bind`].
    binding: tokio::sync::Mutex<()>,
}

impl Service {
    /// The control program of `data_server`; callers know one of the secrets.
    ///
    /// # Errors
    /// What the system says.
    pub fn new(data_server: Arc<DataServer>, secrets: &ClusterSecrets) -> io::Result<Arc<Self>> {
        let keys = secrets.accepted_control_keys();
        Ok(Arc::new(Service {
            data_server,
            machine: machine(),
            accepted: RwLock::new(AcceptedKeys { keys, generation: 0 }),
            threads: DiskThreads::new(THREADS_MAX)?,
            peers: Mutex::default(),
            binding: tokio::sync::Mutex::default(),
        }))
    }

    fn peers(&self) -> MutexGuard<'_, Peers> {
        self.peers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on these are the cluster's secrets. Once one is taken out, all connections end:
    /// whoever knows one of the others makes another.
    pub fn use_secrets(&self, secrets: &ClusterSecrets) {
        self.data_server.use_secrets(secrets);
        let keys = secrets.accepted_control_keys();
        let mut now = self.accepted.write().unwrap_or_else(PoisonError::into_inner);
        let is_any_out = now.keys.iter().any(|key| !keys.contains(key));
        now.keys = keys;
        if is_any_out {
            now.generation += 1;
            self.peers().values().for_each(Peer::end);
        }
    }

    fn accepted(&self) -> AcceptedKeys {
        self.accepted.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The standing of a connection that calls.
    ///
    /// # Errors
    /// It has none any more.
    fn standing(&self, conn: &Conn) -> Result<Standing, ControlStatus> {
        let now = self.data_server.core().clock.now();
        let mut peers = self.peers();
        let peer = peers.get_mut(&conn.id.0).ok_or(ControlStatus::REPLACED)?;
        peer.standing.bound.iter_mut().for_each(|b| b.heard = now);
        Ok(peer.standing.clone())
    }

    /// VOLUME: what is known here of a volume, and of our own past.
    fn volume(&self, caller: Caller, a: VolumeArgs) -> Result<VolumeOk, ControlStatus> {
        is_of(caller, a.uuid)?;
        let store = self.data_server.store();
        let known = store.volumes().into_iter().find(|v| v.uuid == a.uuid);
        let met = match a.met {
            0 => Remembered::Never,
            number => store.remembered(number),
        };
        Ok(VolumeOk {
            run: name(store.run()),
            met: match met {
                Remembered::Run(run) => name(run),
                Remembered::Forgotten | Remembered::Never => NO_RUN,
            },
            forgotten: met == Remembered::Forgotten,
            adopts: store.adopts() == Some(a.uuid),
            age: known.as_ref().map_or(0, |v| v.age),
            runs: RunNames(known.iter().flat_map(|v| &v.runs).copied().map(name).collect()),
        })
    }

    /// BIND: from here on the connection acts for a run of a volume, if the store accepts it.
    ///
    /// Earlier connections of the same volume end here, after what they are still doing: else a
    /// truncation that was given up and sent again could be carried out a second time later,
    /// and cut what was written since.
    async fn bind(&self, conn: &Conn, a: BindArgs) -> Result<BindOk, ControlStatus> {
        let _one_at_a_time = self.binding.lock().await;
        let standing = self.standing(conn)?;
        if standing.bound.is_some() {
            return Err(ControlStatus::FAULT);
        }
        is_of(standing.caller, a.uuid)?;
        let (request, now) = (bind_request(&a), self.data_server.core().clock.now());
        let another = |b: &Bound| b.volume == a.number && b.run != request.run && b.is_live(now);
        let in_use = self.peers().values().filter_map(|p| p.standing.bound.as_ref()).any(another);
        let (store, judged) = (self.data_server.store().clone(), request);
        let bound = self.blocking(move || store.bind(&judged, in_use)).await?;
        let (accepted, volume) = bound.map_err(|e| status(&e))?.map_err(|refusal| {
            tracing::warn!(peer = %conn.peer, uuid = hex(&a.uuid), %refusal, "volume refused");
            refusal_status(refusal)
        })?;
        self.end_connections_of(a.number).await;
        let accepts = Arc::new(tokio::sync::RwLock::new(true));
        let bound = Bound { volume: a.number, run: request.run, heard: now, open: true, accepts };
        // A connection that closed meanwhile is gone from the table.
        match self.peers().get_mut(&conn.id.0) {
            Some(peer) => peer.standing.bound = Some(bound),
            None => return Err(ControlStatus::REPLACED),
        }
        let store = self.data_server.store().clone();
        let adopted = accepted == Accepted::Adopted;
        // Who goes on from an older state goes on above it; nobody else wants it.
        let mut epoch = 0;
        if adopted || request.restored != Restoration::default() {
            let highest = self.blocking(move || store.highest_epoch(a.number)).await?;
            epoch = highest.map_err(|e| status(&e))?;
        }
        Ok(BindOk { age: volume.age, mark: volume.mark, epoch, adopted })
    }

    /// Ends the connections that are bound to a volume, after what they are still doing.
    async fn end_connections_of(&self, volume: u32) {
        let mut older = Vec::new();
        self.peers().retain(|_, peer| match &peer.standing.bound {
            Some(bound) if bound.volume == volume => {
                older.push(bound.accepts.clone());
                peer.end();
                false
            }
            _ => true,
        });
        for accepts in older {
            *accepts.write().await = false;
        }
    }

    /// Holds up changes of a run, as one that is being carried out does.
    #[cfg(test)]
    pub(super) async fn hold_changes_of(&self, run: u64) -> OwnedRwLockReadGuard<bool> {
        let accepts = self.peers().values().find_map(|p| {
            p.standing.bound.as_ref().filter(|b| b.run.number == run).map(|b| b.accepts.clone())
        });
        accepts.expect("bound").read_owned().await
    }

    /// Makes a connection look as if its caller had said nothing for longer than that is borne.
    #[cfg(test)]
    pub(super) fn silence(&self, run: u64) {
        for bound in self.peers().values_mut().filter_map(|p| p.standing.bound.as_mut()) {
            if bound.run.number == run {
                bound.heard = Millis(0);
                bound.open = false;
            }
        }
    }

    /// How many peers have proven themselves.
    #[cfg(test)]
    pub(super) fn peers_now(&self) -> usize {
        self.peers().len()
    }

    async fn age(&self, bound: &Bound, a: Age) -> Result<Age, ControlStatus> {
        let volume = bound.volume;
        let grown = self.change(bound, a, move |store, a| store.grow(volume, a.lsn)).await?;
        grown.map(|lsn| Age { lsn }).map_err(|e| status(&e))
    }

    async fn stat(&self, a: Objects) -> Result<StatOk, ControlStatus> {
        let store = self.data_server.store().clone();
        // Read before the objects: it may be too old for them, never too new.
        let verifier = store.write_verifier();
        if a.0.is_empty() {
            // Only the verifier is wanted, which is in memory.
            return Ok(StatOk { verifier, objects: ObjectAttrsList(Vec::new()) });
        }
        // What is open and not being written at the moment is told at once: its size is the older
        // the longer the way of the answer.
        let open = |o: &ObjectName| Some(attrs_or_why(&store, *o, store.stat_open(id(*o))?));
        if a.0.len() <= STAT_IN_PLACE_MAX
            && let Some(objects) = a.0.iter().map(open).collect::<Option<_>>()
        {
            return Ok(StatOk { verifier, objects: ObjectAttrsList(objects) });
        }
        let stat = move || a.0.iter().map(|o| attrs(&store, *o)).collect();
        Ok(StatOk { verifier, objects: ObjectAttrsList(self.blocking(stat).await?) })
    }

    /// SEAL: what is told is the last that these writers made of the objects.
    async fn seal(&self, peer: &Bound, a: FenceArgs) -> Result<StatOk, ControlStatus> {
        let verifier = self.data_server.store().write_verifier();
        Ok(StatOk { verifier, objects: self.change(peer, a, seal).await? })
    }

    /// BIRTHS: what clients want to make of the caller's volume.
    async fn births(&self, peer: &Bound, a: &BirthAnswers) -> Births {
        let births = &self.data_server.births;
        births.answered(peer.volume, &a.0);
        Births(births.next(peer.volume).await)
    }

    async fn list(&self, a: ListArgs) -> Result<Objects, ControlStatus> {
        let store = self.data_server.store().clone();
        let after = (!a.from_first).then(|| id(a.after));
        let listed = self.blocking(move || store.objects(after, BATCH_MAX)).await?;
        let listed = listed.map_err(|e| status(&e))?.into_iter().take(BATCH_MAX);
        let name = |id: ObjectId| ObjectName { volume: id.volume, object: id.object };
        Ok(Objects(listed.map(name).collect()))
    }

    async fn seek(&self, a: SeekArgs) -> Result<SeekOk, ControlStatus> {
        let store = self.data_server.store().clone();
        self.blocking(move || seek(&store, a)).await?
    }

    /// Runs what may wait for the disk. What tells a metadata server that we live does not.
    async fn blocking<T: Send + 'static>(
        &self,
        run: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, ControlStatus> {
        self.threads.run(run).await.map_err(|error| {
            tracing::error!(%error, "a control call panicked");
            ControlStatus::FAULT
        })
    }

    /// Carries out changes, if the connection may still make any.
    async fn change<A: Send + 'static, T: Send + 'static>(
        &self,
        peer: &Bound,
        args: A,
        apply: impl FnOnce(&ObjectStore, A) -> T + Send + 'static,
    ) -> Result<T, ControlStatus> {
        let accepts = peer.accepts.clone().read_owned().await;
        if !*accepts {
            return Err(ControlStatus::REPLACED);
        }
        let store = self.data_server.store().clone();
        self.blocking(move || {
            let done = apply(&store, args);
            drop::<OwnedRwLockReadGuard<bool>>(accepts);
            done
        })
        .await
    }

    async fn space(&self) -> Result<SpaceOk, ControlStatus> {
        let store = self.data_server.store().clone();
        let told = self.blocking(move || (store.space(), store.shares_blocks())).await?;
        let (space, shares_blocks) = (told.0.map_err(|e| status(&e))?, told.1);
        let Space { total, free, available, device } = space;
        let disk = DiskId { machine: self.machine, device };
        Ok(SpaceOk { total, free, available, disk, shares_blocks })
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
            rss_bytes: self.blocking(report::rss_bytes).await?,
            uptime_s: core.clock.now().0 / 1000,
            clients,
            connections: core.connections.count() as u64,
        })
    }

    async fn execute(&self, call: Call) -> Answer {
        let procedure = Procedure(call.header.procedure);
        let (conn, args) = (&*call.conn, call.args);
        let standing = match self.standing(conn) {
            Ok(standing) => standing,
            Err(status) => return results(&ControlResult::<Nothing>(Err(status))),
        };
        match procedure {
            Procedure::PING => return with(args, async |Nothing| Ok(Nothing)).await,
            Procedure::VOLUME => {
                return with(args, async |a| self.volume(standing.caller, a)).await;
            }
            Procedure::BIND => return with(args, async |a| self.bind(conn, a).await).await,
            _ => {}
        }
        match &standing.bound {
            Some(bound) => self.execute_bound(procedure, bound, args).await,
            None => results(&ControlResult::<Nothing>(Err(ControlStatus::UNBOUND))),
        }
    }

    /// What only a connection may ask that is bound to a volume.
    async fn execute_bound(&self, procedure: Procedure, peer: &Bound, args: Reader) -> Answer {
        let ours = |objects: &dyn NamesObjects| self.are_served(peer, objects);
        // What was given up is told of each object by itself.
        let named = |objects: &dyn NamesObjects| are_named_by(peer, objects);
        match procedure {
            Procedure::STAT => with_objects(args, named, async |a| self.stat(a).await).await,
            Procedure::LIST => with(args, async |a| self.list(a).await).await,
            Procedure::TRUNCATE => {
                with_objects(args, ours, async |a| self.change(peer, a, truncate).await).await
            }
            Procedure::REMOVE => {
                with_objects(args, ours, async |a| self.change(peer, a, remove).await).await
            }
            Procedure::FENCE => {
                with_objects(args, ours, async |a| self.change(peer, a, fence).await).await
            }
            Procedure::SEAL => with_objects(args, ours, async |a| self.seal(peer, a).await).await,
            Procedure::CREATE => {
                with_objects(args, ours, async |a| self.change(peer, a, create).await).await
            }
            Procedure::SEEK => with_objects(args, ours, async |a| self.seek(a).await).await,
            Procedure::PUNCH => {
                with_objects(args, ours, async |a| self.change(peer, a, punch).await?).await
            }
            Procedure::ALLOCATE => {
                with_objects(args, ours, async |a| self.change(peer, a, allocate).await?).await
            }
            Procedure::COPY => {
                with_objects(args, ours, async |a| self.change(peer, a, copy).await?).await
            }
            Procedure::CLONE => {
                with_objects(args, ours, async |a| self.change(peer, a, clone).await?).await
            }
            Procedure::BIRTHS => with(args, async |a| Ok(self.births(peer, &a).await)).await,
            Procedure::AGE => with(args, async |a| self.age(peer, a).await).await,
            Procedure::SPACE => with(args, async |Nothing| self.space().await).await,
            Procedure::STATUS => with(args, async |Nothing| self.status().await).await,
            _ => Answer::ProcUnavail,
        }
    }

    /// Whether all objects of a call are of the volume that its connection is bound to, and of the
    /// state that volume is in.
    fn are_served(&self, peer: &Bound, call: &dyn NamesObjects) -> Result<(), ControlStatus> {
        let store = self.data_server.store();
        let ours = |o: ObjectName| o.volume == peer.volume && store.serves(id(o));
        if call.all(&ours) { Ok(()) } else { Err(ControlStatus::OTHER_VOLUME) }
    }
}

/// Whether all objects of a call are of the volume that its connection is bound to.
fn are_named_by(peer: &Bound, call: &dyn NamesObjects) -> Result<(), ControlStatus> {
    match call.all(&|object| object.volume == peer.volume) {
        true => Ok(()),
        false => Err(ControlStatus::OTHER_VOLUME),
    }
}

impl Program for Service {
    fn program(&self) -> u32 {
        CONTROL_PROGRAM
    }

    fn version(&self) -> u32 {
        CONTROL_VERSION
    }

    fn is_secure(&self) -> bool {
        true
    }

    fn greet(&self, conn: &Conn, first: &Bytes) -> Option<Greeted> {
        if !channel::is_greeting(first) {
            return None;
        }
        let AcceptedKeys { keys, generation } = self.accepted();
        let directory = self.data_server.store().identity();
        let greeted = channel::greeted(&keys, self.data_server.id().0, directory, first);
        let secured = greeted.outcome.inspect_err(|why| refused(conn, why)).ok();
        let named = |(ciphers, caller)| (ciphers, PeerName { generation, caller }.to_bytes());
        Some(Greeted { answer: greeted.answer, secured: secured.map(named) })
    }

    fn proven(&self, conn: &Arc<Conn>) {
        let named = conn.peer_name().and_then(|name| PeerName::read(name));
        let accepted = self.accepted.read().unwrap_or_else(PoisonError::into_inner);
        match named.filter(|(generation, _)| *generation == accepted.generation) {
            Some((_, caller)) => {
                let standing = Standing { caller, bound: None };
                let peer = Peer { connection: Arc::downgrade(conn), standing };
                self.peers().insert(conn.id.0, peer);
            }
            None => conn.close(),
        }
    }

    fn call(&self, call: Call) -> AnswerFuture<'_> {
        Box::pin(self.execute(call))
    }

    fn holds(&self, conn: &Conn) -> bool {
        self.peers().contains_key(&conn.id.0)
    }

    fn closed(&self, conn: &Conn) {
        let mut peers = self.peers();
        // A bound connection stays until its successor has waited for what it is still doing.
        match peers.get_mut(&conn.id.0).map(|p| &mut p.standing.bound) {
            Some(Some(bound)) if Arc::strong_count(&bound.accepts) > 1 => bound.open = false,
            _ => drop(peers.remove(&conn.id.0)),
        }
    }
}

/// Tells the administrator of a greeting that led to nothing.
fn refused(conn: &Conn, why: &ChannelError) {
    let peer = conn.peer;
    match why {
        ChannelError::OtherNumber(wanted) => {
            tracing::warn!(%peer, wanted, "a metadata server looks for another data server here");
        }
        ChannelError::OtherVersion(theirs) => {
            tracing::warn!(%peer, theirs, "a metadata server of another version of weft");
        }
        ChannelError::Stranger | ChannelError::Malformed => {
            tracing::warn!(%peer, "a caller that does not know our cluster secret");
        }
    }
}

/// A channel is for one volume.
fn is_of(caller: Caller, volume: [u8; 16]) -> Result<(), ControlStatus> {
    if caller.volume == volume { Ok(()) } else { Err(ControlStatus::OTHER_VOLUME) }
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

/// The same for arguments that name objects.
async fn with_objects<A: Decode + NamesObjects, T: Encode>(
    args: Reader,
    ours: impl Fn(&dyn NamesObjects) -> Result<(), ControlStatus>,
    run: impl AsyncFnOnce(A) -> Result<T, ControlStatus>,
) -> Answer {
    let checked = async |a: A| {
        ours(&a)?;
        run(a).await
    };
    with(args, checked).await
}

const NO_RUN: RunName = RunName { number: 0, id: [0; 16] };

fn name(run: Run) -> RunName {
    RunName { number: run.number, id: run.id }
}

fn run(name: RunName) -> Run {
    Run { number: name.number, id: name.id }
}

fn bind_request(a: &BindArgs) -> BindRequest {
    let common =
        CommonRun { run: run(a.common), end_lsn: a.common_end_lsn, end_next: a.common_end_next };
    BindRequest {
        number: a.number,
        uuid: a.uuid,
        run: run(a.run),
        common: (a.common != NO_RUN).then_some(common),
        lsn: a.lsn,
        restored: Restoration { id: a.restored, previous: a.restored_from },
    }
}

fn refusal_status(refusal: BindRefusal) -> ControlStatus {
    match refusal {
        BindRefusal::Unknown => ControlStatus::UNKNOWN_VOLUME,
        BindRefusal::NumberTaken => ControlStatus::NUMBER_TAKEN,
        BindRefusal::Older => ControlStatus::OLDER,
        BindRefusal::Fork => ControlStatus::FORK,
        BindRefusal::Deposed => ControlStatus::DEPOSED,
        BindRefusal::InUse => ControlStatus::IN_USE,
        BindRefusal::TooMany => ControlStatus::TOO_MANY,
    }
}

fn results<T: Encode>(result: &ControlResult<T>) -> Answer {
    let mut w = Writer::new();
    result.encode(&mut w);
    Answer::Results(w.into_segments(), Vec::new())
}

pub(super) fn id(object: ObjectName) -> ObjectId {
    ObjectId { volume: object.volume, object: object.object }
}

fn attrs(store: &ObjectStore, object: ObjectName) -> ObjectAttrs {
    attrs_or_why(store, object, store.stat(id(object)))
}

fn attrs_or_why(
    store: &ObjectStore,
    object: ObjectName,
    stat: Result<ObjectStat, ObjectError>,
) -> ObjectAttrs {
    let (status, stat) = match stat {
        Ok(stat) => (ControlStatus::OK, stat),
        Err(e) => (status(&e), ObjectStat::default()),
    };
    ObjectAttrs {
        status,
        exists: stat != ObjectStat::default(),
        epoch: if store.is_given_up(id(object)) { REMOVED } else { store.epoch(id(object)) },
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

fn seal(store: &ObjectStore, a: FenceArgs) -> ObjectAttrsList {
    let sealed = |item: &FenceItem| {
        let object = id(item.object);
        let stat = store.seal(object, item.epoch).and_then(|()| store.stat(object));
        attrs_or_why(store, item.object, stat)
    };
    ObjectAttrsList(a.0.iter().map(sealed).collect())
}

/// A stripe that makes no sense is a mistake of the metadata server's.
fn stripe(name: StripeName) -> Result<Stripe, ControlStatus> {
    let StripeName { unit_bytes, count, slot, slots, rounds, later_unit_bytes } = name;
    let (rule, index) = match (slots, rounds) {
        (0, 0) => (Distribution::round_robin(unit_bytes, count, 0, Form::Sparse).ok(), slot),
        (0, rounds) => {
            let small = (unit_bytes, rounds);
            (Distribution::variable(small, later_unit_bytes, count, 0).ok(), slot)
        }
        (slots, 0) => (listed(unit_bytes, count, slots), Distribution::OF_TURNS),
        _ => (None, 0),
    };
    let rule = rule.ok_or(ControlStatus::FAULT)?;
    Ok(Stripe { rule, index })
}

/// The rule of an object that has several turns.
fn listed(unit_bytes: u64, count: u32, slots: u32) -> Option<Distribution> {
    let (count, slots) = (u16::try_from(count).ok()?, u16::try_from(slots).ok()?);
    Distribution::of_turns(unit_bytes, count, slots).ok()
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

fn clone(store: &ObjectStore, a: CopyArgs) -> Result<CopyOk, ControlStatus> {
    let range = CopyRange { from: a.from, to: a.to, len: a.len };
    let cloned = store.clone_range(id(a.source), id(a.destination), a.epoch, range);
    cloned.map(|verifier| CopyOk { verifier }).map_err(|e| status(&e))
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
        ObjectError::UnknownVolume => return ControlStatus::OTHER_VOLUME,
        ObjectError::InUse
        | ObjectError::NotOurs
        | ObjectError::OtherVersion
        | ObjectError::NoRandom => ControlStatus::FAULT,
    };
    tracing::error!(%error, "object store");
    status
}
