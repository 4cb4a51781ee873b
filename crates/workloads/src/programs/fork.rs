//! Workload `fork`: a server with a big heap forks, as redis does to save. Then the server writes, or
//! its child writes, or the child changes permissions. Finally the child exits.
//!
//! Choices of Perforate: the heap is mapped in full before the fork. Changes hit any page of the heap
//! with equal probability, some pages twice. Both processes run on one core and read any page with
//! equal probability, in turns. Code, branches and mispredictions are omitted.

use perforate_config::{BoundedSize, Count, Share};
use perforate_types::{Permissions, ProcessId, ProgramEvent, Random, VirtualAddress};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::heap::{Heap, HeapSize, OTHERS, REGION_PAGES, switch};
use crate::registry::{Registered, WorkloadSpec};
use crate::source::PAGE_BYTES;
use crate::traced::{Program, Tracer};

/// Process number of the server, which is the first process of the program.
const PARENT: ProcessId = ProcessId(0);
const CHILD: ProcessId = ProcessId(1);
/// Number of reads by one process before the other process runs.
const SLICE: u64 = 50_000;
/// Constant that makes the reads' random numbers independent of the writes', which have the same seed.
const READS_SEED: u64 = 0x5265_6164;

/// Process that changes pages after the fork, and kind of the change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ForkCase {
    /// The parent writes private memory, as a server that goes on while its child saves.
    #[serde(rename = "a")]
    ParentWrites,
    /// The child writes private memory (the situation of P Fig. 1, second address space).
    #[serde(rename = "b")]
    ChildWrites,
    /// The memory is mapped shared, and the child makes sub-pages read-only.
    #[serde(rename = "c")]
    ChildProtects,
}

options! {
    /// Options of the workload `fork`.
    pub struct ForkOptions {
        /// Size of the server's heap, rounded down to whole 2MB pages.
        pub heap: HeapSize = BoundedSize::new(1 << 30),
        /// Number of changes as a share of the heap's 4KB pages; each changes a random page.
        written: Share = Share::percent(1),
        /// a: the parent writes; b: the child writes; c: the memory is shared, and the child makes
        /// pages read-only.
        pub case: ForkCase = ForkCase::ParentWrites,
        /// Reads of each process in each state of the memory, after a warm-up of half as many.
        pub reads: Count<1, 1_000_000_000> = Count::new(100_000),
    }
}

impl ForkOptions {
    /// Makes the specification of the workload with these options.
    pub fn workload(self) -> WorkloadSpec {
        WorkloadSpec::of::<Fork>(self)
    }

    /// Number of 2MB regions of the heap.
    pub fn regions(&self) -> u64 {
        self.pages() / REGION_PAGES
    }

    /// Number of 4KB pages of the heap.
    pub fn pages(&self) -> u64 {
        Heap::new(self.heap).pages
    }

    /// Total number of changes to pages of the heap; at least one. A page may be changed twice.
    pub fn changes(&self) -> u64 {
        ((self.pages() as f64 * self.written.value()).round() as u64).max(1)
    }
}

pub(crate) struct Fork {
    options: ForkOptions,
    heap: Heap,
    seed: u64,
    /// Random numbers that choose the pages to read.
    random: Random,
}

impl Registered for Fork {
    const NAME: &'static str = "fork";
    const SUMMARY: &'static str =
        "a server with a large heap forks, and 4KB pages are changed (paper P, Fig. 1)";
    const EXAMPLE: &'static str = "fork:heap=256M,written=5%,case=b";
    type Options = ForkOptions;
}

impl Program for Fork {
    const SETUP_UNTIL: Option<&'static str> = Some("fork");

    fn start(&options: &ForkOptions, seed: u64, t: &mut Tracer) -> Self {
        t.leave_code_out();
        let heap = Heap::new(options.heap);
        t.event(heap.map(options.case == ForkCase::ChildProtects));
        Self { options, heap, seed, random: Random::new(seed ^ READS_SEED) }
    }

    async fn run(&mut self, t: &mut Tracer) {
        t.begin_phase("fork", &[]).await;
        t.event(ProgramEvent::Fork { child: CHILD });
        t.begin_phase("switch", &[]).await;
        let parent_writes = self.options.case == ForkCase::ParentWrites;
        t.event(switch(if parent_writes { PARENT } else { CHILD }));
        t.begin_phase("changes", &[]).await;
        let changed = self.change(t).await;
        self.read("shared", &[PARENT, CHILD], &changed, t).await;
        t.begin_phase("switch", &[]).await;
        t.event(switch(PARENT));
        t.begin_phase("exit", &[]).await;
        t.event(ProgramEvent::Exit { process: CHILD });
        self.read("alone", &[PARENT], &changed, t).await;
        self.read("mended", &[PARENT], &changed, t).await;
    }
}

impl Fork {
    /// Changes randomly chosen pages. Returns the set of changed pages.
    async fn change(&self, t: &mut Tracer) -> Changed {
        let mut random = Random::new(self.seed);
        let mut changed = Changed { bits: vec![[0; WORDS]; self.options.regions() as usize] };
        for _ in 0..self.options.changes() {
            let page = random.evenly(self.heap.pages);
            changed.add(page);
            t.compute(OTHERS, 1);
            let start = self.heap.page(page);
            if self.options.case == ForkCase::ChildProtects {
                t.event(ProgramEvent::Protect {
                    start: VirtualAddress::new(start),
                    length: PAGE_BYTES,
                    permissions: Permissions::READ,
                    accessible: true,
                });
            } else {
                t.store(start, WORD_BYTES, (), ());
            }
            t.pause().await;
        }
        changed
    }

    /// Lets the processes read random pages of the heap in turns. The first third of the reads warms up the
    /// TLBs.
    async fn read(
        &mut self,
        state: &str,
        processes: &[ProcessId],
        changed: &Changed,
        t: &mut Tracer,
    ) {
        let reads = self.options.reads.get();
        let warm_up = reads / 2;
        let all = warm_up + reads;
        let mut done = 0;
        while done < all {
            // A slice ends at the end of the warm-up.
            let end = if done < warm_up { warm_up } else { all };
            let slice = SLICE.min(end - done);
            for &process in processes {
                let reader = if process == PARENT { "parent" } else { "child" };
                let part = if done < warm_up { "warm-up" } else { reader };
                t.begin_phase(&format!("{state}-{part}"), &changed.figures()).await;
                t.event(switch(process));
                self.read_slice(slice, t).await;
            }
            done += slice;
        }
    }

    async fn read_slice(&mut self, reads: u64, t: &mut Tracer) {
        for _ in 0..reads {
            let page = self.random.evenly(self.heap.pages);
            t.compute(OTHERS, 1);
            t.load(self.heap.page(page), WORD_BYTES, (), ());
            t.pause().await;
        }
    }
}

/// Size of an access in bytes.
const WORD_BYTES: u64 = 8;

/// Set of changed pages: one bit per page, by region.
struct Changed {
    bits: Vec<[u64; WORDS]>,
}

/// Number of 64-bit words per 2MB region in the set of changed pages.
const WORDS: usize = (REGION_PAGES / 64) as usize;

impl Changed {
    fn add(&mut self, page: u64) {
        let (region, within) = (page / REGION_PAGES, page % REGION_PAGES);
        self.bits[region as usize][within as usize / 64] |= 1 << (within % 64);
    }

    fn figures(&self) -> [(&'static str, u64); 2] {
        let pages = |region: &[u64; WORDS]| -> u64 {
            region.iter().map(|word| u64::from(word.count_ones())).sum()
        };
        let regions = self.bits.iter().filter(|region| pages(region) > 0);
        let changed: u64 = self.bits.iter().map(pages).sum();
        [("pages_changed", changed), ("regions_changed", regions.count() as u64)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changed_pages_count_once_and_by_region() {
        let mut changed = Changed { bits: vec![[0; WORDS]; 3] };
        assert_eq!(changed.figures(), [("pages_changed", 0), ("regions_changed", 0)]);
        for page in [0, 1, 63, 64, 511, 1024, 64, 1024] {
            changed.add(page);
        }
        assert_eq!(changed.figures(), [("pages_changed", 6), ("regions_changed", 2)]);
    }
}
