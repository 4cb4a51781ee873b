//! Frames that fail while a program runs (`--hard-faults`): what each kind of page becomes, checked by the oracle.

use crate::runs::measuring;
use crate::sums::checked_run;
use perforate_config::read;
use perforate_os::KernelConfig;
use perforate_sim::{Composition, Machine, MemoryState, ResolvedRun, RunResult, Workload};

/// Adds frames that fail to a memory, as the option says.
fn failing(memory: MemoryState, hard_faults: &str) -> MemoryState {
    let hard_faults = Some(read(hard_faults).unwrap());
    MemoryState { kernel: KernelConfig { hard_faults, ..memory.kernel }, ..memory }
}

/// Result of 40,000 instructions of a workload under a scheme.
fn run(workload: &str, scheme: &str, memory: MemoryState) -> RunResult {
    let workload = Workload { instructions: Some(40_000), ..Workload::named(workload) };
    let run = ResolvedRun {
        machine: Machine::load("perforated-table2").unwrap(),
        memory,
        measuring: measuring(true, true, Some(0)),
        ..ResolvedRun::new(workload, Composition::list(scheme).unwrap())
    };
    let results = checked_run(&run).unwrap();
    results.into_iter().find(|result| result.scheme == scheme).expect("it ran")
}

fn counter(result: &RunResult, name: &str) -> u64 {
    result.counters.get(name).unwrap_or_default() as u64
}

/// Two frames fail after 10,000, 20,000 and 30,000 instructions; the run ends with the 40,000th. Superpages of G count
/// themselves, as they move whole.
#[test]
fn every_kind_of_page_outlives_its_frames() {
    for (workload, scheme, outcome) in [
        ("random:size=16M", "4k", "hard_faults_moved"),
        ("random:size=16M", "thp", "hard_faults_split"),
        ("random:size=16M", "perforated", "hard_faults_punched"),
        ("random:size=128M", "segment", "hard_faults_escaped"),
        ("random:size=16M", "gt-pde-4m", "superpages_relocated"),
        ("random:size=1G", "1g", "hard_faults_uncorrected"),
    ] {
        let memory = failing(MemoryState::of(4 << 30), "every=10k,frames=2");
        let result = run(workload, scheme, memory);
        assert_eq!(counter(&result, "hard_faults"), 6, "{scheme}");
        assert!(counter(&result, outcome) > 0, "{scheme}: {outcome}");
        let uncorrected = counter(&result, "hard_faults_uncorrected");
        assert_eq!(counter(&result, "retired_bytes"), (6 - uncorrected) * 4096, "{scheme}");
    }
}

/// Frames of the host fail below its guest, whose own memory does not: up to three of the host's large pages have
/// holes then.
#[test]
fn frames_of_a_host_fail_below_its_guest() {
    let guest = MemoryState::of(1 << 30);
    let host = failing(guest.host(), "every=10k");
    let holes = |host| {
        let memory = MemoryState { host: Some(Box::new(host)), ..guest.clone() };
        let result = run("random:size=16M", "4k+perforated", memory);
        assert_eq!(counter(&result, "hard_faults"), 0);
        counter(&result, "host_perforated_pages")
    };
    assert_eq!(holes(guest.host()), 0);
    assert!((1..=3).contains(&holes(host)));
}
