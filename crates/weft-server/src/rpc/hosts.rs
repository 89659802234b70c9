//! What connections take of a server together, and the part of it that one host may take: so that
//! no host, and not even many strangers, keep others out or fill the memory.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use weft_state::{Host, host_share};

/// What the connections of one server may take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerLimits {
    /// A connection that no program holds ends after this to twice this, whatever is asked on it.
    pub idle: Duration,
    /// Connections: beyond it none is accepted until one ends.
    pub connections_max: usize,
    /// Connections of one host, and half of those that other hosts leave at most: beyond it they
    /// are closed at once. A quarter, since a host may stand for many (a network behind one
    /// address); 256 clients with 16 connections each.
    pub connections_per_host_max: usize,
    /// Bytes of large records, from their announcement until they are answered. Beyond it the next
    /// large one is not read on until there is room: 1000 writes of 1 MiB at the same moment.
    pub unfinished_bytes_max: usize,
    /// The same of one host: a quarter.
    pub unfinished_bytes_per_host_max: usize,
    /// A large record that takes longer is given up, with its connection, while others wait for
    /// the room. Longer than 1 MiB needs on a line of 2 Mbit/s.
    pub unfinished_patience: Duration,
    /// Bytes of large replies that peers have not taken. Beyond it requests for more wait, and the
    /// connections that they came on are not read for long: 1000 reads of 1 MiB.
    pub reply_bytes_max: usize,
    /// The same of one host: a quarter.
    pub reply_bytes_per_host_max: usize,
    /// A peer that takes longer for one reply loses its connection, while others wait for the room.
    /// Longer than 1 MiB needs on a line of 0.3 Mbit/s.
    pub reply_patience: Duration,
}

impl Default for ServerLimits {
    fn default() -> Self {
        ServerLimits {
            idle: Duration::from_secs(60),
            connections_max: 16_384,
            connections_per_host_max: 4096,
            unfinished_bytes_max: 1 << 30,
            unfinished_bytes_per_host_max: 256 << 20,
            unfinished_patience: Duration::from_secs(5),
            reply_bytes_max: 1 << 30,
            reply_bytes_per_host_max: 256 << 20,
            reply_patience: Duration::from_secs(30),
        }
    }
}

/// Unit in which room for records is counted.
const GRAIN_BYTES: usize = 1 << 10;

/// Bytes that records or replies may take, and who waits for some.
#[derive(Debug)]
struct Pool {
    grains: Arc<Semaphore>,
    max: u32,
    waiting: AtomicUsize,
}

impl Pool {
    fn new(bytes: usize) -> Self {
        let max = u32::try_from(bytes / GRAIN_BYTES).unwrap_or(u32::MAX).max(1);
        let grains = Arc::new(Semaphore::new(max as usize));
        Pool { grains, max, waiting: AtomicUsize::new(0) }
    }

    /// Waits for room, in turn; all there is, if more is asked for.
    async fn take(&self, bytes: usize) -> Option<OwnedSemaphorePermit> {
        if let Some(permit) = self.try_take(bytes) {
            return Some(permit);
        }
        let _waits = Waits::of(&self.waiting);
        // The semaphore is never closed.
        self.grains.clone().acquire_many_owned(self.grains_of(bytes)).await.ok()
    }

    /// Room, if there is some now and nobody waits for it.
    fn try_take(&self, bytes: usize) -> Option<OwnedSemaphorePermit> {
        self.grains.clone().try_acquire_many_owned(self.grains_of(bytes)).ok()
    }

    fn grains_of(&self, bytes: usize) -> u32 {
        u32::try_from(bytes.div_ceil(GRAIN_BYTES)).unwrap_or(u32::MAX).min(self.max)
    }

    fn is_wanted(&self) -> bool {
        self.waiting.load(Relaxed) > 0
    }
}

/// Counts one that waits, also if it gives up.
struct Waits<'a>(&'a AtomicUsize);

impl<'a> Waits<'a> {
    fn of(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Relaxed);
        Waits(count)
    }
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

/// One host's part.
#[derive(Debug)]
struct Part {
    connections: AtomicUsize,
    room: Pool,
    replies: Pool,
}

/// What all hosts take.
#[derive(Debug)]
pub(super) struct Hosts {
    limits: ServerLimits,
    room: Pool,
    replies: Pool,
    /// Its counts change only under this lock.
    present: Mutex<Present>,
}

/// Who is there.
#[derive(Debug, Default)]
struct Present {
    connections: usize,
    /// Hosts with connections.
    parts: HashMap<Host, Arc<Part>>,
}

impl Hosts {
    pub(super) fn new(limits: ServerLimits) -> Arc<Self> {
        let room = Pool::new(limits.unfinished_bytes_max);
        let replies = Pool::new(limits.reply_bytes_max);
        Arc::new(Hosts { limits, room, replies, present: Mutex::default() })
    }

    pub(super) fn limits(&self) -> &ServerLimits {
        &self.limits
    }

    /// A connection of this host; none if it has its share.
    pub(super) fn enter(self: &Arc<Self>, host: Host) -> Option<ConnectionPermit> {
        // Nothing is half done under this lock.
        let mut present = self.present.lock().unwrap_or_else(PoisonError::into_inner);
        let of_host = present.parts.get(&host).map_or(0, |p| p.connections.load(Relaxed));
        let share = host_share(self.limits.connections_max, present.connections - of_host);
        if of_host >= share.min(self.limits.connections_per_host_max) {
            return None;
        }
        present.connections += 1;
        let part = present.parts.entry(host).or_insert_with(|| {
            let room = Pool::new(self.limits.unfinished_bytes_per_host_max);
            let replies = Pool::new(self.limits.reply_bytes_per_host_max);
            Arc::new(Part { connections: AtomicUsize::new(0), room, replies })
        });
        let part = part.clone();
        part.connections.fetch_add(1, Relaxed);
        Some(ConnectionPermit { hosts: self.clone(), host, part })
    }
}

/// A connection's place, until it ends.
#[derive(Debug)]
pub(super) struct ConnectionPermit {
    hosts: Arc<Hosts>,
    host: Host,
    part: Arc<Part>,
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        let mut present = self.hosts.present.lock().unwrap_or_else(PoisonError::into_inner);
        present.connections -= 1;
        if self.part.connections.fetch_sub(1, Relaxed) == 1 {
            present.parts.remove(&self.host);
        }
    }
}

/// Room for a record that has begun to arrive, until it is answered.
#[derive(Debug)]
pub(super) struct RecordBudget {
    hosts: Arc<Hosts>,
    part: Arc<Part>,
    _taken: [Option<OwnedSemaphorePermit>; 2],
}

impl ConnectionPermit {
    /// Waits until a record of so many bytes may be received: first for the host's share, so that
    /// who waits for itself takes nothing from others.
    pub(super) async fn room(&self, bytes: usize) -> RecordBudget {
        let own = self.part.room.take(bytes).await;
        let all = self.hosts.room.take(bytes).await;
        let (hosts, part) = (self.hosts.clone(), self.part.clone());
        RecordBudget { hosts, part, _taken: [own, all] }
    }

    /// The room for replies that this connection shares.
    pub(super) fn replies(&self) -> ReplyRoom {
        ReplyRoom { hosts: self.hosts.clone(), part: self.part.clone() }
    }
}

impl RecordBudget {
    /// How long a record may take while others wait for its room.
    pub(super) fn patience(&self) -> Duration {
        self.hosts.limits.unfinished_patience
    }

    /// Whether others wait for it.
    pub(super) fn is_wanted(&self) -> bool {
        self.part.room.is_wanted() || self.hosts.room.is_wanted()
    }
}

/// Room for large replies: that of a host, and that of all.
#[derive(Debug)]
pub(super) struct ReplyRoom {
    hosts: Arc<Hosts>,
    part: Arc<Part>,
}

/// Room that a reply takes until its peer has taken the reply.
pub(super) type SharedRoom = [Option<OwnedSemaphorePermit>; 2];

impl ReplyRoom {
    /// Waits for room, in turn: first in the host's share, so that a host whose peers take nothing
    /// waits for itself.
    pub(super) async fn take(&self, bytes: usize) -> SharedRoom {
        let own = self.part.replies.take(bytes).await;
        [own, self.hosts.replies.take(bytes).await]
    }

    /// The same without waiting; none if there is no room now.
    pub(super) fn try_take(&self, bytes: usize) -> Option<SharedRoom> {
        let own = self.part.replies.try_take(bytes)?;
        Some([Some(own), Some(self.hosts.replies.try_take(bytes)?)])
    }

    /// How long a peer may take for a reply while others wait for its room.
    pub(super) fn patience(&self) -> Duration {
        self.hosts.limits.reply_patience
    }

    /// Whether others wait for it.
    pub(super) fn is_wanted(&self) -> bool {
        self.part.replies.is_wanted() || self.hosts.replies.is_wanted()
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;

    fn hosts() -> Arc<Hosts> {
        Hosts::new(ServerLimits {
            connections_per_host_max: 3,
            unfinished_bytes_max: 10 << 10,
            unfinished_bytes_per_host_max: 6 << 10,
            ..ServerLimits::default()
        })
    }

    fn host(n: u8) -> Host {
        IpAddr::from([10, 0, 0, n]).into()
    }

    /// Polls once.
    async fn now<T>(future: impl Future<Output = T>) -> Option<T> {
        let mut future = std::pin::pin!(future);
        std::future::poll_fn(|cx| match future.as_mut().poll(cx) {
            std::task::Poll::Ready(value) => std::task::Poll::Ready(Some(value)),
            std::task::Poll::Pending => std::task::Poll::Ready(None),
        })
        .await
    }

    /// Both sides of a host's share of connections; others are not concerned, and a place that is
    /// left is free.
    #[test]
    fn connections_are_shared() {
        let hosts = hosts();
        let mut places: Vec<_> = (0..3).map(|_| hosts.enter(host(1)).unwrap()).collect();
        assert!(hosts.enter(host(1)).is_none());
        let other = hosts.enter(host(2)).unwrap();
        places.pop();
        places.push(hosts.enter(host(1)).unwrap());
        assert!(hosts.enter(host(1)).is_none());
        drop((places, other));
        let present = hosts.present.lock().unwrap();
        assert!(present.parts.is_empty() && present.connections == 0);
    }

    /// No host has more than it leaves free, so that each next one finds something; what others
    /// leave is not given to those who have more than that.
    #[test]
    fn newcomers_find_connections() {
        let limits = ServerLimits { connections_max: 100, ..ServerLimits::default() };
        let hosts = Hosts::new(limits);
        let greedy = |n| std::iter::from_fn(|| hosts.enter(host(n))).collect::<Vec<_>>();
        let mut all: Vec<_> = (1..=5).map(greedy).collect();
        assert_eq!(all.iter().map(Vec::len).collect::<Vec<_>>(), [50, 25, 12, 6, 3]);
        all[0].pop();
        assert!(hosts.enter(host(1)).is_none(), "it still has more than is left");
        assert!(hosts.enter(host(5)).is_some());
    }

    /// Both sides of a host's share of room: beyond it the host waits for itself, and others do
    /// not; who gives up waiting leaves nothing behind.
    #[tokio::test]
    async fn room_is_shared() {
        let hosts = hosts();
        let (a, b) = (hosts.enter(host(1)).unwrap(), hosts.enter(host(2)).unwrap());
        let first = now(a.room(4 << 10)).await.unwrap();
        let second = now(a.room(2 << 10)).await.unwrap();
        assert!(!first.is_wanted());
        let mut waiting = Box::pin(a.room(1));
        assert!(now(&mut waiting).await.is_none());
        assert!(first.is_wanted() && second.is_wanted());
        let other = now(b.room(4 << 10)).await.unwrap();
        assert!(!other.is_wanted(), "the other host has no part in it");
        drop(waiting);
        assert!(!first.is_wanted());
        let third = hosts.enter(host(3)).unwrap();
        assert!(now(third.room(1)).await.is_none(), "all there is for everybody is taken");
        drop(second);
        assert!(now(third.room(1)).await.is_some());
        assert!(now(a.room(1)).await.is_some());
    }

    /// Both sides of a host's share of room for replies, and of the room for all; what is refused
    /// for the room of all leaves the host's share as it was.
    #[tokio::test]
    async fn room_for_replies_is_shared() {
        let hosts = Hosts::new(ServerLimits {
            reply_bytes_max: 10 << 10,
            reply_bytes_per_host_max: 6 << 10,
            ..ServerLimits::default()
        });
        let (a, b) = (hosts.enter(host(1)).unwrap(), hosts.enter(host(2)).unwrap());
        let (a, b) = (a.replies(), b.replies());
        let first = now(a.take(6 << 10)).await.unwrap();
        assert!(a.try_take(1).is_none() && !a.is_wanted());
        let mut waiting = Box::pin(a.take(1));
        assert!(now(&mut waiting).await.is_none());
        assert!(a.is_wanted() && !b.is_wanted(), "the other host has no part in it");
        let second = b.try_take(4 << 10).unwrap();
        assert!(b.try_take(1).is_none(), "all there is for everybody is taken");
        assert!(now(&mut waiting).await.is_none());
        drop(first);
        assert!(now(&mut waiting).await.is_some());
        assert!(b.try_take(2 << 10).is_some());
        drop(second);
    }

    /// A record beyond all there is waits for all there is, and not for ever.
    #[tokio::test]
    async fn the_largest_record_fits() {
        let hosts = hosts();
        let place = hosts.enter(host(1)).unwrap();
        let all = now(place.room(1 << 30)).await.unwrap();
        assert!(now(place.room(1)).await.is_none());
        drop(all);
        assert!(now(place.room(1)).await.is_some());
    }
}
