//! State of a frame of a real machine.

use crate::{FrameClass, OtherUse};

/// Use of a frame in a snapshot of a machine, in the categories that decide if its block can become a 2MB
/// page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum FrameState {
    /// In the free lists of the buddy allocator.
    Free,
    /// Program memory in 4KB pages (or large folios below 2MB): can be moved but not dropped.
    Movable,
    /// Cached file contents: can be moved, and dropped under pressure.
    PageCache,
    /// A slab page. Linux does not report which slab caches can be shrunk, so all slab pages have
    /// this state.
    Reclaimable,
    /// Kernel data, page tables, stacks: cannot be moved.
    Unmovable,
    /// A part of a 2MB page of a program: not moved.
    Large,
    /// A part of a hugetlbfs page of 2MB or 1GB: not moved.
    Huge,
    /// Reserved at boot: the kernel's image, its `struct page` array, firmware tables.
    Reserved,
    /// Taken out of use after a hardware error.
    Retired,
    /// No memory at this address.
    Absent,
    /// Memory whose use is unknown.
    Unknown,
    /// Free in a per-CPU list. The frame counts as a hole until compaction or memory pressure
    /// drains these lists.
    PerCpu,
}

impl FrameState {
    /// All states, indexed by their four-bit code.
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
        // Codes without a meaning.
        Self::Unknown,
        Self::Unknown,
        Self::Unknown,
        Self::Unknown,
    ];
    /// Number of states that have a meaning.
    pub const COUNT: usize = 12;

    /// The state with this four-bit code; `None` for a code without a meaning.
    pub(crate) fn of_number(number: u8) -> Option<Self> {
        Self::ALL[..Self::COUNT].get(usize::from(number)).copied()
    }

    /// Name of the state in results.
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

    /// True if the frame is free in the buddy allocator (not in a per-CPU list).
    pub const fn is_free(self) -> bool {
        matches!(self, Self::Free)
    }

    /// True if the content, if there is any, can be copied to another frame.
    pub const fn is_movable(self) -> bool {
        matches!(self, Self::Movable | Self::PageCache | Self::PerCpu)
    }

    /// Class of the frame in a memory map.
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

    /// Kind of memory of the rest of the system that a frame in this state is counted as; `None` for others.
    /// Per-CPU frames count as page cache, because memory pressure frees both.
    pub(crate) const fn usage(self) -> Option<OtherUse> {
        match self {
            Self::Movable | Self::Large | Self::Huge => Some(OtherUse::Anonymous),
            Self::PageCache | Self::PerCpu => Some(OtherUse::PageCache),
            Self::Reclaimable => Some(OtherUse::Slab),
            Self::Unmovable | Self::Reserved | Self::Unknown => Some(OtherUse::Kernel),
            Self::Free | Self::Retired | Self::Absent => None,
        }
    }

    /// As [`Self::usage`], only for frames that compaction can move or reclaim can drop.
    pub(crate) const fn removable_usage(self) -> Option<OtherUse> {
        match self {
            Self::Movable | Self::PageCache | Self::PerCpu | Self::Reclaimable => self.usage(),
            _ => None,
        }
    }
}
