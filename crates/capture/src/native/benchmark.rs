//! Microbenchmarks for address translation. Each runs over one area of memory; what it does in
//! which order depends on nothing but the size of the area and how often it was run before.

use std::fmt;
use std::io;
use std::str::FromStr;

use super::area::{Advice, Area};
use super::settings::without_large_pages;

const LINE_BYTES: u64 = 64;
/// A full-period multiplier for numbers modulo powers of two (P. L'Ecuyer, Mathematics of
/// Computation 68, 1999, table 4).
const MULTIPLIER: u64 = 2_862_933_555_777_941_757;
/// An odd number for mixing: the golden ratio in 64 bits.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// Pages that a benchmark's memory is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Paging {
    /// 4KB, by MADV_NOHUGEPAGE and PR_SET_THP_DISABLE.
    Small,
    /// 2MB where the kernel has any, by MADV_HUGEPAGE.
    Large,
}

/// A microbenchmark. Each of its operations loads one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Benchmark {
    /// Follows pointers from line to line in a random order: one access waits for the other.
    Chase,
    /// Reads random words; the addresses do not depend on what is read.
    Random,
    /// Reads, changes and writes random words, as GUPS does.
    Updates,
    /// Reads all words in order.
    Sequential,
}

impl Benchmark {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Chase, Self::Random, Self::Updates, Self::Sequential];

    /// Name on the command line and in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Chase => "chase",
            Self::Random => "random",
            Self::Updates => "updates",
            Self::Sequential => "sequential",
        }
    }
}

impl fmt::Display for Benchmark {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.name())
    }
}

impl FromStr for Benchmark {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|benchmark| benchmark.name() == name);
        found.ok_or_else(|| format!("{name:?}: expected chase, random, updates or sequential"))
    }
}

/// A benchmark with its memory, all of it touched.
pub struct Prepared {
    benchmark: Benchmark,
    area: Area,
    lines: u64,
    /// Where the chase stands (a line), or the state of the random numbers, or the next word.
    state: u64,
}

impl Prepared {
    /// Smallest memory of a benchmark, in bytes.
    pub const LEAST_BYTES: u64 = 1 << 16;

    /// Takes memory of `bytes`, a power of two, and writes to all of it.
    ///
    /// # Errors
    /// If the size is no power of two or too small, or the kernel refuses.
    pub fn new(benchmark: Benchmark, bytes: u64, paging: Paging) -> io::Result<Self> {
        if !bytes.is_power_of_two() || bytes < Self::LEAST_BYTES {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let advice = match paging {
            Paging::Small => {
                without_large_pages()?;
                Advice::Small
            }
            Paging::Large => Advice::Large,
        };
        let mut area = Area::new(bytes, advice)?;
        area.touch(0..bytes);
        let mut prepared = Self { benchmark, area, lines: bytes / LINE_BYTES, state: 0 };
        if benchmark == Benchmark::Chase {
            prepared.link();
        }
        Ok(prepared)
    }

    /// The memory.
    pub fn area(&self) -> &Area {
        &self.area
    }

    /// Makes every line hold the number of the line that follows it on one cycle through all.
    fn link(&mut self) {
        let words = self.words();
        let mut line = scattered(0, self.lines);
        for place in 0..self.lines {
            let next = scattered((place + 1) % self.lines, self.lines);
            // SAFETY: `line` is a line of the area, as `scattered` stays below the number of lines.
            unsafe { words.add((line * (LINE_BYTES / 8)) as usize).write(next) };
            line = next;
        }
        self.state = line;
    }

    fn words(&self) -> *mut u64 {
        self.area.start().as_ptr().cast()
    }

    /// Does so many operations, and returns what the last one read or made.
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
            // SAFETY: lines hold numbers of lines, which `link` wrote.
            line = unsafe { words.add((line * (LINE_BYTES / 8)) as usize).read_volatile() };
        }
        self.state = line;
        line
    }

    /// What is read goes nowhere: a sum would make each load wait for the last one in simulation,
    /// as traces do not tell registers of addresses from registers of data.
    #[inline(never)]
    fn random(&mut self, operations: u64) -> u64 {
        let (words, shift) = (self.words(), self.word_shift());
        let (mut state, mut last) = (self.state, 0);
        for _ in 0..operations {
            state = state.wrapping_mul(MULTIPLIER).wrapping_add(1);
            // SAFETY: the shift leaves as many bits as words of the area have numbers.
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
            // SAFETY: as for random reads; nobody else has the memory.
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

    /// Places to shift 64 random bits by, so that they number a word.
    fn word_shift(&self) -> u32 {
        64 - (self.lines * (LINE_BYTES / 8)).trailing_zeros()
    }
}

/// A line for each place on the cycle: a bijection of the numbers below `lines`, a power of two,
/// that no prefetcher foresees. Multiplying by odd numbers and exclusive-or with higher bits can
/// both be undone.
fn scattered(place: u64, lines: u64) -> u64 {
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
        // `touch` wrote 1 + its offset to the first word of each page of 512 words.
        let mut prepared = Prepared::new(Benchmark::Sequential, 1 << 16, Paging::Large).unwrap();
        assert_eq!((prepared.run(1), prepared.run(511), prepared.run(1)), (1, 0, 4097));
        assert_eq!((prepared.run(8191 - 512), prepared.run(1)), (0, 1), "round again");
    }

    #[test]
    fn names_and_sizes() {
        for benchmark in Benchmark::ALL {
            assert_eq!(benchmark.name().parse(), Ok(benchmark));
        }
        assert!("Chase".parse::<Benchmark>().is_err());
        for bytes in [0, 4096, 3 << 20] {
            assert!(Prepared::new(Benchmark::Random, bytes, Paging::Large).is_err());
        }
    }
}
