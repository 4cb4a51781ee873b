//! Nested translation: a guest's dimension (gVA→gPA) over a host's (gPA→hPA). A dimension
//! translates one address space to the next.
//!
//! Any guest can be composed with any host. The host locates each of the guest's tables, so an
//! uncached walk of g guest levels and h host levels reads (g + 1)(h + 1) − 1 entries. The result
//! is the intersection of the ranges that guest and host map, with the holes of both (P §V, D §II).

mod host;
mod nested_tlb;
mod register;

use std::any::TypeId;
use std::collections::HashMap;

use perforate_types::{
    AccessKind, Counters, FormatOperation, Frame, PageSize, Purpose, Shootdown, SpaceId, Steps,
    VirtualPage,
};

use crate::capability::{
    Capability, CapabilityKind, CapabilityMut, Holes, OverHost, PerCoreHardware, Runs,
    SidebandCounters, SidebandTlb, SidebandUse,
};
use crate::coalescing::{Run, RunRequest};
use crate::{
    BitmapLoading, Dimension, HostFault, Mark, PageFault, Reach, TableMemory, WalkFault,
    WalkRequest, Walker, allow,
};
pub use host::Host;
pub(crate) use host::{HAS_HOLES, bitmap_bits, entry_of, loading_of};
use host::{Located, guest_frame, host_page};
pub(crate) use host::{LocatedFor, needs_bitmap};
pub use register::RegisteredRun;

/// The guest's leaf entry for the page of the last walk, if it maps 2MB or 1GB. For a 1GB leaf, the
/// values are those of the 2MB around the page. Bitmap reads and walks to holes need them.
#[derive(Clone, Copy)]
struct Found {
    /// First guest frame of the 2MB that the leaf maps around the page.
    block: Frame,
    allows: u8,
    filter: u8,
}

/// Nested translation: a guest's dimension (gVA→gPA) over a host's (gPA→hPA).
pub struct Nested {
    guest: Box<dyn Dimension>,
    host: Host,
    loading: BitmapLoading,
    guest_has_holes: bool,
    host_has_holes: bool,
    guest_unit: SidebandUse,
    found: Found,
    /// Leaf entries of the guest that TLB entries with holes also hold, by space and first page
    /// of the 2MB region. Intermediate entries always hold the guest's leaf; other entries do only
    /// if `guest_blocks_in_entries` is set. A TLB entry is invalidated with the mapping that it was
    /// made from, so a leaf in this map is never older than the TLB entry that uses it.
    entry_regions: HashMap<(SpaceId, VirtualPage), Found>,
    /// True if the last walk found a large guest page over 4KB host pages (P §V).
    is_intermediate: bool,
    counters: SidebandCounters,
}

impl Nested {
    /// Composes a guest's and a host's dimension. If both have holes, their bitmap loading policies
    /// must be equal, since their bitmap entries are in the same second-level TLB.
    pub fn new(guest: Box<dyn Dimension>, host: Host) -> Self {
        let guest_has_holes = guest.holes().is_some();
        let with_holes = if guest_has_holes { guest.as_ref() } else { host.dimension() };
        Self {
            loading: loading_of(with_holes),
            guest_has_holes,
            host_has_holes: host.dimension().holes().is_some(),
            guest_unit: guest.beside_use(),
            found: Found { block: Frame::new(0), allows: 0, filter: 0 },
            entry_regions: HashMap::new(),
            is_intermediate: false,
            counters: SidebandCounters::default(),
            guest,
            host,
        }
    }

    fn needs_bitmap(&self, filter: u8, page: VirtualPage) -> bool {
        needs_bitmap(self.loading, filter, page.index_in(PageSize::Size2M))
    }

    /// Returns the kind of access that the host must allow to the data page. A store that the guest
    /// forbids does not reach the host, so its kind is a read.
    fn kind(request: &WalkRequest, allows: u8) -> AccessKind {
        let writes = request.write && allow::permits(allows, AccessKind::Write);
        if writes { AccessKind::Write } else { AccessKind::Read }
    }

    /// Walks the guest's tables. Records a leaf of 2MB or 1GB in `found`.
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

    /// Translates a page inside the guest's last leaf to a guest frame. If the filter requires the
    /// bitmap, the guest's level-1 node of holes has the frame, because it maps every sub-page.
    /// Otherwise the frame is in place.
    fn resolve_guest(
        &mut self,
        request: WalkRequest,
        walker: &mut Walker<'_>,
    ) -> Result<Located, WalkFault> {
        let Found { block, allows, filter } = self.found;
        if self.needs_bitmap(filter, request.page) {
            let holes = self.guest.holes_mut().expect(HAS_HOLES);
            let hole = holes.walk_hole(request, &mut walker.above(&mut self.host))?;
            return Ok(Located { frame: hole.frame, allows: hole.allows });
        }
        let frame = block.add(request.page.index_in(PageSize::Size2M) as u64);
        Ok(Located { frame, allows })
    }

    /// Translates the guest frame in `guest` to a machine frame. Returns the combined 4KB mapping
    /// (gVA→hPA).
    fn resolve_host(
        &mut self,
        request: &WalkRequest,
        guest: Located,
        walker: &mut Walker<'_>,
    ) -> Result<Reach, WalkFault> {
        let wanted = (guest_frame(guest.frame), Self::kind(request, guest.allows));
        let Located { frame, allows } =
            self.host.locate(wanted, LocatedFor::Data, walker.l2, walker.steps)?;
        Ok(Reach::of_page(frame, allows & guest.allows))
    }

    /// Stores the guest's leaf of the last walk as part of the TLB entry to be filled, if such
    /// entries hold it (`names_region`). Otherwise removes an older leaf of the region.
    fn note_entry(&mut self, request: &WalkRequest, names_region: bool) {
        let region = (request.space, request.page.align_down(PageSize::Size2M));
        if names_region {
            self.entry_regions.insert(region, self.found);
        } else {
            self.entry_regions.remove(&region);
        }
    }

    /// After a TLB hit, sets `found` to the guest's leaf: that in the TLB entry, or else the result
    /// of another walk of the guest's tables.
    fn find_again(
        &mut self,
        request: WalkRequest,
        walker: &mut Walker<'_>,
    ) -> Result<(), WalkFault> {
        let region = (request.space, request.page.align_down(PageSize::Size2M));
        match self.entry_regions.get(&region) {
            Some(&found) => self.found = found,
            None => {
                self.walk_guest(request, walker)?;
            }
        }
        Ok(())
    }

    /// Translates a page by the guest's unit in parallel with the TLB, such as a range TLB, without
    /// side effects. `None` for a miss.
    fn find_in_guest_unit(&self, space: SpaceId, page: VirtualPage) -> Option<Reach> {
        if !self.guest_unit.looked_up {
            return None;
        }
        self.guest.sideband_tlb()?.find(space, page)
    }

    fn has_holes(&self) -> bool {
        self.guest_has_holes || self.host_has_holes
    }

    fn has_unit(&self) -> bool {
        self.guest_unit.looked_up || self.host.unit().looked_up
    }

    fn fill_guest_unit(&mut self, request: WalkRequest, leaf: &Reach, walker: &mut Walker<'_>) {
        if let Some(unit) = self.guest.sideband_tlb_mut() {
            unit.fill_in_background(request, leaf, &mut walker.above(&mut self.host));
        }
    }

    /// Counts a TLB miss if the unit of only one side (guest or host), such as a range TLB,
    /// translates the page.
    fn count(&mut self, space: SpaceId, page: VirtualPage, guest: Frame) {
        let in_guest = self.find_in_guest_unit(space, page).is_some();
        let in_host = self.host.find_in_unit(guest_frame(guest)).is_some();
        self.counters.in_guest_only += u64::from(in_guest && !in_host);
        self.counters.in_host_only += u64::from(in_host && !in_guest);
    }

    /// Combines a guest's leaf of 2MB or 1GB with the host's mapping. Over 4KB host pages, a
    /// sub-page may need the guest's bitmap. With intermediate TLB entries, the pipeline looks up
    /// the bitmap, so the result is the guest's leaf. Without them, the bitmap is read here.
    fn compose(
        &mut self,
        request: WalkRequest,
        leaf: &Reach,
        walker: &mut Walker<'_>,
    ) -> Result<Reach, WalkFault> {
        let in_place = leaf.frame_of(request.page);
        let needs_bitmap = self.needs_bitmap(leaf.filter, request.page);
        // A store may go to a hole of the guest, so the host page in place may not be written.
        let kind = if needs_bitmap { AccessKind::Read } else { Self::kind(&request, leaf.allows) };
        let wanted = (guest_frame(in_place), kind);
        let host = self.host.reach(wanted, LocatedFor::Data, walker.l2, walker.steps);
        // A hole of the host does not count as a 4KB page, because the pages around the hole still
        // need the bitmaps of guest and host.
        self.is_intermediate =
            host.is_ok_and(|host| host.size == PageSize::Size4K) && !self.host.is_hole_of_larger();
        if let Ok(host) = host
            && host.size != PageSize::Size4K
        {
            let reach = intersect(leaf, in_place, &host);
            if reach.filter != 0 {
                self.note_entry(&request, self.host.has_guest_blocks_in_entries());
            }
            return Ok(reach);
        }
        let caches_leaf = self.is_intermediate && self.host.has_intermediate_entries();
        if leaf.filter != 0 {
            self.note_entry(&request, caches_leaf);
        }
        if caches_leaf && needs_bitmap {
            return Ok(*leaf);
        }
        // The frame of a guest's hole does not depend on the host's mapping in place.
        if needs_bitmap && self.is_guest_hole(request, walker)? {
            let guest = self.resolve_guest(request, walker)?;
            return self.resolve_host(&request, guest, walker);
        }
        let wanted = (guest_frame(in_place), Self::kind(&request, leaf.allows));
        let host = host.map_err(|fault| HostFault { kind: wanted.1, ..fault })?;
        if caches_leaf {
            self.host.fill_under_intermediate(wanted.0, &host, walker.l2, walker.steps);
        }
        let Located { frame, allows } =
            self.host.resolve_holes(&host, wanted, LocatedFor::Data, walker.l2, walker.steps)?;
        Ok(Reach::of_page(frame, allows & leaf.allows))
    }

    /// True if the guest's bitmap in memory marks the page of the last walk as a hole.
    fn is_guest_hole(
        &mut self,
        request: WalkRequest,
        walker: &mut Walker<'_>,
    ) -> Result<bool, WalkFault> {
        let bitmap = self.read_guest_bitmap(request, self.found.block, walker);
        let index = request.page.index_in(PageSize::Size2M);
        Ok(bitmap.expect(HAS_HOLES)?[index / 64] >> (index % 64) & 1 != 0)
    }
}

/// Intersection of a guest's leaf and the host's mapping around guest frame `in_place`, both of 2MB
/// or 1GB. The result has the smaller size, the accesses that both allow, and the holes of both.
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
        self.is_intermediate = false;
        let leaf = self.walk_guest(request, walker)?;
        let reach = if leaf.size == PageSize::Size4K {
            let guest = Located { frame: leaf.frame, allows: leaf.allows };
            self.resolve_host(&request, guest, walker)?
        } else {
            self.compose(request, &leaf, walker)?
        };
        if self.has_unit() {
            self.count(request.space, request.page, leaf.frame_of(request.page));
        }
        if self.guest_unit.filled {
            self.fill_guest_unit(request, &leaf, walker);
        }
        Ok(reach)
    }

    fn look_at(&self, space: SpaceId, page: VirtualPage) -> Option<Reach> {
        let guest = self.guest.look_at(space, page)?;
        let guest_page = guest_frame(guest.frame_of(page));
        let host = self.host.look_at(guest_page)?;
        let frame = host.frame_of(host_page(guest_page));
        Some(Reach::of_page(frame, guest.allows & host.allows))
    }

    fn mark(&mut self, space: SpaceId, page: VirtualPage, mark: Mark) {
        self.guest.mark(space, page, mark);
        if let Some(guest) = self.guest.look_at(space, page) {
            self.host.mark(guest_frame(guest.frame_of(page)), mark);
        }
    }

    fn memory(&self) -> &TableMemory {
        self.guest.memory()
    }

    /// Returns a capability of guest and host together, or of the guest.
    fn capability(&self, wanted: CapabilityKind) -> Option<Capability<'_>> {
        match wanted {
            CapabilityKind::Holes => self.has_holes().then_some(Capability::Holes(self)),
            CapabilityKind::SidebandTlb => self.has_unit().then_some(Capability::SidebandTlb(self)),
            CapabilityKind::OverHost => Some(Capability::OverHost(self)),
            CapabilityKind::PerCoreHardware => Some(Capability::PerCoreHardware(self)),
            CapabilityKind::Part(part) if part == TypeId::of::<Self>() => {
                Some(Capability::Part(self))
            }
            CapabilityKind::CachedLeaves | CapabilityKind::Part(_) => self.guest.capability(wanted),
            CapabilityKind::Runs => Some(Capability::Runs(self)),
        }
    }

    fn capability_mut(&mut self, wanted: CapabilityKind) -> Option<CapabilityMut<'_>> {
        match wanted {
            CapabilityKind::Holes => self.has_holes().then_some(CapabilityMut::Holes(self)),
            CapabilityKind::SidebandTlb => {
                self.has_unit().then_some(CapabilityMut::SidebandTlb(self))
            }
            CapabilityKind::OverHost => Some(CapabilityMut::OverHost(self)),
            CapabilityKind::PerCoreHardware => Some(CapabilityMut::PerCoreHardware(self)),
            CapabilityKind::Part(part) if part == TypeId::of::<Self>() => {
                Some(CapabilityMut::Part(self))
            }
            CapabilityKind::CachedLeaves | CapabilityKind::Part(_) => {
                self.guest.capability_mut(wanted)
            }
            CapabilityKind::Runs => None,
        }
    }
}

/// Pages with consecutive guest frames need not be consecutive in the machine, so each page is
/// translated by both. A block is contiguous if it is in the entries of both.
impl Runs for Nested {
    fn run_around(&self, request: &RunRequest) -> Run {
        request.longest(|page| self.look_at(request.space, page))
    }

    fn is_contiguous(&self, space: SpaceId, page: VirtualPage) -> bool {
        let guest =
            self.guest.look_at(space, page).filter(|_| self.guest.is_contiguous(space, page));
        guest.is_some_and(|guest| self.host.is_contiguous(guest_frame(guest.frame_of(page))))
    }
}

impl PerCoreHardware for Nested {
    fn set_cores(&mut self, cores: usize) {
        self.guest.set_cores(cores);
        self.host.set_cores(cores);
    }

    fn run_on(&mut self, core: usize) {
        self.guest.run_on(core);
        self.host.run_on(core);
    }
}

impl Holes for Nested {
    fn bitmap_loading(&self) -> BitmapLoading {
        self.loading
    }

    /// Walks to a sub-page that the combined bitmap marks as a hole: of the guest, of the host, or
    /// of both.
    fn walk_hole(
        &mut self,
        request: WalkRequest,
        walker: &mut Walker<'_>,
    ) -> Result<Reach, WalkFault> {
        if !request.walked {
            self.find_again(request, walker)?;
        }
        let guest = self.resolve_guest(request, walker)?;
        let in_place = self.found.block.add(request.page.index_in(PageSize::Size2M) as u64);
        if guest.frame != in_place {
            return self.resolve_host(&request, guest, walker);
        }
        let wanted = (guest_frame(in_place), Self::kind(&request, guest.allows));
        let Located { frame, allows } = self.host.locate_hole(wanted, walker.l2, walker.steps)?;
        Ok(Reach::of_page(frame, allows & guest.allows))
    }

    /// Reads the bitmaps of guest and host and returns their union. `block` is the machine frame,
    /// which gives the host's bitmap. The guest's bitmap needs the guest frame. If the TLB entry
    /// that was hit does not contain it, the guest's page-directory entry is read again (P §V does
    /// not say what the hardware does).
    fn read_bitmap(
        &mut self,
        request: WalkRequest,
        block: Frame,
        walker: &mut Walker<'_>,
    ) -> Result<[u64; 8], WalkFault> {
        if !request.walked {
            self.find_again(request, walker)?;
        }
        let mut bitmap = [0; 8];
        if self.host_has_holes {
            bitmap = self.host.read_bitmap(block, walker.l2, walker.steps);
        }
        if self.found.filter != 0 {
            let guest = self.read_guest_bitmap(request, self.found.block, walker);
            let guest = guest.expect(HAS_HOLES)?;
            bitmap.iter_mut().zip(guest).for_each(|(word, guest)| *word |= guest);
        }
        Ok(bitmap)
    }

    /// Returns the guest's bitmap as its operating system last wrote it. `None` if the host has
    /// holes, because the guest's kernel does not know them.
    fn written_bitmap(&self, space: SpaceId, page: VirtualPage) -> Option<[u64; 8]> {
        let guest = self.guest.holes().filter(|_| !self.host_has_holes)?;
        guest.written_bitmap(space, page)
    }
}

/// Units of guest and host together, such as direct segments in both (D Table I, "both"): hPA = gVA
/// + OFFSET_G + OFFSET_V.
impl SidebandTlb for Nested {
    fn name(&self) -> &'static str {
        let unit = self.guest.sideband_tlb().or_else(|| self.host.dimension().sideband_tlb());
        unit.map_or("unit", SidebandTlb::name)
    }

    /// Returns the uses that the pipeline makes of the two units: it looks them up only if guest
    /// and host both have one. If only one side has a unit, walks of that side's tables use it.
    /// Walks fill both units, so the pipeline does not.
    fn used(&self) -> SidebandUse {
        let looked_up = self.guest_unit.looked_up && self.host.unit().looked_up;
        SidebandUse { looked_up, ..SidebandUse::default() }
    }

    fn find(&self, space: SpaceId, page: VirtualPage) -> Option<Reach> {
        let guest = self.find_in_guest_unit(space, page)?;
        let in_place = guest.frame_of(page);
        let host = self.host.find_in_unit(guest_frame(in_place))?;
        Some(intersect(&guest, in_place, &host))
    }

    /// Looks up the units of guest and host in parallel. If both translate the page, appends the
    /// steps of the guest's unit only, because the host's look-up takes no further time.
    fn look_up(
        &mut self,
        space: SpaceId,
        page: VirtualPage,
        purpose: Purpose,
        steps: &mut Steps,
    ) -> Option<Reach> {
        let unit = self.guest.sideband_tlb_mut()?;
        let guest = unit.find(space, page)?;
        let in_place = guest.frame_of(page);
        let host = self.host.find_in_unit(guest_frame(in_place))?;
        unit.look_up(space, page, purpose, steps);
        Some(intersect(&guest, in_place, &host))
    }

    fn slots(&self) -> usize {
        self.guest.sideband_tlb().map_or(0, SidebandTlb::slots)
    }

    fn fill(&mut self, _: WalkRequest, _: &Reach, _: &mut Walker<'_>) {}

    fn invalidate(&mut self, shootdown: Shootdown) {
        if let Some(unit) = self.guest.sideband_tlb_mut() {
            unit.invalidate(shootdown);
        }
    }

    fn flush(&mut self) {
        if let Some(unit) = self.guest.sideband_tlb_mut() {
            unit.flush();
        }
    }

    fn record(&self, counted: &SidebandCounters, out: &mut Counters) {
        let counted = SidebandCounters { translations: counted.translations, ..self.counters };
        let unit = self.guest.sideband_tlb().or_else(|| self.host.dimension().sideband_tlb());
        if let Some(unit) = unit {
            unit.record(&counted, out);
        }
    }

    fn reset_counters(&mut self) {
        self.counters = SidebandCounters::default();
    }
}

impl OverHost for Nested {
    fn host(&self) -> &Host {
        &self.host
    }

    fn host_mut(&mut self) -> &mut Host {
        &mut self.host
    }

    fn intermediate(&self) -> Option<Reach> {
        let Found { block, allows, filter } = self.found;
        let reach = Reach { size: PageSize::Size2M, frame: block, allows, filter };
        self.is_intermediate.then_some(reach)
    }

    fn read_guest_bitmap(
        &mut self,
        request: WalkRequest,
        block: Frame,
        walker: &mut Walker<'_>,
    ) -> Option<Result<[u64; 8], WalkFault>> {
        let holes = self.guest.holes_mut()?;
        Some(holes.read_bitmap(request, block, &mut walker.above(&mut self.host)))
    }

    fn blame(&self, request: WalkRequest, kind: AccessKind) -> PageFault {
        let Some(guest) = self.guest.look_at(request.space, request.page) else {
            return PageFault::NotMapped;
        };
        let page = guest_frame(guest.frame_of(request.page));
        let host_allows = self.host.look_at(page).map_or(0, |host| host.allows);
        if allow::permits(guest.allows, kind) && !allow::permits(host_allows, kind) {
            return PageFault::Host(HostFault { page, kind });
        }
        PageFault::Protection
    }
}
