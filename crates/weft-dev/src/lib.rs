//! What only tests and benchmarks need: transition tables of state machines ([`Machine`]), numbers
//! from a seed ([`Numbers`]), and the checks of our own sources (`tests/tidy.rs`). It knows none of
//! the other crates.

mod machine;
mod numbers;

pub use machine::{Machine, Outcome, assert_snapshot};
pub use numbers::Numbers;
