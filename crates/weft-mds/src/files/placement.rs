//! Placement of files on data servers (design D2, D3): which devices there are, and which of them,
//! from which data server on, a file gets.

use std::{
    collections::{HashMap, hash_map::Entry},
    sync::{
        Arc, Mutex, RwLock,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use weft_nfs::NfsStat;
use weft_store::{
    types::{DataServerId, Device, DeviceId, InodeNo, Lsn, Placement, StoreError},
    volume::{Seen, Volume},
};

use crate::{data_servers::DataServers, striped::Striped};

/// How new files are striped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Striping {
    /// Bytes of a stripe unit; a multiple of 1 MiB.
    pub unit_bytes: u32,
    /// Data servers of a file, at most.
    pub width: u16,
}

/// The devices of a volume, and whose turn it is to get a file.
#[derive(Debug)]
pub(crate) struct Placements {
    volume_number: u32,
    data_servers: Arc<DataServers>,
    striping: Striping,
    /// All devices that files may refer to.
    devices: RwLock<HashMap<DeviceId, Device>>,
    /// Those that new files are placed on.
    placing: Vec<Device>,
    /// Whose turn it is to get a file that is placed before it has a number.
    turn: AtomicU64,
}

impl Placements {
    /// Reads the devices of a volume, and records those of these data servers that are new.
    ///
    /// # Errors
    /// The volume cannot be read, or the devices cannot be recorded.
    pub(crate) async fn open(
        volume: &Volume,
        volume_number: u32,
        data_servers: Arc<DataServers>,
        striping: Striping,
    ) -> Result<Self, StoreError> {
        let placing = devices_for(&data_servers.ids(), striping);
        let devices = RwLock::new(record_devices(volume, &placing).await?);
        let turn = AtomicU64::new(0);
        Ok(Placements { volume_number, data_servers, striping, devices, placing, turn })
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
            lengths_min: Vec::new(),
        })
    }

    /// Whether new files may be placed on a device.
    pub(crate) fn places_on(&self, device: DeviceId) -> bool {
        self.placing.iter().any(|d| d.id == device)
    }

    /// Whether this is how new files are placed.
    pub(crate) fn places_like(&self, placement: &Placement) -> bool {
        self.places_on(placement.device) && placement.stripe_unit_bytes == self.striping.unit_bytes
    }

    /// The place of a file whose number is not known yet.
    ///
    /// # Errors
    /// NOSPC when there is no data server at all.
    pub(crate) fn next(&self) -> Result<Placement, NfsStat> {
        self.choose(self.turn.fetch_add(1, Relaxed))
    }

    /// Devices take turns, by a number; one with a data server that is down is passed over
    /// while there are others.
    ///
    /// # Errors
    /// NOSPC when there is no data server at all.
    pub(crate) fn choose(&self, turn: u64) -> Result<Placement, NfsStat> {
        let devices = self.placing.len() as u64;
        let nth = turn.checked_rem(devices).ok_or(NfsStat::NOSPC)?;
        let nth = usize::try_from(nth).map_err(|_| NfsStat::SERVERFAULT)?;
        let (before, from) = self.placing.split_at_checked(nth).ok_or(NfsStat::SERVERFAULT)?;
        let is_up = |d: &&Device| self.data_servers.are_up(&d.data_servers);
        let device = from.iter().chain(before).find(is_up).or_else(|| from.first());
        let device = device.ok_or(NfsStat::NOSPC)?;
        let count = u16::try_from(device.data_servers.len()).map_err(|_| NfsStat::SERVERFAULT)?;
        let first = (turn / devices) % u64::from(count);
        Ok(Placement {
            device: device.id,
            stripe_unit_bytes: self.striping.unit_bytes,
            stripe_count: count,
            first_stripe_index: u16::try_from(first).unwrap_or(0),
        })
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

/// The devices that new files use: the data servers in groups of at most the stripe width. A
/// device is named by its members, so that the same group is the same device after a restart,
/// and another group never reuses its name.
fn devices_for(ids: &[DataServerId], striping: Striping) -> Vec<Device> {
    let width = usize::from(striping.width).clamp(1, ids.len().max(1));
    let groups = ids.len() / width;
    (0..groups)
        .map(|g| {
            let members = ids[g * width..(g + 1) * width].to_vec();
            Device { id: device_id(&members), data_servers: members }
        })
        .collect()
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

/// Records new devices durably and returns all that files may refer to.
async fn record_devices(
    volume: &Volume,
    placing: &[Device],
) -> Result<HashMap<DeviceId, Device>, StoreError> {
    let mut known: HashMap<_, _> =
        volume.devices().unconfirmed()?.into_iter().map(|d| (d.id, d)).collect();
    for device in placing {
        if let Entry::Vacant(new) = known.entry(device.id) {
            volume.confirm(volume.device_put(device)).await?;
            new.insert(device.clone());
        }
    }
    Ok(known)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Groups are disjoint, full, and named by their members only.
    #[test]
    fn devices_are_stable_groups() {
        let ids: Vec<_> = (1..=10).map(DataServerId).collect();
        let four = Striping { unit_bytes: 1 << 20, width: 4 };
        let devices = devices_for(&ids, four);
        assert_eq!(devices.len(), 2);
        assert_eq!(devices[1].data_servers, ids[4..8]);
        assert_eq!(devices, devices_for(&ids, four));
        assert_ne!(devices[0].id, devices[1].id);
        assert!(devices_for(&[], four).is_empty());
        let wide = devices_for(&ids[..3], four);
        assert_eq!((wide.len(), wide[0].data_servers.len()), (1, 3));
    }
}
