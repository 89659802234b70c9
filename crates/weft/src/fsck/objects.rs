//! From the data servers to the volume: has every object a reason to be there?

use weft_store::{
    objects::{Misplaced, ObjectId},
    types::InodeNo,
    volume::{Account, Volume},
};

use super::{report::Report, stores::Store};
use crate::outcome::Outcome;

/// Objects compared with the volume at a time, about.
const OBJECTS_AT_ONCE: usize = 4096;

/// Looks for objects of a data server that belong to no file there and to no removal that is owed,
/// and for files that are no objects where they are.
pub fn check(volume: &Volume, store: &Store, report: &mut Report) -> Outcome {
    let (mut after, mut count) = (None, 0);
    loop {
        let part = store.objects.objects(after, OBJECTS_AT_ONCE)?;
        let Some(last) = part.last() else { break };
        after = Some(*last);
        count += part.len();
        let inodes: Vec<_> = part.iter().map(|object| InodeNo(object.object)).collect();
        for (object, account) in part.iter().zip(volume.accounts_for(store.id, &inodes)?) {
            let why = match account {
                _ if object.volume != volume.identity().number => "belongs to another volume",
                _ if store.objects.is_given_up(*object) => "is of a state that was given up",
                Account::Known => continue,
                Account::Elsewhere => "is of a file that has none here",
                Account::Nobody => "belongs to no file",
            };
            let what = format!("{}: object {} {why}", store.dir.display(), object.object);
            unaccounted(store, &what, Some(object), report)?;
        }
        report.progress(|| format!("{}: {count} objects", store.dir.display()));
    }
    for Misplaced { path, belongs } in store.objects.misplaced()? {
        let path = path.display();
        let what = match &belongs {
            Some((_, right)) => format!("{path}: this object belongs at {}", right.display()),
            None => format!("{path}: this is no object"),
        };
        unaccounted(store, &what, belongs.map(|(object, _)| object).as_ref(), report)?;
    }
    let words = format!("{}: {count} objects", store.dir.display());
    report.say(&words, &serde_json::json!({ "data_server": store.id.0, "objects": count }))
}

fn unaccounted(
    store: &Store,
    what: &str,
    object: Option<&ObjectId>,
    report: &mut Report,
) -> Outcome {
    let mut of = serde_json::json!({ "data_server": store.id.0 });
    if let Some(object) = object {
        of["volume"] = object.volume.into();
        of["object"] = object.object.into();
    }
    report.wrong("unaccounted", what, &of)
}
