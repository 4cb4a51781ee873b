//! Buddy allocator with orders 0–10 whose own memory grows with what was touched, not with the
//! size of the simulated memory.
//!
//! Chunks of 4MB that are wholly free are kept as runs, chunks without a free frame not at all;
//! only partly free ones have bitmaps. The smallest sufficient order is split first. Single
//! frames and pairs come from the highest addresses, larger blocks from the lowest, so that they
//! meet only when memory is short.

use std::collections::{BTreeMap, BTreeSet};

use perforate_types::Frame;

use super::chunk::{CHUNK_FRAMES, Chunk, End, MAX_ORDER};
use super::runs::Runs;

/// Free frames of a memory, in power-of-two blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Buddy {
    frames: u64,
    free_frames: u64,
    whole: Runs,
    partial: BTreeMap<u64, Box<Chunk>>,
    /// For each order below the largest, the partly free chunks that have a free block of it.
    lists: [BTreeSet<u64>; MAX_ORDER as usize],
}

impl Buddy {
    /// Largest order: 1024 frames, 4MB.
    pub const MAX_ORDER: u32 = MAX_ORDER;

    /// A memory of `frames` frames, all free.
    pub fn new(frames: u64) -> Self {
        let mut buddy = Self {
            frames,
            free_frames: 0,
            whole: Runs::default(),
            partial: BTreeMap::new(),
            lists: Default::default(),
        };
        let chunks = frames / CHUNK_FRAMES;
        if chunks > 0 {
            buddy.whole.insert(0, chunks);
            buddy.free_frames = chunks * CHUNK_FRAMES;
        }
        // The rest of a memory that is no multiple of 4MB: its binary digits, largest first.
        let mut start = chunks * CHUNK_FRAMES;
        for order in (0..MAX_ORDER).rev().filter(|order| frames >> order & 1 != 0) {
            buddy.free(Frame::new(start), order);
            start += 1 << order;
        }
        buddy
    }

    /// Number of free frames.
    pub fn free_frames(&self) -> u64 {
        self.free_frames
    }

    /// Free blocks of exactly this order, as `/proc/buddyinfo` counts them.
    ///
    /// # Panics
    /// If `order` is above [`Self::MAX_ORDER`].
    pub fn free_blocks(&self, order: u32) -> u64 {
        assert!(order <= MAX_ORDER);
        if order == MAX_ORDER {
            return self.whole.count();
        }
        let list = &self.lists[order as usize];
        list.iter().map(|chunk| self.partial[chunk].count(order)).sum()
    }

    /// Contiguous runs of wholly free 4MB chunks, and partly free chunks.
    pub fn pieces(&self) -> (usize, usize) {
        (self.whole.pieces(), self.partial.len())
    }

    /// An aligned block of 2^order frames: the smallest sufficient free block is split.
    pub fn allocate(&mut self, order: u32) -> Option<Frame> {
        let end = if order <= 1 { End::Highest } else { End::Lowest };
        let found = (order..MAX_ORDER).find_map(|from_order| {
            let list = &self.lists[from_order as usize];
            let chunk = if end == End::Highest { list.last() } else { list.first() };
            chunk.map(|&chunk| (chunk, from_order))
        });
        let (chunk, from_order) = match found {
            Some(found) => found,
            None => (self.open(end)?, MAX_ORDER),
        };
        let index = self.change(chunk, |chunk| chunk.allocate(from_order, order, end));
        self.free_frames -= 1 << order;
        Some(Frame::new(chunk * CHUNK_FRAMES + ((index as u64) << order)))
    }

    /// The lowest free aligned run of `frames` frames, a multiple of 1024.
    ///
    /// # Panics
    /// If `frames` is not a multiple of 1024.
    pub fn allocate_run(&mut self, frames: u64) -> Option<Frame> {
        assert!(frames.is_multiple_of(CHUNK_FRAMES));
        let chunks = frames / CHUNK_FRAMES;
        let first = self.whole.lowest_aligned(chunks)?;
        self.whole.remove(first, first + chunks);
        self.free_frames -= frames;
        Some(Frame::new(first * CHUNK_FRAMES))
    }

    /// Gives back a run of `frames` frames, a multiple of 1024.
    ///
    /// # Panics
    /// If part of it is free already.
    pub fn free_run(&mut self, frame: Frame, frames: u64) {
        let first = frame.number() / CHUNK_FRAMES;
        self.whole.insert(first, first + frames / CHUNK_FRAMES);
        self.free_frames += frames;
    }

    /// Whether this frame is free.
    pub fn is_free(&self, frame: Frame) -> bool {
        let (chunk, index) = split(frame);
        match self.partial.get(&chunk) {
            Some(state) => state.free_order(index).is_some(),
            None => self.whole.contains(chunk),
        }
    }

    /// Takes exactly this frame; returns whether it was free.
    pub fn take(&mut self, frame: Frame) -> bool {
        if !self.is_free(frame) {
            return false;
        }
        let (chunk, index) = split(frame);
        if !self.partial.contains_key(&chunk) {
            self.open_chunk(chunk);
        }
        assert!(self.change(chunk, |chunk| chunk.take(index)), "frame was free");
        self.free_frames -= 1;
        true
    }

    /// Gives back the block of 2^order frames at `frame`; free buddies merge.
    ///
    /// # Panics
    /// If part of it is free already, or it lies outside the memory.
    pub fn free(&mut self, frame: Frame, order: u32) {
        assert!(frame.number() + (1 << order) <= self.frames, "frame outside the memory");
        let (chunk, index) = split(frame);
        assert!(!self.whole.contains(chunk), "freed twice");
        self.partial.entry(chunk).or_insert_with(|| Box::new(Chunk::FULL));
        self.change(chunk, |chunk| chunk.free(order, index >> order));
        self.free_frames += 1 << order;
    }

    /// Turns a wholly free chunk at the given end into one with bitmaps.
    fn open(&mut self, end: End) -> Option<u64> {
        let chunk = match end {
            End::Lowest => self.whole.lowest(),
            End::Highest => self.whole.highest(),
        }?;
        self.open_chunk(chunk);
        Some(chunk)
    }

    fn open_chunk(&mut self, chunk: u64) {
        self.whole.remove(chunk, chunk + 1);
        self.partial.insert(chunk, Box::new(Chunk::whole()));
    }

    /// Changes a chunk and keeps the per-order lists, the runs and the set of chunks with state.
    fn change<T>(&mut self, number: u64, act: impl FnOnce(&mut Chunk) -> T) -> T {
        let chunk = self.partial.get_mut(&number).expect("chunk with bitmaps");
        let before = chunk.orders();
        let result = act(chunk);
        let whole = chunk.is_whole();
        let after = if whole { 0 } else { chunk.orders() };
        for order in 0..MAX_ORDER {
            match (before >> order & 1, after >> order & 1) {
                (0, 1) => drop(self.lists[order as usize].insert(number)),
                (1, 0) => drop(self.lists[order as usize].remove(&number)),
                _ => {}
            }
        }
        if after == 0 {
            self.partial.remove(&number);
        }
        if whole {
            self.whole.insert(number, number + 1);
        }
        result
    }
}

/// Chunk of a frame and its place in it.
fn split(frame: Frame) -> (u64, usize) {
    (frame.number() / CHUNK_FRAMES, (frame.number() % CHUNK_FRAMES) as usize)
}
