//! The durable marks of clients: who holds what it may reclaim after the next restart, and is
//! awaited then (RFC 8881 §8.4.2.1, ADR 12).
//!
//! A client is marked before the reply to its first OPEN leaves, and for as long as it holds an
//! open or a delegation. Nobody waits for one without a mark, which has nothing to reclaim.

use std::{
    collections::HashMap,
    sync::{
        Mutex, MutexGuard,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use bytes::Bytes;
use weft_nfs::{ClientId, Failure};
use weft_state::{GRACE_PARTS, KnownClient, Millis};
use weft_store::{
    types::{Lsn, StoreError},
    volume::Volume,
};

use super::record::ClientRecord;
use crate::deps::Deps;

/// A client that holds nothing stays marked for so long: most take something again at once, and
/// each mark is a commit.
const IDLE_MS: u64 = 5000;

/// The marks in a volume.
pub(crate) struct ClientRecords {
    volume: Volume,
    /// Lock order: before sessions and state.
    marks: Mutex<Marks>,
    /// The last removal of a record (a log sequence number). Until it is durable the client could
    /// come back after a crash for what others have been given since.
    forgotten: AtomicU64,
    /// The last note of a loss.
    lost: AtomicU64,
}

#[derive(Debug, Default)]
struct Marks {
    /// Of before this start, by owner.
    former: HashMap<Bytes, (u64, ClientRecord)>,
    /// Of this start.
    current: HashMap<ClientId, Mark>,
}

#[derive(Debug)]
struct Mark {
    record: ClientRecord,
    /// Until this is durable the client must not be told that it holds something.
    lsn: Lsn,
    idle_since: Option<Millis>,
    /// It has lost a delegation since this start.
    lost_now: bool,
    /// Of a client of before this start that has reclaimed something and has not said
    /// RECLAIM_COMPLETE: for how many parts of a grace period it was awaited before this start.
    reclaims_since: Option<u8>,
}

/// What a client holds that it could reclaim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Holds {
    /// Nothing.
    Nothing,
    /// Something, with a valid lease.
    Live,
    /// Something, by courtesy; or its grace period is over, and it has not said RECLAIM_COMPLETE.
    ByCourtesy,
}

/// A record: its id, and of whom.
pub(crate) type Known = (u64, ClientRecord);

/// The clients that may reclaim after this start: one record of each owner. Two of one
/// owner are left by a crash while the latter took the place of the former.
///
/// # Errors
/// The volume cannot be read, or has a record that is none.
pub(crate) fn known(volume: &Volume) -> Result<Vec<Known>, StoreError> {
    let mut by_owner = HashMap::<Bytes, Known>::new();
    for (id, bytes) in volume.clients().unconfirmed()? {
        let record = ClientRecord::decode(&bytes).ok_or(StoreError::Corrupt("client record"))?;
        if let Some((other, _)) = by_owner.insert(record.ownerid.clone(), (id, record)) {
            volume.client_remove(other).unconfirmed()?;
        }
    }
    Ok(by_owner.into_values().collect())
}

/// The same as grace knows them.
pub(crate) fn reclaimers(known: &[Known]) -> Vec<KnownClient> {
    let reclaimer = |(id, r): &Known| KnownClient {
        record: *id,
        ownerid: r.ownerid.clone(),
        awaited: r.awaited,
        waited: r.waited,
    };
    known.iter().map(reclaimer).collect()
}

impl ClientRecords {
    /// Those of a volume, of which these are known.
    pub(crate) fn new(volume: Volume, known: Vec<Known>) -> Self {
        let former = known.into_iter().map(|(id, r)| (r.ownerid.clone(), (id, r))).collect();
        let marks = Mutex::new(Marks { former, current: HashMap::new() });
        ClientRecords { volume, marks, forgotten: AtomicU64::new(0), lost: AtomicU64::new(0) }
    }

    fn marks(&self) -> MutexGuard<'_, Marks> {
        self.marks.lock().expect("client records lock")
    }

    /// A client has been given something that it could reclaim: it is marked if it was not, and
    /// the reply waits until that is durable. `who` tells who it is; nobody if it is gone, whose
    /// state goes too.
    ///
    /// # Errors
    /// Those of the store: what it was given is to be taken back.
    pub(crate) fn hold(
        &self,
        deps: &mut Deps,
        client: ClientId,
        who: impl FnOnce() -> Option<ClientRecord>,
    ) -> Result<(), Failure> {
        let mut marks = self.marks();
        if let Some(mark) = marks.current.get_mut(&client) {
            mark.idle_since = None;
            deps.depend(mark.lsn);
            return Ok(());
        }
        let Some(mut record) = who() else { return Ok(()) };
        let former = marks.former.remove(&record.ownerid);
        record.lost_some |= former.as_ref().is_some_and(|(_, record)| record.lost_some);
        let reclaims_since = former.as_ref().map(|(_, record)| record.waited);
        record.waited = reclaims_since.unwrap_or(0);
        deps.see(self.volume.client_put(client.0, &record.encode()))?;
        if let Some((former, _)) = former {
            deps.see(self.volume.client_remove(former))?;
        }
        let lsn = deps.lsn();
        let mark = Mark { record, lsn, idle_since: None, lost_now: false, reclaims_since };
        marks.current.insert(client, mark);
        Ok(())
    }

    /// Removes the mark of a client that is gone.
    pub(crate) fn forget(&self, client: ClientId) {
        let mut marks = self.marks();
        marks.current.remove(&client);
        self.remove(client.0);
    }

    /// Removes what is left of an owner's record of before this start: it has reclaimed what it
    /// wanted, or never will.
    pub(crate) fn forget_former(&self, ownerid: &[u8]) {
        let former = self.marks().former.remove(ownerid);
        former.into_iter().for_each(|(id, _)| self.remove(id));
    }

    /// Notes of the clients that have not completed their reclaim that this start has waited for
    /// them for so many parts of a grace period: the next one waits for the rest.
    pub(crate) fn note_waited(&self, parts: u8) {
        let mut marks = self.marks();
        let waited = |before: u8| before.saturating_add(parts).min(GRACE_PARTS);
        for (id, former) in marks.former.values().filter(|(_, former)| former.awaited) {
            let record = ClientRecord { waited: waited(former.waited), ..former.clone() };
            if let Err(e) = self.volume.client_put(*id, &record.encode()).value {
                tracing::error!(error = %e, "cannot change a client record");
            }
        }
        for (client, mark) in &mut marks.current {
            if let Some(before) = mark.reclaims_since {
                let record = ClientRecord { waited: waited(before), ..mark.record.clone() };
                self.change(*client, mark, record);
            }
        }
    }

    /// Removes records of before this start, so that their clients cannot reclaim after the next.
    pub(crate) fn end_reclaim(&self, incomplete: &[u64]) {
        self.marks().former.clear();
        incomplete.iter().for_each(|id| self.remove(*id));
    }

    fn remove(&self, id: u64) {
        let removed = self.volume.client_remove(id);
        self.forgotten.fetch_max(removed.lsn.0, Relaxed);
        if let Err(e) = removed.value {
            tracing::error!(error = %e, "cannot remove a client record");
        }
    }

    /// Brings the marks up to date: those of clients that hold nothing any more go, those of
    /// clients whose lease has passed tell that nobody needs to wait for them. `holds` is asked
    /// under the lock of the marks, so that no client takes something meanwhile unseen.
    pub(crate) fn sweep(&self, now: Millis, holds: impl Fn(ClientId) -> Holds) {
        let mut marks = self.marks();
        marks.current.retain(|client, mark| {
            let awaited = match holds(*client) {
                Holds::Nothing => {
                    let since = *mark.idle_since.get_or_insert(now);
                    if now.since(since) < IDLE_MS {
                        return true;
                    }
                    self.remove(client.0);
                    return false;
                }
                Holds::Live => true,
                Holds::ByCourtesy => false,
            };
            mark.idle_since = None;
            self.set_awaited(*client, mark, awaited);
            true
        });
    }

    fn set_awaited(&self, client: ClientId, mark: &mut Mark, awaited: bool) {
        self.change(client, mark, ClientRecord { awaited, ..mark.record.clone() });
    }

    fn change(&self, client: ClientId, mark: &mut Mark, record: ClientRecord) {
        if mark.record == record {
            return;
        }
        let put = self.volume.client_put(client.0, &record.encode());
        match put.value {
            Ok(()) => (mark.record, mark.lsn) = (record, put.lsn),
            Err(e) => tracing::error!(error = %e, "cannot change a client record"),
        }
    }

    /// A delegation is being revoked from the client. One without a mark has nothing to reclaim.
    pub(crate) fn note_loss(&self, client: ClientId) {
        let mut marks = self.marks();
        let Some(mark) = marks.current.get_mut(&client) else { return };
        mark.lost_now = true;
        self.change(client, mark, ClientRecord { lost_some: true, ..mark.record.clone() });
        self.lost.fetch_max(mark.lsn.0, Relaxed);
    }

    /// Returns when no delegation that was revoked until now can be reclaimed after a crash.
    ///
    /// # Errors
    /// The volume is broken.
    pub(crate) async fn losses_durable(&self) -> Result<(), StoreError> {
        match Lsn(self.lost.load(Relaxed)) {
            Lsn(0) => Ok(()),
            lsn => self.volume.durable(lsn).await,
        }
    }

    /// Whether the client may have lost a delegation that it had before this start, or since.
    pub(crate) fn lost_some(&self, client: ClientId, ownerid: &[u8]) -> bool {
        let marks = self.marks();
        let current = marks.current.get(&client).map(|mark| &mark.record);
        let former = marks.former.get(ownerid).map(|(_, record)| record);
        current.into_iter().chain(former).any(|record| record.lost_some)
    }

    /// The client has reclaimed what it wants: what it holds now it was given by this start.
    pub(crate) fn note_reclaimed(&self, client: ClientId) {
        let mut marks = self.marks();
        if let Some(mark) = marks.current.get_mut(&client) {
            mark.reclaims_since = None;
            let lost_some = mark.lost_now;
            let record = ClientRecord { lost_some, waited: 0, ..mark.record.clone() };
            self.change(client, mark, record);
        }
    }

    /// Makes the reply that grants new state wait until nobody who lost something can reclaim it
    /// after a crash (RFC 8881 §8.4.3).
    pub(crate) fn depend_on_forgotten(&self, deps: &mut Deps) {
        deps.depend(self.last_forgotten());
    }

    /// When this is durable, all that were forgotten are so for ever.
    pub(crate) fn last_forgotten(&self) -> Lsn {
        Lsn(self.forgotten.load(Relaxed))
    }

    /// Where an owner of before this start came from, while it may reclaim.
    pub(crate) fn former_address(&self, ownerid: &[u8]) -> Option<std::net::IpAddr> {
        self.marks().former.get(ownerid).map(|(_, record)| record.address)
    }
}

#[cfg(test)]
mod tests {
    use weft_store::volume::VolumeConfig;

    use super::*;

    const A: ClientId = ClientId(7);

    fn record(ownerid: &'static str) -> ClientRecord {
        let ownerid = Bytes::from_static(ownerid.as_bytes());
        let (address, lost_some) = ([192, 0, 2, 7].into(), false);
        ClientRecord { ownerid, address, awaited: true, lost_some, waited: 0 }
    }

    fn volume() -> Volume {
        Volume::in_memory(&VolumeConfig::default()).unwrap()
    }

    fn on(volume: &Volume) -> ClientRecords {
        ClientRecords::new(volume.clone(), known(volume).unwrap())
    }

    /// What the next start would know: ids, owners, and whether they are awaited.
    fn left(volume: &Volume) -> Vec<(u64, Bytes, bool)> {
        let mut all: Vec<_> =
            known(volume).unwrap().into_iter().map(|(id, r)| (id, r.ownerid, r.awaited)).collect();
        all.sort();
        all
    }

    fn hold(records: &ClientRecords, client: ClientId) -> Lsn {
        let mut deps = Deps::default();
        records.hold(&mut deps, client, || Some(record("a"))).unwrap();
        deps.lsn()
    }

    /// A client is marked by what it takes first; the next reply waits for the same mark without
    /// another; nothing left, it loses the mark after a while, and not a moment earlier.
    #[test]
    fn marks_follow_what_is_held() {
        let volume = volume();
        let records = on(&volume);
        let first = hold(&records, A);
        assert!(first > Lsn::default());
        assert_eq!(hold(&records, A), first);
        assert_eq!(left(&volume), [(7, "a".into(), true)]);
        records.sweep(Millis(10), |_| Holds::Live);
        records.sweep(Millis(20), |_| Holds::Nothing);
        records.sweep(Millis(20 + IDLE_MS - 1), |_| Holds::Nothing);
        assert_eq!(left(&volume).len(), 1);
        // It took something in between.
        hold(&records, A);
        records.sweep(Millis(20 + IDLE_MS), |_| Holds::Nothing);
        assert_eq!(left(&volume).len(), 1);
        let before = records.last_forgotten();
        records.sweep(Millis(20 + 2 * IDLE_MS), |_| Holds::Nothing);
        assert_eq!(left(&volume), []);
        assert!(records.last_forgotten() > before, "whoever is given something waits for that");
        assert!(hold(&records, A) > first);
    }

    /// Who has let its lease pass is not awaited, until it is back.
    #[test]
    fn courtesy_is_not_awaited() {
        let volume = volume();
        let records = on(&volume);
        hold(&records, A);
        for (holds, awaited) in
            [(Holds::ByCourtesy, false), (Holds::ByCourtesy, false), (Holds::Live, true)]
        {
            records.sweep(Millis(1), |_| holds);
            assert_eq!(left(&volume), [(7, "a".into(), awaited)]);
        }
    }

    /// The mark of this start takes the place of the former one of the same owner; one that
    /// reclaims nothing has none left, as one that never came.
    #[test]
    fn former_records_go() {
        let volume = volume();
        hold(&on(&volume), A);
        let again = on(&volume);
        assert_eq!(again.former_address(b"a"), Some([192, 0, 2, 7].into()));
        hold(&again, ClientId(9));
        assert_eq!(left(&volume), [(9, "a".into(), true)]);
        again.end_reclaim(&[7]);
        assert_eq!(left(&volume), [(9, "a".into(), true)], "it has reclaimed");
        let third = on(&volume);
        third.forget_former(b"stranger");
        assert_eq!(left(&volume).len(), 1);
        third.forget_former(b"a");
        assert_eq!(left(&volume), []);
    }

    /// A client is awaited in vain for one grace period in all, over starts that did not last for
    /// one, also if it reclaims each time and never completes that. A client that completes it is
    /// like any other.
    #[test]
    fn vain_waits_add_up() {
        let volume = volume();
        hold(&on(&volume), A);
        let waited = || known(&volume).unwrap().first().map(|(_, record)| record.waited);
        let first = on(&volume);
        first.note_waited(2);
        first.note_waited(3);
        assert_eq!(waited(), Some(3));
        let second = on(&volume);
        hold(&second, ClientId(9));
        assert_eq!(waited(), Some(3), "it has reclaimed something");
        second.note_waited(4);
        assert_eq!(waited(), Some(7));
        let third = on(&volume);
        third.note_waited(4);
        assert_eq!(waited(), Some(GRACE_PARTS));
        hold(&third, ClientId(11));
        third.note_reclaimed(ClientId(11));
        third.note_waited(5);
        assert_eq!(waited(), Some(0));
    }

    /// A crash between the new record and the removal of the old one leaves one client, not two.
    #[test]
    fn two_records_of_an_owner_are_one_client() {
        let volume = volume();
        for id in [3, 9] {
            volume.client_put(id, &record("a").encode()).unconfirmed().unwrap();
        }
        assert_eq!(left(&volume), [(9, "a".into(), true)]);
        assert_eq!(volume.clients().unconfirmed().unwrap().len(), 1);
    }

    /// What is no record is said to be none.
    #[test]
    fn damaged_records_are_errors() {
        let volume = volume();
        volume.client_put(1, b"\x01owner").unconfirmed().unwrap();
        assert_eq!(known(&volume).unwrap_err(), StoreError::Corrupt("client record"));
    }
}
