//! Configuration: one TOML file a server, or none. Every key is described in
//! `docs/configuration.md`; a key that is not there is an error.

mod values;

use std::{
    collections::BTreeSet,
    net::{Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
};

use clap::ValueEnum;
use serde::{
    Deserialize, Deserializer,
    de::{DeserializeOwned, Error as _},
};
use weft_mds::{
    ObjectCreation, Precreate, SmallFiles,
    data_servers::{AnnouncedAddress, ControlAddress},
    network::Network,
};
use weft_server::rpc::NOBODY;

pub use weft_mds::data_servers::DATA_SERVER_PORT;

use self::values::{
    MIB, announced, at_most, control, domain, listened, maybe_listened, maybe_ranged, networks,
    ranged, stripe_unit, uuid,
};
use crate::{
    address::NFS_PORT,
    machine,
    size::{reserve, small_size, state_memory},
};

/// What a volume keeps allocated: the engine's journals, and tables being rewritten.
const VOLUME_RESERVE_BYTES: u64 = 256 * MIB;
/// What data leaves free: more than a volume on the same disk needs to let files be made.
const DATA_RESERVE_BYTES: u64 = 128 * MIB;
/// Data servers that a file is striped over unless configured otherwise.
const STRIPE_WIDTH_DEFAULT: usize = 8;
/// Data servers of one file at most: their filehandles must fit a layout body of 4096 bytes.
const STRIPE_WIDTH_MAX: u64 = 100;
/// A client makes its session within milliseconds of connecting.
const IDLE_LIMIT_S_DEFAULT: u32 = 60;
/// Rules for clients: each request looks through them.
const CLIENTS_MAX: usize = 256;
/// Users or groups of the configured table, which is looked through from the start.
const NAMES_MAX: usize = 1024;

/// Why there is no configuration. Every message names the file.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("{}: {source}", path.display())]
    Read {
        /// Which file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A key or value is wrong; the message shows its line.
    #[error("{}: {source}", path.display())]
    Parse {
        /// Which file.
        path: PathBuf,
        /// Where, what, and what is allowed.
        source: Box<toml::de::Error>,
    },
    /// Values contradict each other.
    #[error("{}: {why}", path.display())]
    Contradiction {
        /// Which file.
        path: PathBuf,
        /// Which values, and what is allowed.
        why: String,
    },
}

/// Engine of the volume store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EngineKind {
    /// Log-structured; the default.
    Fjall,
    /// B-tree.
    Redb,
}

/// Configuration of a metadata server.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MdsConfig {
    /// Where clients connect.
    #[serde(deserialize_with = "listened::<_, NFS_PORT>")]
    pub listen: SocketAddr,
    /// Data directory.
    pub dir: PathBuf,
    /// Unix socket where `weft status` connects; [`ADMIN_SOCKET`] if absent.
    pub admin_socket: Option<PathBuf>,
    /// Group whose members may use it, beside the server's user and root.
    pub admin_group: Option<String>,
    /// Where administrators connect over TCP as well (HTTP, unencrypted).
    #[serde(deserialize_with = "maybe_listened::<_, ADMIN_PORT>")]
    pub admin_listen: Option<SocketAddr>,
    /// File with the token that they send, readable by its owner only.
    pub admin_token_file: Option<PathBuf>,
    /// File with the cluster secret, readable by its owner only.
    pub cluster_secret_file: PathBuf,
    /// Lease, seconds.
    #[serde(deserialize_with = "ranged::<_, 10, 3600>")]
    pub lease_s: u32,
    /// Longest grace after a start, seconds; the lease if absent.
    #[serde(deserialize_with = "maybe_ranged::<_, 10, 3600>")]
    pub grace_s: Option<u32>,
    /// Bytes of the stripe unit of new files.
    #[serde(rename = "stripe_unit", deserialize_with = "stripe_unit")]
    pub stripe_unit_bytes: u32,
    /// Data servers of a new file at most.
    #[serde(deserialize_with = "maybe_ranged::<_, 1, STRIPE_WIDTH_MAX>")]
    pub stripe_width: Option<u32>,
    /// How clients are told where files are.
    pub layout_type: LayoutTypeKind,
    /// Threads that serve NFS; the number of processors if absent.
    #[serde(deserialize_with = "maybe_ranged::<_, 1, 256>")]
    pub threads: Option<u32>,
    /// How long a connection may be without a session, seconds.
    #[serde(deserialize_with = "ranged::<_, 10, 3600>")]
    pub idle_limit_s: u32,
    /// Most bytes of the volume's disk that are kept allocated for when it is full; 0: none.
    #[serde(rename = "disk_reserve", deserialize_with = "reserve")]
    pub disk_reserve_bytes: u64,
    /// Memory for clients and what they hold, bytes; a part of the machine's if absent.
    #[serde(rename = "state_memory", deserialize_with = "state_memory")]
    pub state_memory_bytes: Option<usize>,
    /// Engine of the volume store; only a new volume asks.
    pub engine: EngineKind,
    /// Group commit.
    pub commit: CommitConfig,
    /// How small files are treated.
    pub small_files: SmallFilesConfig,
    /// When the objects of files are made.
    pub object_creation: ObjectCreationKind,
    /// How many objects are made ahead.
    pub precreate: PrecreateConfig,
    /// Who may do what.
    pub export: ExportConfig,
    /// How owners are called.
    pub names: NamesConfig,
    /// The data servers.
    #[serde(rename = "data_server")]
    pub data_servers: Vec<DataServerConfig>,
}

/// Group commit (P3.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CommitConfig {
    /// With fewer mutations waiting a batch is committed at once.
    #[serde(deserialize_with = "ranged::<_, 1, 65536>")]
    pub low: u32,
    /// Most mutations in a batch.
    #[serde(deserialize_with = "ranged::<_, 1, 65536>")]
    pub high: u32,
    /// Longest a batch between `low` and `high` waits to grow, microseconds.
    #[serde(deserialize_with = "ranged::<_, 0, 10_000>")]
    pub linger_us: u32,
    /// Whether mutations share a sync at all (for measurements).
    pub coalesce: bool,
}

/// How small files are treated (P3.2, P0.2, P0.3, P0.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SmallFilesConfig {
    /// A file up to so many bytes is kept by the metadata server; 0: none.
    #[serde(rename = "stuffing_limit", deserialize_with = "small_size")]
    pub stuffing_limit_bytes: u64,
    /// Clients send I/O on files below so many bytes to the metadata server; 0: none.
    #[serde(rename = "write_threshold", deserialize_with = "small_size")]
    pub threshold_bytes: u64,
    /// The threshold goes down while the metadata server is busy.
    pub adaptive: bool,
    /// Small writes that come to the metadata server leave it together.
    pub gather: bool,
}

/// How clients are told where files are (ADR 31).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LayoutTypeKind {
    /// By files layouts, striped.
    #[default]
    Files,
    /// By flexfiles layouts, each new file whole on one data server.
    FlexFiles,
}

/// When the objects of files are made on their data servers (P2.1, P3.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ObjectCreationKind {
    /// By the first write to each.
    #[default]
    Implicit,
    /// With the file.
    Eager,
    /// Ahead of the file.
    Precreate,
}

/// How many objects are made ahead (P3.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PrecreateConfig {
    /// With fewer files' objects ready, more are made.
    #[serde(deserialize_with = "ranged::<_, 1, 16384>")]
    pub low: u32,
    /// For so many files at once; one message holds them.
    #[serde(deserialize_with = "ranged::<_, 1, 1024>")]
    pub batch: u32,
}

/// Who may do what, and as whom.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ExportConfig {
    /// User 0 becomes the anonymous user, unless he is root of this machine.
    pub root_squash: bool,
    /// Everybody becomes the anonymous user.
    pub all_squash: bool,
    /// The anonymous user.
    pub anonymous_uid: u32,
    /// The anonymous group.
    pub anonymous_gid: u32,
    /// Security flavors that are served.
    #[serde(deserialize_with = "flavors")]
    pub security: Vec<Flavor>,
    /// Only clients that connect from a port below 1024 are served, and programs of this machine.
    pub privileged_ports: bool,
    /// Groups of users are those of this machine's databases.
    pub server_groups: bool,
    /// Callers that may only read a file may deny it to others.
    pub readers_deny: bool,
    /// Clients are given delegations of directories (ADR 19).
    pub directory_delegations: bool,
    /// Clients are given delegations to write (ADR 20).
    pub write_delegations: bool,
    /// Rules for clients, the first that fits decides; without any everybody reads and writes.
    #[serde(rename = "client", deserialize_with = "clients")]
    pub clients: Vec<ClientConfig>,
}

/// A security flavor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Flavor {
    /// AUTH_SYS.
    Sys,
    /// AUTH_NONE: the anonymous user.
    None,
}

/// What clients of some networks may do.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClientConfig {
    /// Which clients.
    #[serde(deserialize_with = "networks")]
    pub networks: Vec<Network>,
    /// What they may do.
    pub access: ClientAccess,
    /// As `export.root_squash`, for these clients.
    #[serde(default)]
    pub root_squash: Option<bool>,
    /// As `export.all_squash`, for these clients.
    #[serde(default)]
    pub all_squash: Option<bool>,
    /// As `export.privileged_ports`, for these clients.
    #[serde(default)]
    pub privileged_ports: Option<bool>,
}

/// What a client may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub enum ClientAccess {
    /// Read and write.
    #[serde(rename = "rw")]
    ReadWrite,
    /// Read.
    #[serde(rename = "ro")]
    ReadOnly,
    /// Nothing.
    #[serde(rename = "none")]
    None,
}

/// How owners are called.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct NamesConfig {
    /// What follows the `@` of an owner; without it only numbers are understood.
    #[serde(deserialize_with = "domain")]
    pub domain: Option<String>,
    /// Whether this machine's user and group databases are asked.
    pub host: bool,
    /// Whether clients are told names where there are some, instead of numbers.
    pub answer: bool,
    /// Users, before those of the host.
    #[serde(rename = "user", deserialize_with = "named")]
    pub users: Vec<NamedId>,
    /// Groups, before those of the host.
    #[serde(rename = "group", deserialize_with = "named")]
    pub groups: Vec<NamedId>,
}

/// The name of a user or group.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NamedId {
    /// The name, without domain.
    pub name: String,
    /// The number.
    pub id: u32,
}

/// A data server as the metadata server is told of it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DataServerConfig {
    /// Its number: given once, never to another one.
    #[serde(deserialize_with = "ranged::<_, 1, 0xffff_ffff>")]
    pub id: u32,
    /// Where the metadata server reaches it: a name is looked up whenever it connects.
    #[serde(deserialize_with = "control")]
    pub control: ControlAddress,
    /// Where clients reach it; what `control` means if empty.
    #[serde(default, deserialize_with = "announced")]
    pub addresses: Vec<AnnouncedAddress>,
    /// The uuid of its directory, to accept another one than it was first met with.
    #[serde(default, deserialize_with = "uuid")]
    pub uuid: Option<[u8; 16]>,
}

/// Configuration of a data server.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DsConfig {
    /// Where clients and the metadata server connect.
    #[serde(deserialize_with = "listened::<_, DATA_SERVER_PORT>")]
    pub listen: SocketAddr,
    /// Data directory.
    pub dir: PathBuf,
    /// Its number in the cluster.
    #[serde(deserialize_with = "ranged::<_, 1, 0xffff_ffff>")]
    pub id: u32,
    /// File with the cluster secret, readable by its owner only.
    pub cluster_secret_file: PathBuf,
    /// Most bytes of its disk that data leaves free; 0: none.
    #[serde(rename = "disk_reserve", deserialize_with = "reserve")]
    pub disk_reserve_bytes: u64,
    /// What of the objects is kept in the page cache.
    pub cache: CacheKind,
    /// Memory for clients and their sessions, bytes; a part of the machine's if absent.
    #[serde(rename = "state_memory", deserialize_with = "state_memory")]
    pub state_memory_bytes: Option<usize>,
    /// Threads that serve NFS; the number of processors if absent.
    #[serde(deserialize_with = "maybe_ranged::<_, 1, 256>")]
    pub threads: Option<u32>,
    /// How long a connection may be without a session, seconds.
    #[serde(deserialize_with = "ranged::<_, 10, 3600>")]
    pub idle_limit_s: u32,
    /// Where it has a Unix socket by which clients of this host read its objects; nowhere if
    /// absent.
    pub local_sockets: Option<PathBuf>,
    /// The volume that is accepted once, whatever is known of it. Not a key: told at each start.
    #[serde(skip)]
    pub adopt: Option<[u8; 16]>,
}

/// What of the objects a data server keeps in the page cache of its machine.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum CacheKind {
    /// All but large writes to objects that are large for the machine's memory.
    #[default]
    Auto,
    /// Everything.
    Keep,
    /// All but large reads and writes.
    Direct,
}

/// Unix socket of the admin service unless told otherwise.
pub const ADMIN_SOCKET: &str = "/run/weft/admin.sock";
/// TCP port of the admin service unless told otherwise.
pub const ADMIN_PORT: u16 = 8049;
const SECRET_FILE: &str = "/etc/weft/cluster.secret";

impl Default for MdsConfig {
    fn default() -> Self {
        MdsConfig {
            listen: (Ipv4Addr::UNSPECIFIED, 2049).into(),
            dir: "/var/lib/weft/mds".into(),
            admin_socket: None,
            admin_group: None,
            admin_listen: None,
            admin_token_file: None,
            cluster_secret_file: SECRET_FILE.into(),
            lease_s: 90,
            grace_s: None,
            stripe_unit_bytes: 1 << 20,
            stripe_width: None,
            layout_type: LayoutTypeKind::default(),
            threads: None,
            idle_limit_s: IDLE_LIMIT_S_DEFAULT,
            disk_reserve_bytes: VOLUME_RESERVE_BYTES,
            state_memory_bytes: None,
            engine: EngineKind::Fjall,
            commit: CommitConfig::default(),
            small_files: SmallFilesConfig::default(),
            object_creation: ObjectCreationKind::default(),
            precreate: PrecreateConfig::default(),
            export: ExportConfig::default(),
            names: NamesConfig::default(),
            data_servers: Vec::new(),
        }
    }
}

impl Default for CommitConfig {
    fn default() -> Self {
        CommitConfig { low: 8, high: 4096, linger_us: 0, coalesce: true }
    }
}

impl Default for SmallFilesConfig {
    fn default() -> Self {
        let SmallFiles { stuffing_limit_bytes, threshold_bytes, adaptive, gather } =
            SmallFiles::default();
        SmallFilesConfig { stuffing_limit_bytes, threshold_bytes, adaptive, gather }
    }
}

impl Default for PrecreateConfig {
    fn default() -> Self {
        PrecreateConfig { low: 256, batch: 512 }
    }
}

impl Default for ExportConfig {
    fn default() -> Self {
        ExportConfig {
            root_squash: true,
            all_squash: false,
            anonymous_uid: NOBODY,
            anonymous_gid: NOBODY,
            security: vec![Flavor::Sys],
            privileged_ports: true,
            server_groups: false,
            readers_deny: false,
            directory_delegations: false,
            write_delegations: true,
            clients: Vec::new(),
        }
    }
}

impl Default for DsConfig {
    fn default() -> Self {
        DsConfig {
            listen: (Ipv4Addr::UNSPECIFIED, 2050).into(),
            dir: "/var/lib/weft/ds".into(),
            id: 1,
            cluster_secret_file: SECRET_FILE.into(),
            disk_reserve_bytes: DATA_RESERVE_BYTES,
            cache: CacheKind::Auto,
            state_memory_bytes: None,
            threads: None,
            idle_limit_s: IDLE_LIMIT_S_DEFAULT,
            local_sockets: None,
            adopt: None,
        }
    }
}

impl MdsConfig {
    /// Reads and checks a file.
    ///
    /// # Errors
    /// [`ConfigError`].
    pub fn load(path: &Path) -> Result<Self, ConfigError> {
        Self::parse(path, &read(path)?)
    }

    /// Reads a file for `weft up`, which has data servers of its own: how many of them a file may
    /// be over is not checked here.
    ///
    /// # Errors
    /// [`ConfigError`].
    pub fn load_for_up(path: &Path) -> Result<Self, ConfigError> {
        let config: MdsConfig = parse(path, &read(path)?)?;
        let alone = MdsConfig { stripe_width: None, data_servers: Vec::new(), ..config.clone() };
        match alone.contradiction() {
            Some(why) => Err(ConfigError::Contradiction { path: path.into(), why }),
            None => Ok(config),
        }
    }

    /// Checks a text; `path` is for messages.
    ///
    /// # Errors
    /// [`ConfigError`], but not `Read`.
    pub fn parse(path: &Path, text: &str) -> Result<Self, ConfigError> {
        let config: MdsConfig = match parse(path, text) {
            Err(_) if DsConfig::parse(path, text).is_ok() => {
                let why = "this is the configuration of a data server (weft ds --config FILE)";
                return Err(ConfigError::Contradiction { path: path.into(), why: why.into() });
            }
            parsed => parsed?,
        };
        match config.contradiction() {
            Some(why) => Err(ConfigError::Contradiction { path: path.into(), why }),
            None => Ok(config),
        }
    }

    /// Unix socket of the admin service.
    pub fn admin_socket(&self) -> &Path {
        self.admin_socket.as_deref().unwrap_or(Path::new(ADMIN_SOCKET))
    }

    /// Longest grace after a start, seconds.
    pub fn grace_s(&self) -> u32 {
        self.grace_s.unwrap_or(self.lease_s)
    }

    /// Data servers of a new file: at most 8 unless configured, never more than there are.
    pub fn stripe_width(&self) -> u16 {
        let all = self.data_servers.len();
        let wanted = self.stripe_width.map_or(STRIPE_WIDTH_DEFAULT.min(all), |w| w as usize);
        u16::try_from(wanted.max(1)).unwrap_or(u16::MAX)
    }

    /// When the objects of files are made.
    pub fn creation(&self) -> ObjectCreation {
        let count = |n| usize::try_from(n).unwrap_or(usize::MAX);
        let PrecreateConfig { low, batch } = self.precreate;
        match self.object_creation {
            ObjectCreationKind::Implicit => ObjectCreation::Implicit,
            ObjectCreationKind::Eager => ObjectCreation::Eager,
            ObjectCreationKind::Precreate => {
                ObjectCreation::Precreate(Precreate { low: count(low), batch: count(batch) })
            }
        }
    }

    /// Threads that serve NFS.
    pub fn threads(&self) -> usize {
        threads(self.threads)
    }

    /// Memory for clients and what they hold, bytes.
    pub fn state_memory(&self) -> usize {
        let default = || usize::try_from(machine::state_memory_of_mds()).unwrap_or(usize::MAX);
        self.state_memory_bytes.unwrap_or_else(default)
    }

    /// What a running server cannot change to become as `new` says: the keys that differ.
    pub fn fixed_keys_changed(&self, new: &MdsConfig) -> Vec<&'static str> {
        // What it can, or what only the next start looks at, is left out.
        let fixed = |c: &MdsConfig| {
            let small_files = SmallFilesConfig { threshold_bytes: 0, ..c.small_files };
            let export = ExportConfig::default();
            MdsConfig {
                export,
                grace_s: None,
                small_files,
                stripe_unit_bytes: 0,
                stripe_width: None,
                data_servers: Vec::new(),
                ..c.clone()
            }
        };
        let all_stay = self.data_servers.iter().all(|d| new.data_servers.contains(d));
        let (old, new) = (fixed(self), fixed(new));
        let changed = [
            ("listen", old.listen != new.listen),
            ("dir", old.dir != new.dir),
            ("admin_socket", old.admin_socket != new.admin_socket),
            ("admin_group", old.admin_group != new.admin_group),
            ("admin_listen", old.admin_listen != new.admin_listen),
            ("admin_token_file", old.admin_token_file != new.admin_token_file),
            ("cluster_secret_file", old.cluster_secret_file != new.cluster_secret_file),
            ("lease_s", old.lease_s != new.lease_s),
            ("layout_type", old.layout_type != new.layout_type),
            ("threads", old.threads != new.threads),
            ("idle_limit_s", old.idle_limit_s != new.idle_limit_s),
            ("disk_reserve", old.disk_reserve_bytes != new.disk_reserve_bytes),
            ("state_memory", old.state_memory_bytes != new.state_memory_bytes),
            ("engine", old.engine != new.engine),
            ("commit", old.commit != new.commit),
            ("small_files", old.small_files != new.small_files),
            ("object_creation", old.object_creation != new.object_creation),
            ("precreate", old.precreate != new.precreate),
            ("names", old.names != new.names),
            ("a data_server that there was", !all_stay),
        ];
        let keys: Vec<_> =
            changed.iter().filter(|(_, differs)| *differs).map(|(k, _)| *k).collect();
        assert!(!keys.is_empty() || old == new, "every key is in the list or may change");
        keys
    }

    fn contradiction(&self) -> Option<String> {
        let all = self.data_servers.len();
        if let Some(width) = self.stripe_width
            && width as usize > all
        {
            return Some(format!(
                "stripe_width = {width}, but there are {all} data_server entries: at most as many"
            ));
        }
        if let (Some(width @ 2..), LayoutTypeKind::FlexFiles) =
            (self.stripe_width, self.layout_type)
        {
            return Some(format!(
                "stripe_width = {width}, but layout_type = \"flexfiles\" puts a file on one data \
                 server: leave stripe_width out"
            ));
        }
        if self.admin_listen.is_some() && self.admin_token_file.is_none() {
            let why = "admin_listen: who connects there shows a token: make one, (umask 077; \
                       openssl rand -hex 32 > FILE), and name it: admin_token_file = \"FILE\"";
            return Some(why.into());
        }
        let CommitConfig { low, high, .. } = self.commit;
        if low > high {
            return Some(format!("commit: low = {low} is above high = {high}"));
        }
        let (mut ids, mut controls) = (BTreeSet::new(), BTreeSet::new());
        self.data_servers.iter().find_map(|d| {
            if !ids.insert(d.id) {
                Some(format!("data_server: id = {} is given twice; each needs its own", d.id))
            } else if !controls.insert(&d.control) {
                Some(format!("data_server: control = \"{}\" is given twice", d.control))
            } else {
                None
            }
        })
    }
}

impl DsConfig {
    /// Memory for clients and their sessions, bytes, of one of so many data servers in a process.
    pub fn state_memory(&self, neighbours: usize) -> usize {
        let default = || machine::state_memory_of_ds(neighbours);
        let default = || usize::try_from(default()).unwrap_or(usize::MAX);
        self.state_memory_bytes.unwrap_or_else(default)
    }

    /// Threads that serve NFS.
    pub fn threads(&self) -> usize {
        threads(self.threads)
    }

    /// Reads and checks a file.
    ///
    /// # Errors
    /// [`ConfigError`].
    pub fn load(path: &Path) -> Result<Self, ConfigError> {
        Self::parse(path, &read(path)?)
    }

    /// Checks a text; `path` is for messages.
    ///
    /// # Errors
    /// [`ConfigError`], but not `Read`.
    pub fn parse(path: &Path, text: &str) -> Result<Self, ConfigError> {
        let no = |why: &str| ConfigError::Contradiction { path: path.into(), why: why.into() };
        let table: toml::Table = parse(path, text)?;
        match parse(path, text) {
            Err(_) if parse::<MdsConfig>(path, text).is_ok() => {
                Err(no("this is the configuration of a metadata server (weft mds --config FILE)"))
            }
            Ok(_) if !table.contains_key("id") => {
                Err(no("id is missing: each data server has a number of its own, that of its \
                 [[data_server]] in the metadata server's configuration"))
            }
            parsed => parsed,
        }
    }
}

/// As many threads as were asked for, or one a processor.
fn threads(asked: Option<u32>) -> usize {
    asked.map_or_else(processors, |t| t as usize)
}

/// Processors that this process may use.
pub fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

fn read(path: &Path) -> Result<String, ConfigError> {
    std::fs::read_to_string(path).map_err(|source| ConfigError::Read { path: path.into(), source })
}

fn parse<T: DeserializeOwned>(path: &Path, text: &str) -> Result<T, ConfigError> {
    toml::from_str(text).map_err(|e| ConfigError::Parse { path: path.into(), source: Box::new(e) })
}

fn clients<'de, D: Deserializer<'de>>(d: D) -> Result<Vec<ClientConfig>, D::Error> {
    at_most(d, CLIENTS_MAX, "clients")
}

fn named<'de, D: Deserializer<'de>>(d: D) -> Result<Vec<NamedId>, D::Error> {
    at_most(d, NAMES_MAX, "names")
}

/// AUTH_SYS must be among them: without it nobody but the anonymous user could come.
fn flavors<'de, D: Deserializer<'de>>(d: D) -> Result<Vec<Flavor>, D::Error> {
    let all = Vec::<Flavor>::deserialize(d)?;
    if !all.contains(&Flavor::Sys) {
        return Err(D::Error::custom("\"sys\" must be among them"));
    }
    Ok(all)
}

#[cfg(test)]
#[path = "config_tests.rs"]
mod tests;
