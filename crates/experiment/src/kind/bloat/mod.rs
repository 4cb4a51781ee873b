//! What large pages waste in a key-value store, and what perforated pages save of it (P Table I,
//! §III.B; P-C2 and P-C3).
//!
//! `store.rs` is a store in the manner of Redis on `allocator.rs`, an allocator in the manner of
//! jemalloc; both are data structures that run, and what they do to memory is simulated. Nothing
//! is fitted to the paper's figures. Choices of ours, where the paper says no more than Redis,
//! 4 million keys, objects of 16KB, a million random reads:
//!
//! - the allocator has the rules of jemalloc 5 as Redis builds it (quantum 8 bytes, four classes a
//!   doubling, slabs below 16KB; larger objects have an extent one page longer than their class
//!   and begin at a random cache line of its first page); one arena, no thread cache; the shortest
//!   free extent first; records of 128 bytes for each extent in use and 8 for each of its end pages
//! - mappings are of 2MB at first, each one size class longer than the last, downwards
//! - a key has 24 bytes of entry, 18 of name, 16 of object, and the value with 6 bytes of header
//!   and end; the table doubles when there is a key for each slot, all moved at once
//! - a read looks at slot, chain, entries and names on the way, object and value, and copies the
//!   value to one place; code, stack, sockets and the kernel are left out
//! - deleted keys are drawn evenly; then all free extents are given back (MADV_DONTNEED) at once
//! - where reads are timed, look-ups wait for each other and values are copied 32 bytes at a time

mod allocator;
mod extents;
mod process;
mod program;
mod records;
mod size_class;
mod store;
mod study;
#[cfg(test)]
mod tests;
mod touched;

use perforate_os::KhugepagedConfig;
use perforate_sim::{Machine, Scheme};

use super::case_study::{CHECK, bounded, inputs, is_checked, machine};
use super::{Kind, Measurement, Setting, Settings};
use study::Study;

/// Most keys: state of the store and of six pages each must fit the host.
const MOST_KEYS: u64 = 16_000_000;
/// Longest value; each page of a value is one access of each read.
const LONGEST_VALUE_BYTES: u64 = 1 << 20;
const MOST_READS: u64 = 1_000_000_000;

const KEYS: u64 = 500_000;
const VALUE_BYTES: &str = "16K";
const READS: u64 = 200_000;
const TIMED_READS: u64 = 5_000;

const fn setting(key: &'static str, meaning: &'static str, default: &'static str) -> Setting {
    Setting { key, meaning, default: Some(default) }
}

const SETTINGS: &[Setting] = &[
    setting("keys", "keys of the store; the paper: 4M", "500k"),
    setting("value-bytes", "bytes of a value", VALUE_BYTES),
    setting(
        "padding",
        "a page more for each object of 16KB or more, as jemalloc has it unless built otherwise, \
         as for Redis since 2023: yes or no",
        "yes",
    ),
    setting("live", "keys left after deleting at random, over 0% and up to 100%", "100%"),
    Setting {
        key: "khugepaged",
        meaning: "knobs, as --khugepaged, with which it runs after deleting until it finds nothing \
                  more to do, or default",
        default: None,
    },
    setting("reads", "random reads that are counted, after a tenth as many; the paper: 1M", "200k"),
    setting("timed-reads", "reads that are timed after these; 0: none", "5k"),
    setting("machine", "machine, by name or file", Machine::DEFAULT),
    CHECK,
];

/// The kind of this file.
pub struct Bloat;

impl Kind for Bloat {
    fn name(&self) -> &'static str {
        "bloat"
    }

    fn summary(&self) -> &'static str {
        "a key-value store: memory it touches and memory it is given, TLB misses, time of a read"
    }

    fn subjects(&self) -> &'static str {
        "native schemes"
    }

    fn settings(&self) -> &'static [Setting] {
        SETTINGS
    }

    fn check(&self, settings: &Settings, subject: &str) -> Result<(), String> {
        Scheme::find(subject).map_err(|error| error.to_string())?;
        machine(settings, Machine::DEFAULT)?;
        study(settings).map(|_| ())
    }

    fn inputs(&self, settings: &Settings) -> Result<Vec<String>, String> {
        inputs(settings, Machine::DEFAULT, &[])
    }

    fn cost(&self, settings: &Settings) -> f64 {
        study(settings).map_or(0.0, |study| study.cost())
    }

    fn measure(
        &self,
        settings: &Settings,
        subjects: &[String],
        seed: u64,
        progress: &mut dyn FnMut(f64),
    ) -> Result<Vec<Measurement>, String> {
        let (study, machine) = (study(settings)?, machine(settings, Machine::DEFAULT)?);
        let mut measurements = Vec::with_capacity(subjects.len());
        for subject in subjects {
            let scheme = Scheme::find(subject).map_err(|error| error.to_string())?;
            let done = measurements.len() as f64;
            let mut part = |part: f64| progress((done + part) / subjects.len() as f64);
            let measured = study.run(&machine, scheme, seed, &mut part);
            measurements.push(measured.map_err(|error| error.to_string())?);
        }
        Ok(measurements)
    }
}

fn study(settings: &Settings) -> Result<Study, String> {
    let value_bytes = settings.size("value-bytes", VALUE_BYTES)?;
    if !(1..=LONGEST_VALUE_BYTES).contains(&value_bytes) {
        return Err(format!("setting \"value-bytes\" is {value_bytes}; expected 1 to 1M"));
    }
    let keys = bounded(settings, "keys", KEYS, (1, MOST_KEYS))?;
    let live = share(settings, "live")?;
    let khugepaged = settings.text("khugepaged").filter(|text| *text != "none").map(knobs);
    Ok(Study {
        keys,
        value_bytes,
        padding: has_padding(settings)?,
        live_keys: ((keys as f64 * live).round() as u64).max(1),
        khugepaged: khugepaged.transpose()?,
        reads: bounded(settings, "reads", READS, (1, MOST_READS))?,
        timed_reads: bounded(settings, "timed-reads", TIMED_READS, (0, MOST_READS))?,
        check: is_checked(settings)?,
    })
}

fn has_padding(settings: &Settings) -> Result<bool, String> {
    match settings.text("padding") {
        None | Some("yes") => Ok(true),
        Some("no") => Ok(false),
        Some(text) => Err(format!("setting \"padding\" is {text:?}; expected yes or no")),
    }
}

/// Knobs of khugepaged; it scans everything in one pass.
fn knobs(text: &str) -> Result<KhugepagedConfig, String> {
    let knobs = if text == "default" { "" } else { text };
    let config: KhugepagedConfig =
        knobs.parse().map_err(|error| format!("setting \"khugepaged\": {error}"))?;
    Ok(KhugepagedConfig { pages_to_scan: u64::MAX, ..config })
}

/// A share in percent, more than nothing; all of it where there is none.
fn share(settings: &Settings, key: &str) -> Result<f64, String> {
    let text = settings.text(key).unwrap_or("100%");
    match text.strip_suffix('%').unwrap_or(text).parse::<f64>() {
        Ok(percent) if percent > 0.0 && percent <= 100.0 => Ok(percent / 100.0),
        _ => Err(format!("setting {key:?} is {text:?}; expected a share over 0% and up to 100%")),
    }
}
