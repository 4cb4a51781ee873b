//! Pairing of a chunk's slices for paired entries: Algorithm 1 of G §3.6.
//!
//! The algorithm uses only block availability vectors: 64 bits per slice, with a bit set for each
//! usable B-block. It allocates no heap memory, since a chunk has at most 64 slices of 2MB or 32 of
//! 4MB.

use perforate_types::{SLICE_BLOCKS, SUPERPAGE_BLOCKS};

/// Maximum number of slices in a chunk: 64 of 2MB in 128MB.
const MOST_SLICES: usize = 64;

/// Two slices mapped by a paired entry, a page-directory entry for two superpages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SlicePair {
    /// Index of the slice for the first superpage, in its chunk of 128MB.
    pub first: u8,
    /// Index of the slice for the second superpage, in the same chunk.
    pub second: u8,
    /// The lowest 32 B-blocks that are usable in both slices.
    pub selection: u64,
}

/// Result of pairing the slices of one 128MB chunk of memory. Each slice is paired, self-paired or discarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkPairing {
    pairs: [SlicePair; MOST_SLICES / 2],
    pair_count: usize,
    self_paired: u64,
    discarded: u64,
    comparisons: u32,
}

impl ChunkPairing {
    /// Pairs the slices of one chunk with each other. `vectors` has a word for each slice, with a bit for each
    /// usable B-block (a 64th of the slice). A slice that is usable as a whole is paired with itself, and one
    /// with too few usable B-blocks is discarded. The others are taken in ascending order of usable B-blocks,
    /// then of index; each gets the first unpaired slice after it with which it has at least `threshold`
    /// usable B-blocks in common, or is discarded.
    ///
    /// # Panics
    /// If there are more than 64 slices, or `threshold` is less than the 32 B-blocks of a
    /// superpage.
    pub fn of(vectors: &[u64], threshold: u32) -> Self {
        assert!(vectors.len() <= MOST_SLICES && threshold >= SUPERPAGE_BLOCKS);
        let mut pairing = Self {
            pairs: [SlicePair::default(); MOST_SLICES / 2],
            pair_count: 0,
            self_paired: 0,
            discarded: 0,
            comparisons: 0,
        };
        let mut order = [0; MOST_SLICES];
        let order = pairing.candidates(vectors, threshold, &mut order);
        let mut processed = 0_u64;
        for (place, &first) in order.iter().enumerate() {
            if processed >> first & 1 != 0 {
                continue;
            }
            let later = order[place + 1..].iter().copied();
            let mut left = later.filter(|&second| processed >> second & 1 == 0);
            let partner = left.find(|&second| {
                pairing.comparisons += 1;
                let common = vectors[usize::from(first)] & vectors[usize::from(second)];
                common.count_ones() >= threshold
            });
            match partner {
                Some(second) => {
                    processed |= 1 << second;
                    pairing.add(first, second, vectors);
                }
                None => pairing.discarded |= 1 << first,
            }
        }
        pairing
    }

    /// Separates whole slices (self-paired) and slices with too few B-blocks (discarded). Returns
    /// the other slices in the order of the algorithm.
    fn candidates<'a>(
        &mut self,
        vectors: &[u64],
        threshold: u32,
        order: &'a mut [u8; MOST_SLICES],
    ) -> &'a [u8] {
        let mut count = 0;
        for (slice, vector) in (0..).zip(vectors) {
            match vector.count_ones() {
                SLICE_BLOCKS => self.self_paired |= 1 << slice,
                usable if usable < threshold => self.discarded |= 1 << slice,
                _ => {
                    order[count] = slice;
                    count += 1;
                }
            }
        }
        let order = &mut order[..count];
        order.sort_unstable_by_key(|&slice| (vectors[usize::from(slice)].count_ones(), slice));
        order
    }

    fn add(&mut self, first: u8, second: u8, vectors: &[u64]) {
        let common = vectors[usize::from(first)] & vectors[usize::from(second)];
        let selection = lowest_blocks(common);
        self.pairs[self.pair_count] = SlicePair { first, second, selection };
        self.pair_count += 1;
    }

    /// Pairs of slices, in the order in which Algorithm 1 of G found them.
    pub fn pairs(&self) -> &[SlicePair] {
        &self.pairs[..self.pair_count]
    }

    /// Self-paired slices, one bit each: all of their B-blocks are usable, and each holds both
    /// superpages of an entry.
    pub fn self_paired(&self) -> u64 {
        self.self_paired
    }

    /// Slices of the chunk that no entry can map, one bit each: they have too few usable B-blocks,
    /// or too few in common with every later unpaired slice.
    pub fn discarded(&self) -> u64 {
        self.discarded
    }

    /// Number of comparisons of two availability vectors that the algorithm made.
    pub fn comparisons(&self) -> u32 {
        self.comparisons
    }

    /// Number of paired entries that the chunk's slices provide. Each maps as much memory as one
    /// slice has.
    pub fn entries(&self) -> u32 {
        self.pair_count as u32 + self.self_paired.count_ones()
    }
}

/// Bitmap of the lowest 32 usable B-blocks, which a superpage selects (G §3.2); of all usable
/// B-blocks if there are fewer.
pub fn lowest_blocks(usable: u64) -> u64 {
    let above = (0..SUPERPAGE_BLOCKS).fold(usable, |rest, _| rest & rest.saturating_sub(1));
    usable & !above
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOW: u64 = u32::MAX as u64;
    const HIGH: u64 = !LOW;

    fn slices(mask: u64) -> Vec<u32> {
        (0..64).filter(|slice| mask >> slice & 1 != 0).collect()
    }

    fn pairs(pairing: &ChunkPairing) -> Vec<(u8, u8, u64)> {
        pairing.pairs().iter().map(|pair| (pair.first, pair.second, pair.selection)).collect()
    }

    #[test]
    fn lowest_32_of_more() {
        assert_eq!(lowest_blocks(u64::MAX), LOW);
        assert_eq!(lowest_blocks(HIGH), HIGH);
        // Every other B-block up to 62 makes 32 B-blocks; adding 63 does not change the lowest 32.
        let even = 0x5555_5555_5555_5555;
        assert_eq!(lowest_blocks(even | 1 << 63), even);
        assert_eq!(lowest_blocks(0b1011), 0b1011);
        assert_eq!(lowest_blocks(0), 0);
    }

    /// Checks the result for four slices. Slice 1 is whole. Slices 0 (low half) and 2 (high half)
    /// have no B-blocks in common. Slice 3 has one B-block more than the low half and fits slice 0
    /// only.
    #[test]
    fn a_chunk_by_hand() {
        let vectors = [LOW, u64::MAX, HIGH, LOW | 1 << 40, 0];
        let pairing = ChunkPairing::of(&vectors, 32);
        assert_eq!(slices(pairing.self_paired()), [1]);
        assert_eq!(pairs(&pairing), [(0, 3, LOW)]);
        assert_eq!(slices(pairing.discarded()), [2, 4]);
        assert_eq!(pairing.entries(), 2);
        // Slice 0 is compared with 2 and 3; slice 2 then has no candidate left.
        assert_eq!(pairing.comparisons(), 2);
        // With a threshold of 33 blocks, the low half has too few.
        let strict = ChunkPairing::of(&vectors, 33);
        assert_eq!((strict.pairs().len(), slices(strict.discarded())), (0, vec![0, 2, 3, 4]));
    }

    /// A superpage needs 32 B-blocks: slices with 31 in common make no pair.
    #[test]
    fn thirty_one_blocks_in_common_make_no_pair() {
        let (one_less, one_more) = (LOW & !1 | 1 << 40, LOW | 1 << 40);
        assert_eq!([LOW & one_less, LOW & one_more].map(u64::count_ones), [31, 32]);
        let pairing = ChunkPairing::of(&[LOW, one_less], 32);
        assert_eq!((pairing.pairs().len(), slices(pairing.discarded())), (0, vec![0, 1]));
        assert_eq!(pairs(&ChunkPairing::of(&[LOW, one_more], 32)), [(0, 1, LOW)]);
    }

    /// The slice with the fewest blocks chooses first and takes the scarcest slice that fits.
    #[test]
    fn ascending_order_of_usable_blocks() {
        let of = |missing: u32| u64::MAX << missing;
        // Slices 0 to 3 have 60, 62, 61 and 63 usable B-blocks: 0 takes 2, 1 takes 3.
        let pairing = ChunkPairing::of(&[of(4), of(2), of(3), of(1)], 32);
        assert_eq!(pairs(&pairing), [(0, 2, of(4) & !of(36)), (1, 3, of(2) & !of(34))]);
        // Among equal slices the lower one is first; the last one is discarded.
        let pairing = ChunkPairing::of(&[of(5), of(5), of(5)], 32);
        assert_eq!(pairs(&pairing), [(0, 1, of(5) & !of(37))]);
        assert_eq!(slices(pairing.discarded()), [2]);
    }

    /// First fit is not optimal: the pairs 0–2 and 1–3 would use all slices.
    #[test]
    fn first_fit_is_greedy() {
        let blocks = |from: u32, to: u32| (from..to).fold(0, |blocks, block| blocks | 1 << block);
        let equal = blocks(0, 40);
        let (early, late) = (blocks(0, 32) | blocks(40, 48), blocks(8, 40) | blocks(48, 56));
        assert_eq!([equal & early, equal & late].map(u64::count_ones), [32, 32]);
        assert_eq!((early & late).count_ones(), 24);
        let pairing = ChunkPairing::of(&[equal, equal, early, late], 32);
        assert_eq!(pairs(&pairing), [(0, 1, LOW)]);
        assert_eq!(slices(pairing.discarded()), [2, 3]);
    }

    #[test]
    fn edges() {
        let nothing = ChunkPairing::of(&[], 32);
        assert_eq!((nothing.entries(), nothing.discarded()), (0, 0));
        let whole = ChunkPairing::of(&[u64::MAX; 64], 32);
        assert_eq!((whole.self_paired(), whole.entries()), (u64::MAX, 64));
        let halves = ChunkPairing::of(&[LOW; 64], 32);
        assert_eq!((halves.pairs().len(), halves.discarded()), (32, 0));
        let empty = ChunkPairing::of(&[0; 64], 32);
        assert_eq!((empty.entries(), empty.discarded()), (0, u64::MAX));
    }
}
