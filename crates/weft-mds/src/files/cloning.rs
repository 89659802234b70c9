//! Clones of ranges (RFC 7862 §15.13): what data servers can share is shared, the rest is copied,
//! while nobody else writes to the file.
//!
//! Within the volume a clone is one commit. On data servers it goes step by step in the file's
//! order: holes first, in one message however large they are; then all that is on one data server
//! on both sides; then what is not, or cannot be shared.

use std::sync::Arc;

use bytes::Bytes;
use weft_nfs::{Failure, IO_BYTES_MAX};
use weft_store::{
    types::{Content, InodeNo},
    volume::StuffedExtent,
};

use super::{
    change::Done,
    copying::{Copied, Copy, Target},
    plan::{Plan, Quiesced, Writer},
    service::FileService,
};
use crate::{
    data_servers::{Between, DataServerError, DataServers},
    deps::Deps,
    striped::Striped,
};

/// Offsets and lengths of clones are multiples of it: the block of the file systems that share
/// (`clone_blksize`).
pub(crate) const CLONE_BLOCK_BYTES: u64 = 4096;

/// Times a clone begins anew because a data server may have lost some of it.
const ATTEMPTS_MAX: usize = 3;

/// A range of a file that is to become the same as one of another, or of its own.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CloneRange {
    /// The file it comes from.
    pub(crate) source: InodeNo,
    /// First byte there.
    pub(crate) from: u64,
    /// First byte in the file that is changed.
    pub(crate) to: u64,
    /// Bytes.
    pub(crate) len: u64,
}

/// Where the bytes are when a clone begins.
#[derive(Debug)]
enum Origin {
    /// In the volume: bytes, each with its place in the range. All between is a hole.
    Here(Vec<(u64, Bytes)>),
    /// On data servers.
    DataServers,
}

/// A clone between files on data servers, under way.
struct Cloning<'a> {
    files: &'a FileService,
    source: InodeNo,
    target: &'a Striped,
    /// How far the file reached before.
    size: u64,
    /// Nobody said yet that blocks cannot be shared.
    shares: bool,
    copied: Copied,
}

impl FileService {
    /// Whether some data server's disk can share blocks: where none can, programs had better copy.
    /// `None` while one is away that never told.
    pub(crate) async fn share_blocks(&self) -> Option<bool> {
        self.shared.data_servers.share_blocks().await
    }

    /// Makes a range the same as one of another file, or of its own that does not overlap. It is
    /// durable then. Readers may see one part before another.
    ///
    /// # Errors
    /// IO if the source has lost bytes; DELAY if one of the files leaves the volume meanwhile;
    /// those of data servers: some of them may have done their part.
    pub(crate) async fn clone_range<'a>(
        &'a self,
        deps: &mut Deps,
        quiesced: Quiesced<'a>,
        by: Writer,
        range: CloneRange,
    ) -> Result<(), Failure> {
        let CloneRange { source, from, to, len } = range;
        self.shared.require_whole_source(source).await?;
        let target = deps.see(self.shared.volume.inode(quiesced.ino()))?;
        let quiesced = self.hold_still(quiesced, &target).await?;
        // What others wrote before they gave their layouts back is in it.
        let target = self.refresh(deps, target).await?;
        // A file that is not settled may have bytes behind the size that is known, where the source
        // has a hole: nobody learns a size while writes are blocked.
        let reached = if target.unsettled { u64::MAX } else { target.size };
        let (destination, set_id_loss) = (target.no, by.set_id_loss);
        let copy = Copy { source, destination, from, to, len, set_id_loss };
        if self.migration.is_small(to + len) && self.copy_small(deps, &copy)? {
            return Ok(());
        }
        let origin = self.origin_of(deps, &range)?;
        let change = self.changes.begin(Plan::clone_range(quiesced, by, to + len));
        let cloned = change.run(deps, |file| {
            let origin = &origin;
            async move {
                self.clone_durably(origin, &file, reached, range).await?;
                Ok(Done { value: (), reaches: Some(to + len) })
            }
        });
        cloned.await.map(drop)
    }

    /// Where the source is now; a small file's bytes are taken at this moment.
    fn origin_of(&self, deps: &mut Deps, range: &CloneRange) -> Result<Origin, Failure> {
        let (mut at, mut extents) = (0, Vec::new());
        while at < range.len {
            let (from, left) = (range.from + at, range.len - at);
            let extent = self.shared.volume.extent_stuffed(range.source, from, left);
            at += match deps.see(extent)? {
                Some(StuffedExtent::Hole(len)) => len,
                Some(StuffedExtent::Data(bytes)) => {
                    let len = bytes.len() as u64;
                    extents.push((at, bytes));
                    len
                }
                None => {
                    let source = self.shared.inode_now(range.source)?;
                    return Ok(match source.placement {
                        Some(_) => Origin::DataServers,
                        // One that was never written is one hole.
                        None => Origin::Here(Vec::new()),
                    });
                }
            };
        }
        Ok(Origin::Here(extents))
    }

    /// All of it, until no data server has lost any.
    async fn clone_durably(
        &self,
        origin: &Origin,
        file: &Striped,
        size: u64,
        range: CloneRange,
    ) -> Result<(), DataServerError> {
        for _ in 0..ATTEMPTS_MAX {
            let copied = match origin {
                Origin::Here(extents) => self.clone_extents(extents, file, size, range).await?,
                Origin::DataServers => {
                    let (source, shares, copied) = (range.source, true, Copied::default());
                    let way = Cloning { files: self, source, target: file, size, shares, copied };
                    way.run(range).await?
                }
            };
            if copied.is_safe(self.shared.commit_objects(file).await?) {
                // All of the objects is durable, and nobody else writes to them.
                return self.shared.note_lengths(file, None).await;
            }
        }
        Err(DataServerError::again(file, "data servers lost what was cloned, again and again"))
    }

    /// From the volume.
    async fn clone_extents(
        &self,
        extents: &[(u64, Bytes)],
        file: &Striped,
        size: u64,
        range: CloneRange,
    ) -> Result<Copied, DataServerError> {
        let mut copied = Copied::default();
        let target = |at| Target { file: file.clone(), to: range.to + at, size };
        for (at, bytes) in extents {
            copied.took(&self.copy_hole(&target(copied.len), at - copied.len).await?);
            copied.took(&self.copy_data(bytes.clone(), &target(*at)).await?);
        }
        copied.took(&self.copy_hole(&target(copied.len), range.len - copied.len).await?);
        Ok(copied)
    }
}

impl Cloning<'_> {
    /// All of a range.
    async fn run(mut self, range: CloneRange) -> Result<Copied, DataServerError> {
        while self.copied.len < range.len {
            // In turn with copies.
            let _turn = self.files.copy_steps.acquire().await;
            let (done, source) = (self.copied.len, self.origin()?);
            let rest = Between {
                source: &source,
                from: range.from + done,
                destination: self.target,
                to: range.to + done,
                len: range.len - done,
            };
            self.copied.len += self.step(rest).await?;
        }
        Ok(self.copied)
    }

    /// The bytes that it did.
    async fn step(&mut self, rest: Between<'_>) -> Result<u64, DataServerError> {
        match self.hole(rest.from, rest.len).await? {
            0 if rest.lines_up() => self.lined_up(rest).await,
            0 => self.in_pieces(rest.to_cut()).await,
            hole => Ok(self.files.copy_hole(&self.place(rest.to), hole).await?.len),
        }
    }

    /// How long the hole is that a range of the source begins with, up to where a block begins, so
    /// that it can be shared.
    async fn hole(&self, from: u64, len: u64) -> Result<u64, DataServerError> {
        let (servers, end) = (self.servers(), from + len);
        let data = self.of_source(|source| async move {
            servers.seek(&source, Content::Data, from, end).await
        });
        let data = data.await?.map_or(end, |data| data - data % CLONE_BLOCK_BYTES);
        Ok(data.saturating_sub(from))
    }

    /// The source as it is now, which may be the destination.
    fn origin(&self) -> Result<Striped, DataServerError> {
        if self.source.0 == self.target.object {
            return Ok(self.target.clone());
        }
        let now = self.files.shared.inode_now(self.source).ok();
        let source = now.and_then(|now| self.files.shared.striped(&now));
        source.ok_or_else(|| DataServerError::again(self.target, "the source is gone"))
    }

    /// What the source's data servers say. It may become another meanwhile: what is refused to an
    /// earlier epoch is not to the present one, and what was cut is not lost.
    async fn of_source<T, F>(&self, ask: impl Fn(Striped) -> F) -> Result<T, DataServerError>
    where
        F: Future<Output = Result<T, DataServerError>>,
    {
        let mut source = self.origin()?;
        loop {
            let told = ask(source.clone()).await;
            let (fenced, lost) = match &told {
                Err(DataServerError::Fenced { .. }) => (true, false),
                Err(DataServerError::Lost { .. }) => (false, true),
                _ => (false, false),
            };
            let now = self.origin()?;
            if !fenced && !lost || now == source && (lost || now.object == self.target.object) {
                return told;
            }
            if now == source {
                // Not for the destination to be fenced anew, which would be in vain.
                return Err(DataServerError::again(self.target, "the source is fenced"));
            }
            source = now;
        }
    }

    fn servers(&self) -> &Arc<DataServers> {
        &self.files.shared.data_servers
    }

    /// Where each data server has all of its bytes.
    async fn lined_up(&mut self, rest: Between<'_>) -> Result<u64, DataServerError> {
        let servers = &self.files.shared.data_servers;
        if self.shares {
            let part = rest.to_share();
            match servers.share(part).await {
                Err(DataServerError::Unsupported { .. } | DataServerError::Unaligned { .. }) => {
                    // What some have shared is copied over with the same bytes.
                    self.shares = false;
                }
                done => {
                    self.copied.told(done?);
                    return Ok(part.len);
                }
            }
        }
        let part = rest.to_copy();
        match servers.copy(part).await {
            Err(DataServerError::Unsupported { .. }) => {
                let part = rest.to_cut();
                self.through_here(part, 0, part.len).await?;
                Ok(part.len)
            }
            done => {
                self.copied.told(done?);
                Ok(part.len)
            }
        }
    }

    /// Where units begin at other places, or files are on other data servers.
    async fn in_pieces(&mut self, part: Between<'_>) -> Result<u64, DataServerError> {
        let shared = self.files.shared.data_servers.share_pieces(part).await?;
        self.copied.told(shared.verifier);
        for (at, len) in shared.apart {
            self.through_here(part, at, len).await?;
        }
        Ok(part.len)
    }

    /// Read and written again: so many bytes from the offset `at` of a range on.
    async fn through_here(
        &mut self,
        range: Between<'_>,
        at: u64,
        len: u64,
    ) -> Result<(), DataServerError> {
        let mut done = 0;
        while done < len {
            let (from, to) = (range.from + at + done, range.to + at + done);
            let hole = self.hole(from, len - done).await?;
            if hole > 0 {
                done += self.files.copy_hole(&self.place(to), hole).await?.len;
                continue;
            }
            let part = (len - done).min(IO_BYTES_MAX as u64);
            let servers = self.servers();
            let data =
                self.of_source(|source| async move { servers.read(&source, from, part).await });
            let step = self.files.copy_data(data.await?, &self.place(to)).await?;
            step.verifier.into_iter().for_each(|verifier| self.copied.told(verifier));
            done += part;
        }
        Ok(())
    }

    fn place(&self, to: u64) -> Target {
        Target { file: self.target.clone(), to, size: self.size }
    }
}
