//! How far a copy is, and what of it failed.

use std::{
    io::{IsTerminal, Write},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Instant,
};

use indicatif::{HumanBytes, ProgressBar};
use weft_client::fs::Progress;

use crate::client_cmds::quote::printable;

/// Seconds between two lines where there is no terminal.
const LINE_EVERY_S: u64 = 30;

/// What is counted while a copy runs. Only what is durable at a server counts as done.
pub(super) struct Report {
    files_found: AtomicU64,
    bytes_found: AtomicU64,
    files_done: AtomicU64,
    bytes_done: AtomicU64,
    failures: AtomicU64,
    all_found: AtomicBool,
    /// Why nothing more can succeed.
    over: OnceLock<String>,
    bar: ProgressBar,
    since: Instant,
    /// When the next line is due where there is no terminal, in seconds since then.
    line_due_s: AtomicU64,
}

impl Report {
    /// A line that changes on a terminal, and elsewhere one now and then on standard error.
    pub(super) fn new() -> Arc<Report> {
        let bar = match std::io::stderr().is_terminal() {
            true => ProgressBar::new_spinner(),
            false => ProgressBar::hidden(),
        };
        Arc::new(Report {
            files_found: AtomicU64::new(0),
            bytes_found: AtomicU64::new(0),
            files_done: AtomicU64::new(0),
            bytes_done: AtomicU64::new(0),
            failures: AtomicU64::new(0),
            all_found: AtomicBool::new(false),
            over: OnceLock::new(),
            bar,
            since: Instant::now(),
            line_due_s: AtomicU64::new(LINE_EVERY_S),
        })
    }

    /// There is one more file to copy.
    pub(super) fn found(&self, bytes: u64) {
        self.files_found.fetch_add(1, Ordering::Relaxed);
        self.bytes_found.fetch_add(bytes, Ordering::Relaxed);
        self.show();
    }

    /// Nothing more will be found.
    pub(super) fn found_all(&self) {
        self.all_found.store(true, Ordering::Relaxed);
    }

    /// A file is there, or was there already.
    pub(super) fn done(&self) {
        self.files_done.fetch_add(1, Ordering::Relaxed);
        self.show();
    }

    /// Told of a file's bytes as they arrive.
    pub(super) fn progress(self: &Arc<Report>) -> Progress {
        let (report, before) = (self.clone(), AtomicU64::new(0));
        Arc::new(move |bytes| {
            let more = bytes.saturating_sub(before.fetch_max(bytes, Ordering::Relaxed));
            report.bytes_done.fetch_add(more, Ordering::Relaxed);
            report.show();
        })
    }

    /// Something was not copied; the rest goes on.
    pub(super) fn failed(&self, why: &str) {
        self.failures.fetch_add(1, Ordering::Relaxed);
        self.bar.suspend(|| eprintln!("weft: {}", printable(why)));
    }

    /// Whether anything was copied.
    pub(super) fn has_copied(&self) -> bool {
        self.files_done.load(Ordering::Relaxed) > 0
    }

    /// Something that is no failure, on standard output.
    pub(super) fn say(&self, words: &str) {
        // Whoever does not listen any more need not.
        self.bar.suspend(|| drop(writeln!(std::io::stdout(), "{}", printable(words))));
    }

    /// Nothing more can succeed.
    pub(super) fn end(&self, why: String) {
        // The first one is told.
        let _ = self.over.set(why);
    }

    /// Why nothing more can succeed, if that is so.
    pub(super) fn over(&self) -> Option<&String> {
        self.over.get()
    }

    /// What has become of it.
    ///
    /// # Errors
    /// Not everything was copied.
    pub(super) fn outcome(&self) -> Result<(), String> {
        self.bar.finish_and_clear();
        if let Some(why) = self.over() {
            return Err(why.clone());
        }
        let done = self.files_done.load(Ordering::Relaxed);
        match self.failures.load(Ordering::Relaxed) {
            0 => Ok(()),
            1 => Err(format!("1 failure, as told above; {done} files are copied")),
            n => Err(format!("{n} failures, as told above; {done} files are copied")),
        }
    }

    fn show(&self) {
        let seconds = self.since.elapsed().as_secs();
        if self.bar.is_hidden() {
            if self.is_line_due(seconds) {
                // Whoever does not listen any more need not.
                let _ = writeln!(std::io::stderr(), "weft: {}", self.line(seconds));
            }
            return;
        }
        self.bar.set_message(self.line(seconds));
        self.bar.tick();
    }

    /// True if another line is due; only one of several concurrent callers gets it.
    fn is_line_due(&self, seconds: u64) -> bool {
        let due = self.line_due_s.load(Ordering::Relaxed);
        let next = seconds + LINE_EVERY_S;
        seconds >= due
            && self
                .line_due_s
                .compare_exchange(due, next, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok()
    }

    fn line(&self, seconds: u64) -> String {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let more = if self.all_found.load(Ordering::Relaxed) { "" } else { "+" };
        let bytes = count(&self.bytes_done);
        format!(
            "{} of {}{more} files, {} of {}{more}, {}/s",
            count(&self.files_done),
            count(&self.files_found),
            HumanBytes(bytes),
            HumanBytes(count(&self.bytes_found)),
            HumanBytes(bytes / seconds.max(1)),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Without a terminal a line is due each half minute, however often it is asked for.
    #[test]
    fn lines_without_a_terminal() {
        let report = Report::new();
        let due: Vec<u64> =
            (0..120).flat_map(|s| [s, s]).filter(|s| report.is_line_due(*s)).collect();
        assert_eq!(due, [30, 60, 90]);
        report.found(10);
        report.progress()(4);
        assert_eq!(report.line(2), "0 of 1+ files, 4 B of 10 B+, 2 B/s");
    }

    /// What arrives of several files is added up, whatever the order; failures are counted.
    #[test]
    fn it_adds_up() {
        let report = Report::new();
        let (a, b) = (report.progress(), report.progress());
        for (of, bytes) in [(&a, 10), (&b, 5), (&a, 25), (&a, 20), (&b, 6)] {
            of(bytes);
        }
        assert_eq!(report.bytes_done.load(Ordering::Relaxed), 31);
        report.done();
        assert!(report.outcome().is_ok());
        report.failed("one");
        report.failed("two");
        let said = report.outcome().unwrap_err();
        assert_eq!(said, "2 failures, as told above; 1 files are copied");
        report.end("it is away".into());
        assert_eq!(report.outcome().unwrap_err(), "it is away");
    }
}
