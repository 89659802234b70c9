//! The servers a client has to do with.

use std::sync::Arc;

use weft_nfs::{Attrs, FileHandle};

use super::{
    closes::Closes,
    delegated::{Delegated, Told},
    file_table::FileTable,
    open::Asked,
    policy::IoPolicy,
    server_queues::Target,
};
use crate::{
    delegation::ChangeNo,
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
    /// CLOSEs that nobody waits for.
    pub closes: Arc<Closes>,
    /// How data travel.
    pub policy: IoPolicy,
}

/// A change of a file's attributes that is under way.
pub(crate) struct Changing {
    cluster: Arc<Cluster>,
    fh: FileHandle,
    number: ChangeNo,
    asked: Asked,
    told: Option<Told>,
}

impl Changing {
    /// It has ended, and these they are now ([`super::attrs_wanted`]), as the server told in the
    /// same request.
    pub(crate) fn done(mut self, attrs: &Attrs) {
        self.told = Some(Told::answered(attrs.clone(), self.asked));
    }
}

impl Drop for Changing {
    fn drop(&mut self) {
        let now = self.cluster.files.next_moment();
        let change = (self.number, self.told.take());
        self.cluster.delegated.attributes_changed(&self.fh, now, change);
    }
}

impl Cluster {
    /// This client is about to change attributes of a file: until what this gives has ended, in
    /// whatever way, nobody knows what they are.
    pub(crate) fn changing(self: &Arc<Self>, fh: &FileHandle) -> Changing {
        let asked = Asked { losses: self.mds.losses(), moment: self.files.moment() };
        let number = self.delegated.changes_attributes(fh);
        Changing { cluster: self.clone(), fh: fh.clone(), number, asked, told: None }
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
