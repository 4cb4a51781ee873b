//! x86-64 page-table entries as 64-bit values in memory.

use std::fmt;

use crate::{Frame, PageSize, Permissions, VirtualPage};

/// One 64-bit entry of an x86-64 page table, at any level.
///
/// Bits: P 0, R/W 1, U/S 2, A 5, D 6, PS 7, address 51:12, NX 63. A 2MB page-directory entry leaves
/// address bits 20:12 unused. Bit 12 is PAT in such an entry, so bits 20:13 have the eight-bit hole
/// filter of a perforated page (P §IV.B). An ordinary 2MB page has filter 0.
///
/// Entries of 4KB pages have two more bits, for machines of other instruction sets: C 52 (Arm's
/// contiguous bit) and N 53 (bit 63 in RISC-V's Svnapot, where x86-64 has NX). See [`Contiguity`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct PageTableEntry(u64);

const PRESENT: u64 = 1 << 0;
const WRITABLE: u64 = 1 << 1;
const USER: u64 = 1 << 2;
const ACCESSED: u64 = 1 << 5;
const DIRTY: u64 = 1 << 6;
const PAGE_SIZE: u64 = 1 << 7;
const NO_EXECUTE: u64 = 1 << 63;
const ADDRESS: u64 = 0x000f_ffff_ffff_f000;
const FILTER_SHIFT: u32 = 13;
const FILTER: u64 = 0xff << FILTER_SHIFT;
const CONTIGUOUS: u64 = 1 << 52;
const NAPOT: u64 = 1 << 53;
/// Lowest bits of the address field of a NAPOT entry, which encode its size: 64KB (Svnapot, table
/// "Page table entry encodings when pte.N=1").
const NAPOT_64K: u64 = 0b1000;

/// Number of 4KB pages whose entries [`Contiguity`] joins: an aligned block of 64KB, for both
/// encodings.
pub const CONTIGUOUS_PAGES: u64 = 16;

/// Encoding by which the 4KB entries of an aligned block of 64KB say that they map one aligned
/// block of frames with equal permissions, so that one TLB entry can hold them all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contiguity {
    /// Arm's contiguous bit: each of the 16 entries has the bit, and the address of its own frame.
    ContiguousBit,
    /// RISC-V's Svnapot: each of the 16 entries has bit N, and the address of the block with its
    /// size in the lowest bits. The page's own frame follows from its virtual address.
    Napot,
}

impl PageTableEntry {
    /// A page-table entry that is not present.
    pub const ABSENT: Self = Self(0);

    /// Decodes a page-table entry from its 64-bit value in memory.
    pub const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    /// 64-bit value of the entry as stored in memory.
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// Non-leaf entry that points to the page-table node in `frame`. It allows every access,
    /// because only leaves restrict permissions.
    pub const fn table(frame: Frame) -> Self {
        Self(PRESENT | WRITABLE | USER | (frame.number() << 12))
    }

    /// Leaf entry that maps the page of `size` starting at `frame`.
    ///
    /// # Panics
    /// If `frame` is not aligned to `size`.
    #[inline]
    pub fn leaf(frame: Frame, size: PageSize, permissions: Permissions) -> Self {
        assert!(frame.is_aligned(size), "{frame:?} is not aligned to {size:?}");
        let large = if size == PageSize::Size4K { 0 } else { PAGE_SIZE };
        Self(PRESENT | large | (frame.number() << 12)).with_permissions(permissions)
    }

    /// Leaf entry of a perforated 2MB page. Bit *r* of `filter` is set if 256KB region *r* has a
    /// hole.
    pub fn perforated(block: Frame, permissions: Permissions, filter: u8) -> Self {
        Self::leaf(block, PageSize::Size2M, permissions).with_filter(filter)
    }

    /// Copy of this entry with other permissions.
    pub const fn with_permissions(self, permissions: Permissions) -> Self {
        let mut bits = self.0 & !(WRITABLE | USER | NO_EXECUTE);
        if permissions.write {
            bits |= WRITABLE;
        }
        if permissions.user {
            bits |= USER;
        }
        if !permissions.execute {
            bits |= NO_EXECUTE;
        }
        Self(bits)
    }

    /// Copy of this 2MB entry with another hole filter.
    pub const fn with_filter(self, filter: u8) -> Self {
        Self((self.0 & !FILTER) | ((filter as u64) << FILTER_SHIFT))
    }

    /// Copy of this entry with the accessed bit set, and with the dirty bit set if `write`.
    pub const fn with_accessed(self, write: bool) -> Self {
        Self(self.0 | ACCESSED | if write { DIRTY } else { 0 })
    }

    /// Copy of this entry with the accessed and dirty bits of another one added.
    #[must_use]
    pub const fn with_marks_of(self, other: Self) -> Self {
        Self(self.0 | other.0 & (ACCESSED | DIRTY))
    }

    /// True if the entry maps a page or points to a node (bit P).
    pub const fn is_present(self) -> bool {
        self.0 & PRESENT != 0
    }

    /// True if a present entry above level 1 is a leaf (bit PS).
    pub const fn is_large(self) -> bool {
        self.0 & PAGE_SIZE != 0
    }

    /// True if the accessed bit (A) is set.
    pub const fn is_accessed(self) -> bool {
        self.0 & ACCESSED != 0
    }

    /// True if the dirty bit (D) is set.
    pub const fn is_dirty(self) -> bool {
        self.0 & DIRTY != 0
    }

    /// Permissions of a leaf entry (bits R/W, U/S and NX).
    pub const fn permissions(self) -> Permissions {
        Permissions {
            write: self.0 & WRITABLE != 0,
            user: self.0 & USER != 0,
            execute: self.0 & NO_EXECUTE == 0,
        }
    }

    /// Frame in the address field: the node that a non-leaf entry points to, or the frame of a 4KB
    /// leaf.
    pub const fn frame(self) -> Frame {
        Frame::new((self.0 & ADDRESS) >> 12)
    }

    /// First frame of the page that a leaf of `size` maps, with the filter bits masked off.
    pub const fn leaf_frame(self, size: PageSize) -> Frame {
        self.frame().align_down(size)
    }

    /// Copy of this 4KB entry that says that it is one of 16 contiguous ones.
    #[must_use]
    pub const fn with_contiguity(self, contiguity: Contiguity) -> Self {
        match contiguity {
            Contiguity::ContiguousBit => Self(self.0 | CONTIGUOUS),
            Contiguity::Napot => {
                let frame = self.frame().number() & !(CONTIGUOUS_PAGES - 1) | NAPOT_64K;
                Self(self.0 & !ADDRESS | frame << 12 | NAPOT)
            }
        }
    }

    /// Copy of this 4KB entry of `page` in the form in which it maps this page alone.
    #[must_use]
    pub const fn without_contiguity(self, page: VirtualPage) -> Self {
        Self(self.of_page(page).0 & !CONTIGUOUS)
    }

    /// Decodes the 4KB entry that was read for `page`: the frame of a NAPOT entry depends on the
    /// page. The result has the frame of the page and, if the entry is one of 16 contiguous ones,
    /// the contiguous bit.
    #[inline]
    #[must_use]
    pub const fn of_page(self, page: VirtualPage) -> Self {
        if self.0 & NAPOT == 0 {
            return self;
        }
        let index = page.number() % CONTIGUOUS_PAGES;
        let frame = self.frame().number() & !(CONTIGUOUS_PAGES - 1) | index;
        Self(self.0 & !(ADDRESS | NAPOT) | frame << 12 | CONTIGUOUS)
    }

    /// True if the 4KB entry says, in either encoding, that it is one of 16 contiguous ones.
    pub const fn is_contiguous(self) -> bool {
        self.0 & (CONTIGUOUS | NAPOT) != 0
    }

    /// Hole filter of a 2MB leaf; 0 for an ordinary large page.
    pub const fn filter(self) -> u8 {
        ((self.0 & FILTER) >> FILTER_SHIFT) as u8
    }
}

impl fmt::Debug for PageTableEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "entry:{:#018x}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_values() {
        let leaf =
            PageTableEntry::leaf(Frame::new(0x12345), PageSize::Size4K, Permissions::READ_WRITE);
        assert_eq!(leaf.bits(), 0x8000_0000_1234_5007);
        let code =
            PageTableEntry::leaf(Frame::new(0x200), PageSize::Size2M, Permissions::READ_EXECUTE);
        assert_eq!(code.bits(), 0x0000_0000_0020_0085);
        assert_eq!(PageTableEntry::table(Frame::new(0x77)).bits(), 0x77007);
    }

    #[test]
    fn the_filter_leaves_address_permissions_and_pat_alone() {
        for filter in 0..=255u8 {
            let entry =
                PageTableEntry::perforated(Frame::new(0x40_0200), Permissions::READ, filter);
            assert_eq!(entry.filter(), filter);
            assert_eq!(entry.leaf_frame(PageSize::Size2M), Frame::new(0x40_0200));
            assert_eq!(entry.permissions(), Permissions::READ);
            assert_eq!(entry.bits() & (1 << 12), 0, "bit 12 is PAT in a 2MB entry");
            let plain = entry.with_filter(0);
            let large =
                PageTableEntry::leaf(Frame::new(0x40_0200), PageSize::Size2M, Permissions::READ);
            assert_eq!(plain, large, "no holes: an ordinary large page");
        }
    }

    /// Frame 0x12345 lies in the block from 0x12340 on, whose NAPOT encoding is 0x12348.
    #[test]
    fn both_encodings_of_contiguous_pages() {
        let page = VirtualPage::new(0x7_7775);
        let leaf =
            PageTableEntry::leaf(Frame::new(0x12345), PageSize::Size4K, Permissions::READ_WRITE);
        let bit = leaf.with_contiguity(Contiguity::ContiguousBit);
        assert_eq!(bit.bits(), 0x8010_0000_1234_5007);
        let napot = leaf.with_contiguity(Contiguity::Napot);
        assert_eq!(napot.bits(), 0x8020_0000_1234_8007);
        assert_eq!(napot.of_page(page), bit, "the frame follows from the page");
        for entry in [bit, napot] {
            assert!(entry.is_contiguous() && entry.with_accessed(true).is_contiguous());
            assert_eq!(entry.without_contiguity(page), leaf);
        }
        let first = page.align_down(PageSize::Size2M);
        assert_eq!(napot.of_page(first).frame(), Frame::new(0x12340));
        assert_eq!(leaf.of_page(first), leaf, "an ordinary entry has its frame");
    }

    #[test]
    fn accessed_and_dirty() {
        let entry = PageTableEntry::leaf(Frame::new(1), PageSize::Size4K, Permissions::ALL);
        assert!(!entry.is_accessed() && !entry.is_dirty());
        assert!(entry.with_accessed(false).is_accessed());
        assert!(!entry.with_accessed(false).is_dirty());
        assert!(entry.with_accessed(true).is_dirty());
    }
}
