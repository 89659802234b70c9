//! The main job: an unmodified Linux client mounts Weft, and its data goes straight to all data
//! servers. Judged by the kernel's counters and by every server's own.

mod support;

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    time::Duration,
};

use serde_json::Value;
use support::cluster::{ALL_OFF, Cluster, Counters, Options, Status};
use support::guest::{Guest, Kernel, Report};
use support::servers::{Plan, Servers, ds};

/// Size of the file, in MiB: 64 stripe units of the default size.
const MEBIBYTES: u64 = 64;
const FILE_BYTES: u64 = MEBIBYTES << 20;
/// Even striping gives each of four data servers a quarter.
const SHARE_MIN: u64 = FILE_BYTES / 5;
/// Nothing but a small start of the file may pass through the metadata server.
const MDS_MAX: u64 = 1 << 20;

#[test]
fn kernel_5_10_stripes_over_all_data_servers() {
    stripes_over_all_data_servers(Kernel::V5_10, Cluster::start);
}

#[test]
fn kernel_6_1_stripes_over_all_data_servers() {
    stripes_over_all_data_servers(Kernel::V6_1, Cluster::start);
}

#[test]
fn kernel_6_12_stripes_over_all_data_servers() {
    stripes_over_all_data_servers(Kernel::V6_12, Cluster::start);
}

#[test]
fn kernel_7_3_stripes_over_all_data_servers() {
    stripes_over_all_data_servers(Kernel::V7_3, Cluster::start);
}

#[test]
fn newest_kernel_stripes_over_all_data_servers() {
    stripes_over_all_data_servers(Kernel::Uml, Cluster::start);
}

/// Every technique for small files is off: nothing but their names is with the metadata server.
#[test]
fn newest_kernel_stripes_over_all_data_servers_with_all_off() {
    stripes_over_all_data_servers(Kernel::Uml, |o| Cluster::configured(o, ALL_OFF));
}

/// Small files of the script, of 3 to 30 KB.
const SMALL_FILES: u64 = 20;
/// The largest of them.
const SMALL_MAX: u64 = 10 * 3000;
/// All of them.
const SMALL_BYTES: u64 = 2 * (1 + 2 + 3 + 4 + 5 + 6 + 7 + 8 + 9 + 10) * 3000;

#[test]
fn kernel_6_1_uses_flexfiles() {
    uses_flexfiles(Kernel::V6_1);
}

#[test]
fn kernel_6_12_uses_flexfiles() {
    uses_flexfiles(Kernel::V6_12);
}

#[test]
fn newest_kernel_uses_flexfiles() {
    uses_flexfiles(Kernel::Uml);
}

/// Runs a script that says `host sample NAME`: what it left, and what every server had done then.
fn sampled(guest: Guest, cluster: &mut Cluster) -> (Report, BTreeMap<String, Status>) {
    let mut samples = BTreeMap::new();
    let report = guest.run(cluster, |cluster, words| match words.split_once(' ') {
        Some(("sample", name)) => {
            samples.insert(name.to_owned(), cluster.status());
            Ok(())
        }
        _ => Err("not a command of this test".to_owned()),
    });
    (report, samples)
}

/// The same through flexfiles layouts: a file's bytes go to one data server, and none of them
/// through the metadata server, its end included.
fn uses_flexfiles(kernel: Kernel) {
    let Some(guest) = Guest::new(kernel, "flexfiles.sh") else { return };
    let mut cluster = Cluster::configured(Options::default(), "layout_type = \"flexfiles\"");
    let guest = guest.argument(cluster.port()).argument(MEBIBYTES);
    let (report, samples) = sampled(guest, &mut cluster);
    for version in ["4.1", "4.2"] {
        for phase in ["write", "read"] {
            let layout = report.proof(version, &format!("{phase}.layout"));
            assert_eq!(layout, "LAYOUT_FLEX_FILES", "vers={version} {phase}");
            // A file's end is none that a layout is lost by.
            let asked = report.number(version, &format!("{phase}.layoutgets"));
            assert!(asked <= 2, "vers={version} {phase}: {asked} LAYOUTGETs");
            assert_eq!(report.number(version, &format!("{phase}.layoutreturn_errors")), 0);
        }
        let sample = |name: &str| &samples[&format!("{version}.{name}")];
        let (idle, written, read) = (sample("idle"), sample("written"), sample("read"));
        assert!(written.mds.bytes_in - idle.mds.bytes_in < MDS_MAX, "vers={version}");
        assert_eq!(read.mds.bytes_out, written.mds.bytes_out, "vers={version}");
        let moved = |before: &Status, after: &Status, bytes: fn(&Counters) -> u64| {
            let one = |(id, c): (&u64, &Counters)| bytes(c) - bytes(&before.data_servers[id]);
            let all = after.data_servers.iter().map(one);
            all.filter(|bytes| *bytes > 0).collect::<Vec<_>>()
        };
        let put = moved(idle, written, |c| c.bytes_in);
        let got = moved(written, read, |c| c.bytes_out);
        assert!(matches!(put[..], [one] if one >= FILE_BYTES - MDS_MAX), "{version}: {put:?}");
        assert!(matches!(got[..], [one] if one >= FILE_BYTES), "vers={version}: {got:?}");
        assert!(sample("fenced").mds.fences > read.mds.fences, "vers={version}: no fence");
    }
}

#[test]
fn kernel_6_1_meets_faults_through_flexfiles() {
    meets_faults_through_flexfiles(Kernel::V6_1);
}

#[test]
fn kernel_6_12_meets_faults_through_flexfiles() {
    meets_faults_through_flexfiles(Kernel::V6_12);
}

#[test]
fn newest_kernel_meets_faults_through_flexfiles() {
    meets_faults_through_flexfiles(Kernel::Uml);
}

/// Size of the data server's disk, MiB.
const DISK_MIB: u32 = 96;
/// What is left of it when it is full, bytes.
const ROOM: usize = 1 << 20;
/// So long the data server is away.
const AWAY: Duration = Duration::from_secs(2);
/// LAYOUTGETs of one mount while a data server does not take what is written there: a few for each
/// file, not one for each try.
const ASKED_MAX: u64 = 40;

/// The disk of the only data server is full, and has room again; then it is killed while a file is
/// written. What clients say of the full disk with LAYOUTRETURN is read: with 4.1 they have nothing
/// else to say it with. (One that is back in time is nothing that they tell, and an answer to
/// LAYOUTRETURN may be BAD_STATEID: docs/deviations.md, §18.43.3.)
fn meets_faults_through_flexfiles(kernel: Kernel) {
    let Some(guest) = Guest::new(kernel, "flex-faults.sh") else { return };
    let ds_disk_mib = Some(DISK_MIB);
    let plan = Plan { data_servers: 1, flexfiles: true, ds_disk_mib, ..Plan::default() };
    let mut servers = Servers::start(plan);
    let guest = guest.argument(servers.port());
    let (mut filler, mut told) = (PathBuf::new(), BTreeMap::new());
    let report = guest.run(&mut servers, |servers, words| {
        match words.split_once(' ').unwrap_or((words, "")) {
            ("fill", _) => filler = servers.fill(&ds(1), ROOM),
            ("free", _) => std::fs::remove_file(&filler).expect("the filler"),
            ("kill", _) => {
                servers.kill9(&ds(1));
                std::thread::sleep(AWAY);
                servers.start_ds(1);
            }
            ("told", version) => drop(told.insert(version.to_owned(), errors_told(servers))),
            _ => return Err("not a command of this test".to_owned()),
        }
        Ok(())
    });
    // With 4.2 the data server has refused something too lately to be given to write to.
    assert!(report.number("4.1", "room.pnfs_writes") > 0, "no pNFS write");
    assert!(told["4.1"].contains_key("NOSPC"), "{told:?}");
    for version in ["4.1", "4.2"] {
        for phase in ["full", "killed"] {
            let asked = report.number(version, &format!("{phase}.layoutgets"));
            assert!(asked <= ASKED_MAX, "vers={version} {phase}: {asked} LAYOUTGETs");
        }
    }
    servers.kill9("mds");
    servers.kill9(&ds(1));
    servers.fsck();
}

/// Errors of data servers that clients have told, by status.
fn errors_told(servers: &Servers) -> BTreeMap<String, u64> {
    let status: Value =
        serde_json::from_str(&servers.weft_ok(&["status", "--json"])).expect("JSON");
    let mut told = BTreeMap::new();
    let devices = status["devices"].as_array().into_iter().flatten();
    for (name, count) in devices.flat_map(|d| d["errors"].as_object().into_iter().flatten()) {
        *told.entry(name.clone()).or_default() += count.as_u64().unwrap_or(0);
    }
    told
}

/// How far a machine reads ahead is set for what it has mounted, and for what it will: nfsrahead,
/// which udev asks, says so.
#[test]
fn newest_kernel_reads_ahead_as_it_is_set_up() {
    let Some(guest) = Guest::new(Kernel::Uml, "client-setup.sh") else { return };
    let mut cluster = Cluster::start(Options::default());
    let nfsrahead = Path::new("/usr/libexec/nfsrahead");
    let guest = guest.host_program(&support::weft_binary()).host_program(nfsrahead);
    let guest = guest.argument(cluster.port());
    let report = guest.run(&mut cluster, |_, _| Err("this test has no host commands".to_owned()));
    assert_eq!(report.number("4.2", "set"), 2);
}

/// Writes and reads small files where the server wants them, then 64 MiB through the files layout,
/// and again while the file's owner takes rights away, with both minor versions, in one guest.
fn stripes_over_all_data_servers(kernel: Kernel, start: impl FnOnce(Options) -> Cluster) {
    let Some(guest) = Guest::new(kernel, "pnfs.sh") else { return };
    let mut cluster = start(Options::default());
    let small_files_went = match cluster.config().small_files.threshold_bytes {
        0 => small_files_went_to_data_servers,
        bytes if bytes > SMALL_MAX => small_files_went_to_the_mds,
        bytes => panic!("a threshold of {bytes} bytes splits the small files"),
    };
    let guest = guest.program("unlinked").argument(cluster.port()).argument(MEBIBYTES);
    let (report, samples) = sampled(guest, &mut cluster);
    for version in ["4.1", "4.2"] {
        small_files_went(&samples, &report, version);
        kernel_used_the_layout(&report, version);
        every_server_moved_its_share(&samples, version);
        our_client_reads_the_same(&cluster, &report, version);
        handles_ended_while_it_wrote(&samples, version);
    }
}

/// No data server hears of them. A layout is asked for, outside of OPEN, only for a file that the
/// client opens by itself, which writes it under its delegation: in vain, once for each.
fn small_files_went_to_the_mds(samples: &BTreeMap<String, Status>, report: &Report, version: &str) {
    for (phase, most) in [("write", SMALL_FILES), ("read", 0)] {
        let asked = report.number(version, &format!("small.{phase}_layoutgets"));
        assert!(asked <= most, "vers={version} {phase}: {asked} LAYOUTGETs for small files");
    }
    // The file that is removed while it is used was delegated, and was written as the bug wants it.
    assert!(report.number(version, "unlinked.layoutgets") > 0, "vers={version}: no LAYOUTGET");
    let sample = |name: &str| &samples[&format!("{version}.small.{name}")];
    let (idle, done) = (sample("idle"), sample("done"));
    let put = done.mds.bytes_in - idle.mds.bytes_in;
    let got = done.mds.bytes_out - idle.mds.bytes_out;
    assert!(put >= SMALL_BYTES && got >= SMALL_BYTES, "vers={version}: {put} in, {got} out");
    for (id, before) in &idle.data_servers {
        let after = &done.data_servers[id];
        assert_eq!((before.bytes_in, before.bytes_out), (after.bytes_in, after.bytes_out));
        assert_eq!(before.operations, after.operations, "vers={version}: data server {id}");
    }
}

/// Nothing is written through the metadata server. Only it knows where a file ends: the READ that
/// meets the end, one a file, is repeated there (RFC 8881 §13.4.3, PNFS_IO_HOLE). Layouts are not
/// counted, since the kernel asks for them within OPEN.
fn small_files_went_to_data_servers(samples: &BTreeMap<String, Status>, _: &Report, version: &str) {
    let sample = |name: &str| &samples[&format!("{version}.small.{name}")];
    let (idle, done) = (sample("idle"), sample("done"));
    let written = |c: &Counters| c.operations.get("WRITE").copied().unwrap_or(0);
    assert_eq!(written(&done.mds), written(&idle.mds), "vers={version}: WRITEs");
    let read = |c: &Counters| c.operations.get("READ").copied().unwrap_or(0);
    let ends = read(&done.mds) - read(&idle.mds);
    assert!(ends <= SMALL_FILES, "vers={version}: {ends} READs through the metadata server");
    let moved = |bytes: fn(&Counters) -> u64| {
        let all = |status: &Status| status.data_servers.values().map(bytes).sum::<u64>();
        all(done) - all(idle)
    };
    let put = moved(|c| c.bytes_in);
    // What the metadata server read it was sent by them too.
    let got = moved(|c| c.bytes_out) - (done.mds.bytes_out - idle.mds.bytes_out);
    assert!(put >= SMALL_BYTES && got >= SMALL_BYTES, "vers={version}: {put} in, {got} out");
}

fn kernel_used_the_layout(report: &Report, version: &str) {
    for phase in ["write", "read"] {
        let layout = report.proof(version, &format!("{phase}.layout"));
        assert_eq!(layout, "LAYOUT_NFSV4_1_FILES", "vers={version} {phase}");
    }
    let writes = report.number(version, "write.pnfs_writes");
    let reads = report.number(version, "read.pnfs_reads");
    assert!(writes > 0 && reads > 0, "vers={version}: {writes} pNFS writes, {reads} pNFS reads");
    let fallbacks = report.proof(version, "fallbacks");
    assert!(
        ["0", "untraced"].contains(&fallbacks),
        "vers={version}: I/O fell back to the metadata server {fallbacks} times"
    );
}

fn every_server_moved_its_share(samples: &BTreeMap<String, Status>, version: &str) {
    let sample = |name: &str| &samples[&format!("{version}.{name}")];
    let (idle, written, read) = (sample("idle"), sample("written"), sample("read"));
    let moved_in = |before: &Counters, after: &Counters| after.bytes_in - before.bytes_in;
    let moved_out = |before: &Counters, after: &Counters| after.bytes_out - before.bytes_out;
    assert_eq!(read.data_servers.len(), 4);
    for id in read.data_servers.keys() {
        let put = moved_in(&idle.data_servers[id], &written.data_servers[id]);
        let got = moved_out(&written.data_servers[id], &read.data_servers[id]);
        assert!(put >= SHARE_MIN, "vers={version}: data server {id} was sent {put} bytes");
        assert!(got >= SHARE_MIN, "vers={version}: data server {id} sent {got} bytes");
    }
    let put = moved_in(&idle.mds, &written.mds);
    let got = moved_out(&written.mds, &read.mds);
    assert!(put < MDS_MAX, "vers={version}: {put} bytes were written through the MDS");
    assert!(got < MDS_MAX, "vers={version}: {got} bytes were read through the MDS");
}

/// The bytes are there, as the script has looked; and handles did end between its eight parts, on
/// four data servers, more than once: it went on with others. (What is refused there goes through
/// the metadata server, so that not every part has some.)
fn handles_ended_while_it_wrote(samples: &BTreeMap<String, Status>, version: &str) {
    let fences = |name: &str| samples[&format!("{version}.fenced.{name}")].mds.fences;
    let sent = fences("done") - fences("idle");
    assert!(sent >= 2 * 4, "vers={version}: {sent} fences");
}

/// What the kernel striped, the user-space client puts together again.
fn our_client_reads_the_same(cluster: &Cluster, report: &Report, version: &str) {
    let dir = tempfile::tempdir().expect("a folder");
    let copy = dir.path().join("copy");
    let copy = copy.to_str().expect("a plain path");
    let output = cluster.weft(&["get", &format!("/pnfs-{version}"), copy]);
    assert!(output.status.success(), "weft get: {}", support::words(&output));
    let sum = support::run("md5sum", &[copy]);
    let sum = String::from_utf8_lossy(&sum.stdout).into_owned();
    assert_eq!(sum.split(' ').next(), Some(report.proof(version, "md5")), "vers={version}");
}
