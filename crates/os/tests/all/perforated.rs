//! Perforated pages, worked by hand: the updates of punching, patching, protecting and
//! fragmentation.

use crate::machine;
use crate::machine::expected::{bitmap_down, large_down, page_down, protected, punched, remove};
use crate::machine::{BASE, MB, Machine, page, protect};
use perforate_os::{FaultOutcome, HoleContent, OsError};
use perforate_schemes::perforated::{HOLE_BRANCH, PerforatedOperation};
use perforate_types::{AccessKind, Frame, PageSize, Permissions, SpaceId, TableOperation, Update};

const SPACE: SpaceId = SpaceId(0);
const RW: Permissions = Permissions::READ_WRITE;
const P2M: PageSize = PageSize::Size2M;

fn patched(address: u64) -> Update {
    PerforatedOperation::Patch { space: SPACE, page: page(address) }.into()
}

fn hole(address: u64, frame: u64, permissions: Permissions) -> Update {
    let (page, frame) = (page(address), Frame::new(frame));
    PerforatedOperation::MapHole { space: SPACE, page, frame, permissions }.into()
}

#[test]
fn a_hole_of_any_content_is_punched_once() {
    for content in [HoleContent::Unallocated, HoleContent::Moved, HoleContent::Permissions(RW)] {
        let mut machine = Machine::new("perforated", 64 * MB);
        machine.map(BASE, 2 * MB);
        machine.write(BASE);
        let address = BASE + 70 * 4096;
        machine.punch(address, content).unwrap();
        let again = Err(OsError::AlreadyHole { space: SPACE, page: page(address) });
        assert_eq!(machine.punch(address, HoleContent::Unallocated), again, "{content:?}");
        let outside = BASE + 64 * MB;
        let not_large = Err(OsError::NotLarge { space: SPACE, page: page(outside) });
        assert_eq!(machine.punch(outside, content), not_large);
    }
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
    // The last patch makes an ordinary 2MB page: the filter and the node of holes are removed.
    machine.patch(address).unwrap();
    assert_eq!(
        machine.updates,
        [
            patched(address),
            page_down(address),
            bitmap_down(address),
            large_down(address),
            remove(1, BASE, HOLE_BRANCH),
        ]
    );
    assert_eq!(machine.frame(address), Some(block + 70));
    assert_eq!(machine.counter("large_pages"), 1);
    assert_eq!(machine.patch(address), Err(OsError::NotHole { space: SPACE, page: page(address) }));
    // A hole cannot be patched if its in-place frame is in use.
    machine.punch(address, HoleContent::Unallocated).unwrap();
    machine
        .act(|kernel| {
            let event = machine::populate(BASE + 16 * MB, 60 << 10);
            kernel.event(&event)
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
    // Protecting the whole page is one change; only a page with holes needs a flush.
    machine.event(protect(BASE, 2 * MB, Permissions::READ));
    assert_eq!(machine.updates, [protected(BASE, P2M, Permissions::READ), large_down(BASE)]);
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
        let expected: Update = PerforatedOperation::Perforate {
            space: SPACE,
            page: page(BASE),
            block,
            permissions: RW,
            holes,
        }
        .into();
        let perforate = machine.updates.iter().position(|update| *update == expected);
        let perforate = perforate.expect("a perforated page");
        assert!(matches!(
            machine.updates[perforate - 1],
            Update::Table(TableOperation::AddNode { level: 1, branch: HOLE_BRANCH, .. })
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
