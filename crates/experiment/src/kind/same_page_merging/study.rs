//! One scheme and seed: two heaps are filled, read, merged and read again.

use perforate_config::Count;
use perforate_os::{ContentDistribution, KsmConfig};
use perforate_sim::{Machine, MemoryState, Scheme, SimError};

use super::super::Measurement;
use super::super::case_study::{PAGE_BYTES, REGION_PAGES, Random, map_populated, switch};
use super::super::timed_system::{OTHERS, Role, TimedSystem, counter};

const HEAP_START: u64 = 0x7f00_0000_0000;
/// Bytes of a read.
const READ_BYTES: u16 = 8;

/// What is done.
pub struct Study {
    /// 2MB regions of each heap.
    pub heap_regions: u64,
    pub memory: MemoryState,
    pub contents: ContentDistribution,
    /// Reads that are counted, and those before them.
    pub reads: u64,
    pub warmup: u64,
    /// Reads of one process before the other runs.
    pub slice: u64,
    pub timed: bool,
    pub check: bool,
    pub seed: u64,
}

/// Which pages are read.
#[derive(Clone, Copy)]
pub enum Pattern {
    /// Any page of the heap, evenly.
    Uniform,
    /// The page of rank r with probability proportional to 1/r; ranks lie anywhere.
    Skewed,
}

impl Pattern {
    const ALL: [(Self, &'static str); 2] = [(Self::Uniform, "uniform"), (Self::Skewed, "skewed")];

    /// The page of a heap of `pages` that is read next.
    pub fn next_page(self, random: &mut Random, pages: u64) -> u64 {
        let fraction = random.fraction();
        match self {
            Self::Uniform => (fraction * pages as f64) as u64,
            Self::Skewed => {
                let rank = (pages as f64).powf(fraction) as u64 % pages;
                // A prime that does not divide the number of pages takes each rank elsewhere.
                rank * 2_654_435_761 % pages
            }
        }
    }
}

impl Study {
    /// Runs it.
    ///
    /// # Errors
    /// An impossible machine, out of memory, or a disagreement with the oracle.
    pub fn run(
        &self,
        machine: &Machine,
        scheme: &'static Scheme,
        progress: &mut dyn FnMut(f64),
    ) -> Result<Measurement, SimError> {
        let options = (self.timed, self.check);
        let mut program = TimedSystem::new(machine, scheme, &self.memory, self.seed, options)?;
        let system = &mut program.system;
        system.change(|kernel, _| {
            kernel.set_content_distribution(self.contents)?;
            let pages_to_scan = Count::new(u64::MAX);
            kernel.set_ksm(KsmConfig { pages_to_scan, ..KsmConfig::default() });
            Ok(())
        })?;
        for process in 0..2 {
            system.event(&switch(process))?;
            system.event(&map_populated(HEAP_START, self.heap_pages() * PAGE_BYTES, false))?;
        }
        progress(0.2);
        let mut figures = Measurement::new();
        figures.insert("memory_bytes".into(), (2 * self.heap_pages() * PAGE_BYTES) as f64);
        figures.insert("reads".into(), self.reads as f64);
        self.note_memory(&program, "before", &mut figures);
        self.count_both(&mut program, "before", &mut figures)?;
        progress(0.45);
        Self::merge(&mut program, &mut figures)?;
        progress(0.75);
        self.note_memory(&program, "after", &mut figures);
        self.count_both(&mut program, "after", &mut figures)?;
        progress(1.0);
        Ok(figures)
    }

    /// How long it takes, in simulated instructions.
    pub fn cost(&self) -> f64 {
        let reads = 4.0 * (self.reads + self.warmup) as f64;
        reads * if self.timed { 5.0 } else { 1.0 } + 20.0 * self.heap_pages() as f64
    }

    fn heap_pages(&self) -> u64 {
        self.heap_regions * REGION_PAGES
    }

    fn note_memory(&self, program: &TimedSystem, when: &str, figures: &mut Measurement) {
        let counters = program.counters();
        for name in ["free_bytes", "page_table_bytes", "large_pages", "perforated_pages"] {
            figures.insert(format!("{name}_{when}"), counter(&counters, name));
        }
    }

    /// Merges, and notes what that did.
    fn merge(program: &mut TimedSystem, figures: &mut Measurement) -> Result<(), SimError> {
        program.system.start_measuring();
        merge_all(program)?;
        let counters = program.counters();
        for (name, value) in [
            ("merging_operating_system_cycles", program.system_cycles() as f64),
            ("large_pages_broken", counter(&counters, "ksm_large_pages_split")),
            ("pages_merged", counter(&counters, "ksm_pages_merged")),
        ] {
            figures.insert(name.into(), value);
        }
        Ok(())
    }

    /// Reads both heaps in both patterns.
    fn count_both(
        &self,
        program: &mut TimedSystem,
        when: &str,
        figures: &mut Measurement,
    ) -> Result<(), SimError> {
        for (pattern, name) in Pattern::ALL {
            let mut note = |figure: &str, value: f64| {
                figures.insert(format!("{name}_{figure}_{when}"), value);
            };
            let time = self.read(program, pattern)?;
            let counters = program.counters();
            for figure in ["walks", "l2_tlb_misses"] {
                note(figure, counter(&counters, figure));
            }
            note("bitmap_reads", counter(&counters, "bitmap_misses"));
            if let Some(cycles) = time {
                note("cycles", cycles as f64);
            }
        }
        Ok(())
    }

    /// Reads in one pattern; what is counted since then is that of the counted reads. The cycles
    /// they took, if they are timed; the operating system, which only runs one process after the
    /// other, takes none of them.
    fn read(&self, program: &mut TimedSystem, pattern: Pattern) -> Result<Option<u64>, SimError> {
        let mut random = Random(self.seed);
        if self.timed {
            program.start_clock()?;
        }
        for read in 0..self.warmup + self.reads {
            if read == self.warmup {
                program.start_measuring();
            }
            if read % self.slice == 0 {
                program.system.event(&switch((read / self.slice % 2) as u16))?;
            }
            let page = pattern.next_page(&mut random, self.heap_pages());
            program.compute(OTHERS);
            program.access(Role::Read, HEAP_START + page * PAGE_BYTES, READ_BYTES)?;
        }
        Ok(program.stop_clock().map(|time| time.cycles))
    }
}

/// Scans all memory until a scan after the first finds nothing.
fn merge_all(program: &mut TimedSystem) -> Result<(), SimError> {
    let mut is_first = true;
    loop {
        let pass = program.system.change(|kernel, updates| Ok(kernel.ksm_pass(updates)))?;
        if pass.pages_merged == 0 && !is_first {
            return Ok(());
        }
        is_first = false;
    }
}
