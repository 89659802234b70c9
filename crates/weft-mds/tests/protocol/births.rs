//! Which data servers may have an object of a file, and who asks before making one (ADR 21).

use std::time::Duration;

use weft_layout::FilesLayout;
use weft_nfs::{
    AttrNo, Attrs, Component, FileHandle, IoMode, NfsStat, OpArgs, OpOk, Stateid,
    ops::{DataContent, RemoveArgs, SeekArgs},
};

use crate::support::*;

const MIB: u64 = 1 << 20;
/// Before a server that starts is asked again.
const PAUSE: Duration = Duration::from_millis(20);
const ANY: Stateid = Stateid::ANONYMOUS;

/// A file with a layout to write, and a client of the data server of each stripe unit.
pub(crate) struct Laid {
    pub(crate) fh: FileHandle,
    pub(crate) open: Stateid,
    layout: Stateid,
    files: FilesLayout,
    pub(crate) units: Vec<(Client, FileHandle)>,
}

impl Laid {
    pub(crate) async fn out(cluster: &Cluster, c: &mut Client, name: &str) -> Laid {
        let (fh, open) = c.file(name).await;
        let get = OpArgs::Layoutget(layoutget(open, IoMode::RW));
        let got = c.compound().putfh(&fh).op(get).send().await.ok();
        let (files, layout) = (files_layout(&got), got.stateid());
        let mut laid = Laid { fh, open, layout, files, units: Vec::new() };
        laid.units = laid.handles(cluster).await;
        laid
    }

    pub(crate) async fn handles(&self, cluster: &Cluster) -> Vec<(Client, FileHandle)> {
        let (first, count) = (self.files.first_stripe_index as usize, self.files.filehandles.len());
        let mut units = Vec::new();
        for unit in 0..count {
            let index = (first + unit) % count;
            let ds = on_data_server(cluster, index, &format!("unit {unit}")).await;
            units.push((ds, layout_handle(&self.files, index)));
        }
        units
    }

    /// Writes a few bytes where a stripe unit begins, past the metadata server.
    async fn writes(&mut self, unit: usize) -> NfsStat {
        let (ds, handle) = &mut self.units[unit];
        let data = write(ANY, unit as u64 * MIB, b"data");
        ds.compound().putfh(handle).op(data).send().await.status()
    }

    pub(crate) async fn give_back(&self, c: &mut Client) {
        let back = OpArgs::Layoutreturn(layoutreturn(self.layout, IoMode::ANY));
        c.compound().putfh(&self.fh).op(back).op(close(self.open)).send().await.ok();
    }
}

/// A cluster that outlives its metadata server; files are striped from their first byte.
pub(crate) async fn on_disk(data_servers: u32) -> Cluster {
    let small_files = weft_mds::SmallFiles::OFF;
    let options =
        Options { data_servers, small_files, lease_s: 5, on_disk: true, ..Options::default() };
    Cluster::with(options).await
}

async fn size(c: &mut Client, fh: &FileHandle) -> Option<u64> {
    c.compound().putfh(fh).getattr(&[AttrNo::SIZE]).send().await.ok().attrs().size
}

async fn remove(c: &mut Client, name: &str) {
    let target = Component(name.to_owned().into());
    c.compound().putrootfh().op(OpArgs::Remove(RemoveArgs { target })).send().await.ok();
}

fn sent(cluster: &Cluster) -> [u64; 4] {
    ["SEAL", "FENCE", "REMOVE", "STAT"].map(|what| cluster.control_messages(what))
}

/// Nobody but the one data server that has it hears of a file of one stripe unit, whatever becomes
/// of it.
#[tokio::test]
async fn one_unit_is_one_data_servers() {
    let cluster = Cluster::striped(4).await;
    let mut c = Client::mount(&cluster, "a").await;
    let mut laid = Laid::out(&cluster, &mut c, "f").await;
    // Each was asked for its verifier, once.
    assert_eq!(sent(&cluster), [0, 0, 0, 4]);
    assert_eq!(laid.writes(0).await, NfsStat::OK);
    assert_eq!(size(&mut c, &laid.fh).await, Some(4));
    assert_eq!(sent(&cluster), [0, 0, 0, 5]);
    laid.give_back(&mut c).await;
    assert_eq!(sent(&cluster), [1, 0, 0, 5]);
    let mode = Attrs { mode: Some(0o600), ..Attrs::default() };
    c.compound().putfh(&laid.fh).op(setattr(ANY, mode)).send().await.ok();
    let [_, fences, ..] = sent(&cluster);
    assert!([1, 2].contains(&fences), "{fences} messages");
    remove(&mut c, "f").await;
    eventually("removal", || sent(&cluster)[2] > 0).await;
    assert_eq!(sent(&cluster)[2], 1);
}

/// Whoever writes beyond is let, once that is durable: a crash in the middle forgets no object.
#[tokio::test]
async fn others_ask_before_they_make_one() {
    let mut cluster = on_disk(4).await;
    let mut c = Client::mount(&cluster, "a").await;
    let mut laid = Laid::out(&cluster, &mut c, "f").await;
    assert_eq!(laid.writes(2).await, NfsStat::OK);
    assert_eq!(size(&mut c, &laid.fh).await, Some(2 * MIB + 4));
    // Four may have an object now, and no more asks.
    assert_eq!(laid.writes(3).await, NfsStat::OK);
    cluster.restart().await;
    let mut c = Client::mount(&cluster, "b").await;
    let end = loop {
        let got = c.compound().putfh(&laid.fh).op(read(ANY, 3 * MIB, 9)).send().await;
        match got.status() {
            NfsStat::GRACE | NfsStat::DELAY => tokio::time::sleep(PAUSE).await,
            _ => break got.ok().data(),
        }
    };
    assert_eq!(end.0[..], *b"data");
    assert_eq!(size(&mut c, &laid.fh).await, Some(3 * MIB + 4));
    remove(&mut c, "f").await;
    eventually("removal", || sent(&cluster)[2] == 4).await;
}

/// A write that asks while the metadata server starts waits for it, and is done.
#[tokio::test]
async fn a_restart_is_waited_for() {
    let mut cluster = on_disk(2).await;
    let mut c = Client::mount(&cluster, "a").await;
    let mut laid = Laid::out(&cluster, &mut c, "f").await;
    let (written, ()) = tokio::join!(laid.writes(1), cluster.restart());
    assert_eq!(written, NfsStat::OK);
}

/// Handles of before an end make nothing where nobody was told of the end, neither before others
/// have made something there, nor afterwards.
#[tokio::test]
async fn old_handles_make_nothing() {
    let cluster = Cluster::striped(2).await;
    let mut c = Client::mount(&cluster, "a").await;
    let mut old = Laid::out(&cluster, &mut c, "f").await;
    assert_eq!(old.writes(0).await, NfsStat::OK);
    for bits in [0o600, 0o400, 0o600] {
        let mode = Attrs { mode: Some(bits), ..Attrs::default() };
        c.compound().putfh(&old.fh).op(setattr(ANY, mode)).send().await.ok();
    }
    let gone = NfsStat::PNFS_NO_LAYOUT;
    assert_eq!([old.writes(0).await, old.writes(1).await], [gone; 2]);
    let back = OpArgs::Layoutreturn(layoutreturn(old.layout, IoMode::ANY));
    c.compound().putfh(&old.fh).op(back).send().await.ok();
    let get = OpArgs::Layoutget(layoutget(old.open, IoMode::RW));
    let files = files_layout(&c.compound().putfh(&old.fh).op(get).send().await.ok());
    let (fh, open, layout) = (old.fh.clone(), old.open, old.layout);
    let mut new = Laid { fh, open, layout, files, units: Vec::new() };
    new.units = new.handles(&cluster).await;
    assert_eq!(new.writes(1).await, NfsStat::OK);
    assert_eq!([old.writes(0).await, old.writes(1).await], [gone; 2]);
    assert_eq!(size(&mut c, &new.fh).await, Some(MIB + 4));
}

/// Nor where a cut could have made something since, which has no epoch.
#[tokio::test]
async fn a_cut_makes_nothing() {
    let cluster = Cluster::striped(4).await;
    let mut c = Client::mount(&cluster, "a").await;
    let mut old = Laid::out(&cluster, &mut c, "f").await;
    assert_eq!(old.writes(0).await, NfsStat::OK);
    let back = OpArgs::Layoutreturn(layoutreturn(old.layout, IoMode::ANY));
    c.compound().putfh(&old.fh).op(back).send().await.ok();
    c.compound().putfh(&old.fh).op(write(ANY, 2 * MIB, b"more")).send().await.ok();
    for size in [10 * MIB, 9 * MIB] {
        let size = Attrs { size: Some(size), ..Attrs::default() };
        c.compound().putfh(&old.fh).op(setattr(ANY, size)).send().await.ok();
    }
    assert_eq!(old.writes(3).await, NfsStat::PNFS_NO_LAYOUT);
    assert_eq!(size(&mut c, &old.fh).await, Some(9 * MIB));
}

/// Nor in grace, if its layout had come back before: the file was settled.
#[tokio::test]
async fn what_came_back_makes_nothing_in_grace() {
    let mut cluster = on_disk(2).await;
    let mut c = Client::mount(&cluster, "a").await;
    let mut other = Laid::out(&cluster, &mut c, "other").await;
    let mut old = Laid::out(&cluster, &mut c, "f").await;
    assert_eq!(old.writes(0).await, NfsStat::OK);
    old.give_back(&mut c).await;
    cluster.restart().await;
    assert_eq!(old.writes(1).await, NfsStat::PNFS_NO_LAYOUT);
    assert_eq!(other.writes(1).await, NfsStat::OK);
}

/// What the metadata server writes itself lets the file reach as far before; what lies between is a
/// hole, to readers and to who looks for one.
#[tokio::test]
async fn the_metadata_server_asks_nobody() {
    let cluster = Cluster::striped(4).await;
    let mut c = Client::mount(&cluster, "a").await;
    let (fh, id) = c.file("f").await;
    fill(&mut c, &(fh.clone(), id), 0, &[7; 1 << 20]).await;
    let seek = |offset: u64, what| OpArgs::Seek(SeekArgs { stateid: id, offset, what });
    let found = |reply: Reply| match &reply.ok().last().result {
        Ok(OpOk::Seek(ok)) => (ok.eof, ok.offset),
        other => panic!("{other:?}"),
    };
    let hole = seek(0, DataContent::HOLE);
    assert_eq!(found(c.compound().putfh(&fh).op(hole).send().await), (true, MIB));
    c.compound().putfh(&fh).op(write(id, 2 * MIB, b"far")).send().await.ok();
    let hole = seek(0, DataContent::HOLE);
    assert_eq!(found(c.compound().putfh(&fh).op(hole).send().await), (false, MIB));
    let data = seek(MIB, DataContent::DATA);
    assert_eq!(found(c.compound().putfh(&fh).op(data).send().await), (false, 2 * MIB));
    let got = c.compound().putfh(&fh).op(read(id, MIB - 1, 3)).send().await.ok().data();
    assert_eq!(got.0[..], [7, 0, 0]);
    let longer = Attrs { size: Some(9 * MIB), ..Attrs::default() };
    c.compound().putfh(&fh).op(setattr(id, longer)).send().await.ok();
    let got = c.compound().putfh(&fh).op(read(id, 7 * MIB, 3)).send().await.ok().data();
    assert_eq!(got.0[..], [0; 3]);
}
