//! The blocking client, used as programs without a runtime use files.

mod fake;

use std::{
    io::{ErrorKind, Read, Seek, SeekFrom, Write},
    time::Duration,
};

use fake::{Fake, pattern};
use tokio::runtime::Runtime;
use weft_client::{
    ClientError,
    blocking::Client,
    fs::{self, OpenOptions},
};

/// A cluster on a runtime of its own, which lives as long as it.
struct Cluster {
    runtime: Runtime,
    mds: Fake,
}

fn cluster() -> Cluster {
    let runtime = Runtime::new().unwrap();
    let mds = runtime.block_on(async {
        let ds = vec![Fake::data_server().await, Fake::data_server().await];
        Fake::start(ds).await
    });
    Cluster { runtime, mds }
}

impl Cluster {
    fn client(&self) -> Client {
        let builder = fs::Client::builder().patience(Duration::from_secs(10));
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
