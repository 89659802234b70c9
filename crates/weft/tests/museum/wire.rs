//! A session of NFSv4.2 whose COMPOUNDs an exhibit writes itself.

use std::future::Future;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use tokio::runtime::Runtime;
use tokio::sync::Notify;
use weft_client::core::Role;
use weft_client::error::ClientError;
use weft_client::rpc::Credential;
use weft_client::session::{CallbackHandler, CompoundOutcome, Session, SessionOptions};
use weft_nfs::attr::Attrs;
use weft_nfs::callback::{
    CbGetattrArgs, CbLayoutrecallArgs, CbNotifyLockArgs, CbRecallAnyArgs, CbRecallArgs,
};
use weft_nfs::ops::{
    CloseArgs, CreateArgs, CreateHow, CreateType, DelegreturnArgs, FreeStateidArgs,
    GetDirDelegationArgs, GetDirDelegationOk, GetattrArgs, LockArgs, Locker, LookupArgs, OpenArgs,
    OpenClaim, OpenDelegation, PutfhArgs, ReaddirArgs, RenameArgs, SetattrArgs, TestStateidArgs,
    WriteArgs,
};
use weft_nfs::{
    AttrNo, Bitmap, ClientId, FileHandle, LockType, NfsStat, NfsTime, OpArgs, OpOk, Opaque, Seqid,
    StableHow, StateOwner, Stateid, Verifier, share,
};

use crate::support::cluster::Cluster;

/// Time the server gets to call back and to answer.
pub const SOON: Duration = Duration::from_secs(8);
/// Time a request is sent again while the server has no time for it.
const PATIENCE: Duration = Duration::from_secs(30);

/// Runs an exhibit of the wire to its end.
pub fn runs(exhibit: impl Future<Output = ()>) {
    runtime().block_on(exhibit);
}

/// A runtime on this thread: nothing of it runs but while it is waited for.
pub fn runtime() -> Runtime {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime")
}

/// Callbacks that came; each recall is answered with OK, and nothing is returned.
#[derive(Default)]
struct Heard {
    recalls: Mutex<Vec<Stateid>>,
    heard: Notify,
    revocations: AtomicUsize,
}

impl CallbackHandler for Heard {
    fn cb_layoutrecall(&self, _: &CbLayoutrecallArgs) -> NfsStat {
        NfsStat::NOMATCHING_LAYOUT
    }

    fn cb_recall(&self, args: &CbRecallArgs) -> NfsStat {
        self.recalls.lock().expect("no panic").push(args.stateid);
        self.heard.notify_one();
        NfsStat::OK
    }

    fn cb_recall_any(&self, _: &CbRecallAnyArgs) -> NfsStat {
        NfsStat::OK
    }

    fn cb_getattr(&self, _: &CbGetattrArgs) -> Result<Attrs, NfsStat> {
        Err(NfsStat::BADHANDLE)
    }

    fn cb_notify_lock(&self, _: &CbNotifyLockArgs) -> NfsStat {
        NfsStat::OK
    }

    fn state_revoked(&self) {
        self.revocations.fetch_add(1, Ordering::Relaxed);
    }
}

/// A client with one session and a back channel.
pub struct Wire {
    session: Session,
    heard: Arc<Heard>,
}

impl Wire {
    /// A client of this name, which nobody else has.
    pub async fn open(cluster: &Cluster, name: &str) -> Wire {
        let identity = Bytes::from(format!("museum {name} {}", std::process::id()));
        let heard = Arc::new(Heard::default());
        let callbacks: Arc<dyn CallbackHandler> = Arc::clone(&heard) as _;
        let options = SessionOptions {
            patience: PATIENCE,
            callbacks: Some(callbacks),
            ..SessionOptions::new(Role::Mds, identity, Credential::sys("museum", 0, 0, &[]))
        };
        let server = ([127, 0, 0, 1], cluster.port()).into();
        Wire { session: Session::open(server, options).await.expect("a session"), heard }
    }

    /// Outcome of the operations.
    pub async fn outcome(&self, ops: Vec<OpArgs>) -> Result<CompoundOutcome, ClientError> {
        self.session.compound_outcome(ops).await
    }

    /// The results, of which none is a failure.
    pub async fn done(&self, ops: Vec<OpArgs>) -> Vec<OpOk> {
        self.session.compound(ops).await.expect("all operations")
    }

    /// The status of the operation that failed.
    pub async fn refused(&self, ops: Vec<OpArgs>) -> NfsStat {
        let outcome = self.outcome(ops).await.expect("an answer");
        outcome.failed.unwrap_or_else(|| panic!("{:?}", outcome.done)).failure.status
    }

    /// Makes a directory in the root.
    pub async fn made_dir(&self, name: &str) -> FileHandle {
        let made = self.done(vec![OpArgs::Putrootfh, mkdir(name), OpArgs::Getfh]).await;
        handle(&made)
    }

    /// Opens a file in the root to read and write.
    pub async fn opened(&self, name: &str) -> (FileHandle, Stateid) {
        self.open_by(open_args(name, share::ACCESS_BOTH | share::WANT_NO_DELEG, None)).await
    }

    /// The same with a file that is made if there is none.
    pub async fn opened_new(&self, name: &str) -> (FileHandle, Stateid) {
        let OpArgs::Open(args) = create(name) else { panic!("create is an OPEN") };
        self.open_by(args).await
    }

    async fn open_by(&self, args: OpenArgs) -> (FileHandle, Stateid) {
        let open = OpArgs::Open(args);
        let opened = self.done(vec![OpArgs::Putrootfh, open, OpArgs::Getfh]).await;
        let [_, OpOk::Open(open), _] = &opened[..] else { panic!("{opened:?}") };
        (handle(&opened), open.stateid)
    }

    /// Opens a file in the root to read, with a delegation.
    pub async fn delegated(&self, name: &str) -> (FileHandle, Stateid) {
        let open = open_args(name, share::ACCESS_READ | share::WANT_READ_DELEG, None);
        let open = OpArgs::Open(open);
        let opened = self.done(vec![OpArgs::Putrootfh, open, OpArgs::Getfh]).await;
        let [_, OpOk::Open(open), _] = &opened[..] else { panic!("{opened:?}") };
        match open.delegation {
            OpenDelegation::Read { stateid, .. } => (handle(&opened), stateid),
            ref other => panic!("no delegation: {other:?}"),
        }
    }

    /// Locks the whole file through an open.
    pub async fn locked(
        &self,
        fh: &FileHandle,
        open_stateid: Stateid,
        locktype: LockType,
    ) -> Result<Stateid, NfsStat> {
        let locker = Locker::New { open_stateid, lock_owner: owner("lock") };
        let lock = LockArgs { locktype, reclaim: false, offset: 0, length: u64::MAX, locker };
        let outcome = self.outcome(vec![putfh(fh), OpArgs::Lock(lock)]).await.expect("an answer");
        match (outcome.done.last(), outcome.failed) {
            (Some(OpOk::Lock(ok)), None) => Ok(ok.stateid),
            (_, failed) => Err(failed.expect("a refusal").failure.status),
        }
    }

    /// Status of a stateid by TEST_STATEID.
    pub async fn status_of(&self, stateid: Stateid) -> NfsStat {
        let test = OpArgs::TestStateid(TestStateidArgs { stateids: vec![stateid] });
        match &self.done(vec![test]).await[..] {
            [OpOk::TestStateid(told)] => told.status_codes[0],
            other => panic!("{other:?}"),
        }
    }

    /// The delegation that is recalled first, when it is.
    pub async fn recalled(&self) -> Stateid {
        loop {
            if let Some(stateid) = self.heard.recalls.lock().expect("no panic").first() {
                return *stateid;
            }
            self.heard.heard.notified().await;
        }
    }

    /// Number of times that the server began to report a revocation.
    pub fn revocations(&self) -> usize {
        self.heard.revocations.load(Ordering::Relaxed)
    }
}

fn handle(results: &[OpOk]) -> FileHandle {
    match results.last() {
        Some(OpOk::Getfh(ok)) => ok.object.clone(),
        other => panic!("{other:?}"),
    }
}

fn owner(name: &str) -> StateOwner {
    StateOwner { clientid: ClientId(0), owner: Opaque(Bytes::copy_from_slice(name.as_bytes())) }
}

fn open_args(name: &str, share_access: u32, openhow: Option<CreateHow>) -> OpenArgs {
    OpenArgs {
        seqid: Seqid(0),
        share_access,
        share_deny: share::DENY_NONE,
        owner: owner("open"),
        openhow,
        claim: OpenClaim::Null(name.into()),
    }
}

fn mode(mode: u32) -> Box<Attrs> {
    Box::new(Attrs { mode: Some(mode), ..Attrs::default() })
}

/// OPEN of a file that is made if there is none.
pub fn create(name: &str) -> OpArgs {
    let access = share::ACCESS_BOTH | share::WANT_NO_DELEG;
    OpArgs::Open(open_args(name, access, Some(CreateHow::Unchecked(mode(0o644)))))
}

/// OPEN with EXCLUSIVE4_1 and these attributes.
pub fn exclusive(name: &str, attrs: Attrs) -> OpArgs {
    let how = CreateHow::Exclusive41(Verifier(*b"exhibit1"), Box::new(attrs));
    let access = share::ACCESS_BOTH | share::WANT_NO_DELEG;
    OpArgs::Open(open_args(name, access, Some(how)))
}

/// SETATTR of the time of birth.
pub fn birth(time: NfsTime) -> OpArgs {
    let attrs = Box::new(Attrs { time_create: Some(time), ..Attrs::default() });
    OpArgs::Setattr(SetattrArgs { stateid: Stateid::ANONYMOUS, attrs })
}

pub fn putfh(fh: &FileHandle) -> OpArgs {
    OpArgs::Putfh(PutfhArgs { object: fh.clone() })
}

pub fn lookup(name: &str) -> OpArgs {
    OpArgs::Lookup(LookupArgs { name: name.into() })
}

pub fn mkdir(name: &str) -> OpArgs {
    let (objtype, name) = (CreateType::Directory, name.into());
    OpArgs::Create(CreateArgs { objtype, name, attrs: mode(0o755) })
}

pub fn rename(from: &str, to: &str) -> OpArgs {
    OpArgs::Rename(RenameArgs { oldname: from.into(), newname: to.into() })
}

pub fn close(open_stateid: Stateid) -> OpArgs {
    OpArgs::Close(CloseArgs { seqid: Seqid(0), open_stateid })
}

pub fn delegreturn(deleg_stateid: Stateid) -> OpArgs {
    OpArgs::Delegreturn(DelegreturnArgs { deleg_stateid })
}

pub fn free(stateid: Stateid) -> OpArgs {
    OpArgs::FreeStateid(FreeStateidArgs { stateid })
}

pub fn write(stateid: Stateid, data: &'static [u8]) -> OpArgs {
    let data = Bytes::from_static(data).into();
    OpArgs::Write(WriteArgs { stateid, offset: 0, stable: StableHow::FILE_SYNC, data })
}

pub fn getattr_size() -> OpArgs {
    OpArgs::Getattr(GetattrArgs { request: Bitmap::of(&[AttrNo::SIZE]) })
}

/// READDIR from a cookie, with so many bytes of reply.
pub fn readdir(cookie: u64, maxcount: u32) -> OpArgs {
    OpArgs::Readdir(ReaddirArgs {
        cookie,
        cookieverf: Verifier::default(),
        dircount: maxcount,
        maxcount,
        attr_request: Bitmap::EMPTY,
    })
}

/// GET_DIR_DELEGATION as Linux asks: it wants to be told of nothing.
pub fn get_dir_delegation() -> OpArgs {
    let at_once = NfsTime { seconds: 0, nseconds: 0 };
    OpArgs::GetDirDelegation(GetDirDelegationArgs {
        signal_deleg_avail: false,
        notification_types: Bitmap::EMPTY,
        child_attr_delay: at_once,
        dir_attr_delay: at_once,
        child_attributes: Bitmap::EMPTY,
        dir_attributes: Bitmap::EMPTY,
    })
}

/// The delegation of a directory that was granted.
pub fn granted(results: &[OpOk]) -> Stateid {
    match results.last() {
        Some(OpOk::GetDirDelegation(GetDirDelegationOk::Granted(granted))) => granted.stateid,
        other => panic!("{other:?}"),
    }
}
