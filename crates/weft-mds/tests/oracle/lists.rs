//! What access control lists say: from the words of RFC 8881 §6 and docs/semantics.md, right by
//! right, with nothing of the server's own evaluator.

use bytes::Bytes;
use weft_nfs::{
    Ace, AceType, Opaque,
    ace_flag::{
        DIRECTORY_INHERIT, FILE_INHERIT, IDENTIFIER_GROUP, INHERIT_ONLY, INHERITED, NO_PROPAGATE,
    },
    ace_mask::{
        APPEND_DATA, DELETE, DELETE_CHILD, EXECUTE, READ_ACL, READ_ATTRIBUTES, READ_DATA,
        READ_NAMED_ATTRS, SYNCHRONIZE, WRITE_ACL, WRITE_ATTRIBUTES, WRITE_DATA, WRITE_NAMED_ATTRS,
        WRITE_OWNER, WRITE_RETENTION, WRITE_RETENTION_HOLD,
    },
    attr::numeric_owner,
};

use super::world::{READ, SEARCH, WRITE, Who};

/// Everything about inheritance.
const INHERITANCE: u32 = FILE_INHERIT | DIRECTORY_INHERIT | NO_PROPAGATE | INHERIT_ONLY;
/// What nobody can be denied.
const ALWAYS: u32 = READ_ATTRIBUTES | READ_ACL | SYNCHRONIZE;
/// To write is both.
const BOTH: u32 = WRITE_DATA | APPEND_DATA;
/// What goes with the right to write when a mode takes that: one could let oneself in again by it.
const CHANGES: u32 =
    DELETE | DELETE_CHILD | WRITE_ATTRIBUTES | WRITE_NAMED_ATTRS | WRITE_ACL | WRITE_OWNER;
/// Most entries of a list.
pub const MOST: usize = 1006;
/// Entries for owner, group and everybody that a mode may add.
const CLASSES: usize = 6;
/// Every right that somebody asks for.
const RIGHTS: [u32; 11] = [
    READ_DATA,
    WRITE_DATA,
    APPEND_DATA,
    EXECUTE,
    DELETE_CHILD,
    READ_NAMED_ATTRS,
    WRITE_NAMED_ATTRS,
    WRITE_ATTRIBUTES,
    DELETE,
    WRITE_ACL,
    WRITE_OWNER,
];

/// Whom an entry is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Whom {
    Owner,
    Group,
    Everyone,
    User(u32),
    Members(u32),
}

#[derive(Clone, PartialEq, Eq)]
pub struct Entry {
    pub allows: bool,
    pub whom: Whom,
    /// As on the wire.
    pub flags: u32,
    /// As on the wire.
    pub mask: u32,
}

impl std::fmt::Debug for Entry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let kind = if self.allows { 'A' } else { 'D' };
        write!(f, "{kind}:{:#x}:{:?}:{:#x}", self.flags, self.whom, self.mask)
    }
}

/// Owner and group of what has the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Owners {
    pub uid: u32,
    pub gid: u32,
}

/// What a list says about a right.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Word {
    Allowed,
    Denied,
    Unsaid,
}

impl Entry {
    pub fn of(allows: bool, whom: Whom, mask: u32) -> Entry {
        Entry { allows, whom, flags: 0, mask }
    }

    pub fn to_ace(&self) -> Ace {
        let text = |who: &'static str| Opaque(Bytes::from_static(who.as_bytes()));
        let group = if matches!(self.whom, Whom::Members(_)) { IDENTIFIER_GROUP } else { 0 };
        Ace {
            acetype: if self.allows { AceType::ALLOW } else { AceType::DENY },
            flag: self.flags | group,
            access_mask: self.mask,
            who: match self.whom {
                Whom::Owner => text("OWNER@"),
                Whom::Group => text("GROUP@"),
                Whom::Everyone => text("EVERYONE@"),
                Whom::User(id) | Whom::Members(id) => numeric_owner(id),
            },
        }
    }

    /// As it was told; nothing if it names nobody, or has not the flag of groups as it should.
    pub fn of_ace(ace: &Ace) -> Option<Entry> {
        let id = || std::str::from_utf8(&ace.who.0).ok()?.parse().ok();
        let is_group = ace.flag & IDENTIFIER_GROUP != 0;
        let whom = match &ace.who.0[..] {
            b"OWNER@" if !is_group => Whom::Owner,
            b"GROUP@" if is_group => Whom::Group,
            b"EVERYONE@" if !is_group => Whom::Everyone,
            b"OWNER@" | b"GROUP@" | b"EVERYONE@" => return None,
            _ if is_group => Whom::Members(id()?),
            _ => Whom::User(id()?),
        };
        let flags = match whom {
            Whom::Members(_) => ace.flag & !IDENTIFIER_GROUP,
            _ => ace.flag,
        };
        let allows = ace.acetype == AceType::ALLOW;
        Some(Entry { allows, whom, flags, mask: ace.access_mask })
    }

    /// Whether it is taken, in `acl` or else `dacl`: what would not be kept to is refused, and so
    /// is inheritance where nothing is made.
    pub fn is_taken(&self, is_directory: bool, dacl: bool) -> bool {
        self.mask & (WRITE_RETENTION | WRITE_RETENTION_HOLD) == 0
            && (is_directory || self.flags & INHERITANCE == 0)
            && (!dacl || self.flags & INHERITED == 0)
    }

    /// As it is told, if anything is left of it. §6.2.1.4.1: there is no automatic inheritance, and
    /// of those without a name only the group is one.
    pub fn kept(&self, is_directory: bool) -> Option<Entry> {
        let flags = match self.whom {
            Whom::Group => self.flags | IDENTIFIER_GROUP,
            _ => self.flags & !IDENTIFIER_GROUP,
        };
        let undeniable = match (self.allows, self.whom) {
            (true, _) => 0,
            (false, Whom::Owner) => ALWAYS | WRITE_ACL,
            (false, _) => ALWAYS,
        };
        let mask = self.mask & !undeniable;
        let kept = Entry { flags: flags & !INHERITED, mask, ..self.clone() };
        let kept = if is_directory { kept } else { kept.of_file() };
        (kept.allows || kept.mask != 0).then_some(kept)
    }

    /// §6.2.1.3.1: nobody is told that he may do one half of writing, where there is no such thing.
    fn of_file(self) -> Entry {
        let half = self.allows && self.mask & BOTH != BOTH;
        Entry { mask: if half { self.mask & !BOTH } else { self.mask }, ..self }
    }

    fn is_effective(&self) -> bool {
        self.flags & INHERIT_ONLY == 0
    }

    fn is_inheritable(&self) -> bool {
        self.flags & (FILE_INHERIT | DIRECTORY_INHERIT) != 0
    }

    fn is_named(&self) -> bool {
        matches!(self.whom, Whom::User(_) | Whom::Members(_))
    }

    fn is_about(&self, owners: Owners, who: &Who) -> bool {
        match self.whom {
            Whom::Owner => who.uid == owners.uid,
            Whom::Group => who.is_in(owners.gid),
            Whom::Everyone => true,
            Whom::User(uid) => who.uid == uid,
            Whom::Members(gid) => who.is_in(gid),
        }
    }
}

/// §6.2.1: the first entry that is about him and has the right in its mask says it.
fn first(list: &[Entry], right: u32, fits: impl Fn(&Entry) -> bool) -> Word {
    let mut entries = list.iter().filter(|e| e.is_effective() && e.mask & right != 0);
    match entries.find(|e| fits(e)) {
        Some(entry) if entry.allows => Word::Allowed,
        Some(_) => Word::Denied,
        None => Word::Unsaid,
    }
}

/// What the list says to somebody of one right.
pub fn word(list: &[Entry], owners: Owners, who: &Who, right: u32) -> Word {
    first(list, right, |e| e.is_about(owners, who))
}

/// Whether it has no more entries than it may: now, after a mode was set, and in a directory that
/// is made in one that has it.
pub fn fits(list: &[Entry]) -> bool {
    let below = inherited(list, true).unwrap_or_default();
    list.len() <= MOST && most_after(list) <= MOST && most_after(&below) <= MOST
}

/// Most entries that a mode makes of it.
fn most_after(list: &[Entry]) -> usize {
    let named = list.iter().filter(|e| e.is_named() && e.is_effective()).count();
    CLASSES + named + list.iter().filter(|e| e.is_inheritable()).count()
}

/// Whether it speaks of nothing but what modes speak of, and so may be no list.
pub fn is_a_mode(list: &[Entry]) -> bool {
    list.iter().all(|e| !e.is_named() && e.flags & INHERITANCE == 0)
}

/// Whether an entry allows somebody to execute.
pub fn is_executable(list: &[Entry]) -> bool {
    list.iter().any(|e| e.allows && e.is_effective() && e.mask & EXECUTE != 0)
}

/// The nine bits: §6.3.2.
pub fn mode_of(list: &[Entry]) -> u32 {
    by_class(|class, right| {
        let has = |half| class_word(list, class, half) == Word::Allowed;
        if right == BOTH { has(WRITE_DATA) && has(APPEND_DATA) } else { has(right) }
    })
}

/// The bits that it denies; one half of writing is enough.
fn denied_of(list: &[Entry]) -> u32 {
    by_class(|class, right| {
        let denied = |half| class_word(list, class, half) == Word::Denied;
        if right == BOTH { denied(WRITE_DATA) || denied(APPEND_DATA) } else { denied(right) }
    })
}

/// The nine bits of which this holds.
fn by_class(has: impl Fn(Whom, u32) -> bool) -> u32 {
    let classes = [(Whom::Owner, 6), (Whom::Group, 3), (Whom::Everyone, 0)];
    let rights = [(READ, READ_DATA), (WRITE, BOTH), (SEARCH, EXECUTE)];
    let all = classes.into_iter().flat_map(|(class, shift)| {
        rights.into_iter().map(move |(bit, right)| (class, right, bit << shift))
    });
    all.filter(|(class, right, _)| has(*class, *right)).fold(0, |mode, (_, _, bit)| mode | bit)
}

/// The mode of what is made with this one and inherits the list: the umask takes from a class
/// nothing that it inherits, and what it is denied it does not get.
pub fn limited(list: &[Entry], asked: u32, umask: u32) -> u32 {
    asked & !0o777 | asked & (mode_of(list) | !umask) & !denied_of(list) & 0o777
}

/// What it says to a class of which nothing else is known.
fn class_word(list: &[Entry], class: Whom, right: u32) -> Word {
    first(list, right, |e| e.whom == class || e.whom == Whom::Everyone)
}

/// What something new gets of its directory's list, if anything: §6.2.1.4.1, §6.4.3.
pub fn inherited(list: &[Entry], is_directory: bool) -> Option<Vec<Entry>> {
    let mut out = Vec::new();
    for e in list {
        let has = |flag| e.flags & flag != 0;
        let plain = e.flags & !INHERITANCE;
        let passed = plain | e.flags & (FILE_INHERIT | DIRECTORY_INHERIT);
        let flags = if !is_directory {
            has(FILE_INHERIT).then_some(plain)
        } else if has(NO_PROPAGATE) {
            has(DIRECTORY_INHERIT).then_some(plain)
        } else if has(DIRECTORY_INHERIT) {
            Some(passed)
        } else {
            has(FILE_INHERIT).then_some(passed | INHERIT_ONLY)
        };
        let whole = if is_directory { e.clone() } else { e.clone().of_file() };
        out.extend(flags.map(|flags| Entry { flags, ..whole }));
    }
    if out.is_empty() { None } else { Some(out) }
}

/// The list that says what these nine bits say.
pub fn of_bits(bits: u32, is_directory: bool) -> Vec<Entry> {
    let write = BOTH | if is_directory { DELETE_CHILD } else { 0 };
    let rights = [(READ, READ_DATA), (WRITE, write), (SEARCH, EXECUTE)];
    let mask = |class: u32| {
        rights.iter().filter(|(bit, _)| class & bit != 0).fold(0, |mask, (_, right)| mask | right)
    };
    let classes = [(Whom::Owner, 6), (Whom::Group, 3), (Whom::Everyone, 0)];
    let both = |(whom, shift): (Whom, u32)| {
        let class = bits >> shift & 7;
        [Entry::of(true, whom, mask(class)), Entry::of(false, whom, mask(!class & 7))]
    };
    classes.into_iter().flat_map(both).collect()
}

/// Users and groups of every kind that lists tell apart.
fn subjects(owners: Owners) -> Vec<Who> {
    const OTHER: u32 = 4242;
    let groups = [100, 101, 102, owners.gid];
    let sets = || {
        (0..1usize << groups.len()).map(move |set| {
            let of_set = groups.iter().enumerate().filter(|(at, _)| set >> at & 1 != 0);
            of_set.map(|(_, gid)| *gid).collect::<Vec<_>>()
        })
    };
    let uids = [owners.uid, 1000, 1001, 1002, 65_534, OTHER];
    let with = |uid| sets().map(move |gids| Who { uid, gid: OTHER, gids });
    uids.into_iter().flat_map(with).collect()
}

fn class_of(owners: Owners, who: &Who, bits: u32) -> u32 {
    match () {
        () if who.uid == owners.uid => bits >> 6,
        () if who.is_in(owners.gid) => bits >> 3,
        () => bits,
    }
}

/// The bit of a mode that speaks about a right.
fn bit_of(right: u32) -> Option<u32> {
    match right {
        READ_DATA => Some(READ),
        WRITE_DATA | APPEND_DATA => Some(WRITE),
        EXECUTE => Some(SEARCH),
        _ => None,
    }
}

/// Whether the list that is told of something that has none says what its mode says.
pub fn says_mode(list: &[Entry], owners: Owners, mode: u32) -> Result<(), String> {
    for who in subjects(owners) {
        for (right, bit) in RIGHTS.into_iter().filter_map(|r| Some((r, bit_of(r)?))) {
            let given = class_of(owners, &who, mode) & bit != 0;
            if given != (word(list, owners, &who, right) == Word::Allowed) {
                return Err(format!("{list:?} does not say {mode:o} to {who:?}"));
            }
        }
    }
    Ok(())
}

/// What a mode that was set made of a list: §6.4.1.1, docs/semantics.md.
pub struct Rewritten<'a> {
    pub owners: Owners,
    pub is_directory: bool,
    pub before: &'a [Entry],
    pub after: &'a [Entry],
    /// The mode that was set.
    pub mode: u32,
    /// What names may be given at most, as bits of a class.
    pub names: u32,
}

impl Rewritten<'_> {
    pub fn check(&self) -> Result<(), String> {
        let why = |why: String| {
            Err(format!("{:?} became by {:o} {:?}: {why}", self.before, self.mode, self.after))
        };
        if mode_of(self.after) != self.mode & 0o777 {
            return why(format!("it says {:o}", mode_of(self.after)));
        }
        // What is inherited stays, and does nothing else.
        let handed_on = self.before.iter().filter(|e| e.is_inheritable());
        let handed_on = handed_on.map(|e| Entry { flags: e.flags | INHERIT_ONLY, ..e.clone() });
        let inherits = self.after.iter().filter(|e| e.flags & INHERITANCE != 0).cloned();
        if !handed_on.eq(inherits) {
            return why("what is inherited is not the same".to_owned());
        }
        if self.after.iter().any(|e| e.kept(self.is_directory).as_ref() != Some(e)) {
            return why("it would not be told as it is if it was set".to_owned());
        }
        if self.after.len() > most_after(self.before) || !fits(self.after) {
            return why("it is longer than it may be".to_owned());
        }
        for who in subjects(self.owners) {
            for right in RIGHTS {
                if let Err(rule) = self.check_word(&who, right) {
                    return why(format!("{rule}: {right:#x} of {who:?}"));
                }
            }
        }
        Ok(())
    }

    fn check_word(&self, who: &Who, right: u32) -> Result<(), &'static str> {
        let says = |list| word(list, self.owners, who, right);
        let (had, has) = (says(self.before), says(self.after));
        let is_about = |e: &Entry| e.is_effective() && e.is_about(self.owners, who);
        let is_named = self.before.iter().any(|e| e.is_named() && is_about(e));
        let class = class_of(self.owners, who, self.mode);
        if let Some(bit) = bit_of(right)
            && (who.uid == self.owners.uid || !is_named)
        {
            let holds = (class & bit != 0) == (has == Word::Allowed);
            return if holds { Ok(()) } else { Err("his class has what the mode says") };
        }
        match () {
            () if who.uid == self.owners.uid => self.check_owner(had, has, right, who),
            () if is_named => self.check_named(who, right),
            () => self.check_class(had, has, right, who),
        }
    }

    /// Whether who may write by a mode may remove names from it, too.
    fn removes(&self, right: u32) -> bool {
        self.is_directory && right == DELETE_CHILD
    }

    /// Whether his class loses the right with that to write.
    fn goes(&self, right: u32, who: &Who) -> bool {
        right & CHANGES != 0 && class_of(self.owners, who, self.mode) & WRITE == 0
    }

    /// What a mode does not speak of, said to who is neither the owner nor named.
    fn check_class(&self, had: Word, has: Word, right: u32, who: &Who) -> Result<(), &'static str> {
        let allowed = has == Word::Allowed;
        let writes = class_of(self.owners, who, self.mode) & WRITE != 0;
        match () {
            () if self.goes(right, who) && allowed => Err("it goes with writing"),
            () if self.removes(right) && writes && !allowed => Err("who writes removes"),
            () if self.removes(right) || had == has => Ok(()),
            () if right & CHANGES != 0 && !writes && had == Word::Allowed => Ok(()),
            () => Err("a mode does not speak of it"),
        }
    }

    /// The same, said to the owner.
    fn check_owner(&self, had: Word, has: Word, right: u32, who: &Who) -> Result<(), &'static str> {
        let class = class_word(self.before, Whom::Owner, right);
        let writes = self.mode >> 6 & WRITE != 0;
        let keeps = match right {
            WRITE_ACL => true,
            WRITE_ATTRIBUTES => class != Word::Denied,
            _ if right & CHANGES != 0 && !writes => false,
            _ => class == Word::Allowed || self.removes(right),
        };
        // What names keep, the owner has by his.
        let by_name = self.names & WRITE != 0
            && first(self.after, right, |e| e.is_named() && e.is_about(self.owners, who))
                == Word::Allowed;
        let goes = self.goes(right, who) && !keeps && !by_name;
        let allowed = has == Word::Allowed;
        let had = had == Word::Allowed || class == Word::Allowed;
        match () {
            () if keeps && !allowed => Err("the owner keeps it"),
            () if goes && allowed => Err("it goes with writing from the owner"),
            () if allowed && !had && !keeps => Err("the owner had it not"),
            () => Ok(()),
        }
    }

    /// What is said to whom the list names.
    fn check_named(&self, who: &Who, right: u32) -> Result<(), &'static str> {
        let had = word(self.before, self.owners, who, right);
        let allowed = word(self.after, self.owners, who, right) == Word::Allowed;
        let needs = bit_of(right).or((right & CHANGES != 0).then_some(WRITE));
        let given = |class: u32| needs.is_none_or(|bit| class & bit != 0);
        // What his class is given by the mode, he may be given; and else no more than he had.
        let by_class = given(class_of(self.owners, who, self.mode));
        let speaks = bit_of(right).is_some() || self.removes(right);
        if allowed && had != Word::Allowed && !(by_class && speaks) {
            return Err("he had it not");
        }
        if allowed && !by_class && !given(self.names) {
            return Err("names do not have it");
        }
        let by_name = |e: &Entry| e.is_named() && e.is_about(self.owners, who);
        if allowed && first(self.before, right, by_name) == Word::Denied {
            return Err("it was denied him by name");
        }
        match self.given_by_name(who, right) && given(self.names) && !allowed {
            true => Err("he was given it by name, and names have it"),
            false => Ok(()),
        }
    }

    /// Whether an entry that names him allowed it, and nothing that withholds came before. Of
    /// something that has no entries, half of the right to write is none.
    fn given_by_name(&self, who: &Who, right: u32) -> bool {
        let halves = match right & BOTH != 0 && !self.is_directory {
            true => [WRITE_DATA, APPEND_DATA],
            false => [right, right],
        };
        halves.into_iter().all(|right| {
            let mut speaks = self.before.iter().filter(|e| e.is_effective() && e.mask & right != 0);
            let decides = speaks.find(|e| {
                let withholds = !e.allows && matches!(e.whom, Whom::Group | Whom::Everyone);
                withholds || e.is_about(self.owners, who)
            });
            decides.is_some_and(|e| e.allows && e.is_named())
        })
    }
}
