//! What programs feel of our client: streams into memory by the library and by the mount, small
//! writes and what is read again with the cache and without, and the memory that all of it takes.
//!
//! Servers keep their data in memory: the client and the protocol are measured, not a disk.

mod cached;
mod setting;
mod streams;

pub(crate) use streams::put;

use crate::{context::Context, outcome::Outcome, report::Row};

/// Measures all of it.
pub(crate) fn bench(context: &Context) -> Outcome<Vec<Row>> {
    let mut rows = cached::bench(context)?;
    rows.extend(streams::bench(context)?);
    Ok(rows)
}
