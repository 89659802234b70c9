//! Copies between two files, step by step (RFC 7862 §15.2): by the data servers among themselves
//! where the stripes line up, else through the metadata server; never through the client.

use std::sync::Weak;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;
use weft_nfs::{
    ClientId, IO_BYTES_MAX, NfsStat, StableHow, Stateid, Verifier,
    callback::{CbOffloadArgs, CbOp, OffloadInfo},
    ops::WriteResponse,
};
use weft_store::{
    types::{Content, Inode, InodeNo, Lsn},
    volume::{Settle, StuffedExtent, StuffedWrite},
};

use crate::mds::{Mds, translate};
use crate::{
    data_servers::{DataServerError, DataServers},
    striped::Striped,
};

/// Steps of all copies at once. Each is a few megabytes here, or a thread of each data server's, and
/// asking for one costs a client next to nothing.
pub(in crate::mds) const STEPS_AT_ONCE: usize = 16;
/// Times a copy begins anew because a data server may have lost some of it.
const ATTEMPTS_MAX: usize = 3;
/// How long a copy that goes on after its reply waits for a data server or a truncation.
const PATIENCE: Duration = Duration::from_secs(60);
/// Pause before a step, or the word of the end, is tried again.
const PAUSE: Duration = Duration::from_millis(200);

/// What is to be copied.
#[derive(Debug, Clone, Copy)]
pub(in crate::mds) struct Copy {
    pub(in crate::mds) source: InodeNo,
    pub(in crate::mds) destination: InodeNo,
    /// First byte in the source.
    pub(in crate::mds) from: u64,
    /// First byte in the destination.
    pub(in crate::mds) to: u64,
    /// Bytes.
    pub(in crate::mds) len: u64,
    /// Set-id bits of the destination go.
    pub(in crate::mds) drop_privileges: bool,
}

/// How far a copy is.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::mds) struct Copied {
    /// Bytes, from the first.
    pub(in crate::mds) len: u64,
    /// What the destination's metadata depends on.
    pub(in crate::mds) lsn: u64,
    /// The verifier of all writes so far, if there were any.
    verifier: Option<Verifier>,
    /// Writes have told different ones: some may be lost.
    doubtful: bool,
}

/// Where bytes are copied from.
#[derive(Debug)]
enum Origin {
    /// The file is small: they are here.
    Here(Bytes),
    /// Nobody ever wrote so many of them: they are a hole.
    Nowhere(u64),
    /// On its data servers.
    DataServers(Striped),
}

/// One step.
#[derive(Debug)]
struct Step {
    len: u64,
    verifier: Option<Verifier>,
}

impl Mds {
    /// Copies, and makes durable what was copied: all of it, or as much as could be before
    /// `go_on` said no or a step failed.
    ///
    /// # Errors
    /// Nothing was copied, or what was may be lost.
    pub(in crate::mds) async fn copy(
        &self,
        copy: &Copy,
        mut go_on: impl FnMut(u64) -> bool,
    ) -> Result<(Copied, Verifier), NfsStat> {
        for _ in 0..ATTEMPTS_MAX {
            let mut copied = Copied::default();
            while copied.len < copy.len && go_on(copied.len) {
                match self.copy_step(copy, &mut copied).await {
                    Ok(()) => {}
                    Err(status) if copied.len == 0 => return Err(status),
                    // §15.2.3: what was copied before counts.
                    Err(_) => break,
                }
            }
            self.clear_extending(copy.destination);
            if let Some(verifier) = self.copy_is_safe(copy, &copied).await? {
                return Ok((copied, verifier));
            }
        }
        Err(NfsStat::DELAY)
    }

    /// Copies as much as one step does.
    async fn copy_step(&self, copy: &Copy, copied: &mut Copied) -> Result<(), NfsStat> {
        let _room = self.copy_steps.acquire().await.map_err(|_| NfsStat::SERVERFAULT)?;
        let destination = self.inode_now(copy.destination)?;
        let _writing = self.files.begin_write(&destination).ok_or(NfsStat::DELAY)?;
        // Nothing given up before may land on top of what comes now. A newer epoch alone does not
        // see to that as with WRITE: data servers learn none from copying.
        self.fence(destination.no).await?;
        let destination = self.mark_extending(destination.no, copy.to + copy.len).await?;
        if self.is_small(copy.to + copy.len) && self.copy_small(copy, copied)? {
            return Ok(());
        }
        // One of two small files has left since, or is leaving: asked again, COPY brings the
        // destination to its data servers.
        let target = self.striped(&destination).filter(|_| !destination.stuffed);
        let target = target.ok_or(NfsStat::DELAY)?;
        let origin = self.origin(copy, copied.len)?;
        let to = copy.to + copied.len;
        let done = self.step(origin, (&destination, &target), copy, copied.len).await;
        self.note_outcome(&destination, &done);
        let step = done.map_err(|e| translate::data_server_status(&e))?;
        let now = self.wall();
        let learned = Settle::written(to + step.len, now, copy.drop_privileges);
        let settled = self.volume.settle(destination.no, &learned, now);
        let changed = settled.value.map_err(|e| translate::status(&e))?;
        self.files.lock().changed(&changed);
        copied.lsn = copied.lsn.max(settled.lsn.0);
        copied.len += step.len;
        if let Some(verifier) = step.verifier {
            copied.doubtful |= copied.verifier.is_some_and(|before| before != verifier);
            copied.verifier = Some(verifier);
        }
        Ok(())
    }

    /// From one small file to another, or `false`. One that grows too big meanwhile, or whose bytes
    /// have left, is copied the other way.
    fn copy_small(&self, copy: &Copy, copied: &mut Copied) -> Result<bool, NfsStat> {
        let left = copy.len - copied.len;
        let read = self.volume.read_stuffed(copy.source, copy.from + copied.len, left);
        let Some((_, data)) = read.value.map_err(|e| translate::status(&e))? else {
            return Ok(false);
        };
        let write = StuffedWrite {
            offset: copy.to + copied.len,
            data: &data,
            limit: self.small_files.stuffing_limit_bytes,
            drop_privileges: copy.drop_privileges,
        };
        let written = self.volume.write_stuffed(copy.destination, &write, self.wall());
        let lsn = written.lsn.max(read.lsn);
        let is_written = written.value.map_err(|e| translate::status(&e))?.is_some();
        if is_written {
            copied.lsn = copied.lsn.max(lsn.0);
            copied.len += left;
        }
        Ok(is_written)
    }

    /// Where the next bytes of the source are.
    fn origin(&self, copy: &Copy, done: u64) -> Result<Origin, NfsStat> {
        let left = copy.len - done;
        let here = self.volume.extent_stuffed(copy.source, copy.from + done, left);
        match here.value.map_err(|e| translate::status(&e))? {
            Some(StuffedExtent::Data(data)) => Ok(Origin::Here(data)),
            Some(StuffedExtent::Hole(len)) => Ok(Origin::Nowhere(len)),
            None => {
                let source = self.inode_now(copy.source)?;
                Ok(self.striped(&source).map_or(Origin::Nowhere(left), Origin::DataServers))
            }
        }
    }

    async fn step(
        &self,
        origin: Origin,
        (destination, target): (&Inode, &Striped),
        copy: &Copy,
        done: u64,
    ) -> Result<Step, DataServerError> {
        let (from, to, left) = (copy.from + done, copy.to + done, copy.len - done);
        let origin = match origin {
            Origin::DataServers(origin) => origin,
            Origin::Nowhere(len) => return self.copy_hole(destination, target, to, len).await,
            Origin::Here(data) => return self.copy_data(data, target, to).await,
        };
        if origin.lines_up(from, target, to) {
            let len = left.min(DataServers::copy_bytes_max(target));
            match self.data_servers.copy(&origin, from, target, to, len).await {
                Err(DataServerError::Unsupported { .. }) => {}
                done => return Ok(Step { len, verifier: Some(done?) }),
            }
        }
        match self.data_servers.seek(&origin, Content::Data, from, from + left).await? {
            Some(data) if data == from => self.copy_through(&origin, from, target, to, left).await,
            data => {
                let hole = data.map_or(left, |data| data - from);
                self.copy_hole(destination, target, to, hole).await
            }
        }
    }

    /// Through here: read and written again.
    async fn copy_through(
        &self,
        origin: &Striped,
        from: u64,
        target: &Striped,
        to: u64,
        left: u64,
    ) -> Result<Step, DataServerError> {
        let len = left.min(IO_BYTES_MAX as u64);
        let data = self.data_servers.read(origin, from, len).await?;
        self.copy_data(data, target, to).await
    }

    async fn copy_data(
        &self,
        data: Bytes,
        target: &Striped,
        to: u64,
    ) -> Result<Step, DataServerError> {
        let len = data.len() as u64;
        let (_, verifier) = self.data_servers.write(target, to, data, StableHow::UNSTABLE).await?;
        Ok(Step { len, verifier: Some(verifier) })
    }

    /// Where the source has a hole the destination gets one, as far as it reached before.
    async fn copy_hole(
        &self,
        destination: &Inode,
        target: &Striped,
        to: u64,
        len: u64,
    ) -> Result<Step, DataServerError> {
        if destination.size > to {
            self.data_servers.punch(target, to, len).await?;
        }
        Ok(nothing(len))
    }

    /// Makes what was copied durable: the verifier, or `None` if some of it may be lost.
    async fn copy_is_safe(
        &self,
        copy: &Copy,
        copied: &Copied,
    ) -> Result<Option<Verifier>, NfsStat> {
        let destination = self.inode_now(copy.destination)?;
        // Also when only holes were copied: Linux compares the verifier with that of the COMMIT it
        // sends along, and copies anew for as long as they differ.
        let verifier = match self.striped(&destination) {
            Some(target) => {
                let committed = self.data_servers.commit(&target).await;
                committed.map_err(|e| translate::data_server_status(&e))?
            }
            None => Verifier::default(),
        };
        let safe = !copied.doubtful && copied.verifier.is_none_or(|v| v == verifier);
        if !safe {
            return Ok(None);
        }
        self.volume.durable(Lsn(copied.lsn)).await.map_err(|e| translate::status(&e))?;
        Ok(Some(verifier))
    }

    fn inode_now(&self, ino: InodeNo) -> Result<Inode, NfsStat> {
        self.volume.inode(ino).value.map_err(|e| translate::status(&e))
    }

    /// Carries out a copy after its reply, and tells the client how it ended until it has heard.
    /// The destination is being changed ([`weft_state::State::begin_change`]) until the copy ends.
    pub(in crate::mds) async fn copy_offloaded(
        me: Weak<Mds>,
        client: ClientId,
        id: Stateid,
        copy: Copy,
    ) {
        let mut patient_until = Instant::now() + PATIENCE;
        let mut done = 0;
        let ended = loop {
            let Some(mds) = me.upgrade() else { return };
            let rest =
                Copy { from: copy.from + done, to: copy.to + done, len: copy.len - done, ..copy };
            let mut stopped = false;
            let went = mds.copy(&rest, |n| {
                let go_on = mds.offloads().progress(&id, done + n);
                stopped |= !go_on;
                go_on
            });
            match went.await {
                _ if stopped => break Err(NfsStat::DELAY),
                Ok((copied, verifier)) if done + copied.len == copy.len => break Ok(verifier),
                Ok((copied, _)) => {
                    done += copied.len;
                    patient_until = Instant::now() + PATIENCE;
                }
                Err(NfsStat::DELAY) if Instant::now() < patient_until => {}
                Err(status) => break Err(status),
            }
            drop(mds);
            tokio::time::sleep(PAUSE).await;
        };
        let Some(mds) = me.upgrade() else { return };
        mds.state().end_change(mds.handle(copy.destination).key());
        let copied = if ended.is_ok() { copy.len } else { done };
        let status = ended.err().unwrap_or(NfsStat::OK);
        let wanted = mds.offloads().end(&id, copied, status);
        if wanted {
            let op = outcome(&mds, &copy, id, copied, ended);
            drop(mds);
            tell(&me, client, &id, &op).await;
        }
        if let Some(mds) = me.upgrade() {
            mds.offloads().forget(&id);
        }
    }
}

/// A step that wrote nothing.
fn nothing(len: u64) -> Step {
    Step { len, verifier: None }
}

/// CB_OFFLOAD: RFC 7862 §16.1.
fn outcome(
    mds: &Mds,
    copy: &Copy,
    stateid: Stateid,
    copied: u64,
    ended: Result<Verifier, NfsStat>,
) -> CbOp {
    let info = match ended {
        Ok(writeverf) => OffloadInfo::Done(WriteResponse {
            callback_id: None,
            count: copied,
            committed: StableHow::FILE_SYNC,
            writeverf,
        }),
        Err(status) => OffloadInfo::Failed { status, bytes_copied: copied },
    };
    CbOp::Offload(CbOffloadArgs { fh: mds.handle(copy.destination).to_wire(), stateid, info })
}

/// Calls the client back until it answers, or is gone. A client that hears nothing waits for
/// ever, unless it asks (Linux before 6.14 does not).
async fn tell(me: &Weak<Mds>, client: ClientId, id: &Stateid, op: &CbOp) {
    while let Some(mds) = me.upgrade() {
        if !mds.offloads().is_known(id) {
            return;
        }
        match mds.call_back(client, op).await {
            Ok(NfsStat::DELAY) => {}
            Ok(status) => {
                if status != NfsStat::OK {
                    tracing::debug!(client = client.0, %status, "the end of a copy");
                }
                return;
            }
            Err(e) => tracing::debug!(client = client.0, error = %e, "the end of a copy"),
        }
        drop(mds);
        tokio::time::sleep(PAUSE).await;
    }
}

#[cfg(test)]
mod tests {
    use weft_store::{
        types::{Credential, Timestamp},
        volume::{New, NewFileData},
    };

    use super::*;
    use crate::mds::testing::lone_mds;

    /// Of two small files that are to be copied within the volume one leaves meanwhile: nothing is
    /// said to be copied before the other one is on its data servers too.
    #[tokio::test]
    async fn a_copy_waits_for_the_destination_to_leave() {
        let mds = lone_mds().await;
        let make = |name: &[u8], stuffed| {
            let (root, now) = (Credential::superuser(), Timestamp::default());
            let data = if stuffed { NewFileData::Stuffed } else { NewFileData::Later };
            let new = New { data, size: Some(100), ..New::file(0o644) };
            let made = mds.volume.create(InodeNo::ROOT, name, &new, &root, now);
            made.value.unwrap().inode.no
        };
        let (source, destination) = (make(b"left", false), make(b"small", true));
        let copy = Copy { source, destination, from: 0, to: 0, len: 100, drop_privileges: false };
        assert_eq!(mds.copy(&copy, |_| true).await.err(), Some(NfsStat::DELAY));
        let here = Copy { source: make(b"here", true), ..copy };
        assert_eq!(mds.copy(&here, |_| true).await.unwrap().0.len, 100);
    }
}
