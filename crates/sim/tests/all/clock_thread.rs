//! A clock on a separate thread has the same counts as a clock in the run loop.

use std::sync::Arc;

use crate::modes::write_windows;
use crate::runs::fragmented;
use perforate_sim::{
    Composition, Machine, MemoryState, RunOptions, Simulation, SystemOptions, TimedWindows,
    Workload, open_workload,
};
use perforate_types::Chunk;

const INSTRUCTIONS: u64 = 30_000;

fn trace(name: &str) -> String {
    format!("{}/../../traces/{name}.trace", env!("CARGO_MANIFEST_DIR"))
}

fn memory() -> MemoryState {
    let fragmentation = perforate_config::read("portion=60%,holes=20%,dispersed").unwrap();
    let native = fragmented(Some(fragmentation), 2 << 30);
    let host = fragmented(native.kernel.fragmentation, native.host().kernel.memory_bytes);
    MemoryState { host: Some(Box::new(host)), ..native }
}

/// Returns the cycles of a run at its end, and all its counters, as JSON.
fn run(
    (workload, scheme): (&str, Composition),
    windows: Option<TimedWindows>,
    has_thread: bool,
) -> String {
    let (machine, memory) = (Machine::load(Machine::DEFAULT).unwrap(), memory());
    let system = SystemOptions { check: false, implicit_maps: false, counts_only: false };
    let options = RunOptions { functional: false, system, warmup: 5_000 };
    let mut simulation = Simulation::new(&machine, scheme, &memory, 1, options).unwrap();
    if let Some(windows) = windows {
        simulation = simulation.with_timed_windows(windows, 200, 1);
    }
    if has_thread {
        simulation = simulation.with_clock_thread().unwrap();
    }
    let (name, instructions) = (workload.to_owned(), Some(INSTRUCTIONS));
    let workload = Workload { instructions, ..Workload::named(name) };
    let mut source = open_workload(&workload, &memory, 1).unwrap();
    let mut chunk = Chunk::default();
    while source.next_chunk(&mut chunk).unwrap() {
        // A chunk that others read too is not copied for the thread.
        match has_thread && simulation.instructions() >= INSTRUCTIONS / 2 {
            true => simulation.run_shared(&Arc::new(chunk.clone())).unwrap(),
            false => simulation.run(&chunk).unwrap(),
        }
    }
    assert_eq!(simulation.instructions(), INSTRUCTIONS);
    let cycles = simulation.cycles().unwrap();
    assert!(cycles > 0);
    format!("{cycles} {}", serde_json::to_string(&simulation.into_counters().unwrap()).unwrap())
}

fn compare(schemes: &str, workloads: &[&str]) {
    for scheme in Composition::list(schemes).unwrap() {
        for workload in workloads {
            for windows in [None, Some(TimedWindows { window: 1_000, period: 4_000 })] {
                let of = |has_thread| run((workload, scheme), windows, has_thread);
                assert_eq!(of(true), of(false), "{} on {workload}", scheme.name());
            }
        }
    }
}

#[test]
fn native_schemes_count_the_same() {
    // One scheme for each kind of hardware suffices, because the clock does not depend on the
    // operating system.
    let schemes = "4k, 4k-colt-8, 1g, perforated, gt-pde-4m, segment, range";
    compare(schemes, &[&trace("redis"), "random:size=64M"]);
}

#[test]
fn pairs_count_the_same() {
    let pairs = "4k+4k, perforated+perforated, thp+segment, 4k+shadow-4k, thp+flat-thp";
    compare(pairs, &[&trace("redis"), "random:size=64M"]);
}

/// Program events and many small maps occur between instructions.
#[test]
fn programs_with_events_count_the_same() {
    compare("4k,perforated", &["fork:heap=4M", "chase:size=16M"]);
}

/// Each window of a sampled trace begins when all before it is done.
#[test]
fn sampled_programs_count_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let of = |has_gaps, has_thread| {
        let path = folder.path().join("windows.trace");
        write_windows(&path, (300, 100), has_gaps);
        run((path.to_str().unwrap(), Composition::find("4k").unwrap()), None, has_thread)
    };
    assert_eq!(of(true, true), of(true, false));
    assert_ne!(of(true, false), of(false, false));
}
