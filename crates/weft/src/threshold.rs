//! `weft threshold`: below which size clients send I/O on a file to the metadata server (`P0.2`).

use std::error::Error;

use clap::Args;
use weft_server::report::{ClusterStatus, ThresholdStatus};

use crate::status::{AdminArgs, bytes};

/// Options of `weft threshold`.
#[derive(Debug, Args)]
pub struct ThresholdArgs {
    /// What to set it to: bytes, or in words, as 32KiB; 0 to 1MiB. The next start goes back to the
    /// configuration.
    #[arg(value_name = "SIZE")]
    size: Option<String>,
    #[command(flatten)]
    admin: AdminArgs,
}

/// Sets it if asked to, and prints it.
pub fn run(args: &ThresholdArgs) -> Result<(), Box<dyn Error>> {
    let now = match &args.size {
        Some(size) => {
            let wanted = serde_json::json!({ "write_threshold": size });
            args.admin.tell("/threshold", &wanted)?
        }
        None => args.admin.ask::<ClusterStatus>("/status")?.threshold,
    };
    println!("{}", in_words(&now));
    Ok(())
}

/// The threshold and what changes it, in one line.
pub fn in_words(t: &ThresholdStatus) -> String {
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

#[cfg(test)]
mod tests {
    use super::*;

    /// What is as configured is not said twice.
    #[test]
    fn words_are_few() {
        let calm = ThresholdStatus {
            configured: 65_536,
            set: 65_536,
            now: 65_536,
            requests_per_thread: 1,
        };
        assert_eq!(in_words(&calm), "write threshold 64.00 KiB");
        let busy = ThresholdStatus { set: 32_768, now: 8_192, requests_per_thread: 300, ..calm };
        let words = "write threshold 32.00 KiB (configured 64.00 KiB), on data servers 8.00 KiB under \
                     load (300 requests a thread)";
        assert_eq!(in_words(&busy), words);
    }
}
