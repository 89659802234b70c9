//! What all of it does together: against a plain model, as a table, and what it costs.

mod cost;
mod late;
mod memory;
mod model;
mod read_ahead;
mod transitions;
