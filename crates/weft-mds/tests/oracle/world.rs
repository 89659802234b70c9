//! What there is, and who may do what with it: written from POSIX and the RFCs, with nothing of the
//! server's own code for permissions. All bytes and names are marked, so that they are known again
//! wherever they turn up.

use std::collections::BTreeMap;

use weft_nfs::{
    FileHandle,
    ace_mask::{
        APPEND_DATA, DELETE, DELETE_CHILD, EXECUTE, READ_DATA, READ_NAMED_ATTRS, WRITE_ACL,
        WRITE_ATTRIBUTES, WRITE_DATA, WRITE_NAMED_ATTRS, WRITE_OWNER,
    },
};

use super::lists::{self, Entry, Owners, Word};

/// Bytes of a marker; files are written in pieces of this length.
pub const PIECE: usize = 16;
/// Most pieces of a file.
pub const PIECES: usize = 8;
/// What a marker begins with; a number follows.
const PREFIX: &str = "wMk:";

pub const READ: u32 = 4;
pub const WRITE: u32 = 2;
pub const SEARCH: u32 = 1;
const STICKY: u32 = 0o1000;
const SETGID: u32 = 0o2000;
const SET_IDS: u32 = 0o6000;

/// A user as the export lets him appear.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Who {
    pub uid: u32,
    pub gid: u32,
    pub gids: Vec<u32>,
}

impl Who {
    pub fn is_root(&self) -> bool {
        self.uid == 0
    }

    pub fn is_in(&self, gid: u32) -> bool {
        self.gid == gid || self.gids.contains(&gid)
    }
}

/// What the rules say of an act, from the strictest on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// It must not succeed.
    Forbidden,
    /// Servers differ, or something else may stand in its way.
    Either,
    /// It must not be refused for want of permission.
    Allowed,
}

impl Verdict {
    pub fn of(allowed: bool) -> Verdict {
        if allowed { Verdict::Allowed } else { Verdict::Forbidden }
    }

    /// Both must allow it.
    pub fn and(self, other: Verdict) -> Verdict {
        self.min(other)
    }

    /// One is enough.
    pub fn or(self, other: Verdict) -> Verdict {
        self.max(other)
    }

    /// As it is if `here`, else not certain when it is not allowed.
    pub fn lenient_if(self, here: bool) -> Verdict {
        if here { self.or(Verdict::Either) } else { self }
    }
}

pub type NodeId = usize;

#[derive(Debug, Clone)]
pub enum Body {
    File(Vec<u8>),
    Directory(BTreeMap<String, NodeId>),
    Link(String),
}

/// A file, directory or link.
#[derive(Debug, Clone)]
pub struct Node {
    pub handle: FileHandle,
    pub body: Body,
    pub mode: u32,
    /// Then it decides, and not the mode.
    pub list: Option<Vec<Entry>>,
    /// Whether the list is what the mode that is set made of another.
    pub is_rewritten: bool,
    pub uid: u32,
    pub gid: u32,
    pub xattrs: BTreeMap<String, String>,
    /// Names it has.
    pub links: u32,
    /// Of the exclusive create that made it.
    pub verifier: Option<[u8; 8]>,
    /// Bytes and change attribute when it was last compared.
    pub seen: Option<(Vec<u8>, u64)>,
}

impl Node {
    pub fn is_directory(&self) -> bool {
        matches!(self.body, Body::Directory(_))
    }

    pub fn is_file(&self) -> bool {
        matches!(self.body, Body::File(_))
    }

    /// Bytes of a file; nothing of anything else.
    pub fn bytes(&self) -> &[u8] {
        match &self.body {
            Body::File(bytes) => bytes,
            _ => &[],
        }
    }

    pub fn entries(&self) -> &BTreeMap<String, NodeId> {
        static NONE: BTreeMap<String, NodeId> = BTreeMap::new();
        match &self.body {
            Body::Directory(entries) => entries,
            _ => &NONE,
        }
    }

    pub fn owners(&self) -> Owners {
        Owners { uid: self.uid, gid: self.gid }
    }

    /// What is said to him of one right: by the list, else by the mode, of which one class counts,
    /// the first that fits.
    fn word(&self, who: &Who, right: u32) -> Word {
        if who.is_root() {
            let by_list = self.list.as_ref().is_some_and(|list| lists::is_executable(list));
            let executes = self.is_directory() || self.mode & 0o111 != 0 || by_list;
            return if right != EXECUTE || executes { Word::Allowed } else { Word::Denied };
        }
        if let Some(list) = &self.list {
            return lists::word(list, self.owners(), who, right);
        }
        let class = match () {
            () if who.uid == self.uid => self.mode >> 6,
            () if who.is_in(self.gid) => self.mode >> 3,
            () => self.mode,
        };
        let bit = match right {
            READ_DATA => READ,
            WRITE_DATA | APPEND_DATA | DELETE_CHILD => WRITE,
            EXECUTE => SEARCH,
            _ => 0,
        };
        if class & bit != 0 { Word::Allowed } else { Word::Unsaid }
    }

    fn allows(&self, who: &Who, right: u32) -> bool {
        self.word(who, right) == Word::Allowed
    }

    /// To write is to write and to append.
    pub fn gives(&self, who: &Who, bit: u32) -> bool {
        match bit {
            READ => self.allows(who, READ_DATA),
            WRITE => self.allows(who, WRITE_DATA) && self.allows(who, APPEND_DATA),
            _ => self.allows(who, EXECUTE),
        }
    }

    pub fn is_owner(&self, who: &Who) -> bool {
        who.is_root() || who.uid == self.uid
    }

    /// To open it for reading: who executes may, too, unless a list denies it.
    pub fn opens_to_read(&self, who: &Who) -> Verdict {
        let denied = self.word(who, READ_DATA) == Word::Denied;
        let executes = self.gives(who, SEARCH);
        // A list that says what the mode says is the mode, and that denies nothing.
        let is_a_mode = self.list.as_ref().is_some_and(|list| lists::is_a_mode(list));
        let by_mode = Verdict::of(executes && !denied).lenient_if(executes && is_a_mode);
        Verdict::of(self.gives(who, READ)).or(by_mode)
    }

    /// To read without an open, or by one for writing: servers let owners do that.
    pub fn reads(&self, who: &Who) -> Verdict {
        let executes = self.opens_to_read(who) != Verdict::Forbidden;
        let read = Verdict::of(self.gives(who, READ)).lenient_if(executes);
        read.lenient_if(self.is_owner(who))
    }

    /// To write without an open.
    pub fn writes(&self, who: &Who) -> Verdict {
        Verdict::of(self.gives(who, WRITE)).lenient_if(self.is_owner(who))
    }

    /// To add a name to a directory, of a directory or of anything else.
    pub fn adds(&self, who: &Who, directory: bool) -> Verdict {
        let right = if directory { APPEND_DATA } else { WRITE_DATA };
        Verdict::of(self.allows(who, right) && self.gives(who, SEARCH))
    }

    /// To remove names from a directory, by what is said of the directory: `D`, or `w` where
    /// nothing is said of it.
    pub fn removes_some(&self, who: &Who) -> bool {
        match self.word(who, DELETE_CHILD) {
            Word::Allowed => true,
            Word::Denied => false,
            Word::Unsaid => self.allows(who, WRITE_DATA),
        }
    }

    pub fn reads_xattrs(&self, who: &Who) -> bool {
        self.gives(who, READ) && self.word(who, READ_NAMED_ATTRS) != Word::Denied
    }

    pub fn changes_xattrs(&self, who: &Who) -> bool {
        let sticky = self.is_directory() && self.mode & STICKY != 0 && !self.is_owner(who);
        self.gives(who, WRITE) && self.word(who, WRITE_NAMED_ATTRS) != Word::Denied && !sticky
    }

    /// To set this mode, or a list: the owner always may, others by `C`, who set no set-id bit.
    pub fn protects(&self, who: &Who, mode: u32) -> Verdict {
        let added = mode & !self.mode;
        let by_list = self.allows(who, WRITE_ACL) && added & SET_IDS == 0;
        let verdict = Verdict::of(self.is_owner(who) || by_list);
        let sticky = added & STICKY != 0 && !self.is_owner(who);
        if sticky { verdict.and(Verdict::Either) } else { verdict }
    }

    /// What the owner may unless he is denied it, and others if they are allowed it.
    fn owns_or_allowed(&self, who: &Who, right: u32) -> bool {
        match self.word(who, right) {
            Word::Allowed => true,
            Word::Denied => false,
            Word::Unsaid => self.is_owner(who),
        }
    }

    /// To set times: to now, also by `w`.
    pub fn sets_times(&self, who: &Who, to_now: bool) -> Verdict {
        let writes = to_now && self.gives(who, WRITE);
        let half = to_now && self.allows(who, WRITE_DATA);
        let owns = self.owns_or_allowed(who, WRITE_ATTRIBUTES);
        // RFC 8881 §6.2.1.3.1: half of `w` is enough; here it is never.
        Verdict::of(owns || writes).lenient_if(half)
    }

    /// To set owner and group: `o` makes oneself the owner, and sets one of one's groups.
    pub fn gives_away(&self, who: &Who, uid: Option<u32>, gid: Option<u32>) -> Verdict {
        let (same_uid, same_gid) =
            (uid.is_none_or(|uid| uid == self.uid), gid.is_none_or(|gid| gid == self.gid));
        let takes = self.allows(who, WRITE_OWNER) && uid == Some(who.uid);
        let own_group = same_gid || gid.is_some_and(|gid| who.is_in(gid));
        let group = own_group && self.owns_or_allowed(who, WRITE_OWNER);
        let allowed = (same_uid || takes) && (gid.is_none() || group);
        let allowed = who.is_root() || allowed && !(same_uid && same_gid);
        // Servers differ on a change that is none.
        Verdict::of(allowed).lenient_if(same_uid && same_gid)
    }
}

/// Where a marker was put.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Bytes(NodeId),
    Name(NodeId),
    Target(NodeId),
    Xattr(NodeId),
}

/// The tree, and every marker that was ever made.
#[derive(Debug, Default)]
pub struct World {
    pub nodes: Vec<Node>,
    places: Vec<Vec<Place>>,
}

/// Numbers of the markers in these bytes.
pub fn markers(bytes: &[u8]) -> Vec<usize> {
    let number = |at: usize| {
        let digits = bytes.get(at + PREFIX.len()..at + PIECE)?;
        std::str::from_utf8(digits).ok()?.parse().ok()
    };
    let starts = bytes.windows(PREFIX.len()).enumerate();
    starts.filter(|(_, w)| *w == PREFIX.as_bytes()).filter_map(|(at, _)| number(at)).collect()
}

impl World {
    pub const ROOT: NodeId = 0;

    /// A marker that was never used.
    pub fn marker(&mut self) -> String {
        self.places.push(Vec::new());
        format!("{PREFIX}{:012}", self.places.len() - 1)
    }

    fn put(&mut self, marker: usize, place: Place) {
        let Some(places) = self.places.get_mut(marker) else { return };
        if !places.contains(&place) {
            places.push(place);
        }
    }

    fn put_all(&mut self, bytes: &[u8], place: Place) {
        markers(bytes).into_iter().for_each(|marker| self.put(marker, place));
    }

    /// Something new without a name.
    pub fn add(&mut self, node: Node) -> NodeId {
        let id = self.nodes.len();
        if let Body::Link(target) = &node.body {
            let target = target.clone();
            self.put_all(target.as_bytes(), Place::Target(id));
        }
        self.nodes.push(node);
        id
    }

    /// Something new in a directory: the maker's, but for what the directory passes on.
    pub fn make(
        &mut self,
        (dir, name): (NodeId, &str),
        body: Body,
        (mode, list): (u32, Option<Vec<Entry>>),
        who: &Who,
        handle: FileHandle,
    ) -> NodeId {
        let parent = &self.nodes[dir];
        let (passes, group) = (parent.mode & SETGID, parent.gid);
        let is_directory = matches!(body, Body::Directory(_));
        let node = Node {
            handle,
            body,
            mode: mode | if is_directory { passes } else { 0 },
            list,
            is_rewritten: false,
            uid: who.uid,
            gid: if passes != 0 { group } else { who.gid },
            xattrs: BTreeMap::new(),
            links: 0,
            verifier: None,
            seen: None,
        };
        let id = self.add(node);
        self.name(dir, name, id);
        id
    }

    /// One more name.
    pub fn name(&mut self, dir: NodeId, name: &str, id: NodeId) {
        self.put_all(name.as_bytes(), Place::Name(dir));
        let Body::Directory(entries) = &mut self.nodes[dir].body else { return };
        entries.insert(name.to_owned(), id);
        self.nodes[id].links += 1;
    }

    /// One name less.
    pub fn unname(&mut self, dir: NodeId, name: &str) {
        let Body::Directory(entries) = &mut self.nodes[dir].body else { return };
        if let Some(id) = entries.remove(name) {
            self.nodes[id].links -= 1;
        }
    }

    /// Whether the directory is somewhere below the other, or the same.
    pub fn is_below(&self, dir: NodeId, above: NodeId) -> bool {
        let below = |id: &NodeId| self.nodes[*id].is_directory() && self.is_below(dir, *id);
        dir == above || self.nodes[above].entries().values().any(below)
    }

    /// To take a name away (§6.2.1.3.2): `d` of what has it is enough, else `D` of the directory,
    /// where neither is spoken of `w` of that; without `d`, in a sticky directory only the owner of
    /// either.
    pub fn removes(&self, dir: NodeId, victim: NodeId, who: &Who) -> Verdict {
        let (dir, victim) = (&self.nodes[dir], &self.nodes[victim]);
        let by_dir = match (victim.word(who, DELETE), dir.word(who, DELETE_CHILD)) {
            (Word::Denied, of_dir) => of_dir == Word::Allowed,
            _ => dir.removes_some(who),
        };
        let owns = dir.is_owner(who) || victim.is_owner(who);
        let by_dir = by_dir && (dir.mode & STICKY == 0 || owns);
        Verdict::of(dir.gives(who, SEARCH) && (victim.allows(who, DELETE) || by_dir))
    }

    pub fn write(&mut self, id: NodeId, at: usize, new: &[u8]) {
        let Body::File(bytes) = &mut self.nodes[id].body else { return };
        bytes.resize(bytes.len().max(at + new.len()), 0);
        bytes[at..at + new.len()].copy_from_slice(new);
        self.put_all(new, Place::Bytes(id));
    }

    pub fn cut(&mut self, id: NodeId, size: usize) {
        let Body::File(bytes) = &mut self.nodes[id].body else { return };
        bytes.resize(size, 0);
    }

    pub fn set_xattr(&mut self, id: NodeId, key: &str, value: &str) {
        self.put_all(key.as_bytes(), Place::Xattr(id));
        self.put_all(value.as_bytes(), Place::Xattr(id));
        self.nodes[id].xattrs.insert(key.to_owned(), value.to_owned());
    }

    /// Sets a mode as far as this user may: nobody outside the group gives it away, and who is not
    /// the owner leaves no set-id bit to what could be executed.
    pub fn chmod(&mut self, id: NodeId, mode: u32, who: &Who) {
        let node = &mut self.nodes[id];
        let owns = node.is_owner(who) || node.is_directory();
        let entitled = who.is_root() || who.is_in(node.gid);
        let of_owner = if owns { mode } else { mode & !SET_IDS };
        node.mode = if entitled { of_owner } else { of_owner & !SETGID };
    }

    /// Whether a marker may come to somebody: `reads` says whose bytes may, beyond the mode.
    pub fn may_see(&self, marker: usize, who: &Who, reads: impl Fn(NodeId) -> bool) -> bool {
        let text = format!("{PREFIX}{marker:012}");
        let piece = text.as_bytes();
        let holds = |bytes: &[u8]| bytes.chunks(PIECE).any(|p| p == piece);
        let may = |place: &Place| match *place {
            Place::Bytes(id) => {
                holds(self.nodes[id].bytes())
                    && (self.nodes[id].reads(who) != Verdict::Forbidden || reads(id))
            }
            Place::Name(id) => {
                self.nodes[id].gives(who, READ) && self.nodes[id].entries().contains_key(&text)
            }
            Place::Target(_) => true,
            Place::Xattr(id) => {
                let has = |(key, value): (&String, &String)| *key == text || *value == text;
                self.nodes[id].reads_xattrs(who) && self.nodes[id].xattrs.iter().any(has)
            }
        };
        self.places.get(marker).is_some_and(|places| places.iter().any(may))
    }
}
