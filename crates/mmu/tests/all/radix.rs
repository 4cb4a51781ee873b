//! Ordinary page tables: memory of nodes that are removed, and parts by their types.

use perforate_mmu::{Dimension, Mark, Radix, allow};
use perforate_types::{
    AccessKind, Frame, PageSize, Permissions, SpaceId, TableOperation, VirtualPage,
};

const SPACE: SpaceId = SpaceId(1);
const PAGE: VirtualPage = VirtualPage::new((1 << 27) + (1 << 18) + 512 + 1);

/// Frames 0x11 to 0x14 are the nodes of levels 1 to 4, each with an entry with index 1.
fn tables() -> Radix {
    let mut tables = Radix::new();
    for level in (1..=4).rev() {
        let frame = Frame::new(0x10 + u64::from(level));
        tables.write(&TableOperation::AddNode {
            space: SPACE,
            level,
            page: PAGE,
            frame,
            branch: 0,
        });
    }
    let (frame, permissions) = (Frame::new(0x77), Permissions::READ_WRITE);
    let (space, page, size) = (SPACE, PAGE, PageSize::Size4K);
    tables.write(&TableOperation::Map { space, page, size, frame, permissions });
    tables
}

fn entry(tables: &Radix, level: u64) -> u64 {
    tables.memory().word(Frame::new(0x10 + level).address().add(8))
}

/// A node that is removed takes its entry above along, and its frame is free for other contents.
#[test]
fn the_memory_of_a_removed_node_is_cleared() {
    let mut tables = tables();
    assert!((1..=4).all(|level| entry(&tables, level) != 0));
    for level in 1..=4 {
        tables.write(&TableOperation::RemoveNode { space: SPACE, level, page: PAGE, branch: 0 });
        let left = [1, 2, 3, 4].map(|of| entry(&tables, of) != 0);
        let above = u64::from(level) + 1;
        assert_eq!(left, [1, 2, 3, 4].map(|of| of > above), "without level {level}");
        assert!(tables.look_at(SPACE, PAGE).is_none());
    }
    let mut tables = self::tables();
    tables.write(&TableOperation::RemoveNode { space: SPACE, level: 4, page: PAGE, branch: 0 });
    assert_eq!((entry(&tables, 4), entry(&tables, 3) != 0), (0, true), "a root with an entry");
}

/// There are entries below a node only: none in a 2MB page, and none below an absent entry.
#[test]
fn entries_are_in_nodes_that_exist() {
    let mut tables = tables();
    let (space, page, size) = (SPACE, PAGE.add(512).align_down(PageSize::Size2M), PageSize::Size2M);
    let (frame, permissions) = (Frame::new(512), Permissions::READ);
    tables.write(&TableOperation::Map { space, page, size, frame, permissions });
    let places = |page: VirtualPage| {
        [1, 2, 3, 4].map(|level| {
            let place = tables.entry_address(SPACE, page, level)?;
            Some((place.page().number(), place.value() % 4096 / 8))
        })
    };
    let (level3, level4) = (Some((0x13, 1)), Some((0x14, 1)));
    assert_eq!(places(PAGE), [Some((0x11, 1)), Some((0x12, 1)), level3, level4]);
    assert_eq!(places(page.add(3)), [None, Some((0x12, 2)), level3, level4]);
    assert_eq!(places(page.add(512)), [None, Some((0x12, 3)), level3, level4]);
    assert_eq!(places(VirtualPage::new(0)), [None, None, None, Some((0x14, 0))]);
    assert_eq!(tables.entry_address(SpaceId(9), PAGE, 4), None);
}

/// A mark of an access sets the accessed bits of all levels; a store's sets the dirty bit of the leaf.
#[test]
fn marks_are_of_the_path_or_of_the_leaf() {
    const ACCESSED: u64 = 1 << 5;
    const DIRTY: u64 = 1 << 6;
    let bits = |tables: &Radix| [1, 2, 3, 4].map(|level| entry(tables, level) & (ACCESSED | DIRTY));
    let mut accessed = tables();
    assert_eq!(bits(&accessed), [0; 4]);
    accessed.mark(SPACE, PAGE, Mark::Accessed);
    assert_eq!(bits(&accessed), [ACCESSED; 4]);
    let mut dirty = tables();
    dirty.mark(SPACE, PAGE, Mark::Dirty);
    assert_eq!(bits(&dirty), [ACCESSED | DIRTY, 0, 0, 0]);
    dirty.mark(SPACE, PAGE.add(1), Mark::Dirty);
    dirty.mark(SpaceId(2), PAGE, Mark::Accessed);
    assert_eq!(bits(&dirty), [ACCESSED | DIRTY, 0, 0, 0]);
}

#[test]
fn tables_are_a_part_of_their_own_type() {
    let mut tables = tables();
    let dimension: &mut dyn Dimension = &mut tables;
    assert!(dimension.part::<Radix>().is_some() && dimension.part_mut::<Radix>().is_some());
    assert!(dimension.part::<u8>().is_none() && dimension.part_mut::<u8>().is_none());
    assert!(dimension.holes().is_none() && dimension.sideband_tlb().is_none());
    assert!(dimension.host().is_none() && dimension.cached_leaf_pages().is_none());
}

#[test]
fn bits_of_allowed_accesses() {
    use AccessKind::{Fetch, Read, Write};
    use allow::{DIRTY, FETCH, READ, WRITE};
    for (permissions, dirty, bits) in [
        (Permissions::READ, false, READ),
        (Permissions::READ_WRITE, false, READ | WRITE),
        (Permissions::READ_WRITE, true, READ | WRITE | DIRTY),
        (Permissions::ALL, false, READ | WRITE | FETCH),
        (Permissions::ALL, true, READ | WRITE | FETCH | DIRTY),
    ] {
        assert_eq!(allow::of_leaf(permissions, dirty), bits);
        let permitted = [Read, Write, Fetch].map(|kind| allow::permits(bits, kind));
        assert_eq!(permitted, [Read, Write, Fetch].map(|kind| permissions.allow(kind)));
    }
    assert_eq!([Read, Write, Fetch].map(allow::needed), [READ, WRITE | DIRTY, FETCH]);
    assert_eq!([READ, WRITE, FETCH, DIRTY], [1, 2, 4, 8], "they are in entries of the TLBs");
    assert!(!allow::permits(READ | FETCH | DIRTY, Write));
}
