//! Gap-tolerant superpages: how the operating system makes, changes and releases them (G §3.8).

use crate::machine;
use crate::machine::{BASE, MB, Machine, fork, operation, policy, protect, remap, switch, unmap};
use perforate_config::Size;
use perforate_os::{HardFault, Kernel, KernelConfig, OsError, TableFormat, ZoneLayout};
use perforate_schemes::gap_tolerant::SuperpageOperation;
use perforate_schemes::gap_tolerant::availability_vectors;
use perforate_types::{
    AccessKind, Advice, Frame, GapTolerance, Permissions, Update, VirtualAddress,
};

const PAGE: u64 = 4096;

fn gap_tolerant(mode: GapTolerance) -> TableFormat {
    TableFormat { gap_tolerance: Some(mode), ..TableFormat::default() }
}

fn config(mode: GapTolerance, memory_bytes: u64) -> KernelConfig {
    KernelConfig { tables: gap_tolerant(mode), ..KernelConfig::new(memory_bytes) }
}

/// Policy that accepts slices with half of their B-blocks (G §3.3), so that small examples can use
/// every block.
const FROM_HALF: &str = "gap-tolerant:least-blocks=32";

fn machine(mode: GapTolerance, memory_bytes: u64) -> Machine {
    Machine::configured(FROM_HALF, config(mode, memory_bytes))
}

/// Retires free faulty frames.
fn retire(machine: &mut Machine, frames: impl IntoIterator<Item = u64>) {
    for frame in frames {
        assert_eq!(hard_fault(machine, frame), HardFault::WasFree);
    }
}

fn hard_fault(machine: &mut Machine, frame: u64) -> HardFault {
    let frame = Frame::new(frame);
    machine.act(|kernel| Ok(kernel.hard_fault(frame))).unwrap()
}

fn superpages_mapped(machine: &Machine) -> usize {
    let is_superpage =
        |update: &&Update| matches!(operation(update), Some(SuperpageOperation::Map { .. }));
    machine.updates.iter().filter(is_superpage).count()
}

/// Slices of 8MB: the first two superpages of 4MB share the lowest slice, contiguously like 2MB
/// pages.
#[test]
fn whole_slices_hold_two_superpages_each() {
    let mut machine = machine(GapTolerance::SINGLE_4M, 64 * MB);
    machine.map(BASE, 16 * MB);
    for (superpage, first) in [(0, 0), (1, 1024), (2, 2048)] {
        let start = BASE + superpage * 4 * MB;
        machine.write(start + 9 * PAGE);
        assert_eq!(superpages_mapped(&machine), 1);
        assert_eq!(machine.frame(start), Some(first));
        assert_eq!(machine.frame(start + 4 * MB - PAGE), Some(first + 1023));
    }
    assert_eq!(machine.counter("superpage_bytes"), 12 * MB);
    assert_eq!(machine.counter("base_pages"), 0);
    assert_eq!(machine.counter("page_faults"), 3);
    // Three tables of one frame each: there is no level-1 node.
    assert_eq!(machine.counter("page_table_bytes"), 3 * PAGE);
    machine.assert_memory_adds_up();
}

/// B-blocks of 16 frames. Frames 0 and 35 spoil B-blocks 0 and 2. So virtual block 0 lies in
/// B-block 1, block 1 in 3, and the last, 31, in 33.
#[test]
fn retired_frames_are_skipped_in_order() {
    let mut machine = machine(GapTolerance::SINGLE_2M, 64 * MB);
    retire(&mut machine, [0, 35]);
    assert_eq!(availability_vectors(&machine.kernel)[0], !0b101);
    machine.map(BASE, 2 * MB);
    machine.write(BASE);
    assert_eq!(machine.frame(BASE), Some(16));
    assert_eq!(machine.frame(BASE + 15 * PAGE), Some(31));
    assert_eq!(machine.frame(BASE + 16 * PAGE), Some(48));
    assert_eq!(machine.frame(BASE + 511 * PAGE), Some(33 * 16 + 15));
    // 62 B-blocks were usable: the remaining 30 are too few for a second superpage.
    assert_eq!(availability_vectors(&machine.kernel)[0].count_ones(), 30);
    machine.map(BASE + 2 * MB, 2 * MB);
    machine.write(BASE + 2 * MB);
    assert_eq!(machine.frame(BASE + 2 * MB), Some(1024), "the next slice");
    machine.assert_memory_adds_up();
}

/// 32 usable B-blocks suffice, 31 do not. Memory that no superpage uses serves as 4KB pages.
#[test]
fn thirty_two_usable_blocks_are_enough_and_the_rest_serves_as_base_pages() {
    let mut machine = machine(GapTolerance::SINGLE_1M, 16 * MB);
    // Tables lie in separate pageblocks at the end of memory.
    machine.map(BASE + 64 * MB, PAGE);
    machine.write(BASE + 64 * MB);
    // Slices have 512 frames in B-blocks of 8. The last four slices keep only a few frames, for
    // further tables.
    let free = |machine: &Machine, frame: &u64| machine.kernel.zones().is_free(Frame::new(*frame));
    let last = (4 * 512..8 * 512 - 32).filter(|frame| free(&machine, frame)).collect::<Vec<_>>();
    retire(&mut machine, last.into_iter().chain([512 + 511]));
    let block = |slice: u64, block: u64| slice * 512 + block * 8;
    retire(&mut machine, (0..32).flat_map(|b| [1, 2, 3].map(|slice| block(slice, b))));
    let vectors = availability_vectors(&machine.kernel);
    let usable: Vec<u32> = vectors.iter().map(|vector| vector.count_ones()).collect();
    assert_eq!(usable[..4], [64, 31, 32, 32]);
    assert_eq!(machine.counter("slices_allocatable"), 3);
    machine.map(BASE, 6 * MB);
    // Two superpages of 1MB at once, both from slice 0; then one each from slices 2 and 3.
    machine.write(BASE);
    assert_eq!((superpages_mapped(&machine), machine.frame(BASE + MB)), (2, Some(256)));
    machine.write(BASE + 2 * MB);
    assert_eq!(machine.frame(BASE + 2 * MB), Some(block(2, 32)));
    assert_eq!(machine.frame(BASE + 3 * MB), Some(block(3, 32)));
    // No slice is left: 4KB pages, some of them in the 7 good frames of each spoilt B-block.
    (0..512).for_each(|page| machine.write(BASE + 4 * MB + page * PAGE));
    assert_eq!(machine.counter("base_pages"), 1 + 512);
    assert_eq!(machine.counter("superpage_failures"), 1, "the region has a node from then on");
    machine.assert_memory_adds_up();
}

/// Slice 0 is whole and has room for two superpages. Slice 1 has 32 good B-blocks: too few by
/// default (more than half), enough with a limit of 32.
#[test]
fn the_threshold_is_an_option() {
    for (policy, superpages) in [("gap-tolerant", 4 * MB), ("gap-tolerant:least-blocks=32", 6 * MB)]
    {
        let config = config(GapTolerance::SINGLE_2M, 12 * MB);
        let mut machine = Machine::configured(policy, config);
        machine.map(BASE, 6 * MB);
        machine.write(BASE);
        // Slice 1 keeps 32 usable B-blocks, slice 2 keeps 31.
        let vectors = availability_vectors(&machine.kernel).to_vec();
        let surplus = |slice: u64, kept: u64| {
            let usable = (0..64).filter(|block| vectors[slice as usize] >> block & 1 != 0);
            let usable: Vec<u64> = usable.collect();
            let lost = usable[kept as usize..].to_vec();
            lost.into_iter().map(move |block| slice * 1024 + block * 16 + 15)
        };
        retire(&mut machine, surplus(1, 32).chain(surplus(2, 31)).collect::<Vec<_>>());
        (1..3).for_each(|region| machine.write(BASE + region * 2 * MB));
        assert_eq!(machine.counter("superpage_bytes"), superpages, "{policy}");
    }
}

/// Two slices with a common selection become a pair; whole slices pair with themselves.
#[test]
fn pairs_by_algorithm_1() {
    let mut machine = machine(GapTolerance::PAIRED_2M, 128 * MB);
    // Slices of 512 frames in B-blocks of 8: slices 3 and 9 have faults in B-blocks 0 and 1.
    retire(&mut machine, [3 * 512, 9 * 512 + 8]);
    machine.map(BASE, 126 * MB);
    machine.write(BASE);
    let first = machine.updates.iter().find_map(|update| match operation(update) {
        Some(SuperpageOperation::Map { slice, second, selection, .. }) => {
            Some((slice.number(), second.number(), *selection))
        }
        _ => None,
    });
    // Whole slices come first, each with two superpages of 1MB.
    assert_eq!(first, Some((0, 0, !0)));
    assert_eq!(machine.frame(BASE + 2 * MB - PAGE), Some(511));
    let mut pair = None;
    for entry in 1..63 {
        machine.write(BASE + entry * 2 * MB);
        for update in &machine.updates {
            if let Some(&SuperpageOperation::Map { page, slice, second, selection, .. }) =
                operation(update)
                && slice != second
            {
                assert!(pair.replace((page, slice, second, selection)).is_none(), "one pair");
            }
        }
    }
    let (page, slice, second, selection) = pair.expect("the two slices with faults");
    assert_eq!((slice.number(), second.number()), (3 * 512, 9 * 512));
    assert_eq!(selection, 0xffff_ffff << 2);
    let frame = |index| machine.frame(page.add(index).address().value()).unwrap();
    assert_eq!((frame(0), frame(255)), (3 * 512 + 16, 3 * 512 + 16 + 255));
    assert_eq!((frame(256), frame(511)), (9 * 512 + 16, 9 * 512 + 16 + 255));
    machine.assert_memory_adds_up();
}

#[test]
fn unmapping_a_part_demotes_the_rest() {
    let mut machine = machine(GapTolerance::SINGLE_4M, 64 * MB);
    machine.map(BASE, 8 * MB);
    machine.write(BASE);
    machine.write(BASE + 4 * MB);
    machine.event(unmap(BASE + 3 * PAGE, PAGE));
    assert_eq!(machine.counter("base_pages"), 1023);
    assert_eq!(machine.counter("superpage_bytes"), 4 * MB);
    assert_eq!(machine.frame(BASE + 2 * PAGE), Some(2), "they stay where they were");
    machine.event(protect(BASE + 4 * MB, 4 * MB, Permissions::READ));
    assert_eq!(machine.counter("superpage_bytes"), 4 * MB, "all of it may be protected");
    machine.event(protect(BASE + 6 * MB, 4096, Permissions::READ_WRITE));
    assert_eq!(machine.counter("superpage_bytes"), 0);
    machine.event(unmap(BASE, 8 * MB));
    assert_eq!(machine.counter("free_bytes"), 64 * MB);
    assert_eq!(availability_vectors(&machine.kernel), [!0; 8]);
    machine.assert_memory_adds_up();
}

/// The 1MB mode: an entry for a level-1 node takes the place of both superpages of its 2MB.
#[test]
fn two_superpages_of_1mb_become_base_pages_together() {
    let mut machine = machine(GapTolerance::SINGLE_1M, 64 * MB);
    machine.map(BASE, 3 * MB);
    machine.write(BASE + 2 * MB);
    assert_eq!(machine.counter("base_pages"), 1, "its 2MB are not all of the area");
    machine.write(BASE);
    assert_eq!(machine.counter("superpage_bytes"), 2 * MB);
    machine.event(unmap(BASE + PAGE, PAGE));
    assert_eq!(machine.counter("superpage_bytes"), 0);
    assert_eq!(machine.counter("base_pages"), 512);
    // One half is unmapped as a whole: the other half stays a superpage.
    machine.map(BASE + 8 * MB, 2 * MB);
    machine.write(BASE + 8 * MB);
    machine.event(unmap(BASE + 8 * MB, MB));
    assert_eq!(machine.counter("superpage_bytes"), MB);
    // A page in the free half needs a node, for which the other half is demoted.
    machine.map(BASE + 8 * MB, PAGE);
    machine.write(BASE + 8 * MB);
    assert_eq!(machine.counter("superpage_bytes"), 0);
    assert_eq!(machine.counter("base_pages"), 512 + 257);
    machine.assert_memory_adds_up();
}

#[test]
fn a_failing_frame_moves_its_superpage_or_makes_base_pages() {
    let mut machine = machine(GapTolerance::SINGLE_4M, 16 * MB);
    machine.map(BASE, 4 * MB);
    machine.write(BASE);
    assert_eq!(hard_fault(&mut machine, 40), HardFault::Relocated);
    // The other half of the first slice was free, and is the lowest.
    assert_eq!(machine.frame(BASE), Some(1024));
    assert_eq!(availability_vectors(&machine.kernel)[0], 0xffff_fffd, "B-block 1 has the fault");
    assert_eq!(machine.kernel.work().frames_migrated, 1024);
    // B-blocks 0 and 2 to 31 of slice 0 are too few, and slice 1 is spoilt, so 4KB pages remain.
    retire(&mut machine, (0..33).map(|block| 2048 + block * 32));
    assert_eq!(hard_fault(&mut machine, 1024 + 7), HardFault::Split);
    assert_eq!(machine.counter("base_pages"), 1024);
    assert_ne!(machine.frame(BASE + 7 * PAGE), Some(1024 + 7));
    assert_eq!(machine.frame(BASE + 8 * PAGE), Some(1024 + 8));
    assert_eq!(machine.counter("retired_bytes"), 35 * PAGE);
    machine.assert_memory_adds_up();
}

/// The child has a copy of the page with the failing frame, which only the parent maps, and shares
/// the other pages. The superpage stays where the child reads it. It is split, although there is
/// room for another.
#[test]
fn a_superpage_that_others_map_in_part_is_not_moved() {
    let mut machine = machine(GapTolerance::SINGLE_4M, 64 * MB);
    machine.map(BASE, 4 * MB);
    machine.write(BASE);
    machine.event(fork(1));
    machine.event(switch(1));
    machine.write(BASE + 7 * PAGE);
    assert_ne!(machine.frame(BASE + 7 * PAGE), Some(7));
    machine.event(switch(0));
    assert_eq!(hard_fault(&mut machine, 8), HardFault::Uncorrected, "both map it");
    assert_eq!(hard_fault(&mut machine, 7), HardFault::Split);
    assert_ne!(machine.frame(BASE + 7 * PAGE), Some(7));
    for process in [0, 1] {
        machine.event(switch(process));
        assert_eq!(machine.frame(BASE + 8 * PAGE), Some(8), "still one frame for both");
    }
    assert_eq!(machine.kernel.work().frames_migrated, 1);
    machine.assert_copies_on_write();
    machine.assert_memory_adds_up();
}

/// Regions inside superpages are found, since single pages can be detached from superpages.
#[test]
fn both_regions_of_a_superpage_are_found() {
    let mut machine = machine(GapTolerance::SINGLE_4M, 64 * MB);
    machine.map(BASE, 4 * MB);
    machine.write(BASE);
    let space = machine.kernel.space(machine.kernel.current()).expect("it lives");
    let region = BASE / (2 * MB);
    let found = [0, region, region + 1, region + 2].map(|number| space.next_region(number));
    assert_eq!(found, [Some(region), Some(region), Some(region + 1), None]);
}

#[test]
fn copy_on_write_makes_base_pages_of_the_writers_alone() {
    let mut machine = machine(GapTolerance::SINGLE_2M, 64 * MB);
    machine.map(BASE, 2 * MB);
    machine.write(BASE);
    machine.event(fork(1));
    assert_eq!(machine.counter("superpage_bytes"), 4 * MB, "both map the same superpage");
    machine.write(BASE + 5 * PAGE);
    assert_eq!(machine.counter("superpage_bytes"), 2 * MB);
    assert_ne!(machine.frame(BASE + 5 * PAGE), Some(5));
    machine.assert_copies_on_write();
    // After the parent's unmap, the child's superpage is writable as a whole.
    machine.event(unmap(BASE, 2 * MB));
    machine.event(switch(1));
    machine.write(BASE + 6 * PAGE);
    assert_eq!(machine.counter("superpage_bytes"), 2 * MB);
    assert_eq!(machine.frame(BASE + 6 * PAGE), Some(6));
    assert_eq!(
        machine.access(BASE + 7 * PAGE, AccessKind::Write),
        perforate_os::FaultOutcome::Mapped
    );
    assert_eq!(machine.counter("copy_on_write_faults"), 2);
    machine.assert_memory_adds_up();
}

/// A superpage counts as shared while any frame is shared: here neither the first frame nor those
/// behind the written one.
#[test]
fn a_superpage_is_shared_while_any_of_its_frames_is() {
    let mut machine = machine(GapTolerance::SINGLE_2M, 64 * MB);
    machine.map(BASE, 2 * MB);
    machine.write(BASE);
    machine.event(fork(1));
    machine.event(switch(1));
    machine.write(BASE);
    machine.event(switch(0));
    for permissions in [Permissions::READ, Permissions::READ_WRITE] {
        machine.event(protect(BASE, 2 * MB, permissions));
        machine.assert_copies_on_write();
    }
    machine.write(BASE + 5 * PAGE);
    machine.assert_copies_on_write();
    assert_eq!((machine.frame(BASE), machine.counter("superpage_bytes")), (Some(0), 0));
    machine.assert_memory_adds_up();
}

/// Work of three first touches of superpages, and of unmapping a part.
#[test]
fn work_of_superpages() {
    for (mode, region, tables) in
        [(GapTolerance::SINGLE_4M, 4 * MB, 3), (GapTolerance::SINGLE_1M, 2 * MB, 2 + 4)]
    {
        let mut machine = machine(mode, 64 * MB);
        machine.map(BASE, 3 * region);
        (0..3).for_each(|piece| machine.write(BASE + piece * region));
        let work = machine.kernel.work();
        assert_eq!((work.faults_superpage, work.frames_zeroed_tables), (3, tables));
        assert_eq!(work.blocks_zeroed_2m, 3 * region / (2 * MB));
        machine.event(unmap(BASE, region));
        let work = machine.kernel.work() - work;
        assert_eq!((work.spaces_flushed, work.entries_invalidated), (1, 0));
        machine.assert_account();
    }
}

/// In slices of 2MB, two superpages share a slice. Frame 0 leaves room for only one: none is made,
/// and nothing is kept. In 2MB of memory the superpages would leave no frame for tables.
#[test]
fn unmappable_blocks_are_freed() {
    let mut machine = machine(GapTolerance::SINGLE_1M, 4 * MB);
    retire(&mut machine, [0].into_iter().chain((0..33).map(|block| 512 + block * 8)));
    machine.map(BASE, 2 * MB);
    machine.write(BASE);
    assert_eq!((machine.counter("superpages_made"), machine.counter("base_pages")), (0, 1));
    let usable = availability_vectors(&machine.kernel)[0].count_ones();
    assert_eq!(usable, 62, "all but the B-blocks of frame 0 and of the page");
    machine.assert_memory_adds_up();

    let mut machine = self::machine(GapTolerance::PAIRED_2M, 2 * MB);
    machine.map(BASE, 2 * MB);
    machine.write(BASE);
    assert_eq!((machine.counter("superpages_made"), machine.counter("base_pages")), (0, 1));
    assert_eq!(machine.counter("superpage_failures"), 1);
    machine.assert_memory_adds_up();
}

/// 4MB in 4KB pages need two nodes. With a single free frame, nothing changes.
#[test]
fn a_part_cannot_go_without_frames_for_the_nodes() {
    let mut machine = machine(GapTolerance::SINGLE_4M, 16 * MB);
    machine.map(BASE, 24 * MB);
    let (space, mut address) = (machine.kernel.current(), BASE);
    let mut touch = |machine: &mut Machine| {
        let page = machine::page(address);
        address += PAGE;
        machine.act(|kernel| kernel.fault(space, page, AccessKind::Write))
    };
    while touch(&mut machine).is_ok() {}
    let last = (0..24 * MB / PAGE).rev().map(|page| BASE + page * PAGE);
    let last = last.into_iter().find(|&page| machine.frame(page).is_some()).expect("mapped");
    if machine.counter("free_bytes") == 0 {
        machine.event(unmap(last, PAGE));
    }
    assert_eq!(machine.counter("free_bytes"), PAGE);
    let part = unmap(BASE + PAGE, PAGE);
    let result = machine.act(|kernel| kernel.event(&part));
    assert!(matches!(result, Err(OsError::OutOfMemory { .. })));
    assert_eq!((machine.frame(BASE + PAGE), machine.counter("free_bytes")), (Some(1), PAGE));
    machine.assert_memory_adds_up();
}

/// Like pages, superpages come from the highest zone first: the one above 16MB.
#[test]
fn the_highest_zone_goes_first() {
    let config =
        KernelConfig { zones: ZoneLayout::X86, ..config(GapTolerance::SINGLE_4M, 64 * MB) };
    let mut machine = Machine::configured(FROM_HALF, config);
    machine.map(BASE, 4 * MB);
    machine.write(BASE);
    assert_eq!(machine.frame(BASE), Some(16 * MB / PAGE));
}

/// Swap has room for half a superpage of 4MB: it becomes 4KB pages, half of which are swapped out.
#[test]
fn a_superpage_goes_in_part_where_swap_is_short() {
    let config = KernelConfig { swap: Size(2 * MB), ..config(GapTolerance::SINGLE_4M, 16 * MB) };
    let mut machine = Machine::configured(FROM_HALF, config);
    machine.map(BASE, 12 * MB);
    (0..3).for_each(|piece| machine.write(BASE + piece * 4 * MB));
    // Shared memory is not swapped. 1,021 frames are left; memory is short below 160.
    machine.event(machine::map_shared(BASE + 64 * MB, 4 * MB));
    (0..900).for_each(|page| machine.write(BASE + 64 * MB + page * PAGE));
    let demoted = machine.kernel.work().superpages_demoted;
    assert_eq!((machine.counter("swap_outs"), demoted), (512, 1));
    assert_eq!(machine.counter("superpage_bytes"), 8 * MB);
    machine.assert_memory_adds_up();
}

/// Swap takes no shared page, and does not demote a shared superpage.
#[test]
fn shared_superpages_stay_under_pressure() {
    let config = KernelConfig { swap: Size(64 * MB), ..config(GapTolerance::SINGLE_2M, 16 * MB) };
    let mut machine = Machine::configured(FROM_HALF, config);
    machine.map(BASE, 4 * MB);
    machine.write(BASE);
    machine.write(BASE + 2 * MB);
    machine.event(fork(1));
    machine.map(BASE + 4 * MB, 32 * MB);
    (0..32 * MB / PAGE).for_each(|page| machine.write(BASE + 4 * MB + page * PAGE));
    assert!(machine.counter("swap_outs") > 0);
    assert_eq!((machine.frame(BASE), machine.frame(BASE + 2 * MB)), (Some(0), Some(512)));
    assert_eq!(machine.kernel.work().superpages_demoted, 0);
    machine.assert_memory_adds_up();
}

/// The child copied a page, so only the parent maps the old frame. Still that page cannot be
/// swapped without its superpage.
#[test]
fn no_page_leaves_a_superpage_that_others_map() {
    let config = KernelConfig { swap: Size(64 * MB), ..config(GapTolerance::SINGLE_2M, 16 * MB) };
    let mut machine = Machine::configured(FROM_HALF, config);
    machine.map(BASE, 2 * MB);
    machine.write(BASE);
    machine.event(fork(1));
    machine.event(switch(1));
    machine.write(BASE + 5 * PAGE);
    machine.map(BASE + 4 * MB, 32 * MB);
    (0..32 * MB / PAGE).for_each(|page| machine.write(BASE + 4 * MB + page * PAGE));
    assert!(machine.counter("swap_outs") > 0);
    machine.assert_memory_adds_up();
    machine.event(switch(0));
    assert_eq!(machine.frame(BASE + 5 * PAGE), Some(5));
}

#[test]
fn mremap_moves_a_superpage_where_it_can_stay_one() {
    let mut machine = machine(GapTolerance::SINGLE_4M, 64 * MB);
    machine.map(BASE, 8 * MB);
    machine.write(BASE);
    machine.write(BASE + 4 * MB);
    let far = BASE + 256 * MB;
    machine.event(remap(BASE, 4 * MB, far, 4 * MB));
    assert_eq!((machine.frame(far), machine.counter("superpage_bytes")), (Some(0), 8 * MB));
    machine.event(remap(BASE + 4 * MB, 4 * MB, far + 6 * MB, 4 * MB));
    assert_eq!(machine.frame(far + 6 * MB), Some(1024));
    assert_eq!(machine.counter("superpage_bytes"), 4 * MB, "2MB do not fit 4MB");
    machine.assert_memory_adds_up();
}

#[test]
fn advice_and_shared_memory() {
    let mut machine = machine(GapTolerance::SINGLE_2M, 64 * MB);
    machine.map(BASE, 2 * MB);
    machine.event(machine::advise(BASE, 2 * MB, Advice::NoHugePage));
    machine.write(BASE);
    machine.event(machine::map_shared(BASE + 2 * MB, 2 * MB));
    machine.write(BASE + 2 * MB);
    assert_eq!(machine.counter("superpage_bytes"), 0);
    assert_eq!(machine.counter("base_pages"), 2);
}

/// Injected fragmentation is drawn for slices on demand: for as much memory as allocations tried.
#[test]
fn injected_fragmentation_is_drawn_for_as_much_memory_as_is_touched() {
    let fragmentation = Some(perforate_config::read("portion=100%,holes=50%,dispersed").unwrap());
    let config = KernelConfig { fragmentation, ..config(GapTolerance::SINGLE_2M, 256 * MB) };
    let mut machine = Machine::configured(FROM_HALF, config);
    machine.map(BASE, 16 * MB);
    for region in 0..8 {
        machine.write(BASE + region * 2 * MB);
    }
    // No B-block of 16 frames is whole. 16MB were drawn, of which half belongs to others.
    assert_eq!(machine.counter("superpage_bytes"), 0);
    assert_eq!(machine.counter("foreign_bytes"), 8 * MB);
    machine.event(unmap(BASE, 16 * MB));
    machine.map(BASE, 16 * MB);
    machine.write(BASE);
    assert_eq!(machine.counter("foreign_bytes"), 8 * MB, "mapping anew draws nothing");
    machine.assert_memory_adds_up();
}

/// MADV_FREE: nothing is dropped before memory is short; then the advised pages are dropped and the
/// rest stays.
#[test]
fn advice_to_free_holds_for_superpages() {
    let mut machine = machine(GapTolerance::SINGLE_4M, 16 * MB);
    machine.map(BASE, 24 * MB);
    machine.write(BASE);
    machine.write(BASE + 4 * MB);
    machine.event(machine::advise(BASE + 2 * MB, MB, Advice::Free));
    assert_eq!(machine.counter("superpage_bytes"), 8 * MB);
    let pages = (8 * MB / PAGE..).map(|page| BASE + page * PAGE);
    let space = machine.kernel.current();
    let free_pages = machine.counter("free_bytes") / PAGE;
    for address in pages.take(free_pages as usize) {
        let page = machine::page(address);
        let kind = AccessKind::Write;
        machine.act(|kernel| kernel.fault(space, page, kind)).unwrap();
    }
    assert_eq!(machine.counter("superpage_bytes"), 8 * MB, "4MB less, 4MB more");
    let is_mapped = |page: u64| machine.frame(BASE + page * PAGE).is_some();
    assert!((512..768).all(|page| !is_mapped(page)), "what was advised free is gone");
    assert!((0..512).chain(768..1024).all(is_mapped));
    machine.assert_memory_adds_up();
}

/// Superpages are swapped out as a whole, so no frame for a node is needed: memory may have none.
#[test]
fn superpages_go_to_swap_as_a_whole() {
    for mode in [GapTolerance::SINGLE_1M, GapTolerance::SINGLE_2M, GapTolerance::PAIRED_4M] {
        let config = KernelConfig { swap: Size(128 * MB), ..config(mode, 64 * MB) };
        let mut machine = Machine::configured(FROM_HALF, config);
        machine.map(BASE, 128 * MB);
        for page in 0..128 * MB / PAGE {
            machine.write(BASE + page * PAGE);
        }
        assert_eq!(machine.kernel.work().superpages_demoted, 0);
        assert!(machine.counter("swap_outs") >= 64 * MB / PAGE);
        assert_eq!(machine.frame(BASE), None, "the first went first");
        machine.write(BASE + PAGE);
        assert_eq!((machine.frame(BASE), machine.counter("swap_ins")), (None, 1), "page by page");
        machine.assert_memory_adds_up();
    }
}

/// A superpage stays whole if a change of a part gives it the permissions that it has.
#[test]
fn permissions_that_it_has_already_leave_a_superpage() {
    let mut machine = machine(GapTolerance::SINGLE_2M, 64 * MB);
    machine.map(BASE, 2 * MB);
    machine.write(BASE);
    machine.event(protect(BASE + 5 * PAGE, PAGE, Permissions::READ_WRITE));
    assert_eq!(machine.counter("superpage_bytes"), 2 * MB);
    machine.assert_memory_adds_up();
}

/// Injected fragmentation is drawn where slices may lie. Each slice of 4MB holds one superpage, as
/// some B-blocks have holes.
#[test]
fn injected_fragmentation_is_drawn_where_slices_may_lie() {
    for policy in ["gap-tolerant", "gap-tolerant:from=130M"] {
        let fragmentation =
            Some(perforate_config::read("portion=100%,holes=1%,clustered").unwrap());
        let config = KernelConfig { fragmentation, ..config(GapTolerance::SINGLE_2M, 256 * MB) };
        let mut machine = Machine::configured(policy, config);
        machine.map(BASE, 16 * MB);
        for region in 0..8 {
            machine.write(BASE + region * 2 * MB);
        }
        assert_eq!(machine.counter("superpage_bytes"), 8 * MB, "{policy}");
        machine.assert_memory_adds_up();
    }
}

#[test]
fn errors_are_one_clear_line() {
    let mode = Some(GapTolerance::SINGLE_4M);
    for (policy, gap_tolerance, expected) in [
        ("gap-tolerant", None, "gap-tolerant superpages need page tables with GT-PDEs"),
        ("thp", mode, "an address space has either 2MB-page PDEs or GT-PDEs"),
        (
            "gap-tolerant:from=32M,to=128M",
            mode,
            "slices from 32M to 128M: the memory ends at 64M; slices are aligned pieces of 8M",
        ),
        ("gap-tolerant:from=1G", mode, "slices from 1G to 1G: the memory ends at 64M"),
        ("gap-tolerant:to=4K", mode, "slices from 0 to 4K: the memory ends at 64M"),
        ("gap-tolerant:from=4M,to=12M", mode, "slices are aligned pieces of 8M inside it"),
    ] {
        let tables = TableFormat { gap_tolerance, ..TableFormat::default() };
        let config = KernelConfig { tables, ..KernelConfig::new(64 * MB) };
        let error = Kernel::new(config, machine::policy(policy)).err().expect(policy);
        let text = error.to_string();
        assert!(text.contains(expected) && !text.contains('\n'), "{text}");
    }
}

/// G §3.8: 128KB of vectors for 128GB in B-blocks of 128KB, and twice as much for each halving of
/// the size.
#[test]
fn storage_of_the_availability_vectors() {
    for (mode, kilobytes) in [
        (GapTolerance::SINGLE_4M, 128),
        (GapTolerance::SINGLE_2M, 256),
        (GapTolerance::SINGLE_1M, 512),
    ] {
        let policy = policy("gap-tolerant");
        let kernel = Kernel::new(config(mode, 128 << 30), policy).unwrap();
        assert_eq!(size_of_val(availability_vectors(&kernel)), kilobytes << 10);
    }
}

/// After an exit, no page is mapped and all memory is free.
#[test]
fn nothing_is_left_of_a_process_that_exits() {
    let mut machine = machine(GapTolerance::PAIRED_4M, 256 * MB);
    machine.map(BASE, 64 * MB);
    for entry in 0..16 {
        machine.write(BASE + entry * 4 * MB);
    }
    assert_eq!(machine.counter("superpage_bytes"), 64 * MB);
    let page = VirtualAddress::new(BASE).page();
    let space = machine.kernel.current();
    machine.event(perforate_types::ProgramEvent::Exit { process: perforate_types::ProcessId(0) });
    assert_eq!(machine.oracle.translate(space, page), None);
    assert_eq!(machine.counter("free_bytes"), 256 * MB);
    machine.assert_memory_adds_up();
}

/// G §3.8: a process gets the largest B-blocks that suit the memory when it starts; a forked
/// process has its parent's. With every 30th frame retired, no B-block of 128KB is left, fewer than
/// half of those of 64KB, and three quarters of those of 32KB.
#[test]
fn each_process_has_the_largest_b_blocks_that_memory_suits() {
    let options = "gap-tolerant:least-blocks=32,per-process=yes";
    let mut machine = Machine::configured(options, config(GapTolerance::SINGLE_4M, 64 * MB));
    // Mode of the running process.
    let mode = |machine: &Machine| {
        let kernel = &machine.kernel;
        kernel.space(kernel.current()).expect("it lives").tables().gap_tolerance
    };
    assert_eq!(mode(&machine), Some(GapTolerance::SINGLE_4M));
    machine.map(BASE, 8 * MB);
    machine.write(BASE);
    assert_eq!(superpages_mapped(&machine), 1);
    retire(&mut machine, (2048..16384).step_by(30));
    machine.event(switch(1));
    assert_eq!(mode(&machine), Some(GapTolerance::SINGLE_1M));
    machine.map(BASE, 8 * MB);
    machine.write(BASE);
    assert_eq!(superpages_mapped(&machine), 2, "2MB at once");
    machine.event(switch(0));
    machine.event(fork(2));
    machine.event(switch(2));
    assert_eq!(mode(&machine), Some(GapTolerance::SINGLE_4M));
    let counts =
        ["32", "64", "128"].map(|size| machine.counter(&format!("processes_with_{size}kb_blocks")));
    assert_eq!(counts, [1, 0, 2]);
    machine.assert_memory_adds_up();
    machine.assert_account();
}
