//! Every bound on what peers can make us keep, with its reason.

/// The part of a metadata server's state memory that is for clients and sessions; the rest is for
/// what they hold. A client of Linux takes some 330 KiB of the one for its session, and as much of
/// the other for 400 open files.
const SESSIONS_PART: usize = 4;
/// State memory of a metadata server whose machine is unknown, bytes.
const MEMORY_BYTES: usize = 256 << 20;
/// Client records that a table has room for even if there is no memory for them all, and most of
/// them: they are looked at in turn.
const CLIENTS_MIN: usize = 4096;
const CLIENTS_MAX: usize = 65_536;
/// Memory for sessions for which there is one client record: what a client of Linux takes that is
/// not busy, of a metadata server and of a data server.
const CLIENT_OF_MDS_BYTES: usize = 16 << 10;
const CLIENT_OF_DS_BYTES: usize = 8 << 10;
/// The part of the client records that one host may have.
const CLIENTS_OF_HOST_PART: usize = 4;
/// Slots that a session has from its beginning and always keeps: one for a request, one for what a
/// client does meanwhile.
pub(crate) const SLOTS_MIN: usize = 2;
/// Slots that a session is asked to do with while memory runs short: enough for a client that is
/// not busy.
pub(crate) const SLOTS_WHEN_CROWDED: usize = 8;
/// Slots of one session of a data server: enough to keep a disk and a wire busy.
const DS_SLOTS_MAX: u32 = 128;
/// Bytes of a reply that a data server keeps for replay: the answers to WRITE and COMMIT, and no
/// OPEN or LAYOUTGET.
const DS_CACHED_BYTES_MAX: u32 = 1024;
/// Connections remembered for one session. Linux opens at most 16 (`nconnect`); beyond this the
/// oldest is forgotten, which costs its owner one BIND_CONN_TO_SESSION.
pub(crate) const CONNS_PER_SESSION_MAX: usize = 64;
/// A client that has only sessions counts as in use for so long after its last sign of life: less
/// than a machine takes to start again. Data servers keep nothing but sessions, for an hour.
pub(crate) const SESSION_IN_USE_MS: u64 = 30_000;
/// Slots of a back channel. Linux offers 16; recalls need few.
pub(crate) const BACK_SLOTS_MAX: u32 = 16;
/// Fewest bytes of a fore channel request or reply: a lone SEQUENCE with its RPC header.
pub(crate) const FORE_BYTES_MIN: u32 = 128;
/// Fewest bytes of a back channel request: CB_SEQUENCE and CB_LAYOUTRECALL with AUTH_SYS.
pub(crate) const BACK_BYTES_MIN: u32 = 512;
/// Fewest operations of a back channel request: CB_SEQUENCE and one more.
pub(crate) const BACK_OPS_MIN: u32 = 2;
/// Layouts whose return is remembered for a client, so that a LAYOUTCOMMIT that was overtaken by
/// its LAYOUTRETURN is still accepted. Linux has at most a slot table (64) of them under way.
pub(crate) const RETURNED_LAYOUTS_MAX: usize = 64;

/// Most copies of one client that are under way or not reported yet. Beyond it the next one is
/// done before its reply.
pub(crate) const OFFLOADS_PER_CLIENT_MAX: usize = 8;
/// Most of all clients: each that is under way holds a few megabytes.
pub(crate) const OFFLOADS_MAX: usize = 32;

/// Bounds of a [`crate::Sessions`] table, and what its sessions are granted at most.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionLimits {
    /// Memory for clients and sessions, bytes. One client has at most a quarter of it, one host
    /// half of what other hosts leave; EXCHANGE_ID and CREATE_SESSION then answer DELAY, or NOSPC
    /// for the client's share.
    pub memory_bytes: usize,
    /// Client records: all of them are looked at in turn. At the limit unconfirmed ones give way,
    /// oldest first; if all are confirmed, EXCHANGE_ID answers DELAY.
    pub clients_max: usize,
    /// Client records of one host, and half of those that other hosts leave at most. A host may
    /// stand for many (containers, a network behind one address), hence a quarter. Beyond it
    /// its unconfirmed ones give way, then EXCHANGE_ID answers DELAY.
    pub clients_per_host_max: usize,
    /// Sessions of one client, each of which a SEQUENCE looks at; CREATE_SESSION then answers
    /// NOSPC.
    pub sessions_per_client_max: usize,
    /// Slots of one session. Linux asks for 64; fewer limit its throughput. Memory is taken for
    /// those that are used; while it runs short, clients are asked to use fewer.
    pub slots_max: u32,
    /// Bytes of a request.
    pub request_bytes_max: u32,
    /// Bytes of a reply.
    pub response_bytes_max: u32,
    /// Bytes of a reply kept for replay. Linux asks for 5-8 KiB (an OPEN reply with a layout).
    pub cached_bytes_max: u32,
    /// Operations in a COMPOUND. Linux refuses to mount below 8.
    pub ops_max: u32,
}

impl Default for SessionLimits {
    fn default() -> Self {
        SessionLimits {
            memory_bytes: MEMORY_BYTES / SESSIONS_PART,
            clients_max: CLIENTS_MIN,
            clients_per_host_max: CLIENTS_MIN / CLIENTS_OF_HOST_PART,
            sessions_per_client_max: 16,
            slots_max: 64,
            request_bytes_max: (1 << 20) + 4096,
            response_bytes_max: (1 << 20) + 4096,
            cached_bytes_max: 8192,
            ops_max: 64,
        }
    }
}

impl SessionLimits {
    /// Limits for a server that keeps so many bytes of state of all sorts.
    pub fn of_memory(bytes: usize) -> Self {
        let memory_bytes = bytes / SESSIONS_PART;
        SessionLimits { memory_bytes, ..Self::of_clients(memory_bytes / CLIENT_OF_MDS_BYTES) }
    }

    fn of_clients(clients: usize) -> Self {
        let clients_max = clients.clamp(CLIENTS_MIN, CLIENTS_MAX);
        SessionLimits {
            clients_max,
            clients_per_host_max: clients_max / CLIENTS_OF_HOST_PART,
            ..SessionLimits::default()
        }
    }

    /// Limits for a data server, which keeps so many bytes of sessions and nothing else.
    pub fn of_data_server(bytes: usize) -> Self {
        SessionLimits {
            memory_bytes: bytes,
            slots_max: DS_SLOTS_MAX,
            cached_bytes_max: DS_CACHED_BYTES_MAX,
            ..Self::of_clients(bytes / CLIENT_OF_DS_BYTES)
        }
    }
}

/// How long a file gets no delegation after one of it was recalled; up to twice as long.
pub(crate) const CONTENDED_MS: u64 = 30_000;
/// How long a host gets no delegation after its clients twice did not return one that was recalled;
/// up to twice as long. Others waited a lease each time.
pub(crate) const LATE_HOST_MS: u64 = 600_000;
/// The part of the memory that is for such files and hosts, and most of each kind in one such time.
/// Those of the time before are forgotten for more.
pub(crate) const CONTENDED_PART: usize = 64;
pub(crate) const RECENT_MAX: usize = 1 << 15;
/// Requests noted as waiting for locks of one file, all of which are searched. Whoever waits beyond
/// that asks again by itself.
pub(crate) const LOCK_WAITERS_PER_FILE_MAX: usize = 256;
/// Locked ranges that are looked through for waiters at once, under the lock that all opens and
/// locks need: some 100 microseconds. Waiters that are left over are looked at the next time.
pub(crate) const LOCK_NOTICE_RANGES_MAX: usize = 1 << 16;
/// Locked ranges that are looked through, under the same lock, to see whether others wait for a
/// client whose lease has passed: a millisecond or two, once for each such client.
pub(crate) const LOCK_WAITED_RANGES_MAX: usize = 1 << 20;
/// Revoked delegations remembered for a client until it frees them.
pub(crate) const REVOKED_MAX: usize = 1024;

/// Bounds of a [`crate::State`] table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateLimits {
    /// Memory for opens, locks, layouts and delegations, bytes. One client has at most a quarter of
    /// it, one host half of what other hosts leave; OPEN and LOCK then answer DELAY. From three
    /// quarters of each on there are no more layouts (LAYOUTGET answers LAYOUTUNAVAILABLE, and the
    /// client's I/O goes through the metadata server) and no more delegations.
    pub memory_bytes: usize,
    /// Locked ranges of one file. Searches are linear in it; LOCK and LOCKU then answer DELAY.
    pub ranges_per_file_max: usize,
}

impl StateLimits {
    /// Limits for a server that keeps so many bytes of state of all sorts.
    pub fn of_memory(bytes: usize) -> Self {
        StateLimits { memory_bytes: bytes - bytes / SESSIONS_PART, ranges_per_file_max: 1 << 14 }
    }
}

impl Default for StateLimits {
    fn default() -> Self {
        StateLimits::of_memory(MEMORY_BYTES)
    }
}
