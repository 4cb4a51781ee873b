//! Coverage of the confidence intervals of sampled traces. Each program is simulated in full, and a
//! tenth of it as a sampled trace.

use crate::runs::measuring;
use crate::sums::checked_run;
use std::path::Path;

use perforate_sim::{
    Composition, Machine, MemoryState, ProcessorOptions, ResolvedRun, RunResult, Workload,
};
use perforate_trace::{TraceMetadata, TraceWriter};
use perforate_types::{
    AccessKind, Backing, Instruction, MemoryAccess, Permissions, ProgramEvent, Random,
    VirtualAddress,
};

const INSTRUCTIONS: u64 = 400_000;
const WINDOW: u64 = 2_000;
const PERIOD: u64 = 20_000;
const PROGRAMS: u64 = 60;
const DATA: u64 = 0x7000_0000_0000;
const PAGES: u64 = 4096;

/// Returns the pages of a program's loads: one page, or random pages, in phases of up to 2000
/// instructions.
fn program(seed: u64, instructions: u64) -> Vec<u64> {
    let mut random = Random::keyed(seed, 1, 0);
    let mut loads = Vec::new();
    while (loads.len() as u64) < instructions {
        let (wild, length) = (random.below(3) == 0, 1 + random.below(2000));
        loads.extend((0..length).map(|_| if wild { random.below(PAGES) } else { 0 }));
    }
    loads.truncate(instructions as usize);
    loads
}

fn map(start: u64, length: u64) -> ProgramEvent {
    ProgramEvent::Map {
        start: VirtualAddress::new(start),
        length,
        permissions: Permissions::ALL,
        accessible: true,
        backing: Backing::Anonymous,
        shared: false,
        populate: true,
    }
}

/// Writes the program as a trace: all of it, or windows, the first of which begins at `first_window`.
fn write(path: &Path, loads: &[u64], first_window: Option<u64>) {
    let metadata = TraceMetadata { has_events: true, ..TraceMetadata::default() };
    let mut writer = TraceWriter::create(path, &metadata).unwrap();
    writer.event(map(0x40_0000, 4096)).unwrap();
    writer.event(map(DATA, PAGES * 4096)).unwrap();
    let mut passed = 0;
    for (number, page) in (0..).zip(loads) {
        let is_recorded =
            first_window.is_none_or(|first| (number + PERIOD - first) % PERIOD < WINDOW);
        if !is_recorded {
            passed += 1;
            continue;
        }
        if passed > 0 {
            writer.event(ProgramEvent::Gap { instructions: passed }).unwrap();
            passed = 0;
        }
        let ip = VirtualAddress::new(0x40_0000);
        let address = VirtualAddress::new(DATA + page * 4096);
        // Each load uses the pointer that the previous one loaded.
        let (sources, destinations) = ([1, 0, 0, 0], [1, 0]);
        let instruction =
            Instruction { ip, accesses: 1, sources, destinations, ..Instruction::default() };
        let access = MemoryAccess { address, size: 8, kind: AccessKind::Read };
        writer.push(&instruction, &[access]).unwrap();
    }
    if passed > 0 {
        writer.event(ProgramEvent::Gap { instructions: passed }).unwrap();
    }
    writer.finish().unwrap();
}

fn run(path: &Path, schemes: &str, functional: bool) -> Vec<RunResult> {
    let comparison = ResolvedRun {
        processors: ProcessorOptions::default(),
        workload: Workload::named(path.to_string_lossy()),
        machine: Machine::load(Machine::DEFAULT).unwrap(),
        schemes: Composition::list(schemes).unwrap(),
        memory: MemoryState::of(64 << 20),
        seed: 1,
        measuring: measuring(functional, false, Some(0)),
    };
    checked_run(&comparison).unwrap()
}

fn count(path: &Path) -> RunResult {
    run(path, "4k", true).remove(0)
}

/// Loads in flight at the end of a window are waited for in it. The next window begins elsewhere in the
/// program, so none of its instructions overlaps with them.
#[test]
fn a_window_has_the_cycles_of_a_program_that_ends_there() {
    let folder = tempfile::tempdir().unwrap();
    let (alone, part) = (folder.path().join("alone.trace"), folder.path().join("part.trace"));
    // In the first window every load misses, in the second none.
    let loads: Vec<u64> =
        (0..PERIOD + WINDOW).map(|load| if load < WINDOW { load } else { 0 }).collect();
    write(&alone, &loads[..WINDOW as usize], None);
    let alone = run(&alone, "4k", false).remove(0);
    // The gap after the window is followed by another window, or by nothing.
    for (length, windows) in [(PERIOD + WINDOW, 2), (PERIOD, 1)] {
        write(&part, &loads[..length as usize], Some(0));
        let part = run(&part, "4k", false).remove(0);
        assert_eq!(part.batches.instructions, vec![WINDOW; windows]);
        assert_eq!(Some(part.batches.cycles[0]), alone.cycles);
    }
}

/// The intervals are 95 % confidence intervals. With this coverage, fewer than 51 (85 %) of 60
/// programs would be inside once in a thousand times.
#[test]
fn the_truth_lies_in_most_intervals() {
    let folder = tempfile::tempdir().unwrap();
    let (whole, part) = (folder.path().join("whole.trace"), folder.path().join("part.trace"));
    let (mut inside, mut widths) = (0, 0.0);
    for seed in 1..=PROGRAMS {
        let loads = program(seed, INSTRUCTIONS);
        write(&whole, &loads, None);
        write(&part, &loads, Some(Random::keyed(seed, 2, 0).below(PERIOD)));
        let truth = count(&whole).counters.get("l2_tlb_mpki").unwrap();
        let result = count(&part);
        let sampled = result.sampled.expect("a sample");
        assert!((20..=21).contains(&sampled.windows), "{}", sampled.windows);
        let figure = sampled.figures["l2_tlb_mpki"];
        let half = figure.half_width_95.unwrap();
        inside += u64::from((figure.mean - truth).abs() <= half);
        widths += half / truth;
    }
    println!(
        "{inside} of {PROGRAMS} intervals hold the truth; mean half-width {:.1}%",
        widths / PROGRAMS as f64 * 100.0
    );
    assert!(inside * 100 >= PROGRAMS * 85, "only {inside} of {PROGRAMS}");
    // An interval that always covers the truth would be useless.
    assert!(widths / (PROGRAMS as f64) < 0.75);
}

/// Compares the speed-up of large pages, from paired windows, with that of the whole program.
#[test]
fn the_true_speed_lies_in_most_paired_intervals() {
    const PROGRAMS: u64 = 12;
    let folder = tempfile::tempdir().unwrap();
    let (whole, part) = (folder.path().join("whole.trace"), folder.path().join("part.trace"));
    let speed = |path: &Path| {
        let results = run(path, "4k,thp", false);
        results[1].batches.speed_over(&results[0].batches).unwrap()
    };
    let (mut inside, mut widths) = (0, 0.0);
    for seed in 1..=PROGRAMS {
        let loads = program(seed, INSTRUCTIONS / 2);
        write(&whole, &loads, None);
        write(&part, &loads, Some(Random::keyed(seed, 2, 0).below(PERIOD)));
        let (truth, sampled) = (speed(&whole), speed(&part));
        assert!(truth.mean > 1.05, "{truth:?}");
        inside += u64::from(sampled.holds(truth.mean));
        widths += sampled.half_width_95.unwrap() / (truth.mean - 1.0);
    }
    // With a coverage of 95 %, fewer than 9 of 12 would be inside twice in 1000 times.
    assert!(inside >= 9, "only {inside} of {PROGRAMS}");
    assert!(widths / (PROGRAMS as f64) < 1.0, "half of the intervals would hold no gain at all");
}

/// The program touches all its memory between two windows. The next window contains the faults of the
/// pages that it touches again; these faults represent the whole program.
#[test]
fn work_of_the_kernel_is_set_against_the_whole_program() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("part.trace");
    let loads: Vec<u64> = (0..INSTRUCTIONS).map(|number| number * 7 % PAGES).collect();
    let metadata = TraceMetadata { has_events: true, ..TraceMetadata::default() };
    let mut writer = TraceWriter::create(&path, &metadata).unwrap();
    let ProgramEvent::Map { start, length, .. } = map(DATA, PAGES * 4096) else { unreachable!() };
    writer.event(map(0x40_0000, 4096)).unwrap();
    writer
        .event(ProgramEvent::Map {
            start,
            length,
            permissions: Permissions::ALL,
            accessible: true,
            backing: Backing::Anonymous,
            shared: false,
            populate: false,
        })
        .unwrap();
    for (number, page) in (0u64..).zip(&loads[..4000]) {
        if number.is_multiple_of(1000) {
            writer.event(ProgramEvent::Gap { instructions: 99_000 }).unwrap();
        }
        let ip = VirtualAddress::new(0x40_0000);
        let address = VirtualAddress::new(DATA + page * 4096);
        let instruction = Instruction { ip, accesses: 1, ..Instruction::default() };
        writer
            .push(&instruction, &[MemoryAccess { address, size: 8, kind: AccessKind::Read }])
            .unwrap();
    }
    writer.event(ProgramEvent::Gap { instructions: 99_000 }).unwrap();
    writer.finish().unwrap();
    let result = run(&path, "4k", false).remove(0);
    let get = |name: &str| result.counters.get(name).unwrap();
    let sampled = result.sampled.as_ref().expect("a sample");
    assert_eq!(sampled.instructions_represented, 400_000);
    let whole = sampled.extrapolated["cycles"].mean;
    let work = get("operating_system_cycles");
    assert!(work > 4000.0 * 500.0, "each of 4000 pages is cleared: {work}");
    assert!((get("cycles_with_operating_system") - whole - work).abs() < 1.0);
    let ipc = get("ipc_with_operating_system");
    assert!((ipc - 400_000.0 / (whole + work)).abs() < 1e-9 * ipc, "{ipc}");
}
