//! A set of small numbers with fast access to its minimum and maximum.

/// Largest number of tree levels: numbers below 64⁵ fit.
const MOST_LEVELS: usize = 5;

/// Set of numbers as a tree of bitmaps. Level 0 has a bit for each member. Each higher level has a bit for
/// each nonzero word of the level below. The number of levels suits the greatest number ever inserted, so
/// that the top level is a single word.
#[derive(Clone, Debug, Default)]
pub(super) struct NumberSet {
    /// Words of each level of the tree, lowest level first.
    levels: [Vec<u64>; MOST_LEVELS],
    height: usize,
}

impl NumberSet {
    /// Adds a number; it may be in the set already.
    pub(super) fn insert(&mut self, number: u64) {
        let mut index = number as usize;
        if self.levels[0].len() <= index / 64 {
            self.grow(index);
        }
        for words in &mut self.levels[..self.height] {
            let word = &mut words[index / 64];
            let was_nonzero = *word != 0;
            *word |= 1 << (index % 64);
            if was_nonzero {
                return; // The levels above know of this word.
            }
            index /= 64;
        }
    }

    /// Extends the tree to hold `number`: adds words to every level, and adds levels.
    #[cold]
    fn grow(&mut self, number: usize) {
        let mut words = (number / 64 + 1).next_power_of_two();
        for level in 0.. {
            self.levels[level].resize(words, 0);
            if level == self.height {
                self.height += 1;
                // A new top level is a single word, whose bit 0 represents the former top word.
                if level > 0 && self.levels[level - 1][0] != 0 {
                    self.levels[level][0] = 1;
                }
            }
            if words == 1 {
                return;
            }
            words = words.div_ceil(64);
        }
    }

    /// Removes a number; it may be absent.
    #[inline]
    pub(super) fn remove(&mut self, number: u64) {
        let mut index = number as usize;
        for words in &mut self.levels[..self.height] {
            let Some(word) = words.get_mut(index / 64) else { return };
            *word &= !(1 << (index % 64));
            if *word != 0 {
                return;
            }
            index /= 64;
        }
    }

    /// The smallest number in the set.
    #[inline]
    pub(super) fn first(&self) -> Option<u64> {
        self.descend(|word| word.trailing_zeros() as usize)
    }

    /// The greatest number in the set.
    #[inline]
    pub(super) fn last(&self) -> Option<u64> {
        self.descend(|word| 63 - word.leading_zeros() as usize)
    }

    #[inline]
    fn descend(&self, pick: impl Fn(u64) -> usize) -> Option<u64> {
        let levels = &self.levels[..self.height];
        if *levels.last()?.first()? == 0 {
            return None;
        }
        let down = |index: usize, words: &Vec<u64>| index * 64 + pick(words[index]);
        Some(levels.iter().rev().fold(0, down) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn behaves_like_a_btree_set(steps in prop::collection::vec((any::<bool>(), 0u64..70_000), 1..400)) {
            let (mut set, mut model) = (NumberSet::default(), BTreeSet::new());
            for (add, number) in steps {
                // Numbers from small ranges, so that the same ones are drawn again.
                let number = if number % 3 == 0 { number } else { number % 100 };
                if add {
                    set.insert(number);
                    model.insert(number);
                } else {
                    set.remove(number);
                    model.remove(&number);
                }
                prop_assert_eq!(set.first(), model.first().copied());
                prop_assert_eq!(set.last(), model.last().copied());
            }
        }
    }
}
