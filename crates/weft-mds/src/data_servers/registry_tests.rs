//! What the volume knows of data servers, across starts.

use weft_ds::testing::secret;
use weft_store::volume::VolumeConfig;

use super::*;

const ONE: DataServerId = DataServerId(1);
const TWO: DataServerId = DataServerId(2);

fn registry(volume: &Volume, configured: &[(DataServerId, Uuid)]) -> DataServerRegistry {
    let registry = DataServerRegistry::open(volume.clone(), &secret()).unwrap();
    configured.iter().for_each(|(id, uuid)| registry.expect(*id, Some(*uuid)));
    registry
}

/// A data server in its first run that knows nothing yet.
fn fresh(uuid: Uuid) -> Met {
    let (met, runs) = (NO_RUN, RunNames(Vec::new()));
    let run = RunName { number: 1, id: [5; 16] };
    Met { uuid, known: VolumeOk { run, met, forgotten: false, adopts: false, runs, age: 0 } }
}

/// Goes through all steps with such a data server, which answers as one does that was met before.
async fn admit(registry: &DataServerRegistry, id: DataServerId, uuid: Uuid) -> Result<(), String> {
    let asked = registry.meet(id, uuid)?;
    let mut met = fresh(uuid);
    if asked.met == met.known.run.number {
        met.known.met = met.known.run;
        met.known.age = u64::MAX;
    }
    let args = registry.judge(id, uuid, &met.known).await?;
    registry.bound(id, &met, BindOk { age: args.lsn, mark: 0, epoch: 0, adopted: false }).await
}

/// The first directory of a number stays the only one, also for the next start; a directory
/// has one number; the configuration accepts another one, once and for all.
#[tokio::test]
async fn the_first_directory_stays() {
    let volume = Volume::in_memory(&VolumeConfig::default()).unwrap();
    let first = registry(&volume, &[]);
    assert!(first.key(ONE).is_none());
    admit(&first, ONE, [1; 16]).await.unwrap();
    admit(&first, ONE, [1; 16]).await.unwrap();
    let second = registry(&volume, &[]);
    assert!(second.key(ONE).is_none(), "it was not bound in this run");
    admit(&second, ONE, [1; 16]).await.unwrap();
    for registry in [&first, &second] {
        assert!(registry.key(ONE).is_some());
        let other = admit(registry, ONE, [2; 16]).await.unwrap_err();
        let (came, has) = (hex(&[2; 16]), hex(&[1; 16]));
        assert!(other.contains(&format!("is {came}, but data server 1 has {has}")), "{other}");
        let twice = admit(registry, TWO, [1; 16]).await.unwrap_err();
        assert!(twice.ends_with("is that of data server 1"), "{twice}");
        registry.expelled(ONE);
        assert!(registry.key(ONE).is_none(), "one that is refused is not used");
    }
    let told = registry(&volume, &[(ONE, [2; 16])]);
    admit(&told, ONE, [1; 16]).await.unwrap_err();
    admit(&told, ONE, [2; 16]).await.unwrap();
    let later = registry(&volume, &[]);
    admit(&later, ONE, [1; 16]).await.unwrap_err();
    admit(&later, ONE, [2; 16]).await.unwrap();
    admit(&later, TWO, [1; 16]).await.unwrap();
}

/// A record that cannot be one is corruption, not another first meeting.
#[test]
fn damaged_records_are_errors() {
    for record in [&[][..], &[2; 48], &[2; 50], &[1; 49]] {
        let volume = Volume::in_memory(&VolumeConfig::default()).unwrap();
        volume.data_server_put(ONE, record, 0).unconfirmed().unwrap();
        let opened = DataServerRegistry::open(volume, &secret());
        assert!(matches!(opened, Err(StoreError::Corrupt(_))), "{record:?}");
    }
    let record = Record { uuid: [3; 16], run: Run { number: 4, id: [5; 16] }, held: 6 };
    assert_eq!(record::decode(&record::encode(&record)), Some(record));
}

/// What a data server was found to have is above every number given from then on, except numbers
/// that this run gave itself; an age is recorded when it has grown, and only then.
#[tokio::test]
async fn numbers_go_on_above_the_mark() {
    let volume = Volume::in_memory(&VolumeConfig::default()).unwrap();
    let registry = registry(&volume, &[]);
    let met = fresh([1; 16]);
    let next = || volume.begin_run([0; 16]).unconfirmed().unwrap().found_next;
    let bound = BindOk { age: 5, mark: 1 << 20, epoch: 0, adopted: false };
    registry.bound(ONE, &met, bound).await.unwrap();
    assert_eq!(next(), 1 << 20);
    let ours = registry.this_run().map(name).unwrap();
    let again = VolumeOk { runs: RunNames(vec![ours]), ..met.known.clone() };
    let again = Met { known: again, ..met };
    registry.bound(ONE, &again, BindOk { age: 6, mark: 1 << 30, ..bound }).await.unwrap();
    assert_eq!(next(), 1 << 20);

    let recorded =
        || record::decode(&volume.data_servers().unconfirmed().unwrap()[0].1).unwrap().held;
    registry.holds(ONE, 50);
    assert_eq!(recorded(), 6);
    registry.lost(ONE).await;
    assert_eq!(recorded(), 50);
    let before = volume.durable_lsn();
    registry.lost(ONE).await;
    registry.record_ages().await;
    assert_eq!(volume.durable_lsn(), before, "nothing was new");
}
