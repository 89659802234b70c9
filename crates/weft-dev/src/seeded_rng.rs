//! Numbers that look like chance and are the same in every run.

/// Numbers from a seed (SplitMix64): the same everywhere, always.
#[derive(Debug, Clone)]
pub struct SeededRng(u64);

impl SeededRng {
    /// Those of a seed. Seeds beside each other have nothing in common.
    pub fn new(seed: u64) -> SeededRng {
        SeededRng(seed)
    }

    /// The next one.
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// One below a limit above 0; the bias of so few values does not matter.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.draw() % limit
    }

    /// A place in a list of so many, at least one.
    pub fn index(&mut self, len: usize) -> usize {
        self.below(len as u64) as usize
    }

    /// True once in so many times, at least one.
    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// One of these, if there are any.
    pub fn choose<T: Clone>(&mut self, all: &[T]) -> Option<T> {
        let at = self.index(all.len().max(1));
        all.get(at).cloned()
    }

    /// One from 0 up to 1.
    pub fn fraction(&mut self) -> f64 {
        (self.draw() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// So many bytes.
    pub fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| self.draw() as u8).collect()
    }

    /// Any order of these.
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
