//! Map of physical memory: the content of every 2MB block.
//!
//! Every frame has a [`FrameClass`]. The classes of a block's frames determine the [`BlockClass`]
//! of the block. Equal neighbouring blocks are stored as runs, so that the map of a large memory
//! stays small.

/// Number of frames in a 2MB block.
const BLOCK_FRAMES: u64 = 512;

/// Declares an enum of the classes of a memory map, and the name of each class in results.
macro_rules! named {
    ($(#[$about:meta])* pub enum $name:ident {
        $($(#[$meaning:meta])* $variant:ident = $text:literal,)*
    }) => {
        $(#[$about])*
        pub enum $name { $($(#[$meaning])* $variant,)* }

        impl $name {
            /// All variants, in the order of their precedence.
            pub const ALL: [Self; [$($text),*].len()] = [$(Self::$variant),*];

            /// Name of the class in results.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $text,)* }
            }
        }
    };
}

named! {
    /// Use of a frame, in the categories that decide if its block can become a 2MB page.
    ///
    /// The order is a precedence: a frame with several uses (part of a large page in one mapping, a
    /// 4KB page in another) counts as the last of them.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
    pub enum FrameClass {
        /// Cannot be moved: the kernel's data, page tables, the hole bitmap, frames of other owners. Also
        /// the default for a frame whose use is unknown.
        #[default]
        Unmovable = "unmovable",
        /// Taken out of use after a hard fault.
        Retired = "retired",
        /// In the free lists of the allocator.
        Free = "free",
        /// Reserved for a program that has not touched it yet (P §VI: reservation).
        Reserved = "reserved",
        /// Kernel data that can be freed (slab caches).
        Reclaimable = "reclaimable",
        /// Cached contents of files.
        PageCache = "page_cache",
        /// A 4KB page of a program, or a hole that is mapped to this frame.
        Movable = "movable",
        /// An in-place 4KB part of a perforated page.
        Perforated = "perforated",
        /// A part of an ordinary 2MB page.
        Large = "large",
        /// A part of a 1GB page.
        Huge = "huge",
        /// A part of a gap-tolerant superpage.
        Superpage = "superpage",
        /// A part of a direct segment that no page-table entry maps.
        Segment = "segment",
        /// No memory at this address: the I/O gap, or room for hot-added memory.
        Absent = "absent",
    }
}

impl FrameClass {
    /// True if the frame can be emptied: compaction can move its content, or reclaim can free it.
    fn can_go(self) -> bool {
        matches!(self, Self::Reserved | Self::Reclaimable | Self::PageCache | Self::Movable)
    }
}

named! {
    /// Class of a 2MB block in a memory map. If a cell of a chart of memory shows several blocks, the last of
    /// equally frequent classes wins.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub enum BlockClass {
        /// All frames of the block are free.
        Free = "free",
        /// Some frames are free and all others can be moved or freed, so compaction can empty the
        /// block.
        PartlyFree = "partly_free",
        /// No frame is free; at least three quarters are page cache.
        PageCache = "page_cache",
        /// No frame is free; at least three quarters are reclaimable kernel data.
        Reclaimable = "reclaimable",
        /// No frame is free; at least three quarters are 4KB pages of programs.
        Movable = "movable",
        /// Unmovable and movable frames together, or several kinds of movable frames and no free one.
        Mixed = "mixed",
        /// Unmovable frames, and perhaps free ones: no compaction makes it a large page.
        Unmovable = "unmovable",
        /// Retired frames, and perhaps free ones.
        Retired = "retired",
        /// No memory in the whole block.
        Absent = "absent",
        /// A part of a direct segment.
        Segment = "segment",
        /// A part of a 1GB page.
        Huge = "huge",
        /// B-blocks (64ths of a slice) of gap-tolerant superpages, and any other frames of the 2MB block.
        Superpage = "superpage",
        /// An ordinary 2MB page.
        Large = "large",
        /// A perforated page, with the frames in its holes.
        Perforated = "perforated",
    }
}

/// Number of frames of each class in one 2MB block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct BlockFrames {
    counts: [u16; FrameClass::ALL.len()],
}

impl BlockFrames {
    /// Creates a block of `frames` frames (512, or fewer at the end of a memory) of one class.
    pub fn uniform(class: FrameClass, frames: u16) -> Self {
        let mut block = Self::default();
        block.counts[class as usize] = frames;
        block
    }

    /// Counts one more frame of the class in the block.
    pub fn add(&mut self, class: FrameClass) {
        self.counts[class as usize] += 1;
    }

    /// Number of frames of the class in the block.
    pub fn count(&self, class: FrameClass) -> u64 {
        self.counts[class as usize].into()
    }

    /// Number of frames in a perforated page's block that are not in place; they may hold other
    /// data. 0 for other blocks.
    pub fn holes(&self) -> u64 {
        match self.count(FrameClass::Perforated) {
            0 => 0,
            in_place => self.total() - in_place,
        }
    }

    /// Number of frames in the block that cannot be moved or freed: unmovable and retired ones.
    pub fn kept(&self) -> u64 {
        self.count(FrameClass::Unmovable) + self.count(FrameClass::Retired)
    }

    fn total(&self) -> u64 {
        self.counts.iter().copied().map(u64::from).sum()
    }

    /// Class of the block, decided by the classes of its frames (see [`BlockClass`]).
    pub fn class(&self) -> BlockClass {
        let has = |class| self.count(class) > 0;
        for (part, whole) in [
            (FrameClass::Perforated, BlockClass::Perforated),
            (FrameClass::Large, BlockClass::Large),
            (FrameClass::Huge, BlockClass::Huge),
            (FrameClass::Superpage, BlockClass::Superpage),
            (FrameClass::Segment, BlockClass::Segment),
        ] {
            if has(part) {
                return whole;
            }
        }
        if self.count(FrameClass::Absent) == self.total() && has(FrameClass::Absent) {
            return BlockClass::Absent;
        }
        let can_go: u64 =
            FrameClass::ALL.into_iter().filter(|class| class.can_go()).map(|c| self.count(c)).sum();
        let free = self.count(FrameClass::Free);
        match (has(FrameClass::Unmovable), has(FrameClass::Retired)) {
            (false, false) if can_go == 0 => BlockClass::Free,
            (false, false) if free > 0 => BlockClass::PartlyFree,
            (false, false) => self.full_of(),
            (_, _) if can_go > 0 => BlockClass::Mixed,
            (false, true) => BlockClass::Retired,
            (true, _) => BlockClass::Unmovable,
        }
    }

    fn full_of(&self) -> BlockClass {
        [
            (FrameClass::Movable, BlockClass::Movable),
            (FrameClass::PageCache, BlockClass::PageCache),
            (FrameClass::Reclaimable, BlockClass::Reclaimable),
        ]
        .into_iter()
        .find(|&(class, _)| 4 * self.count(class) >= 3 * self.total())
        .map_or(BlockClass::Mixed, |(_, class)| class)
    }
}

/// Run of neighbouring 2MB blocks with equal numbers of frames of each class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockRun {
    /// Number of 2MB blocks in the run.
    pub blocks: u64,
    /// Number of frames of each class, in each block.
    pub frames: BlockFrames,
}

/// Map of physical memory, block by block from address 0.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct MemoryMap {
    runs: Vec<BlockRun>,
    blocks: u64,
}

impl MemoryMap {
    /// Appends `blocks` 2MB blocks to the map, all with these numbers of frames by class.
    pub fn push(&mut self, blocks: u64, frames: BlockFrames) {
        self.blocks += blocks;
        match self.runs.last_mut() {
            Some(last) if last.frames == frames => last.blocks += blocks,
            _ if blocks > 0 => self.runs.push(BlockRun { blocks, frames }),
            _ => {}
        }
    }

    /// Runs of equal 2MB blocks in the map, lowest addresses first.
    pub fn runs(&self) -> &[BlockRun] {
        &self.runs
    }

    /// Number of 2MB blocks that the map covers.
    pub fn blocks(&self) -> u64 {
        self.blocks
    }

    /// Frames of block `number` (address ÷ 2MB) by class; `None` beyond the end.
    pub fn block(&self, number: u64) -> Option<BlockFrames> {
        let mut start = 0;
        self.runs.iter().find_map(|run| {
            start += run.blocks;
            (number < start).then_some(run.frames)
        })
    }

    /// Number of frames of the class in the whole map.
    pub fn frames(&self, class: FrameClass) -> u64 {
        self.runs.iter().map(|run| run.blocks * run.frames.count(class)).sum()
    }

    /// Number of 2MB blocks of the class in the whole map.
    pub fn blocks_of(&self, class: BlockClass) -> u64 {
        let of_class = self.runs.iter().filter(|run| run.frames.class() == class);
        of_class.map(|run| run.blocks).sum()
    }
}

/// Number of frames, at most 512, of 2MB block `number` in a memory of `frames` frames.
pub(crate) fn block_frames(number: u64, frames: u64) -> u16 {
    frames.saturating_sub(number * BLOCK_FRAMES).min(BLOCK_FRAMES) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(parts: &[(FrameClass, u16)]) -> BlockFrames {
        let mut block = BlockFrames::default();
        parts.iter().for_each(|&(class, frames)| block.counts[class as usize] = frames);
        block
    }

    #[test]
    fn a_block_is_what_can_be_done_with_it() {
        use FrameClass::{
            Absent, Free, Huge, Large, Movable, PageCache, Perforated, Retired, Unmovable,
        };
        let class = |parts: &[(FrameClass, u16)]| block(parts).class();
        assert_eq!(class(&[(Free, 512)]), BlockClass::Free);
        assert_eq!(class(&[(Free, 1), (Movable, 511)]), BlockClass::PartlyFree);
        assert_eq!(class(&[(Movable, 512)]), BlockClass::Movable);
        assert_eq!(class(&[(Movable, 384), (PageCache, 128)]), BlockClass::Movable);
        assert_eq!(class(&[(Movable, 383), (PageCache, 129)]), BlockClass::Mixed);
        assert_eq!(class(&[(Free, 511), (Unmovable, 1)]), BlockClass::Unmovable);
        assert_eq!(class(&[(Movable, 511), (Unmovable, 1)]), BlockClass::Mixed);
        assert_eq!(class(&[(Free, 511), (Retired, 1)]), BlockClass::Retired);
        assert_eq!(class(&[(Unmovable, 1), (Retired, 511)]), BlockClass::Unmovable);
        assert_eq!(class(&[(Large, 512)]), BlockClass::Large);
        assert_eq!(class(&[(Huge, 512)]), BlockClass::Huge);
        assert_eq!(class(&[(Absent, 512)]), BlockClass::Absent);
        assert_eq!(class(&[(Free, 256), (Absent, 256)]), BlockClass::Free);
        assert_eq!(class(&[(Free, 1), (Movable, 1), (Absent, 510)]), BlockClass::PartlyFree);
        assert_eq!(class(&[(Unmovable, 1), (Absent, 511)]), BlockClass::Unmovable);
        let perforated = block(&[(Perforated, 384), (Unmovable, 100), (Free, 28)]);
        assert_eq!(perforated.class(), BlockClass::Perforated);
        assert_eq!(perforated.holes(), 128);
    }

    #[test]
    fn equal_neighbours_are_one_run() {
        let free = block(&[(FrameClass::Free, 512)]);
        let large = block(&[(FrameClass::Large, 512)]);
        let mut map = MemoryMap::default();
        for (blocks, frames) in [(5, free), (1, large), (0, free), (2, large)] {
            map.push(blocks, frames);
        }
        assert_eq!(map.runs().len(), 2);
        assert_eq!((map.block(4), map.block(7), map.block(8)), (Some(free), Some(large), None));
    }

    #[test]
    fn what_can_go_and_what_is_kept_decide_the_class() {
        use FrameClass::{
            Absent, Free, Huge, Large, Movable, PageCache, Perforated, Reclaimable, Reserved,
            Retired, Segment, Superpage, Unmovable,
        };
        for (parts, expected) in [
            (&[(Superpage, 512)][..], BlockClass::Superpage),
            (&[(Segment, 1), (Free, 511)], BlockClass::Segment),
            (&[(Segment, 1), (Superpage, 511)], BlockClass::Superpage),
            (&[(Superpage, 1), (Huge, 511)], BlockClass::Huge),
            (&[(Huge, 1), (Large, 511)], BlockClass::Large),
            (&[(Large, 1), (Perforated, 511)], BlockClass::Perforated),
            (&[(PageCache, 384), (Movable, 128)], BlockClass::PageCache),
            (&[(Reclaimable, 384), (Movable, 128)], BlockClass::Reclaimable),
            (&[(Reclaimable, 383), (Movable, 129)], BlockClass::Mixed),
            (&[(Reserved, 512)], BlockClass::Mixed),
            (&[(Reserved, 1), (Free, 511)], BlockClass::PartlyFree),
            (&[(Reclaimable, 1), (Free, 511)], BlockClass::PartlyFree),
            (&[(PageCache, 1), (Retired, 511)], BlockClass::Mixed),
            (&[(Reserved, 1), (Unmovable, 511)], BlockClass::Mixed),
            (&[(Retired, 1), (Absent, 511)], BlockClass::Retired),
            (&[], BlockClass::Free),
        ] {
            assert_eq!(block(parts).class(), expected, "{parts:?}");
        }
        let kept = block(&[(Unmovable, 5), (Retired, 7), (Reserved, 9), (Free, 491)]);
        assert_eq!((kept.kept(), kept.holes()), (12, 0));
        let names = FrameClass::ALL.map(FrameClass::name).join(" ");
        let expected = "unmovable retired free reserved reclaimable page_cache movable perforated \
                        large huge superpage segment absent";
        assert_eq!(names, expected);
        let names = BlockClass::ALL.map(BlockClass::name).join(" ");
        let expected = "free partly_free page_cache reclaimable movable mixed unmovable retired \
                        absent segment huge superpage large perforated";
        assert_eq!(names, expected);
    }

    #[test]
    fn the_last_block_may_be_a_part() {
        let frames = [(0, 1024), (1, 1024), (2, 1024), (1, 700), (0, 0)];
        assert_eq!(
            frames.map(|(number, frames)| block_frames(number, frames)),
            [512, 512, 0, 188, 0]
        );
        let mut map = MemoryMap::default();
        map.push(0, block(&[(FrameClass::Free, 512)]));
        map.push(3, block(&[(FrameClass::Free, 512)]));
        map.push(1, block(&[(FrameClass::Free, 100), (FrameClass::Movable, 3)]));
        assert_eq!((map.blocks(), map.runs().len()), (4, 2));
        let frames = [FrameClass::Free, FrameClass::Movable].map(|class| map.frames(class));
        assert_eq!(frames, [3 * 512 + 100, 3]);
        let blocks = [BlockClass::Free, BlockClass::PartlyFree].map(|class| map.blocks_of(class));
        assert_eq!(blocks, [3, 1]);
    }
}
