//! The commands as people run them: real processes, signals, pipes, and every way of writing an
//! address. Leases are long here: whoever has to wait for one fails.

mod support;

use std::{
    fs,
    io::{BufRead, BufReader, Write},
    os::unix::fs::{FileTypeExt, PermissionsExt, symlink},
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
};

use serde_json::Value;
use support::{
    bench::{Bench, PATIENCE, ended, sorted_lines},
    cluster::Ports,
};
use tempfile::TempDir;

const MIB: usize = 1 << 20;
fn signal(child: &Child, name: &str) {
    let sent = support::run("kill", &[&format!("-{name}"), &child.id().to_string()]);
    assert!(sent.status.success(), "kill: {}", support::words(&sent));
}

/// What the commands do to files and names, on one cluster.
#[test]
fn files_and_names() {
    let bench = Bench::start();
    a_put_replaces_whole_files_or_nothing(&bench);
    a_dead_put_stands_in_nobodys_way(&bench);
    a_replaced_file_keeps_its_mode(&bench);
    a_get_replaces_nothing_but_files(&bench);
    an_interrupted_get_leaves_nothing(&bench);
    trees_go_in_and_out(&bench);
    nothing_is_left_out(&bench);
    servers_by_any_name(&bench);
    mistakes_are_named(&bench);
    outputs_that_fail(&bench);
    waits_are_said(&bench);
}

/// Until the last byte is there the old file is, whole; Ctrl-C and SIGTERM end a put at once, with
/// the status shells have for that, and leave neither a temporary file nor a client at the server.
fn a_put_replaces_whole_files_or_nothing(bench: &Bench) {
    let old = bench.file("old", 1, 3 * MIB);
    bench.ok(&["put", &old, "/f"]);
    for (name, status) in [("INT", 130), ("TERM", 143)] {
        let put = bench.put_in_the_middle(&["put", "-", "/f"]);
        support::until("a temporary file", PATIENCE, || {
            (bench.names("/").len() == 2).then_some(())
        });
        assert_eq!(bench.content("/f"), support::pattern(1, 3 * MIB), "in the middle");
        signal(&put, name);
        // Its standard input is open still, and stays so until it has ended.
        let mut put = put;
        let stdin = put.stdin.take();
        let output = ended(put);
        drop(stdin);
        assert_eq!(output.status.code(), Some(status), "{}", support::words(&output));
        assert_eq!(bench.names("/"), ["f"], "after SIG{name}");
        assert_eq!(bench.content("/f"), support::pattern(1, 3 * MIB), "after SIG{name}");
        assert_eq!(bench.clients(), 0, "after SIG{name}");
    }
}

/// What a killed put has left, another of the same user takes over at once, in place too, though
/// the lease of the dead one lasts for an hour. Two that live do not disturb each other.
fn a_dead_put_stands_in_nobodys_way(bench: &Bench) {
    let new = bench.file("new", 2, 2 * MIB);
    for in_place in [false, true] {
        let mut arguments = vec!["put", "-", "/f"];
        if in_place {
            arguments.insert(1, "--in-place");
        }
        let mut put = bench.put_in_the_middle(&arguments);
        if in_place {
            let begun = bench.file("begun", 9, 4 * MIB);
            let begun = fs::read(begun).expect("a file");
            support::until("bytes of it", PATIENCE, || {
                let there = bench.ok(&["stat", "--json", "/f"]);
                let size = serde_json::from_slice::<Value>(&there).expect("JSON")["size"].as_u64();
                (size >= Some(begun.len() as u64)).then_some(())
            });
        } else {
            support::until("a temporary file", PATIENCE, || {
                (bench.names("/").len() == 2).then_some(())
            });
        }
        put.kill().expect("kill");
        put.wait().expect("wait");
        arguments.retain(|a| *a != "-");
        arguments.insert(arguments.len() - 1, &new);
        bench.ok(&arguments);
        assert_eq!(bench.content("/f"), support::pattern(2, 2 * MIB), "in place: {in_place}");
        assert_eq!(bench.names("/"), ["f"], "in place: {in_place}");
        assert_eq!(bench.clients(), 0, "in place: {in_place}");
    }
    let puts: Vec<_> =
        ["/a", "/b", "/a"].map(|name| bench.put_in_the_middle(&["put", "-", name])).into();
    for put in puts {
        let output = ended(put);
        assert!(output.status.success(), "{}", support::words(&output));
    }
    assert!(bench.content("/a") == support::pattern(9, 9 * MIB));
    assert_eq!(bench.names("/"), ["a", "b", "f"]);
    bench.ok(&["rm", "/a", "/b"]);
}

/// As `cp` has it: the mode of the file that is there stays, and a link is followed.
fn a_replaced_file_keeps_its_mode(bench: &Bench) {
    let tool = bench.file("tool", 3, 10);
    fs::set_permissions(&tool, fs::Permissions::from_mode(0o750)).expect("a mode");
    bench.ok(&["put", &tool, "/tool"]);
    let plain = bench.file("plain", 4, 70_000);
    bench.ok(&["put", &plain, "/tool"]);
    let listed = String::from_utf8(bench.ok(&["ls", "-l", "/tool"])).expect("text");
    assert!(listed.starts_with("-rwxr-x---"), "{listed}");
    bench.ok(&["rm", "/tool"]);
}

/// A get writes into a fifo, follows a link, and refuses a file that is read-only; standard output
/// and input have a name.
fn a_get_replaces_nothing_but_files(bench: &Bench) {
    let small = bench.file("small", 5, 1000);
    bench.ok(&["put", &small, "/small"]);
    let fifo = bench.local("fifo");
    assert!(support::run("mkfifo", &[&fifo]).status.success());
    for remote in ["/small", "/f"] {
        let get = bench.spawn(&["get", remote, &fifo]);
        let read = fs::read(&fifo).expect("the fifo");
        assert!(ended(get).status.success(), "{remote}");
        assert!(read == bench.content(remote), "{remote}");
        assert!(fs::symlink_metadata(&fifo).expect("the fifo").file_type().is_fifo());
    }
    symlink("behind", bench.local("link")).expect("a link");
    fs::write(bench.local("behind"), b"old").expect("a file");
    bench.ok(&["get", "/small", &bench.local("link")]);
    assert!(fs::symlink_metadata(bench.local("link")).expect("the link").is_symlink());
    assert_eq!(fs::read(bench.local("behind")).expect("the file"), support::pattern(5, 1000));
    let guarded = bench.file("guarded", 6, 3);
    fs::set_permissions(&guarded, fs::Permissions::from_mode(0o444)).expect("a mode");
    let said = bench.fails(1, &["get", "/small", &guarded]);
    assert!(said.contains("guarded: is read-only"), "{said}");
    assert_eq!(fs::read(&guarded).expect("the file"), support::pattern(6, 3));
    assert_eq!(bench.ok(&["get", "/small", "/dev/stdout"]), support::pattern(5, 1000));
    let mut put = bench.spawn(&["put", "-", "/piped"]);
    put.stdin.take().expect("a pipe").write_all(b"through a pipe").expect("the put reads");
    assert!(ended(put).status.success());
    assert_eq!(bench.content("/piped"), b"through a pipe");
    let said = bench.fails(1, &["put", &fifo, "/fifo"]);
    assert!(said.contains("fifo: is a fifo"), "{said}");
    bench.ok(&["rm", "/small", "/piped"]);
}

/// Ctrl-C in a get leaves nothing of it; what a killed one has left goes with the next.
fn an_interrupted_get_leaves_nothing(bench: &Bench) {
    let dir = bench.local("gets");
    fs::create_dir(&dir).expect("a folder");
    let huge = bench.file("huge", 7, 64 * MIB);
    bench.ok(&["put", &huge, "/huge"]);
    let names = || -> Vec<PathBuf> {
        fs::read_dir(&dir).expect("the folder").map(|e| e.expect("an entry").path()).collect()
    };
    let target = format!("{dir}/huge");
    for name in ["INT", "KILL"] {
        let get = bench.spawn(&["get", "/huge", &target]);
        support::until("a file", PATIENCE, || (!names().is_empty()).then_some(()));
        signal(&get, name);
        ended(get);
        // It may have been quicker than the signal.
        let _ = fs::remove_file(&target);
        if name == "INT" {
            assert_eq!(names(), Vec::<PathBuf>::new());
        }
    }
    bench.ok(&["get", "/huge", &target]);
    assert_eq!(names(), [Path::new(&target)]);
    bench.ok(&["rm", "/huge"]);
}

/// Directories with everything below, links as links; several files into one directory.
fn trees_go_in_and_out(bench: &Bench) {
    let tree = bench.local("tree");
    fs::create_dir_all(format!("{tree}/a/b")).expect("folders");
    fs::write(format!("{tree}/a/b/deep"), b"deep").expect("a file");
    fs::write(format!("{tree}/top"), b"top").expect("a file");
    symlink("a/b/deep", format!("{tree}/link")).expect("a link");
    let said = bench.fails(1, &["put", &tree, "/"]);
    assert!(said.contains("tree: is a directory (put -r copies it)"), "{said}");
    bench.ok(&["put", "-r", &tree, "/"]);
    bench.ok(&["put", "-r", &tree, "/other"]);
    assert_eq!(bench.names("/other"), bench.names("/tree"));
    let said = bench.fails(1, &["get", "/tree", &bench.local("back")]);
    assert!(said.contains("/tree: is a directory (get -r copies it)"), "{said}");
    bench.ok(&["get", "-r", "/tree", &bench.local("back")]);
    let compared = support::run("diff", &["-r", "--no-dereference", &tree, &bench.local("back")]);
    assert!(compared.status.success(), "{}", support::words(&compared));
    let (top, deep) = (format!("{tree}/top"), format!("{tree}/a/b/deep"));
    bench.ok(&["mkdir", "/many"]);
    bench.ok(&["put", &top, &deep, "/many"]);
    assert_eq!(bench.names("/many"), ["deep", "top"]);
    let said = bench.fails(1, &["put", &top, &deep, "/nowhere"]);
    assert!(said.contains("/nowhere: not a directory"), "{said}");
    bench.ok(&["rm", "-r", "/tree", "/other", "/many"]);
}

/// Files that tell no size, or a wrong one, are copied all the same, and two files of one name are
/// not copied onto each other.
fn nothing_is_left_out(bench: &Bench) {
    bench.ok(&["put", "/proc/version", "/version"]);
    assert_eq!(bench.content("/version"), fs::read("/proc/version").expect("a file"));
    bench.ok(&["put", &bench.file("empty", 0, 0), "/empty"]);
    assert_eq!(bench.content("/empty"), b"");
    let (online, told) = ("/sys/devices/system/cpu/online", 4096);
    let content = fs::read(online).expect("a file");
    assert_eq!((fs::metadata(online).expect("a file").len(), content.is_empty()), (told, false));
    for arguments in [["put", online, "/sys"], ["cp", online, ":/sys"], ["put", "-", "/sys"]] {
        let mut put = bench.command(&arguments);
        let put = put.stdin(fs::File::open(online).expect("a file")).output().expect("weft starts");
        assert!(put.status.success(), "{arguments:?}: {}", support::words(&put));
        assert_eq!(bench.content("/sys"), content, "{arguments:?}");
        bench.ok(&["rm", "/sys"]);
    }
    bench.ok(&["cp", "-r", "--verify", "/sys/devices/system/cpu/smt", ":/smt"]);
    let smt = fs::read("/sys/devices/system/cpu/smt/control").expect("a file");
    assert_eq!(bench.content("/smt/control"), smt);
    bench.ok(&["rm", "-r", "/smt"]);
    fs::create_dir_all(bench.local("one")).expect("a folder");
    let (one, other) = (bench.file("one/same", 1, 10), bench.file("same", 2, 10));
    bench.ok(&["mkdir", "/one", "/both"]);
    let said = bench.fails(1, &["put", &one, &other, "/both"]);
    assert!(said.contains("several files would become ") && said.contains("/both/same"), "{said}");
    assert!(bench.names("/both").is_empty());
    bench.ok(&["put", &one, "/one"]);
    bench.ok(&["put", &other, "/both"]);
    fs::create_dir(bench.local("got")).expect("a folder");
    let got = bench.local("got");
    let said = bench.fails(1, &["get", "/one/same", "/both/same", &got]);
    assert!(said.contains("several files would become ") && said.contains("got/same"), "{said}");
    assert!(!Path::new(&format!("{got}/same")).exists());
    bench.ok(&["rm", "-r", "/one", "/both", "/version", "/empty"]);
}

/// A server by name, by address, as `mount` takes it, and by URL; what cannot be found says so.
fn servers_by_any_name(bench: &Bench) {
    let port = bench.cluster.port();
    bench.ok(&["mkdir", "/dir"]);
    for server in [
        format!("localhost:{port}"),
        format!("127.0.0.1:{port}:/"),
        format!("nfs://localhost:{port}"),
        format!("weft://127.0.0.1:{port}/"),
    ] {
        let listed = bench.ok(&["ls", "--server", &server]);
        assert_eq!(sorted_lines(&listed), ["dir", "f"], "{server}");
    }
    let below = format!("localhost:{port}:/dir");
    bench.ok(&["put", &bench.file("x", 8, 5), "/../x", "--server", &below]);
    assert_eq!(bench.names("/dir"), ["x"]);
    bench.ok(&["rm", "-r", "/dir"]);
    let said = bench.fails(1, &["ls", "--server", "no-such-host.invalid"]);
    assert!(said.starts_with("weft: no such host no-such-host.invalid: "), "{said}");
    let said = bench.fails(1, &["ls", "--server", "a b"]);
    assert!(said.contains("\"a b\" is not an address: write HOST"), "{said}");
    let said = bench.fails(1, &["ls", "--server", "[::1]:1"]);
    assert!(said.contains("no server at [::1]:1: "), "{said}");
}

/// What people get wrong is answered with what is wrong, and what to do.
fn mistakes_are_named(bench: &Bench) {
    bench.ok(&["mkdir", "-p", "/d/sub"]);
    fs::write(bench.local("afile"), b"").expect("a file");
    for (status, arguments, words) in [
        (1, &["mv", "/d", "/d/sub"][..], "/d: cannot move a directory into itself (/d/sub/d)"),
        (1, &["mv", "/d", "/d/new"], "/d: cannot move a directory into itself (/d/new)"),
        (1, &["rm", "-r", "/"], "/: the root cannot be removed"),
        (1, &["rm", "/d"], "/d: directory not empty (rm -r removes it"),
        (1, &["get", "/d/x*", "."], "/d/x*: nothing fits (`weft ls` shows what is there)"),
        (1, &["put", "x*", "/d"], "(patterns of local files are expanded by the shell"),
        (1, &["put", "afile", "/new/"], "/new/: no such directory"),
        (1, &["rm", "/\u{1b}[31mred"], "weft: /\\033[31mred: no such file or directory\n"),
        (1, &["ls", "--server", "::1:1111"], "did you mean [::1]:1111?"),
        (1, &["threshold", "5GiB"], "5GiB: too large; the threshold is at most 1MiB"),
        (1, &["threshold", "32 kilos"], "32 kilos: not a size"),
        (1, &["status"], "no cluster in ./.weft, and no answer at /run/weft/admin.sock"),
        (1, &["status", "--dir", "nowhere"], "nowhere: no such directory"),
        (1, &["status", "--dir", "afile"], "afile: a file, not a directory of `weft up`"),
        (2, &["fsck"], "there is no volume here (--dir names the directory of a `weft up`"),
        (2, &["ls", "--no-such-option"], "unexpected argument"),
        (2, &["put", "afile"], "required arguments were not provided"),
    ] {
        let said = bench.fails(status, arguments);
        assert!(said.contains(words), "weft {arguments:?}: {said}");
    }
    let shown = String::from_utf8(bench.ok(&["stat", "/f"])).expect("text");
    assert!(!shown.contains("admin"), "{shown}");
    let help = String::from_utf8(bench.ok(&["--help"])).expect("text");
    assert!(help.contains("Exit status: 0 all done; 1 failed"), "{help}");
    let data = bench.cluster.data_dir();
    let data = data.to_str().expect("a plain path");
    let said = bench.fails(2, &["fsck", "--dir", data]);
    assert!(said.contains("stop the cluster first; `weft check` looks while it serves"), "{said}");
    let said = bench.fails(2, &["accept-loss", "--data-server", "1", "--dir", data]);
    assert!(said.contains("stop the cluster first"), "{said}");
    let threshold = ["threshold", "32K", "--dir", data];
    let told = String::from_utf8(bench.ok(&threshold)).expect("text");
    assert!(told.starts_with("write threshold 32.00 KiB"), "{told}");
    bench.ok(&["rm", "-r", "/d"]);
}

/// Whoever reads a file to its end gets all of it or a failure; and nothing panics where the output
/// cannot be written.
fn outputs_that_fail(bench: &Bench) {
    let mut get = bench.spawn(&["get", "/f", "-"]);
    drop(get.stdout.take());
    let output = ended(get);
    let said = support::words(&output);
    assert!(output.status.code() == Some(1) && said.contains("not all of it was read"), "{said}");
    let data = bench.cluster.data_dir();
    let data = data.to_str().expect("a plain path");
    for arguments in [
        &["threshold", "--dir", data][..],
        &["backup", &bench.local("backup"), "--dir", data],
        &["restore", &bench.local("backup"), "--mds", &bench.local("restored")],
    ] {
        let full = fs::File::options().write(true).open("/dev/full").expect("/dev/full");
        let output = bench.command(arguments).stdout(full).output().expect("weft starts");
        let said = support::words(&output);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {said}");
        assert!(said.contains("cannot write the result: No space left"), "{arguments:?}: {said}");
    }
    assert!(Path::new(&bench.local("backup")).exists());
}

/// Who waits for a server that says nothing is told so, and goes on when it does again.
fn waits_are_said(bench: &Bench) {
    let pid = bench.cluster.pid().to_string();
    assert!(support::run("kill", &["-STOP", &pid]).status.success());
    let mut ls = bench.spawn(&["ls", "/"]);
    let mut said = String::new();
    let mut stderr = BufReader::new(ls.stderr.take().expect("a pipe"));
    let read = stderr.read_line(&mut said);
    assert!(support::run("kill", &["-CONT", &pid]).status.success());
    read.expect("a line");
    let expected = format!("weft: waiting for server 127.0.0.1:{}: ", bench.cluster.port());
    assert!(said.starts_with(&expected), "{said:?}");
    let output = ended(ls);
    assert_eq!((output.status.code(), &output.stdout[..]), (Some(0), &b"f\n"[..]));
    let data = bench.cluster.data_dir();
    let backup = bench.local("late");
    for command in [&["status"][..], &["clients"], &["check"], &["threshold"], &["backup", &backup]]
    {
        assert!(support::run("kill", &["-STOP", &pid]).status.success());
        let dir = ["--dir", data.to_str().expect("a plain path")];
        let mut asks = bench.spawn(&[command, &dir].concat());
        let mut said = String::new();
        let read = BufReader::new(asks.stderr.take().expect("a pipe")).read_line(&mut said);
        assert!(support::run("kill", &["-CONT", &pid]).status.success());
        read.expect("a line");
        assert!(said.starts_with("weft: waiting for the admin service at "), "{command:?}: {said}");
        assert_eq!(ended(asks).status.code(), Some(0), "{command:?}");
    }
}

/// `weft up` in a folder of its own.
struct Up {
    dir: TempDir,
    ports: Ports,
}

impl Up {
    fn new() -> Up {
        Up { dir: tempfile::tempdir().expect("a folder"), ports: Ports::free() }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(support::weft_binary());
        command
            .arg("up")
            .args(arguments)
            .current_dir(self.dir.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    fn run(&self, arguments: &[&str]) -> Output {
        ended(self.command(arguments).spawn().expect("weft starts"))
    }

    fn listen(&self, host: &str) -> String {
        format!("{host}:{}", self.ports.first)
    }
}

/// The demonstration, three times on one folder: no start has to wait for the client of the one
/// before, though the grace would last an hour. An ordinary user can do so too, and the folder's
/// data servers are found without being counted.
#[test]
fn the_demonstration_again_and_again() {
    let up = Up::new();
    let user = if support::is_root() { Some("12345") } else { None };
    if let Some(uid) = user {
        let chown = support::run("chown", &[uid, up.dir.path().to_str().expect("a plain path")]);
        assert!(chown.status.success(), "{}", support::words(&chown));
    }
    let listen = up.listen("127.0.0.1");
    for round in ["--data-servers=5", "--lease=3600", "--lease=3600"] {
        let arguments = ["--demo", "--once", "--listen", &listen, "--lease=3600", round];
        let arguments = &arguments[..if round.starts_with("--lease") { 5 } else { 6 }];
        let output = match user {
            None => up.run(arguments),
            Some(uid) => {
                let demo = up.command(arguments);
                let mut command = Command::new("setpriv");
                command.args(["--reuid", uid, "--regid", uid, "--clear-groups"]);
                command.arg(demo.get_program()).args(demo.get_args());
                command.current_dir(up.dir.path()).stdin(Stdio::null());
                command.stdout(Stdio::piped()).stderr(Stdio::piped());
                ended(command.spawn().expect("setpriv starts"))
            }
        };
        let said = support::words(&output);
        assert!(output.status.success(), "{round}: {said}");
        assert!(
            said.contains("The copy is identical") && said.contains("5 data servers"),
            "{said}"
        );
    }
    let mut status = Command::new(support::weft_binary());
    let status = status.args(["status"]).current_dir(up.dir.path()).output().expect("weft starts");
    let said = support::words(&status);
    assert!(said.contains("(is `weft up` running on .weft?)"), "{said}");
    assert_eq!(status.status.code(), Some(1));
}

/// What is wrong with a start is said, and leaves nothing behind.
#[test]
fn starts_that_fail() {
    let up = Up::new();
    let taken = std::net::TcpListener::bind(("127.0.0.1", up.ports.first)).expect("a port");
    let listen = up.listen("127.0.0.1");
    fs::write(up.dir.path().join("afile"), b"").expect("a file");
    fs::write(up.dir.path().join("wide.toml"), "stripe_width = 3\nlisten = \"0.0.0.0:1\"\n")
        .expect("a configuration");
    for (arguments, words) in [
        (&["--listen", &listen, "--dir", "fresh"][..], "another server is using it"),
        (&["--listen", "a b"], "\"a b\" is not an address"),
        (&["--dir", "afile"], "afile: is a file, not a directory"),
        (&["--dir", "/proc/foo"], "/proc/foo: cannot make the directory"),
    ] {
        let output = up.run(arguments);
        let said = support::words(&output);
        assert!(!output.status.success() && said.contains(words), "{arguments:?}: {said}");
    }
    assert!(!up.dir.path().join("fresh").exists(), "a fresh directory stays");
    drop(taken);
    let wide = ["--listen", &listen, "--config", "wide.toml", "--data-servers"];
    let output = up.run(&[&wide[..], &["2"]].concat());
    let said = support::words(&output);
    let why = "stripe_width = 3, but there are 2 data servers";
    assert!(!output.status.success() && said.contains(why), "{said}");
    assert!(said.contains("listen has no effect on `weft up`, which has --listen"), "{said}");
    let output = up.run(&[&wide[..], &["4", "--demo", "--once"]].concat());
    assert!(output.status.success(), "{}", support::words(&output));
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(said.contains("lies on 3 data servers"), "{said}");
    let endpoints = fs::read(up.dir.path().join(".weft/endpoints.json")).expect("endpoints");
    let endpoints: Value = serde_json::from_slice(&endpoints).expect("JSON");
    let theirs = endpoints["data_servers"][1].as_str().expect("an address");
    let _taken = std::net::TcpListener::bind(theirs).expect("its port");
    let wanting = ["--listen", &listen];
    for (arguments, words) in [
        (&wanting[..], "data server 2 cannot listen on port"),
        (&[&wanting[..], &["--dir", ".weft/mds"]].concat(), "this is the directory of one server"),
        (&[&wanting[..], &["--dir", ".weft/ds-1"]].concat(), "this is the directory of one server"),
    ] {
        let output = up.run(arguments);
        let said = support::words(&output);
        assert!(!output.status.success() && said.contains(words), "{arguments:?}: {said}");
    }
    assert!(!up.dir.path().join(".weft/mds/lock").exists(), "something was made");
}

/// Every way to say where to listen; what is printed then works as it stands.
#[test]
fn listening_anywhere() {
    for (host, shown) in [("localhost", "127.0.0.1"), ("", "127.0.0.1"), ("[::1]", "[::1]")] {
        let up = Up::new();
        let output = up.run(&["--demo", "--once", "--listen", &up.listen(host)]);
        let said = support::words(&output);
        assert!(output.status.success(), "{host}: {said}");
        let hint = format!("weft put FILE /name --server {shown}:{}", up.ports.first);
        assert!(said.contains(&hint), "{host}: {said}");
        assert!(host != "[::1]" || said.contains(" [::1]:/ /mnt"), "{said}");
    }
}
