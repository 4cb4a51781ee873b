//! Interactions of mechanisms: forks and moving frames, failing frames and demotion, shared memory
//! in perforated pages, memory that runs out half-way.

use crate::machine::{
    BASE, GB, MB, Machine, advise, fork, map_shared, page, populate, protect, switch, unmap,
};
use perforate_os::{FrameClass, HardFault, HoleContent, KernelConfig, OsError};
use perforate_types::{AccessKind, Advice, Frame, Permissions, ProcessId, ProgramEvent};

const PAGE: u64 = 4096;
const PERFORATED: &str = "perforated";

fn hard_fault(machine: &mut Machine, frame: u64) -> HardFault {
    let failing = Frame::new(frame);
    machine.act(|kernel| Ok(kernel.hard_fault(failing))).expect("cannot fail")
}

fn exit(process: u16) -> ProgramEvent {
    ProgramEvent::Exit { process: ProcessId(process) }
}

fn assert_sound(machine: &Machine) {
    machine.assert_memory_adds_up();
    machine.assert_copies_on_write();
    machine.assert_shared_memory_is_one();
}

/// The child mapped the frame last, so the child's page is its recorded owner; then the child
/// writes or exits.
#[test]
fn what_a_child_no_longer_shares_can_be_moved() {
    for child_writes in [true, false] {
        let mut machine = Machine::new("base-pages", 16 * MB);
        machine.map(BASE, 8 * PAGE);
        machine.write(BASE);
        let frame = machine.frame(BASE).unwrap();
        machine.event(fork(1));
        assert_eq!(hard_fault(&mut machine, frame), HardFault::Uncorrected, "it is shared");
        if child_writes {
            machine.event(switch(1));
            machine.write(BASE);
            machine.event(switch(0));
        } else {
            machine.event(exit(1));
        }
        assert_eq!(hard_fault(&mut machine, frame), HardFault::Moved, "{child_writes}");
        assert_ne!(machine.frame(BASE), Some(frame));
        assert_sound(&machine);
    }
}

/// After the unmaps, every second page of each block is free: at least one block can be emptied.
#[test]
fn compaction_moves_what_was_shared_once() {
    let mut machine = Machine::new("base-pages", 16 * MB);
    machine.event(populate(BASE, 8 * MB));
    machine.event(fork(1));
    machine.event(exit(1));
    for index in (0..2048).step_by(2) {
        machine.event(unmap(BASE + index * PAGE, PAGE));
    }
    let done = machine.act(|kernel| Ok(kernel.compact())).expect("cannot fail");
    assert!(done.blocks_emptied >= 1, "{done:?}");
    assert_sound(&machine);
}

/// The child maps a 1GB run as a whole, while the parent's 4KB pages of it have recorded owners;
/// then everything is unmapped.
#[test]
fn a_free_gigabyte_has_no_owners() {
    let mut machine = Machine::new("huge-1g", 4 * GB);
    machine.map(GB, GB);
    machine.write(GB);
    machine.event(fork(1));
    machine.write(GB);
    assert_eq!(machine.counter("base_pages"), 512);
    machine.event(unmap(GB, GB));
    machine.event(exit(1));
    let map = machine.kernel.memory_map();
    assert_eq!(map.frames(FrameClass::Free) * PAGE, machine.counter("free_bytes"));
    machine.kernel.check_invariants().expect("records agree");
}

/// A 2MB page has as many holes as allowed, and memory has one free frame. The data of a failing
/// frame get that frame, and the failing frame does not become a table node.
#[test]
fn a_failing_frame_is_not_used_for_the_demotion_it_causes() {
    let policy = "perforated:max-hole-share=1%,demote-above=1%";
    let mut machine = Machine::new(policy, 4 * MB);
    machine.map(BASE, 2 * MB);
    machine.write(BASE);
    for index in 0..5 {
        machine.punch(BASE + index * PAGE, HoleContent::Moved).expect("memory");
    }
    machine.map(BASE + 2 * MB, 2 * MB);
    machine.event(advise(BASE + 2 * MB, 2 * MB, Advice::NoHugePage));
    for index in 0.. {
        if machine.counter("free_bytes") == PAGE {
            break;
        }
        machine.write(BASE + 2 * MB + index * PAGE);
    }
    let failing = machine.frame(BASE + 9 * PAGE).unwrap();
    assert_eq!(hard_fault(&mut machine, failing), HardFault::Punched);
    assert_eq!(machine.counter("retired_bytes"), PAGE);
    assert_eq!(machine.counter("perforated_pages"), 1, "no frame for a node");
    assert_sound(&machine);
}

#[test]
fn a_fork_without_memory_leaves_no_child() {
    let mut machine = Machine::configured("base-pages", KernelConfig::new(4 * MB));
    machine.map(BASE, 4 * MB);
    let space = machine.kernel.current();
    let mut touched = 0;
    while machine
        .act(|kernel| kernel.fault(space, page(BASE + touched * PAGE), AccessKind::Write))
        .is_ok()
    {
        touched += 1;
    }
    let before = machine.counter("mapped_bytes");
    let result = machine.act(|kernel| kernel.event(&fork(1)));
    assert!(matches!(result, Err(OsError::OutOfMemory { .. })), "{result:?}");
    assert_eq!(machine.kernel.processes().count(), 1);
    assert_eq!(machine.counter("mapped_bytes"), before);
    machine.write(BASE);
    assert_sound(&machine);
}

/// A shared page in the middle of a private 2MB page gets the in-place frame, as no other frame is
/// free. It must stay a hole: fork treats the whole in-place part alike.
#[test]
fn a_shared_hole_in_place_is_not_patched_by_its_permissions() {
    let mut machine = Machine::new(PERFORATED, 64 * MB);
    machine.map(BASE, 2 * MB);
    machine.write(BASE);
    let (shared, block) = (BASE + 500 * PAGE, machine.frame(BASE).unwrap());
    machine.punch(BASE + 505 * PAGE, HoleContent::Moved).expect("memory");
    machine.event(map_shared(shared, PAGE));
    let mut fill = BASE + 16 * MB;
    while machine.counter("free_bytes") > 2 * PAGE {
        machine.event(populate(fill, PAGE));
        fill += PAGE;
    }
    machine.write(shared);
    machine.event(unmap(BASE + 16 * MB, fill - (BASE + 16 * MB)));
    assert_eq!(machine.frame(shared), Some(block + 500));
    machine.event(protect(shared, PAGE, Permissions::READ));
    machine.event(protect(shared, PAGE, Permissions::READ_WRITE));
    assert_eq!(machine.counter("holes_allocated"), 2);
    machine.event(fork(1));
    machine.event(switch(1));
    machine.access(shared, AccessKind::Write);
    assert_eq!(machine.frame(shared), Some(block + 500), "both see the write");
    assert_sound(&machine);
}

#[test]
fn sharing_a_page_of_several_permissions_ends_as_other_operations_do() {
    let mut machine = Machine::new("perforated:max-hole-share=1%,demote-above=1%", 64 * MB);
    machine.map(BASE, 2 * MB);
    machine.write(BASE);
    machine.event(protect(BASE + MB, 5 * PAGE, Permissions::READ));
    let from = machine.kernel.current();
    machine.event(switch(1));
    let to = machine.kernel.current();
    machine.act(|kernel| kernel.share(from, page(BASE), to)).expect("shared");
    assert_eq!(machine.counter("perforated_pages"), 2);
    assert_sound(&machine);
}

#[test]
fn what_is_punched_out_loses_its_content() {
    let mut machine = Machine::new(PERFORATED, 64 * MB);
    machine.map(BASE, 2 * MB);
    machine.write(BASE);
    let space = machine.kernel.current();
    machine.kernel.set_content(space, page(BASE), 5).expect("mapped");
    machine.punch(BASE, HoleContent::Unallocated).expect("memory");
    machine.read(BASE);
    assert_ne!(machine.kernel.content(space, page(BASE)), Some(5));
}

/// Plenty of memory is free, but in single frames; a level-2 node and its shadow are a pair.
#[test]
fn reserved_frames_make_room_for_a_pair() {
    let mut machine = Machine::new("perforated:create=reserve", 4 * MB);
    machine.map(BASE, 2 * MB);
    machine.write(BASE);
    for frame in (0..1022).step_by(2) {
        if machine.kernel.zones().is_free(Frame::new(frame)) {
            assert_eq!(hard_fault(&mut machine, frame), HardFault::WasFree);
        }
    }
    assert!(machine.counter("free_bytes") > MB / 2);
    let reserved = machine.counter("reserved_bytes");
    machine.map(BASE + GB, PAGE);
    machine.write(BASE + GB);
    assert!(machine.counter("reserved_bytes") < reserved);
    assert_sound(&machine);
}

fn fail_one(machine: &mut Machine) {
    let failed = machine.act(|kernel| {
        kernel.hard_fault_pass();
        Ok(())
    });
    failed.unwrap();
}

/// Of frames that fail at a time, each is one that a program uses: with 4KB pages their data move, with perforated
/// pages they become holes, and other 2MB pages are split.
#[test]
fn frames_in_use_fail_at_random() {
    for (policy, counter) in [
        ("base-pages", "hard_faults_moved"),
        (PERFORATED, "hard_faults_punched"),
        ("thp", "hard_faults_split"),
    ] {
        let mut machine = Machine::new(policy, 64 * MB);
        fail_one(&mut machine);
        assert_eq!(machine.counter("retired_bytes"), 0, "no program uses memory");
        machine.event(populate(BASE, 8 * MB));
        let frames = |machine: &Machine| -> Vec<Option<u64>> {
            (0..2048).map(|index| machine.frame(BASE + index * PAGE)).collect()
        };
        let before = frames(&machine);
        fail_one(&mut machine);
        let after = frames(&machine);
        let moved = before.iter().zip(&after).filter(|(before, after)| before != after).count();
        let counted = ["hard_faults", counter, "retired_bytes"].map(|name| machine.counter(name));
        assert_eq!(counted, [1, 1, PAGE], "{policy}");
        assert_eq!(moved, 1, "{policy}");
        assert_sound(&machine);
    }
}
