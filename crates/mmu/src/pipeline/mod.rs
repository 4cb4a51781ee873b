//! The one translation loop: first-level TLB, second-level TLB, bitmap, walk.

mod beside;
mod cores;
mod holes;
mod intermediate;
mod shootdown;

use std::ops::Range;

use perforate_types::{
    AccessKind, Action, Counters, Frame, GuestFrame, PageSize, PhysicalAddress, Purpose, SpaceId,
    Steps, Unit, VirtualAddress, VirtualPage,
};

use crate::capability::{BesideCounters, BesideL2, BesideUse};
use crate::coalescing::Coalescing;
use crate::counters::MmuCounters;
use crate::nested::{Host, entry_of, loading_of};
use crate::tlb::{EntryKind, L1Hit, L1Tlb, L2Contents, L2Entry, L2Tlb, WalkedPages};
use crate::{
    BitmapLoading, BitmapUpdates, CachedEntry, ConfigError, Dimension, Mark, MmuConfig, PageFault,
    Parked, Reach, WalkCaches, WalkRequest, Walker, allow,
};

/// How a translation was found: a first-level hit, or the cases of P §IV.D (SPEC P-4). Case 7,
/// where everything misses, is any of these after a walk ([`Translated::walked`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Case {
    /// First-level TLB hit.
    FirstLevel,
    /// A unit beside the first-level TLB translates the page.
    BesideFirstLevel,
    /// A unit beside the second-level TLB translates the page.
    Beside,
    /// 1: an ordinary page or the cached translation of a hole.
    Regular,
    /// 1: a guest's page, and the page of its host that lies behind (P §V).
    Intermediate,
    /// 3: the same where the filter asks the guest's bitmap, which the TLB has.
    IntermediateBitmap,
    /// 5: the same, the guest's bitmap read from memory first.
    IntermediateRead,
    /// 2: a perforated page whose filter says there is no hole near.
    Filtered,
    /// 3: the cached bitmap says it is no hole.
    BitmapInPlace,
    /// 4: the cached bitmap says it is a hole: walk through the shadow entry.
    BitmapHole,
    /// 5: as 3, the bitmap read from memory first.
    ReadInPlace,
    /// 6: as 4, the bitmap read from memory first.
    ReadHole,
}

/// A successful translation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Translated {
    /// Physical address.
    pub physical: PhysicalAddress,
    /// First-level slot that holds the translation now.
    pub slot: u32,
    /// How it was found.
    pub case: Case,
    /// Whether a walk found the page first (case 7).
    pub walked: bool,
}

/// The memory-management unit of one core, or of several that have the same tables: one of them is at
/// work at a time ([`Mmu::run_on`]).
pub struct Mmu {
    /// Of the core at work.
    own: OfCore,
    parked: Parked<OfCore>,
    cores: usize,
    core: usize,
    dimension: Box<dyn Dimension>,
    loading: BitmapLoading,
    bitmap_updates: BitmapUpdates,
    /// Whether there are intermediate entries.
    intermediate: bool,
    coalescing: Option<Coalescing>,
    /// The use made of a unit beside the second-level TLB.
    unit: BesideUse,
    tagged: bool,
    /// Pages that the last walk has translated.
    translated: WalkedRange,
    /// Of all cores.
    counters: MmuCounters,
}

/// What each core has for itself.
#[derive(Clone)]
struct OfCore {
    data: L1Tlb,
    instruction: L1Tlb,
    l2: L2Tlb,
    caches: WalkCaches,
    /// Pages that the core has walked to: a miss of any other page is compulsory.
    walked: WalkedPages,
    /// The address space that it runs.
    space: SpaceId,
}

impl OfCore {
    fn inspect(&self, core: usize, out: &mut Vec<CachedEntry>) {
        self.data.inspect((core, Unit::L1DataTlb), out);
        self.instruction.inspect((core, Unit::L1InstructionTlb), out);
        self.l2.inspect((core, Unit::L2Tlb), out);
        self.caches.inspect((core, Unit::WalkCache), out);
    }
}

/// The pages that a walk has translated at once.
#[derive(Clone)]
enum WalkedRange {
    /// The page of this size around the one that was looked for.
    Page(PageSize),
    /// 4KB pages of a run.
    Run(Range<u64>),
}

/// One access under way.
#[derive(Clone, Copy)]
struct Request {
    kind: AccessKind,
    page: VirtualPage,
}

impl Request {
    /// The 4KB pages of the page of `size` around it.
    #[inline]
    fn around(self, size: PageSize) -> Range<u64> {
        let first = self.page.align_down(size).number();
        first..first + size.pages()
    }
}

/// The 4KB translation found, before it is put together with the offset.
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

/// The address in the 4KB `frame` that `address` has in its page.
#[inline]
fn physical(frame: Frame, address: VirtualAddress) -> PhysicalAddress {
    frame.address().add(address.offset(PageSize::Size4K))
}

impl Mmu {
    /// A unit with empty TLBs in front of `dimension`.
    ///
    /// # Errors
    /// A geometry that cannot exist.
    pub fn new(config: &MmuConfig, dimension: Box<dyn Dimension>) -> Result<Self, ConfigError> {
        config.validate()?;
        Ok(Self {
            own: OfCore {
                data: L1Tlb::new(config.l1(false)),
                instruction: L1Tlb::new(config.l1(true)),
                l2: L2Tlb::new(&config.tlb),
                caches: WalkCaches::new(&config.walk_cache, dimension.cached_leaf_pages()),
                walked: WalkedPages::default(),
                space: SpaceId::default(),
            },
            parked: Parked::default(),
            cores: 1,
            core: 0,
            loading: loading_of(dimension.as_ref()),
            bitmap_updates: config.tlb.bitmap_updates,
            intermediate: dimension.host().is_some_and(Host::has_intermediate_entries),
            unit: dimension.beside_use(),
            dimension,
            coalescing: config.tlb.l2_coalescing,
            tagged: config.tlb.tagged,
            translated: WalkedRange::Page(PageSize::Size4K),
            counters: MmuCounters::default(),
        })
    }

    /// Number of slots of each unit, for the timing model.
    pub fn slots(&self) -> [usize; Unit::COUNT] {
        // What a unit beside the first level translates is always ready.
        let more = usize::from(self.unit.beside_l1);
        let [data, instruction] =
            [&self.own.data, &self.own.instruction].map(|tlb| tlb.slots() + more);
        let host = self.dimension.host();
        let host_caches = host.map_or(0, Host::cache_slots);
        let nested_tlb = host.map_or(0, Host::tlb_slots);
        let host_unit = host.and_then(|host| host.dimension().beside_l2());
        let [unit, host_unit] =
            [self.dimension.beside_l2(), host_unit].map(|unit| unit.map_or(0, BesideL2::slots));
        let (l2, caches) = (self.own.l2.slots(), self.own.caches.slots());
        [data, instruction, l2, caches, host_caches, nested_tlb, unit, host_unit]
    }

    /// Translates an access of the running address space. `steps` is emptied first and then
    /// tells what was done; it stays empty for a first-level hit.
    ///
    /// # Errors
    /// [`PageFault`]; the steps of a faulting translation are of no use.
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

    /// Everything beyond a plain first-level hit. What it is made of is inlined into it: results
    /// that are handed on from function to function through memory cost more than the work.
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
        let beside = if hit.is_none() { self.find_beside_l1(request) } else { None };
        let (found, walked) = match (hit, beside) {
            (Some(hit), _) => match self.first_store(request, &hit) {
                Ok(found) => (found, false),
                Err(_) => return Err(self.blame(request)),
            },
            (None, Some(reach)) => match self.through_unit_beside_l1(request, &reach) {
                Ok(found) => (found, false),
                Err(_) => return Err(self.blame(request)),
            },
            (None, None) => {
                // An access that faults comes again once the page is mapped, and is counted then.
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
                (found, walked)
            }
        };
        self.count_access(kind);
        let Found { frame, slot, case } = found;
        Ok(Translated { physical: physical(frame, address), slot, case, walked })
    }

    /// Tells whether a TLB of any size would have missed as well.
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

    /// A first-level hit that lacks a permission, or a first store to a clean page. Setting the
    /// dirty bit then is not charged, as in the papers' simulators.
    fn first_store(&mut self, request: Request, hit: &L1Hit) -> Result<Found, PageFault> {
        if request.kind != AccessKind::Write || hit.allows & allow::WRITE == 0 {
            return Err(PageFault::Protection);
        }
        self.mark_dirty(request.page);
        self.own.data.mark_dirty(self.own.space, request.page);
        // Of the entry of a page with holes it is not known whether the store went through it; a run is
        // more than this page, and stays clean.
        if let Some((slot, entry)) = self.own.l2.look_up(self.own.space, request.page)
            && !entry.has_holes()
        {
            self.own.l2.mark_dirty(slot, entry);
        }
        Ok(Found::first_level(hit))
    }

    /// Sets the dirty bit of the leaf that translates the page, in memory and in a leaf that the
    /// walk caches hold.
    fn mark_dirty(&mut self, page: VirtualPage) {
        self.dimension.mark(self.own.space, page, Mark::Dirty);
        self.own.caches.write_leaf(self.own.space, page);
    }

    /// Whose fault a forbidden access is.
    #[cold]
    fn blame(&self, request: Request) -> PageFault {
        match self.dimension.over_host() {
            Some(over) => over.blame(self.walk_request(request, false), request.kind),
            None => PageFault::Protection,
        }
    }

    /// A unit beside the second-level TLB is looked up together with it and wins.
    #[inline(always)]
    fn beyond_l1(
        &mut self,
        request: Request,
        steps: &mut Steps,
    ) -> Result<(Found, bool), PageFault> {
        if self.unit.looked_up
            && let Some(reach) = self.look_up_unit(request, steps)
        {
            let found = self.through_unit(request, &reach, steps)?;
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
                    self.through_perforated(request, entry, Some(slot), false, steps)
                }
                EntryKind::Intermediate => {
                    self.through_intermediate(request, entry, Some(slot), false, steps)
                }
                _ => self.through_regular(request, entry, Some(slot), steps),
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
        if self.unit.replaces_l2 {
            self.fill_unit(walk_request, &reach, steps);
            if self.find_in_unit(request).is_some() {
                return self.through_unit(request, &reach, steps);
            }
            return self.through_walked(request, &reach, steps);
        }
        let found = self.through_walked(request, &reach, steps)?;
        if self.unit.filled {
            self.fill_unit(walk_request, &reach, steps);
        }
        Ok(found)
    }

    /// Fills what a walk has found, and translates through it.
    #[inline(always)]
    fn through_walked(
        &mut self,
        request: Request,
        reach: &Reach,
        steps: &mut Steps,
    ) -> Result<Found, PageFault> {
        if let Some(guest) = self.walked_intermediate() {
            self.translated = WalkedRange::Page(guest.kind().size());
            return self.fill_intermediate(request, guest, reach, steps);
        }
        let entry = entry_of(reach);
        if reach.filter != 0 {
            let slot = self.fill_l2(request, Purpose::Level2, entry, steps);
            if self.loading == BitmapLoading::Naive {
                self.load_bitmap(request, entry, true, steps)?;
            }
            return self.through_perforated(request, entry, slot, true, steps);
        }
        self.allow(request, entry.allows())?;
        let slot = match self.coalescing {
            Some(coalescing) if reach.size == PageSize::Size4K => {
                self.fill_coalesced(coalescing, request, reach, steps)
            }
            _ => self.fill_l2(request, Purpose::Page, entry, steps),
        };
        self.through_regular(request, entry, slot, steps)
    }

    /// Fills the run around a page, or the page alone.
    fn fill_coalesced(
        &mut self,
        coalescing: Coalescing,
        request: Request,
        reach: &Reach,
        steps: &mut Steps,
    ) -> Option<u32> {
        let (place, dimension) = ((self.own.space, request.page), self.dimension.as_ref());
        let Some((slot, run)) = coalescing.fill(place, reach, dimension, &mut self.own.l2) else {
            return self.fill_l2(request, Purpose::Page, entry_of(reach), steps);
        };
        self.counters.coalesced_fills += 1;
        self.counters.coalesced_pages += run.end - run.start;
        self.translated = WalkedRange::Run(run);
        steps.beside(Purpose::Page, Action::Fill { unit: Unit::L2Tlb, slot });
        Some(slot)
    }

    fn walk_request(&self, request: Request, walked: bool) -> WalkRequest {
        let write = request.kind == AccessKind::Write;
        WalkRequest { space: self.own.space, page: request.page, write, walked }
    }

    fn allow(&self, request: Request, allows: u8) -> Result<(), PageFault> {
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

    /// Fills the first level from a page of `size` whose first frame is `frame`.
    #[inline(always)]
    fn fill_l1(
        &mut self,
        request: Request,
        size: PageSize,
        frame: Frame,
        allows: u8,
        steps: &mut Steps,
    ) -> u32 {
        let (tlb, unit) = match request.kind {
            AccessKind::Fetch => (&mut self.own.instruction, Unit::L1InstructionTlb),
            _ => (&mut self.own.data, Unit::L1DataTlb),
        };
        let slot = tlb.fill(self.own.space, request.page, size, frame, allows);
        steps.beside(Purpose::Page, Action::Fill { unit, slot });
        slot
    }

    /// Sets the dirty bit where a store goes through an entry that does not know it set.
    fn dirtied(&mut self, request: Request, entry: L2Entry, slot: Option<u32>) -> u8 {
        let allows = entry.allows();
        if request.kind != AccessKind::Write || allows & allow::DIRTY != 0 {
            return allows;
        }
        self.mark_dirty(request.page);
        if let Some(slot) = slot {
            self.own.l2.mark_dirty(slot, entry);
        }
        allows | allow::DIRTY
    }

    /// Case 1: an ordinary page, one of a run, or a hole's 4KB translation.
    #[inline(always)]
    fn through_regular(
        &mut self,
        request: Request,
        entry: L2Entry,
        slot: Option<u32>,
        steps: &mut Steps,
    ) -> Result<Found, PageFault> {
        self.allow(request, entry.allows())?;
        let allows = self.dirtied(request, entry, slot);
        let size = entry.kind().size();
        let frame = entry.frame().add(request.page.index_in(size) as u64);
        let slot = self.fill_l1(request, size, entry.frame(), allows, steps);
        Ok(Found { frame, slot, case: Case::Regular })
    }

    /// Where a guest's tables were located since this was asked last, if the host notes it; what
    /// was in `into` goes.
    pub fn take_located(&mut self, into: &mut Vec<(GuestFrame, Frame)>) {
        into.clear();
        if let Some(host) = self.dimension.host_mut() {
            host.take_located(into);
        }
    }

    /// Counts since the last reset.
    pub fn counters(&self) -> &MmuCounters {
        &self.counters
    }

    /// Starts counting anew; cached translations stay.
    pub fn reset_counters(&mut self) {
        self.counters = MmuCounters::default();
        self.on_all_cores(|mmu| mmu.own.walked.start_measuring());
        if let Some(unit) = self.dimension.beside_l2_mut() {
            unit.reset_counters();
        }
    }

    /// The entries of the second-level TLB by kind.
    pub fn l2_contents(&self) -> L2Contents {
        let mut sum = L2Contents::default();
        self.l2_of_all().for_each(|l2| sum += l2.contents());
        sum
    }

    /// The tables behind the TLBs.
    pub fn dimension(&self) -> &dyn Dimension {
        self.dimension.as_ref()
    }

    /// The tables behind the TLBs, to be changed by whoever keeps parts of them. What is cached of
    /// them stays until it is shot down.
    pub fn dimension_mut(&mut self) -> &mut dyn Dimension {
        self.dimension.as_mut()
    }

    /// Puts the entries in TLBs and walk caches of the core at work into `out` in the order of units and
    /// slots. For tests that compare it with a model: nothing is marked used.
    pub fn inspect(&self, out: &mut Vec<CachedEntry>) {
        out.clear();
        self.own.inspect(self.core, out);
        if let Some(host) = self.dimension.host() {
            host.inspect(self.core, out);
        }
    }

    /// Puts the entries of the other cores into `out`, in the order of cores, then of units and slots.
    pub fn inspect_others(&self, out: &mut Vec<CachedEntry>) {
        out.clear();
        self.parked.numbered().for_each(|(core, own)| own.inspect(core, out));
        if let Some(host) = self.dimension.host() {
            host.inspect_others(out);
        }
        out.sort_by_key(|entry| entry.core);
    }

    /// The core at work, and the address space that it runs.
    pub fn at_work(&self) -> (usize, SpaceId) {
        (self.core, self.own.space)
    }

    /// What the first level for data allows of a page of the running address space, as bits of
    /// [`allow`]; `None` where it does not hold the page. For tests of what copies of entries know.
    pub fn first_level_allows(&mut self, page: VirtualPage) -> Option<u8> {
        self.own.data.look_up(self.own.space, page).map(|hit| hit.allows)
    }

    /// Figures of the unit and its tables, but for what the second-level TLB holds
    /// ([`L2Contents::record`]).
    pub fn record(&self, instructions: u64, out: &mut Counters) {
        self.counters.record(instructions, out);
        if let Some(unit) = self.dimension.beside_l2() {
            let translations = self.counters.beside_translations;
            unit.record(&BesideCounters { translations, ..BesideCounters::default() }, out);
        }
    }
}
