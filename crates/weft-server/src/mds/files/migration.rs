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

use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard};
use weft_nfs::{Failure, NfsStat, StableHow};
use weft_store::{
    types::{Inode, InodeNo, Lsn, Placement},
    volume::{STUFFED_BYTES_MAX, StuffedExtent},
};

use crate::mds::{Mds, data_server_failure, translate};
use crate::{compound::Compound, striped::Striped};

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
pub(in crate::mds) struct Moves(Mutex<HashMap<InodeNo, Weak<AsyncMutex<()>>>>);

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

impl Mds {
    /// Whether a file that begins now begins in the volume.
    pub(in crate::mds) fn stuffs(&self) -> bool {
        self.small_files.stuffing_limit_bytes > 0
    }

    /// Whether a file of this size may be kept in the volume.
    pub(in crate::mds) fn is_small(&self, size: u64) -> bool {
        size <= self.small_files.stuffing_limit_bytes.min(STUFFED_BYTES_MAX)
    }

    /// Writes of small files may go to the volume, which has room for them.
    pub(in crate::mds) fn may_stuff(&self) -> bool {
        !self.reserve.is_scarce()
    }

    /// The file on its data servers: it gets a place if it had none, and what the volume has of
    /// it is brought there. Where its bytes are is durable.
    ///
    /// # Errors
    /// NOSPC when there is no data server at all; DELAY while others take long to move it; those
    /// of writing to data servers (NOSPC, DELAY): the bytes are still in the volume then.
    pub(in crate::mds) async fn on_data_servers(
        &self,
        c: &mut Compound<Mds>,
        inode: Inode,
    ) -> Result<(Inode, Striped), Failure> {
        self.on_data_servers_at(c, inode, None).await
    }

    /// The same; a file without a place gets this one.
    ///
    /// # Errors
    /// Those of [`Mds::on_data_servers`].
    pub(in crate::mds) async fn on_data_servers_at(
        &self,
        c: &mut Compound<Mds>,
        inode: Inode,
        wish: Option<Placement>,
    ) -> Result<(Inode, Striped), Failure> {
        let was_there = inode.placement.is_some() && !inode.stuffed;
        if was_there {
            self.placement_durable(c).await?;
            return self.placed(c, inode, wish);
        }
        // Once in the life of a file and large: not a part of every request's memory.
        Box::pin(self.bring_to_data_servers(c, inode, wish)).await
    }

    async fn bring_to_data_servers(
        &self,
        c: &mut Compound<Mds>,
        inode: Inode,
        wish: Option<Placement>,
    ) -> Result<(Inode, Striped), Failure> {
        self.files.lock().begin_move(&inode);
        let (inode, striped) = self.placed(c, inode, wish)?;
        // The place comes first: objects that nobody knows of would stay for ever.
        self.volume.durable(Lsn(c.depends_on)).await.map_err(|e| translate::status(&e))?;
        self.objects_of_placed(c, &striped).await?;
        if !inode.stuffed {
            return Ok((inode, striped));
        }
        let _turn = self.lock_migration(inode.no).await?;
        let inode = c.see(self.volume.inode(inode.no))?;
        let inode = if inode.stuffed { self.move_out(c, inode).await? } else { inode };
        let striped = self.striped(&inode).ok_or(NfsStat::SERVERFAULT)?;
        Ok((inode, striped))
    }

    /// Nobody moves the file as long as the result lives.
    ///
    /// # Errors
    /// DELAY when who moves it takes long: the client asks again, and renews its lease.
    pub(in crate::mds) async fn lock_migration(
        &self,
        ino: InodeNo,
    ) -> Result<OwnedMutexGuard<()>, NfsStat> {
        let patience = TURN_PATIENCE.min(Duration::from_secs(self.core.lease_s.into()) / 4);
        let turn = self.moves.turn(ino).lock_owned();
        tokio::time::timeout(patience, turn).await.map_err(|_| NfsStat::DELAY)
    }

    async fn move_out(&self, c: &mut Compound<Mds>, inode: Inode) -> Result<Inode, Failure> {
        // A copy that was given up before must not be carried out after this one.
        let inode = self.with_fresh_epoch(inode).await?;
        let striped = self.striped(&inode).ok_or(NfsStat::SERVERFAULT)?;
        let mut at = 0;
        while at < inode.size {
            let extent = c.see(self.volume.extent_stuffed(inode.no, at, inode.size - at))?;
            match extent.ok_or(NfsStat::SERVERFAULT)? {
                StuffedExtent::Hole(len) => at += len,
                StuffedExtent::Data(bytes) => {
                    let len = bytes.len() as u64;
                    let stable = StableHow::FILE_SYNC;
                    let written = self.data_servers.write(&striped, at, bytes, stable).await;
                    self.note_outcome(&inode, &written);
                    written.map_err(data_server_failure)?;
                    at += len;
                }
            }
        }
        // That they were written just now is no news to anybody.
        if let Some(Ok(truth)) = self.data_servers.fetch_attrs(&[&striped]).await.pop() {
            self.files.lock().fetched_own(&inode, truth);
        }
        let moved = c.see(self.volume.unstuff(inode.no))?;
        // Who is told of objects writes to them: after a crash the volume's bytes must not win.
        self.volume.durable(Lsn(c.depends_on)).await.map_err(|e| translate::status(&e))?;
        Ok(moved)
    }
}
