//! Workload `readers`: processes that read their heaps repeatedly. It is used when something changes
//! memory meanwhile, such as merging of equal pages (KSM) or page sharing of virtual machines.
//!
//! A round consists of reads of random pages with equal probability, and reads with a skewed
//! distribution of pages; all rounds are the same. Reads do not depend on each other. Code, branches
//! and mispredictions are omitted.

use perforate_config::{BoundedSize, ConfigError, Count};
use perforate_types::{ProcessId, Random};

use super::heap::{Heap, HeapSize, OTHERS, switch};
use crate::registry::{Registered, WorkloadSpec};
use crate::traced::{Program, Tracer};
use crate::zipf::check_exponent;

const MOST_READS: u64 = 1_000_000_000;

options! {
    /// Options of the workload `readers`.
    pub struct ReadersOptions {
        /// Size of each heap, rounded down to whole 2MB pages.
        pub heap: HeapSize = BoundedSize::new(1 << 30),
        /// Number of processes, each with its own heap.
        pub processes: Count<1, 1024> = Count::new(2),
        /// Each page is written once before the first read.
        pub touch: bool = false,
        /// Reads with one pattern before the next pattern, by all processes together.
        pub reads: Count<1, MOST_READS> = Count::new(500_000),
        /// Warm-up reads before each pattern.
        pub warmup: Count<0, MOST_READS> = Count::new(200_000),
        /// Reads of one process before the next process runs.
        pub slice: Count<1, MOST_READS> = Count::new(10_000),
        /// Skew, 0 to 10: the page of rank r has a probability proportional to r^-exponent.
        pub exponent: f64 = 1.0,
        /// Other instructions per read.
        pub others: Count<0, 1000> = Count::new(OTHERS as u64),
    }
}

impl ReadersOptions {
    /// Makes the specification of the workload with these options.
    pub fn workload(self) -> WorkloadSpec {
        WorkloadSpec::of::<Readers>(self)
    }

    /// Number of 4KB pages of each heap.
    pub fn pages(&self) -> u64 {
        Heap::new(self.heap).pages
    }
}

/// Distribution from which the pages to read are chosen.
#[derive(Clone, Copy)]
enum Pattern {
    /// Distribution in which every page of the heap has equal probability.
    Uniform,
    /// Distribution in which the page of rank r has a probability proportional to r^-exponent; ranks are
    /// scattered over the heap.
    Skewed { exponent: f64 },
}

impl Pattern {
    /// Chooses the next page to read in a heap of `pages` pages.
    fn next_page(self, random: &mut Random, pages: u64) -> u64 {
        match self {
            Self::Uniform => random.evenly(pages),
            Self::Skewed { exponent } => {
                let rank = rank(exponent, pages as f64, random.fraction()) as u64 % pages;
                // Multiplication by a prime that does not divide the number of pages scatters the
                // ranks.
                rank * 2_654_435_761 % pages
            }
        }
    }
}

/// Quantile function of ranks from 1 to `count`: the rank below which the share `share` of the distribution
/// lies. Rank r has probability proportional to r^-exponent.
fn rank(exponent: f64, count: f64, share: f64) -> f64 {
    let power = 1.0 - exponent;
    if power == 0.0 {
        return count.powf(share);
    }
    ((count.powf(power) - 1.0) * share + 1.0).powf(1.0 / power)
}

/// Size of an access in bytes.
const WORD_BYTES: u64 = 8;

pub(crate) struct Readers {
    options: ReadersOptions,
    heap: Heap,
    seed: u64,
}

impl Registered for Readers {
    const NAME: &'static str = "readers";
    const SUMMARY: &'static str = "processes that take turns reading their heaps, uniformly and with a skew (for --ksm; paper P)";
    const EXAMPLE: &'static str = "readers:heap=256M,processes=4";
    type Options = ReadersOptions;

    fn check(options: &ReadersOptions) -> Result<(), ConfigError> {
        check_exponent(options.exponent)
    }
}

impl Program for Readers {
    const SETUP_UNTIL: Option<&'static str> = Some("uniform-warm-up");

    fn start(&options: &ReadersOptions, seed: u64, t: &mut Tracer) -> Self {
        t.leave_code_out();
        Self { options, heap: Heap::new(options.heap), seed }
    }

    async fn run(&mut self, t: &mut Tracer) {
        for process in 0..self.options.processes.get() {
            self.switch(process as u16, t);
            t.event(self.heap.map(false));
            if self.options.touch {
                self.touch(t).await;
            }
        }
        loop {
            self.read("uniform", Pattern::Uniform, t).await;
            let exponent = self.options.exponent;
            self.read("skewed", Pattern::Skewed { exponent }, t).await;
        }
    }
}

impl Readers {
    /// Switches to a process. If there is only one, it runs from the start.
    fn switch(&self, process: u16, t: &mut Tracer) {
        if self.options.processes.get() > 1 {
            t.event(switch(ProcessId(process)));
        }
    }

    async fn touch(&self, t: &mut Tracer) {
        for page in 0..self.heap.pages {
            t.compute(OTHERS, 1);
            t.store(self.heap.page(page), WORD_BYTES, (), ());
            t.pause().await;
        }
    }

    async fn read(&self, name: &str, pattern: Pattern, t: &mut Tracer) {
        let ReadersOptions { processes, reads, warmup, slice, .. } = self.options;
        let (reads, warmup, slice) = (reads.get(), warmup.get(), slice.get());
        let mut random = Random::new(self.seed);
        t.begin_phase(&format!("{name}-warm-up"), &[]).await;
        for read in 0..warmup + reads {
            if read == warmup {
                t.begin_phase(name, &[]).await;
            }
            if read % slice == 0 {
                self.switch((read / slice % processes.get()) as u16, t);
            }
            let page = pattern.next_page(&mut random, self.heap.pages);
            t.compute(self.options.others.get() as u32, 1);
            t.load(self.heap.page(page), WORD_BYTES, (), ());
            t.pause().await;
        }
    }
}
