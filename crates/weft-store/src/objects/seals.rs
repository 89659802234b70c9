//! From which epoch on clients may write to an object: above that of the write layouts that were
//! all given back (ADR 5). Not synced: a power cut may take away what was noted just before.
//!
//! One word for each object, by number, in sparse files (`docs/formats.md`): nothing of it is in
//! memory, and noting it is one small write to the page cache.

use std::{
    collections::HashMap,
    fs::{self, File},
    io::ErrorKind,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
};

use super::{
    error::{ObjectError, io},
    files::{make_dir, open_rw},
    object_id::ObjectId,
    sparse_file::next_data,
};
use crate::sync::lock;

const SEALS_DIR: &str = "seals";
/// Objects of a file: at most 64 MiB of words.
const OBJECTS_PER_FILE: u64 = 1 << 24;
const WORD_BYTES: u64 = 4;
/// Bytes that are read at once.
const READ_BYTES: usize = 64 << 10;
/// Files that stay open.
const OPEN_MAX: usize = 16;

/// A file of words: of which volume, and which of its files.
type Part = (u32, u64);

#[derive(Debug)]
pub(super) struct Seals {
    dir: PathBuf,
    open: Mutex<HashMap<Part, Arc<File>>>,
}

impl Seals {
    pub(super) fn new(root: &Path) -> Self {
        Seals { dir: root.join(SEALS_DIR), open: Mutex::default() }
    }

    /// The first epoch with which clients may write to the object.
    pub(super) fn write_floor(&self, id: ObjectId) -> Result<u32, ObjectError> {
        let (part, at) = place(id);
        let Some(file) = self.file(part, false)? else { return Ok(0) };
        let mut word = [0; WORD_BYTES as usize];
        match file.read_exact_at(&mut word, at) {
            Ok(()) => Ok(u32::from_be_bytes(word)),
            Err(e) if e.kind() == ErrorKind::UnexpectedEof => Ok(0),
            Err(e) => Err(io("read a seal")(e)),
        }
    }

    /// Clients write to the object with epochs from `floor` on.
    pub(super) fn seal(&self, id: ObjectId, floor: u32) -> Result<(), ObjectError> {
        let (part, at) = place(id);
        let Some(file) = self.file(part, true)? else { return Ok(()) };
        file.write_all_at(&floor.to_be_bytes(), at).map_err(io("write a seal"))
    }

    /// The object is gone: it has no floor.
    pub(super) fn forget(&self, id: ObjectId) -> Result<(), ObjectError> {
        match self.write_floor(id)? {
            0 => Ok(()),
            _ => self.seal(id, 0),
        }
    }

    /// The highest floor of a volume's objects. Looks at all of them.
    pub(super) fn highest(&self, volume: u32) -> Result<u32, ObjectError> {
        let entries = match fs::read_dir(&self.dir) {
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(0),
            entries => entries.map_err(io("list the seals"))?,
        };
        let mut highest = 0;
        for entry in entries {
            let entry = entry.map_err(io("list the seals"))?;
            if entry.file_name().to_string_lossy().starts_with(&prefix(volume)) {
                let file = File::open(entry.path()).map_err(io("open the seals"))?;
                highest = highest.max(highest_word(&file)?);
            }
        }
        Ok(highest)
    }

    /// The file of a part, made if it is wanted.
    fn file(&self, part: Part, make: bool) -> Result<Option<Arc<File>>, ObjectError> {
        let mut open = lock(&self.open);
        if let Some(file) = open.get(&part) {
            return Ok(Some(file.clone()));
        }
        let path = self.dir.join(format!("{}{:010x}", prefix(part.0), part.1));
        let opened = match open_rw(&path, make) {
            Err(e) if e.kind() == ErrorKind::NotFound && make => {
                make_dir(&self.dir)?;
                open_rw(&path, true)
            }
            opened => opened,
        };
        let file = match opened {
            Ok(file) => Arc::new(file),
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(io("open the seals")(e)),
        };
        if open.len() >= OPEN_MAX {
            open.clear();
        }
        open.insert(part, file.clone());
        Ok(Some(file))
    }
}

/// How the names of a volume's files begin.
fn prefix(volume: u32) -> String {
    format!("{volume:08x}-")
}

/// The highest word of a file, holes passed over.
fn highest_word(file: &File) -> Result<u32, ObjectError> {
    let (mut highest, mut at, mut words) = (0, 0, vec![0; READ_BYTES]);
    while let Some(data) = next_data(file, at)? {
        // Holes begin and end at blocks, which are whole words.
        let data = data - data % WORD_BYTES;
        let read = file.read_at(&mut words, data).map_err(io("read seals"))?;
        let (words, _) = words[..read].as_chunks();
        highest = words.iter().map(|w| u32::from_be_bytes(*w)).fold(highest, u32::max);
        at = data + (words.len() as u64 * WORD_BYTES).max(WORD_BYTES);
    }
    Ok(highest)
}

/// Where the word of an object is.
fn place(id: ObjectId) -> (Part, u64) {
    let part = (id.volume, id.object / OBJECTS_PER_FILE);
    (part, id.object % OBJECTS_PER_FILE * WORD_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each object has a word of its own, at the edges of files too; they outlast the process, and
    /// what was never sealed has none.
    #[test]
    fn words_do_not_meet() {
        let dir = tempfile::tempdir().unwrap();
        let edges = [0, 1, OBJECTS_PER_FILE - 1, OBJECTS_PER_FILE, u64::MAX];
        let ids = [1, 2]
            .into_iter()
            .flat_map(|volume| edges.into_iter().map(move |object| ObjectId { volume, object }));
        let ids: Vec<_> = ids.collect();
        let seals = Seals::new(dir.path());
        for (id, floor) in ids.iter().zip(7..) {
            assert_eq!(seals.write_floor(*id), Ok(0));
            seals.seal(*id, floor).unwrap();
        }
        drop(seals);
        let seals = Seals::new(dir.path());
        for (id, floor) in ids.iter().zip(7..) {
            assert_eq!(seals.write_floor(*id), Ok(floor));
        }
        assert_eq!(seals.write_floor(ObjectId { volume: 3, object: 1 }), Ok(0));
        seals.forget(ids[4]).unwrap();
        seals.forget(ObjectId { volume: 3, object: 1 }).unwrap();
        assert_eq!(seals.highest(1), Ok(10));
        seals.seal(ids[4], 11).unwrap();
        assert_eq!([1, 2, 3].map(|volume| seals.highest(volume)), [Ok(11), Ok(16), Ok(0)]);
    }
}
