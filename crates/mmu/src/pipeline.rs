//! The one translation loop: first-level TLB, second-level TLB, bitmap, walk.

use perforate_types::{
    AccessKind, Action, Counters, Frame, PageSize, PhysicalAddress, Purpose, Shootdown, SpaceId,
    Steps, Unit, Update, VirtualAddress, VirtualPage,
};

use crate::counters::MmuCounters;
use crate::dimension::{Dimension, NotMapped, Reach, WalkRequest};
use crate::l1_tlb::{L1Hit, L1Tlb, allow, allowed, needed};
use crate::l2_tlb::{EntryKind, L2Contents, L2Entry, L2Tlb, SUBPAGES_PER_BITMAP_ENTRY};
use crate::{ConfigError, MmuConfig, PerforatedVariant, Sabotage, WalkCaches};

/// How a translation was found: a first-level hit, or the cases of P §IV.D (SPEC P-4). Case 7,
/// where everything misses, is any of these after a walk ([`Translated::walked`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Case {
    /// First-level TLB hit.
    FirstLevel,
    /// 1: an ordinary page or the cached translation of a hole.
    Regular,
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

/// The access cannot be done with the tables as they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageFault {
    /// Nothing is mapped there.
    NotMapped,
    /// The mapping does not allow the access.
    Protection,
}

impl From<NotMapped> for PageFault {
    fn from(_: NotMapped) -> Self {
        Self::NotMapped
    }
}

/// The memory-management unit of one core.
pub struct Mmu {
    data: L1Tlb,
    instruction: L1Tlb,
    l2: L2Tlb,
    caches: WalkCaches,
    dimension: Box<dyn Dimension>,
    variant: PerforatedVariant,
    space: SpaceId,
    tagged: bool,
    counters: MmuCounters,
    sabotage: Option<Sabotage>,
}

/// One access under way.
#[derive(Clone, Copy)]
struct Request {
    kind: AccessKind,
    page: VirtualPage,
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
    pub fn new(
        config: &MmuConfig,
        dimension: Box<dyn Dimension>,
        variant: PerforatedVariant,
    ) -> Result<Self, ConfigError> {
        config.validate()?;
        Ok(Self {
            data: L1Tlb::new(config.l1(false)),
            instruction: L1Tlb::new(config.l1(true)),
            l2: L2Tlb::new(&config.tlb),
            caches: WalkCaches::new(&config.walk_cache),
            dimension,
            variant,
            space: SpaceId::default(),
            tagged: config.tlb.tagged,
            counters: MmuCounters::default(),
            sabotage: None,
        })
    }

    /// Plants a defect; for tests of the oracle.
    pub fn sabotage(&mut self, defect: Sabotage) {
        self.sabotage = Some(defect);
    }

    /// Number of slots of each unit, for the timing model.
    pub fn slots(&self) -> [usize; Unit::COUNT] {
        [self.data.slots(), self.instruction.slots(), self.l2.slots(), self.caches.slots()]
    }

    /// Applies what the operating system did.
    pub fn apply(&mut self, update: &Update) {
        match update {
            Update::Change(change) => self.dimension.apply(change),
            Update::Shootdown(shootdown) => self.invalidate(*shootdown),
        }
    }

    fn invalidate(&mut self, shootdown: Shootdown) {
        match shootdown {
            Shootdown::Page { space, page } => {
                if self.sabotage != Some(Sabotage::SkipL1Invalidation) {
                    self.data.invalidate_page(space, page);
                    self.instruction.invalidate_page(space, page);
                }
                self.l2.invalidate_page(space, page);
                self.caches.invalidate(space, page);
            }
            Shootdown::Large { space, page, size } => {
                if self.sabotage == Some(Sabotage::KeepStaleFilter) {
                    return;
                }
                self.data.invalidate_range(space, page, size);
                self.instruction.invalidate_range(space, page, size);
                if size == PageSize::Size1G {
                    self.l2.invalidate_1g(space, page);
                } else {
                    self.l2.invalidate_2m(space, page);
                }
                self.caches.invalidate(space, page);
            }
            Shootdown::Bitmap { space, page } => {
                if self.sabotage != Some(Sabotage::SkipBitmapInvalidation) {
                    self.l2.invalidate_bitmap(space, page);
                }
            }
            Shootdown::Space { space } => {
                self.data.invalidate_space(space);
                self.instruction.invalidate_space(space);
                self.l2.invalidate_space(space);
                self.caches.invalidate_space(space);
            }
        }
    }

    /// Runs another address space from now on.
    pub fn switch(&mut self, space: SpaceId) {
        if !self.tagged && space != self.space {
            self.flush();
        }
        self.space = space;
    }

    /// Forgets every cached translation.
    pub fn flush(&mut self) {
        self.data.flush();
        self.instruction.flush();
        self.l2.flush();
        self.caches.flush();
    }

    /// Forgets the first-level translations; for explaining what lies behind them.
    pub fn flush_first_level(&mut self) {
        self.data.flush();
        self.instruction.flush();
    }

    /// Forgets the 4KB translation of `page` in the second level; the walk caches keep theirs.
    pub fn evict_page(&mut self, page: VirtualPage) {
        self.l2.invalidate_page(self.space, page);
    }

    /// Forgets the bitmap entry that covers `page`.
    pub fn evict_bitmap(&mut self, page: VirtualPage) {
        self.l2.invalidate_bitmap(self.space, page);
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
        let tlb = if fetch { &mut self.instruction } else { &mut self.data };
        match tlb.look_up(self.space, page) {
            Some(hit) if hit.allows & needed(kind) == needed(kind) => {
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
        let (found, walked) = match hit {
            Some(hit) => (self.first_store(request, &hit)?, false),
            None => {
                // An access that faults comes again once the page is mapped, and is counted then.
                let (found, walked) = self.look_up_l2(request, steps)?;
                self.counters.add(found.case, walked, steps);
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

    /// A first-level hit that lacks a permission, or a first store to a clean page. Setting the
    /// dirty bit then is not charged, as in the papers' simulators.
    fn first_store(&mut self, request: Request, hit: &L1Hit) -> Result<Found, PageFault> {
        if request.kind != AccessKind::Write || hit.allows & allow::WRITE == 0 {
            return Err(PageFault::Protection);
        }
        self.dimension.mark_dirty(self.space, request.page);
        self.data.mark_dirty(self.space, request.page);
        if let Some((slot, _)) = self.l2.look_up(self.space, request.page) {
            self.l2.mark_dirty(slot);
        }
        Ok(Found::first_level(hit))
    }

    #[inline(always)]
    fn look_up_l2(
        &mut self,
        request: Request,
        steps: &mut Steps,
    ) -> Result<(Found, bool), PageFault> {
        if let Some((slot, entry)) = self.l2.look_up(self.space, request.page) {
            steps.then(Purpose::Page, Action::Hit { unit: Unit::L2Tlb, slot });
            let found = match entry.kind {
                EntryKind::Perforated => {
                    self.through_perforated(request, &entry, Some(slot), steps)
                }
                _ => self.through_regular(request, &entry, Some(slot), steps),
            }?;
            return Ok((found, false));
        }
        steps.then(Purpose::Page, Action::Miss { unit: Unit::L2Tlb });
        self.walk(request, steps).map(|found| (found, true))
    }

    #[inline(always)]
    fn walk(&mut self, request: Request, steps: &mut Steps) -> Result<Found, PageFault> {
        let reach = self.dimension.walk(self.walk_request(request), &mut self.caches, steps)?;
        if reach.filter != 0 {
            let entry = self.entry(EntryKind::Perforated, &reach);
            let slot = self.fill_l2(request, Purpose::Level2, entry, steps);
            if self.variant == PerforatedVariant::Naive {
                self.load_bitmap(request, entry.frame, steps);
            }
            return self.through_perforated(request, &entry, slot, steps);
        }
        let kind = match reach.size {
            PageSize::Size4K => EntryKind::Page4K,
            PageSize::Size2M => EntryKind::Page2M,
            PageSize::Size1G => EntryKind::Page1G,
        };
        let entry = self.entry(kind, &reach);
        self.allow(request, entry.allows)?;
        let slot = self.fill_l2(request, Purpose::Page, entry, steps);
        self.through_regular(request, &entry, slot, steps)
    }

    fn walk_request(&self, request: Request) -> WalkRequest {
        let write = request.kind == AccessKind::Write;
        WalkRequest { space: self.space, page: request.page, write }
    }

    fn entry(&self, kind: EntryKind, reach: &Reach) -> L2Entry {
        let allows = allowed(reach.permissions, reach.dirty);
        L2Entry { kind, frame: reach.frame, allows, bits: u32::from(reach.filter) }
    }

    fn allow(&self, request: Request, allows: u8) -> Result<(), PageFault> {
        let needed = needed(request.kind) & !allow::DIRTY;
        if allows & needed == needed { Ok(()) } else { Err(PageFault::Protection) }
    }

    #[inline(always)]
    fn fill_l2(
        &mut self,
        request: Request,
        purpose: Purpose,
        entry: L2Entry,
        steps: &mut Steps,
    ) -> Option<u32> {
        let slot = self.l2.fill(self.space, request.page, entry)?;
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
            AccessKind::Fetch => (&mut self.instruction, Unit::L1InstructionTlb),
            _ => (&mut self.data, Unit::L1DataTlb),
        };
        let slot = tlb.fill(self.space, request.page, size, frame, allows);
        steps.beside(Purpose::Page, Action::Fill { unit, slot });
        slot
    }

    /// Sets the dirty bit where a store goes through an entry that does not know it set.
    fn dirtied(&mut self, request: Request, allows: u8, slot: Option<u32>) -> u8 {
        if request.kind != AccessKind::Write || allows & allow::DIRTY != 0 {
            return allows;
        }
        self.dimension.mark_dirty(self.space, request.page);
        if let Some(slot) = slot {
            self.l2.mark_dirty(slot);
        }
        allows | allow::DIRTY
    }

    /// Case 1: an ordinary page or a hole's 4KB translation.
    #[inline(always)]
    fn through_regular(
        &mut self,
        request: Request,
        entry: &L2Entry,
        slot: Option<u32>,
        steps: &mut Steps,
    ) -> Result<Found, PageFault> {
        self.allow(request, entry.allows)?;
        let allows = self.dirtied(request, entry.allows, slot);
        let size = match entry.kind {
            EntryKind::Page2M => PageSize::Size2M,
            EntryKind::Page1G => PageSize::Size1G,
            _ => PageSize::Size4K,
        };
        let frame = entry.frame.add(request.page.index_in(size) as u64);
        let slot = self.fill_l1(request, size, entry.frame, allows, steps);
        Ok(Found { frame, slot, case: Case::Regular })
    }

    /// Cases 2–6: inside a perforated page.
    #[inline(always)]
    fn through_perforated(
        &mut self,
        request: Request,
        entry: &L2Entry,
        slot: Option<u32>,
        steps: &mut Steps,
    ) -> Result<Found, PageFault> {
        let index = request.page.index_in(PageSize::Size2M);
        if self.variant == PerforatedVariant::Filtered && !self.filter_bit(entry, index) {
            return self.generate(request, entry, slot, Case::Filtered, steps);
        }
        let (hole, read) = self.is_hole(request, entry, index, steps);
        if hole && self.sabotage != Some(Sabotage::IgnoreShadow) {
            let case = if read { Case::ReadHole } else { Case::BitmapHole };
            return self.through_hole(request, case, steps);
        }
        let case = if read { Case::ReadInPlace } else { Case::BitmapInPlace };
        self.generate(request, entry, slot, case, steps)
    }

    fn filter_bit(&self, entry: &L2Entry, index: usize) -> bool {
        let neighbour = usize::from(self.sabotage == Some(Sabotage::WrongFilterBit));
        entry.bits >> ((index / 64) ^ neighbour) & 1 != 0
    }

    /// Asks the bitmap; also tells whether it had to be read from memory.
    #[inline(always)]
    fn is_hole(
        &mut self,
        request: Request,
        entry: &L2Entry,
        index: usize,
        steps: &mut Steps,
    ) -> (bool, bool) {
        let bit = index as u64 % SUBPAGES_PER_BITMAP_ENTRY;
        if let Some((slot, bits)) = self.l2.look_up_bitmap(self.space, request.page) {
            steps.then(Purpose::Bitmap, Action::Hit { unit: Unit::L2Tlb, slot });
            return (bits >> bit & 1 != 0, false);
        }
        steps.then(Purpose::Bitmap, Action::Miss { unit: Unit::L2Tlb });
        if self.variant == PerforatedVariant::Naive {
            self.load_bitmap(request, entry.frame, steps);
        } else {
            let address = self.dimension.bitmap_line(entry.frame);
            steps.then(Purpose::Bitmap, Action::Read { address });
            self.fill_bitmap(request.page, entry.frame, steps);
        }
        let bits = self.bitmap_bits(entry.frame, index);
        (bits >> bit & 1 != 0, true)
    }

    /// The 32 bits of bitmap around sub-page `index` of `block`, from simulated memory.
    fn bitmap_bits(&self, block: Frame, index: usize) -> u32 {
        let address = self.dimension.bitmap_line(block).add(index as u64 / 64 * 8);
        let word = self.dimension.memory().word(address);
        (word >> (index as u64 % 64 / SUBPAGES_PER_BITMAP_ENTRY * SUBPAGES_PER_BITMAP_ENTRY)) as u32
    }

    fn fill_bitmap(&mut self, page: VirtualPage, block: Frame, steps: &mut Steps) {
        let bits = self.bitmap_bits(block, page.index_in(PageSize::Size2M));
        let entry = L2Entry { kind: EntryKind::Bitmap, bits, ..L2Entry::default() };
        if let Some(slot) = self.l2.fill(self.space, page, entry) {
            steps.beside(Purpose::Bitmap, Action::Fill { unit: Unit::L2Tlb, slot });
        }
    }

    /// Loads all 16 bitmap entries of the page with one read (the naive variant).
    fn load_bitmap(&mut self, request: Request, block: Frame, steps: &mut Steps) {
        let first = request.page.align_down(PageSize::Size2M);
        let address = self.dimension.bitmap_line(block);
        steps.then(Purpose::Bitmap, Action::Read { address });
        for entry in 0..PageSize::Size2M.pages() / SUBPAGES_PER_BITMAP_ENTRY {
            self.fill_bitmap(first.add(entry * SUBPAGES_PER_BITMAP_ENTRY), block, steps);
        }
    }

    /// A sub-page that is no hole: its 4KB translation goes into the first level only.
    #[inline(always)]
    fn generate(
        &mut self,
        request: Request,
        entry: &L2Entry,
        slot: Option<u32>,
        case: Case,
        steps: &mut Steps,
    ) -> Result<Found, PageFault> {
        self.allow(request, entry.allows)?;
        let allows = self.dirtied(request, entry.allows, slot);
        let frame = entry.frame.add(request.page.index_in(PageSize::Size2M) as u64);
        let slot = self.fill_l1(request, PageSize::Size4K, frame, allows, steps);
        Ok(Found { frame, slot, case })
    }

    /// A hole: its 4KB translation is found through the shadow entry and goes into both levels.
    #[inline(always)]
    fn through_hole(
        &mut self,
        request: Request,
        case: Case,
        steps: &mut Steps,
    ) -> Result<Found, PageFault> {
        let reach =
            self.dimension.walk_hole(self.walk_request(request), &mut self.caches, steps)?;
        let entry = self.entry(EntryKind::Hole, &reach);
        self.allow(request, entry.allows)?;
        self.fill_l2(request, Purpose::Hole, entry, steps);
        let slot = self.fill_l1(request, PageSize::Size4K, entry.frame, entry.allows, steps);
        Ok(Found { frame: entry.frame, slot, case })
    }

    /// Counts since the last reset.
    pub fn counters(&self) -> &MmuCounters {
        &self.counters
    }

    /// Starts counting anew; cached translations stay.
    pub fn reset_counters(&mut self) {
        self.counters = MmuCounters::default();
    }

    /// What the second-level TLB holds.
    pub fn l2_contents(&self) -> L2Contents {
        self.l2.contents()
    }

    /// The tables behind the TLBs.
    pub fn dimension(&self) -> &dyn Dimension {
        self.dimension.as_ref()
    }

    /// Figures of the unit and its tables.
    pub fn record(&self, instructions: u64, out: &mut Counters) {
        self.counters.record(instructions, out);
        self.dimension.counters(out);
        let contents = self.l2.contents();
        for (name, value) in [
            ("l2_tlb_entries_empty", contents.empty),
            ("l2_tlb_entries_4k", contents.page_4k),
            ("l2_tlb_entries_2m", contents.page_2m),
            ("l2_tlb_entries_1g", contents.page_1g),
            ("l2_tlb_entries_perforated", contents.perforated),
            ("l2_tlb_entries_hole", contents.hole),
            ("l2_tlb_entries_bitmap", contents.bitmap),
        ] {
            out.count(name, value);
        }
    }
}
