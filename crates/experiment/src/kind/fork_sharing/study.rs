//! One run: a server with a big heap forks, somebody changes sub-pages, the child ends, and
//! khugepaged does what it can.

use std::collections::BTreeSet;

use perforate_config::{Changes, Count};
use perforate_os::{KhugepagedConfig, PerforationOptions, Work};
use perforate_sim::{Machine, MemoryState, PolicyOptions, Scheme, SimError, System, SystemOptions};
use perforate_types::{AccessKind, Counters, Permissions, ProcessId, ProgramEvent, VirtualAddress};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::kind::case_study::{PAGE_BYTES, REGION_PAGES, Random, map_populated, switch};

const HEAP_START: u64 = 0x7f00_0000_0000;
/// The server; process 0 is the first.
const PARENT: u16 = 0;
const CHILD: u16 = 1;
/// Reads of one process before the other runs.
const SLICE: u64 = 50_000;
/// Keeps the reads apart from the writes of the same seed.
const READS_SEED: u64 = 0x5265_6164;

/// Who changes sub-pages, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub enum Case {
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

/// What one run is made of.
pub struct Setup<'a> {
    /// Hardware and costs.
    pub machine: &'a Machine,
    /// Who changes what.
    pub case: Case,
    /// 2MB regions of the heap.
    pub regions: u64,
    /// Writes (or changes of permission) in all, each to any page of the heap.
    pub changes: u64,
    /// Reads counted of each process; half as many come first to warm the TLBs up.
    pub reads: u64,
    /// Options of the policy for perforated pages.
    pub perforation: Option<&'a Changes<PerforationOptions>>,
    /// Whether the oracle checks every translation.
    pub check: bool,
}

/// Work of a phase and what it takes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Phase {
    /// What the kernel did.
    pub work: Work,
    /// What it takes with the machine file's costs, in cycles.
    pub cycles: u64,
}

/// What is mapped at a moment, by both processes together.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Moment {
    /// Ordinary 2MB pages.
    pub large_pages: u64,
    /// Perforated pages.
    pub perforated_pages: u64,
    /// 4KB pages.
    pub base_pages: u64,
    /// Allocated holes.
    pub holes: u64,
    /// Page-table nodes, shadow nodes included, in bytes.
    pub table_bytes: u64,
    /// Memory taken since boot, heap apart, in bytes: tables and copies.
    pub beyond_heap_bytes: u64,
}

/// Translation of one process's reads.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Reads {
    /// Look-ups of the second-level TLB that found neither the page nor a perforated page around
    /// it, per 1000 reads.
    pub misses_per_1000: f64,
    /// Translations that read page tables, walks to holes included, per 1000 reads.
    pub walks_per_1000: f64,
}

/// Figures of one run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Figures {
    /// Different pages changed.
    pub pages_changed: u64,
    /// Different 2MB regions they lie in.
    pub regions_changed: u64,
    /// Fork itself.
    pub fork: Phase,
    /// The changes.
    pub changes: Phase,
    /// After them, both processes alive.
    pub shared: Moment,
    /// The parent's reads then.
    pub parent: Reads,
    /// The child's.
    pub child: Reads,
    /// The child's end.
    pub exit: Phase,
    /// After it.
    pub alone: Moment,
    /// The parent's reads then.
    pub parent_alone: Reads,
    /// Passes of khugepaged until one changes nothing.
    pub khugepaged: Phase,
    /// After them.
    pub mended: Moment,
    /// The parent's reads then.
    pub parent_mended: Reads,
}

/// A system on its way through the study.
struct Study<'a> {
    setup: &'a Setup<'a>,
    system: System,
    random: Random,
    free_at_boot: u64,
}

/// Runs the study once.
///
/// # Errors
/// As [`System`]'s.
pub fn run(setup: &Setup<'_>, scheme: &'static Scheme, seed: u64) -> Result<Figures, SimError> {
    let heap_bytes = setup.regions * REGION_PAGES * PAGE_BYTES;
    // Room for the heap, all of it copied, a second copy by khugepaged, and tables.
    let memory_mb = 4 * (heap_bytes >> 20) + 64;
    let perforation = setup.perforation.cloned();
    let memory = MemoryState::of(memory_mb << 20);
    let policies = PolicyOptions { perforation, ..PolicyOptions::default() };
    let memory = MemoryState { policies, ..memory };
    let options = SystemOptions { check: setup.check, implicit_maps: false, counts_only: true };
    let system = System::new(setup.machine, scheme, &memory, seed, options)?;
    let free_at_boot = counter(&system, "free_bytes");
    let random = Random(seed ^ READS_SEED);
    let mut study = Study { setup, system, random, free_at_boot };
    let shared = setup.case == Case::ChildProtects;
    study.system.event(&map_populated(HEAP_START, heap_bytes, shared))?;
    study.figures(seed)
}

impl Study<'_> {
    fn figures(&mut self, seed: u64) -> Result<Figures, SimError> {
        let mut figures = Figures {
            fork: self.phase(|study| {
                study.system.event(&ProgramEvent::Fork { child: ProcessId(CHILD) })
            })?,
            ..Figures::default()
        };
        let mut random = Random(seed);
        let pages = self.setup.regions * REGION_PAGES;
        let changes: Vec<u64> = (0..self.setup.changes).map(|_| random.below(pages)).collect();
        let changed: BTreeSet<u64> = changes.iter().copied().collect();
        let regions: BTreeSet<u64> = changed.iter().map(|page| page / REGION_PAGES).collect();
        figures.pages_changed = changed.len() as u64;
        figures.regions_changed = regions.len() as u64;
        let writer = if self.setup.case == Case::ParentWrites { PARENT } else { CHILD };
        self.system.event(&switch(writer))?;
        figures.changes = self.phase(|study| study.change(&changes))?;
        figures.shared = self.moment();
        [figures.parent, figures.child] = self.read([PARENT, CHILD])?;
        self.system.event(&switch(PARENT))?;
        figures.exit = self
            .phase(|study| study.system.event(&ProgramEvent::Exit { process: ProcessId(CHILD) }))?;
        figures.alone = self.moment();
        [figures.parent_alone] = self.read([PARENT])?;
        figures.khugepaged = self.phase(Self::mend)?;
        figures.mended = self.moment();
        [figures.parent_mended] = self.read([PARENT])?;
        Ok(figures)
    }

    fn change(&mut self, pages: &[u64]) -> Result<(), SimError> {
        for &page in pages {
            let start = address(page);
            if self.setup.case == Case::ChildProtects {
                self.system.event(&ProgramEvent::Protect {
                    start,
                    length: PAGE_BYTES,
                    permissions: Permissions::READ,
                    accessible: true,
                })?;
            } else {
                self.system.translate(AccessKind::Write, start)?;
            }
        }
        Ok(())
    }

    /// khugepaged, unhurried, until a pass changes nothing.
    fn mend(&mut self) -> Result<(), SimError> {
        let config =
            KhugepagedConfig { pages_to_scan: Count::new(u64::MAX), ..KhugepagedConfig::default() };
        self.system.change(|kernel, _| {
            kernel.set_khugepaged(config);
            Ok(())
        })?;
        loop {
            let patched = self.system.kernel().work().subpages_patched;
            let pass = self.system.change(|kernel, updates| Ok(kernel.khugepaged_pass(updates)))?;
            let promoted = pass.regions_collapsed + pass.regions_perforated;
            if promoted == 0 && self.system.kernel().work().subpages_patched == patched {
                return Ok(());
            }
        }
    }

    /// The processes read any page of the heap in turns; the first third of the reads warms the
    /// TLBs up and is not counted.
    fn read<const N: usize>(&mut self, processes: [u16; N]) -> Result<[Reads; N], SimError> {
        let pages = self.setup.regions * REGION_PAGES;
        let mut counts = [(0, 0); N];
        let (warm_up, all) = (self.setup.reads / 2, self.setup.reads / 2 + self.setup.reads);
        let mut done = 0;
        while done < all {
            // A slice ends where the warm-up does.
            let end = if done < warm_up { warm_up } else { all };
            let slice = SLICE.min(end - done);
            for (process, counts) in processes.iter().zip(&mut counts) {
                self.system.event(&switch(*process))?;
                let before = *self.system.mmu().counters();
                for _ in 0..slice {
                    let page = self.random.below(pages);
                    self.system.translate(AccessKind::Read, address(page))?;
                }
                let after = self.system.mmu().counters();
                if done >= warm_up {
                    counts.0 += after.l2_misses - before.l2_misses;
                    counts.1 += after.walks - before.walks;
                }
            }
            done += slice;
        }
        let per_1000 = |count: u64| count as f64 * 1000.0 / self.setup.reads as f64;
        Ok(counts.map(|(misses, walks)| Reads {
            misses_per_1000: per_1000(misses),
            walks_per_1000: per_1000(walks),
        }))
    }

    fn phase(
        &mut self,
        act: impl FnOnce(&mut Self) -> Result<(), SimError>,
    ) -> Result<Phase, SimError> {
        let before = self.system.kernel().work();
        act(self)?;
        let work = self.system.kernel().work() - before;
        let machine = self.setup.machine;
        let cycles = machine.operating_system.cycles(&work, machine.core.frequency_ghz);
        Ok(Phase { work, cycles: cycles.total() })
    }

    fn moment(&self) -> Moment {
        let count = |name| counter(&self.system, name);
        let heap_bytes = self.setup.regions * REGION_PAGES * PAGE_BYTES;
        Moment {
            large_pages: count("large_pages"),
            perforated_pages: count("perforated_pages"),
            base_pages: count("base_pages"),
            holes: count("holes_allocated"),
            table_bytes: count("page_table_bytes"),
            beyond_heap_bytes: self.free_at_boot - count("free_bytes") - heap_bytes,
        }
    }
}

fn address(page: u64) -> VirtualAddress {
    VirtualAddress::new(HEAP_START + page * PAGE_BYTES)
}

fn counter(system: &System, name: &str) -> u64 {
    let mut counters = Counters::default();
    system.kernel().counters(&mut counters);
    counters.get(name).expect("a counter of the kernel") as u64
}
