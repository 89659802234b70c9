//! What files are, without any of what makes them fast: names lead to files, files are bytes.

use std::collections::{BTreeMap, BTreeSet};

use weft_nfs::NfsStat;

/// A file for as long as anybody may use it, whatever it is called.
pub type FileNo = usize;

/// A file's bytes.
#[derive(Clone, Debug, Default)]
pub struct Content {
    pub bytes: Vec<u8>,
    /// How often they changed.
    pub changes: u64,
    /// How often there became fewer of them.
    pub cuts: u64,
}

/// An open of a file by one of the clients.
#[derive(Clone, Copy, Debug)]
pub struct Open {
    pub who: usize,
    pub file: FileNo,
    /// Written and not committed.
    pub dirty: bool,
    /// Made before the servers were started again.
    pub from_before: bool,
    /// Cuts of the file that the open knows of: who has a file open learns of growth, not of what
    /// others take away (close-to-open).
    cuts: u64,
}

/// A directory and those in it.
#[derive(Debug, Default)]
pub struct Model {
    pub dirs: BTreeSet<String>,
    pub names: BTreeMap<String, FileNo>,
    pub files: Vec<Content>,
    pub opens: Vec<Open>,
}

/// The directory a path is in; empty for the one of all.
pub fn parent(name: &str) -> &str {
    name.rsplit_once('/').map_or("", |(dir, _)| dir)
}

impl Model {
    fn has_parent(&self, name: &str) -> Result<(), NfsStat> {
        let found = parent(name).is_empty() || self.dirs.contains(parent(name));
        found.then_some(()).ok_or(NfsStat::NOENT)
    }

    pub fn find(&self, name: &str) -> Result<FileNo, NfsStat> {
        self.names.get(name).copied().ok_or(NfsStat::NOENT)
    }

    /// The file of a name, made if there is none.
    pub fn find_or_make(&mut self, name: &str) -> Result<FileNo, NfsStat> {
        self.has_parent(name)?;
        if let Some(file) = self.names.get(name) {
            return Ok(*file);
        }
        self.files.push(Content::default());
        self.names.insert(name.to_owned(), self.files.len() - 1);
        Ok(self.files.len() - 1)
    }

    pub fn open(&mut self, who: usize, file: FileNo) {
        let cuts = self.files[file].cuts;
        self.opens.push(Open { who, file, dirty: false, from_before: false, cuts });
    }

    /// Whether others have cut the file since it was opened.
    pub fn is_stale(&self, open: usize) -> bool {
        let Open { file, cuts, .. } = self.opens[open];
        self.files[file].cuts != cuts
    }

    /// The same file written by an open, which learns of it.
    pub fn write_open(&mut self, open: usize, at: u64, data: &[u8]) {
        self.write(self.opens[open].file, at, data);
        self.opens[open].dirty = true;
    }

    pub fn write(&mut self, file: FileNo, at: u64, data: &[u8]) {
        let at = at as usize;
        let file = &mut self.files[file];
        file.bytes.resize(file.bytes.len().max(at + data.len()), 0);
        file.bytes[at..at + data.len()].copy_from_slice(data);
        file.changes += 1;
    }

    pub fn cut_open(&mut self, open: usize, size: u64) {
        let file = self.opens[open].file;
        self.cut(file, size);
        self.opens[open].cuts = self.files[file].cuts;
    }

    pub fn cut(&mut self, file: FileNo, size: u64) {
        let file = &mut self.files[file];
        file.cuts += u64::from(file.bytes.len() as u64 > size);
        file.bytes.resize(size as usize, 0);
        file.changes += 1;
    }

    /// What an open wrote is durable, and what others of the client wrote with it.
    pub fn committed(&mut self, open: usize) {
        let Open { who, file, .. } = self.opens[open];
        let together = self.opens.iter_mut().filter(|o| o.who == who && o.file == file);
        together.for_each(|o| o.dirty = false);
    }

    pub fn is_dirty(&self, file: FileNo) -> bool {
        self.opens.iter().any(|o| o.file == file && o.dirty)
    }

    pub fn is_named(&self, file: FileNo) -> bool {
        self.names.values().any(|f| *f == file)
    }

    /// How many names it has.
    pub fn links(&self, file: FileNo) -> usize {
        self.names.values().filter(|f| **f == file).count()
    }

    /// What is in a directory: its names, with the file of each that is one.
    pub fn entries(&self, dir: &str) -> Result<BTreeMap<String, Option<FileNo>>, NfsStat> {
        self.has_parent(&format!("{dir}/"))?;
        let files = self.names.iter().map(|(name, file)| (name, Some(*file)));
        let all = files.chain(self.dirs.iter().map(|name| (name, None)));
        let inside = all.filter(|(name, _)| parent(name) == dir);
        let last = |name: &String| name.rsplit('/').next().expect("a part").to_owned();
        Ok(inside.map(|(name, file)| (last(name), file)).collect())
    }

    pub fn mkdir(&mut self, dir: &str) -> Result<(), NfsStat> {
        self.dirs.insert(dir.to_owned()).then_some(()).ok_or(NfsStat::EXIST)
    }

    /// Takes a name or an empty directory away.
    pub fn remove(&mut self, name: &str) -> Result<(), NfsStat> {
        if self.dirs.contains(name) {
            if !self.entries(name)?.is_empty() {
                return Err(NfsStat::NOTEMPTY);
            }
            self.dirs.remove(name);
            return Ok(());
        }
        self.names.remove(name).map(drop).ok_or(NfsStat::NOENT)
    }

    pub fn rename(&mut self, from: &str, to: &str) -> Result<(), NfsStat> {
        let file = self.find(from)?;
        self.has_parent(to)?;
        // Two names of one file stay as they are (RFC 8881 §18.26.3).
        if self.names.get(to) != Some(&file) {
            self.names.remove(from);
            self.names.insert(to.to_owned(), file);
        }
        Ok(())
    }

    pub fn link(&mut self, from: &str, to: &str) -> Result<(), NfsStat> {
        let file = self.find(from)?;
        self.has_parent(to)?;
        if self.names.contains_key(to) {
            return Err(NfsStat::EXIST);
        }
        self.names.insert(to.to_owned(), file);
        Ok(())
    }
}
