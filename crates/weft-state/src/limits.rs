//! Every bound on what peers can make us keep, with its reason.

/// Slots of all sessions together. Each may keep a reply of [`SessionLimits::cached_bytes_max`]:
/// with 8 KiB that is 1 GiB at the very worst; typical kept replies are 200 bytes.
pub(crate) const SLOTS_TOTAL_MAX: usize = 1 << 17;
/// A new session gets at most this part of the slots that are left, so that the last ones are
/// shared instead of going to whoever comes first.
pub(crate) const SLOTS_LEFT_SHARE: usize = 4;
/// Slots that a session is asked to do with while slots run short: enough for a client that is
/// not busy.
pub(crate) const SLOTS_WHEN_CROWDED: u32 = 8;
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
/// Whether so much of a limit is used that what is kept by courtesy has to go: three quarters, so
/// that those who come meanwhile still find room.
pub(crate) fn is_crowded(used: usize, limit: usize) -> bool {
    used >= limit - limit / 4
}

/// Bounds of a [`crate::Sessions`] table, and what its sessions are granted at most.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionLimits {
    /// Client records. At the limit unconfirmed ones give way, oldest first; if all are confirmed,
    /// EXCHANGE_ID answers DELAY.
    pub clients_max: usize,
    /// Client records of one host, so that it takes several to keep others out. A host may stand
    /// for many (containers, a network behind one address), hence a quarter. Beyond it
    /// its unconfirmed ones give way, then EXCHANGE_ID answers DELAY.
    pub clients_per_host_max: usize,
    /// Sessions of one client; CREATE_SESSION then answers NOSPC.
    pub sessions_per_client_max: usize,
    /// Slots of one session. Linux asks for 64; fewer limit its throughput.
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
            clients_max: 4096,
            clients_per_host_max: 1024,
            sessions_per_client_max: 16,
            slots_max: 64,
            request_bytes_max: (1 << 20) + 4096,
            response_bytes_max: (1 << 20) + 4096,
            cached_bytes_max: 8192,
            ops_max: 64,
        }
    }
}

/// Pairs of file and reading client that are remembered, to recognise a client that reads a file
/// again. Beyond this the memory starts anew.
pub(crate) const READERS_REMEMBERED_MAX: usize = 1 << 16;
/// Requests noted as waiting for locks of one file, and of one client. Whoever waits beyond that
/// asks again by itself.
pub(crate) const LOCK_WAITERS_PER_FILE_MAX: usize = 256;
pub(crate) const LOCK_WAITERS_PER_CLIENT_MAX: usize = 1024;
/// Locked ranges that are looked through for waiters at once, under the lock that all opens and
/// locks need: some 100 microseconds. Waiters that are left over are looked at the next time.
pub(crate) const LOCK_NOTICE_RANGES_MAX: usize = 1 << 16;
/// Locked ranges that are looked through, under the same lock, to see whether others wait for a
/// client whose lease has passed: a millisecond or two, once for each such client.
pub(crate) const LOCK_WAITED_RANGES_MAX: usize = 1 << 20;
/// Revoked delegations remembered for a client until it frees them.
pub(crate) const REVOKED_MAX: usize = 1024;

/// Bounds of a [`crate::State`] table. Records take 200-300 bytes each.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateLimits {
    /// Opens of one client; OPEN then answers DELAY until some are closed.
    pub opens_per_client_max: usize,
    /// Opens of all clients.
    pub opens_max: usize,
    /// Lock stateids of one client; LOCK then answers DELAY.
    pub locks_per_client_max: usize,
    /// Locked ranges of one file. Searches are linear in it; LOCK and LOCKU then answer DELAY.
    pub ranges_per_file_max: usize,
    /// Locked ranges of one client, in all files.
    pub ranges_per_client_max: usize,
    /// Layouts of one client; LAYOUTGET then answers LAYOUTUNAVAILABLE and the client's I/O goes
    /// through the metadata server.
    pub layouts_per_client_max: usize,
    /// Layouts of all clients.
    pub layouts_max: usize,
    /// Delegations of one client. Linux gives back unused ones beyond 5000.
    pub delegations_per_client_max: usize,
    /// Delegations of all clients.
    pub delegations_max: usize,
}

impl Default for StateLimits {
    fn default() -> Self {
        StateLimits {
            opens_per_client_max: 1 << 17,
            opens_max: 1 << 21,
            locks_per_client_max: 1 << 16,
            ranges_per_file_max: 1 << 14,
            ranges_per_client_max: 1 << 16,
            layouts_per_client_max: 1 << 17,
            layouts_max: 1 << 21,
            delegations_per_client_max: 1 << 13,
            delegations_max: 1 << 18,
        }
    }
}
