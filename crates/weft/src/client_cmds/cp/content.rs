//! The bytes of one file, from wherever to wherever.

use std::{path::Path, sync::Arc};

use tokio::task::JoinSet;
use weft_client::{
    ClientError,
    fs::{Client, File, FsError, Naming, OpenOptions, PIECE_BYTES, PieceSender, Progress, Upload},
    limits,
};

use super::{
    facts::Facts,
    how::{BOTH_LOCAL, How},
    place::{Place, set_local_times},
};
use crate::client_cmds::connect::Remote;

/// Pieces that are read at a time from a cluster, for another one.
const READ_AT_A_TIME: usize = 4;

/// Why a file was not copied; and whether nothing else will be.
pub(super) struct Failure {
    pub(super) why: String,
    pub(super) is_last: bool,
}

impl From<String> for Failure {
    fn from(why: String) -> Failure {
        Failure { why, is_last: false }
    }
}

/// A file that is to be copied.
pub(super) struct Item<'a> {
    pub(super) from: &'a Path,
    pub(super) to: &'a Path,
    pub(super) facts: &'a Facts,
    pub(super) naming: Naming,
}

/// Copies a file: it appears under its name when it is whole, with what is kept of its attributes.
pub(super) async fn copy(
    (from, to): (&Place, &Place),
    item: &Item<'_>,
    how: &How,
    progress: Progress,
) -> Result<(), Failure> {
    match (from, to) {
        (Place::Local, Place::Cluster(remote)) => {
            let upload = Upload::file(item.from).map_err(|e| e.to_string())?;
            send(remote, upload, item, (how, progress)).await
        }
        (Place::Cluster(source), Place::Cluster(remote)) => {
            between(source, remote, item, (how, progress)).await
        }
        (Place::Cluster(remote), Place::Local) => {
            let whither = (item.naming, progress);
            let got = remote.client.get_named(item.from, item.to, whither).await;
            got.map_err(|e| match e.path == item.to {
                true => Failure::from(e.to_string()),
                false => failure(remote, &e),
            })?;
            if how.preserve {
                to.finish(item.to, item.facts, (true, true)).await?;
            } else if how.keeps_times() {
                let set = set_local_times(item.to, item.facts);
                set.map_err(|e| format!("{}: {e}", item.to.display()))?;
            }
            Ok(())
        }
        (Place::Local, Place::Local) => Err(BOTH_LOCAL.to_owned().into()),
    }
}

fn failure(remote: &Remote, e: &FsError) -> Failure {
    let is_last = matches!(
        e.error,
        ClientError::Unreachable { .. } | ClientError::NotServed { .. } | ClientError::Closed
    );
    Failure { why: remote.failed(e), is_last }
}

async fn send(
    remote: &Remote,
    upload: Upload,
    item: &Item<'_>,
    (how, progress): (&How, Progress),
) -> Result<(), Failure> {
    let upload = upload.named(item.naming).with_progress(progress);
    let upload = if how.in_place { upload.in_place() } else { upload };
    let upload = match item.facts.to_set(how.preserve, how.keeps_times()) {
        Some(attrs) => upload.finally(attrs),
        None => upload,
    };
    remote.client.put(upload, item.to).await.map(drop).map_err(|e| match e.error {
        ClientError::ListNotKept(_) => format!("{} (put --in-place)", remote.failed(&e)).into(),
        _ => failure(remote, &e),
    })
}

/// From one cluster to another, or within one. A small file is read in one request.
async fn between(
    source: &Remote,
    remote: &Remote,
    item: &Item<'_>,
    (how, progress): (&How, Progress),
) -> Result<(), Failure> {
    let mode = item.facts.mode(how.preserve);
    if item.facts.size <= limits::EAGER_BYTES as u64 {
        match source.client.read_file(item.from, limits::EAGER_BYTES).await {
            Ok(data) => {
                return send(remote, Upload::bytes(data, mode), item, (how, progress)).await;
            }
            // It has grown since it was listed.
            Err(FsError { error: ClientError::FileTooLong, .. }) => {}
            Err(e) => return Err(failure(source, &e)),
        }
    }
    let opened = source.client.open(item.from, OpenOptions::read()).await;
    let file = Arc::new(opened.map_err(|e| failure(source, &e))?);
    let (sender, upload) = Upload::pieces(file.size(), mode);
    let given = async {
        let given = give(&source.client, (&file, item.from), &sender).await;
        let end = match &given {
            Ok(()) => Ok(None),
            Err(e) => Err(std::io::Error::other(e.to_string())),
        };
        // Whoever receives it may have failed, and says why.
        let _ = sender.send(end).await;
        given
    };
    let (given, sent) = tokio::join!(given, send(remote, upload, item, (how, progress)));
    if let Some(file) = Arc::into_inner(file) {
        file.close().await.map_err(|e| failure(source, &e))?;
    }
    given.map_err(|e| failure(source, &e))?;
    sent
}

/// Reads what is no hole of a file, a few pieces at a time.
async fn give(
    client: &Client,
    (file, path): (&Arc<File>, &Path),
    to: &PieceSender,
) -> Result<(), FsError> {
    let mut reads: JoinSet<Result<bool, FsError>> = JoinSet::new();
    let mut at = 0;
    while let Some((start, end)) = next_data(client, file, at).await? {
        let mut offset = start;
        while offset < end {
            if reads.len() >= READ_AT_A_TIME && !one(&mut reads, path).await? {
                return Ok(());
            }
            let len = usize::try_from(end - offset).unwrap_or(PIECE_BYTES).min(PIECE_BYTES);
            let (file, to, from, path) = (file.clone(), to.clone(), offset, path.to_path_buf());
            reads.spawn(async move {
                let data = file.read_at(from, len).await?;
                if data.len() != len {
                    let error = ClientError::Invalid("it became shorter while it was copied");
                    return Err(FsError { path, error });
                }
                Ok(to.send(Ok(Some((from, data)))).await.is_ok())
            });
            offset += len as u64;
        }
        at = end;
    }
    while !reads.is_empty() {
        if !one(&mut reads, path).await? {
            return Ok(());
        }
    }
    Ok(())
}

/// Whether the piece of the next read that ended is wanted.
async fn one(reads: &mut JoinSet<Result<bool, FsError>>, path: &Path) -> Result<bool, FsError> {
    match reads.join_next().await {
        Some(Ok(read)) => read,
        None => Ok(false),
        Some(Err(_)) => Err(FsError { path: path.into(), error: ClientError::Closed }),
    }
}

async fn next_data(client: &Client, file: &File, at: u64) -> Result<Option<(u64, u64)>, FsError> {
    match file.may_have_holes() {
        true => client.next_data(file, at).await,
        false => Ok((at < file.size()).then_some((at, file.size()))),
    }
}
