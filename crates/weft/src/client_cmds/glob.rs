//! Remote paths with patterns in them.

use std::{
    ffi::OsStr,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

use weft_nfs::{FileType, NfsStat};

use super::{connect::Remote, pattern::Pattern, troubles::Troubles};
use crate::outcome::Outcome;

/// More are hardly what was meant, and would be remembered all at once.
const MATCHES_MAX: usize = 100_000;

/// The server's paths that these of the user's lead to, in their order; those of one pattern by
/// name.
///
/// # Errors
/// Nothing fits a pattern; a directory cannot be read.
pub(super) async fn expand(remote: &Remote, paths: &[PathBuf]) -> Outcome<Vec<PathBuf>> {
    let mut found = Vec::new();
    for path in paths {
        found.extend(expand_one(remote, &remote.path(path)).await?);
    }
    Ok(found)
}

/// The same for commands that go on: what nothing fits is told.
pub(super) async fn expand_each(
    remote: &Remote,
    paths: &[PathBuf],
    troubles: &mut Troubles,
) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for path in paths {
        let fit = expand_one(remote, &remote.path(path)).await;
        found.extend(troubles.hear(fit.map_err(|e| e.to_string())).unwrap_or_default());
    }
    found
}

/// What one path leads to. A path that something has is that, whatever is in its name.
pub(super) async fn expand_one(remote: &Remote, path: &Path) -> Outcome<Vec<PathBuf>> {
    if !Pattern::is_one(path.as_os_str().as_bytes()) || remote.client.stat(path).await.is_ok() {
        return Ok(vec![path.to_path_buf()]);
    }
    let mut found = vec![PathBuf::new()];
    let mut parts = path.components().peekable();
    while let Some(part) = parts.next() {
        let name = part.as_os_str();
        if !Pattern::is_one(name.as_bytes()) {
            found.iter_mut().for_each(|dir| dir.push(name));
            continue;
        }
        let pattern = Pattern::new(name.as_bytes());
        let mut next = Vec::new();
        for dir in found {
            next.extend(matches(remote, &dir, &pattern, parts.peek().is_some()).await?);
            if next.len() > MATCHES_MAX {
                let path = remote.show(path);
                return Err(format!("{path}: more than {MATCHES_MAX} files fit").into());
            }
        }
        found = next;
    }
    let mut there = Vec::new();
    let ends_in_one = path.file_name().is_some_and(|name| Pattern::is_one(name.as_bytes()));
    for path in found {
        if ends_in_one || remote.client.stat(&path).await.is_ok() {
            there.push(path);
        }
    }
    if there.is_empty() {
        let path = remote.show(path);
        return Err(format!("{path}: nothing fits (`weft ls` shows what is there)").into());
    }
    Ok(there)
}

/// What fits in a directory. Where more follows in the path, what is no directory is passed over.
async fn matches(
    remote: &Remote,
    dir: &Path,
    pattern: &Pattern,
    more: bool,
) -> Outcome<Vec<PathBuf>> {
    let mut entries = match remote.client.read_dir(dir).await {
        Err(e) if matches!(e.error.status(), Some(NfsStat::NOTDIR | NfsStat::NOENT)) => {
            return Ok(Vec::new());
        }
        entries => entries.map_err(|e| remote.failed(&e))?,
    };
    let mut found = Vec::new();
    while let Some(entry) = entries.next().await.map_err(|e| remote.failed(&e))? {
        let leads_on = matches!(entry.attrs.file_type, Some(FileType::DIR | FileType::LNK));
        if pattern.fits_visible(&entry.name.0) && (leads_on || !more) {
            found.push(dir.join(OsStr::from_bytes(&entry.name.0)));
            if found.len() > MATCHES_MAX {
                break;
            }
        }
    }
    found.sort();
    Ok(found)
}
