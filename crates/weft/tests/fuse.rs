//! `weft mount`: the cluster in a directory of this machine, as programs and users meet it.

mod support;

use std::{
    fs,
    io::Write,
    os::unix::{
        fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt, symlink},
        process::CommandExt,
    },
    path::Path,
    process::Command,
    time::{Duration, Instant},
};

use support::{
    cluster::{Cluster, Options},
    disk::{Disk, Kind},
    mount::Mount,
};

const MIB: usize = 1 << 20;
const NOBODY: u32 = 65534;

/// A cluster, and its mount; dropped, both go.
struct Mounted {
    mount: Mount,
    cluster: Cluster,
}

impl std::ops::Deref for Mounted {
    type Target = Mount;

    fn deref(&self) -> &Mount {
        &self.mount
    }
}

impl Mounted {
    fn start(arguments: &[&str]) -> Mounted {
        let cluster = Cluster::configured(Options::default(), "");
        let mount = Mount::of(cluster.port(), arguments);
        Mounted { mount, cluster }
    }
}

fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).expect("a listing");
    let mut names: Vec<String> =
        entries.map(|e| e.expect("an entry").file_name().into_string().expect("a name")).collect();
    names.sort();
    names
}

/// Files small and large, links, names, modes, times, extended attributes, holes and sizes are as
/// on a local disk, also for another client, and after a new mount.
#[test]
fn programs_find_a_file_system() {
    let mounted = Mounted::start(&[]);
    let at = |name: &str| mounted.path(name);
    fs::create_dir(at("d")).unwrap();
    for (name, len) in [("empty", 0), ("small", 100), ("medium", 300_000), ("large", 9 * MIB + 7)] {
        let data = support::pattern(len as u64, len);
        fs::write(at(name), &data).unwrap();
        assert_eq!(fs::read(at(name)).unwrap(), data, "{name}");
    }
    fs::rename(at("small"), at("d/small")).unwrap();
    fs::hard_link(at("d/small"), at("linked")).unwrap();
    symlink("d/small", at("link")).unwrap();
    assert_eq!(fs::metadata(at("link")).unwrap().nlink(), 2);
    assert_eq!(fs::read_link(at("link")).unwrap(), Path::new("d/small"));
    fs::set_permissions(at("linked"), fs::Permissions::from_mode(0o640)).unwrap();
    assert_eq!(fs::metadata(at("d/small")).unwrap().mode() & 0o7777, 0o640);
    assert_eq!(names(&mounted.path("")), ["d", "empty", "large", "link", "linked", "medium"]);

    let file = fs::OpenOptions::new().read(true).write(true).open(at("medium")).unwrap();
    file.write_all_at(b"in the middle", 150_000).unwrap();
    file.set_len(MIB as u64).unwrap();
    let mut tail = [1; 8];
    file.read_exact_at(&mut tail, (MIB - 8) as u64).unwrap();
    assert_eq!(tail, [0; 8]);
    let then = std::time::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    file.set_modified(then).unwrap();
    drop(file);
    let metadata = fs::metadata(at("medium")).unwrap();
    assert_eq!((metadata.len(), metadata.modified().unwrap()), (MIB as u64, then));

    fs::remove_file(at("linked")).unwrap();
    let exists = fs::OpenOptions::new().write(true).create_new(true).open(at("empty"));
    assert_eq!(exists.unwrap_err().kind(), std::io::ErrorKind::AlreadyExists);
    assert!(fs::remove_dir(at("d")).is_err(), "it is not empty");
    let xattr = "setfattr -n user.a -v 1 empty && getfattr --only-values -n user.a empty";
    assert_eq!(mounted.shell(0, xattr), (true, "1".to_string()));
    let (mut appended, text) =
        (fs::OpenOptions::new().append(true).open(at("empty")).unwrap(), b"x");
    for _ in 0..3 {
        appended.write_all(text).unwrap();
    }
    assert_eq!(fs::metadata(at("empty")).unwrap().len(), 3, "what was not closed counts");
    drop(appended);

    let seen = mounted.cluster.weft(&["get", "/large", "-"]);
    assert_eq!(seen.stdout, support::pattern((9 * MIB + 7) as u64, 9 * MIB + 7));
    mounted.unmount();
    mounted.mount_again(&["--read-only"]);
    assert_eq!(fs::read(at("empty")).unwrap(), b"xxx");
    assert_eq!(fs::read(at("link")).unwrap(), support::pattern(100, 100));
    let refused = fs::write(at("new"), b"").unwrap_err();
    assert_eq!(refused.raw_os_error(), Some(30), "EROFS");
    mounted.unmount();
}

/// What one user may not, he may not here; what he makes is his; and who is in a group of the
/// file may what the group may.
#[test]
fn users_are_themselves() {
    let mounted = Mounted::start(&[]);
    fs::write(mounted.path("secret"), b"root's").unwrap();
    fs::set_permissions(mounted.path("secret"), fs::Permissions::from_mode(0o600)).unwrap();
    fs::create_dir(mounted.path("theirs")).unwrap();
    std::os::unix::fs::chown(mounted.path("theirs"), Some(NOBODY), Some(NOBODY)).unwrap();
    let (read, said) = mounted.shell(NOBODY, "cat secret");
    assert!(!read && said.contains("Permission denied"), "{said}");
    let (wrote, said) = mounted.shell(NOBODY, "touch mine");
    assert!(!wrote && said.contains("Permission denied"), "{said}");
    assert!(mounted.shell(NOBODY, "umask 027; echo hello > theirs/f").0);
    let made = fs::metadata(mounted.path("theirs/f")).unwrap();
    assert_eq!((made.uid(), made.gid(), made.mode() & 0o777), (NOBODY, NOBODY, 0o640));
    let groups = ["--reuid=1234", "--regid=1234", "--groups=7,65534", "cat"];
    let read = Command::new("setpriv").args(groups).arg(mounted.path("theirs/f")).output().unwrap();
    assert_eq!(read.stdout, b"hello\n", "{}", support::words(&read));
    assert!(!mounted.shell(1234, "cat theirs/f").0);
    mounted.unmount();
}

/// Without root, where `fusermount3` is: the mount is the user's alone.
#[test]
fn a_user_mounts_for_himself() {
    support::require_root("to become somebody else");
    let cluster = Cluster::configured(Options::default(), "");
    let dir = tempfile::tempdir().expect("a folder");
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let at = dir.path().join("mount");
    fs::create_dir(&at).unwrap();
    std::os::unix::fs::chown(&at, Some(NOBODY), Some(NOBODY)).unwrap();
    let root = Command::new(support::weft_binary())
        .args(["mkdir", "/theirs", "--server", &format!("127.0.0.1:{}", cluster.port())])
        .output()
        .unwrap();
    assert!(root.status.success(), "{}", support::words(&root));
    // The test's own binary may lie where nobody else gets at it.
    let binary = dir.path().join("weft");
    support::copy_weft(&binary);
    let as_user = |program: &Path, arguments: &[&str]| {
        let mut command = Command::new(program);
        command.args(arguments).uid(NOBODY).gid(NOBODY).current_dir("/");
        command.output().unwrap()
    };
    let source = format!("127.0.0.1:{}", cluster.port());
    let mounted = as_user(&binary, &["mount", &source, &at.to_string_lossy()]);
    assert!(mounted.status.success(), "{}", support::words(&mounted));
    let listed = as_user(Path::new("/bin/ls"), &[&at.to_string_lossy()]);
    let unmounted = as_user(Path::new("/usr/bin/fusermount3"), &["-u", &at.to_string_lossy()]);
    assert!(unmounted.status.success(), "{}", support::words(&unmounted));
    assert_eq!(listed.stdout, b"theirs\n", "{}", support::words(&listed));
}

/// mount.fuse, which mount(8) starts for the type `fuse.weft`, mounts with the options of fstab.
#[test]
fn fstab_options() {
    let mounted = Mounted::start(&[]);
    fs::write(mounted.path("f"), "x").unwrap();
    mounted.unmount();
    let source = format!("127.0.0.1:{}", mounted.cluster.port());
    let mount = |options: &str| {
        let kind = format!("fuse.{}", support::weft_binary().display());
        let at = mounted.path("");
        Command::new("/sbin/mount.fuse3")
            .args([&source, &*at.to_string_lossy(), "-t", &kind, "-o", options])
            .output()
            .unwrap()
    };
    let refused = mount("rw,cache=strict");
    assert!(support::words(&refused).contains("-o cache=strict: not known"), "{refused:?}");
    let done = mount("ro,noexec,_netdev,nofail,x-systemd.automount,patience=60");
    assert!(done.status.success(), "{}", support::words(&done));
    assert_eq!(fs::read(mounted.path("f")).unwrap(), b"x");
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    let line = mounts.lines().find(|line| line.starts_with(&source)).expect("a mount");
    assert!(line.contains(" ro,") && line.contains(",noexec,"), "{line}");
    mounted.unmount();
}

/// What was written through a mapping before a file's time was set does not set it again.
#[test]
fn a_time_set_after_a_mapped_write_stays() {
    let mounted = Mounted::start(&[]);
    fs::write(mounted.path("script"), MAPPED_THEN_TIMED).unwrap();
    assert_eq!(mounted.shell(0, "python3 script"), (true, "[1000.0, 1000.0] b'yx'".to_string()));
}

/// By the descriptor, and by the name.
const MAPPED_THEN_TIMED: &str = "import mmap,os,time
open('f','wb').write(b'x'*8192); at=[]
for by in lambda fd: fd, lambda fd: 'f':
    fd=os.open('f',os.O_RDWR); m=mmap.mmap(fd,8192); m[0:1]=b'y'
    os.utime(by(fd),(1000,1000)); m.close(); os.close(fd); time.sleep(1.2)
    at.append(os.stat('f').st_mtime)
print(at, open('f','rb').read(2))
";

/// What another client writes is seen by who opens the file after that one has closed it, whatever
/// was cached here.
#[test]
fn an_open_sees_what_others_have_closed() {
    let mounted = Mounted::start(&[]);
    let path = mounted.path("shared");
    let elsewhere = tempfile::NamedTempFile::new().unwrap();
    for round in 0..5_u8 {
        for len in [10, 200_000, 6 * MIB] {
            let data = vec![round + 1; len + usize::from(round)];
            fs::write(elsewhere.path(), &data).unwrap();
            let from = elsewhere.path().to_string_lossy();
            let put = mounted.cluster.weft(&["put", "--in-place", &from, "/shared"]);
            assert!(put.status.success(), "{}", support::words(&put));
            assert!(fs::read(&path).unwrap() == data, "round {round}, {len} bytes");
        }
    }
    mounted.unmount();
}

/// A shared mapping writes what a read sees, and the other way round; past the page cache too.
#[test]
fn mappings_and_direct_io() {
    let mounted = Mounted::start(&[]);
    let script = "import mmap,os
f=open('mapped','w+b'); f.truncate(1<<20)
m=mmap.mmap(f.fileno(),1<<20); m[70000:70005]=b'hello'; m.flush()
os.pwrite(f.fileno(),b'there',80000); assert m[80000:80005]==b'there'
m.close(); f.close()
b=open('mapped','rb').read(); assert b[70000:70005]==b'hello' and b[80000:80005]==b'there'
f=open('gone','w+b'); f.write(b'still here'); f.flush(); os.unlink('gone')
f.seek(0); assert f.read()==b'still here'
print('fine')";
    fs::write(mounted.path("script"), script).unwrap();
    assert_eq!(mounted.shell(0, "python3 script"), (true, "fine".to_string()));
    let direct = fs::OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(true)
        .custom_flags(0o40000)
        .open(mounted.path("direct"))
        .unwrap();
    direct.write_all_at(b"any length", 3).unwrap();
    let mut back = [0; 13];
    direct.read_exact_at(&mut back, 0).unwrap();
    assert_eq!(&back, b"\0\0\0any length");
    drop(direct);
    mounted.unmount();
}

/// Programs that write to bytes of their own in one page, through opens of different kinds, read
/// what they wrote.
#[test]
fn writers_share_pages() {
    let mounted = Mounted::start(&[]);
    let script = support::repository().join("tests/fuse/slots.py");
    let run = format!("python3 {} slots 3", script.display());
    assert_eq!(mounted.shell(0, &run), (true, String::new()));
    mounted.unmount();
}

/// Holes are found and made, space is reserved, and ranges are copied by the servers; another
/// client sees the same.
#[test]
fn holes_space_and_copies() {
    let mounted = Mounted::start(&[]);
    let script = "import errno,os,subprocess
M=1<<20
f=os.open('holes',os.O_RDWR|os.O_CREAT); os.ftruncate(f,8*M); os.pwrite(f,b'x'*4096,4*M)
data=os.lseek(f,0,os.SEEK_DATA); assert 0<data<=4*M, data
hole=os.lseek(f,4*M,os.SEEK_HOLE); assert 4*M+4096<=hole<8*M, hole
assert os.lseek(f,0,os.SEEK_HOLE)==0
try: os.lseek(f,hole,os.SEEK_DATA); assert False
except OSError as e: assert e.errno==errno.ENXIO, e
do=lambda *a: subprocess.run(('fallocate',)+a+('holes',),check=True)
do('-o',str(8*M),'-l',str(M)); assert os.fstat(f).st_size==9*M
do('-p','-o',str(4*M),'-l','4096'); assert os.pread(f,4096,4*M)==bytes(4096)
assert os.fstat(f).st_size==9*M
os.pwrite(f,b'moved',5*M)
for name in 'copy','holes':
    g=os.open(name,os.O_RDWR|os.O_CREAT); at=5*M; left=M
    while left:
        n=os.copy_file_range(f,g,left,at,at-5*M+(9*M if name=='holes' else 0)); assert n>0
        at+=n; left-=n
    os.close(g)
assert os.stat('copy').st_size==M and open('copy','rb').read(5)==b'moved'
assert os.stat('holes').st_size==10*M and os.pread(f,5,9*M)==b'moved'
assert os.copy_file_range(f,os.open('copy',os.O_RDWR),1,99*M,0)==0
print('fine')";
    fs::write(mounted.path("script"), script).unwrap();
    assert_eq!(mounted.shell(0, "python3 script"), (true, "fine".to_string()));
    let copied = mounted.cluster.weft(&["get", "/copy", "-"]);
    assert_eq!((&copied.stdout[..5], copied.stdout.len()), (&b"moved"[..], MIB));
    let operations = mounted.cluster.status().mds.operations;
    for operation in ["SEEK", "ALLOCATE", "DEALLOCATE", "COPY"] {
        assert!(operations.get(operation).is_some_and(|n| *n > 0), "{operation}: {operations:?}");
    }
    mounted.unmount();
}

/// A program that a file is being run as is not emptied, and a file that is open for reading alone
/// is, by who may write it.
#[test]
fn files_are_emptied_when_nothing_is_in_the_way() {
    let mounted = Mounted::start(&[]);
    let script = "cp /bin/sleep runs && ./runs 30 & sleep 0.5
python3 -c \"
import errno,os
try: os.open('runs',os.O_WRONLY|os.O_TRUNC); print('opened')
except OSError as e: print(errno.errorcode[e.errno], os.stat('runs').st_size>0)
open('full','w').write('x'); os.close(os.open('full',os.O_RDONLY|os.O_TRUNC))
print(os.stat('full').st_size)\"
kill $!";
    assert_eq!(mounted.shell(0, script), (true, "ETXTBSY True\n0".to_string()));
    // The shell's child lets go of the program a moment after it was killed.
    support::until("unmount", Duration::from_secs(10), || {
        support::run("umount", &[&mounted.path("").to_string_lossy()])
            .status
            .success()
            .then_some(())
    });
}

/// `fsync(2)` makes a file durable through whichever open, as `sync FILE` does: also what another
/// program has written and not closed, though the mount's process is killed after that.
#[test]
fn a_file_is_synced_through_any_open() {
    let mounted = Mounted::start(&[]);
    let script = "python3 -c \"
import os,time
f=os.open('f',os.O_WRONLY|os.O_CREAT); os.write(f,b'x'*3000000)
g=os.open('f',os.O_RDONLY); os.fsync(g); print('synced',flush=True); time.sleep(60)\"";
    let mut writer = mounted.mount.start(script);
    let mut said = [0; 7];
    std::io::Read::read_exact(writer.stdout.as_mut().expect("a pipe"), &mut said).expect("synced");
    let source = format!("127.0.0.1:{}", mounted.cluster.port());
    let found = support::run("pgrep", &["-f", &format!("mount {source} .*--ready")]);
    let pid = String::from_utf8(found.stdout).expect("a number");
    assert!(support::run("kill", &["-9", pid.trim()]).status.success(), "{pid}");
    let kept = mounted.cluster.weft(&["get", "/f", "-"]);
    assert_eq!(kept.stdout.len(), 3_000_000, "{}", support::words(&kept));
    writer.kill().expect("kill");
    writer.wait().expect("it ends");
}

/// A file whose data cannot leave for a full disk is looked at, locked, cut and removed all the
/// same by others, while who writes it has it open; and what he had locked is free when he has
/// closed it.
#[test]
fn a_full_disk_is_in_nobodys_way() {
    let disk = Disk::new(Kind::Tmpfs, 256);
    let cluster = Cluster::on_disk(Options::default(), "", &disk.at());
    let mounted =
        Mounted { mount: Mount::of(cluster.port(), &["--attributes-valid", "0"]), cluster };
    let script = "python3 -c \"
import fcntl,os,sys
f=os.open('big',os.O_RDWR|os.O_CREAT); fcntl.lockf(f,fcntl.LOCK_EX)
n=0
try:
    while True: n+=os.write(f,b'x'*1048576); os.fsync(f)
except OSError as e: print(e.strerror,flush=True)
os.write(f,b'kept back')
sys.stdin.readline()
try: os.close(f); print('closed')
except OSError as e: print(e.strerror)
sys.stdout.flush(); sys.stdin.readline()\"";
    let mut writer = mounted.mount.start(script);
    let mut said = std::io::BufReader::new(writer.stdout.take().expect("a pipe"));
    let mut line = || {
        let mut line = String::new();
        std::io::BufRead::read_line(&mut said, &mut line).expect("a line");
        line
    };
    assert_eq!(line(), "No space left on device\n");
    let acts = "stat -c %s big && ls -l && ln big second && cat big | wc -c";
    let (ok, listed) = mounted.shell(0, acts);
    assert!(ok, "{listed}");
    // What changes it otherwise tells no other size.
    let (ok, said) = mounted.shell(0, "chmod 600 big && stat -c %s big && tail -c 9 big");
    let size = listed.lines().next().expect("a size");
    assert_eq!((ok, said), (true, format!("{size}\nkept back")));
    writer.stdin.as_mut().expect("a pipe").write_all(b"\n").expect("it reads");
    line();
    let locks = "python3 -c \"
import fcntl
f=open('big','r+'); fcntl.lockf(f,fcntl.LOCK_EX|fcntl.LOCK_NB); print('locked')\"";
    assert_eq!(mounted.shell(0, locks), (true, "locked".to_string()));
    let cut = "truncate -s 5 big && stat -c %s big && cat big && rm big second";
    assert_eq!(mounted.shell(0, cut), (true, "5\nxxxxx".to_string()));
    writer.stdin.as_mut().expect("a pipe").write_all(b"\n").expect("it reads");
    assert!(writer.wait().expect("it ends").success());
    mounted.unmount();
}

/// Times before 1970 are kept to the nanosecond, and a file is nothing to mount.
#[test]
fn times_before_1970() {
    let mounted = Mounted::start(&[]);
    let script =
        "for at in 1950-03-04T05:06:07.123456789Z 1969-12-31T23:59:59.9Z 2040-01-01T00:00:00.5Z
do touch -d $at f; TZ=UTC stat -c %y f; done";
    let wanted = "1950-03-04 05:06:07.123456789 +0000\n1969-12-31 23:59:59.900000000 +0000
2040-01-01 00:00:00.500000000 +0000";
    assert_eq!(mounted.shell(0, script), (true, wanted.to_string()));
    let source = format!("weft://127.0.0.1:{}/f", mounted.cluster.port());
    let dir = tempfile::tempdir().expect("a folder");
    let said = mounted.cluster.weft(&["mount", &source, &dir.path().to_string_lossy()]);
    let words = support::words(&said);
    assert!(!said.status.success() && words.contains("/f: not a directory"), "{words}");
    mounted.unmount();
}

/// What each file costs: requests to the metadata server, for a tree that is unpacked, read and
/// removed.
#[test]
fn files_cost_few_requests() {
    const FILES: u64 = 200;
    let mounted = Mounted::start(&["--attributes-valid", "30"]);
    let script = "mkdir t && python3 -c \"
import os
for i in range(200):
    f=os.open('t/f%d'%i,os.O_WRONLY|os.O_CREAT|os.O_EXCL); os.write(f,b'x'*3000)
    assert os.fstat(f).st_size==3000; os.close(f)\"";
    let requests = || mounted.cluster.status().mds.operations["SEQUENCE"];
    let cost = |what: &str, command: &str, most: u64| {
        let (before, began) = (requests(), Instant::now());
        assert_eq!(mounted.shell(0, command), (true, String::new()));
        // CLOSEs go after the program.
        std::thread::sleep(Duration::from_millis(300));
        let took = requests() - before;
        // CLOSEs of 10 ms go together, and those that come while they are sent wait as long.
        let closes = began.elapsed().as_millis() as u64 / 10;
        eprintln!("{what}: {took} requests for {FILES} files");
        assert!(took <= most * FILES + closes + 20, "{what}: {took} requests for {FILES} files");
    };
    cost("made: LOOKUP, OPEN, WRITE, which tells what fstat asks for, and CLOSEs", script, 3);
    cost("read: LOOKUP of a listed name and its directory, OPEN", "cat t/* > /dev/null", 3);
    cost("read again: the same, but OPEN", "cat t/* > /dev/null", 2);
    cost("changed: LOOKUP, SETATTR, LOOKUP to stat", "chmod 600 t/* && stat t/* > s", 3);
    cost("removed: LOOKUP, REMOVE, with DELEGRETURN", "rm -r t", 2);
    mounted.unmount();
}

/// `.` and `..` of a listing have the numbers that `stat` tells, also after a directory has moved.
#[test]
fn a_listing_numbers_its_directory_and_the_one_above() {
    let mounted = Mounted::start(&[]);
    let script = "import os,ctypes
class D(ctypes.Structure):
    _fields_=[('ino',ctypes.c_uint64),('off',ctypes.c_int64),('len',ctypes.c_uint16),
              ('type',ctypes.c_uint8),('name',ctypes.c_char*256)]
libc=ctypes.CDLL(None); libc.opendir.restype=ctypes.c_void_p
libc.readdir.argtypes=[ctypes.c_void_p]; libc.readdir.restype=ctypes.POINTER(D)
def dots(path):
    d=libc.opendir(path.encode()); found={}
    while e:=libc.readdir(d): found[e.contents.name]=e.contents.ino
    return found[b'.'],found[b'..']
stats=lambda path: (os.stat(path).st_ino,os.stat(path+'/..').st_ino)
os.makedirs('a/b/c'); os.mkdir('z')
for path in 'a','a/b','a/b/c': assert dots(path)==stats(path),path
os.rename('a/b','z/b')
for path in 'z','z/b','z/b/c': assert dots(path)==stats(path),path
assert dots('.')==(os.stat('.').st_ino,)*2
print('fine')";
    fs::write(mounted.path("script"), script).unwrap();
    assert_eq!(mounted.shell(0, "python3 script"), (true, "fine".to_string()));
    mounted.unmount();
    mounted.mount_again(&[]);
    let again = script.replace("os.makedirs('a/b/c'); os.mkdir('z')", "").replace(
        "for path in 'a','a/b','a/b/c': assert dots(path)==stats(path),path
os.rename('a/b','z/b')",
        "",
    );
    fs::write(mounted.path("script"), again).unwrap();
    assert_eq!(mounted.shell(0, "python3 script"), (true, "fine".to_string()));
    mounted.unmount();
}

/// A change by another user than root takes the set-id bits away: who has the file open on the same
/// mount does not see them after it, though he asks for the mode alone.
#[test]
fn a_write_takes_set_id_bits_away_at_once() {
    let mounted = Mounted::start(&["--attributes-valid", "30"]);
    let script = "import os,sys
way=sys.argv[1]
fd=os.open('f',os.O_RDWR|(os.O_DIRECT if way=='direct' else 0))
if way=='large': os.write(fd,b'x'*3000000)
elif way=='truncate': os.ftruncate(fd,10)
elif way=='allocate': os.posix_fallocate(fd,0,30000)
elif way=='copy': os.copy_file_range(os.open('g',os.O_RDONLY),fd,5000)
else: os.write(fd,b'x')";
    fs::write(mounted.path("script"), script).unwrap();
    for way in ["small", "large", "direct", "truncate", "allocate", "copy"] {
        let acts = format!(
            "rm -f f g; head -c 20000 /dev/zero > f; cp f g; chmod 6777 f
            exec 3<f; stat f >stat; stat -c %a - <&3
            setpriv --reuid={NOBODY} --regid={NOBODY} --clear-groups /usr/bin/python3 script {way}
            stat -c %a - <&3"
        );
        assert_eq!(mounted.shell(0, &acts), (true, "6777\n777".to_string()), "{way}");
    }
    mounted.unmount();
}
