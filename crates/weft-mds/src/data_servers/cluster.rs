//! The data servers of a cluster: which there are, whether they are up, and the way to them.

use std::{
    collections::{BTreeMap, BTreeSet, btree_map::Entry},
    net::SocketAddr,
    sync::{Arc, PoisonError, RwLock},
    time::Duration,
};

use bytes::Bytes;
use tokio::{runtime::Handle, sync::Notify, time::timeout};
use weft_control::codec::{Age, Procedure};
use weft_layout::Rights;
use weft_nfs::{DeviceId, StableHow, Verifier};
use weft_server::{
    identity::{ClusterSecrets, HandleKey, ServerUuid},
    report::IndirectStatus,
};
use weft_store::types::DataServerId;

use super::{
    addresses, each,
    error::DataServerError,
    gather::Gather,
    registry::DataServerRegistry,
    room::{Candidate, Standing, mark_scarce},
    server::Server,
    spec::DataServerSpec,
    turns::Turns,
};
use crate::{control_link::Admission, striped::Striped};

/// How often data servers are asked how much room they have.
const LOOK_EVERY: Duration = Duration::from_secs(3);

/// Data servers by number.
pub(super) type ByNumber = BTreeMap<DataServerId, Arc<Server>>;

/// The data servers of a cluster.
#[derive(Debug)]
pub struct DataServers {
    /// Never less than before.
    servers: RwLock<Arc<ByNumber>>,
    /// Who we are, to those that are added.
    us: ServerUuid,
    /// Where the connections live.
    runtime: Handle,
    registry: Arc<DataServerRegistry>,
    pub(super) gather: Arc<Gather>,
    /// In which order copies change.
    pub(super) turns: Turns,
    /// Told when somebody has no space left.
    look: Arc<Notify>,
}

impl DataServers {
    /// Begins to connect to all of them, on the current runtime, which must outlive this value.
    /// `us` is the calling metadata server's uuid; only those whose directory is the one in
    /// `registry` are used. `gathers` tells whether small writes wait so as to leave together.
    pub fn start(
        specs: impl IntoIterator<Item = DataServerSpec>,
        us: ServerUuid,
        registry: DataServerRegistry,
        gathers: bool,
    ) -> Arc<Self> {
        let all = Arc::new(DataServers {
            servers: RwLock::default(),
            us,
            runtime: Handle::current(),
            registry: Arc::new(registry),
            gather: Gather::new(gathers),
            turns: Turns::default(),
            look: Arc::default(),
        });
        all.add(specs);
        all
    }

    /// Begins to connect to more of them; those that are known stay as they are.
    pub fn add(&self, specs: impl IntoIterator<Item = DataServerSpec>) {
        let _on = self.runtime.enter();
        let mut servers = self.servers.write().unwrap_or_else(PoisonError::into_inner);
        let more = Arc::make_mut(&mut servers);
        for spec in specs {
            if let Entry::Vacant(place) = more.entry(spec.id) {
                let (registry, look) = (self.registry.clone(), self.look.clone());
                registry.expect(spec.id, spec.uuid);
                place.insert(Server::start(spec, self.us, registry, look));
            }
        }
    }

    /// From now on these are the cluster's secrets: connections and handles made from here on
    /// use the first of them.
    pub fn use_secrets(&self, secrets: &ClusterSecrets) {
        self.registry.use_secrets(secrets);
    }

    /// All of them, at this moment.
    pub(super) fn all(&self) -> Arc<ByNumber> {
        self.servers.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What was written through here.
    pub fn indirect(&self) -> IndirectStatus {
        self.gather.status()
    }

    /// Their numbers, ascending.
    pub fn ids(&self) -> Vec<DataServerId> {
        self.all().keys().copied().collect()
    }

    /// The addresses of each of these for a client at `peer` that reached the metadata server at
    /// `local`, in an order that never changes. None for an unknown data server, and for one whose
    /// name nobody knows.
    pub async fn addresses_for(
        &self,
        ids: &[DataServerId],
        peer: SocketAddr,
        local: SocketAddr,
    ) -> Vec<Vec<SocketAddr>> {
        let one = |id: &DataServerId| {
            let server = self.server(*id);
            async move {
                match server {
                    Ok(server) => addresses::select(&server.addresses().await, peer, local),
                    Err(_) => Vec::new(),
                }
            }
        };
        each::all(ids.iter().map(one)).await
    }

    /// The body of a files layout for a whole file (design D3). One to write with comes with the
    /// verifier that its data servers tell (ADR 43).
    ///
    /// # Errors
    /// As [`DataServers::meet`], which is to be called before, and [`DataServers::meet_verifiers`]
    /// to write.
    pub fn layout_body(
        &self,
        file: &Striped,
        device: DeviceId,
        rights: Rights,
    ) -> Result<(Bytes, Option<Verifier>), DataServerError> {
        let told = if rights.write { Some(self.masks(file)?) } else { None };
        let (verifier, masks) = told.unzip();
        let masks = masks.into_iter().flatten().map(Some).chain(std::iter::repeat(None));
        let handles = (0..).zip(&file.data_servers).zip(masks).map(|((index, id), mask)| {
            let handle = file.masked_handle(index, rights, mask, &self.key(*id)?);
            Ok(Bytes::copy_from_slice(&handle))
        });
        Ok((file.layout_body(device, handles.collect::<Result<_, _>>()?), verifier))
    }

    /// The body of a flexfiles layout for a file that is whole on one data server; `None` for
    /// another file.
    ///
    /// # Errors
    /// As [`DataServers::meet`], which is to be called before.
    pub fn flex_layout_body(
        &self,
        file: &Striped,
        device: DeviceId,
        rights: Rights,
    ) -> Result<Option<Bytes>, DataServerError> {
        let &[id] = &file.data_servers[..] else { return Ok(None) };
        let handle = file.whole_handle(rights, &self.key(id)?);
        let handle = Bytes::copy_from_slice(&handle);
        Ok(Some(file.flex_layout_body(device, handle, rights)))
    }

    /// Waits a moment for those of these that were never met: only then can their filehandles be
    /// sealed.
    ///
    /// # Errors
    /// [`DataServerError::Unreachable`].
    pub async fn meet(&self, ids: &[DataServerId]) -> Result<(), DataServerError> {
        for id in ids {
            if self.registry.key(*id).is_none() {
                self.server(*id)?.ready().await?;
            }
        }
        Ok(())
    }

    /// The sealed filehandle of the object at an index of a file's data servers.
    pub(super) fn handle(
        &self,
        file: &Striped,
        index: u16,
        id: DataServerId,
        rights: Rights,
    ) -> Result<Bytes, DataServerError> {
        Ok(Bytes::copy_from_slice(&file.handle(index, rights, &self.key(id)?)))
    }

    /// What handles for a data server are sealed with.
    fn key(&self, id: DataServerId) -> Result<HandleKey, DataServerError> {
        let why = "it was never met";
        let key = self.registry.key(id);
        key.ok_or_else(|| DataServerError::Unreachable { id, why: why.into() })
    }

    /// Waits a moment for those of these that are not connected.
    ///
    /// # Errors
    /// [`DataServerError::Unreachable`] for the first that does not come.
    pub async fn ready(&self, ids: &[DataServerId]) -> Result<(), DataServerError> {
        for id in ids {
            self.server(*id)?.ready().await?;
        }
        Ok(())
    }

    /// Whether all of these are connected at the moment.
    pub fn are_up(&self, ids: &[DataServerId]) -> bool {
        self.first_away(ids).is_none()
    }

    /// True if all of these data servers are connected and answer at the moment.
    pub(crate) fn all_answer(&self, ids: &[DataServerId]) -> bool {
        let all = self.all();
        ids.iter().all(|id| all.get(id).is_some_and(|server| server.answers()))
    }

    /// The first of these that is not connected at the moment.
    pub fn first_away(&self, ids: &[DataServerId]) -> Option<DataServerId> {
        let all = self.all();
        let is_up = |id| all.get(id).is_some_and(|s| s.is_up());
        ids.iter().find(|id| !is_up(*id)).copied()
    }

    /// How durable a write through this server must be: durable at once while a data server of the
    /// file is away or has just come back. Its verifier may be another one then, and Linux writes
    /// pages of an UNSTABLE write again after `close` has returned, over what others wrote since.
    pub(super) fn durability(&self, ids: &[DataServerId], wanted: StableHow) -> StableHow {
        if self.are_steady(ids) { wanted } else { StableHow::FILE_SYNC }
    }

    /// True if none of these is away, or has just come back.
    pub(crate) fn are_steady(&self, ids: &[DataServerId]) -> bool {
        let all = self.all();
        ids.iter().all(|id| all.get(id).is_some_and(|server| server.is_steady()))
    }

    /// How many connections to these there were so far: the same number twice means that none of
    /// them went away between.
    pub fn connections(&self, ids: &[DataServerId]) -> u64 {
        let all = self.all();
        let of = |id| all.get(id).map_or(0, |server| server.connections());
        ids.iter().map(of).sum()
    }

    /// What may be hoped for from all of these together: from the worst of them. How much room
    /// others have is not asked.
    pub(crate) fn standing(&self, ids: &[DataServerId]) -> Standing {
        let all = self.all();
        let of = |id| all.get(id).map_or(Standing::Away, |server| server.candidate().standing);
        ids.iter().map(of).min().unwrap_or(Standing::Ready)
    }

    /// All of them, as new files may hope for room there.
    pub(crate) fn candidates(&self) -> Vec<Candidate> {
        let mut all: Vec<_> = self.all().values().map(|s| s.candidate()).collect();
        mark_scarce(&mut all);
        all
    }

    /// True if new files may be placed on all of these data servers.
    pub(crate) fn take_new_files(&self, ids: &[DataServerId]) -> bool {
        let ready = |c: &Candidate| c.standing == Standing::Ready;
        let all = self.candidates();
        ids.iter().all(|id| all.iter().any(|c| c.id == *id && ready(c)))
    }

    /// Whether our volume is a copy that nothing is to be changed in (ADR 9): what data servers
    /// have seen of it is another state.
    pub fn is_superseded(&self) -> bool {
        self.registry.is_superseded()
    }

    /// Returns when each of them was reached, or had its time to be: a start is no outage.
    pub async fn begun(&self) {
        for server in self.all().values() {
            server.begun().await;
        }
    }

    /// Somebody found no space on one of them, we do not know which: all are asked at once.
    pub(crate) fn look_at_room(&self) {
        self.look.notify_one();
    }

    /// Keeps asking all that are up how much room they have, for ever, and logs which of them get
    /// no new files for want of it.
    pub(crate) async fn watch_room(&self) {
        let mut passed_over = BTreeSet::new();
        loop {
            let up: Vec<_> = self.all().values().filter(|s| s.is_up()).cloned().collect();
            each::all(up.into_iter().map(|s| async move { s.look_at_room().await })).await;
            log_room(&self.candidates(), &mut passed_over);
            // Either is a reason to ask again.
            let _ = timeout(LOOK_EVERY, self.look.notified()).await;
        }
    }

    /// Tells the age of the volume to all that are connected, and records what they hold: for a
    /// clean stop.
    pub async fn tell_ages(&self) {
        let age = Age { lsn: self.registry.lsn() };
        let tell = |server: Arc<Server>, registry: Arc<DataServerRegistry>| async move {
            if let Ok(held) = server.ask::<Age>(Procedure::AGE, &age).await {
                registry.holds(server.id, held.lsn);
            }
        };
        let all = self.all();
        let up = all.values().filter(|s| s.is_up()).cloned();
        each::all(up.map(|server| tell(server, self.registry.clone()))).await;
        self.registry.record_ages().await;
    }

    /// Requests to the control programs of all data servers so far, by procedure; those that keep
    /// connections alive not counted.
    pub fn messages(&self) -> BTreeMap<String, u64> {
        let mut sum = BTreeMap::new();
        for server in self.all().values() {
            for (procedure, count) in server.messages().by_name() {
                *sum.entry(procedure).or_default() += count;
            }
        }
        sum
    }

    pub(super) fn server(&self, id: DataServerId) -> Result<Arc<Server>, DataServerError> {
        let why = "it is not configured";
        let known = self.all().get(&id).cloned();
        known.ok_or_else(|| DataServerError::Refused { id, why: why.into() })
    }
}

/// Logs each data server that is passed over for want of room from now on, or no longer. One that
/// is away tells nothing.
fn log_room(candidates: &[Candidate], passed_over: &mut BTreeSet<DataServerId>) {
    for Candidate { id, standing, available } in candidates {
        let (n, available) = (id.0, available.unwrap_or(0));
        match standing {
            Standing::Away => {}
            Standing::Full | Standing::Scarce => {
                if passed_over.insert(*id) {
                    let why = "data server is nearly full: new files go to other data servers";
                    tracing::warn!(id = n, available, "{why} while there are any");
                }
            }
            Standing::Ready => {
                if passed_over.remove(id) {
                    tracing::warn!(id = n, available, "data server has room for new files again");
                }
            }
        }
    }
}
