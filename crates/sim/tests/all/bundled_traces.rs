//! Bundled traces of real programs under every scheme. Every translation is compared with the oracle.

use crate::runs::{fragmented, measuring};
use crate::sums::checked_run;
use perforate_sim::{
    Composition, Machine, MemoryState, ProcessorOptions, ResolvedRun, RunResult, Workload,
};

/// Number of instructions of each trace. The command line (`--check`) can run whole traces.
const INSTRUCTIONS: u64 = 100_000;
/// Number of instructions of each trace under each pair of schemes.
const VIRTUAL_INSTRUCTIONS: u64 = 200_000;

fn traces() -> Vec<String> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../traces");
    let mut traces: Vec<String> = std::fs::read_dir(folder)
        .expect("the repository has traces")
        .map(|entry| entry.unwrap().path().to_str().unwrap().to_owned())
        .filter(|path| path.ends_with(".trace"))
        .collect();
    traces.sort();
    assert!(traces.len() >= 10, "at least ten real programs are bundled: {traces:?}");
    traces
}

/// Bytes of memory, more than each program touches.
const MEMORY_BYTES: u64 = 2 << 30;

fn half_fragmented() -> MemoryState {
    let fragmentation = perforate_config::read("portion=60%,holes=20%,dispersed").unwrap();
    fragmented(Some(fragmentation), MEMORY_BYTES)
}

/// Each program has every second scheme, and each scheme every second program.
#[test]
fn every_scheme_agrees_with_the_oracle_on_real_programs() {
    let all = Composition::list("all").unwrap();
    for (number, trace) in traces().into_iter().enumerate() {
        let comparison = ResolvedRun {
            processors: ProcessorOptions::default(),
            workload: Workload {
                instructions: Some(INSTRUCTIONS),
                ..Workload::named(trace.clone())
            },
            machine: Machine::load(Machine::DEFAULT).unwrap(),
            schemes: all.iter().skip(number % 2).step_by(2).cloned().collect(),
            memory: half_fragmented(),
            seed: 3,
            measuring: measuring(true, true, Some(0)),
        };
        let results = checked_run(&comparison).unwrap_or_else(|error| panic!("{error}"));
        let counter = |result: &RunResult, name| {
            result.counters.get(name).unwrap_or_else(|| panic!("{name} under {}", result.scheme))
        };
        let accesses = counter(&results[0], "l1_tlb_accesses");
        assert!(accesses > INSTRUCTIONS as f64 / 20.0, "{trace}");
        for result in &results {
            let scheme = &result.scheme;
            assert_eq!(result.instructions, INSTRUCTIONS, "{trace}");
            assert_eq!(counter(result, "l1_tlb_accesses"), accesses, "{trace} under {scheme}");
            // The program ran natively, so the simulated kernel must allow all its accesses.
            assert_eq!(counter(result, "accesses_refused"), 0.0, "{trace} under {scheme}");
        }
    }
}

/// The guest's memory is fragmented, and the host's in another way.
#[test]
fn pairs_of_schemes_agree_with_the_oracles_on_real_programs() {
    let host = fragmented(
        half_fragmented().kernel.fragmentation,
        half_fragmented().host().kernel.memory_bytes,
    );
    let memory = MemoryState { host: Some(Box::new(host)), ..half_fragmented() };
    let pairs = "4k+4k, thp+perforated, perforated+thp, perforated+perforated, 4k+segment";
    for name in traces().into_iter().take(2) {
        let comparison = ResolvedRun {
            processors: ProcessorOptions::default(),
            workload: Workload {
                instructions: Some(VIRTUAL_INSTRUCTIONS),
                ..Workload::named(name)
            },
            machine: Machine::load(Machine::DEFAULT).unwrap(),
            schemes: Composition::list(pairs).unwrap(),
            memory: memory.clone(),
            seed: 3,
            measuring: measuring(true, true, Some(0)),
        };
        let results = checked_run(&comparison).unwrap_or_else(|error| panic!("{error}"));
        for result in &results {
            let refused = result.counters.get("accesses_refused");
            assert_eq!((result.instructions, refused), (VIRTUAL_INSTRUCTIONS, Some(0.0)));
        }
    }
}
