//! Random numbers that are the same in every run.

/// A generator of pseudo-random numbers (SplitMix64): the same seed gives the same numbers on every
/// machine.
#[derive(Debug, Clone)]
pub struct SeededRng(u64);

impl SeededRng {
    /// The generator of a seed. Neighbouring seeds give unrelated numbers.
    pub fn new(seed: u64) -> SeededRng {
        SeededRng(seed)
    }

    /// The next number: 64 random bits.
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number below `limit`, which must be above 0; its bias towards small numbers is negligible.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.draw() % limit
    }

    /// An index into a list of `len` items, at least one.
    pub fn index(&mut self, len: usize) -> usize {
        self.below(len as u64) as usize
    }

    /// True once in `n` calls on average; `n` is at least 1.
    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// One of `all`; `None` if there are none.
    pub fn choose<T: Clone>(&mut self, all: &[T]) -> Option<T> {
        let at = self.index(all.len().max(1));
        all.get(at).cloned()
    }

    /// A number from 0 up to, but not including, 1.
    pub fn fraction(&mut self) -> f64 {
        (self.draw() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// `len` random bytes.
    pub fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| self.draw() as u8).collect()
    }

    /// Puts the items in a random order.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.index(last + 1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The same seed gives the same numbers, spread over what they may be; a shuffle loses nothing.
    #[test]
    fn numbers_are_from_the_seed() {
        let numbers = |seed| {
            let mut numbers = SeededRng::new(seed);
            std::iter::repeat_with(move || numbers.below(10)).take(1000).collect::<Vec<_>>()
        };
        assert_eq!(numbers(1), numbers(1));
        assert_ne!(numbers(1), numbers(2));
        for digit in 0..10 {
            let count = numbers(7).iter().filter(|n| **n == digit).count();
            assert!((60..140).contains(&count), "{digit}: {count}");
        }
        let mut items: Vec<u32> = (0..100).collect();
        SeededRng::new(3).shuffle(&mut items);
        assert_ne!(items, (0..100).collect::<Vec<u32>>());
        items.sort_unstable();
        assert_eq!(items, (0..100).collect::<Vec<u32>>());
    }
}
