//! Who knows the size and the times of a file: a pure state machine (design D8, ADR 3).
//!
//! The volume's mark (`Inode::unsettled`) is durable and tells [`SizeAuthority::Volume`] from the
//! other two. What tells those apart is here, and a restart forgets it: then the data servers are
//! asked.

use weft_store::{
    types::{Inode, SetIdLoss, Timestamp},
    volume::{Settle, SettleSize},
};

use crate::data_servers::DataServerAttrs;

/// Who knows the size and the times of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SizeAuthority {
    /// The volume, without a mark.
    Volume,
    /// The volume. It is marked because indirect writes may reach behind the end, all of which
    /// succeeded so far: the mark is for a crash in the middle of one.
    VolumeExtending,
    /// The data servers: a write layout is or was out, or an indirect write failed.
    DataServers,
}

/// Whether data servers told something new.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Freshness {
    Unchanged,
    /// It cannot be told: caches must not rely on the old, but times stay.
    Unknown,
    Changed,
}

/// What is known of one file beside the volume's mark.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct SizeRecord {
    extending: bool,
    /// The last word of the data servers, so that only news moves the change attribute.
    pub(crate) said: Option<DataServerAttrs>,
}

impl SizeRecord {
    pub(crate) fn size_authority(&self, inode: &Inode) -> SizeAuthority {
        match (inode.unsettled, self.extending) {
            (false, _) => SizeAuthority::Volume,
            (true, true) => SizeAuthority::VolumeExtending,
            (true, false) => SizeAuthority::DataServers,
        }
    }

    /// A write layout goes out, and the volume is marked.
    pub(crate) fn granted(&mut self) {
        self.extending = false;
    }

    /// The volume, which had no mark, is marked because an indirect write may reach behind the end.
    pub(crate) fn marked_extending(&mut self) {
        self.extending = true;
    }

    /// A change of our own is in the volume, as `inode` has it. Who knows all knows more than the
    /// data servers ever said.
    pub(crate) fn changed(&mut self, inode: &Inode) {
        if self.size_authority(inode) != SizeAuthority::DataServers {
            self.said = None;
        }
    }

    /// A change of our own failed: some of it may be behind the end that the volume knows.
    pub(crate) fn change_failed(&mut self) {
        self.extending = false;
    }

    /// The file is open no more, and nothing is under way; whether that takes the mark away.
    pub(crate) fn closed(&mut self) -> bool {
        std::mem::take(&mut self.extending)
    }

    /// The data servers were asked about a change of our own, which is no news to anybody.
    pub(crate) fn fetched_own(&mut self, truth: DataServerAttrs) {
        self.said = Some(truth);
    }

    /// The data servers were asked; whether nobody could write since before the question, so that
    /// this is all there is to know. What to conclude, if anything: another who asked at the same
    /// time may have been told first.
    pub(crate) fn answered(
        &mut self,
        inode: &Inode,
        truth: DataServerAttrs,
        is_all: bool,
        now: Timestamp,
    ) -> Option<Settle> {
        if self.size_authority(inode) != SizeAuthority::DataServers {
            return None;
        }
        let news = news(inode, &truth, self.said.replace(truth));
        if is_all {
            self.said = None;
        }
        let later = mtime(&truth).filter(|told| *told > inode.mtime).unwrap_or(now);
        let settle = Settle {
            size: SettleSize::AtLeast(truth.size_at_least),
            mtime: (news == Freshness::Changed).then_some(later),
            touched: news != Freshness::Unchanged,
            settled: is_all,
            occupied: is_all.then_some(truth.space_used),
            set_id_loss: SetIdLoss::Nothing,
        };
        (is_all || news != Freshness::Unchanged).then_some(settle)
    }
}

/// Whether what the data servers say of a file is news, by what they said last.
fn news(inode: &Inode, truth: &DataServerAttrs, before: Option<DataServerAttrs>) -> Freshness {
    match before {
        Some(before) if before == *truth => Freshness::Unchanged,
        // A write that is as old as the last one, or none: counters start anew with a data server,
        // and its file system allocates late. Times that were set since stay.
        Some(before)
            if (before.mtime, before.size_at_least) == (truth.mtime, truth.size_at_least) =>
        {
            Freshness::Unknown
        }
        Some(_) => Freshness::Changed,
        // Nothing is remembered: certain is only what came after the last known change.
        None => {
            let later = mtime(truth).is_some_and(|t| t > inode.ctime.max(inode.mtime));
            match later || truth.size_at_least > inode.size {
                true => Freshness::Changed,
                false if truth.mtime.is_some() => Freshness::Unknown,
                false => Freshness::Unchanged,
            }
        }
    }
}

fn mtime(truth: &DataServerAttrs) -> Option<Timestamp> {
    truth.mtime.map(|(seconds, nanos)| Timestamp { seconds, nanos })
}
