//! Servers that die, hang, fill up and are configured wrongly, one at a time, as separate
//! processes: what was asked for is done in the end or fails with words that say why, nothing that
//! was acknowledged is lost, and nobody else notices.

mod support;

use std::net::SocketAddr;
use std::process::{Child, Output};
use std::time::{Duration, Instant};

use support::guest::{Guest, Kernel};
use support::servers::{Plan, Servers, ds};
use weft_client::{
    fs::{Client, ClientOptions, FsError, OpenOptions},
    io::IoPolicy,
};

const MIB: usize = 1 << 20;
/// Time for work that a fault delays.
const PATIENCE: Duration = Duration::from_secs(60);
/// Time for work that a fault elsewhere must not delay, on a busy machine.
const UNDISTURBED: Duration = Duration::from_secs(10);
/// Time for work that a fault elsewhere must not be felt by.
const AT_ONCE: Duration = Duration::from_secs(5);
/// One data server a file: a fault of one concerns its own files only.
const NARROW: Plan = Plan {
    data_servers: 4,
    stripe_width: 1,
    flexfiles: false,
    mds_disk_mib: None,
    ds_disk_mib: None,
    wired: false,
};

/// A put over four data servers, one of which is killed in the middle and comes back seconds
/// later, succeeds, and so does one that outlives the client's patience with that data server.
#[test]
fn a_put_survives_the_death_of_a_data_server() {
    let mut servers = Servers::start(Plan::default());
    let bytes = 256 * MIB;
    let source = servers.source(1, bytes);
    for (name, away) in [("/short", 3), ("/long", 18)] {
        let put = start(&servers, &["put", &source, name]);
        until_holding(&servers, 2, 8 * MIB);
        servers.kill9("ds2");
        let killed = Instant::now();
        std::thread::sleep(Duration::from_secs(away));
        servers.start_ds(2);
        let output = finished(put);
        let after = killed.elapsed().as_secs_f32() - away as f32;
        assert!(output.status.success(), "{}{}", support::words(&output), servers.logs());
        eprintln!("put done {after:.1} s after its data server came back ({away} s away)");
        servers.verify(name, 1, bytes);
        servers.weft_ok(&["rm", name]);
        no_objects_remain(&servers);
    }
}

/// While a data server is dead, files of the others are read and written, new files go to the
/// others, and a put that needs the dead one fails in the end and says why.
#[test]
fn the_death_of_a_data_server_concerns_its_own_files_only() {
    let mut servers = Servers::start(NARROW);
    let source = servers.source(2, 4 * MIB);
    let homes: Vec<(String, u32)> = (0..4)
        .map(|n| {
            let name = format!("/file{n}");
            servers.weft_ok(&["put", &source, &name]);
            let home = servers.home_of(&name);
            (name, home)
        })
        .collect();
    let (lost, dead) = homes[0].clone();
    servers.kill9(&ds(dead));
    let began = Instant::now();
    let stuck = start(&servers, &["put", "--in-place", &source, &lost]);
    for (name, _) in homes.iter().filter(|(_, home)| *home != dead) {
        within(UNDISTURBED, || servers.verify(name, 2, 4 * MIB));
        within(UNDISTURBED, || servers.weft_ok(&["put", &source, name]));
    }
    for n in 0..4 {
        let name = format!("/new{n}");
        within(UNDISTURBED, || servers.weft_ok(&["put", &source, &name]));
        assert_ne!(servers.home_of(&name), dead, "a new file on a dead data server");
        servers.verify(&name, 2, 4 * MIB);
    }
    within(UNDISTURBED, || servers.weft_ok(&["ls", "-l", "/"]));
    let failed = finished(stuck);
    let words = String::from_utf8_lossy(&failed.stderr).into_owned();
    eprintln!("put without its data server failed after {:?}: {words}", began.elapsed());
    assert!(!failed.status.success(), "a put succeeded without its data server");
    assert!(words.contains("data server"), "{words}");
    servers.start_ds(dead);
    let back = Instant::now();
    servers.weft_ok(&["put", "--in-place", &source, &lost]);
    eprintln!("served again {:?} after the start of the data server", back.elapsed());
    servers.verify(&lost, 2, 4 * MIB);
}

/// Data written UNSTABLE to a data server that dies before COMMIT are written again: the new
/// verifier tells.
#[test]
fn uncommitted_data_are_written_again() {
    let mut servers = Servers::start(Plan::default());
    let bytes = support::pattern(3, 16 * MIB);
    block_on(async {
        let client = connect(address(&servers)).await;
        let file = client.open("/file", OpenOptions::replace(0o644)).await.expect("open");
        file.write_at(0, bytes.clone().into()).await.expect("write");
        for id in 1..=4 {
            servers.kill9(&ds(id));
            forget_objects(&servers, id);
            servers.start_ds(id);
        }
        file.close().await.expect("close");
        client.close().await;
    });
    servers.verify("/file", 3, 16 * MIB);
}

/// A data server that hangs holds up its own files only, and they go on when it does.
#[test]
fn a_hanging_data_server_holds_up_its_own_files_only() {
    let servers = Servers::start(NARROW);
    let source = servers.source(4, 4 * MIB);
    let names: Vec<String> = (0..4).map(|n| format!("/file{n}")).collect();
    names.iter().for_each(|name| drop(servers.weft_ok(&["put", &source, name])));
    let homes: Vec<u32> = names.iter().map(|name| servers.home_of(name)).collect();
    servers.pause(&ds(homes[0]));
    let stopped = Instant::now();
    let held_up = start(&servers, &["put", &source, &names[0]]);
    while stopped.elapsed() < Duration::from_secs(20) {
        for (name, _) in names.iter().zip(&homes).filter(|(_, home)| **home != homes[0]) {
            within(UNDISTURBED, || servers.verify(name, 4, 4 * MIB));
            within(UNDISTURBED, || servers.weft_ok(&["put", &source, name]));
        }
        within(UNDISTURBED, || servers.weft_ok(&["ls", "-l", "/"]));
    }
    servers.resume(&ds(homes[0]));
    let continued = Instant::now();
    let output = finished(held_up);
    assert!(output.status.success(), "{}{}", support::words(&output), servers.logs());
    eprintln!("put done {:?} after its data server went on", continued.elapsed());
    servers.verify(&names[0], 4, 4 * MIB);
}

/// One that hangs when it is to be told the age of the volume, which may take its disk long, is
/// away as soon as any other: new files go elsewhere.
#[test]
fn a_data_server_that_hangs_when_told_the_age_is_away_soon() {
    let servers = Servers::start(NARROW);
    // It is told five seconds after the last time at the soonest: the next change is told at once.
    std::thread::sleep(Duration::from_secs(7));
    servers.pause("ds2");
    servers.weft_ok(&["mkdir", "/changed"]);
    let paused = Instant::now();
    support::until("the end of the connection", PATIENCE, || {
        servers.logs().contains("data server lost id=2").then_some(())
    });
    let noticed = paused.elapsed();
    servers.resume("ds2");
    assert!(noticed < UNDISTURBED, "noticed after {noticed:?}{}", servers.logs());
}

/// A data server that hangs for longer than a client is willing to wait is given up, in words that
/// say so; what was on its way to it does not land on top of what is written later.
#[test]
fn a_data_server_that_hangs_for_long_is_given_up() {
    let servers = Servers::start(NARROW);
    let source = servers.source(12, 4 * MIB);
    servers.weft_ok(&["put", &source, "/file"]);
    let home = ds(servers.home_of("/file"));
    let options = ClientOptions {
        patience: Duration::from_secs(5),
        data_server_patience: Duration::from_secs(1),
        policy: IoPolicy::direct(),
        ..ClientOptions::default()
    };
    let writing = OpenOptions { write: true, ..OpenOptions::default() };
    let (old, new) = (support::pattern(13, 4 * MIB), support::pattern(14, 4 * MIB));
    block_on(async {
        let client = Client::connect(address(&servers), options).await.expect("connect");
        let file = client.open("/file", writing).await.expect("open");
        file.write_at(0, support::pattern(12, MIB).into()).await.expect("write");
        servers.pause(&home);
        let stopped = Instant::now();
        let failed = file.write_at(0, old.into()).await.expect_err("nobody took it");
        eprintln!("given up {:?} after its data server stopped: {failed}", stopped.elapsed());
        assert!(stopped.elapsed() < 2 * PATIENCE, "it took {:?}", stopped.elapsed());
        assert!(failed.to_string().contains("data server"), "{failed}");
        servers.resume(&home);
        let later = connect(address(&servers)).await;
        let file = later.open("/file", writing).await.expect("open");
        file.write_at(0, new.into()).await.expect("write");
        file.close().await.expect("close");
        later.close().await;
        servers.verify("/file", 14, 4 * MIB);
        client.close().await;
    });
    servers.verify("/file", 14, 4 * MIB);
}

/// A client and the metadata server die together in the middle of a put: the file is as long as
/// what its data servers hold.
#[test]
fn sizes_are_right_after_a_client_and_the_metadata_server_died() {
    let mut servers = Servers::start(Plan::default());
    let source = servers.source(15, 256 * MIB);
    let mut put = start(&servers, &["put", "--in-place", &source, "/file"]);
    until_holding(&servers, 1, 8 * MIB);
    put.kill().expect("kill");
    put.wait().expect("wait");
    servers.kill9("mds");
    servers.start_mds();
    servers.until_reachable(4);
    let stat = servers.stat("/file");
    let stripes = stat["layout"]["stripes"].as_array().expect("stripes");
    // Objects are sparse: each is as long as the file up to the end of its last byte.
    let longest = stripes.iter().filter_map(|s| s["object_bytes"].as_u64()).max();
    assert!(longest >= Some(8 << 20), "{stat}");
    assert_eq!(stat["size"].as_u64(), longest, "{stat}");
    let long = servers.weft_ok(&["ls", "-l", "/"]);
    assert!(long.contains(&stat["size"].to_string()), "{long}");
    servers.weft_ok(&["rm", "/file"]);
    no_objects_remain(&servers);
}

/// Files written through layouts while the metadata server is killed and started again are
/// complete, and have the right size.
#[test]
fn puts_survive_the_death_of_the_metadata_server() {
    let mut servers = Servers::start(Plan::default());
    let bytes = 128 * MIB + 4321;
    let source = servers.source(5, bytes);
    let puts: Vec<Child> =
        (0..3).map(|n| start(&servers, &["put", &source, &format!("/file{n}")])).collect();
    // Past its OPEN, each of them: of one that is under way nobody would know whether it was done.
    support::until("all puts", PATIENCE, || (servers.objects(1).0 >= 3).then_some(()));
    until_holding(&servers, 1, 8 * MIB);
    servers.kill9("mds");
    let killed = Instant::now();
    servers.start_mds();
    for put in puts {
        let output = finished(put);
        assert!(output.status.success(), "{}{}", support::words(&output), servers.logs());
    }
    eprintln!("all puts done {:?} after the death of the metadata server", killed.elapsed());
    for n in 0..3 {
        let name = format!("/file{n}");
        assert_eq!(servers.stat(&name)["size"], bytes);
        servers.verify(&name, 5, bytes);
    }
}

/// A client that does not reach a data server which the metadata server reaches goes on through the
/// metadata server, and both are named while that lasts.
#[test]
fn a_client_that_does_not_reach_a_data_server_is_named() {
    let plan = Plan { data_servers: 2, stripe_width: 2, ..Plan::default() };
    let mut servers = Servers::start(plan);
    // Nobody answers there, as behind a port that is closed.
    let silent = std::net::TcpListener::bind(("0.0.0.0", 0)).expect("a port");
    servers.clients_come_by(2, silent.local_addr().expect("an address").port());
    servers.restart_mds();
    servers.until_reachable(2);
    let source = servers.source(18, 12 * MIB);
    within(2 * UNDISTURBED, || servers.weft_ok(&["put", &source, "/file"]));
    // The client has ended, and is named by what it has reported.
    let named = support::until("a warning", UNDISTURBED, || {
        let health = servers.health();
        let mut words = health["warnings"].as_array()?.iter().filter_map(|w| w.as_str());
        words.find(|w| w.contains("does not reach data server 2")).map(str::to_owned)
    });
    assert!(named.contains("127.0.0.1"), "{named}");
    let log = servers.logs_of("mds");
    assert!(log.contains("a client has trouble with a device") && log.contains("id=2"), "{log}");
    let status = servers.weft_ok(&["status"]);
    assert!(status.contains("not reached: data server 2 by "), "{status}");
    assert!(!status.contains("not reached: data server 1"), "{status}");
    servers.verify("/file", 18, 12 * MIB);
}

/// Commands that begin while the metadata server is being restarted wait for it, and say so.
#[test]
fn commands_wait_for_a_server_that_is_restarted() {
    let mut servers = Servers::start(Plan::default());
    let source = servers.source(6, 3 * MIB);
    servers.weft_ok(&["put", &source, "/before"]);
    servers.kill9("mds");
    let commands =
        [&["ls", "/"][..], &["put", &source, "/after"], &["stat", "--client", "/before"]];
    let begun: Vec<Child> = commands.iter().map(|command| start(&servers, command)).collect();
    std::thread::sleep(Duration::from_secs(3));
    servers.start_mds();
    for (command, begun) in commands.iter().zip(begun) {
        let words = support::words(&finished(begun));
        assert!(words.contains("exit status: 0"), "{command:?}: {words}{}", servers.logs());
        assert!(words.contains("waiting for server 127.0.0.1:"), "{words}");
        assert!(words.contains("it refuses connections"), "{words}");
    }
    servers.verify("/after", 6, 3 * MIB);
}

/// One of four data servers away, over which every file is striped, is nobody's outage: new files
/// go to the others at once, the directory is listed though a file in it was being written, a hung
/// one holds up nobody for long, and both are used again when they are back. One that has files
/// cannot be left out of the configuration.
#[test]
fn one_data_server_away_is_nobodys_outage() {
    let mut servers = Servers::start(Plan::default());
    let source = servers.source(14, 4 * MIB);
    servers.weft_ok(&["put", &source, "/before"]);
    assert_eq!(homes(&servers, "/before"), [1, 2, 3, 4]);
    let large = servers.source(15, 256 * MIB);
    let mut cut = start(&servers, &["put", &large, "/cut"]);
    until_holding(&servers, 2, 8 * MIB);
    servers.kill9("ds2");
    cut.kill().and_then(|()| cut.wait()).expect("the end of the put");
    within(AT_ONCE, || servers.weft_ok(&["put", &source, "/after"]));
    assert_eq!(homes(&servers, "/after"), [1, 3, 4]);
    servers.verify("/after", 14, 4 * MIB);
    let list = within(AT_ONCE, || servers.weft_ok(&["ls", "-la", "/"]));
    assert!(list.contains("before") && list.lines().count() >= 3, "{list}");

    servers.pause("ds3");
    let status = within(AT_ONCE, || servers.status());
    assert_eq!(status.values().filter(|(reached, _)| *reached).count(), 2, "{status:?}");
    support::until("the end of the hung one's connection", PATIENCE, || {
        servers.status()[&3].1.contains("does not answer").then_some(())
    });
    within(AT_ONCE, || servers.weft_ok(&["put", &source, "/narrow"]));
    assert_eq!(homes(&servers, "/narrow"), [1, 4]);
    within(AT_ONCE, || servers.weft_ok(&["ls", "-l", "/"]));

    servers.resume("ds3");
    servers.start_ds(2);
    servers.until_reachable(4);
    within(AT_ONCE, || servers.weft_ok(&["put", &source, "/wide"]));
    assert_eq!(homes(&servers, "/wide"), [1, 2, 3, 4]);
    for name in ["/before", "/after", "/narrow", "/wide"] {
        servers.verify(name, 14, 4 * MIB);
    }

    servers.kill9("mds");
    let refused = servers.mds_without(4);
    assert!(!refused.status.success(), "it serves without data server 4");
    let words = support::words(&refused);
    assert!(words.contains("data server 4 is not configured"), "{words}");
    assert!(!words.contains("data server 3 is not configured"), "{words}");
    servers.start_mds();
    servers.until_reachable(4);
    servers.verify("/wide", 14, 4 * MIB);
    an_open_file_has_no_early_end(&mut servers);
}

/// Who has a file open reads on to its true end, or waits, also when the metadata server has
/// forgotten the open and a data server is away that knows the size.
fn an_open_file_has_no_early_end(servers: &mut Servers) {
    let (address, part) = (address(servers), 4 * MIB);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.expect("a runtime");
    let (reader, writer) = runtime.block_on(async {
        let (reads, writes) = (connect(address).await, connect(address).await);
        let options = OpenOptions { write: true, create: Some(0o644), ..OpenOptions::default() };
        let writer = writes.open("/grows", options).await.expect("open");
        writer.write_at(0, vec![7; part].into()).await.expect("write");
        let reader = reads.open("/grows", OpenOptions::read()).await.expect("open");
        assert_eq!(reader.read_at(0, part).await.expect("read").len(), part);
        writer.write_at(part as u64, vec![8; part].into()).await.expect("write");
        ((reads, reader), (writes, writer))
    });
    servers.kill9("ds2");
    servers.restart_mds();
    let file = reader.1;
    let mut read = runtime.spawn(async move { file.read_at(part as u64, part).await });
    let early = runtime.block_on(async { tokio::time::timeout(AT_ONCE, &mut read).await });
    assert!(early.is_err(), "it did not wait for the data server: {early:?}");
    servers.start_ds(2);
    let data = runtime.block_on(read).expect("the reader").expect("read");
    assert_eq!(data, vec![8; part]);
    drop((reader.0, writer));
}

/// Of a replicated file one copy is enough: two of three data servers are killed, whichever, and
/// who comes, or has it open with a layout of all three, reads on. A put waits for who is away, and
/// is in all copies when it is done.
#[test]
fn a_replicated_file_is_read_from_what_is_left() {
    let mut servers = Servers::start(Plan { data_servers: 3, ..Plan::default() });
    servers.weft_ok(&["mkdir", "/models"]);
    let copies = ["--distribution", "replicated", "--copies", "3"];
    servers.weft_ok(&[&["layout", "set", "/models"][..], &copies].concat());
    let bytes = 32 * MIB;
    let (name, source) = ("/models/m", servers.source(16, bytes));
    servers.weft_ok(&["put", &source, name]);
    let are_alike = |servers: &Servers| {
        support::until("copies that are alike", PATIENCE, || {
            (servers.stat(name)["layout"]["copies_alike"] == true).then_some(())
        });
    };
    are_alike(&servers);
    assert!((1..=3).all(|id| servers.objects(id).1 >= bytes as u64));
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.expect("a runtime");
    let content = support::pattern(16, bytes);
    let reader = runtime.block_on(connect(address(&servers)));
    let file = runtime.block_on(reader.open(name, OpenOptions::read())).expect("open");
    for away in [[1, 2], [2, 3], [3, 1]] {
        let read = runtime.block_on(file.read_at(0, bytes)).expect("read");
        assert!(read == content, "with all");
        away.iter().for_each(|id| servers.kill9(&ds(*id)));
        within(UNDISTURBED, || servers.verify(name, 16, bytes));
        let read = within(PATIENCE, || runtime.block_on(file.read_at(0, bytes)));
        assert!(read.expect("read") == content, "without {away:?}");
        away.iter().for_each(|id| servers.start_ds(*id));
        servers.until_reachable(3);
    }
    servers.kill9("ds2");
    let again = servers.source(17, bytes);
    let put = start(&servers, &["put", &again, name]);
    std::thread::sleep(Duration::from_secs(3));
    servers.verify(name, 16, bytes);
    servers.start_ds(2);
    let output = finished(put);
    assert!(output.status.success(), "{}{}", support::words(&output), servers.logs());
    are_alike(&servers);
    for away in [[1, 2], [2, 3], [3, 1]] {
        away.iter().for_each(|id| servers.kill9(&ds(*id)));
        servers.verify(name, 17, bytes);
        away.iter().for_each(|id| servers.start_ds(*id));
        servers.until_reachable(3);
    }
    ["mds", "ds1", "ds2", "ds3"].iter().for_each(|name| servers.kill9(name));
    servers.fsck();
}

/// A replicated file is read within seconds of the moment in which data servers with copies of it
/// hang, by new clients and by one that has a layout and is connected to all; new files go
/// elsewhere as soon.
#[test]
fn a_replicated_file_is_read_while_data_servers_hang() {
    let servers = Servers::start(Plan { data_servers: 3, ..Plan::default() });
    servers.weft_ok(&["mkdir", "/models"]);
    let copies = ["--distribution", "replicated", "--copies", "3"];
    servers.weft_ok(&[&["layout", "set", "/models"][..], &copies].concat());
    let bytes = 32 * MIB;
    let (name, source) = ("/models/m", servers.source(19, bytes));
    servers.weft_ok(&["put", &source, name]);
    support::until("copies that are alike", PATIENCE, || {
        (servers.stat(name)["layout"]["copies_alike"] == true).then_some(())
    });
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.expect("a runtime");
    let content = support::pattern(19, bytes);
    let reader = runtime.block_on(connect(address(&servers)));
    let file = runtime.block_on(reader.open(name, OpenOptions::read())).expect("open");
    let read = || runtime.block_on(file.read_at(0, bytes)).expect("read");
    assert!(read() == content, "with all");
    for hung in ["ds1", "ds2"] {
        servers.pause(hung);
    }
    let paused = Instant::now();
    within(UNDISTURBED, || servers.verify(name, 19, bytes));
    eprintln!("a new client has read it {:?} after the pause", paused.elapsed());
    let again = Instant::now();
    assert!(within(UNDISTURBED, read) == content, "who was connected");
    eprintln!("who was connected has read it within {:?}", again.elapsed());
    for n in 0..4 {
        let new = format!("/new{n}");
        within(AT_ONCE, || servers.weft_ok(&["put", &source, &new]));
        assert_eq!(homes(&servers, &new), [3]);
    }
    for hung in ["ds1", "ds2"] {
        servers.resume(hung);
    }
    servers.until_reachable(3);
    assert!(read() == content, "with all again");
}

/// The data servers of a file.
fn homes(servers: &Servers, name: &str) -> Vec<u64> {
    let stat = servers.stat(name);
    let stripes = stat["layout"]["stripes"].as_array().expect("stripes");
    stripes.iter().map(|s| s["data_server_id"].as_u64().expect("a number")).collect()
}

/// A full data server is passed over by new files as soon as it is known to be full, and used
/// again when it has room; who makes a file larger that is on it is told.
#[test]
fn a_full_data_server_is_passed_over() {
    let servers = Servers::start(Plan { ds_disk_mib: Some(48), ..Plan::default() });
    let source = servers.source(7, 8 * MIB);
    servers.weft_ok(&["put", &source, "/wide"]);
    assert_eq!(homes(&servers, "/wide"), [1, 2, 3, 4]);
    let filler = servers.fill("ds1", 64 << 10);
    let refused = block_on(append(address(&servers), "/wide", 8 * MIB as u64, 8 * MIB));
    let words = refused.expect_err("no room, and yet it grew").to_string();
    assert!(words.contains("no space left"), "{words}");
    // A file that was placed before it was known stays where it is: another name.
    let mut tries = 0..;
    support::until("a file elsewhere", PATIENCE, || {
        let name = format!("/try{}", tries.next().expect("a number"));
        servers.weft(&["put", &source, &name]).status.success().then_some(())
    });
    for n in 0..8 {
        let name = format!("/new{n}");
        servers.weft_ok(&["put", &source, &name]);
        assert_eq!(homes(&servers, &name), [2, 3, 4]);
        servers.verify(&name, 7, 8 * MIB);
    }
    std::fs::remove_file(&filler).expect("the filler");
    support::until("a file on data server 1", PATIENCE, || {
        servers.weft_ok(&["put", &source, "/again"]);
        let back = homes(&servers, "/again").contains(&1);
        servers.weft_ok(&["rm", "/again"]);
        back.then_some(())
    });
}

/// A data server that has far less room than the others gets no part of new files while others
/// remain, and is named: before it is full, by `/health`, `weft status` and the log.
#[test]
fn a_nearly_full_data_server_gets_no_new_files() {
    let servers = Servers::start(Plan { ds_disk_mib: Some(200), ..Plan::default() });
    // Above what the data server keeps free: a sixteenth of its disk.
    servers.fill("ds1", (200 << 20) / 16 + (15 << 20));
    let source = servers.source(11, 90 * MIB);
    let named = support::until("a warning", PATIENCE, || {
        let health = servers.health();
        assert_eq!(health["healthy"], true, "{health}");
        let mut words = health["warnings"].as_array()?.iter().filter_map(|w| w.as_str());
        words.find(|w| w.starts_with("data server 1 ")).map(str::to_owned)
    });
    assert!(named.contains("new files go to other data servers"), "{named}");
    for n in 0..3 {
        let name = format!("/large{n}");
        servers.weft_ok(&["put", &source, &name]);
        assert_eq!(homes(&servers, &name), [2, 3, 4]);
    }
    servers.verify("/large0", 11, 90 * MIB);
    let status = servers.weft_ok(&["status"]);
    let row = status.lines().find(|line| line.starts_with("ds 1 ")).expect("a row");
    assert!(row.ends_with("nearly full: new files go elsewhere"), "{status}");
    let log = servers.logs_of("mds");
    assert!(log.contains("new files go to other data servers") && log.contains("id=1"), "{log}");
    // A list is a decision: what it names is used, and who outgrows it is told.
    servers.weft_ok(&["mkdir", "/on-1"]);
    servers.weft_ok(&["layout", "set", "/on-1", "--distribution", "cyclic", "--servers", "1"]);
    let refused = servers.weft_fails(&["put", &source, "/on-1/large"]);
    assert!(refused.contains("no space left"), "{refused}");
    let log = servers.logs_of("ds1");
    assert!(log.contains("no room on the disk"), "{log}");
}

/// A small file that finds no room half-way to its data server: who made it grow is told, it stays
/// as it was, also over a crash, and leaves when there is room.
#[test]
fn a_data_server_that_fills_up_during_a_move_says_so() {
    let one = Plan { data_servers: 1, ds_disk_mib: Some(8), ..NARROW };
    let mut servers = Servers::start(one);
    let small = 60_000;
    let source = servers.source(9, small);
    servers.weft_ok(&["put", &source, "/grows"]);
    servers.weft_ok(&["put", &source, "/goes"]);
    assert_eq!(servers.objects(1).0, 0, "small files are on a data server");
    // A data server takes nothing that would go below what it keeps free: a sixteenth of its disk.
    let filler = servers.fill("ds1", (8 << 20) / 16 + (20 << 10));
    let address = address(&servers);
    for _ in 0..2 {
        let refused = block_on(append(address, "/grows", small as u64, 100_000));
        let words = refused.expect_err("no room, and yet it grew").to_string();
        assert!(words.contains("no space left"), "{words}");
        servers.verify("/grows", 9, small);
    }
    servers.kill9("mds");
    servers.start_mds();
    servers.until_reachable(1);
    servers.verify("/grows", 9, small);
    servers.weft_ok(&["rm", "/goes"]);
    std::fs::remove_file(&filler).expect("the filler");
    support::until("room again", PATIENCE, || {
        block_on(append(address, "/grows", small as u64, 100_000)).ok()
    });
    assert_eq!(servers.stat("/grows")["size"], small + 100_000);
    servers.weft_ok(&["rm", "/grows"]);
    support::until("end of the object", PATIENCE, || (servers.objects(1).0 == 0).then_some(()));
}

/// A disk of the metadata server that fills up: nothing is created any more, in words that say so,
/// while files are still read, written and removed. With space again all is well, and nothing
/// acknowledged is lost by a crash in between.
#[test]
fn a_full_metadata_server_says_so() {
    let mut servers = Servers::start(Plan { mds_disk_mib: Some(256), ..Plan::default() });
    let source = servers.source(8, MIB);
    servers.weft_ok(&["put", &source, "/before"]);
    servers.weft_ok(&["put", &source, "/removed"]);
    let filler = servers.fill("mds", 0);
    let full = || servers.weft(&["mkdir", "/never"]).status.code().filter(|code| *code != 0);
    support::until("full disk", PATIENCE, || {
        full().or_else(|| {
            servers.weft_ok(&["rm", "/never"]);
            None
        })
    });
    for refused in [&["mkdir", "/new"][..], &["put", &source, "/new"]] {
        let words = servers.weft_fails(refused);
        assert!(words.contains("no space left"), "{words}");
    }
    servers.verify("/before", 8, MIB);
    truncate(address(&servers), "/before", 1000);
    servers.weft_ok(&["rm", "/removed"]);
    servers.kill9("mds");
    servers.start_mds();
    servers.until_reachable(4);
    servers.verify("/before", 8, 1000);
    assert!(!servers.weft(&["stat", "/removed"]).status.success(), "a removed file is back");
    std::fs::remove_file(&filler).expect("the filler");
    support::until("room again", PATIENCE, || {
        servers.weft(&["mkdir", "/after"]).status.success().then_some(())
    });
    servers.weft_ok(&["put", &source, "/after/file"]);
    servers.verify("/after/file", 8, MIB);
}

/// A metadata server that is there first waits for its data servers; one with a wrong secret or
/// number is named in `weft status`, and gets no data.
#[test]
fn wrong_data_servers_are_named() {
    let mut servers = Servers::prepare(Plan { data_servers: 2, stripe_width: 2, ..NARROW });
    servers.write_secret("other-secret", "fedcba9876543210fedcba9876543210\n");
    servers.start_mds();
    servers.until_reachable(0);
    let source = servers.source(9, 4 * MIB);
    let put = start(&servers, &["put", &source, "/early"]);
    servers.start_ds_as(1, 1, "other-secret");
    servers.start_ds_as(2, 7, "secret");
    for (id, why) in [(1, "cluster secret"), (2, "is data server 7, not 2")] {
        support::until(why, PATIENCE, || {
            let status = servers.status();
            let (reached, said) = status.get(&id)?;
            assert!(!reached, "a wrong data server is used");
            said.contains(why).then_some(())
        });
    }
    assert_eq!(servers.objects(1).0, 0, "a data server that is not ours got data");
    for id in 1..=2 {
        servers.kill9(&ds(id));
        servers.start_ds(id);
    }
    let output = finished(put);
    assert!(output.status.success(), "{}{}", support::words(&output), servers.logs());
    servers.verify("/early", 9, 4 * MIB);
}

/// With a data server down, a truncation waits for it, a removal does not; neither holds up that
/// of another file. When it is back, nothing of the removed files is left anywhere.
#[test]
fn truncation_and_removal_outlive_a_dead_data_server() {
    let mut servers = Servers::start(NARROW);
    let source = servers.source(10, 4 * MIB);
    let names: Vec<String> = (0..8).map(|n| format!("/file{n}")).collect();
    names.iter().for_each(|name| drop(servers.weft_ok(&["put", &source, name])));
    let homes: Vec<u32> = names.iter().map(|name| servers.home_of(name)).collect();
    let dead = homes[0];
    let (on_dead, elsewhere): (Vec<_>, Vec<_>) =
        names.iter().zip(&homes).partition(|(_, home)| **home == dead);
    assert!(on_dead.len() >= 2 && !elsewhere.is_empty(), "{homes:?}");
    servers.kill9(&ds(dead));
    let (cut, gone) = (on_dead[0].0, on_dead[1].0);
    let cutting = {
        let (address, name) = (address(&servers), cut.clone());
        std::thread::spawn(move || truncate(address, &name, 1000))
    };
    within(UNDISTURBED, || servers.weft_ok(&["rm", gone]));
    for (name, _) in &elsewhere {
        within(UNDISTURBED, || servers.weft_ok(&["rm", name]));
    }
    for id in (1..=4).filter(|id| *id != dead) {
        support::until("removal elsewhere", UNDISTURBED, || {
            (servers.objects(id).0 == 0).then_some(())
        });
    }
    assert!(!cutting.is_finished(), "a truncation without its data server");
    assert_eq!(servers.objects(dead).0, on_dead.len());
    servers.start_ds(dead);
    let back = Instant::now();
    cutting.join().expect("the truncation succeeds");
    eprintln!("truncated {:?} after the start of the data server", back.elapsed());
    servers.verify(cut, 10, 1000);
    support::until("removal on the data server that is back", PATIENCE, || {
        (servers.objects(dead).0 == on_dead.len() - 1).then_some(())
    });
    eprintln!("removed {:?} after the start of the data server", back.elapsed());
    on_dead.iter().filter(|(name, _)| *name != gone).for_each(|(name, _)| {
        servers.weft_ok(&["rm", name]);
    });
    no_objects_remain(&servers);
}

/// The newest Linux client writes through the death and the standstill of a data server, and
/// uses files on others meanwhile.
#[test]
fn the_kernel_client_survives_data_server_faults() {
    let Some(guest) = Guest::new(Kernel::Uml, "faults.sh") else { return };
    let mut servers = Servers::start(Plan { stripe_width: 2, ..Plan::default() });
    let source = servers.source(11, 2 * MIB);
    let (wide, other) = (file_on(&servers, &source, 1), file_on(&servers, &source, 2));
    let guest = guest.argument(servers.port()).argument(&wide).argument(&other);
    servers.weft_ok(&["mkdir", "/cuts"]);
    let large = servers.source(16, 256 * MIB);
    let report = guest.run(&mut servers, |servers, words| {
        match words {
            "kill1" => {
                until_holding(servers, 1, 8 * MIB);
                // Files over data servers 1 and 3, and 2 and 4, that are being written meanwhile.
                let cuts = [0, 1, 2].map(|n| {
                    let name = format!("/cuts/cut{n}");
                    start(servers, &["put", "--in-place", &large, &name])
                });
                let before = servers.objects(1).1 as usize;
                until_holding(servers, 1, before + 8 * MIB);
                servers.kill9("ds1");
                for mut cut in cuts {
                    cut.kill().and_then(|()| cut.wait()).expect("the end of a put");
                }
            }
            "start1" => servers.start_ds(1),
            "freeze2" => servers.pause("ds2"),
            "thaw2" => servers.resume("ds2"),
            _ => return Err("not a command of this test".to_owned()),
        }
        Ok(())
    });
    for what in ["death", "freeze"] {
        let seconds = report.number("4.2", &format!("recovered-after-{what}"));
        eprintln!("Linux went on {seconds} s after the end of the {what} of its data server");
        assert!(seconds <= 60, "{what}: {seconds} s");
    }
}

/// Puts files until one is on this data server; its name.
fn file_on(servers: &Servers, source: &str, id: u32) -> String {
    for n in 0..8 {
        let name = format!("on-{id}-{n}");
        let path = format!("/{name}");
        servers.weft_ok(&["put", source, &path]);
        let stat = servers.stat(&path);
        let stripes = stat["layout"]["stripes"].as_array().expect("stripes");
        if stripes.iter().any(|s| s["data_server_id"] == id) {
            return name;
        }
    }
    panic!("no file is placed on data server {id}");
}

fn start(servers: &Servers, arguments: &[&str]) -> Child {
    servers.command(arguments).spawn().expect("weft starts")
}

fn finished(command: Child) -> Output {
    command.wait_with_output().expect("wait")
}

/// Runs something that must not take long.
fn within<T>(limit: Duration, work: impl FnOnce() -> T) -> T {
    let began = Instant::now();
    let done = work();
    assert!(began.elapsed() < limit, "it took {:?}", began.elapsed());
    done
}

fn until_holding(servers: &Servers, id: u32, bytes: usize) {
    support::until("data at the data server", PATIENCE, || {
        (servers.objects(id).1 >= bytes as u64).then_some(())
    });
}

fn no_objects_remain(servers: &Servers) {
    for id in 1..=4 {
        support::until("end of the objects", PATIENCE, || {
            (servers.objects(id).0 == 0).then_some(())
        });
    }
}

fn block_on<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    runtime.expect("a runtime").block_on(work)
}

fn address(servers: &Servers) -> SocketAddr {
    ([127, 0, 0, 1], servers.port()).into()
}

async fn connect(address: SocketAddr) -> Client {
    let options = ClientOptions { policy: IoPolicy::direct(), ..ClientOptions::default() };
    Client::connect(address, options).await.expect("connect")
}

/// What a power cut does to a dead data server's pages that nobody synced: the next start is in
/// another boot and takes another verifier.
fn forget_objects(servers: &Servers, id: u32) {
    std::fs::remove_file(servers.data_dir(&ds(id)).join("verifier")).expect("a verifier");
    let objects = servers.data_dir(&ds(id)).join("objects");
    std::fs::remove_dir_all(&objects)
        .and_then(|()| std::fs::create_dir(&objects))
        .expect("objects");
}

/// Writes so many bytes behind a file's end, durably.
async fn append(address: SocketAddr, name: &str, at: u64, bytes: usize) -> Result<(), FsError> {
    let client = connect(address).await;
    let options = OpenOptions { write: true, ..OpenOptions::default() };
    let file = client.open(name, options).await?;
    let written = file.write_at(at, vec![7; bytes].into()).await;
    let closed = file.close().await;
    client.close().await;
    written.and(closed)
}

fn truncate(address: SocketAddr, name: &str, size: u64) {
    block_on(async {
        let client = connect(address).await;
        let options = OpenOptions { write: true, ..OpenOptions::default() };
        let file = client.open(name, options).await.expect("open");
        file.truncate(size).await.expect("truncate");
        file.close().await.expect("close");
        client.close().await;
    });
}
