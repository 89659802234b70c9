//! Copies that go on after their reply, and their stateids: RFC 7862 §4.8, §15.8, §15.9.

use std::collections::BTreeMap;

use weft_nfs::{ClientId, NfsStat, Stateid};

use crate::ids::FileKey;
use crate::limits::{OFFLOADS_MAX, OFFLOADS_PER_CLIENT_MAX};
use crate::refusal::{Reason, Refusal};
use crate::stateid::{StateNo, offload_stateid, parse_offload};

/// The copies of one metadata server that are under way, or whose end their clients have not
/// been told.
#[derive(Debug)]
pub struct Offloads {
    instance: u32,
    last_no: u64,
    offloads: BTreeMap<StateNo, Offload>,
}

#[derive(Debug)]
struct Offload {
    client: ClientId,
    /// The destination.
    file: FileKey,
    copied: u64,
    ended: Option<NfsStat>,
    cancelled: bool,
    /// The client is gone: kept only until the copy has stopped, since it counts until then.
    abandoned: bool,
}

/// How far an operation is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OffloadProgress {
    /// Bytes copied so far.
    pub copied: u64,
    /// How it ended, if it has.
    pub ended: Option<NfsStat>,
}

impl Offloads {
    /// An empty table; `instance` as for [`crate::State::new`].
    pub fn new(instance: u32) -> Self {
        Offloads { instance, last_no: 0, offloads: BTreeMap::new() }
    }

    /// Records a copy that begins, to a file, and gives its stateid; none beyond the limits.
    pub fn begin(&mut self, client: ClientId, file: FileKey) -> Option<Stateid> {
        let of_client = self.of_client(client).count();
        if of_client >= OFFLOADS_PER_CLIENT_MAX || self.offloads.len() >= OFFLOADS_MAX {
            return None;
        }
        self.last_no += 1;
        let no = StateNo(self.last_no);
        let offload =
            Offload { client, file, copied: 0, ended: None, cancelled: false, abandoned: false };
        self.offloads.insert(no, offload);
        Some(offload_stateid(self.instance, no))
    }

    /// Notes how far a copy is; whether it is to go on. If not, [`Self::forget`] follows.
    pub fn progress(&mut self, stateid: &Stateid, copied: u64) -> bool {
        self.find(stateid).is_some_and(|o| {
            o.copied = copied;
            !o.cancelled
        })
    }

    /// Notes how a copy ended; whether its client is to be told.
    pub fn end(&mut self, stateid: &Stateid, copied: u64, status: NfsStat) -> bool {
        let wanted = self.progress(stateid, copied);
        if let Some(offload) = self.find(stateid) {
            offload.ended = Some(status);
        }
        wanted
    }

    /// Forgets a copy: its client was told of the end, or has cancelled it.
    pub fn forget(&mut self, stateid: &Stateid) {
        if let Ok(no) = parse_offload(self.instance, stateid) {
            self.offloads.remove(&no);
        }
    }

    /// Whether a copy is neither forgotten nor gone with its client.
    pub fn is_known(&self, stateid: &Stateid) -> bool {
        let found =
            parse_offload(self.instance, stateid).ok().and_then(|no| self.offloads.get(&no));
        found.is_some_and(|o| !o.abandoned)
    }

    /// OFFLOAD_STATUS.
    ///
    /// # Errors
    /// BAD_STATEID.
    ///
    /// Source: RFC 7862 §15.9.3.
    pub fn status(
        &self,
        client: ClientId,
        file: FileKey,
        stateid: &Stateid,
    ) -> Result<OffloadProgress, Refusal> {
        let no = parse_offload(self.instance, stateid)?;
        let offload = self.offloads.get(&no).ok_or(Reason::StateidUnknown)?;
        offload.check(client, file)?;
        Ok(OffloadProgress { copied: offload.copied, ended: offload.ended })
    }

    /// OFFLOAD_CANCEL: the copy is to stop, and its client is not told of the end.
    ///
    /// # Errors
    /// COMPLETE_ALREADY for one that has ended, BAD_STATEID.
    ///
    /// Source: RFC 7862 §15.8.3.
    pub fn cancel(
        &mut self,
        client: ClientId,
        file: FileKey,
        stateid: &Stateid,
    ) -> Result<(), Refusal> {
        let no = parse_offload(self.instance, stateid)?;
        let offload = self.offloads.get_mut(&no).ok_or(Reason::StateidUnknown)?;
        offload.check(client, file)?;
        if offload.ended.is_some() {
            return Err(Reason::OffloadEnded.into());
        }
        offload.cancelled = true;
        Ok(())
    }

    /// Whether the client has any.
    pub fn client_has(&self, client: ClientId) -> bool {
        self.of_client(client).next().is_some()
    }

    /// The client is gone: its copies stop at their next step, and count until they have.
    pub fn drop_client(&mut self, client: ClientId) {
        for offload in self.offloads.values_mut().filter(|o| o.client == client) {
            (offload.cancelled, offload.abandoned) = (true, true);
        }
        self.offloads.retain(|_, o| !o.abandoned || o.ended.is_none());
    }

    fn of_client(&self, client: ClientId) -> impl Iterator<Item = &Offload> {
        self.offloads.values().filter(move |o| o.client == client && !o.abandoned)
    }

    fn find(&mut self, stateid: &Stateid) -> Option<&mut Offload> {
        let no = parse_offload(self.instance, stateid).ok()?;
        self.offloads.get_mut(&no)
    }
}

impl Offload {
    fn check(&self, client: ClientId, file: FileKey) -> Result<(), Reason> {
        if self.client != client {
            return Err(Reason::StateidForeign);
        }
        if self.file == file { Ok(()) } else { Err(Reason::StateidOfOtherFile) }
    }
}

#[cfg(test)]
mod transitions;

#[cfg(test)]
mod tests {
    use weft_nfs::Seqid;

    use super::*;
    use crate::testing::{A, B, FILE, OTHER_FILE};

    fn because<T: std::fmt::Debug>(result: Result<T, Refusal>) -> Reason {
        result.expect_err("refused").because
    }

    /// A copy from its beginning to the word that its client was told: what STATUS says and CANCEL
    /// does at each point.
    #[test]
    fn the_life_of_a_copy() {
        let mut offloads = Offloads::new(7);
        let id = offloads.begin(A, FILE).unwrap();
        assert_ne!(id.seqid, Seqid(0), "RFC 7862 §4.8");
        let status = |o: &Offloads| o.status(A, FILE, &id);
        assert_eq!(status(&offloads), Ok(OffloadProgress { copied: 0, ended: None }));
        assert!(offloads.progress(&id, 5));
        assert_eq!(status(&offloads), Ok(OffloadProgress { copied: 5, ended: None }));
        assert!(offloads.end(&id, 6, NfsStat::NOSPC));
        let ended = Some(NfsStat::NOSPC);
        assert_eq!(status(&offloads), Ok(OffloadProgress { copied: 6, ended }));
        assert_eq!(because(offloads.cancel(A, FILE, &id)), Reason::OffloadEnded);
        assert!(offloads.client_has(A) && offloads.is_known(&id));
        offloads.forget(&id);
        assert_eq!(because(status(&offloads)), Reason::StateidUnknown);
        assert!(!offloads.client_has(A) && !offloads.is_known(&id));
    }

    /// A cancelled copy stops, and no callback says that it ended.
    #[test]
    fn cancelled_copies_stop() {
        let mut offloads = Offloads::new(7);
        let id = offloads.begin(A, FILE).unwrap();
        offloads.cancel(A, FILE, &id).unwrap();
        assert!(offloads.is_known(&id), "until it has stopped");
        assert!(!offloads.progress(&id, 1));
        assert!(!offloads.end(&id, 1, NfsStat::OK));
        let other = offloads.begin(A, FILE).unwrap();
        offloads.drop_client(A);
        assert!(!offloads.progress(&other, 1) && !offloads.client_has(A));
        assert!(!offloads.is_known(&other), "nobody is told");
    }

    /// Stateids of others, of other files and servers, with another seqid, and of other kinds.
    #[test]
    fn foreign_stateids_are_refused() {
        let mut offloads = Offloads::new(7);
        let id = offloads.begin(A, FILE).unwrap();
        let mut kind = id;
        kind.other[4] = 1;
        let with_seqid = |n| Stateid { seqid: Seqid(n), ..id };
        let cases = [
            (B, FILE, id, Reason::StateidForeign),
            (A, OTHER_FILE, id, Reason::StateidOfOtherFile),
            (A, FILE, with_seqid(0), Reason::StateidUnknown),
            (A, FILE, with_seqid(2), Reason::StateidUnknown),
            (A, FILE, kind, Reason::StateidUnknown),
            (A, FILE, Stateid::ANONYMOUS, Reason::StateidSpecial),
            (A, FILE, Stateid { other: [9; 12], ..id }, Reason::StateidUnknown),
        ];
        for (client, file, stateid, reason) in cases {
            assert_eq!(because(offloads.status(client, file, &stateid)), reason, "{stateid:?}");
            assert_eq!(because(offloads.cancel(client, file, &stateid)), reason, "{stateid:?}");
        }
        assert!(offloads.progress(&id, 1), "nothing was cancelled");
        assert!(Offloads::new(8).status(A, FILE, &id).is_err());
    }

    /// Copies of clients that are gone count until they have stopped, so that nobody has more of
    /// them by coming again; those that had ended are gone with their client.
    #[test]
    fn abandoned_copies_count() {
        let mut offloads = Offloads::new(7);
        let mut running = Vec::new();
        for n in 0.. {
            let client = ClientId(100 + n);
            let Some(id) = offloads.begin(client, FILE) else { break };
            running.push(id);
            offloads.drop_client(client);
        }
        assert_eq!(running.len(), OFFLOADS_MAX);
        for id in running {
            assert!(!offloads.end(&id, 1, NfsStat::OK));
            offloads.forget(&id);
        }
        let id = offloads.begin(A, FILE).unwrap();
        assert!(offloads.end(&id, 1, NfsStat::OK));
        offloads.drop_client(A);
        assert!(offloads.offloads.is_empty());
    }

    /// Both sides of both limits.
    #[test]
    fn copies_are_limited() {
        let mut offloads = Offloads::new(7);
        let ids: Vec<_> = (0..OFFLOADS_PER_CLIENT_MAX).map(|_| offloads.begin(A, FILE)).collect();
        assert!(ids.iter().all(Option::is_some));
        assert_eq!(offloads.begin(A, FILE), None);
        offloads.forget(&ids[0].unwrap());
        assert!(offloads.begin(A, FILE).is_some());
        let more = (0..).map_while(|n| offloads.begin(ClientId(100 + n), FILE)).count();
        assert_eq!(OFFLOADS_PER_CLIENT_MAX + more, OFFLOADS_MAX);
    }
}
