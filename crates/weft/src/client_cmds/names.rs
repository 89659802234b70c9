//! `weft rm`, `weft mkdir`, `weft mv`: what changes names only.

use std::{
    ffi::OsStr,
    os::unix::ffi::OsStrExt,
    path::{Component as Part, Path, PathBuf},
};

use bytes::Bytes;
use weft_client::{
    ClientError,
    fs::{Client, DirEntry, FsError, Step},
};
use weft_nfs::{Component, FileHandle, FileType, NfsStat};

use super::{connect::Remote, glob, umask::directory_mode};
use crate::outcome::Outcome;

/// Entries of a directory removed between two looks at it: bounds what `rm -r` remembers.
const REMOVED_AT_A_TIME: usize = 4096;

/// Removes paths in order; the first failure ends it.
pub(super) async fn rm(remote: &Remote, paths: &[PathBuf], recursive: bool) -> Outcome {
    let client = &remote.client;
    let paths = glob::expand(remote, paths).await?;
    // Before anything is gone.
    if let Some(path) = paths.iter().find(|path| is_root(path)) {
        return Err(format!("{}: the root cannot be removed", path.display()).into());
    }
    paths.iter().try_for_each(|path| require_name(path, "removed"))?;
    for path in &paths {
        if recursive {
            remove_tree(remote, path).await?;
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
            Part::Normal(_) => depth += 1,
            Part::ParentDir => depth = depth.saturating_sub(1),
            Part::RootDir => depth = 0,
            Part::CurDir | Part::Prefix(_) => {}
        }
    }
    depth == 0
}

/// Who writes `DIR/..` or `DIR/.` rarely wants that directory itself gone, as others' commands have
/// it.
fn require_name(path: &Path, what: &str) -> Outcome {
    let mut parts = path.as_os_str().as_bytes().split(|b| *b == b'/');
    let last = parts.rfind(|part| !part.is_empty()).unwrap_or_default();
    match last == b"." || last == b".." {
        true if is_root(path) => Ok(()),
        true => Err(format!("{}: write the name of what is to be {what}", path.display()).into()),
        false => Ok(()),
    }
}

/// A directory that is being emptied.
struct Emptied {
    fh: FileHandle,
    /// Its name in the one above it.
    name: Component,
    path: PathBuf,
    /// Some of what is in it, which was not tried yet.
    entries: Vec<DirEntry>,
}

/// Removes a tree, deepest first. What vanishes meanwhile is fine. What is below the path is
/// removed by names in directories that are known by their handles: who owns the tree cannot put a
/// link to elsewhere in a directory's place and have removed what is there.
async fn remove_tree(remote: &Remote, root: &Path) -> Outcome {
    let (client, nodes) = (&remote.client, remote.client.nodes());
    loop {
        match client.remove(root).await {
            Err(e) if e.error.status() == Some(NfsStat::NOTEMPTY) => {}
            done => return Ok(done?),
        }
        let top = client.walk_tree(root, false, 0).await?.next().await?;
        let Some(Step::Entry { node, .. }) = top else { continue };
        let (fh, name) = (node.fh, Component(Bytes::new()));
        let top = Emptied { fh, name, path: root.to_path_buf(), entries: Vec::new() };
        let mut levels = vec![top];
        while let Some(level) = levels.last_mut() {
            if let Some(below) = empty_directory(client, level).await? {
                levels.push(below);
                continue;
            }
            let Some(Emptied { fh, name, path, .. }) = levels.pop() else { break };
            if let Some(above) = levels.last() {
                match nodes.remove(&above.fh, name, Some(&fh)).await {
                    // What came meanwhile is found when that is looked at again.
                    Err(e) if matches!(e.status(), Some(NfsStat::NOENT | NfsStat::NOTEMPTY)) => {}
                    done => done.map(drop).map_err(|error| FsError { path, error })?,
                }
            }
        }
    }
}

/// Removes what it can in a directory; returns the next directory in it that is not empty.
async fn empty_directory(client: &Client, dir: &mut Emptied) -> Outcome<Option<Emptied>> {
    let nodes = client.nodes();
    loop {
        let Some(DirEntry { name, attrs, .. }) = dir.entries.pop() else {
            dir.entries = first_entries(client, dir).await?;
            if dir.entries.is_empty() {
                return Ok(None);
            }
            continue;
        };
        let path = dir.path.join(OsStr::from_bytes(&name.0));
        match nodes.remove(&dir.fh, name.clone(), attrs.filehandle.as_ref()).await {
            Err(e) if e.status() == Some(NfsStat::NOENT) => {}
            Err(e) if e.status() == Some(NfsStat::NOTEMPTY) => {
                let fh = match attrs.filehandle {
                    Some(fh) => Ok(fh),
                    None => nodes.lookup(&dir.fh, name.clone()).await.map(|node| node.fh),
                };
                let fh = fh.map_err(|error| FsError { path: path.clone(), error })?;
                return Ok(Some(Emptied { fh, name, path, entries: Vec::new() }));
            }
            done => done.map(drop).map_err(|error| FsError { path, error })?,
        }
    }
}

/// What is in a directory, if that is much a part of it.
async fn first_entries(client: &Client, dir: &Emptied) -> Outcome<Vec<DirEntry>> {
    let mut listing = client.read_dir_at(dir.fh.clone(), &dir.path);
    let mut entries = Vec::new();
    while entries.len() < REMOVED_AT_A_TIME
        && let Some(entry) = listing.next().await?
    {
        entries.push(entry);
    }
    Ok(entries)
}

/// Makes directories, with those above them if asked to.
pub(super) async fn mkdir(remote: &Remote, paths: &[PathBuf], parents: bool) -> Outcome {
    let (client, mode) = (&remote.client, directory_mode());
    for path in paths {
        let path = remote.path(path);
        match parents {
            true => client.mkdir_all(&path, mode).await?,
            false => client.mkdir(&path, mode).await?,
        }
    }
    Ok(())
}

/// Renames a file or directory, or moves it into a directory.
pub(super) async fn mv(remote: &Remote, source: &Path, destination: &Path) -> Outcome {
    require_name(source, "moved")?;
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

    /// What ends in no name is refused, but for the root, which has words of its own.
    #[test]
    fn names_at_the_end() {
        for (path, has) in [
            ("/a", true),
            ("/a/.", false),
            ("/a/b/..", false),
            ("a/b/../", false),
            ("/", true),
            ("/a/..", true),
            ("/a/b/..//", false),
        ] {
            assert_eq!(require_name(Path::new(path), "removed").is_ok(), has, "{path}");
        }
        for name in ["/a/..b", "/a/. ", "/a/.. "] {
            assert!(require_name(Path::new(name), "removed").is_ok(), "{name}");
        }
    }

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
