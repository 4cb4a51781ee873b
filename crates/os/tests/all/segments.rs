//! Direct segments, worked by hand. Memory is 256MB: frames 0–65535 in 128 blocks of 2MB.

use crate::machine::{
    BASE, MB, Machine, advise, fork, map, page, populate, protect, remap, switch, unmap,
};
use std::any::Any;
use std::ops::Range;

use perforate_config::Size;
use perforate_os::mechanism::{
    AddressSpace, Attributes, Backed, Backer, Core, Extent, FrameVisitor, Large, Mechanism, Part,
    PhysicalMemory, Present, Recount, SpaceMut, Touch, Usage, pages_of,
};
use perforate_os::{
    BlockUse, FaultMap, FaultOutcome, HardFault, Kernel, KernelConfig, OsError, Policy,
};
use perforate_schemes::segment::SegmentOperation;
use perforate_schemes::segment::SegmentPolicy;
use perforate_schemes::segment::{DirectSegments, SegmentError, SegmentRule, SegmentState};
use perforate_types::{
    AccessKind, Advice, Counters, Frame, HoleSet, PageSize, Permissions, ProcessId, ProgramEvent,
    Shootdown, SpaceId, TableOperation, Update, VirtualPage,
};

const SPACE: SpaceId = SpaceId(0);
const RW: Permissions = Permissions::READ_WRITE;
const MEMORY: u64 = 256 * MB;
const KB4: u64 = 4096;

fn machine() -> Machine {
    Machine::new("segment:min=16M", MEMORY)
}

/// A machine with an active segment of 32MB at [`BASE`].
fn with_segment(policy: &str) -> Machine {
    let mut machine = Machine::new(policy, MEMORY);
    machine.map(BASE, 32 * MB);
    machine.write(BASE);
    assert!(state(&machine).is_active);
    machine
}

fn state(machine: &Machine) -> SegmentState {
    machine.kernel.segment(SPACE).expect("a segment")
}

fn flush() -> Update {
    Shootdown::Space { space: SPACE }.into()
}

fn set(pages: u64, frame: u64) -> Update {
    let (page, frame) = (page(BASE), Frame::new(frame));
    SegmentOperation::Set { space: SPACE, page, pages, frame, permissions: RW }.into()
}

fn escaped(address: u64) -> Update {
    SegmentOperation::Escape { space: SPACE, page: page(address) }.into()
}

fn enable(machine: &mut Machine) {
    machine.act(|kernel| kernel.enable_segment(SPACE)).expect("a segment");
}

fn disable(machine: &mut Machine) {
    machine.act(|kernel| kernel.disable_segment(SPACE)).expect("a segment");
}

fn fail(machine: &mut Machine, frame: u64) -> HardFault {
    let frame = Frame::new(frame);
    machine.act(|kernel| Ok(kernel.hard_fault(frame))).expect("cannot fail")
}

#[test]
fn the_first_touch_of_a_large_area_sets_the_registers() {
    let mut machine = machine();
    machine.map(BASE, 32 * MB);
    assert!(machine.updates.is_empty());
    machine.write(BASE + 5 * MB);
    assert_eq!(machine.updates, [set(8192, 0), flush()]);
    let work = machine.kernel.work();
    assert_eq!((work.faults_segment, work.blocks_zeroed_2m, work.pages_mapped), (1, 16, 0));
    assert_eq!(machine.frame(BASE + 32 * MB - 1), Some(8191));
    assert_eq!(machine.counter("page_table_bytes"), 0);
    assert_eq!(machine.counter("mapped_bytes"), 32 * MB);
    machine.assert_memory_adds_up();
    // A second area is mapped by pages.
    machine.map(BASE + 64 * MB, 32 * MB);
    machine.write(BASE + 64 * MB);
    assert_eq!(machine.counter("base_pages"), 1);
    // The segment is unmapped at once: no table entry has to be written.
    machine.event(unmap(BASE, 32 * MB));
    assert_eq!(machine.updates, [SegmentOperation::Clear { space: SPACE }.into(), flush()]);
    machine.event(unmap(BASE + 64 * MB, 32 * MB));
    assert_eq!(machine.kernel.zones().free_frames(), 65_536);
    machine.assert_account();
}

#[test]
fn small_or_read_only_areas_are_paged() {
    let mut machine = machine();
    machine.map(BASE, 16 * MB - KB4);
    machine.write(BASE);
    machine.map(BASE + 32 * MB, 32 * MB);
    machine.event(protect(BASE + 32 * MB, 32 * MB, Permissions::READ));
    machine.read(BASE + 32 * MB);
    assert_eq!(machine.kernel.segment(SPACE), None);
    assert_eq!(machine.counter("segment_failures"), 0);
    assert_eq!(machine.counter("base_pages"), 2);
}

/// BASE and LIMIT as options: exactly these pages are the segment, whatever their number, if one area
/// has them all.
#[test]
fn prescribed_bounds_are_exactly_those_of_the_segment() {
    let (base, limit) = (BASE + 2 * MB, BASE + 5 * MB + KB4);
    let policy = format!("segment:base={base:#x},limit={limit:#x}");
    for (start, end) in [(BASE, BASE + 8 * MB), (base, limit)] {
        let mut machine = Machine::new(&policy, MEMORY);
        machine.map(start, end - start);
        machine.write(base);
        let state = state(&machine);
        assert_eq!((state.page, state.pages), (page(base), 3 * 256 + 1));
        machine.assert_memory_adds_up();
    }
    // An area beside them is paged, even if it touches them.
    for (start, end) in [(base - MB, base), (limit, limit + MB), (BASE + 64 * MB, BASE + 128 * MB)]
    {
        let mut machine = Machine::new(&policy, MEMORY);
        machine.map(start, end - start);
        machine.write(start);
        assert_eq!(machine.kernel.segment(SPACE), None);
        assert_eq!(machine.counter("base_pages"), 1);
        assert_eq!(machine.counter("segment_failures"), 0);
    }
    // An area that has only a part of them is a mistake in the options.
    for (start, end) in [(base, limit - KB4), (base + KB4, limit), (BASE, base + KB4)] {
        let mut machine = Machine::new(&policy, MEMORY);
        machine.map(start, end - start);
        let fault = machine.act(|kernel| kernel.fault(SPACE, page(start), AccessKind::Write));
        let Err(OsError::Mechanism(error)) = fault else { panic!("{fault:?}") };
        let expected = SegmentError::BeyondArea { base, limit, start, end };
        assert_eq!(error.downcast_ref(), Some(&expected));
    }
}

#[test]
fn odd_areas_are_congruent_with_their_run_and_its_rest_is_given_back() {
    let mut machine = machine();
    machine.map(BASE + 3 * KB4, 20 * MB);
    machine.write(BASE + MB);
    let state = state(&machine);
    assert_eq!((state.frame, state.pages), (Frame::new(3), 5120));
    assert_eq!(machine.kernel.zones().free_frames(), 65_536 - 5120);
    machine.assert_memory_adds_up();
    machine.event(unmap(BASE, 32 * MB));
    assert_eq!(machine.kernel.zones().pieces(), (1, 0), "one run of free memory");
}

#[test]
fn without_contiguous_memory_there_are_pages_and_a_figure() {
    let mut machine = machine();
    machine.map(BASE + 512 * MB, KB4);
    machine.write(BASE + 512 * MB);
    // The page's frame lies in block 127 and its nodes in block 125; blocks 0–124 are 250MB.
    machine.map(BASE, 252 * MB);
    for place in 0..4 {
        machine.write(BASE + place * 2 * MB);
    }
    assert_eq!(machine.counter("base_pages"), 5);
    // The first and the third touch tried to make a segment.
    assert_eq!((machine.counter("segments_made"), machine.counter("segment_failures")), (0, 2));
    machine.event(unmap(BASE + 512 * MB, KB4));
    machine.event(unmap(BASE, 252 * MB));
    machine.map(BASE + 512 * MB, KB4);
    machine.write(BASE + 512 * MB);
    machine.map(BASE, 252 * MB);
    let error = machine.act(|kernel| kernel.create_segment(SPACE, None));
    // The frame could be migrated, the nodes cannot.
    let (asked_bytes, longest_bytes) = (252 * MB, 250 * MB);
    assert_eq!(error, Err(OsError::NoContiguousMemory { asked_bytes, longest_bytes }));
    assert!(machine.updates.is_empty());
    machine.assert_memory_adds_up();
}

#[test]
fn a_segment_leaves_memory_for_all_else() {
    let mut machine = machine();
    machine.map(BASE, 256 * MB);
    // Linux's high watermark of 256MB is 3MB: 253MB remain, 126 whole blocks.
    let error = machine.act(|kernel| kernel.create_segment(SPACE, None));
    let (asked_bytes, longest_bytes) = (256 * MB, 252 * MB);
    assert_eq!(error, Err(OsError::NoContiguousMemory { asked_bytes, longest_bytes }));
    machine.write(BASE);
    assert_eq!(machine.counter("base_pages"), 1);
}

#[test]
fn a_false_positive_of_the_filter_is_mapped_in_place() {
    let mut machine = with_segment("segment:min=16M,pages=2m");
    machine.write(BASE + 7 * KB4);
    let mapped = TableOperation::Map {
        space: SPACE,
        page: page(BASE + 7 * KB4),
        size: PageSize::Size4K,
        frame: Frame::new(7),
        permissions: RW,
    };
    assert_eq!(machine.updates.last(), Some(&mapped.into()));
    assert_eq!(state(&machine).paged_pages, 1);
    assert_eq!(machine.kernel.work().frames_zeroed_4k, 0, "its data are there");
    assert_eq!(machine.counter("segment_faults"), 1);
    assert_eq!(machine.counter("mapped_bytes"), 32 * MB, "it counts once");
    machine.assert_memory_adds_up();
    machine.event(ProgramEvent::Exit { process: ProcessId(0) });
    assert_eq!(machine.kernel.zones().free_frames(), 65_536);
}

#[test]
fn a_failing_frame_makes_its_page_escape() {
    let mut machine = with_segment("segment:min=16M");
    let before = machine.counter("mapped_bytes");
    assert_eq!(fail(&mut machine, 100), HardFault::Escaped);
    assert!(machine.updates.contains(&escaped(BASE + 100 * KB4)));
    assert_ne!(machine.frame(BASE + 100 * KB4), Some(100));
    assert_eq!(machine.counter("mapped_bytes"), before, "its data were copied");
    assert_eq!(machine.counter("retired_bytes"), KB4);
    assert_eq!(state(&machine).escaped_pages, 1);
    // The same page fails again: it is an ordinary page now.
    let frame = machine.frame(BASE + 100 * KB4).expect("mapped");
    assert_eq!(fail(&mut machine, frame), HardFault::Moved);
    // A page that is also mapped by an entry.
    machine.write(BASE + 200 * KB4);
    assert_eq!(fail(&mut machine, 200), HardFault::Escaped);
    assert_ne!(machine.frame(BASE + 200 * KB4), Some(200));
    assert_eq!((state(&machine).escaped_pages, state(&machine).paged_pages), (2, 0));
    machine.assert_memory_adds_up();
    machine.assert_account();
    // After the registers are set again, the filter contains both pages.
    disable(&mut machine);
    assert_eq!(machine.frame(BASE), None);
    enable(&mut machine);
    let pages = [100, 200].map(|place| escaped(BASE + place * KB4));
    assert_eq!(machine.updates, [set(8192, 0), pages[0].clone(), pages[1].clone(), flush()]);
    machine.event(unmap(BASE, 32 * MB));
    assert_eq!(machine.kernel.zones().free_frames(), 65_536 - 3);
    machine.assert_memory_adds_up();
}

#[test]
fn faulty_frames_escape_from_the_start() {
    // The faulty frames lie in blocks 5 and 100: every run of 126 blocks contains both.
    let (first, second) = (5 * 512 + 3, 100 * 512);
    let touched = |escapes: u64| {
        let faulty = Some(FaultMap::Frames(vec![first, second]));
        let config = KernelConfig { faulty, ..KernelConfig::new(MEMORY) };
        let policy = format!("segment:min=16M,escapes={escapes}");
        let mut machine = Machine::configured(&policy, config);
        machine.map(BASE, 252 * MB);
        machine.write(BASE);
        machine
    };
    let machine = touched(1);
    assert_eq!(machine.kernel.segment(SPACE), None, "one of them is too many");
    let mut machine = touched(2);
    let addresses = [first, second].map(|frame| BASE + frame * KB4);
    let [a, b] = addresses.map(escaped);
    assert_eq!(machine.updates, [set(126 * 512, 0), a, b, flush()]);
    // The pages have no frame before they are touched; then each gets one of the highest block.
    assert_eq!(addresses.map(|address| machine.frame(address)), [None, None]);
    addresses.iter().for_each(|&address| machine.write(address));
    assert_eq!(machine.frame(addresses[0]), Some(65_024));
    assert_eq!(machine.counter("base_pages"), 2);
    machine.assert_memory_adds_up();
    machine.event(unmap(BASE, 252 * MB));
    assert_eq!(machine.kernel.zones().free_frames(), 65_534);
}

/// Pages whose place in the run is faulty keep their frames; the 2MB pages around them are split first.
#[test]
fn touched_pages_escape_where_the_run_is_faulty() {
    // One in each 8MB: a run of 32MB contains four.
    let faulty: Vec<u64> = (0..32).map(|number| number * 2048 + 515).collect();
    let config =
        KernelConfig { faulty: Some(FaultMap::Frames(faulty)), ..KernelConfig::new(MEMORY) };
    let mut machine = Machine::configured("thp", config);
    machine.event(populate(BASE, 32 * MB));
    let before: Vec<_> =
        (0..8192).map(|page| machine.frame(BASE + page * KB4).expect("populated")).collect();
    let rule = SegmentRule { min_bytes: 16 * MB, faulty_pages: 4, ..SegmentRule::default() };
    let made = machine.act(|kernel| kernel.create_segment(SPACE, Some(rule))).expect("a run");
    assert_eq!((made.pages, made.escaped_pages), (8192, 4));
    let first = made.frame.number();
    for (page, frame) in (0..).zip(before) {
        let place = first + page;
        let expected = if place % 2048 == 515 { frame } else { place };
        assert_eq!(machine.frame(BASE + page * KB4), Some(expected), "{page}");
    }
    assert_eq!(machine.kernel.work().large_pages_split, 4);
    assert_eq!(machine.kernel.work().frames_migrated, 8192 - 4);
    machine.assert_memory_adds_up();
}

#[test]
fn cleared_registers_leave_memory_to_paging_in_place() {
    let mut machine = with_segment("segment:min=16M,pages=2m");
    disable(&mut machine);
    assert_eq!(machine.updates, [SegmentOperation::Clear { space: SPACE }.into(), flush()]);
    assert_eq!(machine.counter("segment_idle_bytes"), 32 * MB);
    assert_eq!(machine.counter("segments_active"), 0);
    assert_eq!(machine.counter("mapped_bytes"), 0);
    machine.write(BASE + 4 * MB + KB4);
    assert_eq!(machine.counter("large_pages"), 1);
    assert_eq!(machine.frame(BASE + 4 * MB), Some(1024));
    // An escaped page in the 2MB page splits it.
    machine.act(|kernel| kernel.escape_page(SPACE, page(BASE + 4 * MB))).expect("of the segment");
    assert_eq!((machine.counter("large_pages"), machine.counter("base_pages")), (0, 512));
    assert_eq!(state(&machine).paged_pages, 511);
    machine.write(BASE);
    machine.assert_memory_adds_up();
    enable(&mut machine);
    assert_eq!(machine.counter("mapped_bytes"), 32 * MB);
    assert_eq!(machine.counter("segments_active"), 1);
    machine.assert_memory_adds_up();
    let space = machine.act(|kernel| kernel.disable_segment(SpaceId(1)));
    assert_eq!(space, Err(OsError::UnknownSpace { space: SpaceId(1) }));
}

#[test]
fn a_dissolved_segment_is_pages_where_it_lay() {
    for (policy, large, base) in
        [("segment:min=16M", 0, 8192), ("segment:min=16M,pages=2m", 15, 512)]
    {
        let mut machine = with_segment(policy);
        machine.write(BASE + 6 * MB); // Paged in place: its region is 4KB pages for good.
        machine.act(|kernel| kernel.dissolve_segment(SPACE)).expect("a segment");
        assert_eq!((machine.counter("large_pages"), machine.counter("base_pages")), (large, base));
        assert_eq!(machine.frame(BASE + 31 * MB), Some(31 * 256));
        assert_eq!(machine.kernel.segment(SPACE), None);
        assert_eq!(machine.kernel.work().frames_copied, 0);
        machine.assert_memory_adds_up();
        // The pages are ordinary in every way: a failing one moves.
        let outcome = fail(&mut machine, 3 * 512 + 5);
        assert!(matches!(outcome, HardFault::Moved), "{outcome:?}");
        machine.assert_account();
        let again = machine.act(|kernel| kernel.dissolve_segment(SPACE));
        assert_eq!(again, Err(SegmentError::None { space: SPACE }.into()));
    }
}

#[test]
fn changes_of_a_part_dissolve_the_segment_first() {
    let events = [
        unmap(BASE + 8 * MB, MB),
        advise(BASE + 8 * MB, MB, Advice::DontNeed),
        protect(BASE + 8 * MB, MB, Permissions::READ),
        remap(BASE + 8 * MB, MB, BASE + 512 * MB, MB),
        remap(BASE, 32 * MB, BASE + 512 * MB, 32 * MB),
        map(BASE + 8 * MB, MB),
        fork(1),
    ];
    for event in events {
        let mut machine = with_segment("segment:min=16M");
        machine.event(event.clone());
        assert_eq!(machine.kernel.segment(SPACE), None, "{event:?}");
        let moved = matches!(event, ProgramEvent::Remap { from_length, .. } if from_length > MB);
        let start = if moved { BASE + 512 * MB } else { BASE };
        assert_eq!(machine.frame(start), Some(0), "{event:?}");
        assert_eq!(machine.frame(start + 31 * MB), Some(31 * 256), "{event:?}");
        machine.assert_memory_adds_up();
        machine.assert_copies_on_write();
    }
}

#[test]
fn advice_and_equal_permissions_keep_the_segment() {
    let mut machine = with_segment("segment:min=16M");
    machine.event(advise(BASE + MB, MB, Advice::HugePage));
    machine.event(advise(BASE + MB, MB, Advice::Free));
    machine.event(protect(BASE + 4 * MB, 4 * MB, RW));
    assert!(machine.updates.is_empty());
    assert!(state(&machine).is_active);
    machine.assert_memory_adds_up();
}

#[test]
fn guard_pages_escape() {
    let mut machine = with_segment("segment:min=16M,escapes=3");
    machine.event(protect(BASE + 8 * MB, 2 * KB4, Permissions::READ));
    assert_eq!(state(&machine).escaped_pages, 2);
    assert_eq!(machine.frame(BASE + 8 * MB), Some(2048), "the data stay");
    assert_eq!(machine.fault(BASE + 8 * MB, AccessKind::Write), FaultOutcome::Segfault);
    assert_eq!(machine.translate(BASE + 8 * MB + 2 * KB4), Some((Frame::new(2050), RW)));
    // Three escapes are allowed; two more are too many.
    machine.event(protect(BASE + 9 * MB, 2 * KB4, Permissions::READ));
    assert_eq!(machine.kernel.segment(SPACE), None);
    machine.assert_memory_adds_up();
}

#[test]
fn a_segment_of_touched_memory_takes_its_data_along() {
    let mut machine = Machine::new("thp", MEMORY);
    machine.event(populate(BASE, 8 * MB));
    machine.map(BASE + 8 * MB, 56 * MB);
    machine.event(advise(BASE + 8 * MB, 56 * MB, Advice::NoHugePage));
    machine.event(advise(BASE, 64 * MB, Advice::HugePage));
    machine.write(BASE + 9 * MB);
    machine.event(unmap(BASE + 2 * MB, KB4));
    machine.map(BASE + 2 * MB, KB4);
    machine.event(advise(BASE + 2 * MB, KB4, Advice::HugePage));
    let mapped = machine.counter("mapped_bytes");
    let work = machine.kernel.work();
    let made = machine.act(|kernel| kernel.create_segment(SPACE, None)).expect("there is room");
    assert_eq!((made.pages, made.is_active), (16_384, true));
    let more = machine.kernel.work() - work;
    assert_eq!(more.frames_migrated * KB4, mapped);
    assert_eq!(more.blocks_zeroed_2m * 512 + more.frames_zeroed_4k, 16_384 - mapped / KB4);
    assert_eq!(machine.counter("mapped_bytes"), 64 * MB);
    assert_eq!(machine.counter("page_table_bytes"), 0);
    machine.assert_memory_adds_up();
    machine.assert_account();
    let second = machine.act(|kernel| kernel.create_segment(SPACE, None));
    assert_eq!(second, Err(SegmentError::Second { space: SPACE }.into()));
}

#[test]
fn background_compaction_makes_room_for_a_segment() {
    // 4KB and 2MB pages of another process lie across all of memory.
    for policy in ["base-pages", "thp"] {
        let mut machine = Machine::new(policy, MEMORY);
        machine.map(BASE, 100 * MB);
        machine.event(switch(1));
        machine.event(populate(BASE, 240 * MB));
        // Every second 2MB is unmapped, so that no longer run is free.
        for place in (0..120).step_by(2) {
            machine.event(unmap(BASE + place * 2 * MB, 2 * MB));
        }
        assert!(machine.kernel.longest_run_bytes(false) < 20 * MB);
        assert!(machine.kernel.longest_run_bytes(true) > 200 * MB);
        let before: Vec<_> = machine.oracle.mappings(SpaceId(1)).map(|(page, _)| page).collect();
        let work = machine.kernel.work();
        let made =
            machine.act(|kernel| kernel.create_segment(SPACE, None)).expect("compaction makes it");
        assert_eq!(made.pages, 25_600);
        let migrated = (machine.kernel.work() - work).frames_migrated;
        // At most half of the run was in use, or slightly less where it extends into free memory.
        assert!(migrated > 5_000 && migrated <= 25_600 / 2 + 512, "{migrated}");
        let after: Vec<_> = machine.oracle.mappings(SpaceId(1)).map(|(page, _)| page).collect();
        assert_eq!(before, after, "nobody lost a page");
        machine.assert_memory_adds_up();
        machine.assert_account();
    }
}

#[test]
fn memory_that_is_given_back_makes_a_segment_possible_again() {
    let mut machine = Machine::new("segment:min=16M", MEMORY);
    machine.map(BASE, 100 * MB);
    machine.event(switch(1));
    // Areas too small for segments lie across all of memory; every second one is unmapped.
    for place in 0..60 {
        machine.event(populate(BASE + place * 8 * MB, 4 * MB));
    }
    for place in (0..60).step_by(2) {
        machine.event(unmap(BASE + place * 8 * MB, 4 * MB));
    }
    machine.event(switch(0));
    let touch = |machine: &mut Machine, regions: std::ops::Range<u64>| {
        regions.for_each(|region| machine.write(BASE + region * 2 * MB));
    };
    touch(&mut machine, 0..24);
    assert_eq!(machine.kernel.segment(SPACE), None);
    // Touches of the 1st, 3rd, 7th and 15th region tried to make a segment; the 31st is next.
    assert_eq!(machine.counter("segment_failures"), 4);
    machine.event(switch(1));
    for place in (1..60).step_by(2) {
        machine.event(unmap(BASE + place * 8 * MB, 4 * MB));
    }
    machine.event(switch(0));
    touch(&mut machine, 24..32);
    assert_eq!(state(&machine).pages, 25_600);
    machine.assert_memory_adds_up();
    machine.assert_account();
}

#[test]
fn context_switches_load_the_registers() {
    let mut machine = with_segment("segment:min=16M");
    for process in [1, 2, 1, 0, 0] {
        machine.event(switch(process));
    }
    // Registers are loaded when switching away from process 0 and back; processes 1 and 2 have
    // none.
    let work = machine.kernel.work();
    assert_eq!((work.context_switches, work.segment_registers_loaded), (4, 2));
    disable(&mut machine);
    machine.event(switch(1));
    assert_eq!(machine.kernel.work().segment_registers_loaded, 2);
}

#[test]
fn scanners_leave_a_segment_alone() {
    let mut machine = with_segment("segment:min=16M,pages=2m");
    for place in 0..2048 {
        machine.write(BASE + place * KB4); // All paged in place.
    }
    machine.kernel.set_ksm(perforate_os::KsmConfig::default());
    machine
        .kernel
        .set_content_distribution(perforate_config::read("zero=100%").expect("valid"))
        .expect("valid");
    for _ in 0..4 {
        machine.act(|kernel| Ok(kernel.ksm_pass())).expect("cannot fail");
        machine.act(|kernel| Ok(kernel.khugepaged_pass())).expect("cannot fail");
        machine.act(|kernel| Ok(kernel.compact())).expect("cannot fail");
        assert!(machine.updates.is_empty());
    }
    assert_eq!(state(&machine).paged_pages, 2048);
    machine.assert_memory_adds_up();
}

#[test]
fn a_segment_is_not_swapped_out() {
    let config = KernelConfig { swap: Size(64 * MB), ..KernelConfig::new(64 * MB) };
    let mut machine = Machine::configured("segment:min=16M", config);
    machine.map(BASE, 32 * MB);
    for place in 0..4096 {
        machine.write(BASE + place * KB4); // All paged in place, but for the first.
    }
    machine.event(advise(BASE, 32 * MB, Advice::Free));
    machine.map(BASE + 64 * MB, 48 * MB);
    for place in 0..48 * 256 {
        machine.write(BASE + 64 * MB + place * KB4);
    }
    // At least 16MB were swapped out, as 80MB were touched in 64MB; none of it was the segment's.
    assert!(machine.counter("swap_outs") >= 4096);
    assert_eq!(state(&machine).paged_pages, 4095);
    for place in 0..8192 {
        assert_eq!(machine.frame(BASE + place * KB4), Some(place));
    }
    machine.assert_memory_adds_up();
}

/// Touches map the run of a disabled segment by ordinary 2MB entries; it is still set aside.
#[test]
fn a_2mb_page_of_a_segment_cannot_be_shared() {
    for is_enabled in [true, false] {
        let mut machine = with_segment("segment:min=16M,pages=2m");
        machine.map(BASE + 64 * MB, 2 * MB);
        machine.write(BASE + 64 * MB);
        if !is_enabled {
            disable(&mut machine);
            machine.write(BASE);
        }
        assert_eq!(machine.counter("large_pages"), if is_enabled { 1 } else { 2 });
        machine.event(switch(1));
        let to = machine.kernel.current();
        let mut share = |address| machine.act(|kernel| kernel.share(SPACE, page(address), to));
        let refused = Err(OsError::NotLarge { space: SPACE, page: page(BASE) });
        assert_eq!(share(BASE), refused, "{is_enabled}");
        // A 2MB page outside the segment can be.
        assert_eq!(share(BASE + 64 * MB), Ok(()), "{is_enabled}");
        machine.assert_memory_adds_up();
    }
}

/// A 2MB page for which no table can be allocated when it is to be broken up.
struct Firm(Large);
struct FirmPages;

impl Extent for Firm {
    fn mechanism(&self) -> &'static dyn Mechanism {
        &FirmPages
    }

    fn pages(&self) -> u64 {
        512
    }

    fn permissions(&self) -> Permissions {
        self.0.permissions
    }

    fn find(&self, offset: u64) -> Present {
        self.0.find(offset)
    }

    fn is_shared(&self, _: &PhysicalMemory) -> bool {
        false
    }

    fn offset_of(&self, frame: Frame) -> Option<u64> {
        self.0.offset_of(frame)
    }

    fn share(&self, _: &mut PhysicalMemory) {}

    fn release(&self, memory: &mut PhysicalMemory) {
        self.0.release(memory);
    }

    fn with_permissions(&self, permissions: Permissions) -> Box<dyn Extent> {
        Box::new(Self(Large { permissions, ..self.0 }))
    }

    fn visit_frames(&self, visitor: &mut dyn FrameVisitor) {
        self.0.visit_frames(visitor);
    }

    fn forget_owners(&self, _: &mut PhysicalMemory) {}

    fn check(
        &self,
        first: VirtualPage,
        space: &AddressSpace,
        usage: &mut Usage,
        recount: &mut Recount,
    ) -> Result<(), String> {
        self.0.check(first, space, usage, recount)
    }
}

impl Mechanism for FirmPages {
    fn map(&self, _: &mut SpaceMut<'_>, _: u64, _: Box<dyn Extent>) -> Result<(), OsError> {
        unreachable!("only the first touch maps one")
    }

    fn unmap(&self, _: &mut SpaceMut<'_>, _: u64) -> Box<dyn Extent> {
        unreachable!("none is unmapped")
    }

    fn protect(&self, _: &mut SpaceMut<'_>, _: u64, _: Permissions) {}

    fn break_up(&self, _: &mut SpaceMut<'_>, _: u64) -> Result<(), OsError> {
        Err(no_table())
    }

    fn protect_part(
        &self,
        _: &mut SpaceMut<'_>,
        _: u64,
        _: &Range<u64>,
        _: &Attributes,
    ) -> Result<Part, OsError> {
        Err(no_table())
    }

    fn moves_as_one(&self, _: &AddressSpace, _: u64, _: u64) -> bool {
        false
    }
}

fn no_table() -> OsError {
    OsError::OutOfMemory { asked_bytes: KB4, free_bytes: 0, memory_bytes: 0, enough_bytes: 0 }
}

/// Maps the 2MB of the first touch by a [`Firm`] page.
struct FirstTouches {
    region: u64,
}

impl Backer for FirstTouches {
    fn back(&mut self, core: &mut Core, touch: &Touch) -> Result<Backed, OsError> {
        if touch.region() != self.region {
            return Ok(Backed::No);
        }
        let frames = core.take_run_for(&pages_of(self.region), 0, false)?;
        let large = Large { block: Frame::new(frames.start), permissions: touch.permissions() };
        let space = &mut core.space_mut(touch.space)?;
        space.map_large(self.region, large)?;
        space.take_region_extent(self.region);
        space.set_region_extent(self.region, Box::new(Firm(large)));
        Ok(Backed::Yes)
    }
}

struct FirmThenSegments {
    segments: SegmentPolicy,
    region: u64,
}

impl Policy for FirmThenSegments {
    fn name(&self) -> &'static str {
        "firm-then-segments"
    }

    fn rules(&self) -> Vec<&dyn Any> {
        self.segments.rules()
    }

    fn backers(&self) -> Vec<Box<dyn Backer>> {
        let mut backers = self.segments.backers();
        backers.insert(0, Box::new(FirstTouches { region: self.region }));
        backers
    }

    fn use_block(&self, holes: &HoleSet) -> BlockUse {
        self.segments.use_block(holes)
    }
}

/// A segment that begins or ends within a 2MB page needs a table for the rest of the page. Without one,
/// nothing changes, and the segment's memory is free again.
#[test]
fn a_segment_that_cannot_break_a_page_up_gives_its_memory_back() {
    for (base, limit) in [(BASE + MB, BASE + 32 * MB), (BASE, BASE + 31 * MB)] {
        let region = if base == BASE { page(BASE + 30 * MB) } else { page(BASE) }.number() / 512;
        let options = format!("base={base:#x},limit={limit:#x}");
        let segments = SegmentPolicy::new(perforate_config::read(&options).unwrap()).unwrap();
        let policy = Box::new(FirmThenSegments { segments, region });
        let mut kernel = Kernel::new(KernelConfig::new(MEMORY), policy).unwrap();
        kernel.event(&map(BASE, 32 * MB)).unwrap();
        let touch = |kernel: &mut Kernel, page: u64| {
            let page = VirtualPage::new(page);
            assert_eq!(kernel.fault(SPACE, page, AccessKind::Write), Ok(FaultOutcome::Mapped));
        };
        let failures = |kernel: &Kernel| {
            let mut counters = Counters::default();
            kernel.counters(&mut counters);
            ["segments_made", "segment_failures"].map(|name| counters.get(name).unwrap())
        };
        touch(&mut kernel, region * 512);
        assert_eq!(failures(&kernel), [0.0, 0.0]);
        // A touch of another region: the segment fails, and a page and its table serve the touch.
        let free = kernel.zones().free_frames();
        touch(&mut kernel, page(BASE + 8 * MB).number());
        assert_eq!(kernel.zones().free_frames(), free - 2);
        assert_eq!((failures(&kernel), kernel.segment(SPACE)), ([0.0, 1.0], None));
        assert_eq!(kernel.check_invariants(), Ok(()));
        // In the background.
        let (bounds, rule) = (Some((base, limit)), SegmentRule::default());
        let rule = SegmentRule { bounds, ..rule };
        let failed = kernel.create_segment(SPACE, Some(rule));
        assert!(matches!(failed, Err(OsError::OutOfMemory { .. })), "{failed:?}");
        assert_eq!(kernel.zones().free_frames(), free - 2);
        assert_eq!((failures(&kernel), kernel.segment(SPACE)), ([0.0, 2.0], None));
        assert_eq!(kernel.check_invariants(), Ok(()));
    }
}
