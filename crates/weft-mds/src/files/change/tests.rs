//! How changes end, plan by plan.

use bytes::Bytes;
use tokio::sync::Notify;
use weft_ds::testing::{TestDs, until};
use weft_nfs::{ClientId, StableHow};
use weft_store::{
    types::{Credential, DataServerId, Intent, Placement, SetIdLoss, Spread, Timestamp},
    volume::{Authority, New, NewFileData, SetAttr, Volume},
};

use super::*;
use crate::{
    data_servers::DataServerSpec,
    files::plan::Writer,
    server::Mds,
    testing::{mds_on, new_volume},
};

/// How far the file reaches before, and how far a change would have it reach.
const SIZE: u64 = 100;
const END: u64 = 200;

const BY: Writer = Writer { client: ClientId(1), set_id_loss: SetIdLoss::Nothing };

fn make(volume: &Volume, name: &str, data: NewFileData) -> Inode {
    let new = New { data, size: Some(SIZE), ..New::file(0o644) };
    let (root, now) = (Credential::superuser(), Timestamp::default());
    volume.create(InodeNo::ROOT, name.as_bytes(), &new, &root, now).unconfirmed().unwrap().inode
}

fn resize(volume: &Volume, ino: InodeNo, size: u64) -> Option<Intent> {
    let (set, root) = (SetAttr { size: Some(size), ..SetAttr::default() }, Credential::superuser());
    let done = volume.setattr(ino, &set, Authority::ByPermission, &root, Timestamp::default());
    done.value.unwrap().truncate
}

async fn write(mds: &Mds, ino: InodeNo, at: u64, data: &[u8]) -> Result<(), Failure> {
    let (inode, data) = (mds.files.shared.inode_now(ino)?, Bytes::copy_from_slice(data));
    let what = (at, &data, StableHow::FILE_SYNC);
    mds.files.write(&mut Deps::default(), inode, BY, what).await.map(drop)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Write,
    Copy,
    Allocate,
    Punch,
    Clone,
    Migrate,
    Compare,
    Truncate,
}

#[derive(Debug, Clone, Copy)]
enum Outcome {
    Done,
    /// A data server refused: what others did is done.
    Refused,
    /// One did not answer.
    Unanswered,
    /// The request ended in the middle: it panicked.
    GivenUp,
}

impl Outcome {
    async fn act(self, kind: Kind, acting: &Notify) -> Result<Done<()>, DataServerError> {
        let id = DataServerId(1);
        match self {
            Outcome::Done => {
                let reaches = match kind {
                    Kind::Migrate | Kind::Truncate => None,
                    Kind::Punch | Kind::Compare => Some(0),
                    Kind::Write | Kind::Copy | Kind::Allocate | Kind::Clone => Some(END),
                };
                Ok(Done { value: (), reaches })
            }
            Outcome::Refused => Err(DataServerError::NoSpace { id }),
            Outcome::Unanswered => Err(DataServerError::Unreachable { id, why: "".into() }),
            Outcome::GivenUp => {
                acting.notify_one();
                std::future::pending().await
            }
        }
    }
}

/// A file of this spread to be changed in this way: small, and on its way, if it is to be moved.
async fn file(mds: &Mds, kind: Kind, (name, spread): (&str, Spread)) -> Inode {
    let data = match kind {
        Kind::Migrate => NewFileData::Stuffed,
        _ => NewFileData::Later,
    };
    let inode = make(mds.volume(), name, data);
    if kind == Kind::Migrate {
        write(mds, inode.no, 0, b"data").await.unwrap();
    }
    let inode = mds.files.shared.inode_now(inode.no).unwrap();
    // No data server is there: whose the file is, is settled all the same.
    let device = mds.volume().devices().unconfirmed().unwrap().remove(0);
    let stripe_count = u16::try_from(device.data_servers.len()).unwrap();
    let place = Placement {
        device: device.id,
        stripe_unit_bytes: 1 << 20,
        stripe_count,
        first_stripe_index: 0,
        reach: 1,
        spread,
    };
    mds.files.shared.placed(&mut Deps::default(), inode, Some(place)).await.unwrap().0
}

async fn begin<'a>(mds: &'a Mds, kind: Kind, inode: &Inode) -> Change<'a> {
    let changes = &mds.files.changes;
    let admitted = changes.admit().await;
    let writing = || changes.begin_write(&admitted, inode).unwrap();
    let alone = async || {
        let blocked = changes.block_writes(&admitted, inode).unwrap();
        changes.quiesced(blocked).await.unwrap()
    };
    changes.begin(match kind {
        Kind::Write => Plan::write(writing(), BY, END),
        Kind::Copy => Plan::copy(writing(), END, SetIdLoss::Nothing),
        Kind::Allocate => Plan::allocate(writing(), BY, END),
        Kind::Punch => Plan::punch(alone().await, BY),
        Kind::Clone => Plan::clone_range(alone().await, BY, END),
        Kind::Migrate => Plan::migrate(inode.no, mds.files.migration.lock(inode.no).await.unwrap()),
        Kind::Compare => Plan::compare(writing()),
        Kind::Truncate => {
            let alone = alone().await;
            Plan::truncate(alone, resize(mds.volume(), inode.no, SIZE / 2).unwrap())
        }
    })
}

/// What a change that ends like this leaves behind.
async fn after(mds: &Mds, kind: Kind, outcome: Outcome, file: (&str, Spread)) -> String {
    let inode = self::file(mds, kind, file).await;
    let change = begin(mds, kind, &inode).await;
    let before = mds.files.shared.inode_now(inode.no).unwrap();
    let (mut deps, acting) = (Deps::default(), Notify::new());
    tokio::select! {
        done = change.run(&mut deps, |_| outcome.act(kind, &acting)) => {
            assert_eq!(done.is_ok(), matches!(outcome, Outcome::Done));
        }
        () = acting.notified() => {}
    }
    let shared = &mds.files.shared;
    let now = shared.inode_now(inode.no).unwrap();
    let is_late = shared.records.lock().stale(inode.no).is_some();
    let left = [
        ("moved", now.change > before.change && now.mtime > before.mtime),
        ("touched", now.change > before.change && now.mtime == before.mtime),
        ("longer", now.size > before.size),
        ("asked", mds.files.must_fetch(&now)),
        ("out", before.stuffed && !now.stuffed),
        ("doubted", file.1 != Spread::InTurn && !shared.differing.are_kept(inode.no)),
        ("late", is_late),
        ("blocked", shared.records.begin_write(&now).is_none()),
    ];
    left.iter().filter(|(_, is)| *is).map(|(what, _)| *what).collect::<Vec<_>>().join(" ")
}

/// What each change leaves behind when it is done, when a data server refuses, when one does not
/// answer, and when its request ends in the middle. *Moved*: the change attribute and the
/// modification time are newer, so that no cache of the old bytes stays valid. *Longer*: the size
/// is. *Asked*: data servers are asked for it from now on. *Out*: the bytes left the volume.
/// *Touched*: the change attribute alone is newer. *Doubted*: copies may differ that were alike.
/// *Late*: some of it may still be carried out, which the next change must outrank. *Blocked*:
/// nobody writes before the reaper is done.
#[tokio::test]
async fn a_change_settles_by_its_plan_and_its_outcome() {
    let nobody = DataServerSpec {
        id: DataServerId(1),
        control: std::net::SocketAddr::from(([127, 0, 0, 1], 1)).into(),
        addresses: Vec::new(),
        uuid: None,
    };
    let mds = mds_on(new_volume(), &[nobody]).await;
    let outcomes = [Outcome::Done, Outcome::Refused, Outcome::Unanswered, Outcome::GivenUp];
    let table = [
        (Kind::Write, ["moved longer", "moved asked", "moved asked late", "moved asked late"]),
        (Kind::Copy, ["moved longer", "moved asked", "moved asked late", "moved asked late"]),
        (Kind::Allocate, ["moved longer", "", "", ""]),
        (Kind::Punch, ["moved", "moved", "moved late", "moved late"]),
        (Kind::Clone, ["moved longer", "moved asked", "moved asked late", "moved asked late"]),
        (Kind::Migrate, ["out", "", "late", "late"]),
        (Kind::Compare, ["touched", "", "late", "late"]),
        (Kind::Truncate, ["", "blocked", "blocked", "blocked"]),
    ];
    for (kind, expected) in table {
        for (outcome, expected) in outcomes.into_iter().zip(expected) {
            let what = format!("{kind:?} {outcome:?}");
            let striped = after(&mds, kind, outcome, (&what, Spread::InTurn)).await;
            assert_eq!(striped, expected, "{what}");
            let copied = format!("{what} of copies");
            let left = after(&mds, kind, outcome, (&copied, Spread::Copies { alike: false })).await;
            let doubts = !matches!(outcome, Outcome::Done)
                && !matches!(kind, Kind::Allocate | Kind::Truncate);
            assert_eq!(left.contains("doubted"), doubts, "{copied}: {left}");
            let rest: Vec<_> = left.split(' ').filter(|word| *word != "doubted").collect();
            assert_eq!(rest.join(" "), expected, "{copied}");
        }
    }
}

/// Nothing of a change is done that finds the file not on its data servers: nobody is told of one.
#[tokio::test]
async fn a_change_that_never_began_moves_nothing() {
    let mds = mds_on(new_volume(), &[]).await;
    let inode = make(mds.volume(), "f", NewFileData::Later);
    let change = begin(&mds, Kind::Write, &inode).await;
    let acting = Notify::new();
    let done = change.run(&mut Deps::default(), |_| Outcome::Done.act(Kind::Write, &acting)).await;
    assert_eq!(done.unwrap_err().status, NfsStat::DELAY);
    assert_eq!(mds.files.shared.inode_now(inode.no).unwrap().change, inode.change);
}

/// A truncation whose request ends after the volume recorded it goes on without: nobody writes
/// before the reaper has cut the objects and forgotten the intent, which would cut again after a
/// restart.
#[tokio::test]
async fn a_truncation_that_is_given_up_is_finished_by_the_reaper() {
    let (mut server, volume) = (TestDs::start(1).await, new_volume());
    let id = DataServerId(1);
    let control = server.addr.into();
    let spec = DataServerSpec { id, control, addresses: Vec::new(), uuid: None };
    let mds = mds_on(volume.clone(), std::slice::from_ref(&spec)).await;
    let inode = make(&volume, "f", NewFileData::Later);
    write(&mds, inode.no, 0, &[b'o'; 3000]).await.unwrap();
    server.kill().await;
    until("end of the connection", async || !mds.data_servers().are_up(&[id])).await;
    let admitted = mds.files.admit().await;
    let blocked = mds.files.block_writes(&admitted, &inode).unwrap();
    let quiesced = mds.files.quiesced(blocked).await.unwrap();
    let is_recorded = || !volume.intents(None, 1).unconfirmed().unwrap().is_empty();
    let set = SetAttr { size: Some(1000), ..SetAttr::default() };
    let (mut deps, root) = (Deps::default(), Credential::superuser());
    tokio::select! {
        done = mds.files.set_size(&mut deps, quiesced, (&set, Authority::ByPermission), &root) => {
            panic!("nobody is there to cut: {done:?}");
        }
        () = until("intent", async || is_recorded()) => {}
    }
    assert_eq!(write(&mds, inode.no, 0, b"x").await.unwrap_err().status, NfsStat::DELAY);
    assert_eq!(mds.files.block_writes(&admitted, &inode).unwrap_err(), NfsStat::DELAY);
    server.start_again().await;
    let running = mds.clone();
    let background = tokio::spawn(async move { running.files.run_background().await });
    let late = || write(&mds, inode.no, 2000, &[b'n'; 500]);
    until("end of the truncation", async || late().await.is_ok()).await;
    assert!(!is_recorded(), "a restart would cut what was written");
    background.abort();
    let _aborted = background.await;
    // Two at once the data server would not have.
    drop(mds);
    let mds = mds_on(volume, &[spec]).await;
    let now = mds.files.shared.inode_now(inode.no).unwrap();
    assert!(mds.files.shared.records.begin_write(&now).is_some());
    let (_, data) = mds.files.read(&mut Deps::default(), now, 0, 2500).await.unwrap();
    assert_eq!(data, [vec![b'o'; 1000], vec![0; 1000], vec![b'n'; 500]].concat());
}
