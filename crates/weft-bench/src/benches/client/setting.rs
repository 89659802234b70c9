//! What the measurements of the client share.

use std::time::Instant;

use tokio::runtime::Runtime;
use weft_client::{fs::ClientOptions, io::IoPolicy};

use crate::{
    outcome::Outcome,
    report::Sample,
    servers::{Meter, Servers},
};

/// Data servers of all of it.
pub(super) const DATA_SERVERS: u32 = 4;

/// A client of this policy, otherwise as a user has it.
pub(super) fn options(policy: IoPolicy) -> ClientOptions {
    ClientOptions { policy, ..ClientOptions::default() }
}

/// Does something, and says how much of it was done a second, and at which costs.
pub(super) fn measured(
    (runtime, servers): (&Runtime, &Servers),
    amount: f64,
    work: impl Future<Output = Outcome>,
) -> Outcome<Sample> {
    let meter = Meter::start(servers)?;
    let started = Instant::now();
    runtime.block_on(work)?;
    meter.rate(amount, started.elapsed().as_secs_f64())
}
