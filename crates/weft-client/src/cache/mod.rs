//! What a client knows of the bytes of files: clean data that it has read, and what it has written,
//! until that is durable. Data structures only: no I/O, no clock, no lock, no task. Whoever uses
//! them holds a lock for each [`FileCache`] and one for the [`Budget`], never across an await.
//!
//! # One file
//!
//! [`FileCache`] holds ranges that never overlap, each in one state. What lies nowhere is
//! *missing*: only the servers know. Events are its methods, columns what becomes of a range that
//! is wholly within what the event is about; of others only that part is. What all of them do in
//! every combination is in `snapshots/cache_range.txt`.
//!
//! | event | missing | clean | dirty | sending | sent |
//! | --- | --- | --- | --- | --- | --- |
//! | `write`, `put` | dirty | dirty | dirty | dirty, *waits* | dirty |
//! | `fetched` | clean, if *fresh* | – | – | – | – |
//! | `take_dirty` | – | – | sending, unless it *waits* | – | – |
//! | `arrived` durable | – | – | – | clean | – |
//! | `arrived` unstable | – | – | – | sent | – |
//! | `ended` | – | – | – | dirty | – |
//! | `settle`, confirmed | – | – | – | – | clean, if before the round |
//! | `lost_again` | – | – | – | – | dirty, if before the round |
//! | `truncate` | – | missing | missing | missing, *still on its way* | missing |
//! | `invalidate` | – | missing | – | *in doubt* | *in doubt* |
//! | `evict` | – | missing | – | – | – |
//! | `forget` of who wrote | – | – | missing | missing, *still on its way* | missing |
//!
//! What makes that right, beside the table:
//!
//! - **Bytes are sent once at a time.** Two WRITEs of a range may arrive in any order. So what is
//!   on its way is noted apart from the ranges ([`in_flight`]): what is written over it is dirty
//!   and *waits* until the older sending has ended. `arrived` and `ended` concern only what is of
//!   that sending still; newer bytes stay dirty.
//! - **A fetch never brings old bytes back.** An answer is *fresh* where nothing was dirty,
//!   sending, sent or on its way when the fetch began, and no write, truncation or
//!   `invalidate` met it since ([`fetches`]). So what it has is as new as anything that was ever
//!   here, though that may be evicted meanwhile. What is there wins over what is fetched.
//! - **What others may have overwritten does not become clean.** What had left when another
//!   client's change was noticed is *in doubt*: it may have been there first. It is seen while it
//!   is not durable, as all that was written here, and is missing afterwards where it would be
//!   clean. What is sent again is not in doubt any more.
//! - **A lost COMMIT is heard of.** `sent` data carry what their servers said, and the last round
//!   of COMMITs that had begun when they got there: a round confirms what was there before it. What
//!   it did not confirm is dirty again (`lost_again`).
//!
//! # Memory
//!
//! Each range knows the memory that goes with it, which no other range shares: a part of a range
//! gets memory of its own, unless it is the largest and at least half of what there was. Exceptions
//! are slices that callers hold, and buffers longer than a block given to `put`: they are freed
//! later than counted. Dirty data that grow are `BytesMut` in blocks ([`limits`]), each of which is
//! frozen once, when it leaves.
//!
//! All files share a [`Budget`], which they tell their numbers ([`FileCache::report`]): it says
//! whose clean data are evicted, when data must be written back, and when writers must wait.
//!
//! ```text
//! file.write(..)          under the file's lock
//! budget.update(id, file.report())        then under the budget's
//! while let Some(v) = budget.victim() {   then each victim under its own
//!     freed = files[v.file].evict(v.queue, v.until, v.bytes); budget.update(v.file, ..)
//! }
//! ```
//!
//! # Beside
//!
//! [`ReadAhead`] says what to fetch before it is asked for, [`Validity`] whether what is cached
//! outlives the next open, [`FileSize`] where the file ends.
//!
//! [`limits`]: crate::limits

mod budget;
mod extent;
mod extents;
mod fetches;
mod fetching;
mod file_cache;
mod file_size;
mod in_flight;
mod payload;
mod read_ahead;
mod rounds;
mod sending;
mod span;
#[cfg(test)]
mod tests;
mod usage;
mod validity;

pub(crate) use budget::{Budget, FileId, Victim};
#[cfg(test)]
pub(crate) use extent::RoundNo;
pub(crate) use extent::{SendingNo, Tick};
pub(crate) use fetches::Fetch;
pub(crate) use file_cache::{FileCache, Part, Report, TooFar};
pub(crate) use file_size::{FileSize, Moment, SizeTold};
pub(crate) use payload::Payload;
pub(crate) use read_ahead::ReadAhead;
#[cfg(test)]
pub(crate) use sending::Left;
pub(crate) use sending::{Arrived, Sending, Take};
pub(crate) use usage::Queue;
#[cfg(test)]
pub(crate) use usage::Usage;
pub(crate) use validity::{Opening, Validity, Verdict};
