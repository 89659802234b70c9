//! Placement of files on data servers (design D2, D3, D22): which devices there are, and which of
//! them, from which data server on, a file gets. Who is chosen is decided in [`super::choice`].
//!
//! A device is an ordered set of data servers. Devices are made when a file needs them, kept in the
//! volume for ever, and used again by whoever needs the same set. A directory may have chosen for
//! its files (P1.3, ADR 37): then that decides, as far as its data servers are up and have room.

use std::{
    collections::{BTreeSet, HashMap},
    sync::{
        Arc, Mutex, RwLock,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use weft_nfs::NfsStat;
use weft_store::{
    types::{
        DataServerId, Deal, Device, DeviceId, InodeNo, LayoutChoice, Lsn, Placement, Spread,
        StoreError,
    },
    volume::{Seen, Volume},
};

use super::choice::{Choice, choose};
use crate::{
    data_servers::{Candidate, DataServers, Standing},
    striped::Striped,
    translate,
};

/// So many devices are made for whatever sets of data servers are up and have room; from then on
/// one of those is used. Each is a record of the volume, and an address list with every client.
const DEVICES_MAX: usize = 1024;
/// From so many on none is made for the list of a directory, so that whoever owns one leaves the
/// others to whoever owns none.
const DEVICES_WITH_LISTS_MAX: usize = DEVICES_MAX / 2;

/// How new files are striped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Striping {
    /// Bytes of a stripe unit; a multiple of 1 MiB.
    pub unit_bytes: u32,
    /// Data servers of a file, at most.
    pub width: u16,
}

/// The devices of a volume, and whose turn it is to get a file.
pub(crate) struct Placements {
    volume: Volume,
    volume_number: u32,
    data_servers: Arc<DataServers>,
    /// Files with lower numbers were in the backup that the volume comes from; none of any.
    restored_below: Option<InodeNo>,
    /// New files get all their objects with their place.
    makes_all: bool,
    striping: RwLock<Striping>,
    /// All devices that files may refer to; each is durable.
    devices: RwLock<HashMap<DeviceId, Device>>,
    /// Devices are recorded one after another, so that there are never too many.
    recording: tokio::sync::Mutex<()>,
    /// Whose turn it is to get a file.
    turn: AtomicU64,
}

impl Placements {
    /// Reads the devices of a volume, and records those that files get while all data servers are
    /// up and have as much room as each other. With `makes_all` new files get all their objects at
    /// once.
    ///
    /// # Errors
    /// The volume cannot be read, or the devices cannot be recorded.
    pub(crate) async fn open(
        volume: &Volume,
        volume_number: u32,
        data_servers: Arc<DataServers>,
        (striping, makes_all): (Striping, bool),
    ) -> Result<Self, StoreError> {
        let known = volume.devices().unconfirmed()?;
        let restored = volume.restored().unconfirmed()?;
        let placements = Placements {
            volume: volume.clone(),
            volume_number,
            restored_below: restored.map(|restored| restored.first_new),
            makes_all,
            striping: RwLock::new(striping),
            devices: RwLock::new(known.into_iter().map(|d| (d.id, d)).collect()),
            recording: tokio::sync::Mutex::default(),
            turn: AtomicU64::new(0),
            data_servers,
        };
        for members in usual_sets(&placements.data_servers.ids(), striping.width) {
            placements.record(members, DEVICES_MAX).await?;
        }
        Ok(placements)
    }

    /// How new files are striped from now on.
    pub(crate) fn stripe(&self, striping: Striping) {
        *self.striping.write().expect("striping lock") = striping;
    }

    /// How new files are striped.
    pub(crate) fn striping(&self) -> Striping {
        *self.striping.read().expect("striping lock")
    }

    /// The device of that name.
    pub(crate) fn device(&self, id: DeviceId) -> Option<Device> {
        self.devices.read().expect("device lock").get(&id).cloned()
    }

    /// A placed file as its data servers know it, from its parts: removed files have no inode any
    /// more. `None` for a device that nobody knows.
    pub(crate) fn striped_at(
        &self,
        ino: InodeNo,
        placement: &Placement,
        fence_epoch: u32,
    ) -> Option<Striped> {
        let device = self.device(placement.device)?;
        Some(Striped {
            volume: self.volume_number,
            object: ino.0,
            fence_epoch,
            data_servers: device.data_servers,
            stripe_unit_bytes: placement.stripe_unit_bytes,
            first_stripe_index: placement.first_stripe_index,
            // An object of later may be where a restored volume knows of none.
            reach: match self.restored_below.is_some_and(|below| ino < below) {
                true => placement.turns(),
                false => placement.reach,
            },
            spread: placement.spread,
            lengths_min: Vec::new(),
        })
    }

    /// Whether new files may be placed on a device now: its data servers are up and have room, and
    /// none of them far less than others.
    pub(crate) fn serves(&self, device: DeviceId) -> bool {
        let known = self.device(device);
        known.is_some_and(|d| self.data_servers.take_new_files(&d.data_servers))
    }

    /// Whether this is how new files are placed while all data servers are up.
    pub(crate) fn places_like(&self, placement: &Placement) -> bool {
        let (ids, striping) = (self.data_servers.ids(), self.striping());
        let width = usize::from(striping.width).min(ids.len());
        placement.stripe_unit_bytes == striping.unit_bytes
            && placement.spread == Spread::InTurn
            && self.device(placement.device).is_some_and(|device| {
                let members = device.data_servers;
                members.len() == width && members.iter().all(|m| ids.contains(m))
            })
    }

    /// Whether a file of this place is where its directory would have it.
    pub(crate) fn suits(&self, choice: &LayoutChoice, placement: &Placement) -> bool {
        let Some(device) = self.device(placement.device) else { return false };
        let (is, striping) = (LayoutChoice::of_place(placement, &device), self.striping());
        let unit = choice.stripe_unit_bytes.unwrap_or(striping.unit_bytes);
        let is_as_wide = match (&choice.deal, &is.deal) {
            // From whichever entry on.
            (Deal::Cyclic(wanted), Deal::Cyclic(_)) => device.stripes() == *wanted,
            (wanted, found) => {
                let width = usize::from(choice.stripe_count.unwrap_or(striping.width));
                let width = match wanted {
                    Deal::Replicated(copies) => usize::from(*copies),
                    _ => width.min(self.data_servers.ids().len()),
                };
                wanted == found && device.data_servers.len() == width
            }
        };
        placement.stripe_unit_bytes == unit && is_as_wide
    }

    /// Those of the data servers that a choice names which nobody knows.
    pub(crate) fn unknown_in(&self, choice: &LayoutChoice) -> Vec<DataServerId> {
        let ids = self.data_servers.ids();
        choice.named().iter().copied().filter(|id| !ids.contains(id)).collect()
    }

    /// Whether there are as many data servers as it wants copies.
    pub(crate) fn has_servers_for(&self, choice: &LayoutChoice) -> bool {
        match choice.deal {
            Deal::Replicated(copies) => usize::from(copies) <= self.data_servers.ids().len(),
            _ => true,
        }
    }

    /// The place of a file that has none: on data servers that are up and have room, if there are
    /// any. Its device is durable.
    ///
    /// **Cost**: the first file of a set of data servers waits for the volume to record that.
    ///
    /// # Errors
    /// NXIO when there is no data server at all, DELAY while none is up; for copies when there are
    /// not as many, and NOSPC if not as many have room; those of the volume.
    pub(crate) async fn next(&self, choice: Option<&LayoutChoice>) -> Result<Placement, NfsStat> {
        if self.data_servers.ids().is_empty() {
            tracing::warn!(
                "a file needs data servers, and none is configured: add one, see README"
            );
            return Err(NfsStat::NXIO);
        }
        self.data_servers.begun().await;
        let (candidates, turn) = (self.data_servers.candidates(), self.turn.fetch_add(1, Relaxed));
        let striping = self.striping();
        let width = match choice.map(|c| (&c.deal, c.stripe_count)) {
            Some((Deal::Replicated(copies), _)) => {
                have_room_for(&candidates, *copies)?;
                Width::Exactly(*copies)
            }
            Some((_, Some(count))) => Width::UpTo(count),
            _ => Width::UpTo(striping.width),
        };
        let list = match choice.map(|c| &c.deal) {
            Some(Deal::Cyclic(servers)) => known_of(&candidates, servers),
            _ => Vec::new(),
        };
        let (chosen, devices_max) = match &list[..] {
            [] => (choose(&candidates, (width.servers(), width.least()), turn), DEVICES_MAX),
            list => (listed(&candidates, list, turn), DEVICES_WITH_LISTS_MAX),
        };
        let chosen = chosen.ok_or(NfsStat::DELAY)?;
        let id = device_id(&chosen.members);
        let (device, first) = match self.device(id) {
            Some(device) => (device, chosen.first_index),
            None => self.made(chosen, &candidates, (width, devices_max)).await?,
        };
        let spread = match (choice.map(|c| &c.deal), device.list) {
            (_, Some(list)) => Spread::List(list),
            (Some(&Deal::Variable { rounds, later_unit_bytes }), None) => {
                Spread::Growing { rounds, later_unit_bytes }
            }
            // They are empty, but it takes one change only until they may differ.
            (Some(Deal::Replicated(_)), None) => Spread::Copies { alike: false },
            _ => Spread::InTurn,
        };
        let index = |n: usize| u16::try_from(n).map_err(|_| NfsStat::SERVERFAULT);
        let place = Placement {
            device: device.id,
            stripe_unit_bytes: choice
                .and_then(|c| c.stripe_unit_bytes)
                .unwrap_or(striping.unit_bytes),
            stripe_count: index(device.data_servers.len())?,
            first_stripe_index: index(first)?,
            reach: 1,
            spread,
        };
        Ok(Placement { reach: self.first_reach(&place), ..place })
    }

    /// How many turns of a new file may have been taken.
    pub(crate) fn first_reach(&self, place: &Placement) -> u16 {
        if self.makes_all { place.turns() } else { 1 }
    }

    /// A device for a choice that has none yet. When there are `devices_max` it is one of those
    /// there are: the widest, of data servers that could have been chosen and `width` of them, or a
    /// single data server.
    ///
    /// # Errors
    /// NOSPC if there is none that is as wide as it must be; those of the volume.
    async fn made(
        &self,
        chosen: Choice,
        candidates: &[Candidate],
        (width, devices_max): (Width, usize),
    ) -> Result<(Device, usize), NfsStat> {
        let recorded = |recorded: Result<Option<Device>, StoreError>| {
            recorded.map_err(|e| translate::status(&e))
        };
        let first = chosen.first_index;
        let fallback: Vec<_> = chosen.members.get(first).copied().into_iter().collect();
        if let Some(device) = recorded(self.record(chosen.members, devices_max).await)? {
            return Ok((device, first));
        }
        tracing::warn!(devices_max, "too many sets of data servers: a file gets one that is there");
        if let Some(device) = self.widest_of(candidates, width) {
            return Ok((device, 0));
        }
        if let Width::Exactly(_) = width {
            return Err(NfsStat::NOSPC);
        }
        let single = recorded(self.record(fallback, usize::MAX).await)?;
        Ok((single.ok_or(NfsStat::SERVERFAULT)?, 0))
    }

    /// The widest known device of so many data servers, which are all up and have room.
    fn widest_of(&self, candidates: &[Candidate], width: Width) -> Option<Device> {
        let least = match width {
            Width::UpTo(_) => Standing::Ready,
            Width::Exactly(_) => Standing::Scarce,
        };
        let ready: BTreeSet<_> =
            candidates.iter().filter(|c| c.standing >= least).map(|c| c.id).collect();
        let devices = self.devices.read().expect("device lock");
        let usable = devices.values().filter(|d| {
            d.list.is_none()
                && width.allows(d.data_servers.len())
                && d.data_servers.iter().all(|m| ready.contains(m))
        });
        usable.max_by_key(|d| (d.data_servers.len(), d.id)).cloned()
    }

    /// The device of a set or a list, which is recorded durably unless it is known; `None` if there
    /// are `max` already. A device is named by its members, so that the same set is the same device
    /// after a restart, and another set never reuses its name.
    async fn record(
        &self,
        members: Vec<DataServerId>,
        max: usize,
    ) -> Result<Option<Device>, StoreError> {
        let _one_at_a_time = self.recording.lock().await;
        let device = Device::of_stripes(device_id(&members), &members);
        let device = device.ok_or(StoreError::Invalid)?;
        let known = self.devices.read().expect("device lock").len();
        if let Some(device) = self.device(device.id) {
            return Ok(Some(device));
        }
        if known >= max {
            return Ok(None);
        }
        self.volume.confirm(self.volume.device_put(&device)).await?;
        self.devices.write().expect("device lock").insert(device.id, device.clone());
        Ok(Some(device))
    }
}

/// Up to where files got a place, those included that had one from the beginning.
#[derive(Debug, Default)]
pub(crate) struct PlacementLsn(Mutex<Lsn>);

impl PlacementLsn {
    /// Gives a place; whoever sees it finds its LSN in [`PlacementLsn::last`].
    pub(crate) fn give<T>(&self, place: impl FnOnce() -> Seen<T>) -> Seen<T> {
        let mut last = self.0.lock().expect("placement lock");
        let seen = place();
        *last = last.max(seen.lsn);
        seen
    }

    /// The LSN of the last place that was given.
    pub(crate) fn last(&self) -> Lsn {
        *self.0.lock().expect("placement lock")
    }
}

/// How many data servers a file gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Width {
    /// So many, or as many as can be had.
    UpTo(u16),
    /// So many.
    Exactly(u16),
}

impl Width {
    fn servers(self) -> u16 {
        let (Width::UpTo(servers) | Width::Exactly(servers)) = self;
        servers
    }

    fn least(self) -> u16 {
        match self {
            Width::UpTo(_) => 1,
            Width::Exactly(width) => width,
        }
    }

    fn allows(self, servers: usize) -> bool {
        match self {
            Width::UpTo(width) => servers <= usize::from(width),
            Width::Exactly(width) => servers == usize::from(width),
        }
    }
}

/// Whether so many data servers can take a copy of a file: fewer copies than were wanted are none.
///
/// # Errors
/// NXIO if there are not as many, DELAY while not as many are up, NOSPC if not as many have room.
fn have_room_for(candidates: &[Candidate], copies: u16) -> Result<(), NfsStat> {
    let copies = usize::from(copies);
    let are = |standings: &[Standing]| {
        candidates.iter().filter(|c| standings.contains(&c.standing)).count() >= copies
    };
    if are(&[Standing::Ready, Standing::Scarce]) {
        Ok(())
    } else if are(&[Standing::Ready, Standing::Scarce, Standing::Full]) {
        Err(NfsStat::NOSPC)
    } else if candidates.len() >= copies {
        Err(NfsStat::DELAY)
    } else {
        tracing::warn!(copies, "a file wants more copies than there are data servers");
        Err(NfsStat::NXIO)
    }
}

/// Those of a list that are configured. Who takes a data server away does not have to look for the
/// directories that name it; if they name no other, files are placed as if they named none.
fn known_of(candidates: &[Candidate], servers: &[DataServerId]) -> Vec<DataServerId> {
    let is_known = |id: &&DataServerId| candidates.iter().any(|c| c.id == **id);
    servers.iter().filter(is_known).copied().collect()
}

/// What is left of a list without the data servers that are down or full; if that is nothing,
/// without those that are down. One with far less room than others stays: the owner of the
/// directory has named it. Files begin with each of its entries in turn. A list of one data server
/// only, however often, is that data server. `None` while all are down.
fn listed(candidates: &[Candidate], servers: &[DataServerId], turn: u64) -> Option<Choice> {
    let is =
        |id: &DataServerId, least| candidates.iter().any(|c| c.id == *id && c.standing >= least);
    let members = [Standing::Scarce, Standing::Full].into_iter().find_map(|least| {
        let some: Vec<_> = servers.iter().copied().filter(|id| is(id, least)).collect();
        (!some.is_empty()).then_some(some)
    })?;
    let is_one = members.iter().all(|id| Some(id) == members.first());
    let members = if is_one { members.into_iter().take(1).collect() } else { members };
    let first_index = usize::try_from(turn % members.len() as u64).ok()?;
    Some(Choice { members, first_index })
}

/// The sets that files get while all data servers are up and have as much room as each other.
fn usual_sets(ids: &[DataServerId], width: u16) -> BTreeSet<Vec<DataServerId>> {
    let candidate =
        |id: &DataServerId| Candidate { id: *id, standing: Standing::Ready, available: None };
    let all: Vec<_> = ids.iter().map(candidate).collect();
    let sets = |turn| Some(choose(&all, (width, 1), turn)?.members);
    (0..ids.len() as u64).filter_map(sets).collect()
}

fn device_id(members: &[DataServerId]) -> DeviceId {
    let mut hash = blake3::Hasher::new_derive_key("weft device id v1");
    members.iter().for_each(|m| {
        hash.update(&m.0.to_be_bytes());
    });
    let mut id = [0; 16];
    hash.finalize_xof().fill(&mut id);
    DeviceId(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sets overlap so that all data servers are used; a device is named by its members only.
    #[test]
    fn devices_are_stable_sets() {
        let ids: Vec<_> = (1..=9).map(DataServerId).collect();
        let eight = usual_sets(&ids, 8);
        assert_eq!(eight.len(), 9);
        let used: BTreeSet<_> = eight.iter().flatten().copied().collect();
        assert!(used.iter().eq(&ids));
        let names: BTreeSet<_> = eight.iter().map(|set| device_id(set)).collect();
        assert_eq!(names.len(), 9);
        assert_eq!(usual_sets(&ids[..8], 8).into_iter().collect::<Vec<_>>(), [&ids[..8]]);
        assert!(usual_sets(&[], 8).is_empty());
    }

    /// A file gets as many copies as were asked for, or none.
    #[test]
    fn copies_are_as_many_as_wanted() {
        use Standing::{Away, Full, Ready, Scarce};
        let room = |standings: [Standing; 3], copies| {
            let candidate =
                |(id, standing)| Candidate { id: DataServerId(id), standing, available: None };
            let all: Vec<_> = (1..).zip(standings).map(candidate).collect();
            have_room_for(&all, copies)
        };
        assert_eq!(room([Ready; 3], 3), Ok(()));
        assert_eq!(room([Ready, Away, Ready], 2), Ok(()));
        assert_eq!(room([Ready, Away, Ready], 3), Err(NfsStat::DELAY));
        assert_eq!(room([Ready, Full, Away], 2), Err(NfsStat::NOSPC));
        assert_eq!(room([Ready, Full, Away], 3), Err(NfsStat::DELAY));
        assert_eq!(room([Ready, Scarce, Away], 2), Ok(()));
        assert_eq!(room([Ready; 3], 4), Err(NfsStat::NXIO));
        assert!(Width::UpTo(2).allows(1) && !Width::UpTo(2).allows(3));
        assert!(Width::Exactly(2).allows(2) && !Width::Exactly(2).allows(1));
    }

    /// A list is used as far as its data servers are up and have room, from each entry in turn.
    #[test]
    fn lists_are_used_as_far_as_they_serve() {
        let all = |standings: [Standing; 3]| {
            let candidate =
                |(id, standing)| Candidate { id: DataServerId(id), standing, available: None };
            (1..).zip(standings).map(candidate).collect::<Vec<_>>()
        };
        let list: Vec<_> = [1, 1, 3, 2].map(DataServerId).into();
        let chosen = |standings, turn| {
            let choice = listed(&all(standings), &list, turn)?;
            Some((choice.members.iter().map(|id| id.0).collect::<Vec<_>>(), choice.first_index))
        };
        use Standing::{Away, Full, Ready, Scarce};
        assert_eq!(chosen([Ready; 3], 0), Some((vec![1, 1, 3, 2], 0)));
        assert_eq!(chosen([Ready; 3], 7), Some((vec![1, 1, 3, 2], 3)));
        assert_eq!(chosen([Ready, Full, Away], 5), Some((vec![1], 0)));
        assert_eq!(chosen([Away, Full, Ready], 5), Some((vec![3], 0)));
        assert_eq!(chosen([Away, Full, Full], 5), Some((vec![3, 2], 1)));
        assert_eq!(chosen([Away; 3], 0), None);
        assert_eq!(chosen([Scarce, Full, Ready], 0), Some((vec![1, 1, 3], 0)));
        let ids = |numbers: &[u32]| numbers.iter().copied().map(DataServerId).collect::<Vec<_>>();
        assert_eq!(known_of(&all([Away; 3]), &ids(&[9, 3, 1, 3])), ids(&[3, 1, 3]));
        assert_eq!(known_of(&all([Ready; 3]), &ids(&[9, 8])), []);
    }
}
