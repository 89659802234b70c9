//! Exhibits about locks.

use std::time::Duration;

use weft_nfs::{LockType, NfsStat};

use crate::wire::{self, Wire};
use crate::{Museum, everywhere};

/// <https://github.com/juicedata/juicefs/issues/6770>,
/// <https://github.com/juicedata/juicefs/issues/4890>
#[test]
fn processes_that_contend_for_a_lock_get_it_in_turn() {
    everywhere("processes_that_contend_for_a_lock_get_it");
}

/// <https://github.com/flutter/flutter/issues/6549>
#[test]
fn flock_of_a_descriptor_that_only_reads_excludes_or_says_that_it_cannot() {
    everywhere("flock_takes_a_descriptor_that_only_reads_or_refuses_it");
}

/// <https://github.com/juicedata/juicefs/issues/4081>
#[test]
fn a_lock_of_an_open_file_description_ends_with_it() {
    everywhere("lock_of_a_description_lives_as_long_as_it");
}

/// <https://github.com/juicedata/juicefs/issues/7462>
#[test]
fn a_client_that_stood_still_writes_nothing_under_a_lock_that_it_lost() {
    let museum = Museum::visit();
    museum.put("/frozen", b"nobody's");
    let (frozen, other) = (wire::runtime(), wire::runtime());
    let (wire, fh, lock) = frozen.block_on(async {
        let wire = Wire::open(&museum.cluster, "frozen").await;
        let (fh, open) = wire.opened("frozen").await;
        let lock = wire.locked(&fh, open, LockType::Write).await.expect("a free lock");
        (wire, fh, lock)
    });
    // The runtime of the first client is not polled from here on: it renews nothing.
    other.block_on(async {
        let wire = Wire::open(&museum.cluster, "awake").await;
        let (fh, open) = wire.opened("frozen").await;
        let mut taken = wire.locked(&fh, open, LockType::Write).await;
        while let Err(status) = taken {
            assert_eq!(status, NfsStat::DENIED);
            tokio::time::sleep(Duration::from_millis(200)).await;
            taken = wire.locked(&fh, open, LockType::Write).await;
        }
        let lock = taken.expect("the lock");
        wire.done(vec![wire::putfh(&fh), wire::write(lock, b"the other's")]).await;
    });
    frozen.block_on(async {
        let late = vec![wire::putfh(&fh), wire::write(lock, b"the first's")];
        assert_eq!(wire.refused(late).await, NfsStat::BAD_STATEID);
    });
    let holds = museum.cluster.weft(&["cat", "/frozen"]).stdout;
    assert_eq!(holds, b"the other's");
}
