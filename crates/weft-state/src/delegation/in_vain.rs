//! Layouts that the holder of a delegation asks for in vain: pure.

/// So often in a row, and the file is taken for one that stays as long as it is.
const TIMES: u8 = 4;

/// How often a holder asked for a layout of a file that is too small for one.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct InVain {
    /// Bytes of the file at the last time.
    size: u64,
    /// How often since it was that long.
    times: u8,
}

impl InVain {
    /// It asked once more, of a file of so many bytes. Whether it need not ask for a while: the
    /// file is written again and again, and does not grow. It is counted anew then.
    pub(super) fn asked(&mut self, size: u64) -> bool {
        let times = if self.size == size { self.times + 1 } else { 1 };
        let enough = times >= TIMES;
        *self = InVain { size, times: if enough { 0 } else { times } };
        enough
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_fourth_time_in_a_row_is_enough() {
        let mut in_vain = InVain::default();
        let said: Vec<_> = (0..9).map(|_| in_vain.asked(7)).collect();
        assert_eq!(said, [false, false, false, true, false, false, false, true, false]);
    }

    #[test]
    fn what_grows_is_never_enough() {
        let mut in_vain = InVain::default();
        for size in 0..1000 {
            assert!(!in_vain.asked(size / 3), "{size}");
        }
    }
}
