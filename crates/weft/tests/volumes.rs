//! Volumes and data servers know each other: what an administrator does by mistake (a directory
//! that is missing, older, a copy, or another server's) is refused with words; no byte is touched.

mod support;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use support::servers::{Plan, Servers, ds};

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

fn copy(from: &Path, to: &Path) {
    let path = |p: &Path| p.to_str().expect("a plain path").to_owned();
    let copied = support::run("cp", &["-a", &path(from), &path(to)]);
    assert!(copied.status.success(), "{}", support::words(&copied));
}

/// A directory takes the place of a server's; the one it had.
fn put_in_place(servers: &Servers, name: &str, other: &Path) -> PathBuf {
    let free = |n: &u32| !servers.path(&format!("{name}.aside-{n}")).exists();
    let number = (1..).find(free).expect("a free name");
    let aside = servers.path(&format!("{name}.aside-{number}"));
    std::fs::rename(servers.data_dir(name), &aside).expect("aside");
    std::fs::rename(other, servers.data_dir(name)).expect("in place");
    aside
}

fn put(servers: &Servers, remote: &str, seed: u64) {
    servers.weft_ok(&["put", &servers.source(seed, FILE), remote]);
}

/// Waits until all of these data servers are refused with these words; what was said of the first.
fn until_refused(servers: &Servers, ids: &[u64], words: &str) -> String {
    support::until("a refusal", PATIENCE, || {
        let status = servers.status();
        let why = |id: &u64| status.get(id).filter(|(up, why)| !up && why.contains(words));
        let all: Option<Vec<_>> = ids.iter().map(why).collect();
        all?.first().map(|(_, why)| why.clone())
    })
}

fn weft(arguments: &[&str]) -> Output {
    Command::new(support::weft_binary()).args(arguments).output().expect("weft starts")
}

fn fails(arguments: &[&str]) -> String {
    let output = weft(arguments);
    assert!(!output.status.success(), "weft {arguments:?} succeeded");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A metadata server whose directory is missing does not begin a new file system; one that is made
/// in its place is refused by the data servers of the old, whose bytes stay.
#[test]
fn a_missing_volume_is_not_a_new_one() {
    let mut servers = Servers::start(PAIR);
    put(&servers, "/old", 1);
    servers.kill9("mds");
    let aside = servers.path("aside");
    std::fs::rename(servers.data_dir("mds"), &aside).unwrap();
    let config = servers.path("mds.toml");
    let said = fails(&["mds", "--config", config.to_str().unwrap()]);
    assert!(said.contains("there is no volume here") && said.contains("weft init"), "{said}");
    assert!(!servers.data_dir("mds").exists(), "nothing was made");
    servers.init_mds();
    let again = fails(&["init", "--config", config.to_str().unwrap()]);
    assert!(again.contains("there is a volume here already"), "{again}");
    servers.start_mds();
    let why = until_refused(&servers, &[1, 2], "it serves other volumes and does not know ours");
    assert!(why.contains("--adopt"), "{why}");
    let objects = (servers.objects(1), servers.objects(2));
    servers.kill9("mds");
    put_in_place(&servers, "mds", &aside);
    servers.start_mds();
    servers.until_reachable(2);
    assert_eq!((servers.objects(1), servers.objects(2)), objects);
    servers.verify("/old", 1, FILE);
}

/// Yesterday's copy of the metadata server's directory is refused by the data servers; today's is
/// accepted again, with all that was made since. Adopted, the older one goes on with what it knows,
/// and mixes nothing: new files have numbers that no object had.
#[test]
fn an_older_copy_of_the_volume_is_refused_until_it_is_adopted() {
    let mut servers = Servers::start(PAIR);
    put(&servers, "/before", 1);
    put(&servers, "/removed", 4);
    servers.kill9("mds");
    let older = servers.path("older");
    copy(&servers.data_dir("mds"), &older);
    servers.start_mds();
    servers.until_reachable(2);
    put(&servers, "/after", 2);
    let objects = (servers.objects(1), servers.objects(2));
    servers.weft_ok(&["rm", "/removed"]);
    support::until("its objects removed", PATIENCE, || {
        let left = (servers.objects(1), servers.objects(2));
        (left.0 < objects.0 && left.1 < objects.1).then_some(())
    });
    servers.kill9("mds");
    let newest = put_in_place(&servers, "mds", &older);
    servers.start_mds();
    let why = until_refused(&servers, &[1, 2], "copy");
    // What it acknowledged would be lost with it.
    assert!(servers.weft_fails(&["mkdir", "/lost"]).contains("read-only"));
    assert!(servers.weft_fails(&["rm", "/before"]).contains("read-only"));
    servers.weft_ok(&["ls", "-l", "/"]);
    let objects = (servers.objects(1), servers.objects(2));
    servers.kill9("mds");
    let older = put_in_place(&servers, "mds", &newest);
    std::fs::rename(&older, servers.path("older")).unwrap();
    servers.start_mds();
    servers.until_reachable(2);
    servers.verify("/before", 1, FILE);
    servers.verify("/after", 2, FILE);
    assert_eq!((servers.objects(1), servers.objects(2)), objects);

    let volume = why.split("--adopt ").nth(1).expect("the uuid").get(..32).expect("its digits");
    servers.kill9("mds");
    put_in_place(&servers, "mds", &servers.path("older"));
    for id in [1, 2] {
        servers.kill9(&ds(id));
        servers.start_ds_adopting(id, volume);
    }
    servers.start_mds();
    servers.until_reachable(2);
    put(&servers, "/new", 3);
    servers.verify("/new", 3, FILE);
    servers.verify("/before", 1, FILE);
    servers.weft_fails(&["get", "/after", "/dev/null"]);
    // What was removed since is in the older volume, and its bytes are nowhere: nobody waits.
    let why = servers.weft_fails(&["get", "/removed", "/dev/null"]);
    assert!(why.contains("input/output error"), "{why}");
    let why = servers.weft_fails(&["put", "--in-place", &servers.source(5, 10), "/removed"]);
    assert!(why.contains("input/output error"), "{why}");
    ["mds", "ds1", "ds2"].iter().for_each(|server| servers.kill9(server));
    let [mds, one, two] = ["mds", "ds1", "ds2"].map(|server| servers.data_dir(server));
    let [mds, one, two] = [&mds, &one, &two].map(|dir| dir.to_str().unwrap());
    let found = support::words(&weft(&["fsck", "--mds", mds, "--ds", one, "--ds", two]));
    servers.start_ds(1);
    servers.start_ds(2);
    servers.start_mds();
    servers.until_reachable(2);
    put(&servers, "/removed", 6);
    servers.verify("/removed", 6, FILE);
    assert!(found.contains("/removed: data server 1: fence epoch"), "{found}");
}

/// A data server whose directory is an older copy is not used, until the newest is back.
#[test]
fn an_older_copy_of_a_data_server_is_refused() {
    let mut servers = Servers::start(PAIR);
    put(&servers, "/before", 1);
    servers.kill9("ds1");
    let older = servers.path("older");
    copy(&servers.data_dir("ds1"), &older);
    servers.start_ds(1);
    servers.until_reachable(2);
    put(&servers, "/after", 2);
    servers.kill9("ds1");
    let newest = put_in_place(&servers, "ds1", &older);
    servers.start_ds(1);
    let why = until_refused(&servers, &[1], "its directory is");
    assert!(why.contains("put the newest one back") && why.contains("--adopt"), "{why}");
    servers.kill9("ds1");
    std::fs::rename(put_in_place(&servers, "ds1", &newest), servers.path("older")).unwrap();
    servers.start_ds(1);
    servers.until_reachable(2);
    servers.verify("/before", 1, FILE);
    servers.verify("/after", 2, FILE);
}

/// A data server does not settle in the directory of a metadata server, nor the other way round.
#[test]
fn a_directory_has_one_kind_of_server() {
    let mut servers = Servers::start(PAIR);
    servers.kill9("mds");
    servers.kill9("ds1");
    let (mds, ds1) = (servers.path("mds.toml"), servers.path("ds1.toml"));
    let swapped = |config: &Path, from: &str, to: &str| {
        let text = std::fs::read_to_string(config).unwrap();
        let path = servers.path("swapped.toml");
        std::fs::write(&path, text.replace(&format!("{from}.data"), &format!("{to}.data")))
            .unwrap();
        path.to_str().unwrap().to_owned()
    };
    let said = fails(&["ds", "--config", &swapped(&ds1, "ds1", "mds")]);
    assert!(said.contains("this is the directory of a metadata server"), "{said}");
    assert!(!servers.data_dir("mds").join("identity").exists(), "nothing was made");
    for command in ["mds", "init"] {
        let said = fails(&[command, "--config", &swapped(&mds, "mds", "ds1")]);
        assert!(said.contains("this is the directory of a data server"), "{said}");
    }
    assert!(!servers.data_dir("ds1").join("volume").exists(), "nothing was made");
}

/// `weft up` makes a file system where nothing is, and not beside the data servers of another.
#[test]
fn up_makes_no_second_volume() {
    let dir = tempfile::tempdir().unwrap();
    // A data server has started here once; an empty folder may be a place to mount its disk.
    std::fs::create_dir(dir.path().join("ds-1")).unwrap();
    std::fs::write(dir.path().join("ds-1/identity"), "").unwrap();
    let said = fails(&["up", "--listen", "127.0.0.1:0", "--dir", dir.path().to_str().unwrap()]);
    assert!(said.contains("there is no volume here") && said.contains("mds"), "{said}");
    assert!(!dir.path().join("mds").exists(), "nothing was made");
}
