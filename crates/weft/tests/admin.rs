//! Who gets to the admin service of a running server, and how much of the server they can take.

mod support;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::Value;
use tempfile::TempDir;

use support::{weft_binary, words};

/// Somebody who is not the server.
const NOBODY: u32 = 65_534;
/// Within it a connection that says nothing, or not all, has ended.
const PATIENCE: Duration = Duration::from_secs(120);

/// `weft up` in a folder that everybody may enter, with a TCP address for administrators.
struct Up {
    dir: TempDir,
    process: Child,
    ready: Value,
}

impl Up {
    fn start(config: &str) -> Up {
        let dir = tempfile::Builder::new().prefix("weft-admin.").tempdir().expect("a folder");
        mode(dir.path(), 0o755);
        std::fs::write(dir.path().join("config"), config).expect("a configuration");
        let (process, ready) = Up::launch(dir.path());
        Up { dir, process, ready }
    }

    /// Kills the server and starts it again on its directory.
    fn restart(&mut self) {
        self.process.kill().and_then(|()| self.process.wait()).expect("it ends");
        (self.process, self.ready) = Up::launch(self.dir.path());
    }

    fn launch(dir: &Path) -> (Child, Value) {
        let more = ["--admin-listen", "127.0.0.1:0", "--config", "config"];
        let mut process =
            up(dir, "data", &more).stdout(Stdio::piped()).spawn().expect("weft starts");
        let mut line = String::new();
        let stdout = process.stdout.take().expect("a pipe");
        std::io::BufRead::read_line(&mut std::io::BufReader::new(stdout), &mut line).expect("text");
        let ready = serde_json::from_str(&line).unwrap_or_else(|e| panic!("{line:?}: {e}"));
        mode(&dir.join("data"), 0o755);
        (process, ready)
    }

    fn path(&self, name: &str) -> String {
        self.dir.path().join(name).to_str().expect("a plain path").to_owned()
    }

    fn socket(&self) -> PathBuf {
        self.ready["admin"].as_str().expect("a path").into()
    }

    fn tcp(&self) -> SocketAddr {
        self.ready["admin_tcp"].as_str().and_then(|text| text.parse().ok()).expect("an address")
    }

    /// What is answered over TCP.
    fn over_tcp(&self, target: &str, headers: &str) -> String {
        let mut stream = TcpStream::connect(self.tcp()).expect("a connection");
        let asked = format!("GET {target} HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n");
        stream.write_all(asked.as_bytes()).expect("a request");
        std::io::read_to_string(stream).expect("an answer")
    }

    /// Files that the server has open.
    fn open_files(&self) -> usize {
        std::fs::read_dir(format!("/proc/{}/fd", self.process.id())).expect("its files").count()
    }
}

impl Drop for Up {
    fn drop(&mut self) {
        // Nothing more can be done about a process that cannot be killed.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn up(dir: &Path, data: &str, more: &[&str]) -> Command {
    let mut command = Command::new(weft_binary());
    command.args(["up", "--json", "--listen", "127.0.0.1:0", "--data-servers", "1"]);
    command.args(["--dir", data]).args(more).current_dir(dir).stdin(Stdio::null());
    command
}

fn mode(path: &Path, mode: u32) {
    let permissions = std::fs::Permissions::from_mode(mode);
    std::fs::set_permissions(path, permissions).expect("a mode");
}

/// A command as a user and group.
fn weft_as(uid: u32, gid: u32, arguments: &[&str]) -> Output {
    let mut command = Command::new(weft_binary());
    command.args(arguments).uid(uid).gid(gid).stdin(Stdio::null()).current_dir("/");
    command.output().expect("weft starts")
}

fn weft(arguments: &[&str]) -> Output {
    weft_as(rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw(), arguments)
}

fn fails(output: &Output, why: &str) {
    let said = words(output);
    assert!(!output.status.success() && said.contains(why), "{said}");
    assert!(output.stdout.is_empty(), "{said}");
}

fn succeeds(output: &Output) {
    assert!(output.status.success(), "{}", words(output));
}

/// Another user of the machine is told nothing: not while the socket is as the server made it, and
/// not when somebody has opened it to all.
#[test]
fn other_users_are_told_nothing() {
    support::require_root("Another user");
    let server = Up::start("");
    let socket = server.socket();
    let at = socket.to_str().expect("a plain path");
    let ask = |uid, gid| weft_as(uid, gid, &["status", "--admin", at]);
    succeeds(&ask(0, 0));
    fails(&ask(NOBODY, NOBODY), "it is for root, the server's user and its admin_group");
    mode(&socket, 0o666);
    fails(&ask(NOBODY, NOBODY), "no answer from the admin service");
    succeeds(&ask(0, 0));
}

/// Another user of the machine reads nothing of the volume and its objects and cannot hold the
/// directory's lock. The same after a start on a directory that an earlier version left open.
#[test]
fn other_users_read_no_files_of_the_servers() {
    support::require_root("Another user");
    let mut server = Up::start("");
    let data = server.path("data");
    only_the_endpoints_are_readable(Path::new(&data));
    for each in ["mds", "ds-1", "lock"] {
        let open_up =
            Command::new("chmod").args(["-R", "go+rX"]).arg(format!("{data}/{each}")).status();
        assert!(open_up.expect("chmod").success());
    }
    server.restart();
    only_the_endpoints_are_readable(Path::new(&data));
}

fn only_the_endpoints_are_readable(data: &Path) {
    let mut find = Command::new("find");
    let find = find.arg(data).args(["-mindepth", "1", "-readable"]).uid(NOBODY).gid(NOBODY);
    let found = find.current_dir("/").output().expect("find");
    let found = String::from_utf8(found.stdout).expect("plain names");
    let shown = |line: &&str| !line.contains("/local") && !line.ends_with("/endpoints.json");
    assert_eq!(found.lines().filter(shown).collect::<Vec<_>>(), Vec::<&str>::new());
    assert!(found.contains("/endpoints.json"), "the search reaches the directory: {found:?}");
    let mut flock = Command::new("flock");
    let flock = flock.arg("--nonblock").arg(data.join("lock")).arg("true");
    let held = flock.uid(NOBODY).gid(NOBODY).current_dir("/").output().expect("flock");
    let said = String::from_utf8_lossy(&held.stderr).into_owned();
    assert!(said.contains("Permission denied"), "{said}");
}

/// The members of a group may, if it is so configured, and nobody else.
#[test]
fn a_group_may_be_let_in() {
    support::require_root("Another user");
    let server = Up::start("admin_group = \"daemon\"\n");
    let socket = server.socket();
    let at = socket.to_str().expect("a plain path");
    succeeds(&weft_as(NOBODY, 1, &["status", "--admin", at]));
    fails(&weft_as(NOBODY, NOBODY, &["status", "--admin", at]), "Permission denied");
    std::fs::write(server.path("none"), "admin_group = \"no such group\"\n").expect("a file");
    let output = up(server.dir.path(), "other", &["--config", "none"]).output();
    let output = output.expect("weft starts");
    fails(&output, "admin_group: there is no group \"no such group\" on this machine");
}

/// Over TCP who has the token is answered, and nobody else with more than that there is one.
#[test]
fn over_tcp_the_token_is_wanted() {
    let server = Up::start("");
    let (token_file, address) = (server.path("data/admin.token"), server.tcp().to_string());
    let meta = std::fs::metadata(&token_file).expect("a token");
    assert_eq!(meta.permissions().mode() & 0o777, 0o600);
    let token = std::fs::read_to_string(&token_file).expect("a token");
    for target in ["/status", "/health", "/file?path=/", "/clients", "/backup", "/nothing"] {
        for headers in ["", "Authorization: Bearer 0123456789abcdef0123456789abcdef\r\n"] {
            let told = server.over_tcp(target, headers);
            let (head, body) = told.split_once("\r\n\r\n").expect("a head");
            assert!(head.starts_with("HTTP/1.1 401 ") && body.is_empty(), "{target}: {told}");
        }
    }
    let told = server.over_tcp("/health", &format!("Authorization: Bearer {}\r\n", token.trim()));
    assert!(told.starts_with("HTTP/1.1 200 ") && told.contains("\"healthy\":true"), "{told}");
    let ask = |more: &[&str]| weft(&[&["status", "--admin", &address], more].concat());
    fails(&ask(&[]), "wants its token (--token-file FILE)");
    let other = server.path("other");
    std::fs::write(&other, "0123456789abcdef0123456789abcdef").expect("a file");
    mode(Path::new(&other), 0o600);
    fails(&ask(&["--token-file", &other]), "has another token than");
    mode(Path::new(&other), 0o644);
    fails(&ask(&["--token-file", &other]), "others may read the token (mode 644)");
    succeeds(&ask(&["--token-file", &token_file]));
    let backup = server.path("backup");
    let with = ["--admin", &address, "--token-file", &token_file];
    fails(&weft(&["backup", &backup, "--admin", &address]), "wants its token");
    succeeds(&weft(&[&["backup", &backup][..], &with].concat()));
}

/// A thousand connections that say nothing, at either door, keep no administrator out, and cost the
/// server few open files.
#[test]
fn a_thousand_idle_connections_keep_nobody_out() {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum })
        .expect("open files");
    let server = Up::start("");
    let (socket, token) = (server.socket(), server.path("data/admin.token"));
    let (at, address) = (socket.to_str().expect("a plain path"), server.tcp().to_string());
    let before = server.open_files();
    let mut idle = Vec::new();
    for _ in 0..1000 {
        let stream = UnixStream::connect(&socket).expect("a connection");
        let over_tcp = TcpStream::connect(server.tcp()).expect("a connection");
        idle.push((stream, over_tcp));
    }
    succeeds(&weft(&["status", "--admin", at]));
    succeeds(&weft(&["status", "--admin", &address, "--token-file", &token]));
    let held = server.open_files().saturating_sub(before);
    assert!(held < 100, "{held} files for them");
    for (stream, over_tcp) in &mut idle {
        ends(stream);
        ends(over_tcp);
    }
}

/// What says nothing ends, and so does what never comes to the end of its head or its body; a body
/// that is too large is not read.
#[test]
fn dawdlers_end() {
    let server = Up::start("");
    let connect = || UnixStream::connect(server.socket()).expect("a connection");
    let post = "POST /threshold HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n";
    let half_a_body = format!("{post}Content-Length: 20\r\n\r\n{{");
    let mut dawdlers: Vec<UnixStream> = ["", "GET /status HTTP/1.1\r\nHost: l", &half_a_body]
        .map(|said| {
            let mut stream = connect();
            stream.write_all(said.as_bytes()).expect("a request");
            stream
        })
        .into();
    let mut large = connect();
    let request = format!("{post}Content-Length: 2000\r\n\r\n{}", "1".repeat(2000));
    large.write_all(request.as_bytes()).expect("a request");
    let mut told = String::new();
    large.read_to_string(&mut told).expect("an answer");
    assert!(told.starts_with("HTTP/1.1 400 ") && told.contains("length limit exceeded"), "{told}");
    let mut endless = connect();
    let line = format!("X: {}\r\n", "x".repeat(1000));
    let head = format!("GET /status HTTP/1.1\r\n{}", line.repeat(64));
    let _ = endless.write_all(head.as_bytes());
    let mut told = String::new();
    let _ = endless.read_to_string(&mut told);
    assert!(told.is_empty() || told.starts_with("HTTP/1.1 431 "), "{told}");
    dawdlers.iter_mut().for_each(ends);
}

/// Waits until the other end is closed without a word.
fn ends(stream: &mut (impl Read + Patient)) {
    stream.patience();
    match stream.read(&mut [0; 1]) {
        Ok(0) => {}
        Err(e) if e.kind() == std::io::ErrorKind::ConnectionReset => {}
        other => panic!("it goes on: {other:?}"),
    }
}

trait Patient {
    fn patience(&self);
}

impl Patient for UnixStream {
    fn patience(&self) {
        self.set_read_timeout(Some(PATIENCE)).expect("a time limit");
    }
}

impl Patient for TcpStream {
    fn patience(&self) {
        self.set_read_timeout(Some(PATIENCE)).expect("a time limit");
    }
}

/// The socket of a killed server is replaced; that of a live one is not, and too long a path is
/// named, each with words; nothing is left of who was refused.
#[test]
fn sockets_of_the_dead_and_the_living() {
    let mut server = Up::start("");
    let socket = server.socket();
    let at = socket.to_str().expect("a plain path").to_owned();
    let other = format!("admin_socket = \"{at}\"\n");
    std::fs::write(server.path("same"), &other).expect("a configuration");
    let start = |data: &str, more: &[&str]| up(server.dir.path(), data, more).output();
    let again = start("new", &["--config", "same"]).expect("weft starts");
    fails(&again, "another server is listening on it");
    assert!(!Path::new(&server.path("new")).exists());
    succeeds(&weft(&["status", "--admin", &at]));
    let deep = "x".repeat(100);
    fails(
        &start(&deep, &[]).expect("weft starts"),
        "that of a socket at most 107: choose a shorter one",
    );
    assert!(!Path::new(&server.path(&deep)).exists());
    server.process.kill().expect("kill");
    server.process.wait().expect("wait");
    assert!(socket.exists(), "nothing to replace");
    fails(&weft(&["status", "--admin", &at]), "is the metadata server running?");
    let again = up(server.dir.path(), "data", &[]).stdout(Stdio::null()).spawn();
    let mut again = again.expect("weft starts");
    let asked = support::until("the socket is served again", Duration::from_secs(60), || {
        let asked = weft(&["status", "--dir", &server.path("data")]);
        asked.status.success().then_some(asked)
    });
    again.kill().expect("kill");
    again.wait().expect("wait");
    succeeds(&asked);
}

/// A command finds the server by its configuration too.
#[test]
fn commands_find_the_server() {
    let server = Up::start("");
    let config = server.path("mds.toml");
    std::fs::write(&config, format!("admin_socket = {:?}\n", server.socket())).expect("a file");
    succeeds(&weft(&["status", "--config", &config]));
    succeeds(&weft(&["clients", "--config", &config]));
    std::os::unix::fs::symlink("data", server.path(".weft")).expect("a link");
    let mut here = Command::new(weft_binary());
    succeeds(&here.arg("status").current_dir(server.dir.path()).output().expect("weft starts"));
}
