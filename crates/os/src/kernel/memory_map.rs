//! The picture of this kernel's physical memory.
//!
//! Made on demand from what the kernel has: the allocator knows what is free, address spaces know
//! what they map. The work grows with what is mapped and with the number of free blocks, not with
//! the size of the memory.

use std::collections::BTreeMap;

use perforate_types::{Frame, HoleSet};

use super::Kernel;
use crate::memory::{BLOCK_ORDER, FRAME_BYTES, Owner};
use crate::memory_map::block_frames;
use crate::space::{FrameVisitor, visit_run};
use crate::{BlockFrames, FrameClass, FreeMemory, MemoryMap, OtherUse};

/// What is said of the frames of one block.
enum BlockUse {
    /// All of them are this.
    Whole(FrameClass),
    /// Frame by frame.
    Frames(Box<[FrameClass; 512]>),
}

/// What is said of the memory's frames; of those nothing is said of, that they are unmovable.
#[derive(Default)]
struct FrameUses {
    blocks: BTreeMap<u64, BlockUse>,
    /// Runs of wholly free blocks: first block → number.
    free: BTreeMap<u64, u64>,
}

impl Kernel {
    /// What lies where in physical memory at this moment.
    pub fn memory_map(&self) -> MemoryMap {
        let mut uses = FrameUses::default();
        self.tell_uses(&mut uses);
        uses.into_map(self.memory.end_frame())
    }

    /// The free blocks of each order at this moment.
    pub fn free_memory(&self) -> FreeMemory {
        FreeMemory::of(self.memory.zones())
    }

    /// Mapped memory in bytes at this moment; a frame counts once for every page that maps it.
    pub fn mapped_bytes(&self) -> u64 {
        self.usage().mapped_pages() * FRAME_BYTES
    }

    /// Says of every frame what it is used for. What nobody names here is unmovable: page tables,
    /// the hole bitmap, injected frames of others.
    fn tell_uses(&self, uses: &mut FrameUses) {
        for zone in self.memory.zones().iter() {
            for (first, frames) in zone.buddy.free_runs() {
                uses.add_free(first, frames);
            }
            for (block, free) in zone.buddy.partly_free() {
                uses.frames(block, &free, FrameClass::Free);
            }
        }
        self.tell_recorded(uses);
        for absent in self.memory.absent() {
            visit_run(absent, FrameClass::Absent, uses);
        }
        for space in self.live_spaces() {
            space.visit_frames(uses);
        }
    }

    /// Says what the frames hold whose owners are recorded, the frames of a block together.
    fn tell_recorded(&self, uses: &mut FrameUses) {
        let mut current = None;
        let mut sets = [HoleSet::EMPTY; FrameClass::ALL.len()];
        let mut tell = |block: Option<Frame>, sets: &mut [HoleSet]| {
            for (&class, set) in FrameClass::ALL.iter().zip(sets) {
                let set = std::mem::take(set);
                if let Some(block) = block.filter(|_| !set.is_empty()) {
                    uses.frames(block, &set, class);
                }
            }
        };
        for (block, index, owner) in self.memory.recorded() {
            if current != Some(block) {
                tell(current, &mut sets);
                current = Some(block);
            }
            sets[class_of(owner) as usize].insert(index);
        }
        tell(current, &mut sets);
    }
}

/// The class of what a recorded frame holds.
fn class_of(owner: Owner) -> FrameClass {
    match owner {
        Owner::Page(..) => FrameClass::Movable,
        Owner::Other(OtherUse::Anonymous, _) => FrameClass::Movable,
        Owner::Other(OtherUse::PageCache, _) => FrameClass::PageCache,
        Owner::Other(OtherUse::Slab, _) => FrameClass::Reclaimable,
        Owner::Other(OtherUse::Kernel | OtherUse::Balloon, _) => FrameClass::Unmovable,
        Owner::Retired => FrameClass::Retired,
    }
}

impl FrameVisitor for FrameUses {
    fn frames(&mut self, block: Frame, frames: &HoleSet, class: FrameClass) {
        // The block of a perforated page with nothing left in place may be free by now.
        if frames.is_empty() {
            return;
        }
        let number = block.number() >> BLOCK_ORDER;
        let all = || BlockUse::Frames(Box::new([FrameClass::Unmovable; 512]));
        let known = self.blocks.entry(number).or_insert_with(all);
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
    /// A free run of frames that begins and ends with 2MB blocks.
    fn add_free(&mut self, start: Frame, frames: u64) {
        self.free.insert(start.number() >> BLOCK_ORDER, frames >> BLOCK_ORDER);
    }

    /// The map of a memory of `frames` frames.
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

/// Blocks up to `end` that nothing is said of.
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
    /// Counts the block's first `frames` frames.
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
