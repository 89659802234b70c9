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

/// What is wanted of a data server's disk.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wanted {
    pub(super) id: DataServerId,
    /// What it told of its disk.
    pub(super) space: SpaceOk,
    /// Bytes beside those that it has in use.
    pub(super) more: u64,
}

/// Whether each of some data servers has the room that is wanted. Those that share a disk may leave
/// different parts of it free.
///
/// # Errors
/// One whose disk has not.
pub(super) fn have_room(wanted: &[Wanted]) -> Result<(), DataServerId> {
    let mut room: HashMap<DiskId, u64> = HashMap::new();
    for Wanted { space, .. } in wanted {
        let most = room.entry(space.disk).or_default();
        *most = space.available.max(*most);
    }
    for Wanted { id, space, more } in wanted {
        let left = room.get(&space.disk).and_then(|room| room.checked_sub(*more));
        room.insert(space.disk, left.filter(|_| *more <= space.available).ok_or(*id)?);
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

    /// What is wanted of one disk is wanted together.
    #[test]
    fn shares_of_one_disk_are_added() {
        let (one, two) = (DataServerId(1), DataServerId(2));
        let of = |(a, b), (more_a, more_b)| {
            let first = Wanted { id: one, space: a, more: more_a };
            have_room(&[first, Wanted { id: two, space: b, more: more_b }])
        };
        let shared = on(1, 4 * MIB);
        assert_eq!(of((shared, shared), (2 * MIB, 2 * MIB)), Ok(()));
        assert_eq!(of((shared, shared), (2 * MIB, 2 * MIB + 1)), Err(two));
        assert_eq!(of((shared, shared), (0, 4 * MIB)), Ok(()));
        assert_eq!(of((shared, on(2, 4 * MIB)), (4 * MIB, 4 * MIB)), Ok(()));
        assert_eq!(of((on(2, MIB), shared), (4 * MIB, 0)), Err(one));
        // One leaves nothing free and needs nothing, the other needs it all.
        assert_eq!(of((on(1, 0), shared), (0, 3 * MIB)), Ok(()));
        assert_eq!(of((on(1, 0), shared), (1, 3 * MIB)), Err(one));
        let small = |id| Wanted { id, space: on(1, MIB), more: MIB };
        let large = Wanted { id: two, space: shared, more: MIB };
        assert_eq!(have_room(&[small(one), small(two), large]), Ok(()));
    }
}
