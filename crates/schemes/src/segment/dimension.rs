//! Hardware half: one linear mapping per address space in addition to its page tables (D §II.B).

use std::cell::OnceCell;

use perforate_mmu::{
    Capability, CapabilityKind, CapabilityMut, Dimension, DimensionLayer, Reach, SidebandCounters,
    SidebandTlb, SidebandUse, WalkFault, WalkRequest, Walker, allow,
};
use perforate_types::{
    Action, Counters, FormatOperation, Frame, PageSize, Purpose, Shootdown, SpaceId, Steps,
    VirtualPage, figures,
};

use super::{EscapeFilter, EscapeFilterConfig};
use crate::segment::SegmentOperation;

figures! {
    /// Figures of direct segments: first-level misses that they translated (under virtualization,
    /// of guest and host both; the same number has two names), and walks to pages in only one of
    /// both (D §VII: F_DD, F_GD, F_VD).
    pub(crate) static COUNTERS: SidebandCounters, "Direct segments" {
        /// First-level misses that direct segments translated without page tables. Accesses, if the
        /// segments are looked up in parallel with the first-level TLB.
        segment_translations, Count, Listed: |it| it.translations;
        /// First-level misses that the direct segments of guest and host translated together;
        /// natively, those that the segment translated. They do not count as misses of the L2 TLB.
        misses_in_both_segments, Count, Listed: |it| it.translations;
        /// Misses of all TLBs on pages in the guest's direct segment but not in the host's.
        misses_in_guest_segment_only, Count, Listed: |it| it.in_guest_only;
        /// Misses of all TLBs on pages in the host's direct segment but not in the guest's.
        misses_in_host_segment_only, Count, Listed: |it| it.in_host_only;
    }
}

/// Registers BASE, LIMIT and OFFSET of one address space, and the escape filter of its segment.
struct Registers {
    first: VirtualPage,
    pages: u64,
    frame: Frame,
    allows: u8,
    filter: EscapeFilter,
    /// For each 2MB block of virtual memory from the segment's first block on: true if the escape
    /// filter contains a page of the block. Computed at the first access to a block.
    escapes: Vec<OnceCell<bool>>,
}

impl Registers {
    /// True if the whole page of `size` around `page` is in the segment, and its frames are aligned
    /// to `size`.
    fn covers(&self, page: VirtualPage, size: PageSize) -> bool {
        let start = page.align_down(size).number();
        let Some(index) = start.checked_sub(self.first.number()) else { return false };
        index + size.pages() <= self.pages && self.frame.add(index).is_aligned(size)
    }

    /// Index of the 2MB block of virtual memory that contains `page`, counted from the segment's
    /// first block.
    fn block(&self, page: u64) -> usize {
        let pages = PageSize::Size2M.pages();
        (page / pages - self.first.number() / pages) as usize
    }

    /// True if the escape filter contains any page within the page of `size` around `page`, which
    /// must be in the segment. Such a page escaped or is a false positive.
    fn has_escape(&self, page: VirtualPage, size: PageSize) -> bool {
        if size == PageSize::Size4K || self.filter.is_empty() {
            return false;
        }
        let start = page.align_down(size).number();
        let block_pages = PageSize::Size2M.pages();
        let blocks = &self.escapes[self.block(start)..][..(size.pages() / block_pages) as usize];
        let has_page = |start: u64| {
            let mut pages = (start..start + block_pages).map(VirtualPage::new);
            pages.any(|page| self.filter.contains(page))
        };
        let starts = (start..).step_by(block_pages as usize);
        starts.zip(blocks).any(|(start, escapes)| *escapes.get_or_init(|| has_page(start)))
    }

    /// Adds an escaped page to the filter. Other pages may become false positives of the filter.
    fn escape(&mut self, page: VirtualPage) {
        self.filter.insert(page);
        self.escapes.fill(OnceCell::new());
    }

    /// Returns the mapping around `page`, which must be in the segment and not in the filter: the
    /// largest aligned page size around it without a page in the filter (D §V). D does not say how
    /// hardware could know about the other pages of that range.
    fn reach(&self, page: VirtualPage) -> Reach {
        let is_covered = |size: PageSize| self.covers(page, size) && !self.has_escape(page, size);
        let covered = PageSize::ALL.into_iter().rev().find(|&size| is_covered(size));
        let size = covered.expect("the page lies in the segment");
        let index = page.align_down(size).number() - self.first.number();
        Reach { size, frame: self.frame.add(index), allows: self.allows, filter: 0 }
    }
}

/// Page tables with a direct segment per address space. The model stores the segment registers of
/// all address spaces, which an operating system would save and restore at context switches.
pub struct Segmented {
    paging: Box<dyn Dimension>,
    registers: Vec<Option<Registers>>,
    empty: EscapeFilter,
    /// True if the segment registers are looked up in parallel with the first-level TLB instead of
    /// the second-level TLB.
    beside_l1: bool,
}

impl Segmented {
    /// Adds segment registers, without any segment yet, to the page tables `paging`.
    pub fn new(paging: Box<dyn Dimension>, filter: EscapeFilterConfig) -> Self {
        let empty = EscapeFilter::new(filter.bits, filter.functions);
        Self { paging, registers: Vec::new(), empty, beside_l1: false }
    }

    /// Sets the registers to be looked up in parallel with the first-level TLB, as in the original
    /// proposal (D §II.B).
    pub fn beside_l1(self) -> Self {
        Self { beside_l1: true, ..self }
    }

    fn registers(&self, space: SpaceId) -> Option<&Registers> {
        self.registers.get(usize::from(space.0))?.as_ref()
    }

    fn slot(&mut self, space: SpaceId) -> &mut Option<Registers> {
        let index = usize::from(space.0);
        if self.registers.len() <= index {
            self.registers.resize_with(index + 1, || None);
        }
        &mut self.registers[index]
    }

    /// Returns the mapping around a page that the segment translates; `None` if the page is outside
    /// the segment or in the escape filter.
    #[inline(always)]
    fn translate(&self, space: SpaceId, page: VirtualPage) -> Option<Reach> {
        let registers = self.registers(space)?;
        let translates =
            registers.covers(page, PageSize::Size4K) && !registers.filter.contains(page);
        translates.then(|| registers.reach(page))
    }

    /// Applies an operation to the segment registers.
    fn write(&mut self, operation: &SegmentOperation) {
        match *operation {
            SegmentOperation::Set { space, page, pages, frame, permissions } => {
                assert!(pages > 0, "a segment needs a page");
                // A segment has no dirty bits, so its translations count as dirty, and stores need
                // no further work.
                let allows = allow::of_leaf(permissions, true);
                let filter = self.empty.clone();
                let block_pages = PageSize::Size2M.pages();
                let blocks =
                    (page.number() + pages - 1) / block_pages - page.number() / block_pages + 1;
                let escapes = vec![OnceCell::new(); blocks as usize];
                *self.slot(space) =
                    Some(Registers { first: page, pages, frame, allows, filter, escapes });
            }
            SegmentOperation::Clear { space } => {
                assert!(self.slot(space).take().is_some(), "{space:?} has no segment");
            }
            SegmentOperation::Escape { space, page } => {
                let registers = self.slot(space).as_mut().expect("the segment is set");
                assert!(registers.covers(page, PageSize::Size4K), "{page:?} is outside");
                registers.escape(page);
            }
        }
    }
}

/// Translates pages of the segment by the registers and all other pages by the page tables inside.
/// Accessed and dirty bits exist only in the page tables, because a segment has none.
impl DimensionLayer for Segmented {
    fn inside(&self) -> &dyn Dimension {
        self.paging.as_ref()
    }

    fn inside_mut(&mut self) -> &mut dyn Dimension {
        self.paging.as_mut()
    }

    fn apply_own(&mut self, operation: &dyn FormatOperation) -> bool {
        let own = operation.downcast_ref();
        own.map(|operation| self.write(operation)).is_some()
    }

    /// Translates a page of the segment by one check of the registers, without a memory reference
    /// (D Table II). Walks the page tables for any other page.
    fn walk_around(
        &mut self,
        request: WalkRequest,
        walker: &mut Walker<'_>,
    ) -> Result<Reach, WalkFault> {
        if let Some(reach) = self.translate(request.space, request.page) {
            walker.note(Purpose::Page, Action::Check);
            return Ok(reach);
        }
        self.paging.walk(request, walker)
    }

    fn look_at_own(&self, space: SpaceId, page: VirtualPage) -> Option<Reach> {
        self.translate(space, page)
    }

    fn own_capability(&self, wanted: CapabilityKind) -> Option<Capability<'_>> {
        (wanted == CapabilityKind::SidebandTlb).then_some(Capability::SidebandTlb(self))
    }

    fn own_capability_mut(&mut self, wanted: CapabilityKind) -> Option<CapabilityMut<'_>> {
        (wanted == CapabilityKind::SidebandTlb).then_some(CapabilityMut::SidebandTlb(self))
    }
}

/// Look-up of segment registers in parallel with a TLB. The kernel writes the registers with every
/// change of the mapping. Unlike TLB entries they are not copies of table entries, so no walk fills
/// them and no shootdown invalidates them.
impl SidebandTlb for Segmented {
    fn name(&self) -> &'static str {
        "direct segment"
    }

    fn used(&self) -> SidebandUse {
        let beside_l1 = self.beside_l1;
        SidebandUse { looked_up: !beside_l1, beside_l1, ..SidebandUse::default() }
    }

    /// Returns the mapping around a page of the segment: 2MB or 1GB if no page of that range is in
    /// the escape filter (D §III).
    fn find(&self, space: SpaceId, page: VirtualPage) -> Option<Reach> {
        self.translate(space, page)
    }

    /// Looks a page up in the direct segment. A native or guest segment is checked in parallel with the
    /// second-level TLB, so that a check without a match takes no time. A host's segment is checked before
    /// the nested walk, so that every check takes time if the address space has a segment (D Table I).
    fn look_up(
        &mut self,
        space: SpaceId,
        page: VirtualPage,
        purpose: Purpose,
        steps: &mut Steps,
    ) -> Option<Reach> {
        let found = self.translate(space, page);
        if found.is_some() || purpose.is_host() && self.registers(space).is_some() {
            steps.then(purpose, Action::Check);
        }
        found
    }

    fn fill(&mut self, _: WalkRequest, _: &Reach, _: &mut Walker<'_>) {}

    fn invalidate(&mut self, _: Shootdown) {}

    fn flush(&mut self) {}

    fn record(&self, counted: &SidebandCounters, out: &mut Counters) {
        out.record(COUNTERS, counted);
    }

    fn reset_counters(&mut self) {}
}

#[cfg(test)]
mod tests {
    use perforate_mmu::{Case, Mmu, MmuConfig, PageFault, Radix, TlbGeometry, Translated};
    use perforate_types::{AccessKind, Permissions};

    use super::*;

    const SPACE: SpaceId = SpaceId(0);

    /// Creates hardware whose segment maps pages 512 to 2,047 to frames 1,024 and following; no
    /// other page is mapped.
    fn segmented() -> Segmented {
        let mut dimension = Segmented::new(Box::new(Radix::new()), EscapeFilterConfig::default());
        dimension.apply(&SegmentOperation::Set {
            space: SPACE,
            page: VirtualPage::new(512),
            pages: 1536,
            frame: Frame::new(1024),
            permissions: Permissions::READ_WRITE,
        });
        dimension
    }

    #[test]
    fn base_is_inside_and_limit_is_not() {
        let dimension = segmented();
        assert!(dimension.find(SPACE, VirtualPage::new(511)).is_none());
        assert!(dimension.find(SPACE, VirtualPage::new(2048)).is_none());
        assert!(dimension.find(SpaceId(1), VirtualPage::new(512)).is_none());
        for (page, frame) in [(512, 1024), (2047, 2559)] {
            let page = VirtualPage::new(page);
            let found = dimension.look_at(SPACE, page).unwrap();
            assert_eq!(found.frame_of(page), Frame::new(frame));
        }
    }

    fn walked(
        mmu: &mut Mmu,
        kind: AccessKind,
        page: u64,
    ) -> (Result<Translated, PageFault>, Steps) {
        let (address, mut steps) = (VirtualPage::new(page).address(), Steps::new());
        (mmu.translate(kind, address, &mut steps), steps)
    }

    /// With registers in parallel with the first level, no translation has a separate check or a TLB miss. In
    /// parallel with the second level, the first access misses the first level and fills it.
    #[test]
    fn beside_the_first_level_nothing_misses() {
        let geometry = TlbGeometry { entries: 4, ways: 4 };
        for beside_l1 in [true, false] {
            let segmented = if beside_l1 { segmented().beside_l1() } else { segmented() };
            let config = MmuConfig::plain(geometry, geometry);
            let mut mmu = Mmu::new(&config, Box::new(segmented)).unwrap();
            for access in 0..2 {
                let (found, steps) = walked(&mut mmu, AccessKind::Write, 600);
                let found = found.unwrap();
                assert_eq!(found.physical.page(), Frame::new(1112));
                let case = match (beside_l1, access) {
                    (true, _) => Case::BesideFirstLevel,
                    (false, 0) => Case::Beside,
                    (false, _) => Case::FirstLevel,
                };
                assert_eq!(found.case, case);
                assert_eq!(steps.as_slice().is_empty(), case != Case::Beside);
                assert_eq!(found.slot == 16, beside_l1, "a slot behind those of the TLB");
            }
            let counters = *mmu.counters();
            let misses = u64::from(!beside_l1);
            assert_eq!((counters.l1_accesses, counters.l1_misses), (2, misses));
            assert_eq!(counters.beside_translations, if beside_l1 { 2 } else { 1 });
            // A set of up to 16 ways has 16 slots.
            assert_eq!(mmu.slots()[0], if beside_l1 { 17 } else { 16 });
            // The segment does not allow fetches, and no page outside it is mapped.
            assert_eq!(walked(&mut mmu, AccessKind::Fetch, 600).0, Err(PageFault::Protection));
            assert_eq!(walked(&mut mmu, AccessKind::Read, 511).0, Err(PageFault::NotMapped));
        }
    }

    #[test]
    fn the_reach_ends_at_pages_that_the_filter_has() {
        let mut dimension = segmented();
        let reach = dimension.find(SPACE, VirtualPage::new(1030)).unwrap();
        assert_eq!((reach.size, reach.frame), (PageSize::Size2M, Frame::new(1536)));
        let page = VirtualPage::new(1030);
        dimension.apply(&SegmentOperation::Escape { space: SPACE, page });
        assert!(dimension.find(SPACE, page).is_none());
        assert!(dimension.look_at(SPACE, page).is_none(), "paging has nothing there");
        let same_block = dimension.find(SPACE, VirtualPage::new(1031)).unwrap();
        assert_eq!((same_block.size, same_block.frame), (PageSize::Size4K, Frame::new(1543)));
        let beside = dimension.find(SPACE, VirtualPage::new(600)).unwrap();
        assert_eq!((beside.size, beside.frame), (PageSize::Size2M, Frame::new(1024)));
        // A false positive also limits the reach. Pages escape until the filter has a false
        // positive in the block.
        let block = (512..1024).map(VirtualPage::new);
        let mut escaped = 1536..2048;
        while !block.clone().any(|page| dimension.registers(SPACE).unwrap().filter.contains(page)) {
            let page = VirtualPage::new(escaped.next().expect("256 bits fill up"));
            dimension.apply(&SegmentOperation::Escape { space: SPACE, page });
        }
        let positive = |page: &VirtualPage| dimension.find(SPACE, *page).is_none();
        let beside = block.clone().find(|page| !positive(page)).unwrap();
        assert!(block.clone().any(|page| positive(&page)));
        assert_eq!(dimension.find(SPACE, beside).unwrap().size, PageSize::Size4K);
        dimension.apply(&SegmentOperation::Clear { space: SPACE });
        assert!(dimension.registers(SPACE).is_none());
        assert!(dimension.find(SPACE, VirtualPage::new(600)).is_none());
    }

    /// A segment of the gigabytes 3 and 4. A page of the second escapes: 2MB around it have 4KB reaches, the
    /// rest of its gigabyte 2MB, and the other gigabyte 1GB.
    #[test]
    fn gigabytes_end_at_escaped_pages() {
        const GIGABYTE: u64 = 1 << 18;
        let mut dimension = Segmented::new(Box::new(Radix::new()), EscapeFilterConfig::default());
        let (first, frame) = (3 * GIGABYTE, 5 * GIGABYTE);
        dimension.apply(&SegmentOperation::Set {
            space: SPACE,
            page: VirtualPage::new(first),
            pages: 2 * GIGABYTE,
            frame: Frame::new(frame),
            permissions: Permissions::ALL,
        });
        let reach = |dimension: &Segmented, index| {
            let page = VirtualPage::new(first + index);
            let found = dimension.find(SPACE, page).unwrap();
            assert_eq!(found.frame_of(page).number(), frame + index);
            assert_eq!(found.allows, allow::READ | allow::WRITE | allow::FETCH | allow::DIRTY);
            found.size
        };
        let escaped = GIGABYTE + 7 * 512 + 3;
        let pages =
            [0, GIGABYTE - 1, GIGABYTE, escaped - 4, escaped + 1, escaped + 509, 2 * GIGABYTE - 1];
        assert_eq!(pages.map(|index| reach(&dimension, index)), [PageSize::Size1G; 7]);
        let page = VirtualPage::new(first + escaped);
        dimension.apply(&SegmentOperation::Escape { space: SPACE, page });
        use PageSize::{Size1G, Size2M, Size4K};
        let sizes = [Size1G, Size1G, Size2M, Size2M, Size4K, Size2M, Size2M];
        assert_eq!(pages.map(|index| reach(&dimension, index)), sizes);
        let frame_1 = Frame::new(frame + 1);
        // Frames that are not aligned to 2MB have 4KB reaches.
        dimension.apply(&SegmentOperation::Set {
            space: SpaceId(1),
            page: VirtualPage::new(first),
            pages: 1024,
            frame: frame_1,
            permissions: Permissions::READ,
        });
        let found = dimension.find(SpaceId(1), VirtualPage::new(first + 600)).unwrap();
        assert_eq!((found.size, found.frame), (Size4K, frame_1.add(600)));
    }

    /// Where registers are looked up, and that no fill or flush changes them.
    #[test]
    fn registers_are_looked_up_beside_one_level() {
        let mut segmented = segmented();
        let used = segmented.used();
        assert_eq!(
            [used.looked_up, used.filled, used.replaces_l2, used.beside_l1],
            [true, false, false, false]
        );
        segmented.flush();
        segmented.invalidate(Shootdown::Space { space: SPACE });
        assert!(segmented.find(SPACE, VirtualPage::new(512)).is_some());
        assert_eq!((segmented.name(), segmented.slots()), ("direct segment", 0));
        let used = segmented.beside_l1().used();
        assert_eq!(
            [used.looked_up, used.filled, used.replaces_l2, used.beside_l1],
            [false, false, false, true]
        );
    }
}
