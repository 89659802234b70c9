//! Who gets a flexfiles layout on which data server. A client that cannot use one says so and asks
//! for the same layout again, as Linux does (`ff_layout_async_handle_error_v4`), without end: it is
//! refused instead, and the file's I/O goes through the metadata server, which tells what is wrong
//! or waits until it is over (ADR 31). Pure: the time is an argument.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard},
};

use weft_nfs::{ClientId, IoMode, NfsStat};
use weft_state::Millis;
use weft_store::types::DeviceId;

use crate::data_servers::Standing;

/// How long it counts what a client has met at a data server, milliseconds; Linux does not ask
/// again for two minutes once it was refused.
const COUNTS_FOR_MS: u64 = 30_000;
/// So many are remembered, of all clients: of more the oldest are forgotten, whose clients meet the
/// same again and say so again.
const DOUBTS_MAX: usize = 4096;

/// A moment, as the metadata server sees a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Moment {
    pub(super) now: Millis,
    /// Connections to its data servers so far ([`crate::data_servers::DataServers::connections`]):
    /// when there is another one, those of before had another reason to fail.
    pub(super) connections: u64,
}

/// What a client has met.
#[derive(Debug, Clone, Copy)]
struct Doubt {
    standing: Standing,
    at: Moment,
}

impl Doubt {
    fn counts(&self, at: Moment) -> bool {
        let lately = at.now.since(self.at.now) < COUNTS_FOR_MS;
        // Room does not come with a connection.
        lately && (self.standing == Standing::Full || self.at.connections == at.connections)
    }
}

/// Devices that clients could not use lately. Each counts for the client that says so: for others
/// the metadata server looks itself.
#[derive(Debug, Default)]
pub(super) struct Doubts(Mutex<HashMap<(ClientId, DeviceId), Doubt>>);

impl Doubts {
    fn lock(&self) -> MutexGuard<'_, HashMap<(ClientId, DeviceId), Doubt>> {
        self.0.lock().expect("doubts lock")
    }

    /// A client was told this by a data server of a known device, or says it of one.
    pub(super) fn met(&self, client: ClientId, device: DeviceId, status: NfsStat, at: Moment) {
        let Some(standing) = standing_after(status) else { return };
        let (mut doubts, key) = (self.lock(), (client, device));
        // Who may neither read nor write goes on being so for as long as that counts.
        let before = doubts.get(&key).filter(|d| d.counts(at)).map(|d| d.standing);
        let standing = before.map_or(standing, |before| before.min(standing));
        if doubts.len() >= DOUBTS_MAX && !doubts.contains_key(&key) {
            let oldest = doubts.iter().min_by_key(|(_, d)| d.at.now).map(|(key, _)| *key);
            if let Some(oldest) = oldest {
                doubts.remove(&oldest);
            }
        }
        doubts.insert(key, Doubt { standing, at });
    }

    /// What a client may hope for from a device by what it has met there.
    pub(super) fn standing(&self, client: ClientId, device: DeviceId, at: Moment) -> Standing {
        let (mut doubts, key) = (self.lock(), (client, device));
        match doubts.get(&key) {
            Some(doubt) if doubt.counts(at) => doubt.standing,
            Some(_) => {
                doubts.remove(&key);
                Standing::Ready
            }
            None => Standing::Ready,
        }
    }
}

/// What a client may hope for from a data server that answered this; `None` if that is cured by
/// waiting or by a new layout, whose handles are new too.
fn standing_after(status: NfsStat) -> Option<Standing> {
    match status {
        NfsStat::DELAY | NfsStat::GRACE => None,
        NfsStat::PNFS_NO_LAYOUT
        | NfsStat::STALE
        | NfsStat::BADHANDLE
        | NfsStat::FHEXPIRED
        | NfsStat::ISDIR
        | NfsStat::WRONG_TYPE => None,
        NfsStat::NOSPC | NfsStat::DQUOT | NfsStat::FBIG => Some(Standing::Full),
        _ => Some(Standing::Away),
    }
}

/// Whether a layout is of use on data servers of which this may be hoped: who is full is read from.
pub(super) fn is_of_use(standing: Standing, iomode: IoMode) -> bool {
    match standing {
        Standing::Away => false,
        Standing::Full => iomode == IoMode::READ,
        Standing::Scarce | Standing::Ready => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: ClientId = ClientId(1);
    const B: ClientId = ClientId(2);
    const ONE: DeviceId = DeviceId([1; 16]);
    const TWO: DeviceId = DeviceId([2; 16]);

    fn at(ms: u64, connections: u64) -> Moment {
        Moment { now: Millis(1000 + ms), connections }
    }

    /// What is met counts for its client and its device, and for a time; both sides of its end.
    #[test]
    fn it_counts_for_a_while() {
        let doubts = Doubts::default();
        doubts.met(A, ONE, NfsStat::NXIO, at(0, 1));
        assert_eq!(doubts.standing(A, ONE, at(COUNTS_FOR_MS - 1, 1)), Standing::Away);
        assert_eq!(doubts.standing(B, ONE, at(1, 1)), Standing::Ready);
        assert_eq!(doubts.standing(A, TWO, at(1, 1)), Standing::Ready);
        assert_eq!(doubts.standing(A, ONE, at(COUNTS_FOR_MS, 1)), Standing::Ready);
        assert!(doubts.lock().is_empty());
    }

    /// A data server that came back is tried again; one that had no room has none by that.
    #[test]
    fn another_connection_cures_all_but_want_of_room() {
        let doubts = Doubts::default();
        doubts.met(A, ONE, NfsStat::IO, at(0, 1));
        doubts.met(A, TWO, NfsStat::NOSPC, at(0, 1));
        assert_eq!(doubts.standing(A, ONE, at(1, 2)), Standing::Ready);
        assert_eq!(doubts.standing(A, TWO, at(1, 2)), Standing::Full);
    }

    /// Want of room is no reason to read elsewhere, and does not make better what was worse.
    #[test]
    fn the_worse_counts() {
        let doubts = Doubts::default();
        doubts.met(A, ONE, NfsStat::IO, at(0, 1));
        doubts.met(A, ONE, NfsStat::NOSPC, at(1, 1));
        assert_eq!(doubts.standing(A, ONE, at(2, 1)), Standing::Away);
        for status in [NfsStat::PNFS_NO_LAYOUT, NfsStat::STALE, NfsStat::DELAY, NfsStat::GRACE] {
            doubts.met(A, TWO, status, at(2, 1));
            assert_eq!(doubts.standing(A, TWO, at(2, 1)), Standing::Ready, "{status}");
        }
        doubts.met(A, TWO, NfsStat(4_000_000), at(2, 1));
        assert_eq!(doubts.standing(A, TWO, at(2, 1)), Standing::Away);
    }

    /// Nobody makes us remember without end; the oldest goes.
    #[test]
    fn they_are_bounded() {
        let doubts = Doubts::default();
        for n in 0..=DOUBTS_MAX as u64 {
            doubts.met(ClientId(n), ONE, NfsStat::IO, at(n, 1));
        }
        assert_eq!(doubts.lock().len(), DOUBTS_MAX);
        let now = at(DOUBTS_MAX as u64, 1);
        assert_eq!(doubts.standing(ClientId(0), ONE, now), Standing::Ready);
        assert_eq!(doubts.standing(ClientId(1), ONE, now), Standing::Away);
    }

    #[test]
    fn a_full_one_is_read_from() {
        let of_use = |standing| [IoMode::READ, IoMode::RW].map(|mode| is_of_use(standing, mode));
        assert_eq!(of_use(Standing::Ready), [true, true]);
        assert_eq!(of_use(Standing::Scarce), [true, true]);
        assert_eq!(of_use(Standing::Full), [true, false]);
        assert_eq!(of_use(Standing::Away), [false, false]);
    }
}
