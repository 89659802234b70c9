//! Copies between two files, step by step (RFC 7862 §15.2): by the data servers among themselves
//! where the stripes line up, else through the metadata server; never through the client.

use bytes::Bytes;
use weft_nfs::{IO_BYTES_MAX, NfsStat, StableHow, Verifier};
use weft_store::{
    types::{Content, InodeNo, SetIdLoss},
    volume::{StuffedExtent, StuffedWrite},
};

use super::{change::Done, plan::Plan, service::FileService};
use crate::{
    data_servers::{Between, DataServerError},
    deps::Deps,
    striped::Striped,
    translate,
};

/// Times a copy begins anew because a data server may have lost some of it.
const ATTEMPTS_MAX: usize = 3;

/// What is to be copied.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Copy {
    pub(crate) source: InodeNo,
    pub(crate) destination: InodeNo,
    /// First byte in the source.
    pub(crate) from: u64,
    /// First byte in the destination.
    pub(crate) to: u64,
    /// Bytes.
    pub(crate) len: u64,
    /// Set-id bits of the destination that go, by who copies.
    pub(crate) set_id_loss: SetIdLoss,
}

impl Copy {
    /// What is left after so many bytes.
    pub(crate) fn rest(&self, done: u64) -> Copy {
        Copy { from: self.from + done, to: self.to + done, len: self.len - done, ..*self }
    }
}

/// How far a copy is.
#[derive(Debug, Default)]
pub(super) struct Copied {
    /// Bytes, from the first.
    pub(super) len: u64,
    /// The verifier of all writes so far, if there were any.
    verifier: Option<Verifier>,
    /// Writes have told different ones: some may be lost.
    doubtful: bool,
}

impl Copied {
    /// A step is done.
    pub(super) fn took(&mut self, step: &Step) {
        self.len += step.len;
        step.verifier.into_iter().for_each(|verifier| self.told(verifier));
    }

    /// A write told this verifier.
    pub(super) fn told(&mut self, verifier: Verifier) {
        self.doubtful |= self.verifier.replace(verifier).is_some_and(|before| before != verifier);
    }

    /// Whether a COMMIT of all objects that told this one has made all of it durable.
    pub(super) fn is_safe(&self, committed: Verifier) -> bool {
        !self.doubtful && self.verifier.is_none_or(|v| v == committed)
    }
}

/// Where bytes are copied from.
#[derive(Debug, Clone)]
enum Origin {
    /// The file is small: they are here.
    Here(Bytes),
    /// Nobody ever wrote so many of them: they are a hole.
    Nowhere(u64),
    /// On its data servers.
    DataServers(Striped),
}

/// Where bytes are copied to.
#[derive(Debug)]
pub(super) struct Target {
    pub(super) file: Striped,
    /// First byte.
    pub(super) to: u64,
    /// How far the file reached before.
    pub(super) size: u64,
}

/// One step.
#[derive(Debug)]
pub(super) struct Step {
    pub(super) len: u64,
    pub(super) verifier: Option<Verifier>,
}

impl FileService {
    /// Copies, and makes durable what was copied: all of it, or as much as could be before
    /// `go_on` said no or a step failed. The bytes copied, and the verifier of the destination.
    ///
    /// # Errors
    /// Nothing was copied, or what was may be lost.
    pub(crate) async fn copy(
        &self,
        deps: &mut Deps,
        copy: &Copy,
        mut go_on: impl FnMut(u64) -> bool,
    ) -> Result<(u64, Verifier), NfsStat> {
        self.shared.require_whole_source(copy.source).await?;
        for _ in 0..ATTEMPTS_MAX {
            let mut copied = Copied::default();
            while copied.len < copy.len && go_on(copied.len) {
                match self.copy_step(deps, copy, &mut copied).await {
                    Ok(()) => {}
                    Err(status) if copied.len == 0 => return Err(status),
                    // §15.2.3: what was copied before counts.
                    Err(_) => break,
                }
            }
            let safe = self.copy_is_safe(deps, copy, &copied).await;
            self.attrs.clear_extending(copy.destination);
            if let Some(verifier) = safe? {
                return Ok((copied.len, verifier));
            }
        }
        Err(NfsStat::DELAY)
    }

    /// Copies as much as one step does.
    async fn copy_step(
        &self,
        deps: &mut Deps,
        copy: &Copy,
        copied: &mut Copied,
    ) -> Result<(), NfsStat> {
        let _turn = self.copy_steps.acquire().await.map_err(|_| NfsStat::SERVERFAULT)?;
        let admitted = self.changes.admit().await;
        let destination = self.shared.inode_now(copy.destination)?;
        let writing = self.changes.begin_write(&admitted, &destination)?;
        let end = copy.to + copy.len;
        let rest = copy.rest(copied.len);
        if self.migration.is_small(end) && self.copy_small(deps, &rest)? {
            copied.len += rest.len;
            return Ok(());
        }
        let origin = self.origin(&rest)?;
        let size = destination.size;
        let change = self.changes.begin(Plan::copy(writing, end, copy.set_id_loss));
        // One of two small files may have left since, or be leaving: DELAY then, and asked again,
        // COPY brings the destination to its data servers.
        let done = change.run(deps, |file| {
            let (origin, target) = (origin.clone(), Target { file, to: rest.to, size });
            async move {
                let step = self.step(origin, &target, &rest).await?;
                let reaches = Some(target.to + step.len);
                Ok(Done { value: step, reaches })
            }
        });
        let (step, _) = done.await.map_err(|f| f.status)?;
        copied.took(&step);
        Ok(())
    }

    /// From one small file to another, or `false`. One that grows too big meanwhile, or whose bytes
    /// have left, is copied the other way.
    pub(super) fn copy_small(&self, deps: &mut Deps, rest: &Copy) -> Result<bool, NfsStat> {
        let volume = &self.shared.volume;
        let read = deps.see(volume.read_stuffed(rest.source, rest.from, rest.len));
        let Some((_, data)) = read.map_err(|f| f.status)? else { return Ok(false) };
        if (data.len() as u64) < rest.len {
            // It was cut meanwhile: behind its end is a hole.
            return Ok(false);
        }
        let write = StuffedWrite {
            offset: rest.to,
            data: &data,
            limit: self.migration.stuffing_limit_bytes(),
            set_id_loss: rest.set_id_loss,
        };
        let written = volume.write_stuffed(rest.destination, &write, self.shared.wall());
        Ok(deps.see(written).map_err(|f| f.status)?.is_some())
    }

    /// Where the next bytes of the source are.
    fn origin(&self, rest: &Copy) -> Result<Origin, NfsStat> {
        let here = self.shared.volume.extent_stuffed(rest.source, rest.from, rest.len);
        match here.value.map_err(|e| translate::status(&e))? {
            Some(StuffedExtent::Data(data)) => Ok(Origin::Here(data)),
            Some(StuffedExtent::Hole(len)) => Ok(Origin::Nowhere(len)),
            None => {
                let source = self.shared.striped(&self.shared.inode_now(rest.source)?);
                Ok(source.map_or(Origin::Nowhere(rest.len), Origin::DataServers))
            }
        }
    }

    async fn step(
        &self,
        origin: Origin,
        target: &Target,
        rest: &Copy,
    ) -> Result<Step, DataServerError> {
        let (from, left) = (rest.from, rest.len);
        let origin = match origin {
            Origin::DataServers(origin) => origin,
            Origin::Nowhere(len) => return self.copy_hole(target, len).await,
            Origin::Here(data) => return self.copy_data(data, target).await,
        };
        let (servers, destination) = (&self.shared.data_servers, &target.file);
        let range = Between { source: &origin, from, destination, to: target.to, len: left };
        if range.lines_up() {
            let part = range.to_copy();
            match servers.copy(part).await {
                Err(DataServerError::Unsupported { .. }) => {}
                done => {
                    let verifier = done?;
                    self.shared.note_lengths(destination, Some(verifier)).await?;
                    return Ok(Step { len: part.len, verifier: Some(verifier) });
                }
            }
        }
        match servers.seek(&origin, Content::Data, from, from + left).await? {
            // Through here: read and written again.
            Some(data) if data == from => {
                let data = servers.read(&origin, from, left.min(IO_BYTES_MAX as u64)).await?;
                self.copy_data(data, target).await
            }
            data => self.copy_hole(target, data.map_or(left, |data| data - from)).await,
        }
    }

    pub(super) async fn copy_data(
        &self,
        data: Bytes,
        target: &Target,
    ) -> Result<Step, DataServerError> {
        let (servers, len) = (&self.shared.data_servers, data.len() as u64);
        let bytes = data.len();
        let written = servers.write(&target.file, target.to, data, StableHow::UNSTABLE).await?;
        self.shared.note_written(&target.file, (target.to, bytes), written);
        Ok(Step { len, verifier: Some(written.1) })
    }

    /// Where the source has a hole the destination gets one, as far as it reached before.
    pub(super) async fn copy_hole(
        &self,
        target: &Target,
        len: u64,
    ) -> Result<Step, DataServerError> {
        if target.size > target.to {
            self.shared.data_servers.punch(&target.file, target.to, len).await?;
        }
        Ok(Step { len, verifier: None })
    }

    /// Makes what was copied durable: the verifier, or `None` if some of it may be lost.
    async fn copy_is_safe(
        &self,
        deps: &Deps,
        copy: &Copy,
        copied: &Copied,
    ) -> Result<Option<Verifier>, NfsStat> {
        let destination = self.shared.inode_now(copy.destination)?;
        // Also when only holes were copied: Linux compares the verifier with that of the COMMIT it
        // sends along, and copies anew for as long as they differ.
        let verifier = self.commit(&destination).await?;
        if !copied.is_safe(verifier) {
            return Ok(None);
        }
        self.shared.durable(deps).await?;
        Ok(Some(verifier))
    }
}

#[cfg(test)]
mod tests {
    use weft_store::{
        types::{Credential, Timestamp},
        volume::{New, NewFileData},
    };

    use super::*;
    use crate::testing::lone_mds;

    /// Of two small files that are to be copied within the volume one leaves meanwhile: nothing is
    /// said to be copied before the other one is on its data servers too.
    #[tokio::test]
    async fn a_copy_waits_for_the_destination_to_leave() {
        let mds = lone_mds().await;
        let make = |name: &[u8], stuffed| {
            let (root, now) = (Credential::superuser(), Timestamp::default());
            let data = if stuffed { NewFileData::Stuffed } else { NewFileData::Later };
            let new = New { data, size: Some(100), ..New::file(0o644) };
            let made = mds.files.volume().create(InodeNo::ROOT, name, &new, &root, now);
            made.value.unwrap().inode.no
        };
        let (source, destination) = (make(b"left", false), make(b"small", true));
        let copy =
            Copy { source, destination, from: 0, to: 0, len: 100, set_id_loss: SetIdLoss::Nothing };
        assert_eq!(
            mds.files.copy(&mut Deps::default(), &copy, |_| true).await.err(),
            Some(NfsStat::DELAY)
        );
        let here = Copy { source: make(b"here", true), ..copy };
        assert_eq!(mds.files.copy(&mut Deps::default(), &here, |_| true).await.unwrap().0, 100);
    }
}
