//! Random bytes from the system.

use std::io;

use crate::error::ClientError;

/// Fresh random bytes.
pub(crate) fn random<const N: usize>() -> Result<[u8; N], ClientError> {
    let mut bytes = [0; N];
    match getrandom::fill(&mut bytes) {
        Ok(()) => Ok(bytes),
        Err(e) => Err(io::Error::other(e.to_string()).into()),
    }
}
