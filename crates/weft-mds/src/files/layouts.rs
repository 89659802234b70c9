//! What a layout stands on: a file on its data servers, whose older handles cannot be used any
//! more, and handles of its epoch (design D2, D3).

use bytes::Bytes;
use weft_layout::Rights;
use weft_nfs::{ClientId, Failure, IoMode, NfsStat, Stateid, Verifier};
use weft_server::refusal::refused;
use weft_store::types::{Acl, DataServerId, Device, DeviceId, Inode, InodeNo};

use super::{
    copies::may_differ,
    doubts::{Moment, is_of_use},
    layout_kind::LayoutKind,
    records::FenceCause,
    service::FileService,
};
use crate::{
    deps::Deps,
    striped::{Striped, can_be_told, will_be_told},
};

/// What of a file decides who may read and write it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ownership {
    mode: u16,
    acl: Option<Acl>,
    uid: u32,
    gid: u32,
}

impl From<&Inode> for Ownership {
    fn from(inode: &Inode) -> Self {
        let Inode { mode, acl, uid, gid, .. } = inode;
        Ownership { mode: *mode, acl: acl.clone(), uid: *uid, gid: *gid }
    }
}

/// A layout that a client wants of a file.
#[derive(Debug)]
pub(crate) struct LayoutWanted {
    pub(crate) client: ClientId,
    pub(crate) ino: InodeNo,
    /// The open, lock, delegation or layout it is asked for with.
    pub(crate) stateid: Stateid,
    pub(crate) iomode: IoMode,
    /// What its handles are to allow on the data servers.
    pub(crate) rights: Rights,
    /// The file by whose mode, list and owners the rights were judged.
    pub(crate) judged: Ownership,
    /// Largest body it has room for, bytes.
    pub(crate) body_bytes_max: usize,
}

impl FileService {
    /// Makes the file ready for a layout: on its data servers, with nothing left of a truncation
    /// or of handles that were taken away from somebody.
    ///
    /// # Errors
    /// LAYOUTTRYLATER while that takes long; LAYOUTUNAVAILABLE if the file cannot be brought to
    /// its data servers, has lost bytes, or the layout would be of no use
    /// ([`FileService::require_use`]): I/O goes through here then, what is read is here, and
    /// whoever writes is told what is wrong.
    pub(crate) async fn ready_for_layout(
        &self,
        deps: &mut Deps,
        inode: Inode,
        (client, iomode): (ClientId, IoMode),
    ) -> Result<(), Failure> {
        let ino = inode.no;
        let had_no_place = inode.placement.is_none();
        self.require_use(inode.placement.map(|p| p.device), client, iomode).await?;
        // An unfinished truncation comes before new writes, and so does the end of older handles.
        if self.refuse_grants(&inode).is_err() {
            self.fences.fence(inode.no).await.map_err(|_| NfsStat::LAYOUTTRYLATER)?;
            self.refuse_grants(&inode)?;
        }
        let there = self.migration.on_data_servers(deps, inode).await;
        let (there, striped) = there.map_err(|f| match f.status {
            NfsStat::NOSPC | NfsStat::NXIO => NfsStat::LAYOUTUNAVAILABLE.into(),
            NfsStat::DELAY => NfsStat::LAYOUTTRYLATER.into(),
            _ => f,
        })?;
        if had_no_place {
            self.require_use(there.placement.map(|p| p.device), client, iomode).await?;
        }
        let met = self.shared.data_servers.meet(&striped.data_servers).await;
        met.map_err(|_| NfsStat::LAYOUTTRYLATER)?;
        if self.shared.layout == LayoutKind::FlexFiles {
            self.require_end(ino).await?;
        }
        if iomode == IoMode::RW && self.shared.layout == LayoutKind::Files {
            let met = self.shared.data_servers.meet_verifiers(&striped.data_servers).await;
            met.map_err(|_| NfsStat::LAYOUTTRYLATER)?;
        }
        if iomode == IoMode::RW {
            // What is wrong is said here to whoever writes.
            let whole = self.shared.require_whole(ino).await;
            whole.map_err(|_| NfsStat::LAYOUTUNAVAILABLE)?;
        }
        Ok(())
    }

    /// The file for somebody who wants a layout of it, to read: if its copies may differ,
    /// and it takes a moment only to be sure that they do not, that is done. If it takes long it is
    /// done later, and the first is read until then.
    ///
    /// # Errors
    /// LAYOUTTRYLATER while somebody does it already.
    pub(crate) async fn to_be_read(
        &self,
        deps: &mut Deps,
        inode: Inode,
        iomode: IoMode,
    ) -> Result<Inode, Failure> {
        if iomode != IoMode::READ || !may_differ(&inode) || inode.stuffed {
            return Ok(inode);
        }
        let (ino, differing) = (inode.no, &self.shared.differing);
        let is_written = self.shared.protocol.state().is_open_to_write(self.key(ino));
        let is_away = self.waits_for_data_server(ino);
        if is_written || is_away || !differing.are_kept(ino) {
            // They may have become alike since the file was looked at.
            let inode = deps.see(self.shared.volume.inode(ino))?;
            if may_differ(&inode) {
                differing.meet(ino);
            }
            return Ok(inode);
        }
        // Once after a file was written: not a part of every request's memory.
        match Box::pin(self.copies.make_alike(deps, ino)).await {
            Err(Failure { status: NfsStat::DELAY, .. }) => Err(NfsStat::LAYOUTTRYLATER.into()),
            made => made,
        }
    }

    /// Whether a layout can say where the bytes of the file are, to read, or to write as well. Of
    /// copies it names all data servers: while one is away the others are read through here.
    pub(crate) fn can_be_told(&self, inode: &Inode, writes: bool) -> bool {
        match (&inode.placement, &inode.layout) {
            (Some(place), _) => {
                let misses_one = || place.is_copied() && self.waits_for_data_server(inode.no);
                can_be_told(&place.spread, writes) && !misses_one()
            }
            (None, Some(choice)) => will_be_told(&choice.deal),
            (None, None) => true,
        }
    }

    /// Its client could use a flexfiles layout on this device: the data server is there, has room
    /// if it is to be written to, and has not just failed the client. One that was away for a
    /// moment is waited for as long as requests to it are. Of a files layout nothing is asked: its
    /// device has many data servers, and Linux goes around the one that fails.
    ///
    /// # Errors
    /// LAYOUTUNAVAILABLE if not.
    async fn require_use(
        &self,
        device: Option<DeviceId>,
        client: ClientId,
        iomode: IoMode,
    ) -> Result<(), NfsStat> {
        let Some(Device { id, data_servers: members, .. }) = device.and_then(|id| self.device(id))
        else {
            return Ok(());
        };
        if self.shared.layout != LayoutKind::FlexFiles {
            return Ok(());
        }
        let servers = &self.shared.data_servers;
        // Whether it is there now is looked at below.
        let _ = servers.ready(&members).await;
        let met = self.doubts.standing(client, id, self.moment(&members));
        match is_of_use(servers.standing(&members).min(met), iomode) {
            true => Ok(()),
            false => Err(NfsStat::LAYOUTUNAVAILABLE),
        }
    }

    /// A client has met this at a device: it is given no layout there that fails the same way.
    /// Of a device that nobody knows nothing is kept.
    pub(crate) fn note_trouble(&self, client: ClientId, device: DeviceId, status: NfsStat) {
        if let Some(Device { data_servers, .. }) = self.device(device) {
            self.doubts.met(client, device, status, self.moment(&data_servers));
        }
    }

    fn moment(&self, members: &[DataServerId]) -> Moment {
        let connections = self.shared.data_servers.connections(members);
        Moment { now: self.shared.clock.now(), connections }
    }

    /// The file's size is not behind the end of its object, where a data server says `eof` for a
    /// flexfiles layout (ADR 31). New sizes make the object longer, so that it stays like that.
    ///
    /// # Errors
    /// LAYOUTUNAVAILABLE if it is: there is a hole at its end. LAYOUTTRYLATER if that cannot be
    /// asked.
    async fn require_end(&self, ino: InodeNo) -> Result<(), Failure> {
        let inode = self.shared.inode_now(ino)?;
        let Some(file) = self.shared.striped(&inode) else { return Ok(()) };
        if inode.size <= file.length_min(0) {
            return Ok(());
        }
        let told = self.shared.data_servers.fetch_attrs(&[&file]).await.pop();
        let told = told.and_then(Result::ok).ok_or(NfsStat::LAYOUTTRYLATER)?;
        let reaches = told.lengths.first().is_some_and(|length| *length >= inode.size);
        if reaches { Ok(()) } else { Err(NfsStat::LAYOUTUNAVAILABLE.into()) }
    }

    /// Nothing is granted while a truncation is under way, or handles that were taken away from
    /// somebody may still work.
    fn refuse_grants(&self, inode: &Inode) -> Result<(), NfsStat> {
        let refuses = self.shared.records.lock().refuses_grants(inode);
        if refuses { Err(NfsStat::LAYOUTTRYLATER) } else { Ok(()) }
    }

    /// Records the layout, in one critical section with the last look at what could forbid it: a
    /// truncation or a recall may have begun since the first, the epoch have been raised, or a
    /// right been taken away. Its stateid and its body.
    ///
    /// # Errors
    /// LAYOUTTRYLATER, TOOSMALL; those of the stateid.
    pub(crate) fn grant_layout(
        &self,
        deps: &mut Deps,
        wanted: &LayoutWanted,
    ) -> Result<(Stateid, Bytes), Failure> {
        let LayoutWanted { client, ino, stateid, iomode, rights, judged, body_bytes_max } = wanted;
        let mut files = self.shared.records.lock();
        let inode = deps.see(self.shared.volume.inode(*ino))?;
        if files.refuses_grants(&inode) || Ownership::from(&inode) != *judged {
            return Err(NfsStat::LAYOUTTRYLATER.into());
        }
        let striped = self.shared.striped(&inode).ok_or(NfsStat::SERVERFAULT)?;
        let (body, verifier) = self.layout_body(&inode, &striped, *rights)?;
        if verifier.is_some_and(|verifier| files.suspect_outdated(&inode, verifier)) {
            drop(files);
            self.fences.suspected(*ino);
            return Err(NfsStat::LAYOUTTRYLATER.into());
        }
        if body.len().next_multiple_of(4) > *body_bytes_max {
            return Err(NfsStat::TOOSMALL.into());
        }
        let key = self.shared.key(*ino);
        let mut state = self.shared.protocol.state();
        let holder = state.layout_check(*client, key, stateid, *iomode);
        let holder = holder.map_err(refused)?;
        let (writes, renewed) = (*iomode == IoMode::RW, !state.rw_layouts(key));
        let given = deps.see(self.shared.volume.give_handles(*ino, writes, renewed))?;
        let (body, verifier) = if given.fence_epoch == inode.fence_epoch {
            (body, verifier)
        } else {
            let striped = self.shared.striped(&given).ok_or(NfsStat::SERVERFAULT)?;
            self.layout_body(&given, &striped, *rights)?
        };
        if writes {
            files.grant(*client, &given, verifier);
        }
        Ok((state.layout_granted(&holder, *iomode), body))
    }

    /// The body of a layout, with these rights on the data servers, and the verifier that they tell
    /// whoever writes with it, if that is the file's.
    fn layout_body(
        &self,
        inode: &Inode,
        striped: &Striped,
        rights: Rights,
    ) -> Result<(Bytes, Option<Verifier>), NfsStat> {
        if !can_be_told(&striped.spread, rights.write) {
            return Err(NfsStat::LAYOUTUNAVAILABLE);
        }
        let device = inode.placement.as_ref().ok_or(NfsStat::SERVERFAULT)?.device;
        let device = weft_nfs::DeviceId(device.0);
        let servers = &self.shared.data_servers;
        let body = match self.shared.layout {
            LayoutKind::Files => servers.layout_body(striped, device, rights).map(Some),
            LayoutKind::FlexFiles => {
                let body = servers.flex_layout_body(striped, device, rights);
                body.map(|body| body.map(|body| (body, None)))
            }
        };
        let body = body.map_err(|e| {
            tracing::info!(ino = inode.no.0, error = %e, "no layout yet");
            NfsStat::LAYOUTTRYLATER
        });
        // Striped before the volume's layout type was another.
        body?.ok_or(NfsStat::LAYOUTUNAVAILABLE)
    }

    /// A write layout came back. If one of its data servers is down it may come from a client that
    /// gave that server up, with writes still queued there: no such write may land on top of what
    /// is written next. Then the data servers are asked for the last time, and size and times are
    /// settled (design D8).
    ///
    /// The layout is back whatever the data servers say: if they cannot be asked now, the file
    /// stays unsettled and the next reader of its size asks again.
    pub(crate) async fn layout_returned(&self, deps: &mut Deps, client: ClientId, ino: InodeNo) {
        let Ok(inode) = deps.see(self.shared.volume.inode(ino)) else { return };
        if let Some(file) = self.shared.striped(&inode)
            && !self.shared.data_servers.are_up(&file.data_servers)
        {
            self.fences.suspect_handles_of(client, ino, FenceCause::LateWrite);
        }
        let Ok(inode) = deps.see(self.shared.volume.inode(ino)) else { return };
        if let Err(f) = self.refresh(deps, inode).await {
            tracing::info!(ino = ino.0, status = %f.status, "file stays unsettled");
        }
    }

    /// What a client was given of a file to write with is to be fenced: until that is done nobody
    /// is given a layout.
    pub(crate) fn suspect_handles_of(&self, client: ClientId, ino: InodeNo) {
        self.fences.suspect_handles_of(client, ino, FenceCause::Revoked);
    }

    /// What a client was given of a file is taken away: its handles stop working, durably, before
    /// anyone else relies on it.
    ///
    /// # Errors
    /// They may still work: that could not be now.
    pub(crate) async fn revoke_handles(
        &self,
        client: ClientId,
        ino: InodeNo,
    ) -> Result<(), NfsStat> {
        self.fences.suspect_handles_of(client, ino, FenceCause::Revoked);
        self.fences.fence(ino).await
    }

    /// Whether the file has handles that are to end: a right was taken away.
    ///
    /// # Errors
    /// STALE; the volume cannot be read.
    pub(crate) fn owes_end(&self, ino: InodeNo) -> Result<bool, NfsStat> {
        Ok(self.shared.inode_now(ino)?.handles.owed)
    }

    /// The handles of a file that are to end do so, durably.
    ///
    /// # Errors
    /// DELAY, they may still work: a data server cannot be told now.
    pub(crate) async fn end_owed(&self, ino: InodeNo) -> Result<(), NfsStat> {
        self.fences.end_owed(ino).await
    }

    /// Files whose data servers are still to be told that handles have ended.
    pub(crate) fn waiting_for_fences(&self) -> usize {
        self.shared.records.lock().all_stale().len()
    }

    /// The device of that name; `None` if nobody knows it.
    pub(crate) fn device(&self, id: DeviceId) -> Option<Device> {
        self.shared.placements.device(id)
    }
}
