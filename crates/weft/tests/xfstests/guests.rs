//! xfstests in a guest: Linux' NFS client on Weft, and on the guest's own server.

use std::path::{Path, PathBuf};

use super::clusters::Clusters;
use super::outcomes::{FAILED, Outcomes, names, note};
use super::support;
use super::support::guest::{Guest, Kernel};
use super::{KNFSD, test_seconds};

/// Memory of the guest, some of whose tests map large files.
const MEMORY_MIB: u32 = 1536;
/// Factor by which an emulated kernel may be slower.
const EMULATED: u64 = 4;
/// Bytes of a READ or WRITE, which Linux makes the block size of a mount. Many tests work on some
/// thousand blocks, and would take long with the most that servers offer.
const BLOCK: &str = "65536";
/// Folders of this machine's programs for an emulated guest: copies, so no more than it needs.
const USR: [&str; 6] =
    ["bin", "sbin", "lib64", "lib/x86_64-linux-gnu", "share/perl", "share/perl5"];
/// Entries of this machine's `/etc` that the guest needs beside those that it makes itself.
const ETC: [&str; 5] = ["ld.so.cache", "protocols", "services", "netconfig", "mke2fs.conf"];
/// Steps shared by the scripts that run xfstests.
const STEPS: &str = "tests/guest/xfstests-steps.sh";

/// Runs tests on a server, saying each outcome when it is known; none where this machine cannot.
pub fn judge(
    kernel: Kernel,
    server: &str,
    xfstests: &Path,
    list: &str,
    seconds: u32,
) -> Option<Outcomes> {
    let guest = guest(kernel, server, xfstests)?.seconds(seconds);
    let slower = if kernel == Kernel::Uml { 1 } else { EMULATED };
    let run = |guest: Guest, ports: [u16; 2]| {
        let block = std::env::var("WEFT_XFSTESTS_BLOCK").unwrap_or_else(|_| BLOCK.to_owned());
        let guest = ports.into_iter().fold(guest.argument(server), Guest::argument);
        let guest = guest.argument(test_seconds() * slower).argument(block);
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
    let clusters = Clusters::start();
    let outcomes = run(guest, clusters.ports());
    clusters.are_clean();
    Some(outcomes)
}

/// A guest with the programs of this machine, and xfstests.
fn guest(kernel: Kernel, server: &str, xfstests: &Path) -> Option<Guest> {
    let guest = Guest::new(kernel, "xfstests.sh")?
        .memory(MEMORY_MIB)
        .file(&support::repository().join(STEPS))
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
