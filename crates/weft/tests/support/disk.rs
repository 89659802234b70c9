//! Small disks of their own for servers, and what fills them.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

/// What a disk is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    Tmpfs,
    /// Files on it can share what they hold (reflinks).
    Xfs,
    Ext4,
    /// With few inodes, which are used up before the blocks.
    Ext4FewInodes,
}

/// A mounted disk; dropping it unmounts it.
pub struct Disk {
    dir: TempDir,
    kind: Kind,
}

impl Disk {
    /// A fresh disk of so many MiB.
    pub fn new(kind: Kind, mib: u64) -> Self {
        super::require_root("a disk of its own");
        let dir = tempfile::Builder::new().prefix("weft-disk.").tempdir().expect("a folder");
        let disk = Disk { dir, kind };
        std::fs::create_dir(disk.at()).expect("a folder");
        let image = disk.dir.path().join("image");
        let (at, image_text) = (disk.at(), image.to_str().expect("a plain path").to_owned());
        let at = at.to_str().expect("a plain path");
        let make = || File::create(&image).and_then(|f| f.set_len(mib << 20)).expect("an image");
        match kind {
            Kind::Tmpfs => {
                ran("mount", &["-t", "tmpfs", "-o", &format!("size={mib}m"), "tmpfs", at]);
            }
            Kind::Xfs => {
                make();
                ran("mkfs.xfs", &["-q", &image_text]);
                ran("mount", &["-o", "loop", &image_text, at]);
            }
            Kind::Ext4 | Kind::Ext4FewInodes => {
                make();
                let inodes = if kind == Kind::Ext4FewInodes { "1024" } else { "65536" };
                // No blocks that only the superuser may use, who these tests are.
                ran("mkfs.ext4", &["-q", "-F", "-m", "0", "-N", inodes, &image_text]);
                ran("mount", &["-o", "loop,errors=remount-ro", &image_text, at]);
            }
        }
        disk
    }

    /// What it is.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Where it is mounted.
    pub fn at(&self) -> PathBuf {
        self.dir.path().join("disk")
    }

    /// Takes all that is left, to the last byte or inode, with files that are not the servers'.
    pub fn fill(&self) {
        let dir = self.filler();
        std::fs::create_dir_all(&dir).expect("a folder");
        if self.kind == Kind::Ext4FewInodes {
            let names = (0..).map(|n: u32| dir.join(n.to_string()));
            let missing = names.filter(|name| !name.exists());
            missing.map_while(|name| File::create(name).ok()).for_each(drop);
            return;
        }
        let more = File::options().create(true).append(true).open(dir.join("large"));
        let mut file = more.expect("a file");
        for piece in [1 << 20, 4096, 1] {
            let piece = vec![7; piece];
            while file.write_all(&piece).is_ok() {}
        }
    }

    /// From now on the disk (an ext4) refuses to be written to, as after an error of the device.
    pub fn fail(&self) {
        let found = super::run("findmnt", &["-no", "SOURCE", self.at().to_str().expect("plain")]);
        let device = String::from_utf8_lossy(&found.stdout).trim().replace("/dev/", "");
        let trigger = format!("/sys/fs/ext4/{device}/trigger_fs_error");
        std::fs::write(&trigger, "1").expect("ext4 lets errors be triggered");
    }

    /// Checks and mounts the disk again; nothing may be open on it.
    pub fn repair(&self) {
        let (at, image) = (self.at(), self.dir.path().join("image"));
        let (at, image) = (at.to_str().expect("plain"), image.to_str().expect("plain"));
        ran("umount", &[at]);
        // A process with mounts of its own may have taken this one along when it began.
        super::until("end of all mounts", std::time::Duration::from_secs(30), || {
            super::run("losetup", &["-j", image]).stdout.is_empty().then_some(())
        });
        // Its status says that it has repaired something.
        super::run("e2fsck", &["-fy", image]);
        ran("mount", &["-o", "loop,errors=remount-ro", image, at]);
    }

    /// Removes what [`Self::fill`] made.
    pub fn free(&self) {
        std::fs::remove_dir_all(self.filler()).expect("the filler");
    }

    fn filler(&self) -> PathBuf {
        self.at().join("filler")
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.at()).status();
    }
}

fn ran(program: &str, arguments: &[&str]) {
    let done = super::run(program, arguments);
    assert!(done.status.success(), "{program}: {}", super::words(&done));
}

/// Writes a file of so many bytes that compress badly, for clients to put.
pub fn source(dir: &Path, name: &str, bytes: usize) -> String {
    let path = dir.join(name);
    std::fs::write(&path, super::pattern(3, bytes)).expect("a source file");
    path.to_str().expect("a plain path").to_owned()
}
