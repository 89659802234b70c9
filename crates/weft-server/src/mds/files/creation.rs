//! When the objects of a file come into being on its data servers (P2.1, P2.2, P3.1; ADR 7).
//!
//! By default nobody makes them: the first write to each does, and whoever makes a file sends no message
//! to any data server. The other ways are there to be compared with, and for data servers whose files
//! must exist before they are written.
//!
//! A file that begins with a place is seen by others before it is durable. What they write waits for
//! that ([`Mds::placement_durable`]): after a crash the number, and with it the objects, could be another
//! file's.

use std::{
    slice,
    sync::{Mutex, atomic::Ordering::Relaxed},
};

use weft_nfs::{Failure, NfsStat};
use weft_store::{
    types::{Credential, Inode, InodeNo, Intent, Lsn, Placement},
    volume::{Created, Expect, New, NewFileData, Remove, Seen},
};

use crate::mds::{Mds, data_server_failure, translate};
use crate::{compound::Compound, striped::Striped};

/// When the objects of files are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ObjectCreation {
    /// By the first write to each.
    #[default]
    Implicit,
    /// All of a file's before the reply to the request that made the file, or gave it its place. The
    /// replies to removals wait for the data servers too.
    Eager,
    /// Ahead of the files, many at once; while there are none, as [`ObjectCreation::Eager`].
    Precreate(Precreate),
}

/// How many objects are made ahead of their files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Precreate {
    /// With fewer files' objects ready, more are made.
    pub low: usize,
    /// For so many files at once.
    pub batch: usize,
}

/// Up to where files got a place, those included that had one from the beginning.
#[derive(Debug, Default)]
pub(in crate::mds) struct PlacementLsn(Mutex<Lsn>);

impl PlacementLsn {
    /// Makes one; whoever sees it finds its LSN in [`PlacementLsn::last`].
    pub(in crate::mds) fn give<T>(&self, birth: impl FnOnce() -> Seen<T>) -> Seen<T> {
        let mut last = self.0.lock().expect("placement_lsn lock");
        let seen = birth();
        *last = last.max(seen.lsn);
        seen
    }

    fn last(&self) -> Lsn {
        *self.0.lock().expect("placement_lsn lock")
    }
}

/// Whether the name was not there before.
fn is_new(made: &Created) -> bool {
    made.dir_change.before != made.dir_change.after
}

impl Mds {
    /// Makes a regular file, or finds it, with its objects as the configuration wants them.
    ///
    /// # Errors
    /// Those of [`weft_store::volume::Volume::create`]; those of making objects (DELAY, NOSPC, IO):
    /// then nothing was made, or it is gone again.
    pub(in crate::mds) async fn make_file(
        &self,
        c: &mut Compound<Mds>,
        at: (InodeNo, &[u8]),
        new: New,
        cred: &Credential,
    ) -> Result<Created, Failure> {
        if self.stuffs() {
            return self.make(c, at, &New { data: NewFileData::Stuffed, ..new }, cred);
        }
        match self.creation {
            ObjectCreation::Implicit => self.make(c, at, &new, cred),
            ObjectCreation::Eager => self.make_with_objects(c, at, new, cred).await,
            ObjectCreation::Precreate(_) => match self.pool.take() {
                Some(reserved) => {
                    let made = self.make(
                        c,
                        at,
                        &New { data: NewFileData::Reserved(reserved), ..new },
                        cred,
                    );
                    if !made.as_ref().is_ok_and(|made| made.inode.no == reserved.ino) {
                        self.pool.put_back(reserved);
                    }
                    made
                }
                None => self.make_with_objects(c, at, new, cred).await,
            },
        }
    }

    fn make(
        &self,
        c: &mut Compound<Mds>,
        (dir, name): (InodeNo, &[u8]),
        new: &New,
        cred: &Credential,
    ) -> Result<Created, Failure> {
        let make = || self.volume.create(dir, name, new, cred, self.wall());
        c.see(match new.data {
            NewFileData::Later | NewFileData::Stuffed => make(),
            NewFileData::On(_) | NewFileData::Reserved(_) => self.placement_lsn.give(make),
        })
    }

    /// Makes a file, and then its objects.
    async fn make_with_objects(
        &self,
        c: &mut Compound<Mds>,
        at: (InodeNo, &[u8]),
        new: New,
        cred: &Credential,
    ) -> Result<Created, Failure> {
        // Who may not make it, or would find it, waits for no data server.
        let dry_run = self.volume.dry_run();
        let would = c.see(dry_run.create(at.0, at.1, &new, cred, self.wall()))?;
        // One that comes to be new after all gets its place, and its objects, when it is written.
        let new = if is_new(&would) {
            New { data: NewFileData::On(self.place_that_answers().await?), ..new }
        } else {
            new
        };
        let made = self.make(c, at, &new, cred)?;
        // A repeated exclusive create also: the first may have been cut short.
        if let (true, Some(striped)) = (made.created, self.striped(&made.inode))
            && let Err(failed) = self.make_objects(c, &striped).await
        {
            if is_new(&made) {
                self.unmake(c, at, &made.inode);
            }
            return Err(failed);
        }
        Ok(made)
    }

    /// A place for a new file whose data servers are there: nothing is to be made in vain.
    ///
    /// # Errors
    /// NOSPC without data servers, DELAY while one of them is away.
    async fn place_that_answers(&self) -> Result<Placement, Failure> {
        let placement = self.next_placement()?;
        let device = self.device(placement.device).ok_or(NfsStat::SERVERFAULT)?;
        self.data_servers.ready(&device.data_servers).await.map_err(data_server_failure)?;
        Ok(placement)
    }

    /// The place of a file whose number is not known yet.
    ///
    /// # Errors
    /// NOSPC when there is no data server at all.
    pub(in crate::mds) fn next_placement(&self) -> Result<Placement, NfsStat> {
        self.choose_placement(self.turn.fetch_add(1, Relaxed))
    }

    /// Takes back a file that was made just now and has not all its objects: whoever asked is told
    /// so, and may ask again. One that others have found by now stays.
    fn unmake(&self, c: &mut Compound<Mds>, (dir, name): (InodeNo, &[u8]), made: &Inode) {
        let ino = made.no;
        if self.state().is_open(self.handle(ino).key()) {
            return;
        }
        // Whoever wrote to it, or was given a layout, has changed it.
        let expect = Some(Expect::Same { ino, change: made.change, unsettled: made.unsettled });
        let what = Remove { dir, name, expect, keep_orphan: true };
        let removed = self.volume.remove(&what, &Credential::superuser(), self.wall());
        match c.see(removed) {
            // Somebody who opened it just now has it to himself, and lets it go with his CLOSE.
            Ok(_) if self.state().is_open(self.handle(ino).key()) => {}
            Ok(_) => self.last_close(ino),
            Err(e) => tracing::debug!(ino = ino.0, status = %e.status, "a new file stays"),
        }
    }

    /// The objects of a file that has just got its place, unless the first write is to make them.
    ///
    /// # Errors
    /// Those of [`Mds::make_objects`].
    pub(in crate::mds) async fn objects_of_placed(
        &self,
        c: &Compound<Mds>,
        striped: &Striped,
    ) -> Result<(), Failure> {
        match self.creation {
            ObjectCreation::Implicit => Ok(()),
            ObjectCreation::Eager | ObjectCreation::Precreate(_) => {
                self.make_objects(c, striped).await
            }
        }
    }

    /// Makes all objects of a file, with one message to each of its data servers.
    ///
    /// # Errors
    /// DELAY, NOSPC, IO: some may be made.
    async fn make_objects(&self, c: &Compound<Mds>, striped: &Striped) -> Result<(), Failure> {
        // The place comes first: objects that nobody knows of would stay for ever.
        self.volume.durable(Lsn(c.depends_on)).await.map_err(|e| translate::status(&e))?;
        let made = self.data_servers.create(slice::from_ref(striped)).await;
        made.into_iter().collect::<Result<(), _>>().map_err(data_server_failure)
    }

    /// Waits until the place of a file that this compound has seen is durable, and the file with it.
    /// To be called before anything is written to its objects.
    ///
    /// # Errors
    /// IO.
    pub(in crate::mds) async fn placement_durable(&self, c: &Compound<Mds>) -> Result<(), Failure> {
        let placed = self.placement_lsn.last().min(Lsn(c.depends_on));
        Ok(self.volume.durable(placed).await.map_err(|e| translate::status(&e))?)
    }

    /// The layouts of a file that was removed are forgotten; its objects go now, before the reply, or
    /// later.
    pub(in crate::mds) async fn objects_of_removed(
        &self,
        c: &Compound<Mds>,
        intent: Option<Intent>,
    ) {
        let Some(intent) = intent else { return };
        self.forget_layouts(intent.ino);
        if self.creation != ObjectCreation::Eager || !self.removed_now(c, &intent).await {
            self.reap.notify_one();
        }
    }

    /// Whether all objects are gone. If not, the removal stands all the same: the reaper goes on.
    async fn removed_now(&self, c: &Compound<Mds>, intent: &Intent) -> bool {
        let file = self.striped_at(intent.ino, &intent.placement, intent.fence_epoch);
        let Some(file) = file else { return false };
        if self.volume.durable(Lsn(c.depends_on)).await.is_err() {
            return false;
        }
        let removed = self.data_servers.remove(slice::from_ref(&file)).await;
        removed.iter().all(Result::is_ok) && self.volume.complete_intent(intent.id).value.is_ok()
    }
}
