//! The file `volumes` of a store: the volumes it serves, and its own runs. Two slots that are
//! written in turn, in place: so that it needs no room on a full disk, and a crash leaves the one
//! that was not being written (`docs/formats.md`).

use std::{
    fs::File,
    io::ErrorKind,
    os::unix::fs::FileExt,
    path::Path,
    sync::{Mutex, RwLock},
};

use bytes::{Buf, BufMut};

use super::{
    binding::{self, Accepted, BindRefusal, BindRequest, Circumstances, RUNS_MAX, ServedVolume},
    error::{ObjectError, io},
    files::{open_rw, replace_file},
    object_id::ObjectId,
};
use crate::{
    sync::{lock, read, write},
    types::Run,
};

const VOLUMES_FILE: &str = "volumes";
const MAGIC: [u8; 8] = *b"weftvol1";

/// Bytes of each of the two slots: eight volumes and all runs fit.
const SLOT_BYTES: usize = 8192;

/// Runs of the store that are remembered, the latest ones.
const STORE_RUNS_MAX: usize = 64;

/// The mark is raised by this many numbers beyond the one that is needed: one sync for so many.
const MARK_STEP: u64 = 1 << 16;

/// All that the file says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Contents {
    /// Which of the slots is newer.
    sequence: u64,
    /// Of this volume, anything is accepted once; zeros: of none.
    adopt: [u8; 16],
    /// Whether a metadata server was bound in the last run.
    run_known: bool,
    /// Runs of the store, ascending.
    runs: Vec<Run>,
    volumes: Vec<ServedVolume>,
}

/// The volumes of a store.
#[derive(Debug)]
pub(super) struct Volumes {
    /// One judgement at a time.
    judging: Mutex<()>,
    /// Held while the file is written.
    file: Mutex<File>,
    /// What it says: never ahead of the disk.
    contents: RwLock<Contents>,
}

/// What a store proves of one of its earlier runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remembered {
    /// It was this one.
    Run(Run),
    /// It is too long ago.
    Forgotten,
    /// There was none of that number.
    Never,
}

impl Volumes {
    /// The file of a new store: no volume, no run.
    pub(super) fn create(root: &Path, store: [u8; 16]) -> Result<(), ObjectError> {
        let slot = encode(&Contents::default(), store).ok_or(ObjectError::Corrupt(WHAT))?;
        replace_file(root, VOLUMES_FILE, |file| {
            file.write_all_at(&slot, 0)?;
            file.write_all_at(&[0; SLOT_BYTES], SLOT_BYTES as u64)
        })
        .map(drop)
    }

    /// Reads the file, and begins a run of the store, durably.
    pub(super) fn open(root: &Path, store: [u8; 16]) -> Result<Self, ObjectError> {
        let file = match open_rw(&root.join(VOLUMES_FILE), false) {
            Ok(file) => file,
            Err(e) if e.kind() == ErrorKind::NotFound => {
                return Err(ObjectError::Corrupt("the file `volumes` is missing"));
            }
            Err(e) => return Err(io("open the volumes")(e)),
        };
        let slots = [0, 1].map(|slot| read_slot(&file, slot, store));
        let newest = slots.into_iter().flatten().max_by_key(|c| c.sequence);
        let contents = newest.ok_or(ObjectError::Corrupt(WHAT))?;
        let (file, contents) = (Mutex::new(file), RwLock::new(contents));
        let volumes = Volumes { judging: Mutex::default(), file, contents };
        let mut id = [0; 16];
        getrandom::fill(&mut id).map_err(|_| ObjectError::NoRandom)?;
        volumes.change(store, |c| begin_run(c, id))?;
        Ok(volumes)
    }

    /// The volumes, in the order they came.
    pub(super) fn all(&self) -> Vec<ServedVolume> {
        read(&self.contents).volumes.clone()
    }

    /// Whether an object is of a volume that is served, and of its state now.
    pub(super) fn serves(&self, id: ObjectId) -> bool {
        let contents = read(&self.contents);
        contents.volumes.iter().any(|v| v.number == id.volume && v.is_open(id.object))
    }

    /// Whether an object is of a state of its volume that was given up.
    pub(super) fn is_given_up(&self, id: ObjectId) -> bool {
        let contents = read(&self.contents);
        contents.volumes.iter().any(|v| v.number == id.volume && !v.is_open(id.object))
    }

    /// This run of the store.
    pub(super) fn run(&self) -> Run {
        read(&self.contents).runs.last().copied().unwrap_or(Run { number: 0, id: [0; 16] })
    }

    /// The run of that number.
    pub(super) fn remembered(&self, number: u64) -> Remembered {
        let contents = read(&self.contents);
        match contents.runs.iter().find(|r| r.number == number) {
            Some(run) => Remembered::Run(*run),
            None if contents.runs.first().is_some_and(|oldest| number < oldest.number) => {
                Remembered::Forgotten
            }
            None => Remembered::Never,
        }
    }

    /// The volume of which anything is accepted.
    pub(super) fn adopts(&self) -> Option<[u8; 16]> {
        Some(read(&self.contents).adopt).filter(|uuid| *uuid != [0; 16])
    }

    /// Accepts anything of a volume, once.
    pub(super) fn adopt(&self, store: [u8; 16], uuid: [u8; 16]) -> Result<(), ObjectError> {
        self.change(store, |c| c.adopt = uuid)
    }

    /// Judges a metadata server; its volume as it is bound from now on, durably.
    pub(super) fn bind(
        &self,
        store: [u8; 16],
        request: &BindRequest,
        in_use: bool,
    ) -> Result<Result<(Accepted, ServedVolume), BindRefusal>, ObjectError> {
        let _one_at_a_time = lock(&self.judging);
        let seen = Circumstances { adopt: self.adopts(), in_use };
        let (judged, known) = {
            let contents = read(&self.contents);
            let known = contents.volumes.iter().position(|v| v.uuid == request.uuid);
            (binding::judge(&contents.volumes, request, seen), known)
        };
        let accepted = match judged {
            Ok(accepted) => accepted,
            Err(refusal) => return Ok(Err(refusal)),
        };
        self.change(store, |c| {
            let former = known.and_then(|at| c.volumes.get_mut(at));
            let volume = binding::bound(former.as_deref(), request, accepted);
            match former {
                Some(former) => *former = volume,
                None => c.volumes.push(volume),
            }
            c.run_known = true;
            if c.adopt == request.uuid {
                c.adopt = [0; 16];
            }
        })?;
        let bound = self.all().into_iter().find(|v| v.uuid == request.uuid);
        bound.map(|v| Ok((accepted, v))).ok_or(ObjectError::Corrupt(WHAT))
    }

    /// Raises the age of a volume, durably; the one it has then.
    pub(super) fn grow(&self, store: [u8; 16], number: u32, lsn: u64) -> Result<u64, ObjectError> {
        let age = |c: &Contents| c.volumes.iter().find(|v| v.number == number).map(|v| v.age);
        let known = age(&read(&self.contents)).ok_or(ObjectError::UnknownVolume)?;
        if known < lsn {
            self.change(store, |c| {
                let volume = c.volumes.iter_mut().find(|v| v.number == number);
                volume.into_iter().for_each(|v| v.age = v.age.max(lsn));
            })?;
        }
        Ok(known.max(lsn))
    }

    /// An object of this name is about to be made: the mark is above it, durably, when this
    /// returns.
    pub(super) fn admit_new(&self, store: [u8; 16], id: ObjectId) -> Result<(), ObjectError> {
        let mark = |c: &Contents| c.volumes.iter().find(|v| v.number == id.volume).map(|v| v.mark);
        let known = mark(&read(&self.contents)).ok_or(ObjectError::UnknownVolume)?;
        if id.object < known {
            return Ok(());
        }
        let above = id.object.saturating_add(MARK_STEP);
        self.change(store, |c| {
            let volume = c.volumes.iter_mut().find(|v| v.number == id.volume);
            volume.into_iter().for_each(|v| v.mark = v.mark.max(above));
        })
    }

    /// Changes the contents: on the disk, and then in memory.
    fn change(
        &self,
        store: [u8; 16],
        change: impl FnOnce(&mut Contents),
    ) -> Result<(), ObjectError> {
        let file = lock(&self.file);
        let mut new = read(&self.contents).clone();
        change(&mut new);
        new.sequence += 1;
        let slot = encode(&new, store).ok_or(ObjectError::Corrupt(WHAT))?;
        let at = new.sequence % 2 * SLOT_BYTES as u64;
        file.write_all_at(&slot, at).map_err(io("write the volumes"))?;
        file.sync_data().map_err(io("sync the volumes"))?;
        *write(&self.contents) = new;
        Ok(())
    }
}

const WHAT: &str = "the file `volumes`";

/// A run of which no metadata server knows is as if it had not been: its number is used again, so
/// that starting over and over forgets nothing.
fn begin_run(contents: &mut Contents, id: [u8; 16]) {
    if !contents.run_known {
        contents.runs.pop();
    }
    let number = contents.runs.last().map_or(0, |last| last.number) + 1;
    contents.runs.push(Run { number, id });
    let surplus = contents.runs.len().saturating_sub(STORE_RUNS_MAX);
    contents.runs.drain(..surplus);
    contents.run_known = false;
}

fn read_slot(file: &File, slot: u64, store: [u8; 16]) -> Option<Contents> {
    let mut bytes = vec![0; SLOT_BYTES];
    file.read_exact_at(&mut bytes, slot * SLOT_BYTES as u64).ok()?;
    decode(&bytes, store)
}

/// A slot: everything, zeros, and a CRC-32C of both; none if it does not fit.
fn encode(contents: &Contents, store: [u8; 16]) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(SLOT_BYTES);
    out.put_slice(&MAGIC);
    out.put_slice(&store);
    out.put_u64(contents.sequence);
    out.put_slice(&contents.adopt);
    out.put_u8(contents.run_known.into());
    put_runs(&mut out, &contents.runs)?;
    out.put_u8(u8::try_from(contents.volumes.len()).ok()?);
    for volume in &contents.volumes {
        out.put_u32(volume.number);
        out.put_slice(&volume.uuid);
        out.put_u64(volume.age);
        out.put_u64(volume.mark);
        out.put_slice(&volume.restored);
        put_runs(&mut out, &volume.runs)?;
        out.put_u8(u8::try_from(volume.closed.len()).ok()?);
        for (from, until) in &volume.closed {
            out.put_u64(*from);
            out.put_u64(*until);
        }
    }
    if out.len() > SLOT_BYTES - 4 {
        return None;
    }
    out.resize(SLOT_BYTES - 4, 0);
    let crc = crc_fast::crc32_iscsi(&out);
    out.put_u32(crc);
    Some(out)
}

fn put_runs(out: &mut Vec<u8>, runs: &[Run]) -> Option<()> {
    out.put_u8(u8::try_from(runs.len()).ok()?);
    for run in runs {
        out.put_u64(run.number);
        out.put_slice(&run.id);
    }
    Some(())
}

/// The contents of a slot; none if it cannot be right.
fn decode(slot: &[u8], store: [u8; 16]) -> Option<Contents> {
    let (body, crc) = slot.split_last_chunk::<4>()?;
    if crc_fast::crc32_iscsi(body) != u32::from_be_bytes(*crc) {
        return None;
    }
    let mut rest = body;
    let (magic, of) = (take::<8>(&mut rest)?, take::<16>(&mut rest)?);
    if magic != MAGIC || of != store {
        return None;
    }
    let mut contents = Contents {
        sequence: rest.try_get_u64().ok()?,
        adopt: take(&mut rest)?,
        run_known: rest.try_get_u8().ok()? == 1,
        runs: take_runs(&mut rest)?,
        volumes: Vec::new(),
    };
    for _ in 0..rest.try_get_u8().ok()? {
        contents.volumes.push(take_volume(&mut rest)?);
    }
    rest.iter().all(|b| *b == 0).then_some(contents)
}

fn take_volume(rest: &mut &[u8]) -> Option<ServedVolume> {
    let mut volume = ServedVolume {
        number: rest.try_get_u32().ok()?,
        uuid: take(rest)?,
        age: rest.try_get_u64().ok()?,
        mark: rest.try_get_u64().ok()?,
        restored: take(rest)?,
        runs: take_runs(rest)?,
        closed: Vec::new(),
    };
    for _ in 0..rest.try_get_u8().ok()? {
        volume.closed.push((rest.try_get_u64().ok()?, rest.try_get_u64().ok()?));
    }
    let sane = volume.number != 0 && !volume.runs.is_empty() && volume.runs.len() <= RUNS_MAX;
    sane.then_some(volume)
}

fn take_runs(rest: &mut &[u8]) -> Option<Vec<Run>> {
    let count = rest.try_get_u8().ok()?;
    (0..count).map(|_| Some(Run { number: rest.try_get_u64().ok()?, id: take(rest)? })).collect()
}

fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (taken, left) = rest.split_first_chunk::<N>()?;
    *rest = left;
    Some(*taken)
}

#[cfg(test)]
mod tests;
