//! What faulty pages in a direct segment cost (D §V, §IX.C, Fig. 13; D-C6).
//!
//! The host's segment is made over the faulty frames, whose pages escape it, and so do the false
//! positives of its filter. A seed is one random set of faulty frames; program and memory are the
//! same for all of them, as in the paper, so that runs with `bad-pages` 0 are what all others are
//! held against.

mod filter;
mod study;
#[cfg(test)]
mod tests;

use std::path::Path;

use perforate_sim::{Composition, Machine, MemoryState};
use perforate_trace::bundled;

use super::case_study::{CHECK, MACHINE_KEYS, bounded, inputs, is_checked, machine};
use super::simulation::hash_of_file;
use super::{Kind, Measurement, Setting, Settings};
use filter::{expected_false_positive_share, false_positive_share};
use study::{Outcome, Study, Tape, faulty_frames};

const WORKLOAD: &str = "random:size=1G,dependent";
const MEMORY: &str = "1280M";
const INSTRUCTIONS: u64 = 3_000_000;
const MACHINE: &str = "sandy-bridge-table6";

const SETTINGS: &[Setting] = &[
    Setting {
        key: "workload",
        meaning: "a workload, a bundled trace or the path of one; the paper's programs have 60GB and more",
        default: Some(WORKLOAD),
    },
    Setting {
        key: "instructions",
        meaning: "of each run, the first half warms up; before them all pages are touched",
        default: Some("3000000"),
    },
    Setting { key: "memory", meaning: "the guest's memory", default: Some(MEMORY) },
    Setting {
        key: "segment",
        meaning: "options of the guest's segment; a trace needs min=SIZE, as it does not tell its \
                  primary region (D §II.B)",
        default: None,
    },
    Setting {
        key: "bad-pages",
        meaning: "faulty frames under the host's segment; the paper has 1, 2, 4, 8 and 16",
        default: Some("0"),
    },
    Setting { key: "machine", meaning: "a machine's name or file", default: Some(MACHINE) },
    MACHINE_KEYS,
    CHECK,
];

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

    fn settings(&self) -> &'static [Setting] {
        SETTINGS
    }

    fn check(&self, settings: &Settings, subject: &str) -> Result<(), String> {
        composition(subject)?;
        Choice::read(settings).map(|_| ())
    }

    fn inputs(&self, settings: &Settings) -> Result<Vec<String>, String> {
        let mut inputs = inputs(settings, MACHINE, &[])?;
        let trace = workload(settings);
        if Path::new(&trace).is_file() {
            inputs.push(hash_of_file(Path::new(&trace))?);
        }
        Ok(inputs)
    }

    fn cost(&self, settings: &Settings) -> f64 {
        // All pages are touched before.
        Choice::read(settings).map_or(0.0, |choice| {
            choice.instructions as f64 + choice.guest.memory_bytes as f64 / 1000.0
        })
    }

    fn measure(
        &self,
        settings: &Settings,
        subjects: &[String],
        seed: u64,
        progress: &mut dyn FnMut(f64),
    ) -> Result<Vec<Measurement>, String> {
        let choice = Choice::read(settings)?;
        let tape = Tape::read(&choice.workload, choice.instructions, &choice.guest);
        let tape = tape.map_err(|error| error.to_string())?;
        let mut measurements = Vec::with_capacity(subjects.len());
        for (index, subject) in subjects.iter().enumerate() {
            let study = Study {
                machine: &choice.machine,
                composition: composition(subject)?,
                guest: &choice.guest,
                tape: &tape,
                check: choice.check,
            };
            let mut progress = |done| progress((index as f64 + done) / subjects.len() as f64);
            let measured = choice.measure(&study, seed, &mut progress);
            measurements.push(measured.map_err(|error| format!("{subject}: {error}"))?);
        }
        Ok(measurements)
    }
}

/// The settings, read.
struct Choice {
    machine: Machine,
    workload: String,
    instructions: u64,
    guest: MemoryState,
    bad_pages: usize,
    check: bool,
}

impl Choice {
    fn read(settings: &Settings) -> Result<Self, String> {
        let memory = settings.text("memory").unwrap_or(MEMORY);
        let guest = MemoryState::parse(Some(memory), None, None)
            .and_then(|guest| guest.with_segment(settings.text("segment")))
            .map_err(|error| error.to_string())?;
        Ok(Self {
            machine: machine(settings, MACHINE)?,
            workload: workload(settings),
            instructions: bounded(settings, "instructions", INSTRUCTIONS, (10_000, 100_000_000))?,
            guest,
            bad_pages: bounded(settings, "bad-pages", 0, (0, 1000))? as usize,
            check: is_checked(settings)?,
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

/// A synthetic workload as it is written, a trace by its path.
fn workload(settings: &Settings) -> String {
    bundled::resolve(settings.text("workload").unwrap_or(WORKLOAD))
}

fn composition(subject: &str) -> Result<Composition, String> {
    let pair = Composition::find(subject).map_err(|error| error.to_string())?;
    match pair.host {
        Some(host) if host.segments => Ok(pair),
        _ => Err(format!("{subject:?} has no host with direct segments, as 4k+segment has")),
    }
}
