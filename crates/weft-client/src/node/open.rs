//! Opening files by name in a directory, or by handle: OPEN.

use std::sync::Arc;

use weft_nfs::{
    Acl, AttrNo, Attrs, Bitmap, Component, FileHandle, OpArgs, OpNum, OpOk, Seqid, StateOwner,
    Stateid,
    attr::ModeUmask,
    ops::{CreateHow, DelegreturnArgs, OpenArgs, OpenClaim, OpenDelegation, SetattrArgs},
    share,
};

use super::{DirChange, NODE_ATTRS, Node, Nodes, attrs_told, getattr, putfh};
use crate::{
    error::ClientError,
    io::{Asked, FileIo, IoPolicy, Opened, Thresholds},
};

/// How a file is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OpenOptions {
    /// Open it for reading.
    pub read: bool,
    /// Open it for writing.
    pub write: bool,
    /// Create it with this mode if it does not exist.
    pub create: Option<u32>,
    /// What the mode of a new file loses, unless its directory has a list for new files
    /// (RFC 8275). Without it the mode is meant as it is.
    pub umask: Option<u32>,
    /// It must not exist yet.
    pub exclusive: bool,
    /// Truncate it to size 0.
    pub truncate: bool,
    /// How its data travel, if otherwise than those of the client's other files (P4.4).
    pub policy: Option<IoPolicy>,
}

/// What opening a name gave.
pub struct OpenedName {
    /// The file.
    pub node: Node,
    /// Its data path.
    pub io: Arc<FileIo>,
    /// What that did to the directory: nothing, if the file was there.
    pub change: DirChange,
}

impl OpenOptions {
    /// Opens for reading only.
    pub fn read() -> OpenOptions {
        OpenOptions { read: true, ..OpenOptions::default() }
    }

    /// Opens a new or emptied file for writing.
    pub fn replace(mode: u32) -> OpenOptions {
        OpenOptions { write: true, create: Some(mode), truncate: true, ..OpenOptions::default() }
    }

    fn access(self) -> u32 {
        let read = if self.read { share::ACCESS_READ } else { 0 };
        let write = if self.write { share::ACCESS_WRITE } else { 0 };
        read | write
    }

    /// OPEN of a name in the current directory; a new file gets this list.
    pub(crate) fn open(self, name: Component, owner: StateOwner, acl: Option<Acl>) -> OpenArgs {
        self.claim(OpenClaim::Null(name), owner, self.how(acl))
    }

    /// OPEN of the current file.
    fn open_current(self, owner: StateOwner) -> OpenArgs {
        self.claim(OpenClaim::Fh, owner, None)
    }

    /// No delegation is wanted (RFC 8881 §18.16.3): nothing here would use one.
    fn claim(self, claim: OpenClaim, owner: StateOwner, openhow: Option<CreateHow>) -> OpenArgs {
        OpenArgs {
            seqid: Seqid(0),
            share_access: self.access() | share::WANT_NO_DELEG,
            share_deny: share::DENY_NONE,
            owner,
            openhow,
            claim,
        }
    }

    fn how(self, acl: Option<Acl>) -> Option<CreateHow> {
        let mode = self.create?;
        let size = (self.truncate && !self.exclusive).then_some(0);
        let mode_umask = self.umask.map(|umask| ModeUmask { mode, umask });
        let mode = mode_umask.is_none().then_some(mode);
        let attrs = Box::new(Attrs { mode, mode_umask, acl, size, ..Attrs::default() });
        Some(match self.exclusive {
            true => CreateHow::Guarded(attrs),
            false => CreateHow::Unchecked(attrs),
        })
    }
}

impl Nodes {
    /// Opens a name of a directory, making the file if the options say so (RFC 8881 §18.16).
    ///
    /// # Errors
    /// SYMLINK if the name is a link's; [`ClientError`].
    pub async fn open(
        &self,
        dir: &FileHandle,
        name: Component,
        options: OpenOptions,
    ) -> Result<OpenedName, ClientError> {
        let owner = self.new_owner();
        let open = options.open(name, owner.clone(), None);
        let mut ops = vec![putfh(dir)];
        ops.extend(opening(open, attrs_wanted()));
        let needed = ops.len();
        if options.create.is_some() {
            ops.extend([putfh(dir), getattr(NODE_ATTRS)]);
        }
        let asked = self.asks();
        let mut done = self.changing(needed, ops).await?.into_iter();
        done.next(); // PUTFH's
        let info = match done.as_slice().first() {
            Some(OpOk::Open(open)) => open.cinfo,
            _ => return Err(ClientError::unexpected(OpNum::OPEN)),
        };
        let (opened, attrs) = self.opened_by(done.by_ref(), (options, owner), asked).await?;
        let change = DirChange { info, attrs: attrs_told(done.nth(1)) };
        let node = Node { fh: opened.fh.clone(), attrs };
        Ok(OpenedName { node, io: self.io_of(opened), change })
    }

    /// Opens a file by its handle.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn open_node(
        &self,
        fh: &FileHandle,
        options: OpenOptions,
    ) -> Result<(Attrs, Arc<FileIo>), ClientError> {
        let owner = self.new_owner();
        let open = options.open_current(owner.clone());
        let mut ops = vec![putfh(fh)];
        ops.extend(opening(open, attrs_wanted()));
        let asked = self.asks();
        let mut done = self.mds.compound(ops).await?.into_iter();
        done.next(); // PUTFH's
        let (opened, attrs) = self.opened_by(done, (options, owner), asked).await?;
        Ok((attrs, self.io_of(opened)))
    }

    /// Now, for whoever asks the server about a file.
    pub(crate) fn asks(&self) -> Asked {
        Asked { losses: self.mds.losses(), moment: self.cluster.files.moment() }
    }

    /// What the results of [`opening`] say, that was asked then.
    pub(crate) async fn opened_by(
        &self,
        mut done: impl Iterator<Item = OpOk>,
        (options, owner): (OpenOptions, StateOwner),
        asked: Asked,
    ) -> Result<(Opened, Attrs), ClientError> {
        let (Some(OpOk::Open(open)), Some(OpOk::Getfh(fh)), Some(OpOk::Getattr(attrs))) =
            (done.next(), done.next(), done.next())
        else {
            return Err(ClientError::unexpected(OpNum::OPEN));
        };
        self.decline_delegation(&fh.object, &open.delegation).await;
        let attrs = attrs.attrs;
        if options.truncate && options.create.is_some() && !options.exclusive {
            self.emptied(&fh.object, open.stateid).await?;
        }
        let opened = Opened {
            fh: fh.object,
            stateid: open.stateid,
            owner,
            caller: self.caller().clone(),
            access: options.access(),
            size: attrs.size.unwrap_or(0),
            change: attrs.change,
            policy: options.policy.unwrap_or(self.cluster.policy),
            thresholds: self.thresholds(&attrs),
            asked,
        };
        Ok((opened, *attrs))
    }

    /// An OPEN has emptied a file: what this client has of it goes. What it had sent may have got
    /// there later.
    async fn emptied(&self, fh: &FileHandle, stateid: Stateid) -> Result<(), ClientError> {
        if !self.cluster.files.emptied(fh).await {
            return Ok(());
        }
        let attrs = Box::new(Attrs { size: Some(0), ..Attrs::default() });
        let again = OpArgs::Setattr(SetattrArgs { stateid, attrs });
        self.mds.on_file(fh, again).await.map(drop)
    }

    /// What the server says of layout types that we have a driver for.
    fn thresholds(&self, attrs: &Attrs) -> Thresholds {
        let items = attrs.mdsthreshold.as_ref().map(|t| t.0.as_slice()).unwrap_or_default();
        let item = self.cluster.drivers.threshold(items);
        Thresholds {
            read_size: item.and_then(|i| i.read_size).unwrap_or(0),
            write_size: item.and_then(|i| i.write_size).unwrap_or(0),
        }
    }

    /// Gives a delegation back that came unasked.
    async fn decline_delegation(&self, fh: &FileHandle, delegation: &OpenDelegation) {
        let OpenDelegation::Read { stateid, .. } = delegation else { return };
        let back = OpArgs::Delegreturn(DelegreturnArgs { deleg_stateid: *stateid });
        if let Err(e) = self.mds.on_file(fh, back).await {
            tracing::warn!("DELEGRETURN failed: {e}");
        }
    }
}

/// Attributes asked for with an OPEN.
pub(crate) fn attrs_wanted() -> Bitmap {
    NODE_ATTRS.or(&Bitmap::of(&[AttrNo::MDSTHRESHOLD]))
}

/// OPEN, and what is asked of the file that it opens.
pub(crate) fn opening(open: OpenArgs, request: Bitmap) -> [OpArgs; 3] {
    [OpArgs::Open(open), OpArgs::Getfh, getattr(request)]
}
