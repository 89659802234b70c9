//! The metadata server: one volume, exported at the root.

use std::{
    collections::HashMap,
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard, RwLock, Weak, atomic::AtomicU64},
};

use bytes::{BufMut, Bytes, BytesMut};
use tokio::sync::{Notify, Semaphore};
use weft_nfs::{ClientId, Failure, Fsid, NfsStat, OpArgs};
use weft_state::{ConfirmedClient, Grace, Identity, Offloads, Refusal, SessionLimits, State};
use weft_store::{
    types::{Device, DeviceId, Inode, InodeNo, Intent, Kind, Lsn, StoreError, Timestamp},
    volume::{Seen, Volume},
};

use crate::{
    compound::{Compound, OpResult, Role},
    core::Core,
    data_servers::{DataServerError, DataServers},
    op_table,
    rpc::{Caller, Conn},
};

use super::{
    Export, Handle, Naming, ObjectCreation, SmallFiles, Striping, background, copying, creation,
    device_reports, disk_reserve, export,
    files::Files,
    layouts,
    names::{Names, SystemHost},
    ops, pool, small_files, threshold, translate,
};

/// What a metadata server is made of.
pub struct MdsParts {
    /// Identity announced to clients.
    pub identity: Identity,
    /// Session limits.
    pub limits: SessionLimits,
    /// Lease, seconds.
    pub lease_s: u32,
    /// Longest grace after a start, seconds.
    pub grace_s: u32,
    /// Instance number, random at every start.
    pub instance: u32,
    /// The volume.
    pub volume: Volume,
    /// Its number in filehandles.
    pub volume_number: u32,
    /// The data servers.
    pub data_servers: Arc<DataServers>,
    /// How new files are striped.
    pub striping: Striping,
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

/// A metadata server.
pub struct Mds {
    /// For tasks that outlive a request.
    pub(in crate::mds) me: Weak<Mds>,
    pub(in crate::mds) core: Core,
    pub(in crate::mds) state: Mutex<State>,
    pub(in crate::mds) grace: Mutex<Grace>,
    /// Copies that go on after their reply.
    pub(in crate::mds) offloads: Mutex<Offloads>,
    /// DiskReserve for steps of copies.
    pub(in crate::mds) copy_steps: Semaphore,
    pub(in crate::mds) volume: Volume,
    pub(in crate::mds) volume_number: u32,
    pub(in crate::mds) fsid: Fsid,
    pub(in crate::mds) devices: RwLock<HashMap<DeviceId, Device>>,
    /// Devices that new files are placed on.
    pub(in crate::mds) placing: Vec<Device>,
    pub(in crate::mds) data_servers: Arc<DataServers>,
    pub(in crate::mds) striping: Striping,
    pub(in crate::mds) small_files: SmallFiles,
    pub(in crate::mds) threshold: threshold::Threshold,
    pub(in crate::mds) threads: u32,
    /// Small files on their way to data servers.
    pub(in crate::mds) moves: small_files::Moves,
    pub(in crate::mds) creation: ObjectCreation,
    pub(in crate::mds) placement_lsn: creation::PlacementLsn,
    /// Objects that are made ahead.
    pub(in crate::mds) pool: pool::Pool,
    /// Whose turn it is to get a file that is placed before it has a number.
    pub(in crate::mds) turn: AtomicU64,
    pub(in crate::mds) export: Export,
    pub(in crate::mds) names: Names,
    pub(in crate::mds) address: SocketAddr,
    pub(in crate::mds) files: Files,
    /// Wakes the task that fences files.
    pub(in crate::mds) fence: Notify,
    /// Durable records of clients, by owner: the id of each record.
    pub(in crate::mds) client_records: Mutex<HashMap<Bytes, u64>>,
    /// The last removal of such a record (a log sequence number). Until it is durable the client
    /// could come back after a crash for what others have been given since.
    pub(in crate::mds) forgotten: AtomicU64,
    /// Unfinished truncations that no request is working on; their files are closed to writers.
    pub(in crate::mds) abandoned: Mutex<Vec<Intent>>,
    /// Wakes the reaper of intents.
    pub(in crate::mds) reap: Notify,
    pub(in crate::mds) reserve: disk_reserve::DiskReserve,
    /// What clients say of devices.
    pub(in crate::mds) device_reports: device_reports::DeviceReports,
}

impl std::fmt::Debug for Mds {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Mds").field("address", &self.address).finish_non_exhaustive()
    }
}

impl Mds {
    /// Starts a metadata server on an open volume: grace begins, unfinished work is taken up.
    ///
    /// # Errors
    /// The volume cannot be read, or the devices cannot be recorded.
    pub async fn start(parts: MdsParts) -> Result<Arc<Mds>, StoreError> {
        let placing = layouts::devices_for(&parts.data_servers.ids(), parts.striping);
        let devices = layouts::record_devices(&parts.volume, &placing).await?;
        let known = background::known_clients(&parts.volume)?;
        let records = known.iter().map(|(id, owner)| (owner.clone(), *id)).collect();
        let core = Core::new(parts.identity, parts.limits, parts.lease_s);
        let grace = Grace::start(core.clock.now(), u64::from(parts.grace_s) * 1000, known);
        let (major, minor) = parts.volume.identity().fsid;
        let mds = Arc::new_cyclic(|me| Mds {
            me: me.clone(),
            core,
            state: Mutex::new(State::new(parts.instance)),
            grace: Mutex::new(grace),
            offloads: Mutex::new(Offloads::new(parts.instance)),
            copy_steps: Semaphore::new(copying::STEPS_AT_ONCE),
            fsid: Fsid { major, minor },
            volume: parts.volume,
            volume_number: parts.volume_number,
            devices: RwLock::new(devices),
            placing,
            data_servers: parts.data_servers,
            striping: parts.striping,
            threshold: threshold::Threshold::new(&parts.small_files),
            small_files: parts.small_files,
            threads: parts.threads,
            moves: small_files::Moves::default(),
            creation: parts.creation,
            placement_lsn: creation::PlacementLsn::default(),
            pool: pool::Pool::default(),
            turn: AtomicU64::new(0),
            export: parts.export,
            names: Names::new(parts.naming, Arc::new(SystemHost)),
            address: parts.address,
            files: Files::default(),
            fence: Notify::new(),
            client_records: Mutex::new(records),
            forgotten: AtomicU64::new(0),
            abandoned: Mutex::default(),
            reap: Notify::new(),
            reserve: disk_reserve::DiskReserve::default(),
            device_reports: device_reports::DeviceReports::default(),
        });
        background::take_up_truncations(&mds)?;
        pool::take_up_reserved(&mds)?;
        Ok(mds)
    }

    /// Work that goes on beside requests: lease expiry, end of grace, overdue recalls, intents.
    /// Runs for ever.
    pub async fn run_background(self: Arc<Self>) {
        background::run(self).await;
    }

    /// The volume.
    pub fn volume(&self) -> &Volume {
        &self.volume
    }

    /// The data servers.
    pub fn data_servers(&self) -> &Arc<DataServers> {
        &self.data_servers
    }

    /// Opens, locks and layouts. Held for one call into them, never across an await.
    pub(in crate::mds) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("state lock")
    }

    pub(in crate::mds) fn grace(&self) -> MutexGuard<'_, Grace> {
        self.grace.lock().expect("grace lock")
    }

    pub(in crate::mds) fn offloads(&self) -> MutexGuard<'_, Offloads> {
        self.offloads.lock().expect("offloads lock")
    }

    pub(in crate::mds) fn root(&self) -> Handle {
        Handle { volume: self.volume_number, ino: InodeNo::ROOT }
    }

    pub(in crate::mds) fn handle(&self, ino: InodeNo) -> Handle {
        Handle { volume: self.volume_number, ino }
    }

    pub(in crate::mds) fn wall(&self) -> Timestamp {
        let (seconds, nanos) = self.core.clock.wall();
        Timestamp { seconds, nanos }
    }

    /// Refuses what must wait for the end of grace (RFC 8881 §8.4.2).
    pub(in crate::mds) fn refuse_in_grace(&self) -> Result<(), Failure> {
        if self.grace().is_on() { Err(NfsStat::GRACE.into()) } else { Ok(()) }
    }

    /// The inode of the current filehandle.
    pub(in crate::mds) fn current_inode(&self, c: &mut Compound<Mds>) -> Result<Inode, Failure> {
        let handle = c.handle()?;
        c.see(self.volume.inode(handle.ino))
    }

    /// The inode of the current filehandle, which must be a regular file.
    pub(in crate::mds) fn current_file(&self, c: &mut Compound<Mds>) -> Result<Inode, Failure> {
        let inode = self.current_inode(c)?;
        match inode.kind {
            Kind::File => Ok(inode),
            Kind::Directory => Err(NfsStat::ISDIR.into()),
            Kind::Symlink => Err(NfsStat::SYMLINK.into()),
            _ => Err(NfsStat::WRONG_TYPE.into()),
        }
    }
}

impl Compound<Mds> {
    /// Takes a value from the store: the reply will wait until what it was derived from is
    /// durable.
    pub(in crate::mds) fn see<T>(
        &mut self,
        seen: Seen<Result<T, StoreError>>,
    ) -> Result<T, Failure> {
        self.depend(seen.lsn.0);
        seen.value.map_err(|e| {
            if matches!(e, StoreError::Corrupt(_) | StoreError::Poisoned(_) | StoreError::Io(_)) {
                tracing::error!(error = %e, "volume");
            }
            translate::status(&e).into()
        })
    }
}

/// A failed exchange with a data server, as a failure of the operation.
pub(in crate::mds) fn data_server_failure(e: DataServerError) -> Failure {
    translate::data_server_status(&e).into()
}

/// Version of the client records in the volume.
pub(in crate::mds) const CLIENT_RECORD_VERSION: u8 = 1;

impl Role for Mds {
    type Handle = Handle;
    type View = export::View;
    const SERVER: op_table::Server = op_table::Server::Mds;

    fn core(&self) -> &Core {
        &self.core
    }

    fn view(&self, conn: &Conn) -> export::View {
        self.export.view(conn.peer)
    }

    async fn caller(&self, caller: Caller) -> Caller {
        self.with_groups(caller).await
    }

    async fn execute<'a>(&'a self, c: &'a mut Compound<Self>, args: OpArgs) -> OpResult {
        ops::execute(self, c, args).await
    }

    async fn durable<'a>(&'a self, c: &'a Compound<Self>) -> Result<(), NfsStat> {
        self.volume.durable(Lsn(c.depends_on)).await.map_err(|e| translate::status(&e))
    }

    async fn client_confirmed(&self, client: &ConfirmedClient) {
        tracing::info!(clientid = client.clientid.0, owner = ?client.owner.ownerid, "client");
    }

    async fn clients_gone(&self, clients: Vec<ClientId>) {
        for client in clients {
            self.drop_client_state(client);
        }
    }

    fn client_has_state(&self, client: ClientId) -> bool {
        self.state().client_has_state(client) || self.offloads().client_has(client)
    }

    /// RFC 8881 §18.51: from here on the client's record on disk is of this incarnation, so that
    /// it may reclaim after the next restart.
    async fn reclaim_complete<'a>(
        &'a self,
        c: &'a mut Compound<Self>,
        client: ClientId,
    ) -> Result<(), Failure> {
        let owner = {
            let sessions = self.core.sessions();
            let known = sessions.client(client).ok_or(NfsStat::DEADSESSION)?;
            known.owner().ownerid.0.clone()
        };
        let mut record = BytesMut::with_capacity(1 + owner.len());
        record.put_u8(CLIENT_RECORD_VERSION);
        record.put_slice(&owner);
        c.see(self.volume.client_put(client.0, &record))?;
        let older = self
            .client_records
            .lock()
            .expect("client records lock")
            .insert(owner.clone(), client.0);
        if let Some(id) = older.filter(|id| *id != client.0) {
            c.see(self.volume.client_remove(id))?;
        }
        self.still_known(client)?;
        self.grace().client_done(&owner);
        Ok(())
    }
}

impl Mds {
    /// Asked after a client's record was written. One that was dropped before may have been so
    /// before its record was there, and nobody else takes that away; one that is dropped later
    /// takes it along.
    ///
    /// # Errors
    /// DEADSESSION, and its record is gone.
    pub(in crate::mds) fn still_known(&self, client: ClientId) -> Result<(), Failure> {
        if self.core.sessions().client(client).is_some() {
            return Ok(());
        }
        self.forget_client_record(client);
        Err(NfsStat::DEADSESSION.into())
    }

    pub(in crate::mds) fn forget_client_record(&self, client: ClientId) {
        self.client_records.lock().expect("client records lock").retain(|_, id| *id != client.0);
        self.remove_client_record(client.0);
    }
}

/// Logs a refusal and makes it the operation's failure.
pub(in crate::mds) fn refused(r: Refusal) -> Failure {
    crate::compound::refused(r)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A client that is dropped while its record is being written leaves none: the next start
    /// would wait for it a whole grace.
    #[tokio::test]
    async fn the_record_of_a_vanished_client_goes() {
        let mds = crate::mds::testing::lone_mds().await;
        let owner = Bytes::from_static(b"gone");
        mds.volume.client_put(7, b"record").value.unwrap();
        mds.client_records.lock().unwrap().insert(owner.clone(), 7);
        assert_eq!(mds.still_known(ClientId(7)).unwrap_err().status, NfsStat::DEADSESSION);
        assert_eq!(mds.volume.clients().value, Ok(Vec::new()));
        assert!(!mds.client_records.lock().unwrap().contains_key(&owner));
    }
}
