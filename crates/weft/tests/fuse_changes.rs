//! What the kernel behind a mount is told of changes that others make, and what it need not ask
//! while nobody makes any.

mod support;

use std::{
    fs::File,
    io::{BufRead, BufReader, Write},
    os::unix::fs::PermissionsExt,
    path::Path,
    process::{Child, ChildStdout},
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use support::{
    cluster::{Cluster, Options},
    mount::Mount,
};

/// A mount, and its cluster; dropped, both go.
struct Mounted {
    mount: Mount,
    cluster: Cluster,
}

impl Mounted {
    fn start() -> Mounted {
        let cluster = Cluster::configured(Options::default(), "");
        let mount = Mount::of(cluster.port(), &[]);
        Mounted { mount, cluster }
    }

    fn python(&self, script: &str) -> Python {
        std::fs::write(self.mount.path("script"), script).unwrap();
        let mut child = self.mount.start("exec python3 script");
        let said = BufReader::new(child.stdout.take().expect("a pipe"));
        Python { child, said }
    }

    /// How often the metadata server did that.
    fn count(&self, operation: &str) -> u64 {
        self.cluster.status().mds.operations.get(operation).copied().unwrap_or(0)
    }

    /// Has the metadata server forget the one client that has something delegated.
    fn evict_holder(&self) {
        let admin = self.cluster.admin_socket().to_str().expect("a plain path");
        let listed = self.cluster.weft(&["clients", "--json", "--admin", admin]);
        let listed: serde_json::Value = serde_json::from_slice(&listed.stdout).expect("JSON");
        let holds = |client: &&serde_json::Value| client["delegations"].as_u64() > Some(0);
        let clients = listed["clients"].as_array().expect("clients");
        let holders: Vec<_> = clients.iter().filter(holds).collect();
        let [holder] = holders[..] else { panic!("one holds something: {listed}") };
        let id = holder["id"].as_str().expect("an id");
        let evicted = self.cluster.weft(&["clients", "evict", id, "--admin", admin]);
        assert!(evicted.status.success(), "{}", support::words(&evicted));
    }

    /// Puts these bytes into a file that is there.
    fn put(&self, name: &str, bytes: &[u8]) {
        let elsewhere = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(elsewhere.path(), bytes).unwrap();
        let from = elsewhere.path().to_string_lossy();
        let put = self.cluster.weft(&["put", "--in-place", &from, name]);
        assert!(put.status.success(), "{}", support::words(&put));
    }
}

/// A program on the mount that does something for each line that it is sent, and says what came of
/// it.
struct Python {
    child: Child,
    said: BufReader<ChildStdout>,
}

impl Python {
    fn ask(&mut self, what: &str) -> String {
        let pipe = self.child.stdin.as_mut().expect("a pipe");
        writeln!(pipe, "{what}").expect("it listens");
        self.hear()
    }

    fn hear(&mut self) -> String {
        let mut line = String::new();
        self.said.read_line(&mut line).expect("it speaks");
        line.trim_end().to_string()
    }

    fn ends(mut self) {
        drop(self.child.stdin.take());
        assert!(self.child.wait().expect("it ends").success());
    }
}

/// A program that has a file open and mapped asks nothing about it for longer than attributes are
/// believed otherwise; what another client then writes it sees at once, by `stat`, by reading and
/// in the mapping, and who opens the file anew does, too.
#[test]
fn what_others_change_is_told() {
    let mounted = Mounted::start();
    mounted.put("/f", &[b'a'; 10_000]);
    let mut python = mounted.python(
        "import mmap,os,sys,time
f=os.open('f',os.O_RDONLY)
m=mmap.mmap(f,10000,prot=mmap.PROT_READ)
look=lambda: (os.fstat(f).st_size,os.pread(f,1,9000),m[9000:9001])
print(*look(),flush=True)
for line in sys.stdin:
    for _ in range(int(line)):
        time.sleep(.05); look()
    print(*look(),flush=True)",
    );
    assert_eq!(python.hear(), "10000 b'a' b'a'");
    let asked = || ["GETATTR", "LOOKUP", "OPEN", "READ"].map(|op| mounted.count(op));
    let before = asked();
    assert_eq!(python.ask("60"), "10000 b'a' b'a'");
    assert_eq!(asked(), before, "GETATTR, LOOKUP, OPEN, READ in three seconds of looking");
    mounted.put("/f", &[b'b'; 12_000]);
    assert_eq!(python.ask("0"), "12000 b'b' b'b'", "without a delegation from here on");
    mounted.put("/f", &[b'c'; 13_000]);
    let opened = std::fs::read(mounted.mount.path("f")).unwrap();
    assert_eq!((opened.len(), opened[9000]), (13_000, b'c'));
    mounted.put("/f", &[b'd'; 14_000]);
    // What was told is believed for a second; then reads see it, and with them the mapping.
    assert_eq!(python.ask("30"), "14000 b'd' b'd'");
    python.ends();
    mounted.mount.unmount();
}

/// The server forgets the mount's client, and with it what that was delegated: what another client
/// writes then is seen in a mapping, of which nobody asks the mount anything, once the mount has
/// heard of it.
#[test]
fn what_changes_after_it_was_forgotten_is_seen() {
    let mounted = Mounted::start();
    mounted.put("/f", &[b'a'; 10_000]);
    let mut python = mounted.python(
        "import mmap,os,sys
f=os.open('f',os.O_RDONLY)
m=mmap.mmap(f,10000,prot=mmap.PROT_READ)
print(m[9000:9001],flush=True)
for line in sys.stdin: print(m[9000:9001],flush=True)",
    );
    assert_eq!(python.hear(), "b'a'");
    mounted.evict_holder();
    mounted.put("/f", &[b'b'; 10_000]);
    let began = Instant::now();
    // It hears of it when it renews its lease, of ten seconds.
    while python.ask("") != "b'b'" {
        assert!(began.elapsed() < Duration::from_secs(40), "the mapping shows what was");
        std::thread::sleep(Duration::from_millis(100));
    }
    python.ends();
    mounted.mount.unmount();
}

/// A program writes through a mapping all the time, and has pages written back, while another
/// client wants the file that is delegated to the mount: neither waits for the other for ever, and
/// what was written before the other one came is seen by it.
#[test]
fn a_recall_meets_a_page_that_is_written_back() {
    let mounted = Mounted::start();
    let mut python = mounted.python(
        "import mmap,os,sys,threading
for line in sys.stdin:
    name=line.strip(); size=1<<20
    w=os.open(name,os.O_WRONLY|os.O_CREAT); os.write(w,b'a'*size); os.close(w)
    f=os.open(name,os.O_RDWR); m=mmap.mmap(f,size)
    m[0:6]=b'mapped'
    done=threading.Event()
    def dirty():
        n=0
        while not done.is_set():
            for at in range(8192,size,4096): m[at]=n&0xff
            n+=1
            if n%4==0: m.flush()
    t=threading.Thread(target=dirty); t.start()
    print('dirty',flush=True)
    sys.stdin.readline()
    done.set(); t.join(); m.flush(); m.close(); os.close(f)
    print('clean',flush=True)",
    );
    for round in 0..4 {
        let name = format!("f{round}");
        assert_eq!(python.ask(&name), "dirty");
        let began = Instant::now();
        let got = mounted.cluster.weft(&["get", &format!("/{name}"), "-"]);
        let took = began.elapsed();
        assert!(got.status.success(), "{}", support::words(&got));
        assert_eq!((got.stdout.len(), &got.stdout[..6]), (1 << 20, &b"mapped"[..]), "{name}");
        assert!(took < Duration::from_secs(30), "{name}: {took:?}");
        assert_eq!(python.ask("enough"), "clean");
    }
    python.ends();
    mounted.mount.unmount();
}

/// Outcome of each use of the paths `current` and `link`: true if it saw one of their files.
fn by_path(dir: &Path) -> Vec<(&'static str, std::io::Result<bool>)> {
    let (current, link) = (dir.join("current"), dir.join("link"));
    let mode = std::fs::Permissions::from_mode(0o644);
    vec![
        ("read", std::fs::read(&current).map(|bytes| bytes == [b'x'; 100])),
        ("stat", std::fs::metadata(&current).map(|about| about.len() == 100)),
        ("chmod", std::fs::set_permissions(&current, mode).map(|()| true)),
        ("write", File::options().write(true).open(&current).map(|_| true)),
        ("readlink", std::fs::read_link(&link).map(|to| to.as_os_str().len() == 4)),
        ("through the link", std::fs::read(&link).map(|bytes| bytes == b"the end")),
    ]
}

/// A file and a link are replaced by rename as fast as one mount can, as programs publish what is
/// new. Whoever uses their paths on another mount, also with names that he has just listed, gets
/// what was or what is: no name is missing or stale at any time.
#[test]
fn names_that_are_replaced_all_the_time() {
    let mounted = Mounted::start();
    let other = Mount::of(mounted.cluster.port(), &[]);
    let path = |name: &str| mounted.mount.path(name);
    std::fs::write(path("to 1"), "the end").unwrap();
    std::fs::write(path("to 2"), "the end").unwrap();
    let publish = |n: usize| {
        std::fs::write(path("new"), [b'x'; 100]).unwrap();
        std::fs::rename(path("new"), path("current")).unwrap();
        std::os::unix::fs::symlink(format!("to {}", n % 2 + 1), path("new link")).unwrap();
        std::fs::rename(path("new link"), path("link")).unwrap();
    };
    publish(0);
    let began = Instant::now();
    let is_over = || began.elapsed() > Duration::from_secs(4);
    let (tried, wrong) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let uses = |lists: bool| {
        while !is_over() {
            if lists {
                let listed = std::fs::read_dir(other.path("")).unwrap();
                // A name that is renamed meanwhile may be gone when its metadata is read.
                listed.for_each(|entry| drop(entry.unwrap().metadata()));
            }
            for (what, outcome) in by_path(&other.path("")) {
                tried.fetch_add(1, Ordering::Relaxed);
                if !matches!(outcome, Ok(true)) {
                    wrong.lock().unwrap().push((what, outcome));
                }
            }
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(|| (1..).take_while(|_| !is_over()).for_each(publish));
        scope.spawn(|| uses(true));
        uses(false);
    });
    let (tried, wrong) = (tried.into_inner(), wrong.into_inner().unwrap());
    assert!(tried > 300, "only {tried} uses, on a machine that is too busy for this test");
    assert!(wrong.is_empty(), "{} of {tried}, first {:?}", wrong.len(), wrong[0]);
    other.unmount();
    mounted.mount.unmount();
}
