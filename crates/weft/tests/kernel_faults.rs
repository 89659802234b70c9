//! Servers that are killed, cut off, paused and full under the load of the newest Linux client:
//! it never sees an error but ENOSPC, what was acknowledged is there afterwards byte for byte, what
//! was removed stays removed, and `weft fsck` finds nothing.

mod support;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use support::guest::{Guest, Kernel};
use support::load::Load;
use support::servers::{CONTROL_WIRES, DATA_WIRES, Plan, Servers, ds};
use weft_client::error::ClientError;
use weft_client::{
    fs::{Client, ClientOptions, File, OpenOptions},
    io::IoPolicy,
};
use weft_nfs::ops::{LockArgs, Locker, PutfhArgs};
use weft_nfs::{ClientId, LockType, NfsStat, OpArgs, Opaque, StateOwner};

/// Kills of the metadata server, unless WEFT_KILLS says otherwise; each data server is killed once
/// for so many.
const KILLS: u32 = 8;
/// Kills from one comparison of everything to the next.
const COMPARE_EVERY: u32 = 4;
/// Longer than the lease of 10 s, and than what a server may take to notice its end.
const PAST_THE_LEASE: Duration = Duration::from_secs(14);
/// Within the lease.
const SHORT: Duration = Duration::from_secs(5);
/// What is left of a lease at least: Linux renews it after two thirds.
const WITHIN_THE_LEASE: Duration = Duration::from_secs(3);
/// What is left of a full disk, bytes.
const ROOM: usize = 2 << 20;
/// Time a guest gets for one step of its script, on a busy machine.
const STEP_SECONDS: u32 = 40;

fn load_on(plan: Plan, steps: u32) -> Option<(Guest, Load)> {
    let guest = Guest::new(Kernel::Uml, "load.sh")?.seconds(60 + STEP_SECONDS * steps);
    let servers = Servers::start(plan);
    let guest = match plan.wired {
        true => guest.behind(servers.network().namespace("client"), servers.mds_host()),
        false => guest,
    };
    Some((guest, Load::new(servers, plan.data_servers)))
}

fn kills() -> u32 {
    let text = std::env::var("WEFT_KILLS").unwrap_or_default();
    if text.is_empty() { KILLS } else { text.parse().expect("WEFT_KILLS: a number") }
}

/// The metadata server is killed at random moments; now and then the data servers with it, and
/// what all of them left is checked before they start again.
#[test]
fn the_metadata_server_is_killed_again_and_again() {
    let kills = kills();
    let Some((guest, mut load)) = load_on(Plan::default(), 2 * kills) else { return };
    let mut steps = Vec::new();
    for kill in 1..=kills {
        // Each third one comes before everybody has recovered from the one before, often in grace.
        if kill % 3 != 0 {
            steps.push("progress");
        }
        let compared = kill % COMPARE_EVERY == 0 || kill == kills;
        steps.push(if compared { "host:kill-all" } else { "host:kill" });
        if compared {
            steps.extend(["progress", "check"]);
        }
    }
    load.run(guest, &steps, |load, fault| {
        load.random_pause(Duration::from_millis(1500));
        match fault {
            "kill" => load.restart_mds(),
            "kill-all" => load.kill_all_and_fsck(),
            _ => panic!("no fault {fault}"),
        }
    });
}

/// Each data server is killed in turn and comes back within seconds.
#[test]
fn each_data_server_is_killed() {
    let plan = Plan::default();
    let rounds = kills().div_ceil(KILLS);
    let Some((guest, mut load)) = load_on(plan, 3 * rounds * plan.data_servers) else { return };
    let mut steps: Vec<String> = Vec::new();
    for _ in 0..rounds {
        for id in 1..=plan.data_servers {
            steps.extend(["progress".into(), format!("host:{}", ds(id))]);
        }
        steps.extend(["progress".into(), "check".into()]);
    }
    load.run(guest, &steps, |load, name| {
        load.random_pause(Duration::from_secs(1));
        load.servers.kill9(name);
        load.random_pause(Duration::from_secs(4));
        let id = name.strip_prefix("ds").and_then(|id| id.parse().ok());
        load.servers.start_ds(id.expect("a data server"));
    });
}

/// The wires between client and metadata server, client and one data server, metadata server and
/// one data server are pulled, for less than the lease and for more.
#[test]
fn a_wire_is_pulled() {
    let plan = Plan { wired: true, ..Plan::default() };
    let Some((guest, mut load)) = load_on(plan, 10) else { return };
    let steps = ["client-mds", "client-ds", "mds-ds"].map(|wire| {
        let cut = |time| format!("host:{wire}-{time}");
        ["progress".into(), cut("short"), "progress".into(), cut("long"), "progress".into()]
    });
    let steps = steps.into_iter().flat_map(|steps| steps.into_iter().chain(["check".into()]));
    load.run(guest, &steps.collect::<Vec<String>>(), |load, fault| {
        let (wire, time) = fault.rsplit_once('-').expect("two words");
        let (wires, machine) = match wire {
            "client-mds" => (DATA_WIRES, "mds"),
            "client-ds" => (DATA_WIRES, "ds2"),
            "mds-ds" => (CONTROL_WIRES, "ds3"),
            _ => panic!("no wire {wire}"),
        };
        load.servers.network().cut(wires, machine);
        std::thread::sleep(if time == "short" { SHORT } else { PAST_THE_LEASE });
        load.servers.network().mend(wires, machine);
    });
}

/// Two faults at a time: one of a data server or a wire, and within it the death of another server.
#[test]
fn faults_overlap() {
    let plan = Plan { wired: true, ..Plan::default() };
    let pairs =
        ["ds-dead", "ds-paused", "ds-unplugged", "control-cut", "data-cut", "mds-unplugged"];
    let rounds = kills().div_ceil(KILLS);
    let Some((guest, mut load)) = load_on(plan, 12 * rounds) else { return };
    let mut steps: Vec<String> = Vec::new();
    for round in 0..rounds {
        for (number, pair) in pairs.iter().enumerate() {
            let id = (round as usize + number) % 4 + 1;
            steps.extend(["progress".into(), format!("host:{pair}-{id}")]);
        }
        steps.extend(["progress".into(), "check".into()]);
    }
    load.run(guest, &steps, |load, fault| {
        let (pair, id) = fault.rsplit_once('-').expect("a data server");
        overlap(load, pair, id.parse().expect("a number"));
    });
}

fn overlap(load: &mut Load, pair: &str, id: u32) {
    let name = ds(id);
    load.random_pause(Duration::from_millis(500));
    match pair {
        "ds-dead" => {
            load.servers.kill9(&name);
            load.restart_mds();
            load.random_pause(Duration::from_secs(3));
            load.servers.start_ds(id);
        }
        "ds-paused" => {
            load.servers.pause(&name);
            load.restart_mds();
            load.random_pause(Duration::from_secs(3));
            load.servers.resume(&name);
        }
        "ds-unplugged" => cut_around(load, &[CONTROL_WIRES, DATA_WIRES], &name, Load::restart_mds),
        "control-cut" => cut_around(load, &[CONTROL_WIRES], &name, Load::restart_mds),
        "data-cut" => cut_around(load, &[DATA_WIRES], &name, Load::restart_mds),
        "mds-unplugged" => cut_around(load, &[DATA_WIRES], "mds", |load| {
            load.servers.kill9(&name);
            load.random_pause(Duration::from_secs(1));
            load.servers.start_ds(id);
        }),
        _ => panic!("no pair of faults {pair}"),
    }
}

fn cut_around(load: &mut Load, wires: &[u8], machine: &str, fault: impl FnOnce(&mut Load)) {
    wires.iter().for_each(|wires| load.servers.network().cut(*wires, machine));
    load.random_pause(Duration::from_secs(1));
    fault(load);
    load.random_pause(Duration::from_secs(3));
    wires.iter().for_each(|wires| load.servers.network().mend(*wires, machine));
}

/// The metadata server, and then a data server, stand still for longer than the lease.
#[test]
fn servers_stand_still_past_the_lease() {
    let Some((guest, mut load)) = load_on(Plan::default(), 6) else { return };
    let steps = ["progress", "host:mds", "progress", "check", "host:ds2", "progress", "check"];
    load.run(guest, &steps, |load, name| {
        load.servers.pause(name);
        std::thread::sleep(PAST_THE_LEASE);
        load.servers.resume(name);
    });
}

/// One data server's disk is full, then the metadata server's, and the server is killed so:
/// applications hear of it, nothing that was acknowledged is lost, and with room all goes on. A
/// data server that is full is passed over, so that nobody may hear of it again.
#[test]
fn disks_are_full() {
    let plan =
        Plan { mds_disk_mib: Some(256), ds_disk_mib: Some(256), wired: false, ..Plan::default() };
    let Some((guest, mut load)) = load_on(plan, 12) else { return };
    let steps = ["ds1", "mds"].map(|disk| {
        let host = |what| format!("host:{what}-{disk}");
        let again = if disk == "mds" { "nospace" } else { "progress" };
        let full = ["progress".into(), host("fill"), "nospace".into(), "check".into()];
        full.into_iter().chain([host("restart"), again.into(), "check".into(), host("free")])
    });
    let last = ["progress", "check"].map(String::from);
    let steps = steps.into_iter().flatten().chain(last).collect::<Vec<String>>();
    let mut filler = PathBuf::new();
    load.run(guest, &steps, |load, fault| {
        let (what, disk) = fault.split_once('-').expect("two words");
        match what {
            "fill" => filler = load.servers.fill(disk, ROOM),
            "restart" if disk == "mds" => load.restart_mds(),
            "restart" => {
                load.servers.kill9(disk);
                load.servers.start_ds(1);
            }
            _ => std::fs::remove_file(&filler).expect("the filler"),
        }
    });
}

/// When the metadata server is killed while the client stands still.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Restart {
    Never,
    /// Before another client wants the lock: grace passes without the first one.
    Before,
    /// After another client had the lock: the first one is there in grace, and may reclaim nothing
    /// (RFC 8881 §8.4.2.1).
    After,
}

/// Courtesy keeps the lock until another client wants it: within the lease that has to wait, after
/// it is granted.
#[test]
fn a_client_stands_still_past_its_lease() {
    stands_still(Restart::Never);
}

#[test]
fn a_client_stands_still_and_misses_the_grace() {
    stands_still(Restart::Before);
}

#[test]
fn a_client_stands_still_and_comes_back_in_grace() {
    stands_still(Restart::After);
}

/// The client itself stands still past its lease (a suspended machine), with locks, layouts, a
/// dirty page and a write under way, and another client takes the locks. The first client, going
/// on, gets EIO for what it does under the lost locks, and none of its old writes lands on the
/// bytes of the second one.
fn stands_still(restart: Restart) {
    let Some(guest) = Guest::new(Kernel::Uml, "frozen.sh") else { return };
    let mut servers = Servers::start(Plan::default());
    let freezer = guest.freezer();
    let guest = guest.program("locker").argument(servers.port());
    guest.run(&mut servers, |servers, words| match words {
        "freeze" => {
            let (guest, frozen) = (freezer.freeze(), Instant::now());
            if restart == Restart::Before {
                servers.restart_mds();
            }
            let runtime = tokio::runtime::Runtime::new().expect("a runtime");
            let address = ([127, 0, 0, 1], servers.port()).into();
            let had = runtime.block_on(take_over(address)).duration_since(frozen);
            eprintln!("the lock was had {had:?} after its holder stopped");
            assert!(had > WITHIN_THE_LEASE, "a lock was taken away within the lease");
            std::thread::sleep(PAST_THE_LEASE.saturating_sub(frozen.elapsed()));
            if restart == Restart::After {
                servers.restart_mds();
            }
            drop(guest);
            Ok(())
        }
        _ => Err("not a command of this test".to_owned()),
    });
    servers.kill9("mds");
    (1..=4).for_each(|id| servers.kill9(&ds(id)));
    servers.fsck();
}

/// Writes two files under their locks as soon as it can; when it had the first one.
async fn take_over(address: SocketAddr) -> Instant {
    let options = ClientOptions { policy: IoPolicy::direct(), ..ClientOptions::default() };
    let client = Client::connect(address, options).await.expect("connect");
    let writing = OpenOptions { write: true, ..OpenOptions::default() };
    let mut had = None;
    for name in ["/locked", "/busy"] {
        let file = client.open(name, writing).await.expect("open");
        let began = Instant::now();
        while let Err(refused) = lock(&client, &file).await {
            let status = refused.status();
            assert!([Some(NfsStat::DENIED), Some(NfsStat::GRACE)].contains(&status), "{refused}");
            assert!(began.elapsed() < 4 * PAST_THE_LEASE, "courtesy without end");
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        had.get_or_insert_with(Instant::now);
        file.write_at(0, b"of the other client\n".to_vec().into()).await.expect("write");
        file.close().await.expect("close");
    }
    client.close().await;
    had.expect("two files")
}

/// The lock of the first 100 bytes.
async fn lock(client: &Client, file: &File) -> Result<(), ClientError> {
    let owner = Opaque(b"the other one".to_vec().into());
    let locker = Locker::New {
        open_stateid: file.io().io_stateid(),
        lock_owner: StateOwner { clientid: ClientId(0), owner },
    };
    let lock =
        LockArgs { locktype: LockType::Write, reclaim: false, offset: 0, length: 100, locker };
    let object = file.io().fh().clone();
    let ops = vec![OpArgs::Putfh(PutfhArgs { object }), OpArgs::Lock(lock)];
    client.session().compound(ops).await.map(drop)
}
