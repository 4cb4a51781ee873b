//! A second-level TLB that holds only 4KB entries (`l2_2m = "none"`; D Table VI), worked out by
//! hand: 2MB pages are in the first level only, 4KB pages in both.
//!
//! One process has two 2MB pages at 1GB and 1GB + 2MB, 4KB pages from 1GB + 4MB on, and ordinary
//! tables: root 0x10, level 3 0x11, level 2 0x12, level 1 0x13. The first level holds one entry per
//! size, so that each page evicts the previous one. There are no walk caches: a walk reads 3
//! entries for a 2MB page, 4 for a 4KB page.

use perforate_mmu::{L2Contents, L2Part, Mmu, MmuConfig, Radix, TlbGeometry};
use perforate_types::{
    AccessKind, Action, Frame, PageSize, Permissions, SpaceId, Steps, TableOperation, Unit,
    VirtualPage,
};

const SPACE: SpaceId = SpaceId(1);
const LARGE: VirtualPage = VirtualPage::new(1 << 18);
const OTHER_LARGE: VirtualPage = VirtualPage::new((1 << 18) + 512);
const SMALL: VirtualPage = VirtualPage::new((1 << 18) + 1024);
const OTHER_SMALL: VirtualPage = VirtualPage::new((1 << 18) + 1025);

fn unit(l2_2m: L2Part) -> Mmu {
    let single = TlbGeometry { entries: 1, ways: 1 };
    let mut config = MmuConfig::plain(single, TlbGeometry { entries: 512, ways: 4 });
    (config.tlb.l1_data_2m, config.tlb.l2_2m) = (Some(single), l2_2m);
    let mut mmu = Mmu::new(&config, Box::new(Radix::new())).unwrap();
    mmu.switch(SPACE);
    let zero = VirtualPage::new(0);
    for (level, page, frame) in
        [(4, zero, 0x10), (3, zero, 0x11), (2, LARGE, 0x12), (1, SMALL, 0x13)]
    {
        let frame = Frame::new(frame);
        let table = TableOperation::AddNode { space: SPACE, level, page, frame, branch: 0 };
        mmu.apply(&table.into());
    }
    for (page, size, frame) in [
        (LARGE, PageSize::Size2M, 0x1000),
        (OTHER_LARGE, PageSize::Size2M, 0x2000),
        (SMALL, PageSize::Size4K, 0x9001),
        (OTHER_SMALL, PageSize::Size4K, 0x9002),
    ] {
        let (frame, permissions) = (Frame::new(frame), Permissions::READ_WRITE);
        let map = TableOperation::Map { space: SPACE, page, size, frame, permissions };
        mmu.apply(&map.into());
    }
    mmu
}

/// Loads from `page`. Returns its frame, the entries read, and true if the second level was filled.
fn load(mmu: &mut Mmu, page: VirtualPage) -> (u64, usize, bool) {
    let mut steps = Steps::new();
    let found = mmu.translate(AccessKind::Read, page.address(), &mut steps).unwrap();
    let count = |wanted: fn(Action) -> bool| {
        steps.as_slice().iter().filter(|step| wanted(step.action)).count()
    };
    let reads = count(|action| matches!(action, Action::Read { .. }));
    let fills = count(|action| matches!(action, Action::Fill { unit: Unit::L2Tlb, .. }));
    (found.physical.page().number(), reads, fills > 0)
}

#[test]
fn large_pages_live_in_the_first_level_only() {
    let mut mmu = unit(L2Part::NONE);
    assert_eq!(load(&mut mmu, LARGE.add(7)), (0x1007, 3, false));
    // The whole 2MB page is in the first level.
    assert_eq!(load(&mut mmu, LARGE.add(500)), (0x11f4, 0, false));
    assert_eq!(load(&mut mmu, OTHER_LARGE), (0x2000, 3, false));
    // After its eviction from the first level, the page is walked to again.
    assert_eq!(load(&mut mmu, LARGE.add(7)), (0x1007, 3, false));
    assert_eq!(mmu.counters().l2_misses, 3);
    assert_eq!(mmu.l2_contents(), L2Contents { empty: 512, ..L2Contents::default() });
}

#[test]
fn small_pages_still_live_in_both_levels() {
    let mut mmu = unit(L2Part::NONE);
    assert_eq!(load(&mut mmu, SMALL), (0x9001, 4, true));
    assert_eq!(load(&mut mmu, OTHER_SMALL), (0x9002, 4, true));
    assert_eq!(load(&mut mmu, SMALL), (0x9001, 0, false));
    assert_eq!((mmu.counters().l2_accesses, mmu.counters().l2_misses), (3, 2));
    assert_eq!(mmu.l2_contents().page_4k, 2);
}

/// Repeats the accesses with 2MB pages in the second level: the third access hits there.
#[test]
fn without_the_restriction_the_second_level_hits() {
    let mut mmu = unit(L2Part::ALL);
    assert_eq!(load(&mut mmu, LARGE.add(7)), (0x1007, 3, true));
    assert_eq!(load(&mut mmu, OTHER_LARGE), (0x2000, 3, true));
    assert_eq!(load(&mut mmu, LARGE.add(7)), (0x1007, 0, false));
    assert_eq!((mmu.counters().l2_accesses, mmu.counters().l2_misses), (3, 2));
    assert_eq!(mmu.l2_contents().page_2m, 2);
}
