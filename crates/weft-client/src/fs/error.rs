//! Failures and the paths they happened to.

use std::path::{Path, PathBuf};

use crate::error::ClientError;

/// A failure and the path it happened to.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{}: {error}", path.display())]
pub struct FsError {
    /// The path.
    pub path: PathBuf,
    /// The failure.
    #[source]
    pub error: ClientError,
}

pub(crate) trait At<T> {
    /// Adds the path to a failure.
    fn at(self, path: &Path) -> Result<T, FsError>;
}

impl<T, E: Into<ClientError>> At<T> for Result<T, E> {
    fn at(self, path: &Path) -> Result<T, FsError> {
        self.map_err(|e| FsError { path: path.to_path_buf(), error: e.into() })
    }
}
