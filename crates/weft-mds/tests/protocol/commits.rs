//! COMMIT of bytes that were written through a layout is asked of the metadata server (RFC 8881
//! §13.7). It tells the verifier of the WRITEs unless a data server may have lost bytes (ADR 43).

use std::time::Duration;

use weft_nfs::{
    AttrNo, FileHandle, NfsStat, NfsTime, OpArgs, OpOk, StableHow, Stateid, Verifier,
    attr::SetTime, ops::CommitArgs,
};

use super::births::{Laid, on_disk};
use crate::support::*;

const MIB: u64 = 1 << 20;
const ANY: Stateid = Stateid::ANONYMOUS;

/// Three data servers, a client, and its file with a layout to write.
async fn laid_out() -> (Cluster, Client, Laid) {
    let cluster = on_disk(3).await;
    let mut c = Client::mount(&cluster, "a").await;
    let laid = Laid::out(&cluster, &mut c, "f").await;
    (cluster, c, laid)
}

/// Writes at the beginning of a stripe unit, through the layout, and not durably.
async fn write_unit(laid: &mut Laid, unit: usize) -> Result<Verifier, NfsStat> {
    let (ds, handle) = &mut laid.units[unit];
    written(ds, handle, ANY, unit).await
}

async fn written(
    c: &mut Client,
    fh: &FileHandle,
    stateid: Stateid,
    unit: usize,
) -> Result<Verifier, NfsStat> {
    let OpArgs::Write(mut data) = write(stateid, unit as u64 * MIB, b"data") else {
        panic!("a WRITE")
    };
    data.stable = StableHow::UNSTABLE;
    let data = OpArgs::Write(data);
    let reply = c.compound().putfh(fh).op(data).send().await;
    match &reply.last().result {
        Ok(OpOk::Write(told)) => Ok(told.writeverf),
        _ => Err(reply.status()),
    }
}

/// As soon as the data servers answer.
async fn committed(c: &mut Client, fh: &FileHandle) -> Verifier {
    loop {
        let commit = OpArgs::Commit(CommitArgs { offset: 0, count: 0 });
        let reply = c.compound().putfh(fh).op(commit).send().await;
        match &reply.last().result {
            Ok(OpOk::Commit(told)) => return told.verifier,
            _ => assert_eq!(reply.status(), NfsStat::DELAY),
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// All data servers of a file tell one verifier, whoever has an object yet, and so do WRITE and
/// COMMIT at the metadata server. Restarts of processes leave it alone.
#[tokio::test]
async fn all_servers_tell_one_verifier() {
    let (mut cluster, mut c, mut laid) = laid_out().await;
    let first = write_unit(&mut laid, 0).await.unwrap();
    assert_eq!(committed(&mut c, &laid.fh).await, first);
    assert_eq!(write_unit(&mut laid, 1).await, Ok(first));
    assert_eq!(committed(&mut c, &laid.fh).await, first);
    let open = laid.open;
    let through = written(&mut c, &laid.fh, open, 2).await;
    assert_eq!(through, Ok(first), "through the metadata server");
    for index in 0..3 {
        cluster.stop_data_server(index).await;
        cluster.restart_data_server(index).await;
        assert_eq!(committed(&mut c, &laid.fh).await, first, "data server {index}");
    }
    // Nobody has told the next process a verifier yet.
    cluster.restart().await;
    let mut c = Client::mount(&cluster, "b").await;
    assert_eq!(committed(&mut c, &laid.fh).await, first);
}

/// So does the first WRITE of a metadata server, to which no data server has told its own yet, and
/// nobody waits for its bytes to be written again.
#[tokio::test]
async fn the_first_write_tells_it_too() {
    let cluster = on_disk(3).await;
    let mut c = Client::mount(&cluster, "a").await;
    let made = c.compound().putrootfh().open_create("f").getfh().send().await.ok();
    let (fh, open) = (made.fh(), made.stateid());
    let first = written(&mut c, &fh, open, 0).await;
    assert_eq!(Ok(committed(&mut c, &fh).await), first);
    let mut other = Client::mount(&cluster, "b").await;
    other.compound().putrootfh().open(open_name("other", "f")).send().await.ok();
}

/// If a data server may have lost bytes, COMMIT tells another verifier, also for those on the
/// others. Handles from before end, since they tell the old one; new ones tell the new one.
#[tokio::test]
async fn handles_end_with_a_loss() {
    let (mut cluster, mut c, mut laid) = laid_out().await;
    let before = write_unit(&mut laid, 0).await.unwrap();
    assert_eq!(write_unit(&mut laid, 1).await, Ok(before));
    cluster.stop_data_server(0).await;
    // As if the machine was booted meanwhile.
    std::fs::remove_file(cluster.data_server_dir(1).join("verifier")).unwrap();
    cluster.restart_data_server(0).await;
    let after = committed(&mut c, &laid.fh).await;
    assert_ne!(after, before);
    laid.units = laid.handles(&cluster).await;
    // Whatever they tell, it is not confirmed; and soon they tell nothing any more.
    for unit in 0..3 {
        let told = tokio::time::timeout(PATIENCE, async {
            while let Ok(told) = write_unit(&mut laid, unit).await {
                assert_ne!(told, after);
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        });
        told.await.expect("the handle ends");
    }
    // Whoever was told to write again may do so after its program has closed the file: others wait
    // for that.
    let mut other = Client::mount(&cluster, "b").await;
    let opens = || open_name("other", "f");
    other.compound().putrootfh().open(opens()).send().await.is(NfsStat::DELAY);
    let cut = setattr(ANY, size(0));
    other.compound().putfh(&laid.fh).op(cut).send().await.is(NfsStat::DELAY);
    let own = c.compound().putrootfh().open(open_name("own", "f")).send().await.ok().stateid();
    c.compound().putfh(&laid.fh).op(close(own)).send().await.ok();
    laid.give_back(&mut c).await;
    other.compound().putrootfh().open(opens()).send().await.ok();
    let mut again = Laid::out(&cluster, &mut c, "f").await;
    for unit in 0..3 {
        assert_eq!(write_unit(&mut again, unit).await, Ok(after));
    }
    assert_eq!(committed(&mut c, &again.fh).await, after);
}

/// A time that was set after the last write stays, although a data server that was restarted counts
/// its writes anew.
#[tokio::test]
async fn times_that_were_set_outlive_a_data_server() {
    let (mut cluster, mut c, mut laid) = laid_out().await;
    write_unit(&mut laid, 0).await.unwrap();
    let time = NfsTime { seconds: 1_008_765_675, nseconds: 0 };
    let set = setattr(ANY, mtime(SetTime::ToClient(time)));
    c.compound().putfh(&laid.fh).op(set).send().await.ok();
    for index in 0..3 {
        assert_eq!(modified(&mut c, &laid).await, Some(time), "{index} restarts");
        cluster.stop_data_server(index).await;
        cluster.restart_data_server(index).await;
    }
    assert_eq!(modified(&mut c, &laid).await, Some(time));
    laid.give_back(&mut c).await;
    assert_eq!(modified(&mut c, &laid).await, Some(time));
}

async fn modified(c: &mut Client, laid: &Laid) -> Option<NfsTime> {
    let ask = c.compound().putfh(&laid.fh).getattr(&[AttrNo::TIME_MODIFY]);
    ask.send().await.ok().attrs().time_modify
}
