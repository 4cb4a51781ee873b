//! Perforated pages with reserved blocks, patching and demotion, worked by hand.

use crate::machine::expected::{bitmap_down, large_down, page_down};
use crate::machine::{BASE, MB, Machine, fork, page, populate, protect, switch, unmap};
use perforate_os::{HardFault, HoleContent};
use perforate_schemes::perforated::PerforatedOperation;
use perforate_types::{Advice, Frame, Permissions, ProgramEvent, SpaceId};
use perforate_types::{Update, VirtualAddress};

const SPACE: SpaceId = SpaceId(0);
const PAGE: u64 = 4096;
const RESERVE: &str = "perforated:create=reserve";

fn patched(address: u64) -> Update {
    PerforatedOperation::Patch { space: SPACE, page: page(address) }.into()
}

fn dont_need(start: u64, length: u64) -> ProgramEvent {
    ProgramEvent::Advise { start: VirtualAddress::new(start), length, advice: Advice::DontNeed }
}

/// A reserved 2MB page whose first sub-page was written.
fn reserved() -> Machine {
    let mut machine = Machine::new(RESERVE, 64 * MB);
    machine.map(BASE, 2 * MB);
    machine.write(BASE);
    machine
}

#[test]
fn a_touch_patches_one_subpage_of_the_reserved_block() {
    let mut machine = reserved();
    let block = machine.frame(BASE).unwrap();
    assert_eq!(block % 512, 0);
    assert_eq!(machine.counter("perforated_pages"), 1);
    assert_eq!(machine.counter("mapped_bytes"), PAGE);
    assert_eq!(machine.counter("reserved_bytes"), 511 * PAGE);
    assert_eq!(machine.kernel.work().frames_zeroed_4k, 1, "what is reserved is not cleared");
    machine.write(BASE + 70 * PAGE);
    // Sub-page 70 is in region 1, whose 64 sub-pages still have 63 holes: its filter bit stays set.
    let address = BASE + 70 * PAGE;
    assert_eq!(machine.updates, [patched(address), page_down(address), bitmap_down(address)]);
    assert_eq!(machine.frame(address), Some(block + 70));
    assert_eq!(machine.counter("hole_faults"), 1);
    assert_eq!(machine.counter("faulted_bytes"), 2 * PAGE);
    assert_eq!(machine.counter("mapped_bytes"), 2 * PAGE, "no bloat");
    machine.assert_memory_adds_up();
}

#[test]
fn the_last_touch_makes_an_ordinary_large_page() {
    let mut machine = reserved();
    for index in 1..511 {
        machine.write(BASE + index * PAGE);
    }
    assert_eq!(machine.counter("large_pages"), 0);
    machine.write(BASE + 511 * PAGE);
    assert_eq!(machine.counter("large_pages"), 1);
    assert_eq!(machine.counter("perforated_pages"), 0);
    assert_eq!(machine.counter("reserved_bytes"), 0);
    let address = BASE + 511 * PAGE;
    assert!(machine.updates.contains(&large_down(address)), "the filter became empty");
    machine.assert_memory_adds_up();
}

#[test]
fn unmapping_and_dropping_end_reservations() {
    let mut machine = reserved();
    let before = machine.counter("free_bytes");
    machine.event(unmap(BASE + MB, MB));
    assert_eq!(machine.counter("free_bytes"), before + MB);
    assert_eq!(machine.counter("reserved_bytes"), MB - PAGE);
    machine.assert_memory_adds_up();
    // The only page in place is dropped: nothing is mapped any more, so nothing stays reserved.
    machine.event(dont_need(BASE, PAGE));
    assert_eq!(machine.counter("reserved_bytes"), 0);
    assert_eq!(machine.counter("page_table_bytes"), 0);
    assert_eq!(machine.counter("perforated_pages"), 0);
    machine.assert_memory_adds_up();
}

#[test]
fn a_child_reserves_nothing() {
    let mut machine = reserved();
    machine.event(fork(1));
    assert_eq!(machine.counter("reserved_bytes"), 511 * PAGE);
    machine.event(switch(1));
    let address = BASE + 3 * PAGE;
    machine.write(address);
    let child = machine.frame(address).unwrap();
    machine.event(switch(0));
    machine.write(address);
    let parent = machine.frame(address).unwrap();
    assert_eq!(parent, machine.frame(BASE).unwrap() + 3, "its own, in place");
    assert_ne!(parent, child);
    // The 2MB entry is copy-on-write, so the sub-page is a hole that is mapped in place.
    assert_eq!(machine.translate(address).unwrap().1, Permissions::READ_WRITE);
    assert_eq!(machine.counter("reserved_bytes"), 510 * PAGE);
    machine.assert_memory_adds_up();
    machine.assert_copies_on_write();
}

#[test]
fn other_permissions_make_a_hole_in_place() {
    let mut machine = reserved();
    let block = machine.frame(BASE).unwrap();
    machine.event(protect(BASE + MB, MB, Permissions::READ));
    let address = BASE + MB;
    machine.read(address);
    assert_eq!(machine.translate(address), Some((Frame::new(block + 256), Permissions::READ)));
    assert_eq!(machine.counter("holes_allocated"), 1);
    machine.assert_memory_adds_up();
}

#[test]
fn a_failing_frame_that_is_only_reserved_costs_nothing() {
    let mut machine = reserved();
    let block = machine.frame(BASE).unwrap();
    let failing = Frame::new(block + 5);
    let outcome = machine.act(|kernel| Ok(kernel.hard_fault(failing)));
    assert_eq!(outcome, Ok(HardFault::WasFree));
    machine.write(BASE + 5 * PAGE);
    let elsewhere = machine.frame(BASE + 5 * PAGE).unwrap();
    assert!(!(block..block + 512).contains(&elsewhere));
    machine.assert_memory_adds_up();
}

#[test]
fn a_touch_after_dropping_patches_while_the_frame_is_free() {
    let mut machine = Machine::new("perforated", 64 * MB);
    machine.map(BASE, 2 * MB);
    machine.write(BASE);
    machine.event(dont_need(BASE + 8 * PAGE, PAGE));
    assert_eq!(machine.counter("perforated_pages"), 1);
    machine.write(BASE + 8 * PAGE);
    assert_eq!(machine.counter("perforated_pages"), 0);
    assert_eq!(machine.counter("large_pages"), 1);
    machine.assert_memory_adds_up();
}

/// Two areas; the second has frames in the block of the first.
fn mixed(policy: &str) -> (Machine, u64) {
    let mut machine = Machine::new(policy, 64 * MB);
    machine.map(BASE, 2 * MB);
    machine.write(BASE);
    let block = machine.frame(BASE).unwrap();
    machine.event(dont_need(BASE, 4 * PAGE));
    // 4KB pages of another area fill memory, and finally the places of the holes. The last four
    // stay.
    let fill = BASE + 16 * MB;
    let mut next = fill;
    while machine.counter("hole_places_taken") < 4 {
        machine.event(populate(next, PAGE));
        next += PAGE;
    }
    machine.event(unmap(fill, next - 4 * PAGE - fill));
    (machine, block)
}

/// All 64 holes find their places free again: no other hole and no ordinary page got these frames.
#[test]
fn a_hole_leaves_the_places_of_others_free() {
    let mut machine = Machine::new("perforated", 64 * MB);
    machine.map(BASE, 2 * MB);
    machine.write(BASE);
    let block = machine.frame(BASE).unwrap();
    let holes: Vec<u64> = (0..512).step_by(8).collect();
    for &index in &holes {
        machine.punch(BASE + index * PAGE, HoleContent::Moved).unwrap();
        machine.event(populate(BASE + 16 * MB + index * PAGE, PAGE));
    }
    for &index in &holes {
        machine.patch(BASE + index * PAGE).unwrap();
        assert_eq!(machine.frame(BASE + index * PAGE), Some(block + index));
    }
    assert_eq!(machine.counter("hole_places_taken"), 0);
    machine.assert_memory_adds_up();
}

#[test]
fn compaction_patches_holes_by_moving_what_lies_in_them() {
    let (mut machine, block) = mixed("perforated");
    for index in 0..4 {
        machine.write(BASE + index * PAGE);
        assert!(machine.frame(BASE + index * PAGE).unwrap() / 512 != block / 512);
    }
    assert_eq!(machine.counter("holes_allocated"), 4);
    machine.act(|kernel| Ok(kernel.compact())).unwrap();
    assert_eq!(machine.counter("perforated_pages"), 0, "it is an ordinary page again");
    for index in 0..4 {
        assert_eq!(machine.frame(BASE + index * PAGE), Some(block + index));
    }
    let work = machine.kernel.work();
    assert_eq!(work.subpages_patched, 4);
    assert_eq!(work.frames_copied, 4, "the holes' own data");
    assert!(work.frames_migrated >= 4, "what lay in their place");
    machine.assert_memory_adds_up();
    machine.assert_account();
}

#[test]
fn khugepaged_patches_holes_at_a_price_below_what_they_cost() {
    for (policy, knobs, left) in [
        ("perforated", "defrag=1", 4), // Two copies are not less than the two that a hole counts.
        ("perforated:hole-cost=3", "defrag=1", 0),
        ("perforated:hole-cost=3", "defrag=0", 4),
    ] {
        let (mut machine, _) = mixed(policy);
        for index in 0..4 {
            machine.write(BASE + index * PAGE);
        }
        machine.kernel.set_khugepaged(perforate_config::read(knobs).unwrap());
        machine.act(|kernel| Ok(kernel.khugepaged_pass())).unwrap();
        assert_eq!(machine.counter("holes_allocated"), left, "{policy} {knobs}");
        assert_eq!(machine.counter("khugepaged_holes_patched"), 4 - left, "{policy} {knobs}");
        machine.assert_memory_adds_up();
    }
}

#[test]
fn khugepaged_patches_what_is_free_if_that_is_worth_a_copy() {
    for (policy, left) in [("perforated", 0), ("perforated:hole-cost=1", 4)] {
        let (mut machine, _) = mixed(policy);
        for index in 0..4 {
            machine.write(BASE + index * PAGE);
        }
        machine.event(unmap(BASE + 16 * MB, 64 * MB));
        machine.act(|kernel| Ok(kernel.khugepaged_pass())).unwrap();
        assert_eq!(machine.counter("holes_allocated"), left, "{policy}");
    }
}

#[test]
fn compaction_leaves_holes_that_nobody_touched() {
    let (mut machine, _) = mixed("perforated");
    machine.act(|kernel| Ok(kernel.compact())).unwrap();
    assert_eq!(machine.counter("holes_unallocated"), 4);
    machine.assert_memory_adds_up();
}

#[test]
fn too_many_holes_demote() {
    // 25 % of 512 are 128: at 129 holes the page is demoted, and nothing is copied.
    let policy = "perforated:max-hole-share=25%,demote-above=25%";
    let mut machine = Machine::new(policy, 64 * MB);
    machine.map(BASE, 2 * MB);
    machine.write(BASE);
    let block = machine.frame(BASE).unwrap();
    machine.event(dont_need(BASE, 128 * PAGE));
    assert_eq!(machine.counter("perforated_pages"), 1);
    machine.event(dont_need(BASE + 128 * PAGE, PAGE));
    assert_eq!(machine.counter("perforated_pages"), 0);
    assert_eq!(machine.counter("base_pages"), 512 - 129);
    assert_eq!(machine.frame(BASE + 200 * PAGE), Some(block + 200));
    assert_eq!(machine.frame(BASE), None);
    assert_eq!(machine.kernel.work().frames_copied, 0);
    assert_eq!(machine.kernel.work().large_pages_split, 1);
    machine.assert_memory_adds_up();
    machine.assert_account();
}

#[test]
fn untouched_reserved_subpages_do_not_demote() {
    let policy = "perforated:create=reserve,max-hole-share=1%,demote-above=1%";
    let mut machine = Machine::new(policy, 64 * MB);
    machine.map(BASE, 2 * MB);
    machine.write(BASE);
    machine.write(BASE + PAGE);
    machine.event(dont_need(BASE + PAGE, PAGE));
    assert_eq!(machine.counter("perforated_pages"), 1);
    assert_eq!(machine.counter("reserved_bytes"), 510 * PAGE);
    // 1 % of 512 sub-pages are 5.
    machine.event(dont_need(BASE + 2 * PAGE, 5 * PAGE));
    assert_eq!(machine.counter("perforated_pages"), 1, "nothing was punched: they were reserved");
    machine.event(populate(BASE, 10 * PAGE));
    assert_eq!(machine.counter("perforated_pages"), 1);
    machine.event(dont_need(BASE + 2 * PAGE, 6 * PAGE));
    assert_eq!(machine.counter("perforated_pages"), 0, "six that were in place went");
    machine.assert_memory_adds_up();
}
