//! Gap-tolerant entries in the walk cache of level-2 entries: hits read nothing, and stale entries
//! are not used.

use perforate_mmu::{CachedContent, Mmu, PageFault, allow};
use perforate_schemes::gap_tolerant::GapTolerantRadix;
use perforate_schemes::gap_tolerant::SuperpageOperation;
use perforate_types::{
    AccessKind, Action, Frame, GapTolerance, PageSize, Permissions, Purpose, Shootdown, SpaceId,
    Steps, TableOperation, Unit, VirtualPage,
};

use super::address_spaces::*;

const MODE: GapTolerance = GapTolerance::SINGLE_4M;

fn actions(mmu: &mut Mmu, kind: AccessKind, page: VirtualPage) -> Vec<(Purpose, Action)> {
    let mut steps = Steps::new();
    mmu.translate(kind, page.address(), &mut steps).unwrap();
    let relevant = |action| match action {
        Action::Hit { unit, .. } | Action::Miss { unit } | Action::Fill { unit, .. } => {
            unit == Unit::WalkCache
        }
        _ => true,
    };
    let list = steps.as_slice().iter().map(|step| (step.purpose, step.action));
    list.filter(|&(_, action)| relevant(action)).collect()
}

/// The entry is read once. Every other page of it takes a look-up and a selection (G §3.7).
#[test]
fn a_hit_reads_nothing() {
    let mut mmu = unit(MODE, 32, &[superpage(MODE, 0, 0, SELECTION)]);
    let miss = Action::Miss { unit: Unit::WalkCache };
    let cold = actions(&mut mmu, AccessKind::Read, page(0));
    assert_eq!(cold[0], (Purpose::Page, miss));
    let read = |&(purpose, action): &(Purpose, Action)| {
        purpose == Purpose::Level2 && matches!(action, Action::Read { .. })
    };
    let at = cold.iter().position(read).unwrap();
    let slot = match cold[at + 1] {
        (Purpose::Level2, Action::Fill { unit: Unit::WalkCache, slot }) => slot,
        other => panic!("{other:?} follows the read"),
    };
    assert_eq!(cold[at + 2..], [(Purpose::Level2, Action::Select)]);
    let hit = Action::Hit { unit: Unit::WalkCache, slot };
    let selected = (Purpose::Page, Action::Select);
    for index in [1, 32, 1023] {
        let warm = actions(&mut mmu, AccessKind::Read, page(index));
        assert_eq!(warm, [(Purpose::Page, hit), selected], "page {index}");
    }
    let counters = *mmu.counters();
    assert_eq!((counters.gap_tolerant_translations, counters.walk_cache_gap_tolerant_hits), (4, 3));
    assert_eq!((counters.l2_misses, counters.walks), (4, 1));
    assert_eq!(mmu.l2_contents().page_4k, 4, "TLBs have 4KB entries");
}

/// Walk-cache entries are shown with the pages that they cover.
#[test]
fn cached_entries_are_shown_with_their_pages() {
    for mode in GapTolerance::ALL {
        let length = mode.entry_pages();
        let mut mmu = unit(mode, 32, &[superpage(mode, 4 * length, 0, SELECTION)]);
        load(&mut mmu, 4 * length + 3).frame.unwrap();
        let mut entries = Vec::new();
        mmu.inspect(&mut entries);
        let shown = entries.iter().filter(|entry| entry.unit == Unit::WalkCache).map(|entry| {
            let level = match entry.content {
                CachedContent::Leaf => None,
                CachedContent::Node { level, .. } => Some(level),
                _ => panic!("{entry:?} is in a walk cache"),
            };
            assert_eq!((entry.space, entry.is_guest_physical), (SPACE, false));
            (level, entry.first, entry.pages)
        });
        let node = |level, first, pages| (Some(level), VirtualPage::new(first), pages);
        let leaf = (None, page(4 * length), length);
        let expected = [leaf, node(3, START, 1 << 18), node(4, 0, 1 << 27)];
        assert_eq!(shown.collect::<Vec<_>>(), expected);
    }
}

/// Both kinds of entries share the slots, with LRU replacement.
#[test]
fn both_kinds_share_the_places() {
    let mut mmu = unit(
        MODE,
        2,
        &[superpage(MODE, 0, 0, SELECTION), table(1, 1024, 0x30), map(1024, 9), map(1025, 8)],
    );
    let reads = |mmu: &mut Mmu, index| load(mmu, index).reads.len();
    assert_eq!([0, 1024, 1, 1025].map(|index| reads(&mut mmu, index)), [3, 2, 0, 1]);
    mmu.apply(&superpage(MODE, 2048, 1 << 11, SELECTION));
    assert_eq!(reads(&mut mmu, 2048), 1, "drives out the superpage, looked up before the node");
    assert_eq!(reads(&mut mmu, 2), 1);
}

#[test]
fn a_shootdown_invalidates_the_entry_and_its_tlb_entries() {
    for stale in [false, true] {
        let mut mmu = unit(MODE, 32, &[superpage(MODE, 0, 0, SELECTION)]);
        assert_eq!(load(&mut mmu, 7).frame, Ok(32 + 7));
        assert_eq!(load(&mut mmu, 1023).frame, Ok(62 * 32 + 31));
        mmu.apply(&unmap_superpage(MODE, 0));
        if stale {
            mmu.flush_first_level();
            (0..MODE.entry_pages()).for_each(|index| mmu.evict_page(SPACE, page(index)));
        } else {
            mmu.apply(&gone(MODE, 0));
        }
        mmu.apply(&superpage(MODE, 0, 1 << 11, SELECTION));
        // If only the TLBs were invalidated, the copy in the walk cache still has the first slice.
        let slice = if stale { 0 } else { 1 << 11 };
        for index in [7, 1023] {
            let outcome = load(&mut mmu, index);
            let block = if index == 7 { 1 } else { 62 };
            assert_eq!(outcome.frame, Ok(slice + block * 32 + index % 32));
            assert_eq!(outcome.selections, 1, "the TLBs forgot it");
        }
    }
}

/// Pages outside the entry and other address spaces are not affected.
#[test]
fn a_shootdown_ends_nothing_else() {
    for mode in GapTolerance::ALL {
        let length = mode.entry_pages();
        let slices = [0, 1, 2].map(|number| number * mode.slice_frames());
        let entries = [0, 1, 2].map(|k| superpage(mode, k * length, slices[k as usize], SELECTION));
        let mut mmu = unit(mode, 32, &entries);
        let edges = [0, length - 1, length, 2 * length - 1, 2 * length, 3 * length - 1];
        let selections = |mmu: &mut Mmu| edges.map(|index| load(mmu, index).selections);
        assert_eq!(selections(&mut mmu), [1; 6]);
        assert_eq!(selections(&mut mmu), [0; 6], "hits of TLBs");
        mmu.apply(&Shootdown::Superpage { space: SpaceId(2), page: page(length), mode }.into());
        assert_eq!(selections(&mut mmu), [0; 6]);
        mmu.apply(&gone(mode, length));
        let walked = mmu.counters().walk_cache_gap_tolerant_hits;
        assert_eq!(selections(&mut mmu), [0, 0, 1, 1, 0, 0], "{}", mode.label());
        // The first of the two loads reads the entry again.
        assert_eq!(mmu.counters().walk_cache_gap_tolerant_hits, walked + 1);
    }
}

/// Like INVLPG, the shootdown of one page invalidates every level-2 entry that covers it.
#[test]
fn the_shootdown_of_a_page_ends_the_cached_entry() {
    let mut mmu = unit(MODE, 32, &[superpage(MODE, 0, 0, SELECTION)]);
    load(&mut mmu, 7);
    mmu.apply(&Shootdown::Page { space: SPACE, page: page(800) }.into());
    assert_eq!(load(&mut mmu, 8).reads.len(), 3);
    mmu.apply(&Shootdown::Space { space: SPACE }.into());
    assert_eq!(load(&mut mmu, 9).reads.len(), 3);
}

/// A superpage is replaced by 4KB pages, and 4KB pages by a superpage.
#[test]
fn a_region_changes_its_kind() {
    let mode = GapTolerance::SINGLE_1M;
    let mut mmu = unit(mode, 32, &[superpage(mode, 256, 0, SELECTION)]);
    assert_eq!(load(&mut mmu, 256).frame, Ok(8));
    for update in [unmap_superpage(mode, 256), gone(mode, 256), table(1, 0, 0x30), map(256, 0x777)]
    {
        mmu.apply(&update);
    }
    let outcome = load(&mut mmu, 256);
    assert_eq!((outcome.frame, outcome.selections), (Ok(0x777), 0));
    let (page, size) = (page(256), PageSize::Size4K);
    let unmap = TableOperation::Unmap { space: SPACE, page, size };
    let remove =
        TableOperation::RemoveNode { space: SPACE, level: 1, page: self::page(0), branch: 0 };
    for update in [
        unmap.into(),
        Shootdown::Page { space: SPACE, page }.into(),
        remove.into(),
        superpage(mode, 256, 512, SELECTION),
    ] {
        mmu.apply(&update);
    }
    assert_eq!(load(&mut mmu, 256).frame, Ok(512 + 8));
}

fn allows(mmu: &Mmu, index: u64) -> u8 {
    mmu.dimension().look_at(SPACE, page(index)).unwrap().allows
}

/// The dirty bit belongs to the entry. A store through a clean copy sets it in memory and in the
/// copy, so that later TLB fills are dirty.
#[test]
fn a_store_dirties_entry_and_copy() {
    for cached in [false, true] {
        let mut mmu = unit(MODE, 32, &[superpage(MODE, 0, 0, SELECTION)]);
        if cached {
            load(&mut mmu, 0);
            assert_eq!(allows(&mmu, 0), allow::READ | allow::WRITE);
        }
        access(&mut mmu, AccessKind::Write, page(40));
        assert_eq!(allows(&mmu, 0), allow::READ | allow::WRITE | allow::DIRTY);
        // Through the copy: its 4KB entry is dirty at once.
        load(&mut mmu, 80);
        let outcome = access(&mut mmu, AccessKind::Write, page(80));
        assert_eq!(outcome.frame, Ok(5 * 32 + 16));
    }
}

/// A store that hits a clean 4KB entry also marks the copy dirty.
#[test]
fn a_store_through_a_clean_tlb_entry_dirties_the_copy() {
    let mut mmu = unit(MODE, 32, &[superpage(MODE, 0, 0, SELECTION)]);
    load(&mut mmu, 0);
    access(&mut mmu, AccessKind::Write, page(0));
    assert_eq!(allows(&mmu, 0), allow::READ | allow::WRITE | allow::DIRTY);
    // If the copy were clean, this store would mark the entry again.
    let tables: &GapTolerantRadix = mmu.dimension().part().unwrap();
    let address = tables.look_at_superpage(SPACE, page(0)).unwrap().entry;
    let before = mmu.dimension().memory().word(address);
    access(&mut mmu, AccessKind::Write, page(99));
    assert_eq!(mmu.dimension().memory().word(address), before);
}

#[test]
fn permissions_hold_through_entry_and_copy() {
    let mut mmu = unit(MODE, 32, &[]);
    let (page, slice) = (page(0), Frame::new(0));
    let (second, selection, permissions) = (slice, SELECTION, Permissions::READ);
    let map = SuperpageOperation::Map {
        space: SPACE,
        page,
        mode: MODE,
        slice,
        second,
        selection,
        permissions,
    };
    mmu.apply(&map.into());
    for _ in 0..2 {
        let store = access(&mut mmu, AccessKind::Write, page);
        assert_eq!(store.frame, Err(PageFault::Protection));
        let fetch = access(&mut mmu, AccessKind::Fetch, page);
        assert_eq!(fetch.frame, Err(PageFault::Protection));
        assert_eq!(allows(&mmu, 0), allow::READ, "a forbidden store dirties nothing");
        assert_eq!(load(&mut mmu, 0).frame, Ok(32));
    }
    let permissions = Permissions::ALL;
    let protect = SuperpageOperation::Protect { space: SPACE, page, mode: MODE, permissions };
    for update in [protect.into(), gone(MODE, 0)] {
        mmu.apply(&update);
    }
    for kind in [AccessKind::Write, AccessKind::Fetch, AccessKind::Read] {
        assert_eq!(access(&mut mmu, kind, page).frame, Ok(32));
    }
}
