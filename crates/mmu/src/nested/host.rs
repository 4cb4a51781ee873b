//! The second dimension: guest-physical addresses to the machine's.

use perforate_types::{
    AccessKind, Action, FormatOperation, Frame, GuestFrame, PageSize, Purpose, Shootdown, SpaceId,
    Steps, TableOperation, Truth, Unit, VirtualPage,
};

use super::nested_tlb::NestedTlb;
use super::register::RegisteredRun;
use crate::capability::{BesideUse, Holes, OfCores};
use crate::tlb::{EntryKind, L2Entry, L2Tlb, NESTED, SUBPAGES_PER_BITMAP_ENTRY};
use crate::{
    BitmapLoading, CachedEntry, Dimension, HostFault, Mark, MmuConfig, NestedEntries, Parked,
    Reach, VirtualizationConfig, WalkCaches, WalkFault, WalkRequest, Walker, allow,
};

/// A guest's memory as its hypervisor's kernel maps it: the page number in the virtual machine's
/// address space is the guest's frame number.
pub(crate) fn host_page(page: GuestFrame) -> VirtualPage {
    VirtualPage::new(page.number())
}

/// A frame as a guest's kernel and tables name it, which the guest takes for the machine's.
pub(crate) fn guest_frame(frame: Frame) -> GuestFrame {
    GuestFrame::new(frame.number())
}

/// Where a guest-physical page lies.
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

/// The host's side of the nested walker: its tables, walk caches, and the TLB of guest-physical
/// addresses.
pub struct Host {
    dimension: Box<dyn Dimension>,
    loading: BitmapLoading,
    /// The use made of a unit of the host's, which is asked before cached entries.
    unit: BesideUse,
    /// Of the core at work.
    own: OfCore,
    parked: Parked<OfCore>,
    /// The virtual machine in the host's kernel.
    space: SpaceId,
    registered: Option<RegisteredRun>,
    /// True if the registered run has moved since [`Self::take_moved_run`].
    has_moved_run: bool,
    config: VirtualizationConfig,
    /// True if the last reach was the cached entry of a hole: 4KB of a larger page.
    is_hole: bool,
    /// True if the last reach is that of a walk that filled no entry.
    is_unfilled: bool,
    /// Tables located since the last [`Self::take_located`], for whoever checks them.
    located: Option<Vec<(GuestFrame, Frame)>>,
}

/// What each core has for itself.
#[derive(Clone)]
struct OfCore {
    caches: WalkCaches,
    tlb: NestedTlb,
}

impl OfCore {
    fn inspect(&self, core: usize, out: &mut Vec<CachedEntry>) {
        self.caches.inspect((core, Unit::HostWalkCache), out);
        if let NestedTlb::Apart(tlb) = &self.tlb {
            tlb.inspect((core, Unit::NestedTlb), out);
        }
    }
}

impl OfCores for Host {
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
    /// A host whose virtual machine is the address space `space`.
    pub fn new(config: &MmuConfig, dimension: Box<dyn Dimension>, space: SpaceId) -> Self {
        assert!(space.0 < NESTED, "there are fewer address spaces");
        let VirtualizationConfig { nested_tlb, host_walk_cache, .. } = config.virtualization;
        let host_walk_cache = host_walk_cache.unwrap_or(config.walk_cache);
        Self {
            own: OfCore {
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

    /// The host's tables, and what it has besides.
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

    /// True if the last reach was the cached entry of a hole: the host has a larger page there.
    pub(super) fn is_hole_of_larger(&self) -> bool {
        self.is_hole
    }

    pub(crate) fn tlb_slots(&self) -> usize {
        if let NestedTlb::Apart(tlb) = &self.own.tlb { tlb.slots() } else { 0 }
    }

    /// Sets the register that says where a run of guest memory lies.
    pub fn set_register(&mut self, run: RegisteredRun) {
        self.registered = Some(run);
    }

    /// From now on notes where guest tables were located.
    pub fn note_located(&mut self) {
        self.located = Some(Vec::new());
    }

    /// Adds where guest tables were located since this was asked last.
    pub fn take_located(&mut self, into: &mut Vec<(GuestFrame, Frame)>) {
        if let Some(located) = &mut self.located {
            into.append(located);
        }
    }

    /// Carries out an operation on the host's tables.
    pub(crate) fn apply(&mut self, operation: &dyn FormatOperation) {
        self.dimension.apply(operation);
    }

    /// The walk caches of the core at work hear of a control register.
    pub(crate) fn hear_control(&mut self, operation: &TableOperation) {
        self.own.caches.hear(operation);
    }

    /// Clears the register where pages of the registered run are mapped anew.
    pub(crate) fn hear(&mut self, truth: &Truth) {
        let moves = |run: RegisteredRun| run.is_moved_by(self.space, truth);
        if self.registered.is_some_and(moves) {
            self.registered = None;
            self.has_moved_run = true;
        }
    }

    /// True once after pages of the registered run were mapped anew, which cleared the register.
    pub fn take_moved_run(&mut self) -> bool {
        std::mem::take(&mut self.has_moved_run)
    }

    /// Forgets what is cached of guest-physical addresses, as INVEPT does; of a single page where
    /// the tables above it stay as they are.
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

    /// Whether the hardware asks the bitmap about this sub-page of a page with this filter.
    pub(super) fn asks(&self, filter: u8, index: usize) -> bool {
        asks(self.loading, filter, index)
    }

    /// The reach around a guest-physical page that a unit of the host's translates, asked without
    /// effect.
    pub(super) fn unit_finds(&self, page: GuestFrame) -> Option<Reach> {
        if !self.unit.looked_up {
            return None;
        }
        self.dimension.beside_l2()?.find(self.space, host_page(page))
    }

    /// The use made of a unit of the host's.
    pub(super) fn unit(&self) -> BesideUse {
        self.unit
    }

    fn through_unit(&mut self, page: GuestFrame, steps: &mut Steps) -> Option<Reach> {
        if !self.unit.looked_up {
            return None;
        }
        let unit = self.dimension.beside_l2_mut()?;
        unit.look_up(self.space, host_page(page), Purpose::HostPage, steps)
    }

    fn tag(&self) -> SpaceId {
        SpaceId(self.space.0 | NESTED)
    }

    /// The reach around a guest-physical page: from the unit beside, a cached entry, or a walk. Holes
    /// and permissions of single sub-pages are left to [`Self::locate`].
    pub(super) fn reach(
        &mut self,
        (page, kind): (GuestFrame, AccessKind),
        purpose: LocatedFor,
        l2: &mut L2Tlb,
        steps: &mut Steps,
    ) -> Result<Reach, HostFault> {
        (self.is_hole, self.is_unfilled) = (false, false);
        if let Some(reach) = self.through_unit(page, steps) {
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

    /// Fills a gPA→hPA entry. Of one that the structure cannot hold it holds the largest part that
    /// it can; a perforated page without a place is not held at all.
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

    /// Fills the gPA→hPA entry of the last reach, which turned out to lie under an intermediate entry, unless
    /// there is one.
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

    /// Where a guest-physical page lies and what may be done with it, holes settled.
    pub(crate) fn locate(
        &mut self,
        (page, kind): (GuestFrame, AccessKind),
        purpose: LocatedFor,
        l2: &mut L2Tlb,
        steps: &mut Steps,
    ) -> Result<Located, HostFault> {
        let reach = self.reach((page, kind), purpose, l2, steps)?;
        self.settle(&reach, (page, kind), purpose, l2, steps)
    }

    /// The place of a guest-physical page that the united bitmap calls a hole and that is no hole of the
    /// guest. Such a page is a hole of the host, so that the bitmap is not read again; or another address
    /// space punched the sub-page, and the host's hole node maps it in place. No entry is filled, as the
    /// united entries cover the page (P §V).
    pub(super) fn locate_hole(
        &mut self,
        (page, kind): (GuestFrame, AccessKind),
        l2: &mut L2Tlb,
        steps: &mut Steps,
    ) -> Result<Located, HostFault> {
        let reach = self.reach((page, kind), LocatedFor::Data, l2, steps)?;
        let found = if self.asks(reach.filter, page.index_in(PageSize::Size2M)) {
            self.through_hole((page, kind), l2, steps)?
        } else {
            in_place(&reach, page)
        };
        self.permit(found, (page, kind), l2)
    }

    /// The 4KB translation of a page inside a reach.
    pub(super) fn settle(
        &mut self,
        reach: &Reach,
        (page, kind): (GuestFrame, AccessKind),
        purpose: LocatedFor,
        l2: &mut L2Tlb,
        steps: &mut Steps,
    ) -> Result<Located, HostFault> {
        let mut found = in_place(reach, page);
        if self.asks(reach.filter, page.index_in(PageSize::Size2M))
            && self.is_hole(reach, page, purpose, l2, steps)
        {
            found = self.through_hole((page, kind), l2, steps)?;
            if self.caches(purpose) {
                let entry = L2Entry::page(EntryKind::Hole, found.frame, found.allows, 0);
                self.fill(host_page(page), entry, l2, steps);
            }
        }
        self.permit(found, (page, kind), l2)
    }

    /// Checks the access against what the host allows, and sets its dirty bit with a store.
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

    /// Asks the host's bitmap, from a cached entry or from memory.
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

    /// Reads the bitmap of a block of the machine.
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

    /// Walks to the 4KB translation of a hole.
    fn through_hole(
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

    /// Where a table of the guest lies.
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
            return Ok(self.noted(page, run.located.add(index)));
        }
        let wanted = (page, AccessKind::Write);
        let located = self.locate(wanted, LocatedFor::Table, l2, steps)?;
        Ok(self.noted(page, located.frame))
    }

    /// Notes where a table of the guest was found, for whoever checks it.
    #[inline]
    pub(crate) fn noted(&mut self, page: GuestFrame, frame: Frame) -> Frame {
        if let Some(located) = &mut self.located {
            located.push((page, frame));
        }
        frame
    }

    /// Lists the entries in the caches of the core at work.
    pub(crate) fn inspect(&self, core: usize, out: &mut Vec<CachedEntry>) {
        self.own.inspect(core, out);
    }

    /// Lists the entries in the caches of the other cores.
    pub(crate) fn inspect_others(&self, out: &mut Vec<CachedEntry>) {
        self.parked.numbered().for_each(|(core, own)| own.inspect(core, out));
    }

    /// The host's reach around a page, found without hardware.
    pub fn look_at(&self, page: GuestFrame) -> Option<Reach> {
        self.dimension.look_at(self.space, host_page(page))
    }

    /// Sets bits of the host's entries that translate a page, and of their copies in its walk caches.
    pub fn mark(&mut self, page: GuestFrame, mark: Mark) {
        self.dimension.mark(self.space, host_page(page), mark);
        if mark == Mark::Dirty {
            self.own.caches.write_leaf(self.space, host_page(page));
        }
    }
}

/// A reach with a filter is of such a dimension only.
pub(crate) const HAS_HOLES: &str = "a reach with holes comes of tables with holes";

/// How hardware loads the bitmaps of this dimension; any way does where there are no holes.
pub(crate) fn loading_of(dimension: &dyn Dimension) -> BitmapLoading {
    dimension.holes().map(Holes::bitmap_loading).unwrap_or_default()
}

/// Whether hardware that loads bitmaps in this way asks the bitmap about a sub-page of a page with
/// this filter.
pub(crate) fn asks(loading: BitmapLoading, filter: u8, index: usize) -> bool {
    match loading {
        BitmapLoading::Filtered => filter >> (index / 64) & 1 != 0,
        _ => filter != 0,
    }
}

/// The 32 bits of bitmap around sub-page `index`.
pub(crate) fn bitmap_bits(bitmap: &[u64; 8], index: u64) -> u32 {
    let shift = index % 64 / SUBPAGES_PER_BITMAP_ENTRY * SUBPAGES_PER_BITMAP_ENTRY;
    (bitmap[index as usize / 64] >> shift) as u32
}

/// The 4KB of a reach, holes left aside.
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
