//! xfstests, with which Linux's file systems are judged, on the unmodified Linux client: a
//! selection of some minutes here, any of it and knfsd beside Weft in `./dev xfstests`.
//!
//! Environment: WEFT_XFSTESTS, the folder of an xfstests that was built; without it nothing is
//! tested. For `./dev xfstests` alone: WEFT_XFSTESTS_LIST (words for its `check`),
//! WEFT_XFSTESTS_SERVERS (with a space between), WEFT_KNFSD (the folder of knfsd's programs),
//! WEFT_XFSTESTS_OUT (a folder for what is left), WEFT_XFSTESTS_BLOCK (bytes of a READ or WRITE;
//! 65536), WEFT_XFSTESTS_KERNEL (6.1, 6.12 or uml; uml), WEFT_XFSTESTS_SECONDS (for one test; 300,
//! four times as many where the kernel is emulated).

mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use support::cluster::{Cluster, Options};
use support::disk::{Disk, Kind};
use support::guest::{Guest, Kernel};

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
/// Size of a server's disk, of which little is ever used.
const DISK_MIB: u64 = 24 << 10;
/// Memory of the guest, some of whose tests map large files.
const MEMORY_MIB: u32 = 1536;
/// Seconds that a test may take on a busy machine; most take five.
const TEST_SECONDS: u64 = 300;
/// How much slower what is emulated may be.
const EMULATED: u64 = 4;
/// Bytes of a READ or WRITE, which Linux makes the block size of a mount. Many tests work on some
/// thousand blocks, and would take long with the most that servers offer.
const BLOCK: &str = "65536";
/// Seconds for the selection, and for any list.
const SELECTION_SECONDS: u32 = 900;
const LIST_SECONDS: u32 = 24 * 3600;
/// Tests of others that may fail here.
const EXPECTED: &str = "tests/guest/xfstests-expected.txt";
/// What a guest that is emulated gets of this machine's programs: copies, so no more than it needs.
const USR: [&str; 6] =
    ["bin", "sbin", "lib64", "lib/x86_64-linux-gnu", "share/perl", "share/perl5"];
/// What the guest needs of this machine's `/etc` beside what it makes itself.
const ETC: [&str; 5] = ["ld.so.cache", "protocols", "services", "netconfig", "mke2fs.conf"];

const WEFT: &str = "weft";
const KNFSD: &str = "knfsd";
const PASSED: &str = "passed";
const FAILED: &str = "FAILED";
const SKIPPED: &str = "skipped";
/// Of a test in the list that fails and passes.
const SOMETIMES: &str = "sometimes";

/// What became of the tests that were asked for, by name.
type Outcomes = BTreeMap<String, Outcome>;

struct Outcome {
    /// `passed`, `FAILED` or `skipped`.
    what: String,
    reason: String,
}

#[test]
fn a_selection_passes() {
    let Some(xfstests) = support::folder("WEFT_XFSTESTS") else { return };
    let words = SELECTION.iter().flat_map(|line| line.split_whitespace());
    let full_name = |word: &str| match word.contains('/') {
        true => word.to_owned(),
        false => format!("generic/{word}"),
    };
    let asked: BTreeSet<String> = words.map(full_name).collect();
    let list = asked.iter().cloned().collect::<Vec<_>>().join(" ");
    let outcomes = judge(Kernel::Uml, WEFT, &xfstests, &list, SELECTION_SECONDS);
    let Some(outcomes) = outcomes else { return };
    let ran = |name: &String| outcomes.get(name).is_some_and(|outcome| outcome.what != SKIPPED);
    let left_out: Vec<_> = asked.into_iter().filter(|name| !ran(name)).collect();
    assert!(left_out.is_empty(), "not run: {left_out:?}");
    as_expected(&outcomes);
}

/// What `./dev xfstests` asks for.
#[test]
fn a_list_is_judged() {
    let Ok(list) = std::env::var("WEFT_XFSTESTS_LIST") else { return };
    let servers = std::env::var("WEFT_XFSTESTS_SERVERS").expect("WEFT_XFSTESTS_SERVERS");
    let xfstests = support::folder("WEFT_XFSTESTS").expect("WEFT_XFSTESTS");
    let kernel = kernel();
    let mut all = BTreeMap::new();
    for server in servers.split_whitespace() {
        let outcomes = judge(kernel, server, &xfstests, &list, LIST_SECONDS).expect("a guest");
        all.insert(server, outcomes);
    }
    for (server, outcomes) in &all {
        let count = |what| names(outcomes, what).count();
        let [passed, failed, skipped] = [PASSED, FAILED, SKIPPED].map(count);
        eprintln!("{server}: {passed} passed, {failed} failed, {skipped} not run");
    }
    if let (Some(weft), Some(knfsd)) = (all.get(WEFT), all.get(KNFSD)) {
        tell_differences(weft, knfsd);
    }
    if let Some(weft) = all.get(WEFT) {
        as_expected(weft);
    }
}

/// Runs tests on a server, saying each outcome when it is known; none where this machine cannot.
fn judge(
    kernel: Kernel,
    server: &str,
    xfstests: &Path,
    list: &str,
    seconds: u32,
) -> Option<Outcomes> {
    let guest = guest(kernel, server, xfstests)?.seconds(seconds);
    let slower = if kernel == Kernel::Uml { 1 } else { EMULATED };
    let test_seconds = weft_dev::env("WEFT_XFSTESTS_SECONDS").unwrap_or(TEST_SECONDS) * slower;
    let run = |guest: Guest, ports: [u16; 2]| {
        let block = std::env::var("WEFT_XFSTESTS_BLOCK").unwrap_or_else(|_| BLOCK.to_owned());
        let guest = ports.into_iter().fold(guest.argument(server), Guest::argument);
        let guest = guest.argument(test_seconds).argument(block);
        let guest = list.split_whitespace().fold(guest, Guest::argument);
        let mut outcomes = Outcomes::new();
        let report = guest.run(&mut outcomes, |outcomes, words| note(server, outcomes, words));
        assert!(!outcomes.is_empty(), "{server}: nothing was run\n{}", report.stdout);
        if names(&outcomes, FAILED).next().is_some() {
            eprintln!("{}", report.stdout);
        }
        outcomes
    };
    if server == KNFSD {
        let programs = support::folder("WEFT_KNFSD").expect("WEFT_KNFSD");
        return Some(run(guest.share(&programs, "/new/knfsd"), [0; 2]));
    }
    let disks = [(); 2].map(|()| Disk::new(Kind::Xfs, DISK_MIB));
    let mut clusters = disks
        .each_ref()
        .map(|disk| Cluster::on_disk(Options::default(), "", &disk.at().join("data")));
    let outcomes = run(guest, clusters.each_ref().map(Cluster::port));
    for cluster in &mut clusters {
        cluster.stop();
        cluster.is_clean();
    }
    Some(outcomes)
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

/// A guest with the programs of this machine, and xfstests.
fn guest(kernel: Kernel, server: &str, xfstests: &Path) -> Option<Guest> {
    let guest = Guest::new(kernel, "xfstests.sh")?
        .memory(MEMORY_MIB)
        .share(Path::new("/etc/alternatives"), "/job/alternatives")
        .share(xfstests, "/new/xfstests");
    let folder = |guest: Guest, name: &str| match Path::new("/usr").join(name) {
        dir if dir.is_dir() => guest.share(&dir, &format!("/new/usr/{name}")),
        _ => guest,
    };
    let guest = match kernel {
        Kernel::Uml => guest.share(Path::new("/usr"), "/new/usr"),
        _ => USR.into_iter().fold(guest, folder),
    };
    let guest = match std::env::var_os("WEFT_XFSTESTS_OUT") {
        Some(out) => guest.keep(&PathBuf::from(out).join(server)),
        None => guest,
    };
    let etc = |guest: Guest, name: &&str| {
        guest.file_as(&Path::new("/etc").join(name), &format!("/job/etc/{name}"))
    };
    Some(ETC.iter().fold(guest, etc))
}

/// Takes down and prints `OUTCOME NAME SECONDS REASON`.
fn note(server: &str, outcomes: &mut Outcomes, words: &str) -> Result<(), String> {
    let parts: Vec<&str> = words.splitn(4, ' ').collect();
    let [what, name, seconds] = parts[..3] else { return Err("what of which test?".to_owned()) };
    let reason = parts.get(3).map_or("", |reason| reason.trim()).to_owned();
    eprintln!("{server} {name} {what} {seconds} s {reason}");
    outcomes.insert(name.to_owned(), Outcome { what: what.to_owned(), reason });
    Ok(())
}

/// Names of the tests with an outcome.
fn names<'a>(outcomes: &'a Outcomes, what: &'a str) -> impl Iterator<Item = &'a str> {
    let found = outcomes.iter().filter(move |(_, outcome)| outcome.what == what);
    found.map(|(name, _)| name.as_str())
}

/// Prints what did not end alike.
fn tell_differences(weft: &Outcomes, knfsd: &Outcomes) {
    for (name, here) in weft {
        let Some(there) = knfsd.get(name).filter(|there| there.what != here.what) else { continue };
        let told = [(WEFT, here), (KNFSD, there)]
            .map(|(server, outcome)| format!("{server} {} {}", outcome.what, outcome.reason));
        eprintln!("differs: {name}: {}", told.map(|text| text.trim().to_owned()).join("; "));
    }
}

/// Only tests fail of which the list says so, and those do, unless they do so only `sometimes`.
fn as_expected(outcomes: &Outcomes) {
    let listed = support::expected(EXPECTED, WEFT);
    let is = |how: &str, name: &str| listed.contains(&format!("{how} {name}"));
    let unexpected: Vec<_> =
        names(outcomes, FAILED).filter(|name| !is(FAILED, name) && !is(SOMETIMES, name)).collect();
    assert!(unexpected.is_empty(), "fail, and are not in {EXPECTED}: {unexpected:?}");
    let mended: Vec<_> = names(outcomes, PASSED).filter(|name| is(FAILED, name)).collect();
    assert!(mended.is_empty(), "pass, and are in {EXPECTED}: {mended:?}");
}
