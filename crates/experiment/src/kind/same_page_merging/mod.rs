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

use perforate_os::ContentDistribution;
use perforate_sim::{Machine, MemoryState, Scheme};
use perforate_trace::ReadersOptions;

use super::case_study::{CHECK, bounded, inputs, is_checked, machine, workload, workload_setting};
use super::{Kind, Measurement, Setting, Settings};
use study::Study;

const MEMORY: &str = "8G";
const CONTENTS: &str = "zero=2%,duplicate=16%,regions=40%,run=16";
const TAKERS: u64 = 2;
/// Parameters of the readers that are others than for themselves; the paper's machines have 5.16 GB
/// together.
const DEFAULTS: &[(&str, &str)] = &[("heap", "2580M")];

const fn setting(key: &'static str, meaning: &'static str, default: &'static str) -> Setting {
    Setting { key, meaning, default: Some(default) }
}

const SETTINGS: &[Setting] = &[
    workload_setting("readers."),
    setting("memory", "physical memory", MEMORY),
    setting("contents", "what pages hold, as --contents, without distinct and seed", CONTENTS),
    setting("takers", "pages that have each content of the pool, on average", "2"),
    setting("timing", "whether the reads are timed: true or false", "true"),
    setting("machine", "machine, by name or file", Machine::DEFAULT),
    CHECK,
];

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

    fn settings(&self) -> &'static [Setting] {
        SETTINGS
    }

    fn check(&self, settings: &Settings, subject: &str) -> Result<(), String> {
        Scheme::find(subject).map_err(|error| error.to_string())?;
        study(settings, 1).map(|_| ())
    }

    fn inputs(&self, settings: &Settings) -> Result<Vec<String>, String> {
        inputs(settings, Machine::DEFAULT, &[])
    }

    fn cost(&self, settings: &Settings) -> f64 {
        study(settings, 0).map_or(0.0, |study| study.cost())
    }

    fn measure(
        &self,
        settings: &Settings,
        subjects: &[String],
        seed: u64,
        progress: &mut dyn FnMut(f64),
    ) -> Result<Vec<Measurement>, String> {
        let study = study(settings, seed)?;
        let mut measurements = Vec::with_capacity(subjects.len());
        for subject in subjects {
            let scheme = Scheme::find(subject).map_err(|error| error.to_string())?;
            let done = measurements.len() as f64;
            let mut part = |part: f64| progress((done + part) / subjects.len() as f64);
            let measured = study.run(scheme, &mut part);
            measurements.push(measured.map_err(|error| error.to_string())?);
        }
        Ok(measurements)
    }
}

fn study(settings: &Settings, seed: u64) -> Result<Study, String> {
    let workload = workload(settings, "readers", DEFAULTS)?;
    let readers = ReadersOptions::of(&workload);
    let takers = bounded(settings, "takers", TAKERS, (1, 1_000_000))?;
    let memory = settings.text("memory").unwrap_or(MEMORY);
    let memory = MemoryState::parse(Some(memory), None, None).map_err(|error| error.to_string())?;
    let text = settings.text("contents").unwrap_or(CONTENTS);
    let pages = u64::from(readers.processes) * readers.pages;
    Ok(Study {
        machine: machine(settings, Machine::DEFAULT)?,
        memory,
        contents: contents(text, pages, takers, seed)?,
        workload,
        readers,
        timed: settings.value("timing", true)?,
        check: is_checked(settings)?,
        seed,
    })
}

/// The distribution, with a pool of which each content has so many takers among the pages of all
/// heaps.
fn contents(text: &str, pages: u64, takers: u64, seed: u64) -> Result<ContentDistribution, String> {
    let wrong = |problem: &str| format!("setting \"contents\" is {text:?}: {problem}");
    if text.split(',').any(|word| word.starts_with("distinct=") || word.starts_with("seed=")) {
        return Err(wrong("the pool follows from \"takers\" and the seed from the run"));
    }
    // Where there are duplicates a pool is asked for, elsewhere refused.
    let pool = if text.contains("duplicate=") { ",distinct=1" } else { "" };
    let draft = format!("{text}{pool}").parse::<ContentDistribution>();
    let draft = draft.map_err(|error| wrong(&error.to_string()))?;
    let distinct = match draft.duplicate {
        0.0 => 0,
        share => ((share * pages as f64) as u64 / takers).max(1),
    };
    Ok(ContentDistribution { distinct, seed, ..draft })
}
