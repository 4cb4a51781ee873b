//! Microbenchmarks of address translation. Each accesses one block of memory. The order of its accesses
//! depends only on the memory's size and the number of operations already run.

mod memory;
mod worker;

use std::fmt;
use std::io;

use serde::{Deserialize, Serialize};

use crate::layout::Intervals;
use crate::process_settings::disable_large_pages;

pub use memory::AnonymousMemory;
pub use worker::{Job, Measured, Worker, WorkerCommand, WorkerState, serve};

const LINE_BYTES: u64 = 64;
/// Multiplier of the linear congruential generator for random numbers modulo powers of two, with
/// full period (P. L'Ecuyer, Mathematics of Computation 68, 1999, table 4).
const MULTIPLIER: u64 = 2_862_933_555_777_941_757;
/// Odd factor that mixes the bits of a number: 2^64 divided by the golden ratio.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// Page size of a benchmark's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Paging {
    /// 4KB pages, by MADV_NOHUGEPAGE and PR_SET_THP_DISABLE.
    Small,
    /// 2MB pages where the kernel can provide them, by MADV_HUGEPAGE.
    Large,
}

/// A microbenchmark. Each operation loads one 8-byte word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Benchmark {
    /// Follows pointers from cache line to cache line in random order: each load depends on the
    /// load before.
    Chase,
    /// Reads random words at addresses that do not depend on loaded values.
    Random,
    /// Updates random words, as GUPS does (RandomAccess of the HPC Challenge).
    Updates,
    /// Reads all words of the memory in order.
    Sequential,
}

impl Benchmark {
    /// All benchmarks, one for each access pattern.
    pub const ALL: [Self; 4] = [Self::Chase, Self::Random, Self::Updates, Self::Sequential];
}

impl fmt::Display for Benchmark {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(match self {
            Self::Chase => "chase",
            Self::Random => "random",
            Self::Updates => "updates",
            Self::Sequential => "sequential",
        })
    }
}

/// A benchmark that is ready to run, with all of its memory touched.
pub struct Prepared {
    benchmark: Benchmark,
    memory: AnonymousMemory,
    lines: u64,
    /// Current cache line of the pointer chase, state of the random numbers, or next word of the sequential
    /// scan.
    state: u64,
}

impl Prepared {
    /// Smallest memory of a benchmark, in bytes.
    pub const MIN_BYTES: u64 = 1 << 16;

    /// Allocates `bytes` bytes of memory, a power of two, and touches every page.
    ///
    /// # Errors
    /// If the size is not a power of two or is too small, or the kernel refuses.
    pub fn new(benchmark: Benchmark, bytes: u64, paging: Paging) -> io::Result<Self> {
        check_size(bytes)?;
        if paging == Paging::Small {
            disable_large_pages()?;
        }
        let mut memory = AnonymousMemory::new(bytes, paging == Paging::Large)?;
        memory.touch(0..bytes);
        Ok(Self::of(benchmark, memory, bytes))
    }

    /// Like [`Self::new`], with 2MB pages in the intervals `large` of byte offsets, and 4KB pages between
    /// them.
    ///
    /// # Errors
    /// The errors of [`Self::new`].
    pub fn with_layout(benchmark: Benchmark, bytes: u64, large: &Intervals) -> io::Result<Self> {
        check_size(bytes)?;
        let mut memory = AnonymousMemory::with_layout(bytes, large)?;
        memory.touch(0..bytes);
        let wanted: Vec<_> = large.within(0..bytes).collect();
        if !wanted.is_empty() && memory.residency()?.large_bytes < large.bytes().min(bytes) {
            // MADV_COLLAPSE fails before Linux 6.1. Callers read from `memory` how much of it is in
            // 2MB pages.
            let _ = wanted.into_iter().try_for_each(|part| memory.collapse_part(part));
        }
        Ok(Self::of(benchmark, memory, bytes))
    }

    fn of(benchmark: Benchmark, memory: AnonymousMemory, bytes: u64) -> Self {
        let mut prepared = Self { benchmark, memory, lines: bytes / LINE_BYTES, state: 0 };
        if benchmark == Benchmark::Chase {
            prepared.link();
        }
        prepared
    }

    /// Memory of the benchmark.
    pub fn memory(&self) -> &AnonymousMemory {
        &self.memory
    }

    /// Writes into every cache line the number of its successor, so that all lines form one cycle.
    fn link(&mut self) {
        let words = self.words();
        let mut line = scattered(0, self.lines);
        for place in 0..self.lines {
            let next = scattered((place + 1) % self.lines, self.lines);
            // SAFETY: `scattered` stays below the number of lines.
            unsafe { words.add((line * (LINE_BYTES / 8)) as usize).write(next) };
            line = next;
        }
        self.state = line;
    }

    fn words(&mut self) -> *mut u64 {
        self.memory.as_mut_slice().as_mut_ptr().cast()
    }

    /// Runs this number of operations of the benchmark. Returns the last value read or written.
    pub fn run(&mut self, operations: u64) -> u64 {
        match self.benchmark {
            Benchmark::Chase => self.chase(operations),
            Benchmark::Random => self.random(operations),
            Benchmark::Updates => self.updates(operations),
            Benchmark::Sequential => self.sequential(operations),
        }
    }

    #[inline(never)]
    fn chase(&mut self, operations: u64) -> u64 {
        let words = self.words();
        let mut line = self.state;
        for _ in 0..operations {
            // SAFETY: `link` wrote numbers of lines to all lines.
            line = unsafe { words.add((line * (LINE_BYTES / 8)) as usize).read_volatile() };
        }
        self.state = line;
        line
    }

    /// Reads random words and returns the last. A sum of the values would make each load wait for
    /// the previous load in simulation, because traces do not distinguish address registers from
    /// data registers.
    #[inline(never)]
    fn random(&mut self, operations: u64) -> u64 {
        let (words, shift) = (self.words(), self.word_shift());
        let (mut state, mut last) = (self.state, 0);
        for _ in 0..operations {
            state = state.wrapping_mul(MULTIPLIER).wrapping_add(1);
            // SAFETY: the shift leaves the number of a word inside the memory.
            last = unsafe { words.add((state >> shift) as usize).read_volatile() };
        }
        self.state = state;
        last
    }

    #[inline(never)]
    fn updates(&mut self, operations: u64) -> u64 {
        let (words, shift) = (self.words(), self.word_shift());
        let mut state = self.state;
        for _ in 0..operations {
            state = state.wrapping_mul(MULTIPLIER).wrapping_add(1);
            // SAFETY: as for random reads; the memory is borrowed exclusively.
            unsafe {
                let word = words.add((state >> shift) as usize);
                word.write_volatile(word.read_volatile() ^ state);
            }
        }
        self.state = state;
        state
    }

    #[inline(never)]
    fn sequential(&mut self, operations: u64) -> u64 {
        let words = self.words();
        let mask = self.lines * (LINE_BYTES / 8) - 1;
        let (first, mut last) = (self.state, 0);
        for operation in 0..operations {
            let word = first.wrapping_add(operation) & mask;
            // SAFETY: the mask is one less than the number of words, a power of two.
            last = unsafe { words.add(word as usize).read_volatile() };
        }
        self.state = first.wrapping_add(operations) & mask;
        last
    }

    /// Number of bits by which a 64-bit random number is shifted right to give the number of a word
    /// in memory.
    fn word_shift(&self) -> u32 {
        64 - (self.lines * (LINE_BYTES / 8)).trailing_zeros()
    }
}

fn check_size(bytes: u64) -> io::Result<()> {
    if bytes.is_power_of_two() && bytes >= Prepared::MIN_BYTES {
        Ok(())
    } else {
        Err(io::ErrorKind::InvalidInput.into())
    }
}

/// Number of the cache line at position `place` of the pointer chase: a bijection on the numbers below
/// `lines`, a power of two, that no prefetcher predicts. Multiplication by an odd number and exclusive-or
/// with higher bits are both invertible.
pub(crate) fn scattered(place: u64, lines: u64) -> u64 {
    let bits = lines.trailing_zeros();
    let mask = lines - 1;
    let half = bits.div_ceil(2);
    let mut line = place;
    for round in 0..3 {
        line = line.wrapping_mul(GOLDEN | 1).wrapping_add(round) & mask;
        line ^= line >> half;
    }
    line
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn scattering_is_a_bijection_without_a_stride() {
        for lines in [2_u64, 1024, 1 << 15] {
            let seen: HashSet<u64> = (0..lines).map(|place| scattered(place, lines)).collect();
            assert_eq!(seen.len() as u64, lines);
            assert!(seen.iter().all(|line| *line < lines));
        }
        let lines = 1 << 15;
        let strides: HashSet<u64> = (1..lines)
            .map(|place| scattered(place, lines).wrapping_sub(scattered(place - 1, lines)))
            .collect();
        assert!(strides.len() > 1000, "{} distances", strides.len());
    }

    #[test]
    fn a_chase_visits_every_line_once() {
        let bytes = 1 << 18;
        let mut prepared = Prepared::new(Benchmark::Chase, bytes, Paging::Large).unwrap();
        let lines = bytes / LINE_BYTES;
        let start = prepared.state;
        let visited: HashSet<u64> = (0..lines).map(|_| prepared.run(1)).collect();
        assert_eq!(visited.len() as u64, lines);
        assert_eq!(prepared.state, start, "a cycle");
    }

    #[test]
    fn reads_and_updates_stay_inside_and_are_repeatable() {
        for benchmark in [Benchmark::Random, Benchmark::Updates, Benchmark::Sequential] {
            let result = |_| {
                let mut prepared = Prepared::new(benchmark, 1 << 16, Paging::Large).unwrap();
                (prepared.run(10_000), prepared.run(7))
            };
            assert_eq!(result(0), result(1), "{benchmark}");
        }
        // `touch` writes 1 + the offset to the first word of each page of 512 words.
        let mut prepared = Prepared::new(Benchmark::Sequential, 1 << 16, Paging::Large).unwrap();
        assert_eq!((prepared.run(1), prepared.run(511), prepared.run(1)), (1, 0, 4097));
        assert_eq!((prepared.run(8191 - 512), prepared.run(1)), (0, 1), "round again");
    }

    #[test]
    fn names_and_sizes() {
        for benchmark in Benchmark::ALL {
            assert_eq!(serde_json::to_value(benchmark).unwrap(), benchmark.to_string());
        }
        for bytes in [0, 4096, 3 << 20] {
            assert!(Prepared::new(Benchmark::Random, bytes, Paging::Large).is_err());
        }
    }
}
