//! Mounting, serving, and taking the mount away.

use std::{
    io,
    path::{Path, PathBuf},
    sync::{Arc, Weak},
    time::{Duration, Instant},
};

use fuser::{Config, MountOption, Session, SessionACL};
use tokio::runtime::Handle;
use weft_client::{
    fs::Client,
    node::{Node, Nodes, Reclaims, Watcher},
};
use weft_nfs::FileType;

use crate::{callers::Callers, ending::Ending, filesystem::WeftFs, tree::Tree};

/// How often it is looked whether the server has forgotten us: the session finds out by itself.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// How a file system is mounted.
#[derive(Debug, Clone)]
pub struct MountOptions {
    /// What `mount` and `df` call it.
    pub source: String,
    /// Nothing can be changed through it.
    pub read_only: bool,
    /// Nothing on it can be started as a program.
    pub no_exec: bool,
    /// Other users than the one who mounts it may use it, each in his own name. Only root can
    /// speak for others: to a server it is root who does.
    pub allow_other: bool,
    /// How long the kernel may believe attributes and names before it asks again; attributes of
    /// files that are delegated to the client for longer, unless this is zero.
    pub attributes_valid: Duration,
    /// Threads that take requests from the kernel.
    pub threads: usize,
}

impl Default for MountOptions {
    fn default() -> Self {
        MountOptions {
            source: "weft".to_string(),
            read_only: false,
            no_exec: false,
            allow_other: rustix::process::geteuid().is_root(),
            attributes_valid: Duration::from_secs(1),
            threads: 2,
        }
    }
}

/// Why there is no mount.
#[derive(Debug, thiserror::Error)]
pub enum MountError {
    /// Users other than root speak for themselves alone.
    #[error("only root can mount it for others: to the server each of them would be you")]
    NotForOthers,
    /// The directory cannot be mounted on.
    #[error("{}: {}", dir.display(), words_of_dir(why))]
    Dir {
        /// The directory.
        dir: PathBuf,
        /// What is wrong with it.
        why: io::Error,
    },
    /// What was to be mounted is not a directory.
    #[error("{source_name}: not a directory: what is mounted is one, with all below it")]
    NotADirectory {
        /// As it was named.
        source_name: String,
    },
    /// The kernel or `fusermount3` refuses.
    #[error("{}: {}", dir.display(), words(why))]
    Fuse {
        /// The directory.
        dir: PathBuf,
        /// What it says.
        why: io::Error,
    },
}

/// The same of the directory.
fn words_of_dir(why: &io::Error) -> String {
    let advice = match why.kind() {
        io::ErrorKind::NotConnected => " (a mount whose process has gone is there: unmount it)",
        _ => "",
    };
    format!("{why}{advice}")
}

/// What a user can do about it.
fn words(why: &io::Error) -> String {
    let advice = match why.kind() {
        io::ErrorKind::NotFound if rustix::process::geteuid().is_root() => {
            "this kernel has no FUSE (/dev/fuse): modprobe fuse"
        }
        io::ErrorKind::NotFound => "fusermount3 is missing: install the package fuse3",
        io::ErrorKind::PermissionDenied => {
            "may you use /dev/fuse, and is the directory yours? Root may mount anywhere"
        }
        _ => return why.to_string(),
    };
    format!("{why} ({advice})")
}

/// A file system that is mounted, and waits to be served.
pub struct Mount {
    session: Session<WeftFs>,
    tree: Arc<Tree>,
    nodes: Nodes,
    dir: PathBuf,
}

impl Mount {
    /// Mounts a directory of a cluster, and what is below, on one of this machine. Requests are
    /// answered by tasks of this runtime.
    ///
    /// # Errors
    /// [`MountError`].
    pub async fn new(
        client: &Client,
        root: &Node,
        dir: &Path,
        options: &MountOptions,
    ) -> Result<Mount, MountError> {
        let is_root = rustix::process::geteuid().is_root();
        if options.allow_other && !is_root {
            return Err(MountError::NotForOthers);
        }
        let dir_error = |why| MountError::Dir { dir: dir.to_path_buf(), why };
        if !std::fs::metadata(dir).map_err(dir_error)?.is_dir() {
            return Err(dir_error(io::ErrorKind::NotADirectory.into()));
        }
        if root.attrs.file_type != Some(FileType::DIR) {
            return Err(MountError::NotADirectory { source_name: options.source.clone() });
        }
        let nodes = client.nodes().clone();
        let tree = Arc::new(Tree::new(root, options.attributes_valid));
        let callers = match options.allow_other {
            true => Callers::each(),
            false => Callers::only(nodes.caller().clone()),
        };
        let filesystem = WeftFs {
            tree: tree.clone(),
            nodes: nodes.clone(),
            callers,
            runtime: Handle::current(),
        };
        // To be unmounted from wherever this process is by then.
        let dir = std::fs::canonicalize(dir).map_err(dir_error)?;
        let (at, config) = (dir.clone(), config(options));
        // Mounting talks to the kernel, and may start a program.
        let mounting = tokio::task::spawn_blocking(move || {
            let session = Session::new(filesystem, &at, &config);
            session.map_err(|why| MountError::Fuse { dir: at, why })
        });
        let session = mounting.await.unwrap_or_else(|e| {
            Err(MountError::Fuse { dir: PathBuf::new(), why: io::Error::other(e) })
        })?;
        let _ = tree.notifier.set(session.notifier());
        let reclaimed: [Arc<dyn Reclaims>; 2] = [tree.locks.clone(), tree.clone()];
        reclaimed.iter().for_each(|reclaims| nodes.reclaim_with(Arc::downgrade(reclaims)));
        let watcher: Arc<dyn Watcher> = tree.clone();
        nodes.watch_with(Arc::downgrade(&watcher));
        Ok(Mount { session, tree, nodes, dir })
    }

    /// Ends the mount, which is served meanwhile.
    pub fn ending(&self) -> Ending {
        Ending::new(self.dir.clone(), self.tree.clone())
    }

    /// Serves the kernel until the file system is unmounted, by whomever. What programs have
    /// written and not closed is made durable then.
    ///
    /// # Errors
    /// The connection to the kernel broke.
    pub async fn serve(self) -> io::Result<()> {
        let Mount { session, tree, nodes, dir: _ } = self;
        let watching = tokio::spawn(watch(tree.clone(), nodes.clone()));
        let telling = tokio::spawn(tree.clone().tell(session.notifier()));
        let served = tokio::task::spawn_blocking(move || session.run()).await;
        watching.abort();
        // The kernel has nothing any more that it could be told of.
        nodes.watch_with(Weak::<Tree>::new());
        telling.abort();
        tree.close_all().await;
        served.unwrap_or_else(|e| Err(io::Error::other(e)))
    }
}

/// Whenever the server has forgotten us the kernel forgets what it has, and locks are taken again.
/// Files held open for threads that did not ask again are closed.
async fn watch(tree: Arc<Tree>, nodes: Nodes) {
    let mut seen = nodes.losses();
    loop {
        tokio::time::sleep(LOOK_EVERY).await;
        tree.retries.end_overdue(Instant::now());
        let losses = nodes.losses();
        if losses != seen {
            tree.all_changing();
            tree.take_locks_again().await;
            seen = losses;
        }
    }
}

fn config(options: &MountOptions) -> Config {
    let mut config = Config::default();
    config.mount_options = vec![
        MountOption::FSName(options.source.clone()),
        MountOption::Subtype("weft".to_string()),
        // Beside the server, which judges each request, the kernel judges by mode what it has in
        // its caches, which the server does not see.
        MountOption::DefaultPermissions,
        if options.read_only { MountOption::RO } else { MountOption::RW },
        if options.no_exec { MountOption::NoExec } else { MountOption::Exec },
    ];
    config.acl = if options.allow_other { SessionACL::All } else { SessionACL::Owner };
    config.n_threads = Some(options.threads.max(1));
    config.clone_fd = true;
    config
}
