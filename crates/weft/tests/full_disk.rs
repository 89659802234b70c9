//! `weft up` on one small disk that is full to the last byte or inode: who writes is told so, and
//! everything else goes on, in the same process. These tests mount disks: they need root.

mod support;

use std::process::Output;
use std::time::Duration;

use support::cluster::{Cluster, Options};
use support::disk::{Disk, Kind, source};

const MIB: usize = 1 << 20;
const DISK_MIB: u64 = 512;
const ENGINES: [&str; 2] = ["fjall", "redb"];
/// Longer than a reserve that was used waits before it is taken again.
const PATIENCE: Duration = Duration::from_secs(60);

struct Case {
    // The server goes before its disk.
    cluster: Cluster,
    disk: Disk,
    files: tempfile::TempDir,
    small: String,
    pid: u32,
}

impl Case {
    fn new(kind: Kind, engine: &str) -> Self {
        eprintln!("{engine} on {kind:?}");
        let disk = Disk::new(kind, DISK_MIB);
        let config = format!("engine = \"{engine}\"\n");
        let cluster = Cluster::on_disk(Options::default(), &config, &disk.at());
        let files = tempfile::tempdir().expect("a folder");
        let small = source(files.path(), "small", 3 * MIB);
        let pid = cluster.pid();
        let case = Case { cluster, disk, files, small, pid };
        for n in 0..8 {
            case.ok(&["put", &case.small, &format!("/file{n}")]);
        }
        case
    }

    fn ok(&self, arguments: &[&str]) -> Output {
        let done = self.cluster.weft(arguments);
        assert!(done.status.success(), "{arguments:?}: {}{}", support::words(&done), self.log());
        done
    }

    fn refused(&self, arguments: &[&str]) {
        let done = self.cluster.weft(arguments);
        let words = support::words(&done);
        assert!(!done.status.success() && words.contains("space"), "{arguments:?}: {words}");
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.cluster.log_path()).unwrap_or_default()
    }

    /// Everything but growth works.
    fn goes_on(&self, remove: &str) {
        let listed = self.ok(&["ls", "-a", "/"]);
        assert!(String::from_utf8_lossy(&listed.stdout).contains("file7"), "{listed:?}");
        let copy = self.files.path().join("copy");
        self.ok(&["get", "/file7", copy.to_str().expect("a plain path")]);
        let (got, put) = (std::fs::read(&copy).expect("a copy"), std::fs::read(&self.small));
        assert!(got == put.expect("the source"), "other bytes came back");
        std::fs::remove_file(&copy).expect("the copy");
        self.ok(&["rm", remove]);
    }

    /// With room everything works; the process is the one that was started, and leaves with 0.
    fn all_is_well(mut self) {
        support::until("room", PATIENCE, || {
            self.cluster.weft(&["put", &self.small, "/after"]).status.success().then_some(())
        });
        self.goes_on("/after");
        let health = self.cluster.admin_get("/health");
        assert!(health.contains("\"healthy\":true"), "{health}");
        assert_eq!(self.cluster.pid(), self.pid);
        self.cluster.stop();
        self.cluster.is_clean();
    }
}

/// A file that is larger than the disk meets the reserve of the data servers: the volume, on the
/// same disk, has room all the while.
#[test]
fn a_put_that_is_larger_than_the_disk() {
    for engine in ENGINES {
        let case = Case::new(Kind::Ext4, engine);
        let large = source(case.files.path(), "large", (DISK_MIB as usize + 64) * MIB);
        // What it wrote stays, in place; without that it would be removed with the failure.
        case.refused(&["put", "--in-place", &large, "/large"]);
        case.ok(&["mkdir", "/a-name-finds-room"]);
        let health = case.cluster.admin_get("/health");
        assert!(health.contains("full"), "{health}");
        case.goes_on("/file0");
        case.ok(&["rm", "/large"]);
        case.all_is_well();
    }
}

fn somebody_fills(kind: Kind) {
    for engine in ENGINES {
        let case = Case::new(kind, engine);
        case.disk.fill();
        case.refused(&["put", &case.small, "/new"]);
        for n in 0..6 {
            case.disk.fill();
            case.goes_on(&format!("/file{n}"));
        }
        case.disk.fill();
        support::until("word of a full disk", PATIENCE, || {
            case.cluster.admin_get("/health").contains("full").then_some(())
        });
        case.disk.free();
        case.all_is_well();
    }
}

/// Somebody else's file takes the disk to the last byte, and takes again what removals free.
#[test]
fn somebody_elses_file_fills_a_tmpfs() {
    somebody_fills(Kind::Tmpfs);
}

#[test]
fn somebody_elses_file_fills_an_ext4() {
    somebody_fills(Kind::Ext4);
}

#[test]
fn somebody_elses_files_take_all_inodes() {
    somebody_fills(Kind::Ext4FewInodes);
}

/// A disk that fails ends the server, with a status and words; what was acknowledged is there after
/// the next start.
#[test]
fn a_disk_that_fails_ends_the_server() {
    for engine in ENGINES {
        let mut case = Case::new(Kind::Ext4, engine);
        let server = format!("127.0.0.1:{}", case.cluster.port());
        case.disk.fail();
        // The first change is what meets the failure. How long a client waits is not asked here.
        let mut client = std::process::Command::new(support::weft_binary())
            .args(["mkdir", "/never-acknowledged", "--server", &server])
            .spawn()
            .expect("weft starts");
        let status = case.cluster.ended();
        client.kill().expect("kill");
        client.wait().expect("wait");
        assert_eq!(status.code(), Some(1), "{}", case.log());
        let log = case.log();
        assert!(log.contains("mds/volume has stopped") && log.contains("weft fsck"), "{log}");
        case.disk.repair();
        case.cluster.start_again();
        case.pid = case.cluster.pid();
        case.goes_on("/file0");
        case.all_is_well();
    }
}
