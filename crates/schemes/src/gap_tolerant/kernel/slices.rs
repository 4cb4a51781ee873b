//! Memory slices from which gap-tolerant superpages can be allocated (G §3.8).
//!
//! Every slice has a block availability vector (BAV): one bit for each of its 64 B-blocks, set
//! while all frames of the B-block are free. Updates from the buddy allocator, including retirement
//! of faulty frames, keep the vectors current. A separate list holds the slices that can provide a
//! superpage, so that no allocation scans the vectors.

use std::collections::BTreeSet;
use std::ops::Range;

use perforate_os::mechanism::expect;

use perforate_types::{CHUNK_FRAMES, Frame, GapTolerance, SLICE_BLOCKS, SUPERPAGE_BLOCKS};

use super::lowest_blocks;
use super::pairs::Pairs;
use crate::gap_tolerant::SuperpageRule;

/// Location of the superpage, or pair of superpages, that a new entry maps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Selected {
    /// First frame of the slice for the first superpage.
    pub slice: Frame,
    /// First frame of the slice for the second superpage; equal to `slice` for a single entry or a
    /// self-paired slice.
    pub second: Frame,
    /// Bitmap of the B-blocks that are selected in both slices.
    pub selection: u64,
}

impl Selected {
    /// First frame of the B-block (64th of a slice) that holds the entry's virtual block `index`.
    /// In a paired entry, `index` counts through both superpages.
    pub(super) fn block(self, mode: GapTolerance, index: u64) -> Frame {
        let of_second = self.second != self.slice && index >= u64::from(SUPERPAGE_BLOCKS);
        let (slice, index) = match of_second {
            true => (self.second, index - u64::from(SUPERPAGE_BLOCKS)),
            false => (self.slice, index),
        };
        let rest = (0..index).fold(self.selection, |rest, _| rest & (rest - 1));
        slice.add(u64::from(rest.trailing_zeros()) << mode.block_order())
    }

    /// First frames of all B-blocks of the entry, in the order of their virtual blocks.
    pub(super) fn blocks(self, mode: GapTolerance) -> impl Iterator<Item = Frame> {
        let of = move |slice: Frame| {
            let bits = (0..SLICE_BLOCKS).filter(move |bit| self.selection >> bit & 1 != 0);
            bits.map(move |bit| slice.add(u64::from(bit) << mode.block_order()))
        };
        // A self-paired slice has all blocks selected and must be visited only once.
        let second = (self.second != self.slice).then(|| of(self.second));
        of(self.slice).chain(second.into_iter().flatten())
    }
}

/// Number of slices that are fragmented synthetically and searched for pairs together: one, or in a
/// paired mode all slices of a 128MB chunk, because Algorithm 1 of G pairs the slices of a chunk.
fn slices_at_a_time(mode: GapTolerance) -> u64 {
    if mode.is_paired() { CHUNK_FRAMES / mode.slice_frames() } else { 1 }
}

/// Slices of a memory for one mode of gap-tolerant superpages, with their usable B-blocks (64ths of
/// a slice).
#[derive(Clone, Debug)]
pub(super) struct Slices {
    mode: GapTolerance,
    /// Number of usable B-blocks that a slice needs to provide a superpage, if some of its pages
    /// are faulty or used otherwise.
    least_blocks: u32,
    /// Indices of the slices that superpages may use, by the policy's option for a range of memory.
    within: Range<u64>,
    /// Block availability vector of each slice: bit *i* is set if B-block *i* is usable.
    vectors: Vec<u64>,
    /// B-blocks of each slice that were given to superpages and have not been free since, as a
    /// bitmap.
    in_superpages: Vec<u64>,
    /// Indices of the slices with enough usable B-blocks for a superpage.
    allocatable: BTreeSet<u64>,
    /// Pairs of slices with a common selection bitmap; `None` unless the mode is paired.
    pairs: Option<Pairs>,
    /// Indices of the slices for which synthetic fragmentation has been generated. Superpages may
    /// not use later slices yet.
    drawn: Range<u64>,
}

impl Slices {
    /// Creates the slices of memory up to frame `end`, without usable B-blocks. With `is_drawn`,
    /// superpages may use a slice only after its synthetic fragmentation has been generated.
    pub(super) fn new(mode: GapTolerance, end: u64, rule: &SuperpageRule, is_drawn: bool) -> Self {
        let size = mode.slice_frames();
        let count = end.div_ceil(size);
        let within = match &rule.within {
            Some(frames) => frames.start.div_ceil(size)..frames.end / size,
            None => 0..count,
        };
        let first = within.start.min(count);
        let first = first - first % slices_at_a_time(mode);
        Self {
            mode,
            least_blocks: rule.least_blocks_of(mode),
            within,
            vectors: vec![0; count as usize],
            in_superpages: vec![0; count as usize],
            allocatable: BTreeSet::new(),
            pairs: mode.is_paired().then(|| Pairs::new(slices_at_a_time(mode))),
            drawn: if is_drawn { first..first } else { 0..count },
        }
    }

    /// Mode of the superpages in these slices: size of B-blocks, single or paired entries.
    pub(super) fn mode(&self) -> GapTolerance {
        self.mode
    }

    /// Block availability vector of each slice: bit *i* is set if B-block *i* is usable.
    pub(super) fn vectors(&self) -> &[u64] {
        &self.vectors
    }

    /// Number of slices that can provide a superpage at present.
    pub(super) fn allocatable(&self) -> u64 {
        self.allocatable.len() as u64
    }

    /// Number of superpages that can be allocated at present. A slice whose B-blocks are all usable
    /// provides two.
    pub(super) fn superpages(&self) -> u64 {
        let is_whole = |&slice: &u64| self.vectors[slice as usize] == !0;
        self.allocatable.iter().map(|slice| 1 + u64::from(is_whole(slice))).sum()
    }

    fn set(&mut self, blocks: Range<u64>, usable: bool) {
        let per_slice = u64::from(SLICE_BLOCKS);
        let mut next = blocks.start;
        while next < blocks.end {
            let slice = next / per_slice;
            let end = blocks.end.min((slice + 1) * per_slice);
            let bits = !0 >> (per_slice - (end - next)) << (next % per_slice);
            let before = self.vectors[slice as usize];
            let after = if usable { before | bits } else { before & !bits };
            if before != after {
                self.vectors[slice as usize] = after;
                self.in_superpages[slice as usize] &= !after;
                self.changed(slice, before, after);
            }
            next = end;
        }
    }

    fn may_use(&self, slice: u64) -> bool {
        self.within.contains(&slice) && self.drawn.contains(&slice)
    }

    /// Number of frames in slices for which synthetic fragmentation (frames occupied by other
    /// users) has been generated.
    pub(super) fn drawn_frames(&self) -> u64 {
        (self.drawn.end - self.drawn.start) * self.mode.slice_frames()
    }

    /// Range of frames for which synthetic fragmentation is generated next; empty at the end of
    /// memory.
    pub(super) fn next_to_draw(&self) -> Range<u64> {
        let size = self.mode.slice_frames();
        let next = self.drawn.end;
        let end = (next + slices_at_a_time(self.mode)).min(self.vectors.len() as u64);
        next * size..end * size
    }

    /// Records that synthetic fragmentation has been generated for these frames, so that superpages
    /// may use their slices. The frames may extend beyond the end of memory.
    pub(super) fn note_drawn(&mut self, frames: &Range<u64>) {
        let end = (frames.end / self.mode.slice_frames()).min(self.vectors.len() as u64);
        let drawn = self.drawn.end..end;
        self.drawn.end = drawn.end;
        for slice in drawn {
            let vector = self.vectors[slice as usize];
            self.changed(slice, 0, vector);
        }
    }

    /// True if a slice can provide a superpage: more than half of its B-blocks are usable (G §3.8).
    /// Exactly half suffices if superpages use the other half, as in a slice without faulty or
    /// otherwise used pages (G §5.3).
    fn has_enough(&self, slice: u64) -> bool {
        let usable = self.vectors[slice as usize];
        let is_second_half = usable | self.in_superpages[slice as usize] == !0
            && usable.count_ones() == SUPERPAGE_BLOCKS;
        usable.count_ones() >= self.least_blocks || is_second_half
    }

    /// Records that a new superpage entry uses the B-blocks at `place`.
    pub(super) fn note_superpage(&mut self, place: Selected) {
        for first in [place.slice, place.second] {
            let slice = first.number() / self.mode.slice_frames();
            self.in_superpages[slice as usize] |= place.selection;
            self.list(slice);
        }
    }

    /// Adds `slice` to the list of allocatable slices, or removes it if it may not or cannot
    /// provide a superpage.
    fn list(&mut self, slice: u64) {
        if self.may_use(slice) && self.has_enough(slice) {
            self.allocatable.insert(slice);
        } else {
            self.allocatable.remove(&slice);
        }
    }

    fn changed(&mut self, slice: u64, before: u64, after: u64) {
        self.list(slice);
        if after & !before != 0
            && let Some(pairs) = &mut self.pairs
        {
            pairs.record_gain(slice);
        }
    }

    /// Finds frames for a new entry, in slices that begin in `frames`; `None` if no slice is
    /// suitable. A single entry uses the first usable B-blocks of the lowest slice (G §3.2); a
    /// paired entry uses a pair that Algorithm 1 finds (G §3.6).
    pub(super) fn find(&mut self, frames: &Range<u64>) -> Option<Selected> {
        let size = self.mode.slice_frames();
        let numbers = frames.start.div_ceil(size)..frames.end.div_ceil(size);
        if let Some(pairs) = &mut self.pairs {
            let may_use = |slice| self.allocatable.contains(&slice);
            let pair = pairs.take(&numbers, &self.vectors, self.least_blocks, may_use)?;
            let frame = |slice: u64| Frame::new(slice * size);
            let (slice, second) = (frame(pair.first), frame(pair.second));
            return Some(Selected { slice, second, selection: pair.selection });
        }
        let slice = *self.allocatable.range(numbers).next()?;
        let selection = lowest_blocks(self.vectors[slice as usize]);
        let slice = Frame::new(slice * size);
        Some(Selected { slice, second: slice, selection })
    }
}

/// Receives the buddy allocator's updates in units of this mode's B-blocks.
impl Slices {
    /// Marks every B-block that contains one of these frames as unusable.
    #[inline]
    pub(super) fn taken(&mut self, frames: Range<u64>) {
        let order = self.mode.block_order();
        self.set(frames.start >> order..((frames.end - 1) >> order) + 1, false);
    }

    /// Marks these B-blocks as usable: all of their frames are free.
    #[inline]
    pub(super) fn freed(&mut self, blocks: Range<u64>) {
        self.set(blocks, true);
    }

    /// True if all of these B-blocks are usable.
    #[inline]
    pub(super) fn are_usable(&self, mut blocks: Range<u64>) -> bool {
        let per_slice = u64::from(SLICE_BLOCKS);
        let vector = |block: u64| self.vectors.get((block / per_slice) as usize).copied();
        blocks.all(|block| vector(block).is_some_and(|bits| bits >> (block % per_slice) & 1 != 0))
    }

    /// Compares the block availability vectors with the frames that are free. Returns a message if
    /// they differ.
    pub(super) fn check(&self, is_free: &dyn Fn(Frame) -> bool) -> Result<(), String> {
        for (slice, &vector) in (0u64..).zip(&self.vectors) {
            let first = Frame::new(slice * self.mode.slice_frames());
            let block = |bit: u32| first.add(u64::from(bit) << self.mode.block_order());
            let bits = (0..SLICE_BLOCKS).filter(|&bit| is_free(block(bit)));
            let counted = bits.fold(0, |vector, bit| vector | 1 << bit);
            expect(&format!("availability of slice {slice}"), vector, counted)?;
            let in_superpages = self.in_superpages[slice as usize];
            expect(&format!("free blocks in superpages, {slice}"), 0, vector & in_superpages)?;
            let allocatable = self.may_use(slice) && self.has_enough(slice);
            let listed = self.allocatable.contains(&slice);
            expect(&format!("list of slices, {slice}"), listed, allocatable)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MODE: GapTolerance = GapTolerance::SINGLE_2M;

    fn slices(within: Option<Range<u64>>) -> Slices {
        let rule = SuperpageRule { within, least_blocks: Some(32), ..SuperpageRule::default() };
        let mut slices = Slices::new(MODE, 4096, &rule, false);
        slices.freed(0..256);
        slices
    }

    /// Slices of 1024 frames in B-blocks of 16. Frame 17 makes B-block 1 unusable; frames 1,087 and
    /// 1,088 affect B-blocks 3 and 4 of slice 1.
    #[test]
    fn a_taken_frame_makes_its_block_unusable() {
        let mut slices = slices(None);
        slices.taken(17..18);
        slices.taken(1087..1089);
        assert_eq!(slices.vectors(), [!0b10, !0b11000, !0, !0]);
        slices.freed(1..2);
        assert_eq!(slices.vectors()[0], !0);
    }

    #[test]
    fn slices_that_disagree_with_free_memory_are_found() {
        let busy = 2 * 1024 + 5 * 16;
        let is_free = |frame: Frame| frame != Frame::new(busy);
        let mut sound = slices(None);
        sound.taken(busy + 3..busy + 4);
        assert_eq!(sound.check(&is_free), Ok(()));
        let all = u64::MAX;
        let counted = format!("availability of slice 2: {} recorded, {all} counted", !32_u64);
        assert_eq!(sound.check(&|_| true), Err(counted));
        let wrong = |spoil: &dyn Fn(&mut Slices)| {
            let mut slices = sound.clone();
            spoil(&mut slices);
            slices.check(&is_free)
        };
        for (number, spoil, expected) in [
            (1, 5, "free blocks in superpages, 1: 0 recorded, 5 counted"),
            (2, 32, ""),
            (2, 36, "free blocks in superpages, 2: 0 recorded, 4 counted"),
        ] {
            let error = wrong(&|slices| slices.in_superpages[number] = spoil).err();
            assert_eq!(error.unwrap_or_default(), expected);
        }
        let unlisted = wrong(&|slices| assert!(slices.allocatable.remove(&3)));
        assert_eq!(unlisted, Err("list of slices, 3: false recorded, true counted".into()));
        // Slices outside the policy's range may not be listed.
        let mut few = slices(Some(0..2048));
        assert_eq!(few.check(&|_| true), Ok(()));
        assert!(few.allocatable.insert(2));
        let listed = "list of slices, 2: true recorded, false counted";
        assert_eq!(few.check(&|_| true), Err(listed.into()));
    }

    #[test]
    fn a_slice_with_32_usable_blocks_is_allocatable_and_31_are_too_few() {
        let mut slices = slices(None);
        slices.taken(0..32 * 16);
        let frames = 0..4096;
        let found = slices.find(&frames).unwrap();
        assert_eq!((found.slice, found.selection), (Frame::new(0), 0xffff_ffff_0000_0000));
        slices.taken(63 * 16..63 * 16 + 1);
        assert_eq!(slices.allocatable(), 3);
        assert_eq!(slices.find(&frames).unwrap().slice, Frame::new(1024));
        slices.freed(0..1);
        assert_eq!(slices.find(&frames).unwrap().selection, 0x7fff_ffff_0000_0001);
    }

    /// Slice 0 is whole and provides two superpages, one in each half. Slice 1 lacks a B-block, so
    /// 31 are left after a superpage. Slice 2 has exactly half and a base page in the other half,
    /// which is too little (G §3.8). In slice 3 the other half has another use, so the free half is
    /// too little as well.
    #[test]
    fn a_whole_slice_holds_two_superpages() {
        let mut slices = Slices::new(MODE, 4096, &SuperpageRule::default(), false);
        slices.freed(0..256);
        slices.taken(1024..1025);
        slices.taken(2048..2048 + 32 * 16);
        slices.taken(3072..3072 + 31 * 16 + 1);
        let mut take = |expected: Option<(u64, u64)>| {
            let found = slices.find(&(0..4096));
            assert_eq!(found.map(|found| (found.slice.number(), found.selection)), expected);
            let Some(found) = found else { return };
            for block in found.blocks(MODE).map(Frame::number) {
                slices.taken(block..block + 16);
            }
            slices.note_superpage(found);
        };
        take(Some((0, 0xffff_ffff)));
        take(Some((0, 0xffff_ffff_0000_0000)));
        take(Some((1024, 0x1_ffff_fffe)));
        take(None);
        // The first superpage is freed block by block and allocated again.
        for block in 0..32 {
            slices.freed(block..block + 1);
        }
        assert_eq!(slices.allocatable(), 1);
        assert_eq!(slices.find(&(0..4096)).unwrap().selection, 0xffff_ffff);
        // A base page in its place leaves too few B-blocks.
        slices.taken(0..1);
        assert_eq!(slices.allocatable(), 0);
        // Both superpages are freed, and base pages take half of the slice: the other half is too little.
        slices.freed(0..64);
        assert_eq!((slices.allocatable(), slices.superpages()), (1, 2));
        slices.taken(0..32 * 16);
        assert_eq!((slices.allocatable(), slices.superpages()), (0, 0));
    }

    /// Slices are used only if they lie as a whole in the rule's range of frames.
    #[test]
    fn slices_outside_the_rule_are_not_used() {
        let mut slices = slices(Some(1000..3100));
        assert_eq!(slices.allocatable(), 2);
        assert_eq!(slices.find(&(0..4096)).unwrap().slice, Frame::new(1024));
        assert_eq!(slices.find(&(2048..4096)).unwrap().slice, Frame::new(2048));
        assert!(slices.find(&(3000..4096)).is_none());
    }

    #[test]
    fn blocks_in_the_order_of_the_virtual_blocks() {
        let selected =
            Selected { slice: Frame::new(1024), second: Frame::new(4096), selection: 0b1001 };
        let blocks: Vec<_> = selected.blocks(MODE).map(Frame::number).collect();
        assert_eq!(blocks, [1024, 1072, 4096, 4144]);
        assert_eq!(selected.block(MODE, 1), Frame::new(1072));
        // Virtual block 32 is the first block of the second superpage.
        let pair = Selected { selection: 0xffff_ffff, ..selected };
        let frames = [31, 32, 33].map(|index| pair.block(MODE, index).number());
        assert_eq!(frames, [1024 + 31 * 16, 4096, 4112]);
        let whole = Selected { second: selected.slice, ..selected };
        assert_eq!(whole.blocks(MODE).count(), 2);
        let whole = Selected { selection: !0, ..whole };
        let frames = [0, 31, 32, 63].map(|index| whole.block(MODE, index).number());
        assert_eq!(frames, [1024, 1024 + 31 * 16, 1024 + 32 * 16, 1024 + 63 * 16]);
    }

    /// Two slices of 1,024 frames and a part of a third. Synthetic fragmentation begins with the slice, or with
    /// the chunk of a paired mode, in which the rule's memory begins.
    #[test]
    fn slices_are_drawn_from_the_first_that_may_be_used() {
        let rule = |within| SuperpageRule { within, ..SuperpageRule::default() };
        let mut slices = Slices::new(MODE, 2049, &rule(Some(1024..2049)), true);
        assert_eq!((slices.vectors().len(), slices.drawn_frames()), (3, 0));
        slices.freed(0..128);
        assert_eq!(slices.allocatable(), 0, "nothing is drawn yet");
        assert_eq!(slices.next_to_draw(), 1024..2048);
        slices.note_drawn(&(1024..2048));
        assert_eq!((slices.allocatable(), slices.drawn_frames()), (1, 1024));
        assert_eq!(slices.next_to_draw(), 2048..3072);
        slices.note_drawn(&(2048..4096));
        assert_eq!((slices.drawn_frames(), slices.next_to_draw()), (2048, 3072..3072));
        let mode = GapTolerance::PAIRED_4M;
        let chunk = CHUNK_FRAMES;
        let slices = Slices::new(mode, 3 * chunk, &rule(Some(chunk + chunk / 2..3 * chunk)), true);
        assert_eq!(slices.next_to_draw(), chunk..2 * chunk);
        let whole = Slices::new(mode, 3 * chunk, &rule(None), false);
        assert_eq!((whole.drawn_frames(), whole.next_to_draw()), (3 * chunk, 3 * chunk..3 * chunk));
        // Blocks beyond memory are not usable.
        assert!(!slices.are_usable(0..1) && !slices.are_usable(u64::MAX / 2..u64::MAX / 2 + 1));
    }
}
