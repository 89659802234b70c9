//! Small files (P3.2, P0.2; design D7, D17): while a file is small its bytes are in the volume, and
//! clients are told to send what they read and write of it here.
//!
//! A file leaves for its data servers once, when somebody writes beyond the limit or is given a
//! layout to write with. Its place is recorded first; from then on its bytes stand still, are
//! copied, and at last the volume lets go of them. A crash between finds bytes and place, and
//! whoever needs the file on its data servers next begins the copy anew.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, Weak},
    time::Duration,
};

use bytes::Bytes;
use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard};
use weft_nfs::{Failure, NfsStat, StableHow};
use weft_store::{
    types::{Inode, InodeNo, Placement, StoreError},
    volume::{STUFFED_BYTES_MAX, StuffedExtent},
};

use super::{
    change::{Changes, Done},
    creation::Creation,
    plan::Plan,
    remains::{Remains, Turn},
    shared::Shared,
};
use crate::{deps::Deps, striped::Striped};

/// How long a file that somebody else moves is waited for, unless the lease is short.
const TURN_PATIENCE: Duration = Duration::from_secs(3);

/// How small files are treated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SmallFiles {
    /// A file up to so many bytes is kept in the volume; at most [`STUFFED_BYTES_MAX`]. 0: none.
    pub stuffing_limit_bytes: u64,
    /// Clients send reads and writes of files below so many bytes to the metadata server (RFC 8881
    /// §5.12.4), until another threshold is set. 0: they are not told to.
    pub threshold_bytes: u64,
    /// The threshold of files on data servers goes down while this server is busy.
    pub adaptive: bool,
    /// Small writes that come here for files on data servers wait so as to leave together.
    pub gather: bool,
}

impl SmallFiles {
    /// Everything is on data servers, and clients go there straight. What comes here all the same
    /// is gathered.
    pub const OFF: SmallFiles =
        SmallFiles { stuffing_limit_bytes: 0, threshold_bytes: 0, adaptive: true, gather: true };
}

impl Default for SmallFiles {
    fn default() -> Self {
        SmallFiles {
            stuffing_limit_bytes: 64 << 10,
            threshold_bytes: 64 << 10,
            adaptive: true,
            gather: true,
        }
    }
}

/// Files that are being moved to their data servers: each by one task at a time.
#[derive(Debug, Default)]
struct Moves(Mutex<HashMap<InodeNo, Weak<AsyncMutex<()>>>>);

impl Moves {
    /// The turn of a file: whoever holds it locked may move the file.
    fn turn(&self, ino: InodeNo) -> Arc<AsyncMutex<()>> {
        let mut turns = self.0.lock().expect("moves lock");
        if let Some(turn) = turns.get(&ino).and_then(Weak::upgrade) {
            return turn;
        }
        turns.retain(|_, turn| turn.strong_count() > 0);
        let turn = Arc::new(AsyncMutex::new(()));
        turns.insert(ino, Arc::downgrade(&turn));
        turn
    }
}

/// Files on their way from the volume to data servers.
pub(crate) struct Migration {
    shared: Arc<Shared>,
    changes: Arc<Changes>,
    creation: Arc<Creation>,
    remains: Remains,
    stuffing_limit_bytes: u64,
    moves: Moves,
}

impl Migration {
    /// Of a volume that keeps files up to a limit.
    ///
    /// # Errors
    /// The volume cannot be read.
    pub(crate) fn start(
        shared: &Arc<Shared>,
        changes: &Arc<Changes>,
        creation: &Arc<Creation>,
        stuffing_limit_bytes: u64,
    ) -> Result<Self, StoreError> {
        Ok(Migration {
            shared: shared.clone(),
            changes: changes.clone(),
            creation: creation.clone(),
            remains: Remains::start(shared)?,
            stuffing_limit_bytes: stuffing_limit_bytes.min(STUFFED_BYTES_MAX),
            moves: Moves::default(),
        })
    }

    /// Up to which size a file may be kept in the volume, bytes.
    pub(crate) fn stuffing_limit_bytes(&self) -> u64 {
        self.stuffing_limit_bytes
    }

    /// Whether a file of this size may be kept in the volume.
    pub(crate) fn is_small(&self, size: u64) -> bool {
        size <= self.stuffing_limit_bytes
    }

    /// Writes of small files may go to the volume, which has room for them.
    pub(crate) fn may_stuff(&self) -> bool {
        self.shared.volume.has_room()
    }

    /// The file on its data servers: it gets a place if it had none, and what the volume has of
    /// it is brought there. Where its bytes are is durable.
    ///
    /// # Errors
    /// NXIO when there is no data server at all, DELAY while none is up or others take long to move
    /// it; those of writing to data servers (NOSPC, DELAY): the bytes are still in the volume then.
    pub(crate) async fn on_data_servers(
        &self,
        deps: &mut Deps,
        inode: Inode,
    ) -> Result<(Inode, Striped), Failure> {
        self.on_data_servers_at(deps, inode, None).await
    }

    /// The same; a file without a place gets this one.
    ///
    /// # Errors
    /// Those of [`Migration::on_data_servers`].
    async fn on_data_servers_at(
        &self,
        deps: &mut Deps,
        inode: Inode,
        wish: Option<Placement>,
    ) -> Result<(Inode, Striped), Failure> {
        let was_there = inode.placement.is_some() && !inode.stuffed;
        if was_there {
            self.shared.placement_durable(deps).await?;
            self.cut_remains(&inode).await?;
            return self.shared.placed(deps, inode, wish).await;
        }
        // Once in the life of a file and large: not a part of every request's memory.
        Box::pin(self.bring(deps, inode, wish)).await
    }

    /// The file on its data servers; one that was never written gets its stripes where those of
    /// `source` can copy to them themselves, from the byte `from` there to the byte `to` here.
    ///
    /// # Errors
    /// Those of [`Migration::on_data_servers`].
    pub(crate) async fn place_beside(
        &self,
        deps: &mut Deps,
        (source, from): (&Inode, u64),
        (destination, to): (Inode, u64),
    ) -> Result<(), Failure> {
        if destination.placement.is_some() && !destination.stuffed {
            self.shared.placement_durable(deps).await?;
            return self.cut_remains(&destination).await;
        }
        let beside = self.shared.striped(source).and_then(|s| s.first_index_beside(from, to));
        let placements = &self.shared.placements;
        let serves = |p: &Placement| {
            // Copies are made through here: nothing is gained by having them beside each other.
            let choice = destination.layout.as_ref();
            !p.is_copied()
                && placements.serves(p.device)
                && choice.is_none_or(|choice| placements.suits(choice, p))
        };
        let wish =
            source.placement.filter(serves).zip(beside).map(|(there, first_stripe_index)| {
                let reach = placements.first_reach(&there);
                Placement { first_stripe_index, reach, ..there }
            });
        self.on_data_servers_at(deps, destination, wish).await.map(drop)
    }

    /// Nothing of a placed file is left on its data servers that the volume does not know.
    ///
    /// # Errors
    /// Those of data servers, as statuses.
    pub(crate) async fn cut_remains(&self, inode: &Inode) -> Result<(), Failure> {
        if !self.remains.may_be(inode) {
            return Ok(());
        }
        // Once in the life of a file, and only after a restoration.
        Ok(Box::pin(self.remains.cut(inode)).await?)
    }

    /// The place that the file has or gets, with nothing there that the volume does not know; to be
    /// held until it has it.
    async fn cleared(
        &self,
        inode: &Inode,
        wish: Option<Placement>,
    ) -> Result<(Placement, Turn<'_>), NfsStat> {
        let place = match inode.placement.or(wish) {
            Some(place) => place,
            None => self.shared.placements.next(inode.layout.as_deref()).await?,
        };
        Ok((place, self.remains.clear(inode, &place).await?))
    }

    async fn bring(
        &self,
        deps: &mut Deps,
        inode: Inode,
        wish: Option<Placement>,
    ) -> Result<(Inode, Striped), Failure> {
        self.shared.records.lock().begin_move(&inode);
        let cleared = match self.remains.may_be(&inode) {
            true => Some(self.cleared(&inode, wish).await?),
            false => None,
        };
        let wish = cleared.as_ref().map(|(place, _)| *place).or(wish);
        let (inode, striped) = self.shared.placed(deps, inode, wish).await?;
        drop(cleared);
        // The place comes first: objects that nobody knows of would stay for ever.
        self.shared.durable(deps).await?;
        self.creation.objects_of_placed(deps, &striped).await?;
        if !inode.stuffed {
            return Ok((inode, striped));
        }
        let lock = self.lock(inode.no).await?;
        let inode = deps.see(self.shared.volume.inode(inode.no))?;
        let inode = if inode.stuffed { self.move_out(deps, inode, lock).await? } else { inode };
        let striped = self.shared.striped(&inode).ok_or(NfsStat::SERVERFAULT)?;
        Ok((inode, striped))
    }

    /// Nobody moves the file as long as the result lives.
    ///
    /// # Errors
    /// DELAY when whoever moves it takes long: the client asks again, and renews its lease.
    pub(crate) async fn lock(&self, ino: InodeNo) -> Result<OwnedMutexGuard<()>, NfsStat> {
        let patience = TURN_PATIENCE.min(Duration::from_secs(self.shared.lease_s.into()) / 4);
        let turn = self.moves.turn(ino).lock_owned();
        tokio::time::timeout(patience, turn).await.map_err(|_| NfsStat::DELAY)
    }

    async fn move_out(
        &self,
        deps: &mut Deps,
        inode: Inode,
        lock: OwnedMutexGuard<()>,
    ) -> Result<Inode, Failure> {
        let extents = self.extents(deps, &inode)?;
        let data_servers = &self.shared.data_servers;
        let change = self.changes.begin(Plan::migrate(inode.no, lock));
        let moved = change.run(deps, |target| {
            let extents = extents.clone();
            async move {
                for (at, bytes) in extents {
                    data_servers.write(&target, at, bytes, StableHow::FILE_SYNC).await?;
                }
                Ok(Done { value: (), reaches: None })
            }
        });
        Ok(moved.await?.1)
    }

    /// What the volume has of a file: bytes and where they begin. They stand still while the file
    /// is moved.
    fn extents(&self, deps: &mut Deps, inode: &Inode) -> Result<Vec<(u64, Bytes)>, Failure> {
        let (mut at, mut extents) = (0, Vec::new());
        while at < inode.size {
            let extent = self.shared.volume.extent_stuffed(inode.no, at, inode.size - at);
            match deps.see(extent)?.ok_or(NfsStat::SERVERFAULT)? {
                StuffedExtent::Hole(len) => at += len,
                StuffedExtent::Data(bytes) => {
                    let len = bytes.len() as u64;
                    extents.push((at, bytes));
                    at += len;
                }
            }
        }
        Ok(extents)
    }
}
