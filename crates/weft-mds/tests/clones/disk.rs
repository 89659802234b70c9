//! Disks whose files can share blocks: XFS on loop devices.

use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

/// A mounted XFS; dropping it unmounts it.
pub struct Disk {
    dir: TempDir,
}

impl Disk {
    /// A fresh one; `None` without root, who alone may mount it.
    pub fn new() -> Option<Disk> {
        if !rustix::process::geteuid().is_root() {
            eprintln!("left out: an XFS to mount needs root");
            return None;
        }
        let dir = tempfile::Builder::new().prefix("weft-xfs.").tempdir().unwrap();
        let disk = Disk { dir };
        let image = disk.dir.path().join("image");
        std::fs::create_dir(disk.at()).unwrap();
        // The smallest that mkfs makes; nothing of it is in use.
        std::fs::File::create(&image).and_then(|f| f.set_len(512 << 20)).unwrap();
        run("mkfs.xfs", &["-q".as_ref(), "-m".as_ref(), "reflink=1".as_ref(), &image]);
        run("mount", &["-o".as_ref(), "loop".as_ref(), &image, &disk.at()]);
        Some(disk)
    }

    /// Where it is mounted.
    pub fn at(&self) -> PathBuf {
        self.dir.path().join("disk")
    }

    /// Bytes that are in use.
    pub fn used(&self) -> u64 {
        rustix::fs::sync();
        let told = rustix::fs::statvfs(self.at()).unwrap();
        (told.f_blocks - told.f_bfree) * told.f_frsize
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.at()).status();
    }
}

fn run(program: &str, arguments: &[&Path]) {
    let done = Command::new(program).args(arguments).output().unwrap();
    assert!(done.status.success(), "{program}: {}", String::from_utf8_lossy(&done.stderr));
}
