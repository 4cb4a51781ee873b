//! The host's half of nested translation, from guest-physical to machine addresses.

use perforate_types::{
    AccessKind, Action, FormatOperation, Frame, GuestFrame, PageSize, Purpose, Shootdown, SpaceId,
    Steps, TableOperation, Truth, Unit, VirtualPage,
};

use super::nested_tlb::NestedTlb;
use super::register::RegisteredRun;
use crate::capability::{Holes, PerCoreHardware, SidebandUse};
use crate::tlb::{EntryKind, L2Entry, L2Tlb, NESTED, SUBPAGES_PER_BITMAP_ENTRY};
use crate::{
    BitmapLoading, CachedEntry, Dimension, HostFault, Mark, MmuConfig, NestedEntries, Parked,
    Reach, VirtualizationConfig, WalkCaches, WalkFault, WalkRequest, Walker, allow,
};

/// Converts a guest frame to a page of the virtual machine's address space in the hypervisor's
/// kernel. Page and guest frame have the same number.
pub(crate) fn host_page(page: GuestFrame) -> VirtualPage {
    VirtualPage::new(page.number())
}

/// Converts a frame number of the guest's tables to the type for guest frames.
pub(crate) fn guest_frame(frame: Frame) -> GuestFrame {
    GuestFrame::new(frame.number())
}

/// A translation of a 4KB page: frame, and allowed accesses as bits of [`allow`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Located {
    pub(crate) frame: Frame,
    pub(crate) allows: u8,
}

/// Purpose for which a guest-physical page is translated to a machine frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LocatedFor {
    /// Read of the guest's tables or bitmaps.
    Table,
    /// Data whose combined translation (gVA→hPA) is cached.
    Data,
    /// Data in a large guest page that has an intermediate TLB entry (gVA→gPA). Such data need a
    /// gPA→hPA entry.
    Intermediate,
}

/// The host's side of the nested walker: its tables, walk caches, and TLB of guest-physical
/// addresses.
pub struct Host {
    dimension: Box<dyn Dimension>,
    loading: BitmapLoading,
    /// Uses that the walker makes of the host's [`SidebandTlb`](crate::SidebandTlb) unit, such as a range
    /// TLB. The walker looks it up before cached gPA→hPA entries.
    unit: SidebandUse,
    /// Walk caches and nested TLB of the running core.
    own: CoreCaches,
    parked: Parked<CoreCaches>,
    /// Address space of the virtual machine in the host's kernel.
    space: SpaceId,
    registered: Option<RegisteredRun>,
    /// True if, since the last [`Self::take_moved_run`], the host has moved or unmapped guest
    /// memory whose machine location is in the register ([`RegisteredRun`]).
    has_moved_run: bool,
    config: VirtualizationConfig,
    /// True if the last [`Self::reach`] hit the entry of a hole, which is a 4KB part of a larger
    /// host page.
    is_hole: bool,
    /// True if the last [`Self::reach`] walked the tables and filled no gPA→hPA entry.
    is_unfilled: bool,
    /// Guest frame and machine frame of each guest page-table node that the walker has located
    /// since the last [`Self::take_located`]. `None` unless [`Self::note_located`] was called.
    located: Option<Vec<(GuestFrame, Frame)>>,
}

/// Walk caches and nested TLB, which exist once per core.
#[derive(Clone)]
struct CoreCaches {
    caches: WalkCaches,
    tlb: NestedTlb,
}

impl CoreCaches {
    fn inspect(&self, core: usize, out: &mut Vec<CachedEntry>) {
        self.caches.inspect((core, Unit::HostWalkCache), out);
        if let NestedTlb::Apart(tlb) = &self.tlb {
            tlb.inspect((core, Unit::NestedTlb), out);
        }
    }
}

impl PerCoreHardware for Host {
    fn set_cores(&mut self, cores: usize) {
        self.parked.set_cores(&self.own, cores);
        self.dimension.set_cores(cores);
    }

    fn run_on(&mut self, core: usize) {
        self.parked.run_on(&mut self.own, core);
        self.dimension.run_on(core);
    }
}

impl Host {
    /// Creates the host of a virtual machine. `space` is the virtual machine's address space in the
    /// hypervisor's kernel.
    pub fn new(config: &MmuConfig, dimension: Box<dyn Dimension>, space: SpaceId) -> Self {
        assert!(space.0 < NESTED, "there are fewer address spaces");
        let VirtualizationConfig { nested_tlb, host_walk_cache, .. } = config.virtualization;
        let host_walk_cache = host_walk_cache.unwrap_or(config.walk_cache);
        Self {
            own: CoreCaches {
                caches: WalkCaches::new(&host_walk_cache, dimension.cached_leaf_pages()),
                tlb: NestedTlb::new(nested_tlb),
            },
            parked: Parked::default(),
            loading: loading_of(dimension.as_ref()),
            unit: dimension.beside_use(),
            dimension,
            space,
            registered: None,
            has_moved_run: false,
            config: config.virtualization,
            is_hole: false,
            is_unfilled: false,
            located: None,
        }
    }

    /// Returns the host's translation of guest-physical addresses, for example nested page tables.
    pub fn dimension(&self) -> &dyn Dimension {
        self.dimension.as_ref()
    }

    /// Address space of the virtual machine in the hypervisor's kernel.
    pub fn space(&self) -> SpaceId {
        self.space
    }

    pub(crate) fn cache_slots(&self) -> usize {
        self.own.caches.slots()
    }

    /// True if the second-level TLB holds intermediate entries (gVA→gPA). They are useful only if
    /// gPA→hPA entries are cached, too.
    pub(crate) fn has_intermediate_entries(&self) -> bool {
        self.config.intermediate_entries && !matches!(self.own.tlb, NestedTlb::None)
    }

    /// True if a TLB entry with holes also contains the guest frame of the 2MB page.
    pub(super) fn has_guest_blocks_in_entries(&self) -> bool {
        self.config.guest_blocks_in_entries
    }

    /// True if the walker caches the gPA→hPA entry of a page that it translates for this purpose.
    fn caches(&self, purpose: LocatedFor) -> bool {
        self.config.nested_entries == NestedEntries::All || purpose != LocatedFor::Data
    }

    /// True if the last [`Self::reach`] hit the entry of a hole, so the host has a larger page
    /// around it.
    pub(super) fn is_hole_of_larger(&self) -> bool {
        self.is_hole
    }

    pub(crate) fn tlb_slots(&self) -> usize {
        if let NestedTlb::Apart(tlb) = &self.own.tlb { tlb.slots() } else { 0 }
    }

    /// Writes the register that holds the machine location of a run of guest memory. The walker
    /// then translates pages of the run without a nested walk.
    pub fn set_register(&mut self, run: RegisteredRun) {
        self.registered = Some(run);
    }

    /// Starts recording the machine frames of guest page-table nodes, for [`Self::take_located`].
    pub fn note_located(&mut self) {
        self.located = Some(Vec::new());
    }

    /// Moves the records of located guest page-table nodes to the end of `into`, as pairs of guest
    /// frame and machine frame.
    pub fn take_located(&mut self, into: &mut Vec<(GuestFrame, Frame)>) {
        if let Some(located) = &mut self.located {
            into.append(located);
        }
    }

    /// Carries out an operation on the host's tables.
    pub(crate) fn apply(&mut self, operation: &dyn FormatOperation) {
        self.dimension.apply(operation);
    }

    /// Updates the running core's walk caches after a write to GTPTCR, the register that selects
    /// the format of the host's page directories (G §3.7).
    pub(crate) fn on_control_write(&mut self, operation: &TableOperation) {
        self.own.caches.on_table_operation(operation);
    }

    /// Clears the register with the location of a run of guest memory if the host moves or unmaps a
    /// page of that run.
    pub(crate) fn on_truth(&mut self, truth: &Truth) {
        let moves = |run: RegisteredRun| run.is_moved_by(self.space, truth);
        if self.registered.is_some_and(moves) {
            self.registered = None;
            self.has_moved_run = true;
        }
    }

    /// Returns true if, since the last call, the host has moved or unmapped guest memory whose
    /// machine location was in the register. Such a change clears the register.
    pub fn take_moved_run(&mut self) -> bool {
        std::mem::take(&mut self.has_moved_run)
    }

    /// Invalidates all entries of a separate nested TLB, as INVEPT does. The walk caches and the
    /// host's unit lose only the entries that the shootdown covers.
    pub fn invalidate(&mut self, shootdown: Shootdown) {
        self.own.tlb.flush();
        if let Some(unit) = self.dimension.sideband_tlb_mut() {
            unit.invalidate(shootdown);
        }
        match shootdown {
            Shootdown::Page { space, page } | Shootdown::Large { space, page, .. } => {
                self.own.caches.invalidate(space, page);
            }
            Shootdown::Bitmap { .. } => {}
            Shootdown::Superpage { space, page, mode } => {
                self.own.caches.invalidate_range(space, page, mode.entry_pages());
            }
            Shootdown::Space { space } => self.own.caches.invalidate_space(space),
        }
    }

    pub(crate) fn flush(&mut self) {
        self.own.caches.flush();
        self.own.tlb.flush();
        if let Some(unit) = self.dimension.sideband_tlb_mut() {
            unit.flush();
        }
    }

    /// True if the hardware needs the host's bitmap for sub-page `index` of a page with this
    /// filter.
    pub(super) fn needs_bitmap(&self, filter: u8, index: usize) -> bool {
        needs_bitmap(self.loading, filter, index)
    }

    /// Translates a guest-physical page by the host's unit, such as a range TLB, without side
    /// effects. Returns the mapping around the page; `None` for a miss.
    pub(super) fn find_in_unit(&self, page: GuestFrame) -> Option<Reach> {
        if !self.unit.looked_up {
            return None;
        }
        self.dimension.sideband_tlb()?.find(self.space, host_page(page))
    }

    /// Ways in which the nested walker uses the host's unit, such as a range TLB.
    pub(super) fn unit(&self) -> SidebandUse {
        self.unit
    }

    fn look_up_unit(&mut self, page: GuestFrame, steps: &mut Steps) -> Option<Reach> {
        if !self.unit.looked_up {
            return None;
        }
        let unit = self.dimension.sideband_tlb_mut()?;
        unit.look_up(self.space, host_page(page), Purpose::HostPage, steps)
    }

    fn tag(&self) -> SpaceId {
        SpaceId(self.space.0 | NESTED)
    }

    /// Finds the host's mapping around a guest-physical page: in the host's unit, in a cached
    /// entry, or by a walk. The result may have holes; [`Self::locate`] resolves them and checks
    /// permissions.
    pub(super) fn reach(
        &mut self,
        (page, kind): (GuestFrame, AccessKind),
        purpose: LocatedFor,
        l2: &mut L2Tlb,
        steps: &mut Steps,
    ) -> Result<Reach, HostFault> {
        (self.is_hole, self.is_unfilled) = (false, false);
        if let Some(reach) = self.look_up_unit(page, steps) {
            return Ok(reach);
        }
        let (tag, wanted) = (self.tag(), host_page(page));
        if let Some((tlb, unit)) = self.own.tlb.get(l2) {
            if let Some((slot, entry)) = tlb.look_up(tag, wanted) {
                steps.then(Purpose::HostPage, Action::Hit { unit, slot });
                self.is_hole = entry.kind() == EntryKind::Hole;
                return Ok(reach_of(entry));
            }
            steps.then(Purpose::HostPage, Action::Miss { unit });
        }
        let write = kind == AccessKind::Write;
        let request = WalkRequest { space: self.space, page: wanted, write, walked: false };
        let mut walker =
            Walker { caches: &mut self.own.caches, l2, steps, host: None, is_host: true };
        let reach = self.dimension.walk(request, &mut walker).map_err(|_| fault(page, kind))?;
        self.is_unfilled = !self.caches(purpose);
        if !self.is_unfilled {
            self.fill(wanted, entry_of(&reach), l2, steps);
        }
        if self.unit.filled {
            self.fill_unit(request, &reach, l2, steps);
        }
        Ok(reach)
    }

    fn fill_unit(
        &mut self,
        request: WalkRequest,
        reach: &Reach,
        l2: &mut L2Tlb,
        steps: &mut Steps,
    ) {
        let mut walker =
            Walker { caches: &mut self.own.caches, l2, steps, host: None, is_host: true };
        if let Some(unit) = self.dimension.sideband_tlb_mut() {
            unit.fill_in_background(request, reach, &mut walker);
        }
    }

    /// Fills a gPA→hPA entry. If the TLB cannot hold entries of its size, the largest part that
    /// fits is filled. A perforated page that does not fit is not cached.
    fn fill(&mut self, page: VirtualPage, entry: L2Entry, l2: &mut L2Tlb, steps: &mut Steps) {
        let tag = self.tag();
        let Some((tlb, unit)) = self.own.tlb.get(l2) else { return };
        let mut filled = tlb.fill(tag, page, entry);
        for kind in [EntryKind::Page2M, EntryKind::Page4K] {
            if filled.is_none()
                && entry.kind() != EntryKind::Perforated
                && kind.size() < entry.kind().size()
            {
                let start = page.align_down(kind.size()).index_in(entry.kind().size());
                let frame = entry.frame().add(start as u64);
                let fragment = L2Entry::page(kind, frame, entry.allows(), 0);
                filled = tlb.fill(tag, page, fragment);
            }
        }
        if let Some(slot) = filled {
            steps.beside(Purpose::HostPage, Action::Fill { unit, slot });
        }
    }

    /// Fills the gPA→hPA entry that the last [`Self::reach`] found, unless that call filled it. The
    /// look-up after a hit of an intermediate entry (gVA→gPA) needs it.
    pub(super) fn fill_under_intermediate(
        &mut self,
        page: GuestFrame,
        reach: &Reach,
        l2: &mut L2Tlb,
        steps: &mut Steps,
    ) {
        if std::mem::take(&mut self.is_unfilled) {
            self.fill(host_page(page), entry_of(reach), l2, steps);
        }
    }

    /// Translates a guest-physical page to its machine frame. Resolves holes of the host and checks
    /// permissions.
    pub(crate) fn locate(
        &mut self,
        (page, kind): (GuestFrame, AccessKind),
        purpose: LocatedFor,
        l2: &mut L2Tlb,
        steps: &mut Steps,
    ) -> Result<Located, HostFault> {
        let reach = self.reach((page, kind), purpose, l2, steps)?;
        self.resolve_holes(&reach, (page, kind), purpose, l2, steps)
    }

    /// Translates a guest-physical page that the combined bitmap marks as a hole, but that is not a
    /// hole of the guest. It may be a hole of the host. Otherwise another address space made the
    /// hole, and the host's level-1 node of holes maps the page in place. So the walk goes to that
    /// node in both cases, without another read of the bitmap. No gPA→hPA entry is filled for the
    /// hole, because the combined entries cover the page (P §V).
    pub(super) fn locate_hole(
        &mut self,
        (page, kind): (GuestFrame, AccessKind),
        l2: &mut L2Tlb,
        steps: &mut Steps,
    ) -> Result<Located, HostFault> {
        let reach = self.reach((page, kind), LocatedFor::Data, l2, steps)?;
        let found = if self.needs_bitmap(reach.filter, page.index_in(PageSize::Size2M)) {
            self.translate_hole((page, kind), l2, steps)?
        } else {
            in_place(&reach, page)
        };
        self.permit(found, (page, kind), l2)
    }

    /// Translates a page inside `reach`: in place, or by a walk to the hole if the host's bitmap
    /// marks one. Checks permissions.
    pub(super) fn resolve_holes(
        &mut self,
        reach: &Reach,
        (page, kind): (GuestFrame, AccessKind),
        purpose: LocatedFor,
        l2: &mut L2Tlb,
        steps: &mut Steps,
    ) -> Result<Located, HostFault> {
        let mut found = in_place(reach, page);
        if self.needs_bitmap(reach.filter, page.index_in(PageSize::Size2M))
            && self.is_hole(reach, page, purpose, l2, steps)
        {
            found = self.translate_hole((page, kind), l2, steps)?;
            if self.caches(purpose) {
                let entry = L2Entry::page(EntryKind::Hole, found.frame, found.allows, 0);
                self.fill(host_page(page), entry, l2, steps);
            }
        }
        self.permit(found, (page, kind), l2)
    }

    /// Checks the access against the host's permissions. For a store, also sets the host's dirty
    /// bit.
    fn permit(
        &mut self,
        mut found: Located,
        (page, kind): (GuestFrame, AccessKind),
        l2: &mut L2Tlb,
    ) -> Result<Located, HostFault> {
        if !allow::permits(found.allows, kind) {
            return Err(fault(page, kind));
        }
        if kind == AccessKind::Write && found.allows & allow::DIRTY == 0 {
            self.mark(page, Mark::Dirty);
            let tag = self.tag();
            if let Some((tlb, _)) = self.own.tlb.get(l2)
                && let Some((slot, entry)) = tlb.look_up(tag, host_page(page))
            {
                tlb.mark_dirty(slot, entry);
            }
            found.allows |= allow::DIRTY;
        }
        Ok(found)
    }

    /// True if the host's bitmap marks the page as a hole. Looks up a cached bitmap entry; if there
    /// is none, reads the bitmap from memory and caches it if this purpose allows.
    fn is_hole(
        &mut self,
        reach: &Reach,
        page: GuestFrame,
        purpose: LocatedFor,
        l2: &mut L2Tlb,
        steps: &mut Steps,
    ) -> bool {
        let (tag, wanted) = (self.tag(), host_page(page));
        let index = page.index_in(PageSize::Size2M) as u64;
        let bit = index % SUBPAGES_PER_BITMAP_ENTRY;
        if let Some((tlb, unit)) = self.own.tlb.get(l2) {
            if let Some((slot, bits)) = tlb.look_up_bitmap(tag, wanted) {
                steps.then(Purpose::HostBitmap, Action::Hit { unit, slot });
                return bits >> bit & 1 != 0;
            }
            steps.then(Purpose::HostBitmap, Action::Miss { unit });
        }
        let bits = bitmap_bits(&self.read_bitmap(reach.frame, l2, steps), index);
        if self.caches(purpose) {
            self.fill(wanted, L2Entry::bitmap(bits), l2, steps);
        }
        bits >> bit & 1 != 0
    }

    /// Reads the hole bitmap of the host's 2MB page that starts at machine frame `block`.
    pub(super) fn read_bitmap(
        &mut self,
        block: Frame,
        l2: &mut L2Tlb,
        steps: &mut Steps,
    ) -> [u64; 8] {
        let page = VirtualPage::new(0); // The host's bitmap is found by the block alone.
        let request = WalkRequest { space: self.space, page, write: false, walked: true };
        let mut walker =
            Walker { caches: &mut self.own.caches, l2, steps, host: None, is_host: true };
        let holes = self.dimension.holes_mut().expect(HAS_HOLES);
        let bits = holes.read_bitmap(request, block, &mut walker);
        bits.expect("the machine's bitmaps lie at fixed addresses")
    }

    /// Walks to the 4KB translation of a hole in the host's page.
    fn translate_hole(
        &mut self,
        (page, kind): (GuestFrame, AccessKind),
        l2: &mut L2Tlb,
        steps: &mut Steps,
    ) -> Result<Located, HostFault> {
        let wanted = host_page(page);
        let write = kind == AccessKind::Write;
        let request = WalkRequest { space: self.space, page: wanted, write, walked: true };
        let mut walker =
            Walker { caches: &mut self.own.caches, l2, steps, host: None, is_host: true };
        let holes = self.dimension.holes_mut().expect(HAS_HOLES);
        let hole = holes.walk_hole(request, &mut walker).map_err(|_| fault(page, kind))?;
        Ok(Located { frame: hole.frame, allows: hole.allows })
    }

    /// Returns the machine frame of a guest page-table node or bitmap.
    pub(crate) fn locate_table(
        &mut self,
        page: GuestFrame,
        l2: &mut L2Tlb,
        steps: &mut Steps,
    ) -> Result<Frame, WalkFault> {
        if let Some(run) = self.registered
            && let Some(index) = page.number().checked_sub(run.first.number())
            && index < run.pages
        {
            return Ok(self.record_location(page, run.located.add(index)));
        }
        let wanted = (page, AccessKind::Write);
        let located = self.locate(wanted, LocatedFor::Table, l2, steps)?;
        Ok(self.record_location(page, located.frame))
    }

    /// Records the location of a guest page-table node after [`Self::note_located`]. Returns
    /// `frame`.
    #[inline]
    pub(crate) fn record_location(&mut self, page: GuestFrame, frame: Frame) -> Frame {
        if let Some(located) = &mut self.located {
            located.push((page, frame));
        }
        frame
    }

    /// Appends the cached entries of the running core to `out`.
    pub(crate) fn inspect(&self, core: usize, out: &mut Vec<CachedEntry>) {
        self.own.inspect(core, out);
    }

    /// Appends the cached entries of all cores but the running one to `out`.
    pub(crate) fn inspect_others(&self, out: &mut Vec<CachedEntry>) {
        self.parked.numbered().for_each(|(core, own)| own.inspect(core, out));
    }

    /// Translates a guest-physical page in software, without steps, cache fills or status bits.
    /// Returns the host's mapping around the page; `None` if there is none.
    pub fn look_at(&self, page: GuestFrame) -> Option<Reach> {
        self.dimension.look_at(self.space, host_page(page))
    }

    /// True if the host's entry that translates a guest-physical page says that it maps the page's
    /// whole block of 64KB.
    pub(crate) fn is_contiguous(&self, page: GuestFrame) -> bool {
        self.dimension.is_contiguous(self.space, host_page(page))
    }

    /// Sets status bits of the host's entries that translate a guest-physical page. Setting the
    /// dirty bit counts as a use of a leaf in the host's walk caches.
    pub fn mark(&mut self, page: GuestFrame, mark: Mark) {
        self.dimension.mark(self.space, host_page(page), mark);
        if mark == Mark::Dirty {
            self.own.caches.write_leaf(self.space, host_page(page));
        }
    }
}

/// Panic message: only tables with holes return a mapping with a hole filter.
pub(crate) const HAS_HOLES: &str = "a reach with holes comes of tables with holes";

/// Returns the policy by which the TLB loads hole bitmaps of this dimension's pages; the default
/// policy if it has no holes.
pub(crate) fn loading_of(dimension: &dyn Dimension) -> BitmapLoading {
    dimension.holes().map(Holes::bitmap_loading).unwrap_or_default()
}

/// True if hardware with this loading policy needs the bitmap for sub-page `index` of a page with
/// this filter.
pub(crate) fn needs_bitmap(loading: BitmapLoading, filter: u8, index: usize) -> bool {
    match loading {
        BitmapLoading::Filtered => filter >> (index / 64) & 1 != 0,
        _ => filter != 0,
    }
}

/// Returns the 32-bit bitmap entry that covers sub-page `index` of the 2MB page.
pub(crate) fn bitmap_bits(bitmap: &[u64; 8], index: u64) -> u32 {
    let shift = index % 64 / SUBPAGES_PER_BITMAP_ENTRY * SUBPAGES_PER_BITMAP_ENTRY;
    (bitmap[index as usize / 64] >> shift) as u32
}

/// Returns the 4KB translation of `page` by the mapping in `reach`, ignoring holes.
fn in_place(reach: &Reach, page: GuestFrame) -> Located {
    Located { frame: reach.frame_of(host_page(page)), allows: reach.allows }
}

fn fault(page: GuestFrame, kind: AccessKind) -> HostFault {
    HostFault { page, kind }
}

fn reach_of(entry: L2Entry) -> Reach {
    let filter = if entry.kind() == EntryKind::Perforated { entry.filter() } else { 0 };
    Reach { size: entry.kind().size(), frame: entry.frame(), allows: entry.allows(), filter }
}

pub(crate) fn entry_of(reach: &Reach) -> L2Entry {
    let kind = match (reach.size, reach.filter) {
        (PageSize::Size4K, _) => EntryKind::Page4K,
        (PageSize::Size2M, 0) => EntryKind::Page2M,
        (PageSize::Size2M, _) => EntryKind::Perforated,
        (PageSize::Size1G, _) => EntryKind::Page1G,
    };
    L2Entry::page(kind, reach.frame, reach.allows, reach.filter)
}
