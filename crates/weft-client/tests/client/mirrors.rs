//! Files with a copy on each of several data servers (flexfiles), which fail one after another.

use std::{sync::Arc, time::Duration};

use crate::fake::{Fake, Fault, Mirrors, pattern};
use bytes::Bytes;
use weft_client::{
    fs::{Client, ClientOptions, File, OpenOptions},
    io::IoPolicy,
    layout::{FilesDriver, FlexFilesDriver, LayoutDriver, LayoutError, Plan},
};
use weft_layout::{FlexFlags, FlexReturn};
use weft_nfs::{DeviceId, FileHandle, LayoutType, NfsStat, OpNum, ops::LayoutSegment};

const READ_WRITE: OpenOptions = OpenOptions {
    read: true,
    write: true,
    create: Some(0o644),
    umask: None,
    exclusive: false,
    truncate: false,
    policy: None,
};

struct Cluster {
    mds: Fake,
    ds: Vec<Fake>,
    client: Client,
}

async fn client_of(mds: &Fake, options: ClientOptions) -> Client {
    let options = ClientOptions {
        patience: Duration::from_secs(10),
        data_server_patience: Duration::from_millis(500),
        // What is asked of servers is looked at, write by write.
        policy: IoPolicy::direct(),
        ..options
    };
    Client::connect(mds.addr, options).await.unwrap()
}

async fn data_servers(count: usize) -> Vec<Fake> {
    let mut ds = Vec::new();
    for _ in 0..count {
        ds.push(Fake::data_server().await);
    }
    ds
}

/// The last data server is the best to read from.
async fn cluster(count: usize, mirrors: Mirrors) -> Cluster {
    let ds = data_servers(count).await;
    let mds = Fake::mirrored(ds.clone()).await;
    mds.lock().mirrors = Some(mirrors);
    let client = client_of(&mds, ClientOptions::default()).await;
    Cluster { mds, ds, client }
}

impl Cluster {
    /// What is durable at a data server, of the only file.
    fn durable(&self, index: usize) -> Vec<u8> {
        let ds = self.ds[index].lock();
        ds.objects.values().next().map(|o| o.durable.clone()).unwrap_or_default()
    }

    async fn open(&self, path: &str) -> File {
        self.client.open(path, READ_WRITE).await.unwrap()
    }

    async fn write(&self, path: &str, data: &[u8]) {
        let file = self.open(path).await;
        file.write_at(0, Bytes::copy_from_slice(data)).await.unwrap();
        file.close().await.unwrap();
    }

    async fn read(&self, path: &str, len: usize) -> Bytes {
        let file = self.client.open(path, OpenOptions::read()).await.unwrap();
        let data = file.read_at(0, len).await.unwrap();
        file.close().await.unwrap();
        data
    }

    /// How often each data server has executed an operation.
    fn counts(&self, op: OpNum) -> Vec<usize> {
        self.ds.iter().map(|ds| ds.count(op)).collect()
    }

    /// What the LAYOUTRETURNs told: device, operation and status, in the order of the devices.
    fn told(&self) -> Vec<(DeviceId, OpNum, NfsStat)> {
        let bodies = self.mds.lock().returned.clone();
        let told = bodies.into_iter().map(|body| weft_xdr::from_bytes::<FlexReturn>(body).unwrap());
        let errors = told.flat_map(|t| t.io_errors).flat_map(|e| e.errors.0);
        let mut all: Vec<_> = errors.map(|e| (e.device_id, e.op, e.status)).collect();
        all.sort_by_key(|(device, op, _)| (device.0, op.0));
        all
    }
}

fn device(index: u8) -> DeviceId {
    DeviceId([index; 16])
}

/// A write is durable on every mirror when the file is closed; it is read from the most efficient
/// one. Both are done with the version and the stateid that device and layout say, and nothing goes
/// through the metadata server, which is told of no errors.
#[tokio::test]
async fn writes_go_to_all_and_reads_to_the_best() {
    let c = cluster(3, Mirrors::default()).await;
    let data = pattern((5 << 20) + 77, 1);
    c.write("/f", &data).await;
    for index in 0..3 {
        assert!(c.durable(index) == data, "mirror {index}");
        assert_eq!(c.ds[index].count(OpNum::COMMIT), 1, "mirror {index}");
    }
    assert!(c.read("/f", data.len()).await == data);
    assert_eq!(c.counts(OpNum::READ)[..2], [0, 0]);
    assert!(c.counts(OpNum::READ)[2] >= 6);
    assert_eq!((c.mds.count(OpNum::READ), c.mds.count(OpNum::WRITE)), (0, 0));
    let minorversions: Vec<u32> = c.ds[0].lock().minorversions.iter().copied().collect();
    assert_eq!(minorversions, [crate::fake::flex::MINOR_VERSION]);
    assert_eq!((c.told(), c.mds.layouts()), (vec![], 0));
    c.client.close().await;
}

/// When the best mirror is dead, the next one gives the bytes; the layout stays, and the metadata
/// server is told when it goes back. When all are dead, it gives the bytes itself.
#[tokio::test]
async fn a_dead_mirror_is_passed_over_while_reading() {
    let c = cluster(2, Mirrors::default()).await;
    let data = pattern(3 << 20, 2);
    c.write("/f", &data).await;
    c.ds[1].kill();
    assert!(c.read("/f", data.len()).await == data);
    assert_eq!(c.counts(OpNum::READ), [3, 0]);
    assert_eq!(c.mds.count(OpNum::READ), 0);
    assert_eq!(c.told(), [(device(1), OpNum::READ, NfsStat::NXIO)]);
    c.ds[0].kill();
    assert!(c.read("/f", data.len()).await == data);
    assert!(c.mds.count(OpNum::READ) > 0);
    c.client.close().await;
}

/// A mirror that refuses a READ is passed over for that piece, and reported with its answer.
#[tokio::test]
async fn a_mirror_that_refuses_is_passed_over_for_that_piece() {
    let c = cluster(2, Mirrors::default()).await;
    let data = pattern(3 << 20, 8);
    c.write("/f", &data).await;
    c.ds[1].fault(Fault::Status(OpNum::READ, NfsStat::IO));
    assert!(c.read("/f", data.len()).await == data);
    assert_eq!(c.counts(OpNum::READ), [1, 2]);
    assert_eq!(c.mds.count(OpNum::READ), 0);
    assert_eq!(c.told(), [(device(1), OpNum::READ, NfsStat::IO)]);
    c.client.close().await;
}

/// A mirror dies between two writes: what it has not committed, and what comes after, is safe by
/// way of the metadata server, which is told of the failure with the layout that goes back.
#[tokio::test]
async fn a_mirror_that_dies_while_a_file_is_written() {
    let c = cluster(2, Mirrors::default()).await;
    let data = pattern(4 << 20, 3);
    let (first, second) = data.split_at(2 << 20);
    let file = c.open("/f").await;
    file.write_at(0, Bytes::copy_from_slice(first)).await.unwrap();
    c.ds[0].kill();
    file.write_at(2 << 20, Bytes::copy_from_slice(second)).await.unwrap();
    file.commit().await.unwrap();
    assert!(c.durable(1) == data, "what lives has all of it");
    assert!(c.mds.count(OpNum::WRITE) > 0);
    let told = c.told();
    assert!(told.contains(&(device(0), OpNum::WRITE, NfsStat::NXIO)), "{told:?}");
    assert!(told.iter().all(|(of, ..)| *of == device(0)), "{told:?}");
    assert!(file.read_at(0, data.len()).await.unwrap() == data);
    file.close().await.unwrap();
    assert_eq!((c.mds.layouts(), c.mds.opens()), (0, 0));
    c.client.close().await;
}

/// A mirror that loses what it has not committed gets it again; the file is durable on both when it
/// is closed, whichever of them it was.
#[tokio::test]
async fn a_mirror_that_forgets_is_written_again() {
    for forgetful in 0..2 {
        let c = cluster(2, Mirrors::default()).await;
        c.ds[forgetful].fault(Fault::LoseDataBefore(OpNum::COMMIT));
        let data = pattern(3 << 20, 4);
        c.write("/f", &data).await;
        assert!(c.durable(0) == data && c.durable(1) == data, "{forgetful} forgot");
        assert_eq!(c.mds.count(OpNum::WRITE), 0);
        c.client.close().await;
    }
}

/// Flags of the layout: servers that mirror by themselves are written to at the best mirror alone,
/// and a layout for writing that is not to be read through is not.
#[tokio::test]
async fn flags_are_heeded() {
    let flags = FlexFlags::WRITE_ONE_MIRROR | FlexFlags::NO_READ_IO;
    let c = cluster(2, Mirrors { flags, ..Mirrors::default() }).await;
    let data = pattern(2 << 20, 5);
    let file = c.open("/f").await;
    file.write_at(0, data.clone().into()).await.unwrap();
    file.commit().await.unwrap();
    assert!(c.durable(1) == data);
    assert_eq!(c.counts(OpNum::WRITE)[0], 0);
    file.read_at(0, 1000).await.unwrap();
    assert_eq!((c.counts(OpNum::READ), c.mds.count(OpNum::READ)), (vec![0, 0], 1));
    file.close().await.unwrap();
    c.client.close().await;
}

/// A layout that is cut short, or whose data servers do not know the metadata server's state, goes
/// back at once, and the file through the metadata server.
#[tokio::test]
async fn layouts_that_cannot_be_used_go_back() {
    for mirrors in [
        Mirrors { cut: 4, ..Mirrors::default() },
        Mirrors { loosely_coupled: true, ..Mirrors::default() },
    ] {
        let c = cluster(2, mirrors).await;
        let data = pattern(1 << 20, 6);
        c.write("/f", &data).await;
        assert!(c.read("/f", data.len()).await == data);
        assert_eq!(c.counts(OpNum::WRITE), [0, 0], "{mirrors:?}");
        assert!(c.mds.count(OpNum::LAYOUTGET) > 0);
        assert_eq!(c.mds.count(OpNum::LAYOUTGET), c.mds.count(OpNum::LAYOUTRETURN));
        c.client.close().await;
    }
}

/// A client with drivers for two types asks each server only for what that announces, and asks what
/// that is once.
#[tokio::test]
async fn only_announced_types_are_asked_for() {
    let drivers = || ClientOptions {
        drivers: vec![Arc::new(FlexFilesDriver), Arc::new(FilesDriver)],
        ..ClientOptions::default()
    };
    let ds = data_servers(2).await;
    let striped = Fake::start(ds.clone()).await;
    let mirrored = Fake::mirrored(data_servers(2).await).await;
    let none = Fake::start(ds).await;
    none.lock().layout_types.clear();
    for (mds, layout_type) in [
        (striped, Some(LayoutType::NFSV4_1_FILES)),
        (mirrored, Some(LayoutType::FLEX_FILES)),
        (none, None),
    ] {
        let client = client_of(&mds, drivers()).await;
        for path in ["/f", "/g"] {
            let file = client.open(path, READ_WRITE).await.unwrap();
            file.write_at(0, pattern(1 << 20, 7).into()).await.unwrap();
            let info = file.layout_info().await.ok();
            assert_eq!(info.map(|i| i.layout_type), layout_type);
            file.close().await.unwrap();
        }
        let refused = mds.lock().refused.clone();
        assert!(!refused.contains(&OpNum::LAYOUTGET), "{refused:?}");
        assert_eq!(mds.lock().types_asked, 1);
        client.close().await;
    }
}

/// A layout type of nobody else.
const OWN_TYPE: LayoutType = LayoutType(0x8000_0007);

/// Files layouts under a type of one's own.
#[derive(Debug)]
struct OwnDriver;

impl LayoutDriver for OwnDriver {
    fn layout_type(&self) -> LayoutType {
        OWN_TYPE
    }

    fn devices(&self, segment: &LayoutSegment) -> Result<Vec<DeviceId>, LayoutError> {
        FilesDriver.devices(segment)
    }

    fn plan(
        &self,
        segment: &LayoutSegment,
        devices: &[(DeviceId, Bytes)],
        mds_fh: &FileHandle,
    ) -> Result<Plan, LayoutError> {
        FilesDriver.plan(segment, devices, mds_fh)
    }
}

/// A driver of one's own is given to the builder beside files and flexfiles, for a client of a URL:
/// each server gets the one of its type, and of two types the one that was given last.
#[tokio::test]
async fn a_driver_of_ones_own_lives_beside_the_others() {
    let own = Fake::start(data_servers(2).await).await;
    own.lock().layout_types = vec![LayoutType::NFSV4_1_FILES.0, OWN_TYPE.0];
    let striped = Fake::start(data_servers(2).await).await;
    let mirrored = Fake::mirrored(data_servers(2).await).await;
    for (mds, layout_type) in
        [(own, OWN_TYPE), (striped, LayoutType::NFSV4_1_FILES), (mirrored, LayoutType::FLEX_FILES)]
    {
        let url = format!("weft://{}/?cache=false&patience=10", mds.addr).parse().unwrap();
        let client = Client::builder().driver(Arc::new(OwnDriver)).open_url(&url).await.unwrap();
        let (file, data) = (client.open("/f", READ_WRITE).await.unwrap(), pattern(3 << 20, 9));
        file.write_at(0, data.clone().into()).await.unwrap();
        file.commit().await.unwrap();
        assert!(file.read_at(0, data.len()).await.unwrap() == data);
        assert_eq!(file.layout_info().await.unwrap().layout_type, layout_type);
        file.close().await.unwrap();
        assert_eq!([mds.count(OpNum::READ), mds.count(OpNum::WRITE)], [0, 0]);
        client.close().await;
    }
}

/// The sizes from which a layout is worth it are those told for the type in use.
#[tokio::test]
async fn thresholds_are_those_of_the_type_in_use() {
    let c = cluster(2, Mirrors::default()).await;
    c.mds.lock().threshold = Some(1 << 20);
    c.write("/small", &pattern(1000, 1)).await;
    assert_eq!(c.mds.count(OpNum::LAYOUTGET), 0);
    c.write("/large", &pattern(1 << 20, 1)).await;
    assert_eq!(c.mds.count(OpNum::LAYOUTGET), 1);
    c.client.close().await;
}
