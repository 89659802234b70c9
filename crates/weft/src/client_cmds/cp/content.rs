//! The bytes of one file, from wherever to wherever.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use weft_client::{
    ClientError,
    fs::{FsError, Naming, OpenOptions, Progress, Upload, is_copy_declined},
    limits,
};

use super::{
    facts::{Facts, is_same},
    how::{BOTH_LOCAL, How},
    place::{OWNER_LOST, Place, set_local_times},
};
use crate::client_cmds::connect::Remote;

/// Why a file was not copied; and whether nothing else will be.
pub(super) struct Failure {
    pub(super) why: String,
    pub(super) is_last: bool,
    /// The server copies nothing itself: it was not tried any other way.
    is_declined: bool,
}

impl Failure {
    /// One after which nothing else is tried.
    pub(super) fn last(why: String) -> Failure {
        Failure { why, is_last: true, is_declined: false }
    }
}

impl From<String> for Failure {
    fn from(why: String) -> Failure {
        Failure { why, is_last: false, is_declined: false }
    }
}

/// Who has copied the bytes of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum By {
    /// This machine.
    Us,
    /// The servers, among themselves.
    Servers,
    /// This machine, since the server would not: why.
    UsInstead(String),
}

impl By {
    /// What is said of it.
    pub(super) fn words(&self) -> String {
        match self {
            By::Us => String::new(),
            By::Servers => " (by the servers)".into(),
            By::UsInstead(why) => format!(" (through this machine: {why})"),
        }
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
) -> Result<By, Failure> {
    match (from, to) {
        (Place::Local, Place::Cluster(remote)) => {
            let upload = Upload::file(item.from).map_err(|e| e.to_string())?;
            let upload = upload.with_mode(item.facts.mode(how.preserve) & 0o777);
            send(remote, upload, item, (how, progress)).await?;
            Ok(By::Us)
        }
        (Place::Cluster(source), Place::Cluster(remote)) => {
            let there = copied_there(source, remote, item, (how, progress.clone())).await?;
            if there != Some(By::Servers) {
                between(source, remote, item, (how, progress)).await?;
            }
            Ok(there.unwrap_or(By::Us))
        }
        (Place::Cluster(remote), Place::Local) => {
            let whither = (item.naming, progress);
            let got = remote.client.get_named(item.from, item.to, whither).await;
            got.map_err(|e| match e.error {
                // A disk of this machine, wherever the bytes come from.
                ClientError::Local(_) => format!("{}: {}", item.to.display(), e.error).into(),
                _ if e.path == item.to => e.to_string().into(),
                _ => failure(remote, &e),
            })?;
            if how.preserve {
                to.finish(item.to, item.facts, (true, true)).await?;
            } else if how.keeps_times() {
                let set = set_local_times(item.to, item.facts);
                set.map_err(|e| format!("{}: {e}", item.to.display()))?;
            }
            Ok(By::Us)
        }
        (Place::Local, Place::Local) => Err(BOTH_LOCAL.to_owned().into()),
    }
}

fn failure(remote: &Remote, e: &FsError) -> Failure {
    let is_last = matches!(
        e.error,
        ClientError::Unreachable { .. } | ClientError::NotServed { .. } | ClientError::Closed
    );
    let hint = match e.error {
        ClientError::ListNotKept(_) => " (put --in-place)",
        _ => "",
    };
    let is_declined = is_copy_declined(&e.error);
    Failure { why: format!("{}{hint}", remote.failed(e)), is_last, is_declined }
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
    let refused = Arc::new(AtomicBool::new(false));
    let upload = upload.telling_of_owner(refused.clone());
    remote.client.put(upload, item.to).await.map_err(|e| failure(remote, &e))?;
    match refused.load(Ordering::Acquire) && rustix::process::geteuid().is_root() {
        true => Err(format!("{}{OWNER_LOST}", remote.show(item.to)).into()),
        false => Ok(()),
    }
}

/// Has the servers copy a file, if it is of the cluster that it goes to and no small one, which is
/// read and written in one request each. None if they were not asked to.
async fn copied_there(
    source: &Remote,
    remote: &Remote,
    item: &Item<'_>,
    (how, progress): (&How, Progress),
) -> Result<Option<By>, Failure> {
    let is_small = item.facts.size <= limits::EAGER_BYTES as u64;
    if is_small || !remote.client.may_copy_from(&source.client) {
        return Ok(None);
    }
    // By the client that copies: each client's opens are its own. Why it cannot, the other way
    // says.
    let Ok(file) = remote.client.open(item.from, OpenOptions::read()).await else {
        return Ok(None);
    };
    let file = Arc::new(file);
    let is_it = item.facts.there.as_ref().is_some_and(|there| is_same(there, file.attrs(), false));
    let sent = match is_it {
        true => {
            let upload = Upload::copied_there(file.clone(), item.facts.mode(how.preserve));
            Some(send(remote, upload, item, (how, progress)).await)
        }
        // Another one has the name by now, or it has changed; or the servers only say that they are
        // the same, as a cluster and a clone of its disks do.
        false => None,
    };
    if let Some(file) = Arc::into_inner(file) {
        file.close().await.map_err(|e| failure(source, &e))?;
    }
    match sent {
        None => Ok(None),
        Some(Ok(())) => Ok(Some(By::Servers)),
        Some(Err(failure)) if failure.is_declined => Ok(Some(By::UsInstead(failure.why))),
        Some(Err(failure)) => Err(failure),
    }
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
    let given = source.client.give(&file, sender);
    let (given, sent) = tokio::join!(given, send(remote, upload, item, (how, progress)));
    if let Some(file) = Arc::into_inner(file) {
        file.close().await.map_err(|e| failure(source, &e))?;
    }
    given.map_err(|e| failure(source, &e))?;
    sent
}
