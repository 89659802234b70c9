//! `weft rm`, `weft mkdir`, `weft mv`: what changes names only.

use std::{
    ffi::OsStr,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

use weft_client::fs::Client;
use weft_nfs::{FileType, NfsStat};

use super::copy::remote_target;
use crate::outcome::Outcome;

/// Entries of a directory removed between two looks at it: bounds what `rm -r` remembers.
const REMOVED_AT_A_TIME: usize = 4096;
/// Mode of a new directory.
const DIRECTORY_MODE: u32 = 0o755;

/// Removes paths in order; the first failure ends it.
pub(super) async fn rm(client: &Client, paths: &[PathBuf], recursive: bool) -> Outcome {
    for path in paths {
        if recursive {
            remove_tree(client, path).await?;
        } else {
            client.remove(path).await?;
        }
    }
    Ok(())
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
pub(super) async fn mkdir(client: &Client, paths: &[PathBuf], parents: bool) -> Outcome {
    for path in paths {
        if parents {
            client.mkdir_all(path, DIRECTORY_MODE).await?;
        } else {
            client.mkdir(path, DIRECTORY_MODE).await?;
        }
    }
    Ok(())
}

/// Renames a file or directory, or moves it into a directory.
pub(super) async fn mv(client: &Client, source: &Path, destination: &Path) -> Outcome {
    let destination = remote_target(client, destination, source.file_name()).await?;
    client.rename(source, destination).await?;
    Ok(())
}
