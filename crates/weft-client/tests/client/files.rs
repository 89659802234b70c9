//! Files over striped data servers that fail, forget, and are recalled.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use crate::fake::{Fake, Fault, Node, UNIT, pattern};
use bytes::Bytes;
use weft_client::{
    fs::{Client, ClientOptions, File, OpenOptions, Progress, Upload, is_copy_declined},
    io::IoPolicy,
};
use weft_nfs::{Attrs, NfsStat, OpNum};

struct Cluster {
    mds: Fake,
    ds: Vec<Fake>,
    client: Client,
}

async fn cluster(count: usize) -> Cluster {
    cluster_for(count, ClientOptions::default()).await
}

async fn cluster_for(count: usize, options: ClientOptions) -> Cluster {
    let mut ds = Vec::new();
    for _ in 0..count {
        ds.push(Fake::data_server().await);
    }
    let mds = Fake::start(ds.clone()).await;
    let options = ClientOptions {
        patience: Duration::from_secs(10),
        data_server_patience: Duration::from_millis(500),
        // What is asked of servers is looked at, write by write.
        policy: IoPolicy::direct(),
        ..options
    };
    let client = Client::connect(mds.addr, options).await.unwrap();
    Cluster { mds, ds, client }
}

impl Cluster {
    /// What is durable at the data servers, joined as the layout says.
    fn durable(&self, len: usize) -> Vec<u8> {
        let mut out = vec![0; len];
        for (unit, part) in out.chunks_mut(UNIT as usize).enumerate() {
            let ds = self.ds[unit % self.ds.len()].lock();
            let object = ds.objects.values().next().expect("an object on every server");
            let at = unit * UNIT as usize;
            part.copy_from_slice(&object.durable[at..at + part.len()]);
        }
        out
    }

    async fn write(&self, path: &str, data: &[u8]) {
        let file = self.client.open(path, OpenOptions::replace(0o644)).await.unwrap();
        file.write_at(0, Bytes::copy_from_slice(data)).await.unwrap();
        file.close().await.unwrap();
    }

    async fn read(&self, path: &str, len: usize) -> Bytes {
        let file = self.client.open(path, OpenOptions::read()).await.unwrap();
        let data = file.read_at(0, len).await.unwrap();
        file.close().await.unwrap();
        data
    }
}

fn quiet() -> Progress {
    Arc::new(|_| {})
}

/// A file goes in and out over four data servers, every byte durable when put returns; none of
/// it goes through the metadata server, and the progress told ends at the size.
#[tokio::test]
async fn put_and_get_over_all_data_servers() {
    let c = cluster(4).await;
    let dir = tempfile::tempdir().unwrap();
    let (local, back) = (dir.path().join("in"), dir.path().join("out"));
    let data = pattern((11 << 20) + 12_345, 3);
    std::fs::write(&local, &data).unwrap();
    let most = Arc::new(AtomicU64::new(0));
    let seen = most.clone();
    let progress: Progress = Arc::new(move |n| {
        seen.fetch_max(n, Ordering::Relaxed);
    });
    let put = c.client.put_file(&local, "/f", progress.clone()).await.unwrap();
    assert_eq!((put, most.swap(0, Ordering::Relaxed)), (data.len() as u64, data.len() as u64));
    assert!(c.durable(data.len()) == data);
    c.client.get_file("/f", &back, progress).await.unwrap();
    assert_eq!(most.load(Ordering::Relaxed), data.len() as u64);
    assert!(std::fs::read(&back).unwrap() == data);
    // A look at whether it is small.
    assert_eq!((c.mds.count(OpNum::WRITE), c.mds.count(OpNum::READ)), (0, 1));
    assert_eq!(c.mds.count(OpNum::LAYOUTRETURN), 2);
    assert_eq!(c.mds.count(OpNum::LAYOUTCOMMIT), 1);
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 2, "no temporary file stays");
    c.client.close().await;
}

/// A server that is restarted while a put makes its file may have made it or not: the put finds out
/// and goes on, also if the same happens again, and leaves one file.
#[tokio::test]
async fn a_put_survives_a_restart_during_its_open() {
    for faults in [
        &[Fault::DropAfterAndForget(OpNum::OPEN)][..],
        &[Fault::DropAfterAndForget(OpNum::OPEN); 3],
        &[Fault::DropAfterAndForget(OpNum::OPEN), Fault::DropAfterAndForget(OpNum::REMOVE)],
    ] {
        let c = cluster(2).await;
        let data = pattern(3 << 20, 5);
        faults.iter().for_each(|fault| c.mds.fault(*fault));
        let put = c.client.put(Upload::bytes(data.clone().into(), 0o644), "/f").await;
        assert_eq!(put.unwrap_or_else(|e| panic!("{faults:?}: {e}")), 3 << 20);
        assert!(c.read("/f", 4 << 20).await == data, "{faults:?}");
        let mut names = Vec::new();
        let mut dir = c.client.read_dir("/").await.unwrap();
        while let Some(entry) = dir.next().await.unwrap() {
            names.push(entry.name.0);
        }
        assert_eq!(names, ["f"], "{faults:?}");
        c.client.close().await;
    }
}

/// A file that becomes shorter while it is copied is an error, however it is copied, and soon:
/// nobody gets zeros for what was there.
#[tokio::test]
async fn a_source_that_shrinks_is_an_error() {
    const SIZE: usize = 8 << 20;
    let c = cluster(2).await;
    let dir = tempfile::tempdir().unwrap();
    let (local, back) = (dir.path().join("in"), dir.path().join("out"));
    let mds = c.mds.clone();
    let cut = move || {
        for node in mds.lock().nodes.values_mut() {
            if let Node::File { size, .. } = node
                && *size == SIZE as u64
            {
                *size = 1 << 20;
            }
        }
    };
    let cutting = || -> Progress {
        let cut = cut.clone();
        Arc::new(move |_| cut())
    };
    let shorter = |said: String| assert!(said.contains(": it became shorter"), "{said}");

    c.write("/f", &pattern(SIZE, 3)).await;
    shorter(c.client.get_file("/f", &back, cutting()).await.unwrap_err().to_string());
    assert!(!back.exists());

    c.write("/f", &pattern(SIZE, 3)).await;
    let got = c.client.get_stream("/f", std::io::sink(), cutting()).await;
    shorter(got.unwrap_err().to_string());

    c.write("/f", &pattern(SIZE, 3)).await;
    let file = Arc::new(c.client.open("/f", OpenOptions::read()).await.unwrap());
    let (sender, upload) = Upload::pieces(file.size(), 0o644);
    cut();
    let (given, put) = tokio::join!(c.client.give(&file, sender), c.client.put(upload, "/copy"));
    shorter(given.unwrap_err().to_string());
    shorter(put.unwrap_err().to_string());
    assert!(c.client.stat("/copy").await.is_err());

    c.write("/f", &pattern(SIZE, 3)).await;
    let source = Arc::new(c.client.open("/f", OpenOptions::read()).await.unwrap());
    // What no blocks are shared of is cut between two COPYs.
    c.mds.fault(Fault::Status(OpNum::CLONE, NfsStat::XDEV));
    let upload = Upload::copied_there(source, 0o644).with_progress(cutting());
    shorter(c.client.put(upload, "/copy").await.unwrap_err().to_string());
    assert!(c.client.stat("/copy").await.is_err());

    for (size, data) in [(SIZE, true), (SIZE, false)] {
        std::fs::write(&local, if data { pattern(size, 3) } else { vec![] }).unwrap();
        let file = std::fs::File::options().write(true).open(&local).unwrap();
        file.set_len(size as u64).unwrap();
        if !data {
            std::os::unix::fs::FileExt::write_all_at(&file, &[1; 4096], SIZE as u64 - 4096)
                .unwrap();
        }
        let upload = Upload::file(&local).unwrap();
        file.set_len(1000).unwrap();
        let put = tokio::time::timeout(Duration::from_secs(5), c.client.put(upload, "/copy"));
        let put = put.await.expect("soon");
        shorter(put.unwrap_err().to_string());
        assert!(c.client.stat("/copy").await.is_err());
    }

    // A small one is read when it is opened.
    std::fs::write(&local, pattern(50_000, 3)).unwrap();
    let upload = Upload::file(&local).unwrap();
    std::fs::write(&local, "").unwrap();
    c.client.put(upload, "/copy").await.unwrap();
    assert!(c.client.read_file("/copy", SIZE).await.unwrap() == pattern(50_000, 3));
}

/// A file is copied by the server, piece by piece where no blocks can be shared, and a piece once
/// more of which nobody knows whether it is; no byte of it comes to the client.
#[tokio::test]
async fn a_server_copies_a_file() {
    let data = pattern((3 << 20) + 77, 3);
    let status = Fault::Status;
    let lost = Fault::DropAfterAndForget;
    for (faults, clones, copies) in [
        (vec![], 2, 0),
        (vec![status(OpNum::CLONE, NfsStat::XDEV)], 1, 4),
        // It is not asked again.
        (vec![status(OpNum::CLONE, NfsStat::NOTSUPP)], 0, 8),
        (vec![lost(OpNum::CLONE)], 3, 0),
        (vec![status(OpNum::CLONE, NfsStat::XDEV), lost(OpNum::COPY)], 1, 5),
    ] {
        let c = cluster(2).await;
        c.write("/f", &data).await;
        let source = Arc::new(c.client.open("/f", OpenOptions::read()).await.unwrap());
        let io = || [OpNum::READ, OpNum::WRITE].map(|op| c.mds.count(op) + c.ds[0].count(op));
        let before = io();
        c.mds.lock().faults.extend(&faults);
        for copy in ["/copy", "/again"] {
            let size = c.client.put(Upload::copied_there(source.clone(), 0o644), copy).await;
            assert_eq!(size.unwrap(), data.len() as u64, "{faults:?}");
        }
        let done = [OpNum::CLONE, OpNum::COPY].map(|op| c.mds.count(op));
        assert_eq!(done, [clones, copies], "{faults:?}");
        assert_eq!(io(), before, "{faults:?}");
        for copy in ["/copy", "/again"] {
            assert!(c.read(copy, data.len() + 1).await == data, "{faults:?} {copy}");
        }
        c.client.close().await;
    }
}

/// A server that copies nothing itself says so once: nothing is left of what was tried, and who
/// asks before is told. One that does not copy this file may copy others.
#[tokio::test]
async fn a_server_may_decline_to_copy() {
    let c = cluster(2).await;
    c.write("/f", &pattern(3 << 20, 3)).await;
    let source = Arc::new(c.client.open("/f", OpenOptions::read()).await.unwrap());
    assert!(c.client.may_copy_from(&c.client));
    for (status, of_others) in
        [(NfsStat::OFFLOAD_DENIED, true), (NfsStat::XDEV, true), (NfsStat::NOTSUPP, false)]
    {
        c.mds.fault(Fault::Status(OpNum::CLONE, NfsStat::XDEV));
        c.mds.fault(Fault::Status(OpNum::COPY, status));
        let upload = Upload::copied_there(source.clone(), 0o644);
        let e = c.client.put(upload, "/copy").await.unwrap_err();
        assert!(is_copy_declined(&e.error), "{e}");
        assert_eq!(c.client.may_copy_from(&c.client), of_others, "{status}");
        assert_eq!(c.client.stat("/copy").await.unwrap_err().error.status(), Some(NfsStat::NOENT));
        assert!(matches!(c.mds.lock().nodes.get(&1), Some(Node::Dir(names)) if names.len() == 1));
    }
    // What is no refusal to copy is a failure.
    c.mds.fault(Fault::Status(OpNum::CLONE, NfsStat::NOSPC));
    c.mds.fault(Fault::Status(OpNum::COPY, NfsStat::NOSPC));
    let e = c.client.put(Upload::copied_there(source, 0o644), "/copy").await.unwrap_err();
    assert_eq!((e.error.status(), is_copy_declined(&e.error)), (Some(NfsStat::NOSPC), false));
    assert!(matches!(c.mds.lock().nodes.get(&1), Some(Node::Dir(names)) if names.len() == 1));
}

/// Who may not give a file away keeps it, and then without the set-id bits, which were for its
/// owner.
#[tokio::test]
async fn set_id_bits_are_for_the_owner() {
    let c = cluster(1).await;
    let owner = Some(weft_nfs::attr::numeric_owner(1234));
    let finally = Attrs { mode: Some(0o6755), owner, ..Attrs::default() };
    for (refused, mode) in [(false, 0o6755), (true, 0o755)] {
        // In one request with all else, and then alone.
        for _ in 0..2 * usize::from(refused) {
            c.mds.fault(Fault::Status(OpNum::SETATTR, NfsStat::PERM));
        }
        c.mds.lock().set.clear();
        let told = Arc::new(AtomicBool::new(false));
        let upload = Upload::bytes(pattern(100, 1).into(), 0o644).finally(finally.clone());
        c.client.put(upload.telling_of_owner(told.clone()), "/f").await.unwrap();
        assert_eq!(told.load(Ordering::Relaxed), refused);
        let set = c.mds.lock().set.clone();
        let last = set.last().expect("it was set");
        assert_eq!((last.mode, &last.owner), (Some(mode), &None), "{refused}");
    }
}

/// A small file goes in, after a look at what is there, and comes out, in one COMPOUND each, and
/// without a layout; one that is a byte too big goes the usual way. What cannot be done at once is
/// done the usual way too, and leaves nothing open.
#[tokio::test]
async fn small_files_travel_whole() {
    let c = cluster(2).await;
    let dir = tempfile::tempdir().unwrap();
    let (local, back) = (dir.path().join("in"), dir.path().join("out"));
    let requests = || c.mds.count(OpNum::SEQUENCE);
    for (size, whole) in [(0, true), (1, true), (65_536, true), (65_537, false)] {
        let data = pattern(size, 5);
        std::fs::write(&local, &data).unwrap();
        let before = requests();
        c.client.put_file(&local, "/f", quiet()).await.unwrap();
        // A look at what is there, and all of it.
        assert_eq!(requests() - before == 2, whole, "put {size}");
        let before = requests();
        assert_eq!(c.client.get_file("/f", &back, quiet()).await.unwrap(), size as u64);
        assert_eq!(requests() - before == 1, whole, "get {size}");
        assert!(std::fs::read(&back).unwrap() == data);
    }
    std::fs::write(&local, b"small").unwrap();
    for fault in [
        Fault::Status(OpNum::OPEN, NfsStat::SERVERFAULT),
        Fault::Status(OpNum::WRITE, NfsStat::NOSPC),
        Fault::Status(OpNum::CLOSE, NfsStat::SERVERFAULT),
        Fault::DropAfterAndForget(OpNum::WRITE),
    ] {
        c.mds.fault(fault);
        c.client.put_file(&local, "/f", quiet()).await.unwrap();
        assert_eq!(c.mds.opens(), 0, "{fault:?}");
        assert_eq!(c.read("/f", 9).await, "small");
    }
    c.mds.fault(Fault::Status(OpNum::READ, NfsStat::LOCKED));
    assert_eq!(c.client.get_file("/f", &back, quiet()).await.unwrap(), 5);
    let rest = std::fs::read_dir(dir.path()).unwrap().count();
    assert_eq!(rest, 2, "no temporary file stays");
    c.client.close().await;
}

/// A data server that forgets undurable data before COMMIT gets them again; what is acknowledged
/// is durable.
#[tokio::test]
async fn a_changed_verifier_means_writing_again() {
    let c = cluster(2).await;
    c.ds[1].fault(Fault::LoseDataBefore(OpNum::COMMIT));
    let data = pattern(5 << 20, 1);
    c.write("/f", &data).await;
    assert!(c.durable(data.len()) == data);
    assert_eq!(c.ds[0].count(OpNum::WRITE), 3, "only what was lost is written again");
    assert_eq!(c.ds[1].count(OpNum::WRITE), 4);
}

/// A data server that fails while lost data are written again, and one that loses them once more,
/// cost nothing, whether a commit finds the loss or the recall of the layout.
#[tokio::test]
async fn failures_while_lost_data_are_written_again() {
    for recalled in [false, true] {
        let c = cluster(2).await;
        let data = pattern(5 << 20, 6);
        let file = c.client.open("/f", OpenOptions::replace(0o644)).await.unwrap();
        file.write_at(0, Bytes::copy_from_slice(&data)).await.unwrap();
        for fault in [Fault::LoseDataBefore(OpNum::COMMIT), Fault::LoseDataBefore(OpNum::COMMIT)] {
            c.ds[0].fault(fault);
        }
        let refused = Fault::Status(OpNum::WRITE, NfsStat::IO);
        for fault in [Fault::LoseDataBefore(OpNum::COMMIT), refused] {
            c.ds[1].fault(fault);
        }
        if recalled {
            c.mds.recall(file.io().fh().clone());
            let returned = |s: &crate::fake::State| s.executed.contains(&OpNum::LAYOUTRETURN);
            c.mds.until("the layout is back", returned).await;
        }
        file.close().await.unwrap();
        assert!(c.durable(data.len()) == data, "recalled: {recalled}");
        assert!(c.ds.iter().all(|ds| ds.lock().faults.is_empty()), "all of it happened");
        assert!(c.mds.count(OpNum::WRITE) > 0);
        assert_eq!(c.mds.count(OpNum::LAYOUTRETURN), c.mds.count(OpNum::LAYOUTGET));
    }
}

/// What was written after a data server's restart and before COMMIT stays on top when the data
/// of before the restart are written again, whichever way the newer data went.
#[tokio::test]
async fn newer_data_stay_on_top_of_data_written_again() {
    let c = cluster(2).await;
    let mut data = pattern(2 << 20, 1);
    let file = c.client.open("/f", OpenOptions::replace(0o644)).await.unwrap();
    file.write_at(0, Bytes::from(data.clone())).await.unwrap();
    c.ds[0].fault(Fault::LoseDataBefore(OpNum::WRITE));
    let newer = pattern(300 << 10, 9);
    data[100 << 10..400 << 10].copy_from_slice(&newer);
    file.write_at(100 << 10, Bytes::from(newer)).await.unwrap();
    // Through the metadata server, durable at once: nothing of it waits for a COMMIT.
    c.ds[1].fault(Fault::LoseDataBefore(OpNum::WRITE));
    c.ds[1].fault(Fault::Status(OpNum::WRITE, NfsStat::IO));
    let durable = pattern(5000, 4);
    data[(1 << 20) + 7..(1 << 20) + 5007].copy_from_slice(&durable);
    file.write_at((1 << 20) + 9000, Bytes::from(data[(1 << 20) + 9000..(1 << 20) + 9500].to_vec()))
        .await
        .unwrap();
    file.write_at((1 << 20) + 7, Bytes::from(durable)).await.unwrap();
    file.close().await.unwrap();
    assert!(c.durable(data.len()) == data);
}

/// A second open of a file uses the layout of the first, for writing a better one by its
/// stateid; what both wrote is settled together, and the last one to close returns it.
#[tokio::test]
async fn opens_of_one_file_share_its_layout() {
    let c = cluster(2).await;
    let data = pattern(4 << 20, 3);
    c.write("/f", &data[..2 << 20]).await;
    assert_eq!((c.mds.count(OpNum::LAYOUTGET), c.mds.count(OpNum::LAYOUTRETURN)), (1, 1));
    let both = OpenOptions { write: true, read: true, ..OpenOptions::default() };
    let reader = c.client.open("/f", OpenOptions::read()).await.unwrap();
    assert_eq!(reader.read_at(0, 100).await.unwrap(), &data[..100]);
    let writer = c.client.open("/f", both).await.unwrap();
    writer.write_at(2 << 20, Bytes::copy_from_slice(&data[2 << 20..3 << 20])).await.unwrap();
    let other = c.client.open("/f", both).await.unwrap();
    other.write_at(3 << 20, Bytes::copy_from_slice(&data[3 << 20..])).await.unwrap();
    assert_eq!(c.mds.count(OpNum::LAYOUTGET), 3, "the first write, one to read, one to write");
    writer.close().await.unwrap();
    assert!(c.durable(data.len()) == data);
    assert_eq!(reader.read_at(3 << 20, 100).await.unwrap(), &data[3 << 20..][..100]);
    other.close().await.unwrap();
    assert_eq!(c.mds.count(OpNum::LAYOUTRETURN), 1, "the reader needs it still");
    reader.close().await.unwrap();
    assert_eq!((c.mds.count(OpNum::LAYOUTGET), c.mds.count(OpNum::LAYOUTRETURN)), (3, 2));
    assert_eq!(c.mds.count(OpNum::WRITE), 0);
    c.write("/f", &data).await;
    assert_eq!(c.mds.count(OpNum::LAYOUTGET), 4);
}

/// The recall of a layout shared by two opens returns it once, with everything settled that was
/// written under either.
#[tokio::test]
async fn a_shared_layout_is_recalled_once() {
    let c = cluster(2).await;
    let data = pattern(2 << 20, 3);
    let one = c.client.open("/f", OpenOptions::replace(0o644)).await.unwrap();
    let two = c.client.open("/f", OpenOptions { write: true, ..OpenOptions::default() });
    let two = two.await.unwrap();
    one.write_at(0, Bytes::copy_from_slice(&data[..1 << 20])).await.unwrap();
    two.write_at(1 << 20, Bytes::copy_from_slice(&data[1 << 20..])).await.unwrap();
    c.ds[0].fault(Fault::LoseDataBefore(OpNum::COMMIT));
    c.mds.recall(one.io().fh().clone());
    c.mds.until("the layout is back", |s| s.executed.contains(&OpNum::LAYOUTRETURN)).await;
    one.close().await.unwrap();
    two.close().await.unwrap();
    assert!(c.durable(data.len()) == data);
    assert_eq!(c.mds.count(OpNum::LAYOUTRETURN), c.mds.count(OpNum::LAYOUTGET));
}

/// A LAYOUTCOMMIT that fails while a recalled layout goes back fails the next commit of every
/// open for writing, once; unless it was only that the layout is gone and the size is known.
#[tokio::test]
async fn a_failed_layoutcommit_reaches_those_who_wrote() {
    for (status, told) in [(NfsStat::IO, true), (NfsStat::BADLAYOUT, false)] {
        let c = cluster(2).await;
        let write = OpenOptions { write: true, ..OpenOptions::default() };
        let one = c.client.open("/f", OpenOptions::replace(0o644)).await.unwrap();
        let (two, reader) = (c.client.open("/f", write), c.client.open("/f", OpenOptions::read()));
        let (two, reader) = (two.await.unwrap(), reader.await.unwrap());
        one.write_at(0, Bytes::from(pattern(1 << 20, 3))).await.unwrap();
        c.mds.fault(Fault::Status(OpNum::LAYOUTCOMMIT, status));
        if let Some(Node::File { size, .. }) = c.mds.lock().nodes.values_mut().last() {
            *size = 1 << 20;
        }
        c.mds.recall(one.io().fh().clone());
        c.mds.until("the layout is back", |s| s.executed.contains(&OpNum::LAYOUTRETURN)).await;
        let late = c.client.open("/f", write).await.unwrap();
        assert_eq!(one.commit().await.is_err(), told, "{status}");
        one.commit().await.unwrap();
        one.close().await.unwrap();
        assert_eq!(two.close().await.is_err(), told, "{status}");
        reader.close().await.unwrap();
        late.close().await.unwrap();
    }
}

/// Connections that break in the middle of a transfer, and a data server that restarts in it,
/// cost nothing but time.
#[tokio::test]
async fn broken_connections_in_mid_transfer() {
    let c = cluster(3).await;
    for fault in [Fault::DropAfter(OpNum::WRITE), Fault::DropBefore(OpNum::WRITE)] {
        c.ds[0].fault(fault);
    }
    c.ds[1].fault(Fault::LoseDataBefore(OpNum::WRITE));
    c.ds[2].fault(Fault::DropAfterAndForget(OpNum::WRITE));
    let data = pattern(13 << 20, 8);
    c.write("/f", &data).await;
    assert!(c.durable(data.len()) == data);
    c.ds[0].fault(Fault::DropAfter(OpNum::READ));
    assert!(c.read("/f", data.len()).await == data);
    assert_eq!(c.mds.count(OpNum::WRITE), 0);
}

/// A data server that refuses, or is dead, sends its part through the metadata server; the
/// layout goes back, and the file is whole. That it could not be reached is told once.
#[tokio::test]
async fn a_failed_data_server_is_gone_around() {
    let data = pattern(6 << 20, 2);
    for dead in [false, true] {
        let c = cluster(3).await;
        if dead {
            c.ds[1].kill();
        } else {
            c.ds[1].fault(Fault::Status(OpNum::WRITE, NfsStat::PNFS_NO_LAYOUT));
        }
        c.write("/f", &data).await;
        assert!(c.durable(data.len()) == data, "dead: {dead}");
        assert!(c.mds.count(OpNum::WRITE) > 0);
        assert_eq!(c.mds.count(OpNum::LAYOUTRETURN), 1);
        assert_eq!(c.mds.count(OpNum::LAYOUTERROR), usize::from(dead));
        let last = |op| c.mds.lock().executed.iter().rposition(|o| *o == op);
        assert!(last(OpNum::WRITE) < last(OpNum::LAYOUTRETURN), "written while it is held");
        c.ds[2].fault(Fault::Status(OpNum::READ, NfsStat::IO));
        assert!(c.read("/f", data.len()).await == data, "dead: {dead}");
    }
}

/// A data server without space is not gone around: the user hears of it, and close says it.
#[tokio::test]
async fn no_space_is_an_error() {
    let c = cluster(2).await;
    c.ds[0].fault(Fault::Status(OpNum::WRITE, NfsStat::NOSPC));
    let file = c.client.open("/f", OpenOptions::replace(0o644)).await.unwrap();
    let full = file.write_at(0, Bytes::from(pattern(1 << 20, 1))).await.unwrap_err();
    assert_eq!(full.to_string(), "/f: no space left on the servers");
    assert_eq!(c.mds.count(OpNum::WRITE), 0);
}

/// A COMMIT that fails leaves its data dirty: the next one makes them durable.
#[tokio::test]
async fn a_failed_commit_forgets_nothing() {
    let c = cluster(2).await;
    let data = pattern(2 << 20, 7);
    let file = c.client.open("/f", OpenOptions::replace(0o644)).await.unwrap();
    file.write_at(0, Bytes::from(data.clone())).await.unwrap();
    c.ds[0].fault(Fault::Status(OpNum::COMMIT, NfsStat::NOSPC));
    file.commit().await.unwrap_err();
    file.commit().await.unwrap();
    assert!(c.durable(data.len()) == data);
    file.close().await.unwrap();
}

/// Where a commit can be waiting for an answer: a server kept back its reply. At the metadata
/// server if the last is true, else at the first data server.
const WAITS: [(&[Fault], bool); 3] = [
    (&[Fault::Hold(OpNum::COMMIT)], false),
    (&[Fault::LoseDataBefore(OpNum::COMMIT), Fault::Hold(OpNum::WRITE)], false),
    (&[Fault::Hold(OpNum::LAYOUTCOMMIT)], true),
];

/// A commit that finds nothing dirty, because another one is settling it, does not say so before
/// the other has heard: not at COMMIT, not while lost data are written again, not at LAYOUTCOMMIT.
#[tokio::test]
async fn a_second_commit_waits_for_the_first() {
    for (faults, at_mds) in WAITS {
        let c = cluster(2).await;
        let data = pattern(2 << 20, 4);
        let file = c.client.open("/f", OpenOptions::replace(0o644)).await.unwrap();
        file.write_at(0, Bytes::from(data.clone())).await.unwrap();
        let server = if at_mds { &c.mds } else { &c.ds[0] };
        faults.iter().for_each(|f| server.fault(*f));
        let mut first = Box::pin(file.commit());
        tokio::select! {
            _ = &mut first => panic!("{faults:?}: the first ended without its answer"),
            () = server.until("a reply kept back", |s| !s.held.is_empty()) => {}
        }
        let mut second = Box::pin(file.commit());
        // Time for all a second commit could ask for, on the same connection.
        let others = async {
            for _ in 0..5 {
                c.client.stat("/").await.unwrap();
            }
        };
        tokio::select! {
            biased;
            _ = &mut second => panic!("{faults:?}: the second did not wait"),
            () = others => {}
        }
        server.release();
        let (first, second) = tokio::join!(first, second);
        first.unwrap();
        second.unwrap();
        assert!(c.durable(data.len()) == data, "{faults:?}");
        file.close().await.unwrap();
    }
}

/// A commit dropped while it waits has confirmed nothing: close asks again for all it had asked.
#[tokio::test]
async fn a_dropped_commit_forgets_nothing() {
    for (faults, at_mds) in WAITS {
        let c = cluster(2).await;
        let data = pattern(2 << 20, 6);
        let file = c.client.open("/f", OpenOptions::replace(0o644)).await.unwrap();
        file.write_at(0, Bytes::from(data.clone())).await.unwrap();
        let server = if at_mds { &c.mds } else { &c.ds[0] };
        faults.iter().for_each(|f| server.fault(*f));
        tokio::select! {
            _ = file.commit() => panic!("{faults:?}: it ended without its answer"),
            () = server.until("a reply kept back", |s| !s.held.is_empty()) => {}
        }
        server.release();
        let asked = if at_mds { OpNum::LAYOUTCOMMIT } else { OpNum::COMMIT };
        let before = server.count(asked);
        file.close().await.unwrap();
        assert!(server.count(asked) > before, "{faults:?}");
        assert!(c.durable(data.len()) == data, "{faults:?}");
        assert_eq!(c.mds.count(OpNum::LAYOUTCOMMIT), 1 + usize::from(at_mds));
    }
}

/// With the last open of a file its layout goes too: LAYOUTCOMMIT, LAYOUTRETURN and CLOSE are one
/// request. Whatever of that fails is done by itself; the file is whole, and closed.
#[tokio::test]
async fn a_file_ends_in_one_request() {
    use Fault::{DropAfter, DropAfterAndForget, DropBefore, Status};
    let faults = [
        (None, 1),
        (Some(DropBefore(OpNum::CLOSE)), 1),
        (Some(DropAfter(OpNum::CLOSE)), 1),
        (Some(DropAfterAndForget(OpNum::CLOSE)), 5),
        (Some(Status(OpNum::PUTFH, NfsStat::SERVERFAULT)), 4),
        (Some(Status(OpNum::LAYOUTCOMMIT, NfsStat::BADLAYOUT)), 4),
        (Some(Status(OpNum::LAYOUTRETURN, NfsStat::BAD_STATEID)), 3),
        (Some(Status(OpNum::CLOSE, NfsStat::DELAY)), 4),
        (Some(Status(OpNum::CLOSE, NfsStat::IO)), 2),
    ];
    for (fault, most) in faults {
        let c = cluster(2).await;
        let (file, data) = written(&c).await;
        let before = c.mds.count(OpNum::SEQUENCE);
        fault.into_iter().for_each(|fault| c.mds.fault(fault));
        file.close().await.unwrap();
        assert!(c.mds.lock().faults.is_empty(), "{fault:?} was not met");
        let requests = c.mds.count(OpNum::SEQUENCE) - before;
        assert!((1..=most).contains(&requests), "{requests} requests, {fault:?}");
        ended_well(c, &data, &format!("{fault:?}")).await;
    }
}

/// A file of two and a bit stripe units, written and not committed.
async fn written(c: &Cluster) -> (File, Vec<u8>) {
    let data = pattern((2 << 20) + 5, 9);
    let file = c.client.open("/f", OpenOptions::replace(0o644)).await.unwrap();
    file.write_at(0, Bytes::copy_from_slice(&data)).await.unwrap();
    (file, data)
}

async fn ended_well(c: Cluster, data: &[u8], how: &str) {
    assert_eq!((c.mds.opens(), c.mds.layouts()), (0, 0), "{how}");
    assert!(c.durable(data.len()) == data, "{how}");
    assert_eq!(c.client.stat("/f").await.unwrap().size, Some(data.len() as u64), "{how}");
    c.client.close().await;
}

/// What a data server loses before the file is closed is written again, as is what it cannot
/// commit; a refusal that writing again cannot cure is told by the close, and ends the open.
#[tokio::test]
async fn a_close_settles_or_says_why_not() {
    for fault in [
        Fault::LoseDataBefore(OpNum::COMMIT),
        Fault::Status(OpNum::COMMIT, NfsStat::IO),
        Fault::DropAfterAndForget(OpNum::COMMIT),
    ] {
        let c = cluster(2).await;
        let (file, data) = written(&c).await;
        c.ds[1].fault(fault);
        file.close().await.unwrap();
        assert!(c.ds[1].lock().faults.is_empty(), "{fault:?} was not met");
        ended_well(c, &data, &format!("{fault:?}")).await;
    }
    let c = cluster(2).await;
    let (file, _) = written(&c).await;
    c.ds[1].fault(Fault::Status(OpNum::COMMIT, NfsStat::NOSPC));
    let told = file.close().await.map_err(|e| e.error.status());
    assert_eq!(told, Err(Some(NfsStat::NOSPC)));
    assert_eq!((c.mds.opens(), c.mds.layouts()), (0, 0));
    c.client.close().await;
}

/// An open that comes while the file is being ended, and a close that nobody waits for any more,
/// lose nothing and leave nothing behind.
#[tokio::test]
async fn opens_that_come_while_a_file_ends() {
    for is_dropped in [false, true] {
        let c = cluster(2).await;
        let (file, mut data) = written(&c).await;
        c.mds.fault(Fault::Hold(OpNum::CLOSE));
        let closing = tokio::spawn(async move { file.close().await });
        while c.mds.lock().held.is_empty() {
            tokio::task::yield_now().await;
        }
        let again = c.client.open("/f", OpenOptions { write: true, ..OpenOptions::read() });
        let again = again.await.unwrap();
        data[7..11].copy_from_slice(b"more");
        let writing = tokio::spawn(async move {
            again.write_at(7, Bytes::from_static(b"more")).await.unwrap();
            again.close().await.unwrap();
        });
        if is_dropped {
            closing.abort();
        }
        c.mds.release();
        assert_eq!(closing.await.is_err(), is_dropped);
        writing.await.unwrap();
        ended_well(c, &data, if is_dropped { "dropped" } else { "waited for" }).await;
    }
}

/// A whole file that fits one request is durable with that, also if its data server fails, or the
/// connection; more pieces share a COMMIT.
#[tokio::test]
async fn one_piece_is_durable_at_once() {
    for (len, commits, fault) in [
        (200_000, 0, None),
        (200_000, 0, Some(Fault::Status(OpNum::WRITE, NfsStat::IO))),
        (200_000, 0, Some(Fault::DropBefore(OpNum::WRITE))),
        (UNIT as usize + 1, 2, None),
    ] {
        let c = cluster(2).await;
        let data = pattern(len, 4);
        fault.into_iter().for_each(|fault| c.ds[0].fault(fault));
        let whole = Bytes::copy_from_slice(&data);
        c.client.write_file("/f", 0o644, whole).await.unwrap();
        assert!(c.ds[0].lock().faults.is_empty(), "{fault:?} was not met");
        let commits_seen: usize = c.ds.iter().map(|ds| ds.count(OpNum::COMMIT)).sum();
        assert_eq!(commits_seen, commits, "{fault:?}");
        c.ds.iter().for_each(Fake::restart);
        assert!(c.read("/f", len).await == data, "{len}, {fault:?}");
        c.client.close().await;
    }
}

/// Of two opens of a file the last to go ends it; the one that goes first has nothing left to tell.
#[tokio::test]
async fn the_last_open_ends_the_layout() {
    let c = cluster(2).await;
    let first = c.client.open("/f", OpenOptions::replace(0o644)).await.unwrap();
    let last = c.client.open("/f", OpenOptions::read()).await.unwrap();
    let data = pattern((1 << 20) + 5, 9);
    first.write_at(0, Bytes::copy_from_slice(&data)).await.unwrap();
    first.close().await.unwrap();
    assert_eq!((c.mds.count(OpNum::LAYOUTCOMMIT), c.mds.layouts()), (1, 1));
    last.close().await.unwrap();
    assert_eq!((c.mds.count(OpNum::LAYOUTCOMMIT), c.mds.layouts(), c.mds.opens()), (1, 0, 0));
    assert!(c.read("/f", data.len()).await == data);
    c.client.close().await;
}

/// A recalled layout is settled (COMMIT, LAYOUTCOMMIT) and returned while the file stays open;
/// writing goes on with a new one. A recall of nothing we hold is answered so.
#[tokio::test]
async fn a_recalled_layout_goes_back_settled() {
    let c = cluster(2).await;
    let data = pattern(4 << 20, 5);
    let file = c.client.open("/f", OpenOptions::replace(0o644)).await.unwrap();
    file.write_at(0, Bytes::copy_from_slice(&data[..2 << 20])).await.unwrap();
    c.mds.recall(file.io().fh().clone());
    c.mds.until("the layout is back", |s| s.executed.contains(&OpNum::LAYOUTRETURN)).await;
    c.mds.until("the recall is answered", |s| !s.cb_replies.is_empty()).await;
    assert_eq!(c.mds.lock().cb_replies[0].status, NfsStat::OK);
    assert!(c.durable(2 << 20) == data[..2 << 20]);
    assert_eq!(c.mds.count(OpNum::LAYOUTCOMMIT), 1);
    c.mds.recall(weft_nfs::FileHandle(Bytes::from_static(b"another!")));
    c.mds.until("the second answer", |s| s.cb_replies.len() == 2).await;
    assert_eq!(c.mds.lock().cb_replies[1].status, NfsStat::NOMATCHING_LAYOUT);
    file.write_at(2 << 20, Bytes::copy_from_slice(&data[2 << 20..])).await.unwrap();
    file.close().await.unwrap();
    assert!(c.durable(data.len()) == data);
    assert_eq!(c.mds.count(OpNum::LAYOUTGET), 2);
}

/// Holes read as zeros, the end is the end, and parts of pieces join.
#[tokio::test]
async fn holes_and_ends() {
    let c = cluster(3).await;
    let file = c.client.open("/f", OpenOptions { read: true, ..OpenOptions::replace(0o644) });
    let file = file.await.unwrap();
    let far = 7 * u64::from(UNIT) + 100;
    file.write_at(far, Bytes::from_static(b"end")).await.unwrap();
    let all = file.read_at(0, 1 << 30).await.unwrap();
    assert_eq!(all.len() as u64, far + 3);
    assert!(all[..far as usize].iter().all(|b| *b == 0) && &all[far as usize..] == b"end");
    assert_eq!(file.read_at(far + 1, 10).await.unwrap(), "nd");
    assert!(file.read_at(far + 3, 10).await.unwrap().is_empty());
    file.truncate(5).await.unwrap();
    assert_eq!(file.read_at(0, 100).await.unwrap().len(), 5);
    file.close().await.unwrap();
}

/// Below the server's threshold, and where it gives no layout, the metadata server has the data.
#[tokio::test]
async fn small_files_stay_with_the_metadata_server() {
    let c = cluster(2).await;
    c.mds.lock().threshold = Some(64 << 10);
    c.write("/small", &pattern(1000, 1)).await;
    assert_eq!(c.read("/small", 5000).await, pattern(1000, 1));
    assert_eq!(c.mds.count(OpNum::LAYOUTGET), 0);
    let alone = cluster(0).await;
    let data = pattern(3 << 20, 4);
    alone.write("/big", &data).await;
    assert!(alone.read("/big", data.len()).await == data);
    assert_eq!(alone.mds.count(OpNum::WRITE), 3);
}

/// The metadata server restarts with a file open: the open is renewed and nothing is lost.
#[tokio::test]
async fn an_open_survives_a_restart_of_the_metadata_server() {
    let c = cluster(0).await;
    let data = pattern(3 << 20, 9);
    let file = c.client.open("/f", OpenOptions::replace(0o644)).await.unwrap();
    file.write_at(0, Bytes::copy_from_slice(&data[..1 << 20])).await.unwrap();
    c.mds.restart();
    file.write_at(1 << 20, Bytes::copy_from_slice(&data[1 << 20..])).await.unwrap();
    file.close().await.unwrap();
    assert!(c.read("/f", data.len()).await == data);
}

/// Requests that find their open lost at once have it opened again once.
#[tokio::test]
async fn an_open_is_renewed_once_for_all() {
    let c = cluster(0).await;
    let file = c.client.open("/f", OpenOptions::replace(0o644)).await.unwrap();
    c.mds.restart();
    let write = |n: u64| file.write_at(n * 10, Bytes::from_static(b"0123456789"));
    let (one, two, three) = tokio::join!(write(0), write(1), write(2));
    assert!(one.is_ok() && two.is_ok() && three.is_ok());
    assert_eq!(c.mds.count(OpNum::OPEN), 2);
    file.close().await.unwrap();
}

/// Who gives up a request for which a file is opened again leaves that open to nobody.
#[tokio::test]
async fn what_is_opened_again_is_closed() {
    let c = cluster(0).await;
    let file = c.client.open("/f", OpenOptions::replace(0o644)).await.unwrap();
    c.mds.restart();
    c.mds.fault(Fault::Hold(OpNum::OPEN));
    let writing = file.write_at(0, Bytes::from_static(b"never"));
    assert!(tokio::time::timeout(Duration::from_millis(500), writing).await.is_err());
    assert_eq!(c.mds.lock().opens.len(), 1);
    drop(file);
    c.mds.release();
    c.mds.until("it is closed", |mds| mds.opens.is_empty()).await;
}

/// Names in the fake's root directory.
fn names_at(c: &Cluster) -> Vec<String> {
    let state = c.mds.lock();
    let Some(crate::fake::Node::Dir(entries)) = state.nodes.get(&1) else { panic!("no root") };
    entries.keys().map(|n| String::from_utf8(n.to_vec()).unwrap()).collect()
}

/// A put that fails, whichever way it goes, leaves the file that was there as it was, and nothing
/// else: what was written went to a temporary name.
#[tokio::test]
async fn a_failed_put_replaces_nothing() {
    let c = cluster(2).await;
    let dir = tempfile::tempdir().unwrap();
    let local = dir.path().join("in");
    c.write("/f", b"what was there").await;
    for (size, full) in [(5, vec![&c.mds, &c.ds[0]]), (3 << 20, vec![&c.ds[1]])] {
        std::fs::write(&local, pattern(size, 5)).unwrap();
        for server in &full {
            server.fault(Fault::Status(OpNum::WRITE, NfsStat::NOSPC));
        }
        let failed = c.client.put_file(&local, "/f", quiet()).await.unwrap_err();
        assert_eq!(failed.to_string(), "/f: no space left on the servers", "{size}");
        assert_eq!(c.read("/f", 99).await, "what was there", "{size}");
        assert_eq!((names_at(&c), c.mds.opens()), (vec!["f".to_owned()], 0), "{size}");
        full.iter().for_each(|server| server.lock().faults.clear());
    }
    c.client.put_file(&local, "/f", quiet()).await.unwrap();
    assert_eq!(c.read("/f", 4 << 20).await, pattern(3 << 20, 5));
    assert_eq!(names_at(&c), ["f"]);
}

/// Puts a file as `/f`, and drops that in the middle, when something of it was written.
async fn give_up_a_put(c: &Cluster, local: &std::path::Path) {
    c.ds[0].fault(Fault::Hold(OpNum::WRITE));
    let writes = c.ds[0].count(OpNum::WRITE);
    tokio::select! {
        put = c.client.put_file(local, "/f", quiet()) => panic!("{put:?}"),
        () = c.ds[0].until("a write", |s| s.count(OpNum::WRITE) > writes) => {}
    }
}

/// A put that is dropped in the middle leaves the file that was there; its temporary file goes when
/// the client is closed.
#[tokio::test]
async fn an_interrupted_put_goes_with_its_client() {
    let c = cluster(1).await;
    let dir = tempfile::tempdir().unwrap();
    let local = dir.path().join("in");
    std::fs::write(&local, pattern(3 << 20, 5)).unwrap();
    c.write("/f", b"what was there").await;
    give_up_a_put(&c, &local).await;
    assert_eq!(names_at(&c).len(), 2, "{:?}", names_at(&c));
    assert_eq!(c.read("/f", 99).await, "what was there");
    c.client.clone().close().await;
    assert_eq!(names_at(&c), ["f"]);
}

/// A file that somebody has put where a put would make its own is not written to, and does not
/// become the file: it goes.
#[tokio::test]
async fn what_others_put_under_a_temporary_name_is_not_used() {
    let c = cluster(1).await;
    let dir = tempfile::tempdir().unwrap();
    let local = dir.path().join("in");
    std::fs::write(&local, pattern(3 << 20, 5)).unwrap();
    give_up_a_put(&c, &local).await;
    // That one is taken as long as its client lives: the next is one higher.
    let taken = names_at(&c).pop().unwrap();
    let (beginning, number) = taken.split_at(taken.len() - 16);
    let next = u64::from_str_radix(number, 16).unwrap().wrapping_add(1);
    let planted = format!("/{beginning}{next:016x}");
    c.write(&planted, b"planted").await;
    let theirs = c.client.stat(&planted).await.unwrap().fileid;
    c.client.put_file(&local, "/f", quiet()).await.unwrap();
    assert_ne!(c.client.stat("/f").await.unwrap().fileid, theirs);
    assert_eq!(c.read("/f", 4 << 20).await, pattern(3 << 20, 5));
    assert_eq!(names_at(&c), [taken, "f".to_owned()]);
}

/// A server that forgets us while the file gets its name has done it, or does it again.
#[tokio::test]
async fn a_name_given_in_doubt_is_looked_up() {
    let c = cluster(1).await;
    let dir = tempfile::tempdir().unwrap();
    let local = dir.path().join("in");
    std::fs::write(&local, pattern(1 << 20, 5)).unwrap();
    c.mds.fault(Fault::DropAfterAndForget(OpNum::RENAME));
    c.client.put_file(&local, "/f", quiet()).await.unwrap();
    assert_eq!(c.read("/f", 2 << 20).await, pattern(1 << 20, 5));
    assert_eq!((names_at(&c), c.mds.count(OpNum::RENAME)), (vec!["f".to_owned()], 1));
}

/// In place, the file stays the same one.
#[tokio::test]
async fn in_place_keeps_the_file() {
    let c = cluster(1).await;
    let dir = tempfile::tempdir().unwrap();
    let local = dir.path().join("in");
    std::fs::write(&local, b"new").unwrap();
    c.write("/f", b"what was there").await;
    let before = c.client.stat("/f").await.unwrap().fileid;
    c.client.put(Upload::file(&local).unwrap().in_place(), "/f").await.unwrap();
    assert_eq!(c.client.stat("/f").await.unwrap().fileid, before);
    c.client.put_file(&local, "/f", quiet()).await.unwrap();
    assert_ne!(c.client.stat("/f").await.unwrap().fileid, before);
    assert_eq!(c.read("/f", 99).await, "new");
}

/// Streams of any length go in and come out in order; a fifo is not opened unasked.
#[tokio::test]
async fn streams() {
    let c = cluster(2).await;
    for size in [0, 5, (9 << 20) + 3] {
        let data = pattern(size, 7);
        let put = Upload::stream(std::io::Cursor::new(data.clone()), 0o644);
        assert_eq!(c.client.put(put, "/s").await.unwrap(), size as u64);
        let (mut reader, writer) = std::io::pipe().unwrap();
        let read = std::thread::spawn(move || {
            let mut all = Vec::new();
            std::io::Read::read_to_end(&mut reader, &mut all).map(|_| all)
        });
        assert_eq!(c.client.get_stream("/s", writer, quiet()).await.unwrap(), size as u64);
        assert!(read.join().unwrap().unwrap() == data, "{size}");
    }
    let refused = Upload::file("/dev/null").err().unwrap().to_string();
    assert_eq!(refused, "/dev/null: is a device, not a regular file");
}

/// A local file that shrinks while it is sent fails the put with its name; a get that fails
/// leaves nothing behind and replaces nothing.
#[tokio::test]
async fn failed_transfers_leave_no_lies() {
    let c = cluster(2).await;
    let dir = tempfile::tempdir().unwrap();
    let missing = c.client.put_file(dir.path().join("no"), "/f", quiet()).await.unwrap_err();
    assert!(missing.to_string().contains("No such file"), "{missing}");
    let target = dir.path().join("kept");
    std::fs::write(&target, b"old").unwrap();
    let nothing = c.client.get_file("/nothing", &target, quiet()).await.unwrap_err();
    assert_eq!(nothing.to_string(), "/nothing: no such file or directory");
    c.write("/f", &pattern(2 << 20, 1)).await;
    for ds in &c.ds {
        ds.fault(Fault::Status(OpNum::READ, NfsStat::NOSPC));
    }
    c.client.get_file("/f", &target, quiet()).await.unwrap_err();
    assert_eq!(std::fs::read(&target).unwrap(), b"old");
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
}

/// Directories, links and names, with errors a user can read, whether names travel with the
/// requests on them or before.
#[tokio::test]
async fn names() {
    for eager in [true, false] {
        names_of(&cluster_for(0, ClientOptions { eager, ..ClientOptions::default() }).await).await;
    }
}

async fn names_of(c: &Cluster) {
    let client = &c.client;
    client.mkdir_all("/a/b/c", 0o755).await.unwrap();
    client.mkdir_all("/a/b/c", 0o755).await.unwrap();
    client.symlink("b/c", "/a/link").await.unwrap();
    client.symlink("/a/link", "/top").await.unwrap();
    c.write("/top/f", b"through two links").await;
    assert_eq!(client.stat("/a/b/c/f").await.unwrap().size, Some(17));
    client.symlink("f", "/a/b/c/g").await.unwrap();
    assert_eq!(c.read("/top/g", 100).await, "through two links");
    assert_eq!(client.readlink("/a/link").await.unwrap(), Path::new("b/c"));
    client.symlink("/loop", "/loop").await.unwrap();
    client.mkdir("/top/d", 0o755).await.unwrap();
    client.remove("/a/link/d").await.unwrap();
    let through_a_file = client.mkdir("/a/b/c/f/d", 0o755).await.unwrap_err();
    assert_eq!(through_a_file.to_string(), "/a/b/c/f/d: not a directory");
    let endless = client.stat("/loop/x").await.unwrap_err();
    assert_eq!(endless.to_string(), "/loop/x: too many levels of symbolic links");
    let not_dir = client.stat("/a/b/c/f/x").await.unwrap_err();
    assert_eq!(not_dir.to_string(), "/a/b/c/f/x: not a directory");
    let full = client.remove("/a").await.unwrap_err();
    assert_eq!(full.to_string(), "/a: directory not empty");
    client.rename("/a/b/c/f", "/moved").await.unwrap();
    assert_eq!(c.read("/moved", 100).await, "through two links");
    let gone = client.stat("/a/b/c/f").await.unwrap_err();
    assert_eq!(gone.to_string(), "/a/b/c/f: no such file or directory");
    let deep = format!("/{}", vec!["d"; 40].join("/"));
    client.mkdir_all(&deep, 0o755).await.unwrap();
    client.stat(&deep).await.unwrap();
}

/// Whole files of all sizes, small ones in one COMPOUND each or not, replaced by shorter ones.
#[tokio::test]
async fn whole_files() {
    for eager in [true, false] {
        let c = cluster_for(2, ClientOptions { eager, ..ClientOptions::default() }).await;
        for (seed, len) in [(1, 3 << 20), (2, 64 << 10), (3, 8 << 10), (4, 0)] {
            let data = Bytes::from(pattern(len, seed));
            c.client.write_file("/f", 0o644, data.clone()).await.unwrap();
            assert_eq!(c.client.read_file("/f", len).await.unwrap(), data);
        }
        c.client.write_file("/f", 0o644, "12345".into()).await.unwrap();
        let longer = c.client.read_file("/f", 4).await.unwrap_err();
        assert_eq!(longer.to_string(), "/f: the file is longer than asked for");
        let gone = c.client.read_file("/gone", 4).await.unwrap_err();
        assert_eq!(gone.error.status(), Some(NfsStat::NOENT));
    }
}

/// Large directories come in pages, every entry once, with attributes.
#[tokio::test]
async fn directories_come_in_pages() {
    let c = cluster(0).await;
    c.client.mkdir("/d", 0o755).await.unwrap();
    for n in 0..35 {
        c.client.mkdir(format!("/d/{n:02}"), 0o755).await.unwrap();
    }
    let mut entries = c.client.read_dir("/d").await.unwrap();
    let mut seen = Vec::new();
    while let Some(entry) = entries.next().await.unwrap() {
        assert!(entry.attrs.fileid.is_some());
        seen.push(String::from_utf8(entry.name.0.to_vec()).unwrap());
    }
    assert_eq!(seen, (0..35).map(|n| format!("{n:02}")).collect::<Vec<_>>());
    assert_eq!(c.mds.count(OpNum::READDIR), 4);
    c.write("/file", b"x").await;
    let not_dir = c.client.read_dir("/file").await.err().unwrap();
    assert_eq!(not_dir.to_string(), "/file: not a directory");
    let mut names = c.client.read_names("/d").await.unwrap();
    for name in &seen {
        let entry = names.next().await.unwrap().unwrap();
        assert_eq!(&*entry.name.0, name.as_bytes());
        assert_eq!((entry.attrs.fileid, entry.attrs.size), (None, None));
    }
    assert!(names.next().await.unwrap().is_none());
}

/// A file dropped without close is closed in the background: the server keeps no open.
#[tokio::test]
async fn dropped_files_are_closed() {
    let c = cluster(1).await;
    let file = c.client.open("/f", OpenOptions::replace(0o644)).await.unwrap();
    file.write_at(0, Bytes::from_static(b"x")).await.unwrap();
    drop(file);
    c.mds.until("closed", |s| s.executed.contains(&OpNum::CLOSE)).await;
    assert!(matches!(c.mds.lock().nodes.values().last(), Some(Node::File { size: 1, .. })));
}

/// A change that the server made is made, once, also if it has no time then to say what came of it.
#[tokio::test]
async fn a_change_is_made_once() {
    let c = cluster(1).await;
    let made = c.client.open("/f", OpenOptions::replace(0o644)).await.unwrap();
    made.close().await.unwrap();
    let set = c.mds.count(OpNum::SETATTR);
    c.mds.fault(Fault::StatusBeside(OpNum::SETATTR, OpNum::GETATTR, NfsStat::DELAY));
    let attrs = Attrs { mode: Some(0o600), ..Attrs::default() };
    c.client.set_attrs("/f", attrs).await.unwrap();
    assert_eq!(c.mds.count(OpNum::SETATTR), set + 1);
    assert!(c.mds.lock().faults.is_empty(), "it was refused");
    c.client.close().await;
}
