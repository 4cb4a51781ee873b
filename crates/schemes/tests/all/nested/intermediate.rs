//! Intermediate entries, worked out by hand: a guest's large page over 4KB pages of its host (P
//! §V).

use perforate_mmu::{Case, L2Part, MmuConfig, PageFault, TlbGeometry};
use perforate_schemes::perforated::PerforatedOperation;
use perforate_types::{
    AccessKind, Frame, GuestFrame, PageSize, Permissions, Purpose, Shootdown, SpaceId,
    TableOperation, Update, VirtualPage,
};

use super::tables::Paging::{self, Page2M, Pages4K, Perforated};
use super::tables::{
    BLOCK, DATA, FIRST, GUEST, MACHINE, access, apply, apply_host, config, guest_changes, load,
    map, pair_at, store, story,
};

/// A configuration that caches guest-physical addresses in the second-level TLB and has
/// intermediate entries.
fn intermediate() -> MmuConfig {
    let mut config = config();
    config.virtualization.nested_tlb = None;
    config.virtualization.intermediate_entries = true;
    config
}

fn frame(index: u64) -> u64 {
    BLOCK + index
}

/// The first load takes 19 references: the guest's three levels, each table and the page located by
/// the host's four. The second takes the host's four only, the third none.
#[test]
fn the_second_page_walks_the_host_alone() {
    let mut mmu = pair_at(&intermediate(), Page2M, Pages4K, DATA);
    let (outcome, steps) = access(&mut mmu, AccessKind::Read, 5);
    assert_eq!(outcome, Ok((frame(5), Case::Regular, true)));
    assert_eq!(steps.reads().iter().sum::<u8>(), 3 * 5 + 4);
    let contents = mmu.l2_contents();
    // Three tables and a page of the guest's memory are cached as well.
    assert_eq!((contents.intermediate, contents.page_4k, contents.nested), (1, 0, 4));

    let (outcome, steps) = access(&mut mmu, AccessKind::Read, 6);
    assert_eq!(outcome, Ok((frame(6), Case::Intermediate, false)));
    assert_eq!(
        story(&steps),
        [
            "l2 hit",
            "host l2 miss",
            "HostLevel4 50000",
            "HostLevel3 51000",
            "HostLevel2 52040",
            "HostLevel1 56030",
        ]
    );
    mmu.flush_first_level();
    let (outcome, steps) = access(&mut mmu, AccessKind::Read, 6);
    assert_eq!(outcome, Ok((frame(6), Case::Intermediate, false)));
    assert_eq!(story(&steps), ["l2 hit", "host l2 hit"]);
    let counters = mmu.counters();
    assert_eq!((counters.l2_misses, counters.walks, counters.intermediate_hits), (1, 2, 2));
}

/// Entries have 4KB without intermediate entries, without a cache of guest-physical addresses, and
/// if the second level has no room for 2MB.
#[test]
fn other_hardware_holds_4kb_entries() {
    let mut uncached = intermediate();
    uncached.virtualization.nested_tlb = Some(TlbGeometry { entries: 0, ways: 1 });
    let mut small = intermediate();
    small.tlb.l2_2m = L2Part::NONE;
    let mut without = intermediate();
    without.virtualization.intermediate_entries = false;
    for config in [uncached, small, without] {
        let mut mmu = pair_at(&config, Page2M, Pages4K, DATA);
        load(&mut mmu, 5).unwrap();
        assert_eq!(access(&mut mmu, AccessKind::Read, 6).0, Ok((frame(6), Case::Regular, true)));
        let contents = mmu.l2_contents();
        assert_eq!((contents.intermediate, contents.page_4k), (0, 2));
    }
}

/// Pairs with equal page sizes, or with smaller pages in the guest, have one combined entry.
#[test]
fn other_pairs_have_combined_entries() {
    let others: [(Paging<'_>, Paging<'_>); 4] =
        [(Pages4K, Page2M), (Pages4K, Pages4K), (Page2M, Page2M), (Page2M, Perforated(&[7]))];
    for (guest, host) in others {
        let mut mmu = pair_at(&intermediate(), guest, host, DATA);
        load(&mut mmu, 5).unwrap();
        assert_eq!(mmu.l2_contents().intermediate, 0, "{guest:?} over {host:?}");
    }
}

/// The cached entry of a host's hole is 4KB of a larger page. A walk that finds it makes no
/// intermediate entry, whose bitmap would be the guest's alone. A combined entry of the same page,
/// filled later, would use those bits and translate the host's holes in place.
#[test]
fn a_hole_of_the_host_makes_no_intermediate_entry() {
    let mut mmu = pair_at(&intermediate(), Perforated(&[0]), Perforated(&[7]), DATA);
    // Another process maps the same memory by 4KB pages, so that the host's hole is cached.
    let other = SpaceId(GUEST.0 + 1);
    guest_changes(other, Pages4K, DATA).into_iter().for_each(|change| apply(&mut mmu, change));
    mmu.switch(other);
    let located = load(&mut mmu, 7).unwrap();
    assert_ne!(located, frame(7), "it is a hole of the host");
    mmu.switch(GUEST);
    assert_eq!(access(&mut mmu, AccessKind::Read, 7).0, Ok((located, Case::Regular, true)));
    let contents = mmu.l2_contents();
    assert_eq!((contents.intermediate, contents.page_4k, contents.bitmap), (0, 2, 0));
    // The next sub-page fills the combined entry, and the bitmap has the holes of both.
    assert_eq!(load(&mut mmu, 9), Ok(frame(9)));
    mmu.flush_first_level();
    mmu.evict_page(GUEST, VirtualPage::new(FIRST + 7));
    assert_eq!(load(&mut mmu, 7), Ok(located));
}

/// The guest's filter and bitmap lead to its hole, which has a separate entry. Sub-pages in place
/// continue with the host's page.
#[test]
fn a_perforated_page_of_the_guest() {
    let mut mmu = pair_at(&intermediate(), Perforated(&[0, 2]), Pages4K, DATA);
    assert_eq!(access(&mut mmu, AccessKind::Read, 100).0, Ok((frame(100), Case::Regular, true)));
    assert_eq!(mmu.l2_contents().intermediate, 1);
    // Region 1 has no hole, so the filter makes a bitmap look-up unnecessary.
    assert_eq!(
        access(&mut mmu, AccessKind::Read, 101).0,
        Ok((frame(101), Case::Intermediate, false))
    );
    assert_eq!(mmu.l2_contents().bitmap, 0);
    // The bitmap is the guest's, read without another walk to the directory entry.
    let (outcome, steps) = access(&mut mmu, AccessKind::Read, 2);
    assert_eq!(outcome, Ok((0x6002, Case::ReadHole, false)));
    assert_eq!(story(&steps)[..2], ["l2 hit", "bitmap l2 miss"]);
    assert_eq!(access(&mut mmu, AccessKind::Read, 0).0, Ok((0x6000, Case::BitmapHole, false)));
    let (outcome, _) = access(&mut mmu, AccessKind::Read, 3);
    assert_eq!(outcome, Ok((frame(3), Case::IntermediateBitmap, false)));
    let contents = mmu.l2_contents();
    assert_eq!((contents.intermediate, contents.hole, contents.bitmap), (1, 2, 1));
}

/// A walk to a hole fills the guest's page and the hole.
#[test]
fn a_walk_to_a_hole_fills_both() {
    let mut mmu = pair_at(&intermediate(), Perforated(&[0, 2]), Pages4K, DATA);
    assert_eq!(load(&mut mmu, 2), Ok(0x6002));
    let contents = mmu.l2_contents();
    assert_eq!((contents.intermediate, contents.hole), (1, 1));
    assert_eq!(load(&mut mmu, 100), Ok(frame(100)));
    assert_eq!(mmu.counters().l2_misses, 1);
}

/// A walk to a sub-page near a hole reads the bitmap, finds that the sub-page is not a hole, and
/// continues with the host's page (P §IV.C–D). The sub-page has an entry in the first level only.
/// Hardware without intermediate entries reads the same, and keeps a 4KB entry.
#[test]
fn a_walk_beside_a_hole_reads_the_bitmap() {
    let of_bitmap = |steps: &[String]| {
        let reads = steps.iter().filter(|step| step.starts_with("Bitmap")).count();
        (reads, steps.iter().any(|step| step.starts_with("Shadow") || step.starts_with("Hole")))
    };
    let mut mmu = pair_at(&intermediate(), Perforated(&[0, 2]), Pages4K, DATA);
    let (outcome, steps) = access(&mut mmu, AccessKind::Read, 3);
    assert_eq!(outcome, Ok((frame(3), Case::IntermediateRead, true)));
    assert_eq!(of_bitmap(&story(&steps)), (1, false), "{:?}", story(&steps));
    let contents = mmu.l2_contents();
    assert_eq!((contents.intermediate, contents.hole, contents.bitmap), (1, 0, 1));
    let counters = mmu.counters();
    assert_eq!((counters.bitmap_misses, counters.intermediate_hits), (1, 0));
    assert_eq!(access(&mut mmu, AccessKind::Read, 3).0, Ok((frame(3), Case::FirstLevel, false)));

    let mut without = intermediate();
    without.virtualization.intermediate_entries = false;
    let mut mmu = pair_at(&without, Perforated(&[0, 2]), Pages4K, DATA);
    let (outcome, steps) = access(&mut mmu, AccessKind::Read, 3);
    assert_eq!(outcome, Ok((frame(3), Case::Regular, true)));
    assert_eq!(of_bitmap(&story(&steps)), (1, false), "{:?}", story(&steps));
    let (outcome, steps) = access(&mut mmu, AccessKind::Read, 2);
    assert_eq!(outcome, Ok((0x6002, Case::Regular, true)));
    assert_eq!(of_bitmap(&story(&steps)), (1, true), "{:?}", story(&steps));
}

/// The guest's shootdown invalidates the guest's page; the host's invalidates both.
#[test]
fn shootdowns_of_either_side_take_effect() {
    let mut mmu = pair_at(&intermediate(), Page2M, Pages4K, DATA);
    load(&mut mmu, 5).unwrap();
    let (page, size) = (VirtualPage::new(DATA + 5), PageSize::Size4K);
    apply_host(&mut mmu, TableOperation::Unmap { space: MACHINE, page, size });
    apply_host(&mut mmu, map(MACHINE, DATA + 5, size, 0x7777));
    mmu.apply_host(&Update::Shootdown(Shootdown::Page { space: MACHINE, page }));
    assert_eq!(load(&mut mmu, 5), Ok(0x7777));

    let (page, size) = (VirtualPage::new(FIRST), PageSize::Size2M);
    apply(&mut mmu, TableOperation::Unmap { space: GUEST, page, size });
    mmu.apply(&Update::Shootdown(Shootdown::Large { space: GUEST, page, size }));
    assert_eq!(mmu.l2_contents().intermediate, 0);
    assert_eq!(load(&mut mmu, 5), Err(PageFault::NotMapped));
}

/// Either side may forbid a store. The first store sets the dirty bits of both.
#[test]
fn permissions_and_dirty_bits_are_of_both_sides() {
    let mut mmu = pair_at(&intermediate(), Page2M, Pages4K, DATA);
    load(&mut mmu, 5).unwrap();
    load(&mut mmu, 6).unwrap();
    mmu.flush_first_level();
    assert_eq!(store(&mut mmu, 6), Ok(frame(6)));
    let found = mmu.dimension().look_at(GUEST, VirtualPage::new(FIRST + 6)).unwrap();
    assert_ne!(found.allows & perforate_mmu::allow::DIRTY, 0);
    let host = mmu.dimension().host().unwrap();
    let clean = host.look_at(GuestFrame::new(DATA + 5)).unwrap();
    assert_eq!(clean.allows & perforate_mmu::allow::DIRTY, 0, "another page of the host");
    mmu.flush_first_level();
    assert_eq!(store(&mut mmu, 5), Ok(frame(5)));

    let (page, size) = (VirtualPage::new(DATA + 7), PageSize::Size4K);
    let permissions = Permissions::READ;
    apply_host(&mut mmu, TableOperation::Protect { space: MACHINE, page, size, permissions });
    let forbidden = store(&mut mmu, 7).unwrap_err();
    assert!(matches!(forbidden, PageFault::Host(fault) if fault.page == GuestFrame::new(DATA + 7)));
    let (page, size) = (VirtualPage::new(FIRST), PageSize::Size2M);
    apply(&mut mmu, TableOperation::Protect { space: GUEST, page, size, permissions });
    mmu.apply(&Update::Shootdown(Shootdown::Large { space: GUEST, page, size }));
    load(&mut mmu, 5).unwrap();
    assert_eq!(store(&mut mmu, 5), Err(PageFault::Protection));
}

/// A punched hole in the guest takes effect after the shootdown.
#[test]
fn a_punch_is_seen() {
    let mut mmu = pair_at(&intermediate(), Perforated(&[0]), Pages4K, DATA);
    load(&mut mmu, 3).unwrap();
    let (space, page) = (GUEST, VirtualPage::new(FIRST + 3));
    apply(&mut mmu, PerforatedOperation::Punch { space, page });
    for shootdown in [Shootdown::Page { space, page }, Shootdown::Bitmap { space, page }] {
        mmu.apply(&Update::Shootdown(shootdown));
    }
    assert_eq!(load(&mut mmu, 3), Err(PageFault::NotMapped));
    let (frame, permissions) = (Frame::new(0x2003), Permissions::READ_WRITE);
    apply(&mut mmu, PerforatedOperation::MapHole { space, page, frame, permissions });
    assert_eq!(load(&mut mmu, 3), Ok(0x6003));
}

/// After a store through a clean cached entry of the host, the first-level entry is marked dirty,
/// whether the guest's page was clean (6) or dirty (7).
#[test]
fn the_first_level_is_dirty_after_a_store_through_the_host() {
    let mut mmu = pair_at(&intermediate(), Page2M, Pages4K, DATA);
    (5..=8).for_each(|index| assert_eq!(load(&mut mmu, index), Ok(frame(index))));
    mmu.flush_first_level();
    for index in [6, 7] {
        assert_eq!(access(&mut mmu, AccessKind::Write, index).0.unwrap().1, Case::Intermediate);
        let allows = mmu.first_level_allows(VirtualPage::new(FIRST + index)).unwrap();
        assert_ne!(allows & perforate_mmu::allow::DIRTY, 0, "{index}");
    }
    // A page that is clean in the host stays clean.
    load(&mut mmu, 8).unwrap();
    let allows = mmu.first_level_allows(VirtualPage::new(FIRST + 8)).unwrap();
    assert_eq!(allows & perforate_mmu::allow::DIRTY, 0);
}

/// The host replaces its 4KB pages by a 2MB page. The combined entry then has no guest leaf, so a read of the
/// bitmap walks the guest's tables again.
#[test]
fn an_entry_made_after_an_intermediate_one_has_its_own_leaf() {
    let mut mmu = pair_at(&intermediate(), Perforated(&[1]), Pages4K, DATA);
    load(&mut mmu, 5).unwrap();
    assert_eq!(mmu.l2_contents().intermediate, 1);
    let (space, size) = (MACHINE, PageSize::Size4K);
    for index in 0..512 {
        let page = VirtualPage::new(DATA + index);
        apply_host(&mut mmu, TableOperation::Unmap { space, page, size });
    }
    let page = VirtualPage::new(DATA);
    apply_host(&mut mmu, TableOperation::RemoveNode { space, level: 1, page, branch: 0 });
    apply_host(&mut mmu, map(MACHINE, DATA, PageSize::Size2M, BLOCK));
    mmu.apply_host(&Shootdown::Space { space }.into());
    load(&mut mmu, 5).unwrap();
    let contents = mmu.l2_contents();
    assert_eq!((contents.intermediate, contents.perforated, contents.bitmap), (0, 1, 1));
    mmu.evict_bitmap(GUEST, VirtualPage::new(FIRST + 6));
    let (outcome, steps) = access(&mut mmu, AccessKind::Read, 6);
    assert_eq!(outcome, Ok((frame(6), Case::ReadInPlace, false)));
    assert_eq!(steps.reads()[Purpose::Level2 as usize], 1);
}
