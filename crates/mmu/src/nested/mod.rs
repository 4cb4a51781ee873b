//! Two dimensions as one: guest-virtual to guest-physical addresses, and those to the machine's.
//!
//! Any guest dimension lies over any host dimension. The guest's walk locates each of its tables
//! through the host, so that (g + 1)(h + 1) − 1 entries are read where nothing is cached; the
//! reaches of both are intersected and their holes united (P §V, D §II).

mod host;
mod nested_tlb;
mod register;

use perforate_types::{
    AccessKind, FormatOperation, Frame, GapTolerance, PageSize, SpaceId, VirtualPage,
};

use crate::dimension::{
    Dimension, HostFault, PerforatedPage, Reach, Superpage, WalkFault, WalkRequest, allow,
};
use crate::{PageFault, PerforatedVariant, Sabotage, TableMemory, Walker};
pub use host::Host;
use host::{Located, asks};
pub(crate) use host::{bitmap_bits, entry_of, guest_frame, host_page};
pub use register::RegisteredRun;

/// What compositions count besides other dimensions: in which direct segments the pages lay that
/// no TLB held (D §VII: F_DD, F_GD, F_VD).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NestedCounters {
    /// In the guest's segment, their guest-physical pages not in the host's.
    pub in_guest_segment_only: u64,
    /// In the host's only.
    pub in_host_segment_only: u64,
    /// In neither.
    pub in_no_segment: u64,
}

/// The 2MB region of a guest's page that a walk found last: what the walker still knows when it
/// goes on to bitmaps and holes.
#[derive(Clone, Copy)]
struct Found {
    /// First guest frame of the 2MB block.
    block: Frame,
    allows: u8,
    filter: u8,
}

/// A guest dimension over a host dimension.
pub struct Nested {
    guest: Box<dyn Dimension>,
    host: Host,
    variant: PerforatedVariant,
    found: Found,
    counters: NestedCounters,
    sabotage: Option<Sabotage>,
}

impl Nested {
    /// Composes the dimensions; `variant` is how the second-level TLB treats perforated pages of
    /// either.
    pub fn new(guest: Box<dyn Dimension>, host: Host, variant: PerforatedVariant) -> Self {
        let found = Found { block: Frame::new(0), allows: 0, filter: 0 };
        let counters = NestedCounters::default();
        Self { guest, host, variant, found, counters, sabotage: None }
    }

    fn asks(&self, filter: u8, page: VirtualPage) -> bool {
        asks(self.variant, filter, page.index_in(PageSize::Size2M))
    }

    /// What is done with the data page: a store the guest forbids does not reach the host.
    fn kind(request: &WalkRequest, allows: u8) -> AccessKind {
        let writes = request.write && allow::permits(allows, AccessKind::Write);
        if writes { AccessKind::Write } else { AccessKind::Read }
    }

    /// Walks the guest's tables, and remembers the 2MB region.
    fn walk_guest(
        &mut self,
        request: WalkRequest,
        walker: &mut Walker<'_>,
    ) -> Result<Reach, WalkFault> {
        let leaf = self.guest.walk(request, &mut walker.above(&mut self.host))?;
        if leaf.size != PageSize::Size4K {
            let index = request.page.align_down(PageSize::Size2M).index_in(leaf.size);
            let block = leaf.frame.add(index as u64);
            self.found = Found { block, allows: leaf.allows, filter: leaf.filter };
        }
        Ok(leaf)
    }

    /// The guest's 4KB translation inside the region found last: through its own hole node where
    /// its filter asks, which maps every sub-page there, else in place.
    fn settle_guest(
        &mut self,
        request: WalkRequest,
        walker: &mut Walker<'_>,
    ) -> Result<Located, WalkFault> {
        let Found { block, allows, filter } = self.found;
        if self.asks(filter, request.page) {
            let hole = self.guest.walk_hole(request, &mut walker.above(&mut self.host))?;
            return Ok(Located { frame: hole.frame, allows: hole.allows });
        }
        let frame = block.add(request.page.index_in(PageSize::Size2M) as u64);
        Ok(Located { frame, allows })
    }

    /// Where the guest's 4KB lies in the machine, as a reach of 4KB.
    fn settle_host(
        &mut self,
        request: &WalkRequest,
        guest: Located,
        walker: &mut Walker<'_>,
    ) -> Result<Reach, WalkFault> {
        let wanted = (guest_frame(guest.frame), Self::kind(request, guest.allows));
        let Located { frame, allows } = self.host.locate(wanted, walker.l2, walker.steps)?;
        Ok(Reach { size: PageSize::Size4K, frame, allows: allows & guest.allows, filter: 0 })
    }

    /// Counts a page found in no TLB by the segments that it lies in.
    fn count(&mut self, space: SpaceId, page: VirtualPage, guest: Frame) {
        let counters = &mut self.counters;
        let in_guest = self.guest.segment(space, page).is_some();
        let in_host = self.host.dimension().has_segments() && {
            let page = VirtualPage::new(guest.number());
            self.host.dimension().segment(self.host.space(), page).is_some()
        };
        match (in_guest, in_host) {
            (true, false) => counters.in_guest_segment_only += 1,
            (false, true) => counters.in_host_segment_only += 1,
            _ => counters.in_no_segment += 1,
        }
    }

    /// A leaf of 2MB or 1GB of the guest over whatever the host has there.
    fn compose(
        &mut self,
        request: WalkRequest,
        leaf: &Reach,
        walker: &mut Walker<'_>,
    ) -> Result<Reach, WalkFault> {
        let in_place = leaf.frame.add(request.page.index_in(leaf.size) as u64);
        let asked = self.asks(leaf.filter, request.page);
        // The store may go to a hole of the guest: nothing is known to be written in place.
        let kind = if asked { AccessKind::Read } else { Self::kind(&request, leaf.allows) };
        let wanted = (guest_frame(in_place), kind);
        match self.host.reach(wanted, walker.l2, walker.steps) {
            Ok(host) if host.size != PageSize::Size4K => Ok(intersect(leaf, in_place, &host)),
            // A hole of the guest may lie elsewhere, whatever the host has in place.
            _ if asked => {
                let guest = self.settle_guest(request, walker)?;
                self.settle_host(&request, guest, walker)
            }
            Ok(host) => {
                let Located { frame, allows } =
                    self.host.settle(&host, wanted, walker.l2, walker.steps)?;
                let allows = allows & leaf.allows;
                Ok(Reach { size: PageSize::Size4K, frame, allows, filter: 0 })
            }
            Err(fault) => Err(fault.into()),
        }
    }
}

/// The finer of a guest's leaf and the host's reach around the guest frame `in_place`, both of
/// 2MB or 1GB, with the holes of both.
fn intersect(guest: &Reach, in_place: Frame, host: &Reach) -> Reach {
    let size = guest.size.min(host.size);
    let start = in_place.align_down(size).index_in(host.size);
    Reach {
        size,
        frame: host.frame.add(start as u64),
        allows: guest.allows & host.allows,
        filter: guest.filter | host.filter,
    }
}

impl Dimension for Nested {
    fn apply(&mut self, operation: &dyn FormatOperation) {
        self.guest.apply(operation);
    }

    fn walk(&mut self, request: WalkRequest, walker: &mut Walker<'_>) -> Result<Reach, WalkFault> {
        let leaf = self.walk_guest(request, walker)?;
        let reach = if leaf.size == PageSize::Size4K {
            let guest = Located { frame: leaf.frame, allows: leaf.allows };
            self.settle_host(&request, guest, walker)?
        } else {
            self.compose(request, &leaf, walker)?
        };
        if self.has_segments() {
            let frame = leaf.frame.add(request.page.index_in(leaf.size) as u64);
            self.count(request.space, request.page, frame);
        }
        Ok(reach)
    }

    /// A sub-page that the united bitmap calls a hole: of the guest, of the host, or of both.
    fn walk_hole(
        &mut self,
        request: WalkRequest,
        walker: &mut Walker<'_>,
    ) -> Result<Reach, WalkFault> {
        if !request.walked {
            self.walk_guest(request, walker)?;
        }
        let guest = self.settle_guest(request, walker)?;
        self.settle_host(&request, guest, walker)
    }

    /// Both bitmaps, united. The host's is found by the block of the machine, the guest's by the
    /// block of the guest, for which the guest's directory entry is read again where no walk has
    /// just read it: P §V does not say where a TLB hit has it from.
    fn read_bitmap(
        &mut self,
        request: WalkRequest,
        block: Frame,
        walker: &mut Walker<'_>,
    ) -> Result<[u64; 8], WalkFault> {
        if !request.walked {
            self.walk_guest(request, walker)?;
        }
        let mut bitmap = [0; 8];
        if self.host.dimension().has_holes() && self.sabotage != Some(Sabotage::ForgetHostBitmap) {
            bitmap = self.host.read_bitmap(block, walker.l2, walker.steps);
        }
        if self.found.filter != 0 {
            let guest_block = self.found.block;
            let walker = &mut walker.above(&mut self.host);
            let guest = self.guest.read_bitmap(request, guest_block, walker)?;
            bitmap.iter_mut().zip(guest).for_each(|(word, guest)| *word |= guest);
        }
        Ok(bitmap)
    }

    fn has_holes(&self) -> bool {
        self.guest.has_holes() || self.host.dimension().has_holes()
    }

    fn gap_tolerance(&self) -> Option<GapTolerance> {
        self.guest.gap_tolerance()
    }

    fn look_at_superpage(&self, space: SpaceId, page: VirtualPage) -> Option<Superpage> {
        self.guest.look_at_superpage(space, page)
    }

    fn has_segments(&self) -> bool {
        self.guest.has_segments() || self.host.dimension().has_segments()
    }

    /// Both segments at once (D Table I, "both"): hPA = gVA + OFFSET_G + OFFSET_V.
    fn segment(&self, space: SpaceId, page: VirtualPage) -> Option<Reach> {
        let guest = self.guest.segment(space, page)?;
        let in_place = guest.frame.add(page.index_in(guest.size) as u64);
        let host_page = VirtualPage::new(in_place.number());
        let host = self.host.dimension().segment(self.host.space(), host_page)?;
        Some(intersect(&guest, in_place, &host))
    }

    fn look_at(&self, space: SpaceId, page: VirtualPage) -> Option<(Frame, u8)> {
        let (guest, guest_allows) = self.guest.look_at(space, page)?;
        let (frame, host_allows) = self.host.look_at(guest_frame(guest))?;
        Some((frame, guest_allows & host_allows))
    }

    fn blame(&self, request: WalkRequest, kind: AccessKind) -> PageFault {
        let Some((frame, allows)) = self.guest.look_at(request.space, request.page) else {
            return PageFault::NotMapped;
        };
        let page = guest_frame(frame);
        let host_allows = self.host.look_at(page).map_or(0, |(_, allows)| allows);
        if allow::permits(allows, kind) && !allow::permits(host_allows, kind) {
            return PageFault::Host(HostFault { page, kind });
        }
        PageFault::Protection
    }

    fn mark_dirty(&mut self, space: SpaceId, page: VirtualPage) {
        self.guest.mark_dirty(space, page);
        if let Some((frame, _)) = self.guest.look_at(space, page) {
            self.host.mark_dirty(guest_frame(frame));
        }
    }

    fn memory(&self) -> &TableMemory {
        self.guest.memory()
    }

    fn perforated_pages(&self) -> Vec<PerforatedPage> {
        self.guest.perforated_pages()
    }

    fn host(&self) -> Option<&Host> {
        Some(&self.host)
    }

    fn host_mut(&mut self) -> Option<&mut Host> {
        Some(&mut self.host)
    }

    fn nested_counters(&self) -> NestedCounters {
        self.counters
    }

    fn reset_nested_counters(&mut self) {
        self.counters = NestedCounters::default();
    }

    fn sabotage(&mut self, defect: Sabotage) {
        self.sabotage = Some(defect);
        self.guest.sabotage(defect);
        self.host.dimension_mut().sabotage(defect);
    }
}
