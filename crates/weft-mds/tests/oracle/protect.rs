//! Acts on modes and lists, and what is made with them.

use weft_nfs::{
    Ace, Acl, Acl41, AttrNo, Attrs, NfsStat, OpArgs, Stateid, ace_flag, ace_mask, attr::ModeUmask,
};

use super::{
    lists::{self, Entry, Rewritten, Whom},
    run::{AUDITOR, Actor, Fault, Run, fault},
    world::{Body, NodeId, Verdict},
};
use crate::support::*;

/// Modes that files are given.
const FILE_MODES: [u32; 10] =
    [0o644, 0o600, 0o622, 0o640, 0o660, 0o200, 0o400, 0o000, 0o666, 0o711];
/// Modes that directories are given: set-group-id and sticky ones, and some that hide what is in
/// them.
const DIRECTORY_MODES: [u32; 10] =
    [0o755, 0o777, 0o1777, 0o2775, 0o700, 0o711, 0o733, 0o744, 0o770, 0o555];

/// Rights that entries are about; some come together.
const MASKS: [u32; 20] = {
    use ace_mask::*;
    let write = WRITE_DATA | APPEND_DATA;
    [
        READ_DATA,
        READ_DATA | EXECUTE,
        READ_DATA | write,
        READ_DATA | write | EXECUTE,
        write | EXECUTE,
        write,
        WRITE_DATA,
        APPEND_DATA,
        EXECUTE,
        write | DELETE_CHILD,
        READ_DATA | EXECUTE | DELETE_CHILD,
        DELETE_CHILD,
        DELETE,
        WRITE_ACL,
        WRITE_OWNER,
        WRITE_ATTRIBUTES,
        READ_NAMED_ATTRS,
        WRITE_NAMED_ATTRS,
        // Whole classes of rights, as users' tools deny them.
        READ_DATA | READ_ATTRIBUTES | READ_ACL | SYNCHRONIZE,
        READ_ATTRIBUTES | READ_ACL | WRITE_ACL | SYNCHRONIZE,
    ]
};
const UIDS: [u32; 5] = [0, 1000, 1001, 1002, 65_534];
const GIDS: [u32; 5] = [0, 100, 101, 102, 65_534];
/// Entries around the most that a list may have.
const NEAR: usize = 12;
/// Fewest entries of a long list; up to twice as many.
const MANY: usize = 80;

/// What something new is made with.
#[derive(Debug, Clone)]
pub enum Protection {
    Mode(u32),
    Masked { mode: u32, umask: u32 },
    Nothing,
    List(Vec<Entry>),
    Both(u32, Vec<Entry>),
}

impl Protection {
    pub fn attrs(&self) -> Attrs {
        match self {
            Protection::Mode(bits) => mode(*bits),
            Protection::Masked { mode, umask } => {
                let mode_umask = Some(ModeUmask { mode: *mode, umask: *umask });
                Attrs { mode_umask, ..Attrs::default() }
            }
            Protection::Nothing => Attrs::default(),
            Protection::List(list) => Attrs { acl: Some(acl(list)), ..Attrs::default() },
            Protection::Both(bits, list) => Attrs { acl: Some(acl(list)), ..mode(*bits) },
        }
    }

    /// Whether it is kept.
    pub fn verdict(&self, is_directory: bool) -> Verdict {
        let (Protection::List(list) | Protection::Both(_, list)) = self else {
            return Verdict::Allowed;
        };
        are_taken(list, is_directory, false)
    }

    /// The mode that was asked for, which changes a list that is inherited, and the umask.
    fn mode(&self) -> Option<(u32, u32)> {
        match *self {
            Protection::Mode(mode) => Some((mode, 0)),
            Protection::Masked { mode, umask } => Some((mode, umask)),
            _ => None,
        }
    }
}

fn acl(list: &[Entry]) -> Acl {
    Acl(list.iter().map(Entry::to_ace).collect())
}

/// What is refused is refused, and changes nothing.
fn are_taken(list: &[Entry], is_directory: bool, dacl: bool) -> Verdict {
    let fits = lists::fits(&kept(list, is_directory));
    Verdict::of(fits && list.iter().all(|e| e.is_taken(is_directory, dacl)))
}

/// As it is told.
fn kept(list: &[Entry], is_directory: bool) -> Vec<Entry> {
    list.iter().filter_map(|e| e.kept(is_directory)).collect()
}

impl Run {
    pub fn file_mode(&mut self) -> u32 {
        FILE_MODES[self.random.index(FILE_MODES.len())]
    }

    fn directory_mode(&mut self) -> u32 {
        DIRECTORY_MODES[self.random.index(DIRECTORY_MODES.len())]
    }

    fn bits(&mut self, is_directory: bool) -> u32 {
        if is_directory { self.directory_mode() } else { self.file_mode() }
    }

    /// What something new is made with.
    pub fn protection(&mut self, is_directory: bool) -> Protection {
        let bits = self.bits(is_directory);
        match self.random.index(12) {
            0..=6 => Protection::Mode(bits),
            7 | 8 => Protection::Masked { mode: bits, umask: [0, 0o022, 0o077][bits as usize % 3] },
            9 => Protection::Nothing,
            10 => Protection::List(self.random_list(is_directory)),
            _ => Protection::Both(bits, self.random_list(is_directory)),
        }
    }

    fn random_list(&mut self, is_directory: bool) -> Vec<Entry> {
        let len = match self.random.index(16) {
            0 => 0,
            1 => MANY + self.random.index(MANY),
            2 | 3 => {
                let bits = self.bits(is_directory) & 0o777;
                return lists::of_bits(bits, is_directory);
            }
            _ => 1 + self.random.index(6),
        };
        let mut list: Vec<_> = (0..len).map(|_| self.random_entry(is_directory)).collect();
        // So that something is allowed.
        if self.one_in(3) {
            let mask = self.random_mask() | ace_mask::READ_DATA | ace_mask::EXECUTE;
            let flags = if is_directory { self.random_flags() } else { 0 };
            list.push(Entry { flags, ..Entry::of(true, Whom::Everyone, mask) });
        }
        list
    }

    fn random_entry(&mut self, is_directory: bool) -> Entry {
        let allows = !self.one_in(3);
        let whom = match self.random.index(9) {
            0 => Whom::Owner,
            1 | 2 => Whom::Group,
            3 => Whom::Everyone,
            4..=6 => Whom::User(UIDS[self.random.index(UIDS.len())]),
            _ => Whom::Members(GIDS[self.random.index(GIDS.len())]),
        };
        // Every bit there is, and what is refused, now and then.
        let wild = self.one_in(40);
        let mask = match wild {
            true => self.random.draw() as u32 & ace_mask::ALL,
            false => self.random_mask(),
        };
        let flags = match is_directory && self.one_in(2) || wild && self.one_in(4) {
            true => self.random_flags(),
            false => 0,
        };
        let flags = flags | if self.one_in(100) { ace_flag::INHERITED } else { 0 };
        // It is of no meaning with these (§6.2.1.4.1).
        let special = !matches!(whom, Whom::User(_) | Whom::Members(_)) && self.one_in(20);
        let flags = flags | if special { ace_flag::IDENTIFIER_GROUP } else { 0 };
        Entry { flags, ..Entry::of(allows, whom, mask) }
    }

    fn random_mask(&mut self) -> u32 {
        (0..=self.random.index(3)).fold(0, |mask, _| mask | MASKS[self.random.index(MASKS.len())])
    }

    fn random_flags(&mut self) -> u32 {
        const PASSES: [u32; 3] = [
            ace_flag::FILE_INHERIT | ace_flag::DIRECTORY_INHERIT,
            ace_flag::FILE_INHERIT,
            ace_flag::DIRECTORY_INHERIT,
        ];
        let passes = if self.one_in(10) { 0 } else { PASSES[self.random.index(3)] };
        let stops = if self.one_in(4) { ace_flag::NO_PROPAGATE } else { 0 };
        passes | stops | if self.one_in(3) { ace_flag::INHERIT_ONLY } else { 0 }
    }

    /// SETATTR of the mode; now and then twice.
    pub async fn set_some_mode(&mut self, a: Actor, id: NodeId) -> Result<(), Fault> {
        let bits = self.bits(self.world.nodes[id].is_directory());
        // As with lists.
        let a = if self.world.nodes[id].list.is_none() || self.one_in(3) { a } else { AUDITOR };
        self.set_mode(a, id, bits).await?;
        match self.world.nodes[id].is_rewritten && self.one_in(2) {
            true => self.set_mode(AUDITOR, id, bits).await,
            false => Ok(()),
        }
    }

    /// A list of about as many entries as there may be, and a mode that parts it, for a moment: all
    /// that looks at it is slow.
    async fn near_the_limit(&mut self, id: NodeId) -> Result<(), Fault> {
        let is_directory = self.world.nodes[id].is_directory();
        let len = lists::MOST - NEAR + self.random.index(2 * NEAR);
        // Those that hold and are inherited count twice, and those for classes at most as six.
        let twice = if is_directory { self.random.index(len / 2) } else { 0 };
        let classes = self.random.index(2 * NEAR);
        let entry = |at: usize| match at {
            _ if at < classes => Entry::of(true, Whom::Everyone, ace_mask::READ_DATA),
            _ if at < classes + twice / 2 => Entry {
                flags: ace_flag::FILE_INHERIT,
                ..Entry::of(true, Whom::User(at as u32), ace_mask::READ_DATA)
            },
            _ => Entry::of(true, Whom::Members(at as u32), ace_mask::EXECUTE),
        };
        let list = (0..len - twice / 2).map(entry).collect();
        self.set_list(AUDITOR, id, list, None).await?;
        let bits = self.bits(is_directory);
        self.set_mode(AUDITOR, id, bits).await?;
        self.set_list(AUDITOR, id, lists::of_bits(bits, is_directory), None).await
    }

    /// SETATTR of the list.
    pub async fn set_some_list(&mut self, a: Actor, id: NodeId) -> Result<(), Fault> {
        if self.one_in(60) {
            return self.near_the_limit(id).await;
        }
        let list = self.random_list(self.world.nodes[id].is_directory());
        let bits = self.world.nodes[id].mode;
        let mode = if self.one_in(8) { Some(bits ^ 0o006) } else { None };
        self.set_list(a, id, list, mode).await
    }

    pub async fn set_mode(&mut self, a: Actor, id: NodeId, bits: u32) -> Result<(), Fault> {
        let (before, who) = (self.world.nodes[id].clone(), self.who(a));
        let verdict = self.gate_to_change(a).and(before.protects(&who, bits));
        let ops = [self.put(id), setattr(Stateid::ANONYMOUS, mode(bits))];
        let what = format!("SETATTR {id} {bits:o}");
        if !self.protect(a, &what, (id, verdict), &ops).await? {
            return Ok(());
        }
        self.world.chmod(id, bits, &who);
        if before.list.is_some() {
            let same = before.is_rewritten && before.mode & 0o777 == bits & 0o777;
            match same {
                true => self.compare_list(id).await?,
                false => self.adopt_list(id, bits >> 3).await?,
            }
        }
        self.held.changed(id, &before, &self.world.nodes[id]);
        Ok(())
    }

    /// SETATTR of `acl` or `dacl`, with or without a mode, which the list overrules (§6.4.1.3).
    async fn set_list(
        &mut self,
        a: Actor,
        id: NodeId,
        list: Vec<Entry>,
        mode: Option<u32>,
    ) -> Result<(), Fault> {
        let (before, who, dacl) = (self.world.nodes[id].clone(), self.who(a), self.one_in(4));
        let fits = are_taken(&list, before.is_directory(), dacl);
        let high = mode.unwrap_or(before.mode) & !0o777;
        let taken = kept(&list, before.is_directory());
        let bits = high | lists::mode_of(&taken);
        let verdict = self.gate_to_change(a).and(before.protects(&who, bits)).and(fits);
        let attrs = match dacl {
            true => {
                let dacl = Some(Acl41 { flag: 0, aces: acl(&list) });
                Attrs { dacl, mode, ..Attrs::default() }
            }
            false => Attrs { acl: Some(acl(&list)), mode, ..Attrs::default() },
        };
        let ops = [self.put(id), setattr(Stateid::ANONYMOUS, attrs)];
        let what = format!("SETATTR {id} mode {mode:?} list {list:?}, dacl {dacl}");
        if !self.protect(a, &what, (id, verdict), &ops).await? {
            return Ok(());
        }
        self.figures.lists += 1;
        self.world.chmod(id, bits, &who);
        let node = &mut self.world.nodes[id];
        (node.list, node.is_rewritten) = (Some(taken), false);
        self.compare_list(id).await?;
        self.held.changed(id, &before, &self.world.nodes[id]);
        Ok(())
    }

    /// Whether mode or list were changed. They are before handles have ended, for which the answer
    /// may be put off: who takes the right to change them from himself is refused when he asks
    /// again.
    async fn protect(
        &mut self,
        a: Actor,
        what: &str,
        (id, verdict): (NodeId, Verdict),
        ops: &[OpArgs],
    ) -> Result<bool, Fault> {
        let reply = self.ask(a, ops).await?;
        let too_long = reply.as_ref().is_some_and(|r| r.status() == NfsStat::NOSPC);
        if too_long && verdict == Verdict::Allowed {
            return fault(format!("{what}: it is not too long"));
        }
        let node = &self.world.nodes[id];
        let again = self.put_off && !node.is_owner(&self.who(a)) && verdict == Verdict::Allowed;
        let before = (node.mode, node.list.as_ref().map(|list| acl(list).0));
        let verdict = if again { Verdict::Either } else { verdict };
        if self.judge(a, what, verdict, reply.as_ref())? {
            return Ok(true);
        }
        if !again {
            return Ok(false);
        }
        let (mode, list) = self.told(id).await?;
        Ok((mode, Some(list)) != before)
    }

    /// Something new with a name, and what it is protected by: its own list, else what its
    /// directory hands on, with the mode that was asked for; else that, and then the umask counts.
    pub async fn made(
        &mut self,
        a: Actor,
        (dir, name): (NodeId, &str),
        body: Body,
        with: &Protection,
        handle: weft_nfs::FileHandle,
    ) -> Result<NodeId, Fault> {
        let (is_link, who) = (matches!(body, Body::Link(_)), self.who(a));
        let is_directory = matches!(body, Body::Directory(_));
        let of_dir = self.world.nodes[dir].list.as_ref().filter(|_| !is_link);
        let inherited = of_dir.and_then(|list| lists::inherited(list, is_directory));
        let own = match with {
            Protection::List(list) => Some((0, list)),
            Protection::Both(mode, list) => Some((mode & !0o777, list)),
            _ => None,
        };
        let own = own.map(|(high, list)| (high, kept(list, is_directory)));
        let is_own = own.is_some();
        let (mode, list) = match (own, with.mode(), inherited) {
            (Some((high, list)), ..) => (high | lists::mode_of(&list), Some(list)),
            (None, Some((mode, umask)), Some(list)) => {
                (lists::limited(&list, mode, umask), Some(list))
            }
            (None, Some((mode, umask)), None) => (mode & !umask, None),
            (None, None, Some(list)) => (lists::mode_of(&list), Some(list)),
            (None, None, None) => (0, None),
        };
        let has_list = list.is_some();
        self.figures.lists += usize::from(has_list);
        let id = self.world.make((dir, name), body, (mode, list), &who, handle);
        let asked = with.mode().filter(|_| has_list && !is_own);
        if !has_list && matches!(with, Protection::Nothing) {
            // The server chooses.
            let (mode, _) = self.told(id).await?;
            self.world.nodes[id].mode = mode;
        } else if let Some((asked, _)) = asked {
            self.adopt_list(id, asked >> 3).await?;
        } else if has_list {
            self.compare_list(id).await?;
        }
        Ok(id)
    }

    /// Mode and list as root is told them.
    async fn told(&mut self, id: NodeId) -> Result<(u32, Vec<Ace>), Fault> {
        let ops = [self.put(id), getattr(&[AttrNo::MODE, AttrNo::ACL])];
        let Some(reply) = self.ask(AUDITOR, &ops).await? else { return fault("nobody looks") };
        if reply.status() != NfsStat::OK {
            return fault(format!("root asks for the list of {id}: {:?}", reply.status()));
        }
        let attrs = reply.attrs();
        match (attrs.mode, attrs.acl) {
            (Some(mode), Some(Acl(list))) => Ok((mode, list)),
            _ => fault(format!("root is not told the list of {id}")),
        }
    }

    async fn compare_list(&mut self, id: NodeId) -> Result<(), Fault> {
        let (mode, list) = self.told(id).await?;
        self.is_list(id, mode, &list)
    }

    /// Mode and list are those that were set: entry for entry, or what the mode says.
    pub fn is_list(&self, id: NodeId, mode: u32, told: &[Ace]) -> Result<(), Fault> {
        let node = &self.world.nodes[id];
        let expected = node.mode;
        if mode != expected {
            let list = &node.list;
            return fault(format!("{id}: mode {mode:o}, not {expected:o}: {list:?}"));
        }
        match &node.list {
            Some(list) if acl(list).0 == told => Ok(()),
            Some(list) => fault(format!("{id}: list {told:?}, not {list:?}")),
            None => {
                let told = parsed(id, told)?;
                let says = lists::says_mode(&told, node.owners(), mode);
                says.or_else(|why| fault(format!("{id}: {why}")))
            }
        }
    }

    /// The list that the mode that was set has made of the one of before is its list from here on,
    /// if it is one that may have become of it, with no more than `names` for whom it names.
    async fn adopt_list(&mut self, id: NodeId, names: u32) -> Result<(), Fault> {
        let (mode, told) = self.told(id).await?;
        let after = parsed(id, &told)?;
        let node = &mut self.world.nodes[id];
        if mode != node.mode {
            return fault(format!("{id}: mode {mode:o}, not {:o}", node.mode));
        }
        let before = node.list.take().unwrap_or_default();
        let (owners, is_directory) = (node.owners(), node.is_directory());
        let (before, after_it) = (&before, &after);
        let rewritten = Rewritten { owners, is_directory, before, after: after_it, mode, names };
        if let Err(why) = rewritten.check() {
            return fault(format!("{id} of {:?}: {why}", node.owners()));
        }
        self.figures.lists += 1;
        (node.list, node.is_rewritten) = (Some(after), (names ^ mode >> 3) & 7 == 0);
        Ok(())
    }
}

fn parsed(id: NodeId, told: &[Ace]) -> Result<Vec<Entry>, Fault> {
    let list: Option<Vec<_>> = told.iter().map(Entry::of_ace).collect();
    list.map_or_else(|| fault(format!("{id}: it names nobody: {told:?}")), Ok)
}
