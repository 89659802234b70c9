//! Layouts that the holder of a delegation asks for in vain: pure.

/// So many writes in a row without growing, and the file is taken for one that stays as long as it
/// is.
const WRITES: u8 = 4;

/// How a file was when the holder asked for a layout to write it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FileAsked {
    /// Its size in bytes.
    pub size: u64,
    /// Its change attribute.
    pub change: u64,
}

/// What a holder is told that asks for a layout of a small file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SmallFile {
    /// That it gets one.
    Leaves,
    /// That it gets none now.
    Stays,
    /// That it need not ask for a while.
    StaysForAWhile,
}

/// How often a file was written, and stayed as long as it was, since its holder first asked.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct InVain {
    last: FileAsked,
    writes: u8,
}

impl InVain {
    /// It asks once more. It need not for a while if the file is written over and over, and does
    /// not grow. Two requests without a write between them may be for one and the same; and what
    /// is empty was emptied, to be written anew, as large as may be.
    pub(super) fn asked(&mut self, now: FileAsked) -> SmallFile {
        let before = std::mem::replace(&mut self.last, now);
        if now.size == 0 || now.size != before.size {
            self.writes = 0;
        } else if now.change != before.change {
            self.writes += 1;
        }
        if self.writes < WRITES {
            return SmallFile::Stays;
        }
        self.writes = 0;
        SmallFile::StaysForAWhile
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(files: impl IntoIterator<Item = (u64, u64)>) -> Vec<bool> {
        let mut in_vain = InVain::default();
        let mut asked = |(size, change)| in_vain.asked(FileAsked { size, change });
        files.into_iter().map(|file| asked(file) == SmallFile::StaysForAWhile).collect()
    }

    #[test]
    fn each_fourth_write_is_enough() {
        let said = said((0..10).map(|change| (7, change)));
        let enough: Vec<_> = (0..10).filter(|n| said[*n]).collect();
        assert_eq!(enough, [4, 8]);
    }

    #[test]
    fn what_grows_is_never_enough() {
        assert!(!said((0..1000).map(|n| (n / 4, n))).contains(&true));
    }

    /// As when one large flush asks for each of its parts, before any of them is written.
    #[test]
    fn what_is_not_written_is_never_enough() {
        assert!(!said((0..1000).map(|_| (7, 1))).contains(&true));
    }

    /// As with `O_TRUNC`: whatever it was before, it may be large now.
    #[test]
    fn what_is_emptied_is_never_enough() {
        assert!(!said((0..1000).map(|change| (0, change))).contains(&true));
    }
}
