//! Counters at the end of storms, compared with those that are kept: a storm finds wrong translations only,
//! and the counters find every other change of what the kernel and the hardware do.

use std::path::PathBuf;

use perforate_sim::System;
use perforate_types::Counters;

/// Main counters, which a line has in full, so that it says what a change is about.
const MAIN: [&str; 4] = ["page_faults", "l2_tlb_misses", "walk_references", "mapped_bytes"];

/// Returns a line with the main counters of a storm, and a hash (FNV-1a) over the names and values of all.
pub fn line(name: &str, seed: u64, system: &System) -> String {
    let mut counters = Counters::default();
    system.record(1000, &mut counters);
    let mut hash = 0xcbf2_9ce4_8422_2325u64;
    for (name, value) in counters.iter() {
        for byte in format!("{name}={value:?};").bytes() {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }
    let main = MAIN.map(|name| counters.get(name).unwrap_or_default().to_string());
    format!("{name} {seed} {} {hash:016x}\n", main.join(" "))
}

/// Compares the lines of all storms with the file `kept-NAME.txt`. `UPDATE_KEPT=1` writes the file after an
/// intended change. Storms that the environment asks for are not compared.
pub fn compare(name: &str, lines: &str) {
    let is_asked = |name| std::env::var_os(name).is_some();
    if ["STORM_SEED", "STORM_SEEDS", "STORM_EVENTS", "STORM_PAIR"].into_iter().any(is_asked) {
        return;
    }
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/all/storms");
    let path = folder.join(format!("kept-{name}.txt"));
    if is_asked("UPDATE_KEPT") {
        std::fs::write(&path, lines).unwrap();
    }
    let before = std::fs::read_to_string(&path).unwrap_or_default();
    let differs = before.lines().zip(lines.lines()).filter(|(before, now)| before != now);
    let differs: Vec<String> =
        differs.map(|(before, now)| format!("{before}\n  now: {now}")).take(5).collect();
    assert!(
        before == lines,
        "other counters than before ({} storms): UPDATE_KEPT=1 keeps them\n{}",
        MAIN.join(" "),
        differs.join("\n")
    );
}
