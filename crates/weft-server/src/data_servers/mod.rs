//! The metadata server's view of its data servers: what they hold, what they are told to do, and
//! the way to their bytes for clients that go through the metadata server.
//!
//! Requests are batched by server and run on all servers at once. A server that is down is
//! waited for two seconds after it went; from then on requests to it fail at once, until the
//! background task has it back.

mod addresses;
mod each;
mod error;
mod indirect;
mod objects;
mod server;
#[cfg(test)]
mod tests;

use std::{collections::BTreeMap, net::SocketAddr, sync::Arc};

use weft_store::types::DataServerId;

pub use addresses::{AnnouncedAddress, NotAnAddress};
pub use error::DataServerError;
pub use objects::{ClusterSpace, FileTruth};

use crate::{
    config::DataServerConfig,
    identity::{ControlKey, HandleKey, ServerUuid},
};
use server::Server;

/// Where a data server is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DataServerSpec {
    /// Its number.
    pub id: DataServerId,
    /// Where the metadata server reaches it: its NFS port.
    pub control: SocketAddr,
    /// Where clients reach it; `control` if empty.
    pub addresses: Vec<AnnouncedAddress>,
}

impl From<&DataServerConfig> for DataServerSpec {
    fn from(c: &DataServerConfig) -> Self {
        DataServerSpec {
            id: DataServerId(c.id),
            control: c.control,
            addresses: c.addresses.clone(),
        }
    }
}

/// The data servers of a cluster.
#[derive(Debug)]
pub struct DataServers {
    servers: BTreeMap<DataServerId, Arc<Server>>,
    handle_key: HandleKey,
}

impl DataServers {
    /// Begins to connect to all of them, on the current runtime, which must outlive this value.
    /// `us` is the calling metadata server's uuid.
    pub fn start(
        specs: impl IntoIterator<Item = DataServerSpec>,
        us: ServerUuid,
        control_key: &ControlKey,
        handle_key: HandleKey,
    ) -> Arc<Self> {
        let server = |spec: DataServerSpec| (spec.id, Server::start(spec, us, control_key));
        let servers = specs.into_iter().map(server).collect();
        Arc::new(DataServers { servers, handle_key })
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
            .map(|s| addresses::select(s.addresses(), peer, local))
            .unwrap_or_default()
    }

    /// Whether all of these are connected at the moment.
    pub fn are_up(&self, ids: &[DataServerId]) -> bool {
        ids.iter().all(|id| self.servers.get(id).is_some_and(|s| s.is_up()))
    }

    fn server(&self, id: DataServerId) -> Result<&Arc<Server>, DataServerError> {
        let why = "it is not configured";
        self.servers.get(&id).ok_or_else(|| DataServerError::Refused { id, why: why.into() })
    }
}
