//! Servers that are killed, cut off, paused and full under the load of the newest Linux client:
//! it never sees an error but ENOSPC, what was acknowledged is there afterwards byte for byte, what
//! was removed stays removed, and `weft fsck` finds nothing.

mod support;

use std::path::PathBuf;
use std::time::Duration;

use support::guest::{Guest, Kernel};
use support::load::Load;
use support::servers::{CONTROL_WIRES, DATA_WIRES, Plan, Servers, ds};

/// Kills of the metadata server, unless WEFT_KILLS says otherwise.
const KILLS: u32 = 8;
/// Kills from one comparison of everything to the next.
const COMPARE_EVERY: u32 = 4;
/// Longer than the lease of 10 s, and than what a server may take to notice its end.
const PAST_THE_LEASE: Duration = Duration::from_secs(14);
/// Within the lease.
const SHORT: Duration = Duration::from_secs(5);
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
    std::env::var("WEFT_KILLS").map_or(KILLS, |text| text.parse().expect("WEFT_KILLS: a number"))
}

/// The metadata server is killed at random moments; now and then the data servers with it, and
/// what all of them left is checked before they start again.
#[test]
fn the_metadata_server_is_killed_again_and_again() {
    let kills = kills();
    let Some((guest, mut load)) = load_on(Plan::default(), 2 * kills) else { return };
    let mut steps = Vec::new();
    for kill in 1..=kills {
        steps.push("progress");
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
    let Some((guest, mut load)) = load_on(plan, 3 * plan.data_servers) else { return };
    let mut steps: Vec<String> = Vec::new();
    for id in 1..=plan.data_servers {
        steps.extend(["progress".into(), format!("host:{}", ds(id))]);
    }
    steps.extend(["progress".into(), "check".into()]);
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
fn wires_are_pulled() {
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

/// One data server's disk is full, then the metadata server's: applications hear of it, nothing
/// that was acknowledged is lost, and with room all goes on.
#[test]
fn disks_are_full() {
    let plan =
        Plan { mds_disk_mib: Some(256), ds1_disk_mib: Some(256), wired: false, ..Plan::default() };
    let Some((guest, mut load)) = load_on(plan, 12) else { return };
    let steps = ["ds1", "mds"].map(|disk| {
        let host = |what| format!("host:{what}-{disk}");
        ["progress".into(), host("fill"), "nospace".into(), "check".into(), host("free")]
    });
    let last = ["progress", "check"].map(String::from);
    let steps = steps.into_iter().flatten().chain(last).collect::<Vec<String>>();
    let mut filler = PathBuf::new();
    load.run(guest, &steps, |load, fault| {
        let (what, disk) = fault.split_once('-').expect("two words");
        match what {
            "fill" => filler = load.servers.fill(disk, ROOM),
            _ => std::fs::remove_file(&filler).expect("the filler"),
        }
    });
}
