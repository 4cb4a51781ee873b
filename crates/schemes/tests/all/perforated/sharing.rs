//! Consequences of SPEC P-2: the bitmap is the union over the address spaces that map a block,
//! while each space has its own filter. Two spaces map block 0x1000 at 1GB with different holes.

use perforate_mmu::{
    BitmapLoading, BitmapUpdates, Case, Mmu, MmuConfig, PageFault, TlbGeometry, WalkCacheConfig,
    allow,
};
use perforate_schemes::perforated::PerforatedRadix;
use perforate_schemes::perforated::{HOLE_BRANCH, PerforatedOperation};
use perforate_types::{
    AccessKind, Action, Frame, HoleSet, PageSize, Permissions, PhysicalAddress, Purpose, Shootdown,
    SpaceId, Step, Steps, TableOperation, Update, VirtualPage,
};

const A: SpaceId = SpaceId(1);
const B: SpaceId = SpaceId(2);
const FIRST: VirtualPage = VirtualPage::new(1 << 18);

fn change(mmu: &mut Mmu, change: impl Into<Update>) {
    mmu.apply(&change.into());
}

fn shared(holes_of_a: &[usize], holes_of_b: &[usize]) -> Mmu {
    shared_with(BitmapLoading::Filtered, holes_of_a, holes_of_b)
}

fn shared_with(loading: BitmapLoading, holes_of_a: &[usize], holes_of_b: &[usize]) -> Mmu {
    shared_on(BitmapUpdates::Invalidate, loading, [holes_of_a, holes_of_b])
}

/// Two sharers on hardware with this treatment of bitmap entries.
fn shared_on(updates: BitmapUpdates, loading: BitmapLoading, holes: [&[usize]; 2]) -> Mmu {
    let [l1, l2] = [16, 128].map(|entries| TlbGeometry { entries, ways: 4 });
    let walk_cache = WalkCacheConfig::fully_associative(2, 4, 24);
    let mut config = MmuConfig { walk_cache, ..MmuConfig::plain(l1, l2) };
    config.tlb.bitmap_updates = updates;
    let dimension = PerforatedRadix::new(PhysicalAddress::new(0x80_0000), loading);
    let mut mmu = Mmu::new(&config, Box::new(dimension)).unwrap();
    for (space, tables, holes) in [(A, 0x10, holes[0]), (B, 0x20, holes[1])] {
        for (level, frame, branch) in
            [(4, tables, 0), (3, tables + 1, 0), (2, tables + 2, 0), (1, tables + 4, HOLE_BRANCH)]
        {
            let page = if level >= 3 { VirtualPage::new(0) } else { FIRST };
            let frame = Frame::new(frame);
            change(&mut mmu, TableOperation::AddNode { space, level, page, frame, branch });
        }
        let holes: HoleSet = holes.iter().copied().collect();
        let (block, permissions) = (Frame::new(0x1000), Permissions::READ_WRITE);
        change(
            &mut mmu,
            PerforatedOperation::Perforate { space, page: FIRST, block, permissions, holes },
        );
    }
    mmu
}

fn frame(mmu: &mut Mmu, space: SpaceId, subpage: u64) -> Result<u64, PageFault> {
    mmu.switch(space);
    let address = FIRST.add(subpage).address();
    let found = mmu.translate(AccessKind::Read, address, &mut Steps::new());
    found.map(|found| found.physical.page().number())
}

fn bitmap(mmu: &Mmu) -> u64 {
    mmu.dimension().memory().word(PhysicalAddress::new(0x80_0000 + 0x1000 / 8))
}

#[test]
fn a_bit_punched_by_the_other_space_translates_in_place() {
    let mut mmu = shared(&[5], &[7]);
    assert_eq!(bitmap(&mmu), 1 << 5 | 1 << 7, "the union");
    assert_eq!(frame(&mut mmu, A, 7), Ok(0x1007), "A's filter bit is set, B's hole is not A's");
    assert_eq!(frame(&mut mmu, A, 5), Err(PageFault::NotMapped));
    assert_eq!(frame(&mut mmu, B, 5), Ok(0x1005));
    assert_eq!(frame(&mut mmu, B, 7), Err(PageFault::NotMapped));
    assert_eq!(frame(&mut mmu, A, 6), Ok(0x1006));
}

#[test]
fn a_patch_keeps_the_bit_while_another_space_has_the_hole() {
    let mut mmu = shared(&[5, 6], &[5]);
    change(&mut mmu, PerforatedOperation::Patch { space: A, page: FIRST.add(5) });
    for shootdown in [
        Shootdown::Page { space: A, page: FIRST.add(5) },
        Shootdown::Bitmap { space: A, page: FIRST.add(5) },
    ] {
        mmu.apply(&Update::Shootdown(shootdown));
    }
    assert_eq!(bitmap(&mmu), 1 << 5 | 1 << 6);
    assert_eq!(frame(&mut mmu, A, 5), Ok(0x1005));
    assert_eq!(frame(&mut mmu, B, 5), Err(PageFault::NotMapped));
}

#[test]
fn a_stale_bit_after_the_other_space_unmapped_is_harmless() {
    let mut mmu = shared(&[5], &[7]);
    assert_eq!(frame(&mut mmu, A, 8), Ok(0x1008), "A caches the union");
    change(&mut mmu, TableOperation::Unmap { space: B, page: FIRST, size: PageSize::Size2M });
    mmu.apply(&Update::Shootdown(Shootdown::Space { space: B }));
    assert_eq!(bitmap(&mmu), 1 << 5, "B's hole left the bitmap");
    assert_eq!(frame(&mut mmu, A, 7), Ok(0x1007), "A's cached bit 7 leads to an in-place entry");
}

#[test]
fn in_place_entries_follow_the_permissions_of_the_page() {
    let mut mmu = shared(&[5], &[7]);
    let (page, size, permissions) = (FIRST, PageSize::Size2M, Permissions::READ);
    change(&mut mmu, TableOperation::Protect { space: A, page, size, permissions });
    mmu.apply(&Update::Shootdown(Shootdown::Space { space: A }));
    mmu.switch(A);
    let mut store = |subpage: u64| {
        mmu.translate(AccessKind::Write, FIRST.add(subpage).address(), &mut Steps::new())
    };
    assert_eq!(store(7), Err(PageFault::Protection));
    assert_eq!(store(100), Err(PageFault::Protection));
}

#[test]
fn without_the_filter_every_region_of_the_hole_node_is_complete() {
    // A's hole is in region 0 only. B's hole, in region 3, is in the bitmap that A's hardware
    // reads.
    for loading in [BitmapLoading::Naive, BitmapLoading::OnDemand] {
        let mut mmu = shared_with(loading, &[5], &[200]);
        assert_eq!(frame(&mut mmu, A, 200), Ok(0x1000 + 200));
        assert_eq!(frame(&mut mmu, B, 5), Ok(0x1005));
    }
}

#[test]
fn a_store_through_an_in_place_entry_is_a_store_to_the_page() {
    let mut mmu = shared(&[5], &[7]);
    mmu.switch(A);
    mmu.translate(AccessKind::Write, FIRST.add(7).address(), &mut Steps::new()).unwrap();
    let is_dirty = |mmu: &Mmu, subpage| {
        mmu.dimension().look_at(A, FIRST.add(subpage)).unwrap().allows & allow::DIRTY != 0
    };
    assert!(is_dirty(&mmu, 7), "the entry of the hole node has the dirty bit");
    assert!(!is_dirty(&mmu, 8));
}

/// Case of a sub-page of A beyond the first level, and number of bitmap lines read.
fn case(mmu: &mut Mmu, subpage: u64) -> Result<(Case, usize), PageFault> {
    mmu.switch(A);
    mmu.flush_first_level();
    let mut steps = Steps::new();
    let found = mmu.translate(AccessKind::Read, FIRST.add(subpage).address(), &mut steps)?;
    let is_read = |step: &&Step| {
        step.purpose == Purpose::Bitmap && matches!(step.action, Action::Read { .. })
    };
    Ok((found.case, steps.as_slice().iter().filter(is_read).count()))
}

fn shoot_down(mmu: &mut Mmu, page: u64) {
    let page = FIRST.add(page);
    for shootdown in [Shootdown::Page { space: A, page }, Shootdown::Bitmap { space: A, page }] {
        mmu.apply(&Update::Shootdown(shootdown));
    }
}

/// P §IV.E, worked out by hand: sub-pages 5 and 6 are near a hole. After 9 was punched, the bitmap
/// entry of sub-pages 0 to 31 is either read again or already has bit 9.
#[test]
fn an_update_in_place_spares_the_read_after_a_punch_and_after_a_patch() {
    for (updates, read) in [(BitmapUpdates::Invalidate, 1), (BitmapUpdates::InPlace, 0)] {
        let mut mmu = shared_on(updates, BitmapLoading::Filtered, [&[5], &[5]]);
        let again = if read == 0 { Case::BitmapInPlace } else { Case::ReadInPlace };
        assert_eq!(case(&mut mmu, 6), Ok((Case::ReadInPlace, 1)), "nothing is cached");
        assert_eq!(case(&mut mmu, 7), Ok((Case::BitmapInPlace, 0)));
        let (space, page) = (A, FIRST.add(9));
        change(&mut mmu, PerforatedOperation::Punch { space, page });
        shoot_down(&mut mmu, 9);
        assert_eq!(case(&mut mmu, 7), Ok((again, read)));
        assert_eq!(case(&mut mmu, 9), Err(PageFault::NotMapped));
        let (frame, permissions) = (Frame::new(0x9000), Permissions::READ_WRITE);
        change(&mut mmu, PerforatedOperation::MapHole { space, page, frame, permissions });
        assert_eq!(case(&mut mmu, 9), Ok((Case::BitmapHole, 0)));
        change(&mut mmu, PerforatedOperation::Patch { space, page });
        shoot_down(&mut mmu, 9);
        assert_eq!(case(&mut mmu, 9), Ok((again, read)));
        assert_eq!(mmu.counters().bitmap_updates, if read == 0 { 2 } else { 0 });
    }
}

/// An update does not fill a bitmap entry that is not cached.
#[test]
fn an_update_in_place_fills_nothing() {
    let mut mmu = shared_on(BitmapUpdates::InPlace, BitmapLoading::Filtered, [&[5], &[5]]);
    change(&mut mmu, PerforatedOperation::Punch { space: A, page: FIRST.add(9) });
    shoot_down(&mut mmu, 9);
    assert_eq!(mmu.l2_contents().bitmap, 0);
    assert_eq!(mmu.counters().bitmap_updates, 0);
    assert_eq!(case(&mut mmu, 7), Ok((Case::ReadInPlace, 1)));
}

/// The update has the union of all sharers: B still has the hole that A patched.
#[test]
fn an_update_in_place_keeps_the_bits_of_other_sharers() {
    let mut mmu = shared_on(BitmapUpdates::InPlace, BitmapLoading::Filtered, [&[5, 6], &[5]]);
    assert_eq!(case(&mut mmu, 7), Ok((Case::ReadInPlace, 1)));
    change(&mut mmu, PerforatedOperation::Patch { space: A, page: FIRST.add(5) });
    shoot_down(&mut mmu, 5);
    assert_eq!(case(&mut mmu, 5), Ok((Case::BitmapHole, 0)), "through its entry in the hole node");
    assert_eq!(frame(&mut mmu, A, 5), Ok(0x1005));
}
