//! The session against a server that loses connections, sessions and its memory.

use std::{
    io::ErrorKind,
    os::unix::fs::FileExt,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use crate::fake::{Fake, Fault};
use bytes::Bytes;
use weft_client::{
    ClientError, OnWait, WaitReason, Waiting,
    core::Role,
    limits,
    rpc::Credential,
    session::{CallbackHandler, DataRead, Reclaim, Reclaims, Session, SessionOptions},
};
use weft_io::Destination;
use weft_nfs::{
    Attrs, Component, FileHandle, NfsStat, OpArgs, OpNum, OpOk, StableHow, Stateid,
    callback::{
        CbGetattrArgs, CbLayoutrecallArgs, CbNotifyLockArgs, CbRecallAnyArgs, CbRecallArgs, CbReply,
    },
    ops::{CreateArgs, CreateType, GetattrArgs, RemoveArgs},
};
use weft_xdr::Payload;

fn options() -> SessionOptions {
    SessionOptions {
        patience: Duration::from_secs(10),
        slots: 4,
        ..SessionOptions::new(Role::Mds, Bytes::from_static(b"test"), Credential::NONE)
    }
}

async fn open(fake: &Fake) -> Session {
    Session::open(fake.addr, options()).await.unwrap()
}

/// The same, and what its waits are for, as it is told of them.
async fn open_hearing(fake: &Fake) -> (Session, Arc<Mutex<Vec<WaitReason>>>) {
    let told: Arc<Mutex<Vec<WaitReason>>> = Arc::default();
    let hears = told.clone();
    let on_wait: OnWait = Arc::new(move |w: &Waiting| hears.lock().unwrap().push(w.why.clone()));
    let options = SessionOptions { on_wait: Some(on_wait), ..options() };
    (Session::open(fake.addr, options).await.unwrap(), told)
}

fn mkdir(name: &str) -> Vec<OpArgs> {
    let create = CreateArgs {
        objtype: CreateType::Directory,
        name: Component::from(name),
        attrs: Box::new(Attrs::default()),
    };
    vec![OpArgs::Putrootfh, OpArgs::Create(create)]
}

fn getattr() -> Vec<OpArgs> {
    let request = weft_client::fs::STAT_ATTRS;
    vec![OpArgs::Putrootfh, OpArgs::Getattr(GetattrArgs { request })]
}

/// Counts the recalls that get through to it.
#[derive(Default)]
struct Recalled(AtomicUsize);

impl CallbackHandler for Recalled {
    fn cb_layoutrecall(&self, _: &CbLayoutrecallArgs) -> NfsStat {
        self.0.fetch_add(1, Ordering::Relaxed);
        NfsStat::OK
    }

    fn cb_recall(&self, _: &CbRecallArgs) -> NfsStat {
        NfsStat::BAD_STATEID
    }

    fn cb_recall_any(&self, _: &CbRecallAnyArgs) -> NfsStat {
        NfsStat::OK
    }

    fn cb_getattr(&self, _: &CbGetattrArgs) -> Result<Attrs, NfsStat> {
        Err(NfsStat::BADHANDLE)
    }

    fn cb_notify_lock(&self, _: &CbNotifyLockArgs) -> NfsStat {
        NfsStat::OK
    }

    fn state_revoked(&self) {}
}

/// Reclaims so many things, each by a PUTROOTFH and a GETFH.
struct Wanted {
    count: usize,
    /// How often it was asked what to reclaim.
    asked: AtomicUsize,
    /// Which were answered, with how many results.
    answered: Arc<Mutex<Vec<(usize, usize)>>>,
}

impl Wanted {
    fn of(session: &Session, count: usize) -> Arc<Wanted> {
        let (asked, answered) = (AtomicUsize::new(0), Arc::default());
        let wanted = Arc::new(Wanted { count, asked, answered });
        let reclaims: Arc<dyn Reclaims> = wanted.clone();
        session.reclaim_with(Arc::downgrade(&reclaims));
        wanted
    }

    fn answers(&self) -> Vec<(usize, usize)> {
        self.answered.lock().unwrap().clone()
    }
}

impl Reclaims for Wanted {
    fn requests(&self) -> Vec<Reclaim> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        let request = |which| {
            let answered = self.answered.clone();
            Reclaim {
                caller: Credential::NONE,
                ops: vec![OpArgs::Putrootfh, OpArgs::Getfh],
                done: Box::new(move |granted: Vec<OpOk>| {
                    answered.lock().unwrap().push((which, granted.len()));
                }),
            }
        };
        (0..self.count).map(request).collect()
    }
}

/// A session that is closed leaves no record at the server, also when something is open still: then
/// the client starts anew, which ends what it had, and leaves.
#[tokio::test]
async fn a_closed_session_is_forgotten() {
    for (busy, incarnations) in [(false, 1), (true, 2)] {
        let fake = Fake::start(vec![]).await;
        let session = open(&fake).await;
        if busy {
            fake.fault(Fault::Status(OpNum::DESTROY_CLIENTID, NfsStat::CLIENTID_BUSY));
        }
        fake.fault(Fault::Status(OpNum::DESTROY_SESSION, NfsStat::DELAY));
        let clone = session.clone();
        session.close().await;
        assert_eq!(fake.count(OpNum::DESTROY_CLIENTID), 1);
        assert_eq!(fake.count(OpNum::EXCHANGE_ID), incarnations);
        assert!(fake.lock().sessions.is_empty());
        assert!(matches!(clone.compound(getattr()).await, Err(ClientError::Closed)));
        clone.close().await;
        assert_eq!(fake.count(OpNum::DESTROY_CLIENTID), 1, "once is enough");
    }
}

/// Whoever wants to know is told of every kind of wait.
#[tokio::test]
async fn waits_are_told_of() {
    let fake = Fake::start(vec![]).await;
    let (session, told) = open_hearing(&fake).await;
    assert_eq!(*told.lock().unwrap(), []);
    for (status, why) in [(NfsStat::GRACE, WaitReason::Grace), (NfsStat::DELAY, WaitReason::Delay)]
    {
        fake.fault(Fault::Status(OpNum::GETATTR, status));
        session.compound(getattr()).await.unwrap();
        assert_eq!(std::mem::take(&mut *told.lock().unwrap()), [why]);
    }
    fake.fault(Fault::DropBefore(OpNum::GETATTR));
    session.compound(getattr()).await.unwrap();
    assert!(matches!(told.lock().unwrap()[..], [WaitReason::Unreachable(_), ..]));
    told.lock().unwrap().clear();
    fake.fault(Fault::Hold(OpNum::GETATTR));
    let held = tokio::spawn(async move { session.compound(getattr()).await.map(drop) });
    while told.lock().unwrap().is_empty() {
        tokio::task::yield_now().await;
    }
    fake.release();
    held.await.unwrap().unwrap();
    assert_eq!(told.lock().unwrap()[0], WaitReason::NoAnswer);
}

/// A request that must not run twice runs once, whether the connection ends before or after it
/// was executed: the same slot and sequence id come again, and the reply cache answers.
#[tokio::test]
async fn a_lost_connection_executes_once() {
    for fault in [Fault::DropBefore(OpNum::CREATE), Fault::DropAfter(OpNum::CREATE)] {
        let fake = Fake::start(vec![]).await;
        let session = open(&fake).await;
        fake.fault(fault);
        session.compound(mkdir("d")).await.unwrap();
        assert_eq!(fake.count(OpNum::CREATE), 1, "{fault:?}");
        assert_eq!(fake.lock().connections, 2);
        assert_eq!(fake.count(OpNum::CREATE_SESSION), 1, "the session survives");
        session.compound(getattr()).await.unwrap();
    }
}

/// With the session gone too, nobody knows whether it was executed: it is not repeated, and the
/// caller is told. What may run twice is repeated.
#[tokio::test]
async fn a_lost_session_leaves_doubt_only_where_it_matters() {
    let fake = Fake::start(vec![]).await;
    let session = open(&fake).await;
    fake.fault(Fault::DropAfterAndForget(OpNum::CREATE));
    let doubt = session.compound(mkdir("d")).await.unwrap_err();
    assert!(matches!(doubt, ClientError::OutcomeUnknown { op: OpNum::CREATE }), "{doubt}");
    assert_eq!(fake.count(OpNum::CREATE), 1);
    fake.fault(Fault::DropAfterAndForget(OpNum::GETATTR));
    session.compound(getattr()).await.unwrap();
    // Refused before execution: no doubt, so it is sent again on the new session.
    fake.lock().faults.clear();
    fake.fault(Fault::Status(OpNum::SEQUENCE, NfsStat::BADSESSION));
    session.compound(mkdir("e")).await.unwrap();
}

/// A server that restarted is met again as a new client, and the loss is counted.
#[tokio::test]
async fn a_restarted_server_is_met_again() {
    let fake = Fake::start(vec![]).await;
    let session = open(&fake).await;
    assert_eq!(session.losses(), 0);
    fake.restart();
    session.compound(mkdir("d")).await.unwrap();
    assert_eq!((fake.count(OpNum::EXCHANGE_ID), session.losses()), (2, 1));
}

/// RFC 8881 §2.10.6.1: the slots of a session begin anew, also those of the back channel, and also
/// over the connection that the session before had. A recall gets through however many did before;
/// one that is sent again is answered, and does not.
#[tokio::test]
async fn a_new_session_begins_its_back_channel_anew() {
    for before in [1, 2] {
        let fake = Fake::start(vec![]).await;
        let handler = Arc::new(Recalled::default());
        let options = SessionOptions { callbacks: Some(handler.clone()), ..options() };
        let session = Session::open(fake.addr, options).await.unwrap();
        let recall = async |answers| {
            fake.recall(FileHandle(Bytes::from_static(b"a file")));
            fake.until("the recall is answered", |s| s.cb_replies.len() == answers).await;
            handler.0.load(Ordering::Relaxed)
        };
        for n in 1..=before {
            assert_eq!(recall(n).await, n);
        }
        fake.restart();
        session.compound(getattr()).await.unwrap();
        assert_eq!((fake.count(OpNum::CREATE_SESSION), fake.lock().connections), (2, 1));
        for n in before + 1..=before + 2 {
            assert_eq!(recall(n).await, n, "after {before}");
        }
        fake.lock().cb_sequence -= 1;
        assert_eq!(recall(before + 3).await, before + 2, "sent again");
        let answered = |s: &[_]| s.iter().all(|r: &CbReply| r.status == NfsStat::OK);
        assert!(answered(&fake.lock().cb_replies));
    }
}

/// A server has the limit of a step for each reclaim, not for all of them: many that take longer
/// together are made once, over one connection.
#[tokio::test]
async fn many_slow_reclaims_come_to_an_end() {
    // Each is kept back until that is told of: together longer than the limit.
    let held_max = limits::STEP_LIMIT.div_duration_f64(limits::QUIET_MAX) as usize + 1;
    let fake = Fake::start(vec![]).await;
    let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
    let on_wait: OnWait = Arc::new(move |w: &Waiting| drop(tell.send(w.why.clone())));
    let options = SessionOptions { on_wait: Some(on_wait), ..options() };
    let session = Session::open(fake.addr, options).await.unwrap();
    let wanted = Wanted::of(&session, held_max);
    fake.restart();
    (0..held_max).for_each(|_| fake.fault(Fault::Hold(OpNum::GETFH)));
    let mut request = tokio::spawn(async move { session.compound(getattr()).await.map(drop) });
    loop {
        tokio::select! {
            done = &mut request => break done.unwrap().unwrap(),
            Some(why) = told.recv() => {
                assert_eq!(why, WaitReason::NoAnswer);
                fake.release();
            }
        }
    }
    assert_eq!(wanted.answers(), (0..held_max).map(|n| (n, 2)).collect::<Vec<_>>());
    assert_eq!((wanted.asked.load(Ordering::Relaxed), fake.lock().connections), (1, 1));
}

/// A reclaim that is put off, be it by SEQUENCE or by what is behind it, is made again after the
/// others, and before RECLAIM_COMPLETE; one that is refused is not.
#[tokio::test]
async fn a_reclaim_that_is_put_off_is_made_again() {
    let fake = Fake::start(vec![]).await;
    let (session, told) = open_hearing(&fake).await;
    let wanted = Wanted::of(&session, 4);
    fake.restart();
    for (op, status) in [
        (OpNum::GETFH, NfsStat::DELAY),
        (OpNum::SEQUENCE, NfsStat::DELAY),
        (OpNum::GETFH, NfsStat::RECLAIM_BAD),
    ] {
        fake.fault(Fault::Status(op, status));
    }
    session.compound(getattr()).await.unwrap();
    assert_eq!(wanted.answers(), [(2, 1), (3, 2), (0, 2), (1, 2)]);
    assert_eq!(*told.lock().unwrap(), [WaitReason::Delay]);
    let last = fake.lock().executed.iter().rev().find_map(|op| match *op {
        OpNum::GETFH | OpNum::RECLAIM_COMPLETE => Some(*op),
        _ => None,
    });
    assert_eq!(last, Some(OpNum::RECLAIM_COMPLETE));
}

/// What is put off until patience has run out is not had, and keeps nobody waiting any longer.
#[tokio::test]
async fn reclaims_are_not_put_off_for_ever() {
    let fake = Fake::start(vec![]).await;
    let options = SessionOptions { patience: Duration::from_millis(100), ..options() };
    let session = Session::open(fake.addr, options).await.unwrap();
    let wanted = Wanted::of(&session, 1);
    fake.restart();
    (0..1000).for_each(|_| fake.fault(Fault::Status(OpNum::GETFH, NfsStat::DELAY)));
    session.compound(getattr()).await.unwrap();
    assert_eq!(wanted.answers(), [(0, 1)]);
    let tries = fake.lock().refused.iter().filter(|op| **op == OpNum::GETFH).count();
    assert!((2..10).contains(&tries), "{tries}");
}

/// Nothing more is reclaimed once the session is closed, nor said to be.
#[tokio::test]
async fn reclaims_end_when_the_session_is_closed() {
    let fake = Fake::start(vec![]).await;
    let session = open(&fake).await;
    let _wanted = Wanted::of(&session, 1);
    fake.restart();
    fake.lock().executed.clear();
    let tries = |refused: &[OpNum], op| refused.iter().filter(|one| **one == op).count();
    (0..1000).for_each(|_| fake.fault(Fault::Status(OpNum::GETFH, NfsStat::DELAY)));
    let request = tokio::spawn({
        let session = session.clone();
        async move { session.compound(getattr()).await.map(drop) }
    });
    fake.until("a reclaim is put off twice", |s| tries(&s.refused, OpNum::GETFH) == 2).await;
    fake.lock().refused.clear();
    session.close().await;
    assert!(matches!(request.await.unwrap(), Err(ClientError::Closed)));
    assert_eq!(fake.count(OpNum::RECLAIM_COMPLETE), 0);
    assert_eq!(fake.lock().refused, [], "no request was made on a session that was gone");
}

/// A connection that is bound when the server asks for it carries on with the request. A server
/// that asks again and again is given up when patience has run out, and not asked without a pause.
#[tokio::test]
async fn a_connection_is_not_bound_for_ever() {
    let fake = Fake::start(vec![]).await;
    let options = SessionOptions { patience: Duration::from_millis(200), ..options() };
    let session = Session::open(fake.addr, options).await.unwrap();
    let unbound = Fault::Status(OpNum::SEQUENCE, NfsStat::CONN_NOT_BOUND_TO_SESSION);
    fake.fault(unbound);
    session.compound(mkdir("d")).await.unwrap();
    assert_eq!(fake.count(OpNum::BIND_CONN_TO_SESSION), 1);
    (0..1000).for_each(|_| fake.fault(unbound));
    let given_up = session.compound(mkdir("e")).await.unwrap_err();
    assert_eq!(given_up.status(), Some(NfsStat::CONN_NOT_BOUND_TO_SESSION), "{given_up}");
    assert!(fake.count(OpNum::BIND_CONN_TO_SESSION) < 10);
    fake.lock().faults.clear();
    session.compound(mkdir("e")).await.unwrap();
    assert_eq!(fake.count(OpNum::CREATE_SESSION), 1, "the session is as good as before");
}

/// DELAY is waited out, on SEQUENCE with the same sequence id, later with a new one; a final
/// refusal names its operation.
#[tokio::test]
async fn delays_are_waited_out() {
    let fake = Fake::start(vec![]).await;
    let session = open(&fake).await;
    for op in [OpNum::SEQUENCE, OpNum::CREATE, OpNum::CREATE] {
        fake.fault(Fault::Status(op, NfsStat::DELAY));
    }
    session.compound(mkdir("d")).await.unwrap();
    assert_eq!(fake.count(OpNum::CREATE), 1);
    let again = session.compound(mkdir("d")).await.unwrap_err();
    assert!(
        matches!(again, ClientError::Nfs { op: OpNum::CREATE, status: NfsStat::EXIST }),
        "{again}"
    );
    assert_eq!(again.to_string(), "file exists");
    let remove = OpArgs::Remove(RemoveArgs { target: Component::from("x") });
    let outcome = session.compound_outcome(vec![OpArgs::Putrootfh, remove]).await.unwrap();
    assert_eq!(outcome.done.len(), 1);
    assert_eq!(outcome.failed.unwrap().failure.status, NfsStat::NOENT);
}

/// Many more callers than slots all get through, also while connections break.
#[tokio::test]
async fn callers_share_the_slots() {
    let fake = Fake::start(vec![]).await;
    fake.lock().slots = 3;
    let session = open(&fake).await;
    fake.fault(Fault::DropAfter(OpNum::CREATE));
    fake.fault(Fault::DropBefore(OpNum::CREATE));
    let mut tasks = tokio::task::JoinSet::new();
    for n in 0..200 {
        let session = session.clone();
        tasks.spawn(async move { session.compound(mkdir(&format!("d{n}"))).await });
    }
    while let Some(done) = tasks.join_next().await {
        done.unwrap().unwrap();
    }
    assert_eq!(fake.count(OpNum::CREATE), 200);
}

/// Callers that stop waiting leave no slot behind, and their requests run to the end.
#[tokio::test]
async fn abandoned_requests_free_their_slots() {
    let fake = Fake::start(vec![]).await;
    fake.lock().slots = 1;
    let session = open(&fake).await;
    for n in 0..20 {
        let name = format!("d{n}");
        let request = session.compound(mkdir(&name));
        tokio::select! {
            biased;
            done = request => drop(done.unwrap()),
            () = tokio::task::yield_now() => {}
        }
    }
    session.compound(mkdir("last")).await.unwrap();
    fake.until("all were executed", |s| s.count(OpNum::CREATE) == 21).await;
}

/// A server that never comes back is given up after the patience, with a message that says so.
#[tokio::test]
async fn an_unreachable_server_is_given_up() {
    let fake = Fake::start(vec![]).await;
    let patience = Duration::from_millis(200);
    let session = Session::open(fake.addr, SessionOptions { patience, ..options() }).await.unwrap();
    fake.kill();
    let gone = session.compound(getattr()).await.unwrap_err();
    assert!(matches!(gone, ClientError::Unreachable { .. }), "{gone}");
    let again = Session::open(fake.addr, SessionOptions { patience, ..options() }).await;
    assert!(matches!(again, Err(ClientError::Unreachable { .. })));
}

/// The data calls that a metadata server makes of its data servers; a file range arrives as the
/// file has it, and one its file does not hold fails that call only.
#[tokio::test]
async fn data_calls() {
    let fake = Fake::data_server().await;
    let session =
        Session::open(fake.addr, SessionOptions { role: Role::Ds, ..options() }).await.unwrap();
    let fh = Bytes::from(vec![9; 32]);
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), crate::fake::pattern(100_000, 1)).unwrap();
    let range = |offset, len| {
        let file = Arc::new(std::fs::File::open(file.path()).unwrap());
        Payload::File(weft_xdr::FileRange { file, offset, len })
    };
    let ok =
        session.ds_write(fh.clone(), 10, range(500, 90_000), StableHow::UNSTABLE).await.unwrap();
    assert_eq!(ok.count, 90_000);
    assert_eq!(session.ds_commit(fh.clone()).await.unwrap(), ok.verifier);
    let (data, eof) = session.ds_read(fh.clone(), 10, 90_000).await.unwrap();
    assert!(eof && data[..] == crate::fake::pattern(100_000, 1)[500..90_500]);
    let short = session.ds_write(fh.clone(), 0, range(99_000, 2000), StableHow::UNSTABLE).await;
    assert!(matches!(short, Err(ClientError::Rpc(weft_client::rpc::RpcError::Source(_)))));
    assert_eq!(session.ds_read(fh, 10, 1).await.unwrap().0.len(), 1);
    assert_eq!(fake.lock().connections, 1);
}

/// Closing destroys session and client record at the server, and the session refuses after.
#[tokio::test]
async fn closing_says_goodbye() {
    let fake = Fake::start(vec![]).await;
    let session = open(&fake).await;
    let other = session.clone();
    session.close().await;
    assert_eq!(fake.count(OpNum::DESTROY_SESSION), 1);
    assert_eq!(fake.count(OpNum::DESTROY_CLIENTID), 1);
    assert!(matches!(other.compound(getattr()).await, Err(ClientError::Closed)));
}

/// READ into a file: large data land at their place, small ones come back, both say how many and
/// whether they reach the end; a refusal, or a local file that takes nothing, is an error of that
/// call alone.
#[tokio::test]
async fn reading_into_a_file() {
    let fake = Fake::data_server().await;
    let options = SessionOptions { role: Role::Ds, ..options() };
    let session = Session::open(fake.addr, options).await.unwrap();
    let (fh, data) = (Bytes::from_static(b"an object"), crate::fake::pattern(300_001, 1));
    let all = Payload::Bytes(data.clone().into());
    session.ds_write(fh.clone(), 0, all, StableHow::UNSTABLE).await.unwrap();
    let file = Arc::new(tempfile::tempfile().unwrap());
    let good = Arc::new(Destination::new(file.clone()));
    let fh = FileHandle(fh);
    let read = |offset, count, to| session.read_to(&fh, Stateid::ANONYMOUS, offset, count, to);
    let placed = read(0, 200_000, (good.clone(), 777)).await.unwrap();
    assert_eq!(placed, (DataRead::Placed(200_000), false));
    let short = read(200_000, 1 << 20, (good.clone(), 200_777)).await.unwrap();
    assert_eq!(short, (DataRead::Placed(100_001), true));
    let mut landed = vec![0; data.len()];
    file.read_exact_at(&mut landed, 777).unwrap();
    assert!(landed == data);
    let small = read(299_999, 1 << 20, (good.clone(), 0)).await.unwrap();
    assert_eq!(small, (DataRead::Here(Bytes::copy_from_slice(&data[299_999..])), true));
    fake.fault(Fault::Status(OpNum::READ, NfsStat::IO));
    let refused = read(0, 200_000, (good.clone(), 0)).await.unwrap_err();
    assert_eq!(refused.status(), Some(NfsStat::IO));
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let full = Arc::new(Destination::new(Arc::new(full)));
    let full = read(0, 200_000, (full, 0)).await.unwrap_err();
    assert!(matches!(&full, ClientError::Local(e) if e.kind() == ErrorKind::StorageFull), "{full}");
    fake.fault(Fault::DropAfter(OpNum::READ));
    let again = read(0, 200_000, (good, 777)).await.unwrap();
    assert_eq!(again, (DataRead::Placed(200_000), false));
    assert_eq!(fake.count(OpNum::CREATE_SESSION), 1);
}

/// A server that loses each session that it gives is asked at its pace, and not for ever.
#[tokio::test]
async fn sessions_that_are_lost_again_and_again() {
    let fake = Fake::start(vec![]).await;
    let options = SessionOptions { patience: Duration::from_secs(2), ..options() };
    let session = Session::open(fake.addr, options).await.unwrap();
    (0..2000).for_each(|_| fake.fault(Fault::Status(OpNum::SEQUENCE, NfsStat::BADSESSION)));
    let refused = session.compound(getattr()).await.unwrap_err();
    assert!(refused.to_string().contains("loses each session"), "{refused}");
    let made = fake.count(OpNum::CREATE_SESSION);
    assert!((3..100).contains(&made), "{made} sessions");
}

/// A metadata server that was restarted hears from us as soon as it can, though we want nothing of
/// it: what we have open keeps others waiting until we have told it.
#[tokio::test]
async fn an_idle_client_is_soon_back() {
    let fake = Fake::start(vec![]).await;
    let session = open(&fake).await;
    session.compound(getattr()).await.unwrap();
    fake.restart();
    fake.hang_up();
    let back = |s: &crate::fake::State| s.count(OpNum::EXCHANGE_ID) == 2;
    tokio::time::timeout(Duration::from_secs(5), fake.until("it is back", back)).await.unwrap();
}
