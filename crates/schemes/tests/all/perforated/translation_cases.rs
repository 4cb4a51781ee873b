//! The seven cases of P §IV.D (SPEC P-4), each with its steps worked out by hand.
//!
//! One process has one perforated page at 1GB, whose block starts at frame 0x1000. Sub-pages 0 and
//! 1 are holes; sub-page 0 is allocated at frame 0x9000, and all other sub-pages are in place. So
//! filter bit 0 (sub-pages 0–63) is set and bits 1–7 are clear.
//!
//! Tables: root 0x10, level 3 0x11, level 2 0x12 with its shadow 0x13, hole node 0x14. 1GB is
//! level-4 entry 0, level-3 entry 1, level-2 entry 0.

use perforate_mmu::{
    BitmapLoading, CachedContent, CachedEntry, Case, Dimension, Mmu, MmuConfig, PageFault, Radix,
    ShadowReads, TlbGeometry, WalkCacheConfig, allow, radix::Directory,
};
use perforate_schemes::perforated::{HOLE_BRANCH, PerforatedOperation};
use perforate_schemes::perforated::{PerforatedPage, PerforatedRadix};
use perforate_types::{
    AccessKind, Action, Frame, HoleSet, PageSize, Permissions, PhysicalAddress, Purpose, SpaceId,
    Steps, TableOperation, Unit, Update, VirtualAddress, VirtualPage,
};

const SPACE: SpaceId = SpaceId(1);
const FIRST: u64 = 1 << 30;
const BITMAPS: u64 = 0x80_0000;

fn config() -> MmuConfig {
    let mut config = MmuConfig::plain(
        TlbGeometry { entries: 64, ways: 4 },
        TlbGeometry { entries: 1536, ways: 12 },
    );
    config.tlb.l1_data_2m = Some(TlbGeometry { entries: 32, ways: 4 });
    config.walk_cache =
        WalkCacheConfig { level3_entries: 4, level2_entries: 24, ..config.walk_cache };
    config
}

fn table(level: u8, page: u64, frame: u64, branch: u8) -> Update {
    let (page, frame) = (VirtualPage::new(page), Frame::new(frame));
    TableOperation::AddNode { space: SPACE, level, page, frame, branch }.into()
}

fn page(subpage: u64) -> VirtualPage {
    VirtualAddress::new(FIRST).page().add(subpage)
}

fn perforated(loading: BitmapLoading) -> Mmu {
    with_shadow_reads(loading, ShadowReads::WhenNeeded)
}

fn with_shadow_reads(loading: BitmapLoading, shadow_reads: ShadowReads) -> Mmu {
    let dimension = PerforatedRadix::new(PhysicalAddress::new(BITMAPS), loading)
        .with_shadow_reads(shadow_reads);
    let mut mmu = Mmu::new(&config(), Box::new(dimension)).unwrap();
    mmu.switch(SPACE);
    for change in [
        table(4, 0, 0x10, 0),
        table(3, 0, 0x11, 0),
        table(2, FIRST >> 12, 0x12, 0),
        table(1, FIRST >> 12, 0x14, HOLE_BRANCH),
        PerforatedOperation::Perforate {
            space: SPACE,
            page: page(0),
            block: Frame::new(0x1000),
            permissions: Permissions::READ_WRITE,
            holes: [0, 1].into_iter().collect::<HoleSet>(),
        }
        .into(),
        PerforatedOperation::MapHole {
            space: SPACE,
            page: page(0),
            frame: Frame::new(0x9000),
            permissions: Permissions::READ_WRITE,
        }
        .into(),
    ] {
        mmu.apply(&change);
    }
    mmu
}

/// Look-ups and reads as short words, without fills.
fn story(steps: &Steps) -> Vec<String> {
    let word = |purpose: Purpose, action: Action| match action {
        Action::Hit { unit: Unit::L2Tlb, .. } if purpose == Purpose::Bitmap => "bitmap hit".into(),
        Action::Miss { unit: Unit::L2Tlb } if purpose == Purpose::Bitmap => "bitmap miss".into(),
        Action::Hit { unit: Unit::L2Tlb, .. } => "l2 hit".into(),
        Action::Miss { unit: Unit::L2Tlb } => "l2 miss".into(),
        Action::Hit { .. } => "walk cache hit".into(),
        Action::Miss { .. } => "walk cache miss".into(),
        Action::Read { address } => format!("{purpose:?} {address:x}"),
        Action::Check => "check".into(),
        Action::Select => "selected".into(),
        Action::Fill { .. } => String::new(),
    };
    let words = steps.as_slice().iter().map(|step| word(step.purpose, step.action));
    words.filter(|word| !word.is_empty()).collect()
}

/// Physical address, case, and true if a walk found the page.
type Outcome = Result<(u64, Case, bool), PageFault>;

fn load(mmu: &mut Mmu, subpage: u64) -> (Outcome, Vec<String>) {
    let mut steps = Steps::new();
    let address = page(subpage).address().add(0x18);
    let result = mmu.translate(AccessKind::Read, address, &mut steps);
    (result.map(|found| (found.physical.value(), found.case, found.walked)), story(&steps))
}

#[test]
fn the_filtered_variant_takes_each_case() {
    let mut mmu = perforated(BitmapLoading::Filtered);

    // 7 then 2: all look-ups miss, a full walk to the PDE, and the filter bit of sub-page 100 is
    // clear.
    let (result, steps) = load(&mut mmu, 100);
    assert_eq!(result, Ok((0x0106_4018, Case::Filtered, true)));
    assert_eq!(
        steps,
        ["l2 miss", "walk cache miss", "Level4 10000", "Level3 11008", "Level2 12000"]
    );

    // 2: the perforated entry is in the L2 TLB, and no more is needed.
    let (result, steps) = load(&mut mmu, 101);
    assert_eq!(result, Ok((0x0106_5018, Case::Filtered, false)));
    assert_eq!(steps, ["l2 hit"]);

    // First-level hit.
    let (result, steps) = load(&mut mmu, 101);
    assert_eq!(result, Ok((0x0106_5018, Case::FirstLevel, false)));
    assert!(steps.is_empty());

    // 6: filter bit set, bitmap read, hole. The level-3 walk cache has the page directory, so two
    // reads remain: the shadow entry (4KB after the PDE) and the hole's PTE. The bitmap line of
    // block 0x1000 is at base + 0x1000/8.
    let (result, steps) = load(&mut mmu, 0);
    assert_eq!(result, Ok((0x0900_0018, Case::ReadHole, false)));
    assert_eq!(
        steps,
        ["l2 hit", "bitmap miss", "Bitmap 800200", "walk cache hit", "Shadow 13000", "Hole 14000"]
    );

    // 1: the hole's translation is now an ordinary 4KB entry of the L2 TLB.
    mmu.flush_first_level();
    let (result, steps) = load(&mut mmu, 0);
    assert_eq!(result, Ok((0x0900_0018, Case::Regular, false)));
    assert_eq!(steps, ["l2 hit"]);

    // 3: sub-page 2 shares the bitmap entry and is not a hole.
    let (result, steps) = load(&mut mmu, 2);
    assert_eq!(result, Ok((0x0100_2018, Case::BitmapInPlace, false)));
    assert_eq!(steps, ["l2 hit", "bitmap hit"]);

    // 5: sub-page 40 is in the same region but in the next bitmap entry (32 bits each).
    let (result, steps) = load(&mut mmu, 40);
    assert_eq!(result, Ok((0x0102_8018, Case::ReadInPlace, false)));
    assert_eq!(steps, ["l2 hit", "bitmap miss", "Bitmap 800200"]);

    // 4: an unallocated hole with a cached bitmap; the walk finds no page.
    let (result, steps) = load(&mut mmu, 1);
    assert_eq!(result, Err(PageFault::NotMapped));
    assert_eq!(steps, ["l2 hit", "bitmap hit", "walk cache hit", "Hole 14008"]);
    let map = PerforatedOperation::MapHole {
        space: SPACE,
        page: page(1),
        frame: Frame::new(0x9001),
        permissions: Permissions::READ,
    };
    mmu.apply(&map.into());
    let (result, _) = load(&mut mmu, 1);
    assert_eq!(result, Ok((0x0900_1018, Case::BitmapHole, false)));

    let counters = mmu.counters();
    assert_eq!((counters.l1_accesses, counters.l1_misses), (8, 7), "the fault is not counted");
    assert_eq!((counters.l2_accesses, counters.l2_misses), (7, 1));
    assert_eq!((counters.bitmap_hits, counters.bitmap_misses), (2, 2));
    assert_eq!(counters.bitmap_filtered, 2);
    assert_eq!(counters.holes_translated, 2);
    assert_eq!(counters.walks, 3, "one for the page, two for the holes");
    assert_eq!(counters.table_references(), 3 + 2 + 1);

    let contents = mmu.l2_contents();
    assert_eq!((contents.perforated, contents.hole, contents.bitmap), (1, 2, 2));
    assert_eq!(contents.page_4k, 0, "generated translations go into the first level only");
}

#[test]
fn shadow_entries_can_be_read_with_those_of_directories() {
    let mut mmu = with_shadow_reads(BitmapLoading::Filtered, ShadowReads::WithDirectoryEntry);

    // The filter bit of sub-page 100 is clear: the shadow entry was read needlessly, in the stage
    // of the PDE, and is not kept.
    let mut steps = Steps::new();
    mmu.translate(AccessKind::Read, page(100).address(), &mut steps).unwrap();
    let walk = ["l2 miss", "walk cache miss", "Level4 10000", "Level3 11008", "Level2 12000"];
    assert_eq!(story(&steps), [&walk[..], &["Shadow 13000"]].concat());
    let stage = |wanted: Purpose| {
        let mut reads = steps.as_slice().iter().filter(|step| step.purpose == wanted);
        reads.find(|step| matches!(step.action, Action::Read { .. })).unwrap().stage
    };
    assert_eq!(stage(Purpose::Shadow), stage(Purpose::Level2));

    // A hole whose page is in the L2 TLB takes the same steps as with reads when needed.
    let (result, steps) = load(&mut mmu, 0);
    assert_eq!(result, Ok((0x0900_0018, Case::ReadHole, false)));
    let hole = ["l2 hit", "bitmap miss", "Bitmap 800200", "walk cache hit", "Shadow 13000"];
    assert_eq!(steps, [&hole[..], &["Hole 14000"]].concat());

    // When all look-ups miss, the walk to the page has read the shadow entry: one read remains.
    let mut mmu = with_shadow_reads(BitmapLoading::Filtered, ShadowReads::WithDirectoryEntry);
    let (result, steps) = load(&mut mmu, 0);
    assert_eq!(result, Ok((0x0900_0018, Case::ReadHole, true)));
    let to_hole = ["Shadow 13000", "bitmap miss", "Bitmap 800200", "walk cache hit", "Hole 14000"];
    assert_eq!(steps, [walk, to_hole].concat());
}

#[test]
fn a_perforated_page_takes_17_entries_at_once_in_the_naive_variant() {
    // P-C1: the page and all 16 bitmap entries.
    let mut mmu = perforated(BitmapLoading::Naive);
    let (result, steps) = load(&mut mmu, 100);
    assert_eq!(result, Ok((0x0106_4018, Case::BitmapInPlace, true)), "the filter is not used");
    assert_eq!(steps.iter().filter(|step| step.starts_with("Bitmap")).count(), 1, "one line");
    let contents = mmu.l2_contents();
    assert_eq!((contents.perforated, contents.bitmap), (1, 16));
}

#[test]
fn the_on_demand_variant_asks_the_bitmap_even_where_there_is_no_hole() {
    let mut mmu = perforated(BitmapLoading::OnDemand);
    let (result, _) = load(&mut mmu, 100);
    assert_eq!(result, Ok((0x0106_4018, Case::ReadInPlace, true)));
    assert_eq!(mmu.l2_contents().bitmap, 1);
}

#[test]
fn eight_entries_share_a_cache_line() {
    // Sub-page n's hole entry lies at node + 8n.
    let mut mmu = perforated(BitmapLoading::Filtered);
    for subpage in 2..64 {
        let address = PhysicalAddress::new(0x14000 + 8 * subpage);
        let entry = mmu.dimension().memory().entry(address);
        assert_eq!(entry.frame(), Frame::new(0x1000 + subpage), "in place for sharers' bits");
    }
    assert!(!mmu.dimension().memory().entry(PhysicalAddress::new(0x14000 + 8 * 64)).is_present());
    load(&mut mmu, 0).0.unwrap();
    let pde = mmu.dimension().memory().entry(PhysicalAddress::new(0x12000));
    assert!(pde.is_accessed() && !pde.is_dirty());
    assert_eq!((pde.filter(), pde.leaf_frame(PageSize::Size2M)), (1, Frame::new(0x1000)));
}

#[test]
fn a_store_sets_the_dirty_bit_of_the_leaf_that_translates() {
    let mut mmu = perforated(BitmapLoading::Filtered);
    let mut steps = Steps::new();
    // With cold caches, the walk passes the 2MB entry, but the store writes the hole.
    mmu.translate(AccessKind::Write, page(0).address(), &mut steps).unwrap();
    let memory = mmu.dimension().memory();
    assert!(memory.entry(PhysicalAddress::new(0x14000)).is_dirty());
    assert!(!memory.entry(PhysicalAddress::new(0x12000)).is_dirty());
    mmu.translate(AccessKind::Write, page(99).address(), &mut steps).unwrap();
    assert!(mmu.dimension().memory().entry(PhysicalAddress::new(0x12000)).is_dirty());
}

#[test]
fn a_first_store_to_a_hole_leaves_the_large_entry_clean() {
    let mut mmu = perforated(BitmapLoading::Filtered);
    load(&mut mmu, 100).0.unwrap();
    load(&mut mmu, 0).0.unwrap();
    // The first level has the hole, the second level only the page around it.
    mmu.evict_page(SPACE, page(0));
    let mut steps = Steps::new();
    mmu.translate(AccessKind::Write, page(0).address(), &mut steps).unwrap();
    let dirty = |mmu: &Mmu, address| {
        mmu.dimension().memory().entry(PhysicalAddress::new(address)).is_dirty()
    };
    assert!(dirty(&mmu, 0x14000) && !dirty(&mmu, 0x12000));
    // So the store beside the hole still sets the page's dirty bit.
    mmu.translate(AccessKind::Write, page(101).address(), &mut steps).unwrap();
    assert!(dirty(&mmu, 0x12000));
}

/// A store in place marks the TLB's copy of the page dirty in every case, with and without a bitmap
/// look-up. Later fills from the copy need no dirty bit to be set.
#[test]
fn a_store_in_place_marks_the_cached_page_dirty_in_every_case() {
    for (before, stored, case) in [
        (None, 101, Case::Filtered),
        (Some(100), 101, Case::Filtered),
        (None, 2, Case::ReadInPlace),
        (Some(100), 2, Case::ReadInPlace),
        (Some(2), 3, Case::BitmapInPlace),
    ] {
        let mut mmu = perforated(BitmapLoading::Filtered);
        let known_dirty = |mmu: &mut Mmu, subpage| {
            load(mmu, subpage).0.unwrap();
            let allows = mmu.first_level_allows(page(subpage)).expect("it was loaded");
            allows & allow::DIRTY != 0
        };
        if let Some(subpage) = before {
            assert!(!known_dirty(&mut mmu, subpage));
        }
        let found = mmu.translate(AccessKind::Write, page(stored).address(), &mut Steps::new());
        let found = found.unwrap();
        assert_eq!((found.case, found.walked), (case, before.is_none()));
        assert!(known_dirty(&mut mmu, 200), "{case:?} after {before:?}");
    }
}

/// A store to a hole marks only the hole's copy dirty.
#[test]
fn a_store_to_a_hole_marks_its_own_entry_dirty() {
    let mut mmu = perforated(BitmapLoading::Filtered);
    load(&mut mmu, 100).0.unwrap();
    mmu.translate(AccessKind::Write, page(0).address(), &mut Steps::new()).unwrap();
    mmu.flush_first_level();
    for (subpage, is_dirty) in [(0, true), (101, false)] {
        load(&mut mmu, subpage).0.unwrap();
        let allows = mmu.first_level_allows(page(subpage)).expect("it was loaded");
        assert_eq!(allows & allow::DIRTY != 0, is_dirty, "{subpage}");
    }
}

fn word(mmu: &Mmu, frame: u64, offset: u64) -> u64 {
    mmu.dimension().memory().word(Frame::new(frame).address().add(offset))
}

/// A walk to a hole sets the accessed bit of the shadow entry. A forbidden store to a hole leaves the hole's
/// entry clean.
#[test]
fn marks_on_the_way_to_a_hole() {
    const ACCESSED: u64 = 1 << 5;
    const DIRTY: u64 = 1 << 6;
    let mut mmu = perforated(BitmapLoading::Filtered);
    let (space, permissions) = (SPACE, Permissions::READ);
    let (page_1, frame) = (page(1), Frame::new(0x9001));
    let hole = PerforatedOperation::MapHole { space, page: page_1, frame, permissions };
    mmu.apply(&hole.into());
    assert_eq!(word(&mmu, 0x13, 0) & ACCESSED, 0);
    let address = page(1).address();
    let stored = mmu.translate(AccessKind::Write, address, &mut Steps::new());
    assert_eq!(stored, Err(PageFault::Protection));
    assert_eq!(word(&mmu, 0x13, 0) & ACCESSED, ACCESSED);
    assert_eq!(word(&mmu, 0x14, 8) & (ACCESSED | DIRTY), ACCESSED);
    assert_eq!(load(&mut mmu, 0).0.map(|found| found.0), Ok(0x900_0018));
    assert_eq!(word(&mmu, 0x14, 0) & (ACCESSED | DIRTY), ACCESSED);
    mmu.translate(AccessKind::Write, page(0).address(), &mut Steps::new()).unwrap();
    assert_eq!(word(&mmu, 0x14, 0) & (ACCESSED | DIRTY), ACCESSED | DIRTY);
}

/// An ordinary 2MB page gets one hole and loses it again, and is then as it was.
#[test]
fn an_ordinary_page_is_punched_and_patched() {
    let mut tables = PerforatedRadix::new(PhysicalAddress::new(BITMAPS), BitmapLoading::Filtered);
    let mut apply = |change: Update| tables.apply(change.operation().unwrap());
    let (first, frame, size) = (page(0), Frame::new(0x1000), PageSize::Size2M);
    let permissions = Permissions::READ_WRITE;
    apply(table(4, 0, 0x10, 0));
    apply(table(3, 0, 0x11, 0));
    apply(table(2, FIRST >> 12, 0x12, 0));
    apply(TableOperation::Map { space: SPACE, page: first, size, frame, permissions }.into());
    apply(table(1, FIRST >> 12, 0x14, HOLE_BRANCH));
    apply(PerforatedOperation::Punch { space: SPACE, page: page(100) }.into());
    // The bitmap of the block is at its number ÷ 8; sub-page 100 is in word 1.
    let bitmap = |tables: &PerforatedRadix| {
        let line = PhysicalAddress::new(BITMAPS + 0x1000 / 8);
        [0, 1].map(|region| tables.memory().word(line.add(8 * region)))
    };
    let holes: HoleSet = [100].into_iter().collect();
    let punched = PerforatedPage {
        space: SPACE,
        page: first,
        filter: 0b10,
        holes,
        allocated: HoleSet::EMPTY,
    };
    assert_eq!(tables.perforated_pages(), [punched]);
    assert_eq!(bitmap(&tables), [0, 1 << 36]);
    assert!(tables.look_at(SPACE, page(100)).is_none());
    assert_eq!(tables.look_at(SPACE, page(101)).unwrap().frame, Frame::new(0x1065));
    let mut apply = |change: Update| tables.apply(change.operation().unwrap());
    apply(PerforatedOperation::Patch { space: SPACE, page: page(100) }.into());
    assert_eq!((tables.perforated_pages(), bitmap(&tables)), (vec![], [0, 0]));
    let whole = tables.look_at(SPACE, page(100)).unwrap();
    assert_eq!((whole.size, whole.frame, whole.filter), (size, frame, 0));
    // The node of holes goes, and another may come.
    let mut apply = |change: Update| tables.apply(change.operation().unwrap());
    let gone =
        TableOperation::RemoveNode { space: SPACE, level: 1, page: first, branch: HOLE_BRANCH };
    apply(gone.into());
    assert_eq!(tables.memory().word(Frame::new(0x13).address()), 0);
    assert_eq!(tables.memory().word(Frame::new(0x14).address().add(800)), 0);
    let mut apply = |change: Update| tables.apply(change.operation().unwrap());
    apply(table(1, FIRST >> 12, 0x15, HOLE_BRANCH));
    apply(PerforatedOperation::Punch { space: SPACE, page: page(100) }.into());
    assert_eq!(tables.perforated_pages(), [punched]);
    assert_eq!(bitmap(&tables), [0, 1 << 36]);
}

/// A page directory in frames that held another directory begins without shadow entries.
#[test]
fn a_new_directory_has_no_shadow_entries() {
    let mut mmu = perforated(BitmapLoading::Filtered);
    assert_ne!(word(&mmu, 0x13, 0), 0);
    let page = page(0);
    let (space, size) = (SPACE, PageSize::Size2M);
    mmu.apply(&TableOperation::Unmap { space, page, size }.into());
    mmu.apply(&TableOperation::RemoveNode { space, level: 2, page, branch: 0 }.into());
    mmu.apply(&table(2, FIRST >> 12, 0x12, 0));
    assert_eq!(word(&mmu, 0x13, 0), 0);
}

/// Cached bitmap entries cover 32 sub-pages each: 0 to 31 with two holes, 32 to 63 with none.
#[test]
fn bitmap_entries_are_shown_with_their_pages() {
    let mut mmu = perforated(BitmapLoading::Filtered);
    for subpage in [2, 40] {
        load(&mut mmu, subpage).0.unwrap();
    }
    let mut entries = Vec::new();
    mmu.inspect(&mut entries);
    let bitmaps = entries.iter().filter_map(|entry| match entry.content {
        CachedContent::Bitmap(bits) => Some((entry.first, entry.pages, bits, entry.space)),
        _ => None,
    });
    let mut bitmaps: Vec<_> = bitmaps.collect();
    bitmaps.sort_by_key(|entry| entry.0.number());
    assert_eq!(bitmaps, [(page(0), 32, 0b11, SPACE), (page(32), 32, 0, SPACE)]);
    let large = entries.iter().filter(|entry| entry.pages == 512 && entry.unit == Unit::L2Tlb);
    assert_eq!(large.map(|entry| entry.first).collect::<Vec<_>>(), [page(0)]);
    let dimension = mmu.dimension_mut();
    assert!(dimension.part::<PerforatedRadix>().is_some());
    assert!(dimension.part_mut::<PerforatedRadix>().is_some());
    assert!(dimension.part::<Radix>().is_none() && dimension.part_mut::<Radix>().is_none());
}

/// With shadow entries read beside those of directories, the walk cache keeps that of a region with a hole
/// only. The holes of this page are sub-pages 64 and 65, in region 1.
#[test]
fn shadow_entries_are_kept_where_there_may_be_holes() {
    let mut mmu = with_shadow_reads(BitmapLoading::Filtered, ShadowReads::WithDirectoryEntry);
    for (space, page) in [(SPACE, page(64)), (SPACE, page(65))] {
        mmu.apply(&PerforatedOperation::Punch { space, page }.into());
    }
    for (space, page) in [(SPACE, page(0)), (SPACE, page(1))] {
        mmu.apply(&PerforatedOperation::Patch { space, page }.into());
    }
    mmu.flush();
    let kept = |mmu: &Mmu| {
        let mut entries = Vec::new();
        mmu.inspect(&mut entries);
        let is_shadow = |entry: &&CachedEntry| {
            let content = &entry.content;
            matches!(content, CachedContent::Node { directory: Directory::Holes, .. })
        };
        entries.iter().filter(is_shadow).count()
    };
    for (subpage, expected) in [(0, 0), (63, 0), (128, 0), (100, 1)] {
        mmu.flush();
        load(&mut mmu, subpage).0.unwrap();
        assert_eq!(kept(&mmu), expected, "sub-page {subpage}");
    }
}

/// The bitmap has a word for each eighth of the page.
#[test]
fn the_written_bitmap_has_the_holes_of_every_region() {
    let mut mmu = perforated(BitmapLoading::Filtered);
    for subpage in [64 + 63, 2 * 64, 5 * 64 + 7, 511] {
        mmu.apply(&PerforatedOperation::Punch { space: SPACE, page: page(subpage) }.into());
    }
    let bitmap = |mmu: &Mmu, page| mmu.dimension().holes().unwrap().written_bitmap(SPACE, page);
    let expected = [0b11, 1 << 63, 1, 0, 0, 1 << 7, 0, 1 << 63];
    assert_eq!(bitmap(&mmu, page(100)), Some(expected));
    mmu.apply(&PerforatedOperation::Patch { space: SPACE, page: page(511) }.into());
    assert_eq!(bitmap(&mmu, page(511)).map(|words| words[7]), Some(0));
    assert_eq!(bitmap(&mmu, page(512)), None, "nothing is mapped there");
}
