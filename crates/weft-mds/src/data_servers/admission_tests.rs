//! The tables of both judgements.

use weft_store::types::Lsn;

use super::*;

const fn run(number: u64, id: u8) -> Run {
    Run { number, id: [id; 16] }
}

fn known(met: Option<Run>, age: u64) -> VolumeOk {
    let name = |r: Run| RunName { number: r.number, id: r.id };
    VolumeOk {
        run: name(run(9, 9)),
        met: name(met.unwrap_or(run(0, 0))),
        forgotten: false,
        adopts: false,
        runs: RunNames(Vec::new()),
        age,
    }
}

/// Every state of a directory against what the volume has of it.
#[test]
fn an_older_directory_is_known_by_its_past() {
    let record = Record { uuid: [1; 16], run: run(3, 3), held: 10 };
    let (same, other) = (Some(run(3, 3)), Some(run(3, 4)));
    let judge = |met, age| judge_store(Some(&record), &known(met, age));
    assert_eq!(judge(same, 10), Ok(()));
    assert_eq!(judge(same, 11), Ok(()));
    assert_eq!(judge(same, 9), Err(StoreRefusal::Older), "a copy from the middle of a run");
    assert_eq!(judge(other, 10), Err(StoreRefusal::Fork), "a copy that was started beside it");
    assert_eq!(judge(None, 10), Err(StoreRefusal::Fork), "a copy from before the run");
    assert_eq!(judge(None, 0), Err(StoreRefusal::Older), "a copy from before the first binding");
    // A directory that was never met may be in any state.
    assert_eq!(judge_store(None, &known(None, 0)), Ok(()));
    // Its memory is bounded: then only the age counts.
    let forgotten = |age| VolumeOk { forgotten: true, ..known(None, age) };
    assert_eq!(judge_store(Some(&record), &forgotten(10)), Ok(()));
    assert_eq!(judge_store(Some(&record), &forgotten(9)), Err(StoreRefusal::Older));
    // Its administrator says so.
    let adopts = VolumeOk { adopts: true, ..known(None, 0) };
    assert_eq!(judge_store(Some(&record), &adopts), Ok(()));
}

/// What two histories have in common is the newest run of both, and it ended where the volume's
/// next run found it.
#[test]
fn histories_are_compared_from_the_end() {
    let ours = |number, id, found| VolumeRun {
        run: run(number, id),
        found_lsn: Lsn(found),
        found_next: found + 100,
    };
    let all = [ours(1, 1, 1), ours(2, 2, 20), ours(3, 3, 30)];
    let common = |theirs: &[Run]| {
        let names = theirs.iter().map(|r| RunName { number: r.number, id: r.id });
        newest_common(&all, &RunNames(names.collect()))
    };
    let ends = |run, end_lsn, end_next| Some(CommonRun { run, end_lsn, end_next });
    assert_eq!(common(&[]), None);
    assert_eq!(common(&[run(1, 9)]), None);
    assert_eq!(common(&[run(1, 1)]), ends(run(1, 1), 20, 120));
    assert_eq!(common(&[run(1, 1), run(2, 2)]), ends(run(2, 2), 30, 130));
    assert_eq!(common(&[run(1, 1), run(2, 9), run(4, 4)]), ends(run(1, 1), 20, 120));
    assert_eq!(common(&[run(2, 2), run(3, 3)]), ends(run(3, 3), 0, 0));
}

/// Each refusal names the volume and what to do.
#[test]
fn refusals_say_what_to_do() {
    let uuid = hex(&[0xab; 16]);
    let next = [
        (ControlStatus::UNKNOWN_VOLUME, "--adopt"),
        (ControlStatus::OLDER, "put the newest directory of the metadata server back"),
        (ControlStatus::FORK, "use the directory of the metadata server that was in use last"),
        (ControlStatus::IN_USE, "stop one of them"),
        (ControlStatus::DEPOSED, "stop this metadata server"),
        (ControlStatus::NUMBER_TAKEN, "cannot share a data server"),
    ];
    for (status, what) in next {
        let words = refusal(status, &[0xab; 16]);
        assert!(words.contains(&uuid) && words.contains(what), "{words}");
    }
    for refused in [StoreRefusal::Older, StoreRefusal::Fork] {
        assert!(refused.words(&[0xab; 16]).contains(&format!("--adopt {uuid}")));
    }
}
