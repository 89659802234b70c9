//! The store's directory: ownership, identity, and where each object's file is.

use std::{
    collections::HashSet,
    fs::{self, File},
    io::{ErrorKind, Write},
    path::{Path, PathBuf},
    sync::{Mutex, OnceLock},
};

use weft_io::durable;

use super::{
    error::{ObjectError, io},
    files::{make_dir, open_past_cache, open_read_only, open_rw, replace_file, sync_dir},
    object_id::ObjectId,
    volumes::Volumes,
};
use crate::{held_file::HeldFile, sync::lock};

const LOCK_FILE: &str = "lock";
const IDENTITY_FILE: &str = "identity";
const OBJECTS_DIR: &str = "objects";

/// First line of the identity file; the number is the version of the whole directory's form.
const IDENTITY_TITLE: &str = "weft-data-server 2";
/// The same without the version.
const IDENTITY_KIND: &str = "weft-data-server ";

/// The entry of a metadata server's directory that tells it from ours.
const VOLUME_DIR: &str = "volume";

/// Whether the directory is that of a data server.
pub fn is_store(root: &Path) -> bool {
    root.join(IDENTITY_FILE).exists()
}

/// A file among the objects that nobody reads or writes: it is no object, or not in the directory
/// where that belongs.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Misplaced {
    /// Where it is.
    pub path: PathBuf,
    /// The object that has its name, and where that belongs.
    pub belongs: Option<(ObjectId, PathBuf)>,
}

/// A directory of objects, by its two levels: bits 8..24 of the object number, so that objects
/// made one after another share a directory and its syncs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Leaf {
    outer: u8,
    inner: u8,
}

impl Leaf {
    pub(super) fn of(id: ObjectId) -> Self {
        let [.., outer, inner, _] = id.object.to_be_bytes();
        Leaf { outer, inner }
    }
}

#[derive(Debug)]
pub(super) struct StoreDir {
    root: PathBuf,
    identity: [u8; 16],
    /// Held for as long as the store is open.
    _lock: HeldFile,
    /// Leaves whose own entries were made durable by this process; at most 65,536. The lock is
    /// held while directories are made, so that no call relies on one that is not durable.
    synced_leaves: Mutex<HashSet<Leaf>>,
    /// Set once the store is complete.
    volumes: OnceLock<Volumes>,
}

impl StoreDir {
    /// Takes possession of the directory; the flag says that it is new and has no identity yet.
    pub(super) fn open(root: &Path) -> Result<(Self, bool), ObjectError> {
        if root.join(VOLUME_DIR).exists() {
            return Err(ObjectError::NotOurs);
        }
        durable::create_private_dir(root).map_err(io("make the store's directory"))?;
        let lock = HeldFile::acquire(&root.join(LOCK_FILE)).map_err(io("lock the store"))?;
        let lock = lock.ok_or(ObjectError::InUse)?;
        let objects = root.join(OBJECTS_DIR);
        let (identity, new) = match read_identity(root)? {
            // They are made before the identity is.
            Some(_) if !objects.is_dir() => {
                return Err(ObjectError::Corrupt("the directory `objects` is missing"));
            }
            Some(identity) => (identity, false),
            None => (fresh_identity(&objects)?, true),
        };
        make_dir(&objects)?;
        sync_dir(root)?;
        let synced_leaves = Mutex::default();
        let (root, volumes) = (root.to_owned(), OnceLock::new());
        Ok((StoreDir { root, identity, _lock: lock, synced_leaves, volumes }, new))
    }

    /// Begins to use the volumes of the store.
    pub(super) fn set_volumes(&self, volumes: Volumes) {
        let _first = self.volumes.set(volumes);
    }

    /// The volumes of the store.
    pub(super) fn volumes(&self) -> &Volumes {
        self.volumes.get().expect("an open store has its volumes")
    }

    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    pub(super) fn identity(&self) -> [u8; 16] {
        self.identity
    }

    /// Writes the identity file of a new store.
    pub(super) fn write_identity(&self) -> Result<(), ObjectError> {
        let uuid: String = self.identity.iter().map(|b| format!("{b:02x}")).collect();
        let text = format!("{IDENTITY_TITLE}\nuuid {uuid}\n");
        replace_file(&self.root, IDENTITY_FILE, |f| f.write_all(text.as_bytes())).map(drop)
    }

    /// Opens the object's file if it exists.
    pub(super) fn open_object(&self, id: ObjectId) -> Result<Option<File>, ObjectError> {
        match open_rw(&self.object_path(id), false) {
            Ok(file) => Ok(Some(file)),
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
            Err(e) => Err(io("open an object")(e)),
        }
    }

    /// Opens the object's file anew to read it, if it exists.
    pub(super) fn open_read_only(&self, id: ObjectId) -> Result<Option<File>, ObjectError> {
        match open_read_only(&self.object_path(id)) {
            Ok(file) => Ok(Some(file)),
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
            Err(e) => Err(io("open an object to read it")(e)),
        }
    }

    /// Opens the object's file to read and write past the page cache.
    ///
    /// # Errors
    /// What the file system says; `InvalidInput` if it has no such way.
    pub(super) fn open_past_cache(&self, id: ObjectId) -> std::io::Result<File> {
        open_past_cache(&self.object_path(id))
    }

    /// Makes the object's file, and its directories if it is their first. It must be of a volume
    /// that is served, whose mark is above it first.
    pub(super) fn create_object(&self, id: ObjectId) -> Result<File, ObjectError> {
        self.volumes().admit_new(self.identity, id)?;
        let path = self.object_path(id);
        match open_rw(&path, true) {
            Err(e) if e.kind() == ErrorKind::NotFound => {}
            other => return other.map_err(io("make an object")),
        }
        let making = lock(&self.synced_leaves);
        let leaf = self.leaf_path(Leaf::of(id));
        let outer = leaf.parent().unwrap_or(&self.root);
        make_dir(outer)?;
        sync_dir(&self.root.join(OBJECTS_DIR))?;
        make_dir(&leaf)?;
        sync_dir(outer)?;
        drop(making);
        open_rw(&path, true).map_err(io("make an object"))
    }

    /// Objects that have a file, those behind `after`, in an order that never changes: by
    /// directory, and within one by name. At least `limit` if there are as many, and no more than
    /// one directory holds beyond.
    pub(super) fn objects(
        &self,
        after: Option<ObjectId>,
        limit: usize,
    ) -> Result<Vec<ObjectId>, ObjectError> {
        let (mut found, from) = (Vec::new(), after.map(Leaf::of));
        for outer in from.map_or(0, |leaf| leaf.outer)..=u8::MAX {
            if !self.root.join(format!("{OBJECTS_DIR}/{outer:02x}")).exists() {
                continue;
            }
            for inner in 0..=u8::MAX {
                let leaf = Leaf { outer, inner };
                if from.is_some_and(|from| leaf < from) {
                    continue;
                }
                let mut here = self.objects_in(leaf)?;
                here.retain(|id| from != Some(leaf) || after.is_some_and(|after| *id > after));
                here.sort_unstable();
                found.append(&mut here);
                if found.len() >= limit {
                    return Ok(found);
                }
            }
        }
        Ok(found)
    }

    fn objects_in(&self, leaf: Leaf) -> Result<Vec<ObjectId>, ObjectError> {
        let entries = match fs::read_dir(self.leaf_path(leaf)) {
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(io("list objects"))?,
        };
        let mut found = Vec::new();
        for entry in entries {
            let name = entry.map_err(io("list objects"))?.file_name();
            found.extend(name.to_str().and_then(object_of).filter(|id| Leaf::of(*id) == leaf));
        }
        Ok(found)
    }

    /// Files below the directory of objects that are no object, or not where it belongs.
    pub(super) fn misplaced(&self) -> Result<Vec<Misplaced>, ObjectError> {
        let (mut found, mut dirs) = (Vec::new(), vec![self.root.join(OBJECTS_DIR)]);
        while let Some(dir) = dirs.pop() {
            for entry in fs::read_dir(dir).map_err(io("list objects"))? {
                let entry = entry.map_err(io("list objects"))?;
                let (path, name) = (entry.path(), entry.file_name());
                if entry.file_type().map_err(io("list objects"))?.is_dir() {
                    dirs.push(path);
                    continue;
                }
                let object = name.to_str().and_then(object_of);
                let belongs = object.map(|id| (id, self.object_path(id)));
                if belongs.as_ref().is_none_or(|(_, right)| *right != path) {
                    found.push(Misplaced { path, belongs });
                }
            }
        }
        found.sort();
        Ok(found)
    }

    /// Unlinks the object's file; a missing one is success.
    pub(super) fn unlink_object(&self, id: ObjectId) -> Result<(), ObjectError> {
        match fs::remove_file(self.object_path(id)) {
            Err(e) if e.kind() != ErrorKind::NotFound => Err(io("remove an object")(e)),
            _ => Ok(()),
        }
    }

    /// Whether this process has made the leaf durable: the one before us may have died between.
    pub(super) fn is_leaf_synced(&self, leaf: Leaf) -> bool {
        lock(&self.synced_leaves).contains(&leaf)
    }

    /// Makes the names in a leaf durable, and the leaf's own; a missing leaf has none.
    pub(super) fn sync_leaf(&self, leaf: Leaf) -> Result<(), ObjectError> {
        let path = self.leaf_path(leaf);
        if !self.is_leaf_synced(leaf) {
            if !path.try_exists().map_err(io("look for a directory"))? {
                return Ok(());
            }
            sync_dir(&self.root.join(OBJECTS_DIR))?;
            sync_dir(path.parent().unwrap_or(&self.root))?;
        }
        sync_dir(&path)?;
        lock(&self.synced_leaves).insert(leaf);
        Ok(())
    }

    pub(super) fn object_path(&self, id: ObjectId) -> PathBuf {
        self.leaf_path(Leaf::of(id)).join(name_of(id))
    }

    fn leaf_path(&self, leaf: Leaf) -> PathBuf {
        self.root.join(format!("{OBJECTS_DIR}/{:02x}/{:02x}", leaf.outer, leaf.inner))
    }
}

/// The name of an object's file.
fn name_of(id: ObjectId) -> String {
    format!("{:08x}-{:016x}", id.volume, id.object)
}

/// The object of a file name.
fn object_of(name: &str) -> Option<ObjectId> {
    let (volume, object) = name.split_once('-')?;
    let volume = u32::from_str_radix(volume, 16).ok()?;
    let id = ObjectId { volume, object: u64::from_str_radix(object, 16).ok()? };
    (name_of(id) == name).then_some(id)
}

const WHAT: &str = "the file `identity`";

/// The identity of an existing store; `None` if the directory has none.
fn read_identity(root: &Path) -> Result<Option<[u8; 16]>, ObjectError> {
    let text = match fs::read(root.join(IDENTITY_FILE)) {
        Ok(bytes) => String::from_utf8(bytes).map_err(|_| ObjectError::Corrupt(WHAT))?,
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(io("read the identity")(e)),
    };
    let version = text.lines().next().and_then(|title| title.strip_prefix(IDENTITY_KIND));
    if version.is_some_and(|v| v != "2" && v.parse::<u32>().is_ok()) {
        return Err(ObjectError::OtherVersion);
    }
    parse_identity(&text).map(Some).ok_or(ObjectError::Corrupt(WHAT))
}

fn parse_identity(text: &str) -> Option<[u8; 16]> {
    let (title, rest) = text.split_once('\n')?;
    let uuid = rest.strip_prefix("uuid ")?.strip_suffix('\n')?;
    if title != IDENTITY_TITLE || uuid.len() != 32 || !uuid.bytes().all(|b| b.is_ascii_hexdigit()) {
        return None;
    }
    u128::from_str_radix(uuid, 16).ok().map(u128::to_be_bytes)
}

/// An identity for a new store, which must not have objects: they would lose their fences.
fn fresh_identity(objects: &Path) -> Result<[u8; 16], ObjectError> {
    match fs::read_dir(objects).map(|mut entries| entries.next()) {
        Ok(None) => {}
        Ok(Some(_)) => return Err(ObjectError::Corrupt("there are objects but no identity")),
        Err(e) if e.kind() == ErrorKind::NotFound => {}
        Err(e) => return Err(io("list objects")(e)),
    }
    let mut identity = [0; 16];
    getrandom::fill(&mut identity).map_err(|_| ObjectError::NoRandom)?;
    Ok(identity)
}
