//! Changes of names whose reply is lost with the session are made exactly once.

use std::collections::BTreeMap;

use weft_client::{ClientError, fs::Client, node::OpenOptions};
use weft_nfs::{Component, FileHandle, NfsStat, OpNum};

use crate::fake::{Fake, Fault, Node};

/// A server with two files `a` and `b`, and a client of it.
struct Names {
    fake: Fake,
    client: Client,
}

fn name(name: &str) -> Component {
    Component(name.to_owned().into())
}

impl Names {
    async fn start() -> Names {
        let fake = Fake::start(vec![]).await;
        let client = Client::connect(fake.addr, Default::default()).await.unwrap();
        let names = Names { fake, client };
        for file in ["a", "b"] {
            names.make(file).await.unwrap();
        }
        names
    }

    async fn make(&self, file: &str) -> Result<FileHandle, ClientError> {
        let root = self.root().await;
        let options =
            OpenOptions { exclusive: true, truncate: false, ..OpenOptions::replace(0o644) };
        let opened = self.client.nodes().open(&root, name(file), options).await?;
        opened.io.close().await?;
        Ok(opened.node.fh)
    }

    async fn root(&self) -> FileHandle {
        self.client.nodes().root().await.unwrap().fh
    }

    async fn file(&self, file: &str) -> FileHandle {
        self.client.nodes().lookup(&self.root().await, name(file)).await.unwrap().fh
    }

    /// The numbers of the files that there are, by name.
    fn all(&self) -> BTreeMap<String, u64> {
        let state = self.fake.lock();
        let Some(Node::Dir(names)) = state.nodes.get(&1) else { panic!("no root") };
        names.iter().map(|(name, ino)| (String::from_utf8_lossy(name).into(), *ino)).collect()
    }
}

fn faults(op: OpNum) -> [Vec<Fault>; 4] {
    let (before, after) = (Fault::DropBeforeAndForget(op), Fault::DropAfterAndForget(op));
    [vec![before], vec![after], vec![before, before], vec![before, after]]
}

#[tokio::test]
async fn an_exclusive_create_makes_its_file_once() {
    for faults in faults(OpNum::OPEN) {
        let names = Names::start().await;
        faults.iter().for_each(|fault| names.fake.fault(*fault));
        names.make("new").await.unwrap_or_else(|e| panic!("{faults:?}: {e}"));
        let again = names.make("new").await.unwrap_err();
        assert_eq!(again.status(), Some(NfsStat::EXIST), "{faults:?}");
    }
}

#[tokio::test]
async fn a_name_is_removed_once() {
    for faults in faults(OpNum::REMOVE) {
        let names = Names::start().await;
        let (root, file) = (names.root().await, names.file("a").await);
        faults.iter().for_each(|fault| names.fake.fault(*fault));
        let removed = names.client.nodes().remove(&root, name("a"), Some(&file)).await;
        removed.unwrap_or_else(|e| panic!("{faults:?}: {e}"));
        assert_eq!(names.all().into_keys().collect::<Vec<_>>(), ["b"], "{faults:?}");
        let again = names.client.nodes().remove(&root, name("a"), Some(&file)).await;
        assert_eq!(again.unwrap_err().status(), Some(NfsStat::NOENT), "{faults:?}");
    }
}

#[tokio::test]
async fn a_file_gets_its_new_name_once() {
    for faults in faults(OpNum::RENAME) {
        let names = Names::start().await;
        let (root, file, before) = (names.root().await, names.file("a").await, names.all());
        faults.iter().for_each(|fault| names.fake.fault(*fault));
        let (from, to) = ((&root, name("a")), (&root, name("b")));
        let renamed = names.client.nodes().rename(from, to, Some(&file)).await;
        renamed.unwrap_or_else(|e| panic!("{faults:?}: {e}"));
        assert_eq!(names.all(), BTreeMap::from([("b".to_owned(), before["a"])]), "{faults:?}");
    }
}

#[tokio::test]
async fn a_file_gets_one_more_name_once() {
    for faults in faults(OpNum::LINK) {
        let names = Names::start().await;
        let (root, file) = (names.root().await, names.file("a").await);
        faults.iter().for_each(|fault| names.fake.fault(*fault));
        let linked = names.client.nodes().link(&file, &root, name("c")).await;
        linked.unwrap_or_else(|e| panic!("{faults:?}: {e}"));
        let all = names.all();
        assert_eq!(all["a"], all["c"], "{faults:?}");
        let again = names.client.nodes().link(&file, &root, name("b")).await;
        assert_eq!(again.unwrap_err().status(), Some(NfsStat::EXIST), "{faults:?}");
    }
}

/// A removal without a known file returns the unknown outcome as an error.
#[tokio::test]
async fn what_cannot_be_known_is_an_error() {
    let names = Names::start().await;
    let root = names.root().await;
    names.fake.fault(Fault::DropAfterAndForget(OpNum::REMOVE));
    let removed = names.client.nodes().remove(&root, name("a"), None).await.unwrap_err();
    assert!(matches!(removed, ClientError::OutcomeUnknown { op: OpNum::REMOVE }), "{removed}");
}
