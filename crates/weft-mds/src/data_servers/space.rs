//! How much room the disks of several data servers have together: arithmetic alone. Data servers
//! may share a disk, whose space is there once.

use std::collections::HashMap;

use weft_control::codec::{DiskId, SpaceOk};
use weft_store::types::DataServerId;

/// Disk space of all data servers together, bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClusterSpace {
    /// All of it.
    pub total: u64,
    /// Not in use.
    pub free: u64,
    /// Not in use and not reserved, in whole stripe units of each disk: a file gets no part of one.
    pub available: u64,
    /// Data servers that did not tell; theirs is not in the sums.
    pub missing: Vec<DataServerId>,
}

impl ClusterSpace {
    /// What data servers told, or did not.
    pub(super) fn of(
        told: impl IntoIterator<Item = (DataServerId, Option<SpaceOk>)>,
        unit_bytes: u32,
    ) -> ClusterSpace {
        let (mut sum, mut spaces) = (ClusterSpace::default(), Vec::new());
        for (id, space) in told {
            match space {
                Some(space) => spaces.push(space),
                None => sum.missing.push(id),
            }
        }
        let unit = u64::from(unit_bytes).max(1);
        for disk in by_disk(spaces) {
            sum.total = sum.total.saturating_add(disk.total);
            sum.free = sum.free.saturating_add(disk.free);
            sum.available = sum.available.saturating_add(disk.available / unit * unit);
        }
        sum
    }
}

/// Whether each of some data servers has room for its `share` of a file, of which it has so much in
/// use already. Those that share a disk may leave different parts of it free.
///
/// # Errors
/// One whose disk has not.
pub(super) fn have_room(
    told: &[(SpaceOk, (DataServerId, u64))],
    share: u64,
) -> Result<(), DataServerId> {
    let mut room: HashMap<DiskId, u64> = HashMap::new();
    for (space, _) in told {
        let most = room.entry(space.disk).or_default();
        *most = space.available.max(*most);
    }
    for (space, (id, used)) in told {
        let needed = share.saturating_sub(*used);
        let left = room.get(&space.disk).and_then(|room| room.checked_sub(needed));
        room.insert(space.disk, left.filter(|_| needed <= space.available).ok_or(*id)?);
    }
    Ok(())
}

/// Each disk once, with the least that anybody told: each was asked at another moment, and leaves
/// free what it likes.
fn by_disk(told: Vec<SpaceOk>) -> impl Iterator<Item = SpaceOk> {
    let mut disks: HashMap<DiskId, SpaceOk> = HashMap::new();
    for space in told {
        let least = disks.entry(space.disk).or_insert(space);
        least.total = least.total.min(space.total);
        least.free = least.free.min(space.free);
        least.available = least.available.min(space.available);
    }
    disks.into_values()
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNIT: u32 = 1 << 20;
    const MIB: u64 = 1 << 20;

    fn on(device: u64, available: u64) -> SpaceOk {
        let disk = DiskId { machine: [1; 16], device };
        let (total, free) = (100 * MIB, available + MIB);
        SpaceOk { total, free, available, disk, shares_blocks: false }
    }

    fn numbered(told: &[SpaceOk]) -> impl Iterator<Item = (DataServerId, Option<SpaceOk>)> {
        (1..).map(DataServerId).zip(told.iter().copied().map(Some))
    }

    /// One disk of three data servers is there once; the same number on another machine is another
    /// disk.
    #[test]
    fn a_shared_disk_counts_once() {
        let elsewhere = DiskId { machine: [2; 16], device: 5 };
        let shared = [on(5, 8 * MIB), on(5, 7 * MIB), on(5, 8 * MIB)];
        let one = ClusterSpace::of(numbered(&shared), UNIT);
        assert_eq!((one.total, one.free, one.available), (100 * MIB, 8 * MIB, 7 * MIB));
        let apart = [on(5, 8 * MIB), on(6, 7 * MIB), SpaceOk { disk: elsewhere, ..on(5, MIB) }];
        let three = ClusterSpace::of(numbered(&apart), UNIT);
        assert_eq!((three.total, three.available), (300 * MIB, 16 * MIB));
    }

    /// What is no whole stripe unit can be had by no file; who did not tell is named.
    #[test]
    fn what_is_left_is_whole_units() {
        let told = [on(1, 3 * MIB - 1), on(2, MIB - 1), on(3, MIB)];
        let mut told: Vec<_> = numbered(&told).collect();
        told.push((DataServerId(9), None));
        let sum = ClusterSpace::of(told, UNIT);
        assert_eq!((sum.available, sum.missing), (3 * MIB, vec![DataServerId(9)]));
    }

    /// Shares on one disk are wanted together; what a file has there already counts.
    #[test]
    fn shares_of_one_disk_are_added() {
        let (one, two) = (DataServerId(1), DataServerId(2));
        let told = |a, b| vec![(a, (one, 0)), (b, (two, 0))];
        let shared = on(1, 4 * MIB);
        assert_eq!(have_room(&told(shared, shared), 2 * MIB), Ok(()));
        assert_eq!(have_room(&told(shared, shared), 2 * MIB + 1), Err(two));
        let some_there = vec![(shared, (one, 0)), (shared, (two, 2))];
        assert_eq!(have_room(&some_there, 2 * MIB + 1), Ok(()));
        assert_eq!(have_room(&told(shared, on(2, 4 * MIB)), 4 * MIB), Ok(()));
        assert_eq!(have_room(&told(on(2, MIB), shared), 4 * MIB), Err(one));
        // One leaves much free and has its share already, the other has none of it.
        let floors = [(on(1, 0), (one, 3 * MIB)), (shared, (two, 0))];
        assert_eq!(have_room(&floors, 3 * MIB), Ok(()));
        assert_eq!(have_room(&floors, 3 * MIB + 1), Err(one));
        let small = |id| (on(1, MIB), (id, 0));
        assert_eq!(have_room(&[small(one), small(two), (shared, (two, 0))], MIB), Ok(()));
    }
}
