//! The bytes of one file, from wherever to wherever.

use std::sync::{
    Arc, OnceLock,
    atomic::{AtomicBool, Ordering},
};

use weft_client::{
    ClientError,
    fs::{Download, FsError, Naming, OpenOptions, Progress, Upload, is_copy_declined},
    limits,
};

use super::{
    facts::{Facts, is_same},
    how::{BOTH_LOCAL, How},
    local,
    place::{OWNER_LOST, Place},
    spot::Spot,
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
    pub(super) from: &'a Spot,
    pub(super) to: &'a Spot,
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
            let failed = |e: &dyn std::fmt::Display| format!("{}: {e}", item.from.path.display());
            let (upload, facts) = match local::open_listed(item.from).map_err(|e| failed(&e))? {
                Some((file, facts)) => (Upload::open_file(file).map_err(|e| failed(&e))?, facts),
                None => {
                    let upload = Upload::file(&item.from.path).map_err(|e| e.to_string())?;
                    (upload, item.facts.clone())
                }
            };
            let upload = upload.with_mode(facts.mode(how.preserve) & 0o777);
            // Of the file that was opened: another one had the name when it was listed, perhaps.
            let item = Item { facts: &facts, ..*item };
            send(remote, upload, &item, (how, progress)).await?;
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
            receive(remote, item, (how, progress)).await?;
            Ok(By::Us)
        }
        (Place::Local, Place::Local) => Err(BOTH_LOCAL.to_owned().into()),
    }
}

/// Copies a file to this machine. It has what it keeps of its source before it has its name.
async fn receive(
    remote: &Remote,
    item: &Item<'_>,
    (how, progress): (&How, Progress),
) -> Result<(), Failure> {
    let path = &item.to.path;
    let entry = item.to.entry().map_err(|e| format!("{}: {e}", path.display()))?;
    let mut download = match entry {
        Some((dir, name)) => Download::to_entry(dir, name, (item.naming, path)),
        None => Download::to(path),
    };
    let refused = Arc::new(OnceLock::new());
    if let Some(keeps) = how.keeps() {
        let (facts, refused) = (item.facts.clone(), refused.clone());
        download = download.finally(move |file| {
            if let Err(e) = local::set(file, &facts, keeps) {
                // Nobody else sets it.
                let _ = refused.set(e);
            }
        });
    }
    let got = remote.client.get(&item.from.path, download.with_progress(progress)).await;
    got.map_err(|e| match e.error {
        // A disk of this machine, wherever the bytes come from.
        ClientError::Local(_) => format!("{}: {}", path.display(), e.error).into(),
        _ if e.path == *path => e.to_string().into(),
        _ => failure(remote, &e),
    })?;
    match refused.get() {
        None => Ok(()),
        Some(e) => {
            let lost = "is copied, but not all of its owner, mode and times could be kept";
            Err(format!("{}: {lost}: {e}", path.display()).into())
        }
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
    remote.client.put(upload, &item.to.path).await.map_err(|e| failure(remote, &e))?;
    match refused.load(Ordering::Acquire) && rustix::process::geteuid().is_root() {
        true => Err(format!("{}{OWNER_LOST}", remote.show(&item.to.path)).into()),
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
    let Ok(file) = remote.client.open(&item.from.path, OpenOptions::read()).await else {
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
        match source.client.read_file(&item.from.path, limits::EAGER_BYTES).await {
            Ok(data) => {
                return send(remote, Upload::bytes(data, mode), item, (how, progress)).await;
            }
            // It has grown since it was listed.
            Err(FsError { error: ClientError::FileTooLong, .. }) => {}
            Err(e) => return Err(failure(source, &e)),
        }
    }
    let opened = source.client.open(&item.from.path, OpenOptions::read()).await;
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
