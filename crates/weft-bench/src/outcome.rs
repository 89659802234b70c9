//! How everything here that can fail ends.

/// A benchmark ends with the first error, which is text for people: no code asks for its kind.
pub(crate) type Outcome<T = ()> = Result<T, Box<dyn std::error::Error>>;
