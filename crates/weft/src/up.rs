//! `weft up`: a metadata server and data servers in one process, all data below one directory.
//!
//! Each role keeps its own port, identity and client table (design D4): the process could be
//! split over machines without a client noticing.

use std::{
    fs,
    io::{self, Write},
    net::SocketAddr,
    path::{Path, PathBuf},
};

use clap::Args;
use tokio::net::TcpListener;
use weft::{
    address::{HostPort, NFS_PORT, bracketed, reachable},
    admin_service::AdminDoors,
    admin_token::AdminToken,
    config::{ADMIN_PORT, CacheKind, DataServerConfig, DsConfig, MdsConfig, processors},
    start::{self, RunningDs, RunningMds, StartError},
};
use weft_io::durable;
use weft_server::identity::ClusterSecrets;
use weft_store::HeldFile;

use crate::{
    demo,
    endpoints::{Endpoints, data_server_dir, data_servers_in},
    outcome::Outcome,
    serve,
};

/// Held while a process uses the directory.
const LOCK: &str = "lock";
/// Where `weft status` connects.
const ADMIN_SOCKET: &str = "admin.sock";
/// Where clients of this machine have objects from the data servers.
const LOCAL_SOCKETS: &str = "local";
/// What it shows where it connects over TCP; made when that is first asked for.
const ADMIN_TOKEN: &str = "admin.token";
/// Data servers of a new directory.
const DATA_SERVERS_DEFAULT: u32 = 4;
/// What this command decides itself: in a configuration it has no effect.
const DECIDED_HERE: [(&str, &str); 8] = [
    ("listen", "--listen"),
    ("admin_listen", "--admin-listen"),
    ("admin_token_file", "--dir"),
    ("dir", "--dir"),
    ("lease_s", "--lease"),
    ("grace_s", "--grace"),
    ("cluster_secret_file", "--dir"),
    ("data_server", "--data-servers"),
];
/// Most data servers of one process.
const DATA_SERVERS_MAX: u32 = 64;

/// Options of `weft up`.
#[derive(Debug, Args)]
pub struct UpArgs {
    /// Directory of all data; made if it is not there.
    #[arg(long, value_name = "DIR", default_value = ".weft")]
    dir: PathBuf,
    /// Where clients mount: HOST, HOST:PORT or :PORT. The data servers get ports of their own on
    /// the same address. Only this machine gets to the default; 0.0.0.0 lets all others in, as far
    /// as [export] of the configuration does.
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:2049")]
    listen: HostPort,
    /// How many data servers [default: those that the directory has, 4 in a new one].
    #[arg(long, value_name = "N",
          value_parser = clap::value_parser!(u32).range(1..=DATA_SERVERS_MAX.into()))]
    data_servers: Option<u32>,
    /// Let administrators connect over TCP too, with the token in DIR/admin.token.
    #[arg(long, value_name = "ADDR:PORT")]
    admin_listen: Option<HostPort>,
    /// Lease, seconds. Less than 10 is for trials: a client that is slower than that loses its
    /// opens and locks.
    #[arg(long, value_name = "SECONDS", default_value_t = 90,
          value_parser = clap::value_parser!(u32).range(1..=3600))]
    lease: u32,
    /// Longest grace after a restart, seconds [default: the lease].
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..=3600))]
    grace: Option<u32>,
    /// Settings beyond these: a TOML file with those of `weft mds` (docs/configuration.md); what
    /// this command decides itself (listen, dir, data servers …) wins.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// What of their objects the data servers keep in the page cache of this machine: as `cache` in
    /// the configuration of a data server (docs/configuration.md).
    #[arg(long, value_name = "KIND", default_value = "auto")]
    cache: CacheKind,
    /// Accept this volume at all data servers, once, though it is older than what they have seen of
    /// it. What it does not know of is then lost.
    #[arg(long, value_name = "VOLUME-UUID", value_parser = serve::volume_uuid)]
    adopt: Option<serve::VolumeUuid>,
    /// Print the endpoints as one line of JSON once everything serves.
    #[arg(long)]
    json: bool,
    /// Copy a file in and out and show which data server moved what.
    #[arg(long)]
    demo: bool,
    /// With --demo: stop afterwards; succeed only if the bytes came back intact.
    #[arg(long, requires = "demo")]
    once: bool,
}

/// The servers of this process, which run for as long as this lives.
struct Cluster {
    mds: RunningMds,
    _data_servers: Vec<RunningDs>,
    /// Held for as long as the directory is in use.
    _lock: HeldFile,
    endpoints: Endpoints,
}

/// Runs the servers until the process is asked to stop, or the demonstration is over.
pub fn run(args: UpArgs) -> Outcome {
    serve::raise_descriptor_limit();
    serve::runtime()?.block_on(async {
        let mut signals = serve::Signals::listen()?;
        let cluster = start(&args).await?;
        signals.started()?;
        if args.json {
            println!("{}", serde_json::to_string(&cluster.endpoints)?);
        } else {
            print_how_to_mount(&cluster.endpoints);
            println!("Who may do what ([export] of a file given with --config changes it):");
            cluster.mds.who_may_do_what().iter().for_each(|line| println!("  {line}"));
        }
        let outcome = match args.demo {
            true => demo::run(&cluster.endpoints, signals.stopped()).await,
            false => Ok(Some(())),
        };
        if let Err(e) = outcome.as_ref()
            && !args.once
        {
            eprintln!("weft: the demonstration failed: {e}");
        }
        if !args.once && !matches!(outcome, Ok(None)) {
            if !args.json {
                println!("\nServing. Ctrl-C stops it; started again, everything is as it was.");
            }
            serve::until_stopped(&cluster.mds, &mut signals).await?;
        }
        serve::stop(&cluster.mds, &mut signals).await;
        if !args.json {
            // The terminal may be gone.
            let _ = writeln!(std::io::stdout(), "Stopped.");
        }
        match outcome {
            Ok(None) if args.once => Err("stopped before the demonstration was over".into()),
            outcome if args.once => outcome.map(drop),
            _ => Ok(()),
        }
    })
}

async fn start(args: &UpArgs) -> Outcome<Cluster> {
    warn_of_ignored(args)?;
    let settings = settings(args)?;
    let new = !args.dir.exists();
    durable::create_dir_all(&args.dir).map_err(|e| cannot_make(&args.dir, &e))?;
    let dir = fs::canonicalize(&args.dir)?;
    refuse_directory_of_a_server(&dir)?;
    serve::keep_files_private();
    let lock = lock(&dir)?;
    let former = Former::look(&dir)?;
    // Before anything is made: a directory that was not there is not left behind for a port.
    let (listener, admin) = match listeners(args, &settings, &dir).await {
        Ok(listeners) => listeners,
        Err(e) => {
            if new {
                let _ = fs::remove_file(dir.join(ADMIN_TOKEN));
                let _ = fs::remove_file(dir.join(LOCK)).and_then(|()| fs::remove_dir(&dir));
            }
            return Err(e);
        }
    };
    let secret = ClusterSecrets::load_or_create(&dir.join("cluster.secret"))?;
    let count = former.data_servers_now(args)?;
    check_width(args, settings.stripe_width, count)?;
    let settings = MdsConfig { dir: dir.join("mds"), ..settings };
    make_or_find_volume(&settings, &dir, &former)?;
    let mut data_servers = Vec::new();
    // They share the processors.
    let threads = u32::try_from(processors()).unwrap_or(u32::MAX).div_ceil(count.max(1));
    for id in 1..=count {
        let address = former.data_server_address(listener.local_addr()?, id);
        let config = DsConfig {
            listen: address,
            dir: data_server_dir(&dir, id),
            id,
            threads: Some(threads),
            cache: args.cache,
            local_sockets: Some(dir.join(LOCAL_SOCKETS)),
            adopt: args.adopt.map(|serve::VolumeUuid(uuid)| uuid),
            ..DsConfig::default()
        };
        let listener = former.listen_for_data_server(id, address, &dir).await?;
        let neighbours = count as usize;
        data_servers.push(start::ds(&config, &secret, listener, neighbours).await?);
    }
    let config = MdsConfig { data_servers: specs(&data_servers), ..settings };
    let mds = start::mds(&config, &secret, listener, admin).await?;
    let endpoints = Endpoints {
        mds: mds.address,
        admin: mds.admin.clone(),
        admin_tcp: mds.admin_tcp,
        data_servers: data_servers.iter().map(|d| d.address).collect(),
        export: "/".into(),
        dir,
    };
    endpoints.store()?;
    Ok(Cluster { mds, _data_servers: data_servers, _lock: lock, endpoints })
}

/// The directory of one server is not to be that of all of them.
fn refuse_directory_of_a_server(dir: &Path) -> Outcome {
    if !start::is_server_directory(dir) {
        return Ok(());
    }
    let shown = dir.display();
    Err(format!("{shown}: this is the directory of one server: --dir is the one above it").into())
}

/// Takes the directory for this process. It comes first, since its error says more than those of
/// ports and stores in use.
fn lock(dir: &Path) -> Outcome<HeldFile> {
    let held = HeldFile::acquire(&dir.join(LOCK)).map_err(|e| cannot_write(dir, &e))?;
    held.ok_or_else(|| {
        format!("{}: another `weft up` is using this directory", dir.display()).into()
    })
}

/// Why there is no directory, in words that say what is in the way.
fn cannot_make(dir: &Path, e: &io::Error) -> String {
    let shown = dir.display();
    match dir.metadata() {
        Ok(metadata) if !metadata.is_dir() => format!("{shown}: is a file, not a directory"),
        _ => format!("{shown}: cannot make the directory: {e}{}", whoever(e)),
    }
}

fn cannot_write(dir: &Path, e: &io::Error) -> String {
    format!("{}: cannot be written: {e}{}", dir.display(), whoever(e))
}

fn whoever(e: &io::Error) -> String {
    let uid = rustix::process::geteuid().as_raw();
    match e.kind() {
        io::ErrorKind::PermissionDenied => format!(" (for user {uid}, who runs this)"),
        _ => String::new(),
    }
}

/// What earlier runs left in a directory.
struct Former {
    /// Where the servers were.
    endpoints: Option<Endpoints>,
    /// Data servers that ever started.
    started: u32,
}

impl Former {
    fn look(dir: &Path) -> Outcome<Former> {
        Ok(Former { endpoints: Endpoints::load(dir)?, started: data_servers_in(dir)? })
    }

    /// How many data servers: those there are, and more if that is asked for. To leave one out is
    /// refused: its files could not be read.
    fn data_servers_now(&self, args: &UpArgs) -> Outcome<u32> {
        let known = self.endpoints.as_ref().map_or(0, |k| k.data_servers.len());
        let had = u32::try_from(known).unwrap_or(u32::MAX).max(self.started);
        let wanted = args.data_servers.unwrap_or(if had > 0 { had } else { DATA_SERVERS_DEFAULT });
        if had > wanted {
            let dir = args.dir.display();
            return Err(format!(
                "{dir} has {had} data servers: --data-servers may add to them, not leave some out"
            )
            .into());
        }
        Ok(wanted)
    }

    /// Listens for a data server, which clients expect where it was.
    async fn listen_for_data_server(
        &self,
        id: u32,
        address: SocketAddr,
        dir: &Path,
    ) -> Outcome<TcpListener> {
        let (port, shown) = (address.port(), dir.display());
        match start::listen(address).await {
            Err(StartError::Listen { error, .. }) if port != 0 => Err(format!(
                "data server {id} cannot listen on port {port}, which it had before: {error}. End \
                 the program that uses it, or remove {shown}/endpoints.json: all data servers get \
                 other ports then"
            )
            .into()),
            listening => Ok(listening?),
        }
    }

    /// Where a data server listens: on the same port as last time, if there was one.
    fn data_server_address(&self, mds: SocketAddr, id: u32) -> SocketAddr {
        let last = self.endpoints.as_ref().and_then(|k| k.data_servers.get(id as usize - 1));
        SocketAddr::new(mds.ip(), last.map_or(0, SocketAddr::port))
    }
}

/// Where clients and administrators connect.
async fn listeners(
    args: &UpArgs,
    settings: &MdsConfig,
    dir: &Path,
) -> Outcome<(TcpListener, AdminDoors)> {
    let listener = start::listen(listen_address(&args.listen, NFS_PORT)?).await?;
    let admin_listen = match &args.admin_listen {
        Some(listen) => {
            AdminToken::load_or_create(&dir.join(ADMIN_TOKEN))?;
            Some(listen_address(listen, ADMIN_PORT)?)
        }
        None => None,
    };
    let socket = settings.admin_socket.clone().unwrap_or_else(|| dir.join(ADMIN_SOCKET));
    let admin = MdsConfig {
        admin_socket: Some(socket),
        admin_listen,
        admin_token_file: Some(dir.join(ADMIN_TOKEN)),
        ..settings.clone()
    };
    Ok((listener, start::admin_doors(&admin).await?))
}

/// The address to listen on; of a name that has several, one of IPv4, which every client speaks.
fn listen_address(listen: &HostPort, default_port: u16) -> Outcome<SocketAddr> {
    let found = listen.resolve(default_port)?;
    let address = found.iter().find(|a| a.is_ipv4()).or(found.first());
    Ok(*address.ok_or_else(|| format!("{listen}: no address"))?)
}

/// Makes the volume where nothing ever was, before anything else is: where there are data servers,
/// a missing volume is lost or elsewhere, and a new one in its place would not be theirs.
fn make_or_find_volume(config: &MdsConfig, dir: &Path, former: &Former) -> Outcome {
    // A directory made for a disk, or the disk itself, is no data server before it was one.
    let used = former.endpoints.is_some() || former.started > 0;
    if used && !start::has_volume(config) {
        return Err(format!(
            "{}: there is no volume here, but {} has data servers: put the directory of the \
             metadata server back, or begin anew with another --dir",
            config.dir.display(),
            dir.display()
        )
        .into());
    }
    match start::create_volume(config) {
        // From an earlier start: what is wrong with it, opening it says.
        Err(_) if start::has_volume(config) => Ok(()),
        made => Ok(made?),
    }
}

/// The settings of the metadata server, but for its directory and its data servers.
fn settings(args: &UpArgs) -> Outcome<MdsConfig> {
    let base = match &args.config {
        Some(file) => MdsConfig::load_for_up(file)?,
        None => MdsConfig::default(),
    };
    Ok(MdsConfig { lease_s: args.lease, grace_s: Some(args.grace.unwrap_or(args.lease)), ..base })
}

/// Says which settings of the configuration have no effect here.
fn warn_of_ignored(args: &UpArgs) -> Outcome {
    let Some(file) = &args.config else { return Ok(()) };
    let text = fs::read_to_string(file).map_err(|e| format!("{}: {e}", file.display()))?;
    let Ok(table) = text.parse::<toml::Table>() else { return Ok(()) };
    for (key, option) in DECIDED_HERE.iter().filter(|(key, _)| table.contains_key(*key)) {
        let file = file.display();
        eprintln!("weft: warning: {file}: {key} has no effect on `weft up`, which has {option}");
    }
    Ok(())
}

/// A file over more data servers than there are cannot be made.
fn check_width(args: &UpArgs, width: Option<u32>, count: u32) -> Outcome {
    match (width, &args.config) {
        (Some(width), Some(file)) if width > count => Err(format!(
            "{}: stripe_width = {width}, but there are {count} data servers: at most as many",
            file.display()
        )
        .into()),
        _ => Ok(()),
    }
}

/// The data servers as the metadata server is told of them.
fn specs(data_servers: &[RunningDs]) -> Vec<DataServerConfig> {
    let spec = |(ds, id): (&RunningDs, u32)| DataServerConfig {
        id,
        control: reachable(ds.address).into(),
        addresses: vec![ds.address.into()],
        uuid: None,
    };
    data_servers.iter().zip(1..).map(spec).collect()
}

fn print_how_to_mount(e: &Endpoints) {
    let (host, port) = (e.mds.ip(), e.mds.port());
    let shown = if host.is_unspecified() { "THIS-HOST".to_owned() } else { bracketed(host) };
    println!("Weft serves {} from {}", e.mds, e.dir.display());
    println!("  {} data servers, each on a port of its own", e.data_servers.len());
    match host.is_loopback() {
        true => println!("Mount it (as root, on this machine; --listen lets others in):"),
        false => println!("Mount it (as root, on any Linux machine that reaches this one):"),
    }
    println!("  mount -t nfs4 -o vers=4.2,port={port} {shown}:/ /mnt");
    println!("Or use it without a mount:");
    println!("  weft put FILE /name --server {}", reachable(e.mds));
    println!("See who moves what:");
    println!("  weft status --dir {}", e.dir.display());
}
