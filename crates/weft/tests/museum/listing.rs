//! Exhibits about listing directories.

use std::collections::BTreeSet;

use weft_nfs::{NfsStat, OpArgs, OpNum, OpOk};

use crate::wire::{self, Wire};
use crate::{Museum, everywhere};

/// Names of the directory that is listed over the wire.
const NAMES: usize = 150;
/// Bytes of a reply: a few names.
const REPLY_BYTES: u32 = 600;

/// <https://github.com/gluster/glusterfs/issues/710>
#[test]
fn a_directory_can_be_removed_while_it_is_listed() {
    everywhere("directory_is_removed_while_it_is_listed");
}

/// <https://github.com/longhorn/longhorn/issues/13829>
#[test]
fn every_listed_name_has_attributes() {
    everywhere("listed_names_have_attributes");
}

/// <https://github.com/openzfs/zfs/issues/2520>
#[test]
fn every_name_is_listed_once_and_every_cookie_is_another() {
    everywhere("every_name_is_listed_once");
    let museum = Museum::visit();
    wire::runs(async {
        let wire = Wire::open(&museum.cluster, "listing").await;
        let dir = wire.made_dir("cookies").await;
        for i in 0..NAMES {
            wire.done(vec![wire::putfh(&dir), wire::mkdir(&format!("name-{i}"))]).await;
        }
        let (mut cookies, mut names, mut at) = (BTreeSet::new(), BTreeSet::new(), 0);
        loop {
            let listed = wire.done(vec![wire::putfh(&dir), wire::readdir(at, REPLY_BYTES)]).await;
            let Some(OpOk::Readdir(page)) = listed.last() else { panic!("{listed:?}") };
            for entry in &page.entries {
                assert!(entry.cookie > 2, "{} is a cookie of the protocol's", entry.cookie);
                assert!(cookies.insert(entry.cookie), "cookie {} comes again", entry.cookie);
                assert!(names.insert(entry.name.clone()), "{:?} comes again", entry.name);
                at = entry.cookie;
            }
            if page.eof {
                break;
            }
            assert!(!page.entries.is_empty(), "a page without names is not the last");
        }
        assert_eq!(names.len(), NAMES);
    });
}

/// <https://github.com/nfs-ganesha/nfs-ganesha/issues/1385>
#[test]
fn a_delegation_of_a_directory_is_declined_by_a_status_that_linux_knows() {
    let museum = Museum::visit();
    wire::runs(async {
        let wire = Wire::open(&museum.cluster, "declined").await;
        let asked = vec![OpArgs::Putrootfh, wire::get_dir_delegation(), wire::getattr_size()];
        let outcome = wire.outcome(asked).await.expect("an answer");
        if let Some(failed) = outcome.failed {
            assert_eq!(failed.op, OpNum::GET_DIR_DELEGATION);
            assert_eq!(failed.failure.status, NfsStat::NOTSUPP, "RFC 8881 §15.2, §18.39");
        }
    });
}
