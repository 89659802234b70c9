//! Locks of programs on two mounts of one cluster: `fcntl(2)` and `flock(2)`, asked for, waited
//! for, given up, and taken along by processes that end.

mod support;

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use support::cluster::{Cluster, Options};
use support::mount::Mount;
use tempfile::TempDir;
use weft_dev::env;

/// Time for what takes a moment, on a busy machine.
const SOON: Duration = Duration::from_secs(20);
/// Steps of processes whose locks are compared with those of a local disk.
const STEPS: u64 = 6000;
/// How often each of four processes raises the number that they share.
const TIMES: u32 = 150;

/// Two mounts, and a folder beside them with the program that locks.
struct Two {
    a: Mount,
    b: Mount,
    beside: TempDir,
    locker: PathBuf,
    cluster: Cluster,
}

impl Two {
    fn start(arguments: &[&str]) -> Two {
        let options = Options { lease_seconds: 3, grace_seconds: 3, ..Options::default() };
        let cluster = Cluster::start(options);
        let mount = || Mount::of(cluster.port(), arguments);
        let (a, b) = (mount(), mount());
        let beside = tempfile::tempdir().expect("a folder");
        let locker = support::guest::compiled("locker", beside.path());
        Two { a, b, beside, locker, cluster }
    }

    fn beside(&self, name: &str) -> PathBuf {
        self.beside.path().join(name)
    }

    /// `locker WORD FILE REST...` on one of the mounts.
    fn locker(&self, mount: &Mount, word: &str, rest: &[&str]) -> Command {
        let mut command = Command::new(&self.locker);
        command.arg(word).arg(mount.path("lock")).args(rest);
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        command
    }

    /// Whether a lock could be had at once.
    fn tries(&self, mount: &Mount, rest: &[&str]) -> bool {
        match self.locker(mount, "try", rest).status().expect("locker").code() {
            Some(0) => true,
            Some(1) => false,
            other => panic!("locker try: {other:?}"),
        }
    }

    fn tells(&self, mount: &Mount) -> String {
        let said = self.locker(mount, "tell", &[]).output().expect("locker");
        assert!(said.status.success(), "{}", support::words(&said));
        String::from_utf8_lossy(&said.stdout).trim_end().to_string()
    }

    /// Starts who holds a lock, and waits until he has it.
    fn holder(&self, mount: &Mount, word: &str, name: &str) -> Holder {
        let (ready, release) = (self.beside(&format!("{name}.ready")), self.beside(name));
        let paths = [ready.to_str().expect("plain"), release.to_str().expect("plain")];
        let child = self.locker(mount, word, &paths).spawn().expect("locker");
        support::until("lock", SOON, || ready.exists().then_some(()));
        std::fs::remove_file(&ready).expect("it is there");
        Holder { child, release }
    }
}

struct Holder {
    child: Child,
    release: PathBuf,
}

impl Holder {
    fn lets_go(mut self) {
        std::fs::write(&self.release, "").expect("a file");
        let ended = self.child.wait().expect("locker");
        assert!(ended.success(), "{ended}");
        std::fs::remove_file(&self.release).expect("it is there");
    }
}

/// A process that ends with this, and lets go of the mounts then.
struct Walk(Child);

impl Drop for Walk {
    fn drop(&mut self) {
        // Nothing more can be done about a process that cannot be killed.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A child that must end soon; whether well.
fn ends(child: &mut Child) -> bool {
    support::until("end", SOON, || child.try_wait().expect("a child")).success()
}

/// What one has, the other is refused, and told of; waiting for it ends when it is given up, and
/// others go on meanwhile. Readers share.
#[test]
fn locks_exclude_between_mounts() {
    let two = Two::start(&[]);
    let holder = two.holder(&two.a, "hold", "one");
    assert!(!two.tries(&two.b, &[]) && !two.tries(&two.b, &["99", "1"]));
    assert!(two.tries(&two.b, &["100", "50"]), "beside it");
    assert_eq!(two.tells(&two.b), "write 0 100");
    assert_eq!(two.tells(&two.a), "write 0 100", "of another process of the same mount");
    let mut waiting: Vec<Child> =
        (0..6).map(|_| two.locker(&two.b, "wait", &[]).spawn().expect("locker")).collect();
    std::thread::sleep(Duration::from_secs(1));
    assert!(waiting.iter_mut().all(|child| child.try_wait().expect("a child").is_none()));
    let began = Instant::now();
    assert_eq!(two.b.shell(0, "echo x > other && cat other"), (true, "x".to_string()));
    assert!(began.elapsed() < SOON, "who waits is in nobody's way");
    holder.lets_go();
    assert!(waiting.iter_mut().all(ends));
    assert_eq!(two.tells(&two.b), "none");

    let (one, other) = (two.holder(&two.a, "share", "one"), two.holder(&two.b, "share", "other"));
    assert!(!two.tries(&two.a, &[]));
    one.lets_go();
    assert!(!two.tries(&two.a, &[]));
    other.lets_go();
    assert!(two.tries(&two.a, &[]));
    two.a.unmount();
    two.b.unmount();
}

/// Locks go with their process, however it ends; who waits for one can be killed.
#[test]
fn locks_end_with_their_process() {
    let two = Two::start(&[]);
    let mut holder = two.holder(&two.a, "hold", "one");
    let mut waiting = two.locker(&two.b, "wait", &[]).spawn().expect("locker");
    std::thread::sleep(Duration::from_millis(500));
    assert!(waiting.try_wait().expect("a child").is_none());
    waiting.kill().expect("kill");
    assert!(!ends(&mut waiting), "killed while it waited");
    let mut next = two.locker(&two.b, "wait", &[]).spawn().expect("locker");
    holder.child.kill().expect("kill");
    assert!(!ends(&mut holder.child));
    assert!(ends(&mut next), "the lock of who was killed is free");
    // SIGALRM ends a wait as it does on a local disk.
    let holder = two.holder(&two.a, "hold", "one");
    let alarmed = "import fcntl,signal,sys
f=open(sys.argv[1],'r+')
def ring(*_): raise TimeoutError
signal.signal(signal.SIGALRM,ring); signal.alarm(1)
try: fcntl.lockf(f,fcntl.LOCK_EX,100)
except TimeoutError: print('rang')";
    let path = two.b.path("lock");
    let said = support::run("python3", &["-c", alarmed, path.to_str().expect("plain")]);
    assert_eq!(said.stdout, b"rang\n", "{}", support::words(&said));
    holder.lets_go();
    two.a.unmount();
    two.b.unmount();
}

/// A number that processes on both mounts raise under a lock loses nothing: nobody has a lock that
/// another has, and who has it sees the last number. With `flock(2)` too.
#[test]
fn a_number_raised_under_locks() {
    let two = Two::start(&[]);
    for how in ["fcntl", "flock"] {
        std::fs::write(two.a.path("lock"), "0").expect("a file");
        let times = TIMES.to_string();
        let mut all: Vec<Child> = [&two.a, &two.b, &two.a, &two.b]
            .map(|mount| two.locker(mount, "count", &[&times, how]).spawn().expect("locker"))
            .into();
        let limit = SOON * 6;
        for child in &mut all {
            let ended = support::until("count", limit, || child.try_wait().expect("a child"));
            assert!(ended.success(), "{how}: {ended}");
        }
        // What the other has written last may be a second old to who only looks.
        let path = two.b.path("lock");
        let said = support::run("cat", &[path.to_str().expect("plain")]).stdout;
        let number = String::from_utf8_lossy(&said).trim().parse();
        assert_eq!(number, Ok(4 * TIMES), "{how}");
    }
    two.a.unmount();
    two.b.unmount();
}

/// What a program on one mount opens after another mount has closed, removed or made it is that,
/// and all of it, whatever was looked at or listed a moment before.
#[test]
fn an_open_asks() {
    let two = Two::start(&[]);
    let script = two.beside("opens.py");
    std::fs::write(&script, OPENS).expect("a script");
    let (a, b) = (two.a.path(""), two.b.path(""));
    let all = [script.as_path(), a.as_path(), b.as_path()];
    let ran = support::run("python3", &all.map(|path| path.to_str().expect("plain")));
    assert!(ran.status.success(), "{}", support::words(&ran));
    two.a.unmount();
    two.b.unmount();
}

/// The directories of two mounts are its arguments.
const OPENS: &str = "import fcntl,os,sys
a, b = (mount + '/' for mount in sys.argv[1:])
def put(where, name, bytes):
    with open(where + name, 'wb') as f: f.write(bytes)
def get(where, name):
    with open(where + name, 'rb') as f: return f.read()
looks = [lambda name: os.stat(b + name), lambda name: [e.stat() for e in os.scandir(b)]]
for n, look in enumerate(looks):
    name = f'grows{n}'
    put(a, name, b'1' * 10); look(name); put(a, name, b'2' * 70_000)
    assert get(b, name) == b'2' * 70_000, name
    for end in b'xyz':
        for where in a, b:
            with open(where + name, 'ab') as f: f.write(bytes([end]))
    assert get(a, name)[-6:] == b'xxyyzz', name
    name = f'goes{n}'
    put(a, name, b'old'); look(name); os.unlink(a + name); put(b, name, b'new')
    assert get(a, name) == b'new', name
    look(name); put(a, 'other', b'other'); os.rename(a + 'other', a + name)
    assert get(b, name) == b'other', name
    os.mkdir(f'{b}d{n}'); put(b, f'd{n}/mine', b''); put(a, f'd{n}/theirs', b'theirs')
    assert get(b, f'd{n}/theirs') == b'theirs', n
logs = [os.open(where + 'log', os.O_WRONLY | os.O_CREAT | os.O_APPEND) for where in (a, b)]
for fd in logs * 10:
    fcntl.flock(fd, fcntl.LOCK_EX); os.write(fd, b'line'); fcntl.flock(fd, fcntl.LOCK_UN)
assert len(get(a, 'log')) == 80, 'log'
";

/// While a program takes and gives up a lock, what others read of the file is there.
#[test]
fn reads_beside_locks() {
    let two = Two::start(&[]);
    let script = two.beside("reads.py");
    std::fs::write(&script, READS).expect("a script");
    let file = two.a.path("f");
    let all = [script.as_path(), file.as_path()];
    let ran = support::run("python3", &all.map(|path| path.to_str().expect("plain")));
    assert!(ran.status.success(), "{}", support::words(&ran));
    two.a.unmount();
    two.b.unmount();
}

const READS: &str = "import fcntl,os,sys,time
name = sys.argv[1]
open(name, 'wb').write(b'D' * 8192); until = time.time() + 3
if os.fork() == 0:
    fd = os.open(name, os.O_RDWR)
    while time.time() < until:
        for how in fcntl.LOCK_SH, fcntl.LOCK_UN: fcntl.lockf(fd, how, 10, 1 << 30)
    os._exit(0)
fd = os.open(name, os.O_RDONLY)
while time.time() < until: assert os.pread(fd, 16, 24) == b'D' * 16
os.wait()
";

/// A program that closes a file, opens it again and locks it has it locked, though the first open
/// ends at the server after that.
#[test]
fn what_is_locked_again_stays_locked() {
    let two = Two::start(&[]);
    std::fs::write(two.a.path("lock"), "0").expect("a file");
    let script = "import fcntl,os,sys,time
a,b=sys.argv[1:]
def lost(lock):
    fd=os.open(a,os.O_RDWR); lock(fd,fcntl.LOCK_EX); os.close(fd)
    fd=os.open(a,os.O_RDWR); lock(fd,fcntl.LOCK_EX); time.sleep(0.03)
    other=os.open(b,os.O_RDWR)
    try: lock(other,fcntl.LOCK_EX|fcntl.LOCK_NB); return 1
    except BlockingIOError: return 0
    finally: os.close(fd); os.close(other)
for lock in fcntl.lockf,fcntl.flock: print(sum(lost(lock) for _ in range(10)))";
    let [a, b] = [&two.a, &two.b].map(|mount| mount.path("lock").to_string_lossy().into_owned());
    let said = support::run("python3", &["-c", script, &a, &b]);
    assert_eq!(said.stdout, b"0\n0\n", "{}", support::words(&said));
    two.a.unmount();
    two.b.unmount();
}

/// Data written under a lock, also through a mapping, are seen under the next one: when the lock
/// is given up, and when it becomes one that others share.
#[test]
fn writes_under_a_lock_are_seen_under_the_next() {
    let two = Two::start(&[]);
    let script = format!(
        "python3 -c \"
import fcntl,mmap,os
here=os.open('shared',os.O_RDWR|os.O_CREAT); os.write(here,b'.'*8192); os.fsync(here)
there=os.open('{}',os.O_RDWR); m=mmap.mmap(here,8192)
def mapped(i): m[i:i+1]=b'x'
def written(i): os.pwrite(here,b'x',i)
lock=fcntl.lockf
for i,write in enumerate((mapped,written,mapped,written)):
    lock(here,fcntl.LOCK_EX); write(i); lock(here,fcntl.LOCK_UN if i<2 else fcntl.LOCK_SH)
    lock(there,fcntl.LOCK_SH); print(os.pread(there,4,0).decode()); lock(there,fcntl.LOCK_UN)
    lock(here,fcntl.LOCK_UN)\"",
        two.b.path("shared").display()
    );
    let seen = "x...\nxx..\nxxx.\nxxxx".to_string();
    assert_eq!(two.a.shell(0, &script), (true, seen));
}

/// Processes on both mounts that open, close, duplicate, lock, unlock and die by chance are told
/// what a local disk tells those that do the same there, whatever follows on what; also while the
/// servers are killed.
///
/// `WEFT_LOCK_STEPS` says how many steps they go, `WEFT_SEED` where chance begins.
#[test]
fn locks_are_those_of_a_local_disk() {
    let steps = env("WEFT_LOCK_STEPS").unwrap_or(STEPS);
    let seed = support::seed();
    let mut two = Two::start(&[]);
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/locks/against_local.py");
    let mut against_local = Command::new("python3");
    against_local.arg(script).args([seed.to_string(), steps.to_string()]);
    against_local.args([two.beside.path(), &two.a.path(""), &two.b.path("")]);
    let mut walk = Walk(against_local.spawn().expect("python3"));
    let limit = SOON * 12 + Duration::from_millis(20) * u32::try_from(steps).expect("few steps");
    let deadline = Instant::now() + limit;
    let mut pauses = (3..15).chain(std::iter::repeat(15)).map(Duration::from_secs);
    let ended = loop {
        // Longer each time: on a busy machine the servers' grace may take as long as this.
        std::thread::sleep(pauses.next().expect("no end"));
        two.cluster.restart();
        if let Some(ended) = walk.0.try_wait().expect("a child") {
            break ended;
        }
        assert!(Instant::now() < deadline, "it does not go on");
    };
    assert!(ended.success(), "{ended}");
    two.a.unmount();
    two.b.unmount();
}

/// A lock outlives the server it was taken at, also while somebody else waits for it.
#[test]
fn locks_are_taken_again_after_a_restart() {
    let mut two = Two::start(&[]);
    let holder = two.holder(&two.a, "hold", "one");
    let mut waiting = two.locker(&two.b, "wait", &[]).spawn().expect("locker");
    std::thread::sleep(Duration::from_millis(500));
    two.cluster.restart();
    // It is had again when the server serves new locks, or soon after.
    support::until("lock again", SOON, || (two.tells(&two.b) == "write 0 100").then_some(()));
    assert!(!two.tries(&two.b, &[]));
    std::thread::sleep(Duration::from_secs(2));
    assert!(waiting.try_wait().expect("a child").is_none(), "the lock changed hands");
    holder.lets_go();
    assert!(ends(&mut waiting) && two.tries(&two.b, &[]));
    two.a.unmount();
    two.b.unmount();
}

/// Processes of one mount that wait for each other's locks: the one whose wait closes the circle is
/// told EDEADLK, on two files as on one, and the other one gets its lock.
#[test]
fn a_circle_of_waits_is_refused() {
    let two = Two::start(&[]);
    std::fs::write(two.a.path("script"), CIRCLE).expect("a file");
    for files in ["one two", "one one", "one two three"] {
        let said = two.a.shell(0, &format!("timeout 60 python3 script {files}"));
        assert_eq!(said, (true, "EDEADLK, others locked".to_string()), "{files}");
    }
    two.a.unmount();
    two.b.unmount();
}

/// Process N locks a byte of file N, and then waits for the byte of the next process.
const CIRCLE: &str = "import errno,fcntl,os,sys,time
names=sys.argv[1:]; n=len(names)
fds=[os.open(name,os.O_RDWR|os.O_CREAT) for name in names]
place=lambda i: (fds[i%n],fcntl.LOCK_EX,1,i%n)
ready,out=os.pipe(),os.pipe()
for i in range(n):
    if os.fork()==0:
        fcntl.lockf(*place(i)); os.write(ready[1],b'x')
        time.sleep(1+i/2)
        try: fcntl.lockf(*place(i+1)); said=b'L'
        except OSError as e: assert e.errno==errno.EDEADLK,e; said=b'D'
        os.write(out[1],said); os._exit(0)
for i in range(n): os.wait()
said=os.read(out[0],n).decode()
print('EDEADLK, others locked' if said=='D'+'L'*(n-1) else said)
";

/// A lock of an open file has ended when `close` returns, although the kernel does not wait for the
/// mount to release it.
#[test]
fn locks_end_with_the_close_of_their_open() {
    let two = Two::start(&[]);
    let script = support::repository().join("tests/fuse/closed.py");
    let run = format!("python3 {} closed 300", script.display());
    assert_eq!(two.a.shell(0, &run), (true, "0".to_string()));
    two.a.unmount();
    two.b.unmount();
}
