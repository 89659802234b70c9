//! One client of the library that acts for several users, as a mount does: over one session, each
//! request in the name of who makes it.

use std::sync::atomic::Ordering::Relaxed;

use crate::support::{Cluster, Options};
use bytes::Bytes;
use weft_client::{
    ClientError,
    fs::{Client, ClientOptions, Step},
    io::Source,
    node::{Nodes, OpenOptions, OpenedName, OpenedNode},
    rpc::Credential,
};
use weft_mds::LayoutKind;
use weft_nfs::{
    Attrs, Component, FileType, NfsStat, Stateid, Verifier, access,
    ops::{CreateType, SetxattrOption},
};

const MIB: usize = 1 << 20;

fn name(text: &str) -> Component {
    Component(Bytes::copy_from_slice(text.as_bytes()))
}

fn refused<T>(result: Result<T, ClientError>) -> Option<NfsStat> {
    result.err().and_then(|e| e.status())
}

/// Root's nodes, and those of two users, all of one client; `/home` belongs to the first.
async fn users(cluster: &Cluster) -> (Client, Nodes, Nodes, Nodes) {
    let root = Credential::sys("test", 0, 0, &[]);
    let options = ClientOptions { credential: root, ..ClientOptions::default() };
    let client = Client::connect(cluster.address(), options).await.unwrap();
    let root = client.nodes().clone();
    let top = root.root().await.unwrap();
    let mode = Some(0o755);
    let attrs =
        Attrs { mode, owner: Some(weft_nfs::attr::numeric_owner(1000)), ..Attrs::default() };
    root.create(&top.fh, name("home"), CreateType::Directory, attrs).await.unwrap();
    let user = |uid| root.acting_for(Credential::sys("test", uid, uid, &[]));
    let (one, two) = (user(1000), user(2000));
    (client, root, one, two)
}

/// What a user makes is his, others get at it as the mode says, and data through the metadata
/// server and through data servers go in the name of who opened the file, whoever else uses the
/// session.
#[tokio::test]
async fn each_request_is_its_users() {
    let cluster = Cluster::striped(3).await;
    let (client, _, one, two) = users(&cluster).await;
    let top = one.root().await.unwrap();
    let home = one.lookup(&top.fh, name("home")).await.unwrap().fh;
    let mine = OpenOptions { read: true, ..OpenOptions::replace(0o600) };
    for len in [100, 5 * MIB] {
        let file = name(&format!("private{len}"));
        let OpenedName { node, io, .. } = one.open(&home, file.clone(), mine).await.unwrap();
        let data = Bytes::from(vec![7; len]);
        io.write(0, len as u64, &Source::bytes(data.clone())).await.unwrap();
        io.commit().await.unwrap();
        assert_eq!(io.read(0, len).await.unwrap(), data);
        io.close().await.unwrap();
        assert_eq!(node.attrs.owner, Some(weft_nfs::attr::numeric_owner(1000)));
        let others = two.open(&home, file.clone(), OpenOptions::read()).await;
        assert_eq!(refused(others), Some(NfsStat::ACCESS));
        assert_eq!(
            refused(two.open_node(&node.fh, OpenOptions::read()).await),
            Some(NfsStat::ACCESS)
        );
        assert_eq!(refused(two.remove(&home, file, None).await), Some(NfsStat::ACCESS));
        let asked = two.access(&node.fh, access::READ).await.unwrap();
        assert_eq!((asked.supported, asked.granted), (access::READ, 0));
        let OpenedNode { attrs, io, .. } =
            one.open_node(&node.fh, OpenOptions::read()).await.unwrap();
        assert_eq!(attrs.size, Some(len as u64));
        assert_eq!(io.read(0, len).await.unwrap(), data);
        io.close().await.unwrap();
    }
    client.close().await;
}

/// Our client takes the flexfiles layouts that our server gives: bytes, the end of a file, and what
/// it was made longer by.
#[tokio::test]
async fn files_go_by_flexfiles_layouts() {
    let layout = LayoutKind::FlexFiles;
    let cluster = Cluster::with(Options { data_servers: 3, layout, ..Options::default() }).await;
    let (client, _, one, _) = users(&cluster).await;
    let top = one.root().await.unwrap();
    let home = one.lookup(&top.fh, name("home")).await.unwrap().fh;
    let mine = OpenOptions { read: true, ..OpenOptions::replace(0o600) };
    let OpenedName { node, io, .. } = one.open(&home, name("f"), mine).await.unwrap();
    let data: Vec<u8> = (0..5 * MIB + 11).map(|n| (n % 251) as u8).collect();
    let data = Bytes::from(data);
    io.write(0, data.len() as u64, &Source::bytes(data.clone())).await.unwrap();
    io.commit().await.unwrap();
    io.close().await.unwrap();
    let OpenedNode { attrs, io, .. } = one.open_node(&node.fh, OpenOptions::read()).await.unwrap();
    assert_eq!(attrs.size, Some(data.len() as u64));
    assert_eq!(io.read(0, 6 * MIB).await.unwrap(), data);
    assert!(io.read(data.len() as u64, MIB).await.unwrap().is_empty());
    io.close().await.unwrap();
    let through = &weft_server::compound::Role::core(cluster.mds()).counters;
    assert_eq!((through.bytes_in.load(Relaxed), through.bytes_out.load(Relaxed)), (0, 0));
    client.close().await;
}

/// A walk goes where it saw that it would: a directory whose name became a link's, or another
/// directory's, after it was found is the one that is walked through, and changed.
#[tokio::test]
async fn a_walk_is_led_nowhere_else() {
    let cluster = Cluster::striped(1).await;
    let (client, ..) = users(&cluster).await;
    for dir in ["/home/tree", "/home/tree/a", "/home/tree/b", "/victim", "/victim/c"] {
        client.mkdir(dir, 0o755).await.unwrap();
    }
    for path in ["/home/tree/a/f", "/home/tree/b/f", "/victim/f", "/victim/c/f"] {
        client.write_file(path, 0o644, Bytes::from_static(b"x")).await.unwrap();
    }
    let mut walk = client.walk_tree("/home/tree", true, usize::MAX).await.unwrap();
    let mut seen = Vec::new();
    while let Some(step) = walk.next().await.unwrap() {
        let Step::Entry { path, node, .. } = step else { continue };
        let path = path.to_str().unwrap().to_owned();
        if path == "/home/tree/a" {
            client.rename("/home/tree/a", "/home/moved").await.unwrap();
            client.symlink("/victim", "/home/tree/a").await.unwrap();
        }
        if path == "/home/tree/b" {
            client.rename("/home/tree/b", "/home/moved-too").await.unwrap();
            client.rename("/victim/c", "/home/tree/b").await.unwrap();
        }
        let attrs = Attrs { mode: Some(0o600), ..Attrs::default() };
        client.nodes().setattr(&node.fh, Stateid::ANONYMOUS, attrs).await.unwrap();
        seen.push(path);
    }
    seen.sort();
    let tree = ["/home/tree", "/home/tree/a", "/home/tree/a/f", "/home/tree/b", "/home/tree/b/f"];
    assert_eq!(seen, tree);
    for (path, mode) in [
        ("/home/moved", 0o600),
        ("/home/moved/f", 0o600),
        ("/home/moved-too/f", 0o600),
        ("/victim", 0o755),
        ("/victim/f", 0o644),
        ("/home/tree/b", 0o755),
        ("/home/tree/b/f", 0o644),
    ] {
        assert_eq!(client.stat(path).await.unwrap().mode, Some(mode), "{path}");
    }
    client.close().await;
}

/// Every act on names and attributes by handle does what its operation says.
#[tokio::test]
async fn acts_by_handle() {
    let cluster = Cluster::striped(1).await;
    let (client, root, one, _) = users(&cluster).await;
    let top = root.root().await.unwrap().fh;
    let home = one.lookup(&top, name("home")).await.unwrap().fh;
    let masked = OpenOptions { umask: Some(0o027), ..OpenOptions::replace(0o666) };
    let OpenedName { node: file, io, .. } = one.open(&home, name("f"), masked).await.unwrap();
    assert_eq!(file.attrs.mode, Some(0o640), "RFC 8275 §4");
    io.close().await.unwrap();
    let (linked, _) = one.link(&file.fh, &home, name("g")).await.unwrap();
    assert_eq!(linked.numlinks, Some(2));
    one.rename((&home, name("g")), (&home, name("h")), None).await.unwrap();
    assert_eq!(refused(one.lookup(&home, name("g")).await), Some(NfsStat::NOENT));
    let said = CreateType::Link(Bytes::from_static(b"f"));
    let (link, _) = one.create(&home, name("link"), said, Attrs::default()).await.unwrap();
    assert_eq!(&one.readlink(&link.fh).await.unwrap()[..], b"f");
    let set = Attrs { mode: Some(0o600), ..Attrs::default() };
    assert_eq!(one.setattr(&file.fh, Stateid::ANONYMOUS, set).await.unwrap().mode, Some(0o600));
    for (key, value) in [("a", "1"), ("b", "22")] {
        let value = Bytes::from_static(value.as_bytes());
        one.setxattr(&file.fh, name(key), value, SetxattrOption::CREATE).await.unwrap();
    }
    let again = one.setxattr(&file.fh, name("a"), Bytes::new(), SetxattrOption::CREATE).await;
    assert_eq!(refused(again), Some(NfsStat::EXIST));
    assert_eq!(&one.getxattr(&file.fh, name("b")).await.unwrap()[..], b"22");
    one.removexattr(&file.fh, name("a")).await.unwrap();
    assert_eq!(one.listxattrs(&file.fh).await.unwrap(), [name("b")]);
    let all = one.readdir(&home, (0, Verifier::default()), weft_client::node::NODE_ATTRS);
    let page = all.await.unwrap();
    let mut seen: Vec<_> =
        page.entries.iter().map(|e| (e.name.clone(), e.attrs.file_type)).collect();
    seen.sort_by(|a, b| a.0.0.cmp(&b.0.0));
    let expected = [("f", FileType::REG), ("h", FileType::REG), ("link", FileType::LNK)];
    assert_eq!(seen, expected.map(|(n, kind)| (name(n), Some(kind))));
    assert!(page.eof);
    let space = one.space(&home).await.unwrap();
    assert!(space.total_bytes >= space.free_bytes && space.available_bytes > 0, "{space:?}");
    for gone in ["f", "h", "link"] {
        one.remove(&home, name(gone), None).await.unwrap();
    }
    root.remove(&top, name("home"), None).await.unwrap();
    client.close().await;
}
