//! Open files of objects, the least used of which are closed.

use std::{collections::HashMap, fs::File, io, time::Instant};

use bytes::Bytes;
use weft_io::LocalFile;

use crate::limits;

/// An object's file, open to be read.
#[derive(Debug, Clone)]
pub struct LocalObject {
    /// The file.
    pub file: LocalFile,
    /// When it was asked for.
    asked: Instant,
}

impl LocalObject {
    pub(super) fn new(file: File, asked: Instant) -> LocalObject {
        LocalObject { file: LocalFile::new(file), asked }
    }

    /// Whether the file is still the object's: one that was removed, or made anew, is not. What was
    /// read before this said so is the object's.
    ///
    /// # Errors
    /// It cannot be asked.
    pub fn is_current(&self) -> io::Result<bool> {
        self.file.has_name()
    }
}

/// Files by filehandle.
#[derive(Debug, Default)]
pub(super) struct Descriptors {
    kept: HashMap<Bytes, Kept>,
    /// Counts uses.
    uses: u64,
}

#[derive(Debug)]
struct Kept {
    object: LocalObject,
    last_use: u64,
}

impl Descriptors {
    pub(super) fn len(&self) -> usize {
        self.kept.len()
    }

    pub(super) fn find(&mut self, fh: &Bytes, since: Instant) -> Option<LocalObject> {
        self.uses += 1;
        let kept = self.kept.get_mut(fh)?;
        let asked = kept.object.asked;
        if asked < since || asked.elapsed() >= limits::DESCRIPTOR_AGE {
            return None;
        }
        kept.last_use = self.uses;
        Some(kept.object.clone())
    }

    /// Keeps one, in place of the one that was not used for longest if there are too many.
    pub(super) fn keep(&mut self, fh: &Bytes, object: &LocalObject) {
        if self.kept.len() >= limits::DESCRIPTORS_MAX && !self.kept.contains_key(fh) {
            let oldest = self.kept.iter().min_by_key(|(_, kept)| kept.last_use);
            let oldest = oldest.map(|(fh, _)| fh.clone());
            oldest.and_then(|oldest| self.kept.remove(&oldest));
        }
        self.uses += 1;
        let kept = Kept { object: object.clone(), last_use: self.uses };
        self.kept.insert(fh.clone(), kept);
    }

    pub(super) fn remove(&mut self, fh: &Bytes) -> Option<LocalObject> {
        self.kept.remove(fh).map(|kept| kept.object)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn object(asked: Instant) -> LocalObject {
        LocalObject::new(File::open("/dev/null").unwrap(), asked)
    }

    fn fh(n: usize) -> Bytes {
        Bytes::from(n.to_string())
    }

    /// No more are kept than may be; what is used stays.
    #[test]
    fn the_least_used_goes() {
        let (mut all, start) = (Descriptors::default(), Instant::now());
        for n in 0..3 * limits::DESCRIPTORS_MAX {
            all.keep(&fh(n), &object(Instant::now()));
            assert!(all.find(&fh(0), start).is_some(), "{n}");
            assert!(all.len() <= limits::DESCRIPTORS_MAX);
        }
        assert_eq!(all.len(), limits::DESCRIPTORS_MAX);
        assert!(all.find(&fh(1), start).is_none());
        all.remove(&fh(0));
        assert!(all.find(&fh(0), start).is_none());
    }

    /// One is used for a while, and not by who has opened the file since it was asked for.
    #[test]
    fn an_old_one_is_not_used() {
        let (mut all, now) = (Descriptors::default(), Instant::now());
        let Some(before) = now.checked_sub(limits::DESCRIPTOR_AGE) else { return };
        all.keep(&fh(1), &object(before));
        assert!(all.find(&fh(1), before).is_none());
        all.keep(&fh(1), &object(now));
        assert!(all.find(&fh(1), now).is_some());
        assert!(all.find(&fh(1), now + Duration::from_nanos(1)).is_none());
    }
}
