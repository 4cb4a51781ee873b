//! What a frame is used for, from the flags of `/proc/kpageflags` (Linux:
//! include/uapi/linux/kernel-page-flags.h, fs/proc/page.c).

use perforate_os::FrameState;

/// Flags of one frame. Bits 0–31 are the stable ones, from 32 on those for kernel hackers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageFlags(pub u64);

impl PageFlags {
    const LRU: u64 = 1 << 5;
    const SLAB: u64 = 1 << 7;
    const BUDDY: u64 = 1 << 10;
    const ANON: u64 = 1 << 12;
    const SWAP_BACKED: u64 = 1 << 14;
    const COMPOUND_HEAD: u64 = 1 << 15;
    const COMPOUND_TAIL: u64 = 1 << 16;
    const HUGE: u64 = 1 << 17;
    const UNEVICTABLE: u64 = 1 << 18;
    const HARDWARE_POISON: u64 = 1 << 19;
    const NO_PAGE: u64 = 1 << 20;
    const THP: u64 = 1 << 22;
    const OFFLINE: u64 = 1 << 23;
    const ZERO_PAGE: u64 = 1 << 24;
    const PAGE_TABLE: u64 = 1 << 26;
    const RESERVED: u64 = 1 << 32;
    const LOCKED_IN_MEMORY: u64 = 1 << 33;

    fn has(self, bits: u64) -> bool {
        self.0 & bits != 0
    }

    /// What the frame is used for, by itself; one without any flag waits in a processor's list of free
    /// frames or is the kernel's, which its zone's counts decide. Flags of lists and of anonymous memory mean nothing
    /// beside SLAB: newer kernels keep other data in the same words (seen on 6.18).
    pub fn state(self) -> FrameState {
        match self {
            _ if self.has(Self::NO_PAGE) => FrameState::Absent,
            _ if self.has(Self::HARDWARE_POISON) => FrameState::Retired,
            _ if self.has(Self::BUDDY) => FrameState::Free,
            _ if self.has(Self::HUGE) => FrameState::Huge,
            _ if self.has(Self::RESERVED) => FrameState::Reserved,
            _ if self.has(Self::SLAB) => FrameState::Reclaimable,
            _ if self.has(Self::PAGE_TABLE | Self::OFFLINE | Self::ZERO_PAGE) => {
                FrameState::Unmovable
            }
            _ if self.has(Self::ANON) => FrameState::Movable,
            // Shared memory and tmpfs go to swap, not away; what is locked cannot be dropped.
            _ if self.has(Self::LRU)
                && self.has(Self::SWAP_BACKED | Self::UNEVICTABLE | Self::LOCKED_IN_MEMORY) =>
            {
                FrameState::Movable
            }
            _ if self.has(Self::LRU) => FrameState::PageCache,
            Self(0) => FrameState::PerCpu,
            _ => FrameState::Unmovable,
        }
    }

    /// Whether nothing is said but, perhaps, that the frame is reserved.
    pub(super) fn says_nothing(self) -> bool {
        self.0 & !Self::RESERVED == 0 || self.has(Self::NO_PAGE)
    }

    /// Whether the frame is a part of an anonymous large folio, its head or not.
    fn is_anonymous_folio(self, part: u64) -> bool {
        let wanted = Self::THP | Self::ANON | part;
        self.0 & (wanted | Self::SLAB | Self::HUGE | Self::BUDDY) == wanted
    }

    /// Whether these flags of a 2MB block are those of one anonymous 2MB page. A folio of several
    /// sizes fits a block; only this one has its head there and nothing but tails behind it.
    pub(super) fn is_large_page(block: &[Self]) -> bool {
        let [head, tails @ ..] = block else { return false };
        tails.len() == 511
            && head.is_anonymous_folio(Self::COMPOUND_HEAD)
            && tails.iter().all(|flags| flags.is_anonymous_folio(Self::COMPOUND_TAIL))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Flags as a 6.18 kernel showed them.
    #[test]
    fn frames_are_told_by_their_flags() {
        let bits = |bits: &[u32]| PageFlags(bits.iter().fold(0, |all, bit| all | 1 << bit));
        for (flags, state) in [
            (bits(&[10]), FrameState::Free),
            (bits(&[3, 10]), FrameState::Free),
            (bits(&[20]), FrameState::Absent),
            (bits(&[19, 3, 5]), FrameState::Retired),
            (bits(&[32, 35]), FrameState::Reserved),
            (bits(&[7]), FrameState::Reclaimable),
            (bits(&[7, 12, 16, 21]), FrameState::Reclaimable),
            (bits(&[26, 11]), FrameState::Unmovable),
            (bits(&[3, 5, 11, 12, 14, 34]), FrameState::Movable),
            (bits(&[3, 12, 14]), FrameState::Movable),
            (bits(&[2, 3, 4, 5, 11, 14, 18, 25, 33]), FrameState::Movable),
            (bits(&[2, 3, 5, 6, 34]), FrameState::PageCache),
            (bits(&[2, 3, 5, 11, 18, 33]), FrameState::Movable),
            (bits(&[16]), FrameState::Unmovable),
            (bits(&[15, 17]), FrameState::Huge),
            (bits(&[23]), FrameState::Unmovable),
            (bits(&[11]), FrameState::Unmovable),
            (bits(&[]), FrameState::PerCpu),
        ] {
            assert_eq!(flags.state(), state, "{:#x}", flags.0);
        }
    }

    #[test]
    fn a_large_page_is_one_folio_over_the_block() {
        let head = PageFlags(1 << 3 | 1 << 5 | 1 << 12 | 1 << 14 | 1 << 15 | 1 << 22);
        let tail = PageFlags(1 << 3 | 1 << 5 | 1 << 12 | 1 << 14 | 1 << 16 | 1 << 22);
        let mut block = [tail; 512];
        assert!(!PageFlags::is_large_page(&block));
        block[0] = head;
        assert!(PageFlags::is_large_page(&block));
        assert!(!PageFlags::is_large_page(&block[..511]));
        block[256] = head; // two folios of 1MB
        assert!(!PageFlags::is_large_page(&block));
        // A 2MB folio of a file.
        let file = |flags: PageFlags| PageFlags(flags.0 & !(1 << 12));
        let mut block = [file(tail); 512];
        block[0] = file(head);
        assert!(!PageFlags::is_large_page(&block));
    }
}
