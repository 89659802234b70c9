//! Small files through kill -9 of everything, at whatever stage: made, written, grown beyond the
//! metadata server (ADR 6), cut, replaced, renamed over, removed. After each kill `weft fsck` finds
//! nothing, every file is what was acknowledged or what was under way, and in the end no object is
//! left.

mod support;

use std::net::SocketAddr;
use std::time::Duration;

use support::changes::{
    CLIENTS, acknowledged, are_alike, begin_all, end, in_runtime, known, remove_all, replicate,
    verify,
};
use support::cluster::{Cluster, Options};

/// Kills of a test, unless WEFT_KILLS says otherwise.
const KILLS: u64 = 12;
/// Largest file: three times what stays with the metadata server.
const LARGEST: u64 = 192 << 10;
/// Time until the servers have removed what nobody needs.
const PATIENCE: Duration = Duration::from_secs(60);

#[test]
fn small_files_survive_kill_9_at_every_stage() {
    let mut cluster = survive("all on", "");
    // Nothing is left: no data server has an object.
    let objects = || support::cluster::files_below(&cluster.data_dir(), "objects");
    support::until("end of the objects", PATIENCE, || (objects() == 0).then_some(()));
    cluster.stop();
    cluster.is_clean();
}

/// Objects that are made with their files, and ahead of them: nothing is owned twice or by nobody.
#[test]
fn objects_made_early_survive_kill_9() {
    for creation in ["eager", "precreate"] {
        let off = "[small_files]\nstuffing_limit = \"0KiB\"\ngather = false\n";
        let pool = "[precreate]\nlow = 4\nbatch = 8\n";
        let config = format!("object_creation = \"{creation}\"\n{off}{pool}");
        let mut cluster = survive(creation, &config);
        cluster.stop();
        cluster.is_clean();
    }
}

/// Replicated files, large ones too: whichever copy is read.
#[test]
fn copies_survive_kill_9() {
    let off = "[small_files]\nstuffing_limit = \"0KiB\"\n";
    let mut cluster = survive("replicated", off);
    let objects = || support::cluster::files_below(&cluster.data_dir(), "objects");
    support::until("end of the objects", PATIENCE, || (objects() == 0).then_some(()));
    cluster.stop();
    cluster.is_clean();
}

fn survive(what: &str, config: &str) -> Cluster {
    let replicated = what == "replicated";
    let options = Options { lease_seconds: 2, grace_seconds: 1, ..Options::default() };
    let mut cluster = Cluster::configured(options, config);
    let known = known(LARGEST);
    let kills = std::env::var("WEFT_KILLS").map_or(KILLS, |k| k.parse().expect("a number"));
    let address = SocketAddr::from(([127, 0, 0, 1], cluster.port()));
    if replicated {
        in_runtime(replicate(address));
    }
    let mut copied = 0;
    for round in 0..kills {
        in_runtime(async {
            verify(address, &known).await;
            if replicated {
                copied += are_alike(&known, |path| cluster.admin_get(path));
                verify(address, &known).await;
            }
            let workers = begin_all(address, &known, round);
            tokio::time::sleep(Duration::from_millis(150 + round * 7919 % 400)).await;
            cluster.kill9();
            end(workers, || cluster.log()).await;
        });
        cluster.is_clean();
        cluster.start_again();
    }
    let done = acknowledged(&known);
    eprintln!("{what}: {kills} kills, {done} acknowledged changes");
    assert!(done > kills * CLIENTS, "hardly anything was done: {done}");
    assert!(!replicated || copied > 0, "no file has copies");
    remove_all(address, &known);
    cluster
}
