//! Skipped instructions, whose events are carried out.

use crate::runs::measuring;
use crate::sums::checked_run;
use perforate_sim::{
    Composition, Machine, MemoryState, ProcessorOptions, ResolvedRun, SimError, Workload, explain,
};
use perforate_trace::{TraceMetadata, TraceWriter};
use perforate_types::{Backing, Instruction, Permissions, ProgramEvent, VirtualAddress};

/// Before any instruction, a program may have the kernel visit 8M pages and all 16,384 of memory
/// twice. This one maps 12,288 pages, as 24 large ones, and visits them 800 times: a million too
/// many. Each skipped instruction pays for 256 pages.
#[test]
fn skipped_instructions_pay_for_events() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("protects.trace");
    let metadata = TraceMetadata { has_events: true, ..TraceMetadata::default() };
    let mut trace = TraceWriter::create(&path, &metadata).unwrap();
    let (start, length) = (VirtualAddress::new(1 << 30), 48 << 20);
    let (permissions, accessible) = (Permissions::READ_WRITE, true);
    let (backing, shared, populate) = (Backing::Anonymous, false, true);
    let map =
        ProgramEvent::Map { start, length, permissions, accessible, backing, shared, populate };
    trace.event(map).unwrap();
    for _ in 0..800 {
        trace.event(ProgramEvent::Protect { start, length, permissions, accessible }).unwrap();
    }
    for _ in 0..8_000 {
        trace.push(&Instruction::default(), &[]).unwrap();
    }
    trace.finish().unwrap();
    let machine = Machine::load(Machine::DEFAULT).unwrap();
    let (schemes, memory) = (Composition::list("thp").unwrap(), MemoryState::of(64 << 20));
    for (skip, is_enough) in [(0, false), (3_000, false), (7_000, true)] {
        let workload = Workload { skip, ..Workload::named(path.to_string_lossy()) };
        let explained = explain(&machine, schemes[0], &memory, &workload, 1, &[]);
        let run = ResolvedRun {
            processors: ProcessorOptions::default(),
            workload,
            machine: machine.clone(),
            schemes: schemes.clone(),
            memory: memory.clone(),
            seed: 1,
            measuring: measuring(true, true, Some(0)),
        };
        for error in [checked_run(&run).err(), explained.err()] {
            let is_refused = matches!(error, Some(SimError::TooMuchAsked { .. }));
            assert_eq!((is_refused, error.is_none()), (!is_enough, is_enough), "{error:?}");
        }
    }
}
