//! Second-level TLB. Entries of 4KB pages, 2MB pages, perforated pages, holes and bitmaps share one
//! array (P §IV.C). If the TLB coalesces, runs of 4KB pages share it, too.
//!
//! Each kind of entry has an index and key of its granularity: the number of a 4KB page, of a 2MB
//! or 1GB region, of the 128KB that a bitmap entry covers, or of a window of pages that may form a
//! run. A window has at most one run at a time.
//!
//! The machine file determines where entries of a size ([`EntryKind::size`]) are placed: in any way
//! of the shared array, in some of its ways, or in a separate array for 2MB or 1GB pages. A look-up
//! compares all ways of the array: those without entries of the size do not match, because kinds of
//! entries have different keys.

use std::ops::Range;

use perforate_types::{Frame, PageSize, SpaceId, Unit, VirtualPage};

use super::{L2Contents, SetAssociative};
use crate::{CachedContent, CachedEntry, TlbConfig, TlbGeometry, Ways, allow};

/// Number of sub-pages covered by one bitmap entry: 32 bits fit into a TLB entry (P §IV.C).
pub(crate) const SUBPAGES_PER_BITMAP_ENTRY: u64 = 32;

/// Kind of an entry of the second-level TLB.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum EntryKind {
    /// An ordinary 4KB page.
    #[default]
    Page4K,
    /// An ordinary 2MB page.
    Page2M,
    /// An ordinary 1GB page.
    Page1G,
    /// A perforated 2MB page with its hole filter.
    Perforated,
    /// The 4KB translation of a hole.
    Hole,
    /// 32 bits of a hole bitmap.
    Bitmap,
    /// A run of 4KB pages (TLB coalescing). A look-up returns an entry for a single page of the
    /// run.
    Run,
    /// A guest's 2MB page over 4KB pages of the host, with a guest frame and possibly a hole filter
    /// (P §V).
    Intermediate,
}

impl EntryKind {
    /// Page size of an entry of this kind, which determines where the entry is placed.
    #[inline]
    pub(crate) const fn size(self) -> PageSize {
        match self {
            Self::Page2M | Self::Perforated | Self::Intermediate => PageSize::Size2M,
            Self::Page1G => PageSize::Size1G,
            Self::Page4K | Self::Hole | Self::Bitmap | Self::Run => PageSize::Size4K,
        }
    }
}

/// Kinds in the order of their encodings in an entry.
const KINDS: [EntryKind; 8] = [
    EntryKind::Page4K,
    EntryKind::Page2M,
    EntryKind::Page1G,
    EntryKind::Perforated,
    EntryKind::Hole,
    EntryKind::Bitmap,
    EntryKind::Run,
    EntryKind::Intermediate,
];

/// One entry in one word: kind (3 bits), [`allow`] bits (4 bits), then a page's filter (8 bits) and
/// first frame (40 bits), or 32 bits of a bitmap. The entry of a run has the index of its first
/// page in the place of the filter, and its length minus one in the highest bits.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct L2Entry(pub(crate) u64);

const ALLOWS_SHIFT: u32 = 3;
const BITS_SHIFT: u32 = 8;
const FRAME_SHIFT: u32 = 16;
const FRAME_MASK: u64 = (1 << 40) - 1;

impl L2Entry {
    /// Creates an entry for a page of any kind or a hole; `filter` is 0 without holes.
    #[inline]
    pub(crate) fn page(kind: EntryKind, frame: Frame, allows: u8, filter: u8) -> Self {
        Self(
            frame.number() << FRAME_SHIFT
                | u64::from(filter) << BITS_SHIFT
                | u64::from(allows) << ALLOWS_SHIFT
                | kind as u64,
        )
    }

    /// Creates an entry for 32 bits of a hole bitmap.
    #[inline]
    pub(crate) fn bitmap(bits: u32) -> Self {
        Self(u64::from(bits) << BITS_SHIFT | EntryKind::Bitmap as u64)
    }

    #[inline]
    pub(crate) fn kind(self) -> EntryKind {
        KINDS[(self.0 & 7) as usize]
    }

    /// Accesses that the entry of a page allows, as bits of [`allow`].
    #[inline]
    pub(crate) fn allows(self) -> u8 {
        (self.0 >> ALLOWS_SHIFT & 15) as u8
    }

    /// First frame of the page or run that the entry maps.
    #[inline]
    pub(crate) fn frame(self) -> Frame {
        Frame::new(self.0 >> FRAME_SHIFT & FRAME_MASK)
    }

    /// Hole filter of the page; 0 if an entry of a page has no holes.
    #[inline]
    pub(crate) fn filter(self) -> u8 {
        (self.0 >> BITS_SHIFT) as u8
    }

    /// Returns the entry of a page or run with the dirty bit set.
    #[inline]
    pub(crate) fn with_dirty(self) -> Self {
        Self(self.0 | u64::from(allow::DIRTY) << ALLOWS_SHIFT)
    }

    /// True if the page that this entry maps has holes.
    #[inline]
    pub(crate) fn has_holes(self) -> bool {
        match self.kind() {
            EntryKind::Perforated => true,
            EntryKind::Intermediate => self.filter() != 0,
            _ => false,
        }
    }

    /// The 32 bits of the hole bitmap that a bitmap entry holds.
    #[inline]
    pub(crate) fn bits(self) -> u32 {
        (self.0 >> BITS_SHIFT) as u32
    }
}

/// Kind of an entry in the lowest bits of its key, so entries of different kinds never have the
/// same key.
#[derive(Clone, Copy)]
pub(crate) enum Tag {
    Page4K = 0,
    Page2M = 1,
    Run = 2,
    Bitmap = 3,
    Page1G = 4,
}

/// Number of bits of the [`Tag`] (kind of entry) in the key of a TLB entry.
const TAG_BITS: u32 = 3;
/// Number of bits for tag and address space in a key. The page number is above them. Numbers of 4KB
/// pages have at most 45 bits (57-bit addresses).
const NUMBER_SHIFT: u32 = 16 + TAG_BITS;

impl Tag {
    /// Number of `page` in keys of this kind, at the granularity of the entries. Not for runs,
    /// because only the TLB knows the size of their windows.
    const fn number(self, page: VirtualPage) -> u64 {
        match self {
            Self::Page4K | Self::Run => page.number(),
            Self::Page2M => page.number() / PageSize::Size2M.pages(),
            Self::Page1G => page.number() / PageSize::Size1G.pages(),
            Self::Bitmap => page.number() / SUBPAGES_PER_BITMAP_ENTRY,
        }
    }

    const fn key(self, space: SpaceId, page: VirtualPage) -> u64 {
        self.key_of(space, self.number(page))
    }

    pub(crate) const fn key_of(self, space: SpaceId, number: u64) -> u64 {
        number << NUMBER_SHIFT | (space.0 as u64) << TAG_BITS | self as u64
    }
}

/// Bit in a key's address-space number that marks guest-physical addresses. If it is set, the other
/// bits are the virtual machine's address space in its host.
pub(crate) const NESTED: u16 = 1 << 15;

const fn space_of(key: u64) -> u16 {
    (key >> TAG_BITS) as u16
}

/// Ways of the shared array in which entries of one page size are placed.
#[derive(Clone)]
enum Places {
    All,
    Some(Range<usize>),
    None,
}

impl Places {
    fn new(ways: Ways, of: usize) -> Self {
        match ways.of(of) {
            none if none.is_empty() => Self::None,
            all if all.len() == of => Self::All,
            some => Self::Some(some),
        }
    }
}

/// The second-level TLB.
#[derive(Clone)]
pub(crate) struct L2Tlb {
    pub(crate) shared: SetAssociative<L2Entry>,
    /// Separate array of 2MB entries; `None` if they are placed in `shared`.
    large: Option<SetAssociative<L2Entry>>,
    /// Separate array of 1GB entries; `None` if they are placed in `shared`.
    huge: Option<SetAssociative<L2Entry>>,
    /// Ways of `shared` in which entries of each page size are placed, smallest size first.
    places: [Places; 3],
    /// True if a 2MB entry was filled since the last flush; otherwise look-ups skip such entries.
    has_large: bool,
    /// True if a 1GB entry was filled since the last flush; otherwise look-ups skip such entries.
    has_huge: bool,
    /// Number of 4KB pages in an aligned window, which no run may cross; 0 if the TLB does not
    /// coalesce.
    pub(crate) window: u64,
}

impl L2Tlb {
    pub(crate) fn new(config: &TlbConfig) -> Self {
        let ways = [config.l2_4k, config.l2_2m.ways(), config.l2_1g.ways()];
        Self {
            shared: SetAssociative::new(config.l2),
            large: config.l2_2m.own().map(SetAssociative::new),
            huge: config.l2_1g.own().map(SetAssociative::new),
            places: ways.map(|ways| Places::new(ways, config.l2.ways)),
            has_large: false,
            has_huge: false,
            window: config.l2_coalescing.map_or(0, |coalescing| coalescing.pages),
        }
    }

    /// Creates a separate TLB of guest-physical addresses, for pages of 4KB and 2MB. It does not
    /// coalesce.
    pub(crate) fn nested(geometry: TlbGeometry) -> Self {
        Self {
            shared: SetAssociative::new(geometry),
            large: None,
            huge: None,
            places: [Places::All, Places::All, Places::None],
            has_large: false,
            has_huge: false,
            window: 0,
        }
    }

    /// All arrays of the second-level TLB, in the order in which their slots are numbered.
    fn arrays(&self) -> impl Iterator<Item = &SetAssociative<L2Entry>> {
        std::iter::once(&self.shared).chain(&self.large).chain(&self.huge)
    }

    fn arrays_mut(&mut self) -> impl Iterator<Item = &mut SetAssociative<L2Entry>> {
        std::iter::once(&mut self.shared).chain(&mut self.large).chain(&mut self.huge)
    }

    pub(crate) fn slots(&self) -> usize {
        self.arrays().map(SetAssociative::slots).sum()
    }

    fn entries(&self) -> usize {
        self.arrays().map(SetAssociative::entries).sum()
    }

    /// Separate array for entries of this size and its first slot number; `None` if these entries
    /// are in `shared`.
    #[inline]
    fn own(&mut self, size: PageSize) -> Option<(&mut SetAssociative<L2Entry>, usize)> {
        let shared = self.shared.slots();
        match size {
            PageSize::Size4K => None,
            PageSize::Size2M => Some((self.large.as_mut()?, shared)),
            PageSize::Size1G => {
                let large = self.large.as_ref().map_or(0, SetAssociative::slots);
                Some((self.huge.as_mut()?, shared + large))
            }
        }
    }

    #[inline]
    fn find(&mut self, tag: Tag, space: SpaceId, page: VirtualPage) -> Option<usize> {
        self.shared.look_up(tag.number(page), tag.key(space, page))
    }

    /// Looks up the entry of a 2MB or 1GB page. Returns its slot and the entry.
    #[inline]
    fn find_large(
        &mut self,
        (tag, size): (Tag, PageSize),
        space: SpaceId,
        page: VirtualPage,
    ) -> Option<(u32, L2Entry)> {
        if let Some((array, first_slot)) = self.own(size) {
            let slot = array.look_up(tag.number(page), tag.key(space, page))?;
            return Some(((first_slot + slot) as u32, array.value(slot)));
        }
        let slot = self.find(tag, space, page)?;
        Some((slot as u32, self.shared.value(slot)))
    }

    /// Looks up entries of 4KB pages, 2MB pages, runs and 1GB pages, which hardware compares in
    /// parallel. Returns the slot and the entry.
    #[inline(always)]
    pub(crate) fn look_up(&mut self, space: SpaceId, page: VirtualPage) -> Option<(u32, L2Entry)> {
        if let Some(slot) = self.find(Tag::Page4K, space, page) {
            return Some((slot as u32, self.shared.value(slot)));
        }
        if self.has_large | self.has_huge | (self.window != 0) {
            return self.look_up_larger(space, page);
        }
        None
    }

    #[inline(never)]
    fn look_up_larger(&mut self, space: SpaceId, page: VirtualPage) -> Option<(u32, L2Entry)> {
        if self.has_large
            && let Some(found) = self.find_large((Tag::Page2M, PageSize::Size2M), space, page)
        {
            return Some(found);
        }
        if self.window != 0
            && let Some(found) = self.look_up_run(space, page)
        {
            return Some(found);
        }
        if !self.has_huge {
            return None;
        }
        self.find_large((Tag::Page1G, PageSize::Size1G), space, page)
    }

    /// Looks up the bitmap entry that covers `page`. Returns the slot and the 32 bits.
    pub(crate) fn look_up_bitmap(
        &mut self,
        space: SpaceId,
        page: VirtualPage,
    ) -> Option<(u32, u32)> {
        let slot = self.find(Tag::Bitmap, space, page)?;
        Some((slot as u32, self.shared.value(slot).bits()))
    }

    /// Fills an entry for `page` and returns its slot; `None` if the TLB has no ways for entries of
    /// this page size. For the entry of a page, the preceding look-up must have missed. A bitmap
    /// entry may be present already and is then replaced.
    #[inline(always)]
    pub(crate) fn fill(
        &mut self,
        space: SpaceId,
        page: VirtualPage,
        entry: L2Entry,
    ) -> Option<u32> {
        if let EntryKind::Page4K | EntryKind::Hole = entry.kind() {
            let place = (page.number(), Tag::Page4K.key(space, page));
            return self.insert_absent(PageSize::Size4K, place, entry);
        }
        self.fill_other(space, page, entry)
    }

    /// Like [`Self::fill`], for entries that do not stand for one 4KB page.
    #[inline(never)]
    fn fill_other(&mut self, space: SpaceId, page: VirtualPage, entry: L2Entry) -> Option<u32> {
        let tag = match entry.kind() {
            EntryKind::Page4K | EntryKind::Hole => unreachable!("it stands for one page"),
            EntryKind::Run => unreachable!("runs are filled with their window"),
            EntryKind::Page2M | EntryKind::Perforated | EntryKind::Intermediate => {
                self.has_large = true;
                Tag::Page2M
            }
            EntryKind::Bitmap => {
                let (number, key) = (Tag::Bitmap.number(page), Tag::Bitmap.key(space, page));
                return self.insert_small(number, key, entry);
            }
            EntryKind::Page1G => {
                self.has_huge = true;
                Tag::Page1G
            }
        };
        self.insert_absent(entry.kind().size(), (tag.number(page), tag.key(space, page)), entry)
    }

    /// Inserts an entry into the ways for its page size, in an empty slot or that of the least
    /// recently used entry. The key must be absent. Returns the slot; `None` if there are no ways
    /// for this size.
    #[inline(always)]
    fn insert_absent(
        &mut self,
        size: PageSize,
        (number, key): (u64, u64),
        entry: L2Entry,
    ) -> Option<u32> {
        if let Some((array, first_slot)) = self.own(size) {
            return Some((first_slot + array.insert_absent(number, key, entry)) as u32);
        }
        let slot = match &self.places[size as usize] {
            Places::All => self.shared.insert_absent(number, key, entry),
            Places::Some(ways) => self.shared.insert_absent_among(ways, number, key, entry),
            Places::None => return None,
        };
        Some(slot as u32)
    }

    /// Fills an entry into the ways for 4KB pages, where bitmap entries and runs are also placed.
    /// Replaces an entry with the same key, if any. Returns the slot; `None` if there are no such
    /// ways.
    pub(crate) fn insert_small(&mut self, number: u64, key: u64, entry: L2Entry) -> Option<u32> {
        match self.shared.look_up(number, key) {
            Some(slot) => {
                *self.shared.value_mut(slot) = entry;
                Some(slot as u32)
            }
            None => self.insert_absent(PageSize::Size4K, (number, key), entry),
        }
    }

    /// Sets the dirty bit of the entry in `slot` if the slot still holds `entry`. A later fill may
    /// have replaced the entry.
    pub(crate) fn mark_dirty(&mut self, slot: u32, entry: L2Entry) {
        let mut slot = slot as usize;
        for array in self.arrays_mut() {
            let slots = array.slots();
            if slot < slots {
                let held = array.value_mut(slot);
                if *held == entry {
                    *held = held.with_dirty();
                }
                return;
            }
            slot -= slots;
        }
    }

    pub(crate) fn invalidate_page(&mut self, space: SpaceId, page: VirtualPage) {
        self.shared.invalidate(page.number(), Tag::Page4K.key(space, page));
    }

    pub(crate) fn invalidate_bitmap(&mut self, space: SpaceId, page: VirtualPage) {
        self.shared.invalidate(Tag::Bitmap.number(page), Tag::Bitmap.key(space, page));
    }

    /// Rewrites the bitmap entry that covers `page`; LRU state does not change. Returns false if
    /// there is no such entry.
    pub(crate) fn update_bitmap(&mut self, space: SpaceId, page: VirtualPage, bits: u32) -> bool {
        let slot = self.shared.find_key(Tag::Bitmap.number(page), Tag::Bitmap.key(space, page));
        if let Some(slot) = slot {
            *self.shared.value_mut(slot) = L2Entry::bitmap(bits);
        }
        slot.is_some()
    }

    /// Invalidates every entry that overlaps a range of 4KB pages, including bitmap entries.
    /// Entries of all sizes are compared, because a guest's large page over smaller host pages has
    /// several small entries.
    pub(crate) fn invalidate_range(&mut self, space: SpaceId, pages: &Range<u64>) {
        let window = self.window;
        let overlaps = |number: u64, length: u64| {
            number * length < pages.end && pages.start < (number + 1) * length
        };
        let is_dead = |key: u64| {
            let length = match key & ((1 << TAG_BITS) - 1) {
                0 => 1,
                1 => PageSize::Size2M.pages(),
                2 => window,
                3 => SUBPAGES_PER_BITMAP_ENTRY,
                _ => PageSize::Size1G.pages(),
            };
            space_of(key) == space.0 && overlaps(key >> NUMBER_SHIFT, length)
        };
        self.invalidate_if(is_dead);
    }

    pub(crate) fn invalidate_space(&mut self, space: SpaceId) {
        self.invalidate_if(|key| space_of(key) == space.0);
    }

    pub(crate) fn flush(&mut self) {
        self.invalidate_if(|_| true);
        (self.has_large, self.has_huge) = (false, false);
    }

    /// Invalidates all entries of virtual addresses; those of guest-physical addresses stay.
    pub(crate) fn flush_virtual(&mut self) {
        self.invalidate_if(|key| space_of(key) & NESTED == 0);
    }

    fn invalidate_if(&mut self, is_dead: impl Fn(u64) -> bool) {
        self.arrays_mut().for_each(|array| array.invalidate_if(&is_dead));
    }

    /// Appends all entries of the TLB to `out`.
    pub(crate) fn inspect(&self, (core, unit): (usize, Unit), out: &mut Vec<CachedEntry>) {
        let mut first_slot = 0;
        for (index, array) in self.arrays().enumerate() {
            for (slot, key, entry) in array.iter_slots() {
                let (set, way) = array.place(slot);
                let (number, space) = (key >> NUMBER_SHIFT, space_of(key));
                let (first, pages, content) = self.inspected(number, entry);
                out.push(CachedEntry {
                    core,
                    unit,
                    slot: (first_slot + slot) as u32,
                    place: (index, set, way),
                    space: SpaceId(space & !NESTED),
                    is_guest_physical: space & NESTED != 0,
                    first: VirtualPage::new(first),
                    pages,
                    content,
                });
            }
            first_slot += array.slots();
        }
    }

    /// Decodes an entry whose key has this `number`: first page, number of pages, and content.
    fn inspected(&self, number: u64, entry: L2Entry) -> (u64, u64, CachedContent) {
        let (kind, frame, allows) = (entry.kind(), entry.frame(), entry.allows());
        let page = |filter| CachedContent::Page { kind, frame, allows, filter };
        match kind {
            EntryKind::Bitmap => {
                let pages = SUBPAGES_PER_BITMAP_ENTRY;
                (number * pages, pages, CachedContent::Bitmap(entry.bits()))
            }
            EntryKind::Run => {
                let run = entry.pages_of_run();
                (number * self.window + run.first, run.pages, page(0))
            }
            _ => {
                let pages = kind.size().pages();
                (number * pages, pages, page(entry.filter()))
            }
        }
    }

    /// Returns the number of this TLB's entries of each kind.
    pub(crate) fn contents(&self) -> L2Contents {
        let mut contents = L2Contents { empty: self.entries() as u64, ..L2Contents::default() };
        for (key, entry) in self.arrays().flat_map(SetAssociative::iter) {
            contents.empty -= 1;
            if space_of(key) & NESTED != 0 {
                contents.nested += 1;
                continue;
            }
            *match entry.kind() {
                EntryKind::Page4K => &mut contents.page_4k,
                EntryKind::Page2M => &mut contents.page_2m,
                EntryKind::Page1G => &mut contents.page_1g,
                EntryKind::Perforated => &mut contents.perforated,
                EntryKind::Hole => &mut contents.hole,
                EntryKind::Bitmap => &mut contents.bitmap,
                EntryKind::Run => &mut contents.coalesced,
                EntryKind::Intermediate => &mut contents.intermediate,
            } += 1;
        }
        contents
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Coalescing, CoalescingForm, L2Part, MmuConfig, Run};

    /// Fills many entries of every kind, with virtual and guest-physical addresses. Each entry must
    /// be in a way for its size.
    #[test]
    fn entries_of_every_kind_stay_in_the_ways_for_their_size() {
        let geometry = TlbGeometry { entries: 64, ways: 8 };
        let mut tlb = MmuConfig::plain(geometry, geometry).tlb;
        tlb.l2_4k = Ways::Range { first: 1, last: 4 };
        tlb.l2_2m = L2Part::Ways(Ways::Range { first: 3, last: 6 });
        tlb.l2_1g = L2Part::Ways(Ways::Range { first: 8, last: 8 });
        tlb.l2_coalescing = Some(Coalescing { pages: 4, form: CoalescingForm::Runs });
        let mut l2 = L2Tlb::new(&tlb);
        let ways_of = |size| match size {
            PageSize::Size4K => 0..4,
            PageSize::Size2M => 2..6,
            PageSize::Size1G => 7..8,
        };
        let mut filled = [0_u32; 3];
        for number in 0..4_000_u64 {
            let kind = KINDS[(number % 8) as usize];
            let page = VirtualPage::new(number * 7919 % 512 * kind.size().pages());
            let space = SpaceId(if number % 3 == 0 { NESTED } else { 1 });
            let slot = match kind {
                EntryKind::Run => {
                    let run = Run { first: 0, pages: 4, frame: Frame::new(number) };
                    l2.fill_run(space, page, &run, 1)
                }
                EntryKind::Bitmap => l2.fill(space, page, L2Entry::bitmap(1)),
                _ if l2.look_up(space, page).is_some() => None,
                _ => l2.fill(space, page, L2Entry::page(kind, Frame::new(number), 1, 1)),
            };
            let Some(slot) = slot else { continue };
            assert!(ways_of(kind.size()).contains(&(slot as usize % 8)), "{kind:?} in {slot}");
            filled[kind.size() as usize] += 1;
        }
        assert!(filled.iter().all(|&count| count > 50), "{filled:?}");
        assert_eq!(l2.contents().page_1g + l2.contents().page_2m, {
            let held = l2.shared.iter().filter(|(key, _)| space_of(*key) & NESTED == 0);
            let kinds = held.map(|(_, entry)| entry.kind());
            kinds.filter(|kind| matches!(kind, EntryKind::Page2M | EntryKind::Page1G)).count()
                as u64
        });
    }

    /// The TLB holds entries of two address spaces and of guest-physical addresses. A flush of
    /// virtual addresses keeps the guest-physical entries, and one of an address space keeps all others.
    #[test]
    fn a_flush_leaves_what_it_is_not_for() {
        let geometry = TlbGeometry { entries: 64, ways: 4 };
        let left_after = |flush: fn(&mut L2Tlb)| {
            let mut tlb = MmuConfig::plain(geometry, geometry).tlb;
            tlb.l2_1g = L2Part::Ways(Ways::Range { first: 1, last: 4 });
            let mut l2 = L2Tlb::new(&tlb);
            for space in [1, 2, NESTED] {
                // Pages whose sizes go to sets 5, 7 and 0 to 2.
                for (kind, offset) in
                    [(EntryKind::Page4K, 5), (EntryKind::Page2M, 7 * 512), (EntryKind::Page1G, 0)]
                {
                    let first = u64::from(space & 3) * PageSize::Size1G.pages();
                    let page = VirtualPage::new(first + offset);
                    l2.fill(SpaceId(space), page, L2Entry::page(kind, Frame::new(9), 1, 1));
                }
            }
            flush(&mut l2);
            let mut entries = Vec::new();
            l2.inspect((0, Unit::L2Tlb), &mut entries);
            let of = |is_guest_physical, space| {
                let is_of = |one: &&CachedEntry| {
                    (one.is_guest_physical, one.space) == (is_guest_physical, SpaceId(space))
                };
                entries.iter().filter(is_of).count()
            };
            [of(false, 1), of(false, 2), of(true, 0)]
        };
        assert_eq!(left_after(|_| {}), [3, 3, 3]);
        assert_eq!(left_after(L2Tlb::flush), [0, 0, 0]);
        assert_eq!(left_after(L2Tlb::flush_virtual), [0, 0, 3]);
        assert_eq!(left_after(|l2| l2.invalidate_space(SpaceId(1))), [0, 3, 3]);
    }

    /// Each entry covers the pages from its first one to before the first one of the next.
    #[test]
    fn entries_that_overlap_a_range_at_either_end_go() {
        let geometry = TlbGeometry { entries: 64, ways: 4 };
        let space = SpaceId(1);
        for kind in [EntryKind::Page2M, EntryKind::Page1G] {
            let pages = kind.size().pages();
            let is_left = |range: Range<u64>| {
                let mut tlb = MmuConfig::plain(geometry, geometry).tlb;
                tlb.l2_1g = L2Part::Ways(Ways::Range { first: 1, last: 4 });
                let mut l2 = L2Tlb::new(&tlb);
                let page = VirtualPage::new(3 * pages);
                l2.fill(space, page, L2Entry::page(kind, Frame::new(9), 1, 1));
                l2.invalidate_range(space, &range);
                l2.look_up(space, page).is_some()
            };
            let (first, end) = (3 * pages, 4 * pages);
            for (range, expected) in [
                (first - 1..first, true),
                (first - 1..first + 1, false),
                (first + 7..first + 8, false),
                (end - 1..end + 9, false),
                (end..end + 1, true),
            ] {
                assert_eq!(is_left(range.clone()), expected, "{kind:?} {range:?}");
            }
        }
    }
}
