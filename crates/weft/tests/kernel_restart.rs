//! A mounted Linux client outlives its server: killed or stopped and started again, it recovers by
//! itself, with its open files, its locks and its data.

mod support;

use support::cluster::{Cluster, Options};
use support::guest::{Guest, Kernel};

#[test]
fn kernel_5_10_survives_a_server_restart() {
    survives_a_server_restart(Kernel::V5_10);
}

#[test]
fn kernel_6_1_survives_a_server_restart() {
    survives_a_server_restart(Kernel::V6_1);
}

#[test]
fn kernel_6_12_survives_a_server_restart() {
    survives_a_server_restart(Kernel::V6_12);
}

#[test]
fn kernel_7_3_survives_a_server_restart() {
    survives_a_server_restart(Kernel::V7_3);
}

#[test]
fn newest_kernel_survives_a_server_restart() {
    survives_a_server_restart(Kernel::Uml);
}

/// One kill -9 and one clean restart under load, with both minor versions.
fn survives_a_server_restart(kernel: Kernel) {
    let Some(guest) = Guest::new(kernel, "restart.sh") else { return };
    let mut cluster = Cluster::start(Options { cache: "direct", ..Options::default() });
    let report =
        guest.program("locker").argument(cluster.port()).run(&mut cluster, |cluster, words| {
            match words {
                "kill9" => cluster.kill9(),
                "stop" => cluster.stop(),
                "start" => cluster.start_again(),
                _ => return Err("not a command of this test".to_owned()),
            }
            Ok(())
        });
    for version in ["4.1", "4.2"] {
        assert_eq!(report.proof(version, "recovered"), "yes");
    }
}
