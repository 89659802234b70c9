//! Programs on the unmodified Linux client see what they see on a local file system.

mod support;

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
