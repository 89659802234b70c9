//! Changes of a file's bytes that end half-way, since one of its data servers is gone: what others
//! are told of them.

use weft_mds::SmallFiles;
use weft_nfs::{AttrNo, Attrs, FileHandle, NfsStat, OpArgs, Stateid, ops::*};
use weft_store::types::{Credential, InodeNo};

use crate::support::*;

const UNIT: u64 = 1 << 20;
/// As much as is written on either side of the border between two stripe units.
const HALF: u64 = 1000;
/// Where that begins.
const FROM: u64 = UNIT - HALF;

/// What a file has before, and what half of it has afterwards.
const OLD: [u8; 2 * HALF as usize] = [b'o'; 2 * HALF as usize];
const NEW: [u8; 2 * HALF as usize] = [b'n'; 2 * HALF as usize];

/// A cluster, and a file of two stripe units on its two data servers that a second client knows.
struct Shared {
    cluster: Cluster,
    writer: Client,
    reader: Client,
    fh: FileHandle,
    /// What the reader was told, and caches by.
    told: Attrs,
}

async fn attrs(c: &mut Client, fh: &FileHandle) -> Attrs {
    let wanted = [AttrNo::CHANGE, AttrNo::SIZE, AttrNo::TIME_MODIFY];
    c.compound().putfh(fh).getattr(&wanted).send().await.ok().attrs()
}

impl Shared {
    /// `make` writes the file's old bytes, and closes it.
    async fn new(options: Options, make: impl AsyncFnOnce(&mut Client)) -> Shared {
        let cluster = Cluster::with(Options { data_servers: 2, ..options }).await;
        let mut writer = Client::mount(&cluster, "writer").await;
        let mut reader = Client::mount(&cluster, "reader").await;
        make(&mut writer).await;
        let inode = cluster.volume().lookup(InodeNo::ROOT, b"f", &Credential::superuser());
        assert!(!inode.value.unwrap().unsettled, "only the volume is asked about its attributes");
        let fh = reader.compound().putrootfh().lookup("f").getfh().send().await.ok().fh();
        let told = attrs(&mut reader, &fh).await;
        assert_eq!(told.size, Some(FROM + 2 * HALF));
        Shared { cluster, writer, reader, fh, told }
    }

    async fn open(&mut self) -> Stateid {
        let open = self.writer.compound().putrootfh().open(open_name("o", "f"));
        open.send().await.ok().stateid()
    }

    /// The half that was written is there, and nobody takes the bytes of before for those of now.
    async fn assert_half_is_seen(mut self) {
        let mut halves = Vec::new();
        for at in [FROM, UNIT] {
            let op = read(Stateid::ANONYMOUS, at, HALF as u32);
            let reply = self.reader.compound().putfh(&self.fh).op(op).send().await;
            match reply.status() {
                NfsStat::OK => halves.push(reply.data().0),
                status => assert_eq!(status, NfsStat::DELAY),
            }
        }
        assert_eq!(halves, [&NEW[..HALF as usize]], "one half of it was written");
        let now = attrs(&mut self.reader, &self.fh).await;
        assert!(now.change > self.told.change, "caches of the old bytes stay valid");
        assert!(now.time_modify > self.told.time_modify);
        assert_eq!(now.size, self.told.size);
    }
}

/// The old bytes of a file, which is settled then.
async fn write_and_close(c: &mut Client, name: &str, data: &[u8]) {
    let (fh, stateid) = c.file(name).await;
    c.compound().putfh(&fh).op(write(stateid, FROM, data)).send().await.ok();
    c.compound().putfh(&fh).op(close(stateid)).send().await.ok();
}

/// `source`, from a byte on, to where the old bytes of `f` are.
async fn copy(shared: &mut Shared, from: u64) -> NfsStat {
    let dst_stateid = shared.open().await;
    let c = &mut shared.writer;
    let opened = c.compound().putrootfh().open(open_name("o", "source")).getfh().send().await.ok();
    let copy = OpArgs::Copy(CopyArgs {
        src_stateid: opened.stateid(),
        dst_stateid,
        src_offset: from,
        dst_offset: FROM,
        count: 2 * HALF,
        consecutive: true,
        synchronous: true,
        source_server: Netlocs::default(),
    });
    let files = c.compound().putfh(&opened.fh()).savefh().putfh(&shared.fh);
    files.op(copy).send().await.status()
}

/// A WRITE over the border of two stripe units, one of whose data servers is gone, fails after the
/// other half was written: the change attribute and the modification time move, though the file is
/// settled and no longer than before.
#[tokio::test]
async fn a_write_that_fails_half_way_is_seen_by_others() {
    let options = Options { small_files: SmallFiles::OFF, ..Options::default() };
    let make = async |c: &mut Client| write_and_close(c, "f", &OLD).await;
    let mut shared = Shared::new(options, make).await;
    let stateid = shared.open().await;
    shared.cluster.stop_data_server(1).await;
    let (writer, fh) = (&mut shared.writer, &shared.fh);
    writer.compound().putfh(fh).op(write(stateid, FROM, &NEW)).expect(NfsStat::DELAY).await;
    shared.assert_half_is_seen().await;
}

/// The same of a COPY whose bytes come from the metadata server, where the source is small.
#[tokio::test]
async fn a_copy_of_a_small_file_that_fails_half_way_is_seen_by_others() {
    let make = async |c: &mut Client| {
        write_and_close(c, "f", &OLD).await;
        let (source, stateid) = c.file("source").await;
        c.compound().putfh(&source).op(write(stateid, 0, &NEW)).send().await.ok();
    };
    let mut shared = Shared::new(Options::default(), make).await;
    shared.cluster.stop_data_server(1).await;
    assert_eq!(copy(&mut shared, 0).await, NfsStat::DELAY);
    shared.assert_half_is_seen().await;
}

/// The same of a COPY that the data servers carry out among themselves.
#[tokio::test]
async fn a_copy_by_data_servers_that_fails_half_way_is_seen_by_others() {
    let options = Options { small_files: SmallFiles::OFF, ..Options::default() };
    let make = async |c: &mut Client| {
        write_and_close(c, "source", &NEW).await;
        // Between them, so that both begin on the same data server.
        write_and_close(c, "another", &NEW).await;
        write_and_close(c, "f", &OLD).await;
    };
    let mut shared = Shared::new(options, make).await;
    shared.cluster.stop_data_server(1).await;
    assert_eq!(copy(&mut shared, FROM).await, NfsStat::DELAY);
    assert!(shared.cluster.control_messages("COPY") > 0);
    shared.assert_half_is_seen().await;
}
