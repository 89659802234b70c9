//! The commands that people expect beside copies: what they print, and what they change.

mod support;

use std::{
    fs,
    os::unix::{fs::PermissionsExt, process::CommandExt},
};

use serde_json::Value;
use support::bench::{Bench, ended};

fn text(bench: &Bench, arguments: &[&str]) -> String {
    String::from_utf8(bench.ok(arguments)).expect("text")
}

fn lines(bench: &Bench, arguments: &[&str]) -> Vec<String> {
    text(bench, arguments).lines().map(str::to_owned).collect()
}

fn stat(bench: &Bench, path: &str) -> Value {
    serde_json::from_slice(&bench.ok(&["stat", "--json", path])).expect("JSON")
}

/// All of them, on one small tree.
#[test]
fn on_a_small_tree() {
    let bench = Bench::start();
    // For who is not root.
    let open = fs::Permissions::from_mode(0o755);
    fs::set_permissions(bench.dir.path(), open).expect("a mode");
    bench.ok(&["mkdir", "-p", "/t/sub/deep", "/t/.hidden"]);
    for (name, bytes) in [("t/small", 10), ("t/large", 3 << 20), ("t/sub/mid", 2000)] {
        let file = bench.file("f", 1, bytes);
        bench.ok(&["put", &file, &format!("/{name}")]);
    }
    listings(&bench);
    contents(&bench);
    searches(&bench);
    modes_and_owners(&bench);
    names_and_times(&bench);
    room(&bench);
    what_is_in_force(&bench);
    layouts(&bench);
    long_names(&bench);
    mistakes(&bench);
}

fn listings(bench: &Bench) {
    assert_eq!(lines(bench, &["ls", "--sort", "name", "/t"]), ["large", "small", "sub"]);
    assert_eq!(lines(bench, &["ls", "--sort=size", "/t/*l*"])[..2], ["/t/small", "/t/large"]);
    assert_eq!(lines(bench, &["ls", "-r", "/t"]), ["sub", "small", "large"]);
    assert_eq!(lines(bench, &["ls", "-a", "--sort", "name", "/t"])[0], ".hidden");
    assert_eq!(lines(bench, &["ls", "-d", "/t"]), ["t"]);
    let by_size = lines(bench, &["ls", "--sort", "size", "/t"]);
    assert_eq!(by_size[0], "large");
    let by_time = lines(bench, &["ls", "--sort", "time", "-r", "/t"]);
    assert_eq!(by_time[..2], ["small", "large"]);
    let long = text(bench, &["ls", "-lh", "/t/large"]);
    assert!(long.contains(" 3.0M ") && long.ends_with(" large\n"), "{long}");
    let below = lines(bench, &["ls", "-R", "--sort", "name", "/t"]);
    let expected =
        ["/t:", "large", "small", "sub", "", "/t/sub:", "deep", "mid", "", "/t/sub/deep:"];
    assert_eq!(below, expected);
}

fn contents(bench: &Bench) {
    let both = [support::pattern(1, 3 << 20), support::pattern(1, 10)].concat();
    assert!(bench.ok(&["cat", "/t/large", "/t/sma*"]) == both);
    let output = bench.run(&["cat", "/t/gone", "/t/small"]);
    assert_eq!((output.status.code(), output.stdout), (Some(1), support::pattern(1, 10)));
}

fn searches(bench: &Bench) {
    for (arguments, found) in [
        (&["-name", "*m*"][..], &["/t/small", "/t/sub/mid"][..]),
        (&["-type", "d", "-maxdepth", "1"], &["/t", "/t/.hidden", "/t/sub"]),
        (&["--type", "f", "--size", "+1M"], &["/t/large"]),
        (&["-size", "10"], &["/t/small"]),
        (&["-type", "f", "-size", "-1K"], &["/t/small"]),
        (&["-maxdepth", "0"], &["/t"]),
    ] {
        let mut told = lines(bench, &[&["find", "/t"], arguments].concat());
        told.sort();
        assert_eq!(told, found, "{arguments:?}");
    }
}

/// What a directory chooses is inherited and shown, and its files are like that; bad choices say
/// what is wrong with them.
fn layouts(bench: &Bench) {
    bench.ok(&["mkdir", "/l"]);
    bench.ok(&["layout", "set", "/l", "--stripe-unit", "2MiB", "--count", "1"]);
    bench.ok(&["mkdir", "/l/sub"]);
    let words = "distribution=round-robin stripe_unit=2MiB stripe_count=1";
    let shown = [format!("/l: {words}"), format!("/l/sub: {words}")];
    let shown = [&shown[0], &shown[1], "/t: as the file system has it"];
    assert_eq!(lines(bench, &["layout", "show", "/l", "/l/sub", "/t"]), shown);
    let file = bench.file("f", 5, 7 << 20);
    bench.ok(&["put", &file, "/l/sub/f"]);
    let told = stat(bench, "/l/sub/f");
    assert_eq!(
        (&told["distribution"], &told["layout"]["stripe_count"]),
        (&words.into(), &1.into())
    );
    bench.ok(&["layout", "set", "/l/sub", "--distribution", "cyclic", "--servers", "2,1,2"]);
    bench.ok(&["put", &file, "/l/sub/g"]);
    assert!(bench.content("/l/sub/g") == support::pattern(5, 7 << 20));
    let spread = text(bench, &["layout", "show", "/l/sub/g"]);
    assert!(spread.contains("distribution=cyclic servers="), "{spread}");
    assert!(text(bench, &["stat", "/l/sub"]).contains("servers=2,1,2"));
    let nested = ["--distribution", "nested", "--groups", "1/2", "--rounds", "2"];
    bench.ok(&[&["layout", "set", "/l/sub"][..], &nested].concat());
    let spread = lines(bench, &["layout", "get", "/l/s*"]);
    assert_eq!(spread, ["/l/sub: distribution=cyclic servers=1,1,2,2"]);
    let grows = ["--distribution", "variable", "--later-unit", "4MiB"];
    bench.ok(&[&["layout", "set", "/l/sub"][..], &grows].concat());
    bench.ok(&["put", &file, "/l/sub/h"]);
    assert!(bench.content("/l/sub/h") == support::pattern(5, 7 << 20));
    assert!(stat(bench, "/l/sub/h")["distribution"].as_str().unwrap().contains("later_unit=4MiB"));
    let copies = ["--distribution", "replicated", "--copies", "2"];
    bench.ok(&[&["layout", "set", "/l/sub"][..], &copies].concat());
    bench.ok(&["put", &file, "/l/sub/i"]);
    assert!(bench.content("/l/sub/i") == support::pattern(5, 7 << 20));
    assert!(stat(bench, "/l/sub/i")["distribution"].as_str().unwrap().contains("copies=2"));
    bench.ok(&["layout", "clear", "/l/sub"]);
    bench.ok(&["layout", "clear", "/l/sub"]);
    assert_eq!(lines(bench, &["layout", "show", "/l/sub"]), ["/l/sub: as the file system has it"]);
    for (arguments, why) in [
        (&["/l", "--stripe-unit", "3"][..], "multiple of 1MiB"),
        (&["/l"], "says nothing"),
        (&["/l", "--distribution", "mirrored"], "no distribution"),
        (&["/l", "--distribution", "replicated"], "needs copies"),
        (&["/l", "--distribution", "replicated", "--copies", "1"], "from 2 to 8"),
        (&["/l", "--distribution", "replicated", "--copies", "7"], "not so many data servers"),
        (&["/l", "--distribution", "nested"], "needs groups"),
        (&["/l", "--distribution", "cyclic", "--servers", "1,9"], "knows not all"),
        (&["/l/sub/f", "--count", "1"], "this is none"),
        (
            &["/l", "--distribution", "cyclic", "--servers", "1,2", "--count", "2"],
            "no stripe_count",
        ),
        (&["/gone", "--count", "1"], "/gone"),
    ] {
        let told = bench.fails(1, &[&["layout", "set"], arguments].concat());
        assert!(told.contains(why), "{arguments:?}: {told}");
    }
}

fn modes_and_owners(bench: &Bench) {
    bench.ok(&["chmod", "640", "/t/small"]);
    assert_eq!(stat(bench, "/t/small")["mode"], "-rw-r-----");
    bench.ok(&["chmod", "u+x,o=r", "/t/small"]);
    assert_eq!(stat(bench, "/t/small")["mode"], "-rwxr--r--");
    bench.ok(&["chmod", "-R", "go-rwx,u+X", "/t/sub"]);
    assert_eq!(stat(bench, "/t/sub/deep")["mode"], "drwx------");
    assert_eq!(stat(bench, "/t/sub/mid")["mode"], "-rw-------");
    if support::is_root() {
        bench.ok(&["chown", "-R", "1234:4321", "/t/sub"]);
        let mid = stat(bench, "/t/sub/mid");
        assert_eq!((&mid["owner"], &mid["group"]), (&"1234".into(), &"4321".into()));
        bench.ok(&["chown", "root:root", "/t/sub/mid"]);
        assert_eq!(stat(bench, "/t/sub/mid")["owner"], "0");
        // A link is the tree's, what it leads to is not.
        bench.ok(&["mkdir", "/out"]);
        bench.ok(&["ln", "-s", "/out", "/t/sub/way"]);
        bench.ok(&["chown", "-R", "77:77", "/t/sub"]);
        assert_eq!(stat(bench, "/t/sub/way")["owner"], "77");
        assert_eq!(stat(bench, "/out")["owner"], "0");
        bench.ok(&["chown", "-R", "78", "/t/sub/way"]);
        assert_eq!(stat(bench, "/out")["owner"], "0");
        assert_eq!(stat(bench, "/t/sub/way")["owner"], "78");
        bench.ok(&["chown", "-R", "79", "/t/sub/way/"]);
        assert_eq!(stat(bench, "/out")["owner"], "79");
        bench.ok(&["chmod", "-R", "a+rwx", "/t/sub"]);
        assert_eq!(stat(bench, "/out")["mode"], "drwxr-xr-x");
        bench.ok(&["rm", "/t/sub/way", "/out"]);
        bench.ok(&["chown", "-R", "0:0", "/t/sub"]);
    }
}

fn names_and_times(bench: &Bench) {
    bench.ok(&["touch", "/t/new"]);
    assert_eq!(stat(bench, "/t/new")["size"], 0);
    bench.ok(&["touch", "-c", "/t/none"]);
    let said = bench.fails(1, &["touch", "/t/z*", "/t/new"]);
    assert!(said.contains("/t/z*: nothing fits"), "{said}");
    bench.fails(1, &["stat", "/t/z*"]);
    bench.fails(1, &["stat", "/t/none"]);
    let before = stat(bench, "/t/large");
    bench.ok(&["touch", "/t/large"]);
    let after = stat(bench, "/t/large");
    assert!(after["change"].as_u64() > before["change"].as_u64(), "{after}");
    assert_eq!(after["size"], before["size"]);
    bench.ok(&["ln", "/t/small", "/t/second"]);
    assert_eq!(stat(bench, "/t/second")["fileid"], stat(bench, "/t/small")["fileid"]);
    bench.ok(&["ln", "-s", "../small", "/t/sub"]);
    assert_eq!(stat(bench, "/t/sub/small")["link_target"], "../small");
    assert_eq!(bench.ok(&["cat", "/t/sub/small"]), support::pattern(1, 10));
    bench.ok(&["sync"]);
    bench.ok(&["sync", "/t/large"]);
}

fn room(bench: &Bench) {
    let sum = text(bench, &["du", "-s", "/t"]);
    let kib: u64 = sum.split('\t').next().expect("a number").parse().expect("a number");
    assert!((3072..3200).contains(&kib), "{sum}");
    let each = lines(bench, &["du", "/t"]);
    assert!(each.iter().any(|line| line.ends_with("\t/t/sub")), "{each:?}");
    assert!(each.last().expect("a line").ends_with("\t/t"), "{each:?}");
    assert!(text(bench, &["du", "-sh", "/t/large"]).starts_with("3.0M\t"));
    if support::is_root() {
        // What he may not read is told, and the rest is added up all the same.
        bench.ok(&["mkdir", "-p", "/t/sub/closed/below"]);
        bench.ok(&["chmod", "700", "/t/sub/closed"]);
        bench.ok(&["chmod", "755", "/t/sub", "/t/sub/deep"]);
        let mut du = bench.command(&["du", "/gone", "/t"]);
        let du = ended(du.uid(12_345).gid(12_345).spawn().expect("weft starts"));
        assert_eq!(du.status.code(), Some(1));
        let said = support::words(&du);
        assert!(said.contains("/t/sub/closed: permission denied"), "{said}");
        assert!(said.contains("/gone: no such file"), "{said}");
        assert_eq!(
            String::from_utf8_lossy(&du.stdout).lines().last(),
            Some(&*format!("{kib}\t/t"))
        );
        bench.ok(&["rm", "-r", "/t/sub/closed"]);
    }
    let shown = lines(bench, &["df", "-h"]);
    assert!(shown[0].starts_with("Server") && shown[0].contains("Available"), "{shown:?}");
    assert!(shown[1].starts_with("weft://127.0.0.1:") && shown[1].contains('%'), "{shown:?}");
}

/// What a client would do with a file, and who has decided it.
fn what_is_in_force(bench: &Bench) {
    let path =
        |options: &str| format!("weft://127.0.0.1:{}/t/large{options}", bench.cluster.port());
    let of = |path: &str| -> Value {
        serde_json::from_slice(&bench.ok(&["stat", "--client", "--json", path])).expect("JSON")
    };
    let setting = |told: &Value, name: &str| {
        let settings = told["settings"].as_array().expect("settings");
        let found = settings.iter().find(|s| s["name"] == name).expect(name);
        (found["value"].to_string(), found["from"].to_string())
    };
    let (usual, uncached) = (of("/t/large"), of(&path("?cache=false&slots=7")));
    assert_eq!(usual["url"], *path(""));
    assert!(setting(&usual, "read-ahead") == ("\"8388608 bytes\"".into(), "\"default\"".into()));
    let off = ("\"none\"".into(), "\"cache=false of the URL\"".into());
    assert_eq!(setting(&uncached, "read-ahead"), off);
    assert!(setting(&uncached, "requests at a time").0.starts_with("\"7 "));
    let (layout, from) = setting(&usual, "layout");
    assert!(layout.contains("2 stripes of ") && from.contains("the server"), "{layout} {from}");
    assert!(setting(&usual, "layouts for").0.contains("of this one by the data servers"));
    let shown = text(bench, &["stat", "--client", &path("?layouts=false")]);
    assert!(shown.contains("not used: all through the metadata server"), "{shown}");
    assert!(!shown.contains(" stripes of "), "{shown}");
    assert!(text(bench, &["stat", "--client", "/t"]).contains("cache budget"));
    let said = bench.fails(1, &["stat", "--client", &path("?cash=false")]);
    assert!(said.contains("there is no option \"cash\""), "{said}");
    bench.fails(1, &["stat", "--client", "/gone"]);
}

/// A name of 255 bytes is one, and a longer one is refused by each command that takes names.
fn long_names(bench: &Bench) {
    let (most, too_long) = (format!("/{}", "n".repeat(255)), format!("/{}", "n".repeat(256)));
    let file = bench.file("f", 1, 10);
    bench.ok(&["put", &file, &most]);
    assert_eq!(bench.content(&most).len(), 10);
    bench.ok(&["rm", &most]);
    let (deep, there) = (format!("{too_long}/x"), format!(":{too_long}"));
    for arguments in [
        &["put", &file, &too_long][..],
        &["put", &file, &deep],
        &["cp", &file, &there],
        &["cp", ":/t/small", &there],
        &["get", &too_long, "-"],
        &["mv", "/t/small", &too_long],
        &["ln", "/t/small", &too_long],
        &["ln", "-s", "small", &too_long],
        &["mkdir", &too_long],
        &["touch", &too_long],
        &["chmod", "600", &too_long],
        &["stat", &too_long],
        &["ls", &too_long],
        &["cat", &too_long],
        &["rm", &too_long],
    ] {
        let said = bench.fails(1, arguments);
        assert!(said.contains("file name too long"), "{arguments:?}: {said}");
    }
}

fn mistakes(bench: &Bench) {
    let port = bench.cluster.port();
    for (status, arguments, words) in [
        (2, &["chmod", "rw", "/t"][..], "rw: not a mode; write it as 644"),
        (1, &["chmod", "644", "/gone"], "/gone: no such file or directory (`weft ls` shows"),
        (1, &["chown", "no-such-user", "/t"], "knows no such user"),
        (1, &["chown", "4294967295", "/t"], "4294967295: is no user"),
        (1, &["chown", "root:", "/t"], "name the group behind the colon"),
        (1, &["ln", "/t/small", "/t/large"], "/t/large: file exists"),
        (1, &["ln", "/t/sub", "/t/x"], "is a directory, which has one name"),
        (1, &["cat", "/t/z*"], "/t/z*: nothing fits"),
        (1, &["rm", "/t/z*"], "/t/z*: nothing fits"),
        (2, &["find", "/t", "-size", "big"], "big: write 4096, +1M or -10KiB"),
    ] {
        let said = bench.fails(status, arguments);
        assert!(said.contains(words), "weft {arguments:?}: {said}");
        let names_server = status != 1 || arguments[0] == "chown" || said.contains("weft://");
        assert!(names_server, "port {port}: {said}");
    }
    // A path as `weft cp` has it is one, a URL is not.
    assert_eq!(lines(bench, &["ls", "--sort", "name", ":/t"])[0], "large");
    let said = bench.fails(2, &["ls", "weft://127.0.0.1/t"]);
    assert!(said.contains("names the server, and the path is /PATH"), "{said}");
    for (arguments, words) in [
        (&["rm", "-r", "/t/sub/.."][..], "/t/sub/..: write the name of what is to be removed"),
        (&["rm", "-r", "/t/."], "/t/.: write the name of what is to be removed"),
        (&["mv", "/t/sub/..", "/u"], "/t/sub/..: write the name of what is to be moved"),
    ] {
        let said = bench.fails(1, arguments);
        assert!(said.contains(words), "weft {arguments:?}: {said}");
    }
    bench.ok(&["rm", "/t/s[me]*"]);
    assert_eq!(
        lines(bench, &["ls", "-a", "--sort", "name", "/t"]),
        [".hidden", "large", "new", "sub"]
    );
}
