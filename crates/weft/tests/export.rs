//! Who may do what with a cluster as it stands, without a word of configuration: from this machine,
//! and from others, each in a network namespace of its own.

mod support;

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use support::cluster::{Cluster, Options, Ports};
use support::guest::{Guest, Kernel};
use support::namespaces::Network;
use tempfile::TempDir;
use weft_client::fs::{Client, ClientOptions};
use weft_client::rpc::Credential;

/// A user who is not root.
const USER: &str = "65534";
const SECRET: &[u8] = b"of root";
/// Where a forging program finds the server.
const FORGED: &str = "WEFT_TEST_FORGED";
/// Long for one command, if it does not wait for anything.
const AT_ONCE: Duration = Duration::from_secs(5);

/// `weft up`; dropping it kills it and removes its data.
struct Up {
    dir: TempDir,
    process: Child,
    /// What it said until it served.
    said: String,
}

impl Up {
    /// Starts it by this command, which runs the binary, and waits until it serves.
    fn start(mut weft: Command, arguments: &[&str]) -> Up {
        let dir = tempfile::tempdir().expect("a folder");
        let log = File::create(dir.path().join("log")).expect("a log");
        weft.args(["up", "--data-servers", "1", "--dir"]).arg(dir.path().join("data"));
        weft.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log);
        let mut process = weft.spawn().expect("weft starts");
        let lines = BufReader::new(process.stdout.take().expect("stdout is piped")).lines();
        let lines = lines.map_while(Result::ok).take_while(|line| !line.starts_with("Serving."));
        let said = lines.collect::<Vec<_>>().join("\n");
        Up { dir, process, said }
    }

    /// A file on this machine that only root reads.
    fn secret(&self) -> String {
        let path = self.dir.path().join("secret");
        std::fs::write(&path, SECRET).expect("a file");
        let private = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        std::fs::set_permissions(&path, private).expect("its mode");
        path.to_str().expect("a plain path").to_owned()
    }
}

impl Drop for Up {
    fn drop(&mut self) {
        // Nothing more can be done about a process that cannot be killed.
        let _ = self.process.kill();
        let _ = self.process.wait();
        if std::thread::panicking() {
            let log = std::fs::read_to_string(self.dir.path().join("log"));
            eprintln!("{}\n{}", self.said, log.unwrap_or_default());
        }
    }
}

/// Runs a command of clients to its end.
fn weft(mut weft: Command, server: &str, arguments: &[&str]) -> Output {
    let timed = weft.args(arguments).env("WEFT_SERVER", server).stdin(Stdio::null());
    timed.output().expect("weft starts")
}

/// The command that runs a program as another user.
fn as_user(program: &Path) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--reuid", USER, "--regid", USER, "--clear-groups"]).arg(program);
    command
}

fn works(output: &Output) {
    assert!(output.status.success(), "{}", support::words(output));
}

fn fails_with(output: &Output, words: &str) {
    let said = support::words(output);
    assert!(!output.status.success() && said.contains(words), "{said}");
}

/// A part of the test below, in a process of its own that is another user's: it says that it is
/// root's, and reads a file that is.
#[test]
fn forge() {
    let Ok(server) = std::env::var(FORGED) else { return };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let got: Result<_, String> = runtime.expect("a runtime").block_on(async {
        let credential = Credential::sys("here", 0, 0, &[]);
        let options = ClientOptions { credential, ..ClientOptions::default() };
        let server = server.parse().expect("an address");
        let client = Client::connect(server, options).await.map_err(|e| e.to_string())?;
        let got = client.read_file("/secret", 100).await;
        client.close().await;
        got.map_err(|e| e.to_string())
    });
    println!("forged: {got:?}");
}

/// Finding 6 of the audit: who is not root is not root by saying so, and his own files are his.
#[test]
fn nobody_is_root_by_saying_so() {
    support::require_root("being two users");
    let ports = Ports::free();
    let server = format!("127.0.0.1:{}", ports.first);
    let up = Up::start(Command::new(support::weft_binary()), &["--listen", &server]);
    let run = |arguments: &[&str]| weft(Command::new(support::weft_binary()), &server, arguments);
    works(&run(&["put", &up.secret(), "/secret"]));
    let mut forging = as_user(&std::env::current_exe().expect("this program"));
    let forging = forging.args(["--exact", "forge", "--nocapture"]).env(FORGED, &server);
    let forged = support::words(&forging.output().expect("setpriv starts"));
    assert!(forged.contains("forged: Err"), "{forged}");
    assert!(forged.contains("does not serve 127.0.0.1 from port"), "{forged}");
    let user = |arguments: &[&str]| weft(as_user(&support::weft_binary()), &server, arguments);
    works(&user(&["ls", "/"]));
    fails_with(&user(&["get", "/secret", "-"]), "permission denied");
}

/// Nobody else gets to `weft up` unless he is let in; then clients of other machines are served
/// from privileged ports, with a root who is nobody, until a rule says otherwise. A program without
/// root is told what the administrator has to allow, at once. The machine's own root is root.
#[test]
fn other_machines() {
    let network = Network::new(&["server", "client"]);
    let binary = support::weft_binary();
    let (here, there) =
        (|| network.command("server", &binary), || network.command("client", &binary));
    let server = Network::address(0);
    let up = Up::start(here(), &[]);
    assert!(up.said.contains("Weft serves 127.0.0.1:2049"), "{}", up.said);
    assert!(up.said.contains("this machine: root everything, other users as themselves"));
    assert!(!up.said.contains("other machines"), "{}", up.said);
    works(&weft(here(), "127.0.0.1", &["ls", "/"]));
    fails_with(&weft(there(), &server, &["ls", "/"]), "no server at");
    drop(up);

    let up = Up::start(here(), &["--listen", &server]);
    let others = "other machines: read and write, from privileged ports; their root is user 65534";
    assert!(up.said.contains(others), "{}", up.said);
    let secret = up.secret();
    works(&weft(here(), &server, &["put", &secret, "/secret"]));
    works(&weft(there(), &server, &["ls", "/"]));
    fails_with(&weft(there(), &server, &["get", "/secret", "-"]), "permission denied");
    fails_with(&weft(there(), &server, &["mkdir", "/d"]), "permission denied");
    let user = || {
        let mut command = network.command("client", Path::new("setpriv"));
        command.args(as_user(&binary).get_args());
        command
    };
    let started = std::time::Instant::now();
    let refused = weft(user(), &server, &["ls", "/"]);
    assert!(started.elapsed() < AT_ONCE, "{:?}", started.elapsed());
    let rule = "[[export.client]] networks = [\"10.212.0.2\"], access = \"rw\", \
                privileged_ports = false";
    fails_with(&refused, rule);
    drop(up);

    let file = tempfile::NamedTempFile::new().expect("a file");
    let allowed = "[[export.client]]\nnetworks = [\"10.212.0.2\"]\naccess = \"rw\"\n\
                   root_squash = false\nprivileged_ports = false\n";
    std::fs::write(file.path(), allowed).expect("a configuration");
    let config = file.path().to_str().expect("a plain path");
    let up = Up::start(here(), &["--listen", &server, "--config", config]);
    assert!(up.said.contains("10.212.0.2/32: read and write, from any port"), "{}", up.said);
    works(&weft(there(), &server, &["put", &up.secret(), "/secret"]));
    works(&weft(user(), &server, &["ls", "/"]));
    fails_with(&weft(user(), &server, &["get", "/secret", "-"]), "permission denied");
    works(&weft(here(), &server, &["get", "/secret", "-"]));
}

/// What a kernel is allowed: from another machine by the defaults, and on the server's own, whose
/// root may mount it and is root then.
#[test]
fn newest_kernel_is_believed_as_far_as_that() {
    let Some(guest) = Guest::new(Kernel::Uml, "export.sh") else { return };
    // As it stands: with a table of its own, even an empty one, nothing is allowed beside.
    let mut cluster = Cluster::configured(Options::default(), "[export]\n");
    let dir = tempfile::tempdir().expect("a folder");
    for (name, bytes, mode) in [("secret", SECRET, 0o600), ("readable", b"for everybody", 0o644)] {
        let path = dir.path().join(name);
        std::fs::write(&path, bytes).expect("a file");
        let mode = std::os::unix::fs::PermissionsExt::from_mode(mode);
        std::fs::set_permissions(&path, mode).expect("its mode");
        works(&cluster.weft(&["put", path.to_str().expect("a plain path"), "/"]));
    }
    let guest = guest.host_program(&support::weft_binary()).argument(cluster.port());
    let report = guest.run(&mut cluster, |_, _| Err("this test has no host commands".to_owned()));
    assert_eq!(report.number("4.2", "refusals"), 4);
}
