//! From the data servers to the volume: has every object a reason to be there?

use weft_store::{
    objects::ObjectId,
    types::{InodeNo, StoreError},
    volume::Volume,
};

use super::{files::devices_of, report::Report, stores::Store};
use crate::outcome::Outcome;

/// Objects compared with the volume at a time, about.
const OBJECTS_AT_ONCE: usize = 4096;

/// Looks for objects of a data server that belong to no file there and to no removal that is owed.
pub fn check(volume: &Volume, store: &Store, report: &mut Report) -> Outcome {
    let devices = devices_of(volume)?;
    let (mut after, mut count) = (None, 0);
    loop {
        let part = store.objects.objects(after, OBJECTS_AT_ONCE)?;
        let Some(last) = part.last() else { break };
        after = Some(*last);
        count += part.len();
        let (ours, foreign): (Vec<_>, Vec<_>) =
            part.iter().partition(|object| object.volume == volume.identity().number);
        for object in foreign {
            unaccounted(store, object, "belongs to another volume", report)?;
        }
        let inodes: Vec<_> = ours.iter().map(|object| InodeNo(object.object)).collect();
        for (object, known) in ours.iter().zip(volume.accounts_for(&inodes)?) {
            let elsewhere = match volume.inode(InodeNo(object.object)).unconfirmed() {
                Ok(inode) => inode.placement.is_some_and(|placement| {
                    let device = devices.get(&placement.device);
                    device.is_some_and(|device| !device.data_servers.contains(&store.id))
                }),
                Err(StoreError::Stale) => false,
                Err(e) => return Err(e.into()),
            };
            match (known, elsewhere) {
                (true, false) => {}
                (true, true) => {
                    unaccounted(store, object, "is of a file on other data servers", report)?;
                }
                (false, _) => unaccounted(store, object, "belongs to no file", report)?,
            }
        }
        report.progress(|| format!("{}: {count} objects", store.dir.display()));
    }
    let words = format!("{}: {count} objects", store.dir.display());
    report.say(&words, &serde_json::json!({ "data_server": store.id.0, "objects": count }))
}

fn unaccounted(store: &Store, object: &ObjectId, why: &str, report: &mut Report) -> Outcome {
    let what = format!("{}: object {} {why}", store.dir.display(), object.object);
    let of = serde_json::json!({
        "data_server": store.id.0, "volume": object.volume, "object": object.object,
    });
    report.wrong("unaccounted", &what, &of)
}
