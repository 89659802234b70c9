//! How a command ends: with success, or with an error whose text is all its user reads.

use std::{error::Error, io};

/// What a command returns. No caller asks for the kind of an error; only [`OutputError`] is looked
/// for, in `main`.
pub type Outcome<T = ()> = Result<T, Box<dyn Error + Send + Sync>>;

/// What was to be checked could not be: neither good nor bad is known of it.
#[derive(Debug, thiserror::Error)]
#[error("not checked: {0}")]
pub struct NotChecked(pub Box<dyn Error + Send + Sync>);

/// The result cannot be written to standard output.
#[derive(Debug, thiserror::Error)]
#[error("cannot write the result: {0}")]
pub struct OutputError(#[from] io::Error);

impl OutputError {
    /// Whoever read the output has closed it, as `head` does: the command ends, and has not failed.
    pub fn is_reader_gone(&self) -> bool {
        self.0.kind() == io::ErrorKind::BrokenPipe
    }
}
