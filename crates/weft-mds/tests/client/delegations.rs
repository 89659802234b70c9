//! Delegations in our client (RFC 8881 §10.2, §10.4; ADR 38): a file that is opened again and again
//! is asked for once, until another client wants it; then each open sees what that one closed.

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{
            AtomicU64,
            Ordering::{Relaxed, SeqCst},
        },
    },
    time::{Duration, Instant},
};

use crate::support::{Cluster, Options, Valve, eventually, open_export};
use bytes::Bytes;
use tokio::{sync::Mutex, task::JoinSet};
use weft_client::{
    ClientError,
    fs::{Client, ClientOptions, OpenOptions},
    io::{IoPolicy, Source},
    node::{Change, NODE_ATTRS, Nodes, OpenedNode, Watcher, What},
    rpc::Credential,
};
use weft_mds::{Delegated, Export, SmallFiles};
use weft_nfs::{
    Attrs, Component, FileHandle, NfsStat, NfsTime, OpArgs, Seqid, Stateid,
    attr::SetTime,
    ops::{CloseArgs, DelegreturnArgs, PutfhArgs},
};
use weft_server::compound::Role;

async fn client_of(cluster: &Cluster, options: ClientOptions) -> Client {
    Client::connect(cluster.address(), options).await.unwrap()
}

async fn client(cluster: &Cluster) -> Client {
    client_of(cluster, ClientOptions::default()).await
}

/// Operations of a kind that the metadata server has executed; of all kinds without a name.
fn count(cluster: &Cluster, name: &str) -> u64 {
    let all = Role::core(cluster.mds()).counters.operations();
    let wanted = all.iter().filter(|(op, _)| name.is_empty() || *op == name);
    wanted.map(|(_, n)| n).sum()
}

async fn handle(client: &Client, path: &str) -> FileHandle {
    client.node(path).await.unwrap().fh
}

async fn open(nodes: &Nodes, fh: &FileHandle) -> Result<OpenedNode, ClientError> {
    nodes.open_node(fh, OpenOptions::read()).await
}

/// Opens by handle, reads and closes.
async fn read(client: &Client, fh: &FileHandle) -> Bytes {
    let io = open(client.nodes(), fh).await.unwrap().io;
    let data = io.read(0, 1 << 20).await.unwrap();
    io.close().await.unwrap();
    data
}

/// The same by path.
async fn read_path(client: &Client, path: &str) -> Bytes {
    let file = client.open(path, OpenOptions::read()).await.unwrap();
    let data = file.read_at(0, 1 << 20).await.unwrap();
    file.close().await.unwrap();
    data
}

/// Writes from the beginning, and closes.
async fn write(client: &Client, fh: &FileHandle, data: &[u8]) {
    let io = client.nodes().open_node(fh, writing()).await.unwrap().io;
    let bytes = Bytes::copy_from_slice(data);
    io.write(0, data.len() as u64, &Source::bytes(bytes)).await.unwrap();
    io.close().await.unwrap();
}

/// A file is opened and read by handle: after the first time nothing is sent for it. By path the
/// open is asked for, and nothing else.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reading_again_asks_nothing() {
    let cluster = Cluster::start().await;
    let (one, two) = (client(&cluster).await, client(&cluster).await);
    one.write_file("/f", 0o644, Bytes::from_static(b"first")).await.unwrap();
    let fh = handle(&two, "/f").await;
    assert_eq!(read(&two, &fh).await, "first");
    assert_eq!(two.nodes().delegations_held(), 1);
    let before = count(&cluster, "");
    for _ in 0..20 {
        assert_eq!(read(&two, &fh).await, "first");
    }
    assert_eq!(count(&cluster, ""), before, "nothing was asked");
    let before = (count(&cluster, "READ"), count(&cluster, "GETATTR"));
    for _ in 0..20 {
        assert_eq!(read_path(&two, "/f").await, "first");
    }
    let after = (count(&cluster, "READ"), count(&cluster, "GETATTR"));
    assert_eq!(after, (before.0, before.1 + 20), "one GETATTR with each OPEN");
    // Who wants no delegations gets none, and asks.
    let plain = ClientOptions { delegations: false, ..ClientOptions::default() };
    let plain = client_of(&cluster, plain).await;
    read(&plain, &fh).await;
    let before = count(&cluster, "OPEN");
    read(&plain, &fh).await;
    assert_eq!((count(&cluster, "OPEN"), plain.nodes().delegations_held()), (before + 1, 0));
}

/// Another client that opens the file to write gets it at once, and what it closes the first one
/// sees when it opens the file next; by handle and by path, closed or open meanwhile.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_client_that_writes_is_seen() {
    let cluster = Cluster::start().await;
    let (one, two) = (client(&cluster).await, client(&cluster).await);
    one.write_file("/f", 0o644, Bytes::from_static(b"first")).await.unwrap();
    let fh = handle(&one, "/f").await;
    assert_eq!(read(&one, &fh).await, "first");
    assert_eq!(one.nodes().delegations_held(), 1);
    let began = Instant::now();
    write(&two, &fh, b"other").await;
    assert!(began.elapsed() < Duration::from_secs(1), "the file was given back when it was wanted");
    assert_eq!(one.nodes().delegations_held(), 0);
    assert_eq!(read(&one, &fh).await, "other");
    // One that the server does not know of is told to it before the file goes.
    let written: [&[u8]; 2] = [b"third", b"fourth"];
    one.write_file("/g", 0o644, Bytes::from_static(b"g")).await.unwrap();
    let fh = handle(&one, "/g").await;
    read(&one, &fh).await;
    let alone = open(one.nodes(), &fh).await.unwrap();
    assert!(!alone.was_asked);
    for data in written {
        write(&two, &fh, data).await;
        assert_eq!(read_path(&one, "/g").await, data);
    }
    let (opens, closes) = (count(&cluster, "OPEN"), count(&cluster, "CLOSE"));
    alone.io.close().await.unwrap();
    assert_eq!((count(&cluster, "OPEN"), count(&cluster, "CLOSE")), (opens, closes + 1));
}

/// What this client writes itself under a delegation stays, and is read back without a READ.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn own_writes_stay() {
    let cluster = Cluster::start().await;
    let one = client(&cluster).await;
    one.write_file("/f", 0o644, Bytes::from_static(b"first")).await.unwrap();
    let fh = handle(&one, "/f").await;
    read(&one, &fh).await;
    let before = count(&cluster, "READ");
    write(&one, &fh, b"fir").await;
    write(&one, &fh, b"se").await;
    assert_eq!(read(&one, &fh).await, "serst");
    assert_eq!(read(&one, &fh).await, "serst");
    assert_eq!(count(&cluster, "READ"), before);
    // The whole put in its place, or cut, by requests that know nothing of the cache.
    one.write_file("/f", 0o644, Bytes::from_static(b"whole new")).await.unwrap();
    assert_eq!(read(&one, &fh).await, "whole new");
    one.truncate("/f", 5).await.unwrap();
    assert_eq!(read(&one, &fh).await, "whole");
    let kept = one.open("/f", OpenOptions::read()).await.unwrap();
    one.write_file("/f", 0o644, Bytes::from_static(b"and again")).await.unwrap();
    assert_eq!(kept.read_at(0, 100).await.unwrap(), "and again");
    kept.close().await.unwrap();
}

/// Only who the server has let read the file opens it without asking, and asks again after its mode
/// was changed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_user_is_asked_for() {
    let cluster = Cluster::start().await;
    let credential = Credential::sys("test", 0, 0, &[]);
    let root = client_of(&cluster, ClientOptions { credential, ..Default::default() }).await;
    root.write_file("/f", 0o644, Bytes::from_static(b"bytes")).await.unwrap();
    let fh = handle(&root, "/f").await;
    let user = |uid| root.nodes().acting_for(Credential::sys("test", uid, uid, &[]));
    let (one, two) = (user(1000), user(2000));
    for nodes in [&one, &one, &two] {
        open(nodes, &fh).await.unwrap().io.close().await.unwrap();
    }
    assert_eq!(root.nodes().delegations_held(), 1);
    assert!(!open(&one, &fh).await.unwrap().was_asked);
    let attrs = Attrs { mode: Some(0o600), ..Attrs::default() };
    root.nodes().setattr(&fh, Stateid::ANONYMOUS, attrs).await.unwrap();
    for nodes in [&one, &two] {
        let refused = open(nodes, &fh).await.map(drop).unwrap_err();
        assert_eq!(refused.status(), Some(NfsStat::ACCESS));
    }
}

/// A file that is open here, of which the server does not know, is read on after another client has
/// removed it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_removed_file_is_read_on() {
    let cluster = Cluster::striped(2).await;
    let one = client_of(
        &cluster,
        ClientOptions { policy: IoPolicy::direct(), ..ClientOptions::default() },
    );
    let (one, two) = (one.await, client(&cluster).await);
    two.write_file("/f", 0o644, Bytes::from(vec![7; 100_000])).await.unwrap();
    let fh = handle(&one, "/f").await;
    read(&one, &fh).await;
    let opened = open(one.nodes(), &fh).await.unwrap();
    assert!(!opened.was_asked);
    two.remove("/f").await.unwrap();
    assert_eq!(opened.io.read(50_000, 100).await.unwrap(), vec![7; 100]);
    opened.io.close().await.unwrap();
    eventually("the objects are removed", || cluster.objects() == 0).await;
}

/// Who removes a file that he has delegated, or puts another in its place, gives the delegation
/// back: nothing of the file is left.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ones_own_removal_frees_the_file() {
    let cluster = Cluster::striped(2).await;
    let one = client(&cluster).await;
    for path in ["/f", "/g", "/h"] {
        one.write_file(path, 0o644, Bytes::from(vec![7; 100_000])).await.unwrap();
        read_path(&one, path).await;
    }
    assert_eq!(one.nodes().delegations_held(), 3);
    one.remove("/f").await.unwrap();
    one.rename("/g", "/h").await.unwrap();
    eventually("the files are given back", || one.nodes().delegations_held() == 1).await;
    eventually("the objects are removed", || cluster.objects() == 1).await;
}

/// A client that is silent for longer than its lease loses the file; when it comes back it sees
/// what was written, and is delegated files again once it has freed what it lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_that_ends() {
    let cluster = Cluster::with(Options { lease_s: 2, ..Options::default() }).await;
    let valve = Valve::before(cluster.address()).await;
    let one = Client::connect(valve.address, ClientOptions::default()).await.unwrap();
    let two = client(&cluster).await;
    two.write_file("/f", 0o644, Bytes::from_static(b"first")).await.unwrap();
    two.write_file("/g", 0o644, Bytes::from_static(b"first")).await.unwrap();
    let (f, g) = (handle(&one, "/f").await, handle(&one, "/g").await);
    for fh in [&f, &g] {
        assert_eq!(read(&one, fh).await, "first");
    }
    assert_eq!(one.nodes().delegations_held(), 2);
    valve.shut();
    write(&two, &f, b"other").await;
    let reads = tokio::spawn({
        let (one, g) = (one.clone(), g.clone());
        async move { read(&one, &g).await }
    });
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(!reads.is_finished(), "the lease has ended: the server is asked");
    valve.open();
    assert_eq!(reads.await.unwrap(), "first");
    assert_eq!(read(&one, &f).await, "other");
    let mut tries = 0;
    while one.nodes().delegations_held() == 0 {
        tokio::time::sleep(Duration::from_millis(50)).await;
        read(&one, &g).await;
        tries += 1;
        assert!(tries < 100, "never delegated again");
    }
}

/// After a restart of the server nothing is delegated any more, and others' writes are seen.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_ends_delegations() {
    let mut cluster =
        Cluster::with(Options { lease_s: 2, on_disk: true, ..Options::default() }).await;
    let valve = Valve::before(cluster.address()).await;
    let one = Client::connect(valve.address, ClientOptions::default()).await.unwrap();
    one.write_file("/f", 0o644, Bytes::from_static(b"first")).await.unwrap();
    let fh = handle(&one, "/f").await;
    read(&one, &fh).await;
    let alone = open(one.nodes(), &fh).await.unwrap();
    assert!(!alone.was_asked);
    cluster.restart().await;
    valve.lead_to(cluster.address());
    // Nothing was asked of the new server yet.
    let two = client(&cluster).await;
    write(&two, &fh, b"other").await;
    one.stat("/").await.unwrap();
    assert_eq!(read(&one, &fh).await, "other");
    alone.io.forget_kept();
    assert_eq!(alone.io.read(0, 100).await.unwrap(), "other");
    alone.io.close().await.unwrap();
}

/// A client that says goodbye leaves no delegation behind.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn goodbye_gives_all_back() {
    let cluster = Cluster::start().await;
    let (one, two) = (client(&cluster).await, client(&cluster).await);
    two.write_file("/f", 0o644, Bytes::from_static(b"first")).await.unwrap();
    let fh = handle(&one, "/f").await;
    read(&one, &fh).await;
    one.close().await;
    let began = Instant::now();
    write(&two, &fh, b"other").await;
    assert!(began.elapsed() < Duration::from_millis(900), "{:?}", began.elapsed());
}

/// Opens by handle to write alone, so that the file is delegated to write.
fn writing() -> OpenOptions {
    OpenOptions { read: false, write: true, ..OpenOptions::default() }
}

/// A file that this client has made and written is read back without a READ, by handle and by path;
/// another client that opens it sees all of it, and what that one writes is seen here.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_written_here_stays() {
    let cluster = Cluster::with(delegates_to_write(Options::default())).await;
    let (one, two) = (client(&cluster).await, client(&cluster).await);
    let options = OpenOptions { create: Some(0o644), ..writing() };
    let file = one.open("/f", options).await.unwrap();
    assert_eq!(one.nodes().delegations_held(), 1);
    file.write_at(0, Bytes::from_static(b"first")).await.unwrap();
    file.close().await.unwrap();
    let fh = handle(&one, "/f").await;
    let before = count(&cluster, "READ");
    assert_eq!(read_path(&one, "/f").await, "first");
    assert_eq!(read(&one, &fh).await, "first");
    write(&one, &fh, b"se").await;
    assert_eq!(read(&one, &fh).await, "serst");
    assert_eq!(count(&cluster, "READ"), before);
    let before = count(&cluster, "");
    assert_eq!(read(&one, &fh).await, "serst");
    assert_eq!(count(&cluster, ""), before, "nothing was asked");
    assert_eq!(read(&two, &fh).await, "serst");
    assert_eq!(one.nodes().delegations_held(), 0, "it was to write");
    write(&two, &fh, b"other").await;
    assert_eq!(read(&one, &fh).await, "other");
}

/// Others that look at a file which is being written here are told how long it is, and that it
/// changes, without taking it; who opens it to read gets what was written till then.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_that_is_being_written() {
    let cluster = Cluster::with(delegates_to_write(Options::default())).await;
    let (one, two) = (client(&cluster).await, client(&cluster).await);
    let options = OpenOptions { create: Some(0o644), ..writing() };
    let file = one.open("/f", options).await.unwrap();
    let empty = two.stat("/f").await.unwrap();
    assert_eq!(empty.size, Some(0));
    file.write_at(0, Bytes::from(vec![7; 3000])).await.unwrap();
    let grows = two.stat("/f").await.unwrap();
    assert_eq!(grows.size, Some(3000));
    assert_ne!(grows.change, empty.change);
    assert_eq!(one.nodes().delegations_held(), 1);
    file.commit().await.unwrap();
    assert_eq!(two.stat("/f").await.unwrap().size, Some(3000));
    file.write_at(3000, Bytes::from(vec![8; 10])).await.unwrap();
    let seen = read_path(&two, "/f").await;
    assert_eq!((seen.len(), one.nodes().delegations_held()), (3010, 0), "recalled while dirty");
    file.write_at(0, Bytes::from(vec![9; 10])).await.unwrap();
    file.close().await.unwrap();
    assert_eq!(read_path(&two, "/f").await[..10], [9; 10]);
}

/// Large files that are delegated go to the data servers all the same: new ones, small ones that
/// grow under a second open, and ones that are cut and written again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_files_go_to_data_servers() {
    const LEN: usize = 24 << 20;
    let options = Options { data_servers: 2, ..Options::default() };
    let cluster = Cluster::with(delegates_to_write(options)).await;
    let one = client(&cluster).await;
    let through_mds = || Role::core(cluster.mds()).counters.bytes_in.load(Relaxed);
    let options = OpenOptions { create: Some(0o644), ..writing() };
    let file = one.open("/new", options).await.unwrap();
    file.write_at(0, Bytes::from(vec![1; LEN])).await.unwrap();
    file.close().await.unwrap();
    assert_eq!(through_mds(), 0);
    let file = one.open("/grows", options).await.unwrap();
    file.write_at(0, Bytes::from_static(b"small")).await.unwrap();
    file.close().await.unwrap();
    let small = through_mds();
    assert!(small < 100, "{small}");
    for cut in [false, true, true] {
        let fh = handle(&one, "/grows").await;
        let io = one.nodes().open_node(&fh, writing()).await.unwrap().io;
        if cut {
            io.truncate(0).await.unwrap();
        }
        let data = Source::bytes(Bytes::from(vec![2; LEN]));
        io.write(0, LEN as u64, &data).await.unwrap();
        io.close().await.unwrap();
        assert_eq!(one.nodes().delegations_held(), 2);
        assert_eq!(through_mds(), small, "cut {cut}");
    }
}

fn delegates_to_write(options: Options) -> Options {
    let delegated = Delegated { writes: true, ..Delegated::default() };
    let export = Export { delegated, ..open_export() };
    Options { export, ..options }
}

/// Two clients, each with several tasks that read and one that writes the same new file at once:
/// whoever opens it sees at least what was closed before, whatever is granted, recalled and on its
/// way meanwhile.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_at_once() {
    let options = Options { data_servers: 1, small_files: SmallFiles::OFF, ..Options::default() };
    for options in [Options::default(), options] {
        let cluster = Cluster::with(delegates_to_write(options)).await;
        let clients = [client(&cluster).await, client(&cluster).await];
        for round in 0..60_u64 {
            let path = format!("/f{round}");
            clients[0].write_file(&path, 0o644, Bytes::from(vec![0; 8])).await.unwrap();
            let fh = handle(&clients[0], &path).await;
            let (last, closed) = (Arc::new(Mutex::new(0_u64)), Arc::new(AtomicU64::new(0)));
            let mut tasks = JoinSet::new();
            for (n, client) in [0, 0, 0, 1, 1, 1].into_iter().enumerate() {
                let (client, fh, closed) = (clients[client].clone(), fh.clone(), closed.clone());
                let path = path.clone();
                tasks.spawn(async move {
                    for turn in 0..12 {
                        let least = closed.load(SeqCst);
                        let seen = match (n + turn) % 3 {
                            0 => read_path(&client, &path).await,
                            _ => read(&client, &fh).await,
                        };
                        let seen = u64::from_le_bytes(seen[..].try_into().unwrap());
                        assert!(seen >= least, "round {round}: {seen} after {least} was closed");
                    }
                });
            }
            for client in clients.clone() {
                let (fh, last, closed) = (fh.clone(), last.clone(), closed.clone());
                tasks.spawn(async move {
                    for turn in 0..3 {
                        tokio::time::sleep(Duration::from_millis((round + turn) % 4)).await;
                        let mut last = last.lock().await;
                        *last += 1;
                        write(&client, &fh, &last.to_le_bytes()).await;
                        closed.store(*last, SeqCst);
                    }
                });
            }
            while let Some(done) = tasks.join_next().await {
                done.unwrap();
            }
        }
        for client in clients {
            client.close().await;
        }
    }
}

/// Files that nobody waits for are closed together, all of them, whichever of them the server does
/// not know any more; and before the client says goodbye.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn closes_go_together() {
    const FILES: u64 = 100;
    let cluster = Cluster::start().await;
    let plain = ClientOptions { delegations: false, ..ClientOptions::default() };
    let one = client_of(&cluster, plain).await;
    let mut files = Vec::new();
    for n in 0..FILES {
        let path = format!("/f{n}");
        one.write_file(&path, 0o644, Bytes::from_static(b"x")).await.unwrap();
        files.push(open(one.nodes(), &handle(&one, &path).await).await.unwrap().io);
    }
    let counts = |name| count(&cluster, name);
    for unknown in [3, 40] {
        let (fh, open_stateid) = (files[unknown].fh(), files[unknown].io_stateid());
        let close = OpArgs::Close(CloseArgs { seqid: Seqid(0), open_stateid });
        let putfh = OpArgs::Putfh(PutfhArgs { object: fh.clone() });
        one.session().compound(vec![putfh, close]).await.unwrap();
    }
    let before = (counts("CLOSE"), counts("SEQUENCE"));
    for io in &files {
        io.close_soon().await.unwrap();
    }
    eventually("all are closed", || counts("CLOSE") == before.0 + FILES).await;
    assert!(counts("SEQUENCE") < before.1 + FILES / 4, "each by itself");
    let io = open(one.nodes(), files[0].fh()).await.unwrap().io;
    io.close_soon().await.unwrap();
    one.close().await;
    assert_eq!(counts("CLOSE"), before.0 + FILES + 1);
}

/// What a watcher was told.
#[derive(Default)]
struct Told(std::sync::Mutex<Vec<Change>>);

impl Watcher for Told {
    fn changing(&self, changes: &[Change]) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        self.0.lock().unwrap().extend_from_slice(changes);
        Box::pin(async {})
    }
}

/// With the only name of a file goes its delegation, in one request and unasked; a file that has
/// another name, or is open, keeps its own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn removing_gives_back() {
    let cluster = Cluster::start().await;
    let one = client(&cluster).await;
    let root = one.nodes().root().await.unwrap().fh;
    let name = |name: &'static str| Component(Bytes::from_static(name.as_bytes()));
    let delegated = async |path: &str| {
        one.write_file(path, 0o644, Bytes::from_static(b"x")).await.unwrap();
        let fh = handle(&one, path).await;
        read(&one, &fh).await;
        fh
    };
    let counts = || (count(&cluster, "SEQUENCE"), count(&cluster, "DELEGRETURN"));
    let fh = delegated("/f").await;
    let before = counts();
    one.nodes().remove(&root, name("f"), Some(&fh)).await.unwrap();
    assert_eq!((counts(), one.nodes().delegations_held()), ((before.0 + 1, before.1 + 1), 0));

    let fh = delegated("/g").await;
    one.nodes().link(&fh, &root, name("h")).await.unwrap();
    one.nodes().vouched_attrs(&fh).await.unwrap();
    one.nodes().remove(&root, name("g"), Some(&fh)).await.unwrap();
    assert_eq!(one.nodes().delegations_held(), 1, "it has another name");
    // A server that has another idea of the delegation removes the name all the same.
    one.nodes().vouched_attrs(&fh).await.unwrap();
    let alone = open(one.nodes(), &fh).await.unwrap().io;
    let back = DelegreturnArgs { deleg_stateid: alone.io_stateid() };
    let putfh = OpArgs::Putfh(PutfhArgs { object: fh.clone() });
    one.session().compound(vec![putfh, OpArgs::Delegreturn(back)]).await.unwrap();
    alone.close().await.unwrap();
    one.nodes().remove(&root, name("h"), Some(&fh)).await.unwrap();
    eventually("it is forgotten", || one.nodes().delegations_held() == 0).await;
    // What cannot be removed is told.
    let fh = delegated("/i").await;
    let refused = one.nodes().remove(&root, name("no such name"), Some(&fh)).await;
    assert_eq!(refused.unwrap_err().status(), Some(NfsStat::NOENT));
    assert_eq!(read(&one, &fh).await, "x");
    // Nobody goes on keeping what he knows of a file that is there and not vouched for any more.
    let told: Arc<Told> = Arc::default();
    let watcher: Arc<dyn Watcher> = told.clone();
    one.nodes().watch_with(Arc::downgrade(&watcher));
    let other = delegated("/j").await;
    one.nodes().remove(&root, name("j"), Some(&other)).await.unwrap();
    delegated("/j").await;
    one.nodes().remove(&root, name("j"), Some(&fh)).await.unwrap();
    let unguarded = Change { file: fh.clone(), what: What::Unguarded };
    eventually("it is told", || told.0.lock().unwrap().contains(&unguarded)).await;
    assert!(told.0.lock().unwrap().iter().all(|change| change.file != other), "that is gone");
    read(&one, &fh).await;

    // One that is open is given back when the server asks, after the open was told to it.
    let alone = open(one.nodes(), &fh).await.unwrap().io;
    one.nodes().remove(&root, name("i"), Some(&fh)).await.unwrap();
    eventually("it is given back", || one.nodes().delegations_held() == 0).await;
    alone.forget_kept();
    assert_eq!(alone.read(0, 9).await.unwrap(), "x");
    alone.close().await.unwrap();
}

/// What a WRITE or SETATTR tells of a delegated file is believed, and is what the server would tell
/// then, whatever else this client does to the file at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changes_tell_what_they_made() {
    let cluster = Cluster::with(delegates_to_write(Options::default())).await;
    let one = client(&cluster).await;
    let nodes = one.nodes().clone();
    one.write_file("/f", 0o644, Bytes::from_static(b"first")).await.unwrap();
    let fh = handle(&one, "/f").await;
    let io = nodes.open_node(&fh, writing()).await.unwrap().io;
    let put = async |at: u64| {
        io.write(at, 1, &Source::bytes(Bytes::from_static(b"x"))).await.unwrap();
    };
    put(99).await;
    io.flush().await.unwrap();
    let before = count(&cluster, "");
    assert_eq!(nodes.attrs_known(&fh).map(|known| known.attrs.size), Some(Some(100)));
    let mode = Attrs { mode: Some(0o600), ..Attrs::default() };
    nodes.setattr(&fh, Stateid::ANONYMOUS, mode).await.unwrap();
    let known = nodes.vouched_attrs(&fh).await.unwrap().attrs;
    assert_eq!((known.size, known.mode), (Some(100), Some(0o600)));
    assert_eq!(count(&cluster, ""), before + 4, "SEQUENCE, PUTFH, SETATTR, GETATTR");

    for round in 0..100_u64 {
        let mut tasks = JoinSet::new();
        for n in 0..4_u64 {
            let (nodes, fh, io) = (nodes.clone(), fh.clone(), io.clone());
            tasks.spawn(async move {
                if n == 3 {
                    let time = NfsTime { seconds: i64::try_from(round).unwrap(), nseconds: 0 };
                    let set = Some(SetTime::ToClient(time));
                    let times = Attrs { time_modify_set: set, ..Attrs::default() };
                    nodes.setattr(&fh, Stateid::ANONYMOUS, times).await.unwrap();
                    return;
                }
                let data = Source::bytes(Bytes::from_static(b"y"));
                io.write(100 + round * 7 + n, 1, &data).await.unwrap();
                if n == 0 {
                    io.commit().await.unwrap()
                } else {
                    io.flush().await.unwrap()
                };
            });
        }
        while let Some(done) = tasks.join_next().await {
            done.unwrap();
        }
        io.commit().await.unwrap();
        let known = nodes.vouched_attrs(&fh).await.unwrap().attrs;
        let told = nodes.getattr(&fh, NODE_ATTRS).await.unwrap();
        let of = |attrs: &Attrs| (attrs.size, attrs.change, attrs.time_modify, attrs.mode);
        assert_eq!(of(&known), of(&told), "round {round}");
    }
    io.close().await.unwrap();
}
