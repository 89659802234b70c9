//! `weft init`: makes the volume of a metadata server, which is a new and empty file system; or
//! writes the configuration of a cluster of several machines, for its administrator to copy.

use std::{
    fs,
    io::Write,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use clap::Args;
use weft::{
    address::{Host, HostPort, NFS_PORT, Source},
    config::{DATA_SERVER_PORT, MdsConfig},
    start,
};
use weft_server::{clock::random, identity::hex};

use crate::outcome::{Outcome, OutputError};

/// Where the metadata server keeps the volume unless told otherwise.
const MDS_DIR: &str = "/var/lib/weft/mds";

/// What a new configuration says of who may do what: nothing, and how to say something.
const EXPORT: &str = "
# Who may do what. As it stands: programs of other machines that come from privileged ports, as
# mount does, read and write, and their root is nobody. Root of this machine may do everything: make
# directories for users here. With any [[export.client]] only the machines named are served.
#
# Machines on which programs that are not root's (weft put, libraries) are believed too:
# [[export.client]]
# networks = [\"10.0.0.0/24\"]
# access = \"rw\"
# privileged_ports = false
#
# A machine whose root is root here:
# [[export.client]]
# networks = [\"10.1.0.5\"]
# access = \"rw\"
# root_squash = false
";

/// Options of `weft init`.
#[derive(Debug, Args)]
#[command(override_usage = "weft init --config FILE\n       \
          weft init DIR --mds HOST[:PORT][:PATH] --ds HOST[:PORT]:PATH...")]
pub struct InitArgs {
    /// Make the volume of this metadata server: its configuration file (TOML), whose `dir` gets it.
    #[arg(long, value_name = "FILE", required_unless_present = "dir", conflicts_with = "dir")]
    config: Option<PathBuf>,
    /// Write the configuration of a cluster into this new directory.
    #[arg(value_name = "DIR", requires = "mds", requires = "ds")]
    dir: Option<PathBuf>,
    /// The metadata server's machine, and its data directory there.
    #[arg(long, value_name = "HOST[:PORT][:PATH]")]
    mds: Option<Source>,
    /// A data server's machine, and its data directory there; once for each.
    #[arg(long, value_name = "HOST[:PORT]:PATH")]
    ds: Vec<Source>,
    /// Where the files will be on each machine.
    #[arg(long, value_name = "PATH", default_value = "/etc/weft")]
    etc: PathBuf,
}

/// Makes a volume, or writes configuration files; what is there stays, and is an error.
pub fn run(args: &InitArgs) -> Outcome {
    let text = match (&args.config, &args.dir, &args.mds) {
        (Some(file), ..) => volume(file)?,
        (None, Some(dir), Some(mds)) => cluster(dir, &Plan::new(mds, &args.ds, &args.etc)?)?,
        (None, ..) => return Err("init: --config FILE, or DIR with --mds and --ds".into()),
    };
    Ok(std::io::stdout().write_all(text.as_bytes()).map_err(OutputError::from)?)
}

fn volume(file: &Path) -> Outcome<String> {
    let config = MdsConfig::load(file)?;
    start::create_volume(&config)?;
    Ok(format!("A new, empty file system is in {}\n", config.dir.display()))
}

/// A machine, the port of the server there, and its data directory.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Place {
    machine: HostPort,
    port: u16,
    dir: String,
}

impl Place {
    fn host(&self) -> String {
        HostPort { host: self.machine.host.clone(), port: None }.to_string()
    }

    /// What the server there listens on: every address of the family.
    fn listen(&self) -> String {
        let v6 = matches!(self.machine.host, Host::Ip(std::net::IpAddr::V6(_)));
        format!("{}:{}", if v6 { "[::]" } else { "0.0.0.0" }, self.port)
    }
}

/// A cluster to be.
#[derive(Debug)]
struct Plan {
    mds: Place,
    data_servers: Vec<Place>,
    etc: PathBuf,
}

impl Plan {
    fn new(mds: &Source, ds: &[Source], etc: &Path) -> Result<Plan, String> {
        let place = |source: &Source, default: u16, dir: &str| Place {
            machine: source.server.clone(),
            port: source.server.port.unwrap_or(default),
            dir: dir.to_owned(),
        };
        let mds_dir = if mds.path == "/" { MDS_DIR } else { &mds.path };
        let mut data_servers: Vec<Place> = Vec::new();
        for source in ds {
            if source.path == "/" {
                let machine = &source.server;
                return Err(format!(
                    "--ds {machine}: name its data directory: {machine}:/srv/weft"
                ));
            }
            let mut new = place(source, DATA_SERVER_PORT, &source.path);
            let of_machine = |p: &&Place| p.machine.host == new.machine.host;
            let neighbours: Vec<_> = data_servers.iter().filter(of_machine).cloned().collect();
            if neighbours.iter().any(|p| p.dir == new.dir) {
                return Err(format!("--ds {}:{} is given twice", new.host(), new.dir));
            }
            while source.server.port.is_none() && neighbours.iter().any(|p| p.port == new.port) {
                new.port += 1;
            }
            if neighbours.iter().any(|p| p.port == new.port) {
                return Err(format!("--ds {}: port {} is given twice", new.host(), new.port));
            }
            data_servers.push(new);
        }
        let mds = place(mds, NFS_PORT, mds_dir);
        Ok(Plan { mds, data_servers, etc: etc.to_owned() })
    }

    /// The files by name, without the secret.
    fn files(&self) -> Vec<(String, String)> {
        let secret =
            format!("cluster_secret_file = {}\n", quoted(&self.etc.join("cluster.secret")));
        let server = |place: &Place| {
            let dir = quoted(Path::new(&place.dir));
            format!("listen = \"{}\"\ndir = {dir}\n{secret}", place.listen())
        };
        let mut mds = format!("# The metadata server of this cluster.\n{}", server(&self.mds));
        let mut files = Vec::new();
        for (id, place) in (1..).zip(&self.data_servers) {
            let (host, port) = (place.host(), place.port);
            mds += &format!("\n[[data_server]]\nid = {id}\ncontrol = \"{host}:{port}\"\n");
            let text = format!("# Data server {id} of this cluster.\nid = {id}\n{}", server(place));
            files.push((format!("ds-{id}.toml"), text));
        }
        mds += EXPORT;
        files.insert(0, ("mds.toml".to_owned(), mds));
        files
    }

    /// What is left to do by hand.
    fn steps(&self, dir: &Path) -> String {
        let (from, etc) = (dir.display(), self.etc.display());
        let mut out = format!(
            "The configuration of the cluster is in {from}. {from}/cluster.secret is known to its \
             servers only.\n"
        );
        for (id, place) in (1..).zip(&self.data_servers) {
            let (host, port, data) = (place.host(), place.port, &place.dir);
            out += &format!(
                "\nOn {host}, data server {id}: port {port} open for clients and the metadata \
                 server.\n  ssh {host} mkdir -p {etc}\n  \
                 scp {from}/ds-{id}.toml {from}/cluster.secret {host}:{etc}/\n  \
                 weft ds --config {etc}/ds-{id}.toml          # data in {data}\n"
            );
        }
        let (host, port, data) = (self.mds.host(), self.mds.port, &self.mds.dir);
        let option = if port == NFS_PORT { String::new() } else { format!(",port={port}") };
        out += &format!(
            "\nOn {host}, the metadata server: port {port} open for clients.\n  \
             ssh {host} mkdir -p {etc}\n  \
             scp {from}/mds.toml {from}/cluster.secret {host}:{etc}/\n  \
             weft init --config {etc}/mds.toml        # once: a new, empty file system in \
             {data}\n  \
             weft mds --config {etc}/mds.toml\n  \
             weft status --config {etc}/mds.toml      # as root or the server's user\n\n\
             With the Debian package the servers run as the \
             user weft, who must own the secret and the data\ndirectories (chown weft ...; runuser \
             -u weft -- weft init ...), and are started by\n  systemctl enable --now weft-ds@1     \
             # and weft-mds\n\nClients:\n  mount -t nfs4 -o vers=4.2{option} {host}:/ /mnt\n"
        );
        out
    }
}

/// A path as a TOML string.
fn quoted(path: &Path) -> String {
    toml::Value::String(path.display().to_string()).to_string()
}

/// Writes everything, or nothing if any of it is there.
fn cluster(dir: &Path, plan: &Plan) -> Outcome<String> {
    let at = |e: std::io::Error, path: &Path| format!("{}: {e}", path.display());
    fs::create_dir_all(dir).map_err(|e| at(e, dir))?;
    let secret = hex(&random::<32>()) + "\n";
    let mut files = plan.files();
    files.push(("cluster.secret".to_owned(), secret));
    for (name, _) in &files {
        let path = dir.join(name);
        if path.symlink_metadata().is_ok() {
            let path = path.display();
            return Err(format!("{path} is there already: choose another directory").into());
        }
    }
    for (name, text) in &files {
        let path = dir.join(name);
        let mode = if name == "cluster.secret" { 0o600 } else { 0o644 };
        let opened = fs::OpenOptions::new().write(true).create_new(true).mode(mode).open(&path);
        let written = opened.and_then(|mut file| {
            file.write_all(text.as_bytes())?;
            file.sync_all()
        });
        written.map_err(|e| at(e, &path))?;
    }
    Ok(plan.steps(dir))
}

#[cfg(test)]
mod tests {
    use weft::config::{DsConfig, ExportConfig};

    use super::*;

    fn plan(mds: &str, ds: &[&str]) -> Result<Plan, String> {
        let ds: Vec<Source> = ds.iter().map(|text| text.parse().unwrap()).collect();
        Plan::new(&mds.parse().unwrap(), &ds, Path::new("/etc/weft"))
    }

    /// The files are what the servers read: addresses, directories, numbers; two data servers of a
    /// machine have two ports.
    #[test]
    fn the_files_fit_together() {
        let ds = ["ds1.lab:/srv/a", "ds1.lab:/srv/b", "10.0.0.7:3000:/srv/c", "[2001:db8::7]:/d d"];
        let plan = plan("mds.lab", &ds).unwrap();
        let files = plan.files();
        let names: Vec<_> = files.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["mds.toml", "ds-1.toml", "ds-2.toml", "ds-3.toml", "ds-4.toml"]);
        let mds = MdsConfig::parse(Path::new("mds.toml"), &files[0].1).unwrap();
        assert_eq!((mds.listen.port(), mds.dir.to_str()), (2049, Some(MDS_DIR)));
        assert_eq!(mds.export, ExportConfig::default(), "safe as it stands");
        // What it proposes is understood: every comment that is TOML taken as such.
        let (told, proposed) = files[0].1.split_once("\n# Who may do what").unwrap();
        let proposed = proposed.lines().map(|line| line.trim_start_matches("# "));
        let toml = proposed.filter(|line| line.starts_with("[[") || line.contains(" = "));
        let text = format!("{told}\n{}", toml.collect::<Vec<_>>().join("\n"));
        let open = MdsConfig::parse(Path::new("mds.toml"), &text).unwrap();
        assert_eq!(open.export.clients.len(), 2);
        let controls: Vec<_> = mds.data_servers.iter().map(|d| d.control.to_string()).collect();
        let expected = ["ds1.lab:2050", "ds1.lab:2051", "10.0.0.7:3000", "[2001:db8::7]:2050"];
        assert_eq!(controls, expected);
        for (n, (id, port, dir)) in
            [(1, 2050, "/srv/a"), (2, 2051, "/srv/b"), (3, 3000, "/srv/c"), (4, 2050, "/d d")]
                .into_iter()
                .enumerate()
        {
            let ds = DsConfig::parse(Path::new("ds.toml"), &files[n + 1].1).unwrap();
            assert_eq!((ds.id, ds.listen.port(), ds.dir.to_str()), (id, port, Some(dir)));
            assert_eq!(ds.cluster_secret_file, mds.cluster_secret_file);
        }
        let steps = plan.steps(Path::new("new"));
        for part in [
            "On ds1.lab, data server 2: port 2051",
            "ssh ds1.lab mkdir -p /etc/weft\n  scp new/ds-1.toml",
            "ssh mds.lab mkdir -p /etc/weft\n  scp new/mds.toml",
            "mds.lab:/ /mnt",
        ] {
            assert!(steps.contains(part), "{part}: {steps}");
        }
    }

    /// What cannot be is said.
    #[test]
    fn what_cannot_be() {
        for (ds, why) in [
            (&["a"][..], "name its data directory"),
            (&["a:/x", "a:/x"], "a:/x is given twice"),
            (&["a:1:/x", "a:1:/y"], "port 1 is given twice"),
        ] {
            let e = plan("m", ds).unwrap_err();
            assert!(e.contains(why), "{e}");
        }
    }

    /// Nothing is written over, and the secret is the owner's alone.
    #[test]
    fn nothing_is_overwritten() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let new = dir.path().join("new");
        let plan = plan("m", &["a:/x"]).unwrap();
        cluster(&new, &plan).unwrap();
        let mode = fs::metadata(new.join("cluster.secret")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let secret = fs::read_to_string(new.join("cluster.secret")).unwrap();
        let e = cluster(&new, &plan).unwrap_err().to_string();
        assert!(e.ends_with("mds.toml is there already: choose another directory"), "{e}");
        assert_eq!(fs::read_to_string(new.join("cluster.secret")).unwrap(), secret);
    }
}
