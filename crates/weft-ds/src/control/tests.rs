//! The control program through a real socket, by friends and strangers.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use tokio::sync::RwLock;
use weft_client::rpc::{Connection, Credential, RpcError};
use weft_store::objects::{ObjectError, ObjectStore};
use weft_xdr::{Decode, Encode, Reader, Segment, rpc::Reply};

use crate::{
    disk::CLIENT_THREADS_MAX,
    testing::{TestDs, secret, until},
};
use weft_control::{
    channel::{self, ChannelError, Greeting},
    codec::*,
};
use weft_server::identity::{ClusterSecrets, ControlKey};

/// A connection that calls by hand.
struct Caller {
    connection: Connection,
    /// What the data server said of its directory.
    directory: [u8; 16],
}

/// A volume whose every byte of the uuid is this.
fn who(volume: u8) -> channel::Caller {
    channel::Caller { server: [9; 16], volume: [volume; 16] }
}

const NONE: RunName = RunName { number: 0, id: [0; 16] };

/// The first run of a volume.
const FIRST: BindArgs = BindArgs {
    number: 1,
    uuid: [1; 16],
    run: RunName { number: 1, id: [1; 16] },
    common: NONE,
    common_end_lsn: 0,
    common_end_next: 0,
    lsn: 10,
    restored: [0; 16],
    restored_from: [0; 16],
};

/// The next run of the same volume, which found it in that state.
fn second(found_lsn: u64) -> BindArgs {
    let run = RunName { number: 2, id: [2; 16] };
    BindArgs { run, common: FIRST.run, common_end_lsn: found_lsn, common_end_next: 5, ..FIRST }
}

type Called<T> = Result<Result<T, ControlStatus>, Reply>;

impl Caller {
    /// Greets a data server as number `number`.
    async fn greet(
        ds: &TestDs,
        number: u32,
        key: &ControlKey,
        volume: u8,
    ) -> Result<Caller, ChannelError> {
        let (greeting, record) = Greeting::new(key, number, who(volume)).unwrap();
        let answered = |answer: &[u8]| greeting.answered(answer);
        let met = Connection::connect_secure(ds.addr, record, answered).await.unwrap();
        met.map(|(connection, directory)| Caller { connection, directory })
    }

    /// A metadata server of a volume.
    async fn proven(ds: &TestDs, volume: u8) -> Caller {
        Caller::greet(ds, ds.id, &secret().control_key(), volume).await.unwrap()
    }

    /// One that is bound to the first run of volume 1.
    async fn bound(ds: &TestDs) -> Caller {
        let caller = Caller::proven(ds, 1).await;
        caller.bind(&FIRST).await.unwrap();
        caller
    }

    async fn bind(&self, args: &BindArgs) -> Result<BindOk, ControlStatus> {
        self.call(Procedure::BIND, args).await.unwrap()
    }

    /// What it says of volume 1.
    async fn volume(&self) -> VolumeOk {
        let args = VolumeArgs { number: FIRST.number, uuid: FIRST.uuid, met: 1 };
        self.call(Procedure::VOLUME, &args).await.unwrap().unwrap()
    }

    async fn raw(&self, procedure: u32, args: Bytes) -> Result<Reader, Reply> {
        let (program, version) = (CONTROL_PROGRAM, CONTROL_VERSION);
        let args = vec![Segment::Bytes(args)];
        match self.connection.call(program, version, procedure, &Credential::NONE, args).await {
            Ok(results) => Ok(results),
            Err(RpcError::Refused(reply)) => Err(reply),
            Err(e) => panic!("{e}"),
        }
    }

    async fn call<T: Decode>(&self, procedure: Procedure, args: &impl Encode) -> Called<T> {
        let mut results = self.raw(procedure.0, weft_xdr::to_bytes(args)).await?;
        let result = ControlResult::<T>::decode(&mut results).unwrap();
        results.finish().unwrap();
        Ok(result.0)
    }

    async fn ping(&self) -> Result<Nothing, ControlStatus> {
        self.call(Procedure::PING, &Nothing).await.unwrap()
    }

    /// Whether the data server has ended the connection.
    async fn is_ended(&self) -> bool {
        tokio::time::timeout(Duration::from_secs(20), self.connection.ended()).await.is_ok()
    }
}

fn object(object: u64) -> ObjectName {
    ObjectName { volume: 1, object }
}

/// The control program does not exist for whoever has not greeted it, and the NFS program not for
/// those who have.
#[tokio::test]
async fn strangers_are_refused() {
    let ds = TestDs::start(4).await;
    let plain = Connection::connect(ds.addr).await.unwrap();
    let stranger = Caller { connection: plain, directory: [0; 16] };
    ds.serve_volume(1);
    ds.store().write(super::service::id(object(1)), 0, 0, b"data").unwrap();
    let victim = weft_xdr::to_bytes(&Objects(vec![object(1)]));
    for procedure in (0..=18).chain([30, 99, u32::MAX]) {
        let refused = stranger.raw(procedure, victim.clone()).await;
        assert_eq!(refused.err(), Some(Reply::ProgUnavail), "procedure {procedure}");
    }
    assert_eq!(ds.store().stat(super::service::id(object(1))).unwrap().size, 4);
    let mds = Caller::proven(&ds, 1).await;
    let nfs = mds.connection.call(100_003, 4, 0, &Credential::NONE, Vec::new()).await;
    assert!(matches!(nfs, Err(RpcError::Refused(Reply::ProgUnavail))), "{nfs:?}");
}

/// Another secret, and what was meant for another data server, make no channel.
#[tokio::test]
async fn a_channel_is_for_one_data_server_and_one_secret() {
    let (ds, other) = (TestDs::start(4).await, TestDs::start(5).await);
    let key = secret().control_key();
    let wrong = ClusterSecrets::from_text("quite another secret of a cluster").unwrap();
    let refused = Caller::greet(&ds, 4, &wrong.control_key(), 1).await.err();
    assert_eq!(refused, Some(ChannelError::Stranger));
    assert_eq!(Caller::greet(&ds, 5, &key, 1).await.err(), Some(ChannelError::OtherNumber(4)));
    // A relay changes the number in the greeting and in the answer.
    let (greeting, record) = Greeting::new(&key, 5, who(1)).unwrap();
    let mut relayed = record.to_vec();
    relayed[12..16].copy_from_slice(&4u32.to_be_bytes());
    let back = |answer: &[u8]| {
        let mut answer = answer.to_vec();
        answer[12..16].copy_from_slice(&5u32.to_be_bytes());
        greeting.answered(&answer)
    };
    let relayed = Connection::connect_secure(ds.addr, relayed.into(), back).await.unwrap();
    assert_eq!(relayed.err(), Some(ChannelError::Stranger));
    let (mds, second) = (Caller::proven(&ds, 1).await, Caller::proven(&other, 1).await);
    assert_eq!(mds.directory, ds.store().identity());
    assert_eq!(second.directory, other.store().identity());
}

/// A greeting that somebody repeats is answered, and leads to nothing: whoever repeats it cannot
/// say anything. It ends nobody's connection.
#[tokio::test]
async fn a_repeated_greeting_leads_to_nothing() {
    let ds = TestDs::start(4).await;
    let (greeting, record) = Greeting::new(&secret().control_key(), 4, who(1)).unwrap();
    let answered = |answer: &[u8]| greeting.answered(answer);
    let mds = Connection::connect_secure(ds.addr, record.clone(), answered).await.unwrap();
    let (connection, directory) = mds.unwrap();
    let mds = Caller { connection, directory };
    mds.bind(&FIRST).await.unwrap();
    let plain = |_: &[u8]| Err::<(weft_io::Ciphers, ()), ()>(());
    for _ in 0..3 {
        let repeated = Connection::connect_secure(ds.addr, record.clone(), plain).await;
        assert!(repeated.unwrap().is_err());
    }
    assert_eq!(ds.service().peers_now(), 1);
    assert_eq!(mds.ping().await, Ok(Nothing));
    let space: Called<SpaceOk> = mds.call(Procedure::SPACE, &Nothing).await;
    space.unwrap().unwrap();
}

/// A cluster gets another secret without a pause: while two are accepted, callers may have either;
/// once one is out, those that came by it end and cannot come again.
#[tokio::test]
async fn secrets_are_replaced() {
    let ds = TestDs::start(4).await;
    let (old, new) = ("a secret for tests, not for clusters", "n".repeat(32));
    let secrets = |text: &str| ClusterSecrets::from_text(text).unwrap();
    let (old_key, new_key) = (secrets(old).control_key(), secrets(&new).control_key());
    let before = Caller::greet(&ds, 4, &old_key, 1).await.unwrap();
    assert_eq!(before.ping().await, Ok(Nothing));
    assert!(Caller::greet(&ds, 4, &new_key, 1).await.is_err());
    ds.service().use_secrets(&secrets(&format!("{old}\n{new}")));
    ds.service().use_secrets(&secrets(&format!("{new}\n{old}")));
    for key in [&old_key, &new_key] {
        let both = Caller::greet(&ds, 4, key, 1).await.unwrap();
        assert_eq!(both.ping().await, Ok(Nothing));
    }
    assert_eq!(before.ping().await, Ok(Nothing), "nobody's connection ended");
    let half = Caller::greet(&ds, 4, &old_key, 1).await.unwrap();
    ds.service().use_secrets(&secrets(&new));
    assert!(before.is_ended().await);
    assert!(Caller::greet(&ds, 4, &old_key, 1).await.is_err());
    // It has the channel, and had not said anything when its key was taken out.
    let late: Result<_, RpcError> =
        half.connection.call(CONTROL_PROGRAM, CONTROL_VERSION, 1, &Credential::NONE, vec![]).await;
    assert!(late.is_err() && half.is_ended().await);
    let after = Caller::greet(&ds, 4, &new_key, 1).await.unwrap();
    assert_eq!(after.ping().await, Ok(Nothing));
}

/// Each procedure does what it says, item by item.
#[tokio::test]
async fn objects_are_managed() {
    let ds = TestDs::start(4).await;
    let mds = Caller::bound(&ds).await;
    assert_eq!(mds.ping().await, Ok(Nothing));
    let id = super::service::id;
    ds.store().write(id(object(1)), 0, 0, &[1; 5000]).unwrap();
    let both = Objects(vec![object(1), object(2)]);
    let stat: StatOk = mds.call(Procedure::STAT, &both).await.unwrap().unwrap();
    assert_eq!(stat.verifier, ds.store().write_verifier());
    let [there, missing] = stat.objects.0[..] else { panic!("{stat:?}") };
    assert_eq!((there.status, there.exists, there.size), (ControlStatus::OK, true, 5000));
    assert!(there.mtime_s > 1_600_000_000 && there.writes > 0);
    assert_eq!((missing.status, missing.exists, missing.size), (ControlStatus::OK, false, 0));

    let cut = |object, size| TruncateItem { object, size };
    let cuts = TruncateArgs(vec![cut(object(1), 10), cut(object(1), u64::MAX), cut(object(2), 0)]);
    let done: Statuses = mds.call(Procedure::TRUNCATE, &cuts).await.unwrap().unwrap();
    assert_eq!(done.0, [ControlStatus::OK, ControlStatus::TOO_BIG, ControlStatus::OK]);
    assert_eq!(ds.store().stat(id(object(1))).unwrap().size, 10);

    let fences = FenceArgs(vec![FenceItem { object: object(1), epoch: 3 }]);
    let done: Statuses = mds.call(Procedure::FENCE, &fences).await.unwrap().unwrap();
    assert_eq!((done.0, ds.store().epoch(id(object(1)))), (vec![ControlStatus::OK], 3));

    let sealed: StatOk = mds.call(Procedure::SEAL, &fences).await.unwrap().unwrap();
    let [told] = sealed.objects.0[..] else { panic!("{sealed:?}") };
    assert_eq!((told.status, told.size, told.epoch), (ControlStatus::OK, 10, 3));
    assert_eq!(sealed.verifier, ds.store().write_verifier());
    let late = ds.store().write(id(object(1)), 3, 0, b"late");
    assert_eq!(late, Err(ObjectError::Stale { current: 4 }));

    for _ in 0..2 {
        let done: Statuses = mds.call(Procedure::REMOVE, &both).await.unwrap().unwrap();
        assert_eq!(done.0, [ControlStatus::OK; 2], "again is success");
    }
    assert!(!ds.dir_has_objects());

    ds.store().fence(id(object(4)), 2).unwrap();
    let item = |(n, epoch)| CreateItem { object: object(n), epoch };
    let items = CreateArgs([(3, 0), (4, 1), (4, 2), (1, 9)].map(item).to_vec());
    for _ in 0..2 {
        let done: Statuses = mds.call(Procedure::CREATE, &items).await.unwrap().unwrap();
        let (ok, stale) = (ControlStatus::OK, ControlStatus::STALE);
        assert_eq!(done.0, [ok, stale, ok, stale], "fenced higher, or removed");
        ds.store().write(id(object(3)), 0, 0, b"kept").unwrap();
    }
    assert_eq!(ds.store().stat(id(object(3))).unwrap().size, 4);

    let space: SpaceOk = mds.call(Procedure::SPACE, &Nothing).await.unwrap().unwrap();
    assert!(space.total >= space.free && space.free >= space.available && space.available > 0);
    let status: StatusOk = mds.call(Procedure::STATUS, &Nothing).await.unwrap().unwrap();
    assert!(status.rss_bytes > 0 && status.connections >= 1);
}

/// A batch at the limit is carried out, one item more is garbage; so are arguments that are too
/// long or too short. The connection and the server live on.
#[tokio::test]
async fn garbage_is_refused() {
    let ds = TestDs::start(4).await;
    let mds = Caller::bound(&ds).await;
    let many = |n: usize| Objects((0..n as u64).map(object).collect());
    let full: StatOk = mds.call(Procedure::STAT, &many(BATCH_MAX)).await.unwrap().unwrap();
    assert_eq!(full.objects.0.len(), BATCH_MAX);
    for procedure in [Procedure::STAT, Procedure::REMOVE] {
        let over: Called<Nothing> = mds.call(procedure, &many(BATCH_MAX + 1)).await;
        assert_eq!(over, Err(Reply::GarbageArgs));
    }
    let item = |n| CreateItem { object: object(n), epoch: 0 };
    let over = CreateArgs((0..=BATCH_MAX as u64).map(item).collect());
    let over: Called<Nothing> = mds.call(Procedure::CREATE, &over).await;
    assert_eq!(over, Err(Reply::GarbageArgs));
    let trailing: Called<Nothing> = mds.call(Procedure::PING, &1u32).await;
    assert_eq!(trailing, Err(Reply::GarbageArgs));
    assert_eq!(mds.raw(99, Bytes::new()).await.err(), Some(Reply::ProcUnavail));
    // Noise of every length to every procedure, before and after binding.
    let unbound = Caller::proven(&ds, 2).await;
    let mut noise = 1u64;
    for round in 0..400usize {
        let bytes: Vec<u8> = (0..round % 97)
            .map(|_| {
                noise = noise.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                // Small numbers come often: counts that look possible.
                if noise >> 62 == 0 { (noise >> 40) as u8 } else { 0 }
            })
            .collect();
        let procedure = u32::try_from(round % 17).unwrap();
        // Noise that has a meaning must not change objects.
        let by = if matches!(procedure, 5..=7 | 12..=14) { &unbound } else { &mds };
        let _any_answer = by.raw(procedure, Bytes::from(bytes)).await;
    }
    assert_eq!(mds.ping().await, Ok(Nothing));
    assert_eq!(unbound.ping().await, Ok(Nothing));
}

/// Another version is refused with the one that is served, in the greeting and by the program.
#[tokio::test]
async fn other_versions_are_refused() {
    let ds = TestDs::start(4).await;
    let (greeting, record) = Greeting::new(&secret().control_key(), 4, who(1)).unwrap();
    let mut older = record.to_vec();
    older[8..12].copy_from_slice(&1u32.to_be_bytes());
    let answered = |answer: &[u8]| greeting.answered(answer);
    let refused = Connection::connect_secure(ds.addr, older.into(), answered).await.unwrap();
    assert_eq!(refused.err(), Some(ChannelError::OtherVersion(CONTROL_VERSION)));
    let mds = Caller::proven(&ds, 1).await;
    match mds.connection.call(CONTROL_PROGRAM, 1, 3, &Credential::NONE, Vec::new()).await {
        Err(RpcError::Refused(reply)) => {
            assert_eq!(reply, Reply::ProgMismatch(CONTROL_VERSION, CONTROL_VERSION));
        }
        other => panic!("{other:?}"),
    }
}

/// A metadata server that connects again takes the place of its old connection, and only after
/// the change that this one still carries out; those of other volumes are left alone.
#[tokio::test]
async fn a_new_connection_waits_for_the_old_ones_changes() {
    let ds = TestDs::start(4).await;
    let (old, other) = (Caller::bound(&ds).await, Caller::proven(&ds, 2).await);
    let unknown = BindArgs { number: 2, uuid: [2; 16], ..FIRST };
    assert_eq!(other.bind(&unknown).await, Err(ControlStatus::UNKNOWN_VOLUME));
    ds.store().adopt([2; 16]).unwrap();
    other.bind(&unknown).await.unwrap();
    // A change under way, held up.
    let change = ds.service().hold_changes_of(1).await;
    let new = Caller::proven(&ds, 1).await;
    let binding = tokio::spawn(async move {
        let bound = new.bind(&FIRST).await;
        (new, bound)
    });
    // The old connection is out as soon as BIND has begun; then BIND can only be waiting.
    assert!(old.is_ended().await);
    tokio::time::sleep(Duration::from_millis(20)).await;
    assert!(!binding.is_finished(), "BIND has not waited for the change");
    drop(change);
    let (new, bound) = binding.await.unwrap();
    assert_eq!(bound.map(|b| b.age), Ok(10));
    assert_eq!(new.ping().await, Ok(Nothing));
    assert_eq!(other.ping().await, Ok(Nothing));
    let space: Called<SpaceOk> = other.call(Procedure::SPACE, &Nothing).await;
    space.unwrap().unwrap();
}

/// A connection that is not bound may ask what is known of its own volume, and nothing else; a
/// bound one may name objects of that volume only, and is bound to no other.
#[tokio::test]
async fn only_a_bound_connection_reaches_objects() {
    let ds = TestDs::start(4).await;
    let mds = Caller::proven(&ds, 1).await;
    assert_eq!(mds.volume().await.runs.0, []);
    let victim = Objects(vec![object(1)]);
    let other = BindArgs { number: 2, uuid: [2; 16], ..FIRST };
    assert_eq!(mds.bind(&other).await, Err(ControlStatus::OTHER_VOLUME));
    let asked = VolumeArgs { number: 2, uuid: [2; 16], met: 1 };
    let refused: Called<VolumeOk> = mds.call(Procedure::VOLUME, &asked).await;
    assert_eq!(refused, Ok(Err(ControlStatus::OTHER_VOLUME)));
    for procedure in (4..=15).chain([18]) {
        let refused: Called<Nothing> = mds.call(Procedure(procedure), &victim).await;
        assert_eq!(refused, Ok(Err(ControlStatus::UNBOUND)), "procedure {procedure}");
    }
    mds.bind(&FIRST).await.unwrap();
    assert_eq!(mds.volume().await.runs.0, [FIRST.run]);
    let done: Statuses = mds.call(Procedure::REMOVE, &victim).await.unwrap().unwrap();
    assert_eq!(done.0, [ControlStatus::OK]);
    let elsewhere = Objects(vec![object(2), ObjectName { volume: 2, object: 1 }]);
    let refused: Called<Statuses> = mds.call(Procedure::REMOVE, &elsewhere).await;
    assert_eq!(refused, Ok(Err(ControlStatus::OTHER_VOLUME)));
}

/// The next run of a volume takes over when the one before is gone, or was silent for long; not
/// while that lives, and not if it found an older state. The one before is told that it is over.
#[tokio::test]
async fn one_run_of_a_volume_at_a_time() {
    let ds = TestDs::start(4).await;
    let old = Caller::bound(&ds).await;
    let held: Age = old.call(Procedure::AGE, &Age { lsn: 30 }).await.unwrap().unwrap();
    assert_eq!(held.lsn, 30);
    let new = Caller::proven(&ds, 1).await;
    assert_eq!(new.bind(&second(30)).await, Err(ControlStatus::IN_USE));
    assert_eq!(old.ping().await, Ok(Nothing), "it is left alone");
    ds.service().silence(1);
    assert_eq!(new.bind(&second(29)).await, Err(ControlStatus::OLDER));
    new.bind(&BindArgs { lsn: 31, ..second(30) }).await.unwrap();
    assert!(old.is_ended().await);
    let old = Caller::proven(&ds, 1).await;
    assert_eq!(old.bind(&BindArgs { lsn: 40, ..FIRST }).await, Err(ControlStatus::DEPOSED));
    let told = old.volume().await;
    assert_eq!((told.runs.0.len(), told.age), (2, 31));
    assert_eq!(told.met, told.run, "in its first run still");
}

/// Clients whose calls all wait for the disk leave threads to the metadata servers: these are told
/// of objects and of room.
#[tokio::test]
async fn clients_that_wait_for_the_disk_take_no_thread_from_us() {
    let ds = TestDs::start(4).await;
    let caller = Caller::bound(&ds).await;
    let (gate, hung) = (Arc::new(RwLock::new(())), Arc::new(AtomicUsize::new(0)));
    let closed = gate.write().await;
    let clients: Vec<_> = (0..2 * CLIENT_THREADS_MAX)
        .map(|_| {
            let (ds, gate, hung) = (ds.ds().clone(), gate.clone(), hung.clone());
            let hang = move |_: &ObjectStore| {
                hung.fetch_add(1, Ordering::SeqCst);
                drop(gate.blocking_read());
                Ok(())
            };
            tokio::spawn(async move { ds.disk.call(0, hang).await })
        })
        .collect();
    until("threads that wait", async || hung.load(Ordering::SeqCst) == CLIENT_THREADS_MAX).await;
    let name = ObjectName { volume: FIRST.number, object: 1 };
    let answered = tokio::time::timeout(Duration::from_secs(10), async {
        let none: StatOk = caller.call(Procedure::STAT, &Objects(vec![])).await.unwrap().unwrap();
        let one = Objects(vec![name]);
        let one: StatOk = caller.call(Procedure::STAT, &one).await.unwrap().unwrap();
        assert_eq!((none.objects.0.len(), one.objects.0.len()), (0, 1));
        let space: SpaceOk = caller.call(Procedure::SPACE, &Nothing).await.unwrap().unwrap();
        assert!(space.total > 0);
    });
    answered.await.expect("an answer");
    drop(closed);
    for client in clients {
        assert!(client.await.unwrap().is_ok());
    }
}
