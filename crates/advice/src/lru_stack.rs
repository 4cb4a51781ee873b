//! Exact LRU stack distances (Mattson et al., IBM Systems Journal 9(2), 1970).
//!
//! A fully associative TLB of `n` entries with least-recently-used replacement holds the first `n` blocks of
//! a stack, in which every access moves its block to the top. So the depth of a block at each access says
//! which TLBs hit.
//!
//! The first blocks of the stack are an array. The others are bits of a [`Timeline`]: the later a block left
//! the array, the higher it is in the stack.
//!
//! An invalidated entry leaves a *hole* at its depth: an empty slot in every TLB that large. The next block
//! that comes to the top from below the hole, or for the first time, fills it, and leaves a hole where it
//! was.

use std::collections::BTreeSet;

use crate::page_id::bits;

/// Number of blocks at the top of the stack that are searched one by one.
pub(crate) const TOP: usize = 16;
/// A hole in the stack, or a place of the array that was never used.
pub(crate) const HOLE: u32 = u32::MAX;

/// Position of a block in the stack before an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd)]
pub(crate) enum Depth {
    /// Number of entries above the block: TLBs with more entries hit.
    Below(usize),
    /// The block was not in the stack: a first touch, or a block below the last place of a [`LatestStack`].
    ///
    /// [`LatestStack`]: crate::latest_stack::LatestStack
    Absent,
}

/// LRU stack of blocks, which are numbered from 0.
pub(crate) struct LruStack {
    top: [u32; TOP],
    timeline: Timeline,
    /// Time in the timeline of each block, plus one; 0 for blocks elsewhere.
    times: Vec<u32>,
    /// Times of holes in the timeline.
    holes: BTreeSet<u32>,
}

impl LruStack {
    /// Makes a stack of all blocks.
    pub(crate) fn new() -> Self {
        Self {
            top: [HOLE; TOP],
            timeline: Timeline::new(NODE),
            times: Vec::new(),
            holes: BTreeSet::new(),
        }
    }

    /// Moves a block to the top. Returns its depth before.
    #[inline]
    pub(crate) fn access(&mut self, block: u32) -> Depth {
        if self.top[0] == block {
            return Depth::Below(0);
        }
        if self.top[1] == block {
            self.top.swap(0, 1);
            return Depth::Below(1);
        }
        match place(&self.top, block) {
            Some(depth) => {
                self.rise_in_top(block, depth);
                Depth::Below(depth)
            }
            None => self.rise_from_below(block),
        }
    }

    #[inline]
    fn rise_in_top(&mut self, block: u32, depth: usize) {
        let mut free = depth;
        if let Some(hole) = place(&self.top, HOLE)
            && hole < depth
        {
            self.top[depth] = HOLE;
            free = hole;
        }
        self.put_first(block, free);
    }

    /// Puts a block at the top of the array; the blocks above `free` move down.
    #[inline(always)]
    fn put_first(&mut self, block: u32, free: usize) {
        self.top.copy_within(0..free, 1);
        self.top[0] = block;
    }

    #[inline(never)]
    fn rise_from_below(&mut self, block: u32) -> Depth {
        if block as usize >= self.times.len() {
            self.times.resize((block as usize + 1).next_multiple_of(4096), 0);
        }
        let time = std::mem::take(&mut self.times[block as usize]).checked_sub(1);
        let depth =
            time.map_or(Depth::Absent, |time| Depth::Below(TOP + self.timeline.later_than(time)));
        if let Some(hole) = place(&self.top, HOLE) {
            // Blocks of the array move down into the hole; none leaves it.
            self.put_first(block, hole);
            if let Some(time) = time {
                self.leave_hole(time);
            }
            return depth;
        }
        match self.holes.last() {
            Some(&hole) if time.is_none_or(|time| hole > time) => {
                self.holes.remove(&hole);
                self.timeline.remove(hole);
                if let Some(time) = time {
                    self.leave_hole(time);
                }
            }
            _ => {
                if let Some(time) = time {
                    self.timeline.remove(time);
                }
            }
        }
        let leaving = self.top[TOP - 1];
        self.put_first(block, TOP - 1);
        if self.timeline.is_full() {
            self.compact();
        }
        self.times[leaving as usize] = self.timeline.append(leaving) + 1;
        depth
    }

    /// Makes the place at a time of the timeline (blocks in order of their last use) a hole: no block is there
    /// until the timeline is compacted.
    fn leave_hole(&mut self, time: u32) {
        self.timeline.blocks[time as usize] = HOLE;
        self.holes.insert(time);
    }

    /// Makes the place of a block a hole, if the stack has it.
    pub(crate) fn invalidate(&mut self, block: u32) {
        if let Some(depth) = place(&self.top, block) {
            self.top[depth] = HOLE;
            return;
        }
        let time = self.times.get_mut(block as usize).map_or(0, std::mem::take);
        if time > 0 {
            self.leave_hole(time - 1);
        }
    }

    /// Renumbers times from 0, and drops holes below all blocks, which have no effect.
    #[cold]
    fn compact(&mut self) {
        let old = std::mem::replace(&mut self.timeline, Timeline::new(0));
        let live: Vec<u32> = old.occupied().map(|time| old.blocks[time]).collect();
        let lowest = live.iter().position(|block| *block != HOLE).unwrap_or(live.len());
        let live = &live[lowest..];
        self.timeline = Timeline::new((live.len() * 4).next_power_of_two().max(NODE));
        self.holes.clear();
        for &block in live {
            let time = self.timeline.append(block);
            if block == HOLE {
                self.holes.insert(time);
            } else {
                self.times[block as usize] = time + 1;
            }
        }
    }
}

/// Index of the first element that equals `wanted`. Compares all at once, as vectors.
#[inline(always)]
pub(crate) fn place(blocks: &[u32; TOP], wanted: u32) -> Option<usize> {
    let mut equal = [0_u8; TOP];
    for (flag, block) in equal.iter_mut().zip(blocks) {
        *flag = u8::from(*block == wanted);
    }
    let equal = u128::from_le_bytes(equal);
    (equal != 0).then(|| equal.trailing_zeros() as usize / 8)
}

/// Number of parts in which counts are summed up: words of bits in a node, nodes in a section.
const PARTS: usize = 64;
/// Number of times in a word, a node and a section.
const WORD: usize = 64;
const NODE: usize = WORD * PARTS;
const SECTION: usize = NODE * PARTS;

/// Times, of which some are occupied by a block or hole. Counts of three levels tell how many occupied times
/// follow one; they are updated in constant time.
struct Timeline {
    occupied: Vec<u64>,
    /// Occupied times of each word, by node.
    words: Vec<[u8; PARTS]>,
    /// Occupied times of each node, by section.
    nodes: Vec<[u32; PARTS]>,
    sections: Vec<u32>,
    blocks: Vec<u32>,
    next: u32,
}

impl Timeline {
    fn new(times: usize) -> Self {
        let sections = times.div_ceil(SECTION);
        Self {
            occupied: vec![0; times.div_ceil(NODE) * PARTS],
            words: vec![[0; PARTS]; times.div_ceil(NODE)],
            nodes: vec![[0; PARTS]; sections],
            sections: vec![0; sections],
            blocks: vec![HOLE; times],
            next: 0,
        }
    }

    fn is_full(&self) -> bool {
        self.next as usize == self.blocks.len()
    }

    /// Occupies the next time, and returns it.
    #[inline]
    fn append(&mut self, block: u32) -> u32 {
        let time = self.next as usize;
        self.blocks[time] = block;
        self.occupied[time / WORD] |= 1 << (time % WORD);
        self.words[time / NODE][time / WORD % PARTS] += 1;
        self.nodes[time / SECTION][time / NODE % PARTS] += 1;
        self.sections[time / SECTION] += 1;
        self.next += 1;
        time as u32
    }

    #[inline]
    fn remove(&mut self, time: u32) {
        let time = time as usize;
        self.occupied[time / WORD] &= !(1 << (time % WORD));
        self.words[time / NODE][time / WORD % PARTS] -= 1;
        self.nodes[time / SECTION][time / NODE % PARTS] -= 1;
        self.sections[time / SECTION] -= 1;
    }

    /// Number of occupied times after `time`.
    #[inline]
    fn later_than(&self, time: u32) -> usize {
        let time = time as usize;
        let above = self.occupied[time / WORD] >> (time % WORD) >> 1;
        let nodes = &self.nodes[time / SECTION];
        let sum = above.count_ones()
            + bytes_after(&self.words[time / NODE], time / WORD % PARTS)
            + counts_after(nodes, time / NODE % PARTS)
            + self.sections[time / SECTION + 1..].iter().sum::<u32>();
        sum as usize
    }

    /// Occupied times in order.
    fn occupied(&self) -> impl Iterator<Item = usize> + '_ {
        let words = self.occupied.iter().enumerate();
        words.flat_map(|(index, word)| bits(*word).map(move |bit| index * WORD + bit))
    }
}

/// Sums up the counts after `index`. Looks at all, as a loop of varying length costs more.
#[inline]
fn counts_after(counts: &[u32; PARTS], index: usize) -> u32 {
    let later = |at: usize| u32::from(at > index).wrapping_neg();
    counts.iter().enumerate().map(|(at, count)| count & later(at)).sum()
}

/// Bits of the bytes after each one, in words of eight bytes.
static BYTES_AFTER: [[u64; PARTS / 8]; PARTS] = {
    let mut all = [[0; PARTS / 8]; PARTS];
    let mut byte = 0;
    while byte < PARTS * PARTS {
        let (index, at) = (byte / PARTS, byte % PARTS);
        if at > index {
            all[index][at / 8] |= 0xff << (8 * (at % 8));
        }
        byte += 1;
    }
    all
};

/// Sums up the bytes after `index`, eight at a time.
#[inline]
fn bytes_after(bytes: &[u8; PARTS], index: usize) -> u32 {
    const EVEN: u64 = 0x00ff_00ff_00ff_00ff;
    let (words, _) = bytes.as_chunks();
    let later = words.iter().zip(&BYTES_AFTER[index]);
    let later = later.map(|(word, mask)| u64::from_le_bytes(*word) & mask);
    let sums: u64 = later.map(|word| (word & EVEN) + (word >> 8 & EVEN)).sum();
    // Four sums of at most 1,024 each, in 16 bits.
    (sums.wrapping_mul(0x0001_0001_0001_0001) >> 48) as u32
}

#[cfg(test)]
mod tests {
    use perforate_types::Random;

    use super::*;
    use crate::latest_stack::LatestStack;

    /// Stack as a list, in which depths are counted and holes are empty places.
    #[derive(Default)]
    struct Model(Vec<Option<u32>>);

    impl Model {
        fn access(&mut self, block: u32) -> Depth {
            let depth = self.0.iter().position(|it| *it == Some(block));
            let end = depth.unwrap_or(self.0.len());
            let hole = self.0[..end].iter().position(Option::is_none);
            match (depth, hole) {
                (Some(depth), Some(hole)) => {
                    self.0[depth] = None;
                    self.0.remove(hole);
                }
                (Some(gone), None) | (None, Some(gone)) => drop(self.0.remove(gone)),
                (None, None) => {}
            }
            self.0.insert(0, Some(block));
            depth.map_or(Depth::Absent, Depth::Below)
        }

        fn invalidate(&mut self, block: u32) {
            self.0.iter_mut().filter(|it| **it == Some(block)).for_each(|it| *it = None);
        }
    }

    #[test]
    fn depths_are_those_in_a_list() {
        let mut random = Random::new(1);
        for (blocks, invalidated) in [(10, 0), (200, 0), (14, 50), (300, 20), (40, 400)] {
            let (mut stack, mut model) = (LruStack::new(), Model::default());
            let mut latest = LatestStack::<64>::new();
            // Enough for several compactions.
            for step in 0..50_000 {
                let block = (random.below(blocks) * random.below(blocks) / blocks) as u32;
                if random.below(1000) < invalidated {
                    latest.invalidate(block);
                    stack.invalidate(block);
                    model.invalidate(block);
                } else {
                    let depth = stack.access(block);
                    assert_eq!(depth, model.access(block), "step {step} of {blocks}");
                    let within = if depth < Depth::Below(64) { depth } else { Depth::Absent };
                    assert_eq!(latest.access(block), within, "step {step} of {blocks}");
                }
            }
        }
    }
}
