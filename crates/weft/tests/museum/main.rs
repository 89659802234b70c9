//! The museum: faults that were reported of other file servers and clients, each as a test that
//! Weft passes. `docs/museum.md` lists the exhibits with what went wrong elsewhere, and with the
//! fault that was planted to see each test fail.
//!
//! An exhibit of what programs see is an act of `tests/guest/museum.c`. It runs on a local
//! directory, which shows that the act itself is right, on `weft mount`, and on the unmodified
//! kernel's client. All of them share one server, one mount and one guest. What other clients see
//! is asked over a session of NFS ([`wire`]). Exhibits that kill servers, or make one cautious,
//! have servers of their own.

mod delegations;
mod holes;
mod listing;
mod locks;
mod names;
mod restarts;
mod sizes;
#[path = "../support/mod.rs"]
mod support;
mod wire;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, Mutex, Weak};
use std::time::{Duration, Instant};

use support::cluster::{Cluster, Options};
use support::guest::{self, Guest, Kernel};
use support::mount::Mount;
use tempfile::TempDir;

/// Time a command of another client may take while the kernel holds a delegation: much less than
/// the lease, after which the server takes the delegation away by itself.
const RECALLED_WITHIN: Duration = Duration::from_secs(5);

/// The server of all exhibits that leave it alone, and its mount. The last exhibit that shares it
/// drops it, since nothing drops a static.
struct Museum {
    mount: Mount,
    cluster: Cluster,
    /// The program of the acts.
    program: PathBuf,
    dir: TempDir,
}

impl Museum {
    /// The one that is open, or a new one.
    fn visit() -> Arc<Museum> {
        static OPEN: Mutex<Weak<Museum>> = Mutex::new(Weak::new());
        let mut open = OPEN.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some(museum) = open.upgrade() {
            return museum;
        }
        let cluster = Cluster::configured(Options::default(), "");
        let mount = Mount::of(cluster.port(), &[]);
        let dir = tempfile::tempdir().expect("a folder");
        let program = guest::compiled("museum", dir.path());
        let museum = Arc::new(Museum { mount, cluster, program, dir });
        *open = Arc::downgrade(&museum);
        museum
    }

    /// The act succeeds in a folder of this machine.
    fn act_in(&self, at: &Path, act: &str) {
        let said = support::run(&self.program.to_string_lossy(), &[&at.to_string_lossy(), act]);
        assert!(said.status.success(), "in {}: {}", at.display(), support::words(&said));
    }

    /// A command of another client, which succeeds.
    fn weft(&self, arguments: &[&str]) {
        let said = self.cluster.weft(arguments);
        assert!(said.status.success(), "weft {arguments:?}: {}", support::words(&said));
    }

    /// A file of this machine that holds this.
    fn local(&self, name: &str, holds: &[u8]) -> String {
        let path = self.dir.path().join(name);
        std::fs::write(&path, holds).expect("a file");
        path.to_string_lossy().into_owned()
    }

    /// The file of the cluster holds this from now on; it is the same file if it was there.
    fn put(&self, name: &str, holds: &[u8]) {
        let from = self.local(&name.replace('/', "-"), holds);
        self.weft(&["put", "--in-place", &from, name]);
    }
}

/// The act succeeds on the local disk, on `weft mount` and on the kernel's own client, beside which
/// tmpfs is the local disk.
fn everywhere(act: &str) {
    let museum = Museum::visit();
    let control = tempfile::tempdir().expect("a folder");
    museum.act_in(control.path(), act);
    museum.act_in(&museum.mount.path(""), act);
    on_the_kernel(act);
}

/// The act succeeded in the guest, where there is a guest.
fn on_the_kernel(act: &str) {
    let Some(guest) = &*IN_THE_GUEST else { return };
    for place in ["tmpfs", "kernel"] {
        let said = guest.get(&format!("{place} {act}"));
        assert_eq!(said.map(String::as_str), Some("ok"), "{act} on {place}");
    }
}

/// Outcome of every act in the guest, by place and act; none where no guest can run.
static IN_THE_GUEST: LazyLock<Option<BTreeMap<String, String>>> = LazyLock::new(|| {
    let guest = Guest::new(Kernel::Uml, "museum.sh")?;
    let mut museum = Museum::visit();
    let guest = guest.program("museum").argument(museum.cluster.port());
    let report = guest.run(&mut museum, |museum, words| {
        let began = Instant::now();
        match words {
            "rewrite" => museum.put("/recalled", b"by another client\n"),
            "replace" => {
                let from = museum.local("replaced", b"by another client\n");
                museum.weft(&["put", &from, "/replaced"]);
            }
            _ => return Err("not a command of this test".to_owned()),
        }
        let took = began.elapsed();
        if took < RECALLED_WITHIN { Ok(()) } else { Err(format!("{words} took {took:?}")) }
    });
    let outcomes = report.stdout.lines().filter_map(|line| {
        let (place, said) = line.split_once(' ')?;
        let said = said.strip_prefix("not ").map_or((said, ""), |said| (said, "not "));
        let act = said.0.strip_prefix("ok ")?;
        let (act, why) = act.split_once(": ").unwrap_or((act, ""));
        let outcome = if said.1.is_empty() { "ok".to_owned() } else { format!("not ok: {why}") };
        Some((format!("{place} {act}"), outcome))
    });
    Some(outcomes.collect())
});
