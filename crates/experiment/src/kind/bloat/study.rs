//! One store under one scheme: filled, thinned out, read at random.

use perforate_os::{KhugepagedConfig, Random};
use perforate_sim::{Machine, MemoryState, Scheme, SimError};

use super::super::Measurement;
use super::super::timed_system::{TimedSystem, counter};
use super::process::Process;
use super::program::PAGE_BYTES;
use super::size_class;
use super::store::Store;
use super::touched::Touched;

/// Reads before those that are counted, and before those that are timed, as a share of these.
const WARMUP_SHARE: u64 = 10;
/// Memory beside what the store needs: page tables, the allocator's records, the hash table.
const SPARE_BYTES: u64 = 2 << 30;
/// Makes the choice of keys independent of the heap's random numbers.
const READS_PURPOSE: u64 = 0x7265_6164;
/// Of all work, what filling the store is, roughly.
const FILLING_SHARE: f64 = 0.8;

/// A store to be studied.
#[derive(Clone, Copy, Debug)]
pub struct Study {
    pub keys: u64,
    pub value_bytes: u64,
    /// Whether large extents are a page longer than their class.
    pub padding: bool,
    /// Keys left after deleting.
    pub live_keys: u64,
    /// Runs khugepaged after deleting until it finds nothing more.
    pub khugepaged: Option<KhugepagedConfig>,
    /// Reads that are counted.
    pub reads: u64,
    /// Reads that are timed after them.
    pub timed_reads: u64,
    /// Whether every translation is compared with the oracle.
    pub check: bool,
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
        seed: u64,
        progress: &mut dyn FnMut(f64),
    ) -> Result<Measurement, SimError> {
        let memory = MemoryState::of(self.memory_bytes());
        let options = (self.timed_reads > 0, self.check);
        let hardware = TimedSystem::new(machine, scheme, &memory, seed, options)?;
        let mut process = Process { hardware, touched: Touched::default() };
        let mut figures = Measurement::new();
        let mut store = self.fill(&mut process, seed, &mut figures, progress)?;
        let mut random = Random::new(seed, READS_PURPOSE, 0);
        if self.live_keys < self.keys {
            store.delete_until(&mut process, self.live_keys, &mut random)?;
        }
        if let Some(knobs) = self.khugepaged {
            process.hardware.system.start_measuring();
            promote(&mut process.hardware, knobs)?;
            let cycles = process.hardware.system_cycles() as f64;
            figures.insert("promoting_operating_system_cycles".into(), cycles);
        }
        self.note_memory(&process, &store, &mut figures);
        self.count_reads(&mut process, &store, &mut random, &mut figures)?;
        self.time_reads(&mut process, &store, machine, &mut random, &mut figures)?;
        progress(1.0);
        Ok(figures)
    }

    /// How long it takes, in simulated instructions.
    pub fn cost(&self) -> f64 {
        let pages = (self.value_bytes / PAGE_BYTES + 1) as f64;
        let timed = self.timed_reads as f64 * self.value_bytes as f64 / 16.0;
        pages * (5.0 * self.keys as f64 + 2.0 * self.reads as f64) + timed
    }

    fn fill(
        &self,
        process: &mut Process,
        seed: u64,
        figures: &mut Measurement,
        progress: &mut dyn FnMut(f64),
    ) -> Result<Store, SimError> {
        let mut store = Store::new(process, self.value_bytes, self.padding, seed)?;
        for key in 0..self.keys {
            store.insert(process)?;
            if key % 16_384 == 0 {
                progress(FILLING_SHARE * key as f64 / self.keys as f64);
            }
        }
        let mut note = |name: &str, value: u64| figures.insert(name.into(), value as f64);
        note("first_touches", process.touched.first_touches);
        note("filling_shootdown_batches", process.hardware.system.work().shootdown_batches);
        note("filling_operating_system_cycles", process.hardware.system_cycles());
        Ok(store)
    }

    fn note_memory(&self, process: &Process, store: &Store, figures: &mut Measurement) {
        let counters = process.hardware.counters();
        for name in ["mapped_bytes", "reserved_bytes", "page_table_bytes"] {
            figures.insert(name.into(), counter(&counters, name));
        }
        let mut note = |name: &str, value: u64| figures.insert(name.into(), value as f64);
        note("live_keys", store.live_keys());
        note("requested_bytes", store.requested_bytes());
        note("touched_bytes", process.touched.pages * PAGE_BYTES);
    }

    fn count_reads(
        &self,
        process: &mut Process,
        store: &Store,
        random: &mut Random,
        figures: &mut Measurement,
    ) -> Result<(), SimError> {
        for _ in 0..self.reads / WARMUP_SHARE {
            store.read(process, random)?;
        }
        process.hardware.start_measuring();
        for _ in 0..self.reads {
            store.read(process, random)?;
        }
        let counters = process.hardware.counters();
        for (name, source) in [
            ("l2_tlb_misses", "l2_tlb_misses"),
            ("walks", "walks"),
            ("bitmap_reads", "bitmap_misses"),
        ] {
            figures.insert(name.into(), counter(&counters, source));
        }
        figures.insert("reads".into(), self.reads as f64);
        Ok(())
    }

    fn time_reads(
        &self,
        process: &mut Process,
        store: &Store,
        machine: &Machine,
        random: &mut Random,
        figures: &mut Measurement,
    ) -> Result<(), SimError> {
        if self.timed_reads == 0 {
            return Ok(());
        }
        process.hardware.start_clock()?;
        for _ in 0..self.timed_reads.div_ceil(WARMUP_SHARE) {
            store.read(process, random)?;
        }
        process.hardware.start_measuring();
        for _ in 0..self.timed_reads {
            store.read(process, random)?;
        }
        let system_cycles = process.hardware.system_cycles() as f64;
        let time = process.hardware.stop_clock().expect("it was started");
        let reads = self.timed_reads as f64;
        let cycles = time.cycles as f64 / reads;
        for (name, value) in [
            ("instructions_per_request", time.instructions as f64 / reads),
            ("cycles_per_request", cycles),
            ("operating_system_cycles_per_request", system_cycles / reads),
            ("requests_per_second", machine.core.frequency_ghz * 1e9 / cycles),
        ] {
            figures.insert(name.into(), value);
        }
        Ok(())
    }

    /// Enough for every scheme.
    fn memory_bytes(&self) -> u64 {
        let largest = size_class::round_up(self.value_bytes + 10) + 2 * PAGE_BYTES;
        (self.keys * largest + SPARE_BYTES).next_multiple_of(2 << 20)
    }
}

/// Lets khugepaged scan everything until a scan changes nothing.
fn promote(hardware: &mut TimedSystem, knobs: KhugepagedConfig) -> Result<(), SimError> {
    let system = &mut hardware.system;
    system.change(|kernel, _| {
        kernel.set_khugepaged(knobs);
        Ok(())
    })?;
    loop {
        let pass = system.change(|kernel, updates| Ok(kernel.khugepaged_pass(updates)))?;
        if pass.regions_collapsed + pass.regions_perforated == 0 {
            return Ok(());
        }
    }
}
