//! One data server as the metadata server knows it.

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use tokio::sync::OnceCell;
use weft_client::{
    core::Role,
    rpc::Credential,
    session::{Session, SessionOptions},
};
use weft_control::{ControlMessages, codec::*};
use weft_server::identity::{ControlKey, ServerUuid, hex};
use weft_store::types::DataServerId;
use weft_xdr::{Decode, Encode};

use super::{
    addresses::AnnouncedAddress, error::DataServerError, registry::DataServerRegistry,
    spec::DataServerSpec,
};
use crate::{control_link::ControlLink, control_link::Expected};

/// How long a READ, WRITE or COMMIT on a data server is tried over lost connections. Its client
/// waits meanwhile, and will ask again.
const PATIENCE: Duration = Duration::from_secs(5);

/// A data server: its control connection, and its NFS session for the indirect path.
#[derive(Debug)]
pub(super) struct Server {
    pub(super) id: DataServerId,
    control: SocketAddr,
    addresses: Vec<AnnouncedAddress>,
    owner_id: Bytes,
    link: ControlLink,
    messages: ControlMessages,
    session: OnceCell<Session>,
    /// The last write verifier it told.
    verifier: Mutex<Option<[u8; 8]>>,
}

impl Server {
    pub(super) fn start(
        spec: DataServerSpec,
        us: ServerUuid,
        key: &ControlKey,
        registry: Arc<DataServerRegistry>,
    ) -> Arc<Self> {
        let DataServerSpec { id, control, mut addresses } = spec;
        if addresses.is_empty() {
            addresses.push(control.into());
        }
        let key = key.clone();
        let expected = Expected { id, addr: control, caller: us, key, admission: registry };
        Arc::new(Server {
            id,
            control,
            addresses,
            owner_id: Bytes::from(format!("weft-mds-{}", hex(&us.0))),
            link: ControlLink::start(expected),
            messages: ControlMessages::default(),
            session: OnceCell::new(),
            verifier: Mutex::default(),
        })
    }

    pub(super) fn addresses(&self) -> &[AnnouncedAddress] {
        &self.addresses
    }

    /// Where it serves NFS, for people to read.
    pub(super) fn control(&self) -> SocketAddr {
        self.control
    }

    /// Whether it is connected at the moment.
    pub(super) fn is_up(&self) -> bool {
        self.link.is_up()
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
        answer.map_err(|e| DataServerError::of_control(self.id, &e))
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
                return Err(DataServerError::of_status(self.id, bad));
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
    pub(super) async fn session(&self) -> Result<&Session, DataServerError> {
        self.ready().await?;
        let open = || {
            let credential = Credential::sys("weft-mds", 0, 0, &[]);
            let mut options = SessionOptions::new(Role::Ds, self.owner_id.clone(), credential);
            options.patience = PATIENCE;
            options.slots = SESSION_SLOTS;
            Session::open(self.control, options)
        };
        let session = self.session.get_or_try_init(open).await;
        session.map_err(|e| DataServerError::of_client(self.id, &e))
    }

    /// The last verifier known; asked for if none is.
    pub(super) async fn verifier(&self) -> Result<[u8; 8], DataServerError> {
        if let Some(known) = *self.last_verifier() {
            return Ok(known);
        }
        let told: StatOk = self.ask(Procedure::STAT, &Objects(Vec::new())).await?;
        self.told_verifier(told.verifier);
        Ok(told.verifier)
    }

    /// Remembers a verifier from a reply.
    pub(super) fn told_verifier(&self, verifier: [u8; 8]) {
        *self.last_verifier() = Some(verifier);
    }

    fn last_verifier(&self) -> MutexGuard<'_, Option<[u8; 8]>> {
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
