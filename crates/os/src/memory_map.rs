//! Map of physical memory: the content of every 2MB block.
//!
//! Every frame has a [`FrameClass`]. The classes of its frames determine the [`BlockClass`] of a
//! block. Equal neighbouring blocks are stored as runs, so that the map of a large memory stays
//! small.

/// Frames of a 2MB block.
const BLOCK_FRAMES: u64 = 512;

/// Use of a frame, as far as it decides what can be done with its block.
///
/// The order is a precedence: a frame with several uses (part of a large page in one mapping, a 4KB
/// page in another) counts as the last of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum FrameClass {
    /// Stays where it is: the kernel's own data, page tables, the hole bitmap, frames of others.
    /// Also the default for a frame in use of which nothing else is known.
    #[default]
    Unmovable,
    /// Unusable after a hard fault.
    Retired,
    /// In the free lists of the allocator.
    Free,
    /// Reserved for a program that has not touched it yet (P §VI: reservation).
    Reserved,
    /// Kernel data that can be freed (slab caches).
    Reclaimable,
    /// Cached contents of files.
    PageCache,
    /// A 4KB page of a program, or a hole that is mapped to this frame.
    Movable,
    /// An in-place part of a perforated page.
    Perforated,
    /// A part of an ordinary 2MB page.
    Large,
    /// A part of a 1GB page.
    Huge,
    /// A part of a gap-tolerant superpage.
    Superpage,
    /// A part of a direct segment that no page-table entry maps.
    Segment,
    /// No memory at this address: the I/O gap, or room for memory that is added later.
    Absent,
}

impl FrameClass {
    /// All classes, in the order of their precedence.
    pub const ALL: [Self; 13] = [
        Self::Unmovable,
        Self::Retired,
        Self::Free,
        Self::Reserved,
        Self::Reclaimable,
        Self::PageCache,
        Self::Movable,
        Self::Perforated,
        Self::Large,
        Self::Huge,
        Self::Superpage,
        Self::Segment,
        Self::Absent,
    ];

    /// Name of the class in results.
    pub fn name(self) -> &'static str {
        match self {
            Self::Unmovable => "unmovable",
            Self::Retired => "retired",
            Self::Free => "free",
            Self::Reserved => "reserved",
            Self::Reclaimable => "reclaimable",
            Self::PageCache => "page_cache",
            Self::Movable => "movable",
            Self::Perforated => "perforated",
            Self::Large => "large",
            Self::Huge => "huge",
            Self::Superpage => "superpage",
            Self::Segment => "segment",
            Self::Absent => "absent",
        }
    }

    /// True if compaction can move the frame or reclaim can free it.
    fn can_go(self) -> bool {
        matches!(self, Self::Reserved | Self::Reclaimable | Self::PageCache | Self::Movable)
    }
}

/// Class of a 2MB block. In cells of several blocks, the last of equally frequent classes is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum BlockClass {
    /// All frames are free.
    Free,
    /// Some frames are free and all others can be moved or freed, so compaction can empty the
    /// block.
    PartlyFree,
    /// Full; at least three quarters are page cache.
    PageCache,
    /// Full; at least three quarters are reclaimable kernel data.
    Reclaimable,
    /// Full; at least three quarters are 4KB pages of programs.
    Movable,
    /// Unmovable and movable frames together, or full of several kinds of movable frames.
    Mixed,
    /// Unmovable frames, and perhaps free ones: no compaction makes it a large page.
    Unmovable,
    /// Retired frames, and perhaps free ones.
    Retired,
    /// No memory in the whole block.
    Absent,
    /// A part of a direct segment.
    Segment,
    /// A part of a 1GB page.
    Huge,
    /// B-blocks of gap-tolerant superpages, with everything that lies beside them.
    Superpage,
    /// An ordinary 2MB page.
    Large,
    /// A perforated page, with the frames in its holes.
    Perforated,
}

impl BlockClass {
    /// All classes, in the order of their precedence.
    pub const ALL: [Self; 14] = [
        Self::Free,
        Self::PartlyFree,
        Self::PageCache,
        Self::Reclaimable,
        Self::Movable,
        Self::Mixed,
        Self::Unmovable,
        Self::Retired,
        Self::Absent,
        Self::Segment,
        Self::Huge,
        Self::Superpage,
        Self::Large,
        Self::Perforated,
    ];

    /// Name of the class in results.
    pub fn name(self) -> &'static str {
        match self {
            Self::Free => "free",
            Self::PartlyFree => "partly_free",
            Self::PageCache => "page_cache",
            Self::Reclaimable => "reclaimable",
            Self::Movable => "movable",
            Self::Mixed => "mixed",
            Self::Unmovable => "unmovable",
            Self::Retired => "retired",
            Self::Absent => "absent",
            Self::Segment => "segment",
            Self::Huge => "huge",
            Self::Superpage => "superpage",
            Self::Large => "large",
            Self::Perforated => "perforated",
        }
    }
}

/// Number of frames of each class in one block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct BlockFrames {
    counts: [u16; FrameClass::ALL.len()],
}

impl BlockFrames {
    /// Makes a block of `frames` frames (512, or fewer at the end of a memory) of one class.
    pub fn uniform(class: FrameClass, frames: u16) -> Self {
        let mut block = Self::default();
        block.counts[class as usize] = frames;
        block
    }

    /// Counts one more frame of the class.
    pub fn add(&mut self, class: FrameClass) {
        self.counts[class as usize] += 1;
    }

    /// Number of frames of the class.
    pub fn count(&self, class: FrameClass) -> u64 {
        self.counts[class as usize].into()
    }

    /// Frames of a perforated page's block that are not in place; they may hold other data. 0 for
    /// other blocks.
    pub fn holes(&self) -> u64 {
        match self.count(FrameClass::Perforated) {
            0 => 0,
            in_place => self.total() - in_place,
        }
    }

    /// Frames that stay where they are: unmovable and retired ones.
    pub fn kept(&self) -> u64 {
        self.count(FrameClass::Unmovable) + self.count(FrameClass::Retired)
    }

    fn total(&self) -> u64 {
        self.counts.iter().copied().map(u64::from).sum()
    }

    /// Class of the block.
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

/// Neighbouring blocks with the same counts of frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockRun {
    /// Number of 2MB blocks.
    pub blocks: u64,
    /// Frames of each block by class.
    pub frames: BlockFrames,
}

/// Contents of physical memory, block by block from address 0.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct MemoryMap {
    runs: Vec<BlockRun>,
    blocks: u64,
}

impl MemoryMap {
    /// Appends blocks with equal contents.
    pub(crate) fn push(&mut self, blocks: u64, frames: BlockFrames) {
        self.blocks += blocks;
        match self.runs.last_mut() {
            Some(last) if last.frames == frames => last.blocks += blocks,
            _ if blocks > 0 => self.runs.push(BlockRun { blocks, frames }),
            _ => {}
        }
    }

    /// Runs of equal blocks, lowest addresses first.
    pub fn runs(&self) -> &[BlockRun] {
        &self.runs
    }

    /// Number of 2MB blocks.
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

    /// Number of frames of the class in the whole memory.
    pub fn frames(&self, class: FrameClass) -> u64 {
        self.runs.iter().map(|run| run.blocks * run.frames.count(class)).sum()
    }

    /// Number of blocks of the class.
    pub fn blocks_of(&self, class: BlockClass) -> u64 {
        let of_class = self.runs.iter().filter(|run| run.frames.class() == class);
        of_class.map(|run| run.blocks).sum()
    }

    /// The map as at most `most_runs` runs of equal cells. The size of a cell is the smallest power
    /// of two of blocks that suffices.
    ///
    /// # Panics
    /// If `most_runs` is 0.
    pub fn cells(&self, most_runs: usize) -> MapCells {
        assert!(most_runs > 0);
        let mut blocks_per_cell = 1;
        loop {
            let runs = self.cells_of(blocks_per_cell);
            if runs.len() <= most_runs {
                return MapCells { blocks_per_cell, runs };
            }
            blocks_per_cell *= 2;
        }
    }

    fn cells_of(&self, blocks_per_cell: u64) -> Vec<CellRun> {
        let mut cells = Cells { blocks_per_cell, runs: Vec::new(), open: OpenCell::default() };
        for run in &self.runs {
            cells.add(run);
        }
        cells.close();
        cells.runs
    }
}

/// A [`MemoryMap`] in cells of one or more blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MapCells {
    /// Blocks of a cell, a power of two; the last cell may have fewer.
    pub blocks_per_cell: u64,
    /// Runs of equal cells, lowest addresses first.
    pub runs: Vec<CellRun>,
}

/// Neighbouring cells with equal contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CellRun {
    /// Number of cells in the run.
    pub cells: u64,
    /// The class that most blocks of each cell have; of equally frequent classes the last.
    pub class: BlockClass,
    /// Number of free frames in each cell.
    pub free_frames: u64,
    /// Frames of each cell that are holes of perforated pages.
    pub hole_frames: u64,
    /// Unmovable and retired frames of each cell.
    pub kept_frames: u64,
}

/// Collects blocks into cells.
struct Cells {
    blocks_per_cell: u64,
    runs: Vec<CellRun>,
    open: OpenCell,
}

/// A cell that is not complete yet.
#[derive(Default)]
struct OpenCell {
    blocks: u64,
    classes: [u64; BlockClass::ALL.len()],
    free_frames: u64,
    hole_frames: u64,
    kept_frames: u64,
}

impl OpenCell {
    fn add(&mut self, blocks: u64, frames: &BlockFrames) {
        self.blocks += blocks;
        self.classes[frames.class() as usize] += blocks;
        self.free_frames += blocks * frames.count(FrameClass::Free);
        self.hole_frames += blocks * frames.holes();
        self.kept_frames += blocks * frames.kept();
    }

    fn run(&self, cells: u64) -> CellRun {
        let most = BlockClass::ALL.into_iter().max_by_key(|&class| self.classes[class as usize]);
        CellRun {
            cells,
            class: most.expect("there are classes"),
            free_frames: self.free_frames,
            hole_frames: self.hole_frames,
            kept_frames: self.kept_frames,
        }
    }
}

impl Cells {
    fn add(&mut self, run: &BlockRun) {
        let mut rest = run.blocks;
        if self.open.blocks > 0 {
            let fill = rest.min(self.blocks_per_cell - self.open.blocks);
            self.open.add(fill, &run.frames);
            rest -= fill;
            if self.open.blocks == self.blocks_per_cell {
                self.close();
            }
        }
        let whole = rest / self.blocks_per_cell;
        if whole > 0 {
            let mut cell = OpenCell::default();
            cell.add(self.blocks_per_cell, &run.frames);
            self.push(cell.run(whole));
        }
        match rest % self.blocks_per_cell {
            0 => {}
            left => self.open.add(left, &run.frames),
        }
    }

    fn close(&mut self) {
        let cell = std::mem::take(&mut self.open);
        if cell.blocks > 0 {
            self.push(cell.run(1));
        }
    }

    fn push(&mut self, run: CellRun) {
        match self.runs.last_mut() {
            Some(last) if CellRun { cells: last.cells, ..run } == *last => last.cells += run.cells,
            _ => self.runs.push(run),
        }
    }
}

/// Number of frames of block `number` in a memory of `frames` frames.
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
        use FrameClass::{Free, Huge, Large, Movable, PageCache, Perforated, Retired, Unmovable};
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
        let perforated = block(&[(Perforated, 384), (Unmovable, 100), (Free, 28)]);
        assert_eq!(perforated.class(), BlockClass::Perforated);
        assert_eq!(perforated.holes(), 128);
    }

    #[test]
    fn cells_show_what_most_of_their_blocks_are() {
        let free = block(&[(FrameClass::Free, 512)]);
        let large = block(&[(FrameClass::Large, 512)]);
        let perforated = block(&[(FrameClass::Perforated, 412), (FrameClass::Free, 100)]);
        let mut map = MemoryMap::default();
        for (blocks, frames) in [(5, free), (1, perforated), (1, free), (1, large), (2, large)] {
            map.push(blocks, frames);
        }
        assert_eq!(map.runs().len(), 4, "the last two are one run");
        assert_eq!(map.block(5), Some(perforated));
        assert_eq!((map.block(9), map.block(10)), (Some(large), None));
        let run = |cells, class, free_frames, hole_frames| CellRun {
            cells,
            class,
            free_frames,
            hole_frames,
            kept_frames: 0,
        };
        assert_eq!(
            map.cells(4),
            MapCells {
                blocks_per_cell: 1,
                runs: vec![
                    run(5, BlockClass::Free, 512, 0),
                    run(1, BlockClass::Perforated, 100, 100),
                    run(1, BlockClass::Free, 512, 0),
                    run(3, BlockClass::Large, 0, 0),
                ],
            }
        );
        // Cells of two blocks would give four runs, so cells have four: ffff|fpfl|ll. Most blocks
        // of the second cell are free; the last cell has two blocks.
        assert_eq!(
            map.cells(3),
            MapCells {
                blocks_per_cell: 4,
                runs: vec![
                    run(1, BlockClass::Free, 2048, 0),
                    run(1, BlockClass::Free, 1124, 100),
                    run(1, BlockClass::Large, 0, 0),
                ],
            }
        );
        // One cell of 16 blocks, with 6 free and 3 large blocks.
        assert_eq!(map.cells(1).runs, [run(1, BlockClass::Free, 3172, 100)]);
    }
}
