//! Which data servers a new file gets, over many turns and whatever the room.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;

fn ready(id: u32, available: u64) -> Candidate {
    Candidate { id: DataServerId(id), standing: Standing::Ready, available: Some(available) }
}

fn equal(count: u32) -> Vec<Candidate> {
    (1..=count).map(|id| ready(id, 1 << 30)).collect()
}

/// How often each is a member, and the first, in so many turns.
fn served(all: &[Candidate], width: u16, turns: u64) -> BTreeMap<u32, (u64, u64)> {
    let mut served: BTreeMap<_, _> = all.iter().map(|c| (c.id.0, (0, 0))).collect();
    for turn in 0..turns {
        let Choice { members, first_index } = choose(all, (width, 1), turn).unwrap();
        members.iter().for_each(|m| served.get_mut(&m.0).unwrap().0 += 1);
        served.get_mut(&members[first_index].0).unwrap().1 += 1;
    }
    served
}

/// With equal room everyone serves at once and as often as everyone else: the ninth of nine, the
/// fifteenth of fifteen, and each of those fewer than the width.
#[test]
fn all_serve_evenly() {
    for (count, width) in [(9, 8), (15, 8), (8, 4), (3, 1), (4, 8), (1, 8), (16, 8), (10, 4)] {
        let turns = u64::from(count) * u64::from(width) * 8;
        let served = served(&equal(count), width, turns);
        let width = u64::from(width).min(count.into());
        for (id, (member, first)) in served {
            assert_eq!(member, turns * width / u64::from(count), "{id} of {count}");
            assert_eq!(first, turns / u64::from(count), "{id} of {count} by {width}");
        }
    }
    // Already the first nine files begin on nine data servers.
    let firsts: BTreeSet<_> = (0..9)
        .map(|turn| choose(&equal(9), (9, 1), turn).unwrap())
        .map(|choice| choice.members[choice.first_index])
        .collect();
    assert_eq!(firsts.len(), 9);
}

/// Data servers that are down or full are passed over while there are others, and files are
/// narrower rather than on them; if all that are up are full they are used all the same.
#[test]
fn those_that_are_down_or_full_are_passed_over() {
    let mut all = equal(4);
    all[1].standing = Standing::Away;
    let ids = |all: &[Candidate]| {
        choose(all, (4, 1), 5).map(|c| c.members.iter().map(|m| m.0).collect::<Vec<_>>())
    };
    assert_eq!(ids(&all), Some(vec![1, 3, 4]));
    all[2].standing = Standing::Full;
    assert_eq!(ids(&all), Some(vec![1, 4]));
    all[0].standing = Standing::Away;
    all[3].standing = Standing::Away;
    assert_eq!(ids(&all), Some(vec![3]));
    all[2].standing = Standing::Away;
    assert_eq!(ids(&all), None);
    assert_eq!(choose(&[], (4, 1), 0), None);
}

/// Data servers with scarce room serve only files that must have more members than there are
/// others; then the roomiest do.
#[test]
fn scarce_room_is_used_for_want_of_other() {
    let mut all = equal(5);
    for (at, available) in [(0, 10), (2, 30), (3, 20)] {
        (all[at].standing, all[at].available) = (Standing::Scarce, Some(available));
    }
    let members = |least| {
        let sets = (0..64).map(|turn| choose(&all, (4, least), turn).unwrap().members);
        let sets: BTreeSet<Vec<_>> = sets.map(|s| s.iter().map(|m| m.0).collect()).collect();
        sets.into_iter().collect::<Vec<_>>()
    };
    assert_eq!(members(1), [[2, 5]]);
    assert_eq!(members(2), [[2, 5]]);
    assert_eq!(members(3), [[2, 3, 5]]);
    assert_eq!(members(4), [[2, 3, 4, 5]]);
}

/// One with a quarter of the room gets a quarter of the files.
#[test]
fn shares_follow_the_room() {
    let mut all = equal(3);
    all[0].available = Some(1 << 28);
    let served = served(&all, 1, 900);
    assert_eq!(served[&1], (100, 100));
    assert_eq!(served[&2], (400, 400));
    assert_eq!(served[&3], (400, 400));
}

fn candidates() -> impl Strategy<Value = Vec<Candidate>> {
    let one = (0..4u8, proptest::option::of(0..1u64 << 50));
    proptest::collection::vec(one, 1..24).prop_map(|all| {
        let standing = |n| match n {
            0 => Standing::Away,
            1 => Standing::Full,
            _ => Standing::Ready,
        };
        let all = (1..).zip(all);
        let one = |(id, (n, available))| Candidate {
            id: DataServerId(id),
            standing: standing(n),
            available,
        };
        all.map(one).collect()
    })
}

proptest! {
    /// Whatever the room: as many members as the width or as there are, in order, all of the best
    /// standing; never more different sets than data servers.
    #[test]
    fn sets_are_full_and_few(all in candidates(), width in 1..20u16) {
        let of = |standing| all.iter().filter(|c| c.standing == standing).collect::<Vec<_>>();
        let best = if of(Standing::Ready).is_empty() { Standing::Full } else { Standing::Ready };
        let usable = of(best);
        let mut sets = BTreeSet::new();
        for turn in 0..2000 {
            let Some(Choice { members, first_index }) = choose(&all, (width, 1), turn) else {
                prop_assert!(usable.is_empty());
                return Ok(());
            };
            prop_assert_eq!(members.len(), usable.len().min(width.into()));
            prop_assert!(members.is_sorted() && first_index < members.len());
            prop_assert!(members.iter().all(|m| usable.iter().any(|c| c.id == *m)));
            sets.insert(members);
        }
        prop_assert!(sets.len() <= usable.len());
    }

    /// The share of each follows its room: within a factor of the square root of two of what is in
    /// proportion, for one member a file and room within the range of the weights.
    #[test]
    fn shares_are_in_proportion(room in proptest::collection::vec(1u64 << 34..1 << 38, 2..12)) {
        let all: Vec<_> = (1..).zip(&room).map(|(id, room)| ready(id, *room)).collect();
        let usable: Vec<_> = all.iter().collect();
        let turns: u64 = weights(&usable).iter().map(|(_, w)| *w).sum();
        let served = served(&all, 1, turns * 4);
        for (one, other) in all.iter().zip(all.iter().skip(1)) {
            let ((a, _), (b, _)) = (served[&one.id.0], served[&other.id.0]);
            let files = a as f64 / b as f64;
            let room = one.available.unwrap() as f64 / other.available.unwrap() as f64;
            prop_assert!((0.49..2.05).contains(&(files / room)), "{files} for {room}");
        }
    }
}
