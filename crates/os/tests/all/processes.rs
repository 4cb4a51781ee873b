//! Fork, copy-on-write and shared memory.

use crate::machine;
use crate::machine::{BASE, MB, Machine, fork, page, protect, switch};
use perforate_os::HoleContent;
use perforate_types::{
    PageSize, Permissions, ProcessId, ProgramEvent, Shootdown as S, SpaceId, TableOperation, Update,
};

const SPACE: SpaceId = SpaceId(0);
const RW: Permissions = Permissions::READ_WRITE;
const P4K: PageSize = PageSize::Size4K;

fn protected(address: u64, size: PageSize, permissions: Permissions) -> Update {
    TableOperation::Protect { space: SPACE, page: page(address), size, permissions }.into()
}

fn page_down(address: u64) -> Update {
    S::Page { space: SPACE, page: page(address) }.into()
}

fn bitmap_down(address: u64) -> Update {
    S::Bitmap { space: SPACE, page: page(address) }.into()
}

#[test]
fn fork_shares_and_a_write_copies() {
    let mut machine = Machine::new("base-pages", 64 * MB);
    machine.map(BASE, 2 * MB);
    machine.write(BASE);
    machine.write(BASE + 4096);
    let frame = machine.frame(BASE).unwrap();
    machine.event(fork(1));
    assert!(machine.updates.contains(&protected(BASE, P4K, Permissions::READ)));
    machine.assert_copies_on_write();
    machine.event(switch(1));
    machine.write(BASE);
    assert_ne!(machine.frame(BASE), Some(frame));
    machine.event(switch(0));
    assert_eq!(machine.frame(BASE), Some(frame));
    // The parent is the only user left: its page only becomes writable again.
    machine.write(BASE);
    assert_eq!(machine.updates, [protected(BASE, P4K, RW), page_down(BASE)]);
    assert_eq!(machine.counter("copy_on_write_faults"), 2);
    machine.assert_memory_adds_up();
}

#[test]
fn copy_on_write_punches_perforated_pages_and_splits_conventional_ones() {
    for (policy, large, perforated, base) in [("perforated", 1, 1, 0), ("thp", 1, 0, 512)] {
        let mut machine = Machine::new(policy, 64 * MB);
        machine.map(BASE, 2 * MB);
        machine.write(BASE);
        machine.event(fork(1));
        assert_eq!(machine.counter("large_pages"), 2);
        machine.write(BASE + 9 * 4096);
        assert_eq!(machine.counter("large_pages"), large);
        assert_eq!(machine.counter("perforated_pages"), perforated);
        assert_eq!(machine.counter("base_pages"), base);
        // 512 shared frames and one copy.
        assert_eq!(machine.mapped_frames().len(), 513);
        machine.assert_copies_on_write();
        machine.assert_memory_adds_up();
        machine.event(ProgramEvent::Exit { process: ProcessId(1) });
        assert_eq!(machine.mapped_frames().len(), 512);
        machine.assert_memory_adds_up();
    }
}

/// Sub-pages that the parent wrote during its child's life move back in place after the child has
/// exited, although nothing in place was written since. A hole with permissions of its own stays.
/// While the child lives, everything stays.
#[test]
fn background_promotion_patches_what_was_copied_on_write() {
    let mut machine = Machine::new("perforated", 64 * MB);
    machine.map(BASE, 4 * MB);
    machine.write(BASE);
    machine.write(BASE + 2 * MB);
    machine.event(protect(BASE + 5 * 4096, 4096, Permissions::READ));
    let frames = [9, 300].map(|subpage| machine.frame(BASE + subpage * 4096).unwrap());
    machine.event(fork(1));
    for subpage in [9, 300] {
        machine.write(BASE + subpage * 4096);
    }
    let pass = |machine: &mut Machine| {
        let before = machine.kernel.work();
        machine.act(|kernel| Ok(kernel.khugepaged_pass())).unwrap();
        machine.assert_memory_adds_up();
        machine.assert_copies_on_write();
        machine.assert_account();
        machine.kernel.work() - before
    };
    let work = pass(&mut machine);
    assert_eq!((work.subpages_patched, work.pages_protected), (0, 0));
    machine.event(ProgramEvent::Exit { process: ProcessId(1) });
    let work = pass(&mut machine);
    assert_eq!((work.subpages_patched, work.frames_copied, work.pages_protected), (2, 2, 1));
    assert_eq!([9, 300].map(|subpage| machine.frame(BASE + subpage * 4096).unwrap()), frames);
    assert_eq!((machine.counter("perforated_pages"), machine.counter("holes_allocated")), (1, 1));
    // The other page was not written: it becomes writable with its first write.
    machine.write(BASE + 2 * MB);
    assert_eq!(machine.updates[0], protected(BASE + 2 * MB, PageSize::Size2M, RW));
    // The whole page is writable again, except the part that the program protected.
    machine.write(BASE);
    assert_eq!(machine.updates, []);
}

#[test]
fn a_shared_block_outlives_its_first_owner_and_holes_are_their_own() {
    let mut machine = Machine::new("perforated", 64 * MB);
    machine.map(BASE, 2 * MB);
    machine.write(BASE);
    machine.punch(BASE + 0x1000, HoleContent::Moved).unwrap();
    machine.punch(BASE + 0x2000, HoleContent::Permissions(Permissions::READ)).unwrap();
    machine.event(switch(1));
    let other = machine.kernel.current();
    machine.act(|kernel| kernel.share(SPACE, page(BASE), other)).unwrap();
    let translate =
        |machine: &Machine, space, address: u64| machine.oracle.translate(space, page(address));
    // P Fig. 1: the other space may write where this space may only read.
    assert_eq!(translate(&machine, SPACE, BASE + 0x2000).unwrap().1, Permissions::READ);
    assert_eq!(translate(&machine, other, BASE + 0x2000).unwrap().1, RW);
    for offset in [0, 0x1000, 0x2000] {
        let frame = |space| translate(&machine, space, BASE + offset).unwrap().0;
        assert_eq!(frame(SPACE), frame(other));
    }
    // Punching in one space leaves the frame to the other space, whose bitmap entry is shot down
    // too (P-2).
    machine.punch(BASE + 0x5000, HoleContent::Unallocated).unwrap();
    assert!(machine.updates.contains(&bitmap_down(BASE + 0x5000)));
    assert_eq!(translate(&machine, other, BASE + 0x5000), None);
    assert!(translate(&machine, SPACE, BASE + 0x5000).is_some());
    machine.assert_memory_adds_up();
    machine.event(ProgramEvent::Exit { process: ProcessId(0) });
    assert!(translate(&machine, other, BASE).is_some());
    machine.assert_memory_adds_up();
    machine.event(ProgramEvent::Exit { process: ProcessId(1) });
    assert_eq!(machine.counter("mapped_bytes"), 0);
    machine.assert_memory_adds_up();
}

#[test]
fn a_protected_page_stays_shared_until_it_is_written() {
    let mut machine = Machine::new("thp", 64 * MB);
    machine.map(BASE, 2 * MB);
    machine.write(BASE);
    machine.event(fork(1));
    machine.event(protect(BASE, 2 * MB, Permissions::ALL));
    // The page is executable at once, but writable only after a copy.
    assert_eq!(machine.translate(BASE).unwrap().1, Permissions::READ_EXECUTE);
    machine.assert_copies_on_write();
    machine.write(BASE);
    assert_eq!(machine.translate(BASE).unwrap().1, Permissions::ALL);
}

#[test]
fn shared_memory_stays_writable_over_a_fork() {
    let mut machine = Machine::new("base-pages", 64 * MB);
    let shared = match machine::populate(BASE, 0x2000) {
        ProgramEvent::Map { start, length, permissions, accessible, backing, populate, .. } => {
            let shared = true;
            ProgramEvent::Map { start, length, permissions, accessible, backing, shared, populate }
        }
        _ => unreachable!(),
    };
    machine.event(shared);
    let frame = machine.frame(BASE);
    machine.event(fork(1));
    machine.event(switch(1));
    assert_eq!(machine.frame(BASE), frame);
    assert_eq!(machine.translate(BASE).unwrap().1, RW);
}

#[test]
fn exec_and_exit_leave_nothing_behind() {
    let mut machine = Machine::new("perforated", 64 * MB);
    machine.map(BASE, 4 * MB);
    machine.write(BASE);
    machine.write(BASE + 2 * MB);
    machine.event(fork(7));
    machine.event(switch(7));
    machine.event(ProgramEvent::Exec);
    assert_eq!(machine.frame(BASE), None);
    machine.map(BASE, 2 * MB);
    machine.write(BASE);
    machine.event(ProgramEvent::Exit { process: ProcessId(0) });
    assert_eq!(machine.counter("mapped_bytes"), 2 * MB);
    assert_eq!(machine.maximum("mapped_bytes"), 8 * MB);
    machine.assert_memory_adds_up();
    machine.event(ProgramEvent::Exit { process: ProcessId(7) });
    assert_eq!(machine.counter("page_table_bytes"), 0);
    machine.assert_memory_adds_up();
}

#[test]
fn a_kernel_can_move_to_another_thread() {
    fn is_send<T: Send>() {}
    is_send::<perforate_os::Kernel>();
}

/// Each processor runs a process of its own; the first process of a processor is no switch.
#[test]
fn processors_run_processes_of_their_own() {
    let mut machine = Machine::new("base-pages", 64 * MB);
    let running = |machine: &Machine| {
        [0, 1, 2].map(|processor| machine.kernel.running(processor).map(|space| space.0))
    };
    let switches = |machine: &Machine| machine.kernel.work().context_switches;
    assert_eq!((running(&machine), machine.kernel.current()), ([Some(0), None, None], SPACE));
    machine.kernel.run_on(2);
    assert_eq!(machine.kernel.current(), SPACE, "it goes on with what ran");
    assert_eq!(running(&machine), [Some(0), None, None]);
    machine.event(switch(1));
    assert_eq!((running(&machine), switches(&machine)), ([Some(0), None, Some(1)], 0));
    machine.event(switch(0));
    machine.event(switch(0));
    assert_eq!((running(&machine), switches(&machine)), ([Some(0), None, Some(0)], 1));
    machine.event(switch(1));
    machine.kernel.run_on(0);
    assert_eq!(machine.kernel.current(), SPACE);
    machine.kernel.run_on(1);
    machine.event(switch(1));
    machine.kernel.run_on(0);
    machine.event(switch(1));
    assert_eq!((running(&machine), switches(&machine)), ([Some(1), Some(1), Some(1)], 3));
    // A process that ends leaves the other processors; the own one still has its address space.
    machine.event(ProgramEvent::Exit { process: ProcessId(1) });
    assert_eq!(running(&machine), [Some(1), None, None]);
    assert_eq!(machine.spaces(), [SPACE]);
    machine.event(switch(0));
    assert_eq!((running(&machine), switches(&machine)), ([Some(0), None, None], 4));
    // A fork over a living process ends that process; a process cannot be its own child.
    machine.map(BASE, 4096);
    machine.event(fork(0));
    machine.event(fork(5));
    machine.event(fork(5));
    assert_eq!(machine.spaces().len(), 2);
    assert_eq!(machine.kernel.work().forks, 3);
}
