//! The blocking client, used as programs without a runtime use files.

use std::{
    io::{ErrorKind, Read, Seek, SeekFrom, Write},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use crate::fake::{Fake, Fault, pattern};
use tokio::runtime::Runtime;
use weft_client::{
    ClientError,
    blocking::{self, Client},
    fs::{self, OpenOptions},
};
use weft_nfs::OpNum;

/// A cluster on a runtime of its own, which lives as long as it.
struct Cluster {
    runtime: Runtime,
    mds: Fake,
    ds: Vec<Fake>,
}

fn cluster() -> Cluster {
    let runtime = Runtime::new().unwrap();
    let (mds, ds) = runtime.block_on(async {
        let ds = vec![Fake::data_server().await, Fake::data_server().await];
        (Fake::start(ds.clone()).await, ds)
    });
    Cluster { runtime, mds, ds }
}

impl Cluster {
    fn client(&self) -> Client {
        let builder = fs::Client::builder()
            .patience(Duration::from_secs(10))
            .data_server_patience(Duration::from_millis(500));
        let url = format!("weft://{}/?slots=16", self.mds.addr).parse().unwrap();
        Client::open_url_with(builder, &url).unwrap()
    }
}

/// A file is written, read, and sought in by the standard library's traits; positioned reads come
/// from several threads; the end of the file ends a read.
#[test]
fn files_are_those_of_the_standard_library() {
    let cluster = cluster();
    let client = cluster.client();
    let data = pattern((3 << 20) + 77, 3);
    let mut file = client.open("/f", OpenOptions::replace(0o644)).unwrap();
    std::io::copy(&mut &data[..], &mut file).unwrap();
    file.flush().unwrap();
    assert_eq!(file.size().unwrap(), data.len() as u64);
    file.close().unwrap();

    let mut file = client.open("/f", OpenOptions::read()).unwrap();
    let mut all = Vec::new();
    file.read_to_end(&mut all).unwrap();
    assert!(all == data);
    let at = file.seek(SeekFrom::End(-5)).unwrap();
    let mut end = [9; 8];
    assert_eq!(file.read(&mut end).unwrap(), 5);
    assert_eq!((&end[..5], &end[5..]), (&data[data.len() - 5..], &[9; 3][..]));
    assert_eq!(file.seek(SeekFrom::Current(-5)).unwrap(), at);
    assert_eq!(file.seek(SeekFrom::Current(i64::MIN)).unwrap_err().kind(), ErrorKind::InvalidInput);
    std::thread::scope(|threads| {
        for start in [0, 1 << 20, 2 << 20] {
            let (file, data) = (&file, &data);
            threads.spawn(move || {
                let mut part = vec![0; 300_000];
                assert_eq!(file.read_at(start as u64, &mut part).unwrap(), part.len());
                assert!(part == data[start..start + part.len()]);
            });
        }
    });
    file.close().unwrap();
    client.close().unwrap();
}

/// Failures have the kind of a local file's, and name the path.
#[test]
fn failures_are_those_of_the_standard_library() {
    let cluster = cluster();
    let client = cluster.client();
    let Err(gone) = client.open("/gone", OpenOptions::read()) else { panic!("it was opened") };
    let gone = std::io::Error::from(gone);
    assert_eq!(gone.kind(), ErrorKind::NotFound);
    assert!(gone.to_string().starts_with("/gone: "), "{gone}");
}

/// A thread that drives a runtime is told so instead of being stopped, and the client lives on.
#[test]
fn a_runtime_is_not_stopped() {
    let cluster = cluster();
    let client = cluster.client();
    let url = format!("weft://{}/", cluster.mds.addr).parse().unwrap();
    cluster.runtime.block_on(async {
        let refused = client.open("/f", OpenOptions::replace(0o644)).err().unwrap();
        assert!(matches!(refused.error, ClientError::WouldStopRuntime), "{refused}");
        assert!(matches!(Client::open_url(&url), Err(ClientError::WouldStopRuntime)));
    });
    client.write_file("/f", 0o644, "there".into()).unwrap();
    assert_eq!(client.read_file("/f", 100).unwrap(), "there");
    let names: Vec<_> = client.read_dir("/").unwrap().map(|e| e.unwrap().name.0).collect();
    assert_eq!(names, ["f"]);
}

/// Reads land in the caller's memory from several servers, whatever was in it: what nobody wrote is
/// zeros, what is behind the end of the file stays, and so it is when a data server fails and the
/// metadata server gives what it had.
#[test]
fn reads_land_in_the_callers_memory() {
    let cluster = cluster();
    let client = cluster.client();
    let (begin, middle) = (pattern((2 << 20) + 5, 1), pattern(1 << 20, 2));
    let file = client.open("/f", OpenOptions::replace(0o644)).unwrap();
    file.write_at(0, begin.clone().into()).unwrap();
    file.write_at(6 << 20, middle.clone().into()).unwrap();
    file.close().unwrap();
    let mut wanted = vec![0; 7 << 20];
    wanted[..begin.len()].copy_from_slice(&begin);
    wanted[6 << 20..].copy_from_slice(&middle);
    wanted.extend([0xEE; 9]);
    let file = client.open("/f", OpenOptions::read()).unwrap();
    for _ in 0..2 {
        let mut memory = vec![0xEE; wanted.len()];
        assert_eq!(file.read_at(0, &mut memory).unwrap(), 7 << 20);
        assert!(memory == wanted);
        let mut part = vec![0xEE; 3 << 20];
        assert_eq!(file.read_at((1 << 20) + 1, &mut part).unwrap(), part.len());
        assert!(part == wanted[(1 << 20) + 1..(4 << 20) + 1]);
        cluster.runtime.block_on(async { cluster.ds[0].kill() });
    }
    assert!(cluster.mds.count(OpNum::READ) > 0, "what the data server had came another way");
    file.close().unwrap();
}

/// A thread that waits for a server, and is to give up, does: a read whose answer comes later puts
/// nothing anywhere, and the file is as usable as before.
#[test]
fn a_wait_is_given_up() {
    static GIVES_UP: AtomicBool = AtomicBool::new(false);
    blocking::give_up_when(|| {
        std::thread::current().name() == Some("gives up") && GIVES_UP.load(Ordering::Relaxed)
    });
    let cluster = cluster();
    let client = cluster.client();
    let data = pattern(100_000, 5);
    let mut made = client.open("/f", OpenOptions::replace(0o644)).unwrap();
    made.write_all(&data).unwrap();
    made.close().unwrap();
    let file = Arc::new(client.open("/f", OpenOptions::read()).unwrap());
    cluster.ds.iter().for_each(|ds| ds.fault(Fault::Hold(OpNum::READ)));
    let reads = file.clone();
    let waits = std::thread::Builder::new().name("gives up".to_string());
    let waits = waits.spawn(move || reads.read_at(0, &mut [0; 1000]).unwrap_err()).unwrap();
    std::thread::sleep(Duration::from_millis(300));
    assert!(!waits.is_finished(), "nobody has told it to");
    GIVES_UP.store(true, Ordering::Relaxed);
    let given_up = waits.join().unwrap();
    assert!(matches!(given_up.error, ClientError::Interrupted), "{given_up}");
    cluster.ds.iter().for_each(|ds| ds.lock().faults.clear());
    cluster.ds.iter().for_each(Fake::release);
    let mut back = vec![0; data.len()];
    let mut read = 0;
    while read < back.len() {
        let more = file.read_at(read as u64, &mut back[read..]).unwrap();
        assert!(more > 0);
        read += more;
    }
    assert!(back == data);
    drop(file);
    client.close().unwrap();
}
