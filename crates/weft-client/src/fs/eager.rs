//! Small files in one round trip (P3.4): the path, the open and the bytes travel together.
//!
//! Whatever is unusual (a link in the path, a file that is too big, an error) is left to the usual
//! way, which finds out again and says why. Both ways may run one after the other: each puts the
//! whole content, or changes nothing.

use std::path::Path;

use bytes::Bytes;
use weft_nfs::{
    Attrs, Component, FileType, OpArgs, OpOk, StableHow, Stateid,
    ops::{GetattrArgs, OpenArgs, ReadArgs, RenameArgs, SetattrArgs, WriteArgs},
};
use weft_xdr::Payload;

use super::{
    client::{Client, STAT_ATTRS},
    error::{At, FsError},
    path::{lookups, names_of},
    put::in_turn,
    replacing::Kept,
    unfinished::Temporary,
};
use crate::{
    boxed::Spawned,
    error::ClientError,
    io::{Source, close},
    limits,
    node::OpenOptions,
    session::CompoundOutcome,
};

impl Client {
    /// Makes or replaces a file with these bytes, durably; a small one in one round trip.
    ///
    /// # Errors
    /// [`FsError`]; the file may then hold part of the data.
    pub async fn write_file(
        &self,
        path: impl AsRef<Path>,
        mode: u32,
        data: Bytes,
    ) -> Result<(), FsError> {
        let path = path.as_ref();
        let names = names_of(path);
        if self.put_eagerly(&names, mode, data.clone()).await {
            return Ok(());
        }
        let file = self.open_at(path, names, OpenOptions::replace(mode), false).await?;
        let written = file.io().write_whole(data.len() as u64, &Source::bytes(data)).await.at(path);
        let closed = file.close().await;
        written.and(closed)
    }

    /// A whole file of at most `len_max` bytes; a small one in one round trip.
    ///
    /// # Errors
    /// [`FsError`]; a longer file is refused.
    pub async fn read_file(
        &self,
        path: impl AsRef<Path>,
        len_max: usize,
    ) -> Result<Bytes, FsError> {
        let path = path.as_ref();
        let too_long = ClientError::FileTooLong;
        let names = names_of(path);
        if let Some((_, data)) = self.get_eagerly(&names).await {
            return if data.len() <= len_max { Ok(data) } else { Err(too_long).at(path) };
        }
        let file = self.open_at(path, names, OpenOptions::read(), false).await?;
        let read = match usize::try_from(file.size()) {
            Ok(len) if len <= len_max => file.read_at(0, len).await,
            _ => Err(too_long).at(path),
        };
        let closed = file.close().await;
        read.and_then(|data| closed.map(|()| data))
    }

    /// Makes or replaces a file with these bytes, durably, in one COMPOUND; whether that was done.
    pub(super) async fn put_eagerly(&self, names: &[Component], mode: u32, data: Bytes) -> bool {
        let Some((name, dirs)) = names.split_last() else { return false };
        if !self.is_eager(dirs) || data.len() > limits::EAGER_BYTES {
            return false;
        }
        let wanted = data.len();
        let mut ops = lookups(OpArgs::Putrootfh, dirs);
        let before = ops.len();
        let open = OpenOptions::replace(mode).open(name.clone(), self.nodes.new_owner(), None);
        ops.extend(put(open, data));
        self.put_to_its_end(ops, before, wanted).await
    }

    /// Makes a file with these bytes, and perhaps attributes, under a temporary name and gives it
    /// its own, durably, in one COMPOUND; whether that was done.
    pub(super) async fn put_eagerly_beside(
        &self,
        temporary: &Temporary<'_>,
        (name, kept): (&Component, &Kept),
        (data, finally): (Bytes, Option<&Attrs>),
    ) -> bool {
        // Two more than other requests on a directory: the directory is set aside, and taken back.
        if !self.is_eager(temporary.dirs) || data.len() > limits::EAGER_BYTES {
            return false;
        }
        let wanted = data.len();
        let new = OpenOptions { exclusive: true, ..OpenOptions::replace(kept.mode) };
        let mut ops = lookups(OpArgs::Putrootfh, temporary.dirs);
        let before = ops.len();
        ops.push(OpArgs::Savefh);
        let open = new.open(temporary.name.clone(), self.nodes.new_owner(), kept.acl.clone());
        ops.extend(put(open, data));
        ops.extend(finally.cloned().into_iter().flat_map(in_turn).map(|attrs| {
            let (stateid, attrs) = (Stateid::ANONYMOUS, Box::new(attrs));
            OpArgs::Setattr(SetattrArgs { stateid, attrs })
        }));
        ops.extend([
            OpArgs::Restorefh,
            OpArgs::Rename(RenameArgs { oldname: temporary.name.clone(), newname: name.clone() }),
        ]);
        self.put_to_its_end(ops, before + 1, wanted).await
    }

    /// [`Client::is_put`], whoever waits for it: what it replaces is forgotten here.
    async fn put_to_its_end(&self, ops: Vec<OpArgs>, before: usize, wanted: usize) -> bool {
        let me = self.clone();
        let put = async move { Ok(me.is_put(ops, before, wanted).await) };
        Spawned::new(put).await.unwrap_or(false)
    }

    /// Sends a COMPOUND with what [`put`] says behind its first `before` operations; whether all of
    /// it was done, with as many bytes as wanted. A file that stays open is closed.
    async fn is_put(&self, ops: Vec<OpArgs>, before: usize, wanted: usize) -> bool {
        let asked_at = self.nodes.cluster.files.moment();
        let Ok(outcome) = self.session().compound_outcome(ops).await else { return false };
        let CompoundOutcome { done, failed, .. } = outcome;
        let mut done = done.into_iter().skip(before);
        let opened = (done.next(), done.next());
        let written = matches!(&done.next(), Some(OpOk::Write(ok))
            if ok.committed == StableHow::FILE_SYNC && usize::try_from(ok.count) == Ok(wanted));
        let closed = done.next().is_some();
        let (Some(OpOk::Open(open)), Some(OpOk::Getfh(fh))) = opened else { return false };
        if !closed {
            self.nodes.close_untaken(&fh.object, open.stateid).await;
        }
        // What an open file of ours had on its way may have got there later.
        let cluster = &self.nodes.cluster;
        let mut is_overtaken = false;
        let overtaken = async || {
            is_overtaken = true;
            Ok(())
        };
        let _ = cluster.files.emptied(&fh.object, asked_at, overtaken).await;
        cluster.files.replaced(&fh.object);
        drop(cluster.changing(&fh.object));
        written && failed.is_none() && !is_overtaken
    }

    /// A small file, whole, in one COMPOUND: `None` when it has to be read the usual way.
    pub(super) async fn get_eagerly(&self, names: &[Component]) -> Option<(Attrs, Bytes)> {
        if !self.is_eager(names) {
            return None;
        }
        let mut ops = lookups(OpArgs::Putrootfh, names);
        let count = u32::try_from(limits::EAGER_BYTES).ok()?;
        ops.extend([
            OpArgs::Getfh,
            OpArgs::Getattr(GetattrArgs { request: STAT_ATTRS }),
            OpArgs::Read(ReadArgs { stateid: Stateid::ANONYMOUS, offset: 0, count }),
        ]);
        let asked_at = self.nodes.cluster.files.moment();
        let mut done = self.session().compound(ops).await.ok()?.into_iter().rev();
        let (Some(OpOk::Read(read)), Some(OpOk::Getattr(attrs))) = (done.next(), done.next())
        else {
            return None;
        };
        let Some(OpOk::Getfh(fh)) = done.next() else { return None };
        if self.nodes.cluster.files.may_lack(&fh.object, asked_at) {
            return None;
        }
        let Payload::Bytes(data) = read.data else { return None };
        let attrs = attrs.attrs;
        let is_file = attrs.file_type == Some(FileType::REG);
        (is_file && read.eof).then_some((*attrs, data))
    }

    pub(super) fn is_eager(&self, dirs: &[Component]) -> bool {
        self.eager && dirs.len() <= limits::LOOKUPS_PER_COMPOUND
    }
}

/// Opens a file, writes all of it, and closes it.
fn put(open: OpenArgs, data: Bytes) -> [OpArgs; 4] {
    let write = WriteArgs {
        stateid: Stateid::CURRENT,
        offset: 0,
        stable: StableHow::FILE_SYNC,
        data: Payload::Bytes(data),
    };
    [OpArgs::Open(open), OpArgs::Getfh, OpArgs::Write(write), close(Stateid::CURRENT)]
}
