//! Exhibits about delegations.

use std::time::Duration;

use weft_nfs::{NfsStat, NfsTime, OpArgs, OpOk, attr::Attrs};

use crate::support::ROOT_MAY_EVERYTHING;
use crate::support::cluster::{Cluster, Options};
use crate::wire::{self, Wire};
use crate::{Museum, on_the_kernel};

/// Longer than the lease, within which a delegation comes back.
const PAST_THE_LEASE: Duration = Duration::from_secs(25);

/// A server of an exhibit's own, with these lines of `[export]`.
fn cluster(lines: &str) -> Cluster {
    let options = Options { data_servers: 1, ..Options::default() };
    Cluster::configured(options, &format!("{ROOT_MAY_EVERYTHING}{lines}"))
}

/// <https://github.com/marmos91/dittofs/issues/2436>
#[test]
fn a_client_of_version_4_2_is_given_delegations() {
    let museum = Museum::visit();
    museum.put("/delegated", b"read often");
    wire::runs(async {
        let wire = Wire::open(&museum.cluster, "delegated").await;
        wire.delegated("delegated").await;
    });
}

/// <https://github.com/nfs-ganesha/nfs-ganesha/issues/1056>
#[test]
fn a_client_that_wrote_and_closed_a_file_is_given_it_to_read() {
    let museum = Museum::visit();
    wire::runs(async {
        let wire = Wire::open(&museum.cluster, "writer").await;
        for _ in 0..3 {
            let (fh, open) = wire.opened_new("written").await;
            wire.done(vec![wire::putfh(&fh), wire::write(open, b"written")]).await;
            wire.done(vec![wire::putfh(&fh), wire::close(open)]).await;
        }
        wire.delegated("written").await;
    });
}

/// <https://github.com/marmos91/dittofs/issues/2396>,
/// <https://github.com/chimera-nas/chimera/issues/1414>
#[test]
fn nobody_returns_another_clients_delegation() {
    let museum = Museum::visit();
    museum.put("/theirs", b"read often");
    wire::runs(async {
        let holder = Wire::open(&museum.cluster, "holder").await;
        let stranger = Wire::open(&museum.cluster, "stranger").await;
        let (fh, delegation) = holder.delegated("theirs").await;
        let returned = vec![wire::putfh(&fh), wire::delegreturn(delegation)];
        assert_eq!(stranger.refused(returned).await, NfsStat::BAD_STATEID);
        assert_eq!(holder.status_of(delegation).await, NfsStat::OK);
    });
}

/// <https://github.com/marmos91/dittofs/issues/2218>
#[test]
fn the_kernel_gives_back_what_is_recalled() {
    on_the_kernel("recalled_file_is_given_back");
}

/// <https://github.com/marmos91/dittofs/issues/2397>
#[test]
fn the_holder_of_a_directory_delegation_hears_of_a_new_name() {
    let cluster = cluster("directory_delegations = true\n");
    wire::runs(async {
        let holder = Wire::open(&cluster, "holder").await;
        let other = Wire::open(&cluster, "other").await;
        let dir = holder.made_dir("dir").await;
        let given = holder.done(vec![wire::putfh(&dir), wire::get_dir_delegation()]).await;
        let delegation = wire::granted(&given);
        let makes = other.done(vec![wire::putfh(&dir), wire::mkdir("new")]);
        let gives_back = async {
            assert_eq!(holder.recalled().await, delegation);
            holder.done(vec![wire::putfh(&dir), wire::delegreturn(delegation)]).await;
        };
        let both = async { tokio::join!(makes, gives_back) };
        tokio::time::timeout(wire::SOON, both).await.expect("a recall, and the new name");
    });
}

/// <https://github.com/ocf/nix/pull/399>
///
/// The server says with each reply that it has revoked something, until the client has freed it.
/// Were it said for ever, the client would ask which for ever: the second revocation would not be
/// told from the first. The server is its own: it delegates nothing for a while to the host of a
/// client that let two be revoked.
#[test]
fn a_revoked_delegation_is_named_and_forgotten_when_it_is_freed() {
    let cluster = cluster("");
    wire::runs(async {
        let holder = Wire::open(&cluster, "revoked").await;
        let other = Wire::open(&cluster, "opener").await;
        for name in ["first", "second"] {
            let (fh, open) = other.opened_new(name).await;
            other.done(vec![wire::putfh(&fh), wire::close(open)]).await;
        }
        let first = holder.delegated("first").await.1;
        let second = holder.delegated("second").await.1;
        let conflicts = async {
            tokio::join!(other.opened("first"), async {
                tokio::time::sleep(Duration::from_secs(2)).await;
                other.opened("second").await
            })
        };
        let frees = async {
            for (count, delegation) in [(1, first), (2, second)] {
                while holder.revocations() < count {
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    holder.done(vec![OpArgs::Putrootfh]).await;
                }
                assert_eq!(holder.status_of(delegation).await, NfsStat::DELEG_REVOKED);
                holder.done(vec![wire::free(delegation)]).await;
                assert_eq!(holder.status_of(delegation).await, NfsStat::BAD_STATEID);
            }
        };
        let both = async { tokio::join!(conflicts, frees) };
        tokio::time::timeout(PAST_THE_LEASE, both).await.expect("two revocations, each told");
    });
}

/// <https://github.com/dCache/nfs4j/issues/174>
#[test]
fn a_time_of_birth_to_be_set_breaks_no_exclusive_create() {
    let museum = Museum::visit();
    wire::runs(async {
        let wire = Wire::open(&museum.cluster, "exclusive").await;
        let born = NfsTime { seconds: 1_000_000, nseconds: 5 };
        let attrs = Attrs { time_create: Some(born), mode: Some(0o644), ..Attrs::default() };
        let created = wire.outcome(vec![OpArgs::Putrootfh, wire::exclusive("born", attrs)]).await;
        let failed = created.expect("an answer").failed.map(|f| f.failure.status);
        let plain = [None, Some(NfsStat::ATTRNOTSUPP), Some(NfsStat::INVAL)];
        assert!(plain.contains(&failed), "{failed:?}");
        let attrs = Attrs { mode: Some(0o644), ..Attrs::default() };
        let made = wire.done(vec![OpArgs::Putrootfh, wire::exclusive("born", attrs)]).await;
        assert!(matches!(made.last(), Some(OpOk::Open(_))), "{made:?}");
        let named = vec![OpArgs::Putrootfh, wire::lookup("born"), wire::birth(born)];
        let set = wire.outcome(named).await.expect("an answer").failed.map(|f| f.failure.status);
        assert!(plain.contains(&set), "{set:?}");
    });
}
