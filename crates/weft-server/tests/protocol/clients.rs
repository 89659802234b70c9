//! EXCHANGE_ID and CREATE_SESSION seen from outside, and what becomes of clients that fall
//! silent: RFC 8881 §8.3, §8.4, §18.35, §18.36.

use weft_nfs::{NfsStat, OpArgs, OpOk, SequenceId, exchgid, ops::*};

use crate::support::*;

/// The flag of 4.2's fencing operations is unknown to 4.1.
#[tokio::test]
async fn flags_of_a_later_minor_version() {
    let cluster = Cluster::start().await;
    let mut wire = Wire::connect(cluster.address()).await;
    let mut args = exchange_id(&ClientOptions::new("a"));
    args.flags = exchgid::SUPP_FENCE_OPS;
    for (minor, status) in [(1, NfsStat::INVAL), (2, NfsStat::OK)] {
        let ops = [OpArgs::ExchangeId(args.clone())];
        wire.compound(&user(0, 0), minor, &ops).await.is(status);
    }
}

/// An owner whose client holds nothing goes to another principal at once (§18.35.4, case 3); one
/// with a session does not.
#[tokio::test]
async fn an_idle_owner_changes_hands() {
    let cluster = Cluster::start().await;
    let mut first = Client::mount(&cluster, "a").await;
    let mut wire = Wire::connect(cluster.address()).await;
    let claim = [OpArgs::ExchangeId(exchange_id(&ClientOptions::new("a")))];
    wire.compound(&user(7, 7), 2, &claim).await.is(NfsStat::CLID_INUSE);
    let destroy = OpArgs::DestroySession(DestroySessionArgs { sessionid: first.sessionid });
    first.bare(&[destroy]).await.ok();
    wire.compound(&user(7, 7), 2, &claim).await.ok();
    let again = create_session(first.clientid, SequenceId(2), &first.options);
    first.bare(&[OpArgs::CreateSession(again)]).await.is(NfsStat::STALE_CLIENTID);
}

/// A CREATE_SESSION in a session, repeated without one, is a retry all the same (§18.36.4).
#[tokio::test]
async fn create_session_inside_a_session() {
    let cluster = Cluster::start().await;
    let mut c = Client::mount(&cluster, "a").await;
    let args = OpArgs::CreateSession(create_session(c.clientid, SequenceId(2), &c.options));
    let inside = c.compound().op(args.clone()).send().await.ok();
    let alone = c.bare(&[args]).await.ok();
    let made = |reply: &Reply| match &reply.last().result {
        Ok(OpOk::CreateSession(ok)) => ok.clone(),
        other => panic!("{other:?}"),
    };
    assert_eq!(made(&inside), made(&alone));
    assert_ne!(made(&alone).sessionid, c.sessionid);
}
