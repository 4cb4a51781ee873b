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

use perforate_config::{BoundedSize, Changes, ConfigError, Count, Key, Share, Size, keys};
use perforate_os::ContentDistribution;
use perforate_sim::{Machine, MemoryOptions, MemorySnapshot, Scheme, SimError, SizeOptions};
use perforate_workloads::ReadersOptions;
use schemars::JsonSchema;
use serde::Deserialize;

use super::case_study::{CONTENTS, HEAP_BYTES};
use super::settings::{changed, wrong};
use super::{Kind, Measurement, Settings, each};
use study::Study;

#[derive(Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct MergingSettings {
    /// Options of the workload readers; heap is 2580M where nothing is said: the paper's machines have
    /// 5.16 GB together.
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
        Study::read(settings, 1).map(|_| ())
    }

    fn cost(&self, settings: &Settings) -> f64 {
        Study::read(settings, 0).map_or(0.0, |study| study.cost())
    }

    fn measure(
        &self,
        settings: &Settings,
        subjects: &[String],
        seed: u64,
        progress: &mut dyn FnMut(f64),
    ) -> Result<Vec<Measurement>, String> {
        let study = Study::read(settings, seed)?;
        each(subjects, progress, |subject, progress| {
            let measured = Scheme::find(subject)
                .map_err(SimError::from)
                .and_then(|scheme| study.run(scheme, progress));
            measured.map_err(|error| error.to_string())
        })
    }
}

impl Study {
    fn read(settings: &Settings, seed: u64) -> Result<Self, String> {
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
            contents: contents(own.contents, pages, own.takers.get(), seed)?,
            readers,
            timed: own.timing,
            check: own.check,
            seed,
        })
    }
}

/// The distribution, with a pool of which each content has so many takers among the pages of all
/// heaps.
fn contents(
    draft: ContentDistribution,
    pages: u64,
    takers: u64,
    seed: u64,
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
    let contents = ContentDistribution { distinct, seed, ..draft };
    contents.check().map(|()| contents).map_err(of_contents)
}
