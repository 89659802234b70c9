//! Small writes through the metadata server that leave it together (P0.5): RFC 8881 §18.32.

use weft_mds::SmallFiles;
use weft_nfs::{FileHandle, OpArgs, OpOk, StableHow, Stateid, Verifier, ops::*};
use weft_xdr::Payload;

use crate::support::*;

const BLOCK: u64 = 4096;
const BLOCKS: u64 = 64;

/// One data server, the way to which can be shut.
async fn cluster(gather: bool) -> Cluster {
    let small_files = SmallFiles { gather, ..SmallFiles::OFF };
    Cluster::with(Options { data_servers: 1, small_files, valves: true, ..Options::default() })
        .await
}

fn block(number: u64) -> Vec<u8> {
    (0..BLOCK).map(|i| (i % 249 + 5 * number) as u8).collect()
}

/// Sends a WRITE on a slot of its own; its transaction id.
async fn begin(c: &mut Client, fh: &FileHandle, by: Stateid, number: u64, how: StableHow) -> u32 {
    let data = Payload::Bytes(block(number).into());
    let write = WriteArgs { stateid: by, offset: number * BLOCK, stable: how, data };
    let slot = u32::try_from(number % BLOCKS).unwrap();
    c.compound().slot(slot).putfh(fh).op(OpArgs::Write(write)).begin().await
}

async fn written(c: &mut Client, xid: u32) -> WriteOk {
    let reply = c.wire.nfs_reply(xid).await.ok();
    let Ok(OpOk::Write(ok)) = &reply.last().result else { panic!("{reply:?}") };
    ok.clone()
}

async fn commit(c: &mut Client, fh: &FileHandle) -> Verifier {
    let commit = OpArgs::Commit(CommitArgs { offset: 0, count: 0 });
    let reply = c.compound().putfh(fh).op(commit).send().await.ok();
    let Ok(OpOk::Commit(ok)) = &reply.last().result else { panic!("{reply:?}") };
    ok.verifier
}

/// Writes blocks of one file, those with even numbers by one client and the others by another,
/// all of them while the first is under way; how many messages that took.
async fn write_by_two(cluster: &Cluster, how: impl Fn(u64) -> StableHow) -> u64 {
    let (mut a, mut b, fh, of_a, of_b) = two(cluster).await;
    // The file gets its place.
    let first = begin(&mut a, &fh, of_a, 0, how(0)).await;
    written(&mut a, first).await;
    let before = cluster.indirect();
    cluster.valves[0].shut();
    let mut under_way = Vec::new();
    for number in 0..BLOCKS {
        let (c, by) = if number % 2 == 0 { (&mut a, of_a) } else { (&mut b, of_b) };
        under_way.push(begin(c, &fh, by, number, how(number)).await);
        // One after another: of two that come at once the farther one may be first, and leave.
        let came = || {
            let now = cluster.indirect();
            now.waiting + now.messages - before.messages == number + 1
        };
        eventually("the write there", came).await;
    }
    cluster.valves[0].open();
    let mut told = Vec::new();
    for (number, xid) in (0..).zip(under_way) {
        let ok = written(if number % 2 == 0 { &mut a } else { &mut b }, xid).await;
        assert_eq!(u64::from(ok.count), BLOCK);
        assert!(ok.committed >= how(number), "{ok:?}");
        told.push(ok.writeverf);
    }
    let verifier = commit(&mut a, &fh).await;
    assert!(told.iter().all(|v| *v == verifier), "nothing restarted");
    for number in 0..BLOCKS {
        let read = read(of_b, number * BLOCK, u32::try_from(BLOCK).unwrap());
        let (data, _) = b.compound().putfh(&fh).op(read).send().await.ok().data();
        assert!(data == block(number), "block {number}");
    }
    let after = cluster.indirect();
    assert_eq!((after.writes - before.writes, after.waiting), (BLOCKS, 0));
    after.messages - before.messages
}

/// Sixty-four adjacent small writes of two clients, all but one of which come while the first is
/// under way, leave in two messages; each is answered for itself, and its bytes are there.
#[tokio::test]
async fn adjacent_writes_leave_together() {
    let cluster = cluster(true).await;
    assert_eq!(write_by_two(&cluster, |_| StableHow::UNSTABLE).await, 2);
}

/// What must be durable is not in one message with what need not be, nor does it wait for that.
#[tokio::test]
async fn levels_leave_apart() {
    let cluster = cluster(true).await;
    let half =
        |number| if number < BLOCKS / 2 { StableHow::UNSTABLE } else { StableHow::FILE_SYNC };
    assert_eq!(write_by_two(&cluster, half).await, 4);
}

/// Switched off, each leaves for itself.
#[tokio::test]
async fn gathering_can_be_switched_off() {
    let cluster = cluster(false).await;
    assert_eq!(write_by_two(&cluster, |_| StableHow::UNSTABLE).await, BLOCKS);
}

/// A client whose connection ends while its write waits takes nobody else's along.
#[tokio::test]
async fn a_lost_connection_loses_no_bytes() {
    let cluster = cluster(true).await;
    let (mut a, mut b, fh, of_a, of_b) = two(&cluster).await;
    let first = begin(&mut a, &fh, of_a, 0, StableHow::UNSTABLE).await;
    written(&mut a, first).await;
    let before = cluster.indirect().messages;
    cluster.valves[0].shut();
    let under_way = begin(&mut a, &fh, of_a, 0, StableHow::UNSTABLE).await;
    let left = || cluster.indirect().messages > before;
    eventually("the first on its way", left).await;
    begin(&mut b, &fh, of_b, 1, StableHow::UNSTABLE).await;
    let waits = || cluster.indirect().waiting == 1;
    eventually("the one of b", waits).await;
    let waiting = begin(&mut a, &fh, of_a, 2, StableHow::UNSTABLE).await;
    let wait = || cluster.indirect().waiting == 2;
    eventually("both of them", wait).await;
    let connections = cluster.connections();
    drop(b);
    eventually("end of b's connection", || cluster.connections() < connections).await;
    cluster.valves[0].open();
    written(&mut a, under_way).await;
    written(&mut a, waiting).await;
    for number in [0, 2] {
        let read = read(of_a, number * BLOCK, u32::try_from(BLOCK).unwrap());
        let (data, _) = a.compound().putfh(&fh).op(read).send().await.ok().data();
        assert!(data == block(number), "block {number}");
    }
    assert_eq!(cluster.indirect().messages, before + 2);
}
