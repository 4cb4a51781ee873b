//! Areas: heap, stack, mremap, traces without map events.

use crate::machine;
use crate::machine::{BASE, MB, Machine};
use perforate_os::{FaultOutcome, HoleContent};
use perforate_types::{AccessKind, Advice, Backing, Permissions, ProgramEvent, VirtualAddress};

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
    // Aligned target: the page stays perforated. Unaligned target: 4KB pages with the same frames.
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
fn pages_touched_again_after_they_were_dropped_are_counted_once() {
    let mut machine = Machine::new("base-pages", 64 * MB);
    machine.map(BASE, 2 * MB);
    for _ in 0..2 {
        machine.write(BASE);
        machine.write(BASE + 4096);
        machine.event(machine::advise(BASE, 4096, Advice::DontNeed));
    }
    assert_eq!(machine.counter("page_faults"), 3);
    assert_eq!(machine.counter("faulted_bytes"), 2 * 4096);
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
    // Beside a mapped area, the implicit area is only the rest of its 2MB region.
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

fn remap(from: u64, from_length: u64, to: u64, to_length: u64) -> ProgramEvent {
    let at = VirtualAddress::new;
    ProgramEvent::Remap { from: at(from), from_length, to: at(to), to_length }
}

/// Linux refuses empty ranges or ignores them. Areas without pages would hide other areas.
#[test]
fn empty_ranges_change_nothing() {
    let mut machine = Machine::new("thp", 64 * MB);
    machine.map(BASE, 4 * MB);
    machine.write(BASE);
    let start = VirtualAddress::new(BASE + MB);
    let permissions = Permissions::READ;
    machine.event(machine::map(BASE + MB, 0));
    machine.event(ProgramEvent::Unmap { start, length: 0 });
    machine.event(ProgramEvent::Protect { start, length: 0, permissions, accessible: false });
    machine.event(ProgramEvent::Advise { start, length: 0, advice: Advice::NoHugePage });
    machine.event(remap(BASE + MB, 0, BASE + 2 * MB, MB));
    machine.event(remap(BASE + MB, 0, BASE + MB, 3 * MB));
    machine.event(remap(BASE + MB, MB, BASE + 8 * MB, 0));
    assert_eq!(machine.counter("large_pages"), 1);
    machine.write(BASE + MB);
    machine.write(BASE + 3 * MB);
    assert_eq!(machine.counter("large_pages"), 2, "the area is whole");
    machine.event(ProgramEvent::Unmap { start: VirtualAddress::new(BASE), length: 4 * MB });
    assert_eq!(machine.fault(BASE + MB, AccessKind::Read), FaultOutcome::Segfault);
    assert_eq!(machine.counter("mapped_bytes"), 0);
}

/// mremap of no bytes maps shared memory a second time.
#[test]
fn shared_memory_is_mapped_twice_by_a_remap_of_nothing() {
    let mut machine = Machine::new("base-pages", 64 * MB);
    let shared = match machine::map(BASE, 4 * 4096) {
        ProgramEvent::Map { start, length, permissions, accessible, backing, populate, .. } => {
            let shared = true;
            ProgramEvent::Map { start, length, permissions, accessible, backing, shared, populate }
        }
        _ => unreachable!(),
    };
    machine.event(shared);
    machine.write(BASE + 4096);
    machine.event(remap(BASE, 0, BASE + MB, 4 * 4096));
    machine.write(BASE + MB + 4096);
    assert_eq!(machine.frame(BASE + MB + 4096), machine.frame(BASE + 4096));
    assert_eq!(machine.fault(BASE + MB + 4 * 4096, AccessKind::Read), FaultOutcome::Segfault);
    machine.assert_memory_adds_up();
}

/// The vdso lies in the upper half of the address space on some machines.
#[test]
fn pages_of_the_upper_half_can_be_mapped() {
    let mut machine = Machine::new("base-pages", 64 * MB);
    let start = 0xffff_8000_0000_0000;
    machine.map(start, 2 * 4096);
    machine.write(start + 4096);
    machine.assert_memory_adds_up();
    machine.event(ProgramEvent::Unmap { start: VirtualAddress::new(start), length: 8192 });
    assert_eq!(machine.counter("mapped_bytes"), 0);
}

/// The heap may begin in the last page of the program's data, which belongs to the data.
#[test]
fn the_heap_begins_behind_the_programs_data() {
    let mut machine = Machine::new("base-pages", 64 * MB);
    let page = 4096;
    machine.map(BASE, page);
    machine.event(machine::protect(BASE, page, Permissions::READ));
    let brk = |end| ProgramEvent::Brk {
        start: VirtualAddress::new(BASE + 100),
        end: VirtualAddress::new(end),
    };
    let writable = |machine: &mut Machine| {
        [0, 1, 2, 3].map(|index| {
            machine.access(BASE + index * page, AccessKind::Write) == FaultOutcome::Mapped
        })
    };
    for (end, expected) in [
        (BASE + 100, [false; 4]),
        (BASE + page, [false; 4]),
        (BASE + page + 1, [false, true, false, false]),
        (BASE + 3 * page, [false, true, true, false]),
        (BASE + 3 * page + 1, [false, true, true, true]),
        (BASE + 2 * page, [false, true, false, false]),
        (BASE, [false; 4]),
        (BASE + 2 * page, [false, true, false, false]),
    ] {
        machine.event(brk(end));
        assert_eq!(writable(&mut machine), expected, "{:#x}", end - BASE);
        machine.read(BASE);
    }
    machine.event(ProgramEvent::Exec);
    machine.event(brk(BASE + 2 * page));
    assert_eq!(writable(&mut machine), [true, true, false, false], "no data are there any more");
}
