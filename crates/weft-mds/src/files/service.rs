//! The file service: everything that is done to files, for whoever stands above.

use std::sync::Arc;

use tokio::sync::Semaphore;
use weft_nfs::{ClientId, Failure, Fsid, NfsStat};
use weft_server::clock::Clock;
use weft_state::FileKey;
use weft_store::{
    types::{
        Credential, DataServerId, Inode, InodeNo, Intent, LayoutChoice, StoreError, Timestamp,
    },
    volume::{Created, New, Volume},
};

use super::{
    births::BirthJudge,
    change::Changes,
    copies::Copies,
    creation::{Creation, ObjectCreation},
    differing::Differing,
    doubts::Doubts,
    fence::Fences,
    layout_kind::LayoutKind,
    migration::{Migration, SmallFiles},
    placement::{PlacementLsn, Placements, Striping},
    reaper::{Owed, Reaper},
    records::Records,
    server_attrs::{Looker, ServerAttrs, WriterTold},
    shared::Shared,
    unconfirmed::Unconfirmed,
};
use crate::{
    data_servers::DataServers, deps::Deps, handle::Handle, protocol_state::ProtocolState,
    striped::Striped,
};

/// Steps of all copies at once. Each is a few megabytes here, or a thread of each data server's,
/// and asking for one costs a client next to nothing.
const COPY_STEPS_AT_ONCE: usize = 16;

/// What a file service is made of.
pub(crate) struct FileParts {
    pub(crate) volume: Volume,
    pub(crate) data_servers: Arc<DataServers>,
    pub(crate) striping: Striping,
    pub(crate) layout: LayoutKind,
    pub(crate) small_files: SmallFiles,
    pub(crate) creation: ObjectCreation,
    pub(crate) protocol: Arc<ProtocolState>,
    pub(crate) clock: Clock,
    /// Lease, seconds.
    pub(crate) lease_s: u32,
}

/// The files of a volume. How their bytes are changed is in [`super::change`].
pub(crate) struct FileService {
    pub(super) shared: Arc<Shared>,
    pub(super) fences: Arc<Fences>,
    pub(super) attrs: Arc<ServerAttrs>,
    pub(super) changes: Arc<Changes>,
    pub(super) migration: Arc<Migration>,
    pub(super) copies: Arc<Copies>,
    creation: Arc<Creation>,
    births: Arc<BirthJudge>,
    reaper: Arc<Reaper>,
    /// What clients have met at data servers.
    pub(super) doubts: Doubts,
    /// Room for steps of copies.
    pub(super) copy_steps: Semaphore,
}

impl FileService {
    /// Opens the files of a volume: unfinished work is taken up.
    ///
    /// # Errors
    /// The volume cannot be read, or the devices cannot be recorded.
    pub(crate) async fn start(parts: FileParts) -> Result<Arc<Self>, StoreError> {
        let volume = parts.volume;
        let number = volume.identity().number;
        let servers = parts.data_servers.clone();
        let makes_all = parts.creation != ObjectCreation::Implicit;
        let striping = (parts.layout.stripes(parts.striping), makes_all);
        let shared = Arc::new(Shared {
            placements: Placements::open(&volume, number, servers, striping).await?,
            placement_lsn: PlacementLsn::default(),
            records: Records::default(),
            differing: Differing::default(),
            unconfirmed: Unconfirmed::default(),
            volume,
            volume_number: number,
            data_servers: parts.data_servers,
            protocol: parts.protocol,
            clock: parts.clock,
            layout: parts.layout,
            lease_s: parts.lease_s,
        });
        let reaper = Arc::new(Reaper::start(shared.clone())?);
        let fences = Arc::new(Fences::new(shared.clone()));
        let attrs = Arc::new(ServerAttrs::new(shared.clone()));
        let changes = Arc::new(Changes::new(&shared, &fences, &attrs, &reaper));
        let limit = parts.small_files.stuffing_limit_bytes;
        let creation = Arc::new(Creation::start(&shared, &reaper, parts.creation, limit > 0)?);
        let migration = Arc::new(Migration::start(&shared, &changes, &creation, limit)?);
        let copies = Copies::new(&shared, &changes, &fences, &migration);
        let births = Arc::new(BirthJudge::new(shared.clone()));
        let copy_steps = Semaphore::new(COPY_STEPS_AT_ONCE);
        Ok(Arc::new(FileService {
            shared,
            fences,
            attrs,
            changes,
            migration,
            copies,
            creation,
            births,
            reaper,
            doubts: Doubts::default(),
            copy_steps,
        }))
    }

    /// Fences, removals, unfinished truncations, objects made ahead and copies made alike: what
    /// waits for data servers; what those want to make, and how much room they have. Runs for ever.
    pub(crate) async fn run_background(&self) {
        tokio::join!(
            self.fences.clone().run(),
            self.reaper.run(),
            self.creation.run(),
            self.births.clone().run(),
            self.copies.clone().run(),
            self.shared.data_servers.watch_room(),
        );
    }

    /// Removals and truncations that wait for data servers.
    pub(crate) fn owed(&self) -> Owed {
        self.reaper.owed()
    }

    /// Refuses what makes names while the volume's disk is full.
    ///
    /// # Errors
    /// NOSPC.
    pub(crate) fn admit_growth(&self) -> Result<(), NfsStat> {
        if self.volume().has_room() { Ok(()) } else { Err(NfsStat::NOSPC) }
    }

    /// The volume: names and attributes.
    pub(crate) fn volume(&self) -> &Volume {
        &self.shared.volume
    }

    /// How new files are striped from now on.
    pub(crate) fn striping(&self) -> Striping {
        self.shared.placements.striping()
    }

    /// Those of the data servers that a choice names which nobody knows.
    pub(crate) fn unknown_servers(&self, choice: &LayoutChoice) -> Vec<DataServerId> {
        self.shared.placements.unknown_in(choice)
    }

    /// Whether there are as many data servers as a choice wants copies.
    pub(crate) fn has_servers_for(&self, choice: &LayoutChoice) -> bool {
        self.shared.placements.has_servers_for(choice)
    }

    /// How new files are striped from now on.
    pub(crate) fn stripe(&self, striping: Striping) {
        self.shared.placements.stripe(self.shared.layout.stripes(striping));
    }

    /// How clients are told where files are.
    pub(crate) fn layout(&self) -> LayoutKind {
        self.shared.layout
    }

    /// The data servers.
    pub(crate) fn data_servers(&self) -> &Arc<DataServers> {
        &self.shared.data_servers
    }

    /// The file system id of the volume.
    pub(crate) fn fsid(&self) -> Fsid {
        self.shared.fsid()
    }

    /// What the parts of this service share.
    #[cfg(test)]
    pub(crate) fn shared(&self) -> &Shared {
        &self.shared
    }

    /// What ends handles that were given out.
    #[cfg(test)]
    pub(crate) fn fences(&self) -> &Arc<Fences> {
        &self.fences
    }

    /// The filehandle of the root.
    pub(crate) fn root(&self) -> Handle {
        self.handle(InodeNo::ROOT)
    }

    /// The filehandle of an inode.
    pub(crate) fn handle(&self, ino: InodeNo) -> Handle {
        self.shared.handle(ino)
    }

    /// The state machines' name of a file.
    pub(crate) fn key(&self, ino: InodeNo) -> FileKey {
        self.shared.key(ino)
    }

    /// Wall time, for timestamps.
    pub(crate) fn wall(&self) -> Timestamp {
        self.shared.wall()
    }

    /// A placed file as its data servers know it.
    pub(crate) fn striped(&self, inode: &Inode) -> Option<Striped> {
        self.shared.striped(inode)
    }

    /// Whether a truncation of the file is under way, or waits for a data server.
    pub(crate) fn is_being_cut(&self, ino: InodeNo) -> bool {
        self.shared.records.lock().is_being_cut(ino)
    }

    /// Number of the volume in the names of objects.
    pub(crate) fn volume_number(&self) -> u32 {
        self.shared.volume_number
    }

    /// Whether a file of this size may be kept in the volume.
    pub(crate) fn is_small(&self, size: u64) -> bool {
        self.migration.is_small(size)
    }

    /// Whether the volume can copy from one file to another by itself, and the other one, which
    /// then reaches at least to `end`, can stay there.
    pub(crate) fn copies_in_volume(&self, source: &Inode, destination: &Inode, end: u64) -> bool {
        let are_here = source.stuffed && destination.stuffed && !destination.is_moving();
        are_here && self.migration.may_stuff() && self.is_small(end)
    }

    /// Files to come whose objects are made; absent unless objects are made ahead.
    pub(crate) fn files_ahead(&self) -> Option<usize> {
        self.creation.files_ahead()
    }

    /// Makes a regular file, or finds it, with its objects as the configuration wants them.
    ///
    /// # Errors
    /// Those of [`Creation::make_file`].
    pub(crate) async fn make(
        &self,
        deps: &mut Deps,
        at: (InodeNo, &[u8]),
        new: New,
        cred: &Credential,
    ) -> Result<Created, Failure> {
        self.creation.make_file(deps, at, new, cred).await
    }

    /// The last name of a file is gone: its layouts are forgotten, and its objects go now, before
    /// the reply, or later.
    pub(crate) async fn removed(&self, deps: &Deps, intent: Option<Intent>) {
        self.creation.objects_of_removed(deps, intent).await;
    }

    /// The last open of a file is gone: if the volume knows its size it says so, and an unlinked
    /// file goes now.
    pub(crate) fn closed(&self, ino: InodeNo) {
        self.attrs.clear_extending(ino);
        self.shared.differing.closed(ino);
        self.release(ino);
    }

    /// Nobody has the file open: an unlinked one goes now.
    pub(crate) fn release(&self, ino: InodeNo) {
        self.reaper.release(ino);
    }

    /// Releases files that were unlinked while open, and that nobody reclaimed in grace; whether
    /// all of them could be looked at.
    pub(crate) fn release_unclaimed(&self) -> bool {
        self.reaper.release_unclaimed()
    }

    /// The inode with the size and times that its data servers tell, if only they know.
    ///
    /// # Errors
    /// DELAY while a data server cannot be asked.
    pub(crate) async fn refresh(&self, deps: &mut Deps, inode: Inode) -> Result<Inode, Failure> {
        self.attrs.refresh(deps, inode).await
    }

    /// The inodes for a client that looks at their attributes.
    ///
    /// # Errors
    /// For each those of [`ServerAttrs::look`].
    pub(crate) async fn look(
        &self,
        deps: &mut Deps,
        looker: Looker,
        inodes: Vec<Inode>,
    ) -> Vec<Result<Inode, Failure>> {
        self.attrs.look(deps, looker, inodes).await
    }

    /// The inode as others see it while a client keeps changes of the file to itself.
    ///
    /// # Errors
    /// STALE.
    pub(crate) fn heard(
        &self,
        deps: &mut Deps,
        inode: Inode,
        told: &WriterTold,
    ) -> Result<Inode, Failure> {
        self.attrs.heard(deps, inode, told)
    }

    /// Whether bytes of a file may have to go to a data server that is away.
    pub(crate) fn waits_for_data_server(&self, ino: InodeNo) -> bool {
        let placed = self.shared.inode_now(ino).ok().and_then(|inode| self.shared.striped(&inode));
        let servers = &self.shared.data_servers;
        placed.is_some_and(|file| !servers.are_up(&file.data_servers))
    }

    /// Whether only the data servers know the size and times of a file.
    pub(crate) fn must_fetch(&self, inode: &Inode) -> bool {
        self.attrs.must_fetch(inode)
    }

    /// The file on its data servers.
    ///
    /// # Errors
    /// Those of [`Migration::on_data_servers`].
    pub(crate) async fn on_data_servers(
        &self,
        deps: &mut Deps,
        inode: Inode,
    ) -> Result<Inode, Failure> {
        Ok(self.migration.on_data_servers(deps, inode).await?.0)
    }

    /// The file on its data servers, where another can be copied to it by them alone.
    ///
    /// # Errors
    /// Those of [`Migration::on_data_servers`].
    pub(crate) async fn place_beside(
        &self,
        deps: &mut Deps,
        source: (&Inode, u64),
        destination: (Inode, u64),
    ) -> Result<(), Failure> {
        self.migration.place_beside(deps, source, destination).await
    }

    /// Ends what a client held of files: opens, locks, layouts. Its files are fenced in the
    /// background; nobody takes them for quiet before.
    pub(crate) fn drop_client(&self, client: ClientId) {
        let dropped = {
            let mut files = self.shared.records.lock();
            let dropped = self.shared.protocol.state().drop_client(client);
            for file in &dropped.rw_layouts {
                files.suspect_revoked(InodeNo(file.object));
            }
            files.forget_client(client);
            dropped
        };
        self.fences.wake();
        dropped.closed.into_iter().for_each(|file| self.closed(InodeNo(file.object)));
    }

    /// Gives back all layouts of a client that is to be ended, to read ones as well: none of their
    /// handles is to work any more. They are fenced in the background.
    pub(crate) fn end_layouts_of(&self, client: ClientId) {
        let mut files = self.shared.records.lock();
        let held = self.shared.protocol.state().layout_return_all(client, None);
        held.into_iter().for_each(|(file, _)| files.suspect_revoked(InodeNo(file.object)));
        self.fences.wake();
    }

    /// Files that a start comes across: what was not finished is taken up.
    pub(crate) fn take_up(&self, files: &[Inode]) {
        self.copies.meet(files);
    }

    /// Forgets files that nothing happens to, when there are many.
    pub(crate) fn purge(&self) {
        let mut files = self.shared.records.lock();
        let state = self.shared.protocol.state();
        files.purge(|ino| state.rw_layouts(self.shared.key(ino)));
    }
}
