//! From the volume to the data servers: has every placed file the bytes it had?

use std::collections::{HashMap, HashSet};

use weft_store::{
    objects::ObjectId,
    types::{DataServerId, Device, DeviceId, Inode, InodeNo, IntentKind},
    volume::{FoundObject, ObjectFault, Volume, compare, is_readable},
};

use super::{
    report::{FaultyObject, Report},
    stores::Store,
};
use crate::outcome::Outcome;

/// Inodes looked at in one go.
const INODES_AT_ONCE: usize = 4096;
/// Faults kept before they are told with the paths of their files.
const FAULTS_AT_ONCE: usize = 4096;
/// Owed work read in one go.
const INTENTS_AT_ONCE: usize = 4096;

/// What is wrong with an object of a file.
pub struct Fault {
    /// The file.
    pub ino: InodeNo,
    /// Where the object is.
    pub data_server: DataServerId,
    /// What is wrong.
    pub fault: ObjectFault,
}

/// Compares the objects of all placed files with what the volume says.
pub fn check(volume: &Volume, stores: &[Store], report: &mut Report) -> Outcome {
    let devices = devices_of(volume)?;
    let cut = truncations(volume)?;
    let known: HashSet<_> = volume.data_servers().unconfirmed()?.into_iter().map(|s| s.0).collect();
    let servers = Servers { volume, devices, stores, known };
    let (mut after, mut faults, mut files) = (None, Vec::new(), 0_u64);
    loop {
        let part = volume.placed_files(after, INODES_AT_ONCE)?;
        for inode in &part.files {
            look(inode, &servers, cut.contains(&inode.no), &mut faults)?;
        }
        if faults.len() >= FAULTS_AT_ONCE {
            tell(volume, &std::mem::take(&mut faults), report)?;
        }
        files += part.files.len() as u64;
        report.progress(|| format!("{files} files on data servers compared"));
        after = part.last;
        if after.is_none() {
            break;
        }
    }
    tell(volume, &faults, report)?;
    let words = format!("{files} files on data servers compared with their objects");
    report.say(&words, &serde_json::json!({ "files": files }))
}

/// Every device, by name.
pub fn devices_of(volume: &Volume) -> Outcome<HashMap<DeviceId, Device>> {
    let devices = volume.devices().unconfirmed()?;
    Ok(devices.into_iter().map(|device| (device.id, device)).collect())
}

/// The name of the objects of a file.
fn object(volume: &Volume, ino: InodeNo) -> ObjectId {
    ObjectId { volume: volume.identity().number, object: ino.0 }
}

/// Files that are still to be cut.
fn truncations(volume: &Volume) -> Outcome<HashSet<InodeNo>> {
    let (mut found, mut after) = (HashSet::new(), None);
    loop {
        let intents = volume.intents(after, INTENTS_AT_ONCE).unconfirmed()?;
        let Some(last) = intents.last() else { return Ok(found) };
        after = Some(last.id);
        let cuts = intents.iter().filter(|i| matches!(i.kind, IntentKind::Truncate { .. }));
        found.extend(cuts.map(|intent| intent.ino));
    }
}

/// Where objects are.
struct Servers<'a> {
    volume: &'a Volume,
    devices: HashMap<DeviceId, Device>,
    stores: &'a [Store],
    /// Data servers with a directory; what another one had is lost, and that was accepted.
    known: HashSet<DataServerId>,
}

/// One file. An object whose directory is not there cannot be looked at: that was a finding.
fn look(
    inode: &Inode,
    servers: &Servers<'_>,
    truncation_owed: bool,
    faults: &mut Vec<Fault>,
) -> Outcome {
    let device = inode.placement.and_then(|placement| servers.devices.get(&placement.device));
    let Some(device) = device else { return Ok(()) };
    let (mut found_here, mut whole) = (Vec::new(), HashSet::new());
    for (index, id) in device.data_servers.iter().copied().enumerate() {
        let object = object(servers.volume, inode.no);
        let found = match servers.stores.iter().find(|store| store.id == id) {
            Some(store) => FoundObject {
                size: store.objects.stat(object)?.size,
                epoch: Some(store.objects.epoch(object)),
            },
            None if servers.known.contains(&id) => continue,
            None => FoundObject { size: 0, epoch: None },
        };
        match compare(inode, index, found, truncation_owed) {
            Some(fault) => found_here.push((id, fault)),
            None => drop(whole.insert(index)),
        }
    }
    let is_readable = inode.placement.is_some_and(|p| is_readable(&p, |at| whole.contains(&at)));
    faults.extend(found_here.into_iter().map(|(data_server, fault)| Fault {
        ino: inode.no,
        data_server,
        fault: if is_readable { fault.of_readable() } else { fault },
    }));
    Ok(())
}

/// Says what is wrong, by path.
pub fn tell(volume: &Volume, faults: &[Fault], report: &mut Report) -> Outcome {
    let files: HashSet<_> = faults.iter().map(|fault| fault.ino).collect();
    let paths = volume.paths_of(&files)?;
    for Fault { ino, data_server, fault } in faults {
        let path = paths.get(ino).map(|path| String::from_utf8_lossy(path));
        report.object(&FaultyObject {
            path: path.as_deref(),
            fileid: ino.0,
            data_server: data_server.0,
            lost: matches!(fault, ObjectFault::Lost { .. }),
            what: fault,
        })?;
    }
    Ok(())
}
