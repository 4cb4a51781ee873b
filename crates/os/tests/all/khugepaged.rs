//! Background promotion, worked by hand. Memory has 32 blocks of 512 frames. Single frames come
//! from the highest block, starting with frame 15872. The nodes lie in block 29. Blocks 30 and 28
//! are the first whole blocks taken, because their neighbours are split.

use crate::machine::expected::{page_down, remove};
use crate::machine::{
    BASE, MB, Machine, advise, fork, map, page, populate, protect, switch, unmap,
};
use perforate_config::Size;
use perforate_os::{HardFault, KernelConfig, KhugepagedConfig, KhugepagedPass, OsError};
use perforate_schemes::perforated::{HOLE_BRANCH, PerforatedOperation};
use perforate_types::{
    Advice, Backing, Frame, HoleSet, PageSize, Permissions, ProgramEvent, SpaceId, TableOperation,
    Update, VirtualAddress,
};

const PAGE: u64 = 4096;
const SPACE: SpaceId = SpaceId(0);
/// First frame of the highest block, which holds the first 4KB pages.
const TOP: u64 = 31 * 512;

fn memory(policy: &str) -> u64 {
    // The hole bitmap has a frame of its own above the 32 blocks.
    64 * MB + if policy.starts_with("perforated") { PAGE } else { 0 }
}

/// A region whose pages were touched in this order while large pages were refused.
fn touched(policy: &str, pages: impl Iterator<Item = u64>) -> Machine {
    let mut machine = Machine::new(policy, memory(policy));
    machine.map(BASE, 2 * MB);
    machine.event(advise(BASE, 2 * MB, Advice::NoHugePage));
    for subpage in pages {
        machine.write(BASE + subpage * PAGE);
    }
    machine.event(advise(BASE, 2 * MB, Advice::HugePage));
    machine
}

/// A region with every page in place in the highest block.
fn in_place(policy: &str) -> Machine {
    let machine = touched(policy, 0..512);
    assert_eq!(machine.frame(BASE), Some(TOP));
    machine
}

fn set(machine: &mut Machine, knobs: &str) {
    machine.kernel.set_khugepaged(perforate_config::read(knobs).unwrap());
}

fn pass(machine: &mut Machine) -> KhugepagedPass {
    let pass = machine.act(|kernel| Ok(kernel.khugepaged_pass())).unwrap();
    machine.assert_memory_adds_up();
    machine.assert_copies_on_write();
    machine.assert_account();
    pass
}

fn counters<const N: usize>(machine: &Machine, names: [&str; N]) -> [u64; N] {
    names.map(|name| machine.counter(&format!("khugepaged_{name}")))
}

fn retire(machine: &mut Machine, frame: u64) -> HardFault {
    machine.act(|kernel| Ok(kernel.hard_fault(Frame::new(frame)))).unwrap()
}

fn unmaps(subpages: impl Iterator<Item = u64>) -> Vec<Update> {
    let address = |subpage: u64| BASE + subpage * PAGE;
    let unmapped = |subpage| {
        let page = page(address(subpage));
        Update::from(TableOperation::Unmap { space: SPACE, page, size: PageSize::Size4K })
    };
    subpages.flat_map(|subpage| [unmapped(subpage), page_down(address(subpage))]).collect()
}

#[test]
fn thp_copies_a_region_into_a_whole_block() {
    let mut machine = touched("thp", 0..400);
    let before = machine.kernel.work();
    let free = machine.counter("free_bytes");
    let done = pass(&mut machine);
    assert_eq!((done.pages_scanned, done.regions_collapsed), (512, 1));
    assert!(done.ended_full_scan);
    let mut expected = unmaps(0..400);
    expected.push(remove(1, BASE, 0));
    let (space, frame) = (SPACE, Frame::new(30 * 512));
    let (size, permissions) = (PageSize::Size2M, Permissions::READ_WRITE);
    expected.push(TableOperation::Map { space, page: page(BASE), size, frame, permissions }.into());
    assert_eq!(machine.updates, expected);
    // 400 pages and their node are freed, 512 frames are allocated: 112 untouched pages of bloat.
    assert_eq!(machine.counter("free_bytes"), free + 401 * PAGE - 2 * MB);
    assert_eq!(machine.counter("mapped_bytes"), 2 * MB);
    assert_eq!(machine.counter("faulted_bytes"), 400 * PAGE);
    assert_eq!(counters(&machine, ["frames_copied", "zeroed_bytes"]), [400, 112 * PAGE]);
    let work = machine.kernel.work() - before;
    assert_eq!((work.frames_migrated, work.frames_zeroed_4k, work.frames_copied), (400, 112, 0));
    assert_eq!((work.frames_scanned, work.shootdown_batches, work.spaces_flushed), (512, 1, 1));
    // The scanner skips the region from now on.
    assert_eq!(pass(&mut machine).pages_scanned, 0);
    assert_eq!(counters(&machine, ["full_scans", "pages_made_whole"]), [2, 1]);
}

#[test]
fn absent_pages_up_to_the_limit() {
    for (mapped, limit, collapsed) in [(1, 511, 1), (1, 510, 0), (512, 0, 1), (511, 0, 0)] {
        let mut machine = touched("thp", 0..mapped);
        set(&mut machine, &format!("max-ptes-none={limit}"));
        assert_eq!(pass(&mut machine).regions_collapsed, collapsed, "{mapped} mapped");
        let refused = counters(&machine, ["refused_absent", "refused_shared"]);
        assert_eq!(refused, [1 - collapsed, 0]);
    }
}

#[test]
fn shared_pages_up_to_the_limit_are_copied() {
    for (limit, collapsed) in [(256, 2), (255, 0)] {
        let mut machine = touched("thp", 0..512);
        machine.event(fork(1));
        for subpage in 0..256 {
            machine.write(BASE + subpage * PAGE);
        }
        let others = machine.oracle.translate(SpaceId(1), page(BASE + MB)).unwrap();
        assert!(!others.1.write);
        set(&mut machine, &format!("max-ptes-shared={limit}"));
        // The parent is scanned first. Once it has copies of its own, the child shares nothing.
        let done = pass(&mut machine);
        assert_eq!((done.pages_scanned, done.regions_collapsed), (1024, collapsed));
        assert_eq!(counters(&machine, ["refused_shared"]), [2 - collapsed]);
        if collapsed > 0 {
            assert!(machine.translate(BASE + MB).unwrap().1.write);
            assert_eq!(machine.mapped_frames().len(), 1024);
        }
    }
}

/// 16MB with 7 blocks of 4KB pages, of which every second page is unmapped; the nodes lie in the
/// eighth block.
fn half_full() -> Machine {
    let mut machine = Machine::new("thp", 16 * MB);
    machine.map(BASE, 14 * MB);
    machine.event(advise(BASE, 14 * MB, Advice::NoHugePage));
    machine.event(populate_again(BASE, 14 * MB));
    for subpage in (0..7 * 512).step_by(2) {
        machine.event(advise(BASE + subpage * PAGE, PAGE, Advice::DontNeed));
    }
    machine.event(advise(BASE, 2 * MB, Advice::HugePage));
    machine
}

/// An event for MADV_POPULATE_WRITE.
fn populate_again(start: u64, length: u64) -> ProgramEvent {
    ProgramEvent::Advise { start: VirtualAddress::new(start), length, advice: Advice::Other(23) }
}

#[test]
fn a_block_is_compacted_for_a_region_unless_told_otherwise() {
    let mut machine = half_full();
    set(&mut machine, "defrag=0");
    assert_eq!(pass(&mut machine).regions_collapsed, 0);
    assert_eq!(counters(&machine, ["refused_no_block"]), [1]);
    assert_eq!(machine.counter("compaction_frames_migrated"), 0);
    set(&mut machine, "defrag=1");
    let before = machine.kernel.work();
    assert_eq!(pass(&mut machine).regions_collapsed, 1);
    // 256 frames leave the block, the region's 256 pages are copied into it, and 256 frames are
    // zeroed.
    assert_eq!(machine.counter("compaction_frames_migrated"), 256);
    assert_eq!(machine.counter("compaction_blocks_emptied"), 1);
    assert_eq!(counters(&machine, ["frames_copied", "zeroed_bytes"]), [256, MB]);
    assert_eq!((machine.kernel.work() - before).frames_migrated, 512);
    assert_eq!(machine.counter("base_pages"), 6 * 256);
}

#[test]
fn a_search_in_vain_is_not_repeated_at_once_but_free_memory_is_taken() {
    let mut machine = half_full();
    // One frame in each block is retired, so that no block can be emptied.
    for block in 0..8 {
        let free = (0..512).map(|index| Frame::new(block * 512 + index));
        let free = free.into_iter().find(|&frame| machine.kernel.zones().is_free(frame)).unwrap();
        assert_eq!(retire(&mut machine, free.number()), HardFault::WasFree);
    }
    let scanned = |machine: &Machine| machine.counter("compaction_blocks_scanned");
    assert_eq!(pass(&mut machine).regions_collapsed, 0);
    assert_eq!(scanned(&machine), 8);
    pass(&mut machine); // Deferred: one search after the first in vain, three after the second.
    assert_eq!(scanned(&machine), 8);
    pass(&mut machine);
    assert_eq!(scanned(&machine), 16);
    assert_eq!(counters(&machine, ["refused_no_block"]), [3]);
}

#[test]
fn memory_that_falls_free_makes_large_pages_later() {
    let mut machine = Machine::new("thp", 16 * MB);
    machine.event(populate(BASE, 12 * MB));
    machine.event(switch(1));
    // One block stays wholly free; one holds the nodes and takes the rest of the memory.
    machine.event(populate(BASE, 3 * MB));
    machine.event(map(BASE + 3 * MB, MB));
    let sizes = |machine: &Machine| ["large_pages", "base_pages"].map(|name| machine.counter(name));
    assert_eq!(sizes(&machine), [7, 256]);
    assert_eq!(pass(&mut machine).regions_collapsed, 0);
    machine.event(switch(0));
    machine.event(unmap(BASE, 12 * MB));
    assert_eq!(pass(&mut machine).regions_collapsed, 1);
    assert_eq!(sizes(&machine), [2, 0]);
}

/// All blocks but the last have faulty frames at 100 and 300. The region lies in block 31, in
/// reverse order.
fn spotted(options: &str) -> Machine {
    let mut machine = touched(&format!("perforated:{options}"), (0..512).rev());
    for block in 0..31 {
        for index in [100, 300] {
            assert_eq!(retire(&mut machine, block * 512 + index), HardFault::WasFree);
        }
    }
    machine
}

#[test]
fn holes_around_what_stays_cost_less_than_emptying_a_block() {
    let mut machine = spotted("promote=cheapest");
    machine.event(advise(BASE + 5 * PAGE, PAGE, Advice::DontNeed));
    machine.event(advise(BASE + 300 * PAGE, PAGE, Advice::DontNeed));
    let moved = machine.frame(BASE + 100 * PAGE);
    assert_eq!(moved, Some(16383 - 100));
    // Only block 31 could be emptied: 510 frames migrated, 510 copied, 2 zeroed. Around the faulty
    // frames of block 0: 509 copied, 1 zeroed, 2 holes at a cost of 2 each.
    let done = pass(&mut machine);
    assert_eq!((done.regions_collapsed, done.regions_perforated), (0, 1));
    let names = ["promoted_around_others", "frames_copied", "zeroed_bytes", "holes_left"];
    assert_eq!(counters(&machine, names), [1, 509, PAGE, 2]);
    assert_eq!(machine.frame(BASE + 100 * PAGE), moved, "the page at the hole stays");
    assert_eq!(machine.frame(BASE + 101 * PAGE), Some(101));
    assert_eq!(machine.frame(BASE + 5 * PAGE), Some(5), "zeros");
    assert_eq!(machine.frame(BASE + 300 * PAGE), None, "an unallocated hole");
    assert_eq!(machine.counter("holes_allocated"), 1);
    assert_eq!(machine.counter("holes_unallocated"), 1);
    machine.write(BASE + 300 * PAGE);
    machine.assert_memory_adds_up();
}

#[test]
fn what_a_hole_costs_decides_between_holes_and_compaction() {
    // 512 migrated and 512 copied cost 1024; 510 copied and two holes of 256 cost 1022.
    for (options, collapsed) in [
        ("hole-cost=256", 0),
        ("hole-cost=258", 1),
        ("promote=punch,hole-cost=258", 0),
        ("promote=collapse,hole-cost=0", 1),
    ] {
        let mut machine = spotted(options);
        let done = pass(&mut machine);
        assert_eq!((done.regions_collapsed, done.regions_perforated), (collapsed, 1 - collapsed));
        assert_eq!(machine.counter("compaction_frames_migrated"), 512 * collapsed, "{options}");
    }
    let mut machine = spotted("promote=never");
    assert_eq!(pass(&mut machine), KhugepagedPass { ended_full_scan: true, ..Default::default() });
}

#[test]
fn thresholds_hold_for_promotion_too() {
    let mut machine = spotted("promote=punch,max-filter-bits=1");
    // Sub-pages 100 and 300 lie in two different regions of 256KB.
    assert_eq!(pass(&mut machine).regions_perforated, 0);
    assert_eq!(counters(&machine, ["refused_no_block"]), [1]);
}

#[test]
fn pages_at_their_own_place_stay_there() {
    let mut machine = in_place("perforated");
    let done = pass(&mut machine);
    assert_eq!((done.regions_collapsed, done.regions_perforated), (1, 0));
    assert_eq!(counters(&machine, ["promoted_in_place", "frames_copied"]), [1, 0]);
    assert_eq!(machine.frame(BASE + 7 * PAGE), Some(TOP + 7));
    assert_eq!(machine.counter("large_pages"), 1);
    assert_eq!(machine.kernel.work().frames_migrated, 0);
    // Linux has no such promotion.
    let mut machine = in_place("thp");
    pass(&mut machine);
    assert_eq!(counters(&machine, ["promoted_by_collapse", "frames_copied"]), [1, 512]);
}

/// Page 20's frame fails, so the page moves to page 10's old frame. Page 40's frame is free.
fn nearly_in_place(options: &str) -> Machine {
    let mut machine = in_place(&format!("perforated:{options}"));
    machine.event(advise(BASE + 10 * PAGE, PAGE, Advice::DontNeed));
    assert_eq!(retire(&mut machine, TOP + 20), HardFault::Moved);
    assert_eq!(machine.frame(BASE + 20 * PAGE), Some(TOP + 10));
    machine.event(advise(BASE + 40 * PAGE, PAGE, Advice::DontNeed));
    machine
}

#[test]
fn what_is_not_in_place_becomes_holes() {
    let mut machine = nearly_in_place("");
    let done = pass(&mut machine);
    assert_eq!((done.regions_collapsed, done.regions_perforated), (0, 1));
    // One zeroed frame and two holes of 2 cost 5. A copy would cost 510 and 2 zeroed frames.
    let names = ["promoted_in_place", "frames_copied", "zeroed_bytes", "holes_left"];
    assert_eq!(counters(&machine, names), [1, 0, PAGE, 2]);
    let mut expected = unmaps((0..512).filter(|subpage| ![10, 40].contains(subpage)));
    expected.push(remove(1, BASE, 0));
    let length = expected.len();
    assert_eq!(machine.updates[..length], expected);
    let node = match machine.updates[length] {
        Update::Table(TableOperation::AddNode { level: 1, frame, branch: HOLE_BRANCH, .. }) => {
            frame
        }
        ref other => panic!("{other:?}"),
    };
    assert!(node.number() < TOP);
    let (space, permissions) = (SPACE, Permissions::READ_WRITE);
    let holes: HoleSet = [10, 20].into_iter().collect();
    let block = Frame::new(TOP);
    let perforated =
        PerforatedOperation::Perforate { space, page: page(BASE), block, permissions, holes };
    let hole = page(BASE + 20 * PAGE);
    let frame = Frame::new(TOP + 10);
    let mapped = PerforatedOperation::MapHole { space, page: hole, frame, permissions };
    assert_eq!(machine.updates[length + 1..], [perforated.into(), mapped.into()]);
    assert_eq!(machine.frame(BASE + 40 * PAGE), Some(TOP + 40));
    assert_eq!(machine.frame(BASE + 10 * PAGE), None);
    // A frame inside the page no longer has an entry of its own: when it fails, its sub-page is
    // punched.
    assert_eq!(retire(&mut machine, TOP + 30), HardFault::Punched);
    // The frame of a hole has its own entry: its data move.
    assert_eq!(retire(&mut machine, TOP + 10), HardFault::Moved);
    machine.assert_memory_adds_up();
    // The in-place frames of pages 10 and 20 have failed.
    for subpage in [10, 20] {
        let refused = machine.patch(BASE + subpage * PAGE);
        assert!(matches!(refused, Err(OsError::Occupied { .. })), "{refused:?}");
    }
}

#[test]
fn holes_in_place_may_cost_more_than_a_copy() {
    // Holes cost 1 + 2·255 = 511, a copy 510 + 2 = 512; with a hole cost of 256 the holes cost 513.
    for (options, in_place) in [("hole-cost=255", 1), ("hole-cost=256", 0)] {
        let mut machine = nearly_in_place(options);
        pass(&mut machine);
        let names = ["promoted_in_place", "promoted_by_collapse"];
        assert_eq!(counters(&machine, names), [in_place, 1 - in_place], "{options}");
    }
}

#[test]
fn a_page_that_waits_for_its_copy_stays_read_only_in_its_hole() {
    let mut machine = in_place("perforated");
    machine.event(fork(1));
    // All frames are shared after the fork. The parent's copies of pages 3 to 511 are its own, and
    // so are the child's old pages. The first three pages are still shared.
    for subpage in 3..512 {
        machine.write(BASE + subpage * PAGE);
    }
    machine.event(switch(1));
    set(&mut machine, "pages-to-scan=512");
    pass(&mut machine); // The parent: by a copy.
    assert_eq!(counters(&machine, ["promoted_by_collapse", "frames_copied"]), [1, 512]);
    pass(&mut machine); // The child, whose pages are all its own now.
    assert_eq!(counters(&machine, ["promoted_in_place", "holes_left"]), [1, 0]);
    // The child is scanned first: three holes keep their frames.
    let mut machine = in_place("perforated");
    machine.event(fork(1));
    for subpage in 3..512 {
        machine.write(BASE + subpage * PAGE);
    }
    machine.event(advise(BASE, 2 * MB, Advice::NoHugePage));
    machine.event(switch(1));
    pass(&mut machine);
    assert_eq!(counters(&machine, ["promoted_in_place", "holes_left"]), [1, 3]);
    let (frame, permissions) = machine.translate(BASE).unwrap();
    assert_eq!((frame.number(), permissions.write), (TOP, false));
    assert!(machine.translate(BASE + 3 * PAGE).unwrap().1.write);
    machine.write(BASE);
    assert_ne!(machine.frame(BASE), Some(TOP), "the parent has it");
    machine.assert_copies_on_write();
}

#[test]
fn only_whole_private_anonymous_regions_and_only_where_wanted() {
    let mut machine = touched("base-pages", 0..512);
    assert_eq!(pass(&mut machine).pages_scanned, 0);
    let mut machine = touched("thp-madvise", 0..512);
    assert_eq!(pass(&mut machine).regions_collapsed, 1, "the program asked");
    let mut machine = Machine::new("thp-madvise", 64 * MB);
    machine.event(populate(BASE, 2 * MB));
    assert_eq!(pass(&mut machine).pages_scanned, 0, "it did not");
    for page in [BASE, BASE + 511 * PAGE] {
        let mut machine = touched("thp", 0..512);
        machine.event(unmap(page, PAGE));
        assert_eq!(pass(&mut machine).pages_scanned, 0, "the area lacks {page:x}");
        let mut machine = touched("thp", 0..512);
        machine.event(protect(page, PAGE, Permissions::READ));
        assert_eq!(pass(&mut machine).pages_scanned, 0, "{page:x} is an area of its own");
    }
    for (backing, shared) in [(Backing::File, false), (Backing::Anonymous, true)] {
        let mut machine = Machine::new("thp", 64 * MB);
        let start = VirtualAddress::new(BASE);
        let permissions = Permissions::READ_WRITE;
        let (length, accessible, populate) = (2 * MB, true, false);
        let event =
            ProgramEvent::Map { start, length, permissions, accessible, backing, shared, populate };
        machine.event(event);
        machine.event(advise(BASE, 2 * MB, Advice::NoHugePage));
        machine.write(BASE);
        machine.event(advise(BASE, 2 * MB, Advice::HugePage));
        assert_eq!(pass(&mut machine).pages_scanned, 0, "{backing:?}, shared {shared}");
    }
}

#[test]
fn injected_fragmentation_stays() {
    for policy in ["thp", "perforated"] {
        let fragmentation = "portion=100%,holes=25%,dispersed";
        let mut machine = Machine::fragmented(policy, memory(policy), fragmentation);
        machine.map(BASE, 2 * MB);
        machine.event(advise(BASE, 2 * MB, Advice::NoHugePage));
        machine.write(BASE);
        machine.event(advise(BASE, 2 * MB, Advice::HugePage));
        assert_eq!(pass(&mut machine).regions_collapsed, 0);
        assert_eq!(counters(&machine, ["refused_injected"]), [1], "{policy}");
    }
}

#[test]
fn passes_go_on_where_the_last_one_ended() {
    let mut machine = Machine::new("thp", 64 * MB);
    machine.map(BASE, 6 * MB);
    machine.event(advise(BASE, 6 * MB, Advice::NoHugePage));
    machine.event(populate_again(BASE, 6 * MB));
    machine.event(advise(BASE, 6 * MB, Advice::HugePage));
    set(&mut machine, "pages-to-scan=513"); // Two regions.
    let passes: Vec<_> = (0..3)
        .map(|_| pass(&mut machine))
        .map(|pass| (pass.pages_scanned, pass.regions_collapsed, pass.ended_full_scan))
        .collect();
    assert_eq!(passes, [(1024, 2, false), (512, 1, true), (0, 0, true)]);
}

#[test]
fn wrong_settings_are_explained() {
    let default: KhugepagedConfig = perforate_config::read("default").unwrap();
    assert_eq!(default, KhugepagedConfig::default());
    let text =
        "pages-to-scan=4096,max-ptes-none=511,max-ptes-swap=64,max-ptes-shared=256,defrag=yes";
    assert_eq!(perforate_config::write(&default), text);
    for (text, reason) in [
        ("pages-to-scan=0", "pages-to-scan: is at least 1, not 0"),
        ("max-ptes-none=512", "max-ptes-none: is at most 511, not 512"),
        ("max-ptes-swap=600", "max-ptes-swap: is at most 511, not 600"),
        ("max-ptes-shared=512", "max-ptes-shared: is at most 511, not 512"),
        ("max-ptes-none=few", "max-ptes-none: expected a whole number"),
        ("defrag=2", "defrag: expected yes or no, not \"2\""),
        ("defrag=1,defrag=1", "defrag is given twice"),
        ("sleep=20", "there is no \"sleep\"; there are pages-to-scan,"),
    ] {
        let error = perforate_config::read::<KhugepagedConfig>(text).expect_err(text).to_string();
        assert!(error.starts_with(reason), "{error}");
    }
}

#[test]
fn swapped_pages_up_to_the_limit_are_read_back() {
    for (limit, collapsed) in [(65, 1), (64, 0)] {
        let config = KernelConfig { swap: Size(64 * MB), ..KernelConfig::new(64 * MB) };
        let mut machine = Machine::configured("thp", config);
        machine.map(BASE, 2 * MB);
        machine.event(advise(BASE, 2 * MB, Advice::NoHugePage));
        (0..512).for_each(|subpage| machine.write(BASE + subpage * PAGE));
        machine.event(advise(BASE, 2 * MB, Advice::HugePage));
        machine.event(advise(BASE, 65 * PAGE, Advice::Other(21)));
        set(&mut machine, &format!("max-ptes-swap={limit}"));
        assert_eq!(pass(&mut machine).regions_collapsed, collapsed);
        let refused = counters(&machine, ["refused_swapped", "refused_absent", "frames_copied"]);
        assert_eq!(refused, [1 - collapsed, 0, 512 * collapsed]);
        let swapped = ["swap_outs", "swap_ins"].map(|name| machine.counter(name));
        assert_eq!(swapped, [65, 65 * collapsed]);
    }
}

/// MADV_COLLAPSE takes regions that lie in the range as a whole, compacts memory whatever the scanner may, and
/// leaves the scanner's settings as they are.
#[test]
fn a_request_collapses_whole_regions_and_is_no_scan() {
    let mut machine = half_full();
    set(&mut machine, "defrag=0,max-ptes-none=0");
    machine.event(advise(BASE, 2 * MB - PAGE, Advice::Other(25)));
    assert_eq!(machine.counter("large_pages"), 0, "a part of a region");
    machine.event(advise(BASE, 2 * MB, Advice::Other(25)));
    assert_eq!(machine.counter("large_pages"), 1);
    let names = ["pages_scanned", "full_scans", "promoted_by_collapse", "pages_made_whole"];
    assert_eq!(counters(&machine, names), [0, 0, 1, 1]);
    machine.event(advise(BASE + 2 * MB, 2 * MB, Advice::HugePage));
    assert_eq!(pass(&mut machine).regions_collapsed, 0);
    assert_eq!(counters(&machine, ["refused_absent", "refused_no_block"]), [1, 0]);
    set(&mut machine, "defrag=0");
    pass(&mut machine);
    assert_eq!(counters(&machine, ["refused_absent", "refused_no_block"]), [1, 1]);
}

/// More than half of the pages must lie in place in one block for it to be the region's own.
#[test]
fn half_of_the_pages_in_place_are_not_enough() {
    for (dropped, in_place) in [(0, 0), (1, 1)] {
        let pages = (0..256).chain(257..512).chain([256]);
        let mut machine = touched("perforated:promote=punch,hole-cost=0", pages);
        let own = |page: &u64| machine.frame(BASE + page * PAGE) == Some(TOP + page);
        assert_eq!((0..512).filter(own).count(), 256);
        machine.event(advise(BASE + 300 * PAGE, dropped * PAGE, Advice::DontNeed));
        pass(&mut machine);
        assert_eq!(counters(&machine, ["promoted_in_place"]), [in_place], "{dropped}");
    }
}
