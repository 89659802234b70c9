//! COMPOUNDs written as chains.

use weft_nfs::{AttrNo, FileHandle, NfsStat, OpArgs, ops::OpenArgs};

use super::{Client, Reply, args, wire};

/// A COMPOUND of a client, in its session.
pub struct Compound<'c> {
    client: &'c mut Client,
    ops: Vec<OpArgs>,
    slot: u32,
    cachethis: bool,
    user: Option<(u32, u32)>,
}

impl<'c> Compound<'c> {
    pub(super) fn new(client: &'c mut Client) -> Self {
        Compound { client, ops: Vec::new(), slot: 0, cachethis: false, user: None }
    }

    pub fn slot(mut self, slot: u32) -> Self {
        self.slot = slot;
        self
    }

    /// Asks that the reply be kept.
    pub fn cachethis(mut self) -> Self {
        self.cachethis = true;
        self
    }

    /// Under another user.
    pub fn by_user(mut self, uid: u32, gid: u32) -> Self {
        self.user = Some((uid, gid));
        self
    }

    pub fn op(mut self, op: OpArgs) -> Self {
        self.ops.push(op);
        self
    }

    pub fn putrootfh(self) -> Self {
        self.op(OpArgs::Putrootfh)
    }

    pub fn putfh(self, fh: &FileHandle) -> Self {
        self.op(args::putfh(fh))
    }

    pub fn getfh(self) -> Self {
        self.op(OpArgs::Getfh)
    }

    pub fn savefh(self) -> Self {
        self.op(OpArgs::Savefh)
    }

    pub fn restorefh(self) -> Self {
        self.op(OpArgs::Restorefh)
    }

    pub fn lookup(self, name: &str) -> Self {
        self.op(args::lookup(name))
    }

    pub fn open(self, open: OpenArgs) -> Self {
        self.op(OpArgs::Open(open))
    }

    pub fn open_create(self, name: &str) -> Self {
        self.open(args::open_create("opener", name))
    }

    pub fn getattr(self, attrs: &[AttrNo]) -> Self {
        self.op(args::getattr(attrs))
    }

    /// The operations with the SEQUENCE that goes before them.
    pub fn into_ops(self) -> Vec<OpArgs> {
        let mut all = vec![self.client.next_sequence(self.slot, self.cachethis)];
        all.extend(self.ops);
        all
    }

    /// Sends it without waiting for the reply: its transaction id.
    pub async fn begin(self) -> u32 {
        let minor = self.client.options.minor;
        let sequence = self.client.next_sequence(self.slot, self.cachethis);
        let credential = match self.user {
            Some((uid, gid)) => wire::user(uid, gid),
            None => self.client.credential.clone(),
        };
        let mut all = vec![sequence];
        all.extend(self.ops);
        let args = wire::compound_args("", minor, &all);
        self.client.wire.send_compound(&credential, &args).await
    }

    /// Sends it and waits for the reply; its SEQUENCE must succeed.
    pub async fn send(mut self) -> Reply {
        let ops = std::mem::take(&mut self.ops);
        let whole = Compound { ops, client: &mut *self.client, ..self };
        let xid = whole.begin().await;
        let reply = self.client.wire.nfs_reply(xid).await;
        let first = reply.compound.results.first().expect("a result of SEQUENCE");
        assert_eq!(first.status(), NfsStat::OK, "SEQUENCE");
        reply
    }

    /// Sends it and expects a status.
    #[track_caller]
    pub fn expect(self, status: NfsStat) -> impl Future<Output = Reply> + use<'c> {
        let caller = std::panic::Location::caller();
        async move {
            let reply = self.send().await;
            let last = reply.compound.results.last();
            assert_eq!(reply.status(), status, "at {caller}: {last:?}");
            reply
        }
    }
}
