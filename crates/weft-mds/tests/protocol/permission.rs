//! What an open allows beyond its own access: reading by an open for writing only, which the mode
//! decides. RFC 8881 §18.22.3, §13.12.

use weft_nfs::{FileHandle, IoMode, NfsStat, OpArgs, Stateid, ops::*, share};

use crate::support::*;

const WRITER: u32 = 1000;

/// A file of root's, which this mode was given and that has a secret in it.
async fn secret(c: &mut Client, bits: u32) -> FileHandle {
    let (fh, stateid) = c.file("secret").await;
    c.compound().putfh(&fh).op(write(stateid, 0, b"secret")).expect(NfsStat::OK).await;
    c.compound().putfh(&fh).op(setattr(stateid, mode(bits))).expect(NfsStat::OK).await;
    c.compound().putfh(&fh).op(close(stateid)).expect(NfsStat::OK).await;
    fh
}

/// An open for writing only.
fn for_writing(owner: &str) -> OpArgs {
    let writes = share::ACCESS_WRITE;
    OpArgs::Open(OpenArgs { share_access: writes, ..open(owner, OpenClaim::Fh) })
}

fn for_reading(owner: &str) -> OpArgs {
    let reads = share::ACCESS_READ;
    OpArgs::Open(OpenArgs { share_access: reads, ..open(owner, OpenClaim::Fh) })
}

/// Copies all of the saved file, or clones it.
fn copies(from: Stateid, to: Stateid) -> [OpArgs; 2] {
    let copy = CopyArgs {
        src_stateid: from,
        dst_stateid: to,
        src_offset: 0,
        dst_offset: 0,
        count: 0,
        consecutive: true,
        synchronous: true,
        source_server: Netlocs::default(),
    };
    let (src_stateid, dst_stateid) = (from, to);
    let clone = CloneArgs { src_stateid, dst_stateid, src_offset: 0, dst_offset: 0, count: 0 };
    [OpArgs::Copy(copy), OpArgs::Clone(clone)]
}

/// Whoever may write and not read gets no byte by an open for writing, nor by anything that reads
/// under it.
#[tokio::test]
async fn write_permission_does_not_read() {
    for cluster in [Cluster::start().await, Cluster::striped(2).await] {
        let mut c = Client::mount(&cluster, "a").await;
        let fh = secret(&mut c, 0o622).await;
        let dir = c.public_dir("d").await;
        let copy = c.by_user(WRITER).putfh(&dir).open_create("copy").getfh().send().await.ok();
        let (copy, to) = (copy.fh(), copy.stateid());
        let anonymous = read(Stateid::ANONYMOUS, 0, 9);
        c.by_user(WRITER).putfh(&fh).op(for_reading("w")).expect(NfsStat::ACCESS).await;
        c.by_user(WRITER).putfh(&fh).op(anonymous).expect(NfsStat::ACCESS).await;
        let writes = c.by_user(WRITER).putfh(&fh).op(for_writing("w")).send().await.ok().stateid();
        let what = DataContent::DATA;
        let seek = OpArgs::Seek(SeekArgs { stateid: writes, offset: 0, what });
        for op in [read(writes, 0, 9), seek] {
            c.by_user(WRITER).putfh(&fh).op(op).expect(NfsStat::ACCESS).await;
        }
        for op in copies(writes, to) {
            let files = c.by_user(WRITER).putfh(&fh).savefh().putfh(&copy);
            files.op(op).expect(NfsStat::ACCESS).await;
        }
        let lock = lock_new(writes, "lo", weft_nfs::LockType::Write, 0, 9);
        let locked = c.by_user(WRITER).putfh(&fh).op(OpArgs::Lock(lock)).send().await.ok();
        c.by_user(WRITER).putfh(&fh).op(read(locked.stateid(), 0, 9)).expect(NfsStat::ACCESS).await;
        // Who may read does so, as clients that fill a page expect.
        let data = c.compound().putfh(&fh).op(read(writes, 0, 9)).send().await.ok().data();
        assert_eq!(&data.0[..], b"secret");
        c.by_user(WRITER).putfh(&fh).op(write(writes, 0, b"public")).expect(NfsStat::OK).await;
    }
}

/// The owner may read by an open for writing whatever the mode says, as one who had the file open
/// before he changed it; so may whoever executes it.
#[tokio::test]
async fn owners_read_what_they_write() {
    let cluster = Cluster::start().await;
    let mut c = Client::mount(&cluster, "a").await;
    let dir = c.public_dir("d").await;
    for bits in [0o200, 0o300] {
        let made = c.by_user(WRITER).putfh(&dir).open_create(&bits.to_string()).getfh();
        let made = made.send().await.ok();
        let (fh, stateid) = (made.fh(), made.stateid());
        c.by_user(WRITER).putfh(&fh).op(setattr(stateid, mode(bits))).expect(NfsStat::OK).await;
        let writes = c.by_user(WRITER).putfh(&fh).op(for_writing("w")).send().await.ok().stateid();
        c.by_user(WRITER).putfh(&fh).op(read(writes, 0, 9)).expect(NfsStat::OK).await;
    }
    let fh = secret(&mut c, 0o623).await;
    let writes = c.by_user(WRITER).putfh(&fh).op(for_writing("w")).send().await.ok().stateid();
    c.by_user(WRITER).putfh(&fh).op(read(writes, 0, 9)).expect(NfsStat::OK).await;
}

/// The layouts that such an open leads to do not read either: none for reading, and those for
/// writing have handles that write only. A client that has the file open for reading too gets both.
#[tokio::test]
async fn layouts_of_writers_do_not_read() {
    let cluster = Cluster::striped(2).await;
    let mut c = Client::mount(&cluster, "a").await;
    let fh = secret(&mut c, 0o622).await;
    let opened = c.by_user(WRITER).putfh(&fh).op(for_writing("w")).send().await.ok();
    let get = |stateid, iomode| OpArgs::Layoutget(layoutget(stateid, iomode));
    let reads = get(opened.stateid(), IoMode::READ);
    c.by_user(WRITER).putfh(&fh).op(reads).expect(NfsStat::ACCESS).await;
    let writes = get(opened.stateid(), IoMode::RW);
    let granted = c.by_user(WRITER).putfh(&fh).op(writes).send().await.ok();
    let layout = files_layout(&granted);
    let first = usize::try_from(layout.first_stripe_index).unwrap();
    let mut ds = on_data_server(&cluster, first, "a").await;
    let handle = layout_handle(&layout, first);
    let any = Stateid::ANONYMOUS;
    ds.compound().putfh(&handle).op(read(any, 0, 9)).expect(NfsStat::ACCESS).await;
    ds.compound().putfh(&handle).op(write(any, 0, b"public")).expect(NfsStat::OK).await;
    // Nor does the layout itself lead to one for reading.
    let reads = get(granted.stateid(), IoMode::READ);
    c.by_user(WRITER).putfh(&fh).op(reads).expect(NfsStat::ACCESS).await;
    let again = get(granted.stateid(), IoMode::RW);
    let layout = files_layout(&c.by_user(WRITER).putfh(&fh).op(again).send().await.ok());
    let handle = layout_handle(&layout, first);
    ds.compound().putfh(&handle).op(read(any, 0, 9)).expect(NfsStat::ACCESS).await;
    // Root reads the file with the same client.
    let opened = c.compound().putfh(&fh).op(for_reading("r")).send().await.ok();
    for (stateid, iomode) in [(opened.stateid(), IoMode::READ), (granted.stateid(), IoMode::READ)] {
        let got = c.compound().putfh(&fh).op(get(stateid, iomode)).send().await.ok();
        let handle = layout_handle(&files_layout(&got), first);
        ds.compound().putfh(&handle).op(read(any, 0, 9)).expect(NfsStat::OK).await;
    }
}

/// A delegation lets its client read as it likes: none comes with an open that does not read.
#[tokio::test]
async fn opens_for_writing_bring_no_delegation() {
    let cluster = Cluster::start().await;
    let mut c = Client::mount(&cluster, "a").await;
    let fh = secret(&mut c, 0o622).await;
    let mut delegations = Vec::new();
    for access in [share::ACCESS_WRITE, share::ACCESS_READ] {
        let args =
            OpenArgs { share_access: access | share::WANT_READ_DELEG, ..open("w", OpenClaim::Fh) };
        let user = if access == share::ACCESS_READ { 0 } else { WRITER };
        let opened = c.by_user(user).putfh(&fh).open(args).send().await.ok();
        delegations.push(matches!(opened.open().delegation, OpenDelegation::Read { .. }));
        let done = close(opened.stateid());
        c.by_user(user).putfh(&fh).op(done).expect(NfsStat::OK).await;
    }
    assert_eq!(delegations, [false, true]);
}

/// The verifier of an exclusive create tells a repeated request from another's: it is no key to the
/// file. Linux's can be guessed.
#[tokio::test]
async fn create_verifiers_open_nothing() {
    let cluster = Cluster::start().await;
    let mut c = Client::mount(&cluster, "a").await;
    let dir = c.public_dir("d").await;
    let verifier = weft_nfs::Verifier(*b"verified");
    let how = CreateHow::Exclusive41(verifier, Box::new(mode(0o400)));
    let create = OpenArgs { openhow: Some(how), ..open_name("o", "f") };
    for (user, status) in [(WRITER, NfsStat::OK), (WRITER, NfsStat::OK), (1001, NfsStat::ACCESS)] {
        c.by_user(user).putfh(&dir).open(create.clone()).expect(status).await;
    }
}
