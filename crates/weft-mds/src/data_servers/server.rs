//! One data server as the metadata server knows it.

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use bytes::Bytes;
use tokio::sync::Notify;
use weft_client::{
    core::Role,
    rpc::Credential,
    session::{Session, SessionOptions},
};
use weft_control::{ControlMessages, codec::*};
use weft_server::identity::{ServerUuid, hex};
use weft_store::types::DataServerId;
use weft_xdr::{Decode, Encode};

use super::{
    addresses::{AnnouncedAddress, LookedUp, Reached},
    error::DataServerError,
    registry::DataServerRegistry,
    room::{Candidate, Room, Standing},
    spec::DataServerSpec,
};
use crate::{
    control_address::ControlAddress,
    control_link::{ControlLink, Expected},
};

/// How long a READ, WRITE or COMMIT on a data server is tried over lost connections. Its client
/// waits meanwhile, and will ask again.
const PATIENCE: Duration = Duration::from_secs(5);

/// A data server: its control connection, and its NFS session for the indirect path.
#[derive(Debug)]
pub(super) struct Server {
    pub(super) id: DataServerId,
    control: ControlAddress,
    /// Empty: what `control` means.
    addresses: Vec<AnnouncedAddress>,
    looked_up: tokio::sync::Mutex<Option<LookedUp>>,
    owner_id: Bytes,
    link: ControlLink,
    messages: ControlMessages,
    /// With the address it goes to.
    session: tokio::sync::Mutex<Option<(SocketAddr, Session)>>,
    /// The last write verifier it told, and how many connections to it there had been.
    verifier: Mutex<Option<([u8; 8], u64)>>,
    room: Mutex<Room>,
    /// Whether its objects can share blocks, when it was last asked; `None` before it told.
    shares_blocks: Mutex<Option<bool>>,
    /// Told when it refuses for want of space.
    look: Arc<Notify>,
}

impl Server {
    pub(super) fn start(
        spec: DataServerSpec,
        us: ServerUuid,
        registry: Arc<DataServerRegistry>,
        look: Arc<Notify>,
    ) -> Arc<Self> {
        let DataServerSpec { id, control, addresses, uuid: _ } = spec;
        let addr = control.clone();
        let expected = Expected { id, addr, caller: us, admission: registry };
        Arc::new(Server {
            id,
            control,
            addresses,
            looked_up: tokio::sync::Mutex::default(),
            owner_id: Bytes::from(format!("weft-mds-{}", hex(&us.0))),
            link: ControlLink::start(expected),
            messages: ControlMessages::default(),
            session: tokio::sync::Mutex::default(),
            verifier: Mutex::default(),
            room: Mutex::default(),
            shares_blocks: Mutex::default(),
            look,
        })
    }

    /// Where clients reach it; none if no name was ever known.
    pub(super) async fn addresses(&self) -> Vec<Reached> {
        if self.addresses.is_empty() {
            return self.link.address().map(Reached::from).into_iter().collect();
        }
        let mut looked_up = self.looked_up.lock().await;
        let now = LookedUp::now(&self.addresses, self.connections(), looked_up.take()).await;
        looked_up.insert(now).known().to_vec()
    }

    /// Where it serves NFS, for people to read.
    pub(super) fn control(&self) -> &ControlAddress {
        &self.control
    }

    /// True if it is connected at the moment.
    pub(super) fn is_up(&self) -> bool {
        self.link.is_up()
    }

    /// True if it is connected and answers at the moment. New files and reads of copies avoid a
    /// data server that does not. Sizes wait for it: nobody else knows them.
    pub(super) fn answers(&self) -> bool {
        self.link.answers()
    }

    /// Returns when it is not connected, or does not answer.
    pub(super) async fn silent(&self) {
        self.link.silent().await;
    }

    /// Whether it is connected, and has been for a while.
    pub(super) fn is_steady(&self) -> bool {
        self.link.is_steady()
    }

    /// How many connections to it there were so far.
    pub(super) fn connections(&self) -> u64 {
        self.link.connections()
    }

    /// Requests to its control program so far.
    pub(super) fn messages(&self) -> &ControlMessages {
        &self.messages
    }

    /// Calls its control program.
    pub(super) async fn ask<T: Decode>(
        &self,
        procedure: Procedure,
        args: &impl Encode,
    ) -> Result<T, DataServerError> {
        self.messages.sent(procedure);
        let answer = self.link.call(procedure, args).await;
        answer.map_err(|e| self.noted(DataServerError::of_control(self.id, &e)))
    }

    /// A failure of its own. One that refuses for want of space is passed over by new files from
    /// now on.
    pub(super) fn noted(&self, error: DataServerError) -> DataServerError {
        if matches!(error, DataServerError::NoSpace { .. }) {
            self.room().refused(Instant::now());
            self.look.notify_one();
        }
        error
    }

    /// Asks how much room it has, beside all requests, and remembers that.
    pub(super) async fn look_at_room(&self) {
        match self.link.call::<SpaceOk>(Procedure::SPACE, &Nothing).await {
            Ok(space) => self.told_space(&space),
            Err(error) => tracing::debug!(id = self.id.0, %error, "its room is not known"),
        }
    }

    /// Answers, and waits for what it wants to know next.
    pub(super) async fn births(
        &self,
        answers: Vec<BirthAnswer>,
    ) -> Result<Births, DataServerError> {
        let asked = self.link.call(Procedure::BIRTHS, &BirthAnswers(answers)).await;
        asked.map_err(|e| DataServerError::of_control(self.id, &e))
    }

    fn told_space(&self, space: &SpaceOk) {
        self.room().told(space.total, space.available);
        *self.last_shares_blocks() = Some(space.shares_blocks);
    }

    /// Whether its objects can share blocks, as far as it ever told.
    pub(super) fn known_to_share(&self) -> Option<bool> {
        *self.last_shares_blocks()
    }

    /// The same; asked if it is not known, and it is there.
    pub(super) async fn shares_blocks(&self) -> Option<bool> {
        let known = self.known_to_share();
        if known.is_some() || !self.is_up() {
            return known;
        }
        let space: SpaceOk = self.ask(Procedure::SPACE, &Nothing).await.ok()?;
        self.told_space(&space);
        Some(space.shares_blocks)
    }

    fn last_shares_blocks(&self) -> MutexGuard<'_, Option<bool>> {
        self.shares_blocks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns when it is connected, or was not from the start on for as long as requests wait.
    pub(super) async fn begun(&self) {
        self.link.begun().await;
    }

    /// What new files may hope for from it.
    pub(super) fn candidate(&self) -> Candidate {
        let room = *self.room();
        let standing = match (self.answers(), room.is_full(Instant::now())) {
            (false, _) => Standing::Away,
            (true, true) => Standing::Full,
            (true, false) => Standing::Ready,
        };
        Candidate { id: self.id, standing, available: room.available() }
    }

    fn room(&self) -> MutexGuard<'_, Room> {
        self.room.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Attributes of objects, in order.
    pub(super) async fn stat(
        &self,
        objects: &[ObjectName],
    ) -> Result<Vec<ObjectAttrs>, DataServerError> {
        let mut all = Vec::with_capacity(objects.len());
        for batch in objects.chunks(BATCH_MAX) {
            let told: StatOk = self.ask(Procedure::STAT, &Objects(batch.to_vec())).await?;
            self.told_verifier(told.verifier);
            self.same_length(batch.len(), told.objects.0.len())?;
            all.extend(told.objects.0);
        }
        Ok(all)
    }

    /// The same, when clients have ended what they were writing with handles of these epochs, and
    /// write no more with them.
    pub(super) async fn seal(
        &self,
        items: &[FenceItem],
    ) -> Result<Vec<ObjectAttrs>, DataServerError> {
        let mut all = Vec::with_capacity(items.len());
        for batch in items.chunks(BATCH_MAX) {
            let told: StatOk = self.ask(Procedure::SEAL, &FenceArgs(batch.to_vec())).await?;
            self.told_verifier(told.verifier);
            self.same_length(batch.len(), told.objects.0.len())?;
            all.extend(told.objects.0);
        }
        Ok(all)
    }

    /// Makes changes, in batches; `args` wraps the items of one.
    pub(super) async fn change<I: Clone, A: Encode>(
        &self,
        procedure: Procedure,
        items: &[I],
        args: impl Fn(Vec<I>) -> A,
    ) -> Result<(), DataServerError> {
        for batch in items.chunks(BATCH_MAX) {
            let done: Statuses = self.ask(procedure, &args(batch.to_vec())).await?;
            self.same_length(batch.len(), done.0.len())?;
            if let Some(bad) = done.0.into_iter().find(|s| *s != ControlStatus::OK) {
                return Err(self.noted(DataServerError::of_status(self.id, bad)));
            }
        }
        Ok(())
    }

    /// Waits a moment for its control connection if there is none.
    pub(super) async fn ready(&self) -> Result<(), DataServerError> {
        let ready = self.link.ready().await;
        ready.map_err(|e| DataServerError::of_control(self.id, &e))
    }

    /// The NFS session. A server whose control connection is down is not even tried.
    pub(super) async fn session(&self) -> Result<Session, DataServerError> {
        self.ready().await?;
        let (id, why) = (self.id, "its address is not known");
        let unknown = || DataServerError::Unreachable { id, why: why.into() };
        let address = self.link.address().ok_or_else(unknown)?;
        let mut session = self.session.lock().await;
        if let Some((at, open)) = &*session
            && *at == address
        {
            return Ok(open.clone());
        }
        let credential = Credential::sys("weft-mds", 0, 0, &[]);
        let mut options = SessionOptions::new(Role::Ds, self.owner_id.clone(), credential);
        options.patience = PATIENCE;
        options.slots = SESSION_SLOTS;
        let opened = Session::open(address, options).await;
        let opened = opened.map_err(|e| DataServerError::of_client(self.id, &e))?;
        *session = Some((address, opened.clone()));
        Ok(opened)
    }

    /// Its verifier: the last one known if it was told by this connection, else it is asked.
    pub(super) async fn verifier(&self) -> Result<[u8; 8], DataServerError> {
        let known = *self.last_verifier();
        if let Some((known, when)) = known
            && when == self.connections()
        {
            return Ok(known);
        }
        let told: StatOk = self.ask(Procedure::STAT, &Objects(Vec::new())).await?;
        self.told_verifier(told.verifier);
        Ok(told.verifier)
    }

    /// The last verifier known, if there is one.
    pub(super) fn known_verifier(&self) -> Option<[u8; 8]> {
        self.last_verifier().map(|(verifier, _)| verifier)
    }

    /// Remembers a verifier from a reply.
    pub(super) fn told_verifier(&self, verifier: [u8; 8]) {
        *self.last_verifier() = Some((verifier, self.connections()));
    }

    fn last_verifier(&self) -> MutexGuard<'_, Option<([u8; 8], u64)>> {
        self.verifier.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn same_length(&self, asked: usize, told: usize) -> Result<(), DataServerError> {
        let why = "an answer of another length than the question";
        if asked == told {
            Ok(())
        } else {
            Err(DataServerError::Refused { id: self.id, why: why.into() })
        }
    }
}

/// Requests under way to one data server on behalf of clients without layouts.
const SESSION_SLOTS: u32 = 64;
