//! What directories choose for their files, by an unmodified Linux client: which data servers get
//! bytes, judged by every server's own counters (P1.3, ADR 37).

mod support;

use std::{collections::BTreeMap, path::Path};

use support::cluster::{Cluster, Counters, Options, Status};
use support::guest::{Guest, Kernel};

/// Size of each file, in MiB: whole turns of a list of three.
const MEBIBYTES: u64 = 24;
const FILE_BYTES: u64 = MEBIBYTES << 20;
/// What may pass by its way: a small start of the file.
const STRAY_MAX: u64 = 1 << 20;

#[test]
fn kernel_6_1_follows_directories() {
    follows_directories(Kernel::V6_1);
}

#[test]
fn newest_kernel_follows_directories() {
    follows_directories(Kernel::Uml);
}

/// A cyclic list of data servers 1, 1 and 3: two thirds and one third, and nothing elsewhere. One
/// data server: it gets all. Units that grow: all goes through the metadata server. Copies: what is
/// written does, and goes to three data servers, from each of which a third is read. Each is set by
/// setfattr in one directory and inherited by another.
fn follows_directories(kernel: Kernel) {
    let Some(guest) = Guest::new(kernel, "distributions.sh") else { return };
    let mut cluster = Cluster::start(Options::default());
    let programs = ["setfattr", "getfattr"].map(|name| format!("/usr/bin/{name}"));
    let guest = programs.iter().fold(guest, |guest, path| guest.host_program(Path::new(path)));
    let guest = guest.argument(cluster.port()).argument(MEBIBYTES);
    let mut samples = BTreeMap::new();
    let report = guest.run(&mut cluster, |cluster, words| match words.split_once(' ') {
        Some(("sample", name)) => {
            samples.insert(name.to_owned(), cluster.status());
            Ok(())
        }
        _ => Err("not a command of this test".to_owned()),
    });
    let inherited = report.proof("list", "inherited");
    assert_eq!(inherited, "distribution=cyclic_servers=1,1,3");
    for version in ["4.1", "4.2"] {
        let sample = |dir: &str, name: &str| &samples[&format!("{version}.{dir}.{name}")];
        let moved = |dir: &str, from: &str, to: &str, bytes: fn(&Counters) -> u64| {
            let (before, after): (&Status, &Status) = (sample(dir, from), sample(dir, to));
            let one = |(id, c): (&u64, &Counters)| bytes(c) - bytes(&before.data_servers[id]);
            let each: Vec<_> = after.data_servers.iter().map(one).collect();
            (bytes(&after.mds) - bytes(&before.mds), each)
        };
        let put = |dir| moved(dir, "idle", "written", |c| c.bytes_in);
        let got = |dir| moved(dir, "written", "read", |c| c.bytes_out);
        let about = |bytes: u64, wanted: u64| bytes.abs_diff(wanted) <= STRAY_MAX;
        for (mds, each) in [put("list"), got("list")] {
            assert!(mds <= STRAY_MAX, "vers={version}: {mds} bytes through the metadata server");
            let [one, two, three, four] = each[..] else { panic!("{each:?}") };
            assert_eq!((two, four), (0, 0), "vers={version}: {each:?}");
            let shares = about(one, FILE_BYTES / 3 * 2) && about(three, FILE_BYTES / 3);
            assert!(shares, "vers={version}: {each:?}");
        }
        for (mds, each) in [put("one"), got("one")] {
            assert!(mds <= STRAY_MAX, "vers={version}: {mds} bytes through the metadata server");
            let some: Vec<_> = each.into_iter().filter(|bytes| *bytes > 0).collect();
            assert!(matches!(some[..], [all] if about(all, FILE_BYTES)), "{version}: {some:?}");
        }
        for (mds, each) in [put("grows"), got("grows")] {
            assert!(mds >= FILE_BYTES, "vers={version}: {mds} bytes through the metadata server");
            let some = each.iter().filter(|bytes| **bytes > 0).count();
            assert_eq!(some, 2, "vers={version}: {each:?}");
        }
        let (mds, each) = put("copies");
        assert!(about(mds, FILE_BYTES), "vers={version}: {mds} bytes");
        let copies = each.iter().filter(|bytes| about(**bytes, FILE_BYTES)).count();
        assert_eq!(copies, 3, "vers={version}: {each:?}");
        let (mds, each) = got("copies");
        assert!(mds <= STRAY_MAX, "vers={version}: {mds} bytes through the metadata server");
        let thirds = each.iter().filter(|bytes| about(**bytes, FILE_BYTES / 3)).count();
        assert_eq!(thirds, 3, "vers={version}: {each:?}");
    }
}
