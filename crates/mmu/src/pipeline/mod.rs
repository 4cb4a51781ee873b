//! The translation loop: first-level TLB, second-level TLB, bitmap, walk.

mod cores;
mod holes;
mod intermediate;
mod shootdown;
mod sideband;

use std::ops::Range;

use perforate_types::{
    AccessKind, Action, Counters, Frame, GuestFrame, PageSize, PhysicalAddress, Purpose, SpaceId,
    Steps, Unit, VirtualAddress, VirtualPage,
};

use crate::capability::{SidebandCounters, SidebandTlb, SidebandUse};
use crate::coalescing::Coalescing;
use crate::counters::MmuCounters;
use crate::nested::{Host, entry_of, loading_of};
use crate::tlb::{EntryKind, L1Hit, L1Tlb, L2Contents, L2Entry, L2Tlb, WalkedPages};
use crate::{
    BitmapLoading, BitmapUpdates, CachedEntry, ConfigError, Dimension, Mark, MmuConfig, PageFault,
    Parked, Reach, WalkCaches, WalkRequest, Walker, allow,
};

/// Source of a translation: a first-level hit, or a case of P §IV.D. Case 7, in which all look-ups
/// miss, is one of the others with [`Translated::walked`] set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Case {
    /// First-level TLB hit.
    FirstLevel,
    /// A unit in parallel with the first-level TLB, such as a direct segment, translates the page.
    BesideFirstLevel,
    /// A unit in parallel with the second-level TLB, such as a range TLB, translates the page.
    Beside,
    /// Case 1: an ordinary page, or the cached translation of a hole.
    Regular,
    /// Case 1: a guest's large page in the TLB, combined with a 4KB page of its host (P §V).
    Intermediate,
    /// Case 3: like `Intermediate`, but the sub-page needs the guest's bitmap, which the TLB holds.
    IntermediateBitmap,
    /// Case 5: like `Intermediate`, but the guest's bitmap was read from memory.
    IntermediateRead,
    /// Case 2: a perforated page whose filter shows that the 256KB around the address have no hole.
    Filtered,
    /// Case 3: the cached bitmap shows that the sub-page is not a hole.
    BitmapInPlace,
    /// Case 4: the cached bitmap shows that the sub-page is a hole. A walk goes through the shadow
    /// entry.
    BitmapHole,
    /// Case 5: like `BitmapInPlace`, but the bitmap was read from memory.
    ReadInPlace,
    /// Case 6: like `BitmapHole`, but the bitmap was read from memory.
    ReadHole,
}

/// Result of a successful translation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Translated {
    /// Physical address of the access.
    pub physical: PhysicalAddress,
    /// First-level slot that now holds the translation. A unit in parallel with the first level has
    /// an extra slot, after those of the TLB.
    pub slot: u32,
    /// Source of the translation.
    pub case: Case,
    /// True if a walk found the page (case 7).
    pub walked: bool,
}

/// The MMU of one core, or of several cores that share page tables. One core runs at a time
/// ([`Mmu::run_on`]).
pub struct Mmu {
    /// TLBs and walk caches of the running core.
    own: CoreUnits,
    parked: Parked<CoreUnits>,
    cores: usize,
    running_core: usize,
    dimension: Box<dyn Dimension>,
    loading: BitmapLoading,
    bitmap_updates: BitmapUpdates,
    /// True if the second-level TLB holds intermediate entries: guests' large pages over 4KB host
    /// pages (P §V).
    has_intermediate: bool,
    coalescing: Option<Coalescing>,
    /// Ways in which a unit in parallel with a TLB is used, such as a range TLB.
    unit: SidebandUse,
    /// True if a walk may fill more than an entry for the leaf's page: a unit, an intermediate
    /// entry, or a run.
    fills_specially: bool,
    tagged: bool,
    /// Pages that the last walk translated, for counts of compulsory misses.
    translated: WalkedRange,
    /// Counts of all cores together, since the last reset of the counters.
    counters: MmuCounters,
}

/// TLBs and walk caches that exist once per core.
#[derive(Clone)]
struct CoreUnits {
    data: L1Tlb,
    instruction: L1Tlb,
    l2: L2Tlb,
    caches: WalkCaches,
    /// Pages that walks of this core have translated; a miss of any other page is compulsory.
    walked: WalkedPages,
    /// The address space that runs on the core.
    space: SpaceId,
}

impl CoreUnits {
    /// Returns the first-level TLB for accesses of this kind, and its unit in steps.
    #[inline]
    fn first_level(&mut self, kind: AccessKind) -> (&mut L1Tlb, Unit) {
        match kind {
            AccessKind::Fetch => (&mut self.instruction, Unit::L1InstructionTlb),
            _ => (&mut self.data, Unit::L1DataTlb),
        }
    }

    fn inspect(&self, core: usize, out: &mut Vec<CachedEntry>) {
        self.data.inspect((core, Unit::L1DataTlb), out);
        self.instruction.inspect((core, Unit::L1InstructionTlb), out);
        self.l2.inspect((core, Unit::L2Tlb), out);
        self.caches.inspect((core, Unit::WalkCache), out);
    }
}

/// Pages that a walk translated.
#[derive(Clone)]
enum WalkedRange {
    /// All 4KB pages in the page of this size around the requested page.
    Page(PageSize),
    /// Numbers of the 4KB pages in a run of contiguous pages.
    Run(Range<u64>),
}

/// The access that is being translated.
#[derive(Clone, Copy)]
struct Request {
    kind: AccessKind,
    page: VirtualPage,
}

impl Request {
    /// Numbers of the 4KB pages in the page of `size` around the access.
    #[inline]
    fn around(self, size: PageSize) -> Range<u64> {
        let first = self.page.align_down(size).number();
        first..first + size.pages()
    }
}

/// Result of translating an access: frame of the 4KB page, first-level slot, and source.
struct Found {
    frame: Frame,
    slot: u32,
    case: Case,
}

impl Found {
    #[inline]
    fn first_level(hit: &L1Hit) -> Self {
        Self { frame: hit.frame, slot: hit.slot, case: Case::FirstLevel }
    }
}

/// Physical address of the virtual `address`, whose page is in `frame`.
#[inline]
fn physical(frame: Frame, address: VirtualAddress) -> PhysicalAddress {
    frame.address().add(address.offset(PageSize::Size4K))
}

impl Mmu {
    /// Creates an MMU with empty TLBs. After TLB misses, `dimension` translates, for example by
    /// walking page tables.
    ///
    /// # Errors
    /// [`ConfigError`] if a geometry is impossible.
    pub fn new(config: &MmuConfig, dimension: Box<dyn Dimension>) -> Result<Self, ConfigError> {
        config.validate()?;
        let unit = dimension.beside_use();
        let has_intermediate = dimension.host().is_some_and(Host::has_intermediate_entries);
        let coalescing = config.tlb.l2_coalescing;
        Ok(Self {
            own: CoreUnits {
                data: L1Tlb::new(config.l1(false), config.tlb.l1_window()),
                instruction: L1Tlb::new(config.l1(true), config.tlb.l1_window()),
                l2: L2Tlb::new(&config.tlb),
                caches: WalkCaches::new(&config.walk_cache, dimension.cached_leaf_pages()),
                walked: WalkedPages::default(),
                space: SpaceId::default(),
            },
            parked: Parked::default(),
            cores: 1,
            running_core: 0,
            loading: loading_of(dimension.as_ref()),
            bitmap_updates: config.tlb.bitmap_updates,
            has_intermediate,
            fills_specially: unit.filled
                || unit.replaces_l2
                || has_intermediate
                || coalescing.is_some(),
            unit,
            dimension,
            coalescing,
            tagged: config.tlb.tagged,
            translated: WalkedRange::Page(PageSize::Size4K),
            counters: MmuCounters::default(),
        })
    }

    /// Number of slots of each unit, indexed by `unit as usize`, for the timing model.
    pub fn slots(&self) -> [usize; Unit::COUNT] {
        // A unit in parallel with the first-level TLB gets one extra slot, which is always ready.
        let more = usize::from(self.unit.beside_l1);
        let [data, instruction] =
            [&self.own.data, &self.own.instruction].map(|tlb| tlb.slots() + more);
        let host = self.dimension.host();
        let host_caches = host.map_or(0, Host::cache_slots);
        let nested_tlb = host.map_or(0, Host::tlb_slots);
        let host_unit = host.and_then(|host| host.dimension().sideband_tlb());
        let [unit, host_unit] = [self.dimension.sideband_tlb(), host_unit]
            .map(|unit| unit.map_or(0, SidebandTlb::slots));
        let (l2, caches) = (self.own.l2.slots(), self.own.caches.slots());
        [data, instruction, l2, caches, host_caches, nested_tlb, unit, host_unit]
    }

    /// Translates an access of the running address space. `steps` is cleared first and then
    /// receives the steps; it stays empty for a first-level hit.
    ///
    /// # Errors
    /// [`PageFault`] if the access cannot complete; `steps` is then meaningless.
    #[inline]
    pub fn translate(
        &mut self,
        kind: AccessKind,
        address: VirtualAddress,
        steps: &mut Steps,
    ) -> Result<Translated, PageFault> {
        steps.clear();
        let page = address.page();
        let fetch = kind == AccessKind::Fetch;
        let tlb = if fetch { &mut self.own.instruction } else { &mut self.own.data };
        match tlb.look_up(self.own.space, page) {
            Some(hit) if hit.allows & allow::needed(kind) == allow::needed(kind) => {
                self.count_access(kind);
                let Found { frame, slot, case } = Found::first_level(&hit);
                Ok(Translated { physical: physical(frame, address), slot, case, walked: false })
            }
            hit => self.translate_further(kind, address, hit, steps),
        }
    }

    #[inline]
    fn count_access(&mut self, kind: AccessKind) {
        *if kind == AccessKind::Fetch {
            &mut self.counters.l1_instruction_accesses
        } else {
            &mut self.counters.l1_accesses
        } += 1;
    }

    /// Translates an access that a first-level hit does not complete. The usual callees are inlined,
    /// because returning results through memory would cost more than the work itself; the others
    /// are not, so that there are registers for the usual ones.
    #[cold]
    #[inline(never)]
    fn translate_further(
        &mut self,
        kind: AccessKind,
        address: VirtualAddress,
        hit: Option<L1Hit>,
        steps: &mut Steps,
    ) -> Result<Translated, PageFault> {
        let request = Request { kind, page: address.page() };
        if (hit.is_some() || self.unit.beside_l1)
            && let Some(found) = self.translate_beside_l1(request, hit)
        {
            return found.map(|found| self.complete(request, address, found, false));
        }
        // A faulting access is retried once the page is mapped, and is counted then.
        let (found, walked) = match self.beyond_l1(request, steps) {
            Ok(found) => found,
            Err(PageFault::Protection) => return Err(self.blame(request)),
            Err(fault) => return Err(fault),
        };
        self.counters.add(found.case, walked, steps);
        if walked {
            self.count_first_walk(request);
        }
        *if kind == AccessKind::Fetch {
            &mut self.counters.l1_instruction_misses
        } else {
            &mut self.counters.l1_misses
        } += 1;
        Ok(self.complete(request, address, found, walked))
    }

    /// Translates an access whose first-level hit does not allow it, or that a unit in parallel
    /// with the first level translates. `None` if the access has to go on to the second level.
    #[cold]
    #[inline(never)]
    fn translate_beside_l1(
        &mut self,
        request: Request,
        hit: Option<L1Hit>,
    ) -> Option<Result<Found, PageFault>> {
        let found = match hit {
            Some(hit) => self.first_store(request, &hit),
            None => {
                let reach = self.find_in_unit(request)?;
                self.translate_by_unit_beside_l1(request, &reach)
            }
        };
        Some(found.map_err(|_| self.blame(request)))
    }

    /// Counts a completed access.
    #[inline(always)]
    fn complete(
        &mut self,
        request: Request,
        address: VirtualAddress,
        found: Found,
        walked: bool,
    ) -> Translated {
        self.count_access(request.kind);
        let Found { frame, slot, case } = found;
        Translated { physical: physical(frame, address), slot, case, walked }
    }

    /// Counts the walk if it is the first to the page: in the run (a compulsory miss), or since the
    /// reset of the counters.
    #[inline(always)]
    fn count_first_walk(&mut self, request: Request) {
        if !self.own.walked.is_known(self.own.space, request.page.number()) {
            self.note_walk(request);
        }
    }

    #[cold]
    #[inline(never)]
    fn note_walk(&mut self, request: Request) {
        let translated = match &self.translated {
            WalkedRange::Page(size) => request.around(*size),
            WalkedRange::Run(run) => run.clone(),
        };
        let own = &mut self.own;
        let first = own.walked.walk(own.space, request.page.number(), translated);
        self.counters.l2_compulsory_misses += u64::from(first.in_run);
        self.counters.l2_first_misses += u64::from(first.in_measured_part);
    }

    /// Handles a first-level hit whose entry does not allow the access. For the first store to a
    /// clean page, sets the dirty bit, which takes no time, as in the papers' simulators. Otherwise
    /// returns a page fault.
    fn first_store(&mut self, request: Request, hit: &L1Hit) -> Result<Found, PageFault> {
        if request.kind != AccessKind::Write || hit.allows & allow::WRITE == 0 {
            return Err(PageFault::Protection);
        }
        self.mark_dirty(request.page);
        self.own.data.mark_dirty(self.own.space, request.page);
        // An entry with holes is not marked dirty in the second level, since the store may have
        // gone to a hole.
        if let Some((slot, entry)) = self.own.l2.look_up(self.own.space, request.page)
            && !entry.has_holes()
        {
            self.mark_dirty_in_l2(request.page, slot, entry);
        }
        Ok(Found::first_level(hit))
    }

    /// Sets the dirty bit of the second-level entry that a look-up or fill returned. The entry of a
    /// run stays clean, since it covers more than this page, unless its pages share their dirty
    /// bits.
    fn mark_dirty_in_l2(&mut self, page: VirtualPage, slot: u32, entry: L2Entry) {
        if entry.kind() != EntryKind::Run {
            self.own.l2.mark_dirty(slot, entry);
        } else if self.coalescing.is_some_and(|it| it.form.contiguity().is_some()) {
            self.own.l2.mark_run_dirty(self.own.space, page);
        }
    }

    /// Sets the dirty bit of the leaf that translates the page, in memory and in the walk caches.
    fn mark_dirty(&mut self, page: VirtualPage) {
        self.dimension.mark(self.own.space, page, Mark::Dirty);
        self.own.caches.write_leaf(self.own.space, page);
    }

    /// Returns the page fault for a forbidden access, attributed to the guest or the host.
    #[cold]
    fn blame(&self, request: Request) -> PageFault {
        match self.dimension.over_host() {
            Some(over) => over.blame(self.walk_request(request, false), request.kind),
            None => PageFault::Protection,
        }
    }

    /// Looks up the second-level TLB and, in parallel, the unit at this level if there is one. A
    /// hit in the unit takes precedence. If both miss, walks. Returns the translation, and true if
    /// a walk found it.
    #[inline(always)]
    fn beyond_l1(
        &mut self,
        request: Request,
        steps: &mut Steps,
    ) -> Result<(Found, bool), PageFault> {
        if self.unit.looked_up
            && let Some(reach) = self.look_up_unit(request, steps)
        {
            let found = self.translate_by_unit(request, &reach, steps)?;
            return Ok((Found { case: Case::Beside, ..found }, false));
        }
        self.look_up_l2(request, steps)
    }

    #[inline(always)]
    fn look_up_l2(
        &mut self,
        request: Request,
        steps: &mut Steps,
    ) -> Result<(Found, bool), PageFault> {
        if let Some((slot, entry)) = self.own.l2.look_up(self.own.space, request.page) {
            steps.beside(Purpose::Page, Action::Hit { unit: Unit::L2Tlb, slot });
            let found = match entry.kind() {
                EntryKind::Perforated => {
                    self.translate_perforated(request, entry, Some(slot), false, steps)
                }
                EntryKind::Intermediate => {
                    self.translate_intermediate(request, entry, Some(slot), false, steps)
                }
                _ => self.translate_regular(request, entry, Some(slot), steps),
            }?;
            return Ok((found, false));
        }
        steps.beside(Purpose::Page, Action::Miss { unit: Unit::L2Tlb });
        self.walk(request, steps).map(|found| (found, true))
    }

    #[inline(always)]
    fn walk(&mut self, request: Request, steps: &mut Steps) -> Result<Found, PageFault> {
        let walk_request = self.walk_request(request, false);
        let mut walker = Walker::native(&mut self.own.caches, &mut self.own.l2, steps);
        let reach = self.dimension.walk(walk_request, &mut walker)?;
        self.translated = WalkedRange::Page(reach.size);
        if self.fills_specially {
            return self.fill_specially(request, &reach, steps);
        }
        self.fill(request, &reach, steps)
    }

    /// Like [`Self::fill`], where a walk may fill more than an entry for the leaf's page.
    #[cold]
    #[inline(never)]
    fn fill_specially(
        &mut self,
        request: Request,
        reach: &Reach,
        steps: &mut Steps,
    ) -> Result<Found, PageFault> {
        let walk_request = self.walk_request(request, false);
        if self.unit.replaces_l2 {
            self.fill_unit(walk_request, reach, steps);
            if self.find_in_unit(request).is_some() {
                return self.translate_by_unit(request, reach, steps);
            }
            return self.fill_entry(request, reach, steps);
        }
        let found = self.fill_entry(request, reach, steps)?;
        if self.unit.filled {
            self.fill_unit(walk_request, reach, steps);
        }
        Ok(found)
    }

    /// Like [`Self::fill`], where the entry may be an intermediate one or a run.
    fn fill_entry(
        &mut self,
        request: Request,
        reach: &Reach,
        steps: &mut Steps,
    ) -> Result<Found, PageFault> {
        if let Some(guest) = self.walked_intermediate() {
            self.translated = WalkedRange::Page(guest.kind().size());
            return self.fill_intermediate(request, guest, reach, steps);
        }
        let Some(coalescing) = self.coalescing.filter(|_| reach.size == PageSize::Size4K) else {
            return self.fill(request, reach, steps);
        };
        self.check_permissions(request, reach.allows)?;
        let (slot, entry) = self.fill_coalesced(coalescing, request, reach, steps);
        Ok(self.complete_regular(request, entry, slot, steps))
    }

    /// Fills the second-level TLB with a walk's result and completes the access.
    #[inline(always)]
    fn fill(
        &mut self,
        request: Request,
        reach: &Reach,
        steps: &mut Steps,
    ) -> Result<Found, PageFault> {
        let entry = entry_of(reach);
        if reach.filter != 0 {
            return self.fill_perforated(request, entry, steps);
        }
        self.check_permissions(request, entry.allows())?;
        let slot = self.fill_l2(request, Purpose::Page, entry, steps);
        Ok(self.complete_regular(request, entry, slot, steps))
    }

    #[inline(never)]
    fn fill_perforated(
        &mut self,
        request: Request,
        entry: L2Entry,
        steps: &mut Steps,
    ) -> Result<Found, PageFault> {
        let slot = self.fill_l2(request, Purpose::Level2, entry, steps);
        if self.loading == BitmapLoading::Naive {
            self.load_bitmap(request, entry, true, steps)?;
        }
        self.translate_perforated(request, entry, slot, true, steps)
    }

    /// Fills the second-level TLB with the run of contiguous pages around a page, or with the page
    /// alone if there is no run. Returns the slot, `None` if the TLB holds no such entries, and an
    /// entry for the page.
    fn fill_coalesced(
        &mut self,
        coalescing: Coalescing,
        request: Request,
        reach: &Reach,
        steps: &mut Steps,
    ) -> (Option<u32>, L2Entry) {
        let (place, dimension) = ((self.own.space, request.page), self.dimension.as_ref());
        let Some((slot, run)) = coalescing.fill(place, reach, dimension, &mut self.own.l2) else {
            let entry = entry_of(reach);
            return (self.fill_l2(request, Purpose::Page, entry, steps), entry);
        };
        self.counters.coalesced_fills += 1;
        self.counters.coalesced_pages += run.end - run.start;
        self.translated = WalkedRange::Run(run);
        steps.beside(Purpose::Page, Action::Fill { unit: Unit::L2Tlb, slot });
        (Some(slot), L2Entry::run_page(reach.frame, reach.allows, 0))
    }

    fn walk_request(&self, request: Request, walked: bool) -> WalkRequest {
        let write = request.kind == AccessKind::Write;
        WalkRequest { space: self.own.space, page: request.page, write, walked }
    }

    fn check_permissions(&self, request: Request, allows: u8) -> Result<(), PageFault> {
        if allow::permits(allows, request.kind) { Ok(()) } else { Err(PageFault::Protection) }
    }

    #[inline(always)]
    fn fill_l2(
        &mut self,
        request: Request,
        purpose: Purpose,
        entry: L2Entry,
        steps: &mut Steps,
    ) -> Option<u32> {
        let slot = self.own.l2.fill(self.own.space, request.page, entry)?;
        steps.beside(purpose, Action::Fill { unit: Unit::L2Tlb, slot });
        Some(slot)
    }

    /// Fills the first-level TLB from a page of `size` whose first frame is `frame`, which completes
    /// the access.
    #[inline(always)]
    fn fill_l1(
        &mut self,
        request: Request,
        (size, frame): (PageSize, Frame),
        allows: u8,
        case: Case,
        steps: &mut Steps,
    ) -> Found {
        let space = self.own.space;
        let (tlb, unit) = self.own.first_level(request.kind);
        let (frame, slot) = tlb.fill(space, request.page, size, frame, allows);
        steps.beside(Purpose::Page, Action::Fill { unit, slot });
        Found { frame, slot, case }
    }

    /// Fills the first-level TLB with the window of pages around a page of a run, or with the page
    /// alone if the first level cannot hold the window. `allows` is what the page allows after the
    /// access.
    #[inline(never)]
    fn fill_l1_run(
        &mut self,
        request: Request,
        entry: L2Entry,
        allows: u8,
        steps: &mut Steps,
    ) -> Found {
        let (space, frame) = (self.own.space, entry.frame());
        let of_window = self.coalescing.and_then(|it| it.first_level(entry.allows(), allows));
        let (tlb, unit) = self.own.first_level(request.kind);
        let filled = of_window.and_then(|held| tlb.fill_run(space, request.page, frame, held));
        let Some(slot) = filled else {
            let place = (PageSize::Size4K, frame);
            return self.fill_l1(request, place, allows, Case::Regular, steps);
        };
        steps.beside(Purpose::Page, Action::Fill { unit, slot });
        Found { frame, slot, case: Case::Regular }
    }

    /// Sets the dirty bit if the access is a store and the entry is not marked dirty. Returns the
    /// updated [`allow`] bits.
    #[inline(always)]
    fn mark_dirty_if_store(&mut self, request: Request, entry: L2Entry, slot: Option<u32>) -> u8 {
        let allows = entry.allows();
        if request.kind != AccessKind::Write || allows & allow::DIRTY != 0 {
            return allows;
        }
        self.mark_stored(request, entry, slot);
        allows | allow::DIRTY
    }

    #[cold]
    #[inline(never)]
    fn mark_stored(&mut self, request: Request, entry: L2Entry, slot: Option<u32>) {
        self.mark_dirty(request.page);
        if let Some(slot) = slot {
            self.mark_dirty_in_l2(request.page, slot, entry);
        }
    }

    /// Case 1: completes an access by an entry of an ordinary page, a run, or a hole.
    #[inline(always)]
    fn translate_regular(
        &mut self,
        request: Request,
        entry: L2Entry,
        slot: Option<u32>,
        steps: &mut Steps,
    ) -> Result<Found, PageFault> {
        self.check_permissions(request, entry.allows())?;
        Ok(self.complete_regular(request, entry, slot, steps))
    }

    /// Like [`Self::translate_regular`], for an entry that allows the access.
    #[inline(always)]
    fn complete_regular(
        &mut self,
        request: Request,
        entry: L2Entry,
        slot: Option<u32>,
        steps: &mut Steps,
    ) -> Found {
        let allows = self.mark_dirty_if_store(request, entry, slot);
        if entry.kind() == EntryKind::Run {
            return self.fill_l1_run(request, entry, allows, steps);
        }
        let place = (entry.kind().size(), entry.frame());
        self.fill_l1(request, place, allows, Case::Regular, steps)
    }

    /// Replaces the contents of `into` with the locations of guest page-table nodes found since the
    /// last call, as pairs of guest frame and machine frame. Empty unless [`Host::note_located`]
    /// was called.
    pub fn take_located(&mut self, into: &mut Vec<(GuestFrame, Frame)>) {
        into.clear();
        if let Some(host) = self.dimension.host_mut() {
            host.take_located(into);
        }
    }

    /// Counts of all cores together, since the last reset of the counters.
    pub fn counters(&self) -> &MmuCounters {
        &self.counters
    }

    /// Resets all counters to 0. Cached translations stay.
    pub fn reset_counters(&mut self) {
        self.counters = MmuCounters::default();
        self.on_all_cores(|mmu| mmu.own.walked.start_measuring());
        if let Some(unit) = self.dimension.sideband_tlb_mut() {
            unit.reset_counters();
        }
    }

    /// Number of entries of each kind in the second-level TLBs, summed over all cores.
    pub fn l2_contents(&self) -> L2Contents {
        let mut sum = L2Contents::default();
        self.l2_of_all_cores().for_each(|l2| sum += l2.contents());
        sum
    }

    /// Returns the page tables or other structures that translate addresses after TLB misses.
    pub fn dimension(&self) -> &dyn Dimension {
        self.dimension.as_ref()
    }

    /// Returns the page tables or other structures that translate addresses after TLB misses,
    /// mutable. Changes do not affect the TLBs, so the caller must also apply a shootdown.
    pub fn dimension_mut(&mut self) -> &mut dyn Dimension {
        self.dimension.as_mut()
    }

    /// Replaces the contents of `out` with the TLB and walk-cache entries of the running core, in
    /// order of units and slots. LRU state does not change. For tests.
    pub fn inspect(&self, out: &mut Vec<CachedEntry>) {
        out.clear();
        self.own.inspect(self.running_core, out);
        if let Some(host) = self.dimension.host() {
            host.inspect(self.running_core, out);
        }
    }

    /// Replaces the contents of `out` with the TLB and walk-cache entries of all cores but the
    /// running one, in order of cores, units and slots.
    pub fn inspect_others(&self, out: &mut Vec<CachedEntry>) {
        out.clear();
        self.parked.numbered().for_each(|(core, own)| own.inspect(core, out));
        if let Some(host) = self.dimension.host() {
            host.inspect_others(out);
        }
        out.sort_by_key(|entry| entry.core);
    }

    /// Number of the running core, and the address space that runs on it.
    pub fn running(&self) -> (usize, SpaceId) {
        (self.running_core, self.own.space)
    }

    /// Returns the accesses that the first-level data TLB allows to a page of the running address
    /// space, as bits of [`allow`]. `None` if the TLB does not hold the page. For tests, which
    /// detect stale permissions with it.
    pub fn first_level_allows(&mut self, page: VirtualPage) -> Option<u8> {
        self.own.data.look_up(self.own.space, page).map(|hit| hit.allows)
    }

    /// Writes the counters of the unit looked up in parallel with the second-level TLB, if there is one.
    /// [`MmuCounters::record`] writes those of the MMU.
    pub fn record_sideband(&self, out: &mut Counters) {
        if let Some(unit) = self.dimension.sideband_tlb() {
            let translations = self.counters.beside_translations;
            unit.record(&SidebandCounters { translations, ..SidebandCounters::default() }, out);
        }
    }
}
