//! What ends a session or an incarnation of a client is answered after what is under way for it, if
//! it was told so: RFC 7862 §14.1.3, §14.1.4.

use std::time::{Duration, Instant};

use weft_nfs::{NfsStat, OpArgs, OpOk, exchgid, ops::*};

use crate::support::*;

/// Long enough that an answer which does not wait would have come.
const A_WHILE: Duration = Duration::from_millis(300);
/// Less than what ends a session waits.
const LONG: Duration = Duration::from_secs(4);

fn options(flags: u32) -> ClientOptions {
    ClientOptions { flags, ..ClientOptions::new("a") }
}

fn destroy(c: &Client) -> OpArgs {
    OpArgs::DestroySession(DestroySessionArgs { sessionid: c.sessionid })
}

async fn cluster() -> Cluster {
    Cluster::with(Options { data_servers: 1, valves: true, ..Options::default() }).await
}

/// A client, told that its requests are fenced or not, whose write is under way until the valve of
/// the data server is opened; the write's transaction id.
async fn with_a_write_under_way(cluster: &Cluster, flags: u32) -> (Client, u32) {
    let mut c = Client::with(cluster.address(), options(flags)).await;
    let xid = begin_write(cluster, &mut c).await;
    (c, xid)
}

async fn begin_write(cluster: &Cluster, c: &mut Client) -> u32 {
    let (fh, by) = c.file("f").await;
    // More than what stays with the metadata server.
    let block = vec![1; 1 << 17];
    c.compound().putfh(&fh).op(write(by, 0, &block)).expect(NfsStat::OK).await;
    let before = cluster.indirect().messages;
    cluster.valves[0].shut();
    let xid = c.compound().slot(1).putfh(&fh).op(write(by, 0, &block)).begin().await;
    eventually("the write on its way", || cluster.indirect().messages > before).await;
    xid
}

/// Sends operations without a session: the transaction id.
async fn send_bare(wire: &mut Wire, op: OpArgs) -> u32 {
    wire.send_compound(&user(0, 0), &compound_args("", 2, &[op])).await
}

/// DESTROY_SESSION is answered after the write that is under way on the session, whether it comes
/// in the session or without one; and at once for a client that was promised nothing.
#[tokio::test]
async fn a_session_ends_after_its_requests() {
    for in_session in [false, true] {
        let cluster = cluster().await;
        let (mut c, written) = with_a_write_under_way(&cluster, exchgid::SUPP_FENCE_OPS).await;
        let destroy = destroy(&c);
        let ended = match in_session {
            true => c.compound().op(destroy).begin().await,
            false => send_bare(&mut c.wire, destroy).await,
        };
        let early = c.wire.reply_within(ended, A_WHILE).await;
        assert!(early.is_none(), "{early:?}");
        cluster.valves[0].open();
        c.wire.nfs_reply(written).await.ok();
        c.wire.nfs_reply(ended).await.ok();
        let id = c.sessionid;
        c.bare(&[sequence(id, 0, 99, false)]).await.is(NfsStat::BADSESSION);
    }
    let cluster = cluster().await;
    let (mut c, written) = with_a_write_under_way(&cluster, 0).await;
    c.bare(&[destroy(&c)]).await.ok();
    cluster.valves[0].open();
    c.wire.nfs_reply(written).await.ok();
}

/// What does not end is not waited for any longer than some seconds, and nothing is destroyed then.
#[tokio::test]
async fn nobody_waits_for_ever() {
    let cluster = cluster().await;
    let (mut c, written) = with_a_write_under_way(&cluster, exchgid::SUPP_FENCE_OPS).await;
    let begun = Instant::now();
    c.bare(&[destroy(&c)]).await.is(NfsStat::DELAY);
    assert!(begun.elapsed() > LONG, "{:?}", begun.elapsed());
    c.renew().await;
    cluster.valves[0].open();
    c.wire.nfs_reply(written).await.ok();
    c.bare(&[destroy(&c)]).await.ok();
}

/// EXCHANGE_ID of a client that restarted is answered after the write of the incarnation before;
/// one of the same incarnation at once.
#[tokio::test]
async fn an_incarnation_begins_after_the_one_before() {
    let cluster = cluster().await;
    let flags = exchgid::SUPP_FENCE_OPS;
    let (mut c, written) = with_a_write_under_way(&cluster, flags).await;
    let mut wire = Wire::connect(cluster.address()).await;
    let same = exchange(&mut wire, &c.credential, &options(0)).await;
    assert_ne!(same.flags & flags, 0, "it is still so");
    let restarted = exchange_id(&ClientOptions { verifier: 2, ..options(flags) });
    let xid = send_bare(&mut wire, OpArgs::ExchangeId(restarted)).await;
    let early = wire.reply_within(xid, A_WHILE).await;
    assert!(early.is_none(), "{early:?}");
    cluster.valves[0].open();
    c.wire.nfs_reply(written).await.ok();
    let reply = wire.nfs_reply(xid).await.ok();
    let Ok(OpOk::ExchangeId(ok)) = &reply.last().result else { panic!("{reply:?}") };
    assert_ne!(ok.flags & flags, 0);
    assert_ne!(ok.clientid, c.clientid);
}

/// What the incarnation before asked after that is not overtaken either: CREATE_SESSION, which ends
/// it, is put off.
#[tokio::test]
async fn an_incarnation_is_confirmed_after_the_one_before() {
    let cluster = cluster().await;
    let flags = exchgid::SUPP_FENCE_OPS;
    let mut c = Client::with(cluster.address(), options(flags)).await;
    let mut wire = Wire::connect(cluster.address()).await;
    let next = ClientOptions { verifier: 2, ..options(flags) };
    let known = exchange(&mut wire, &user(0, 0), &next).await;
    let written = begin_write(&cluster, &mut c).await;
    let create = OpArgs::CreateSession(create_session(known.clientid, known.sequenceid, &next));
    wire.compound(&user(0, 0), 2, std::slice::from_ref(&create)).await.is(NfsStat::DELAY);
    cluster.valves[0].open();
    c.wire.nfs_reply(written).await.ok();
    wire.compound(&user(0, 0), 2, &[create]).await.ok();
}
