//! What clients say of devices: errors and statistics of their layouts (RFC 7862 §15.6, §15.7).
//! Here it is counted and logged; what is decided by it is in `files/doubts.rs`.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Mutex, MutexGuard},
};

use weft_nfs::{
    NfsStat, OpNum,
    ops::{DeviceError, IoInfo},
};
use weft_server::{
    identity::hex,
    report::{DeviceStatus, IoStatus},
};
use weft_state::Millis;
use weft_store::types::{DataServerId, DeviceId};

/// At most one line in the log for each device in so many milliseconds.
const LOG_EVERY_MS: u64 = 10_000;
/// The word for statuses without a name, which a client can make up without end.
const UNNAMED: &str = "other";

#[derive(Debug, Default)]
struct Report {
    errors: BTreeMap<&'static str, u64>,
    statistics: u64,
    last: Option<(IoInfo, IoInfo)>,
    logged: Option<Millis>,
    /// Errors since that line.
    unlogged: u64,
}

/// The reports on all devices that files may be on; on others nothing is kept.
#[derive(Debug, Default)]
pub(crate) struct DeviceReports(Mutex<HashMap<DeviceId, Report>>);

impl DeviceReports {
    fn lock(&self) -> MutexGuard<'_, HashMap<DeviceId, Report>> {
        self.0.lock().expect("device reports lock")
    }

    /// Counts an error of a known device; whether it is time to log again, and how many errors
    /// that line is about.
    pub(crate) fn error(&self, error: &DeviceError, now: Millis) -> Option<u64> {
        let mut reports = self.lock();
        let report = reports.entry(DeviceId(error.device_id.0)).or_default();
        *report.errors.entry(error.status.name().unwrap_or(UNNAMED)).or_default() += 1;
        report.unlogged += 1;
        if report.logged.is_some_and(|then| now.since(then) < LOG_EVERY_MS) {
            return None;
        }
        report.logged = Some(now);
        Some(std::mem::take(&mut report.unlogged))
    }

    /// Takes note of the statistics of a known device. They are sums of the client's own, so the
    /// last ones are kept, not added up.
    pub(crate) fn statistics(&self, device: DeviceId, read: IoInfo, write: IoInfo) {
        let mut reports = self.lock();
        let report = reports.entry(device).or_default();
        report.statistics += 1;
        report.last = Some((read, write));
    }

    /// For administrators, by device id.
    pub(crate) fn status(&self) -> Vec<DeviceStatus> {
        let reports = self.lock();
        let mut devices: Vec<_> = reports.iter().map(|(id, r)| device_status(*id, r)).collect();
        devices.sort_by(|a, b| a.device.cmp(&b.device));
        devices
    }
}

fn device_status(id: DeviceId, report: &Report) -> DeviceStatus {
    let io = |i: IoInfo| IoStatus { operations: i.count, bytes: i.bytes };
    DeviceStatus {
        device: hex(&id.0),
        errors: report.errors.iter().map(|(name, n)| ((*name).to_owned(), *n)).collect(),
        statistics: report.statistics,
        last_read: report.last.map(|(read, _)| io(read)),
        last_write: report.last.map(|(_, write)| io(write)),
    }
}

/// Says what a client could not do, and with which data server if that is known.
pub(crate) fn log(
    (client, data_server): (u64, Option<DataServerId>),
    error: &DeviceError,
    errors: u64,
) {
    let (device, id) = (hex(&error.device_id.0), data_server.map(|id| id.0));
    let (op, status): (OpNum, NfsStat) = (error.op, error.status);
    tracing::warn!(client, device, id, %op, %status, errors, "a client has trouble with a device");
}

#[cfg(test)]
mod tests {
    use weft_nfs::DeviceId as WireDeviceId;

    use super::*;

    fn error(device: u8, status: NfsStat) -> DeviceError {
        DeviceError { device_id: WireDeviceId([device; 16]), status, op: OpNum::WRITE }
    }

    /// Errors are counted by their names; made-up ones share one place. The log hears of a device
    /// at once, then at intervals, and of every error once.
    #[test]
    fn errors_are_counted_and_logged_now_and_then() {
        let reports = DeviceReports::default();
        let at = |ms| Millis(1000 + ms);
        assert_eq!(reports.error(&error(1, NfsStat::NXIO), at(0)), Some(1));
        assert_eq!(reports.error(&error(1, NfsStat::NXIO), at(1)), None);
        assert_eq!(reports.error(&error(2, NfsStat::IO), at(2)), Some(1));
        for n in 0..100 {
            assert_eq!(reports.error(&error(1, NfsStat(4_000_000 + n)), at(3)), None);
        }
        assert_eq!(reports.error(&error(1, NfsStat::IO), at(LOG_EVERY_MS)), Some(102));
        let status = reports.status();
        let of = |at: usize| status[at].errors.clone();
        let counts = [("IO", 1), ("NXIO", 2), ("other", 100)];
        assert_eq!(of(0), counts.map(|(k, v)| (k.to_owned(), v)).into());
        assert_eq!(of(1), [("IO".to_owned(), 1)].into());
    }

    /// The last statistics stand.
    #[test]
    fn statistics_are_the_last_ones() {
        let reports = DeviceReports::default();
        let io = |count, bytes| IoInfo { count, bytes };
        reports.statistics(DeviceId([3; 16]), io(1, 2), io(3, 4));
        reports.statistics(DeviceId([3; 16]), io(5, 6), io(7, 8));
        let status = &reports.status()[0];
        assert_eq!(status.statistics, 2);
        assert_eq!(status.last_read, Some(IoStatus { operations: 5, bytes: 6 }));
        assert_eq!(status.last_write, Some(IoStatus { operations: 7, bytes: 8 }));
    }
}
