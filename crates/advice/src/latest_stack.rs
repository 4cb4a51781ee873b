//! LRU stack of the blocks that were used last.

use crate::lru_stack::{Depth, HOLE, TOP, place};
use crate::page_id::BitSet;

/// First `ENTRIES` places of an LRU stack, a multiple of [`TOP`]: as [`LruStack`], but the depth of a block further
/// down is not known, and an access costs the same however many blocks there are.
///
/// [`LruStack`]: crate::lru_stack::LruStack
pub(crate) struct LatestStack<const ENTRIES: usize> {
    /// The stack is `places[top..top + ENTRIES]`: blocks and holes, the latest first. The elements before `top` are free:
    /// a new block goes into the last free one.
    places: Box<[u32]>,
    /// Index of the stack's first place.
    top: usize,
    present: BitSet,
    /// Number of holes among the blocks.
    holes: usize,
}

/// Number of blocks, as a multiple of the stack's places, that come to the top before the places are moved.
const ROOM: usize = 15;

impl<const ENTRIES: usize> LatestStack<ENTRIES> {
    pub(crate) fn new() -> Self {
        const { assert!(ENTRIES.is_multiple_of(TOP)) };
        let places = vec![HOLE; (1 + ROOM) * ENTRIES].into_boxed_slice();
        Self { places, top: ROOM * ENTRIES, present: BitSet::default(), holes: ENTRIES }
    }

    /// Moves a block to the top. Returns its depth before.
    #[inline]
    pub(crate) fn access(&mut self, block: u32) -> Depth {
        let depth = self.depth_of(block);
        let end = depth.unwrap_or(ENTRIES);
        let hole = if self.holes == 0 { None } else { self.find(HOLE).filter(|hole| *hole < end) };
        let free = match (depth, hole) {
            (Some(depth), Some(hole)) => {
                self.places[self.top + depth] = HOLE;
                hole
            }
            (Some(depth), None) => depth,
            (None, Some(hole)) => {
                self.holes -= 1;
                hole
            }
            (None, None) => {
                self.push(block);
                return Depth::Absent;
            }
        };
        self.places.copy_within(self.top..self.top + free, self.top + 1);
        self.places[self.top] = block;
        if depth.is_none() {
            self.present.insert(block as usize);
        }
        depth.map_or(Depth::Absent, Depth::Below)
    }

    /// Puts a block on top. The block in the stack's last place leaves the stack.
    #[inline]
    fn push(&mut self, block: u32) {
        self.present.remove(self.places[self.top + ENTRIES - 1] as usize);
        self.present.insert(block as usize);
        if self.top == 0 {
            self.top = ROOM * ENTRIES;
            self.places.copy_within(0..ENTRIES, self.top);
        }
        self.top -= 1;
        self.places[self.top] = block;
    }

    /// Makes the place of a block a hole, if it is in the stack.
    pub(crate) fn invalidate(&mut self, block: u32) {
        if let Some(depth) = self.depth_of(block) {
            self.present.remove(block as usize);
            self.places[self.top + depth] = HOLE;
            self.holes += 1;
        }
    }

    #[inline]
    fn depth_of(&self, block: u32) -> Option<usize> {
        if self.present.contains(block as usize) { self.find(block) } else { None }
    }

    #[inline]
    fn find(&self, wanted: u32) -> Option<usize> {
        let (parts, _) = self.places[self.top..self.top + ENTRIES].as_chunks();
        let mut parts = parts.iter().enumerate();
        parts.find_map(|(part, blocks)| Some(part * TOP + place(blocks, wanted)?))
    }
}
