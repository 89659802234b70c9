//! Loop devices with file systems of their own, and what a power cut leaves on them.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::support::{run, words};

/// The file systems that hold a server's data here.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Fs {
    Ext4,
    Xfs,
}

impl Fs {
    pub const ALL: [Fs; 2] = [Fs::Ext4, Fs::Xfs];

    fn make(self, image: &str) {
        match self {
            Fs::Ext4 => must("mkfs.ext4", &["-q", "-F", image]),
            Fs::Xfs => must("mkfs.xfs", &["-q", "-f", image]),
        }
    }

    /// Nothing becomes durable by itself within the time of a test: ext4 commits every five
    /// seconds else. The others wait for half a minute anyway.
    fn options(self) -> &'static str {
        match self {
            Fs::Ext4 => "commit=300",
            Fs::Xfs => "nouuid",
        }
    }
}

/// How the power goes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Cut {
    /// The server is stopped between two system calls, and what its devices hold then is copied.
    Copied,
    /// The file systems write nothing more, in the middle of whatever they do, and forget what
    /// they have not written.
    ShutDown,
}

impl Cut {
    pub const ALL: [Cut; 2] = [Cut::Copied, Cut::ShutDown];
}

/// One device, mounted.
struct Disk {
    image: PathBuf,
    device: String,
    at: PathBuf,
}

/// The devices of one server.
pub struct Disks {
    fs: Fs,
    /// Where the images are: in memory if there is room, for speed.
    work: tempfile::TempDir,
    /// In the order they are mounted: later ones inside the first.
    disks: Vec<Disk>,
}

impl Disks {
    /// One device for everything, or three: the data server 1 and the metadata server have one
    /// each, all the rest is on the first.
    pub fn new(fs: Fs, split: bool) -> Self {
        let memory = Path::new("/dev/shm");
        let place = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
        let work = tempfile::Builder::new().prefix("weft-cuts.").tempdir_in(place);
        let mut disks = Disks { fs, work: work.expect("a folder"), disks: Vec::new() };
        disks.add("first", disks.work.path().join("disk"));
        if split {
            for server in ["mds", "ds-1"] {
                disks.add(server, disks.data().join(server));
            }
        }
        disks
    }

    /// Directory of the server's data.
    pub fn data(&self) -> PathBuf {
        self.work.path().join("disk/weft")
    }

    /// A place beside the devices.
    pub fn beside(&self, name: &str) -> PathBuf {
        self.work.path().join(name)
    }

    /// A new device with an empty file system, mounted there.
    fn add(&mut self, name: &str, at: PathBuf) {
        let image = self.work.path().join(format!("{name}.image"));
        let file = std::fs::File::create(&image).expect("an image");
        // XFS wants no less.
        file.set_len(300 << 20).expect("a size");
        self.fs.make(text(&image));
        std::fs::create_dir_all(&at).expect("a mount point");
        if let Some(first) = self.disks.first() {
            must("sync", &["-f", text(&first.at)]);
        }
        let mut disk = Disk { image, device: String::new(), at };
        disk.mount(self.fs);
        self.disks.push(disk);
    }

    /// Makes all that was written so far durable.
    pub fn sync(&self) {
        self.disks.iter().for_each(|disk| must("sync", &["-f", text(&disk.at)]));
    }

    /// Takes the power away; `kill` ends the server, which is stopped already if the cut is
    /// [`Cut::Copied`]. Then gives the power back.
    pub fn cut(&mut self, cut: Cut, kill: impl FnOnce()) {
        match cut {
            Cut::Copied => self.disks.iter().for_each(Disk::copy),
            Cut::ShutDown => self.disks.iter().for_each(Disk::shut_down),
        }
        kill();
        self.disks.iter_mut().rev().for_each(Disk::unmount);
        for disk in &mut self.disks {
            if cut == Cut::Copied {
                std::fs::rename(copy_of(&disk.image), &disk.image).expect("the copy");
            }
            disk.mount(self.fs);
        }
    }
}

impl Drop for Disks {
    fn drop(&mut self) {
        for disk in self.disks.iter().rev() {
            // Nothing more can be done about a device that is in use.
            let _ = Command::new("umount").arg("-l").arg(&disk.at).status();
            let _ = Command::new("losetup").arg("-d").arg(&disk.device).status();
        }
    }
}

impl Disk {
    fn mount(&mut self, fs: Fs) {
        let set_up = run("losetup", &["--find", "--show", text(&self.image)]);
        assert!(set_up.status.success(), "losetup: {}", words(&set_up));
        self.device = String::from_utf8_lossy(&set_up.stdout).trim().to_owned();
        must("mount", &["-o", fs.options(), &self.device, text(&self.at)]);
    }

    fn unmount(&mut self) {
        must("umount", &[text(&self.at)]);
        must("losetup", &["-d", &self.device]);
    }

    /// Copies what the device holds at one moment: nothing is written while it is copied.
    fn copy(&self) {
        let copy = copy_of(&self.image);
        super::support::until("moment without writes", super::PATIENCE, || {
            let before = self.writes();
            must("cp", &["--sparse=always", text(&self.image), text(&copy)]);
            (before.is_some() && before == self.writes()).then_some(())
        });
    }

    /// What was ever written to the device, by the kernel's counters; `None` while something is.
    fn writes(&self) -> Option<[u64; 4]> {
        let name = self.device.trim_start_matches("/dev/");
        let stat = std::fs::read_to_string(format!("/sys/block/{name}/stat")).expect("counters");
        let counters: Vec<u64> =
            stat.split_whitespace().map(|n| n.parse().expect("a number")).collect();
        // Documentation/block/stat.rst: requests and sectors written, under way, discards, flushes.
        (counters[8] == 0).then(|| [counters[4], counters[6], counters[11], counters[15]])
    }

    fn shut_down(&self) {
        must("xfs_io", &["-x", "-c", "shutdown", text(&self.at)]);
    }
}

fn copy_of(image: &Path) -> PathBuf {
    image.with_extension("copy")
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a plain path")
}

fn must(program: &str, arguments: &[&str]) {
    let output = run(program, arguments);
    assert!(output.status.success(), "{program} {arguments:?}: {}", words(&output));
}
