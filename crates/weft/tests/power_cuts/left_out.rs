//! Each sync of ours is needed: with it left out a cut loses what was promised, and the checks here
//! see it. Where another sync covers it, that is shown too (`docs/durability.md` has the table).

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use serde_json::Value;
use weft_store::objects::{ObjectId, ObjectStore, ObjectStoreOptions, REMOVED};

use super::disks::{Cut, Fs};
use super::support::{changes, until};
use super::syncs::Syncs;
use super::{PATIENCE, Server, env};

/// What happens before the cut.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Until {
    /// A first start: it serves.
    Serves,
    /// Files were written and names changed.
    Written,
    /// A file was removed, and its objects.
    Removed,
}

/// What becomes of the promise when the sync is left out.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Without {
    /// It is broken.
    Broken,
    /// Another sync keeps it on ext4 and XFS.
    Covered,
}

struct Row {
    what: &'static str,
    /// Paths below the server's directory that are not synced.
    pattern: &'static str,
    cut_after: Until,
    without: Without,
}

const fn row(what: &'static str, pattern: &'static str, cut_after: Until, without: Without) -> Row {
    Row { what, pattern, cut_after, without }
}

use Until::{Removed, Serves, Written};
use Without::{Broken, Covered};

/// Every sync of ours. Those of the engines' own files, and the journal's, are one row.
const ROWS: &[Row] = &[
    row("engine", "mds/volume/{engine}", Written, Broken),
    row("object", "ds-*/objects/*/*/*", Written, Broken),
    row("object's name: removal", "ds-*/objects/*/*", Removed, Broken),
    row("object's name: new object", "ds-*/objects/*/*", Written, Covered),
    row("directories of objects", "ds-*/objects/*", Written, Covered),
    row("directory of all objects", "ds-*/objects", Written, Covered),
    row("fence log", "ds-*/fences.log", Removed, Broken),
    row("new fence log", "ds-*/fences.log.new", Serves, Broken),
    row("store's identity", "ds-*/identity.new", Serves, Broken),
    row("data server's uuid", "ds-*/server-id.new-*", Serves, Broken),
    row("data server's directory", "ds-*", Serves, Broken),
    row("metadata server's uuid", "mds/server-id.new-*", Serves, Broken),
    row("metadata server's directory", "mds", Serves, Covered),
    row("acknowledged mutations", "mds/volume/acked.new", Serves, Broken),
    row("volume's directory", "mds/volume", Serves, Covered),
    row("cluster secret", "cluster.secret.new-*", Serves, Broken),
    row("endpoints", "endpoints.json.new", Serves, Broken),
    row("directory of it all", ".", Serves, Broken),
];

/// See the module. The long run takes both file systems and both engines.
#[test]
fn each_sync_is_needed() {
    let long = env("WEFT_SYNCS").is_some();
    let mut wrong = Vec::new();
    for fs in if long { &Fs::ALL[..] } else { &[Fs::Xfs] } {
        for engine in if long { &["fjall", "redb"][..] } else { &["fjall"] } {
            assert_eq!(without("nothing.at.all", Serves, *fs, engine), Ok(()));
            assert_eq!(without("nothing.at.all", Written, *fs, engine), Ok(()));
            assert_eq!(without("nothing.at.all", Removed, *fs, engine), Ok(()));
            for row in ROWS {
                let seen = without(row.pattern, row.cut_after, *fs, engine);
                let broken = seen.as_ref().err().and_then(|said| said.lines().next());
                let what = row.what;
                eprintln!("{fs:?}, {engine}: without the sync of the {what}: {broken:?}");
                if broken.is_some() != (row.without == Broken) {
                    wrong.push(format!("{fs:?}, {engine}, {what}: {broken:?}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Cuts a server whose syncs of these paths are left out; what was promised and is not kept.
fn without(pattern: &str, cut_after: Until, fs: Fs, engine: &str) -> Result<(), String> {
    let mut server = Server::prepare(fs, true, "auto", &format!("engine = \"{engine}\"\n"));
    if cut_after != Serves {
        // Only what happens from then on is in question.
        server.cluster.start_again();
        server.cluster.kill9();
        server.disks.sync();
    }
    let below = match (engine, pattern) {
        (_, ".") => String::new(),
        ("fjall", "mds/volume/{engine}") => "/mds/volume/fjall/*".to_owned(),
        (_, "mds/volume/{engine}") => "/mds/volume/redb".to_owned(),
        _ => format!("/{pattern}"),
    };
    let data = server.disks.data();
    let pattern = format!("{}{below}", data.display());
    let syncs = Syncs::logged(server.disks.beside("log")).without(&pattern);
    let starting = server.cluster.spawn(&syncs.environment());
    let promise = Promise::make(&mut server, &starting, cut_after, &syncs);
    server.cut(Cut::Copied);
    let left_out = syncs.seen().iter().filter(|sync| sync.left_out).count();
    assert!(left_out > 0 || pattern.contains("nothing.at.all"), "nothing was left out: {pattern}");
    let kept = catch_unwind(AssertUnwindSafe(|| promise.check(&mut server)));
    kept.map_err(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()))
            .unwrap_or_default()
    })
}

/// What the server has said or done before the cut.
struct Promise {
    /// Where it serves.
    ready: Value,
    /// What names it to others, and the files these names are in.
    names: Vec<(PathBuf, Vec<u8>)>,
    /// Files and their bytes.
    files: Vec<(&'static str, Bytes)>,
    /// Objects that were removed, by the directory of their data server.
    removed: Vec<(PathBuf, ObjectId)>,
}

const NAMES: [&str; 6] = [
    "cluster.secret",
    "ds-1/identity",
    "ds-1/server-id",
    "ds-2/identity",
    "ds-2/server-id",
    "mds/server-id",
];

impl Promise {
    fn make(
        server: &mut Server,
        starting: &super::support::cluster::Starting,
        cut_after: Until,
        syncs: &Syncs,
    ) -> Self {
        let ready = server.cluster.serves(starting);
        let data = server.disks.data();
        let read = |name| (data.join(name), std::fs::read(data.join(name)).expect(name));
        let names = NAMES.map(read).into();
        let mut promise = Promise { ready, names, files: Vec::new(), removed: Vec::new() };
        match cut_after {
            Serves => {}
            Written => promise.write(server),
            Removed => promise.remove(server, syncs),
        }
        promise
    }

    fn write(&mut self, server: &Server) {
        let small = Bytes::from(vec![1; 1000]);
        let large = Bytes::from(super::support::pattern(1, 2500 << 10));
        changes::in_runtime(async {
            let client = changes::connect(server.address()).await;
            client.mkdir("/d", 0o755).await.expect("a directory");
            client.write_file("/d/before", 0o644, small.clone()).await.expect("a small file");
            client.rename("/d/before", "/d/small").await.expect("another name");
            client.write_file("/d/large", 0o644, large.clone()).await.expect("a large file");
        });
        self.files = vec![("/d/small", small), ("/d/large", large)];
    }

    /// Removes a file, and waits until its objects are gone and nobody remembers it.
    fn remove(&mut self, server: &Server, syncs: &Syncs) {
        let large = Bytes::from(super::support::pattern(2, 2500 << 10));
        let before = changes::in_runtime(async {
            let client = changes::connect(server.address()).await;
            client.write_file("/large", 0o644, large).await.expect("a large file");
            let objects = objects(&server.disks.data(), &server.disks.beside("live"));
            client.remove("/large").await.expect("removed");
            objects
        });
        assert!(before.len() > 1, "{before:?}");
        let data = server.disks.data();
        let is_of = |path: &Path, name: &str| {
            path.strip_prefix(&data).is_ok_and(|path| path.to_string_lossy().contains(name))
        };
        until("end of the objects", PATIENCE, || {
            let live = objects(&data, &server.disks.beside("live"));
            let seen = syncs.seen();
            let gone =
                seen.iter().rposition(|sync| sync.path.is_dir() && is_of(&sync.path, "objects/"));
            let noted = seen.iter().rposition(|sync| is_of(&sync.path, "mds/volume/"));
            (live.is_empty() && noted > gone).then_some(())
        });
        self.removed = before;
    }

    /// Panics unless all of it holds after the cut.
    fn check(&self, server: &mut Server) {
        for (path, names) in &self.names {
            let now = std::fs::read(path).unwrap_or_default();
            assert!(now == *names, "{} is another one", path.display());
        }
        server.cluster.is_clean();
        for (dir, object) in &self.removed {
            let store = ObjectStore::open(dir, &ObjectStoreOptions::default()).expect("a store");
            assert_eq!(store.epoch(*object), REMOVED, "{object:?} can be made again");
        }
        let starting = server.cluster.spawn(&[]);
        let ready = server.cluster.serves(&starting);
        assert_eq!(ready, self.ready, "endpoints");
        changes::in_runtime(async {
            let client = changes::connect(server.address()).await;
            for (name, bytes) in &self.files {
                let read = client.read_file(name, bytes.len()).await;
                let read = read.unwrap_or_else(|e| panic!("{name}: {e}"));
                assert!(read == *bytes, "{name}: {} of {} bytes", read.len(), bytes.len());
            }
        });
        server.cluster.stop();
        server.cluster.is_clean();
    }
}

/// The objects of all data servers of a server that runs, found in copies of their directories.
fn objects(data: &Path, copies: &Path) -> Vec<(PathBuf, ObjectId)> {
    let mut found = Vec::new();
    for name in ["ds-1", "ds-2"] {
        let copy = copies.join(name);
        let _ = std::fs::remove_dir_all(&copy); // there is none the first time
        std::fs::create_dir_all(copies).expect("a folder");
        let (from, to) = (data.join(name), copies.to_str().expect("plain"));
        let copied = super::support::run("cp", &["-r", from.to_str().expect("plain"), to]);
        assert!(copied.status.success(), "{}", super::support::words(&copied));
        let store = ObjectStore::open(&copy, &ObjectStoreOptions::default()).expect("a store");
        let objects = store.objects(None, usize::MAX).expect("objects");
        found.extend(objects.into_iter().map(|o| (from.clone(), o)));
    }
    found
}
