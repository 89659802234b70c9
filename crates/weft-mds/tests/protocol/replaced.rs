//! Files that our own client replaces: who may do what with the new one is what the old one said
//! (docs/semantics.md, access control lists).

use std::{
    io::{self, Read},
    sync::mpsc,
};

use tokio::sync::oneshot;
use weft_client::{
    Identity,
    fs::{Client as Putting, ClientOptions, FsError, Upload},
    rpc::Credential,
};
use weft_nfs::{FileHandle, NfsStat, OpArgs, access as bit};

use crate::{
    acl::{NAMED, OTHER, list, may, set, told},
    support::*,
};

/// Rights that are looked at.
const BITS: u32 = bit::READ | bit::MODIFY | bit::EXTEND;
/// Bytes of a file that travels in one request, and of one that does not.
const SIZES: [usize; 2] = [10, 70_000];

async fn connect(cluster: &Cluster, uid: u32, identity: Option<Identity>) -> Putting {
    let credential = Credential::sys("here", uid, uid, &[]);
    let options = ClientOptions { credential, identity, ..ClientOptions::default() };
    Putting::connect(cluster.address(), options).await.unwrap()
}

async fn put(cluster: &Cluster, uid: u32, size: usize, in_place: bool) -> Result<u64, FsError> {
    let client = connect(cluster, uid, None).await;
    let local = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(local.path(), pattern(size as u64)).unwrap();
    let upload = Upload::file(local.path()).unwrap();
    let upload = if in_place { upload.in_place() } else { upload };
    let done = client.put(upload, "/d/f").await;
    client.close().await;
    done
}

async fn find(c: &mut Client) -> FileHandle {
    c.compound().putrootfh().lookup("d").lookup("f").getfh().send().await.ok().fh()
}

/// A file of `OTHER`'s with this mode, and this list if there is one.
async fn make(c: &mut Client, dir: &FileHandle, bits: u32, text: &str) -> FileHandle {
    let made = c.by_user(OTHER).putfh(dir).open_create("f").getfh().send().await.ok();
    let fh = made.fh();
    c.compound().putfh(&fh).op(close(made.stateid())).expect(NfsStat::OK).await;
    assert_eq!(set(c, &fh, OTHER, mode(bits)).await, NfsStat::OK);
    if !text.is_empty() {
        assert_eq!(set(c, &fh, OTHER, list(text)).await, NfsStat::OK, "{text}");
    }
    fh
}

async fn remove_it(c: &mut Client, dir: &FileHandle) {
    c.compound().putfh(dir).op(remove("f")).expect(NfsStat::OK).await;
}

/// A replaced file has the old one's list, entry for entry, and its sticky bit; one that had none
/// inherits nothing. Whoever puts it, and however it travels.
#[tokio::test]
async fn a_replaced_file_keeps_its_list() {
    let cluster = Cluster::with(Options { data_servers: 1, ..Options::default() }).await;
    let mut c = Client::mount(&cluster, "a").await;
    let dir = c.public_dir("d").await;
    let denied = "D::1001:rwax A::OWNER@:rwaxtTcCy A::EVERYONE@:rtcy";
    let named = "A::1001:rwatTncCy";
    let rows = [
        (0o1700, denied, [0, OTHER], (0o1744, 0)),
        (0, named, [NAMED, OTHER], (0, BITS)),
        (0o640, "", [OTHER, NAMED], (0o640, 0)),
        (0o1664, "", [0, OTHER], (0o1664, bit::READ)),
    ];
    let open = "A::EVERYONE@:rwaxD";
    for inheriting in [open, "A::EVERYONE@:rwaxD A:f:1001:rwax A:fi:EVERYONE@:rw"] {
        for (bits, text, users, (mode, rights)) in rows {
            for (uid, size) in users.into_iter().flat_map(|uid| SIZES.map(|size| (uid, size))) {
                let what = format!("{bits:o} {text:?} in {inheriting:?} by {uid}, {size}");
                assert_eq!(set(&mut c, &dir, 0, list(open)).await, NfsStat::OK);
                let old = make(&mut c, &dir, bits, text).await;
                assert_eq!(set(&mut c, &dir, 0, list(inheriting)).await, NfsStat::OK);
                let before = told(&mut c, &old).await;
                assert_eq!(before.0, mode, "{what}");
                // 1001 puts as the owner what it reads as another.
                put(&cluster, uid, size, false).await.expect(&what);
                let new = find(&mut c).await;
                assert_ne!(new, old, "{what}");
                assert_eq!(told(&mut c, &new).await, before, "{what}");
                if uid != NAMED {
                    let may = may(&mut c, &new, NAMED).await;
                    assert_eq!(may & BITS, rights, "{what}");
                }
                remove_it(&mut c, &dir).await;
            }
        }
    }
}

/// A list that allows nobody to write is as a mode that does; a long one that a mode has made
/// longer is kept as well as a short one.
#[tokio::test]
async fn lists_that_let_nobody_write_and_long_ones() {
    let cluster = Cluster::with(Options { data_servers: 1, ..Options::default() }).await;
    let mut c = Client::mount(&cluster, "a").await;
    let dir = c.public_dir("d").await;
    let hundreds: String = (0..500).map(|n| format!("A::{}:rwatcy ", 10_000 + n)).collect();
    for size in SIZES {
        let old = make(&mut c, &dir, 0o644, "D::1001:w A::1001:rx A::EVERYONE@:ratcy").await;
        let said = put(&cluster, 0, size, false).await.unwrap_err().to_string();
        assert!(said.contains("is read-only"), "{said}");
        assert_eq!(find(&mut c).await, old);
        remove_it(&mut c, &dir).await;
        let old = make(&mut c, &dir, 0o644, &hundreds).await;
        assert_eq!(set(&mut c, &old, OTHER, mode(0o660)).await, NfsStat::OK);
        let before = told(&mut c, &old).await;
        put(&cluster, OTHER, size, true).await.unwrap();
        assert_eq!((find(&mut c).await, told(&mut c, &old).await), (old.clone(), before.clone()));
        put(&cluster, OTHER, size, false).await.unwrap();
        let new = find(&mut c).await;
        assert_ne!(new, old);
        assert_eq!(told(&mut c, &new).await, before);
        remove_it(&mut c, &dir).await;
    }
}

/// Says when it is asked for bytes, and has none until the other end is dropped.
struct Silent(Option<oneshot::Sender<()>>, mpsc::Receiver<()>);

impl Read for Silent {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        if let Some(asked) = self.0.take() {
            asked.send(()).unwrap();
        }
        let ended = self.1.recv();
        assert!(ended.is_err());
        Ok(0)
    }
}

/// What a dead put has left is written over by the same client, also where the list does not let
/// it write.
#[tokio::test]
async fn a_dead_put_with_a_list_stands_in_nobodys_way() {
    let cluster = Cluster::with(Options { data_servers: 1, ..Options::default() }).await;
    let mut c = Client::mount(&cluster, "a").await;
    let dir = c.public_dir("d").await;
    let old = make(&mut c, &dir, 0, "A::1001:rwatTncCy").await;
    let before = told(&mut c, &old).await;
    let identity = Identity::unique().unwrap();
    let dead = connect(&cluster, OTHER, Some(identity.clone())).await;
    let (asked, is_asked) = oneshot::channel();
    let (end, ended) = mpsc::channel();
    tokio::select! {
        put = dead.put(Upload::stream(Silent(Some(asked), ended), 0o644), "/d/f") => {
            panic!("{put:?}")
        }
        asked = is_asked => asked.unwrap(),
    }
    drop(dead);
    let client = connect(&cluster, OTHER, Some(identity)).await;
    let empty = Upload::stream(io::empty(), 0o644);
    let put = client.put(empty, "/d/f").await;
    drop(end);
    assert_eq!(put.unwrap(), 0);
    let new = find(&mut c).await;
    assert!(new != old && told(&mut c, &new).await == before);
    let ask = OpArgs::Readdir(readdir(0, 1 << 16, &[]));
    let names = c.compound().putfh(&dir).op(ask).send().await.ok().readdir();
    assert_eq!(names.entries.len(), 1, "{names:?}");
    client.close().await;
}
