//! The next data or hole of a file, from what its objects say: pure.

use weft_store::objects::Sought;

/// What the objects say together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Merged {
    /// There it is.
    Found(u64),
    /// Not below this offset; behind it not all of them have looked.
    GoOn(u64),
    /// There is none.
    Nothing,
}

/// Puts together the answers of all objects of a file to one question, each of which looked at
/// its own bytes only. `end` is where they were told to stop.
pub(super) fn merge(answers: impl IntoIterator<Item = Sought>, end: u64) -> Merged {
    let (mut nearest, mut looked_at) = (None::<u64>, end);
    for answer in answers {
        match answer {
            Sought::At(at) => nearest = Some(nearest.map_or(at, |n| n.min(at))),
            Sought::NotBefore(at) => looked_at = looked_at.min(at),
        }
    }
    match nearest {
        Some(at) if at <= looked_at => Merged::Found(at),
        _ if looked_at < end => Merged::GoOn(looked_at),
        _ => Merged::Nothing,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use weft_stripe::{Distribution, Form};

    use super::*;

    /// What an object says that looks at so many of its own runs, byte by byte.
    fn object(
        rule: &Distribution,
        index: u32,
        wanted: &[bool],
        from: u64,
        runs_max: usize,
    ) -> Sought {
        let end = wanted.len() as u64;
        let mut at = from;
        for _ in 0..runs_max {
            let run = rule.next_own_run(index, at).filter(|r| r.0 < end);
            let Some((start, run_end)) = run else { return Sought::NotBefore(end) };
            let run_end = run_end.min(end);
            if let Some(found) = (start..run_end).find(|o| wanted[*o as usize]) {
                return Sought::At(found);
            }
            at = run_end;
        }
        Sought::NotBefore(at)
    }

    proptest! {
        /// Asked again from where they stopped, the objects lead to the first wanted byte of the
        /// plain file, however it is spread and however soon each of them stops.
        #[test]
        fn the_objects_tell_what_the_file_would(
            wanted in prop::collection::vec(prop::bool::weighted(0.05), 1..200),
            unit in 1u64..9,
            (count, first) in (1u32..6).prop_flat_map(|c| (Just(c), 0..c)),
            runs_max in prop::collection::vec(1usize..4, 6),
            from in 0usize..200,
        ) {
            let from = from % wanted.len();
            let end = wanted.len() as u64;
            let rule = Distribution::round_robin(unit, count, first, Form::Sparse).unwrap();
            let mut at = from as u64;
            let found = loop {
                let say = |i: u32| object(&rule, i, &wanted, at, runs_max[i as usize]);
                match merge((0..count).map(say), end) {
                    Merged::Found(found) => break Some(found),
                    Merged::Nothing => break None,
                    Merged::GoOn(on) => {
                        prop_assert!(on > at, "it goes on");
                        at = on;
                    }
                }
            };
            let model = (from..wanted.len()).find(|o| wanted[*o]).map(|o| o as u64);
            prop_assert_eq!(found, model);
        }
    }
}
