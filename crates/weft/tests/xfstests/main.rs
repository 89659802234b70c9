//! xfstests, with which Linux's file systems are judged, on the unmodified Linux client and on
//! `weft mount`: selections of some minutes here, any list and a peer in `./dev xfstests`.
//!
//! Environment: WEFT_XFSTESTS, the folder of an xfstests that was built; without it nothing is
//! tested. For `./dev xfstests` alone: WEFT_XFSTESTS_LIST (words for its `check`),
//! WEFT_XFSTESTS_SERVERS (with a space between: `weft` and `knfsd` under Linux' NFS client, `mount`
//! and `passthrough` by FUSE), WEFT_KNFSD (the folder of knfsd's programs), WEFT_PASSTHROUGH (that
//! of libfuse's example), WEFT_XFSTESTS_OUT (a folder for what is left), WEFT_XFSTESTS_BLOCK (bytes
//! of a READ or WRITE; 65536), WEFT_XFSTESTS_KERNEL (6.1, 6.12 or uml; uml), WEFT_XFSTESTS_SECONDS
//! (for one test; 300, four times as many where the kernel is emulated).

mod clusters;
mod guests;
mod mounts;
mod outcomes;
#[path = "../support/mod.rs"]
mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use outcomes::{FAILED, Outcomes, PASSED, SKIPPED, as_expected, names, tell_differences};
use support::guest::Kernel;

/// What runs with every change: quick ones, of what programs see most and what was wrong once. A
/// number alone is of `generic`.
const SELECTION: &[&str] = &[
    // names and directories
    "002 005 035 084 245 309 736",
    // who may, times, attributes, access control lists
    "087 126 193 313 355 378 523 683 684 685 nfs/001",
    // reading and writing, asynchronous and direct, locks, mappings
    "103 131 141 198 207 210 214 246 248 450",
    // holes, copies, clones
    "430 434 436 445 539 116 139 142 148 303 673",
];
/// The same on `weft mount`: fsx with mappings and holes, set-id bits, locks, direct I/O.
const MOUNT_SELECTION: &[&str] = &[
    "001 006 028 070 075 080 084 095 103 112 113 124 131 141 198 207 210 246 247 248 263 286 309",
    "355 391 430 433 446 460 478 490 523 571 591 647 680 683 684 706 708 729 736 749 759 760",
];
/// Seconds that a test may take on a busy machine; most take five.
const TEST_SECONDS: u64 = 300;
/// Seconds for the selection, and for any list, in a guest.
const SELECTION_SECONDS: u32 = 900;
const LIST_SECONDS: u32 = 24 * 3600;

const WEFT: &str = "weft";
const KNFSD: &str = "knfsd";
const MOUNT: &str = "mount";
const PASSTHROUGH: &str = "passthrough";
/// Which is judged beside which.
const PEERS: [(&str, &str); 2] = [(WEFT, KNFSD), (MOUNT, PASSTHROUGH)];

#[test]
fn a_selection_passes() {
    let Some(xfstests) = support::folder("WEFT_XFSTESTS") else { return };
    let asked = full_names(SELECTION);
    let outcomes = guests::judge(Kernel::Uml, WEFT, &xfstests, &joined(&asked), SELECTION_SECONDS);
    let Some(outcomes) = outcomes else { return };
    all_ran(&asked, &outcomes);
    as_expected(WEFT, &outcomes);
}

#[test]
fn a_selection_passes_on_a_mount() {
    let Some(xfstests) = support::folder("WEFT_XFSTESTS") else { return };
    let asked = full_names(MOUNT_SELECTION);
    let outcomes = mounts::judge(MOUNT, &xfstests, &joined(&asked));
    all_ran(&asked, &outcomes);
    as_expected(MOUNT, &outcomes);
}

/// What `./dev xfstests` asks for.
#[test]
fn a_list_is_judged() {
    let Ok(list) = std::env::var("WEFT_XFSTESTS_LIST") else { return };
    let servers = std::env::var("WEFT_XFSTESTS_SERVERS").expect("WEFT_XFSTESTS_SERVERS");
    let xfstests = support::folder("WEFT_XFSTESTS").expect("WEFT_XFSTESTS");
    let mut all = BTreeMap::new();
    for server in servers.split_whitespace() {
        all.insert(server, judge(server, &xfstests, &list));
    }
    for (server, outcomes) in &all {
        let count = |what| names(outcomes, what).count();
        let [passed, failed, skipped] = [PASSED, FAILED, SKIPPED].map(count);
        eprintln!("{server}: {passed} passed, {failed} failed, {skipped} not run");
    }
    for (here, there) in PEERS {
        let Some(outcomes) = all.get(here) else { continue };
        if let Some(others) = all.get(there) {
            tell_differences((here, outcomes), (there, others));
        }
        as_expected(here, outcomes);
    }
}

fn judge(server: &str, xfstests: &Path, list: &str) -> Outcomes {
    match server {
        MOUNT | PASSTHROUGH => mounts::judge(server, xfstests, list),
        _ => guests::judge(kernel(), server, xfstests, list, LIST_SECONDS).expect("a guest"),
    }
}

/// Names of the tests that lines of a selection ask for.
fn full_names(lines: &[&str]) -> BTreeSet<String> {
    let words = lines.iter().flat_map(|line| line.split_whitespace());
    let full_name = |word: &str| match word.contains('/') {
        true => word.to_owned(),
        false => format!("generic/{word}"),
    };
    words.map(full_name).collect()
}

fn joined(names: &BTreeSet<String>) -> String {
    names.iter().cloned().collect::<Vec<_>>().join(" ")
}

fn all_ran(asked: &BTreeSet<String>, outcomes: &Outcomes) {
    let ran = |name: &String| outcomes.get(name).is_some_and(|outcome| outcome.what != SKIPPED);
    let left_out: Vec<_> = asked.iter().filter(|name| !ran(name)).collect();
    assert!(left_out.is_empty(), "not run: {left_out:?}");
}

/// Seconds that a test may take.
fn test_seconds() -> u64 {
    weft_dev::env("WEFT_XFSTESTS_SECONDS").unwrap_or(TEST_SECONDS)
}

/// The client that `./dev xfstests` asks for.
fn kernel() -> Kernel {
    match std::env::var("WEFT_XFSTESTS_KERNEL").as_deref() {
        Ok("uml") | Err(_) => Kernel::Uml,
        Ok("6.1") => Kernel::V6_1,
        Ok("6.12") => Kernel::V6_12,
        Ok(other) => panic!("WEFT_XFSTESTS_KERNEL: {other} is none of uml, 6.1 and 6.12"),
    }
}
