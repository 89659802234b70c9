//! Acts on names and attributes.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use weft_nfs::{
    AttrNo, Attrs, NfsStat, NfsTime, OpArgs, OpOk, Stateid, access as bit,
    attr::{SetTime, numeric_owner},
    ops::*,
};

use super::{
    protect::Protection,
    run::{AUDITOR, Actor, Fault, Policy, Run, fault},
    world::{Body, NodeId, PIECE, PIECES, READ, SEARCH, Verdict, WRITE},
};
use crate::support::*;

impl Run {
    pub fn handle(&self, id: NodeId) -> weft_nfs::FileHandle {
        self.world.nodes[id].handle.clone()
    }

    pub fn put(&self, id: NodeId) -> OpArgs {
        putfh(&self.world.nodes[id].handle)
    }

    pub fn gives(&self, a: Actor, id: NodeId, bit: u32) -> Verdict {
        Verdict::of(self.world.nodes[id].gives(&self.who(a), bit))
    }

    /// LOOKUP. Who may not search is not told whether the name is there either.
    pub async fn look(&mut self, a: Actor) -> Result<(), Fault> {
        let dir = self.any_directory();
        let other = self.any_entry().map(|(_, name, _)| name);
        let own = self.entry_of(dir).map(|(name, _)| name);
        let wanted = if self.one_in(5) { other } else { own.or(other) };
        let Some(wanted) = wanted else { return Ok(()) };
        let verdict = self.gate(a).and(self.gives(a, dir, SEARCH));
        let what = format!("LOOKUP {dir} {wanted}");
        let ops = [self.put(dir), lookup(&wanted), OpArgs::Getfh];
        let reply = self.ask(a, &ops).await?;
        let done = self.judge(a, &what, verdict, reply.as_ref())?;
        let Some(reply) = reply else { return Ok(()) };
        let there = self.world.nodes[dir].entries().get(&wanted).copied();
        match (reply.status(), there) {
            (NfsStat::NOENT, _) if verdict == Verdict::Forbidden => {
                fault(format!("{what}: {a:?} is told that it is not there"))
            }
            (NfsStat::NOENT, Some(_)) => fault(format!("{what}: not found")),
            (_, Some(id)) if done && reply.fh() != self.handle(id) => {
                fault(format!("{what}: leads to something else"))
            }
            (_, None) if done => fault(format!("{what}: leads somewhere")),
            _ => Ok(()),
        }
    }

    /// SECINFO, which says as much of a name as LOOKUP does, whatever the flavor.
    pub async fn ask_security(&mut self, a: Actor) -> Result<(), Fault> {
        let dir = self.any_directory();
        let other = self.any_entry().map(|(_, name, _)| name);
        let own = self.entry_of(dir).map(|(name, _)| name);
        let Some(wanted) = own.or(other) else { return Ok(()) };
        let served = Verdict::of(self.hosts[a.host].policy != Policy::Nothing);
        let verdict = served.and(self.gives(a, dir, SEARCH));
        let what = format!("SECINFO {dir} {wanted}");
        let op = OpArgs::Secinfo(SecinfoArgs { name: wanted.as_str().into() });
        let reply = self.ask(a, &[self.put(dir), op]).await?;
        self.judge(a, &what, verdict, reply.as_ref())?;
        let status = reply.map(|r| r.status());
        if verdict == Verdict::Forbidden && status == Some(NfsStat::NOENT) {
            return fault(format!("{what}: {a:?} is told that it is not there"));
        }
        Ok(())
    }

    pub async fn list(&mut self, a: Actor) -> Result<(), Fault> {
        let dir = self.any_directory();
        let verdict = self.gate(a).and(self.gives(a, dir, READ));
        let ops = [self.put(dir), OpArgs::Readdir(readdir(0, 1 << 15, &[AttrNo::FILEID]))];
        let what = format!("READDIR {dir}");
        let Some(reply) = self.act(a, &what, verdict, &ops).await? else { return Ok(()) };
        let text = |entry: &DirEntry| String::from_utf8_lossy(&entry.name.0).into_owned();
        let names: BTreeSet<_> = reply.readdir().entries.iter().map(text).collect();
        let expected = self.world.nodes[dir].entries().keys().cloned().collect();
        if names != expected {
            fault(format!("{what}: {names:?}, not {expected:?}"))
        } else {
            Ok(())
        }
    }

    pub async fn make_directory(
        &mut self,
        a: Actor,
        dir: NodeId,
        with: Protection,
    ) -> Result<Option<NodeId>, Fault> {
        self.create(a, dir, Body::Directory(BTreeMap::new()), with).await
    }

    pub async fn make_something(&mut self, a: Actor) -> Result<(), Fault> {
        let dir = self.any_directory();
        if self.one_in(2) {
            let with = self.protection(true);
            self.make_directory(a, dir, with).await?;
        } else {
            let target = self.world.marker();
            self.create(a, dir, Body::Link(target), Protection::Mode(0o777)).await?;
        }
        Ok(())
    }

    async fn create(
        &mut self,
        a: Actor,
        dir: NodeId,
        body: Body,
        with: Protection,
    ) -> Result<Option<NodeId>, Fault> {
        let new = self.world.marker();
        let kind = match &body {
            Body::Link(target) => CreateType::Link(Bytes::from(target.clone())),
            _ => CreateType::Directory,
        };
        let is_directory = matches!(body, Body::Directory(_));
        let adds = self.world.nodes[dir].adds(&self.who(a), is_directory);
        let verdict = self.gate_to_change(a).and(adds).and(with.verdict(is_directory));
        let ops = [self.put(dir), create(kind, &new, with.attrs()), OpArgs::Getfh];
        let what = format!("CREATE {dir} {new} {body:?} {with:?}");
        let Some(reply) = self.act(a, &what, verdict, &ops).await? else { return Ok(None) };
        self.made(a, (dir, &new), body, &with, reply.fh()).await.map(Some)
    }

    pub async fn remove(&mut self, a: Actor) -> Result<(), Fault> {
        let Some((dir, victim, id)) = self.any_entry() else { return Ok(()) };
        let verdict = self.gate_to_change(a).and(self.world.removes(dir, id, &self.who(a)));
        let ops = [self.put(dir), remove(&victim)];
        let what = format!("REMOVE {dir} {victim}: {id}");
        if self.act(a, &what, verdict, &ops).await?.is_some() {
            if !self.world.nodes[id].entries().is_empty() {
                return fault(format!("{what}: it is not empty"));
            }
            self.world.unname(dir, &victim);
        }
        Ok(())
    }

    pub async fn move_name(&mut self, a: Actor) -> Result<(), Fault> {
        let Some((from, old, id)) = self.any_entry() else { return Ok(()) };
        let to = if self.one_in(2) { from } else { self.any_directory() };
        let new = match self.entry_of(to) {
            Some((name, _)) if self.one_in(3) => name,
            _ => self.world.marker(),
        };
        let who = self.who(a);
        let replaced = self.world.nodes[to].entries().get(&new).copied();
        let same = replaced == Some(id);
        let adds = self.world.nodes[to].adds(&who, self.world.nodes[id].is_directory());
        let into = match replaced {
            Some(victim) => self.world.removes(to, victim, &who).and(adds),
            None => adds,
        };
        // Servers differ on who may move a directory that he may not write to.
        let dots = from == to || !self.world.nodes[id].is_directory();
        let dots = dots || self.world.nodes[id].gives(&who, WRITE);
        let named = self.world.removes(from, id, &who).and(into).lenient_if(same);
        let named = if dots { named } else { named.and(Verdict::Either) };
        let verdict = self.gate_to_change(a).and(named);
        let ops = [self.put(from), OpArgs::Savefh, self.put(to), rename(&old, &new)];
        let what = format!("RENAME {from} {old} to {to} {new}: {id} onto {replaced:?}");
        if self.act(a, &what, verdict, &ops).await?.is_none() || same {
            return Ok(());
        }
        if self.world.nodes[id].is_directory() && self.world.is_below(to, id) {
            return fault(format!("{what}: into itself"));
        }
        self.world.unname(to, &new);
        self.world.unname(from, &old);
        self.world.name(to, &new, id);
        Ok(())
    }

    pub async fn link_name(&mut self, a: Actor) -> Result<(), Fault> {
        let Some(id) = self.any(|n| !n.is_directory() && n.links > 0) else { return Ok(()) };
        let (dir, new) = (self.any_directory(), self.world.marker());
        let verdict = self.gate_to_change(a).and(self.world.nodes[dir].adds(&self.who(a), false));
        let ops = [self.put(id), OpArgs::Savefh, self.put(dir), link(&new)];
        if self.act(a, &format!("LINK {id} as {dir} {new}"), verdict, &ops).await?.is_some() {
            self.world.name(dir, &new, id);
        }
        Ok(())
    }

    pub async fn read_link(&mut self, a: Actor) -> Result<(), Fault> {
        let Some(id) = self.any(|n| matches!(n.body, Body::Link(_))) else { return Ok(()) };
        let verdict = self.gate(a);
        let ops = [self.put(id), OpArgs::Readlink];
        let what = format!("READLINK {id}");
        let Some(reply) = self.act(a, &what, verdict, &ops).await? else { return Ok(()) };
        let Ok(OpOk::Readlink(r)) = &reply.last().result else { return fault(what) };
        match &self.world.nodes[id].body {
            Body::Link(target) if target.as_bytes() == &r.link[..] => Ok(()),
            other => fault(format!("{what}: {:?}, not {other:?}", r.link)),
        }
    }

    /// ACCESS: what is promised is what mode or list give.
    pub async fn ask_access(&mut self, a: Actor) -> Result<(), Fault> {
        let Some(id) = self.any(|_| true) else { return Ok(()) };
        let (verdict, changes) = (self.gate(a), self.gate_to_change(a) == Verdict::Allowed);
        let ops = [self.put(id), access(0x1ff)];
        let what = format!("ACCESS {id}");
        let Some(reply) = self.act(a, &what, verdict, &ops).await? else { return Ok(()) };
        let Ok(OpOk::Access(told)) = &reply.last().result else { return fault(what) };
        let (node, who) = (&self.world.nodes[id], self.who(a));
        let gives = |right| node.gives(&who, right);
        let removes = node.is_directory() && node.removes_some(&who);
        let expected = [
            (bit::READ, gives(READ)),
            // Entries of a directory are changed by who removes and adds them.
            (bit::MODIFY, changes && gives(WRITE) && (removes || !node.is_directory())),
            (bit::EXTEND, changes && gives(WRITE)),
            (bit::DELETE, changes && removes),
            (bit::LOOKUP, gives(SEARCH)),
            (bit::EXECUTE, gives(SEARCH)),
            (bit::XAREAD, node.reads_xattrs(&who)),
            (bit::XALIST, node.reads_xattrs(&who)),
            (bit::XAWRITE, changes && node.changes_xattrs(&who)),
        ];
        for (bit, has) in expected.into_iter().filter(|(b, _)| told.supported & b != 0) {
            if has != (told.access & bit != 0) {
                return fault(format!("{what}: {a:?} is told {:#x}, of {bit:#x}", told.access));
            }
        }
        Ok(())
    }

    /// SETATTR of mode, list, owner, group or a time.
    pub async fn set_attributes(&mut self, a: Actor) -> Result<(), Fault> {
        // Links have modes of their own that nobody looks at.
        let Some(id) = self.any(|n| !matches!(n.body, Body::Link(_))) else { return Ok(()) };
        match self.random.index(12) {
            0..=3 => self.set_some_mode(a, id).await,
            4..=7 => {
                // Else there would be few: most of those who act may not.
                let a = if self.one_in(3) { a } else { AUDITOR };
                self.set_some_list(a, id).await
            }
            8 => self.set_owner(a, id).await,
            9 | 10 => {
                let gid = [100, 101, 102][self.random.index(3)];
                self.set_ids(a, id, (None, Some(gid))).await
            }
            _ => self.set_time(a, id).await,
        }
    }

    async fn set_owner(&mut self, a: Actor, id: NodeId) -> Result<(), Fault> {
        let uid = [0, 1000, 1001, 1002][self.random.index(4)];
        self.set_ids(a, id, (Some(uid), None)).await
    }

    pub async fn set_ids(
        &mut self,
        a: Actor,
        id: NodeId,
        (uid, gid): (Option<u32>, Option<u32>),
    ) -> Result<(), Fault> {
        let (who, before) = (self.who(a), self.world.nodes[id].clone());
        let verdict = self.gate_to_change(a).and(before.gives_away(&who, uid, gid));
        let attrs = Attrs {
            owner: uid.map(numeric_owner),
            owner_group: gid.map(numeric_owner),
            ..Attrs::default()
        };
        let ops = [self.put(id), setattr(Stateid::ANONYMOUS, attrs)];
        let what = format!("SETATTR {id} owner {uid:?} group {gid:?}");
        if self.act(a, &what, verdict, &ops).await?.is_some() {
            let node = &mut self.world.nodes[id];
            (node.uid, node.gid) = (uid.unwrap_or(node.uid), gid.unwrap_or(node.gid));
            self.held.changed(id, &before, &self.world.nodes[id]);
        }
        Ok(())
    }

    async fn set_time(&mut self, a: Actor, id: NodeId) -> Result<(), Fault> {
        let to_now = self.one_in(2);
        let time = match to_now {
            true => SetTime::ToServer,
            false => SetTime::ToClient(NfsTime { seconds: 1_000_000, nseconds: 0 }),
        };
        let verdict = self.world.nodes[id].sets_times(&self.who(a), to_now);
        let verdict = self.gate_to_change(a).and(verdict);
        let ops = [self.put(id), setattr(Stateid::ANONYMOUS, mtime(time))];
        self.act(a, &format!("SETATTR {id} {time:?}"), verdict, &ops).await?;
        Ok(())
    }

    pub async fn extended(&mut self, a: Actor) -> Result<(), Fault> {
        let Some(id) = self.any(|n| !matches!(n.body, Body::Link(_))) else { return Ok(()) };
        let keys: Vec<_> = self.world.nodes[id].xattrs.keys().cloned().collect();
        let known = self.random.choose(&keys);
        match (self.random.index(4), known) {
            (0, Some(key)) => self.get_xattr(a, id, &key).await,
            (1, Some(key)) => self.change_xattr(a, id, &key, None).await,
            (2, _) => self.list_xattrs(a, id).await,
            (_, known) if keys.len() < 3 => {
                let (key, value) = (self.world.marker(), self.world.marker());
                let key = known.unwrap_or(key);
                self.change_xattr(a, id, &key, Some(value)).await
            }
            _ => Ok(()),
        }
    }

    fn reads_xattrs(&self, a: Actor, id: NodeId) -> Verdict {
        Verdict::of(self.world.nodes[id].reads_xattrs(&self.who(a)))
    }

    async fn get_xattr(&mut self, a: Actor, id: NodeId, key: &str) -> Result<(), Fault> {
        let verdict = self.gate(a).and(self.reads_xattrs(a, id));
        let what = format!("GETXATTR {id} {key}");
        let ops = [self.put(id), getxattr(key)];
        let Some(reply) = self.act(a, &what, verdict, &ops).await? else { return Ok(()) };
        let expected = self.world.nodes[id].xattrs.get(key).map(|v| v.clone().into_bytes());
        let told = reply.xattr().to_vec();
        if expected.as_ref() == Some(&told) { Ok(()) } else { fault(format!("{what}: {told:?}")) }
    }

    async fn list_xattrs(&mut self, a: Actor, id: NodeId) -> Result<(), Fault> {
        let verdict = self.gate(a).and(self.reads_xattrs(a, id));
        let ops = [self.put(id), listxattrs(0, 4096)];
        self.act(a, &format!("LISTXATTRS {id}"), verdict, &ops).await?;
        Ok(())
    }

    async fn change_xattr(
        &mut self,
        a: Actor,
        id: NodeId,
        key: &str,
        value: Option<String>,
    ) -> Result<(), Fault> {
        let verdict = Verdict::of(self.world.nodes[id].changes_xattrs(&self.who(a)));
        let verdict = self.gate_to_change(a).and(verdict);
        let op = match &value {
            Some(value) => setxattr(SetxattrOption::EITHER, key, value.as_bytes()),
            None => removexattr(key),
        };
        let what = format!("XATTR {id} {key} = {value:?}");
        if self.act(a, &what, verdict, &[self.put(id), op]).await?.is_some() {
            match value {
                Some(value) => self.world.set_xattr(id, key, &value),
                None => drop(self.world.nodes[id].xattrs.remove(key)),
            }
        }
        Ok(())
    }

    /// SETATTR of the size: without an open, or with one.
    pub async fn set_size(&mut self, a: Actor) -> Result<(), Fault> {
        let Some(id) = self.any(|n| n.is_file()) else { return Ok(()) };
        let (stateid, own) = self.some_stateid(a, id);
        let size = self.random.index(PIECES + 1) * PIECE;
        let verdict = self.gate_to_change(a).and(self.writes_by(a, id, own));
        let ops = [self.put(id), setattr(stateid, crate::support::size(size as u64))];
        let what = format!("SETATTR {id} size {size} by {own:?}");
        if self.act(a, &what, verdict, &ops).await?.is_some() {
            self.world.cut(id, size);
        }
        Ok(())
    }
}
