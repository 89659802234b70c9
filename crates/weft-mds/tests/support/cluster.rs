//! Servers on loopback: started, killed, and started again on the same data.

use std::{
    net::SocketAddr,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::{Arc, Weak},
    time::{Duration, Instant},
};

use tempfile::TempDir;
use tokio::{
    net::{TcpListener, UnixListener},
    runtime::{Builder, Handle, Runtime},
};
use weft_ds::{DataServer, control::Service, serve_locally, socket_name};
use weft_mds::{
    Export, LayoutKind, Mds, MdsParts, Naming, ObjectCreation, Reconfiguration, SmallFiles,
    Striping,
    data_servers::{DataServerRegistry, DataServerSpec, DataServers},
    run_background,
};
use weft_server::{
    clock::random,
    core::Core,
    identity::{ClusterSecrets, ServerRole, ServerUuid, identity},
    report::IndirectStatus,
    rpc::{Connections, Program, Server, ServerLimits},
};
use weft_state::{SessionLimits, StateLimits};
use weft_store::{
    engine::EngineError,
    objects::{ObjectError, ObjectStore, ObjectStoreOptions},
    types::DataServerId,
    volume::{Format, Volume, VolumeConfig},
};

use super::{PATIENCE, valve::Valve};

/// An export that believes everybody: tests claim to be whom they like.
pub fn open_export() -> Export {
    Export { root_squash: false, privileged_ports: false, auth_none: true, ..Export::default() }
}

/// What a cluster is like.
#[derive(Clone)]
pub struct Options {
    /// How many data servers there are.
    pub data_servers: u32,
    /// Data servers of a file, at most.
    pub stripe_width: u16,
    /// How clients are told where files are.
    pub layout: LayoutKind,
    /// Lease, and longest grace, seconds.
    pub lease_s: u32,
    /// How callers are mapped.
    pub export: Export,
    /// How owners are called.
    pub naming: Naming,
    /// How small files are treated.
    pub small_files: SmallFiles,
    /// When the objects of files are made.
    pub creation: ObjectCreation,
    /// Limits of clients and sessions.
    pub limits: SessionLimits,
    /// Limits of what clients hold.
    pub state_limits: StateLimits,
    /// Whether the volume outlives the metadata server.
    pub on_disk: bool,
    /// What connections may take.
    pub server: ServerLimits,
    /// Whether the metadata server's way to data servers can be shut.
    pub valves: bool,
    /// Where data servers keep their directories, each in its turn; else all beside the volume.
    pub disks: Vec<PathBuf>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            data_servers: 0,
            stripe_width: u16::MAX,
            layout: LayoutKind::default(),
            lease_s: 60,
            export: open_export(),
            naming: Naming::default(),
            small_files: SmallFiles::default(),
            creation: ObjectCreation::default(),
            limits: SessionLimits::default(),
            state_limits: StateLimits::default(),
            on_disk: false,
            server: ServerLimits::default(),
            valves: false,
            disks: Vec::new(),
        }
    }
}

/// A metadata server and its data servers.
pub struct Cluster {
    options: Options,
    dir: TempDir,
    secret: ClusterSecrets,
    uuid: ServerUuid,
    mds: Option<RunningMds>,
    data_servers: Vec<Serving>,
    /// Of each data server, if they were asked for.
    pub valves: Vec<Valve>,
    specs: Vec<DataServerSpec>,
}

struct RunningMds {
    mds: Arc<Mds>,
    serving: Serving,
}

/// A server and the threads of its own that do all of its work.
struct Serving {
    address: SocketAddr,
    connections: Connections,
    threads: Threads,
}

/// What is under way when they end goes no further, as when a process is killed.
struct Threads(Option<Runtime>);

impl Threads {
    fn start() -> Threads {
        let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build();
        Threads(Some(runtime.unwrap()))
    }

    fn handle(&self) -> &Handle {
        self.0.as_ref().expect("they run").handle()
    }

    /// Does on these threads what a server begins with.
    async fn run<T: Send + 'static>(&self, work: impl Future<Output = T> + Send + 'static) -> T {
        self.handle().spawn(work).await.unwrap()
    }

    /// Serves on these threads until they end.
    async fn serve(
        self,
        at: SocketAddr,
        programs: Vec<Arc<dyn Program>>,
        connections: Connections,
        limits: ServerLimits,
    ) -> Serving {
        let listener = self.run(TcpListener::bind(at)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = Server::new(programs, connections.clone(), limits);
        self.handle().spawn(server.accept(listener, self.handle().clone().into()));
        Serving { address, connections, threads: self }
    }

    fn end(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        self.end();
    }
}

impl Cluster {
    /// One without data servers, with generous leases.
    pub async fn start() -> Cluster {
        Self::with(Options::default()).await
    }

    /// One with data servers, where files are from their first byte.
    pub async fn striped(data_servers: u32) -> Cluster {
        let small_files = SmallFiles::OFF;
        Self::with(Options { data_servers, small_files, ..Options::default() }).await
    }

    pub async fn with(options: Options) -> Cluster {
        let secret = ClusterSecrets::from_text("a secret for tests, not for clusters").unwrap();
        let mut cluster = Cluster {
            dir: tempfile::tempdir().unwrap(),
            secret,
            uuid: ServerUuid(random()),
            mds: None,
            data_servers: Vec::new(),
            valves: Vec::new(),
            specs: Vec::new(),
            options,
        };
        for id in 1..=cluster.options.data_servers {
            cluster.start_data_server(id).await;
        }
        cluster.start_mds().await;
        cluster
    }

    async fn start_data_server(&mut self, id: u32) {
        let serving = self.serve_objects(id, anywhere()).await;
        let mut spec = DataServerSpec {
            id: DataServerId(id),
            control: serving.address.into(),
            addresses: Vec::new(),
            uuid: None,
        };
        if self.options.valves {
            let valve = Valve::before(serving.address).await;
            spec.addresses = vec![serving.address.into()];
            spec.control = valve.address.into();
            self.valves.push(valve);
        }
        self.specs.push(spec);
        self.data_servers.push(serving);
    }

    /// A data server of its directory; one that was just let go may still be closing.
    async fn serve_objects(&self, id: u32, at: SocketAddr) -> Serving {
        let dir = self.data_server_dir(id);
        std::fs::create_dir_all(&dir).unwrap();
        let mut opened = None;
        eventually("end of the former data server", || {
            opened = match ObjectStore::open(&dir, &ObjectStoreOptions::default()) {
                Err(ObjectError::InUse) => None,
                other => Some(other.unwrap()),
            };
            opened.is_some()
        })
        .await;
        let store = opened.unwrap();
        let store_uuid = ServerUuid(store.identity());
        let who = identity(ServerRole::Ds, store_uuid);
        let owner = who.server_owner.major_id.0.to_vec();
        let core = Core::new(who, SessionLimits::default(), 3600);
        let connections = core.connections.clone();
        let number = DataServerId(id);
        let ds = DataServer::new(core, number, Arc::new(store), &self.secret).unwrap();
        let control = Service::new(ds.clone(), &self.secret).unwrap();
        let threads = Threads::start();
        let socket = self.local_socket(store_uuid);
        std::fs::create_dir_all(self.local_sockets()).unwrap();
        let _stale = std::fs::remove_file(&socket);
        let listener = threads.run(async move { UnixListener::bind(socket).unwrap() }).await;
        threads.handle().spawn(serve_locally(ds.clone(), listener, owner));
        let nfs = ds.nfs();
        let limits = self.options.server.clone();
        threads.serve(at, vec![nfs, control], connections, limits).await
    }

    /// Opens the volume; one that was just let go may still be closing on another thread.
    async fn open_volume(dir: &Path, on_disk: bool) -> Volume {
        let format = Format { uuid: [7; 16], fsid: (7, 8), ..Format::default() };
        let config = VolumeConfig { format, cache_bytes: 8 << 20, ..VolumeConfig::default() };
        if on_disk {
            let mut opened = None;
            eventually("end of the former volume", || {
                let at = dir.join("volume");
                opened = match Volume::open(&at, &config) {
                    Err(EngineError::NoVolume(_)) => Some(Volume::make(&at, &config).unwrap()),
                    Err(EngineError::InUse(_)) => None,
                    other => Some(other.unwrap()),
                };
                opened.is_some()
            })
            .await;
            opened.unwrap()
        } else {
            Volume::in_memory(&config).unwrap()
        }
    }

    async fn start_mds(&mut self) {
        let volume = Self::open_volume(self.dir.path(), self.options.on_disk).await;
        let threads = Threads::start();
        let data_servers = {
            let _on = threads.handle().enter();
            let registry = DataServerRegistry::open(volume.clone(), &self.secret).unwrap();
            let gathers = self.options.small_files.gather;
            DataServers::start(self.specs.clone(), self.uuid, registry, gathers)
        };
        let width = u16::try_from(self.specs.len()).unwrap().clamp(1, self.options.stripe_width);
        let parts = MdsParts {
            identity: identity(ServerRole::Mds, self.uuid),
            limits: self.options.limits.clone(),
            state_limits: self.options.state_limits.clone(),
            lease_s: self.options.lease_s,
            grace_s: self.options.lease_s,
            instance: u32::from_be_bytes(random()),
            volume,
            data_servers,
            small_files: self.options.small_files,
            threads: 1,
            creation: self.options.creation,
            striping: Striping { unit_bytes: 1 << 20, width },
            layout: self.options.layout,
            export: self.options.export.clone(),
            naming: self.options.naming.clone(),
            address: ([127, 0, 0, 1], 0).into(),
        };
        let mds = threads.run(Mds::start(parts)).await.unwrap();
        threads.handle().spawn(run_background(mds.clone()));
        let connections = weft_server::compound::Role::core(&*mds).connections.clone();
        let nfs = mds.nfs();
        let limits = self.options.server.clone();
        let serving = threads.serve(anywhere(), vec![nfs], connections, limits).await;
        self.mds = Some(RunningMds { mds, serving });
    }

    /// Where the metadata server serves.
    pub fn address(&self) -> SocketAddr {
        self.running().serving.address
    }

    /// Where a data server serves, by index.
    pub fn data_server(&self, index: usize) -> SocketAddr {
        self.data_servers[index].address
    }

    fn running(&self) -> &RunningMds {
        self.mds.as_ref().expect("the metadata server runs")
    }

    /// What was written through the metadata server.
    pub fn indirect(&self) -> IndirectStatus {
        self.running().mds.data_servers().indirect()
    }

    /// The metadata server itself.
    pub fn mds(&self) -> &Mds {
        &self.running().mds
    }

    /// The volume of the metadata server.
    pub fn volume(&self) -> &Volume {
        self.running().mds.volume()
    }

    /// Bytes of disk that the objects of all data servers use.
    pub fn object_bytes(&self) -> u64 {
        fn used(dir: &Path) -> u64 {
            let Ok(entries) = std::fs::read_dir(dir) else { return 0 };
            let entry = |path: &Path| match path.is_dir() {
                true => used(path),
                false => path.metadata().map_or(0, |m| m.blocks() * 512),
            };
            entries.map(|found| entry(&found.unwrap().path())).sum()
        }
        let ids = 1..=self.options.data_servers;
        ids.map(|id| used(&self.data_server_dir(id).join("objects"))).sum()
    }

    /// How many objects all data servers have.
    pub fn objects(&self) -> usize {
        self.object_files().len()
    }

    /// The files that are the objects of all data servers.
    pub fn object_files(&self) -> Vec<PathBuf> {
        fn files(dir: &Path, found: &mut Vec<PathBuf>) {
            let Ok(entries) = std::fs::read_dir(dir) else { return };
            for path in entries.map(|entry| entry.unwrap().path()) {
                if path.is_dir() { files(&path, found) } else { found.push(path) }
            }
        }
        let mut found = Vec::new();
        for id in 1..=self.options.data_servers {
            files(&self.data_server_dir(id).join("objects"), &mut found);
        }
        found
    }

    /// Where the objects of a data server are, by index.
    pub fn object_dir(&self, index: usize) -> PathBuf {
        self.data_server_dir(index as u32 + 1).join("objects")
    }

    /// The directory of everything.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Where the data servers have their sockets for clients of this host.
    pub fn local_sockets(&self) -> PathBuf {
        self.dir.path().join("local")
    }

    fn local_socket(&self, uuid: ServerUuid) -> PathBuf {
        let owner = identity(ServerRole::Ds, uuid).server_owner.major_id.0;
        self.local_sockets().join(socket_name(&owner).unwrap())
    }

    pub fn data_server_dir(&self, id: u32) -> PathBuf {
        let disks = self.options.disks.iter().map(PathBuf::as_path);
        let mut disks = disks.cycle().skip(id as usize - 1);
        disks.next().unwrap_or(self.dir.path()).join(format!("ds{id}"))
    }

    /// New files are striped over so many data servers from now on.
    pub fn stripe_over(&mut self, width: u16) {
        self.options.stripe_width = width;
        self.reload(self.options.export.clone());
    }

    /// Requests of one sort to the control programs of all data servers so far.
    pub fn control_messages(&self, procedure: &str) -> u64 {
        let sent = self.running().mds.data_servers().messages();
        sent.get(procedure).copied().unwrap_or(0)
    }

    /// Files to come whose objects are ready.
    pub fn files_ahead(&self) -> Option<usize> {
        self.running().mds.files_ahead()
    }

    /// Ends a data server, by index; the metadata server knows.
    pub async fn stop_data_server(&mut self, index: usize) {
        let (id, all) = (self.specs[index].id, self.running().mds.data_servers().clone());
        // One that is still being connected would seem to have ended.
        all.begun().await;
        self.data_servers[index].threads.end();
        eventually("end of the connection", || !all.are_up(&[id])).await;
    }

    /// Ends a data server, by index, unless it has ended, and starts it on the same data at the
    /// same port.
    pub async fn restart_data_server(&mut self, index: usize) {
        let (id, address) = (self.specs[index].id, self.data_servers[index].address);
        self.stop_data_server(index).await;
        self.data_servers[index] = self.serve_objects(id.0, address).await;
        let all = self.running().mds.data_servers();
        eventually("a new connection", || all.are_up(&[id])).await;
    }

    /// The metadata server goes on with these rules for clients.
    pub fn reload(&self, export: Export) {
        let mds = self.mds();
        let threshold_bytes = mds.threshold_status().configured;
        let width = u16::try_from(self.specs.len()).unwrap().clamp(1, self.options.stripe_width);
        let striping = Striping { unit_bytes: 1 << 20, width };
        let new = Reconfiguration { export, threshold_bytes, striping, data_servers: Vec::new() };
        mds.reconfigure(new).unwrap();
    }

    /// When the objects of files are made from the next start on.
    pub fn set_creation(&mut self, creation: ObjectCreation) {
        self.options.creation = creation;
    }

    /// Connections that the metadata server holds open.
    pub fn connections(&self) -> usize {
        self.running().serving.connections.count()
    }

    /// What the export is from the next start on.
    pub fn set_export(&mut self, export: Export) {
        self.options.export = export;
    }

    /// Kills the metadata server without a word to anybody, and starts it on the same data, at
    /// another port.
    pub async fn restart(&mut self) {
        let RunningMds { mds, serving } = self.mds.take().expect("it runs");
        let gone: Weak<Mds> = Arc::downgrade(&mds);
        drop((mds, serving));
        eventually("end of the metadata server", || gone.strong_count() == 0).await;
        self.start_mds().await;
    }
}

/// A port that the system chooses.
fn anywhere() -> SocketAddr {
    ([127, 0, 0, 1], 0).into()
}

/// Polls until `done`; fails when patience ends.
pub async fn eventually(what: &str, mut done: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !done() {
        assert!(Instant::now() < deadline, "no {what}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}
