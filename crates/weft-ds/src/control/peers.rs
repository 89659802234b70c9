//! Who speaks to a data server's control program, and what each may do.

use std::{
    collections::BTreeMap,
    sync::{Arc, Weak},
};

use bytes::Bytes;
use tokio::sync::RwLock;
use weft_control::channel::Caller;
use weft_server::{identity::ControlKey, rpc::Conn};
use weft_state::Millis;
use weft_store::types::Run;

/// A metadata server calls every two seconds. One that was silent for so long may be taken over
/// from by a later run of its volume.
const SILENCE_MS_MAX: u64 = 10_000;

/// The keys that callers may have.
#[derive(Debug, Clone)]
pub(super) struct AcceptedKeys {
    pub(super) keys: Vec<ControlKey>,
    /// How often one was taken out: who greeted us before that has to begin again.
    pub(super) generation: u64,
}

/// What a connection remembers of its greeting.
pub(super) struct PeerName {
    /// [`AcceptedKeys::generation`] at that time.
    pub(super) generation: u64,
    /// What [`channel::greeted`](weft_control::channel::greeted) said.
    pub(super) caller: Bytes,
}

impl PeerName {
    pub(super) fn to_bytes(&self) -> Bytes {
        [&self.generation.to_be_bytes()[..], &self.caller].concat().into()
    }

    /// The generation and who called.
    pub(super) fn read(name: &[u8]) -> Option<(u64, Caller)> {
        let (generation, caller) = name.split_first_chunk()?;
        Some((u64::from_be_bytes(*generation), Caller::from_bytes(caller)?))
    }
}

/// Connections whose peers have proven that they know a secret of the cluster, by number.
pub(super) type Peers = BTreeMap<u64, Peer>;

/// Such a peer.
#[derive(Debug)]
pub(super) struct Peer {
    pub(super) connection: Weak<Conn>,
    pub(super) standing: Standing,
}

impl Peer {
    /// Ends the connection; what is being carried out for it goes on.
    pub(super) fn end(&self) {
        if let Some(connection) = self.connection.upgrade() {
            connection.close();
        }
    }
}

/// What a peer may do.
#[derive(Debug, Clone)]
pub(super) struct Standing {
    /// Who it is.
    pub(super) caller: Caller,
    /// What it serves here; none before BIND.
    pub(super) bound: Option<Bound>,
}

/// A connection that is bound to a run of a volume.
#[derive(Debug, Clone)]
pub(super) struct Bound {
    pub(super) volume: u32,
    pub(super) run: Run,
    /// When it last called.
    pub(super) heard: Millis,
    /// Whether it is still there.
    pub(super) open: bool,
    /// Whether its changes are still accepted; held shared while one is carried out.
    pub(super) accepts: Arc<RwLock<bool>>,
}

impl Bound {
    /// Whether whoever bound it is there as far as one can tell. A machine that lost its power
    /// leaves a connection that looks open.
    pub(super) fn is_live(&self, now: Millis) -> bool {
        self.open && now.0.saturating_sub(self.heard.0) <= SILENCE_MS_MAX
    }
}
