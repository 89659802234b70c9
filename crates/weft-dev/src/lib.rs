//! What only tests need: transition tables of state machines ([`Machine`]), and the checks of our
//! own sources (`tests/tidy.rs`). It knows none of the other crates.

mod machine;

pub use machine::{Machine, Outcome, assert_snapshot};
