//! What the clients of the hosts hold, as far as they were told.

use weft_nfs::{FileHandle, Stateid, share};

use super::world::{Node, NodeId, Verdict, Who};

pub type HostId = usize;

#[derive(Debug, Clone)]
pub struct Open {
    pub host: HostId,
    pub node: NodeId,
    pub stateid: Stateid,
    pub owner: String,
    pub access: u32,
}

/// A lock of all of a file, to write; or a delegation; or a layout.
#[derive(Debug, Clone)]
pub struct Other {
    pub host: HostId,
    pub node: NodeId,
    pub stateid: Stateid,
    /// The open that a lock is under.
    pub under: Stateid,
}

/// A handle of a data server, for as long as anybody remembers it.
#[derive(Debug, Clone)]
pub struct Storage {
    pub host: HostId,
    /// To whom it was given.
    pub who: Who,
    pub node: NodeId,
    /// Data server, by index.
    pub server: usize,
    pub handle: FileHandle,
    pub reads: bool,
    pub writes: bool,
    /// Whether the layout it came with is out.
    pub is_out: bool,
    /// Whether the right it was given for has been taken away since.
    pub has_ended: bool,
    /// Whether the server was killed since, or a client that could write to the file went, or said
    /// that it has no layout, and gave nothing back: then handles end in the background.
    pub is_old: bool,
}

/// What a stateid gives at a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Right {
    pub node: NodeId,
    pub reads: bool,
    pub writes: bool,
}

#[derive(Debug, Default)]
pub struct Held {
    pub opens: Vec<Open>,
    pub locks: Vec<Other>,
    /// Locks of which all was unlocked: their stateids are there still.
    pub unlocked: Vec<Other>,
    pub delegations: Vec<Other>,
    pub layouts: Vec<Other>,
    pub storage: Vec<Storage>,
}

impl Held {
    /// What this host's client may do by a stateid; nothing by another's.
    pub fn right(&self, host: HostId, stateid: &Stateid) -> Option<Right> {
        let of_open = |stateid: &Stateid| {
            let open = self.opens.iter().find(|o| o.stateid.other == stateid.other)?;
            let has = |bit| open.access & bit != 0;
            let (reads, writes) = (has(share::ACCESS_READ), has(share::ACCESS_WRITE));
            (open.host == host).then_some(Right { node: open.node, reads, writes })
        };
        let mine = |list: &[Other]| {
            list.iter().find(|o| o.host == host && o.stateid.other == stateid.other).cloned()
        };
        let lock = || of_open(&mine(&self.locks)?.under);
        let delegation = || {
            let node = mine(&self.delegations)?.node;
            Some(Right { node, reads: true, writes: false })
        };
        of_open(stateid).or_else(lock).or_else(delegation)
    }

    /// Whether a client has the file open to read, or a delegation that is as good.
    pub fn reads(&self, host: HostId, node: NodeId) -> bool {
        let access = |o: &Open| o.access & share::ACCESS_READ != 0;
        self.opens.iter().any(|o| (o.host, o.node) == (host, node) && access(o))
            || self.delegations.iter().any(|d| (d.host, d.node) == (host, node))
    }

    /// Whether a client has the file open at all.
    pub fn has_open(&self, host: HostId, node: NodeId) -> bool {
        self.opens.iter().any(|o| (o.host, o.node) == (host, node))
    }

    pub fn is_open(&self, node: NodeId) -> bool {
        self.opens.iter().any(|o| o.node == node)
    }

    /// Whether a host's client has anything that another could take.
    pub fn anything(&self, host: HostId) -> bool {
        self.opens.iter().any(|o| o.host == host)
            || [&self.locks, &self.delegations, &self.layouts]
                .iter()
                .any(|list| list.iter().any(|o| o.host == host))
    }

    /// Its client is gone.
    pub fn forget(&mut self, host: HostId) {
        self.opens.retain(|o| o.host != host);
        [&mut self.locks, &mut self.unlocked, &mut self.delegations, &mut self.layouts]
            .into_iter()
            .for_each(|list| list.retain(|o| o.host != host));
        let nodes: Vec<_> = self.storage.iter().map(|s| s.node).collect();
        nodes.into_iter().for_each(|node| self.end_in_background(host, node));
        self.storage.iter_mut().filter(|s| s.host == host).for_each(|s| s.is_out = false);
    }

    /// If a host can write to a file and does not say when that ends, all its handles end in the
    /// background.
    pub fn end_in_background(&mut self, host: HostId, node: NodeId) {
        let writes = |s: &Storage| (s.host, s.node) == (host, node) && s.is_out && s.writes;
        let is_written = self.storage.iter().any(writes);
        let its = self.storage.iter_mut().filter(|s| s.node == node);
        its.for_each(|s| s.is_old |= is_written);
    }

    /// A host's layout on a file is no more.
    pub fn layout_gone(&mut self, host: HostId, node: NodeId) {
        self.layouts.retain(|l| (l.host, l.node) != (host, node));
        let its = self.storage.iter_mut().filter(|s| (s.host, s.node) == (host, node));
        its.for_each(|s| s.is_out = false);
    }

    /// An open was closed, with the locks under it; a file's last open takes a layout along that
    /// only reads.
    pub fn close(&mut self, host: HostId, other: [u8; 12]) {
        let Some(at) = self.opens.iter().position(|o| o.stateid.other == other) else { return };
        let node = self.opens.remove(at).node;
        for list in [&mut self.locks, &mut self.unlocked] {
            list.retain(|l| l.under.other != other);
        }
        let writes = |s: &Storage| (s.host, s.node) == (host, node) && s.is_out && s.writes;
        if !self.has_open(host, node) && !self.storage.iter().any(writes) {
            self.layout_gone(host, node);
        }
    }

    /// Mode, owner or list of a file were changed: handles of who surely could and surely cannot
    /// any more end.
    pub fn changed(&mut self, id: NodeId, before: &Node, after: &Node) {
        for s in self.storage.iter_mut().filter(|s| s.node == id) {
            let read = before.reads(&s.who).or(before.opens_to_read(&s.who));
            let lost_read = read == Verdict::Allowed && after.reads(&s.who) == Verdict::Forbidden;
            let wrote = before.writes(&s.who) == Verdict::Allowed;
            let lost_write = wrote && after.writes(&s.who) == Verdict::Forbidden;
            s.has_ended |= s.reads && lost_read || s.writes && lost_write;
        }
    }
}
