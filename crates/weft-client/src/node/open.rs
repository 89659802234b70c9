//! Opening files by name in a directory, or by handle: OPEN.

use std::sync::Arc;

use weft_nfs::{
    Acl, Attrs, Bitmap, Component, FileHandle, OpArgs, OpNum, OpOk, Seqid, StateOwner, Stateid,
    Verifier,
    attr::ModeUmask,
    ops::{CreateHow, OpenArgs, OpenClaim, OpenDelegation, OpenOk, SetattrArgs},
    share,
};

use super::{DirChange, NODE_ATTRS, Node, Nodes, attrs_told, getattr, putfh};
use crate::{
    boxed::Spawned,
    delegation::{Grant, Granted, Kind},
    error::ClientError,
    io::{
        Asked, Asking, FileIo, IoPolicy, Opened, Since, Thresholds, Told, Under, What,
        attrs_wanted, close,
    },
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

/// What opening a handle gave.
pub struct OpenedNode {
    /// [`NODE_ATTRS`] as the server told them with an open. With one that it was not asked for,
    /// since the file is delegated, they are of an earlier one: size and change are right, times
    /// and the number of names may have changed since.
    pub attrs: Attrs,
    /// Whether the server was asked for this open.
    pub was_asked: bool,
    /// Its data path.
    pub io: Arc<FileIo>,
}

/// An OPEN under way: how it was asked for, by which owner, and when.
pub(crate) struct Opening {
    options: OpenOptions,
    owner: StateOwner,
    asked: Asked,
    asking: Asking,
}

/// The verifier of an exclusive create, which no other open has: the number of its owner.
fn verifier_of(owner: &StateOwner) -> Verifier {
    let mut number = [0; 8];
    let known = number.len().min(owner.owner.0.len());
    number[..known].copy_from_slice(&owner.owner.0[..known]);
    Verifier(number)
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
        let how = self.how(&owner, acl);
        self.claim(OpenClaim::Null(name), owner, how)
    }

    /// OPEN of the current file.
    fn open_current(self, owner: StateOwner) -> OpenArgs {
        self.claim(OpenClaim::Fh, owner, None)
    }

    /// Which delegation is wanted (RFC 8881 §18.16.3). Who reads has no preference: the server
    /// decides, and gives none of a file that others write all the time. Who only writes says so,
    /// also when he has one, so that this open counts as one under it. Who does both is likely to
    /// lock the file, as data bases do, and whoever has it delegated is not called when a lock is
    /// free.
    fn delegation(self) -> u32 {
        match (self.read, self.write) {
            (_, false) => 0,
            (false, true) => share::WANT_WRITE_DELEG,
            (true, true) => share::WANT_NO_DELEG,
        }
    }

    /// Whether it is for reading alone, of a file that is there.
    fn only_reads(self) -> bool {
        OpenOptions { policy: self.policy, ..OpenOptions::read() } == self
    }

    /// No delegation is wanted (RFC 8881 §18.16.3), unless the caller says otherwise
    /// ([`Nodes::begin_open`]).
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

    /// Arguments that create the file. A retried exclusive create opens the file that the first one
    /// created, by its verifier (§18.16.3).
    fn how(self, owner: &StateOwner, acl: Option<Acl>) -> Option<CreateHow> {
        let mode = self.create?;
        let size = (self.truncate && !self.exclusive).then_some(0);
        let mode_umask = self.umask.map(|umask| ModeUmask { mode, umask });
        let mode = mode_umask.is_none().then_some(mode);
        let attrs = Box::new(Attrs { mode, mode_umask, acl, size, ..Attrs::default() });
        Some(match self.exclusive {
            true => CreateHow::Exclusive41(verifier_of(owner), attrs),
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
        // What it opens is closed, and what it empties is emptied here too, whoever waits for it.
        let (me, dir) = (self.clone(), dir.clone());
        Spawned::new(async move { me.open_name(&dir, name, options).await }).await
    }

    async fn open_name(
        &self,
        dir: &FileHandle,
        name: Component,
        options: OpenOptions,
    ) -> Result<OpenedName, ClientError> {
        let (open, opening) =
            self.begin_open(options, true, |owner| options.open(name, owner, None));
        let mut ops = vec![putfh(dir)];
        ops.extend(open_asking(open, attrs_wanted()));
        let needed = ops.len();
        if options.create.is_some() {
            ops.extend([putfh(dir), getattr(NODE_ATTRS)]);
        }
        let mut done = self.compound_or_close(needed, ops).await?.into_iter();
        done.next(); // PUTFH's
        let info = match done.as_slice().first() {
            Some(OpOk::Open(open)) => open.cinfo,
            _ => return Err(ClientError::unexpected(OpNum::OPEN)),
        };
        let (io, attrs) = self.opened_by(done.by_ref(), opening).await?;
        let change = DirChange { info, attrs: attrs_told(done.nth(1)) };
        let node = Node { fh: io.fh().clone(), attrs };
        Ok(OpenedName { node, io, change })
    }

    /// Opens a file by its handle: without asking the server, if it is delegated, and this user was
    /// allowed to read it (RFC 8881 §10.4.1).
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn open_node(
        &self,
        fh: &FileHandle,
        options: OpenOptions,
    ) -> Result<OpenedNode, ClientError> {
        if let Some(opened) = self.open_alone(fh, options).await {
            return Ok(opened);
        }
        let (me, fh) = (self.clone(), fh.clone());
        Spawned::new(async move { me.open_asked(&fh, options).await }).await
    }

    async fn open_asked(
        &self,
        fh: &FileHandle,
        options: OpenOptions,
    ) -> Result<OpenedNode, ClientError> {
        let (open, opening) = self.begin_open(options, true, |owner| options.open_current(owner));
        let mut ops = vec![putfh(fh)];
        ops.extend(open_asking(open, attrs_wanted()));
        let mut done = self.compound_or_close(ops.len(), ops).await?.into_iter();
        done.next(); // PUTFH's
        let (io, attrs) = self.opened_by(done, opening).await?;
        Ok(OpenedNode { attrs, was_asked: true, io })
    }

    /// An open that the server does not know of, if the file is delegated and nothing was done to
    /// it here since the server last told of it.
    async fn open_alone(&self, fh: &FileHandle, options: OpenOptions) -> Option<OpenedNode> {
        let delegated = &self.cluster.delegated;
        if !options.only_reads() {
            return None;
        }
        let (stateid, since, told) = delegated.opens(&self.mds, fh)?;
        if self.cluster.files.may_lack(fh, told.as_of) {
            return None;
        }
        let attrs = Attrs::clone(&told.attrs);
        let opening = (options, self.new_owner(), told.asked);
        let how = (stateid, 0, Under::DelegationAlone(Since(since)));
        let io = self.io_of(self.opened_as(fh.clone(), how, opening, &attrs));
        // From here on it is told to the server before the delegation goes.
        let is_held = io.rely_on_delegation().await;
        is_held.then_some(OpenedNode { attrs, was_asked: false, io })
    }

    /// An OPEN of this client, and what has to be known of it when it is answered. Who uses the
    /// file only once wants no delegation.
    pub(crate) fn begin_open(
        &self,
        options: OpenOptions,
        is_delegated: bool,
        open: impl FnOnce(StateOwner) -> OpenArgs,
    ) -> (OpenArgs, Opening) {
        let (cluster, owner) = (&self.cluster, self.new_owner());
        let mut open = open(owner.clone());
        if is_delegated && cluster.delegated.may_be_asked_for(&self.mds) {
            let wanted = share::WANT_MASK & options.delegation();
            open.share_access = open.share_access & !share::WANT_MASK | wanted;
        }
        let asked = Asked { losses: self.mds.losses(), moment: cluster.files.moment() };
        let asking = cluster.delegated.asking();
        (open, Opening { options, owner, asked, asking })
    }

    /// The file that the results of [`open_asking`] say is open now.
    pub(crate) async fn opened_by(
        &self,
        mut done: impl Iterator<Item = OpOk>,
        opening: Opening,
    ) -> Result<(Arc<FileIo>, Attrs), ClientError> {
        let (Some(OpOk::Open(open)), Some(OpOk::Getfh(fh)), Some(OpOk::Getattr(attrs))) =
            (done.next(), done.next(), done.next())
        else {
            return Err(ClientError::unexpected(OpNum::OPEN));
        };
        let (fh, stateid) = (fh.object, open.stateid);
        match self.opened_as_told((&fh, &open), *attrs.attrs, opening).await {
            Ok((opened, attrs)) => Ok((self.io_of(opened), attrs)),
            Err(why) => {
                self.close_untaken(&fh, stateid).await;
                Err(why)
            }
        }
    }

    /// Runs a COMPOUND of which the first `needed` operations count; their results, and those of
    /// what is behind them as far as there are any. If an OPEN is among them and one behind it
    /// fails, the file does not stay open; but it does if all was repeated, and the OPEN refused
    /// then.
    pub(crate) async fn compound_or_close(
        &self,
        needed: usize,
        ops: Vec<OpArgs>,
    ) -> Result<Vec<OpOk>, ClientError> {
        let outcome = self.mds.outcome_needing(needed, ops).await?;
        if outcome.done.len() >= needed {
            return Ok(outcome.done);
        }
        let mut done = outcome.done.iter().skip_while(|done| !matches!(done, OpOk::Open(_)));
        if let (Some(OpOk::Open(open)), Some(OpOk::Getfh(fh))) = (done.next(), done.next()) {
            self.close_untaken(&fh.object, open.stateid).await;
        }
        outcome.into_result()
    }

    /// Closes what nobody will have.
    pub(crate) async fn close_untaken(&self, fh: &FileHandle, open_stateid: Stateid) {
        // The server forgets it with the session else.
        if let Err(error) = self.mds.on_file(fh, close(open_stateid)).await {
            tracing::debug!(%error, "a file stays open at the server");
        }
    }

    async fn opened_as_told(
        &self,
        (fh, open): (&FileHandle, &OpenOk),
        mut attrs: Attrs,
        opening: Opening,
    ) -> Result<(Opened, Attrs), ClientError> {
        let Opening { options, owner, mut asked, asking } = opening;
        let delegated = &self.cluster.delegated;
        let held = delegated.held(&self.mds, fh);
        let granted = self.note_grant(&asking, (fh, &open.delegation), (asked, attrs.change));
        if options.truncate && options.create.is_some() && !options.exclusive {
            self.emptied(fh, open.stateid, asked).await?;
        }
        if held.is_some_and(|held| held.since > asked.moment) {
            // Another open was given a delegation meanwhile: this answer may be of before that.
            asked = Asked { moment: self.cluster.files.moment(), ..asked };
            attrs = self.getattr(fh, attrs_wanted()).await?;
        }
        // It may have gone back meanwhile, and others have written since.
        let is_held = |since| delegated.held(&self.mds, fh).is_some_and(|now| now.since == since);
        let under = match (held, granted) {
            (_, Some(since)) => Under::Granted(since),
            (Some(held), None) if is_held(held.since) => Under::Delegation(Since(held.since)),
            _ => Under::Nothing,
        };
        let opening = (options, owner, asked);
        let opened =
            self.opened_as(fh.clone(), (open.stateid, open.rflags, under), opening, &attrs);
        let reader = options.read.then(|| self.caller().clone());
        let told = Told::answered(attrs.clone(), asked);
        // With a grant the server told of the file as it was granted.
        let asked_at = granted.map_or(asked.moment, |since| since.0);
        delegated.opened(&opened.fh, asked_at, (reader, told));
        Ok((opened, attrs))
    }

    fn opened_as(
        &self,
        fh: FileHandle,
        (stateid, rflags, delegation): (Stateid, u32, Under),
        (options, owner, asked): (OpenOptions, StateOwner, Asked),
        attrs: &Attrs,
    ) -> Opened {
        Opened {
            fh,
            stateid,
            owner,
            caller: self.caller().clone(),
            access: options.access(),
            size: attrs.size.unwrap_or(0),
            change: attrs.change,
            policy: options.policy.unwrap_or(self.cluster.policy),
            thresholds: self.thresholds(attrs),
            asked,
            delegation,
            rflags,
        }
    }

    /// Keeps the delegation that came with an open, asked for or not; since when, if
    /// it is a new one.
    fn note_grant(
        &self,
        asking: &Asking,
        (fh, delegation): (&FileHandle, &OpenDelegation),
        (asked, change): (Asked, Option<u64>),
    ) -> Option<Since> {
        let (kind, stateid, is_recalled) = match delegation {
            OpenDelegation::Read { stateid, recall, .. } => (Kind::Read, *stateid, *recall),
            OpenDelegation::Write { stateid, recall, .. } => (Kind::Write, *stateid, *recall),
            OpenDelegation::None | OpenDelegation::NoneExt(..) => return None,
        };
        let delegated = &self.cluster.delegated;
        let is_recalled = is_recalled || change.is_none() || !delegated.are_wanted();
        let since = self.cluster.files.next_moment();
        let grant = Grant {
            stateid,
            kind,
            is_recalled,
            ask: asking.number(),
            losses: asked.losses,
            since: since.0,
            change: change.unwrap_or(0),
        };
        match delegated.granted(fh, &grant) {
            Granted::New => {
                self.returns.give_back_surplus();
                Some(Since(since))
            }
            Granted::Returns(returned) => {
                self.returns.give_back(vec![returned], What::Changing);
                None
            }
            Granted::Held | Granted::Gone => None,
        }
    }

    /// An OPEN that was asked for then has emptied a file: what this client has of it
    /// goes.
    async fn emptied(
        &self,
        fh: &FileHandle,
        stateid: Stateid,
        asked: Asked,
    ) -> Result<(), ClientError> {
        let again = async || {
            let attrs = Box::new(Attrs { size: Some(0), ..Attrs::default() });
            let again = OpArgs::Setattr(SetattrArgs { stateid, attrs });
            self.mds.on_file(fh, again).await.map(drop)
        };
        self.cluster.files.emptied(fh, asked.moment, again).await
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
}

/// OPEN, and what is asked of the file that it opens.
pub(crate) fn open_asking(open: OpenArgs, request: Bitmap) -> [OpArgs; 3] {
    [OpArgs::Open(open), OpArgs::Getfh, getattr(request)]
}
