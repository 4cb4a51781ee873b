//! Areas: heap, stack, mremap, traces without map events.

use crate::machine;
use crate::machine::{BASE, MB, Machine};
use perforate_os::{FaultOutcome, HoleContent};
use perforate_types::{AccessKind, Advice, Backing, ProgramEvent, VirtualAddress};

#[test]
fn remap_moves_frames() {
    let mut machine = Machine::new("perforated", 64 * MB);
    machine.map(BASE, 2 * MB);
    machine.write(BASE);
    machine.punch(BASE + 0x3000, HoleContent::Moved).unwrap();
    let frames: Vec<_> = (0..512).map(|index| machine.frame(BASE + index * 4096)).collect();
    let remap = |from, to| ProgramEvent::Remap {
        from: VirtualAddress::new(from),
        from_length: 2 * MB,
        to: VirtualAddress::new(to),
        to_length: 2 * MB,
    };
    // Aligned: it stays a perforated page. Not aligned: 4KB pages with the same frames.
    for to in [BASE + 32 * MB, BASE + 65 * MB] {
        let from = if to == BASE + 32 * MB { BASE } else { BASE + 32 * MB };
        machine.event(remap(from, to));
        let moved: Vec<_> = (0..512).map(|index| machine.frame(to + index * 4096)).collect();
        assert_eq!(moved, frames);
        assert_eq!(machine.frame(from), None);
        machine.assert_memory_adds_up();
    }
    assert_eq!(machine.counter("base_pages"), 512);
    assert_eq!(machine.fault(BASE, AccessKind::Read), FaultOutcome::Segfault);
}

#[test]
fn the_heap_grows_and_shrinks_with_brk() {
    let mut machine = Machine::new("thp", 64 * MB);
    let brk =
        |end| ProgramEvent::Brk { start: VirtualAddress::new(BASE), end: VirtualAddress::new(end) };
    machine.event(brk(BASE));
    assert_eq!(machine.fault(BASE, AccessKind::Read), FaultOutcome::Segfault);
    machine.event(brk(BASE + 5 * MB));
    machine.write(BASE + 4 * MB);
    machine.write(BASE);
    assert_eq!(machine.counter("large_pages"), 1);
    machine.event(brk(BASE + 4096));
    assert_eq!(machine.counter("mapped_bytes"), 4096);
    assert_eq!(machine.fault(BASE + 4096, AccessKind::Read), FaultOutcome::Segfault);
    machine.event(brk(BASE + 2 * MB));
    machine.read(BASE + 4096);
}

#[test]
fn a_stack_grows_down_but_not_without_limit() {
    let mut machine = Machine::new("base-pages", 64 * MB);
    let stack = match machine::map(BASE, 0x2000) {
        ProgramEvent::Map { start, length, permissions, accessible, shared, populate, .. } => {
            let backing = Backing::Stack;
            ProgramEvent::Map { start, length, permissions, accessible, backing, shared, populate }
        }
        _ => unreachable!(),
    };
    machine.event(stack);
    assert_eq!(machine.fault(BASE - 8 * MB - 4096, AccessKind::Write), FaultOutcome::Segfault);
    machine.write(BASE - 8 * MB);
    machine.write(BASE - 4096);
    assert_eq!(machine.counter("segfaults"), 1);
}

#[test]
fn traces_without_maps() {
    let mut machine = Machine::with("thp", 64 * MB, None, true);
    machine.access(0x40_1234, AccessKind::Fetch);
    assert_eq!(machine.counter("large_pages"), 1);
    // Where a map event spoke before, only the rest of the 2MB is made up.
    machine.map(BASE, 4096);
    machine.access(BASE + 4096, AccessKind::Fetch);
    assert_eq!(machine.fault(BASE, AccessKind::Fetch), FaultOutcome::Segfault);
    assert_eq!(machine.fault(0x8000_0000_0000, AccessKind::Read), FaultOutcome::Segfault);
}

#[test]
fn populate_advice_maps_the_pages_that_a_recording_found_mapped() {
    let mut machine = Machine::new("base-pages", 64 * MB);
    machine.map(BASE, 2 * MB);
    let populate = 23; // MADV_POPULATE_WRITE
    for (advice, mapped) in [(Advice::Other(4), 0), (Advice::Other(populate), 3 * 4096)] {
        let start = VirtualAddress::new(BASE + 0x5000);
        machine.event(ProgramEvent::Advise { start, length: 3 * 4096, advice });
        assert_eq!(machine.counter("mapped_bytes"), mapped);
    }
    assert!(machine.frame(BASE + 0x7000).is_some() && machine.frame(BASE + 0x8000).is_none());
    assert_eq!(machine.counter("page_faults"), 0);
}
