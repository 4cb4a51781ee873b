//! Counters, states of frames and all updates of storms, compared with those that are kept: a storm finds
//! wrong translations only, and these find every other change of what the kernel and the hardware do.

use std::fmt::Write;
use std::path::PathBuf;

use perforate_os::{Hypervisor, Kernel};
use perforate_sim::System;
use perforate_testing::kept::{self, TextHash};
use perforate_types::Counters;

/// Main counters, which a line has in full, so that it says what a change is about.
const MAIN: [&str; 4] = ["page_faults", "l2_tlb_misses", "walk_references", "mapped_bytes"];

/// Returns a line with the main counters of a storm, and a hash over the names and values of all, the memory
/// maps, and `updates`.
pub fn line(name: &str, seed: u64, system: &System, updates: TextHash) -> String {
    let mut counters = Counters::default();
    system.record(1000, &mut counters);
    let mut hash = updates;
    for kernel in [Some(system.kernel()), system.hypervisor().map(Hypervisor::kernel)] {
        let map = kernel.map(Kernel::memory_map);
        write!(hash, "{map:?}").expect("a hash takes all");
    }
    for (name, value) in counters.iter() {
        write!(hash, "{name}={value:?};").expect("a hash takes all");
    }
    let main = MAIN.map(|name| counters.get(name).unwrap_or_default().to_string());
    format!("{name} {seed} {} {hash}\n", main.join(" "))
}

/// Compares the lines of all storms with the file `kept-NAME.txt`. Storms that the environment asks for are
/// not compared.
pub fn compare(name: &str, lines: &str) {
    let is_asked = |name| std::env::var_os(name).is_some();
    if !["STORM_SEED", "STORM_SEEDS", "STORM_EVENTS", "STORM_PAIR"].into_iter().any(is_asked) {
        let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/all/storms");
        kept::compare(folder.join(format!("kept-{name}.txt")), lines);
    }
}
