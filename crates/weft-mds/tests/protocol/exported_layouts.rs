//! A layout that one client of the library exports and others read by (P4.7): what the metadata
//! server is asked for, and what ends it.

use std::sync::atomic::Ordering::Relaxed;

use bytes::Bytes;
use weft_client::{
    ClientError,
    fs::{Client, ClientOptions, File, FsError, OpenOptions},
    io::IoPolicy,
    rpc::Credential,
};
use weft_mds::{LayoutKind, SmallFiles};
use weft_nfs::{Attrs, FileType, OpNum};
use weft_server::compound::Role;

use crate::support::{Cluster, Options};

const LEN: usize = 5 << 20;
/// Clients that read.
const RANKS: usize = 6;

fn content(seed: u8) -> Bytes {
    (0..LEN).map(|at| ((at / 4096) as u8).wrapping_mul(31).wrapping_add(seed)).collect()
}

/// A client of the user with this number. What is read is asked of servers.
async fn client_of(cluster: &Cluster, uid: u32) -> Client {
    let credential = Credential::sys("test", uid, uid, &[]);
    let policy = IoPolicy::direct();
    let options = ClientOptions { credential, policy, ..ClientOptions::default() };
    Client::connect(cluster.address(), options).await.unwrap()
}

/// How often the metadata server was asked for something.
fn asked(cluster: &Cluster, op: OpNum) -> u64 {
    let counted = Role::core(cluster.mds()).counters.operations();
    counted.get(&op.to_string()).copied().unwrap_or(0)
}

fn layouts_and_devices(cluster: &Cluster) -> [u64; 2] {
    [OpNum::LAYOUTGET, OpNum::GETDEVICEINFO].map(|op| asked(cluster, op))
}

/// Bytes that were read through the metadata server.
fn indirect(cluster: &Cluster) -> u64 {
    Role::core(cluster.mds()).counters.bytes_out.load(Relaxed)
}

async fn all(file: &File) -> Bytes {
    file.read_at(0, LEN).await.unwrap()
}

async fn exported(client: &Client, path: &str) -> Bytes {
    let file = client.open(path, OpenOptions::read()).await.unwrap();
    let layout = file.export_layout().await.unwrap();
    file.close().await.unwrap();
    layout
}

async fn import(client: &Client, path: &str, layout: &Bytes) -> Result<File, FsError> {
    client.open_with_layout(path, OpenOptions::read(), layout).await
}

fn refused(result: Result<File, FsError>) -> String {
    let Err(e) = result else { panic!("it was imported") };
    assert!(matches!(e.error, ClientError::Layout(_) | ClientError::Invalid(_)), "{e}");
    e.to_string()
}

/// However many clients read a file by a layout that was exported, the metadata server was asked
/// for one, and once for its devices; it gives no bytes, and is not given back what it gave to
/// another. So it is after the exporter has closed the file, and if who has imported hands it on.
#[tokio::test]
async fn one_asks_for_all() {
    for layout in [LayoutKind::Files, LayoutKind::FlexFiles] {
        let small_files = SmallFiles::OFF;
        let options = Options { data_servers: 3, small_files, layout, ..Options::default() };
        let cluster = Cluster::with(options).await;
        let (writer, data) = (client_of(&cluster, 0).await, content(1));
        writer.write_file("/model", 0o644, data.clone()).await.unwrap();
        writer.close().await;
        let before = layouts_and_devices(&cluster);

        let first = client_of(&cluster, 1000).await;
        let mut bytes = exported(&first, "/model").await;
        let returned = asked(&cluster, OpNum::LAYOUTRETURN);
        let mut ranks = Vec::new();
        for _ in 0..RANKS {
            let client = client_of(&cluster, 1000).await;
            let file = import(&client, "/model", &bytes).await.unwrap();
            bytes = file.export_layout().await.unwrap();
            ranks.push((client, file));
        }
        for (client, file) in ranks {
            assert!(all(&file).await == data);
            assert!(!file.layout_info().await.unwrap().stripes.is_empty());
            file.close().await.unwrap();
            client.close().await;
        }
        let after = layouts_and_devices(&cluster);
        assert_eq!([after[0] - before[0], after[1] - before[1]], [1, 1], "{layout:?}");
        assert_eq!(asked(&cluster, OpNum::LAYOUTRETURN), returned);
        assert_eq!(indirect(&cluster), 0);
        first.close().await;
    }
}

/// When the handles of a layout end, who has imported it asks for one of his own at the next read,
/// and reads on at the data servers; who may not read any more is refused by the metadata server.
#[tokio::test]
async fn what_has_ended_is_asked_for_anew() {
    let cluster = Cluster::striped(2).await;
    let (root, data) = (client_of(&cluster, 0).await, content(2));
    root.write_file("/model", 0o644, data.clone()).await.unwrap();
    let bytes = exported(&root, "/model").await;
    let (one, two) = (client_of(&cluster, 1000).await, client_of(&cluster, 2000).await);
    let mine = import(&one, "/model", &bytes).await.unwrap();
    assert!(all(&mine).await == data);
    let before = layouts_and_devices(&cluster);

    // A right is taken away from others: all handles end.
    let group = Attrs {
        mode: Some(0o640),
        owner: Some(weft_nfs::attr::numeric_owner(1000)),
        ..Attrs::default()
    };
    root.set_attrs("/model", group).await.unwrap();
    for _ in 0..3 {
        assert!(all(&mine).await == data);
    }
    let after = layouts_and_devices(&cluster);
    assert_eq!([after[0] - before[0], after[1] - before[1]], [1, 1]);
    assert_eq!(indirect(&cluster), 0);
    mine.close().await.unwrap();

    // The bytes do not open a file for whom its mode keeps out.
    let Err(e) = import(&two, "/model", &bytes).await else { panic!("it was opened") };
    assert_eq!(e.error.status(), Some(weft_nfs::NfsStat::ACCESS));
    for client in [root, one, two] {
        client.close().await;
    }
}

/// An import shows what was written before the file was opened, and does not keep this client from
/// writing the file by a layout of its own.
#[tokio::test]
async fn an_import_is_one_for_reading() {
    let cluster = Cluster::striped(2).await;
    let (client, other) = (client_of(&cluster, 0).await, client_of(&cluster, 0).await);
    client.write_file("/f", 0o644, content(3)).await.unwrap();
    let bytes = exported(&client, "/f").await;
    let in_place = OpenOptions { write: true, ..OpenOptions::read() };

    let file = other.open("/f", in_place).await.unwrap();
    file.write_at(0, content(4)).await.unwrap();
    let e = file.export_layout().await.unwrap_err();
    assert!(e.to_string().contains("for reading alone"), "{e}");
    let beside = other.open("/f", OpenOptions::read()).await.unwrap();
    let e = beside.export_layout().await.unwrap_err();
    assert!(e.to_string().contains("for writing"), "{e}");
    // The layout that this client has is the better one.
    let imported = import(&other, "/f", &bytes).await.unwrap();
    file.write_at(0, content(5)).await.unwrap();
    for file in [file, beside, imported] {
        file.close().await.unwrap();
    }

    let reader = import(&client, "/f", &bytes).await.unwrap();
    assert!(all(&reader).await == content(5));
    let writer = client.open("/f", in_place).await.unwrap();
    writer.write_at(0, content(6)).await.unwrap();
    writer.close().await.unwrap();
    assert!(all(&reader).await == content(6));
    reader.close().await.unwrap();
    assert!(other.read_file("/f", LEN).await.unwrap() == content(6));
    let why = refused(client.open_with_layout("/f", in_place, &bytes).await);
    assert!(why.contains("only for reading"), "{why}");
    for client in [client, other] {
        client.close().await;
    }
}

/// Bytes that are no layout, or of something else, are refused with words, and leave nothing open;
/// files that have no layout have none to export.
#[tokio::test]
async fn misfits_are_refused() {
    let options = Options { data_servers: 2, ..Options::default() };
    let (cluster, elsewhere) = (Cluster::with(options.clone()).await, Cluster::with(options).await);
    let (client, stranger) = (client_of(&cluster, 0).await, client_of(&elsewhere, 0).await);
    for client in [&client, &stranger] {
        client.write_file("/a", 0o644, content(7)).await.unwrap();
        client.write_file("/b", 0o644, content(8)).await.unwrap();
        client.write_file("/small", 0o644, "small".into()).await.unwrap();
    }
    let bytes = exported(&client, "/a").await;
    let opens = [OpNum::OPEN, OpNum::CLOSE].map(|op| asked(&cluster, op));
    for (path, layout, said) in [
        ("/a", Bytes::from_static(b"nonsense"), "not an exported layout"),
        ("/a", bytes.slice(..bytes.len() - 1), "damaged"),
        ("/b", bytes.clone(), "of another file"),
        ("/a", exported(&stranger, "/a").await, "of another cluster"),
    ] {
        let why = refused(import(&client, path, &layout).await);
        assert!(why.contains(path) && why.contains(said), "{why}");
    }
    let small = client.open("/small", OpenOptions::read()).await.unwrap();
    let e = small.export_layout().await.unwrap_err();
    assert!(e.to_string().contains("/small"), "{e}");
    small.close().await.unwrap();
    let after = [OpNum::OPEN, OpNum::CLOSE].map(|op| asked(&cluster, op));
    assert_eq!([after[0] - opens[0], after[1] - opens[1]], [3, 3]);

    let without = ClientOptions { layouts: false, ..ClientOptions::default() };
    let without = Client::connect(cluster.address(), without).await.unwrap();
    let why = refused(import(&without, "/a", &bytes).await);
    assert!(why.contains("no driver"), "{why}");
    assert_eq!(client.stat("/a").await.unwrap().file_type, Some(FileType::REG));
    for client in [client, stranger, without] {
        client.close().await;
    }
}

/// What was exported before the metadata server was started again is still read by, or replaced.
#[tokio::test]
async fn a_restart_does_no_harm() {
    let options = Options {
        data_servers: 2,
        small_files: SmallFiles::OFF,
        lease_s: 1,
        on_disk: true,
        ..Options::default()
    };
    let mut cluster = Cluster::with(options).await;
    let (client, data) = (client_of(&cluster, 0).await, content(9));
    client.write_file("/f", 0o644, data.clone()).await.unwrap();
    let bytes = exported(&client, "/f").await;
    cluster.restart().await;
    let reader = client_of(&cluster, 0).await;
    let file = import(&reader, "/f", &bytes).await.unwrap();
    assert!(all(&file).await == data);
    assert_eq!(indirect(&cluster), 0);
    file.close().await.unwrap();
    reader.close().await;
}
