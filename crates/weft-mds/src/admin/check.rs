//! Holding files against their objects while clients work, a part at a time: whoever asks says
//! where to go on and how fast.

use std::collections::{BTreeMap, HashSet};

use tokio::sync::Mutex;
use weft_server::report::{AdminError, CheckedFiles, CheckedObjects, FileFault};
use weft_store::{
    types::{DataServerId, Inode, InodeNo, StoreError},
    volume::{Account, FoundObject, ObjectFault, compare, is_readable},
};

use crate::{files::FileService, striped::Striped};

/// Inodes looked at in one part.
const INODES_AT_ONCE: usize = 1024;
/// How often what looks wrong is looked at again: a file that changes all the time is right.
const LOOKS: usize = 3;

/// One part is checked at a time, whoever asks.
#[derive(Debug, Default)]
pub(super) struct Checks(Mutex<()>);

/// An object of a file.
#[derive(Debug, Clone, Copy)]
struct Place {
    /// Of the file in the part.
    file: usize,
    stripe_index: usize,
}

impl Checks {
    /// Compares the next files with their objects. What looks wrong is looked at again.
    ///
    /// # Errors
    /// Another part is being checked; the volume cannot be read.
    pub(super) async fn files(
        &self,
        files: &FileService,
        after: Option<u64>,
    ) -> Result<CheckedFiles, AdminError> {
        let _turn = self.0.try_lock().map_err(|_| busy())?;
        let part = files.volume().placed_files(after.map(InodeNo), INODES_AT_ONCE);
        let part = part.map_err(failed)?;
        let mut checked = CheckedFiles {
            files: part.files.len() as u64,
            last: part.last.map(|ino| ino.0),
            ..CheckedFiles::default()
        };
        let (mut inodes, mut found) = (part.files, Vec::new());
        for _ in 0..LOOKS {
            found = look(files, &inodes, &mut checked.unreachable).await;
            let suspects: HashSet<_> = found.iter().map(|(ino, ..)| *ino).collect();
            inodes = now(files, &suspects).map_err(failed)?;
        }
        let faulty: HashSet<_> = found.iter().map(|(ino, ..)| *ino).collect();
        let paths = files.volume().paths_of(&faulty).map_err(failed)?;
        checked.faults = found
            .into_iter()
            .map(|(ino, id, fault)| FileFault {
                path: paths.get(&ino).map(|path| String::from_utf8_lossy(path).into_owned()),
                fileid: ino.0,
                data_server: id.0,
                lost: matches!(fault, ObjectFault::Lost { .. }),
                what: fault.to_string(),
            })
            .collect();
        Ok(checked)
    }

    /// Compares the next objects of a data server with the volume.
    ///
    /// # Errors
    /// Another part is being checked; the data server cannot be asked; the volume cannot be read.
    pub(super) async fn objects(
        &self,
        files: &FileService,
        data_server: u32,
        after: Option<(u32, u64)>,
    ) -> Result<CheckedObjects, AdminError> {
        let _turn = self.0.try_lock().map_err(|_| busy())?;
        let (id, servers) = (DataServerId(data_server), files.data_servers());
        let listed = servers.list(id, after).await.map_err(unasked)?;
        let inodes: Vec<_> = listed.iter().map(|(_, object)| InodeNo(*object)).collect();
        let accounts = files.volume().accounts_for(id, &inodes).map_err(failed)?;
        let (mut foreign, mut strange) = (Vec::new(), Vec::new());
        for (object, account) in listed.iter().zip(accounts) {
            match account {
                _ if object.0 != files.volume_number() => foreign.push(*object),
                Account::Known => {}
                Account::Elsewhere | Account::Nobody => strange.push((*object, account)),
            }
        }
        // It may have been removed since.
        let exist = match &strange[..] {
            [] => Vec::new(),
            some => {
                let names: Vec<_> = some.iter().map(|(object, _)| *object).collect();
                servers.exist(id, &names).await.map_err(unasked)?
            }
        };
        let strange = strange.into_iter().zip(exist).filter(|(_, exists)| *exists);
        let (elsewhere, nobodys): (Vec<_>, Vec<_>) =
            strange.map(|(one, _)| one).partition(|(_, account)| *account == Account::Elsewhere);
        let objects = |some: Vec<(_, _)>| some.into_iter().map(|(object, _)| object);
        Ok(CheckedObjects {
            objects: listed.len() as u64,
            // About another volume's data servers answer nothing, and nobody here removes them.
            unaccounted: objects(nobodys).chain(foreign).collect(),
            elsewhere: objects(elsewhere).collect(),
            last: listed.last().copied(),
        })
    }
}

/// Those of these files that are there, as they are now.
fn now(files: &FileService, inodes: &HashSet<InodeNo>) -> Result<Vec<Inode>, StoreError> {
    let read = inodes.iter().map(|ino| files.volume().inode(*ino).unconfirmed());
    read.filter(|read| !matches!(read, Err(StoreError::Stale))).collect()
}

/// What is wrong with these files, which were read just now.
async fn look(
    files: &FileService,
    inodes: &[Inode],
    unreachable: &mut BTreeMap<u32, String>,
) -> Vec<(InodeNo, DataServerId, ObjectFault)> {
    let striped: Vec<Option<Striped>> = inodes.iter().map(|inode| files.striped(inode)).collect();
    let mut places: BTreeMap<DataServerId, Vec<Place>> = BTreeMap::new();
    for (file, striped) in striped.iter().enumerate() {
        let ids = striped.iter().flat_map(|striped| &striped.data_servers);
        for (stripe_index, id) in ids.copied().enumerate() {
            places.entry(id).or_default().push(Place { file, stripe_index });
        }
    }
    let (mut found, mut whole) = (Vec::new(), HashSet::new());
    for (id, places) in places {
        let asked: Vec<_> = places.iter().filter_map(|p| striped.get(p.file)?.as_ref()).collect();
        let lengths = match files.data_servers().lengths_on(id, &asked).await {
            Ok(lengths) => lengths,
            Err(e) => {
                unreachable.insert(id.0, e.to_string());
                continue;
            }
        };
        for (place, size) in places.into_iter().zip(lengths) {
            let Some(inode) = inodes.get(place.file) else { continue };
            let object = FoundObject { size, epoch: None };
            let cut = files.is_being_cut(inode.no);
            match compare(inode, place.stripe_index, object, cut) {
                Some(fault) => found.push((inode.no, id, fault)),
                None => drop(whole.insert((inode.no, place.stripe_index))),
            }
        }
    }
    // Objects that were not asked for are not known to be whole.
    let readable = inodes.iter().filter(|inode| {
        let is_whole = |index| whole.contains(&(inode.no, index));
        inode.placement.is_some_and(|placement| is_readable(&placement, is_whole))
    });
    let readable: HashSet<_> = readable.map(|inode| inode.no).collect();
    let judged = found.into_iter().map(|(ino, id, fault)| match readable.contains(&ino) {
        true => (ino, id, fault.of_readable()),
        false => (ino, id, fault),
    });
    judged.collect()
}

fn busy() -> AdminError {
    AdminError::Failed("another check is under way: one at a time".into())
}

/// A data server was not asked: the words are its own.
fn unasked(e: impl std::fmt::Display) -> AdminError {
    AdminError::Failed(e.to_string())
}

fn failed(e: StoreError) -> AdminError {
    AdminError::Failed(format!("the volume cannot be read: {e}"))
}
