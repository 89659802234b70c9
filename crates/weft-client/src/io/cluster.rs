//! The servers a client has to do with.

use std::sync::Arc;

use weft_nfs::FileHandle;

use super::{delegated::Delegated, file_table::FileTable, policy::IoPolicy, server_queues::Target};
use crate::{
    error::ClientError,
    layout::{DataServers, DeviceCache, Drivers},
    rpc::Credential,
    session::Session,
};

/// What all open files of a client share.
pub struct Cluster {
    /// The metadata server.
    pub mds: Session,
    /// The data servers.
    pub servers: DataServers,
    /// Devices seen.
    pub devices: DeviceCache,
    /// Layout types understood.
    pub drivers: Drivers,
    /// Files in use.
    pub files: Arc<FileTable>,
    /// What the metadata server has delegated.
    pub delegated: Arc<Delegated>,
    /// How data travel.
    pub policy: IoPolicy,
}

impl Cluster {
    /// This client has changed attributes of a file.
    pub(crate) fn attributes_changed(&self, fh: &FileHandle) {
        self.delegated.attributes_changed(fh, self.files.next_moment());
    }

    /// This client has given or taken a name, or tried to.
    pub(crate) fn names_changed(&self) {
        self.delegated.names_changed(self.files.next_moment());
    }

    /// The session with the server of a target. Data servers look at handles, not at who brings
    /// them.
    pub(super) async fn session(
        &self,
        target: &Target,
        caller: &Credential,
    ) -> Result<Session, ClientError> {
        match target {
            Target::Mds(_) => Ok(self.mds.acting_for(caller.clone())),
            Target::Ds(ds) => self.servers.session(ds).await,
        }
    }

    /// Whether the metadata server may do what this target has failed to do. A data server that
    /// cannot be reached is avoided for a while.
    pub(super) fn can_go_around(&self, target: &Target, e: &ClientError) -> bool {
        let Target::Ds(ds) = target else { return false };
        if !e.is_curable() {
            return false;
        }
        if matches!(e, ClientError::Unreachable { .. }) {
            self.servers.avoid(ds);
        }
        true
    }
}
