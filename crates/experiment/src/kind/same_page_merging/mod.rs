//! Savings and costs of same-page merging (P §III.A, P-C4) under conventional and perforated large
//! pages. Two heaps are read, merged, and read again.
//!
//! The paper runs mcf in two virtual machines on real hardware, and does not describe the contents
//! of pages. The contents are our choice, and so are the possible savings. The effects on large
//! pages, TLB misses and time follow from the model. Here the two machines are two processes, so
//! there is no nested translation.

#[cfg(test)]
mod tests;

use perforate_config::{BoundedSize, Changes, ConfigError, Count, Share, Size};
use perforate_os::ContentDistribution;
use perforate_sim::{
    Machine, MemoryOptions, MemorySnapshot, MemoryState, PhasedRun, Scheme, SimError, SizeOptions,
    System,
};
use perforate_workloads::ReadersOptions;
use schemars::JsonSchema;
use serde::Deserialize;

use super::case_study::{
    CONTENTS, HEAP_BYTES, PAGE_BYTES, counter, counters, merge, named, scheme, system_cycles,
    unlimited_ksm,
};
use super::settings::{changed, wrong};
use super::{Measurement, Settings, Study, each};

#[derive(Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct MergingSettings {
    /// Options of the workload `readers`. Default of heap here: 2580M, as the paper's two machines
    /// have 5.16 GB together.
    readers: Option<Changes<ReadersOptions>>,
    /// Physical memory.
    memory: Size,
    /// Contents of the pages, without distinct and seed.
    contents: ContentDistribution,
    /// Pages that have each content of the pool, on average.
    takers: Count<1, 1_000_000>,
    /// Time the reads.
    timing: bool,
    /// Machine, by name or file.
    machine: String,
    /// Compare every translation with the oracle.
    check: bool,
}

impl Default for MergingSettings {
    fn default() -> Self {
        Self {
            readers: None,
            memory: Size(8 << 30),
            contents: CONTENTS,
            takers: Count::new(2),
            timing: true,
            machine: Machine::DEFAULT.into(),
            check: false,
        }
    }
}

/// Memory, large pages, TLB misses and time of two processes whose equal pages are merged. Subjects are
/// native schemes.
pub struct SamePageMerging {
    machine: Machine,
    memory: MemoryState,
    contents: ContentDistribution,
    readers: ReadersOptions,
    is_timed: bool,
    check: bool,
}

impl Study for SamePageMerging {
    const NAME: &'static str = "same-page-merging";
    type Settings = MergingSettings;

    fn read(settings: &Settings) -> Result<Self, String> {
        let own: MergingSettings = settings.read()?;
        let readers =
            ReadersOptions { heap: BoundedSize::new(HEAP_BYTES), ..ReadersOptions::default() };
        let readers = changed(own.readers, readers, "readers")?;
        let size = SizeOptions { memory: Some(own.memory), ..SizeOptions::default() };
        let memory = MemoryOptions { size, ..MemoryOptions::default() };
        let pages = readers.processes.get() * readers.pages();
        Ok(Self {
            machine: settings.machine(&own.machine)?,
            memory: memory.resolve(&MemorySnapshot::load).map_err(|error| error.to_string())?,
            contents: contents(own.contents, pages, own.takers.get())?,
            readers,
            is_timed: own.timing,
            check: own.check,
        })
    }

    fn cost(&self) -> f64 {
        let reads = 4.0 * (self.readers.reads.get() + self.readers.warmup.get()) as f64;
        reads * if self.is_timed { 5.0 } else { 1.0 } + 20.0 * self.readers.pages() as f64
    }

    fn measure_all(
        &self,
        subjects: &[String],
        seed: u64,
        progress: &mut dyn FnMut(f64),
    ) -> Result<Vec<Measurement>, String> {
        each(subjects, progress, |subject, progress| {
            self.run(scheme(subject)?, seed, progress).map_err(|error| error.to_string())
        })
    }
}

impl SamePageMerging {
    fn run(
        &self,
        scheme: &'static Scheme,
        seed: u64,
        progress: &mut dyn FnMut(f64),
    ) -> Result<Measurement, SimError> {
        let (place, options) = ((&self.machine, &self.memory), (self.is_timed, self.check));
        let mut run = PhasedRun::new(place, scheme, &self.readers.workload(), seed, options)?;
        run.simulation.system_mut().change(|kernel| {
            kernel.set_content_distribution(ContentDistribution { seed, ..self.contents })?;
            kernel.set_ksm(unlimited_ksm());
            Ok(())
        })?;
        run.run_until("uniform-warm-up")?;
        progress(0.2);
        let heaps_bytes = self.readers.processes.get() * self.readers.pages() * PAGE_BYTES;
        let mut figures = named([
            ("memory_bytes", heaps_bytes as f64),
            ("reads", self.readers.reads.get() as f64),
        ]);
        note_memory(run.simulation.system(), "before", &mut figures);
        self.count_round(&mut run, "before", &mut figures)?;
        progress(0.45);
        run.simulation.reset_counts();
        let system = run.simulation.system_mut();
        merge(|| system.change(|kernel| Ok(kernel.ksm_pass())))?;
        let (cycles, merging) = (system_cycles(&self.machine, system), counters(system));
        figures.extend(named([
            ("merging_operating_system_cycles", cycles as f64),
            ("large_pages_broken", counter(&merging, "ksm_large_pages_split")),
            ("pages_merged", counter(&merging, "ksm_pages_merged")),
        ]));
        progress(0.75);
        note_memory(run.simulation.system(), "after", &mut figures);
        self.count_round(&mut run, "after", &mut figures)?;
        progress(1.0);
        Ok(figures)
    }

    /// Runs the next round of reads, first uniform, then skewed, each with cold caches, and records TLB
    /// misses, walks and cycles. Cycles exclude the operating system, which only switches between the
    /// processes.
    fn count_round(
        &self,
        run: &mut PhasedRun,
        when: &str,
        figures: &mut Measurement,
    ) -> Result<(), SimError> {
        for pattern in ["uniform", "skewed"] {
            if self.is_timed {
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

/// Returns the distribution of page contents. The number of distinct contents is chosen so that each occurs
/// in `takers` pages on average.
fn contents(
    draft: ContentDistribution,
    pages: u64,
    takers: u64,
) -> Result<ContentDistribution, String> {
    let of_contents = |error: ConfigError| wrong(error.under("contents"));
    if (draft.distinct, draft.seed) != (0, 0) {
        let problem = "the pool follows from takers and the seed from the run";
        return Err(of_contents(ConfigError::new(problem)));
    }
    let distinct = match draft.duplicate {
        Share::NONE => 0,
        share => ((share.value() * pages as f64) as u64 / takers).max(1),
    };
    let contents = ContentDistribution { distinct, ..draft };
    contents.check().map(|()| contents).map_err(of_contents)
}
