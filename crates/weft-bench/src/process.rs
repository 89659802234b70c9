//! What the kernel counts of a process (`/proc`, see proc(5)).

use std::{fs, path::PathBuf};

use crate::outcome::Outcome;

/// A process whose costs are looked at.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Process(u32);

impl Process {
    pub(crate) fn own() -> Process {
        Process(std::process::id())
    }

    pub(crate) fn new(pid: u32) -> Process {
        Process(pid)
    }

    fn file(self, name: &str) -> PathBuf {
        PathBuf::from(format!("/proc/{}/{name}", self.0))
    }

    /// Processor seconds of all its threads so far, those that have ended included.
    pub(crate) fn cpu_s(self) -> Outcome<f64> {
        self.ticks(UTIME)
    }

    /// Processor seconds of its children that have ended and were waited for.
    pub(crate) fn children_cpu_s(self) -> Outcome<f64> {
        self.ticks(CUTIME)
    }

    fn ticks(self, first: usize) -> Outcome<f64> {
        let stat = fs::read_to_string(self.file("stat"))?;
        // The name before the last bracket may hold anything.
        let (_, fields) = stat.rsplit_once(')').ok_or("no name in /proc/PID/stat")?;
        let mut ticks = 0;
        for field in fields.split_whitespace().skip(first).take(2) {
            ticks += field.parse::<u64>()?;
        }
        Ok(ticks as f64 / rustix::param::clock_ticks_per_second() as f64)
    }

    /// Resident memory now, bytes.
    pub(crate) fn rss_bytes(self) -> Outcome<u64> {
        self.status("VmRSS:")
    }

    /// Most resident memory since the start or [`Self::reset_peak`], bytes.
    pub(crate) fn peak_rss_bytes(self) -> Outcome<u64> {
        self.status("VmHWM:")
    }

    /// Starts looking for the most resident memory anew.
    pub(crate) fn reset_peak(self) -> Outcome {
        Ok(fs::write(self.file("clear_refs"), "5")?)
    }

    fn status(self, key: &str) -> Outcome<u64> {
        let status = fs::read_to_string(self.file("status"))?;
        let kib = status.lines().find_map(|l| l.strip_prefix(key)?.split_whitespace().next());
        Ok(kib.ok_or("no such line in /proc/PID/status")?.parse::<u64>()? << 10)
    }

    /// How often threads whose names begin so were given a processor: a thread that serves a
    /// socket runs whenever a message comes, so 0 means that none came.
    pub(crate) fn wakeups(self, name: &str) -> Outcome<u64> {
        let mut sum = 0;
        for task in fs::read_dir(self.file("task"))? {
            let task = task?.path();
            if !fs::read_to_string(task.join("comm"))?.starts_with(name) {
                continue;
            }
            let schedstat = fs::read_to_string(task.join("schedstat"))?;
            let slices = schedstat.split_whitespace().nth(2).ok_or("short schedstat")?;
            sum += slices.parse::<u64>()?;
        }
        Ok(sum)
    }
}

/// Index of `utime` behind the name in `/proc/PID/stat`; `stime` follows.
const UTIME: usize = 11;
/// Index of `cutime`; `cstime` follows.
const CUTIME: usize = 13;

#[cfg(test)]
mod tests {
    use super::*;

    /// Work shows up as processor time, and memory is plausible.
    #[test]
    fn own_costs_are_seen() {
        let me = Process::own();
        let before = me.cpu_s().unwrap();
        let started = std::time::Instant::now();
        let mut x = 1u64;
        while me.cpu_s().unwrap() < before + 0.02 {
            x = x.wrapping_mul(7).rotate_left(3);
            assert!(started.elapsed().as_secs() < 60, "no processor time counted ({x})");
        }
        let (now, peak) = (me.rss_bytes().unwrap(), me.peak_rss_bytes().unwrap());
        assert!(now > 1 << 20 && peak >= 1 << 20);
    }

    /// A sleeping thread is not woken, a running one is; other names are not counted.
    #[test]
    fn wakeups_are_counted_by_name() {
        let (go, wait) = std::sync::mpsc::channel::<()>();
        let (done, finished) = std::sync::mpsc::channel();
        let worker = std::thread::Builder::new().name("weft-bench-x".into());
        let thread = worker.spawn(move || {
            while wait.recv().is_ok() {
                done.send(()).unwrap()
            }
        });
        let count = || Process::own().wakeups("weft-bench-x").unwrap();
        go.send(()).unwrap();
        finished.recv().unwrap();
        let before = count();
        for _ in 0..50 {
            go.send(()).unwrap();
            finished.recv().unwrap();
        }
        assert!(count() > before);
        assert_eq!(Process::own().wakeups("no-such-thread").unwrap(), 0);
        drop(go);
        thread.unwrap().join().unwrap();
    }
}
