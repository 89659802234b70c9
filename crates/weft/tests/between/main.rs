//! Somebody stands between the metadata server and its data servers, knows no secret of the
//! cluster, and reads, changes, repeats and redirects what they say to each other.

mod relay;
#[path = "../support/mod.rs"]
mod support;

use std::time::Duration;

use relay::{Relay, repeat};
use support::servers::{Plan, Servers, ds};

const BYTES: usize = 1 << 20;
const PATIENCE: Duration = Duration::from_secs(60);

/// REMOVE of the control program, and where its arguments begin in an RPC call without a
/// credential (RFC 5531 §9).
const REMOVE: [u8; 4] = [0, 0, 0, 6];
const PROCEDURE_AT: usize = 20;
const ARGUMENTS_AT: usize = 40;

/// Two data servers, the first of them behind a relay, and two files on it.
struct Cluster {
    servers: Servers,
    relay: Relay,
}

impl Cluster {
    fn start() -> Cluster {
        let plan = Plan { data_servers: 2, stripe_width: 1, ..Plan::default() };
        let mut servers = Servers::prepare(plan);
        let relay = Relay::start(servers.ds_address(1));
        servers.reach_by(1, relay.address);
        servers.start_ds(1);
        servers.start_mds();
        servers.until_reachable(1);
        let cluster = Cluster { servers, relay };
        cluster.put("/a", 1);
        cluster.put("/b", 2);
        cluster
    }

    fn put(&self, name: &str, seed: u64) {
        let source = self.servers.source(seed, BYTES);
        self.servers.weft_ok(&["put", &source, name]);
    }

    fn inode(&self, name: &str) -> u64 {
        self.servers.stat(name)["fileid"].as_u64().expect("a number")
    }

    fn until_objects(&self, count: usize) {
        support::until("removal of an object", PATIENCE, || {
            (self.servers.objects(1).0 == count).then_some(())
        });
    }

    /// All that was ever said to the data server and went through the relay is right, and things
    /// can be done.
    fn is_well(&self, seed: u64) {
        self.servers.verify("/b", 2, BYTES);
        self.put("/new", seed);
        self.servers.verify("/new", seed, BYTES);
        self.servers.weft_ok(&["rm", "/new"]);
    }
}

/// The name of an object to remove is made that of another.
#[test]
fn nothing_is_removed_in_anothers_place() {
    let cluster = Cluster::start();
    let (a, b) = (cluster.inode("/a").to_be_bytes(), cluster.inode("/b").to_be_bytes());
    cluster.relay.play(move |_, mut record| {
        if record.get(PROCEDURE_AT..PROCEDURE_AT + 4) == Some(&REMOVE) {
            for name in record[ARGUMENTS_AT + 4..].chunks_exact_mut(12) {
                if name[4..] == a {
                    name[4..].copy_from_slice(&b);
                }
            }
        }
        vec![record]
    });
    cluster.servers.weft_ok(&["rm", "/a"]);
    cluster.until_objects(1);
    cluster.is_well(3);
}

/// Names of objects and procedures are not to be read; a bit changed, a record repeated, left out
/// or swapped ends the connection before anything comes of it, and the next one works.
#[test]
fn what_is_tampered_with_ends_the_connection() {
    let cluster = Cluster::start();
    let sealed = cluster.relay.heard().into_iter().flatten().flatten().collect::<Vec<_>>();
    let plain = 0x2057_4654_u32.to_be_bytes();
    assert!(!sealed.windows(4).any(|w| w == plain), "the control program's number is sealed");
    type Change = fn(Vec<u8>, &mut Vec<Vec<u8>>) -> Vec<Vec<u8>>;
    let changes: [(&str, Change); 5] = [
        ("a changed bit", |mut r, _| {
            let middle = r.len() / 2;
            r[middle] ^= 4;
            vec![r]
        }),
        ("a repeated record", |r, _| vec![r.clone(), r]),
        ("a record that is left out", |_, _| vec![]),
        ("a swapped record", |r, held| match held.pop() {
            Some(before) => vec![r, before],
            None => {
                held.push(r);
                vec![]
            }
        }),
        ("a record of one's own", |r, _| vec![b"\0\0\0\x07\0\0\0\0\0\0\0\x02 WFT".to_vec(), r]),
    ];
    for (seed, (what, change)) in (10..).zip(changes) {
        let ended = || cluster.servers.logs_of("mds").matches("data server lost").count();
        let (before, mut held, mut left) = (ended(), Vec::new(), 2);
        cluster.relay.play(move |number, record| {
            // Behind the greeting, and only so often that the next connection works.
            if number < 6 || left == 0 {
                return vec![record];
            }
            left -= 1;
            change(record, &mut held)
        });
        support::until(what, PATIENCE, || (ended() > before).then_some(()));
        cluster.is_well(seed);
        cluster.servers.verify("/a", 1, BYTES);
    }
    let log = cluster.servers.logs_of(&ds(1));
    assert!(log.matches("a record was tampered with").count() >= 4, "{log}");
}

/// Everything that was ever said is said again, to the same and to another data server, which has
/// the same secret: nothing comes of it.
#[test]
fn what_is_repeated_is_no_conversation() {
    let mut cluster = Cluster::start();
    cluster.servers.weft_ok(&["rm", "/a"]);
    cluster.until_objects(1);
    cluster.servers.start_ds(2);
    cluster.servers.until_reachable(2);
    let heard = cluster.relay.heard();
    let greeted = |records: &&Vec<Vec<u8>>| records[0].starts_with(b"WEFTctrl");
    let secure: Vec<_> = heard.iter().filter(|r| r.len() > 3).filter(greeted).collect();
    assert!(!secure.is_empty(), "the relay has heard a conversation");
    for records in secure {
        let answer = repeat(cluster.servers.ds_address(1), records);
        assert!(answer < 200, "{answer} bytes: more than the answer to a greeting");
        let answer = repeat(cluster.servers.ds_address(2), records);
        assert!(answer < 100, "{answer} bytes: more than a refusal");
    }
    let log = cluster.servers.logs_of(&ds(2));
    assert!(log.contains("looks for another data server here"), "{log}");
    cluster.is_well(4);
}

/// Who takes a data server's place and passes everything on to another is not taken for it, whether
/// or not it changes the number that is asked for.
#[test]
fn a_data_server_is_not_another() {
    let mut cluster = Cluster::start();
    let impostor = Relay::start(cluster.servers.ds_address(1));
    impostor.play(|number, mut record| {
        if number == 0 {
            record[12..16].copy_from_slice(&1u32.to_be_bytes());
        }
        vec![record]
    });
    cluster.servers.reach_by(2, impostor.address);
    cluster.servers.restart_mds();
    cluster.servers.until_reachable(1);
    let why = support::until("a refusal", PATIENCE, || {
        let (reached, why) = cluster.servers.status().remove(&2)?;
        assert!(!reached, "data server 1 is taken for data server 2");
        why.contains("data server 1").then_some(why).or_else(|| {
            cluster
                .servers
                .logs_of("mds")
                .contains("does not know our cluster secret")
                .then(String::new)
        })
    });
    println!("{why}");
    cluster.is_well(5);
    cluster.servers.verify("/a", 1, BYTES);
}
