//! Pairs of slices for the entries of a paired mode, found by Algorithm 1 (G §3.6).
//!
//! The algorithm processes a whole chunk at a time, so its pairs are stored until they are needed.
//! A pair is dropped if a selected B-block has been allocated meanwhile. A chunk is processed again
//! after it has gained a usable B-block, or after its pairs are used up if some were dropped.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::ChunkPairing;

/// Two slices with a common selection bitmap. A self-paired slice has `first == second`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FoundPair {
    /// Index of the pair's first slice in memory.
    pub first: u64,
    /// Index of the pair's second slice in memory.
    pub second: u64,
    /// Bitmap of the B-blocks that are selected in both slices.
    pub selection: u64,
}

impl FoundPair {
    fn is_usable(&self, vectors: &[u64]) -> bool {
        let has = |slice: u64| vectors[slice as usize] & self.selection == self.selection;
        has(self.first) && has(self.second)
    }
}

/// Pairs of slices that were found in a memory and are still unused.
#[derive(Clone, Debug)]
pub(super) struct Pairs {
    slices_per_chunk: u64,
    /// 128MB chunks of memory with B-blocks (64ths of a slice) that became usable after the chunk
    /// was last searched for pairs.
    unsearched: BTreeSet<u64>,
    /// Unused pairs of slices of each 128MB chunk; the next pair to use is last.
    found: BTreeMap<u64, Vec<FoundPair>>,
}

impl Pairs {
    /// Creates an empty set of pairs, for a memory without usable B-blocks and `slices_per_chunk`
    /// slices in a chunk.
    pub(super) fn new(slices_per_chunk: u64) -> Self {
        Self { slices_per_chunk, unsearched: BTreeSet::new(), found: BTreeMap::new() }
    }

    /// Records that a slice gained usable B-blocks, so that its chunk is searched for pairs again.
    pub(super) fn record_gain(&mut self, slice: u64) {
        self.unsearched.insert(slice / self.slices_per_chunk);
    }

    /// Removes and returns a usable pair from the chunks that begin in the range `slices`; `None`
    /// if there is no such pair. `may_use` returns true for slices that may be paired.
    pub(super) fn take(
        &mut self,
        slices: &Range<u64>,
        vectors: &[u64],
        threshold: u32,
        may_use: impl Fn(u64) -> bool,
    ) -> Option<FoundPair> {
        let chunks = slices.start.div_ceil(self.slices_per_chunk)
            ..slices.end.div_ceil(self.slices_per_chunk);
        loop {
            let unsearched = self.unsearched.range(chunks.clone()).next().copied();
            let found = self.found.range(chunks.clone()).next().map(|(&chunk, _)| chunk);
            let chunk = unsearched.into_iter().chain(found).min()?;
            if self.unsearched.remove(&chunk) {
                self.search(chunk, vectors, threshold, &may_use);
            }
            let pairs = self.found.entry(chunk).or_default();
            let mut has_dropped_pairs = false;
            while let Some(pair) = pairs.pop() {
                if pair.is_usable(vectors) {
                    return Some(pair);
                }
                has_dropped_pairs = true;
            }
            self.found.remove(&chunk);
            // The slices of dropped pairs may form new pairs. The loop ends because all pairs of a
            // fresh search are usable.
            if has_dropped_pairs {
                self.unsearched.insert(chunk);
            }
        }
    }

    fn search(
        &mut self,
        chunk: u64,
        vectors: &[u64],
        threshold: u32,
        may_use: impl Fn(u64) -> bool,
    ) {
        let first = chunk * self.slices_per_chunk;
        let end = (first + self.slices_per_chunk).min(vectors.len() as u64);
        let usable = |slice: u64| if may_use(slice) { vectors[slice as usize] } else { 0 };
        let usable: Vec<u64> = (first..end).map(usable).collect();
        let pairing = ChunkPairing::of(&usable, threshold);
        let whole = (0..64)
            .filter(|slice| pairing.self_paired() >> slice & 1 != 0)
            .map(|slice| FoundPair { first: first + slice, second: first + slice, selection: !0 });
        let pairs = pairing.pairs().iter().map(|pair| FoundPair {
            first: first + u64::from(pair.first),
            second: first + u64::from(pair.second),
            selection: pair.selection,
        });
        let mut found: Vec<_> = whole.chain(pairs).collect();
        found.reverse();
        self.found.insert(chunk, found);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOW: u64 = 0xffff_ffff;

    /// Uses two chunks of two slices. The slices of the first chunk share the low half; one slice
    /// of the second chunk is whole.
    #[test]
    fn pairs_are_found_once_and_unusable_ones_dropped() {
        let mut vectors = [LOW | 1 << 40, LOW, !0, LOW << 32];
        let mut pairs = Pairs::new(2);
        (0..4).for_each(|slice| pairs.record_gain(slice));
        let take = |pairs: &mut Pairs, vectors: &[u64]| pairs.take(&(0..4), vectors, 32, |_| true);
        let first = take(&mut pairs, &vectors).unwrap();
        assert_eq!((first.first, first.second, first.selection), (1, 0, LOW));
        assert!(pairs.unsearched.contains(&1), "chunk 1 is not looked through before it is needed");
        (vectors[0], vectors[1]) = (1 << 40, 0);
        let whole = take(&mut pairs, &vectors).unwrap();
        assert_eq!((whole.first, whole.second, whole.selection), (2, 2, !0));
        assert!(take(&mut pairs, &vectors).is_none());
        // The pair is found again after its chunk gains a B-block, and dropped after it loses one.
        pairs.record_gain(2);
        pairs.search(1, &vectors, 32, |_| true);
        vectors[2] = LOW;
        pairs.unsearched.clear();
        assert!(take(&mut pairs, &vectors).is_none());
    }

    /// Four whole slices: two lose a B-block before their use and are then paired.
    #[test]
    fn slices_of_dropped_pairs_are_paired_again() {
        let mut vectors = [!0; 4];
        let mut pairs = Pairs::new(4);
        pairs.record_gain(0);
        let take = |pairs: &mut Pairs, vectors: &[u64]| pairs.take(&(0..4), vectors, 32, |_| true);
        let whole = |first| FoundPair { first, second: first, selection: !0 };
        assert_eq!(take(&mut pairs, &vectors), Some(whole(0)));
        vectors = [0, !1, !0, !2];
        assert_eq!(take(&mut pairs, &vectors), Some(whole(2)));
        vectors[2] = 0;
        let found = take(&mut pairs, &vectors).unwrap();
        assert_eq!((found.first, found.second, found.selection), (1, 3, LOW << 2));
        vectors = [0; 4];
        assert_eq!(take(&mut pairs, &vectors), None);
    }

    #[test]
    fn slices_that_may_not_be_used_are_not_paired() {
        let mut pairs = Pairs::new(2);
        pairs.record_gain(0);
        assert!(pairs.take(&(0..2), &[!0, !0], 32, |slice| slice == 5).is_none());
        pairs.record_gain(0);
        let found = pairs.take(&(0..2), &[!0, !0], 32, |slice| slice == 1).unwrap();
        assert_eq!((found.first, found.second), (1, 1));
    }

    /// A pair needs its B-blocks in both slices. In the second chunk of four slices, slice 6 is whole.
    #[test]
    fn a_pair_that_lost_blocks_in_either_slice_is_dropped() {
        for lost in [0, 1] {
            let mut vectors = [LOW, LOW];
            let mut pairs = Pairs::new(2);
            pairs.search(0, &vectors, 32, |_| true);
            assert_eq!(pairs.found[&0].len(), 1);
            vectors[lost] = LOW - 1;
            assert_eq!(pairs.take(&(0..2), &vectors, 32, |_| true), None, "slice {lost}");
        }
        let mut pairs = Pairs::new(4);
        pairs.record_gain(6);
        assert_eq!(pairs.unsearched, BTreeSet::from([1]));
        let vectors = [0, 0, 0, 0, 0, 0, !0, 0];
        let found = pairs.take(&(0..8), &vectors, 32, |_| true).unwrap();
        assert_eq!((found.first, found.second, found.selection), (6, 6, !0));
        // Slices of the first chunk alone are asked for.
        pairs.record_gain(6);
        assert_eq!(pairs.take(&(0..4), &vectors, 32, |_| true), None);
        assert!(pairs.take(&(4..8), &vectors, 32, |_| true).is_some());
    }
}
