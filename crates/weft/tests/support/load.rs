//! Several processes of a guest that change files without pause (`tests/guest/load.sh`), the
//! servers they work on, and the comparison of both.

use std::collections::BTreeMap;
use std::time::Duration;

use super::guest::{Guest, Report};
use super::servers::{Servers, ds};

/// Processes of `load.sh`.
const WORKERS: u64 = 3;

/// What the load says must be there.
#[derive(Clone, Debug, Eq, PartialEq)]
enum Entry {
    Directory,
    File { bytes: usize, fnv1a: u64 },
}

/// The servers under a load.
pub struct Load {
    pub servers: Servers,
    data_servers: u32,
    must_be_there: BTreeMap<String, Entry>,
    /// Restarts of the metadata server: each may make a worker repeat a request that was done.
    restarts: u64,
    compared: usize,
    fscks: usize,
    random: u64,
}

impl Load {
    pub fn new(servers: Servers, data_servers: u32) -> Self {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let random = now.expect("a clock").subsec_nanos().into();
        let must_be_there = BTreeMap::new();
        Self { servers, data_servers, must_be_there, restarts: 0, compared: 0, fscks: 0, random }
    }

    /// Runs the load through the steps of `load.sh`, then checks everything; `fault` answers the
    /// steps `host:WORD`.
    pub fn run(
        &mut self,
        guest: Guest,
        steps: &[impl ToString],
        mut fault: impl FnMut(&mut Load, &str) + Send,
    ) -> Report {
        let mut guest = guest.program("load").program("locker");
        guest = guest.argument(self.servers.port()).argument(self.random);
        for step in steps {
            guest = guest.argument(step.to_string());
        }
        let report = guest.run(self, |load, words| {
            match words.split_once(' ').unwrap_or((words, "")) {
                ("list", entries) => load.list(entries),
                ("check", _) => load.compare(),
                (fault_name, _) => fault(load, fault_name),
            }
            Ok(())
        });
        self.end(&report);
        report
    }

    /// A pause of at most `limit`.
    pub fn random_pause(&mut self, limit: Duration) {
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695);
        std::thread::sleep(limit.mul_f64((self.random >> 33) as f64 / f64::from(1u32 << 31)));
    }

    /// Kills the metadata server and starts it again.
    pub fn restart_mds(&mut self) {
        self.servers.kill9("mds");
        self.random_pause(Duration::from_millis(300));
        self.servers.start_mds();
        self.restarts += 1;
    }

    /// Kills all servers at once, checks what they left, and starts them again.
    pub fn kill_all_and_fsck(&mut self) {
        self.servers.kill9("mds");
        (1..=self.data_servers).for_each(|id| self.servers.kill9(&ds(id)));
        self.servers.fsck();
        self.fscks += 1;
        (1..=self.data_servers).for_each(|id| self.servers.start_ds(id));
        self.servers.start_mds();
        self.restarts += 1;
    }

    /// `list KIND PATH ... , KIND PATH ... ,`
    fn list(&mut self, entries: &str) {
        for entry in entries.split(',').map(str::trim).filter(|entry| !entry.is_empty()) {
            let words: Vec<&str> = entry.split(' ').collect();
            let (path, entry) = match words[..] {
                ["d", path] => (path, Entry::Directory),
                ["f", path, bytes, sum] => {
                    let bytes = bytes.parse().expect("a size");
                    let fnv1a = u64::from_str_radix(sum, 16).expect("a sum");
                    (path, Entry::File { bytes, fnv1a })
                }
                _ => panic!("no entry: {entry:?}"),
            };
            let before = self.must_be_there.insert(format!("/{path}"), entry);
            assert!(before.is_none(), "{path} is listed twice");
        }
    }

    /// Every acknowledged file is there with its bytes, and nothing else.
    fn compare(&mut self) {
        let listed = std::mem::take(&mut self.must_be_there);
        assert!(listed.len() > WORKERS as usize, "a list of {} entries", listed.len());
        self.servers.until_reachable(self.data_servers);
        let directories =
            listed.iter().filter(|(_, e)| **e == Entry::Directory).map(|(p, _)| p.as_str());
        let mut there: Vec<String> = std::iter::once("")
            .chain(directories)
            .flat_map(|directory| self.names_in(directory))
            .collect();
        there.sort();
        let want: Vec<String> = listed.keys().cloned().collect();
        assert_eq!(there, want, "names that are there, and those acknowledged");
        for (path, entry) in &listed {
            if let Entry::File { .. } = entry {
                assert_eq!(self.file(path), *entry, "{path}{}", self.servers.logs());
            }
        }
        self.compared += 1;
    }

    fn names_in(&self, directory: &str) -> Vec<String> {
        let path = if directory.is_empty() { "/" } else { directory };
        let names = self.servers.weft_ok(&["ls", "-a", path]);
        names.lines().map(|name| format!("{directory}/{name}")).collect()
    }

    fn file(&self, path: &str) -> Entry {
        let copy = self.servers.path("copy");
        self.servers.weft_ok(&["get", path, copy.to_str().expect("a plain path")]);
        let bytes = std::fs::read(&copy).expect("the copy");
        std::fs::remove_file(&copy).expect("the copy");
        Entry::File { bytes: bytes.len(), fnv1a: fnv1a(&bytes) }
    }

    /// The guest has gone: the figures, and a last look at what it left.
    fn end(&mut self, report: &Report) {
        self.kill_all_and_fsck();
        let figure = |key| report.number("4.2", key);
        eprintln!(
            "{} operations, {} MiB written, {} full disks, longest standstill {} ms; \
             {} repeated requests over {} restarts; {} comparisons, {} fsck",
            figure("operations"),
            figure("bytes") >> 20,
            figure("nospace"),
            figure("longest_ms"),
            figure("repeated"),
            self.restarts,
            self.compared,
            self.fscks,
        );
        assert!(self.compared > 0, "nothing was compared");
        assert!(figure("repeated") <= self.restarts * WORKERS, "requests were done twice");
    }
}

/// FNV-1a, 64 bits: what the guest's program sums with.
fn fnv1a(bytes: &[u8]) -> u64 {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01B3);
    bytes.iter().fold(0xCBF2_9CE4_8422_2325, step)
}
