//! Fixtures of tests: metadata servers on volumes in memory.

use std::sync::Arc;

use weft_server::identity::{ClusterSecrets, ServerRole, ServerUuid, identity};
use weft_state::{SessionLimits, StateLimits};
use weft_store::volume::{Format, Volume, VolumeConfig};

use super::{
    export::{Export, Naming},
    files::{LayoutKind, ObjectCreation, SmallFiles, Striping},
    server::{Mds, MdsParts},
};
use crate::data_servers::{DataServerRegistry, DataServerSpec, DataServers};

/// One without data servers, that nobody talks to, and whose background does not run.
pub(super) async fn lone_mds() -> Arc<Mds> {
    mds_on(new_volume(), &[]).await
}

/// An empty volume.
pub(super) fn new_volume() -> Volume {
    let format = Format { uuid: [7; 16], fsid: (7, 8), ..Format::default() };
    Volume::in_memory(&VolumeConfig { format, ..VolumeConfig::default() }).unwrap()
}

/// The same as [`lone_mds`] on this volume, and with data servers.
pub(super) async fn mds_on(volume: Volume, servers: &[DataServerSpec]) -> Arc<Mds> {
    let secret = ClusterSecrets::from_text("a secret for tests, not for clusters").unwrap();
    let uuid = ServerUuid([1; 16]);
    let servers = servers.iter().cloned();
    let registry = DataServerRegistry::open(volume.clone(), &secret).unwrap();
    let parts = MdsParts {
        identity: identity(ServerRole::Mds, uuid),
        limits: SessionLimits::default(),
        state_limits: StateLimits::default(),
        lease_s: 60,
        grace_s: 60,
        instance: 1,
        volume,
        data_servers: DataServers::start(servers, uuid, registry, true),
        small_files: SmallFiles::default(),
        threads: 1,
        creation: ObjectCreation::default(),
        striping: Striping { unit_bytes: 1 << 20, width: 1 },
        layout: LayoutKind::Files,
        export: Export::default(),
        naming: Naming::default(),
        address: ([127, 0, 0, 1], 0).into(),
    };
    Mds::start(parts).await.unwrap()
}
