//! TLB coalescing (G §5.7, CoLT), worked out by hand.
//!
//! One process has ordinary tables: root 0x10, level 3 0x11, level 2 0x12, level 1 0x13. Pages are
//! counted from 1GB, the first page of a window of any length. The first level holds one 4KB entry,
//! so that each page evicts the previous one; the second level holds 64.

use perforate_mmu::{
    CachedContent, Coalescing, CoalescingForm, ConfigError, EntryKind, L2Contents, Mmu, MmuConfig,
    PageFault, Radix, TlbGeometry, allow,
};
use perforate_types::{
    AccessKind, Action, Frame, PageSize, Permissions, Shootdown, SpaceId, Steps, TableOperation,
    Unit, Update, VirtualPage,
};

const SPACE: SpaceId = SpaceId(1);
const FIRST: VirtualPage = VirtualPage::new(1 << 18);
/// Frame of page 0 in contiguous mappings. Frames need not be aligned to windows.
const FRAME: u64 = 0x9003;

fn config(l2_coalescing: Option<Coalescing>) -> MmuConfig {
    let mut config =
        MmuConfig::plain(TlbGeometry { entries: 1, ways: 1 }, TlbGeometry { entries: 64, ways: 4 });
    config.tlb.l2_coalescing = l2_coalescing;
    config
}

fn coalescing(pages: u64, form: CoalescingForm) -> Option<Coalescing> {
    Some(Coalescing { pages, form })
}

/// An MMU with table nodes but no pages.
fn unit(pages: u64, form: CoalescingForm) -> Mmu {
    let config = config(coalescing(pages, form));
    let mut mmu = Mmu::new(&config, Box::new(Radix::new())).unwrap();
    mmu.switch(SPACE);
    let zero = VirtualPage::new(0);
    for (level, page, frame) in
        [(4, zero, 0x10), (3, zero, 0x11), (2, FIRST, 0x12), (1, FIRST, 0x13)]
    {
        let frame = Frame::new(frame);
        let table = TableOperation::AddNode { space: SPACE, level, page, frame, branch: 0 };
        mmu.apply(&table.into());
    }
    mmu
}

fn map(mmu: &mut Mmu, page: u64, frame: u64) {
    let (page, frame) = (FIRST.add(page), Frame::new(frame));
    let (size, permissions) = (PageSize::Size4K, Permissions::READ_WRITE);
    let map = TableOperation::Map { space: SPACE, page, size, frame, permissions };
    mmu.apply(&map.into());
}

fn unmap(mmu: &mut Mmu, page: u64) {
    let page = FIRST.add(page);
    let unmap = TableOperation::Unmap { space: SPACE, page, size: PageSize::Size4K };
    mmu.apply(&unmap.into());
    mmu.apply(&Update::Shootdown(Shootdown::Page { space: SPACE, page }));
}

/// Maps these pages to consecutive frames.
fn contiguous(mmu: &mut Mmu, pages: std::ops::Range<u64>) {
    pages.for_each(|page| map(mmu, page, FRAME + page));
}

/// An MMU with runs in windows of 8; pages 0 to 31 are contiguous.
fn runs_of_8() -> Mmu {
    let mut mmu = unit(8, CoalescingForm::Runs);
    contiguous(&mut mmu, 0..32);
    mmu
}

fn translate(mmu: &mut Mmu, kind: AccessKind, page: u64) -> Result<(u64, bool), PageFault> {
    let mut steps = Steps::new();
    let found = mmu.translate(kind, FIRST.add(page).address(), &mut steps)?;
    let miss = |action| matches!(action, Action::Miss { unit: Unit::L2Tlb });
    let walked = steps.as_slice().iter().any(|step| miss(step.action));
    assert_eq!(walked, found.walked);
    Ok((found.physical.page().number(), walked))
}

/// Loads from these pages and returns those that missed the second level. All pages must be mapped
/// to consecutive frames.
fn misses(mmu: &mut Mmu, pages: impl IntoIterator<Item = u64>) -> Vec<u64> {
    let mut missed = Vec::new();
    for page in pages {
        let (frame, walked) = translate(mmu, AccessKind::Read, page).unwrap();
        assert_eq!(frame, FRAME + page, "page {page}");
        if walked {
            missed.push(page);
        }
    }
    missed
}

/// Number of 4KB entries and of runs in the second level.
fn held(mmu: &Mmu) -> (u64, u64) {
    let L2Contents { page_4k, coalesced, empty, .. } = mmu.l2_contents();
    assert_eq!(empty + page_4k + coalesced, 64);
    (page_4k, coalesced)
}

fn is_dirty(mmu: &Mmu, page: u64) -> bool {
    mmu.dimension().look_at(SPACE, FIRST.add(page)).unwrap().allows & allow::DIRTY != 0
}

#[test]
fn eight_contiguous_pages_take_one_entry_and_one_walk() {
    let mut mmu = runs_of_8();
    assert_eq!(misses(&mut mmu, [3, 4, 5, 6, 7, 0, 1, 2]), [3]);
    assert_eq!(held(&mmu), (0, 1));
    let counters = mmu.counters();
    assert_eq!((counters.l2_accesses, counters.l2_misses), (8, 1));
    assert_eq!((counters.coalesced_fills, counters.coalesced_pages), (1, 8));
    assert_eq!(counters.references.iter().sum::<u64>(), 4, "one walk; its neighbours are free");
    assert_eq!(misses(&mut mmu, [8]), [8], "the next window");
}

/// A walk counts as one to each page of the run that it fills. Another walk to the run is no compulsory miss.
#[test]
fn a_walk_to_a_run_is_one_to_its_pages() {
    let mut mmu = runs_of_8();
    assert_eq!(misses(&mut mmu, [21]), [21]);
    for (page, compulsory) in [(16, 1), (23, 1), (15, 2), (24, 3)] {
        mmu.evict_page(SPACE, FIRST.add(21));
        assert_eq!(misses(&mut mmu, [page]), [page]);
        assert_eq!(mmu.counters().l2_compulsory_misses, compulsory, "page {page}");
    }
}

/// Pages 2 to 6 of the second window are contiguous.
#[test]
fn a_run_is_shown_with_its_pages() {
    let mut mmu = unit(8, CoalescingForm::Runs);
    contiguous(&mut mmu, 10..15);
    misses(&mut mmu, [12]);
    let mut entries = Vec::new();
    mmu.inspect(&mut entries);
    let runs = entries.iter().filter_map(|entry| match entry.content {
        CachedContent::Page { kind: EntryKind::Run, frame, .. } => {
            Some((entry.unit, entry.first, entry.pages, frame.number()))
        }
        _ => None,
    });
    assert_eq!(runs.collect::<Vec<_>>(), [(Unit::L2Tlb, FIRST.add(10), 5, FRAME + 10)]);
}

#[test]
fn n_contiguous_pages_miss_once_per_window() {
    for pages in [2, 4, 8, 16, 32] {
        for form in [CoalescingForm::Groups, CoalescingForm::Runs] {
            let mut mmu = unit(pages, form);
            contiguous(&mut mmu, 0..512);
            assert_eq!(misses(&mut mmu, 0..512).len() as u64, 512 / pages);
            assert_eq!(mmu.counters().coalesced_pages, 512);
        }
    }
}

/// Pages are mapped one by one before their first access, as by page faults. From the second page
/// on, every access finds a longer run than the one in the TLB.
#[test]
fn a_longer_run_takes_the_place_of_a_shorter_one() {
    let mut mmu = unit(8, CoalescingForm::Runs);
    for page in 0..8 {
        contiguous(&mut mmu, page..page + 1);
        assert_eq!(misses(&mut mmu, [page]), [page]);
    }
    assert_eq!(held(&mmu), (1, 1), "page 0, and the run");
    assert_eq!(mmu.counters().coalesced_pages, 2 + 3 + 4 + 5 + 6 + 7 + 8);
    assert_eq!(misses(&mut mmu, (0..8).rev()), []);
}

#[test]
fn a_hole_in_the_middle_makes_two_runs_of_which_one_is_held() {
    let mut mmu = runs_of_8();
    unmap(&mut mmu, 3);
    // The longer run, 4 to 7, stays when 0 to 2 are accessed; these pages get entries of 4KB.
    assert_eq!(misses(&mut mmu, [5, 4, 7, 6]), [5]);
    assert_eq!(misses(&mut mmu, [0, 1, 2, 0, 1, 2, 4]), [0, 1, 2]);
    assert_eq!(held(&mmu), (3, 1));
    assert_eq!(translate(&mut mmu, AccessKind::Read, 3), Err(PageFault::NotMapped));
    // In the other order, the longer run replaces the shorter one.
    let mut mmu = runs_of_8();
    unmap(&mut mmu, 3);
    assert_eq!(misses(&mut mmu, [0, 1, 2]), [0]);
    assert_eq!(misses(&mut mmu, [4, 5, 6, 7]), [4]);
    assert_eq!(misses(&mut mmu, [1]), [1]);
    assert_eq!((held(&mmu), mmu.counters().coalesced_pages), ((1, 1), 3 + 4));
}

#[test]
fn frames_out_of_order_are_no_run() {
    let mut mmu = unit(8, CoalescingForm::Runs);
    (0..8).for_each(|page| map(&mut mmu, page, 0x9007 - page));
    for page in 0..8 {
        assert_eq!(translate(&mut mmu, AccessKind::Read, page), Ok((0x9007 - page, true)));
    }
    assert_eq!(held(&mmu), (8, 0));
}

#[test]
fn other_permissions_end_a_run() {
    let mut mmu = runs_of_8();
    let (page, size, permissions) = (FIRST.add(2), PageSize::Size4K, Permissions::READ);
    let protect = TableOperation::Protect { space: SPACE, page, size, permissions };
    mmu.apply(&protect.into());
    assert_eq!(misses(&mut mmu, [4, 3, 7, 2, 1]), [4, 2, 1]);
    assert_eq!(held(&mmu), (2, 1), "page 2 and page 1, whose run of 2 is the shorter one");
    assert_eq!(translate(&mut mmu, AccessKind::Write, 2), Err(PageFault::Protection));
    assert_eq!(translate(&mut mmu, AccessKind::Write, 3), Ok((FRAME + 3, false)));
}

#[test]
fn a_store_through_a_clean_run_dirties_its_page_alone() {
    let mut mmu = runs_of_8();
    assert_eq!(misses(&mut mmu, [0, 1]), [0]);
    // In the second level: a hit in the run.
    assert_eq!(translate(&mut mmu, AccessKind::Write, 2), Ok((FRAME + 2, false)));
    // In the first level: a hit on a clean page.
    assert_eq!(misses(&mut mmu, [5]), []);
    assert_eq!(translate(&mut mmu, AccessKind::Write, 5), Ok((FRAME + 5, false)));
    let dirty: Vec<u64> = (0..8).filter(|&page| is_dirty(&mmu, page)).collect();
    assert_eq!(dirty, [2, 5]);
    // The run is still marked clean, so the first store to each page sets its dirty bit.
    for page in [6, 2, 7] {
        assert_eq!(translate(&mut mmu, AccessKind::Write, page), Ok((FRAME + page, false)));
        assert!(is_dirty(&mmu, page));
    }
    assert!(!is_dirty(&mmu, 3));
    assert_eq!(held(&mmu), (0, 1));
}

#[test]
fn clean_and_dirty_pages_do_not_share_an_entry() {
    let mut mmu = runs_of_8();
    for page in [0, 1, 2] {
        assert_eq!(translate(&mut mmu, AccessKind::Write, page), Ok((FRAME + page, true)));
    }
    assert_eq!(held(&mmu), (1, 1), "0 alone, 0 and 1, then 0 to 2");
    assert_eq!(misses(&mut mmu, [3, 7]), [3]);
    assert_eq!(misses(&mut mmu, [0, 1, 2]), [1, 2], "the clean run is the longer one");
    // A walk for a store makes its page dirty; clean neighbours do not matter.
    assert_eq!(translate(&mut mmu, AccessKind::Write, 8), Ok((FRAME + 8, true)));
    assert_eq!(misses(&mut mmu, [9, 8]), [9]);
    assert_eq!(mmu.counters().coalesced_pages, 2 + 3 + 5 + 7);
}

#[test]
fn a_shootdown_in_the_middle_ends_the_run() {
    let mut mmu = runs_of_8();
    assert_eq!(misses(&mut mmu, [0, 8]), [0, 8]);
    unmap(&mut mmu, 4);
    assert_eq!(held(&mmu), (0, 1), "that of the other window stays");
    map(&mut mmu, 4, 0x777);
    assert_eq!(translate(&mut mmu, AccessKind::Read, 4), Ok((0x777, true)));
    assert_eq!(misses(&mut mmu, [6, 7, 9]), [6]);
    assert_eq!(held(&mmu), (1, 2));
    // A shootdown of a page outside the run does not affect the run.
    mmu.apply(&Update::Shootdown(Shootdown::Page { space: SPACE, page: FIRST.add(4) }));
    assert_eq!(held(&mmu), (0, 2));
    mmu.evict_page(SPACE, FIRST.add(5));
    assert_eq!(held(&mmu), (0, 1));
}

#[test]
fn larger_shootdowns_end_runs_too() {
    let all = |shootdown: Shootdown| {
        let mut mmu = runs_of_8();
        assert_eq!(misses(&mut mmu, [0, 8, 16]), [0, 8, 16]);
        mmu.apply(&Update::Shootdown(shootdown));
        held(&mmu).1
    };
    let (space, size) = (SPACE, PageSize::Size2M);
    assert_eq!(all(Shootdown::Large { space, page: FIRST.add(511), size }), 0);
    assert_eq!(all(Shootdown::Large { space, page: FIRST.add(512), size }), 3, "another region");
    assert_eq!(all(Shootdown::Large { space, page: FIRST, size: PageSize::Size1G }), 0);
    assert_eq!(all(Shootdown::Space { space }), 0);
    assert_eq!(all(Shootdown::Space { space: SpaceId(2) }), 3);
}

#[test]
fn runs_end_at_their_window_and_belong_to_their_address_space() {
    let mut mmu = runs_of_8();
    (0..6).chain(10..32).for_each(|page| unmap(&mut mmu, page));
    // 6 to 9 are contiguous, but are in two windows.
    assert_eq!(misses(&mut mmu, [6, 7, 8, 9]), [6, 8]);
    assert_eq!((held(&mmu), mmu.counters().coalesced_pages), ((0, 2), 4));
    mmu.switch(SpaceId(2));
    assert_eq!(translate(&mut mmu, AccessKind::Read, 7), Err(PageFault::NotMapped));
    mmu.switch(SPACE);
    assert_eq!(misses(&mut mmu, [7]), []);
}

#[test]
fn groups_are_whole_or_not_at_all() {
    let mut mmu = unit(8, CoalescingForm::Groups);
    contiguous(&mut mmu, 0..15);
    assert_eq!(misses(&mut mmu, 0..15), [0, 8, 9, 10, 11, 12, 13, 14]);
    assert_eq!(held(&mmu), (7, 1));
    unmap(&mut mmu, 0);
    assert_eq!(misses(&mut mmu, 1..8), [1, 2, 3, 4, 5, 6, 7]);
    assert_eq!(held(&mmu), (14, 0));
}

/// Windows of 32 pages: the longest possible run, and a run at the end of its window, whose index
/// and length fill their 5-bit fields.
#[test]
fn windows_of_32_pages() {
    let mut mmu = unit(32, CoalescingForm::Runs);
    contiguous(&mut mmu, 0..64);
    assert_eq!(misses(&mut mmu, (0..32).rev()), [31]);
    unmap(&mut mmu, 61);
    assert_eq!(misses(&mut mmu, [63, 62, 60, 32]), [63, 60]);
    assert_eq!(misses(&mut mmu, [62]), [62], "29 pages took the place of 2");
    assert_eq!(mmu.counters().coalesced_pages, 32 + 2 + 29);
}

#[test]
fn impossible_windows_are_refused() {
    for pages in [0, 1, 3, 12, 33, 64, u64::MAX] {
        let refused = config(coalescing(pages, CoalescingForm::Runs)).validate().unwrap_err();
        assert_eq!(refused, ConfigError::Coalescing { pages });
        let message = refused.to_string();
        assert!(message.starts_with("tlb.l2_coalescing: ") && !message.contains('\n'), "{message}");
    }
    assert!(config(None).validate().is_ok());
}
