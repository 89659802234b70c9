//! Data servers that files are on and that the configuration does not have: their bytes could not
//! be reached, and nobody would be told before he reads them.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use weft_store::{
    types::{DataServerId, DeviceId, Placement, StoreError},
    volume::Volume,
};

/// Records looked at together.
const LOOK_BATCH: usize = 1024;

/// What is on a data server that is not configured.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stranded {
    /// Files that are on it, alone or with others.
    pub files: u64,
    /// The sizes of these files together, bytes.
    pub bytes: u64,
    /// Files whose objects it has still to remove.
    pub removals: u64,
}

/// Why a volume cannot be served with a configuration.
#[derive(Debug, thiserror::Error)]
pub enum Unconfigured {
    /// There are files on data servers that it does not have.
    #[error("{}", explain(.0))]
    Missing(BTreeMap<DataServerId, Stranded>),
    /// The volume cannot be read.
    #[error("volume store: {0}")]
    Store(#[from] StoreError),
}

fn explain(missing: &BTreeMap<DataServerId, Stranded>) -> String {
    let one = |(id, Stranded { files, bytes, removals }): (&DataServerId, &Stranded)| {
        format!(
            "data server {} is not configured, but {files} files of {bytes} bytes are on it, \
             and it has the objects of {removals} removed files",
            id.0
        )
    };
    let all: Vec<_> = missing.iter().map(one).collect();
    format!(
        "{}: put its [[data_server]] back; it need not run. Remove those files before you take it \
         away, or, if it is lost for good, accept the loss (`weft accept-loss`)",
        all.join("; ")
    )
}

/// Whether all data servers that have anything of a volume are among the `configured`.
///
/// **Cost**: nothing while every data server of every device is configured; else every inode is
/// read.
///
/// # Errors
/// [`Unconfigured`].
pub fn require_configured(
    volume: &Volume,
    configured: impl IntoIterator<Item = DataServerId>,
) -> Result<(), Unconfigured> {
    let configured: BTreeSet<_> = configured.into_iter().collect();
    let mut stray: HashMap<DeviceId, Vec<DataServerId>> = HashMap::new();
    for device in volume.devices().unconfirmed()? {
        let missing = device.data_servers.into_iter().filter(|id| !configured.contains(id));
        let missing: Vec<_> = missing.collect();
        if !missing.is_empty() {
            stray.insert(device.id, missing);
        }
    }
    if stray.is_empty() {
        return Ok(());
    }
    let mut found: BTreeMap<DataServerId, Stranded> = BTreeMap::new();
    let mut note = |placement: &Placement, add: &dyn Fn(&mut Stranded)| {
        for id in stray.get(&placement.device).into_iter().flatten() {
            add(found.entry(*id).or_default());
        }
    };
    each_placed(volume, |placement, size| {
        note(placement, &|on| {
            on.files += 1;
            on.bytes = on.bytes.saturating_add(size);
        });
    })?;
    let mut after = None;
    loop {
        let owed = volume.intents(after, LOOK_BATCH).unconfirmed()?;
        let Some(last) = owed.last() else { break };
        after = Some(last.id);
        owed.iter().for_each(|i| note(&i.placement, &|on| on.removals += 1));
    }
    if found.is_empty() { Ok(()) } else { Err(Unconfigured::Missing(found)) }
}

/// Visits the place and the size of every file that has a place.
fn each_placed(volume: &Volume, mut visit: impl FnMut(&Placement, u64)) -> Result<(), StoreError> {
    let mut after = None;
    loop {
        let part = volume.placed_files(after, LOOK_BATCH)?;
        for inode in &part.files {
            inode.placement.iter().for_each(|placement| visit(placement, inode.size));
        }
        after = part.last;
        if after.is_none() {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use weft_store::{
        types::{Credential, Device, InodeNo, Spread, Timestamp},
        volume::{New, NewFileData, Remove, VolumeConfig},
    };

    use super::*;

    const IDS: [DataServerId; 3] = [DataServerId(1), DataServerId(2), DataServerId(3)];

    fn volume() -> Volume {
        let volume = Volume::in_memory(&VolumeConfig::default()).unwrap();
        for (id, members) in [(1, &IDS[..]), (2, &IDS[..1])] {
            let device =
                Device { id: DeviceId([id; 16]), data_servers: members.to_vec(), list: None };
            volume.device_put(&device).unconfirmed().unwrap();
        }
        volume
    }

    fn make(volume: &Volume, name: &str, device: u8, stripe_count: u16) {
        let place = Placement {
            device: DeviceId([device; 16]),
            stripe_unit_bytes: 1 << 20,
            stripe_count,
            first_stripe_index: 0,
            reach: 1,
            spread: Spread::InTurn,
        };
        let new = New { data: NewFileData::On(place), size: Some(100), ..New::file(0o644) };
        let (root, now) = (Credential::superuser(), Timestamp::default());
        volume.create(InodeNo::ROOT, name.as_bytes(), &new, &root, now).unconfirmed().unwrap();
    }

    fn missing(volume: &Volume, configured: &[DataServerId]) -> BTreeMap<DataServerId, Stranded> {
        match require_configured(volume, configured.iter().copied()) {
            Ok(()) => BTreeMap::new(),
            Err(Unconfigured::Missing(missing)) => missing,
            Err(e) => panic!("{e}"),
        }
    }

    /// A data server that has nothing may go; one that has files, or objects of removed ones, may
    /// not, and what is on it is told.
    #[test]
    fn what_has_files_is_configured() {
        let volume = volume();
        assert!(missing(&volume, &IDS[..1]).is_empty(), "nothing is anywhere");
        make(&volume, "wide", 1, 3);
        make(&volume, "wide too", 1, 3);
        make(&volume, "narrow", 2, 1);
        assert!(missing(&volume, &IDS).is_empty());
        let stranded = Stranded { files: 2, bytes: 200, removals: 0 };
        let both = [(IDS[1], stranded), (IDS[2], stranded)];
        assert_eq!(missing(&volume, &IDS[..1]), both.into());
        assert_eq!(missing(&volume, &IDS[1..]).get(&IDS[0]).unwrap().files, 3);
        let dir = InodeNo::ROOT;
        let what = Remove { dir, name: b"wide", expect: None, keep_orphan: false };
        let (root, now) = (Credential::superuser(), Timestamp::default());
        volume.remove(&what, &root, now).unconfirmed().unwrap();
        let left = Stranded { files: 1, bytes: 100, removals: 1 };
        assert_eq!(missing(&volume, &IDS[..2]), [(IDS[2], left)].into());
        let words = Unconfigured::Missing([(IDS[2], left)].into()).to_string();
        assert!(words.contains("data server 3 is not configured, but 1 files of 100 bytes"));
    }
}
