//! Checking a whole volume: every record against every other. Nothing here repairs: a volume
//! that a crash left needs none, so whatever is found is damage or a defect.

use std::{
    collections::{HashMap, HashSet},
    ops::ControlFlow,
};

use bytes::Bytes;

use super::{
    codec::{self, Dirent},
    handle::Volume,
    keys::{self, prefix},
    tx::Tx,
};
use crate::{
    engine::KeyRange,
    types::{
        Device, DeviceId, Inode, InodeNo, Intent, IntentId, IntentKind, Kind, Placement, Spread,
        StoreError,
    },
};

/// Findings listed; more are only counted.
const FINDINGS_LISTED_MAX: usize = 1000;
/// Names looked at in one scan.
const NAMES_AT_ONCE: usize = 4096;

/// What a check of a volume found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Checked {
    /// Inodes, orphans included.
    pub inodes: u64,
    /// Names in directories.
    pub entries: u64,
    /// Files that were unlinked while open.
    pub orphans: u64,
    /// Removals and truncations still owed to data servers.
    pub intents: u64,
    /// Number of extended attributes.
    pub xattrs: u64,
    /// Blocks of files whose bytes are in the volume.
    pub blocks: u64,
    /// Inode numbers that are reserved for files to come.
    pub reserved: u64,
    /// What is wrong, in words; the first 1000.
    pub findings: Vec<String>,
    /// How much is wrong.
    pub findings_count: u64,
}

impl Checked {
    fn wrong(&mut self, what: impl FnOnce() -> String) {
        self.findings_count += 1;
        if self.findings.len() < FINDINGS_LISTED_MAX {
            self.findings.push(what());
        }
    }
}

/// What one pass over the inodes leaves: about 40 bytes each.
struct Node {
    kind: Kind,
    nlink: u32,
    /// Number of names found.
    names: u32,
}

/// The same for directories, beside their [`Node`].
struct Directory {
    parent: InodeNo,
    entries: u64,
    next_cookie: u64,
    /// Found.
    names: u64,
    ordered: u64,
    subdirectories: u32,
    /// A name in its parent leads here.
    is_reached: bool,
}

#[derive(Default)]
struct Check {
    out: Checked,
    nodes: HashMap<InodeNo, Node>,
    directories: HashMap<InodeNo, Directory>,
    /// Those that can be read.
    devices: HashMap<DeviceId, Device>,
    /// Inodes that say so, without those whose list was found.
    have_xattrs: HashSet<InodeNo>,
    /// Sizes of files whose bytes are in the volume.
    stuffed: HashMap<InodeNo, u64>,
    /// Inode numbers for files to come.
    reserved: HashSet<InodeNo>,
}

impl Volume {
    /// Reads every record and holds it against the others: names against inodes, link and entry
    /// counts, the order of directories, parents, orphans, placements, extended attributes, small
    /// files, reserved numbers, counters.
    ///
    /// **Cost.** Everything is read once, about 40 bytes of memory for each inode, and no other
    /// operation runs meanwhile: meant for a volume that no server has open.
    ///
    /// # Errors
    /// [`StoreError`] when the store cannot be read. A record that cannot be decoded is a finding.
    pub fn fsck(&self) -> Result<Checked, StoreError> {
        self.read_alone(|tx| {
            let mut check = Check::default();
            check.devices(tx)?;
            check.inodes(tx)?;
            check.names(tx)?;
            check.order(tx)?;
            check.orphans(tx)?;
            check.intents(tx)?;
            check.xattrs(tx)?;
            check.stuffed(tx)?;
            check.reserved(tx)?;
            check.compare(tx.inodes());
            Ok(check.out)
        })
    }
}

impl Check {
    fn devices(&mut self, tx: &mut Tx<'_>) -> Result<(), StoreError> {
        each(tx, prefix::DEVICE, |key, value| {
            let id = key.get(1..).and_then(|id| id.try_into().ok()).map(DeviceId);
            let id = id.ok_or(StoreError::Corrupt("device key"));
            match id.and_then(|id| codec::decode_device(id, value)) {
                Ok(device) => drop(self.devices.insert(device.id, device)),
                Err(e) => self.out.wrong(|| format!("device {}: {e}", hex(key))),
            }
            Ok(())
        })
    }

    fn inodes(&mut self, tx: &mut Tx<'_>) -> Result<(), StoreError> {
        each(tx, prefix::INODE, |key, value| {
            let no = keys::number_of(key).ok_or(StoreError::Corrupt("inode key"));
            let raw = Bytes::copy_from_slice(value);
            match no.and_then(|no| codec::decode_inode(InodeNo(no), &raw)) {
                Ok(inode) => self.inode(&inode),
                Err(e) => self.out.wrong(|| format!("inode {}: {e}", hex(key))),
            }
            Ok(())
        })
    }

    fn inode(&mut self, inode: &Inode) {
        self.out.inodes += 1;
        self.nodes.insert(inode.no, Node { kind: inode.kind, nlink: inode.nlink, names: 0 });
        if let Some(acl) = &inode.acl
            && acl.mode() != inode.mode & 0o777
        {
            let (no, mode) = (inode.no.0, inode.mode);
            self.out.wrong(|| format!("inode {no}: its list does not say its mode, {mode:o}"));
        }
        if inode.has_xattrs {
            self.have_xattrs.insert(inode.no);
        }
        if inode.stuffed {
            self.stuffed.insert(inode.no, inode.size);
        }
        if inode.is_directory() {
            let directory = Directory {
                parent: inode.parent,
                entries: inode.entries,
                next_cookie: inode.next_cookie,
                names: 0,
                ordered: 0,
                subdirectories: 0,
                is_reached: inode.no == InodeNo::ROOT,
            };
            self.directories.insert(inode.no, directory);
        }
        if let Some(placement) = &inode.placement {
            self.placement(inode.no, placement);
        }
        let is_to_be_placed = inode.kind == Kind::File && inode.placement.is_none();
        if inode.layout.is_some() && !inode.is_directory() && !is_to_be_placed {
            let no = inode.no.0;
            self.out.wrong(|| format!("inode {no}: nothing is to be spread by its layout choice"));
        }
        if inode.occupied.is_some() && !inode.is_settled_in_objects() {
            let no = inode.no.0;
            self.out.wrong(|| format!("file {no}: what it occupies cannot be known"));
        }
    }

    fn placement(&mut self, InodeNo(no): InodeNo, place: &Placement) {
        let Placement { device, stripe_count, .. } = place;
        match self.devices.get(device) {
            Some(device) => {
                let members = device.data_servers.len();
                if members != usize::from(*stripe_count) {
                    self.out.wrong(|| {
                        format!("file {no}: {stripe_count} stripes on a device of {members}")
                    });
                }
                // A client is told the list of the device.
                let list = match place.spread {
                    Spread::List(list) => Some(list),
                    Spread::InTurn | Spread::Growing { .. } | Spread::Copies { .. } => None,
                };
                if device.list != list {
                    self.out.wrong(|| format!("file {no}: its list is not that of its device"));
                }
            }
            None => self.out.wrong(|| format!("file {no}: its device is unknown")),
        }
        if !place.is_sound() {
            let (reach, turns) = (place.reach, place.turns());
            self.out.wrong(|| {
                format!("file {no}: {reach} of {turns} turns on {stripe_count} servers, no place")
            });
        }
    }

    /// Every name: its directory, its inode, its place in the order.
    fn names(&mut self, tx: &mut Tx<'_>) -> Result<(), StoreError> {
        // A scan borrows the transaction: places in the order are looked up after each part of it.
        let mut from = Bytes::from_static(&[prefix::DIRENT]);
        while let Some(next) = self.some_names(tx, &from)? {
            from = next;
        }
        Ok(())
    }

    /// Checks at most [`NAMES_AT_ONCE`] names; where to go on.
    fn some_names(&mut self, tx: &mut Tx<'_>, from: &[u8]) -> Result<Option<Bytes>, StoreError> {
        let (mut entries, mut next) = (Vec::new(), None);
        let until = keys::end_of(prefix::DIRENT);
        tx.scan(KeyRange { from, until: Some(&until) }, |key, value| {
            if entries.len() == NAMES_AT_ONCE {
                next = Some(Bytes::copy_from_slice(key));
                return Ok(ControlFlow::Break(()));
            }
            self.out.entries += 1;
            let Some((dir, name)) = split_name(key) else {
                self.out.wrong(|| format!("name {}: no such key", hex(key)));
                return Ok(ControlFlow::Continue(()));
            };
            match codec::decode_dirent(value) {
                Ok(entry) => {
                    self.name(dir, name, &entry);
                    entries.push((dir, Bytes::copy_from_slice(name), entry));
                }
                Err(e) => self.out.wrong(|| format!("{}: {e}", shown(dir, name))),
            }
            Ok(ControlFlow::Continue(()))
        })?;
        for (dir, name, entry) in entries {
            let order = tx.get(keys::order(dir, entry.cookie))?;
            let order = order.map(|raw| codec::decode_order(&raw)).transpose();
            let right = matches!(&order, Ok(Some(o))
                if o.ino == entry.ino && o.kind == entry.kind && o.name == name);
            if !right {
                self.out.wrong(|| format!("{}: not in the directory's order", shown(dir, &name)));
            }
        }
        Ok(next)
    }

    fn name(&mut self, dir: InodeNo, name: &[u8], entry: &Dirent) {
        let is_directory = entry.kind == Kind::Directory;
        match self.directories.get_mut(&dir) {
            Some(directory) => {
                directory.names += 1;
                directory.subdirectories += u32::from(is_directory);
                if entry.cookie >= directory.next_cookie {
                    self.out.wrong(|| format!("{}: cookie of the future", shown(dir, name)));
                }
            }
            None => self.out.wrong(|| format!("{}: no such directory", shown(dir, name))),
        }
        match self.nodes.get_mut(&entry.ino) {
            Some(node) => {
                node.names += 1;
                if node.kind != entry.kind {
                    self.out.wrong(|| format!("{}: of another kind", shown(dir, name)));
                }
            }
            None => self.out.wrong(|| {
                format!("{}: leads to inode {}, which is not there", shown(dir, name), entry.ino.0)
            }),
        }
        if let Some(child) = self.directories.get_mut(&entry.ino) {
            if child.is_reached || child.parent != dir {
                self.out.wrong(|| format!("{}: its parent is another", shown(dir, name)));
            }
            child.is_reached = true;
        }
    }

    /// Names and places in the order are as many: with each name in its place, they are the same.
    fn order(&mut self, tx: &mut Tx<'_>) -> Result<(), StoreError> {
        each(tx, prefix::ORDER, |key, _| {
            let dir = key.get(1..9).and_then(|dir| dir.try_into().ok()).map(u64::from_be_bytes);
            match dir.and_then(|dir| self.directories.get_mut(&InodeNo(dir))) {
                Some(directory) => directory.ordered += 1,
                None => self.out.wrong(|| format!("order {}: no such directory", hex(key))),
            }
            Ok(())
        })
    }

    fn orphans(&mut self, tx: &mut Tx<'_>) -> Result<(), StoreError> {
        each(tx, prefix::ORPHAN, |key, _| {
            self.out.orphans += 1;
            match keys::number_of(key).and_then(|no| self.nodes.get_mut(&InodeNo(no))) {
                // It counts as a name below: it keeps the inode.
                Some(node) if node.nlink == 0 => node.names += 1,
                Some(_) => self.out.wrong(|| format!("orphan {}: it has names", hex(key))),
                None => self.out.wrong(|| format!("orphan {}: no such inode", hex(key))),
            }
            Ok(())
        })
    }

    fn intents(&mut self, tx: &mut Tx<'_>) -> Result<(), StoreError> {
        each(tx, prefix::INTENT, |key, value| {
            self.out.intents += 1;
            match decode_intent(key, value) {
                Ok(i) if i.kind == IntentKind::Delete && self.nodes.contains_key(&i.ino) => {
                    self.out.wrong(|| format!("file {} exists and is to be removed", i.ino.0));
                }
                Ok(i) if !self.devices.contains_key(&i.placement.device) => {
                    self.out.wrong(|| format!("intent {}: its device is unknown", i.id.0));
                }
                Ok(_) => {}
                Err(e) => self.out.wrong(|| format!("intent {}: {e}", hex(key))),
            }
            Ok(())
        })
    }

    /// What was counted against what the records say.
    fn compare(&mut self, inodes: u64) {
        let Check { out, nodes, directories, .. } = self;
        let found = out.inodes;
        if found != inodes {
            out.wrong(|| format!("{found} inodes, but the volume counts {inodes}"));
        }
        for (no, directory) in directories.iter() {
            let Directory { entries, names, ordered, .. } = directory;
            if entries != names || entries != ordered {
                let no = no.0;
                out.wrong(|| {
                    format!("directory {no}: {entries} entries, {names} names, {ordered} in order")
                });
            }
            if !directory.is_reached {
                out.wrong(|| format!("directory {}: nothing leads to it", no.0));
            }
        }
        for (no, node) in nodes.iter() {
            let (found, said) = match directories.get(no) {
                Some(directory) => (directory.subdirectories.saturating_add(2), node.nlink),
                // An orphan's mark is its only name.
                None => (node.names, node.nlink.max(1)),
            };
            if found != said {
                out.wrong(|| format!("inode {}: {said} links, {found} found", no.0));
            }
        }
    }
}

/// Visits every record of a kind.
fn each(
    tx: &mut Tx<'_>,
    prefix: u8,
    mut visit: impl FnMut(&[u8], &[u8]) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    let range = KeyRange { from: &[prefix], until: Some(&keys::end_of(prefix)) };
    tx.scan(range, |key, value| visit(key, value).map(ControlFlow::Continue))
}

fn decode_intent(key: &[u8], value: &[u8]) -> Result<Intent, StoreError> {
    let id = keys::number_of(key).ok_or(StoreError::Corrupt("intent key"))?;
    codec::decode_intent(IntentId(id), value)
}

/// Directory and name of a name's key.
fn split_name(key: &[u8]) -> Option<(InodeNo, &[u8])> {
    let dir = key.get(1..9)?.try_into().ok().map(u64::from_be_bytes)?;
    Some((InodeNo(dir), key.get(9..)?))
}

fn shown(dir: InodeNo, name: &[u8]) -> String {
    format!("{:?} in directory {}", String::from_utf8_lossy(name), dir.0)
}

fn hex(key: &[u8]) -> String {
    key.iter().map(|b| format!("{b:02x}")).collect()
}

mod reserved;
mod stuffed;
mod xattrs;

#[cfg(test)]
mod tests;
