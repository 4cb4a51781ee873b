//! Runs with sampled timing, compared with fully timed runs.

use std::path::Path;

use crate::sums::checked_run;
use perforate_config::Count;
use perforate_sim::{
    Composition, Machine, MeasuringOptions, MemoryState, ProcessorOptions, ResolvedRun, RunResult,
    SimError, TimedWindows, Timing, WarmupLength, Workload,
};
use perforate_trace::{TraceMetadata, TraceWriter};
use perforate_types::{
    AccessKind, Backing, Instruction, MemoryAccess, Permissions, ProgramEvent, Random,
    VirtualAddress,
};

const DATA: u64 = 0x7000_0000_0000;
const PAGES: u64 = 4096;

/// Writes a program of loads in which each load uses the pointer that the previous one loaded.
fn write(path: &Path, pages: impl IntoIterator<Item = u64>) {
    let metadata = TraceMetadata { has_events: true, ..TraceMetadata::default() };
    let mut writer = TraceWriter::create(path, &metadata).unwrap();
    for (start, length) in [(0x40_0000, 4096), (DATA, PAGES * 4096)] {
        let (start, permissions) = (VirtualAddress::new(start), Permissions::ALL);
        let (backing, shared, populate) = (Backing::Anonymous, false, true);
        let accessible = true;
        let map =
            ProgramEvent::Map { start, length, permissions, accessible, backing, shared, populate };
        writer.event(map).unwrap();
    }
    for page in pages {
        let ip = VirtualAddress::new(0x40_0000);
        let address = VirtualAddress::new(DATA + page * 4096);
        let (sources, destinations) = ([1, 0, 0, 0], [1, 0]);
        let instruction =
            Instruction { ip, accesses: 1, sources, destinations, ..Instruction::default() };
        let access = MemoryAccess { address, size: 8, kind: AccessKind::Read };
        writer.push(&instruction, &[access]).unwrap();
    }
    writer.finish().unwrap();
}

/// Returns the pages of a program's loads: one page, or random pages, in phases of up to 2000
/// instructions.
fn changing(seed: u64, instructions: usize) -> Vec<u64> {
    let mut random = Random::keyed(seed, 1, 0);
    let mut loads = Vec::new();
    while loads.len() < instructions {
        let (wild, length) = (random.below(3) == 0, 1 + random.below(2000));
        loads.extend((0..length).map(|_| if wild { random.below(PAGES) } else { 0 }));
    }
    loads.truncate(instructions);
    loads
}

fn sampled(window: u64, period: u64) -> MeasuringOptions {
    let timing = Timing::Sampled(TimedWindows { window, period });
    MeasuringOptions { timing, window_warmup: Some(Count::new(200)), ..MeasuringOptions::default() }
}

fn try_run(
    path: &Path,
    schemes: &str,
    measuring: &MeasuringOptions,
) -> Result<Vec<RunResult>, SimError> {
    let warmup = Some(WarmupLength::Instructions(1000));
    let comparison = ResolvedRun {
        processors: ProcessorOptions::default(),
        workload: Workload::named(path.to_string_lossy()),
        machine: Machine::load(Machine::DEFAULT).unwrap(),
        schemes: Composition::list(schemes).unwrap(),
        memory: MemoryState::of(64 << 20),
        seed: 1,
        measuring: MeasuringOptions { check: true, warmup, ..measuring.clone() },
    };
    checked_run(&comparison)
}

fn run(path: &Path, schemes: &str, measuring: &MeasuringOptions) -> Vec<RunResult> {
    try_run(path, schemes, measuring).unwrap()
}

fn count(result: &RunResult, name: &str) -> f64 {
    result.counters.get(name).unwrap_or_else(|| panic!("no {name}"))
}

/// A load that hits the L1D takes the L1D's latency, and the next load waits for it.
#[test]
fn a_steady_program_has_the_cycles_of_its_windows_everywhere() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("steady.trace");
    write(&path, std::iter::repeat_n(0, 101_000));
    let latency =
        u64::from(Machine::load(Machine::DEFAULT).unwrap().timing().cache.l1d.latency_cycles);
    let result = run(&path, "ideal", &sampled(100, 1000)).remove(0);
    assert_eq!((result.instructions, result.cycles), (100_000, Some(100_000 * latency)));
    let estimate = result.sampled.unwrap();
    assert_eq!((estimate.windows, estimate.instructions_counted), (100, 10_000));
    let cycles = estimate.figures["cycles_per_instruction"];
    assert_eq!((cycles.mean, cycles.half_width_95), (latency as f64, Some(0.0)));
}

/// Counts without a clock cover every instruction, and extrapolated parts add up to their totals.
#[test]
fn counts_without_a_clock_are_those_of_a_full_run() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("changing.trace");
    write(&path, changing(7, 60_000));
    let full = run(&path, "4k,perforated", &MeasuringOptions::default());
    let some = run(&path, "4k,perforated", &sampled(500, 5_000));
    for (full, some) in full.iter().zip(&some) {
        for name in ["l1_tlb_misses", "l2_tlb_misses", "walks", "page_faults", "instructions"] {
            assert_eq!(count(full, name), count(some, name), "{name}");
        }
        for whole in ["stack_cycles", "translation_cycles"] {
            let parts = some.counters.iter().filter(|(name, _)| {
                name.strip_prefix(whole).is_some_and(|part| part.starts_with('_'))
            });
            let sum: f64 = parts.map(|(_, value)| value.as_f64()).sum();
            let all = if whole == "stack_cycles" { "cycles" } else { whole };
            assert_eq!(sum, count(some, all), "{all}");
        }
        // Windows contain the same mix of loads as the rest.
        assert!((count(some, "loads") / count(full, "loads") - 1.0).abs() < 1e-3);
    }
}

/// The intervals are 95 % confidence intervals. With this coverage, fewer than 16 of 20 programs
/// would be inside three times in a thousand.
#[test]
fn the_full_runs_figures_lie_in_most_intervals() {
    const PROGRAMS: u64 = 20;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("changing.trace");
    let (mut cycles, mut speeds) = (0, 0);
    for seed in 1..=PROGRAMS {
        write(&path, changing(seed, 161_000));
        let full = run(&path, "4k,thp", &MeasuringOptions::default());
        let some = run(&path, "4k,thp", &sampled(500, 4_000));
        let truth = full[0].cycles.unwrap() as f64 / full[0].instructions as f64;
        let estimate = some[0].sampled.as_ref().unwrap().figures["cycles_per_instruction"];
        cycles += u64::from((estimate.mean - truth).abs() <= estimate.half_width_95.unwrap());
        let truth = full[0].cycles.unwrap() as f64 / full[1].cycles.unwrap() as f64;
        let speed = some[1].batches.speed_over(&some[0].batches).unwrap();
        speeds += u64::from(speed.holds(truth));
    }
    println!("of {PROGRAMS} intervals, {cycles} hold the cycles and {speeds} the speed-up");
    assert!(cycles >= 16 && speeds >= 16, "{cycles} and {speeds} of {PROGRAMS}");
}

#[test]
fn a_run_ends_when_it_is_precise_whatever_threads_do() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("changing.trace");
    write(&path, changing(3, 600_000));
    let precision = perforate_config::read("25%").unwrap();
    let measuring = MeasuringOptions { precision: Some(precision), ..sampled(200, 2_000) };
    let found = run(&path, "4k,thp", &measuring);
    let instructions = found[0].instructions;
    assert!((30 * 2_000..599_000).contains(&instructions), "{instructions}");
    let estimate = found[0].sampled.as_ref().unwrap().figures["cycles_per_instruction"];
    assert!(estimate.half_width_95.unwrap() <= 0.25 * estimate.mean);
    assert!(found[0].notes.iter().any(|note| note.contains("known to ±25%")));
    let text = |results: &[RunResult]| serde_json::to_string(results).unwrap();
    for _ in 0..3 {
        assert_eq!(text(&run(&path, "4k,thp", &measuring)), text(&found));
    }
    let exact = perforate_config::read("0.1%").unwrap();
    let never =
        run(&path, "4k,thp", &MeasuringOptions { precision: Some(exact), ..measuring.clone() });
    assert_eq!(never[0].instructions, 599_000);
    assert!(never[0].notes.iter().any(|note| note.contains("was not reached: ±")));
}

#[test]
fn a_run_without_a_window_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("short.trace");
    write(&path, std::iter::repeat_n(0, 2_000));
    let error = try_run(&path, "4k", &sampled(500, 1_000_000)).unwrap_err().to_string();
    assert!(error.contains("none of the 1000 measured instructions was timed"), "{error}");
}
