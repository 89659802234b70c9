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
};

use tokio::sync::Mutex as AsyncMutex;
use weft_nfs::{Failure, NfsStat, StableHow};
use weft_store::{
    types::{Content, Inode, InodeNo, Lsn},
    volume::STUFFED_BYTES_MAX,
};

use super::{Mds, data_server_failure, translate};
use crate::{compound::Compound, striped::Striped};

/// How small files are treated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SmallFiles {
    /// A file up to so many bytes is kept in the volume; at most [`STUFFED_BYTES_MAX`]. 0: none.
    pub stuffing_limit_bytes: u64,
    /// Clients send reads and writes of files below so many bytes to the metadata server (RFC 8881
    /// §5.12.4). 0: they are not told to.
    pub threshold_bytes: u64,
}

impl SmallFiles {
    /// Everything is on data servers, and clients go there straight.
    pub const OFF: SmallFiles = SmallFiles { stuffing_limit_bytes: 0, threshold_bytes: 0 };
}

impl Default for SmallFiles {
    fn default() -> Self {
        SmallFiles { stuffing_limit_bytes: 64 << 10, threshold_bytes: 64 << 10 }
    }
}

/// Files that are being moved to their data servers: each by one task at a time.
#[derive(Debug, Default)]
pub(super) struct Moves(Mutex<HashMap<InodeNo, Weak<AsyncMutex<()>>>>);

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
    pub(super) fn stuffs(&self) -> bool {
        self.small_files.stuffing_limit_bytes > 0
    }

    /// Whether a file of this size may be kept in the volume.
    pub(super) fn is_small(&self, size: u64) -> bool {
        size <= self.small_files.stuffing_limit_bytes.min(STUFFED_BYTES_MAX)
    }

    /// Clients send what they read and write of files below so many bytes here.
    pub(super) fn threshold(&self) -> Option<u64> {
        Some(self.small_files.threshold_bytes).filter(|below| *below > 0)
    }

    /// The file on its data servers: it gets a place if it had none, and what the volume has of
    /// it is brought there. Where its bytes are is durable.
    ///
    /// # Errors
    /// LAYOUTUNAVAILABLE when there is no data server at all; those of writing to data servers
    /// (NOSPC, DELAY): the bytes are still in the volume then.
    pub(super) async fn on_data_servers(
        &self,
        c: &mut Compound<Mds>,
        inode: Inode,
    ) -> Result<(Inode, Striped), Failure> {
        let was_there = inode.placement.is_some() && !inode.stuffed;
        let (inode, striped) = self.placed(c, inode)?;
        if was_there {
            return Ok((inode, striped));
        }
        // The place comes first: objects that nobody knows of would stay for ever.
        self.volume.durable(Lsn(c.depends_on)).await.map_err(|e| translate::status(&e))?;
        if !inode.stuffed {
            return Ok((inode, striped));
        }
        let turn = self.moves.turn(inode.no);
        let _turn = turn.lock().await;
        let inode = c.see(self.volume.inode(inode.no))?;
        let inode = if inode.stuffed { self.move_out(c, inode).await? } else { inode };
        let striped = self.striped(&inode).ok_or(NfsStat::SERVERFAULT)?;
        Ok((inode, striped))
    }

    async fn move_out(&self, c: &mut Compound<Mds>, inode: Inode) -> Result<Inode, Failure> {
        // A copy that was given up before must not be carried out after this one.
        let inode = self.outranked(inode).await?;
        let striped = self.striped(&inode).ok_or(NfsStat::SERVERFAULT)?;
        let mut at = 0;
        while let Some(data) = c.see(self.volume.seek_stuffed(inode.no, Content::Data, at))? {
            let hole = c.see(self.volume.seek_stuffed(inode.no, Content::Hole, data))?;
            at = hole.unwrap_or(inode.size);
            let read = c.see(self.volume.read_stuffed(inode.no, data, at - data))?;
            let (_, bytes) = read.ok_or(NfsStat::SERVERFAULT)?;
            let written =
                self.data_servers.write(&striped, data, bytes, StableHow::FILE_SYNC).await;
            self.suspect_if_unanswered(&inode, &written);
            written.map_err(data_server_failure)?;
        }
        // That they were written just now is no news to anybody.
        if let Some(Ok(truth)) = self.data_servers.truth(&[&striped]).await.pop() {
            self.files.lock().tell_truth(&inode, truth);
        }
        let moved = c.see(self.volume.unstuff(inode.no))?;
        // Who is told of objects writes to them: after a crash the volume's bytes must not win.
        self.volume.durable(Lsn(c.depends_on)).await.map_err(|e| translate::status(&e))?;
        Ok(moved)
    }
}
