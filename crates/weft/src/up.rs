//! `weft up`: a metadata server and data servers in one process, all data below one directory.
//!
//! Each role keeps its own port, identity and client table (design D4): the process could be
//! split over machines without a client noticing.

use std::{
    fs,
    net::{Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
};

use clap::Args;
use weft::{
    config::{DataServerConfig, DsConfig, MdsConfig},
    start::{self, RunningDs, RunningMds},
};
use weft_server::identity::ClusterSecret;

use crate::{
    demo,
    endpoints::{Endpoints, reachable},
    outcome::Outcome,
    serve,
};

/// Most data servers of one process.
const DATA_SERVERS_MAX: u32 = 64;

/// Options of `weft up`.
#[derive(Debug, Args)]
pub struct UpArgs {
    /// Directory of all data; made if it is not there.
    #[arg(long, value_name = "DIR", default_value = ".weft")]
    dir: PathBuf,
    /// Where clients mount. The data servers get ports of their own on the same address.
    #[arg(long, value_name = "ADDR:PORT", default_value = "0.0.0.0:2049")]
    listen: SocketAddr,
    /// How many data servers.
    #[arg(long, value_name = "N", default_value_t = 4,
          value_parser = clap::value_parser!(u32).range(1..=DATA_SERVERS_MAX.into()))]
    data_servers: u32,
    /// Where `weft status` connects [default: a free port of the loopback address].
    #[arg(long, value_name = "ADDR:PORT")]
    admin_listen: Option<SocketAddr>,
    /// Lease, seconds.
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
    _lock: fs::File,
    endpoints: Endpoints,
}

/// Runs the servers until the process is asked to stop, or the demonstration is over.
pub fn run(args: UpArgs) -> Outcome {
    serve::raise_descriptor_limit();
    serve::runtime()?.block_on(async {
        let cluster = start(&args).await?;
        if args.json {
            println!("{}", serde_json::to_string(&cluster.endpoints)?);
        } else {
            print_how_to_mount(&cluster.endpoints);
        }
        let outcome = if args.demo { demo::run(&cluster.endpoints).await } else { Ok(()) };
        if !args.once {
            if let Err(e) = &outcome {
                eprintln!("weft: the demonstration failed: {e}");
            }
            if !args.json {
                println!("\nServing. Ctrl-C stops it; started again, everything is as it was.");
            }
            serve::stopped().await?;
        }
        cluster.mds.mds.stop().await;
        if !args.json {
            println!("Stopped.");
        }
        if args.once { outcome } else { Ok(()) }
    })
}

async fn start(args: &UpArgs) -> Outcome<Cluster> {
    fs::create_dir_all(&args.dir).map_err(|e| format!("{}: {e}", args.dir.display()))?;
    let dir = fs::canonicalize(&args.dir)?;
    let lock = lock(&dir)?;
    let secret = ClusterSecret::load_or_create(&dir.join("cluster.secret"))?;
    let known = Endpoints::load(&dir)?;
    check_count(known.as_ref(), args)?;
    make_or_find_volume(args, &dir, known.as_ref())?;
    let listener = start::listen(args.listen).await?;
    let mut data_servers = Vec::new();
    for id in 1..=args.data_servers {
        let address = data_server_address(args, known.as_ref(), id);
        let config = DsConfig {
            listen: address,
            dir: dir.join(format!("ds-{id}")),
            id,
            adopt: args.adopt.map(|serve::VolumeUuid(uuid)| uuid),
            ..DsConfig::default()
        };
        let listener = start::listen(address).await?;
        let neighbours = args.data_servers as usize;
        data_servers.push(start::ds(&config, &secret, listener, neighbours).await?);
    }
    let config = MdsConfig { data_servers: specs(&data_servers), ..mds_config(args, &dir)? };
    let admin = admin_listener(args, known.as_ref()).await?;
    let mds = start::mds(&config, &secret, listener, admin).await?;
    let endpoints = Endpoints {
        mds: mds.address,
        admin: mds.admin,
        data_servers: data_servers.iter().map(|d| d.address).collect(),
        export: "/".into(),
        dir,
    };
    endpoints.store()?;
    Ok(Cluster { mds, _data_servers: data_servers, _lock: lock, endpoints })
}

/// Takes the directory for this process. It comes first, since its error says more than those of
/// ports and stores in use.
fn lock(dir: &Path) -> Outcome<fs::File> {
    let path = dir.join("lock");
    let file = fs::File::create(&path).map_err(|e| format!("{}: {e}", path.display()))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(fs::TryLockError::WouldBlock) => {
            Err(format!("{}: another `weft up` is using this directory", dir.display()).into())
        }
        Err(fs::TryLockError::Error(e)) => Err(format!("{}: {e}", path.display()).into()),
    }
}

/// Refuses to leave out a data server: its files could not be read.
fn check_count(known: Option<&Endpoints>, args: &UpArgs) -> Outcome {
    let had = known.map_or(0, |k| k.data_servers.len());
    if had > args.data_servers as usize {
        let dir = args.dir.display();
        return Err(format!(
            "{dir} has {had} data servers: --data-servers may add to them, not leave some out"
        )
        .into());
    }
    Ok(())
}

/// Where a data server listens: on the same port as last time, if there was one.
fn data_server_address(args: &UpArgs, known: Option<&Endpoints>, id: u32) -> SocketAddr {
    let last = known.and_then(|k| k.data_servers.get(id as usize - 1));
    SocketAddr::new(args.listen.ip(), last.map_or(0, SocketAddr::port))
}

/// The admin port of last time if it is still free; nothing remembers it but the directory.
async fn admin_listener(
    args: &UpArgs,
    known: Option<&Endpoints>,
) -> Result<tokio::net::TcpListener, start::StartError> {
    if let Some(address) = args.admin_listen {
        return start::listen(address).await;
    }
    if let Some(last) = known
        && let Ok(listener) = start::listen(last.admin).await
    {
        return Ok(listener);
    }
    start::listen((Ipv4Addr::LOCALHOST, 0).into()).await
}

/// Makes the volume where nothing ever was, before anything else is: where there are data servers,
/// a missing volume is lost or elsewhere, and a new one in its place would not be theirs.
fn make_or_find_volume(args: &UpArgs, dir: &Path, known: Option<&Endpoints>) -> Outcome {
    let config = mds_config(args, dir)?;
    let data_server = |n| dir.join(format!("ds-{n}")).exists();
    let used = known.is_some() || (1..=DATA_SERVERS_MAX).any(data_server);
    if used && !start::has_volume(&config) {
        return Err(format!(
            "{}: there is no volume here, but {} has data servers: put the directory of the \
             metadata server back, or begin anew with another --dir",
            config.dir.display(),
            dir.display()
        )
        .into());
    }
    match start::create_volume(&config) {
        // From an earlier start: what is wrong with it, opening it says.
        Err(_) if start::has_volume(&config) => Ok(()),
        made => Ok(made?),
    }
}

fn mds_config(args: &UpArgs, dir: &Path) -> Outcome<MdsConfig> {
    let base = match &args.config {
        Some(file) => MdsConfig::load(file)?,
        None => MdsConfig::default(),
    };
    Ok(MdsConfig {
        dir: dir.join("mds"),
        lease_s: args.lease,
        grace_s: Some(args.grace.unwrap_or(args.lease)),
        ..base
    })
}

/// The data servers as the metadata server is told of them.
fn specs(data_servers: &[RunningDs]) -> Vec<DataServerConfig> {
    let spec = |(ds, id): (&RunningDs, u32)| DataServerConfig {
        id,
        control: reachable(ds.address),
        addresses: vec![ds.address.into()],
        uuid: None,
    };
    data_servers.iter().zip(1..).map(spec).collect()
}

fn print_how_to_mount(e: &Endpoints) {
    let (host, port) = (e.mds.ip(), e.mds.port());
    let shown = if host.is_unspecified() { "THIS-HOST".to_owned() } else { host.to_string() };
    println!("Weft serves {} from {}", e.mds, e.dir.display());
    println!("  {} data servers, each on a port of its own", e.data_servers.len());
    println!("Mount it (as root, on any Linux machine that reaches this one):");
    println!("  mount -t nfs4 -o vers=4.2,port={port} {shown}:/ /mnt");
    println!("Or use it without a mount:");
    println!("  weft put FILE /name --server 127.0.0.1:{port}");
    println!("See who moves what:");
    println!("  weft status --dir {}", e.dir.display());
}
