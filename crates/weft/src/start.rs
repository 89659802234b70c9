//! Putting servers together from their configuration, and starting them.

use std::{
    io,
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use nix::unistd::Group;
use tokio::{net::TcpListener, runtime::Handle};
use weft_ds::{DataServer, control::Service, serve_locally, socket_name};
use weft_io::durable;
use weft_mds::{
    Access, ClientRule, Delegated, Export, LayoutKind, Mds, MdsParts, Naming, Reconfiguration,
    SmallFiles, Striping,
    data_servers::{
        DataServerRegistry, DataServerSpec, DataServers, Unconfigured, require_configured,
    },
    run_background,
};
use weft_server::{
    clock::{Clock, random},
    compound::Role,
    core::Core,
    identity::{ClusterSecrets, IdentityError, ServerRole, ServerUuid, identity},
    rpc::{Program, Server, ServerLimits, Workers},
};
use weft_state::{SessionLimits, StateLimits};
use weft_store::{
    engine::{EngineError, EngineKind as StoreEngine},
    objects::{self, CachePolicy, ObjectStore, ObjectStoreOptions},
    types::{DataServerId, StoreError, Timestamp},
    volume::{CommitPolicy, Format, Volume, VolumeConfig},
};

use crate::{
    admin_service::{AdminDoors, SocketError},
    admin_token::{AdminToken, TokenError},
    config::{
        CacheKind, ClientAccess, ClientConfig, DataServerConfig, DsConfig, EngineKind,
        ExportConfig, Flavor, LayoutTypeKind, MdsConfig, NamedId, NamesConfig,
    },
    disk_kind::{read_only_hint, warn_if_unfit},
    machine,
    unix_socket::{self, Guests},
};

/// Memory for the caches of a volume. The engine's part, 12 MiB, is allocated by whatever thread
/// lists a directory, and the allocator keeps as much again for each of two.
const VOLUME_CACHE_BYTES: u64 = 48 << 20;
/// How often a data server forgets clients whose lease has passed.
const DS_SWEEP: Duration = Duration::from_secs(60);

/// The volume's directory in a metadata server's.
const VOLUME: &str = "volume";

/// Why a server did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The address cannot be listened on.
    #[error("cannot listen on {address}: {error}{}", listen_hint(.error))]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why.
        error: io::Error,
    },
    /// The socket of the admin service cannot be listened on.
    #[error("cannot listen on {}: {error} (admin_socket names another)", path.display())]
    AdminSocket {
        /// The socket.
        path: PathBuf,
        /// Why.
        error: SocketError,
    },
    /// The group that may use it is not known.
    #[error("admin_group: there is no group {0:?} on this machine")]
    AdminGroup(String),
    /// The token of its TCP port.
    #[error(transparent)]
    AdminToken(#[from] TokenError),
    /// The data directory cannot be used.
    #[error("data directory {path}: {error}")]
    Directory {
        /// The directory.
        path: String,
        /// Why.
        error: String,
    },
    /// A server that was running cannot go on.
    #[error(
        "the volume in {path} has stopped: {error}. Everything that was acknowledged is there, and \
         clients wait. Look for errors of the disk (dmesg), check with `weft fsck`, start again"
    )]
    Stopped {
        /// The volume's directory.
        path: String,
        /// Why.
        error: String,
    },
    /// The directory of a metadata server has no volume.
    #[error(
        "{}: there is no volume here: put the right directory in its place (is its disk \
         mounted?), or make a new, empty file system with `weft init --config FILE`",
        path.display()
    )]
    NoVolume {
        /// The directory.
        path: PathBuf,
    },
    /// Identity or secret.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// The volume store.
    #[error("volume store: {0}")]
    Store(#[from] StoreError),
    /// The configuration lacks a data server.
    #[error(transparent)]
    Unconfigured(#[from] Unconfigured),
    /// The system refuses threads or files.
    #[error("the system refuses: {0}")]
    System(#[from] io::Error),
}

fn listen_hint(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::AddrInUse => " (another server is using it; choose another port)",
        io::ErrorKind::PermissionDenied => " (ports below 1024 need privileges)",
        io::ErrorKind::AddrNotAvailable => " (no such address on this machine)",
        _ => "",
    }
}

/// Listens, with the error naming the address.
///
/// # Errors
/// [`StartError::Listen`].
pub async fn listen(address: SocketAddr) -> Result<TcpListener, StartError> {
    TcpListener::bind(address).await.map_err(|error| StartError::Listen { address, error })
}

/// Listens for administrators as configured.
///
/// # Errors
/// [`StartError`]: an address or socket that is in use, no such group, no token.
pub async fn admin_doors(config: &MdsConfig) -> Result<AdminDoors, StartError> {
    let tcp = match (config.admin_listen, &config.admin_token_file) {
        (Some(address), Some(token)) => Some((listen(address).await?, AdminToken::load(token)?)),
        _ => None,
    };
    let group = match &config.admin_group {
        Some(name) => {
            let found = Group::from_name(name).map_err(io::Error::from)?;
            let found = found.ok_or_else(|| StartError::AdminGroup(name.clone()))?;
            Some(found.gid.as_raw())
        }
        None => None,
    };
    let path = config.admin_socket();
    AdminDoors::listen(path, group, tcp)
        .map_err(|error| StartError::AdminSocket { path: path.to_owned(), error })
}

/// A server that is serving.
#[derive(Debug, Clone)]
pub struct RunningMds {
    /// The server.
    pub mds: Arc<Mds>,
    /// Where clients connect.
    pub address: SocketAddr,
    /// Unix socket where administrators do.
    pub admin: PathBuf,
    /// TCP address where they do as well.
    pub admin_tcp: Option<SocketAddr>,
    /// Directory of its volume.
    volume_dir: PathBuf,
}

impl RunningMds {
    /// The export in words: a line for each sort of client that gets here.
    pub fn who_may_do_what(&self) -> Vec<String> {
        self.mds.export_summary(!self.address.ip().is_loopback())
    }

    /// Waits until the server must end, which may be never: its volume has stopped.
    pub async fn failed(&self) -> StartError {
        let error = self.mds.failed().await.to_string();
        StartError::Stopped { path: self.volume_dir.display().to_string(), error }
    }
}

/// A data server that is serving.
#[derive(Debug, Clone)]
pub struct RunningDs {
    /// The server.
    pub ds: Arc<DataServer>,
    /// Its control program.
    pub control: Arc<Service>,
    /// Where clients and the metadata server connect.
    pub address: SocketAddr,
}

fn directory_error(path: &Path) -> impl FnOnce(String) -> StartError + '_ {
    move |error| StartError::Directory {
        path: path.display().to_string(),
        error: error + read_only_hint(path),
    }
}

/// Starts a metadata server. The tasks live on threads of their own until the process ends.
///
/// # Errors
/// [`StartError`].
pub async fn mds(
    config: &MdsConfig,
    secrets: &ClusterSecrets,
    listener: TcpListener,
    admin: AdminDoors,
) -> Result<RunningMds, StartError> {
    let address = listener.local_addr()?;
    let volume_dir = volume_dir(config);
    let volume = open_volume(config)?;
    warn_if_unfit(&config.dir);
    require_configured(&volume, config.data_servers.iter().map(|d| DataServerId(d.id)))?;
    let workers = Workers::start("weft-mds", config.threads())?;
    let uuid = ServerUuid::load_or_create(&config.dir)?;
    let data_servers = {
        // Its connections live on the first worker.
        let _on = workers.pick(0).enter();
        let specs = config.data_servers.iter().map(data_server);
        let registry = DataServerRegistry::open(volume.clone(), secrets)?;
        let gathers = config.small_files.gather;
        DataServers::start(specs, uuid, registry, gathers)
    };
    let parts = MdsParts {
        identity: identity(ServerRole::Mds, uuid),
        limits: SessionLimits::of_memory(config.state_memory()),
        state_limits: StateLimits::of_memory(config.state_memory()),
        lease_s: config.lease_s,
        grace_s: config.grace_s(),
        instance: u32::from_be_bytes(random()),
        volume,
        data_servers,
        striping: striping(config),
        small_files: SmallFiles {
            stuffing_limit_bytes: config.small_files.stuffing_limit_bytes,
            threshold_bytes: config.small_files.threshold_bytes,
            adaptive: config.small_files.adaptive,
            gather: config.small_files.gather,
        },
        threads: u32::try_from(config.threads()).unwrap_or(u32::MAX),
        layout: match config.layout_type {
            LayoutTypeKind::Files => LayoutKind::Files,
            LayoutTypeKind::FlexFiles => LayoutKind::FlexFiles,
        },
        creation: config.creation(),
        export: export(&config.export),
        naming: naming(&config.names),
        address,
    };
    let mds = Mds::start(parts).await?;
    workers.pick(0).spawn(run_background(mds.clone()));
    let idle_limit = Duration::from_secs(config.idle_limit_s.into());
    // No client before a data server could say that the volume is an old copy.
    mds.data_servers().begun().await;
    serve(vec![mds.nfs()], mds.core(), idle_limit, listener, workers)?;
    let (path, admin_tcp) = (admin.path(), admin.tcp());
    admin.serve(mds.admin());
    Ok(RunningMds { mds, address, admin: path, admin_tcp, volume_dir })
}

fn striping(config: &MdsConfig) -> Striping {
    Striping { unit_bytes: config.stripe_unit_bytes, width: config.stripe_width() }
}

fn data_server(c: &DataServerConfig) -> DataServerSpec {
    DataServerSpec {
        id: DataServerId(c.id),
        control: c.control.clone(),
        addresses: c.addresses.clone(),
        uuid: c.uuid,
    }
}

fn export(config: &ExportConfig) -> Export {
    let rule = |c: &ClientConfig| ClientRule {
        networks: c.networks.clone(),
        access: match c.access {
            ClientAccess::ReadWrite => Access::ReadWrite,
            ClientAccess::ReadOnly => Access::ReadOnly,
            ClientAccess::None => Access::None,
        },
        root_squash: c.root_squash,
        all_squash: c.all_squash,
        privileged_ports: c.privileged_ports,
    };
    Export {
        root_squash: config.root_squash,
        all_squash: config.all_squash,
        anonymous_uid: config.anonymous_uid,
        anonymous_gid: config.anonymous_gid,
        auth_none: config.security.contains(&Flavor::None),
        privileged_ports: config.privileged_ports,
        server_groups: config.server_groups,
        readers_deny: config.readers_deny,
        delegated: Delegated {
            directories: config.directory_delegations,
            writes: config.write_delegations,
        },
        rules: config.clients.iter().map(rule).collect(),
    }
}

/// Lets a running server do what a changed configuration says, and use the secrets that the
/// cluster has now. Nothing is changed if it cannot do all of it.
///
/// # Errors
/// Why not: the keys that only a restart changes, or what the server says.
pub fn reload(
    running: &RunningMds,
    old: &MdsConfig,
    new: &MdsConfig,
    secrets: &ClusterSecrets,
) -> Result<(), String> {
    let fixed = old.fixed_keys_changed(new);
    if !fixed.is_empty() {
        let keys = fixed.join(", ");
        return Err(format!("{keys}: only a restart changes that; nothing was changed"));
    }
    let changes = Reconfiguration {
        export: export(&new.export),
        threshold_bytes: new.small_files.threshold_bytes,
        striping: striping(new),
        data_servers: new.data_servers.iter().map(data_server).collect(),
    };
    running.mds.reconfigure(changes).map_err(|e| e.to_string())?;
    running.mds.data_servers().use_secrets(secrets);
    Ok(())
}

fn naming(config: &NamesConfig) -> Naming {
    let table = |all: &[NamedId]| all.iter().map(|n| (n.name.clone(), n.id)).collect();
    Naming {
        domain: config.domain.clone(),
        users: table(&config.users),
        groups: table(&config.groups),
        host: config.host,
        answer: config.answer,
    }
}

/// Makes the volume of a metadata server in its directory: a new and empty file system. Nothing
/// else ever makes one, so that a directory that is missing is not taken for a new one.
///
/// # Errors
/// [`StartError::Directory`], also if there is a volume.
pub fn create_volume(config: &MdsConfig) -> Result<(), StartError> {
    refuse_data_server_directory(&config.dir)?;
    durable::create_private_dir(&config.dir)
        .map_err(|e| directory_error(&config.dir)(e.to_string()))?;
    let dir = volume_dir(config);
    let volume = VolumeConfig { format: new_format(), ..volume_config(config) };
    Volume::make(&dir, &volume).map(drop).map_err(|e| directory_error(&dir)(e.to_string()))
}

/// Whether a directory is that of one server.
pub fn is_server_directory(dir: &Path) -> bool {
    objects::is_store(dir) || weft_store::engine::kind_of(&dir.join(VOLUME)).is_some()
}

/// Whether the directory of a metadata server has a volume.
pub fn has_volume(config: &MdsConfig) -> bool {
    weft_store::engine::kind_of(&volume_dir(config)).is_some()
}

fn volume_dir(config: &MdsConfig) -> PathBuf {
    config.dir.join(VOLUME)
}

/// What a new volume is: nothing of it is like that of another.
fn new_format() -> Format {
    let (seconds, nanos) = Clock::default().wall();
    let uuid: [u8; 16] = random();
    let (major, minor) = uuid.split_at(8);
    let half = |b: &[u8]| b.iter().fold(0, |n, b| n << 8 | u64::from(*b));
    Format {
        number: u32::from_be_bytes(random()).max(1),
        uuid,
        fsid: (half(major), half(minor)),
        // Who makes it can make the first directories in it, root or not.
        root_uid: rustix::process::geteuid().as_raw(),
        root_gid: rustix::process::getegid().as_raw(),
        now: Timestamp { seconds, nanos },
        ..Format::default()
    }
}

fn open_volume(config: &MdsConfig) -> Result<Volume, StartError> {
    refuse_data_server_directory(&config.dir)?;
    let dir = volume_dir(config);
    Volume::open(&dir, &volume_config(config)).map_err(|error| match error {
        EngineError::NoVolume(_) => StartError::NoVolume { path: config.dir.clone() },
        error => directory_error(&dir)(error.to_string()),
    })
}

/// The directory of a data server is not to be a metadata server's too.
fn refuse_data_server_directory(dir: &Path) -> Result<(), StartError> {
    if !objects::is_store(dir) {
        return Ok(());
    }
    let why = "this is the directory of a data server: check `dir`, and that this is the \
               configuration of a metadata server";
    Err(directory_error(dir)(why.into()))
}

fn volume_config(config: &MdsConfig) -> VolumeConfig {
    VolumeConfig {
        engine: match config.engine {
            EngineKind::Fjall => StoreEngine::Fjall,
            EngineKind::Redb => StoreEngine::Redb,
        },
        format: Format::default(),
        commit: CommitPolicy {
            low: usize::try_from(config.commit.low).unwrap_or(usize::MAX),
            high: usize::try_from(config.commit.high).unwrap_or(usize::MAX),
            linger: Duration::from_micros(config.commit.linger_us.into()),
            coalesce: config.commit.coalesce,
            ..CommitPolicy::default()
        },
        cache_bytes: VOLUME_CACHE_BYTES,
        reserve_bytes: config.disk_reserve_bytes,
    }
}

/// What a data server keeps in the page cache of this machine.
fn cache_policy(kind: CacheKind) -> CachePolicy {
    match kind {
        CacheKind::Auto => CachePolicy::Auto { memory_bytes: machine::memory_bytes() },
        CacheKind::Keep => CachePolicy::Keep,
        CacheKind::Direct => CachePolicy::Direct,
    }
}

/// Starts a data server, one of `neighbours` in this process, itself included: they share its
/// file descriptors. The tasks live on threads of their own until the process ends.
///
/// # Errors
/// [`StartError`].
pub async fn ds(
    config: &DsConfig,
    secrets: &ClusterSecrets,
    listener: TcpListener,
    neighbours: usize,
) -> Result<RunningDs, StartError> {
    let options = ObjectStoreOptions {
        reserve_bytes: config.disk_reserve_bytes,
        cache: cache_policy(config.cache),
        ..ObjectStoreOptions::one_of(neighbours)
    };
    let objects = ObjectStore::open(&config.dir, &options)
        .map_err(|e| directory_error(&config.dir)(e.to_string()))?;
    warn_if_unfit(&config.dir);
    if config.cache == CacheKind::Direct && !objects.passes_cache() {
        let dir = config.dir.display();
        let why = "cache = \"direct\" is for ext4 and XFS: everything stays in the page cache";
        tracing::warn!(%dir, "{why}");
    }
    if let Some(volume) = config.adopt {
        objects.adopt(volume).map_err(|e| directory_error(&config.dir)(e.to_string()))?;
    }
    let uuid = ServerUuid::load_or_create(&config.dir)?;
    let identity = identity(ServerRole::Ds, uuid);
    let owner = identity.server_owner.major_id.0.to_vec();
    let limits = SessionLimits::of_data_server(config.state_memory(neighbours));
    let core = Core::new(identity, limits, DS_LEASE_S);
    let ds = DataServer::new(core, DataServerId(config.id), Arc::new(objects), secrets)?;
    let workers = Workers::start(&format!("weft-ds{}", config.id), config.threads())?;
    workers.pick(0).spawn(drop_dead_clients(ds.clone()));
    if let Some(dir) = &config.local_sockets {
        open_local_socket(dir, &ds, owner, workers.pick(0));
    }
    let address = listener.local_addr()?;
    let control = Service::new(ds.clone(), secrets)?;
    let idle_limit = Duration::from_secs(config.idle_limit_s.into());
    serve(vec![ds.nfs(), control.clone()], ds.core(), idle_limit, listener, workers)?;
    Ok(RunningDs { ds, control, address })
}

/// Lets clients of this host have descriptors of objects, by a socket in `dir`. Without it they
/// read over TCP: that is no reason not to serve.
fn open_local_socket(dir: &Path, ds: &Arc<DataServer>, owner: Vec<u8>, runtime: &Handle) {
    let Some(path) = socket_name(&owner).map(|name| dir.join(name)) else { return };
    // Its reactor is that of the thread that serves it.
    let _on = runtime.enter();
    match unix_socket::listen(&path, Guests::Everybody) {
        Ok(listener) => drop(runtime.spawn(serve_locally(ds.clone(), listener, owner))),
        Err(error) => {
            let (path, ds) = (path.display(), ds.id().0);
            let why = "no local socket (local_sockets): clients of this host read over TCP";
            tracing::warn!(%path, ds, %error, "{why}");
        }
    }
}

/// Clients renew at the metadata server's pace; a data server holds nothing that expires but
/// sessions, so it is generous.
const DS_LEASE_S: u32 = 3600;

/// A data server keeps nothing for its clients but their sessions.
async fn drop_dead_clients(ds: Arc<DataServer>) {
    let mut tick = tokio::time::interval(DS_SWEEP);
    loop {
        tick.tick().await;
        let mut sessions = ds.core().sessions();
        for client in sessions.expired(ds.core().clock.now()) {
            sessions.drop_client(client);
        }
    }
}

fn serve(
    programs: Vec<Arc<dyn Program>>,
    core: &Core,
    idle_limit: Duration,
    listener: TcpListener,
    workers: Workers,
) -> Result<(), StartError> {
    let limits = ServerLimits { idle: idle_limit, ..ServerLimits::default() };
    let server = Server::new(programs, core.connections.clone(), limits);
    // Accepting moves to the workers' own reactor.
    let listener = listener.into_std()?;
    let first = workers.pick(0).clone();
    first.spawn(async move {
        match TcpListener::from_std(listener) {
            Ok(listener) => server.accept(listener, workers).await,
            Err(e) => tracing::error!(error = %e, "cannot accept connections"),
        }
    });
    Ok(())
}
