//! Search for runs of memory far longer than the buddy allocator's largest block, which direct
//! segments need (D §VI.A). Linux's `alloc_contig_range` is given a range: it isolates the free
//! frames and migrates the movable ones. Here the range is searched for as well.
//!
//! A run consists of 2MB blocks in one zone. Wholly free memory is scanned run by run; the frames
//! of other blocks are examined one by one.

use std::collections::BTreeMap;
use std::ops::Range;

use perforate_types::{Frame, HoleSet};

use super::{BLOCK_ORDER, Owner, PhysicalMemory, Zone};

/// Requirements for a run of contiguous 2MB blocks.
#[derive(Clone, Debug)]
pub(crate) struct WantedRun<'a> {
    /// Length of the run, in 2MB blocks.
    pub blocks: u64,
    /// Largest number of faulty frames that the run may contain.
    pub faulty_frames: u64,
    /// True if the run may contain movable frames, which must then be migrated.
    pub moves: bool,
    /// Range of frames that must contain the run; `None` for all memory.
    pub within: Option<Range<u64>>,
    /// Movable 2MB pages, by number of the block that holds each; used only if `moves` is true.
    pub large_pages: &'a BTreeMap<u64, crate::space::RegionPlace>,
}

/// A run of contiguous 2MB blocks that can be allocated, if necessary after migration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    /// Numbers of the 2MB blocks of the run.
    pub blocks: Range<u64>,
    /// Number of frames in the run that must be migrated.
    pub movable_frames: u64,
}

impl Run {
    /// First frame of the run.
    pub(crate) fn first(&self) -> Frame {
        Frame::new(self.blocks.start << BLOCK_ORDER)
    }

    /// Frame numbers of the run.
    pub(crate) fn frames(&self) -> Range<u64> {
        self.blocks.start << BLOCK_ORDER..self.blocks.end << BLOCK_ORDER
    }
}

/// Cost of taking a block that is not wholly free: numbers of frames to migrate and of faulty
/// frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Cost {
    movable: u64,
    faulty: u64,
}

/// Maximal sequence of neighbouring 2MB blocks each of which can be allocated, if necessary after migration;
/// and the cost of doing so.
#[derive(Clone, Debug, Default)]
struct Stretch {
    blocks: Range<u64>,
    /// Prefix sums: number of each block with a nonzero cost, and total cost up to and including
    /// the block.
    sums: Vec<(u64, Cost)>,
}

impl Stretch {
    fn starting_at(block: u64) -> Self {
        Self { blocks: block..block, sums: Vec::new() }
    }

    fn extend(&mut self, blocks: u64, cost: Cost) {
        if cost != Cost::default() {
            let sum = self.sums.last().map_or(Cost::default(), |&(_, sum)| sum);
            let movable = sum.movable + cost.movable;
            self.sums.push((self.blocks.end, Cost { movable, faulty: sum.faulty + cost.faulty }));
        }
        self.blocks.end += blocks;
    }

    fn cost_below(&self, block: u64) -> Cost {
        let place = self.sums.partition_point(|&(number, _)| number < block);
        place.checked_sub(1).map_or(Cost::default(), |place| self.sums[place].1)
    }

    fn cost(&self, blocks: &Range<u64>) -> Cost {
        let (below, all) = (self.cost_below(blocks.start), self.cost_below(blocks.end));
        Cost { movable: all.movable - below.movable, faulty: all.faulty - below.faulty }
    }

    /// Cheapest sequence of `length` blocks in the stretch: fewest movable frames, then fewest faulty frames,
    /// then lowest address. It is enough to try sequences that begin after a block with a cost, end before
    /// one, or touch an end of the stretch.
    fn cheapest(&self, length: u64, most_faulty: u64) -> Option<(Cost, Range<u64>)> {
        let last = self.blocks.end.checked_sub(length).filter(|last| *last >= self.blocks.start)?;
        let beside = self.sums.iter().flat_map(|&(block, _)| {
            [Some(block + 1), block.checked_sub(length)].into_iter().flatten()
        });
        let starts = [self.blocks.start, last].into_iter().chain(beside);
        let inside = starts.filter(|start| (self.blocks.start..=last).contains(start));
        let parts = inside.map(|start| {
            let blocks = start..start + length;
            (self.cost(&blocks), blocks)
        });
        parts
            .filter(|(cost, _)| cost.faulty <= most_faulty)
            .min_by_key(|(cost, blocks)| (cost.movable, cost.faulty, blocks.start))
    }

    /// Length in blocks of the longest sequence in the stretch with at most `most_faulty` faulty frames.
    fn longest(&self, most_faulty: u64) -> u64 {
        let after = self.sums.iter().map(|&(block, _)| block + 1);
        let starts = std::iter::once(self.blocks.start).chain(after);
        let lengths = starts.map(|start| {
            let below = self.cost_below(start).faulty;
            let fits = |&(_, sum): &(u64, Cost)| sum.faulty - below.min(sum.faulty) <= most_faulty;
            let end = self.sums.partition_point(fits);
            let end = self.sums.get(end).map_or(self.blocks.end, |&(block, _)| block);
            end.saturating_sub(start)
        });
        lengths.max().unwrap_or(0)
    }
}

impl PhysicalMemory {
    /// Finds the cheapest run that meets the requirements.
    ///
    /// # Errors
    /// The length in frames of the longest run, if none meets the requirements.
    pub(crate) fn find_run(&self, wanted: &WantedRun<'_>) -> Result<Run, u64> {
        let mut best: Option<(Cost, Range<u64>)> = None;
        let mut longest = 0;
        // Program memory is allocated from the highest zone first.
        for zone in self.zones.iter().rev() {
            for stretch in self.stretches(zone, wanted) {
                longest = longest.max(stretch.longest(wanted.faulty_frames));
                let Some(found) = stretch.cheapest(wanted.blocks, wanted.faulty_frames) else {
                    continue;
                };
                let key = |found: &(Cost, Range<u64>)| (found.0.movable, found.0.faulty);
                if best.as_ref().is_none_or(|best| key(&found) < key(best)) {
                    best = Some(found);
                }
            }
        }
        match best {
            Some((cost, blocks)) => Ok(Run { blocks, movable_frames: cost.movable }),
            None => Err(longest << BLOCK_ORDER),
        }
    }

    /// Maximal sequences of neighbouring 2MB blocks of a zone, each of which can be allocated.
    fn stretches(&self, zone: &Zone, wanted: &WantedRun<'_>) -> Vec<Stretch> {
        let range = zone.buddy.range();
        let within = wanted.within.clone().unwrap_or(0..u64::MAX);
        let start = (range.start >> BLOCK_ORDER).max(within.start.div_ceil(1 << BLOCK_ORDER));
        let end = range.end.min(within.end) >> BLOCK_ORDER;
        let inside = |(first, frames): (Frame, u64)| {
            let run = (first.number() >> BLOCK_ORDER).max(start)
                ..((first.number() + frames) >> BLOCK_ORDER).min(end);
            (!run.is_empty()).then_some(run)
        };
        let mut free = zone.buddy.free_runs().filter_map(inside).peekable();
        let mut stretches = Vec::new();
        let mut stretch = Stretch::starting_at(start);
        while stretch.blocks.end < end {
            let number = stretch.blocks.end;
            let run = free.next_if(|run| run.start == number);
            let found = match run {
                Some(run) => Some((run.end - run.start, Cost::default())),
                None => self.cost_of_block(number, wanted).map(|cost| (1, cost)),
            };
            match found {
                Some((blocks, cost)) => stretch.extend(blocks, cost),
                None => {
                    stretches
                        .push(std::mem::replace(&mut stretch, Stretch::starting_at(number + 1)));
                }
            }
        }
        stretches.push(stretch);
        stretches
    }

    /// Cost of taking a 2MB block that is not wholly free; `None` if the block cannot be taken.
    fn cost_of_block(&self, number: u64, wanted: &WantedRun<'_>) -> Option<Cost> {
        let block = Frame::new(number << BLOCK_ORDER);
        if wanted.moves && wanted.large_pages.contains_key(&number) {
            return Some(Cost { movable: HoleSet::SUBPAGES as u64, faulty: 0 });
        }
        let faulty = self.owners.retired(block);
        if !wanted.moves {
            let free = self.zones.free_in_pageblock(block).count() as u64;
            return (free + faulty == HoleSet::SUBPAGES as u64)
                .then_some(Cost { movable: 0, faulty });
        }
        if self.at_most_usable(block) < HoleSet::SUBPAGES as u64 {
            return None;
        }
        let contents = self.contents(block);
        let cost = Cost { movable: contents.movable.count() as u64, faulty };
        (contents.fixed.count() as u64 == faulty).then_some(cost)
    }

    /// True if the frame is faulty and retired.
    pub(crate) fn is_retired(&self, frame: Frame) -> bool {
        self.owners.get(frame) == Some(Owner::Retired)
    }

    /// Allocates the free frames of these 2MB blocks.
    pub(crate) fn take_free_frames(&mut self, blocks: Range<u64>) {
        self.zones.take_blocks(blocks);
    }

    /// Retired faulty frames in this range.
    pub fn retired_within(&self, frames: &Range<u64>) -> Vec<Frame> {
        let blocks = frames.start >> BLOCK_ORDER..frames.end.div_ceil(1 << BLOCK_ORDER);
        let blocks = blocks.map(|number| Frame::new(number << BLOCK_ORDER));
        let with_faults = blocks.filter(|&block| self.owners.retired(block) > 0);
        let frames_of = |block: Frame| (0..1 << BLOCK_ORDER).map(move |index| block.add(index));
        with_faults
            .flat_map(frames_of)
            .filter(|frame| frames.contains(&frame.number()) && self.is_retired(*frame))
            .collect()
    }

    /// Frees a range of frames that have a single owner and no record in the reverse map.
    pub fn free_range(&mut self, frames: Range<u64>) {
        let mut start = frames.start;
        while start < frames.end {
            let left = frames.end - start;
            let pair = 2 << BLOCK_ORDER;
            let taken = if start.is_multiple_of(pair) && left >= pair {
                let frames = left / pair * pair;
                self.zones.free_run(Frame::new(start), frames);
                frames
            } else {
                let order = start.trailing_zeros().min(left.ilog2()).min(BLOCK_ORDER);
                self.zones.free(Frame::new(start), order);
                1 << order
            };
            start += taken;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ZoneLayout;
    use crate::memory::OtherUse;

    /// Creates a memory of 64MB, in 32 blocks.
    fn memory() -> PhysicalMemory {
        PhysicalMemory::new(64 << 20, ZoneLayout::Single).expect("valid")
    }

    fn find(memory: &PhysicalMemory, blocks: u64, faulty: u64, moves: bool) -> Result<Run, u64> {
        let none = BTreeMap::new();
        memory.find_run(&WantedRun {
            blocks,
            faulty_frames: faulty,
            moves,
            within: None,
            large_pages: &none,
        })
    }

    fn take(memory: &mut PhysicalMemory, block: u64, index: u64) {
        assert!(memory.take(Frame::new((block << 9) + index)));
    }

    #[test]
    fn the_lowest_of_the_longest_free_runs_is_taken_and_given_back() {
        let mut memory = memory();
        take(&mut memory, 5, 7);
        take(&mut memory, 20, 0);
        // Free: blocks 0–4, 6–19, 21–31.
        assert_eq!(find(&memory, 5, 0, false).unwrap().blocks, 0..5);
        assert_eq!(find(&memory, 6, 0, false).unwrap().blocks, 6..12);
        assert_eq!(find(&memory, 14, 0, false).unwrap().blocks, 6..20);
        assert_eq!(find(&memory, 15, 0, false), Err(14 * 512));
        assert_eq!(find(&memory, 33, 0, true), Err(14 * 512), "nothing is movable");
        let free = memory.zones().free_frames();
        memory.take_free_frames(6..19);
        assert_eq!(memory.zones().free_frames(), free - 13 * 512);
        assert_eq!(find(&memory, 12, 0, false), Err(11 * 512));
        memory.free_range(6 << 9..19 << 9);
        assert_eq!(memory.zones().free_frames(), free);
        assert_eq!(find(&memory, 14, 0, false).unwrap().blocks, 6..20);
    }

    #[test]
    fn odd_ranges_are_given_back_in_pieces_and_merge() {
        let mut memory = memory();
        memory.take_free_frames(0..32);
        assert_eq!(memory.zones().free_frames(), 0);
        memory.free_range(3..16_001);
        memory.free_range(16_001..16_384);
        memory.free_range(0..3);
        assert_eq!(memory.zones().free_frames(), 16_384);
        assert_eq!(memory.zones().pieces(), (1, 0), "one run of 4MB blocks");
    }

    #[test]
    fn faulty_frames_are_counted() {
        let mut memory = memory();
        for (block, index) in [(3, 1), (3, 2), (10, 0), (25, 500)] {
            assert!(memory.retire(Frame::new((block << 9) + index)));
        }
        // Without faulty frames: 4–9, 11–24, 26–31. With one: 4–24 (21 blocks), 11–31 (21 blocks).
        assert_eq!(find(&memory, 14, 0, false).unwrap().blocks, 11..25);
        assert_eq!(find(&memory, 15, 0, false), Err(14 * 512));
        assert_eq!(find(&memory, 21, 1, false).unwrap().blocks, 4..25);
        assert_eq!(find(&memory, 22, 1, false), Err(21 * 512));
        // With two faulty frames: 4–31.
        assert_eq!(find(&memory, 28, 2, false).unwrap().blocks, 4..32);
        assert_eq!(find(&memory, 32, 3, false), Err(28 * 512));
        assert_eq!(find(&memory, 32, 4, false).unwrap().blocks, 0..32);
        let faulty = memory.retired_within(&(10 << 9..26 << 9));
        assert_eq!(faulty, [Frame::new(10 << 9), Frame::new((25 << 9) + 500)]);
        memory.take_free_frames(0..32);
        assert_eq!(memory.zones().free_frames(), 0);
    }

    #[test]
    fn the_run_with_the_fewest_movable_frames_is_cheapest() {
        let mut memory = memory();
        // Frames come from the top: block 31 full and 88 frames of block 30, all page cache.
        memory.add_other(OtherUse::PageCache, 600, 0).unwrap();
        assert_eq!(find(&memory, 31, 0, false), Err(30 * 512));
        let run = find(&memory, 31, 0, true).unwrap();
        assert_eq!(run, Run { blocks: 0..31, movable_frames: 88 });
        assert_eq!(find(&memory, 32, 0, true).unwrap().movable_frames, 600);
        // Kernel data cannot be moved.
        memory.add_other(OtherUse::Kernel, 1, 0).unwrap();
        assert!(find(&memory, 31, 0, true).is_err());
    }

    #[test]
    fn a_run_lies_in_one_zone() {
        let layout = ZoneLayout::Sizes { dma_bytes: 16 << 20, dma32_bytes: 0 };
        let memory = PhysicalMemory::new(64 << 20, layout).expect("valid");
        assert_eq!(find(&memory, 8, 0, false).unwrap().blocks, 8..16, "the highest zone first");
        assert_eq!(find(&memory, 25, 0, false), Err(24 * 512));
    }
}
