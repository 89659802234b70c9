//! Exhibits about the sizes of files.

use std::fs;

use crate::{Museum, everywhere, support};

/// <https://github.com/gluster/glusterfs/issues/2680>
#[test]
fn concurrent_writers_make_a_file_no_longer_than_they_wrote() {
    everywhere("writers_side_by_side_add_up");
}

/// <https://github.com/PEAK-AIO/pnfs-lattice/issues/44>
#[test]
fn a_small_file_is_synced_and_has_its_size() {
    everywhere("small_file_is_synced");
}

/// <https://github.com/rclone/rclone/issues/3843>,
/// <https://github.com/juicedata/juicefs/issues/5315>
#[test]
fn short_appends_add_up() {
    everywhere("appends_add_up");
}

/// <https://github.com/gluster/glusterfs/issues/1348>,
/// <https://github.com/gluster/glusterfs/issues/1022>
#[test]
fn a_file_of_an_exbibyte_is_cut_and_cut_again() {
    everywhere("file_of_an_exbibyte_is_cut");
}

/// <https://github.com/CurvineIO/curvine/pull/1167>
#[test]
fn a_file_that_is_being_written_keeps_its_size_as_its_mode_changes() {
    everywhere("file_that_is_being_written_keeps_its_size_as_its_mode_changes");
}

/// <https://github.com/juicedata/juicefs/issues/6323>
#[test]
fn an_open_after_another_clients_append_reads_all_of_it() {
    let museum = Museum::visit();
    let path = museum.mount.path("appended");
    for length in [10, 4000, 5000, 70_000, 80_000, 1_000_000] {
        let data = support::pattern(7, length);
        museum.put("/appended", &data);
        assert!(fs::read(&path).expect("read") == data, "not all of {length} bytes");
        let size = fs::metadata(&path).expect("stat").len();
        assert_eq!(size, length as u64);
    }
}
