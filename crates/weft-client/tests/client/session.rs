//! The session against a server that loses connections, sessions and its memory.

use std::{io::ErrorKind, os::unix::fs::FileExt, sync::Arc, time::Duration};

use crate::fake::{Fake, Fault};
use bytes::Bytes;
use weft_client::{
    ClientError, OnWait, WaitReason, Waiting,
    core::Role,
    rpc::Credential,
    session::{DataRead, Session, SessionOptions},
};
use weft_io::Destination;
use weft_nfs::{
    Attrs, Component, FileHandle, NfsStat, OpArgs, OpNum, StableHow, Stateid,
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
    let told: Arc<std::sync::Mutex<Vec<WaitReason>>> = Arc::default();
    let hears = told.clone();
    let on_wait: OnWait = Arc::new(move |w: &Waiting| hears.lock().unwrap().push(w.why.clone()));
    let options = SessionOptions { on_wait: Some(on_wait), ..options() };
    let session = Session::open(fake.addr, options).await.unwrap();
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
    fake.until("all were executed", |s| {
        s.executed.iter().filter(|op| **op == OpNum::CREATE).count() == 21
    })
    .await;
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
