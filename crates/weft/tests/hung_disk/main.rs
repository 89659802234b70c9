//! A data server whose disk hangs for seconds: whoever needs nothing of the disk is answered, the
//! metadata server does not take it for dead, and what hung is done when the disk goes on. All
//! with a single thread that serves connections.

mod gate;
#[path = "../support/mod.rs"]
mod support;

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use gate::Gate;
use support::cluster::{Cluster, Options, Starting};
use support::servers::{Plan, Servers, With, ds};
use tokio::{runtime::Runtime, time::timeout};
use weft_client::{
    fs::{Client, ClientOptions, File, OpenOptions},
    io::IoPolicy,
};

const BYTES: usize = 1 << 20;
/// Time for what must not wait for a disk, on a busy machine.
const UNDISTURBED: Duration = Duration::from_secs(10);
/// Longer than an end takes that waits for nothing, and shorter than a server waits for its disk.
const AT_ONCE: Duration = Duration::from_secs(5);
/// The metadata server has pinged, and given up a data server without an answer, several times.
const PING_ROUNDS: Duration = Duration::from_secs(12);
/// The data server.
const ID: u32 = 1;

/// A small write that is not even to be durable waits for room in the page cache.
#[test]
fn a_write_that_hangs_holds_up_nobody_else() {
    let hung = Hung::start();
    let (_client, file) = hung.written("/written");
    hung.gate.close("write");
    let writing = hung.runtime.spawn(async move { (file.write_at(0, data(2)).await, file) });
    hung.gate.until_waiting("write", "/objects/");
    hung.is_answering();
    hung.gate.open("write");
    let (written, file) = hung.runtime.block_on(writing).expect("the writer");
    written.expect("write");
    hung.runtime.block_on(file.close()).expect("close");
    hung.servers.verify("/written", 2, BYTES);
}

/// The first write to a file makes its object, and the directories of that.
#[test]
fn an_object_that_is_made_holds_up_nobody_else() {
    let hung = Hung::start();
    let client = hung.client();
    hung.gate.close("create");
    let options = OpenOptions::replace(0o644);
    let file = hung.runtime.block_on(client.open("/made", options)).expect("open");
    let writing = hung.runtime.spawn(async move { (file.write_at(0, data(3)).await, file) });
    hung.gate.until_waiting("create", "/objects/");
    hung.is_answering();
    hung.gate.open("create");
    let (written, file) = hung.runtime.block_on(writing).expect("the writer");
    written.expect("write");
    hung.runtime.block_on(file.close()).expect("close");
    hung.servers.verify("/made", 3, BYTES);
}

/// The fence of an object that is removed goes to the log of all fences.
#[test]
fn a_fence_that_hangs_holds_up_nobody_else() {
    let hung = Hung::start();
    let (_client, file) = hung.written("/removed");
    hung.runtime.block_on(file.close()).expect("close");
    hung.gate.close("write");
    hung.servers.weft_ok(&["rm", "/removed"]);
    hung.gate.until_waiting("write", "/fences.log");
    hung.is_answering();
    hung.gate.open("write");
    support::until("removal of the object", UNDISTURBED, || {
        (hung.servers.objects(ID).0 == 1).then_some(())
    });
}

/// All servers in one process, whose disk hangs at each sync.
struct HungUp {
    cluster: Cluster,
    gate: Gate,
    _beside: tempfile::TempDir,
}

impl HungUp {
    fn prepare() -> Self {
        let beside = tempfile::tempdir().expect("a folder");
        let gate = Gate::new(beside.path().join("gate"));
        let options = Options { data_servers: 1, ..Options::default() };
        Self { cluster: Cluster::prepare(options, ""), gate, _beside: beside }
    }

    fn spawn(&mut self) -> Starting {
        self.cluster.spawn(&self.gate.environment(&self.cluster.data_dir()))
    }

    fn signal(&self) {
        let sent = support::run("kill", &["-TERM", &self.cluster.pid().to_string()]);
        assert!(sent.status.success(), "kill: {}", support::words(&sent));
    }

    /// Waits for the end, which must come at once.
    fn ends(&mut self) {
        let asked = Instant::now();
        self.cluster.ended();
        assert!(asked.elapsed() < AT_ONCE, "it ended after {:?}", asked.elapsed());
    }
}

/// A server that is asked to stop waits for its last change to be durable, and at the second
/// signal no longer.
#[test]
fn a_second_signal_ends_a_server() {
    let mut up = HungUp::prepare();
    let starting = up.spawn();
    up.cluster.serves(&starting);
    up.gate.close("sync");
    let mut mkdir = std::process::Command::new(support::weft_binary())
        .args(["mkdir", "/d", "--server", &format!("127.0.0.1:{}", up.cluster.port())])
        .spawn()
        .expect("weft starts");
    up.gate.until_waiting("sync", "/volume/");
    up.signal();
    std::thread::sleep(Duration::from_secs(1));
    up.signal();
    up.ends();
    mkdir.kill().expect("kill");
    mkdir.wait().expect("its end");
}

/// A server that has not finished to start ends at the first signal.
#[test]
fn a_signal_ends_a_server_that_starts() {
    let mut up = HungUp::prepare();
    let starting = up.spawn();
    up.cluster.serves(&starting);
    up.cluster.stop();
    up.gate.close("sync");
    let _starting = up.spawn();
    up.gate.until_waiting("sync", "/");
    up.signal();
    up.ends();
}

/// A cluster of one data server with a disk that can hang, and who reads from it.
struct Hung {
    servers: Servers,
    gate: Gate,
    runtime: Runtime,
    /// A file that is in memory, and its reader, on a connection of its own.
    reader: (Client, File),
}

impl Hung {
    fn start() -> Self {
        let plan = Plan { data_servers: ID, stripe_width: 1, ..Plan::default() };
        let mut servers = Servers::prepare(plan);
        let gate = Gate::new(servers.path("gate"));
        let environment = gate.environment(&servers.data_dir(&ds(ID)));
        let config = "threads = 1\n";
        let with = With { environment: &environment, config, ..With::default() };
        servers.start_ds_with(ID, with);
        servers.start_mds();
        servers.until_reachable(ID);
        let source = servers.source(1, BYTES);
        servers.weft_ok(&["put", &source, "/read"]);
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
        let runtime = runtime.expect("a runtime");
        let reader = runtime.block_on(async {
            let client = connect(&servers).await;
            let file = client.open("/read", OpenOptions::read()).await.expect("open");
            assert_eq!(file.read_at(0, BYTES).await.expect("read"), data(1));
            (client, file)
        });
        Self { servers, gate, runtime, reader }
    }

    fn client(&self) -> Client {
        self.runtime.block_on(connect(&self.servers))
    }

    /// A file that was written once, and is open.
    fn written(&self, path: &str) -> (Client, File) {
        let client = self.client();
        let file = self.runtime.block_on(async {
            let file = client.open(path, OpenOptions::replace(0o644)).await.expect("open");
            file.write_at(0, data(9)).await.expect("write");
            file.commit().await.expect("commit");
            file
        });
        (client, file)
    }

    /// The data server answers others, and the metadata server does not lose it.
    fn is_answering(&self) {
        let began = Instant::now();
        while began.elapsed() < PING_ROUNDS {
            let before = self.bytes_read();
            let read = async { timeout(UNDISTURBED, self.reader.1.read_at(0, BYTES)).await };
            let read = self.runtime.block_on(read);
            let read = read.expect("a READ of another file waits for the disk").expect("read");
            assert_eq!(read, data(1));
            // It was the data server that answered, not the metadata server in its place.
            assert_eq!(self.bytes_read() - before, BYTES as u64);
        }
        let health = self.servers.admin_get("/health");
        assert!(health.starts_with("HTTP/1.1 200") && !health.contains("away"), "{health}");
        let log = self.servers.logs_of("mds");
        assert!(!log.contains("data server lost"), "it was taken for dead{}", self.servers.logs());
    }

    /// Bytes that clients read of the data server, as it says over the control channel.
    fn bytes_read(&self) -> u64 {
        let said = self.servers.weft_ok(&["status", "--json"]);
        let status: serde_json::Value = serde_json::from_str(&said).expect("a status");
        let servers = status["servers"].as_array().expect("servers");
        let server = servers.iter().find(|s| s["id"] == ID).expect("the data server");
        assert_eq!(server["reachable"], true, "the control channel waits for the disk: {server}");
        server["bytes_out"].as_u64().expect("a number")
    }
}

fn data(seed: u64) -> bytes::Bytes {
    support::pattern(seed, BYTES).into()
}

async fn connect(servers: &Servers) -> Client {
    let address = SocketAddr::from(([127, 0, 0, 1], servers.port()));
    let options = ClientOptions { policy: IoPolicy::direct(), ..ClientOptions::default() };
    Client::connect(address, options).await.expect("connect")
}
