//! The open files of a client, by filehandle: for recalls.

use std::sync::{Arc, Weak};

use weft_nfs::FileHandle;

use super::file_io::FileIo;
use crate::sync::Mutex;

/// Open files by filehandle, for recalls.
#[derive(Default)]
pub struct OpenFiles(Mutex<Opens>);

#[derive(Default)]
struct Opens {
    files: Vec<(FileHandle, Weak<FileIo>)>,
    /// Were open when the closed ones were last forgotten.
    were_open: usize,
}

impl OpenFiles {
    /// Adds an open file. Those closed since are forgotten whenever they may be half of all: so
    /// an open costs the same however many there are.
    pub fn insert(&self, file: &Arc<FileIo>) {
        let mut opens = self.0.lock();
        if opens.files.len() >= 2 * opens.were_open.max(8) {
            opens.files.retain(|(_, f)| f.strong_count() > 0);
            opens.were_open = opens.files.len();
        }
        opens.files.push((file.fh().clone(), Arc::downgrade(file)));
    }

    /// The open files with this handle, or all.
    pub fn matching(&self, fh: Option<&FileHandle>) -> Vec<Arc<FileIo>> {
        let opens = self.0.lock();
        let files = opens.files.iter();
        files
            .filter(|(f, _)| fh.is_none_or(|fh| fh == f))
            .filter_map(|(_, f)| f.upgrade())
            .collect()
    }
}
