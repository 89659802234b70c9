//! The directories of data servers that were given, and which data server of the volume each is.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
};

use weft_mds::data_servers::recorded_uuid;
use weft_server::identity::hex;
use weft_store::{
    objects::{ObjectStore, ObjectStoreOptions},
    types::DataServerId,
    volume::Volume,
};

use super::report::Report;
use crate::outcome::Outcome;

/// The directory of a data server.
pub struct Store {
    /// Which data server's it is.
    pub id: DataServerId,
    /// Where it is.
    pub dir: PathBuf,
    /// Its objects.
    pub objects: ObjectStore,
}

/// The directories `ds-1`, `ds-2`, … of a `weft up`.
pub fn of_up(dir: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        if number_of(&entry.path()).is_some() {
            found.push(entry.path());
        }
    }
    found.sort();
    Ok(found)
}

/// The number in the name of a directory of `weft up`.
fn number_of(dir: &Path) -> Option<u32> {
    dir.file_name()?.to_str()?.strip_prefix("ds-")?.parse().ok()
}

/// Opens the directories. One that is of no data server of this volume is a finding, and so is a
/// data server whose directory is not among them.
pub fn open(volume: &Volume, dirs: &[PathBuf], report: &mut Report) -> Outcome<Vec<Store>> {
    let mut expected = BTreeMap::new();
    for (id, record) in volume.data_servers().unconfirmed()? {
        let uuid = recorded_uuid(&record).ok_or("the record of a data server makes no sense")?;
        expected.insert(uuid, id);
    }
    let mut stores: Vec<Store> = Vec::new();
    for dir in dirs {
        if !dir.join("identity").exists() {
            let what = format!("{}: there is no data server here", dir.display());
            report.wrong("directory", &what, &serde_json::json!({ "directory": dir }))?;
            continue;
        }
        let objects = ObjectStore::open(dir, &ObjectStoreOptions::default())
            .map_err(|e| format!("{}: {e}", dir.display()))?;
        let uuid = objects.identity();
        let Some(id) = expected.get(&uuid).copied() else {
            let (shown, uuid) = (dir.display(), hex(&uuid));
            let what =
                format!("{shown}: this directory, {uuid}, is of no data server of this volume");
            let json = serde_json::json!({ "directory": dir });
            match objects.objects(None, 1)?.is_empty() {
                // The metadata server has not met it yet: a first start was cut short.
                true => report.say(&format!("{what}, and has no objects"), &json)?,
                false => report.wrong("directory", &what, &json)?,
            }
            continue;
        };
        if number_of(dir).is_some_and(|number| number != id.0) {
            let what = format!("{}: this is the directory of data server {}", dir.display(), id.0);
            report.wrong("directory", &what, &serde_json::json!({ "directory": dir }))?;
        }
        stores.push(Store { id, dir: dir.clone(), objects });
    }
    for (uuid, id) in expected {
        if !stores.iter().any(|store| store.id == id) {
            let (id, uuid) = (id.0, hex(&uuid));
            let what = format!("data server {id}: its directory, {uuid}, is not here");
            report.wrong("data server", &what, &serde_json::json!({ "data_server": id }))?;
        }
    }
    Ok(stores)
}
