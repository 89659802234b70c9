//! SIGHUP: a metadata server reads its configuration again, without a restart or a grace; nobody
//! dies of it.

mod support;

use std::{
    fs::{self, File},
    os::unix::fs::PermissionsExt,
    path::PathBuf,
    process::{Child, Command, Output, Stdio},
    time::Duration,
};

use support::{run, until, weft_binary, words};
use tempfile::TempDir;

const PATIENCE: Duration = Duration::from_secs(30);
/// Within this time an administrator is told of a fault.
const NOTICED: Duration = Duration::from_secs(10);
const SECRET: &str = "0123456789abcdef0123456789abcdef\n";

/// A server process and what it wrote.
struct Server {
    dir: TempDir,
    process: Child,
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself; the test says so then.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Server {
    /// Starts `weft ARGUMENTS` in a new directory with a secret and this configuration.
    fn start(arguments: &[&str], config: &str) -> Server {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        fs::write(path("secret"), SECRET).unwrap();
        fs::set_permissions(path("secret"), fs::Permissions::from_mode(0o600)).unwrap();
        fs::write(path("config"), config).unwrap();
        if arguments[0] == "mds" {
            let mut init = Command::new(weft_binary());
            init.args(["init", "--config", "config"]).current_dir(dir.path());
            let made = init.output().unwrap();
            assert!(made.status.success(), "{}", words(&made));
        }
        let process = Command::new(weft_binary())
            .args(arguments)
            .current_dir(dir.path())
            .stdout(File::create(path("out")).unwrap())
            .stderr(File::create(path("err")).unwrap())
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        Server { dir, process }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn until_it_says(&self, file: &str, what: &str) -> String {
        until(what, PATIENCE, || {
            let said = fs::read_to_string(self.path(file)).unwrap();
            said.contains(what).then_some(said)
        })
    }

    /// Where it serves.
    fn address(&self) -> String {
        let said = self.until_it_says("out", "serving on");
        let address = said.split("serving on ").nth(1).unwrap().split([',', '\n']).next();
        address.unwrap().to_owned()
    }

    fn reload(&self, config: &str) {
        fs::write(self.path("config"), config).unwrap();
        self.signal("-HUP");
    }

    /// Gives it these secrets; `reads` counts how often it was given any.
    fn use_secrets(&self, secrets: &str, reads: usize) {
        fs::write(self.path("secret"), secrets).unwrap();
        self.signal("-HUP");
        until("new secrets", PATIENCE, || {
            let said = fs::read_to_string(self.path("out")).unwrap();
            (said.matches("was read again").count() == reads).then_some(())
        });
    }

    fn signal(&self, signal: &str) {
        let sent = run("kill", &[signal, &self.process.id().to_string()]);
        assert!(sent.status.success(), "{}", words(&sent));
    }

    fn weft(&self, arguments: &[&str]) -> Output {
        Command::new(weft_binary()).args(arguments).output().unwrap()
    }
}

fn config(lease_s: u32, access: &str) -> String {
    format!(
        "listen = \"127.0.0.1:0\"\nadmin_socket = \"admin.sock\"\ndir = \"mds\"\n\
         cluster_secret_file = \"secret\"\nlease_s = {lease_s}\n\
         [[export.client]]\nnetworks = [\"127.0.0.0/8\"]\naccess = \"{access}\"\n"
    )
}

/// New rules for clients hold from the next request on; a change that a running server cannot make
/// is refused by name, with everything else in that file; a mistake in it likewise.
#[test]
fn client_rules_change_while_it_serves() {
    let server = Server::start(&["mds", "--config", "config"], &config(60, "none"));
    let address = server.address();
    let ls = || server.weft(&["ls", "/", "--server", &address]);
    assert!(!ls().status.success(), "nobody may");
    server.reload(&config(60, "rw"));
    server.until_it_says("out", "was read again");
    assert!(ls().status.success(), "{}", words(&ls()));
    server.reload(&config(120, "none"));
    let said = server.until_it_says("err", "only a restart changes that");
    assert!(said.contains("config: lease_s: only"), "{said}");
    assert!(ls().status.success(), "nothing of it holds: {}", words(&ls()));
    server.reload("lease = 1");
    server.until_it_says("err", "unknown field `lease`");
    assert!(ls().status.success(), "{}", words(&ls()));
}

/// The configuration of a data server, or of a metadata server with some.
fn ds_config(id: u32) -> String {
    format!("id = {id}\nlisten = \"127.0.0.1:0\"\ndir = \"ds\"\ncluster_secret_file = \"secret\"\n")
}

fn with_data_servers(servers: &[&Server]) -> String {
    let one = |(id, server): (usize, &&Server)| {
        let address = server.address();
        format!("[[data_server]]\nid = {id}\ncontrol = \"{address}\"\n")
    };
    let all: String = (1..).zip(servers).map(one).collect();
    config(60, "rw") + &all
}

/// A data server that is new in the configuration gets new files from then on, and old files are
/// read meanwhile as ever; nobody waits for a grace. One that is missing from it is not let go.
#[test]
fn data_servers_come_while_it_serves() {
    let ds = |id| Server::start(&["ds", "--config", "config"], &ds_config(id));
    let (one, two, three) = (ds(1), ds(2), ds(3));
    let server = Server::start(&["mds", "--config", "config"], &with_data_servers(&[&one]));
    let address = server.address();
    fs::write(server.path("big"), vec![7; 5 << 20]).unwrap();
    let put = |name: &str| {
        let local = server.path("big");
        let put = server.weft(&["put", local.to_str().unwrap(), name, "--server", &address]);
        assert!(put.status.success(), "{}", words(&put));
        let told = words(&server.weft(&["stat", name, "--server", &address]));
        [&one, &two, &three].map(|ds| told.contains(&ds.address()))
    };
    assert_eq!(put("/before"), [true, false, false]);
    server.reload(&with_data_servers(&[&one, &two, &three]));
    server.until_it_says("out", "was read again");
    let mut count = 0;
    until("a file on all three", PATIENCE, || {
        count += 1;
        (put(&format!("/after-{count}")) == [true; 3]).then_some(())
    });
    for name in ["/before", &format!("/after-{count}")] {
        let got = server.path("got");
        let get = ["get", name, got.to_str().unwrap(), "--server", &address];
        assert!(server.weft(&get).status.success(), "{name}");
        assert!(fs::read(&got).unwrap() == vec![7; 5 << 20], "{name}");
        fs::remove_file(&got).unwrap();
    }
    server.reload(&with_data_servers(&[&one, &two]));
    let said = server.until_it_says("err", "only a restart changes that");
    assert!(said.contains("config: a data_server that there was: only"), "{said}");
    assert_eq!(put("/last"), [true; 3]);
}

/// Data servers read the secrets again, and `weft up` nothing; they go on, and stop when asked to.
#[test]
fn nobody_dies_of_it() {
    let ds = &*ds_config(1);
    let up = ["up", "--dir", "up", "--listen", "127.0.0.1:0", "--data-servers", "1"];
    for (arguments, config, serving, (file, told)) in [
        (&["ds", "--config", "config"][..], ds, "serving on", ("out", "secret was read again")),
        (&up, "", "Serving.", ("err", "SIGHUP: nothing is read again here")),
    ] {
        let mut server = Server::start(arguments, config);
        server.until_it_says("out", serving);
        server.signal("-HUP");
        server.until_it_says(file, told);
        assert!(server.process.try_wait().unwrap().is_none(), "{arguments:?} is gone");
        server.signal("-TERM");
        assert!(server.process.wait().unwrap().success());
    }
}

/// A cluster that goes on working gets another secret in three steps, one server at a time: files
/// are written and read after each, and no data server is lost in the first two. A data server
/// that still has the old one only is not reached after the last.
#[test]
fn a_cluster_gets_another_secret() {
    let ds = |id| Server::start(&["ds", "--config", "config"], &ds_config(id));
    let (one, two) = (ds(1), ds(2));
    let mds = Server::start(&["mds", "--config", "config"], &with_data_servers(&[&one, &two]));
    let (address, local) = (mds.address(), mds.path("big"));
    fs::write(&local, vec![7; 3 << 20]).unwrap();
    let weft = |arguments: &[&str]| {
        let done = mds.weft(&[arguments, &["--server", &address]].concat());
        assert!(done.status.success(), "{arguments:?}: {}", words(&done));
    };
    let works = |name: &str| {
        weft(&["put", local.to_str().unwrap(), name]);
        weft(&["get", name, "/dev/null"]);
        weft(&["get", "/before", "/dev/null"]);
    };
    works("/before");
    let new = "fedcba9876543210fedcba9876543210\n";
    let both = [SECRET.to_owned() + new, new.to_owned() + SECRET];
    let mut reads = 0;
    for (step, secrets) in both.iter().enumerate() {
        reads += 1;
        for (number, server) in [&one, &mds, &two].into_iter().enumerate() {
            server.use_secrets(secrets, reads);
            works(&format!("/{step}-{number}"));
        }
    }
    let lost = || fs::read_to_string(mds.path("err")).unwrap().matches("data server lost").count();
    assert_eq!(lost(), 0);
    reads += 1;
    for server in [&one, &mds] {
        server.use_secrets(new, reads);
        works(&format!("/last-{}", server.process.id()));
    }
    two.use_secrets(SECRET, reads);
    mds.until_it_says("err", "id=2 error=\"");
    let said = mds.until_it_says("err", "it does not know our cluster secret");
    assert!(!said.contains("id=1 error=\"127"), "{said}");
}

/// A data server that was forgotten when the cluster got another secret refuses every handle that
/// the metadata server gives out. It is named, new files go elsewhere, and nothing is lost when it
/// is given the secret.
#[test]
fn a_data_server_without_the_new_secret_is_named() {
    let ds = |id| Server::start(&["ds", "--config", "config"], &ds_config(id));
    let (one, two) = (ds(1), ds(2));
    let mds = Server::start(&["mds", "--config", "config"], &with_data_servers(&[&one, &two]));
    let (address, local) = (mds.address(), mds.path("big"));
    fs::write(&local, vec![7; 3 << 20]).unwrap();
    let local = local.to_str().unwrap();
    let weft = |arguments: &[&str]| {
        let done = mds.weft(&[arguments, &["--server", &address]].concat());
        assert!(done.status.success(), "{arguments:?}: {}", words(&done));
        words(&done)
    };
    weft(&["put", local, "/before"]);
    let health = || support::admin_get(&mds.path("admin.sock"), "/health");
    let new = "fedcba9876543210fedcba9876543210\n";
    for (n, secrets) in [SECRET.to_owned() + new, new.to_owned() + SECRET].iter().enumerate() {
        two.use_secrets(secrets, n + 1);
        mds.use_secrets(secrets, n + 1);
    }
    let why = "it does not know our cluster secret";
    let named = until("a problem", NOTICED, || {
        let health = health();
        health.contains(why).then_some(health)
    });
    assert!(named.contains("\"healthy\":false") && named.contains("data server 1 "), "{named}");
    assert!(!named.contains("data server 2 cannot"), "{named}");
    let log = mds.until_it_says("err", why);
    assert!(log.contains("data server lost id=1"), "{log}");
    let status = mds.weft(&["status", "--admin", mds.path("admin.sock").to_str().unwrap()]);
    assert!(words(&status).contains(why), "{}", words(&status));
    weft(&["put", local, "/after"]);
    weft(&["get", "/after", "/dev/null"]);
    let stat = weft(&["stat", "/after"]);
    assert!(!stat.contains(&one.address()) && stat.contains(&two.address()), "{stat}");
    one.use_secrets(&(new.to_owned() + SECRET), 1);
    until("health", PATIENCE, || health().contains("\"healthy\":true").then_some(()));
    let got = mds.path("got");
    weft(&["get", "/before", got.to_str().unwrap()]);
    assert!(fs::read(&got).unwrap() == vec![7; 3 << 20], "/before has other bytes");
}

/// A server without a secret says which it is, and how to make one.
#[test]
fn a_missing_secret_is_explained() {
    for role in ["mds", "ds"] {
        let id = if role == "ds" { "id = 1\n" } else { "" };
        let config = format!(
            "{id}listen = \"127.0.0.1:0\"\ndir = \"data\"\n\
             cluster_secret_file = \"none/cluster.secret\"\n"
        );
        let mut server = Server::start(&[role, "--config", "config"], &config);
        assert!(!server.process.wait().unwrap().success());
        let said = fs::read_to_string(server.path("err")).unwrap();
        assert!(said.contains("openssl rand -hex 32 > none/cluster.secret"), "{said}");
    }
}

/// A port that is taken leaves nothing behind in a new directory.
#[test]
fn a_taken_port_leaves_nothing() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    for option in ["--listen", "--admin-listen"] {
        let dir = tempfile::tempdir().unwrap();
        let mut up = Command::new(weft_binary());
        up.args(["up", "--dir", "new", option, &address]).current_dir(dir.path());
        if option != "--listen" {
            up.args(["--listen", "127.0.0.1:0"]);
        }
        let output = up.output().unwrap();
        assert!(!output.status.success());
        assert!(words(&output).contains("another server is using it"), "{}", words(&output));
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0, "{option}");
    }
}
