//! Memory of the rest of the system: other programs, page cache, slab, kernel data.

use std::collections::{BTreeMap, BTreeSet};

use perforate_types::Frame;

use super::migrate_type::MigrateType;

/// Use of memory by the rest of the system: all except the simulated programs and the page tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum OtherUse {
    /// Memory of programs that are not simulated: can be moved but not freed.
    Anonymous,
    /// Cached file pages: can be moved, and dropped under pressure.
    PageCache,
    /// Slab caches: cannot be moved, but can be freed under pressure.
    Slab,
    /// Kernel data: can be neither moved nor freed.
    Kernel,
    /// Pages that a balloon driver holds, so that the hypervisor can use them for other guests.
    /// They cannot be moved (a driver without balloon compaction).
    Balloon,
    /// Cached file pages that cannot be moved: under I/O, locked in memory, or of a file system
    /// that cannot migrate its pages.
    Pinned,
}

impl OtherUse {
    /// Number of variants, for arrays indexed by `usage as usize`.
    pub const COUNT: usize = 6;

    /// All variants, in the order of their values.
    pub const ALL: [Self; Self::COUNT] =
        [Self::Anonymous, Self::PageCache, Self::Slab, Self::Kernel, Self::Balloon, Self::Pinned];

    /// Migrate type of the pageblocks that hold memory of this kind. Balloon pages are allocated as
    /// movable ones, as in Linux since 3.8, which can compact balloons. Otherwise they would break
    /// up whole blocks. In this model they still stay in place, because D §IV pins them.
    pub const fn migrate_type(self) -> MigrateType {
        match self {
            Self::Anonymous | Self::PageCache | Self::Pinned | Self::Balloon => {
                MigrateType::Movable
            }
            Self::Slab => MigrateType::Reclaimable,
            Self::Kernel => MigrateType::Unmovable,
        }
    }

    /// True if compaction can move memory of this kind.
    pub const fn is_movable(self) -> bool {
        matches!(self, Self::Anonymous | Self::PageCache)
    }

    /// True if memory of this kind can be freed under memory pressure.
    pub const fn is_reclaimable(self) -> bool {
        matches!(self, Self::PageCache | Self::Slab)
    }
}

/// An allocation of the rest of the system, such as a file's cached pages, a slab or a program's
/// heap.
#[derive(Clone, Debug)]
pub(super) struct Other {
    pub(super) usage: OtherUse,
    /// Frames of the allocation. Unmovable allocations of order n consist of aligned runs of 2ⁿ
    /// frames.
    pub(super) frames: Vec<Frame>,
}

/// All allocations of the rest of the system, by number; a smaller number is older.
#[derive(Default)]
pub(super) struct Others {
    all: BTreeMap<u64, Other>,
    /// Numbers of the allocations, by kind of use, oldest first.
    by_use: [BTreeSet<u64>; OtherUse::COUNT],
    frames: [u64; OtherUse::COUNT],
    next: u64,
}

impl Others {
    /// Adds an allocation and returns its number.
    pub(super) fn add(&mut self, usage: OtherUse, frames: Vec<Frame>) -> u64 {
        let number = self.next;
        self.next += 1;
        self.frames[usage as usize] += frames.len() as u64;
        self.by_use[usage as usize].insert(number);
        self.all.insert(number, Other { usage, frames });
        number
    }

    /// The number that [`Self::add`] will return next.
    pub(super) fn next(&self) -> u64 {
        self.next
    }

    /// Removes an allocation and returns it.
    pub(super) fn remove(&mut self, number: u64) -> Option<Other> {
        let other = self.all.remove(&number)?;
        self.frames[other.usage as usize] -= other.frames.len() as u64;
        self.by_use[other.usage as usize].remove(&number);
        Some(other)
    }

    /// First frame of the allocation with this number; `None` if no such allocation exists.
    pub(super) fn first_frame(&self, number: u64) -> Option<Frame> {
        self.all.get(&number)?.frames.first().copied()
    }

    /// Number of the oldest allocation for `usage`; `None` if there is none.
    pub(super) fn oldest(&self, usage: OtherUse) -> Option<u64> {
        self.by_use[usage as usize].first().copied()
    }

    /// Number of the oldest allocation for `usage` from `number` on. If none of these exist, the
    /// oldest one of all; `None` if there is none.
    pub(super) fn from(&self, usage: OtherUse, number: u64) -> Option<u64> {
        let later = self.by_use[usage as usize].range(number..).next();
        later.copied().or_else(|| self.oldest(usage))
    }

    /// All frames of the rest of the system: (number of the allocation, usage, frame).
    pub(super) fn all_frames(&self) -> impl Iterator<Item = (u64, OtherUse, Frame)> + '_ {
        self.all.iter().flat_map(|(&number, other)| {
            other.frames.iter().map(move |&frame| (number, other.usage, frame))
        })
    }

    /// Number of frames allocated for `usage`.
    pub(super) fn frames(&self, usage: OtherUse) -> u64 {
        self.frames[usage as usize]
    }

    /// Replaces frame `from` of an allocation by `to`, after a migration.
    ///
    /// # Panics
    /// If `from` does not belong to the allocation.
    pub(super) fn replace(&mut self, number: u64, from: Frame, to: Frame) {
        let other = self.all.get_mut(&number).expect("what owns a frame exists");
        let place = other.frames.iter_mut().find(|frame| **frame == from);
        *place.expect("it has the frame") = to;
    }
}
