//! Every bound of the client, with its reason.

use std::time::Duration;

/// Calls waiting for their replies on one connection. Sessions bound themselves by slots long
/// before; this bounds users of the bare RPC client.
pub const CALLS_IN_FLIGHT_MAX: usize = 512;
/// Messages queued for the sender of a connection: enough to keep the socket busy, few enough
/// that a slow peer pushes back on callers instead of on memory.
pub const OUTGOING_QUEUE: usize = 64;
/// Largest message that its caller sends himself, in bytes: what a socket takes at once, and copied
/// in less time than another thread takes to wake up.
pub const SENT_AT_ONCE_MAX: usize = 64 << 10;
/// Largest message accepted: a 4 MiB READ (the protocol room's limit) and its envelope.
pub const RECORD_BYTES_MAX: usize = (4 << 20) + (64 << 10);
/// Incoming calls queued for the callback handler of a connection.
pub const INCOMING_CALLS_MAX: usize = 16;
/// How long one attempt to connect may take.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Ports that root connects from to a metadata server, as Linux's own client does: those below
/// have well-known uses.
pub const PRIVILEGED_PORTS: std::ops::RangeInclusive<u16> = 665..=1023;
/// A silent peer is declared dead after about 10 + 3 * 5 seconds.
pub const KEEPALIVE_IDLE: Duration = Duration::from_secs(10);
/// Time between keepalive probes.
pub const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(5);
/// Probes without answer that end a connection.
pub const KEEPALIVE_PROBES: u32 = 3;
/// Unacknowledged data end a connection after this long.
pub const USER_TIMEOUT: Duration = Duration::from_secs(25);

/// A peer that answers nothing for this long, though calls wait, is asked whether it is there.
pub const SILENCE_MAX: Duration = Duration::from_secs(10);
/// How long it has to answer that: more than the largest message takes on a slow line.
pub const PING_LIMIT: Duration = Duration::from_secs(15);
/// How long one step of establishing a session may take; none waits for a disk for long.
pub const STEP_LIMIT: Duration = Duration::from_secs(10);
/// The same with a data server, of which another copy may be read, or the metadata server be asked.
pub const DATA_SERVER_STEP_LIMIT: Duration = Duration::from_secs(3);
/// Without any reply for this long, a data server that is read from is pinged. A read is
/// idempotent, and there is another way to the bytes: it is given up sooner than a write.
pub const READ_SILENCE_MAX: Duration = Duration::from_secs(1);
/// Time in which the data server must answer that ping.
pub const READ_PING_LIMIT: Duration = Duration::from_secs(2);

/// Largest READ or WRITE sent: what Linux uses, and a stripe unit of ours.
pub const IO_BYTES: u32 = 1 << 20;
/// Room asked for beside the payload of a message.
pub const ENVELOPE_BYTES: u32 = 16 << 10;
/// Room needed beside the payload of a READ or WRITE: RPC header with the longest credential and
/// verifier (about 850 bytes), SEQUENCE, PUTFH with the longest filehandle, and the operation.
pub const DATA_ENVELOPE_BYTES: u32 = 2 << 10;
/// Largest reply we ask a server to keep for replay.
pub const CACHED_REPLY_BYTES: u32 = 8 << 10;
/// Operations in one of our COMPOUNDs, SEQUENCE included.
pub const OPS_MAX: u32 = 32;
/// Retries of a request whose outcome is unknown.
pub const DOUBTS_MAX: u32 = 3;
/// Slots of the back channel: recalls come one after another.
pub const BACK_SLOTS: u32 = 2;
/// Largest callback.
pub const CALLBACK_BYTES_MAX: u32 = 4096;
/// Most slots used of a session, whatever the server grants.
pub const SLOTS_MAX: u32 = 256;

/// First wait after DELAY, doubled up to [`DELAY_MAX`].
pub const DELAY_MIN: Duration = Duration::from_millis(10);
/// Longest wait between two tries.
pub const DELAY_MAX: Duration = Duration::from_secs(1);
/// A lease assumed where the server does not tell (data servers).
pub const LEASE_ASSUMED: Duration = Duration::from_secs(45);

/// Owners that the programs of one user share on one machine: more run under unique ones.
pub const IDENTITIES_MAX: u32 = 64;
/// An answer that takes longer is a wait worth telling of.
pub const QUIET_MAX: Duration = Duration::from_millis(600);
/// How long saying goodbye to a server may take: it forgets us by itself when the lease ends.
pub const GOODBYE_LIMIT: Duration = Duration::from_millis(1300);
/// How long removing what an unfinished transfer has left may take.
pub const DISCARD_LIMIT: Duration = Duration::from_millis(700);

/// Requests in flight to one data server for one transfer. With [`IO_BYTES`] each, 8 MiB.
pub const WINDOW_REQUESTS: usize = 8;
/// Gathered runs that leave through the metadata server: more are worth a layout, since the data
/// servers take them side by side.
pub const MDS_RUNS_MAX: usize = 16;
/// Gathered bytes that leave through the metadata server: below what servers keep beside the
/// metadata, data servers have nothing to gain.
pub const MDS_BYTES_MAX: u64 = 64 << 10;
/// Bytes that are written back together in the background: a window for each of eight data servers.
pub const WRITE_BACK_BYTES: u64 = 8 << 20;
/// Runs that are written back together.
pub const WRITE_BACK_RUNS: usize = 256;
/// Tasks that write a file back: while the last requests of one are answered, the next one's leave.
pub const WRITE_BACKS_MAX: usize = 2;
/// Who waits for memory looks again after this long, if nobody tells.
pub const ROOM_RETRY: Duration = Duration::from_millis(200);
/// Times it does so before it writes all the same, if other files' data cannot leave.
pub const ROOM_RETRIES_MAX: u32 = 25;
/// For so long after that nobody else waits.
pub const ROOM_STUCK: Duration = Duration::from_secs(5);
/// Reads of others for which a reader waits, one after another, before it asks itself.
pub const FETCH_WAITS_MAX: u32 = 8;
/// Reads of at least so many bytes are streams: nothing of them is kept.
pub const KEEP_READS_BELOW: u64 = 4 << 20;
/// Bytes asked for ahead of a reader, by default: the windows of eight data servers.
pub const READ_AHEAD_BYTES: u32 = 8 << 20;
/// Times a range is written again because a server lost it before COMMIT.
pub const REWRITES_MAX: u32 = 4;
/// Data servers known at a time.
pub const DATA_SERVERS_MAX: usize = 4096;
/// Devices of one layout: as many data servers as one of the files type may have.
pub const LAYOUT_DEVICES_MAX: usize = 256;
/// Bytes of a layout that was exported: one of ours with all data servers that a device may have
/// has some 20 KiB.
pub const EXPORTED_LAYOUT_BYTES_MAX: usize = 1 << 20;
/// Kinds of failures told of in one LAYOUTRETURN: what a body of the flexfiles type may hold.
pub const IO_FAILURES_MAX: usize = 64;
/// Device bodies cached.
pub const DEVICES_MAX: usize = 4096;
/// After a data server failed, files avoid it for this long.
pub const DATA_SERVER_AVOID: Duration = Duration::from_secs(20);
/// After a layout was refused or given up, the file goes through the metadata server this long.
pub const LAYOUT_AVOID: Duration = Duration::from_secs(5);
/// The same if layouts of it are being recalled.
pub const LAYOUT_RECALLED: Duration = Duration::from_millis(100);
/// Symbolic links followed in one path, as Linux has it.
pub const SYMLINKS_MAX: usize = 40;
/// Directories above one another that a walk goes down: more than a path that Linux takes can name
/// of names that people use.
pub const WALK_DEPTH_MAX: usize = 1024;
/// Components looked up in one COMPOUND.
pub const LOOKUPS_PER_COMPOUND: usize = 16;
/// Bytes of a file that travel together with its name and open (P3.4): what servers keep beside the
/// metadata, so that nobody else need be asked.
pub const EAGER_BYTES: usize = 64 << 10;
/// Bytes of one READDIR reply.
pub const READDIR_BYTES: u32 = 256 << 10;
/// Bytes of the names of a file's extended attributes that are asked for: Linux lists no more.
pub const XATTR_LIST_BYTES_MAX: usize = 64 << 10;
/// Times in a row that an open is renewed after its state was lost before the error is reported.
pub const REOPENS_MAX: u32 = 3;

/// What a range of a file in the cache costs beside its bytes: its place in the map (its record
/// and its share of a node that is two thirds full), and in the list or queue of what it is. A
/// test holds it against the sizes.
pub const RANGE_OVERHEAD_BYTES: u64 = 256;
/// What a file costs that is open and has nothing in the cache: its maps and its account, the
/// records of an open, and what an allocator makes of that; as ten thousand were measured
/// (`weft-bench client`).
pub const CACHED_FILE_OVERHEAD_BYTES: u64 = 4 << 10;
/// Dirty data are kept in blocks of at most this: one WRITE each, of memory of its own, so that
/// nothing has to be copied when a part of a long run leaves.
pub const CACHE_BLOCK_BYTES: u64 = IO_BYTES as u64;
/// Fetched pieces below this are copied: they may be slices of a much larger buffer that others
/// share. Larger ones fill the one that they were received in.
pub const CACHE_COPY_BELOW_BYTES: usize = 64 << 10;
/// Reads of a file on their way whose answers are kept: more than its readers and its read-ahead
/// have with eight data servers.
pub const FETCHES_MAX: usize = 256;
/// Ranges of such a read that were overtaken and are told apart; then they count as one.
pub const SPOILED_SPANS_MAX: usize = 16;
/// Of clean memory, one part in this many is for what was read once: enough to be read again in,
/// little enough that a stream drives nothing else out.
pub const ONCE_SHARE: u64 = 4;
/// Ages that clean data get while as many come in as there is room for: the order in which they
/// are evicted is as exact as this, and a read within one age changes nothing.
pub const CACHE_AGES: u64 = 256;
/// One part in this many of the cache may be dirty before it is written back.
pub const DIRTY_SHARE: u64 = 8;
/// The same of one file: long before its writer has to wait, so that the servers stay busy.
pub const FILE_DIRTY_SHARE: u64 = 32;
/// One part in this many may be at servers and not durable before it is committed.
pub const SENT_SHARE: u64 = 4;
/// The same of one file.
pub const FILE_SENT_SHARE: u64 = 8;
/// One part in this many may be not durable before writers wait. More than [`DIRTY_SHARE`] and
/// [`SENT_SHARE`] together: who waits always waits for something that is under way.
pub const UNSETTLED_SHARE: u64 = 2;
/// The same of one file.
pub const FILE_UNSETTLED_SHARE: u64 = 4;
/// First window of read-ahead, and size up to which a file is read whole at its first read: Linux's
/// own default, and what a server gives in one reply without effort.
pub const READ_AHEAD_FIRST_BYTES: u64 = 128 << 10;
/// Longest URL read, in bytes: a path as long as Linux takes (4096), every byte of it escaped, and
/// options.
pub const URL_BYTES_MAX: usize = 16 << 10;
/// Longest wait that a URL may ask for, in seconds: a day.
pub const URL_SECONDS_MAX: u64 = 86_400;
/// Most memory that a URL may ask for: more than a machine of our time has for one program.
pub const URL_CACHE_BYTES_MAX: u64 = 1 << 40;
/// Threads of the runtime that blocking clients share: they move data, callers wait on their own.
pub const BLOCKING_THREADS_MAX: usize = 4;
/// Items of one bulk request under way at a time: each may itself be several requests, and those
/// are bounded by slots.
pub const BULK_ITEMS: usize = 16;

/// Descriptors of objects on this host that are open at a time: as many files again as their
/// stripes are usually over, far below what a process may have open.
pub const DESCRIPTORS_MAX: usize = 256;
/// How long a descriptor is used before it is asked for again: so late does one who reads by it
/// learn that his layout was taken away without a recall.
pub const DESCRIPTOR_AGE: Duration = Duration::from_secs(1);
/// A read of so many bytes is worth asking for a descriptor, which costs about what a READ of them
/// over TCP does.
pub const DESCRIPTOR_READ_BYTES: u32 = 128 << 10;
/// After so many reads through a layout, smaller ones are worth it too.
pub const DESCRIPTOR_READS: u32 = 4;
/// How long a data server's local socket may take to answer.
pub const LOCAL_ANSWER_LIMIT: Duration = Duration::from_secs(2);
/// How long a local socket that was of no use is left alone.
pub const LOCAL_RETRY: Duration = Duration::from_secs(10);

/// How often who wants nothing of the metadata server looks whether it is still there.
pub const LOOK_EVERY: Duration = Duration::from_secs(1);

/// How long a CLOSE waits for others to go with, if nobody waits for it: far below what anybody who
/// finds the file open would notice.
pub const CLOSE_LATER: Duration = Duration::from_millis(10);
/// CLOSEs that may wait: with more, who closes a file waits for that.
pub const CLOSES_WAITING_MAX: usize = 256;

/// Delegations held at a time: as many files as programs read again and again; each of them may
/// keep somebody else waiting for a moment.
pub const DELEGATIONS_MAX: usize = 4096;
/// The same of those to write: few files are written and read back, and whoever else looks at one
/// makes a server ask us.
pub const WRITE_DELEGATIONS_MAX: usize = 512;
/// One part in this many goes back when there are more: enough that a request of its own for them
/// is rare.
pub const DELEGATIONS_RETURNED_SHARE: usize = 16;
/// How long a delegation to write is kept for what was written under it to get to the servers: less
/// than the lease after which it is taken away.
pub const RETURN_WRITES_FOR: Duration = Duration::from_secs(10);
/// How long a delegation is kept for others (the kernel, say) who rely on it to let go of what they
/// keep: whoever waits for the delegation waits as long if that hangs.
pub const WATCHER_PATIENCE: Duration = Duration::from_secs(2);
/// Users who may open one delegated file without asking.
pub const DELEGATION_READERS_MAX: usize = 8;
/// Recalls that are remembered while OPENs are under way, whose grants they may have overtaken: one
/// for each slot in which an OPEN can be. With more, what those OPENs grant goes back.
pub const RECALLS_REMEMBERED: usize = SLOTS_MAX as usize;

/// How often a blocking call that waits asks whether it is to give up, if somebody is to be asked.
pub const GIVE_UP_ASKED_EVERY: Duration = Duration::from_millis(100);
