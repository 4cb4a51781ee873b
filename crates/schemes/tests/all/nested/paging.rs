//! Two dimensions, worked out by hand: cached entries, frames of data, attribution of faults, and
//! every step of a walk.

use super::tables::Paging::{Page1G, Page2M, Pages4K, Perforated, Unmapped};
use super::tables::{
    BLOCK, BLOCK_1G, DATA, DATA_1G, FIRST, GUEST, MACHINE, access, apply, apply_host, config,
    guest_changes, host_changes, load, map, pair, pair_at, pair_with_segments, store, story,
};
use perforate_mmu::{
    Case, Host, HostFault, Mmu, MmuConfig, Nested, NestedEntries, PageFault, Radix, Reach,
    RegisteredRun, TlbGeometry, WalkCacheConfig, allow,
};
use perforate_schemes::perforated::PerforatedOperation;
use perforate_types::{
    AccessKind, Frame, GuestFrame, HoleSet, PageRun, PageSize, Permissions, PhysicalAddress,
    Purpose, Shootdown, SpaceId, TableOperation, Truth, Unit, Update, VirtualPage,
};

fn host_fault(page: u64, kind: AccessKind) -> PageFault {
    PageFault::Host(HostFault { page: GuestFrame::new(page), kind })
}

/// A configuration that caches guest-physical addresses in the second-level TLB.
fn shared_nested() -> MmuConfig {
    let mut config = config();
    config.virtualization.nested_tlb = None;
    config
}

#[test]
fn holes_of_guest_and_host_are_united() {
    let mut mmu = pair(Perforated(&[0, 1]), Perforated(&[0, 2, 130]));
    // Filter bits: 0 of both, 2 of the host. Sub-page 100 is in region 1.
    assert_eq!(access(&mut mmu, AccessKind::Read, 100).0, Ok((0x3064, Case::Filtered, true)));
    let contents = mmu.l2_contents();
    assert_eq!((contents.perforated, contents.page_2m, contents.page_4k), (1, 0, 0));

    // A hole of both: the guest's hole has another frame, where the host has no holes.
    assert_eq!(access(&mut mmu, AccessKind::Read, 0).0, Ok((0x6000, Case::ReadHole, false)));
    // The united bitmap is cached: holes of the guest only, of the host only, of neither.
    assert_eq!(access(&mut mmu, AccessKind::Read, 1).0, Ok((0x6001, Case::BitmapHole, false)));
    assert_eq!(access(&mut mmu, AccessKind::Read, 2).0, Ok((0x9002, Case::BitmapHole, false)));
    assert_eq!(access(&mut mmu, AccessKind::Read, 3).0, Ok((0x3003, Case::BitmapInPlace, false)));
    // A filter bit that only the host has set.
    assert_eq!(access(&mut mmu, AccessKind::Read, 130).0, Ok((0x9082, Case::ReadHole, false)));
    assert_eq!(access(&mut mmu, AccessKind::Read, 131).0, Ok((0x3083, Case::BitmapInPlace, false)));
    let contents = mmu.l2_contents();
    assert_eq!((contents.perforated, contents.hole, contents.bitmap), (1, 4, 2));
}

/// All nine pairs: the second level holds the finer entry, with the holes of both.
#[test]
fn the_finer_entry_is_cached() {
    let pagings = [Pages4K, Page2M, Perforated(&[7])];
    for (row, guest) in pagings.into_iter().enumerate() {
        for (column, host) in pagings.into_iter().enumerate() {
            let mut mmu = pair(guest, host);
            assert_eq!(load(&mut mmu, 5), Ok(BLOCK + 5), "{guest:?} over {host:?}");
            let contents = mmu.l2_contents();
            let got = (contents.page_4k, contents.page_2m, contents.perforated);
            let expected = match (row, column) {
                (0, _) | (_, 0) => (1, 0, 0),
                (1, 1) => (0, 1, 0),
                _ => (0, 0, 1),
            };
            assert_eq!(got, expected, "{guest:?} over {host:?}");
            let hole = match (guest, host) {
                (Perforated(_), _) => 0x6007,
                (_, Perforated(_)) => 0x9007,
                _ => BLOCK + 7,
            };
            assert_eq!(load(&mut mmu, 7), Ok(hole), "{guest:?} over {host:?}");
        }
    }
}

#[test]
fn a_hole_of_the_guest_needs_no_backing_in_place() {
    for kind in [AccessKind::Read, AccessKind::Write] {
        let mut mmu = pair(Perforated(&[0]), Unmapped);
        let (outcome, _) = access(&mut mmu, kind, 0);
        assert_eq!(outcome.map(|(frame, ..)| frame), Ok(0x6000), "{kind:?}");
        // A sub-page in place, in the same region and in another one.
        let (outcome, _) = access(&mut mmu, kind, 1);
        assert_eq!(outcome, Err(host_fault(DATA + 1, kind)));
        let (outcome, _) = access(&mut mmu, kind, 100);
        assert_eq!(outcome, Err(host_fault(DATA + 100, kind)));
    }
}

#[test]
fn faults_on_unallocated_holes_are_attributed_to_their_side() {
    let mut mmu = pair(Perforated(&[0, 1]), Perforated(&[2, 3]));
    let unmap =
        |space, number| PerforatedOperation::UnmapHole { space, page: VirtualPage::new(number) };
    apply(&mut mmu, unmap(GUEST, FIRST + 1));
    apply_host(&mut mmu, unmap(MACHINE, DATA + 3));
    for warm in [false, true] {
        if warm {
            assert_eq!(load(&mut mmu, 100), Ok(BLOCK + 100));
        }
        assert_eq!(load(&mut mmu, 1), Err(PageFault::NotMapped));
        assert_eq!(store(&mut mmu, 1), Err(PageFault::NotMapped));
        assert_eq!(load(&mut mmu, 3), Err(host_fault(DATA + 3, AccessKind::Read)));
        assert_eq!(store(&mut mmu, 3), Err(host_fault(DATA + 3, AccessKind::Write)));
    }
    // The guest's hole is allocated, but the host does not back its frame.
    apply(&mut mmu, super::tables::map_hole(GUEST, FIRST + 1, 0x2300));
    assert_eq!(store(&mut mmu, 1), Err(host_fault(0x2300, AccessKind::Write)));
}

#[test]
fn a_table_that_the_host_does_not_back_is_a_fault_for_writing() {
    let mut mmu = pair(Pages4K, Pages4K);
    let size = PageSize::Size4K;
    let page = VirtualPage::new(0x12);
    apply_host(&mut mmu, TableOperation::Unmap { space: MACHINE, page, size });
    assert_eq!(load(&mut mmu, 5), Err(host_fault(0x12, AccessKind::Write)));
    apply_host(&mut mmu, map(MACHINE, 0x12, size, 0x8000));
    let permissions = Permissions::READ;
    apply_host(&mut mmu, TableOperation::Protect { space: MACHINE, page, size, permissions });
    assert_eq!(load(&mut mmu, 5), Err(host_fault(0x12, AccessKind::Write)), "accessed bits");
}

#[test]
fn a_forbidden_store_is_attributed_to_the_side_that_forbids_it() {
    let sizes = [(Pages4K, PageSize::Size4K), (Page2M, PageSize::Size2M)];
    for (guest, guest_size) in sizes {
        for (host, host_size) in sizes {
            for (guest_allows, host_allows) in [(false, true), (true, false), (false, false)] {
                let mut mmu = pair(guest, host);
                let protect = |space, page: u64, size: PageSize| TableOperation::Protect {
                    space,
                    page: VirtualPage::new(page).align_down(size),
                    size,
                    permissions: Permissions::READ,
                };
                if !guest_allows {
                    apply(&mut mmu, protect(GUEST, FIRST + 5, guest_size));
                }
                if !host_allows {
                    apply_host(&mut mmu, protect(MACHINE, DATA + 5, host_size));
                }
                let blamed = match guest_allows {
                    true => host_fault(DATA + 5, AccessKind::Write),
                    false => PageFault::Protection,
                };
                let case = (guest, host, guest_allows, host_allows);
                // From a walk, from the second level, and from the first.
                assert_eq!(store(&mut mmu, 5), Err(blamed), "{case:?}");
                assert_eq!(load(&mut mmu, 5), Ok(BLOCK + 5), "{case:?}");
                assert_eq!(store(&mut mmu, 5), Err(blamed), "{case:?}");
                mmu.flush_first_level();
                assert_eq!(store(&mut mmu, 5), Err(blamed), "{case:?}");
            }
        }
    }
}

/// Dirty bits of the sub-page's leaf in both dimensions together, and in the host. `guest` is the
/// guest frame of the data.
fn dirty(mmu: &Mmu, index: u64, guest: u64) -> (bool, bool) {
    let is_dirty = |found: Option<Reach>| found.unwrap().allows & allow::DIRTY != 0;
    let host = is_dirty(mmu.dimension().host().unwrap().look_at(GuestFrame::new(guest)));
    let page = VirtualPage::new(FIRST + index);
    // Both together; the guest's own bit is not visible alone.
    let both = is_dirty(mmu.dimension().look_at(GUEST, page));
    (both, host)
}

#[test]
fn a_store_marks_the_leaves_of_both_dirty() {
    let pagings = [Pages4K, Page2M, Perforated(&[7])];
    for guest in pagings {
        for host in pagings {
            for load_first in [false, true] {
                let mut mmu = pair(guest, host);
                let case = format!("{guest:?} over {host:?}, {load_first}");
                if load_first {
                    load(&mut mmu, 5).unwrap();
                    assert_eq!(dirty(&mmu, 5, DATA + 5), (false, false), "{case}");
                }
                assert_eq!(store(&mut mmu, 5), Ok(BLOCK + 5), "{case}");
                assert_eq!(dirty(&mmu, 5, DATA + 5), (true, true), "{case}");
            }
        }
    }
}

#[test]
fn a_store_to_a_hole_of_the_host_marks_its_entry_dirty() {
    for guest in [Pages4K, Page2M] {
        for load_first in [false, true] {
            let mut mmu = pair(guest, Perforated(&[7]));
            let case = format!("{guest:?}, {load_first}");
            if load_first {
                load(&mut mmu, 7).unwrap();
                assert_eq!(dirty(&mmu, 7, DATA + 7), (false, false), "{case}");
            }
            store(&mut mmu, 7).unwrap();
            assert_eq!(dirty(&mmu, 7, DATA + 7), (true, true), "{case}");
            let known = mmu.first_level_allows(VirtualPage::new(FIRST + 7)).unwrap();
            assert_ne!(known & allow::DIRTY, 0, "{case}: the first level knows it");
            assert_eq!(dirty(&mmu, 100, DATA + 100), (false, false), "{case}");
            // Nor do cached entries of the page in place say that it is dirty.
            mmu.flush_first_level();
            store(&mut mmu, 100).unwrap();
            assert_eq!(dirty(&mmu, 100, DATA + 100), (true, true), "{case}");
        }
    }
}

#[test]
fn a_store_to_a_hole_leaves_what_lies_in_place_clean() {
    // A hole of the guest, cold: the host's 2MB page in place is not written.
    let mut mmu = pair(Perforated(&[0]), Page2M);
    assert_eq!(store(&mut mmu, 0), Ok(0x6000));
    assert_eq!(dirty(&mmu, 0, 0x2000), (true, true));
    assert_eq!(dirty(&mmu, 100, DATA + 100), (false, false));
    // The first store through a first-level entry does not write it either, after the hole's entry
    // was evicted from the second level. The store beside the hole still has to set the dirty bit.
    let mut mmu = pair(Perforated(&[0]), Perforated(&[1]));
    load(&mut mmu, 100).unwrap();
    for hole in [0, 1] {
        load(&mut mmu, hole).unwrap();
        mmu.evict_page(GUEST, VirtualPage::new(FIRST + hole));
        store(&mut mmu, hole).unwrap();
        assert_eq!(dirty(&mmu, 100, DATA + 100), (false, false), "{hole}");
    }
    assert_eq!(store(&mut mmu, 101), Ok(BLOCK + 101));
    assert_eq!(dirty(&mmu, 101, DATA + 101), (true, true));
}

/// The host's walk for a guest table in the lowest 2MB.
fn host_walk(frame: u64) -> [String; 4] {
    let last = format!("HostLevel1 {:x}", 0x54000 + 8 * frame);
    ["HostLevel4 50000", "HostLevel3 51000", "HostLevel2 52000", &last].map(String::from)
}

#[test]
fn a_cold_walk_of_two_dimensions_step_by_step() {
    let mut mmu = pair(Pages4K, Pages4K);
    let (outcome, steps) = access(&mut mmu, AccessKind::Read, 5);
    assert_eq!(outcome, Ok((BLOCK + 5, Case::Regular, true)));
    let mut expected = vec!["l2 miss".to_string()];
    for (frame, read) in [
        (0x10, "Level4 410000"),
        (0x11, "Level3 411008"),
        (0x12, "Level2 412000"),
        (0x14, "Level1 414028"),
    ] {
        expected.extend(host_walk(frame));
        expected.push(read.into());
    }
    // Guest frame 0x1005: the ninth entry of level 2.
    expected.extend(
        ["HostLevel4 50000", "HostLevel3 51000", "HostLevel2 52040", "HostLevel1 56028"]
            .map(String::from),
    );
    assert_eq!(story(&steps), expected);
    // Every step starts after the step before.
    let stages: Vec<u8> = steps.as_slice().iter().map(|step| step.stage).collect();
    assert!(stages.is_sorted() && usize::from(stages[stages.len() - 1]) >= expected.len() - 1);
}

#[test]
fn guest_physical_addresses_are_cached_where_the_machine_says() {
    let apart = TlbGeometry { entries: 16, ways: 4 };
    for (nested_tlb, reads, nested, unit) in [
        // The tables are cached; the neighbouring page is not.
        (None, 4 + 4, 5, Some("host l2 hit")),
        (Some(apart), 4 + 4, 0, Some("host nested tlb hit")),
        (Some(TlbGeometry { entries: 0, ways: 1 }), 24, 0, None),
    ] {
        let mut config = config();
        config.virtualization.nested_tlb = nested_tlb;
        let mut mmu = pair_at(&config, Pages4K, Pages4K, DATA);
        let (_, steps) = access(&mut mmu, AccessKind::Read, 5);
        assert_eq!(steps.reads().iter().sum::<u8>(), 24);
        assert_eq!(mmu.l2_contents().nested, nested, "{nested_tlb:?}");
        let slots = mmu.slots()[Unit::NestedTlb as usize];
        // A set of up to 16 ways has 16 slots, of which the other ones stay empty.
        assert_eq!(slots, nested_tlb.map_or(0, |geometry| geometry.entries / geometry.ways * 16));
        let (outcome, steps) = access(&mut mmu, AccessKind::Read, 6);
        assert_eq!(outcome, Ok((BLOCK + 6, Case::Regular, true)));
        assert_eq!(steps.reads().iter().sum::<u8>(), reads, "{nested_tlb:?}");
        let hits = story(&steps).iter().filter(|word| word.ends_with("hit")).count();
        assert_eq!(hits, if unit.is_some() { 4 } else { 0 });
        if let Some(unit) = unit {
            assert_eq!(story(&steps).iter().filter(|word| *word == unit).count(), 4);
        }
    }
}

/// P §V: the guest's bitmap is found by the guest's block, so the guest's directory entry is read
/// again after a TLB hit.
#[test]
fn a_bitmap_miss_on_a_cached_united_entry_step_by_step() {
    let run =
        RegisteredRun { first: GuestFrame::new(0x800), pages: 0x10, located: Frame::new(0x7800) };
    for registered in [None, Some(run)] {
        let mut config = shared_nested();
        config.walk_cache.level3_entries = 4;
        let pagings = (Perforated(&[0]), Perforated(&[1]));
        let mut mmu = pair_with_segments(&config, pagings, (false, false), DATA, registered);
        load(&mut mmu, 100).unwrap();
        let (outcome, steps) = access(&mut mmu, AccessKind::Read, 3);
        assert_eq!(outcome, Ok((BLOCK + 3, Case::ReadInPlace, false)));
        // The bitmap lines of guest block 0x1000 and of machine block 0x3000.
        let mut expected = vec![
            "l2 hit",
            "bitmap l2 miss",
            "walk cache hit",
            "Level2 412000",
            "HostBitmap 1000600",
        ];
        if registered.is_none() {
            // Guest frame 0x800 is the first page of the fifth entry of level 2.
            expected.extend([
                "host l2 miss",
                "HostLevel4 50000",
                "HostLevel3 51000",
                "HostLevel2 52020",
                "HostLevel1 55000",
            ]);
        }
        expected.push("Bitmap 7800200");
        assert_eq!(story(&steps), expected, "{registered:?}");
        // The line is cached: the hole costs the walk through the shadow entries.
        let (outcome, steps) = access(&mut mmu, AccessKind::Read, 1);
        assert_eq!(outcome, Ok((0x9001, Case::BitmapHole, false)));
        assert_eq!(story(&steps)[..2], ["l2 hit", "bitmap l2 hit"]);
    }
}

/// Guest-physical pages and bitmap entries in the second level, and reads of the host's bitmap and
/// hole node.
fn cached_and_read(mmu: &Mmu, story: &[String]) -> [u64; 4] {
    let contents = mmu.l2_contents();
    let reads =
        |purpose: &str| story.iter().filter(|step| step.starts_with(purpose)).map(|_| 1).sum();
    [contents.nested, contents.bitmap, reads("HostBitmap "), reads("HostHole ")]
}

/// P §V: the walker reads the bitmaps of both sides and inserts their union. A hole of the host
/// inside the guest's page is known from the union: the host's line is read once, and no gPA→hPA
/// bitmap or hole is cached.
#[test]
fn a_hole_of_the_host_reads_its_bitmap_once() {
    let mut mmu = pair_at(&shared_nested(), Page2M, Perforated(&[1]), DATA);
    let (outcome, steps) = access(&mut mmu, AccessKind::Read, 1);
    assert_eq!(outcome, Ok((0x9001, Case::ReadHole, true)));
    // The guest's three tables, and the page of its data.
    assert_eq!(cached_and_read(&mmu, &story(&steps)), [4, 1, 1, 1], "{:?}", story(&steps));
    // After the eviction of the hole's entry, the united bitmap leads to the host's hole without
    // another read.
    mmu.evict_page(GUEST, VirtualPage::new(FIRST + 1));
    mmu.flush_first_level();
    let (outcome, steps) = access(&mut mmu, AccessKind::Read, 1);
    assert_eq!(outcome, Ok((0x9001, Case::BitmapHole, false)));
    assert_eq!(cached_and_read(&mmu, &story(&steps)), [4, 1, 0, 1], "{:?}", story(&steps));
}

/// A 4KB page of the guest has no united bitmap, so the host's page with holes is used like a
/// native one.
#[test]
fn pages_of_4kb_over_holes_cache_the_bitmap_of_the_host() {
    let mut mmu = pair_at(&shared_nested(), Pages4K, Perforated(&[1]), DATA);
    let (outcome, steps) = access(&mut mmu, AccessKind::Read, 1);
    assert_eq!(outcome, Ok((0x9001, Case::Regular, true)));
    // Four tables, the page with holes, one bitmap entry, and the hole.
    assert_eq!(cached_and_read(&mmu, &story(&steps)), [7, 0, 1, 1], "{:?}", story(&steps));
    let (outcome, steps) = access(&mut mmu, AccessKind::Read, 2);
    assert_eq!(outcome, Ok((BLOCK + 2, Case::Regular, true)));
    assert_eq!(cached_and_read(&mmu, &story(&steps)), [7, 0, 0, 0], "{:?}", story(&steps));
}

/// With gPA→hPA entries for the guest's tables only, data with combined entries get none.
#[test]
fn data_need_no_guest_physical_entries() {
    let mut config = shared_nested();
    config.virtualization.nested_entries = NestedEntries::Tables;
    config.virtualization.intermediate_entries = true;
    for (guest, host, cached) in [
        (Pages4K, Pages4K, [4, 0, 0, 0]),
        (Pages4K, Perforated(&[1]), [4, 0, 1, 1]),
        (Page2M, Perforated(&[1]), [3, 1, 1, 1]),
        // Data under an intermediate entry need a gPA→hPA entry.
        (Page2M, Pages4K, [4, 0, 0, 0]),
    ] {
        let mut mmu = pair_at(&config, guest, host, DATA);
        let (outcome, steps) = access(&mut mmu, AccessKind::Read, 1);
        assert!(outcome.is_ok());
        let found = cached_and_read(&mmu, &story(&steps));
        assert_eq!(found, cached, "{guest:?} over {host:?}: {:?}", story(&steps));
    }
}

/// Entries with the guest's block save the read of the guest's directory entry.
#[test]
fn entries_that_name_the_guests_block_spare_a_read() {
    for is_named in [false, true] {
        let mut config = shared_nested();
        config.walk_cache.level3_entries = 4;
        config.virtualization.guest_blocks_in_entries = is_named;
        let mut mmu = pair_at(&config, Perforated(&[0]), Perforated(&[1]), DATA);
        load(&mut mmu, 100).unwrap();
        // A bitmap miss (case 4), and a hole found by a cached bitmap (case 6).
        for (index, frame) in [(3, BLOCK + 3), (1, 0x9001)] {
            let (outcome, steps) = access(&mut mmu, AccessKind::Read, index);
            assert_eq!(outcome.map(|(frame, ..)| frame), Ok(frame));
            let reads = story(&steps).iter().filter(|step| step.starts_with("Level2 ")).count();
            assert_eq!(reads, usize::from(!is_named), "{index}: {:?}", story(&steps));
        }
    }
}

/// An entry has the guest's block of its own walk: another block after the guest has moved its
/// page.
#[test]
fn an_entry_names_the_block_of_its_own_walk() {
    let mut config = shared_nested();
    config.virtualization.intermediate_entries = true;
    for is_named in [false, true] {
        config.virtualization.guest_blocks_in_entries = is_named;
        let mut mmu = pair_at(&config, Perforated(&[0, 2]), Page2M, DATA);
        assert_eq!(load(&mut mmu, 0), Ok(0x6000));
        // The guest's page gets another block, of which the host backs no page.
        let (space, page, size) = (GUEST, VirtualPage::new(FIRST), PageSize::Size2M);
        apply(&mut mmu, TableOperation::Unmap { space, page, size });
        mmu.apply(&Update::Shootdown(Shootdown::Large { space, page, size }));
        let (block, permissions) = (Frame::new(DATA + 0x200), Permissions::ALL);
        let holes = HoleSet::from_iter([0, 2]);
        apply(&mut mmu, PerforatedOperation::Perforate { space, page, block, permissions, holes });
        apply(&mut mmu, super::tables::map_hole(GUEST, FIRST, 0x2000));
        assert_eq!(load(&mut mmu, 0), Ok(0x6000));
        mmu.evict_page(GUEST, page);
        let (outcome, _) = access(&mut mmu, AccessKind::Read, 1);
        assert_eq!(outcome, Err(host_fault(DATA + 0x201, AccessKind::Read)));
    }
}

#[test]
fn a_change_of_the_host_invalidates_combined_entries() {
    let mut apart = config();
    apart.virtualization.nested_tlb = Some(TlbGeometry { entries: 16, ways: 4 });
    let cached = MmuConfig { walk_cache: caches(), ..config() };
    for config in [config(), shared_nested(), apart, cached] {
        let mut mmu = pair_at(&config, Pages4K, Pages4K, DATA);
        load(&mut mmu, 5).unwrap();
        let (page, size) = (VirtualPage::new(DATA + 5), PageSize::Size4K);
        apply_host(&mut mmu, TableOperation::Unmap { space: MACHINE, page, size });
        mmu.apply_host(&Update::Shootdown(Shootdown::Page { space: MACHINE, page }));
        assert_eq!(mmu.l2_contents().page_4k + mmu.l2_contents().nested, 0);
        assert_eq!(load(&mut mmu, 5), Err(host_fault(DATA + 5, AccessKind::Read)));
        apply_host(&mut mmu, map(MACHINE, DATA + 5, size, 0x7777));
        assert_eq!(load(&mut mmu, 5), Ok(0x7777));
        // The host moves a table of the guest.
        let page = VirtualPage::new(0x14);
        apply_host(&mut mmu, TableOperation::Unmap { space: MACHINE, page, size });
        mmu.apply_host(&Update::Shootdown(Shootdown::Page { space: MACHINE, page }));
        apply_host(&mut mmu, map(MACHINE, 0x14, size, 0x8888));
        let (outcome, steps) = access(&mut mmu, AccessKind::Read, 6);
        assert_eq!(outcome, Ok((BLOCK + 6, Case::Regular, true)));
        assert!(story(&steps).contains(&"Level1 8888030".to_string()));
    }
}

/// A flush leaves no entries, guest-physical ones included, wherever these are cached: a walk reads
/// the same as the first walk.
#[test]
fn a_walk_after_a_flush_is_a_cold_one() {
    let mut apart = config();
    apart.virtualization.nested_tlb = Some(TlbGeometry { entries: 64, ways: 4 });
    let mut cached = MmuConfig { walk_cache: caches(), ..shared_nested() };
    cached.virtualization.host_walk_cache = None;
    for config in [config(), shared_nested(), apart, cached] {
        for (guest, host) in [(Pages4K, Pages4K), (Perforated(&[5]), Perforated(&[6]))] {
            let mut mmu = pair_at(&config, guest, host, DATA);
            let mut cold = || {
                mmu.flush();
                let (outcome, steps) = access(&mut mmu, AccessKind::Read, 5);
                (outcome, story(&steps))
            };
            let (first, again) = (cold(), cold());
            assert_eq!(again, first, "{:?}", config.virtualization);
        }
    }
}

fn caches() -> WalkCacheConfig {
    WalkCacheConfig::fully_associative(2, 4, 24)
}

#[test]
fn gigabytes_over_smaller_pages_and_under_them() {
    let holes: &[u64] = &[3];
    for (guest, host, found, hole, kept) in [
        (Page1G, Pages4K, BLOCK, BLOCK + 3, (1, 0, 0, 0)),
        (Page1G, Page2M, BLOCK, BLOCK + 3, (0, 1, 0, 0)),
        (Page1G, Perforated(holes), BLOCK, 0x9003, (0, 0, 1, 0)),
        (Page1G, Page1G, BLOCK_1G, BLOCK_1G + 3, (0, 0, 0, 1)),
        (Pages4K, Page1G, BLOCK_1G, BLOCK_1G + 3, (1, 0, 0, 0)),
        (Page2M, Page1G, BLOCK_1G, BLOCK_1G + 3, (0, 1, 0, 0)),
        (Perforated(holes), Page1G, BLOCK_1G, 0x6003, (0, 0, 1, 0)),
    ] {
        let mut mmu = pair_at(&config(), guest, host, DATA_1G);
        let case = format!("{guest:?} over {host:?}");
        assert_eq!(load(&mut mmu, 5), Ok(found + 5), "{case}");
        let contents = mmu.l2_contents();
        let held = (contents.page_4k, contents.page_2m, contents.perforated, contents.page_1g);
        assert_eq!(held, kept, "{case}");
        assert_eq!(load(&mut mmu, 3), Ok(hole), "{case}");
        assert_eq!(store(&mut mmu, 9), Ok(found + 9), "{case}");
        if matches!((guest, host), (Page1G, Page1G)) {
            assert_eq!(load(&mut mmu, 512 * 400 + 1), Ok(BLOCK_1G + 512 * 400 + 1), "{case}");
        }
    }
}

/// The guest's shootdown covers its own page size; cached entries inside the page may be smaller.
#[test]
fn a_shootdown_of_a_gigabyte_ends_the_smaller_entries_inside() {
    for host in [Pages4K, Page2M, Perforated(&[3]), Page1G] {
        let mut mmu = pair_at(&config(), Page1G, host, DATA_1G);
        load(&mut mmu, 5).unwrap();
        load(&mut mmu, 3).unwrap();
        let (space, page, size) = (GUEST, VirtualPage::new(FIRST), PageSize::Size1G);
        apply(&mut mmu, TableOperation::Unmap { space, page, size });
        mmu.apply(&Update::Shootdown(Shootdown::Large { space, page, size }));
        for index in [3, 5] {
            assert_eq!(load(&mut mmu, index), Err(PageFault::NotMapped), "{index} over {host:?}");
        }
        let contents = mmu.l2_contents();
        let left = contents.page_4k + contents.page_2m + contents.perforated + contents.bitmap;
        assert_eq!(left + contents.hole + contents.page_1g, 0, "{host:?}");
    }
}

/// A checker of table locations also receives locations from walk caches: a stale location would
/// give the right translation but the wrong timing.
#[test]
fn places_of_tables_from_walk_caches_are_noted() {
    let config = MmuConfig { walk_cache: caches(), ..config() };
    let mut host = Host::new(&config, Box::new(Radix::new()), MACHINE);
    host.note_located();
    let nested = Nested::new(Box::new(Radix::new()), host);
    let mut mmu = Mmu::new(&config, Box::new(nested)).unwrap();
    mmu.switch(GUEST);
    guest_changes(GUEST, Pages4K, DATA).into_iter().for_each(|change| apply(&mut mmu, change));
    host_changes(Pages4K, DATA).into_iter().for_each(|change| apply_host(&mut mmu, change));
    let place = |table: u64| (GuestFrame::new(table), Frame::new(table + 0x400));
    let mut located = Vec::new();
    load(&mut mmu, 5).unwrap();
    mmu.take_located(&mut located);
    assert_eq!(located, [0x10, 0x11, 0x12, 0x14].map(place));
    load(&mut mmu, 6).unwrap();
    mmu.take_located(&mut located);
    assert_eq!(located, [place(0x14)]);
}

/// A change of CR3 flushes the entries of virtual addresses, but not guest-physical ones.
#[test]
fn without_tags_another_space_finds_guest_physical_addresses_cached() {
    let mut apart = config();
    apart.virtualization.nested_tlb = Some(TlbGeometry { entries: 64, ways: 4 });
    for mut config in [shared_nested(), apart] {
        config.tlb.tagged = false;
        let mut mmu = pair_at(&config, Pages4K, Pages4K, DATA);
        load(&mut mmu, 5).unwrap();
        let nested = mmu.l2_contents().nested;
        mmu.switch(SpaceId(2));
        let contents = mmu.l2_contents();
        assert_eq!((contents.page_4k, contents.nested), (0, nested));
        mmu.switch(GUEST);
        let (outcome, steps) = access(&mut mmu, AccessKind::Read, 5);
        assert_eq!(outcome, Ok((BLOCK + 5, Case::Regular, true)));
        let (guest, host) = steps.reads().split_at(Purpose::HostPage as usize);
        assert_eq!((guest.iter().sum::<u8>(), host.iter().sum::<u8>()), (4, 0));
    }
}

#[test]
fn two_spaces_of_the_guest_share_a_block() {
    for host in [Page2M, Perforated(&[100])] {
        let other = SpaceId(2);
        let mut mmu = pair(Perforated(&[5]), host);
        for change in guest_changes(other, Perforated(&[7]), DATA) {
            apply(&mut mmu, change);
        }
        let line = PhysicalAddress::new(0x80_0200);
        assert_eq!(mmu.dimension().memory().word(line), 1 << 5 | 1 << 7, "the union");
        for (space, own, others) in [(GUEST, 5, 7), (other, 7, 5)] {
            mmu.switch(space);
            assert_eq!(load(&mut mmu, own), Ok(0x6000 + own), "{space:?}");
            assert_eq!(load(&mut mmu, others), Ok(BLOCK + others), "in place for {space:?}");
            assert_eq!(store(&mut mmu, others), Ok(BLOCK + others));
        }
    }
}

/// Shootdowns of another virtual machine do not affect this one's entries.
#[test]
fn shootdowns_of_another_machine_have_no_effect() {
    let first = GuestFrame::new(0x10);
    let run = RegisteredRun { first, pages: 1, located: Frame::new(0x7777) };
    let pagings = (Page2M, Page2M);
    let mut mmu = pair_with_segments(&config(), pagings, (false, false), DATA, Some(run));
    let (outcome, _) = access(&mut mmu, AccessKind::Read, 5);
    let (frame, ..) = outcome.unwrap();
    let mut after = |space| {
        mmu.apply_host(&Update::Shootdown(Shootdown::Space { space }));
        access(&mut mmu, AccessKind::Read, 5).0
    };
    assert_eq!(after(SpaceId(MACHINE.0 + 1)), Ok((frame, Case::FirstLevel, false)));
    assert_eq!(after(MACHINE), Ok((frame, Case::Regular, true)));
    // They do not clear the register either: the root is read at the register's location.
    let root = |mmu: &mut Mmu| {
        mmu.flush();
        story(&access(mmu, AccessKind::Read, 5).1)[1].clone()
    };
    let unmapped = |space, first: u64, pages| {
        let run = PageRun::new(space, VirtualPage::new(first), pages);
        Truth::Unmap { run }
    };
    let other = SpaceId(MACHINE.0 + 1);
    for truth in [unmapped(other, 0, 0x20), unmapped(MACHINE, 0, 0x10), unmapped(MACHINE, 0x11, 1)]
    {
        apply_host(&mut mmu, truth);
        assert_eq!(root(&mut mmu), "Level4 7777000", "{truth:?}");
    }
    apply_host(&mut mmu, unmapped(MACHINE, 0, 0x11));
    assert_eq!(root(&mut mmu), "HostLevel4 50000");
}
