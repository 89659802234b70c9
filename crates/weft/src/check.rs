//! `weft check`: the objects of data servers against the volume of a running cluster, in both
//! directions, at a bounded rate. It repairs nothing.

use std::{collections::BTreeMap, time::Duration};

use clap::Args;
use serde_json::json;
use weft_server::report::{CheckedFiles, CheckedObjects, ClusterStatus};

use crate::{
    admin::AdminArgs,
    fsck::{FaultyObject, Report},
    outcome::{NotChecked, Outcome, OutputError},
};

/// Options of `weft check`.
#[derive(Debug, Args)]
pub struct CheckArgs {
    /// Files and objects looked at in a second, at most.
    #[arg(
        long,
        value_name = "N",
        default_value_t = 5000,
        value_parser = clap::value_parser!(u32).range(1..)
    )]
    rate: u32,
    /// Print JSON: an object a line for each finding, and one for the end.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    admin: AdminArgs,
}

/// Checks, and says what is wrong; an error if anything is, another one if some of it could not be
/// checked.
pub fn run(args: &CheckArgs) -> Outcome {
    let mut report = Report::new(args.json);
    let mut unreachable = BTreeMap::new();
    let checked = check(args, &mut report, &mut unreachable);
    checked.map_err(|e| if e.is::<OutputError>() { e } else { Box::new(NotChecked(e)) })?;
    if !report.is_clean() || unreachable.is_empty() {
        return report.end();
    }
    let all: Vec<_> = unreachable.into_values().collect();
    Err(Box::new(NotChecked(all.join("; ").into())))
}

fn check(
    args: &CheckArgs,
    report: &mut Report,
    unreachable: &mut BTreeMap<u32, String>,
) -> Outcome {
    let (mut after, mut files) = (None, 0);
    loop {
        let asked = json!({ "after": after });
        let part: CheckedFiles = args.admin.tell("/check/files", &asked)?;
        for fault in part.faults {
            report.object(&FaultyObject {
                path: fault.path.as_deref(),
                fileid: fault.fileid,
                data_server: fault.data_server,
                lost: fault.lost,
                what: &fault.what,
            })?;
        }
        for (id, why) in part.unreachable {
            if unreachable.insert(id, why.clone()).is_none() {
                let of = json!({ "data_server": id, "unreachable": why });
                report.say(&format!("not checked: {why}"), &of)?;
            }
        }
        files += part.files;
        report.progress(|| format!("{files} files on data servers compared"));
        after = part.last;
        if after.is_none() {
            break;
        }
        pause(args, part.files);
    }
    let words = format!("{files} files on data servers compared with their objects");
    report.say(&words, &json!({ "files": files }))?;
    let status: ClusterStatus = args.admin.ask("/status")?;
    for id in status.servers.iter().filter_map(|server| server.id) {
        if !unreachable.contains_key(&id)
            && let Err(e) = check_objects(args, id, report)
        {
            unreachable.insert(id, e.to_string());
            let of = json!({ "data_server": id, "unreachable": e.to_string() });
            report.say(&format!("not checked: {e}"), &of)?;
        }
    }
    Ok(())
}

/// Looks for objects of a data server without a reason to be there.
fn check_objects(args: &CheckArgs, id: u32, report: &mut Report) -> Outcome {
    let (mut after, mut objects) = (None, 0);
    loop {
        let asked = json!({ "data_server": id, "after": after });
        let part: CheckedObjects = args.admin.tell("/check/objects", &asked)?;
        let nobodys = part.unaccounted.iter().map(|one| (one, "belongs to no file"));
        let elsewhere = part.elsewhere.iter().map(|one| (one, "is of a file that has none here"));
        for ((volume, object), why) in nobodys.chain(elsewhere) {
            let of = json!({ "data_server": id, "volume": volume, "object": object });
            let what = format!("data server {id}: object {object} of volume {volume:08x} {why}");
            report.wrong("unaccounted", &what, &of)?;
        }
        objects += part.objects;
        report.progress(|| format!("data server {id}: {objects} objects"));
        after = part.last;
        if after.is_none() {
            break;
        }
        pause(args, part.objects);
    }
    let words = format!("data server {id}: {objects} objects");
    report.say(&words, &json!({ "data_server": id, "objects": objects }))
}

/// Keeps to the rate after so many were looked at.
fn pause(args: &CheckArgs, looked: u64) {
    std::thread::sleep(Duration::from_secs(looked) / args.rate);
}
