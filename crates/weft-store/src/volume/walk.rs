//! Going through a volume piece by piece, while others work: its placed files in order, and the
//! paths of some of them.

use std::{
    collections::{HashMap, HashSet},
    ops::ControlFlow,
};

use bytes::Bytes;

use super::{
    codec,
    handle::Volume,
    keys::{self, prefix},
};
use crate::{
    engine::KeyRange,
    types::{Inode, InodeNo, StoreError},
};

/// Names looked at before others get their turn.
const NAMES_AT_ONCE: usize = 4096;

/// A part of the placed files of a volume.
#[derive(Clone, Debug, Default)]
pub struct PlacedFiles {
    /// Files with a place, in the order of their numbers.
    pub files: Vec<Inode>,
    /// The last inode that was looked at; the next part begins behind it. `None`: there is none.
    pub last: Option<InodeNo>,
}

impl Volume {
    /// The files with a place among the next `limit` inodes behind `after`.
    ///
    /// # Errors
    /// [`StoreError`] when the store cannot be read.
    pub fn placed_files(
        &self,
        after: Option<InodeNo>,
        limit: usize,
    ) -> Result<PlacedFiles, StoreError> {
        let first = after.map_or(Some(0), |after| after.0.checked_add(1));
        let Some(first) = first else { return Ok(PlacedFiles::default()) };
        self.run(|tx| {
            let (mut part, mut looked) = (PlacedFiles::default(), 0);
            let floor = tx.epoch_floor();
            let (from, until) = (keys::inode(InodeNo(first)), keys::end_of(prefix::INODE));
            tx.scan(KeyRange { from: &from, until: Some(&until) }, |key, value| {
                let no = keys::number_of(key).ok_or(StoreError::Corrupt("inode key"))?;
                let mut inode = codec::decode_inode(InodeNo(no), &Bytes::copy_from_slice(value))?;
                inode.raise_to_floor(floor);
                part.last = Some(inode.no);
                if inode.placement.is_some() {
                    part.files.push(inode);
                }
                looked += 1;
                Ok(if looked == limit { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
            })?;
            Ok(part)
        })
        .unconfirmed()
    }

    /// One path of each of these inodes, from the root; without those that have no name.
    ///
    /// **Cost.** All names of the volume are read once, a few thousand at a time.
    ///
    /// # Errors
    /// [`StoreError`] when the store cannot be read.
    pub fn paths_of(
        &self,
        wanted: &HashSet<InodeNo>,
    ) -> Result<HashMap<InodeNo, Vec<u8>>, StoreError> {
        let mut named = HashMap::new();
        if !wanted.is_empty() {
            self.each_name(&[prefix::DIRENT], &keys::end_of(prefix::DIRENT), |dir, name, ino| {
                if wanted.contains(&ino) {
                    named.entry(ino).or_insert_with(|| (dir, name.to_vec()));
                }
            })?;
        }
        let mut directories = HashMap::from([(InodeNo::ROOT, Vec::new())]);
        let mut paths = HashMap::new();
        for (ino, (dir, name)) in named {
            let mut path = self.directory_path(dir, &mut directories)?;
            path.push(b'/');
            path.extend_from_slice(&name);
            paths.insert(ino, path);
        }
        Ok(paths)
    }

    /// The path of a directory, without a slash at its end.
    fn directory_path(
        &self,
        dir: InodeNo,
        known: &mut HashMap<InodeNo, Vec<u8>>,
    ) -> Result<Vec<u8>, StoreError> {
        let (mut at, mut below) = (dir, Vec::new());
        while !known.contains_key(&at) {
            let parent = self.inode(at).unconfirmed()?.parent;
            let (from, until) =
                (keys::dirent(parent, b""), keys::dirent(InodeNo(parent.0 + 1), b""));
            let mut found = None;
            self.each_name(&from, &until, |_, name, ino| {
                if ino == at {
                    found = Some(name.to_vec());
                }
            })?;
            below.push((at, found.ok_or(StoreError::Corrupt("a directory without a name"))?));
            at = parent;
        }
        let mut path = known.get(&at).cloned().unwrap_or_default();
        for (ino, name) in below.into_iter().rev() {
            path.push(b'/');
            path.extend_from_slice(&name);
            known.insert(ino, path.clone());
        }
        Ok(path)
    }

    /// Visits every name in a range of keys: its directory, itself, what it leads to.
    fn each_name(
        &self,
        from: &[u8],
        until: &[u8],
        mut visit: impl FnMut(InodeNo, &[u8], InodeNo),
    ) -> Result<(), StoreError> {
        let mut from = Some(Bytes::copy_from_slice(from));
        while let Some(begin) = from.take() {
            let part = self.run(|tx| {
                let (mut names, mut next) = (Vec::new(), None);
                tx.scan(KeyRange { from: &begin, until: Some(until) }, |key, value| {
                    let dir = key.get(1..9).and_then(|dir| dir.try_into().ok());
                    let dir = dir.map(u64::from_be_bytes).map(InodeNo);
                    let dir = dir.ok_or(StoreError::Corrupt("name key"))?;
                    let name = Bytes::copy_from_slice(key.get(9..).unwrap_or_default());
                    names.push((dir, name, codec::decode_dirent(value)?.ino));
                    if names.len() == NAMES_AT_ONCE {
                        next = Some(keys::successor(key));
                        return Ok(ControlFlow::Break(()));
                    }
                    Ok(ControlFlow::Continue(()))
                })?;
                Ok((names, next))
            });
            let (names, next) = part.unconfirmed()?;
            names.iter().for_each(|(dir, name, ino)| visit(*dir, name, *ino));
            from = next;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::{Credential, Kind, Timestamp};
    use crate::volume::{Exclusivity, New, VolumeConfig};

    /// Every file is found below its directories, in parts of any size, and none without a name.
    #[test]
    fn files_have_paths() {
        let volume = Volume::in_memory(&VolumeConfig::default()).unwrap();
        let (root, now) = (Credential::superuser(), Timestamp::default());
        let make = |dir, name: &str, kind| {
            let new = New::of(kind, 0o755, Exclusivity::Guarded);
            volume.create(dir, name.as_bytes(), &new, &root, now).value.unwrap().inode.no
        };
        let a = make(InodeNo::ROOT, "a", Kind::Directory);
        let b = make(a, "b b", Kind::Directory);
        let files = [make(InodeNo::ROOT, "top", Kind::File), make(b, "deep", Kind::File)];
        let gone = InodeNo(u64::MAX);
        let wanted = HashSet::from([files[0], files[1], b, gone]);
        let paths = volume.paths_of(&wanted).unwrap();
        assert_eq!(paths.len(), 3);
        assert_eq!(paths[&files[0]], b"/top");
        assert_eq!(paths[&files[1]], b"/a/b b/deep");
        assert_eq!(paths[&b], b"/a/b b");
        let place = crate::types::Placement {
            device: crate::types::DeviceId([1; 16]),
            stripe_unit_bytes: 1 << 20,
            stripe_count: 1,
            first_stripe_index: 0,
            reach: 1,
            spread: crate::types::Spread::InTurn,
        };
        volume.place(files[1], place).value.unwrap();
        for limit in 1..7 {
            let (mut after, mut found) = (None, Vec::new());
            loop {
                let part = volume.placed_files(after, limit).unwrap();
                found.extend(part.files.iter().map(|inode| inode.no));
                after = part.last;
                if after.is_none() {
                    break;
                }
            }
            assert_eq!(found, [files[1]], "{limit}");
        }
    }
}
