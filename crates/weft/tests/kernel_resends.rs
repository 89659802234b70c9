//! Data servers go away between WRITE and COMMIT of an unmodified Linux client. Bytes that it sends
//! again after its close has returned never land on those that others wrote since (ADR 43).

mod support;

use support::guest::{Guest, Kernel};
use support::servers::{Plan, Servers, ds};
use weft_client::blocking::Client;
use weft_client::fs::{ClientOptions, OpenOptions};

/// Several stripe units on each data server.
const BYTES: usize = 6 << 20;
/// Of what the other client writes: shorter, so that what lands behind it is seen too.
const SHORTER: usize = 3 << 20;

/// Nothing is lost, since their machine lives.
#[test]
fn data_servers_die_before_the_commit() {
    resend("", false);
}

/// A file that is delegated is flushed again when another client wants it; this one is not.
#[test]
fn data_servers_die_before_the_commit_of_a_file_that_is_not_delegated() {
    resend("write_delegations = false\n", false);
}

/// A data server that takes another verifier, as on each start with Linux before 6.8, may have lost
/// what was written, and the client has to write it again.
#[test]
fn data_servers_boot_before_the_commit() {
    resend("write_delegations = false\n", true);
}

/// There COMMIT goes to the data server, and nobody is told that it failed.
#[test]
fn a_data_server_dies_before_the_commit_of_a_whole_file() {
    let plan = Plan { data_servers: 1, stripe_width: 1, flexfiles: true, ..Plan::default() };
    resend_of(plan, "write_delegations = false\n", false);
}

fn resend(export: &str, boot: bool) {
    resend_of(Plan::default(), export, boot);
}

fn resend_of(plan: Plan, export: &str, boot: bool) {
    let Some(guest) = Guest::new(Kernel::Uml, "resends.sh") else { return };
    let mut servers = Servers::prepare(plan);
    servers.export(export);
    let all = 1..=plan.data_servers;
    all.clone().for_each(|id| servers.start_ds(id));
    servers.start_mds();
    servers.until_reachable(plan.data_servers);
    let address = ([127, 0, 0, 1], servers.port()).into();
    let other = Client::connect(address, ClientOptions::default()).expect("a client");
    let guest = guest.program("sent").argument(servers.port()).argument(BYTES);
    guest.run(&mut servers, |servers, words| {
        match words {
            "kill" => all.clone().for_each(|id| servers.kill9(&ds(id))),
            "start" => {
                for id in all.clone() {
                    if boot {
                        let verifier = servers.data_dir(&ds(id)).join("verifier");
                        std::fs::remove_file(verifier).expect("a verifier");
                    }
                    servers.start_ds(id);
                }
                servers.until_reachable(plan.data_servers);
            }
            "replace" => {
                let options = OpenOptions { write: true, truncate: true, ..OpenOptions::default() };
                let file = other.open("/file", options).expect("open");
                file.write_at(0, vec![b'n'; SHORTER].into()).expect("write");
                file.close().expect("close");
            }
            "look" => {
                let bytes = servers.weft(&["cat", "/file"]).stdout;
                let old = bytes.iter().filter(|byte| **byte != b'n').count();
                assert!(bytes.len() == SHORTER && old == 0, "{} bytes, {old} wrong", bytes.len());
            }
            _ => return Err("not a command of this test".to_owned()),
        }
        Ok(())
    });
}
