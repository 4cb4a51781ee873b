//! Cost of faulty pages in a direct segment (D §V, §IX.C, Fig. 13; D-C6).
//!
//! The host's segment covers the faulty frames. Pages at these frames escape the segment, and so do
//! false positives of the escape filter. Each seed is a different random set of faulty frames, for the same
//! program and memory, as in the paper. Runs with `bad-pages` 0 are the baseline.

mod filter;
mod program;
#[cfg(test)]
mod tests;

use perforate_config::{Changes, Count, Size};
use perforate_schemes::segment::{self, SegmentOptions};
use perforate_sim::{
    Composition, Machine, MemoryOptions, MemorySnapshot, MemoryState, PolicyOptions, SizeOptions,
};
use perforate_trace::bundled;
use schemars::JsonSchema;
use serde::Deserialize;

use super::case_study::named;
use super::{Measurement, Settings, Study, each};
use filter::{expected_false_positive_share, false_positive_share};
use program::{Program, Tape, faulty_frames, frames};

const MACHINE: &str = "sandy-bridge-table6";

#[derive(Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct EscapeSettings {
    /// A workload, a bundled trace or the path of one; the paper's programs have 60GB and more.
    workload: String,
    /// Instructions of each run, the first half warms up; before them all pages are touched.
    instructions: Count<10_000, 100_000_000>,
    /// The guest's memory.
    memory: Size,
    /// Options of the guest's segment; a trace needs min=SIZE, as it does not tell its primary region
    /// (D §II.B).
    segment: Option<Changes<SegmentOptions>>,
    /// Faulty frames under the host's segment; the paper has 1, 2, 4, 8 and 16.
    bad_pages: Count<0, 1000>,
    /// A machine's name or file.
    machine: String,
    /// Compare every translation with the oracle.
    check: bool,
}

impl Default for EscapeSettings {
    fn default() -> Self {
        Self {
            workload: "random:size=1G,dependent".into(),
            instructions: Count::new(3_000_000),
            memory: Size(1280 << 20),
            segment: None,
            bad_pages: Count::new(0),
            machine: MACHINE.into(),
            check: false,
        }
    }
}

/// Run time and page walks of a virtualized program whose host has a direct segment with faulty
/// frames. Subjects are pairs of schemes whose host has direct segments.
pub struct EscapeFilter {
    machine: Machine,
    workload: String,
    instructions: u64,
    guest: MemoryState,
    bad_pages: usize,
    check: bool,
}

impl Study for EscapeFilter {
    const NAME: &'static str = "escape-filter";
    type Settings = EscapeSettings;

    fn read(settings: &Settings) -> Result<Self, String> {
        let own: EscapeSettings = settings.read()?;
        let size = SizeOptions { memory: Some(own.memory), ..SizeOptions::default() };
        let policies = PolicyOptions { segment: own.segment, ..PolicyOptions::default() };
        let guest = MemoryOptions { size, policies, ..MemoryOptions::default() };
        let guest = guest.resolve(&MemorySnapshot::load);
        Ok(Self {
            machine: settings.machine(&own.machine)?,
            workload: bundled::resolve(&own.workload),
            instructions: own.instructions.get(),
            guest: guest.map_err(|error| error.to_string())?,
            bad_pages: own.bad_pages.get() as usize,
            check: own.check,
        })
    }

    fn check(&self, subject: &str) -> Result<(), String> {
        pair(subject).map(|_| ())
    }

    fn cost(&self) -> f64 {
        // All pages are touched before the measured instructions.
        self.instructions as f64 + self.guest.kernel.memory_bytes as f64 / 1000.0
    }

    fn measure_all(
        &self,
        subjects: &[String],
        seed: u64,
        progress: &mut dyn FnMut(f64),
    ) -> Result<Vec<Measurement>, String> {
        let tape = Tape::read(self).map_err(|error| error.to_string())?;
        each(subjects, progress, |subject, progress| {
            let program = Program { study: self, composition: pair(subject)?, tape: &tape };
            self.measure_program(&program, seed, progress)
        })
    }
}

impl EscapeFilter {
    /// Measures the program on a host with one set of faulty frames. If the segment does not cover all of
    /// them, the only figure is `has_segment`, which is 0.
    fn measure_program(
        &self,
        program: &Program<'_>,
        seed: u64,
        progress: &mut dyn FnMut(f64),
    ) -> Result<Measurement, String> {
        let text = |error: perforate_sim::SimError| error.to_string();
        let outside = || Ok(named([("has_segment", 0.0)]));
        let Some(segment) = program.place().map_err(text)? else { return outside() };
        let faulty = faulty_frames(&frames(&segment)?, self.bad_pages, seed)?;
        let Some(outcome) = program.run(&faulty, progress).map_err(text)? else {
            return outside();
        };
        let segment = &outcome.segment;
        if segment.escaped_pages != faulty.len() as u64 {
            return outside();
        }
        let config = &self.machine.virtualization;
        let filter = (config.escape_filter_bits, config.escape_filter_functions);
        Ok(named([
            ("has_segment", 1.0),
            ("instructions", outcome.instructions as f64),
            ("cycles", outcome.cycles as f64),
            ("l1_tlb_misses", outcome.misses),
            ("misses_by_segments", outcome.by_segments),
            ("misses_walked", outcome.walked),
            ("segment_pages", segment.pages as f64),
            ("escaped_pages", segment.escaped_pages as f64),
            ("paged_in_place_pages", segment.paged_pages as f64),
            ("false_positive_share", false_positive_share(filter, segment, &faulty)),
            ("false_positive_share_expected", expected_false_positive_share(filter, faulty.len())),
        ]))
    }
}

fn pair(subject: &str) -> Result<Composition, String> {
    let pair = Composition::find(subject).map_err(|error| error.to_string())?;
    match pair.host {
        Some(host) if segment::is_used_by(host) => Ok(pair),
        _ => Err(format!("{subject:?} has no host with direct segments, as 4k+segment has")),
    }
}
