//! The data servers of a cluster: which there are, whether they are up, and the way to them.

use std::{collections::BTreeMap, net::SocketAddr, sync::Arc, time::Duration};

use bytes::Bytes;
use tokio::{sync::Notify, time::timeout};
use weft_control::codec::{Age, Procedure};
use weft_layout::Rights;
use weft_nfs::DeviceId;
use weft_server::{
    identity::{ControlKey, ServerUuid},
    report::IndirectStatus,
};
use weft_store::types::DataServerId;

use super::{
    addresses, each,
    error::DataServerError,
    gather::Gather,
    registry::DataServerRegistry,
    room::{Candidate, Standing},
    server::Server,
    spec::DataServerSpec,
};
use crate::{control_link::Admission, striped::Striped};

/// How often data servers are asked how much room they have.
const LOOK_EVERY: Duration = Duration::from_secs(3);

/// The data servers of a cluster.
#[derive(Debug)]
pub struct DataServers {
    pub(super) servers: BTreeMap<DataServerId, Arc<Server>>,
    registry: Arc<DataServerRegistry>,
    pub(super) gather: Arc<Gather>,
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
        control_key: &ControlKey,
        registry: DataServerRegistry,
        gathers: bool,
    ) -> Arc<Self> {
        let registry = Arc::new(registry);
        let look = Arc::new(Notify::new());
        let server = |spec: DataServerSpec| {
            (spec.id, Server::start(spec, us, control_key, registry.clone(), look.clone()))
        };
        let servers = specs.into_iter().map(server).collect();
        Arc::new(DataServers { servers, registry, gather: Gather::new(gathers), look })
    }

    /// What was written through here.
    pub fn indirect(&self) -> IndirectStatus {
        self.gather.status()
    }

    /// Their numbers, ascending.
    pub fn ids(&self) -> Vec<DataServerId> {
        self.servers.keys().copied().collect()
    }

    /// The addresses of a data server for a client at `peer` that reached the metadata server at
    /// `local`, in an order that never changes. Empty for an unknown data server.
    pub fn addresses_for(
        &self,
        id: DataServerId,
        peer: SocketAddr,
        local: SocketAddr,
    ) -> Vec<SocketAddr> {
        self.servers
            .get(&id)
            .map(|s| addresses::select(&s.addresses(), peer, local))
            .unwrap_or_default()
    }

    /// The body of a files layout for a whole file (design D3).
    ///
    /// # Errors
    /// As [`DataServers::meet`], which is to be called before.
    pub fn layout_body(
        &self,
        file: &Striped,
        device: DeviceId,
        rights: Rights,
    ) -> Result<Bytes, DataServerError> {
        let handles = (0..).zip(&file.data_servers);
        let handles = handles.map(|(index, id)| self.handle(file, index, *id, rights));
        Ok(file.layout_body(device, handles.collect::<Result<_, _>>()?))
    }

    /// Waits a moment for those data servers of a file that were never met: only then can their
    /// filehandles be sealed.
    ///
    /// # Errors
    /// [`DataServerError::Unreachable`].
    pub async fn meet(&self, file: &Striped) -> Result<(), DataServerError> {
        for id in &file.data_servers {
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
        let why = "it was never met";
        let key = self.registry.key(id);
        let key = key.ok_or_else(|| DataServerError::Unreachable { id, why: why.into() })?;
        Ok(Bytes::copy_from_slice(&file.handle(index, rights, &key)))
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

    /// The first of these that is not connected at the moment.
    pub fn first_away(&self, ids: &[DataServerId]) -> Option<DataServerId> {
        let is_up = |id| self.servers.get(id).is_some_and(|s| s.is_up());
        ids.iter().find(|id| !is_up(*id)).copied()
    }

    /// How many connections to these there were so far: the same number twice means that none of
    /// them went away between.
    pub fn connections(&self, ids: &[DataServerId]) -> u64 {
        let of = |id| self.servers.get(id).map_or(0, |server| server.connections());
        ids.iter().map(of).sum()
    }

    /// Whether all of these are connected and have room for more.
    pub(crate) fn have_room(&self, ids: &[DataServerId]) -> bool {
        let ready = |s: &Arc<Server>| s.candidate().standing == Standing::Ready;
        ids.iter().all(|id| self.servers.get(id).is_some_and(ready))
    }

    /// All of them, as new files may hope for room there.
    pub(crate) fn candidates(&self) -> Vec<Candidate> {
        self.servers.values().map(|s| s.candidate()).collect()
    }

    /// Returns when each of them was reached, or had its time to be: a start is no outage.
    pub(crate) async fn begun(&self) {
        for server in self.servers.values() {
            server.begun().await;
        }
    }

    /// Somebody found no space on one of them, we do not know which: all are asked at once.
    pub(crate) fn look_at_room(&self) {
        self.look.notify_one();
    }

    /// Keeps asking all that are up how much room they have, for ever.
    pub(crate) async fn watch_room(&self) {
        loop {
            let up: Vec<_> = self.servers.values().filter(|s| s.is_up()).cloned().collect();
            each::all(up.into_iter().map(|s| async move { s.look_at_room().await })).await;
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
        let up = self.servers.values().filter(|s| s.is_up()).cloned();
        each::all(up.map(|server| tell(server, self.registry.clone()))).await;
        self.registry.record_ages().await;
    }

    /// Requests to the control programs of all data servers so far, by procedure; those that keep
    /// connections alive not counted.
    pub fn messages(&self) -> BTreeMap<String, u64> {
        let mut sum = BTreeMap::new();
        for server in self.servers.values() {
            for (procedure, count) in server.messages().by_name() {
                *sum.entry(procedure).or_default() += count;
            }
        }
        sum
    }

    pub(super) fn server(&self, id: DataServerId) -> Result<&Arc<Server>, DataServerError> {
        let why = "it is not configured";
        self.servers.get(&id).ok_or_else(|| DataServerError::Refused { id, why: why.into() })
    }
}
