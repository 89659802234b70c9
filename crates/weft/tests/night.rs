//! What a tired administrator does at night: two servers on one directory or on copies of it,
//! directories that are swapped, half copied or read-only, a clock that is a year behind, and
//! `kill -9` in the middle of a first start, an adoption, a backup. Each ends in an error that
//! names the thing, and when the act is undone the cluster is as it was.
//!
//! `WEFT_KILLS` says how many kills each of these gets, `WEFT_SEED` where chance begins.

mod support;
#[allow(dead_code, reason = "syncs are left out elsewhere")]
#[path = "power_cuts/syncs.rs"]
mod syncs;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use support::disk::{Disk, Kind};
use support::servers::{Plan, Servers, With, ds};
use support::{is_stopped, until, words};
use syncs::Syncs;
use weft_dev::SeededRng;

const PAIR: Plan = Plan {
    data_servers: 2,
    stripe_width: 2,
    flexfiles: false,
    mds_disk_mib: None,
    ds_disk_mib: None,
    wired: false,
};
const FILE: usize = 2_000_000;
const PATIENCE: Duration = Duration::from_secs(60);
const NAMES: [&str; 3] = ["mds", "ds1", "ds2"];

fn text(path: &Path) -> &str {
    path.to_str().expect("a plain path")
}

/// Runs a host program that must succeed.
fn host(program: &str, arguments: &[&str]) {
    let done = support::run(program, arguments);
    assert!(done.status.success(), "{program} {arguments:?}: {}", words(&done));
}

fn copy(from: &Path, to: &Path) {
    host("cp", &["-a", text(from), text(to)]);
}

/// `weft` with these arguments, ended if it serves after all.
fn weft(arguments: &[&str]) -> Output {
    let mut command = Command::new("timeout");
    command.arg("20").arg(support::weft_binary()).args(arguments);
    command.output().expect("weft starts")
}

/// The same, which must fail by itself; what it said.
fn fails(arguments: &[&str]) -> String {
    let output = weft(arguments);
    assert!(matches!(output.status.code(), Some(1 | 2)), "{arguments:?}: {}", words(&output));
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Starting the server with the configuration it last had must fail; what it said.
fn does_not_start(servers: &Servers, name: &str) -> String {
    let role = if name == "mds" { "mds" } else { "ds" };
    let config = servers.path(&format!("{name}.toml"));
    let said = fails(&[role, "--config", text(&config)]);
    let dir = servers.data_dir(name);
    assert!(said.contains(text(&dir)), "{name} does not name its directory: {said}");
    said
}

fn put(servers: &Servers, remote: &str, seed: u64) {
    servers.weft_ok(&["put", &servers.source(seed, FILE), remote]);
}

/// All servers on what they have; everything is as it should be.
fn starts(servers: &mut Servers, files: &[(&str, u64)]) {
    for id in [1, 2] {
        servers.start_ds(id);
    }
    servers.start_mds();
    works(servers, files);
}

fn works(servers: &Servers, files: &[(&str, u64)]) {
    servers.until_reachable(2);
    for (name, seed) in files {
        servers.verify(name, *seed, FILE);
    }
    put(servers, "/another", 77);
    servers.verify("/another", 77, FILE);
    servers.weft_ok(&["rm", "/another"]);
}

fn kill_all(servers: &mut Servers) {
    for name in NAMES {
        servers.kill9(name);
    }
}

/// A configuration like that of a running server, with other ports of the system's choice and with
/// what is to be replaced.
fn elsewhere(servers: &Servers, name: &str, replace: &[(&str, &str)]) -> PathBuf {
    let old = std::fs::read_to_string(servers.path(&format!("{name}.toml"))).expect("its config");
    let mut new = String::new();
    for line in old.lines() {
        let mut line = match line.split_once(" = ") {
            Some((key @ "listen", _)) => format!("{key} = \"127.0.0.1:0\""),
            Some((key @ "admin_socket", _)) => format!("{key} = {:?}", servers.path("other.sock")),
            _ => line.to_owned(),
        };
        for (from, to) in replace {
            line = line.replace(from, to);
        }
        new += &(line + "\n");
    }
    let path = servers.path("elsewhere.toml");
    std::fs::write(&path, new).expect("a configuration");
    path
}

/// A second server on a directory that is in use ends with words, on the same port or another; the
/// first takes no notice.
#[test]
fn a_directory_has_one_server() {
    let servers = Servers::start(PAIR);
    put(&servers, "/old", 1);
    for (role, name) in [("mds", "mds"), ("ds", "ds1")] {
        let config = servers.path(&format!("{name}.toml"));
        let said = fails(&[role, "--config", text(&config)]);
        assert!(said.contains("another server is using it"), "{said}");
        let said = fails(&[role, "--config", text(&elsewhere(&servers, name, &[]))]);
        let dir = servers.data_dir(name);
        assert!(said.contains(text(&dir)) && said.contains("another process"), "{said}");
    }
    works(&servers, &[("/old", 1)]);
}

/// The directories of two data servers are swapped: both are refused, by name; swapped back, they
/// are as they were.
#[test]
fn swapped_data_servers_are_refused() {
    let mut servers = Servers::start(PAIR);
    put(&servers, "/old", 1);
    kill_all(&mut servers);
    let swap = |servers: &Servers| {
        let [one, two, aside] = ["ds1", "ds2", "aside"].map(|name| servers.data_dir(name));
        for (from, to) in [(&one, &aside), (&two, &one), (&aside, &two)] {
            std::fs::rename(from, to).expect("swapped");
        }
    };
    swap(&servers);
    for id in [1, 2] {
        servers.start_ds(id);
    }
    servers.start_mds();
    until("both refused", PATIENCE, || {
        let status = servers.status();
        let why = |id| status.get(&id).filter(|(up, _)| !up).map_or("", |(_, why)| why);
        let refused = |id| why(id).contains("its directory") && why(id).contains("put that");
        (refused(1) && refused(2)).then_some(())
    });
    kill_all(&mut servers);
    swap(&servers);
    starts(&mut servers, &[("/old", 1)]);
}

/// A directory of which a part was not copied is refused by name; with the whole one in its place
/// all is as it was.
#[test]
fn half_a_directory_is_refused() {
    let mut servers = Servers::start(PAIR);
    put(&servers, "/old", 1);
    kill_all(&mut servers);
    let parts = [
        ("ds1", "identity", "there are objects but no identity. Was it copied as a whole?"),
        ("ds1", "volumes", "the file `volumes` is missing. Was it copied as a whole?"),
        ("ds1", "fences.log", "the fence log is missing. Was it copied as a whole?"),
        ("ds1", "objects", "the directory `objects` is missing. Was it copied as a whole?"),
        ("mds", "volume", "there is no volume here"),
        ("mds", "volume/fjall", "there is no volume here"),
        ("mds", "volume/fjall/keyspaces", "acknowledged data is missing"),
        ("mds", "volume/fjall/0.jnl", "acknowledged data is missing"),
    ];
    let [whole, aside] = ["whole", "aside"].map(|name| servers.path(name));
    for (name, part, why) in parts {
        let dir = servers.data_dir(name);
        copy(&dir, &whole);
        std::fs::rename(dir.join(part), &aside).expect("aside");
        let said = does_not_start(&servers, name);
        assert!(said.contains(why), "{name} without {part}: {said}");
        // The engine's own files it makes itself, before what is missing is noticed.
        let is_the_engines = part.starts_with("volume/fjall/");
        assert!(is_the_engines || !dir.join(part).exists(), "{name}: {part} was made");
        host("rm", &["-rf", text(&dir), text(&aside)]);
        std::fs::rename(&whole, &dir).expect("the whole one");
    }
    starts(&mut servers, &[("/old", 1)]);
}

/// Directories on disks that are mounted read-only: neither server starts, in words; mounted for
/// writing they do, and say that a tmpfs keeps nothing.
#[test]
fn a_read_only_disk_is_named() {
    let plan = Plan { mds_disk_mib: Some(256), ds_disk_mib: Some(256), ..PAIR };
    let mut servers = Servers::start(plan);
    put(&servers, "/old", 1);
    for name in ["mds", "ds1"] {
        assert!(servers.logs_of(name).contains("it is a tmpfs"), "{}", servers.logs());
    }
    kill_all(&mut servers);
    let remount = |servers: &Servers, how: &str| {
        for name in ["mds", "ds1"] {
            host("mount", &["-o", &format!("remount,{how}"), text(&servers.data_dir(name))]);
        }
    };
    remount(&servers, "ro");
    for name in ["mds", "ds1"] {
        let said = does_not_start(&servers, name);
        assert!(said.contains("its disk is mounted read-only"), "{said}");
    }
    remount(&servers, "rw");
    starts(&mut servers, &[("/old", 1)]);
}

/// The disk of a data server fails, and is read-only from then on, while it serves: new files go to
/// the others, its own are read, it is named, and repaired it is as it was.
#[test]
fn a_data_servers_disk_fails() {
    let (disk, other) = (Disk::new(Kind::Ext4, 256), Disk::new(Kind::Ext4, 256));
    let mut servers = Servers::prepare(PAIR);
    for (name, disk) in [("ds1", &disk), ("ds2", &other)] {
        std::os::unix::fs::symlink(disk.at(), servers.data_dir(name)).expect("a link");
    }
    starts(&mut servers, &[]);
    put(&servers, "/old", 1);
    disk.fail();
    let source = servers.source(2, FILE);
    until("a new file", Duration::from_secs(15), || {
        servers.weft(&["put", &source, "/new"]).status.success().then_some(())
    });
    servers.verify("/new", 2, FILE);
    servers.verify("/old", 1, FILE);
    let health = servers.admin_get("/health");
    assert!(health.contains("data server 1 takes no data"), "{health}");
    let log = servers.logs_of("ds1");
    assert!(log.contains("the disk has become read-only"), "{log}");
    servers.kill9("ds1");
    disk.repair();
    servers.start_ds(1);
    works(&servers, &[("/old", 1), ("/new", 2)]);
}

/// The volume of a metadata server was copied while it was down, and both are started at the same
/// time: each data server has the one that came first, the other says so; when one of them is given
/// up, the rest is as it was, and nothing of the two is mixed.
#[test]
fn two_copies_of_a_volume_do_not_mix() {
    let mut servers = Servers::start(PAIR);
    put(&servers, "/old", 1);
    servers.kill9("mds");
    copy(&servers.data_dir("mds"), &servers.data_dir("copy"));
    let config = elsewhere(&servers, "mds", &[("mds.data", "copy.data")]);
    let port = servers.port();
    let (nfs, admin) = (format!("127.0.0.1:{}", port + 10), servers.path("other.sock"));
    let told = std::fs::read_to_string(&config).expect("a configuration");
    let told = told.replacen("127.0.0.1:0", &nfs, 1);
    std::fs::write(&config, told).expect("a configuration");
    // Each meets one data server first.
    servers.kill9("ds2");
    servers.start_mds();
    until("the first data server", PATIENCE, || reached(&servers.status()).eq(&[1]).then_some(()));
    servers.pause("mds");
    servers.start_ds(2);
    let log = std::fs::File::create(servers.path("copy.log")).expect("a log");
    let mut second = Command::new(support::weft_binary());
    second.args(["mds", "--config", text(&config)]).stderr(log).stdout(std::process::Stdio::null());
    let mut second = second.spawn().expect("weft starts");
    let said = |words: &str| {
        let said = std::fs::read_to_string(servers.path("copy.log")).expect("its log");
        said.contains(words).then_some(())
    };
    until("the second of the other", PATIENCE, || {
        let asked = Command::new("timeout")
            .args(["5", text(&support::weft_binary()), "status", "--json", "--admin", text(&admin)])
            .output()
            .expect("weft starts");
        let status = serde_json::from_slice(&asked.stdout).ok()?;
        reached(&support::servers::reachable(&status)).eq(&[2]).then_some(())
    });
    servers.resume("mds");
    let refused = "our volume, ";
    until("a refusal of the copy", PATIENCE, || said(refused));
    let why = until("a refusal of the first", PATIENCE, || {
        let status = servers.status();
        let (up, why) = status.get(&2)?;
        (!up && why.contains(refused)).then(|| why.clone())
    });
    assert!(why.contains("stop one of them") || why.contains("--adopt"), "{why}");
    until("the first alone on its data server", PATIENCE, || {
        reached(&servers.status()).eq(&[1]).then_some(())
    });
    put(&servers, "/first", 3);
    second.kill().expect("kill");
    second.wait().expect("wait");
    let volume = until("words about what to do", PATIENCE, || {
        let status = servers.status();
        Some(status.get(&2)?.1.split("--adopt ").nth(1)?.get(..32)?.to_owned())
    });
    servers.kill9("ds2");
    servers.start_ds_adopting(2, &volume);
    works(&servers, &[("/old", 1), ("/first", 3)]);
}

fn reached(status: &std::collections::BTreeMap<u64, (bool, String)>) -> Vec<u64> {
    status.iter().filter(|(id, (up, _))| **id > 0 && *up).map(|(id, _)| *id).collect()
}

/// The clock on the wall is a year behind after a restart, and right again after another: files are
/// what they were, and can be replaced and changed; nobody waits for a year.
#[test]
fn a_clock_that_is_a_year_behind() {
    const YEAR: i64 = 365 * 24 * 3600;
    let library = Path::new(env!("CARGO_TARGET_TMPDIR")).join("clock.so");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/clock.c");
    let build = ["-Wall", "-Werror", "-O2", "-shared", "-fPIC", "-o", text(&library), source];
    host("cc", &build);
    let behind: [(&str, OsString); 2] =
        [("LD_PRELOAD", library.into()), ("WEFT_CLOCK_SHIFT_S", (-YEAR).to_string().into())];
    let mut servers = Servers::start(PAIR);
    for (name, seed) in [("/old", 1), ("/replaced", 2), ("/changed", 3)] {
        put(&servers, name, seed);
    }
    let before = servers.stat("/old");
    kill_all(&mut servers);
    for id in [1, 2] {
        servers.start_ds_with(id, With { environment: &behind, ..With::default() });
    }
    servers.start_mds_with(With { environment: &behind, ..With::default() });
    works(&servers, &[("/old", 1), ("/replaced", 2), ("/changed", 3)]);
    assert_eq!(servers.stat("/old")["modified"], before["modified"]);
    put(&servers, "/replaced", 4);
    servers.weft_ok(&["put", "--in-place", &servers.source(5, FILE), "/changed"]);
    put(&servers, "/new", 6);
    servers.weft_ok(&["mkdir", "/made-then"]);
    let year = |of: &serde_json::Value| of["modified"].to_string();
    let (then, now) = (servers.stat("/made-then"), servers.stat("/old"));
    assert!(year(&then) < year(&now), "the clock is right: {then} {now}");
    kill_all(&mut servers);
    starts(&mut servers, &[("/old", 1), ("/replaced", 4), ("/changed", 5), ("/new", 6)]);
    kill_all(&mut servers);
    servers.fsck();
}

/// Kills for each of the steps below, unless WEFT_KILLS says otherwise: one by chance out of each
/// of as many parts of all syncs; all there are, if it says more.
const KILLS: u64 = 3;

/// The syncs before which something is killed, of so many.
fn chosen(all: u64) -> Vec<u64> {
    let said = |name: &str| std::env::var(name).ok().map(|n| n.parse::<u64>().expect("a number"));
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("a clock");
    let seed = said("WEFT_SEED").unwrap_or(now.as_millis() as u64);
    let mut random = SeededRng::new(seed);
    let kills = said("WEFT_KILLS").unwrap_or(KILLS).min(all);
    let parts = (0..kills).map(|part| (part * all / kills, (part + 1) * all / kills));
    let chosen = parts.map(|(from, to)| from + random.below(to - from) + 1).collect();
    eprintln!("WEFT_SEED={seed}: before the syncs {chosen:?} of {all}");
    chosen
}

/// Puts back the directories that were kept.
fn put_back(servers: &Servers, kept: &Path) {
    for name in NAMES {
        let (from, to) = (kept.join(name), servers.data_dir(name));
        host("rm", &["-rf", text(&to)]);
        if from.exists() {
            copy(&from, &to);
        }
    }
}

/// Keeps the directories as they are now.
fn keep(servers: &Servers) -> PathBuf {
    let kept = servers.path("kept");
    std::fs::create_dir(&kept).expect("a folder");
    for name in NAMES {
        let from = servers.data_dir(name);
        if from.exists() {
            copy(&from, &kept.join(name));
        }
    }
    kept
}

/// Starts all servers, one of them in this environment, and the data servers with these arguments.
fn start_all(
    servers: &mut Servers,
    victim: &str,
    environment: &[(&'static str, OsString)],
    arguments: &[&str],
) {
    let of = |name: &str| if name == victim { environment } else { &[] };
    for id in [1, 2] {
        servers.start_ds_with(id, With { arguments, environment: of(&ds(id)), ..With::default() });
    }
    servers.start_mds_with(With { environment: of("mds"), ..With::default() });
}

/// From the directories as they are, one server is killed before each of its syncs until all have
/// met, in turn; each time they start afterwards, and `check` is content.
fn killed_while_they_meet(
    servers: &mut Servers,
    victim: &str,
    arguments: &[&str],
    check: impl Fn(&mut Servers),
) {
    let (kept, log) = (servers.path("kept"), servers.path("syncs"));
    put_back(servers, &kept);
    let _ = std::fs::remove_file(&log); // there is none at first
    let syncs = Syncs::logged(log.clone());
    start_all(servers, victim, &syncs.environment(), arguments);
    servers.until_reachable(2);
    kill_all(servers);
    for number in chosen(syncs.seen().len() as u64) {
        put_back(servers, &kept);
        let served = [1, 2].map(|id| (ds(id), servers.served(&ds(id))));
        let stopped = Syncs::logged(log.clone()).stopped_before(number as usize);
        start_all(servers, victim, &stopped.environment(), arguments);
        // Who does not adopt again has begun to.
        for (name, before) in served.iter().filter(|(name, _)| name != victim) {
            let serves = || (servers.served(name) > *before).then_some(());
            until("a data server that serves", PATIENCE, serves);
        }
        // What is synced at once with others varies: the last ones may not come.
        let long = Instant::now() + Duration::from_secs(3);
        until("stop before a sync", PATIENCE, || {
            (is_stopped(servers.pid(victim)) || Instant::now() > long).then_some(())
        });
        kill_all(servers);
        // Whoever was told to adopt, and was killed, is told so again.
        let again = |name: &str| if name == victim { arguments } else { &[] };
        for id in [1, 2] {
            servers.start_ds_with(id, With { arguments: again(&ds(id)), ..With::default() });
        }
        servers.start_mds();
        eprintln!("{victim}, before sync {number}");
        check(servers);
        kill_all(servers);
    }
}

/// The first meeting of a new volume and new data servers, of which one is killed at any step.
#[test]
fn a_first_meeting_is_killed() {
    let mut servers = Servers::prepare(PAIR);
    keep(&servers);
    for victim in ["mds", "ds1"] {
        killed_while_they_meet(&mut servers, victim, &[], |servers| {
            works(servers, &[]);
            put(servers, "/new", 9);
        });
        servers.fsck();
    }
}

/// An older copy of the volume is adopted, and a server is killed at any step of that.
#[test]
fn an_adoption_is_killed() {
    let mut servers = Servers::start(PAIR);
    put(&servers, "/before", 1);
    kill_all(&mut servers);
    copy(&servers.data_dir("mds"), &servers.path("older"));
    starts(&mut servers, &[("/before", 1)]);
    put(&servers, "/after", 2);
    kill_all(&mut servers);
    host("rm", &["-rf", text(&servers.data_dir("mds"))]);
    std::fs::rename(servers.path("older"), servers.data_dir("mds")).expect("in its place");
    keep(&servers);
    start_all(&mut servers, "", &[], &[]);
    let volume = until("a refusal", PATIENCE, || {
        let status = servers.status();
        Some(status.get(&1)?.1.split("--adopt ").nth(1)?.get(..32)?.to_owned())
    });
    kill_all(&mut servers);
    for victim in ["mds", "ds1"] {
        killed_while_they_meet(&mut servers, victim, &["--adopt", &volume], |servers| {
            works(servers, &[("/before", 1)]);
            servers.weft_fails(&["get", "/after", "/dev/null"]);
        });
    }
}

/// Runs `weft` to its end, or kills it before this sync; the syncs so far.
fn run_killed(arguments: &[&str], log: &Path, number: Option<u64>) -> u64 {
    let _ = std::fs::remove_file(log); // there is none at first
    let mut syncs = Syncs::logged(log.to_owned());
    if let Some(number) = number {
        syncs = syncs.stopped_before(number as usize);
    }
    let mut command = Command::new(support::weft_binary());
    command.args(arguments).envs(syncs.environment()).stdout(std::process::Stdio::null());
    let mut child = command.spawn().expect("weft starts");
    if number.is_some() {
        until("stop before a sync", PATIENCE, || is_stopped(child.id()).then_some(()));
        child.kill().expect("kill");
    }
    let status = child.wait().expect("wait");
    assert_eq!(status.success(), number.is_none(), "{arguments:?}: {status}");
    syncs.seen().len() as u64
}

/// `weft init`, `weft backup` and `weft restore` are killed at any step: what has its name is
/// whole, and the same command again makes it, or says that it is there.
#[test]
fn commands_that_make_are_killed() {
    let mut servers = Servers::start(PAIR);
    put(&servers, "/old", 1);
    kill_all(&mut servers);
    let (mds, kept) = (servers.data_dir("mds"), servers.path("mds.kept"));
    let (log, backup, config) =
        (servers.path("syncs"), servers.path("b.bak"), servers.path("mds.toml"));
    let (mds, kept, backup, config) = (text(&mds), text(&kept), text(&backup), text(&config));
    // Each with what it makes, whose loss it begins with.
    let acts: [(&[&str], &str, &str); 3] = [
        (&["backup", backup, "--mds", mds], backup, "a backup replaces nothing"),
        (&["restore", backup, "--mds", mds], mds, "is not empty"),
        (&["init", "--config", config], mds, "there is a volume here already"),
    ];
    for (arguments, made, there) in acts {
        host("rm", &["-rf", made]);
        for number in chosen(run_killed(arguments, &log, None)) {
            host("rm", &["-rf", made]);
            run_killed(arguments, &log, Some(number));
            let again = weft(arguments);
            let said = words(&again);
            assert!(again.status.success() || said.contains(there), "sync {number}: {said}");
            let checked = weft(&["fsck", "--mds", mds]);
            let what = format!("{arguments:?}, sync {number}: {}", words(&checked));
            assert!(Path::new(mds).join("volume").exists(), "{what}");
            assert_ne!(checked.status.code(), Some(2), "{what}");
        }
        if arguments[0] == "backup" {
            host("cp", &["-a", mds, kept]);
        }
        if arguments[0] == "restore" {
            starts(&mut servers, &[("/old", 1)]);
            kill_all(&mut servers);
        }
    }
    // The volume that was there at first, which the restored one has taken over from.
    host("rm", &["-rf", mds]);
    host("mv", &[kept, mds]);
    servers.start_ds(1);
    servers.start_mds();
    until("a refusal", PATIENCE, || {
        let status = servers.status();
        status.get(&1).filter(|(up, why)| !up && why.contains("our volume")).map(drop)
    });
}
