//! The holes of one 2MB page (perforated pages, P).

use std::ops::Range;

use serde::{Deserialize, Serialize};

/// A set of 4KB sub-pages of one 2MB page, such as its holes: 512 bits, one cache line (P §IV.B).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Hash, Serialize, Deserialize)]
pub struct HoleSet {
    words: [u64; 8],
}

impl HoleSet {
    /// The empty set: no sub-page is a hole.
    pub const EMPTY: Self = Self { words: [0; 8] };
    /// The full set: all 512 sub-pages are holes.
    pub const FULL: Self = Self { words: [u64::MAX; 8] };
    /// Number of 4KB sub-pages in a 2MB page.
    pub const SUBPAGES: usize = 512;

    /// Builds a set from words: bit *i* of `words[r]` is sub-page *i* of 256KB region *r*.
    pub const fn from_words(words: [u64; 8]) -> Self {
        Self { words }
    }

    /// The 512 bits of the set, one word for each 256KB region.
    pub const fn words(&self) -> [u64; 8] {
        self.words
    }

    /// True if sub-page `index` (0–511) is a hole.
    pub const fn contains(&self, index: usize) -> bool {
        self.words[index / 64] >> (index % 64) & 1 != 0
    }

    /// Adds sub-page `index` (0–511); returns true if it was not in the set.
    pub const fn insert(&mut self, index: usize) -> bool {
        let new = !self.contains(index);
        self.words[index / 64] |= 1 << (index % 64);
        new
    }

    /// Removes sub-page `index` (0–511); returns true if it was in the set.
    pub const fn remove(&mut self, index: usize) -> bool {
        let old = self.contains(index);
        self.words[index / 64] &= !(1 << (index % 64));
        old
    }

    /// Number of holes, 0–512.
    pub fn count(&self) -> usize {
        self.words.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// True if the page has no hole.
    pub fn is_empty(&self) -> bool {
        self.words == [0; 8]
    }

    /// The eight-bit filter of the page-directory entry: bit *r* is set if 256KB region *r* has a
    /// hole.
    pub fn filter(&self) -> u8 {
        (0..8).fold(0, |filter, region| filter | u8::from(self.words[region] != 0) << region)
    }

    /// The set of all sub-pages in `range`.
    pub fn of_range(range: Range<usize>) -> Self {
        let below = |index: usize, word: usize| match index.saturating_sub(64 * word) {
            0 => 0,
            64.. => u64::MAX,
            bits => (1 << bits) - 1,
        };
        Self {
            words: std::array::from_fn(|word| below(range.end, word) & !below(range.start, word)),
        }
    }

    /// Union of two sets. P §V combines the holes of guest and host this way.
    pub fn union(&self, other: &Self) -> Self {
        let mut words = self.words;
        for (word, more) in words.iter_mut().zip(other.words) {
            *word |= more;
        }
        Self { words }
    }

    /// Difference of two sets: holes of `self` that are not in `other`.
    pub fn minus(&self, other: &Self) -> Self {
        let mut words = self.words;
        for (word, fewer) in words.iter_mut().zip(other.words) {
            *word &= !fewer;
        }
        Self { words }
    }

    /// Lowest index; `None` if the set is empty.
    pub fn first(&self) -> Option<usize> {
        self.iter().next()
    }

    /// Indices of the holes, ascending.
    pub fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        self.words.iter().enumerate().flat_map(|(region, &word)| {
            let mut left = word;
            std::iter::from_fn(move || {
                let index = (left != 0).then(|| region * 64 + left.trailing_zeros() as usize)?;
                left &= left - 1;
                Some(index)
            })
        })
    }

    /// Runs of consecutive holes, ascending.
    pub fn runs(&self) -> impl Iterator<Item = Range<usize>> + '_ {
        let mut next = 0;
        std::iter::from_fn(move || {
            let start = self.next_where(next, true);
            next = self.next_where(start, false);
            (start < Self::SUBPAGES).then_some(start..next)
        })
    }

    /// The first sub-page at or after `index` that is a hole (or, if `hole` is false, is not); 512
    /// if none.
    fn next_where(&self, index: usize, hole: bool) -> usize {
        for region in index / 64..8 {
            let word = if hole { self.words[region] } else { !self.words[region] };
            let from = if region == index / 64 { u64::MAX << (index % 64) } else { u64::MAX };
            if word & from != 0 {
                return region * 64 + (word & from).trailing_zeros() as usize;
            }
        }
        Self::SUBPAGES
    }
}

impl FromIterator<usize> for HoleSet {
    fn from_iter<I: IntoIterator<Item = usize>>(indices: I) -> Self {
        let mut set = Self::EMPTY;
        for index in indices {
            set.insert(index);
        }
        set
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filter_has_one_bit_per_256kb_region() {
        let holes: HoleSet = [0, 63, 64, 511].into_iter().collect();
        assert_eq!(holes.filter(), 0b1000_0011);
        assert_eq!(holes.count(), 4);
        assert_eq!(holes.iter().collect::<Vec<_>>(), [0, 63, 64, 511]);
        assert_eq!(HoleSet::FULL.filter(), 0xff);
        assert_eq!(HoleSet::EMPTY.filter(), 0);
    }

    #[test]
    fn ranges_begin_and_end_anywhere() {
        for range in [0..0, 0..1, 60..130, 64..128, 0..512, 511..512, 200..200, 65..511] {
            assert_eq!(HoleSet::of_range(range.clone()), range.clone().collect(), "{range:?}");
        }
    }

    #[test]
    fn runs_cross_regions() {
        let holes: HoleSet = (60..130).chain([0, 200, 511]).collect();
        assert_eq!(holes.runs().collect::<Vec<_>>(), [0..1, 60..130, 200..201, 511..512]);
        assert_eq!(HoleSet::EMPTY.runs().next(), None);
        assert!(HoleSet::FULL.runs().eq(std::iter::once(0..512)));
    }

    #[test]
    fn insert_and_remove_report_what_changed() {
        let mut holes = HoleSet::EMPTY;
        assert!(holes.insert(200));
        assert!(!holes.insert(200));
        assert!(holes.remove(200));
        assert!(!holes.remove(200));
        assert!(holes.is_empty());
    }
}
