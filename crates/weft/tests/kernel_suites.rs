//! Programs that others wrote to judge file systems, and a stress test of our own that knows what
//! must be there, on the unmodified Linux client.
//!
//! Environment, for the long run (`./dev long suites`): WEFT_SUITE_VERSIONS (the protocol versions,
//! with a space between), WEFT_FSX_OPERATIONS, WEFT_STRESS_OPERATIONS, WEFT_SEED.

mod support;

use std::collections::BTreeSet;
use std::path::Path;

use support::cluster::{Cluster, Options};
use support::guest::{Guest, Kernel, Report};
use support::suites::{program, setting};

/// Operations of one run of fsx; there are two for each version, with and without mappings.
const FSX_OPERATIONS: u32 = 1_500;
/// Operations of each of the four processes of stress.
const STRESS_OPERATIONS: u32 = 600;
/// Tests of pjdfstest 0.2.2 that pass at the least: fewer means it was not run in earnest.
const PJDFSTEST_PASSES_MIN: u64 = 390;
/// Operations a second that even an emulated kernel on a busy machine does.
const OPERATIONS_A_SECOND_MIN: u32 = 10;

#[test]
fn kernel_6_1_passes_the_suites() {
    passes_the_suites(Kernel::V6_1, "4.1");
}

#[test]
fn kernel_6_12_passes_the_suites() {
    passes_the_suites(Kernel::V6_12, "4.2");
}

#[test]
fn newest_kernel_passes_the_suites() {
    passes_the_suites(Kernel::Uml, "4.2");
}

fn passes_the_suites(kernel: Kernel, version: &str) {
    let Some(guest) = Guest::new(kernel, "suites.sh") else { return };
    let (Some(pjdfstest), Some(fsx)) = (program("pjdfstest"), program("fsx")) else { return };
    let versions = setting("WEFT_SUITE_VERSIONS", version.to_owned());
    let fsx_operations = setting("WEFT_FSX_OPERATIONS", FSX_OPERATIONS);
    let stress_operations = setting("WEFT_STRESS_OPERATIONS", STRESS_OPERATIONS);
    let seed = setting("WEFT_SEED", std::process::id());
    eprintln!("seed {seed}");
    let mut cluster = Cluster::start(Options { cache: "direct", ..Options::default() });
    let mut guest = guest
        .program("stress")
        .host_program(&pjdfstest)
        .host_program(&fsx)
        .host_program(Path::new("/usr/bin/sleep"))
        .seconds(400 + 2 * (2 * fsx_operations + 4 * stress_operations) / OPERATIONS_A_SECOND_MIN)
        .argument(cluster.port())
        .argument(seed)
        .argument(fsx_operations)
        .argument(stress_operations);
    for version in versions.split_whitespace() {
        guest = guest.argument(version);
    }
    let report = guest.run(&mut cluster, |_, _| Err("this test has no host commands".to_owned()));
    for version in versions.split_whitespace() {
        let passed = report.number(version, "pjdfstest");
        assert!(passed >= PJDFSTEST_PASSES_MIN, "vers={version}: pjdfstest passed {passed} only");
        assert_eq!(
            unpassed(&report, version),
            support::expected("tests/guest/pjdfstest-expected.txt", kernel.name()),
            "vers={version}: left has, right expects"
        );
        assert_eq!(report.number(version, "fsx"), u64::from(fsx_operations));
        assert_eq!(report.number(version, "stress"), u64::from(stress_operations));
        assert!(report.number(version, "pnfs") > 0, "vers={version} used no layout");
    }
}

/// `OUTCOME NAME` of each test of pjdfstest that did not pass.
fn unpassed(report: &Report, version: &str) -> BTreeSet<String> {
    let start = format!("pjdfstest {version} ");
    report.stdout.lines().filter_map(|line| line.strip_prefix(&start)).map(str::to_owned).collect()
}
