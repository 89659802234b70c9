//! Sizes and times are right without LAYOUTCOMMIT (design D8): while a write layout is out, the
//! data servers are asked before an answer depends on them.

use std::{collections::HashMap, sync::Mutex};

use weft_nfs::Failure;
use weft_store::{
    types::{Inode, InodeNo, Timestamp},
    volume::{Settle, SettleSize},
};

use super::{Mds, data_server_failure};
use crate::{
    compound::Compound,
    data_servers::{DataServerError, FileTruth},
};

/// Files remembered at once; beyond that the memory starts anew, which costs at most one change
/// of the change attribute too many per file.
const REMEMBERED_MAX: usize = 65_536;

/// What the data servers said last of each file, so that only news moves its change attribute.
#[derive(Debug, Default)]
pub(super) struct Seen(Mutex<HashMap<InodeNo, FileTruth>>);

impl Seen {
    /// Remembers the latest word; whether it is news.
    fn is_news(&self, inode: &Inode, truth: &FileTruth) -> bool {
        let mut seen = self.0.lock().expect("truth lock");
        if seen.len() >= REMEMBERED_MAX {
            seen.clear();
        }
        match seen.insert(inode.no, *truth) {
            Some(before) => before != *truth,
            // Nothing is remembered: news is what came after the last known change.
            None => {
                truth.size_at_least > inode.size
                    || mtime(truth).is_some_and(|t| t > inode.ctime.max(inode.mtime))
            }
        }
    }

    fn forget(&self, ino: InodeNo) {
        self.0.lock().expect("truth lock").remove(&ino);
    }
}

fn mtime(truth: &FileTruth) -> Option<Timestamp> {
    truth.mtime.map(|(seconds, nanos)| Timestamp { seconds, nanos })
}

impl Mds {
    /// The inode with the size and times that its data servers tell, if it is unsettled.
    ///
    /// # Errors
    /// DELAY while a data server cannot be asked: the truth is not known.
    pub(super) async fn settled(
        &self,
        c: &mut Compound<Mds>,
        inode: Inode,
    ) -> Result<Inode, Failure> {
        let (true, Some(striped)) = (inode.unsettled, self.striped(&inode)) else {
            return Ok(inode);
        };
        let truth = self.data_servers.truth(&[&striped]).await.pop();
        self.take_truth(c, inode, truth)
    }

    /// Takes note of what the data servers say after a change that we made ourselves, so that it
    /// is no news later.
    pub(super) async fn note_own_change(&self, inode: &Inode) {
        let (true, Some(striped)) = (inode.unsettled, self.striped(inode)) else { return };
        if let Some(Ok(truth)) = self.data_servers.truth(&[&striped]).await.pop() {
            self.truth.is_news(inode, &truth);
        }
    }

    /// [`Mds::settled`] for many inodes, with one message per data server.
    pub(super) async fn settled_all(
        &self,
        c: &mut Compound<Mds>,
        inodes: Vec<Inode>,
    ) -> Vec<Result<Inode, Failure>> {
        let placed: Vec<_> = inodes
            .iter()
            .enumerate()
            .filter(|(_, i)| i.unsettled)
            .filter_map(|(at, i)| Some((at, self.striped(i)?)))
            .collect();
        if placed.is_empty() {
            return inodes.into_iter().map(Ok).collect();
        }
        let asked: Vec<_> = placed.iter().map(|(_, s)| s).collect();
        let mut answers: HashMap<usize, _> =
            placed.iter().map(|(at, _)| *at).zip(self.data_servers.truth(&asked).await).collect();
        let mut out = Vec::with_capacity(inodes.len());
        for (at, inode) in inodes.into_iter().enumerate() {
            out.push(match answers.remove(&at) {
                Some(answer) => self.take_truth(c, inode, Some(answer)),
                None => Ok(inode),
            });
        }
        out
    }

    fn take_truth(
        &self,
        c: &mut Compound<Mds>,
        inode: Inode,
        truth: Option<Result<FileTruth, DataServerError>>,
    ) -> Result<Inode, Failure> {
        let Some(truth) = truth else { return Ok(inode) };
        let truth = truth.map_err(data_server_failure)?;
        let news = self.truth.is_news(&inode, &truth);
        let key = self.handle(inode.no).key();
        let _gate = self.layout_gate.lock().expect("layout gate");
        // While clients may still reclaim, their layouts of before the restart may still be used.
        let settled = !self.state().rw_layouts(key) && !self.grace().is_on(c.now);
        if !news && !settled {
            return Ok(inode);
        }
        if settled {
            self.truth.forget(inode.no);
        }
        let now = self.wall();
        let settle = Settle {
            size: SettleSize::AtLeast(truth.size_at_least),
            mtime: news.then(|| mtime(&truth).filter(|t| *t > inode.mtime).unwrap_or(now)),
            touched: news,
            settled,
            drop_privileges: false,
        };
        c.see(self.volume.settle(inode.no, &settle, now))
    }
}
