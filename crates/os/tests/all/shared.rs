//! Shared mappings: all mappings of a page have the same frame, independent of the first touch.

use crate::machine::{
    BASE, GB, MB, Machine, advise, fork, map_shared, page, protect, remap, switch, unmap,
};
use perforate_os::{HoleContent, OsError};
use perforate_types::{
    AccessKind, Advice, Permissions, ProcessId, ProgramEvent, Shootdown, SpaceId, Update,
};

const PAGE: u64 = 4096;
const RW: Permissions = Permissions::READ_WRITE;

/// A machine whose process 0 maps shared memory and forks process 1; nothing is touched yet.
fn parent_and_child(policy: &str, length: u64) -> Machine {
    let mut machine = Machine::new(policy, 64 * MB);
    machine.event(map_shared(BASE, length));
    machine.event(fork(1));
    machine
}

/// Writes to a page as a process and returns the page's frame.
fn touch(machine: &mut Machine, process: u16, address: u64) -> u64 {
    machine.event(switch(process));
    machine.access(address, AccessKind::Write);
    machine.frame(address).expect("just written")
}

fn assert_sound(machine: &Machine) {
    machine.assert_memory_adds_up();
    machine.assert_account();
    machine.assert_copies_on_write();
    machine.assert_shared_memory_is_one();
}

#[test]
fn touches_after_the_fork_are_shared() {
    for (first, second) in [(0, 1), (1, 0)] {
        let mut machine = parent_and_child("base-pages", 4 * PAGE);
        let frame = touch(&mut machine, first, BASE);
        assert_eq!(touch(&mut machine, second, BASE), frame);
        assert_ne!(touch(&mut machine, second, BASE + PAGE), frame);
        // Three faults and two cleared frames; writes copy nothing.
        let work = machine.kernel.work();
        assert_eq!((work.faults_4k, work.frames_zeroed_4k, work.frames_copied), (3, 2, 0));
        assert_eq!(machine.counter("shared_memory_joins"), 1);
        assert_eq!(machine.counter("copy_on_write_faults"), 0);
        assert_eq!(machine.mapped_frames().len(), 2);
        assert_sound(&machine);
    }
}

#[test]
fn private_memory_beside_it_is_still_copied() {
    let mut machine = Machine::new("base-pages", 64 * MB);
    machine.event(map_shared(BASE, PAGE));
    machine.map(BASE + PAGE, PAGE);
    touch(&mut machine, 0, BASE);
    touch(&mut machine, 0, BASE + PAGE);
    machine.event(fork(1));
    let frames = [BASE, BASE + PAGE].map(|address| touch(&mut machine, 0, address));
    assert_eq!(touch(&mut machine, 1, BASE), frames[0]);
    machine.event(switch(1));
    machine.read(BASE + PAGE);
    assert_ne!(machine.frame(BASE + PAGE), Some(frames[1]), "the parent's write copied it");
    // Private pages first touched after the fork belong to each process alone.
    for process in 0..2 {
        machine.event(switch(process));
        machine.map(BASE + 8 * PAGE, PAGE);
    }
    assert_ne!(touch(&mut machine, 0, BASE + 8 * PAGE), touch(&mut machine, 1, BASE + 8 * PAGE));
    assert_sound(&machine);
}

#[test]
fn every_mmap_is_memory_of_its_own() {
    let mut machine = Machine::new("base-pages", 64 * MB);
    machine.event(map_shared(BASE, PAGE));
    machine.event(switch(1));
    machine.event(map_shared(BASE, PAGE));
    assert_ne!(touch(&mut machine, 0, BASE), touch(&mut machine, 1, BASE));
    let place = |process| machine.kernel.shared_place(SpaceId(process), page(BASE)).unwrap();
    assert_ne!(place(0).object, place(1).object);
    assert_sound(&machine);
}

#[test]
fn mremap_moves_the_pages_of_an_object() {
    let to = BASE + 32 * MB + 7 * PAGE;
    let mut machine = parent_and_child("base-pages", 8 * PAGE);
    let early = touch(&mut machine, 1, BASE + 5 * PAGE);
    // Pages 4 to 7 move, and the mapping grows by two pages.
    machine.event(remap(BASE + 4 * PAGE, 4 * PAGE, to, 6 * PAGE));
    assert_eq!(machine.frame(to + PAGE), Some(early));
    assert_eq!(touch(&mut machine, 0, BASE + 5 * PAGE), early);
    let late = touch(&mut machine, 1, to + 2 * PAGE);
    assert_eq!(touch(&mut machine, 0, BASE + 6 * PAGE), late);
    let first = touch(&mut machine, 0, BASE + 4 * PAGE);
    assert_eq!(touch(&mut machine, 1, to), first);
    // Another process whose mapping grew too finds the added pages.
    machine.event(switch(0));
    machine.event(remap(BASE, 8 * PAGE, BASE, 9 * PAGE));
    let grown = touch(&mut machine, 0, BASE + 8 * PAGE);
    assert_eq!(touch(&mut machine, 1, to + 4 * PAGE), grown);
    let place = machine.kernel.shared_place(SpaceId(1), page(to)).unwrap();
    assert_eq!(place.page, 4);
    // mremap of no pages makes a second view in the same process.
    machine.event(switch(1));
    machine.event(remap(to, 0, BASE, 2 * PAGE));
    assert_eq!(touch(&mut machine, 1, BASE), first);
    assert_eq!(touch(&mut machine, 1, BASE + PAGE), early);
    assert_sound(&machine);
}

#[test]
fn a_large_page_is_joined_as_one() {
    for policy in ["thp", "perforated"] {
        let mut machine = parent_and_child(policy, 2 * MB);
        let block = touch(&mut machine, 1, BASE + 9 * PAGE) - 9;
        assert_eq!(touch(&mut machine, 0, BASE + 100 * PAGE), block + 100);
        assert_eq!(machine.counter("large_pages"), 2, "{policy}");
        let work = machine.kernel.work();
        assert_eq!((work.faults_2m, work.blocks_zeroed_2m, work.faults_4k), (2, 1, 0));
        assert_eq!(machine.mapped_frames().len(), 512);
        machine.event(ProgramEvent::Exit { process: ProcessId(1) });
        assert_eq!(machine.translate(BASE + PAGE).unwrap().1, RW);
        assert_eq!(machine.frame(BASE), Some(block));
        assert_sound(&machine);
        machine.event(ProgramEvent::Exit { process: ProcessId(0) });
        assert_eq!(machine.counter("mapped_bytes"), 0);
        assert_sound(&machine);
    }
}

#[test]
fn a_gigabyte_is_joined_as_one() {
    let mut machine = Machine::new("huge-1g", 4 * GB);
    machine.event(map_shared(GB, GB));
    machine.event(fork(1));
    let frame = touch(&mut machine, 0, GB + 5 * PAGE);
    assert_eq!(touch(&mut machine, 1, GB), frame - 5);
    assert_eq!(machine.counter("huge_pages"), 2);
    // Its last page finds it as well.
    machine.event(switch(1));
    machine.event(advise(GB, GB, Advice::DontNeed));
    assert_eq!(touch(&mut machine, 1, 2 * GB - PAGE), frame - 5 + (1 << 18) - 1);
    assert_eq!(machine.counter("huge_pages"), 2);
    // A third process moves its view by 2MB: it can map 2MB pages of the same run.
    machine.event(switch(0));
    machine.event(fork(2));
    machine.event(switch(2));
    machine.event(advise(GB, GB, Advice::DontNeed));
    machine.event(remap(GB, GB, 4 * GB + 2 * MB, GB));
    assert_eq!(touch(&mut machine, 2, 4 * GB + 2 * MB + 5 * PAGE), frame);
    assert_eq!((machine.counter("huge_pages"), machine.counter("large_pages")), (2, 1));
    assert_sound(&machine);
}

#[test]
fn an_address_that_is_not_congruent_gets_4kb_pages_of_the_block() {
    for policy in ["thp", "perforated"] {
        let mut machine = parent_and_child(policy, 4 * MB);
        let to = BASE + 32 * MB + PAGE;
        machine.event(switch(1));
        machine.event(remap(BASE, 4 * MB, to, 4 * MB));
        touch(&mut machine, 0, BASE);
        let block = touch(&mut machine, 0, BASE + 2 * MB);
        // The child's second region lies in the area completely, but begins with page 511 of the
        // object.
        assert_eq!(touch(&mut machine, 1, to + 2 * MB + 20 * PAGE), block + 20);
        assert_eq!((machine.counter("large_pages"), machine.counter("base_pages")), (2, 1));
        assert_sound(&machine);
    }
}

#[test]
fn no_large_page_is_made_over_what_others_have() {
    let mut machine = parent_and_child("thp", 4 * MB);
    machine.event(switch(1));
    machine.event(advise(BASE, 2 * MB, Advice::NoHugePage));
    let small = touch(&mut machine, 1, BASE + 3 * PAGE);
    touch(&mut machine, 0, BASE + 4 * PAGE);
    assert_eq!((machine.counter("large_pages"), machine.counter("base_pages")), (0, 2));
    assert_eq!(touch(&mut machine, 0, BASE + 3 * PAGE), small);
    // The region behind it can have a large page.
    touch(&mut machine, 0, BASE + 2 * MB);
    assert_eq!(machine.counter("large_pages"), 1);
    assert_sound(&machine);
}

#[test]
fn no_gigabyte_is_made_over_what_others_have() {
    let mut machine = Machine::new("huge-1g", 4 * GB);
    machine.event(map_shared(GB, GB));
    machine.event(fork(1));
    machine.event(switch(1));
    machine.event(unmap(GB + 2 * MB, GB - 2 * MB));
    let small = touch(&mut machine, 1, GB + 5 * PAGE);
    // The child has only the first 2MB, as a 2MB page. The parent touches memory behind it.
    touch(&mut machine, 0, GB + 8 * MB);
    assert_eq!((machine.counter("huge_pages"), machine.counter("large_pages")), (0, 2));
    assert_eq!(touch(&mut machine, 0, GB + 5 * PAGE), small);
    assert_sound(&machine);
}

/// Each space has its own holes; sub-pages that need no hole stay in place (P-2, P Fig. 1).
#[test]
fn a_perforated_page_is_joined_with_the_holes_that_have_their_data_elsewhere() {
    let mut machine = parent_and_child("perforated", 2 * MB);
    let block = touch(&mut machine, 0, BASE);
    machine.punch(BASE + 5 * PAGE, HoleContent::Unallocated).unwrap();
    machine.punch(BASE + 6 * PAGE, HoleContent::Moved).unwrap();
    machine.punch(BASE + 7 * PAGE, HoleContent::Permissions(Permissions::READ)).unwrap();
    let moved = machine.frame(BASE + 6 * PAGE).unwrap();
    assert_ne!(moved, block + 6);
    assert_eq!(touch(&mut machine, 1, BASE + 8 * PAGE), block + 8);
    assert_eq!(machine.counter("perforated_pages"), 2);
    assert_eq!(machine.frame(BASE + 6 * PAGE), Some(moved));
    assert_eq!(
        machine.translate(BASE + 7 * PAGE).map(|(f, p)| (f.number(), p)),
        Some((block + 7, RW))
    );
    // No process had data at page 5; the child's new data are the parent's too.
    assert_eq!(machine.frame(BASE + 5 * PAGE), None);
    let fresh = touch(&mut machine, 1, BASE + 5 * PAGE);
    assert_eq!(touch(&mut machine, 0, BASE + 5 * PAGE), fresh);
    // The in-place frame was free, so both map it in place again: the parent has holes 6 and 7, the
    // child has hole 6.
    assert_eq!(fresh, block + 5);
    assert_eq!(machine.counter("holes_allocated"), 3);
    assert_sound(&machine);
}

#[test]
fn a_hole_whose_frame_in_place_others_map_is_patched_by_a_touch() {
    let mut machine = parent_and_child("perforated", 2 * MB);
    let block = touch(&mut machine, 0, BASE);
    touch(&mut machine, 1, BASE + PAGE);
    machine.event(advise(BASE + 9 * PAGE, PAGE, Advice::DontNeed));
    assert_eq!((machine.counter("perforated_pages"), machine.counter("large_pages")), (1, 1));
    assert_eq!(touch(&mut machine, 1, BASE + 9 * PAGE), block + 9);
    assert_eq!((machine.counter("perforated_pages"), machine.counter("large_pages")), (0, 2));
    // An explicit patch has the same effect.
    machine.event(advise(BASE + 9 * PAGE, PAGE, Advice::DontNeed));
    machine.patch(BASE + 9 * PAGE).unwrap();
    assert_eq!(machine.frame(BASE + 9 * PAGE), Some(block + 9));
    assert_sound(&machine);
}

#[test]
fn a_hole_of_one_changes_the_bitmap_of_the_other() {
    let mut machine = parent_and_child("perforated", 2 * MB);
    touch(&mut machine, 0, BASE);
    machine.punch(BASE + PAGE, HoleContent::Unallocated).unwrap();
    touch(&mut machine, 1, BASE);
    machine.punch(BASE + 9 * PAGE, HoleContent::Unallocated).unwrap();
    let parents = Shootdown::Bitmap { space: SpaceId(0), page: page(BASE + 9 * PAGE) };
    assert!(machine.updates.contains(&Update::Shootdown(parents)));
    machine.event(switch(0));
    assert!(machine.frame(BASE + 9 * PAGE).is_some());
    assert_sound(&machine);
}

/// An unmapped page takes its holes out of the bitmap. Other sharers then lose the bitmap entries (of 32
/// sub-pages) that had these holes, and no others.
#[test]
fn holes_that_leave_the_bitmap_invalidate_the_entries_that_had_them() {
    let mut machine = parent_and_child("perforated", 2 * MB);
    touch(&mut machine, 0, BASE);
    machine.punch(BASE + PAGE, HoleContent::Unallocated).unwrap();
    touch(&mut machine, 1, BASE);
    for index in [31, 32, 40, 500] {
        machine.punch(BASE + index * PAGE, HoleContent::Unallocated).unwrap();
    }
    machine.event(unmap(BASE, 2 * MB));
    let of_bitmaps = machine.updates.iter().filter_map(|update| match update {
        Update::Shootdown(Shootdown::Bitmap { space, page }) => Some((*space, *page)),
        _ => None,
    });
    let entry = |index: u64| (SpaceId(0), page(BASE + index * PAGE));
    assert_eq!(of_bitmaps.collect::<Vec<_>>(), [0, 32, 480].map(entry));
    assert_sound(&machine);
}

#[test]
fn a_private_page_in_the_others_large_page_is_not_joined() {
    let mut machine = parent_and_child("perforated", 2 * MB);
    let block = touch(&mut machine, 0, BASE);
    // The parent maps private memory over page 3: a hole with a frame of its own.
    machine.map(BASE + 3 * PAGE, PAGE);
    let private = touch(&mut machine, 0, BASE + 3 * PAGE);
    assert_eq!(touch(&mut machine, 1, BASE), block);
    assert_ne!(touch(&mut machine, 1, BASE + 3 * PAGE), private);
    assert_sound(&machine);
    // A private page may not return in place among shared ones, since fork could not tell them
    // apart.
    machine.event(switch(0));
    let refused = machine.patch(BASE + 3 * PAGE);
    assert!(matches!(refused, Err(OsError::SharingDiffers { .. })), "{refused:?}");
}

/// A mapping of a third process at the same address does not make the parent's private page shared.
#[test]
fn a_private_page_is_not_joined_because_another_has_shared_memory_there() {
    let mut machine = parent_and_child("perforated", 2 * MB);
    machine.event(switch(0));
    machine.event(fork(2));
    let block = touch(&mut machine, 0, BASE);
    machine.map(BASE + 3 * PAGE, PAGE);
    let private = touch(&mut machine, 0, BASE + 3 * PAGE);
    for process in [1, 2] {
        assert_eq!(touch(&mut machine, process, BASE), block);
        assert_eq!(machine.counter("perforated_pages"), 1 + u64::from(process));
    }
    let shared = touch(&mut machine, 1, BASE + 3 * PAGE);
    assert_ne!(shared, private);
    assert_eq!(touch(&mut machine, 2, BASE + 3 * PAGE), shared);
    assert_sound(&machine);
}

#[test]
fn dontneed_and_munmap_drop_the_mapping_and_not_the_data_of_others() {
    let mut machine = parent_and_child("base-pages", 2 * PAGE);
    let frame = touch(&mut machine, 0, BASE);
    touch(&mut machine, 1, BASE);
    machine.event(advise(BASE, PAGE, Advice::DontNeed));
    assert_eq!(machine.frame(BASE), None);
    assert_eq!(touch(&mut machine, 1, BASE), frame);
    assert_eq!(machine.kernel.work().frames_zeroed_4k, 1);
    // When no process maps the memory any more, the next touch clears a new frame.
    for process in 0..2 {
        machine.event(switch(process));
        machine.event(advise(BASE, PAGE, Advice::DontNeed));
    }
    assert_eq!(machine.mapped_frames().len(), 0);
    touch(&mut machine, 1, BASE);
    assert_eq!(machine.kernel.work().frames_zeroed_4k, 2);
    machine.event(unmap(BASE, PAGE));
    assert_eq!(machine.mapped_frames().len(), 0);
    assert_sound(&machine);
}

#[test]
fn the_data_outlive_the_one_who_touched_them_first() {
    let mut machine = parent_and_child("base-pages", 2 * PAGE);
    let frame = touch(&mut machine, 1, BASE);
    touch(&mut machine, 0, BASE);
    machine.event(ProgramEvent::Exit { process: ProcessId(1) });
    assert_eq!(machine.frame(BASE), Some(frame));
    // A grandchild that never touched the page finds its frame too.
    machine.event(fork(2));
    machine.event(switch(2));
    machine.event(advise(BASE, PAGE, Advice::DontNeed));
    assert_eq!(touch(&mut machine, 2, BASE), frame);
    assert_sound(&machine);
}

#[test]
fn exec_drops_everything_and_the_next_touch_begins_anew() {
    let mut machine = parent_and_child("perforated", 2 * MB);
    let block = touch(&mut machine, 0, BASE);
    touch(&mut machine, 1, BASE);
    machine.event(ProgramEvent::Exec);
    assert_eq!(machine.kernel.shared_place(machine.kernel.current(), page(BASE)), None);
    assert!(machine.oracle.mappings(machine.kernel.current()).next().is_none());
    assert_eq!(machine.counter("large_pages"), 1, "the parent's");
    // The same mmap by the new program makes another object.
    machine.event(map_shared(BASE, 2 * MB));
    assert_ne!(touch(&mut machine, 1, BASE), block);
    assert_eq!(touch(&mut machine, 0, BASE), block);
    machine.event(ProgramEvent::Exec);
    assert_eq!(machine.counter("mapped_bytes"), 2 * MB);
    assert_sound(&machine);
}

#[test]
fn each_view_has_its_own_permissions() {
    let mut machine = parent_and_child("thp", 2 * MB);
    let block = touch(&mut machine, 0, BASE);
    machine.event(switch(1));
    machine.event(protect(BASE, 2 * MB, Permissions::READ));
    machine.read(BASE + PAGE);
    assert_eq!(machine.frame(BASE + PAGE), Some(block + 1));
    assert_eq!(machine.translate(BASE).unwrap().1, Permissions::READ);
    machine.event(switch(0));
    assert_eq!(machine.translate(BASE).unwrap().1, RW);
    // After the area is writable again, the child writes to the same frame: no copy, no split.
    machine.event(switch(1));
    machine.event(protect(BASE, 2 * MB, RW));
    assert_eq!(touch(&mut machine, 1, BASE), block);
    assert_eq!(machine.counter("large_pages"), 2);
    assert_sound(&machine);
}

#[test]
fn data_that_others_map_do_not_move_for_one_alone() {
    let mut machine = parent_and_child("perforated", 2 * MB);
    touch(&mut machine, 0, BASE);
    machine.punch(BASE + PAGE, HoleContent::Moved).unwrap();
    touch(&mut machine, 1, BASE);
    for process in 0..2 {
        machine.event(switch(process));
        let punched = machine.punch(BASE + 2 * PAGE, HoleContent::Moved);
        assert!(matches!(punched, Err(OsError::SharedMemory { .. })), "{punched:?}");
        let patched = machine.patch(BASE + PAGE);
        assert!(matches!(patched, Err(OsError::SharedMemory { .. })), "{patched:?}");
    }
    machine.event(ProgramEvent::Exit { process: ProcessId(0) });
    machine.event(switch(1));
    machine.patch(BASE + PAGE).unwrap();
    machine.punch(BASE + 2 * PAGE, HoleContent::Moved).unwrap();
    assert_sound(&machine);
}

#[test]
fn copy_on_write_pages_cannot_be_shared() {
    let mut machine = Machine::new("perforated", 64 * MB);
    machine.map(BASE, 2 * MB);
    machine.write(BASE);
    machine.event(fork(1));
    machine.event(switch(2));
    let third = machine.kernel.current();
    let share =
        |machine: &mut Machine| machine.act(|kernel| kernel.share(SpaceId(0), page(BASE), third));
    let refused = share(&mut machine);
    assert!(matches!(refused, Err(OsError::CopyOnWrite { .. })), "{refused:?}");
    assert_eq!(machine.kernel.shared_place(SpaceId(0), page(BASE)), None);
    machine.assert_copies_on_write();
    // After the child's exit, no page is copy-on-write any more.
    machine.event(ProgramEvent::Exit { process: ProcessId(1) });
    share(&mut machine).unwrap();
    let place = |space| machine.kernel.shared_place(space, page(BASE + PAGE)).unwrap();
    assert_eq!(place(SpaceId(0)), place(third));
    let frame = touch(&mut machine, 2, BASE);
    assert_eq!(touch(&mut machine, 0, BASE), frame);
    assert_eq!(machine.counter("large_pages"), 2);
    assert_sound(&machine);
}

/// Shared memory is never copy-on-write, however many spaces map it, so a further space can share
/// it.
#[test]
fn shared_pages_can_be_shared_with_more_spaces() {
    for is_shared_from_the_start in [false, true] {
        let mut machine = Machine::new("perforated", 64 * MB);
        let length = 2 * MB;
        if is_shared_from_the_start {
            machine.event(map_shared(BASE, length));
        } else {
            machine.map(BASE, length);
        }
        let frame = touch(&mut machine, 0, BASE);
        for process in [1, 2, 3] {
            machine.event(switch(process));
            let to = machine.kernel.current();
            let share = machine.act(|kernel| kernel.share(SpaceId(0), page(BASE), to));
            assert!(share.is_ok(), "{process}: {share:?}");
            assert_eq!(touch(&mut machine, process, BASE), frame);
        }
        assert_eq!(machine.counter("large_pages"), 4);
        assert_sound(&machine);
    }
}

#[test]
fn content_is_the_same_for_all_who_map_it() {
    let mut machine = parent_and_child("base-pages", 2 * PAGE);
    touch(&mut machine, 0, BASE);
    machine.kernel.set_content(SpaceId(0), page(BASE), 77).unwrap();
    machine.event(switch(1));
    let child = machine.kernel.current();
    machine.event(remap(BASE, 2 * PAGE, BASE + 8 * PAGE, 2 * PAGE));
    touch(&mut machine, 1, BASE + 8 * PAGE);
    assert_eq!(machine.kernel.content(child, page(BASE + 8 * PAGE)), Some(77));
    machine.kernel.set_content(child, page(BASE + 8 * PAGE), 78).unwrap();
    assert_eq!(machine.kernel.content(SpaceId(0), page(BASE)), Some(78));
}

/// The child drops its mapping of page 9 and with it the content; its next touch finds the parent's.
#[test]
fn a_hole_that_is_joined_has_the_content_of_the_others() {
    let mut machine = parent_and_child("perforated", 2 * MB);
    touch(&mut machine, 0, BASE);
    touch(&mut machine, 1, BASE);
    machine.event(advise(BASE + 9 * PAGE, PAGE, Advice::DontNeed));
    machine.kernel.set_content(SpaceId(0), page(BASE + 9 * PAGE), 77).unwrap();
    let content = |machine: &Machine| machine.kernel.content(SpaceId(1), page(BASE + 9 * PAGE));
    assert_eq!(content(&machine), None);
    touch(&mut machine, 1, BASE + 9 * PAGE);
    assert_eq!(content(&machine), Some(77));
    machine.assert_frames_have_one_content();
}
