//! `weft threshold`: below which size clients send I/O on a file to the metadata server (P0.2).

use clap::Args;
use weft_server::report::ClusterStatus;

use crate::{admin::AdminArgs, outcome::Outcome, status::threshold_in_words};

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

/// Sets the threshold if a size is given, and prints it.
pub fn run(args: &ThresholdArgs) -> Outcome {
    let now = match &args.size {
        Some(size) => {
            let wanted = serde_json::json!({ "write_threshold": size });
            args.admin.tell("/threshold", &wanted)?
        }
        None => args.admin.ask::<ClusterStatus>("/status")?.threshold,
    };
    println!("{}", threshold_in_words(&now));
    Ok(())
}
