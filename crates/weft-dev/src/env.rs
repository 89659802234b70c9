//! Numbers that whoever starts a test chooses.

/// A number from the environment.
///
/// # Panics
/// What is there is none.
pub fn env(name: &str) -> Option<u64> {
    Some(std::env::var(name).ok()?.parse().expect(name))
}
