//! `weft accept-loss`: what goes with a data server that is lost for good, and the way for another
//! directory to take its place. The metadata server must not run.

use std::{collections::HashSet, path::PathBuf};

use clap::Args;
use serde_json::json;
use weft_mds::data_servers::recorded_uuid;
use weft_server::identity::hex;
use weft_store::{
    types::{DataServerId, Device, Inode},
    volume::{ObjectFault, Volume, is_readable},
};

use crate::{
    fsck::{self, Report, files::Fault},
    outcome::{NotChecked, Outcome},
};

/// Inodes looked at in one go.
const INODES_AT_ONCE: usize = 4096;

/// Options of `weft accept-loss`.
#[derive(Debug, Args)]
pub struct AcceptLossArgs {
    /// Number of the data server whose directory is lost for good.
    #[arg(long, value_name = "N")]
    data_server: u32,
    /// Directory of a `weft up`.
    #[arg(long, value_name = "DIR", default_value = ".weft", conflicts_with = "mds")]
    dir: PathBuf,
    /// Data directory of a `weft mds`, instead of --dir.
    #[arg(long, value_name = "DIR")]
    mds: Option<PathBuf>,
    /// Accept it: the next directory that comes as this data server takes its place.
    #[arg(long)]
    yes: bool,
    /// Print JSON, an object a line.
    #[arg(long)]
    json: bool,
}

/// Lists the files that lose bytes; with --yes forgets the directory of the data server.
pub fn run(args: &AcceptLossArgs) -> Outcome {
    let mds = args.mds.clone().unwrap_or_else(|| args.dir.join("mds"));
    let volume = fsck::open_volume(&mds).map_err(NotChecked)?;
    let id = DataServerId(args.data_server);
    let known = volume.data_servers().unconfirmed()?;
    let record = known.iter().find(|(known, _)| *known == id);
    let (_, record) = record.ok_or_else(|| {
        format!("data server {} is not known to this volume: nothing is lost with it", id.0)
    })?;
    let uuid = recorded_uuid(record).map_or_else(String::new, |uuid| hex(&uuid));
    let mut report = Report::new(args.json);
    let kept: HashSet<_> = known.iter().map(|(known, _)| *known).filter(|k| *k != id).collect();
    let Lost { files, copies } = list(&volume, (id, &kept), &mut report)?;
    let of_copies = match copies {
        0 => String::new(),
        n => format!(", {n} replicated files lose a copy and are read from another"),
    };
    let words = format!("data server {}, directory {uuid}: {files} files lose bytes", id.0);
    let counts =
        json!({ "data_server": id.0, "directory": uuid, "files": files, "copies": copies });
    report.say(&(words + &of_copies), &counts)?;
    if !args.yes {
        let next = "nothing is changed yet: put the directory back, or accept the loss with --yes";
        return report.say(next, &json!({ "accepted": false }));
    }
    let forgotten = volume.data_server_remove(id);
    tokio::runtime::Builder::new_current_thread().build()?.block_on(volume.confirm(forgotten))?;
    let next = "accepted: start the data server with an empty directory. What is listed with lost \
                bytes answers input/output error until it is removed, replaced, or cut to nothing. \
                What has lost a copy is read, and takes no writes: copy it, and put the copy in \
                its place";
    report.say(next, &json!({ "accepted": true }))
}

/// Numbers of files that a loss concerns.
#[derive(Debug, Default)]
struct Lost {
    /// Files that lose bytes.
    files: u64,
    /// Replicated files that lose a copy, and have another.
    copies: u64,
}

/// Names the files that have bytes on a data server that is lost, beside these that are not.
fn list(
    volume: &Volume,
    (id, kept): (DataServerId, &HashSet<DataServerId>),
    report: &mut Report,
) -> Outcome<Lost> {
    let devices = fsck::files::devices_of(volume)?;
    let (mut after, mut count) = (None, Lost::default());
    loop {
        let part = volume.placed_files(after, INODES_AT_ONCE)?;
        let mut lost = Vec::new();
        for inode in &part.files {
            let device = inode.placement.and_then(|placement| devices.get(&placement.device));
            let fault = device.and_then(|device| expected(inode, device, (id, kept)));
            lost.extend(fault.map(|fault| Fault { ino: inode.no, data_server: id, fault }));
        }
        let is_copy = |f: &&Fault| matches!(f.fault, ObjectFault::CopyLost { .. });
        let copies = lost.iter().filter(is_copy).count() as u64;
        count.copies += copies;
        count.files += lost.len() as u64 - copies;
        fsck::files::tell(volume, &lost, report)?;
        after = part.last;
        if after.is_none() {
            return Ok(count);
        }
    }
}

/// Fault of a file that loses its object on a data server. `None` if no bytes are known to be
/// there.
fn expected(
    inode: &Inode,
    device: &Device,
    (id, kept): (DataServerId, &HashSet<DataServerId>),
) -> Option<ObjectFault> {
    let placement = inode.placement.as_ref()?;
    let index = device.data_servers.iter().position(|ds| *ds == id)?;
    let expected = inode.bounds.of(placement, index);
    let fault = (expected > 0).then_some(ObjectFault::Lost { expected, found: 0 })?;
    let is_kept = |at: usize| device.data_servers.get(at).is_some_and(|ds| kept.contains(ds));
    Some(if is_readable(placement, is_kept) { fault.of_readable() } else { fault })
}
