//! What is read and written through the cache: round trips, and what servers lose or keep back.

use std::time::Duration;

use crate::fake::{Fake, Fault, State, UNIT, cluster::Cluster, pattern};
use bytes::Bytes;
use weft_client::{
    fs::{File, OpenOptions},
    io::IoPolicy,
};
use weft_nfs::{NfsStat, OpNum};

/// Reads all of a file in pieces.
async fn read_by(file: &File, len: usize, piece: usize) -> Vec<u8> {
    let mut all = Vec::new();
    while all.len() < len {
        let read = file.read_at(all.len() as u64, piece).await.unwrap();
        assert!(!read.is_empty());
        all.extend_from_slice(&read);
    }
    all
}

/// Small writes one behind the other, and what is read again, cost no request; what another open
/// reads from front to back in small pieces, few.
#[tokio::test]
async fn what_is_cached_costs_no_request() {
    let c = Cluster::start(IoPolicy::default()).await;
    let file = c.open().await;
    let data = pattern(3 << 20, 1);
    for (n, part) in data.chunks(4096).enumerate() {
        file.write_at(n as u64 * 4096, Bytes::copy_from_slice(part)).await.unwrap();
    }
    assert_eq!(c.count(OpNum::WRITE), 0);
    assert!(read_by(&file, data.len(), 4096).await == data);
    file.commit().await.unwrap();
    assert!(read_by(&file, data.len(), 10_000).await == data);
    assert_eq!((c.count(OpNum::READ), c.count(OpNum::WRITE)), (0, 3));
    file.close().await.unwrap();
    let file = c.client.open("/f", OpenOptions::read()).await.unwrap();
    assert!(read_by(&file, data.len(), 4096).await == data);
    let reads = c.count(OpNum::READ);
    assert!((3..=8).contains(&reads), "{reads}");
    assert!(read_by(&file, data.len(), 4096).await == data);
    assert_eq!(c.count(OpNum::READ), reads);
    file.close().await.unwrap();
    c.client.close().await;
}

/// A data server that loses what is not durable does not show: who wrote it reads its own bytes,
/// whatever the policy, and they become durable with the next commit.
#[tokio::test]
async fn own_bytes_survive_a_power_cut() {
    for policy in [IoPolicy::default(), IoPolicy::direct()] {
        let c = Cluster::start(policy).await;
        let file = c.open().await;
        let data = pattern(2 * UNIT as usize, 2);
        file.write_at(0, data.clone().into()).await.unwrap();
        file.io().flush().await.unwrap();
        assert_eq!(c.count(OpNum::WRITE), 2);
        for ds in &c.ds {
            ds.fault(Fault::LoseDataBefore(OpNum::READ));
            ds.fault(Fault::LoseDataBefore(OpNum::COMMIT));
        }
        assert!(file.read_at(0, data.len()).await.unwrap() == data, "{policy:?}");
        file.commit().await.unwrap();
        file.close().await.unwrap();
        let file = c.client.open("/f", OpenOptions::read()).await.unwrap();
        c.ds.iter().for_each(|ds| ds.lock().faults.clear());
        assert!(file.read_at(0, data.len()).await.unwrap() == data, "{policy:?}");
        file.close().await.unwrap();
        c.client.close().await;
    }
}

/// Who gives up waiting for a write leaves it on its way: what is written over it afterwards is not
/// overtaken by it.
#[tokio::test]
async fn a_write_given_up_overtakes_nothing() {
    let c = Cluster::start(IoPolicy::direct()).await;
    let file = c.open().await;
    file.write_at(0, pattern(UNIT as usize, 3).into()).await.unwrap();
    c.ds[0].fault(Fault::Hold(OpNum::WRITE));
    let old = file.write_at(0, pattern(UNIT as usize, 4).into());
    assert!(tokio::time::timeout(Duration::from_millis(200), old).await.is_err());
    let new = pattern(UNIT as usize, 5);
    let mut next = Box::pin(file.write_at(0, new.clone().into()));
    assert!(tokio::time::timeout(Duration::from_millis(200), next.as_mut()).await.is_err());
    assert_eq!(c.ds[0].count(OpNum::WRITE), 2, "one at a time");
    assert!(file.read_at(0, UNIT as usize).await.unwrap() == new, "it is read already");
    c.ds[0].release();
    next.await.unwrap();
    file.close().await.unwrap();
    assert!(c.client.read_file("/f", 4 << 20).await.unwrap() == new);
    c.client.close().await;
}

/// What goes past the opens of a file meets what they have not sent: a file that is read whole is
/// what was written, one that is replaced, emptied or cut keeps nothing of it.
#[tokio::test]
async fn acts_by_path_meet_what_is_cached() {
    let c = Cluster::start(IoPolicy::default()).await;
    let file = c.open().await;
    file.write_at(0, Bytes::from_static(b"not sent")).await.unwrap();
    assert_eq!(c.client.read_file("/f", 100).await.unwrap(), "not sent");
    file.write_at(0, Bytes::from_static(b"nor this, which is longer")).await.unwrap();
    c.client.write_file("/f", 0o644, Bytes::from_static(b"replaced")).await.unwrap();
    assert_eq!(file.read_at(0, 100).await.unwrap(), "replaced");
    file.write_at(20, Bytes::from_static(b"behind")).await.unwrap();
    c.client.truncate("/f", 22).await.unwrap();
    let cut = b"replaced\0\0\0\0\0\0\0\0\0\0\0\0be";
    assert_eq!(&file.read_at(0, 100).await.unwrap()[..], cut);
    file.write_at(0, Bytes::from_static(b"again")).await.unwrap();
    let emptied = c.open().await;
    assert_eq!(file.read_at(0, 100).await.unwrap(), "");
    emptied.write_at(1, Bytes::from_static(b"x")).await.unwrap();
    assert_eq!(file.read_at(0, 100).await.unwrap(), "\0x");
    file.close().await.unwrap();
    emptied.close().await.unwrap();
    assert_eq!(c.client.read_file("/f", 100).await.unwrap(), "\0x");
    c.client.close().await;
}

/// Many files with everything dirty and clean stay within the memory that all of them have.
#[tokio::test]
async fn memory_is_bounded_by_the_budget() {
    let policy = IoPolicy { cache_bytes: 2 << 20, ..IoPolicy::default() };
    let c = Cluster::start(policy).await;
    let mut files = Vec::new();
    for n in 0..64_usize {
        let path = format!("/f{n}");
        let options = OpenOptions { read: true, ..OpenOptions::replace(0o644) };
        let file = c.client.open(&path, options).await.unwrap();
        for part in 0..4 {
            let at = part * 100_000;
            file.write_at(at, pattern(100_000, n + part as usize).into()).await.unwrap();
            let memory = c.client.cached_bytes();
            assert!(memory <= policy.cache_bytes * 11 / 10, "{memory} bytes");
        }
        files.push(file);
    }
    for (n, file) in files.into_iter().enumerate() {
        for part in 0..4_usize {
            let read = file.read_at(part as u64 * 100_000, 100_000).await.unwrap();
            assert!(read == pattern(100_000, n + part), "file {n}");
        }
        let memory = c.client.cached_bytes();
        assert!(memory <= policy.cache_bytes * 11 / 10, "{memory} bytes");
        file.close().await.unwrap();
    }
    c.client.close().await;
}

/// What another client cuts off a file that is open for writing here reads as the end of it, not as
/// zeros, once what was written here is settled.
#[tokio::test]
async fn who_writes_sees_another_clients_cut() {
    let c = Cluster::start(IoPolicy::default()).await;
    let file = c.open().await;
    file.write_at(0, pattern(100, 6).into()).await.unwrap();
    file.commit().await.unwrap();
    let other = c.another().await;
    other.truncate("/f", 10).await.unwrap();
    assert_eq!(file.read_at(0, 200).await.unwrap(), pattern(100, 6)[..10]);
    file.write_at(20, Bytes::from_static(b"own")).await.unwrap();
    other.truncate("/f", 5).await.unwrap();
    let read = file.read_at(0, 200).await.unwrap();
    assert_eq!((read.len(), &read[20..]), (23, &b"own"[..]), "what is to come counts");
    file.close().await.unwrap();
    other.close().await;
    c.client.close().await;
}

/// A request that sets a size and whose outcome nobody knows leaves nothing that is known.
#[tokio::test]
async fn a_size_that_may_have_been_set_is_asked_for() {
    let c = Cluster::start(IoPolicy::default()).await;
    let file = c.open().await;
    file.write_at(0, pattern(100, 7).into()).await.unwrap();
    file.commit().await.unwrap();
    c.mds.fault(Fault::Status(OpNum::SETATTR, NfsStat::IO));
    file.truncate(10).await.unwrap_err();
    c.another().await.truncate("/f", 20).await.unwrap();
    assert_eq!(file.io().known_size(), None);
    assert_eq!(file.read_at(0, 50).await.unwrap(), pattern(100, 7)[..20]);
    file.close().await.unwrap();
    c.client.close().await;
}

/// An answer that was on its way while this client wrote is not taken for the last word: neither
/// that to an OPEN, nor that with a small file.
#[tokio::test]
async fn late_answers_do_not_count() {
    let c = Cluster::start(IoPolicy::default()).await;
    let file = c.open().await;
    file.write_at(0, Bytes::from_static(b"old")).await.unwrap();
    file.commit().await.unwrap();
    for late in [OpNum::READ, OpNum::OPEN] {
        c.mds.fault(Fault::Hold(late));
        let client = c.client.clone();
        let reading = tokio::spawn(async move {
            match late {
                OpNum::READ => client.read_file("/f", 100).await.unwrap(),
                _ => {
                    let again = client.open("/f", OpenOptions::read()).await.unwrap();
                    assert_eq!(again.size(), 12);
                    let read = again.read_at(0, 12).await.unwrap();
                    again.close().await.unwrap();
                    read
                }
            }
        });
        c.mds.until("it is held", |mds| mds.faults.is_empty()).await;
        let new = if late == OpNum::READ { "new" } else { "much further" };
        file.write_at(0, Bytes::from_static(new.as_bytes())).await.unwrap();
        file.commit().await.unwrap();
        c.mds.release();
        assert_eq!(reading.await.unwrap(), new, "{late:?}");
    }
    file.close().await.unwrap();
    c.client.close().await;
}

/// What an open file of ours had on its way when another open emptied the file does not survive
/// that, also if it had arrived before the answer to the OPEN did.
#[tokio::test]
async fn what_arrives_behind_an_emptying_open_goes() {
    let c = Cluster::start(IoPolicy::default()).await;
    let first = c.open().await;
    first.write_at(0, Bytes::from(vec![1; 3 << 20])).await.unwrap();
    c.mds.fault(Fault::Hold(OpNum::OPEN));
    let client = c.client.clone();
    let opening =
        tokio::spawn(async move { client.open("/f", OpenOptions::replace(0o644)).await.unwrap() });
    let emptied = |s: &State| s.count(OpNum::OPEN) == 2;
    c.mds.until("the OPEN that empties", emptied).await;
    first.commit().await.unwrap();
    c.mds.release();
    let second = opening.await.unwrap();
    second.write_at(0, Bytes::from_static(b"new")).await.unwrap();
    second.close().await.unwrap();
    let other = c.another().await;
    assert_eq!(other.read_file("/f", 8 << 20).await.unwrap(), "new");
    first.close().await.unwrap();
    c.client.close().await;
}

/// A truncation that nobody waits for any more has its turn before what is written after it: it
/// cuts nothing that was acknowledged later.
#[tokio::test]
async fn a_truncation_given_up_cuts_nothing_later() {
    let c = Cluster::start(IoPolicy::default()).await;
    let file = c.open().await;
    file.write_at(0, Bytes::from(vec![1; 100_000])).await.unwrap();
    for _ in 0..5 {
        c.mds.fault(Fault::Status(OpNum::SETATTR, NfsStat::DELAY));
    }
    tokio::select! {
        cut = file.truncate(0) => panic!("{cut:?}"),
        () = c.mds.until("a DELAY", |s| s.refused.contains(&OpNum::SETATTR)) => {}
    }
    file.write_at(0, Bytes::from_static(b"new")).await.unwrap();
    file.commit().await.unwrap();
    c.mds.until("the truncation", |s| s.executed.contains(&OpNum::SETATTR)).await;
    assert_eq!(file.read_at(0, 200_000).await.unwrap(), "new");
    assert_eq!(c.another().await.read_file("/f", 1 << 20).await.unwrap(), "new");
    file.close().await.unwrap();
    c.client.close().await;
}

/// Where other files' data cannot leave and take all the memory, who writes waits a few seconds,
/// and the servers are not asked again and again meanwhile.
#[tokio::test]
async fn full_servers_hold_up_no_other_file() {
    let policy = IoPolicy { cache_bytes: 4 << 20, ..IoPolicy::default() };
    let c = Cluster::start(policy).await;
    for ds in &c.ds {
        (0..100_000).for_each(|_| ds.fault(Fault::Status(OpNum::WRITE, NfsStat::NOSPC)));
    }
    let mut full = Vec::new();
    for n in 0..3 {
        let file = c.client.open(&format!("/full{n}"), OpenOptions::replace(0o644)).await.unwrap();
        let piece = Bytes::from(vec![1; 64 << 10]);
        for at in 0..64 {
            if file.write_at(at << 16, piece.clone()).await.is_err() {
                break;
            }
        }
        full.push(file);
    }
    let before = c.count_data(OpNum::WRITE) + refused(&c);
    let file = c.client.open("/f", OpenOptions::replace(0o644)).await.unwrap();
    let written = file.write_at(0, Bytes::from_static(b"small"));
    tokio::time::timeout(Duration::from_secs(20), written).await.expect("it goes on").unwrap();
    file.close().await.unwrap();
    let asked = c.count_data(OpNum::WRITE) + refused(&c) - before;
    assert!(asked < 1000, "{asked} WRITEs");
    assert_eq!(c.another().await.read_file("/f", 99).await.unwrap(), "small");
    for file in full {
        file.close().await.unwrap_err();
    }
}

/// WRITEs that data servers refused.
fn refused(c: &Cluster) -> usize {
    let of = |ds: &Fake| ds.lock().refused.iter().filter(|op| **op == OpNum::WRITE).count();
    c.ds.iter().map(of).sum()
}

/// Where data servers have nothing, the metadata server says whether that is a hole: no data server
/// has failed, and the layout stays.
#[tokio::test]
async fn a_hole_is_no_failure() {
    let c = Cluster::start(IoPolicy::direct()).await;
    let file = c.open().await;
    let data = pattern(3 << 20, 2);
    file.write_at(0, data.clone().into()).await.unwrap();
    file.commit().await.unwrap();
    for _ in 0..2 {
        let (returned, reads) = (c.mds.count(OpNum::LAYOUTRETURN), c.mds.count(OpNum::READ));
        c.ds[1].fault(Fault::Status(OpNum::READ, NfsStat::PNFS_IO_HOLE));
        assert!(file.read_at(0, data.len()).await.unwrap() == data[..]);
        assert_eq!(c.mds.count(OpNum::LAYOUTRETURN), returned);
        assert_eq!(c.mds.count(OpNum::READ), reads + 1);
    }
    file.close().await.unwrap();
    c.client.close().await;
}

/// A layout that is being recalled goes back though another one is wanted of the file just then;
/// meanwhile I/O goes through the metadata server.
#[tokio::test]
async fn a_recall_meets_who_wants_a_layout() {
    let c = Cluster::start(IoPolicy::direct()).await;
    let data = pattern(3 << 20, 2);
    c.client.write_file("/f", 0o644, data.clone().into()).await.unwrap();
    let reader = c.client.open("/f", OpenOptions::read()).await.unwrap();
    assert!(reader.read_at(0, data.len()).await.unwrap() == data[..]);
    let options = OpenOptions { read: true, write: true, ..OpenOptions::default() };
    let writer = c.client.open("/f", options).await.unwrap();
    (0..1000).for_each(|_| c.mds.fault(Fault::Status(OpNum::LAYOUTGET, NfsStat::RECALLCONFLICT)));
    let written = writer.write_at(0, Bytes::from(vec![1; 2 << 20]));
    tokio::time::timeout(Duration::from_secs(3), written).await.expect("it goes on").unwrap();
    c.mds.recall(reader.io().fh().clone());
    c.mds.until("the layout is back", |s| s.executed.contains(&OpNum::LAYOUTRETURN)).await;
    reader.close().await.unwrap();
    writer.close().await.unwrap();
    c.client.close().await;
}

/// An open that empties a file and that nobody waits for any more has emptied it here too.
#[tokio::test]
async fn an_emptying_open_given_up_is_noticed() {
    let c = Cluster::start(IoPolicy::default()).await;
    let first = c.open().await;
    first.write_at(0, Bytes::from_static(b"old")).await.unwrap();
    first.commit().await.unwrap();
    assert_eq!(first.read_at(0, 99).await.unwrap(), "old");
    c.mds.fault(Fault::Hold(OpNum::OPEN));
    tokio::select! {
        _ = c.client.open("/f", OpenOptions::replace(0o644)) => panic!("the answer is kept back"),
        () = c.mds.until("the OPEN", |s| {
            s.count(OpNum::OPEN) == 2
        }) => {}
    }
    c.mds.release();
    let noticed = async {
        while first.io().known_size() != Some(0) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(5), noticed).await.expect("it is noticed");
    assert_eq!(first.read_at(0, 99).await.unwrap(), "");
    first.close().await.unwrap();
    c.client.close().await;
}

/// What another client has cut off, what is written later does not bring back into the size that is
/// told of it here.
#[tokio::test]
async fn another_clients_cut_counts_in_what_is_told() {
    let c = Cluster::start(IoPolicy::default()).await;
    let file = c.open().await;
    file.write_at(0, pattern(3 << 20, 6).into()).await.unwrap();
    file.commit().await.unwrap();
    c.another().await.truncate("/f", 0).await.unwrap();
    file.write_at(0, Bytes::from_static(b"0123456789")).await.unwrap();
    assert_eq!(file.io().reaches(), 10);
    file.write_at(20, Bytes::from_static(b"more")).await.unwrap();
    assert_eq!(file.io().reaches(), 24);
    file.commit().await.unwrap();
    assert_eq!(c.another().await.read_file("/f", 99).await.unwrap().len(), 24);
    file.close().await.unwrap();
    c.client.close().await;
}

/// A file that fills the servers is cut though what is beyond cannot get there. If the cut fails,
/// who wrote that hears of it; a cut beyond the end gives nothing up.
#[tokio::test]
async fn a_file_that_fills_the_servers_is_cut() {
    let c = Cluster::start(IoPolicy::default()).await;
    for ds in &c.ds {
        (0..1000).for_each(|_| ds.fault(Fault::Status(OpNum::WRITE, NfsStat::NOSPC)));
    }
    let no_room = |e: weft_client::fs::FsError| assert_eq!(e.error.status(), Some(NfsStat::NOSPC));
    let file = c.open().await;
    let data = pattern(3 << 20, 6);
    let piece = |at: usize| Bytes::copy_from_slice(&data[at..at + (64 << 10)]);
    let fill = async || {
        for at in (0..data.len()).step_by(64 << 10) {
            if file.write_at(at as u64, piece(at)).await.is_err() {
                break;
            }
        }
        no_room(file.commit().await.unwrap_err());
    };
    fill().await;
    no_room(file.truncate(64 << 20).await.unwrap_err());
    assert_eq!(file.read_at(0, 100).await.unwrap(), data[..100], "it is here still");
    file.truncate(0).await.unwrap();
    file.commit().await.unwrap();
    assert!(c.another().await.read_file("/f", 99).await.unwrap().is_empty());
    fill().await;
    c.mds.fault(Fault::Status(OpNum::SETATTR, NfsStat::ACCESS));
    file.truncate(0).await.unwrap_err();
    no_room(file.commit().await.unwrap_err());
    file.commit().await.unwrap();
    file.close().await.unwrap();
    c.client.close().await;
}
