//! `weft status`: what each server has done.

use std::io::Write;

use clap::Args;
use weft_server::report::{
    ClusterStatus, IndirectStatus, ServerStatus, SpaceStatus, ThresholdStatus,
};

use crate::{
    admin::AdminArgs,
    clients::grace_in_words,
    outcome::{Outcome, OutputError},
};

/// Options of `weft status`.
#[derive(Debug, Args)]
pub struct StatusArgs {
    /// Print JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    admin: AdminArgs,
}

/// Prints the status.
pub fn run(args: &StatusArgs) -> Outcome {
    let status: ClusterStatus = args.admin.ask("/status")?;
    let text = if args.json { serde_json::to_string(&status)? + "\n" } else { table(&status) };
    Ok(std::io::stdout().write_all(text.as_bytes()).map_err(OutputError::from)?)
}

fn table(status: &ClusterStatus) -> String {
    let mut out = format!("weft {}, up {} s\n", status.version, status.uptime_s);
    status.grace.iter().for_each(|grace| out += &grace_in_words(grace));
    out += &format!(
        "{:<6} {:<22} {:>10} {:>12} {:>12} {:>10}\n",
        "SERVER", "ADDRESS", "OPS", "BYTES IN", "BYTES OUT", "MEMORY"
    );
    status.servers.iter().map(row).for_each(|row| out += &row);
    let IndirectStatus { writes, messages, .. } = status.indirect;
    out += &format!("{}; ", threshold_in_words(&status.threshold));
    out += &format!("{writes} writes for data servers came here, {messages} messages left\n");
    out
}

fn row(s: &ServerStatus) -> String {
    let name = s.id.map_or_else(|| s.role.clone(), |id| format!("{} {id}", s.role));
    if !s.reachable {
        let why = s.error.as_deref().unwrap_or("no reason given");
        return format!("{name:<6} {:<22} unreachable: {why}\n", s.address);
    }
    let ops: u64 = s.activity.operations.values().sum();
    let row = format!(
        "{name:<6} {:<22} {ops:>10} {:>12} {:>12} {:>10}\n",
        s.address,
        bytes(s.activity.bytes_in),
        bytes(s.activity.bytes_out),
        bytes(s.activity.rss_bytes)
    );
    row + &full_in_words(&name, s.space)
}

/// A line about a disk that is nearly full.
fn full_in_words(name: &str, space: Option<SpaceStatus>) -> String {
    space.filter(SpaceStatus::is_nearly_full).map_or(String::new(), |space| {
        let (available, total) = (bytes(space.available), bytes(space.total));
        format!("{name:<6} its disk is (nearly) full: {available} of {total} may be used\n")
    })
}

/// The threshold and what changes it, in one line.
pub fn threshold_in_words(t: &ThresholdStatus) -> String {
    let mut words = format!("write threshold {}", bytes(t.set));
    if t.set != t.configured {
        words += &format!(" (configured {})", bytes(t.configured));
    }
    if t.now != t.set {
        let load = t.requests_per_thread;
        words +=
            &format!(", on data servers {} under load ({load} requests a thread)", bytes(t.now));
    }
    words
}

/// A number of bytes with a unit, for people.
pub fn bytes(n: u64) -> String {
    indicatif::BinaryBytes(n).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A disk with room is not mentioned.
    #[test]
    fn a_full_disk_has_a_line() {
        let of = |available| Some(SpaceStatus { total: 1 << 30, free: 1 << 29, available });
        assert_eq!(full_in_words("ds 2", of(1 << 29)), "");
        assert_eq!(full_in_words("ds 2", None), "");
        let line = "ds 2   its disk is (nearly) full: 1.00 MiB of 1.00 GiB may be used\n";
        assert_eq!(full_in_words("ds 2", of(1 << 20)), line);
    }

    /// What is as configured is not said twice.
    #[test]
    fn words_are_few() {
        let calm = ThresholdStatus {
            configured: 65_536,
            set: 65_536,
            now: 65_536,
            requests_per_thread: 1,
        };
        assert_eq!(threshold_in_words(&calm), "write threshold 64.00 KiB");
        let busy = ThresholdStatus { set: 32_768, now: 8_192, requests_per_thread: 300, ..calm };
        let words = "write threshold 32.00 KiB (configured 64.00 KiB), on data servers 8.00 KiB \
                     under load (300 requests a thread)";
        assert_eq!(threshold_in_words(&busy), words);
    }
}
