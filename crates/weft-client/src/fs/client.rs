//! A client of one cluster.

use std::{net::SocketAddr, path::PathBuf, sync::Arc, time::Duration};

use weft_nfs::Bitmap;

use super::{declined::Declined, recall, scratch::Scratch};
use crate::{
    core::Role,
    error::ClientError,
    identity::Identity,
    io::{Cluster, Delegated, FileTable, IoPolicy, OpenFiles, Returns},
    layout::{DataServers, DeviceCache, Drivers, FilesDriver, FlexFilesDriver, LayoutDriver},
    local::LOCAL_SOCKETS,
    node::{NODE_ATTRS, Nodes},
    random::random,
    rpc::Credential,
    session::{Session, SessionOptions},
    waiting::OnWait,
};

/// How a client connects.
#[derive(Clone)]
pub struct ClientOptions {
    /// 1 or 2.
    pub minorversion: u32,
    /// The user sent with every request.
    pub credential: Credential,
    /// Requests under way at a time, for each server.
    pub slots: u32,
    /// How long to wait for a metadata server that cannot be reached.
    pub patience: Duration,
    /// The same for a data server, before its data go through the metadata server.
    pub data_server_patience: Duration,
    /// Whether to use layouts at all.
    pub layouts: bool,
    /// Layout types understood, preferred first. Those that the server announces are used. One's
    /// own beside these: [`super::ClientBuilder::driver`].
    pub drivers: Vec<Arc<dyn LayoutDriver>>,
    /// Whether names travel with the requests on them, and small files whole (P3.4): one round
    /// trip instead of a few. `false` is for measurements.
    pub eager: bool,
    /// How the data of open files travel.
    pub policy: IoPolicy,
    /// Whether files that are opened for reading may be delegated: they are then read and opened
    /// again without asking, until another client writes them. Of no use to who reads each file
    /// once.
    pub delegations: bool,
    /// Where data servers of this host have their sockets, by which their objects are read by
    /// descriptor; none: everything goes over TCP.
    pub local_sockets: Option<PathBuf>,
    /// Who the client is; a unique one if absent.
    pub identity: Option<Identity>,
    /// Told of what requests wait for.
    pub on_wait: Option<OnWait>,
}

impl Default for ClientOptions {
    fn default() -> Self {
        ClientOptions {
            minorversion: 2,
            credential: Credential::of_process(),
            slots: 64,
            patience: Duration::from_secs(90),
            data_server_patience: Duration::from_secs(15),
            layouts: true,
            drivers: vec![Arc::new(FlexFilesDriver), Arc::new(FilesDriver)],
            eager: true,
            policy: IoPolicy::default(),
            delegations: true,
            local_sockets: Some(LOCAL_SOCKETS.into()),
            identity: None,
            on_wait: None,
        }
    }
}

/// A client of one Weft (or other NFSv4.1) server and its data servers. Clones share it.
#[derive(Clone)]
pub struct Client {
    pub(super) nodes: Nodes,
    pub(super) scratch: Arc<Scratch>,
    pub(super) eager: bool,
    pub(super) declined: Arc<Declined>,
}

/// Attributes asked for by [`Client::stat`] and [`Client::read_dir`].
pub const STAT_ATTRS: Bitmap = NODE_ATTRS;

impl Client {
    /// Connects to a metadata server.
    ///
    /// # Errors
    /// [`ClientError::Unreachable`] after the options' patience; a refusal at once.
    pub async fn connect(
        server: SocketAddr,
        options: ClientOptions,
    ) -> Result<Client, ClientError> {
        let files = Arc::new(OpenFiles::default());
        let identity = options.identity.clone().map_or_else(Identity::unique, Ok)?;
        let mut session = SessionOptions {
            minorversion: options.minorversion,
            slots: options.slots,
            patience: options.patience,
            on_wait: options.on_wait.clone(),
            ..SessionOptions::new(Role::Mds, identity.clone(), options.credential.clone())
        };
        let data = SessionOptions {
            role: Role::Ds,
            patience: options.data_server_patience,
            ..session.clone()
        };
        let (lock_notices, delegated) =
            (Arc::default(), Arc::new(Delegated::new(options.delegations)));
        let returns = Arc::new(Returns::new(files.clone(), delegated.clone()));
        session.callbacks = Some(Arc::new(recall::Recalls {
            files: files.clone(),
            returns: returns.clone(),
            lock_notices: Arc::clone(&lock_notices),
        }));
        let mds = Session::open(server, session).await?;
        let has_layouts = options.layouts && mds.serves_layouts();
        let drivers = if has_layouts { options.drivers } else { Vec::new() };
        let servers = DataServers::new(data);
        let servers = match &options.local_sockets {
            Some(dir) => servers.with_local_sockets(dir),
            None => servers,
        };
        let cluster = Arc::new(Cluster {
            mds,
            servers,
            devices: DeviceCache::default(),
            drivers: Drivers::new(drivers),
            files: Arc::new(FileTable::new(&options.policy)),
            delegated,
            closes: Arc::default(),
            policy: options.policy,
        });
        returns.to(&cluster);
        let scratch = Arc::new(Scratch::of(identity.owner_id()));
        let first_owner = u64::from_be_bytes(random()?);
        let nodes = Nodes::new(cluster, (files, returns), lock_notices, first_owner);
        Ok(Client { nodes, scratch, eager: options.eager, declined: Arc::default() })
    }

    /// Bytes that were read by descriptor of data servers on this host, instead of over TCP.
    pub fn read_by_descriptor(&self) -> u64 {
        self.nodes.cluster.servers.local().map_or(0, |local| local.bytes())
    }

    /// Descriptors of objects on this host that are open.
    pub fn descriptors_open(&self) -> usize {
        self.nodes.cluster.servers.local().map_or(0, |local| local.open())
    }

    /// The same client for another user: sessions, layouts and open files are shared, and what is
    /// asked of the metadata server is asked in this user's name.
    #[must_use]
    pub fn acting_for(&self, caller: Credential) -> Client {
        Client { nodes: self.nodes.acting_for(caller), ..self.clone() }
    }

    /// The session with the metadata server, for requests that this API does not offer.
    pub fn session(&self) -> &Session {
        &self.nodes.mds
    }

    /// Memory that is taken by what is cached of files, in bytes: at most that of the policy
    /// ([`IoPolicy::cache_bytes`]), but for what a single write needs.
    pub fn cached_bytes(&self) -> u64 {
        self.nodes.cluster.files.used_bytes()
    }

    /// Files, directories and links by handle.
    pub fn nodes(&self) -> &Nodes {
        &self.nodes
    }

    /// Ends all sessions, so that the servers forget us at once, and removes what unfinished
    /// transfers have left. What is written to files that are not closed may be lost. It takes no
    /// longer than [`crate::limits::DISCARD_LIMIT`] and [`crate::limits::GOODBYE_LIMIT`].
    pub async fn close(self) {
        self.discard_all().await;
        let cluster = &self.nodes.cluster;
        // The end of the session closes the remaining files.
        let _ = tokio::time::timeout(crate::limits::GOODBYE_LIMIT, cluster.closes.send_all()).await;
        tokio::join!(cluster.servers.close(), cluster.mds.clone().close());
    }
}
