//! Free, movable and fixed frames of one 2MB block, and allocation of single frames of a block.

use perforate_types::{Frame, HoleSet};

use super::owners::{Owner, RecordsOfBlock};
use super::{BLOCK_ORDER, PhysicalMemory, complement};

/// Frames of a 2MB block: each is in exactly one of the sets free, movable and fixed (unmovable).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BlockContents {
    /// Indices, in the block, of free frames.
    pub free: HoleSet,
    /// Indices, in the block, of used frames whose contents can be migrated.
    pub movable: HoleSet,
    /// Indices, in the block, of used frames that cannot be moved. They are the holes if the block becomes a
    /// perforated page.
    pub fixed: HoleSet,
}

impl PhysicalMemory {
    /// Number of 2MB blocks that lie wholly in usable memory.
    pub(crate) fn blocks(&self) -> u64 {
        self.zones.iter().map(|zone| zone.buddy.range().end >> BLOCK_ORDER).max().unwrap_or(0)
    }

    /// Classifies the frames of a block. A page of a program counts as movable if its frame is not
    /// shared. The recorded owner may be stale; migration checks that.
    pub(crate) fn contents(&self, block: Frame) -> BlockContents {
        let free = self.zones.free_in_pageblock(block);
        let mut movable = HoleSet::EMPTY;
        for (index, owner) in self.owners.of_pageblock(block) {
            let is_movable = match owner {
                Owner::Page(..) => !self.references.is_shared(block.add(index as u64)),
                Owner::Other(usage, _) => usage.is_movable(),
                Owner::Retired => false,
            };
            if is_movable && !free.contains(index) {
                movable.insert(index);
            }
        }
        if let Some(residents) = &self.residents {
            movable = movable.union(&residents.movable(block));
        }
        let fixed = complement(&free.union(&movable));
        BlockContents { free, movable, fixed }
    }

    /// 2MB blocks with frames whose owner the reverse map records, in ascending order: the first frame of the
    /// block, and index and owner of each recorded frame. Excludes frames of a snapshot
    /// ([`Self::residents`]).
    pub(crate) fn recorded(&self) -> impl Iterator<Item = (Frame, RecordsOfBlock<'_>)> {
        self.owners.blocks()
    }

    /// Upper bound of the frames of the block that a 2MB page can get: free frames, and those whose owner the
    /// reverse map records, which may be movable.
    pub(crate) fn at_most_usable(&self, block: Frame) -> u64 {
        let residents = self.residents.as_ref().map_or(0, |known| known.recorded(block));
        self.zones.free_in_pageblock(block).count() as u64 + self.owners.recorded(block) + residents
    }

    /// Allocates the frames of the 2MB block with the indices `frames`, all of which must be free.
    pub(crate) fn take_frames(&mut self, block: Frame, frames: &HoleSet) {
        for index in frames.iter() {
            assert!(self.zones.take(block.add(index as u64)), "frame was free");
        }
    }

    /// Frees the frames of the 2MB block with the indices `frames`, each of which has a single mapping or
    /// owner.
    pub fn free_frames_of(&mut self, block: Frame, frames: &HoleSet) {
        for (index, order) in aligned_runs(frames) {
            self.free(block.add(index as u64), order);
        }
    }
}

/// Splits a set into aligned runs of 2^order frames, each as long as possible. Yields (index of the
/// first frame, order).
pub(super) fn aligned_runs(frames: &HoleSet) -> impl Iterator<Item = (usize, u32)> {
    let mut left = *frames;
    std::iter::from_fn(move || {
        let first = left.iter().next()?;
        let mut order = 0;
        while order < BLOCK_ORDER
            && first.is_multiple_of(2 << order)
            && (first + (1 << order)..first + (2 << order)).all(|index| left.contains(index))
        {
            order += 1;
        }
        (first..first + (1 << order)).for_each(|index| {
            left.remove(index);
        });
        Some((first, order))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ZoneLayout;
    use perforate_types::{SpaceId, VirtualPage};

    #[test]
    fn a_frame_is_movable_while_it_is_used() {
        let mut memory = PhysicalMemory::new(64 << 20, ZoneLayout::Single).expect("valid");
        let frame = memory.allocate_page().expect("it is free");
        memory.set_owner(frame, SpaceId(0), VirtualPage::new(5));
        let block = Frame::new(frame.number() >> BLOCK_ORDER << BLOCK_ORDER);
        let index = (frame.number() - block.number()) as usize;
        let states = |memory: &PhysicalMemory| {
            let contents = memory.contents(block);
            [contents.free, contents.movable, contents.fixed].map(|set| set.contains(index))
        };
        assert_eq!(states(&memory), [false, true, false]);
        memory.free(frame, 0);
        assert_eq!(states(&memory), [true, false, false]);
    }

    #[test]
    fn runs_are_aligned_and_as_long_as_can_be() {
        let runs = |frames: &HoleSet| aligned_runs(frames).collect::<Vec<_>>();
        assert_eq!(runs(&HoleSet::FULL), [(0, 9)]);
        assert_eq!(runs(&HoleSet::EMPTY), []);
        // 3..=11 and 256..=511: 3, 4–7, 8–11, and half of the block.
        let frames = (3..12).chain(256..512).collect();
        assert_eq!(runs(&frames), [(3, 0), (4, 2), (8, 2), (256, 8)]);
    }
}
