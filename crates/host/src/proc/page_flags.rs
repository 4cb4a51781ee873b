//! Classification of frames by their flags in `/proc/kpageflags` (Linux:
//! include/uapi/linux/kernel-page-flags.h, fs/proc/page.c).

use bitflags::bitflags;
use perforate_os::FrameState;

bitflags! {
    /// Flags of a frame in `/proc/kpageflags` that this crate uses. The names are Linux's without
    /// the prefix `KPF_`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) struct PageFlags: u64 {
        const LRU = 1 << 5;
        const SLAB = 1 << 7;
        const BUDDY = 1 << 10;
        const ANON = 1 << 12;
        const SWAPBACKED = 1 << 14;
        const COMPOUND_HEAD = 1 << 15;
        const COMPOUND_TAIL = 1 << 16;
        const HUGE = 1 << 17;
        const UNEVICTABLE = 1 << 18;
        const HWPOISON = 1 << 19;
        const NOPAGE = 1 << 20;
        const KSM = 1 << 21;
        const THP = 1 << 22;
        const OFFLINE = 1 << 23;
        const ZERO_PAGE = 1 << 24;
        const PGTABLE = 1 << 26;
        // Linux exports the flags from here on "for kernel hackers" only: they are not a stable interface.
        const RESERVED = 1 << 32;
        const MLOCKED = 1 << 33;
    }
}

/// State of a frame by its flags alone. A frame without flags is either free in a per-CPU list or
/// used by the kernel; the counts of its zone decide. If SLAB is set, LRU flags and ANON are
/// ignored: newer kernels store other data in the same words (seen on 6.18).
pub(crate) fn state_of(flags: PageFlags) -> FrameState {
    type Flags = PageFlags;
    let has = |flag| flags.intersects(flag);
    match () {
        () if has(Flags::NOPAGE) => FrameState::Absent,
        () if has(Flags::HWPOISON) => FrameState::Retired,
        () if has(Flags::BUDDY) => FrameState::Free,
        () if has(Flags::HUGE) => FrameState::Huge,
        () if has(Flags::RESERVED) => FrameState::Reserved,
        () if has(Flags::SLAB) => FrameState::Reclaimable,
        () if has(Flags::PGTABLE | Flags::OFFLINE | Flags::ZERO_PAGE) => FrameState::Unmovable,
        () if has(Flags::ANON) => FrameState::Movable,
        // The kernel cannot drop these pages: shared memory must be swapped out, and locked pages stay.
        () if has(Flags::LRU) && has(Flags::SWAPBACKED | Flags::UNEVICTABLE | Flags::MLOCKED) => {
            FrameState::Movable
        }
        () if has(Flags::LRU) => FrameState::PageCache,
        () if flags.is_empty() => FrameState::PerCpu,
        () => FrameState::Unmovable,
    }
}

/// True if a frame has no flags other than RESERVED, or does not exist.
pub(crate) fn has_no_use(flags: PageFlags) -> bool {
    flags.difference(PageFlags::RESERVED).is_empty() || flags.contains(PageFlags::NOPAGE)
}

/// True if these are the flags of one anonymous 2MB page. A block of 2MB may also contain folios of
/// other sizes; only a 2MB page has one head, followed by tails up to the end of the block.
pub(crate) fn is_large_page(block: &[PageFlags]) -> bool {
    let others = PageFlags::SLAB | PageFlags::HUGE | PageFlags::BUDDY;
    let is_part = |flags: &PageFlags, part: PageFlags| {
        let wanted = PageFlags::THP | PageFlags::ANON | part;
        *flags & (wanted | others) == wanted
    };
    let [head, tails @ ..] = block else { return false };
    tails.len() == 511
        && is_part(head, PageFlags::COMPOUND_HEAD)
        && tails.iter().all(|flags| is_part(flags, PageFlags::COMPOUND_TAIL))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Derives the states of frames from flags as a 6.18 kernel showed them.
    #[test]
    fn states_of_frames() {
        let bits = |bits: &[u32]| bits.iter().fold(0, |all, bit| all | 1_u64 << bit);
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
            assert_eq!(state_of(PageFlags::from_bits_retain(flags)), state, "{flags:#x}");
        }
    }

    #[test]
    fn a_large_page_is_one_folio_over_the_block() {
        let folio = PageFlags::LRU | PageFlags::ANON | PageFlags::SWAPBACKED | PageFlags::THP;
        let (head, tail) = (folio | PageFlags::COMPOUND_HEAD, folio | PageFlags::COMPOUND_TAIL);
        let mut block = [tail; 512];
        assert!(!is_large_page(&block));
        block[0] = head;
        assert!(is_large_page(&block));
        assert!(!is_large_page(&block[..511]));
        block[256] = head; // two folios of 1MB
        assert!(!is_large_page(&block));
        // Flags of a 2MB folio of a file's page cache.
        let mut block = [tail.difference(PageFlags::ANON); 512];
        block[0] = head.difference(PageFlags::ANON);
        assert!(!is_large_page(&block));
    }
}
