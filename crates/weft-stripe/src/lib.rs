//! Where the bytes of a striped file live: arithmetic only.
//!
//! A [`Distribution`] maps file offsets to (stripe index, object offset) and back. The client
//! uses it to send I/O to the right data server, the data server to refuse what is not its own,
//! the metadata server to settle sizes and to truncate.
//!
//! **Invariants of absence.** No I/O, no allocation, no dependency; nothing here knows NFS,
//! devices or filehandles. Nothing panics and nothing overflows for any offset up to `u64::MAX`.
//!
//! ```
//! use weft_stripe::{Distribution, Form};
//!
//! let d = Distribution::round_robin(1 << 20, 4, 0, Form::Sparse).unwrap();
//! assert_eq!(d.locate(5 << 20).stripe_index, 1);
//! assert_eq!(d.extents(0, 3 << 20).count(), 3);
//! ```

mod copies;
mod cyclic;
mod distribution;
mod extents;
mod pieces;
mod round_robin;
mod scheme;
#[cfg(test)]
mod tests;
mod variable;

pub use copies::Copies;
pub use cyclic::{Cyclic, CyclicList};
pub use distribution::Distribution;
pub use extents::{Extent, Extents};
pub use pieces::{Piece, Pieces};
pub use round_robin::{DistributionError, Form, RoundRobin};
pub use scheme::Location;
pub use variable::Variable;
