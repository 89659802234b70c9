//! The data server as the COMPOUND service sees it.

use std::{
    io,
    sync::{Arc, PoisonError, RwLock},
};

use weft_layout::{DataServerHandle, HandleError};
use weft_nfs::{
    ClientId, Failure, NfsStat, OpArgs, OpOk,
    ops::{PutfhArgs, TestStateidArgs, TestStateidOk},
};
use weft_server::{
    compound::{Compound, Nfs, OpResult, Role},
    core::Core,
    identity::{ClusterSecrets, HandleKey},
    op_table::{Row, Server},
    rpc::{Caller, Conn, Program},
};
use weft_state::ConfirmedClient;
use weft_store::{
    objects::{ObjectId, ObjectStore},
    types::DataServerId,
};

use crate::{births::Births, disk::Disk};

/// A data server: its clients and sessions, and its objects.
#[derive(Debug)]
pub struct DataServer {
    pub(crate) core: Core,
    pub(crate) disk: Arc<Disk>,
    pub(crate) births: Births,
    id: DataServerId,
    /// Those that handles may be sealed with.
    handle_keys: RwLock<Vec<HandleKey>>,
}

impl DataServer {
    /// Data server `id` of its cluster, with these objects; filehandles sealed by any of the
    /// secrets are accepted.
    ///
    /// # Errors
    /// What the system says.
    pub fn new(
        core: Core,
        id: DataServerId,
        store: Arc<ObjectStore>,
        secrets: &ClusterSecrets,
    ) -> io::Result<Arc<Self>> {
        let disk = Disk::new(store)?;
        let (births, handle_keys) = (Births::default(), RwLock::default());
        let ds = DataServer { core, disk, births, id, handle_keys };
        ds.use_secrets(secrets);
        Ok(Arc::new(ds))
    }

    /// What answers NFS requests.
    pub fn nfs(self: &Arc<Self>) -> Arc<dyn Program> {
        Arc::new(Nfs::new(self.clone()))
    }

    /// From now on these are the secrets that handles may be sealed by.
    pub(crate) fn use_secrets(&self, secrets: &ClusterSecrets) {
        let (id, directory) = (self.id.0, self.store().identity());
        let keys = secrets.accepted_handle_keys().iter().map(|k| k.of(id, directory)).collect();
        *self.handle_keys.write().unwrap_or_else(PoisonError::into_inner) = keys;
    }

    /// Its number.
    pub fn id(&self) -> DataServerId {
        self.id
    }

    fn open_handle(&self, sealed: &[u8]) -> Result<DataServerHandle, HandleError> {
        let keys = self.handle_keys.read().unwrap_or_else(PoisonError::into_inner);
        let mut opened = Err(HandleError::Forged);
        for key in keys.iter() {
            opened = DataServerHandle::open(key, sealed);
            if !matches!(opened, Err(HandleError::Forged)) {
                break;
            }
        }
        opened
    }

    /// The objects.
    pub fn store(&self) -> &Arc<ObjectStore> {
        &self.disk.store
    }

    /// PUTFH (22): RFC 8881 §18.19. A handle that is malformed, or not sealed by a key of the
    /// cluster's, is BADHANDLE. One of a volume that is not served here is STALE, as is one of a
    /// state of its volume that was given up.
    fn putfh(&self, c: &mut Compound<Self>, a: &PutfhArgs) -> OpResult {
        c.set_current(self.present(&a.object.0)?);
        Ok(OpOk::Putfh)
    }

    /// What a filehandle says that somebody presents.
    ///
    /// # Errors
    /// Those of PUTFH.
    pub(crate) fn present(&self, filehandle: &[u8]) -> Result<DataServerHandle, NfsStat> {
        let handle = self.open_handle(filehandle).map_err(|e| {
            tracing::debug!(error = %e, "filehandle refused");
            NfsStat::BADHANDLE
        })?;
        let id = ObjectId { volume: handle.volume, object: handle.object };
        if self.store().serves(id) { Ok(handle) } else { Err(NfsStat::STALE) }
    }

    /// TEST_STATEID (55): RFC 8881 §18.48. No stateid is ours.
    fn test_stateid(a: &TestStateidArgs) -> OpResult {
        let status_codes = vec![NfsStat::BAD_STATEID; a.stateids.len()];
        Ok(OpOk::TestStateid(TestStateidOk { status_codes }))
    }
}

impl Role for DataServer {
    type Handle = DataServerHandle;
    type Deps = ();
    type View = ();
    const SERVER: Server = Server::Ds;

    fn core(&self) -> &Core {
        &self.core
    }

    /// Handles say what they allow, whoever brings them.
    fn view(&self, _: &Conn, _: &Caller) {}

    async fn execute<'a>(
        &'a self,
        c: &'a mut Compound<Self>,
        _: &'static Row,
        args: OpArgs,
    ) -> OpResult {
        match args {
            OpArgs::Putfh(a) => self.putfh(c, &a),
            OpArgs::Read(a) => self.read(c, &a).await,
            OpArgs::Write(a) => self.write(c, a).await,
            OpArgs::Commit(a) => self.commit(c, &a).await,
            OpArgs::TestStateid(a) => Self::test_stateid(&a),
            // Not in the operation table's column of data servers.
            _ => Err(NfsStat::NOTSUPP.into()),
        }
    }

    async fn durable<'a>(&'a self, _: &'a Compound<Self>) -> Result<(), NfsStat> {
        Ok(())
    }

    async fn client_confirmed(&self, _: &ConfirmedClient) {}

    async fn clients_gone(&self, _: Vec<ClientId>) {}

    fn client_has_state(&self, _: ClientId) -> bool {
        false
    }

    async fn reclaim_complete<'a>(
        &'a self,
        _: &'a mut Compound<Self>,
        _: ClientId,
    ) -> Result<(), Failure> {
        Ok(())
    }
}
