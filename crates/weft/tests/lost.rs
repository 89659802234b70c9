//! What data servers lose is said, by the path of the file, and never read as zeros.

mod support;

use std::{fs, path::Path, process::Output, time::Duration};

use support::{
    cluster::{Cluster, Options},
    pattern, words,
};

const LARGE: usize = (5 << 20) + 12_345;
const PATIENCE: Duration = Duration::from_secs(30);

fn start() -> Cluster {
    Cluster::start(Options {
        data_servers: 2,
        lease_seconds: 2,
        grace_seconds: 1,
        ..Options::default()
    })
}

/// Makes a file of this length, with bytes of this seed.
fn put(cluster: &Cluster, dir: &Path, name: &str, (seed, length): (u64, usize)) {
    let local = dir.join("local");
    fs::write(&local, pattern(seed, length)).unwrap();
    let put = cluster.weft(&["put", local.to_str().unwrap(), name]);
    assert!(put.status.success(), "put {name}: {}{}", words(&put), cluster.log());
}

fn get(cluster: &Cluster, dir: &Path, name: &str) -> (Output, Option<Vec<u8>>) {
    let copy = dir.join("copy");
    let _ = fs::remove_file(&copy);
    let got = cluster.weft(&["get", name, copy.to_str().unwrap()]);
    (got, fs::read(&copy).ok())
}

fn is_lost(cluster: &Cluster, dir: &Path, name: &str) {
    let (got, copy) = get(cluster, dir, name);
    let text = words(&got);
    assert!(!got.status.success() && copy.is_none() && text.contains(name), "{name}: {text}");
    assert!(text.contains("input/output error"), "{text}");
}

fn is_there(cluster: &Cluster, dir: &Path, name: &str, (seed, length): (u64, usize)) {
    let (got, copy) = get(cluster, dir, name);
    assert!(got.status.success(), "{name}: {}{}", words(&got), cluster.log());
    assert!(copy.unwrap() == pattern(seed, length), "{name}");
}

/// Exit status and output of a command about the cluster's directory.
fn about(cluster: &Cluster, command: &[&str]) -> (Option<i32>, String) {
    let data = cluster.data_dir();
    let done = cluster.weft(&[command, &["--dir", data.to_str().unwrap()]].concat());
    (done.status.code(), words(&done))
}

/// Removes all objects of a data server, as the check of a bad disk does.
fn lose_objects(cluster: &Cluster, id: u32) {
    let objects = cluster.data_dir().join(format!("ds-{id}/objects"));
    fs::remove_dir_all(&objects).unwrap();
    fs::create_dir(&objects).unwrap();
}

/// All objects of one data server are gone: files that had bytes there are errors for readers and
/// writers, named by both checks; others, and new ones, are as ever; what is removed is forgotten.
#[test]
fn lost_objects_are_errors_and_named() {
    let (mut cluster, dir) = (start(), tempfile::tempdir().unwrap());
    put(&cluster, dir.path(), "/small", (1, 100));
    put(&cluster, dir.path(), "/large", (2, LARGE));
    let folder = cluster.weft(&["mkdir", "/folder"]);
    assert!(folder.status.success(), "{}", words(&folder));
    put(&cluster, dir.path(), "/folder/too", (3, LARGE));
    let (code, text) = about(&cluster, &["check"]);
    assert!(code == Some(0) && text.contains("clean"), "{code:?} {text}");
    cluster.stop();
    cluster.is_clean();
    lose_objects(&cluster, 1);
    let (code, text) = about(&cluster, &["fsck"]);
    assert_eq!(code, Some(1), "{text}");
    for name in ["/large", "/folder/too"] {
        assert!(text.contains(&format!("{name}: data server 1: lost bytes")), "{text}");
    }
    assert!(!text.contains("/small") && text.contains("2 findings"), "{text}");
    cluster.start_again();
    is_there(&cluster, dir.path(), "/small", (1, 100));
    is_lost(&cluster, dir.path(), "/large");
    is_lost(&cluster, dir.path(), "/folder/too");
    put(&cluster, dir.path(), "/new", (4, LARGE));
    is_there(&cluster, dir.path(), "/new", (4, LARGE));
    let (code, text) = about(&cluster, &["check"]);
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("/large: data server 1: lost bytes"), "{text}");
    assert!(text.contains("2 findings") && !text.contains("/new"), "{text}");
    let (code, json) = about(&cluster, &["check", "--json"]);
    assert_eq!(code, Some(1), "{json}");
    assert!(
        json.contains(r#""finding":"damaged""#) && json.contains(r#""path":"/large""#),
        "{json}"
    );
    for name in ["/large", "/folder/too"] {
        let removed = cluster.weft(&["rm", name]);
        assert!(removed.status.success(), "{}", words(&removed));
    }
    let (code, text) = about(&cluster, &["check"]);
    assert_eq!(code, Some(0), "{text}");
    let strange = cluster.data_dir().join("ds-2/objects/00/00/00000001-00000000000000f0");
    fs::create_dir_all(strange.parent().unwrap()).unwrap();
    fs::write(&strange, "nobody's").unwrap();
    let (code, text) = about(&cluster, &["check"]);
    assert!(code == Some(1) && text.contains("belongs to no file"), "{text}");
}

/// The directory of a data server is lost for good: what goes is listed, nothing is accepted
/// without a word, and with another directory in its place the files concerned are errors.
#[test]
fn a_lost_directory_is_accepted_by_a_command() {
    let (mut cluster, dir) = (start(), tempfile::tempdir().unwrap());
    put(&cluster, dir.path(), "/large", (2, LARGE));
    put(&cluster, dir.path(), "/small", (1, 100));
    cluster.stop();
    fs::remove_dir_all(cluster.data_dir().join("ds-2")).unwrap();
    let (code, text) = about(&cluster, &["fsck"]);
    assert!(code == Some(1) && text.contains("data server 2: its directory, "), "{text}");
    for yes in [false, true] {
        let command = ["accept-loss", "--data-server", "2", "--yes"];
        let (code, text) = about(&cluster, &command[..3 + usize::from(yes)]);
        assert!(code == Some(0) && text.contains("/large: data server 2: lost bytes"), "{text}");
        assert!(!text.contains("/small") && text.contains("1 files lose bytes"), "{text}");
        assert_eq!(text.contains("accepted: start"), yes, "{text}");
    }
    let (code, text) = about(&cluster, &["fsck"]);
    assert!(code == Some(1) && text.contains("/large: data server 2: lost bytes"), "{text}");
    cluster.start_again();
    is_lost(&cluster, dir.path(), "/large");
    is_there(&cluster, dir.path(), "/small", (1, 100));
    put(&cluster, dir.path(), "/new", (4, LARGE));
    is_there(&cluster, dir.path(), "/new", (4, LARGE));
    let (code, text) = about(&cluster, &["check"]);
    assert!(code == Some(1) && text.contains("/large: data server 2: lost bytes"), "{text}");
    let removed = cluster.weft(&["rm", "/large"]);
    assert!(removed.status.success(), "{}", words(&removed));
    cluster.stop();
    cluster.is_clean();
}

/// A replicated file that has lost a copy is read from another one: that is what all checks say of
/// it, and nobody is told that bytes are lost. With its last copy they are.
#[test]
fn a_lost_copy_is_no_lost_file() {
    let (mut cluster, dir) = (start(), tempfile::tempdir().unwrap());
    for arguments in [
        &["mkdir", "/models"][..],
        &["layout", "set", "/models", "--distribution", "replicated", "--copies", "2"],
    ] {
        let done = cluster.weft(arguments);
        assert!(done.status.success(), "{arguments:?}: {}", words(&done));
    }
    put(&cluster, dir.path(), "/models/m", (5, LARGE));
    let alike = || about(&cluster, &["stat", "/models/m"]).1.contains("alike");
    support::until("copies that are alike", PATIENCE, || alike().then_some(()));
    cluster.stop();
    cluster.is_clean();
    lose_objects(&cluster, 1);
    let is_named = |command: &[&str], code: i32| {
        let (found, text) = about(&cluster, command);
        assert_eq!(found, Some(code), "{command:?}: {text}");
        assert!(text.contains("a copy is lost, another one is read"), "{command:?}: {text}");
        assert!(!text.contains("lost bytes"), "{command:?}: {text}");
        text
    };
    is_named(&["fsck"], 1);
    let text = is_named(&["accept-loss", "--data-server", "1"], 0);
    let counts = "0 files lose bytes, 1 replicated files lose a copy and are read from another";
    assert!(text.contains(counts), "{text}");
    cluster.start_again();
    is_there(&cluster, dir.path(), "/models/m", (5, LARGE));
    let (code, text) = about(&cluster, &["check"]);
    assert!(code == Some(1) && text.contains("a copy is lost, another one is read"), "{text}");
    assert!(!text.contains("lost bytes"), "{text}");
    cluster.stop();
    lose_objects(&cluster, 2);
    let (code, text) = about(&cluster, &["fsck"]);
    assert!(code == Some(1) && text.contains("/models/m: data server 1: lost bytes"), "{text}");
    assert!(text.contains("/models/m: data server 2: lost bytes"), "{text}");
    assert!(!text.contains("a copy is lost"), "{text}");
}

/// A directory that is not given, is nobody's or is another's is a finding, and a volume that is
/// not there is another status.
#[test]
fn directories_are_compared_with_the_volume() {
    let (mut cluster, dir) = (start(), tempfile::tempdir().unwrap());
    put(&cluster, dir.path(), "/large", (2, LARGE));
    cluster.stop();
    let data = cluster.data_dir();
    let path = |name: &str| data.join(name).to_str().unwrap().to_owned();
    let fsck = |dirs: &[String]| {
        let mut arguments = vec!["fsck".to_owned(), "--mds".into(), path("mds")];
        arguments.extend(dirs.iter().flat_map(|dir| ["--ds".to_owned(), dir.clone()]));
        let done = cluster.weft(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
        (done.status.code(), words(&done))
    };
    assert_eq!(fsck(&[path("ds-1"), path("ds-2")]).0, Some(0));
    let (code, text) = fsck(&[path("ds-1")]);
    assert!(code == Some(1) && text.contains("data server 2: its directory, "), "{text}");
    let other = dir.path().join("other");
    fs::create_dir_all(other.join("objects")).unwrap();
    for file in ["identity", "fences.log", "volumes"] {
        fs::copy(data.join("ds-1").join(file), other.join(file)).unwrap();
    }
    let identity = fs::read_to_string(other.join("identity")).unwrap();
    assert!(identity.contains("uuid "), "{identity}");
    let (code, text) = fsck(&[other.to_str().unwrap().to_owned(), path("ds-2")]);
    assert!(code == Some(1) && text.contains("/large: data server 1: lost bytes"), "{text}");
    fs::rename(data.join("ds-1"), data.join("kept")).unwrap();
    fs::rename(data.join("ds-2"), data.join("ds-1")).unwrap();
    fs::rename(data.join("kept"), data.join("ds-2")).unwrap();
    let (code, text) = about(&cluster, &["fsck"]);
    assert!(code == Some(1) && text.contains("is the directory of data server"), "{text}");
    let nowhere = cluster.weft(&["fsck", "--dir", dir.path().to_str().unwrap()]);
    assert_eq!(nowhere.status.code(), Some(2), "{}", words(&nowhere));
}
