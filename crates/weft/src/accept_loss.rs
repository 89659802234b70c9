//! `weft accept-loss`: what goes with a data server that is lost for good, and the way for another
//! directory to take its place. The metadata server must not run.

use std::path::PathBuf;

use clap::Args;
use serde_json::json;
use weft_mds::data_servers::recorded_uuid;
use weft_server::identity::hex;
use weft_store::{
    types::{DataServerId, Inode},
    volume::{ObjectFault, Volume},
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
    let files = list(&volume, id, &mut report)?;
    let words = format!("data server {}, directory {uuid}: {files} files lose bytes", id.0);
    report.say(&words, &json!({ "data_server": id.0, "directory": uuid, "files": files }))?;
    if !args.yes {
        let next = "nothing is changed yet: put the directory back, or accept the loss with --yes";
        return report.say(next, &json!({ "accepted": false }));
    }
    let forgotten = volume.data_server_remove(id);
    tokio::runtime::Builder::new_current_thread().build()?.block_on(volume.confirm(forgotten))?;
    let next = "accepted: start the data server with an empty directory. What is listed answers \
                input/output error until it is removed, replaced, or cut to nothing";
    report.say(next, &json!({ "accepted": true }))
}

/// Names the files that have bytes on a data server; how many there are.
fn list(volume: &Volume, id: DataServerId, report: &mut Report) -> Outcome<u64> {
    let devices = fsck::files::devices_of(volume)?;
    let (mut after, mut count) = (None, 0);
    loop {
        let part = volume.placed_files(after, INODES_AT_ONCE)?;
        let mut lost = Vec::new();
        for inode in &part.files {
            let device = inode.placement.and_then(|placement| devices.get(&placement.device));
            let index = device.and_then(|d| d.data_servers.iter().position(|ds| *ds == id));
            lost.extend(index.and_then(|index| expected(inode, index)).map(|fault| Fault {
                ino: inode.no,
                data_server: id,
                fault,
            }));
        }
        count += lost.len() as u64;
        fsck::files::tell(volume, &lost, report)?;
        after = part.last;
        if after.is_none() {
            return Ok(count);
        }
    }
}

/// What a file loses with its object at an index; nothing if nothing is known to be there.
fn expected(inode: &Inode, index: usize) -> Option<ObjectFault> {
    let expected = inode.bounds.of(inode.placement.as_ref()?, index);
    (expected > 0).then_some(ObjectFault::Lost { expected, found: 0 })
}
