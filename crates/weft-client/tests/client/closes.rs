//! CLOSEs that nobody waits for.

use std::time::Duration;

use crate::fake::{Fault, cluster::Cluster};
use weft_client::{
    fs::{Client, File, OpenOptions},
    io::IoPolicy,
    rpc::Credential,
};
use weft_nfs::{NfsStat, OpNum};

async fn open(client: &Client, count: usize) -> Vec<File> {
    let mut all = Vec::new();
    for n in 0..count {
        let made = client.open(&format!("/f{n}"), OpenOptions::replace(0o644)).await.unwrap();
        made.close().await.unwrap();
        all.push(client.open(&format!("/f{n}"), OpenOptions::read()).await.unwrap());
    }
    all
}

/// They go together, as many as the session takes, and each file is closed: also if the server has
/// no time for one, does not know one, or loses the session with some under way.
#[tokio::test]
async fn each_file_is_closed() {
    let faults = [
        None,
        Some(Fault::Status(OpNum::CLOSE, NfsStat::DELAY)),
        Some(Fault::SecondStatus(OpNum::CLOSE, NfsStat::DELAY)),
        Some(Fault::SecondStatus(OpNum::PUTFH, NfsStat::DELAY)),
        Some(Fault::DropAfter(OpNum::CLOSE)),
        Some(Fault::DropAfterAndForget(OpNum::CLOSE)),
    ];
    for ops_max in [u32::MAX, 8] {
        for fault in faults {
            let c = Cluster::start(IoPolicy::default()).await;
            c.mds.lock().ops_max = ops_max;
            c.mds.lock().sessions.clear();
            let files = open(&c.client, 40).await;
            let closed = c.mds.count(OpNum::CLOSE);
            if let Some(fault) = fault {
                c.mds.fault(fault);
            }
            for file in &files {
                file.io().close_soon().await.unwrap();
            }
            c.mds.until("all are closed", |mds| mds.opens.is_empty()).await;
            assert_eq!(c.mds.count(OpNum::CLOSE), closed + 40, "{fault:?}");
            c.client.close().await;
        }
    }
}

/// Those of two users go together each with his own, in whatever order they come.
#[tokio::test]
async fn users_close_their_own() {
    let c = Cluster::start(IoPolicy::default()).await;
    let users = [7, 8].map(|uid| c.client.acting_for(Credential::sys("m", uid, uid, &[])));
    let mut files = Vec::new();
    for n in 0..10 {
        files.extend(open(&users[n % 2], 1).await);
    }
    let sequences = c.mds.count(OpNum::SEQUENCE);
    for file in &files {
        file.io().close_soon().await.unwrap();
    }
    c.mds.until("all are closed", |mds| mds.opens.is_empty()).await;
    assert!(c.mds.count(OpNum::SEQUENCE) - sequences <= 4, "one after another");
    c.client.close().await;
}

/// More of them than may wait are waited for.
#[tokio::test]
async fn more_than_may_wait() {
    let c = Cluster::start(IoPolicy::default()).await;
    let files = open(&c.client, 300).await;
    for file in &files {
        file.io().close_soon().await.unwrap();
    }
    c.mds.until("all are closed", |mds| mds.opens.is_empty()).await;
    c.client.close().await;
}

/// Who does not wait for an OPEN, or a close, leaves nothing open at the server.
#[tokio::test]
async fn what_is_given_up_is_closed() {
    let c = Cluster::start(IoPolicy::default()).await;
    let give_up = Duration::from_millis(100);
    for options in [OpenOptions::replace(0o644), OpenOptions::read()] {
        c.mds.fault(Fault::Hold(OpNum::OPEN));
        let opening = c.client.open("/f", options);
        assert!(tokio::time::timeout(give_up, opening).await.is_err());
        assert_eq!(c.mds.lock().opens.len(), 1);
        c.mds.release();
        c.mds.until("it is closed", |mds| mds.opens.is_empty()).await;
    }
    // What is asked of the file is not told.
    c.mds.fault(Fault::StatusBeside(OpNum::OPEN, OpNum::GETATTR, NfsStat::IO));
    assert!(c.client.open("/f", OpenOptions::read()).await.is_err());
    c.mds.until("it is closed", |mds| mds.opens.is_empty()).await;

    let file = c.open().await;
    file.write_at(0, vec![1; 3 << 20].into()).await.unwrap();
    c.ds[0].fault(Fault::Hold(OpNum::COMMIT));
    let closing = file.close();
    assert!(tokio::time::timeout(give_up, closing).await.is_err());
    c.ds[0].release();
    c.mds.until("it is closed", |mds| mds.opens.is_empty()).await;
    c.client.close().await;
}

/// What was sent when a close is given up arrives before the file is closed.
#[tokio::test]
async fn a_close_overtakes_no_write() {
    let c = Cluster::start(IoPolicy::default()).await;
    let file = c.open().await;
    file.write_at(0, vec![1; 100].into()).await.unwrap();
    c.mds.fault(Fault::Hold(OpNum::WRITE));
    let (opens, closes) = (c.mds.count(OpNum::OPEN), c.mds.count(OpNum::CLOSE));
    let closing = file.close();
    assert!(tokio::time::timeout(Duration::from_millis(500), closing).await.is_err());
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(c.mds.count(OpNum::CLOSE), closes, "the write is under way");
    c.mds.release();
    c.mds.until("it is closed", |mds| mds.opens.is_empty()).await;
    assert_eq!(c.mds.count(OpNum::OPEN), opens);
    c.client.close().await;
}

/// A layout that goes back with a close that is given up is not used by who opens the file next.
#[tokio::test]
async fn a_layout_goes_back_whoever_waits() {
    let c = Cluster::start(IoPolicy::default()).await;
    let file = c.open().await;
    file.write_at(0, vec![1; 3 << 20].into()).await.unwrap();
    c.mds.fault(Fault::Hold(OpNum::LAYOUTRETURN));
    let closing = file.close();
    assert!(tokio::time::timeout(Duration::from_millis(500), closing).await.is_err());
    c.mds.release();
    c.mds.until("it is closed", |mds| mds.opens.is_empty()).await;
    let (layouts, options) = (c.mds.count(OpNum::LAYOUTGET), OpenOptions::read());
    let again = c.client.open("/f", OpenOptions { write: true, ..options }).await.unwrap();
    again.write_at(3 << 20, vec![2; 3 << 20].into()).await.unwrap();
    again.close().await.unwrap();
    assert_eq!(c.mds.count(OpNum::LAYOUTGET), layouts + 1);
    assert_eq!(c.another().await.read_file("/f", 8 << 20).await.unwrap().len(), 6 << 20);
    c.client.close().await;
}
