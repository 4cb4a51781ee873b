//! What a frame of a real machine is used for.

use crate::{FrameClass, OtherUse};

/// What a frame holds, as far as it decides what can be done with its block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum FrameState {
    /// In the buddy allocator.
    Free,
    /// Memory of programs in 4KB pages (or large folios below 2MB): can be moved, not dropped.
    Movable,
    /// Cached file contents: can be moved, and dropped under pressure.
    PageCache,
    /// Slab caches that can be shrunk. Linux does not say which slabs these are; see where it is
    /// used.
    Reclaimable,
    /// Kernel data, page tables, stacks, slabs: stays.
    Unmovable,
    /// A part of a 2MB page of a program: stays as a whole.
    Large,
    /// A part of a page of hugetlbfs, 2MB or 1GB: stays.
    Huge,
    /// Reserved at boot: the kernel's image, its map of frames, firmware tables.
    Reserved,
    /// Taken out of use after a hardware error.
    Retired,
    /// No memory at this address.
    Absent,
    /// There is memory, and nothing is known of it.
    Unknown,
    /// Free, in a list of one processor: a hole until compaction or a shortage empties these lists.
    PerCpu,
}

impl FrameState {
    /// Every state, in the order of their numbers.
    pub const ALL: [Self; 16] = [
        Self::Free,
        Self::Movable,
        Self::PageCache,
        Self::Reclaimable,
        Self::Unmovable,
        Self::Large,
        Self::Huge,
        Self::Reserved,
        Self::Retired,
        Self::Absent,
        Self::Unknown,
        Self::PerCpu,
        // Numbers that four bits have room for and that mean nothing.
        Self::Unknown,
        Self::Unknown,
        Self::Unknown,
        Self::Unknown,
    ];
    /// Number of states that mean something.
    pub const COUNT: usize = 12;

    /// The state of this number.
    pub(crate) fn of_number(number: u8) -> Option<Self> {
        Self::ALL[..Self::COUNT].get(usize::from(number)).copied()
    }

    /// Name in results.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Free => "free",
            Self::Movable => "movable",
            Self::PageCache => "page_cache",
            Self::Reclaimable => "reclaimable",
            Self::Unmovable => "unmovable",
            Self::Large => "large",
            Self::Huge => "huge",
            Self::Reserved => "reserved",
            Self::Retired => "retired",
            Self::Absent => "absent",
            Self::Unknown => "unknown",
            Self::PerCpu => "per_cpu",
        }
    }

    /// Whether it is nobody's.
    pub const fn is_free(self) -> bool {
        matches!(self, Self::Free)
    }

    /// Whether what it holds, if anything, can be copied elsewhere.
    pub const fn is_movable(self) -> bool {
        matches!(self, Self::Movable | Self::PageCache | Self::PerCpu)
    }

    /// The class in pictures of memory.
    pub const fn class(self) -> FrameClass {
        match self {
            Self::Free => FrameClass::Free,
            Self::Movable => FrameClass::Movable,
            Self::PageCache | Self::PerCpu => FrameClass::PageCache,
            Self::Reclaimable => FrameClass::Reclaimable,
            Self::Unmovable | Self::Reserved | Self::Unknown => FrameClass::Unmovable,
            Self::Large => FrameClass::Large,
            Self::Huge => FrameClass::Huge,
            Self::Retired => FrameClass::Retired,
            Self::Absent => FrameClass::Absent,
        }
    }

    /// As what it counts among the rest of the system; `None`: nobody's. Frames in lists of processors
    /// come back as page cache does.
    pub(crate) const fn usage(self) -> Option<OtherUse> {
        match self {
            Self::Movable | Self::Large | Self::Huge => Some(OtherUse::Anonymous),
            Self::PageCache | Self::PerCpu => Some(OtherUse::PageCache),
            Self::Reclaimable => Some(OtherUse::Slab),
            Self::Unmovable | Self::Reserved | Self::Unknown => Some(OtherUse::Kernel),
            Self::Free | Self::Retired | Self::Absent => None,
        }
    }

    /// As what it can be moved or dropped.
    pub(crate) const fn record(self) -> Option<OtherUse> {
        match self {
            Self::Movable | Self::PageCache | Self::PerCpu | Self::Reclaimable => self.usage(),
            _ => None,
        }
    }
}
