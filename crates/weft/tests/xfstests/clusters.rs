//! The two clusters that are judged, each with its data on a disk of its own.

use super::support::cluster::{Cluster, Options};
use super::support::disk::{Disk, Kind};

/// Size of a server's disk, of which little is ever used.
pub const DISK_MIB: u64 = 24 << 10;

/// One for the file system that tests share, one for that which they make anew, and may fill.
pub struct Clusters {
    clusters: [Cluster; 2],
    _disks: [Disk; 2],
}

impl Clusters {
    /// Their data servers' files can share blocks.
    pub fn start() -> Clusters {
        let disks = [(); 2].map(|()| Disk::new(Kind::Xfs, DISK_MIB));
        let clusters = disks
            .each_ref()
            .map(|disk| Cluster::on_disk(Options::default(), "", &disk.at().join("data")));
        Clusters { clusters, _disks: disks }
    }

    /// Ports of their metadata servers.
    pub fn ports(&self) -> [u16; 2] {
        self.clusters.each_ref().map(Cluster::port)
    }

    /// Ends them, and looks for what `weft fsck` finds.
    pub fn are_clean(mut self) {
        for cluster in &mut self.clusters {
            cluster.stop();
            cluster.is_clean();
        }
    }
}
