//! Buddy allocator with orders 0–10 and Linux's grouping by mobility. The host memory that it takes
//! grows with the touched memory, not with the size of the simulated memory.
//!
//! Pairs of pageblocks (4MB, order 10) that are wholly free are stored as runs. Pageblocks without
//! a free frame are not stored. Only partly free ones have bitmaps. An allocation splits a block of
//! the smallest sufficient order. Orders 0 and 1 are taken from the highest pageblock and larger
//! orders from the lowest, so that they meet only when memory is short. Inside a pageblock, the
//! lower half of a split block is used first, as in Linux (`expand()`), so pages touched in
//! sequence get ascending frames.
//!
//! Every pageblock has a [`MigrateType`], initially movable. An allocation takes free blocks in
//! pageblocks of its type. If there are none, it opens a wholly free pair. Otherwise it steals from
//! pageblocks of another type, largest block first, and claims the pageblock if at least half of it
//! is free. Two simplifications of Linux: after stealing without a claim, the rest of the block
//! keeps its pageblock's type; and a pair that becomes wholly free counts as movable again.
//!
//! Pageblocks mapped as pages with holes are *set aside*: their free frames are the in-place frames
//! of holes, and a hole cannot be patched while other data occupy its frame (P §VI). They are used
//! only if nothing else is free.

use std::ops::{Range, RangeInclusive};

use perforate_types::{Frame, HoleSet};

use super::migrate_type::{MigrateType, PAGEBLOCK_FRAMES};
use super::number_set::NumberSet;
use super::pageblock::{End, PAGEBLOCK_ORDER, Pageblock};
use super::runs::Runs;

/// Largest order: 1024 frames, 4MB.
const MAX_ORDER: u32 = 10;
/// Number of frames in a pair of pageblocks, which is a block of the largest order.
const PAIR_FRAMES: u64 = 1 << MAX_ORDER;
/// Number of neighbouring pageblocks whose allocator state is stored together.
const GROUP: usize = 1024;
/// Smallest number of free frames in a pageblock with which another migrate type claims it as a whole.
const CLAIM_FRAMES: u64 = PAGEBLOCK_FRAMES / 2;
/// Number of lists of partly free pageblocks: for each migrate type, one of ordinary pageblocks and one of
/// those set aside (their free frames are in place of holes).
const LISTS: usize = 2 * MigrateType::COUNT;

/// Free frames of one range of memory, in power-of-two blocks.
#[derive(Clone, Debug)]
pub struct Buddy {
    range: Range<u64>,
    free_frames: u64,
    /// Wholly free pairs of pageblocks, by frame number ÷ 1024.
    whole: Runs,
    groups: Vec<Option<Box<Group>>>,
    /// Pageblocks with a free block, by list and order of the block. The first lists are for the migrate
    /// types, the others for pageblocks of each type that are set aside (used last, because their free frames
    /// are the in-place frames of holes).
    lists: [[NumberSet; PAGEBLOCK_ORDER as usize + 1]; LISTS],
    /// Number of free blocks, by list of pageblocks and order.
    counts: [[u64; PAGEBLOCK_ORDER as usize + 1]; LISTS],
    with_state: usize,
    /// Number of allocations that took a free block from a pageblock of another migrate type.
    steals: u64,
    /// Number of pageblocks whose migrate type changed because an allocation of another type claimed them.
    claims: u64,
    /// Number of frames allocated from pageblocks that are set aside because 2MB pages with holes map them.
    taken_from_aside: u64,
}

/// Allocator state of a group of neighbouring pageblocks.
#[derive(Clone, Debug)]
struct Group {
    /// State of each partly free pageblock; `None` for full and wholly free pageblocks.
    pageblocks: [Option<Box<Pageblock>>; GROUP],
    types: [MigrateType; GROUP],
    is_set_aside: [bool; GROUP],
}

impl Group {
    /// Index in `Buddy::lists` of the list for the migrate type and set-aside state of a pageblock.
    fn list(&self, number: u64) -> usize {
        let index = number as usize % GROUP;
        list_of(self.types[index], self.is_set_aside[index])
    }
}

impl Buddy {
    /// Largest order: 1024 frames, 4MB.
    pub const MAX_ORDER: u32 = MAX_ORDER;

    /// Creates an allocator for `frames` frames, all free.
    pub fn new(frames: u64) -> Self {
        Self::over(0..frames)
    }

    /// Creates an allocator for a range of frames, all free.
    ///
    /// # Panics
    /// If the start is not a multiple of 1024.
    pub(crate) fn over(range: Range<u64>) -> Self {
        assert!(range.start.is_multiple_of(PAIR_FRAMES));
        let mut buddy = Self {
            range: range.clone(),
            free_frames: 0,
            whole: Runs::default(),
            groups: Vec::new(),
            lists: Default::default(),
            counts: Default::default(),
            with_state: 0,
            steals: 0,
            claims: 0,
            taken_from_aside: 0,
        };
        let pairs = range.start / PAIR_FRAMES..range.end / PAIR_FRAMES;
        if !pairs.is_empty() {
            buddy.free_frames = (pairs.end - pairs.start) * PAIR_FRAMES;
            buddy.whole.insert(pairs.start, pairs.end);
        }
        // The end of a memory that is not a multiple of 4MB: one block for each binary digit,
        // largest first.
        let mut start = pairs.end * PAIR_FRAMES;
        for order in (0..MAX_ORDER).rev().filter(|order| range.end >> order & 1 != 0) {
            buddy.free(Frame::new(start), order);
            start += 1 << order;
        }
        buddy
    }

    /// The frames that the allocator manages, free or not.
    pub fn range(&self) -> Range<u64> {
        self.range.clone()
    }

    /// Number of free frames.
    pub fn free_frames(&self) -> u64 {
        self.free_frames
    }

    /// Number of free blocks of exactly this order, as `/proc/buddyinfo` counts them.
    ///
    /// # Panics
    /// If `order` is above [`Self::MAX_ORDER`].
    pub fn free_blocks(&self, order: u32) -> u64 {
        MigrateType::ALL.iter().map(|&kind| self.free_blocks_of(kind, order)).sum()
    }

    /// Number of free blocks of exactly this order in pageblocks of this type, as
    /// `/proc/pagetypeinfo` counts them.
    ///
    /// # Panics
    /// If `order` is above [`Self::MAX_ORDER`].
    pub fn free_blocks_of(&self, kind: MigrateType, order: u32) -> u64 {
        assert!(order <= MAX_ORDER);
        match (order, kind) {
            (MAX_ORDER, MigrateType::Movable) => self.whole.count(),
            (MAX_ORDER, _) => 0,
            _ => [false, true]
                .into_iter()
                .map(|aside| self.counts[list_of(kind, aside)][order as usize])
                .sum(),
        }
    }

    /// Number of runs of wholly free 4MB blocks, and number of partly free pageblocks.
    pub fn pieces(&self) -> (usize, usize) {
        (self.whole.pieces(), self.with_state)
    }

    /// Number of allocations that took a block from a pageblock of another migrate type, and number of
    /// pageblocks that changed their type because of this.
    pub fn steals_and_claims(&self) -> (u64, u64) {
        (self.steals, self.claims)
    }

    /// Sets the pageblock around `frame` aside, so that the allocator uses it only if nothing else is free.
    /// If `aside` is false, returns the pageblock to normal use.
    pub(crate) fn set_aside(&mut self, frame: Frame, aside: bool) {
        let (number, _) = split(frame);
        let block = self.remove(number);
        self.group(number).is_set_aside[number as usize % GROUP] = aside;
        if let Some(block) = block {
            self.put(number, block);
        }
    }

    /// Number of frames that were allocated from pageblocks set aside, because nothing else was
    /// free.
    pub fn taken_from_aside(&self) -> u64 {
        self.taken_from_aside
    }

    /// Sets the migrate type of the pageblock around a frame.
    ///
    /// # Panics
    /// If any frame of the pageblock is free.
    pub(crate) fn set_migrate_type(&mut self, frame: Frame, kind: MigrateType) {
        let (number, _) = split(frame);
        assert!(
            self.block(number).is_none() && !self.whole.contains(number / 2),
            "nothing is free"
        );
        self.set_kind(number, kind);
    }

    /// Migrate type of the pageblock around a frame.
    pub fn migrate_type(&self, frame: Frame) -> MigrateType {
        self.kind(frame.number() / PAGEBLOCK_FRAMES)
    }

    /// Allocates an aligned block of 2^order frames for content of migrate type `kind`; `None` if none is
    /// free.
    pub fn allocate(&mut self, order: u32, kind: MigrateType) -> Option<Frame> {
        let end = if order <= 1 { End::Highest } else { End::Lowest };
        if order == MAX_ORDER {
            let pair = self.whole.lowest()?;
            self.whole.remove(pair, pair + 1);
            self.free_frames -= PAIR_FRAMES;
            self.set_kind(2 * pair, kind);
            self.set_kind(2 * pair + 1, kind);
            return Some(Frame::new(pair * PAIR_FRAMES));
        }
        let (number, from_order) = self
            .block_in(list_of(kind, false), order, end)
            .or_else(|| self.open(kind, end))
            .or_else(|| self.steal(order, kind, end))
            .or_else(|| self.take_from_aside(order, kind, end))?;
        Some(self.split_block(number, from_order, order))
    }

    /// Allocates adjacent frames for content of migrate type `kind`, at most `most`: the ones that successive calls of
    /// [`Self::allocate`] for single frames would return. `None` if none is free.
    pub(crate) fn allocate_singles(&mut self, most: u64, kind: MigrateType) -> Option<Range<u64>> {
        let end = End::Highest;
        let own = self.block_in(list_of(kind, false), 0, end).or_else(|| self.open(kind, end));
        let Some((number, from_order)) = own else {
            let frame = self.allocate(0, kind)?.number();
            return Some(frame..frame + 1);
        };
        // No pageblock of this type has a smaller block, so single frames come from this one until it is used up,
        // the lowest first.
        let order = from_order.min(most.ilog2());
        let first = self.split_block(number, from_order, order).number();
        Some(first..first + (1 << order))
    }

    /// Allocates the lowest block of `order` of a pageblock's lowest free block of `from_order`.
    #[inline]
    fn split_block(&mut self, number: u64, from_order: u32, order: u32) -> Frame {
        let index =
            self.change(number, |block| (block.allocate(from_order, order), order..=from_order));
        self.free_frames -= 1 << order;
        Frame::new(number * PAGEBLOCK_FRAMES + ((index as u64) << order))
    }

    /// Finds the smallest free block of at least 2^`order` frames in the pageblocks of `list`, from `end` of
    /// memory. Returns the pageblock and the order of the block.
    fn block_in(&self, list: usize, order: u32, end: End) -> Option<(u64, u32)> {
        let counts = &self.counts[list];
        let from = (order..PAGEBLOCK_ORDER + 1).find(|&from| counts[from as usize] > 0)?;
        let list = &self.lists[list][from as usize];
        let number = if end == End::Highest { list.last() } else { list.first() };
        number.map(|number| (number, from))
    }

    /// Splits a wholly free pair of pageblocks, from `end` of memory, for content of type `kind`. Returns the
    /// pageblock to use, and the order of its free block.
    fn open(&mut self, kind: MigrateType, end: End) -> Option<(u64, u32)> {
        let pair = match end {
            End::Lowest => self.whole.lowest(),
            End::Highest => self.whole.highest(),
        }?;
        self.open_pair(pair, kind);
        Some((2 * pair + u64::from(end == End::Highest), PAGEBLOCK_ORDER))
    }

    fn open_pair(&mut self, pair: u64, kind: MigrateType) {
        self.whole.remove(pair, pair + 1);
        for number in [2 * pair, 2 * pair + 1] {
            self.set_kind(number, kind);
            self.put(number, Box::new(Pageblock::whole()));
        }
    }

    /// Finds the largest free block in pageblocks of another type, and claims its pageblock if at least half
    /// of it is free. Returns the pageblock and the order of the block.
    fn steal(&mut self, order: u32, kind: MigrateType, end: End) -> Option<(u64, u32)> {
        let found = (order..=PAGEBLOCK_ORDER).rev().find_map(|from| {
            kind.fallbacks().iter().find_map(|other| {
                let list = &self.lists[list_of(*other, false)][from as usize];
                let number = if end == End::Highest { list.last() } else { list.first() };
                number.map(|number| (number, from))
            })
        });
        let (number, _) = found?;
        self.steals += 1;
        let block = self.block(number).expect("a pageblock with free blocks has state");
        if block.free_frames() >= CLAIM_FRAMES {
            self.claims += 1;
            let block = self.remove(number).expect("found");
            self.set_kind(number, kind);
            self.put(number, block);
        }
        found
    }

    /// Finds the smallest sufficient free block in pageblocks that are set aside (used last), preferably of
    /// type `kind`. Returns the pageblock and the order of the block.
    fn take_from_aside(&mut self, order: u32, kind: MigrateType, end: End) -> Option<(u64, u32)> {
        let kinds = std::iter::once(kind).chain(kind.fallbacks());
        let found =
            kinds.into_iter().find_map(|kind| self.block_in(list_of(kind, true), order, end))?;
        self.taken_from_aside += 1 << order;
        Some(found)
    }

    /// Allocates the lowest free aligned run of `frames` frames, a multiple of 1024.
    ///
    /// # Panics
    /// If `frames` is not a multiple of 1024.
    pub fn allocate_run(&mut self, frames: u64) -> Option<Frame> {
        assert!(frames.is_multiple_of(PAIR_FRAMES));
        let pairs = frames / PAIR_FRAMES;
        let first = self.whole.lowest_aligned(pairs)?;
        self.whole.remove(first, first + pairs);
        self.free_frames -= frames;
        Some(Frame::new(first * PAIR_FRAMES))
    }

    /// Frees a run of `frames` frames, a multiple of 1024.
    ///
    /// # Panics
    /// If part of the run is free already.
    pub fn free_run(&mut self, frame: Frame, frames: u64) {
        let first = frame.number() / PAIR_FRAMES;
        self.whole.insert(first, first + frames / PAIR_FRAMES);
        self.free_frames += frames;
    }

    /// Allocates all free frames of the pageblocks with these numbers. The pageblocks have the type movable
    /// afterwards.
    pub(crate) fn take_pageblocks(&mut self, numbers: Range<u64>) {
        let mut number = numbers.start;
        while number < numbers.end {
            if let Some(block) = self.remove(number) {
                self.free_frames -= block.free_frames();
                self.set_kind(number, MigrateType::Movable);
                number += 1;
                continue;
            }
            let pair = number / 2;
            let Some(run_end) = self.whole.end_of(pair) else {
                number += 1;
                continue;
            };
            let end = run_end.min(numbers.end / 2);
            if !number.is_multiple_of(2) || end == pair {
                self.open_pair(pair, MigrateType::Movable);
                continue;
            }
            self.whole.remove(pair, end);
            self.free_frames -= (end - pair) * PAIR_FRAMES;
            number = 2 * end;
        }
    }

    /// True if the frame is free.
    pub fn is_free(&self, frame: Frame) -> bool {
        let (number, index) = split(frame);
        match self.block(number) {
            Some(block) => block.free_order(index).is_some(),
            None => self.whole.contains(number / 2),
        }
    }

    /// Indices of the free frames of the pageblock around a frame.
    pub fn free_in_pageblock(&self, frame: Frame) -> HoleSet {
        let (number, _) = split(frame);
        match self.block(number) {
            Some(block) => block.free_set(),
            None if self.whole.contains(number / 2) => HoleSet::FULL,
            None => HoleSet::EMPTY,
        }
    }

    /// Runs of wholly free 4MB blocks in ascending order: first frame, and number of frames.
    pub(crate) fn free_runs(&self) -> impl Iterator<Item = (Frame, u64)> + '_ {
        let runs = self.whole.iter();
        runs.map(|(start, end)| (Frame::new(start * PAIR_FRAMES), (end - start) * PAIR_FRAMES))
    }

    /// Every partly free pageblock in ascending order: first frame, and indices of its free frames.
    pub(crate) fn partly_free(&self) -> impl Iterator<Item = (Frame, HoleSet)> + '_ {
        let groups = self.groups.iter().enumerate();
        groups.flat_map(|(group, blocks)| {
            let blocks = blocks.iter().flat_map(|blocks| blocks.pageblocks.iter().enumerate());
            blocks.filter_map(move |(index, block)| {
                let number = (group * GROUP + index) as u64;
                Some((Frame::new(number * PAGEBLOCK_FRAMES), block.as_ref()?.free_set()))
            })
        })
    }

    /// Allocates exactly this frame. Returns false if it is not free.
    pub fn take(&mut self, frame: Frame) -> bool {
        if !self.is_free(frame) {
            return false;
        }
        let (number, index) = split(frame);
        if self.block(number).is_none() {
            self.open_pair(number / 2, MigrateType::Movable);
        }
        self.change(number, |block| ((), 0..=block.take(index)));
        self.free_frames -= 1;
        true
    }

    /// Frees the block of 2^order frames at `frame`; free buddies merge.
    ///
    /// # Panics
    /// If part of the block is free already, or the block lies outside the memory.
    pub fn free(&mut self, frame: Frame, order: u32) {
        let first = frame.number();
        let inside = self.range.start <= first && first + (1 << order) <= self.range.end;
        assert!(inside, "frame outside the memory");
        let (number, index) = split(frame);
        assert!(!self.whole.contains(number / 2), "freed twice");
        self.free_frames += 1 << order;
        if order == MAX_ORDER {
            assert!(self.block(number).is_none() && self.block(number + 1).is_none());
            self.whole.insert(number / 2, number / 2 + 1);
            return;
        }
        if self.block(number).is_none() {
            self.put(number, Box::new(Pageblock::FULL));
        }
        self.change(number, |block| ((), order..=block.free(order, index >> order)));
        self.close_pair(number / 2);
    }

    /// Merges a pair of wholly free pageblocks into one block of the largest order, 4MB.
    fn close_pair(&mut self, pair: u64) {
        let is_whole = |number| self.block(number).is_some_and(Pageblock::is_whole);
        if is_whole(2 * pair) && is_whole(2 * pair + 1) {
            for number in [2 * pair, 2 * pair + 1] {
                self.remove(number);
                self.set_kind(number, MigrateType::Movable);
            }
            self.whole.insert(pair, pair + 1);
        }
    }

    /// Changes a pageblock by `act`, and updates lists and counts. `act` also returns the range of orders
    /// whose free blocks it may have changed.
    #[inline]
    fn change<T>(
        &mut self,
        number: u64,
        act: impl FnOnce(&mut Pageblock) -> (T, RangeInclusive<u32>),
    ) -> T {
        let (group, index) = (number as usize / GROUP, number as usize % GROUP);
        let group = self.groups[group].as_mut().expect("pageblock with state");
        let list = group.list(number);
        let block = group.pageblocks[index].as_mut().expect("pageblock with state");
        let before = block.counts();
        let (result, orders) = act(block);
        // The loop reads the counts one by one, because they were just written one by one.
        for order in *orders.start() as usize..*orders.end() as usize + 1 {
            let (before, after) = (before[order], block.count(order));
            let count = &mut self.counts[list][order];
            *count = *count + u64::from(after) - u64::from(before);
            match (before, after) {
                (0, 1..) => self.lists[list][order].insert(number),
                (1.., 0) => self.lists[list][order].remove(number),
                _ => {}
            }
        }
        if block.is_full() {
            group.pageblocks[index] = None;
            self.with_state -= 1;
        }
        result
    }

    /// Stores the state of a pageblock that had none, and adds the pageblock to the lists.
    fn put(&mut self, number: u64, block: Box<Pageblock>) {
        let list = self.group(number).list(number);
        for (order, count) in block.counts().into_iter().enumerate().filter(|(_, count)| *count > 0)
        {
            self.counts[list][order] += u64::from(count);
            self.lists[list][order].insert(number);
        }
        self.with_state += 1;
        let group = self.group(number);
        group.pageblocks[number as usize % GROUP] = Some(block);
    }

    /// Removes the state of a pageblock and returns it; `None` if the pageblock has none.
    fn remove(&mut self, number: u64) -> Option<Box<Pageblock>> {
        self.block(number)?;
        let group = self.group(number);
        let list = group.list(number);
        let block = group.pageblocks[number as usize % GROUP].take()?;
        for (order, count) in block.counts().into_iter().enumerate().filter(|(_, count)| *count > 0)
        {
            self.counts[list][order] -= u64::from(count);
            self.lists[list][order].remove(number);
        }
        self.with_state -= 1;
        Some(block)
    }

    fn block(&self, number: u64) -> Option<&Pageblock> {
        let group = self.groups.get(number as usize / GROUP)?.as_ref()?;
        group.pageblocks[number as usize % GROUP].as_deref()
    }

    fn kind(&self, number: u64) -> MigrateType {
        let group = self.groups.get(number as usize / GROUP).and_then(Option::as_ref);
        group.map_or(MigrateType::Movable, |group| group.types[number as usize % GROUP])
    }

    fn set_kind(&mut self, number: u64, kind: MigrateType) {
        if self.kind(number) != kind {
            self.group(number).types[number as usize % GROUP] = kind;
        }
    }

    fn group(&mut self, number: u64) -> &mut Group {
        let index = number as usize / GROUP;
        if self.groups.len() <= index {
            self.groups.resize_with(index + 1, || None);
        }
        self.groups[index].get_or_insert_with(|| {
            let pageblocks = [const { None }; GROUP];
            let types = [MigrateType::Movable; GROUP];
            Box::new(Group { pageblocks, types, is_set_aside: [false; GROUP] })
        })
    }
}

/// Index in `Buddy::lists` of the list for pageblocks of a type, set aside or not.
const fn list_of(kind: MigrateType, aside: bool) -> usize {
    kind as usize + if aside { MigrateType::COUNT } else { 0 }
}

/// Number of a frame's pageblock, and index of the frame in that pageblock.
fn split(frame: Frame) -> (u64, usize) {
    let number = frame.number();
    (number / PAGEBLOCK_FRAMES, (number % PAGEBLOCK_FRAMES) as usize)
}
