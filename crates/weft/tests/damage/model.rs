//! What files hold, without anything of how: names lead to files, files are bytes.

use std::collections::BTreeMap;

/// A file, whatever it is called.
pub type FileNo = usize;

#[derive(Debug, Default)]
pub struct Model {
    pub names: BTreeMap<String, FileNo>,
    pub files: Vec<Vec<u8>>,
}

impl Model {
    /// The file of a name, made if there is none.
    pub fn find_or_make(&mut self, name: &str) -> FileNo {
        if let Some(file) = self.names.get(name) {
            return *file;
        }
        self.files.push(Vec::new());
        self.names.insert(name.to_owned(), self.files.len() - 1);
        self.files.len() - 1
    }

    pub fn write(&mut self, file: FileNo, at: u64, data: &[u8]) {
        let (at, bytes) = (at as usize, &mut self.files[file]);
        bytes.resize(bytes.len().max(at + data.len()), 0);
        bytes[at..at + data.len()].copy_from_slice(data);
    }

    /// Makes a hole, as far as the file reaches.
    pub fn punch(&mut self, file: FileNo, at: u64, len: u64) {
        let bytes = &mut self.files[file];
        let place = |offset: u64| (offset as usize).min(bytes.len());
        let (from, until) = (place(at), place(at + len));
        bytes[from..until].fill(0);
    }

    pub fn cut(&mut self, file: FileNo, size: u64) {
        self.files[file].resize(size as usize, 0);
    }

    /// Moves a name; two names of one file stay as they are (RFC 8881 §18.26.3).
    pub fn rename(&mut self, from: &str, to: &str) {
        let file = self.names[from];
        if self.names.get(to) != Some(&file) {
            self.names.remove(from);
            self.names.insert(to.to_owned(), file);
        }
    }

    /// Each file that has a name, with all its names.
    pub fn named(&self) -> BTreeMap<FileNo, Vec<String>> {
        let mut named: BTreeMap<FileNo, Vec<String>> = BTreeMap::new();
        for (name, file) in &self.names {
            named.entry(*file).or_default().push(name.clone());
        }
        named
    }
}
