//! SEQUENCE.

use weft_nfs::NfsStat;

use crate::support::*;

/// A whole main job in one COMPOUND.
#[tokio::test]
async fn hello() {
    let cluster = Cluster::start().await;
    let mut c = Client::mount(&cluster, "a").await;
    let reply = c.compound().putrootfh().open_create("a").getfh().send().await;
    assert_eq!(reply.status(), NfsStat::OK);
}
