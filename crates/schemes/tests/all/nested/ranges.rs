//! A unit beside the second-level TLB with its own entries, filled after walks. It is a TLB of one
//! range, as in redundant memory mappings (Karakostas et al., ISCA 2015), tested natively and at
//! both levels.

use perforate_mmu::{
    Capability, CapabilityKind, CapabilityMut, Case, Dimension, DimensionLayer, Host, Mmu, Nested,
    Radix, Reach, SidebandCounters, SidebandTlb, SidebandUse, WalkRequest, Walker, allow,
};
use perforate_schemes::segment::{EscapeFilterConfig, SegmentOperation, Segmented};
use perforate_types::{
    AccessKind, Action, Counters, Frame, Permissions, PhysicalAddress, Purpose, Shootdown, SpaceId,
    Steps, Unit, VirtualPage,
};

use super::tables::Paging::{Page2M, Pages4K};
use super::tables::{
    BLOCK, DATA, FIRST, GUEST, MACHINE, Paging, access, apply, apply_host, config, guest_changes,
    host_changes, load, store, story,
};

/// Address of the read of the range table.
const RANGE_TABLE: u64 = 0x77_7000;

/// 512 pages from `first` on, mapped to frames from `frame` on.
#[derive(Clone, Copy)]
struct Range {
    first: u64,
    frame: u64,
}

impl Range {
    fn holds(&self, page: VirtualPage) -> bool {
        (self.first..self.first + 512).contains(&page.number())
    }
}

/// Page tables with one range, which a unit of one entry may hold.
struct Ranged {
    tables: Radix,
    range: Range,
    /// Address space and permissions of the entry, if filled.
    held: Option<(SpaceId, u8)>,
    fills: u64,
}

impl Ranged {
    fn over(first: u64, frame: u64) -> Box<Self> {
        let range = Range { first, frame };
        Box::new(Self { tables: Radix::new(), range, held: None, fills: 0 })
    }
}

impl DimensionLayer for Ranged {
    fn inside(&self) -> &dyn Dimension {
        &self.tables
    }

    fn inside_mut(&mut self) -> &mut dyn Dimension {
        &mut self.tables
    }

    fn own_capability(&self, wanted: CapabilityKind) -> Option<Capability<'_>> {
        (wanted == CapabilityKind::SidebandTlb).then_some(Capability::SidebandTlb(self))
    }

    fn own_capability_mut(&mut self, wanted: CapabilityKind) -> Option<CapabilityMut<'_>> {
        (wanted == CapabilityKind::SidebandTlb).then_some(CapabilityMut::SidebandTlb(self))
    }
}

impl SidebandTlb for Ranged {
    fn name(&self) -> &'static str {
        "range TLB"
    }

    fn used(&self) -> SidebandUse {
        SidebandUse { looked_up: true, filled: true, ..SidebandUse::default() }
    }

    fn find(&self, space: SpaceId, page: VirtualPage) -> Option<Reach> {
        let (_, allows) = self.held.filter(|held| held.0 == space && self.range.holds(page))?;
        let index = page.number() - self.range.first;
        Some(Reach::of_page(Frame::new(self.range.frame + index), allows))
    }

    fn look_up(
        &mut self,
        space: SpaceId,
        page: VirtualPage,
        purpose: Purpose,
        steps: &mut Steps,
    ) -> Option<Reach> {
        let (found, unit) = (self.find(space, page), Unit::NestedTlb);
        let hit = Action::Hit { unit, slot: 0 };
        steps.then(purpose, found.map_or(Action::Miss { unit }, |_| hit));
        found
    }

    fn fill(&mut self, request: WalkRequest, reach: &Reach, walker: &mut Walker<'_>) {
        if self.range.holds(request.page) {
            walker.read(Purpose::OwnTable, PhysicalAddress::new(RANGE_TABLE));
            self.held = Some((request.space, reach.allows));
            self.fills += 1;
        }
    }

    fn invalidate(&mut self, shootdown: Shootdown) {
        let outside = matches!(shootdown, Shootdown::Page { page, .. } if !self.range.holds(page));
        self.held = self.held.filter(|held| outside || held.0 != shootdown.space());
    }

    fn flush(&mut self) {
        self.held = None;
    }

    fn record(&self, counted: &SidebandCounters, out: &mut Counters) {
        out.set("range_translations", counted.translations);
        out.set("range_fills", self.fills);
    }

    fn reset_counters(&mut self) {
        self.fills = 0;
    }
}

fn native(tagged: bool) -> Mmu {
    native_with(tagged, Pages4K)
}

fn native_with(tagged: bool, paging: Paging<'_>) -> Mmu {
    let mut config = config();
    config.tlb.tagged = tagged;
    let mut mmu = Mmu::new(&config, Ranged::over(FIRST, DATA)).unwrap();
    mmu.switch(GUEST);
    guest_changes(GUEST, paging, DATA).into_iter().for_each(|change| apply(&mut mmu, change));
    mmu
}

/// True if a load from a page needs a walk.
fn walks(mmu: &mut Mmu, index: u64) -> bool {
    let (frame, case, walked) = access(mmu, AccessKind::Read, index).0.unwrap();
    assert_eq!((frame, case == Case::Regular), (DATA + index, walked), "page {index}");
    walked
}

#[test]
fn the_unit_is_looked_up_with_the_second_level_and_filled_after_the_walk() {
    let mut mmu = native(true);
    let (outcome, steps) = access(&mut mmu, AccessKind::Read, 5);
    assert_eq!(outcome, Ok((DATA + 5, Case::Regular, true)));
    let stages: Vec<u8> = steps.as_slice().iter().map(|step| step.stage).collect();
    assert_eq!(stages[..2], [0, 0], "at the same time");
    let words = story(&steps);
    assert_eq!((words[0].as_str(), words[1].as_str()), ("nested tlb miss", "l2 miss"));
    assert!(!words.contains(&"Level1 777000".into()), "nothing waits for it");
    let background = steps.background();
    let read = Action::Read { address: PhysicalAddress::new(RANGE_TABLE) };
    assert_eq!(background.len(), 1);
    assert_eq!((background[0].purpose, background[0].action), (Purpose::OwnTable, read));
    let (outcome, steps) = access(&mut mmu, AccessKind::Read, 6);
    assert_eq!(outcome, Ok((DATA + 6, Case::Beside, false)));
    assert_eq!(story(&steps), ["nested tlb hit"], "the second level is not asked");
    let (outcome, _) = access(&mut mmu, AccessKind::Read, 6);
    assert_eq!(outcome, Ok((DATA + 6, Case::FirstLevel, false)));
    assert_eq!(mmu.l2_contents().page_4k, 1, "only the page of the walk");
}

#[test]
fn a_walk_to_a_large_page_fills_the_unit_too() {
    let mut mmu = native_with(true, Page2M);
    load(&mut mmu, 5).unwrap();
    let mut counters = Counters::default();
    mmu.record_sideband(&mut counters);
    assert_eq!(counters.get("range_fills"), Some(1.0));
}

#[test]
fn shootdowns_switches_and_flushes_invalidate_the_entry() {
    type End = fn(&mut Mmu);
    let page = |index| Shootdown::Page { space: GUEST, page: VirtualPage::new(FIRST + index) };
    let mut mmu = native(false);
    assert!(walks(&mut mmu, 0) && !walks(&mut mmu, 1));
    mmu.apply(&page(600).into());
    assert!(!walks(&mut mmu, 2), "another page's");
    mmu.apply(&page(3).into());
    assert!(walks(&mut mmu, 3));
    let ends: [End; 3] = [
        Mmu::flush,
        |mmu| mmu.apply(&Shootdown::Space { space: GUEST }.into()),
        |mmu| [SpaceId(9), GUEST].into_iter().for_each(|space| mmu.switch(space)),
    ];
    for (end, first) in ends.into_iter().zip([10, 20, 30]) {
        assert!(!walks(&mut mmu, first));
        end(&mut mmu);
        assert!(walks(&mut mmu, first + 1) && !walks(&mut mmu, first + 2), "{first}");
    }
    let mut tagged = native(true);
    walks(&mut tagged, 0);
    [SpaceId(9), GUEST].into_iter().for_each(|space| tagged.switch(space));
    assert!(!walks(&mut tagged, 1));
}

#[test]
fn a_store_through_a_clean_entry_dirties_the_page() {
    let mut mmu = native(true);
    load(&mut mmu, 0).unwrap();
    assert_eq!(store(&mut mmu, 7), Ok(DATA + 7));
    let is_dirty = |mmu: &Mmu, index| {
        let found = mmu.dimension().look_at(GUEST, VirtualPage::new(FIRST + index)).unwrap();
        found.allows & allow::DIRTY != 0
    };
    assert!(is_dirty(&mmu, 7) && !is_dirty(&mmu, 8));
}

#[test]
fn the_unit_has_figures_of_its_own() {
    let mut mmu = native(true);
    for index in [0, 1, 1, 2] {
        load(&mut mmu, index).unwrap();
    }
    let figures = |mmu: &Mmu| {
        let mut counters = Counters::default();
        mmu.counters().record(1000, &mut counters);
        mmu.record_sideband(&mut counters);
        perforate_schemes::complete(&mut counters);
        ["range_translations", "range_fills", "segment_translations", "l2_tlb_misses"]
            .map(|name| counters.get(name).unwrap())
    };
    assert_eq!(figures(&mmu), [2.0, 1.0, 0.0, 1.0]);
    mmu.reset_counters();
    assert_eq!(figures(&mmu), [0.0; 4]);
}

/// A guest's segment over a host's range TLB. A walk fills the host's unit, so the page is in both
/// units when it is counted, and both translate later pages.
#[test]
fn a_page_in_the_units_of_both_is_counted_for_neither_alone() {
    let config = config();
    let host = Host::new(&config, Ranged::over(DATA, BLOCK), MACHINE);
    let guest = Segmented::new(Box::new(Radix::new()), EscapeFilterConfig::default());
    let mut mmu = Mmu::new(&config, Box::new(Nested::new(Box::new(guest), host))).unwrap();
    mmu.switch(GUEST);
    host_changes(Pages4K, DATA).into_iter().for_each(|change| apply_host(&mut mmu, change));
    let set = SegmentOperation::Set {
        space: GUEST,
        page: VirtualPage::new(FIRST),
        pages: 512,
        frame: Frame::new(DATA),
        permissions: Permissions::READ_WRITE,
    };
    apply(&mut mmu, set);
    let counted = |mmu: &Mmu| {
        let mut counters = Counters::default();
        mmu.counters().record(1000, &mut counters);
        mmu.record_sideband(&mut counters);
        ["both_segments", "guest_segment_only", "host_segment_only"]
            .map(|part| counters.get(&format!("misses_in_{part}")).unwrap())
    };
    let cases = |mmu: &mut Mmu, index| {
        let (frame, case, _) = access(mmu, AccessKind::Read, index).0.unwrap();
        assert_eq!(frame, BLOCK + index);
        case
    };
    assert_eq!((cases(&mut mmu, 5), counted(&mmu)), (Case::Regular, [0.0; 3]));
    assert_eq!((cases(&mut mmu, 6), counted(&mmu)), (Case::Beside, [1.0, 0.0, 0.0]));
}

/// Each walk fills the unit of its dimension; both units together translate the pages that both
/// hold.
#[test]
fn units_of_guest_and_host_translate_together() {
    let config = config();
    let host = Host::new(&config, Ranged::over(DATA, BLOCK), MACHINE);
    let nested = Nested::new(Ranged::over(FIRST, DATA), host);
    let mut mmu = Mmu::new(&config, Box::new(nested)).unwrap();
    mmu.switch(GUEST);
    guest_changes(GUEST, Pages4K, DATA).into_iter().for_each(|change| apply(&mut mmu, change));
    host_changes(Pages4K, DATA).into_iter().for_each(|change| apply_host(&mut mmu, change));
    let cases = |mmu: &mut Mmu, index| {
        let (outcome, steps) = access(mmu, AccessKind::Read, index);
        let (frame, case, _) = outcome.unwrap();
        assert_eq!(frame, BLOCK + index);
        (case, story(&steps))
    };
    assert_eq!(cases(&mut mmu, 5).0, Case::Regular);
    assert_eq!(cases(&mut mmu, 6), (Case::Beside, vec!["nested tlb hit".into()]));
    // The guest's entry is invalidated; its next walk finds the data in the host's unit.
    let page = VirtualPage::new(FIRST + 7);
    mmu.apply(&Shootdown::Page { space: GUEST, page }.into());
    let (case, words) = cases(&mut mmu, 7);
    assert_eq!((case, words.contains(&"host nested tlb hit".into())), (Case::Regular, true));
    assert_eq!(cases(&mut mmu, 8).0, Case::Beside);
    // A shootdown by the host invalidates combined entries and the units of both.
    mmu.apply_host(&Shootdown::Space { space: MACHINE }.into());
    let (case, words) = cases(&mut mmu, 9);
    assert_eq!((case, words.contains(&"host nested tlb hit".into())), (Case::Regular, false));
    assert_eq!(cases(&mut mmu, 10).0, Case::Beside);
    // A flush does the same.
    mmu.flush();
    let (case, words) = cases(&mut mmu, 11);
    assert_eq!((case, words.contains(&"host nested tlb hit".into())), (Case::Regular, false));
    let tables: Option<&Ranged> = mmu.dimension().part();
    assert_eq!(tables.map(|tables| tables.fills), Some(4), "the guest's");
}
