//! What ends a session or an incarnation of a client is answered after what is under way for it:
//! RFC 7862 §14.1.3, §14.1.4.

use std::time::Duration;

use weft_nfs::{NfsStat, OpArgs, OpOk, exchgid, ops::*};

use crate::support::*;

/// Long enough that an answer which does not wait would have come.
const A_WHILE: Duration = Duration::from_millis(300);

fn destroy(c: &Client) -> OpArgs {
    OpArgs::DestroySession(DestroySessionArgs { sessionid: c.sessionid })
}

/// A client whose write is under way, until the valve of the data server is opened; the write's
/// transaction id.
async fn with_a_write_under_way(cluster: &Cluster) -> (Client, u32) {
    let mut c = Client::mount(cluster, "a").await;
    let (fh, by) = c.file("f").await;
    // More than what stays with the metadata server.
    let block = vec![1; 1 << 17];
    c.compound().putfh(&fh).op(write(by, 0, &block)).expect(NfsStat::OK).await;
    let before = cluster.indirect().messages;
    cluster.valves[0].shut();
    let xid = c.compound().slot(1).putfh(&fh).op(write(by, 0, &block)).begin().await;
    eventually("the write on its way", || cluster.indirect().messages > before).await;
    (c, xid)
}

async fn cluster(lease_s: u32) -> Cluster {
    let options = Options { data_servers: 1, valves: true, lease_s, ..Options::default() };
    Cluster::with(options).await
}

/// DESTROY_SESSION is answered after the write that is under way on the session, whether it comes
/// in the session or without one.
#[tokio::test]
async fn a_session_ends_after_its_requests() {
    for in_session in [false, true] {
        let cluster = cluster(90).await;
        let (mut c, written) = with_a_write_under_way(&cluster).await;
        let destroy = destroy(&c);
        let ended = match in_session {
            true => c.compound().op(destroy).begin().await,
            false => {
                let args = compound_args("", 2, &[destroy]);
                let credential = c.credential.clone();
                c.wire.send_compound(&credential, &args).await
            }
        };
        let early = c.wire.reply_within(ended, A_WHILE).await;
        assert!(early.is_none(), "{early:?}");
        cluster.valves[0].open();
        c.wire.nfs_reply(written).await.ok();
        c.wire.nfs_reply(ended).await.ok();
        let id = c.sessionid;
        c.bare(&[sequence(id, 0, 99, false)]).await.is(NfsStat::BADSESSION);
    }
}

/// EXCHANGE_ID of a client that restarted is answered after the write of the incarnation before;
/// one of the same incarnation at once. The flag is for who asks.
#[tokio::test]
async fn an_incarnation_begins_after_the_one_before() {
    let cluster = cluster(90).await;
    let (mut c, written) = with_a_write_under_way(&cluster).await;
    let mut wire = Wire::connect(cluster.address()).await;
    let mut options = ClientOptions::new("a");
    let same = exchange(&mut wire, &c.credential, &options).await;
    assert_eq!(same.flags & exchgid::SUPP_FENCE_OPS, 0);
    options.verifier += 1;
    let restarted = ExchangeIdArgs { flags: exchgid::SUPP_FENCE_OPS, ..exchange_id(&options) };
    let args = compound_args("", 2, &[OpArgs::ExchangeId(restarted)]);
    let xid = wire.send_compound(&c.credential, &args).await;
    let early = wire.reply_within(xid, A_WHILE).await;
    assert!(early.is_none(), "{early:?}");
    cluster.valves[0].open();
    c.wire.nfs_reply(written).await.ok();
    let reply = wire.nfs_reply(xid).await.ok();
    let Ok(OpOk::ExchangeId(ok)) = &reply.last().result else { panic!("{reply:?}") };
    assert_ne!(ok.flags & exchgid::SUPP_FENCE_OPS, 0);
    assert_ne!(ok.clientid, c.clientid);
}

/// What does not end within a lease is not waited for any longer: two requests of one session that
/// destroy it would wait for each other.
#[tokio::test]
async fn nobody_waits_for_ever() {
    let cluster = cluster(1).await;
    let mut c = Client::mount(&cluster, "a").await;
    let mut answers = Vec::new();
    for slot in 0..2 {
        let destroy = destroy(&c);
        answers.push(c.compound().slot(slot).op(destroy).begin().await);
    }
    for xid in answers {
        let status = c.wire.nfs_reply(xid).await.status();
        let told = [NfsStat::OK, NfsStat::DELAY, NfsStat::BADSESSION];
        assert!(told.contains(&status), "{status}");
    }
}
