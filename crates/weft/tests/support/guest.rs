//! A throw-away machine with an unmodified Linux kernel that runs one script of `tests/guest`
//! against a cluster.

use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;

use super::hook::Hook;

/// Time a guest script gets, in seconds, unless it asks for more; a busy two-core machine emulates
/// slowly.
const SCRIPT_SECONDS: u32 = 400;
/// Memory a guest gets unless it asks for more.
const MEMORY_MIB: u32 = 768;
/// The rig's exit status for a guest that ended without a result.
const STATUS_DIED: i32 = 125;
/// What the kernel says when something is wrong with it: any of these fails the test.
const COMPLAINTS: [&str; 7] = [
    "WARNING: ",
    "BUG:",
    "Oops",
    "Kernel panic",
    "blocked for more than",
    "soft lockup",
    "detected stall",
];

/// The kernels a guest can have.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Kernel {
    /// Debian 11's, of 2020: the oldest client we care for.
    V5_10,
    /// Debian 12's own.
    V6_1,
    /// The long-term kernel after it.
    V6_12,
    /// The newest stock kernel that Debian 13 can have: it asks for delegations of directories.
    V7_3,
    /// A client almost as new, as user-mode Linux: at native speed.
    Uml,
}

impl Kernel {
    /// Every one.
    pub const ALL: [Kernel; 5] = [Self::V5_10, Self::V6_1, Self::V6_12, Self::V7_3, Self::Uml];

    /// The rig's name for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::V5_10 => "5.10",
            Self::V6_1 => "6.1",
            Self::V6_12 => "6.12",
            Self::V7_3 => "7.3",
            Self::Uml => "uml",
        }
    }
}

/// One guest to be: a kernel, a script and what the script needs.
pub struct Guest {
    kernel: Kernel,
    script: &'static str,
    arguments: Vec<String>,
    files: Vec<String>,
    shares: Vec<String>,
    dies: bool,
    host_programs: Vec<PathBuf>,
    seconds: u32,
    /// MiB.
    memory: u32,
    /// What the script leaves goes here; else it is removed with the guest.
    out: Option<PathBuf>,
    /// More of the kernel's command line.
    parameters: Vec<String>,
    /// Network namespace of the guest and the server's address there; else this process's own.
    network: Option<(String, String)>,
    dir: TempDir,
}

/// What a guest script left.
pub struct Report {
    /// Everything the script printed.
    pub stdout: String,
}

impl Report {
    /// The value of the script's line `proof VERSION KEY VALUE`.
    pub fn proof(&self, version: &str, key: &str) -> &str {
        let start = format!("proof {version} {key} ");
        self.stdout
            .lines()
            .find_map(|line| line.strip_prefix(&start))
            .unwrap_or_else(|| panic!("no line {start:?} in\n{}", self.stdout))
    }

    /// The same, as a number.
    pub fn number(&self, version: &str, key: &str) -> u64 {
        let value = self.proof(version, key);
        value.parse().unwrap_or_else(|_| panic!("{version} {key}: {value:?} is not a number"))
    }
}

impl Guest {
    /// A guest for one script of `tests/guest`, or none where this machine cannot run that kernel
    /// (which is said, and is a failure in continuous integration).
    pub fn new(kernel: Kernel, script: &'static str) -> Option<Self> {
        if kernel == Kernel::Uml && !has_tap() {
            let why = "the uml kernel needs root and /dev/net/tun";
            assert!(!super::in_ci(), "{why}; in CI no kernel may be left out");
            eprintln!("SKIPPED: {why}. All other kernels run without.");
            return None;
        }
        let dir = tempfile::Builder::new().prefix("weft-guest.").tempdir().expect("a folder");
        let guest = Self {
            kernel,
            script,
            arguments: Vec::new(),
            files: Vec::new(),
            shares: Vec::new(),
            host_programs: Vec::new(),
            seconds: SCRIPT_SECONDS,
            memory: MEMORY_MIB,
            out: None,
            parameters: Vec::new(),
            network: None,
            dies: false,
            dir,
        };
        Some(guest.file(&tests_dir().join("common.sh")))
    }

    /// One more argument of the script.
    pub fn argument(mut self, argument: impl ToString) -> Self {
        self.arguments.push(argument.to_string());
        self
    }

    /// The script will end by having its machine switched off (`host off`), after printing the
    /// kernel's messages.
    pub fn dies(mut self) -> Self {
        self.dies = true;
        self
    }

    /// Another time limit for the script.
    pub fn seconds(mut self, seconds: u32) -> Self {
        self.seconds = seconds;
        self
    }

    /// Another size of its memory, in MiB.
    pub fn memory(mut self, mib: u32) -> Self {
        self.memory = mib;
        self
    }

    /// One more word of the kernel's command line.
    pub fn kernel_parameter(mut self, word: &str) -> Self {
        self.parameters.push(word.to_owned());
        self
    }

    /// What the script leaves in `/out` is kept in this folder.
    pub fn keep(mut self, dir: &Path) -> Self {
        self.out = Some(dir.to_owned());
        self
    }

    /// Puts the guest behind a network namespace, where the server has this address.
    pub fn behind(mut self, namespace: String, server: String) -> Self {
        self.network = Some((namespace, server));
        self
    }

    /// What stops the guest as a whole and lets it go on (the uml kernel only: it is a process).
    pub fn freezer(&self) -> Machine {
        assert_eq!(self.kernel, Kernel::Uml, "only a guest that is a process can be frozen");
        Machine { mark: self.mark() }
    }

    /// A word on the guest kernel's command line that no other guest has.
    fn mark(&self) -> String {
        let dir = self.dir.path().file_name().expect("a name");
        format!("weft.guest={}", dir.to_string_lossy())
    }

    /// Copies a file or folder to `/job` in the guest.
    pub fn file(self, path: &Path) -> Self {
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        self.file_as(path, &format!("/job/{name}"))
    }

    /// Copies a file or folder to a place of its own in the guest.
    pub fn file_as(mut self, path: &Path, place: &str) -> Self {
        self.files.push(format!("{}:{place}", path.display()));
        self
    }

    /// Shows a folder at a place of its own in the guest, read-only; an emulated one gets a copy.
    pub fn share(mut self, dir: &Path, place: &str) -> Self {
        self.shares.push(format!("{}:{place}", dir.display()));
        self
    }

    /// Puts a program of this machine, with its shared libraries, on the guest's path.
    pub fn host_program(mut self, path: &Path) -> Self {
        self.host_programs.push(path.to_owned());
        self
    }

    /// Compiles a C program of `tests/guest` and puts it on the guest's path.
    pub fn program(self, name: &str) -> Self {
        let binary = compiled(name, self.dir.path());
        self.file_as(&binary, &format!("/usr/local/bin/{name}"))
    }

    /// Runs the script; `host` answers its `host WORD...` commands except `host off`. Panics unless
    /// the script succeeded (or the guest died, if it shall) and the kernel had nothing to complain
    /// about.
    pub fn run<C: Send>(
        self,
        cluster: &mut C,
        mut host: impl FnMut(&mut C, &str) -> Result<(), String> + Send,
    ) -> Report {
        let hook = Hook::new(self.dir.path());
        let machine = Machine { mark: self.mark() };
        let (rig, errors) = std::thread::scope(|scope| {
            let answer = |words: &str| match words {
                "off" => machine.switch_off(),
                _ => host(cluster, words),
            };
            let service = scope.spawn(|| hook.serve(answer));
            let rig = self.rig(&hook).output();
            let held = hook.quit();
            let errors = service.join();
            drop(held);
            (rig.expect("bash starts"), errors)
        });
        let stdout = String::from_utf8_lossy(&rig.stdout).into_owned();
        let stderr = String::from_utf8_lossy(&rig.stderr).into_owned();
        let what = format!("{} on kernel {}", self.script, self.kernel.name());
        let errors =
            errors.unwrap_or_else(|_| panic!("{what}: the host's part panicked\n{stdout}"));
        assert!(errors.is_empty(), "{what}: {errors:?}\n{stdout}\n{stderr}");
        let wanted = if self.dies { STATUS_DIED } else { 0 };
        let status = rig.status;
        assert!(status.code() == Some(wanted), "{what}: {status}\n{stdout}\n{stderr}");
        let complaints = self.complaints(&stdout);
        assert!(complaints.is_empty(), "{what}: the kernel complains:\n{complaints}\n{stdout}");
        eprintln!("{what}: {}", stderr.trim());
        Report { stdout }
    }

    /// What the kernel complained of; one that died left its messages in the script's output.
    fn complaints(&self, stdout: &str) -> String {
        let out = self.out_dir();
        let read = |name: &str| {
            let text = std::fs::read(out.join(name)).unwrap_or_else(|e| panic!("{name}: {e}"));
            complaints_in(name, &String::from_utf8_lossy(&text))
        };
        let mut found = read("console.log");
        found.extend(if self.dies { complaints_in("stdout", stdout) } else { read("dmesg.txt") });
        found.join("\n")
    }

    fn out_dir(&self) -> PathBuf {
        self.out.clone().unwrap_or_else(|| self.dir.path().join("out"))
    }

    fn rig(&self, hook: &Hook) -> Command {
        let mut rig = match &self.network {
            None => Command::new("bash"),
            Some((namespace, _)) => {
                let mut rig = Command::new("ip");
                rig.args(["netns", "exec", namespace, "bash"]);
                rig
            }
        };
        rig.arg(super::repository().join("tests/kclient/kclient.sh"))
            .args(["--kernel", self.kernel.name(), "--timeout", &self.seconds.to_string()])
            .args(["--append", &self.mark(), "--mem", &self.memory.to_string()])
            .arg("--out")
            .arg(self.out_dir())
            .arg("--hook")
            .arg(hook.program());
        if let Some((_, server)) = &self.network {
            rig.args(["--env", &format!("SERVER={server}")]);
        } else if !has_tap() {
            rig.args(["--net", "user", "--env", &format!("SERVER={}", outward_address())]);
        }
        for word in &self.parameters {
            rig.args(["--append", word]);
        }
        for file in &self.files {
            rig.args(["--add", file]);
        }
        for share in &self.shares {
            rig.args(["--share", share]);
        }
        for program in &self.host_programs {
            rig.arg("--bin").arg(program);
        }
        rig.arg("--").arg(tests_dir().join(self.script)).args(&self.arguments);
        rig.stdin(Stdio::null());
        rig
    }
}

/// Compiles a C program of `tests/guest` into a folder; where it is.
pub fn compiled(name: &str, dir: &Path) -> PathBuf {
    let source = tests_dir().join(format!("{name}.c"));
    let binary = dir.join(name);
    let compiled = Command::new("cc")
        .args(["-O2", "-Wall", "-Wextra", "-static", "-o"])
        .args([&binary, &source])
        .output()
        .expect("a C compiler: apt-get install gcc libc6-dev");
    assert!(compiled.status.success(), "cc {name}.c: {}", super::words(&compiled));
    binary
}

/// The processes that a guest is made of.
pub struct Machine {
    mark: String,
}

/// A guest that stands still; it goes on when this is dropped, also by a test that fails.
pub struct Frozen<'a>(&'a Machine);

impl Machine {
    /// Stops the guest as a whole, as a suspended machine stops.
    pub fn freeze(&self) -> Frozen<'_> {
        let sent = self.signal("-STOP");
        assert!(sent.status.success(), "kill: {}", super::words(&sent));
        Frozen(self)
    }

    /// Its power is cut: the guest's kernel has no part in it.
    fn switch_off(&self) -> Result<(), String> {
        let sent = self.signal("-KILL");
        if sent.status.success() { Ok(()) } else { Err(super::words(&sent)) }
    }

    fn signal(&self, signal: &str) -> Output {
        let kernels = self.kernels();
        let words: Vec<&str> =
            std::iter::once(signal).chain(kernels.iter().map(String::as_str)).collect();
        super::run("kill", &words)
    }

    /// Processes whose command line is that of the guest's kernel: the kernel itself.
    fn kernels(&self) -> Vec<String> {
        let processes = std::fs::read_dir("/proc").expect("proc").flatten();
        let is_kernel = |pid: &String| {
            let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let mut words = line.split(|byte| *byte == 0 || *byte == b' ');
            let program = words.next().unwrap_or_default();
            (program == b"/linux" || program.ends_with(b"qemu-system-x86_64"))
                && words.any(|word| word == self.mark.as_bytes())
        };
        let pids = processes.map(|entry| entry.file_name().to_string_lossy().into_owned());
        pids.filter(is_kernel).collect()
    }
}

impl Drop for Frozen<'_> {
    fn drop(&mut self) {
        // A guest that could not be woken runs into its time limit, which fails the test.
        self.0.signal("-CONT");
    }
}

fn tests_dir() -> PathBuf {
    super::repository().join("tests/guest")
}

fn has_tap() -> bool {
    super::is_root() && Path::new("/dev/net/tun").exists()
}

/// An address of this machine that is not a loopback one: the server tells a client the addresses
/// of its data servers as the client itself sees them, so both must see the same.
fn outward_address() -> String {
    let socket = UdpSocket::bind("0.0.0.0:0").expect("a socket");
    // Choosing a route sends nothing; 192.0.2.1 is an address reserved for documentation.
    socket
        .connect("192.0.2.1:9")
        .and_then(|()| socket.local_addr())
        .expect("without root and /dev/net/tun, this machine needs an address of its own")
        .ip()
        .to_string()
}

fn complaints_in(name: &str, text: &str) -> Vec<String> {
    text.lines()
        .filter(|line| COMPLAINTS.iter().any(|complaint| line.contains(complaint)))
        .map(|line| format!("{name}: {line}"))
        .collect()
}
