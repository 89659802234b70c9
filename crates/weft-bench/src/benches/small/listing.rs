//! A directory with the attributes of everything in it: in one pass, or one by one.

use std::{ffi::OsStr, os::unix::ffi::OsStrExt, path::Path};

use weft_client::fs::{Client, FsError};

use crate::workers;

/// Lists a directory; every file must have this size. Returns how many there are.
///
/// # Errors
/// [`FsError`]; a wrong size is one.
pub(crate) async fn list(
    client: &Client,
    dir: &str,
    one_pass: bool,
    size: u64,
) -> Result<usize, FsError> {
    let mut entries = match one_pass {
        true => client.read_dir(dir).await?,
        false => client.read_names(dir).await?,
    };
    let mut found = 0;
    while let Some(entry) = entries.next().await? {
        let path = Path::new(dir).join(OsStr::from_bytes(&entry.name.0));
        let attrs = match one_pass {
            true => entry.attrs,
            false => client.stat(&path).await?,
        };
        if attrs.size != Some(size) {
            return Err(workers::wrong(path, "its size is wrong"));
        }
        found += 1;
    }
    Ok(found)
}

/// Every file must have been found.
///
/// # Errors
/// It was not.
pub(crate) fn expect(dir: &str, found: usize, wanted: usize) -> Result<(), FsError> {
    match found == wanted {
        true => Ok(()),
        false => Err(workers::wrong(dir, "not every file was listed once")),
    }
}
