//! `weft mount` while servers are killed and come back: programs wait, and nothing is lost.
//!
//! The mount is used by other processes only ([`support::mount`] says why).

mod support;

use std::io::{BufRead, BufReader, Write};
use std::process::Child;
use std::time::Duration;

use support::mount::Mount;
use support::servers::{Plan, Servers};

/// Writes a file a piece at a time and reads it back, through one open for each way: a line of its
/// output for each piece. What it reads must be what it has written, whatever happened between.
const WRITER: &str = r#"exec python3 -c '
import os, sys
PIECE, PIECES = 256 << 10, 60
fd = os.open("written", os.O_RDWR | os.O_CREAT, 0o644)
for i in range(PIECES):
    piece = bytes([i + 1]) * PIECE
    assert os.pwrite(fd, piece, i * PIECE) == PIECE, i
    if i % 7 == 0: os.fsync(fd)
    back = i // 2
    assert os.pread(fd, PIECE, back * PIECE) == bytes([back + 1]) * PIECE, (i, back)
    small = "small-%d" % i
    with open(small, "w") as f: f.write("piece %d" % i)
    with open(small) as f: assert f.read() == "piece %d" % i
    print(i, flush=True)
os.close(fd)
'"#;
const PIECES: usize = 60;
const PIECE: usize = 256 << 10;
/// Files that it has open and removes or replaces: what it wrote to them is there after a restart,
/// and what it writes then becomes durable. Only the last piece is dirty when the server ends.
const REMOVER: &str = r#"exec python3 -c '
import os, sys
def made(name):
    fd = os.open(name, os.O_RDWR | os.O_CREAT, 0o644)
    os.write(fd, name.encode() * 40000)
    os.fsync(fd)
    return name, fd
files = [made(name) for name in ("unlinked", "replaced", "dirty", "linked")]
reader = os.open("unlinked", os.O_RDONLY)
os.link("linked", "second"); os.unlink("second"); os.unlink("linked")
os.unlink("unlinked"); os.unlink("dirty")
os.close(made("other")[1]); os.rename("other", "replaced")
os.pwrite(files[2][1], b"DIRTY", 0)
print("removed", flush=True)
sys.stdin.readline()
for name, fd in files:
    wanted = bytearray(name.encode() * 40000)
    if name == "dirty": wanted[:5] = b"DIRTY"
    assert os.pread(fd, len(wanted) + 1, 0) == wanted, name
    os.pwrite(fd, b"after", 100)
    os.fsync(fd)
    assert os.pread(fd, 5, 100) == b"after", name
    os.close(fd)
assert os.pread(reader, 5, 100) == b"after"
print("fine", flush=True)
'"#;
/// Time for the writer to go on after a restart: a grace period, and a busy machine.
const PATIENCE: Duration = Duration::from_secs(100);

/// Lines that a child has printed so far, each awaited.
struct Lines(std::sync::mpsc::Receiver<String>);

impl Lines {
    fn of(child: &mut Child) -> Lines {
        let out = BufReader::new(child.stdout.take().expect("it is piped"));
        let (sender, lines) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            out.lines().map_while(Result::ok).for_each(|line| drop(sender.send(line)));
        });
        Lines(lines)
    }

    /// Waits for this line.
    fn until(&self, wanted: &str) {
        loop {
            let line = self.0.recv_timeout(PATIENCE);
            if line.unwrap_or_else(|e| panic!("no line {wanted:?}: {e}")) == wanted {
                return;
            }
        }
    }
}

#[test]
fn programs_go_on_after_restarts() {
    let mut servers = Servers::start(Plan { data_servers: 2, stripe_width: 2, ..Plan::default() });
    let mount = Mount::of(servers.port(), &[]);
    let mut writer = mount.start(WRITER);
    let lines = Lines::of(&mut writer);
    lines.until("5");
    servers.restart_mds();
    lines.until("15");
    servers.kill9("ds1");
    // Meanwhile what is on it waits.
    std::thread::sleep(Duration::from_secs(2));
    servers.start_ds(1);
    lines.until("30");
    servers.kill9("ds2");
    servers.kill9("mds");
    servers.start_ds(2);
    servers.start_mds();
    lines.until(&(PIECES - 1).to_string());
    assert!(writer.wait().expect("the writer").success());
    let wanted: Vec<u8> =
        (1..=PIECES).flat_map(|piece| std::iter::repeat_n(piece as u8, PIECE)).collect();
    let (here, elsewhere) = (servers.path("wanted"), servers.path("elsewhere"));
    std::fs::write(&here, &wanted).expect("a file");
    let compared = mount.shell(0, &format!("cmp written {} && ls small-* | wc -l", here.display()));
    assert_eq!(compared, (true, PIECES.to_string()));
    servers.weft_ok(&["get", "/written", elsewhere.to_str().expect("a plain path")]);
    assert!(std::fs::read(elsewhere).expect("a copy") == wanted, "another client sees it");
    mount.unmount();
}

/// Files without a name are reclaimed: nothing could open them again.
#[test]
fn removed_files_outlive_restarts() {
    let mut servers = Servers::start(Plan { data_servers: 2, stripe_width: 2, ..Plan::default() });
    let mount = Mount::of(servers.port(), &[]);
    let mut remover = mount.start(REMOVER);
    let lines = Lines::of(&mut remover);
    lines.until("removed");
    servers.restart_mds();
    // By then the server has removed the files that nobody has open.
    std::thread::sleep(Duration::from_secs(3));
    writeln!(remover.stdin.take().expect("it is piped")).expect("it listens");
    lines.until("fine");
    assert!(remover.wait().expect("the remover").success());
    mount.unmount();
}
