//! What the kernel counts of a process (`/proc`, see proc(5)).

use std::{fs, path::PathBuf, time::Instant};

use rustix::time::{ClockId, clock_gettime};

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
            // One that has ended meanwhile is woken no more.
            let Ok(called) = fs::read_to_string(task.join("comm")) else { continue };
            if !called.starts_with(name) {
                continue;
            }
            let Ok(schedstat) = fs::read_to_string(task.join("schedstat")) else { continue };
            let slices = schedstat.split_whitespace().nth(2).ok_or("short schedstat")?;
            sum += slices.parse::<u64>()?;
        }
        Ok(sum)
    }
}

/// Processor seconds of this process so far, finer than [`Process::cpu_s`], which counts ticks.
pub(crate) fn own_cpu_s() -> f64 {
    let spent = clock_gettime(ClockId::ProcessCPUTime);
    spent.tv_sec as f64 + spent.tv_nsec as f64 / 1e9
}

/// Watches how long the machine's processors work, whoever for: the kernel's own threads, which
/// write back and receive, belong to no process.
pub(crate) struct Machine {
    started: Instant,
    processors: f64,
    unused_s: f64,
}

impl Machine {
    /// Starts to watch.
    ///
    /// # Errors
    /// The system does not tell.
    pub(crate) fn watch() -> Outcome<Machine> {
        let (processors, unused_s) = unused()?;
        Ok(Machine { started: Instant::now(), processors, unused_s })
    }

    /// Processor seconds of everything since then.
    ///
    /// # Errors
    /// The system does not tell.
    pub(crate) fn busy_s(&self) -> Outcome<f64> {
        let elapsed_s = self.started.elapsed().as_secs_f64();
        Ok(self.processors * elapsed_s - (unused()?.1 - self.unused_s))
    }
}

/// How many processors there are, and for how many seconds they had nothing to do or were the
/// host's. Idle time is measured, where time at work is sampled tick by tick.
fn unused() -> Outcome<(f64, f64)> {
    let stat = fs::read_to_string("/proc/stat")?;
    let of_processors = |l: &&str| l.starts_with("cpu") && !l.starts_with("cpu ");
    let (mut processors, mut ticks) = (0.0, 0);
    for line in stat.lines().filter(of_processors) {
        processors += 1.0;
        let fields: Vec<&str> = line.split_whitespace().collect();
        for field in UNUSED {
            ticks += fields.get(field).ok_or("a short line in /proc/stat")?.parse::<u64>()?;
        }
    }
    Ok((processors, ticks as f64 / rustix::param::clock_ticks_per_second() as f64))
}

/// Indices of `idle`, `iowait` and `steal` in a line of `/proc/stat`.
const UNUSED: [usize; 3] = [4, 5, 8];
/// Index of `utime` behind the name in `/proc/PID/stat`; `stime` follows.
const UTIME: usize = 11;
/// Index of `cutime`; `cstime` follows.
const CUTIME: usize = 13;

#[cfg(test)]
mod tests {
    use super::*;

    /// Work shows up as processor time, and memory is plausible. The system counts idle time in
    /// steps, so that a short piece of work may not show yet in what is left of the machine's.
    #[test]
    fn own_costs_are_seen() {
        let me = Process::own();
        let (before, machine) = (me.cpu_s().unwrap(), Machine::watch().unwrap());
        let started = std::time::Instant::now();
        let mut x = 1u64;
        while me.cpu_s().unwrap() < before + 0.02 || machine.busy_s().unwrap() <= 0.0 {
            x = x.wrapping_mul(7).rotate_left(3);
            assert!(started.elapsed().as_secs() < 60, "no processor time counted ({x})");
        }
        assert!(own_cpu_s() >= before + 0.02);
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
