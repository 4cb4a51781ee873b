//! One scheme and seed: two heaps are read, merged and read again.

use perforate_config::Count;
use perforate_os::{ContentDistribution, KsmConfig};
use perforate_sim::{Machine, MemoryState, PhasedRun, Scheme, SimError, System};
use perforate_workloads::ReadersOptions;

use super::super::Measurement;
use super::super::case_study::{PAGE_BYTES, counter, counters, system_cycles};

/// What is done.
pub struct Study {
    pub machine: Machine,
    pub memory: MemoryState,
    pub contents: ContentDistribution,
    pub readers: ReadersOptions,
    pub timed: bool,
    pub check: bool,
    pub seed: u64,
}

impl Study {
    /// Runs the study.
    ///
    /// # Errors
    /// An impossible machine, out of memory, or a disagreement with the oracle.
    pub fn run(
        &self,
        scheme: &'static Scheme,
        progress: &mut dyn FnMut(f64),
    ) -> Result<Measurement, SimError> {
        let (place, options) = ((&self.machine, &self.memory), (self.timed, self.check));
        let mut run = PhasedRun::new(place, scheme, &self.readers.workload(), self.seed, options)?;
        run.simulation.system_mut().change(|kernel| {
            kernel.set_content_distribution(self.contents)?;
            let pages_to_scan = Count::new(u64::MAX);
            kernel.set_ksm(KsmConfig { pages_to_scan, ..KsmConfig::default() });
            Ok(())
        })?;
        run.run_until("uniform-warm-up")?;
        progress(0.2);
        let mut figures = Measurement::new();
        let heaps_bytes = self.readers.processes.get() * self.readers.pages() * PAGE_BYTES;
        figures.insert("memory_bytes".into(), heaps_bytes as f64);
        figures.insert("reads".into(), self.readers.reads.get() as f64);
        note_memory(run.simulation.system(), "before", &mut figures);
        self.count_round(&mut run, "before", &mut figures)?;
        progress(0.45);
        self.merge(&mut run, &mut figures)?;
        progress(0.75);
        note_memory(run.simulation.system(), "after", &mut figures);
        self.count_round(&mut run, "after", &mut figures)?;
        progress(1.0);
        Ok(figures)
    }

    /// Cost of the study in simulated instructions.
    pub fn cost(&self) -> f64 {
        let reads = 4.0 * (self.readers.reads.get() + self.readers.warmup.get()) as f64;
        reads * if self.timed { 5.0 } else { 1.0 } + 20.0 * self.readers.pages() as f64
    }

    /// Merges, and notes what that did.
    fn merge(&self, run: &mut PhasedRun, figures: &mut Measurement) -> Result<(), SimError> {
        run.simulation.reset_counts();
        merge_all(run.simulation.system_mut())?;
        let system = run.simulation.system();
        let counters = counters(system);
        for (name, value) in [
            ("merging_operating_system_cycles", system_cycles(&self.machine, system) as f64),
            ("large_pages_broken", counter(&counters, "ksm_large_pages_split")),
            ("pages_merged", counter(&counters, "ksm_pages_merged")),
        ] {
            figures.insert(name.into(), value);
        }
        Ok(())
    }

    /// Runs the round that begins here: both patterns, each with empty caches at first. The operating
    /// system, which only runs one process after the other, takes none of the cycles.
    fn count_round(
        &self,
        run: &mut PhasedRun,
        when: &str,
        figures: &mut Measurement,
    ) -> Result<(), SimError> {
        for pattern in ["uniform", "skewed"] {
            if self.timed {
                run.simulation.start_clock()?;
            }
            run.run_until(pattern)?;
            run.simulation.reset_counts();
            run.next_phase()?;
            let cycles = run.simulation.cycles();
            run.simulation.stop_clock();
            let mut note = |figure: &str, value: f64| {
                figures.insert(format!("{pattern}_{figure}_{when}"), value);
            };
            let counters = counters(run.simulation.system());
            for figure in ["walks", "l2_tlb_misses"] {
                note(figure, counter(&counters, figure));
            }
            note("bitmap_reads", counter(&counters, "bitmap_misses"));
            if let Some(cycles) = cycles {
                note("cycles", cycles as f64);
            }
        }
        Ok(())
    }
}

fn note_memory(system: &System, when: &str, figures: &mut Measurement) {
    let counters = counters(system);
    for name in ["free_bytes", "page_table_bytes", "large_pages", "perforated_pages"] {
        figures.insert(format!("{name}_{when}"), counter(&counters, name));
    }
}

/// Scans all memory until a scan after the first finds nothing.
fn merge_all(system: &mut System) -> Result<(), SimError> {
    let mut is_first = true;
    loop {
        let pass = system.change(|kernel| Ok(kernel.ksm_pass()))?;
        if pass.pages_merged == 0 && !is_first {
            return Ok(());
        }
        is_first = false;
    }
}
