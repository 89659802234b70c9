//! `weft put` and `weft get`, with a progress bar on a terminal.

use std::{
    ffi::OsStr,
    io::IsTerminal,
    path::{Path, PathBuf},
    sync::Arc,
};

use indicatif::{ProgressBar, ProgressStyle};
use weft_client::fs::{Client, Progress};
use weft_nfs::{FileType, NfsStat};

use crate::outcome::Outcome;

/// Copies a local file to the cluster.
pub(super) async fn put(client: &Client, source: &Path, destination: &Path) -> Outcome {
    let size = std::fs::metadata(source)
        .map(|m| m.len())
        .map_err(|e| format!("{}: {e}", source.display()))?;
    let destination = remote_target(client, destination, source.file_name()).await?;
    let bar = progress_bar(size, source);
    let done = client.put_file(source, &destination, counting(&bar)).await;
    bar.finish_and_clear();
    done?;
    Ok(())
}

/// Copies a file from the cluster.
pub(super) async fn get(client: &Client, source: &Path, destination: &Path) -> Outcome {
    let attrs = client.stat_followed(source).await?;
    let destination = match source.file_name() {
        Some(name) if destination.is_dir() => destination.join(name),
        _ => destination.to_path_buf(),
    };
    let bar = progress_bar(attrs.size.unwrap_or(0), source);
    let done = client.get_file(source, &destination, counting(&bar)).await;
    bar.finish_and_clear();
    done?;
    Ok(())
}

/// Where a file goes: the destination itself, or `name` in it if it is a directory.
pub(super) async fn remote_target(
    client: &Client,
    destination: &Path,
    name: Option<&OsStr>,
) -> Outcome<PathBuf> {
    let is_dir = match client.stat_followed(destination).await {
        Ok(attrs) => attrs.file_type == Some(FileType::DIR),
        Err(e) if e.error.status() == Some(NfsStat::NOENT) => false,
        Err(e) => return Err(e.into()),
    };
    match name {
        Some(name) if is_dir => Ok(destination.join(name)),
        _ => Ok(destination.to_path_buf()),
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
