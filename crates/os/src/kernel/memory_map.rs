//! Map of this kernel's physical memory.
//!
//! The map is computed on demand from the kernel's records: the allocator has the free frames,
//! address spaces have their mappings. The cost grows with the mapped memory and the number of free
//! blocks, not with the size of the memory.

use std::collections::BTreeMap;

use perforate_types::{Frame, HoleSet};

use super::{Core, Kernel};
use crate::memory::{BLOCK_ORDER, Owner};
use crate::memory_map::block_frames;
use crate::space::{FrameVisitor, visit_run};
use crate::{
    BlockFrames, FrameClass, FrameState, MemoryMap, Occupancy, OccupancyBuilder, OsError, OtherUse,
};

/// Uses of the frames of one 2MB block, as classes of the memory map.
enum BlockUse {
    /// All frames of the block have this class.
    Whole(FrameClass),
    /// Class of each frame of the block, by index.
    Frames(Box<[FrameClass; 512]>),
}

/// Use of each physical frame, as collected for a map of memory. Frames without a record are unmovable.
#[derive(Default)]
struct FrameUses {
    blocks: BTreeMap<u64, BlockUse>,
    /// Runs of wholly free 2MB blocks: number of the first block → number of blocks.
    free: BTreeMap<u64, u64>,
}

impl Kernel {
    /// Map of physical memory at this moment.
    pub fn memory_map(&self) -> MemoryMap {
        let mut uses = FrameUses::default();
        record_uses(&self.core, &mut uses);
        uses.into_map(self.core.memory.end_frame())
    }

    /// State of every frame at this moment, in the form of a snapshot of a real machine.
    pub fn occupancy(&self) -> Result<Occupancy, OsError> {
        let mut uses = FrameUses::default();
        record_uses(&self.core, &mut uses);
        uses.into_occupancy(self.core.memory.end_frame())
    }
}

/// Collects the use of all frames in `uses`, from the allocator, the reverse map and the address spaces. The
/// frames left over are unmovable: page tables, the hole bitmap, frames at generated holes.
fn record_uses(core: &Core, uses: &mut FrameUses) {
    for zone in core.memory.zones().iter() {
        for (first, frames) in zone.buddy.free_runs() {
            uses.add_free(first, frames);
        }
        for (block, free) in zone.buddy.partly_free() {
            uses.frames(block, &free, FrameClass::Free);
        }
    }
    record_owned(core, uses);
    for (block, frames, class) in core.memory.residents() {
        uses.frames(block, &frames, class);
    }
    for absent in core.memory.absent() {
        visit_run(absent, FrameClass::Absent, uses);
    }
    for space in core.live_spaces() {
        space.visit_frames(uses);
    }
}

/// Adds to `uses` the frames for which the reverse map has an owner, block by block.
fn record_owned(core: &Core, uses: &mut FrameUses) {
    for (block, records) in core.memory.recorded() {
        if let Some(pages) = records.pages_alone() {
            uses.frames(block, &pages, FrameClass::Movable);
            continue;
        }
        let mut sets = [HoleSet::EMPTY; FrameClass::ALL.len()];
        for (index, owner) in records {
            sets[class_of(owner) as usize].insert(index);
        }
        for (class, set) in FrameClass::ALL.into_iter().zip(&sets) {
            uses.frames(block, set, class);
        }
    }
}

/// Class, in the memory map, of a frame with this owner.
fn class_of(owner: Owner) -> FrameClass {
    match owner {
        Owner::Page(..) => FrameClass::Movable,
        Owner::Other(usage, _) => class_of_use(usage),
        Owner::Retired => FrameClass::Retired,
    }
}

fn class_of_use(usage: OtherUse) -> FrameClass {
    match usage {
        OtherUse::Anonymous => FrameClass::Movable,
        OtherUse::PageCache => FrameClass::PageCache,
        OtherUse::Slab => FrameClass::Reclaimable,
        OtherUse::Kernel | OtherUse::Balloon | OtherUse::Pinned => FrameClass::Unmovable,
    }
}

impl FrameVisitor for FrameUses {
    fn frames(&mut self, block: Frame, frames: &HoleSet, class: FrameClass) {
        // The block of a perforated page without any in-place sub-page may be free already.
        if frames.is_empty() {
            return;
        }
        if frames.count() == 512 {
            return self.blocks(block, 1, class);
        }
        let number = block.number() >> BLOCK_ORDER;
        let unmovable = || BlockUse::Frames(Box::new([FrameClass::Unmovable; 512]));
        let known = self.blocks.entry(number).or_insert_with(unmovable);
        if let BlockUse::Whole(whole) = *known {
            if whole >= class {
                return;
            }
            *known = BlockUse::Frames(Box::new([whole; 512]));
        }
        let BlockUse::Frames(classes) = known else { unreachable!("just made") };
        for index in frames.iter() {
            classes[index] = classes[index].max(class);
        }
    }

    fn blocks(&mut self, first: Frame, blocks: u64, class: FrameClass) {
        let first = first.number() >> BLOCK_ORDER;
        for number in first..first + blocks {
            match self.blocks.entry(number).or_insert(BlockUse::Whole(class)) {
                BlockUse::Whole(known) => *known = class.max(*known),
                BlockUse::Frames(known) => {
                    known.iter_mut().for_each(|frame| *frame = class.max(*frame));
                }
            }
        }
    }
}

impl FrameUses {
    /// Records a run of free frames that consists of whole 2MB blocks.
    fn add_free(&mut self, start: Frame, frames: u64) {
        self.free.insert(start.number() >> BLOCK_ORDER, frames >> BLOCK_ORDER);
    }

    /// Converts the collected uses to the state of each of the first `frames` frames, as in a snapshot.
    fn into_occupancy(mut self, frames: u64) -> Result<Occupancy, OsError> {
        for (first, blocks) in std::mem::take(&mut self.free) {
            self.blocks(Frame::new(first << BLOCK_ORDER), blocks, FrameClass::Free);
        }
        let mut occupancy = OccupancyBuilder::default();
        let gap = |occupancy: &mut OccupancyBuilder, end: u64| {
            occupancy
                .push_run(FrameState::Unmovable, end.min(frames).saturating_sub(occupancy.frames()))
        };
        for (number, block_use) in self.blocks {
            gap(&mut occupancy, number << BLOCK_ORDER)?;
            let part = block_frames(number, frames);
            match block_use {
                BlockUse::Whole(class) => occupancy.push_run(state_of(class), part.into())?,
                BlockUse::Frames(classes) => classes[..usize::from(part)]
                    .iter()
                    .try_for_each(|&class| occupancy.push(state_of(class)))?,
            }
        }
        gap(&mut occupancy, frames)?;
        occupancy.finish()
    }

    /// Converts the collected uses to a map of a memory of `frames` frames.
    fn into_map(self, frames: u64) -> MemoryMap {
        let mut map = MemoryMap::default();
        let uniform = |class| BlockFrames::uniform(class, 512);
        let mut free = self.free.into_iter().peekable();
        for (number, block_use) in self.blocks {
            while let Some((first, blocks)) = free.next_if(|&(first, _)| first < number) {
                fill_gap(&mut map, first, frames);
                map.push(blocks, uniform(FrameClass::Free));
            }
            fill_gap(&mut map, number, frames);
            map.push(1, block_use.count(block_frames(number, frames)));
        }
        for (first, blocks) in free {
            fill_gap(&mut map, first, frames);
            map.push(blocks, uniform(FrameClass::Free));
        }
        fill_gap(&mut map, frames.div_ceil(1 << BLOCK_ORDER), frames);
        map
    }
}

/// State, in the format of snapshots of real machines, of frames of this class of the memory map.
fn state_of(class: FrameClass) -> FrameState {
    match class {
        FrameClass::Free => FrameState::Free,
        FrameClass::Movable => FrameState::Movable,
        FrameClass::PageCache => FrameState::PageCache,
        FrameClass::Reclaimable => FrameState::Reclaimable,
        FrameClass::Perforated | FrameClass::Large => FrameState::Large,
        FrameClass::Huge => FrameState::Huge,
        FrameClass::Retired => FrameState::Retired,
        FrameClass::Absent => FrameState::Absent,
        FrameClass::Unmovable
        | FrameClass::Reserved
        | FrameClass::Superpage
        | FrameClass::Segment => FrameState::Unmovable,
    }
}

/// Extends the memory map up to 2MB block `end`: blocks without a record are unmovable.
fn fill_gap(map: &mut MemoryMap, end: u64, frames: u64) {
    let whole = end.min(frames >> BLOCK_ORDER).saturating_sub(map.blocks());
    if whole > 0 {
        map.push(whole, BlockFrames::uniform(FrameClass::Unmovable, 512));
    }
    if map.blocks() < end {
        let part = block_frames(map.blocks(), frames);
        map.push(1, BlockFrames::uniform(FrameClass::Unmovable, part));
    }
}

impl BlockUse {
    /// Counts the block's first `frames` frames by class; the last block of a memory may have less than 512.
    fn count(&self, frames: u16) -> BlockFrames {
        match self {
            Self::Whole(class) => BlockFrames::uniform(*class, frames),
            Self::Frames(classes) => {
                let mut block = BlockFrames::default();
                classes[..usize::from(frames)].iter().for_each(|&class| block.add(class));
                block
            }
        }
    }
}
