//! What only tests and benchmarks need: transition tables of state machines ([`Machine`]), random
//! numbers from a seed ([`SeededRng`]), numbers chosen by who starts a test ([`env()`]), and the
//! checks of our own sources (`tests/tidy.rs`). It knows none of the other crates.

mod env;
mod machine;
mod seeded_rng;

pub use env::env;
pub use machine::{Machine, Outcome, assert_snapshot};
pub use seeded_rng::SeededRng;
