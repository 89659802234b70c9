//! `weft rm`, `weft mkdir`, `weft mv`: what changes names only.

use std::{
    ffi::OsStr,
    os::unix::ffi::OsStrExt,
    path::{Component, Path, PathBuf},
};

use weft_client::ClientError;
use weft_client::fs::Client;
use weft_nfs::{FileType, NfsStat};

use super::{connect::Remote, glob};
use crate::outcome::Outcome;

/// Entries of a directory removed between two looks at it: bounds what `rm -r` remembers.
const REMOVED_AT_A_TIME: usize = 4096;
/// Mode of a new directory.
const DIRECTORY_MODE: u32 = 0o755;

/// Removes paths in order; the first failure ends it.
pub(super) async fn rm(remote: &Remote, paths: &[PathBuf], recursive: bool) -> Outcome {
    let client = &remote.client;
    let paths = glob::expand(remote, paths).await?;
    // Before anything is gone.
    if let Some(path) = paths.iter().find(|path| is_root(path)) {
        return Err(format!("{}: the root cannot be removed", path.display()).into());
    }
    for path in &paths {
        if recursive {
            remove_tree(client, path).await?;
            continue;
        }
        client.remove(path).await.map_err(|e| match e.error.status() {
            Some(NfsStat::NOTEMPTY) => format!("{e} (rm -r removes it with everything below)"),
            _ => e.to_string(),
        })?;
    }
    Ok(())
}

/// Whether a path leads to the root of what the server exports.
fn is_root(path: &Path) -> bool {
    let mut depth = 0_usize;
    for part in path.components() {
        match part {
            Component::Normal(_) => depth += 1,
            Component::ParentDir => depth = depth.saturating_sub(1),
            Component::RootDir => depth = 0,
            Component::CurDir | Component::Prefix(_) => {}
        }
    }
    depth == 0
}

/// Removes a tree, deepest first. What vanishes meanwhile is fine.
async fn remove_tree(client: &Client, root: &Path) -> Outcome {
    let mut pending = vec![root.to_path_buf()];
    while let Some(path) = pending.last().cloned() {
        match client.remove(&path).await {
            Ok(()) => drop(pending.pop()),
            Err(e) if e.error.status() == Some(NfsStat::NOENT) && pending.len() > 1 => {
                pending.pop();
            }
            Err(e) if e.error.status() == Some(NfsStat::NOTEMPTY) => {
                let directories = empty_directory(client, &path).await?;
                pending.extend(directories);
            }
            Err(e) => return Err(e.into()),
        }
    }
    Ok(())
}

/// Removes the files among the first entries of a directory; returns the directories.
async fn empty_directory(client: &Client, path: &Path) -> Outcome<Vec<PathBuf>> {
    let mut entries = client.read_dir(path).await?;
    let (mut files, mut directories) = (Vec::new(), Vec::new());
    while let Some(entry) = entries.next().await? {
        let below = path.join(OsStr::from_bytes(&entry.name.0));
        match entry.attrs.file_type {
            Some(FileType::DIR) => directories.push(below),
            _ => files.push(below),
        }
        if files.len() + directories.len() >= REMOVED_AT_A_TIME {
            break;
        }
    }
    for file in files {
        match client.remove(&file).await {
            Err(e) if e.error.status() != Some(NfsStat::NOENT) => return Err(e.into()),
            _ => {}
        }
    }
    Ok(directories)
}

/// Makes directories, with those above them if asked to.
pub(super) async fn mkdir(remote: &Remote, paths: &[PathBuf], parents: bool) -> Outcome {
    let client = &remote.client;
    for path in paths {
        let path = remote.path(path);
        if parents {
            client.mkdir_all(&path, DIRECTORY_MODE).await?;
        } else {
            client.mkdir(&path, DIRECTORY_MODE).await?;
        }
    }
    Ok(())
}

/// Renames a file or directory, or moves it into a directory.
pub(super) async fn mv(remote: &Remote, source: &Path, destination: &Path) -> Outcome {
    let (source, destination) = (remote.path(source), remote.path(destination));
    let destination = remote_target(&remote.client, &destination, source.file_name()).await?;
    let renamed = remote.client.rename(&source, &destination).await;
    renamed.map_err(|e| {
        let into_itself = e.error.status() == Some(NfsStat::INVAL);
        if into_itself && destination.starts_with(&source) {
            let (source, destination) = (source.display(), destination.display());
            return format!("{source}: cannot move a directory into itself ({destination})");
        }
        match e.error {
            ClientError::Invalid(_) if is_root(&source) => "/: the root cannot be moved".into(),
            _ => e.to_string(),
        }
    })?;
    Ok(())
}

/// Where a file goes: the destination itself, or `name` in it if it is a directory.
async fn remote_target(
    client: &Client,
    destination: &Path,
    name: Option<&OsStr>,
) -> Outcome<PathBuf> {
    let there = match client.stat_followed(destination).await {
        Err(e) if e.error.status() == Some(NfsStat::NOENT) => {
            if destination.as_os_str().as_bytes().ends_with(b"/") {
                return Err(format!("{}: no such directory", destination.display()).into());
            }
            return Ok(destination.to_path_buf());
        }
        there => there?,
    };
    match name {
        Some(name) if there.file_type == Some(FileType::DIR) => Ok(destination.join(name)),
        _ => Ok(destination.to_path_buf()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// However the root is written.
    #[test]
    fn roots() {
        for (path, root) in
            [("/", true), ("//", true), (".", true), ("/a/..", true), ("/..", true), ("a", false)]
        {
            assert_eq!(is_root(Path::new(path)), root, "{path}");
        }
    }
}
