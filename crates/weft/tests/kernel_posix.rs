//! Programs on the unmodified Linux client see what they see on a local file system.

mod support;

use std::path::Path;

use support::cluster::{Cluster, Options};
use support::guest::{Guest, Kernel};

/// nfssmoke's tests of operations that version 4.1 does not have.
const SKIPS_4_1: &str = "xattr,fallocate,seek,clone";
/// Needs a file system below that shares blocks.
const SKIPS_4_2: &str = "clone";

#[test]
fn kernel_6_1_sees_a_posix_file_system() {
    sees_a_posix_file_system(Kernel::V6_1);
}

#[test]
fn kernel_6_12_sees_a_posix_file_system() {
    sees_a_posix_file_system(Kernel::V6_12);
}

#[test]
fn newest_kernel_sees_a_posix_file_system() {
    sees_a_posix_file_system(Kernel::Uml);
}

/// The same steps on tmpfs and on Weft give the same transcript, and nfssmoke passes.
fn sees_a_posix_file_system(kernel: Kernel) {
    let Some(guest) = Guest::new(kernel, "posix.sh") else { return };
    let mut cluster = Cluster::start(Options::default());
    let report = guest
        .program("nfssmoke")
        .file(&support::repository().join("tests/guest/posix-steps.sh"))
        .file_as(&support::repository().join("crates"), "/job/tree")
        .argument(cluster.port())
        .argument(SKIPS_4_1)
        .argument(SKIPS_4_2)
        .run(&mut cluster, |_, _| Err("this test has no host commands".to_owned()));
    for version in ["4.1", "4.2"] {
        assert!(report.number(version, "steps") > 100, "vers={version} ran too few steps");
    }
    // The servers did it, not the client behind the program's back.
    for operation in ["SEEK", "ALLOCATE", "DEALLOCATE", "COPY"] {
        assert!(report.number("4.2", operation) > 0, "no {operation}");
    }
}

/// Rounds of a file that grows while it is looked at. With a change attribute that was called
/// monotonic, the first of each of seven runs found the file too short.
const ROUNDS: u64 = 3;

#[test]
fn newest_kernel_never_sees_a_file_without_what_it_wrote() {
    let Some(guest) = Guest::new(Kernel::Uml, "growing.sh") else { return };
    let mut cluster = Cluster::start(Options::default());
    let guest = guest.program("growing").argument(cluster.port()).argument("4.2").argument(ROUNDS);
    let report = guest.run(&mut cluster, |_, _| Err("this test has no host commands".to_owned()));
    assert_eq!(report.number("growing", &ROUNDS.to_string()), 4000);
    let at_data_servers = cluster.status().data_servers.values().map(|d| d.bytes_in).sum::<u64>();
    assert!(at_data_servers >= ROUNDS * 4000 * 4096, "{at_data_servers} bytes at data servers");
}

/// What the guest's user land lacks, from this machine.
const LIST_TOOLS: [&str; 4] =
    ["/usr/bin/nfs4_setfacl", "/usr/bin/nfs4_getfacl", "/usr/bin/setpriv", "/usr/bin/cp"];

#[test]
fn kernel_6_12_users_keep_lists() {
    users_keep_lists(Kernel::V6_12, "4.1");
}

#[test]
fn newest_kernel_users_keep_lists() {
    users_keep_lists(Kernel::Uml, "4.2");
}

/// Access control lists by the tools that users have.
fn users_keep_lists(kernel: Kernel, version: &str) {
    let Some(mut guest) = Guest::new(kernel, "acl.sh") else { return };
    for tool in LIST_TOOLS {
        guest = guest.host_program(Path::new(tool));
    }
    let mut cluster = Cluster::start(Options::default());
    let guest = guest.argument(cluster.port()).argument(version);
    let report = guest.run(&mut cluster, |_, _| Err("this test has no host commands".to_owned()));
    assert_eq!(report.number(version, "parts"), 5);
}
