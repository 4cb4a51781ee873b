//! What same-page merging saves and costs (P §III.A, P-C4), under conventional large pages and
//! under perforated ones.
//!
//! The paper ran mcf in two virtual machines on real hardware. It does not say what their pages
//! held, so contents are a choice of ours, and with them what merging finds; what follows from the
//! model is what becomes of large pages, TLB misses and time. The two machines are two processes
//! here: their memory is not translated twice.

mod study;
#[cfg(test)]
mod tests;

use perforate_config::{ConfigError, Count, Key, Share, Size, keys};
use perforate_os::ContentDistribution;
use perforate_sim::{Machine, MemoryOptions, Scheme, SimError};
use schemars::JsonSchema;
use serde::Deserialize;

use super::case_study::{CONTENTS, heap_regions};
use super::settings::wrong;
use super::{Kind, Measurement, Settings, each};
use study::Study;

type Reads<const LEAST: u64> = Count<LEAST, 1_000_000_000>;

#[derive(Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct MergingSettings {
    /// Memory of each process, whole 2MB pages; the paper: 2580M.
    heap: Size,
    /// Physical memory.
    memory: Size,
    /// Contents of the pages, without distinct and seed.
    contents: ContentDistribution,
    /// Pages that have each content of the pool, on average.
    takers: Count<1, 1_000_000>,
    /// Reads that are counted, of each pattern, before and after.
    reads: Reads<1>,
    /// Reads before each of these.
    warmup: Reads<0>,
    /// Reads of one process before the other runs.
    slice: Reads<1>,
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
            heap: Size(2580 << 20),
            memory: Size(8 << 30),
            contents: CONTENTS,
            takers: Count::new(2),
            reads: Count::new(500_000),
            warmup: Count::new(200_000),
            slice: Count::new(10_000),
            timing: true,
            machine: Machine::DEFAULT.into(),
            check: false,
        }
    }
}

/// The kind of this file.
pub struct SamePageMerging;

impl Kind for SamePageMerging {
    fn name(&self) -> &'static str {
        "same-page-merging"
    }

    fn summary(&self) -> &'static str {
        "two processes whose equal pages are merged: memory, large pages, TLB misses, time"
    }

    fn subjects(&self) -> &'static str {
        "native schemes"
    }

    fn settings(&self) -> Vec<Key> {
        keys::<MergingSettings>()
    }

    fn check(&self, settings: &Settings, subject: &str) -> Result<(), String> {
        Scheme::find(subject).map_err(|error| error.to_string())?;
        let own: MergingSettings = settings.read()?;
        settings.machine(&own.machine)?;
        own.study(1).map(|_| ())
    }

    fn cost(&self, settings: &Settings) -> f64 {
        let own = settings.read::<MergingSettings>();
        own.and_then(|own| own.study(0)).map_or(0.0, |study| study.cost())
    }

    fn measure(
        &self,
        settings: &Settings,
        subjects: &[String],
        seed: u64,
        progress: &mut dyn FnMut(f64),
    ) -> Result<Vec<Measurement>, String> {
        let own: MergingSettings = settings.read()?;
        let (study, machine) = (own.study(seed)?, settings.machine(&own.machine)?);
        each(subjects, progress, |subject, progress| {
            let measured = Scheme::find(subject)
                .map_err(SimError::from)
                .and_then(|scheme| study.run(&machine, scheme, progress));
            measured.map_err(|error| error.to_string())
        })
    }
}

impl MergingSettings {
    fn study(&self, seed: u64) -> Result<Study, String> {
        let heap_regions = heap_regions(self.heap, (2 << 20, 64 << 30))?;
        let memory = Some(self.memory);
        let memory = MemoryOptions { memory, ..MemoryOptions::default() }.resolve();
        Ok(Study {
            heap_regions,
            memory: memory.map_err(|error| error.to_string())?,
            contents: contents(self.contents, heap_regions, self.takers.get(), seed)?,
            reads: self.reads.get(),
            warmup: self.warmup.get(),
            slice: self.slice.get(),
            timed: self.timing,
            check: self.check,
            seed,
        })
    }
}

/// The distribution, with a pool of which each content has so many takers among the pages of both
/// heaps.
fn contents(
    draft: ContentDistribution,
    heap_regions: u64,
    takers: u64,
    seed: u64,
) -> Result<ContentDistribution, String> {
    let of_contents = |error: ConfigError| wrong(error.under("contents"));
    if (draft.distinct, draft.seed) != (0, 0) {
        let problem = "the pool follows from takers and the seed from the run";
        return Err(of_contents(ConfigError::new(problem)));
    }
    let pages = (2 * heap_regions * 512) as f64;
    let distinct = match draft.duplicate {
        Share::NONE => 0,
        share => ((share.value() * pages) as u64 / takers).max(1),
    };
    let contents = ContentDistribution { distinct, seed, ..draft };
    contents.check().map(|()| contents).map_err(of_contents)
}
