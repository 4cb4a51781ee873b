//! LRU stack of the blocks that were used last.

use crate::lru_stack::{Depth, HOLE, TOP, place};
use crate::page_id::BitSet;

/// First `ENTRIES` places of an LRU stack, a multiple of [`TOP`]: as [`LruStack`], but the depth of a block further
/// down is not known, and an access costs the same however many blocks there are.
///
/// [`LruStack`]: crate::lru_stack::LruStack
pub(crate) struct LatestStack<const ENTRIES: usize> {
    /// Blocks and holes, the top first.
    blocks: [u32; ENTRIES],
    present: BitSet,
    /// Number of holes among the blocks.
    holes: usize,
}

impl<const ENTRIES: usize> LatestStack<ENTRIES> {
    pub(crate) fn new() -> Self {
        const { assert!(ENTRIES.is_multiple_of(TOP)) };
        Self { blocks: [HOLE; ENTRIES], present: BitSet::default(), holes: ENTRIES }
    }

    /// Moves a block to the top. Returns its depth before.
    #[inline]
    pub(crate) fn access(&mut self, block: u32) -> Depth {
        let depth = self.depth_of(block);
        let end = depth.unwrap_or(ENTRIES);
        let hole = if self.holes == 0 { None } else { self.find(HOLE).filter(|hole| *hole < end) };
        let free = match (depth, hole) {
            (Some(depth), Some(hole)) => {
                self.blocks[depth] = HOLE;
                hole
            }
            (Some(depth), None) => depth,
            (None, Some(hole)) => {
                self.holes -= 1;
                hole
            }
            (None, None) => {
                self.present.remove(self.blocks[ENTRIES - 1] as usize);
                ENTRIES - 1
            }
        };
        self.blocks.copy_within(0..free, 1);
        self.blocks[0] = block;
        if depth.is_none() {
            self.present.insert(block as usize);
        }
        depth.map_or(Depth::Absent, Depth::Below)
    }

    /// Makes the place of a block a hole, if it is in the stack.
    pub(crate) fn invalidate(&mut self, block: u32) {
        if let Some(depth) = self.depth_of(block) {
            self.present.remove(block as usize);
            self.blocks[depth] = HOLE;
            self.holes += 1;
        }
    }

    #[inline]
    fn depth_of(&self, block: u32) -> Option<usize> {
        if self.present.contains(block as usize) { self.find(block) } else { None }
    }

    #[inline]
    fn find(&self, wanted: u32) -> Option<usize> {
        let (parts, _) = self.blocks.as_chunks();
        let mut parts = parts.iter().enumerate();
        parts.find_map(|(part, blocks)| Some(part * TOP + place(blocks, wanted)?))
    }
}
