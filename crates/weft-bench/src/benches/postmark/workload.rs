//! What Postmark does, made from a seed: a pool of files of random sizes, transactions on them, and
//! the end of what is left.
//!
//! A transaction is two steps, as in the program's version 1.53: a whole file is read or one grows
//! by a random length, then a file is made or one is removed; each with a chance of one half. The
//! pool never holds more than twice the files it begins with.

use weft_dev::SeededRng;

/// The parameters a paper names; the others are the program's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Parameters {
    /// Files in the pool at the beginning.
    pub(crate) files: u32,
    pub(crate) transactions: usize,
    /// Bytes of the smallest file.
    pub(crate) least_bytes: u32,
    /// Bytes of the largest file.
    pub(crate) most_bytes: u32,
    /// Bytes of each read and write.
    pub(crate) block_bytes: u32,
    /// Over which the files are spread at random; 0: they are all in one.
    pub(crate) directories: u32,
}

/// Name of a file: a number, never used twice, and a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Name {
    pub(crate) number: u32,
    pub(crate) directory: u32,
}

/// What is done to one file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// A file is made with this many bytes.
    Create { file: Name, bytes: u32 },
    /// A file is read whole: this many bytes.
    Read { file: Name, bytes: u32 },
    /// Bytes are added to the `from` bytes it has.
    Append { file: Name, from: u32, bytes: u32 },
    /// A file is removed.
    Delete { file: Name },
}

/// All steps, in the order in which they are carried out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Workload {
    /// The files of the beginning.
    pub(crate) pool: Vec<Step>,
    pub(crate) transactions: Vec<[Step; 2]>,
    /// Removes what is left.
    pub(crate) rest: Vec<Step>,
}

impl Workload {
    /// The workload of a seed. It has fewer transactions than asked for if the pool is ever empty.
    pub(crate) fn new(parameters: Parameters, seed: u64) -> Workload {
        let mut files =
            Files { parameters, numbers: SeededRng::new(seed), living: vec![], made: 0 };
        let pool = (0..parameters.files).map(|_| files.create()).collect();
        let mut transactions = Vec::new();
        while transactions.len() < parameters.transactions && !files.living.is_empty() {
            transactions.push([files.read_or_append(), files.create_or_delete()]);
        }
        let rest = files.living.iter().map(|(file, _)| Step::Delete { file: *file }).collect();
        Workload { pool, transactions, rest }
    }

    /// Bytes that are written in all.
    pub(crate) fn bytes_written(&self) -> u64 {
        let steps = self.pool.iter().chain(self.transactions.iter().flatten());
        let written = |step: &Step| match *step {
            Step::Create { bytes, .. } | Step::Append { bytes, .. } => u64::from(bytes),
            Step::Read { .. } | Step::Delete { .. } => 0,
        };
        steps.map(written).sum()
    }
}

/// The pool while the workload is made.
struct Files {
    parameters: Parameters,
    numbers: SeededRng,
    /// Each with its size.
    living: Vec<(Name, u32)>,
    made: u32,
}

impl Files {
    fn create(&mut self) -> Step {
        let Parameters { least_bytes, most_bytes, directories, .. } = self.parameters;
        let bytes = least_bytes + self.below(most_bytes - least_bytes);
        let directory = if directories == 0 { 0 } else { self.below(directories) };
        let file = Name { number: self.made, directory };
        self.made += 1;
        self.living.push((file, bytes));
        Step::Create { file, bytes }
    }

    /// One of those there are; one that is as large as it may be is read.
    fn read_or_append(&mut self) -> Step {
        let one = self.any();
        let most = self.parameters.most_bytes;
        let (file, size) = self.living[one];
        if size >= most || self.numbers.below(2) == 0 {
            return Step::Read { file, bytes: size };
        }
        let bytes = 1 + self.below(most - size);
        self.living[one].1 += bytes;
        Step::Append { file, from: size, bytes }
    }

    /// When there are as many as there may be, one is removed.
    fn create_or_delete(&mut self) -> Step {
        let full = self.living.len() >= 2 * self.parameters.files as usize;
        if !full && self.numbers.below(2) == 0 {
            return self.create();
        }
        let one = self.any();
        let (file, _) = self.living.swap_remove(one);
        Step::Delete { file }
    }

    /// The place of one of those there are.
    fn any(&mut self) -> usize {
        self.numbers.index(self.living.len())
    }

    /// A number below a limit above 0.
    fn below(&mut self, limit: u32) -> u32 {
        self.numbers.below(u64::from(limit)) as u32
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    const PARAMETERS: Parameters = Parameters {
        files: 100,
        transactions: 2000,
        least_bytes: 1 << 10,
        most_bytes: 500 << 10,
        block_bytes: 512,
        directories: 10,
    };

    /// As many transactions as asked for, each reads or appends, then makes or removes, and does
    /// either about half of the time.
    #[test]
    fn number_and_mix_of_transactions() {
        let workload = Workload::new(PARAMETERS, 42);
        assert_eq!((workload.pool.len(), workload.transactions.len()), (100, 2000));
        let first =
            |is: fn(&Step) -> bool| workload.transactions.iter().filter(|t| is(&t[0])).count();
        let second =
            |is: fn(&Step) -> bool| workload.transactions.iter().filter(|t| is(&t[1])).count();
        let reads = first(|s| matches!(s, Step::Read { .. }));
        let creates = second(|s| matches!(s, Step::Create { .. }));
        assert_eq!(reads + first(|s| matches!(s, Step::Append { .. })), 2000);
        assert_eq!(creates + second(|s| matches!(s, Step::Delete { .. })), 2000);
        assert!((900..1200).contains(&reads), "{reads} reads");
        assert!((900..1100).contains(&creates), "{creates} creates");
        assert_eq!(workload, Workload::new(PARAMETERS, 42));
        assert_ne!(workload, Workload::new(PARAMETERS, 43));
    }

    /// Followed step by step: what is touched is there, sizes are what the steps say and within
    /// their range, names are new, and in the end nothing is left.
    #[test]
    fn every_step_can_be_done() {
        let workload = Workload::new(PARAMETERS, 42);
        let (mut sizes, mut next) = (HashMap::new(), 0);
        let (mut most_files, mut written, mut directories) = (0, 0, [0; 10]);
        let steps = workload.pool.iter().chain(workload.transactions.iter().flatten());
        for step in steps.chain(&workload.rest) {
            match *step {
                Step::Create { file, bytes } => {
                    assert!((1 << 10..500 << 10).contains(&bytes));
                    assert_eq!(file.number, next);
                    next += 1;
                    directories[file.directory as usize] += 1;
                    sizes.insert(file, bytes);
                    written += u64::from(bytes);
                }
                Step::Read { file, bytes } => assert_eq!(sizes[&file], bytes),
                Step::Append { file, from, bytes } => {
                    let size = sizes.get_mut(&file).unwrap();
                    assert_eq!(*size, from);
                    *size += bytes;
                    assert!(bytes > 0 && *size <= 500 << 10);
                    written += u64::from(bytes);
                }
                Step::Delete { file } => assert!(sizes.remove(&file).is_some()),
            }
            most_files = most_files.max(sizes.len());
        }
        assert!(sizes.is_empty() && most_files <= 200);
        assert!(directories.iter().all(|n| *n > next / 20), "{directories:?}");
        assert_eq!(workload.bytes_written(), written);
    }

    /// A pool that is full loses files, one that ran out ends the transactions.
    #[test]
    fn limits_of_the_pool() {
        let small = Parameters { files: 1, transactions: 1000, ..PARAMETERS };
        let lengths = (0..50).map(|seed| Workload::new(small, seed).transactions.len());
        assert!(lengths.max().unwrap() < 1000);
        for seed in 0..50 {
            let (mut living, mut most) = (1, 1);
            for [_, second] in Workload::new(small, seed).transactions {
                living += if matches!(second, Step::Create { .. }) { 1 } else { -1 };
                most = most.max(living);
            }
            assert!(living == 0 && most <= 2);
        }
    }
}
