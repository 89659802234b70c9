//! When the objects of a file come into being on its data servers (P2.1, P2.2, P3.1; ADR 7).
//!
//! By default nobody makes them: the first write to each does, and whoever makes a file sends no
//! message to any data server. The other ways are there to be compared with, and for data servers
//! whose files must exist before they are written.
//!
//! A file that begins with a place is seen by others before it is durable. What they write waits
//! for that ([`Shared::placement_durable`]).

use std::{slice, sync::Arc};

use weft_nfs::{Failure, NfsStat};
use weft_store::{
    types::{Credential, Inode, InodeNo, Intent, LayoutChoice, Placement, StoreError},
    volume::{Created, Expect, New, NewFileData, Remove},
};

use super::{
    pool::{Pool, Precreate},
    reaper::Reaper,
    shared::Shared,
};
use crate::{deps::Deps, striped::Striped, translate};

/// When the objects of files are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ObjectCreation {
    /// By the first write to each.
    #[default]
    Implicit,
    /// All of a file's before the reply to the request that made the file, or gave it its place.
    /// The replies to removals wait for the data servers too.
    Eager,
    /// Ahead of the files, many at once; while there are none, as [`ObjectCreation::Eager`].
    Precreate(Precreate),
}

/// Makes files, and their objects as the configuration wants them.
pub(crate) struct Creation {
    shared: Arc<Shared>,
    reaper: Arc<Reaper>,
    how: ObjectCreation,
    /// Whether files begin in the volume.
    stuffs: bool,
    /// Objects made ahead; only with [`ObjectCreation::Precreate`].
    pool: Option<Pool>,
}

impl Creation {
    /// For a volume whose files begin in it (`stuffs`) or on data servers.
    ///
    /// # Errors
    /// The volume cannot be read.
    pub(crate) fn start(
        shared: &Arc<Shared>,
        reaper: &Arc<Reaper>,
        how: ObjectCreation,
        stuffs: bool,
    ) -> Result<Self, StoreError> {
        let ahead = match how {
            // Files that begin in the volume have no objects.
            ObjectCreation::Precreate(how) if !stuffs => Some(how),
            _ => None,
        };
        let pool = Pool::start(shared, reaper, ahead)?;
        Ok(Creation { shared: shared.clone(), reaper: reaper.clone(), how, stuffs, pool })
    }

    /// Files to come whose objects are made; absent unless objects are made ahead.
    pub(crate) fn files_ahead(&self) -> Option<usize> {
        self.pool.as_ref().map(Pool::len)
    }

    /// Makes objects ahead, for ever.
    pub(crate) async fn run(&self) {
        if let Some(pool) = &self.pool {
            pool.run().await;
        }
    }

    /// Makes a regular file, or finds it, with its objects as the configuration wants them.
    ///
    /// # Errors
    /// Those of [`weft_store::volume::Volume::create`]; those of making objects (DELAY, NOSPC, IO):
    /// then nothing was made, or it is gone again.
    pub(crate) async fn make_file(
        &self,
        deps: &mut Deps,
        at: (InodeNo, &[u8]),
        new: New,
        cred: &Credential,
    ) -> Result<Created, Failure> {
        if self.stuffs {
            return self.make(deps, at, &New { data: NewFileData::Stuffed, ..new }, cred);
        }
        if self.how == ObjectCreation::Implicit {
            return self.make(deps, at, &new, cred);
        }
        // What is made ahead is spread as the volume has it.
        let has_choice = self.shared.inode_now(at.0).is_ok_and(|dir| dir.layout.is_some());
        let pool = self.pool.as_ref().filter(|_| !has_choice);
        let Some((pool, reserved)) = pool.and_then(|p| Some((p, p.take()?))) else {
            return self.make_with_objects(deps, at, new, cred).await;
        };
        let data = NewFileData::Reserved(reserved);
        let made = self.make(deps, at, &New { data, ..new }, cred);
        if !made.as_ref().is_ok_and(|made| made.inode.no == reserved.ino) {
            pool.put_back(reserved);
        }
        made
    }

    fn make(
        &self,
        deps: &mut Deps,
        (dir, name): (InodeNo, &[u8]),
        new: &New,
        cred: &Credential,
    ) -> Result<Created, Failure> {
        let make = || self.shared.volume.create(dir, name, new, cred, self.shared.wall());
        deps.see(match new.data {
            NewFileData::Later | NewFileData::Stuffed => make(),
            NewFileData::On(_) | NewFileData::Reserved(_) => self.shared.placement_lsn.give(make),
        })
    }

    /// Makes a file, and then its objects.
    async fn make_with_objects(
        &self,
        deps: &mut Deps,
        at: (InodeNo, &[u8]),
        new: New,
        cred: &Credential,
    ) -> Result<Created, Failure> {
        // Who may not make it, or would find it, waits for no data server.
        let dry_run = self.shared.volume.dry_run();
        let would = deps.see(dry_run.create(at.0, at.1, &new, cred, self.shared.wall()))?;
        // One that comes to be new after all gets its place, and its objects, when it is written.
        let new = if is_new(&would) {
            let place = self.place_that_answers(would.inode.layout.as_deref()).await?;
            New { data: NewFileData::On(place), ..new }
        } else {
            new
        };
        let made = self.make(deps, at, &new, cred)?;
        if made.created && made.inode.placement.is_some_and(|place| place.is_copied()) {
            // They are empty.
            self.shared.differing.begin(made.inode.no);
        }
        // A repeated exclusive create also: the first may have been cut short.
        if let (true, Some(striped)) = (made.created, self.shared.striped(&made.inode))
            && let Err(failed) = self.make_objects(deps, &striped).await
        {
            if is_new(&made) {
                self.unmake(deps, at, &made.inode);
            }
            return Err(failed);
        }
        Ok(made)
    }

    /// A place for a new file whose data servers are there: nothing is to be made in vain.
    ///
    /// # Errors
    /// NXIO without data servers, DELAY while none of them is there.
    async fn place_that_answers(
        &self,
        choice: Option<&LayoutChoice>,
    ) -> Result<Placement, Failure> {
        let placement = self.shared.placements.next(choice).await?;
        let device = self.shared.placements.device(placement.device).ok_or(NfsStat::SERVERFAULT)?;
        self.shared
            .data_servers
            .ready(&device.data_servers)
            .await
            .map_err(|e| translate::data_server_status(&e))?;
        Ok(placement)
    }

    /// Takes back a file that was made just now and has not all its objects: whoever asked is told
    /// so, and may ask again. One that others have found by now stays.
    fn unmake(&self, deps: &mut Deps, (dir, name): (InodeNo, &[u8]), made: &Inode) {
        let ino = made.no;
        if self.shared.protocol.state().is_open(self.shared.key(ino)) {
            return;
        }
        // Whoever wrote to it, or was given a layout, has changed it.
        let expect = Some(Expect::Same { ino, change: made.change, unsettled: made.unsettled });
        let what = Remove { dir, name, expect, keep_orphan: true };
        let removed =
            self.shared.volume.remove(&what, &Credential::superuser(), self.shared.wall());
        match deps.see(removed) {
            // Somebody who opened it just now has it to himself, and lets it go with his CLOSE.
            Ok(_) if self.shared.protocol.state().is_open(self.shared.key(ino)) => {}
            Ok(_) => self.reaper.release(ino),
            Err(e) => tracing::debug!(ino = ino.0, status = %e.status, "a new file stays"),
        }
    }

    /// The objects of a file that has just got its place, unless the first write is to make them.
    ///
    /// # Errors
    /// Those of [`Creation::make_objects`].
    pub(crate) async fn objects_of_placed(
        &self,
        deps: &Deps,
        striped: &Striped,
    ) -> Result<(), Failure> {
        match self.how {
            ObjectCreation::Implicit => Ok(()),
            ObjectCreation::Eager | ObjectCreation::Precreate(_) => {
                self.make_objects(deps, striped).await
            }
        }
    }

    /// Makes all objects of a file, with one message to each of its data servers.
    ///
    /// # Errors
    /// DELAY, NOSPC, IO: some may be made.
    async fn make_objects(&self, deps: &Deps, striped: &Striped) -> Result<(), Failure> {
        // The place comes first: objects that nobody knows of would stay for ever.
        self.shared.durable(deps).await?;
        let made = self.shared.data_servers.create(slice::from_ref(striped)).await;
        let made = made.into_iter().collect::<Result<(), _>>();
        made.map_err(|e| translate::data_server_status(&e).into())
    }

    /// The layouts of a file that was removed are forgotten; its objects go now, before the reply,
    /// or later.
    pub(crate) async fn objects_of_removed(&self, deps: &Deps, intent: Option<Intent>) {
        let Some(intent) = intent else { return };
        self.reaper.forget_layouts(intent.ino);
        if self.how != ObjectCreation::Eager || !self.removed_now(deps, &intent).await {
            self.reaper.wake();
        }
    }

    /// Whether all objects are gone. If not, the removal stands all the same: the reaper goes on.
    async fn removed_now(&self, deps: &Deps, intent: &Intent) -> bool {
        let file =
            self.shared.placements.striped_at(intent.ino, &intent.placement, intent.fence_epoch);
        let Some(file) = file else { return false };
        if self.shared.volume.durable(deps.lsn()).await.is_err() {
            return false;
        }
        let removed = self.shared.data_servers.remove(slice::from_ref(&file)).await;
        removed.iter().all(Result::is_ok)
            && self.shared.volume.complete_intent(intent.id).unconfirmed().is_ok()
    }
}

/// Whether the name was not there before.
fn is_new(made: &Created) -> bool {
    made.dir_change.before != made.dir_change.after
}
