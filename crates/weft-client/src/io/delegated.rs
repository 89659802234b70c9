//! The delegations of a client, as its opens use them (RFC 8881 §10.2, §10.4).

use std::sync::Arc;

use weft_nfs::{Attrs, FileHandle, Stateid, callback::CbRecallArgs};

use super::open::Asked;
use crate::{
    cache::Moment,
    delegation::{Ask, ChangeNo, Delegations, Grant, Granted, Recalled, Return},
    rpc::Credential,
    session::Session,
    sync::Mutex,
};

/// What the server told of a file.
#[derive(Debug, Clone)]
pub(crate) struct Told {
    /// [`super::attrs_wanted`].
    pub(crate) attrs: Arc<Attrs>,
    /// Before that.
    pub(crate) asked: Asked,
    /// What this client had done to the file's bytes until then is told of.
    pub(crate) as_of: Moment,
}

impl Told {
    /// In an answer that may lack all that was done since it was asked for.
    pub(crate) fn answered(attrs: Attrs, asked: Asked) -> Told {
        Told { attrs: Arc::new(attrs), asked, as_of: asked.moment }
    }
}

/// What a client was delegated. Its lock is taken after all others, and held for no call.
pub struct Delegated {
    /// Whether any delegations are wanted.
    are_wanted: bool,
    table: Mutex<Table>,
}

#[derive(Default)]
struct Table {
    known: Delegations<Credential, Told>,
    /// Revocations by the server that were dealt with ([`Session::standing`]).
    revocations: u64,
    /// When this client last gave or took a name: of any file.
    names_changed: Moment,
}

/// A delegation that is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct HeldNow {
    /// When it was told of: what was asked for before may be of before it was granted.
    pub(crate) since: Moment,
}

/// An OPEN under way that may be given a delegation.
pub(crate) struct Asking(Arc<Delegated>, Ask);

impl Drop for Asking {
    fn drop(&mut self) {
        self.0.table.lock().known.answered(self.1);
    }
}

impl Asking {
    /// Its number.
    pub(crate) fn number(&self) -> Ask {
        self.1
    }
}

impl Delegated {
    /// None.
    pub(crate) fn new(are_wanted: bool) -> Delegated {
        Delegated { are_wanted, table: Mutex::default() }
    }

    /// How many are held.
    pub(crate) fn count(&self) -> usize {
        self.table.lock().known.count()
    }

    /// Whether any are wanted.
    pub(crate) fn are_wanted(&self) -> bool {
        self.are_wanted
    }

    /// Whether one may be asked for now: not while the server could take it away without our
    /// hearing of it.
    pub(crate) fn may_be_asked_for(&self, mds: &Session) -> bool {
        self.are_wanted && mds.standing().is_some()
    }

    /// For as long as an OPEN is under way, and what it gave not noted: a recall may overtake the
    /// answer.
    pub(crate) fn asking(self: &Arc<Self>) -> Asking {
        let ask = self.table.lock().known.asks();
        Asking(self.clone(), ask)
    }

    /// An OPEN gave this one.
    pub(crate) fn granted(&self, fh: &FileHandle, grant: &Grant) -> Granted {
        self.table.lock().known.granted(fh, grant)
    }

    /// The server wants one back.
    pub(crate) fn recalled(&self, args: &CbRecallArgs) -> Recalled {
        self.table.lock().known.recalled(&args.fh, &args.stateid)
    }

    /// The delegation of a file, if it can be relied on that no other client changes the file now.
    pub(crate) fn held(&self, mds: &Session, fh: &FileHandle) -> Option<HeldNow> {
        self.with(mds, |known, losses| known.held(fh, losses))
            .map(|(_, since)| HeldNow { since: Moment(since) })
    }

    /// The server let this user open a file that is delegated, to read it or not; asked then, or
    /// with the grant.
    pub(crate) fn opened(
        &self,
        fh: &FileHandle,
        asked_at: Moment,
        (reader, told): (Option<Credential>, Told),
    ) {
        self.table.lock().known.opened(fh, asked_at.0, (reader, told));
    }

    /// What the user of this session may open a file by, to read it, without asking.
    pub(crate) fn opens(&self, mds: &Session, fh: &FileHandle) -> Option<(Stateid, Moment, Told)> {
        self.with(mds, |known, losses| known.opens(fh, losses, mds.caller()))
            .map(|(stateid, since, told)| (stateid, Moment(since), told))
    }

    /// What the server told last of a file that nobody else changes now, and no name of which has
    /// come or gone here since.
    pub(crate) fn told(&self, mds: &Session, fh: &FileHandle) -> Option<Told> {
        let told = self.with(mds, |known, losses| known.told(fh, losses))?;
        (told.asked.moment >= self.table.lock().names_changed).then_some(told)
    }

    /// This client has given or taken a name, or tried to.
    pub(crate) fn names_changed(&self, now: Moment) {
        let mut table = self.table.lock();
        table.names_changed = table.names_changed.max(now);
    }

    /// An open that the server does not know of relies on it from now on, if it is still held.
    pub(super) fn join(&self, fh: &FileHandle, stateid: &Stateid) -> bool {
        self.table.lock().known.join(fh, stateid)
    }

    /// Such an open is gone, or the server knows of it.
    pub(super) fn leave(&self, fh: &FileHandle) {
        self.table.lock().known.leave(fh);
    }

    /// What the change attribute of a file was when it was delegated to write, if it is.
    pub(crate) fn writers_change(&self, fh: &FileHandle) -> Option<u64> {
        self.table.lock().known.writers_change(fh)
    }

    /// This client begins to change attributes of a file.
    pub(super) fn changes_attributes(&self, fh: &FileHandle) -> ChangeNo {
        self.table.lock().known.changes_attributes(fh)
    }

    /// That has ended, somehow, and the server told this with it: who opens the file next asks the
    /// server whether he may.
    pub(super) fn attributes_changed(
        &self,
        fh: &FileHandle,
        now: Moment,
        change: (ChangeNo, Option<Told>),
    ) {
        let (number, told) = change;
        let told = told.map(|told| (told.asked.moment.0, told));
        self.table.lock().known.attributes_changed(fh, now.0, (number, told));
    }

    /// Those that are too many, to be returned.
    pub(crate) fn surplus(&self) -> Vec<Return> {
        self.table.lock().known.surplus()
    }

    /// All but so many, to be returned.
    pub(crate) fn all_but(&self, kept: usize) -> Vec<Return> {
        self.table.lock().known.all_but(kept)
    }

    /// That of a file that nobody has open here and that has one name, to be returned.
    pub(super) fn of_last_name(&self, fh: &FileHandle) -> Option<Return> {
        let has_one = |told: &Told| told.attrs.numlinks == Some(1);
        self.table.lock().known.of_last_name(fh, has_one)
    }

    /// That of a file, to be returned.
    pub(crate) fn of_file(&self, fh: &FileHandle) -> Option<Return> {
        self.table.lock().known.of_file(fh)
    }

    /// The server has taken something away, for the `revocations`th time: any of them may be it,
    /// and all are to be returned.
    pub(crate) fn revoked(&self, revocations: u64) -> Vec<Return> {
        let mut table = self.table.lock();
        table.revocations = revocations;
        table.known.all_but(0)
    }

    /// The newer stateid of one that the server has made more of, if it is here.
    pub(crate) fn newer(&self, old: &Return) -> Option<Return> {
        self.table.lock().known.newer(old)
    }

    /// One was returned, or the server does not know it.
    pub(crate) fn returned(&self, returned: &Return) {
        self.table.lock().known.returned(returned);
    }

    /// Looks at what is held, if the server can be relied on.
    fn with<R>(
        &self,
        mds: &Session,
        look: impl FnOnce(&mut Delegations<Credential, Told>, u64) -> Option<R>,
    ) -> Option<R> {
        if !self.are_wanted {
            return None;
        }
        let standing = mds.standing()?;
        let mut table = self.table.lock();
        // What the server has taken away meanwhile somebody is just finding out.
        let is_current = table.revocations == standing.revocations;
        is_current.then(|| look(&mut table.known, standing.losses)).flatten()
    }
}
