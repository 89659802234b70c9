//! What all parts of the file service stand on.

use std::sync::Arc;

use weft_nfs::{Failure, Fsid, NfsStat, StableHow, Verifier};
use weft_server::clock::Clock;
use weft_state::FileKey;
use weft_store::{
    types::{Inode, InodeNo, Placement, StoreError, Timestamp},
    volume::Volume,
};

use super::{
    differing::Differing,
    layout_kind::LayoutKind,
    placement::{PlacementLsn, Placements},
    records::Records,
    unconfirmed::Unconfirmed,
};
use crate::{
    data_servers::{DataServerError, DataServers},
    deps::Deps,
    handle::Handle,
    protocol_state::ProtocolState,
    striped::Striped,
    translate,
};

/// The volume, the data servers, and what is remembered of files beside both.
pub(crate) struct Shared {
    pub(crate) volume: Volume,
    /// Number of the volume in filehandles.
    pub(crate) volume_number: u32,
    pub(crate) data_servers: Arc<DataServers>,
    pub(crate) placements: Placements,
    pub(crate) placement_lsn: PlacementLsn,
    pub(crate) records: Records,
    pub(crate) differing: Differing,
    pub(crate) unconfirmed: Unconfirmed,
    /// Asked who may write, and who may still reclaim that.
    pub(crate) protocol: Arc<ProtocolState>,
    pub(crate) clock: Clock,
    /// How clients are told where files are.
    pub(crate) layout: LayoutKind,
    /// Lease, seconds.
    pub(crate) lease_s: u32,
}

impl Shared {
    /// The file system id of the volume.
    pub(crate) fn fsid(&self) -> Fsid {
        let (major, minor) = self.volume.identity().fsid;
        Fsid { major, minor }
    }

    /// The filehandle of an inode.
    pub(crate) fn handle(&self, ino: InodeNo) -> Handle {
        Handle { volume: self.volume_number, ino }
    }

    /// The state machines' name of a file.
    pub(crate) fn key(&self, ino: InodeNo) -> FileKey {
        self.handle(ino).key()
    }

    /// Wall time, for timestamps.
    pub(crate) fn wall(&self) -> Timestamp {
        let (seconds, nanos) = self.clock.wall();
        Timestamp { seconds, nanos }
    }

    /// A placed file as its data servers know it; `None` while it has no place.
    pub(crate) fn striped(&self, inode: &Inode) -> Option<Striped> {
        let placement = inode.placement.as_ref()?;
        let mut file = self.placements.striped_at(inode.no, placement, inode.fence_epoch)?;
        if !inode.bounds.is_none() {
            let of = |index| inode.bounds.of(placement, index);
            file.lengths_min = (0..file.data_servers.len()).map(of).collect();
        }
        Some(file)
    }

    /// The file as it is now, for work that no reply waits for and for decisions that are looked
    /// at again under the lock of the records: what it was derived from need not be durable.
    ///
    /// # Errors
    /// Those of the store, as statuses.
    pub(crate) fn inode_now(&self, ino: InodeNo) -> Result<Inode, NfsStat> {
        self.volume.inode(ino).unconfirmed().map_err(|e| translate::status(&e))
    }

    /// A write through here has ended: how long it made the objects is kept until the volume takes
    /// it in. Whoever calls is not alone with the file, but nobody cuts it meanwhile.
    pub(crate) fn note_written(
        &self,
        file: &Striped,
        (offset, len): (u64, usize),
        (committed, verifier): (StableHow, Verifier),
    ) {
        let Ok(rule) = file.distribution() else { return };
        let mut ends = vec![0; file.data_servers.len()];
        for extent in rule.extents(offset, len as u64) {
            for home in rule.homes(extent.stripe_index) {
                if let Some(end) = ends.get_mut(home as usize) {
                    *end = extent.object_offset + extent.len;
                }
            }
        }
        let unstable = (committed == StableHow::UNSTABLE).then_some(verifier);
        if let Some(verifier) = unstable.filter(|_| file.is_copied()) {
            self.differing.told(InodeNo(file.object), verifier);
        }
        self.records.lock().wrote(InodeNo(file.object), &ends, unstable);
    }

    /// Makes durable what the objects of a file have: the verifier, to be compared with those of
    /// writes. Whoever asks, others wait from now on for writers whom it denies bytes: a COMMIT of
    /// theirs finds no record of that.
    ///
    /// # Errors
    /// Those of data servers.
    pub(crate) async fn commit_objects(&self, file: &Striped) -> Result<Verifier, DataServerError> {
        let ino = InodeNo(file.object);
        let began = self.records.lock().committing(ino);
        let told = self.data_servers.commit(file).await?;
        if let Some(began) = began {
            if began.is_denied_by(told) {
                tracing::info!(
                    ino = ino.0,
                    "a data server may have lost bytes: others wait for them"
                );
                self.unconfirmed.told(ino, self.clock.now());
            }
            self.records.lock().committed(ino, &began, told);
        }
        Ok(told)
    }

    /// The same after data servers have changed the objects among themselves: they are asked.
    ///
    /// # Errors
    /// Those of data servers.
    pub(crate) async fn note_lengths(
        &self,
        file: &Striped,
        unstable: Option<Verifier>,
    ) -> Result<(), DataServerError> {
        if let Some(told) = self.data_servers.fetch_attrs(&[file]).await.pop() {
            self.records.lock().wrote(InodeNo(file.object), &told?.lengths, unstable);
        }
        Ok(())
    }

    /// Waits until all that was seen so far is durable.
    ///
    /// # Errors
    /// IO: it never will be.
    pub(crate) async fn durable(&self, deps: &Deps) -> Result<(), NfsStat> {
        self.volume.durable(deps.lsn()).await.map_err(|e| translate::status(&e))
    }

    /// The file as it is now, once that is durable: a data server that knows an epoch which a
    /// crash takes back would refuse everybody.
    ///
    /// # Errors
    /// Those of the store.
    pub(crate) async fn durable_inode(&self, ino: InodeNo) -> Result<Inode, StoreError> {
        let seen = self.volume.inode(ino);
        let inode = seen.value?;
        self.volume.durable(seen.lsn).await?;
        Ok(inode)
    }

    /// Waits until an epoch of the file is durable, which data servers are about to hear of.
    ///
    /// # Errors
    /// Those of the store, as statuses.
    pub(crate) async fn epoch_durable(&self, ino: InodeNo, epoch: u32) -> Result<(), NfsStat> {
        let is_durable = self.records.lock().is_durable(ino, epoch);
        if !is_durable {
            let inode = self.durable_inode(ino).await.map_err(|e| translate::status(&e))?;
            self.records.lock().durable(ino, inode.fence_epoch);
        }
        Ok(())
    }

    /// The file with a placement: it gets one now if it had none, `wish` if there is one.
    ///
    /// # Errors
    /// Those of [`Placements::next`].
    pub(crate) async fn placed(
        &self,
        deps: &mut Deps,
        inode: Inode,
        wish: Option<Placement>,
    ) -> Result<(Inode, Striped), Failure> {
        let inode = match inode.placement {
            Some(_) => inode,
            None => {
                let chosen = match wish {
                    Some(wish) => wish,
                    None => self.placements.next(inode.layout.as_deref()).await?,
                };
                if chosen.is_copied() {
                    // They are empty.
                    self.differing.begin(inode.no);
                }
                deps.see(self.placement_lsn.give(|| self.volume.place(inode.no, chosen)))?
            }
        };
        let striped = self.striped(&inode).ok_or(NfsStat::SERVERFAULT)?;
        Ok((inode, striped))
    }

    /// The file as it is when data servers may have objects for bytes up to `end`, durably
    /// (ADR 21).
    ///
    /// # Errors
    /// STALE; IO if nothing can be made durable.
    pub(crate) async fn reaching(
        &self,
        deps: &mut Deps,
        inode: Inode,
        place: &Placement,
        end: u64,
    ) -> Result<Inode, Failure> {
        let reach = place.reach_to(end);
        let inode = match place.reach < reach {
            true => deps.see(self.placement_lsn.give(|| self.volume.reach(inode.no, reach)))?,
            false => inode,
        };
        // Also what others have let it reach just now.
        self.placement_durable(deps).await?;
        Ok(inode)
    }

    /// The copies of a replicated file may differ from here on, durably (ADR 39). Those that are
    /// alike do not come to differ while a data server is away: they are read from the others.
    ///
    /// # Errors
    /// STALE; DELAY while a data server is away; IO if nothing can be made durable.
    pub(crate) async fn parting(&self, deps: &mut Deps, inode: Inode) -> Result<(), Failure> {
        let ino = inode.no;
        let file = self.striped(&inode).ok_or(NfsStat::SERVERFAULT)?;
        let were_alike = file.copies_alike() == Some(true);
        if were_alike {
            let ready = self.data_servers.ready(&file.data_servers).await;
            ready.map_err(|e| translate::data_server_status(&e))?;
        }
        // Only whoever has parted them knows that they were alike.
        let has_parted = were_alike
            && deps.see(self.placement_lsn.give(|| self.volume.copies_may_differ(ino)))?.1;
        match has_parted {
            true => self.differing.begin(ino),
            false => self.differing.goes_on(ino),
        }
        // Also what others have said just now.
        self.placement_durable(deps).await
    }

    /// Waits until the place of a file that `deps` has seen is durable, and the file with it. To
    /// be called before anything is written to its objects: after a crash the number, and with it
    /// the objects, could be another file's.
    ///
    /// # Errors
    /// IO.
    pub(crate) async fn placement_durable(&self, deps: &Deps) -> Result<(), Failure> {
        let placed = self.placement_lsn.last().min(deps.lsn());
        Ok(self.volume.durable(placed).await.map_err(|e| translate::status(&e))?)
    }
}
