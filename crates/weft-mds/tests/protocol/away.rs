//! Data servers that are away: new files go to the others, and whoever merely looks is answered.
//! RFC 8881 §12.5.4.2, §18.23.3, §5.8.1.12.

use std::{collections::BTreeSet, time::Duration};

use weft_nfs::{
    AttrNo, Attrs, DeviceId, FileHandle, IoMode, NfsStat, OpArgs, OpOk, Stateid, ops::*,
};
use weft_store::types::{DeviceId as StoredDevice, InodeNo};

use crate::support::*;

/// Long below the time after which a client asks again by itself.
const AT_ONCE: Duration = Duration::from_secs(5);

async fn layout_of(c: &mut Client, name: &str) -> (FileHandle, Stateid, Reply) {
    let (fh, stateid) = c.file(name).await;
    let get = OpArgs::Layoutget(layoutget(stateid, IoMode::RW));
    let reply = c.compound().putfh(&fh).op(get).send().await.ok();
    (fh, stateid, reply)
}

/// The numbers of the data servers of a device.
fn members(cluster: &Cluster, device: DeviceId) -> Vec<u32> {
    let devices = cluster.volume().devices().value.unwrap();
    let device = devices.into_iter().find(|d| d.id == StoredDevice(device.0)).unwrap();
    device.data_servers.into_iter().map(|id| id.0).collect()
}

/// Nine data servers and files of eight: the ninth serves at once, and nine files begin on nine
/// data servers.
#[tokio::test]
async fn all_data_servers_are_used() {
    let small_files = weft_mds::SmallFiles::OFF;
    let options = Options { data_servers: 9, stripe_width: 8, small_files, ..Options::default() };
    let cluster = Cluster::with(options).await;
    let mut c = Client::mount(&cluster, "a").await;
    let (mut used, mut first) = (BTreeSet::new(), BTreeSet::new());
    for n in 0..9 {
        let (_, _, reply) = layout_of(&mut c, &format!("f{n}")).await;
        let files = files_layout(&reply);
        let members = members(&cluster, files.device);
        assert_eq!(members.len(), 8);
        first.insert(members[files.first_stripe_index as usize]);
        used.extend(members);
    }
    assert_eq!(used, (1..=9).collect());
    assert_eq!(first, used, "files begin everywhere");
    assert_eq!(cluster.volume().devices().value.unwrap().len(), 9);
}

/// With one of four data servers down a new file is on the other three at once, for clients with
/// layouts and without; a restart keeps what was placed.
#[tokio::test]
async fn new_files_go_to_the_others() {
    let mut cluster = Cluster::striped(4).await;
    let mut c = Client::mount(&cluster, "a").await;
    let (_, _, wide) = layout_of(&mut c, "before").await;
    assert_eq!(members(&cluster, files_layout(&wide).device), [1, 2, 3, 4]);
    cluster.stop_data_server(1).await;
    let goes_on = async {
        let (_, _, reply) = layout_of(&mut c, "direct").await;
        assert_eq!(members(&cluster, files_layout(&reply).device), [1, 3, 4]);
        let (fh, stateid) = c.file("indirect").await;
        for part in 0..3 {
            let some = write(stateid, part << 20, &[7; 1000]);
            c.compound().putfh(&fh).op(some).expect(NfsStat::OK).await;
        }
        c.compound().putfh(&fh).getattr(&[AttrNo::SIZE]).send().await.ok().attrs()
    };
    let attrs = tokio::time::timeout(AT_ONCE, goes_on).await.expect("nobody waits");
    assert_eq!(attrs.size, Some((2 << 20) + 1000));
}

/// Without any data server up nothing is placed: the first that comes back decides.
#[tokio::test]
async fn nothing_is_placed_while_all_are_down() {
    let mut cluster = Cluster::striped(2).await;
    let mut c = Client::mount(&cluster, "a").await;
    let (fh, stateid) = c.file("f").await;
    cluster.stop_data_server(0).await;
    cluster.stop_data_server(1).await;
    c.compound().putfh(&fh).op(write(stateid, 0, b"x")).expect(NfsStat::DELAY).await;
    let get = OpArgs::Layoutget(layoutget(stateid, IoMode::RW));
    c.compound().putfh(&fh).op(get).expect(NfsStat::LAYOUTTRYLATER).await;
    let attrs = c.compound().putfh(&fh).getattr(&[AttrNo::FILEID]).send().await.ok().attrs();
    let inode = cluster.volume().inode(InodeNo(attrs.fileid.unwrap())).value.unwrap();
    assert_eq!(inode.placement, None);
}

const LOOK: [AttrNo; 2] = [AttrNo::SIZE, AttrNo::CHANGE];

async fn size(c: &mut Client, fh: &FileHandle) -> Result<Attrs, NfsStat> {
    let reply = c.compound().putfh(fh).getattr(&LOOK).send().await;
    if reply.status() == NfsStat::OK { Ok(reply.attrs()) } else { Err(reply.status()) }
}

async fn listed(c: &mut Client, attrs: &[AttrNo]) -> Result<Vec<DirEntry>, NfsStat> {
    let list = OpArgs::Readdir(readdir(0, 1 << 20, attrs));
    let reply = c.compound().putrootfh().op(list).send().await;
    if reply.status() == NfsStat::OK { Ok(reply.readdir().entries) } else { Err(reply.status()) }
}

/// A file is being written when one of its data servers goes. Whoever lists the directory, or asks
/// for attributes without having the file open, is told at once what was known last, never less
/// than what was told before. Who has the file open waits for the truth, and is told so in a
/// listing by `rdattr_error` if it asked for that.
#[tokio::test]
async fn a_listing_goes_on_without_a_data_server() {
    let mut cluster = Cluster::striped(2).await;
    let mut writer = Client::mount(&cluster, "a").await;
    let mut other = Client::mount(&cluster, "b").await;
    let (fh, _, reply) = layout_of(&mut writer, "f").await;
    let files = files_layout(&reply);
    let first = files.first_stripe_index as usize;
    let mut ds = on_data_server(&cluster, first, "a").await;
    let target = layout_handle(&files, first);
    let anonymous = Stateid::ANONYMOUS;
    ds.compound().putfh(&target).op(write(anonymous, 0, &[7; 1234])).send().await.ok();
    let told = size(&mut other, &fh).await.unwrap();
    assert_eq!(told.size, Some(1234));
    ds.compound().putfh(&target).op(write(anonymous, 0, &[8; 5000])).send().await.ok();
    cluster.stop_data_server(first).await;
    let goes_on = async {
        let looked = size(&mut other, &fh).await.unwrap();
        assert_eq!((looked.size, looked.change), (told.size, told.change));
        let entries = listed(&mut other, &LOOK).await.unwrap();
        assert_eq!(entries[0].attrs.size, Some(1234));
        // Who may rely on it waits.
        assert_eq!(size(&mut writer, &fh).await, Err(NfsStat::DELAY));
        assert_eq!(listed(&mut writer, &LOOK).await.err(), Some(NfsStat::DELAY));
        let marked = [AttrNo::SIZE, AttrNo::RDATTR_ERROR];
        let entries = listed(&mut writer, &marked).await.unwrap();
        let unknown = Attrs { rdattr_error: Some(NfsStat::DELAY), ..Attrs::default() };
        assert_eq!(entries[0].attrs, unknown);
    };
    tokio::time::timeout(AT_ONCE, goes_on).await.expect("nobody waits");
    // The size that decides: of OPEN, and what is compared.
    let open = OpArgs::Open(open_name("o", "f"));
    let opened = other.compound().putrootfh().op(open).getattr(&LOOK).send().await;
    assert_eq!(opened.status(), NfsStat::DELAY);
    assert!(matches!(opened.compound.results[2].result, Ok(OpOk::Open(_))), "{opened:?}");
    assert_eq!(size(&mut other, &fh).await.err(), Some(NfsStat::DELAY), "it is open now");
    let mut third = Client::mount(&cluster, "c").await;
    let none = Attrs { size: Some(u64::MAX), ..Attrs::default() };
    let nverify = OpArgs::Nverify(VerifyArgs { attrs: none.into() });
    third.compound().putfh(&fh).op(nverify).expect(NfsStat::DELAY).await;
    assert_eq!(size(&mut third, &fh).await.unwrap().size, Some(1234));
}
