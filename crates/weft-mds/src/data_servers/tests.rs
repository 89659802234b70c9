//! The metadata server's view, against real data servers on loopback.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use bytes::Bytes;
use weft_client::{
    core::Role,
    rpc::Credential,
    session::{Session, SessionOptions},
};
use weft_ds::testing::{TestDs, secret, until};
use weft_layout::Rights;
use weft_nfs::{NfsStat, StableHow};
use weft_server::identity::{ClusterSecrets, ServerUuid};
use weft_store::{
    types::{Content, DataServerId, Spread},
    volume::{Volume, VolumeConfig},
};
use weft_xdr::Payload;

use super::{
    Between, ControlAddress, DataServerError, DataServerRegistry, DataServerSpec, DataServers,
    Standing,
};
use crate::striped::Striped;

const MIB: u64 = 1 << 20;

struct Cluster {
    servers: Vec<TestDs>,
    view: Arc<DataServers>,
}

fn view(servers: &[TestDs], secret: &ClusterSecrets) -> Arc<DataServers> {
    let specs = servers.iter().map(|s| DataServerSpec {
        id: DataServerId(s.id),
        control: s.addr.into(),
        addresses: Vec::new(),
        uuid: None,
    });
    DataServers::start(specs, ServerUuid([9; 16]), registry(secret), true)
}

/// In a new volume.
fn registry(secret: &ClusterSecrets) -> DataServerRegistry {
    let volume = Volume::in_memory(&VolumeConfig::default()).unwrap();
    DataServerRegistry::open(volume, secret).unwrap()
}

impl Cluster {
    async fn start(count: u32) -> Cluster {
        let mut servers = Vec::new();
        for id in 1..=count {
            servers.push(TestDs::start(id).await);
        }
        let view = view(&servers, &secret());
        Cluster { servers, view }
    }

    fn file(&self, object: u64) -> Striped {
        Striped {
            volume: 1,
            object,
            fence_epoch: 0,
            data_servers: self.view.ids(),
            stripe_unit_bytes: 1 << 20,
            first_stripe_index: u16::try_from(object % self.servers.len() as u64).unwrap(),
            reach: u16::MAX,
            spread: Spread::InTurn,
            lengths_min: Vec::new(),
        }
    }

    async fn write(&self, file: &Striped, offset: u64, data: &[u8]) -> weft_nfs::Verifier {
        let (committed, verifier) = self.write_asked(file, offset, data).await;
        assert_eq!(committed, StableHow::UNSTABLE);
        verifier
    }

    /// The same while a data server has just come back: durable, though that was not asked for.
    async fn write_unsteady(&self, file: &Striped, data: &[u8]) -> weft_nfs::Verifier {
        let (committed, verifier) = self.write_asked(file, 0, data).await;
        assert_eq!(committed, StableHow::FILE_SYNC);
        verifier
    }

    async fn write_asked(
        &self,
        file: &Striped,
        offset: u64,
        data: &[u8],
    ) -> (StableHow, weft_nfs::Verifier) {
        let data = Bytes::copy_from_slice(data);
        self.view.write(file, offset, data, StableHow::UNSTABLE).await.unwrap()
    }

    async fn size(&self, file: &Striped) -> u64 {
        self.view.fetch_attrs(&[file]).await.pop().unwrap().unwrap().attrs.size_at_least
    }
}

fn noise(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    (0..len)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state as u8
        })
        .collect()
}

/// Random writes and reads give what a plain array of bytes gives, and the size that the data
/// servers tell is its length.
#[tokio::test]
async fn striped_bytes_are_like_an_array() {
    let cluster = Cluster::start(3).await;
    let file = cluster.file(10);
    let mut model: Vec<u8> = Vec::new();
    for step in 0..40u64 {
        let random = noise(step + 1, 8);
        let number = u64::from_le_bytes(random.try_into().unwrap());
        let offset = number % (5 * MIB);
        let len = usize::try_from(number >> 40).unwrap() % (5 << 19);
        if step % 2 == 0 {
            let data = noise(step, len);
            cluster.write(&file, offset, &data).await;
            let end = usize::try_from(offset).unwrap() + len;
            if len > 0 {
                model.resize(model.len().max(end), 0);
                model[end - len..end].copy_from_slice(&data);
            }
            assert_eq!(cluster.size(&file).await, model.len() as u64, "step {step}");
        }
        let got = cluster.view.read(&file, offset, len as u64).await.unwrap();
        let from = usize::try_from(offset).unwrap().min(model.len());
        let mut expected = model[from..(from + len).min(model.len())].to_vec();
        expected.resize(len, 0);
        assert!(got == expected, "step {step}: {offset}+{len}");
    }
    for s in &cluster.servers {
        assert!(s.dir_has_objects(), "data server {} took no part", s.id);
    }
}

/// Truncation cuts every object, so that what comes back after growing again is zeros; removal
/// removes, twice too, and refuses what comes late.
#[tokio::test]
async fn files_are_cut_and_removed() {
    let cluster = Cluster::start(3).await;
    let file = cluster.file(7);
    let data = noise(1, 4 << 20);
    cluster.write(&file, 0, &data).await;
    let all: Vec<_> = cluster.view.object_sizes(&file).await;
    assert!(all.iter().all(|o| o.size.is_some() && o.error.is_none()), "{all:?}");
    for size in [4 * MIB - 1, 3 * MIB, 2 * MIB + 5, 1, 0] {
        cluster.view.truncate(&file, size).await.unwrap();
        assert_eq!(cluster.size(&file).await, size);
        let got = cluster.view.read(&file, 0, 4 * MIB).await.unwrap();
        let size = usize::try_from(size).unwrap();
        assert!(got[..size] == data[..size] && got[size..].iter().all(|b| *b == 0), "{size}");
    }
    let other = cluster.file(8);
    cluster.write(&other, 0, b"stays").await;
    for _ in 0..2 {
        cluster.view.remove(std::slice::from_ref(&file)).await.remove(0).unwrap();
    }
    let truths = cluster.view.fetch_attrs(&[&file, &other]).await;
    let [Ok(gone), Ok(stays)] = &truths[..] else { panic!("{truths:?}") };
    let (gone, stays) = (gone.attrs, stays.attrs);
    assert_eq!((gone.size_at_least, gone.mtime, gone.space_used), (0, None, 0));
    assert!(stays.size_at_least == 5 && stays.mtime.is_some() && stays.space_used > 0);
    let late = cluster.view.write(&file, 0, Bytes::from_static(b"x"), StableHow::UNSTABLE).await;
    assert!(matches!(late, Err(DataServerError::Fenced { .. })), "{late:?}");
}

/// Objects of many files are made with one message to each data server, and tell nothing of the
/// file while they are empty; one that was removed fails.
#[tokio::test]
async fn objects_are_made_in_batches() {
    let cluster = Cluster::start(2).await;
    cluster.view.ready(&cluster.view.ids()).await.unwrap();
    let files: Vec<_> = (1..=1000).map(|n| cluster.file(n)).collect();
    for sent in [2, 4] {
        assert!(cluster.view.create(&files).await.iter().all(Result::is_ok));
        assert_eq!(cluster.view.messages().get("CREATE"), Some(&sent));
    }
    for server in &cluster.servers {
        assert_eq!(server.store().objects(None, usize::MAX).unwrap().len(), files.len());
    }
    let truth = cluster.view.fetch_attrs(&[&files[7]]).await.pop().unwrap();
    assert_eq!(truth.unwrap().attrs, Default::default());
    cluster.view.remove(&files[..1]).await.remove(0).unwrap();
    let late = cluster.view.create(&files[..1]).await.remove(0);
    assert!(matches!(late, Err(DataServerError::Fenced { .. })), "{late:?}");
}

/// More files than fit one batch are asked about and removed at once.
#[tokio::test]
async fn batches_are_cut_to_the_limit() {
    let cluster = Cluster::start(2).await;
    let files: Vec<_> = (1..=1500).map(|n| cluster.file(n)).collect();
    for n in [0, 700, 1400] {
        cluster.write(&files[n], 0, b"here").await;
    }
    let asked: Vec<_> = files.iter().collect();
    let truths = cluster.view.fetch_attrs(&asked).await;
    for (n, truth) in truths.into_iter().enumerate() {
        let expected = if [0, 700, 1400].contains(&n) { 4 } else { 0 };
        assert_eq!(truth.unwrap().attrs.size_at_least, expected, "file {n}");
    }
    assert!(cluster.view.remove(&files).await.iter().all(Result::is_ok));
    assert!(cluster.servers.iter().all(|s| !s.dir_has_objects()));
}

/// After a fence, the file of before can be neither read nor written, the new one can.
#[tokio::test]
async fn fences_stand() {
    let cluster = Cluster::start(2).await;
    let old = cluster.file(7);
    cluster.write(&old, 0, b"abc").await;
    let new = Striped { fence_epoch: 2, ..old.clone() };
    cluster.view.fence(&new).await.unwrap();
    let late = cluster.view.write(&old, 0, Bytes::from_static(b"x"), StableHow::UNSTABLE).await;
    assert!(matches!(late, Err(DataServerError::Fenced { .. })), "{late:?}");
    let read = cluster.view.read(&old, 0, 3).await;
    assert!(matches!(read, Err(DataServerError::Fenced { .. })), "{read:?}");
    assert_eq!(cluster.view.read(&new, 0, 3).await.unwrap(), "abc");
    cluster.write(&new, 0, b"xyz").await;
}

/// The verifier of a COMMIT, as soon as all data servers answer.
async fn committed(cluster: &Cluster, file: &Striped) -> weft_nfs::Verifier {
    let mut told = None;
    until("commit after a restart", async || {
        told = cluster.view.commit(file).await.ok();
        told.is_some()
    })
    .await;
    told.unwrap()
}

/// COMMIT tells the verifier of the writes before it as long as no data server may have lost
/// something, whichever of them the writes went to: not by a restart of a process, but by one of a
/// machine.
#[tokio::test]
async fn verifiers_tell_of_every_boot() {
    let mut cluster = Cluster::start(3).await;
    let mut file = cluster.file(9);
    file.first_stripe_index = 0;
    let first = cluster.write(&file, 0, b"one").await;
    let second = cluster.write(&file, MIB, &noise(1, 2 << 20)).await;
    assert_eq!(first, second);
    assert_eq!(cluster.view.commit(&file).await.unwrap(), first);
    let mut before = first;
    for restarted in 0..3 {
        cluster.servers[restarted].kill().await;
        cluster.servers[restarted].start_again().await;
        assert_eq!(
            committed(&cluster, &file).await,
            before,
            "data server {restarted} lost nothing"
        );
        cluster.servers[restarted].kill().await;
        cluster.servers[restarted].boot_anew();
        cluster.servers[restarted].start_again().await;
        assert_ne!(
            committed(&cluster, &file).await,
            before,
            "data server {restarted} may have lost something"
        );
        before = cluster.write_unsteady(&file, b"again").await;
        assert_eq!(cluster.view.commit(&file).await, Ok(before));
    }
    let data = Bytes::from_static(b"sync");
    let (committed, verifier) =
        cluster.view.write(&file, MIB - 2, data, StableHow::FILE_SYNC).await.unwrap();
    assert_eq!(
        (committed, verifier),
        (StableHow::FILE_SYNC, cluster.view.commit(&file).await.unwrap())
    );
}

/// A data server that is down costs two seconds once and nothing afterwards; the others work on,
/// and it is found again when it is back.
#[tokio::test]
async fn a_server_that_is_down_fails_fast() {
    let mut cluster = Cluster::start(2).await;
    let mut file = cluster.file(4);
    file.first_stripe_index = 0;
    cluster.write(&file, 0, b"left").await;
    cluster.write(&file, MIB, b"right").await;
    cluster.servers[1].kill().await;
    let begin = Instant::now();
    let truth = cluster.view.fetch_attrs(&[&file]).await.pop().unwrap();
    assert!(
        matches!(&truth, Err(DataServerError::Unreachable { id, .. }) if id.0 == 2),
        "{truth:?}"
    );
    assert!(begin.elapsed() < Duration::from_secs(5), "{:?}", begin.elapsed());
    until("fast failures", async || {
        let begin = Instant::now();
        assert!(cluster.view.fetch_attrs(&[&file]).await[0].is_err());
        begin.elapsed() < Duration::from_millis(200)
    })
    .await;
    let begin = Instant::now();
    assert!(cluster.view.read(&file, MIB, 5).await.is_err());
    assert!(cluster.view.commit(&file).await.is_err());
    assert!(cluster.view.truncate(&file, 2 * MIB).await.is_err());
    assert!(begin.elapsed() < Duration::from_secs(1), "{:?}", begin.elapsed());
    assert_eq!(cluster.view.read(&file, 0, 4).await.unwrap(), "left");
    let status = cluster.view.status().await;
    assert_eq!([status[0].reachable, status[1].reachable], [true, false]);
    assert!(status[1].error.as_ref().unwrap().starts_with("data server 2 cannot be reached"));
    assert_eq!(cluster.view.space(1 << 20).await.missing, [DataServerId(2)]);
    let sizes = cluster.view.object_sizes(&file).await;
    assert!(sizes[0].size == Some(MIB) && sizes[1].size.is_none() && sizes[1].error.is_some());
    cluster.servers[1].start_again().await;
    until("the data server back", async || cluster.view.read(&file, MIB, 5).await.is_ok()).await;
    assert_eq!(cluster.view.read(&file, MIB, 5).await.unwrap(), "right");
    assert!(cluster.view.space(1 << 20).await.missing.is_empty());
}

/// Who does not know the secret, or has another number than configured, is not talked to, and
/// the error says so: it waits to be put right. One that is not configured is a refusal.
#[tokio::test]
async fn strangers_are_not_trusted() {
    let cluster = Cluster::start(1).await;
    let other = ClusterSecrets::from_text("quite another secret of a cluster").unwrap();
    let file = cluster.file(1);
    let told = |e: Result<_, DataServerError>| {
        let e: DataServerError = Result::<super::FileObjects, _>::unwrap_err(e);
        (matches!(e, DataServerError::Unreachable { .. }), e.to_string())
    };
    let stranger = view(&cluster.servers, &other);
    let e = told(stranger.fetch_attrs(&[&file]).await.remove(0));
    let addr = cluster.servers[0].addr;
    let words =
        format!("data server 1 cannot be reached: {addr}: it does not know our cluster secret");
    assert_eq!(e, (true, words));
    let spec = DataServerSpec {
        id: DataServerId(2),
        control: cluster.servers[0].addr.into(),
        addresses: Vec::new(),
        uuid: None,
    };
    let registry = registry(&secret());
    let confused = DataServers::start([spec], ServerUuid([8; 16]), registry, true);
    let second = Striped { data_servers: vec![DataServerId(2)], ..file.clone() };
    let (waits, e) = told(confused.fetch_attrs(&[&second]).await.remove(0));
    assert!(waits && e.ends_with("is data server 1, not 2"), "{e}");
    let e = told(cluster.view.fetch_attrs(&[&second]).await.remove(0));
    assert_eq!(e, (false, "data server 2 refused: it is not configured".to_owned()));
    assert!(
        cluster.view.addresses_for(&[DataServerId(2)], file_peer(), file_peer()).await[0]
            .is_empty()
    );
}

/// A data server is reached by its machine's name, which is looked up at each connection: clients
/// are told the number that it means. One whose name nobody knows is said to be so.
#[tokio::test]
async fn a_data_server_is_reached_by_name() {
    let server = TestDs::start(1).await;
    let secret = secret();
    let start = |name: &str| {
        let control = ControlAddress::Name(name.into(), server.addr.port());
        let id = DataServerId(1);
        let spec = DataServerSpec { id, control, addresses: Vec::new(), uuid: None };
        let registry = registry(&secret);
        DataServers::start([spec], ServerUuid([9; 16]), registry, true)
    };
    let view = start("localhost");
    view.ready(&[DataServerId(1)]).await.unwrap();
    assert_eq!(
        view.addresses_for(&[DataServerId(1)], file_peer(), server.addr).await,
        [[server.addr]]
    );
    let status = view.status().await.remove(0);
    assert!(status.reachable && status.address.starts_with("localhost:"), "{status:?}");
    let session = view.server(DataServerId(1)).unwrap().session().await.unwrap();
    drop(session);
    let nobody = start("no-such-host.invalid");
    let e = nobody.ready(&[DataServerId(1)]).await.unwrap_err().to_string();
    assert!(e.contains("no such host no-such-host.invalid:"), "{e}");
    assert!(nobody.addresses_for(&[DataServerId(1)], file_peer(), server.addr).await[0].is_empty());
}

/// A data server that comes back with an empty directory, or another one's, is not used, and
/// status says so; with its own one again, or in a new start that is told of the new one, it is.
/// Handles for the directory it should have do not work in the other one.
#[tokio::test]
async fn a_swapped_directory_is_noticed() {
    let mut server = TestDs::start(1).await;
    let volume = Volume::in_memory(&VolumeConfig::default()).unwrap();
    let control = server.addr;
    let start = |uuid: Option<[u8; 16]>| {
        let (id, control) = (DataServerId(1), control.into());
        let spec = DataServerSpec { id, control, addresses: Vec::new(), uuid };
        let registry = DataServerRegistry::open(volume.clone(), &secret());
        DataServers::start([spec], ServerUuid([9; 16]), registry.unwrap(), true)
    };
    let first = start(None);
    let file = Striped {
        volume: 1,
        object: 5,
        fence_epoch: 0,
        data_servers: vec![DataServerId(1)],
        stripe_unit_bytes: 1 << 20,
        first_stripe_index: 0,
        reach: u16::MAX,
        spread: Spread::InTurn,
        lengths_min: Vec::new(),
    };
    let device = weft_nfs::DeviceId([1; 16]);
    let data = Bytes::from_static(b"here");
    first.write(&file, 0, data.clone(), StableHow::FILE_SYNC).await.unwrap();
    let sealed = file.handle(0, Rights::READ_WRITE, &server.handle_key());
    drop(first);
    // While no metadata server runs.
    server.kill().await;
    let own = server.swap_dir(tempfile::tempdir().unwrap());
    server.start_again().await;
    let second = start(None);
    until("the other directory noticed", async || {
        let status = second.status().await.remove(0);
        let why = status.error.unwrap_or_default();
        !status.reachable && why.contains("its directory is") && why.contains("data_server.uuid")
    })
    .await;
    assert!(second.read(&file, 0, 4).await.is_err());
    assert!(!second.are_up(&[DataServerId(1)]));
    let layout = second.layout_body(&file, device, Rights::READ_WRITE);
    assert!(layout.is_err(), "no handles for a directory that is refused");
    let session = {
        let credential = Credential::sys("test", 0, 0, &[]);
        let options = SessionOptions::new(Role::Ds, Bytes::from_static(b"test"), credential);
        Session::open(server.addr, options).await.unwrap()
    };
    let refused = session.ds_write(
        Bytes::copy_from_slice(&sealed),
        0,
        Payload::Bytes(data),
        StableHow::UNSTABLE,
    );
    assert_eq!(refused.await.unwrap_err().status(), Some(NfsStat::BADHANDLE));
    assert!(!server.dir_has_objects());
    server.kill().await;
    let empty = server.swap_dir(own);
    server.start_again().await;
    until("its own directory again", async || second.read(&file, 0, 4).await.is_ok()).await;
    server.kill().await;
    drop(server.swap_dir(empty));
    server.start_again().await;
    let told = start(Some(server.store().identity()));
    until("the new directory accepted", async || told.are_up(&[DataServerId(1)])).await;
    assert_eq!(told.fetch_attrs(&[&file]).await.remove(0).unwrap().attrs.size_at_least, 0);
}

fn file_peer() -> std::net::SocketAddr {
    "127.0.0.1:1".parse().unwrap()
}

/// A placement that makes no sense is an error, never a panic.
#[tokio::test]
async fn damaged_placements_are_errors() {
    let cluster = Cluster::start(2).await;
    let good = cluster.file(1);
    for bad in [
        Striped { data_servers: Vec::new(), ..good.clone() },
        Striped { stripe_unit_bytes: 0, ..good.clone() },
        Striped { first_stripe_index: 2, ..good.clone() },
    ] {
        let data = Bytes::from_static(b"x");
        assert!(cluster.view.write(&bad, 0, data, StableHow::UNSTABLE).await.is_err());
        assert!(cluster.view.read(&bad, 0, 1).await.is_err());
        assert!(cluster.view.truncate(&bad, 0).await.is_err());
        assert!(cluster.view.fetch_attrs(&[&bad]).await[0].is_err());
        let _sealed = bad.handle(1, Rights::READ, &secret().handle_keys().of(1, [1; 16]));
    }
}

/// Holes that are made read as zeros and are found, over the borders of units; a fenced file
/// refuses.
#[tokio::test]
async fn holes_are_made_and_found() {
    let cluster = Cluster::start(3).await;
    let file = cluster.file(1);
    let end = 7 * MIB;
    assert_eq!(cluster.view.seek(&file, Content::Hole, 5, end).await, Ok(Some(5)));
    assert_eq!(cluster.view.seek(&file, Content::Data, 5, end).await, Ok(None));
    for at in 0..7 {
        cluster.write(&file, at * MIB, &[1; 1 << 20]).await;
    }
    assert_eq!(cluster.view.seek(&file, Content::Hole, 0, end).await, Ok(None));
    let (from, len) = (MIB + 65_536, 3 * MIB);
    cluster.view.punch(&file, from, len).await.unwrap();
    assert_eq!(cluster.view.seek(&file, Content::Hole, 0, end).await, Ok(Some(from)));
    assert_eq!(cluster.view.seek(&file, Content::Data, from, end).await, Ok(Some(from + len)));
    let data = cluster.view.read(&file, from - 1, len.min(MIB) + 1).await.unwrap();
    assert!(data[0] == 1 && data[1..].iter().all(|b| *b == 0));
    let newer = Striped { fence_epoch: 3, ..file.clone() };
    cluster.view.fence(&newer).await.unwrap();
    let old = cluster.view.punch(&file, 0, 1).await;
    assert!(matches!(old, Err(DataServerError::Fenced { .. })), "{old:?}");
}

/// Reserved space is spread as the file is, and changes nothing that is read; what does not fit
/// is refused and takes nothing.
#[tokio::test]
async fn space_is_reserved_by_stripes() {
    let cluster = Cluster::start(2).await;
    let file = cluster.file(1);
    cluster.view.allocate(&file, MIB / 2, 4 * MIB).await.unwrap();
    let used = cluster.view.fetch_attrs(&[&file]).await.pop().unwrap().unwrap().attrs;
    assert_eq!(used.size_at_least, 0);
    let asked = 3 * MIB + MIB / 2;
    assert!((asked..asked + MIB).contains(&used.space_used), "{used:?}");
    let full = cluster.view.allocate(&file, 0, 1 << 60).await;
    assert!(matches!(full, Err(DataServerError::NoSpace { .. })), "{full:?}");
    let after = cluster.view.fetch_attrs(&[&file]).await.pop().unwrap().unwrap().attrs;
    assert_eq!(after.space_used, used.space_used);
}

/// Data servers of one machine that are on one disk have its space once.
#[tokio::test]
async fn a_shared_disk_is_no_larger() {
    let (alone, three) = (Cluster::start(1).await, Cluster::start(3).await);
    let (alone, three) = (alone.view.space(1 << 20).await, three.view.space(1 << 20).await);
    assert!(alone.total > 0);
    assert_eq!((alone.total, alone.missing), (three.total, three.missing));
    assert!(three.available <= three.free && three.free <= three.total);
    assert_eq!(three.available % (1 << 20), 0);
}

/// A data server that refuses a change for want of space is passed over, and asked at once; one
/// that refuses for another reason is not. What it tells is remembered.
#[tokio::test]
async fn who_refuses_for_want_of_space_is_passed_over() {
    let cluster = Cluster::start(2).await;
    let view = &cluster.view;
    view.begun().await;
    let standing = || view.candidates().iter().map(|c| c.standing).collect::<Vec<_>>();
    assert_eq!(standing(), [Standing::Ready; 2]);
    let (one, two) = (DataServerId(1), DataServerId(2));
    view.server(one).unwrap().noted(DataServerError::TooBig { id: one });
    assert_eq!(view.standing(&[one, two]), Standing::Ready);
    view.server(one).unwrap().noted(DataServerError::NoSpace { id: one });
    assert_eq!(standing(), [Standing::Full, Standing::Ready]);
    assert_eq!(view.standing(&[one, two]), Standing::Full);
    assert_eq!(view.standing(&[two]), Standing::Ready);
    assert_eq!(view.standing(&[two, DataServerId(9)]), Standing::Away);
    assert_eq!(view.candidates()[1].available, None);
    let asks = tokio::spawn({
        let view = view.clone();
        async move { view.watch_room().await }
    });
    until("an answer", async || view.candidates()[1].available.is_some()).await;
    asks.abort();
}

/// Files that line up are copied without a byte on the network, durably after the commit whose
/// verifier the copy told before.
#[tokio::test]
async fn lined_up_files_are_copied_in_place() {
    let cluster = Cluster::start(3).await;
    let (source, target) = (cluster.file(1), cluster.file(4));
    assert!(source.lines_up(0, &target, 3 * MIB));
    let data = noise(7, 5 << 20);
    for (n, part) in (0..).zip(data.chunks(1 << 20)) {
        cluster.write(&source, n * MIB, part).await;
    }
    let moved = || -> u64 {
        let counted = cluster.servers.iter().map(|s| {
            let counters = &weft_server::compound::Role::core(&**s.ds()).counters;
            let load = std::sync::atomic::Ordering::Relaxed;
            counters.bytes_in.load(load) + counters.bytes_out.load(load)
        });
        counted.sum()
    };
    let before = moved();
    let len = data.len() as u64 - 10;
    let (source, destination) = (&source, &target);
    let range = Between { source, from: 10, destination, to: 3 * MIB + 10, len };
    let told = cluster.view.copy(range).await.unwrap();
    assert_eq!(told, cluster.view.commit(&target).await.unwrap());
    assert_eq!(moved(), before);
    for (n, part) in (0..).zip(data.chunks(1 << 20)) {
        let copy = cluster.view.read(&target, (3 + n) * MIB, MIB).await.unwrap();
        let from = if n == 0 { 10 } else { 0 };
        assert!(copy[from..] == part[from..], "unit {n}");
    }
    let newer = Striped { fence_epoch: 3, ..target.clone() };
    cluster.view.fence(&newer).await.unwrap();
    let old = cluster.view.copy(range).await;
    assert!(matches!(old, Err(DataServerError::Fenced { .. })), "{old:?}");
}

/// A write of the test below: when it began and ended on the clock of the test, and whether it
/// was answered. One that was not may be carried out at any time.
#[derive(Debug, Clone, Copy)]
struct Try {
    from: usize,
    to: usize,
    value: u8,
    began: u64,
    ended: Option<u64>,
}

/// Writes small ranges at random until all are answered, several at once, all that it tried.
async fn scribble(
    view: Arc<DataServers>,
    file: Striped,
    clock: Arc<AtomicU64>,
    who: u8,
) -> Vec<Try> {
    const SPAN: u64 = 64 << 10;
    let mut tries = Vec::new();
    for step in 0..40u8 {
        let random = noise(u64::from(who) << 8 | u64::from(step), 8);
        let number = u64::from_le_bytes(random.try_into().unwrap());
        let (from, len) =
            (number % 14 * 4096, (number >> 20) % 2 * 4096 + 4096 + (number >> 40) % 7);
        // Over the border of the first unit.
        let start = MIB - SPAN / 2;
        let value = who * 40 + step;
        let stable = [StableHow::UNSTABLE, StableHow::FILE_SYNC][usize::from(step % 5 == 0)];
        loop {
            let began = clock.fetch_add(1, Relaxed);
            let data = Bytes::from(vec![value; usize::try_from(len).unwrap()]);
            let done = view.write(&file, start + from, data, stable).await;
            let ended = done.is_ok().then(|| clock.fetch_add(1, Relaxed));
            let (from, to) = (usize::try_from(from).unwrap(), usize::try_from(from + len).unwrap());
            tries.push(Try { from, to, value, began, ended });
            if done.is_ok() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
    tries
}

/// Several writers of overlapping and adjacent ranges at once, while a data server restarts: each
/// byte is of a write after whose end no other was begun there and answered.
#[tokio::test]
async fn gathered_writes_land_in_an_order() {
    let mut cluster = Cluster::start(2).await;
    let file = cluster.file(6);
    let clock = Arc::new(AtomicU64::new(0));
    let writers: Vec<_> = (0..6)
        .map(|who| tokio::spawn(scribble(cluster.view.clone(), file.clone(), clock.clone(), who)))
        .collect();
    until("half of the writes", async || clock.load(Relaxed) > 200).await;
    cluster.servers[0].kill().await;
    cluster.servers[0].start_again().await;
    let mut tries = Vec::new();
    for writer in writers {
        tries.extend(writer.await.unwrap());
    }
    let got = cluster.view.read(&file, MIB - (32 << 10), 64 << 10).await.unwrap();
    for (at, byte) in got.iter().enumerate() {
        let here: Vec<_> = tries.iter().filter(|t| (t.from..t.to).contains(&at)).collect();
        let overwritten = |t: &Try| {
            here.iter().any(|o| t.ended.is_some_and(|e| o.ended.is_some() && e < o.began))
        };
        let allowed = here.is_empty() && *byte == 0
            || here.iter().any(|t| t.value == *byte && !overwritten(t));
        assert!(allowed, "byte {at} is {byte}: {here:?}");
    }
    let counted = cluster.view.indirect();
    assert_eq!((counted.writes, counted.waiting), (tries.len() as u64, 0));
}

/// What waits for a write that a data server does not answer is to look again: written with the
/// same epoch, it could lie below that one in the end.
#[tokio::test]
async fn nothing_follows_an_unanswered_write() {
    let mut cluster = Cluster::start(1).await;
    let file = cluster.file(7);
    cluster.write(&file, 0, b"met").await;
    cluster.servers[0].kill().await;
    // Both in one turn: the second finds the first under way.
    let (lost, behind) = tokio::join!(
        cluster.view.write(&file, 0, Bytes::from_static(b"lost"), StableHow::UNSTABLE),
        cluster.view.write(&file, 2, Bytes::from_static(b"behind"), StableHow::UNSTABLE),
    );
    assert!(matches!(lost, Err(DataServerError::Unreachable { .. })), "{lost:?}");
    assert!(matches!(behind, Err(DataServerError::Fenced { .. })), "{behind:?}");
    cluster.servers[0].start_again().await;
    let newer = Striped { fence_epoch: 1, ..file.clone() };
    until("the data server back", async || {
        let data = Bytes::from_static(b"behind");
        cluster.view.write(&newer, 2, data, StableHow::UNSTABLE).await.is_ok()
    })
    .await;
    assert_eq!(cluster.view.read(&newer, 2, 6).await.unwrap(), "behind");
}
