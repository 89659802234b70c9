//! Sizes and times are right without LAYOUTCOMMIT (design D8): while a write layout is out, the
//! data servers are asked before an answer depends on them. While one of them is away, who merely
//! looks is told what was known last, and who may rely on it waits (ADR 11).

use std::{collections::HashMap, sync::Arc};

use weft_nfs::{ClientId, Failure, NfsStat};
use weft_state::LetsGo;
use weft_store::{
    types::{Inode, InodeNo, SetIdLoss, StoreError},
    volume::Settle,
};

use super::{
    records::{Marks, SizeAuthority},
    shared::Shared,
};
use crate::{
    data_servers::{DataServerError, FileObjects},
    deps::Deps,
    striped::Striped,
    translate,
};

/// How a file was when the data servers were asked.
#[derive(Debug, Clone, Copy)]
struct Asked {
    marks: Marks,
    /// How many connections to its data servers were made before.
    connections: u64,
    /// No write layout was out, no handle of an earlier one worked, and nobody wrote indirectly.
    quiet: bool,
    /// The last epoch of write layouts, if they are all back: nobody writes any more with it, or
    /// with one before.
    ended: Option<u32>,
}

/// What the client says to whom a file is delegated to write (CB_GETATTR).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WriterTold {
    /// Size in bytes, with what only the client has.
    pub(crate) size: u64,
    /// The change attribute.
    pub(crate) change: u64,
    /// What that is if it has no changes that we do not know.
    pub(crate) unchanged: u64,
}

/// Who looks at the attributes of files.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Looker {
    /// The client.
    pub(crate) client: ClientId,
    /// What it gives back with that.
    pub(crate) lets_go: LetsGo,
    /// It wants to know what they occupy, too.
    pub(crate) occupied: bool,
}

/// What is answered when a data server does not tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Otherwise {
    /// That it is not known now.
    Fail,
    /// What the volume has, and every client was told at most that: the size is a lower bound.
    LowerBound,
}

/// Keeps sizes and times right while data servers know more than the volume.
pub(crate) struct ServerAttrs {
    shared: Arc<Shared>,
}

impl ServerAttrs {
    /// Of these files.
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        ServerAttrs { shared }
    }

    /// The inode with the size and times that its data servers tell, if it is unsettled.
    ///
    /// # Errors
    /// DELAY while a data server cannot be asked: the truth is not known.
    pub(crate) async fn refresh(&self, deps: &mut Deps, inode: Inode) -> Result<Inode, Failure> {
        if !inode.unsettled || inode.placement.is_none() {
            return Ok(inode);
        }
        if !self.must_fetch(&inode) {
            // It may have been learned since the file was looked at.
            return deps.see(self.shared.volume.inode(inode.no));
        }
        let Some((asked, striped)) = self.asking(&inode) else { return Ok(inode) };
        let mut told = Some(self.ask(&striped, &asked).await?);
        if let Some(Ok(objects)) = &mut told
            && objects.unsynced
            && asked.quiet
        {
            // Nobody is left who would ask for it: what is taken for there must stay there.
            objects.unsynced = !Box::pin(self.made_durable(&striped, asked.connections)).await;
        }
        self.conclude(deps, inode, (asked, Otherwise::Fail), told)
    }

    /// What the data servers say of a file; they let none of those write any more who gave all
    /// write layouts back.
    ///
    /// # Errors
    /// The store failed, so that nobody was asked.
    async fn ask(
        &self,
        file: &Striped,
        asked: &Asked,
    ) -> Result<Result<FileObjects, DataServerError>, NfsStat> {
        let servers = &self.shared.data_servers;
        Ok(match asked.ended {
            Some(fence_epoch) => {
                self.shared.epoch_durable(InodeNo(file.object), file.fence_epoch).await?;
                servers.seal(&Striped { fence_epoch, ..file.clone() }).await
            }
            None => {
                let told = servers.fetch_attrs(&[file]).await.pop();
                told.unwrap_or_else(|| Ok(FileObjects::default()))
            }
        })
    }

    /// Whether all that the data servers had when they were asked is durable now.
    async fn made_durable(&self, file: &Striped, connections: u64) -> bool {
        let servers = &self.shared.data_servers;
        servers.commit(file).await.is_ok() && servers.connections(&file.holder_ids()) == connections
    }

    /// Whether only the data servers know the size and times of a file.
    pub(crate) fn must_fetch(&self, inode: &Inode) -> bool {
        inode.unsettled
            && self.shared.records.lock().size_authority(inode) == SizeAuthority::DataServers
    }

    /// Before an indirect write that ends at `end`, and while it is under way: a file that is to
    /// grow on its data servers is unsettled, durably. A crash in the middle may leave bytes behind
    /// the end that the volume knows, which would show when the file grows over them; so its data
    /// servers are asked then, and what they have of the write is in the file. The file as it is
    /// now.
    ///
    /// # Errors
    /// STALE; IO if nothing can be made durable.
    pub(crate) async fn mark_extending(
        &self,
        deps: &mut Deps,
        ino: InodeNo,
        end: u64,
    ) -> Result<Inode, Failure> {
        let lsn = {
            // Under the lock no write layout is granted, and nobody settles the file.
            let mut files = self.shared.records.lock();
            let seen = self.shared.volume.inode(ino);
            let lsn = seen.lsn;
            let inode = deps.see(seen)?;
            let is_there = inode.placement.is_some() && !inode.stuffed;
            if end <= inode.size || !is_there {
                return Ok(inode);
            }
            if inode.unsettled {
                lsn
            } else {
                let marked = self.shared.volume.mark_unsettled(ino);
                let lsn = marked.lsn;
                deps.see(marked)?;
                files.mark_extending(&inode);
                lsn
            }
        };
        self.shared.volume.durable(lsn).await.map_err(|e| translate::status(&e))?;
        deps.see(self.shared.volume.inode(ino))
    }

    /// The file is open no more: if the volume knows its size it says so. That need not be durable.
    pub(crate) fn clear_extending(&self, ino: InodeNo) {
        let mut files = self.shared.records.lock();
        let lengths = files.take_written(ino);
        let settled = files.closed(ino);
        if settled || !lengths.is_empty() {
            self.take_in(ino, &lengths, settled);
        }
    }

    /// The volume learns how long the objects are at least, of what was written through here. To be
    /// called before they are cut, alone with the file.
    pub(crate) fn take_in_written(&self, ino: InodeNo) {
        let mut files = self.shared.records.lock();
        let lengths = files.take_written(ino);
        if !lengths.is_empty() {
            self.take_in(ino, &lengths, false);
        }
    }

    fn take_in(&self, ino: InodeNo, lengths: &[u64], settled: bool) {
        let (learned, now) = (Settle { settled, ..Settle::NOTHING_NEW }, self.shared.wall());
        let seen = self.shared.volume.settle_lengths(ino, &learned, lengths, now);
        match seen.unconfirmed() {
            Ok(_) | Err(StoreError::Stale) => {}
            Err(e) => tracing::error!(ino = ino.0, error = %e, "the file stays unsettled"),
        }
    }

    /// How the file is, and where its objects may be, in one look: if it is quiet none comes to be
    /// elsewhere. `None` if it has no place.
    fn asking(&self, inode: &Inode) -> Option<(Asked, Striped)> {
        let mut files = self.shared.records.lock();
        let marks = files.marks(inode);
        let out = self.shared.protocol.state().rw_layouts(self.shared.key(inode.no));
        let writes = out || files.has_writers(inode.no);
        let quiet = !writes && files.stale(inode.no).is_none();
        let now = self.shared.inode_now(inode.no).ok();
        let file = self.shared.striped(now.as_ref().unwrap_or(inode))?;
        let connections = self.shared.data_servers.connections(&file.holder_ids());
        // Of a file that was settled, whoever was the last to write has ended, unless there may be
        // handles since.
        let may_end = |now: &Inode| quiet && (now.unsettled || now.handles.write);
        let ended = now.filter(may_end).and_then(|now| now.last_writing_epoch());
        Some((Asked { marks, connections, quiet, ended }, file))
    }

    /// Takes note of what the data servers say after a change that we made ourselves, so that it
    /// is no news later. How long the objects are, if they say so.
    pub(crate) async fn note_own_change(&self, inode: &Inode) -> Option<Vec<u64>> {
        let striped = self.shared.striped(inode)?;
        let told = self.shared.data_servers.fetch_attrs(&[&striped]).await.pop()?.ok()?;
        self.shared.records.lock().fetched_own(inode, told.attrs);
        Some(told.lengths)
    }

    /// The inodes for a client that looks at their attributes, with one message per data server. Of
    /// a file on whose size it does not rely it is told the last that is known while a data server
    /// cannot tell. Such a size is never less than what a client was told before, since what is
    /// told is in the volume.
    ///
    /// # Errors
    /// For each, DELAY while a data server cannot be asked about a file on whose size the client
    /// may rely.
    //
    // RFC 8881 §12.5.4.2: before LAYOUTCOMMIT others need not see what was written.
    pub(crate) async fn look(
        &self,
        deps: &mut Deps,
        looker: Looker,
        inodes: Vec<Inode>,
    ) -> Vec<Result<Inode, Failure>> {
        let Looker { client, lets_go, occupied } = looker;
        let protocol = &self.shared.protocol;
        let relies = |ino| protocol.state().relies_on_size(client, self.shared.key(ino), lets_go);
        let otherwise = |ino| if relies(ino) { Otherwise::Fail } else { Otherwise::LowerBound };
        let placed: Vec<_> = inodes
            .iter()
            .enumerate()
            .filter_map(|(at, i)| self.looking(i, occupied).map(|(asked, file)| (at, file, asked)))
            .collect();
        let only_asked = placed.iter().filter(|(_, _, asked)| asked.ended.is_none());
        let files: Vec<_> = only_asked.map(|(_, striped, _)| striped).collect();
        let mut fetched = self.shared.data_servers.fetch_attrs(&files).await.into_iter();
        let mut answers = HashMap::new();
        for (at, striped, asked) in &placed {
            let told = match asked.ended {
                // Rare: their return was not heard by all data servers.
                // A volume that has stopped says so with the answer.
                Some(_) => self.ask(striped, asked).await.ok(),
                None => fetched.next(),
            };
            answers.extend(told.map(|told| (*at, (*asked, told))));
        }
        let mut out = Vec::with_capacity(inodes.len());
        for (at, inode) in inodes.into_iter().enumerate() {
            out.push(match answers.remove(&at) {
                Some((asked, told)) if !inode.unsettled => {
                    Ok(self.note_occupied(inode, &asked, told))
                }
                Some((asked, attrs)) => {
                    let how = (asked, otherwise(inode.no));
                    self.conclude(deps, inode, how, Some(attrs))
                }
                None if inode.unsettled => deps.see(self.shared.volume.inode(inode.no)),
                None => Ok(inode),
            });
        }
        out
    }

    /// The inode as others see it while a client keeps changes of the file to itself. They are
    /// changes now: whoever looks again finds another change attribute, as often as he looks.
    ///
    /// # Errors
    /// STALE.
    ///
    /// Source: RFC 8881 §10.4.3.
    pub(crate) fn heard(
        &self,
        deps: &mut Deps,
        inode: Inode,
        told: &WriterTold,
    ) -> Result<Inode, Failure> {
        // The change attribute of the grant is what it says, whatever it has written here since.
        if told.change == told.unchanged {
            return Ok(inode);
        }
        let now = self.shared.wall();
        let touched = Settle::written(0, now, SetIdLoss::Nothing);
        let inode = deps.see(self.shared.volume.settle(inode.no, &touched, now))?;
        // Not in the volume: the size is that of bytes which may never come.
        Ok(Inode { size: told.size, ..inode })
    }

    /// What there is to ask the data servers of a file that somebody looks at.
    fn looking(&self, inode: &Inode, occupied: bool) -> Option<(Asked, Striped)> {
        if self.must_fetch(inode) {
            return self.asking(inode);
        }
        if !occupied || !inode.occupies_unknown() {
            return None;
        }
        let (asked, file) = self.asking(inode).filter(|(asked, _)| asked.quiet)?;
        Some((Asked { ended: None, ..asked }, file))
    }

    /// Takes in what a settled file occupies, unless somebody wrote meanwhile. That it is not known
    /// is no failure: nobody relies on it.
    fn note_occupied(
        &self,
        inode: Inode,
        asked: &Asked,
        told: Result<FileObjects, DataServerError>,
    ) -> Inode {
        let Ok(told) = told else { return inode };
        // No write layout is granted, and no indirect write begins, under the lock.
        let mut files = self.shared.records.lock();
        let unwritten = !files.has_writers(inode.no) && files.marks(&inode) == asked.marks;
        if !unwritten || told.unsynced {
            return Inode { occupied: Some(told.attrs.space_used), ..inode };
        }
        let (change, bytes) = (inode.change, told.attrs.space_used);
        // Learned anew after a crash: nobody waits for it to be durable.
        let noted = self.shared.volume.occupies(inode.no, change, bytes).unconfirmed();
        noted.ok().filter(|noted| noted.change == change).unwrap_or(inode)
    }

    /// Draws the conclusions that still hold: what happened to the file since it was asked about
    /// may have made the answer old.
    fn conclude(
        &self,
        deps: &mut Deps,
        inode: Inode,
        (asked, otherwise): (Asked, Otherwise),
        told: Option<Result<FileObjects, DataServerError>>,
    ) -> Result<Inode, Failure> {
        let Some(told) = told else { return Ok(inode) };
        let told = match told {
            Ok(told) => told,
            // It was cut or removed just now: asked again, it is looked at anew.
            Err(e @ DataServerError::Fenced { .. }) => {
                return Err(translate::data_server_status(&e).into());
            }
            Err(e) => {
                let status = translate::data_server_status(&e);
                return match otherwise {
                    Otherwise::Fail => Err(status.into()),
                    Otherwise::LowerBound => deps.see(self.shared.volume.inode(inode.no)),
                };
            }
        };
        let key = self.shared.key(inode.no);
        let mut files = self.shared.records.lock();
        let inode = deps.see(self.shared.volume.inode(inode.no))?;
        // While clients may still reclaim, their layouts of before the restart may still be used.
        let quiet = asked.quiet
            && !told.unsynced
            && !self.shared.protocol.state().rw_layouts(key)
            && !self.shared.protocol.grace().is_on();
        let now = self.shared.wall();
        let Some(settle) = files.answered(&inode, (asked.marks, quiet), told.attrs, now) else {
            return Ok(Inode { occupied: Some(told.attrs.space_used), ..inode });
        };
        let volume = &self.shared.volume;
        if !settle.settled {
            let learned = deps.see(volume.settle(inode.no, &settle, now))?;
            return Ok(Inode { occupied: Some(told.attrs.space_used), ..learned });
        }
        let settled = deps.see(volume.settle_lengths(inode.no, &settle, &told.lengths, now))?;
        let short = settled.placement.map(|p| settled.bounds.short(&p, &told.lengths));
        if short.is_some_and(|short| short.is_empty()) {
            files.found_whole(inode.no, asked.connections);
        }
        Ok(settled)
    }
}
