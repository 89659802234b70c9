//! `weft put` and `weft get`, with a progress bar on a terminal.

use std::{
    collections::BTreeSet,
    ffi::{OsStr, OsString},
    fs,
    io::{self, IsTerminal},
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    sync::Arc,
};

use indicatif::{ProgressBar, ProgressStyle};
use weft_client::{
    ClientError,
    fs::{Client, FsError, Progress, Upload},
};
use weft_nfs::{FileType, NfsStat};

use super::connect::Remote;
use crate::outcome::{Outcome, OutputError};

/// Standard input, or output.
const STANDARD: &str = "-";
/// Mode of a file that comes from standard input.
const FILE_MODE: u32 = 0o644;
/// Mode of a directory made for a copy.
const DIRECTORY_MODE: u32 = 0o755;

/// How files are put.
#[derive(Debug, Clone, Copy)]
pub(super) struct PutHow {
    pub(super) recursive: bool,
    pub(super) in_place: bool,
}

/// Copies local files to the cluster; the first failure ends it.
pub(super) async fn put(
    remote: &Remote,
    sources: &[PathBuf],
    destination: &Path,
    how: PutHow,
) -> Outcome {
    let destination = remote.path(destination);
    let is_dir = is_remote_dir(&remote.client, &destination).await?;
    check_many(sources, &destination, is_dir)?;
    check_names(sources.iter().filter_map(|source| last_name(source)), &destination)?;
    for source in sources {
        let target = match last_name(source) {
            Some(name) if is_dir => destination.join(name),
            None if is_dir => return Err("give standard input a name, not a directory".into()),
            _ => destination.clone(),
        };
        if source == Path::new(STANDARD) {
            let upload = Upload::stream(io::stdin(), FILE_MODE);
            send(&remote.client, upload, &target, (how, ProgressBar::hidden())).await?;
        } else {
            put_path(&remote.client, source, &target, how).await?;
        }
    }
    Ok(())
}

/// A file, or a tree if that was asked for. A link that is given is followed; those below are
/// copied as links.
async fn put_path(client: &Client, source: &Path, target: &Path, how: PutHow) -> Outcome {
    let metadata = fs::metadata(source).map_err(|e| missing(source, &e.to_string()))?;
    if !metadata.is_dir() {
        return put_file(client, source, target, how).await;
    }
    if !how.recursive {
        return Err(format!("{}: is a directory (put -r copies it)", source.display()).into());
    }
    let mut pending = vec![(source.to_path_buf(), target.to_path_buf())];
    while let Some((source, target)) = pending.pop() {
        make_remote_dir(client, &target).await?;
        let entries = fs::read_dir(&source).map_err(|e| missing(&source, &e.to_string()))?;
        for entry in entries {
            let entry = entry.map_err(|e| missing(&source, &e.to_string()))?;
            let (source, target) = (entry.path(), target.join(entry.file_name()));
            let kind = entry.file_type().map_err(|e| missing(&source, &e.to_string()))?;
            if kind.is_dir() {
                pending.push((source, target));
            } else if kind.is_symlink() {
                put_link(client, &source, &target).await?;
            } else {
                put_file(client, &source, &target, how).await?;
            }
        }
    }
    Ok(())
}

async fn put_file(client: &Client, source: &Path, target: &Path, how: PutHow) -> Outcome {
    let upload = Upload::file(source).map_err(|e| match e.error {
        ClientError::Invalid(what) if what.contains("fifo") => {
            let path = source.display();
            format!("{path}: {what} (put - TARGET < {path} copies what comes out of it)")
        }
        _ => e.to_string(),
    })?;
    let size = fs::metadata(source).map(|m| m.len()).unwrap_or(0);
    send(client, upload, target, (how, progress_bar(size, source))).await
}

async fn send(
    client: &Client,
    upload: Upload,
    target: &Path,
    (how, bar): (PutHow, ProgressBar),
) -> Outcome {
    let upload = upload.with_progress(counting(&bar));
    let upload = if how.in_place { upload.in_place() } else { upload };
    let done = client.put(upload, target).await;
    bar.finish_and_clear();
    match done {
        Err(e) if matches!(e.error, ClientError::ListNotKept(_)) => {
            Err(format!("{e} (put --in-place)").into())
        }
        done => Ok(done.map(drop)?),
    }
}

async fn make_remote_dir(client: &Client, path: &Path) -> Outcome {
    match client.mkdir(path, DIRECTORY_MODE).await {
        Err(e) if e.error.status() == Some(NfsStat::EXIST) => {
            match is_remote_dir(client, path).await? {
                true => Ok(()),
                false => Err(format!("{}: is there, and no directory", path.display()).into()),
            }
        }
        made => Ok(made?),
    }
}

/// A link that is there is replaced, as a file would be.
async fn put_link(client: &Client, source: &Path, target: &Path) -> Outcome {
    let says = fs::read_link(source).map_err(|e| missing(source, &e.to_string()))?;
    match client.symlink(&says, target).await {
        Err(e) if e.error.status() == Some(NfsStat::EXIST) => {
            client.remove(target).await?;
            Ok(client.symlink(&says, target).await?)
        }
        made => Ok(made?),
    }
}

/// Copies files from the cluster; the first failure ends it.
pub(super) async fn get(
    remote: &Remote,
    sources: &[PathBuf],
    destination: &Path,
    recursive: bool,
) -> Outcome {
    let is_dir = destination.is_dir();
    check_many(sources, destination, is_dir)?;
    check_names(sources.iter().filter_map(|s| s.file_name().map(OsStr::to_owned)), destination)?;
    let ends_in_slash = destination.as_os_str().as_bytes().ends_with(b"/");
    if !is_dir && ends_in_slash && !recursive {
        return Err(format!("{}: no such directory", destination.display()).into());
    }
    for source in sources {
        let source = remote.path(source);
        let target = match source.file_name() {
            Some(name) if is_dir => destination.join(name),
            _ => destination.to_path_buf(),
        };
        get_path(&remote.client, &source, &target, recursive).await?;
    }
    Ok(())
}

async fn get_path(client: &Client, source: &Path, target: &Path, recursive: bool) -> Outcome {
    let attrs = client.stat_followed(source).await.map_err(|e| with_hint(source, &e))?;
    if attrs.file_type != Some(FileType::DIR) {
        return get_file(client, source, target, attrs.size.unwrap_or(0)).await;
    }
    if !recursive {
        return Err(format!("{}: is a directory (get -r copies it)", source.display()).into());
    }
    let mut pending = vec![(source.to_path_buf(), target.to_path_buf())];
    while let Some((source, target)) = pending.pop() {
        match fs::create_dir(&target) {
            Err(_) if target.is_dir() => {}
            made => made.map_err(|e| missing(&target, &e.to_string()))?,
        }
        let mut entries = client.read_dir(&source).await?;
        while let Some(entry) = entries.next().await? {
            let name = local_name(&entry.name.0)?;
            let (source, target) = (source.join(&name), target.join(&name));
            match entry.attrs.file_type {
                Some(FileType::DIR) => pending.push((source, target)),
                Some(FileType::LNK) => get_link(client, &source, &target).await?,
                Some(FileType::REG) => {
                    let size = entry.attrs.size.unwrap_or(0);
                    get_file(client, &source, &target, size).await?;
                }
                _ => return Err(format!("{}: is no file to copy", source.display()).into()),
            }
        }
    }
    Ok(())
}

/// A name of the server's that leads out of its directory here is not used.
fn local_name(name: &[u8]) -> Outcome<OsString> {
    let name = OsStr::from_bytes(name);
    if Path::new(name).file_name() != Some(name) {
        return Err(format!("the server has a file named {name:?}: not copied").into());
    }
    Ok(name.to_owned())
}

async fn get_link(client: &Client, source: &Path, target: &Path) -> Outcome {
    let says = client.readlink(source).await?;
    let is_link = fs::symlink_metadata(target).is_ok_and(|m| m.is_symlink());
    if is_link {
        fs::remove_file(target).map_err(|e| missing(target, &e.to_string()))?;
    }
    let made = std::os::unix::fs::symlink(says, target);
    Ok(made.map_err(|e| missing(target, &e.to_string()))?)
}

async fn get_file(client: &Client, source: &Path, target: &Path, size: u64) -> Outcome {
    // Whatever standard output is: opened by its name, a file would be written from its start.
    if target == Path::new(STANDARD) || target == Path::new("/dev/stdout") {
        return get_to_stdout(client, source).await;
    }
    let bar = progress_bar(size, source);
    let done = client.get_file(source, target, counting(&bar)).await;
    bar.finish_and_clear();
    Ok(done.map(drop)?)
}

async fn get_to_stdout(client: &Client, source: &Path) -> Outcome {
    match client.get_stream(source, io::stdout(), Arc::new(|_| {})).await {
        // Whoever wanted only the beginning has it; whoever wanted all of it must not believe so.
        Err(FsError { error: ClientError::Local(e), .. })
            if e.kind() == io::ErrorKind::BrokenPipe =>
        {
            Err(format!("{}: not all of it was read: the reader has gone", source.display()).into())
        }
        Err(FsError { error: ClientError::Local(e), .. }) => {
            Err(OutputError::from(io::Error::new(e.kind(), e)).into())
        }
        done => Ok(done.map(drop)?),
    }
}

/// Several files go into one directory.
fn check_many(sources: &[PathBuf], destination: &Path, is_dir: bool) -> Outcome {
    if sources.len() > 1 && !is_dir {
        let path = destination.display();
        return Err(format!("{path}: not a directory, and there are several files to copy").into());
    }
    Ok(())
}

/// Each has a name of its own there: the last one would replace the others.
fn check_names(names: impl Iterator<Item = OsString>, destination: &Path) -> Outcome {
    let mut seen = BTreeSet::new();
    for name in names {
        if !seen.insert(name.clone()) {
            let path = destination.join(name);
            return Err(format!("several files would become {}", path.display()).into());
        }
    }
    Ok(())
}

/// The name a local file is copied under; none for standard input.
fn last_name(source: &Path) -> Option<OsString> {
    if source == Path::new(STANDARD) {
        return None;
    }
    let named = source.file_name().map(OsStr::to_owned);
    named.or_else(|| fs::canonicalize(source).ok()?.file_name().map(OsStr::to_owned))
}

async fn is_remote_dir(client: &Client, path: &Path) -> Outcome<bool> {
    match client.stat_followed(path).await {
        Ok(attrs) => Ok(attrs.file_type == Some(FileType::DIR)),
        Err(e) if e.error.status() == Some(NfsStat::NOENT) => {
            if path.as_os_str().as_bytes().ends_with(b"/") {
                return Err(format!("{}: no such directory", path.display()).into());
            }
            Ok(false)
        }
        Err(e) => Err(e.into()),
    }
}

/// Where a file goes: the destination itself, or `name` in it if it is a directory.
pub(super) async fn remote_target(
    client: &Client,
    destination: &Path,
    name: Option<&OsStr>,
) -> Outcome<PathBuf> {
    match name {
        Some(name) if is_remote_dir(client, destination).await? => Ok(destination.join(name)),
        _ => Ok(destination.to_path_buf()),
    }
}

fn missing(path: &Path, why: &str) -> String {
    format!("{}: {why}{}", path.display(), pattern_hint(path))
}

fn with_hint(path: &Path, e: &FsError) -> String {
    let hint = match e.error.status() {
        Some(NfsStat::NOENT) => pattern_hint(path),
        _ => "",
    };
    format!("{e}{hint}")
}

/// Who wrote a pattern in quotes is told why nothing fits it.
fn pattern_hint(path: &Path) -> &'static str {
    match path.as_os_str().as_bytes().iter().any(|b| matches!(b, b'*' | b'?')) {
        true => " (patterns are expanded by the shell, for local files without quotes, only)",
        false => "",
    }
}

fn counting(bar: &ProgressBar) -> Progress {
    let bar = bar.clone();
    Arc::new(move |bytes| bar.set_position(bytes))
}

/// A bar of bytes and rate on a terminal, nothing elsewhere.
fn progress_bar(size: u64, what: &Path) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new(size);
    let template = "{msg} {wide_bar} {bytes}/{total_bytes} {bytes_per_sec} {eta}";
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    let name = what.file_name().unwrap_or(what.as_os_str());
    bar.set_message(name.to_string_lossy().into_owned());
    bar
}
