//! Layouts, and acts at the data servers with every handle that was ever given out.

use weft_nfs::{IoMode, NfsStat, OpArgs, Stateid, share};

use super::{
    held::{Other, Storage},
    run::{AUDITOR, Actor, Fault, Run, fault},
    world::{NodeId, PIECE, PIECES, Verdict, markers},
};
use crate::{HANDLES_END, support::*};

impl Run {
    /// LAYOUTGET by an open, or by the layout that is out.
    pub async fn get_layout(&mut self, a: Actor) -> Result<(), Fault> {
        let anybody = self.one_in(10);
        let opens = self.held.opens.iter().filter(|o| anybody || o.host == a.host);
        let opens: Vec<_> = opens.map(|o| (o.host, o.node, o.stateid)).collect();
        let layouts = self.held.layouts.iter().filter(|l| l.host == a.host);
        let layouts: Vec<_> = layouts.map(|l| (l.host, l.node, l.stateid)).collect();
        let list = if self.one_in(5) { layouts } else { opens };
        let Some((host, node, stateid)) = self.random.choose(&list) else { return Ok(()) };
        let iomode = if self.one_in(2) { IoMode::RW } else { IoMode::READ };
        let who = self.who(a);
        let by_state = self.held.right(a.host, &stateid).is_some_and(|right| right.reads);
        let reads = Verdict::of(by_state).or(self.world.nodes[node].reads(&who));
        // Another open of the same client is as good, if the server looks for it.
        let reads = reads.lenient_if(self.held.reads(a.host, node));
        let writes = |o: &super::held::Open| {
            (o.host, o.node) == (a.host, node) && o.access & share::ACCESS_WRITE != 0
        };
        let out = |s: &Storage| (s.host, s.node) == (a.host, node) && s.is_out && s.writes;
        let writes = self.held.opens.iter().any(writes) || self.held.storage.iter().any(out);
        let right = match iomode == IoMode::RW {
            true if writes => self.gate_to_change(a).and(Verdict::Either),
            true => Verdict::Forbidden,
            false => self.gate(a).and(reads),
        };
        let verdict = if host == a.host { right } else { Verdict::Forbidden };
        let what = format!("LAYOUTGET {node} {iomode:?} by that of host {host}");
        let ops = [self.put(node), OpArgs::Layoutget(layoutget(stateid, iomode))];
        let Some(reply) = self.act(a, &what, verdict, &ops).await? else { return Ok(()) };
        let layout = files_layout(&reply);
        let server = usize::try_from(layout.first_stripe_index).unwrap();
        self.held.layouts.retain(|l| (l.host, l.node) != (a.host, node));
        let (host, stateid) = (a.host, reply.stateid());
        self.held.layouts.push(Other { host, node, stateid, under: stateid });
        let storage = Storage {
            host,
            who,
            node,
            server,
            handle: layout_handle(&layout, server),
            reads: reads != Verdict::Forbidden,
            writes: iomode == IoMode::RW,
            is_out: true,
            has_ended: false,
            is_old: false,
        };
        self.held.storage.push(storage);
        let newest = self.held.storage.len() - 1;
        if self.one_in(2) {
            return Ok(());
        }
        self.read_there(a, newest).await
    }

    pub async fn return_layout(&mut self, a: Actor) -> Result<(), Fault> {
        let layouts = self.held.layouts.clone();
        let Some(l) = self.random.choose(&layouts) else { return Ok(()) };
        if l.host != a.host && !self.one_in(4) {
            return Ok(());
        }
        let mine = if l.host == a.host { Verdict::Either } else { Verdict::Forbidden };
        let verdict = self.gate(a).and(mine);
        if self.one_in(4) {
            let what = format!("LAYOUTCOMMIT {} of host {}", l.node, l.host);
            let commit = OpArgs::Layoutcommit(layoutcommit(l.stateid, None));
            self.act(a, &what, verdict, &[self.put(l.node), commit]).await?;
            return Ok(());
        }
        let back = OpArgs::Layoutreturn(layoutreturn(l.stateid, IoMode::ANY));
        let what = format!("LAYOUTRETURN {} of host {}", l.node, l.host);
        if self.act(a, &what, verdict, &[self.put(l.node), back]).await?.is_some() {
            self.held.layout_gone(l.host, l.node);
        }
        Ok(())
    }

    /// READ or WRITE at a data server with any handle that the host was ever given.
    pub async fn use_storage(&mut self, a: Actor) -> Result<(), Fault> {
        let all = self.held.storage.iter().enumerate().filter(|(_, s)| s.host == a.host);
        let all: Vec<_> = all.map(|(at, _)| at).collect();
        let Some(at) = self.random.choose(&all) else { return Ok(()) };
        if self.one_in(4) {
            self.take_away(self.held.storage[at].node).await?;
        }
        if self.one_in(2) { self.read_there(a, at).await } else { self.write_there(a, at).await }
    }

    /// Some of those who could use a file cannot any more.
    async fn take_away(&mut self, node: NodeId) -> Result<(), Fault> {
        if !self.is_there(node) {
            return Ok(());
        }
        if self.one_in(2) {
            return self.set_some_list(AUDITOR, node).await;
        }
        let bits = [0, 0o600, 0o060, 0o006, 0o644][self.random.index(5)];
        self.set_mode(AUDITOR, node, bits).await
    }

    async fn there(&mut self, a: Actor, at: usize, op: OpArgs) -> Reply {
        let Storage { server, handle, .. } = self.held.storage[at].clone();
        let address = self.cluster.data_server(server);
        let host = &mut self.hosts[a.host];
        if host.storage[server].is_none() {
            let from = host.address;
            let owner = host.owner(a.host);
            let options =
                ClientOptions { from, back_channel: false, reclaim_complete: false, ..owner };
            host.storage[server] = Some(Client::with(address, options).await);
        }
        let client = host.storage[server].as_mut().expect("it has just come");
        client.compound().putfh(&handle).op(op).send().await
    }

    /// What the rules say of a use of a handle that was given for it.
    fn by_handle(&self, s: &Storage, given: bool) -> Verdict {
        let ended = HANDLES_END && s.has_ended;
        if given && !ended { Verdict::Either } else { Verdict::Forbidden }
    }

    /// Whether any layout to write is out on the file: with the last one all its handles to write
    /// end.
    fn is_being_written(&self, node: NodeId) -> bool {
        self.held.storage.iter().any(|s| s.node == node && s.is_out && s.writes)
    }

    async fn read_there(&mut self, a: Actor, at: usize) -> Result<(), Fault> {
        let s = self.held.storage[at].clone();
        let verdict = self.by_handle(&s, s.reads);
        let from = self.random.index(PIECES) * PIECE;
        let reply = self.there(a, at, read(Stateid::ANONYMOUS, from as u64, 1000)).await;
        let what = format!("READ of {} at data server {} at {from} by {s:?}", s.node, s.server);
        if !self.judge(a, &what, verdict, Some(&reply))? || !self.is_there(s.node) {
            return Ok(());
        }
        // An object may end before its file does.
        let (data, _) = reply.data();
        self.figures.markers += markers(&data).len();
        let expected = self.world.nodes[s.node].bytes().get(from..).unwrap_or_default();
        if expected.starts_with(&data) { Ok(()) } else { fault(format!("{what}: {data:?}")) }
    }

    async fn write_there(&mut self, a: Actor, at: usize) -> Result<(), Fault> {
        let s = self.held.storage[at].clone();
        // What was under way when the server was killed may come until the file is used again.
        if s.is_old || !self.is_there(s.node) {
            return Ok(());
        }
        let is_over = !self.is_being_written(s.node);
        // Bytes that come when nobody expects any change no attribute.
        if is_over && !HANDLES_END {
            return Ok(());
        }
        let verdict = self.by_handle(&s, s.writes && !is_over);
        let (to, new) = (self.random.index(PIECES) * PIECE, self.world.marker());
        let op = write(Stateid::ANONYMOUS, to as u64, new.as_bytes());
        let reply = self.there(a, at, op).await;
        let what =
            format!("WRITE {new} of {} at data server {} at {to} by {s:?}", s.node, s.server);
        if self.judge(a, &what, verdict, Some(&reply))? {
            self.world.write(s.node, to, new.as_bytes());
        } else if s.is_out && s.writes && reply.status() == NfsStat::ACCESS {
            return fault(format!("{what}: the layout is out, and the handle does not write"));
        }
        Ok(())
    }

    fn is_there(&self, node: NodeId) -> bool {
        self.world.nodes[node].links > 0
    }
}
