//! Updates that each event emits, worked by hand. Memory is 64MB: frames 0–16383, single frames
//! from the highest block.

use crate::machine;
use crate::machine::expected::{bitmap_down, large_down, page_down, protected, punched, remove};
use crate::machine::{BASE, MB, Machine, page, protect, unmap};
use perforate_os::{FaultOutcome, HoleContent, OsError};
use perforate_schemes::perforated::HOLE_BRANCH;
use perforate_types::{
    AccessKind, Advice, Backing, Frame, HoleSet, PageSize, Permissions, ProgramEvent,
    Shootdown as S, SpaceId, TableOperation, Update, VirtualAddress, VirtualPage,
};

const SPACE: SpaceId = SpaceId(0);
const RW: Permissions = Permissions::READ_WRITE;
const P4K: PageSize = PageSize::Size4K;
const P2M: PageSize = PageSize::Size2M;

fn add(level: u8, address: u64, frame: u64, branch: u8) -> Update {
    let (page, frame) = (page(address), Frame::new(frame));
    TableOperation::AddNode { space: SPACE, level, page, frame, branch }.into()
}

fn mapped(address: u64, size: PageSize, frame: u64) -> Update {
    let (page, frame) = (page(address), Frame::new(frame));
    TableOperation::Map { space: SPACE, page, size, frame, permissions: RW }.into()
}

fn unmapped(address: u64, size: PageSize) -> Update {
    TableOperation::Unmap { space: SPACE, page: page(address), size }.into()
}

#[test]
fn the_first_4kb_page_brings_its_nodes_and_the_last_takes_them_away() {
    let mut machine = Machine::new("base-pages", 64 * MB);
    machine.map(BASE, 4 * MB);
    assert!(machine.updates.is_empty(), "nothing is mapped before it is touched");
    machine.write(BASE + 0x1000);
    // The page's frame is taken first, from the highest block. Then the nodes are taken, root
    // first, as unmovable memory from lower pageblocks.
    assert_eq!(
        machine.updates,
        [
            add(4, 0, 14848, 0),
            add(3, 0, 14849, 0),
            add(2, 0, 14850, 0),
            add(1, BASE, 14851, 0),
            mapped(BASE + 0x1000, P4K, 15872),
        ]
    );
    machine.read(BASE + 0x3000);
    assert_eq!(machine.updates, [mapped(BASE + 0x3000, P4K, 15873)]);
    machine.event(unmap(BASE, 4 * MB));
    assert_eq!(
        machine.updates,
        [
            unmapped(BASE + 0x1000, P4K),
            page_down(BASE + 0x1000),
            unmapped(BASE + 0x3000, P4K),
            page_down(BASE + 0x3000),
            remove(1, BASE, 0),
            remove(2, 0, 0),
            remove(3, 0, 0),
            remove(4, 0, 0),
        ]
    );
    assert_eq!(machine.kernel.zones().free_frames(), 16384);
}

#[test]
fn an_eligible_region_gets_a_large_page_and_others_do_not() {
    let mut machine = Machine::new("thp", 64 * MB);
    // Region 64 is whole, region 65 half an area, region 66 a file.
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
    // Blocks come from the bottom.
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
    // Sub-pages 0, 510 and 511 remain.
    let node = match machine.updates[2] {
        Update::Table(TableOperation::AddNode { frame, .. }) => frame.number(),
        _ => panic!("no node"),
    };
    assert_eq!(
        machine.updates,
        [
            unmapped(BASE, P2M),
            large_down(BASE),
            add(1, BASE, node, 0),
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
        Update::Table(TableOperation::AddNode { frame, .. }) => frame.number(),
        _ => panic!("no node"),
    };
    // The first hole of 256KB region 0 changes the filter; the second does not.
    assert_eq!(
        machine.updates,
        [
            add(1, BASE, node, HOLE_BRANCH),
            punched(BASE + 0x1000),
            page_down(BASE + 0x1000),
            bitmap_down(BASE + 0x1000),
            large_down(BASE + 0x1000),
            punched(BASE + 0x2000),
            page_down(BASE + 0x2000),
            bitmap_down(BASE + 0x2000),
        ]
    );
    // Two sub-pages are freed, one node is taken.
    assert_eq!(machine.counter("free_bytes"), free + 4096);
    assert_eq!(machine.counter("holes_unallocated"), 2);
    machine.event(unmap(BASE, 2 * MB));
    assert_eq!(
        machine.updates[..3],
        [unmapped(BASE, P2M), S::Space { space: SPACE }.into(), remove(1, BASE, HOLE_BRANCH)]
    );
    assert_eq!(machine.counter("page_table_bytes"), 0);
}

#[test]
fn protecting_a_part_of_a_conventional_page_splits_it() {
    let mut machine = Machine::new("thp", 64 * MB);
    machine.map(BASE, 2 * MB);
    machine.write(BASE);
    machine.event(protect(BASE + 0x7000, 4096, Permissions::READ));
    // An unmap, a shootdown, a node and 512 pages, then a protection and its shootdown.
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
    let error = machine.act(|kernel| kernel.fault(nobody, anywhere, AccessKind::Read));
    assert_eq!(error, Err(OsError::UnknownSpace { space: nobody }));
    for (start, length) in [(u64::MAX - 4095, 8192), (0x7fff_ffff_f000, 8192), (1 << 50, 4096)] {
        let event = machine::map(start, length);
        let error = machine.act(|kernel| kernel.event(&event)).unwrap_err();
        assert!(matches!(error, OsError::InvalidRange { .. }), "{error}");
    }
    assert_eq!(HoleSet::EMPTY.count(), 0);
}
