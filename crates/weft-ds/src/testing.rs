//! A data server on loopback for tests: started, killed, started again on the same data and port.

use std::{
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use tempfile::TempDir;
use tokio::{
    net::{TcpListener, UnixListener},
    task::JoinHandle,
};
use weft_server::{
    core::Core,
    identity::{ClusterSecrets, HandleKey, ServerRole, ServerUuid, identity},
    rpc::{Connections, Program, Server, ServerLimits, Workers},
};
use weft_state::{ConnId, SessionLimits};
use weft_store::{
    objects::{BindRequest, CachePolicy, ObjectStore, ObjectStoreOptions, Restoration},
    types::{DataServerId, Run},
};

use crate::control::Service;
use crate::local::{serve_locally, socket_name};
use crate::server::DataServer;

/// Connections opened by all tests of the process together, with room to spare.
const CONNS_MAX: u64 = 10_000;

/// The secret of the cluster of all tests.
pub fn secret() -> ClusterSecrets {
    ClusterSecrets::from_text("a secret for tests, not for clusters").unwrap()
}

/// Polls until `done`; fails after ten seconds.
pub async fn until(what: &str, mut done: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(10);
    while !done().await {
        assert!(Instant::now() < deadline, "no {what}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// A data server in this process, on a directory of its own.
pub struct TestDs {
    /// Its number.
    pub id: u32,
    /// Where it serves.
    pub addr: SocketAddr,
    dir: TempDir,
    local: TempDir,
    workers: Workers,
    cache: CachePolicy,
    running: Option<Running>,
}

struct Running {
    ds: Arc<DataServer>,
    service: Arc<Service>,
    connections: Connections,
    accept: JoinHandle<()>,
    local: JoinHandle<()>,
}

/// Longer than any test.
const IDLE: Duration = Duration::from_secs(600);

impl TestDs {
    /// One with an empty directory.
    pub async fn start(id: u32) -> TestDs {
        TestDs::start_in(id, tempfile::tempdir().unwrap(), CachePolicy::Keep).await
    }

    /// One with this directory, that keeps in the page cache what it is told to.
    pub async fn start_in(id: u32, dir: TempDir, cache: CachePolicy) -> TestDs {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut ds = TestDs {
            id,
            addr: listener.local_addr().unwrap(),
            dir,
            local: tempfile::tempdir().unwrap(),
            workers: Workers::start("test-ds", 1).unwrap(),
            cache,
            running: None,
        };
        ds.serve(listener);
        ds
    }

    fn serve(&mut self, listener: TcpListener) {
        let secret = secret();
        let options = ObjectStoreOptions { cache: self.cache, ..Default::default() };
        let store = ObjectStore::open(self.dir.path(), &options).unwrap();
        let uuid = ServerUuid(store.identity());
        let identity = identity(ServerRole::Ds, uuid);
        let owner = identity.server_owner.major_id.0.to_vec();
        let core = Core::new(identity, SessionLimits::default(), 60);
        let connections = core.connections.clone();
        let id = DataServerId(self.id);
        let ds = DataServer::new(core, id, Arc::new(store), &secret).unwrap();
        let service = Service::new(ds.clone(), &secret).unwrap();
        let programs = vec![ds.nfs(), service.clone() as Arc<dyn Program>];
        let limits = ServerLimits { idle: IDLE, ..ServerLimits::default() };
        let server = Server::new(programs, connections.clone(), limits);
        let listener = listener.into_std().unwrap();
        let workers = self.workers.clone();
        let accept = self.workers.pick(0).spawn(async move {
            server.accept(TcpListener::from_std(listener).unwrap(), workers).await;
        });
        let socket = self.local.path().join(socket_name(&owner).unwrap());
        let _stale = std::fs::remove_file(&socket);
        let runtime = self.workers.pick(0);
        let local = {
            let _on = runtime.enter();
            let listener = UnixListener::bind(socket).unwrap();
            runtime.spawn(serve_locally(ds.clone(), listener, owner))
        };
        self.running = Some(Running { ds, service, connections, accept, local });
    }

    fn running(&self) -> &Running {
        self.running.as_ref().expect("the data server runs")
    }

    /// The data server itself.
    pub fn ds(&self) -> &Arc<DataServer> {
        &self.running().ds
    }

    /// Its objects.
    pub fn store(&self) -> &ObjectStore {
        self.ds().store()
    }

    /// Where it has its socket for clients of this host.
    pub fn local_sockets(&self) -> &std::path::Path {
        self.local.path()
    }

    /// Makes it serve a volume of this number, as one that a metadata server was bound with.
    pub fn serve_volume(&self, number: u32) {
        let uuid = [u8::try_from(number).unwrap(); 16];
        self.store().adopt(uuid).unwrap();
        let run = Run { number: 1, id: uuid };
        let request = BindRequest {
            number,
            uuid,
            run,
            common: None,
            lsn: 1,
            restored: Restoration::default(),
        };
        self.store().bind(&request, false).unwrap().unwrap();
    }

    /// What its handles are sealed with.
    pub fn handle_key(&self) -> HandleKey {
        secret().handle_keys().of(self.id, self.store().identity())
    }

    /// Gives it an empty directory in place of its own; returns that one.
    pub fn swap_dir(&mut self, dir: TempDir) -> TempDir {
        assert!(self.running.is_none(), "it is using its directory");
        std::mem::replace(&mut self.dir, dir)
    }

    /// Whether any object's file was ever made.
    pub fn dir_has_objects(&self) -> bool {
        fn files(dir: &std::path::Path) -> usize {
            let entries = std::fs::read_dir(dir).unwrap().map(|e| e.unwrap().path());
            entries.map(|p| if p.is_dir() { files(&p) } else { 1 }).sum()
        }
        let objects = self.dir.path().join("objects");
        objects.exists() && files(&objects) > 0
    }

    /// Its side of the control program.
    pub fn service(&self) -> &Arc<Service> {
        &self.running().service
    }

    /// Ends it: nothing is answered any more, and its directory is free.
    pub async fn kill(&mut self) {
        let Running { ds, service, connections, accept, local } = self.running.take().unwrap();
        accept.abort();
        local.abort();
        let _aborted = (accept.await, local.await);
        for conn in (0..CONNS_MAX).filter_map(|id| connections.find(ConnId(id))) {
            conn.close();
        }
        let store = Arc::downgrade(ds.store());
        drop((ds, service));
        until("end of the data server", async || store.strong_count() == 0).await;
    }

    /// Has the next start take the machine for one that was booted meanwhile, as after a power cut.
    pub fn boot_anew(&self) {
        std::fs::remove_file(self.dir.path().join("verifier")).unwrap();
    }

    /// Starts it again on its data and port.
    pub async fn start_again(&mut self) {
        assert!(self.running.is_none(), "it runs already");
        self.serve(TcpListener::bind(self.addr).await.unwrap());
    }
}
