//! Acts on the bytes of files through the metadata server, and the opens they need.

use weft_nfs::{Attrs, LockType, NfsStat, OpArgs, Stateid, Verifier, ops::*, share};

use super::{
    held::{Held, Open, Other, Right},
    protect::Protection,
    run::{Actor, Fault, Run, fault, newest},
    world::{Body, NodeId, PIECE, PIECES, Verdict, WRITE},
};
use crate::support::*;

/// What stands behind a stateid at a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Behind {
    /// Nobody's: the caller's rights count.
    Special,
    /// His client's.
    Own(Right),
    /// Another client's, or another file's.
    Foreign,
}

/// How an open is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum By {
    Handle,
    Reclaim(u32),
    Name,
    Unchecked { empties: bool },
    Guarded,
    Exclusive(u8),
}

impl Run {
    /// A stateid to use at a file, right or wrong.
    pub fn some_stateid(&mut self, a: Actor, id: NodeId) -> (Stateid, Behind) {
        let held = &self.held;
        let opens = held.opens.iter().map(|o| (o.host, o.node, o.stateid));
        let others = [&held.locks, &held.delegations, &held.layouts].into_iter().flatten();
        let others = others.map(|o| (o.host, o.node, o.stateid));
        let all: Vec<_> = opens.chain(others).collect();
        let fitting = |fits: &dyn Fn(&(usize, NodeId, Stateid)) -> bool| {
            all.iter().copied().filter(|s| fits(s)).map(|(_, _, s)| s).collect::<Vec<_>>()
        };
        let own = fitting(&|(host, node, _)| (*host, *node) == (a.host, id));
        let of_file = fitting(&|(host, node, _)| *host != a.host && *node == id);
        let any = fitting(&|_| true);
        let list = match self.random.index(10) {
            0..=5 => own,
            6 => of_file,
            7 => any,
            8 => vec![Stateid::READ_BYPASS],
            _ => Vec::new(),
        };
        let chosen = self.random.choose(&list).unwrap_or(Stateid::ANONYMOUS);
        let behind = match self.held.right(a.host, &chosen) {
            _ if chosen.is_special() => Behind::Special,
            Some(right) if right.node == id => Behind::Own(right),
            _ => Behind::Foreign,
        };
        let chosen = match behind {
            Behind::Special => chosen,
            _ if self.one_in(2) => newest(chosen),
            _ => chosen,
        };
        (chosen, behind)
    }

    /// Whether what is behind a stateid lets its user read.
    fn reads_by(&self, a: Actor, id: NodeId, behind: Behind) -> Verdict {
        let by_mode = self.world.nodes[id].reads(&self.who(a));
        match behind {
            Behind::Own(right) if right.reads => Verdict::Allowed,
            Behind::Own(_) | Behind::Special => by_mode,
            Behind::Foreign => Verdict::Forbidden,
        }
    }

    /// The same of writing.
    pub fn writes_by(&self, a: Actor, id: NodeId, behind: Behind) -> Verdict {
        match behind {
            Behind::Own(right) => Verdict::of(right.writes),
            Behind::Special => self.world.nodes[id].writes(&self.who(a)),
            Behind::Foreign => Verdict::Forbidden,
        }
    }

    pub async fn read(&mut self, a: Actor) -> Result<(), Fault> {
        let Some(id) = self.any(|n| n.is_file()) else { return Ok(()) };
        let (stateid, behind) = self.some_stateid(a, id);
        let at = self.random.index(PIECES) * PIECE;
        let verdict = self.gate(a).and(self.reads_by(a, id, behind));
        let what = format!("READ {id} at {at} by {behind:?}");
        let ops = [self.put(id), read(stateid, at as u64, 1000)];
        let Some(reply) = self.act(a, &what, verdict, &ops).await? else { return Ok(()) };
        let expected = self.world.nodes[id].bytes().get(at..).unwrap_or_default();
        let (data, _) = reply.data();
        if &data[..] == expected { Ok(()) } else { fault(format!("{what}: {data:?}")) }
    }

    pub async fn write(&mut self, a: Actor) -> Result<(), Fault> {
        let Some(id) = self.any(|n| n.is_file()) else { return Ok(()) };
        let (stateid, behind) = self.some_stateid(a, id);
        self.write_by(a, id, (stateid, behind)).await
    }

    async fn write_by(
        &mut self,
        a: Actor,
        id: NodeId,
        (stateid, behind): (Stateid, Behind),
    ) -> Result<(), Fault> {
        let (at, new) = (self.random.index(PIECES) * PIECE, self.world.marker());
        let verdict = self.gate_to_change(a).and(self.writes_by(a, id, behind));
        let what = format!("WRITE {id} at {at} {new} by {behind:?}");
        let ops = [self.put(id), write(stateid, at as u64, new.as_bytes())];
        if self.act(a, &what, verdict, &ops).await?.is_some() {
            self.world.write(id, at, new.as_bytes());
        }
        Ok(())
    }

    pub async fn seek(&mut self, a: Actor) -> Result<(), Fault> {
        let Some(id) = self.any(|n| n.is_file()) else { return Ok(()) };
        let (stateid, behind) = self.some_stateid(a, id);
        let verdict = self.gate(a).and(self.reads_by(a, id, behind));
        let what = format!("SEEK {id} by {behind:?}");
        let seek = OpArgs::Seek(SeekArgs { stateid, offset: 0, what: DataContent::DATA });
        self.act(a, &what, verdict, &[self.put(id), seek]).await?;
        Ok(())
    }

    pub async fn punch(&mut self, a: Actor) -> Result<(), Fault> {
        let Some(id) = self.any(|n| n.is_file()) else { return Ok(()) };
        let (stateid, behind) = self.some_stateid(a, id);
        let (at, len) = (self.random.index(PIECES) * PIECE, self.random.index(PIECES) * PIECE);
        let verdict = self.gate_to_change(a).and(self.writes_by(a, id, behind));
        let what = format!("DEALLOCATE {id} at {at} of {len} by {behind:?}");
        let (offset, length) = (at as u64, len as u64);
        let op = OpArgs::Deallocate(DeallocateArgs { stateid, offset, length });
        if self.act(a, &what, verdict, &[self.put(id), op]).await?.is_some() {
            let size = self.world.nodes[id].bytes().len();
            let end = (at + len).min(size).max(at.min(size));
            self.world.write(id, at.min(size), &vec![0; end - at.min(size)]);
        }
        Ok(())
    }

    /// COPY or CLONE of all of a file.
    pub async fn copy(&mut self, a: Actor) -> Result<(), Fault> {
        let (Some(from), Some(to)) = (self.any(|n| n.is_file()), self.any(|n| n.is_file())) else {
            return Ok(());
        };
        let ((source, reads), (target, writes)) =
            (self.some_stateid(a, from), self.some_stateid(a, to));
        let reading = self.gate(a).and(self.reads_by(a, from, reads));
        let writing = self.gate_to_change(a).and(self.writes_by(a, to, writes));
        let verdict = reading.and(writing);
        let copy = CopyArgs {
            src_stateid: source,
            dst_stateid: target,
            src_offset: 0,
            dst_offset: 0,
            count: 0,
            consecutive: true,
            synchronous: true,
            source_server: Netlocs::default(),
        };
        let clone = CloneArgs {
            src_stateid: source,
            dst_stateid: target,
            src_offset: 0,
            dst_offset: 0,
            count: 0,
        };
        let (name, op) = match self.one_in(3) {
            true => ("CLONE", OpArgs::Clone(clone)),
            false => ("COPY", OpArgs::Copy(copy)),
        };
        let what = format!("{name} {from} by {reads:?} to {to} by {writes:?}");
        let ops = [self.put(from), OpArgs::Savefh, self.put(to), op];
        if self.act(a, &what, verdict, &ops).await?.is_some() {
            let bytes = self.world.nodes[from].bytes().to_vec();
            self.world.write(to, 0, &bytes);
        }
        Ok(())
    }

    /// OPEN, in any way.
    pub async fn open_something(&mut self, a: Actor) -> Result<(), Fault> {
        let access = 1 + self.random.index(3) as u32;
        let version = self.random.index(3) as u8;
        let by = match self.random.index(10) {
            0..=2 => By::Handle,
            3 => By::Reclaim(self.random.index(2) as u32),
            4 | 5 => By::Name,
            6 | 7 => By::Unchecked { empties: self.one_in(4) },
            8 => By::Guarded,
            _ => By::Exclusive(version),
        };
        match by {
            By::Handle | By::Reclaim(_) => {
                let Some(id) = self.any(|n| n.is_file()) else { return Ok(()) };
                self.open_file(a, (None, id), access, by).await
            }
            _ => self.open_by_name(a, access, by).await,
        }
    }

    async fn open_by_name(&mut self, a: Actor, access: u32, by: By) -> Result<(), Fault> {
        let few = self.world.nodes.iter().filter(|n| n.is_file() && n.links > 0).count() < 12;
        let found = self.any_entry();
        match found {
            Some((dir, name, id)) if by == By::Name || !(few && self.one_in(2)) => {
                match self.world.nodes[id].is_file() {
                    true => self.open_file(a, (Some((dir, name)), id), access, by).await,
                    false => Ok(()),
                }
            }
            _ if by == By::Name => Ok(()),
            _ => {
                let dir = self.any_directory();
                let with = self.protection(false);
                self.make_file(a, dir, with, (access, by)).await.map(drop)
            }
        }
    }

    fn open_args(&mut self, a: Actor, access: u32, claim: OpenClaim) -> OpenArgs {
        let owner = if self.one_in(3) { "shared".to_owned() } else { format!("user {}", a.user) };
        let wants = if self.one_in(3) { share::WANT_READ_DELEG } else { share::WANT_NO_DELEG };
        let denies = if self.one_in(20) { share::DENY_WRITE } else { share::DENY_NONE };
        OpenArgs { share_access: access | wants, share_deny: denies, ..open(&owner, claim) }
    }

    /// OPEN of a file that is not there yet.
    pub async fn make_file(
        &mut self,
        a: Actor,
        dir: NodeId,
        with: Protection,
        (access, by): (u32, By),
    ) -> Result<Option<NodeId>, Fault> {
        let (new, who) = (self.world.marker(), self.who(a));
        let adds = self.world.nodes[dir].adds(&who, false);
        let verdict = self.gate_to_change(a).and(adds).and(with.verdict(false));
        let mut args = self.open_args(a, access, OpenClaim::Null(new.as_str().into()));
        let verifier = match by {
            By::Exclusive(version) => Some([version; 8]),
            _ => None,
        };
        args.openhow = Some(how(by, with.attrs()));
        let owner = String::from_utf8_lossy(&args.owner.owner.0).into_owned();
        let ops = [self.put(dir), OpArgs::Open(args), OpArgs::Getfh];
        let what = format!("OPEN {dir} {new} new {with:?} for {access} {by:?}");
        let Some(reply) = self.act(a, &what, verdict, &ops).await? else { return Ok(None) };
        let body = Body::File(Vec::new());
        let id = self.made(a, (dir, &new), body, &with, reply.fh()).await?;
        self.world.nodes[id].verifier = verifier;
        self.note_open(a, id, (owner, access), &reply.open())?;
        Ok(Some(id))
    }

    /// What the rules say of an OPEN of a file that is there.
    fn opens(&self, a: Actor, id: NodeId, access: u32, by: By) -> Verdict {
        let (node, who) = (&self.world.nodes[id], self.who(a));
        let writes = access & share::ACCESS_WRITE != 0 || by == By::Unchecked { empties: true };
        let gate = if writes { self.gate_to_change(a) } else { self.gate(a) };
        let mut rights = Verdict::Allowed;
        if access & share::ACCESS_READ != 0 {
            rights = rights.and(node.opens_to_read(&who));
        }
        if writes {
            rights = rights.and(self.gives(a, id, WRITE));
        }
        // What he says he had, the owner may have had whatever the mode says now.
        let had = rights.lenient_if(node.is_owner(&who));
        gate.and(match by {
            By::Handle | By::Name | By::Unchecked { .. } => rights,
            By::Guarded => Verdict::Forbidden,
            By::Exclusive(version) if node.verifier == Some([version; 8]) => had,
            By::Exclusive(_) => Verdict::Forbidden,
            By::Reclaim(_) if self.in_grace && self.hosts[a.host].may_reclaim => had,
            By::Reclaim(_) => Verdict::Forbidden,
        })
    }

    /// OPEN of a file that is there.
    pub async fn open_file(
        &mut self,
        a: Actor,
        (name, id): (Option<(NodeId, String)>, NodeId),
        access: u32,
        by: By,
    ) -> Result<(), Fault> {
        let mut verdict = self.opens(a, id, access, by);
        let (at, claim) = match (&name, by) {
            (Some((dir, name)), _) => (*dir, OpenClaim::Null(name.as_str().into())),
            (None, By::Reclaim(delegation)) => (id, OpenClaim::Previous(delegation)),
            (None, _) => (id, OpenClaim::Fh),
        };
        if name.is_some() {
            verdict = verdict.and(self.gives(a, at, super::world::SEARCH));
        }
        let mut args = self.open_args(a, access, claim);
        if args.share_deny != share::DENY_NONE {
            verdict = verdict.and(self.denies(a, id, by));
        }
        args.openhow = match by {
            By::Handle | By::Reclaim(_) | By::Name => None,
            _ => Some(how(by, mode(0o600))),
        };
        let owner = String::from_utf8_lossy(&args.owner.owner.0).into_owned();
        let ops = [self.put(at), OpArgs::Open(args), OpArgs::Getfh];
        let what = format!("OPEN {id} {name:?} for {access} {by:?}");
        let Some(reply) = self.act(a, &what, verdict, &ops).await? else { return Ok(()) };
        if reply.fh() != self.handle(id) {
            return fault(format!("{what}: leads to something else"));
        }
        if by == (By::Unchecked { empties: true }) {
            self.world.cut(id, 0);
        }
        self.note_open(a, id, (owner, access), &reply.open())
    }

    /// To keep others from a file by a share denial: who may write it may, and the owner again what
    /// he says that he had.
    fn denies(&self, a: Actor, id: NodeId, by: By) -> Verdict {
        let (node, who) = (&self.world.nodes[id], self.who(a));
        let had = matches!(by, By::Reclaim(_) | By::Exclusive(_)) && node.is_owner(&who);
        let writes = self.gate_to_change(a).and(Verdict::of(node.gives(&who, super::world::WRITE)));
        writes.lenient_if(had)
    }

    fn note_open(
        &mut self,
        a: Actor,
        node: NodeId,
        (owner, access): (String, u32),
        ok: &OpenOk,
    ) -> Result<(), Fault> {
        let (host, stateid) = (a.host, ok.stateid);
        self.hosts[host].has_held = true;
        if let OpenDelegation::Read { stateid, .. } = ok.delegation {
            if access & share::ACCESS_READ == 0 {
                return fault(format!("{a:?} gets a delegation with an open that does not read"));
            }
            self.held.delegations.push(Other { host, node, stateid, under: stateid });
        }
        let known = self.held.opens.iter_mut().find(|o| o.stateid.other == stateid.other);
        match known {
            Some(o) if (o.host, o.node, &o.owner) != (host, node, &owner) => {
                fault(format!("{a:?} is given the open {o:?}"))
            }
            Some(o) => {
                (o.stateid, o.access) = (stateid, o.access | access);
                Ok(())
            }
            None => {
                self.held.opens.push(Open { host, node, stateid, owner, access });
                Ok(())
            }
        }
    }

    /// An open of the actor's host; now and then of another.
    fn some_open(&mut self, a: Actor) -> Option<Open> {
        let anybody = self.one_in(8);
        let list = self.held.opens.iter().filter(|o| anybody || o.host == a.host);
        let list: Vec<_> = list.cloned().collect();
        self.random.choose(&list)
    }

    /// State is its client's: no other ends or changes it.
    fn his(&self, a: Actor, host: usize) -> Verdict {
        if host == a.host { Verdict::Either } else { Verdict::Forbidden }
    }

    pub async fn close(&mut self, a: Actor) -> Result<(), Fault> {
        let Some(open) = self.some_open(a) else { return Ok(()) };
        let verdict = self.gate(a).and(self.his(a, open.host));
        let what = format!("CLOSE {} of host {}", open.node, open.host);
        let ops = [self.put(open.node), close(open.stateid)];
        if self.act(a, &what, verdict, &ops).await?.is_some() {
            self.held.close(open.host, open.stateid.other);
        }
        Ok(())
    }

    pub async fn lock(&mut self, a: Actor) -> Result<(), Fault> {
        let Some(open) = self.some_open(a) else { return Ok(()) };
        let (host, node) = (a.host, open.node);
        let writes = open.access & share::ACCESS_WRITE != 0;
        let verdict = self.gate(a).and(self.his(a, open.host));
        let verdict = if writes { verdict } else { Verdict::Forbidden };
        let held = self.held.locks.iter().find(|l| l.node == node && l.host != host).cloned();
        let args = lock_new(open.stateid, "locker", LockType::Write, 0, 16);
        let what = format!("LOCK {node} by the open of host {}", open.host);
        let ops = [self.put(node), OpArgs::Lock(args)];
        let Some(reply) = self.act(a, &what, verdict, &ops).await? else { return Ok(()) };
        if let Some(held) = held {
            return fault(format!("{what}: host {} has it", held.host));
        }
        // A host has one owner of locks: what it locks by another open is under the first still.
        let Held { locks, unlocked, .. } = &mut self.held;
        let before = locks.iter().chain(&*unlocked).find(|l| (l.host, l.node) == (host, node));
        let under = before.map_or(open.stateid, |l| l.under);
        for list in [locks, unlocked] {
            list.retain(|l| (l.host, l.node) != (host, node));
        }
        self.held.locks.push(Other { host, node, stateid: reply.stateid(), under });
        Ok(())
    }

    pub async fn unlock(&mut self, a: Actor) -> Result<(), Fault> {
        let locks = self.held.locks.clone();
        let Some(lock) = self.random.choose(&locks) else { return Ok(()) };
        if lock.host != a.host && self.one_in(2) {
            let what = format!("FREE_STATEID {} of host {}", lock.node, lock.host);
            let free = OpArgs::FreeStateid(FreeStateidArgs { stateid: lock.stateid });
            self.act(a, &what, Verdict::Forbidden, &[free]).await?;
            return Ok(());
        }
        let verdict = self.gate(a).and(self.his(a, lock.host));
        let what = format!("LOCKU {} of host {}", lock.node, lock.host);
        let ops = [self.put(lock.node), locku(newest(lock.stateid), 0, 16)];
        if self.act(a, &what, verdict, &ops).await?.is_some() {
            self.held.locks.retain(|l| l.stateid.other != lock.stateid.other);
            self.held.unlocked.push(lock);
        }
        Ok(())
    }

    /// DELEGRETURN and OPEN_DOWNGRADE, of one's own or another's.
    pub async fn give_back(&mut self, a: Actor) -> Result<(), Fault> {
        let delegations = self.held.delegations.clone();
        if let (true, Some(d)) = (self.one_in(2), self.random.choose(&delegations)) {
            let verdict = self.gate(a).and(self.his(a, d.host));
            let back = OpArgs::Delegreturn(DelegreturnArgs { deleg_stateid: d.stateid });
            let what = format!("DELEGRETURN {} of host {}", d.node, d.host);
            if self.act(a, &what, verdict, &[self.put(d.node), back]).await?.is_some() {
                self.held.delegations.retain(|other| other.stateid.other != d.stateid.other);
            }
            return Ok(());
        }
        let Some(open) = self.some_open(a) else { return Ok(()) };
        let access = 1 + self.random.index(2) as u32;
        let verdict = self.gate(a).and(self.his(a, open.host));
        let what = format!("OPEN_DOWNGRADE {} of host {} to {access}", open.node, open.host);
        let ops = [self.put(open.node), downgrade(open.stateid, access, 0)];
        let Some(reply) = self.act(a, &what, verdict, &ops).await? else { return Ok(()) };
        let given = reply.stateid();
        let its = |o: &&mut Open| o.stateid.other == given.other;
        if let Some(open) = self.held.opens.iter_mut().find(its) {
            if access & !open.access != 0 {
                return fault(format!("{what}: it had {}", open.access));
            }
            (open.stateid, open.access) = (given, access);
        }
        Ok(())
    }

    /// Waits until opens, and reading without one, are served again.
    pub async fn after_grace(&mut self) -> Result<(), Fault> {
        let Some(id) = self.any(|n| n.is_file()) else { return Ok(()) };
        for _ in 0..5000 {
            let ops = [self.put(id), read(Stateid::ANONYMOUS, 0, 1)];
            let reply = self.ask(super::run::AUDITOR, &ops).await?;
            if reply.is_some_and(|r| r.status() != NfsStat::GRACE) {
                return Ok(());
            }
            tokio::time::sleep(std::time::Duration::from_millis(2)).await;
        }
        fault("grace does not end when all are back")
    }
}

fn how(by: By, attrs: Attrs) -> CreateHow {
    match by {
        By::Unchecked { empties: true } => {
            CreateHow::Unchecked(Box::new(Attrs { size: Some(0), ..attrs }))
        }
        By::Guarded => CreateHow::Guarded(Box::new(attrs)),
        By::Exclusive(version) => CreateHow::Exclusive41(Verifier([version; 8]), Box::new(attrs)),
        _ => CreateHow::Unchecked(Box::new(attrs)),
    }
}
