//! Exhibits about servers that start again.

use std::process::Stdio;
use std::time::{Duration, Instant};

use weft_client::blocking::Client;
use weft_client::fs::{ClientOptions, OpenOptions};

use crate::support;
use crate::support::cluster::{Cluster, Options};

const MIB: usize = 1 << 20;
/// A grace period nobody wants to wait for.
const LONG: u32 = 45;
/// Much less than that.
const AT_ONCE: Duration = Duration::from_secs(15);

fn cluster(lease_seconds: u32) -> Cluster {
    let grace_seconds = lease_seconds;
    let options = Options { data_servers: 2, lease_seconds, grace_seconds, ..Options::default() };
    Cluster::configured(options, "")
}

/// <https://github.com/nfs-ganesha/nfs-ganesha/issues/758>
#[test]
fn a_client_goes_on_as_soon_as_the_server_is_back() {
    let mut cluster = cluster(LONG);
    let server = ([127, 0, 0, 1], cluster.port()).into();
    let client = Client::connect(server, ClientOptions::default()).expect("connect");
    let file = client.open("/open", OpenOptions::replace(0o644)).expect("open");
    file.write_at(0, vec![b'x'; MIB].into()).expect("write");
    file.commit().expect("commit");
    cluster.restart();
    let began = Instant::now();
    file.write_at(MIB as u64, vec![b'y'; MIB].into()).expect("write");
    file.commit().expect("commit");
    client.write_file("/new", 0o644, b"made".to_vec().into()).expect("a new file");
    let took = began.elapsed();
    assert!(took < AT_ONCE, "the client waited {took:?}");
    file.close().expect("close");
    client.close().expect("close");
}

/// <https://github.com/2i2c-org/jupyterhub-home-nfs/issues/78>
#[test]
fn a_server_that_nobody_used_starts_without_grace() {
    let mut cluster = cluster(LONG);
    cluster.stop();
    cluster.start_again();
    let began = Instant::now();
    // An OPEN, which waits for the end of grace as a new name of a directory does not.
    let made = cluster.weft(&["put", "/etc/hostname", "/made"]);
    assert!(made.status.success(), "{}", support::words(&made));
    let took = began.elapsed();
    assert!(took < AT_ONCE, "the first client waited {took:?}");
}

/// <https://github.com/leil-io/leilfs/issues/68>
#[test]
fn a_copy_during_a_server_kill_arrives_whole() {
    const BYTES: usize = 160 * MIB;
    let mut cluster = cluster(10);
    let dir = tempfile::tempdir().expect("a folder");
    let source = dir.path().join("source");
    let data = support::pattern(68, BYTES);
    std::fs::write(&source, &data).expect("a source");
    let moved = |cluster: &Cluster| support::cluster::bytes_below(&cluster.data_dir());
    let before = moved(&cluster);
    let mut copy = std::process::Command::new(support::weft_binary())
        .args(["put", &source.to_string_lossy(), "/copy"])
        .env("WEFT_SERVER", format!("127.0.0.1:{}", cluster.port()))
        .stdin(Stdio::null())
        .spawn()
        .expect("weft starts");
    support::until("a part of the copy", Duration::from_secs(30), || {
        (moved(&cluster) > before + 8 * MIB as u64).then_some(())
    });
    assert!(copy.try_wait().expect("it runs").is_none(), "it was copied before the server died");
    cluster.restart();
    assert!(copy.wait().expect("it ends").success(), "the copy failed");
    let there = cluster.weft(&["cat", "/copy"]).stdout;
    assert!(there == data, "{} other bytes than were copied", there.len());
    cluster.stop();
    cluster.is_clean();
}
