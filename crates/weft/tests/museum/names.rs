//! Exhibits about names: what happens to files while they are renamed, removed and replaced.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::Duration;

use weft_nfs::{NfsStat, OpArgs};

use crate::wire::{self, Wire};
use crate::{Museum, everywhere, on_the_kernel, support};

/// <https://github.com/juicedata/juicefs/issues/5663>
#[test]
fn an_unlinked_file_that_is_open_is_resized() {
    everywhere("unlinked_file_is_resized");
}

/// <https://github.com/trapexit/mergerfs/issues/521>
///
/// Linux keeps such a file by a hidden name unless the server says that it need not
/// (OPEN4_RESULT_PRESERVE_UNLINKED, RFC 8881 §18.16.4).
#[test]
fn a_directory_goes_whose_file_is_unlinked_and_open() {
    everywhere("directory_of_an_unlinked_open_file_goes");
}

/// <https://github.com/mem9-ai/drive9/issues/934>
#[test]
fn a_renamed_directory_keeps_files_that_were_just_written() {
    everywhere("renamed_directory_keeps_its_files");
}

/// <https://github.com/mem9-ai/drive9/issues/878>
#[test]
fn signals_interrupt_no_change_of_a_name() {
    everywhere("signals_interrupt_no_change_of_a_name");
}

/// <https://github.com/rclone/rclone/issues/1181>
#[test]
fn a_file_that_was_just_written_can_be_removed() {
    everywhere("new_file_can_be_removed");
}

/// <https://github.com/cvmfs/cvmfs/pull/559>
#[test]
fn an_open_file_that_another_client_replaces_is_read_to_its_end() {
    let museum = Museum::visit();
    let old = support::pattern(1, 3 << 20);
    museum.put("/replaced-here", &old);
    let open = File::open(museum.mount.path("replaced-here")).expect("open");
    let mut start = [0; 10];
    open.read_exact_at(&mut start, 0).expect("a first read");
    let new = museum.local("new", b"new");
    museum.weft(&["put", &new, "/replaced-here"]);
    let mut rest = vec![0; old.len()];
    open.read_exact_at(&mut rest, 0).expect("the file that was opened");
    assert!(rest == old, "other bytes than those of the file that was opened");
    on_the_kernel("replaced_file_is_read");
}

/// <https://github.com/juicedata/juicefs/issues/6597>
#[test]
fn no_file_is_made_in_a_directory_that_a_rename_replaced() {
    let museum = Museum::visit();
    wire::runs(async {
        let wire = Wire::open(&museum.cluster, "names").await;
        let active = wire.made_dir("active").await;
        wire.made_dir("backup").await;
        wire.done(vec![OpArgs::Putrootfh, OpArgs::Savefh, wire::rename("backup", "active")]).await;
        let made = vec![wire::putfh(&active), wire::create("file0")];
        let status = wire.refused(made).await;
        assert!([NfsStat::STALE, NfsStat::NOENT].contains(&status), "{status:?}");
    });
}

/// <https://github.com/NVIDIA-NeMo/Speech/pull/8153>,
/// <https://github.com/NVIDIA-NeMo/Megatron-Bridge/pull/4865>
#[test]
fn a_name_that_was_missed_is_found_soon_after_another_client_made_it() {
    const SOON: Duration = Duration::from_secs(2);
    let museum = Museum::visit();
    let folder = museum.mount.path("checkpoint");
    assert!(!folder.exists());
    museum.weft(&["mkdir", "/checkpoint"]);
    museum.put("/checkpoint/weights", b"weights");
    support::until("checkpoint", SOON, || folder.join("weights").exists().then_some(()));
}
