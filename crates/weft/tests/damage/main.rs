//! What data servers lose is found: random work on files of several widths and units, held against
//! a plain model of what each holds; then random damage to the objects below the data servers'
//! directories. `weft fsck`, and `weft check` of the cluster started on what is left, name exactly
//! the files that are damaged and the objects without a reason, and nothing else. Every byte that
//! is there reads as it was, every lost one is an error, directly and through the metadata server.
//! Then the objects are put back, nothing is found, and the work goes on in the same volume.
//!
//! What is not found is what docs/STATUS.md names: bytes changed without a change of length. Such
//! bytes come here with an object that another took the place of; they are told apart and not
//! looked at. A file whose fence is of an epoch that the volume does not know is found, but only by
//! `weft fsck`; who reads it is told of an error.
//!
//! A failure names its seed, the work and the acts. `WEFT_SEED` chooses the seed, and `WEFT_ROUNDS`
//! how many are tried from there on.

mod acts;
mod expected;
mod findings;
mod model;
mod reading;
#[path = "../support/mod.rs"]
mod support;
mod volume;
mod work;

use std::net::SocketAddr;
use std::time::Duration;

use acts::Damage;
use expected::Expected;
use model::Model;
use support::cluster::{Cluster, Options};
use tokio::runtime::Runtime;
use volume::Layout;
use weft_client::{
    fs::{Client, ClientOptions},
    io::IoPolicy,
};
use weft_dev::{SeededRng, env};
use work::Work;

const DATA_SERVERS: usize = 3;
/// Volumes, if not told otherwise.
const ROUNDS: u64 = 2;
/// Times that the objects of one volume are damaged, each after work under another configuration.
const DAMAGES: u64 = 3;
/// Steps of work before each.
const STEPS: u64 = 30;
/// Time for files to settle.
const PATIENCE: Duration = Duration::from_secs(60);

/// See the module.
#[test]
fn exactly_the_damaged_are_found() {
    let first = env("WEFT_SEED").unwrap_or(1);
    for seed in first..first + env("WEFT_ROUNDS").unwrap_or(ROUNDS) {
        Round::start(seed).run();
    }
}

/// One volume and what is known of it.
struct Round {
    random: SeededRng,
    engine: &'static str,
    cluster: Cluster,
    runtime: Runtime,
    model: Model,
    /// For whoever reads of a failure.
    told: Vec<String>,
}

impl Drop for Round {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.told.iter().for_each(|line| eprintln!("{line}"));
        }
    }
}

impl Round {
    fn start(seed: u64) -> Self {
        let mut random = SeededRng::new(seed);
        let options = Options {
            data_servers: DATA_SERVERS,
            lease_seconds: 2,
            grace_seconds: 1,
            ..Options::default()
        };
        let engine = random.choose(&["fjall", "redb"]).expect("engines");
        let cluster = Cluster::prepare(options, "");
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.expect("a runtime");
        let told = vec![format!("FAILED: WEFT_SEED={seed}")];
        Round { random, engine, cluster, runtime, model: Model::default(), told }
    }

    fn run(mut self) {
        for _ in 0..DAMAGES {
            let text = config(&mut self.random, self.engine);
            self.told.push(format!("configuration: {}", text.replace('\n', "; ")));
            self.cluster.configure(&text);
            self.cluster.start_again();
            self.work();
            self.cluster.stop();
            let layout = Layout::of(&self.cluster.data_dir(), &self.model);
            findings::fsck(&self.cluster).are(&Expected::default(), "before the damage");
            let damage = Damage::new(&layout, &mut self.random);
            self.told.extend(damage.told.iter().cloned());
            let expected = Expected::of(&layout, &self.model, &damage);
            findings::fsck(&self.cluster).are(&expected, "fsck");
            self.cluster.start_again();
            findings::check(&self.cluster).are(&expected.online(&damage), "check");
            self.read(&expected);
            findings::check(&self.cluster).are(&expected.online(&damage), "check after reading");
            self.cluster.stop();
            findings::fsck(&self.cluster).are(&expected, "fsck after reading");
            damage.undo();
            findings::fsck(&self.cluster).are(&Expected::default(), "all put back");
        }
    }

    fn server(&self) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], self.cluster.port()))
    }

    /// Random work, until nothing is open and every file is settled.
    fn work(&mut self) {
        let server = self.server();
        let (model, random, told) = (&mut self.model, &mut self.random, &mut self.told);
        self.runtime.block_on(async {
            let clients = [connect(server, true).await, connect(server, false).await];
            let mut work = Work { clients: &clients, model, random, told };
            for _ in 0..STEPS {
                work.step().await;
            }
            work.settle().await;
            for client in clients {
                client.close().await;
            }
        });
    }

    /// Everything that is there, straight from the data servers and through the metadata server.
    fn read(&mut self, expected: &Expected) {
        let (server, model) = (self.server(), &self.model);
        self.runtime.block_on(async {
            for layouts in [true, false] {
                let client = connect(server, layouts).await;
                reading::all(&client, model, expected).await;
                client.close().await;
            }
        });
    }
}

/// A client that goes to the data servers, or one that sends everything to the metadata server.
async fn connect(server: SocketAddr, layouts: bool) -> Client {
    let policy = IoPolicy::direct();
    let options = ClientOptions { layouts, policy, ..ClientOptions::default() };
    Client::connect(server, options).await.expect("connect")
}

/// How new files are placed and kept from now on. A volume keeps its engine.
fn config(random: &mut SeededRng, engine: &str) -> String {
    let unit = random.choose(&["1MiB", "2MiB"]).expect("units");
    let width = 1 + random.index(DATA_SERVERS);
    let creation = random.choose(&["implicit", "eager", "precreate"]).expect("creation");
    let limit = random.choose(&["0", "\"64KiB\""]).expect("limits");
    format!(
        "engine = \"{engine}\"\nstripe_unit = \"{unit}\"\nstripe_width = {width}\n\
         object_creation = \"{creation}\"\n[precreate]\nlow = 4\nbatch = 8\n\
         [small_files]\nstuffing_limit = {limit}\n"
    )
}
