//! A namespace as small as it can be: a map of nodes, one function per operation, POSIX rules
//! spelled out anew. It shares nothing with the volume but the words.

use std::collections::{BTreeMap, BTreeSet};

use weft_store::types::{Credential, Kind, StoreError};
use weft_store::volume::{Expect, XattrHow};

#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    pub kind: Kind,
    pub mode: u16,
    pub uid: u32,
    pub gid: u32,
    pub nlink: u32,
    pub size: u64,
    pub parent: u64,
    /// Names in the order they were made.
    pub entries: Vec<(Vec<u8>, u64)>,
    pub orphan: bool,
    pub placed: bool,
    /// Its objects may hold more than is known.
    pub unsettled: bool,
    pub occupied: Option<u64>,
    /// How long each of its objects is at least.
    pub lengths_min: Lengths,
    /// Its bytes are in the volume: `data`, up to the last that was written.
    pub stuffed: bool,
    pub data: Vec<u8>,
    /// Blocks of it that were written and not cut off since: the rest is holes.
    pub blocks: BTreeSet<u64>,
    pub verifier: Option<[u8; 8]>,
    /// In the order they were made.
    pub xattrs: Vec<(Vec<u8>, Vec<u8>)>,
}

pub struct Reference {
    pub nodes: BTreeMap<u64, Node>,
    pub next: u64,
    /// Files deleted or cut that had objects.
    pub owed: usize,
}

/// Who, and the request's idea of an existing name.
pub struct Make<'a> {
    pub kind: Kind,
    pub mode: u16,
    pub cred: &'a Credential,
    pub guarded: bool,
    pub placed: bool,
    pub stuffed: bool,
    pub verifier: Option<[u8; 8]>,
}

pub struct Attributes {
    pub mode: Option<u16>,
    /// Which bits of it count.
    pub mask: u16,
    pub uid: Option<u32>,
    pub gid: Option<u32>,
    pub size: Option<u64>,
    pub touch: Option<bool>,
    pub by_open: bool,
}

/// As much of a small file is written at least.
const BLOCK_BYTES: u64 = 8192;

/// Objects of a placed file.
pub const OBJECTS: usize = 3;
/// Of which this one has the first stripe unit.
pub const FIRST_OBJECT: usize = 1;
/// Bytes of a stripe unit.
pub const UNIT_BYTES: u64 = 4096;
/// A length of each object.
pub type Lengths = [u64; OBJECTS];

const X: u16 = 1;
const W: u16 = 2;
const R: u16 = 4;

type Answer<T> = Result<T, StoreError>;

impl Reference {
    pub fn new() -> Self {
        let root = Node {
            kind: Kind::Directory,
            mode: 0o1777,
            uid: 0,
            gid: 0,
            nlink: 2,
            size: 0,
            parent: 1,
            entries: Vec::new(),
            orphan: false,
            placed: false,
            unsettled: false,
            occupied: None,
            lengths_min: [0; OBJECTS],
            stuffed: false,
            data: Vec::new(),
            blocks: BTreeSet::new(),
            verifier: None,
            xattrs: Vec::new(),
        };
        Self { nodes: BTreeMap::from([(1, root)]), next: 2, owed: 0 }
    }

    fn node(&self, no: u64) -> Answer<&Node> {
        self.nodes.get(&no).ok_or(StoreError::Stale)
    }

    fn at(&mut self, no: u64) -> &mut Node {
        self.nodes.get_mut(&no).unwrap()
    }

    fn dir(&self, no: u64) -> Answer<&Node> {
        let node = self.node(no)?;
        if node.kind == Kind::Directory { Ok(node) } else { Err(StoreError::NotDirectory) }
    }

    fn need(&self, no: u64, cred: &Credential, bits: u16) -> Answer<()> {
        if permits(&self.nodes[&no], cred, bits) { Ok(()) } else { Err(StoreError::Access) }
    }

    fn find(&self, dir: u64, name: &[u8]) -> Option<u64> {
        self.nodes[&dir].entries.iter().find(|(n, _)| n == name).map(|(_, no)| *no)
    }

    fn may_take(&self, dir: u64, no: u64, cred: &Credential) -> Answer<()> {
        self.need(dir, cred, W | X)?;
        let (dir, node) = (&self.nodes[&dir], &self.nodes[&no]);
        let sticky = dir.mode & 0o1000 != 0;
        let mine = cred.uid == 0 || cred.uid == dir.uid || cred.uid == node.uid;
        if sticky && !mine { Err(StoreError::Permission) } else { Ok(()) }
    }

    fn xattr_holder(&self, no: u64) -> Answer<&Node> {
        let node = self.node(no)?;
        let has = matches!(node.kind, Kind::File | Kind::Directory);
        if has { Ok(node) } else { Err(StoreError::WrongType) }
    }

    fn may_change_xattrs(&self, no: u64, cred: &Credential) -> Answer<()> {
        let node = self.xattr_holder(no)?;
        self.need(no, cred, W)?;
        let sticky = node.kind == Kind::Directory && node.mode & 0o1000 != 0;
        let mine = cred.uid == 0 || cred.uid == node.uid;
        if sticky && !mine { Err(StoreError::Permission) } else { Ok(()) }
    }

    pub fn xattr_get(&self, no: u64, name: &[u8], cred: &Credential) -> Answer<Vec<u8>> {
        let node = self.xattr_holder(no)?;
        self.need(no, cred, R)?;
        let found = node.xattrs.iter().find(|(n, _)| n == name);
        found.map(|(_, value)| value.clone()).ok_or(StoreError::NoXattr)
    }

    pub fn xattr_set(
        &mut self,
        no: u64,
        (name, value): (&[u8], &[u8]),
        how: XattrHow,
        cred: &Credential,
    ) -> Answer<()> {
        self.may_change_xattrs(no, cred)?;
        let xattrs = &mut self.at(no).xattrs;
        match (xattrs.iter_mut().find(|(n, _)| n == name), how) {
            (Some(_), XattrHow::Create) => Err(StoreError::Exists),
            (None, XattrHow::Replace) => Err(StoreError::NoXattr),
            (Some((_, old)), _) => {
                value.clone_into(old);
                Ok(())
            }
            (None, _) => {
                xattrs.push((name.to_vec(), value.to_vec()));
                Ok(())
            }
        }
    }

    pub fn xattr_remove(&mut self, no: u64, name: &[u8], cred: &Credential) -> Answer<()> {
        self.may_change_xattrs(no, cred)?;
        let xattrs = &mut self.at(no).xattrs;
        let at = xattrs.iter().position(|(n, _)| n == name).ok_or(StoreError::NoXattr)?;
        xattrs.remove(at);
        Ok(())
    }

    pub fn xattr_list(&self, no: u64, cred: &Credential) -> Answer<Vec<Vec<u8>>> {
        let node = self.node(no)?;
        self.need(no, cred, R)?;
        Ok(node.xattrs.iter().map(|(name, _)| name.clone()).collect())
    }

    pub fn lookup(&self, dir: u64, name: &[u8], cred: &Credential) -> Answer<u64> {
        self.dir(dir)?;
        self.need(dir, cred, X)?;
        self.find(dir, name).ok_or(StoreError::NotFound)
    }

    pub fn list(&self, dir: u64, cred: &Credential) -> Answer<Vec<(Vec<u8>, u64)>> {
        self.dir(dir)?;
        self.need(dir, cred, R)?;
        Ok(self.nodes[&dir].entries.clone())
    }

    pub fn create(&mut self, dir: u64, name: &[u8], make: &Make<'_>) -> Answer<(u64, bool)> {
        self.dir(dir)?;
        self.need(dir, make.cred, X)?;
        if let Some(no) = self.find(dir, name) {
            let node = &self.nodes[&no];
            let again = node.kind == make.kind && node.verifier == make.verifier;
            return match make.verifier {
                Some(_) if again => Ok((no, true)),
                None if !make.guarded => Ok((no, false)),
                _ => Err(StoreError::Exists),
            };
        }
        self.need(dir, make.cred, W | X)?;
        if make.kind == Kind::BlockDevice && make.cred.uid != 0 {
            return Err(StoreError::Permission);
        }
        let directory = make.kind == Kind::Directory;
        let passes_group = self.nodes[&dir].mode & 0o2000 != 0;
        let gid = if passes_group { self.nodes[&dir].gid } else { make.cred.gid };
        let mut mode = make.mode;
        if directory && passes_group {
            mode |= 0o2000;
        }
        if !directory && mode & 0o2010 == 0o2010 && make.cred.uid != 0 && !member(make.cred, gid) {
            mode &= !0o2000;
        }
        let no = self.next;
        self.next += 1;
        let node = Node {
            kind: make.kind,
            mode,
            uid: make.cred.uid,
            gid,
            nlink: if directory { 2 } else { 1 },
            size: if make.kind == Kind::Symlink { 6 } else { 0 },
            parent: if directory { dir } else { 0 },
            entries: Vec::new(),
            orphan: false,
            placed: make.placed,
            unsettled: false,
            occupied: None,
            lengths_min: [0; OBJECTS],
            stuffed: make.stuffed,
            data: Vec::new(),
            blocks: BTreeSet::new(),
            verifier: make.verifier,
            xattrs: Vec::new(),
        };
        self.nodes.insert(no, node);
        self.at(dir).entries.push((name.to_vec(), no));
        self.at(dir).nlink += u32::from(directory);
        Ok((no, true))
    }

    pub fn link(&mut self, no: u64, dir: u64, name: &[u8], cred: &Credential) -> Answer<u64> {
        if self.node(no)?.kind == Kind::Directory {
            return Err(StoreError::IsDirectory);
        }
        self.dir(dir)?;
        self.need(dir, cred, X)?;
        if self.find(dir, name).is_some() {
            return Err(StoreError::Exists);
        }
        self.need(dir, cred, W | X)?;
        if self.nodes[&no].orphan {
            return Err(StoreError::Stale);
        }
        self.at(no).nlink += 1;
        self.at(dir).entries.push((name.to_vec(), no));
        Ok(no)
    }

    pub fn remove(
        &mut self,
        dir: u64,
        name: &[u8],
        expect: Option<Expect>,
        keep: bool,
        cred: &Credential,
    ) -> Answer<u64> {
        let no = self.lookup(dir, name, cred)?;
        self.may_take(dir, no, cred)?;
        let directory = self.nodes[&no].kind == Kind::Directory;
        if expect == Some(Expect::Directory) && !directory {
            return Err(StoreError::NotDirectory);
        }
        if expect == Some(Expect::NonDirectory) && directory {
            return Err(StoreError::IsDirectory);
        }
        if !self.nodes[&no].entries.is_empty() {
            return Err(StoreError::NotEmpty);
        }
        self.at(dir).entries.retain(|(n, _)| n != name);
        self.at(dir).nlink -= u32::from(directory);
        self.unlink(no, keep);
        Ok(no)
    }

    fn unlink(&mut self, no: u64, keep: bool) {
        let node = self.at(no);
        node.nlink = if node.kind == Kind::Directory { 0 } else { node.nlink - 1 };
        if node.nlink == 0 && keep && node.kind == Kind::File {
            node.orphan = true;
        } else if node.nlink == 0 {
            self.owed += usize::from(node.placed);
            self.nodes.remove(&no);
        }
    }

    pub fn release(&mut self, no: u64) -> Answer<()> {
        if self.nodes.get(&no).is_some_and(|node| node.orphan) {
            self.owed += usize::from(self.nodes[&no].placed);
            self.nodes.remove(&no);
        }
        Ok(())
    }

    pub fn rename(
        &mut self,
        (from, old): (u64, &[u8]),
        (to, new): (u64, &[u8]),
        keep: bool,
        cred: &Credential,
    ) -> Answer<u64> {
        self.dir(from)?;
        self.dir(to)?;
        self.need(from, cred, X)?;
        self.need(to, cred, X)?;
        let no = self.find(from, old).ok_or(StoreError::NotFound)?;
        let target = self.find(to, new);
        if target == Some(no) {
            return Ok(no);
        }
        self.may_take(from, no, cred)?;
        match target {
            Some(target) => self.may_take(to, target, cred)?,
            None => self.need(to, cred, W | X)?,
        }
        let directory = self.nodes[&no].kind == Kind::Directory;
        if directory && from != to {
            self.need(no, cred, W)?;
        }
        let over_directory = target.map(|t| self.nodes[&t].kind == Kind::Directory);
        match (directory, over_directory) {
            (true, Some(false)) => return Err(StoreError::NotDirectory),
            (false, Some(true)) => return Err(StoreError::IsDirectory),
            _ => {}
        }
        if directory && self.ancestors(to).contains(&no) {
            return Err(StoreError::Invalid);
        }
        if target.is_some_and(|t| !self.nodes[&t].entries.is_empty()) {
            return Err(StoreError::NotEmpty);
        }
        let at = self.at(from).entries.iter().position(|(n, _)| n == old).unwrap();
        self.at(from).entries.remove(at);
        self.at(from).nlink -= u32::from(directory);
        match target {
            None if from == to => self.at(to).entries.insert(at, (new.to_vec(), no)),
            None => self.at(to).entries.push((new.to_vec(), no)),
            Some(target) => {
                self.at(to).nlink -= u32::from(over_directory == Some(true));
                let slot = self.at(to).entries.iter_mut().find(|(n, _)| n == new).unwrap();
                slot.1 = no;
                self.unlink(target, keep);
            }
        }
        self.at(to).nlink += u32::from(directory);
        if directory {
            self.at(no).parent = to;
        }
        Ok(no)
    }

    /// `no` and everything above it.
    fn ancestors(&self, mut no: u64) -> Vec<u64> {
        let mut found = vec![no];
        while no != 1 {
            no = self.nodes[&no].parent;
            found.push(no);
        }
        found
    }

    pub fn setattr(&mut self, no: u64, set: &Attributes, cred: &Credential) -> Answer<u64> {
        let node = self.node(no)?.clone();
        if set.size.is_some() {
            match node.kind {
                Kind::File => {}
                Kind::Directory => return Err(StoreError::IsDirectory),
                _ => return Err(StoreError::Invalid),
            }
            if !set.by_open {
                self.need(no, cred, W)?;
            }
        }
        let (root, owner) = (cred.uid == 0, cred.uid == 0 || cred.uid == node.uid);
        let ownership = set.uid.is_some() || set.gid.is_some();
        let gives_away = set.uid.is_some_and(|uid| uid != node.uid);
        let foreign = set.gid.is_some_and(|gid| gid != node.gid && !member(cred, gid));
        if (ownership || set.mode.is_some()) && !owner || (gives_away || foreign) && !root {
            return Err(StoreError::Permission);
        }
        match set.touch {
            Some(true) if !owner => return Err(StoreError::Permission),
            Some(false) if !owner => self.need(no, cred, W)?,
            _ => {}
        }
        let moving = node.stuffed && node.placed;
        if moving && set.size.is_some_and(|size| size > 0) {
            return Err(StoreError::Moving);
        }
        let unsettled = node.unsettled;
        let cut = set.size.filter(|size| node.placed && (*size < node.size || unsettled));
        self.owed += usize::from(cut.is_some());
        let node = self.at(no);
        if let Some(size) = cut {
            for (object, length) in node.lengths_min.iter_mut().enumerate() {
                *length = end_of_object(object, size).min(*length);
            }
        }
        node.size = set.size.unwrap_or(node.size);
        node.occupied = node.occupied.filter(|_| set.size.is_none());
        node.data.truncate(usize::try_from(node.size).unwrap());
        node.blocks.retain(|block| block * BLOCK_BYTES < node.size);
        node.stuffed &= !(moving && node.size == 0);
        let keeps_marks = root || member(cred, node.gid);
        if set.size.is_some() && !root {
            drop_set_id(node, keeps_marks);
        }
        node.uid = set.uid.unwrap_or(node.uid);
        node.gid = set.gid.unwrap_or(node.gid);
        if let Some(mode) = set.mode {
            node.mode = node.mode & !set.mask | mode & set.mask;
            if !root && !member(cred, node.gid) {
                node.mode &= !0o2000;
            }
        }
        if ownership && node.kind != Kind::Directory {
            drop_set_id(node, keeps_marks);
        }
        Ok(no)
    }

    pub fn place(&mut self, no: u64) -> Answer<u64> {
        if self.node(no)?.kind != Kind::File {
            return Err(StoreError::Invalid);
        }
        let node = self.at(no);
        node.placed = true;
        node.stuffed &= !node.blocks.is_empty();
        Ok(no)
    }

    /// Whether it was written.
    pub fn write(&mut self, no: u64, offset: u64, data: &[u8], limit: u64) -> Answer<bool> {
        let end = offset + data.len() as u64;
        let node = self.node(no)?;
        if !node.stuffed || node.placed || !data.is_empty() && end > limit {
            return Ok(false);
        }
        let node = self.at(no);
        if !data.is_empty() {
            let (from, to) = (usize::try_from(offset).unwrap(), usize::try_from(end).unwrap());
            node.data.resize(node.data.len().max(to), 0);
            node.data[from..to].copy_from_slice(data);
            node.blocks.extend(offset / BLOCK_BYTES..end.div_ceil(BLOCK_BYTES));
            node.size = node.size.max(end);
            drop_set_id(node, false);
        }
        Ok(true)
    }

    pub fn unstuff(&mut self, no: u64, lengths: &Lengths) -> Answer<u64> {
        let node = self.node(no)?;
        if node.stuffed && !node.placed {
            return Err(StoreError::Invalid);
        }
        let node = self.at(no);
        if node.stuffed {
            learn(node, lengths);
        }
        node.stuffed = false;
        node.data.clear();
        node.blocks.clear();
        Ok(no)
    }

    pub fn mark_unsettled(&mut self, no: u64) -> Answer<u64> {
        if self.node(no)?.kind != Kind::File {
            return Err(StoreError::Invalid);
        }
        (self.at(no).unsettled, self.at(no).occupied) = (true, None);
        Ok(no)
    }

    pub fn settle(
        &mut self,
        no: u64,
        at_least: u64,
        lengths: &Lengths,
        settled: bool,
    ) -> Answer<u64> {
        if self.node(no)?.kind != Kind::File {
            return Err(StoreError::Invalid);
        }
        let node = self.at(no);
        let before = node.size;
        node.size = node.size.max(at_least);
        node.unsettled &= !settled;
        node.occupied = node.occupied.filter(|_| at_least <= before);
        if settled && node.placed && !node.stuffed {
            node.occupied = Some(at_least);
        }
        learn(node, lengths);
        Ok(no)
    }
}

/// The objects of a file are found to be so long: they are at least so long from now on.
fn learn(node: &mut Node, lengths: &Lengths) {
    if node.placed {
        for (known, found) in node.lengths_min.iter_mut().zip(lengths) {
            *known = (*known).max(*found);
        }
    }
}

/// Where the last byte of a file of this size ends that is in an object: unit after unit, each to
/// the next object, at the offsets that they have in the file.
fn end_of_object(object: usize, size: u64) -> u64 {
    let (mut unit, mut end) = (0, 0);
    while unit * UNIT_BYTES < size {
        if (unit as usize + FIRST_OBJECT) % OBJECTS == object {
            end = size.min((unit + 1) * UNIT_BYTES);
        }
        unit += 1;
    }
    end
}

fn member(cred: &Credential, gid: u32) -> bool {
    cred.gid == gid || cred.gids.contains(&gid)
}

/// Set-group-id without group-execute is kept by some.
fn drop_set_id(node: &mut Node, keeps_marks: bool) {
    node.mode &= !0o4000;
    if node.mode & 0o010 != 0 || !keeps_marks {
        node.mode &= !0o2000;
    }
}

fn permits(node: &Node, cred: &Credential, bits: u16) -> bool {
    if cred.uid == 0 {
        let searchable = node.kind == Kind::Directory || node.mode & 0o111 != 0;
        return bits & X == 0 || searchable;
    }
    let digit = match () {
        () if node.uid == cred.uid => node.mode >> 6,
        () if member(cred, node.gid) => node.mode >> 3,
        () => node.mode,
    };
    digit & bits == bits
}
