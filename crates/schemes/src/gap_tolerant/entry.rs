//! Gap-tolerant page-directory entries, as 16 bytes in memory (G §3.3, §3.6).

use perforate_mmu::{TableMemory, WalkCacheConfig};
use perforate_types::{
    CHUNK_FRAMES, Frame, GT_PDE_BYTES, GapTolerance, PageSize, PageTableEntry, Permissions,
    PhysicalAddress, SUPERPAGE_BLOCKS, VirtualPage,
};

use super::decode::PrefixSums;

/// Lowest bit of the field Offset-B of a paired entry: the low six bits of the second slice's base,
/// in units of 2MB (G Fig. 9(a)).
const OFFSET_B_SHIFT: u32 = 15;
const OFFSET_B: u64 = 63 << OFFSET_B_SHIFT;

/// A GT-PDE or P-GT-PDE: the entry of a 2MB page followed by a selection bitmap. In a paired entry,
/// bits 15–20 of the first word, which a 2MB page leaves unused, hold the second slice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GapTolerantEntry {
    /// First word of the entry: base of the slice, permissions and status bits.
    pub first: PageTableEntry,
    /// Second word of the entry: the selection bitmap, with a bit for each B-block (64th) of the
    /// slice.
    pub selection: u64,
}

/// Slice, B-block (64th of the slice) and frame of one 4KB page that a gap-tolerant entry maps.
pub(super) struct Selected {
    pub(super) slice: Frame,
    pub(super) block: u32,
    pub(super) frame: Frame,
}

/// Position of a page in a gap-tolerant entry: superpage of a pair, virtual block, and offset.
struct Place {
    second: bool,
    block: u32,
    /// Offset of the page in its B-block (64th of a slice), in frames.
    offset: u64,
}

impl GapTolerantEntry {
    /// Creates a gap-tolerant entry for superpages in two slices. An entry for one superpage is
    /// given its slice twice.
    ///
    /// # Panics
    /// If a slice is not aligned, or the two slices are not in one chunk of 128MB.
    pub(super) fn new(
        mode: GapTolerance,
        [slice, second]: [Frame; 2],
        selection: u64,
        permissions: Permissions,
    ) -> Self {
        for slice in [slice, second] {
            assert!(slice.number().is_multiple_of(mode.slice_frames()), "{slice:?} is no slice");
        }
        let chunk = |slice: Frame| slice.number() / CHUNK_FRAMES;
        assert_eq!(chunk(slice), chunk(second), "{slice:?} and {second:?} are in two chunks");
        let leaf = PageTableEntry::leaf(slice, PageSize::Size2M, permissions);
        let offset = if mode.is_paired() { second.number() % CHUNK_FRAMES / SLICE_UNIT } else { 0 };
        let first = PageTableEntry::from_bits(leaf.bits() | offset << OFFSET_B_SHIFT);
        Self { first, selection }
    }

    /// Reads a gap-tolerant entry from the 16 bytes at `address`.
    #[inline]
    pub fn read(memory: &TableMemory, address: PhysicalAddress) -> Self {
        Self { first: memory.entry(address), selection: memory.word(address.add(8)) }
    }

    pub(super) fn write(self, memory: &mut TableMemory, address: PhysicalAddress) {
        memory.set_entry(address, self.first);
        memory.set_word(address.add(8), self.selection);
    }

    /// True for a gap-tolerant entry: bit 7 distinguishes it from a pointer to a level-1 node (G
    /// §3.5).
    #[inline]
    pub fn is_superpage(self) -> bool {
        self.first.is_large()
    }

    /// First frame of the slice that the entry's first superpage is mapped to.
    pub fn slice(self) -> Frame {
        self.first.leaf_frame(PageSize::Size2M)
    }

    /// First frame of the second slice of a paired entry. Its address is that of the first slice,
    /// except for the six bits of its position in the 128MB chunk, which the field Offset-B
    /// contains.
    pub fn second(self) -> Frame {
        let slice = self.slice().number();
        let offset = (self.first.bits() & OFFSET_B) >> OFFSET_B_SHIFT;
        Frame::new(slice - slice % CHUNK_FRAMES + offset * SLICE_UNIT)
    }

    /// True if both superpages of a paired entry are in one slice, each in one half.
    pub fn is_self_paired(self, mode: GapTolerance) -> bool {
        mode.is_paired() && self.selection == u64::MAX
    }

    #[inline]
    fn place(self, mode: GapTolerance, page: VirtualPage) -> Place {
        let index = page.number() % mode.entry_pages();
        let block = (index >> mode.block_order()) as u32;
        let offset = index % mode.block_frames();
        if self.is_self_paired(mode) {
            return Place { second: false, block, offset };
        }
        Place { second: block >= SUPERPAGE_BLOCKS, block: block % SUPERPAGE_BLOCKS, offset }
    }
}

/// Unit of the field Offset-B, in frames: 2MB, the smallest slice.
const SLICE_UNIT: u64 = PageSize::Size2M.pages();

/// A gap-tolerant entry with the prefix sums of its selection bitmap, as the walk cache holds it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LoadedEntry {
    pub(super) entry: GapTolerantEntry,
    pub(super) sums: PrefixSums,
}

impl LoadedEntry {
    pub(super) fn new(entry: GapTolerantEntry) -> Self {
        Self { entry, sums: PrefixSums::of(entry.selection) }
    }

    /// Sets the accessed and dirty bits in this copy of the gap-tolerant entry.
    pub(super) fn mark_dirty(&mut self) {
        self.entry.first = self.entry.first.with_accessed(true);
    }

    /// Finds the slice, the B-block (64th of the slice) and the frame of a page that the entry
    /// maps.
    #[inline]
    pub(super) fn select(&self, mode: GapTolerance, page: VirtualPage) -> Selected {
        let entry = self.entry;
        let Place { second, block, offset } = entry.place(mode, page);
        let slice = if second { entry.second() } else { entry.slice() };
        let block = self.sums.select(entry.selection, block);
        let frame = slice.add((u64::from(block) << mode.block_order()) + offset);
        Selected { slice, block, frame }
    }
}

/// Storage that gap-tolerant entries add to the hardware, in bytes (G §3.7): GTPTCR, and a
/// selection bitmap with prefix sums in each entry of the level-2 walk cache.
pub const fn added_storage_bytes(walk_cache: &WalkCacheConfig) -> usize {
    let register = size_of::<u64>();
    let entry = GT_PDE_BYTES as usize - size_of::<PageTableEntry>() + size_of::<PrefixSums>();
    register + walk_cache.level2_entries * entry
}

#[cfg(test)]
mod tests {
    use super::*;

    const PERMISSIONS: Permissions = Permissions::READ_WRITE;

    /// By G §3.7, a walk cache of 32 entries adds 8 + 32 × 15 bytes.
    #[test]
    fn storage_of_a_cache_of_32_entries() {
        let cache = WalkCacheConfig::fully_associative(2, 32, 32);
        assert_eq!(added_storage_bytes(&cache), 488);
    }

    /// Encodes slices 5 and 9 of chunk 3 by hand. The base is 3 × 128MB + 5 × 4MB = 0x1940_0000.
    /// Offset-B counts units of 2MB: 18 in bits 15–20 is 0x9_0000.
    #[test]
    fn the_words_of_a_paired_entry() {
        let mode = GapTolerance::PAIRED_4M;
        let slice = |number: u64| Frame::new(3 * CHUNK_FRAMES + number * 1024);
        let entry = GapTolerantEntry::new(mode, [slice(5), slice(9)], 77, PERMISSIONS);
        let flags = PageTableEntry::leaf(Frame::new(0), PageSize::Size2M, PERMISSIONS).bits();
        assert_eq!(entry.first.bits(), flags | 0x1940_0000 | 0x9_0000);
        assert_eq!((entry.slice(), entry.second(), entry.selection), (slice(5), slice(9), 77));
    }

    #[test]
    fn every_slice_of_a_chunk_goes_into_an_entry_and_comes_out() {
        for mode in GapTolerance::ALL {
            let slices = CHUNK_FRAMES / mode.slice_frames();
            let slice = |number: u64| Frame::new(6 * CHUNK_FRAMES + number * mode.slice_frames());
            for (first, second) in (0..slices).flat_map(|a| (0..slices).map(move |b| (a, b))) {
                let second = if mode.is_paired() { second } else { first };
                let pair = [slice(first), slice(second)];
                let entry = GapTolerantEntry::new(mode, pair, 1, PERMISSIONS);
                assert!(entry.is_superpage() && entry.first.is_present());
                assert_eq!(entry.first.permissions(), PERMISSIONS);
                assert_eq!(entry.slice(), pair[0]);
                if mode.is_paired() {
                    assert_eq!(entry.second(), pair[1]);
                } else {
                    assert_eq!(entry.first.bits() & OFFSET_B, 0, "a 2MB page's entry");
                }
                let mut dirty = LoadedEntry::new(entry);
                dirty.mark_dirty();
                assert!(dirty.entry.first.is_dirty());
                assert_eq!(dirty.entry.second(), entry.second());
            }
        }
    }
}
