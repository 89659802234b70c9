//! The control program on the wire: a private ONC RPC program on the data server's NFS port,
//! over the secure [`channel`](crate::channel).
//!
//! Every result begins with a [`ControlStatus`]; its body follows only if that is OK. Counts
//! above the limits here are garbage arguments.

use weft_xdr::{Decode, DecodeError, Encode, Reader, Writer, xdr_named, xdr_struct};

/// Program number, of the range that RFC 5531 §8.1 leaves to users.
pub const CONTROL_PROGRAM: u32 = 0x2057_4654;
/// The one version.
pub const CONTROL_VERSION: u32 = 8;
/// Most objects in one batch: a reply of 40 KiB, and a fraction of a second of disk work.
pub const BATCH_MAX: usize = 1024;
/// Most runs of a volume that a data server names.
const RUNS_MAX: usize = 64;
/// Most kinds of operations counted.
const OPERATIONS_MAX: usize = 256;
/// Longest name of an operation.
const OPERATION_NAME_BYTES_MAX: usize = 64;

xdr_named! {
    /// Procedures.
    pub struct Procedure {
        /// Whether anybody is there.
        PING = 1,
        /// Attributes of objects, and the write verifier.
        STAT = 4,
        /// Sets local sizes, durably.
        TRUNCATE = 5,
        /// Removes objects, durably and for ever.
        REMOVE = 6,
        /// Raises fence epochs, durably.
        FENCE = 7,
        /// Disk space.
        SPACE = 8,
        /// Counters.
        STATUS = 9,
        /// Looks for data or a hole.
        SEEK = 10,
        /// Makes a hole, durably.
        PUNCH = 11,
        /// Reserves space, durably.
        ALLOCATE = 12,
        /// Copies a range between two objects of this data server, not durably.
        COPY = 13,
        /// Makes a range of two objects the same blocks, as COPY until it is synced.
        CLONE = 14,
        /// Makes objects, empty and durably.
        CREATE = 15,
        /// Lists objects.
        LIST = 30,
        /// What the data server knows of a volume; allowed at once, as PING is.
        VOLUME = 16,
        /// Binds the connection to a run of a volume, durably; all else is allowed after it only.
        BIND = 17,
        /// Tells the age of the volume, durably.
        AGE = 18,
        /// Answers, and then waits for the next questions: objects that clients want to make.
        BIRTHS = 20,
        /// As STAT; and clients write no more with handles of these epochs, or earlier ones.
        SEAL = 19,
    }
}

impl Procedure {
    /// Whether it changes objects: given up, it may still be carried out, and it may wait for a
    /// disk. SEAL does no harm later: its epochs are over.
    pub fn changes(self) -> bool {
        matches!(
            self,
            Procedure::TRUNCATE
                | Procedure::REMOVE
                | Procedure::FENCE
                | Procedure::PUNCH
                | Procedure::ALLOCATE
                | Procedure::COPY
                | Procedure::CLONE
                | Procedure::CREATE
                | Procedure::AGE
        )
    }
}

xdr_named! {
    /// How a call, or one item of its batch, went.
    pub struct ControlStatus {
        /// Done.
        OK = 0,
        /// The connection was replaced by a later one of its volume.
        REPLACED = 1,
        /// The object is fenced at a higher epoch, or removed.
        STALE = 3,
        /// No space left.
        NO_SPACE = 4,
        /// Beyond the largest object.
        TOO_BIG = 5,
        /// The disk failed.
        IO = 6,
        /// Something else is wrong with the data server; its log says what.
        FAULT = 7,
        /// The file system of the data server cannot do that.
        UNSUPPORTED = 8,
        /// It can with whole blocks only.
        UNALIGNED = 9,
        /// The connection is not bound to a volume.
        UNBOUND = 10,
        /// The object is not of the volume that the connection is bound to, or of a state of it
        /// that was given up.
        OTHER_VOLUME = 11,
        /// The volume is unknown, and others are served.
        UNKNOWN_VOLUME = 12,
        /// Another volume has the same number.
        NUMBER_TAKEN = 13,
        /// It is an older state of the volume than the one that was served.
        OLDER = 14,
        /// It is another branch of the volume than the one that was served.
        FORK = 15,
        /// A later run of the volume has taken over.
        DEPOSED = 16,
        /// Another metadata server is using the volume now.
        IN_USE = 17,
        /// There are too many volumes.
        TOO_MANY = 18,
    }
}

macro_rules! list {
    ($(#[$m:meta])* $name:ident, $item:ty, $max:expr) => {
        $(#[$m])*
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub struct $name(pub Vec<$item>);
        impl Decode for $name {
            fn decode(r: &mut Reader) -> Result<Self, DecodeError> {
                r.label(stringify!($name));
                Ok($name(r.array($max)?))
            }
        }
        impl Encode for $name {
            fn encode(&self, w: &mut Writer) {
                w.array(&self.0);
            }
        }
    };
}

xdr_struct! {
    /// One start of a server; number 0 is none.
    #[derive(Copy)]
    pub struct RunName {
        /// How many starts there were up to this one.
        pub number: u64,
        /// Random.
        pub id: [u8; 16],
    }
}
list! {
    /// Runs, ascending.
    RunNames, RunName, RUNS_MAX
}
xdr_struct! {
    /// VOLUME.
    #[derive(Copy)]
    pub struct VolumeArgs {
        /// Number of the volume.
        pub number: u32,
        /// Its unique name.
        pub uuid: [u8; 16],
        /// The run of the data server in which the volume last met it; 0: it never did.
        pub met: u64,
    }
}
xdr_struct! {
    /// VOLUME's result.
    pub struct VolumeOk {
        /// This run of the data server.
        pub run: RunName,
        /// The run asked about, if it is remembered.
        pub met: RunName,
        /// Whether that is too long ago to be remembered.
        pub forgotten: bool,
        /// Whether anything of this volume is accepted, once.
        pub adopts: bool,
        /// The latest runs of the volume that bound the data server; none if it is unknown.
        pub runs: RunNames,
        /// The age of the volume that is durable here; 0 if it is unknown.
        pub age: u64,
    }
}
xdr_struct! {
    /// BIND.
    #[derive(Copy)]
    pub struct BindArgs {
        /// Number of the volume.
        pub number: u32,
        /// Its unique name.
        pub uuid: [u8; 16],
        /// This run of it.
        pub run: RunName,
        /// The newest of the runs that VOLUME named which the volume has had too.
        pub common: RunName,
        /// The last mutation of that run.
        pub common_end_lsn: u64,
        /// The next inode number after that run.
        pub common_end_next: u64,
        /// The highest durable LSN now.
        pub lsn: u64,
        /// The restoration from a backup that it comes from; zeros: from none.
        pub restored: [u8; 16],
        /// The restoration that the volume in that backup came from.
        pub restored_from: [u8; 16],
    }
}
xdr_struct! {
    /// BIND's result.
    #[derive(Copy)]
    pub struct BindOk {
        /// The age of the volume that is durable here.
        pub age: u64,
        /// The number of every object of the volume that was ever made here is below.
        pub mark: u64,
        /// The highest epoch of the volume's objects that was fenced or sealed, if the volume was
        /// restored or `adopted`; otherwise 0.
        pub epoch: u32,
        /// Whether the volume was accepted though it is older than what was served, or another
        /// branch of it.
        pub adopted: bool,
    }
}
xdr_struct! {
    /// AGE's arguments and its result: what is told, and what is durable then.
    #[derive(Copy)]
    pub struct Age {
        /// The highest durable LSN of the volume.
        pub lsn: u64,
    }
}
xdr_struct! {
    /// Names an object.
    #[derive(Copy)]
    pub struct ObjectName {
        /// Volume.
        pub volume: u32,
        /// Inode number.
        pub object: u64,
    }
}
list! {
    /// STAT's and REMOVE's arguments.
    Objects, ObjectName, BATCH_MAX
}
xdr_struct! {
    /// LIST: its result are [`Objects`] in an order that never changes; none behind the last.
    #[derive(Copy)]
    pub struct ListArgs {
        /// Begins with the first, whatever `after` is.
        pub from_first: bool,
        /// The object before the first one listed.
        pub after: ObjectName,
    }
}
xdr_struct! {
    /// Attributes of one object.
    #[derive(Copy)]
    pub struct ObjectAttrs {
        /// Whether these are to be believed.
        pub status: ControlStatus,
        /// Whether the object was ever written.
        pub exists: bool,
        /// The smallest epoch that it accepts; the largest there is, `u32::MAX`, if it is gone for
        /// good: it was removed, or the state of the volume that it belonged to was given up.
        pub epoch: u32,
        /// Local size in bytes.
        pub size: u64,
        /// Last modification, seconds.
        pub mtime_s: i64,
        /// Last modification, nanoseconds.
        pub mtime_ns: u32,
        /// Bytes of disk in use.
        pub blocks_bytes: u64,
        /// Writes since it was opened.
        pub writes: u64,
        /// Something was written that a power cut may still take away.
        pub unsynced: bool,
    }
}
list! {
    /// Attributes in the order asked for.
    ObjectAttrsList, ObjectAttrs, BATCH_MAX
}
xdr_struct! {
    /// STAT's and SEAL's result.
    pub struct StatOk {
        /// The write verifier.
        pub verifier: [u8; 8],
        /// The objects.
        pub objects: ObjectAttrsList,
    }
}
xdr_struct! {
    /// One object to be cut or extended.
    #[derive(Copy)]
    pub struct TruncateItem {
        /// Which.
        pub object: ObjectName,
        /// Its local size afterwards, bytes.
        pub size: u64,
    }
}
list! {
    /// TRUNCATE's arguments.
    TruncateArgs, TruncateItem, BATCH_MAX
}
xdr_struct! {
    /// One object to be fenced.
    #[derive(Copy)]
    pub struct FenceItem {
        /// Which.
        pub object: ObjectName,
        /// Lower epochs are refused from now on; by SEAL this one too, of writers.
        pub epoch: u32,
    }
}
list! {
    /// FENCE's and SEAL's arguments.
    FenceArgs, FenceItem, BATCH_MAX
}
xdr_struct! {
    /// One object to be made.
    #[derive(Copy)]
    pub struct CreateItem {
        /// Which.
        pub object: ObjectName,
        /// The file's fence epoch.
        pub epoch: u32,
    }
}
list! {
    /// CREATE's arguments.
    CreateArgs, CreateItem, BATCH_MAX
}
list! {
    /// Result of TRUNCATE, REMOVE, FENCE and CREATE: a status for each item, in order.
    Statuses, ControlStatus, BATCH_MAX
}
xdr_struct! {
    /// An object that somebody wants to make by writing to it.
    #[derive(Copy, PartialOrd, Ord)]
    pub struct Birth {
        /// Its number; its volume is that of the connection.
        pub object: u64,
        /// The epoch of the handle to write with.
        pub epoch: u32,
        /// Which of the file's objects it would be.
        pub slot: u32,
    }
}
xdr_struct! {
    /// What becomes of it.
    #[derive(Copy)]
    pub struct BirthAnswer {
        /// What was asked.
        pub birth: Birth,
        /// The volume says, durably, that there may be such an object, and the handle counts.
        pub allowed: bool,
    }
}
list! {
    /// BIRTHS' arguments: answers to questions of before.
    BirthAnswers, BirthAnswer, BATCH_MAX
}
list! {
    /// BIRTHS' result: questions, none if nobody asked for a while.
    Births, Birth, BATCH_MAX
}
xdr_struct! {
    /// SPACE's result: bytes, and what else the disk can do.
    #[derive(Copy)]
    pub struct SpaceOk {
        /// All of it.
        pub total: u64,
        /// Not in use.
        pub free: u64,
        /// Not in use and not reserved.
        pub available: u64,
        /// Where it is: data servers that tell the same share it.
        pub disk: DiskId,
        /// Objects can share blocks.
        pub shares_blocks: bool,
    }
}

xdr_struct! {
    /// A file system of a machine, as long as the machine runs.
    #[derive(Copy, Hash)]
    pub struct DiskId {
        /// Which start of which machine.
        pub machine: [u8; 16],
        /// The device there.
        pub device: u64,
    }
}

xdr_struct! {
    /// Which bytes of a sparse object are the file's: units whose number modulo the count is the
    /// slot, or one of the slots.
    #[derive(Copy)]
    pub struct StripeName {
        /// Bytes of a unit.
        pub unit_bytes: u64,
        /// Units of a stripe.
        pub count: u32,
        /// Which of them the object has; the first, if it has several.
        pub slot: u32,
        /// All that it has, a bit for each; 0: only that one. With some, the count is at most 16.
        pub slots: u32,
        /// Stripes of such units; 0: all. Behind them units are of another size.
        pub rounds: u32,
        /// Bytes of those.
        pub later_unit_bytes: u64,
    }
}
xdr_struct! {
    /// SEEK.
    #[derive(Copy)]
    pub struct SeekArgs {
        /// Where.
        pub object: ObjectName,
        /// Its own bytes.
        pub stripe: StripeName,
        /// A hole, else data.
        pub hole: bool,
        /// First byte looked at.
        pub from: u64,
        /// One past the last.
        pub end: u64,
    }
}
xdr_struct! {
    /// SEEK's result.
    #[derive(Copy)]
    pub struct SeekOk {
        /// Whether it was found.
        pub found: bool,
        /// Where; or below what offset it is not.
        pub at: u64,
        /// Local size of the object in bytes.
        pub size: u64,
    }
}
xdr_struct! {
    /// PUNCH.
    #[derive(Copy)]
    pub struct PunchArgs {
        /// Where.
        pub object: ObjectName,
        /// The file's fence epoch.
        pub epoch: u32,
        /// First byte.
        pub offset: u64,
        /// Bytes.
        pub len: u64,
    }
}
xdr_struct! {
    /// ALLOCATE.
    #[derive(Copy)]
    pub struct AllocateArgs {
        /// Where.
        pub object: ObjectName,
        /// The file's fence epoch.
        pub epoch: u32,
        /// Its own bytes.
        pub stripe: StripeName,
        /// First byte.
        pub offset: u64,
        /// One past the last.
        pub end: u64,
    }
}
xdr_struct! {
    /// COPY and CLONE.
    #[derive(Copy)]
    pub struct CopyArgs {
        /// From where.
        pub source: ObjectName,
        /// To where.
        pub destination: ObjectName,
        /// The destination's fence epoch.
        pub epoch: u32,
        /// First byte in the source.
        pub from: u64,
        /// First byte in the destination.
        pub to: u64,
        /// Bytes.
        pub len: u64,
    }
}
xdr_struct! {
    /// COPY's and CLONE's result.
    #[derive(Copy)]
    pub struct CopyOk {
        /// The write verifier of before it began.
        pub verifier: [u8; 8],
    }
}

/// One counted kind of operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OperationCount {
    /// The RFC's name.
    pub name: String,
    /// How often it was executed.
    pub count: u64,
}
impl Decode for OperationCount {
    fn decode(r: &mut Reader) -> Result<Self, DecodeError> {
        Ok(OperationCount { name: r.string(OPERATION_NAME_BYTES_MAX)?, count: r.u64()? })
    }
}
impl Encode for OperationCount {
    fn encode(&self, w: &mut Writer) {
        w.opaque(self.name.as_bytes());
        w.u64(self.count);
    }
}
list! {
    /// Counted operations.
    OperationCounts, OperationCount, OPERATIONS_MAX
}
xdr_struct! {
    /// STATUS's result.
    pub struct StatusOk {
        /// Operations executed.
        pub operations: OperationCounts,
        /// Payload bytes of WRITE.
        pub bytes_in: u64,
        /// Payload bytes of READ.
        pub bytes_out: u64,
        /// Memory of the process, bytes.
        pub rss_bytes: u64,
        /// Seconds since start.
        pub uptime_s: u64,
        /// NFS clients known.
        pub clients: u64,
        /// Connections open.
        pub connections: u64,
    }
}

/// A result on the wire: the status, and the body if it is OK.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ControlResult<T>(pub Result<T, ControlStatus>);

impl<T: Decode> Decode for ControlResult<T> {
    fn decode(r: &mut Reader) -> Result<Self, DecodeError> {
        match ControlStatus::decode(r)? {
            ControlStatus::OK => Ok(ControlResult(Ok(T::decode(r)?))),
            refused => Ok(ControlResult(Err(refused))),
        }
    }
}
impl<T: Encode> Encode for ControlResult<T> {
    fn encode(&self, w: &mut Writer) {
        match &self.0 {
            Ok(body) => {
                ControlStatus::OK.encode(w);
                body.encode(w);
            }
            Err(refused) => refused.encode(w),
        }
    }
}

/// No arguments, or no results.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Nothing;
impl Decode for Nothing {
    fn decode(_: &mut Reader) -> Result<Self, DecodeError> {
        Ok(Nothing)
    }
}
impl Encode for Nothing {
    fn encode(&self, _: &mut Writer) {}
}

#[cfg(test)]
mod tests {
    use std::fmt::Debug;

    use bytes::Bytes;
    use weft_xdr::{DecodeErrorKind, from_bytes, to_bytes};

    use super::*;

    /// Comes back the same; every truncation and every trailing byte is an error.
    fn round_trip<T: Encode + Decode + PartialEq + Debug>(value: T) {
        let bytes = to_bytes(&value);
        assert_eq!(from_bytes::<T>(bytes.clone()).unwrap(), value);
        for len in 0..bytes.len() {
            from_bytes::<T>(bytes.slice(..len)).expect_err("truncated");
        }
        let longer = [&bytes[..], &[0; 4]].concat();
        let e = from_bytes::<T>(Bytes::from(longer)).unwrap_err();
        assert_eq!(e.kind, DecodeErrorKind::Trailing);
    }

    /// All types survive the wire.
    #[test]
    fn types_round_trip() {
        let object = ObjectName { volume: 1, object: u64::MAX };
        let attrs = ObjectAttrs {
            status: ControlStatus::OK,
            exists: true,
            epoch: 7,
            size: 2,
            mtime_s: -3,
            mtime_ns: 4,
            blocks_bytes: 5,
            writes: 6,
            unsynced: true,
        };
        let run = RunName { number: 1, id: [2; 16] };
        round_trip(VolumeArgs { number: 1, uuid: [2; 16], met: 3 });
        let runs = RunNames(vec![run; 2]);
        let (forgotten, adopts, age) = (false, true, 4);
        round_trip(VolumeOk { run, met: run, forgotten, adopts, runs, age });
        round_trip(BindArgs {
            number: 1,
            uuid: [2; 16],
            run,
            common: run,
            common_end_lsn: 3,
            common_end_next: 4,
            lsn: 5,
            restored: [6; 16],
            restored_from: [7; 16],
        });
        round_trip(BindOk { age: 1, mark: 2, epoch: 3, adopted: true });
        round_trip(Age { lsn: 1 });
        round_trip(Objects(vec![object; 3]));
        round_trip(ListArgs { from_first: true, after: object });
        round_trip(StatOk { verifier: [9; 8], objects: ObjectAttrsList(vec![attrs; 2]) });
        round_trip(TruncateArgs(vec![TruncateItem { object, size: 1 }]));
        round_trip(CreateArgs(vec![CreateItem { object, epoch: 1 }; 2]));
        round_trip(FenceArgs(vec![FenceItem { object, epoch: 1 }]));
        round_trip(Statuses(vec![ControlStatus::OK, ControlStatus(99)]));
        round_trip(ControlResult(Ok(SpaceOk {
            total: 3,
            free: 2,
            available: 1,
            disk: DiskId { machine: [7; 16], device: 9 },
            shares_blocks: true,
        })));
        round_trip(ControlResult::<SpaceOk>(Err(ControlStatus::IO)));
        let stripe = StripeName {
            unit_bytes: 1 << 20,
            count: 4,
            slot: 2,
            slots: 0b1100,
            rounds: 5,
            later_unit_bytes: 6 << 20,
        };
        round_trip(SeekArgs { object, stripe, hole: true, from: 1, end: 2 });
        round_trip(SeekOk { found: true, at: 3, size: 4 });
        round_trip(PunchArgs { object, epoch: 1, offset: 2, len: 3 });
        round_trip(AllocateArgs { object, epoch: 1, stripe, offset: 2, end: 3 });
        round_trip(CopyArgs {
            source: object,
            destination: object,
            epoch: 1,
            from: 2,
            to: 3,
            len: 4,
        });
        round_trip(CopyOk { verifier: [5; 8] });
        let operations = OperationCounts(vec![OperationCount { name: "READ".into(), count: 5 }]);
        round_trip(StatusOk {
            operations,
            bytes_in: 1,
            bytes_out: 2,
            rss_bytes: 3,
            uptime_s: 4,
            clients: 5,
            connections: 6,
        });
    }

    /// A full batch is accepted, one more is not, however the bytes look.
    #[test]
    fn batches_are_limited() {
        let object = ObjectName { volume: 1, object: 2 };
        let full = to_bytes(&Objects(vec![object; BATCH_MAX]));
        from_bytes::<Objects>(full).unwrap();
        let over = to_bytes(&Objects(vec![object; BATCH_MAX + 1]));
        assert_eq!(from_bytes::<Objects>(over).unwrap_err().kind, DecodeErrorKind::Limit);
        let item = CreateItem { object, epoch: 3 };
        from_bytes::<CreateArgs>(to_bytes(&CreateArgs(vec![item; BATCH_MAX]))).unwrap();
        let over = to_bytes(&CreateArgs(vec![item; BATCH_MAX + 1]));
        assert_eq!(from_bytes::<CreateArgs>(over).unwrap_err().kind, DecodeErrorKind::Limit);
    }
}
