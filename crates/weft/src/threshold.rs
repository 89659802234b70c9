//! `weft threshold`: below which size clients send I/O on a file to the metadata server (P0.2).

use std::io::Write;

use clap::Args;
use weft::size::size_of_words;
use weft_server::report::ClusterStatus;
use weft_store::volume::STUFFED_BYTES_MAX;

use crate::{
    admin::AdminArgs,
    outcome::{Outcome, OutputError},
    status::threshold_in_words,
};

/// Options of `weft threshold`.
#[derive(Debug, Args)]
pub struct ThresholdArgs {
    /// What to set it to: bytes, or with a unit, as 32K or 32KiB; 0 to 1MiB. The next start goes
    /// back to the configuration.
    #[arg(value_name = "SIZE")]
    size: Option<String>,
    #[command(flatten)]
    admin: AdminArgs,
}

/// Sets the threshold if a size is given, and prints it.
pub fn run(args: &ThresholdArgs) -> Outcome {
    let now = match &args.size {
        Some(size) => {
            let bytes = threshold_of(size)?;
            let wanted = serde_json::json!({ "write_threshold": bytes });
            args.admin.tell("/threshold", &wanted)?
        }
        None => args.admin.ask::<ClusterStatus>("/status")?.threshold,
    };
    let told = writeln!(std::io::stdout(), "{}", threshold_in_words(&now));
    Ok(told.map_err(OutputError::from)?)
}

fn threshold_of(text: &str) -> Result<u64, String> {
    let no_size = || format!("{text}: not a size; write bytes, or a number with K, M or KiB, MiB");
    match size_of_words(text).ok_or_else(no_size)? {
        bytes if bytes <= STUFFED_BYTES_MAX => Ok(bytes),
        _ => Err(format!("{text}: too large; the threshold is at most 1MiB")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sizes as people write them, and what is wrong with others.
    #[test]
    fn sizes() {
        for (text, bytes) in [("0", 0), ("512", 512), ("32K", 32_768), ("1 MiB", 1 << 20)] {
            assert_eq!(threshold_of(text), Ok(bytes));
        }
        for (text, why) in [("5GiB", "5GiB: too large"), ("32 kilos", "32 kilos: not a size")] {
            assert!(threshold_of(text).is_err_and(|e| e.starts_with(why)), "{text}");
        }
    }
}
