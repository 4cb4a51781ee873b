//! The second dimension: from guest-physical addresses to the machine's physical addresses.

use perforate_types::{
    AccessKind, Action, FormatOperation, Frame, GuestFrame, PageSize, Purpose, Shootdown, SpaceId,
    Steps, TableOperation, Truth, Unit, VirtualPage,
};

use super::nested_tlb::NestedTlb;
use super::register::RegisteredRun;
use crate::capability::{BesideUse, Holes, PerCoreHardware};
use crate::tlb::{EntryKind, L2Entry, L2Tlb, NESTED, SUBPAGES_PER_BITMAP_ENTRY};
use crate::{
    BitmapLoading, CachedEntry, Dimension, HostFault, Mark, MmuConfig, NestedEntries, Parked,
    Reach, VirtualizationConfig, WalkCaches, WalkFault, WalkRequest, Walker, allow,
};

/// The page of the virtual machine's address space in the hypervisor's kernel: its number is the
/// guest frame number.
pub(crate) fn host_page(page: GuestFrame) -> VirtualPage {
    VirtualPage::new(page.number())
}

/// A frame number of the guest's kernel and tables as a guest frame.
pub(crate) fn guest_frame(frame: Frame) -> GuestFrame {
    GuestFrame::new(frame.number())
}

/// Location of a page in the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Located {
    pub(crate) frame: Frame,
    pub(crate) allows: u8,
}

/// Purpose for which a guest-physical page is located.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LocatedFor {
    /// A read of the guest's tables or bitmaps.
    Table,
    /// Data whose translation from the guest-virtual address is cached.
    Data,
    /// Data under an intermediate entry, which needs a gPA→hPA entry.
    Intermediate,
}

/// The host's side of the nested walker: its tables, walk caches, and TLB of guest-physical
/// addresses.
pub struct Host {
    dimension: Box<dyn Dimension>,
    loading: BitmapLoading,
    /// Uses of the host's own unit, which is looked up before cached entries.
    unit: BesideUse,
    /// Hardware of the running core.
    own: CoreCaches,
    parked: Parked<CoreCaches>,
    /// Address space of the virtual machine in the host's kernel.
    space: SpaceId,
    registered: Option<RegisteredRun>,
    /// True if the registered run has moved since [`Self::take_moved_run`].
    has_moved_run: bool,
    config: VirtualizationConfig,
    /// True if the last reach was the cached entry of a hole: 4KB of a larger page.
    is_hole: bool,
    /// True if the last reach is that of a walk that filled no entry.
    is_unfilled: bool,
    /// Guest tables located since the last [`Self::take_located`], if a checker records these.
    located: Option<Vec<(GuestFrame, Frame)>>,
}

/// Hardware that exists once per core.
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
    /// A host for the virtual machine whose address space is `space`.
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

    /// The host's tables and own units.
    pub fn dimension(&self) -> &dyn Dimension {
        self.dimension.as_ref()
    }

    /// The virtual machine's address space in the host's kernel.
    pub fn space(&self) -> SpaceId {
        self.space
    }

    pub(crate) fn cache_slots(&self) -> usize {
        self.own.caches.slots()
    }

    /// True if the TLB holds intermediate entries, which need a place for gPA→hPA entries.
    pub(crate) fn has_intermediate_entries(&self) -> bool {
        self.config.intermediate_entries && !matches!(self.own.tlb, NestedTlb::None)
    }

    /// True if an entry of a page with holes also names the guest's block.
    pub(super) fn has_guest_blocks_in_entries(&self) -> bool {
        self.config.guest_blocks_in_entries
    }

    /// True if a page located for this purpose gets a gPA→hPA entry.
    fn caches(&self, purpose: LocatedFor) -> bool {
        self.config.nested_entries == NestedEntries::All || purpose != LocatedFor::Data
    }

    /// True if the last reach was the cached entry of a hole: the host has a larger page around it.
    pub(super) fn is_hole_of_larger(&self) -> bool {
        self.is_hole
    }

    pub(crate) fn tlb_slots(&self) -> usize {
        if let NestedTlb::Apart(tlb) = &self.own.tlb { tlb.slots() } else { 0 }
    }

    /// Sets the register with the location of a run of guest memory.
    pub fn set_register(&mut self, run: RegisteredRun) {
        self.registered = Some(run);
    }

    /// Starts recording the locations of guest tables.
    pub fn note_located(&mut self) {
        self.located = Some(Vec::new());
    }

    /// Moves the locations of guest tables recorded since the last call to the end of `into`.
    pub fn take_located(&mut self, into: &mut Vec<(GuestFrame, Frame)>) {
        if let Some(located) = &mut self.located {
            into.append(located);
        }
    }

    /// Carries out an operation on the host's tables.
    pub(crate) fn apply(&mut self, operation: &dyn FormatOperation) {
        self.dimension.apply(operation);
    }

    /// Updates the running core's walk caches after a write to a control register.
    pub(crate) fn on_control_write(&mut self, operation: &TableOperation) {
        self.own.caches.on_table_operation(operation);
    }

    /// Clears the register if the mapping of the registered run changes.
    pub(crate) fn on_truth(&mut self, truth: &Truth) {
        let moves = |run: RegisteredRun| run.is_moved_by(self.space, truth);
        if self.registered.is_some_and(moves) {
            self.registered = None;
            self.has_moved_run = true;
        }
    }

    /// True if the mapping of the registered run changed since the last call. A change clears the
    /// register.
    pub fn take_moved_run(&mut self) -> bool {
        std::mem::take(&mut self.has_moved_run)
    }

    /// Invalidates cached gPA→hPA entries, as INVEPT does. Walk caches lose only the entries of the
    /// pages that the shootdown covers.
    pub fn invalidate(&mut self, shootdown: Shootdown) {
        self.own.tlb.flush();
        if let Some(unit) = self.dimension.beside_l2_mut() {
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
        if let Some(unit) = self.dimension.beside_l2_mut() {
            unit.flush();
        }
    }

    /// True if the hardware needs the bitmap for this sub-page of a page with this filter.
    pub(super) fn needs_bitmap(&self, filter: u8, index: usize) -> bool {
        needs_bitmap(self.loading, filter, index)
    }

    /// The reach around a guest-physical page that the host's unit translates. Has no side effects.
    pub(super) fn find_in_unit(&self, page: GuestFrame) -> Option<Reach> {
        if !self.unit.looked_up {
            return None;
        }
        self.dimension.beside_l2()?.find(self.space, host_page(page))
    }

    /// Uses of the host's own unit.
    pub(super) fn unit(&self) -> BesideUse {
        self.unit
    }

    fn look_up_unit(&mut self, page: GuestFrame, steps: &mut Steps) -> Option<Reach> {
        if !self.unit.looked_up {
            return None;
        }
        let unit = self.dimension.beside_l2_mut()?;
        unit.look_up(self.space, host_page(page), Purpose::HostPage, steps)
    }

    fn tag(&self) -> SpaceId {
        SpaceId(self.space.0 | NESTED)
    }

    /// The reach around a guest-physical page: from the host's unit, a cached entry, or a walk.
    /// [`Self::locate`] resolves holes and permissions of single sub-pages.
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
        if let Some(unit) = self.dimension.beside_l2_mut() {
            unit.fill_in_background(request, reach, &mut walker);
        }
    }

    /// Fills a gPA→hPA entry. If the structure cannot hold it, the largest part that fits is
    /// filled; a perforated page that does not fit is not cached.
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

    /// Fills the gPA→hPA entry of the last reach, which is under an intermediate entry, unless it
    /// is cached already.
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

    /// Location of a guest-physical page and the accesses that it allows, with holes resolved.
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

    /// Location of a guest-physical page that the united bitmap marks as a hole but that is no hole
    /// of the guest. Either it is a hole of the host, so the bitmap is not read again. Or another
    /// address space punched the sub-page, and the host's hole node maps it in place. No entry is
    /// filled, as the united entries cover the page (P §V).
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

    /// The 4KB translation of a page inside a reach, with holes resolved.
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

    /// Checks the access against the host's permissions; a store also sets the host's dirty bit.
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

    /// True if the host's bitmap, from a cached entry or from memory, marks the sub-page as a hole.
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

    /// Reads the hole bitmap of a block of machine frames.
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

    /// Locates a table of the guest in the machine.
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

    /// Records the location of a guest table, if a checker asked for it.
    #[inline]
    pub(crate) fn record_location(&mut self, page: GuestFrame, frame: Frame) -> Frame {
        if let Some(located) = &mut self.located {
            located.push((page, frame));
        }
        frame
    }

    /// Lists the cached entries of the running core.
    pub(crate) fn inspect(&self, core: usize, out: &mut Vec<CachedEntry>) {
        self.own.inspect(core, out);
    }

    /// Lists the cached entries of the other cores.
    pub(crate) fn inspect_others(&self, out: &mut Vec<CachedEntry>) {
        self.parked.numbered().for_each(|(core, own)| own.inspect(core, out));
    }

    /// The host's reach around a page, without hardware effects.
    pub fn look_at(&self, page: GuestFrame) -> Option<Reach> {
        self.dimension.look_at(self.space, host_page(page))
    }

    /// Sets bits of the host's entries that translate a page, and of leaves in the host's walk
    /// caches.
    pub fn mark(&mut self, page: GuestFrame, mark: Mark) {
        self.dimension.mark(self.space, host_page(page), mark);
        if mark == Mark::Dirty {
            self.own.caches.write_leaf(self.space, host_page(page));
        }
    }
}

/// Panic message: only tables with holes return a reach with a filter.
pub(crate) const HAS_HOLES: &str = "a reach with holes comes of tables with holes";

/// Bitmap loading policy of a dimension; the default if it has no holes.
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

/// The 32-bit bitmap entry that covers sub-page `index`.
pub(crate) fn bitmap_bits(bitmap: &[u64; 8], index: u64) -> u32 {
    let shift = index % 64 / SUBPAGES_PER_BITMAP_ENTRY * SUBPAGES_PER_BITMAP_ENTRY;
    (bitmap[index as usize / 64] >> shift) as u32
}

/// The 4KB translation of `page` in place, ignoring holes.
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
