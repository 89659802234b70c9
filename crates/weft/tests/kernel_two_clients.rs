//! Two unmodified Linux clients at once: each sees what the other did as promised, locks exclude,
//! and delegations and layouts come back when the other needs the file, or when their holder is
//! dead.

mod support;

use std::path::Path;

use support::cluster::{Cluster, Options};
use support::guest::{Guest, Kernel};
use support::pair;

/// The part after which one guest is dead.
const DEATH: &str = "death";

/// Who writes alone is not delegated the file.
const UNDELEGATED: &str =
    "[export]\nroot_squash = false\nprivileged_ports = false\nwrite_delegations = false\n";

#[test]
fn two_newest_kernels_share_a_server() {
    let parts = ["data", "locks", "delegations", "layouts", "names", DEATH];
    share_a_server([Kernel::Uml, Kernel::Uml], "4.2", &parts);
}

#[test]
fn two_newest_kernels_share_a_server_that_delegates_no_writes() {
    let parts = ["data", "locks", "delegations", "layouts", "names", DEATH];
    share_with([Kernel::Uml, Kernel::Uml], "4.2", &parts, &[], UNDELEGATED);
}

#[test]
fn kernels_6_1_and_6_12_share_a_server_that_delegates_no_writes() {
    let parts = ["data", "delegations", "layouts"];
    share_with([Kernel::V6_1, Kernel::V6_12], "4.2", &parts, &[], UNDELEGATED);
}

#[test]
fn kernel_6_12_and_newest_kernel_share_a_server() {
    share_a_server([Kernel::V6_12, Kernel::Uml], "4.1", &["locks", "delegations", "layouts"]);
}

#[test]
fn kernel_6_1_and_6_12_share_a_server() {
    share_a_server([Kernel::V6_1, Kernel::V6_12], "4.2", &["data", "delegations", DEATH]);
}

/// With xfstests' fsstress, where `./dev xfstests` has built it.
#[test]
fn two_newest_kernels_stress_a_server() {
    let Some(xfstests) = support::folder("WEFT_XFSTESTS") else { return };
    let fsstress = xfstests.join("ltp/fsstress");
    share_with([Kernel::Uml, Kernel::Uml], "4.2", &["stress"], &[&fsstress], "");
}

/// Runs parts of the script in two guests at once; they agree, and so do the servers' files.
fn share_a_server(kernels: [Kernel; 2], version: &str, parts: &[&str]) {
    share_with(kernels, version, parts, &[], "");
}

/// The same, with programs of this machine that the parts want, of a server that is configured so.
fn share_with(
    kernels: [Kernel; 2],
    version: &str,
    parts: &[&str],
    programs: &[&Path],
    config: &str,
) {
    let [Some(a), Some(b)] = kernels.map(|kernel| Guest::new(kernel, "two-clients.sh")) else {
        return;
    };
    let mut cluster = match config {
        "" => Cluster::start(Options::default()),
        config => Cluster::configured(Options::default(), config),
    };
    let prepare = |guest: Guest, role: &str| {
        let repository = support::repository();
        let guest = guest.program("ranges").program("locker");
        let guest = guest.file_as(&repository.join("crates/weft-stripe"), "/job/tree");
        let guest = programs.iter().fold(guest, |guest, program| guest.host_program(program));
        let guest = guest.argument(role).argument(version).argument(cluster.port());
        parts.iter().fold(guest, |guest, part| {
            guest.argument(part).file(&repository.join(format!("tests/guest/two-{part}.sh")))
        })
    };
    let (a, b) = (prepare(a, "a"), prepare(b, "b"));
    let dies = parts.last() == Some(&DEATH);
    let a = if dies { a.dies() } else { a };
    let [_, b] = pair::run([a, b], &|words| match words {
        "calm" => calm(&cluster),
        _ => Err("not a command of this test".to_owned()),
    });
    for part in parts {
        assert!(b.number(version, part) > 0, "{part} took no step");
    }
    if !dies {
        calm(&cluster).unwrap();
    }
    cluster.stop();
    cluster.is_clean();
}

/// The server says so when it takes away by force what a client did not give back.
fn calm(cluster: &Cluster) -> Result<(), String> {
    let log = cluster.log();
    if log.contains("revoked") { Err(log) } else { Ok(()) }
}
