//! How long the objects of a file are at least: what tells a lost object from a hole (ADR 10).

use std::sync::Arc;

use super::placement::Placement;

/// How long each object of a file is at least, by stripe index, as of when the file settled: bytes
/// that were durable then. Only a truncation makes an object shorter, so that one which is shorter
/// than this has lost something.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LengthBounds(pub(crate) Bounds);

/// How they are kept. Each set of bounds has one form only.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Bounds {
    /// Nothing is known to be there.
    #[default]
    Nothing,
    /// They are those of a file of this size, not 0, without a hole at the end of an object.
    Dense(u64),
    /// One for each stripe index; at least one is not 0.
    Each(Arc<[u64]>),
}

/// An object that is shorter than its bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShortObject {
    /// Which of the file's objects.
    pub stripe_index: usize,
    /// How long it is at least while nothing is lost, bytes.
    pub expected: u64,
    /// How long it is.
    pub found: u64,
}

impl LengthBounds {
    /// Nothing is known to be there.
    pub const NONE: LengthBounds = LengthBounds(Bounds::Nothing);

    /// Whether nothing is known to be there: nothing can be found missing.
    pub fn is_none(&self) -> bool {
        self.0 == Bounds::Nothing
    }

    /// The bound of the object at a stripe index, bytes.
    pub fn of(&self, placement: &Placement, stripe_index: usize) -> u64 {
        match &self.0 {
            Bounds::Nothing => 0,
            Bounds::Dense(size) => dense(placement, *size, stripe_index),
            Bounds::Each(lengths) => lengths.get(stripe_index).copied().unwrap_or(0),
        }
    }

    /// The bounds of a file of `size` bytes whose objects were found to be so long, by stripe
    /// index. What is known already stays.
    #[must_use]
    pub fn raised(&self, placement: &Placement, size: u64, lengths: &[u64]) -> LengthBounds {
        let found = |index: usize| lengths.get(index).copied().unwrap_or(0);
        self.with(placement, size, |index, known| known.max(found(index)))
    }

    /// The bounds after the file is cut to `size` bytes, and before: its objects are at least so
    /// long at any time.
    #[must_use]
    pub fn cut(&self, placement: &Placement, size: u64) -> LengthBounds {
        self.with(placement, size, |index, known| known.min(dense(placement, size, index)))
    }

    /// The objects of these lengths that are too short.
    pub fn short(&self, placement: &Placement, lengths: &[u64]) -> Vec<ShortObject> {
        let count = usize::from(placement.stripe_count);
        let object = |stripe_index| ShortObject {
            stripe_index,
            expected: self.of(placement, stripe_index),
            found: lengths.get(stripe_index).copied().unwrap_or(0),
        };
        (0..count).map(object).filter(|o| o.found < o.expected).collect()
    }

    /// Bounds made from these, in the one form that they have.
    fn with(
        &self,
        placement: &Placement,
        size: u64,
        change: impl Fn(usize, u64) -> u64,
    ) -> LengthBounds {
        let count = usize::from(placement.stripe_count);
        let changed = (0..count).map(|index| change(index, self.of(placement, index)));
        let lengths: Arc<[u64]> = changed.collect();
        if lengths.iter().all(|length| *length == 0) {
            return LengthBounds::NONE;
        }
        let is_dense = |size| {
            (0..).zip(&*lengths).all(|(index, length)| dense(placement, size, index) == *length)
        };
        let kept = match self.0 {
            Bounds::Dense(before) => Some(before),
            Bounds::Nothing | Bounds::Each(_) => None,
        };
        let form = [Some(size), kept].into_iter().flatten().find(|size| is_dense(*size));
        LengthBounds(form.map_or(Bounds::Each(lengths), Bounds::Dense))
    }
}

/// How long the object at a stripe index is in a file of this size that has no hole at its end.
fn dense(placement: &Placement, size: u64, stripe_index: usize) -> u64 {
    let index = u32::try_from(stripe_index).unwrap_or(u32::MAX);
    placement.distribution().map_or(0, |rule| rule.object_size_for(size, index))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::types::{Spread, placement};

    fn place(stripe_count: u16, first_stripe_index: u16) -> Placement {
        let in_turn = placement::tests::place(stripe_count, first_stripe_index, Spread::InTurn);
        Placement { reach: stripe_count, ..in_turn }
    }

    fn all(bounds: &LengthBounds, place: &Placement) -> Vec<u64> {
        (0..usize::from(place.stripe_count)).map(|index| bounds.of(place, index)).collect()
    }

    proptest! {
        /// Against a list of numbers: bounds only rise by what is found, only fall by a cut, and a
        /// dense file needs no list.
        #[test]
        fn bounds_are_a_list_of_numbers(
            (count, first) in (1u16..5).prop_flat_map(|c| (Just(c), 0..c)),
            steps in prop::collection::vec(
                (any::<bool>(), 0u64..60, prop::collection::vec(0u64..60, 4)), 1..12),
        ) {
            let place = place(count, first);
            let rule = place.distribution().unwrap();
            let mut bounds = LengthBounds::NONE;
            let mut model = vec![0; usize::from(count)];
            for (cuts, size, lengths) in steps {
                for (index, known) in (0..).zip(&mut model) {
                    let demand = rule.object_size_for(size, index);
                    let found = lengths[index as usize];
                    *known = if cuts { demand.min(*known) } else { found.max(*known) };
                }
                bounds = match cuts {
                    true => bounds.cut(&place, size),
                    false => bounds.raised(&place, size, &lengths),
                };
                prop_assert_eq!(all(&bounds, &place), model.clone());
                prop_assert_eq!(bounds.is_none(), model.iter().all(|l| *l == 0));
                let short = bounds.short(&place, &lengths);
                let expected = (0..usize::from(count)).filter(|i| lengths[*i] < model[*i]);
                prop_assert_eq!(short.iter().map(|s| s.stripe_index).collect::<Vec<_>>(),
                    expected.collect::<Vec<_>>());
            }
            let dense: Vec<_> = (0..count.into()).map(|i| rule.object_size_for(37, i)).collect();
            let whole = LengthBounds::NONE.raised(&place, 37, &dense);
            prop_assert_eq!(whole, LengthBounds(Bounds::Dense(37)));
        }
    }
}
