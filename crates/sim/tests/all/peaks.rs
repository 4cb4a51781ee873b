//! Hand-calculated results of a program that has exited. Its memory is free, and counters show peak
//! values.

use crate::runs::{fragmented, measuring};
use crate::sums::checked_run;
use perforate_sim::{Composition, Machine, ProcessorOptions, ResolvedRun, RunResult, Workload};
use perforate_trace::{TraceMetadata, TraceWriter};
use perforate_types::{
    AccessKind, Backing, Instruction, MemoryAccess, Permissions, ProcessId, ProgramEvent,
    VirtualAddress,
};

const MB: u64 = 1 << 20;
const FRAME: u64 = 4096;
const START: u64 = 0x7f00_0000_0000;
const MEMORY: u64 = 64 * MB;

/// Runs a program that maps and touches 4MB, reads the first word of each half, and exits. The
/// trace omits its code.
fn run(schemes: &str, fragmentation: &str) -> Vec<RunResult> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ended.trace");
    let metadata = TraceMetadata { has_events: true, ..TraceMetadata::default() };
    let mut trace = TraceWriter::create(&path, &metadata).unwrap();
    trace
        .event(ProgramEvent::Map {
            start: VirtualAddress::new(START),
            length: 4 * MB,
            permissions: Permissions::READ_WRITE,
            accessible: true,
            backing: Backing::Anonymous,
            shared: false,
            populate: true,
        })
        .unwrap();
    for half in [0, 1] {
        let address = VirtualAddress::new(START + half * 2 * MB);
        let access = MemoryAccess { address, size: 8, kind: AccessKind::Read };
        let load = Instruction { accesses: 1, ..Instruction::default() };
        trace.push(&load, &[access]).unwrap();
    }
    trace.event(ProgramEvent::Exit { process: ProcessId(0) }).unwrap();
    trace.finish().unwrap();
    let comparison = ResolvedRun {
        processors: ProcessorOptions::default(),
        workload: Workload::named(path.to_string_lossy().into_owned()),
        machine: Machine::load(Machine::DEFAULT).unwrap(),
        schemes: Composition::list(schemes).unwrap(),
        memory: fragmented(perforate_config::read(fragmentation).unwrap(), MEMORY),
        seed: 1,
        measuring: measuring(true, true, Some(0)),
    };
    let results = checked_run(&comparison).unwrap();
    for result in &results {
        let end = result.series.memory.last().unwrap();
        assert_eq!(end.mapped_bytes, Some(0), "{}: it has ended", result.scheme);
    }
    results
}

fn assert_counted(result: &RunResult, expected: &[(&str, u64)]) {
    for &(name, value) in expected {
        let found = result.counters.get(name).unwrap_or_else(|| panic!("no counter {name}"));
        assert_eq!(found, value as f64, "{}: {name}", result.scheme);
    }
}

/// 1024 4KB pages need a root, a level-3, a level-2 and two level-1 nodes. Two 2MB pages need no
/// level-1 nodes.
#[test]
fn pages_and_tables_of_a_program_that_has_ended() {
    let results = run("4k,thp", "none");
    for (result, (base, large, nodes)) in results.iter().zip([(1024, 0, 5), (0, 2, 3)]) {
        let tables = nodes * FRAME;
        assert_counted(
            result,
            &[
                ("mapped_bytes", 4 * MB),
                ("base_pages", base),
                ("large_pages", large),
                ("page_table_bytes", tables),
                ("free_bytes", MEMORY - 4 * MB - tables),
            ],
        );
    }
}

/// Both halves are perforated; a quarter of each are holes. Directories come in pairs, and each page
/// has a node for its holes.
#[test]
fn perforated_pages_of_a_program_that_has_ended() {
    let result = &run("perforated", "portion=100%,holes=25%,clustered")[0];
    assert_counted(
        result,
        &[
            ("perforated_pages", 2),
            ("holes_allocated", 2 * 128),
            ("page_table_bytes", (1 + 1 + 2 + 2) * FRAME),
        ],
    );
    assert_eq!(result.regions.len(), 2, "both are pictured");
    let missing = result.notes.iter().find(|note| note.contains("met its policy"));
    assert_eq!(missing, None, "there were perforated pages");
}

/// Counters of mechanisms show peaks, and the contents of the TLB are those while the program ran.
#[test]
fn mechanisms_and_tlbs_of_a_program_that_has_ended() {
    let results = run("segment,gt-pde-1m,range", "none");
    let expected = [("segment_pages", 0), ("superpage_bytes", 4 * MB), ("range_pages", 1024)];
    for (result, figure) in results.iter().zip(expected) {
        assert_counted(result, &[figure]);
        let kinds = result.counters.iter().filter(|(name, _)| name.starts_with("l2_tlb_entries_"));
        let entries: f64 = kinds.map(|(_, entries)| entries.as_f64()).sum();
        assert_eq!(entries, 1536.0 + 16.0, "{}: 16 are for 1GB pages", result.scheme);
    }
    let segment = &results[0].notes;
    assert!(segment.iter().any(|note| note.contains("there never was a segment")), "{segment:?}");
}
