//! Placement of files on data servers, and the files layouts that tell clients (design D2, D3).

use std::collections::{HashMap, hash_map::Entry};

use weft_nfs::{Failure, IoMode, NfsStat};
use weft_store::{
    types::{DataServerId, Device, DeviceId, Inode, InodeNo, Intent, Placement, StoreError},
    volume::Volume,
};

use crate::mds::Mds;
use crate::{compound::Compound, striped::Striped};

/// How new files are striped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Striping {
    /// Bytes of a stripe unit; a multiple of 1 MiB.
    pub unit_bytes: u32,
    /// Data servers of a file, at most.
    pub width: u16,
}

/// The devices that new files use: the data servers in groups of at most the stripe width. A
/// device is named by its members, so that the same group is the same device after a restart,
/// and another group never reuses its name.
pub(in crate::mds) fn devices_for(ids: &[DataServerId], striping: Striping) -> Vec<Device> {
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
pub(in crate::mds) async fn record_devices(
    volume: &Volume,
    placing: &[Device],
) -> Result<HashMap<DeviceId, Device>, StoreError> {
    let mut known: HashMap<_, _> = volume.devices().value?.into_iter().map(|d| (d.id, d)).collect();
    for device in placing {
        if let Entry::Vacant(new) = known.entry(device.id) {
            volume.confirm(volume.device_put(device)).await?;
            new.insert(device.clone());
        }
    }
    Ok(known)
}

impl Mds {
    /// The device of that name.
    pub(in crate::mds) fn device(&self, id: DeviceId) -> Option<Device> {
        self.devices.read().expect("device lock").get(&id).cloned()
    }

    /// A placed file as its data servers know it.
    pub(in crate::mds) fn striped(&self, inode: &Inode) -> Option<Striped> {
        self.striped_at(inode.no, inode.placement.as_ref()?, inode.fence_epoch)
    }

    /// The same from its parts (for removed files, which have no inode any more).
    pub(in crate::mds) fn striped_at(
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
        })
    }

    /// The file with a placement: it gets one now if it had none, `wish` if there is one. Else
    /// which data server comes first rotates with the inode number, so that files spread.
    ///
    /// # Errors
    /// NOSPC when there is no data server at all.
    pub(in crate::mds) fn placed(
        &self,
        c: &mut Compound<Mds>,
        inode: Inode,
        wish: Option<Placement>,
    ) -> Result<(Inode, Striped), Failure> {
        let inode = match inode.placement {
            Some(_) => inode,
            None => {
                let chosen = match wish {
                    Some(wish) => wish,
                    None => self.choose_placement(inode.no.0)?,
                };
                c.see(self.placement_lsn.give(|| self.volume.place(inode.no, chosen)))?
            }
        };
        let striped = self.striped(&inode).ok_or(NfsStat::SERVERFAULT)?;
        Ok((inode, striped))
    }

    /// Whether new files may be placed on a device.
    pub(in crate::mds) fn places_on(&self, device: DeviceId) -> bool {
        self.placing.iter().any(|d| d.id == device)
    }

    /// Whether this is how new files are placed.
    pub(in crate::mds) fn places_like(&self, placement: &Placement) -> bool {
        self.places_on(placement.device) && placement.stripe_unit_bytes == self.striping.unit_bytes
    }

    /// Devices take turns, by a number; one with a data server that is down is passed over
    /// while there are others.
    pub(in crate::mds) fn choose_placement(&self, turn: u64) -> Result<Placement, NfsStat> {
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

    /// Rights that a layout of this mode carries on the data servers.
    pub(in crate::mds) fn layout_body(
        &self,
        inode: &Inode,
        striped: &Striped,
        iomode: IoMode,
    ) -> Result<bytes::Bytes, NfsStat> {
        let device = inode.placement.as_ref().ok_or(NfsStat::SERVERFAULT)?.device;
        let rights = if iomode == IoMode::RW {
            weft_layout::Rights::READ_WRITE
        } else {
            weft_layout::Rights::READ
        };
        let device = weft_nfs::DeviceId(device.0);
        let body = self.data_servers.layout_body(striped, device, rights);
        body.map_err(|e| {
            tracing::info!(ino = inode.no.0, error = %e, "no layout yet");
            NfsStat::LAYOUTTRYLATER
        })
    }

    /// Leaves an unfinished truncation to the reaper.
    pub(in crate::mds) fn abandon_truncation(&self, intent: Intent) {
        self.abandoned.lock().expect("abandoned lock").push(intent);
        self.reap.notify_one();
    }

    /// Takes all of those.
    pub(in crate::mds) fn abandoned_truncations(&self) -> Vec<Intent> {
        std::mem::take(&mut *self.abandoned.lock().expect("abandoned lock"))
    }

    /// Puts one back that cannot be finished yet.
    pub(in crate::mds) fn keep_truncation(&self, intent: Intent) {
        self.abandoned.lock().expect("abandoned lock").push(intent);
    }
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
