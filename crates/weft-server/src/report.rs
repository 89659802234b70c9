//! What servers tell administrators about themselves: the types behind `weft status`, `weft stat`
//! and the admin service, and what can be asked. Every room may report in them; how they travel is
//! not known here.

use std::{collections::BTreeMap, future::Future, pin::Pin};

use bytes::Bytes;
use serde::{Deserialize, Serialize};

/// What one server has done.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Activity {
    /// Operations executed, by name.
    pub operations: BTreeMap<String, u64>,
    /// Payload bytes of WRITE.
    pub bytes_in: u64,
    /// Payload bytes of READ.
    pub bytes_out: u64,
    /// Memory of its process, bytes.
    pub rss_bytes: u64,
    /// NFS clients known.
    pub clients: u64,
    /// Connections open.
    pub connections: u64,
    /// Seconds since it started.
    pub uptime_s: u64,
}

/// One server of the cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerStatus {
    /// "mds" or "ds".
    pub role: String,
    /// Number of a data server.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub id: Option<u32>,
    /// Where it serves NFS.
    pub address: String,
    /// Whether it answers.
    pub reachable: bool,
    /// Why it does not.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub error: Option<String>,
    /// What it has done; zeroes while it does not answer.
    #[serde(flatten)]
    pub activity: Activity,
    /// Requests of a metadata server to the control programs of its data servers, by procedure.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", default)]
    pub control_messages: BTreeMap<String, u64>,
    /// Files to come whose objects a metadata server has made; absent unless it makes any ahead.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub files_ahead: Option<usize>,
    /// Disk space, where it is known.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub space: Option<SpaceStatus>,
    /// True if a data server has too little room for new files, which go to others while there are
    /// any.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub passed_over: bool,
    /// Removals and truncations that wait for a data server.
    #[serde(skip_serializing_if = "is_zero", default)]
    pub owed: u64,
    /// Memory for clients and what they hold, of a metadata server.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub state_memory: Option<StateMemoryStatus>,
}

/// Memory that clients and what they hold take, as it is counted, bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct StateMemoryStatus {
    /// In use.
    pub used: u64,
    /// Most of it.
    pub limit: u64,
}

fn is_zero(n: &u64) -> bool {
    *n == 0
}

/// A client that sends reads and writes through the metadata server that data servers should have
/// had, in the last minute.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FallbackStatus {
    /// Its machine, as far as one can tell.
    pub name: String,
    /// Where it came from.
    pub address: String,
    /// Requests.
    pub requests: u64,
    /// Their bytes.
    pub bytes: u64,
    /// The likely reason.
    pub why: String,
}

/// A data server that a client says it cannot reach, in the last minute.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnreachedStatus {
    /// The client's machine, as far as one can tell.
    pub name: String,
    /// Address that the client connected from.
    pub address: String,
    /// Number of the data server.
    pub data_server: u32,
    /// Reports of the client.
    pub reports: u64,
}

/// Disk space of a server, bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpaceStatus {
    /// All of it.
    pub total: u64,
    /// Not in use.
    pub free: u64,
    /// Not in use and not reserved: so much may still be written.
    pub available: u64,
}

/// A disk with less than this part of it available is nearly full.
const NEARLY_FULL_SHARE: u64 = 50;
/// A disk with less than this part of it available is getting full.
const GETTING_FULL_SHARE: u64 = 20;

impl SpaceStatus {
    /// Whether an administrator should make room.
    pub fn is_nearly_full(&self) -> bool {
        self.available < self.total / NEARLY_FULL_SHARE
    }

    /// True if an administrator should plan for more room.
    pub fn is_getting_full(&self) -> bool {
        self.available < self.total / GETTING_FULL_SHARE
    }
}

/// `GET /status`, and what `weft status --json` prints.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClusterStatus {
    /// Version of the software.
    pub version: String,
    /// Seconds since the metadata server started.
    pub uptime_s: u64,
    /// The metadata server, then the data servers by number.
    pub servers: Vec<ServerStatus>,
    /// Writes to data servers through the metadata server.
    #[serde(default)]
    pub indirect: IndirectStatus,
    /// The write threshold of the export.
    #[serde(default)]
    pub threshold: ThresholdStatus,
    /// Devices that clients have reported on.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub devices: Vec<DeviceStatus>,
    /// The grace period after the start, while it is on.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub grace: Option<GraceStatus>,
    /// Clients whose I/O is not parallel at the moment.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub fallbacks: Vec<FallbackStatus>,
    /// Data servers that clients cannot reach, as they say.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub unreached: Vec<UnreachedStatus>,
}

/// The grace period after a start of the metadata server: nothing can be opened or locked anew
/// until it ends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GraceStatus {
    /// Seconds until it ends, sooner if all that are awaited are done; 0 if it goes on only
    /// because somebody is reclaiming.
    pub left_s: u64,
    /// Who is awaited.
    pub awaited: Vec<AwaitedClient>,
}

/// A client that held something before the start and has not come back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AwaitedClient {
    /// Its machine, as far as one can tell.
    pub name: String,
    /// How it calls itself (`co_ownerid`).
    pub owner: String,
    /// Where it came from; absent once it has begun to reclaim.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub address: Option<String>,
}

/// `GET /clients`, and what `weft clients --json` prints.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientsReport {
    /// By name.
    pub clients: Vec<ClientStatus>,
    /// The grace period after the start, while it is on.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub grace: Option<GraceStatus>,
}

/// A client of the metadata server, and how much it holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientStatus {
    /// Client id, hexadecimal.
    pub id: String,
    /// Its machine, as far as one can tell.
    pub name: String,
    /// How it calls itself (`co_ownerid`).
    pub owner: String,
    /// Where it came from.
    pub address: String,
    /// What it says it is.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub implementation: Option<String>,
    /// Whether its lease is valid; if not, what it holds is kept by courtesy.
    pub lease_valid: bool,
    /// Seconds since it last renewed its lease.
    pub silent_s: u64,
    /// NFS 4.1 or 4.2.
    pub minor_version: u32,
    /// Sessions.
    pub sessions: usize,
    /// Open files, each owner's of its own.
    pub opens: usize,
    /// Locked byte ranges.
    pub locks: usize,
    /// Delegations.
    pub delegations: usize,
    /// Files with layouts.
    pub layouts: usize,
    /// Owners that wait for locks.
    pub waiting_for_locks: usize,
}

/// What `POST /clients/evict` did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Evicted {
    /// Who was ended, and what it held; absent if it was not connected.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub client: Option<ClientStatus>,
    /// Whether it was awaited in grace.
    pub was_awaited: bool,
}

/// Writes to data servers through the metadata server, since it started.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct IndirectStatus {
    /// Writes that came.
    pub writes: u64,
    /// Messages that left for data servers: fewer if small writes were gathered, more if writes
    /// went over the borders of stripe units.
    pub messages: u64,
    /// Parts of writes that wait at the moment, to leave with others or after them.
    pub waiting: u64,
}

/// The write threshold: clients send I/O on files below it to the metadata server. Bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThresholdStatus {
    /// What the configuration says, and what holds after the next start.
    pub configured: u64,
    /// What was set since, or the same.
    pub set: u64,
    /// What clients are told now of files on data servers; less than `set` under load.
    pub now: u64,
    /// Requests under way for each thread, smoothed over a second: the load.
    pub requests_per_thread: u64,
}

/// What clients say of a device (LAYOUTERROR, LAYOUTSTATS).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceStatus {
    /// Device id, hexadecimal.
    pub device: String,
    /// Errors that clients met there, by status.
    pub errors: BTreeMap<String, u64>,
    /// Statistics received.
    pub statistics: u64,
    /// READs of the last ones: sums of one client for one file.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub last_read: Option<IoStatus>,
    /// WRITEs of the last ones.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub last_write: Option<IoStatus>,
}

/// Operations and their bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct IoStatus {
    /// How many.
    pub operations: u64,
    /// Bytes.
    pub bytes: u64,
}

/// `GET /health`: whether clients can work.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Health {
    /// Whether everything works.
    pub healthy: bool,
    /// What does not, in words.
    pub problems: Vec<String>,
    /// What works and should be looked at.
    #[serde(default)]
    pub warnings: Vec<String>,
    /// The grace period after the start, while it is on.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub grace: Option<GraceStatus>,
}

/// `GET /file?path=`: where a file's bytes are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileReport {
    /// The path asked about.
    pub path: String,
    /// Inode number.
    pub fileid: u64,
    /// Bytes of the file.
    pub size: u64,
    /// The bytes are with the metadata server, since they are few. With a layout too, they are
    /// being moved to the data servers.
    #[serde(default)]
    pub stuffed: bool,
    /// Absent while the file is on no data server.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub layout: Option<FileLayoutReport>,
}

/// How a file is striped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileLayoutReport {
    /// Device id, hexadecimal.
    pub device: String,
    /// Bytes of a stripe unit.
    pub stripe_unit_bytes: u32,
    /// Data servers of the file.
    pub stripe_count: u16,
    /// Index of the one with the first unit.
    pub first_stripe_index: u16,
    /// Older handles are refused.
    pub fence_epoch: u32,
    /// Of a replicated file, whether its copies have the same bytes; while they may differ the one
    /// with the first stripe index is read.
    pub copies_alike: Option<bool>,
    /// The objects in stripe order.
    pub objects: Vec<ObjectReport>,
}

/// One object of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ObjectReport {
    /// Number of its data server.
    pub data_server: u32,
    /// Where that serves NFS.
    pub address: String,
    /// Local size in bytes; absent if the data server does not answer.
    pub size: Option<u64>,
    /// Bytes of disk in use.
    pub space_used: Option<u64>,
    /// Why there is no answer.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub error: Option<String>,
}

/// Why a question has no answer, or nothing is done.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AdminError {
    /// The question makes no sense.
    #[error("{0}")]
    BadRequest(String),
    /// There is no such file.
    #[error("{0}: no such file or directory")]
    NotFound(String),
    /// No client is called so.
    #[error("{0}: no such client (`weft clients` lists them)")]
    NoClient(String),
    /// The server cannot tell at the moment.
    #[error("{0}")]
    Failed(String),
}

/// A part of the files of a volume, held against their objects.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckedFiles {
    /// Files on data servers that were compared.
    pub files: u64,
    /// What is wrong.
    pub faults: Vec<FileFault>,
    /// Data servers that could not be asked, and why.
    pub unreachable: BTreeMap<u32, String>,
    /// The last inode that was looked at; `None` behind the last one.
    pub last: Option<u64>,
}

/// What is wrong with an object of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileFault {
    /// One path of the file from the root; `None` if it has no name.
    pub path: Option<String>,
    /// Inode number.
    pub fileid: u64,
    /// Where the object is.
    pub data_server: u32,
    /// Bytes are lost.
    pub lost: bool,
    /// In words.
    pub what: String,
}

/// A part of the objects of a data server, held against the volume.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckedObjects {
    /// Objects that were compared.
    pub objects: u64,
    /// Those without a reason to be there: volume, and number in it.
    pub unaccounted: Vec<(u32, u64)>,
    /// Those of files that have none there.
    pub elsewhere: Vec<(u32, u64)>,
    /// The last object that was looked at; `None` behind the last one.
    pub last: Option<(u32, u64)>,
}

/// Bytes that come piece by piece, some hundred KiB each; an error is the last piece.
pub type ByteStream = tokio::sync::mpsc::Receiver<std::io::Result<Bytes>>;

/// The answer to a question, later.
pub type AdminFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Where the admin service gets its answers.
pub trait AdminSource: Send + Sync + 'static {
    /// Every server of the cluster; one that does not answer is in it as such.
    fn status(&self) -> AdminFuture<'_, ClusterStatus>;

    /// Whether clients can work.
    fn health(&self) -> AdminFuture<'_, Health>;

    /// Where the bytes of the file at this path of the export are.
    fn file(&self, path: String) -> AdminFuture<'_, Result<FileReport, AdminError>>;

    /// Compares the next files behind an inode with their objects. One part at a time.
    fn check_files(&self, after: Option<u64>) -> AdminFuture<'_, Result<CheckedFiles, AdminError>>;

    /// Compares the next objects of a data server, behind one, with the volume. One part at a time.
    fn check_objects(
        &self,
        data_server: u32,
        after: Option<(u32, u64)>,
    ) -> AdminFuture<'_, Result<CheckedObjects, AdminError>>;

    /// Who is there, and what each holds.
    fn clients(&self) -> ClientsReport;

    /// Ends a client, by id, name, owner or address.
    fn evict(&self, who: String) -> AdminFuture<'_, Result<Evicted, AdminError>>;

    /// Sets the write threshold until the next start, bytes.
    ///
    /// # Errors
    /// It is out of range.
    fn set_threshold(&self, bytes: u64) -> Result<ThresholdStatus, AdminError>;

    /// A backup of the volume as it is now; one at a time, and only while it is being taken.
    fn backup(&self) -> AdminFuture<'_, Result<ByteStream, AdminError>>;
}

/// Resident memory of this process, bytes; 0 where the system does not tell. Reads `/proc`,
/// which never waits for a disk.
pub fn rss_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let kib = status.lines().find_map(|l| l.strip_prefix("VmRSS:")?.split_whitespace().next());
    kib.and_then(|k| k.parse::<u64>().ok()).unwrap_or(0).saturating_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A fiftieth of the disk is the border, a twentieth that of the warning.
    #[test]
    fn a_nearly_full_disk_is_told() {
        let of = |available| SpaceStatus { total: 1000, free: 500, available };
        assert!(of(0).is_nearly_full());
        assert!(of(19).is_nearly_full());
        assert!(!of(20).is_nearly_full());
        assert!(of(49).is_getting_full());
        assert!(!of(50).is_getting_full());
    }

    /// A running test has some memory, and not all of it.
    #[test]
    fn memory_is_measured() {
        let rss = rss_bytes();
        assert!((1 << 20..1 << 40).contains(&rss), "{rss}");
    }
}
