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

use perforate_config::{Count, Key, Share, Size, keys};
use perforate_os::KhugepagedConfig;
use perforate_sim::{Machine, Scheme, SimError};
use schemars::JsonSchema;
use serde::Deserialize;

use super::{Kind, Measurement, Settings, each};
use study::Study;

/// Most keys: state of the store and of six pages each must fit the host.
const MOST_KEYS: u64 = 16_000_000;
/// Longest value; each page of a value is one access of each read.
const LONGEST_VALUE_BYTES: u64 = 1 << 20;
const MOST_READS: u64 = 1_000_000_000;

#[derive(Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct BloatSettings {
    /// Keys of the store; the paper: 4M.
    keys: Count<1, MOST_KEYS>,
    /// Bytes of a value, 1M at most.
    value_bytes: Size,
    /// A page more for each object of 16KB or more, as jemalloc has it unless built otherwise, as
    /// for Redis since 2023.
    padding: bool,
    /// Keys left after deleting at random, over 0%.
    live: Share,
    /// Knobs with which khugepaged runs after deleting until it finds nothing more to do.
    khugepaged: Option<KhugepagedConfig>,
    /// Random reads that are counted, after a tenth as many; the paper: 1M.
    reads: Count<1, MOST_READS>,
    /// Reads that are timed after these; 0: none.
    timed_reads: Count<0, MOST_READS>,
    /// Machine, by name or file.
    machine: String,
    /// Compare every translation with the oracle.
    check: bool,
}

impl Default for BloatSettings {
    fn default() -> Self {
        Self {
            keys: Count::new(500_000),
            value_bytes: Size(16 << 10),
            padding: true,
            live: Share::WHOLE,
            khugepaged: None,
            reads: Count::new(200_000),
            timed_reads: Count::new(5_000),
            machine: Machine::DEFAULT.into(),
            check: false,
        }
    }
}

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

    fn settings(&self) -> Vec<Key> {
        keys::<BloatSettings>()
    }

    fn check(&self, settings: &Settings, subject: &str) -> Result<(), String> {
        Scheme::find(subject).map_err(|error| error.to_string())?;
        let own: BloatSettings = settings.read()?;
        settings.machine(&own.machine)?;
        own.study().map(|_| ())
    }

    fn cost(&self, settings: &Settings) -> f64 {
        let own = settings.read::<BloatSettings>();
        own.and_then(|own| own.study()).map_or(0.0, |study| study.cost())
    }

    fn measure(
        &self,
        settings: &Settings,
        subjects: &[String],
        seed: u64,
        progress: &mut dyn FnMut(f64),
    ) -> Result<Vec<Measurement>, String> {
        let own: BloatSettings = settings.read()?;
        let (study, machine) = (own.study()?, settings.machine(&own.machine)?);
        each(subjects, progress, |subject, progress| {
            let measured = Scheme::find(subject)
                .map_err(SimError::from)
                .and_then(|scheme| study.run(&machine, scheme, seed, progress));
            measured.map_err(|error| error.to_string())
        })
    }
}

impl BloatSettings {
    fn study(&self) -> Result<Study, String> {
        let Self { keys, value_bytes, padding, live, check, .. } = *self;
        if !(1..=LONGEST_VALUE_BYTES).contains(&value_bytes.bytes()) {
            return Err(format!("setting value-bytes: is 1B to 1M, not {value_bytes}"));
        }
        if live == Share::NONE {
            return Err("setting live: is more than 0%".into());
        }
        let keys = keys.get();
        // It scans everything in one pass.
        let pages_to_scan = Count::new(u64::MAX);
        Ok(Study {
            keys,
            value_bytes: value_bytes.bytes(),
            padding,
            live_keys: ((keys as f64 * live.value()).round() as u64).max(1),
            khugepaged: self.khugepaged.map(|knobs| KhugepagedConfig { pages_to_scan, ..knobs }),
            reads: self.reads.get(),
            timed_reads: self.timed_reads.get(),
            check,
        })
    }
}
