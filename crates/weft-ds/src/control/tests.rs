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
    codec::*,
    proof::{Side, Transcript},
};

/// A connection that calls by hand.
struct Caller {
    connection: Connection,
    caller: [u8; 16],
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
    async fn new(ds: &TestDs, caller: u8) -> Caller {
        let connection = Connection::connect(ds.addr).await.unwrap();
        Caller { connection, caller: [caller; 16] }
    }

    /// One that has proven itself.
    async fn proven(ds: &TestDs, caller: u8) -> Caller {
        let caller = Caller::new(ds, caller).await;
        let said = caller.hello().await;
        let proof = said.proof(&secret().control_key(), Side::Caller);
        assert_eq!(caller.prove(proof).await, Ok(Nothing));
        caller
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

    /// What was said; the data server's own proof is checked.
    async fn hello(&self) -> Transcript {
        let hello = HelloArgs { nonce: [7; 32], caller: self.caller };
        let ok: HelloOk = self.call(Procedure::HELLO, &hello).await.unwrap().unwrap();
        let said =
            Transcript { caller: self.caller, caller_nonce: hello.nonce, server_nonce: ok.nonce };
        assert!(said.is_proof(&secret().control_key(), Side::Server, ok.proof));
        said
    }

    async fn prove(&self, proof: [u8; 32]) -> Result<Nothing, ControlStatus> {
        self.call(Procedure::PROVE, &ProveArgs { proof }).await.unwrap()
    }

    async fn who(&self) -> Result<WhoOk, ControlStatus> {
        self.call(Procedure::WHO, &Nothing).await.unwrap()
    }
}

fn object(object: u64) -> ObjectName {
    ObjectName { volume: 1, object }
}

/// Until a connection has proven itself, every procedure is refused, existing or not.
#[tokio::test]
async fn strangers_are_refused() {
    let ds = TestDs::start(4).await;
    let stranger = Caller::new(&ds, 1).await;
    for procedure in (3..=18).chain([99, u32::MAX]) {
        let refused: Called<Nothing> = stranger.call(Procedure(procedure), &Nothing).await;
        assert_eq!(refused, Ok(Err(ControlStatus::UNPROVEN)), "procedure {procedure}");
    }
    assert_eq!(stranger.prove([0; 32]).await, Err(ControlStatus::UNPROVEN), "no HELLO before");
    stranger.hello().await;
    assert_eq!(stranger.who().await, Err(ControlStatus::UNPROVEN), "HELLO alone proves nothing");
    let victim = Objects(vec![object(1)]);
    ds.serve_volume(1);
    ds.store().write(super::service::id(object(1)), 0, 0, b"data").unwrap();
    let refused: Called<Statuses> = stranger.call(Procedure::REMOVE, &victim).await;
    assert_eq!(refused, Ok(Err(ControlStatus::UNPROVEN)));
    assert_eq!(ds.store().stat(super::service::id(object(1))).unwrap().size, 4);
}

/// Wrong proofs fail, each costs a new HELLO, and proofs of other conversations, of the other
/// side, and of another connection are wrong.
#[tokio::test]
async fn proofs_cannot_be_guessed_or_reused() {
    let ds = TestDs::start(4).await;
    let key = secret().control_key();
    let stranger = Caller::new(&ds, 1).await;
    let said = stranger.hello().await;
    assert_eq!(stranger.prove(said.proof(&key, Side::Server)).await, Err(ControlStatus::BAD_PROOF));
    let right = said.proof(&key, Side::Caller);
    assert_eq!(stranger.prove(right).await, Err(ControlStatus::UNPROVEN), "one try a HELLO");
    let again = stranger.hello().await;
    assert_ne!(again.server_nonce, said.server_nonce);
    assert_eq!(stranger.prove(right).await, Err(ControlStatus::BAD_PROOF), "replayed");
    let other = Caller::new(&ds, 1).await;
    let said = other.hello().await;
    stranger.hello().await;
    let taken = said.proof(&key, Side::Caller);
    assert_eq!(stranger.prove(taken).await, Err(ControlStatus::BAD_PROOF), "another connection's");
    assert_eq!(other.prove(taken).await, Ok(Nothing));
    assert_eq!(other.who().await.unwrap().id, 4);
    assert_eq!(stranger.who().await, Err(ControlStatus::UNPROVEN));
}

/// Each procedure does what it says, item by item.
#[tokio::test]
async fn objects_are_managed() {
    let ds = TestDs::start(4).await;
    let mds = Caller::bound(&ds).await;
    let who = mds.who().await.unwrap();
    assert_eq!((who.id, who.uuid), (4, ds.store().identity()));
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
    let trailing: Called<WhoOk> = mds.call(Procedure::WHO, &1u32).await;
    assert_eq!(trailing, Err(Reply::GarbageArgs));
    assert_eq!(mds.raw(99, Bytes::new()).await.err(), Some(Reply::ProcUnavail));
    // Noise of every length to every procedure, before and after proving.
    let stranger = Caller::new(&ds, 2).await;
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
        // PROVE and HELLO with noise must not take the proven connection's standing away.
        let by = if matches!(procedure, 5..=7 | 12..=14) { &stranger } else { &mds };
        let _any_answer = by.raw(procedure, Bytes::from(bytes)).await;
    }
    assert_eq!(mds.who().await.unwrap().id, 4);
    assert_eq!(stranger.who().await, Err(ControlStatus::UNPROVEN));
}

/// Another version of the program is refused with the one that is served.
#[tokio::test]
async fn other_versions_are_refused() {
    let ds = TestDs::start(4).await;
    let mds = Caller::new(&ds, 1).await;
    match mds.connection.call(CONTROL_PROGRAM, 1, 3, &Credential::NONE, Vec::new()).await {
        Err(RpcError::Refused(reply)) => assert_eq!(reply, Reply::ProgMismatch(3, 3)),
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
    until("replacement", async || old.who().await == Err(ControlStatus::UNPROVEN)).await;
    tokio::time::sleep(Duration::from_millis(20)).await;
    assert!(!binding.is_finished(), "BIND has not waited for the change");
    drop(change);
    let (new, bound) = binding.await.unwrap();
    assert_eq!(bound.map(|b| b.age), Ok(10));
    assert_eq!(new.who().await.unwrap().id, 4);
    let refused: Called<Statuses> = old.call(Procedure::REMOVE, &Objects(vec![object(1)])).await;
    assert_eq!(refused, Ok(Err(ControlStatus::UNPROVEN)));
    assert_eq!(other.who().await.unwrap().id, 4);
    let space: Called<SpaceOk> = other.call(Procedure::SPACE, &Nothing).await;
    space.unwrap().unwrap();
}

/// A connection that is proven and not bound may ask who is there and what is known of a volume,
/// and nothing else; a bound one may name objects of its own volume only.
#[tokio::test]
async fn only_a_bound_connection_reaches_objects() {
    let ds = TestDs::start(4).await;
    let mds = Caller::proven(&ds, 1).await;
    assert_eq!(mds.volume().await.runs.0, []);
    let victim = Objects(vec![object(1)]);
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
    assert_eq!(old.who().await.unwrap().id, 4, "it is left alone");
    ds.service().silence(1);
    assert_eq!(new.bind(&second(29)).await, Err(ControlStatus::OLDER));
    new.bind(&BindArgs { lsn: 31, ..second(30) }).await.unwrap();
    assert_eq!(old.who().await, Err(ControlStatus::UNPROVEN));
    let old = Caller::proven(&ds, 1).await;
    assert_eq!(old.bind(&BindArgs { lsn: 40, ..FIRST }).await, Err(ControlStatus::DEPOSED));
    let told = old.volume().await;
    assert_eq!((told.runs.0.len(), told.age), (2, 31));
    assert_eq!(told.met, told.run, "in its first run still");
}

/// Strangers that begin to authenticate over and over fill no table.
#[tokio::test]
async fn challenges_are_bounded() {
    let ds = TestDs::start(4).await;
    let mds = Caller::proven(&ds, 1).await;
    let strangers: Vec<_> = {
        let mut all = Vec::new();
        for _ in 0..300 {
            let stranger = Caller::new(&ds, 9).await;
            stranger.hello().await;
            all.push(stranger);
        }
        all
    };
    assert!(ds.service().challenges() <= 256);
    assert_eq!(mds.who().await.unwrap().id, 4);
    drop(strangers);
    let service = Arc::downgrade(ds.service());
    until("forgotten challenges", async || service.upgrade().is_some_and(|s| s.challenges() == 0))
        .await;
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
