//! Memory that payloads land in: the caller's own, without a copy of ours.
//!
//! What a socket has received is copied out of the kernel exactly once, to where the caller wants
//! it. Connections run in tasks that outlive a call, so the memory is behind a [`MemoryRegion`],
//! which is taken back before the caller has the memory again: from then on nothing is written.

use std::{
    io::{self, ErrorKind},
    ops::Range,
    ptr::NonNull,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
};

/// Memory that several connections write to, each to parts of it that no other writes to at that
/// moment.
///
/// **Invariants.** While `State::memory` is there it is valid for reads and writes and
/// initialized, and nobody touches it but through `MemoryRegion::fill`. The ranges in
/// `State::busy` do not overlap, and lie within.
#[derive(Debug)]
pub struct MemoryRegion {
    state: Mutex<State>,
    /// Told when a range is not busy any more.
    done: Condvar,
    len: usize,
    is_owned: bool,
}

#[derive(Debug)]
struct State {
    /// None once it is taken back.
    memory: Option<Memory>,
    busy: Vec<Range<usize>>,
}

#[derive(Debug, Clone, Copy)]
struct Memory(NonNull<[u8]>);

// SAFETY: bytes may be written by any thread, and this is a pointer to nothing else. That no two
// threads touch the same ones at a time is what `MemoryRegion::fill` sees to.
#[allow(unsafe_code, reason = "a pointer to bytes that one thread at a time is given")]
unsafe impl Send for Memory {}

impl MemoryRegion {
    /// Memory of its own, which [`MemoryRegion::take`] gives back.
    pub fn owned(memory: Box<[u8]>) -> Arc<MemoryRegion> {
        let len = memory.len();
        let memory = NonNull::from(Box::leak(memory));
        MemoryRegion::over(Memory(memory), len, true)
    }

    /// Lends memory to `work`, a region for each; when this returns, they are taken back: nothing
    /// is written there any more, whoever still holds a region.
    pub fn lend<R>(memories: Vec<&mut [u8]>, work: impl FnOnce(&[Arc<MemoryRegion>]) -> R) -> R {
        /// Takes regions back, after a panic too.
        struct Lent(Vec<Arc<MemoryRegion>>);
        impl Drop for Lent {
            fn drop(&mut self) {
                for region in &self.0 {
                    region.take_back();
                }
            }
        }
        let region = |memory: &mut [u8]| {
            let len = memory.len();
            MemoryRegion::over(Memory(NonNull::from(memory)), len, false)
        };
        // The borrows of `memories` last until `lent` is dropped, which is before this returns.
        let lent = Lent(memories.into_iter().map(region).collect());
        work(&lent.0)
    }

    fn over(memory: Memory, len: usize, is_owned: bool) -> Arc<MemoryRegion> {
        let state = Mutex::new(State { memory: Some(memory), busy: Vec::new() });
        Arc::new(MemoryRegion { state, done: Condvar::new(), len, is_owned })
    }

    /// Its length in bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The memory of [`MemoryRegion::owned`], the first time; nothing is written to it any more.
    /// Waits for what is being written.
    pub fn take(&self) -> Option<Box<[u8]>> {
        if !self.is_owned {
            return None;
        }
        let Memory(memory) = self.take_back()?;
        // SAFETY: it came out of `Box::leak` in `owned`, and `take_back` returns it once.
        #[allow(unsafe_code, reason = "the box that the region was made of")]
        Some(unsafe { Box::from_raw(memory.as_ptr()) })
    }

    /// When this returns, nothing is being written, and nothing will be.
    fn take_back(&self) -> Option<Memory> {
        let mut state = self.lock();
        let memory = state.memory.take();
        while !state.busy.is_empty() {
            state = self.done.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        memory
    }

    /// Copies data to `at`.
    ///
    /// # Errors
    /// It was taken back, the data do not fit, or the place is being written to.
    pub fn write(&self, at: usize, data: &[u8]) -> io::Result<()> {
        self.fill(at, data.len(), |memory| memory.copy_from_slice(data))
    }

    /// Zeros of `len` bytes at `at`.
    ///
    /// # Errors
    /// As [`MemoryRegion::write`].
    pub fn zero(&self, at: usize, len: usize) -> io::Result<()> {
        self.fill(at, len, |memory| memory.fill(0))
    }

    /// Has `work`, which does not wait, write to `len` bytes at `at`.
    ///
    /// # Errors
    /// As [`MemoryRegion::write`]; `work` was not called then.
    pub(crate) fn fill<R>(
        &self,
        at: usize,
        len: usize,
        work: impl FnOnce(&mut [u8]) -> R,
    ) -> io::Result<R> {
        let outside = || io::Error::new(ErrorKind::InvalidInput, "data beyond the memory for them");
        let end = at.checked_add(len).filter(|end| *end <= self.len).ok_or_else(outside)?;
        let range = at..end;
        let mut state = self.lock();
        let taken = || io::Error::new(ErrorKind::Interrupted, "the memory was taken back");
        let Memory(memory) = state.memory.ok_or_else(taken)?;
        if state.busy.iter().any(|b| b.start < end && at < b.end) {
            return Err(io::Error::new(ErrorKind::ResourceBusy, "two writers for one place"));
        }
        state.busy.push(range.clone());
        drop(state);
        let _busy = Busy { region: self, range };
        // SAFETY: the range lies within the memory, which is valid and initialized, and stays so:
        // `take_back` waits until the range is not busy. No other busy range overlaps it, so that
        // this slice is the only way to its bytes while it lives.
        #[allow(unsafe_code, reason = "a part of the memory that nobody else has now")]
        let part =
            unsafe { std::slice::from_raw_parts_mut(memory.cast::<u8>().as_ptr().add(at), len) };
        Ok(work(part))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for MemoryRegion {
    fn drop(&mut self) {
        drop(self.take());
    }
}

/// A range that is being written to.
struct Busy<'a> {
    region: &'a MemoryRegion,
    range: Range<usize>,
}

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        let mut state = self.region.lock();
        if let Some(at) = state.busy.iter().position(|range| *range == self.range) {
            state.busy.swap_remove(at);
        }
        // Who waits has taken the memory away before.
        let is_waited_for = state.memory.is_none();
        drop(state);
        if is_waited_for {
            self.region.done.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::mpsc, thread, time::Duration};

    use super::*;

    /// What is lent is written to, and after that is the lender's alone, whoever holds the region.
    #[test]
    fn memory_is_lent_and_taken_back() {
        let (mut a, mut b) = ([1; 8], [2; 4]);
        let kept = MemoryRegion::lend(vec![&mut a, &mut b], |regions| {
            regions[0].write(2, b"abc").unwrap();
            regions[1].zero(1, 2).unwrap();
            regions.to_vec()
        });
        assert_eq!((&a, &b), (&[1, 1, b'a', b'b', b'c', 1, 1, 1], &[2, 0, 0, 2]));
        for region in kept {
            assert_eq!(region.write(0, b"x").unwrap_err().kind(), ErrorKind::Interrupted);
            assert!(region.take().is_none());
        }
        let panicked = thread::spawn(|| {
            let mut memory = [0; 4];
            let (to, from) = mpsc::channel();
            let lend = || {
                MemoryRegion::lend(vec![&mut memory[..]], |r| {
                    to.send(r[0].clone()).unwrap();
                    panic!("in the middle of it");
                })
            };
            let lend: Result<(), _> = std::panic::catch_unwind(std::panic::AssertUnwindSafe(lend));
            lend.unwrap_err();
            from.recv().unwrap().write(0, b"x").unwrap_err().kind()
        });
        assert_eq!(panicked.join().unwrap(), ErrorKind::Interrupted);
    }

    /// Whoever takes memory back waits for who is writing to it.
    #[test]
    fn taking_back_waits_for_a_writer() {
        let region = MemoryRegion::owned(vec![0; 100].into());
        let (begun, begins) = mpsc::channel();
        let writer = region.clone();
        let writing = thread::spawn(move || {
            let wrote = writer.fill(10, 80, |memory| {
                begun.send(()).unwrap();
                // Long enough that a taker that does not wait would be seen.
                thread::sleep(Duration::from_millis(50));
                memory.fill(7);
            });
            wrote.unwrap();
        });
        begins.recv().unwrap();
        let memory = region.take().unwrap();
        assert_eq!(
            (memory.len(), &memory[..10], &memory[10..90]),
            (100, &[0; 10][..], &[7; 80][..])
        );
        writing.join().unwrap();
        assert!(region.take().is_none() && region.zero(0, 1).is_err());
    }

    /// Nothing is written beyond the memory, and no place by two at a time.
    #[test]
    fn places_are_checked() {
        let region = MemoryRegion::owned(vec![0; 10].into());
        region.write(10, b"").unwrap();
        region.write(9, b"x").unwrap();
        for (at, len) in [(10, 1), (0, 11), (usize::MAX, 1)] {
            let refused = region.fill(at, len, |_| panic!("called")).unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::InvalidInput);
        }
        let inner = region.fill(2, 4, |_| {
            region.write(6, b"b").unwrap();
            region.write(1, b"a").unwrap();
            [(2, 1), (5, 1), (0, 10)].map(|(at, len)| region.zero(at, len).unwrap_err().kind())
        });
        assert_eq!(inner.unwrap(), [ErrorKind::ResourceBusy; 3]);
        assert_eq!(region.take().unwrap()[..], *b"\0a\0\0\0\0b\0\0x");
    }
}
