//! Memory that peers make a table take: counted in bytes, and shared out so that one client, or
//! one host with many, leaves room for the others. Arithmetic only; the tables say what costs how
//! much.
//!
//! **What a record costs** is computed from the types, as the most that it can take, so that the
//! promise holds whatever order peers work in:
//! - An allocation takes its bytes and 8 more, rounded up to 16, and 32 at least (glibc):
//!   [`allocated`].
//! - An entry of a `BTreeMap` takes its part of a node, see [`map_entry`]: 2.3 times its own size
//!   where nodes are as empty as they get; 1.2 to 1.9 times is usual.
//! - A name that a peer chose takes an allocation, and one of 24 bytes when it is shared by two
//!   maps: [`name_bytes`].
//!
//! Measured: each of 120,000 opens of one file, with owners of 1024 bytes, takes 1,423 bytes of
//! resident memory, and is counted as 1,823.

use std::collections::BTreeMap;

use weft_nfs::ClientId;

use crate::host::Host;

/// A client has at most this part of a table's memory: several are needed to fill it.
const CLIENT_PART: usize = 4;
/// The clients of a host together have at most this part of what other hosts leave of something.
/// So no host has more than it leaves free: a newcomer always finds room, and whoever has much is
/// given nothing more from then on, until it has given back what is above its share. Hosts that
/// all want everything have equal parts in the end, one of which is free.
const HOST_PART: usize = 2;

/// What a host may have at most of something, of which there is so much and hosts have so much.
pub const fn host_share(limit: usize, used_by_others: usize) -> usize {
    limit.saturating_sub(used_by_others) / HOST_PART
}

/// What an allocation takes.
pub(crate) const fn allocated(bytes: usize) -> usize {
    match bytes {
        0 => 0,
        1..=24 => 32,
        _ => (bytes + 8).next_multiple_of(16),
    }
}

/// What an entry of a `BTreeMap` takes at most. Nodes have room for 11 entries and, but for the
/// root, are never left with fewer than 5; those that are no leaves have 12 edges too, and 6 of
/// them at least: for each there are 5 leaves or more.
pub(crate) const fn map_entry<K, V>() -> usize {
    const HEADER: usize = 16;
    let entries = 11 * (size_of::<K>() + size_of::<V>());
    let leaf = allocated(entries + HEADER);
    let inner = allocated(entries + HEADER + 12 * size_of::<usize>());
    (5 * leaf + inner).div_ceil(6 * 5)
}

/// What the first entry of a `BTreeMap` takes that may have no other.
pub(crate) const fn map_of_one<K, V>() -> usize {
    allocated(11 * (size_of::<K>() + size_of::<V>()) + 16)
}

/// What a name of so many bytes takes, kept in `Bytes` of its own.
pub(crate) const fn name_bytes(len: usize) -> usize {
    const SHARED: usize = 24;
    if len == 0 { 0 } else { allocated(len) + allocated(SHARED) }
}

/// Whether so much of a limit is used that what is kept by courtesy has to go, and nothing more is
/// given out that clients can do without: three quarters, so that those who come meanwhile still
/// find room.
pub(crate) fn is_crowded(used: usize, limit: usize) -> bool {
    used >= limit - limit / 4
}

/// Memory of a table, as it is counted here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryUse {
    /// Bytes that are taken.
    pub used: usize,
    /// Most bytes.
    pub limit: usize,
}

/// What memory is wanted for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Want {
    /// What a client cannot work without: opens, locks, sessions.
    Need,
    /// What it can do without: layouts, delegations, more than a few slots. Not given in the last
    /// quarter.
    Extra,
    /// What few need: many slots. Given from the first half.
    Comfort,
}

impl Want {
    /// What of a limit this may take up.
    pub(crate) fn of(self, limit: usize) -> usize {
        match self {
            Want::Need => limit,
            Want::Extra => limit - limit / 4,
            Want::Comfort => limit / 2,
        }
    }
}

/// Which limit is in the way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Full {
    /// The client's own share is used up.
    Client,
    /// That of its host is, or everything.
    Others,
}

/// The memory of one table: how much there may be, and who has it.
///
/// **Invariants.** What is used is the sum of what the clients have, and what a host has that of
/// its clients. Whoever asks [`Budget::has_room`] before each [`Budget::take`] stays within all
/// limits.
#[derive(Debug)]
pub(crate) struct Budget {
    limit: usize,
    used: usize,
    clients: BTreeMap<ClientId, Account>,
    hosts: BTreeMap<Host, HostAccount>,
}

/// What a client has.
#[derive(Debug, Default)]
struct Account {
    /// Unknown for one whose request was still under way when it was forgotten.
    host: Option<Host>,
    bytes: usize,
}

/// What a host's clients have.
#[derive(Debug, Default)]
struct HostAccount {
    clients: usize,
    bytes: usize,
}

impl Budget {
    /// What the account of a client takes, that of its host included.
    pub(crate) const ACCOUNT_BYTES: usize =
        map_entry::<ClientId, Account>() + map_entry::<Host, HostAccount>();

    /// A budget of so many bytes, all free.
    pub(crate) fn new(limit: usize) -> Self {
        Budget { limit, used: 0, clients: BTreeMap::new(), hosts: BTreeMap::new() }
    }

    /// What all have together, and may have.
    pub(crate) fn memory(&self) -> MemoryUse {
        MemoryUse { used: self.used, limit: self.limit }
    }

    /// A client of this host may come.
    pub(crate) fn admit(&mut self, client: ClientId, host: Host) {
        let account = self.clients.entry(client).or_default();
        if account.host.is_none() {
            account.host = Some(host);
            let of_host = self.hosts.entry(host).or_default();
            of_host.clients += 1;
            of_host.bytes += account.bytes;
        }
    }

    /// A client is gone, and has nothing any more.
    pub(crate) fn forget(&mut self, client: ClientId) {
        let Some(account) = self.clients.remove(&client) else { return };
        self.used -= account.bytes;
        let Some(host) = account.host else { return };
        if let Some(of_host) = self.hosts.get_mut(&host) {
            of_host.clients -= 1;
            of_host.bytes -= account.bytes;
            if of_host.clients == 0 {
                self.hosts.remove(&host);
            }
        }
    }

    /// Bytes that a client has.
    pub(crate) fn of_client(&self, client: ClientId) -> usize {
        self.clients.get(&client).map_or(0, |a| a.bytes)
    }

    /// Host of an admitted client.
    pub(crate) fn host_of(&self, client: ClientId) -> Option<Host> {
        self.clients.get(&client)?.host
    }

    fn of_host(&self, host: Option<Host>) -> usize {
        host.and_then(|h| self.hosts.get(&h)).map_or(0, |h| h.bytes)
    }

    /// Bytes that a client can still be given.
    pub(crate) fn left(&self, client: ClientId, want: Want) -> usize {
        let left = |(used, limit): (usize, usize)| want.of(limit).saturating_sub(used);
        self.shares(client).map(left).into_iter().min().unwrap_or(0)
    }

    /// What is used of each share that a client's things count in, and its limit.
    fn shares(&self, client: ClientId) -> [(usize, usize); 3] {
        [
            (self.of_client(client), self.limit / CLIENT_PART),
            self.share_of_host(self.host_of(client)),
            (self.used, self.limit),
        ]
    }

    /// What a host has, and may have.
    fn share_of_host(&self, host: Option<Host>) -> (usize, usize) {
        let of_host = self.of_host(host);
        (of_host, host_share(self.limit, self.used - of_host))
    }

    /// Bytes that a new client of a host can be given.
    pub(crate) fn left_for_new(&self, host: Host) -> usize {
        self.left_for_host(Some(host)).min(self.limit / CLIENT_PART)
    }

    /// Bytes that the clients of a host can still be given: less than is left for all.
    fn left_for_host(&self, host: Option<Host>) -> usize {
        let (used, share) = self.share_of_host(host);
        share.saturating_sub(used)
    }

    /// Clients of a host that were admitted.
    pub(crate) fn clients_of(&self, host: Host) -> usize {
        self.hosts.get(&host).map_or(0, |h| h.clients)
    }

    /// Which limit a client that is given ever more meets first.
    pub(crate) fn tightest(&self, client: ClientId) -> Full {
        let of_client = (self.limit / CLIENT_PART).saturating_sub(self.of_client(client));
        let of_others = self.left_for_host(self.host_of(client));
        if of_client <= of_others { Full::Client } else { Full::Others }
    }

    /// Whether a client can be given so many bytes.
    pub(crate) fn has_room(&self, client: ClientId, bytes: usize, want: Want) -> bool {
        self.shares(client).iter().all(|(used, limit)| used + bytes <= want.of(*limit))
    }

    /// Every client that was admitted, or given something, and is not forgotten.
    pub(crate) fn clients(&self) -> impl Iterator<Item = ClientId> {
        self.clients.keys().copied()
    }

    /// A client has so many bytes more. Cost: a search for it and one for its host.
    pub(crate) fn take(&mut self, client: ClientId, bytes: usize) {
        self.used += bytes;
        let account = self.clients.entry(client).or_default();
        account.bytes += bytes;
        if let Some(of_host) = account.host.and_then(|h| self.hosts.get_mut(&h)) {
            of_host.bytes += bytes;
        }
    }

    /// A client has so many bytes less.
    pub(crate) fn give_back(&mut self, client: ClientId, bytes: usize) {
        let Some(account) = self.clients.get_mut(&client) else { return };
        self.used -= bytes;
        account.bytes -= bytes;
        if let Some(of_host) = account.host.and_then(|h| self.hosts.get_mut(&h)) {
            of_host.bytes -= bytes;
        }
    }

    /// Whether room runs short for all, or for all of the client's host.
    pub(crate) fn is_crowded_for(&self, client: ClientId) -> bool {
        let [_, of_host, of_all] = self.shares(client);
        [of_host, of_all].iter().any(|(used, limit)| is_crowded(*used, *limit))
    }

    /// Whether newcomers will soon find no room: an eighth is left for all, or for all of the
    /// client's host.
    pub(crate) fn is_nearly_full_for(&self, client: ClientId) -> bool {
        let [_, of_host, of_all] = self.shares(client);
        [of_host, of_all].iter().any(|(used, limit)| *used >= limit - limit / 8)
    }

    /// Takes for a client what it may have for this, but for so many bytes; how many that are.
    #[cfg(test)]
    pub(crate) fn fill(&mut self, client: ClientId, want: Want, left: usize) -> usize {
        let (mut fits, mut beyond) = (0, self.limit + 1);
        while beyond - fits > 1 {
            let middle = usize::midpoint(fits, beyond);
            let has_room = self.has_room(client, middle, want);
            *(if has_room { &mut fits } else { &mut beyond }) = middle;
        }
        self.take(client, fits - left);
        fits - left
    }

    /// Fails unless the sums are right and no share is exceeded.
    #[cfg(test)]
    pub(crate) fn check(&self) {
        let sum: usize = self.clients.values().map(|a| a.bytes).sum();
        assert_eq!(sum, self.used);
        assert!(self.used <= self.limit, "{} of {}", self.used, self.limit);
        assert!(self.clients.values().all(|a| a.bytes <= self.limit / CLIENT_PART));
        for (host, of_host) in &self.hosts {
            let clients = self.clients.values().filter(|a| a.host == Some(*host));
            let (count, bytes) = clients.fold((0, 0), |(n, sum), a| (n + 1, sum + a.bytes));
            assert_eq!((count, bytes), (of_host.clients, of_host.bytes));
            assert!(bytes <= self.limit / HOST_PART, "{bytes} of {}", self.limit);
        }
    }
}

#[cfg(test)]
mod accounts;
#[cfg(test)]
mod tests;
