//! `weft cp` and `weft get` by root into directories of other users, and from there, while those
//! exchange what is in them.

mod support;

use std::{
    fs,
    os::unix::fs::{MetadataExt, chown, symlink},
    path::{Path, PathBuf},
    time::Duration,
};

use support::{
    bench::Bench,
    racer::{NOBODY, Racer, Secret, within},
};

/// Longer than any of these copies takes.
const LIMIT: Duration = Duration::from_secs(20);
/// Copies in one race.
const ROUNDS: u32 = 40;
/// Files of the directory that is exchanged.
const FILES: u64 = 60;

#[test]
fn root_copies_beside_others() {
    if !support::is_root() {
        return;
    }
    let bench = Bench::start();
    let mut wrong = Vec::new();
    for (what, test) in [
        ("planted", planted_entries_are_not_opened as fn(&Bench) -> Vec<String>),
        ("link at the top", a_link_at_the_top_is_not_followed),
        ("into a race", copies_into_a_race_stay_inside),
        ("new directories", new_directories_stay_inside),
        ("from a race", copies_from_a_race_read_nothing_else),
        ("log", the_log_of_a_mount_follows_no_link),
    ] {
        wrong.extend(test(&bench).into_iter().map(|why| format!("{what}: {why}")));
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// A home of `nobody`, below folders that everybody may enter.
fn home(bench: &Bench, name: &str) -> PathBuf {
    let home = PathBuf::from(bench.local(name));
    fs::create_dir(&home).expect("a folder");
    fs::set_permissions(bench.dir.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755))
        .expect("a mode");
    give(&home);
    home
}

fn give(path: &Path) {
    std::os::unix::fs::lchown(path, Some(NOBODY), Some(NOBODY)).expect("an owner");
}

fn plain(path: &Path) -> &str {
    path.to_str().expect("a plain path")
}

fn fifo(path: &Path) {
    assert!(support::run("mkfifo", &[plain(path)]).status.success());
    give(path);
}

/// A fifo and a link under temporary names of a copy neither stop it nor are written to or removed,
/// nor does a fifo under its own name, which is refused.
fn planted_entries_are_not_opened(bench: &Bench) -> Vec<String> {
    let mut wrong = Vec::new();
    let (home, outside) = (home(bench, "planted"), PathBuf::from(bench.local("planted-out")));
    let secret = Secret::new(&outside, &["f"]);
    bench.ok(&["put", &bench.file("f", 1, 100), "/f"]);
    fs::write(home.join("f"), "old").expect("a file");
    fifo(&home.join(".f.weft-0123456789abcdef"));
    symlink(outside.join("f"), home.join(".f.weft-0123456789abcdee")).expect("a link");
    fs::write(home.join(".f.weft-0123456789abcded"), "left").expect("a file");
    for command in ["get", "cp"] {
        for target in [home.clone(), home.join("f")] {
            let from = if command == "cp" { ":/f" } else { "/f" };
            match within(LIMIT, bench.command(&[command, from, plain(&target)])) {
                None => wrong.push(format!("{command} to {} hangs", target.display())),
                Some(output) if output.status.success() => {}
                Some(output) => wrong.push(support::words(&output)),
            }
        }
    }
    if home.join(".f.weft-0123456789abcded").exists() && wrong.is_empty() {
        wrong.push("what was left of a copy stays".into());
    }
    for name in [".f.weft-0123456789abcdef", ".f.weft-0123456789abcdee"] {
        if fs::symlink_metadata(home.join(name)).is_err() {
            wrong.push(format!("{name} was removed"));
        }
    }
    fs::remove_file(home.join("f")).expect("the file");
    fifo(&home.join("f"));
    match within(LIMIT, bench.command(&["get", "/f", plain(&home)])) {
        None => wrong.push("get to a fifo that was not named hangs".into()),
        Some(output) if output.status.success() => wrong.push("a fifo was written".into()),
        Some(_) => {}
    }
    wrong.extend(secret.changes());
    wrong
}

/// A link at `DEST/NAME` is not followed, whether it leads to a file or to a directory.
fn a_link_at_the_top_is_not_followed(bench: &Bench) -> Vec<String> {
    let mut wrong = Vec::new();
    let (home, outside) = (home(bench, "top"), PathBuf::from(bench.local("top-out")));
    let secret = Secret::new(&outside, &["file"]);
    bench.ok(&["mkdir", "/top"]);
    bench.ok(&["put", &bench.file("file", 1, 100), "/top/file"]);
    symlink(&outside, home.join("top")).expect("a link");
    symlink(outside.join("file"), home.join("file")).expect("a link");
    let said = bench.run(&["cp", "-rp", ":/top", plain(&home)]);
    if said.status.success() {
        wrong.push("cp -rp through a link ends well".into());
    }
    bench.ok(&["cp", "-p", ":/top/file", plain(&home)]);
    wrong.extend(secret.changes());
    if fs::read(home.join("file")).ok() != Some(support::pattern(1, 100)) {
        wrong.push("the link is not replaced by the file".into());
    }
    // At the cluster, too.
    bench.ok(&["mkdir", "/dst", "/elsewhere"]);
    bench.ok(&["ln", "-s", "../elsewhere", "/dst/tree"]);
    let tree = bench.local("tree");
    fs::create_dir_all(format!("{tree}/sub")).expect("folders");
    bench.run(&["cp", "-r", &tree, ":/dst"]);
    if !bench.names("/elsewhere").is_empty() {
        wrong.push("cp -r to the cluster goes through the link".into());
    }
    // A destination that is named may be a link.
    symlink("there", home.join("named")).expect("a link");
    fs::create_dir(home.join("there")).expect("a folder");
    bench.ok(&["cp", "-r", ":/top/.", plain(&home.join("named"))]);
    if !home.join("there/file").exists() {
        wrong.push("a destination that is a link was not followed".into());
    }
    wrong
}

/// A tree at the cluster that belongs to `nobody`: files beside a directory with files.
fn tree(bench: &Bench, name: &str) {
    let local = PathBuf::from(bench.local(name));
    fs::create_dir_all(local.join("sub")).expect("folders");
    for n in 0..FILES {
        fs::write(local.join(format!("sub/f{n}")), support::pattern(n, 50)).expect("a file");
    }
    for file in ["file", "piped"] {
        fs::write(local.join(file), support::pattern(7, 200)).expect("a file");
    }
    let all = support::run("chown", &["-R", &format!("{NOBODY}:{NOBODY}"), plain(&local)]);
    assert!(all.status.success());
    bench.ok(&["cp", "-rp", plain(&local), ":/"]);
}

/// Each round ends, and changes nothing outside.
fn race(bench: &Bench, words: &[&str], secret: &Secret) -> Vec<String> {
    let (mut hangs, mut met, mut outside) = (0, 0, 0);
    let mut last = Vec::new();
    for _ in 0..ROUNDS {
        match within(LIMIT, bench.command(words)) {
            None => hangs += 1,
            Some(output) => met += u32::from(!output.status.success()),
        }
        let changes = secret.changes();
        outside += u32::from(changes != last);
        last = changes;
        if hangs > 2 {
            break;
        }
    }
    eprintln!("{met} of {ROUNDS} copies have met an exchanged entry");
    let mut wrong = Vec::new();
    if met == 0 {
        wrong.push("no copy has met an exchanged entry: nothing is shown".into());
    }
    if hangs > 0 {
        wrong.push(format!("{hangs} of {ROUNDS} copies hang"));
    }
    if !last.is_empty() {
        let (count, some) = (last.len(), &last[..last.len().min(3)]);
        wrong.push(format!("{outside} of {ROUNDS} copies change {count} entries: {some:#?}"));
    }
    wrong
}

/// Into a directory in which a file, a fifo and a directory are exchanged for links to what is
/// root's.
fn copies_into_a_race_stay_inside(bench: &Bench) -> Vec<String> {
    let (home, outside) = (home(bench, "race"), PathBuf::from(bench.local("race-out")));
    let secret = Secret::new(&outside, &["file", "f1"]);
    tree(bench, "source");
    bench.ok(&["cp", "-rp", ":/source/.", plain(&home)]);
    let file = outside.join("file");
    let names = [("sub", Some(outside.as_path())), ("file", Some(&file)), ("piped", None)];
    let _racer = Racer::start(&home, &names);
    race(bench, &["cp", "-rp", ":/source/.", plain(&home)], &secret)
}

/// A directory that the copy has just made is exchanged for a link.
fn new_directories_stay_inside(bench: &Bench) -> Vec<String> {
    let (home, outside) = (home(bench, "fresh"), PathBuf::from(bench.local("fresh-out")));
    let secret = Secret::new(&outside, &["file"]);
    tree(bench, "fresh-source");
    let _racer = Racer::start(&home, &[("fresh-source", Some(outside.as_path()))]);
    race(bench, &["cp", "-r", ":/fresh-source", plain(&home)], &secret)
}

/// An upload of another user's tree reads nothing through links that the user exchanges for parts
/// of it.
fn copies_from_a_race_read_nothing_else(bench: &Bench) -> Vec<String> {
    let (home, outside) = (home(bench, "read"), PathBuf::from(bench.local("read-out")));
    let names: Vec<String> = (0..FILES).map(|n| format!("f{n}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).chain(["file"]).collect();
    Secret::new(&outside, &names);
    fs::create_dir(home.join("sub")).expect("a folder");
    for name in &names {
        let path = home.join(if *name == "file" { "file".into() } else { format!("sub/{name}") });
        fs::write(&path, "his").expect("a file");
        chown(&path, Some(NOBODY), Some(NOBODY)).expect("an owner");
    }
    fs::write(home.join("piped"), "his").expect("a file");
    for name in ["sub", "piped"] {
        give(&home.join(name));
    }
    let file = outside.join("file");
    let exchanged = [("sub", Some(outside.as_path())), ("file", Some(&file)), ("piped", None)];
    let racer = Racer::start(&home, &exchanged);
    let (mut hangs, mut read) = (0, 0);
    for _ in 0..ROUNDS / 2 {
        let cp = bench.command(&["cp", "-r", plain(&home), ":/uploaded"]);
        hangs += u32::from(within(LIMIT, cp).is_none());
        let back = bench.local("uploaded");
        bench.run(&["cp", "-r", ":/uploaded", &back]);
        let found = support::run("grep", &["-rlF", Secret::WORDS, &back]);
        read += u32::from(found.status.success());
        bench.run(&["rm", "-r", "/uploaded"]);
        let _ = fs::remove_dir_all(&back);
        if hangs > 2 {
            break;
        }
    }
    drop(racer);
    let mut wrong = Vec::new();
    if hangs > 0 {
        wrong.push(format!("{hangs} of {} copies hang", ROUNDS / 2));
    }
    if read > 0 {
        wrong.push(format!("{read} of {} copies have read what is root's", ROUNDS / 2));
    }
    wrong
}

/// A link or a fifo that stands where `weft mount` is to write its log is refused.
fn the_log_of_a_mount_follows_no_link(bench: &Bench) -> Vec<String> {
    let mut wrong = Vec::new();
    let (home, outside) = (home(bench, "logs"), PathBuf::from(bench.local("logs-out")));
    let secret = Secret::new(&outside, &["file"]);
    symlink(outside.join("file"), home.join("link.log")).expect("a link");
    symlink(outside.join("new"), home.join("new.log")).expect("a link");
    fifo(&home.join("fifo.log"));
    let server = format!("127.0.0.1:{}", bench.cluster.port());
    let inode = fs::metadata(&home).expect("it").ino();
    for log in ["link.log", "new.log", "fifo.log"] {
        // The mount itself fails, after the log was opened.
        let log = home.join(log);
        let words = ["mount", "--foreground", "--log", plain(&log), &server, "/no/such/directory"];
        match within(LIMIT, bench.command(&words)) {
            None => wrong.push(format!("mount with --log {} hangs", log.display())),
            Some(output) if support::words(&output).contains("--log") => {}
            Some(output) => wrong.push(support::words(&output)),
        }
    }
    assert_eq!(fs::metadata(&home).expect("it").ino(), inode);
    wrong.extend(secret.changes());
    wrong
}
