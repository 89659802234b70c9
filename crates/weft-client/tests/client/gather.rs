//! Small writes that are gathered before they leave.

use crate::fake::{Fault, UNIT, cluster::Cluster, pattern};
use bytes::Bytes;
use proptest::prelude::*;
use weft_client::{io::IoPolicy, limits::MDS_RUNS_MAX};
use weft_nfs::{NfsStat, OpNum};

/// A thousand writes of 16 bytes are one request to the metadata server, and no layout; the size is
/// known before they leave. What has grown goes to the data servers, in requests of the usual size.
#[tokio::test]
async fn small_writes_leave_as_one() {
    let c = Cluster::start(IoPolicy::gathering(32 << 10)).await;
    let data = pattern(3 << 20, 3);
    let file = c.open().await;
    for (n, part) in data[..16_000].chunks(16).enumerate() {
        file.write_at(n as u64 * 16, Bytes::copy_from_slice(part)).await.unwrap();
    }
    assert_eq!((c.writes(), file.size()), ((0, 0), 16_000));
    file.commit().await.unwrap();
    assert_eq!((c.writes(), c.mds.count(OpNum::LAYOUTGET)), ((1, 0), 0));
    for (n, part) in data[16_000..].chunks(1000).enumerate() {
        file.write_at(16_000 + n as u64 * 1000, Bytes::copy_from_slice(part)).await.unwrap();
    }
    file.close().await.unwrap();
    let (through_mds, direct) = c.writes();
    assert!(through_mds == 1 && (3..=8).contains(&direct), "{through_mds} {direct}");
    assert!(c.content().await == data);
    c.client.close().await;
}

/// A few runs here and there go through the metadata server, many to the data servers.
#[tokio::test]
async fn many_runs_are_worth_a_layout() {
    let c = Cluster::start(IoPolicy::gathering(4096)).await;
    let file = c.open().await;
    let scatter = async |runs: u64| {
        for n in 0..runs {
            file.write_at(n * 100_000, Bytes::from(vec![n as u8 + 1; 10])).await.unwrap();
        }
        file.commit().await.unwrap();
    };
    scatter(MDS_RUNS_MAX as u64).await;
    assert_eq!((c.writes(), c.mds.count(OpNum::LAYOUTGET)), ((MDS_RUNS_MAX, 0), 0));
    scatter(MDS_RUNS_MAX as u64 + 1).await;
    let direct = MDS_RUNS_MAX + 1;
    assert_eq!((c.writes(), c.mds.count(OpNum::LAYOUTGET)), ((MDS_RUNS_MAX, direct), 1));
    file.close().await.unwrap();
    let content = c.content().await;
    assert!((0..=MDS_RUNS_MAX).all(|n| content[n * 100_000 + 9] == n as u8 + 1));
    c.client.close().await;
}

/// Whatever is read, also through another open, is what was written last; a larger write takes the
/// place of gathered ones, and they of it.
#[tokio::test]
async fn nobody_sees_what_is_outdated() {
    let c = Cluster::start(IoPolicy::gathering(100)).await;
    let (one, two) = (c.open().await, c.open().await);
    one.write_at(0, Bytes::from_static(b"aaaaaa")).await.unwrap();
    assert_eq!(two.read_at(0, 10).await.unwrap(), "aaaaaa");
    one.write_at(2, Bytes::from_static(b"bb")).await.unwrap();
    two.write_at(3, Bytes::from_static(b"cc")).await.unwrap();
    assert_eq!(c.content().await, "aabcca");
    one.write_at(0, Bytes::from_static(b"small")).await.unwrap();
    one.write_at(1, Bytes::from(vec![b'L'; 200])).await.unwrap();
    two.write_at(200, Bytes::from_static(b"end")).await.unwrap();
    two.commit().await.unwrap();
    let expected = [&b"s"[..], &[b'L'; 199], b"end"].concat();
    assert!(c.content().await == expected);
    one.write_at(2, Bytes::from_static(b"gone")).await.unwrap();
    one.truncate(1).await.unwrap();
    assert_eq!(c.content().await, "s");
    one.close().await.unwrap();
    two.close().await.unwrap();
    c.client.close().await;
}

/// What could not leave is reported by the call that wanted it to, and by the next one, and leaves
/// when it can; a close reports it and ends it.
#[tokio::test]
async fn errors_are_told() {
    let full = |at: &Cluster| at.mds.fault(Fault::Status(OpNum::WRITE, NfsStat::NOSPC));
    let c = Cluster::start(IoPolicy::gathering(100)).await;
    let file = c.open().await;
    let status = |e: weft_client::fs::FsError| e.error.status();
    file.write_at(0, Bytes::from_static(b"kept")).await.unwrap();
    for _ in 0..2 {
        full(&c);
        assert_eq!(file.commit().await.map_err(status), Err(Some(NfsStat::NOSPC)));
    }
    file.write_at(4, Bytes::from_static(b"then")).await.unwrap();
    assert_eq!(file.read_at(0, 100).await.unwrap(), "keptthen");
    file.commit().await.unwrap();
    assert_eq!(c.content().await, "keptthen");
    file.write_at(0, Bytes::from_static(b"lost")).await.unwrap();
    full(&c);
    assert_eq!(file.close().await.map_err(status), Err(Some(NfsStat::NOSPC)));
    assert_eq!((c.content().await, c.mds.opens()), (Bytes::from_static(b"keptthen"), 0));
    c.client.close().await;
}

/// A data server that fails, or forgets, while gathered writes leave costs none of them.
#[tokio::test]
async fn data_servers_fail() {
    let c = Cluster::start(IoPolicy::gathering(4096)).await;
    for (salt, fault) in [
        (1, Fault::Status(OpNum::WRITE, NfsStat::IO)),
        (2, Fault::LoseDataBefore(OpNum::COMMIT)),
        (3, Fault::DropBefore(OpNum::WRITE)),
    ] {
        let file = c.open().await;
        let data = pattern(2 * UNIT as usize + 77, salt);
        file.write_at(0, Bytes::copy_from_slice(&data[..8192])).await.unwrap();
        c.ds[1].fault(fault);
        for (n, part) in data[8192..].chunks(1500).enumerate() {
            let at = 8192 + n as u64 * 1500;
            file.write_at(at, Bytes::copy_from_slice(part)).await.unwrap();
        }
        file.close().await.unwrap();
        assert!(c.content().await == data, "{fault:?}");
        c.client.remove("/f").await.unwrap();
    }
    c.client.close().await;
}

/// What an application may do with its file.
#[derive(Debug, Clone)]
enum Step {
    Write { at: usize, len: usize },
    Read { at: usize, len: usize },
    Truncate(usize),
    Commit,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let near_unit = (0..2_usize, 0..3000_usize).prop_map(|(unit, at)| unit * (1 << 20) + at);
    let write = |len| (near_unit.clone(), len).prop_map(|(at, len)| Step::Write { at, len });
    let step = prop_oneof![
        12 => write(1..64_usize),
        2 => write(64..2000_usize),
        2 => (near_unit.clone(), 1..4000_usize).prop_map(|(at, len)| Step::Read { at, len }),
        1 => near_unit.clone().prop_map(Step::Truncate),
        1 => Just(Step::Commit),
    ];
    prop::collection::vec(step, 1..60)
}

/// Policies between nothing kept and everything, with memory that is full now and then.
fn policies() -> impl Strategy<Value = IoPolicy> {
    let below = prop_oneof![Just(0), Just(64), Just(u32::MAX)];
    let ahead = prop_oneof![Just(0), Just(100), Just(1 << 20)];
    let memory = prop_oneof![Just(1), Just(16 << 10), Just(256 << 10), Just(256 << 20)];
    (below, any::<bool>(), ahead, memory).prop_map(|(gather_below, keeps, ahead, cache_bytes)| {
        IoPolicy { gather_below, keeps, read_ahead_bytes: ahead, cache_bytes }
    })
}

async fn follow(policy: IoPolicy, steps: Vec<Step>) {
    let c = Cluster::start(policy).await;
    let (files, mut model) = ([c.open().await, c.open().await], Vec::new());
    for (n, step) in steps.into_iter().enumerate() {
        let file = &files[n % 2];
        match step {
            Step::Write { at, len } => {
                let data = pattern(len, n);
                model.resize(model.len().max(at + len), 0);
                model[at..at + len].copy_from_slice(&data);
                file.write_at(at as u64, data.into()).await.unwrap();
            }
            Step::Read { at, len } => {
                let end = model.len().min(at + len);
                let read = file.read_at(at as u64, len).await.unwrap();
                assert!(read == model[at.min(end)..end], "step {n}");
            }
            Step::Truncate(size) => {
                model.resize(size, 0);
                file.truncate(size as u64).await.unwrap();
            }
            Step::Commit => file.commit().await.unwrap(),
        }
    }
    for file in files {
        file.close().await.unwrap();
    }
    assert!(c.content().await == model);
    c.client.close().await;
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Two opens are one plain array, whatever the policy.
    #[test]
    fn it_is_a_plain_file(policy in policies(), steps in steps()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(follow(policy, steps));
    }
}
