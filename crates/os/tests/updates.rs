//! What each event emits, by hand. Memory is 64MB: frames 0–16383, single frames from the top.

mod machine;

use machine::{BASE, MB, Machine, fork, page, protect, switch, unmap};
use perforate_os::{FaultOutcome, HoleContent, OsError};
use perforate_types::{
    AccessKind, Advice, Backing, Frame, HoleSet, MappingChange as C, PageSize, Permissions,
    ProgramEvent, Shootdown as S, SpaceId, Update, VirtualAddress, VirtualPage,
};

const SPACE: SpaceId = SpaceId(0);
const RW: Permissions = Permissions::READ_WRITE;
const P4K: PageSize = PageSize::Size4K;
const P2M: PageSize = PageSize::Size2M;

fn add(level: u8, address: u64, frame: u64, holes: bool) -> Update {
    let (page, frame) = (page(address), Frame::new(frame));
    C::AddTable { space: SPACE, level, page, frame, holes }.into()
}

fn remove(level: u8, address: u64, holes: bool) -> Update {
    C::RemoveTable { space: SPACE, level, page: page(address), holes }.into()
}

fn mapped(address: u64, size: PageSize, frame: u64) -> Update {
    let (page, frame) = (page(address), Frame::new(frame));
    C::Map { space: SPACE, page, size, frame, permissions: RW }.into()
}

fn unmapped(address: u64, size: PageSize) -> Update {
    C::Unmap { space: SPACE, page: page(address), size }.into()
}

fn protected(address: u64, size: PageSize, permissions: Permissions) -> Update {
    C::Protect { space: SPACE, page: page(address), size, permissions }.into()
}

fn punched(address: u64) -> Update {
    C::Punch { space: SPACE, page: page(address) }.into()
}

fn patched(address: u64) -> Update {
    C::Patch { space: SPACE, page: page(address) }.into()
}

fn hole(address: u64, frame: u64, permissions: Permissions) -> Update {
    let (page, frame) = (page(address), Frame::new(frame));
    C::MapHole { space: SPACE, page, frame, permissions }.into()
}

fn page_down(address: u64) -> Update {
    S::Page { space: SPACE, page: page(address) }.into()
}

fn large_down(address: u64) -> Update {
    S::Large { space: SPACE, page: page(address), size: P2M }.into()
}

fn bitmap_down(address: u64) -> Update {
    S::Bitmap { space: SPACE, page: page(address) }.into()
}

#[test]
fn the_first_4kb_page_brings_its_nodes_and_the_last_takes_them_away() {
    let mut machine = Machine::new("base-pages", 64 * MB);
    machine.map(BASE, 4 * MB);
    assert!(machine.updates.is_empty(), "nothing is mapped before it is touched");
    machine.write(BASE + 0x1000);
    // The page's frame is taken first, then the nodes from the root down.
    assert_eq!(
        machine.updates,
        [
            add(4, 0, 16382, false),
            add(3, 0, 16381, false),
            add(2, 0, 16380, false),
            add(1, BASE, 16379, false),
            mapped(BASE + 0x1000, P4K, 16383),
        ]
    );
    machine.read(BASE + 0x3000);
    assert_eq!(machine.updates, [mapped(BASE + 0x3000, P4K, 16378)]);
    machine.event(unmap(BASE, 4 * MB));
    assert_eq!(
        machine.updates,
        [
            unmapped(BASE + 0x1000, P4K),
            page_down(BASE + 0x1000),
            unmapped(BASE + 0x3000, P4K),
            page_down(BASE + 0x3000),
            remove(1, BASE, false),
            remove(2, 0, false),
            remove(3, 0, false),
            remove(4, 0, false),
        ]
    );
    assert_eq!(machine.kernel.buddy().free_frames(), 16384);
}

#[test]
fn an_eligible_region_gets_a_large_page_and_others_do_not() {
    let mut machine = Machine::new("thp", 64 * MB);
    // 2MB region 64 whole, region 65 half, region 66 of a file.
    machine.map(BASE, 3 * MB);
    let file = match machine::map(BASE + 4 * MB, 2 * MB) {
        ProgramEvent::Map { start, length, permissions, accessible, shared, populate, .. } => {
            let backing = Backing::File;
            ProgramEvent::Map { start, length, permissions, accessible, backing, shared, populate }
        }
        _ => unreachable!(),
    };
    machine.event(file);
    machine.write(BASE + 0x5000);
    // Blocks from the bottom.
    assert_eq!(machine.updates.last(), Some(&mapped(BASE, P2M, 0)));
    machine.write(BASE + 2 * MB);
    machine.write(BASE + 4 * MB);
    assert_eq!(machine.counter("large_pages"), 1);
    assert_eq!(machine.counter("base_pages"), 2);
    machine.event(ProgramEvent::Advise {
        start: VirtualAddress::new(BASE),
        length: 2 * MB,
        advice: Advice::NoHugePage,
    });
    machine.event(ProgramEvent::Advise {
        start: VirtualAddress::new(BASE),
        length: 2 * MB,
        advice: Advice::DontNeed,
    });
    assert_eq!(machine.updates, [unmapped(BASE, P2M), large_down(BASE)]);
    machine.write(BASE);
    assert_eq!(machine.counter("large_pages"), 0, "MADV_NOHUGEPAGE");
}

#[test]
fn a_partial_unmap_splits_a_conventional_large_page() {
    let mut machine = Machine::new("thp", 64 * MB);
    machine.map(BASE, 2 * MB);
    machine.write(BASE);
    let block = machine.frame(BASE).unwrap();
    machine.event(unmap(BASE + 0x1000, 2 * MB - 0x3000));
    // Sub-pages 0, 510 and 511 stay.
    let node = match machine.updates[2] {
        Update::Change(C::AddTable { frame, .. }) => frame.number(),
        _ => panic!("no node"),
    };
    assert_eq!(
        machine.updates,
        [
            unmapped(BASE, P2M),
            large_down(BASE),
            add(1, BASE, node, false),
            mapped(BASE, P4K, block),
            mapped(BASE + 510 * 4096, P4K, block + 510),
            mapped(BASE + 511 * 4096, P4K, block + 511),
        ]
    );
    machine.assert_memory_adds_up();
}

#[test]
fn a_partial_unmap_punches_a_perforated_one() {
    let mut machine = Machine::new("perforated", 64 * MB);
    machine.map(BASE, 2 * MB);
    machine.write(BASE);
    let free = machine.counter("free_bytes");
    machine.event(unmap(BASE + 0x1000, 0x2000));
    let node = match machine.updates[0] {
        Update::Change(C::AddTable { frame, .. }) => frame.number(),
        _ => panic!("no node"),
    };
    // The first hole of 256KB region 0 changes the filter, the second does not.
    assert_eq!(
        machine.updates,
        [
            add(1, BASE, node, true),
            punched(BASE + 0x1000),
            page_down(BASE + 0x1000),
            bitmap_down(BASE + 0x1000),
            large_down(BASE + 0x1000),
            punched(BASE + 0x2000),
            page_down(BASE + 0x2000),
            bitmap_down(BASE + 0x2000),
        ]
    );
    // Two sub-pages freed, one node taken.
    assert_eq!(machine.counter("free_bytes"), free + 4096);
    assert_eq!(machine.counter("holes_unallocated"), 2);
    machine.event(unmap(BASE, 2 * MB));
    assert_eq!(
        machine.updates[..3],
        [unmapped(BASE, P2M), S::Space { space: SPACE }.into(), remove(1, BASE, true)]
    );
    assert_eq!(machine.counter("page_table_bytes"), 0);
}

#[test]
fn punch_and_patch() {
    let mut machine = Machine::new("perforated", 64 * MB);
    machine.map(BASE, 2 * MB);
    machine.write(BASE);
    let block = machine.frame(BASE).unwrap();
    let address = BASE + 70 * 4096;
    machine.punch(address, HoleContent::Moved).unwrap();
    let moved = machine.frame(address).unwrap();
    assert!(!(block..block + 512).contains(&moved));
    assert_eq!(
        machine.updates[1..],
        [
            punched(address),
            page_down(address),
            bitmap_down(address),
            large_down(address),
            hole(address, moved, RW),
        ]
    );
    assert_eq!(
        machine.punch(address, HoleContent::Moved),
        Err(OsError::AlreadyHole { space: SPACE, page: page(address) })
    );
    // The last patch leaves an ordinary large page: filter and hole node go.
    machine.patch(address).unwrap();
    assert_eq!(
        machine.updates,
        [
            patched(address),
            page_down(address),
            bitmap_down(address),
            large_down(address),
            remove(1, BASE, true),
        ]
    );
    assert_eq!(machine.frame(address), Some(block + 70));
    assert_eq!(machine.counter("large_pages"), 1);
    assert_eq!(machine.patch(address), Err(OsError::NotHole { space: SPACE, page: page(address) }));
    // A hole whose frame somebody else has by now cannot be patched.
    machine.punch(address, HoleContent::Unallocated).unwrap();
    machine
        .act(|kernel, updates| {
            let event = machine::populate(BASE + 16 * MB, 60 << 10);
            kernel.event(&event, updates)
        })
        .unwrap();
    while machine.patch(address).is_ok() {
        machine.punch(address, HoleContent::Unallocated).unwrap();
        let next = BASE + 20 * MB + 4096 * machine.counter("base_pages");
        machine.event(machine::populate(next, 4096));
    }
    assert_eq!(
        machine.patch(address),
        Err(OsError::Occupied { space: SPACE, page: page(address) })
    );
    machine.assert_memory_adds_up();
}

#[test]
fn protecting_a_part_of_a_perforated_page_and_back() {
    let mut machine = Machine::new("perforated", 64 * MB);
    machine.map(BASE, 2 * MB);
    machine.write(BASE);
    let block = machine.frame(BASE).unwrap();
    let address = BASE + 5 * 4096;
    machine.event(protect(address, 4096, Permissions::READ));
    assert_eq!(
        machine.updates[1..],
        [
            punched(address),
            page_down(address),
            bitmap_down(address),
            large_down(address),
            hole(address, block + 5, Permissions::READ),
        ]
    );
    assert_eq!(machine.fault(address, AccessKind::Write), FaultOutcome::Segfault);
    assert_eq!(
        machine.patch(address),
        Err(OsError::PermissionsDiffer { space: SPACE, page: page(address) })
    );
    machine.event(protect(address, 4096, RW));
    assert_eq!(machine.updates[0], patched(address));
    assert_eq!(machine.counter("large_pages"), 1);
    // The whole page: one change, and a flush only where there are holes.
    machine.event(protect(BASE, 2 * MB, Permissions::READ));
    assert_eq!(machine.updates, [protected(BASE, P2M, Permissions::READ), large_down(BASE)]);
}

#[test]
fn protecting_a_part_of_a_conventional_page_splits_it() {
    let mut machine = Machine::new("thp", 64 * MB);
    machine.map(BASE, 2 * MB);
    machine.write(BASE);
    machine.event(protect(BASE + 0x7000, 4096, Permissions::READ));
    // Unmap, shootdown, node, 512 pages, then one protection and its shootdown.
    assert_eq!(machine.updates.len(), 2 + 1 + 512 + 2);
    assert_eq!(
        machine.updates[515..],
        [protected(BASE + 0x7000, P4K, Permissions::READ), page_down(BASE + 0x7000)]
    );
}

#[test]
fn no_access_at_all_keeps_the_data() {
    let mut machine = Machine::new("thp", 64 * MB);
    machine.map(BASE, 2 * MB);
    machine.write(BASE);
    let frame = machine.frame(BASE);
    let start = VirtualAddress::new(BASE);
    let (length, permissions) = (2 * MB, RW);
    machine.event(ProgramEvent::Protect { start, length, permissions, accessible: false });
    assert_eq!(machine.fault(BASE, AccessKind::Read), FaultOutcome::Segfault);
    assert!(!machine.translate(BASE).unwrap().1.allow(AccessKind::Read));
    machine.event(ProgramEvent::Protect { start, length, permissions, accessible: true });
    assert_eq!(machine.frame(BASE), frame);
    assert_eq!(machine.access(BASE, AccessKind::Write), FaultOutcome::Mapped);
}

#[test]
fn fragmented_regions_become_perforated_pages_with_their_holes_mapped() {
    let text = "portion=100%,holes=25%,clustered";
    for (policy, allocated) in [("perforated", 128), ("perforated:holes=lazy", 0)] {
        let mut machine = Machine::fragmented(policy, 64 * MB, text);
        machine.map(BASE, 2 * MB);
        let holes =
            machine.kernel.config().fragmentation.unwrap().holes(42, BASE / (2 * MB)).unwrap();
        let first = holes.iter().next().unwrap() as u64;
        let outside = (0..512).find(|&index| !holes.contains(index)).unwrap() as u64;
        machine.write(BASE + outside * 4096);
        let block = machine.translate(BASE + outside * 4096).unwrap().0.align_down(P2M);
        let expected: Update =
            C::Perforate { space: SPACE, page: page(BASE), block, permissions: RW, holes }.into();
        let perforate = machine.updates.iter().position(|update| *update == expected);
        let perforate = perforate.expect("a perforated page");
        assert!(matches!(
            machine.updates[perforate - 1],
            Update::Change(C::AddTable { level: 1, holes: true, .. })
        ));
        assert_eq!(machine.updates.len() - perforate - 1, allocated);
        assert_eq!(machine.counter("foreign_bytes"), 128 * 4096);
        assert_eq!(machine.counter("hole_faults"), 0);
        if allocated == 0 {
            machine.write(BASE + first * 4096);
            let frame = machine.frame(BASE + first * 4096).unwrap();
            assert_eq!(machine.updates, [hole(BASE + first * 4096, frame, RW)], "no shootdown");
            assert_eq!(machine.counter("hole_faults"), 1);
        }
        machine.assert_memory_adds_up();
    }
}

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
    // The parent is the only one left: its page only becomes writable again.
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
        // 512 frames shared, one copied.
        assert_eq!(machine.mapped_frames().len(), 513);
        machine.assert_copies_on_write();
        machine.assert_memory_adds_up();
        machine.event(ProgramEvent::Exit { process: perforate_types::ProcessId(1) });
        assert_eq!(machine.mapped_frames().len(), 512);
        machine.assert_memory_adds_up();
    }
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
    machine.act(|kernel, updates| kernel.share(SPACE, page(BASE), other, updates)).unwrap();
    let translate =
        |machine: &Machine, space, address: u64| machine.oracle.translate(space, page(address));
    // Fig. 1: the other space may write where this one may only read.
    assert_eq!(translate(&machine, SPACE, BASE + 0x2000).unwrap().1, Permissions::READ);
    assert_eq!(translate(&machine, other, BASE + 0x2000).unwrap().1, RW);
    for offset in [0, 0x1000, 0x2000] {
        let frame = |space| translate(&machine, space, BASE + offset).unwrap().0;
        assert_eq!(frame(SPACE), frame(other));
    }
    // Punching in one space leaves the frame to the other; its bitmap entry goes too (P-2).
    machine.punch(BASE + 0x5000, HoleContent::Unallocated).unwrap();
    assert!(machine.updates.contains(&bitmap_down(BASE + 0x5000)));
    assert_eq!(translate(&machine, other, BASE + 0x5000), None);
    assert!(translate(&machine, SPACE, BASE + 0x5000).is_some());
    machine.assert_memory_adds_up();
    machine.event(ProgramEvent::Exit { process: perforate_types::ProcessId(0) });
    assert!(translate(&machine, other, BASE).is_some());
    machine.assert_memory_adds_up();
    machine.event(ProgramEvent::Exit { process: perforate_types::ProcessId(1) });
    assert_eq!(machine.counter("mapped_bytes"), 0);
    machine.assert_memory_adds_up();
}

#[test]
fn wrong_operations_are_refused() {
    let mut machine = Machine::new("thp", 64 * MB);
    let anywhere = VirtualPage::new(0x100);
    assert_eq!(machine.punch(0x10_0000, HoleContent::Moved), Err(OsError::NoShadowDirectories));
    let mut machine = Machine::new("perforated", 64 * MB);
    assert_eq!(
        machine.punch(0x10_0000, HoleContent::Moved),
        Err(OsError::NotLarge { space: SPACE, page: anywhere })
    );
    let nobody = SpaceId(9);
    let error =
        machine.act(|kernel, updates| kernel.fault(nobody, anywhere, AccessKind::Read, updates));
    assert_eq!(error, Err(OsError::UnknownSpace { space: nobody }));
    for (start, length) in [(u64::MAX - 4095, 8192), (0x7fff_ffff_f000, 8192), (1 << 50, 4096)] {
        let event = machine::map(start, length);
        let error = machine.act(|kernel, updates| kernel.event(&event, updates)).unwrap_err();
        assert!(matches!(error, OsError::InvalidRange { .. }), "{error}");
    }
    assert_eq!(HoleSet::EMPTY.count(), 0);
}
