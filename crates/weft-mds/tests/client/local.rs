//! What our client reads by descriptor from data servers on its own host (ADR 32) is what it reads
//! over TCP, whatever happens to files, sockets and servers; and what it may not have so, it reads
//! as ever.

use std::{
    fs, io,
    os::unix::net::UnixListener,
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use crate::support::{Cluster, eventually};
use bytes::Bytes;
use weft_client::{
    fs::{Client, ClientOptions, OpenOptions},
    io::{IoPolicy, MemoryRegion},
    limits,
};

const MIB: usize = 1 << 20;

/// Bytes that differ from seed to seed and from unit to unit.
fn pattern(seed: u64, len: usize) -> Vec<u8> {
    (0..len as u64).map(|i| (i % 251 + i / 4096 * 7 + seed * 31) as u8).collect()
}

/// A client that keeps nothing, with local sockets or without.
async fn client(cluster: &Cluster, local_sockets: Option<PathBuf>) -> Client {
    let policy = IoPolicy::direct();
    let options = ClientOptions { policy, local_sockets, ..ClientOptions::default() };
    Client::connect(cluster.address(), options).await.unwrap()
}

async fn both(cluster: &Cluster) -> (Client, Client) {
    let sockets = Some(cluster.local_sockets());
    (client(cluster, sockets).await, client(cluster, None).await)
}

async fn whole(client: &Client, path: &str) -> Bytes {
    let file = client.open(path, OpenOptions::read()).await.unwrap();
    let read = file.read_at(0, 64 * MIB).await.unwrap();
    file.close().await.unwrap();
    read
}

fn sockets(cluster: &Cluster) -> Vec<PathBuf> {
    let entries = fs::read_dir(cluster.local_sockets()).unwrap();
    let mut all: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    all.sort();
    all
}

/// A striped file, whole and in parts, into memory of ours and of the caller's, is the same by
/// descriptor and over TCP: with holes, behind the objects' ends, and up to the file's end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bytes_are_the_same() {
    let cluster = Cluster::striped(3).await;
    let (local, tcp) = both(&cluster).await;
    let content = Bytes::from(pattern(1, 7 * MIB + 123));
    tcp.write_file("/f", 0o644, content.clone()).await.unwrap();
    assert!(whole(&local, "/f").await == content);
    // The last 123 bytes may have been asked for before the object of their unit was known.
    assert!(local.read_by_descriptor() >= 7 * MIB as u64);
    assert!(whole(&tcp, "/f").await == content);
    assert_eq!(tcp.read_by_descriptor(), 0);
    let file = local.open("/f", OpenOptions::read()).await.unwrap();
    for (offset, len) in [(0, 1), (MIB - 1, 2), (MIB + 5, 3 * MIB), (7 * MIB, MIB)] {
        let end = content.len().min(offset + len);
        assert!(file.read_at(offset as u64, len).await.unwrap() == content[offset..end]);
        let region = MemoryRegion::owned(vec![1; len].into());
        let read = file.read_memory(offset as u64, region.clone()).await.unwrap();
        assert_eq!(read, end - offset);
        assert!(region.take().unwrap()[..end - offset] == content[offset..end]);
    }
    assert!((1..=3).contains(&local.descriptors_open()));
    file.close().await.unwrap();
    eventually("no descriptor without a layout", || local.descriptors_open() == 0).await;
    // Longer than its objects, with a hole and without.
    tcp.truncate("/f", 20 * MIB as u64).await.unwrap();
    let file = tcp.open("/f", OpenOptions { write: true, ..OpenOptions::read() }).await.unwrap();
    file.write_at(15 * MIB as u64, Bytes::from_static(b"behind a hole")).await.unwrap();
    file.close().await.unwrap();
    let (by_descriptor, over_tcp) = (whole(&local, "/f").await, whole(&tcp, "/f").await);
    assert_eq!(by_descriptor.len(), 20 * MIB);
    assert!(by_descriptor == over_tcp);
    assert!(
        by_descriptor.starts_with(&content) && by_descriptor[15 * MIB..].starts_with(b"behind")
    );
    local.close().await;
    tcp.close().await;
}

/// Who has a file open sees what another client makes of it when he opens it again, and its
/// descriptors go with the layout that is recalled for that: written to, cut, removed and made
/// anew.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_open_sees_what_others_did() {
    let cluster = Cluster::striped(2).await;
    let (local, tcp) = both(&cluster).await;
    for n in 0..20 {
        let before = Bytes::from(pattern(n, 3 * MIB));
        tcp.write_file("/f", 0o644, before.clone()).await.unwrap();
        let kept = local.open("/f", OpenOptions::read()).await.unwrap();
        assert!(kept.read_at(0, 3 * MIB).await.unwrap() == before);
        assert!(local.descriptors_open() > 0);
        let after = Bytes::from(pattern(n + 100, MIB + 17 * n as usize));
        match n % 3 {
            0 => {
                let writes = OpenOptions { write: true, ..OpenOptions::read() };
                let file = tcp.open("/f", writes).await.unwrap();
                file.truncate(0).await.unwrap();
                file.write_at(0, after.clone()).await.unwrap();
                file.close().await.unwrap();
            }
            1 => tcp.write_file("/f", 0o644, after.clone()).await.unwrap(),
            _ => {
                tcp.remove("/f").await.unwrap();
                tcp.write_file("/f", 0o644, after.clone()).await.unwrap();
            }
        }
        assert!(whole(&local, "/f").await == after, "{n}");
        kept.close().await.unwrap();
        eventually("no descriptor without a layout", || local.descriptors_open() == 0).await;
    }
    local.close().await;
    tcp.close().await;
}

/// A data server that was started again is found again; while its socket is away, of another
/// server, or no socket at all, its objects are read over TCP.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sockets_come_and_go() {
    let mut cluster = Cluster::striped(2).await;
    let (local, tcp) = both(&cluster).await;
    let content = Bytes::from(pattern(3, 4 * MIB));
    tcp.write_file("/f", 0o644, content.clone()).await.unwrap();
    assert!(whole(&local, "/f").await == content);
    for index in [0, 1] {
        cluster.restart_data_server(index).await;
    }
    let before = local.read_by_descriptor();
    assert!(whole(&local, "/f").await == content);
    assert_eq!(local.read_by_descriptor() - before, content.len() as u64, "after a restart");

    let mut strange = vec![client(&cluster, Some(cluster.dir().join("nowhere"))).await];
    let found = sockets(&cluster);
    let [one, two] = &found[..] else { panic!("{found:?}") };
    let (kept, false_dir) = (cluster.dir().join("kept"), cluster.dir().join("false"));
    fs::create_dir(&false_dir).unwrap();
    // Each has the other's name.
    for (from, to) in [(one, two), (two, one)] {
        let name = to.file_name().unwrap();
        std::os::unix::fs::symlink(from, false_dir.join(name)).unwrap();
    }
    strange.push(client(&cluster, Some(false_dir.clone())).await);
    // One that says nothing, and one that is no socket.
    fs::create_dir(&kept).unwrap();
    let silent = UnixListener::bind(kept.join(one.file_name().unwrap())).unwrap();
    fs::write(kept.join(two.file_name().unwrap()), "no socket").unwrap();
    strange.push(client(&cluster, Some(kept)).await);
    for client in strange {
        let began = Instant::now();
        assert!(whole(&client, "/f").await == content);
        assert!(began.elapsed() < 3 * limits::LOCAL_ANSWER_LIMIT);
        assert_eq!(client.read_by_descriptor(), 0);
        client.close().await;
    }
    drop(silent);

    // Away while there is a connection: it lasts. Away for a client that is new: over TCP.
    for socket in &found {
        fs::remove_file(socket).unwrap();
    }
    let late = client(&cluster, Some(cluster.local_sockets())).await;
    assert!(whole(&late, "/f").await == content);
    assert_eq!(late.read_by_descriptor(), 0);
    late.close().await;
    local.close().await;
    tcp.close().await;
}

/// A socket that hands out what is no plain read-only file is not believed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_no_file_to_read_is_refused() {
    let cluster = Cluster::striped(1).await;
    let tcp = client(&cluster, None).await;
    let content = Bytes::from(pattern(4, MIB));
    tcp.write_file("/f", 0o644, content.clone()).await.unwrap();
    let found = sockets(&cluster);
    let name = found[0].file_name().unwrap().to_str().unwrap().to_owned();
    let owner = format!("weft:ds:{}", name.strip_prefix("ds-").unwrap().trim_end_matches(".sock"));
    let writable = cluster.dir().join("writable");
    let writable =
        fs::File::options().read(true).write(true).create(true).truncate(true).open(writable);
    let writable = writable.unwrap();
    let device = fs::File::open("/dev/zero").unwrap();
    for (n, file) in [writable, device].into_iter().enumerate() {
        let dir = cluster.dir().join(format!("liar{n}"));
        fs::create_dir(&dir).unwrap();
        let listener = tokio::net::UnixListener::bind(dir.join(&name)).unwrap();
        tokio::spawn(lie(listener, owner.clone(), Arc::new(file)));
        let client = client(&cluster, Some(dir)).await;
        assert!(whole(&client, "/f").await == content);
        assert_eq!(client.read_by_descriptor(), 0);
        client.close().await;
    }
    tcp.close().await;
}

/// Answers as the data server would, with this file for each handle.
async fn lie(listener: tokio::net::UnixListener, owner: String, file: Arc<fs::File>) {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let serve = async |mut stream: tokio::net::UnixStream| -> io::Result<()> {
        stream.read_exact(&mut [0; 8]).await?;
        stream.write_all(b"weftloc1").await?;
        stream.write_u32(owner.len() as u32).await?;
        stream.write_all(owner.as_bytes()).await?;
        loop {
            let len = stream.read_u32().await? as usize;
            stream.read_exact(&mut vec![0; len]).await?;
            weft_io::send_descriptor(&stream, &[0; 4], Some(&file)).await?;
        }
    };
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        let _ended = serve(stream).await;
    }
}

/// More files than descriptors may be open: the least used are closed, and all is read all the
/// same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn descriptors_are_bounded() {
    let cluster = Cluster::striped(1).await;
    let (local, tcp) = both(&cluster).await;
    let mut open = Vec::new();
    for n in 0..limits::DESCRIPTORS_MAX + 40 {
        let (path, content) = (format!("/f{n}"), Bytes::from(pattern(n as u64, 5000)));
        tcp.write_file(&path, 0o644, content.clone()).await.unwrap();
        open.push((local.open(&path, OpenOptions::read()).await.unwrap(), content));
    }
    // Small reads are worth it when there are several of a file.
    for n in 0..limits::DESCRIPTOR_READS + 2 {
        assert_eq!(local.read_by_descriptor() > 0, n > limits::DESCRIPTOR_READS);
        for (file, content) in &open {
            assert!(file.read_at(0, 5000).await.unwrap() == content);
        }
    }
    assert_eq!(local.descriptors_open(), limits::DESCRIPTORS_MAX);
    // An old one is asked for again.
    tokio::time::sleep(limits::DESCRIPTOR_AGE + Duration::from_millis(10)).await;
    for (file, content) in open {
        assert!(file.read_at(0, 5000).await.unwrap() == content);
        file.close().await.unwrap();
    }
    assert_eq!(local.read_by_descriptor(), 3 * 5000 * (limits::DESCRIPTORS_MAX as u64 + 40));
    local.close().await;
    tcp.close().await;
}
