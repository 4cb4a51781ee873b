//! One store under one scheme: filled, thinned out, read at random.

use perforate_os::KhugepagedConfig;
use perforate_sim::{Machine, MemoryState, Scheme, SimError, System, SystemOptions};
use perforate_types::{AccessKind, Counters, ProgramEvent, VirtualAddress};

use crate::allocator::HEAP_END;
use crate::program::{PAGE_BYTES, Program};
use crate::random::Random;
use crate::size_class;
use crate::store::Store;

/// Reads before those that are measured, as a share of these.
const WARMUP_SHARE: u64 = 10;
/// Memory beside what the store needs: page tables, the allocator's records, the hash table.
const SPARE_BYTES: u64 = 2 << 30;
/// Makes the choice of keys independent of the heap's random numbers.
const READS_PURPOSE: u64 = 0x7265_6164;

/// A store to be studied.
#[derive(Clone, Copy, Debug)]
pub struct Study {
    pub keys: u64,
    pub value_bytes: u64,
    /// Whether large extents are a page longer than their class.
    pub padding: bool,
    /// Keys left after deleting.
    pub live_keys: u64,
    /// Reads that are measured.
    pub reads: u64,
    /// Runs khugepaged until it finds nothing more, with this `max_ptes_none`.
    pub max_ptes_none: Option<u64>,
}

/// Figures of one run.
#[derive(Clone, Copy, Debug)]
pub struct Figures {
    pub requested_bytes: f64,
    pub mapped_bytes: f64,
    pub touched_bytes: f64,
    pub reserved_bytes: f64,
    pub table_bytes: f64,
    /// Second-level TLB misses of pages, each read of the store.
    pub misses: f64,
    /// Bitmap entries read from memory, likewise.
    pub bitmap_reads: f64,
    /// Operations that interrupted other processors, each page touched for the first time.
    pub shootdowns: f64,
    /// Cycles of the operating system, likewise.
    pub system_cycles: f64,
}

impl Figures {
    /// Memory mapped but never touched, in percent of what was touched.
    pub fn bloat_percent(&self) -> f64 {
        (self.mapped_bytes / self.touched_bytes - 1.0) * 100.0
    }
}

/// A simulated process, with a record of what it touched.
struct Process {
    system: System,
    touched: Touched,
}

/// Pages of the heap that hold something, counted downwards from the heap's end.
#[derive(Default)]
struct Touched {
    bits: Vec<u64>,
    pages: u64,
    /// Times a page without content was touched.
    first_touches: u64,
}

impl Touched {
    fn number(address: u64) -> u64 {
        (HEAP_END - 1 - address) / PAGE_BYTES
    }

    #[inline]
    fn add(&mut self, address: u64) {
        let number = Self::number(address);
        let (word, bit) = ((number / 64) as usize, 1 << (number % 64));
        if word >= self.bits.len() {
            self.bits.resize(word + 1, 0);
        }
        if self.bits[word] & bit == 0 {
            self.bits[word] |= bit;
            self.pages += 1;
            self.first_touches += 1;
        }
    }

    fn drop_range(&mut self, start: u64, length: u64) {
        for address in (start..start + length).step_by(PAGE_BYTES as usize) {
            let number = Self::number(address);
            let bit = 1 << (number % 64);
            if let Some(word) = self.bits.get_mut((number / 64) as usize)
                && *word & bit != 0
            {
                *word &= !bit;
                self.pages -= 1;
            }
        }
    }
}

impl Program for Process {
    fn event(&mut self, event: &ProgramEvent) -> Result<(), SimError> {
        if let ProgramEvent::Advise { start, length, .. } = event {
            self.touched.drop_range(start.value(), *length);
        }
        self.system.event(event)
    }

    #[inline]
    fn access(&mut self, kind: AccessKind, address: u64) -> Result<(), SimError> {
        self.touched.add(address);
        let translated = self.system.translate(kind, VirtualAddress::new(address))?;
        assert!(translated.is_some(), "the store stays inside its heap");
        Ok(())
    }
}

impl Study {
    /// Runs it.
    ///
    /// # Errors
    /// An impossible machine, or out of memory.
    pub fn run(
        &self,
        machine: &Machine,
        scheme: &'static Scheme,
        seed: u64,
    ) -> Result<Figures, SimError> {
        self.run_with(machine, scheme, seed, false)
    }

    /// Runs it, with every translation compared with the oracle if `check`.
    pub fn run_with(
        &self,
        machine: &Machine,
        scheme: &'static Scheme,
        seed: u64,
        check: bool,
    ) -> Result<Figures, SimError> {
        let memory = MemoryState::parse(Some(&self.memory_bytes().to_string()), None, None)?;
        let options = SystemOptions { check, implicit_maps: false, counts_only: true };
        let system = System::new(machine, scheme, &memory, seed, options)?;
        let mut process = Process { system, touched: Touched::default() };
        let mut store = Store::new(&mut process, self.value_bytes, self.padding, seed)?;
        for _ in 0..self.keys {
            store.insert(&mut process)?;
        }
        let first_touches = process.touched.first_touches as f64;
        let work = process.system.work();
        let cycles = machine.operating_system.cycles(&work, machine.core.frequency_ghz);
        let mut random = Random::new(seed ^ READS_PURPOSE);
        if self.live_keys < self.keys {
            store.delete_until(&mut process, self.live_keys, &mut random)?;
        }
        if let Some(max_ptes_none) = self.max_ptes_none {
            promote(&mut process.system, max_ptes_none)?;
        }
        let (misses, bitmap_reads) = self.read(&mut process, &store, &mut random)?;
        let counters = counters(&process.system);
        let get = |name| counters.get(name).expect("a counter");
        Ok(Figures {
            requested_bytes: store.requested_bytes() as f64,
            mapped_bytes: get("mapped_bytes"),
            touched_bytes: (process.touched.pages * PAGE_BYTES) as f64,
            reserved_bytes: get("reserved_bytes"),
            table_bytes: get("page_table_bytes"),
            misses,
            bitmap_reads,
            shootdowns: work.shootdown_batches as f64 / first_touches,
            system_cycles: cycles.total() as f64 / first_touches,
        })
    }

    /// TLB misses and bitmap reads of each measured read.
    fn read(
        &self,
        process: &mut Process,
        store: &Store,
        random: &mut Random,
    ) -> Result<(f64, f64), SimError> {
        for _ in 0..self.reads / WARMUP_SHARE {
            store.read(process, random)?;
        }
        process.system.start_measuring();
        for _ in 0..self.reads {
            store.read(process, random)?;
        }
        let counters = counters(&process.system);
        let each = |name| counters.get(name).expect("a counter") / self.reads.max(1) as f64;
        Ok((each("l2_tlb_misses"), each("bitmap_misses")))
    }

    /// Enough for every scheme.
    fn memory_bytes(&self) -> u64 {
        let largest = size_class::round_up(self.value_bytes + 10) + 2 * PAGE_BYTES;
        (self.keys * largest + SPARE_BYTES).next_multiple_of(2 << 20)
    }
}

/// Lets khugepaged scan everything until a scan changes nothing.
fn promote(system: &mut System, max_ptes_none: u64) -> Result<(), SimError> {
    let config =
        KhugepagedConfig { pages_to_scan: u64::MAX, max_ptes_none, ..KhugepagedConfig::default() };
    system.change(|kernel, _| kernel.set_khugepaged(config))?;
    loop {
        let pass = system.change(|kernel, updates| Ok(kernel.khugepaged_pass(updates)))?;
        if pass.regions_collapsed + pass.regions_perforated == 0 {
            return Ok(());
        }
    }
}

fn counters(system: &System) -> Counters {
    let mut counters = Counters::default();
    system.record(1, &mut counters);
    counters
}
