//! `weft cp` as people run it: between two clusters, and between a cluster and this machine.

mod support;

use std::{
    fs,
    io::Write,
    os::unix::{
        fs::{FileExt, MetadataExt, PermissionsExt, symlink},
        process::CommandExt,
    },
    path::Path,
    time::{Duration, SystemTime},
};

use support::{
    bench::{Bench, PATIENCE, ended},
    servers::{Plan, Servers, ds},
};

const MIB: u64 = 1 << 20;

/// What copies do, on two clusters.
#[test]
fn copies() {
    let (one, other) = (Bench::start(), Bench::start());
    trees_come_back_as_they_were(&one, &other);
    modes_and_times_are_kept(&one, &other);
    holes_stay_holes(&one, &other);
    what_fails_is_told_and_the_rest_goes_on(&one);
    what_may_not_be_read_is_told(&one);
    copies_are_verified(&one, &other);
    copies_are_resumed(&one);
    the_umask_counts(&one);
    nothing_into_itself(&one);
    set_id_bits_need_their_owner(&one);
    servers_copy_within_a_cluster(&one, &other);
    links_lead_nowhere_out(&one, &other);
    patterns_and_streams(&one);
    trees_have_a_depth(&one);
    an_interrupted_copy_leaves_whole_files(&one);
}

fn url(bench: &Bench, path: &str) -> String {
    format!("weft://127.0.0.1:{}{path}", bench.cluster.port())
}

/// A tree of this machine with files of many sizes, links and an empty directory.
fn tree(bench: &Bench, name: &str) -> String {
    let tree = bench.local(name);
    for dir in ["a/b/c", "many", "empty"] {
        fs::create_dir_all(format!("{tree}/{dir}")).expect("folders");
    }
    for n in 0..300 {
        bench.file(&format!("{name}/many/f{n}"), n, 100 * n as usize);
    }
    for (n, size) in [0, 1, 65_536, 65_537, 3 << 20, 9 << 20].into_iter().enumerate() {
        bench.file(&format!("{name}/a/b/c/size{n}"), n as u64 + 1, size);
    }
    symlink("b/c/size1", format!("{tree}/a/link")).expect("a link");
    symlink("/nowhere", format!("{tree}/dangling")).expect("a link");
    tree
}

fn same(a: &str, b: &str) {
    let compared = support::run("diff", &["-r", "--no-dereference", a, b]);
    assert!(compared.status.success(), "{}", support::words(&compared));
}

/// Into a cluster, to another, within it, and back.
fn trees_come_back_as_they_were(one: &Bench, other: &Bench) {
    let tree = tree(one, "tree");
    one.ok(&["cp", "-r", &tree, ":/"]);
    assert_eq!(one.names("/tree"), ["a", "dangling", "empty", "many"]);
    one.ok(&["cp", "-r", ":/tree", &url(other, "/there")]);
    other.ok(&["cp", "-r", ":/there", ":/again"]);
    one.ok(&["cp", "-r", &url(other, "/again"), &one.local("back")]);
    same(&tree, &one.local("back"));
    // Onto what is there already: every file is replaced by itself.
    one.ok(&["cp", "-r", &url(other, "/again/."), &one.local("back")]);
    same(&tree, &one.local("back"));
    other.ok(&["rm", "-r", "/there", "/again"]);
    one.ok(&["rm", "-r", "/tree"]);
    assert_eq!(one.clients() + other.clients(), 0, "clients stay");
}

/// `-p` keeps modes and times, of directories too, and as root the owner.
fn modes_and_times_are_kept(one: &Bench, other: &Bench) {
    let dir = one.local("kept");
    fs::create_dir(&dir).expect("a folder");
    let long_ago = SystemTime::UNIX_EPOCH + Duration::new(1_000_000_000, 123_456_789);
    for (n, (mode, size)) in [(0o640, 10), (0o4755, 100_000), (0o400, 2 << 20)].iter().enumerate() {
        let path = one.file(&format!("kept/f{n}"), n as u64, *size);
        let file = fs::File::open(&path).expect("a file");
        if support::is_root() {
            std::os::unix::fs::chown(&path, Some(1234), Some(4321)).expect("an owner");
        }
        file.set_permissions(fs::Permissions::from_mode(*mode)).expect("a mode");
        file.set_modified(long_ago).expect("a time");
    }
    fs::set_permissions(&dir, fs::Permissions::from_mode(0o555)).expect("a mode");
    fs::File::open(&dir).expect("it").set_modified(long_ago).expect("a time");
    one.ok(&["cp", "-rp", &dir, ":/kept"]);
    one.ok(&["cp", "-r", "-p", ":/kept", &url(other, "/kept")]);
    one.ok(&["cp", "-rp", &url(other, "/kept"), &one.local("kept-back")]);
    for name in ["", "f0", "f1", "f2"] {
        let facts = |top: &str| {
            let m = fs::metadata(Path::new(&one.local(top)).join(name)).expect("it is there");
            (m.mode(), m.mtime(), m.mtime_nsec(), m.uid(), m.gid(), m.is_dir() || m.len() > 0)
        };
        assert_eq!(facts("kept-back"), facts("kept"), "{name}");
    }
    same(&dir, &one.local("kept-back"));
}

/// A file with holes needs no more disk at a server, and none more when it comes back.
fn holes_stay_holes(one: &Bench, other: &Bench) {
    let path = one.local("holes");
    let file = fs::File::create(&path).expect("a file");
    for (n, at) in [20 * MIB + 5, 90 * MIB].into_iter().enumerate() {
        file.write_all_at(&support::pattern(n as u64, 3 << 20), at).expect("it is written");
    }
    file.set_len(256 * MIB + 7).expect("a size");
    one.ok(&["cp", "--verify", &path, ":/holes"]);
    one.ok(&["cp", "--verify", ":/holes", &url(other, "/holes")]);
    one.ok(&["cp", "--verify", &url(other, "/holes"), &one.local("holes-back")]);
    let (before, after) = (fs::read(&path), fs::read(one.local("holes-back")));
    assert!(before.expect("it") == after.expect("its copy"));
    let blocks = fs::metadata(one.local("holes-back")).expect("it").blocks() * 512;
    assert!(blocks < 40 * MIB, "{blocks} bytes of disk");
    for bench in [one, other] {
        let shown = bench.ok(&["stat", "--json", "/holes"]);
        let shown: serde_json::Value = serde_json::from_slice(&shown).expect("JSON");
        assert_eq!(shown["size"].as_u64(), Some(256 * MIB + 7));
        let used = shown["space_used"].as_u64().expect("a number");
        assert!(used < 40 * MIB, "{used} bytes at the servers");
        bench.ok(&["rm", "/holes"]);
    }
}

/// A fifo and a directory in a file's way: each is named, all else is copied.
fn what_fails_is_told_and_the_rest_goes_on(one: &Bench) {
    let dir = one.local("mixed");
    fs::create_dir_all(format!("{dir}/sub")).expect("folders");
    one.file("mixed/before", 1, 10);
    one.file("mixed/sub/after", 2, 10);
    one.file("mixed/inway", 3, 10);
    assert!(support::run("mkfifo", &[&format!("{dir}/fifo")]).status.success());
    one.ok(&["mkdir", "-p", "/mixed/inway"]);
    let said = one.fails(1, &["cp", "-r", &dir, ":/"]);
    assert!(said.contains("mixed/fifo: is a fifo, not a regular file: not copied"), "{said}");
    assert!(said.contains("/mixed/inway: is a directory"), "{said}");
    assert!(said.contains("2 failures, as told above; 2 files are copied"), "{said}");
    assert_eq!(one.names("/mixed"), ["before", "inway", "sub"]);
    assert_eq!(one.names("/mixed/sub"), ["after"]);
    one.ok(&["rm", "-r", "/mixed"]);
    for (status, arguments, words) in [
        (1, &["cp", &dir, ":/x"][..], "mixed: is a directory (cp -r copies it)"),
        (1, &["cp", "gone", ":/x"], "gone: no such file or directory"),
        (1, &["cp", ":/gone", "x"], "/gone: no such file or directory"),
        (1, &["cp", ":/gone", "nodir/x"], "/gone: no such file or directory"),
        (1, &["cp", &dir, "elsewhere"], "neither is on a cluster"),
        (1, &["cp", "-r", &dir, ":/new", ":/nodir"], "/nodir: not a directory, and there are"),
        (1, &["cp", "a", "weft://127.0.0.1:1/x?patience=1"], "no server at 127.0.0.1:1"),
        (1, &["cp", "a", "weft:///x"], "weft:///x"),
        (2, &["cp", "a"], "required arguments were not provided"),
    ] {
        let said = one.fails(status, arguments);
        assert!(said.contains(words), "weft {arguments:?}: {said}");
    }
}

/// New files and directories lose what the umask says, on either side, and with -p nothing;
/// standard input that is closed is no empty file.
fn the_umask_counts(one: &Bench) {
    let run = |umask: &str, words: &str| {
        let program = support::weft_binary();
        let script = format!("umask {umask}; {} {words}", program.display());
        let mut shell = std::process::Command::new("sh");
        shell.args(["-c", &script]).current_dir(one.dir.path());
        let server = format!("127.0.0.1:{}", one.cluster.port());
        let said = shell.env("WEFT_SERVER", server).output().expect("a shell");
        (said.status.success(), String::from_utf8_lossy(&said.stderr).into_owned())
    };
    let dir = one.local("masked");
    fs::create_dir(&dir).expect("a folder");
    let file = one.file("masked/file", 1, 10);
    fs::set_permissions(&file, fs::Permissions::from_mode(0o664)).expect("a mode");
    fs::set_permissions(&dir, fs::Permissions::from_mode(0o775)).expect("a mode");
    for (umask, file_mode, plain_mode, dir_mode) in
        [("077", 0o600, 0o600, 0o700), ("002", 0o664, 0o664, 0o775), ("027", 0o640, 0o640, 0o750)]
    {
        one.ok(&["mkdir", "/m"]);
        for words in [
            "put masked/file /m/put",
            "cp masked/file :/m/cp",
            "cp -r masked :/m/tree",
            "mkdir /m/dir",
            "touch /m/touch",
            "put - /m/stdin < masked/file",
            "cp -rp masked :/m/kept",
            "get /m/kept/file masked-got",
            "cp -r :/m/kept masked-back",
        ] {
            let (ok, said) = run(umask, words);
            assert!(ok, "{words}: {said}");
        }
        let mode = |path: &str| {
            let told = one.ok(&["stat", "--json", path]);
            let told: serde_json::Value = serde_json::from_slice(&told).expect("JSON");
            told["mode"].as_str().expect("words").to_owned()
        };
        for (path, is_dir, wanted) in [
            ("/m/put", false, file_mode),
            ("/m/cp", false, file_mode),
            ("/m/tree", true, dir_mode),
            ("/m/tree/file", false, file_mode),
            ("/m/dir", true, dir_mode),
            ("/m/touch", false, plain_mode),
            ("/m/stdin", false, plain_mode),
            ("/m/kept", true, 0o775),
            ("/m/kept/file", false, 0o664),
        ] {
            assert_eq!(mode(path), words_of(is_dir, wanted), "umask {umask}: {path}");
        }
        let local =
            |name: &str| fs::metadata(one.local(name)).expect("it").permissions().mode() & 0o777;
        assert_eq!(
            (local("masked-got"), local("masked-back"), local("masked-back/file")),
            (file_mode, dir_mode, file_mode)
        );
        fs::remove_file(one.local("masked-got")).expect("it");
        fs::remove_dir_all(one.local("masked-back")).expect("it");
        one.ok(&["rm", "-r", "/m"]);
    }
    one.ok(&["put", &file, "/good"]);
    for words in ["put - /good <&-", "cp - :/good <&-"] {
        let (ok, said) = run("022", words);
        assert!(!ok && said.contains("standard input is closed"), "{words}: {said}");
    }
    assert_eq!(one.content("/good"), support::pattern(1, 10));
    let (ok, said) = run("022", "put - /good < /dev/null");
    assert!(ok && one.content("/good").is_empty(), "{said}");
    one.ok(&["rm", "/good"]);
}

/// A mode as `ls` shows it.
fn words_of(is_dir: bool, mode: u32) -> String {
    let mut words = String::from(if is_dir { "d" } else { "-" });
    for at in (0..9).rev() {
        let letter = ['x', 'w', 'r'][at % 3];
        words.push(if mode & (1 << at) == 0 { '-' } else { letter });
    }
    words
}

/// A user who is not root.
const USER: u32 = 12_345;

/// A folder of this machine in which everybody may do everything, and that he reaches.
fn folder_for_all(one: &Bench, name: &str) -> String {
    let home = one.local(name);
    fs::create_dir(&home).expect("a folder");
    for dir in [one.dir.path(), Path::new(&home)] {
        fs::set_permissions(dir, fs::Permissions::from_mode(0o777)).expect("a mode");
    }
    home
}

/// Files and a directory that he may not read, among others that he may: each is named, all else is
/// copied, by the servers too.
fn what_may_not_be_read_is_told(one: &Bench) {
    if !support::is_root() {
        return;
    }
    let home = folder_for_all(one, "his");
    one.ok(&["mkdir", "-p", "/some/closed", "/some/open", "/his"]);
    one.ok(&["chmod", "777", "/his"]);
    for (name, bytes) in [("small", 100), ("large", 3 << 20)] {
        let file = one.file("f", 1, bytes);
        for dir in ["/some", "/some/open", "/some/closed"] {
            let (seen, secret) = (format!("{dir}/{name}"), format!("{dir}/{name}-secret"));
            one.ok(&["put", &file, &seen]);
            one.ok(&["put", &file, &secret]);
            one.ok(&["chmod", "600", &secret]);
        }
    }
    one.ok(&["chmod", "700", "/some/closed"]);
    let secrets = ["small-secret", "large-secret", "open/small-secret", "open/large-secret"];
    for to in [":/his/copy", &format!("{home}/copy")] {
        let mut cp = one.command(&["cp", "-rv", ":/some", to]);
        let cp = ended(cp.uid(USER).gid(USER).spawn().expect("weft starts"));
        let said = support::words(&cp);
        assert_eq!(cp.status.code(), Some(1), "{said}");
        for secret in secrets.iter().chain(&["closed"]) {
            assert!(said.contains(&format!("/some/{secret}: permission denied")), "{to}: {said}");
        }
        assert!(said.contains("5 failures, as told above; 4 files are copied"), "{to}: {said}");
        let by_servers = if to.starts_with(':') { 2 } else { 0 };
        assert_eq!(said.matches(" (by the servers)").count(), by_servers, "{to}: {said}");
    }
    for dir in ["/his/copy", "/his/copy/open"] {
        assert!(one.content(&format!("{dir}/large")) == support::pattern(1, 3 << 20), "{dir}");
        assert_eq!(one.content(&format!("{dir}/small")), support::pattern(1, 100), "{dir}");
    }
    assert_eq!(one.names("/his/copy"), ["closed", "large", "open", "small"]);
    assert_eq!(one.names("/his/copy/open"), ["large", "small"]);
    assert!(one.names("/his/copy/closed").is_empty());
    one.ok(&["rm", "-r", "/some", "/his"]);
}

/// `--verify` passes over what is right, and finds one byte that is not: here in a file that
/// `--resume` takes for the same.
fn copies_are_verified(one: &Bench, other: &Bench) {
    for size in [1000, 5 << 20] {
        let path = one.file("exact", 1, size);
        one.ok(&["cp", "-p", "--verify", &path, ":/exact"]);
        one.ok(&["cp", "-p", "--verify", ":/exact", &url(other, "/exact")]);
        let before = fs::metadata(&path).expect("it").modified().expect("a time");
        let file = fs::File::options().write(true).open(&path).expect("it");
        let other_byte = !fs::read(&path).expect("it")[size / 2];
        file.write_all_at(&[other_byte], size as u64 / 2).expect("a byte");
        file.set_modified(before).expect("a time");
        let said = one.fails(1, &["cp", "--resume", "--verify", &path, ":/exact"]);
        let words = format!("/exact: differs from {path}, from byte {} on", size / 2);
        assert!(said.contains(&words), "{said}");
        other.ok(&["rm", "/exact"]);
        one.ok(&["rm", "/exact"]);
    }
}

/// What is there with its size and time stays as it is; what differs in either is copied.
fn copies_are_resumed(one: &Bench) {
    let dir = one.local("resumed");
    fs::create_dir(&dir).expect("a folder");
    for name in ["same", "longer", "later"] {
        one.file(&format!("resumed/{name}"), 1, 100);
    }
    one.ok(&["cp", "-r", "--resume", &dir, ":/resumed"]);
    let fileid = |name: &str| {
        let shown = one.ok(&["stat", "--json", &format!("/resumed/{name}")]);
        let shown: serde_json::Value = serde_json::from_slice(&shown).expect("JSON");
        shown["fileid"].as_u64().expect("a number")
    };
    let before = ["same", "longer", "later"].map(fileid);
    let keep = fs::metadata(format!("{dir}/longer")).expect("it").modified().expect("a time");
    one.file("resumed/longer", 2, 101);
    let longer = fs::File::options().write(true).open(format!("{dir}/longer")).expect("it");
    longer.set_modified(keep).expect("a time");
    one.file("resumed/later", 3, 100);
    one.file("resumed/new", 4, 100);
    one.ok(&["cp", "-r", "--resume", &format!("{dir}/."), ":/resumed"]);
    let after = ["same", "longer", "later"].map(fileid);
    let stays: Vec<bool> = before.iter().zip(after).map(|(a, b)| *a == b).collect();
    assert_eq!(stays, [true, false, false]);
    let back = one.local("resumed-back");
    one.ok(&["cp", "-r", ":/resumed", &back]);
    same(&dir, &back);
    // The same command again makes no second copy within the first.
    let said = one.fails(1, &["cp", "-r", "--resume", &dir, ":/resumed"]);
    assert!(said.contains("resumed/. to go on with a copy that was begun in it"), "{said}");
    let said = one.fails(1, &["cp", "-r", "--resume", ":/resumed", &back]);
    assert!(said.contains("/resumed/. to go on with a copy that was begun in it"), "{said}");
    assert_eq!(one.names("/resumed"), ["later", "longer", "new", "same"]);
    one.ok(&["cp", "-r", "--resume", ":/resumed/.", &back]);
    one.ok(&["mkdir", "/in"]);
    one.ok(&["cp", "-r", &dir, ":/in"]);
    one.ok(&["cp", "-r", "--resume", &dir, ":/in"]);
    assert_eq!(one.names("/in"), ["resumed"]);
    assert_eq!(one.names("/in/resumed"), ["later", "longer", "new", "same"]);
    one.ok(&["rm", "-r", "/in/resumed"]);
    one.ok(&["cp", "-r", "--resume", &dir, ":/in/"]);
    assert_eq!(one.names("/in"), ["resumed"]);
    one.ok(&["rm", "-r", "/in/resumed"]);
    let other = one.local("resumed-too");
    fs::create_dir(&other).expect("a folder");
    one.ok(&["cp", "-r", "--resume", &dir, &other, ":/in"]);
    assert_eq!(one.names("/in"), ["resumed", "resumed-too"]);
    one.ok(&["cp", "-r", "--resume", &other, ":/"]);
    one.ok(&["rm", "-r", "/resumed-too"]);
    // What is in a directory goes into the root, too.
    one.ok(&["cp", "-r", &format!("{dir}/."), ":/"]);
    one.ok(&["cp", "-r", "--resume", &format!("{dir}/."), ":/"]);
    one.ok(&["rm", "/later", "/longer", "/new", "/same"]);
    one.ok(&["rm", "-r", "/resumed", "/in"]);
}

/// Also through a link, and by another name of the server.
fn nothing_into_itself(one: &Bench) {
    one.ok(&["mkdir", "-p", "/d/sub"]);
    one.ok(&["cp", &one.file("f", 1, 10), ":/d/f"]);
    let port = one.cluster.port();
    let alias = format!("weft://localhost:{port}/d/sub");
    one.ok(&["ln", "-s", "/d/sub", "/way"]);
    one.ok(&["ln", "-s", "/d", "/d-too"]);
    for (source, target) in [
        (":/d", ":/d/sub"),
        (":/d", ":/d/new"),
        (":/d", ":/d"),
        (":/d", &alias),
        (":/d", ":/way"),
        (":/d", ":/way/new"),
        (":/d-too/.", ":/d/sub"),
        (":/d/../d", ":/way/new"),
    ] {
        let said = one.fails(1, &["cp", "-r", source, target]);
        assert!(said.contains("cannot copy a directory into itself"), "{target}: {said}");
    }
    let alias = format!("weft://localhost:{port}/d/f");
    for target in [":/d/f", ":/d", &alias] {
        let said = one.fails(1, &["cp", ":/d/f", target]);
        assert!(said.contains("are the same file"), "{target}: {said}");
    }
    assert_eq!(one.names("/d/sub"), [""; 0]);
    // A link is copied as one, but not in place of what it leads to.
    one.ok(&["ln", "-s", "f", "/d/link"]);
    let said = one.fails(1, &["cp", "-r", ":/d/link", ":/d/f"]);
    assert!(said.contains("/d/f: is there, and no link: not replaced"), "{said}");
    one.ok(&["rm", "/d/link", "/way", "/d-too"]);
    assert_eq!(one.content("/d/f"), support::pattern(1, 10));
    one.ok(&["cp", "-r", ":/d", ":/beside"]);
    assert_eq!(one.names("/beside"), ["f", "sub"]);
    one.ok(&["rm", "-r", "/d", "/beside"]);
}

/// A link that stands where a file or directory of a tree goes is not followed.
fn links_lead_nowhere_out(one: &Bench, other: &Bench) {
    let (dir, outside) = (one.local("plain"), one.local("outside"));
    fs::create_dir_all(format!("{dir}/dir")).expect("folders");
    one.file("plain/file", 1, 10);
    one.file("plain/dir/below", 1, 10);
    fs::create_dir(&outside).expect("a folder");
    fs::write(format!("{outside}/file"), b"mine").expect("a file");
    let copy = one.local("copy");
    fs::create_dir(&copy).expect("a folder");
    symlink(format!("{outside}/file"), format!("{copy}/file")).expect("a link");
    symlink(&outside, format!("{copy}/dir")).expect("a link");
    other.ok(&["cp", "-r", &dir, ":/plain"]);
    let said = other.fails(1, &["cp", "-r", ":/plain/.", &copy]);
    assert!(said.contains("copy/dir: is there, and no directory"), "{said}");
    assert_eq!(fs::read(format!("{outside}/file")).expect("it"), b"mine");
    assert!(!Path::new(&format!("{outside}/below")).exists());
    assert_eq!(fs::read(format!("{copy}/file")).expect("it"), support::pattern(1, 10));
    other.ok(&["rm", "-r", "/plain"]);
}

/// Several sources by a pattern; standard input and output.
fn patterns_and_streams(one: &Bench) {
    one.ok(&["mkdir", "/p"]);
    for name in ["a1", "a2", "b1", ".a3"] {
        one.ok(&["cp", &one.file("f", 5, 70_000), &format!(":/p/{name}")]);
    }
    let to = one.local("picked");
    fs::create_dir(&to).expect("a folder");
    one.ok(&["cp", ":/p/a*", ":/p/[b-c]?", &to]);
    let mut names: Vec<_> =
        fs::read_dir(&to).expect("it").map(|e| e.expect("an entry").file_name()).collect();
    names.sort();
    assert_eq!(names, ["a1", "a2", "b1"]);
    let said = one.fails(1, &["cp", ":/p/z*", &to]);
    assert!(said.contains("/p/z*: nothing fits"), "{said}");
    assert_eq!(one.ok(&["cp", ":/p/a1", "-"]), support::pattern(5, 70_000));
    let mut cp = one.spawn(&["cp", "-", ":/p/piped"]);
    cp.stdin.take().expect("a pipe").write_all(b"through a pipe").expect("it reads");
    assert!(ended(cp).status.success());
    assert_eq!(one.content("/p/piped"), b"through a pipe");
    for option in ["-p", "--verify", "--resume"] {
        for arguments in [["cp", option, ":/p/a1", "-"], ["cp", option, "-", ":/p/b2"]] {
            let said = one.fails(1, &arguments);
            assert!(said.contains("-: a stream has no times"), "{arguments:?}: {said}");
        }
    }
    assert_eq!(one.names("/p"), [".a3", "a1", "a2", "b1", "piped"]);
    one.ok(&["rm", "-r", "/p"]);
}

/// Within a cluster no byte of a file comes to who copies it, by whichever of its names the server
/// is called; holes stay, `-p` and `--verify` mean what they say.
fn servers_copy_within_a_cluster(one: &Bench, other: &Bench) {
    const SIZE: usize = 40 * MIB as usize + 123;
    let moved = || {
        let data = one.cluster.data_dir();
        let dir = data.to_str().expect("a plain path");
        let told = one.ok(&["status", "--json", "--dir", dir]);
        let told: serde_json::Value = serde_json::from_slice(&told).expect("JSON");
        let servers = told["servers"].as_array().expect("servers");
        let bytes = |server: &serde_json::Value, key: &str| server[key].as_u64().expect("a number");
        servers.iter().map(|s| bytes(s, "bytes_in") + bytes(s, "bytes_out")).sum::<u64>()
    };
    let holes = one.local("mostly-holes");
    let file = fs::File::create(&holes).expect("a file");
    file.write_all_at(&support::pattern(4, 3 << 20), 50 * MIB).expect("it is written");
    file.set_len(100 * MIB + 7).expect("a size");
    let long_ago = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    file.set_modified(long_ago).expect("a time");
    one.ok(&["mkdir", "/from"]);
    one.ok(&["cp", &one.file("big", 3, SIZE), ":/from/big"]);
    one.ok(&["cp", "-p", &holes, ":/from/holes"]);
    let alias = format!("weft://localhost:{}/alias", one.cluster.port());
    for to in [":/beside", &alias] {
        let before = moved();
        let said = one.ok(&["cp", "-rpv", ":/from", to]);
        let (said, through) = (String::from_utf8(said).expect("text"), moved() - before);
        assert_eq!(said.matches(" (by the servers)").count(), 2, "{said}");
        assert!(through < MIB / 2, "{through} bytes");
    }
    for copy in ["/beside", "/alias"] {
        assert!(one.content(&format!("{copy}/big")) == support::pattern(3, SIZE), "{copy}");
        let back = one.local("holes-again");
        one.ok(&["cp", "-p", &format!(":{copy}/holes"), &back]);
        same(&holes, &back);
        assert_eq!(fs::metadata(&back).expect("it").modified().expect("a time"), long_ago);
        let shown = one.ok(&["stat", "--json", &format!("{copy}/holes")]);
        let shown: serde_json::Value = serde_json::from_slice(&shown).expect("JSON");
        let used = shown["space_used"].as_u64().expect("a number");
        assert!(used < 10 * MIB, "{used} bytes at the servers");
    }
    let text = |arguments: &[&str]| String::from_utf8(one.ok(arguments)).expect("text");
    let said = text(&["cp", "-v", "--verify", ":/from/big", ":/beside/big"]);
    assert!(said.ends_with("/beside/big (by the servers)\n"), "{said}");
    let said = text(&["cp", "-rv", "--resume", ":/from/.", ":/beside"]);
    assert!(said.contains("/beside/holes (is there already)\n"), "{said}");
    // Where there is no COPY, and where the server is another one.
    let old = format!("weft://localhost:{}/old?minorversion=1", one.cluster.port());
    for to in [&old, &url(other, "/old")] {
        let said = text(&["cp", "-v", ":/from/big", to]);
        assert!(said.ends_with("/old\n"), "{said}");
    }
    assert!(one.content("/old") == support::pattern(3, SIZE));
    one.ok(&["rm", "-r", "/from", "/beside", "/alias", "/old"]);
    other.ok(&["rm", "/old"]);
}

/// `-p` by a user who is not the owner: the copy is his, and runs as nobody else.
fn set_id_bits_need_their_owner(one: &Bench) {
    if !support::is_root() {
        return;
    }
    let home = folder_for_all(one, "home");
    one.ok(&["mkdir", "/open"]);
    one.ok(&["chmod", "777", "/open"]);
    for (name, bytes) in [("small", 100), ("large", 3 << 20)] {
        let tool = one.file(name, 1, bytes);
        fs::set_permissions(&tool, fs::Permissions::from_mode(0o4755)).expect("a mode");
        one.ok(&["cp", "-p", &tool, &format!(":/open/{name}")]);
        let mode = |path: &str| {
            let shown = one.ok(&["stat", "--json", path]);
            let shown: serde_json::Value = serde_json::from_slice(&shown).expect("JSON");
            shown["mode"].as_str().expect("a mode").to_owned()
        };
        assert_eq!(mode(&format!("/open/{name}")), "-rwsr-xr-x");
        let (there, beside) = (format!(":/open/{name}"), format!(":/open/{name}-in"));
        let (again, back) = (format!(":/open/{name}-again"), format!("{home}/{name}"));
        for (from, to) in [(&tool, &beside), (&there, &again), (&there, &back)] {
            let mut cp = one.command(&["cp", "-p", from, to]);
            let cp = ended(cp.uid(USER).gid(USER).spawn().expect("weft starts"));
            assert!(cp.status.success(), "{}", support::words(&cp));
        }
        for copy in [&beside, &again] {
            assert_eq!(mode(&copy[1..]), "-rwxr-xr-x", "{copy}");
        }
        let back = fs::metadata(back).expect("it");
        assert_eq!((back.mode() & 0o7777, back.uid()), (0o755, USER));
    }
    one.ok(&["rm", "-r", "/open"]);
}

/// Below 1024 directories nothing is copied or looked at, which is told, and the rest is done.
fn trees_have_a_depth(one: &Bench) {
    // Moved into one another: to make all of them by their whole path takes long.
    let part = "/d".repeat(260);
    for n in 0..4 {
        one.ok(&["mkdir", "-p", &format!("/deep{n}{part}")]);
    }
    for n in [2, 1, 0] {
        let (bottom, next) = (format!("/deep{n}{part}/"), format!("/deep{}", n + 1));
        one.ok(&["mv", &next, &bottom]);
    }
    one.ok(&["put", &one.file("f", 1, 10), "/deep0/f"]);
    let said = one.fails(1, &["cp", "-r", ":/deep0", &one.local("deep")]);
    assert!(said.contains("/d: too deep"), "{said}");
    assert!(said.contains("1 failure, as told above; 1 files are copied"), "{said}");
    let (bottom, inside) = (format!("{}/deep1", part), one.local("deep"));
    assert!(Path::new(&format!("{inside}{bottom}")).exists());
    let found = one.run(&["find", "/deep0", "-type", "d"]);
    assert_eq!(found.status.code(), Some(1));
    assert!(support::words(&found).contains("below 1024 directories: not looked into"));
    assert_eq!(found.stdout.split(|b| *b == b'\n').filter(|line| !line.is_empty()).count(), 1025);
}

/// Ctrl-C leaves whole files alone, no temporary ones and no client, and a second copy with
/// `--resume` does the rest: from this machine, and within a cluster, whose servers copy what is
/// large.
fn an_interrupted_copy_leaves_whole_files(one: &Bench) {
    let dir = one.local("lot");
    fs::create_dir(&dir).expect("a folder");
    for n in 0..3000_u64 {
        one.file(&format!("lot/{n}"), n, if n % 20 == 0 { 100_000 } else { 2000 });
    }
    for (from, to) in [(dir.as_str(), "/lot"), (":/lot", "/beside")] {
        let cp = one.spawn(&["cp", "-r", "--resume", from, &format!(":{to}")]);
        support::until("some files", PATIENCE, || {
            let ls = one.run(&["ls", to]);
            (ls.status.success() && ls.stdout.len() > 100).then_some(())
        });
        let sent = support::run("kill", &["-INT", &cp.id().to_string()]);
        assert!(sent.status.success());
        let output = ended(cp);
        assert_eq!(output.status.code(), Some(130), "{}", support::words(&output));
        let names = one.names(to);
        assert!(names.len() < 3000, "it was quicker");
        assert!(!names.iter().any(|name| name.contains("weft-put")), "{names:?}");
        assert_eq!(one.clients(), 0);
        let back = one.local("part");
        one.ok(&["cp", "-r", &format!(":{to}"), &back]);
        for name in fs::read_dir(&back).expect("a folder") {
            let name = name.expect("a name").file_name();
            let (whole, part) = (Path::new(&dir).join(&name), Path::new(&back).join(&name));
            assert!(fs::read(whole).expect("it") == fs::read(part).expect("it"), "{name:?}");
        }
        fs::remove_dir_all(&back).expect("it goes");
        one.ok(&["cp", "-r", "--resume", &format!("{from}/."), &format!(":{to}")]);
        one.ok(&["cp", "-r", &format!(":{to}"), &back]);
        same(&dir, &back);
        fs::remove_dir_all(&back).expect("it goes");
    }
    one.ok(&["rm", "-r", "/lot", "/beside"]);
}

/// A data server's disk gets full under a copy, from this machine and within the cluster: each file
/// for which there was no room is named, what is there is whole, and once there is room `--resume`
/// does the rest.
#[test]
fn a_full_disk_is_told() {
    const FILES: u64 = 8;
    const SIZE: usize = 5 * MIB as usize;
    let plan = Plan { data_servers: 1, stripe_width: 1, ds_disk_mib: Some(160), ..Plan::default() };
    let servers = Servers::start(plan);
    let tree = servers.path("tree");
    fs::create_dir(&tree).expect("a folder");
    for n in 0..FILES {
        fs::write(tree.join(n.to_string()), support::pattern(n, SIZE)).expect("a file");
    }
    let tree = tree.to_str().expect("a plain path");
    for (from, to) in [(tree, "/tree"), (":/tree", "/again")] {
        // Beside what data servers keep back, the sixteenth part of the disk.
        let filler = servers.fill(&ds(1), (10 + 18) * MIB as usize);
        let said = servers.weft_fails(&["cp", "-r", from, &format!(":{to}")]);
        let names: Vec<_> = servers.weft_ok(&["ls", "-a", to]).lines().map(str::to_owned).collect();
        assert!((1..FILES as usize).contains(&names.len()), "{names:?} {said}");
        for n in 0..FILES {
            let name = format!("{to}/{n}");
            match names.contains(&n.to_string()) {
                true => servers.verify(&name, n, SIZE),
                false => {
                    let told = |line: &str| line.contains(&name) && line.contains("no space left");
                    assert!(said.lines().any(told), "{name}: {said}");
                }
            }
        }
        fs::remove_file(filler).expect("the filler");
        servers.weft_ok(&["cp", "-r", "--resume", &format!("{from}/."), &format!(":{to}")]);
        (0..FILES).for_each(|n| servers.verify(&format!("{to}/{n}"), n, SIZE));
    }
}
