//! Memory that large pages waste in a key-value store, and that perforated pages save (P Table I,
//! §III.B; P-C2 and P-C3).
//!
//! The program is the workload `store`. Its parameters are not fitted to the paper's results. The
//! paper only describes Redis with 4 million keys, objects of 16KB and a million random reads.

#[cfg(test)]
mod tests;

use perforate_config::{Changes, Count};
use perforate_os::KhugepagedConfig;
use perforate_sim::{Machine, MemoryState, PhasedRun, Scheme, SimError};
use perforate_workloads::StoreOptions;
use schemars::JsonSchema;
use serde::Deserialize;

use super::case_study::{counter, counters, named, promote, scheme, system_cycles};
use super::settings::changed;
use super::{Measurement, Settings, Study};

#[derive(Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct BloatSettings {
    /// Options of the workload `store`. Defaults here: page-reads 200k, reads 5k.
    store: Option<Changes<StoreOptions>>,
    /// Knobs with which khugepaged runs after deleting until it finds nothing more to do.
    khugepaged: Option<KhugepagedConfig>,
    /// Machine, by name or file.
    machine: String,
    /// Compare every translation with the oracle.
    check: bool,
}

impl Default for BloatSettings {
    fn default() -> Self {
        Self { store: None, khugepaged: None, machine: Machine::DEFAULT.into(), check: false }
    }
}

/// Memory bloat, TLB misses and read latency of a key-value store. Subjects are native schemes.
pub struct Bloat {
    machine: Machine,
    store: StoreOptions,
    khugepaged: Option<KhugepagedConfig>,
    check: bool,
}

impl Study for Bloat {
    const NAME: &'static str = "bloat";
    type Settings = BloatSettings;

    fn read(settings: &Settings) -> Result<Self, String> {
        let own: BloatSettings = settings.read()?;
        let (page_reads, reads) = (Count::new(200_000), Count::new(5_000));
        let store = StoreOptions { page_reads, reads, ..StoreOptions::default() };
        let store = changed(own.store, store, "store")?;
        if store.page_reads.get() == 0 {
            return Err("setting store: page-reads are what is counted; take at least 1".into());
        }
        let machine = settings.machine(&own.machine)?;
        Ok(Self { machine, store, khugepaged: own.khugepaged, check: own.check })
    }

    fn cost(&self) -> f64 {
        let store = &self.store;
        let value_bytes = store.value.bytes();
        let [keys, page_reads, reads] =
            [store.keys.get(), store.page_reads.get(), store.reads.get()].map(|count| count as f64);
        let pages = (value_bytes / 4096 + 1) as f64;
        pages * (20.0 * keys + 8.0 * page_reads) + reads * value_bytes as f64 / 16.0
    }

    fn measure(&self, subject: &str, seed: u64) -> Result<Measurement, String> {
        self.run(scheme(subject)?, seed).map_err(|error| error.to_string())
    }
}

impl Bloat {
    /// Runs the workload `store` under one scheme: fills the store, deletes objects, and reads at random.
    fn run(&self, scheme: &'static Scheme, seed: u64) -> Result<Measurement, SimError> {
        let memory = MemoryState::of(self.store.memory_bytes());
        let options = (self.store.reads.get() > 0, self.check);
        let place = (&self.machine, &memory);
        let mut run = PhasedRun::new(place, scheme, &self.store.workload(), seed, options)?;
        let mut figures = Measurement::new();
        self.fill(&mut run, &mut figures)?;
        let thinned_out = run.run_until("page-reads-warm-up")?;
        if let Some(knobs) = self.khugepaged {
            run.simulation.reset_counts();
            promote(run.simulation.system_mut(), knobs)?;
            let cycles = system_cycles(&self.machine, run.simulation.system());
            figures.insert("promoting_operating_system_cycles".into(), cycles as f64);
        }
        for name in ["live_keys", "requested_bytes", "touched_bytes"] {
            figures.insert(name.into(), thinned_out.figures[name] as f64);
        }
        let memory = counters(run.simulation.system());
        for name in ["mapped_bytes", "reserved_bytes", "page_table_bytes"] {
            figures.insert(name.into(), counter(&memory, name));
        }
        self.count_reads(&mut run, &mut figures)?;
        self.time_reads(&mut run, &mut figures)?;
        Ok(figures)
    }

    fn fill(&self, run: &mut PhasedRun, figures: &mut Measurement) -> Result<(), SimError> {
        let filled = run.run_until("deletions")?;
        let system = run.simulation.system();
        let counts = [
            ("first_touches", filled.figures["first_touches"]),
            ("filling_shootdown_batches", system.work().shootdown_batches),
            ("filling_operating_system_cycles", system_cycles(&self.machine, system)),
        ];
        figures.extend(named(counts.map(|(name, count)| (name, count as f64))));
        Ok(())
    }

    fn count_reads(&self, run: &mut PhasedRun, figures: &mut Measurement) -> Result<(), SimError> {
        run.run_until("page-reads")?;
        run.simulation.reset_counts();
        run.run_until("reads-warm-up")?;
        let counters = counters(run.simulation.system());
        for (name, source) in [
            ("l2_tlb_misses", "l2_tlb_misses"),
            ("walks", "walks"),
            ("bitmap_reads", "bitmap_misses"),
        ] {
            figures.insert(name.into(), counter(&counters, source));
        }
        figures.insert("reads".into(), self.store.page_reads.get() as f64);
        Ok(())
    }

    fn time_reads(&self, run: &mut PhasedRun, figures: &mut Measurement) -> Result<(), SimError> {
        if self.store.reads.get() == 0 {
            return Ok(());
        }
        run.simulation.start_clock()?;
        run.run_until("reads")?;
        run.simulation.reset_counts();
        let before = run.simulation.instructions();
        run.next_phase()?;
        let reads = self.store.reads.get() as f64;
        let instructions = (run.simulation.instructions() - before) as f64;
        let cycles = run.simulation.cycles().expect("the clock runs") as f64 / reads;
        let system_cycles = system_cycles(&self.machine, run.simulation.system()) as f64;
        let values = [
            ("instructions_per_request", instructions / reads),
            ("cycles_per_request", cycles),
            ("operating_system_cycles_per_request", system_cycles / reads),
            ("requests_per_second", self.machine.core.frequency_ghz * 1e9 / cycles),
        ];
        figures.extend(named(values));
        Ok(())
    }
}
