//! `weft status`: what each server has done.

use std::io::Write;

use clap::Args;
use weft_server::report::{
    ClusterStatus, FallbackStatus, IndirectStatus, ServerStatus, SpaceStatus, ThresholdStatus,
    UnreachedStatus,
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
        "{:<6} {:<22} {:>10} {:>12} {:>12} {:>10}  FREE\n",
        "SERVER", "ADDRESS", "OPS", "BYTES IN", "BYTES OUT", "MEMORY"
    );
    status.servers.iter().map(row).for_each(|row| out += &row);
    let IndirectStatus { writes, messages, .. } = status.indirect;
    for f in &status.fallbacks {
        let FallbackStatus { name, address, requests, why, .. } = f;
        out += &format!("not parallel: {name} ({address}), {requests} requests in a row: {why}\n");
    }
    for UnreachedStatus { name, address, data_server, reports } in &status.unreached {
        out += &format!(
            "not reached: data server {data_server} by {name} ({address}), {reports} reports\n"
        );
    }
    out += &format!("{}; ", threshold_in_words(&status.threshold));
    out += &format!("{writes} writes for data servers came here, {messages} messages left\n");
    out
}

fn row(s: &ServerStatus) -> String {
    let name = s.id.map_or_else(|| s.role.clone(), |id| format!("{} {id}", s.role));
    let owed = match s.owed {
        0 => String::new(),
        n => format!("       {n} removals or truncations wait for it\n"),
    };
    if !s.reachable {
        let why = s.error.as_deref().unwrap_or("no reason given");
        return format!("{name:<6} {:<22} unreachable: {why}\n{owed}", s.address);
    }
    let ops: u64 = s.activity.operations.values().sum();
    format!(
        "{name:<6} {:<22} {ops:>10} {:>12} {:>12} {:>10}  {}\n",
        s.address,
        bytes(s.activity.bytes_in),
        bytes(s.activity.bytes_out),
        bytes(s.activity.rss_bytes),
        s.space.map_or_else(|| "-".to_owned(), |space| free(space, s.passed_over))
    ) + &owed
}

fn free(space: SpaceStatus, passed_over: bool) -> String {
    let mark = match (passed_over, space.is_getting_full()) {
        (true, _) => ", nearly full: new files go elsewhere",
        (false, true) => ", getting full",
        (false, false) => "",
    };
    format!("{} of {}{mark}", bytes(space.available), bytes(space.total))
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

    /// A disk that fills is told: below a twentieth, and when new files go elsewhere.
    #[test]
    fn disks_that_fill_are_marked() {
        let of = |available, passed_over| {
            free(SpaceStatus { total: 1000 << 20, free: available, available }, passed_over)
        };
        assert_eq!(of(50 << 20, false), "50.00 MiB of 1000.00 MiB");
        assert_eq!(of(49 << 20, false), "49.00 MiB of 1000.00 MiB, getting full");
        let elsewhere = "nearly full: new files go elsewhere";
        assert_eq!(of(50 << 20, true), format!("50.00 MiB of 1000.00 MiB, {elsewhere}"));
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
