//! What ends the data servers' handles that were given out: taking rights away, and the return of
//! the last write layout. RFC 8881 §13.6, §12.5.5, §15.1.5.9; ADR 5.

use std::time::Duration;

use weft_mds::Export;
use weft_nfs::{
    Ace, AceType, Acl, AttrNo, Attrs, FileHandle, IoMode, NfsStat, OpArgs, Opaque, Stateid,
    ace_mask, attr::numeric_owner, ops::*,
};

use crate::support::*;

const USER: u32 = 1000;
const STRANGER: u32 = 4242;
const ANY: Stateid = Stateid::ANONYMOUS;

/// A layout that a user of a client holds, and the way to the data server with the file's first
/// bytes.
struct Held {
    fh: FileHandle,
    open: Stateid,
    layout: Stateid,
    handle: FileHandle,
    /// Of the other data server, which has nothing of the file yet.
    far: FileHandle,
    first: usize,
    ds: Client,
}

/// Two data servers, and all on a disk; leases are short, so that grace is.
async fn on_disk() -> Cluster {
    let small_files = weft_mds::SmallFiles::OFF;
    let options =
        Options { data_servers: 2, small_files, lease_s: 1, on_disk: true, ..Options::default() };
    Cluster::with(options).await
}

impl Held {
    async fn direct(&mut self, op: OpArgs) -> NfsStat {
        self.ds.compound().putfh(&self.handle).op(op).send().await.status()
    }

    async fn reads(&mut self) -> NfsStat {
        self.direct(read(ANY, 0, 9)).await
    }

    async fn writes(&mut self) -> NfsStat {
        self.direct(write(ANY, 0, b"evil")).await
    }

    async fn give_layout_back(&self, c: &mut Client, user: u32) {
        let back = OpArgs::Layoutreturn(layoutreturn(self.layout, IoMode::ANY));
        c.by_user(user).putfh(&self.fh).op(back).expect(NfsStat::OK).await;
    }

    /// The layout is given back, and the file is closed.
    async fn give_back(&self, c: &mut Client, user: u32) {
        self.give_layout_back(c, user).await;
        self.close(c, user).await;
    }

    async fn close(&self, c: &mut Client, user: u32) {
        c.by_user(user).putfh(&self.fh).op(close(self.open)).expect(NfsStat::OK).await;
    }

    /// Gives back the layout, which was recalled, and gets another by the same open.
    async fn again(&mut self, c: &mut Client, user: u32, iomode: IoMode) {
        self.give_layout_back(c, user).await;
        self.lay_out(c, user, iomode).await;
    }

    /// A layout by the open: its handle from now on.
    async fn lay_out(&mut self, c: &mut Client, user: u32, iomode: IoMode) {
        let get = OpArgs::Layoutget(layoutget(self.open, iomode));
        let got = c.by_user(user).putfh(&self.fh).op(get).send().await.ok();
        (self.layout, self.handle) =
            (got.stateid(), layout_handle(&files_layout(&got), self.first));
    }
}

/// A file of root's with this mode and "text". Nobody was given handles of it yet.
async fn file(c: &mut Client, name: &str, bits: u32) -> FileHandle {
    let (fh, stateid) = c.file(name).await;
    c.compound().putfh(&fh).op(write(stateid, 0, b"text")).expect(NfsStat::OK).await;
    c.compound().putfh(&fh).op(setattr(stateid, mode(bits))).expect(NfsStat::OK).await;
    c.compound().putfh(&fh).op(close(stateid)).expect(NfsStat::OK).await;
    fh
}

/// A file that everybody may use, on a disk, was closed by who had a layout to read it.
async fn left_behind() -> (Cluster, Held) {
    let cluster = on_disk().await;
    let mut c = Client::mount(&cluster, "a").await;
    let fh = file(&mut c, "f", 0o666).await;
    let reader = held(&cluster, &mut c, (&fh, USER), IoMode::READ).await;
    reader.close(&mut c, USER).await;
    (cluster, reader)
}

/// A user opens a file and gets a layout of it; with one to write "data" is written.
async fn held(
    cluster: &Cluster,
    c: &mut Client,
    (fh, user): (&FileHandle, u32),
    iomode: IoMode,
) -> Held {
    let access = if iomode == IoMode::RW { 3 } else { 1 };
    let owner = user.to_string();
    let open = OpenArgs { share_access: access, ..open(&owner, OpenClaim::Fh) };
    let open = OpArgs::Open(open);
    let open = c.by_user(user).putfh(fh).op(open).send().await.ok().stateid();
    let get = OpArgs::Layoutget(layoutget(open, iomode));
    let got = c.by_user(user).putfh(fh).op(get).send().await.ok();
    let files = files_layout(&got);
    let first = usize::try_from(files.first_stripe_index).unwrap();
    let ds = on_data_server(cluster, first, &format!("{user}")).await;
    let (layout, handle) = (got.stateid(), layout_handle(&files, first));
    let far = layout_handle(&files, 1 - first);
    let mut held = Held { fh: fh.clone(), open, layout, handle, far, first, ds };
    if iomode == IoMode::RW {
        assert_eq!(held.direct(write(ANY, 0, b"data")).await, NfsStat::OK);
    }
    assert_eq!(held.reads().await, NfsStat::OK);
    held
}

async fn set(c: &mut Client, fh: &FileHandle, attrs: Attrs) -> NfsStat {
    c.compound().putfh(fh).op(setattr(ANY, attrs)).send().await.status()
}

async fn bytes(c: &mut Client, fh: &FileHandle) -> Vec<u8> {
    loop {
        let got = c.compound().putfh(fh).op(read(ANY, 0, 99)).send().await;
        match got.status() {
            NfsStat::GRACE => tokio::time::sleep(Duration::from_millis(20)).await,
            _ => return got.ok().data().0.to_vec(),
        }
    }
}

/// So many data servers, those that have an object, were told to fence since there were so many
/// messages; twice perhaps, since whoever fences in the background may come by meanwhile.
fn were_told(cluster: &Cluster, data_servers: u64, before: u64) {
    let sent = cluster.control_messages("FENCE") - before;
    assert!([data_servers, 2 * data_servers].contains(&sent), "{sent} messages");
}

/// A change of attributes that takes a right away from somebody ends all handles, to read and to
/// write, before it is answered. Who has the file open gets new ones; one that takes nothing away
/// ends none, and sends nothing.
async fn ends_handles(before: Attrs, adds: Attrs, takes: Attrs) {
    let cluster = Cluster::striped(2).await;
    let mut c = Client::mount(&cluster, "a").await;
    let fh = file(&mut c, "f", 0o600).await;
    assert_eq!(set(&mut c, &fh, before).await, NfsStat::OK);
    let mut writer = held(&cluster, &mut c, (&fh, USER), IoMode::RW).await;
    let mut other = Client::mount(&cluster, "b").await;
    let mut reader = held(&cluster, &mut other, (&fh, STRANGER), IoMode::READ).await;
    // The file has an object on the other data server too.
    let mut far = on_data_server(&cluster, 1 - writer.first, "far").await;
    let more = write(ANY, 1 << 20, b"more");
    far.compound().putfh(&writer.far).op(more.clone()).expect(NfsStat::OK).await;
    let fences = cluster.control_messages("FENCE");
    for _same in 0..2 {
        assert_eq!(set(&mut c, &fh, adds.clone()).await, NfsStat::OK);
    }
    assert_eq!((writer.reads().await, reader.reads().await), (NfsStat::OK, NfsStat::OK));
    assert_eq!(cluster.control_messages("FENCE"), fences);
    assert_eq!(set(&mut c, &fh, takes).await, NfsStat::OK);
    let gone = NfsStat::PNFS_NO_LAYOUT;
    assert_eq!([writer.reads().await, writer.writes().await, reader.reads().await], [gone; 3]);
    far.compound().putfh(&writer.far).op(more).expect(gone).await;
    were_told(&cluster, 2, fences);
    writer.again(&mut c, USER, IoMode::RW).await;
    assert_eq!(writer.direct(write(ANY, 4, b"more")).await, NfsStat::OK);
    assert_eq!(bytes(&mut c, &fh).await[..8], *b"datamore");
}

#[tokio::test]
async fn chmod_ends_handles() {
    ends_handles(mode(0o666), mode(0o777), mode(0o600)).await;
}

#[tokio::test]
async fn chown_ends_handles() {
    let owner = |uid| Attrs { owner: Some(numeric_owner(uid)), ..Attrs::default() };
    let before = Attrs { mode: Some(0o644), ..owner(USER) };
    ends_handles(before, mode(0o654), owner(77)).await;
}

#[tokio::test]
async fn chgrp_ends_handles() {
    let group = |gid| Attrs { owner_group: Some(numeric_owner(gid)), ..Attrs::default() };
    let adds = Attrs { mode: Some(0o676), ..group(5) };
    let takes = Attrs { mode: Some(0o606), ..group(6) };
    ends_handles(mode(0o666), adds, takes).await;
}

#[tokio::test]
async fn lists_end_handles() {
    let everyone = |access_mask| {
        let who = Opaque("EVERYONE@".into());
        let ace = Ace { acetype: AceType::ALLOW, flag: 0, access_mask, who };
        Attrs { acl: Some(Acl(vec![ace])), ..Attrs::default() }
    };
    let all = ace_mask::READ_DATA | ace_mask::WRITE_DATA | ace_mask::APPEND_DATA;
    ends_handles(mode(0o666), everyone(all | ace_mask::EXECUTE), everyone(ace_mask::READ_DATA))
        .await;
}

/// Who uses handles that are to end is asked to give them back, and waited for: until then they
/// work, also those of who only reads. Who is done, and still may, gets new ones that stay.
#[tokio::test]
async fn holders_are_asked_first() {
    let cluster = Cluster::striped(2).await;
    let mut c = Client::mount(&cluster, "a").await;
    let fh = file(&mut c, "f", 0o666).await;
    let (mut a, mut b) = (Client::mount(&cluster, "w").await, Client::mount(&cluster, "r").await);
    let mut writer = held(&cluster, &mut a, (&fh, USER), IoMode::RW).await;
    let mut reader = held(&cluster, &mut b, (&fh, STRANGER), IoMode::READ).await;
    let taken = tokio::spawn(async move { set(&mut c, &fh, mode(0o600)).await });
    for (client, holder) in [(&mut a, &mut writer), (&mut b, &mut reader)] {
        let callback = client.wire.callback().await;
        assert_eq!(callback.recalled().other, holder.layout.other);
        client.wire.answer(&callback, NfsStat::OK).await;
        assert_eq!(holder.reads().await, NfsStat::OK);
    }
    writer.give_layout_back(&mut a, USER).await;
    let old = writer.handle.clone();
    assert_eq!(writer.writes().await, NfsStat::PNFS_NO_LAYOUT, "the last one to write is back");
    assert_eq!(writer.reads().await, NfsStat::OK);
    writer.lay_out(&mut a, USER, IoMode::RW).await;
    assert!(!taken.is_finished(), "somebody still has his layout");
    reader.give_layout_back(&mut b, STRANGER).await;
    assert_eq!(taken.await.unwrap(), NfsStat::OK);
    assert_eq!(reader.reads().await, NfsStat::PNFS_NO_LAYOUT);
    assert_eq!(writer.writes().await, NfsStat::OK);
    writer.handle = old;
    assert_eq!(writer.writes().await, NfsStat::PNFS_NO_LAYOUT);
}

/// Who does not give back what it is asked for is waited for once, not for each of its files.
#[tokio::test]
async fn the_silent_are_waited_for_once() {
    let cluster = Cluster::striped(2).await;
    let mut c = Client::mount(&cluster, "a").await;
    let mut silent = Client::mount(&cluster, "s").await;
    let mut took = Vec::new();
    for name in ["f", "g", "h", "i", "j", "k"] {
        let fh = file(&mut c, name, 0o666).await;
        let mut writer = held(&cluster, &mut silent, (&fh, USER), IoMode::RW).await;
        let began = std::time::Instant::now();
        assert_eq!(set(&mut c, &fh, mode(0o600)).await, NfsStat::OK);
        took.push(began.elapsed());
        assert_eq!(writer.writes().await, NfsStat::PNFS_NO_LAYOUT);
    }
    let later: Duration = took[1..].iter().sum();
    assert!(later < took[0] * 2, "{took:?}");
}

/// A set-id bit is to be taken away by the next write, which must be seen.
#[tokio::test]
async fn set_id_bits_end_handles() {
    let cluster = Cluster::striped(2).await;
    let mut c = Client::mount(&cluster, "a").await;
    let fh = file(&mut c, "f", 0o777).await;
    let mut writer = held(&cluster, &mut c, (&fh, USER), IoMode::RW).await;
    assert_eq!(set(&mut c, &fh, mode(0o4777)).await, NfsStat::OK);
    assert_eq!(writer.writes().await, NfsStat::PNFS_NO_LAYOUT);
}

/// A file nobody was given handles of since it was fenced last costs no data server a message,
/// whatever is done to its mode; nor does one whose layouts nobody asked for.
#[tokio::test]
async fn files_without_handles_cost_nothing() {
    let cluster = Cluster::striped(2).await;
    let mut c = Client::mount(&cluster, "a").await;
    let fh = file(&mut c, "f", 0o666).await;
    c.compound().putfh(&fh).op(write(ANY, 0, b"indirect")).expect(NfsStat::OK).await;
    assert_eq!(set(&mut c, &fh, mode(0o640)).await, NfsStat::OK);
    assert_eq!(cluster.control_messages("FENCE"), 0);
    let held = held(&cluster, &mut c, (&fh, 0), IoMode::READ).await;
    held.close(&mut c, 0).await;
    for bits in [0o600, 0o640, 0o600, 0] {
        assert_eq!(set(&mut c, &fh, mode(bits)).await, NfsStat::OK);
    }
    were_told(&cluster, 1, 0);
}

/// What was given out before a restart of the metadata server is ended by it as well, and what a
/// data server was told it knows after a restart of its own.
#[tokio::test]
async fn restarts_between_change_nothing() {
    let mut cluster = on_disk().await;
    let mut c = Client::mount(&cluster, "a").await;
    let fh = file(&mut c, "f", 0o666).await;
    let mut reader = held(&cluster, &mut c, (&fh, STRANGER), IoMode::READ).await;
    let mut writer = held(&cluster, &mut c, (&fh, USER), IoMode::RW).await;
    writer.give_back(&mut c, USER).await;
    reader.close(&mut c, STRANGER).await;
    cluster.restart().await;
    let mut c = Client::mount(&cluster, "c").await;
    for server in 0..2 {
        cluster.restart_data_server(server).await;
    }
    reader.ds = on_data_server(&cluster, reader.first, "r").await;
    writer.ds = on_data_server(&cluster, writer.first, "w").await;
    assert_eq!(reader.reads().await, NfsStat::OK, "it was not taken away yet");
    assert_eq!(writer.writes().await, NfsStat::PNFS_NO_LAYOUT, "it was given back");
    assert_eq!(set(&mut c, &fh, mode(0o600)).await, NfsStat::OK);
    for server in 0..2 {
        cluster.restart_data_server(server).await;
    }
    reader.ds = on_data_server(&cluster, reader.first, "r").await;
    writer.ds = on_data_server(&cluster, writer.first, "w").await;
    assert_eq!([reader.reads().await, writer.reads().await], [NfsStat::PNFS_NO_LAYOUT; 2]);
    assert_eq!(bytes(&mut c, &fh).await, b"data");
}

/// While a data server is away that may still accept a handle, who takes rights away is told to
/// come again, at once; when it is back they end.
#[tokio::test]
async fn a_data_server_that_is_away_is_waited_for() {
    let mut cluster = Cluster::striped(2).await;
    let mut c = Client::mount(&cluster, "a").await;
    let fh = file(&mut c, "f", 0o666).await;
    let mut reader = held(&cluster, &mut c, (&fh, STRANGER), IoMode::READ).await;
    cluster.stop_data_server(reader.first).await;
    for _ in 0..2 {
        let told = tokio::time::timeout(Duration::from_secs(5), set(&mut c, &fh, mode(0o600)));
        assert_eq!(told.await.expect("nobody waits"), NfsStat::DELAY);
    }
    cluster.restart_data_server(reader.first).await;
    assert_eq!(set(&mut c, &fh, mode(0o600)).await, NfsStat::OK);
    reader.ds = on_data_server(&cluster, reader.first, "r").await;
    assert_eq!(reader.reads().await, NfsStat::PNFS_NO_LAYOUT);
}

/// Whoever takes a right away while a data server is away, and does not wait for it, has taken it
/// away all the same: the data server is told when it is back, also by a metadata server that was
/// restarted meanwhile.
#[tokio::test]
async fn a_right_that_was_taken_away_stays_so() {
    let mut cluster = on_disk().await;
    let mut c = Client::mount(&cluster, "a").await;
    let fh = file(&mut c, "f", 0o666).await;
    let mut reader = held(&cluster, &mut c, (&fh, STRANGER), IoMode::READ).await;
    cluster.stop_data_server(reader.first).await;
    assert_eq!(set(&mut c, &fh, mode(0o600)).await, NfsStat::DELAY);
    cluster.restart().await;
    cluster.restart_data_server(reader.first).await;
    reader.ds = on_data_server(&cluster, reader.first, "r").await;
    eventually_refused(&mut reader).await;
}

/// So do rules that were reloaded while a data server was away, and that the volume has noted.
#[tokio::test]
async fn rules_reach_who_was_away() {
    let (mut cluster, mut reader) = left_behind().await;
    cluster.stop_data_server(reader.first).await;
    let noted = || cluster.volume().rules().value.unwrap();
    let before = noted();
    let rules = Export { root_squash: true, ..open_export() };
    cluster.reload(rules.clone());
    eventually("rules that are noted", || noted() != before).await;
    cluster.set_export(rules);
    cluster.restart().await;
    cluster.restart_data_server(reader.first).await;
    reader.ds = on_data_server(&cluster, reader.first, "r").await;
    eventually_refused(&mut reader).await;
}

/// When the last write layout is back nobody writes with it any more; who reads goes on.
#[tokio::test]
async fn the_last_return_ends_writing() {
    let cluster = Cluster::striped(2).await;
    let mut c = Client::mount(&cluster, "a").await;
    let mut other = Client::mount(&cluster, "b").await;
    let fh = file(&mut c, "f", 0o666).await;
    let mut first = held(&cluster, &mut c, (&fh, USER), IoMode::RW).await;
    let mut second = held(&cluster, &mut other, (&fh, STRANGER), IoMode::RW).await;
    let mut reader = held(&cluster, &mut other, (&fh, STRANGER), IoMode::READ).await;
    let stats = cluster.control_messages("STAT");
    assert_eq!(cluster.control_messages("SEAL"), 0);
    first.give_back(&mut c, USER).await;
    assert_eq!(first.direct(write(ANY, 0, b"data")).await, NfsStat::OK, "another is out");
    second.layout = reader.layout;
    let back = OpArgs::Layoutreturn(layoutreturn(second.layout, IoMode::RW));
    other.by_user(STRANGER).putfh(&fh).op(back).expect(NfsStat::OK).await;
    let look = [AttrNo::CHANGE, AttrNo::SIZE];
    let before = c.compound().putfh(&fh).getattr(&look).send().await.ok().attrs();
    let gone = NfsStat::PNFS_NO_LAYOUT;
    for held in [&mut first, &mut second] {
        assert_eq!(held.writes().await, gone);
        // Also where the file has no bytes yet.
        let mut ds = on_data_server(&cluster, 1 - held.first, "far").await;
        let there = write(ANY, 1 << 20, b"evil");
        ds.compound().putfh(&held.far).op(there).expect(gone).await;
    }
    assert_eq!(reader.reads().await, NfsStat::OK);
    let after = c.compound().putfh(&fh).getattr(&look).send().await.ok().attrs();
    assert_eq!((before.change, before.size), (after.change, after.size));
    assert_eq!(bytes(&mut c, &fh).await, b"data");
    // One message for each data server that has an object, and return, and none to fence.
    let sent = ["STAT", "SEAL", "FENCE"].map(|what| cluster.control_messages(what));
    assert_eq!(sent, [stats + 1, 1, 0]);
    // The next writer writes, and so does whoever goes through the metadata server.
    let mut next = held(&cluster, &mut c, (&fh, USER), IoMode::RW).await;
    assert_eq!(first.writes().await, gone);
    assert_eq!(next.direct(write(ANY, 0, b"DATA")).await, NfsStat::OK);
    assert_eq!(reader.reads().await, NfsStat::OK, "whoever writes next");
    next.give_back(&mut c, USER).await;
    assert_eq!(next.writes().await, gone);
    other.compound().putfh(&fh).op(write(ANY, 4, b"more")).expect(NfsStat::OK).await;
    assert_eq!(bytes(&mut c, &fh).await, b"DATAmore");
    // Until who reads may not.
    assert_eq!(reader.reads().await, NfsStat::OK);
    reader.give_layout_back(&mut other, STRANGER).await;
    assert_eq!(reader.reads().await, NfsStat::OK);
    assert_eq!(set(&mut c, &fh, mode(0o600)).await, NfsStat::OK);
    assert_eq!(reader.reads().await, gone);
}

/// Once the last write layout is back, whatever the metadata server changes itself is done: it goes
/// by an epoch that data servers let write.
#[tokio::test]
async fn what_is_changed_after_the_last_return_is_done() {
    let cluster = Cluster::striped(2).await;
    let mut c = Client::mount(&cluster, "a").await;
    let source = file(&mut c, "source", 0o644).await;
    c.compound().putfh(&source).op(write(ANY, 0, b"copied")).expect(NfsStat::OK).await;
    let put = |offset: u64, count: u64| CopyArgs {
        src_stateid: ANY,
        dst_stateid: ANY,
        src_offset: 0,
        dst_offset: offset,
        count,
        consecutive: true,
        synchronous: true,
        source_server: Netlocs(Vec::new()),
    };
    let (offset, length) = (0, 2 << 20);
    let changes = [
        ("write", write(ANY, 0, b"x")),
        ("copy", OpArgs::Copy(put(3, 6))),
        ("hole", OpArgs::Deallocate(DeallocateArgs { stateid: ANY, offset, length })),
        ("room", OpArgs::Allocate(AllocateArgs { stateid: ANY, offset, length })),
    ];
    for (name, change) in changes {
        let fh = file(&mut c, name, 0o666).await;
        let mut held = held(&cluster, &mut c, (&fh, USER), IoMode::RW).await;
        assert_eq!(held.direct(write(ANY, 0, b"before")).await, NfsStat::OK, "{name}");
        held.give_back(&mut c, USER).await;
        let both = c.compound().putfh(&source).savefh().putfh(&fh);
        assert_eq!(both.op(change).send().await.status(), NfsStat::OK, "{name}");
    }
}

/// A user keeps the handles of a layout that came back. The file is made private, and has private
/// bytes since; a stranger who was given the handles neither reads nor changes them.
#[tokio::test]
async fn nobody_comes_back_with_a_handle() {
    let cluster = Cluster::striped(2).await;
    let mut c = Client::mount(&cluster, "a").await;
    let mut user = Client::mount(&cluster, "b").await;
    let fh = file(&mut c, "f", 0o666).await;
    let mut kept = held(&cluster, &mut user, (&fh, USER), IoMode::RW).await;
    kept.give_back(&mut user, USER).await;
    assert_eq!(set(&mut c, &fh, mode(0o600)).await, NfsStat::OK);
    c.compound().putfh(&fh).op(write(ANY, 0, b"private")).expect(NfsStat::OK).await;
    let mut options = ClientOptions::new("stranger");
    (options.uid, options.back_channel, options.reclaim_complete) = (STRANGER, false, false);
    kept.ds = Client::with(cluster.data_server(kept.first), options).await;
    let gone = NfsStat::PNFS_NO_LAYOUT;
    assert_eq!((kept.reads().await, kept.writes().await), (gone, gone));
    assert_eq!(bytes(&mut c, &fh).await, b"private");
}

/// A client that is evicted has no handles any more, to read or to write.
#[tokio::test]
async fn an_evicted_client_has_no_handles() {
    let cluster = Cluster::striped(2).await;
    let mut c = Client::mount(&cluster, "a").await;
    let fh = file(&mut c, "f", 0o666).await;
    let other = file(&mut c, "g", 0o666).await;
    let mut gone = Client::mount(&cluster, "Linux NFSv4.2 gone").await;
    let mut writer = held(&cluster, &mut gone, (&fh, USER), IoMode::RW).await;
    let mut reader = held(&cluster, &mut gone, (&other, USER), IoMode::READ).await;
    cluster.mds().admin().evict("gone".into()).await.unwrap();
    eventually_refused(&mut writer).await;
    eventually_refused(&mut reader).await;
}

/// Until a handle does not read any more, which nobody waited for.
async fn eventually_refused(held: &mut Held) {
    for _ in 0..1000 {
        match held.reads().await {
            NfsStat::OK => tokio::time::sleep(Duration::from_millis(5)).await,
            status => return assert_eq!(status, NfsStat::PNFS_NO_LAYOUT),
        }
    }
    panic!("the handle still reads");
}

/// New rules for clients end the handles that were given out by the old ones, those of a data
/// server that is away when it is back; who is served gets new ones. A client that only reads from
/// then on gets no layout to write, with what it opened before.
#[tokio::test]
async fn new_export_rules_end_handles() {
    let mut cluster = Cluster::striped(2).await;
    let mut c = Client::mount(&cluster, "a").await;
    let fh = file(&mut c, "f", 0o666).await;
    let other = file(&mut c, "g", 0o666).await;
    let from = |host| {
        let mut options = ClientOptions::new("excluded");
        options.from = [127, 0, 0, host];
        options
    };
    let mut excluded = Client::with(cluster.address(), from(2)).await;
    let mut writer = held(&cluster, &mut excluded, (&fh, USER), IoMode::RW).await;
    let mut reader = held(&cluster, &mut excluded, (&other, USER), IoMode::READ).await;
    reader.close(&mut excluded, USER).await;
    let mut mine = held(&cluster, &mut c, (&fh, USER), IoMode::RW).await;
    cluster.stop_data_server(1).await;
    let rule = |networks: &str, access| weft_mds::ClientRule {
        networks: vec![networks.parse().unwrap()],
        access,
        root_squash: None,
        all_squash: None,
        privileged_ports: None,
    };
    let rules =
        |access| vec![rule("127.0.0.2", access), rule("127.0.0.0/8", weft_mds::Access::ReadWrite)];
    cluster.reload(Export { rules: rules(weft_mds::Access::ReadOnly), ..open_export() });
    cluster.restart_data_server(1).await;
    for held in [&mut writer, &mut reader] {
        held.ds = on_data_server(&cluster, held.first, "x").await;
        for _ in 0..1000 {
            if held.reads().await != NfsStat::OK {
                break;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        assert_ne!(held.reads().await, NfsStat::OK);
        assert_ne!(held.writes().await, NfsStat::OK);
    }
    writer.give_layout_back(&mut excluded, USER).await;
    let get = OpArgs::Layoutget(layoutget(writer.open, IoMode::RW));
    let refused = excluded.by_user(USER).putfh(&fh).op(get).send().await.status();
    assert_eq!(refused, NfsStat::LAYOUTUNAVAILABLE);
    mine.again(&mut c, USER, IoMode::RW).await;
    mine.ds = on_data_server(&cluster, mine.first, "m").await;
    assert_eq!(mine.direct(write(ANY, 4, b"more")).await, NfsStat::OK);
    assert_eq!(bytes(&mut c, &fh).await, b"datamore");
}

/// So do rules that changed while the metadata server was down, when grace has ended.
#[tokio::test]
async fn a_restart_with_other_rules_ends_handles() {
    let (mut cluster, mut reader) = left_behind().await;
    cluster.restart().await;
    let mut c = Client::mount(&cluster, "b").await;
    c.renew().await;
    assert_eq!(reader.reads().await, NfsStat::OK, "the rules are the same");
    cluster.set_export(Export { root_squash: true, ..open_export() });
    cluster.restart().await;
    eventually_refused(&mut reader).await;
}
