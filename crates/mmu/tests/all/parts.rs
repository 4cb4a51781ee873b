//! A second-level TLB whose ways are divided among page sizes, worked out by hand.
//!
//! The second level has 4 sets of 4 ways, a small Ice Lake: 4KB pages use all ways, 2MB pages ways
//! 1 and 2, 1GB pages ways 3 and 4. One process has ordinary tables: 2MB pages from 1GB on, 4KB
//! pages in the 2MB after the last of these, 1GB pages from 2GB on. All accessed pages map to set
//! number 0. The first level holds one entry per size, so that each page evicts the previous one.
//! There are no walk caches: a walk reads 2, 3 or 4 entries.

use perforate_mmu::{
    ConfigError, L2Contents, L2Part, Mmu, MmuConfig, Radix, TlbConfig, TlbGeometry,
    WalkCacheConfig, Ways,
};
use perforate_types::{
    AccessKind, Action, Frame, PageSize, Permissions, Shootdown, SpaceId, Steps, TableOperation,
    VirtualPage,
};

const SPACE: SpaceId = SpaceId(1);
const GIGABYTE: u64 = 1 << 18;
const HUGE: VirtualPage = VirtualPage::new(2 * GIGABYTE);
/// Number of mapped 2MB pages. The next constants are those of 4KB and 1GB pages.
const LARGE_PAGES: u64 = 64;
const SMALL_PAGES: u64 = 256;
const HUGE_PAGES: u64 = 6;

/// 2MB page number `index` of set 0.
fn large(index: u64) -> VirtualPage {
    VirtualPage::new(GIGABYTE + 4 * index * 512)
}

/// 4KB page number `index` of set 0.
fn small(index: u64) -> VirtualPage {
    VirtualPage::new(GIGABYTE + LARGE_PAGES * 512 + 4 * index)
}

/// 1GB page number `index`, counted from [`HUGE`].
fn huge(index: u64) -> VirtualPage {
    HUGE.add(index * GIGABYTE)
}

fn ways(first: usize, last: usize) -> L2Part {
    L2Part::Ways(Ways::Range { first, last })
}

/// Divides the ways: 4KB and 2MB pages use the first half, 4KB and 1GB pages the second half.
fn halves(tlb: &mut TlbConfig) {
    (tlb.l2_2m, tlb.l2_1g) = (ways(1, 2), ways(3, 4));
}

fn config(change: impl Fn(&mut TlbConfig)) -> MmuConfig {
    let single = TlbGeometry { entries: 1, ways: 1 };
    let mut config = MmuConfig::plain(single, TlbGeometry { entries: 16, ways: 4 });
    (config.tlb.l1_data_2m, config.tlb.l1_data_1g) = (Some(single), Some(single));
    change(&mut config.tlb);
    config
}

fn unit(change: impl Fn(&mut TlbConfig)) -> Mmu {
    let mut mmu = Mmu::new(&config(change), Box::new(Radix::new())).unwrap();
    mmu.switch(SPACE);
    let (zero, first_large) = (VirtualPage::new(0), large(0));
    let nodes = [(4, zero, 0x10), (3, zero, 0x11), (2, first_large, 0x12), (1, small(0), 0x13)];
    for (level, page, frame) in nodes {
        let frame = Frame::new(frame);
        let table = TableOperation::AddNode { space: SPACE, level, page, frame, branch: 0 };
        mmu.apply(&table.into());
    }
    let mut map = |page: VirtualPage, size| {
        let (frame, permissions) = (Frame::new(page.number()), Permissions::READ);
        let map = TableOperation::Map { space: SPACE, page, size, frame, permissions };
        mmu.apply(&map.into());
    };
    (0..LARGE_PAGES).for_each(|at| map(large(0).add(at * 512), PageSize::Size2M));
    (0..SMALL_PAGES).for_each(|at| map(small(0).add(at), PageSize::Size4K));
    (0..HUGE_PAGES).for_each(|index| map(huge(index), PageSize::Size1G));
    mmu
}

/// Brings a page into the TLBs.
fn touch(mmu: &mut Mmu, page: VirtualPage) {
    reads(mmu, page);
}

/// Number of entries that the walker reads to translate a page: 0 if the second level holds it.
fn reads(mmu: &mut Mmu, page: VirtualPage) -> usize {
    // The first level must not hit.
    mmu.flush_first_level();
    let mut steps = Steps::new();
    let found = mmu.translate(AccessKind::Read, page.address(), &mut steps).unwrap();
    assert_eq!(found.physical.page().number(), page.number());
    steps.as_slice().iter().filter(|step| matches!(step.action, Action::Read { .. })).count()
}

#[test]
fn a_2mb_page_never_takes_a_way_for_other_pages() {
    let mut mmu = unit(halves);
    for index in [0, 1, 2] {
        assert_eq!(reads(&mut mmu, large(index)), 3);
    }
    // Ways 3 and 4 are empty, yet large(0) was evicted.
    let held = L2Contents { empty: 14, page_2m: 2, ..L2Contents::default() };
    assert_eq!(mmu.l2_contents(), held);
    assert_eq!((reads(&mut mmu, large(2)), reads(&mut mmu, large(1))), (0, 0));
    assert_eq!(reads(&mut mmu, large(0)), 3);
    // Without the restriction, the array holds all three.
    let mut mmu = unit(|_| {});
    (0..3).for_each(|index| touch(&mut mmu, large(index)));
    assert_eq!([0, 1, 2].map(|index| reads(&mut mmu, large(index))), [0, 0, 0]);
}

#[test]
fn the_least_recently_used_entry_of_the_part_goes() {
    let mut mmu = unit(halves);
    [large(0), large(1)].into_iter().for_each(|page| touch(&mut mmu, page)); // ways 1 and 2
    [small(0), small(1)].into_iter().for_each(|page| touch(&mut mmu, page)); // ways 3 and 4
    // All four ways take 4KB pages; large(0) is the least recently used.
    assert_eq!(reads(&mut mmu, small(2)), 4); // way 1
    assert_eq!(reads(&mut mmu, large(1)), 0);
    // Of ways 1 and 2, small(2) is the least recently used; small(0) and small(1) are older, in
    // other ways.
    assert_eq!(reads(&mut mmu, large(2)), 3);
    assert_eq!((reads(&mut mmu, small(0)), reads(&mut mmu, small(1))), (0, 0));
    assert_eq!(reads(&mut mmu, small(2)), 4, "it was driven out");
}

#[test]
fn a_1gb_page_has_its_own_ways_and_its_own_key() {
    let mut mmu = unit(halves);
    assert_eq!((reads(&mut mmu, HUGE), reads(&mut mmu, HUGE.add(70_000))), (2, 0));
    assert_eq!(mmu.l2_contents().page_1g, 1);
    // 2MB pages are filled and evicted in ways 1 and 2.
    (0..8).for_each(|index| touch(&mut mmu, large(index)));
    assert_eq!(reads(&mut mmu, HUGE), 0);
    // The 1GB page has number 2 at its size; a 4KB or 2MB page may have the same number at its own.
    let page = VirtualPage::new(HUGE.number() / GIGABYTE);
    mmu.apply(&Shootdown::Page { space: SPACE, page }.into());
    assert_eq!(reads(&mut mmu, HUGE), 0);
    // Without second-level entries for 1GB, only the first level holds such pages.
    let mut mmu = unit(|_| {});
    assert_eq!((reads(&mut mmu, HUGE), reads(&mut mmu, HUGE)), (2, 2));
}

/// The number of the 1GB page selects the set, and not the number of the accessed 2MB or 4KB in it.
#[test]
fn four_1gb_pages_in_a_row_take_a_set_each() {
    let own = L2Part::Own(TlbGeometry { entries: 4, ways: 1 });
    for part in [own, ways(4, 4)] {
        let mut mmu = unit(|tlb| tlb.l2_1g = part);
        // The same offset in each 1GB page: 2MB number 5, 4KB number 2561.
        let used = |index| huge(index).add(5 * 512 + 1);
        (0..4).for_each(|index| touch(&mut mmu, used(index)));
        assert_eq!(mmu.l2_contents().page_1g, 4, "{part:?}");
        for index in 0..4 {
            assert_eq!(reads(&mut mmu, huge(index).add(70_000)), 0, "{index} of {part:?}");
        }
        // The fifth page uses the set of the first.
        assert_eq!(reads(&mut mmu, used(4)), 2);
        let held = [1, 2, 3, 4].map(|index| reads(&mut mmu, huge(index)));
        assert_eq!((held, reads(&mut mmu, huge(0))), ([0; 4], 2), "{part:?}");
    }
}

/// A shootdown of an address space removes the 1GB entries of this address space, and no others.
#[test]
fn the_end_of_an_address_space_ends_its_1gb_entries_alone() {
    let own = L2Part::Own(TlbGeometry { entries: 4, ways: 1 });
    for part in [own, ways(4, 4), L2Part::ALL] {
        let mut mmu = unit(|tlb| tlb.l2_1g = part);
        touch(&mut mmu, HUGE);
        mmu.apply(&Shootdown::Space { space: SpaceId(2) }.into());
        assert_eq!((mmu.l2_contents().page_1g, reads(&mut mmu, HUGE)), (1, 0), "{part:?}");
        mmu.apply(&Shootdown::Space { space: SPACE }.into());
        assert_eq!((mmu.l2_contents().page_1g, reads(&mut mmu, HUGE)), (0, 2), "{part:?}");
    }
}

#[test]
fn shootdowns_reach_every_part() {
    let own = L2Part::Own(TlbGeometry { entries: 2, ways: 2 });
    let shapes: [fn(&mut TlbConfig, L2Part); 3] = [
        |tlb, _| halves(tlb),
        |tlb, own| (tlb.l2_2m, tlb.l2_1g) = (own, own),
        |tlb, own| (tlb.l2_2m, tlb.l2_1g) = (own, ways(4, 4)),
    ];
    let pages = [
        (large(0), PageSize::Size2M),
        (HUGE, PageSize::Size1G),
        (small(0), PageSize::Size4K),
        (small(1), PageSize::Size4K),
    ];
    for shape in shapes {
        for (gone, size) in pages {
            let mut mmu = unit(|tlb| shape(tlb, own));
            pages.iter().for_each(|(page, _)| touch(&mut mmu, *page));
            mmu.apply(&match size {
                PageSize::Size4K => Shootdown::Page { space: SPACE, page: gone }.into(),
                _ => Shootdown::Large { space: SPACE, page: gone, size }.into(),
            });
            let held = pages.map(|(page, _)| reads(&mut mmu, page) == 0);
            assert_eq!(held, pages.map(|(page, _)| page != gone), "{gone:?}");
        }
        let mut mmu = unit(|tlb| shape(tlb, own));
        pages.iter().for_each(|(page, _)| touch(&mut mmu, *page));
        mmu.apply(&Shootdown::Space { space: SPACE }.into());
        assert!(pages.iter().all(|(page, _)| reads(&mut mmu, *page) > 0));
    }
}

#[test]
fn an_array_of_its_own_leaves_the_others_alone() {
    let own = L2Part::Own(TlbGeometry { entries: 2, ways: 2 });
    let mut mmu = unit(|tlb| tlb.l2_2m = own);
    (0..4).for_each(|index| touch(&mut mmu, small(index)));
    (0..5).for_each(|index| touch(&mut mmu, large(index)));
    let held = L2Contents { empty: 12, page_4k: 4, page_2m: 2, ..L2Contents::default() };
    assert_eq!(mmu.l2_contents(), held);
    assert_eq!([3, 4].map(|index| reads(&mut mmu, large(index))), [0, 0]);
    assert_eq!([0, 1, 2, 3].map(|index| reads(&mut mmu, small(index))), [0; 4]);
}

/// For pages of one size, an array in which all sizes use all ways never misses more than a divided
/// one. (For a mixture it may: ways closed to 2MB pages protect 4KB pages.)
#[test]
fn ways_for_all_sizes_are_never_worse_for_pages_of_one_size() {
    let streams: [fn(u64) -> VirtualPage; 2] = [
        |random| large(0).add(random % LARGE_PAGES * 512),
        |random| small(0).add(random % SMALL_PAGES),
    ];
    for (page_of, seed) in streams.into_iter().flat_map(|of| (1..9).map(move |seed| (of, seed))) {
        let [all, parted] = [unit(|tlb| tlb.l2_1g = L2Part::ALL), unit(halves)].map(|mut mmu| {
            let mut state = seed * 0x1e37_79b9_7f4a_7c15_u64;
            for _ in 0..2_000 {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                // Some pages are accessed more often than others.
                reads(&mut mmu, page_of((state >> 20) % (1 + (state >> 40) % 64)));
            }
            mmu.counters().l2_misses
        });
        assert!(all <= parted, "{all} misses with ways for all sizes, {parted} in parts");
    }
}

#[test]
fn ways_that_do_not_exist_are_refused() {
    let refused = |change: fn(&mut TlbConfig)| config(change).validate().unwrap_err();
    let message = refused(|tlb| tlb.l2_2m = ways(3, 5)).to_string();
    assert_eq!(message, "tlb.l2_2m: ways 3-5 of 4; expected ways from 1 to 4, such as \"1-4\"");
    assert!(matches!(refused(|tlb| tlb.l2_1g = ways(2, 1)), ConfigError::Ways { .. }));
    assert!(matches!(refused(|tlb| tlb.l2_1g = ways(0, 1)), ConfigError::Ways { .. }));
    assert_eq!(refused(|tlb| tlb.l2_4k = Ways::None), ConfigError::NoSmallEntries);
    let own = |tlb: &mut TlbConfig| tlb.l2_2m = L2Part::Own(TlbGeometry { entries: 3, ways: 2 });
    assert!(refused(own).to_string().starts_with("tlb.l2_2m: 3 entries in 2 ways"));
    let sizes = [PageSize::Size4K, PageSize::Size2M, PageSize::Size1G];
    let entries =
        |change: fn(&mut TlbConfig)| sizes.map(|size| config(change).tlb.l2_entries(size));
    assert_eq!(entries(halves), [16, 8, 8]);
    assert_eq!(entries(|_| {}), [16, 16, 0]);
}

/// Set selection uses bits of a number, so the number of sets is a power of two.
#[test]
fn a_tlb_has_a_power_of_two_of_sets() {
    let valid = |entries, ways| {
        config(|tlb| tlb.l1_data_2m = Some(TlbGeometry { entries, ways })).validate()
    };
    for (entries, ways) in [(12, 3), (12, 12), (16, 4)] {
        assert_eq!(valid(entries, ways), Ok(()), "{entries} entries in {ways} ways");
    }
    for (entries, ways) in [(12, 4), (13, 4), (0, 4), (4, 0)] {
        let key = "tlb.l1_data_2m";
        assert_eq!(valid(entries, ways), Err(ConfigError::Geometry { key, entries, ways }));
    }
}

/// Walk caches of every level, native ones and those of a host, have a power of two of sets.
#[test]
fn a_walk_cache_has_a_power_of_two_of_sets() {
    for (level, of_host) in [2, 3, 4].into_iter().flat_map(|level| [(level, false), (level, true)])
    {
        let valid = |entries, ways| {
            let mut caches = WalkCacheConfig::NONE;
            match level {
                2 => (caches.level2_entries, caches.level2_ways) = (entries, ways),
                3 => (caches.level3_entries, caches.level3_ways) = (entries, ways),
                _ => (caches.level4_entries, caches.level4_ways) = (entries, ways),
            }
            let mut config = config(|_| {});
            match of_host {
                true => config.virtualization.host_walk_cache = Some(caches),
                false => config.walk_cache = caches,
            }
            config.validate()
        };
        for (entries, ways) in [(12, Some(3)), (12, None), (0, Some(4)), (4096, Some(1)), (0, None)]
        {
            assert_eq!(valid(entries, ways), Ok(()), "{entries} entries in {ways:?} ways");
        }
        let section = if of_host { "virtualization.host_walk_cache" } else { "walk_cache" };
        for (entries, ways) in [(12, 4), (13, 4), (4, 0), (2, 4)] {
            let refused = ConfigError::WalkCacheWays { section, level, entries, ways };
            assert_eq!(valid(entries, Some(ways)), Err(refused));
        }
        assert!(matches!(valid(4097, None), Err(ConfigError::WalkCache { entries: 4097, .. })));
    }
}

/// A page that was walked to before the reset of the counters, and hits afterwards, is not a miss.
/// A later walk to it is the first miss since the reset.
#[test]
fn hits_are_no_first_misses_when_counting_begins_anew() {
    let mut mmu = unit(halves);
    touch(&mut mmu, small(0));
    mmu.reset_counters();
    assert_eq!(reads(&mut mmu, small(0)), 0, "the second level holds it");
    let misses = |mmu: &Mmu| {
        let counters = mmu.counters();
        [counters.l2_misses, counters.l2_first_misses, counters.l2_compulsory_misses]
    };
    assert_eq!(misses(&mmu), [0, 0, 0]);
    mmu.evict_page(SPACE, small(0));
    touch(&mut mmu, small(0));
    assert_eq!(misses(&mmu), [1, 1, 0]);
    touch(&mut mmu, small(1));
    assert_eq!(misses(&mmu), [2, 2, 1]);
}

/// Counting begins anew on every core, also on those that do not run then.
#[test]
fn counting_begins_anew_on_all_cores() {
    let mut mmu = unit(halves);
    mmu.set_cores(2);
    mmu.run_on(1);
    mmu.switch(SPACE);
    touch(&mut mmu, small(0));
    mmu.run_on(0);
    mmu.reset_counters();
    mmu.run_on(1);
    mmu.evict_page(SPACE, small(0));
    touch(&mut mmu, small(0));
    let counters = mmu.counters();
    assert_eq!([counters.l2_misses, counters.l2_first_misses], [1, 1]);
}
