//! The table of the judgement: what is known of a volume against what comes.

use super::*;

const fn run(number: u64, id: u8) -> Run {
    Run { number, id: [id; 16] }
}

/// Volume 7, bound by its runs 1 to 3, aged 100.
fn served() -> ServedVolume {
    ServedVolume {
        number: 7,
        uuid: [7; 16],
        runs: vec![run(1, 1), run(2, 2), run(3, 3)],
        age: 100,
        mark: 1000,
        closed: Vec::new(),
        restored: [0; 16],
    }
}

fn request(run: Run, common: Option<CommonRun>, lsn: u64) -> BindRequest {
    BindRequest { number: 7, uuid: [7; 16], run, common, lsn, restored: Restoration::default() }
}

/// A run that ended there, with 40 numbers given.
fn ended(run: Run, end_lsn: u64) -> Option<CommonRun> {
    Some(CommonRun { run, end_lsn, end_next: 40 })
}

const NOTHING: Circumstances = Circumstances { adopt: None, in_use: false };
const IN_USE: Circumstances = Circumstances { adopt: None, in_use: true };
const ADOPTS: Circumstances = Circumstances { adopt: Some([7; 16]), in_use: false };

/// Every kind of history that may come, without and with a live rival, and with leave to adopt.
#[test]
fn the_table() {
    use Accepted::*;
    use BindRefusal::*;
    let last = run(3, 3);
    let table = [
        ("the same run again", last, ended(last, 0), 100, Ok(Again)),
        ("its machine went back", last, ended(last, 0), 99, Err(Older)),
        ("started again", run(4, 4), ended(last, 100), 101, Ok(Successor)),
        ("started again, runs unseen", run(9, 4), ended(last, 150), 200, Ok(Successor)),
        ("a copy from the middle of a run", run(4, 4), ended(last, 99), 5000, Err(Older)),
        ("that went on for long", run(8, 4), ended(last, 99), 5000, Err(Older)),
        ("from before the last run", run(3, 9), ended(run(2, 2), 90), 91, Err(Fork)),
        ("started more often since", run(6, 9), ended(run(2, 2), 90), 500, Err(Fork)),
        ("a copy from long before", run(2, 9), ended(run(1, 1), 50), 51, Err(Older)),
        ("nothing in common", run(9, 9), None, 500, Err(Fork)),
        ("a process that was deposed", run(2, 2), ended(run(2, 2), 0), 500, Err(Deposed)),
    ];
    for (what, run, common, lsn, alone) in table {
        let request = request(run, common, lsn);
        let judge = |seen| judge(&[served()], &request, seen);
        assert_eq!(judge(NOTHING), alone, "{what}");
        let rival = if alone == Err(Deposed) { alone } else { Err(InUse) };
        assert_eq!(judge(IN_USE), rival, "{what}, in use");
        let refused = matches!(alone, Err(Older | Fork));
        let adopting = if refused { Ok(Adopted) } else { alone };
        assert_eq!(judge(ADOPTS), adopting, "{what}, to be adopted");
        let other = Circumstances { adopt: Some([8; 16]), in_use: false };
        assert_eq!(judge(other), alone, "{what}, another to be adopted");
    }
}

/// The first volume is welcome, others when they are to be; numbers are not shared.
#[test]
fn volumes_that_are_unknown() {
    let new = BindRequest {
        number: 8,
        uuid: [8; 16],
        run: run(1, 1),
        common: None,
        lsn: 1,
        restored: Restoration::default(),
    };
    assert_eq!(judge(&[], &new, NOTHING), Ok(Accepted::New));
    assert_eq!(judge(&[served()], &new, NOTHING), Err(BindRefusal::Unknown));
    let adopts = Circumstances { adopt: Some([8; 16]), in_use: false };
    assert_eq!(judge(&[served()], &new, adopts), Ok(Accepted::New));
    for clash in [BindRequest { number: 7, ..new }, BindRequest { uuid: [7; 16], ..new }] {
        let adopts = Circumstances { adopt: Some(clash.uuid), in_use: false };
        assert_eq!(judge(&[served()], &clash, adopts), Err(BindRefusal::NumberTaken));
    }
    let full = (10..18).map(|n| ServedVolume { number: n, uuid: [n as u8; 16], ..served() });
    assert_eq!(judge(&full.collect::<Vec<_>>(), &new, adopts), Err(BindRefusal::TooMany));
}

/// What an older state of the volume does not know of is closed, and nothing else; its numbers go
/// on above. The state that was given up does not come back.
#[test]
fn what_was_given_up_is_closed() {
    let copy = request(run(3, 9), ended(run(2, 2), 90), 91);
    let known = served();
    let adopted = bound(Some(&known), &copy, judge(&[served()], &copy, ADOPTS).unwrap());
    assert_eq!(adopted.runs, [run(1, 1), run(2, 2), run(3, 9)]);
    assert_eq!((adopted.age, adopted.mark), (91, 1000));
    let open = [39, 40, 999, 1000].map(|object| adopted.is_open(object));
    assert_eq!(open, [true, false, false, true]);
    let former = request(run(4, 4), ended(run(2, 2), 90), 600);
    assert_eq!(judge(&[adopted], &former, NOTHING), Err(BindRefusal::Fork));
}

/// Whatever an honest volume and its data servers go through (starts that end at any step, before
/// or after either side has recorded them, and ages told late or never), it is accepted.
#[test]
fn an_honest_volume_is_always_accepted() {
    for seed in 0..2000u64 {
        let mut random = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
        let mut chance = |n: u64| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random % n
        };
        // The volume: its runs, and what each found. The data server: what it has durably.
        let (mut runs, mut lsn): (Vec<(Run, u64)>, u64) = (Vec::new(), 1);
        let mut store: Vec<ServedVolume> = Vec::new();
        for start in 1..12 {
            runs.push((run(start, chance(200) as u8), lsn));
            lsn += 1;
            // A crash here: the volume has the run, the data server has not.
            for _ in 0..chance(3) {
                let known = store.first().map_or(Vec::new(), |v| v.runs.clone());
                let common = known.iter().rev().find_map(|theirs| {
                    let at = runs.iter().position(|(ours, _)| ours == theirs)?;
                    let end_lsn = runs.get(at + 1).map_or(0, |(_, found)| *found);
                    Some(CommonRun { run: *theirs, end_lsn, end_next: 0 })
                });
                let request = request(runs.last().unwrap().0, common, lsn);
                let accepted = judge(&store, &request, NOTHING);
                let accepted = accepted.unwrap_or_else(|e| panic!("seed {seed}: {e}: {request:?}"));
                // A crash here: the data server has the run, the volume has not recorded it.
                store = vec![bound(store.first(), &request, accepted)];
                lsn += chance(50);
                if chance(2) == 0 {
                    store[0].age = lsn;
                }
            }
            lsn += chance(50);
        }
    }
}

/// A volume that was restored from a backup is accepted once, though it is older or another branch;
/// not a second restoration of the same backup, nor the original again. A restoration of what was
/// restored is accepted after it.
#[test]
fn the_first_restoration_is_followed() {
    let restored = |request: BindRequest, id: u8, previous: u8| {
        let restored = Restoration { id: [id; 16], previous: [previous; 16] };
        BindRequest { restored, ..request }
    };
    let seen = Circumstances::default();
    let copy = request(run(3, 9), ended(run(2, 2), 90), 91);
    assert_eq!(judge(&[served()], &copy, seen), Err(BindRefusal::Fork));
    let first = restored(copy, 1, 0);
    assert_eq!(judge(&[served()], &first, seen), Ok(Accepted::Adopted));
    let now = bound(Some(&served()), &first, Accepted::Adopted);
    let original = request(run(4, 4), ended(run(3, 3), 200), 201);
    for other in [restored(request(run(3, 8), ended(run(2, 2), 90), 91), 2, 0), original] {
        assert!(judge(std::slice::from_ref(&now), &other, seen).is_err(), "{other:?}");
    }
    assert_eq!(judge(std::slice::from_ref(&now), &first, seen), Ok(Accepted::Again));
    let again = restored(request(run(4, 7), ended(run(2, 2), 90), 91), 3, 1);
    assert_eq!(judge(&[now], &again, seen), Ok(Accepted::Adopted));
}
