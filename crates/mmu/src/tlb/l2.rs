//! Second-level TLB: 4KB, 2MB, perforated, hole and bitmap entries share one array (P §IV.C), and
//! with them runs of 4KB pages, where it coalesces.
//!
//! Every kind of entry has an index and a key of its own: the number of its 4KB page, 2MB region,
//! 128KB of bitmap, or window of pages. A window has at most one run at a time.

use std::ops::Range;

use perforate_types::{Frame, PageSize, SpaceId, VirtualPage};

use super::{L2Contents, SetAssociative};
use crate::{TlbConfig, TlbGeometry, allow};

/// Sub-pages whose holes one bitmap entry tells: 32 bits fit a TLB entry (P §IV.C).
pub(crate) const SUBPAGES_PER_BITMAP_ENTRY: u64 = 32;

/// Kinds of entries of the second-level TLB.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum EntryKind {
    /// A 4KB page.
    #[default]
    Page4K,
    /// An ordinary 2MB page.
    Page2M,
    /// A 1GB page.
    Page1G,
    /// A perforated page with its filter.
    Perforated,
    /// The 4KB translation of a hole.
    Hole,
    /// 32 bits of hole bitmap.
    Bitmap,
    /// A run of 4KB pages (TLB coalescing). What a look-up returns is the entry of the one page.
    Run,
    /// A guest's 2MB page, perhaps with its filter, whose frame is a guest's: the host has 4KB pages
    /// there (P §V).
    Intermediate,
}

impl EntryKind {
    /// Size of the page that an entry of this kind translates.
    #[inline]
    pub(crate) const fn size(self) -> PageSize {
        match self {
            Self::Page2M | Self::Perforated | Self::Intermediate => PageSize::Size2M,
            Self::Page1G => PageSize::Size1G,
            Self::Page4K | Self::Hole | Self::Bitmap | Self::Run => PageSize::Size4K,
        }
    }
}

/// Kinds in the order of their numbers in an entry.
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

/// One entry in one word: kind (3 bits), what it allows (4 bits), and above them a page's filter
/// (8 bits) and first frame (40 bits), or 32 bits of bitmap. A run has the place of its first page in
/// place of the filter, and its length less one in the highest bits.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct L2Entry(pub(crate) u64);

const ALLOWS_SHIFT: u32 = 3;
const BITS_SHIFT: u32 = 8;
const FRAME_SHIFT: u32 = 16;
const FRAME_MASK: u64 = (1 << 40) - 1;

impl L2Entry {
    /// An entry of a page, ordinary or perforated, or of a hole.
    #[inline]
    pub(crate) fn page(kind: EntryKind, frame: Frame, allows: u8, filter: u8) -> Self {
        Self(
            frame.number() << FRAME_SHIFT
                | u64::from(filter) << BITS_SHIFT
                | u64::from(allows) << ALLOWS_SHIFT
                | kind as u64,
        )
    }

    /// An entry of bitmap bits.
    #[inline]
    pub(crate) fn bitmap(bits: u32) -> Self {
        Self(u64::from(bits) << BITS_SHIFT | EntryKind::Bitmap as u64)
    }

    #[inline]
    pub(crate) fn kind(self) -> EntryKind {
        KINDS[(self.0 & 7) as usize]
    }

    /// The accesses that a page's entry allows, as bits of [`allow`].
    #[inline]
    pub(crate) fn allows(self) -> u8 {
        (self.0 >> ALLOWS_SHIFT & 15) as u8
    }

    /// First frame of a page.
    #[inline]
    pub(crate) fn frame(self) -> Frame {
        Frame::new(self.0 >> FRAME_SHIFT & FRAME_MASK)
    }

    /// Filter of a perforated page.
    #[inline]
    pub(crate) fn filter(self) -> u8 {
        (self.0 >> BITS_SHIFT) as u8
    }

    /// Whether it is of a page with holes.
    #[inline]
    pub(crate) fn has_holes(self) -> bool {
        match self.kind() {
            EntryKind::Perforated => true,
            EntryKind::Intermediate => self.filter() != 0,
            _ => false,
        }
    }

    /// The bits of a bitmap entry.
    #[inline]
    pub(crate) fn bits(self) -> u32 {
        (self.0 >> BITS_SHIFT) as u32
    }
}

/// The kind of thing that a key in the shared array names; part of the key.
#[derive(Clone, Copy)]
pub(crate) enum Tag {
    Page4K = 0,
    Page2M = 1,
    Run = 2,
    Bitmap = 3,
}

impl Tag {
    /// Of what is not a run, whose windows the TLB knows.
    const fn number(self, page: VirtualPage) -> u64 {
        match self {
            Self::Page4K | Self::Run => page.number(),
            Self::Page2M => page.number() / PageSize::Size2M.pages(),
            Self::Bitmap => page.number() / SUBPAGES_PER_BITMAP_ENTRY,
        }
    }

    const fn key(self, space: SpaceId, page: VirtualPage) -> u64 {
        self.key_of(space, self.number(page))
    }

    pub(crate) const fn key_of(self, space: SpaceId, number: u64) -> u64 {
        number << 18 | (space.0 as u64) << 2 | self as u64
    }
}

/// Address spaces from here on are virtual machines, whose pages are guest-physical.
pub(crate) const NESTED: u16 = 1 << 15;

const fn space_of(key: u64) -> u16 {
    (key >> 2) as u16
}

/// Key in the array of 1GB pages.
const fn huge_key(space: SpaceId, page: VirtualPage) -> u64 {
    (page.number() / PageSize::Size1G.pages()) << 18 | (space.0 as u64) << 2
}

/// The second-level TLB.
#[derive(Clone)]
pub(crate) struct L2Tlb {
    pub(crate) shared: SetAssociative<L2Entry>,
    huge: Option<SetAssociative<L2Entry>>,
    /// Whether `shared` takes 2MB-grained entries.
    large: bool,
    /// Pages of a window of runs; 0 where the TLB does not coalesce.
    pub(crate) window: u64,
}

impl L2Tlb {
    pub(crate) fn new(config: &TlbConfig) -> Self {
        Self {
            shared: SetAssociative::new(config.l2),
            huge: config.l2_1g.map(SetAssociative::new),
            large: config.l2_2m,
            window: config.l2_coalescing.map_or(0, |coalescing| coalescing.pages),
        }
    }

    /// A TLB of guest-physical addresses apart from the second level. It does not coalesce.
    pub(crate) fn nested(geometry: TlbGeometry) -> Self {
        Self { shared: SetAssociative::new(geometry), huge: None, large: true, window: 0 }
    }

    pub(crate) fn slots(&self) -> usize {
        self.shared.slots() + self.huge.as_ref().map_or(0, SetAssociative::slots)
    }

    fn entries(&self) -> usize {
        self.shared.entries() + self.huge.as_ref().map_or(0, SetAssociative::entries)
    }

    #[inline]
    fn find(&mut self, tag: Tag, space: SpaceId, page: VirtualPage) -> Option<usize> {
        self.shared.look_up(tag.number(page), tag.key(space, page))
    }

    /// Looks up 4KB and 2MB entries, runs and 1GB entries at once.
    #[inline]
    pub(crate) fn look_up(&mut self, space: SpaceId, page: VirtualPage) -> Option<(u32, L2Entry)> {
        let shared =
            self.find(Tag::Page4K, space, page).or_else(|| self.find(Tag::Page2M, space, page));
        if let Some(slot) = shared {
            return Some((slot as u32, self.shared.value(slot)));
        }
        if self.window != 0
            && let Some(found) = self.look_up_run(space, page)
        {
            return Some(found);
        }
        let huge = self.huge.as_mut().filter(|huge| !huge.is_empty())?;
        let slot = huge.look_up(page.number() / PageSize::Size1G.pages(), huge_key(space, page))?;
        Some(((self.shared.slots() + slot) as u32, huge.value(slot)))
    }

    /// Looks up the 32 bits of bitmap that tell of `page`.
    pub(crate) fn look_up_bitmap(
        &mut self,
        space: SpaceId,
        page: VirtualPage,
    ) -> Option<(u32, u32)> {
        let slot = self.find(Tag::Bitmap, space, page)?;
        Some((slot as u32, self.shared.value(slot).bits()))
    }

    /// Fills an entry for `page`; `None` where no array can hold it (a 1GB page, or a 2MB page
    /// where the array takes 4KB entries only). An entry for a page was looked up in vain; one of
    /// bitmap bits may be there already.
    pub(crate) fn fill(
        &mut self,
        space: SpaceId,
        page: VirtualPage,
        entry: L2Entry,
    ) -> Option<u32> {
        let tag = match entry.kind() {
            EntryKind::Page4K | EntryKind::Hole => Tag::Page4K,
            EntryKind::Run => unreachable!("runs are filled with their window"),
            EntryKind::Page2M | EntryKind::Perforated | EntryKind::Intermediate => {
                if !self.large {
                    return None;
                }
                Tag::Page2M
            }
            EntryKind::Bitmap => {
                let (number, key) = (Tag::Bitmap.number(page), Tag::Bitmap.key(space, page));
                return Some(self.shared.insert(number, key, entry) as u32);
            }
            EntryKind::Page1G => {
                let number = page.number() / PageSize::Size1G.pages();
                let slot = self.huge.as_mut()?.insert_absent(number, huge_key(space, page), entry);
                return Some((self.shared.slots() + slot) as u32);
            }
        };
        Some(self.shared.insert_absent(tag.number(page), tag.key(space, page), entry) as u32)
    }

    /// Notes that the leaf behind `entry` is dirty now, if `slot` still holds it: what was filled
    /// since may have taken its place.
    pub(crate) fn mark_dirty(&mut self, slot: u32, entry: L2Entry) {
        let slot = slot as usize;
        let held = match &mut self.huge {
            Some(huge) if slot >= self.shared.slots() => huge.value_mut(slot - self.shared.slots()),
            _ => self.shared.value_mut(slot),
        };
        if *held == entry {
            held.0 |= u64::from(allow::DIRTY) << ALLOWS_SHIFT;
        }
    }

    pub(crate) fn invalidate_page(&mut self, space: SpaceId, page: VirtualPage) {
        self.shared.invalidate(page.number(), Tag::Page4K.key(space, page));
    }

    pub(crate) fn invalidate_bitmap(&mut self, space: SpaceId, page: VirtualPage) {
        self.shared.invalidate(Tag::Bitmap.number(page), Tag::Bitmap.key(space, page));
    }

    /// Rewrites the bitmap entry that covers `page`, if there is one; that is no use of it. Returns
    /// whether there was.
    pub(crate) fn update_bitmap(&mut self, space: SpaceId, page: VirtualPage, bits: u32) -> bool {
        let slot = self.shared.find_key(Tag::Bitmap.number(page), Tag::Bitmap.key(space, page));
        if let Some(slot) = slot {
            *self.shared.value_mut(slot) = L2Entry::bitmap(bits);
        }
        slot.is_some()
    }

    /// Forgets every entry that overlaps a range of 4KB pages, bitmap entries included. Over a host
    /// with smaller pages, a large page of a guest is in small entries.
    pub(crate) fn invalidate_range(&mut self, space: SpaceId, pages: &Range<u64>) {
        let overlaps = |number: u64, length: u64| {
            number * length < pages.end && pages.start < (number + 1) * length
        };
        self.shared.invalidate_if(|key| {
            let length = match key & 3 {
                0 => 1,
                1 => PageSize::Size2M.pages(),
                2 => self.window,
                _ => SUBPAGES_PER_BITMAP_ENTRY,
            };
            space_of(key) == space.0 && overlaps(key >> 18, length)
        });
        if let Some(huge) = &mut self.huge {
            huge.invalidate_if(|key| {
                space_of(key) == space.0 && overlaps(key >> 18, PageSize::Size1G.pages())
            });
        }
    }

    pub(crate) fn invalidate_space(&mut self, space: SpaceId) {
        self.shared.invalidate_if(|key| space_of(key) == space.0);
        if let Some(huge) = &mut self.huge {
            huge.invalidate_if(|key| space_of(key) == space.0);
        }
    }

    pub(crate) fn flush(&mut self) {
        self.shared.invalidate_if(|_| true);
        if let Some(huge) = &mut self.huge {
            huge.invalidate_if(|_| true);
        }
    }

    /// Forgets everything but guest-physical addresses.
    pub(crate) fn flush_virtual(&mut self) {
        let is_virtual = |key| space_of(key) & NESTED == 0;
        self.shared.invalidate_if(is_virtual);
        if let Some(huge) = &mut self.huge {
            huge.invalidate_if(is_virtual);
        }
    }

    /// The numbers of entries now.
    pub(crate) fn contents(&self) -> L2Contents {
        let mut contents = L2Contents { empty: self.entries() as u64, ..L2Contents::default() };
        let entries = self.shared.iter().chain(self.huge.iter().flat_map(|huge| huge.iter()));
        for (key, entry) in entries {
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
