//! Cost of faulty pages in a direct segment (D §V, §IX.C, Fig. 13; D-C6).
//!
//! The host's segment is made over the faulty frames, whose pages escape it, and so do the false
//! positives of its filter. A seed is one random set of faulty frames; program and memory are the
//! same for all of them, as in the paper, so that runs with `bad-pages` 0 are what all others are
//! held against.

mod filter;
mod study;
#[cfg(test)]
mod tests;

use perforate_config::{Changes, Count, Key, Size, keys};
use perforate_schemes::segment::{self, SegmentOptions};
use perforate_sim::{
    Composition, Machine, MemoryOptions, MemorySnapshot, MemoryState, PolicyOptions, SizeOptions,
};
use perforate_trace::bundled;
use schemars::JsonSchema;
use serde::Deserialize;

use super::{Kind, Measurement, Settings, each};
use filter::{expected_false_positive_share, false_positive_share};
use study::{Outcome, Study, Tape, faulty_frames};

const MACHINE: &str = "sandy-bridge-table6";

#[derive(Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct EscapeSettings {
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

/// The kind of this folder.
pub struct EscapeFilterOverhead;

impl Kind for EscapeFilterOverhead {
    fn name(&self) -> &'static str {
        "escape-filter"
    }

    fn summary(&self) -> &'static str {
        "time and walks of a program over a host's segment with faulty frames in it"
    }

    fn subjects(&self) -> &'static str {
        "pairs of schemes whose host has direct segments: segment+segment, 4k+segment"
    }

    fn settings(&self) -> Vec<Key> {
        keys::<EscapeSettings>()
    }

    fn check(&self, settings: &Settings, subject: &str) -> Result<(), String> {
        composition(subject)?;
        Plan::read(settings).map(|_| ())
    }

    fn cost(&self, settings: &Settings) -> f64 {
        // All pages are touched before.
        Plan::read(settings).map_or(0.0, |plan| {
            plan.instructions as f64 + plan.guest.kernel.memory_bytes as f64 / 1000.0
        })
    }

    fn measure(
        &self,
        settings: &Settings,
        subjects: &[String],
        seed: u64,
        progress: &mut dyn FnMut(f64),
    ) -> Result<Vec<Measurement>, String> {
        let plan = Plan::read(settings)?;
        let tape = Tape::read(&plan.workload, plan.instructions, &plan.guest);
        let tape = tape.map_err(|error| error.to_string())?;
        each(subjects, progress, |subject, progress| {
            let study = Study {
                machine: &plan.machine,
                composition: composition(subject)?,
                guest: &plan.guest,
                tape: &tape,
                check: plan.check,
            };
            let measured = plan.measure(&study, seed, progress);
            measured.map_err(|error| format!("{subject}: {error}"))
        })
    }
}

/// Settings of the study, as read from an experiment file.
struct Plan {
    machine: Machine,
    workload: String,
    instructions: u64,
    guest: MemoryState,
    bad_pages: usize,
    check: bool,
}

impl Plan {
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

    /// Bits and hash functions of the filter.
    fn filter(&self) -> (usize, usize) {
        let config = &self.machine.virtualization;
        (config.escape_filter_bits, config.escape_filter_functions)
    }

    /// One set of faulty frames. Without a segment over all of them there is nothing to say but
    /// that.
    fn measure(
        &self,
        study: &Study<'_>,
        seed: u64,
        progress: &mut dyn FnMut(f64),
    ) -> Result<Measurement, String> {
        let text = |error: perforate_sim::SimError| error.to_string();
        let outside = || Measurement::from([("has_segment".into(), 0.0)]);
        let Some(segment) = study.place().map_err(text)? else { return Ok(outside()) };
        let faulty = faulty_frames(&study.frames(&segment)?, self.bad_pages, seed)?;
        let outcome = study.run(&faulty, progress).map_err(text)?;
        let outcome = outcome.filter(|it| it.segment.escaped_pages == faulty.len() as u64);
        Ok(outcome.map_or_else(outside, |outcome| self.named(&outcome, &faulty)))
    }

    /// The figures by name.
    fn named(&self, outcome: &Outcome, faulty: &[u64]) -> Measurement {
        let (bits, functions) = self.filter();
        let segment = &outcome.segment;
        [
            ("has_segment", 1.0),
            ("instructions", outcome.instructions as f64),
            ("cycles", outcome.cycles as f64),
            ("l1_tlb_misses", outcome.misses),
            ("misses_by_segments", outcome.by_segments),
            ("misses_walked", outcome.walked),
            ("segment_pages", segment.pages as f64),
            ("escaped_pages", segment.escaped_pages as f64),
            ("paged_in_place_pages", segment.paged_pages as f64),
            ("false_positive_share", false_positive_share((bits, functions), segment, faulty)),
            (
                "false_positive_share_expected",
                expected_false_positive_share(bits, functions, faulty.len()),
            ),
        ]
        .map(|(name, value)| (name.into(), value))
        .into()
    }
}

fn composition(subject: &str) -> Result<Composition, String> {
    let pair = Composition::find(subject).map_err(|error| error.to_string())?;
    match pair.host {
        Some(host) if segment::is_used_by(host) => Ok(pair),
        _ => Err(format!("{subject:?} has no host with direct segments, as 4k+segment has")),
    }
}
