//! A client whose every request is in the test's hands.

use std::net::SocketAddr;

use bytes::Bytes;
use weft_nfs::{
    ClientId, FileHandle, NfsStat, OpArgs, OpOk, Opaque, SequenceId, SessionId, Stateid, Verifier,
    create_session_flags, ops::*,
};
use weft_xdr::rpc::OpaqueAuth;

use super::{Cluster, Compound, Reply, Wire, open_create, reclaim_complete, sequence, wire};

/// What a client asks for when it comes.
#[derive(Clone)]
pub struct ClientOptions {
    /// Its owner.
    pub owner: String,
    /// Its incarnation.
    pub verifier: u64,
    /// The user it runs as.
    pub uid: u32,
    /// The address it comes from.
    pub from: [u8; 4],
    /// Minor version.
    pub minor: u32,
    /// Slots, and bytes of requests, replies and kept replies.
    pub fore: ChannelAttrs,
    /// Whether it takes callbacks.
    pub back_channel: bool,
    /// Whether it says RECLAIM_COMPLETE.
    pub reclaim_complete: bool,
    /// Flags of its EXCHANGE_ID.
    pub flags: u32,
}

impl ClientOptions {
    pub fn new(owner: &str) -> Self {
        ClientOptions {
            owner: owner.into(),
            verifier: 1,
            uid: 0,
            from: [127, 0, 0, 1],
            minor: 2,
            fore: channel(64, 1 << 20),
            back_channel: true,
            reclaim_complete: true,
            flags: 0,
        }
    }
}

/// A channel of so many slots and bytes.
pub fn channel(slots: u32, bytes: u32) -> ChannelAttrs {
    ChannelAttrs {
        headerpadsize: 0,
        maxrequestsize: bytes,
        maxresponsesize: bytes,
        maxresponsesize_cached: 4096,
        maxoperations: 32,
        maxrequests: slots,
        rdma_ird: RdmaIrd(None),
    }
}

/// A client with a session.
pub struct Client {
    pub wire: Wire,
    pub options: ClientOptions,
    pub credential: OpaqueAuth,
    pub clientid: ClientId,
    pub sessionid: SessionId,
    /// What CREATE_SESSION granted.
    pub granted: ChannelAttrs,
    /// Last sequence id used, by slot.
    pub sequence: Vec<u32>,
}

impl Client {
    /// A client that is ready for work.
    pub async fn mount(cluster: &Cluster, owner: &str) -> Client {
        Self::with(cluster.address(), ClientOptions::new(owner)).await
    }

    /// The same as another user than 0.
    pub async fn mount_as(cluster: &Cluster, owner: &str, uid: u32) -> Client {
        Self::with(cluster.address(), ClientOptions { uid, ..ClientOptions::new(owner) }).await
    }

    pub async fn with(address: SocketAddr, options: ClientOptions) -> Client {
        let wire = Wire::connect_from(options.from, address).await;
        Self::over(wire, options).await
    }

    /// A client on a connection of its own choice.
    pub async fn over(mut wire: Wire, options: ClientOptions) -> Client {
        let credential = wire::user(options.uid, options.uid);
        let known = exchange(&mut wire, &credential, &options).await;
        let create = create_session(known.clientid, known.sequenceid, &options);
        let ops = [OpArgs::CreateSession(create)];
        let reply = wire.compound(&credential, options.minor, &ops).await.ok();
        let Ok(OpOk::CreateSession(made)) = &reply.last().result else { panic!("{reply:?}") };
        let mut client = Self::of(wire, options, credential, known.clientid, made);
        if client.options.reclaim_complete {
            client.compound().op(reclaim_complete()).send().await.ok();
        }
        client
    }

    /// A client that was just given this session.
    pub fn of(
        wire: Wire,
        options: ClientOptions,
        credential: OpaqueAuth,
        clientid: ClientId,
        made: &CreateSessionOk,
    ) -> Client {
        Client {
            clientid,
            sessionid: made.sessionid,
            granted: made.fore_chan_attrs,
            sequence: vec![0; made.fore_chan_attrs.maxrequests as usize],
            wire,
            credential,
            options,
        }
    }

    /// A COMPOUND on slot 0, its SEQUENCE first.
    pub fn compound(&mut self) -> Compound<'_> {
        Compound::new(self)
    }

    /// The next COMPOUND under another user.
    pub fn by_user(&mut self, uid: u32) -> Compound<'_> {
        Compound::new(self).by_user(uid, uid)
    }

    /// Takes the next sequence id of a slot.
    pub fn next_sequence(&mut self, slot: u32, cachethis: bool) -> OpArgs {
        let last = &mut self.sequence[slot as usize];
        *last = last.wrapping_add(1);
        sequence(self.sessionid, slot, *last, cachethis)
    }

    /// Sends these operations as they are.
    pub async fn bare(&mut self, ops: &[OpArgs]) -> Reply {
        let credential = self.credential.clone();
        self.wire.compound(&credential, self.options.minor, ops).await
    }

    /// Makes and opens a file in the root: its handle and the open.
    pub async fn file(&mut self, name: &str) -> (FileHandle, Stateid) {
        let open = OpArgs::Open(open_create("opener", name));
        let reply = self.compound().putrootfh().op(open).getfh().send().await.ok();
        (reply.fh(), reply.stateid())
    }

    /// A directory in the root that everybody may write to.
    pub async fn public_dir(&mut self, name: &str) -> FileHandle {
        let attrs = super::mode(0o777);
        let make = super::create(CreateType::Directory, name, attrs);
        self.compound().putrootfh().op(make).getfh().send().await.ok().fh()
    }

    /// Sends a SEQUENCE alone: renews the lease.
    pub async fn renew(&mut self) -> Reply {
        self.compound().send().await.ok()
    }
}

/// Two clients on one file, each with an open for reading and writing.
pub async fn two(cluster: &Cluster) -> (Client, Client, FileHandle, Stateid, Stateid) {
    let mut a = Client::mount(cluster, "a").await;
    let mut b = Client::mount(cluster, "b").await;
    let (fh, of_a) = a.file("f").await;
    let (_, of_b) = b.file("f").await;
    (a, b, fh, of_a, of_b)
}

/// EXCHANGE_ID.
pub async fn exchange(
    wire: &mut Wire,
    credential: &OpaqueAuth,
    options: &ClientOptions,
) -> ExchangeIdOk {
    let args = OpArgs::ExchangeId(exchange_id(options));
    let reply = wire.compound(credential, options.minor, &[args]).await;
    assert_eq!(reply.status(), NfsStat::OK);
    match &reply.last().result {
        Ok(OpOk::ExchangeId(ok)) => ok.clone(),
        other => panic!("{other:?}"),
    }
}

pub fn exchange_id(options: &ClientOptions) -> ExchangeIdArgs {
    ExchangeIdArgs {
        clientowner: ClientOwner {
            verifier: Verifier(options.verifier.to_be_bytes()),
            ownerid: Opaque(Bytes::from(options.owner.clone())),
        },
        flags: options.flags,
        state_protect: StateProtectArgs::None,
        client_impl_id: ImplIds(None),
    }
}

pub fn create_session(
    clientid: ClientId,
    sequence: SequenceId,
    options: &ClientOptions,
) -> CreateSessionArgs {
    CreateSessionArgs {
        clientid,
        sequence,
        flags: if options.back_channel { create_session_flags::CONN_BACK_CHAN } else { 0 },
        fore_chan_attrs: options.fore,
        back_chan_attrs: channel(4, 4096),
        cb_program: 0x4000_0001,
        sec_parms: CallbackSecs(vec![CallbackSec::None]),
    }
}
