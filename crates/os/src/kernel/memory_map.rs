//! The picture of this kernel's physical memory.
//!
//! Made on demand from what the kernel has: the allocator knows what is free, address spaces know
//! what they map. The work grows with what is mapped and with the number of free blocks, not with
//! the size of the memory.

use std::collections::BTreeMap;

use perforate_types::{Frame, HoleSet, PageSize};

use super::Kernel;
use crate::memory::{BLOCK_ORDER, FRAME_BYTES};
use crate::memory_map::block_frames;
use crate::space::FrameVisitor;
use crate::{BlockFrames, Buddy, FrameClass, FreeMemory, MemoryMap};

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
        uses.into_map(self.memory.memory_bytes() / FRAME_BYTES)
    }

    /// The free blocks of each order at this moment.
    pub fn free_memory(&self) -> FreeMemory {
        FreeMemory::of(self.memory.buddy())
    }

    /// Mapped memory in bytes at this moment; a frame counts once for every page that maps it.
    pub fn mapped_bytes(&self) -> u64 {
        self.usage().mapped_pages() * FRAME_BYTES
    }

    /// Says of every frame what it is used for. The one place to extend when frames get other
    /// owners: page cache, slab and retired frames have their classes. What nobody names here is
    /// unmovable: page tables, the hole bitmap, frames of others.
    fn tell_uses(&self, uses: &mut FrameUses) {
        tell_free(self.memory.buddy(), uses);
        for space in self.live_spaces() {
            space.visit_frames(uses);
        }
    }
}

/// Tells of the free frames: a copy of the allocator gives away all it has, largest blocks first.
fn tell_free(buddy: &Buddy, uses: &mut FrameUses) {
    let mut rest = buddy.clone();
    let gigabyte = PageSize::Size1G.pages();
    let mut frames = if rest.free_frames() == 0 { 0 } else { 1 << rest.free_frames().ilog2() };
    while frames >= gigabyte {
        while let Some(start) = rest.allocate_run(frames) {
            uses.add_free(start, frames);
        }
        frames /= 2;
    }
    for order in (0..=Buddy::MAX_ORDER).rev() {
        while rest.free_frames() > 0
            && let Some(start) = rest.allocate(order)
        {
            uses.add_free(start, 1 << order);
        }
    }
}

impl FrameVisitor for FrameUses {
    fn frames(&mut self, block: Frame, frames: &HoleSet, class: FrameClass) {
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
    /// A free run of frames, aligned to its length or to 1GB.
    fn add_free(&mut self, start: Frame, frames: u64) {
        let block = start.align_down(PageSize::Size2M);
        if frames >= 1 << BLOCK_ORDER {
            self.free.insert(block.number() >> BLOCK_ORDER, frames >> BLOCK_ORDER);
            return;
        }
        let first = start.index_in(PageSize::Size2M);
        let set: HoleSet = (first..first + frames as usize).collect();
        self.frames(block, &set, FrameClass::Free);
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
