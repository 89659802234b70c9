//! A cluster in a directory of this machine, through `weft mount`.
//!
//! **The trap.** Who holds a file of a mount open must not start a process that the mount waits
//! for: what a child inherits is closed before it becomes that program, and the kernel asks the
//! mount about each close. A test that kills servers uses its mount through other processes only.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// Time for the process of a former mount to end.
const FORMER_ENDS_WITHIN: Duration = Duration::from_secs(20);

/// The mount; dropped, it goes, whoever uses it.
pub struct Mount {
    source: String,
    dir: TempDir,
}

impl Mount {
    /// Mounts the cluster whose metadata server has this port.
    pub fn of(port: u16, arguments: &[&str]) -> Mount {
        super::require_root("to mount for others");
        let dir = tempfile::tempdir().expect("a folder");
        let mount = Mount { source: format!("127.0.0.1:{port}"), dir };
        mount.mount_again(arguments);
        mount
    }

    /// Mounts it again, after [`Mount::unmount`], once the process of the former mount has ended:
    /// it could unmount the new one, too (docs/STATUS.md).
    pub fn mount_again(&self, arguments: &[&str]) {
        let end = Instant::now() + FORMER_ENDS_WITHIN;
        while self.is_served() && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(20));
        }
        let (at, log) = (self.path(""), self.log());
        let (at, log) = (at.to_string_lossy(), log.to_string_lossy());
        let mut all = vec!["mount", &*self.source, &*at, "--log", &*log];
        all.extend(arguments);
        let said = super::run(&super::weft_binary().to_string_lossy(), &all);
        assert!(said.status.success(), "{}", super::words(&said));
    }

    /// True if a process has this directory among its arguments.
    fn is_served(&self) -> bool {
        let dir = self.dir.path().as_os_str().as_bytes();
        let processes = fs::read_dir("/proc").expect("/proc").flatten();
        processes.into_iter().any(|process| {
            let arguments = fs::read(process.path().join("cmdline")).unwrap_or_default();
            arguments
                .split(|byte| *byte == 0)
                .any(|word| word.strip_suffix(b"/") == Some(dir) || word == dir)
        })
    }

    /// What goes wrong is written here: beside the mount, not on it.
    pub fn log(&self) -> PathBuf {
        self.dir.path().with_extension("log")
    }

    /// A file of the mount; its root if the name is empty.
    pub fn path(&self, name: &str) -> PathBuf {
        match name {
            "" => self.dir.path().to_path_buf(),
            name => self.dir.path().join(name),
        }
    }

    /// Unmounts, which nobody may be in the way of.
    pub fn unmount(&self) {
        let said = super::run("umount", &[&self.dir.path().to_string_lossy()]);
        assert!(said.status.success(), "{}", super::words(&said));
    }

    /// A command of the shell on the mount as some user; whether it succeeded, and what it said.
    pub fn shell(&self, user: u32, command: &str) -> (bool, String) {
        let said = self.command(user, command).output().expect("a shell");
        let text = [said.stdout, said.stderr].concat();
        (said.status.success(), String::from_utf8_lossy(&text).trim_end().to_string())
    }

    /// The same by root in the background, with pipes to and from it.
    pub fn start(&self, command: &str) -> Child {
        let mut shell = self.command(0, command);
        shell.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit());
        shell.spawn().expect("a shell")
    }

    fn command(&self, user: u32, command: &str) -> Command {
        let mut shell = Command::new("/bin/sh");
        shell.args(["-c", command]).current_dir(self.dir.path()).uid(user).gid(user);
        shell
    }
}

/// So that a failed test leaves no mount behind.
impl Drop for Mount {
    fn drop(&mut self) {
        unmount_lazily(self.dir.path());
        if std::thread::panicking() {
            eprintln!("{}", fs::read_to_string(self.log()).unwrap_or_default());
        }
        let _ = fs::remove_file(self.log());
    }
}

fn unmount_lazily(dir: &Path) {
    let _ = Command::new("umount")
        .args(["-l".as_ref(), dir.as_os_str()])
        .stderr(Stdio::null())
        .status();
}
