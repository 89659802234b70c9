//! What administrators ask: the state of the cluster, and where a file's bytes are.

use std::{net::SocketAddr, sync::Arc};

use weft_server::{
    core::Core,
    identity::hex,
    report::{
        Activity, AdminError, AdminFuture, AdminSource, ByteStream, CheckedFiles, CheckedObjects,
        ClientsReport, ClusterStatus, Evicted, FileLayoutReport, FileReport, Health, ServerStatus,
        SpaceStatus, StateMemoryStatus, ThresholdStatus, rss_bytes,
    },
};
use weft_store::types::{Credential, Inode, InodeNo, StoreError, Timestamp};

use super::{
    backup::Backups, check::Checks, device_reports::DeviceReports, fallbacks::Fallbacks,
    threshold::Threshold, unreached::Unreached,
};
use crate::{
    clients::Clients, files::FileService, protocol_state::ProtocolState, striped::Striped,
};

/// What administrators ask a metadata server, and set.
pub(crate) struct Admin {
    pub(super) core: Arc<Core>,
    pub(super) files: Arc<FileService>,
    pub(super) clients: Arc<Clients>,
    pub(super) protocol: Arc<ProtocolState>,
    /// Where it serves.
    address: SocketAddr,
    /// Below which size clients send I/O on a file to the metadata server.
    pub(crate) threshold: Threshold,
    /// What clients say of devices.
    pub(crate) device_reports: DeviceReports,
    backups: Backups,
    /// Clients that send here what data servers should have.
    pub(crate) fallbacks: Fallbacks,
    /// Data servers that clients cannot reach.
    pub(crate) unreached: Unreached,
    checks: Checks,
}

impl AdminSource for Admin {
    fn status(&self) -> AdminFuture<'_, ClusterStatus> {
        Box::pin(async {
            let mut servers = vec![self.own_status()];
            servers.extend(self.data_server_statuses().await);
            ClusterStatus {
                version: env!("CARGO_PKG_VERSION").into(),
                uptime_s: self.core.clock.now().0 / 1000,
                servers,
                indirect: self.files.data_servers().indirect(),
                threshold: self.threshold.status(),
                devices: self.device_reports.status(),
                grace: self.grace_status(),
                fallbacks: self.fallback_statuses(),
                unreached: self.unreached_statuses(),
            }
        })
    }

    fn health(&self) -> AdminFuture<'_, Health> {
        Box::pin(self.health_now())
    }

    fn clients(&self) -> ClientsReport {
        ClientsReport { clients: self.client_statuses(), grace: self.grace_status() }
    }

    fn evict(&self, who: String) -> AdminFuture<'_, Result<Evicted, AdminError>> {
        Box::pin(async move { self.evict_client(&who).await })
    }

    fn set_threshold(&self, bytes: u64) -> Result<ThresholdStatus, AdminError> {
        self.threshold.set(bytes)?;
        Ok(self.threshold.status())
    }

    fn check_files(&self, after: Option<u64>) -> AdminFuture<'_, Result<CheckedFiles, AdminError>> {
        Box::pin(self.checks.files(&self.files, after))
    }

    fn check_objects(
        &self,
        data_server: u32,
        after: Option<(u32, u64)>,
    ) -> AdminFuture<'_, Result<CheckedObjects, AdminError>> {
        Box::pin(self.checks.objects(&self.files, data_server, after))
    }

    fn backup(&self) -> AdminFuture<'_, Result<ByteStream, AdminError>> {
        let (seconds, nanos) = self.core.clock.wall();
        Box::pin(self.backups.take(self.files.volume().clone(), Timestamp { seconds, nanos }))
    }

    fn file(&self, path: String) -> AdminFuture<'_, Result<FileReport, AdminError>> {
        Box::pin(async move {
            let inode = self.walk(&path).map_err(|e| match e {
                StoreError::NotFound | StoreError::NotDirectory => {
                    AdminError::NotFound(path.clone())
                }
                e => AdminError::Failed(e.to_string()),
            })?;
            let layout = match self.files.striped(&inode) {
                Some(striped) => Some(self.layout_report(&inode, &striped).await),
                None => None,
            };
            Ok(FileReport {
                path,
                fileid: inode.no.0,
                size: inode.size,
                stuffed: inode.stuffed,
                layout,
            })
        })
    }
}

impl Admin {
    /// Of this server.
    pub(crate) fn new(
        core: &Arc<Core>,
        protocol: &Arc<ProtocolState>,
        clients: &Arc<Clients>,
        address: SocketAddr,
        threshold: Threshold,
    ) -> Self {
        Admin {
            core: core.clone(),
            files: clients.files().clone(),
            clients: clients.clone(),
            protocol: protocol.clone(),
            address,
            threshold,
            device_reports: DeviceReports::default(),
            fallbacks: Fallbacks::default(),
            unreached: Unreached::default(),
            checks: Checks::default(),
            backups: Backups::default(),
        }
    }

    fn own_status(&self) -> ServerStatus {
        let counters = &self.core.counters;
        let load = std::sync::atomic::Ordering::Relaxed;
        let clients = self.core.sessions().clients().filter(|c| c.is_confirmed()).count();
        ServerStatus {
            role: "mds".into(),
            id: None,
            address: self.address.to_string(),
            reachable: true,
            error: None,
            activity: Activity {
                operations: counters.operations(),
                bytes_in: counters.bytes_in.load(load),
                bytes_out: counters.bytes_out.load(load),
                rss_bytes: rss_bytes(),
                clients: clients as u64,
                connections: self.core.connections.count() as u64,
                uptime_s: self.core.clock.now().0 / 1000,
            },
            control_messages: self.files.data_servers().messages(),
            files_ahead: self.files.files_ahead(),
            space: self.files.volume().space().map(|s| SpaceStatus {
                total: s.total,
                free: s.free,
                available: s.available,
            }),
            passed_over: false,
            owed: 0,
            state_memory: Some(self.state_memory()),
        }
    }

    fn state_memory(&self) -> StateMemoryStatus {
        let of_sessions = self.core.sessions().memory();
        let of_state = self.protocol.state().memory();
        StateMemoryStatus {
            used: (of_sessions.used + of_state.used) as u64,
            limit: (of_sessions.limit + of_state.limit) as u64,
        }
    }

    /// An administrator's path walk, past every permission.
    fn walk(&self, path: &str) -> Result<Inode, StoreError> {
        let root = Credential::superuser();
        let mut inode = self.files.volume().inode(InodeNo::ROOT).unconfirmed()?;
        for name in path.split('/').filter(|n| !n.is_empty()) {
            inode = self.files.volume().lookup(inode.no, name.as_bytes(), &root).unconfirmed()?;
        }
        Ok(inode)
    }

    async fn layout_report(&self, inode: &Inode, striped: &Striped) -> FileLayoutReport {
        let device = inode.placement.map(|p| p.device.0).unwrap_or_default();
        FileLayoutReport {
            device: hex(&device),
            stripe_unit_bytes: striped.stripe_unit_bytes,
            stripe_count: u16::try_from(striped.data_servers.len()).unwrap_or(u16::MAX),
            first_stripe_index: striped.first_stripe_index,
            fence_epoch: striped.fence_epoch,
            copies_alike: striped.copies_alike(),
            objects: self.files.data_servers().object_sizes(striped).await,
        }
    }
}
