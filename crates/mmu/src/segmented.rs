//! Direct segments: one linear mapping of each address space besides its page tables (D §II.B).

use perforate_types::{
    AccessKind, FormatOperation, Frame, GapTolerance, PageSize, Permissions, SegmentOperation,
    SpaceId, TableOperation, VirtualPage,
};

use crate::dimension::{
    Dimension, PerforatedPage, Reach, Superpage, WalkFault, WalkRequest, allow,
};
use crate::{
    EscapeFilter, PageFault, Run, RunRequest, Sabotage, TableMemory, VirtualizationConfig, Walker,
};

/// BASE, LIMIT and OFFSET of one address space, and its escape filter.
struct Registers {
    first: VirtualPage,
    pages: u64,
    frame: Frame,
    allows: u8,
    filter: EscapeFilter,
}

impl Registers {
    /// Whether the first page of `size` around `page` and all after it lie in the segment, with
    /// frames aligned as the pages are.
    fn covers(&self, page: VirtualPage, size: PageSize) -> bool {
        let start = page.align_down(size).number();
        let Some(index) = start.checked_sub(self.first.number()) else { return false };
        index + size.pages() <= self.pages && self.frame.add(index).is_aligned(size)
    }

    /// The reach around `page`, which lies inside and does not escape. Where any page escapes, the
    /// filter answers for single pages only.
    fn reach(&self, page: VirtualPage) -> Reach {
        let sizes = if self.filter.is_empty() { &PageSize::ALL[..] } else { &PageSize::ALL[..1] };
        let covered = sizes.iter().rev().find(|&&size| self.covers(page, size));
        let size = *covered.expect("the page lies in the segment");
        let index = page.align_down(size).number() - self.first.number();
        Reach { size, frame: self.frame.add(index), allows: self.allows, filter: 0 }
    }
}

/// Page tables with a direct segment for each address space. The registers of all address spaces
/// are kept here: an operating system saves and restores them.
pub struct Segmented {
    paging: Box<dyn Dimension>,
    registers: Vec<Option<Registers>>,
    empty: EscapeFilter,
    sabotage: Option<Sabotage>,
}

impl Segmented {
    /// Segments over `paging`, none of them set.
    pub fn new(paging: Box<dyn Dimension>, config: &VirtualizationConfig) -> Self {
        let empty = EscapeFilter::new(config.escape_filter_bits, config.escape_filter_functions);
        Self { paging, registers: Vec::new(), empty, sabotage: None }
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

    fn set(
        &mut self,
        space: SpaceId,
        (first, pages): (VirtualPage, u64),
        frame: Frame,
        permissions: Permissions,
    ) {
        // A segment has no dirty bits: stores need no further work.
        let allows = allow::of_leaf(permissions, true);
        let filter = self.empty.clone();
        *self.slot(space) = Some(Registers { first, pages, frame, allows, filter });
    }

    /// Whether a planted defect drops an operation: one that maps inside a segment, and what is done
    /// later to a page that was never mapped for it.
    fn drops(&self, operation: &dyn FormatOperation) -> bool {
        match operation.downcast_ref() {
            Some(&TableOperation::Map { space, page, .. }) => {
                let registers = self.registers(space);
                registers.is_some_and(|registers| registers.covers(page, PageSize::Size4K))
            }
            Some(
                &TableOperation::Unmap { space, page, .. }
                | &TableOperation::Protect { space, page, .. },
            ) => self.paging.look_at(space, page).is_none(),
            _ => false,
        }
    }

    /// Carries out an operation on the registers.
    fn write(&mut self, operation: &SegmentOperation) {
        match *operation {
            SegmentOperation::Set { space, page, pages, frame, permissions } => {
                assert!(pages > 0, "a segment needs a page");
                self.set(space, (page, pages), frame, permissions);
            }
            SegmentOperation::Clear { space } => {
                assert!(self.slot(space).take().is_some(), "{space:?} has no segment");
            }
            SegmentOperation::Escape { space, page } => {
                let registers = self.slot(space).as_mut().expect("the segment is set");
                assert!(registers.covers(page, PageSize::Size4K), "{page:?} is outside");
                registers.filter.insert(page);
            }
        }
    }
}

impl Dimension for Segmented {
    fn apply(&mut self, operation: &dyn FormatOperation) {
        if let Some(operation) = operation.downcast_ref() {
            return self.write(operation);
        }
        if self.sabotage != Some(Sabotage::DropPagingInSegment) || !self.drops(operation) {
            self.paging.apply(operation);
        }
    }

    /// A page that the segment translates takes one check and no reference (D Table II).
    fn walk(&mut self, request: WalkRequest, walker: &mut Walker<'_>) -> Result<Reach, WalkFault> {
        if let Some(reach) = self.segment(request.space, request.page) {
            walker.check();
            return Ok(reach);
        }
        self.paging.walk(request, walker)
    }

    fn walk_hole(
        &mut self,
        request: WalkRequest,
        walker: &mut Walker<'_>,
    ) -> Result<Reach, WalkFault> {
        self.paging.walk_hole(request, walker)
    }

    fn read_bitmap(
        &mut self,
        request: WalkRequest,
        block: Frame,
        walker: &mut Walker<'_>,
    ) -> Result<[u64; 8], WalkFault> {
        self.paging.read_bitmap(request, block, walker)
    }

    fn has_holes(&self) -> bool {
        self.paging.has_holes()
    }

    fn gap_tolerance(&self) -> Option<GapTolerance> {
        self.paging.gap_tolerance()
    }

    fn look_at_superpage(&self, space: SpaceId, page: VirtualPage) -> Option<Superpage> {
        self.paging.look_at_superpage(space, page)
    }

    fn has_segments(&self) -> bool {
        true
    }

    fn segment_is_set(&self, space: SpaceId) -> bool {
        self.registers(space).is_some()
    }

    fn segment(&self, space: SpaceId, page: VirtualPage) -> Option<Reach> {
        let registers = self.registers(space)?;
        let ignores_filter = self.sabotage == Some(Sabotage::IgnoreEscapeFilter);
        let translates = registers.covers(page, PageSize::Size4K)
            && (ignores_filter || !registers.filter.contains(page));
        translates.then(|| registers.reach(page))
    }

    fn look_at(&self, space: SpaceId, page: VirtualPage) -> Option<(Frame, u8)> {
        if let Some(reach) = self.segment(space, page) {
            return Some((reach.frame.add(page.index_in(reach.size) as u64), reach.allows));
        }
        self.paging.look_at(space, page)
    }

    /// Entries are of pages that the segment does not translate.
    fn run_around(&self, request: &RunRequest) -> Run {
        self.paging.run_around(request)
    }

    fn blame(&self, request: WalkRequest, kind: AccessKind) -> PageFault {
        self.paging.blame(request, kind)
    }

    fn mark_dirty(&mut self, space: SpaceId, page: VirtualPage) {
        self.paging.mark_dirty(space, page);
    }

    fn memory(&self) -> &TableMemory {
        self.paging.memory()
    }

    fn perforated_pages(&self) -> Vec<PerforatedPage> {
        self.paging.perforated_pages()
    }

    fn sabotage(&mut self, defect: Sabotage) {
        self.sabotage = Some(defect);
        self.paging.sabotage(defect);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Radix;

    const SPACE: SpaceId = SpaceId(0);

    /// Pages 512 to 2,047 at frames 1,024 and following, and nothing else.
    fn segmented() -> Segmented {
        let mut dimension =
            Segmented::new(Box::new(Radix::new()), &VirtualizationConfig::default());
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
        assert!(dimension.segment(SPACE, VirtualPage::new(511)).is_none());
        assert!(dimension.segment(SPACE, VirtualPage::new(2048)).is_none());
        assert!(dimension.segment(SpaceId(1), VirtualPage::new(512)).is_none());
        assert_eq!(dimension.look_at(SPACE, VirtualPage::new(512)).unwrap().0, Frame::new(1024));
        assert_eq!(dimension.look_at(SPACE, VirtualPage::new(2047)).unwrap().0, Frame::new(2559));
    }

    #[test]
    fn the_reach_is_large_until_a_page_escapes() {
        let mut dimension = segmented();
        let reach = dimension.segment(SPACE, VirtualPage::new(1030)).unwrap();
        assert_eq!((reach.size, reach.frame), (PageSize::Size2M, Frame::new(1536)));
        let page = VirtualPage::new(1030);
        dimension.apply(&SegmentOperation::Escape { space: SPACE, page });
        assert!(dimension.segment(SPACE, page).is_none());
        assert!(dimension.look_at(SPACE, page).is_none(), "paging has nothing there");
        let beside = dimension.segment(SPACE, VirtualPage::new(600)).unwrap();
        assert_eq!((beside.size, beside.frame), (PageSize::Size4K, Frame::new(1112)));
        dimension.apply(&SegmentOperation::Clear { space: SPACE });
        assert!(!dimension.segment_is_set(SPACE));
        assert!(dimension.segment(SPACE, VirtualPage::new(600)).is_none());
    }
}
