//! Segments that a running virtual machine makes, and programs of which a trace has parts only.

use std::path::Path;

use perforate_config::OptionTexts;
use perforate_sim::{Composition, Machine, MemorySnapshot, RunResult, RunSpec, Silent};
use perforate_trace::{TraceMetadata, TraceWriter};
use perforate_types::{AccessKind, Instruction, MemoryAccess, ProgramEvent, VirtualAddress};

/// Returns the result of a run with these options.
fn run(scheme: &str, workload: &str, options: &str) -> RunResult {
    let mut given = OptionTexts::default();
    for option in options.split_whitespace() {
        let (key, value) = option.split_once('=').unwrap();
        given.insert(key, value);
    }
    let schemes = Composition::list(scheme).unwrap();
    let machine = Machine::load(Machine::DEFAULT).unwrap();
    let spec = RunSpec::read(given).unwrap();
    let run = spec.resolve(workload.into(), machine, schemes, &MemorySnapshot::load).unwrap();
    perforate_sim::run(&run, &mut Silent).unwrap().remove(0)
}

/// The policy runs in the run loop, with and without a clock. Where the host's memory is fragmented, and not the
/// guest's, the host's segment has to wait for compaction.
#[test]
fn a_running_guest_changes_its_mode() {
    let at_once = "base-virtualized → vmm-direct before instruction 0: free host memory";
    let fragmented = "fragmentation=portion=100%,holes=25%,dispersed";
    let compute = "modes=compute,every=3K";
    for (scheme, options, expected) in [
        ("4k+segment", compute.to_owned(), &[at_once][..]),
        ("4k+segment", format!("{compute} functional=true"), &[at_once]),
        ("4k+segment", format!("{compute} {fragmented}"), &[at_once]),
        ("4k+segment", format!("{compute} host-{fragmented}"), &[]),
        ("4k+segment", format!("{compute} host-age=weeks"), &[]),
        ("segment+segment", format!("modes=big-memory,every=3K {fragmented}"), &[at_once]),
        ("segment+segment", format!("modes=big-memory,every=3K host-{fragmented}"), &[]),
        ("4k+segment", String::new(), &[]),
    ] {
        let more = "memory=64M host-memory=256M instructions=6000 warmup=1000";
        let result = run(scheme, "random:size=24M", &format!("{more} {options}"));
        assert_eq!(result.mode_transitions, expected, "{scheme} {options}");
    }
}

/// Writes a trace of windows of loads that miss every cache and TLB, with gaps between them if asked for.
pub fn write_windows(path: &Path, (windows, loads): (u64, u64), has_gaps: bool) {
    let mut trace = TraceWriter::create(path, &TraceMetadata::default()).unwrap();
    let load = Instruction { accesses: 1, ..Instruction::default() };
    for page in 0..windows * loads {
        if has_gaps && page > 0 && page % loads == 0 {
            trace.event(ProgramEvent::Gap { instructions: 1_000 }).unwrap();
        }
        let address = VirtualAddress::new((1 << 30) + page * 4096);
        let access = MemoryAccess { address, size: 8, kind: AccessKind::Read };
        trace.push(&load, &[access]).unwrap();
    }
    trace.finish().unwrap();
}

/// Loads of one window do not overlap with those of the window before, whatever the number of cores.
#[test]
fn windows_begin_with_an_empty_pipeline() {
    let folder = tempfile::tempdir().unwrap();
    let cycles = |has_gaps, options: &str| {
        let path = folder.path().join("windows.trace");
        write_windows(&path, (4, 40), has_gaps);
        let result = run("4k", path.to_str().unwrap(), &format!("memory=64M warmup=0 {options}"));
        result.counters.get("cycles").unwrap()
    };
    let with_gaps = cycles(true, "");
    assert!(with_gaps > cycles(false, ""));
    assert_eq!(cycles(true, "cores=2"), with_gaps);
}
