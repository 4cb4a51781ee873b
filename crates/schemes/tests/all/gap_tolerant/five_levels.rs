//! Gap-tolerant entries in tables of five levels: the walk begins at the root of level 5.

use perforate_mmu::{Mmu, TlbGeometry};
use perforate_schemes::gap_tolerant::{GapTolerantRadix, SuperpageOperation};
use perforate_types::{
    AccessKind, Frame, GapTolerance, PageSize, PhysicalAddress, Purpose, SpaceId, TableOperation,
    VirtualPage,
};

use super::address_spaces::{RW, SELECTION, SPACE, access, apply, config};

/// A page whose indices in the tables are 3, 4, 5, 0 and 0, from level 5 on.
const PAGE: VirtualPage = VirtualPage::new(3 << 36 | 4 << 27 | 5 << 18);
const MODE: GapTolerance = GapTolerance::SINGLE_4M;

/// An MMU over these tables, in which a superpage at `PAGE` and, behind it, a level-1 node are mapped.
fn unit(mut tables: GapTolerantRadix, level2_entries: usize) -> Mmu {
    let space: SpaceId = SPACE;
    for (level, frame, page) in [
        (5, 0x10, VirtualPage::new(0)),
        (4, 0x11, VirtualPage::new(3 << 36)),
        (3, 0x12, VirtualPage::new(3 << 36 | 4 << 27)),
        (2, 0x14, PAGE),
        (1, 0x18, PAGE.add(1024)),
    ] {
        let frame = Frame::new(frame);
        apply(
            &mut tables,
            &TableOperation::AddNode { space, level, page, frame, branch: 0 }.into(),
        );
    }
    let (size, permissions, slice) = (PageSize::Size4K, RW, Frame::new(0));
    let (page, frame) = (PAGE.add(1025), Frame::new(0x777));
    apply(&mut tables, &TableOperation::Map { space, page, size, frame, permissions }.into());
    let (page, mode, second, selection) = (PAGE, MODE, slice, SELECTION);
    let superpage =
        SuperpageOperation::Map { space, page, mode, slice, second, selection, permissions };
    apply(&mut tables, &superpage.into());
    let mut mmu = Mmu::new(&config(level2_entries), Box::new(tables)).unwrap();
    mmu.switch(SPACE);
    mmu
}

/// Reads of a walk of five levels to the entry `offset` bytes into the page directory.
fn walk_to(offset: u64) -> Vec<(Purpose, u64)> {
    vec![
        (Purpose::Level5, 0x10_000 + 3 * 8),
        (Purpose::Level4, 0x11_000 + 4 * 8),
        (Purpose::Level3, 0x12_000 + 5 * 8),
        (Purpose::Level2, 0x14_000 + offset),
    ]
}

#[test]
fn a_walk_of_five_levels_reads_the_root_first() {
    let new = || GapTolerantRadix::new(MODE).with_five_levels(true);
    let native = GapTolerantRadix::with_native_tlb(MODE, TlbGeometry { entries: 4, ways: 4 });
    for (tables, is_native) in [(new(), false), (native.with_five_levels(true), true)] {
        let mut mmu = unit(tables, 0);
        let first = access(&mut mmu, AccessKind::Write, PAGE);
        assert_eq!((first.frame, first.reads), (Ok(32), walk_to(0)));
        let next = access(&mut mmu, AccessKind::Read, PAGE.add(37));
        assert_eq!((next.frame, next.reads.is_empty()), (Ok(3 * 32 + 5), is_native));
        let other = access(&mut mmu, AccessKind::Read, PAGE.add(1025));
        let mut reads = walk_to(16);
        reads.push((Purpose::Level1, 0x18_000 + 8));
        assert_eq!((other.frame, other.reads), (Ok(0x777), reads));
        // Every entry of the path is marked as accessed.
        for (_, entry) in walk_to(0) {
            let word = mmu.dimension().memory().word(PhysicalAddress::new(entry));
            assert_ne!(word & 1 << 5, 0, "{entry:x}");
        }
    }
    // With walk caches, the directory is found without the levels above it, and the entry without a read.
    let mut mmu = unit(new(), 4);
    let reads = |mmu: &mut Mmu, index| access(mmu, AccessKind::Read, PAGE.add(index)).reads.len();
    assert_eq!([0, 1025, 37].map(|index| reads(&mut mmu, index)), [4, 2, 0]);
}
