//! Whether confidence intervals of sampled traces hold what they promise: programs of which the
//! whole is simulated, and a tenth of it as a sampled trace.

use std::path::Path;

use perforate_os::Random;
use perforate_sim::{Comparison, Composition, Machine, MemoryState, RunResult, Workload, compare};
use perforate_trace::{TraceMetadata, TraceWriter};
use perforate_types::{
    AccessKind, Backing, Instruction, MemoryAccess, Permissions, ProgramEvent, VirtualAddress,
};

const INSTRUCTIONS: u64 = 400_000;
const WINDOW: u64 = 2_000;
const PERIOD: u64 = 20_000;
const PROGRAMS: u64 = 60;
const DATA: u64 = 0x7000_0000_0000;
const PAGES: u64 = 4096;

/// Loads of one page, or of any page, by stretches of up to 2000 instructions.
fn program(seed: u64) -> Vec<u64> {
    let mut random = Random::new(seed, 1, 0);
    let mut loads = Vec::new();
    while (loads.len() as u64) < INSTRUCTIONS {
        let (wild, length) = (random.below(3) == 0, 1 + random.below(2000));
        loads.extend((0..length).map(|_| if wild { random.below(PAGES) } else { 0 }));
    }
    loads.truncate(INSTRUCTIONS as usize);
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

/// The program as a trace: all of it, or windows from this instruction on.
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
        let instruction = Instruction { ip, accesses: 1, ..Instruction::default() };
        let access = MemoryAccess { address, size: 8, kind: AccessKind::Read };
        writer.push(&instruction, &[access]).unwrap();
    }
    if passed > 0 {
        writer.event(ProgramEvent::Gap { instructions: passed }).unwrap();
    }
    writer.finish().unwrap();
}

fn run(path: &Path) -> RunResult {
    let comparison = Comparison {
        workload: Workload { name: path.to_string_lossy().into(), skip: 0, instructions: None },
        machine: Machine::load(Machine::DEFAULT).unwrap(),
        schemes: Composition::list("4k").unwrap(),
        memory: MemoryState::of(64 << 20),
        seed: 1,
        functional: true,
        check: false,
        warmup: Some(0),
    };
    compare(&comparison, &mut |_| {}).unwrap().remove(0)
}

/// 95 % are promised; of 60 programs, fewer than 51 (85 %) would be inside once in a thousand times.
#[test]
fn the_truth_lies_in_most_intervals() {
    let folder = tempfile::tempdir().unwrap();
    let (whole, part) = (folder.path().join("whole.trace"), folder.path().join("part.trace"));
    let (mut inside, mut widths) = (0, 0.0);
    for seed in 1..=PROGRAMS {
        let loads = program(seed);
        write(&whole, &loads, None);
        write(&part, &loads, Some(Random::new(seed, 2, 0).below(PERIOD)));
        let truth = run(&whole).counters.get("l2_tlb_mpki").unwrap();
        let result = run(&part);
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
    // An interval that holds anything would be no interval.
    assert!(widths / (PROGRAMS as f64) < 0.75);
}
