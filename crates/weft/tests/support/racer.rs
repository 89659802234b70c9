//! A user who exchanges entries of a directory while root copies into it, or from it.

use std::{
    fs,
    os::unix::process::CommandExt,
    path::Path,
    process::{Child, Command, Stdio},
    time::Duration,
};

/// The user `nobody`.
pub const NOBODY: u32 = 65_534;

/// Exchanges each NAME with BAIT (`renameat2`, RENAME_EXCHANGE), again and again. A bait that a
/// copy has replaced is made again: a link to TARGET, or a fifo if TARGET is empty.
const SCRIPT: &str = r"
import ctypes, os, shutil, stat, sys
libc = ctypes.CDLL(None, use_errno=True)
triples = list(zip(sys.argv[1::3], sys.argv[2::3], sys.argv[3::3]))
EXCHANGE = 2

def plain(path):
    try:
        mode = os.lstat(path).st_mode
        return stat.S_ISREG(mode) or stat.S_ISDIR(mode)
    except OSError:
        return False

def bait(name, bait, target):
    if not plain(name) and os.path.lexists(name):
        return
    if plain(bait):
        try:
            shutil.rmtree(bait) if os.path.isdir(bait) else os.unlink(bait)
        except OSError:
            try:
                os.rename(bait, bait + '.' + os.urandom(8).hex())
            except OSError:
                pass
    try:
        os.symlink(target, bait) if target else os.mkfifo(bait)
    except OSError:
        pass

print('ready', flush=True)
while os.getppid() > 1:
    for name, lure, target in triples:
        bait(name, lure, target)
        for _ in range(20):
            libc.renameat2(-100, os.fsencode(name), -100, os.fsencode(lure), EXCHANGE)
";

/// The process; it ends with this.
pub struct Racer(Child);

impl Racer {
    /// Starts to exchange entries of a directory: each name for a link to its target, or for a fifo
    /// if it has none.
    pub fn start(dir: &Path, names: &[(&str, Option<&Path>)]) -> Racer {
        let mut python = Command::new("python3");
        python.args(["-c", SCRIPT]).current_dir(dir);
        for (name, target) in names {
            let target = target.map_or("".as_ref(), Path::as_os_str);
            python.args([name, format!(".bait-{name}").as_str()]).arg(target);
        }
        python.uid(NOBODY).gid(NOBODY).stdout(Stdio::piped());
        let mut child = python.spawn().expect("python3 starts");
        let mut ready = [0; 6];
        let stdout = child.stdout.as_mut().expect("a pipe");
        std::io::Read::read_exact(stdout, &mut ready).expect("the racer runs");
        Racer(child)
    }
}

impl Drop for Racer {
    fn drop(&mut self) {
        self.0.kill().expect("it is killed");
        self.0.wait().expect("it ends");
    }
}

/// A directory of root that nobody else may enter, with files in it.
pub struct Secret {
    dir: std::path::PathBuf,
    before: Vec<String>,
}

impl Secret {
    /// Content of each file.
    pub const WORDS: &str = "nobody else reads this";

    /// Makes the directory and these files.
    pub fn new(dir: &Path, names: &[&str]) -> Secret {
        use std::os::unix::fs::PermissionsExt;
        fs::create_dir(dir).expect("a folder");
        for name in names {
            fs::write(dir.join(name), Secret::WORDS).expect("a file");
            let mode = fs::Permissions::from_mode(0o600);
            fs::set_permissions(dir.join(name), mode).expect("a mode");
        }
        fs::set_permissions(dir, fs::Permissions::from_mode(0o700)).expect("a mode");
        Secret { dir: dir.to_owned(), before: facts(dir) }
    }

    /// Everything that has changed since: entries, owners, modes, times of change.
    pub fn changes(&self) -> Vec<String> {
        facts(&self.dir).into_iter().filter(|fact| !self.before.contains(fact)).collect()
    }
}

fn facts(dir: &Path) -> Vec<String> {
    use std::os::unix::fs::MetadataExt;
    let of = |path: &Path| {
        let m = fs::symlink_metadata(path).expect("it is there");
        let (name, size) = (path.display(), if m.is_dir() { 0 } else { m.len() });
        let (seconds, mode) = (m.mtime(), m.mode());
        format!("{name} {mode:o} {}:{} {size} {seconds}.{}", m.uid(), m.gid(), m.mtime_nsec())
    };
    let entries = fs::read_dir(dir).expect("a folder").map(|entry| of(&entry.expect("it").path()));
    std::iter::once(of(dir)).chain(entries).collect()
}

/// Runs a command that must end by itself within this time; its status, none if it was killed.
pub fn within(limit: Duration, mut command: Command) -> Option<std::process::Output> {
    let mut child = command.spawn().expect("it starts");
    drop(child.stdin.take());
    let deadline = std::time::Instant::now() + limit;
    while child.try_wait().expect("wait").is_none() {
        if std::time::Instant::now() > deadline {
            child.kill().expect("it is killed");
            child.wait().expect("it ends");
            return None;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Some(child.wait_with_output().expect("what it said"))
}
