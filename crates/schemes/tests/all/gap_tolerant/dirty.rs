//! Dirty bits in the MMU's copies of entries.

use perforate_mmu::{Mmu, MmuConfig, TlbGeometry, WalkCacheConfig, allow};
use perforate_schemes::gap_tolerant::GapTolerantRadix;
use perforate_schemes::gap_tolerant::SuperpageOperation;
use perforate_types::{
    AccessKind, Frame, GapTolerance, PageSize, Permissions, SpaceId, Steps, TableOperation,
    VirtualPage,
};

/// Not the first address space, which is what a copy without one would be of.
const SPACE: SpaceId = SpaceId(3);

/// An MMU with a superpage of 4MB at page 0, and a walk cache that can hold its entry.
fn unit() -> Mmu {
    let geometry = TlbGeometry { entries: 16, ways: 4 };
    let walk_cache = WalkCacheConfig::fully_associative(1, 1, 4);
    let config = MmuConfig { walk_cache, ..MmuConfig::plain(geometry, geometry) };
    let mode = GapTolerance::SINGLE_4M;
    let dimension = Box::new(GapTolerantRadix::new(mode));
    let mut mmu = Mmu::new(&config, dimension).unwrap();
    let page = VirtualPage::new(0);
    for level in [4, 3, 2] {
        let frame = Frame::new(0x10 + u64::from(level));
        let table = TableOperation::AddNode { space: SPACE, level, page, frame, branch: 0 };
        mmu.apply(&table.into());
    }
    let map = SuperpageOperation::Map {
        space: SPACE,
        page,
        mode,
        slice: Frame::new(0),
        second: Frame::new(0),
        selection: u64::MAX >> 32,
        permissions: Permissions::READ_WRITE,
    };
    mmu.apply(&map.into());
    mmu.switch(SPACE);
    mmu
}

fn access(mmu: &mut Mmu, kind: AccessKind, page: u64) {
    mmu.translate(kind, VirtualPage::new(page).address(), &mut Steps::new()).unwrap();
}

/// True if the first level has the leaf of a page as dirty.
fn known_dirty(mmu: &mut Mmu, page: u64) -> bool {
    let allows = mmu.first_level_allows(VirtualPage::new(page)).expect("it was accessed");
    allows & allow::DIRTY != 0
}

/// The cached gap-tolerant entry becomes dirty by any store: through the entry itself, the
/// second-level TLB, or the first level. TLB entries filled from it later are dirty.
#[test]
fn a_cached_gap_tolerant_entry_knows_that_it_is_dirty() {
    type Forget = fn(&mut Mmu);
    let ways: [Forget; 3] =
        [|mmu| mmu.evict_page(SPACE, VirtualPage::new(0)), Mmu::flush_first_level, |_| ()];
    for (way, forget) in ways.into_iter().enumerate() {
        let mut mmu = unit();
        access(&mut mmu, AccessKind::Read, 0);
        assert!(!known_dirty(&mut mmu, 0));
        if way == 0 {
            mmu.flush_first_level();
        }
        forget(&mut mmu);
        access(&mut mmu, AccessKind::Read, 1);
        assert!(!known_dirty(&mut mmu, 1), "way {way}");
        access(&mut mmu, AccessKind::Write, 0);
        access(&mut mmu, AccessKind::Read, 2);
        assert!(known_dirty(&mut mmu, 0) && known_dirty(&mut mmu, 2), "way {way}");
    }
}

/// Stores through a superpage and through a 4KB page dirty these entries, and none that points to a node.
#[test]
fn a_store_dirties_no_pointer_to_a_node() {
    let mut mmu = unit();
    let (page, size) = (VirtualPage::new(1024), PageSize::Size4K);
    let (permissions, branch) = (Permissions::READ_WRITE, 0);
    let node = Frame::new(0x20);
    mmu.apply(
        &TableOperation::AddNode { space: SPACE, level: 1, page, frame: node, branch }.into(),
    );
    let frame = Frame::new(0x5000);
    mmu.apply(&TableOperation::Map { space: SPACE, page, size, frame, permissions }.into());
    access(&mut mmu, AccessKind::Write, 0);
    access(&mut mmu, AccessKind::Write, 1024);
    let dirty = [0x14, 0x13, 0x12, 0x20].map(|node| {
        let word =
            |word: u64| mmu.dimension().memory().entry(Frame::new(node).address().add(8 * word));
        // Word 1 of the directory is the superpage's selection bitmap.
        (0..512).filter(|&number| number != 1 && word(number).is_dirty()).count()
    });
    assert_eq!(dirty, [0, 0, 1, 1]);
}
