//! The TLB of gap-tolerant entries: one walk for a superpage, and no use of stale entries.

use perforate_mmu::{Mmu, PageFault, TlbGeometry};
use perforate_schemes::gap_tolerant::{GapTolerantRadix, SuperpageOperation};
use perforate_types::{
    AccessKind, Action, Counters, GapTolerance, Permissions, Purpose, Shootdown, SpaceId, Steps,
    Unit, Update,
};

use super::address_spaces::*;

const MODE: GapTolerance = GapTolerance::SINGLE_4M;

/// An MMU after these changes, with a TLB of gap-tolerant entries and without walk caches.
fn native(mode: GapTolerance, entries: usize, changes: &[Update]) -> Mmu {
    let mut tables =
        GapTolerantRadix::with_native_tlb(mode, TlbGeometry { entries, ways: entries });
    nodes().iter().chain(changes).for_each(|change| apply(&mut tables, change));
    let mut mmu = Mmu::new(&config(0), Box::new(tables)).unwrap();
    mmu.switch(SPACE);
    mmu
}

fn reads(mmu: &mut Mmu, index: u64) -> usize {
    load(mmu, index).reads.len()
}

fn count(mmu: &Mmu, name: &str) -> f64 {
    let mut out = Counters::default();
    mmu.counters().record(1000, &mut out);
    mmu.record_sideband(&mut out);
    out.get(name).unwrap()
}

/// The first page needs three reads. Any other page of the superpage takes a hit and a selection.
/// Page 37 is the sixth of virtual block 1, which is B-block 3 of the slice.
#[test]
fn one_walk_serves_the_whole_superpage() {
    let changes = [superpage(MODE, 0, 0, SELECTION)];
    let mut steps = Steps::new();
    let mut cold = native(MODE, 4, &changes);
    cold.translate(AccessKind::Read, page(0).address(), &mut steps).unwrap();
    let fill = Action::Fill { unit: Unit::SidebandTlb, slot: 0 };
    let mut filled = steps.as_slice().iter().chain(steps.background());
    assert!(filled.any(|step| step.action == fill));
    let mut mmu = native(MODE, 4, &changes);
    assert_eq!(load(&mut mmu, 0).reads, walk_to(0));
    let mut steps = Steps::new();
    mmu.translate(AccessKind::Read, page(37).address(), &mut steps).unwrap();
    let done: Vec<_> = steps.as_slice().iter().map(|step| (step.purpose, step.action)).collect();
    let (unit, page) = (Unit::SidebandTlb, Purpose::Page);
    assert_eq!(done[..2], [(page, Action::Hit { unit, slot: 0 }), (page, Action::Select)]);
    assert!(matches!(done[2], (_, Action::Fill { unit: Unit::L1DataTlb, .. })));
    assert_eq!(done.len(), 3, "the second level is not filled");
    mmu.flush_first_level();
    for index in 0..1024 {
        let outcome = load(&mut mmu, index);
        let block = if index < 512 { 1 + index / 32 * 2 } else { index / 32 * 2 };
        assert_eq!((outcome.frame, outcome.selections), (Ok(block * 32 + index % 32), 1));
        assert!(outcome.reads.is_empty());
    }
    assert_eq!(mmu.counters().walks, 1);
    assert_eq!(mmu.l2_contents().page_4k, 0);
    assert_eq!(count(&mmu, "gap_tolerant_tlb_translations"), 1025.0);
    assert_eq!(count(&mmu, "gap_tolerant_tlb_fills"), 1.0);
    mmu.reset_counters();
    assert_eq!(count(&mmu, "gap_tolerant_tlb_translations"), 0.0);
    assert_eq!(count(&mmu, "gap_tolerant_tlb_fills"), 0.0);
    let unit = mmu.dimension().sideband_tlb().unwrap();
    assert_eq!((unit.name(), unit.slots()), ("TLB of gap-tolerant entries", 16));
    assert_eq!(mmu.slots()[Unit::SidebandTlb as usize], 16);
}

/// A core walks for a superpage even if another core has its entry.
#[test]
fn each_core_has_entries_of_its_own() {
    let mut mmu = native(MODE, 4, &[superpage(MODE, 0, 0, SELECTION)]);
    mmu.set_cores(2);
    for core in [0, 1] {
        mmu.run_on(core);
        mmu.switch(SPACE);
        assert_eq!(load(&mut mmu, 0).reads, walk_to(0));
    }
    for core in [0, 1] {
        mmu.run_on(core);
        assert_eq!(reads(&mut mmu, 37), 0);
    }
}

/// Pages of level-1 nodes are filled into the second level as usual.
#[test]
fn other_pages_take_no_entry() {
    let changes = [superpage(MODE, 0, 0, SELECTION), table(1, 1024, 0x30), map(1024, 9)];
    let mut mmu = native(MODE, 1, &changes);
    assert_eq!([0, 1024, 1].map(|index| reads(&mut mmu, index)), [3, 4, 0]);
    assert_eq!(mmu.l2_contents().page_4k, 1);
    assert_eq!(count(&mmu, "gap_tolerant_tlb_fills"), 1.0);
}

#[test]
fn the_least_recently_used_entry_goes() {
    let superpages = [0, 1, 2].map(|k| superpage(MODE, k * 1024, k << 11, SELECTION));
    let mut mmu = native(MODE, 2, &superpages);
    assert_eq!([0, 1024, 1, 2048, 2, 1025].map(|index| reads(&mut mmu, index)), [3, 3, 0, 3, 0, 3]);
}

/// Shootdowns of the superpage, of a page in it, and of the address space invalidate the entry.
/// Those of other entries and address spaces do not.
#[test]
fn a_shootdown_ends_the_entry() {
    for mode in GapTolerance::ALL {
        let length = mode.entry_pages();
        let other = SpaceId(2);
        for (shootdown, is_ended) in [
            (Shootdown::Superpage { space: SPACE, page: page(0), mode }, true),
            (Shootdown::Page { space: SPACE, page: page(length - 1) }, true),
            (Shootdown::Space { space: SPACE }, true),
            (Shootdown::Page { space: SPACE, page: page(length) }, false),
            (Shootdown::Superpage { space: SPACE, page: page(length), mode }, false),
            (Shootdown::Superpage { space: other, page: page(0), mode }, false),
            (Shootdown::Bitmap { space: SPACE, page: page(0) }, false),
        ] {
            let mut mmu = native(mode, 4, &[superpage(mode, 0, 0, SELECTION)]);
            load(&mut mmu, 0);
            mmu.apply(&shootdown.into());
            mmu.flush_first_level();
            assert_eq!(!load(&mut mmu, 1).reads.is_empty(), is_ended, "{shootdown:?}");
        }
        // The entry after the last page that is shot down stays.
        for shootdown in [
            Shootdown::Superpage { space: SPACE, page: page(0), mode },
            Shootdown::Page { space: SPACE, page: page(length - 1) },
        ] {
            let changes = [0, 1].map(|k| superpage(mode, k * length, k << 11, SELECTION));
            let mut mmu = native(mode, 4, &changes);
            for index in [0, length] {
                load(&mut mmu, index).frame.unwrap();
            }
            mmu.apply(&shootdown.into());
            let held = mmu.dimension().sideband_tlb().unwrap();
            let held = [0, length].map(|index| held.find(SPACE, page(index)).is_some());
            assert_eq!(held, [false, true], "{shootdown:?}");
        }
    }
}

/// Without the shootdown, the entry is stale, which a test with an oracle would detect.
#[test]
fn without_a_shootdown_the_entry_is_stale() {
    for forgotten in [false, true] {
        let mut mmu = native(MODE, 4, &[superpage(MODE, 0, 0, SELECTION)]);
        load(&mut mmu, 0);
        mmu.apply(&unmap_superpage(MODE, 0));
        if !forgotten {
            mmu.apply(&gone(MODE, 0));
        }
        mmu.apply(&superpage(MODE, 0, 1 << 11, SELECTION));
        let slice = if forgotten { 0 } else { 1 << 11 };
        assert_eq!(load(&mut mmu, 1).frame, Ok(slice + 33));
    }
}

/// The first store through a clean entry sets the dirty bit in the page directory and in the TLB.
#[test]
fn a_store_through_an_entry_marks_it_dirty() {
    let mut mmu = native(MODE, 4, &[superpage(MODE, 0, 0, SELECTION)]);
    load(&mut mmu, 0);
    let is_dirty = |mmu: &Mmu| word(mmu.dimension(), 0) & 1 << 6 != 0;
    assert!(!is_dirty(&mmu));
    access(&mut mmu, AccessKind::Write, page(40));
    assert!(is_dirty(&mmu));
    let slice = mmu.dimension().look_at(SPACE, page(41)).unwrap();
    assert_ne!(slice.allows & perforate_mmu::allow::DIRTY, 0);
    let held = mmu.dimension().sideband_tlb().unwrap().find(SPACE, page(41)).unwrap();
    assert_ne!(held.allows & perforate_mmu::allow::DIRTY, 0, "the entry of the TLB");
}

#[test]
fn permissions_are_those_of_the_entry() {
    let mut mmu = native(MODE, 4, &[superpage(MODE, 0, 0, SELECTION)]);
    load(&mut mmu, 0);
    let permissions = Permissions::READ;
    mmu.apply(
        &SuperpageOperation::Protect { space: SPACE, page: page(0), mode: MODE, permissions }
            .into(),
    );
    mmu.apply(&gone(MODE, 0));
    load(&mut mmu, 0);
    assert_eq!(access(&mut mmu, AccessKind::Write, page(1)).frame, Err(PageFault::Protection));
    assert_eq!(load(&mut mmu, 1).frame, Ok(33));
}

/// Without tags, a context switch flushes all entries.
#[test]
fn entries_have_tags_or_go_with_the_switch() {
    for tagged in [true, false] {
        let mut tables =
            GapTolerantRadix::with_native_tlb(MODE, TlbGeometry { entries: 4, ways: 2 });
        let map = superpage(MODE, 0, 0, SELECTION);
        nodes().iter().chain([&map]).for_each(|change| apply(&mut tables, change));
        let mut config = config(0);
        config.tlb.tagged = tagged;
        let mut mmu = Mmu::new(&config, Box::new(tables)).unwrap();
        mmu.switch(SPACE);
        load(&mut mmu, 0);
        mmu.switch(SpaceId(2));
        assert_eq!(load(&mut mmu, 0).frame, Err(PageFault::NotMapped), "not its own");
        mmu.switch(SPACE);
        assert_eq!(reads(&mut mmu, 1) == 0, tagged);
    }
}
