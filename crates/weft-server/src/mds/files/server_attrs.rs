//! Sizes and times are right without LAYOUTCOMMIT (design D8): while a write layout is out, the
//! data servers are asked before an answer depends on them.

use std::collections::HashMap;

use weft_nfs::{Failure, NfsStat};
use weft_store::{
    types::{Inode, InodeNo},
    volume::Settle,
};

use crate::mds::{
    Mds, data_server_failure,
    files::{Marks, SizeAuthority},
    translate,
};
use crate::{
    compound::Compound,
    data_servers::{DataServerAttrs, DataServerError},
};

/// How a file was when the data servers were asked.
#[derive(Debug, Clone, Copy)]
struct Asked {
    marks: Marks,
    /// No write layout was out, no handle of an earlier one worked, and nobody wrote indirectly.
    quiet: bool,
}

impl Mds {
    /// The inode with the size and times that its data servers tell, if it is unsettled.
    ///
    /// # Errors
    /// DELAY while a data server cannot be asked: the truth is not known.
    pub(in crate::mds) async fn refresh_attrs(
        &self,
        c: &mut Compound<Mds>,
        inode: Inode,
    ) -> Result<Inode, Failure> {
        let (true, Some(striped)) = (inode.unsettled, self.striped(&inode)) else {
            return Ok(inode);
        };
        if !self.must_fetch(&inode) {
            // It may have been learned since the file was looked at.
            return c.see(self.volume.inode(inode.no));
        }
        let asked = self.asking(&inode);
        let truth = self.data_servers.fetch_attrs(&[&striped]).await.pop();
        self.conclude(c, inode, asked, truth)
    }

    /// Whether only the data servers know the size and times of a file.
    pub(in crate::mds) fn must_fetch(&self, inode: &Inode) -> bool {
        inode.unsettled && self.files.lock().size_authority(inode) == SizeAuthority::DataServers
    }

    /// Before an indirect write that ends at `end`, and while it is under way: a file that is to
    /// grow on its data servers is unsettled, durably. A crash in the middle may leave bytes behind
    /// the end that the volume knows, which would show when the file grows over them; so its data
    /// servers are asked then, and what they have of the write is in the file. The file as it is
    /// now.
    ///
    /// # Errors
    /// STALE; IO if nothing can be made durable.
    pub(in crate::mds) async fn mark_extending(
        &self,
        ino: InodeNo,
        end: u64,
    ) -> Result<Inode, NfsStat> {
        let status = |e| translate::status(&e);
        let lsn = {
            // Under the lock no write layout is granted, and nobody settles the file.
            let mut files = self.files.lock();
            let seen = self.volume.inode(ino);
            let inode = seen.value.map_err(status)?;
            let is_there = inode.placement.is_some() && !inode.stuffed;
            if end <= inode.size || !is_there {
                return Ok(inode);
            }
            if inode.unsettled {
                seen.lsn
            } else {
                let marked = self.volume.mark_unsettled(ino);
                marked.value.map_err(status)?;
                files.mark_extending(&inode);
                marked.lsn
            }
        };
        self.volume.durable(lsn).await.map_err(status)?;
        self.volume.inode(ino).value.map_err(status)
    }

    /// The file is open no more: if the volume knows its size it says so. That need not be durable.
    pub(in crate::mds) fn clear_extending(&self, ino: InodeNo) {
        let mut files = self.files.lock();
        if !files.closed(ino) {
            return;
        }
        if let Err(e) = self.volume.settle(ino, &Settle::NOTHING_NEW, self.wall()).value {
            tracing::error!(ino = ino.0, error = %e, "the file stays unsettled");
        }
    }

    fn asking(&self, inode: &Inode) -> Asked {
        let mut files = self.files.lock();
        let marks = files.marks(inode);
        let out = self.state().rw_layouts(self.handle(inode.no).key());
        let writes = out || files.has_writers(inode.no);
        Asked { marks, quiet: !writes && files.stale(inode.no).is_none() }
    }

    /// Takes note of what the data servers say after a change that we made ourselves, so that it
    /// is no news later.
    pub(in crate::mds) async fn note_own_change(&self, inode: &Inode) {
        let (true, Some(striped)) = (inode.unsettled, self.striped(inode)) else { return };
        if let Some(Ok(truth)) = self.data_servers.fetch_attrs(&[&striped]).await.pop() {
            self.files.lock().fetched_own(inode, truth);
        }
    }

    /// [`Mds::refresh_attrs`] for many inodes, with one message per data server.
    pub(in crate::mds) async fn refresh_all(
        &self,
        c: &mut Compound<Mds>,
        inodes: Vec<Inode>,
    ) -> Vec<Result<Inode, Failure>> {
        let placed: Vec<_> = inodes
            .iter()
            .enumerate()
            .filter(|(_, i)| self.must_fetch(i))
            .filter_map(|(at, i)| Some((at, self.striped(i)?, self.asking(i))))
            .collect();
        let files: Vec<_> = placed.iter().map(|(_, striped, _)| striped).collect();
        let truths = self.data_servers.fetch_attrs(&files).await;
        let mut answers: HashMap<usize, _> = placed
            .iter()
            .zip(truths)
            .map(|((at, _, asked), truth)| (*at, (*asked, truth)))
            .collect();
        let mut out = Vec::with_capacity(inodes.len());
        for (at, inode) in inodes.into_iter().enumerate() {
            out.push(match answers.remove(&at) {
                Some((asked, truth)) => self.conclude(c, inode, asked, Some(truth)),
                None if inode.unsettled => c.see(self.volume.inode(inode.no)),
                None => Ok(inode),
            });
        }
        out
    }

    /// Draws the conclusions that still hold: what happened to the file since it was asked about
    /// may have made the answer old.
    fn conclude(
        &self,
        c: &mut Compound<Mds>,
        inode: Inode,
        asked: Asked,
        truth: Option<Result<DataServerAttrs, DataServerError>>,
    ) -> Result<Inode, Failure> {
        let Some(truth) = truth else { return Ok(inode) };
        let truth = truth.map_err(data_server_failure)?;
        let key = self.handle(inode.no).key();
        let mut files = self.files.lock();
        let inode = c.see(self.volume.inode(inode.no))?;
        // While clients may still reclaim, their layouts of before the restart may still be used.
        let quiet = asked.quiet && !self.state().rw_layouts(key) && !self.grace().is_on();
        let now = self.wall();
        match files.answered(&inode, (asked.marks, quiet), truth, now) {
            Some(settle) => c.see(self.volume.settle(inode.no, &settle, now)),
            None => Ok(inode),
        }
    }
}
