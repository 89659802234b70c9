//! Names, attributes and opens by handle: what [`crate::fs`] finds by path, and what a mount is
//! built on.
//!
//! Each call is one COMPOUND, in the name of the user that the session handle acts for. Nothing
//! here knows a path, keeps what it was told, or follows a link: whoever calls does.

mod access;
mod attrs;
mod listing;
mod locks;
mod names;
mod open;
mod space;
mod unknown_outcome;
mod xattrs;

pub use crate::{
    io::{Change, NODE_ATTRS, Watcher, What},
    session::{Reclaim, Reclaims},
};
pub use access::Access;
pub use attrs::{Space, Vouched};
pub use locks::{LockRange, Locked};
pub(crate) use open::open_asking;
pub use open::{OpenOptions, OpenedName, OpenedNode};

use std::sync::{
    Arc, Weak,
    atomic::{AtomicU64, Ordering},
};

use bytes::Bytes;
use tokio::sync::Notify;
use weft_nfs::{
    Attrs, Bitmap, ChangeInfo, ClientId, FileHandle, OpArgs, OpNum, OpOk, Opaque, StateOwner,
    ops::{GetattrArgs, PutfhArgs},
};

use crate::{
    error::ClientError,
    io::{Cluster, FileIo, OpenFiles, Opened, Returns},
    rpc::Credential,
    session::Session,
};

/// A file, directory or link: its handle, and what was said of it last.
#[derive(Debug, Clone)]
pub struct Node {
    /// Its handle.
    pub fh: FileHandle,
    /// [`NODE_ATTRS`], as far as the server has them.
    pub attrs: Attrs,
}

/// What a change of names did to a directory.
#[derive(Debug, Clone)]
pub struct DirChange {
    /// From which value of its change attribute to which it led.
    pub info: ChangeInfo,
    /// [`NODE_ATTRS`] after that, if the server could still tell.
    pub attrs: Option<Attrs>,
}

/// The nodes of a cluster, for one user. Clones share the cluster and its sessions.
#[derive(Clone)]
pub struct Nodes {
    /// The metadata server, for that user.
    pub(crate) mds: Session,
    pub(crate) cluster: Arc<Cluster>,
    files: Arc<OpenFiles>,
    returns: Arc<Returns>,
    owners: Arc<AtomicU64>,
    /// Told of locks that may be free.
    lock_notices: Arc<Notify>,
}

impl std::fmt::Debug for Nodes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Nodes").field("server", &self.mds.addr()).finish_non_exhaustive()
    }
}

impl Nodes {
    /// Those of a cluster, for the user of its session; opens are listed in `files`, delegations go
    /// back by `returns`, and what the server says of locks is told by `lock_notices`. Open-owners
    /// are numbered from `first_owner` on, a random number, so that no other client has the same.
    pub(crate) fn new(
        cluster: Arc<Cluster>,
        (files, returns): (Arc<OpenFiles>, Arc<Returns>),
        lock_notices: Arc<Notify>,
        first_owner: u64,
    ) -> Nodes {
        let owners = Arc::new(AtomicU64::new(first_owner));
        Nodes { mds: cluster.mds.clone(), cluster, files, returns, owners, lock_notices }
    }

    /// Delegations that are held: files that no other client changes without our hearing of it.
    pub fn delegations_held(&self) -> usize {
        self.cluster.delegated.count()
    }

    /// Tells this one, and nobody else, of files that this client does not vouch for any more,
    /// while it lives.
    pub fn watch_with(&self, watcher: Weak<dyn Watcher>) {
        self.returns.watch_with(watcher);
    }

    /// The same nodes for another user.
    #[must_use]
    pub fn acting_for(&self, caller: Credential) -> Nodes {
        Nodes { mds: self.mds.acting_for(caller), ..self.clone() }
    }

    /// Whose requests these are.
    pub fn caller(&self) -> &Credential {
        self.mds.caller()
    }

    /// The root of the export.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn root(&self) -> Result<Node, ClientError> {
        self.node_after(vec![OpArgs::Putrootfh]).await
    }

    /// An open-owner of its own for every open, so that each has its own stateid.
    pub(crate) fn new_owner(&self) -> StateOwner {
        let n = self.owners.fetch_add(1, Ordering::Relaxed);
        StateOwner {
            clientid: ClientId(0),
            owner: Opaque(Bytes::copy_from_slice(&n.to_be_bytes())),
        }
    }

    /// The data path of a file that is open at the server.
    pub(crate) fn io_of(&self, opened: Opened) -> Arc<FileIo> {
        let io = Arc::new(FileIo::new(self.cluster.clone(), opened));
        self.files.insert(&io);
        io
    }

    /// The node that the current filehandle is after these operations.
    async fn node_after(&self, ops: Vec<OpArgs>) -> Result<Node, ClientError> {
        self.node_asking(ops, NODE_ATTRS).await
    }

    /// The same, with the attributes that are asked for.
    async fn node_asking(
        &self,
        mut ops: Vec<OpArgs>,
        request: Bitmap,
    ) -> Result<Node, ClientError> {
        ops.push(OpArgs::Getfh);
        ops.push(getattr(request));
        let mut done = self.mds.compound(ops).await?.into_iter().rev();
        let (Some(OpOk::Getattr(attrs)), Some(OpOk::Getfh(fh))) = (done.next(), done.next()) else {
            return Err(ClientError::unexpected(OpNum::GETFH));
        };
        Ok(Node { fh: fh.object, attrs: *attrs.attrs })
    }
}

fn putfh(fh: &FileHandle) -> OpArgs {
    OpArgs::Putfh(PutfhArgs { object: fh.clone() })
}

fn getattr(request: Bitmap) -> OpArgs {
    OpArgs::Getattr(GetattrArgs { request })
}

/// What a GETATTR has told of a directory, if it was executed.
fn attrs_told(told: Option<OpOk>) -> Option<Attrs> {
    match told {
        Some(OpOk::Getattr(ok)) => Some(*ok.attrs),
        _ => None,
    }
}

/// What a GETATTR has told, the last of its request.
fn attrs_in(last: Option<OpOk>) -> Result<Attrs, ClientError> {
    match last {
        Some(OpOk::Getattr(ok)) => Ok(*ok.attrs),
        _ => Err(ClientError::unexpected(OpNum::GETATTR)),
    }
}
