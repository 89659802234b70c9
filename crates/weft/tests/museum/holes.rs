//! Exhibits about holes and mappings.

use crate::everywhere;

/// <https://github.com/openzfs/zfs/issues/15526>
#[test]
fn data_is_found_before_it_is_written_back() {
    everywhere("data_is_found_before_it_is_written_back");
}

/// <https://github.com/openzfs/zfs/issues/11697>
#[test]
fn data_is_found_after_a_mapping_wrote_it() {
    everywhere("data_is_found_after_a_mapping_wrote_it");
}

/// <https://github.com/openzfs/zfs/issues/16012>
#[test]
fn a_copy_has_the_holes_that_were_just_punched() {
    everywhere("copy_has_the_holes_that_were_just_punched");
}

/// <https://github.com/dCache/dcache/issues/8148>
#[test]
fn a_file_that_is_one_hole_keeps_its_size() {
    everywhere("file_that_is_one_hole_keeps_its_size");
}

/// <https://github.com/gluster/glusterfs/issues/860>
#[test]
fn a_mapping_of_a_file_that_just_grew_is_written() {
    everywhere("mapping_of_a_file_that_just_grew_is_written");
}
