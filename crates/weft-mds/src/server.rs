//! A metadata server: its rooms, and how they are put together.

use std::{
    net::SocketAddr,
    pin::Pin,
    sync::{Arc, RwLock},
};

use weft_nfs::{Failure, NfsStat};
use weft_server::{
    compound::{Compound, Nfs},
    core::Core,
    report::{AdminError, AdminSource, ThresholdStatus},
    rpc::Program,
};
use weft_state::{Grace, Identity, SessionLimits, StateLimits};
use weft_store::{
    types::{Credential, Inode, Kind, StoreError},
    volume::Volume,
};

use super::{
    admin::{Admin, Threshold},
    clients::{self, Clients},
    export::{
        Export, Naming,
        names::{Names, SystemHost},
    },
    files::{FileParts, FileService, LayoutKind, ObjectCreation, SmallFiles, Striping},
    protocol_state::ProtocolState,
};
use crate::data_servers::{DataServerSpec, DataServers};

/// What a metadata server is made of.
pub struct MdsParts {
    /// Identity announced to clients.
    pub identity: Identity,
    /// Limits of clients and sessions.
    pub limits: SessionLimits,
    /// Limits of what clients hold.
    pub state_limits: StateLimits,
    /// Lease, seconds.
    pub lease_s: u32,
    /// Longest grace after a start, seconds.
    pub grace_s: u32,
    /// Instance number, random at every start.
    pub instance: u32,
    /// The volume.
    pub volume: Volume,
    /// The data servers.
    pub data_servers: Arc<DataServers>,
    /// How new files are striped.
    pub striping: Striping,
    /// How clients are told where files are.
    pub layout: LayoutKind,
    /// How small files are treated.
    pub small_files: SmallFiles,
    /// When the objects of files are made.
    pub creation: ObjectCreation,
    /// Who may do what.
    pub export: Export,
    /// How owners are called.
    pub naming: Naming,
    /// Where it serves, to tell administrators.
    pub address: SocketAddr,
    /// Threads that serve.
    pub threads: u32,
}

/// What a metadata server can change while it serves.
pub struct Reconfiguration {
    /// Who may do what.
    pub export: Export,
    /// The write threshold, bytes.
    pub threshold_bytes: u64,
    /// How new files are striped.
    pub striping: Striping,
    /// The data servers; those that it has already stay as they are.
    pub data_servers: Vec<DataServerSpec>,
}

/// A metadata server.
pub struct Mds {
    pub(super) core: Arc<Core>,
    /// Opens, locks, delegations, layouts; grace; copies under way.
    pub(super) protocol: Arc<ProtocolState>,
    /// Where the bytes are, and how they are changed.
    pub(super) files: Arc<FileService>,
    /// What clients hold, and how it is taken back.
    pub(super) clients: Arc<Clients>,
    /// Who may do what.
    export: RwLock<Arc<Export>>,
    /// How users and groups are called.
    pub(super) names: Names,
    /// What administrators ask and set.
    pub(super) admin: Arc<Admin>,
}

/// Work on its way, compiled here: an `async fn` is compiled in each program that awaits it, and
/// this is the whole server.
pub type Task<T> = Pin<Box<dyn Future<Output = T> + Send>>;

impl std::fmt::Debug for Mds {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Mds").finish_non_exhaustive()
    }
}

impl Mds {
    /// Starts a metadata server on an open volume: grace begins, unfinished work is taken up.
    ///
    /// # Errors
    /// The volume cannot be read, or the devices cannot be recorded.
    pub fn start(parts: MdsParts) -> Task<Result<Arc<Mds>, StoreError>> {
        Box::pin(Self::start_parts(parts))
    }

    /// What answers NFS requests.
    pub fn nfs(self: &Arc<Self>) -> Arc<dyn Program> {
        Arc::new(Nfs::new(self.clone()))
    }

    async fn start_parts(parts: MdsParts) -> Result<Arc<Mds>, StoreError> {
        let core = Arc::new(Core::new(parts.identity, parts.limits, parts.lease_s));
        let known = clients::known(&parts.volume)?;
        let grace_ms = u64::from(parts.grace_s) * 1000;
        let grace = Grace::start(core.clock.now(), grace_ms, clients::reclaimers(&known));
        let protocol = Arc::new(ProtocolState::new(parts.instance, parts.state_limits, grace));
        let threshold = Threshold::new(&parts.small_files, parts.threads);
        let files = FileService::start(FileParts {
            volume: parts.volume,
            data_servers: parts.data_servers,
            striping: parts.striping,
            layout: parts.layout,
            small_files: parts.small_files,
            creation: parts.creation,
            protocol: protocol.clone(),
            clock: core.clock.clone(),
            lease_s: parts.lease_s,
        });
        let files = files.await?;
        let clients = Clients::new(&core, &protocol, &files, known, parts.export.digest())?;
        // At once, if there is nobody to wait for.
        clients.end_grace(core.clock.now());
        let admin = Admin::new(&core, &protocol, &clients, parts.address, threshold);
        Ok(Arc::new(Mds {
            clients,
            admin: Arc::new(admin),
            core,
            protocol,
            files,
            export: RwLock::new(Arc::new(parts.export)),
            names: Names::new(parts.naming, Arc::new(SystemHost)),
        }))
    }

    /// Goes on as this says, from the next request on.
    ///
    /// # Errors
    /// The threshold is out of range: nothing is changed.
    pub fn reconfigure(&self, new: Reconfiguration) -> Result<(), AdminError> {
        self.admin.threshold.reconfigure(new.threshold_bytes)?;
        self.data_servers().add(new.data_servers);
        self.files.stripe(new.striping);
        let new = Arc::new(new.export);
        let before = std::mem::replace(&mut *self.export.write().expect("export lock"), new);
        let export = self.export();
        self.clients.new_rules(export.digest(), export.restricts(&before));
        Ok(())
    }

    /// Who may do what.
    pub(super) fn export(&self) -> Arc<Export> {
        self.export.read().expect("export lock").clone()
    }

    /// Who may do what, in words (see [`Export::summary`]).
    pub fn export_summary(&self, others_get_here: bool) -> Vec<String> {
        self.export().summary(others_get_here)
    }

    /// The volume.
    pub fn volume(&self) -> &Volume {
        self.files.volume()
    }

    /// The data servers.
    pub fn data_servers(&self) -> &Arc<DataServers> {
        self.files.data_servers()
    }

    /// What administrators ask and set.
    pub fn admin(&self) -> Arc<dyn AdminSource> {
        self.admin.clone()
    }

    /// The write threshold, and what it depends on.
    pub fn threshold_status(&self) -> ThresholdStatus {
        self.admin.threshold.status()
    }

    /// Files to come whose objects are made; absent unless objects are made ahead.
    pub fn files_ahead(&self) -> Option<usize> {
        self.files.files_ahead()
    }

    /// Waits until the volume has stopped after a failure of its disk, which may be never; why it
    /// did. Nothing is served from then on: the process is to end and be started again.
    pub async fn failed(&self) -> StoreError {
        self.volume().stopped().await
    }

    /// Makes everything acknowledged so far, and what is still on its way, durable.
    pub async fn stop(&self) {
        let last = self.volume().stats();
        if let Ok(stats) = last.value
            && let Err(e) = self.volume().durable(stats.lsn).await
        {
            tracing::error!(error = %e, "the last mutations are not durable");
        }
        self.data_servers().tell_ages().await;
    }

    /// The caller as the export sees it.
    pub(super) fn credential(&self, c: &Compound<Mds>) -> Credential {
        self.export().credential(&c.caller, c.view)
    }

    /// The inode of the current filehandle.
    ///
    /// # Errors
    /// NOFILEHANDLE, STALE.
    pub(super) fn current_inode(&self, c: &mut Compound<Mds>) -> Result<Inode, Failure> {
        let handle = c.handle()?;
        c.deps.see(self.files.volume().inode(handle.ino))
    }

    /// The inode of the current filehandle, which must be a regular file.
    ///
    /// # Errors
    /// NOFILEHANDLE, STALE; ISDIR, SYMLINK, WRONG_TYPE.
    pub(super) fn current_file(&self, c: &mut Compound<Mds>) -> Result<Inode, Failure> {
        let inode = self.current_inode(c)?;
        match inode.kind {
            Kind::File => Ok(inode),
            Kind::Directory => Err(NfsStat::ISDIR.into()),
            Kind::Symlink => Err(NfsStat::SYMLINK.into()),
            _ => Err(NfsStat::WRONG_TYPE.into()),
        }
    }
}
